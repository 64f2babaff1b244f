//! Filesystems in user space: they keep removed files that are open, and their servers
//! can hang.

use crate::support::{
    LoopDevice, LoopMount, at_home, have_root, have_tool, process, program, run, skip, trimtab,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Far longer than any test here takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A foreground server and its mount. Both end on drop, even if the server was stopped.
struct FuseMount {
    server: Child,
    path: PathBuf,
    _beside: Vec<Ended>,
    scratch: tempfile::TempDir,
    _device: Option<LoopDevice>,
}

/// A process that ends with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn is_mounted(path: &Path) -> bool {
    fs::read_to_string("/proc/self/mountinfo")
        .is_ok_and(|table| table.contains(&format!(" {} ", path.display())))
}

fn scratch() -> tempfile::TempDir {
    let scratch = tempfile::Builder::new().prefix("trimtab-test-").tempdir_in("/dev/shm").unwrap();
    for directory in ["src", "mnt"] {
        fs::create_dir(scratch.path().join(directory)).unwrap();
    }
    scratch
}

impl FuseMount {
    /// Starts `server`, which mounts at `scratch/mnt`.
    fn start(
        mut server: Command,
        scratch: tempfile::TempDir,
        beside: Vec<Ended>,
        device: Option<LoopDevice>,
    ) -> Self {
        let path = scratch.path().join("mnt");
        let server = server.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let mut this = Self { server, path, _beside: beside, scratch, _device: device };
        wait_until("the FUSE server mounts", || {
            assert!(this.server.try_wait().unwrap().is_none(), "the FUSE server ended");
            is_mounted(&this.path)
        });
        this
    }

    fn bindfs() -> Option<Self> {
        if !have_tool("bindfs") {
            return None;
        }
        let scratch = scratch();
        let mut server = Command::new("bindfs");
        server.arg("-f").arg(scratch.path().join("src")).arg(scratch.path().join("mnt"));
        Some(Self::start(server, scratch, Vec::new(), None))
    }

    fn ntfs() -> Option<Self> {
        let device = LoopDevice::new(96).filter(|_| have_tool("ntfs-3g"))?;
        let node = device.node();
        run("mkntfs", &["--fast", "--force", "--quiet", &node])?;
        let scratch = scratch();
        let mut server = Command::new("ntfs-3g");
        server.args(["-o", "no_detach,big_writes", &node]).arg(scratch.path().join("mnt"));
        Some(Self::start(server, scratch, Vec::new(), Some(device)))
    }

    /// Mounts through a private sshd on the loopback interface, with its own keys.
    fn sshfs() -> Option<Self> {
        if !have_tool("sshfs") || !Path::new("/usr/sbin/sshd").exists() {
            return None;
        }
        let scratch = scratch();
        let file = |name: &str| scratch.path().join(name).display().to_string();
        for key in ["host", "user"] {
            run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", &file(key)])?;
        }
        fs::copy(file("user.pub"), file("authorized")).unwrap();
        // The directory for sshd's privilege separation.
        let _ = fs::create_dir("/run/sshd");
        let port =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let config = format!(
            "ListenAddress 127.0.0.1\nPort {port}\nHostKey {}\n\
                AuthorizedKeysFile {}\nPidFile none\nStrictModes no\nUsePAM no\n\
                PermitRootLogin yes\nPasswordAuthentication no\n\
                Subsystem sftp internal-sftp\n",
            file("host"),
            file("authorized")
        );
        fs::write(file("config"), config).unwrap();
        let host_key = fs::read_to_string(file("host.pub")).unwrap();
        fs::write(file("known"), format!("[127.0.0.1]:{port} {host_key}")).unwrap();
        let sshd = Command::new("/usr/sbin/sshd")
            .args(["-D", "-q", "-f", &file("config")])
            .spawn()
            .ok()
            .map(Ended)?;
        wait_until("sshd listens", || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok());
        let mut server = Command::new("sshfs");
        let ssh = format!(
            "ssh_command=ssh -F /dev/null -i {} -o IdentitiesOnly=yes -o UserKnownHostsFile={}",
            file("user"),
            file("known")
        );
        server.args(["-f", "-p", &port.to_string(), "-o", &ssh]);
        server.arg(format!("root@127.0.0.1:{}", file("src"))).arg(scratch.path().join("mnt"));
        Some(Self::start(server, scratch, vec![sshd], None))
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.server), signal).unwrap();
    }

    /// The workspaces that exist.
    fn left(&self) -> Vec<String> {
        let names = fs::read_dir(&self.path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("trimtab-work-")).collect()
    }
}

