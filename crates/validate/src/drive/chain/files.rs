//! End-to-end comparison with theory: a volume with files that come and go under a trim
//! policy, on a drive that satisfies the formulas' assumptions.
//!
//! A trim policy changes one parameter of the formulas: effective utilisation, the mean
//! number of mapped pages over physical pages. A filesystem also writes its journal,
//! bitmaps and inode tables: few pages with many writes, in one log with the files. Pages
//! are classified by address and counted in three kinds (files, rewritten metadata,
//! resting metadata). Nothing is fitted.

use crate::drive::ideal::{ideal_drive, raw_units};
use crate::drive::traffic::Effort;
use crate::theory;
use trimtab_drive::counters::Counters;
use trimtab_drive::data::DataClass;
use trimtab_drive::spec::VictimPolicy;
use trimtab_drive::ssd::Ssd;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::{Command, Completion, Device, Extent};
use trimtab_sim::policy::{PolicySpec, PolicyState};
use trimtab_sim::target::{Clock as _, FileTarget as _};
use trimtab_sim::volume::{BLOCK, SteeredVolume, Volume, VolumeSpec};
use trimtab_sim::workload::churn::{self, Churn};
use trimtab_sim::workload::{FileStep, FileWorkload as _};

/// Share of the physical pages exported by the drive; the rest is over-provisioning.
const SHOWN: f64 = 0.93;
/// Number of sessions that together write the drive's capacity once.
const SESSIONS: u64 = 400;
/// Session interval: ten drive writes per week, to suit policies with hours and days.
const SESSION_EVERY: Nanos = Nanos::from_secs(150);
/// Writes between two samples; prime, so that samples do not coincide with blocks.
const SAMPLE_EVERY: u64 = 997;

/// One comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct ChainCase {
    /// Trim policy of the filesystem.
    pub policy: PolicySpec,
    /// Victim policy of the drive.
    pub victim: VictimPolicy,
    /// Pages per erase block. Greedy drives benefit from files that die as a whole, which
    /// the formula ignores, so their blocks must hold many files. For FIFO only the mean
    /// matters.
    pub pages_per_block: u32,
    /// Share of the new filesystem's free space that files occupy.
    pub fill: f64,
    /// File size, a multiple of the block size.
    pub file: Bytes,
}

/// Write amplification of model and theory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChainOutcome {
    /// Write amplification of the modelled drive.
    pub model: f64,
    /// Formula for the mapped pages, with files and metadata as separate classes.
    pub theory: f64,
    /// Formula for the same amount of data in a single class.
    pub uniform: f64,
    /// Theory from counted page lifetimes, for a FIFO drive.
    pub of_lives: f64,
    /// Mean mapped pages over mean physical pages, without those held free.
    pub utilisation: f64,
    /// Mean pages of existing files, over the same physical pages.
    pub live: f64,
    /// Share of filesystem metadata in the mapped pages.
    pub own_pages: f64,
    /// Share of filesystem metadata in the writes.
    pub own_writes: f64,
}

impl ChainOutcome {
    /// Relative deviation of the model from theory.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        self.model / self.theory - 1.0
    }
}

impl ChainCase {
    /// Runs the model; `None` if interrupted.
    ///
    /// # Errors
    /// If the drive or volume is invalid, or the files do not fit.
    pub fn run(
        &self,
        effort: Effort,
        seed: u64,
        interrupted: &dyn Fn() -> bool,
    ) -> anyhow::Result<Option<ChainOutcome>> {
        let mut target = self.target(effort.pages, seed)?;
        let capacity = target.volume().drive().size();
        let live = Bytes((target.volume().free_space().as_f64() * self.fill) as u64);
        let warm = Bytes(capacity.0 * u64::from(effort.warm_up));
        let written = Bytes(capacity.0 * u64::from(effort.warm_up + effort.measured));
        let mut churn = Churn::new(self.settings(live, written, capacity), seed);
        let mut began = Nanos::ZERO;
        let mut steps = 0_u32;
        loop {
            if churn.written() >= warm {
                target.volume_mut().drive_mut().measure();
            }
            steps = steps.wrapping_add(1);
            if steps.is_multiple_of(1024) && interrupted() {
                return Ok(None);
            }
            match churn.next_step() {
                Some(FileStep::Phase(_)) => began = target.now(),
                Some(FileStep::NotBefore(offset)) => {
                    target.idle_until(began.saturating_add(offset))
                }
                Some(FileStep::Op(op)) => target.execute(&op)?,
                None => break,
            }
        }
        let drive = target.volume().drive();
        Ok(Some(drive.outcome(self, live.as_f64() / BLOCK as f64)))
    }

