//! Skips are counted, and fail in a complete run. Tests never touch the user's own
//! results.

use crate::support::have_root;
use crate::support::skip::{Missing, fails, skip};
use std::process::Command;

#[test]
fn skip_fails_in_ci_and_for_root_with_full_tests() {
    for (ci, full, root, fail) in [
        (false, false, false, false),
        (false, false, true, false),
        // A user without root cannot provide it.
        (false, true, false, false),
        (false, true, true, true),
        (true, false, false, true),
    ] {
        assert_eq!(fails(Missing::Needed, ci, full, root), fail, "{ci} {full} {root}");
        assert!(!fails(Missing::Unavailable, ci, full, root));
    }
}

/// Not a test: the child process of
/// [`skip_is_recorded_and_fails_for_root_with_full_tests`].
#[test]
#[ignore = "started by another test"]
fn child_that_skips() {
    skip("what no machine has");
}

#[test]
fn skip_is_recorded_and_fails_for_root_with_full_tests() {
    let scratch = tempfile::tempdir().unwrap();
    let list = scratch.path().join("skipped");
    let run = |tests: Option<&str>| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "skips::child_that_skips", "--ignored"])
            .env("TRIMTAB_SKIPS", &list);
        command
            .env_remove("CI")
            .env_remove("TRIMTAB_TESTS")
            .envs(tests.map(|tests| ("TRIMTAB_TESTS", tests)));
        command.output().unwrap().status.success()
    };
    assert!(run(None), "it passes");
    let said = std::fs::read_to_string(&list).unwrap();
    assert!(
        said.starts_with("skips::child_that_skips (")
            && said.ends_with("): needs what no machine has\n"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1);
    assert_eq!(run(Some("full")), !have_root(), "a failure for root only");
}

/// A test that starts the program in any other way would write into the store of the user
/// who runs the tests.
#[test]
fn tests_start_the_program_with_their_own_store() {
    let tests = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    for file in std::fs::read_dir(tests)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
    {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&file).unwrap();
        // Split in two, so that this file does not match itself.
        let direct = [concat!("cargo_", "bin("), concat!("CARGO_", "BIN_EXE")]
            .iter()
            .any(|way| text.contains(way));
        assert!(
            !direct || name == "support.rs",
            "{name}: use support::trimtab, process, or program with at_home"
        );
        assert!(
            !text.contains(concat!("program", "()"))
                || text.contains("at_home")
                || name.starts_with("packag"),
            "{name}"
        );
    }
}
