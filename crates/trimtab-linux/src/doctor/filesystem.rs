//! Discard behaviour of filesystems.

use super::keeper::MountManager;
use super::{
    Finding, Gate, LayerReport, Remedy, Severity, kernel_version, lifetime_counter, shown, word,
};
use crate::host::block;
use crate::host::block::Stack;
use crate::host::mountinfo::Mount;
use crate::host::root::Root;
use crate::sys::mount_check;
use std::path::Path;

/// The way a filesystem discards space as it frees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnlineDiscardMode {
    /// No online discard.
    Off,
    /// With each commit, or immediately.
    Sync,
    /// Later, in the background (btrfs `discard=async`).
    Async,
    /// By a thread that waits for idle time (f2fs).
    Thread,
}

/// Returns whether the filesystem takes FITRIM, which fstrim and trimtab use, as of Linux
/// 6.12; `None` for an unknown type. Those that do also have the mount option `discard`
/// or an equivalent.
pub fn takes_fitrim(fs_type: &str) -> Option<bool> {
    match fs_type {
        "ext4" | "ext3" | "ext2" | "xfs" | "btrfs" | "f2fs" | "exfat" | "vfat" | "ntfs3"
        | "jfs" | "nilfs2" | "ocfs2" | "gfs2" => Some(true),
        "ntfs" | "hfs" | "hfsplus" | "ufs" | "minix" | "udf" | "reiserfs" | "affs" => Some(false),
        _ => None,
    }
}

/// Returns true only for filesystem types known to discard.
pub fn can_discard(fs_type: &str) -> bool {
    takes_fitrim(fs_type) == Some(true)
}

/// The storage behind a filesystem that is on no block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NonBlockStorage {
    Memory,
    /// A server on another machine.
    Machine,
    Overlay,
    /// Other filesystems of this machine, to which it passes every operation.
    Filesystems,
    /// A read-only file.
    Image,
}

impl NonBlockStorage {
    /// Derives it from the type; `None` if unknown.
    pub fn of(fs_type: &str, source: &Path) -> Option<Self> {
        Some(match fs_type {
            "tmpfs" | "ramfs" | "devtmpfs" | "proc" | "sysfs" | "cgroup" | "cgroup2"
            | "hugetlbfs" | "fuse.lxcfs" | "fuse.portal" | "fuse.gvfsd-fuse" | "fuse.kio-fuse"
            | "fusectl" => Self::Memory,
            "nfs" | "nfs4" | "cifs" | "smb3" | "9p" | "virtiofs" | "ceph" | "glusterfs" | "afs"
            | "lustre" | "fuse.sshfs" | "fuse.rclone" | "fuse.s3fs" | "fuse.glusterfs"
            | "fuse.ceph" | "fuse.ceph-fuse" | "fuse.curlftpfs" | "fuse.davfs"
            | "fuse.vmhgfs-fuse" | "vboxsf" => Self::Machine,
            "overlay" | "fuse.fuse-overlayfs" => Self::Overlay,
            "ecryptfs" | "fuse.bindfs" | "fuse.mergerfs" | "fuse.mhddfs" | "fuse.unionfs"
            | "fuse.unionfs-fuse" | "fuse.encfs" | "fuse.gocryptfs" | "fuse.cryfs"
            | "fuse.securefs" | "fuse.rofiles-fuse" | "fuse.snapraid" => Self::Filesystems,
            // bindfs reports no subtype; its source is the directory that it mirrors.
            "fuse" if source.is_absolute() && !source.starts_with("/dev") => Self::Filesystems,
            "fuse.squashfuse" | "fuse.squashfuse_ll" | "fuse.snapfuse" | "fuse.archivemount"
            | "fuse.fuseiso" | "fuse.erofsfuse" => Self::Image,
            _ => return None,
        })
    }
}

/// The reason why a filesystem type does not benefit from discards.
fn without_use(fs_type: &str) -> Option<&'static str> {
    match fs_type {
        "squashfs" | "erofs" | "iso9660" | "cramfs" | "romfs" => Some(READ_ONLY_IMAGE),
        "jffs2" | "ubifs" | "yaffs" | "yaffs2" => {
            Some("it is on raw flash memory, which it erases itself")
        }
        _ => None,
    }
}

/// A read-only image never frees space.
const READ_ONLY_IMAGE: &str = "a read-only image: nothing becomes free";

/// A report with only the information of the mount table.
fn blank(mount: &Mount, stack: &Stack) -> LayerReport {
    let mut report =
        LayerReport::blank(shown(&mount.mount_point), mount.fs_type.clone(), stack.tops.clone());
    report.evidence.add("source", shown(&mount.source));
    report.evidence.add("options", mount.options_once());
    report
}

