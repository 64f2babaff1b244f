//! Snapshots of a drive's complete state.
//!
//! Layout: `TTSSD`, format version, checksum of everything after it, checksum of the
//! specification, state. Derived data (reverse map, valid counts, positions) are not
//! stored, so they cannot contradict the rest. A restored state passes the same checks as
//! the state after a command.

use super::clock::{Clock, FILLING};
use super::codec::{COUNT_MAX, SnapshotReader, Writer, checksum};
use super::ftl::{Frontier, Ftl};
use super::lane::{FlashLanes, Lane};
use super::partial::PartialUnit;
use super::transfers::Transfers;
use super::victims::Victims;
use super::{NEVER, Ssd, TRIMMED};
use crate::counters::Counters;
use crate::data::DataClass;
use crate::spec::{DriveSpec, SpecError};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

const MAGIC: &[u8; 5] = b"TTSSD";
/// Format version; increases with every layout change.
const VERSION: u8 = 5;
/// Maximum number of transfer times per channel, far more than reads in flight can cause.
const TRANSFERS_MAX: usize = 1 << 24;
/// Magic, version, two checksums.
const HEADER_BYTES: usize = 5 + 1 + 8 + 8;

/// Reason why a snapshot cannot be restored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// The specification is not of a valid SSD.
    #[error("invalid specification: {0}")]
    Spec(SpecError),
    /// The data do not start with the snapshot magic.
    #[error("this is not a snapshot of a modelled SSD")]
    NotASnapshot,
    /// Unsupported format version.
    #[error("the snapshot has format {found}; this version of the program reads {VERSION}")]
    Version {
        /// Version of the snapshot.
        found: u8,
    },
    /// The snapshot belongs to another drive.
    #[error("the snapshot belongs to a drive of another specification")]
    OtherSpec,
    /// Checksum mismatch: the snapshot is truncated or modified.
    #[error("the snapshot is truncated or corrupt: its checksum does not match")]
    Checksum,
    /// Invalid value.
    #[error("the snapshot is corrupt at byte {at}")]
    Corrupt {
        /// Offset in bytes.
        at: usize,
    },
    /// Inconsistent state.
    #[error("the snapshot is inconsistent: {0}")]
    Inconsistent(String),
}

/// Hash of a specification without its name and description.
fn fingerprint(spec: &DriveSpec) -> u64 {
    checksum(
        format!(
            "{:?}",
            (spec.capacity_bytes, spec.logical_block_bytes, &spec.interface, &spec.medium)
        )
        .as_bytes(),
    )
}

impl Ssd {
    /// Snapshot of the complete state, for [`restore`](Self::restore). It excludes
    /// durability tracking, so flush the drive first.
    #[must_use]
    pub fn snapshot(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.number(self.seed);
        write_ftl(&mut out, &self.ftl);
        write_clock(&mut out, &self.clock);
        self.write_rest(&mut out);
        let mut sealed = Vec::with_capacity(HEADER_BYTES + out.0.len());
        sealed.extend_from_slice(MAGIC);
        sealed.push(VERSION);
        sealed.extend_from_slice(&[0; 8]);
        sealed.extend_from_slice(&fingerprint(&self.spec).to_le_bytes());
        sealed.extend_from_slice(&out.0);
        let sum = checksum(&sealed[14..]).to_le_bytes();
        sealed[6..14].copy_from_slice(&sum);
        sealed
    }

    /// Upper bound on the snapshot size in bytes: twelve per mapped unit plus other
    /// state.
    pub(crate) fn snapshot_bytes_max(&self) -> u64 {
        const FIXED: u64 = 16 << 20;
        let count = |len: usize| len as u64;
        let tags = self.map_cache.as_ref().map_or(0, |cache| count(cache.tags.len()));
        FIXED
            + 12 * count(self.ftl.map.len())
            + 96 * count(self.ftl.blocks.len())
            + 24 * count(self.clock.rows.len())
            + 12 * tags
    }

