//! `trimtab apply`: writes a trim policy into the system's configuration, and undoes
//! that.
//!
//! [`plan`] reads and decides without changing anything. [`carry_out`] records the plan
//! and writes it; [`undo`] restores the files. Files are replaced atomically. A killed
//! process may leave some of them replaced: the next command of any kind rolls that back
//! ([`put_back_unfinished`]).

pub mod config_text;
pub mod crypttab;
pub mod fstab;
mod line_undo;
mod record;

use crate::daemon::config::{Config, DEFAULT_PATH, Rule};
use crate::trim::harm::harm;
use anyhow::{Context as _, anyhow, bail, ensure};
pub use record::{
    PolicyChange, PolicyChangeKind, UnfinishedChange, carry_out, events, make_edit,
    put_back_unfinished, remove_temporary, undo, undo_edit,
};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use trimtab_drive::usage::UsageError;
use trimtab_drive::usage::quoted;
use trimtab_linux::doctor::{self, Diagnosis, Doctor, VerdictKind};
use trimtab_linux::host::block::Stack;
use trimtab_linux::host::mountinfo;
use trimtab_linux::host::root::Root;
use trimtab_linux::output::error::{of_named, one_line};
use trimtab_linux::session::discard_option::DiscardOption;
use trimtab_linux::session::journal::Journal;
use trimtab_linux::sys::beneath::{Dir, ResolvedObject};
use trimtab_linux::trim::resume::state_directory;
use trimtab_sim::policy::PolicySpec;

const FSTAB: &str = "/etc/fstab";
const CRYPTTAB: &str = "/etc/crypttab";
/// The journal of a system that is not running.
const JOURNAL: &str = "/var/lib/trimtab/journal";
/// Largest file that is changed here, in bytes.
const BYTES_MAX: u64 = 1 << 20;
/// The shipped configuration of the daemon, from which a new one is created.
const SHIPPED: &str = include_str!("../../../packaging/trimtab.toml");

/// The system to configure: the running one, or one below a directory (an image, a test).
#[derive(Debug)]
pub struct System {
    /// Root for reading.
    pub root: Root,
    /// Its path.
    base: PathBuf,
    /// Its open directory: nothing outside of it is written.
    directory: OwnedFd,
    /// Path of the daemon's configuration in it.
    config: PathBuf,
}

impl System {
    /// The running system, or the one in `sysroot`; `config` is the path of the daemon's
    /// configuration in it.
    pub fn new(sysroot: Option<&Path>, config: Option<&Path>) -> io::Result<Self> {
        let (root, base) = match sysroot {
            Some(directory) => (Root::recorded(directory)?, std::path::absolute(directory)?),
            None => (Root::live()?, PathBuf::from("/")),
        };
        let config = match config {
            None => PathBuf::from(DEFAULT_PATH),
            Some(file) if sysroot.is_some() => std::path::absolute(file)?,
            Some(file) => named_file(file)?,
        };
        let directory = root.directory()?;
        Ok(Self { root, base, directory, config })
    }

    /// Opens and locks the journal; `None` if it is missing, unless `make` is set.
    fn journal(&self, make: bool) -> anyhow::Result<Option<Journal>> {
        let opened = if self.root.is_live() {
            Journal::open(&self.journal_place(), make)
        } else {
            let directory = self.directory(&self.journal_place(), make);
            directory.and_then(|directory| directory.map(Journal::lock).transpose())
        };
        opened.with_context(|| format!("cannot open {}", self.shown_journal()))
    }

    /// Path of the journal, in the system.
    fn journal_place(&self) -> PathBuf {
        if self.root.is_live() { Journal::place(&state_directory()) } else { JOURNAL.into() }
    }

    fn shown_journal(&self) -> String {
        self.shown(&self.journal_place())
    }

    /// Path of a system file, for messages.
    fn shown(&self, file: &Path) -> String {
        self.base.join(file.strip_prefix("/").unwrap_or(file)).display().to_string()
    }

