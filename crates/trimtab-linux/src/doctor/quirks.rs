//! Drives that the kernel is known to treat specially (drivers/ata/libata-core.c, Linux
//! 6.12), by model and firmware.

/// A known quirk of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quirk {
    /// Queued TRIM corrupts data or hangs; the kernel does not use it.
    NoQueuedTrim,
    /// No queued commands at all behind an ATI/AMD controller.
    NoQueueOnAti,
    /// TRIM does harm; the kernel does not use it.
    NoTrim,
    /// Large TRIMs hang the drive; the kernel limits them to 128 MiB.
    TrimLimited,
    /// The kernel relies on zeroes when reading trimmed blocks.
    ZeroAfterTrim,
}

impl Quirk {
    /// What the kernel does about it; `None` if that concerns no trim.
    pub const fn note(self) -> Option<&'static str> {
        match self {
            Self::NoQueuedTrim => Some("the drive's queued TRIM is known to be faulty; the kernel does not use it"),
            Self::NoQueueOnAti => {
                Some("behind an ATI controller (PCI vendor 1002) the kernel uses no queued commands at all with this drive")
            }
            Self::NoTrim => Some("the drive's TRIM is known to do harm; the kernel does not use it"),
            Self::TrimLimited => Some("the drive locks up on large TRIMs; the kernel limits them to 128 MiB"),
            Self::ZeroAfterTrim => None,
        }
    }
}

/// Model pattern, firmware pattern, quirks; the first match applies.
const TABLE: &[(&str, &str, &[Quirk])] = {
    use Quirk::{NoQueueOnAti, NoQueuedTrim, NoTrim, TrimLimited, ZeroAfterTrim};
    &[
        ("Micron_M500IT_*", "MU01", &[NoQueuedTrim, ZeroAfterTrim]),
        ("Micron_M500_*", "*", &[NoQueuedTrim, ZeroAfterTrim]),
        ("Micron_M5[15]0_*", "MU01", &[NoQueuedTrim, ZeroAfterTrim]),
        ("Micron_1100_*", "*", &[NoQueuedTrim, ZeroAfterTrim]),
        ("Crucial_CT*M500*", "*", &[NoQueuedTrim, ZeroAfterTrim]),
        ("Crucial_CT*M550*", "MU01", &[NoQueuedTrim, ZeroAfterTrim]),
        ("Crucial_CT*MX100*", "MU01", &[NoQueuedTrim, ZeroAfterTrim]),
        ("Samsung SSD 840*", "*", &[NoQueuedTrim, ZeroAfterTrim]),
        ("Samsung SSD 850*", "*", &[NoQueuedTrim, ZeroAfterTrim]),
        ("Samsung SSD 860*", "*", &[NoQueuedTrim, ZeroAfterTrim, NoQueueOnAti]),
        ("Samsung SSD 870*", "*", &[NoQueuedTrim, ZeroAfterTrim, NoQueueOnAti]),
        ("SAMSUNG*MZ7LH*", "*", &[NoQueuedTrim, ZeroAfterTrim, NoQueueOnAti]),
        ("FCCT*M500*", "*", &[NoQueuedTrim, ZeroAfterTrim]),
        ("SanDisk SD[789]*", "*", &[TrimLimited]),
        ("SuperSSpeed S238*", "*", &[NoTrim]),
        ("M88V29*", "*", &[NoTrim]),
        // Claims to return zeroes but does not; the rule for Intel below must not match it.
        ("INTEL*SSDSC2MH*", "*", &[]),
        ("Micron*", "*", &[ZeroAfterTrim]),
        ("Crucial*", "*", &[ZeroAfterTrim]),
        ("INTEL*SSD*", "*", &[ZeroAfterTrim]),
        ("SSD*INTEL*", "*", &[ZeroAfterTrim]),
        ("Samsung*SSD*", "*", &[ZeroAfterTrim]),
        ("SAMSUNG*SSD*", "*", &[ZeroAfterTrim]),
        ("SAMSUNG*MZ7KM*", "*", &[ZeroAfterTrim]),
        ("ST[1248][0248]0[FH]*", "*", &[ZeroAfterTrim]),
    ]
};

