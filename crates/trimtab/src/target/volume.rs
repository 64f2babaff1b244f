//! A modelled volume under a trim policy as the target of a study, in virtual time.

use crate::target::mounted::Trimmable;
use trimtab_core::drive::Device;
use trimtab_core::op::Payload;
use trimtab_core::policy::Policy;
use trimtab_core::target::Counted;
use trimtab_core::target::{Clock, FileTarget, TargetResult, TrimOutcome, TrimTarget as _};
use trimtab_core::units::{Bytes, Nanos};
use trimtab_core::volume::Volume;
use trimtab_core::volume::{Steered, TrimLog};

/// In which steps ext4 counts what was written (`lifetime_write_kbytes`).
const WRITTEN_STEP: Bytes = Bytes(1024);
/// How closely discards of the filesystem's own are followed.
const DRAIN_POLL: Nanos = Nanos::from_millis(1);
/// They end within this time after the last file was deleted.
const DRAIN_MAX: Nanos = Nanos::from_secs(24 * 3600);

/// The volume, its policy, and how many of its discards have been told.
pub struct VolumeTarget<D> {
    steered: Steered<D>,
    taken: Counted,
}

impl<D: Device> VolumeTarget<D> {
    /// `volume` under `policy`.
    pub fn new(volume: Volume<D>, policy: Box<dyn Policy>) -> Self {
        let taken = discards(&volume);
        Self { steered: Steered::new(volume, policy, WRITTEN_STEP), taken }
    }

    /// The same volume at this moment under `policy`: what happens to one does not happen to the other.
    pub fn fork(&self, policy: Box<dyn Policy>) -> Self
    where
        D: Clone,
    {
        Self { steered: self.steered.fork(policy), taken: discards(self.volume()) }
    }

    /// The volume.
    pub const fn volume(&self) -> &Volume<D> {
        self.steered.volume()
    }

    /// The volume, to do what is no operation on files. The policy is not asked meanwhile.
    pub const fn volume_mut(&mut self) -> &mut Volume<D> {
        self.steered.volume_mut()
    }

    /// The policy.
    pub fn policy(&self) -> &dyn Policy {
        self.steered.policy()
    }

    /// What the policy had done.
    pub const fn log(&self) -> &TrimLog {
        self.steered.log()
    }

    /// Asks the policy for a trim now, as a user would.
    pub const fn force(&mut self) {
        self.steered.force();
    }

    /// Makes a file durable.
    pub fn fsync(&mut self, path: &str) -> TargetResult {
        self.steered.volume_mut().fsync(path)
    }

    /// Whether the policy is in the middle of a pass, if only in a pause between two pieces, or the filesystem still has something to discard.
    pub fn pass_under_way(&self) -> bool {
        self.trimming() || self.policy().running()
    }

    /// Whether a trim is under way: one of the policy, or what the filesystem discards of itself.
    pub fn trimming(&self) -> bool {
        self.volume().trimming() || self.volume().discarding()
    }
}

fn discards<D: Device>(volume: &Volume<D>) -> Counted {
    let traffic = volume.counters().traffic;
    Counted { commands: traffic.discards, bytes: Bytes(traffic.discarded) }
}

impl<D: Device> Clock for VolumeTarget<D> {
    fn now(&mut self) -> Nanos {
        self.steered.now()
    }

    fn idle_until(&mut self, instant: Nanos) {
        self.steered.idle_until(instant);
    }
}

macro_rules! forward {
    ($($name:ident($($argument:ident: $kind:ty),*)),+ $(,)?) => {
        impl<D: Device> FileTarget for VolumeTarget<D> {
            $(fn $name(&mut self, $($argument: $kind),*) -> TargetResult {
                self.steered.$name($($argument),*)
            })+
        }
    };
}

forward!(
    make_dir(path: &str),
    remove_dir(path: &str),
    create(path: &str, payload: &Payload<'_>),
    append(path: &str, payload: &Payload<'_>),
    read(path: &str, len: u64),
    delete(path: &str),
    sync(),
);

impl<D: Device> Trimmable for VolumeTarget<D> {
    fn trim_all(&mut self) -> TargetResult<(TrimOutcome, Nanos)> {
        let volume = self.steered.volume_mut();
        let mut all = TrimOutcome::default();
        for window in volume.windows()? {
            let one = volume.trim(window, Bytes::ZERO)?;
            all.asked += one.asked;
            all.returned += one.returned;
            all.took += one.took;
            all.counted = Some(all.counted.unwrap_or_default() + one.counted.unwrap_or_default());
        }
        Ok((all, Nanos::ZERO))
    }

    fn take_discards(&mut self) -> Option<Counted> {
        let now = discards(self.volume());
        let before = std::mem::replace(&mut self.taken, now);
        Some(now.since(before))
    }

    fn wait_for_discards(&mut self) -> Nanos {
        let began = self.steered.now();
        while self.volume().discarding() && self.steered.now() < began + DRAIN_MAX {
            let next = self.steered.now() + DRAIN_POLL;
            self.steered.idle_until(next);
        }
        self.steered.now() - began
    }
}