    /// Opens a directory of the system. Links cannot lead out of it, even if they change
    /// concurrently. A missing directory is created if `make` is set, else `None`.
    fn directory(&self, path: &Path, make: bool) -> io::Result<Option<Dir>> {
        let inside = path.strip_prefix("/").unwrap_or(path);
        let shown = self.base.join(inside);
        let inside = if inside.as_os_str().is_empty() { Path::new(".") } else { inside };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = match rustix::fs::openat2(
            &self.directory,
            inside,
            flags,
            Mode::empty(),
            ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
        ) {
            // Before Linux 5.6, or in a service with RestrictSUIDSGID=. No link leads out
            // of the live system.
            Err(Errno::NOSYS | Errno::PERM) if self.root.is_live() => {
                rustix::fs::openat(&self.directory, inside, flags, Mode::empty())
            }
            opened => opened,
        };
        match opened {
            Ok(fd) => return Ok(Some(Dir::from_fd(fd, &shown))),
            Err(Errno::NOENT) if make => {}
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Errno::NOENT.into());
        };
        let Some(parent) = self.directory(parent, true)? else { return Err(Errno::NOENT.into()) };
        let made = parent.mkdir(name)?;
        // The journal is private; other directories get the usual mode.
        if path != self.journal_place() {
            rustix::fs::fchmod(&made, Mode::from_raw_mode(0o755))?;
        }
        Ok(Some(made))
    }

    /// The text of a file; `None` if it does not exist.
    fn read(&self, file: &Path) -> anyhow::Result<Option<String>> {
        let shown = self.shown(file);
        if let Some(target) = self.root.link(file) {
            bail!(
                "{shown} is a link to {}: configure the program that manages it",
                target.display()
            );
        }
        match self.root.read_bytes(file, BYTES_MAX + 1) {
            Ok(bytes) => {
                ensure!(bytes.len() as u64 <= BYTES_MAX, "{shown} is longer than 1 MiB");
                Ok(Some(String::from_utf8(bytes).with_context(|| format!("{shown} is not UTF-8"))?))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {shown}")),
        }
    }
}

/// Resolves a file that the user named, existing or not, without following other users'
/// links. Fails if another user can replace it: the daemon would refuse it.
fn named_file(file: &Path) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(file)?;
    let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
        return Err(Errno::ISDIR.into());
    };
    Dir::check_sheltered(parent)?;
    match ResolvedObject::look_up(parent) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(absolute),
        named => Ok(named?.real_path()?.join(name)),
    }
}

/// One file, before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// The file, in the system.
    pub file: PathBuf,
    /// Its text; `None` if it is new.
    pub before: Option<String>,
    /// Its new text; `None` if it is removed.
    pub after: Option<String>,
}

impl Edit {
    /// A unified diff with one hunk.
    pub fn diff(&self) -> String {
        const AROUND: usize = 3;
        let lines = |text: &Option<String>| -> Vec<String> {
            text.iter().flat_map(|text| text.lines()).map(str::to_owned).collect()
        };
        let (old, new) = (lines(&self.before), lines(&self.after));
        let (head, tail) = line_undo::common_ends(&old, &new);
        let from = head.saturating_sub(AROUND);
        let after = tail.min(AROUND);
        let (old_end, new_end) = (old.len() - tail, new.len() - tail);
        let name = |text: &Option<String>| {
            if text.is_some() { self.file.display().to_string() } else { "/dev/null".to_owned() }
        };
        let range =
            |len: usize| if len == 0 { "0,0".to_owned() } else { format!("{},{len}", from + 1) };
        let mut text = format!("--- {}\n+++ {}\n", name(&self.before), name(&self.after));
        text += &format!(
            "@@ -{} +{} @@\n",
            range(old_end + after - from),
            range(new_end + after - from)
        );
        let mut push = |mark: char, lines: &[String]| {
            lines.iter().for_each(|l| text += &format!("{mark}{l}\n"))
        };
        push(' ', &old[from..head]);
        push('-', &old[head..old_end]);
        push('+', &new[head..new_end]);
        push(' ', &old[old_end..old_end + after]);
        text
    }
}

