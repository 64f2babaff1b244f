//! The test sets as a wear workload: each round replaces the test file.

use super::{Crystal, CrystalSettingsError, PREPARE};
use crate::workload::{BlockPhase, BlockWorkload, Limit, WorkloadPlan};
use alloc::format;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use trimtab_drive::named;
use trimtab_drive::rng::Stream;
use trimtab_drive::units::Bytes;
use trimtab_drive::{Command, Extent, Ranges};

/// Phase that deletes the previous file: one trim per piece, subject to the policy.
pub const DELETE: &str = "delete";

/// Operations below this size have their own amount per pass.
const SMALL_BYTES: u32 = 64 << 10;
/// Piece size of a scattered file; a multiple of every block size.
const PIECE_BYTES: u64 = 16 << 20;

named! {
    "place of a test file"
    /// Location of the test file in each round.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Placement {
        /// Always at the start of the drive.
        Same = "same",
        /// After the previous file, wrapping at the end of the drive.
        Next = "next",
        /// In pieces of 16 MiB at random positions.
        Scattered = "scattered",
    }
}

/// [`Crystal`] with a new file for each round.
#[derive(Clone, Debug)]
pub struct CrystalLoop {
    rounds: Crystal,
    placement: Placement,
    small_pass: Option<Bytes>,
    size: u64,
    space: u64,
    piece: u64,
    places: Stream,
    next: u64,
    pieces: Vec<u64>,
    /// Pieces still to delete, in reverse order.
    deleted: Vec<u64>,
    deleting: bool,
    /// Phase after the deletion.
    held: Option<BlockPhase>,
}

impl CrystalLoop {
    /// Places the files of `rounds` in the first `space` bytes of a drive. Passes with
    /// operations below 64 KiB move `small_pass`, if given. The settings must include
    /// preparation.
    ///
    /// # Errors
    /// The file exceeds the space.
    pub fn new(
        rounds: Crystal,
        placement: Placement,
        space: Bytes,
        small_pass: Option<Bytes>,
        seed: u64,
    ) -> Result<Self, CrystalSettingsError> {
        let size = rounds.settings.size.0;
        let piece = if placement == Placement::Scattered { PIECE_BYTES } else { size };
        if size.div_ceil(piece) > space.0 / piece {
            return Err(CrystalSettingsError(format!(
                "a test file of {} does not fit on a drive of {space}",
                Bytes(size)
            )));
        }
        if !rounds.settings.prepare {
            return Err(CrystalSettingsError(
                "a new test file must be written before use".to_string(),
            ));
        }
        let places = Stream::new(seed, "crystal.places");
        Ok(Self {
            rounds,
            placement,
            small_pass,
            size,
            space: space.0,
            piece,
            places,
            next: 0,
            pieces: Vec::new(),
            deleted: Vec::new(),
            deleting: false,
            held: None,
        })
    }

    fn placed(&mut self) -> Vec<u64> {
        match self.placement {
            Placement::Same => vec![0],
            Placement::Next => {
                let at = if self.next + self.size > self.space { 0 } else { self.next };
                self.next = at + self.size;
                vec![at]
            }
            Placement::Scattered => {
                let (slots, count) = (self.space / self.piece, self.size.div_ceil(self.piece));
                // The first positions of a random permutation, swapped as needed
                // (Fisher-Yates).
                let mut slot: Vec<u64> = (0..slots).collect();
                for i in 0..count {
                    let other = i + self.places.below(slots - i);
                    slot.swap(i as usize, other as usize);
                }
                slot.truncate(count as usize);
                slot.iter().map(|slot| slot * self.piece).collect()
            }
        }
    }

    fn limited(&self, mut phase: BlockPhase) -> BlockPhase {
        if let Some(bytes) = self.small_pass
            && phase.name != PREPARE
            && self.rounds.block < SMALL_BYTES
        {
            phase.limit = Limit::Bytes(bytes);
        }
        phase
    }

    fn moved(&self, Extent { offset, len }: Extent) -> Extent {
        Extent { offset: self.pieces[(offset / self.piece) as usize] + offset % self.piece, len }
    }
}

impl BlockWorkload for CrystalLoop {
    fn plan(&self) -> WorkloadPlan {
        self.rounds.plan()
    }

    fn next_phase(&mut self) -> Option<BlockPhase> {
        self.deleting = false;
        if let Some(phase) = self.held.take() {
            return Some(phase);
        }
        let phase = self.rounds.next_phase()?;
        if phase.name != PREPARE {
            return Some(self.limited(phase));
        }
        let new = self.placed();
        self.deleted = core::mem::replace(&mut self.pieces, new);
        if self.deleted.is_empty() {
            return Some(phase);
        }
        self.deleted.reverse();
        self.deleting = true;
        self.held = Some(phase);
        let idle_before = trimtab_drive::units::Nanos::ZERO;
        Some(BlockPhase {
            name: DELETE.to_string(),
            queue_depth: 1,
            limit: Limit::Stream,
            record: true,
            idle_before,
        })
    }

