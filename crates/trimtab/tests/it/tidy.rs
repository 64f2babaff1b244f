//! What the sources promise of themselves.

mod documents;
mod rooms;

use std::collections::{BTreeMap, BTreeSet};
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
    ("sys/mount_check.rs", "a child process looks whether a path answers, and opens nothing (O_PATH)"),
    ("sys/beneath/remove.rs", "the one way to remove a directory and what is in it"),
    ("target/dir.rs", "what a workload does, in directories that are held open, new files only, through no link"),
    ("target/dir/nfs.rs", "what an NFS server would do, in directories that are held open"),
    ("target/block/open.rs", "the test file: made new, through no link, with direct I/O from the start"),
    ("target/block/device.rs", "what was looked up once is opened by its descriptor"),
    ("trim/verify.rs", "its files: made new in a directory of its own"),
    ("serve/loopdev.rs", "device nodes of the loop driver, which may be no links"),
    ("serve/block.rs", "device nodes, which may be no links"),
    ("serve/ublk.rs", "device nodes of the ublk driver, which may be no links"),
    ("sys/ublk/control.rs", "the node of the ublk driver"),
    ("serve/awake.rs", "/dev/cpu_dma_latency, which the kernel makes"),
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
    ("serve/waits.rs", "an attribute of the drive's block device"),
    ("sys/nvme.rs", "the node of a drive that the kernel named"),
    ("trim/limit.rs", "an attribute of a block device"),
    ("trim/ext4.rs", "the node of a device that the kernel named"),
    ("session/notes/change.rs", "attributes of the kernel that notes name"),
    ("host/disk.rs", "attributes of a block device"),
    ("host/loops.rs", "device nodes and attributes of the loop driver"),
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
    let tests =
        ["mod tests", "pub mod tests", "pub(crate) mod tests"].iter().filter_map(|tests| text.find(&format!("#[cfg(test)]\n{tests}")));
    let text = &text[..tests.min().unwrap_or(text.len())];
    text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"))
}

fn of_a_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Whether `line` has `way` in it, and not as the end of a longer name.
fn mentions(line: &str, way: &str) -> bool {
    line.match_indices(way).any(|(at, _)| !way.starts_with(of_a_name) || !line[..at].ends_with(of_a_name))
}

/// The sources of the binary crate, by their paths below `src`.
fn all_sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 100);
    let mut program: Vec<(String, String)> =
        files.iter().map(|file| (file.strip_prefix(&root).unwrap().display().to_string(), fs::read_to_string(file).unwrap())).collect();
    program.sort();
    program
}

