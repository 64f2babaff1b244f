//! What is closest to the kernel.

pub mod beneath;
pub mod looping;
pub mod nvme;
pub mod privileges;
