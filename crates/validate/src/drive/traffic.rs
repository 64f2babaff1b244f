//! Access patterns of host writes and TRIMs.

use std::fmt;
use std::str::FromStr;
use trimtab_drive::rng::Stream;

/// Access pattern.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Traffic {
    /// All pages are equally likely.
    Uniform,
    /// A share of the pages receives a share of the writes, all in one log.
    HotCold {
        /// Share of the pages.
        pages: f64,
        /// Share of the writes.
        writes: f64,
    },
    /// A TRIM of a mapped page with probability `q`, else a write (Frankie et al.).
    Trim {
        /// Probability, below 0.5.
        q: f64,
    },
    /// A TRIM of any page, mapped or not, with probability `q`, otherwise a write of any
    /// page.
    TrimAny {
        /// Probability, below 1.
        q: f64,
    },
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::HotCold { pages, writes } => write!(f, "hot:{pages}:{writes}"),
            Self::Trim { q } => write!(f, "trim:{q}"),
            Self::TrimAny { q } => write!(f, "trim-any:{q}"),
        }
    }
}

impl FromStr for Traffic {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let between = |text: &str, low: f64, high: f64| {
            f64::from_str(text).ok().filter(|share| *share > low && *share < high)
        };
        let parts: Vec<&str> = text.split(':').collect();
        match parts.as_slice() {
            ["uniform"] => Some(Self::Uniform),
            ["trim", q] => between(q, 0.0, 0.5).map(|q| Self::Trim { q }),
            ["trim-any", q] => between(q, 0.0, 1.0).map(|q| Self::TrimAny { q }),
            ["hot", pages, writes] => between(pages, 0.0, 1.0)
                .zip(between(writes, 0.0, 1.0))
                .map(|(pages, writes)| Self::HotCold { pages, writes }),
            _ => None,
        }
        .ok_or_else(|| {
            "traffic must be uniform, trim:Q with Q below 0.5, trim-any:Q with Q \
                below 1, or hot:F:R with shares between 0 and 1, such as hot:0.2:0.8"
                .into()
        })
    }
}

/// Size and length of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Physical pages.
    pub pages: u32,
    /// Warm-up length in user capacities.
    pub warm_up: u32,
    /// Measurement length in user capacities.
    pub measured: u32,
}

/// A request for one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageRequest {
    /// Write the page.
    Write(u32),
    /// Trim the page.
    Trim(u32),
}

/// An infinite stream of requests.
#[derive(Debug)]
pub struct PageRequestStream {
    traffic: Traffic,
    pages: u32,
    rng: Stream,
    /// Mapped pages, unordered; empty unless the traffic is [`Traffic::Trim`].
    mapped: Vec<u32>,
    /// Index of each page in `mapped`, or [`UNMAPPED`].
    position: Vec<u32>,
}

const UNMAPPED: u32 = u32::MAX;

impl PageRequestStream {
    /// A stream over `pages` pages, all initially mapped.
    #[must_use]
    pub fn new(traffic: Traffic, pages: u32, rng: Stream) -> Self {
        let tracked = if matches!(traffic, Traffic::Trim { .. }) { pages } else { 0 };
        Self {
            traffic,
            pages,
            rng,
            mapped: (0..tracked).collect(),
            position: (0..tracked).collect(),
        }
    }

    /// Draws the next request.
    pub fn draw(&mut self) -> PageRequest {
        let pages = u64::from(self.pages);
        match self.traffic {
            Traffic::Uniform => PageRequest::Write(self.rng.below(pages) as u32),
            Traffic::HotCold { pages: share, writes } => {
                let hot = (pages as f64 * share) as u64;
                let page = if self.rng.chance(writes) {
                    self.rng.below(hot)
                } else {
                    self.rng.between(hot, pages - 1)
                };
                PageRequest::Write(page as u32)
            }
            Traffic::TrimAny { q } => {
                let page = self.rng.below(pages) as u32;
                if self.rng.chance(q) { PageRequest::Trim(page) } else { PageRequest::Write(page) }
            }
            Traffic::Trim { q } if self.rng.chance(q) && !self.mapped.is_empty() => {
                PageRequest::Trim(self.unmap_any())
            }
            Traffic::Trim { .. } => PageRequest::Write(self.map_any()),
        }
    }

    /// Removes a random page from the mapped ones.
    fn unmap_any(&mut self) -> u32 {
        let at = self.rng.below(self.mapped.len() as u64) as usize;
        let page = self.mapped.swap_remove(at);
        if let Some(moved) = self.mapped.get(at) {
            self.position[*moved as usize] = at as u32;
        }
        self.position[page as usize] = UNMAPPED;
        page
    }

    /// Draws any page and marks it as mapped.
    fn map_any(&mut self) -> u32 {
        let page = self.rng.below(u64::from(self.pages)) as u32;
        if self.position[page as usize] == UNMAPPED {
            self.position[page as usize] = self.mapped.len() as u32;
            self.mapped.push(page);
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_round_trips_through_text() {
        for text in ["uniform", "hot:0.2:0.8", "trim:0.25", "trim-any:0.6"] {
            assert_eq!(
                text.parse::<Traffic>().map(|traffic| traffic.to_string()),
                Ok(text.to_owned())
            );
        }
        for wrong in ["", "trim:0.5", "trim-any:1", "hot:0:0.5", "hot:0.5", "uniform:1"] {
            assert!(wrong.parse::<Traffic>().is_err(), "{wrong}");
        }
    }

    /// Oracle: a set that follows the requests.
    #[test]
    fn trim_traffic_trims_mapped_pages_only() {
        let mut requests =
            PageRequestStream::new(Traffic::Trim { q: 0.4 }, 500, Stream::new(1, "requests"));
        let mut mapped: std::collections::BTreeSet<u32> = (0..500).collect();
        let mut trims = 0;
        for _ in 0..20_000 {
            match requests.draw() {
                PageRequest::Write(page) => drop(mapped.insert(page)),
                PageRequest::Trim(page) => {
                    assert!(mapped.remove(&page), "{page} is not mapped");
                    trims += 1;
                }
            }
        }
        assert!((7_700..8_300).contains(&trims), "{trims}");
        assert_eq!(mapped.len(), requests.mapped.len());
    }
}
