//! Opens a drive whose data are in memory or in a file.

use crate::classify::classify;
use crate::engine::EngineDrive;
use crate::store::Store;
use anyhow::Context as _;
use rustix::io::Errno;
use std::path::Path;
use trimtab_drive::data::DataClass;
use trimtab_drive::interface::Interface;
use trimtab_drive::ledger::Ledger;
use trimtab_drive::model;
use trimtab_drive::spec::DriveSpec;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::usage::UsageError;
use trimtab_drive::{Command, Extent};

/// Longest write of adopted data.
const PIECE: u64 = 1 << 20;

/// A new drive without data, in memory.
pub fn in_memory(
    spec: &DriveSpec,
    interface: &Interface,
    seed: u64,
) -> anyhow::Result<EngineDrive> {
    new(spec, interface, seed, Store::in_memory(interface.geometry.size)?)
}

/// A new drive whose data are in the file `data`. With `adopt`, the content of the file is
/// written to the drive first. Also returns the bytes written.
pub fn in_file(
    spec: &DriveSpec,
    interface: &Interface,
    seed: u64,
    data: &Path,
    adopt: bool,
) -> anyhow::Result<(EngineDrive, Bytes)> {
    let shown = data.display();
    let mut drive = new(spec, interface, seed, Store::in_file(data, interface.geometry.size)?)?;
    let extents: Result<Vec<Extent>, Errno> = drive.store.data_extents().collect();
    let extents = extents.with_context(|| format!("cannot look for data in {shown}"))?;
    if !extents.is_empty() && !adopt {
        return Err(UsageError::new(format!("{shown} holds data already"))
            .hint("add --adopt to use them as the content of the new drive")
            .into());
    }
    let unit = drive.ledger.unit();
    let (mut at, mut written) = (0, 0);
    for extent in extents {
        at = at.max(extent.offset / unit * unit);
        let end = (extent.offset + extent.len).next_multiple_of(unit).min(interface.geometry.size);
        while at < end {
            let piece = Extent { offset: at, len: PIECE.min(end - at) };
            write(&mut drive, interface, piece)
                .with_context(|| format!("cannot read the data file {shown}"))?;
            (at, written) = (at + piece.len, written + piece.len);
        }
    }
    Ok((drive, Bytes(written)))
}

fn new(
    spec: &DriveSpec,
    interface: &Interface,
    seed: u64,
    store: Store,
) -> anyhow::Result<EngineDrive> {
    let ledger = Ledger::new(interface.geometry.size, interface.geometry.logical_block);
    Ok(EngineDrive { model: model::build(spec, seed)?, store, ledger, now: Nanos::ZERO })
}

/// Writes a piece of the data file to the model.
fn write(drive: &mut EngineDrive, interface: &Interface, piece: Extent) -> Result<(), Errno> {
    let class = if interface.classify {
        let mut content = vec![0; piece.len as usize];
        drive.store.read(piece.offset, &mut content)?;
        classify(&content)
    } else {
        DataClass::Random
    };
    drive.now = drive.model.submit(drive.now, &Command::Write(piece, class)).done;
    drive.ledger.wrote(piece.offset, piece.len);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt as _;
    use trimtab_drive::shipped;

    #[test]
    fn in_file_writes_adopted_data_to_the_drive() {
        let spec =
            model::sized(shipped::drive("sata-tlc-500gb").spec, Some(Bytes(1 << 30))).unwrap();
        let interface = Interface::of(&spec);
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        let open = |adopt| in_file(&spec, &interface, 1, &data, adopt);
        assert_eq!(open(false).unwrap().1, Bytes::ZERO, "a new file");
        let file = std::fs::File::options().write(true).open(&data).unwrap();
        for at in [0, 5 << 20] {
            file.write_all_at(&[1; 64 << 10], at).unwrap();
        }
        drop(file);
        let refused = format!("{:#}", open(false).map(drop).unwrap_err());
        assert!(refused.contains("holds data already"), "{refused}");
        let (drive, written) = open(true).unwrap();
        assert_eq!((written, drive.ledger.mapped_bytes()), (Bytes(128 << 10), 128 << 10));
        assert_eq!(drive.model.written().0, 128 << 10);
    }
}
