//! Skips tests that cannot run here. Shared by the integration tests and the unit tests
//! of this crate.

use std::io::Write as _;

/// The kind of missing requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Root, or a package from `.ci/packages.txt`. A complete test run must have it.
    Needed,
    /// A feature that this kernel or system lacks.
    Unavailable,
}

/// True if a missing requirement fails the test: in CI, and when the user asked for all
/// tests and could provide it.
pub fn fails(missing: Missing, ci: bool, full: bool, root: bool) -> bool {
    missing == Missing::Needed && (ci || (full && root))
}

/// Records that the test does not run because `what` is missing. With
/// `TRIMTAB_TESTS=full` as root, and in CI, that is a failure.
///
/// Use as `if !have_root() { return skip("root"); }`. Each skip adds a line to the file
/// that `TRIMTAB_SKIPS` names, which `make test` prints.
#[track_caller]
#[allow(dead_code, reason = "benchmarks share this file")]
pub fn skip(what: &str) {
    note(Missing::Needed, what);
}

/// The same for requirements that neither root nor a package could provide.
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
        // One write per line, because tests run in parallel.
        let file = std::fs::File::options().create(true).append(true).open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .expect("the file that TRIMTAB_SKIPS names can be written");
    }
}
