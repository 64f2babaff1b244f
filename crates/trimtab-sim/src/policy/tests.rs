//! Policies against a small simulated filesystem whose trim cost is unknown to them.

mod all_policies;
mod collisions;
mod idle;
mod rig;
mod schedule;

use super::{Policy, PolicySpec, PolicyState};
use alloc::boxed::Box;

fn build(text: &str) -> Box<dyn Policy> {
    text.parse::<PolicySpec>().unwrap().build(&PolicyState::default())
}
