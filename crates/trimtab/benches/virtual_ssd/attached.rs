//! Attached drives, mounts and fio, taken away again however a measurement ends.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program that is measured: this build, or the one that `TRIMTAB_BENCH_PROGRAM`
/// names.
fn program() -> Command {
    Command::new(
        std::env::var_os("TRIMTAB_BENCH_PROGRAM")
            .unwrap_or_else(|| env!("CARGO_BIN_EXE_trimtab").into()),
    )
}

pub struct Attached {
    runtime: tempfile::TempDir,
    pub device: String,
}

impl Attached {
    /// The Vertex LE with another size, and more options.
    pub fn new(size: &str, more: &[&str]) -> Self {
        let mut this = Self { runtime: tempfile::tempdir().unwrap(), device: String::new() };
        let pid = std::process::id().to_string();
        let mut args =
            vec!["drive", "attach", "ocz-vertex-le-100gb", "--size", size, "--detach-with", &pid];
        args.extend(more);
        this.device = this.trimtab(&args).trim().to_owned();
        this
    }

    pub fn trimtab(&self, args: &[&str]) -> String {
        let mut command = program();
        command
            .env("TRIMTAB_RUNTIME_DIR", self.runtime.path())
            .env("TRIMTAB_STATE_DIR", self.runtime.path().join("state"));
        output(
            command
                .args(["--quiet", "--yes", "--store"])
                .arg(self.runtime.path().join("store.db"))
                .args(args),
        )
    }

    pub fn status(&self) -> Value {
        let mut document: Value =
            serde_json::from_str(&self.trimtab(&["drive", "status", "--json"])).unwrap();
        document["drives"][0].take()
    }

    /// A number of the status, by its place such as `discards.effective_bytes`.
    pub fn number(&self, place: &str) -> f64 {
        place
            .split('.')
            .fold(self.status(), |value, part| value[part].clone())
            .as_f64()
            .unwrap_or(0.0)
    }

    pub fn pid(&self) -> u64 {
        self.status()["pid"].as_u64().unwrap()
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let mut command = program();
        let _ = command
            .env("TRIMTAB_RUNTIME_DIR", self.runtime.path())
            .args(["drive", "detach", "--all", "--force"])
            .output();
    }
}

pub struct Mounted {
    directory: tempfile::TempDir,
}

impl Mounted {
    pub fn new(device: &str, options: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        output(Command::new("mount").args(["-o", options, device]).arg(directory.path()));
        Self { directory }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn text(&self) -> &str {
        self.directory.path().to_str().unwrap()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).output();
    }
}

/// A loop device over a plain file in memory.
pub struct Plain {
    _file: tempfile::NamedTempFile,
    pub device: String,
}

impl Plain {
    pub fn new(bytes: u64) -> Self {
        let file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
        file.as_file().set_len(bytes).unwrap();
        let device = output(Command::new("losetup").args(["--find", "--show"]).arg(file.path()))
            .trim()
            .to_owned();
        Self { _file: file, device }
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.device]).output();
    }
}

/// What fio says of one job on `device`.
pub fn fio(device: &str, more: &[&str]) -> Value {
    let mut command = Command::new("fio");
    command.args([
        "--name=job",
        "--ioengine=io_uring",
        "--direct=1",
        "--output-format=json",
        "--norandommap",
        "--filename",
        device,
    ]);
    let said = output(command.args(more));
    let document: Value = serde_json::from_str(&said[said.find('{').unwrap()..]).unwrap();
    assert_eq!(document["jobs"][0]["error"], 0);
    document["jobs"][0].clone()
}

pub fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Seconds of processor time that a process has used.
pub fn cpu_seconds(pid: u64) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// A size in kB of a process's status, in bytes.
pub fn memory(pid: u64, field: &str) -> u64 {
    let status = std::fs::read_to_string(PathBuf::from(format!("/proc/{pid}/status"))).unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}
