//! What is closest to the kernel.

pub mod beneath;
