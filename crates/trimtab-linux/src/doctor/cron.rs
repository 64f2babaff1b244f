//! Cron: the filesystems that its scripts and table commands trim.

use super::answer::Answer;
use super::dates;
use super::fstrim::Machine;
use super::initramfs::distribution;
use super::shell::{Lines, names_trim};
use crate::host::mountinfo::Mount;
use crate::host::root::{Root, TABLE_BYTES_MAX};
use std::path::{Path, PathBuf};

/// Directories of scripts that run-parts runs, on most distributions and on Alpine.
const SCRIPTS: &str = "
    /etc/cron.hourly /etc/cron.daily /etc/cron.weekly /etc/cron.monthly
    /etc/periodic/15min /etc/periodic/hourly /etc/periodic/daily /etc/periodic/weekly /etc/periodic/monthly";
/// Tables, or directories of tables.
const TABLES: [(&str, CronFormat); 7] = [
    ("/etc/crontab", CronFormat::System),
    ("/etc/cron.d", CronFormat::System),
    ("/etc/anacrontab", CronFormat::Anacron),
    ("/var/spool/cron/crontabs", CronFormat::User),
    ("/var/spool/cron/tabs", CronFormat::User),
    ("/var/spool/cron", CronFormat::User),
    ("/etc/crontabs", CronFormat::User),
];

/// Programs that run tables and scripts.
const PROGRAMS: [&str; 9] = [
    "/usr/sbin/cron",
    "/usr/sbin/crond",
    "/usr/bin/crond",
    "/usr/sbin/fcron",
    "/usr/sbin/bcron-start",
    "/usr/lib/systemd/system-generators/systemd-crontab-generator",
    "/run/current-system/sw/bin/cron",
    // The next two run only scripts and their own table.
    "/usr/sbin/anacron",
    "/usr/bin/anacron",
];
/// Runs only scripts and user tables, if one of the programs is a link to it.
const BUSYBOX: &str = "busybox";
/// Files that only packages of such programs install; used for a recorded tree without
/// programs.
const BROUGHT: &str = "
    /etc/crontab /etc/anacrontab /etc/crontabs /etc/periodic /var/spool/cron
    /usr/lib/systemd/system/cron.service /usr/lib/systemd/system/crond.service
    /usr/lib/systemd/system/cronie.service";
/// File name suffixes that cronie ignores in `/etc/cron.d`.
const LEFT: [&str; 6] = ["~", ".rpmsave", ".rpmnew", ".rpmorig", ".dpkg-old", ".dpkg-dist"];
/// Distributions that run `/etc/cron.*` with their own script, and the file name suffixes
/// that it ignores.
const OWN_SCRIPTS: [(&[&str], &[&str]); 2] = [
    (&["fedora", "rhel", "centos"], &["~", ",", ".cfsaved", ".rpmsave", ".rpmorig", ".rpmnew", ".swp", ",v"]),
    (&["suse", "opensuse"], &["~", ".rpmsave", ".rpmorig", ".rpmnew", ".swap", ".bak", ".orig"]),
];

/// The program that runs tables and scripts on this machine.
#[derive(Clone, Debug)]
struct Runner {
    /// The program found; `None` if a recorded tree does not show it.
    program: Option<&'static str>,
    distribution: Vec<String>,
    /// No file in the tree shows that such a program is installed.
    is_doubtful: bool,
}

impl Runner {
    /// Finds the program; `None` if none is installed.
    fn find(root: &Root) -> Option<Self> {
        let runner = |program, is_doubtful| Self { program, distribution: distribution(root), is_doubtful };
        let is_busybox = |program: &str| root.canonical(program).is_some_and(|real| real.ends_with(BUSYBOX));
        let found: Vec<&str> = PROGRAMS.into_iter().filter(|program| root.exists(program)).collect();
        if !found.is_empty() {
            let own = found.into_iter().find(|program| !is_busybox(program));
            return Some(runner(own.or(Some(BUSYBOX)), false));
        }
        let lists_programs = root.is_this_machine() || ["/usr/sbin", "/usr/bin"].iter().any(|directory| root.exists(directory));
        (!lists_programs).then(|| runner(None, !BROUGHT.split_ascii_whitespace().any(|path| root.exists(path))))
    }

    fn is_of(&self, names: &[&str]) -> bool {
        self.distribution.iter().any(|name| names.contains(&name.as_str()))
    }

    fn reads(&self, format: CronFormat) -> bool {
        match self.program {
            Some(BUSYBOX) => format == CronFormat::User,
            Some(program) if program.ends_with("/anacron") => format == CronFormat::Anacron,
            _ => true,
        }
    }

