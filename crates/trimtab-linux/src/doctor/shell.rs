//! Shell lines that name `fstrim` or `trimtab trim`, interpreted as far as possible
//! without a shell.

use super::answer::Answer;
use super::fstrim::{self, Call, Machine};
use crate::host::mountinfo::Mount;
use crate::host::root::Root;
use std::io::Read as _;
use std::path::Path;

/// Programs that run the command given in their arguments.
const WRAPPERS: [&str; 9] =
    ["exec", "nice", "ionice", "sudo", "chronic", "time", "timeout", "env", "command"];
/// Options of `trimtab trim` with a value.
const WITH_VALUE: [&str; 5] =
    ["--policy", "--min-extent", "--finish-within", "--lock-wait", "--store"];
/// Options of `trimtab trim` without one.
const FLAGS: [&str; 4] = ["--sync", "--no-sync", "--restart", "--json"];
/// Words of conditions, loops and ends.
const BRANCHES: [&str; 7] = ["if", "for", "while", "until", "case", "exit", "return"];
/// Maximum script size.
const SCRIPT_BYTES_MAX: u64 = 64 << 10;

/// The trims in a list of lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    pub calls: Vec<Call>,
    /// A line whose effect only a shell can determine.
    pub doubt: Option<String>,
}

/// True if the text names a command that trims.
pub fn names_trim(text: &str) -> bool {
    text.contains("fstrim") || text.contains("trimtab")
}

impl Lines {
    /// Trims in a script with a condition, a loop or an early end are doubtful.
    pub fn of(text: &str) -> Self {
        let commands = || {
            text.lines()
                .map(str::trim)
                .filter(|line| !line.starts_with('#'))
                .flat_map(|line| line.split(';'))
        };
        let is_straight =
            !commands().flat_map(str::split_whitespace).any(|word| BRANCHES.contains(&word));
        let mut lines = Self::default();
        for command in commands().map(str::trim).filter(|command| names_trim(command)) {
            let words: Vec<&str> =
                command.split_whitespace().take_while(|word| !word.starts_with('#')).collect();
            match calls(&words) {
                Some(calls) if is_straight || calls.is_empty() => lines.calls.extend(calls),
                _ => {
                    lines.doubt =
                        Some(format!("only a shell can tell what its command '{command}' does"))
                }
            }
        }
        lines
    }

    /// Reads a script; `None` for a file that is no script, that other users can write,
    /// or that names no trim. Only scripts returned here are copied to a recorded tree.
    pub fn of_script(root: &Root, path: &Path) -> Option<Self> {
        if root.is_this_machine() && !is_roots(path) {
            return None;
        }
        let mut bytes = Vec::new();
        root.unrecorded(|| root.open(path))
            .ok()?
            .take(SCRIPT_BYTES_MAX)
            .read_to_end(&mut bytes)
            .ok()?;
        let lines = Self::of(std::str::from_utf8(&bytes).ok()?);
        if lines.is_empty() {
            return None;
        }
        root.keep(path, &bytes);
        Some(lines)
    }

    pub fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.doubt.is_none()
    }

    /// Returns whether the lines trim the filesystem whose mounts `is_same` recognises.
    pub fn trims(&self, machine: Machine<'_>, is_same: &dyn Fn(&Mount) -> bool) -> Answer {
        let open = self
            .doubt
            .clone()
            .map_or_else(|| Answer::no("cron.other-path", "no command names it"), Answer::Maybe);
        self.calls.iter().fold(open, |answer, call| answer.or(|| machine.trims(call, is_same)))
    }
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

/// The trims of commands joined by `&&`; `None` if only a shell can determine them.
/// Commands after `||`, a pipe or a redirection count as no trim.
fn calls(words: &[&str]) -> Option<Vec<Call>> {
    let mut calls = Vec::new();
    for command in words.split(|word| *word == "&&") {
        let ends = |word: &&&str| !word.starts_with(['|', '&']) && !word.contains('>');
        let command: Vec<&str> = command.iter().take_while(ends).copied().collect();
        calls.extend(one(&command)?);
    }
    Some(calls)
}

