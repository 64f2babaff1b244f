//! Command-line conventions: help, usage errors, completions.

use crate::support::trimtab;
use predicates::prelude::*;

#[test]
fn wrong_usage_exits_with_2_and_says_so_on_standard_error() {
    trimtab().arg("no-such-command").assert().code(2).stdout("").stderr(predicate::str::contains("no-such-command"));
}

#[test]
fn completions_are_printed() {
    trimtab().args(["completions", "bash"]).assert().success().stdout(predicate::str::contains("_trimtab"));
}
