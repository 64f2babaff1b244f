//! Drives that were made so small that what does not shrink counts.

use crate::run::{Field, Severity, Warning};
use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::ToString as _;
use alloc::vec;
use trimtab_drive::spec::DriveSpec;
use trimtab_drive::spec::layout::Layout;
use trimtab_drive::units::{Bytes, three_digits};

/// Superblocks that are open or kept free may take this share of the spare space before that is said: write amplification is then about 2 % too high.
const SHARE_MAX: f64 = 0.1;

/// A warning where `small`, which is `full` at another capacity, has so few superblocks that those open for writing or kept free, as many as of the full
/// drive, take more than a tenth of its spare space, and twice as much as of the full one. `None` for disks.
#[must_use]
pub fn superblocks(full: &DriveSpec, small: &DriveSpec) -> Option<Warning> {
    let (share, count, idle) = spare_taken(small)?;
    let (share_of_full, of_full, _) = spare_taken(full)?;
    if share <= SHARE_MAX || share < 2.0 * share_of_full {
        return None;
    }
    // The spare space goes with the capacity; what is open or free does not.
    let enough = ((full.capacity_bytes as f64 * share_of_full / SHARE_MAX) as u64).div_ceil(1 << 30) << 30;
    let enough = Bytes(enough.min(full.capacity_bytes));
    Some(Warning {
        code: "drive.few-superblocks".to_owned(),
        severity: Severity::Caution,
        facts: vec![
            Field::new("superblocks", count.to_string()),
            Field::new("superblocks-of-full", of_full.to_string()),
            Field::new("enough-bytes", enough.0.to_string()),
        ],
        text: format!(
            "at this capacity the drive has {count} superblocks where the full one has {of_full}, and {idle} are open or kept free in both: that takes {} % of the spare space ({} % of the full drive), so write amplification comes out too high; {enough} is enough",
            three_digits(100.0 * share),
            three_digits(100.0 * share_of_full),
        ),
    })
}

/// The share of the spare space that superblocks open for writing or kept free take; superblocks, and how many those are.
fn spare_taken(spec: &DriveSpec) -> Option<(f64, u32, u32)> {
    let flash = spec.flash()?;
    let layout = Layout::new(spec, flash).ok()?;
    let idle = layout.open_superblocks + flash.ftl.gc.free_low;
    let spare = f64::from(layout.superblocks) - f64::from(layout.units) * f64::from(layout.unit_slots) / f64::from(layout.superblock_slots);
    (spare > 0.0).then(|| (f64::from(idle) / spare, layout.superblocks, idle))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_drive::model::sized;
    use trimtab_drive::shipped::drive;

    /// By hand: 128 GiB raw of superblocks of 64 MiB (16 dies, 2 planes, 256 pages of 8 KiB) are 2048; 128.04 GB of user data take 1907.9 of them.
    #[test]
    fn small_drive_warning_names_a_sufficient_size() {
        let full = drive("crucial-m4-128gb").spec;
        let warning = superblocks(&full, &sized(full.clone(), Some(Bytes(4 << 30))).unwrap()).unwrap();
        let fact = |key: &str| Field::find(&warning.facts, key).unwrap().parse::<u64>().unwrap();
        assert_eq!(fact("superblocks-of-full"), full.flash().unwrap().geometry.superblocks());
        let enough = Bytes(fact("enough-bytes"));
        assert!(superblocks(&full, &sized(full.clone(), Some(enough)).unwrap()).is_none(), "{enough}");
        assert!(superblocks(&full, &sized(full.clone(), Some(Bytes(enough.0 * 3 / 4))).unwrap()).is_some(), "{enough}");
        assert!(superblocks(&full, &full).is_none());
    }
}
