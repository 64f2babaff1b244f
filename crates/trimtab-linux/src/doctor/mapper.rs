//! Tables and states of device-mapper, and their effect on discards. sysfs shows only the
//! resulting limits; the tables show the cause.

use crate::host::root::Root;
use std::path::Path;
use std::process::Command;

/// File of a recorded tree that holds the output of `dmsetup table`; `dmsetup status` has
/// its own file.
const RECORDED_TABLE: &str = "/dmsetup-table";
const RECORDED_STATUS: &str = "/dmsetup-status";
/// Fixed paths of dmsetup: never searched in a PATH that another user may have set.
const DMSETUP: [&str; 2] = ["/usr/sbin/dmsetup", "/sbin/dmsetup"];
/// Maximum output read, in bytes.
const BYTES_MAX: usize = 4 << 20;

/// One target (segment) of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapperTarget {
    /// Name of the device.
    pub device: String,
    /// `crypt`, `thin-pool`, `linear` …
    pub kind: String,
    /// The rest of the line.
    pub arguments: String,
}

impl MapperTarget {
    /// True if the arguments contain the word.
    pub fn says(&self, word: &str) -> bool {
        self.arguments.split_ascii_whitespace().any(|w| w == word)
    }
}

/// All tables and states; `None` if they are unreadable.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    table: Option<Vec<MapperTarget>>,
    status: Option<Vec<MapperTarget>>,
}

impl Tables {
    /// Reads them from recorded output, or as root on the running machine through
    /// dmsetup, which hides the keys of dm-crypt.
    pub fn read(root: &Root) -> Self {
        if !root.is_this_machine() {
            let file = |path: &str| {
                root.read_bytes(Path::new(path), BYTES_MAX as u64)
                    .ok()
                    .map(|b| parse(&String::from_utf8_lossy(&b)))
            };
            return Self { table: file(RECORDED_TABLE), status: file(RECORDED_STATUS) };
        }
        if !rustix::process::geteuid().is_root() || !root.exists("/sys/class/misc/device-mapper") {
            return Self::default();
        }
        let read = |what: &str, recorded: &str| {
            let output = dmsetup(what)?;
            root.keep(Path::new(recorded), &output);
            Some(parse(&String::from_utf8_lossy(&output)))
        };
        Self { table: read("table", RECORDED_TABLE), status: read("status", RECORDED_STATUS) }
    }

    /// Parses the output of `dmsetup table`.
    pub fn of_text(table: &str) -> Self {
        Self { table: Some(parse(table)), status: None }
    }

    /// True if the tables were read.
    pub fn known(&self) -> bool {
        self.table.is_some()
    }

    /// The targets of a device; empty if unknown.
    pub fn table<'a>(&'a self, device: &'a str) -> impl Iterator<Item = &'a MapperTarget> {
        self.table.iter().flatten().filter(move |t| t.device == device)
    }

    /// The states of a device's targets; empty if unknown.
    pub fn status<'a>(&'a self, device: &'a str) -> impl Iterator<Item = &'a MapperTarget> {
        self.status.iter().flatten().filter(move |t| t.device == device)
    }
}

fn dmsetup(what: &str) -> Option<Vec<u8>> {
    let program = DMSETUP.iter().find(|p| Path::new(p).exists())?;
    let output = Command::new(program).arg(what).env_clear().env("LC_ALL", "C").output().ok()?;
    output.status.success().then(|| output.stdout[..output.stdout.len().min(BYTES_MAX)].to_vec())
}

/// Parses one line per target, such as `home: 0 976740352 crypt aes-xts-plain64 … 0 8:2
/// 32768 1 allow_discards`.
pub fn parse(output: &str) -> Vec<MapperTarget> {
    let line = |line: &str| {
        let (device, rest) = line.split_once(": ")?;
        let mut words = rest.splitn(4, ' ');
        let _start: u64 = words.next()?.parse().ok()?;
        let _length: u64 = words.next()?.parse().ok()?;
        let kind = words.next()?.to_owned();
        Some(MapperTarget {
            device: device.to_owned(),
            kind,
            arguments: words.next().unwrap_or_default().to_owned(),
        })
    };
    output.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dm_table_parse_reads_each_line() {
        let text = "home: 0 976740352 crypt aes-xts-plain64 :64:logon:cryptsetup:x 0 8:2 32768 \
            1 allow_discards\nvg-root: 0 8388608 linear 8:3 2048\n\
            vg-root: 8388608 100 linear 8:4 2048\nNo devices found\n";
        let targets = parse(text);
        assert_eq!(targets.len(), 3);
        assert_eq!((targets[0].device.as_str(), targets[0].kind.as_str()), ("home", "crypt"));
        assert!(targets[0].says("allow_discards") && !targets[0].says("discards"));
    }

    proptest! {
        #[test]
        fn dm_table_parse_never_panics(text in "\\PC{0,200}") {
            let _ = parse(&text);
        }
    }
}
