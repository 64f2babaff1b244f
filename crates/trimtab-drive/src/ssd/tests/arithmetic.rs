//! Compares write rates with NAND arithmetic, which predicts each phase of a fill from
//! the specification alone, without the model's clock.
//!
//! `docs/method/ssd.md` states the formulas. The slowest of processor, queue, link,
//! channels and dies limits the rate.

mod channels;
mod collection;
mod groups;
mod laws;
mod lone_reads;
mod lone_writes;
mod real_drives;

use super::small;
use crate::data::DataClass;
use crate::rng::Stream;
use crate::spec::file;
use crate::spec::*;
use crate::ssd::*;
use alloc::string::String;
use alloc::vec::Vec;

/// A part of a sequential fill with a constant rate: from byte, to byte, rate.
#[derive(Debug)]
struct Phase {
    name: &'static str,
    from: f64,
    to: f64,
    /// Lower and upper bound, usually equal.
    bytes_per_s: [f64; 2],
}

/// A specification in bytes and seconds.
struct Arithmetic<'a> {
    interface: &'a Interface,
    flash: &'a Flash,
    capacity: f64,
    dies: f64,
    row: f64,
    /// Bytes per superblock, in native and in SLC mode.
    superblock: f64,
    slc_superblock: f64,
    /// Bytes written to flash per host byte; 1 unless the drive compresses.
    stored: f64,
}

impl<'a> Arithmetic<'a> {
    fn new(spec: &'a DriveSpec) -> Self {
        let flash = &spec.flash;
        let geometry = &flash.geometry;
        let row = (geometry.page_bytes * u64::from(geometry.planes)) as f64;
        let rows = f64::from(geometry.superblock_dies) * f64::from(geometry.pages_per_block);
        let slc_rows = f64::from(geometry.superblock_dies)
            * f64::from(geometry.pages_per_block / u32::from(geometry.bits_per_cell));
        Self {
            interface: &spec.interface,
            flash,
            capacity: spec.capacity_bytes as f64,
            dies: geometry.dies() as f64,
            row,
            superblock: rows * row,
            slc_superblock: slc_rows * row,
            stored: 1.0,
        }
    }

    /// Adjusts for data of `class`: stored sizes are rounded up and limited to the
    /// minimum share.
    fn of(self, class: DataClass) -> Self {
        let Some(compression) = &self.flash.compression else { return self };
        let (unit, part) =
            (self.flash.ftl.mapping_unit_bytes as f64, f64::from(compression.granularity_bytes));
        let share = f64::from(class.incompressible_permille().max(compression.stored_permille_min))
            / 1000.0;
        Self { stored: (unit * share / part).ceil() * part / unit, ..self }
    }

    /// Time in seconds to fold a row out of the SLC cache, summed over dies.
    fn fold_s(&self) -> f64 {
        let Some(slc) = &self.flash.slc_cache else { return 0.0 };
        let erase = self.flash.nand.erase_ns as f64
            * f64::from(self.flash.geometry.superblock_dies)
            / (self.slc_superblock / self.row);
        (slc.read_ns as f64 + self.flash.nand.program_ns as f64 + erase) / 1e9
    }

    /// Bounds of the rate in bytes per second for commands of `command` bytes with
    /// `depth` in flight. A row is programmed in `program_s`, takes `die_s` seconds
    /// summed over dies and crosses the channels `crossings` times.
    fn rate(
        &self,
        command: f64,
        depth: f64,
        program_s: f64,
        die_s: f64,
        crossings: f64,
    ) -> [f64; 2] {
        let interface = self.interface;
        let channels = f64::from(self.flash.geometry.channels);
        let channel =
            channels * self.flash.nand.channel_bytes_per_s as f64 / crossings / self.stored;
        let engine =
            self.flash.compression.as_ref().map_or(0, |compression| compression.engine_bytes_per_s);
        let link = (interface.rate_bytes_per_s as f64).min(if engine == 0 {
            f64::INFINITY
        } else {
            engine as f64
        });
        let overhead = interface.overhead_of_writes_ns() as f64;
        let processor = command / (overhead / 1e9);
        let depth = depth.min(f64::from(interface.queue_depth));
        let queue =
            depth * command / ((overhead + interface.latency_ns as f64) / 1e9 + command / link);
        let dies = |seconds: f64| self.dies * self.row / self.stored / seconds;
        let [least, most] = self.through_the_cache(command, depth, program_s).map(|cache| {
            [dies(die_s), channel, link, processor, queue, cache]
                .into_iter()
                .fold(f64::INFINITY, f64::min)
        });
        // The background work of a superblock becomes due at once: dies wait for it once
        // per round. A sufficiently full write cache hides that.
        let rounds = f64::from(
            self.flash.geometry.pages_per_block / u32::from(self.flash.geometry.bits_per_cell),
        );
        let background = dies(die_s - program_s).min(channel * crossings / (crossings - 1.0));
        [1.0 / (1.0 / least + 1.0 / (background * rounds)), most]
    }