    /// A new filesystem on a new drive, under the policy.
    fn target(&self, pages: u32, seed: u64) -> anyhow::Result<SteeredVolume<MonitoredDrive>> {
        let drive = ideal_drive(
            self.victim,
            self.pages_per_block,
            pages,
            (f64::from(pages) * SHOWN) as u64,
        );
        let ssd = Ssd::new(&drive, seed)?;
        let mut spec = VolumeSpec::ext4();
        // Minimum inodes, memory in proportion to the drive, and the smallest journal.
        spec.bytes_per_inode = (self.file.0 / 2).clamp(1024, 16384) as u32;
        spec.journal_blocks = Some(1024);
        spec.writeback.memory = Bytes(64 << 20);
        if self.policy == PolicySpec::Online {
            spec = spec.with_online_discard();
        }
        let mut volume = Volume::format(MonitoredDrive::new(ssd), spec, Nanos::ZERO)?;
        let own = volume.layout().reserved.clone();
        volume.drive_mut().mark_own(&own);
        Ok(SteeredVolume::new(volume, self.policy.build(&PolicyState::default()), Bytes(1)))
    }

    fn settings(&self, live: Bytes, written: Bytes, capacity: Bytes) -> churn::Settings {
        churn::Settings {
            live,
            written,
            median: self.file.as_f64(),
            sigma: 0.0,
            append_percent: 0,
            class: DataClass::Random,
            session: Bytes(capacity.0 / SESSIONS),
            session_every: SESSION_EVERY,
            ..churn::Settings::default()
        }
    }

    fn formula(&self, utilisation: f64, parts: &[(f64, f64)]) -> f64 {
        match self.victim {
            VictimPolicy::Greedy => {
                theory::greedy_hot_cold(utilisation, self.pages_per_block, parts)
            }
            _ => theory::fifo_hot_cold(utilisation, parts),
        }
    }
}

/// Lifetimes of overwritten and trimmed pages, in pages written by the host.
#[derive(Debug)]
struct PageLifetimes {
    /// Write time of each mapped page; `u64::MAX` for other pages.
    born: Vec<u64>,
    now: u64,
    /// Histogram of page ages at death.
    died: Vec<u32>,
    bin: u64,
}

impl PageLifetimes {
    fn new(pages: usize) -> Self {
        Self {
            born: vec![u64::MAX; pages],
            now: 0,
            died: Vec::new(),
            bin: (pages as u64 / 4096).max(1),
        }
    }

    fn dies(&mut self, page: usize, counted: bool) {
        let born = std::mem::replace(&mut self.born[page], u64::MAX);
        if counted && born != u64::MAX {
            let bin = ((self.now - born) / self.bin) as usize;
            if self.died.len() <= bin {
                self.died.resize(bin + 1, 0);
            }
            self.died[bin] += 1;
        }
    }

    fn written(&mut self, page: usize, counted: bool) {
        self.dies(page, counted);
        self.born[page] = self.now;
        self.now += 1;
    }