/// A planned change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyPlan {
    /// The mount point.
    pub mount_point: PathBuf,
    /// Filesystem type.
    pub fs_type: String,
    /// The policy.
    pub policy: String,
    /// Files to change; empty if the configuration is already right.
    pub edits: Vec<Edit>,
    /// Further information and steps for the user.
    pub remarks: Vec<String>,
}

/// The filesystem that a policy applies to.
struct ApplySubject {
    mount_point: PathBuf,
    fs_type: String,
    /// The discard option in force, if it is mounted.
    mounted: Option<DiscardOption>,
    /// Mount points of its lines in fstab, in file order.
    lines: Vec<PathBuf>,
    /// It is the root filesystem, wherever else it is mounted.
    is_root: bool,
    /// It discards freed blocks unless an option disables this.
    discards_by_default: bool,
    /// A zoned drive, on which f2fs requires `discard`.
    is_zoned: bool,
    /// The reason not to trim it.
    harm: Option<String>,
}

/// Plans the changes that make `policy` (as the user wrote it) the policy of the
/// filesystem mounted at `path`.
pub fn plan(system: &System, policy: &str, path: &Path) -> anyhow::Result<ApplyPlan> {
    let spec: PolicySpec = policy.parse().map_err(|e| UsageError::new(format!("{e}")))?;
    let fstab = system.read(Path::new(FSTAB))?;
    let subject = find(system, fstab.as_deref().unwrap_or_default(), path)?;
    let ApplySubject { mount_point, fs_type, mounted, lines, is_root, .. } = &subject;
    if !doctor::can_discard(fs_type) {
        bail!(
            "{} ({fs_type}) is not known to discard; there is nothing to configure",
            mount_point.display()
        );
    }
    if let Some(why) = subject.harm.as_ref().filter(|_| !matches!(spec, PolicySpec::None)) {
        bail!("cannot apply {policy} to {}: {why}", mount_point.display());
    }
    let mut plan = ApplyPlan {
        mount_point: mount_point.clone(),
        fs_type: fs_type.clone(),
        policy: policy.to_owned(),
        edits: Vec::new(),
        remarks: Vec::new(),
    };
    let wanted = wanted_option(&spec, &subject);
    let (mounted, wanted, listed) = (mounted.as_ref(), wanted.as_deref(), !lines.is_empty());
    let discards = mounted.is_some_and(DiscardOption::is_on);
    if listed || matches!(spec, PolicySpec::Online) || matches!(spec, PolicySpec::None) && discards
    {
        let edit = fstab_edit(system, fstab, &plan, lines, wanted)?;
        plan.remarks.extend(edit.as_ref().and_then(|_| deciding_line(&plan, lines)));
        plan.edits.extend(edit);
    }
    plan.remarks.extend(remount(&plan, mounted, wanted));
    plan.remarks
        .extend((!listed && (wanted.is_some() || discards)).then(|| not_listed(&plan, wanted)));
    plan.remarks.extend(is_root.then(|| root_flags(system, wanted)).flatten());
    plan.remarks.extend(needs_discard(&spec, &subject).map(str::to_owned));
    let config = system.read(&system.config)?;
    let has_config = config.is_some() && system.root.is_live();
    let edit = config_edit(system, config, &spec, &plan)?;
    if has_config && (edit.is_some() || uses_daemon(&spec)) {
        plan.remarks.extend(require_accepted(&system.config)?);
    }
    plan.edits.extend(edit);
    let diagnosis = Doctor::new(&system.root)
        .ok()
        .and_then(|doctor| doctor.examine_path(&plan.mount_point).ok());
    plan.remarks.extend(units(system, &spec, &plan, diagnosis.as_ref()));
    plan.remarks.extend(diagnosis.as_ref().and_then(blocked));
    Ok(plan)
}

