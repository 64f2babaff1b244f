//! `trimtab wear --calibrate`: finds the unit of a drive's counters of writes.

use super::Args;
use anyhow::Context as _;
use serde::Serialize;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::process::ExitCode;
use trimtab_drive::data::DataClass;
use trimtab_drive::rng::Stream;
use trimtab_drive::units::{Bytes, grouped};
use trimtab_drive::usage::UsageError;
use trimtab_linux::host::block::Layer;
use trimtab_linux::host::root::Root;
use trimtab_linux::host::stat::DiskStat;
use trimtab_linux::output::Context;
use trimtab_linux::output::lines::prose;
use trimtab_linux::session::safety::{self, Workspace};
use trimtab_linux::sys::beneath::{Dir, PRIVATE_FILE};
use trimtab_linux::sys::interrupt;
use trimtab_linux::wear::assessment::drives_of;
use trimtab_linux::wear::calibration::{Access, Calibration, RawCount, counters};
use trimtab_linux::wear::smartctl;
use trimtab_report::escape::clean;
use trimtab_report::layout::on_screen;
use trimtab_sim::workload::WorkloadPlan;
use trimtab_study::document::Table;

/// Size of the file, which is overwritten from its start.
const FILE_BYTES_MAX: u64 = 1 << 30;
const BLOCK_BYTES: u64 = 1 << 20;
/// Number of readings.
const PORTIONS: u64 = 256;

#[derive(Serialize)]
struct Report {
    drive: String,
    #[serde(flatten)]
    calibration: Calibration,
}

/// Writes, reads the counters in between, and prints their units.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let [path] = &args.paths[..] else {
        return Err(UsageError::new("--calibrate takes one directory").into());
    };
    let root = Root::live().context("cannot open /")?;
    let drives = drives_of(&root, &[path.as_path()])?;
    let [drive] = &drives[..] else {
        let what = format!("'{}' is on several drives", path.display());
        return Err(UsageError::missing(what).hint("name a directory on one drive").into());
    };
    let Some(program) = smartctl::find() else {
        return Err(UsageError::missing("smartctl is not installed")
            .hint("install the package smartmontools")
            .into());
    };
    let node = drive.node();
    let mut read = || -> anyhow::Result<Vec<RawCount>> {
        let document =
            smartctl::ask(&program, &node, args.device.as_deref(), smartctl::TIME_LIMIT)?;
        Ok(counters(&document, args.attribute)?)
    };
    // Nothing is written to a drive whose counters cannot be read.
    read().with_context(|| format!("cannot read the counters of {node}"))?;
    let space = Bytes(args.most.0.min(FILE_BYTES_MAX));
    let plan = WorkloadPlan { written: args.most, space, ops: None };
    let workspace = safety::prepare(context, args.safety.reserve, path, "the calibration", &plan)?;
    let reported = calibrate(args.most, &root, drive, &workspace, &mut read).and_then(|found| {
        let report = Report { drive: node.clone(), calibration: found };
        context.report("wear-calibration", 1, &report, || text(&report))?;
        let has_unit = report.calibration.counters.iter().any(|one| one.unit_bytes.is_some());
        Ok(if has_unit { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    });
    workspace.close_after(reported)
}

fn calibrate(
    most: Bytes,
    root: &Root,
    drive: &Layer,
    workspace: &Workspace,
    read: &mut dyn FnMut() -> anyhow::Result<Vec<RawCount>>,
) -> anyhow::Result<Calibration> {
    let (directory, path) = workspace.subdirectory("calibration")?;
    let mut file = Dir::from_fd(directory, &path)
        .create_new("data", PRIVATE_FILE)
        .with_context(|| format!("cannot create a file in {}", path.display()))?;
    let mut guard = workspace.guard()?;
    // Data that no drive compresses or stores once.
    let mut random = Stream::new(trimtab_linux::sys::clock::unix_ms(), "calibration");
    let mut block = vec![0; BLOCK_BYTES as usize];
    let mut write = |bytes: u64| -> anyhow::Result<()> {
        for start in (0..bytes).step_by(BLOCK_BYTES as usize) {
            interrupt::check()?;
            guard.check()?;
            if file.stream_position()? + BLOCK_BYTES > FILE_BYTES_MAX {
                file.sync_all()?;
                file.seek(SeekFrom::Start(0))?;
            }
            DataClass::Random.fill(&mut random, &mut block);
            file.write_all(&block[..(bytes - start).min(BLOCK_BYTES) as usize])?;
        }
        Ok(file.sync_all()?)
    };
    let mut written = || -> anyhow::Result<u64> {
        let counted = DiskStat::read(root, &drive.sys);
        let counted = counted.with_context(|| format!("no counters of {}", drive.node()))?;
        Ok(counted.written.0)
    };
    let portion = most.0.div_ceil(PORTIONS).max(BLOCK_BYTES);
    let mut access = Access { write: &mut write, written: &mut written, counters: read };
    Calibration::run(most.0, portion, &mut access)
}

fn text(report: &Report) -> String {
    let mut table =
        Table::new("", &["counter", "raw value", "step", "bytes per 1", "unit", "note"]);
    for one in &report.calibration.counters {
        let number = one.id.map_or_else(String::new, |id| format!("{id} "));
        let interval = one.bytes.map(|ends| ends.map(|end| grouped(end as u64)).join(" to "));
        table.row([
            format!("{number}{}", clean(&one.name)),
            one.raw.map(grouped).join(" to "),
            grouped(one.raw_step),
            interval.unwrap_or_else(|| "-".to_owned()),
            one.unit_bytes.map_or_else(|| "-".to_owned(), |unit| format!("{} B", grouped(unit))),
            one.why.unwrap_or_default().to_owned(),
        ]);
    }
    let of = &report.calibration;
    let mut text = prose(&format!(
        "{}: wrote {}; other programs wrote {}",
        report.drive,
        Bytes(of.written_bytes),
        Bytes(of.foreign_bytes)
    ));
    text += &on_screen(&table);
    if of.failed_readings > 0 {
        text += &prose(&format!("{} readings failed and were left out", of.failed_readings));
    }
    let lines: Vec<&str> =
        of.counters.iter().filter_map(|counter| counter.drivedb.as_deref()).collect();
    if !lines.is_empty() {
        text += &prose(
            "For smartmontools' drive database (drivedb.h), if the counter is of host writes; \
                one of flash writes looks alike here:",
        );
        lines.iter().for_each(|line| text += &prose(&format!("  {line}")));
    }
    text
}
