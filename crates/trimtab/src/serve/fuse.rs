//! The front end that the kernel's loop driver stands on: one file, served over FUSE.
//!
//! The file is opened for direct I/O, so nothing is cached between the loop device and the engine: a flush of the
//! device reaches the drive with everything before it, and the drive sees exactly the requests of the block layer. What is asked
//! arrives over io_uring ([`rings`]) or through `/dev/fuse` ([`device`]); what is answered is the same ([`node`]).

mod device;
mod node;
mod rings;
mod wire;

use crate::serve::pace::Pacer;
use crate::serve::request::Serve;
use crate::serve::transport::Transport;
use device::OneFile;
use fuser::{Config, FopenFlags, INodeNo, MountOption};
use node::Node;
use rings::{Plan, Rings, Switch};
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const FILE: INodeNo = INodeNo(2);
/// Nothing about the file ever changes, so the kernel need not ask again.
const FOREVER: Duration = Duration::from_secs(365 * 86_400);
/// How the file is opened.
const OPENED: FopenFlags = FopenFlags::FOPEN_DIRECT_IO.union(FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES).union(FopenFlags::FOPEN_NOFLUSH);
/// The kernel's own limit for one FUSE request (`fs.fuse.max_pages_limit`, 256 pages) unless raised.
pub const MAX_REQUEST_BYTES: u32 = 1 << 20;

/// A mounted filesystem. It stays mounted when this is dropped.
pub struct Mounted {
    session: fuser::BackgroundSession,
    rings: Option<Rings>,
    /// Why requests do not come over io_uring though the kernel has it.
    pub remark: Option<String>,
}

impl Mounted {
    /// Whether it was unmounted and nobody holds it open any more.
    pub fn is_finished(&self) -> bool {
        self.session.guard.is_finished() && self.rings.as_ref().is_none_or(Rings::are_finished)
    }

    /// How many answers are being kept back until they are due, besides those that the [`Pacer`] keeps.
    pub fn waiting(&self) -> usize {
        self.rings.as_ref().map_or(0, Rings::waiting)
    }

    /// How requests really come.
    pub const fn transport(&self) -> Transport {
        if self.rings.is_some() { Transport::Uring } else { Transport::Device }
    }
}

/// Mounts a filesystem of one file `name`, which is `drive`, on the directory `mountpoint`, and serves it until it is unmounted.
pub fn mount(drive: Arc<dyn Serve>, pacer: &Arc<Pacer>, name: &str, mountpoint: &Path, transport: Transport) -> io::Result<Mounted> {
    let node = Arc::new(Node::new(drive, name));
    let mut remark = None;
    if transport == Transport::Uring
        && let Some(plan) = Plan::new()
    {
        match mount_over_rings(&node, pacer, mountpoint, plan) {
            Ok(mounted) => return Ok(mounted),
            // Leaving it has unmounted what was mounted.
            Err(error) => remark = Some(format!("requests do not come over io_uring, which is slower: {error}")),
        }
    }
    let session = session(&node, pacer, mountpoint, &Arc::default())?;
    Ok(Mounted { session: session.spawn()?, rings: None, remark })
}

fn mount_over_rings(node: &Arc<Node>, pacer: &Arc<Pacer>, mountpoint: &Path, plan: Plan) -> io::Result<Mounted> {
    let agreed = Arc::new(AtomicBool::new(true));
    let switch = Switch::on();
    let session = session(node, pacer, mountpoint, &agreed)?;
    drop(switch);
    let rings = if agreed.load(Ordering::Relaxed) {
        // The kernel makes everybody wait now until it knows all rings.
        Some(plan.start(&session.as_fd().try_clone_to_owned()?, node)?)
    } else {
        None
    };
    Ok(Mounted { session: session.spawn()?, rings, remark: None })
}

fn session(node: &Arc<Node>, pacer: &Arc<Pacer>, mountpoint: &Path, over_rings: &Arc<AtomicBool>) -> io::Result<fuser::Session<OneFile>> {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("trimtab".into()),
        MountOption::Subtype("trimtab".into()),
        MountOption::NoSuid,
        MountOption::NoDev,
        MountOption::NoExec,
        MountOption::NoAtime,
    ];
    config.n_threads = Some(std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 8)));
    config.clone_fd = true;
    let file = OneFile { node: Arc::clone(node), pacer: Arc::clone(pacer), over_rings: Arc::clone(over_rings) };
    fuser::Session::new(file, mountpoint, &config)
}
