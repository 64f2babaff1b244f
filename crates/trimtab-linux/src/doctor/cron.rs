//! Cron: the filesystems that fstrim commands in its scripts trim.

use super::answer::Answer;
use super::fstrim::{self, Call, Machine, Parsed, Release};
use crate::host::mountinfo::Mount;
use crate::host::root::{Root, TABLE_BYTES_MAX};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

const DIRECTORIES: [&str; 4] = ["/etc/cron.hourly", "/etc/cron.daily", "/etc/cron.weekly", "/etc/cron.monthly"];
/// Programs that run the command in their arguments.
const WRAPPERS: [&str; 3] = ["exec", "nice", "ionice"];

/// A script that names fstrim.
#[derive(Clone, Debug)]
pub struct Script {
    pub path: PathBuf,
    calls: Vec<Call>,
    /// A line whose effect only a shell can tell.
    doubt: Option<String>,
}

impl Script {
    /// The scripts of this machine that `run-parts` runs.
    pub fn all(root: &Root) -> Vec<Self> {
        let paths = DIRECTORIES.into_iter().flat_map(|directory| {
            let names = root.list(directory).into_iter().filter(|name| is_run(name));
            names.map(|name| Path::new(directory).join(name)).collect::<Vec<_>>()
        });
        paths.filter(|path| is_executable(root, path)).filter_map(|path| Self::read(root, path)).collect()
    }

    fn read(root: &Root, path: PathBuf) -> Option<Self> {
        let bytes = root.read_bytes(&path, TABLE_BYTES_MAX).ok()?;
        let mut script = Self { path, calls: Vec::new(), doubt: None };
        String::from_utf8_lossy(&bytes).lines().for_each(|line| script.add(line));
        (script.doubt.is_some() || !script.calls.is_empty()).then_some(script)
    }

    fn add(&mut self, line: &str) {
        let line = line.trim();
        if line.starts_with('#') || !line.contains("fstrim") {
            return;
        }
        match call(line) {
            Some(Parsed::Call(call)) => self.calls.push(call),
            // `--dry-run`, or refused.
            Some(_) => {}
            None => self.doubt = Some(format!("its line '{line}' needs a shell")),
        }
    }

    /// Whether the script trims the filesystem whose mounts `is_same` recognises.
    pub fn trims(&self, root: &Root, mounts: &[Mount], is_same: &dyn Fn(&Mount) -> bool) -> Answer {
        let machine = Machine { root, mounts, release: Release::V2_39 };
        let open = self.doubt.clone().map_or_else(|| Answer::no("cron.other-path", "no command names it"), Answer::Maybe);
        self.calls.iter().fold(open, |answer, call| answer.or(|| machine.trims(call, is_same)))
    }
}

/// The fstrim command of a line; `None` where only a shell can tell its effect.
fn call(line: &str) -> Option<Parsed> {
    let words: Vec<&str> = line.split_whitespace().take_while(|word| !word.starts_with('#')).collect();
    let at = words.iter().position(|word| Path::new(word).file_name().is_some_and(|name| name == "fstrim"))?;
    if !words[..at].iter().all(|word| WRAPPERS.contains(word) || word.starts_with('-')) {
        return None;
    }
    let ends = |word: &&&str| !["||", "&&", "|", ";", "&"].contains(*word) && !word.contains('>');
    let arguments: Vec<&str> = words[at + 1..].iter().take_while(ends).map(|word| word.trim_end_matches(';')).collect();
    let is_plain = |word: &&str| !word.contains(['$', '`', '*', '?', '"', '\'', '\\']);
    let arguments: Vec<String> = arguments.iter().all(is_plain).then(|| arguments.into_iter().map(str::to_owned).collect())?;
    Some(fstrim::parse(&arguments, Release::V2_39))
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

    /// Answers for the filesystems at `/` and `/m/b`, where the script is `/etc/cron.weekly/NAME`.
    fn answers(name: &str, script: &str) -> [Option<Answer>; 2] {
        let tree = tempfile::tempdir().unwrap();
        let directory = tree.path().join("etc/cron.weekly");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::create_dir_all(tree.path().join("m/b")).unwrap();
        std::fs::write(directory.join(name), script).unwrap();
        let root = Root::recorded(tree.path()).unwrap();
        let mounts = mountinfo::parse(b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / /m/b rw - ext4 /dev/sda2 rw\n");
        let scripts = Script::all(&root);
        ["/", "/m/b"]
            .map(|point| scripts.first().map(|script| script.trims(&root, &mounts, &|mount| mount.mount_point == Path::new(point))))
    }

    #[test]
    fn cron_script_trims_what_its_fstrim_commands_name() {
        let [root, b] = answers("trim", "#!/bin/sh\n# fstrim /\nionice -c3 /sbin/fstrim -v /m/b >/dev/null 2>&1\n");
        assert!(matches!(root, Some(Answer::No(_))) && b == Some(Answer::Yes), "{root:?} {b:?}");
        for nothing in ["#!/bin/sh\n# fstrim /m/b\nexit 0\n", "#!/bin/sh\nfstrim --dry-run /m/b\n", "echo no\n"] {
            assert_eq!(answers("trim", nothing), [None, None], "{nothing}");
        }
        assert_eq!(answers("trim.sh", "fstrim /m/b\n"), [None, None], "run-parts takes no dot in a name");
        for shell in ["for d in / /m/b; do fstrim $d; done\n", "exec fstrim-all\n", "[ -e /x ] && fstrim /m/b\n"] {
            let [root, b] = answers("fstrim", shell);
            assert!(matches!(root, Some(Answer::Maybe(_))) && matches!(b, Some(Answer::Maybe(_))), "{shell}: {root:?} {b:?}");
        }
    }
}
