//! LVM names.

/// Converts `vg-lv` of device-mapper to `vg/lv` of LVM; hyphens inside names are doubled.
/// For a part of a volume, such as a mirror leg, returns the whole volume: LVM commands
/// accept only that.
pub fn lvm_name(mapped: &str) -> String {
    let marked = mapped.replace("--", "\0");
    let (group, volume) = marked.split_once('-').unwrap_or((&marked, ""));
    // `lv-real` and `lv-cow` are layers of one volume.
    let volume = whole_volume(volume.split('-').next().unwrap_or(volume));
    format!("{}/{}", group.replace('\0', "-"), volume.replace('\0', "-"))
        .trim_end_matches('/')
        .to_owned()
}

/// Suffixes that LVM appends to a volume name for its parts, with or without a number.
const PARTS: [&str; 14] = [
    "_mimage", "_mlog", "_rimage", "_rmeta", "_tdata", "_tmeta", "_cdata", "_cmeta", "_corig",
    "_wcorig", "_cvol", "_vdata", "_imeta", "_iorig",
];

/// The volume that a part belongs to; that volume may itself be a part.
fn whole_volume(name: &str) -> &str {
    let numbered = name
        .rsplit_once('_')
        .filter(|(_, digits)| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()));
    let of = |name: &'_ str| {
        PARTS
            .iter()
            .find_map(|part| name.strip_suffix(part).map(str::len))
            .filter(|length| *length > 0)
    };
    match of(name).or_else(|| of(numbered?.0)) {
        Some(length) => whole_volume(&name[..length]),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lvm_names_undo_doubled_hyphens() {
        assert_eq!(lvm_name("vg-root"), "vg/root");
        assert_eq!(lvm_name("my--vg-my--lv"), "my-vg/my-lv");
        assert_eq!(lvm_name("plain"), "plain");
    }

    #[test]
    fn lvm_name_of_internal_volume_names_its_parent() {
        for (mapped, expected) in [
            ("vg-lv_mimage_0", "vg/lv"),
            ("my--vg-lv_rimage_11", "my-vg/lv"),
            ("vg-pool_tdata_rimage_0", "vg/pool"),
            ("vg-lv_corig", "vg/lv"),
            ("vg-lv-real", "vg/lv"),
            ("vg-data_1", "vg/data_1"),
            ("vg-_tdata", "vg/_tdata"),
        ] {
            assert_eq!(lvm_name(mapped), expected, "{mapped}");
        }
    }
}
