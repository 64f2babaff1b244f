//! Garbage collection in the mean: superblocks hold a number of slots of each group of
//! positions, and overwrites leave a share of them valid.
//!
//! A position that gets a share r of all writes survives in a superblock of age a with
//! probability e^(-r a), a in writes of the host (Van Houdt 2013, Desnoyers 2014). A write
//! cache that merges overwrites gives a new copy a dead time d: writes of its position until
//! then do not reach the flash. Then r / (1 + r d) reach it, and a copy survives with
//! probability e^(-r (a - d)).

use super::Collection;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use trimtab_drive::spec::VictimPolicy;

/// Superblocks of more slots stand for several.
const SUPERBLOCKS_MAX: u64 = 512;
/// Writes until steady, in times the positions.
const WRITES: u64 = 16;
/// Superblocks written from one correction of drift to the next.
const BALANCE_EVERY: u64 = 8;
/// Halvings of an interval that contains a root.
const HALVINGS: u32 = 60;

/// Positions with the same share of the writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupLoad {
    /// Number of positions.
    pub places: f64,
    /// Share of the writes that goes to each of them.
    pub rate: f64,
}

/// A superblock in steady state.
#[derive(Clone, Debug)]
pub(super) struct SteadySuperblock {
    /// Slots written.
    pub slots: f64,
    /// Slots written of each group.
    pub written: Vec<f64>,
    /// Valid ones among them, and their sum.
    pub valid: Vec<f64>,
    valid_sum: f64,
    /// Time of its youngest data, in superblocks written by the host.
    born: f64,
}

impl SteadySuperblock {
    fn new(groups: usize, born: f64) -> Self {
        Self {
            slots: 0.0,
            written: vec![0.0; groups],
            valid: vec![0.0; groups],
            valid_sum: 0.0,
            born,
        }
    }

    /// Whole slots written, at least one.
    pub(super) fn len(&self) -> u64 {
        (self.slots + 0.5).max(1.0) as u64
    }

    /// Adds `share` of `data`.
    fn add(&mut self, data: &[f64], share: f64) {
        for ((written, valid), data) in self.written.iter_mut().zip(&mut self.valid).zip(data) {
            *written += data * share;
            *valid += data * share;
        }
        let slots = data.iter().sum::<f64>() * share;
        self.slots += slots;
        self.valid_sum += slots;
    }

    /// Multiplies the valid slots of each group.
    fn scale(&mut self, factors: &[f64]) {
        self.valid_sum = 0.0;
        for (valid, factor) in self.valid.iter_mut().zip(factors) {
            *valid *= factor;
            self.valid_sum += *valid;
        }
    }
}

/// A drive of a load, in the mean.
struct MeanDrive<'a> {
    load: &'a [GroupLoad],
    collection: &'a Collection,
    /// Slots per superblock, and superblocks at the start of a collection.
    slots: f64,
    superblocks: usize,
    /// Superblocks that a collection frees, beyond room for the relocated data.
    spare: usize,
    /// Slots of each group in a superblock of fresh data, and those valid at its end.
    fresh: Vec<f64>,
    fresh_valid: Vec<f64>,
    /// Share of each group that survives while the host fills a superblock.
    survives: Vec<f64>,
    closed: VecDeque<SteadySuperblock>,
    open: SteadySuperblock,
    relocated: Option<SteadySuperblock>,
    now: f64,
}

/// The superblocks when a collection starts, from the oldest to the youngest, on a drive of
/// `slots` before that, `superblock` each; the write cache merges the `newest` ones.
pub(super) fn steady(
    load: &[GroupLoad],
    collection: &Collection,
    (slots, superblock, newest): (u64, u64, u64),
) -> Vec<SteadySuperblock> {
    let together = slots.div_ceil(superblock * SUPERBLOCKS_MAX).max(1);
    let size = (superblock * together) as f64;
    let superblocks = ((slots as f64 / size + 0.5) as usize).max(1);
    // Keeps the spare space although the number is whole.
    let size = slots as f64 / superblocks as f64;
    let more_free = u64::from(collection.more_free) / together;
    let mut drive = MeanDrive::new(load, collection, (size, superblocks), newest as f64);
    drive.spare = usize::from(collection.separate) + more_free as usize;
    drive.fill();
    let places: f64 = load.iter().map(|share| share.places).sum();
    let writes = places * WRITES as f64;
    let (mut written, mut cycles) = (0.0, 0_u64);
    while written < writes || !drive.is_full() {
        if drive.is_full() {
            drive.collect();
        }
        written += drive.write();
        cycles += 1;
        if cycles.is_multiple_of(BALANCE_EVERY) {
            drive.balance();
        }
    }
    drive.balance();
    drive.in_order()
}

