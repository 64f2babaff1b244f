//! What the integration tests share: running the binary, and saying why a test cannot run here.

use assert_cmd::Command;

/// The binary under test, with a store of its own and no colours.
pub fn trimtab() -> Command {
    let mut command = Command::cargo_bin("trimtab").unwrap();
    command.env("NO_COLOR", "1").env_remove("RUST_BACKTRACE").env("XDG_DATA_HOME", data_directory());
    command
}

/// Where the tests' default store is, so that nobody's own results are touched.
fn data_directory() -> &'static std::path::Path {
    static DIRECTORY: std::sync::OnceLock<std::path::PathBuf> = std::sync::OnceLock::new();
    DIRECTORY.get_or_init(|| std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("data"))
}

/// Why a test that needs `what` does not run here. Where everything must run (`TRIMTAB_TESTS=full` as root, or CI) that is a failure.
///
/// Use as `if !have_root() { return skip("root"); }`.
#[allow(dead_code)]
pub fn skip(what: &str) {
    let full = std::env::var_os("CI").is_some();
    assert!(!full, "this test needs {what}, and in CI a skip is a failure");
    eprintln!("skipped: needs {what}");
}

/// True if this process may mount and attach.
pub fn have_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// True if `tool` can be started.
pub fn have_tool(tool: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(tool).is_file()))
}
