//! A sweep directory: plan, description and journal, separated by lines of three dashes.
//! Every part is read or refused in one line.

use std::fs;
use std::path::Path;
use trimtab::sweep::directory::Directory;

/// Runs one input in the directory `base`, which it deletes before and after.
pub fn run(bytes: &[u8], base: &Path) {
    let text = String::from_utf8_lossy(bytes);
    let mut parts = text.splitn(3, "---\n");
    let _ = fs::remove_dir_all(base);
    fs::create_dir_all(base).expect("there is memory");
    let plan = parts.next().unwrap_or_default();
    fs::write(base.join("plan.toml"), plan).expect("there is memory");
    fs::write(base.join("sweep.json"), parts.next().unwrap_or_default()).expect("there is memory");
    let hash = trimtab_study::sweep::short_hash(plan);
    fs::write(
        base.join(format!("cells-{}-1-of-1.jsonl", &hash[..8])),
        parts.next().unwrap_or_default(),
    )
    .expect("there is memory");
    match Directory::open(base).and_then(|directory| directory.rows()) {
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        Ok(rows) => assert!(rows.len() < 1 << 20),
    }
    fs::remove_dir_all(base).expect("it was made here");
}
