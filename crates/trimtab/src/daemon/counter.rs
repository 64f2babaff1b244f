//! Amount written, from the filesystem's counter, the kernel's counter of the device, or the
//! drive's own.

use super::config::CounterChoice;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use trimtab_drive::units::Bytes;
use trimtab_linux::doctor::lifetime_counter;
use trimtab_linux::host::block::{Stack, node_of};
use trimtab_linux::host::mountinfo::Mount;
use trimtab_linux::host::root::Root;
use trimtab_linux::host::stat::DiskStat;

/// Paths of smartctl. PATH is not used, because another user may have set it.
const SMARTCTL: [&str; 2] = ["/usr/sbin/smartctl", "/usr/local/sbin/smartctl"];
/// Shortest interval between two queries of a drive.
const SMART_EVERY: Duration = Duration::from_secs(600);

/// A counter of bytes written.
#[derive(Debug)]
pub enum WriteCounter {
    /// `lifetime_write_kbytes` of ext4 and f2fs.
    Filesystem(PathBuf),
    /// The `stat` files of the devices.
    Devices(Vec<PathBuf>),
    /// The drive's own, through smartctl.
    Smart(Smart),
    /// None.
    None,
}

/// The last reading of a drive.
#[derive(Debug)]
pub struct Smart {
    node: PathBuf,
    asked: Option<Instant>,
    last: Option<(Bytes, Bytes)>,
}

impl WriteCounter {
    /// The chosen counter, or the best available. [`Self::None`] if it does not exist.
    #[must_use]
    pub fn choose(root: &Root, mount: &Mount, stack: &Stack, choice: CounterChoice) -> Self {
        let filesystem = || {
            let file = lifetime_counter(&mount.fs_type, &stack.top_layers().next()?.name);
            root.read_u64(&file).map(|_| Self::Filesystem(file))
        };
        let devices = || {
            let all: Vec<PathBuf> = stack.top_layers().map(|l| l.sys.clone()).collect();
            (!all.is_empty()).then_some(Self::Devices(all))
        };
        // With several drives, the sum of the kernel's counters is used instead.
        let smart = || {
            let drives: Vec<_> = stack.drives().collect();
            let [drive] = drives[..] else { return None };
            Some(Self::Smart(Smart { node: node_of(&drive.name).into(), asked: None, last: None }))
        };
        let found = match choice {
            CounterChoice::Auto => filesystem().or_else(devices),
            CounterChoice::Filesystem => filesystem(),
            CounterChoice::Device => devices(),
            CounterChoice::Smart => smart(),
            CounterChoice::None => None,
        };
        found.unwrap_or(Self::None)
    }

    /// The counter's name, for messages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Filesystem(_) => "the filesystem's counter",
            Self::Devices(_) => "the kernel's counter of the device",
            Self::Smart(_) => "the drive's own counter",
            Self::None => "no counter",
        }
    }

    /// True if the counter restarts at 0 with the machine.
    #[must_use]
    pub fn restarts_at_boot(&self) -> bool {
        matches!(self, Self::Devices(_))
    }

    /// The present value and its resolution.
    pub fn read(&mut self, root: &Root) -> (Option<Bytes>, Bytes) {
        match self {
            Self::Filesystem(file) => (root.read_u64(file).map(|kib| Bytes(kib.saturating_mul(1024))), Bytes(1024)),
            Self::Devices(all) => {
                let one = |sys: &PathBuf| DiskStat::read(root, sys).map(|s| s.written);
                let sum = all.iter().map(one).try_fold(Bytes::ZERO, |sum, one| Some(sum.saturating_add(one?)));
                (sum, Bytes(512))
            }
            Self::Smart(smart) => match smart.read() {
                Some((written, step)) => (Some(written), step),
                None => (None, Bytes(512)),
            },
            Self::None => (None, Bytes(512)),
        }
    }
}

