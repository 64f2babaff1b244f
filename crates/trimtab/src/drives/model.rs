//! Modelled drives.

pub use trimtab_drive::model::{Model, build, resume, sized};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drives;
    use trimtab_drive::data::DataClass;
    use trimtab_drive::{Command, Extent};
    use trimtab_drive::units::{Bytes, Nanos};

    #[test]
    fn a_disk_writes_what_the_host_writes_wherever_it_is_by_now() {
        let spec = drives::load("laptop-7200rpm").unwrap().spec;
        let mut disk = build(&spec, 1).unwrap();
        let mut now = Nanos::ZERO;
        for nth in 0..1000_u64 {
            // Each second write replaces what is still in the cache.
            let extent = Extent { offset: nth / 2 * 1_000_448, len: 8192 };
            now = disk.submit(now, &Command::Write(extent, DataClass::Random)).done;
            let (host, medium) = disk.written();
            assert_eq!((host, medium), ((nth + 1) * 8192, (nth + 1) * 8192));
        }
    }

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
