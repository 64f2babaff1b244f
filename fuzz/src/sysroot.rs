//! A hostile machine: a tree with `/sys`, `/proc`, `/etc` and the output of dmsetup, with
//! names, links and contents from the input bytes. The doctor's output never controls the
//! terminal, `apply` plans or refuses, and no path leads out of the tree.
//!
//! ```text
//! /path = text                           a file; \n is a line end, \xHH a byte
//! /path -> target                        a symbolic link
//! ```

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use trimtab::apply::{System, plan};
use trimtab_linux::doctor::Doctor;
use trimtab_linux::host::root::Root;
use trimtab_linux::output::is_text;
use trimtab_report::diagnosis::render;

/// Stored in a file outside the tree; must not appear in any answer.
const SECRET: &str = "8c2f0b7d51";

/// Runs one input in the directory `base`, which it deletes before and after.
pub fn run(text: &str, base: &Path) {
    let tree = base.join("tree");
    let _ = fs::remove_dir_all(base);
    fs::create_dir_all(&tree).expect("there is memory");
    fs::write(base.join("secret"), SECRET).expect("there is memory");
    unpack(text, &tree);
    if let Ok(root) = Root::recorded(&tree)
        && let Ok(doctor) = Doctor::new(&root)
    {
        for diagnosis in doctor.survey().diagnoses {
            let shown = render(&diagnosis);
            assert!(only_colours(&shown), "{shown:?}");
            let json = serde_json::to_string(&diagnosis).expect("it can be written");
            assert!(!shown.contains(SECRET) && !json.contains(SECRET), "read outside the tree");
        }
    }
    let system = System::new(Some(&tree), None).expect("the tree is there");
    for policy in ["online", "idle"] {
        if let Ok(plan) = plan(&system, policy, Path::new("/home")) {
            assert!(plan.edits.len() <= 2);
            assert!(
                plan.edits.iter().all(|e| !e
                    .before
                    .as_deref()
                    .unwrap_or_default()
                    .contains(SECRET))
            );
        }
    }
    fs::remove_dir_all(base).expect("it was made here");
}

/// Creates files before links, so that nothing is ever created through a link.
fn unpack(text: &str, tree: &Path) {
    let lines = || text.lines().take(500);
    let links: Vec<(PathBuf, &str)> = lines()
        .filter_map(|line| line.split_once(" -> "))
        .filter_map(|(path, target)| Some((inside(tree, path)?, target)))
        .collect();
    for (path, _) in &links {
        let _ = path.parent().map(fs::create_dir_all);
    }
    for (path, content) in lines().filter_map(|line| line.split_once(" = ")) {
        let Some(path) = inside(tree, path) else { continue };
        let _ = path.parent().map(fs::create_dir_all);
        let _ = fs::write(path, bytes_of(content));
    }
    for (path, target) in links {
        let _ = symlink(target, path);
    }
}

/// The position of an input path below the tree.
fn inside(tree: &Path, path: &str) -> Option<PathBuf> {
    let names: PathBuf = Path::new(path)
        .strip_prefix("/")
        .ok()?
        .components()
        .filter(|c| matches!(c, Component::Normal(_)))
        .collect();
    (!names.as_os_str().is_empty()
        && names.components().count() < 20
        && names.as_os_str().len() < 1000)
        .then(|| tree.join(names))
}

fn bytes_of(content: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = content.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex =
            |at: usize| char::from(*tail.get(at)?).to_digit(16).and_then(|n| u8::try_from(n).ok());
        match (first, tail.first()) {
            (b'\\', Some(b'n')) => {
                bytes.push(b'\n');
                rest = &tail[1..];
            }
            (b'\\', Some(b'x')) if hex(1).is_some() && hex(2).is_some() => {
                bytes.push(hex(1).unwrap_or(0) << 4 | hex(2).unwrap_or(0));
                rest = &tail[3..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    bytes
}

/// True if line ends, tabs and the program's own colours (`ESC [ numbers m`) are the only
/// terminal control.
fn only_colours(text: &str) -> bool {
    text.split('\u{1b}').enumerate().all(|(i, part)| {
        let colour = |p: &str| {
            p.strip_prefix('[').is_some_and(|p| {
                p.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').starts_with('m')
            })
        };
        (i == 0 || colour(part)) && part.chars().all(is_text)
    })
}
