//! `trimtab postmark`: PostMark's command language and reports, on real directories.
//!
//! What a run does is [`trimtab_core::workload::postmark`]; this is what the user sees of it, and where its files go.

pub mod announce;
pub mod command;
pub mod config;
pub mod details;
pub mod live;
pub mod memory;
pub mod places;
pub mod report;
pub mod session;
