use super::*;
use crate::wear::names::Unit;
use crate::wear::smartctl;
use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;
use trimtab_drive::rng::Stream;

const MIB: u64 = 1 << 20;

/// A drive whose counter shows whole steps.
struct Drive {
    /// Bytes that the drive counted.
    written: u64,
    /// Bytes that count for 1 of the raw value, and steps of that value.
    unit: u64,
    step: u64,
    /// Share of each portion that another program writes as well.
    foreign: f64,
    reads: usize,
    /// Free space.
    room: u64,
}

impl Default for Drive {
    fn default() -> Self {
        Self { written: 0, unit: MIB, step: 1, foreign: 0.0, reads: 0, room: u64::MAX }
    }
}

impl Drive {
    fn raw(&self) -> u64 {
        self.written / (self.unit * self.step) * self.step
    }
}

/// Calibrates with a counter that `read` derives from the drive.
fn calibrate(
    drive: Drive,
    most: u64,
    portion: u64,
    read: impl Fn(&mut Drive) -> anyhow::Result<u64>,
) -> (anyhow::Result<Calibration>, u64) {
    let (start, drive) = (drive.written, RefCell::new(drive));
    let mut counters = || -> anyhow::Result<Vec<RawCount>> {
        let mut drive = drive.borrow_mut();
        drive.reads += 1;
        let raw = read(&mut drive)?;
        Ok(vec![RawCount { id: Some(241), name: "Unknown_Attribute".into(), raw }])
    };
    let mut write = |bytes: u64| -> anyhow::Result<()> {
        let mut drive = drive.borrow_mut();
        drive.room = drive
            .room
            .checked_sub(bytes)
            .ok_or(std::io::Error::from(std::io::ErrorKind::StorageFull))?;
        drive.written += bytes + (bytes as f64 * drive.foreign) as u64;
        Ok(())
    };
    let mut written = || -> anyhow::Result<u64> { Ok(drive.borrow().written) };
    let mut access = Access { write: &mut write, written: &mut written, counters: &mut counters };
    let outcome = Calibration::run(most, portion, &mut access);
    let written = drive.borrow().written - start;
    (outcome, written)
}

fn only(outcome: anyhow::Result<Calibration>) -> CounterUnit {
    outcome.unwrap().counters.pop().unwrap()
}

#[test]
fn run_finds_unit_and_step_of_coarse_and_fine_counters() {
    for (unit, step, line) in [
        // A raw value in GiB that moves in steps of 64, as on a SandForce drive; scaled down.
        (MIB, 64, "\"-v 241,raw48,Host_Writes_MiB\""),
        (32 * MIB, 1, "\"-v 241,raw48,Host_Writes_32MiB\""),
        (512, 1, "\"-v 241,raw48,Total_LBAs_Written\""),
        (1_000_000, 1, "\"-v 241,raw48,Host_Writes_MB\""),
    ] {
        let drive = Drive { written: 777_777_777, unit, step, ..Drive::default() };
        let (outcome, written) = calibrate(drive, 1 << 30, 2 * MIB, |drive| Ok(drive.raw()));
        let found = only(outcome);
        assert_eq!(found.drivedb.as_deref(), Some(line), "{found:?}");
        assert_eq!((found.unit_bytes, found.raw_step % step), (Some(unit), 0), "{found:?}");
        assert!(written < 1 << 30, "{written} B for a step of {} B", unit * step);
    }
}

/// The counter of an NVMe drive is the specification's or none. QEMU rounds it up.
#[test]
fn unit_of_nvme_counter_is_512000_or_none() {
    for (unit, expected) in [(512_000, Some(512_000)), (MIB, None)] {
        let mut samples = Vec::new();
        for ours in (0..100 * MIB).step_by(MIB as usize) {
            let raw = (777_777_777 + ours).div_ceil(unit);
            let counters = vec![RawCount { id: None, name: "data_units_written".into(), raw }];
            samples.push(Sample { ours, drive: [ours; 2], counters });
        }
        let found = &units(&samples)[0];
        assert_eq!((found.unit_bytes, &found.drivedb), (expected, &None), "{found:?}");
        assert_eq!(found.why.is_some(), expected.is_none(), "{found:?}");
    }
}

/// The interval holds the truth, and no other unit is named, whatever else is written.
#[test]
fn interval_of_run_holds_the_unit() {
    let mut named = 0;
    for seed in 0..40 {
        let mut random = Stream::new(seed, "calibration");
        let unit =
            if random.unit() < 0.2 { 1_000_000 } else { 1 << (9.0 + 16.0 * random.unit()) as u64 };
        let step = [1, 1, 2, 16][(random.unit() * 4.0) as usize];
        let written = (random.unit() * 1e12) as u64;
        let foreign = random.unit() * 0.15;
        let drive = Drive { written, unit, step, foreign, ..Drive::default() };
        let found = only(calibrate(drive, 128 * MIB, MIB, |drive| Ok(drive.raw())).0);
        if let Some([low, high]) = found.bytes {
            assert!(low <= unit as f64 && unit as f64 <= high, "{seed}: {unit} {found:?}");
        }
        assert!(found.unit_bytes.is_none_or(|found| found == unit), "{seed}: {unit} {found:?}");
        named += usize::from(found.unit_bytes.is_some());
    }
    assert!(named > 20, "{named} of 40 units named");
}

