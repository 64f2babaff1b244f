//! Real targets: directories, block devices, and one that does nothing.

pub mod block;
pub mod dir;
pub mod mounted;
pub mod null;
pub mod overhead;
