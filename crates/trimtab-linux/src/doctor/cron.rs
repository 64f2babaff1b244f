//! Cron: the filesystems that root's scripts and table commands trim.

use super::answer::Answer;
use super::fstrim::Machine;
use super::shell::{Lines, names_trim};
use crate::host::mountinfo::Mount;
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

/// A script or table with a command that trims.
#[derive(Clone, Debug)]
pub struct CronJob {
    pub path: PathBuf,
    lines: Lines,
    /// The reason why it may not run.
    doubt: Option<&'static str>,
}

impl CronJob {
    /// All trim jobs of this machine.
    pub fn all(root: &Root) -> Vec<Self> {
        // A recorded tree may lack the programs.
        if root.is_this_machine()
            && !PROGRAMS.split_ascii_whitespace().any(|program| root.exists(program))
        {
            return Vec::new();
        }
        let scripts = SCRIPTS.split_ascii_whitespace().flat_map(|directory| files(root, directory));
        let scripts = scripts.filter_map(|path| Self::of_script(root, path));
        let system = SYSTEM_TABLES
            .into_iter()
            .flat_map(|path| files(root, path))
            .filter_map(|path| Self::of_table(root, path, true));
        let own = ROOT_TABLES
            .into_iter()
            .filter_map(|path| Self::of_table(root, PathBuf::from(path), false));
        scripts.chain(system).chain(own).collect()
    }

    fn of_script(root: &Root, path: PathBuf) -> Option<Self> {
        let mode = match root.is_executable(&path) {
            Some(true) => None,
            Some(false) => return None,
            None => Some("the recorded tree does not show whether it is executable"),
        };
        Some(Self {
            lines: Lines::of_script(root, &path)?,
            doubt: mode.or_else(|| odd_name(&path)),
            path,
        })
    }

    /// Reads the trim jobs of a table. For a recorded tree, copies only the lines that
    /// name a trim. A line of another user is left out: fstrim needs root, and no file is
    /// opened because that user names it.
    fn of_table(root: &Root, path: PathBuf, has_user: bool) -> Option<Self> {
        let bytes = root.unrecorded(|| root.read_bytes(&path, TABLE_BYTES_MAX)).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let (mut lines, mut kept) = (Lines::default(), Vec::new());
        for line in text.lines() {
            let Some(command) = command_of_root(line.trim(), has_user) else { continue };
            let calls = if names_trim(command) {
                Some(Lines::of(command))
            } else {
                script_of(root, command)
            };
            let Some(calls) = calls else { continue };
            kept.push(line);
            let at_boot = line.trim().starts_with("@reboot") && !calls.is_empty();
            let once = at_boot
                .then(|| format!("its line '{}' runs when the machine starts only", line.trim()));
            lines.doubt = lines.doubt.or(calls.doubt).or(once);
            lines.calls.extend(calls.calls.into_iter().filter(|_| !at_boot));
        }
        if lines.is_empty() {
            return None;
        }
        root.keep(&path, (kept.join("\n") + "\n").as_bytes());
        Some(Self { doubt: odd_name(&path), path, lines })
    }

    /// Returns whether the job trims the filesystem whose mounts `is_same` recognises.
    pub fn trims(&self, machine: Machine<'_>, is_same: &dyn Fn(&Mount) -> bool) -> Answer {
        self.lines.trims(machine, is_same).and(|| self.doubt.map_or(Answer::Yes, Answer::maybe))
    }
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
    // The text after a percent sign is the command's standard input.
    let end = rest
        .match_indices('%')
        .map(|(at, _)| at)
        .find(|at| !rest[..*at].ends_with('\\'))
        .unwrap_or(rest.len());
    rest.get(..end).filter(|_| user == "root")
}