impl Drop for FuseMount {
    fn drop(&mut self) {
        // Requests that wait for the server fail once it has ended.
        let _ = self.server.kill();
        let _ = self.server.wait();
        for _ in 0..100 {
            if !is_mounted(&self.path)
                || run("umount", &["--lazy", self.path.to_str().unwrap()]).is_some()
            {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A small benchmark in `directory`, with a private store.
fn bench(directory: &Path, store: &Path) -> assert_cmd::Command {
    let mut command = trimtab();
    command.args([
        "bench",
        "postmark",
        "--number",
        "50",
        "--transactions",
        "50",
        "--tries",
        "1",
        "--reserve",
        "8MiB",
        "--yes",
        "--store",
    ]);
    command.arg(store).arg(directory).timeout(PATIENCE);
    command
}

#[test]
fn bench_on_fuse_keeps_its_run_and_leaves_nothing() {
    if !have_root() {
        return skip("root");
    }
    type Server = fn() -> Option<FuseMount>;
    let servers: [(&str, Server); 3] = [
        ("bindfs", FuseMount::bindfs),
        ("ntfs-3g", FuseMount::ntfs),
        ("sshfs and openssh-server", FuseMount::sshfs),
    ];
    for (package, server) in servers {
        let Some(mount) = server() else {
            skip(package);
            continue;
        };
        let store = mount.scratch.path().join("results.db");
        bench(&mount.path, &store).assert().success().stderr(predicates::str::contains("kept as"));
        assert!(mount.left().is_empty(), "{package}: {:?}", mount.left());
    }
}

#[test]
fn verify_on_ntfs_3g_ends_and_leaves_nothing() {
    if !have_root() {
        return skip("root");
    }
    let Some(mount) = FuseMount::ntfs() else { return skip("ntfs-3g") };
    let verified = trimtab()
        .args(["verify", "--size", "2MiB", "--reserve", "8MiB", "--yes"])
        .arg(&mount.path)
        .timeout(PATIENCE)
        .output()
        .unwrap();
    assert!(verified.status.code().is_some_and(|code| code != 130), "{verified:?}");
    assert!(mount.left().is_empty(), "{:?}", mount.left());
}

#[test]
fn bench_with_file_held_open_keeps_run_and_names_leftover() {
    if !have_root() {
        return skip("root");
    }
    let Some(mount) = FuseMount::bindfs() else { return skip("bindfs") };
    let store = mount.scratch.path().join("results.db");
    let (path, at_store) = (mount.path.clone(), store.clone());
    let bench = std::thread::spawn(move || bench(&path, &at_store).output().unwrap());
    // Simulates another process that holds a file open.
    let mut held = None;
    wait_until("a workspace with a marker", || {
        held = mount
            .left()
            .first()
            .and_then(|name| fs::File::open(mount.path.join(name).join("marker")).ok());
        held.is_some() || bench.is_finished()
    });
    let output = bench.join().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(held.is_some(), "{stderr}");
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("kept as") && stderr.contains("still in use: .fuse_hidden"),
        "{stderr}"
    );
    assert!(!output.stdout.is_empty() && store.exists());
    drop(held);
}

/// The doctor's exit status and its diagnosis of `path`.
fn diagnosis(arguments: &[&str], path: &Path) -> (Option<i32>, Value) {
    let output =
        trimtab().args(["doctor", "--json"]).args(arguments).timeout(PATIENCE).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let found = document["diagnoses"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["subject"] == path.to_str().unwrap());
    (output.status.code(), found.unwrap_or_else(|| panic!("{document:#}")).clone())
}

#[test]
fn doctor_reports_a_mount_that_does_not_answer() {
    if !have_root() {
        return skip("root");
    }
    let Some(mount) = FuseMount::bindfs() else { return skip("bindfs") };
    mount.signal(Signal::STOP);
    let path = mount.path.to_str().unwrap();
    for arguments in [&["--all"][..], &[path], &[&format!("{path}/no/such/file")]] {
        let (status, found) = diagnosis(arguments, &mount.path);
        assert_eq!(found["verdict"]["kind"], "unknown", "{found:#}");
        assert_eq!(found["filesystem"]["findings"][0]["code"], "fs.does-not-answer", "{found:#}");
        assert!(status == Some(4) || arguments == ["--all"] && status == Some(3), "{status:?}");
    }
    let refused = trimtab()
        .args(["bench", "postmark", "--yes"])
        .arg(&mount.path)
        .timeout(PATIENCE)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && stderr.contains("does not answer"), "{stderr}");
}

/// The program with a copy of `/etc` in which fstab lists `target`.
fn with_fstab(mount: &FuseMount, target: &Path, args: &[&str]) -> Command {
    let etc = mount.scratch.path().join("etc");
    run("cp", &["--archive", "/etc", etc.to_str().unwrap()]).unwrap();
    fs::write(etc.join("fstab"), format!("/dev/none {} ext4 defaults 0 0\n", target.display()))
        .unwrap();
    let mut command = Command::new("unshare");
    command
        .args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            "mount --bind \"$0\" /etc && exec \"$@\"",
        ])
        .arg(etc);
    command
        .arg(program())
        .args(args)
        .env("TRIMTAB_RUNTIME_DIR", mount.scratch.path().join("run"))
        .stdin(Stdio::null());
    at_home(&mut command);
    command
}

