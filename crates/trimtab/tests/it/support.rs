//! Helpers of the integration tests: run the binary, and report why a test cannot run
//! here.

use assert_cmd::Command;

/// The binary under test, with a private store and no colours.
pub fn trimtab() -> Command {
    let mut command = Command::from_std(process());
    command.timeout(HANGS);
    command
}

/// A command that exceeds this time hangs: the test fails with its output.
const HANGS: std::time::Duration = std::time::Duration::from_secs(600);

/// The same as a `std` command, for background processes.
pub fn process() -> std::process::Command {
    let mut command = std::process::Command::new(program());
    at_home(&mut command);
    command
}

/// Gives `command`, which eventually starts the binary under test, a private store and no
/// colours.
pub fn at_home(command: &mut std::process::Command) {
    command
        .env("NO_COLOR", "1")
        .env_remove("RUST_BACKTRACE")
        .env("XDG_DATA_HOME", data_directory());
    command.env("TRIMTAB_STATE_DIR", data_directory().join("state"));
}

/// The tests' default store, which keeps the user's own results untouched.
fn data_directory() -> &'static std::path::Path {
    static DIRECTORY: std::sync::OnceLock<std::path::PathBuf> = std::sync::OnceLock::new();
    DIRECTORY.get_or_init(|| std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("data"))
}

/// A new mount namespace keeps all current mounts: another test's filesystem stays
/// mounted there after its unmount.
static NAMESPACES: std::sync::RwLock<()> = std::sync::RwLock::new(());

/// Hold this guard while a test has a mount namespace.
#[allow(dead_code, reason = "benchmarks share this file")]
pub fn makes_namespaces() -> std::sync::RwLockReadGuard<'static, ()> {
    NAMESPACES.read().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Hold this guard while a test needs its unmounts to be final.
#[allow(dead_code, reason = "benchmarks share this file")]
pub fn without_namespaces() -> std::sync::RwLockWriteGuard<'static, ()> {
    NAMESPACES.write().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[path = "skip.rs"]
pub mod skip;
#[allow(unused_imports, reason = "benchmarks share this file")]
pub use skip::{skip, unavailable};

/// Saves runs in a store, each given by the fields of its JSON; returns their ids. Fields
/// that are left out say that the run was measured in a directory.
#[allow(dead_code, reason = "benchmarks share this file")]
pub fn save_runs(
    store: &std::path::Path,
    runs: impl IntoIterator<Item = serde_json::Value>,
) -> Vec<String> {
    let run = |mut fields: serde_json::Value| -> trimtab_sim::run::Run {
        for (key, default) in [("target", "directory"), ("provenance", "measured")] {
            if fields[key].is_null() {
                fields[key] = default.into();
            }
        }
        serde_json::from_value(fields).unwrap()
    };
    let runs: Vec<_> = runs.into_iter().map(run).collect();
    let mut store = trimtab::store::Store::create_or_open(store).unwrap();
    store.save_all(&runs).unwrap().iter().map(|saved| saved.id.to_string()).collect()
}

/// The path of the binary under test. Start it with [`process`], unless another program
/// must wrap it.
pub fn program() -> std::path::PathBuf {
    assert_cmd::cargo::cargo_bin("trimtab")
}

/// Copies a program so that it can be run. A separate process does the copying: a process
/// that another test forks at that moment would inherit the open file, and an executable
/// open for writing cannot run.
pub fn copy_program(from: &std::path::Path, to: &std::path::Path) {
    assert!(std::process::Command::new("cp").arg(from).arg(to).status().unwrap().success());
}

/// True if this process may mount and attach.
pub fn have_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// True if `tool` can be started.
pub fn have_tool(tool: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(tool).is_file()))
}

/// A mounted private filesystem, removed on drop.
pub struct LoopMount {
    scratch: tempfile::TempDir,
    device: Option<FreshLoop>,
}

impl LoopMount {
    /// Makes `fs_type` on a loop device over a file of `mib` MiB in memory, and mounts it
    /// with `options`. `None` if that is impossible here.
    pub fn new(fs_type: &str, mib: u64, options: &str) -> Option<Self> {
        Self::with(fs_type, mib, options, false)
    }

    /// The same on the only partition of the device.
    #[allow(dead_code, reason = "benchmarks share this file")]
    pub fn on_partition(fs_type: &str, mib: u64, options: &str) -> Option<Self> {
        Self::with(fs_type, mib, options, true)
    }

    fn with(fs_type: &str, mib: u64, options: &str, partitioned: bool) -> Option<Self> {
        let mut mount = Self::scratch()?;
        let image = mount.scratch.path().join("image");
        std::fs::File::create(&image).unwrap().set_len(mib << 20).unwrap();
        let device = FreshLoop::attach(image.to_str()?)?;
        let mut node = device.node();
        mount.device = Some(device);
        if partitioned {
            run("addpart", &[&node, "1", "2048", &((mib << 11) - 2048).to_string()])?;
            node.push_str("p1");
        }
        let force = if fs_type == "ext4" { "-F" } else { "-f" };
        run("mkfs", &["-t", fs_type, "-q", force, &node])?;
        let options = if options.is_empty() { "defaults" } else { options };
        run("mount", &["-o", options, &node, mount.path().to_str()?])?;
        Some(mount)
    }

