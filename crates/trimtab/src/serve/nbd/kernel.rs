//! The kernel's own NBD client as a block device: connected by this program to this server, over pairs of sockets that nobody else can reach.

use super::Connection;
use super::negotiation::{self, Agreed};
use super::netlink::{Attributes, CONNECT, Client, DISCONNECT, RECONFIGURE};
use super::room::Room;
use crate::host::disk::{Disk, nbd_with_backend};
use crate::serve::pace::Pacer;
use crate::serve::request::{Geometry, Serve};
use anyhow::Context as _;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// `NBD_CFLAG_DESTROY_ON_DISCONNECT`
const DESTROY_ON_DISCONNECT: u64 = 1;
/// No device beyond this number is tried.
const NUMBER_MAX: u32 = 4096;
/// More connections than this make nothing faster.
const CONNECTIONS_MAX: usize = 8;
/// A request that takes longer is sent again over another connection: no drive is meant to be that slow.
const TIMEOUT_S: u64 = 300;
/// The same for a device that can be taken over after a crash, where it is how long requests wait that the old server had taken.
const TIMEOUT_LASTING_S: u64 = 30;
/// How long requests wait for another server: as good as for ever.
const RECOVERY_S: u64 = 365 * 86_400;
/// How long the device, or its end, is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// A device of the client's, and the connections to it. It stays when this is dropped.
pub struct KernelNbd {
    client: Client,
    number: u32,
}

fn open() -> anyhow::Result<Client> {
    Client::open().map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::NotFound => "the kernel's NBD client is not there (the module nbd is missing or not loaded: `modprobe nbd`)",
            _ => "the kernel's NBD client cannot be asked",
        };
        anyhow::Error::new(error).context(hint)
    })
}

/// What the client keeps to recognise the device by, and shows in its directory in sysfs.
fn backend(mark: u64) -> String {
    format!("trimtab-{mark:016x}")
}

/// Devices that were connected with this mark.
fn marked(mark: u64) -> Vec<u32> {
    nbd_with_backend(&backend(mark))
}

fn disk(number: u32) -> Disk {
    Disk(format!("nbd{number}"))
}

impl KernelNbd {
    /// Connects a device that did not exist before, so that no limit of a former user sticks to it, and that goes when it is disconnected. If it is
    /// `lasting`, its requests wait for another server when this one ends otherwise.
    pub fn start(drive: &Arc<dyn Serve>, pacer: &Arc<Pacer>, mark: u64, lasting: bool) -> anyhow::Result<Self> {
        let client = open()?;
        let geometry = drive.geometry();
        let ends = connect(drive, pacer)?;
        let descriptors: Vec<i32> = ends.iter().map(|end| end.as_raw_fd()).collect();
        let described = describe(&geometry, mark, lasting).sockets(&descriptors);
        for number in (0..NUMBER_MAX).filter(|number| !disk(*number).sysfs().exists()) {
            match client.command(CONNECT, &described.clone().index(number)) {
                Ok(_) => {
                    wait_for_node(&disk(number).path());
                    return Ok(Self { client, number });
                }
                // Somebody else was faster.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST)) => {}
                Err(error) => return Err(error).context("the kernel's NBD client does not connect"),
            }
        }
        anyhow::bail!("the kernel's NBD client has no device left")
    }

    /// Connects the device with this mark again, whose server has ended.
    pub fn recover(drive: &Arc<dyn Serve>, pacer: &Arc<Pacer>, mark: u64) -> anyhow::Result<Self> {
        let client = open()?;
        let number = marked(mark).first().copied().context("its NBD device is gone")?;
        let ends = connect(drive, pacer)?;
        let descriptors: Vec<i32> = ends.iter().map(|end| end.as_raw_fd()).collect();
        let described = Attributes::default().index(number).backend(&backend(mark)).sockets(&descriptors);
        client.command(RECONFIGURE, &described).with_context(|| format!("{} cannot be taken over", disk(number).path().display()))?;
        Ok(Self { client, number })
    }

    /// The block device.
    pub fn disk(&self) -> Disk {
        disk(self.number)
    }

    /// Takes the device away: from who has it open, once they close it.
    pub fn take_away(&self) -> io::Result<()> {
        disconnect(&self.client, self.number)
    }
}

/// What the device is like.
fn describe(geometry: &Geometry, mark: u64, lasting: bool) -> Attributes {
    let described = Attributes::default()
        .size(geometry.size)
        .block_size(geometry.logical_block)
        .timeout(if lasting { TIMEOUT_LASTING_S } else { TIMEOUT_S })
        .server_flags(negotiation::transmission_flags(geometry, Agreed::default()))
        .client_flags(DESTROY_ON_DISCONNECT)
        .backend(&backend(mark));
    if lasting { described.dead_connection_timeout(RECOVERY_S) } else { described }
}

/// Connections, each served by a thread; gives the ends for the kernel.
fn connect(drive: &Arc<dyn Serve>, pacer: &Arc<Pacer>) -> anyhow::Result<Vec<OwnedFd>> {
    let connections = std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, CONNECTIONS_MAX));
    let room = Arc::new(Room::new());
    let mut ends = Vec::new();
    for number in 0..connections {
        let (ours, theirs) = UnixStream::pair().context("cannot make a pair of sockets")?;
        let connection = Connection { drive: Arc::clone(drive), pacer: Arc::clone(pacer), room: Arc::clone(&room) };
        let serve = move || {
            if let Err(error) = connection.serve_agreed(ours, Agreed::default())
                && error.kind() != io::ErrorKind::UnexpectedEof
            {
                crate::output::complain(&format!("a connection of the kernel's NBD client ended: {error}"));
            }
        };
        std::thread::Builder::new().name(format!("nbd-{number}")).spawn(serve).context("cannot start a thread")?;
        ends.push(OwnedFd::from(theirs));
    }
    Ok(ends)
}

fn wait_for_node(node: &Path) {
    let patience = Instant::now() + PATIENCE;
    while !node.exists() && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn disconnect(client: &Client, number: u32) -> io::Result<()> {
    match client.command(DISCONNECT, &Attributes::default().index(number)) {
        // Somebody else did.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENODEV | libc::ENOENT)) => Ok(()),
        result => result.map(drop),
    }
}

/// What a dead server left.
pub struct Left(Vec<u32>);

impl Left {
    /// The devices with this mark.
    pub fn find(mark: u64) -> Self {
        Self(marked(mark))
    }

    /// They.
    pub fn disks(&self) -> Vec<Disk> {
        self.0.iter().copied().map(disk).collect()
    }

    /// Takes them away.
    pub fn take_away(&self) -> io::Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let client = Client::open()?;
        self.0.iter().try_for_each(|number| disconnect(&client, *number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_described_with_its_mark_and_may_outlive_its_server() {
        let geometry = Geometry {
            size: 1 << 30,
            logical_block: 512,
            atomic_write: 4096,
            discard_granularity: 4096,
            discard_max_bytes: 1 << 30,
            volatile_cache: true,
            rotational: false,
        };
        let plain = Attributes::default().size(1 << 30).block_size(512).timeout(300);
        // HAS_FLAGS, FLUSH, FUA, TRIM, WRITE_ZEROES, MULTI_CONN
        let plain = plain.server_flags(0b1_0110_1101).client_flags(1).backend("trimtab-00000000000000ff");
        assert_eq!(describe(&geometry, 255, false), plain);
        assert_ne!(describe(&geometry, 255, true), plain);
    }
}
