//! Text from a file, a name, an argument or another machine stays text: no command lets
//! it control a terminal.
//!
//! Every command runs as on a colour terminal (`CLICOLOR_FORCE`), where the writer does
//! not strip escape sequences at the end.

use crate::support::{save_runs, trimtab};
use crate::sysroot::{fixtures, unpack};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use trimtab_sim::run::Run;

/// Clears the screen, sets a title and colours with 7-bit and 8-bit sequences, reverses
/// the text direction, and contains carriage returns and deletes.
const EVIL: &str = "x\u{1b}[2J\u{1b}]0;mine\u{7}\u{1b}[35mQ\u{9b}2J\u{9d}0;mine\u{9c}\u{202e}\u{2066}\u{2069}\u{200e}\u{200f}\u{061c}\u{2028}\r\u{8}\u{7f}";

/// Describes the first harmful sequence in this output, if any.
fn harm(output: &[u8]) -> Option<String> {
    if let Some(chunk) = output
        .utf8_chunks()
        .find(|chunk| chunk.invalid().iter().any(|byte| (0x80..0xa0).contains(byte)))
    {
        return Some(format!("controls of eight bits in {:?}", chunk.invalid()));
    }
    let text = String::from_utf8_lossy(output);
    let begins_style = |rest: &str| {
        let numbers = rest
            .strip_prefix('[')
            .and_then(|rest| rest.split_once('m'))
            .map(|(numbers, _)| numbers);
        // Colours and similar attributes, except those that hide text or move the cursor.
        numbers.is_some_and(|numbers| {
            numbers.split(';').all(|n| {
                matches!(
                    n,
                    "0" | "1" | "2" | "4" | "22" | "24" | "39" | "31" | "32" | "33" | "34" | "36"
                )
            })
        })
    };
    for (at, c) in text.char_indices() {
        let harmless = match c {
            '\n' | '\t' => true,
            '\u{1b}' => begins_style(&text[at + 1..]),
            '\u{200e}'
            | '\u{200f}'
            | '\u{061c}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' => false,
            c => !c.is_control(),
        };
        if !harmless {
            let from = text[..at].char_indices().rev().nth(60).map_or(0, |(from, _)| from);
            return Some(format!(
                "{c:?} in {:?}",
                text[from..].chars().take(120).collect::<String>()
            ));
        }
    }
    None
}

