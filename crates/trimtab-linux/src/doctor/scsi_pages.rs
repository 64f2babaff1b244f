//! Vital product data of a SCSI device about discards (SBC-4): Block Limits (page B0h),
//! Logical Block Provisioning (page B2h), and the list of pages (00h). Any byte may be
//! missing or wrong: a field beyond the end of its page counts as absent.

use crate::host::block::Layer;
use crate::host::drive::vpd;
use crate::host::root::Root;

/// The kernel's own limits per command, in blocks: `SD_MAX_WS16_BLOCKS` and
/// `SD_MAX_WS10_BLOCKS` of drivers/scsi/sd.h.
const WRITE_SAME_16_BLOCKS: u64 = 0x7f_ffff;
const WRITE_SAME_10_BLOCKS: u64 = 0xffff;

/// A discard command, as the kernel's `provisioning_mode` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Unmap,
    WriteSame16,
    WriteSame10,
}

impl Method {
    const ALL: [Self; 3] = [Self::Unmap, Self::WriteSame16, Self::WriteSame10];

    /// The word in `provisioning_mode`, the command's name, and its bit in page B2h.
    const fn row(self) -> (&'static str, &'static str, &'static str, u8) {
        match self {
            Self::Unmap => ("unmap", "UNMAP", "LBPU", 0x80),
            Self::WriteSame16 => {
                ("writesame_16", "WRITE SAME (16) with the UNMAP bit", "LBPWS", 0x40)
            }
            Self::WriteSame10 => {
                ("writesame_10", "WRITE SAME (10) with the UNMAP bit", "LBPWS10", 0x20)
            }
        }
    }

    /// The word in `provisioning_mode`.
    pub const fn mode(self) -> &'static str {
        self.row().0
    }

    /// The command's name, and the name of its bit.
    pub const fn words(self) -> (&'static str, &'static str) {
        let (_, command, bit, _) = self.row();
        (command, bit)
    }

    pub fn of_mode(mode: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.mode() == mode)
    }
}

/// Block Limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct BlockLimits {
    /// MAXIMUM UNMAP LBA COUNT, bytes 20 to 23.
    unmap_blocks: u32,
    /// MAXIMUM UNMAP BLOCK DESCRIPTOR COUNT, bytes 24 to 27.
    unmap_descriptors: u32,
    /// The page is long enough to state both.
    states_unmap: bool,
    /// OPTIMAL UNMAP GRANULARITY in blocks, bytes 28 to 31; 0: not reported.
    unmap_granularity: u32,
    /// MAXIMUM WRITE SAME LENGTH in blocks, bytes 36 to 43; 0: not reported.
    write_same_blocks: u64,
}

/// The discard command that the device offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// This command, with at most this number of blocks each.
    Takes { method: Method, blocks: u64 },
    /// No discard command.
    Nothing,
    /// The kernel shows no page that decides it.
    Unknown,
}

/// The device pages that the kernel shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScsiPages {
    /// Page 00h: the numbers of all supported pages.
    listed: Option<Vec<u8>>,
    limits: Option<BlockLimits>,
    /// Byte 5 of page B2h.
    flags: Option<u8>,
}

impl ScsiPages {
    pub fn read(root: &Root, layer: &Layer) -> Self {
        let page = |name: &str| vpd(root, layer, name).unwrap_or_default();
        Self::parse(&page("pg0"), &page("pgb0"), &page("pgb2"))
    }

    /// Parses pages 00h, B0h and B2h; pass an empty slice for a missing page.
    fn parse(list: &[u8], limits: &[u8], provisioning: &[u8]) -> Self {
        Self {
            listed: body(list, 0).map(<[u8]>::to_vec),
            limits: body(limits, 0xb0).map(block_limits),
            flags: body(provisioning, 0xb2).and_then(|body| body.get(1).copied()),
        }
    }

    /// Returns whether page B2h sets the bit for a command; `None` without the page.
    fn has_bit(&self, method: Method) -> Option<bool> {
        self.flags.map(|flags| flags & method.row().3 != 0)
    }

