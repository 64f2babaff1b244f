//! Cron: the filesystems that its scripts and the commands of its tables trim.

use super::answer::Answer;
use super::shell::{Lines, names_trim};
use crate::host::mountinfo::Mount;
use crate::host::root::{Root, TABLE_BYTES_MAX};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Scripts that run-parts runs: of most distributions, and of Alpine.
const SCRIPTS: [&str; 9] = [
    "/etc/cron.hourly",
    "/etc/cron.daily",
    "/etc/cron.weekly",
    "/etc/cron.monthly",
    "/etc/periodic/15min",
    "/etc/periodic/hourly",
    "/etc/periodic/daily",
    "/etc/periodic/weekly",
    "/etc/periodic/monthly",
];
/// Tables, or directories of them.
const TABLES: [(&str, Format); 7] = [
    ("/etc/crontab", Format::System),
    ("/etc/cron.d", Format::System),
    ("/etc/anacrontab", Format::Anacron),
    ("/var/spool/cron/crontabs", Format::User),
    ("/var/spool/cron/tabs", Format::User),
    ("/var/spool/cron", Format::User),
    ("/etc/crontabs", Format::User),
];

/// The fields in front of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// When, and as which user.
    System,
    /// When; the user is the name of the table.
    User,
    /// Period, delay, name.
    Anacron,
}

/// A script or table with a command that trims.
#[derive(Clone, Debug)]
pub struct Job {
    pub path: PathBuf,
    lines: Lines,
}

impl Job {
    /// Those of this machine.
    pub fn all(root: &Root) -> Vec<Self> {
        let scripts = SCRIPTS.into_iter().flat_map(|directory| files(root, directory));
        let scripts = scripts.filter(|path| name(path).is_some_and(is_run) && is_executable(root, path));
        let scripts = scripts.filter_map(|path| Some(Self { lines: Lines::of_script(root, &path)?, path }));
        let tables = TABLES.into_iter().flat_map(|(path, format)| files(root, path).into_iter().map(move |path| (path, format)));
        scripts.chain(tables.filter_map(|(path, format)| Self::of_table(root, path, format))).collect()
    }

    /// Of a table. A recorded tree gets the lines that name a trim, and no other.
    fn of_table(root: &Root, path: PathBuf, format: Format) -> Option<Self> {
        let bytes = root.unrecorded(|| root.read_bytes(&path, TABLE_BYTES_MAX)).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let owner = if format == Format::User { name(&path)? } else { "root" };
        let (mut lines, mut kept) = (Lines::default(), Vec::new());
        for line in text.lines() {
            let Some((user, command)) = command(line.trim(), format, owner) else { continue };
            let (is_root, trims) = (user == "root", names_trim(command));
            // fstrim is for root, and no file is opened because another user names it.
            let calls = match (is_root, trims) {
                (true, true) => Some(Lines::of(command)),
                (true, false) => script_of(root, command),
                (false, true) if command.contains("sudo") => {
                    Some(Lines::doubtful(format!("sudo decides whether {user} may run '{command}'")))
                }
                _ => None,
            };
            let Some(calls) = calls else { continue };
            kept.push(line);
            let at_boot = line.trim().starts_with("@reboot") && !calls.is_empty();
            let once = at_boot.then(|| format!("its line '{}' runs when the machine starts only", line.trim()));
            lines.doubt = lines.doubt.or(calls.doubt).or(once);
            lines.calls.extend(calls.calls.into_iter().filter(|_| !at_boot));
        }
        if lines.is_empty() {
            return None;
        }
        root.keep(&path, (kept.join("\n") + "\n").as_bytes());
        Some(Self { path, lines })
    }

    /// Whether it trims the filesystem whose mounts `is_same` recognises.
    pub fn trims(&self, root: &Root, mounts: &[Mount], is_same: &dyn Fn(&Mount) -> bool) -> Answer {
        self.lines.trims(root, mounts, is_same)
    }
}

/// User and command of a table's line; `None` for a setting or a comment.
fn command<'a>(line: &'a str, format: Format, owner: &'a str) -> Option<(&'a str, &'a str)> {
    if !line.starts_with(|c: char| c.is_ascii_digit() || "*@-".contains(c)) {
        return None;
    }
    let when = if line.starts_with('@') { 1 } else { 5 };
    let fields = match format {
        Format::System => when + 1,
        Format::User => when,
        Format::Anacron => 3,
    };
    let mut rest = line;
    let mut last = "";
    for _ in 0..fields {
        let (field, behind) = rest.trim_start().split_once(char::is_whitespace)?;
        (last, rest) = (field, behind.trim_start());
    }
    // Behind a per cent sign stands the input of the command.
    let end = rest.match_indices('%').map(|(at, _)| at).find(|at| !rest[..*at].ends_with('\\')).unwrap_or(rest.len());
    Some((if format == Format::System { last } else { owner }, rest.get(..end)?))
}

/// The trims of the script that a command runs.
fn script_of(root: &Root, command: &str) -> Option<Lines> {
    let is_program = |word: &&str| word.starts_with('/') && !word.ends_with('/');
    command.split_whitespace().find(is_program).and_then(|word| Lines::of_script(root, Path::new(word)))
}

