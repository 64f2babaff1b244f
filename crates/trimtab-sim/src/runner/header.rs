//! Description of a run before it starts: a run without recorded data.

pub use crate::run::Run as RunHeader;
