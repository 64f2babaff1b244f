//! Warning for drives scaled down so far that fixed costs dominate.

use crate::run::{Field, Severity, Warning};
use alloc::format;
use alloc::string::ToString as _;
use alloc::vec;
use trimtab_drive::spec::DriveSpec;
use trimtab_drive::spec::layout::SsdLayout;
use trimtab_drive::units::{Bytes, three_digits};

/// Warn if open and free superblocks take more than this share of the spare space: write
/// amplification is then about 2 % too high.
const SHARE_MAX: f64 = 0.1;

/// A warning if open and free superblocks take more than a tenth of the spare space of
/// `small`, and twice the share of `full`, the same drive at another capacity. The number
/// of those superblocks does not scale.
#[must_use]
pub fn superblocks(full: &DriveSpec, small: &DriveSpec) -> Option<Warning> {
    let (share, count, idle) = spare_taken(small)?;
    let (share_of_full, of_full, _) = spare_taken(full)?;
    if share <= SHARE_MAX || share < 2.0 * share_of_full {
        return None;
    }
    // Spare space scales with capacity; open and free superblocks do not.
    let enough =
        ((full.capacity_bytes as f64 * share_of_full / SHARE_MAX) as u64).div_ceil(1 << 30) << 30;
    let enough = Bytes(enough.min(full.capacity_bytes));
    let facts = vec![
        Field::new("superblocks", count.to_string()),
        Field::new("superblocks-of-full", of_full.to_string()),
        Field::new("enough-bytes", enough.0.to_string()),
    ];
    let text = format!(
        "at this capacity the drive has {count} superblocks (full drive: {of_full}), and the \
            {idle} open or free ones take {} % of the spare space (full drive: {} %), so write \
            amplification is too high; use at least {enough}",
        three_digits(100.0 * share),
        three_digits(100.0 * share_of_full),
    );
    Some(Warning::new("drive.few-superblocks", Severity::Caution, text).with(facts))
}

/// Share of spare space in open or free superblocks, all superblocks, and those.
fn spare_taken(spec: &DriveSpec) -> Option<(f64, u32, u32)> {
    let flash = &spec.flash;
    let layout = SsdLayout::new(spec, flash).ok()?;
    let idle = layout.open_superblocks + flash.ftl.gc.free_low;
    let spare = f64::from(layout.superblocks)
        - f64::from(layout.units) * f64::from(layout.unit_slots)
            / f64::from(layout.superblock_slots);
    (spare > 0.0).then(|| (f64::from(idle) / spare, layout.superblocks, idle))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_drive::model::sized;
    use trimtab_drive::shipped::drive;

    /// By hand: 128 GiB raw in superblocks of 64 MiB (16 dies, 2 planes, 256 pages of 8
    /// KiB) are 2048; 128.04 GB of user data take 1907.9 of them.
    #[test]
    fn small_drive_warning_names_a_sufficient_size() {
        let full = drive("crucial-m4-128gb").spec;
        let warning =
            superblocks(&full, &sized(full.clone(), Some(Bytes(4 << 30))).unwrap()).unwrap();
        let fact = |key: &str| Field::find(&warning.facts, key).unwrap().parse::<u64>().unwrap();
        assert_eq!(fact("superblocks-of-full"), full.flash.geometry.superblocks());
        let enough = Bytes(fact("enough-bytes"));
        assert!(
            superblocks(&full, &sized(full.clone(), Some(enough)).unwrap()).is_none(),
            "{enough}"
        );
        assert!(
            superblocks(&full, &sized(full.clone(), Some(Bytes(enough.0 * 3 / 4))).unwrap())
                .is_some(),
            "{enough}"
        );
        assert!(superblocks(&full, &full).is_none());
    }
}