/// The quirks of a drive, from the first matching entry, as in the kernel.
pub fn of(model: &str, firmware: &str) -> &'static [Quirk] {
    TABLE.iter().find(|(m, f, _)| matches(m, model) && matches(f, firmware)).map_or(&[], |(.., quirks)| *quirks)
}

/// Matches a pattern with `*`, `?` and `[abc]`, in time linear in the text for each star.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match one(&pattern[p.min(pattern.len())..]) {
            Some(PatternPiece::Star) => {
                p += 1;
                retry = Some((p, t));
                continue;
            }
            Some(PatternPiece::Bytes(set, length)) if set.is_empty() || set.contains(&text[t]) => {
                p += length;
                t += 1;
                continue;
            }
            _ => {}
        }
        // Extend the last star by one byte.
        let Some((after_star, from)) = retry else { return false };
        p = after_star;
        t = from + 1;
        retry = Some((after_star, t));
    }
    pattern[p.min(pattern.len())..].iter().all(|&b| b == b'*')
}

enum PatternPiece<'a> {
    Star,
    /// One byte of the set (an empty set: any byte), and the length of this piece of the pattern.
    Bytes(&'a [u8], usize),
}

fn one(pattern: &[u8]) -> Option<PatternPiece<'_>> {
    match pattern {
        [] => None,
        [b'*', ..] => Some(PatternPiece::Star),
        [b'?', ..] => Some(PatternPiece::Bytes(&[], 1)),
        [b'[', rest @ ..] => match rest.iter().position(|&b| b == b']') {
            Some(end) if end > 0 => Some(PatternPiece::Bytes(&rest[..end], end + 2)),
            _ => Some(PatternPiece::Bytes(&pattern[..1], 1)),
        },
        _ => Some(PatternPiece::Bytes(&pattern[..1], 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pattern_matches_like_kernel_glob() {
        for (pattern, text, expected) in [
            ("Samsung SSD 860*", "Samsung SSD 860 EVO 1TB", true),
            ("Samsung SSD 860*", "Samsung SSD 970", false),
            ("Micron_M5[15]0_*", "Micron_M550_MTFD", true),
            ("Micron_M5[15]0_*", "Micron_M520_MTFD", false),
            ("SAMSUNG*MZ7LH*", "SAMSUNG MZ7LH960HAJR", true),
            ("*", "", true),
            ("", "", true),
            ("", "x", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("a?c", "abc", true),
            ("[", "[", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn quirks_of_known_drives_match_kernel_table() {
        assert_eq!(of("Samsung SSD 860 EVO 500GB", "RVT01B6Q"), [Quirk::NoQueuedTrim, Quirk::ZeroAfterTrim, Quirk::NoQueueOnAti]);
        assert_eq!(of("Crucial_CT512MX100SSD1", "MU01"), [Quirk::NoQueuedTrim, Quirk::ZeroAfterTrim]);
        assert_eq!(of("Crucial_CT512MX100SSD1", "MU02"), [Quirk::ZeroAfterTrim], "mended by newer firmware");
        assert_eq!(of("INTEL SSDSC2MH120A2", "PPG4"), []);
        assert_eq!(of("SuperSSpeed S238 120GB", ""), [Quirk::NoTrim]);
        assert_eq!(of("OCZ-VERTEX LE", "1.05"), []);
    }

    proptest! {
        #[test]
        fn pattern_match_ends_and_literal_matches_itself(pattern in "[a-c*?\\[\\]]{0,12}", text in "[a-c]{0,40}") {
            let _ = matches(&pattern, &text);
            prop_assert!(matches(&text, &text));
        }
    }
}