/// The filesystem mounted at `path`.
fn find(system: &System, fstab: &str, path: &Path) -> anyhow::Result<ApplySubject> {
    let mounts = mountinfo::read(&system.root).unwrap_or_default();
    if !system.root.is_live() && path.is_relative() {
        let what = format!("'{}' is not an absolute path", path.display());
        let hint = "with --sysroot, give the mount point as that system names it, such as /home";
        return Err(UsageError::new(what).hint(hint).into());
    }
    if system.root.is_live() || !mounts.is_empty() {
        let mount = mountinfo::of_path(&system.root, &mounts, path).map_err(|error| {
            of_named(error, path, "cannot find", "name a mount point of 'findmnt'")
        })?;
        let mount = mount
            .with_context(|| format!("'{}' is not on a mounted filesystem", path.display()))?;
        if mountinfo::without_links(&system.root, path)? != mount.mount_point {
            let (shown, point) = (path.display(), mount.mount_point.display());
            let what = format!(
                "'{shown}' is not a mount point: it is on the filesystem mounted at {point}"
            );
            return Err(UsageError::missing(what).hint(format!("give {point}")).into());
        }
        let same =
            mounts.iter().filter(|other| other.dev == mount.dev && other.fs_type == mount.fs_type);
        let mounted_at: Vec<PathBuf> = same.map(|other| other.mount_point.clone()).collect();
        let stack = Stack::of_mount(&system.root, &mounts, mount);
        let option = DiscardOption::of(mount);
        // The mount table does not show a default stored in the filesystem (tune2fs -o
        // discard).
        let hidden = !option.is_on() && doctor::discards_online(&system.root, mount, &stack);
        return Ok(ApplySubject {
            mount_point: mount.mount_point.clone(),
            fs_type: mount.fs_type.clone(),
            mounted: Some(if hidden { DiscardOption::On } else { option }),
            lines: fstab::lines_of(fstab, &mounted_at),
            is_root: mounted_at.iter().any(|point| point == Path::new("/")),
            discards_by_default: hidden || discards_by_default(&mount.fs_type),
            is_zoned: stack.layers.iter().any(|layer| layer.is_zoned(&system.root)),
            harm: harm(&system.root, mount, &stack),
        });
    }
    let plain: PathBuf = path.components().collect();
    let fs_type = fstab::fs_type(fstab, &plain).with_context(|| {
        format!("'{}' is not in {FSTAB}, and the mount table cannot be read", path.display())
    })?;
    let lines = fstab::lines_of(fstab, std::slice::from_ref(&plain));
    let is_root = plain == Path::new("/");
    let discards_by_default = discards_by_default(&fs_type);
    Ok(ApplySubject {
        mount_point: plain,
        fs_type,
        mounted: None,
        lines,
        is_root,
        discards_by_default,
        is_zoned: false,
        harm: None,
    })
}

/// True for filesystems that discard unless mounted with `nodiscard`: btrfs since Linux
/// 6.2.
fn discards_by_default(fs_type: &str) -> bool {
    matches!(fs_type, "btrfs" | "f2fs")
}

/// The discard option that the policy needs; `None` if none. Removes the option of
/// another policy, because two mechanisms on one filesystem only add cost.
fn wanted_option(spec: &PolicySpec, subject: &ApplySubject) -> Option<String> {
    let online = DiscardOption::online(&subject.fs_type).to_string();
    let is_online = matches!(spec, PolicySpec::Online) || needs_discard(spec, subject).is_some();
    match subject.discards_by_default {
        _ if is_online => Some(online),
        true => Some(DiscardOption::Off.to_string()),
        false => None,
    }
}

/// The reason why the option stays although the policy does not discard online.
fn needs_discard(spec: &PolicySpec, subject: &ApplySubject) -> Option<&'static str> {
    match (spec, subject.fs_type.as_str()) {
        (PolicySpec::Online, _) => None,
        (_, "f2fs") if subject.is_zoned => Some(
            "f2fs on a zoned drive cannot be mounted without the option discard, so \
                the option stays",
        ),
        (PolicySpec::None, _) => None,
        (_, "ntfs3") => Some(
            "ntfs3 refuses every trim (FITRIM) without the option discard, so the \
                policy needs that option",
        ),
        _ => None,
    }
}

