//! Traces of block requests from files, and their export as fio's iolog.

mod export;
mod source;
pub mod timing;

pub use export::export;
pub use source::TraceSource;
pub use trimtab_sim::trace::{TraceEvent, TraceOpKind};
