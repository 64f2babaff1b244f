//! Discard limits that the block layer reports for each queue.

use super::remedy::limit_path;
use super::{Evidence, Gate, Remedy, RemedyAction, provisioning};
use crate::host::block::{Layer, writable_limit};
use crate::host::root::Root;
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::quoted;

/// Limits of one queue, in bytes; `None` where the kernel does not report one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Discard granularity: smaller or unaligned discards are trimmed or dropped. 0: no
    /// discard support.
    pub granularity: Option<u64>,
    /// Longest discard sent; 0: discards are off. The administrator can lower it.
    pub max: Option<u64>,
    /// Longest discard that the driver accepts.
    pub max_hw: Option<u64>,
    /// Longest discard that the device accepts by its own pages.
    pub device: Option<u64>,
    /// Longest write-zeroes command.
    pub write_zeroes: Option<u64>,
    /// Physical block size.
    pub physical: Option<u64>,
}

impl Limits {
    pub fn read(root: &Root, layer: &Layer) -> Self {
        let queue = layer.queue();
        let read = |name: &str| root.read_u64(queue.join(name));
        Self {
            granularity: read("discard_granularity"),
            max: read("discard_max_bytes"),
            max_hw: read("discard_max_hw_bytes"),
            device: provisioning::longest_command(root, layer),
            write_zeroes: read("write_zeroes_max_bytes"),
            physical: read("physical_block_size"),
        }
    }

    /// True if the hardware takes discards and the limit was set to 0.
    pub fn switched_off(&self) -> bool {
        self.max == Some(0) && self.max_hw.is_some_and(|hw| hw > 0)
    }

    /// Longest discard that both driver and device accept.
    pub fn highest(&self) -> Option<u64> {
        self.max_hw.map(|hw| hw.min(self.device.unwrap_or(hw)))
    }

    /// The remedy that sets the queue's limit to this value, or to the nearest value that
    /// the kernel accepts.
    pub fn set(&self, layer: &Layer, bytes: u64) -> Remedy {
        let to = writable_limit(bytes, self.granularity.unwrap_or(1)).to_string();
        let from = self.max.unwrap_or(0).to_string();
        let step = format!("echo {to} > {}", quoted(&limit_path(layer)));
        Remedy::run(step).done_by([RemedyAction::Attribute {
            file: layer.queue().join("discard_max_bytes"),
            from,
            to,
        }])
    }

    /// The gate by the limits alone.
    pub fn gate(&self) -> Gate {
        match (self.granularity, self.max) {
            (Some(0), _) | (_, Some(0)) => Gate::Blocks,
            (Some(_), Some(_)) => Gate::Passes,
            _ => Gate::Unknown,
        }
    }

    pub fn note(&self, evidence: &mut Evidence) {
        evidence.add_some("discard_granularity", self.granularity);
        evidence.add_some("discard_max_bytes", self.max);
        evidence.add_some("discard_max_hw_bytes", self.max_hw);
    }

    /// Formats the limits: `up to 2.15 GB each, in steps of 512 B`.
    pub fn words(&self) -> String {
        match (self.granularity, self.max) {
            (Some(0), _) | (_, Some(0)) => "takes no discards".to_owned(),
            (Some(granularity), Some(max)) => {
                format!("discards up to {} each, in units of {granularity} B", Bytes(max))
            }
            _ => "does not say what it takes".to_owned(),
        }
    }
}
