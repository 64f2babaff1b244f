//! What happens where a test cannot run. Shared by the integration tests and the unit tests of this crate.

use std::io::Write as _;

/// What a test may miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Root, or something that a package of `.ci/packages.txt` brings: where tests have to be complete, it has to be there.
    Needed,
    /// Something that this kernel or this system does not have at all.
    Unavailable,
}

/// Whether a test that misses something fails for it: in CI, and where all tests were asked for by somebody who can have what they need.
pub fn fails(missing: Missing, ci: bool, full: bool, root: bool) -> bool {
    missing == Missing::Needed && (ci || (full && root))
}

/// Notes why a test that needs `what` does not run here. With `TRIMTAB_TESTS=full` as root, and in CI, that is a failure.
///
/// Use as `if !have_root() { return skip("root"); }`. Each is a line in the file that `TRIMTAB_SKIPS` names, so that `make test` can say them.
#[track_caller]
#[allow(dead_code, reason = "benchmarks share this file")]
pub fn skip(what: &str) {
    note(Missing::Needed, what);
}

/// The same for what neither root nor a package could change.
#[track_caller]
#[allow(dead_code, reason = "the unit tests miss nothing of that kind")]
pub fn unavailable(what: &str) {
    note(Missing::Unavailable, what);
}

#[track_caller]
fn note(missing: Missing, what: &str) {
    let full = std::env::var_os("TRIMTAB_TESTS").is_some_and(|tests| tests == "full");
    let root = rustix::process::geteuid().is_root();
    let at = std::panic::Location::caller();
    assert!(
        !fails(missing, std::env::var_os("CI").is_some(), full, root),
        "this test needs {what}, and where all must run a skip is a failure"
    );
    eprintln!("skipped: needs {what}");
    if let Some(path) = std::env::var_os("TRIMTAB_SKIPS") {
        let name = std::thread::current().name().unwrap_or("a test").to_owned();
        let line = format!("{name} ({}:{}): needs {what}\n", at.file(), at.line());
        // One write a line: tests run side by side.
        let file = std::fs::File::options().create(true).append(true).open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the file that TRIMTAB_SKIPS names can be written");
    }
}
