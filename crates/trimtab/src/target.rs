//! Targets: what executes operations.

pub mod drive;