/// Runs the program, checks its whole output, and returns it.
fn run(args: &[&OsStr], stdin: &[u8]) -> String {
    let mut command = trimtab();
    command
        .env_remove("NO_COLOR")
        .env("CLICOLOR_FORCE", "1")
        .env("TERM", "xterm-256color")
        .args(args)
        .write_stdin(stdin);
    let output = command.output().unwrap();
    for (name, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
        if let Some(harm) = harm(bytes) {
            panic!("trimtab {args:?}: {name} has {harm}");
        }
    }
    assert!(
        !output.stdout.is_empty() || !output.stderr.is_empty(),
        "trimtab {args:?} said nothing: this proves nothing"
    );
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

fn say(args: &[&str]) -> String {
    run(&args.iter().map(OsStr::new).collect::<Vec<_>>(), b"")
}

struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

#[test]
fn harm_detects_control_characters() {
    assert!(
        harm("\u{1b}[2J".as_bytes()).is_some()
            && harm("a\u{9b}".as_bytes()).is_some()
            && harm(b"a\x9b2J").is_some()
            && harm("\u{202e}".as_bytes()).is_some()
    );
    assert!(harm("\u{1b}[35mQ".as_bytes()).is_some() && harm(b"a\r").is_some());
    assert!(harm("\u{1b}[1;31mred\u{1b}[0m, é, 日本\n".as_bytes()).is_none());
}

#[test]
fn arguments_are_printed_without_control_characters() {
    let evil = EVIL.replace('\0', "");
    for args in [
        &[evil.as_str()][..],
        &["--", &evil],
        &[&format!("--{evil}")],
        &["drive", &evil],
        &["drive", "show", &evil],
        &["drive", "show", "--bogus", &evil],
        &["drive", "simulate", "ocz-vertex-le-100gb", "--policy", &evil],
        &["drive", "simulate", "ocz-vertex-le-100gb", &format!("--fill={evil}")],
        &["drive", "simulate", &format!("/nonexistent/{evil}.toml")],
        &["drive", "attach", "ocz-vertex-le-100gb", "--id", &evil],
        &["drive", "attach", "ocz-vertex-le-100gb", "--fault", &evil],
        &[
            "drive",
            "attach",
            "ocz-vertex-le-100gb",
            "--no-block",
            "--nbd",
            &format!("/nonexistent/{evil}"),
        ],
        &["drive", "attach", "ocz-vertex-le-100gb", "--data", &format!("/nonexistent/{evil}")],
        &["drive", "detach", &evil],
        &["drive", "status", &evil],
        &["drive", "power", &evil, "cut"],
        &["drive", "simulate", "--drive", "x", "--trace", &evil],
        &["drive", "trace", &evil],
        &["study", &evil],
        &["study", "--policies", &evil, "drive:ocz-vertex-le-100gb"],
        &["study", "--seed", &evil],
        &["bench", "tree", &format!("/nonexistent/{evil}")],
        &["bench", "tree", "--tar", &evil, "null:"],
        &["bench", "crystal", &evil],
        &["bench", &evil],
        &["bench", "postmark", &format!("drive:{evil}")],
        &["doctor", &format!("/nonexistent/{evil}")],
        &["doctor", "--sysroot", &evil],
        &["verify", &format!("/nonexistent/{evil}")],
        &["trim", &format!("/nonexistent/{evil}")],
        &["trim", "/", "--policy", &evil],
        &["apply", &evil, "/"],
        &["apply", "idle", &format!("/nonexistent/{evil}")],
        &["apply", "idle", "/", "--sysroot", &evil],
        &["daemon", "--check", "--config", &evil],
        &["results", "show", &evil],
        &["history", "-n", &evil],
        &["results", "report", "last", "--output", &format!("/nonexistent/{evil}")],
        &["results", "list", "--store", &format!("/nonexistent/{evil}")],
        &["postmark", &evil],
        &["completions", &evil],
    ] {
        say(args);
        say(&[args, &["--json"]].concat());
    }
    // Not even UTF-8.
    run(&[OsStr::new("doctor"), OsStr::from_bytes(b"/nonexistent/\x1b[2J\xff\x9b2J")], b"");
    run(&[OsStr::from_bytes(b"\x1b[2J\xff")], b"");
}

/// Copies of `text` with the payload in place of each quoted string in turn.
fn variants(text: &str) -> Vec<String> {
    let parts: Vec<&str> = text.split('"').collect();
    (1..parts.len())
        .step_by(2)
        .map(|at| {
            parts
                .iter()
                .enumerate()
                .map(|(i, part)| if i == at { escaped(EVIL) } else { (*part).to_owned() })
                .collect::<Vec<_>>()
                .join("\"")
        })
        .collect()
}

/// The payload as TOML and JSON escape it.
fn escaped(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_control() || !c.is_ascii() {
                format!("\\u{:04x}", c as u32)
            } else {
                c.to_string()
            }
        })
        .collect()
}

