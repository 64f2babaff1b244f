//! Command-line conventions: help, usage errors, completions.

use crate::support::trimtab;
use predicates::prelude::*;

#[test]
fn unknown_command_exits_with_2_and_stderr() {
    trimtab()
        .arg("no-such-command")
        .assert()
        .code(2)
        .stdout("")
        .stderr(predicate::str::contains("no-such-command"));
}

#[test]
fn completions_of_shells_without_packages_are_refused() {
    for shell in ["powershell", "elvish"] {
        trimtab().args(["completions", shell]).assert().code(2);
    }
}

#[test]
fn completions_bash_prints_a_script() {
    trimtab()
        .args(["completions", "bash"])
        .assert()
        .success()
        .stdout(predicate::str::contains("_trimtab"));
}
