//! Commands and scripts that name `fstrim` or `trimtab trim`. They are not interpreted.

use crate::host::root::Root;
use std::io::Read as _;
use std::path::Path;

/// Maximum script size.
const SCRIPT_BYTES_MAX: u64 = 64 << 10;

/// True if a line of the text, except comments, names a command that trims.
pub fn names_trim(text: &str) -> bool {
    let names = |line: &str| {
        line.contains("fstrim")
            || line.contains("trimtab") && line.split_whitespace().any(|word| word == "trim")
    };
    text.lines().map(str::trim).any(|line| !line.starts_with('#') && names(line))
}

/// True for a script that names a trim, unless other users can write it. Only scripts
/// that name a trim are copied to a recorded tree.
pub fn script_names_trim(root: &Root, path: &Path) -> bool {
    if root.is_this_machine() && !is_roots(path) {
        return false;
    }
    let mut bytes = Vec::new();
    let read = root
        .unrecorded(|| root.open(path))
        .and_then(|file| file.take(SCRIPT_BYTES_MAX).read_to_end(&mut bytes));
    let names = read.is_ok() && std::str::from_utf8(&bytes).is_ok_and(names_trim);
    if names {
        root.keep(path, &bytes);
    }
    names
}

/// True if only root can have created the file or any link in its path. Files that other
/// users can write are neither read as root nor recorded.
fn is_roots(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let only_root = |part: &Path| {
        std::fs::symlink_metadata(part).is_ok_and(|found| {
            found.uid() == 0 && (found.is_symlink() || found.mode() & 0o022 == 0)
        })
    };
    let stands = |path: &Path| path.ancestors().all(only_root);
    stands(path) && std::fs::canonicalize(path).is_ok_and(|leads_to| stands(&leads_to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_other_commands_name_no_trim() {
        for text in ["nice fstrim /", "#!/bin/sh\n/sbin/fstrim -A", "trimtab --json trim --all"] {
            assert!(names_trim(text), "{text}");
        }
        for text in ["# fstrim /\nexit 0", "trimtab wear --all", "echo no"] {
            assert!(!names_trim(text), "{text}");
        }
    }

    #[test]
    fn is_roots_refuses_script_in_world_writable_directory() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("trim");
        std::fs::write(&script, "fstrim /\n").unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let link = directory.path().join("link");
        symlink("/bin/sh", &link).unwrap();
        // Temporary directories are writable by all users.
        assert_eq!([&script, &link].map(|path| is_roots(path)), [false; 2]);
        assert!(is_roots(Path::new("/bin/sh")), "a link of root's to a file of root's");
    }
}
