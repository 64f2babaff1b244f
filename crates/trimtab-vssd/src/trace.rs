//! Traces of block requests from files.

mod source;
pub mod timing;

pub use source::TraceSource;
pub use trimtab_sim::trace::{TraceEvent, TraceOpKind};
