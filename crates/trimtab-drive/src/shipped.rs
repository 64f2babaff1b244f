//! Drive specifications included in the program.

use crate::spec::file::{Drive, parse};
use alloc::vec::Vec;

/// Specification files in name order.
pub const FILES: [&str; 14] = [
    include_str!("../drives/corsair-force-3-120gb.toml"),
    include_str!("../drives/corsair-p128.toml"),
    include_str!("../drives/crucial-m4-128gb.toml"),
    include_str!("../drives/crucial-m4-512gb.toml"),
    include_str!("../drives/intel-320-300gb.toml"),
    include_str!("../drives/intel-520-120gb.toml"),
    include_str!("../drives/intel-x25-m-160gb.toml"),
    include_str!("../drives/nvme-qlc-dramless-500gb.toml"),
    include_str!("../drives/nvme-tlc-500gb.toml"),
    include_str!("../drives/ocz-vertex-2-le-100gb.toml"),
    include_str!("../drives/ocz-vertex-le-100gb.toml"),
    include_str!("../drives/ocz-vertex-le-200gb.toml"),
    include_str!("../drives/owc-electra-3g-480gb.toml"),
    include_str!("../drives/sata-tlc-500gb.toml"),
];

/// Specifications fitted to rates measured by owners of 36 models, in name order
/// ([`catalogue`](trimtab_study::learn::catalogue)).
pub const MEASURED: [&str; 36] = [
    include_str!("../drives/measured/ct1000p3pssd8.toml"),
    include_str!("../drives/measured/fanxiang-s500pro-1tb.toml"),
    include_str!("../drives/measured/hfs256gd9tng-62a0a.toml"),
    include_str!("../drives/measured/hfs512gd9tng-62a0a.toml"),
    include_str!("../drives/measured/hfs512gde9x083n.toml"),
    include_str!("../drives/measured/intel-ssdpekka256g7.toml"),
    include_str!("../drives/measured/kingston-sa2000m8250g.toml"),
    include_str!("../drives/measured/kxg50znv256g-toshiba.toml"),
    include_str!("../drives/measured/kxg6aznv512g-toshiba.toml"),
    include_str!("../drives/measured/kxg6aznv512g-toshiba-sample.toml"),
    include_str!("../drives/measured/lexar-ssd-nm790-2tb.toml"),
    include_str!("../drives/measured/mtfdhba256tck-1as15abyy.toml"),
    include_str!("../drives/measured/mtfdhba512tck.toml"),
    include_str!("../drives/measured/mtfdkba512tfh.toml"),
    include_str!("../drives/measured/mzul2256hchq-00afb.toml"),
    include_str!("../drives/measured/mzul2512hcjq-00afb.toml"),
    include_str!("../drives/measured/patriot-m-2-p300-1024gb.toml"),
    include_str!("../drives/measured/samsung-mzvlw256hehp-00000.toml"),
    include_str!("../drives/measured/samsung-ssd-860.toml"),
    include_str!("../drives/measured/samsung-ssd-870.toml"),
    include_str!("../drives/measured/samsung-ssd-970-evo-500gb.toml"),
    include_str!("../drives/measured/samsung-ssd-970-pro-512gb.toml"),
    include_str!("../drives/measured/samsung-ssd-980-pro-1tb.toml"),
    include_str!("../drives/measured/samsung-ssd-990-evo-1tb.toml"),
    include_str!("../drives/measured/samsung-ssd-990-pro-2tb.toml"),
    include_str!("../drives/measured/shgp31-1000gm-2.toml"),
    include_str!("../drives/measured/skhynix-pc711-nvme-512gb.toml"),
    include_str!("../drives/measured/skhynix-phoenix.toml"),
    include_str!("../drives/measured/wd-black-sn770-1tb.toml"),
    include_str!("../drives/measured/wd-black-sn850x-1000gb.toml"),
    include_str!("../drives/measured/wd-blue-sn580-1tb.toml"),
    include_str!("../drives/measured/wdc-cl-sn720-sdaqntw-256g-1020.toml"),
    include_str!("../drives/measured/wdc-cl-sn720-sdaqntw-512g-1020.toml"),
    include_str!("../drives/measured/wdc-cl-sn720-sdaqntw-512g-2000.toml"),
    include_str!("../drives/measured/wdc-cl-sn730-sdbqnty-256g-2020.toml"),
    include_str!("../drives/measured/wdc-cl-sn730-sdbqnty-512g-2020.toml"),
];

/// Specifications of ten data-centre SSD units whose runs are published (SSD-iq, PVLDB
/// 18(11), 2025), in name order.
pub const DATA_CENTER: [&str; 10] = [
    include_str!("../drives/data-center/aws-i4i-3750gb.toml"),
    include_str!("../drives/data-center/kioxia-cm7-r-3840gb-k4.toml"),
    include_str!("../drives/data-center/kioxia-cm7-r-3840gb-k5.toml"),
    include_str!("../drives/data-center/micron-7450-max-800gb.toml"),
    include_str!("../drives/data-center/micron-7450-pro-960gb.toml"),
    include_str!("../drives/data-center/samsung-pm9a3-960gb.toml"),
    include_str!("../drives/data-center/sk-hynix-pe8110-960gb.toml"),
    include_str!("../drives/data-center/solidigm-d7-p5520-1920gb-i0.toml"),
    include_str!("../drives/data-center/solidigm-d7-p5520-1920gb-i1.toml"),
    include_str!("../drives/data-center/wd-dc-960gb.toml"),
];

/// All files, those of [`FILES`] first.
pub fn files() -> impl Iterator<Item = &'static str> {
    FILES.into_iter().chain(DATA_CENTER).chain(MEASURED)
}

/// Finds a drive by name.
#[must_use]
pub fn named(name: &str) -> Option<Drive> {
    files().filter_map(|text| parse(text).ok()).find(|drive| drive.spec.name == name)
}

/// Parses every drive in [`FILES`].
///
/// # Panics
/// Never: a test parses each file.
#[must_use]
pub fn drives() -> Vec<Drive> {
    FILES.iter().map(|text| parse(text).expect("shipped specifications are valid")).collect()
}

/// The shipped drive called `name`.
///
/// # Panics
/// If no shipped drive has this name.
#[must_use]
pub fn drive(name: &str) -> Drive {
    named(name).unwrap_or_else(|| panic!("no shipped drive is called {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;

    #[test]
    fn shipped_lists_match_directory() {
        let files =
            std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../drives")).unwrap();
        let mut texts: Vec<(String, String)> = files
            .map(|file| file.unwrap())
            .filter(|file| file.path().is_file())
            .map(|file| {
                (
                    file.file_name().into_string().unwrap(),
                    std::fs::read_to_string(file.path()).unwrap(),
                )
            })
            .collect();
        texts.sort();
        assert!(texts.iter().map(|(_, text)| text.as_str()).eq(FILES));
        let mut data_center: Vec<String> =
            std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../drives/data-center"))
                .unwrap()
                .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
                .collect();
        data_center.sort();
        let mut listed = DATA_CENTER;
        listed.sort_unstable();
        assert_eq!(data_center, listed);
        assert!(DATA_CENTER.iter().all(|text| parse(text).is_ok()));
        assert!(
            texts
                .iter()
                .zip(drives())
                .all(|((file, _), drive)| *file == alloc::format!("{}.toml", drive.spec.name))
        );
    }
}
