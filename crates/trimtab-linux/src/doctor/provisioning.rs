//! The command with which the kernel discards on a SCSI disk (`provisioning_mode`), and
//! its maximum length.

use super::scsi_pages::{Method, ScsiPages};
use crate::host::block::Layer;
use crate::host::drive;
use crate::host::root::Root;
use std::path::PathBuf;
use trimtab_drive::usage::quoted;

/// Default block size if the kernel reports none.
const BLOCK_BYTES: u64 = 512;

/// The `provisioning_mode` file of a SCSI disk, and its content.
#[derive(Clone, Debug)]
pub struct Mode {
    pub file: PathBuf,
    pub word: String,
}

impl Mode {
    pub fn read(root: &Root, layer: &Layer) -> Option<Self> {
        let disks = drive::device_directory(layer).join("scsi_disk");
        let disk = root.list(&disks).into_iter().next()?;
        let file = disks.join(disk).join("provisioning_mode");
        let word = root.read(&file)?;
        Some(Self { file: root.canonical(&file).unwrap_or(file), word })
    }

    fn shown(&self) -> String {
        quoted(&self.file.to_string_lossy())
    }

    /// Shell command that sets another mode.
    pub fn command(&self, to: &str) -> String {
        format!("echo {to} > {}", self.shown())
    }
}

/// Longest discard that the device takes with the current command, as far as its pages
/// state it.
pub fn longest_command(root: &Root, layer: &Layer) -> Option<u64> {
    let method = Method::of_mode(&Mode::read(root, layer)?.word)?;
    ScsiPages::read(root, layer).below(method, u64::MAX, block_bytes(root, layer))
}

pub fn block_bytes(root: &Root, layer: &Layer) -> u64 {
    root.read_u64(layer.queue().join("logical_block_size"))
        .filter(|size| *size > 0)
        .unwrap_or(BLOCK_BYTES)
}