fn fstab_edit(
    system: &System,
    fstab: Option<String>,
    plan: &ApplyPlan,
    lines: &[PathBuf],
    wanted: Option<&str>,
) -> anyhow::Result<Option<Edit>> {
    let (file, shown) = (system.shown(Path::new(FSTAB)), plan.mount_point.display());
    let text = fstab.with_context(|| {
        format!(
            "{file} does not exist; set the option {} in the configuration that mounts {shown}",
            wanted.unwrap_or("")
        )
    })?;
    ensure!(!lines.is_empty(), not_listed(plan, wanted));
    let mut after = text.clone();
    for line in lines {
        let stays = fstab::discard_option(&text, line).is_none_or(|option| option == "nodiscard");
        if wanted.is_some() || !stays {
            after = fstab::with_discard(&after, line, wanted).map_err(|_| {
                anyhow!("{} is in {file} more than once; remove one of the lines", line.display())
            })?;
        }
    }
    Ok((after != text).then(|| Edit { file: FSTAB.into(), before: Some(text), after: Some(after) }))
}

/// Remark about several lines for one filesystem, or about the line that decides for a
/// bind mount.
fn deciding_line(plan: &ApplyPlan, lines: &[PathBuf]) -> Option<String> {
    let above = |line: &&PathBuf| lines.iter().all(|other| other.starts_with(line));
    let deciding = lines.iter().find(above).or(lines.first())?.display();
    let all = lines.iter().map(|line| line.display().to_string()).collect::<Vec<_>>().join(", ");
    if lines.len() > 1 {
        let fs_type = &plan.fs_type;
        Some(format!(
            "the discard option applies to the whole {fs_type}: its lines for {all} \
                all get it; the line for {deciding} decides"
        ))
    } else if !lines.contains(&plan.mount_point) {
        let shown = plan.mount_point.display();
        Some(format!(
            "the line for {deciding} mounts the filesystem at {shown} and decides, \
                so it is the one changed"
        ))
    } else {
        None
    }
}

/// Remark if the kernel command line mounts the root filesystem with another option,
/// before fstab is read.
fn root_flags(system: &System, wanted: Option<&str>) -> Option<String> {
    let cmdline = system.root.read("/proc/cmdline")?;
    let flags =
        cmdline.split_ascii_whitespace().find_map(|word| word.strip_prefix("rootflags="))?;
    let option =
        flags.split(',').find(|option| option.trim_start_matches("no").starts_with("discard"))?;
    (option != wanted.unwrap_or("nodiscard")).then(|| {
        format!("rootflags on the kernel command line mounts / with {option}: change it there, too")
    })
}

/// Instructions if no line of fstab mounts the filesystem.
fn not_listed(plan: &ApplyPlan, wanted: Option<&str>) -> String {
    let (verb, option) = wanted.map_or(("remove", "discard"), |option| ("set", option));
    let sign = if wanted == Some("discard") { "" } else { "^" };
    let itself = format!(", or in the filesystem itself: tune2fs -o {sign}discard DEVICE");
    let itself = if plan.fs_type == "ext4" { &itself } else { "" };
    let shown = plan.mount_point.display();
    format!(
        "{shown} is not in {FSTAB}: {verb} the option {option} in the configuration \
            that mounts it (a mount unit, an automounter){itself}"
    )
}

const fn uses_daemon(spec: &PolicySpec) -> bool {
    !matches!(spec, PolicySpec::None | PolicySpec::Online)
}

/// Fails if the daemon refuses to start with the configuration at `path`. Returns remarks
/// about places that the daemon cannot use, but starts without.
fn require_accepted(path: &Path) -> anyhow::Result<Vec<String>> {
    let refuses = |why: &str| format!("the daemon refuses its configuration: {why}");
    let word = quoted(&path.display().to_string());
    let hint = format!("check it with: trimtab daemon --check --config {word}");
    let config = Config::read(path)
        .map_err(|error| UsageError::new(refuses(&error.to_string())).hint(hint.clone()))?;
    crate::daemon::check_state(&config.state)
        .map_err(|error| UsageError::missing(refuses(&one_line(&error))).hint(hint))?;
    let remark = |problem| format!("the daemon cannot publish its metrics: {problem}");
    Ok(crate::daemon::unusable_places(&config).into_iter().map(remark).collect())
}

