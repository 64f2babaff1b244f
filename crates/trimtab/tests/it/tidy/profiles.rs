//! The workspace and the fuzz targets share what is built once, if they say the same of how it is built.

use std::fs;
use std::path::Path;

fn file(path: &str) -> toml::Table {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    fs::read_to_string(&path).unwrap().parse().unwrap()
}

/// How packages are built for development: all that is said of them.
fn packages(manifest: &str) -> toml::Table {
    file(manifest)["profile"]["dev"]["package"].as_table().unwrap().clone()
}

#[test]
fn fuzz_targets_build_crates_as_the_workspace_does() {
    let (workspace, fuzz) = (packages("Cargo.toml"), packages("fuzz/Cargo.toml"));
    let locked: Vec<String> =
        file("fuzz/Cargo.lock")["package"].as_array().unwrap().iter().map(|package| package["name"].as_str().unwrap().to_owned()).collect();
    // Of crates that only tests use the fuzz targets know nothing: cargo would warn of a name that it does not find.
    let expected: toml::Table = workspace.into_iter().filter(|(name, _)| name == "*" || locked.contains(name)).collect();
    assert!(expected.len() > 20, "{expected:?}");
    assert_eq!(fuzz, expected);
}