#[test]
fn specifications_are_printed_without_control_characters() {
    let scratch = Scratch::new();
    let drives = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../drives");
    let spec = fs::read_to_string(drives.join("ocz-vertex-le-100gb.toml")).unwrap();
    let key = escaped(EVIL);
    let mut all = variants(&spec);
    all.push(format!("\"{key}\" = 1\n{spec}"));
    all.push(format!("{spec}\n[\"{key}\"]\n\"{key}\" = \"{key}\"\n"));
    all.push(spec.replacen(" = ", &format!(" = {EVIL}"), 1));
    all.push(format!("{EVIL}\n{spec}"));
    for text in all {
        let file = scratch.write("evil.toml", text);
        say(&["drive", "show", &file]);
        say(&["drive", "show", &file, "--json"]);
    }
    // A name that every command displays.
    let named: String = spec
        .lines()
        .map(|line| {
            if line.starts_with("description") || line.starts_with("title") {
                format!("{} = \"{key}\"\n", line.split(' ').next().unwrap())
            } else {
                format!("{line}\n")
            }
        })
        .collect();
    let file = scratch.write(&format!("{}.toml", EVIL.replace('/', "")), named);
    say(&["drive", "show", &file]);
    say(&["drive", "simulate", &file, "--size", "1GiB", "--write", "1MB"]);
    say(&[
        "bench",
        "postmark",
        &format!("drive:{file}"),
        "--number",
        "10",
        "--transactions",
        "10",
        "--tries",
        "1",
    ]);
}

#[test]
fn traces_are_printed_without_control_characters() {
    let scratch = Scratch::new();
    for text in [
        format!("fio version 3 iolog\n0 {EVIL} add\n0 {EVIL} open\n0 {EVIL} write 0 4096\n"),
        format!("0,{EVIL},0,Write,0,4096,1\n"),
        format!("0,h,0,{EVIL},0,4096,1\n"),
        format!("  8,0 0 1 0.0 1 Q W {EVIL} + 8 [{EVIL}]\n"),
        format!("{EVIL}\n{EVIL}\n"),
    ] {
        let file = scratch.write("trace", &text);
        say(&["drive", "trace", &file]);
        say(&["drive", "simulate", "--trace", &file, "--drive", "ocz-vertex-le-100gb"]);
        for format in ["fio", "msr", "blkparse", "mqsim"] {
            say(&["drive", "trace", &file, "--format", format]);
        }
    }
}

#[test]
fn configurations_are_printed_without_control_characters() {
    let scratch = Scratch::new();
    let key = escaped(EVIL);
    for text in [
        format!("{EVIL} = 1\n"),
        format!("\"{key}\" = 1\n"),
        format!("[[filesystem]]\npath = \"/{key}\"\npolicy = \"idle\"\n"),
        format!("[[filesystem]]\npath = \"/\"\npolicy = \"{key}\"\n"),
        format!("[[filesystem]]\npath = \"/\"\npolicy = \"idle:{key}=1\"\n"),
        format!("[[{key}]]\n"),
    ] {
        let file = scratch.write("daemon.toml", text);
        say(&["daemon", "--check", "--config", &file]);
    }
    let system = tempfile::tempdir().unwrap();
    fs::create_dir_all(system.path().join("etc/trimtab")).unwrap();
    for (fstab, config) in [
        (format!("/dev/{EVIL} /a ext4 rw 0 0\n"), String::new()),
        (format!("/dev/x /a ext4 {EVIL} 0 0\n"), String::new()),
        (format!("/dev/x /a {EVIL} rw 0 0\n"), String::new()),
        (
            "/dev/x /a ext4 rw 0 0\n".to_owned(),
            format!("[[filesystem]]\npath = \"/{key}\"\npolicy = \"none\"\n"),
        ),
        ("/dev/x /a ext4 rw 0 0\n".to_owned(), format!("{EVIL}\n")),
    ] {
        fs::write(system.path().join("etc/fstab"), fstab).unwrap();
        fs::write(system.path().join("etc/trimtab/trimtab.toml"), config).unwrap();
        for policy in ["online", "idle"] {
            say(&[
                "apply",
                policy,
                "/a",
                "--dry-run",
                "--sysroot",
                system.path().to_str().unwrap(),
            ]);
        }
    }
    // PostMark prints exactly the original's bytes, except for bytes that are not text: a
    // terminal may follow the pipe.
    let commands = format!(
        "set {EVIL}\n{EVIL}\nset location /{EVIL}\nset location +/{EVIL} 3\nshow\n\
            load {EVIL}\nrun /nonexistent/{EVIL}\n"
    );
    let file = scratch.write(&EVIL.replace('/', ""), commands.replace("load", "x"));
    let eight_bits = [commands.as_bytes(), b"set location /\x9b2J\nshow\n"].concat();
    for input in [commands.as_bytes(), &eight_bits, format!("load {file}\n").as_bytes()] {
        let shown = run(&["-q", "postmark", &file].map(OsStr::new), input);
        assert!(
            shown.contains("Reading configuration from file '") && shown.contains('\u{fffd}'),
            "{shown}"
        );
    }
}

