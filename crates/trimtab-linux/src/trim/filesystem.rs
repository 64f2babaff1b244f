//! A mounted filesystem that can be trimmed in windows, each of them counted on its devices.

mod by_size;

pub use by_size::{BySize, ByWhich};

use super::activity::{Activity, Look, OwnWrites};
use super::drain::Drain;
use super::ext4::{self, LastTrim};
use super::fitrim::{self, fitrim};
use super::free_space::{Counting, Known, Sendable, first_commands, sendable};
use super::kernel_log::KernelLog;
use super::layout::{Layout, binary};
use super::limit::CommandLimit;
use super::watch::{Seen, Watch};
use super::xfs;
use crate::doctor::{Diagnosis, Doctor};
use crate::host::block::Stack;
use crate::host::discards::{Counts, Meter};
use crate::host::identity;
use crate::host::interference::watched;
use crate::host::mountinfo::{self, Mount};
use crate::host::root::Root;
use crate::host::stat::StatFile;
use crate::sys::mount_check;
use anyhow::{Context as _, bail};
use rustix::fd::{AsFd as _, BorrowedFd};
use rustix::io::Errno;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_sim::policy::TrimRequest;
use trimtab_sim::target::{TrimOutcome, TrimWindow};

/// A window that may have been cut short is trimmed again at most this often.
const REPEATS_MAX: u32 = 4;

/// How long to wait for discards of which nothing has been counted.
const LATE: Duration = Duration::from_secs(2);
/// Finding out where free space is may take this long. ext4 lists the metadata of all groups each time.
const MAP_MAX: Duration = Duration::from_millis(100);
/// So often in a row.
const SLOW_MAX: u32 = 4;

/// Why a window could not be trimmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The system's error.
    pub errno: Errno,
    /// The request was cut short, and again when it was repeated.
    pub cut_short: bool,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.errno {
            _ if self.cut_short => {
                f.write_str("cut short again and again (process frozen or system suspended); repeat the trim once it runs freely")
            }
            Errno::PERM | Errno::ACCESS => f.write_str("trimming (FITRIM) needs root; run it with sudo"),
            Errno::NOTTY | Errno::NOSYS => f.write_str("this kind of filesystem cannot trim (it has no FITRIM)"),
            Errno::OPNOTSUPP => f.write_str("the device below takes no discards (see trimtab doctor)"),
            Errno::ROFS => f.write_str("refused: mounted without replaying the journal (norecovery); mount it without that option"),
            _ if self.is_gone() => f.write_str("the filesystem or its device is gone; mount it again and repeat the trim"),
            errno => write!(f, "{}", std::io::Error::from(errno)),
        }
    }
}

impl Refused {
    /// The filesystem, or the device below it, is not there any more.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        !self.cut_short && matches!(self.errno, Errno::NODEV | Errno::NXIO | Errno::NOENT)
    }

    /// No other window will do better.
    #[must_use]
    pub fn is_final(&self) -> bool {
        const FINAL: [Errno; 7] = [Errno::PERM, Errno::ACCESS, Errno::NOTTY, Errno::NOSYS, Errno::OPNOTSUPP, Errno::ROFS, Errno::BADF];
        self.is_gone() || (!self.cut_short && FINAL.contains(&self.errno))
    }
}

/// What a window's trim did, and what others had of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowTrim {
    /// As policies want it.
    pub outcome: TrimOutcome,
    /// What each layer counted, with what earlier requests had left in flight.
    pub layers: Counts,
    /// What was seen meanwhile.
    pub seen: Seen,
    /// What the device counted above what the filesystem says it sent. No error: the filesystem's own discards may still have been on
    /// their way, and some layers count twice.
    pub excess: Bytes,
}