    /// True if the write cache always has data for every die, which gives the maximum
    /// rate.
    fn is_never_empty(&self, command: f64, depth: f64) -> bool {
        self.flash.write_cache.bytes as f64 >= 4.0 * self.dies * self.row
            && depth * command >= 2.0 * self.row
    }

    /// Bounds of the rate through the write cache. A row occupies a place from its first
    /// data until it is programmed. For the lower bound, commands are sequential and
    /// arrive only after the row has its place.
    fn through_the_cache(&self, command: f64, depth: f64, program_s: f64) -> [f64; 2] {
        let interface = self.interface;
        let cache = self.flash.write_cache.bytes as f64;
        let places = if cache == 0.0 { self.dies } else { (cache / self.row).floor().max(1.0) };
        let programmed = self.row / self.flash.nand.channel_bytes_per_s as f64 + program_s;
        let piece = command.min(f64::from(256 << 10));
        let overhead = interface.overhead_of_writes_ns() as f64 / 1e9;
        let link_s = piece / interface.rate_bytes_per_s as f64;
        // Time from the end of a command to the next one's data, and time between
        // arrivals.
        let turnaround = overhead + interface.latency_ns as f64 / 1e9 + link_s;
        let each = (turnaround / depth).max(overhead).max(link_s);
        let gathered = (self.row / command - depth).max(0.0) * each;
        let waited = (places * self.row / command / depth).max(1.0) * turnaround;
        [programmed + gathered + waited, programmed]
            .map(|seconds| places * self.row / self.stored / seconds)
    }

    /// Phases of filling a new drive, in order.
    fn fill(&self, command: f64, depth: f64) -> Vec<Phase> {
        let native_s = self.flash.nand.program_ns as f64 / 1e9;
        let native = self.rate(command, depth, native_s, native_s, 1.0);
        let Some(slc) = &self.flash.slc_cache else {
            return alloc::vec![Phase {
                name: "native",
                from: 0.0,
                to: self.capacity,
                bytes_per_s: native
            }];
        };
        let slc_s = slc.program_ns as f64 / 1e9;
        let (least, most, shrinks) = match slc.size {
            SlcSize::Fixed { bytes } => (bytes as f64, bytes as f64, false),
            SlcSize::Dynamic { bytes_min, bytes_max } => (bytes_min as f64, bytes_max as f64, true),
        };
        let blocks = |bytes: f64| (bytes / self.slc_superblock).ceil();
        // The cache limit is the minimum plus the unmapped space, in native superblocks.
        let limit_at = |written: f64| blocks(least) + (self.capacity - written) / self.superblock;
        let shrinking_from = if shrinks {
            self.capacity - (blocks(most) - blocks(least)) * self.superblock
        } else {
            f64::INFINITY
        };
        let never = blocks(most) * self.slc_superblock;
        let full = if never <= shrinking_from {
            never
        } else {
            limit_at(0.0) / (1.0 / self.slc_superblock + 1.0 / self.superblock)
        };
        let full = full.min(self.capacity);
        // While the cache shrinks, each superblock of new data pushes one out of the
        // cache.
        let shrinking = self.slc_superblock / self.superblock;
        let (program_s, first, more) = match slc.when_full {
            SlcFull::WriteDirect => (
                native_s,
                (native_s, 1.0),
                (native_s + shrinking * self.fold_s(), 1.0 + 2.0 * shrinking),
            ),
            SlcFull::FoldFirst => {
                let all = 1.0 + shrinking;
                (
                    slc_s,
                    (slc_s + self.fold_s(), 3.0),
                    (slc_s + all * self.fold_s(), 1.0 + 2.0 * all),
                )
            }
        };
        let shrinking_from = shrinking_from.clamp(full, self.capacity);
        alloc::vec![
            Phase {
                name: "cache",
                from: 0.0,
                to: full,
                bytes_per_s: self.rate(command, depth, slc_s, slc_s, 1.0)
            },
            Phase {
                name: "behind it",
                from: full,
                to: shrinking_from,
                bytes_per_s: self.rate(command, depth, program_s, first.0, first.1)
            },
            Phase {
                name: "shrinking",
                from: shrinking_from,
                to: self.capacity,
                bytes_per_s: self.rate(command, depth, program_s, more.0, more.1)
            },
        ]
    }
}