    /// Returns whether a script of this name runs.
    fn runs_script(&self, directory: &str, name: &str) -> bool {
        let own = OWN_SCRIPTS.iter().find(|(names, _)| directory.starts_with("/etc/cron.") && self.is_of(names));
        own.map_or_else(|| is_run(name), |(_, left)| !name.starts_with(['.', '#']) && !left.iter().any(|end| name.ends_with(end)))
    }

    /// Returns whether a table of this name in a directory is read: Debian's cron accepts the
    /// same names as run-parts.
    fn reads_table(&self, name: &str) -> bool {
        let is_debian = self.program.is_none_or(|program| program == PROGRAMS[0]) && self.is_of(&["debian", "ubuntu"]);
        if is_debian { is_run(name) } else { !name.starts_with(['.', '#']) && !LEFT.iter().any(|end| name.ends_with(end)) }
    }
}

/// The fields before a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CronFormat {
    /// Schedule and user.
    System,
    /// Schedule; the name of the table is the user.
    User,
    /// Period, delay, name.
    Anacron,
}

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
        let Some(runner) = Runner::find(root) else { return Vec::new() };
        let doubt = runner.is_doubtful.then_some("nothing in the recorded tree shows whether a cron is installed");
        let of_directory = |directory: &'static str| {
            let runs = |path: &PathBuf| {
                name(path).is_some_and(|name| runner.runs_script(directory, name)) && root.is_executable(path) != Some(false)
            };
            files(root, directory).into_iter().filter(runs).collect::<Vec<_>>()
        };
        let scripts = SCRIPTS.split_ascii_whitespace().flat_map(of_directory);
        let mode = |path: &Path| root.is_executable(path).is_none().then_some("the recorded tree does not show whether it is executable");
        let scripts =
            scripts.filter_map(|path| Some(Self { lines: Lines::of_script(root, &path)?, doubt: doubt.or_else(|| mode(&path)), path }));
        let tables = TABLES.into_iter().filter(|(_, format)| runner.reads(*format));
        let tables = tables.flat_map(|(path, format)| files(root, path).into_iter().map(move |path| (path, format)));
        let tables =
            tables.filter(|(path, format)| *format != CronFormat::System || name(path).is_some_and(|name| runner.reads_table(name)));
        let tables = tables.filter_map(|(path, format)| Self::of_table(root, path, format)).map(|job| Self { doubt, ..job });
        scripts.chain(tables).collect()
    }

    /// Reads the trim jobs of a table. For a recorded tree, copies only the lines that name a
    /// trim.
    fn of_table(root: &Root, path: PathBuf, format: CronFormat) -> Option<Self> {
        let bytes = root.unrecorded(|| root.read_bytes(&path, TABLE_BYTES_MAX)).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let owner = if format == CronFormat::User { name(&path)? } else { "root" };
        let (mut lines, mut kept) = (Lines::default(), Vec::new());
        for line in text.lines() {
            let Some((user, command)) = command(line.trim(), format, owner) else { continue };
            if format != CronFormat::Anacron && dates::cron_never_runs(line) {
                continue;
            }
            let (is_root, trims) = (user == "root", names_trim(command));
            // fstrim needs root, and no file is opened because an unprivileged user names it.
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
        Some(Self { path, lines, doubt: None })
    }

    /// Returns whether the job trims the filesystem whose mounts `is_same` recognises.
    pub fn trims(&self, machine: Machine<'_>, is_same: &dyn Fn(&Mount) -> bool) -> Answer {
        self.lines.trims(machine, is_same).and(|| self.doubt.map_or(Answer::Yes, Answer::maybe))
    }
}

/// User and command of a table line; `None` for a setting or a comment.
fn command<'a>(line: &'a str, format: CronFormat, owner: &'a str) -> Option<(&'a str, &'a str)> {
    if !line.starts_with(|c: char| c.is_ascii_digit() || "*@-".contains(c)) {
        return None;
    }
    let when = if line.starts_with('@') { 1 } else { 5 };
    let fields = match format {
        CronFormat::System => when + 1,
        CronFormat::User => when,
        CronFormat::Anacron => 3,
    };
    let mut rest = line;
    let mut last = "";
    for _ in 0..fields {
        let (field, behind) = rest.trim_start().split_once(char::is_whitespace)?;
        (last, rest) = (field, behind.trim_start());
    }
    // The text after a percent sign is the command's standard input.
    let end = rest.match_indices('%').map(|(at, _)| at).find(|at| !rest[..*at].ends_with('\\')).unwrap_or(rest.len());
    Some((if format == CronFormat::System { last } else { owner }, rest.get(..end)?))
}

/// The trims in the script that a command runs.
fn script_of(root: &Root, command: &str) -> Option<Lines> {
    let is_program = |word: &&str| word.starts_with('/') && !word.ends_with('/');
    command.split_whitespace().find(is_program).and_then(|word| Lines::of_script(root, Path::new(word)))
}

