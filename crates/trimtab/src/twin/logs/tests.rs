use super::import::read;
use super::*;
use std::fmt::Write as _;
use trimtab_drive::rng::Stream;
use trimtab_drive::spec::DriveSpec;
use trimtab_drive::spec::datasheet::{DataSheet, Prior};
use trimtab_study::learn::logs::load::Pattern;
use trimtab_study::learn::logs::repeat::{self, Start};

/// A CSV of `run` on `spec`, with or without NAND counters.
fn csv(spec: &DriveSpec, run: &Run, seed: u64, nand: bool) -> String {
    let (series, used_bytes) = repeat::series(spec, run, 2, seed).unwrap();
    // The model is scaled down: a log of the whole drive takes longer in proportion.
    let scale = spec.capacity_bytes as f64 * run.used / used_bytes;
    let mut text = "time_s,host_write_total_bytes".to_owned();
    text.push_str(if nand { ",nand_write_total_bytes\n" } else { "\n" });
    for ((time_s, bytes), flash) in series.written.iter().zip(&series.nand) {
        write!(text, "{:.3},{:.0}", time_s * scale, bytes * scale).unwrap();
        if nand {
            write!(text, ",{:.0}", flash.written * scale).unwrap();
        }
        text.push('\n');
    }
    text
}

/// A drive of the class, and its data sheet, which is off by up to a tenth and does not
/// state the spare space.
fn drawn(seed: u64) -> (DriveSpec, DataSheet) {
    let mut stream = Stream::new(seed, "drawn drives of logs");
    let mut near = |value: f64, by: f64| value * (1.0 + by * (2.0 * stream.unit() - 1.0));
    let sheet = DataSheet {
        name: "drawn".to_owned(),
        capacity_bytes: 960_197_124_096,
        link_mbs: Some(7800.0),
        sequential_write_mbs: Some(near(1800.0, 0.4)),
        ..DataSheet::default()
    };
    let sequential_write_mbs = sheet.sequential_write_mbs.map(|rate| near(rate, 0.1));
    let over = near(1.2, 0.1);
    let truth = DataSheet { sequential_write_mbs, ..sheet.clone() };
    let prior = Prior::draw(std::array::from_fn(|_| stream.unit()));
    (repeat::with_raw(&truth.drive(&prior).unwrap().spec, over), sheet)
}

/// Drawn drives are found again from their logs, made with another seed and size; every
/// other log has NAND counters. More drives: TRIMTAB_LOG_DRIVES.
#[test]
fn log_of_a_drawn_drive_recovers_spare_and_program_time() {
    let count = std::env::var("TRIMTAB_LOG_DRIVES").map_or(1, |count| count.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let (mut held, mut near, mut all) = (0, 0, 0);
    for seed in 0..count {
        let (truth, sheet) = drawn(seed);
        let run = Run {
            pattern: Pattern::Uniform,
            scattered: false,
            start: Start::Sequential,
            used: 1.0,
            drive_writes: 2.5,
            depth: 512,
            request_units: 1,
        };
        let path = directory.path().join(format!("{seed}.csv"));
        std::fs::write(&path, csv(&truth, &run, seed + 100, seed % 2 == 0)).unwrap();
        let series = LogSeries::of_rows(&read(&[path]).unwrap().rows);
        let statement = Statement { run, offered: None };
        let start = sheet.drive(&Prior::MEDIAN).unwrap();
        let found = fit(
            &start,
            &series,
            &statement,
            ("2026-11-29", 1),
            &|specs, show| crew::map(specs, show),
            &mut (),
        );
        let found = found.unwrap().unwrap();
        let flash = &truth.flash;
        let raw = flash.geometry.raw_bytes() as f64;
        let twin = found.drive.twin.unwrap();
        for (field, truth) in [
            ("flash.nand.program_ns", flash.nand.program_ns as f64),
            (
                "flash.over_provisioning_permille",
                1000.0 * (raw / truth.capacity_bytes as f64 - 1.0),
            ),
        ] {
            let one = twin.parameters.iter().find(|one| one.field == field).unwrap();
            let off = one.estimate as f64 / truth - 1.0;
            let holds = (one.low as f64..=one.high as f64).contains(&truth);
            println!("{seed} {field}: {off:+.3}, {holds}, {} to {}", one.low, one.high);
            (all, held, near) =
                (all + 1, held + usize::from(holds), near + usize::from(off.abs() < 0.1));
        }
        let misfit = twin.origin.misfit_permille;
        println!("{seed}: {} members, misfit {misfit}", twin.members.len());
    }
    // Intervals hold nine in ten.
    assert!(held * 10 >= all * 8 && near * 10 >= all * 9, "{held} and {near} of {all}");
}