#[test]
fn trim_all_skips_a_mount_that_does_not_answer() {
    if !have_root() {
        return skip("root");
    }
    let _guard = crate::support::makes_namespaces();
    let Some(mount) = FuseMount::bindfs() else { return skip("bindfs") };
    let mut command = with_fstab(&mount, &mount.path, &["trim", "--all", "--dry-run"]);
    mount.signal(Signal::STOP);
    let mut trim = Ended(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    wait_until("trim --all ends", || trim.0.try_wait().unwrap().is_some());
}

/// A scan below such a mount runs in a thread that no signal reaches.
#[test]
fn interrupt_ends_scan_below_a_hung_mount() {
    let _guard = crate::support::makes_namespaces();
    let Some(ext4) = LoopMount::new("ext4", 64, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    let at = ext4.path();
    let path = at.to_str().unwrap();
    let commands: [&[&str]; 3] = [
        &["trim", "--all", "--dry-run"],
        &["trim", path],
        &["verify", "--size", "2MiB", "--reserve", "8MiB", "--yes", path],
    ];
    for args in commands {
        let Some(mount) = FuseMount::bindfs() else { return skip("bindfs") };
        fs::create_dir(mount.path.join("below")).unwrap();
        let mut command = with_fstab(&mount, &mount.path.join("below/it"), args);
        mount.signal(Signal::STOP);
        let mut child = Ended(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let tasks = PathBuf::from(format!("/proc/{}/task", child.0.id()));
        let scans =
            |task: &Path| fs::read_to_string(task.join("comm")).is_ok_and(|name| name == "scan\n");
        let mut status = None;
        wait_until("the scan begins", || {
            status = child.0.try_wait().unwrap();
            status.is_some()
                || fs::read_dir(&tasks)
                    .is_ok_and(|tasks| tasks.flatten().any(|task| scans(&task.path())))
        });
        // A command that names one filesystem need not look at the others.
        if status.is_some_and(|status| status.success()) && args != commands[0] {
            continue;
        }
        assert_eq!(status, None, "{args:?} ended before its scan");
        kill_process(Pid::from_child(&child.0), Signal::TERM).unwrap();
        wait_until("the command ends", || {
            status = child.0.try_wait().unwrap();
            status.is_some()
        });
        assert!(args[0] != "trim" || status.unwrap().code() == Some(130), "{args:?}: {status:?}");
        let left = fs::read_dir(ext4.path())
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().file_name() != "lost+found");
        assert_eq!(left.count(), 0, "{args:?} leaves nothing");
    }
}

#[test]
fn daemon_metrics_report_mount_that_does_not_answer() {
    if !have_root() {
        return skip("root");
    }
    let Some(mount) = FuseMount::ntfs() else { return skip("ntfs-3g") };
    let home = mount.scratch.path();
    let (config, metrics) = (home.join("trimtab.toml"), home.join("trimtab.prom"));
    let text = format!(
        "[daemon]\nstate = \"{0}/state\"\nmetrics = \"{0}/trimtab.prom\"\nmetrics-every = \"1s\"\n\
         [[filesystem]]\npath = \"{0}/mnt\"\npolicy = \"batched\"\n",
        home.display()
    );
    fs::write(&config, text).unwrap();
    let sample = |value: u32| {
        let text = fs::read_to_string(&metrics).unwrap_or_default();
        text.lines().any(|line| {
            line.starts_with("trimtab_filesystem_answers{") && line.ends_with(&format!(" {value}"))
        })
    };
    mount.signal(Signal::STOP);
    let daemon = process()
        .args(["daemon", "--config"])
        .arg(&config)
        .env("TRIMTAB_RUNTIME_DIR", home.join("run"))
        .stderr(Stdio::null())
        .spawn();
    let mut daemon = Ended(daemon.unwrap());
    wait_until("a sample that says it does not answer", || sample(0));
    mount.signal(Signal::CONT);
    wait_until("a sample that says it answers", || sample(1));
    mount.signal(Signal::STOP);
    wait_until("a sample that says it hangs again", || sample(0));
    kill_process(Pid::from_child(&daemon.0), Signal::TERM).unwrap();
    let mut code = None;
    wait_until("the daemon ends", || {
        code = daemon.0.try_wait().unwrap();
        code.is_some()
    });
    assert!(code.unwrap().success());
}
