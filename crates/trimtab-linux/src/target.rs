//! Real targets: directories, block devices, and a null target.

pub mod block;
pub mod dir;
pub mod mounted;
pub mod null;
pub mod overhead;