/// The file itself, or the files in a directory.
fn files(root: &Root, path: &str) -> Vec<PathBuf> {
    match root.is_directory(path) {
        Some(true) => {
            let names = root.list(path).into_iter();
            names.map(|name| Path::new(path).join(name)).filter(|file| root.is_directory(file) == Some(false)).collect()
        }
        Some(false) => vec![PathBuf::from(path)],
        None => Vec::new(),
    }
}

fn name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

/// True for names that run-parts(8) accepts.
fn is_run(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::fstrim::{Release, VisitCache};
    use crate::host::mountinfo;
    use std::os::unix::fs::PermissionsExt as _;

    /// Answers for the filesystems at `/` and `/m/b` in a tree with these files.
    fn answers(files: &[(&str, &str)]) -> [Option<Answer>; 2] {
        answers_with(&[files, &[("usr/sbin/crond", "")]].concat())
    }

    /// The same, without adding a cron program.
    fn answers_with(files: &[(&str, &str)]) -> [Option<Answer>; 2] {
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
        let mounts = mountinfo::parse(b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / /m/b rw - ext4 /dev/sda2 rw\n");
        let jobs = CronJob::all(&root);
        let machine = Machine { root: &root, mounts: &mounts, visited: &VisitCache::new(&mounts), release: Release::V2_39 };
        ["/", "/m/b"].map(|point| jobs.first().map(|job| job.trims(machine, &|mount| mount.mount_point == Path::new(point))))
    }

    #[test]
    fn cron_script_trims_paths_of_its_fstrim_commands() {
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
    fn cron_script_without_execute_permission_may_run() {
        let [_, b] = answers_of_mode(&[("etc/cron.daily/trim", "#!/bin/sh\nfstrim /m/b\n"), ("usr/sbin/cron", "")], 0o600);
        assert!(matches!(&b, Some(Answer::Maybe(doubt)) if doubt.contains("executable")), "{b:?}");
        let [_, b] = answers_of_mode(&[("etc/crontab", "0 4 * * 0 root fstrim /m/b"), ("usr/sbin/cron", "")], 0o600);
        assert_eq!(b, Some(Answer::Yes), "cron reads a table, and executes none");
    }

    #[test]
    fn cron_job_counts_if_its_cron_is_installed() {
        const SCRIPT: &str = "etc/cron.weekly/trim.sh";
        const TABLE: &str = "etc/cron.d/trim.tab";
        let (cron, crond, anacron) = ("usr/sbin/cron", "usr/sbin/crond", "usr/sbin/anacron");
        for (job, installed, release, expected) in [
            ("etc/cron.weekly/trim", cron, "ID=debian", "yes"),
            ("etc/cron.weekly/trim", "usr/sbin/other", "ID=debian", "no"),
            ("etc/cron.weekly/trim", "etc/other", "ID=debian", "maybe"),
            ("etc/cron.weekly/trim", "etc/anacrontab", "ID=debian", "yes"),
            ("etc/cron.weekly/trim", anacron, "ID=debian", "yes"),
            ("etc/crontab", anacron, "ID=debian", "no"),
            ("etc/crontab", cron, "ID=debian", "yes"),
            (SCRIPT, cron, "ID=ubuntu\nID_LIKE=debian", "no"),
            (SCRIPT, crond, "ID=rocky\nID_LIKE=\"rhel centos fedora\"", "yes"),
            (SCRIPT, crond, "ID=arch", "no"),
            (SCRIPT, cron, "ID=opensuse-leap\nID_LIKE=\"suse opensuse\"", "yes"),
            ("etc/cron.weekly/trim.rpmsave", crond, "ID=fedora", "no"),
            ("etc/cron.weekly/trim.swp", crond, "ID=fedora", "no"),
            ("etc/cron.weekly/trim,v", crond, "ID=fedora", "no"),
            (TABLE, cron, "ID=debian", "no"),
            (TABLE, crond, "ID=fedora", "yes"),
            (TABLE, cron, "ID=sles\nID_LIKE=suse", "yes"),
            ("etc/cron.d/trim", cron, "ID=debian", "yes"),
        ] {
            let text = if job.contains("cron.weekly") { "#!/bin/sh\nfstrim /m/b\n" } else { "0 4 * * 0 root fstrim /m/b\n" };
            let [_, found] = answers_with(&[(job, text), (installed, ""), ("etc/os-release", release)]);
            let said = match found {
                Some(Answer::Yes) => "yes",
                Some(Answer::Maybe(_)) => "maybe",
                _ => "no",
            };
            assert_eq!(said, expected, "{job} with {installed} on {release}");
        }
    }

    #[test]
    fn cron_table_trims_paths_of_root_commands() {
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
            ("etc/crontab", "0 4 30 2 * root fstrim /m/b"),
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
