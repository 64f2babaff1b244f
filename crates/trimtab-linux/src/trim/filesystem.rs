//! A mounted filesystem that can be trimmed in windows, each counted at its devices.

mod by_size;

pub use by_size::{SizeRequestResult, SizeTrim};

use super::activity::{ActivityDetector, DeviceActivity, OwnWrites};
use super::device_time::DeviceTime;
use super::drain::Drain;
use super::ext4::{self, LastTrim};
use super::fitrim::{self, fitrim};
use super::free_space::{ExtentFilter, FreeSpaceCache, SendableSpace, first_commands, sendable};
use super::kernel_log::KernelLog;
use super::layout::{WindowLayout, binary};
use super::limit::CommandLimit;
use super::watch::{ForegroundActivity, ForegroundWatch, LatencyClasses};
use crate::doctor::{Diagnosis, Doctor};
use crate::host::block::Stack;
use crate::host::discards::{LayerCounts, Meter};
use crate::host::identity;
use crate::host::interference::watched;
use crate::host::mountinfo::{self, Mount};
use crate::host::root::Root;
use crate::host::stat::StatFile;
use crate::output::error::of_named;
use crate::sys::clock::nanos;
use crate::sys::filesystem::{xfs_free_behind_ends, xfs_geometry};
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

const REPEATS_MAX: u32 = 4;

/// Time to wait for discards if none has been counted yet.
const LATE_DISCARD_WAIT: Duration = Duration::from_secs(2);
/// Time limit for reading the free-space map: ext4 lists the metadata of all groups.
const MAP_MAX: Duration = Duration::from_millis(100);
/// After this many slow reads in a row, the map is not read any more.
const SLOW_MAX: u32 = 4;

/// Why a window could not be trimmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowRefusal {
    /// The system's error.
    pub errno: Errno,
    /// The request was cut short, also when repeated.
    pub cut_short: bool,
}

impl std::fmt::Display for WindowRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.errno {
            _ if self.cut_short => f.write_str(
                "cut short repeatedly (process frozen or system suspended); repeat \
                    the trim when the system runs freely",
            ),
            Errno::PERM | Errno::ACCESS => {
                f.write_str("trimming (FITRIM) needs root; run it with sudo")
            }
            Errno::NOTTY | Errno::NOSYS => {
                f.write_str("this filesystem does not support trimming (no FITRIM)")
            }
            Errno::OPNOTSUPP => {
                f.write_str("the device below takes no discards (see trimtab doctor)")
            }
            Errno::ROFS => f.write_str(
                "refused: mounted without replaying the journal (norecovery); mount it \
                without that option",
            ),
            _ if self.is_gone() => f.write_str(
                "the filesystem or its device is gone; mount it again and repeat the trim",
            ),
            errno => write!(f, "{}", std::io::Error::from(errno)),
        }
    }
}

impl WindowRefusal {
    /// The filesystem or its device has been removed.
    pub fn is_gone(&self) -> bool {
        !self.cut_short && matches!(self.errno, Errno::NODEV | Errno::NXIO | Errno::NOENT)
    }

    /// Every other window will fail as well.
    pub fn is_final(&self) -> bool {
        const FINAL: [Errno; 7] = [
            Errno::PERM,
            Errno::ACCESS,
            Errno::NOTTY,
            Errno::NOSYS,
            Errno::OPNOTSUPP,
            Errno::ROFS,
            Errno::BADF,
        ];
        self.is_gone() || (!self.cut_short && FINAL.contains(&self.errno))
    }
}

/// The result of a window's trim, and the foreground latency during it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowTrim {
    /// The outcome in the form that policies expect. Its duration is the device's part of
    /// the request's.
    pub outcome: TrimOutcome,
    /// Duration of the request.
    pub elapsed: Nanos,
    /// The counts of each layer, including discards that earlier requests had left in
    /// flight.
    pub layers: LayerCounts,
    /// Foreground activity during the trim.
    pub seen: ForegroundActivity,
    /// Discards counted at the device in excess of the filesystem's report. Not an error:
    /// its own discards may have been in flight, and some layers count twice.
    pub excess: Bytes,
}