    #[inline]
    fn next_op(&mut self) -> Option<Command<'static>> {
        if self.deleting {
            let offset = self.deleted.pop()?;
            // The last piece may be short.
            let before = (self.pieces.len() - 1 - self.deleted.len()) as u64 * self.piece;
            return Some(Command::Trim(Ranges::One(Extent {
                offset,
                len: self.piece.min(self.size - before),
            })));
        }
        Some(match self.rounds.next_op()? {
            Command::Read(extent) => Command::Read(self.moved(extent)),
            Command::Write(extent, class) => Command::Write(self.moved(extent), class),
            // Reads and writes of the rounds.
            other => other,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::crystal::{CrystalSettings, Profile};
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    fn rounds(size_mib: u64) -> Crystal {
        let settings = CrystalSettings {
            profile: Profile::Cdm3,
            size: Bytes(size_mib * MIB),
            passes: 1,
            pass: Limit::Bytes(Bytes(4 * MIB)),
            until_written: Some(Bytes(5 * size_mib * MIB)),
            ..CrystalSettings::default()
        };
        Crystal::new(settings, 1).unwrap()
    }

    /// Phases with their operations, up to the limit of each.
    fn phases(mut workload: CrystalLoop) -> Vec<(BlockPhase, Vec<Command<'static>>)> {
        let mut all = Vec::new();
        while let Some(phase) = workload.next_phase() {
            let mut left = if let Limit::Bytes(bytes) = phase.limit { bytes.0 } else { u64::MAX };
            let mut ops = Vec::new();
            while left > 0
                && let Some(op) = workload.next_op()
            {
                left = left.saturating_sub(op.bytes());
                ops.push(op);
            }
            all.push((phase, ops));
        }
        all
    }

    #[test]
    fn small_pass_applies_to_small_operations() {
        let workload =
            CrystalLoop::new(rounds(16), Placement::Same, Bytes(64 * MIB), Some(Bytes(MIB)), 1)
                .unwrap();
        let limits: Vec<_> = phases(workload)
            .into_iter()
            .filter(|(p, _)| p.name.ends_with("write"))
            .map(|(p, _)| p.limit)
            .collect();
        assert_eq!(limits[..4], [4, 4, 1, 1].map(|mib| Limit::Bytes(Bytes(mib * MIB))));
    }

    #[test]
    fn file_larger_than_the_space_is_refused() {
        for placement in [Placement::Same, Placement::Next, Placement::Scattered] {
            assert!(CrystalLoop::new(rounds(64), placement, Bytes(63 * MIB), None, 1).is_err());
            assert!(CrystalLoop::new(rounds(64), placement, Bytes(64 * MIB), None, 1).is_ok());
        }
    }

    proptest! {
        #[test]
        fn crystal_loop_deletes_every_piece_it_wrote(
            size in 16_u64..80, room in 0_u64..200, placement in prop::sample::select(&[Placement::Same, Placement::Next, Placement::Scattered][..]), seed in any::<u64>(),
        ) {
            let space = size.div_ceil(16) * 16 + room;
            let mut file: Vec<u64> = Vec::new();
            let mut rounds_seen = 0;
            for (phase, ops) in phases(CrystalLoop::new(rounds(size), placement, Bytes(space * MIB), None, seed).unwrap()) {
                for op in ops {
                    let (Command::Read(Extent { offset, len: small }) | Command::Write(Extent { offset, len: small }, _)) = op else {
                        let Command::Trim(Ranges::One(Extent { offset, len })) = op else { unreachable!() };
                        file.retain(|at| !(offset..offset + len).contains(at));
                        continue;
                    };
                    prop_assert!(offset + small <= space * MIB);
                    if phase.name == PREPARE {
                        prop_assert!(!file.contains(&offset), "two pieces of the file overlap");
                        file.push(offset);
                    } else {
                        prop_assert!(file.contains(&(offset / MIB * MIB)) || file.iter().any(|at| (*at..at + MIB).contains(&offset)), "outside of the file");
                    }
                }
                match phase.name.as_str() {
                    DELETE => prop_assert!(file.is_empty(), "part of the previous file is left"),
                    PREPARE => {
                        rounds_seen += 1;
                        prop_assert_eq!(file.len() as u64, size);
                    }
                    _ => {}
                }
            }
            prop_assert!(rounds_seen > 2);
        }
    }
}
