//! The targets of links in documents and help exist.

use super::{all_sources, of_a_name};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn documents(directory: &Path, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            documents(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// The documents that people read.
pub fn all() -> Vec<PathBuf> {
    let mut all = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "SECURITY.md"].map(|name| root().join(name)).to_vec();
    documents(&root().join("docs"), &mut all);
    all
}

#[test]
fn links_of_documents_lead_somewhere() {
    let (mut links, mut dead) = (0, Vec::new());
    for path in all() {
        let text = fs::read_to_string(&path).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or_default();
            // A path, and nothing that only looks like a link.
            if file.is_empty() || file.contains("://") || !file.contains('.') || !file.chars().all(|c| of_a_name(c) || "./-".contains(c)) {
                continue;
            }
            links += 1;
            if !path.parent().unwrap().join(file).exists() {
                dead.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(links > 30 && dead.is_empty(), "of {links} links these lead nowhere:\n{}", dead.join("\n"));
}

#[test]
fn documents_that_the_code_names_are_there() {
    let mut missing = Vec::new();
    for (name, text) in all_sources() {
        for at in
            text.match_indices("docs/").map(|(at, _)| at).filter(|at| !text[..*at].ends_with(|c| of_a_name(c) || c == '/' || c == '.'))
        {
            let path = text[at..].split(|c: char| !of_a_name(c) && !"./-".contains(c)).next().unwrap_or_default().trim_end_matches('.');
            if path.ends_with(".md") && !root().join(path).exists() {
                missing.push(format!("{name}: {path}"));
            }
        }
    }
    assert!(missing.is_empty(), "these are not there:\n{}", missing.join("\n"));
}

#[test]
fn the_contents_of_the_method_are_all_of_it() {
    let contents = fs::read_to_string(root().join("docs/method/README.md")).unwrap();
    let mut files = Vec::new();
    documents(&root().join("docs/method"), &mut files);
    let names = files.iter().map(|file| file.file_name().unwrap().to_str().unwrap()).filter(|name| *name != "README.md");
    let missing: Vec<&str> = names.filter(|name| !contents.contains(&format!("({name})"))).collect();
    assert!(files.len() > 10 && missing.is_empty(), "not in the table of contents: {missing:?}");
}