/// Code of the finding about a filesystem whose support only a trial trim can show.
pub const UNTRIED: &str = "fs.fuse-untried";
/// Code of the finding about a filesystem that does not respond.
pub const SILENT: &str = "fs.does-not-answer";

/// Reports a filesystem that does not respond.
pub fn silent(root: &Root, mount: &Mount, stack: &Stack) -> LayerReport {
    let mut report = blank(mount, stack);
    report.why = format!("it does not answer within {} s", mount_check::PATIENCE.as_secs());
    let place = word(&mount.mount_point);
    let remedy = match mount.fs_type.as_str() {
        _ if block::is_virtual_ssd(mount) => silent_drive(root, &mount.mount_point),
        fuse if fuse.starts_with("fuse") => {
            let abort = format!("/sys/fs/fuse/connections/{}/abort", mount.dev.minor);
            Remedy::by_hand(
                "end its FUSE server; or detach it, and lose what it has not written yet",
            )
            .then_run(format!("echo 1 > {abort}"))
            .then_run(format!("umount --lazy {place}"))
        }
        "nfs" | "nfs4" | "cifs" | "smb3" | "9p" | "ceph" => Remedy::by_hand(
            "bring its server back; or detach it, and lose what it has not written yet",
        )
        .then_run(format!("umount --force --lazy {place}")),
        _ => Remedy::run("journalctl --dmesg").then("look there for errors of the drive"),
    };
    report.serious(SILENT, "the filesystem does not answer: its server or drive hangs", remedy);
    report
}

/// The remedy for a virtual SSD whose server does not respond. Ending the server loses data
/// of the filesystems on the drive, so it is never a command.
pub fn silent_drive(root: &Root, mount_point: &Path) -> Remedy {
    // The server creates drives/ID/mnt, and its record beside it.
    let home = mount_point.parent().unwrap_or(mount_point);
    let id = word(Path::new(home.file_name().unwrap_or_default()));
    let record = root.read(home.join("record.json")).unwrap_or_default();
    let record: serde_json::Value = serde_json::from_str(&record).unwrap_or_default();
    let remedy = match record["pid"].as_u64() {
        Some(pid) => Remedy::run(format!("kill -CONT {pid}")),
        None => Remedy::run(format!("trimtab drive status {id}"))
            .then("continue the process that it names: kill -CONT PID"),
    };
    remedy.then(format!(
        "only if it still does not answer: end that process, which loses what is not written \
            to its data file, and run 'trimtab drive detach --force {id}'"
    ))
}

/// Judges the filesystem itself.
pub fn judge(root: &Root, mount: &Mount, stack: &Stack) -> LayerReport {
    let mut report = blank(mount, stack);
    if let Some(why) = without_use(&mount.fs_type) {
        report.set(Gate::NotNeeded, why);
        return report;
    }
    if stack.layers.is_empty() {
        on_no_device(mount, &mut report);
        return report;
    }
    let online = online(root, mount, stack);
    let unrecovered = unrecovered(mount);
    match takes_fitrim(&mount.fs_type) {
        Some(true) if unrecovered.is_some() => {
            not_recovered(mount, unrecovered.unwrap_or_default(), online, &mut report);
        }
        Some(true) if mount.fs_type == "ntfs3" && online == OnlineDiscardMode::Off => {
            let why = "ntfs3 refuses every trim (FITRIM) unless it is mounted with discard";
            report.block("ntfs3.no-discard", why, remounted(root, mount, "discard"));
        }
        Some(true) => {
            report.set(
                Gate::Passes,
                format!("can be trimmed (FITRIM); online discard is {}", online_words(online)),
            );
        }
        Some(false) => {
            let remedy =
                Remedy::by_hand("use another filesystem, or leave part of the drive unused");
            report.block("fs.no-discards", "this filesystem driver discards nothing", remedy);
        }
        None if mount.fs_type == "fuseblk" => {
            report.why = "a FUSE driver: only a trim shows whether it discards (ntfs-3g does, \
                exfat-fuse does not)"
                .to_owned();
            let remedy = Remedy::run(format!("trimtab trim {}", word(&mount.mount_point)));
            let text = "unknown until a trim is tried: trimtab trim counts what reaches the drive";
            report.caution(UNTRIED, text, remedy);
        }
        None => report.why = "not known whether this filesystem discards what it frees".to_owned(),
    }
    match mount.fs_type.as_str() {
        "ext4" | "ext3" | "ext2" => ext4(root, mount, stack, online, &mut report),
        "xfs" => xfs(root, mount, &mut report),
        "btrfs" => btrfs(root, mount, online, &mut report),
        "f2fs" => f2fs(online, &mut report),
        "ntfs3" => {
            let text = "only a trim of the whole filesystem is safe: asked for a range (fstrim \
                --offset or --length), Linux discards what is in use; it blocks the \
                filesystem until done, and suspend with it";
            report.note("fs.trim-whole-only", text);
        }
        _ => {}
    }
    report
}

