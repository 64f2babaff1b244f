//! Results as text and pictures: pure functions from data to strings.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]
#![forbid(unsafe_code)]

#[cfg(test)]
#[path = "../../trimtab/src/store/shape/tests/any_run.rs"]
mod any_run;
pub mod compare;
pub mod diagnosis;
pub mod escape;
pub mod fleet;
pub mod html;
pub mod layout;
pub mod load;
pub mod nfs;
pub mod page_data;
pub mod palette;
pub mod pts;
pub mod run;
pub mod series;
pub mod sources;
pub mod study;
pub mod text;
pub mod wear;
