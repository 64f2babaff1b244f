//! How the ranges of a host's TRIM become the commands of a drive, as Linux's drivers do it.

use crate::Extent;
use alloc::vec::Vec;

/// What a drive takes in one TRIM command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrimShape {
    /// Ranges in one command; at least 1.
    pub ranges_max: u32,
    /// Bytes in one range; a multiple of the logical block.
    pub range_bytes_max: u64,
}

impl TrimShape {
    /// The most bytes that one command can cover: the block layer is told to send no larger discards.
    pub const fn command_bytes_max(self) -> u64 {
        self.range_bytes_max.saturating_mul(self.ranges_max as u64)
    }

    /// The commands for `extents`: long ones in several ranges, in as few commands as hold them.
    pub fn commands(self, extents: &[Extent]) -> impl Iterator<Item = Vec<Extent>> {
        let pieces: Vec<Extent> = extents.iter().flat_map(|extent| self.pieces(*extent)).collect();
        let per_command = self.ranges_max.max(1) as usize;
        let mut at = 0;
        core::iter::from_fn(move || {
            let command = pieces.get(at..pieces.len().min(at + per_command)).filter(|command| !command.is_empty())?.to_vec();
            at += command.len();
            Some(command)
        })
    }

    fn pieces(self, extent: Extent) -> impl Iterator<Item = Extent> {
        let step = self.range_bytes_max.max(1);
        (0..extent.len.div_ceil(step)).map(move |n| Extent { offset: extent.offset + n * step, len: step.min(extent.len - n * step) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn long_ranges_are_cut_and_commands_filled() {
        let shape = TrimShape { ranges_max: 2, range_bytes_max: 100 };
        let commands: Vec<_> = shape.commands(&[Extent { offset: 0, len: 250 }, Extent { offset: 1000, len: 50 }]).collect();
        let e = |offset, len| Extent { offset, len };
        assert_eq!(commands, [vec![e(0, 100), e(100, 100)], vec![e(200, 50), e(1000, 50)]]);
        assert_eq!(shape.command_bytes_max(), 200);
        assert_eq!(shape.commands(&[]).count(), 0);
    }
}
