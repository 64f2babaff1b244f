//! Policies against a small simulated filesystem whose trim cost is unknown to them.

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