    /// A byte copy of `device`, mounted from a second one.
    pub fn copy(device: &std::path::Path) -> Option<Self> {
        let mut copy = Self::scratch()?;
        let image = copy.scratch.path().join("image");
        run("cp", &["--sparse=always", device.to_str()?, image.to_str()?])?;
        let device = FreshLoop::attach(image.to_str()?)?;
        let node = device.node();
        copy.device = Some(device);
        run("mount", &["-o", "nodiscard", &node, copy.path().to_str()?])?;
        Some(copy)
    }

    /// A memory filesystem of `mib` MiB.
    pub fn tmpfs(mib: u64) -> Option<Self> {
        let mount = Self::scratch()?;
        run(
            "mount",
            &["-t", "tmpfs", "-o", &format!("size={mib}M"), "none", mount.path().to_str()?],
        )?;
        Some(mount)
    }

    fn scratch() -> Option<Self> {
        if !have_root() {
            return None;
        }
        let scratch =
            tempfile::Builder::new().prefix("trimtab-test-").tempdir_in("/dev/shm").ok()?;
        std::fs::create_dir(scratch.path().join("mnt")).ok()?;
        Some(Self { scratch, device: None })
    }

    /// The mount point.
    pub fn path(&self) -> std::path::PathBuf {
        self.scratch.path().join("mnt")
    }

    /// The device node; empty for a memory filesystem.
    pub fn device(&self) -> String {
        self.device.as_ref().map(FreshLoop::node).unwrap_or_default()
    }

    /// Remounts the filesystem with `options`.
    pub fn remount(&self, options: &str) {
        run("mount", &["-o", &format!("remount,{options}"), self.path().to_str().unwrap()])
            .unwrap();
    }
}

impl Drop for LoopMount {
    fn drop(&mut self) {
        let path = self.path();
        let path = path.to_str().unwrap();
        // A process that still uses it, such as a daemon's last request, finishes soon.
        for _ in 0..50 {
            let mounted = std::fs::read_to_string("/proc/self/mountinfo")
                .is_ok_and(|t| t.contains(&format!(" {path} ")));
            if !mounted || run("umount", &[path]).is_some() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        run("umount", &["--lazy", path]);
    }
}

/// A private, empty block device.
pub struct LoopDevice {
    // Detached before its file is removed.
    device: FreshLoop,
    _scratch: tempfile::TempDir,
}

impl LoopDevice {
    /// A loop device over a file of `mib` MiB in memory. `None` if that is impossible
    /// here.
    pub fn new(mib: u64) -> Option<Self> {
        if !have_root() {
            return None;
        }
        let scratch =
            tempfile::Builder::new().prefix("trimtab-test-").tempdir_in("/dev/shm").ok()?;
        let image = scratch.path().join("image");
        std::fs::File::create(&image).unwrap().set_len(mib << 20).unwrap();
        Some(Self { device: FreshLoop::attach(image.to_str()?)?, _scratch: scratch })
    }

    /// The device node.
    pub fn node(&self) -> String {
        self.device.node()
    }
}

/// Reads from a device 50 times a second until dropped.
pub struct BusyDevice(std::sync::Arc<std::sync::atomic::AtomicBool>);

impl BusyDevice {
    /// Starts to read from `device`.
    pub fn new(device: &str) -> Self {
        use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
        use std::sync::atomic::Ordering;
        let device =
            std::fs::File::options().read(true).custom_flags(libc::O_DIRECT).open(device).unwrap();
        let ended = std::sync::Arc::default();
        let this = Self(std::sync::Arc::clone(&ended));
        std::thread::spawn(move || {
            let mut buffer = vec![0; 8192];
            let start = buffer.as_ptr().align_offset(4096);
            while !ended.load(Ordering::Relaxed)
                && device.read_exact_at(&mut buffer[start..start + 4096], 0).is_ok()
            {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        });
        this
    }
}

impl Drop for BusyDevice {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

/// A newly created loop device. On an old one, queue limits from an earlier use would
/// persist.
struct FreshLoop(i32);

const LOOP_CTL_ADD: libc::c_ulong = 0x4C80;
const LOOP_CTL_REMOVE: libc::c_ulong = 0x4C81;

impl FreshLoop {
    fn attach(image: &str) -> Option<Self> {
        let number = (200..400).find(|number| Self::control(LOOP_CTL_ADD, *number))?;
        let fresh = Self(number);
        run("losetup", &["--partscan", &fresh.node(), image])?;
        Some(fresh)
    }

    fn node(&self) -> String {
        format!("/dev/loop{}", self.0)
    }

    fn control(request: libc::c_ulong, number: i32) -> bool {
        use std::os::fd::AsRawFd as _;
        let Ok(control) = std::fs::File::options().read(true).write(true).open("/dev/loop-control")
        else {
            return false;
        };
        // SAFETY: both requests take a number and no pointer.
        unsafe { libc::ioctl(control.as_raw_fd(), request, number) >= 0 }
    }
}

impl Drop for FreshLoop {
    fn drop(&mut self) {
        run("losetup", &["--detach", &self.node()]);
        // Detaching finishes in the background.
        for _ in 0..500 {
            if Self::control(LOOP_CTL_REMOVE, self.0) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// The output of a program, if it succeeded.
pub fn run(program: &str, args: &[&str]) -> Option<String> {
    let output = std::process::Command::new(program).args(args).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
