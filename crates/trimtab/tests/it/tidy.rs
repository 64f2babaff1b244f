//! Rules that the sources follow.

mod cycles;
mod documents;
mod names;
mod words;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Calls that create, change, rename or remove files without `sys::beneath`.
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

/// The exceptions, and their reasons.
const ALLOWED: &[(&str, &str)] = &[
    ("linux/sys/beneath.rs", "the one way"),
    (
        "linux/sys/mount_check.rs",
        "a child process looks whether a path answers, and opens nothing (O_PATH)",
    ),
    ("linux/sys/beneath/remove.rs", "the one way to remove a directory and what is in it"),
    (
        "linux/target/dir.rs",
        "what a workload does, in directories that are held open, new files only, through no link",
    ),
    ("linux/target/dir/nfs.rs", "what an NFS server would do, in directories that are held open"),
    (
        "linux/target/block/open.rs",
        "the test file: made new, through no link, with direct I/O from the start",
    ),
    ("linux/target/block/device.rs", "what was looked up once is opened by its descriptor"),
    ("linux/trim/verify.rs", "its files: made new in a directory of its own"),
    ("linux/loop_device.rs", "device nodes of the loop driver, which may be no links"),
    ("vssd/claim.rs", "device nodes, which may be no links"),
    ("vssd/ublk.rs", "device nodes of the ublk driver, which may be no links"),
    ("linux/sys/ublk/control.rs", "the node of the ublk driver"),
    ("vssd/cpu_latency.rs", "/dev/cpu_dma_latency, which the kernel makes"),
    ("linux/trim/kernel_log.rs", "/dev/kmsg is read without waiting"),
    ("trimtab/cmd/drive/attach.rs", "/dev/null, which stands in for the terminal"),
    ("linux/sys/beneath/named.rs", "the one way for what a user names"),
    ("trimtab/apply/record.rs", "files of the system, replaced as a whole"),
];

/// Calls that read a file without `sys::beneath::named`.
const OTHER_READS: [&str; 4] = ["File::open(", "fs::read(", "fs::read_to_string(", "fs::open("];

/// The exceptions, and their reasons. A line that names a path below /proc or /sys is
/// always allowed.
const READS_ALLOWED: &[(&str, &str)] = &[
    ("linux/target/block/device.rs", "/proc/self/fd is how a descriptor is opened again"),
    ("linux/sys/beneath.rs", "the one way"),
    ("linux/sys/beneath/named.rs", "the one way"),
    ("linux/target/block/open.rs", "what was looked up before, and a test file of its own"),
    ("linux/loop_device.rs", "device nodes and attributes of the loop driver"),
    ("linux/sys/nvme.rs", "the node of a drive that the kernel named"),
    ("linux/trim/limit.rs", "an attribute of a block device"),
    ("linux/trim/ext4.rs", "the node of a device that the kernel named"),
    ("linux/session/journal/change.rs", "attributes of the kernel that records name"),
    ("linux/host/disk.rs", "attributes of a block device"),
    ("linux/host/loops.rs", "device nodes and attributes of the loop driver"),
    ("linux/host/openers.rs", "directories of /proc"),
    ("trimtab/cmd/drive/attach.rs", "/dev/null"),
    ("vssd/block/looped.rs", "attributes of the loop device's queue"),
];

fn rust_files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    rust_files(directory, found);
    found.retain(|path| !path.ends_with("tests.rs"));
}

/// The lines compiled into the program: no comments and no unit tests.
fn program_text(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let tests = ["mod tests {", "pub mod tests {", "pub(crate) mod tests {"]
        .map(|tests| text.find(&format!("#[cfg(test)]\n{tests}")));
    let text = &text[..tests.into_iter().flatten().min().unwrap_or(text.len())];
    text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"))
}

