//! Signatures known to libblkid, which checks more than magic numbers, through `wipefs`.

use rustix::fd::OwnedFd;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// Only the system's own directories, regardless of PATH.
const PLACES: [&str; 4] = ["/usr/sbin/wipefs", "/sbin/wipefs", "/usr/bin/wipefs", "/bin/wipefs"];

/// Signatures on the open object, with the names of [`super::find`]; empty without
/// `wipefs`.
///
/// # Errors
/// If `wipefs` exists and fails.
pub fn probe(object: &OwnedFd) -> std::io::Result<Vec<String>> {
    let Some(program) = PLACES.iter().find(|place| Path::new(place).exists()) else {
        return Ok(Vec::new());
    };
    // The program examines the open object, not whatever has its name now.
    let mut command = Command::new(program);
    command
        .args(["--no-act", "--json", "--output", "TYPE", "/proc/self/fd/0"])
        .env_clear()
        .env("LC_ALL", "C");
    let output = command
        .stdin(object.try_clone()?)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()?;
    if !output.status.success() {
        let said = crate::host::root::printable(&output.stderr).replace('\n', " ");
        return Err(std::io::Error::other(format!("{program}: {said}")));
    }
    parse(&output.stdout)
        .ok_or_else(|| std::io::Error::other(format!("{program}'s output could not be understood")))
}

/// The output is empty if nothing was found.
fn parse(text: &[u8]) -> Option<Vec<String>> {
    if text.iter().all(u8::is_ascii_whitespace) {
        return Some(Vec::new());
    }
    let document: Value = serde_json::from_slice(text).ok()?;
    let found = document["signatures"].as_array()?;
    found.iter().map(|signature| signature["type"].as_str().map(in_our_words)).collect()
}

/// Converts names of libblkid to ours, so that each signature has one name.
fn in_our_words(kind: &str) -> String {
    let known = match kind {
        "ext2" | "ext3" | "ext4" | "ext4dev" | "jbd" => "ext2/3/4",
        "vfat" => "fat",
        "crypto_LUKS" => "luks",
        "LVM2_member" => "lvm2",
        "linux_raid_member" => "raid member",
        "zfs_member" => "zfs",
        "dos" => "mbr partition table",
        "PMBR" => "gpt",
        "bcache" => "bcachefs/bcache",
        _ => return kind.chars().filter(|c| c.is_ascii_graphic()).take(40).collect(),
    };
    known.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_reads_wipefs_output() {
        let text = r#"{ "signatures": [ {"type":"ext4"}, {"type":"isw_raid_member"} ] }"#;
        assert_eq!(parse(text.as_bytes()).unwrap(), ["ext2/3/4", "isw_raid_member"]);
        assert_eq!(parse(b"\n"), Some(Vec::new()));
        assert_eq!(parse(b"what"), None);
        assert_eq!(parse(br#"{"signatures":[{"offset":1}]}"#), None);
    }
}