/// A mounted filesystem under trim.
#[derive(Debug)]
pub struct Filesystem {
    root: Root,
    mount: Mount,
    /// Names the filesystem, also a copy of it on another device.
    name: String,
    id: String,
    stack: Stack,
    /// `None` while released.
    file: Option<File>,
    layout: Layout,
    meter: Meter,
    drain: Drain,
    /// Discards may be in flight although the request is over.
    pending: bool,
    /// What was counted since.
    late: Counts,
    /// Discards of requests that failed were counted, and some of them may have arrived.
    unsure: bool,
    watch: Watch,
    limit: CommandLimit,
    activity: Activity,
    kernel_log: KernelLog,
    ext4: Option<Ext4>,
    /// How often in a row finding out where free space is has taken too long; after [`SLOW_MAX`] times it is not done again. Once is chance: another process may have
    /// had the processor.
    slow_maps: u32,
    /// What was asked for by size.
    asked: by_size::Asked,
    /// What it said of free space a moment ago.
    known: Known,
    /// The last request by size was put off, to find out what is free.
    put_off: bool,
}

/// Opens the mount point; `None` if something else is mounted there by now.
fn open_mount(mount: &Mount) -> Result<Option<File>, Errno> {
    use rustix::fs::{CWD, Mode, OFlags, openat};
    let file = File::from(openat(CWD, &mount.mount_point, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?);
    let same = mountinfo::mount_id_of(&file).is_none_or(|id| id == mount.id);
    Ok(same.then_some(file))
}

#[derive(Debug)]
struct Ext4 {
    last: LastTrim,
    block_size: u64,
    /// When it was made, seconds since 1970.
    made: u32,
    granularity: u64,
    /// It discards by itself too.
    online: bool,
    /// Each window has to be forgotten first, because this pass goes below the least extent of the last one.
    forget: bool,
}

impl Filesystem {
    /// Opens the filesystem that `path` is on; `path` need not be its mount point.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        mount_check::require_answers(&[path])?;
        let root = Root::live().context("cannot open /")?;
        let mounts = mountinfo::read(&root).context("cannot read the mount table")?;
        let mount = mountinfo::of_path(&root, &mounts, path).with_context(|| format!("cannot find '{}'", path.display()))?;
        let not_here =
            "not in the mount table of this process; run it in the mount namespace that this filesystem is mounted in (nsenter --mount)";
        let mount = mount.cloned().with_context(|| format!("the mount of '{}' is {not_here}", path.display()))?;
        let stack = Stack::of_mount(&root, &mounts, &mount);
        Self::of_mount(root, mount, stack)
    }

    fn of_mount(root: Root, mount: Mount, stack: Stack) -> anyhow::Result<Self> {
        let shown = mount.mount_point.display().to_string();
        if stack.tops.is_empty() {
            if mount.source.starts_with("/dev") {
                bail!(
                    "{shown} ({}) is on {}, of which /sys says nothing: run it where /sys is that of this machine",
                    mount.fs_type,
                    mount.source.display()
                );
            }
            bail!(
                "{shown} ({}) is not on a block device, so there is nothing to trim; name a filesystem that is (findmnt --real)",
                mount.fs_type
            );
        }
        let file = open_mount(&mount).map_err(std::io::Error::from).with_context(|| format!("cannot open {shown}"))?;
        let Some(file) = file else {
            bail!("{shown} is covered by another mount; unmount that, or name another mount point of the filesystem (findmnt)")
        };
        let layout = Layout::read(&root, &mount, &stack, &file)?;
        let stat = |stack: &Stack| watched(stack).and_then(|l| StatFile::open(&root, &l.sys).ok());
        let ext4 = Ext4::of(&root, &mount, &stack);
        let name = name_for_good(&mount, &file);
        Ok(Self {
            meter: Meter::of_stack(Root::live().context("cannot open /")?, stack.clone()),
            drain: Drain::of(&mount.fs_type),
            pending: false,
            late: Counts::default(),
            unsure: false,
            watch: Watch::start(stat(&stack)).context("cannot start a thread")?,
            limit: CommandLimit::of_stack(&root, &stack),
            activity: Activity::new(Root::live().context("cannot open /")?, stat(&stack), OwnWrites::of(&mount, &stack)),
            kernel_log: KernelLog::of_stack(&stack),
            id: format!("{name}-{}", identity(&root, &stack, ext4.as_ref())),
            name,
            root,
            mount,
            stack,
            file: Some(file),
            layout,
            ext4,
            slow_maps: 0,
            asked: by_size::Asked::default(),
            known: Known::default(),
            put_off: false,
        })
    }

    /// The mount.
    #[must_use]
    pub fn mount(&self) -> &Mount {
        &self.mount
    }

    /// Open on it; opened anew if it was released.
    pub fn file(&mut self) -> Result<BorrowedFd<'_>, Errno> {
        if self.file.is_none() {
            // Numbers of mounts and devices are used again; the name is not.
            let file = open_mount(&self.mount)?.filter(|file| name_for_good(&self.mount, file) == self.name);
            self.file = Some(file.ok_or(Errno::NODEV)?);
        }
        self.file.as_ref().map(|f| f.as_fd()).ok_or(Errno::NODEV)
    }

    fn map_is_slow(&self) -> bool {
        self.slow_maps >= SLOW_MAX
    }

    fn map_took(&mut self, took: Duration) {
        self.slow_maps = if took > MAP_MAX { self.slow_maps.saturating_add(1) } else { 0 };
    }

    /// Lets go of the filesystem, so that it can be unmounted. The next request opens it anew, if it is still there.
    pub fn release(&mut self) {
        self.file = None;
    }

    /// The devices below.
    #[must_use]
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// Where `/sys` is read from.
    #[must_use]
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// The windows.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Reads the windows again: btrfs makes and drops chunks.
    pub fn refresh(&mut self) -> anyhow::Result<()> {
        let shown = self.mount.mount_point.display().to_string();
        self.file().map_err(std::io::Error::from).with_context(|| format!("cannot open {shown}"))?;
        if let Some(file) = &self.file {
            self.layout = Layout::read(&self.root, &self.mount, &self.stack, file)?;
        }
        self.known.forget();
        Ok(())
    }

    /// Names this filesystem on these devices of this machine, also after a reboot and at other mount points. A copy of it elsewhere has
    /// another id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Free space.
    pub fn free(&self) -> Result<Bytes, Errno> {
        let stat = match &self.file {
            Some(file) => rustix::fs::fstatvfs(file)?,
            None => rustix::fs::statvfs(&self.mount.mount_point)?,
        };
        Ok(Bytes(stat.f_bfree.saturating_mul(stat.f_frsize)))
    }

    /// What is in the way of trimming, if anything is. Discards nothing.
    #[must_use]
    pub fn obstacle(&mut self) -> Option<fitrim::Obstacle> {
        let mount = self.mount.clone();
        let unasked = mount.fs_type == "ntfs3" && fitrim::devices_take_none(&self.root, &self.stack);
        match self.file() {
            Ok(file) => fitrim::obstacle(Some(&mount), file).or(unasked.then_some(fitrim::Obstacle::Device)),
            Err(errno) => Some(fitrim::Obstacle::Other(errno)),
        }
    }

    /// Whether every device below counts discards.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.meter.count().is_some()
    }

    /// What the doctor says about it now.
    pub fn diagnosis(&self) -> std::io::Result<Diagnosis> {
        let (mount, stack) = (self.mount.clone(), self.stack.clone());
        mount_check::in_time(move || Ok(Doctor::new(&Root::live()?)?.examine_mount(&mount, &stack)))?
    }

    /// Its FITRIM only takes note of what is free; a thread of its own sends it later, when the device is idle (f2fs with its discard
    /// option).
    #[must_use]
    pub fn sends_later(&self) -> bool {
        sends_later(&self.root, &self.mount, &self.stack)
    }

    /// Why the filesystem would refuse every request with this least extent; `None` if it would not.
    #[must_use]
    pub fn refuses_min_extent(&self, min_extent: Bytes) -> Option<String> {
        let group = self.layout.group.filter(|group| min_extent > *group)?;
        Some(format!(
            "a least extent of {min_extent} is larger than an allocation group of {}, and {} takes none",
            binary(group.0),
            self.mount.fs_type
        ))
    }

    /// Gets ready for a pass with this least extent. `forget` says that an interrupted pass had to make ext4 forget.
    /// True if this one has to.
    pub fn prepare(&mut self, min_extent: Bytes, forget: bool) -> bool {
        let Some(ext4) = &mut self.ext4 else { return false };
        let least = ext4::least_blocks(min_extent, ext4.granularity, ext4.block_size);
        let last = ext4.last.blocks(&self.root).unwrap_or(0);
        ext4.forget = forget || least < last;
        ext4.forget
    }

    /// The least extent of the last trim as ext4 keeps it, in blocks.
    #[must_use]
    pub fn last_least(&self) -> Option<u64> {
        self.ext4.as_ref()?.last.blocks(&self.root)
    }

    /// Puts that back after only a part of the filesystem was trimmed with a smaller one. A larger one stays, or the groups of this part would
    /// count as trimmed with the smaller one before.
    pub fn restore_least(&self, blocks: Option<u64>) {
        if let (Some(ext4), Some(blocks)) = (&self.ext4, blocks) {
            let now = ext4.last.blocks(&self.root).filter(|now| *now < ext4::FORGOTTEN);
            if now.is_none_or(|now| now < blocks) {
                let _ = ext4.last.restore(blocks);
            }
        }
    }

    /// Bounds single discard commands of the following windows. Call while holding the drives' locks.
    pub fn limit_commands(&mut self, most: Bytes) -> std::io::Result<()> {
        self.limit.set(most)
    }

    /// Gives the devices back the limits that they had, and says which are not what they were.
    pub fn unlimit_commands(&mut self) -> Vec<String> {
        // A device that is gone has no limit.
        let _ = self.limit.put_back();
        self.limit.remarks().collect()
    }

    /// Gives the devices back the limits that other processes left lowered; see [`CommandLimit::recover`].
    #[must_use]
    pub fn recover_limits(&mut self) -> Vec<PathBuf> {
        self.limit.recover()
    }

    /// The part of the window from its start that is trimmed by as many commands as are asked for; all of it where that is not
    /// known. A part of an ext4 group does not count as trimmed, so nothing of it is lost, but the next pass sends it again.
    pub fn first_commands(&mut self, request: &TrimRequest) -> TrimWindow {
        let window = request.window;
        let divisible = self.layout.granule < Bytes::MAX;
        let known = divisible || self.layout.tail < Bytes::MAX;
        if request.commands_max == 0 || !known || !matches!(self.mount.fs_type.as_str(), "xfs" | "ext4" | "ext3" | "ext2") {
            return window;
        }
        if self.map_is_slow() {
            return window;
        }
        let least = request.min_extent.0.max(self.ext4.as_ref().map_or(0, |e| e.granularity));
        let counting = Counting { least, command_max: request.command_max.0, commands_max: request.commands_max };
        let device = self.mount.dev;
        let started = Instant::now();
        // It reads bitmaps, as trims do.
        self.activity.before_trim();
        let first = self.file().and_then(|file| first_commands(file, device, window, counting));
        self.activity.after_trim();
        self.map_took(started.elapsed());
        let Some(first) = first.ok().filter(|first| first.len > 0) else { return window };
        if divisible {
            let granule = self.layout.granule.0.max(1);
            return TrimWindow { len: first.len.div_ceil(granule).saturating_mul(granule).min(window.len), ..first };
        }
        first
    }

    /// Makes free what has been deleted until now, and says how long that took; see [`super::commit`].
    pub fn commit(&mut self) -> Result<Nanos, Errno> {
        let started = Instant::now();
        let kind = self.mount.fs_type.clone();
        super::commit::commit(self.file()?, &kind)?;
        Ok(nanos(started.elapsed()))
    }

    /// What a trim of these windows would send, where the filesystem says where its free space lies (ext4, XFS). `true` if it may be less:
    /// ext4 passes over groups that were trimmed since it was mounted and where nothing has been freed, and does not show which. That is
    /// not so where nothing has been trimmed yet, or only with a larger least extent.
    pub fn would_send(&mut self, windows: &[TrimWindow], min_extent: Bytes) -> Option<(Sendable, bool)> {
        if !matches!(self.mount.fs_type.as_str(), "xfs" | "ext4" | "ext3" | "ext2") {
            return None;
        }
        let granularity = self.stack.top_layers().filter_map(|l| self.root.read_u64(l.queue().join("discard_granularity"))).max();
        let least = min_extent.0.max(granularity.unwrap_or(0));
        let at_most = self.mount.fs_type != "xfs" && self.ext4.as_ref().is_none_or(|ext4| ext4.may_pass_over(&self.root, min_extent));
        let device = self.mount.dev;
        sendable(self.file().ok()?, device, windows, least).ok().map(|sendable| (sendable, at_most))
    }

    /// Whether ext4, asked for the first commands of a group, had nothing to send: it takes the group for trimmed, and the rest of it too.
    /// Else what was free there was used meanwhile, and the next pass sees to the rest, since the group is not taken for trimmed then.
    #[must_use]
    pub fn has_nothing_for(&self, request: &TrimRequest, outcome: &TrimOutcome) -> bool {
        let one_group = self.layout.group.is_some_and(|group| request.window.len <= group.0);
        let nothing = outcome.returned == Bytes::ZERO && outcome.counted.is_none_or(|counted| counted.count == 0);
        self.ext4.is_some() && one_group && nothing && !request.trial
    }

    /// Trims `window`, and waits until its discards are done.
    pub fn trim(&mut self, window: TrimWindow, min_extent: Bytes) -> Result<WindowTrim, Refused> {
        let mut sum: Option<WindowTrim> = None;
        for _ in 0..=REPEATS_MAX {
            let one = self.trim_once(window, min_extent)?;
            let again = one.seen.maybe_frozen;
            sum = Some(match sum {
                None => one,
                Some(before) => add(&before, one),
            });
            if !again {
                break;
            }
        }
        match sum {
            Some(trim) if !trim.seen.maybe_frozen => Ok(trim),
            _ => Err(Refused { errno: Errno::INTR, cut_short: true }),
        }
    }

    /// One request; a second one where the first may have failed and the kernel's log had no room to say so.
    fn trim_once(&mut self, window: TrimWindow, min_extent: Bytes) -> Result<WindowTrim, Refused> {
        let first = self.request(window, min_extent)?;
        match self.kernel_log.silence() {
            Some(silence) if first.excess > Bytes::ZERO => {
                std::thread::sleep(silence);
                Ok(add(&first, self.request(window, min_extent)?))
            }
            _ => Ok(first),
        }
    }

    fn request(&mut self, window: TrimWindow, min_extent: Bytes) -> Result<WindowTrim, Refused> {
        if let Some(ext4) = self.ext4.as_ref().filter(|e| e.forget) {
            // Only a kernel that does not let it be written would not take this; then the pass is no worse than fstrim's.
            let _ = ext4.last.forget();
        }
        self.activity.before_trim();
        self.take_late();
        self.kernel_log.skip();
        self.watch.begin();
        let started = Instant::now();
        let result = self.file().and_then(|file| fitrim(file, window, min_extent));
        self.drain();
        let counts = self.meter.take();
        let took = nanos(started.elapsed());
        let seen = self.watch.end();
        self.activity.after_trim();
        let failed = self.kernel_log.failed_discards();
        let returned = match result {
            Ok(returned) => returned,
            // The last ranges may lie behind the end, which only the kernel knows exactly.
            Err(Errno::INVAL) if window.start >= self.layout.sure_until => Bytes::ZERO,
            Err(errno) => return Err(self.refuse(&counts, failed, Refused { errno, cut_short: errno == Errno::INTR })),
        };
        // The device said no, and the filesystem did not pass it on.
        if failed > 0 {
            return Err(self.refuse(&counts, failed, Refused { errno: Errno::IO, cut_short: false }));
        }
        let outcome = TrimOutcome { asked: Bytes(window.len), returned, counted: counts.at(self.meter.ends()), took };
        let excess = self.excess(returned, &counts);
        let mut layers = std::mem::take(&mut self.late);
        layers.add(&counts);
        Ok(WindowTrim { outcome, layers, seen, excess })
    }

    /// Waits for the discards that are in flight.
    fn drain(&mut self) {
        let (meter, activity) = (&self.meter, &self.activity);
        let drained =
            self.drain.wait(activity.last(), Duration::ZERO, || meter.count(), || activity.read(), crate::sys::interrupt::requested);
        self.pending = !drained.all;
    }

    /// Begins to count at zero. What was counted since the last request belongs to it if some of its discards were in flight.
    fn take_late(&mut self) {
        let since = self.meter.take();
        if self.pending {
            self.late.add(&since);
        }
    }

    /// Devices count discards that failed like others: of a request that failed none counts, though some may have arrived where `failed` are fewer.
    fn refuse(&mut self, counts: &Counts, failed: u64, reason: Refused) -> Refused {
        self.unsure |= counts.at(self.meter.ends()).is_some_and(|counted| counted.count > failed);
        reason
    }

    /// At the end of a pass: waits for discards that are in flight, and gives what was counted since the last request. `nothing_yet`:
    /// no discard of the pass was counted, so one may be on its way to the layers that count. False: the counts are a minimum.
    pub fn finish(&mut self, nothing_yet: bool) -> (Counts, bool) {
        if nothing_yet {
            fitrim::settle(&self.meter, LATE);
        }
        if self.pending || nothing_yet {
            self.drain();
            let since = self.meter.take();
            self.late.add(&since);
        }
        // Also where no request was made what counts has counted nothing.
        self.late.add(&self.meter.nothing());
        (std::mem::take(&mut self.late), !self.pending && !std::mem::take(&mut self.unsure))
    }

    /// What the device counted above what ext4 returns, which is what it discarded without an error. Where ext4 discards by itself as well
    /// that says nothing.
    fn excess(&self, returned: Bytes, counts: &Counts) -> Bytes {
        let says = self.ext4.as_ref().is_some_and(|e| !e.online);
        let counted = says.then(|| counts.at(&self.stack.tops)).flatten();
        counted.map_or(Bytes::ZERO, |c| c.bytes.saturating_sub(returned))
    }

    /// Looks at the device: whether it is idle, and since when.
    pub fn look(&mut self) -> Look {
        self.activity.look()
    }
}