/// Queue depth that keeps the drive busy without spanning a phase.
fn deep(command: u64) -> usize {
    ((4 << 20) / command).clamp(8, 256) as usize
}

/// A host with `depth` commands in flight.
struct Queue {
    ssd: Ssd,
    depth: usize,
    now: Nanos,
    done: Vec<Nanos>,
    next: usize,
    class: DataClass,
}

impl Queue {
    fn new(spec: &DriveSpec, depth: usize) -> Self {
        Self {
            ssd: Ssd::new(spec, 3).unwrap(),
            depth,
            now: Nanos(0),
            done: alloc::vec![Nanos(0); depth],
            next: 0,
            class: DataClass::Random,
        }
    }

    fn run(&mut self, command: &Command<'_>) {
        self.now = self.now.max(self.done[self.next]);
        let completion = self.ssd.submit(self.now, command);
        assert_eq!(completion.result, Ok(()));
        self.done[self.next] = completion.done;
        self.next = (self.next + 1) % self.depth;
    }

    fn write(&mut self, offset: u64, len: u64) {
        self.run(&Command::Write(Extent { offset, len }, self.class));
    }
}

/// Number of compared phases, and of those with a single predicted rate instead of
/// bounds.
#[derive(Clone, Copy, Debug, Default)]
struct Compared {
    phases: usize,
    sharply: usize,
    /// Phases with bounds less than a fifth apart.
    nearly: usize,
}

/// Compares a sequential fill by writes of `command` bytes with the arithmetic. Adds
/// deviations of more than 5 % to the report. Returns the number of phases that were long
/// enough to compare.
fn compare_fill(
    spec: &DriveSpec,
    class: DataClass,
    command: u64,
    depth: usize,
    sharp: bool,
    wrong: &mut Vec<String>,
) -> Compared {
    let arithmetic = Arithmetic::new(spec).of(class);
    let sharp = sharp || arithmetic.is_never_empty(command as f64, depth as f64);
    let mut queue = Queue { class, ..Queue::new(spec, depth) };
    let groups = queue.ssd.layout().groups as f64;
    let cache = (spec.flash.write_cache.bytes as f64).max(arithmetic.dies * arithmetic.row);
    // Open, in-flight and buffered data blur the phase boundaries.
    let margin = (2.0 * groups + 1.0) * arithmetic.superblock
        + 2.0 * cache
        + (command * depth as u64) as f64;
    let mut compared = Compared::default();
    let mut at = 0;
    let mut write_to = |queue: &mut Queue, to: f64| {
        while ((at + command) as f64) <= to {
            queue.write(at, command);
            at += command;
        }
        (at, *queue.done.iter().max().unwrap())
    };
    for phase in arithmetic.fill(command as f64, depth as f64) {
        let (from, to) = (phase.from + margin, phase.to - margin);
        // Enough rounds of collection that an unfinished one makes less than 5 %.
        if to - from
            < 24.0 * groups * arithmetic.slc_superblock.max(arithmetic.row * arithmetic.dies)
                + 4.0 * cache
        {
            continue;
        }
        let (begun, start) = write_to(&mut queue, from);
        let (ended, end) = write_to(&mut queue, to);
        let rate = (ended - begun) as f64 / (end - start).as_secs_f64();
        let [least, most] = if sharp { [phase.bytes_per_s[1]; 2] } else { phase.bytes_per_s };
        compared.phases += 1;
        compared.sharply += usize::from(most < 1.05 * least);
        compared.nearly += usize::from(most < 1.2 * least);
        if rate < 0.95 * least || rate > 1.05 * most {
            wrong.push(std::format!(
                "{}, {class:?}, {command} bytes, {depth} in flight, {} from {:.3e} \
                    to {:.3e}: {:.1} MB/s, predicted {:.1} to {:.1}",
                spec.name,
                phase.name,
                phase.from,
                phase.to,
                rate / 1e6,
                least / 1e6,
                most / 1e6
            ));
        }
    }
    if let Err(broken) = queue.ssd.check_invariants() {
        wrong.push(std::format!("{}: {broken}", spec.name));
    }
    compared
}

