//! What the sources promise of themselves.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Ways to make, change, rename and remove files that do not go through `sys::beneath`.
const OTHER_WAYS: [&str; 33] = [
    "create_dir(",
    "create_dir_all(",
    "DirBuilder",
    "File::create",
    "fs::write(",
    "fs::remove_file(",
    "fs::remove_dir(",
    "remove_dir_all(",
    "fs::rename(",
    "fs::copy(",
    "fs::hard_link(",
    "fs::soft_link(",
    "fs::set_permissions(",
    ".set_permissions(",
    "OpenOptions",
    "File::options()",
    "fs::mkdir",
    "fs::unlink",
    "fs::rename",
    "fs::symlink(",
    "fs::symlinkat(",
    "fs::link",
    "fs::mknod",
    "fs::chmod",
    "libc::open",
    "libc::unlink",
    "OFlags::CREATE",
    "OFlags::WRONLY",
    "OFlags::RDWR",
    "OFlags::TMPFILE",
    "NamedTempFile",
    "tempdir_in(",
    "UnixListener::bind(",
];

/// Who may, and why.
const ALLOWED: &[(&str, &str)] = &[
    ("sys/beneath.rs", "the one way"),
    ("sys/beneath/remove.rs", "the one way to remove a directory and what is in it"),
    ("target/dir.rs", "what a workload does, in directories that are held open, new files only, through no link"),
    ("target/dir/nfs.rs", "what an NFS server would do, in directories that are held open"),
    ("target/block/open.rs", "the test file: made new, through no link, with direct I/O from the start"),
    ("target/block/device.rs", "what was looked up once is opened by its descriptor"),
    ("verify.rs", "its files: made new in a directory of its own"),
    ("serve/loopdev.rs", "device nodes of the loop driver, which may be no links"),
    ("serve/awake.rs", "/dev/cpu_dma_latency, which the kernel makes"),
    ("serve/fuse/rings.rs", "a switch of the kernel's module fuse"),
    ("trim/kernel_log.rs", "/dev/kmsg is read without waiting"),
    ("cmd/drive/attach.rs", "/dev/null, which stands in for the terminal"),
    ("sys/beneath/named.rs", "the one way for what a user names"),
    ("cmd/volume.rs", "a scratch directory with a random name, private from the start"),
    ("apply/record.rs", "files of the system, replaced as a whole"),
];

/// Ways to read a file that do not go through `sys::beneath::named`.
const OTHER_READS: [&str; 4] = ["File::open(", "fs::read(", "fs::read_to_string(", "fs::open("];

/// Who may, and why. What names a place below /proc or /sys in the same line may always.
const READS_ALLOWED: &[(&str, &str)] = &[
    ("sys/beneath.rs", "the one way"),
    ("sys/beneath/named.rs", "the one way"),
    ("target/block/open.rs", "what was looked up before, and a test file of its own"),
    ("serve/loopdev.rs", "device nodes and attributes of the loop driver"),
    ("serve/fuse/rings.rs", "a switch of the kernel's module fuse"),
    ("serve/waits.rs", "an attribute of a loop device"),
    ("sys/nvme.rs", "the node of a drive that the kernel named"),
    ("trim/limit.rs", "an attribute of a block device"),
    ("trim/ext4.rs", "the node of a device that the kernel named"),
    ("notes/change.rs", "attributes of the kernel that notes name"),
    ("host/openers.rs", "directories of /proc"),
    ("cmd/drive/attach.rs", "/dev/null"),
];

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
            found.push(path);
        }
    }
}

/// What is compiled into the program: neither comments nor unit tests.
fn program_text(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// Whether `line` has `way` in it, and not as the end of a longer name.
fn mentions(line: &str, way: &str) -> bool {
    let part_of_a_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    line.match_indices(way).any(|(at, _)| !way.starts_with(part_of_a_name) || !line[..at].ends_with(part_of_a_name))
}

#[test]
fn files_are_made_changed_and_removed_in_one_way() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 100);
    let (mut wrong, mut used) = (Vec::new(), BTreeSet::new());
    for file in files {
        let name = file.strip_prefix(&root).unwrap().display().to_string();
        let allowed = ALLOWED.iter().position(|(allowed, _)| name == *allowed);
        let text = fs::read_to_string(&file).unwrap();
        for (at, line) in program_text(&text) {
            let Some(way) = OTHER_WAYS.iter().find(|way| mentions(line, way)) else { continue };
            if let Some(allowed) = allowed {
                used.insert(ALLOWED[allowed].0);
            } else {
                wrong.push(format!("{name}:{}: {way} ... use sys::beneath, or say in this test why not", at + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let unused: Vec<&str> = ALLOWED.iter().map(|(file, _)| *file).filter(|file| !used.contains(file)).collect();
    assert!(unused.is_empty(), "they need not be allowed any more: {unused:?}");
}

#[test]
fn files_that_users_name_are_read_in_one_way() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let (mut wrong, mut used) = (Vec::new(), BTreeSet::new());
    for file in files {
        let name = file.strip_prefix(&root).unwrap().display().to_string();
        let allowed = READS_ALLOWED.iter().find(|(allowed, _)| name == *allowed);
        let text = fs::read_to_string(&file).unwrap();
        for (at, line) in program_text(&text) {
            if !OTHER_READS.iter().any(|way| mentions(line, way)) || line.contains("\"/proc/") || line.contains("\"/sys/") {
                continue;
            }
            match allowed {
                Some((allowed, _)) => drop(used.insert(*allowed)),
                None => wrong.push(format!("{name}:{}: use sys::beneath::named, or say in this test why not", at + 1)),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let unused: Vec<&str> = READS_ALLOWED.iter().map(|(file, _)| *file).filter(|file| !used.contains(file)).collect();
    assert!(unused.is_empty(), "they need not be allowed any more: {unused:?}");
}
