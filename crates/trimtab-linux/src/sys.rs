//! System calls and kernel interfaces, with all unsafe code of the crate.

pub mod beneath;
pub mod clock;
pub mod content;
pub mod descriptor;
pub mod fiemap;
pub mod filesystem;
pub mod fsmap;
pub mod interrupt;
pub mod large_blocks;
pub mod looping;
pub mod mount_check;
pub mod nvme;
pub mod pool;
pub mod priority;
pub mod privileges;
pub mod transfer;
pub mod ublk;
pub mod unix_socket;
