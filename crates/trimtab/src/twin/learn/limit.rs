//! Write limit of the probes: bytes, or a share of the drive.

use std::str::FromStr;
use trimtab_drive::units::Bytes;

/// Value of `--write-limit`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WriteLimit {
    /// Number of bytes.
    Bytes(u64),
    /// Percent of the drive, above 0 and at most 100.
    Percent(f64),
}

impl WriteLimit {
    /// The limit in bytes, for a drive of `capacity_bytes`.
    pub fn of(self, capacity_bytes: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => (percent / 100.0 * capacity_bytes as f64) as u64,
        }
    }
}

impl FromStr for WriteLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(percent) = text.strip_suffix('%') else {
            let size: Result<Bytes, _> = text.parse();
            return size
                .map(|size| Self::Bytes(size.0))
                .map_err(|_| format!("'{text}' is neither a size such as 500MB or 4GiB nor a share of the drive such as 1%"));
        };
        let percent: f64 = percent.trim().parse().map_err(|_| format!("'{text}' is not a share such as 1% or 0.5%"))?;
        if percent > 0.0 && percent <= 100.0 {
            Ok(Self::Percent(percent))
        } else {
            Err(format!("'{text}' is not more than 0% and at most 100%"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_parses_size_or_share() {
        let of = |text: &str| text.parse().map(|limit: WriteLimit| limit.of(120_000_000_000));
        assert_eq!(of("500MB"), Ok(500_000_000));
        assert_eq!(of("1%"), Ok(1_200_000_000));
        assert_eq!(of("0.5 %"), Ok(600_000_000));
        assert_eq!(of("100%"), Ok(120_000_000_000));
        for wrong in ["-5%", "0%", "300%", "nan%", "inf%", "%", "x%", "x", "1e400%"] {
            let said = of(wrong).unwrap_err();
            assert!(said.starts_with(&format!("'{wrong}' is n")), "{said}");
        }
    }
}
