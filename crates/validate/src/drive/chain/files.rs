//! The whole chain against theory: files that come and go on a volume, under a trim policy, on a drive that obeys the formulas' assumptions.
//!
//! A trim policy changes one number of the formulas: effective utilisation, the mean number of mapped pages over physical pages. A filesystem also
//! writes its journal, bitmaps and inode tables: few pages with many writes, in one log with the files. The address of a page tells its kind, so
//! all three kinds (files; metadata that are written again; metadata that are not) are counted. None is fitted.

use crate::drive::ideal::ideal_drive;
use crate::drive::traffic::Effort;
use crate::theory;
use trimtab_drive::counters::Counters;
use trimtab_drive::data::DataClass;
use trimtab_drive::spec::VictimPolicy;
use trimtab_drive::ssd::Ssd;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::{Command, Completion, Device, Extent};
use trimtab_sim::policy::{PolicySpec, State};
use trimtab_sim::runner::files::execute;
use trimtab_sim::target::Clock as _;
use trimtab_sim::volume::{BLOCK, Steered, Volume, VolumeSpec};
use trimtab_sim::workload::churn::{self, Churn};
use trimtab_sim::workload::{FileStep, FileWorkload as _};

/// Share of the physical pages that the drive shows. The rest is its over-provisioning.
const SHOWN: f64 = 0.93;
/// Sessions in which the drive's capacity is written once.
const SESSIONS: u64 = 400;
/// A session begins this long after the one before: ten drive-writes a week, so that the policies' hours and days mean something.
const SESSION_EVERY: Nanos = Nanos::from_secs(150);
/// Writes between two looks at the drive; prime, so that looks do not coincide with blocks.
const LOOK_EVERY: u64 = 997;

/// One comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Trim policy of the filesystem.
    pub policy: PolicySpec,
    /// Victim policy of the drive.
    pub victim: VictimPolicy,
    /// Pages of an erase block. A greedy drive profits from files that die as a whole, and its formula does not include that, so its blocks have to
    /// hold many files. For first in, first out, only the mean matters.
    pub pages_per_block: u32,
    /// Share of the free space of the new filesystem that files occupy.
    pub fill: f64,
    /// Size of every file, in whole blocks.
    pub file: Bytes,
}

/// Write amplification by the model and by theory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Write amplification of the drive.
    pub model: f64,
    /// By formula for the mapped pages, files and metadata apart.
    pub theory: f64,
    /// By formula for as much data of one kind.
    pub uniform: f64,
    /// By the counted lifetimes of pages of any kind, on a first in, first out drive.
    pub of_lives: f64,
    /// Mean mapped pages over mean physical pages without those held free.
    pub utilisation: f64,
    /// Mean pages of existing files, over the same physical pages.
    pub live: f64,
    /// Share of the mapped pages that are the filesystem's own.
    pub own_pages: f64,
    /// Share of the writes that are the filesystem's own.
    pub own_writes: f64,
}

impl Outcome {
    /// Deviation of the model, as a share of theory.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        self.model / self.theory - 1.0
    }
}

impl Case {
    /// Runs the model; `None` if interrupted.
    ///
    /// # Errors
    /// An impossible drive or volume, or files that do not fit.
    pub fn run(&self, effort: Effort, seed: u64, interrupted: &dyn Fn() -> bool) -> anyhow::Result<Option<Outcome>> {
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
                Some(FileStep::NotBefore(offset)) => target.idle_until(began.saturating_add(offset)),
                Some(FileStep::Op(op)) => execute(&mut target, &op)?,
                None => break,
            }
        }
        let drive = target.volume().drive();
        Ok(Some(drive.outcome(self, live.as_f64() / BLOCK as f64)))
    }

    /// A new filesystem on a new drive, under the policy.
    fn target(&self, pages: u32, seed: u64) -> anyhow::Result<Steered<Watched>> {
        let drive = ideal_drive(self.victim, self.pages_per_block, pages, (f64::from(pages) * SHOWN) as u64);
        let ssd = Ssd::new(&drive, seed)?;
        let mut spec = VolumeSpec::ext4();
        // As few inodes as the files need, memory in proportion to the drive, and the smallest journal.
        spec.bytes_per_inode = (self.file.0 / 2).clamp(1024, 16384) as u32;
        spec.journal_blocks = Some(1024);
        spec.writeback.memory = Bytes(64 << 20);
        if self.policy == PolicySpec::Online {
            spec = spec.with_online_discard();
        }
        let mut volume = Volume::format(Watched::new(ssd), spec, Nanos::ZERO)?;
        let own = volume.layout().reserved.clone();
        volume.drive_mut().know_own(&own);
        Ok(Steered::new(volume, self.policy.build(&State::default()), Bytes(1)))
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
            VictimPolicy::Greedy => theory::greedy_hot_cold(utilisation, self.pages_per_block, parts),
            _ => theory::fifo_hot_cold(utilisation, parts),
        }
    }
}

/// Lifetimes of overwritten and trimmed pages, in pages written by the host.
#[derive(Debug)]
struct Lives {
    /// Time of writing of each mapped page; `u64::MAX` for other pages.
    born: Vec<u64>,
    /// Pages written.
    now: u64,
    /// Dead pages by their age in bins.
    died: Vec<u32>,
    bin: u64,
}

