//! Benchmarks: one workload on one target, or on two alternately.

pub mod age;
pub mod block_target;
pub mod crystal;
pub mod finish;
pub mod fio;
pub mod job_target;
pub mod load;
pub mod modelled;
pub mod nfs;
pub mod pts;
pub mod purge;
pub mod small_files;
pub mod tree;