    /// Hash of the complete state.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        checksum(&self.snapshot())
    }

    /// Restores the drive of `spec` from a [`snapshot`](Self::snapshot). It behaves
    /// exactly like the original.
    ///
    /// # Errors
    /// If the snapshot is invalid; a damaged snapshot is never restored in part.
    pub fn restore(spec: &DriveSpec, bytes: &[u8]) -> Result<Self, SnapshotError> {
        if !bytes.starts_with(MAGIC) {
            return Err(SnapshotError::NotASnapshot);
        }
        match bytes.get(5) {
            Some(&VERSION) => {}
            Some(&found) => return Err(SnapshotError::Version { found }),
            None => return Err(SnapshotError::Checksum),
        }
        let word = |at: usize| {
            bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map(u64::from_le_bytes)
        };
        let (Some(sum), Some(of_spec)) = (word(6), word(14)) else {
            return Err(SnapshotError::Checksum);
        };
        if checksum(&bytes[14..]) != sum {
            return Err(SnapshotError::Checksum);
        }
        if of_spec != fingerprint(spec) {
            return Err(SnapshotError::OtherSpec);
        }
        let mut reader = SnapshotReader::new(&bytes[HEADER_BYTES..]);
        let drive = Self::read_state(spec, &mut reader)?;
        if !reader.is_at_end() {
            return Err(SnapshotError::Corrupt { at: HEADER_BYTES + reader.at });
        }
        drive.check_invariants().map_err(SnapshotError::Inconsistent)?;
        Ok(drive)
    }

    fn read_state(
        spec: &DriveSpec,
        reader: &mut SnapshotReader<'_>,
    ) -> Result<Self, SnapshotError> {
        let corrupt = |at: usize| SnapshotError::Corrupt { at: HEADER_BYTES + at };
        let seed = reader.number().map_err(corrupt)?;
        let mut drive = Self::new(spec, seed).map_err(SnapshotError::Spec)?;
        read_ftl(reader, &mut drive.ftl).map_err(corrupt)?;
        read_clock(reader, &mut drive.clock).map_err(corrupt)?;
        drive.read_rest(reader).map_err(corrupt)?;
        let rows = drive.clock.rows.len();
        for frontier in &drive.ftl.frontiers {
            if frontier.cache_row as usize >= rows {
                return Err(corrupt(reader.at));
            }
            if frontier.taken {
                drive.clock.rows[frontier.cache_row as usize] = FILLING;
            }
        }
        Ok(drive)
    }

    fn write_rest(&self, out: &mut Writer) {
        out.number(self.partial.parts.len() as u64);
        for part in &self.partial.parts {
            out.number(part.unit);
            out.number(part.from);
            out.number(part.to);
            out.number(part.class.incompressible_permille());
        }
        if let Some(heat) = &self.heat {
            out.number(heat.excess_mc.to_bits());
            out.number(heat.updated);
            out.flag(heat.throttled);
        }
        if let Some(life) = &self.life {
            for number in [life.credit, life.counted, life.updated] {
                out.number(number);
            }
            out.flag(life.throttled);
        }
        if let Some(cache) = &self.map_cache {
            out.numbers(cache.tags.iter().copied());
            out.runs(cache.dirty.iter().map(|dirty| u8::from(*dirty)));
        }
        out.numbers(
            self.read_ahead
                .recent
                .iter()
                .flat_map(|(end, at)| [*end, *at])
                .collect::<Vec<u64>>()
                .into_iter(),
        );
        for instant in [self.now, self.quiet_since, self.idled_until, self.trim_free] {
            out.number(instant);
        }
    }

    fn read_rest(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), usize> {
        for _ in 0..reader.small(1_000_u64)? {
            let unit = reader.small(self.layout.units - 1)?;
            let (from, to) =
                (reader.small(self.layout.unit_bytes)?, reader.small(self.layout.unit_bytes)?);
            let class = DataClass::Measured(reader.small(1000)?);
            if from >= to {
                return Err(reader.at);
            }
            self.partial.parts.push_back(PartialUnit {
                unit,
                from,
                to,
                class,
                sequences: Vec::new(),
            });
        }
        if let Some(heat) = &mut self.heat {
            heat.excess_mc = f64::from_bits(reader.number()?);
            heat.updated = reader.count()?;
            heat.throttled = reader.flag()?;
            if !heat.excess_mc.is_finite() {
                return Err(reader.at);
            }
        }
        let written = self.nand_written();
        if let Some(life) = &mut self.life {
            for number in [&mut life.credit, &mut life.counted, &mut life.updated] {
                *number = reader.count()?;
            }
            life.throttled = reader.flag()?;
            if life.counted > written.0 {
                return Err(reader.at);
            }
        }
        self.set_speed();
        if let Some(cache) = &mut self.map_cache {
            cache.tags = reader.exactly(cache.tags.len(), u32::MAX)?;
            cache.dirty =
                reader.runs(cache.tags.len(), 1_u8)?.into_iter().map(|dirty| dirty == 1).collect();
        }
        let recent = reader.numbers(1000, COUNT_MAX)?;
        self.read_ahead.recent = recent.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        for instant in
            [&mut self.now, &mut self.quiet_since, &mut self.idled_until, &mut self.trim_free]
        {
            *instant = reader.count()?;
        }
        Ok(())
    }
}