fn of_a_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// True if `line` contains `way`, but not as the end of a longer name.
fn mentions(line: &str, way: &str) -> bool {
    line.match_indices(way)
        .any(|(at, _)| !way.starts_with(of_a_name) || !line[..at].ends_with(of_a_name))
}

/// The crates whose sources follow these rules, as folders and as they are called here.
const CRATES: [(&str, &str); 8] = [
    ("trimtab-drive", "drive"),
    ("trimtab-sim", "sim"),
    ("trimtab-study", "study"),
    ("trimtab-linux", "linux"),
    ("trimtab-vssd", "vssd"),
    ("trimtab-report", "report"),
    ("trimtab", "trimtab"),
    ("validate", "validate"),
];

fn crate_folder(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder)
}

/// The sources of every crate, by crate and path below `src`: `linux/sys/beneath.rs`.
fn all_sources() -> Vec<(String, String)> {
    let mut program = Vec::new();
    for (folder, name) in CRATES {
        let root = crate_folder(folder).join("src");
        let mut files = Vec::new();
        sources(&root, &mut files);
        program.extend(files.iter().map(|file| {
            (
                format!("{name}/{}", file.strip_prefix(&root).unwrap().display()),
                fs::read_to_string(file).unwrap(),
            )
        }));
    }
    assert!(program.len() > 400);
    program.sort();
    program
}