/// The shipped SSDs, scaled down by `parts` through shorter erase blocks, which keeps all
/// proportions. Without thermal and endurance throttling.
fn shipped(parts: u32) -> Vec<DriveSpec> {
    let specs = parts_of("", parts);
    assert!(specs.len() >= 14, "{}", specs.len());
    specs
}

/// The SSDs of a directory below `drives`, scaled down by `parts`.
fn parts_of(directory: &str, parts: u32) -> Vec<DriveSpec> {
    let mut specs = Vec::new();
    let files =
        std::fs::read_dir(std::format!("{}/../../drives/{directory}", env!("CARGO_MANIFEST_DIR")))
            .unwrap();
    for path in files.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
        let text = std::fs::read_to_string(path).unwrap();
        let mut spec = file::parse(&text).unwrap().spec;
        let flash = &mut spec.flash;
        let unit = flash.ftl.mapping_unit_bytes.max(u64::from(spec.logical_block_bytes));
        let part = u64::from(parts);
        flash.geometry.pages_per_block /= parts;
        flash.nand.erase_ns /= part;
        (flash.thermal, flash.life_throttle) = (None, None);
        flash.ftl.mapping_cache_bytes = flash.ftl.mapping_cache_bytes.map(|bytes| bytes / part);
        if let Some(slc) = &mut flash.slc_cache {
            match &mut slc.size {
                SlcSize::Fixed { bytes } => *bytes /= part,
                SlcSize::Dynamic { bytes_min, bytes_max } => {
                    (*bytes_min, *bytes_max) = (*bytes_min / part, *bytes_max / part)
                }
            }
        }
        spec.capacity_bytes = spec.capacity_bytes / part / unit * unit;
        spec.validate().unwrap();
        specs.push(spec);
    }
    specs.sort_by(|a, b| a.name.cmp(&b.name));
    specs
}