impl Smart {
    fn read(&mut self) -> Option<(Bytes, Bytes)> {
        if self.asked.is_none_or(|asked| asked.elapsed() >= SMART_EVERY) {
            self.asked = Some(Instant::now());
            self.last = ask_drive(&self.node).or(self.last);
        }
        self.last
    }
}

/// Queries the drive unless that would wake it.
fn ask_drive(node: &Path) -> Option<(Bytes, Bytes)> {
    let program = SMARTCTL.iter().find(|p| Path::new(p).exists())?;
    let arguments = ["--json", "--nocheck=standby", "--attributes", "--log=devstat"];
    let output = Command::new(program).args(arguments).arg(node).env_clear().env("LC_ALL", "C").output().ok()?;
    // smartctl's exit status has a bit for every minor problem; only the output counts.
    parse_smart(&serde_json::from_slice(&output.stdout).ok()?)
}

/// Host writes and their resolution, from smartctl's JSON: the NVMe health log, else ATA
/// device statistics, else an attribute whose name contains its unit (smartmontools' drive
/// database).
#[must_use]
pub fn parse_smart(json: &Value) -> Option<(Bytes, Bytes)> {
    const NVME_UNIT: u64 = 512_000;
    let scaled = |count: u64, unit: u64| Some((Bytes(count.checked_mul(unit)?), Bytes(unit)));
    if let Some(units) = json["nvme_smart_health_information_log"]["data_units_written"].as_u64() {
        return scaled(units, NVME_UNIT);
    }
    let sector = json["logical_block_size"].as_u64().unwrap_or(512);
    let pages = json["ata_device_statistics"]["pages"].as_array().into_iter().flatten();
    let mut statistics = pages.flat_map(|page| page["table"].as_array().into_iter().flatten());
    if let Some(sectors) = statistics.find(|s| s["name"] == "Logical Sectors Written").and_then(|s| s["value"].as_u64()) {
        return scaled(sectors, sector);
    }
    let attributes = json["ata_smart_attributes"]["table"].as_array()?;
    attributes.iter().find_map(|a| scaled(a["raw"]["value"].as_u64()?, attribute_unit(a["name"].as_str()?)?))
}

/// The unit of an attribute that counts host writes.
fn attribute_unit(name: &str) -> Option<u64> {
    match name {
        "Total_LBAs_Written" => Some(512),
        "Host_Writes_MiB" => Some(1 << 20),
        "Host_Writes_32MiB" => Some(32 << 20),
        "Host_Writes_GiB" | "Lifetime_Writes_GiB" | "Total_Writes_GiB" => Some(1 << 30),
        "Lifetime_Wts_Frm_Hst_GB" | "Total_Writes_GB" => Some(1_000_000_000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn parse_smart_uses_each_counters_unit() {
        let attribute = |name: &str, raw: u64| json!({ "ata_smart_attributes": { "table": [{ "name": "Wear", "raw": { "value": 9 } }, { "name": name, "raw": { "value": raw } }] } });
        for (json, bytes, step) in [
            (json!({ "nvme_smart_health_information_log": { "data_units_written": 3 } }), 1_536_000, 512_000),
            (
                json!({ "logical_block_size": 4096, "ata_device_statistics": { "pages": [{ "table": [{ "name": "Logical Sectors Written", "value": 5 }] }] } }),
                20_480,
                4096,
            ),
            (attribute("Total_LBAs_Written", 10), 5120, 512),
            (attribute("Host_Writes_32MiB", 2), 64 << 20, 32 << 20),
            (attribute("Lifetime_Writes_GiB", 7), 7 << 30, 1 << 30),
        ] {
            assert_eq!(parse_smart(&json), Some((Bytes(bytes), Bytes(step))), "{json}");
        }
        assert_eq!(parse_smart(&attribute("Power_On_Hours", 10)), None);
        assert_eq!(parse_smart(&attribute("Host_Writes_GiB", u64::MAX)), None, "absurd");
        assert_eq!(parse_smart(&json!([])), None);
    }
}