impl Lives {
    fn new(pages: usize) -> Self {
        Self { born: vec![u64::MAX; pages], now: 0, died: Vec::new(), bin: (pages as u64 / 4096).max(1) }
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

    /// Write amplification of a first in, first out drive of `physical` pages with `mapped` mapped ones on average. A page that lives for x host writes is
    /// moved floor(x / t) times, t being the host writes in which the drive goes round once: A = E\[1 + floor(x / t)\] + s / t and A t = physical. The s pages
    /// that did not die are those that the mean life of the dead pages does not explain (Little's law), and move each time.
    fn write_amplification(&self, physical: f64, mapped: f64) -> f64 {
        let lives = || self.died.iter().enumerate().map(|(bin, n)| ((bin as f64 + 0.5) * self.bin as f64, f64::from(*n)));
        let died: f64 = lives().map(|(_, n)| n).sum();
        let resting = (mapped - lives().map(|(life, n)| life * n).sum::<f64>() / died).max(0.0);
        let amplification = |t: f64| lives().map(|(life, n)| n * (1.0 + libm::floor(life / t))).sum::<f64>() / died + resting / t;
        // Less amplification makes the round longer.
        let (mut low, mut high) = (1.0, physical);
        for _ in 0..60 {
            let t = 0.5 * (low + high);
            if amplification(t) * t > physical { high = t } else { low = t }
        }
        amplification(low)
    }
}

/// Kind of a page of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    /// Of a file or a directory.
    File,
    /// Metadata never written.
    Unwritten,
    /// Metadata, not written while measuring.
    Resting,
    /// Metadata, written while measuring.
    Busy,
}

/// A drive whose traffic is counted.
#[derive(Debug)]
struct Watched {
    ssd: Ssd,
    pages: Vec<Page>,
    lives: Lives,
    /// The drive's counters when measuring began.
    from: Option<Counters>,
    writes: u64,
    own_writes: u64,
    looks: u64,
    mapped: u64,
    held_free: u64,
}

impl Watched {
    fn new(ssd: Ssd) -> Self {
        let pages = (ssd.size().0 / BLOCK) as usize;
        Self {
            ssd,
            pages: vec![Page::File; pages],
            lives: Lives::new(pages),
            from: None,
            writes: 0,
            own_writes: 0,
            looks: 0,
            mapped: 0,
            held_free: 0,
        }
    }

    /// Tells the filesystem's own pages.
    fn know_own(&mut self, runs: &[(u32, u32)]) {
        for (start, len) in runs {
            for page in *start as usize..(start + len) as usize {
                self.pages[page] = if self.lives.born[page] != u64::MAX { Page::Resting } else { Page::Unwritten };
            }
        }
    }

    /// Starts measuring.
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
        if measuring && self.writes.is_multiple_of(LOOK_EVERY) {
            let occupancy = self.ssd.occupancy();
            self.looks += 1;
            self.mapped += occupancy.mapped_units;
            self.held_free += occupancy.free_slots;
        }
    }

    fn outcome(&self, case: &Case, live: f64) -> Outcome {
        let looks = self.looks.max(1) as f64;
        let mapped = self.mapped as f64 / looks;
        let physical = self.ssd.layout().raw_units() as f64 - self.held_free as f64 / looks;
        let utilisation = mapped / physical;
        let share = |kind: Page| self.pages.iter().filter(|page| **page == kind).count() as f64 / mapped;
        let (busy, resting) = (share(Page::Busy), share(Page::Resting));
        let own_writes = self.own_writes as f64 / self.writes.max(1) as f64;
        // Resting pages get no writes; the formula divides by their share of the writes.
        let parts = [(1.0 - busy - resting, 1.0 - own_writes), (busy, own_writes), (resting, 1e-12)];
        Outcome {
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

impl Device for Watched {
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
        let pages = |extent: &Extent| (extent.offset / BLOCK) as usize..((extent.offset + extent.len) / BLOCK) as usize;
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

    fn outcome(policy: &str, victim: VictimPolicy, pages_per_block: u32, fill: f64, file: u64, effort: Effort) -> Outcome {
        let case = Case { policy: policy.parse().unwrap(), victim, pages_per_block, fill, file: Bytes(file) };
        let outcome = case.run(effort, 7, &|| false).unwrap().unwrap();
        println!("{policy} {victim:?} {fill} {file}: {:+.2} % {outcome:?}", 100.0 * outcome.deviation());
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
    fn online_leaves_live_mapped_and_none_all_ever_written() {
        let [online, none] = ["online", "none"].map(|policy| outcome(policy, VictimPolicy::Fifo, 256, 0.6, 64 << 10, EFFORT));
        let own = online.own_pages * online.utilisation;
        // Beside what is live and the filesystem's own, only what is gone since the last commit.
        let gone = online.utilisation - online.live - own;
        assert!((0.0..0.01).contains(&gone), "{gone}");
        // All that the drive shows, but for parts of metadata that nothing was written to.
        assert!((0.91..0.935).contains(&none.utilisation), "{}", none.utilisation);
    }

    #[test]
    fn greedy_drives_with_blocks_of_many_files_agree_too() {
        let effort = Effort { pages: 1 << 20, ..EFFORT };
        let outcome = outcome("online", VictimPolicy::Greedy, 4096, 0.6, 128 << 10, effort);
        assert!(outcome.deviation().abs() < 0.02);
    }
}
