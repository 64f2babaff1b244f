//! Snapshot encoding: integers as varints, strictly validated when read.

use crate::varint;
use alloc::vec::Vec;

pub(super) const COUNT_MAX: u64 = 1 << 62;

#[derive(Debug, Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn number(&mut self, value: impl Into<u64>) {
        varint::push(&mut self.0, value.into());
    }

    pub(super) fn flag(&mut self, value: bool) {
        self.0.push(u8::from(value));
    }

    /// Writes a list with its length.
    pub(super) fn numbers<T: Copy + Into<u64>>(
        &mut self,
        values: impl ExactSizeIterator<Item = T>,
    ) {
        self.number(values.len() as u64);
        for value in values {
            self.number(value);
        }
    }

    /// Writes a list as runs of equal values: run length, value.
    pub(super) fn runs<T: Copy + PartialEq + Into<u64>>(
        &mut self,
        values: impl ExactSizeIterator<Item = T>,
    ) {
        self.number(values.len() as u64);
        let mut rest = values.peekable();
        while let Some(value) = rest.next() {
            let mut run = 1_u64;
            while rest.next_if_eq(&value).is_some() {
                run += 1;
            }
            self.number(value);
            self.number(run);
        }
    }
}

/// Decodes a snapshot; an error is the offset of the first invalid value.
#[derive(Debug)]
pub(super) struct SnapshotReader<'a> {
    bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> SnapshotReader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(super) const fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub(super) fn number(&mut self) -> Result<u64, usize> {
        let mut rest = &self.bytes[self.at..];
        let value = varint::take(&mut rest).ok_or(self.at)?;
        self.at = self.bytes.len() - rest.len();
        Ok(value)
    }

    /// Reads a time or a count, small enough that centuries of additions do not overflow.
    pub(super) fn count(&mut self) -> Result<u64, usize> {
        self.small(COUNT_MAX)
    }

    /// Reads a number of a narrower type, at most `max`.
    pub(super) fn small<T: TryFrom<u64> + Into<u64> + Copy>(&mut self, max: T) -> Result<T, usize> {
        let start = self.at;
        let value = self.number()?;
        if value > max.into() {
            return Err(start);
        }
        T::try_from(value).map_err(|_| start)
    }

    pub(super) fn flag(&mut self) -> Result<bool, usize> {
        Ok(self.small(1_u8)? == 1)
    }

    /// Reads a list of at most `len_max` numbers of at most `max`.
    pub(super) fn numbers<T: TryFrom<u64> + Into<u64> + Copy>(
        &mut self,
        len_max: usize,
        max: T,
    ) -> Result<Vec<T>, usize> {
        let len = self.small(len_max as u64)?;
        (0..len).map(|_| self.small(max)).collect()
    }

    /// Reads a list of exactly `len` numbers of at most `max`.
    pub(super) fn exactly<T: TryFrom<u64> + Into<u64> + Copy>(
        &mut self,
        len: usize,
        max: T,
    ) -> Result<Vec<T>, usize> {
        let start = self.at;
        let values = self.numbers(len, max)?;
        if values.len() == len { Ok(values) } else { Err(start) }
    }

    /// Reads exactly `len` numbers of at most `max`, as written by [`Writer::runs`].
    pub(super) fn runs<T: TryFrom<u64> + Into<u64> + Copy>(
        &mut self,
        len: usize,
        max: T,
    ) -> Result<Vec<T>, usize> {
        let start = self.at;
        if self.number()? != len as u64 {
            return Err(start);
        }
        let mut values = Vec::new();
        while values.len() < len {
            let start = self.at;
            let value = self.small(max)?;
            let run = self.small((len - values.len()) as u64)?;
            if run == 0 {
                return Err(start);
            }
            values.resize(values.len() + run as usize, value);
        }
        Ok(values)
    }
}

/// FNV-1a, 64 bits.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