/// Fails on each line that `is_wrong` in a file that is neither in one of `rooms` (a file, or a directory with its slash) nor `allowed`, and on what is
/// allowed without need.
fn only_in(rooms: &[&str], allowed: &[(&str, &str)], instead: &str, is_wrong: impl Fn(&str) -> bool) {
    let (mut wrong, mut used) = (Vec::new(), BTreeSet::new());
    for (name, text) in
        all_sources().iter().filter(|(name, _)| !rooms.iter().any(|room| name == room || room.ends_with('/') && name.starts_with(room)))
    {
        for (at, line) in program_text(text).filter(|(_, line)| is_wrong(line)) {
            match allowed.iter().find(|(allowed, _)| name == allowed) {
                Some((allowed, _)) => drop(used.insert(*allowed)),
                None => wrong.push(format!("{name}:{}: {}: {instead}, or say in this test why not", at + 1, line.trim())),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let unused: Vec<&str> = allowed.iter().map(|(file, _)| *file).filter(|file| !used.contains(file)).collect();
    assert!(unused.is_empty(), "they need not be allowed any more: {unused:?}");
}

#[test]
fn files_are_made_changed_and_removed_in_one_way() {
    only_in(&[], ALLOWED, "use sys::beneath", |line| OTHER_WAYS.iter().any(|way| mentions(line, way)));
}

#[test]
fn files_that_users_name_are_read_in_one_way() {
    only_in(&[], READS_ALLOWED, "use sys::beneath::named", |line| {
        OTHER_READS.iter().any(|way| mentions(line, way)) && !line.contains("\"/proc/") && !line.contains("\"/sys/")
    });
}

/// Who reads or names what the kernel says outside of `host`, and why.
const KERNEL_ALLOWED: &[(&str, &str)] = &[
    ("apply.rs", "/etc/fstab is what it plans and replaces"),
    ("daemon.rs", "it waits for changes of the mount table, on the table itself, opened through host::root"),
    ("daemon/config.rs", "where its own configuration is"),
    ("mend/look.rs", "where the switches are that it sets; it reads them through host::root"),
    ("sys/beneath.rs", "/proc/self/fd is how a descriptor is opened again"),
    ("sys/beneath/named.rs", "/proc/self/fd is how a descriptor is opened again"),
    ("target/block/device.rs", "/proc/self/fd is how a descriptor is opened again"),
    ("target/block/signature/probe.rs", "/proc/self/fd is how a descriptor is given to another program"),
    ("trim/ext4.rs", "an attribute that is set, looked for through host::root"),
    ("trim/layout.rs", "the kernel's release, through host::root"),
];

#[test]
fn the_machine_is_read_in_one_room() {
    // The doctor says which places it looks at, and looks through host::root.
    only_in(&["host.rs", "host/", "doctor.rs", "doctor/"], KERNEL_ALLOWED, "read it in host, through host::root", |line| {
        ["\"/proc", "\"/sys", "\"/etc"].iter().any(|place| line.contains(place))
    });
}

/// Who prints besides `output`, and why.
const PRINTS_ALLOWED: &[(&str, &str)] = &[
    ("cmd/cli.rs", "what the parser of the command line refuses, and help"),
    ("daemon/task.rs", "lines for the journal"),
    ("session/safety/consent.rs", "a question, and what the answer is about"),
    ("cmd/drive/trace.rs", "a recording into a pipe, through output"),
    ("cmd/drive/attach.rs", "what the server says to who waits for it"),
    ("cmd/postmark/session.rs", "where other programs that the user's script starts print to"),
];

#[test]
fn only_output_prints() {
    only_in(&["output.rs", "output/"], PRINTS_ALLOWED, "give it back, or use output", |line| {
        ["print!(", "println!(", "eprint!(", "eprintln!(", "dbg!(", "stdout()", "stderr()"].iter().any(|way| mentions(line, way))
    });
}

#[test]
fn commands_alone_know_the_command_line() {
    only_in(&["main.rs", "cmd.rs", "cmd/"], &[], "take plain values", |line| {
        mentions(line, "clap::") || line.trim_start().starts_with("#[arg(") || line.trim_start().starts_with("#[command(")
    });
}

#[test]
fn unsafe_code_stands_where_it_is_looked_for() {
    only_in(&["sys.rs", "sys/"], &[], "use sys", |line| line.split(|c| !of_a_name(c)).any(|word| word == "unsafe"));
    // A hint to the processor, which reads nothing.
    let prefetches = |name: &str| name.ends_with("src/drive/prefetch.rs");
    for (name, text) in sources_of("../core/src").into_iter().filter(|(name, _)| !prefetches(name)) {
        assert!(!program_text(&text).any(|(_, line)| line.split(|c| !of_a_name(c)).any(|word| word == "unsafe")), "core is safe: {name}");
    }
}

fn sources_of(directory: &str) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    if root.exists() {
        sources(&root, &mut files);
    }
    files.iter().map(|file| (file.display().to_string(), fs::read_to_string(file).unwrap())).collect()
}

/// Each word of the texts, and how often.
fn words<'a>(texts: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, usize> {
    let mut words = BTreeMap::new();
    texts.flat_map(|text| text.split(|c| !of_a_name(c))).for_each(|word| *words.entry(word).or_insert(0) += 1);
    words
}

#[test]
fn what_is_public_is_used_by_somebody() {
    let program = all_sources();
    let others = ["tests", "benches", "../../fuzz/src"].map(sources_of).concat();
    let lines = program.iter().flat_map(|(_, text)| program_text(text)).map(|(_, line)| line);
    let words = words(lines.chain(others.iter().map(|(_, text)| text.as_str())));
    let kinds = ["fn", "struct", "enum", "trait", "type", "static", "const", "union"];
    let mut unused = Vec::new();
    for (name, text) in &program {
        for (at, line) in program_text(text) {
            let Some(rest) = line.trim_start().strip_prefix("pub ") else { continue };
            let mut parts = rest.split(|c| !of_a_name(c)).skip_while(|word| !kinds.contains(word)).skip_while(|word| kinds.contains(word));
            let Some(item) = parts.next().filter(|_| rest.split(' ').next().is_some_and(|word| kinds.contains(&word) || word == "async"))
            else {
                continue;
            };
            if words.get(item).is_none_or(|times| *times < 2) {
                unused.push(format!("{name}:{}: {item}", at + 1));
            }
        }
    }
    assert!(unused.is_empty(), "nobody uses:\n{}", unused.join("\n"));
}

#[test]
fn names_of_metrics_stand_in_one_place() {
    let everything = [sources_of("src"), sources_of("../core/src")].concat();
    let (_, list) = everything.iter().find(|(name, _)| name.ends_with("/run/metrics.rs")).unwrap();
    let names: Vec<&str> =
        list.lines().filter_map(|line| line.strip_prefix("pub const ")?.split_once(" = ")?.1.strip_suffix(';')).collect();
    assert!(names.len() > 10);
    for (file, text) in everything.iter().filter(|(name, _)| !name.ends_with("/run/metrics.rs") && !name.ends_with("any_run.rs")) {
        for (at, line) in program_text(text) {
            // A key of a document has the same name.
            let found = names.iter().find(|name| line.contains(**name) && !line.contains(&format!("{name}: ")));
            assert!(found.is_none(), "{file}:{}: {}: there is a constant for that in core::run::metrics", at + 1, line.trim());
        }
    }
}

#[test]
fn every_dependency_is_used() {
    for package in ["", "../core/"] {
        let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(package).join("Cargo.toml")).unwrap();
        let manifest: toml::Table = manifest.parse().unwrap();
        let program = sources_of(&format!("{package}src"));
        let everything = ["src", "tests", "benches"].map(|part| sources_of(&format!("{package}{part}"))).concat();
        for (table, texts) in [("dependencies", &program), ("dev-dependencies", &everything)] {
            for dependency in manifest[table].as_table().unwrap().keys() {
                let name = format!("{}::", dependency.replace('-', "_"));
                assert!(
                    texts.iter().any(|(_, text)| text.lines().any(|line| mentions(line, &name))),
                    "{package}Cargo.toml: nobody uses {dependency}"
                );
            }
        }
    }
}

