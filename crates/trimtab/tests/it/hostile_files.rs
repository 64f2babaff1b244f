//! A machine's files may contain anything: recorded trees with junk in them, mount
//! tables, fstab, configurations, superblocks. None causes a panic or an error of more
//! than one line.

use crate::sysroot::{fixtures, unpack};
use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};
use trimtab::apply::{System, plan};
use trimtab::daemon::config::Config;
use trimtab_drive::rng::Stream;
use trimtab_linux::doctor::Doctor;
use trimtab_linux::host::root::Root;
use trimtab_linux::host::{mountinfo, stat::DiskStat};
use trimtab_linux::trim::ext4::Ext4Superblock;
use trimtab_report::diagnosis::render;

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap() {
            t if t.is_dir() => files(&entry.path(), found),
            t if t.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
}

/// True if line ends and the program's own colours (`ESC [ numbers m`) are the only
/// terminal control.
fn only_colours(text: &str) -> bool {
    text.split('\u{1b}').enumerate().all(|(i, part)| {
        let colour = |p: &str| {
            p.strip_prefix('[').is_some_and(|p| {
                p.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').starts_with('m')
            })
        };
        (i == 0 || colour(part)) && part.chars().all(|c| !c.is_control() || c == '\n')
    })
}

const RUBBISH: [&[u8]; 12] = [
    b"",
    b"18446744073709551615",
    b"-1",
    b"0",
    b"4294967296\n",
    b"\xff\xfe\x00\x01",
    b"a/../../../etc/passwd",
    b"\x1b[2J\x07",
    b"0:0",
    b"999999999999999999999999",
    b"1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n1 2",
    b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n1 0 8:1 / / rw - btrfs /dev/sda1 rw\n\
        2 2 8:1 /\\777 /\\1 - - - - -\n",
];

#[test]
fn doctor_survives_junk_in_recorded_trees() {
    let mut draw = Stream::new(1, "hostile trees");
    let rounds = if std::env::var_os("TRIMTAB_SOAK").is_some() { 100 } else { 4 };
    for (name, text) in fixtures() {
        let tree = unpack(&text);
        let mut all = Vec::new();
        files(tree.path(), &mut all);
        all.sort();
        // Junk accumulates over the rounds. The first junk is repaired later, or nothing
        // would remain to read.
        for round in 0..rounds {
            let mut changed = Vec::new();
            for _ in 0..=draw.below(4) {
                let file = &all[draw.below(all.len() as u64) as usize];
                changed.push((file.clone(), fs::read(file).unwrap()));
                fs::write(file, RUBBISH[draw.below(RUBBISH.len() as u64) as usize]).unwrap();
            }
            let root = Root::recorded(tree.path()).unwrap();
            if let Ok(doctor) = Doctor::new(&root) {
                for diagnosis in doctor.survey().diagnoses {
                    let shown = render(&diagnosis);
                    assert!(only_colours(&shown), "{name}, round {round}: {shown:?}");
                }
            }
            for (file, content) in changed.into_iter().rev() {
                fs::write(file, content).unwrap();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn mountinfo_stat_and_config_parsers_accept_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400), lines in "[0-9:/ a-z,=\\\\\\-\\n]{0,300}") {
        for table in [bytes.as_slice(), lines.as_bytes()] {
            for mount in mountinfo::parse(table) {
                prop_assert!(mount.mount_point.is_absolute());
            }
            let text = String::from_utf8_lossy(table);
            let _ = DiskStat::parse(&text);
            if let Err(error) = Config::parse(Path::new("c"), &text) {
                prop_assert!(!error.to_string().contains('\n'), "{error}");
            }
        }
    }

    #[test]
    fn ext4_superblock_of_any_bytes_is_sane_or_none(mut bytes in prop::collection::vec(any::<u8>(), 0..1100), magic: bool, small in 0..7_u8) {
        if magic && bytes.len() > 0x3a {
            bytes[0x38..0x3a].copy_from_slice(&[0x53, 0xef]);
            bytes[0x18..0x1c].copy_from_slice(&[small, 0, 0, 0]);
        }
        if let Some(superblock) = Ext4Superblock::parse(&bytes) {
            prop_assert!(superblock.size() > 0 && superblock.group_bytes() > 0);
        }
    }

    #[test]
    fn apply_plan_of_any_fstab_writes_nothing(text in "[ \\t\\n#/a-c0-9,=\\\\discard]{0,200}", bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let system = tempfile::tempdir().unwrap();
        fs::create_dir(system.path().join("etc")).unwrap();
        for content in [text.as_bytes(), &bytes] {
            fs::write(system.path().join("etc/fstab"), [b"/dev/x /a ext4 rw 0 0\n", content].concat()).unwrap();
            let place = System::new(Some(system.path()), None).unwrap();
            for policy in ["online", "idle", "none"] {
                if let Ok(plan) = plan(&place, policy, Path::new("/a")) {
                    prop_assert!(plan.edits.len() <= 2);
                }
            }
        }
        prop_assert!(!system.path().join("var").exists(), "planning writes nothing");
    }
}