#[test]
fn sysroots_are_printed_without_control_characters() {
    let octal: String = EVIL
        .bytes()
        .map(|b| {
            if b.is_ascii_graphic() && b != b'\\' {
                char::from(b).to_string()
            } else {
                format!("\\{b:03o}")
            }
        })
        .collect();
    let mut seen = 0;
    for (name, text) in fixtures() {
        let tree = unpack(&text);
        let mut files = Vec::new();
        walk(tree.path(), &mut files);
        for file in files {
            let old = fs::read(&file).unwrap();
            let new = match file.file_name().unwrap().to_str().unwrap() {
                "mountinfo" => String::from_utf8_lossy(&old)
                    .replace(" ext4 /dev", &format!(" {octal} /dev{octal}"))
                    .replace(" / /", &format!(" / /{octal}")),
                "swaps" | "fstab" => format!(
                    "/dev/{octal} /{octal} {EVIL} {EVIL} 0 0\n{}",
                    String::from_utf8_lossy(&old)
                ),
                "model" | "vendor" | "rev" | "firmware_rev" | "serial" | "name" | "uuid"
                | "level" | "provisioning_mode" | "backing_file" => EVIL.to_owned(),
                _ => continue,
            };
            fs::write(&file, new).unwrap();
        }
        let shown = say(&["doctor", "--all", "--sysroot", tree.path().to_str().unwrap()]);
        seen += usize::from(shown.contains('\u{fffd}'));
        say(&["doctor", "--all", "--json", "--sysroot", tree.path().to_str().unwrap()]);
        assert!(!shown.is_empty(), "{name}");
    }
    assert!(seen > 3, "the payload was shown, with its teeth drawn, in {seen} trees only");
}

fn walk(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap() {
            t if t.is_dir() => walk(&entry.path(), found),
            t if t.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
}

/// Collects the paths of all strings and keys of a document.
fn places(value: &Value, path: &str, found: &mut Vec<(String, Option<String>)>) {
    match value {
        Value::String(_) => found.push((path.to_owned(), None)),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(i, item)| places(item, &format!("{path}/{i}"), found)),
        Value::Object(items) => {
            for (key, item) in items {
                found.push((path.to_owned(), Some(key.clone())));
                places(
                    item,
                    &format!("{path}/{}", key.replace('~', "~0").replace('/', "~1")),
                    found,
                );
            }
        }
        _ => {}
    }
}

