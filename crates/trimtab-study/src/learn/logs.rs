//! Learns a twin from logs that a drive's operator already has, and writes nothing.
//!
//! Readers produce [`series::Row`]s. A [`series::LogSeries`] is the progress of the run.
//! [`fit`] repeats the run on modelled drives until they show the figures of the log.

pub mod fit;
pub mod load;
pub mod repeat;
pub mod series;
