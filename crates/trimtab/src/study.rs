//! Studies: whoever runs their cells, on real filesystems and on threads, and keeps what is finished. What is run, and what follows from the runs, is in the
//! core ([`trimtab_study::study`]).

pub mod beginnings;
pub mod checkpoint;
pub mod others;
pub mod real;
pub mod run;
#[cfg(test)]
mod screens;
