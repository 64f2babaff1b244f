//! The identity and features of a drive, as far as the kernel shows them to everyone.

use super::block::{Bus, Layer, LayerKind};
use super::mountinfo::DevNumber;
use super::root::{Root, printable};
use std::path::PathBuf;

const VPD_BYTES_MAX: u64 = 4096;
/// Offset of the IDENTIFY DEVICE data in the ATA Information page (SAT, VPD page 89h).
const VPD_ATA_IDENTIFY_OFFSET: usize = 60;

/// Model and firmware of a drive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriveIdentity {
    /// Model, untruncated if the kernel keeps it in full.
    pub model: Option<String>,
    /// Firmware revision.
    pub firmware: Option<String>,
}

/// The IDENTIFY DEVICE data of an ATA drive: 256 words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtaIdentify {
    words: Vec<u16>,
}

impl AtaIdentify {
    /// From VPD page 89h, which libata fills from the drive and SAT bridges may fill.
    pub fn from_vpd(page: &[u8]) -> Option<Self> {
        let bytes = page.get(VPD_ATA_IDENTIFY_OFFSET..VPD_ATA_IDENTIFY_OFFSET + 512)?;
        Some(Self {
            words: bytes.chunks_exact(2).map(|w| u16::from_le_bytes([w[0], w[1]])).collect(),
        })
    }

    /// Word `n`.
    pub fn word(&self, n: usize) -> u16 {
        self.words.get(n).copied().unwrap_or(0)
    }

    /// Text: two characters per word, the first in the high byte.
    fn text(&self, words: std::ops::Range<usize>) -> Option<String> {
        let bytes: Vec<u8> = words.flat_map(|n| self.word(n).to_be_bytes()).collect();
        Some(printable(&bytes)).filter(|t| !t.is_empty())
    }

    /// Model number, words 27 to 46.
    pub fn model(&self) -> Option<String> {
        self.text(27..47)
    }

    /// Firmware revision, words 23 to 26.
    pub fn firmware(&self) -> Option<String> {
        self.text(23..27)
    }

    /// TRIM is supported: word 169, bit 0.
    pub fn trim(&self) -> bool {
        self.word(169) & 1 != 0
    }

    /// The drive has rotating media (word 217); `None` if not reported.
    pub fn rotates(&self) -> Option<bool> {
        rotates(self.word(217))
    }

    /// Reads after TRIM are the same every time (DRAT): word 69, bit 14.
    pub fn deterministic_after_trim(&self) -> bool {
        self.word(69) & (1 << 14) != 0
    }

    /// Reads after TRIM are zeroes (RZAT): word 69, bit 5.
    pub fn zero_after_trim(&self) -> bool {
        self.deterministic_after_trim() && self.word(69) & (1 << 5) != 0
    }
}

/// An ATA or SCSI rotation rate: 1 is non-rotating, higher values are revolutions per
/// minute.
fn rotates(rate: u16) -> Option<bool> {
    match rate {
        1 => Some(false),
        0x0401..=0xfffe => Some(true),
        _ => None,
    }
}

/// The drive reports rotating media (VPD page B1h, otherwise IDENTIFY DEVICE).
pub fn says_rotates(root: &Root, layer: &Layer) -> Option<bool> {
    let of_page = |page: Vec<u8>| match page.as_slice() {
        [_, 0xb1, _, _, high, low, ..] => rotates(u16::from_be_bytes([*high, *low])),
        _ => None,
    };
    vpd(root, layer, "pgb1").and_then(of_page).or_else(|| ata_identify(root, layer)?.rotates())
}

/// The SCSI (or NVMe, MMC, virtio) device directory of a drive, or of a partition's
/// drive.
pub fn device_directory(layer: &Layer) -> PathBuf {
    layer.queue().parent().unwrap_or(&layer.sys).join("device")
}

/// IDENTIFY DEVICE data of a drive, if the kernel shows it.
pub fn ata_identify(root: &Root, layer: &Layer) -> Option<AtaIdentify> {
    AtaIdentify::from_vpd(
        &root.read_bytes(&device_directory(layer).join("vpd_pg89"), VPD_BYTES_MAX).ok()?,
    )
}

/// A vital-product-data page of a SCSI device.
pub fn vpd(root: &Root, layer: &Layer, page: &str) -> Option<Vec<u8>> {
    root.read_bytes(&device_directory(layer).join(format!("vpd_{page}")), VPD_BYTES_MAX).ok()
}

/// The block devices of the machine that are no partitions and not empty.
pub fn with_medium(root: &Root) -> Vec<DevNumber> {
    let names = root.list("/sys/block");
    let device = |name: &String| {
        let sys = PathBuf::from("/sys/block").join(name);
        let has_medium = root.read_u64(sys.join("size")).is_some_and(|sectors| sectors > 0);
        has_medium.then(|| DevNumber::parse(&root.read(sys.join("dev"))?)).flatten()
    };
    names.iter().filter_map(device).collect()
}

/// Model and firmware.
pub fn identity(root: &Root, layer: &Layer) -> DriveIdentity {
    let device = device_directory(layer);
    let attribute = |name: &str| root.read(device.join(name)).filter(|t| !t.is_empty());
    let LayerKind::Drive(bus) = &layer.kind else { return DriveIdentity::default() };
    match bus {
        Bus::Nvme => {
            DriveIdentity { model: attribute("model"), firmware: attribute("firmware_rev") }
        }
        Bus::Mmc => DriveIdentity { model: attribute("name"), firmware: attribute("fwrev") },
        Bus::Virtio => DriveIdentity { model: Some("virtio-blk".into()), firmware: None },
        _ => {
            let ata = ata_identify(root, layer);
            let short = || match (attribute("vendor"), attribute("model")) {
                (Some(vendor), Some(model)) if vendor != "ATA" => Some(format!("{vendor} {model}")),
                (_, model) => model,
            };
            DriveIdentity {
                model: ata.as_ref().and_then(AtaIdentify::model).or_else(short),
                firmware: ata.as_ref().and_then(AtaIdentify::firmware).or_else(|| attribute("rev")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ata_identify_reads_words_of_the_standard() {
        let mut page = vec![0_u8; 572];
        let mut set = |word: usize, value: u16| {
            page[60 + 2 * word..62 + 2 * word].copy_from_slice(&value.to_le_bytes())
        };
        for (i, pair) in format!("{:<40}", "OCZ-VERTEX LE").as_bytes().chunks(2).enumerate() {
            set(27 + i, u16::from_be_bytes([pair[0], pair[1]]));
        }
        for (i, pair) in b"1.05    ".chunks(2).enumerate() {
            set(23 + i, u16::from_be_bytes([pair[0], pair[1]]));
        }
        set(169, 1);
        set(217, 1);
        set(69, 1 << 14 | 1 << 5);
        let identify = AtaIdentify::from_vpd(&page).unwrap();
        assert_eq!(identify.model().as_deref(), Some("OCZ-VERTEX LE"));
        assert_eq!(identify.firmware().as_deref(), Some("1.05"));
        assert_eq!(
            [identify.rotates(), rotates(7200), rotates(0), rotates(0x400), rotates(0xffff)],
            [Some(false), Some(true), None, None, None]
        );
        assert!(
            identify.trim() && identify.deterministic_after_trim() && identify.zero_after_trim()
        );
        assert_eq!(AtaIdentify::from_vpd(&page[..500]), None);
    }
}
