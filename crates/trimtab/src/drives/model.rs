//! Modelled drives whose tables have large pages where the kernel gives them.

use trimtab_core::drive::model;
pub use trimtab_core::drive::model::{Model, resume, sized};
use trimtab_core::drive::spec::{DriveSpec, SpecError};

/// A new drive of `spec`.
pub fn build(spec: &DriveSpec, seed: u64) -> Result<Box<dyn Model>, SpecError> {
    let drive = model::build(spec, seed)?;
    crate::sys::large_pages::prefer_huge_pages(&drive.tables());
    Ok(drive)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drives;
    use trimtab_core::units::Bytes;

    #[test]
    fn a_size_that_is_too_small_is_refused_with_one_that_is_not() {
        for name in ["sata-tlc-500gb", "nvme-tlc-500gb", "intel-520-120gb"] {
            let spec = drives::load(name).unwrap().spec;
            let refused = sized(spec.clone(), Some(Bytes(64 << 20))).unwrap_err().to_string();
            let (_, hint) = refused.rsplit_once("; ").unwrap_or_else(|| panic!("no hint: {refused}"));
            let gib: u64 = hint.split_once("GiB").unwrap().0.parse().unwrap();
            assert!(sized(spec, Some(Bytes(gib << 30))).is_ok(), "{hint}");
        }
    }
}