/// A mounted filesystem being trimmed.
#[derive(Debug)]
pub struct Filesystem {
    root: Root,
    mount: Mount,
    /// A name of the filesystem; a copy on another device has the same one.
    name: String,
    id: String,
    stack: Stack,
    /// `None` while released.
    file: Option<File>,
    layout: WindowLayout,
    meter: Meter,
    drain: Drain,
    /// Discards may be in flight although the request has returned.
    pending: bool,
    /// Discards counted since.
    late: LayerCounts,
    /// Discards of failed requests were counted, and some of them may have arrived.
    unsure: bool,
    watch: ForegroundWatch,
    limit: CommandLimit,
    activity: ActivityDetector,
    device_time: DeviceTime,
    kernel_log: KernelLog,
    ext4: Option<Ext4>,
    /// Number of slow reads of the free-space map in a row; after [`SLOW_MAX`] it is not
    /// read any more. A single one may be chance: another process may have had the CPU.
    slow_maps: u32,
    /// The extents requested by size.
    asked: by_size::RequestedExtents,
    /// The recently read part of the free-space map.
    known: FreeSpaceCache,
    /// The last request by size was postponed to read the free-space map.
    put_off: bool,
}

/// Opens the mount point; `None` if another filesystem is mounted there now.
fn open_mount(mount: &Mount) -> Result<Option<File>, Errno> {
    use rustix::fs::{CWD, Mode, OFlags, openat};
    let file = File::from(openat(
        CWD,
        &mount.mount_point,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?);
    let same = mountinfo::mount_id_of(&file).is_none_or(|id| id == mount.id);
    Ok(same.then_some(file))
}

#[derive(Debug)]
struct Ext4 {
    last: LastTrim,
    block_size: u64,
    /// Creation time, seconds since 1970.
    made: u32,
    granularity: u64,
    online: bool,
    /// Reset the last minimum extent before each window: this pass uses a smaller one.
    forget: bool,
}

impl Filesystem {
    /// Opens the filesystem of `path`, which need not be its mount point.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        mount_check::require_answers(&[path])?;
        let root = Root::live().context("cannot open /")?;
        let mounts = mountinfo::read(&root).context("cannot read the mount table")?;
        let mount = mountinfo::of_path(&root, &mounts, path);
        let mount = mount.map_err(|error| {
            of_named(error, path, "cannot find", "name a mount point or a directory")
        })?;
        let not_here = "not in the mount table of this process; run it in the mount namespace that \
            this filesystem is mounted in (nsenter --mount)";
        let mount = mount
            .cloned()
            .with_context(|| format!("the mount of '{}' is {not_here}", path.display()))?;
        let stack = Stack::of_mount(&root, &mounts, &mount);
        stack.require_answers().with_context(|| format!("cannot use {}", path.display()))?;
        Self::of_mount(root, mount, stack)
    }

    fn of_mount(root: Root, mount: Mount, stack: Stack) -> anyhow::Result<Self> {
        let shown = mount.mount_point.display().to_string();
        if stack.tops.is_empty() {
            if mount.source.starts_with("/dev") {
                bail!(
                    "{shown} ({}) is on {}, which /sys does not show: run the \
                        command where /sys is that of this machine",
                    mount.fs_type,
                    mount.source.display()
                );
            }
            bail!(
                "{shown} ({}) is not on a block device, so there is nothing to trim; \
                    name a filesystem that is (findmnt --real)",
                mount.fs_type
            );
        }
        let file = open_mount(&mount).with_context(|| format!("cannot open {shown}"))?;
        let Some(file) = file else {
            bail!(
                "{shown} is covered by another mount; unmount that, or name another \
                    mount point of the filesystem (findmnt)"
            )
        };
        let layout = WindowLayout::read(&root, &mount, &stack, &file)?;
        let stat = |stack: &Stack| watched(stack).and_then(|l| StatFile::open(&root, &l.sys).ok());
        let ext4 = Ext4::of(&root, &mount, &stack);
        let name = name_for_good(&mount, &file);
        Ok(Self {
            meter: Meter::of_stack(Root::live().context("cannot open /")?, stack.clone()),
            drain: Drain::of(&mount.fs_type),
            pending: false,
            late: LayerCounts::default(),
            unsure: false,
            watch: ForegroundWatch::start(stat(&stack)).context("cannot start a thread")?,
            limit: CommandLimit::of_stack(&root, &stack),
            activity: ActivityDetector::new(
                Root::live().context("cannot open /")?,
                stat(&stack),
                OwnWrites::of(&mount, &stack),
            ),
            device_time: DeviceTime::default(),
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
            asked: by_size::RequestedExtents::default(),
            known: FreeSpaceCache::default(),
            put_off: false,
        })
    }

    /// The mount.
    pub fn mount(&self) -> &Mount {
        &self.mount
    }

    /// A descriptor on the filesystem; reopens it after a release.
    pub fn file(&mut self) -> Result<BorrowedFd<'_>, Errno> {
        if self.file.is_none() {
            // Mount ids and device numbers are reused; the name is not.
            let file = open_mount(&self.mount)?
                .filter(|file| name_for_good(&self.mount, file) == self.name);
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

    /// Closes the filesystem, so that it can be unmounted. The next request reopens it.
    pub fn release(&mut self) {
        self.file = None;
    }

    /// The devices below.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// The tree that `/sys` is read from.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// The windows.
    pub fn layout(&self) -> &WindowLayout {
        &self.layout
    }

    /// Reads the windows again: btrfs adds and removes chunks.
    pub fn refresh(&mut self) -> anyhow::Result<()> {
        let shown = self.mount.mount_point.display().to_string();
        self.file().with_context(|| format!("cannot open {shown}"))?;
        if let Some(file) = &self.file {
            self.layout = WindowLayout::read(&self.root, &self.mount, &self.stack, file)?;
        }
        self.known.forget();
        Ok(())
    }

    /// An id of this filesystem on these devices of this machine, stable over reboots and
    /// mount points. A copy on other devices has another id.
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

    /// The obstacle to trimming, if there is one. Discards nothing.
    #[must_use]
    pub fn obstacle(&mut self) -> Option<fitrim::Obstacle> {
        let mount = self.mount.clone();
        let unasked =
            mount.fs_type == "ntfs3" && fitrim::devices_take_none(&self.root, &self.stack);
        match self.file() {
            Ok(file) => {
                fitrim::obstacle(Some(&mount), file).or(unasked.then_some(fitrim::Obstacle::Device))
            }
            Err(errno) => Some(fitrim::Obstacle::Other(errno)),
        }
    }

    /// Every device below counts discards.
    pub fn counts(&self) -> bool {
        self.meter.count().is_some()
    }

    /// The doctor's current diagnosis.
    pub fn diagnosis(&self) -> std::io::Result<Diagnosis> {
        let (mount, stack) = (self.mount.clone(), self.stack.clone());
        mount_check::in_time(
            move || Ok(Doctor::new(&Root::live()?)?.examine_mount(&mount, &stack)),
        )?
    }

    /// FITRIM only queues the free space, and a kernel thread sends the discards when the
    /// device is idle (f2fs mounted with discard).
    pub fn sends_later(&self) -> bool {
        sends_later(&self.root, &self.mount, &self.stack)
    }

    /// The reason why the filesystem rejects this minimum extent; `None` if it accepts
    /// it.
    pub fn refuses_min_extent(&self, min_extent: Bytes) -> Option<String> {
        let group = self.layout.group.filter(|group| min_extent > *group)?;
        Some(format!(
            "a minimum extent of {min_extent} is larger than an allocation group of \
                {}, which {} does not accept",
            binary(group.0),
            self.mount.fs_type
        ))
    }

    /// Prepares for a pass with this minimum extent. `forget`: an interrupted pass had to
    /// reset ext4's last minimum. Returns true if this pass has to.
    pub fn prepare(&mut self, min_extent: Bytes, forget: bool) -> bool {
        let Some(ext4) = &mut self.ext4 else { return false };
        let least = ext4::least_blocks(min_extent, ext4.granularity, ext4.block_size);
        let last = ext4.last.blocks(&self.root).unwrap_or(0);
        ext4.forget = forget || least < last;
        ext4.forget
    }

    /// The minimum extent of the last trim as ext4 keeps it, in blocks.
    pub fn last_least(&self) -> Option<u64> {
        self.ext4.as_ref()?.last.blocks(&self.root)
    }

    /// Restores that value after a part of the filesystem was trimmed with a smaller
    /// minimum. Keeps a larger one; otherwise the groups of this part would count as
    /// trimmed with less.
    pub fn restore_least(&self, blocks: Option<u64>) {
        if let (Some(ext4), Some(blocks)) = (&self.ext4, blocks) {
            let now = ext4.last.blocks(&self.root).filter(|now| *now < ext4::FORGOTTEN);
            if now.is_none_or(|now| now < blocks) {
                let _ = ext4.last.restore(blocks);
            }
        }
    }

    /// Limits the size of discard commands. Call while holding the drives' locks.
    pub fn limit_commands(&mut self, most: Bytes) -> std::io::Result<()> {
        self.limit.set(most)
    }

    /// Restores the limits. Returns a remark for each that could not be restored exactly.
    pub fn unlimit_commands(&mut self) -> Vec<String> {
        // A removed device has no limit.
        let _ = self.limit.restore();
        self.limit.remarks().collect()
    }

    /// Restores the limits that other processes left lowered; see
    /// [`CommandLimit::recover`].
    #[must_use]
    pub fn recover_limits(&mut self) -> Vec<PathBuf> {
        self.limit.recover()
    }

    /// The part from the start of the window that the requested number of commands trims;
    /// the whole window if that is unknown. ext4 does not mark a partly trimmed group as
    /// trimmed, so the next pass sends this part again.
    pub fn first_commands(&mut self, request: &TrimRequest) -> TrimWindow {
        let window = request.window;
        let divisible = self.layout.granule < Bytes::MAX;
        let known = divisible || self.layout.tail < Bytes::MAX;
        if request.commands_max == 0
            || !known
            || !matches!(self.mount.fs_type.as_str(), "xfs" | "ext4" | "ext3" | "ext2")
        {
            return window;
        }
        if self.map_is_slow() {
            return window;
        }
        let least = request.min_extent.0.max(self.ext4.as_ref().map_or(0, |e| e.granularity));
        let (below, command_max, commands_max) =
            (u64::MAX, request.command_max.0, request.commands_max);
        let picking =
            ExtentFilter { least, below, command_max, commands_max, cut: None, begun: false };
        let device = self.mount.dev;
        let started = Instant::now();
        // Reading the map reads bitmaps, as trims do.
        self.activity.before_trim();
        let first = self.file().and_then(|file| first_commands(file, device, window, picking));
        self.activity.after_trim();
        self.map_took(started.elapsed());
        let Some(first) = first.ok().filter(|first| first.len > 0) else { return window };
        if divisible {
            let granule = self.layout.granule.0.max(1);
            return TrimWindow {
                len: first.len.div_ceil(granule).saturating_mul(granule).min(window.len),
                ..first
            };
        }
        first
    }

    /// Frees the blocks of deleted files, writes out all pending data, and returns the
    /// time taken. A filesystem frees blocks only when the transaction that deleted them
    /// is committed. Until then a trim skips them and still reports success.
    pub fn commit(&mut self) -> Result<Nanos, Errno> {
        let started = Instant::now();
        let is_xfs = self.mount.fs_type == "xfs";
        let file = self.file()?;
        if is_xfs {
            // XFS frees the blocks of deleted files in the background, and a sync does
            // not wait for that (Linux 5.14). Only this request does. It concerns
            // preallocated space beyond the end of files; no file is this long. Fails on
            // a read-only mount, which needs no wait.
            let _ = xfs_free_behind_ends(file, u64::MAX);
        }
        rustix::fs::syncfs(file)?;
        Ok(nanos(started.elapsed()))
    }

    /// The free space that a trim of these windows would send, if the filesystem reports
    /// its free space (ext4, XFS). `true`: it may be less, because ext4 skips groups that
    /// were trimmed since the mount and have had no blocks freed, and does not show
    /// which. Not so before the first trim, or with a smaller minimum than the last.
    pub fn would_send(
        &mut self,
        windows: &[TrimWindow],
        min_extent: Bytes,
    ) -> Option<(SendableSpace, bool)> {
        if !matches!(self.mount.fs_type.as_str(), "xfs" | "ext4" | "ext3" | "ext2") {
            return None;
        }
        let granularity = self
            .stack
            .top_layers()
            .filter_map(|l| self.root.read_u64(l.queue().join("discard_granularity")))
            .max();
        let least = min_extent.0.max(granularity.unwrap_or(0));
        let at_most = self.mount.fs_type != "xfs"
            && self.ext4.as_ref().is_none_or(|ext4| ext4.may_pass_over(&self.root, min_extent));
        let device = self.mount.dev;
        sendable(self.file().ok()?, device, windows, least).ok().map(|sendable| (sendable, at_most))
    }

    /// ext4 sent nothing for the first commands of a group. Either it considers the whole
    /// group trimmed, or the free space there has been used since; then the group is not
    /// marked as trimmed and the next pass covers the rest.
    pub fn has_nothing_for(&self, request: &TrimRequest, outcome: &TrimOutcome) -> bool {
        let one_group = self.layout.group.is_some_and(|group| request.window.len <= group.0);
        let nothing = outcome.returned == Bytes::ZERO
            && outcome.counted.is_none_or(|counted| counted.count == 0);
        self.ext4.is_some() && one_group && nothing && !request.trial
    }

    /// Trims `window`, and waits until its discards are complete.
    pub fn trim(
        &mut self,
        window: TrimWindow,
        min_extent: Bytes,
    ) -> Result<WindowTrim, WindowRefusal> {
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
            _ => Err(WindowRefusal { errno: Errno::INTR, cut_short: true }),
        }
    }

    /// Sends a request, and a second one if the kernel's log may have hidden a failure.
    fn trim_once(
        &mut self,
        window: TrimWindow,
        min_extent: Bytes,
    ) -> Result<WindowTrim, WindowRefusal> {
        let first = self.request(window, min_extent)?;
        match self.kernel_log.silence() {
            Some(silence) if first.excess > Bytes::ZERO => {
                std::thread::sleep(silence);
                Ok(add(&first, self.request(window, min_extent)?))
            }
            _ => Ok(first),
        }
    }

    /// Foreground latencies during requests since the last call.
    pub fn take_latencies(&self) -> LatencyClasses {
        self.watch.take_latencies()
    }

    fn request(
        &mut self,
        window: TrimWindow,
        min_extent: Bytes,
    ) -> Result<WindowTrim, WindowRefusal> {
        if let Some(ext4) = self.ext4.as_ref().filter(|e| e.forget) {
            // Fails only if the attribute is read-only; the pass is then as good as
            // fstrim's.
            let _ = ext4.last.restore(ext4::FORGOTTEN);
        }
        self.activity.before_trim();
        let before = self.activity.last;
        self.take_late();
        self.kernel_log.skip();
        self.watch.begin();
        let started = Instant::now();
        let result = self.file().and_then(|file| fitrim(file, window, min_extent));
        // The wait for discards is longer than they take if other requests are in flight.
        let elapsed = nanos(started.elapsed()).saturating_add(nanos(self.drain()));
        let step = self.activity.read().zip(before).map(|(now, before)| now.since(&before));
        let took = self.device_time.of(elapsed, &step.unwrap_or_default());
        let counts = self.meter.take();
        let mut seen = self.watch.end();
        if self.activity.after_trim() == 0 {
            // The trim itself reads bitmaps, and writes a log.
            let maybe_frozen = seen.maybe_frozen;
            seen = ForegroundActivity { maybe_frozen, ..ForegroundActivity::default() };
        }
        let failed = self.kernel_log.failed_discards();
        let returned = match result {
            Ok(returned) => returned,
            // The last ranges may be beyond the end, which only the kernel knows exactly.
            Err(Errno::INVAL) if window.start >= self.layout.sure_until => Bytes::ZERO,
            Err(errno) => {
                return Err(self.refuse(
                    &counts,
                    failed,
                    WindowRefusal { errno, cut_short: errno == Errno::INTR },
                ));
            }
        };
        // The device reported an error that the filesystem did not return.
        if failed > 0 {
            return Err(self.refuse(
                &counts,
                failed,
                WindowRefusal { errno: Errno::IO, cut_short: false },
            ));
        }
        let outcome = TrimOutcome {
            asked: Bytes(window.len),
            returned,
            counted: counts.at(self.meter.ends()),
            took,
        };
        let excess = self.excess(returned, &counts);
        let mut layers = std::mem::take(&mut self.late);
        layers.add(&counts);
        Ok(WindowTrim { outcome, elapsed, layers, seen, excess })
    }

    /// Waits for discards in flight; returns how long those of the last request took.
    fn drain(&mut self) -> Duration {
        let (meter, activity) = (&self.meter, &self.activity);
        let drained = self.drain.wait(
            activity.last.as_ref(),
            Duration::ZERO,
            || meter.count(),
            || activity.read(),
            crate::sys::interrupt::requested,
        );
        self.pending = !drained.all;
        drained.working
    }

    /// Starts counting at zero. Late discards are attributed to the last request if some
    /// of its discards were in flight.
    fn take_late(&mut self) {
        let since = self.meter.take();
        if self.pending {
            self.late.add(&since);
        }
    }

    /// Devices count failed discards like successful ones. Those of a failed request are
    /// dropped from the counts, although some may have arrived if fewer than all
    /// `failed`.
    fn refuse(
        &mut self,
        counts: &LayerCounts,
        failed: u64,
        reason: WindowRefusal,
    ) -> WindowRefusal {
        self.unsure |= counts.at(self.meter.ends()).is_some_and(|counted| counted.count > failed);
        reason
    }

    /// Ends a pass: waits for discards in flight and returns the counts since the last
    /// request. `nothing_yet`: no discard of the pass was counted, so one may still be on
    /// its way. Returns false if the counts are a minimum.
    pub fn finish(&mut self, nothing_yet: bool) -> (LayerCounts, bool) {
        if nothing_yet {
            fitrim::settle(&self.meter, LATE_DISCARD_WAIT);
        }
        if self.pending || nothing_yet {
            self.drain();
            let since = self.meter.take();
            self.late.add(&since);
        }
        // A layer that counts has counted zero, even if no request was made.
        self.late.add(&self.meter.nothing());
        (std::mem::take(&mut self.late), !self.pending && !std::mem::take(&mut self.unsure))
    }

    /// Discards counted at the device in excess of ext4's report, which includes only
    /// successful ones. Zero with online discard, where the difference means nothing.
    fn excess(&self, returned: Bytes, counts: &LayerCounts) -> Bytes {
        let says = self.ext4.as_ref().is_some_and(|e| !e.online);
        let counted = says.then(|| counts.at(&self.stack.tops)).flatten();
        counted.map_or(Bytes::ZERO, |c| c.bytes.saturating_sub(returned))
    }

    /// Polls the device: whether it is idle, and since when.
    pub fn look(&mut self) -> DeviceActivity {
        self.activity.look()
    }
}

