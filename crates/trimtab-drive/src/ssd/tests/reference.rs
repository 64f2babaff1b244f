//! A second SSD model, slow and simple, with explicit resources, an event queue and naive
//! tables. Both must give the same completion times.
//!
//! It shares no code with the model. Placement is decided when a command is submitted and
//! recorded as jobs that wait for signals (data arrived, place free, row programmed).
//! Dies and channels then execute their jobs as time advances, without lookahead.
//! Collection is FIFO. Not covered: compression, mapping cache, partial units, wear
//! limits, throttling, read-ahead, and reads during unfinished programs.

mod commands;
mod comparison;
mod engine;
mod idle;
mod placement;
mod relocation;

use crate::spec::*;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use engine::{Activity, Engine, Server, Signal};

#[derive(Clone, Debug, Default)]
struct Superblock {
    /// Unit in each written slot; `None` for padding.
    slots: Vec<Option<u32>>,
    free: bool,
    slc: bool,
    erases: u32,
    released: u64,
}

/// A row being filled.
#[derive(Clone, Debug)]
struct Row {
    place: usize,
    /// Signals for its data and its place.
    after: Vec<Signal>,
    /// Signals for its place.
    placed: Vec<Signal>,
}

/// Write position of a stream.
#[derive(Clone, Debug, Default)]
struct Head {
    group: usize,
    open: Option<usize>,
    row: Option<Row>,
}

/// Owed time of dies or channels.
#[derive(Clone, Debug, Default)]
struct Debt {
    undivided: u64,
    uncovered: u64,
    /// Owed time of idle work until the next full division.
    idle: u64,
    share: u64,
}

#[derive(Clone, Debug)]
pub(super) enum Request {
    Write(u64, u64),
    Read(u64, u64),
    Trim(u64, u64),
    Flush,
}

pub(super) struct Reference {
    engine: Engine,
    interface: Interface,
    flash: Flash,
    dies: usize,
    group_dies: usize,
    groups: usize,
    unit: u64,
    units: u64,
    row_slots: usize,
    page_slots: usize,
    slots: usize,
    slc_slots: usize,
    superblocks: Vec<Superblock>,
    map: BTreeMap<u32, (usize, usize)>,
    heads: Vec<Head>,
    turn: [usize; 2],
    collecting: bool,
    fifo: VecDeque<usize>,
    slc_fifo: VecDeque<usize>,
    releases: u64,
    /// Per write-cache place: end of its last program, and the head that fills it.
    places: Vec<(Option<Signal>, Option<usize>)>,
    next_place: usize,
    debts: [Debt; 2],
    programs: u64,
    rows_moved: u64,
    programmed: Vec<Signal>,
    to_flush: bool,
    completions: Vec<Signal>,
    last_started: Signal,
    link: [Signal; 2],
    last_trim: Signal,
    blocked: Signal,
}

fn ns(bytes: u64, rate: u64) -> u64 {
    ((u128::from(bytes) * 1_000_000_000 + u128::from(rate) / 2) / u128::from(rate)) as u64
}

impl Reference {
    pub(super) fn new(spec: &DriveSpec) -> Self {
        let flash = spec.flash.clone();
        let geometry = &flash.geometry;
        let dies = geometry.dies() as usize;
        let group_dies = geometry.superblock_dies as usize;
        let groups = dies / group_dies;
        let unit = flash.ftl.mapping_unit_bytes;
        let row_slots = (geometry.page_bytes * u64::from(geometry.planes) / unit) as usize;
        let page_slots = ((geometry.page_bytes / unit) as usize).max(1);
        let rows = geometry.pages_per_block as usize * group_dies;
        let slc_rows =
            (geometry.pages_per_block / u32::from(geometry.bits_per_cell)) as usize * group_dies;
        let count = geometry.blocks_per_plane as usize * groups;
        let superblock = |nth| Superblock { free: true, released: nth, ..Superblock::default() };
        let streams = 1 + usize::from(flash.slc_cache.is_some());
        let mut heads: Vec<Head> = (0..streams)
            .flat_map(|_| 0..groups)
            .map(|group| Head { group, ..Head::default() })
            .collect();
        if flash.ftl.streams.separate_gc {
            heads.push(Head::default());
        }
        let row_bytes = geometry.page_bytes * u64::from(geometry.planes);
        let places = if flash.write_cache.bytes == 0 {
            dies
        } else {
            ((flash.write_cache.bytes / row_bytes) as usize).max(1)
        };
        let mut engine = Engine::default();
        let server = Server {
            jobs: VecDeque::new(),
            transfers: Vec::new(),
            doing: Activity::Nothing,
            since: 0,
            until: 0,
            owed: 0,
            worked_off: 0,
        };
        engine.servers = vec![server; dies + geometry.channels as usize];
        let zero = engine.gate(Vec::new(), 0);
        engine.run_to(0);
        Self {
            interface: spec.interface.clone(),
            dies,
            group_dies,
            groups,
            unit,
            units: spec.capacity_bytes / unit,
            row_slots,
            page_slots: if row_slots.is_multiple_of(page_slots) { page_slots } else { row_slots },
            slots: rows * row_slots,
            slc_slots: slc_rows * row_slots,
            superblocks: (0..count as u64).map(superblock).collect(),
            map: BTreeMap::new(),
            heads,
            turn: [0; 2],
            collecting: false,
            fifo: VecDeque::new(),
            slc_fifo: VecDeque::new(),
            releases: count as u64,
            places: vec![(None, None); places],
            next_place: 0,
            debts: Default::default(),
            programs: 0,
            rows_moved: 0,
            programmed: vec![zero],
            to_flush: false,
            completions: Vec::new(),
            last_started: zero,
            link: [zero; 2],
            last_trim: zero,
            blocked: zero,
            engine,
            flash,
        }
    }
}
