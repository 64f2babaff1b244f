//! Trims mounted filesystems: in windows that suit each type, counted, one trim per
//! drive.

pub mod activity;
pub mod btrfs;

pub mod delivery;
mod device_time;
pub mod drain;
pub mod ext4;
pub mod filesystem;
pub mod fitrim;
pub mod free_space;
pub mod kernel_log;
pub mod layout;
pub mod limit;
pub mod lock;
pub mod resume;
pub mod surface;
pub mod verify;
pub mod watch;