/// Filesystem types, and the options that mount them without their journal or log. The
/// kernel then refuses FITRIM with EROFS, since the free-block map may be older than the
/// files (`ext4_ioctl`, `xfs_ioc_trim`, `btrfs_ioctl_fitrim`, `gfs2_fitrim`).
const UNRECOVERED: [(&str, &[&str]); 5] = [
    ("ext4", &["noload", "norecovery"]),
    ("ext3", &["noload", "norecovery"]),
    ("xfs", &["norecovery"]),
    ("btrfs", &["nologreplay", "norecovery", "rescue=nologreplay", "rescue=all"]),
    ("gfs2", &["norecovery", "spectator"]),
];

/// The mount option that blocks FITRIM. btrfs lists all its rescue options in one value.
fn unrecovered(mount: &Mount) -> Option<&str> {
    let (_, names) = UNRECOVERED.iter().find(|(fs_type, _)| *fs_type == mount.fs_type)?;
    let is_one = |option: &&str| {
        let listed = option
            .strip_prefix("rescue=")
            .map(|list| list.split(':').map(|one| format!("rescue={one}")).collect());
        listed
            .unwrap_or_else(|| vec![(*option).to_owned()])
            .iter()
            .any(|one| names.contains(&one.as_str()))
    };
    mount.all_options().find(is_one)
}

/// Reports a mount without journal or log. Online discard continues if the filesystem is
/// writable.
fn not_recovered(mount: &Mount, option: &str, online: OnlineDiscardMode, report: &mut LayerReport) {
    let (gate, severity) = match online != OnlineDiscardMode::Off && mount.is_writable() {
        true => (Gate::Passes, Severity::Caution),
        false => (Gate::Blocks, Severity::Serious),
    };
    report.gate = gate;
    report.why = format!(
        "mounted with {option}, without its journal: the kernel refuses every trim (FITRIM) of it"
    );
    let remedy = Remedy::by_hand(format!(
        "unmount it, and mount it again without {option} once its data are safe"
    ));
    report
        .findings
        .push(Finding::new("fs.no-recovery", severity, report.why.clone()).remedy(remedy));
}

/// Remounts with an option now, and sets it for later mounts.
fn remounted(root: &Root, mount: &Mount, option: &str) -> Remedy {
    let point = word(&mount.mount_point);
    let kept = MountManager::of(root, mount).keeping(mount, option);
    kept.after(Remedy::run(format!("mount -o remount,{option} {point}")))
}

fn online_words(online: OnlineDiscardMode) -> &'static str {
    match online {
        OnlineDiscardMode::Off => "off",
        OnlineDiscardMode::Sync => "on",
        OnlineDiscardMode::Async => "on (asynchronous)",
        OnlineDiscardMode::Thread => "on (in idle time)",
    }
}

fn on_no_device(mount: &Mount, report: &mut LayerReport) {
    let why = match NonBlockStorage::of(&mount.fs_type, &mount.source) {
        Some(NonBlockStorage::Memory) => return report.set(Gate::NotNeeded, "not on a drive"),
        Some(NonBlockStorage::Image) => return report.set(Gate::NotNeeded, READ_ONLY_IMAGE),
        Some(NonBlockStorage::Machine) => "on another machine: ask there",
        Some(NonBlockStorage::Overlay) => {
            "an overlay: ask about the filesystem that holds its upper directory"
        }
        Some(NonBlockStorage::Filesystems) => {
            if mount.source.is_absolute() {
                let remedy = Remedy::run(format!("trimtab doctor {}", word(&mount.source)));
                let text = "its files are those of another filesystem, which is to be asked about";
                report.caution("fs.passes-through", text, remedy);
            }
            "its files are those of another filesystem: ask about that"
        }
        None if mount.fs_type == "zfs" => {
            "ZFS manages its drives itself: zpool status -t, zpool trim, zpool set autotrim=on"
        }
        None => "no block device is known for it",
    };
    report.why = why.to_owned();
}

/// The online discard mode, from the options in force.
pub fn online(root: &Root, mount: &Mount, stack: &Stack) -> OnlineDiscardMode {
    match mount.fs_type.as_str() {
        "ext4" | "ext3" | "ext2" => {
            // mountinfo omits the filesystem's stored default (tune2fs -o discard); this
            // file includes it.
            match root.read(Path::new("/proc/fs/ext4").join(device_name(stack)).join("options")) {
                Some(options) if options.lines().any(|l| l.trim() == "discard") => {
                    OnlineDiscardMode::Sync
                }
                Some(_) => OnlineDiscardMode::Off,
                None => plain(mount),
            }
        }
        "btrfs" if mount.option_value("discard") == Some("async") => OnlineDiscardMode::Async,
        "f2fs" if mount.has_option("discard") => OnlineDiscardMode::Thread,
        _ => plain(mount),
    }
}

