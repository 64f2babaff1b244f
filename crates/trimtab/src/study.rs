//! Studies: whoever runs their cells, on real filesystems and on threads, and keeps what is finished. What is run, and what follows from the runs, is in the
//! core ([`trimtab_study::study`]).

pub mod checkpoint;
pub mod foreground_probe;
pub mod real;
pub mod record;
pub mod run;
pub mod snapshot_cache;
