//! A hash of a drive's complete state, for golden results.

use crate::spec::DriveSpec;
use crate::ssd::Ssd;
use crate::ssd::check::listed;
use crate::ssd::clock::{Clock, FILLING};
use crate::ssd::ftl::{Frontier, Ftl};
use crate::ssd::lane::{FlashLanes, Lane};
use crate::ssd::victims::Victims;
use crate::varint;
use alloc::vec::Vec;
use core::cmp::Reverse;

const MAGIC: &[u8; 5] = b"TTSSD";
const VERSION: u8 = 5;

/// Hash of the complete state, except derived data.
pub fn fingerprint(ssd: &Ssd) -> u64 {
    let mut out = Writer::default();
    out.number(ssd.seed);
    write_ftl(&mut out, &ssd.ftl);
    write_clock(&mut out, &ssd.clock);
    write_rest(&mut out, ssd);
    let state = [&of_spec(&ssd.spec).to_le_bytes()[..], &out.0].concat();
    let sum = checksum(&state).to_le_bytes();
    checksum(&[MAGIC.as_slice(), &[VERSION], &sum, &state].concat())
}

/// Hash of a specification without its name and description.
fn of_spec(spec: &DriveSpec) -> u64 {
    let DriveSpec { capacity_bytes, logical_block_bytes, interface, flash, .. } = spec;
    let figures = std::format!(
        "({capacity_bytes:?}, {logical_block_bytes:?}, {interface:?}, Flash({flash:?}))"
    );
    checksum(figures.as_bytes())
}

/// FNV-1a, 64 bits.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[derive(Debug, Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, value: impl Into<u64>) {
        varint::push(&mut self.0, value.into());
    }

    fn flag(&mut self, value: bool) {
        self.0.push(u8::from(value));
    }

    /// Writes a list with its length.
    fn numbers<T: Copy + Into<u64>>(&mut self, values: impl ExactSizeIterator<Item = T>) {
        self.number(values.len() as u64);
        for value in values {
            self.number(value);
        }
    }

    /// Writes a list as runs of equal values: run length, value.
    fn runs<T: Copy + PartialEq + Into<u64>>(&mut self, values: impl ExactSizeIterator<Item = T>) {
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

fn write_rest(out: &mut Writer, ssd: &Ssd) {
    out.number(ssd.partial.parts.len() as u64);
    for part in &ssd.partial.parts {
        out.number(part.unit);
        out.number(part.from);
        out.number(part.to);
        out.number(part.class.incompressible_permille());
    }
    if let Some(heat) = &ssd.heat {
        out.number(heat.excess_mc.to_bits());
        out.number(heat.updated);
        out.flag(heat.throttled);
    }
    if let Some(life) = &ssd.life {
        for number in [life.credit, life.counted, life.updated] {
            out.number(number);
        }
        out.flag(life.throttled);
    }
    if let Some(cache) = &ssd.map_cache {
        out.numbers(cache.tags.iter().copied());
        out.runs(cache.dirty.iter().map(|dirty| u8::from(*dirty)));
    }
    out.numbers(
        ssd.read_ahead
            .recent
            .iter()
            .flat_map(|(end, at)| [*end, *at])
            .collect::<Vec<u64>>()
            .into_iter(),
    );
    for instant in [ssd.now, ssd.quiet_since, ssd.idled_until, ssd.trim_free] {
        out.number(instant);
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
    out.numbers(listed(&ftl.victims).into_iter());
    if let Victims::Drawn { rng, .. } = &ftl.victims {
        out.number(rng.drawn);
    }
    out.runs(ftl.pool.erases.iter().copied());
    out.runs(ftl.pool.retired.iter().map(|retired| u8::from(*retired)));
    out.number(ftl.pool.released());
    let mut free: Vec<_> = ftl.pool.heaps.iter().flatten().map(|Reverse(entry)| *entry).collect();
    free.sort_unstable();
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

/// Encodes the steps from each entry to the next: runs of units in order have steps of
/// one, runs without data steps of zero.
fn write_map(out: &mut Writer, map: &[u32]) {
    let mut last = 0;
    out.runs(map.iter().map(|entry| entry.wrapping_sub(core::mem::replace(&mut last, *entry))));
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

fn write_lanes(out: &mut Writer, lanes: &FlashLanes) {
    for lane in &lanes.each {
        let Lane { free, reads_free, ref transfers, owed, host_ns, background_ns } = *lane;
        for value in [free, reads_free, owed, host_ns, background_ns] {
            out.number(value);
        }
        let instants = transfers.0.iter().flat_map(|(from, to)| [*from, *to]);
        out.numbers(instants.collect::<Vec<u64>>().into_iter());
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
