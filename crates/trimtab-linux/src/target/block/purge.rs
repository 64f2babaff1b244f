//! Discards a claimed device, and reads samples that prove a purge.

use super::device::{Claim, reopen};
use crate::sys::descriptor;
use crate::sys::pool::Pool;
use anyhow::Context as _;
use rustix::fs::OFlags;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use trimtab_drive::rng::Stream;

/// Number of samples.
const SAMPLES: u64 = 1024;
const SAMPLE_BYTES: u64 = 4096;
/// Bytes of one discard, between two reports of progress.
const DISCARD_BYTES: u64 = 1 << 30;

/// Content of one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sample {
    /// All bytes have this value.
    Uniform(u8),
    /// Any other content, by its hash.
    Data(u64),
    /// Reading failed.
    Unreadable,
}

/// Samples of a device before or after a purge.
#[derive(Debug)]
pub struct DeviceSamples(Vec<Sample>);

/// Samples after a purge, compared with those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PurgeProof {
    /// All samples.
    pub samples: u64,
    /// Uniform now: zeroes, or the drive's pattern of unwritten blocks.
    pub uniform: u64,
    /// Not readable.
    pub unreadable: u64,
    /// Other data than before, as a drive returns whose key was destroyed.
    pub changed: u64,
    /// The data from before the purge.
    pub kept: u64,
}

impl DeviceSamples {
    /// Compares these samples from before a purge with those after it.
    pub fn proof(&self, after: &Self) -> PurgeProof {
        let mut proof = PurgeProof { samples: after.0.len() as u64, ..PurgeProof::default() };
        for (before, after) in self.0.iter().zip(&after.0) {
            let count = match after {
                Sample::Uniform(_) => &mut proof.uniform,
                Sample::Unreadable => &mut proof.unreadable,
                Sample::Data(_) if after == before => &mut proof.kept,
                Sample::Data(_) => &mut proof.changed,
            };
            *count += 1;
        }
        proof
    }
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

    /// Reads samples at fixed places: the first and the last block, and others at random.
    ///
    /// # Errors
    /// The device cannot be opened for reading.
    pub fn samples(&self) -> anyhow::Result<DeviceSamples> {
        let direct = reopen(&self.file, OFlags::DIRECT)
            .or_else(|_| reopen(&self.file, OFlags::RDONLY))
            .with_context(|| format!("cannot read {}", self.label))?;
        let mut memory =
            Pool::new(SAMPLE_BYTES as usize).context("cannot get memory to read into")?;
        let blocks = self.size.0 / SAMPLE_BYTES;
        let mut places = Stream::new(1, "purge.samples");
        let mut samples = Vec::new();
        for nth in 0..SAMPLES.min(blocks) {
            let block = match nth {
                0 => 0,
                1 => blocks - 1,
                _ => places.below(blocks),
            };
            let bytes = memory.bytes(0, SAMPLE_BYTES as usize);
            samples.push(match rustix::io::pread(&direct, &mut *bytes, block * SAMPLE_BYTES) {
                Ok(n) if n == bytes.len() => {
                    if bytes.iter().all(|byte| *byte == bytes[0]) {
                        Sample::Uniform(bytes[0])
                    } else {
                        let mut hasher = DefaultHasher::new();
                        bytes.hash(&mut hasher);
                        Sample::Data(hasher.finish())
                    }
                }
                _ => Sample::Unreadable,
            });
        }
        Ok(DeviceSamples(samples))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proof_counts_uniform_changed_and_kept_samples() {
        use Sample::{Data, Uniform, Unreadable};
        let before = DeviceSamples(vec![Data(1), Data(2), Data(3), Uniform(0), Data(5)]);
        let after = DeviceSamples(vec![Uniform(0), Data(2), Data(9), Uniform(255), Unreadable]);
        let expected = PurgeProof { samples: 5, uniform: 2, unreadable: 1, changed: 1, kept: 1 };
        assert_eq!(before.proof(&after), expected);
    }
}
