//! Computes a hash of the model sources, so that results of different models are never
//! confused. A published crate has no sibling sources; there, the version and its own
//! sources identify it.

use std::fs;
use std::path::{Path, PathBuf};

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { sources(&path, found) } else { found.push(path) }
    }
}

/// FNV-1a.
fn add(hash: &mut u64, bytes: &[u8]) {
    for byte in bytes {
        *hash = (*hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
}

fn main() {
    let mut found = Vec::new();
    for directory in ["src", "../trimtab-drive/src", "../trimtab-sim/src"] {
        println!("cargo::rerun-if-changed={directory}");
        sources(Path::new(directory), &mut found);
    }
    found.sort();
    let mut hash = 0xcbf2_9ce4_8422_2325;
    for path in
        found.iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
    {
        add(&mut hash, path.to_string_lossy().as_bytes());
        add(&mut hash, &fs::read(path).unwrap_or_default());
    }
    println!("cargo::rustc-env=TRIMTAB_MODEL={}-{hash:016x}", env!("CARGO_PKG_VERSION"));
}
