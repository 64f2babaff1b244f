//! Names of the entries that runs create in a workspace. An entry with any other name
//! belongs to someone else.
//!
//! ```text
//!     marker                            identifies the owner of the workspace
//!     run  run-3  test  rounds  verify  one directory for each run
//!     stream2                           one directory for each stream
//!     beside-3-tree  beside-3-others    directories of workloads that run next to a run
//!     run-3/tree/fs/abc12.c             created by a workload, named by its own rules
//!     archive                           content of a user's archive: any names
//! ```

use crate::sys::beneath::remove::is_renamed_open_file;
use std::ffi::OsStr;

/// The marker of a workspace.
pub const MARKER: &str = "marker";
/// Directory for the extracted content of an archive.
pub const ARCHIVE: &str = "archive";

/// Fixed names: the top-level directories of a synthetic tree, the groups of `bench age`,
/// and single files.
const FIXED: &str = "
    tree Documentation arch block crypto drivers firmware fs include init ipc kernel lib mm net samples scripts
    security sound tools usr virt
    os games music videos
    link light-work test-file data";

/// True if a run can have created an entry of this name at this depth in a workspace.
pub fn is_ours(name: &OsStr, depth: u32) -> bool {
    is_renamed_open_file(name.as_encoded_bytes())
        || name
            .to_str()
            .is_some_and(|name| if depth == 0 { is_of_a_run(name) } else { is_of_a_workload(name) })
}

/// True if the name is that of a run's directory.
fn is_of_a_run(name: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let beside = |text: &str| {
        ["-tree", "-others"].iter().any(|what| text.strip_suffix(what).is_some_and(number))
    };
    [ARCHIVE, "run", "test", "rounds", "verify"].contains(&name)
        || name.strip_prefix("run-").is_some_and(number)
        || name.strip_prefix("stream").is_some_and(number)
        || name.strip_prefix("beside-").is_some_and(beside)
}

/// True if a workload uses this name for a file or directory: a fixed name, or a number.
/// A letter or word may precede the number, and a source-file extension may follow it.
fn is_of_a_workload(name: &str) -> bool {
    if FIXED.split_ascii_whitespace().any(|fixed| fixed == name) {
        return true;
    }
    let stem = [".c", ".h", ".S", ".txt"]
        .iter()
        .find_map(|ending| name.strip_suffix(ending))
        .unwrap_or(name);
    let word = stem.trim_end_matches(|c: char| c.is_ascii_digit());
    let numbered = word.len() < stem.len();
    let is_word = word.len() <= 11 && word.bytes().all(|byte| byte.is_ascii_lowercase());
    numbered && (is_word || word == "piece-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_drive::data::DataClass;
    use trimtab_drive::units::Bytes;
    use trimtab_sim::workload::age::GROUPS;
    use trimtab_sim::workload::tree::TreeList;

    fn all_known<'a>(paths: impl IntoIterator<Item = &'a str>) -> usize {
        let mut count = 0;
        for name in paths.into_iter().flat_map(|path| path.split('/')) {
            assert!(is_ours(name.as_ref(), 1), "{name}");
            count += 1;
        }
        count
    }

    #[test]
    fn is_ours_accepts_all_names_of_workloads() {
        for seed in 1..4 {
            let tree =
                TreeList::synthetic(36_706, Bytes(493_000_000), DataClass::Random, seed).unwrap();
            assert!(all_known(tree.entries().iter().map(|entry| tree.path(*entry))) > 36_706);
        }
        all_known(GROUPS.iter().map(|group| group.name));
        all_known([
            "s12/4711",
            "l1/s2/3",
            "d12/f1234",
            "piece-12",
            "light-work",
            "test-file",
            "data",
            "s000/d0001/f02",
            "s000/link",
        ]);
    }

    #[test]
    fn is_ours_refuses_common_file_names() {
        for name in [
            "notes.md",
            "thesis.tex",
            "Photo1.jpg",
            "backup",
            ".profile",
            "todo.txt",
            "a b1",
            "12.jpg",
            "file",
            "x.c",
        ] {
            assert!(!is_ours(name.as_ref(), 1), "{name}");
        }
        for (name, depth) in [
            (".fuse_hidden0000000a00000001", 0),
            (".fuse_hidden0000000a00000001", 2),
            (".nfs000000000000000700000001", 1),
        ] {
            assert!(is_ours(name.as_ref(), depth), "{name}");
        }
        for name in [".fuse_hidden", ".fuse_hidden-photos", ".nfs-notes"] {
            assert!(!is_ours(name.as_ref(), 1), "{name}");
        }
        for name in ["marker", "run-", "run-1x", "streams", "beside-1", "1", "photos"] {
            assert!(!is_ours(name.as_ref(), 0), "{name}");
        }
        for name in [
            "run",
            "run-12",
            "beside-3-tree",
            "beside-3-others",
            "stream7",
            "test",
            "rounds",
            "verify",
            "archive",
        ] {
            assert!(is_ours(name.as_ref(), 0), "{name}");
        }
    }
}
