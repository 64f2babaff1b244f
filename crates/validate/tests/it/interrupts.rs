//! SIGINT ends every comparison soon.

use crate::interrupted::interrupted;
use std::process::Command;

#[test]
fn sigint_ends_every_comparison_soon() {
    for comparison in ["published", "drive", "peers", "catalogue"] {
        let (output, ended) =
            interrupted(Command::new(env!("CARGO_BIN_EXE_validate")).args([comparison, "--quiet"]));
        assert!(
            ended,
            "{comparison}: {:?}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
