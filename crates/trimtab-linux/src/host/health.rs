//! Temperature and wear of a drive, read without accessing its data.

use super::block::{Bus, Layer, LayerKind, Stack};
use super::drive::device_directory;
use super::root::Root;
use crate::sys::nvme::{self, Log};
use std::path::{Path, PathBuf};
use trimtab_drive::units::Bytes;
use trimtab_sim::run::Field;

/// File in a recorded tree that holds the SMART log of an NVMe drive.
const RECORDED_SMART: &str = "/nvme-smart-log";
/// Size of the SMART log (NVM Express Base Specification, log page 02h).
pub const SMART_BYTES: usize = 512;
/// 0 °C in whole kelvins, the unit of NVMe.
const CELSIUS_KELVIN: i64 = 273;
/// An NVMe data unit: 1000 blocks of 512 bytes.
pub const DATA_UNIT_BYTES: u64 = 512_000;

/// Lifetime figures of an NVMe drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmartLog {
    /// Composite temperature in degrees Celsius.
    pub temperature_c: Option<i64>,
    /// Percentage of the rated endurance used; 255 also stands for higher values.
    pub used_percent: u8,
    /// Bytes written by the host over the drive's life.
    pub written: Bytes,
    /// Spare blocks left, in per cent.
    pub spare_percent: u8,
    /// Hours under power.
    pub power_on_hours: u64,
    /// Power cuts for which the drive was not prepared.
    pub unsafe_shutdowns: u64,
}

impl SmartLog {
    /// Parses the log page; `None` if it is too short, or all zeros as from drives
    /// without a log.
    pub fn parse(page: &[u8]) -> Option<Self> {
        if page.len() < SMART_BYTES || page.iter().all(|byte| *byte == 0) {
            return None;
        }
        let kelvin = i64::from(u16::from_le_bytes([page[1], page[2]]));
        let number = |at: usize| page[at..at + 16].try_into().ok().map(u128::from_le_bytes);
        let at_most_u64 = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
        let units = number(48)?;
        Some(Self {
            temperature_c: (kelvin > 0).then_some(kelvin - CELSIUS_KELVIN),
            used_percent: page[5],
            written: Bytes(at_most_u64(units.saturating_mul(u128::from(DATA_UNIT_BYTES)))),
            spare_percent: page[3],
            power_on_hours: at_most_u64(number(128)?),
            unsafe_shutdowns: at_most_u64(number(144)?),
        })
    }

    /// Reads the log of an NVMe drive; from the running machine only as root.
    pub fn read(root: &Root, layer: &Layer) -> std::io::Result<Self> {
        let recorded = Path::new(RECORDED_SMART).join(&layer.name);
        let page = if root.is_this_machine() {
            let page = nvme::read(Log::Smart, &layer.name, layer.dev.major, layer.dev.minor)?;
            root.keep(&recorded, &page);
            page.to_vec()
        } else {
            root.read_bytes(&recorded, SMART_BYTES as u64)?
        };
        Self::parse(&page).ok_or_else(|| std::io::ErrorKind::InvalidData.into())
    }
}

/// Temperature and wear of every drive of `stack`: `drive.temperature`, `drive.1.wear`.
pub fn fields(root: &Root, stack: &Stack) -> Vec<Field> {
    each(stack, |layer| {
        vec![("temperature", temperature(root, layer)), ("wear", wear(root, layer))]
    })
}

/// Temperature after the run, of drives that report one.
pub fn afterwards(root: &Root, stack: &Stack) -> Vec<Field> {
    each(stack, |layer| {
        vec![("temperature.after", sensor(root, layer).map(celsius).unwrap_or_default())]
    })
}

