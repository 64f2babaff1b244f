//! Stores a drive between attachments, and resumes it.

use crate::checksum::crc32;
use crate::classify::classify;
use crate::engine::{Engine, EngineDrive};
use crate::request::PowerCutSupport as _;
use crate::state::{self, DataFile, SavedState, StateHeader, UseFlag};
use crate::store::Store;
use anyhow::Context as _;
use rustix::io::Errno;
use std::ops::Range;
use std::path::Path;
use trimtab_drive::data::DataClass;
use trimtab_drive::interface::Interface;
use trimtab_drive::ledger::Ledger;
use trimtab_drive::model;
use trimtab_drive::spec::{DriveSpec, text};
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::usage::UsageError;
use trimtab_drive::{Command, Extent};

/// Bytes examined at a time when the drive's state is updated to its data.
const PIECE: u64 = 1 << 20;

/// A new drive without data, in memory.
pub fn in_memory(
    spec: &DriveSpec,
    interface: &Interface,
    seed: u64,
) -> anyhow::Result<EngineDrive> {
    let store = Store::in_memory(interface.geometry.size)?;
    Ok(fresh(store, model::build(spec, seed)?, interface))
}

/// The drive whose data are in the file `data`: resumed, or new if the file is new. With
/// `adopt`, data without a state file become the initial content of a new drive. Also
/// returns a remark for the user.
pub fn in_file(
    spec: &DriveSpec,
    interface: &Interface,
    seed: u64,
    data: &Path,
    adopt: bool,
) -> anyhow::Result<(EngineDrive, Option<String>)> {
    let shown = data.display();
    let store = Store::in_file(data, interface.geometry.size)?;
    let Some(saved) = state::open(data)? else {
        let has_data = store
            .data_extents()
            .next()
            .transpose()
            .with_context(|| format!("cannot look for data in {shown}"))?
            .is_some();
        let mut drive = fresh(store, model::build(spec, seed)?, interface);
        if !has_data {
            return Ok((drive, None));
        }
        if !adopt {
            return Err(UsageError::new(format!("{shown} holds data but has no drive state file"))
                .hint("add --adopt to use them as the initial content of a new drive")
                .into());
        }
        let written = bring_up_to_data(&mut drive, interface)?;
        return Ok((
            drive,
            Some(format!("the data of {shown} ({}) were written to a new drive", Bytes(written))),
        ));
    };
    let clean = saved.clean;
    let mut drive = resume(spec, interface, store, saved)
        .with_context(|| format!("cannot continue with {shown}"))?;
    if clean {
        return Ok((drive, None));
    }
    let written = bring_up_to_data(&mut drive, interface)?;
    let remark = format!(
        "{shown} was not detached properly: its data are complete; the drive's state \
            is from the last proper detach, with {} written since",
        Bytes(written)
    );
    Ok((drive, Some(remark)))
}

/// Stores the state of a drive next to its data file. A stored state of
/// [`UseFlag::InUse`] marks a crash when it is found later.
pub fn keep(engine: &Engine, spec: &DriveSpec, data: &Path, leave: UseFlag) -> anyhow::Result<()> {
    anyhow::ensure!(
        !engine.is_broken(),
        "the drive model had failed: the data are kept, its state is not"
    );
    engine
        .store()
        .sync()
        .with_context(|| format!("cannot write the data file {}", data.display()))?;
    let lasting = engine.lasting();
    let store = engine.store();
    let sample = sample(store, engine.interface().geometry.size, lasting.unit, &lasting.mapped)
        .with_context(|| format!("cannot read the data file {}", data.display()))?;
    let header = StateHeader {
        drive: spec.name.clone(),
        size: engine.interface().geometry.size,
        unit: lasting.unit,
        model_time_ns: lasting.now.0,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        spec: checksum(spec),
        data: store.identity().map(|file| DataFile { file, sample }),
    };
    state::save(data, &header, lasting.mapped.into_iter(), &lasting.model, leave)
}

fn fresh(store: Store, model: Box<dyn model::Model>, interface: &Interface) -> EngineDrive {
    let ledger = Ledger::new(interface.geometry.size, interface.geometry.logical_block);
    EngineDrive { model, store, ledger, now: Nanos::ZERO }
}

