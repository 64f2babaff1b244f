//! The block device of an attached drive, whichever way its requests come.

mod looped;

pub use looped::tune;

use crate::claim::{Claim, wait_for_end};
use crate::pace::Pacer;
use crate::request::{Geometry, Serve};
use crate::runtime::{Home, Record};
use crate::transport::{Transport, Wanted};
use crate::ublk::UblkFront;
use anyhow::Context as _;
use looped::Looped;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;
use trimtab_linux::host::disk::Disk;
use trimtab_linux::sys::beneath::Identity;

/// A block device, and who serves it. It stays when this is dropped.
pub struct Block {
    way: Way,
    /// Held while the device is being taken away, so that nobody begins to use it.
    claim: Option<Claim>,
}

enum Way {
    Looped(Looped),
    Ublk(Box<UblkFront>),
}

/// Where a block device is made.
pub struct Place<'a> {
    /// The directory of the drive.
    pub home: &'a Home,
    /// Keeps answers back until they are due.
    pub pacer: &'a Arc<Pacer>,
    /// The data outlive the server, so another one can go on.
    pub lasting: bool,
}

impl Block {
    /// Makes it in the first way of `wanted` that works, and notes in the record what a crash would leave, before it is there. Also gives remarks for
    /// the user.
    pub fn make(drive: &Arc<dyn Serve>, place: &Place<'_>, wanted: Wanted, record: &mut Record) -> anyhow::Result<(Self, Vec<String>)> {
        let mut missed = Vec::new();
        for candidate in wanted.candidates() {
            match Way::make(drive, place, candidate, record) {
                Ok(way) => {
                    let remark = (wanted == Wanted::Best).then(|| chosen(candidate, &missed));
                    return Ok((Self { way, claim: None }, remark.into_iter().collect()));
                }
                Err(error) => missed.push((candidate, error)),
            }
        }
        Err(none(missed))
    }

    /// Serves the device that the record's server had, which has ended otherwise than by detaching it.
    pub fn recover(drive: &Arc<dyn Serve>, record: &Record) -> anyhow::Result<Self> {
        let mark = record.mark().context("its block device does not outlive its server")?;
        Ok(Self { way: Way::Ublk(Box::new(UblkFront::recover(drive, mark)?)), claim: None })
    }

    /// How requests come.
    pub const fn transport(&self) -> Transport {
        match &self.way {
            Way::Looped(_) => Transport::Device,
            Way::Ublk(_) => Transport::Ublk,
        }
    }

    /// The device.
    pub fn disk(&self) -> Disk {
        match &self.way {
            Way::Looped(looped) => looped.disk(),
            Way::Ublk(front) => front.disk(),
        }
    }

    /// How many answers are being kept back until they are due, besides those that the [`Pacer`] keeps.
    pub fn waiting(&self) -> usize {
        match &self.way {
            Way::Looped(_) => 0,
            Way::Ublk(front) => front.waiting(),
        }
    }

    /// Makes the queue show what the drive would show, where it does not yet. Gives what the kernel would not take, in words.
    pub fn tune(&self, geometry: &Geometry) -> Vec<String> {
        match &self.way {
            Way::Looped(looped) => looped.tune(geometry),
            Way::Ublk(_) => Vec::new(),
        }
    }

    /// Makes sure that nobody uses the device, unless by `force`, and that the drive has all that was written. Nothing has changed if this fails.
    pub fn let_go(&mut self, force: bool, problems: &mut Vec<String>) -> anyhow::Result<()> {
        if let Way::Looped(looped) = &self.way {
            return looped.let_go(force, problems);
        }
        if force {
            return Ok(());
        }
        let disk = self.disk();
        let (shown, users) = (disk.path(), disk.users());
        anyhow::ensure!(users.is_empty(), "{} is busy: {}", shown.display(), users.join(", "));
        let claim = Claim::take(&disk).with_context(|| format!("cannot open {}", shown.display()))?;
        match &claim {
            Claim::InUse => anyhow::bail!("{} is busy: another process has it open", shown.display()),
            Claim::Alone(device) => {
                if let Err(error) = device.sync_all() {
                    // A drive that has failed must not stay attached because of that.
                    problems.push(format!("not all that was written to {} has reached the drive: {error}", shown.display()));
                }
            }
            Claim::Gone => {}
        }
        self.claim = Some(claim);
        Ok(())
    }

    /// After that: takes away what is left.
    pub fn take_away(self, home: &Home, served: Option<Identity>, force: bool) -> anyhow::Result<()> {
        let disk = self.disk();
        let taken = match self.way {
            Way::Looped(looped) => return looped.take_away(home, served, force),
            Way::Ublk(front) => front.take_away(),
        };
        taken.with_context(|| format!("cannot take {} away", disk.path().display()))?;
        drop(self.claim);
        if !force {
            wait_for_end(&disk);
        }
        Ok(())
    }
}

impl Way {
    fn make(drive: &Arc<dyn Serve>, place: &Place<'_>, transport: Transport, record: &mut Record) -> anyhow::Result<Self> {
        match transport {
            Transport::Device => Ok(Self::Looped(Looped::make(drive, place, record)?)),
            Transport::Ublk => {
                // What is random enough to be nobody else's.
                let mark = RandomState::new().build_hasher().finish();
                record.mark = Some(format!("{mark:016x}"));
                record.transport = Some(transport);
                place.home.write_record(record)?;
                Ok(Self::Ublk(Box::new(UblkFront::start(drive, mark, place.lasting)?)))
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

/// The reason is that of the way that needs no module of its own; those of the others stand before it.
fn none(mut missed: Vec<(Transport, anyhow::Error)>) -> anyhow::Error {
    let at = missed.iter().position(|(transport, _)| *transport == Transport::Device).unwrap_or_default();
    let (_, error) = missed.remove(at);
    if missed.is_empty() { error } else { error.context(format!("no block device can be had{}", why_not(&missed))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn it_is_said_which_way_was_taken_and_why_no_better() {
        let missed = || (Transport::Ublk, anyhow::anyhow!("it").context("no module"));
        assert_eq!(chosen(Transport::Ublk, &[]), "requests come over ublk");
        assert_eq!(chosen(Transport::Device, &[missed()]), "requests come over a loop device over FUSE; not ublk: no module: it");
        let fuse = (Transport::Device, anyhow::Error::new(io::Error::from_raw_os_error(libc::ENOENT)));
        let error = none(vec![missed(), fuse]);
        assert_eq!(format!("{error:#}"), "no block device can be had; not ublk: no module: it: No such file or directory (os error 2)");
        assert_eq!(error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error), Some(libc::ENOENT), "the cause is kept");
        assert_eq!(format!("{:#}", none(vec![missed()])), "no module: it");
    }
}
