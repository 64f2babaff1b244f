//! The drives that come with the program.

use crate::drive::spec::file::{Drive, parse};
#[cfg(test)]
use alloc::vec::Vec;

/// Their specification files, in the order of their names.
pub const FILES: [&str; 15] = [
    include_str!("../../../../drives/corsair-force-3-120gb.toml"),
    include_str!("../../../../drives/corsair-p128.toml"),
    include_str!("../../../../drives/crucial-m4-128gb.toml"),
    include_str!("../../../../drives/crucial-m4-512gb.toml"),
    include_str!("../../../../drives/intel-320-300gb.toml"),
    include_str!("../../../../drives/intel-520-120gb.toml"),
    include_str!("../../../../drives/intel-x25-m-160gb.toml"),
    include_str!("../../../../drives/laptop-7200rpm.toml"),
    include_str!("../../../../drives/nvme-qlc-dramless-500gb.toml"),
    include_str!("../../../../drives/nvme-tlc-500gb.toml"),
    include_str!("../../../../drives/ocz-vertex-2-le-100gb.toml"),
    include_str!("../../../../drives/ocz-vertex-le-100gb.toml"),
    include_str!("../../../../drives/ocz-vertex-le-200gb.toml"),
    include_str!("../../../../drives/owc-electra-3g-480gb.toml"),
    include_str!("../../../../drives/sata-tlc-500gb.toml"),
];

/// The drive of that name.
#[must_use]
pub fn named(name: &str) -> Option<Drive> {
    FILES.iter().filter_map(|text| parse(text).ok()).find(|drive| drive.spec.name == name)
}

/// All of them.
#[cfg(test)]
pub fn drives() -> Vec<Drive> {
    FILES.iter().map(|text| parse(text).unwrap()).collect()
}

/// One of them.
#[cfg(test)]
pub fn drive(name: &str) -> Drive {
    named(name).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;

    #[test]
    fn they_are_all_that_are_there() {
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../drives")).unwrap();
        let mut texts: Vec<(String, String)> = files
            .map(|file| file.unwrap())
            .map(|file| (file.file_name().into_string().unwrap(), std::fs::read_to_string(file.path()).unwrap()))
            .collect();
        texts.sort();
        assert!(texts.iter().map(|(_, text)| text.as_str()).eq(FILES));
        assert!(texts.iter().zip(drives()).all(|((file, _), drive)| *file == alloc::format!("{}.toml", drive.spec.name)));
    }
}
