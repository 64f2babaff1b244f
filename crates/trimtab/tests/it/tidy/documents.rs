//! Documents: links lead somewhere, contents are complete, commands are valid.

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
    let mut all = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "SECURITY.md"]
        .map(|name| root().join(name))
        .to_vec();
    documents(&root().join("docs"), &mut all);
    all
}

#[test]
fn document_links_resolve() {
    let (mut links, mut dead) = (0, Vec::new());
    for path in all() {
        let text = fs::read_to_string(&path).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or_default();
            // A path, and nothing that only looks like a link.
            if file.is_empty()
                || file.contains("://")
                || !file.contains('.')
                || !file.chars().all(|c| of_a_name(c) || "./-".contains(c))
            {
                continue;
            }
            links += 1;
            if !path.parent().unwrap().join(file).exists() {
                dead.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(
        links > 30 && dead.is_empty(),
        "of {links} links these lead nowhere:\n{}",
        dead.join("\n")
    );
}

#[test]
fn documents_named_in_code_exist() {
    let mut missing = Vec::new();
    for (name, text) in all_sources() {
        for at in text
            .match_indices("docs/")
            .map(|(at, _)| at)
            .filter(|at| !text[..*at].ends_with(|c| of_a_name(c) || c == '/' || c == '.'))
        {
            let path = text[at..]
                .split(|c: char| !of_a_name(c) && !"./-".contains(c))
                .next()
                .unwrap_or_default()
                .trim_end_matches('.');
            if path.ends_with(".md") && !root().join(path).exists() {
                missing.push(format!("{name}: {path}"));
            }
        }
    }
    assert!(missing.is_empty(), "these are not there:\n{}", missing.join("\n"));
}

#[test]
fn contents_pages_list_every_page() {
    let docs = root().join("docs");
    for (contents, below, pages_min) in [
        ("SUMMARY.md", "", 60),
        ("method/README.md", "method/", 25),
        ("howto/README.md", "howto/", 6),
    ] {
        let mut files = Vec::new();
        documents(&docs.join(below), &mut files);
        let names =
            files.iter().map(|file| file.strip_prefix(docs.join(below)).unwrap().to_str().unwrap());
        let names: Vec<&str> = names.filter(|name| !contents.ends_with(name)).collect();
        let text = fs::read_to_string(docs.join(contents)).unwrap();
        let missing: Vec<&&str> =
            names.iter().filter(|name| !text.contains(&format!("({name})"))).collect();
        assert!(
            names.len() >= pages_min && missing.is_empty(),
            "docs/{contents} does not list {missing:?}"
        );
    }
}

/// The `trimtab` commands of a page: whole ones in code blocks (true), and code in
/// sentences and tables (false), which may lack arguments.
fn commands(page: &str) -> Vec<(String, bool)> {
    let (mut found, mut fenced) = (Vec::new(), false);
    for line in page.lines() {
        let is_block = fenced || line.starts_with("    ");
        let parts: Vec<&str> = match is_block {
            _ if line.starts_with("```") => {
                fenced = !fenced;
                continue;
            }
            true => line
                .split(" #")
                .next()
                .unwrap_or_default()
                .split(['|', '&', ';', '(', ')'])
                .collect(),
            false => line.split('`').skip(1).step_by(2).collect(),
        };
        let ours = parts
            .iter()
            .map(|part| part.trim())
            .map(|part| part.strip_prefix("sudo ").unwrap_or(part));
        let ours = ours
            .filter(|part| part.starts_with("trimtab ") && !part.starts_with("trimtab COMMAND"));
        found.extend(
            ours.map(|part| (part.split(" > ").next().unwrap_or_default().to_owned(), is_block)),
        );
    }
    found
}

#[test]
fn commands_of_documents_are_valid() {
    use clap::error::ErrorKind::{DisplayHelp, DisplayVersion};
    let (mut count, mut wrong) = (0, Vec::new());
    // The page of wrong invocations has its own test.
    for path in all().iter().filter(|path| !path.ends_with("docs/errors.md")) {
        for (line, whole) in commands(&fs::read_to_string(path).unwrap()) {
            let words = line.replace("$SLURM_ARRAY_TASK_ID", "1");
            let words = words.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
            // Help is shown only if all arguments before it are valid; missing ones are
            // not noticed.
            let parsed = trimtab::cmd::cli::command()
                .try_get_matches_from(words.chain((!whole).then_some("--help")));
            count += 1;
            let refused =
                parsed.err().filter(|error| ![DisplayHelp, DisplayVersion].contains(&error.kind()));
            wrong.extend(
                refused.map(|error| format!("{}: {line}: {:?}", path.display(), error.kind())),
            );
        }
    }
    assert!(
        count > 100 && wrong.is_empty(),
        "of {count} commands these are invalid:\n{}",
        wrong.join("\n")
    );
}