/// FITRIM of this filesystem only queues the free space, and a kernel thread sends the
/// discards when the device is idle (f2fs mounted with discard).
pub fn sends_later(root: &Root, mount: &Mount, stack: &Stack) -> bool {
    mount.fs_type == "f2fs" && crate::doctor::discards_online(root, mount, stack)
}

/// An identity of the devices, the machine and the creation of the filesystem.
fn identity(root: &Root, stack: &Stack, ext4: Option<&Ext4>) -> String {
    format!(
        "{}{}",
        identity::of_stack(root, stack),
        ext4.map_or(String::new(), |ext4| format!("-{:x}", ext4.made))
    )
}

fn name_for_good(mount: &Mount, file: &File) -> String {
    let kind: String =
        mount.fs_type.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let uuid = crate::sys::filesystem::uuid(file)
        .or_else(|| (kind == "xfs").then(|| xfs_geometry(file).ok().map(|g| g.uuid)).flatten());
    name_of(&kind, uuid, rustix::fs::fstatvfs(file).map_or(0, |s| s.f_fsid), &mount.source)
}

/// Name from the UUID, otherwise from the filesystem id, otherwise from the device. An
/// all-zero UUID does not count: several filesystems may have it.
fn name_of(kind: &str, uuid: Option<[u8; 16]>, number: u64, source: &Path) -> String {
    match (uuid.filter(|uuid| *uuid != [0; 16]), number) {
        (Some(uuid), _) => {
            format!("{kind}-{}", uuid.iter().map(|b| format!("{b:02x}")).collect::<String>())
        }
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
        let ext4::Ext4Superblock { block_size, made, .. } =
            ext4::Ext4Superblock::of_device(stack).ok()?;
        let granularity = root.read_u64(layer.queue().join("discard_granularity")).unwrap_or(0);
        let online = crate::doctor::discards_online(root, mount, stack);
        Some(Self { last, block_size, made, granularity, online, forget: false })
    }

    /// Some groups may count as trimmed, so that a trim with this minimum extent skips
    /// them.
    fn may_pass_over(&self, root: &Root, min_extent: Bytes) -> bool {
        let least = ext4::least_blocks(min_extent, self.granularity, self.block_size);
        // 0 since the mount; a trim also leaves 0 if the discard unit is smaller than a
        // block.
        let untouched = |last: u64| last == 0 && self.granularity >= self.block_size;
        self.last.blocks(root).is_none_or(|last| least >= last && !untouched(last))
    }
}