    /// Page B0h allows no block or no descriptor in an UNMAP.
    fn forbids_unmap(&self) -> bool {
        self.limits.is_some_and(|limits| limits.unmap_blocks == 0 || limits.unmap_descriptors == 0)
    }

    /// Maximum number of blocks that the device takes in one kernel command; `None` if no
    /// page states it.
    fn blocks(&self, method: Method) -> Option<u64> {
        let limits = self.limits?;
        match method {
            Method::Unmap => Some(u64::from(limits.unmap_blocks)).filter(|_| !self.forbids_unmap()),
            Method::WriteSame16 | Method::WriteSame10 => {
                Some(limits.write_same_blocks).filter(|blocks| *blocks > 0)
            }
        }
    }

    /// The command that the kernel chooses from the pages alone (`sd_discard_mode`).
    pub fn offer(&self) -> Offer {
        if self.flags.is_none() {
            let without = self.listed.as_ref().is_some_and(|pages| !pages.contains(&0xb2));
            return if without { Offer::Nothing } else { Offer::Unknown };
        }
        let offered = |method: &Method| {
            self.has_bit(*method) == Some(true)
                && (*method != Method::Unmap || !self.forbids_unmap())
        };
        let Some(method) = Method::ALL.into_iter().find(offered) else { return Offer::Nothing };
        if method == Method::Unmap && self.limits.is_none() {
            return Offer::Unknown;
        }
        let most =
            if method == Method::WriteSame10 { WRITE_SAME_10_BLOCKS } else { WRITE_SAME_16_BLOCKS };
        Offer::Takes { method, blocks: self.blocks(method).map_or(most, |blocks| blocks.min(most)) }
    }

    /// Describes the contradiction if page B2h offers UNMAP but page B0h forbids it.
    pub fn contradiction(&self) -> Option<String> {
        let limits = self
            .limits
            .filter(|_| self.has_bit(Method::Unmap) == Some(true) && self.forbids_unmap())?;
        let allows = match limits {
            BlockLimits { states_unmap: false, .. } => "states no limit for it",
            BlockLimits { unmap_blocks: 0, .. } => {
                "allows 0 blocks in one (MAXIMUM UNMAP LBA COUNT)"
            }
            _ => "allows 0 descriptors in one (MAXIMUM UNMAP BLOCK DESCRIPTOR COUNT)",
        };
        Some(format!("page B2h offers UNMAP (LBPU = 1), and page B0h {allows}"))
    }

    /// Explains why no discard command is offered.
    pub fn why_nothing(&self) -> String {
        let bits = || Method::ALL.map(|method| format!("{} = 0", method.words().1)).join(", ");
        match (self.contradiction(), self.flags) {
            (Some(contradiction), _) => contradiction,
            (None, Some(_)) => format!("page B2h offers no command that discards ({})", bits()),
            (None, None) => "the device has no page B2h (Logical Block Provisioning)".to_owned(),
        }
    }

    /// OPTIMAL UNMAP GRANULARITY in blocks; 0 if no page states it.
    pub fn granularity_blocks(&self) -> u32 {
        self.limits.map_or(0, |limits| limits.unmap_granularity)
    }

    /// Describes how the pages contradict the mode in force.
    pub fn against_mode(&self, method: Method) -> Option<String> {
        let (command, bit) = method.words();
        if self.has_bit(method) == Some(false) {
            return Some(format!(
                "page B2h says that the device does not take {command} ({bit} = 0)"
            ));
        }
        (method == Method::Unmap && self.forbids_unmap())
            .then(|| "page B0h says that the device takes no block in an UNMAP".to_owned())
    }

    /// The longest command that the device takes, if shorter than `bytes`.
    pub fn below(&self, method: Method, bytes: u64, block: u64) -> Option<u64> {
        let most = self.blocks(method)?.saturating_mul(block);
        (bytes > most).then_some(most)
    }