fn write_ftl(out: &mut Writer, ftl: &Ftl) {
    write_map(out, &ftl.map);
    if let Some(packed) = &ftl.packed {
        out.runs(packed.sizes.iter().copied());
    }
    out.runs(ftl.stamps.iter().copied());
    out.runs(ftl.in_slc.iter().map(|slc| u8::from(*slc)));
    out.numbers(ftl.slc_queue.iter().copied());
    out.numbers(ftl.victims.listed().collect::<Vec<u32>>().into_iter());
    if let Victims::Drawn { rng, .. } = &ftl.victims {
        out.number(rng.drawn);
    }
    out.runs(ftl.pool.erases.iter().copied());
    out.runs(ftl.pool.retired.iter().map(|retired| u8::from(*retired)));
    out.number(ftl.pool.released());
    let free = ftl.pool.free_entries();
    out.number(free.len() as u64);
    for (worn, order, block) in free {
        out.number(worn);
        out.number(order);
        out.number(block);
    }
    for frontier in &ftl.frontiers {
        write_frontier(out, frontier);
    }
    out.numbers(ftl.turn.iter().copied());
    out.numbers(ftl.to_level.iter().copied());
    out.number(ftl.levelled_at);
    out.number(ftl.rows_relocated);
    out.flag(ftl.read_only);
    out.numbers(ftl.counters.fields().into_iter().map(|(_, value)| value));
}

