//! Results as text and pictures: pure functions from data to strings.

pub(crate) mod applied;
pub mod compare;
pub mod diagnosis;
pub mod escape;
pub mod file;
pub(crate) mod fleet;
pub(crate) mod history;
pub mod html;
pub mod layout;
pub mod load;
pub(crate) mod mended;
pub mod nfs;
pub mod page_data;
pub mod palette;
pub mod pts;
pub mod run;
pub mod series;
pub(crate) mod stored_runs;
pub mod study;
pub mod svg;
pub mod text;
pub(crate) mod trim;
pub mod virtual_ssd;
pub(crate) mod wear;
