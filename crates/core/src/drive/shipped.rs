//! The drives that come with the program, for tests.

use crate::drive::spec::file::{Drive, parse};
use std::vec::Vec;

/// All of them.
pub fn drives() -> Vec<Drive> {
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../drives")).unwrap();
    files.map(|file| parse(&std::fs::read_to_string(file.unwrap().path()).unwrap()).unwrap()).collect()
}

/// One of them.
pub fn drive(name: &str) -> Drive {
    drives().into_iter().find(|drive| drive.spec.name == name).unwrap()
}
