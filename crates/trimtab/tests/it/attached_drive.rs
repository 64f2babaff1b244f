//! Attached drives and mounted filesystems, removed however the test ends.

use crate::support::{have_root, skip, trimtab};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// A drive attached by the program, in a private runtime directory.
pub struct Attached {
    runtime: tempfile::TempDir,
    pub device: PathBuf,
}

impl Attached {
    /// `trimtab drive attach` with these arguments.
    pub fn new(args: &[&str]) -> Self {
        let runtime = tempfile::tempdir().unwrap();
        let mut this = Self { runtime, device: PathBuf::new() };
        // The drive detaches if the test is killed.
        let pid = std::process::id().to_string();
        let mut all = vec!["drive", "attach", "--detach-with", &pid];
        all.extend(args);
        // The lab runs these tests under each transport.
        let wanted = std::env::var("TRIMTAB_TEST_TRANSPORT").unwrap_or_default();
        if !wanted.is_empty() && !args.iter().any(|arg| ["--transport", "--no-block"].contains(arg))
        {
            all.extend(["--transport", &wanted]);
        }
        this.device = this.run(&all).trim().into();
        this
    }

    /// The runtime directory, which records attached drives.
    pub fn runtime(&self) -> &Path {
        self.runtime.path()
    }

    /// The program, limited to this test's drives.
    pub fn command(&self) -> assert_cmd::Command {
        let mut command = trimtab();
        command.env("TRIMTAB_RUNTIME_DIR", self.runtime.path());
        command
    }

    /// Runs the program with `args`, asserts success, and returns its output.
    pub fn run(&self, args: &[&str]) -> String {
        let output = self.command().args(args).output().unwrap();
        assert!(
            output.status.success(),
            "trimtab {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// The drive's status, as its server reports it.
    pub fn status(&self) -> Value {
        let mut document: Value =
            serde_json::from_str(&self.run(&["drive", "status", "--json"])).unwrap();
        document["drives"][0].take()
    }

    /// Cuts or restores the power.
    pub fn power(&self, what: &str) {
        self.run(&["drive", "power", self.device.to_str().unwrap(), what]);
    }

    /// Cuts the power at a random one of the next `n` requests that count.
    pub fn power_fails_within(&self, n: u64) {
        self.run(&[
            "drive",
            "power",
            self.device.to_str().unwrap(),
            "cut",
            "--within",
            &n.to_string(),
        ]);
    }

    /// `trimtab drive detach`.
    pub fn detach(self) {
        self.run(&["drive", "detach"]);
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // Detaches nothing if the test has already detached the drive.
        let _ = self.command().args(["drive", "detach", "--all", "--force"]).output();
    }
}

/// A mounted filesystem.
pub struct Mounted {
    directory: tempfile::TempDir,
}

impl Mounted {
    /// Mounts `device`; returns the reason on failure.
    pub fn new(device: &Path, options: &str) -> Result<Self, String> {
        let directory = tempfile::tempdir().unwrap();
        let output = Command::new("mount")
            .args(["-o", options])
            .arg(device)
            .arg(directory.path())
            .output()
            .unwrap();
        if output.status.success() {
            Ok(Self { directory })
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Unmounts the filesystem. A process that scans all mounts may hold it open briefly.
    pub fn unmount(self) {
        let patience = Instant::now() + Duration::from_secs(10);
        loop {
            let output = Command::new("umount").arg(self.path()).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            if output.status.success() {
                return;
            }
            assert!(
                said.contains("busy") && Instant::now() < patience,
                "umount {}: {said}",
                self.path().display()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).output();
    }
}

/// A mounted filesystem of `size` on a drive whose TRIM takes `command_ms` per command and
/// `gb_ms` per GB, so that a pass in idle time lasts for seconds. `None` if that is
/// impossible here.
pub fn slow_trims(
    fs_type: &str,
    size: &str,
    (command_ms, gb_ms): (u64, u64),
    more: &[&str],
) -> Option<(Attached, Mounted)> {
    let mkfs = format!("mkfs.{fs_type}");
    if !have_root() || !Path::new("/dev/fuse").exists() || !have(&[&mkfs]) {
        skip("root, FUSE and mkfs");
        return None;
    }
    let scratch = tempfile::tempdir().unwrap();
    let spec = scratch.path().join("slow.toml");
    let text = format!(
        "name = \"slow\"\ndescription = \"x\"\ncapacity_bytes = 32_000_000_000\n[flash.trim]\n\
        command_ns = {}\ngb_ns = {}\n",
        command_ms * 1_000_000,
        gb_ms * 1_000_000
    );
    std::fs::write(&spec, text).unwrap();
    let drive = Attached::new(&[&[spec.to_str().unwrap(), "--size", size][..], more].concat());
    let options: &[&str] = match fs_type {
        "ext4" => &["-q", "-F", "-E", "nodiscard,lazy_itable_init=0"],
        _ => &["-q", "-f", "-K"],
    };
    ok(Command::new(mkfs).args(options).arg(&drive.device));
    let mounted = Mounted::new(&drive.device, "nodiscard").unwrap();
    Some((drive, mounted))
}

/// Runs `command`, asserts success, and returns its output.
pub fn ok(command: &mut Command) -> Output {
    // Some programs scan every loop device, including that of a server that another test
    // has just killed.
    const ANOTHERS: &str = "Transport endpoint is not connected";
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let patience = Instant::now() + Duration::from_secs(20);
    let output = loop {
        let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        if output.status.success()
            || !text(&output.stderr).contains(ANOTHERS)
            || Instant::now() > patience
        {
            break output;
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    assert!(
        output.status.success(),
        "{command:?}: {}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    output
}

/// True if all of these programs are installed.
pub fn have(programs: &[&str]) -> bool {
    programs.iter().all(|program| Command::new(program).arg("--version").output().is_ok())
}