#[test]
fn stored_runs_are_printed_without_control_characters() {
    let scratch = Scratch::new();
    let first = scratch.0.path().join("first.db");
    let first = first.to_str().unwrap();
    say(&["--store", first, "bench", "tree", "--files", "20", "--tries", "3", "null:"]);
    let exported = trimtab().args(["--store", first, "results", "export"]).output().unwrap().stdout;
    let mut good: Value = serde_json::from_slice::<Value>(&exported).unwrap()["runs"][0].take();
    good.as_object_mut().unwrap().shift_remove("id");
    let is_run = |run: &Value| serde_json::from_value::<Run>(run.clone()).is_ok();
    assert!(is_run(&good));
    let mut all = Vec::new();
    places(&good, "", &mut all);
    let mut whole = good.clone();
    let mut taken = 0;
    for (path, key) in &all {
        let mut one = whole.clone();
        match (one.pointer_mut(path), key) {
            (Some(Value::Object(items)), Some(key)) => {
                if let Some(value) = items.shift_remove(key) {
                    items.insert(format!("{key}{EVIL}"), value);
                }
            }
            (Some(value), None) => *value = EVIL.into(),
            _ => continue,
        }
        if is_run(&one) {
            whole = one;
            taken += 1;
        }
    }
    assert!(taken > 15, "{taken} places take any text");
    let store = scratch.0.path().join("r.db");
    let results =
        |args: &[&str]| say(&[&["--store", store.to_str().unwrap(), "results"], args].concat());
    let (mut a, mut b) = (whole.clone(), whole);
    a["seed"] = 5.into();
    b["seed"] = 6.into();
    save_runs(&store, [a, b]);
    for args in [
        &["list"][..],
        &["show", "last"],
        &["compare", "last~1", "last"],
        &["list", "--json"],
        &["show", "last", "--json"],
        &["export"],
    ] {
        let shown = results(args);
        assert!(
            shown.contains('\u{fffd}') || shown.contains("\\u001b"),
            "{args:?} shows nothing of it"
        );
    }
    let html = scratch.0.path().join("r.html");
    results(&["report", "last", "--output", html.to_str().unwrap()]);
    assert!(harm(&fs::read(html).unwrap()).is_none());
    results(&["list"]);
}

#[test]
fn archives_are_printed_without_control_characters() {
    let scratch = Scratch::new();
    for name in [format!("../{EVIL}"), format!("/{EVIL}"), EVIL.to_owned()] {
        let mut header = tar_header(name.as_bytes());
        header.resize(2048, 0);
        let file = scratch.write("evil.tar", header);
        say(&["bench", "tree", "--tar", &file, "null:"]);
    }
}

/// A ustar header of an empty file.
fn tar_header(name: &[u8]) -> Vec<u8> {
    let mut header = vec![0_u8; 512];
    let len = name.len().min(100);
    header[..len].copy_from_slice(&name[..len]);
    header[100..107].copy_from_slice(b"0000644");
    header[124..135].copy_from_slice(b"00000000000");
    header[148..156].fill(b' ');
    header[156] = b'0';
    header[257..263].copy_from_slice(b"ustar\0");
    let sum: u32 = header.iter().map(|b| u32::from(*b)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    header
}

#[test]
fn mount_point_with_line_feed_forges_no_line() {
    let tree = tempfile::tempdir().unwrap();
    for directory in ["proc/self", "sys/devices/sda/queue", "sys/dev/block"] {
        fs::create_dir_all(tree.path().join(directory)).unwrap();
    }
    let mounts =
        "25 1 8:1 / /mnt\\012reaches\\040\\040\\040/forged\\033[2J rw - ntfs3 /dev/sda rw\n";
    for (file, text) in [
        ("proc/self/mountinfo", mounts),
        ("sys/devices/sda/dev", "8:1\n"),
        ("sys/devices/sda/queue/discard_max_bytes", "512\n"),
    ] {
        fs::write(tree.path().join(file), text).unwrap();
    }
    std::os::unix::fs::symlink("../../devices/sda", tree.path().join("sys/dev/block/8:1")).unwrap();
    let sysroot = tree.path().to_str().unwrap();
    for more in [&["--summary"][..], &[]] {
        let shown = say(&[&["doctor", "--all", "--sysroot", sysroot], more].concat());
        assert!(shown.contains("/mnt reaches   /forged\u{fffd}"), "{shown}");
        assert!(!shown.lines().any(|line| line.trim_start().starts_with("reaches")), "{shown}");
    }
    let shown = say(&["doctor", "--all", "--sysroot", sysroot]);
    assert!(
        shown.contains("mount -o remount,discard $'/mnt\\012reaches   /forged\\033[2J'"),
        "{shown}"
    );
}
