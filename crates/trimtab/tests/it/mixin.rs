//! Metrics for Prometheus.

use crate::support::{have_tool, skip};
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Runs promtool, which must find no fault.
fn require_promtool(args: &[&str], input: &str) {
    let mut promtool = Command::new("promtool");
    let mut child = promtool.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success(), "promtool {args:?}: {said}\n{input}");
}

/// `promtool check metrics` accepts names, types and help of this text.
pub fn require_clean_metrics(text: &str) {
    if !have_tool("promtool") {
        return skip("promtool");
    }
    require_promtool(&["check", "metrics"], text);
}