/// The trims of one command.
fn one(words: &[&str]) -> Option<Vec<Call>> {
    let name = |word: &&str| {
        Path::new(word).file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned()
    };
    let at = words.iter().position(|word| ["fstrim", "trimtab"].contains(&name(word).as_str()))?;
    let (before, behind) = (&words[..at], &words[at + 1..]);
    let is_wrapper = |word: &&str| WRAPPERS.contains(&name(word).as_str());
    let is_setting = |word: &&str| {
        word.starts_with('-')
            || word.contains('=')
            || word.starts_with(|c: char| c.is_ascii_digit())
    };
    let is_plain = |word: &&str| !word.contains(['$', '`', '*', '?', '"', '\'', '\\', '(', '<']);
    if !before.iter().all(|word| is_wrapper(word) || is_setting(word))
        || !behind.iter().all(is_plain)
    {
        return None;
    }
    let arguments: Vec<String> = behind.iter().map(|word| (*word).to_owned()).collect();
    if name(&words[at]) == "trimtab" {
        return of_trimtab(&arguments);
    }
    // An error: `--dry-run`, or rejected arguments.
    Some(fstrim::parse(&arguments).into_iter().collect())
}

/// The trims of `trimtab` with these arguments, as equivalent fstrim calls; `None` for an
/// unknown option.
pub fn of_trimtab(arguments: &[String]) -> Option<Vec<Call>> {
    let (mut calls, mut verb) = (Vec::new(), None);
    let mut words = arguments.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            "--all" => calls.push(Call::of_fstab()),
            "--dry-run" => return Some(Vec::new()),
            _ if WITH_VALUE.contains(&word) => drop(words.next()),
            _ if FLAGS.contains(&word)
                || WITH_VALUE.contains(&word.split('=').next().unwrap_or_default()) => {}
            _ if word.starts_with('-') => return None,
            _ if verb.is_none() => verb = Some(word),
            path => calls.push(Call::of_directory(path)),
        }
    }
    Some(if verb == Some("trim") { calls } else { Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The trimmed targets, and whether a doubt remains.
    fn trims(text: &str) -> (Vec<String>, bool) {
        let lines = Lines::of(text);
        (lines.calls.iter().map(Call::shown).collect(), lines.doubt.is_some())
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

    #[test]
    fn shell_lines_yield_unconditional_trims() {
        for (text, expected) in [
            ("/sbin/fstrim -v / >/dev/null 2>&1", &["/"][..]),
            ("fstrim --all || true", &["/proc/self/mountinfo"]),
            ("fstrim -A | logger -t fstrim", &["/etc/fstab"]),
            ("fstrim / && fstrim /home; fstrim /srv", &["/", "/home", "/srv"]),
            ("PATH=/sbin nice -n 19 ionice -c 3 fstrim /", &["/"]),
            (
                "timeout 3600 sudo /usr/bin/trimtab trim --policy idle /srv /home",
                &["/srv", "/home"],
            ),
            ("trimtab --json trim --all --lock-wait=0s", &["/etc/fstab"]),
            ("fstrim --dry-run /\ntrimtab trim --dry-run /\ntrimtab doctor /\n# fstrim /", &[]),
        ] {
            assert_eq!(
                trims(text),
                (expected.iter().map(|path| (*path).to_owned()).collect(), false),
                "{text}"
            );
        }
    }

    #[test]
    fn shell_trim_under_condition_is_uncertain() {
        for text in [
            "[ -x /sbin/fstrim ] && fstrim /",
            "if [ -e /x ]; then\n  fstrim /\nfi",
            "for d in / /home; do fstrim $d; done",
            "[ -d /run/systemd/system ] && exit 0\nfstrim /",
            "fstrim /\nexit 0",
            "exec fstrim-all",
            "trimtab trim --window 0+1GiB /",
            "fstrim \"$DIR\"",
        ] {
            assert_eq!(trims(text), (Vec::new(), true), "{text}");
        }
    }
}
