//! Splits the ranges of a host's TRIM into drive commands, like the Linux drivers.

use crate::Extent;
use alloc::vec::Vec;

/// Limits of one TRIM command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrimShape {
    /// Maximum ranges per command; at least 1.
    pub ranges_max: u32,
    /// Maximum bytes per range; a multiple of the logical block.
    pub range_bytes_max: u64,
}

impl TrimShape {
    /// Maximum bytes per command, which limits the discards of the block layer.
    pub const fn command_bytes_max(self) -> u64 {
        self.range_bytes_max.saturating_mul(self.ranges_max as u64)
    }

    /// Splits `extents` into as few commands as possible; long extents become several
    /// ranges.
    pub fn commands(self, extents: &[Extent]) -> impl Iterator<Item = Vec<Extent>> {
        let pieces: Vec<Extent> = extents.iter().flat_map(|extent| self.pieces(*extent)).collect();
        let per_command = self.ranges_max.max(1) as usize;
        let mut at = 0;
        core::iter::from_fn(move || {
            let command = pieces
                .get(at..pieces.len().min(at + per_command))
                .filter(|command| !command.is_empty())?
                .to_vec();
            at += command.len();
            Some(command)
        })
    }

    fn pieces(self, extent: Extent) -> impl Iterator<Item = Extent> {
        let step = self.range_bytes_max.max(1);
        (0..extent.len.div_ceil(step)).map(move |n| Extent {
            offset: extent.offset + n * step,
            len: step.min(extent.len - n * step),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn commands_split_long_ranges_and_fill_commands() {
        let shape = TrimShape { ranges_max: 2, range_bytes_max: 100 };
        let commands: Vec<_> = shape
            .commands(&[Extent { offset: 0, len: 250 }, Extent { offset: 1000, len: 50 }])
            .collect();
        let e = |offset, len| Extent { offset, len };
        assert_eq!(commands, [vec![e(0, 100), e(100, 100)], vec![e(200, 50), e(1000, 50)]]);
        assert_eq!(shape.command_bytes_max(), 200);
        assert_eq!(shape.commands(&[]).count(), 0);
    }
}
