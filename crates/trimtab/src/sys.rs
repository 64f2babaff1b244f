//! What is closest to the kernel.

pub mod beneath;
pub mod fsmap;
pub mod large_pages;
pub mod looping;
pub mod nvme;
pub(crate) mod pool;
pub mod privileges;