    /// Formats the pages: `LBPU=1 LBPWS=0 LBPWS10=0, at most 4194240 blocks in an UNMAP`.
    pub fn words(&self) -> Option<String> {
        let bits = |method: Method| {
            format!("{}={}", method.words().1, u8::from(self.has_bit(method) == Some(true)))
        };
        let flags = self.flags.map(|_| Method::ALL.map(bits).join(" "));
        let limits = self.limits.map(|limits| match limits.unmap_descriptors {
            0 => "no descriptor in an UNMAP".to_owned(),
            _ => format!("at most {} blocks in an UNMAP", limits.unmap_blocks),
        });
        let said: Vec<String> = flags.into_iter().chain(limits).collect();
        (!said.is_empty()).then(|| said.join(", "))
    }
}

/// The bytes after the 4-byte page header, limited to the stated length; `None` if the
/// page code differs.
fn body(page: &[u8], code: u8) -> Option<&[u8]> {
    let [_, found, high, low, rest @ ..] = page else { return None };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    (*found == code).then(|| &rest[..rest.len().min(length)])
}

/// Offsets in the standard count from the start of the page header.
fn block_limits(body: &[u8]) -> BlockLimits {
    let number = |at: usize, len: usize| {
        let bytes = body.get(at - 4..at - 4 + len).unwrap_or_default();
        bytes.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
    };
    let short = |at: usize| u32::try_from(number(at, 4)).unwrap_or(u32::MAX);
    BlockLimits {
        unmap_blocks: short(20),
        unmap_descriptors: short(24),
        states_unmap: body.len() >= 24,
        unmap_granularity: short(28),
        write_same_blocks: number(36, 8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Page B0h with its fields at the SBC-4 offsets.
    fn b0(blocks: u32, descriptors: u32, granularity: u32, write_same: u64) -> Vec<u8> {
        let mut page = vec![0_u8; 64];
        (page[1], page[3]) = (0xb0, 60);
        page[20..24].copy_from_slice(&blocks.to_be_bytes());
        page[24..28].copy_from_slice(&descriptors.to_be_bytes());
        page[28..32].copy_from_slice(&granularity.to_be_bytes());
        page[36..44].copy_from_slice(&write_same.to_be_bytes());
        page
    }

    fn b2(flags: u8) -> [u8; 8] {
        [0, 0xb2, 0, 4, 0, flags, 0, 0]
    }

    #[test]
    fn vpd_pages_offer_unmap_or_write_same() {
        let takes = |method, blocks| Offer::Takes { method, blocks };
        for (limits, flags, expected) in [
            (b0(4_194_240, 1, 1, 0), 0x80, takes(Method::Unmap, 4_194_240)),
            // More than the kernel sends in one command.
            (b0(u32::MAX, 256, 8, 0), 0x80, takes(Method::Unmap, 0x7f_ffff)),
            (b0(0, 1, 1, 0), 0x80, Offer::Nothing),
            (b0(4_194_240, 0, 1, 0), 0x80, Offer::Nothing),
            (b0(0, 0, 1, 4_194_240), 0xc0, takes(Method::WriteSame16, 4_194_240)),
            (b0(0, 0, 0, 0), 0x40, takes(Method::WriteSame16, 0x7f_ffff)),
            (b0(0, 0, 0, u64::MAX), 0x20, takes(Method::WriteSame10, 0xffff)),
            (b0(4_194_240, 1, 1, 4_194_240), 0, Offer::Nothing),
        ] {
            assert_eq!(
                ScsiPages::parse(&[], &limits, &b2(flags)).offer(),
                expected,
                "{flags:#x} {limits:?}"
            );
        }
    }

    #[test]
    fn vpd_pages_without_unmap_give_the_reason() {
        let mut short = b0(9, 9, 9, 0)[..16].to_vec();
        short[3] = 12;
        for (limits, flags, contradicts, expected) in [
            (b0(0, 1, 1, 0), 0x80, true, "allows 0 blocks in one"),
            (b0(4_194_240, 0, 1, 0), 0x80, true, "allows 0 descriptors in one"),
            (short, 0x80, true, "states no limit for it"),
            (
                b0(4_194_240, 1, 1, 0),
                0,
                false,
                "offers no command that discards (LBPU = 0, LBPWS = 0, LBPWS10 = 0)",
            ),
        ] {
            let pages = ScsiPages::parse(&[], &limits, &b2(flags));
            assert_eq!(
                (pages.offer(), pages.contradiction().is_some()),
                (Offer::Nothing, contradicts),
                "{expected}"
            );
            assert!(pages.why_nothing().contains(expected), "{}", pages.why_nothing());
        }
        let unlisted = ScsiPages::parse(&[0, 0, 0, 3, 0, 0x80, 0x83], &[], &[]);
        assert!(
            unlisted.why_nothing().contains("no page B2h") && unlisted.contradiction().is_none()
        );
    }

    #[test]
    fn vpd_pages_short_or_foreign_offer_no_method() {
        let (limits, flags) = (b0(4_194_240, 1, 1, 0), b2(0x80));
        assert_eq!(ScsiPages::parse(&[], &[], &[]).offer(), Offer::Unknown);
        assert_eq!(
            ScsiPages::parse(&[], &limits, &flags[..5]).offer(),
            Offer::Unknown,
            "without its flags"
        );
        assert_eq!(
            ScsiPages::parse(&[], &[], &flags).offer(),
            Offer::Unknown,
            "LBPU without limits"
        );
        // The old 16-byte page has no UNMAP limits, so the kernel reads them as 0.
        let mut old = limits[..16].to_vec();
        old[3] = 12;
        assert_eq!(ScsiPages::parse(&[], &old, &flags).offer(), Offer::Nothing);
        // Only the length in the header counts; surplus bytes and bytes of another page
        // are ignored.
        let mut cut = limits.clone();
        cut[3] = 12;
        assert_eq!(ScsiPages::parse(&[], &cut, &flags).offer(), Offer::Nothing);
        assert_eq!(ScsiPages::parse(&[], &limits, &limits).offer(), Offer::Unknown);
        // The list of pages has no provisioning page.
        assert_eq!(
            ScsiPages::parse(&[0, 0, 0, 3, 0, 0x80, 0x83], &[], &[]).offer(),
            Offer::Nothing
        );
        assert_eq!(
            ScsiPages::parse(&[0, 0, 0, 3, 0, 0xb0, 0xb2], &[], &[]).offer(),
            Offer::Unknown
        );
    }

    #[test]
    fn vpd_pages_contradict_wrong_mode_and_limit() {
        let pages = ScsiPages::parse(&[], &b0(4_194_240, 1, 1, 0), &b2(0x80));
        assert_eq!(pages.against_mode(Method::Unmap), None);
        assert!(pages.against_mode(Method::WriteSame16).unwrap().contains("LBPWS = 0"));
        // 4194240 × 512 B = 2147450880 B; the kernel sends 0x7fffff × 512 B = 4294966784
        // B.
        assert_eq!(pages.below(Method::Unmap, 4_294_966_784, 512), Some(2_147_450_880));
        assert_eq!(pages.below(Method::Unmap, 2_147_450_880, 512), None);
        assert_eq!(pages.below(Method::Unmap, 34_359_734_272, 4096), Some(17_179_607_040));
        let none = ScsiPages::parse(&[], &b0(0, 0, 0, 0), &b2(0));
        assert!(none.against_mode(Method::Unmap).unwrap().contains("LBPU = 0"));
        assert_eq!(none.below(Method::WriteSame16, u64::MAX, 512), None, "0 is not reported");
        assert_eq!(ScsiPages::default().against_mode(Method::Unmap), None);
    }

    proptest! {
        #[test]
        fn vpd_pages_of_any_bytes_parse_without_panic(list in proptest::collection::vec(any::<u8>(), 0..40), limits in proptest::collection::vec(any::<u8>(), 0..80),
            flags in proptest::collection::vec(any::<u8>(), 0..12), code in any::<bool>()) {
            let mut limits = limits;
            if let (true, Some(byte)) = (code, limits.get_mut(1)) {
                *byte = 0xb0;
            }
            let pages = ScsiPages::parse(&list, &limits, &flags);
            if let Offer::Takes { blocks, .. } = pages.offer() {
                prop_assert!(blocks > 0 && blocks <= WRITE_SAME_16_BLOCKS);
            }
            let _ = (pages.words(), pages.against_mode(Method::Unmap), pages.below(Method::Unmap, u64::MAX, 4096));
        }
    }
}
