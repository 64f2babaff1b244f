//! Which room of a crate uses which: `use crate::ROOM` and every other `crate::ROOM::` in what is compiled into the program.

use super::{CRATES, of_a_name, program_text, sources_of};
use std::collections::{BTreeMap, BTreeSet};

/// Rooms that use each other, still. Nothing is ever added.
const CIRCLES: &[(&str, &[&str])] = &[];

type Edges = BTreeMap<String, BTreeSet<String>>;

/// The names that follow `crate::` in a text, or `crate::{`.
fn named(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in text.match_indices("crate::").filter(|(at, _)| !text[..*at].ends_with(of_a_name)) {
        let rest = &text[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            None => drop(names.insert(rest.split(|c| !of_a_name(c)).next().unwrap_or_default().to_owned())),
            Some(group) => names.extend(firsts(group)),
        }
    }
    names
}

/// The first name of each path in a group, until its brace closes.
fn firsts(group: &str) -> BTreeSet<String> {
    let (mut names, mut depth, mut path) = (BTreeSet::new(), 0, String::new());
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => drop(names.insert(std::mem::take(&mut path))),
            _ if depth == 0 => path.push(c),
            _ => {}
        }
    }
    names.insert(path);
    names.iter().filter_map(|path| path.trim().split("::").next()).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Which rooms each room of a crate uses.
fn edges(src: &str) -> Edges {
    let mut edges = Edges::new();
    for (path, text) in sources_of(src) {
        let inside = path.rsplit_once(&format!("{src}/")).map_or(path.as_str(), |(_, inside)| inside);
        let room = inside.split('/').next().unwrap_or_default().trim_end_matches(".rs").to_owned();
        if room == "main" || room == "lib" {
            continue;
        }
        let text: Vec<&str> = program_text(&text).map(|(_, line)| line).collect();
        let used = named(&text.join("\n"));
        edges.entry(room.clone()).or_default().extend(used.into_iter().filter(|used| *used != room));
    }
    let rooms: BTreeSet<String> = edges.keys().cloned().collect();
    edges.values_mut().for_each(|used| used.retain(|name| rooms.contains(name)));
    edges
}

/// The rooms that a room reaches, over however many others.
fn reached(edges: &Edges, from: &str) -> BTreeSet<String> {
    let (mut reached, mut left) = (BTreeSet::new(), vec![from]);
    while let Some(room) = left.pop() {
        left.extend(edges[room].iter().filter(|next| reached.insert((*next).clone())).map(String::as_str));
    }
    reached
}

/// The largest sets of rooms that all reach each other.
fn circles(edges: &Edges) -> BTreeSet<BTreeSet<String>> {
    let reached: BTreeMap<&String, BTreeSet<String>> = edges.keys().map(|room| (room, reached(edges, room))).collect();
    let of = |room: &String| reached[room].iter().filter(|other| reached[other].contains(room)).cloned().collect::<BTreeSet<_>>();
    edges.keys().filter(|room| reached[room].contains(*room)).map(of).collect()
}

#[test]
fn no_rooms_use_each_other() {
    for (folder, name) in CRATES {
        let edges = edges(&format!("../{folder}/src"));
        assert!(edges.len() >= 4, "{name} has modules");
        let known: BTreeSet<BTreeSet<String>> =
            CIRCLES.iter().filter(|(of, _)| *of == name).map(|(_, rooms)| rooms.iter().map(|room| (*room).to_owned()).collect()).collect();
        for circle in circles(&edges) {
            let inside = |room: &String| edges[room].intersection(&circle).cloned().collect::<Vec<_>>().join(", ");
            let shown: Vec<String> = circle.iter().map(|room| format!("  {room} uses {}", inside(room))).collect();
            println!("{name}:\n{}", shown.join("\n"));
            assert!(known.iter().any(|known| circle.is_subset(known)), "rooms of {name} use each other:\n{}", shown.join("\n"));
        }
        for known in &known {
            assert!(circles(&edges).contains(known), "this circle of {name} is smaller by now, or gone: {known:?}");
        }
    }
}

#[test]
fn circles_are_found_where_there_are_some() {
    let edges = |pairs: &[(&str, &str)]| {
        let mut edges = Edges::new();
        for (from, to) in pairs {
            edges.entry((*to).to_owned()).or_default();
            edges.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        edges
    };
    assert!(circles(&edges(&[("a", "b"), ("b", "c"), ("a", "c")])).is_empty());
    let found = circles(&edges(&[("a", "b"), ("b", "c"), ("c", "b"), ("d", "e"), ("e", "f"), ("f", "d")]));
    let shown: Vec<String> = found.iter().map(|circle| circle.iter().cloned().collect::<String>()).collect();
    assert_eq!(shown, ["bc", "def"]);
    let names = named("use crate::a::x;\nuse crate::{b, c::{d, e}, f::g};\nlet h = crate::i::j(); $crate::k; my_crate::l");
    assert_eq!(names.into_iter().collect::<String>(), "abcfik");
}
