//! The policies against a small filesystem of their own, whose trim costs they do not know.

mod every;
mod idle;
mod rig;
mod unnoticed;
mod when;

use super::{Policy, PolicySpec, State};
use alloc::boxed::Box;

fn build(text: &str) -> Box<dyn Policy> {
    text.parse::<PolicySpec>().unwrap().build(&State::default())
}