/// The change of the daemon's configuration. A policy without the daemon is written only
/// to override another rule.
fn config_edit(
    system: &System,
    config: Option<String>,
    spec: &PolicySpec,
    plan: &ApplyPlan,
) -> anyhow::Result<Option<Edit>> {
    let begin = config.clone().unwrap_or_else(|| SHIPPED.to_owned());
    let parsed = Config::parse(&system.config, &begin)
        .map_err(|error| UsageError::new(error.to_string()))?;
    let is_so = |rule: &Rule| rule.policy == *spec;
    if !uses_daemon(spec) && parsed.rule_for(&plan.mount_point).is_none_or(is_so) {
        return Ok(None);
    }
    let after = config_text::with_policy(&system.config, &begin, &plan.mount_point, &plan.policy)?;
    let changed = config.as_ref() != Some(&after);
    Ok(changed.then(|| Edit { file: system.config.clone(), before: config, after: Some(after) }))
}

/// The remaining step until the mount option is in force.
fn remount(
    plan: &ApplyPlan,
    mounted: Option<&DiscardOption>,
    wanted: Option<&str>,
) -> Option<String> {
    let now = mounted?;
    let wanted = wanted.unwrap_or("nodiscard");
    if now.to_string() == wanted {
        return None;
    }
    let path = quoted(&plan.mount_point.display().to_string());
    let step = match plan.fs_type.as_str() {
        "xfs" => format!("unmount {path} and mount it again (a remount changes nothing on XFS)"),
        _ => format!("mount -o remount,{wanted} {path}"),
    };
    let now = if now.is_on() { format!("with {now}") } else { "without discard".to_owned() };
    Some(format!("not in force yet, because it is mounted {now}: {step}"))
}

/// Services that the policy needs, and services that conflict with it.
fn units(
    system: &System,
    spec: &PolicySpec,
    plan: &ApplyPlan,
    diagnosis: Option<&Diagnosis>,
) -> Vec<String> {
    let (own, timer) = doctor::trim_units(&system.root);
    let mut remarks = Vec::new();
    match spec {
        PolicySpec::None | PolicySpec::Online => {}
        _ if system.config != Path::new(DEFAULT_PATH) => remarks.push(format!(
            "the services read {DEFAULT_PATH}: start the daemon with trimtab daemon --config {}",
            quoted(&system.config.display().to_string())
        )),
        _ if own => {
            remarks.push("reload trimtab.service: systemctl reload trimtab.service".to_owned())
        }
        _ => remarks.push(doctor::boot_start(&system.root)),
    }
    if timer {
        let path = plan.mount_point.display();
        let visits = diagnosis.is_none_or(|diagnosis| {
            diagnosis.trimmed_by.iter().any(|by| by.starts_with("fstrim.timer"))
        });
        remarks.push(match visits {
            true => format!(
                "fstrim.timer is enabled and also trims {path}: stop it for all \
                    filesystems (systemctl disable --now fstrim.timer), or for this one \
                    (option X-fstrim.notrim on each of its lines in {FSTAB})"
            ),
            false => format!("fstrim.timer is enabled, but does not trim {path}"),
        });
    }
    remarks
}

