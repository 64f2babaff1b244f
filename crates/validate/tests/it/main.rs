//! The comparisons, run from the command line.
#![allow(clippy::unwrap_used, missing_docs)]

mod drive;
#[path = "../../../trimtab/tests/it/interrupted.rs"]
mod interrupted;
mod interrupts;
mod published;
#[path = "../../../trimtab/tests/it/skip.rs"]
mod skip;
mod volume;

use assert_cmd::Command;

/// The binary, without colours.
fn validate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_validate"));
    command.env("NO_COLOR", "1").env_remove("RUST_BACKTRACE");
    command
}