#[test]
fn run_gives_no_unit_for_what_is_not_a_write_counter() {
    let still = calibrate(Drive::default(), 10 * MIB, MIB, |_| Ok(5));
    assert_eq!(still.1, 10 * MIB, "no more than allowed");
    let back = calibrate(Drive::default(), 10 * MIB, MIB, |drive| Ok(100 - drive.raw()));
    let clock = calibrate(Drive::default(), 64 * MIB, MIB, |drive| {
        let reads = drive.reads as u64;
        Ok(reads * reads)
    });
    let once = calibrate(Drive { unit: 6 * MIB, ..Drive::default() }, 10 * MIB, MIB, |drive| {
        Ok(drive.raw())
    });
    for (outcome, why) in [
        (still.0, "did not move"),
        (back.0, "went back"),
        (clock.0, "does not follow"),
        (once.0, "only one step"),
    ] {
        let found = only(outcome);
        assert!(found.why.unwrap().contains(why), "{found:?}");
        assert_eq!((found.bytes, found.unit_bytes, found.drivedb), (None, None, None), "{why}");
    }
}

#[test]
fn run_leaves_failed_readings_out_and_gives_up_after_four() {
    let now_and_then = |drive: &mut Drive| match drive.reads % 3 {
        0 => bail!("the drive does not answer"),
        _ => Ok(drive.raw()),
    };
    let drive = Drive { unit: 32 * MIB, ..Drive::default() };
    let calibration = calibrate(drive, 1 << 30, MIB, now_and_then).0.unwrap();
    assert!(calibration.failed_readings > 10);
    assert_eq!(calibration.counters[0].unit_bytes, Some(32 * MIB));
    for (from, after) in [(1, 0), (5, 7 * MIB)] {
        let from_then_on = |drive: &mut Drive| {
            ensure!(drive.reads < from, "the drive does not answer");
            Ok(drive.raw())
        };
        let (outcome, written) = calibrate(Drive::default(), 1 << 30, MIB, from_then_on);
        let error = format!("{:#}", outcome.unwrap_err());
        assert!(
            error.contains("cannot read the counters") && error.contains("not answer"),
            "{error}"
        );
        assert_eq!(written, after);
    }
}

#[test]
fn run_reports_a_full_disk_and_other_writers() {
    let full = Drive { room: 5 * MIB, unit: 32 * MIB, ..Drive::default() };
    let error = calibrate(full, 1 << 30, MIB, |drive| Ok(drive.raw())).0.unwrap_err();
    assert!(format!("{error:#}").contains("cannot write after 5.24 MB"), "{error:#}");
    let shared = Drive { foreign: 0.5, ..Drive::default() };
    let error = calibrate(shared, 64 * MIB, MIB, |drive| Ok(drive.raw())).0.unwrap_err();
    assert!(error.to_string().contains("other programs wrote"), "{error:#}");
}

#[test]
fn unit_name_is_read_back_as_that_unit() {
    for unit in POWERS.skip(1).map(|power| 1_u64 << power).chain(DECIMALS) {
        let name = write_name(&unit_name(unit)).unwrap_or_else(|| panic!("{unit}"));
        assert_eq!((name.side, name.unit), (Side::Host, Unit::Bytes(unit)), "{}", unit_name(unit));
    }
    assert_eq!(unit_name(32 * MIB), "Host_Writes_32MiB");
    assert_eq!(write_name(&unit_name(512)).unwrap().unit, Unit::Sectors);
}

/// A program in place of smartctl whose attribute 241 counts the file in steps of 64 KiB.
#[test]
fn run_with_smartctl_and_a_file_finds_the_unit() {
    let directory = tempfile::tempdir().unwrap();
    let [source, program, data] =
        ["source", "smartctl", "data"].map(|name| directory.path().join(name));
    let script = format!(
        "#!/bin/sh\nraw=$(($(stat -c %s {}) / 65536))\nrow() {{ printf \
            '{{\"id\":%s,\"name\":\"%s\",\"raw\":{{\"value\":%s,\"string\":\"%s\"}}}}' $1 $2 $3 $3; }}\n\
            printf '{{\"smartctl\":{{\"exit_status\":0}},\"ata_smart_attributes\":{{\"table\":['\n\
            row 9 Power_On_Hours 7\nprintf ,\nrow 241 Unknown_SSD_Attribute $raw\nprintf ']}}}}'\n",
        data.display()
    );
    fs::write(&source, script).unwrap();
    // A separate process writes it: an executable that a forked test holds open cannot run.
    assert!(
        std::process::Command::new("cp").arg(&source).arg(&program).status().unwrap().success()
    );
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(&data, "").unwrap();
    let size = || -> anyhow::Result<u64> { Ok(fs::metadata(&data)?.len()) };
    let mut access = Access {
        write: &mut |bytes| {
            Ok(fs::File::options().write(true).open(&data)?.set_len(size()? + bytes)?)
        },
        written: &mut { size },
        counters: &mut || {
            let document = smartctl::ask(&program, "/dev/sdx", None, Duration::from_secs(60))?;
            Ok(counters(&document, None)?)
        },
    };
    let calibration = Calibration::run(4 * MIB, 16_384, &mut access).unwrap();
    assert_eq!(calibration.counters.len(), 1, "Power_On_Hours counts no writes");
    assert_eq!(calibration.counters[0].unit_bytes, Some(65_536), "{calibration:?}");
    let named = |only| {
        counters(br#"{"smartctl":{},"ata_smart_attributes":{"table":[{"id":9,"name":"x","raw":{"value":1,"string":"1"}}]}}"#, only)
    };
    assert_eq!((named(None).unwrap().len(), named(Some(9)).unwrap().len()), (0, 1));
    assert!(
        counters(
            br#"{"smartctl":{"messages":[{"string":"Device is in STANDBY mode, exit(2)"}]}}"#,
            None
        )
        .is_err()
    );
}