/// Kernel name of the filesystem's first device.
fn device_name(stack: &Stack) -> &str {
    stack.top_layers().next().map(|top| top.name.as_str()).unwrap_or_default()
}

fn plain(mount: &Mount) -> OnlineDiscardMode {
    if mount.has_option("discard") { OnlineDiscardMode::Sync } else { OnlineDiscardMode::Off }
}

fn ext4(
    root: &Root,
    mount: &Mount,
    stack: &Stack,
    online: OnlineDiscardMode,
    report: &mut LayerReport,
) {
    let device = device_name(stack);
    let sys = Path::new("/sys/fs/ext4").join(device);
    report.evidence.add_some("lifetime_write_kbytes", root.read(lifetime_counter("ext4", device)));
    report.evidence.add_some("last_trim_minblks", root.read(sys.join("last_trim_minblks")));
    if online == OnlineDiscardMode::Sync && !mount.has_option("discard") {
        let text = "online discard is a default of this filesystem (tune2fs -o discard): mount \
            shows nothing of it";
        report.note("ext4.discard-by-default", text);
    }
    if online == OnlineDiscardMode::Sync && kernel_version(root).is_some_and(|v| v >= (5, 15)) {
        let text = "online discard sends freed space together with adjoining free space of its \
            block group; deleting many files sends the same space many times";
        report.note("ext4.discard-amplification", text);
    }
}

fn xfs(root: &Root, mount: &Mount, report: &mut LayerReport) {
    // See `xfs_ioc_trim` and the freeing of realtime extents.
    let skips_realtime = kernel_version(root).is_some_and(|version| version < (6, 11));
    if report.gate == Gate::Passes && skips_realtime && mount.option_value("rtdev").is_some() {
        let why = "this kernel's XFS sends no discards to the realtime device (rtdev)";
        report.block(
            "xfs.realtime-not-trimmed",
            why,
            Remedy::by_hand("use Linux 6.11 or later, which trims both devices"),
        );
    }
    if kernel_version(root).is_some_and(|v| v >= (6, 10)) {
        let text = "on this kernel a plain fstrim skips most small free extents; trimtab trim \
            goes by allocation groups and sends them all";
        report.note("xfs.fstrim-incomplete", text);
    }
}

fn btrfs(root: &Root, mount: &Mount, online: OnlineDiscardMode, report: &mut LayerReport) {
    match online {
        OnlineDiscardMode::Sync => {
            let text = "discard without =async discards within each commit: deleting much can \
                stall for minutes";
            report.caution("btrfs.sync-discard", text, remounted(root, mount, "discard=async"));
        }
        OnlineDiscardMode::Async => {
            let text = "discard=async leaves metadata out; an occasional trim of everything is \
                still of use";
            report.note("btrfs.async-data-only", text);
        }
        _ => {}
    }
}

fn f2fs(online: OnlineDiscardMode, report: &mut LayerReport) {
    if online == OnlineDiscardMode::Thread {
        let text = "mounted with discard (the default), fstrim sends nothing: f2fs takes note \
            of it and sends when the device has been idle";
        report.note("f2fs.sends-later", text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::mountinfo;

    /// Once, the doctor proposed to abort the connection, which loses the data on the drive.
    #[test]
    fn silent_virtual_ssd_is_continued_and_never_aborted() {
        let tree = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let file = tree.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        let mount = |fs_type: &str, source: &str| {
            format!("9 1 0:9 / /run/trimtab/drives/mine/mnt rw - {fs_type} {source} rw\n")
        };
        write("run/trimtab/drives/mine/record.json", "{\"pid\": 4711}");
        for (fs_type, source, is_ours) in [
            ("fuse.trimtab", "trimtab", true),
            ("fuse", "trimtab", true),
            ("fuse.sshfs", "a:/b", false),
        ] {
            write("proc/self/mountinfo", &mount(fs_type, source));
            let root = Root::recorded(tree.path()).unwrap();
            let mounts = mountinfo::read(&root).unwrap();
            let report = silent(&root, &mounts[0], &Stack::default());
            let remedy = report.findings[0].remedy.as_ref().unwrap().line();
            assert_eq!(remedy.contains("abort"), !is_ours, "{remedy}");
            assert_eq!(remedy.contains("umount --lazy"), !is_ours, "{remedy}");
            assert_eq!(remedy.starts_with("kill -CONT 4711;"), is_ours, "{remedy}");
        }
    }
}