/// Remark if TRIM is blocked, which no policy can change.
fn blocked(diagnosis: &Diagnosis) -> Option<String> {
    let verdict = &diagnosis.verdict;
    (verdict.kind == VerdictKind::Blocked)
        .then(|| format!("no policy helps yet: {} (run trimtab doctor for a remedy)", verdict.text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn edit(before: &str, after: &str) -> Edit {
        Edit { file: "/f".into(), before: Some(before.to_owned()), after: Some(after.to_owned()) }
    }

    #[test]
    fn configuration_in_directory_of_others_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("mine.toml");
        assert_eq!(
            named_file(&file).unwrap(),
            directory.path().canonicalize().unwrap().join("mine.toml")
        );
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(directory.path(), open).unwrap();
        let error = named_file(&file).unwrap_err().to_string();
        assert!(error.contains("others may write to it"), "{error}");
    }

    /// Once, 'apply' wrote to configurations with which the daemon does not start.
    #[test]
    fn configuration_that_daemon_refuses_is_refused_by_apply() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("mine.toml");
        let other = directory.path().join("other");
        std::fs::create_dir(&other).unwrap();
        let with = |mode: u32| {
            let text = format!("[daemon]\nstate = \"{}\"\n", other.join("state").display());
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            match require_accepted(&file) {
                Ok(remarks) => remarks.concat(),
                Err(error) => one_line(&error),
            }
        };
        assert_eq!(with(0o600), "");
        assert!(with(0o666).contains("writable by other users"));
        std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(with(0o600).contains("the daemon refuses its configuration"));
    }

    #[test]
    fn configuration_with_wrong_text_is_a_usage_error() {
        let tree = tempfile::tempdir().unwrap();
        let system = System::new(Some(tree.path()), Some(Path::new("/t.toml"))).unwrap();
        let plan = ApplyPlan {
            mount_point: "/mnt".into(),
            fs_type: "ext4".to_owned(),
            policy: "batched".to_owned(),
            edits: Vec::new(),
            remarks: Vec::new(),
        };
        let text = "[daemon]\nstate = \"rel\"\n".to_owned();
        let error = config_edit(&system, Some(text), &"batched".parse().unwrap(), &plan);
        assert!(error.unwrap_err().is::<UsageError>());
    }

    /// Once, 'apply' was silent about metrics that the daemon cannot publish.
    #[test]
    fn unusable_metrics_are_a_remark_of_apply() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("mine.toml");
        let place = directory.path().display();
        let with = |key: &str, value: &str| {
            std::fs::write(&file, format!("[daemon]\nstate = \"{place}\"\n{key} = \"{value}\"\n"))
                .unwrap();
            require_accepted(&file).unwrap()
        };
        let unusable = [
            ("metrics", format!("{place}/none/a.prom")),
            ("metrics-socket", format!("{place}/none/s")),
            ("metrics-socket", file.display().to_string()),
            ("metrics-socket", "/proc/s".to_owned()),
        ];
        let is_root = rustix::process::geteuid().is_root();
        for (key, value) in unusable.iter().filter(|(_, value)| is_root || value != "/proc/s") {
            let remarks = with(key, value);
            assert!(remarks.len() == 1 && remarks[0].contains(&format!("{key}: ")), "{remarks:?}");
        }
        assert_eq!(with("metrics", &format!("{place}/a.prom")), Vec::<String>::new());
    }

    #[test]
    fn diff_matches_diff_u() {
        let diff = edit("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nx\ny\n6\n7\n8\n9\n").diff();
        assert_eq!(diff, "--- /f\n+++ /f\n@@ -2,7 +2,8 @@\n 2\n 3\n 4\n-5\n+x\n+y\n 6\n 7\n 8\n");
        let new = Edit { file: "/f".into(), before: None, after: Some("a\n".into()) };
        assert_eq!(new.diff(), "--- /dev/null\n+++ /f\n@@ -0,0 +1,1 @@\n+a\n");
        assert_eq!(
            edit("a\na\n", "a\na\na\n").diff(),
            "--- /f\n+++ /f\n@@ -1,2 +1,3 @@\n a\n a\n+a\n"
        );
    }

    proptest! {
        #[test]
        fn diff_lines_come_from_old_and_new(old in "([ab]\n){0,12}", new in "([ab]\n){0,12}") {
            let diff = edit(&old, &new).diff();
            let body: Vec<&str> = diff.lines().skip(3).collect();
            let part = |marks: [char; 2]| body.iter().filter(|l| l.starts_with(marks)).map(|l| format!("{}\n", &l[1..])).collect::<String>();
            prop_assert!(old.contains(&part([' ', '-'])));
            prop_assert!(new.contains(&part([' ', '+'])));
        }
    }
}
