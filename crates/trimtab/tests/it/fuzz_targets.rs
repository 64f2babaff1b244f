//! Runs the fuzz targets on their seeds and on some hundred mutations of each. All
//! compile here and none may fail. `make fuzz` runs the fuzzer itself.

use std::fs;
use std::path::Path;
use trimtab_drive::rng::Stream;

#[path = "../../../../fuzz/src/archive.rs"]
mod archive;
#[path = "../../../../fuzz/src/jobs.rs"]
mod jobs;
#[path = "../../../../fuzz/src/layout.rs"]
mod layout;
#[path = "../../../../fuzz/src/plan.rs"]
mod plan;
#[path = "../../../../fuzz/src/policy.rs"]
mod policy;
#[path = "../../../../fuzz/src/run.rs"]
mod run;
#[path = "../../../../fuzz/src/spec.rs"]
mod spec;
#[path = "../../../../fuzz/src/sweep.rs"]
mod sweep;
#[path = "../../../../fuzz/src/sysroot.rs"]
mod sysroot;
#[path = "../../../../fuzz/src/tables.rs"]
mod tables;
#[path = "../../../../fuzz/src/trace.rs"]
mod trace;
#[path = "../../../../fuzz/src/wear.rs"]
mod wear;

/// Mutates a seed like the fuzzer: flips, cuts and repeats bytes, and truncates the end.
fn changed(seed: &[u8], draw: &mut Stream) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..draw.between(1, 3) {
        let len = bytes.len() as u64;
        if len == 0 {
            break;
        }
        let from = draw.below(len) as usize;
        let to = from + draw.below(17.min(len - from as u64) + 1) as usize;
        match draw.below(4) {
            0 => bytes[from] ^= 1 << draw.below(8),
            1 => drop(bytes.drain(from..to)),
            2 => {
                let again = bytes[from..to].to_vec();
                bytes.splice(from..from, again);
            }
            _ => bytes.truncate(from),
        }
    }
    bytes
}

fn on_changed_seeds(name: &str, changes: u32, target: impl Fn(&[u8])) {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(name);
    let mut paths: Vec<_> =
        fs::read_dir(&seeds).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!paths.is_empty(), "{name} starts from something");
    paths.sort();
    let mut draw = Stream::new(1, name);
    for seed in paths.iter().map(|path| fs::read(path).unwrap()) {
        target(&seed);
        (0..changes).for_each(|_| target(&changed(&seed, &mut draw)));
    }
}

/// The leading valid UTF-8, which is the text that the fuzzer passes.
fn text(bytes: &[u8]) -> &str {
    bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid())
}

#[test]
fn binary_fuzz_targets_survive_changed_seeds() {
    on_changed_seeds("archive", 100, archive::run);
    on_changed_seeds("run", 100, run::run);
    on_changed_seeds("layout", 100, layout::run);
    on_changed_seeds("tables", 100, tables::run);
    on_changed_seeds("wear", 300, wear::run);
}

#[test]
fn text_fuzz_targets_survive_changed_seeds() {
    on_changed_seeds("plan", 100, |bytes| plan::run(text(bytes)));
    on_changed_seeds("policy", 100, |bytes| policy::run(text(bytes)));
    on_changed_seeds("jobs", 1000, |bytes| jobs::run(text(bytes)));
    on_changed_seeds("trace", 100, |bytes| trace::run(text(bytes)));
    on_changed_seeds("spec", 30, |bytes| spec::run(text(bytes)));
}

#[test]
fn sweep_and_sysroot_fuzz_targets_survive_changed_seeds() {
    // A private directory, which no other user can write to and which the test removes.
    let directory = tempfile::tempdir().unwrap();
    on_changed_seeds("sweep", 20, |bytes| sweep::run(bytes, &directory.path().join("sweep")));
    on_changed_seeds("sysroot", 5, |bytes| {
        sysroot::run(text(bytes), &directory.path().join("machine"))
    });
}
