//! Cron: root's scripts and tables with a command that trims. Their commands are not
//! interpreted.

use super::shell::{names_trim, script_names_trim};
use crate::host::root::{Root, TABLE_BYTES_MAX};
use std::path::{Path, PathBuf};

/// Directories of scripts that run-parts runs, on most distributions and on Alpine.
const SCRIPTS: &str = "
    /etc/cron.hourly /etc/cron.daily /etc/cron.weekly /etc/cron.monthly
    /etc/periodic/15min /etc/periodic/hourly /etc/periodic/daily /etc/periodic/weekly /etc/periodic/monthly";
/// Tables, or directories of tables, with the user in a field of its own.
const SYSTEM_TABLES: [&str; 2] = ["/etc/crontab", "/etc/cron.d"];
/// Tables of root.
const ROOT_TABLES: [&str; 4] = [
    "/var/spool/cron/crontabs/root",
    "/var/spool/cron/tabs/root",
    "/var/spool/cron/root",
    "/etc/crontabs/root",
];
/// Programs that run them.
const PROGRAMS: &str = "
    /usr/sbin/cron /usr/sbin/crond /usr/bin/crond /usr/sbin/fcron /usr/sbin/bcron-start /usr/sbin/anacron /usr/bin/anacron
    /usr/lib/systemd/system-generators/systemd-crontab-generator /run/current-system/sw/bin/cron";

/// The scripts and tables of this machine with a command that trims.
pub fn jobs(root: &Root) -> Vec<PathBuf> {
    // A recorded tree may lack the programs.
    if root.is_this_machine()
        && !PROGRAMS.split_ascii_whitespace().any(|program| root.exists(program))
    {
        return Vec::new();
    }
    let scripts = SCRIPTS.split_ascii_whitespace().flat_map(|directory| files(root, directory));
    // A recorded tree may not show whether a script is executable.
    let scripts = scripts
        .filter(|path| root.is_executable(path) != Some(false) && script_names_trim(root, path));
    let system = SYSTEM_TABLES.into_iter().flat_map(|path| files(root, path));
    let system = system.filter(|path| table_names_trim(root, path, true));
    let own = ROOT_TABLES.into_iter().map(PathBuf::from);
    let own = own.filter(|path| table_names_trim(root, path, false));
    scripts.chain(system).chain(own).collect()
}

/// True for a table with a trim. For a recorded tree, copies only the lines that name a
/// trim. A line of another user is left out: fstrim needs root, and no file is opened
/// because that user names it.
fn table_names_trim(root: &Root, path: &Path, has_user: bool) -> bool {
    let Ok(bytes) = root.unrecorded(|| root.read_bytes(path, TABLE_BYTES_MAX)) else {
        return false;
    };
    let text = String::from_utf8_lossy(&bytes);
    let names = |line: &&str| {
        command_of_root(line.trim(), has_user)
            .is_some_and(|command| names_trim(command) || runs_script_that_trims(root, command))
    };
    let kept: Vec<&str> = text.lines().filter(names).collect();
    if !kept.is_empty() {
        root.keep(path, (kept.join("\n") + "\n").as_bytes());
    }
    !kept.is_empty()
}

/// The command of a table line that root runs; `None` for a setting, a comment or another
/// user.
fn command_of_root(line: &str, has_user: bool) -> Option<&str> {
    if !line.starts_with(|c: char| c.is_ascii_digit() || "*@-".contains(c)) {
        return None;
    }
    let when = if line.starts_with('@') { 1 } else { 5 };
    let mut rest = line;
    let mut user = "root";
    for field in 0..when + usize::from(has_user) {
        let (text, behind) = rest.split_once(char::is_whitespace)?;
        rest = behind.trim_start();
        user = if field == when { text } else { user };
    }
    Some(rest).filter(|_| user == "root")
}

/// True if the command runs a script that names a trim.
fn runs_script_that_trims(root: &Root, command: &str) -> bool {
    let is_program = |word: &&str| word.starts_with('/') && !word.ends_with('/');
    let program = command.split_whitespace().find(is_program);
    program.is_some_and(|word| script_names_trim(root, Path::new(word)))
}

/// The file itself, or the files in a directory.
fn files(root: &Root, path: &str) -> Vec<PathBuf> {
    match root.is_directory(path) {
        Some(true) => {
            let names = root.list(path).into_iter();
            names
                .map(|name| Path::new(path).join(name))
                .filter(|file| root.is_directory(file) == Some(false))
                .collect()
        }
        Some(false) => vec![PathBuf::from(path)],
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    /// The number of jobs in a tree with these files of this mode.
    fn count(files: &[(&str, &str)], mode: u32) -> usize {
        let tree = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = tree.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        jobs(&Root::recorded(tree.path()).unwrap()).len()
    }

    #[test]
    fn cron_script_counts_if_it_names_a_trim() {
        for (path, text, expected) in [
            ("etc/cron.weekly/trim", "#!/bin/sh\nionice -c3 /sbin/fstrim -v /m/b\n", 1),
            ("etc/periodic/daily/trim", "for d in / /m/b; do fstrim $d; done\n", 1),
            ("etc/cron.weekly/trim", "#!/bin/sh\n# fstrim /m/b\nexit 0\n", 0),
            ("etc/cron.weekly/trim", "echo no\n", 0),
        ] {
            assert_eq!(count(&[(path, text)], 0o755), expected, "{path} {text}");
        }
    }

    #[test]
    fn cron_table_counts_commands_of_root() {
        for (path, line, expected) in [
            ("etc/crontab", "MAILTO=fstrim\n17 3 * * 0 root /sbin/fstrim /m/b", 1),
            ("etc/cron.d/trim", "@weekly root fstrim /m/b 2>&1 | logger -t fstrim", 1),
            ("etc/cron.d/trim", "0 4 * * 1\troot\ttrimtab trim --policy idle /m/b", 1),
            ("var/spool/cron/crontabs/root", "0 4  * * mon fstrim /m/b", 1),
            ("var/spool/cron/tabs/root", "-0 4 * * * fstrim /m/b", 1),
            ("etc/crontab", "#0 4 * * * root fstrim /m/b", 0),
            ("etc/crontab", "0 4 * * * nobody fstrim /m/b", 0),
            ("var/spool/cron/crontabs/ann", "0 4 * * * fstrim /m/b", 0),
        ] {
            assert_eq!(count(&[(path, line)], 0o600), expected, "{path} {line}");
        }
        let planted = [
            ("etc/crontab", "0 4 * * * ann sudo /home/ann/x"),
            ("home/ann/x", "#!/bin/sh\nfstrim /m/b\n"),
        ];
        assert_eq!(count(&planted, 0o755), 0, "no file is read because another user names it");
        let script = [
            ("etc/crontab", "0 4 * * 0 root /usr/local/sbin/weekly --quiet"),
            ("usr/local/sbin/weekly", "#!/bin/sh\nfstrim /m/b\n"),
        ];
        assert_eq!(count(&script, 0o755), 1);
    }
}