/// A file, or the files in a directory, without those that editors and packages leave.
fn files(root: &Root, path: &str) -> Vec<PathBuf> {
    const LEFT: [&str; 6] = ["~", ".rpmsave", ".rpmnew", ".rpmorig", ".dpkg-old", ".dpkg-dist"];
    match root.is_directory(path) {
        Some(true) => {
            let names = root.list(path).into_iter().filter(|name| !name.starts_with('.') && !LEFT.iter().any(|end| name.ends_with(end)));
            names.map(|name| Path::new(path).join(name)).filter(|file| root.is_directory(file) == Some(false)).collect()
        }
        Some(false) => vec![PathBuf::from(path)],
        None => Vec::new(),
    }
}

fn name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

/// Names that run-parts(8) takes.
fn is_run(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

/// Recorded trees keep no permissions.
fn is_executable(root: &Root, path: &Path) -> bool {
    let is_marked = || root.open(path).and_then(|file| file.metadata()).is_ok_and(|file| file.permissions().mode() & 0o111 != 0);
    !root.is_live() || is_marked()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::mountinfo;

    /// Answers for the filesystems at `/` and `/m/b` in a tree with these files.
    fn answers(files: &[(&str, &str)]) -> [Option<Answer>; 2] {
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(tree.path().join("m/b")).unwrap();
        for (path, text) in files {
            let path = tree.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let root = Root::recorded(tree.path()).unwrap();
        let mounts = mountinfo::parse(b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / /m/b rw - ext4 /dev/sda2 rw\n");
        let jobs = Job::all(&root);
        ["/", "/m/b"].map(|point| jobs.first().map(|job| job.trims(&root, &mounts, &|mount| mount.mount_point == Path::new(point))))
    }

    #[test]
    fn cron_script_trims_what_its_fstrim_commands_name() {
        for directory in ["etc/cron.weekly/trim", "etc/periodic/daily/trim"] {
            let [root, b] = answers(&[(directory, "#!/bin/sh\n# fstrim /\nionice -c3 /sbin/fstrim -v /m/b >/dev/null 2>&1\n")]);
            assert!(matches!(root, Some(Answer::No(_))) && b == Some(Answer::Yes), "{root:?} {b:?}");
        }
        for nothing in ["#!/bin/sh\n# fstrim /m/b\nexit 0\n", "#!/bin/sh\nfstrim --dry-run /m/b\n", "echo no\n"] {
            assert_eq!(answers(&[("etc/cron.weekly/trim", nothing)]), [None, None], "{nothing}");
        }
        assert_eq!(answers(&[("etc/cron.weekly/trim.sh", "fstrim /m/b\n")]), [None, None], "run-parts takes no dot in a name");
        for shell in ["for d in / /m/b; do fstrim $d; done\n", "exec fstrim-all\n", "[ -e /x ] && fstrim /m/b\n"] {
            let [root, b] = answers(&[("etc/cron.weekly/fstrim", shell)]);
            assert!(matches!(root, Some(Answer::Maybe(_))) && matches!(b, Some(Answer::Maybe(_))), "{shell}: {root:?} {b:?}");
        }
    }

    #[test]
    fn cron_table_trims_what_commands_of_root_name() {
        for (path, line) in [
            ("etc/crontab", "MAILTO=fstrim\n17 3 * * 0 root /sbin/fstrim /m/b"),
            ("etc/cron.d/trim", "@weekly root fstrim /m/b 2>&1 | logger -t fstrim"),
            ("etc/cron.d/trim", "0 4 * * 1\troot\ttrimtab trim --policy idle /m/b"),
            ("etc/anacrontab", "7 25 trim nice fstrim /m/b"),
            ("var/spool/cron/crontabs/root", "0 4 * * mon fstrim /m/b"),
            ("var/spool/cron/root", "*/5 4 * * * fstrim /m/b % / "),
            ("var/spool/cron/tabs/root", "-0 4 * * * fstrim /m/b"),
            ("etc/crontabs/root", "0 4 * * * /usr/sbin/fstrim /m/b"),
        ] {
            let [root, b] = answers(&[(path, line)]);
            assert!(matches!(root, Some(Answer::No(_))) && b == Some(Answer::Yes), "{path} {line}: {root:?} {b:?}");
        }
        for (path, line) in [
            ("etc/crontab", "#0 4 * * * root fstrim /m/b"),
            ("etc/crontab", "0 4 * * * nobody fstrim /m/b"),
            ("etc/cron.d/.trim", "0 4 * * * root fstrim /m/b"),
            ("etc/cron.d/trim.rpmsave", "0 4 * * * root fstrim /m/b"),
            ("var/spool/cron/crontabs/ann", "0 4 * * * fstrim /m/b"),
        ] {
            assert_eq!(answers(&[(path, line)]), [None, None], "{path} {line}");
        }
        let planted = [("var/spool/cron/crontabs/ann", "0 4 * * * sudo /home/ann/x"), ("home/ann/x", "#!/bin/sh\nfstrim /m/b\n")];
        assert_eq!(answers(&planted), [None, None], "no file is read because another user names it");
        for (path, line) in [("etc/crontab", "@reboot root fstrim /m/b"), ("var/spool/cron/crontabs/ann", "0 4 * * mon sudo fstrim /m/b")] {
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