impl<'a> MeanDrive<'a> {
    fn new(
        load: &'a [GroupLoad],
        collection: &'a Collection,
        (slots, superblocks): (f64, usize),
        newest: f64,
    ) -> Self {
        let reaches = |dead: f64| -> f64 {
            load.iter().map(|share| share.places * share.rate / (1.0 + share.rate * dead)).sum()
        };
        // The newest slots are written in the dead time.
        let (mut low, mut high) = (0.0, newest * 1e6);
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(low, high);
            *(if middle * reaches(middle) < newest { &mut low } else { &mut high }) = middle;
        }
        let dead = f64::midpoint(low, high);
        let time = slots / reaches(dead);
        let fresh: Vec<f64> = load
            .iter()
            .map(|share| time * share.places * share.rate / (1.0 + share.rate * dead))
            .collect();
        let alive = (time - dead).max(0.0);
        let mean = |share: &GroupLoad| {
            let writes = (share.rate * alive).max(1e-12);
            1.0 - alive / time * (1.0 + libm::expm1(-writes) / writes)
        };
        Self {
            fresh_valid: fresh.iter().zip(load).map(|(slots, share)| slots * mean(share)).collect(),
            fresh,
            survives: load.iter().map(|share| libm::exp(-share.rate * time)).collect(),
            closed: VecDeque::new(),
            open: SteadySuperblock::new(load.len(), 0.0),
            relocated: None,
            now: 0.0,
            load,
            collection,
            slots,
            superblocks,
            spare: 0,
        }
    }

    /// Writes every position once.
    fn fill(&mut self) {
        let all: Vec<f64> = self.load.iter().map(|share| share.places).collect();
        let mut left: f64 = all.iter().sum();
        let share = self.slots / left;
        while left > 0.0 {
            let mut superblock = SteadySuperblock::new(all.len(), self.now);
            superblock.add(&all, share.min(share * left / self.slots));
            left -= self.slots;
            superblock.slots = self.slots;
            self.closed.push_back(superblock);
            self.now += 1.0;
        }
    }

    fn is_full(&self) -> bool {
        self.closed.len() + usize::from(self.relocated.is_some()) >= self.superblocks
    }

    /// Fills the open superblock with fresh data; returns their slots.
    fn write(&mut self) -> f64 {
        let groups = self.load.len();
        let mut open = core::mem::replace(&mut self.open, SteadySuperblock::new(groups, self.now));
        let room = self.slots - open.slots;
        let share = room / self.slots;
        self.now += share;
        // The time is in proportion.
        let survives: Vec<f64> = if share < 1.0 {
            self.survives.iter().map(|survives| libm::pow(*survives, share)).collect()
        } else {
            self.survives.clone()
        };
        for superblock in
            self.closed.iter_mut().chain(&mut self.relocated).chain(core::iter::once(&mut open))
        {
            superblock.scale(&survives);
        }
        open.slots = self.slots;
        for (nth, (written, valid)) in open.written.iter_mut().zip(&mut open.valid).enumerate() {
            *written += self.fresh[nth] * share;
            *valid += self.fresh_valid[nth] * share;
        }
        open.valid_sum = open.valid.iter().sum();
        self.closed.push_back(open);
        self.open.born = self.now;
        room
    }

    /// Makes every position valid once, against drift.
    fn balance(&mut self) {
        let mut sums = vec![0.0; self.load.len()];
        for superblock in self.closed.iter().chain(&self.relocated) {
            sums.iter_mut().zip(&superblock.valid).for_each(|(sum, valid)| *sum += valid);
        }
        for (sum, share) in sums.iter_mut().zip(self.load) {
            *sum = if *sum > 0.0 { share.places / *sum } else { 0.0 };
        }
        for superblock in self.closed.iter_mut().chain(&mut self.relocated) {
            superblock.scale(&sums);
        }
    }

    fn collect(&mut self) {
        let separate = self.collection.separate;
        let most = self.superblocks.saturating_sub(self.spare);
        for _ in 0..64 * self.superblocks {
            let open = usize::from(!separate && self.open.slots > 0.0);
            let used = self.closed.len() + usize::from(self.relocated.is_some()) + open;
            if used <= most && (separate || open == 1 || used < most) {
                return;
            }
            let Some(victim) = self.victim() else { return };
            self.relocate(&victim);
        }
    }

    fn victim(&mut self) -> Option<SteadySuperblock> {
        let score = |superblock: &SteadySuperblock| {
            let valid = superblock.valid_sum;
            match self.collection.victims {
                // The first in the queue.
                VictimPolicy::Fifo => 0.0,
                VictimPolicy::CostBenefit => {
                    -(self.slots - valid) * (self.now - superblock.born) / valid.max(1e-9)
                }
                _ => valid,
            }
        };
        let scores = self.closed.iter().map(score).enumerate();
        let (at, _) = scores.min_by(|a, b| a.1.total_cmp(&b.1))?;
        self.closed.remove(at)
    }

    fn relocate(&mut self, victim: &SteadySuperblock) {
        let mut left = victim.valid_sum;
        let total = left.max(1e-9);
        while left > 1e-9 {
            let groups = self.load.len();
            let target = if self.collection.separate {
                let target = self
                    .relocated
                    .get_or_insert_with(|| SteadySuperblock::new(groups, victim.born));
                // As old as its youngest data.
                target.born = target.born.max(victim.born);
                target
            } else {
                &mut self.open
            };
            let slots = left.min(self.slots - target.slots);
            target.add(&victim.valid, slots / total);
            left -= slots;
            if target.slots < self.slots - 1e-9 {
                continue;
            }
            if self.collection.separate {
                self.closed.extend(self.relocated.take());
            } else {
                let open =
                    core::mem::replace(&mut self.open, SteadySuperblock::new(groups, self.now));
                self.closed.push_back(open);
            }
        }
    }

    fn in_order(mut self) -> Vec<SteadySuperblock> {
        self.closed.extend(self.relocated);
        let mut all: Vec<SteadySuperblock> = self.closed.into();
        if self.collection.victims == VictimPolicy::CostBenefit {
            all.sort_by(|a, b| a.born.total_cmp(&b.born));
        }
        all
    }
}
