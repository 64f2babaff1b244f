//! Runs studies on real filesystems and on threads, and keeps finished runs. The cells
//! and their evaluation are in the core ([`trimtab_study::study`]).

pub mod checkpoint;
pub mod foreground_probe;
pub mod real;
pub mod record;
pub mod run;
pub mod snapshot_cache;