/// Adds a request and its repetition; the frozen flag is that of the repetition.
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
        elapsed: before.elapsed.saturating_add(now.elapsed),
        seen: ForegroundActivity {
            wait_max: before.seen.wait_max.max(now.seen.wait_max),
            wait_max_behind: before.seen.wait_max_behind.max(now.seen.wait_max_behind),
            requests: before.seen.requests.saturating_add(now.seen.requests),
            maybe_frozen: now.seen.maybe_frozen,
        },
        excess: before.excess.saturating_add(now.excess),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_for_filesystems_without_uuid() {
        let of = |uuid, number, source: &str| name_of("ext4", uuid, number, Path::new(source));
        assert_eq!(of(Some([0xab; 16]), 7, "/dev/sda1"), format!("ext4-{}", "ab".repeat(16)));
        assert_eq!(of(None, 0x1234, "/dev/sda1"), "ext4-0000000000001234");
        // mkfs -U clear
        let (one, other) =
            (of(Some([0; 16]), 0, "/dev/sda1"), of(Some([0; 16]), 0, "/dev/mapper/vg-a"));
        assert_eq!((one.as_str(), other.as_str()), ("ext4-on_dev_sda1", "ext4-on_dev_mapper_vg_a"));
        assert_eq!(of(Some([0; 16]), 9, "/dev/sda1"), "ext4-0000000000000009");
    }
}
