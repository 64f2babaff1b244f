//! Dependencies between files: within a crate they are acyclic.
//!
//! A file depends on each file of its crate that one of its paths names: `crate::`,
//! `self::`, `super::`, or a module of its own. If a module uses its parent, both count
//! as one, because it may access the parent's private items.

use super::{CRATES, of_a_name, program_text, sources_of};
use std::collections::{BTreeMap, BTreeSet};

/// The module of a file: `[]` for `lib.rs`, `["a", "b"]` for `a/b.rs`.
type Module = Vec<String>;
type Edges = BTreeMap<Module, BTreeSet<Module>>;

/// Every path in `text` that begins with one of `starts`, with groups in braces expanded.
fn paths(text: &str, starts: &BTreeSet<String>) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(begin) = text[at..].find(|c: char| of_a_name(c)).map(|offset| at + offset) {
        let name: String = text[begin..].chars().take_while(|c| of_a_name(*c)).collect();
        at = begin + name.len();
        if text[at..].starts_with("::") && !text[..begin].ends_with("::") && starts.contains(&name)
        {
            path(&text[at..], vec![name], &mut found);
        }
    }
    found
}

/// Adds the paths that begin with `first` and continue in `rest`; returns the text after
/// them.
fn path<'a>(rest: &'a str, first: Vec<String>, found: &mut Vec<Vec<String>>) -> &'a str {
    let Some(next) = rest.strip_prefix("::") else {
        found.push(first);
        return rest;
    };
    if let Some(mut group) = next.strip_prefix('{') {
        loop {
            group = group.trim_start();
            if let Some(after) = group.strip_prefix('}') {
                return after;
            }
            let name: String = group.chars().take_while(|c| of_a_name(*c)).collect();
            if name.is_empty() {
                return group;
            }
            group = path(&group[name.len()..], [first.clone(), vec![name]].concat(), found);
            group = group.find([',', '}']).map_or("", |end| &group[end..]);
            group = group.strip_prefix(',').unwrap_or(group);
        }
    }
    let name: String = next.chars().take_while(|c| of_a_name(*c)).collect();
    if name.is_empty() {
        found.push(first);
        return next;
    }
    path(&next[name.len()..], [first, vec![name]].concat(), found)
}

/// The longest prefix of `path` that is a file, seen from `from`.
fn resolve(from: &Module, path: &[String], modules: &BTreeSet<Module>) -> Module {
    let (mut module, rest) = match path[0].as_str() {
        "crate" => (Module::new(), &path[1..]),
        "self" => (from.clone(), &path[1..]),
        "super" => {
            let ups = path.iter().take_while(|name| *name == "super").count();
            (from[..from.len().saturating_sub(ups)].to_vec(), &path[ups..])
        }
        _ => (from.clone(), path),
    };
    for name in rest {
        module.push(name.clone());
        if !modules.contains(&module) {
            module.pop();
            break;
        }
    }
    module
}

/// The files that each file of a crate depends on.
fn edges(files: &BTreeMap<Module, String>) -> Edges {
    let modules: BTreeSet<Module> = files.keys().cloned().collect();
    let of = |(module, text): (&Module, &String)| {
        let children = modules
            .iter()
            .filter(|one| one.len() == module.len() + 1 && one.starts_with(module))
            .map(|one| one[module.len()].clone());
        let starts = children.chain(["crate", "self", "super"].map(str::to_owned)).collect();
        let used = paths(text, &starts).into_iter().map(|path| resolve(module, &path, &modules));
        // A module and its parent may use each other.
        (module.clone(), used.filter(|used| !module.starts_with(used)).collect())
    };
    files.iter().map(of).collect()
}

fn files_of(folder: &str) -> BTreeMap<Module, String> {
    let src = format!("../{folder}/src");
    let module = |path: &str| -> Module {
        let inside = path
            .rsplit_once(&format!("{src}/"))
            .map_or(path, |(_, inside)| inside)
            .trim_end_matches(".rs");
        if inside == "lib" { Module::new() } else { inside.split('/').map(str::to_owned).collect() }
    };
    let text = |text: &str| program_text(text).map(|(_, line)| line).collect::<Vec<_>>().join("\n");
    let sources = sources_of(&src).into_iter().filter(|(path, _)| !path.ends_with("/main.rs"));
    sources.map(|(path, source)| (module(&path), text(&source))).collect()
}

/// The largest sets of files that all reach each other.
fn cycles(edges: &Edges) -> BTreeSet<BTreeSet<Module>> {
    let reached = |from: &Module| {
        let (mut reached, mut left) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(module) = left.pop() {
            left.extend(
                edges[&module].iter().filter(|next| reached.insert((*next).clone())).cloned(),
            );
        }
        reached
    };
    let reached: BTreeMap<&Module, BTreeSet<Module>> =
        edges.keys().map(|module| (module, reached(module))).collect();
    let of = |module: &Module| {
        reached[module].iter().filter(|other| reached[*other].contains(module)).cloned().collect()
    };
    edges.keys().filter(|module| reached[*module].contains(*module)).map(of).collect()
}

#[test]
fn modules_of_each_crate_are_acyclic() {
    let mut found = Vec::new();
    for (folder, name) in CRATES {
        let edges = edges(&files_of(folder));
        assert!(
            edges.len() >= 10 && edges.values().any(|used| !used.is_empty()),
            "{name} has files that use each other's items"
        );
        for cycle in cycles(&edges) {
            let used = |module: &Module| {
                edges[module].intersection(&cycle).map(|one| one.join("/")).collect::<Vec<_>>()
            };
            let shown = cycle
                .iter()
                .map(|module| format!("  {} uses {:?}\n", module.join("/"), used(module)));
            found.push(format!("{name}:\n{}", shown.collect::<String>()));
        }
    }
    assert!(found.is_empty(), "files use each other:\n{}", found.concat());
}

#[test]
fn cycle_is_found_through_every_kind_of_path() {
    let files = |texts: &[(&str, &str)]| -> BTreeMap<Module, String> {
        let module = |path: &str| {
            if path.is_empty() {
                Module::new()
            } else {
                path.split('/').map(str::to_owned).collect()
            }
        };
        texts.iter().map(|(path, text)| (module(path), (*text).to_owned())).collect()
    };
    let found = |texts: &[(&str, &str)]| {
        cycles(&edges(&files(texts))).iter().map(BTreeSet::len).collect::<Vec<_>>()
    };
    assert_eq!(
        found(&[("", ""), ("a", "use crate::b::X;"), ("b", "use crate::c;"), ("c", "")]),
        [0; 0]
    );
    assert_eq!(
        found(&[
            ("", ""),
            ("a", "use crate::{c, b::X};"),
            ("b", "let x = super::a::f();"),
            ("c", "")
        ]),
        [2]
    );
    // A module may use its parent; a sibling of the parent must not form a cycle with
    // them.
    assert_eq!(
        found(&[("", ""), ("a", "pub use child::X;"), ("a/child", "use super::Y;")]),
        [0; 0]
    );
    assert_eq!(
        found(&[
            ("", ""),
            ("a", "child::f()"),
            ("a/child", "use super::super::b;"),
            ("b", "use crate::a::{Y, child::{self, f}};")
        ]),
        [3]
    );
    assert_eq!(
        found(&[
            ("", ""),
            ("a", "notcrate::b::x; crate::other(); y::crate::b::z"),
            ("b", "use crate::a::X;")
        ]),
        [0; 0]
    );
}