    /// Write amplification of a FIFO drive with `physical` pages, of which `mapped` are
    /// mapped on average. If the drive cycles once per t host writes, a page that lives
    /// for x host writes is relocated floor(x / t) times. So A = E\[1 + floor(x / t)\] +
    /// s / t and A t = physical. The s pages that outlive the measurement follow from
    /// Little's law and the mean life of dead pages; they are relocated in every cycle.
    fn write_amplification(&self, physical: f64, mapped: f64) -> f64 {
        let lives = || {
            self.died
                .iter()
                .enumerate()
                .map(|(bin, n)| ((bin as f64 + 0.5) * self.bin as f64, f64::from(*n)))
        };
        let died: f64 = lives().map(|(_, n)| n).sum();
        let resting = (mapped - lives().map(|(life, n)| life * n).sum::<f64>() / died).max(0.0);
        let amplification = |t: f64| {
            lives().map(|(life, n)| n * (1.0 + libm::floor(life / t))).sum::<f64>() / died
                + resting / t
        };
        // Lower amplification lengthens the cycle.
        let (mut low, mut high) = (1.0, physical);
        for _ in 0..60 {
            let t = 0.5 * (low + high);
            if amplification(t) * t > physical { high = t } else { low = t }
        }
        amplification(low)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    /// File or directory.
    File,
    /// Metadata, never written.
    Unwritten,
    /// Metadata, not written during the measurement.
    Resting,
    /// Metadata, written during the measurement.
    Busy,
}

/// A drive with traffic counters.
#[derive(Debug)]
struct MonitoredDrive {
    ssd: Ssd,
    pages: Vec<Page>,
    lives: PageLifetimes,
    from: Option<Counters>,
    writes: u64,
    own_writes: u64,
    looks: u64,
    mapped: u64,
    held_free: u64,
}

impl MonitoredDrive {
    fn new(ssd: Ssd) -> Self {
        let pages = (ssd.size().0 / BLOCK) as usize;
        Self {
            ssd,
            pages: vec![Page::File; pages],
            lives: PageLifetimes::new(pages),
            from: None,
            writes: 0,
            own_writes: 0,
            looks: 0,
            mapped: 0,
            held_free: 0,
        }
    }

    fn mark_own(&mut self, runs: &[(u32, u32)]) {
        for (start, len) in runs {
            for page in *start as usize..(start + len) as usize {
                self.pages[page] =
                    if self.lives.born[page] != u64::MAX { Page::Resting } else { Page::Unwritten };
            }
        }
    }

    fn measure(&mut self) {
        if self.from.is_none() {
            self.from = Some(self.ssd.counters().clone());
        }
    }

    fn written(&mut self, page: usize) {
        let measuring = self.from.is_some();
        self.lives.written(page, measuring);
        self.writes += u64::from(measuring);
        if self.pages[page] != Page::File {
            self.own_writes += u64::from(measuring);
            self.pages[page] = if measuring { Page::Busy } else { Page::Resting };
        }
        if measuring && self.writes.is_multiple_of(SAMPLE_EVERY) {
            let occupancy = self.ssd.occupancy();
            self.looks += 1;
            self.mapped += occupancy.mapped_units;
            self.held_free += occupancy.free_slots;
        }
    }

    fn outcome(&self, case: &ChainCase, live: f64) -> ChainOutcome {
        let looks = self.looks.max(1) as f64;
        let mapped = self.mapped as f64 / looks;
        let physical = raw_units(self.ssd.layout()) - self.held_free as f64 / looks;
        let utilisation = mapped / physical;
        let share =
            |kind: Page| self.pages.iter().filter(|page| **page == kind).count() as f64 / mapped;
        let (busy, resting) = (share(Page::Busy), share(Page::Resting));
        let own_writes = self.own_writes as f64 / self.writes.max(1) as f64;
        // Resting pages get no writes, but the formula divides by their share of the
        // writes.
        let parts =
            [(1.0 - busy - resting, 1.0 - own_writes), (busy, own_writes), (resting, 1e-12)];
        ChainOutcome {
            model: self.from.as_ref().and_then(|from| self.ssd.waf_since(from)).unwrap_or(f64::NAN),
            theory: case.formula(utilisation, &parts),
            uniform: case.formula(utilisation, &[(1.0, 1.0)]),
            of_lives: self.lives.write_amplification(physical, mapped),
            utilisation,
            live: live / physical,
            own_pages: busy + resting,
            own_writes,
        }
    }
}

impl Device for MonitoredDrive {
    fn size(&self) -> Bytes {
        self.ssd.size()
    }