/// The trims in the script that a command runs.
fn script_of(root: &Root, command: &str) -> Option<Lines> {
    let is_program = |word: &&str| word.starts_with('/') && !word.ends_with('/');
    command
        .split_whitespace()
        .find(is_program)
        .and_then(|word| Lines::of_script(root, Path::new(word)))
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

/// The doubt about a name that run-parts(8) does not accept.
fn odd_name(path: &Path) -> Option<&'static str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let is_odd = path
        .file_name()
        .and_then(|name| name.to_str())
        .is_none_or(|name| !name.chars().all(is_plain));
    is_odd.then_some("cron of some distributions skips a file of this name")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::fstrim::VisitCache;
    use crate::host::mountinfo;
    use std::os::unix::fs::PermissionsExt as _;

    /// Answers for the filesystems at `/` and `/m/b` in a tree with these files.
    fn answers(files: &[(&str, &str)]) -> [Option<Answer>; 2] {
        answers_of_mode(files, 0o755)
    }

    /// The same, with files of this mode.
    fn answers_of_mode(files: &[(&str, &str)], mode: u32) -> [Option<Answer>; 2] {
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(tree.path().join("m/b")).unwrap();
        for (path, text) in files {
            let path = tree.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let root = Root::recorded(tree.path()).unwrap();
        let mounts = mountinfo::parse(
            b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / /m/b rw - ext4 /dev/sda2 rw\n",
        );
        let jobs = CronJob::all(&root);
        let machine = Machine { root: &root, mounts: &mounts, visited: &VisitCache::new(&mounts) };
        ["/", "/m/b"].map(|point| {
            jobs.first()
                .map(|job| job.trims(machine, &|mount| mount.mount_point == Path::new(point)))
        })
    }

    #[test]
    fn cron_script_trims_paths_of_its_fstrim_commands() {
        for directory in ["etc/cron.weekly/trim", "etc/periodic/daily/trim"] {
            let [root, b] = answers(&[(
                directory,
                "#!/bin/sh\n# fstrim /\nionice -c3 /sbin/fstrim -v /m/b >/dev/null 2>&1\n",
            )]);
            assert!(
                matches!(root, Some(Answer::No(_))) && b == Some(Answer::Yes),
                "{root:?} {b:?}"
            );
        }
        for nothing in [
            "#!/bin/sh\n# fstrim /m/b\nexit 0\n",
            "#!/bin/sh\nfstrim --dry-run /m/b\n",
            "echo no\n",
        ] {
            assert_eq!(answers(&[("etc/cron.weekly/trim", nothing)]), [None, None], "{nothing}");
        }
        for (script, text) in [
            ("etc/cron.weekly/trim.sh", "fstrim /m/b\n"),
            ("etc/cron.weekly/fstrim", "for d in / /m/b; do fstrim $d; done\n"),
            ("etc/cron.weekly/fstrim", "exec fstrim-all\n"),
            ("etc/cron.weekly/fstrim", "[ -e /x ] && fstrim /m/b\n"),
        ] {
            let [_, b] = answers(&[(script, text)]);
            assert!(matches!(b, Some(Answer::Maybe(_))), "{script} {text}: {b:?}");
        }
    }

    #[test]
    fn cron_script_without_execute_permission_may_run() {
        let [_, b] = answers_of_mode(&[("etc/cron.daily/trim", "#!/bin/sh\nfstrim /m/b\n")], 0o600);
        assert!(matches!(&b, Some(Answer::Maybe(doubt)) if doubt.contains("executable")), "{b:?}");
        let [_, b] = answers_of_mode(&[("etc/crontab", "0 4 * * 0 root fstrim /m/b")], 0o600);
        assert_eq!(b, Some(Answer::Yes), "cron reads a table, and executes none");
    }

    #[test]
    fn cron_table_trims_paths_of_root_commands() {
        for (path, line) in [
            ("etc/crontab", "MAILTO=fstrim\n17 3 * * 0 root /sbin/fstrim /m/b"),
            ("etc/cron.d/trim", "@weekly root fstrim /m/b 2>&1 | logger -t fstrim"),
            ("etc/cron.d/trim", "0 4 * * 1\troot\ttrimtab trim --policy idle /m/b"),
            ("var/spool/cron/crontabs/root", "0 4  * * mon fstrim /m/b"),
            ("var/spool/cron/root", "*/5 4 * * * fstrim /m/b % / "),
            ("var/spool/cron/tabs/root", "-0 4 * * * fstrim /m/b"),
            ("etc/crontabs/root", "0 4 * * * /usr/sbin/fstrim /m/b"),
        ] {
            let [root, b] = answers(&[(path, line)]);
            assert!(
                matches!(root, Some(Answer::No(_))) && b == Some(Answer::Yes),
                "{path} {line}: {root:?} {b:?}"
            );
        }
        for (path, line) in [
            ("etc/crontab", "#0 4 * * * root fstrim /m/b"),
            ("etc/crontab", "0 4 * * * nobody fstrim /m/b"),
            ("var/spool/cron/crontabs/ann", "0 4 * * * fstrim /m/b"),
        ] {
            assert_eq!(answers(&[(path, line)]), [None, None], "{path} {line}");
        }
        let planted = [
            ("etc/crontab", "0 4 * * * ann sudo /home/ann/x"),
            ("home/ann/x", "#!/bin/sh\nfstrim /m/b\n"),
        ];
        assert_eq!(
            answers(&planted),
            [None, None],
            "no file is read because another user names it"
        );
        for (path, line) in [
            ("etc/crontab", "@reboot root fstrim /m/b"),
            ("etc/cron.d/trim.rpmsave", "0 4 * * * root fstrim /m/b"),
        ] {
            let [_, b] = answers(&[(path, line)]);
            assert!(matches!(b, Some(Answer::Maybe(_))), "{b:?}");
        }
        let [root, b] = answers(&[
            ("etc/crontab", "0 4 * * 0 root /usr/local/sbin/weekly --quiet"),
            ("usr/local/sbin/weekly", "#!/bin/sh\nfstrim /m/b\n"),
        ]);
        assert!(matches!(root, Some(Answer::No(_))) && b == Some(Answer::Yes), "{root:?} {b:?}");
    }
}