#[test]
fn the_map_names_every_room_and_no_other() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let map = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    for crate_name in ["core", "trimtab"] {
        let text = fs::read_to_string(root.join(format!("crates/{crate_name}/src/lib.rs"))).unwrap();
        let modules = text.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
        let rooms = map
            .lines()
            .skip_while(|line| *line != format!("    crates/{crate_name}"))
            .skip(1)
            .take_while(|line| line.starts_with("      "));
        // Each with what it is for.
        let named = rooms.map(|line| line.trim().split_once("  ").unwrap_or_else(|| panic!("{line} says nothing")).0);
        assert_eq!(named.collect::<Vec<_>>(), modules.collect::<Vec<_>>(), "the rooms of {crate_name} on the map, and in its lib.rs");
    }
}

/// Seen: a tool that was downloaded beside the sources was taken into them.
#[test]
fn nothing_large_and_nothing_built_stands_among_the_sources() {
    const BYTES_MAX: u64 = 2 << 20;
    fn look(directory: &Path, wrong: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).unwrap().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let kind = entry.file_type().unwrap();
            if kind.is_dir() && ![".git", "target", "corpus", "__pycache__"].map(std::ffi::OsStr::new).contains(&&*name) {
                look(&path, wrong);
            } else if kind.is_file() {
                let built = path
                    .extension()
                    .is_some_and(|e| ["whl", "so", "a", "o", "exe", "gz", "xz", "zst"].map(std::ffi::OsStr::new).contains(&e));
                if built || entry.metadata().unwrap().len() > BYTES_MAX {
                    wrong.push(path);
                }
            }
        }
    }
    let mut wrong = Vec::new();
    look(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), &mut wrong);
    assert!(wrong.is_empty(), "{wrong:?}");
}
