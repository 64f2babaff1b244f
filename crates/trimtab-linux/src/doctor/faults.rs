//! Drives that must not be trimmed in some way, by model and firmware.

use super::glob::matches;
use super::{AcceptedFinding, drive_name, shown};
use crate::host::block::{Bus, Layer, LayerKind, Stack};
use crate::host::drive;
use crate::host::mountinfo::Mount;
use crate::host::root::Root;
use serde::Deserialize;
use std::sync::OnceLock;

const FILE: &str = include_str!("faults.toml");

/// Code of the finding about a drive that loses data when it is trimmed.
pub const LOSES_DATA: &str = "drive.trim-loses-data";

/// Code of the finding about a drive that hangs when it is trimmed.
pub const HANGS: &str = "drive.trim-hangs";
/// Codes of findings about drives that are better not trimmed.
pub const FORBID_TRIM: [&str; 2] = [LOSES_DATA, HANGS];

/// A fault of a drive; `faults.toml` explains them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    QueuedTrim,
    LargeTrim,
    Trim,
    EmmcTrim,
    Zeroes,
    Hangs,
    LosesData,
}

impl Fault {
    /// The fault, and what the kernel does about it.
    pub const fn note(self) -> &'static str {
        match self {
            Self::QueuedTrim => {
                "the drive's queued TRIM is known to be faulty; the kernel does not \
                    use it, so there is nothing to do"
            }
            Self::LargeTrim => {
                "the drive locks up on large TRIMs; the kernel limits them to 128 \
                    MiB, so there is nothing to do"
            }
            Self::Trim => "TRIM is known to fail on this drive; the kernel sends none",
            Self::EmmcTrim => {
                "the drive's TRIM command is known to be faulty; the kernel discards \
                    by other commands, so there is nothing to do"
            }
            Self::Zeroes => {
                "the drive says that trimmed blocks read as zeroes, which is not \
                    always so: do not rely on it"
            }
            Self::Hangs => "TRIM is known to hang this drive; the kernel sends none at present",
            Self::LosesData => {
                "TRIM is known to lose data on this drive; the kernel sends none at present"
            }
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultyDrive {
    model: String,
    #[serde(default = "any")]
    firmware: String,
    faults: Vec<Fault>,
    source: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultList {
    drive: Vec<FaultyDrive>,
}

fn any() -> String {
    "*".to_owned()
}

fn list() -> &'static [FaultyDrive] {
    static LIST: OnceLock<FaultList> = OnceLock::new();
    &LIST.get_or_init(|| toml::from_str(FILE).expect("the list in the program is valid")).drive
}

/// The faults of a drive, each once, with the address of its source.
fn of(model: &str, firmware: &str) -> Vec<(Fault, &'static str)> {
    let mut found: Vec<(Fault, &str)> = Vec::new();
    for entry in list()
        .iter()
        .filter(|entry| matches(&entry.model, model) && matches(&entry.firmware, firmware))
    {
        for fault in &entry.faults {
            if found.iter().all(|(known, _)| known != fault) {
                found.push((*fault, &entry.source));
            }
        }
    }
    found
}

/// The faults of the drive that `layer` is.
pub fn of_layer(root: &Root, layer: &Layer) -> Vec<(Fault, &'static str)> {
    let identity = drive::identity(root, layer);
    let model = match layer.kind {
        // Names of cards are short, and other makers use them too.
        LayerKind::Drive(Bus::Mmc) => {
            let attribute = |name: &str| {
                root.read(drive::device_directory(layer).join(name)).unwrap_or_default()
            };
            ["manfid", "oemid", "name"].map(attribute).join(" ")
        }
        _ => identity.model.unwrap_or_default(),
    };
    of(&model, &identity.firmware.unwrap_or_default())
}

/// The reason not to trim a filesystem: a drive below it loses data when it is trimmed.
/// `None` if there is no such drive, or the configuration accepts the finding about it.
pub fn trim_refusal(
    root: &Root,
    mount: &Mount,
    stack: &Stack,
    accepted: &[AcceptedFinding],
) -> Option<String> {
    if accepted.iter().any(|one| one.covers(LOSES_DATA, &shown(&mount.mount_point))) {
        return None;
    }
    let found = |layer: &Layer| {
        of_layer(root, layer).into_iter().find(|(fault, _)| *fault == Fault::LosesData)
    };
    let (layer, (_, source)) = stack.drives().find_map(|layer| Some((layer, found(layer)?)))?;
    let name = drive_name(root, layer);
    Some(format!(
        "{name} is known to lose data when it is trimmed ({source}); {LOSES_DATA} \
            under [doctor] ignore allows it"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(model: &str, firmware: &str) -> Vec<Fault> {
        of(model, firmware).into_iter().map(|(fault, _)| fault).collect()
    }

    /// Models and firmware as in the comments and entries of the kernel's table.
    #[test]
    fn faults_of_a_drive_depend_on_model_and_firmware() {
        use Fault::{EmmcTrim, Hangs, LargeTrim, LosesData, QueuedTrim, Trim, Zeroes};
        let cases: [(&str, &str, &[Fault]); 29] = [
            ("Samsung SSD 860 EVO 500GB", "RVT01B6Q", &[QueuedTrim]),
            ("Samsung SSD 870 QVO 1TB", "SVQ01B6Q", &[QueuedTrim]),
            ("SAMSUNG MZ7LH960HAJR-00005", "HXT7404Q", &[QueuedTrim]),
            ("Samsung SSD 840 EVO 250GB", "EXT0DB6Q", &[QueuedTrim]),
            ("Samsung SSD 850 PRO 256GB", "EXM02B6Q", &[QueuedTrim]),
            ("SAMSUNG SSD 830 Series", "CXM03B1Q", &[QueuedTrim]),
            ("Samsung SSD 970 EVO 1TB", "2B2QEXE7", &[]),
            ("SAMSUNG MZ7KM480HAHP-00005", "GXM1003Q", &[]),
            ("Crucial_CT512MX100SSD1", "MU01", &[QueuedTrim]),
            ("Crucial_CT512MX100SSD1", "MU02", &[]),
            ("Crucial_CT480M500SSD1", "MU05", &[QueuedTrim]),
            ("Crucial_CT1024M550SSD1", "MU01", &[QueuedTrim]),
            ("Crucial_CT1024M550SSD1", "MU02", &[]),
            ("CT500MX500SSD1", "M3CR023", &[]),
            ("Micron_M510_MTFDDAK128MAZ", "MU01", &[QueuedTrim]),
            ("Micron_M520_MTFDDAK128MAZ", "MU01", &[]),
            ("Micron_M500IT_MTFDDAK120MBD", "MU02", &[]),
            ("Micron_1100_MTFDDAK512TBN", "M0MU020", &[QueuedTrim]),
            ("FCCT256M500SSD1", "MU03", &[QueuedTrim]),
            ("SanDisk SD8SN8U1T001122", "X4140000", &[LargeTrim]),
            ("SanDisk SDSSDH3 1T00", "411040RL", &[]),
            ("SuperSSpeed S238 120GB", "", &[Trim]),
            ("M88V29 32GB", "181019i", &[Trim]),
            ("INTEL SSDSC2MH120A2", "PPG4", &[Zeroes]),
            ("INTEL SSDSC2BB240G4", "D2010370", &[]),
            ("0x000070 0x0100 V10008", "", &[EmmcTrim]),
            ("0x000041 0x3432 SD32G", "", &[LosesData]),
            ("0x000041 0x4247 SD32G", "", &[]),
            ("KingDian S200 60GB", "P0921B", &[Hangs]),
        ];
        for (model, firmware, expected) in cases {
            assert_eq!(faults(model, firmware), expected, "{model} {firmware}");
        }
    }

    #[test]
    fn every_entry_names_a_fault_and_a_public_source() {
        for entry in list() {
            assert!(!entry.faults.is_empty() && entry.source.starts_with("https://"), "{entry:?}");
            assert!(entry.model.len() > 5 && !entry.model.starts_with('*'), "too wide: {entry:?}");
        }
    }
}