    fn logical_block(&self) -> u32 {
        self.ssd.logical_block()
    }

    fn supports_trim(&self) -> bool {
        self.ssd.supports_trim()
    }

    fn submit(&mut self, now: Nanos, command: &Command<'_>) -> Completion {
        let completion = self.ssd.submit(now, command);
        let pages = |extent: &Extent| {
            (extent.offset / BLOCK) as usize..((extent.offset + extent.len) / BLOCK) as usize
        };
        match command {
            Command::Write(extent, _) => pages(extent).for_each(|page| self.written(page)),
            Command::Trim(ranges) => {
                let measuring = self.from.is_some();
                ranges.iter().flat_map(pages).for_each(|page| self.lives.dies(page, measuring));
            }
            Command::Read(_) | Command::Flush => {}
        }
        completion
    }

    fn idle(&mut self, until: Nanos) {
        self.ssd.idle(until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EFFORT: Effort = Effort { pages: 1 << 18, warm_up: 4, measured: 6 };

    fn outcome(
        policy: &str,
        victim: VictimPolicy,
        pages_per_block: u32,
        fill: f64,
        file: u64,
        effort: Effort,
    ) -> ChainOutcome {
        let case = ChainCase {
            policy: policy.parse().unwrap(),
            victim,
            pages_per_block,
            fill,
            file: Bytes(file),
        };
        let outcome = case.run(effort, 7, &|| false).unwrap().unwrap();
        println!(
            "{policy} {victim:?} {fill} {file}: {:+.2} % {outcome:?}",
            100.0 * outcome.deviation()
        );
        outcome
    }

    #[test]
    fn waf_of_every_policy_matches_theory() {
        for policy in ["none", "online", "batched:every=10m", "adaptive", "idle"] {
            let outcome = outcome(policy, VictimPolicy::Fifo, 256, 0.9, 1 << 20, EFFORT);
            assert!(outcome.deviation().abs() < 0.02);
            assert!((outcome.model / outcome.of_lives - 1.0).abs() < 0.01);
        }
    }

    #[test]
    fn small_file_metadata_explains_waf_difference() {
        let outcome = outcome("online", VictimPolicy::Fifo, 256, 0.6, 64 << 10, EFFORT);
        assert!(outcome.own_writes > 0.2 && outcome.own_pages < 0.02);
        assert!(outcome.model / outcome.uniform > 1.1, "one kind of data explains nothing");
        assert!(outcome.deviation().abs() < 0.02);
        assert!((outcome.model / outcome.of_lives - 1.0).abs() < 0.005);
    }

    #[test]
    fn online_maps_only_live_pages_and_none_maps_all_written() {
        let [online, none] = ["online", "none"]
            .map(|policy| outcome(policy, VictimPolicy::Fifo, 256, 0.6, 64 << 10, EFFORT));
        let own = online.own_pages * online.utilisation;
        // Apart from live files and metadata, only pages freed since the last commit are
        // mapped.
        let gone = online.utilisation - online.live - own;
        assert!((0.0..0.01).contains(&gone), "{gone}");
        // All exported pages except metadata that was never written.
        assert!((0.91..0.935).contains(&none.utilisation), "{}", none.utilisation);
    }

    #[test]
    fn greedy_waf_with_many_files_per_block_matches_theory() {
        let effort = Effort { pages: 1 << 20, ..EFFORT };
        let outcome = outcome("online", VictimPolicy::Greedy, 4096, 0.6, 128 << 10, effort);
        assert!(outcome.deviation().abs() < 0.02);
    }
}
