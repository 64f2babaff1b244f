//! Validation of Trimtab's models. Not published and not part of the program.
//!
//! * [`drive`]: write amplification of the modelled SSD against formulas and an
//!   independent Monte Carlo simulation.
//! * [`volume`]: bytes and requests of the modelled filesystem against real ext4.
//! * [`published`]: results of the models against published measurements.
//! * [`peers`]: idle trims against trim policies of other authors.
//! * [`catalogue`]: specifications fitted to published rates.
//! * [`ssd_iq`]: predictions of published runs of ten data-centre SSD units.
//!
//! ```
//! // A drive with 12 % spare space that collects the emptiest of its blocks of 64 pages:
//! let amplification = validate::theory::greedy(0.88, 64);
//! assert!((amplification - 4.10).abs() < 0.01);
//! ```
#![forbid(unsafe_code)]

pub mod catalogue;
pub mod drive;
mod parallel;
pub mod peers;
pub mod published;
pub mod ssd_iq;
pub mod theory;
pub mod volume;
