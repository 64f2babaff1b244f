//! Tracks the last write at every offset, and verifies reads against it.

use trimtab_drive::data::DataClass;
use trimtab_drive::data::content::{ContentGenerator, UNIT, UnitCheck};
use trimtab_drive::units::Bytes;

/// Write number of a unit whose last write is unknown.
const UNKNOWN: u32 = 0;

/// The last write of each unit of 4 KiB. Uses 4 bytes per unit.
#[derive(Debug)]
pub struct Verifier {
    last: Vec<u32>,
    /// The data classes, each with the first write number that used it.
    classes: Vec<(u64, DataClass)>,
    sequence: u64,
    in_flight: Vec<VerifierOp>,
    checked: Bytes,
}

#[derive(Clone, Copy, Debug)]
struct VerifierOp {
    tag: u32,
    offset: u64,
    len: u64,
    write: bool,
    /// Another operation touched the range during this one: the content is undefined.
    disturbed: bool,
}

impl VerifierOp {
    fn overlaps(&self, offset: u64, len: u64) -> bool {
        self.offset < offset + len && offset < self.offset + self.len
    }
}

impl Verifier {
    /// For a target of `size` with unknown content.
    pub fn new(size: Bytes) -> Self {
        let units = usize::try_from(size.0.div_ceil(UNIT as u64)).unwrap_or(usize::MAX);
        Self {
            last: vec![UNKNOWN; units],
            classes: Vec::new(),
            sequence: 0,
            in_flight: Vec::new(),
            checked: Bytes::ZERO,
        }
    }

    /// Bytes read and found correct.
    pub fn checked(&self) -> Bytes {
        self.checked
    }

    /// Starts a write; returns its number.
    pub fn begin_write(&mut self, tag: u32, offset: u64, len: u64, class: DataClass) -> u64 {
        self.sequence += 1;
        // Numbers are stored in 32 bits, and 0 means unknown.
        if self.sequence as u32 == UNKNOWN {
            self.sequence += 1;
        }
        if self.classes.last().is_none_or(|(_, last)| *last != class) {
            self.classes.push((self.sequence, class));
        }
        // Two overlapping writes in flight complete in either order.
        let certain = !self.begin(tag, offset, len, true);
        self.set(offset, len, if certain { self.sequence as u32 } else { UNKNOWN });
        self.sequence
    }

    /// Starts a read.
    pub fn begin_read(&mut self, tag: u32, offset: u64, len: u64) {
        self.begin(tag, offset, len, false);
    }

    /// Starts a trim: the content afterwards depends on the drive.
    pub fn begin_trim(&mut self, tag: u32, offset: u64, len: u64) {
        self.begin(tag, offset, len, true);
        self.set(offset, len, UNKNOWN);
    }

    /// Registers an operation and marks the overlapping ones as disturbed. Returns true
    /// if an operation in flight writes to its range.
    fn begin(&mut self, tag: u32, offset: u64, len: u64, write: bool) -> bool {
        let mut disturbed = false;
        for other in self.in_flight.iter_mut().filter(|other| other.overlaps(offset, len)) {
            disturbed |= other.write;
            other.disturbed |= write;
        }
        self.in_flight.push(VerifierOp { tag, offset, len, write, disturbed });
        disturbed
    }

    /// Sets the units that the range covers fully to `last`; partly covered units become
    /// unknown.
    fn set(&mut self, offset: u64, len: u64, last: u32) {
        let unit = UNIT as u64;
        let (first, end) = (offset / unit, (offset + len).div_ceil(unit));
        for index in first..end {
            let whole = index * unit >= offset && (index + 1) * unit <= offset + len;
            if let Some(slot) = self.last.get_mut(index as usize) {
                *slot = if whole { last } else { UNKNOWN };
            }
        }
    }

    /// Ends operation `tag`; `read` is the data of a successful read. The first wrong
    /// unit is an error: its offset, and the kind of mismatch.
    pub fn end(
        &mut self,
        tag: u32,
        content: &ContentGenerator,
        read: Option<&[u8]>,
    ) -> Result<(), (u64, &'static str)> {
        let Some(index) = self.in_flight.iter().position(|op| op.tag == tag) else { return Ok(()) };
        let op = self.in_flight.swap_remove(index);
        let Some(read) =
            read.filter(|_| !op.write && !op.disturbed && op.offset.is_multiple_of(UNIT as u64))
        else {
            return Ok(());
        };
        for (n, unit) in read.chunks_exact(UNIT).enumerate() {
            let offset = op.offset + (n * UNIT) as u64;
            self.check(content, offset, unit).map_err(|problem| (offset, problem))?;
        }
        Ok(())
    }

