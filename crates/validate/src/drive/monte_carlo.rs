//! Monte Carlo simulation of a page log as in the literature, slow and simple: the
//! reference if no exact formula is known.
//!
//! It shares no code with the drive model and has no superblocks, streams, debt or time.
//! One of its blocks is being filled. When it is full, the block with the fewest valid
//! pages (or the one filled longest ago) is emptied: its valid pages are rewritten to its
//! beginning, and its rest takes the next host pages. Only that rest is free space.
//!
//! [`Ties`] selects among blocks with equally few valid pages. It changes the result by
//! up to 1 % with blocks of 16 pages and by 0.01 % with 64.

use super::traffic::{Effort, PageRequest, PageRequestStream, Traffic};
use trimtab_drive::rng::Stream;

const NOWHERE: u32 = u32::MAX;
/// Number of parts of the measured requests, each with its own write amplification.
const PARTS: usize = 10;
/// Two-sided 95 % quantile of Student's t with `PARTS - 1` degrees of freedom.
const T_95: f64 = 2.262;

/// Victim policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VictimChoice {
    /// The block with the fewest valid pages.
    Fewest,
    /// The block filled longest ago.
    Oldest,
}

/// Selection among blocks with equally few valid pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TieBreak {
    /// Uniformly random.
    Any,
    /// The block that has had this number of valid pages for the longest time.
    Longest,
}

/// Parameters of a simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Log {
    /// Victim policy.
    pub emptied: VictimChoice,
    /// Tie breaking.
    pub ties: TieBreak,
    /// Pages per block.
    pub pages_per_block: u32,
    /// User pages over block pages, without the unfilled ones.
    pub utilisation: f64,
    /// Access pattern.
    pub traffic: Traffic,
    /// Expected write amplification, used to estimate the number of unfilled pages.
    pub expected: f64,
}

/// A measured write amplification.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Mean write amplification.
    pub amplification: f64,
    /// Half width of the 95 % confidence interval from the scatter of ten parts of the
    /// run, plus the effect of tie breaking if that is open.
    pub error: f64,
}

struct PageLogState {
    emptied: VictimChoice,
    ties: TieBreak,
    block_pages: usize,
    /// Block of each user page, or [`NOWHERE`].
    block_of: Vec<u32>,
    /// Pages written to each block since it was emptied, valid or not.
    written: Vec<Vec<u32>>,
    /// Blocks by number of valid pages, unordered.
    with_valid: Vec<Vec<u32>>,
    /// Valid pages of each block, and its index in `with_valid`.
    valid: Vec<(usize, usize)>,
    /// Time at which each block reached its number of valid pages.
    since: Vec<u64>,
    changes: u64,
    draws: Stream,
    open: usize,
    /// Next block for [`Emptied::Oldest`].
    turn: usize,
    copied: u64,
}

impl PageLogState {
    fn new(log: &Log, blocks: usize, user_pages: usize, seed: u64) -> Self {
        let block_pages = log.pages_per_block as usize;
        let mut with_valid = vec![Vec::new(); block_pages + 1];
        with_valid[0] = (0..blocks as u32).collect();
        Self {
            emptied: log.emptied,
            ties: log.ties,
            block_pages,
            block_of: vec![NOWHERE; user_pages],
            written: vec![Vec::with_capacity(block_pages); blocks],
            with_valid,
            valid: (0..blocks).map(|block| (0, block)).collect(),
            since: vec![0; blocks],
            changes: 0,
            draws: Stream::new(seed, "monte carlo ties"),
            open: 0,
            turn: 0,
            copied: 0,
        }
    }

    fn set_valid(&mut self, block: usize, count: usize) {
        let (before, place) = self.valid[block];
        self.with_valid[before].swap_remove(place);
        if let Some(moved) = self.with_valid[before].get(place) {
            self.valid[*moved as usize].1 = place;
        }
        self.valid[block] = (count, self.with_valid[count].len());
        self.with_valid[count].push(block as u32);
        self.changes += 1;
        self.since[block] = self.changes;
    }

    fn forget(&mut self, page: u32) {
        let block = self.block_of[page as usize];
        if block != NOWHERE {
            self.set_valid(block as usize, self.valid[block as usize].0 - 1);
            self.block_of[page as usize] = NOWHERE;
        }
    }

    fn write(&mut self, page: u32) {
        self.forget(page);
        while self.written[self.open].len() == self.block_pages {
            self.empty_one();
        }
        self.written[self.open].push(page);
        self.set_valid(self.open, self.valid[self.open].0 + 1);
        self.block_of[page as usize] = self.open as u32;
    }

    fn serve(&mut self, request: PageRequest) -> bool {
        match request {
            PageRequest::Write(page) => self.write(page),
            PageRequest::Trim(page) => self.forget(page),
        }
        matches!(request, PageRequest::Write(_))
    }

