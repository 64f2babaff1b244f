//! The block device of an attached drive, over any transport.

mod looped;

pub use looped::tune;

use crate::claim::{Claim, wait_for_end};
use crate::pace::Pacer;
use crate::request::{Geometry, RequestServer};
use crate::runtime::{RuntimeDirectory, ServerRecord};
use crate::transport::{Transport, TransportChoice};
use crate::ublk::UblkFront;
use anyhow::Context as _;
use looped::LoopOnFuse;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;
use trimtab_linux::host::disk::Disk;
use trimtab_linux::sys::beneath::ObjectIdentity;

/// A block device and its server. Dropping this value does not remove the device.
pub struct ServedBlockDevice {
    way: FrontEnd,
    /// Held while the device is being removed, so that no process can start to use it.
    claim: Option<Claim>,
}

enum FrontEnd {
    LoopOnFuse(LoopOnFuse),
    Ublk(Box<UblkFront>),
}

/// The context in which a block device is created.
pub struct AttachContext<'a> {
    /// Runtime directory of the drive.
    pub home: &'a RuntimeDirectory,
    /// Delays completions until they are due.
    pub pacer: &'a Arc<Pacer>,
}

impl ServedBlockDevice {
    /// Creates the device over the first transport of `wanted` that works. First records
    /// what a crash would leave behind. Also returns remarks for the user.
    pub fn make(
        drive: &Arc<dyn RequestServer>,
        place: &AttachContext<'_>,
        wanted: TransportChoice,
        record: &mut ServerRecord,
    ) -> anyhow::Result<(Self, Vec<String>)> {
        let mut missed = Vec::new();
        for candidate in wanted.candidates() {
            match FrontEnd::make(drive, place, candidate, record) {
                Ok(way) => {
                    let remark =
                        (wanted == TransportChoice::Best).then(|| chosen(candidate, &missed));
                    return Ok((Self { way, claim: None }, remark.into_iter().collect()));
                }
                Err(error) => missed.push((candidate, error)),
            }
        }
        Err(none(missed))
    }

    /// The transport in use.
    pub const fn transport(&self) -> Transport {
        match &self.way {
            FrontEnd::LoopOnFuse(_) => Transport::Device,
            FrontEnd::Ublk(_) => Transport::Ublk,
        }
    }

    /// The block device.
    pub fn disk(&self) -> Disk {
        match &self.way {
            FrontEnd::LoopOnFuse(looped) => looped.disk(),
            FrontEnd::Ublk(front) => front.disk(),
        }
    }

    /// Number of completions waiting for their time, excluding those in the [`Pacer`].
    pub fn waiting(&self) -> usize {
        match &self.way {
            FrontEnd::LoopOnFuse(_) => 0,
            FrontEnd::Ublk(front) => front.waiting(),
        }
    }

    /// Sets the queue attributes to those of the drive where they differ. Returns a
    /// description of each value that the kernel rejected.
    pub fn tune(&self, geometry: &Geometry) -> Vec<String> {
        match &self.way {
            FrontEnd::LoopOnFuse(looped) => looped.tune(geometry),
            FrontEnd::Ublk(_) => Vec::new(),
        }
    }

    /// Checks that the device is unused, unless `force` is set, and flushes all writes to
    /// the drive. On error, nothing has changed.
    pub fn release(&mut self, force: bool, problems: &mut Vec<String>) -> anyhow::Result<()> {
        if let FrontEnd::LoopOnFuse(looped) = &self.way {
            return looped.release(force, problems);
        }
        if force {
            return Ok(());
        }
        let disk = self.disk();
        let (shown, users) = (disk.path(), disk.users());
        anyhow::ensure!(users.is_empty(), "{} is busy: {}", shown.display(), users.join(", "));
        let claim =
            Claim::take(&disk).with_context(|| format!("cannot open {}", shown.display()))?;
        match &claim {
            Claim::InUse => {
                anyhow::bail!("{} is busy: another process has it open", shown.display())
            }
            Claim::Alone(device) => {
                if let Err(error) = device.sync_all() {
                    // A failed drive must still be detachable.
                    problems.push(format!(
                        "some data written to {} did not reach the drive: {error}",
                        shown.display()
                    ));
                }
            }
            Claim::Gone => {}
        }
        self.claim = Some(claim);
        Ok(())
    }

    /// Removes the device after [`Self::release`].
    pub fn remove(
        self,
        home: &RuntimeDirectory,
        served: Option<ObjectIdentity>,
        force: bool,
    ) -> anyhow::Result<()> {
        let disk = self.disk();
        let taken = match self.way {
            FrontEnd::LoopOnFuse(looped) => return looped.remove(home, served, force),
            FrontEnd::Ublk(front) => front.remove(self.claim),
        };
        taken.with_context(|| format!("cannot remove {}", disk.path().display()))?;
        if !force {
            wait_for_end(&disk);
        }
        Ok(())
    }
}

impl FrontEnd {
    fn make(
        drive: &Arc<dyn RequestServer>,
        place: &AttachContext<'_>,
        transport: Transport,
        record: &mut ServerRecord,
    ) -> anyhow::Result<Self> {
        match transport {
            Transport::Device => Ok(Self::LoopOnFuse(LoopOnFuse::make(drive, place, record)?)),
            Transport::Ublk => {
                // Random, so that no other device has the same mark.
                let mark = RandomState::new().build_hasher().finish();
                record.mark = Some(format!("{mark:016x}"));
                record.transport = Some(transport);
                place.home.write_record(record)?;
                Ok(Self::Ublk(Box::new(UblkFront::start(drive, mark)?)))
            }
        }
    }
}

fn chosen(transport: Transport, missed: &[(Transport, anyhow::Error)]) -> String {
    format!("requests come over {transport}{}", why_not(missed))
}

fn why_not(missed: &[(Transport, anyhow::Error)]) -> String {
    missed.iter().map(|(transport, why)| format!("; not {transport}: {why:#}")).collect()
}

/// The last transport's error, which needs no module of its own, with the others as
/// context.
fn none(mut missed: Vec<(Transport, anyhow::Error)>) -> anyhow::Error {
    let at = missed
        .iter()
        .position(|(transport, _)| *transport == Transport::Device)
        .unwrap_or_default();
    let (_, error) = missed.remove(at);
    if missed.is_empty() {
        error
    } else {
        error.context(format!("no block device is available{}", why_not(&missed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn remark_names_transport_and_failed_alternatives() {
        let missed = || (Transport::Ublk, anyhow::anyhow!("it").context("no module"));
        assert_eq!(chosen(Transport::Ublk, &[]), "requests come over ublk");
        assert_eq!(
            chosen(Transport::Device, &[missed()]),
            "requests come over a loop device over FUSE; not ublk: no module: it"
        );
        let fuse =
            (Transport::Device, anyhow::Error::new(io::Error::from_raw_os_error(libc::ENOENT)));
        let error = none(vec![missed(), fuse]);
        assert_eq!(
            format!("{error:#}"),
            "no block device is available; not ublk: no module: it: No such file or \
                directory (os error 2)"
        );
        assert_eq!(
            error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error),
            Some(libc::ENOENT),
            "the cause is kept"
        );
        assert_eq!(format!("{:#}", none(vec![missed()])), "no module: it");
    }
}
