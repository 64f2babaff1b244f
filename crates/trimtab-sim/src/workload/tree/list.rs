//! The tree as a list of directories and files.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;
use trimtab_drive::data::DataClass;
use trimtab_drive::units::Bytes;

/// The directory that everything is in.
pub(super) const ROOT: &str = "tree";

/// A file lies in at most this many directories inside each other.
pub const DEPTH_MAX: usize = 256;

/// One directory or file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    path: u32,
    path_len: u32,
    /// What it is.
    pub kind: EntryKind,
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A directory.
    Dir,
    /// A file.
    File {
        /// Its size in bytes.
        size: u64,
        /// Where its content begins, if contents are kept.
        offset: usize,
    },
}

/// A tree: parents before what is in them, and the order of removal.
#[derive(Clone, Debug)]
pub struct TreeList {
    paths: String,
    entries: Vec<Entry>,
    removal: Vec<u32>,
    content: Option<Vec<u8>>,
    class: DataClass,
    files: u64,
    size: u64,
}

impl TreeList {
    /// Directories and files, parents first.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The path of an entry of this tree.
    #[must_use]
    pub fn path(&self, entry: Entry) -> &str {
        &self.paths[entry.path as usize..(entry.path + entry.path_len) as usize]
    }

    /// Number of files.
    #[must_use]
    pub const fn files(&self) -> u64 {
        self.files
    }

    /// Number of directories, the one that everything is in included.
    #[must_use]
    pub fn dirs(&self) -> u64 {
        self.entries.len() as u64 - self.files
    }

    /// Bytes of all files.
    #[must_use]
    pub const fn size(&self) -> Bytes {
        Bytes(self.size)
    }

    /// What the contents are like.
    #[must_use]
    pub const fn class(&self) -> DataClass {
        self.class
    }

    /// Contents of all files, one after the other, if the tree came with some.
    pub(super) fn content(&self) -> Option<&[u8]> {
        self.content.as_deref()
    }

    /// Indices of entries in the order of removal: depth first, what is in a directory before the directory.
    pub(super) fn removal_order(&self) -> &[u32] {
        &self.removal
    }
}

/// Why something cannot be part of a tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// The path leads out of the tree, or is none.
    #[error("the path '{0}' leads out of the tree")]
    Outside(String),
    /// The path is a file and a directory.
    #[error("'{0}' is a file and a directory at once")]
    FileAndDirectory(String),
    /// Too many names for this workload.
    #[error("the names in the tree take more than 2 GiB")]
    TooManyNames,
    /// More directories inside each other than any tree needs.
    #[error("'{0}' lies deeper than {DEPTH_MAX} directories")]
    TooDeep(String),
    /// The totals cannot be met.
    #[error("{size} bytes are too few for {files} files: a file has at least one")]
    TooSmall {
        /// Files asked for.
        files: u64,
        /// Bytes asked for.
        size: u64,
    },
    /// Too many files for this workload.
    #[error("{0} files are too many; the most is 20 million")]
    TooManyFiles(u64),
    /// No file at all.
    #[error("there is no file in it")]
    Empty,
}

/// Gathers a tree in any order, as archives have it. Missing parents are added; a file that comes twice counts as it came last.
#[derive(Clone, Debug, Default)]
pub struct TreeBuilder {
    items: BTreeMap<String, Item>,
    order: Vec<String>,
    content: Vec<u8>,
    keeps_content: bool,
    names: u64,
}

#[derive(Clone, Copy, Debug)]
enum Item {
    Dir,
    File { size: u64, offset: usize },
}

impl TreeBuilder {
    /// Adds a directory.
    pub fn dir(&mut self, path: &str) -> Result<(), TreeError> {
        let path = clean(path)?;
        self.parents(&path)?;
        self.insert_dir(&path)
    }

    /// Adds a file with this content.
    pub fn file(&mut self, path: &str, content: &[u8]) -> Result<(), TreeError> {
        self.keeps_content = true;
        let offset = self.content.len();
        self.content.extend_from_slice(content);
        self.insert_file(path, Item::File { size: content.len() as u64, offset })
    }

    /// Adds a file of this size, whose content the target makes up.
    pub(super) fn sized_file(&mut self, path: &str, size: u64) -> Result<(), TreeError> {
        self.insert_file(path, Item::File { size, offset: 0 })
    }

    /// The contents so far, one after the other.
    #[must_use]
    pub fn content(&self) -> &[u8] {
        &self.content
    }