#[test]
fn shipped_drives_fill_at_predicted_rates() {
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for spec in shipped(16) {
        let flash = &spec.flash;
        let classes =
            [DataClass::Random, DataClass::Text, DataClass::Compressible(46), DataClass::Zero];
        for class in &classes[..if flash.compression.is_some() { 4 } else { 1 }] {
            for command in [4096, 64 << 10, 1 << 20] {
                if command >= flash.ftl.mapping_unit_bytes {
                    let phases =
                        compare_fill(&spec, *class, command, deep(command), true, &mut wrong);
                    assert!(phases.phases > 0, "{}: nothing to compare", spec.name);
                    compared += phases.phases;
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{compared} compared, {} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared >= 100, "{compared}");
}

/// A random valid specification with some kind of SLC cache.
fn random_spec(rng: &mut Stream, nth: u64) -> DriveSpec {
    let pick = |rng: &mut Stream, of: &[u64]| of[rng.below(of.len() as u64) as usize];
    small(|spec, flash| {
        spec.name = std::format!("random-{nth}");
        let (channels, dies_per_channel) =
            (pick(rng, &[1, 2, 4, 8]) as u32, pick(rng, &[1, 2, 3, 4]) as u32);
        let dies = channels * dies_per_channel;
        flash.geometry = Geometry {
            channels,
            dies_per_channel,
            planes: pick(rng, &[1, 2, 4]) as u32,
            page_bytes: pick(rng, &[4096, 8192, 16384]),
            pages_per_block: rng.between(6, 40) as u32,
            blocks_per_plane: 1,
            superblock_dies: if rng.chance(0.7) || dies % 2 == 1 { dies } else { dies / 2 },
            bits_per_cell: rng.between(2, 4) as u8,
        };
        flash.nand.program_ns = rng.between(200_000, 3_000_000);
        flash.nand.read_ns = rng.between(20_000, 120_000);
        flash.nand.erase_ns = rng.between(50_000, 2_000_000);
        flash.nand.channel_bytes_per_s = rng.between(30_000_000, 1_600_000_000);
        flash.ftl.streams.separate_gc = rng.chance(0.7);
        let row = flash.geometry.page_bytes * u64::from(flash.geometry.planes);
        flash.write_cache.bytes = row * u64::from(dies) * rng.between(4, 16);
        spec.interface = Interface {
            rate_bytes_per_s: rng.between(100_000_000, 4_000_000_000),
            full_duplex: rng.chance(0.5),
            queue_depth: pick(rng, &[32, 64, 1024]) as u32,
            command_overhead_ns: rng.between(500, 5_000),
            write_overhead_ns: rng.chance(0.3).then(|| rng.between(500, 10_000)),
            latency_ns: rng.between(2_000, 20_000),
        };
        let superblock = flash.geometry.superblock_bytes() as u64;
        let groups = u64::from(dies / flash.geometry.superblock_dies);
        spec.capacity_bytes = superblock * groups * rng.between(120, 240);
        let share = |rng: &mut Stream, from, to| spec.capacity_bytes / 1000 * rng.between(from, to);
        let size = if rng.chance(0.5) {
            SlcSize::Fixed { bytes: share(rng, 60, 200) }
        } else {
            SlcSize::Dynamic { bytes_min: share(rng, 5, 50), bytes_max: share(rng, 60, 200) }
        };
        let when_full = if rng.chance(0.5) { SlcFull::WriteDirect } else { SlcFull::FoldFirst };
        let program_ns = flash.nand.program_ns / rng.between(2, 8);
        flash.slc_cache = rng.chance(0.85).then_some(SlcCache {
            size,
            program_ns,
            read_ns: flash.nand.read_ns / 2,
            when_full,
            idle_fold_ns: None,
        });
        let needed = |flash: &Flash, spec: &DriveSpec, blocks| {
            let mut flash = flash.clone();
            flash.geometry.blocks_per_plane = blocks;
            DriveSpec { flash, ..spec.clone() }.validate().is_ok()
        };
        flash.geometry.blocks_per_plane =
            (1..4000).find(|blocks| needed(flash, spec, *blocks)).unwrap() + 8;
    })
}

/// Like [`random_spec`], with any write cache and queue depth.
fn odd_spec(rng: &mut Stream, nth: u64) -> (DriveSpec, u64, usize) {
    let mut spec = random_spec(rng, nth);
    let flash = &mut spec.flash;
    let row = flash.geometry.page_bytes * u64::from(flash.geometry.planes);
    flash.write_cache.bytes =
        (row * rng.between(1, 2 * flash.geometry.dies())).min(64 << 10 << rng.below(8)).max(4096);
    let command = [4096, 16 << 10, 64 << 10, 100 << 10, 256 << 10, 1 << 20][rng.below(6) as usize];
    let depth = [1, 1, 2, 4, 32, deep(command)][rng.below(6) as usize];
    (spec, command, depth)
}

#[test]
fn unusual_drives_fill_at_predicted_rates() {
    let mut rng = Stream::new(12, "odd");
    let (mut wrong, mut compared) = (Vec::new(), Compared::default());
    for nth in 0..500 {
        let (spec, command, depth) = odd_spec(&mut rng, nth);
        let phases = compare_fill(&spec, DataClass::Random, command, depth, false, &mut wrong);
        compared.phases += phases.phases;
        compared.sharply += phases.sharply;
        compared.nearly += phases.nearly;
    }
    assert!(
        wrong.is_empty(),
        "{compared:?}, {} wrong:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(40)].join("\n")
    );
    assert!(
        compared.phases > 900 && compared.sharply > 300 && compared.nearly > 600,
        "{compared:?}"
    );
}

/// With a write cache of two rows before 128 dies and queue depth 1, dies wait for places
/// in the cache, and each place for the rest of its row. This is the cost of small
/// writes.
#[test]
fn small_write_cache_limits_rate_by_row_residence_time() {
    for (planes, pages_per_block, program_ns) in
        [(2, 12, 600_000), (4, 12, 4_400_000), (1, 48, 600_000), (4, 48, 2_200_000)]
    {
        let spec = small(|spec, flash| {
            flash.geometry = Geometry {
                channels: 64,
                dies_per_channel: 2,
                planes,
                page_bytes: 16384,
                pages_per_block,
                blocks_per_plane: 40,
                superblock_dies: 64,
                bits_per_cell: 4,
            };
            flash.nand.program_ns = program_ns;
            flash.write_cache.bytes = 64 << 10;
            spec.capacity_bytes = 40 * flash.geometry.superblock_bytes() as u64;
        });
        let (flash, interface) = (&spec.flash, &spec.interface);
        let row = 16384.0 * f64::from(planes);
        let programmed = program_ns as f64 + row / flash.nand.channel_bytes_per_s as f64 * 1e9;
        for command in [4096, 16384, 65536, 256 << 10] {
            let bytes = command as f64;
            let each = (interface.overhead_of_writes_ns() + interface.latency_ns) as f64
                + bytes / interface.rate_bytes_per_s as f64 * 1e9;
            let gathered = (row / bytes - 1.0).max(0.0) * each;
            let expected = 65536.0 / (programmed + gathered) * 1e9;
            let mut queue = Queue::new(&spec, 1);
            let mut write = |to: u64| {
                while queue.ssd.counters().host_written_bytes < to {
                    let at = queue.ssd.counters().host_written_bytes;
                    queue.write(at, command);
                }
                queue.done[0]
            };
            let (begun, ended) = (write(spec.capacity_bytes / 8), write(spec.capacity_bytes / 2));
            let rate = 3.0 / 8.0 * spec.capacity_bytes as f64 / (ended - begun).as_secs_f64();
            assert!(
                (rate / expected - 1.0).abs() < 0.03,
                "{planes} planes, {command} bytes: {rate:.0}, predicted {expected:.0}"
            );
        }
    }
}

#[test]
fn random_drives_fill_at_predicted_rates() {
    let mut rng = Stream::new(11, "arithmetic");
    let (mut wrong, mut compared) = (Vec::new(), [0; 4]);
    for nth in 0..500 {
        let spec = random_spec(&mut rng, nth);
        let command = [4096, 16 << 10, 100 << 10, 128 << 10, 1 << 20][rng.below(5) as usize];
        let phases =
            compare_fill(&spec, DataClass::Random, command, deep(command), true, &mut wrong);
        compared[phases.phases] += 1;
    }
    assert!(
        wrong.is_empty(),
        "{compared:?} phases, {} wrong:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(40)].join("\n")
    );
    // Three drives are too small for their superblocks; most show the SLC cache and its
    // end.
    assert!(
        compared[1] + 2 * compared[2] + 3 * compared[3] > 750 && compared[0] < 10,
        "{compared:?}"
    );
}

#[test]
fn steady_random_writes_match_counted_work() {
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for spec in shipped(64) {
        let flash = spec.flash.clone();
        for class in [DataClass::Random, DataClass::Compressible(30)] {
            if class != DataClass::Random && flash.compression.is_none() {
                continue;
            }
            let mut queue = Queue { class, ..Queue::new(&spec, 256) };
            let size = spec.capacity_bytes;
            (0..size / (1 << 20)).for_each(|nth| queue.write(nth << 20, 1 << 20));
            let mut rng = Stream::new(5, "steady");
            let unit = flash.ftl.mapping_unit_bytes.max(4096);
            let mut random = |queue: &mut Queue, count: u64| {
                (0..count).for_each(|_| queue.write(rng.below(size / unit) * unit, unit))
            };
            random(&mut queue, size / unit / 2);
            let (before, start) = (queue.ssd.counters().clone(), queue.now);
            random(&mut queue, size / unit / 2);
            let (counted, seconds) =
                (queue.ssd.counters().since(&before), (queue.now - start).as_secs_f64());
            let expected = steady_seconds(&spec, &counted);
            compared += 1;
            if (seconds / expected - 1.0).abs() > 0.05 {
                wrong.push(std::format!(
                    "{}, {class:?}: {seconds:.3} s, counted work {expected:.3} s; {counted:?}",
                    spec.name
                ));
            }
        }
    }
    assert!(wrong.is_empty() && compared > 18, "{compared} compared\n{}", wrong.join("\n"));
}

/// Time of the writes in `counted`: ns summed over dies, and bytes over all channels.
fn work_of_writes(spec: &DriveSpec, counted: &Counters) -> (f64, f64) {
    let arithmetic = Arithmetic::new(spec);
    let flash = &spec.flash;
    let slot =
        flash.compression.as_ref().map_or(flash.ftl.mapping_unit_bytes as f64, |compression| {
            f64::from(compression.granularity_bytes)
        });
    let rows = |slots: u64| slots as f64 * slot / arithmetic.row;
    let folding = flash.slc_cache.as_ref().filter(|slc| slc.when_full == SlcFull::FoldFirst);
    let host_program = folding.map_or(flash.nand.program_ns, |slc| slc.program_ns) as f64;
    let folded_rows =
        counted.folded_superblocks as f64 * arithmetic.slc_superblock / arithmetic.row;
    let slc_read = flash.slc_cache.as_ref().map_or(0.0, |slc| slc.read_ns as f64);
    let moved = counted.nand_written_gc_slots
        + counted.nand_written_fold_slots
        + counted.nand_written_wear_slots;
    let dies_ns = rows(counted.nand_written_host_slots) * host_program
        + rows(moved) * flash.nand.program_ns as f64
        + folded_rows * slc_read
        + (counted.nand_read_internal_rows as f64 - folded_rows) * flash.nand.read_ns as f64
        + counted.erases as f64
            * f64::from(flash.geometry.superblock_dies)
            * flash.nand.erase_ns as f64
        + counted.nand_read_map_pages as f64 * flash.nand.read_ns as f64
        + counted.nand_written_map_pages as f64 * flash.nand.program_ns as f64;
    let crossed = (counted.nand_written_host_slots + 2 * moved) as f64 * slot
        + counted.nand_read_map_pages as f64 * flash.geometry.page_bytes as f64;
    (dies_ns, crossed)
}

/// Time of the work in `counted` on the slowest resource, in seconds.
fn steady_seconds(spec: &DriveSpec, counted: &Counters) -> f64 {
    let (dies_ns, crossed) = work_of_writes(spec, counted);
    let flash = &spec.flash;
    let channels_s =
        crossed / (flash.nand.channel_bytes_per_s as f64 * f64::from(flash.geometry.channels));
    let commands_s =
        counted.host_writes as f64 * spec.interface.overhead_of_writes_ns() as f64 / 1e9;
    let link_s = counted.host_written_bytes as f64 / spec.interface.rate_bytes_per_s as f64;
    [dies_ns / 1e9 / flash.geometry.dies() as f64, channels_s, commands_s, link_s]
        .into_iter()
        .fold(0.0, f64::max)
}

#[test]
fn idle_folding_takes_predicted_time() {
    for mut spec in shipped(16) {
        let flash = &mut spec.flash;
        let Some(slc) = &mut flash.slc_cache else { continue };
        slc.idle_fold_ns = Some(1_000_000_000);
        flash.ftl.gc.idle_delay_ns = None;
        let arithmetic = Arithmetic::new(&spec);
        let bytes = arithmetic.fill(1e6, 256.0)[0].to / 2.0;
        let mut queue = Queue::new(&spec, 32);
        (0..bytes as u64 >> 20).for_each(|nth| queue.write(nth << 20, 1 << 20));
        let all = queue.ssd.occupancy().slc_superblocks;
        let closed = f64::from(all - 1) * arithmetic.slc_superblock;
        let seconds = 1.0 + closed / arithmetic.row * arithmetic.fold_s() / arithmetic.dies;
        let start = *queue.done.iter().max().unwrap();
        queue.ssd.idle(start + Nanos((0.95 * seconds * 1e9) as u64));
        assert!(queue.ssd.occupancy().slc_superblocks > 1, "{}: too early", spec.name);
        queue.ssd.idle(start + Nanos((1.05 * seconds * 1e9) as u64));
        assert!(
            queue.ssd.occupancy().slc_superblocks <= 1,
            "{}: too late, {seconds} s for {all}",
            spec.name
        );
        queue.ssd.check_invariants().unwrap();
    }
}