fn resume(
    spec: &DriveSpec,
    interface: &Interface,
    store: Store,
    saved: SavedState,
) -> anyhow::Result<EngineDrive> {
    let (is, has) = (&saved.header, &interface.geometry);
    if is.drive != spec.name || is.size != has.size {
        return Err(UsageError::new(format!(
            "it belongs to a drive '{}' of {} bytes, not to '{}' of {}",
            is.drive, is.size, spec.name, has.size
        ))
        .hint("attach it with the specification and size it was made with")
        .into());
    }
    if is.spec != checksum(spec) {
        let what = format!("it belongs to a drive '{}' of another specification", is.drive);
        return Err(UsageError::new(what)
            .hint("attach it with the specification that it was made with")
            .into());
    }
    let (written_beside, clean, identity) = (is.data.clone(), saved.clean, store.identity());
    if written_beside.is_none() && identity.is_some() {
        return Err(UsageError::new("its state does not name its data file")
            .hint(OTHER_DATA)
            .into());
    }
    let mut drive = fresh(store, model::build(spec, 0)?, interface);
    anyhow::ensure!(
        is.unit == drive.ledger.unit(),
        "its map has units of {} bytes, not {}",
        is.unit,
        drive.ledger.unit()
    );
    drive.now = saved.model_time();
    let (bytes_max, ledger) = (drive.model.snapshot_bytes_max(), &mut drive.ledger);
    let snapshot = saved.load(bytes_max, |run| ledger.resume(run))?;
    if let Some(then) = written_beside.filter(|then| Some(&then.file) != identity.as_ref()) {
        // A copy of both files has the same data; a file that was in use has changed.
        let mapped: Vec<Range<u64>> = drive.ledger.map().runs().collect();
        if !clean
            || sample(&drive.store, has.size, drive.ledger.unit(), &mapped)
                .context("cannot read the data")?
                != then.sample
        {
            return Err(UsageError::new("its state is that of another data file")
                .hint(OTHER_DATA)
                .into());
        }
    }
    drive.model = model::resume(spec, &snapshot)?;
    Ok(drive)
}

/// Hint if a state and its data do not belong together.
const OTHER_DATA: &str = "copy the data and the state of a detached drive together, or remove the state and \
    start a new drive with these data (--adopt)";

const SAMPLES: u64 = 64;
const SAMPLE_BYTES: u64 = 4096;

/// Checksum of the figures of a specification, without name and description.
fn checksum(spec: &DriveSpec) -> u32 {
    crc32(text::figures(spec).as_bytes())
}

/// Checksum of a sample of the mapped data, which also covers whether each place holds
/// data.
fn sample(store: &Store, size: u64, unit: u64, mapped: &[Range<u64>]) -> Result<u32, Errno> {
    let all: u64 = mapped.iter().map(|run| run.end - run.start).sum();
    let has_data = store.data_extents().next().transpose()?.is_some();
    let mut bytes = vec![u8::from(has_data)];
    let (mut before, mut nth) = (0, 0);
    for run in mapped {
        let len = run.end - run.start;
        // Spread evenly over all mapped units.
        while nth < SAMPLES.min(all) && all / SAMPLES.min(all) * nth < before + len {
            let index = run.start + (all / SAMPLES.min(all) * nth - before);
            let mut piece = vec![0; SAMPLE_BYTES.min(unit).min(size - index * unit) as usize];
            store.read(index * unit, &mut piece)?;
            bytes.extend(piece);
            nth += 1;
        }
        before += len;
    }
    Ok(crc32(&bytes))
}

