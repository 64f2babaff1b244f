//! Learns a twin from logs that a drive's operator already has, and writes nothing.
//!
//! Readers produce [`series::Row`]s. A [`series::LogSeries`] is the progress of the run.
//! [`repeat`] repeats the run on a modelled drive.

pub mod load;
pub mod repeat;
pub mod series;
