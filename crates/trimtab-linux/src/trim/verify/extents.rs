//! Maps a file to the devices: FIEMAP, and the chunk tree for btrfs.

use crate::host::block::Stack;
use crate::host::mountinfo::Mount;
use crate::sys::fiemap;
use crate::trim::btrfs;
use anyhow::{Context as _, bail};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::fs::File;
use std::path::PathBuf;

/// A piece of a file in the filesystem's address space (of the device; for btrfs
/// logical).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedExtent {
    /// Offset in the file.
    pub in_file: u64,
    /// Address.
    pub address: u64,
    /// Bytes.
    pub len: u64,
}

/// The extents of a file, which must have been synced.
pub fn of_file(file: &File) -> anyhow::Result<Vec<MappedExtent>> {
    let found = match fiemap::of_file(file) {
        Ok(found) => found,
        Err(Errno::NOTTY | Errno::OPNOTSUPP) => {
            bail!(
                "this filesystem does not report file extents (no FIEMAP); 'trimtab \
                    doctor' works without them"
            )
        }
        Err(errno) => return Err(errno).context("cannot read the extents of the file (FIEMAP)"),
    };
    if let Some(extent) = found.iter().find(|extent| !extent.is_plain()) {
        bail!("the file's data have no extents of their own (FIEMAP flags {:#x})", extent.flags);
    }
    Ok(found
        .iter()
        .map(|extent| MappedExtent {
            in_file: extent.logical,
            address: extent.physical,
            len: extent.len,
        })
        .collect())
}

/// A piece of a file on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceExtent {
    /// Offset in the file.
    pub in_file: u64,
    /// The device node.
    pub device: PathBuf,
    /// Byte offset on the device.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// Maps addresses to devices, for every copy.
pub struct Mapper {
    single: Option<PathBuf>,
    chunks: Vec<btrfs::BtrfsChunk>,
    devices: Vec<(u64, PathBuf)>,
}

impl Mapper {
    /// For the filesystem `mount`, open as `file`.
    pub fn new(mount: &Mount, stack: &Stack, file: BorrowedFd<'_>) -> anyhow::Result<Self> {
        if mount.fs_type != "btrfs" {
            let tops: Vec<_> = stack.top_layers().collect();
            let [top] = tops[..] else {
                bail!(
                    "{} is on {} devices; the device of an address is unknown",
                    mount.fs_type,
                    tops.len()
                )
            };
            return Ok(Self {
                single: Some(crate::host::block::node_of(&top.name).into()),
                chunks: Vec::new(),
                devices: Vec::new(),
            });
        }
        let chunks = btrfs::chunks(file).context("cannot read the chunk tree")?;
        let mut devices: Vec<(u64, PathBuf)> = Vec::new();
        for id in chunks.iter().flat_map(btrfs::BtrfsChunk::devices) {
            if !devices.iter().any(|(known, _)| *known == id) {
                let path = btrfs::device_path(file, id).context("cannot find the devices")?;
                devices.push((id, path));
            }
        }
        Ok(Self { single: None, chunks, devices })
    }

    /// The places of an extent: several pieces if it crosses stripes, several copies on
    /// mirrors.
    pub fn place(&self, extent: &MappedExtent) -> anyhow::Result<Vec<DeviceExtent>> {
        if let Some(device) = &self.single {
            return Ok(vec![DeviceExtent {
                in_file: extent.in_file,
                device: device.clone(),
                offset: extent.address,
                len: extent.len,
            }]);
        }
        let mut placed = Vec::new();
        let mut done = 0;
        while done < extent.len {
            let address = extent.address.saturating_add(done);
            let chunk =
                self.chunks.iter().find(|c| c.logical <= address && address - c.logical < c.len);
            let chunk = chunk.context("an address is in no chunk")?;
            let (stripes, run) =
                chunk.place(address).context("the place of striped parity data is unknown")?;
            let len = run.min(extent.len - done);
            for stripe in stripes {
                let device = self
                    .devices
                    .iter()
                    .find(|(id, _)| *id == stripe.device)
                    .context("a device is missing")?
                    .1
                    .clone();
                placed.push(DeviceExtent {
                    in_file: extent.in_file + done,
                    device,
                    offset: stripe.offset,
                    len,
                });
            }
            done += len;
        }
        Ok(placed)
    }
}