fn each(stack: &Stack, values: impl Fn(&Layer) -> Vec<(&'static str, String)>) -> Vec<Field> {
    let drives: Vec<&Layer> = stack.drives().collect();
    let mut fields = Vec::new();
    for (n, layer) in drives.iter().enumerate() {
        let prefix = if drives.len() == 1 { "drive".to_owned() } else { format!("drive.{n}") };
        let known = values(layer).into_iter().filter(|(_, value)| !value.is_empty());
        fields.extend(known.map(|(key, value)| Field::new(format!("{prefix}.{key}"), value)));
    }
    fields
}

fn celsius(degrees: i64) -> String {
    format!("{degrees} °C")
}

fn temperature(root: &Root, layer: &Layer) -> String {
    match (sensor(root, layer), &layer.kind) {
        (Some(degrees), _) => celsius(degrees),
        (None, LayerKind::Drive(Bus::Ata)) => {
            "n/a: the kernel's module drivetemp is not loaded, or the drive has no sensor"
                .to_owned()
        }
        (None, LayerKind::Drive(_)) => "n/a: the kernel shows no sensor of this drive".to_owned(),
        (None, _) => String::new(),
    }
}

/// Temperature in degrees Celsius from the hwmon device of the controller or the disk.
fn sensor(root: &Root, layer: &Layer) -> Option<i64> {
    let millidegrees =
        sensors(root, layer).iter().find_map(|place| root.read_i64(place.join("temp1_input")))?;
    Some((millidegrees + millidegrees.signum() * 500) / 1000)
}

/// The hwmon directories of the controller or the disk.
pub(super) fn sensors(root: &Root, layer: &Layer) -> Vec<PathBuf> {
    let inside = |directory: PathBuf| -> Vec<PathBuf> {
        let names = root.list(&directory).into_iter().filter(|name| name.starts_with("hwmon"));
        names.map(|name| directory.join(name)).collect()
    };
    // The `hwmon` directory itself matches the first pattern and has no reading.
    let devices = controllers(root, layer).into_iter();
    devices
        .flat_map(|device| [inside(device.clone()), inside(device.join("hwmon"))].concat())
        .collect()
}

/// The device directories that may have a sensor; with NVMe multipath, those of the paths
/// too.
fn controllers(root: &Root, layer: &Layer) -> Vec<PathBuf> {
    let device = device_directory(layer);
    let numbered = |name: &String| {
        name.strip_prefix("nvme")
            .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    let paths: Vec<PathBuf> =
        root.list(&device).into_iter().filter(numbered).map(|name| device.join(name)).collect();
    std::iter::once(device).chain(paths).collect()
}

fn wear(root: &Root, layer: &Layer) -> String {
    let LayerKind::Drive(bus) = &layer.kind else { return String::new() };
    match bus {
        Bus::Nvme => match SmartLog::read(root, layer) {
            Ok(log) => format!(
                "{} % of its rated life used, {} written in all",
                log.used_percent, log.written
            ),
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                "n/a: NVMe drives report it to root only".to_owned()
            }
            Err(_) => "n/a: the drive does not report it".to_owned(),
        },
        Bus::Virtio | Bus::VirtioScsi | Bus::Nbd | Bus::Zram => {
            "n/a: a virtual drive has none".to_owned()
        }
        _ => "n/a: read from NVMe drives only; 'smartctl -A' asks others".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn smart_log_parse_reads_fields_of_the_specification() {
        let mut page = [0_u8; SMART_BYTES];
        assert_eq!(SmartLog::parse(&page), None, "a log of zeros is none");
        page[1..3].copy_from_slice(&314_u16.to_le_bytes());
        page[5] = 3;
        // 26,000,000 units of 512,000 bytes.
        page[48..64].copy_from_slice(&26_000_000_u128.to_le_bytes());
        page[3] = 98;
        page[128..144].copy_from_slice(&4000_u128.to_le_bytes());
        page[144..160].copy_from_slice(&5_u128.to_le_bytes());
        let log = SmartLog::parse(&page).unwrap();
        assert_eq!(
            (log.temperature_c, log.used_percent, log.written),
            (Some(41), 3, Bytes(13_312_000_000_000))
        );
        assert_eq!((log.spare_percent, log.power_on_hours, log.unsafe_shutdowns), (98, 4000, 5));
        assert_eq!(SmartLog::parse(&page[..511]), None);
    }

    proptest! {
        #[test]
        fn smart_log_parse_never_panics(page in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = SmartLog::parse(&page);
        }
    }
}
