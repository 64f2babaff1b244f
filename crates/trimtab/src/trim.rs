//! Trimming mounted filesystems.

pub mod discard_option;
pub mod fitrim;