fn read_ftl(reader: &mut SnapshotReader<'_>, ftl: &mut Ftl) -> Result<(), usize> {
    let (blocks, superblocks) = (ftl.blocks.len(), ftl.layout.superblocks);
    read_map(reader, ftl)?;
    if let Some(packed) = &mut ftl.packed {
        packed.sizes = reader.runs(packed.sizes.len(), u8::MAX)?;
    }
    ftl.stamps = reader.runs(blocks, u32::MAX)?;
    ftl.in_slc = reader.runs(blocks, 1_u8)?.into_iter().map(|slc| slc == 1).collect();
    ftl.slc_used = ftl.in_slc.iter().filter(|slc| **slc).count() as u32;
    ftl.slc_queue = reader.numbers(blocks, superblocks)?.into();
    let listed: Vec<u32> = reader.numbers(blocks, superblocks)?;
    if let Victims::Drawn { rng, .. } = &mut ftl.victims {
        rng.drawn = reader.number()?;
    }
    ftl.pool.erases = reader.runs(blocks, u32::MAX)?;
    ftl.pool.erases_max = ftl.pool.erases.iter().copied().max().unwrap_or(0);
    ftl.pool.retired = reader.runs(blocks, 1_u8)?.into_iter().map(|retired| retired == 1).collect();
    ftl.pool.worn_out = ftl.pool.retired.iter().filter(|retired| **retired).count() as u32;
    let released = reader.count()?;
    let mut free = Vec::new();
    for _ in 0..reader.small(blocks as u64)? {
        let (worn, order, block) =
            (reader.small(u32::MAX)?, reader.count()?, reader.small(superblocks)?);
        if block == 0 {
            return Err(reader.at);
        }
        free.push((worn, order, block));
    }
    ftl.pool.refill(released, &free);
    for at in 0..ftl.frontiers.len() {
        ftl.frontiers[at] = read_frontier(reader, &ftl.frontiers[at], ftl)?;
    }
    let turns = reader.exactly(ftl.turn.len(), ftl.layout.groups - 1)?;
    ftl.turn.copy_from_slice(&turns);
    ftl.to_level = reader.numbers(blocks, superblocks)?;
    ftl.levelled_at = reader.count()?;
    ftl.rows_relocated = reader.count()?;
    ftl.read_only = reader.flag()?;
    let values = reader.numbers(1000, COUNT_MAX)?;
    ftl.counters = Counters::from_values(&values).ok_or(reader.at)?;
    ftl.rebuild(&listed).ok_or(reader.at)
}

/// Encodes the steps from each entry to the next: runs of units in order have steps of
/// one, runs without data steps of zero.
fn write_map(out: &mut Writer, map: &[u32]) {
    let mut last = 0;
    out.runs(map.iter().map(|entry| entry.wrapping_sub(core::mem::replace(&mut last, *entry))));
}

fn read_map(reader: &mut SnapshotReader<'_>, ftl: &mut Ftl) -> Result<(), usize> {
    let start = reader.at;
    let addresses =
        1 << ftl.layout.shift..u64::from(ftl.layout.superblocks + 1) << ftl.layout.shift;
    ftl.map = reader.runs(ftl.map.len(), u32::MAX)?;
    let mut last = 0_u32;
    for entry in &mut ftl.map {
        last = last.wrapping_add(*entry);
        *entry = last;
    }
    let valid =
        |entry: &u32| matches!(*entry, NEVER | TRIMMED) || addresses.contains(&u64::from(*entry));
    if ftl.map.iter().all(valid) { Ok(()) } else { Err(start) }
}

fn write_frontier(out: &mut Writer, frontier: &Frontier) {
    let Frontier {
        next,
        row_end,
        end,
        back,
        group,
        lies_on,
        die,
        taken,
        slc,
        cache_row,
        admit,
        ready,
    } = *frontier;
    for value in [next, row_end, end, group, lies_on, die, cache_row] {
        out.number(value);
    }
    for value in [back as u64, admit, ready] {
        out.number(value);
    }
    out.flag(taken);
    out.flag(slc);
}

fn read_frontier(
    reader: &mut SnapshotReader<'_>,
    fresh: &Frontier,
    ftl: &Ftl,
) -> Result<Frontier, usize> {
    let layout = &ftl.layout;
    let end_max = (layout.superblocks + 1) << layout.shift;
    let start = reader.at;
    let frontier = Frontier {
        next: reader.small(end_max)?,
        row_end: reader.small(end_max)?,
        end: reader.small(end_max)?,
        group: reader.small(layout.groups - 1)?,
        lies_on: reader.small(layout.groups - 1)?,
        die: reader.small(ftl.superblock_dies - 1)?,
        cache_row: reader.small(u32::MAX)?,
        back: reader.small(u64::from(layout.superblocks) * u64::from(layout.superblock_slots))?
            as usize,
        admit: reader.count()?,
        ready: reader.count()?,
        taken: reader.flag()?,
        slc: reader.flag()?,
    };
    let Frontier { next, row_end, end, .. } = frontier;
    let block = next >> layout.shift;
    let slots = if frontier.slc { layout.slc_superblock_slots } else { layout.superblock_slots };
    let sound = !frontier.is_open()
        || (block != 0
            && end == (block << layout.shift) + slots
            && next < row_end
            && row_end <= end
            && frontier.back
                == ((block - 1) * layout.superblock_slots + (next - (block << layout.shift)))
                    as usize
            && frontier.lies_on == ftl.pool.group(block));
    if sound && frontier.group == fresh.group { Ok(frontier) } else { Err(start) }
}