/// FITRIM of such a filesystem only takes note of what is free; a thread of its own sends it later, when the device is idle (f2fs with its
/// discard option).
#[must_use]
pub fn sends_later(root: &Root, mount: &Mount, stack: &Stack) -> bool {
    mount.fs_type == "f2fs" && crate::doctor::discards_online(root, mount, stack)
}

/// Of the devices, of this machine and of the making of the filesystem.
fn identity(root: &Root, stack: &Stack, ext4: Option<&Ext4>) -> String {
    format!("{}{}", identity::of_stack(root, stack), ext4.map_or(String::new(), |ext4| format!("-{:x}", ext4.made)))
}

fn name_for_good(mount: &Mount, file: &File) -> String {
    let kind: String = mount.fs_type.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let uuid = crate::sys::filesystem::uuid(file).or_else(|| (kind == "xfs").then(|| xfs::geometry(file).ok().map(|g| g.uuid)).flatten());
    name_of(&kind, uuid, rustix::fs::fstatvfs(file).map_or(0, |s| s.f_fsid), &mount.source)
}

/// By the UUID; by the number that the filesystem has instead; or by its device. One of zeros is none: several filesystems may have it.
fn name_of(kind: &str, uuid: Option<[u8; 16]>, number: u64, source: &Path) -> String {
    match (uuid.filter(|uuid| *uuid != [0; 16]), number) {
        (Some(uuid), _) => format!("{kind}-{}", uuid.iter().map(|b| format!("{b:02x}")).collect::<String>()),
        (None, 0) => {
            let device = source.as_os_str().to_string_lossy();
            let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' };
            format!("{kind}-on{}", device.chars().map(plain).take(100).collect::<String>())
        }
        (None, number) => format!("{kind}-{number:016x}"),
    }
}