/// Updates the model to the data file: writes data that the ledger does not know, and
/// trims ranges that the file no longer holds. Returns the bytes written. (Blocks
/// overwritten several times since count as one write less than they had.)
fn bring_up_to_data(drive: &mut EngineDrive, interface: &Interface) -> anyhow::Result<u64> {
    let unit = drive.ledger.unit();
    let mut held = Ledger::new(interface.geometry.size, interface.geometry.logical_block);
    let extents: Vec<Extent> =
        drive.store.data_extents().collect::<Result<_, _>>().context("cannot look for data")?;
    let mut written = 0;
    for extent in extents {
        held.wrote(extent.offset, extent.len);
        let (mut at, end) = (
            extent.offset / unit * unit,
            (extent.offset + extent.len).next_multiple_of(unit).min(interface.geometry.size),
        );
        while at < end {
            let piece = Extent { offset: at, len: PIECE.min(end - at) };
            written += write_unknown(drive, interface, piece)?;
            at += piece.len;
        }
    }
    let lost: Vec<_> = drive
        .ledger
        .map()
        .runs()
        .flat_map(|run| run.filter(|unit| !held.map().contains(*unit)))
        .collect();
    for index in lost {
        let extent =
            Extent { offset: index * unit, len: unit.min(interface.geometry.size - index * unit) };
        drive.ledger.forget(extent.offset, extent.len);
        if drive.model.supports_trim() {
            drive.now = drive.model.submit(drive.now, &Command::trim(&[extent])).done;
        }
    }
    Ok(written)
}

/// Writes the units of `piece` that the ledger does not know, run by run.
fn write_unknown(
    drive: &mut EngineDrive,
    interface: &Interface,
    piece: Extent,
) -> anyhow::Result<u64> {
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
            let class = if interface.classify {
                let mut content = vec![0; extent.len as usize];
                drive
                    .store
                    .read(extent.offset, &mut content)
                    .context("cannot read the data file")?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::Speed;
    use trimtab_drive::shipped;

    /// Creates a detached drive whose data file holds pieces of `byte`.
    fn detached(spec: &DriveSpec, data: &Path, byte: u8) {
        let interface = Interface::of(spec);
        std::fs::File::create(data).unwrap().set_len(interface.geometry.size).unwrap();
        let file = std::fs::File::options().write(true).open(data).unwrap();
        for at in [0, 5 << 20] {
            std::os::unix::fs::FileExt::write_all_at(&file, &[byte; 64 << 10], at).unwrap();
        }
        drop(file);
        let (drive, _) = in_file(spec, &interface, 1, data, true).unwrap();
        keep(&Engine::new(drive, interface, Speed::Unpaced, None), spec, data, UseFlag::Detached)
            .unwrap();
    }

    #[test]
    fn state_that_names_no_data_file_is_refused() {
        let spec =
            model::sized(shipped::drive("sata-tlc-500gb").spec, Some(Bytes(1 << 30))).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        detached(&spec, &data, 1);
        let saved = state::open(&data).unwrap().unwrap();
        let (header, mut mapped) = (StateHeader { data: None, ..saved.header.clone() }, Vec::new());
        let model = saved.load(1 << 40, |run| mapped.push(run)).unwrap();
        state::save(&data, &header, mapped.into_iter(), &model, UseFlag::Detached).unwrap();
        let error = in_file(&spec, &Interface::of(&spec), 1, &data, false).map(drop).unwrap_err();
        assert!(format!("{error:#}").contains("does not name its data file"), "{error:#}");
    }

    #[test]
    fn state_of_another_data_file_or_specification_is_refused() {
        let spec =
            model::sized(shipped::drive("sata-tlc-500gb").spec, Some(Bytes(1 << 30))).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let [one, other, copy] = ["one", "other", "copy"].map(|name| dir.path().join(name));
        detached(&spec, &one, 1);
        detached(&spec, &other, 2);
        let interface = Interface::of(&spec);
        let open = |spec: &DriveSpec, data: &Path| {
            in_file(spec, &interface, 1, data, false)
                .map(drop)
                .map_err(|error| format!("{error:#}"))
        };
        assert_eq!(open(&spec, &one), Ok(()));
        for path in [&copy, &state::path_of(&copy)] {
            let from = if *path == copy { one.clone() } else { state::path_of(&one) };
            std::fs::copy(from, path).unwrap();
        }
        assert_eq!(open(&spec, &copy), Ok(()), "both were copied");
        std::fs::copy(state::path_of(&one), state::path_of(&other)).unwrap();
        let said = open(&spec, &other).unwrap_err();
        assert!(said.contains("that of another data file") && said.lines().count() == 1, "{said}");
        let mut changed = spec.clone();
        changed.interface.latency_ns += 1;
        let said = open(&changed, &one).unwrap_err();
        assert!(said.contains("of another specification"), "{said}");
    }
}
