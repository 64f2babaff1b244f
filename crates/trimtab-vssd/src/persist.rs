//! Keeping a drive between attachments: where it begins, and what is left of it.

use crate::classify::classify;
use crate::engine::{Drive, Engine, Settings};
use crate::request::Powered as _;
use crate::state::{self, Header, Leave, Saved};
use crate::store::Store;
use anyhow::Context as _;
use std::path::Path;
use trimtab_drive::data::DataClass;
use trimtab_drive::ledger::Ledger;
use trimtab_drive::model;
use trimtab_drive::spec::DriveSpec;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::usage::UsageError;
use trimtab_drive::{Command, Extent};

/// How much is looked at at a time when a drive is brought up to its data.
const PIECE: u64 = 1 << 20;

/// A drive in memory, without data.
pub fn in_memory(spec: &DriveSpec, settings: &Settings, seed: u64) -> anyhow::Result<Drive> {
    let store = Store::in_memory(settings.geometry.size)?;
    Ok(fresh(store, model::build(spec, seed)?, settings))
}

/// The drive whose data are in the file `data`: as it was left, or new if the file is new. With `adopt`, data without a state
/// beside them become the first content of a new drive. Also gives a remark for the user.
pub fn in_file(spec: &DriveSpec, settings: &Settings, seed: u64, data: &Path, adopt: bool) -> anyhow::Result<(Drive, Option<String>)> {
    let shown = data.display();
    let store = Store::in_file(data, settings.geometry.size)?;
    let Some(saved) = state::open(data)? else {
        let has_data = store.data_extents().next().transpose().with_context(|| format!("cannot look for data in {shown}"))?.is_some();
        let mut drive = fresh(store, model::build(spec, seed)?, settings);
        if !has_data {
            return Ok((drive, None));
        }
        if !adopt {
            return Err(UsageError::new(format!("{shown} holds data but no drive's state is beside it"))
                .hint("with --adopt they become the first content of a new drive")
                .into());
        }
        let written = bring_up_to_data(&mut drive, settings)?;
        return Ok((drive, Some(format!("the data of {shown} ({}) were written to a new drive", Bytes(written)))));
    };
    let clean = saved.clean;
    let mut drive = resume(spec, settings, store, saved).with_context(|| format!("cannot continue with {shown}"))?;
    if clean {
        return Ok((drive, None));
    }
    let written = bring_up_to_data(&mut drive, settings)?;
    let remark = format!(
        "{shown} was not detached properly: its data are as they were left, the drive's state is that of the last proper detach with {} written since",
        Bytes(written)
    );
    Ok((drive, Some(remark)))
}

/// Keeps a drive beside its data file. One that is left in use is known to have crashed where it is found so.
pub fn keep(engine: &Engine, drive: &str, data: &Path, leave: Leave) -> anyhow::Result<()> {
    anyhow::ensure!(!engine.is_broken(), "the drive model had failed: its state is not kept, the data are");
    engine.store().sync().with_context(|| format!("cannot write the data file {}", data.display()))?;
    let lasting = engine.lasting();
    let header = Header {
        drive: drive.to_owned(),
        size: engine.settings().geometry.size,
        unit: lasting.unit,
        model_time_ns: lasting.now.0,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    state::save(data, &header, lasting.mapped.into_iter(), &lasting.model, leave)
}

fn fresh(store: Store, model: Box<dyn model::Model>, settings: &Settings) -> Drive {
    let ledger = Ledger::new(settings.geometry.size, settings.geometry.logical_block);
    Drive { model, store, ledger, now: Nanos::ZERO }
}

fn resume(spec: &DriveSpec, settings: &Settings, store: Store, saved: Saved) -> anyhow::Result<Drive> {
    let (is, has) = (&saved.header, &settings.geometry);
    if is.drive != spec.name || is.size != has.size {
        return Err(UsageError::new(format!(
            "it belongs to a drive '{}' of {} bytes, not to '{}' of {}",
            is.drive, is.size, spec.name, has.size
        ))
        .hint("attach it with the specification and size it was made with")
        .into());
    }
    let mut drive = fresh(store, model::build(spec, 0)?, settings);
    anyhow::ensure!(is.unit == drive.ledger.unit(), "its map has units of {} bytes, not {}", is.unit, drive.ledger.unit());
    drive.now = saved.model_time();
    let (bytes_max, ledger) = (drive.model.snapshot_bytes_max(), &mut drive.ledger);
    let snapshot = saved.load(bytes_max, |run| ledger.resume(run))?;
    drive.model = model::resume(spec, &snapshot)?;
    Ok(drive)
}

/// Writes to the model what the data file holds and the ledger does not know, and trims what the ledger knows and the file does not
/// hold. Gives the bytes written. (Blocks that were overwritten in the meantime count as one write less than they had.)
fn bring_up_to_data(drive: &mut Drive, settings: &Settings) -> anyhow::Result<u64> {
    let unit = drive.ledger.unit();
    let mut held = Ledger::new(settings.geometry.size, settings.geometry.logical_block);
    let extents: Vec<Extent> = drive.store.data_extents().collect::<Result<_, _>>().context("cannot look for data")?;
    let mut written = 0;
    for extent in extents {
        held.wrote(extent.offset, extent.len);
        let (mut at, end) = (extent.offset / unit * unit, (extent.offset + extent.len).next_multiple_of(unit).min(settings.geometry.size));
        while at < end {
            let piece = Extent { offset: at, len: PIECE.min(end - at) };
            written += write_unknown(drive, settings, piece)?;
            at += piece.len;
        }
    }
    let lost: Vec<_> = drive.ledger.map().runs().flat_map(|run| run.filter(|unit| !held.map().contains(*unit))).collect();
    for index in lost {
        let extent = Extent { offset: index * unit, len: unit.min(settings.geometry.size - index * unit) };
        drive.ledger.forget(extent.offset, extent.len);
        if drive.model.supports_trim() {
            drive.now = drive.model.submit(drive.now, &Command::trim(&[extent])).done;
        }
    }
    Ok(written)
}

/// Writes the units of `piece` that the ledger does not know, run by run.
fn write_unknown(drive: &mut Drive, settings: &Settings, piece: Extent) -> anyhow::Result<u64> {
    let unit = drive.ledger.unit();
    let (mut at, end) = (piece.offset, piece.offset + piece.len);
    let mut written = 0;
    while at < end {
        let known = drive.ledger.map().contains(at / unit);
        let mut run_end = at;
        while run_end < end && drive.ledger.map().contains(run_end / unit) == known {
            run_end = (run_end + unit).min(end);
        }
        if !known {
            let extent = Extent { offset: at, len: run_end - at };
            let class = if settings.classify {
                let mut content = vec![0; extent.len as usize];
                drive.store.read(extent.offset, &mut content).context("cannot read the data file")?;
                classify(&content)
            } else {
                DataClass::Random
            };
            drive.now = drive.model.submit(drive.now, &Command::Write(extent, class)).done;
            drive.ledger.wrote(extent.offset, extent.len);
            written += extent.len;
        }
        at = run_end;
    }
    Ok(written)
}