    fn check(
        &mut self,
        content: &ContentGenerator,
        offset: u64,
        unit: &[u8],
    ) -> Result<(), &'static str> {
        let last = self.last.get(offset as usize / UNIT).copied().unwrap_or(UNKNOWN);
        if last == UNKNOWN {
            return Ok(());
        }
        let sequence = self.full_number(last);
        let class = self.class_of(sequence);
        let right = match content.check(class, offset, unit) {
            UnitCheck::Written(nonce) if nonce == content.nonce(class, offset, sequence) => Ok(()),
            UnitCheck::Zeros if class.incompressible_permille() == 0 => Ok(()),
            UnitCheck::Written(_) => Err("found an earlier write: the last one was lost"),
            UnitCheck::Zeros => Err("found zeros instead of the data written"),
            UnitCheck::Foreign => Err("found data other than those written"),
        };
        self.checked += Bytes(UNIT as u64);
        right
    }

    /// The latest write number whose lower 32 bits are `last`.
    fn full_number(&self, last: u32) -> u64 {
        let candidate = (self.sequence & !u64::from(u32::MAX)) | u64::from(last);
        if candidate > self.sequence { candidate - (1 << 32) } else { candidate }
    }

    fn class_of(&self, sequence: u64) -> DataClass {
        let after = self.classes.partition_point(|(from, _)| *from <= sequence);
        self.classes[after.saturating_sub(1)].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB4: u64 = UNIT as u64;

    struct Disk {
        bytes: Vec<u8>,
        content: ContentGenerator,
        verifier: Verifier,
    }

    impl Disk {
        fn new() -> Self {
            Self {
                bytes: vec![0xee; 16 * UNIT],
                content: ContentGenerator::new(1),
                verifier: Verifier::new(Bytes(16 * KIB4)),
            }
        }
        fn write(&mut self, unit: u64, units: usize, class: DataClass) {
            let offset = unit * KIB4;
            let sequence = self.verifier.begin_write(0, offset, (units * UNIT) as u64, class);
            self.content.fill(
                class,
                offset,
                sequence,
                &mut self.bytes[offset as usize..][..units * UNIT],
            );
            self.verifier.end(0, &self.content, None).unwrap();
        }
        fn read(&mut self, unit: u64, units: usize) -> Result<(), (u64, &'static str)> {
            let offset = unit * KIB4;
            self.verifier.begin_read(0, offset, (units * UNIT) as u64);
            let bytes = self.bytes[offset as usize..][..units * UNIT].to_vec();
            self.verifier.end(0, &self.content, Some(&bytes))
        }
    }

    #[test]
    fn reads_are_verified_only_where_written() {
        let mut disk = Disk::new();
        disk.write(2, 3, DataClass::Random);
        disk.write(3, 1, DataClass::Zero);
        disk.write(4, 1, DataClass::Compressible(50));
        disk.read(0, 8).unwrap();
        assert_eq!(disk.verifier.checked(), Bytes(3 * KIB4));
    }

    #[test]
    fn lost_misplaced_and_damaged_writes_are_distinguished() {
        let mut disk = Disk::new();
        disk.write(0, 4, DataClass::Random);
        let old = disk.bytes.clone();
        disk.write(1, 1, DataClass::Random);
        let new = disk.bytes.clone();
        disk.bytes.copy_from_slice(&old);
        assert_eq!(disk.read(0, 4), Err((KIB4, "found an earlier write: the last one was lost")));
        disk.bytes.copy_from_slice(&new);
        disk.bytes.copy_within(0..UNIT, 2 * UNIT);
        assert_eq!(disk.read(2, 1).unwrap_err().1, "found data other than those written");
        disk.bytes[3 * UNIT + 100] ^= 1;
        assert_eq!(disk.read(3, 1).unwrap_err().0, 3 * KIB4);
        disk.bytes[..UNIT].fill(0);
        assert_eq!(disk.read(0, 1).unwrap_err().1, "found zeros instead of the data written");
    }

    #[test]
    fn overlapping_operations_are_not_verified() {
        let mut disk = Disk::new();
        disk.write(0, 2, DataClass::Random);
        let before = disk.bytes[..2 * UNIT].to_vec();
        // A write overtakes a read.
        disk.verifier.begin_read(5, 0, 2 * KIB4);
        disk.write(0, 1, DataClass::Random);
        disk.verifier.end(5, &disk.content, Some(&before)).unwrap();
        // Two writes at once; the first one completes last.
        let first = disk.verifier.begin_write(6, 0, KIB4, DataClass::Random);
        disk.verifier.begin_write(7, 0, KIB4, DataClass::Random);
        disk.content.fill(DataClass::Random, 0, first, &mut disk.bytes[..UNIT]);
        disk.verifier.end(6, &disk.content, None).unwrap();
        disk.verifier.end(7, &disk.content, None).unwrap();
        disk.read(0, 2).unwrap();
        // The next write makes the content certain again.
        disk.write(0, 1, DataClass::Random);
        disk.bytes[7] ^= 1;
        assert!(disk.read(0, 1).is_err());
    }

    #[test]
    fn write_numbers_exceed_32_bits() {
        let mut disk = Disk::new();
        disk.verifier.sequence = (1 << 32) - 3;
        for unit in 0..4 {
            disk.write(unit, 1, DataClass::Random);
        }
        assert!(disk.verifier.sequence > 1 << 32);
        disk.read(0, 4).unwrap();
        assert_eq!(disk.verifier.checked(), Bytes(4 * KIB4));
    }
}
