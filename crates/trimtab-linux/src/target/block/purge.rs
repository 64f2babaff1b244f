//! Discards a claimed device, and reads samples that prove it.

use super::device::{Claim, reopen};
use crate::sys::descriptor;
use crate::sys::pool::Pool;
use anyhow::Context as _;
use rustix::fs::OFlags;
use trimtab_drive::rng::Stream;

/// Number of samples.
const SAMPLES: u64 = 1024;
const SAMPLE_BYTES: u64 = 4096;
/// Bytes of one discard, between two reports of progress.
const DISCARD_BYTES: u64 = 1 << 30;

/// Samples of a device that was discarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiscardProof {
    /// All samples.
    pub samples: u64,
    /// Samples that are not uniform: neither zeroes nor a pattern of unwritten blocks.
    pub holding: u64,
}

impl Claim {
    /// True if the device is a block device that supports discards.
    pub fn takes_discards(&self) -> bool {
        self.device.is_some_and(|(_, trims)| trims)
    }

    /// Discards the whole device, and reports the bytes done so far.
    ///
    /// # Errors
    /// The device refuses a discard, or the user interrupts it.
    pub fn discard_all(&self, mut progress: impl FnMut(u64)) -> anyhow::Result<()> {
        let mut done = 0;
        while done < self.size.0 {
            crate::sys::interrupt::check()?;
            let len = DISCARD_BYTES.min(self.size.0 - done);
            descriptor::discard(&self.file, done, len).with_context(|| {
                format!("cannot discard {len} bytes at {done} of {}", self.label)
            })?;
            done += len;
            progress(done);
        }
        Ok(())
    }

    /// Reads samples past the page cache: the first block, the last, and others at random.
    ///
    /// # Errors
    /// The device cannot be read.
    pub fn discard_proof(&self) -> anyhow::Result<DiscardProof> {
        let cannot_read = || format!("cannot read {}", self.label);
        let direct = reopen(&self.file, OFlags::DIRECT).with_context(cannot_read)?;
        let mut memory =
            Pool::new(SAMPLE_BYTES as usize).context("cannot get memory to read into")?;
        let blocks = self.size.0 / SAMPLE_BYTES;
        let mut places = Stream::new(1, "purge.samples");
        let mut proof = DiscardProof::default();
        for nth in 0..SAMPLES.min(blocks) {
            let block = match nth {
                0 => 0,
                1 => blocks - 1,
                _ => places.below(blocks),
            };
            let bytes = memory.bytes(0, SAMPLE_BYTES as usize);
            let read = rustix::io::pread(&direct, &mut *bytes, block * SAMPLE_BYTES)
                .with_context(cannot_read)?;
            anyhow::ensure!(read == bytes.len(), "{}: {read} bytes of a block", cannot_read());
            proof.samples += 1;
            proof.holding += u64::from(bytes.iter().any(|byte| *byte != bytes[0]));
        }
        Ok(proof)
    }
}