impl Ext4 {
    fn of(root: &Root, mount: &Mount, stack: &Stack) -> Option<Self> {
        if !matches!(mount.fs_type.as_str(), "ext2" | "ext3" | "ext4") {
            return None;
        }
        let layer = stack.top_layers().next()?;
        let last = LastTrim::of_device(root, &layer.name)?;
        let ext4::Superblock { block_size, made, .. } = ext4::Superblock::of_device(stack).ok()?;
        let granularity = root.read_u64(layer.queue().join("discard_granularity")).unwrap_or(0);
        let online = crate::doctor::discards_online(root, mount, stack);
        Some(Self { last, block_size, made, granularity, online, forget: false })
    }

    /// Whether there may be groups that a trim with this least extent passes over, since it takes them for trimmed.
    fn may_pass_over(&self, root: &Root, min_extent: Bytes) -> bool {
        let least = ext4::least_blocks(min_extent, self.granularity, self.block_size);
        // 0 since the mount; but a trim leaves 0 as well where the device's discard unit is below a block.
        let untouched = |last: u64| last == 0 && self.granularity >= self.block_size;
        self.last.blocks(root).is_none_or(|last| least >= last && !untouched(last))
    }
}

/// The sum of a request and its repetition; frozen or not is as of the last.
fn add(before: &WindowTrim, now: WindowTrim) -> WindowTrim {
    let (a, b) = (&before.outcome, &now.outcome);
    let mut layers = before.layers.clone();
    layers.add(&now.layers);
    WindowTrim {
        layers,
        outcome: TrimOutcome {
            asked: b.asked,
            returned: a.returned.saturating_add(b.returned),
            counted: a.counted.zip(b.counted).map(|(a, b)| a + b),
            took: a.took.saturating_add(b.took),
        },
        seen: Seen {
            wait_max: before.seen.wait_max.max(now.seen.wait_max),
            wait_max_behind: before.seen.wait_max_behind.max(now.seen.wait_max_behind),
            requests: before.seen.requests.saturating_add(now.seen.requests),
            maybe_frozen: now.seen.maybe_frozen,
        },
        excess: before.excess.saturating_add(now.excess),
    }
}

fn nanos(duration: Duration) -> Nanos {
    Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filesystems_without_a_name_of_their_own_are_told_apart() {
        let of = |uuid, number, source: &str| name_of("ext4", uuid, number, Path::new(source));
        assert_eq!(of(Some([0xab; 16]), 7, "/dev/sda1"), format!("ext4-{}", "ab".repeat(16)));
        assert_eq!(of(None, 0x1234, "/dev/sda1"), "ext4-0000000000001234");
        // mkfs -U clear
        let (one, other) = (of(Some([0; 16]), 0, "/dev/sda1"), of(Some([0; 16]), 0, "/dev/mapper/vg-a"));
        assert_eq!((one.as_str(), other.as_str()), ("ext4-on_dev_sda1", "ext4-on_dev_mapper_vg_a"));
        assert_eq!(of(Some([0; 16]), 9, "/dev/sda1"), "ext4-0000000000000009");
    }
}
