//! PostMark's text: one pool of random printable characters; every write takes a prefix.

use super::mt19937::Mt19937;
use super::{PostmarkSettings, PostmarkSettingsError};
use alloc::vec::Vec;
use trimtab_drive::units::Bytes;

/// From here on the original's pool size overflows: it draws nothing for it.
const POOL_OVERFLOW: u32 = 1 << 30;

/// Alignment of the pool, so that copies into the page cache use whole cache lines and
/// pages.
const ALIGNMENT: usize = 4096;

/// The pool, as long as the largest file. The original allocates twice that and uses
/// half.
#[derive(Debug)]
pub(super) struct Text {
    memory: Vec<u8>,
    start: usize,
}

impl Text {
    /// Creates the pool. Takes twice the high size bound from `rng`, like the original.
    pub(super) fn new(
        settings: &PostmarkSettings,
        rng: &mut Mt19937,
    ) -> Result<Self, PostmarkSettingsError> {
        let high = settings.size_high as usize;
        let mut memory: Vec<u8> = Vec::new();
        memory
            .try_reserve_exact(high + ALIGNMENT)
            .map_err(|_| PostmarkSettingsError::Memory(Bytes(high as u64)))?;
        let start = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        memory.resize(start, 0);
        if settings.size_high < POOL_OVERFLOW {
            memory.extend((0..high).map(|_| character(rng)));
            rng.skip(high as u64);
        } else {
            // The generator stays unchanged as in the original.
            let mut own = rng.clone();
            memory.extend((0..high).map(|_| character(&mut own)));
        }
        Ok(Self { memory, start })
    }

    /// The first `len` characters.
    #[inline]
    pub(super) fn prefix(&self, len: u32) -> &[u8] {
        &self.memory[self.start..][..len as usize]
    }
}

/// One of the 95 printable characters.
fn character(rng: &mut Mt19937) -> u8 {
    b' ' + (rng.next_u32() % 95) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_pool_matches_the_original() {
        for (seed, size_high, start) in [
            (42, 10_000, "LeZebJ6S5~qPv$C$py}hmKd H58nM4~.}pv}Q7wSt'&R0{oSe8eY_i&z}T'V"),
            (7, 20_000, "~D>WgrDWVc2w%/'Rj0VFG;M{dM}PfUkAGhwJJdC1fn,>Y1.,T:wL@S`vVwB "),
            (1, 10_000, "IX<Rde<r+vYLC0+\"@xrMcqFVk/r^wR'J/C\\CeP~l7wa=y:qQB+B?RHj7ZJY5"),
        ] {
            let mut rng = Mt19937::new(seed);
            let text =
                Text::new(&PostmarkSettings { size_high, ..PostmarkSettings::default() }, &mut rng)
                    .unwrap();
            assert_eq!(text.prefix(60), start.as_bytes(), "seed {seed}");
            assert_eq!(text.prefix(size_high).len(), size_high as usize);
            assert_eq!(rng.taken(), 2 * u64::from(size_high));
        }
    }
}
