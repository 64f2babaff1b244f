//! How much has been written: by the filesystem's own counter, the kernel's of the device, or the drive's.

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

/// Where smartctl is looked for: never along a PATH that somebody else may have set.
const SMARTCTL: [&str; 2] = ["/usr/sbin/smartctl", "/usr/local/sbin/smartctl"];
/// Drives are not asked more often than this.
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

/// What a drive said last.
#[derive(Debug)]
pub struct Smart {
    node: PathBuf,
    asked: Option<Instant>,
    last: Option<(Bytes, Bytes)>,
}

impl WriteCounter {
    /// The counter that was chosen, or the best there is. [`Self::None`] if there is no such counter.
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
        // With several drives no single counter is right; the kernel's are added up instead.
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

    /// In words.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Filesystem(_) => "the filesystem's counter",
            Self::Devices(_) => "the kernel's counter of the device",
            Self::Smart(_) => "the drive's own counter",
            Self::None => "no counter",
        }
    }

    /// Whether it begins at 0 when the machine starts.
    #[must_use]
    pub fn restarts_at_boot(&self) -> bool {
        matches!(self, Self::Devices(_))
    }

    /// What it says now, and the step in which it advances.
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

/// Asks the drive, unless that would wake it.
fn ask_drive(node: &Path) -> Option<(Bytes, Bytes)> {
    let program = SMARTCTL.iter().find(|p| Path::new(p).exists())?;
    let arguments = ["--json", "--nocheck=standby", "--attributes", "--log=devstat"];
    let output = Command::new(program).args(arguments).arg(node).env_clear().env("LC_ALL", "C").output().ok()?;
    // smartctl's exit status has a bit for every little thing; what it printed is what counts.
    parse_smart(&serde_json::from_slice(&output.stdout).ok()?)
}

/// Host writes and their step, from smartctl's JSON: NVMe health log, else ATA device statistics, else an attribute whose name
/// says its unit (smartmontools' drive database).
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
    fn drives_count_in_units_of_their_own() {
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