fn write_lanes(out: &mut Writer, lanes: &FlashLanes) {
    for lane in &lanes.each {
        let Lane { free, reads_free, ref transfers, owed, host_ns, background_ns } = *lane;
        for value in [free, reads_free, owed, host_ns, background_ns] {
            out.number(value);
        }
        out.numbers(transfers.instants());
    }
    for value in [
        lanes.share,
        lanes.charged_ns,
        lanes.undivided_ns,
        lanes.uncovered_ns,
        lanes.idle_uncovered_ns,
    ] {
        out.number(value);
    }
}

fn read_lanes(reader: &mut SnapshotReader<'_>, lanes: &mut FlashLanes) -> Result<(), usize> {
    for lane in &mut lanes.each {
        *lane = Lane {
            free: reader.count()?,
            reads_free: reader.count()?,
            owed: reader.count()?,
            host_ns: reader.count()?,
            background_ns: reader.count()?,
            transfers: Transfers::default(),
        };
        let instants = reader.numbers(TRANSFERS_MAX, COUNT_MAX)?;
        lane.transfers = Transfers::from_instants(&instants)
            .filter(|_| instants.last().is_none_or(|end| *end <= lane.reads_free))
            .ok_or(reader.at)?;
    }
    let FlashLanes { each: _, share, charged_ns, undivided_ns, uncovered_ns, idle_uncovered_ns } =
        lanes;
    for value in [share, charged_ns, undivided_ns, uncovered_ns, idle_uncovered_ns] {
        *value = reader.count()?;
    }
    Ok(())
}

fn write_clock(out: &mut Writer, clock: &Clock) {
    write_lanes(out, &clock.dies);
    write_lanes(out, &clock.channels);
    out.numbers(clock.in_flight.iter().copied());
    // Rows being filled are known from the frontiers.
    out.runs(clock.rows.iter().map(|free| if *free == FILLING { 0 } else { *free }));
    out.numbers(clock.row_addresses.iter().copied());
    for value in [
        clock.counted_since,
        clock.programs,
        clock.link_free[0],
        clock.link_free[1],
        clock.processor_free,
        clock.blocked_until,
        u64::from(clock.row_next),
        clock.programs_end,
        clock.flushed_slots,
        clock.heat_bytes,
        clock.reads_begin,
    ] {
        out.number(value);
    }
}

fn read_clock(reader: &mut SnapshotReader<'_>, clock: &mut Clock) -> Result<(), usize> {
    read_lanes(reader, &mut clock.dies)?;
    read_lanes(reader, &mut clock.channels)?;
    clock.in_flight = reader.numbers(1 << 20, COUNT_MAX)?.into();
    clock.rows = reader.runs(clock.rows.len(), COUNT_MAX)?;
    clock.row_addresses = reader.exactly(clock.rows.len(), u32::MAX)?;
    clock.counted_since = reader.count()?;
    clock.programs = reader.count()?;
    clock.link_free = [reader.count()?, reader.count()?];
    clock.processor_free = reader.count()?;
    clock.blocked_until = reader.count()?;
    clock.row_next = reader.small(clock.rows.len() as u32 - 1)?;
    clock.programs_end = reader.count()?;
    clock.flushed_slots = reader.count()?;
    clock.heat_bytes = reader.count()?;
    clock.reads_begin = reader.count()?;
    Ok(())
}