    /// Empties a block and continues filling it after its valid pages.
    fn empty_one(&mut self) {
        let victim = match self.emptied {
            // Every block is full here, or was never written and has no pages.
            VictimChoice::Fewest => {
                let fewest = self
                    .with_valid
                    .iter()
                    .find(|blocks| !blocks.is_empty())
                    .map_or(&[][..], Vec::as_slice);
                let chosen = match self.ties {
                    TieBreak::Any => fewest.get(self.draws.below(fewest.len() as u64) as usize),
                    TieBreak::Longest => {
                        fewest.iter().min_by_key(|block| self.since[**block as usize])
                    }
                };
                chosen.map_or(0, |block| *block as usize)
            }
            VictimChoice::Oldest => {
                self.turn = (self.turn + 1) % self.valid.len();
                self.turn
            }
        };
        let pages = std::mem::take(&mut self.written[victim]);
        // A page written twice to this block is valid once; either copy may be kept.
        let mut kept = Vec::with_capacity(self.block_pages);
        for page in pages {
            if self.block_of[page as usize] == victim as u32 {
                self.block_of[page as usize] = NOWHERE;
                kept.push(page);
            }
        }
        for page in &kept {
            self.block_of[*page as usize] = victim as u32;
        }
        self.copied += kept.len() as u64;
        self.set_valid(victim, kept.len());
        self.written[victim] = kept;
        self.open = victim;
    }
}

impl Log {
    /// Runs with [`Ties::Any`] and adds the distance to [`Ties::Longest`] to the error.
    #[must_use]
    pub fn with_open_ties(
        &self,
        effort: Effort,
        seed: u64,
        interrupted: &dyn Fn() -> bool,
    ) -> Option<Estimate> {
        let run = |ties| Self { ties, ..*self }.run(effort, seed, interrupted);
        let (any, longest) = (run(TieBreak::Any)?, run(TieBreak::Longest)?);
        let spread = libm::fabs(any.amplification - longest.amplification);
        Some(Estimate { amplification: any.amplification, error: any.error + spread })
    }

    /// Runs the simulation; `None` if interrupted.
    #[must_use]
    pub fn run(
        &self,
        effort: Effort,
        seed: u64,
        interrupted: &dyn Fn() -> bool,
    ) -> Option<Estimate> {
        let Effort { pages, warm_up, measured } = effort;
        let block_pages = self.pages_per_block as usize;
        let blocks = (pages / self.pages_per_block).max(2) as usize;
        let freed = block_pages as f64 * (1.0 - 1.0 / self.expected.max(1.0));
        let filled = (blocks * block_pages) as f64 - freed / 2.0;
        let user_pages = (filled * self.utilisation) as usize;
        let mut state = PageLogState::new(self, blocks, user_pages, seed);
        for page in 0..user_pages {
            state.write(page as u32);
        }
        let mut requests = PageRequestStream::new(
            self.traffic,
            user_pages as u32,
            Stream::new(seed, "monte carlo"),
        );
        for _ in 0..warm_up {
            if interrupted() {
                return None;
            }
            for _ in 0..user_pages {
                state.serve(requests.draw());
            }
        }
        let mut parts = [0.0; PARTS];
        for part in &mut parts {
            if interrupted() {
                return None;
            }
            let (copied, mut written) = (state.copied, 0_u64);
            for _ in 0..user_pages * measured as usize / PARTS {
                written += u64::from(state.serve(requests.draw()));
            }
            *part = 1.0 + (state.copied - copied) as f64 / written.max(1) as f64;
        }
        Some(estimate(&parts))
    }
}

fn estimate(parts: &[f64; PARTS]) -> Estimate {
    let count = PARTS as f64;
    let mean = parts.iter().sum::<f64>() / count;
    let variance =
        parts.iter().map(|part| (part - mean) * (part - mean)).sum::<f64>() / (count - 1.0);
    Estimate { amplification: mean, error: T_95 * libm::sqrt(variance / count) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theory;

    /// Checks the reference itself against exact formulas.
    #[test]
    fn monte_carlo_matches_exact_formulas() {
        let parts = [(0.2, 0.8), (0.8, 0.2)];
        let hot = Traffic::HotCold { pages: 0.2, writes: 0.8 };
        for (emptied, b, u, traffic, expected) in [
            (VictimChoice::Fewest, 16, 0.88, Traffic::Uniform, theory::greedy(0.88, 16)),
            (VictimChoice::Fewest, 64, 0.72, Traffic::Uniform, theory::greedy(0.72, 64)),
            (VictimChoice::Oldest, 64, 0.88, Traffic::Uniform, theory::fifo(0.88)),
            (VictimChoice::Oldest, 32, 0.89, hot, theory::fifo_hot_cold(0.89, &parts)),
            (
                VictimChoice::Fewest,
                64,
                0.93,
                Traffic::Trim { q: 0.2 },
                theory::greedy(0.93 * theory::trim_mapped_share(0.2), 64),
            ),
            (
                VictimChoice::Fewest,
                64,
                0.93,
                Traffic::TrimAny { q: 0.2 },
                theory::greedy(0.93 * 0.8, 64),
            ),
        ] {
            let log = Log {
                emptied,
                ties: TieBreak::Any,
                pages_per_block: b,
                utilisation: u,
                traffic,
                expected,
            };
            let found = log
                .run(
                    Effort {
                        pages: 1 << 17,
                        warm_up: if traffic == hot { 20 } else { 8 },
                        measured: 10,
                    },
                    3,
                    &|| false,
                )
                .unwrap();
            let off = found.amplification / expected - 1.0;
            assert!(off.abs() < 4e-3, "{log:?}: {found:?}, {expected}, {:.3} %", off * 100.0);
            assert!(found.error > 0.0 && found.error < 0.01 * expected, "{found:?}");
        }
    }
}