    /// About as much memory as it takes, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        // Each name stands in three places, with what belongs to it there.
        const OF_A_NAME: u64 = 256;
        self.content.len() as u64 + self.names * 3 + self.order.len() as u64 * OF_A_NAME
    }

    /// True if there is no file yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.items.values().any(|item| matches!(item, Item::File { .. }))
    }

    fn insert_file(&mut self, path: &str, item: Item) -> Result<(), TreeError> {
        let path = clean(path)?;
        if path.is_empty() {
            return Err(TreeError::Outside(path));
        }
        self.parents(&path)?;
        match self.items.get(&path) {
            Some(Item::Dir) => return Err(TreeError::FileAndDirectory(path)),
            Some(Item::File { .. }) => {}
            None => self.push(path.clone())?,
        }
        self.items.insert(path, item);
        Ok(())
    }

    fn parents(&mut self, path: &str) -> Result<(), TreeError> {
        for (at, _) in path.match_indices('/') {
            self.insert_dir(&path[..at])?;
        }
        Ok(())
    }

    fn insert_dir(&mut self, path: &str) -> Result<(), TreeError> {
        if path.is_empty() {
            return Ok(());
        }
        match self.items.get(path) {
            Some(Item::Dir) => Ok(()),
            Some(Item::File { .. }) => Err(TreeError::FileAndDirectory(path.to_string())),
            None => {
                self.items.insert(path.to_string(), Item::Dir);
                self.push(path.to_string())
            }
        }
    }

    fn push(&mut self, path: String) -> Result<(), TreeError> {
        self.names += (ROOT.len() + 1 + path.len()) as u64;
        if self.names > u64::from(u32::MAX / 2) {
            return Err(TreeError::TooManyNames);
        }
        self.order.push(path);
        Ok(())
    }

    /// The tree, whose contents are of `class`.
    #[must_use]
    pub fn finish(self, class: DataClass) -> TreeList {
        let mut list = TreeList {
            paths: ROOT.to_string(),
            entries: vec![Entry { path: 0, path_len: ROOT.len() as u32, kind: EntryKind::Dir }],
            removal: Vec::new(),
            content: self.keeps_content.then_some(self.content),
            class,
            files: 0,
            size: 0,
        };
        let mut index = BTreeMap::new();
        let mut children: Vec<Vec<u32>> = vec![Vec::new()];
        for path in &self.order {
            let at = list.entries.len();
            let start = list.paths.len();
            list.paths.push_str(ROOT);
            list.paths.push('/');
            list.paths.push_str(path);
            let kind = match self.items[path] {
                Item::Dir => {
                    index.insert(path.as_str(), at);
                    EntryKind::Dir
                }
                Item::File { size, offset } => {
                    list.files += 1;
                    list.size += size;
                    EntryKind::File { size, offset }
                }
            };
            list.entries.push(Entry { path: start as u32, path_len: (list.paths.len() - start) as u32, kind });
            let parent = path.rsplit_once('/').map_or(0, |(parent, _)| index[parent]);
            children[parent].push(at as u32);
            children.push(Vec::new());
        }
        list.removal = removal_order(&list.entries, &children);
        list
    }
}

/// Depth first from entry 0: the files of a directory in their order, its directories in theirs, then itself.
fn removal_order(entries: &[Entry], children: &[Vec<u32>]) -> Vec<u32> {
    let is_dir = |i: &&u32| entries[**i as usize].kind == EntryKind::Dir;
    let mut order = Vec::with_capacity(entries.len());
    // Directories still to be gone into, and those whose contents are gone when they come up again.
    let mut stack = vec![(0_u32, false)];
    while let Some((dir, emptied)) = stack.pop() {
        if emptied {
            order.push(dir);
            continue;
        }
        let inside = &children[dir as usize];
        order.extend(inside.iter().filter(|i| !is_dir(i)));
        stack.push((dir, true));
        stack.extend(inside.iter().rev().filter(is_dir).map(|i| (*i, false)));
    }
    order
}

/// `path` without `.`, empty and trailing parts; an error if it is absolute or goes up.
fn clean(path: &str) -> Result<String, TreeError> {
    let outside = || TreeError::Outside(path.to_string());
    if path.starts_with('/') || path.contains('\0') {
        return Err(outside());
    }
    let mut clean = String::new();
    let mut depth = 0;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => return Err(outside()),
            part => {
                depth += 1;
                if !clean.is_empty() {
                    clean.push('/');
                }
                clean.push_str(part);
            }
        }
    }
    if depth > DEPTH_MAX {
        return Err(TreeError::TooDeep(clean));
    }
    Ok(clean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ops::Add as _;

    #[test]
    fn paths_that_lead_out_are_refused() {
        let mut builder = TreeBuilder::default();
        for path in ["/etc/passwd", "../x", "a/../../x", "a/..", "\0", "x\0y"] {
            assert!(matches!(builder.file(path, b""), Err(TreeError::Outside(_))), "{path}");
        }
        for path in ["", ".", "./"] {
            assert!(builder.file(path, b"").is_err(), "{path:?} is no file");
            assert!(builder.dir(path).is_ok(), "{path:?} is the root, as archives of '.' have it");
        }
        assert!(builder.is_empty());
    }

    #[test]
    fn depth_is_limited() {
        let mut builder = TreeBuilder::default();
        assert!(builder.file(&"d/".repeat(255).add("f"), b"").is_ok());
        assert!(matches!(builder.file(&"d/".repeat(256).add("f"), b""), Err(TreeError::TooDeep(_))));
    }

    #[test]
    fn missing_parents_are_made_and_the_last_of_two_files_counts() {
        let mut builder = TreeBuilder::default();
        builder.file("./a/b//c", b"old").unwrap();
        builder.file("a/b/c", b"newer").unwrap();
        builder.dir("a/").unwrap();
        assert_eq!(builder.file("a/b", b""), Err(TreeError::FileAndDirectory("a/b".into())));
        assert_eq!(builder.dir("a/b/c"), Err(TreeError::FileAndDirectory("a/b/c".into())));
        assert_eq!(builder.file("a/b/c/d", b""), Err(TreeError::FileAndDirectory("a/b/c".into())));
    }

    #[test]
    fn totals_and_paths() {
        let mut builder = TreeBuilder::default();
        builder.file("a/b/c", b"old").unwrap();
        builder.file("a/b/c", b"newer").unwrap();
        builder.file("d", b"12").unwrap();
        let list = builder.finish(DataClass::Text);
        assert_eq!((list.files(), list.dirs(), list.size()), (2, 3, Bytes(7)));
        let paths: Vec<&str> = list.entries().iter().map(|e| list.path(*e)).collect();
        assert_eq!(paths, ["tree", "tree/a", "tree/a/b", "tree/a/b/c", "tree/d"]);
        let removal: Vec<&str> = list.removal_order().iter().map(|i| list.path(list.entries()[*i as usize])).collect();
        assert_eq!(removal, ["tree/d", "tree/a/b/c", "tree/a/b", "tree/a", "tree"]);
    }
}