/// Fails on each line that `is_wrong`, unless the file is `allowed` or in one of `rooms`
/// (a file, or a directory with its slash). Also fails on unused entries of `allowed`.
fn only_in(
    rooms: &[&str],
    allowed: &[(&str, &str)],
    instead: &str,
    is_wrong: impl Fn(&str) -> bool,
) {
    let (mut wrong, mut used) = (Vec::new(), BTreeSet::new());
    // The `no_std` crates cannot print or open files outside their tests.
    let has_std =
        |name: &str| ["linux/", "vssd/", "trimtab/"].iter().any(|of| name.starts_with(of));
    for (name, text) in all_sources().iter().filter(|(name, _)| {
        has_std(name)
            && !rooms
                .iter()
                .any(|room| name == room || room.ends_with('/') && name.starts_with(room))
    }) {
        for (at, line) in program_text(text).filter(|(_, line)| is_wrong(line)) {
            match allowed.iter().find(|(allowed, _)| name == allowed) {
                Some((allowed, _)) => drop(used.insert(*allowed)),
                None => wrong.push(format!(
                    "{name}:{}: {}: {instead}, or say in this test why not",
                    at + 1,
                    line.trim()
                )),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let unused: Vec<&str> =
        allowed.iter().map(|(file, _)| *file).filter(|file| !used.contains(file)).collect();
    assert!(unused.is_empty(), "they need not be allowed any more: {unused:?}");
}

#[test]
fn sources_change_files_only_through_beneath() {
    only_in(&[], ALLOWED, "use sys::beneath", |line| {
        OTHER_WAYS.iter().any(|way| mentions(line, way))
    });
}

#[test]
fn sources_read_user_files_only_through_named() {
    only_in(&[], READS_ALLOWED, "use sys::beneath::named", |line| {
        OTHER_READS.iter().any(|way| mentions(line, way))
            && !line.contains("\"/proc/")
            && !line.contains("\"/sys/")
    });
}

/// The files outside `host` that read kernel files or name their paths, and their
/// reasons.
const KERNEL_ALLOWED: &[(&str, &str)] = &[
    ("trimtab/apply.rs", "/etc/fstab is what it plans and replaces"),
    (
        "trimtab/daemon.rs",
        "it waits for changes of the mount table, on the table itself, opened through host::root",
    ),
    ("trimtab/daemon/config.rs", "where its own configuration is"),
    (
        "trimtab/mend/look.rs",
        "where the switches are that it sets; it reads them through host::root",
    ),
    ("linux/sys/beneath.rs", "/proc/self/fd is how a descriptor is opened again"),
    ("linux/sys/beneath/named.rs", "/proc/self/fd is how a descriptor is opened again"),
    ("linux/target/block/device.rs", "/proc/self/fd is how a descriptor is opened again"),
    (
        "linux/target/block/signature/probe.rs",
        "/proc/self/fd is how a descriptor is given to another program",
    ),
    ("linux/trim/ext4.rs", "an attribute that is set, looked for through host::root"),
    ("linux/trim/layout.rs", "the kernel's release, through host::root"),
];

#[test]
fn only_host_and_doctor_read_the_machine() {
    // The doctor names the paths that it inspects, and reads them through host::root.
    only_in(
        &["linux/host.rs", "linux/host/", "linux/doctor.rs", "linux/doctor/"],
        KERNEL_ALLOWED,
        "read it in host, through host::root",
        |line| ["\"/proc", "\"/sys", "\"/etc"].iter().any(|place| line.contains(place)),
    );
}

/// The files other than `output` that print, and their reasons.
const PRINTS_ALLOWED: &[(&str, &str)] = &[
    ("trimtab/cmd/cli.rs", "what the parser of the command line refuses, and help"),
    ("trimtab/daemon/task.rs", "lines for the journal"),
    ("linux/session/safety/consent.rs", "a question, and what the answer is about"),
    ("trimtab/cmd/drive/attach.rs", "what the server says to who waits for it"),
    ("trimtab/postmark/session.rs", "where other programs that the user's script starts print to"),
];

#[test]
fn only_output_prints() {
    only_in(
        &["linux/output.rs", "linux/output/"],
        PRINTS_ALLOWED,
        "give it back, or use output",
        |line| {
            ["print!(", "println!(", "eprint!(", "eprintln!(", "dbg!(", "stdout()", "stderr()"]
                .iter()
                .any(|way| mentions(line, way))
        },
    );
}

#[test]
fn only_cmd_uses_clap() {
    only_in(
        &["trimtab/main.rs", "trimtab/cmd.rs", "trimtab/cmd/"],
        &[],
        "take plain values",
        |line| {
            mentions(line, "clap::")
                || line.trim_start().starts_with("#[arg(")
                || line.trim_start().starts_with("#[command(")
        },
    );
}

/// The compiler rejects unsafe code in all other modules.
#[test]
fn lib_rs_of_each_crate_forbids_unsafe_code() {
    for (folder, name) in CRATES {
        let lib = fs::read_to_string(crate_folder(folder).join("src/lib.rs")).unwrap();
        let allowed: Vec<&str> = lib
            .split("#[allow(unsafe_code)]\n")
            .skip(1)
            .filter_map(|rest| rest.lines().next())
            .collect();
        let expected: (&str, &[&str]) = match name {
            "drive" => ("#![deny(unsafe_code)]", &["mod prefetch;"]),
            "linux" => ("#![deny(unsafe_code)]", &["pub mod sys;"]),
            _ => ("#![forbid(unsafe_code)]", &[]),
        };
        assert!(lib.contains(expected.0), "{folder}: {}", expected.0);
        assert_eq!(allowed, expected.1, "{folder}");
    }
}

fn sources_of(directory: &str) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    if root.exists() {
        sources(&root, &mut files);
    }
    files
        .iter()
        .map(|file| (file.display().to_string(), fs::read_to_string(file).unwrap()))
        .collect()
}

#[test]
fn metric_names_are_constants_of_run_metrics() {
    let everything = all_sources();
    let (_, list) = everything.iter().find(|(name, _)| name == "sim/run/metrics.rs").unwrap();
    let names: Vec<&str> = list
        .lines()
        .filter_map(|line| line.strip_prefix("pub const ")?.split_once(" = ")?.1.strip_suffix(';'))
        .collect();
    assert!(names.len() > 10);
    for (file, text) in everything
        .iter()
        .filter(|(name, _)| name != "sim/run/metrics.rs" && !name.ends_with("any_run.rs"))
    {
        for (at, line) in program_text(text) {
            // A JSON key may have the same name.
            let found = names
                .iter()
                .find(|name| line.contains(**name) && !line.contains(&format!("{name}: ")));
            assert!(
                found.is_none(),
                "{file}:{}: {}: run::metrics has a constant for that",
                at + 1,
                line.trim()
            );
        }
    }
}

#[test]
fn every_dependency_is_used() {
    for (folder, _) in CRATES {
        let manifest = fs::read_to_string(crate_folder(folder).join("Cargo.toml")).unwrap();
        let manifest: toml::Table = manifest.parse().unwrap();
        let program = sources_of(&format!("../{folder}/src"));
        let mut files = Vec::new();
        ["src", "tests", "benches"]
            .iter()
            .for_each(|part| rust_files(&crate_folder(folder).join(part), &mut files));
        let everything: Vec<(String, String)> = files
            .iter()
            .map(|file| (file.display().to_string(), fs::read_to_string(file).unwrap()))
            .collect();
        for (table, texts) in [("dependencies", &program), ("dev-dependencies", &everything)] {
            for dependency in manifest
                .get(table)
                .and_then(toml::Value::as_table)
                .into_iter()
                .flat_map(toml::Table::keys)
            {
                let name = dependency.replace('-', "_");
                let (path, renamed) = (format!("{name}::"), format!("use {name} as "));
                let uses = |line: &str| mentions(line, &path) || line.contains(&renamed);
                assert!(
                    texts.iter().any(|(_, text)| text.lines().any(uses)),
                    "{folder}/Cargo.toml: unused dependency {dependency}"
                );
            }
        }
    }
}

#[test]
fn architecture_names_every_public_module() {
    let map = fs::read_to_string(crate_folder("../ARCHITECTURE.md")).unwrap();
    for (folder, _) in CRATES {
        let text = fs::read_to_string(crate_folder(folder).join("src/lib.rs")).unwrap();
        let modules =
            text.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
        let row = map
            .lines()
            .find(|line| line.starts_with(&format!("| `{folder}` |")))
            .unwrap_or_else(|| panic!("no row for {folder}"));
        let missing: Vec<&str> =
            modules.filter(|module| !row.contains(&format!("`{module}`"))).collect();
        assert!(missing.is_empty(), "ARCHITECTURE.md names no {missing:?} of {folder}");
    }
}

#[test]
fn architecture_paths_exist() {
    let map = fs::read_to_string(crate_folder("../ARCHITECTURE.md")).unwrap();
    let paths = map
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|quoted| quoted.contains('/') && !quoted.contains(' '));
    let file = |path: &str| match path.split_once('/') {
        Some(("app", rest)) => crate_folder("trimtab/src").join(rest),
        Some((name @ ("drive" | "sim" | "study" | "linux" | "vssd" | "report"), rest)) => {
            crate_folder(&format!("trimtab-{name}/src")).join(rest)
        }
        Some(("validate", rest)) => crate_folder("validate/src").join(rest),
        _ => crate_folder("..").join(path),
    };
    let missing: Vec<&str> = paths.filter(|path| !file(path).exists()).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md names {missing:?}");
}

/// Regression: a tool downloaded next to the sources was committed with them.
#[test]
fn sources_contain_no_large_or_built_files() {
    const BYTES_MAX: u64 = 2 << 20;
    fn look(directory: &Path, wrong: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).unwrap().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let kind = entry.file_type().unwrap();
            if kind.is_dir()
                && ![".git", "target", "corpus", "__pycache__"]
                    .map(std::ffi::OsStr::new)
                    .contains(&&*name)
            {
                look(&path, wrong);
            } else if kind.is_file() {
                let built = path.extension().is_some_and(|e| {
                    ["whl", "so", "a", "o", "exe", "gz", "xz", "zst"]
                        .map(std::ffi::OsStr::new)
                        .contains(&e)
                });
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
