//! The state of a drive that is kept between attachments, beside its data file as `FILE.state`.
//!
//! ```text
//! state   = "TTDRIVE1" use header mapped model
//! use     = u8: 'C' detached properly, 'U' in use (or left by a crash: then the data are newer than the state)
//! header  = section of JSON (see `Header`)
//! mapped  = section: Zstandard of varint pairs: units skipped, units that hold data
//! model   = section: Zstandard of the model's own snapshot; empty for a disk, which has no lasting state
//! section = u64 length, u32 CRC-32, bytes
//! ```
//!
//! It is written to a new file that then takes the old one's place, so a crash leaves the one or the other.

use crate::drives::trace::bytes::{crc32, push_varint, take_varint};
use crate::sys::beneath::{Dir, PRIVATE_FILE};
use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use trimtab_core::units::Nanos;

const MAGIC: &[u8; 8] = b"TTDRIVE1";
const CLEAN: u8 = b'C';
const IN_USE: u8 = b'U';
const COMPRESSION_LEVEL: i32 = 1;

/// What the state belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Name of the drive's specification.
    pub drive: String,
    /// Size of the drive in bytes.
    pub size: u64,
    /// Bytes in a unit of the map of mapped units.
    pub unit: u64,
    /// Model time of the drive, in nanoseconds.
    pub model_time_ns: u64,
    /// Version of the program that wrote it.
    pub tool_version: String,
}

/// A state that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// What it belongs to.
    pub header: Header,
    /// Units that hold data.
    pub mapped: Vec<Range<u64>>,
    /// The model's own snapshot.
    pub model: Vec<u8>,
    /// It was written by a proper detach, and nothing has happened since.
    pub clean: bool,
}

impl Saved {
    /// Model time of the drive.
    pub const fn model_time(&self) -> Nanos {
        Nanos(self.header.model_time_ns)
    }
}

/// Where the state of the data file `data` is kept.
pub fn path_of(data: &Path) -> PathBuf {
    let mut name = data.as_os_str().to_owned();
    name.push(".state");
    name.into()
}

/// Reads the state of the data file `data`; `None` if there is none. All of it or nothing.
pub fn load(data: &Path) -> anyhow::Result<Option<Saved>> {
    let path = path_of(data);
    let mut bytes = Vec::new();
    let open = || {
        let (directory, name) = Dir::of_file(&path)?;
        directory.open_read(name)
    };
    match open().and_then(|mut file| file.read_to_end(&mut bytes)) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
    parse(&bytes).map(Some).map_err(|problem| anyhow::anyhow!("the drive's state in {} cannot be used: {problem}", path.display()))
}

/// Writes the state of the data file `data`, in place of an older one.
pub fn save(data: &Path, header: &Header, mapped: impl Iterator<Item = Range<u64>>, model: &[u8]) -> anyhow::Result<()> {
    let path = path_of(data);
    let write = || -> std::io::Result<()> {
        let (directory, name) = Dir::of_file(&path)?;
        directory.write_atomically(name, PRIVATE_FILE, |file| {
            file.write_all(MAGIC)?;
            file.write_all(&[CLEAN])?;
            write_section(file, &serde_json::to_vec(header)?)?;
            write_section(file, &zstd::bulk::compress(&pack(mapped), COMPRESSION_LEVEL)?)?;
            let model = if model.is_empty() { Vec::new() } else { zstd::bulk::compress(model, COMPRESSION_LEVEL)? };
            write_section(file, &model)
        })
    };
    write().with_context(|| format!("cannot write the drive's state to {}", path.display()))
}

/// Notes that the data are going to be newer than the state.
pub fn mark_in_use(data: &Path) -> anyhow::Result<()> {
    let path = path_of(data);
    let mark = || -> std::io::Result<()> {
        let (directory, name) = Dir::of_file(&path)?;
        // Through no link: somebody else may have put one there.
        let mut file = directory.open_write(name)?;
        file.seek(SeekFrom::Start(MAGIC.len() as u64))?;
        file.write_all(&[IN_USE])?;
        file.sync_all()
    };
    match mark() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        result => result.with_context(|| format!("cannot write {}", path.display())),
    }
}

fn write_section(file: &mut File, bytes: &[u8]) -> std::io::Result<()> {
    file.write_all(&(bytes.len() as u64).to_le_bytes())?;
    file.write_all(&crc32(bytes).to_le_bytes())?;
    file.write_all(bytes)
}

fn parse(bytes: &[u8]) -> Result<Saved, String> {
    let mut at = MAGIC.len() + 1;
    if bytes.len() < at || !bytes.starts_with(MAGIC) {
        return Err("it does not begin as a state does".to_owned());
    }
    let clean = match bytes[MAGIC.len()] {
        CLEAN => true,
        IN_USE => false,
        other => return Err(format!("byte 8 is {other:#04x}")),
    };
    let header = section(bytes, &mut at)?;
    let header: Header = serde_json::from_slice(header).map_err(|error| format!("its header is not understood: {error}"))?;
    let mapped = inflate(section(bytes, &mut at)?)?;
    let model = section(bytes, &mut at)?;
    let model = if model.is_empty() { Vec::new() } else { inflate(model)? };
    if at != bytes.len() {
        return Err(format!("it goes on after its end at byte {at}"));
    }
    if header.unit == 0 {
        return Err("its header has units of 0 bytes".to_owned());
    }
    let mapped = unpack(&mapped, header.size.div_ceil(header.unit)).ok_or("its map makes no sense")?;
    Ok(Saved { header, mapped, model, clean })
}

fn section<'a>(bytes: &'a [u8], at: &mut usize) -> Result<&'a [u8], String> {
    let start = *at;
    let cut_off = || format!("it was cut off in the section at byte {start}");
    let head = bytes.get(start..start + 12).ok_or_else(cut_off)?;
    let len = u64::from_le_bytes(head[..8].try_into().map_err(|_| cut_off())?);
    let crc = u32::from_le_bytes(head[8..].try_into().map_err(|_| cut_off())?);
    let end = usize::try_from(len).ok().and_then(|len| (start + 12).checked_add(len)).ok_or_else(cut_off)?;
    let section = bytes.get(start + 12..end).ok_or_else(cut_off)?;
    if crc32(section) != crc {
        return Err(format!("the section at byte {start} is damaged (its checksum is wrong)"));
    }
    *at = end;
    Ok(section)
}

fn inflate(bytes: &[u8]) -> Result<Vec<u8>, String> {
    zstd::stream::decode_all(bytes).map_err(|error| format!("a section cannot be unpacked: {error}"))
}

fn pack(runs: impl Iterator<Item = Range<u64>>) -> Vec<u8> {
    let mut packed = Vec::new();
    let mut at = 0;
    for run in runs {
        push_varint(&mut packed, run.start - at);
        push_varint(&mut packed, run.end - run.start);
        at = run.end;
    }
    packed
}

fn unpack(packed: &[u8], units: u64) -> Option<Vec<Range<u64>>> {
    let mut rest = packed;
    let mut at = 0_u64;
    let mut runs = Vec::new();
    while !rest.is_empty() {
        let start = at.checked_add(take_varint(&mut rest)?)?;
        at = start.checked_add(take_varint(&mut rest)?)?;
        if at > units {
            return None;
        }
        runs.push(start..at);
    }
    Some(runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header() -> Header {
        Header { drive: "x".into(), size: 1 << 30, unit: 512, model_time_ns: 99, tool_version: "0".into() }
    }

    #[test]
    fn a_state_is_read_as_it_was_written_and_damage_is_said_where_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("disk");
        assert_eq!(load(&data).unwrap(), None);
        mark_in_use(&data).unwrap();
        let runs = [0..5, 7..8, 2_000_000..2_097_152];
        save(&data, &header(), runs.iter().cloned(), b"model").unwrap();
        let saved = load(&data).unwrap().unwrap();
        assert_eq!(saved, Saved { header: header(), mapped: runs.to_vec(), model: b"model".to_vec(), clean: true });
        mark_in_use(&data).unwrap();
        assert!(!load(&data).unwrap().unwrap().clean);

        let path = path_of(&data);
        let whole = std::fs::read(&path).unwrap();
        for len in 0..whole.len() {
            std::fs::write(&path, &whole[..len]).unwrap();
            assert!(load(&data).is_err(), "cut at {len}");
        }
        for at in (0..whole.len()).filter(|at| *at != 8) {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            std::fs::write(&path, &damaged).unwrap();
            assert!(load(&data).is_err(), "changed at {at}");
        }
    }

    #[test]
    fn a_link_in_the_place_of_a_state_is_not_written_through() {
        let dir = tempfile::tempdir().unwrap();
        let (data, victim) = (dir.path().join("disk"), dir.path().join("victim"));
        std::fs::write(&victim, "somebody else's").unwrap();
        std::os::unix::fs::symlink(&victim, path_of(&data)).unwrap();
        assert!(mark_in_use(&data).is_err() && load(&data).is_err());
        save(&data, &header(), std::iter::empty(), b"").unwrap();
        assert_eq!(std::fs::read(victim).unwrap(), b"somebody else's");
        assert!(path_of(&data).symlink_metadata().unwrap().is_file(), "the link is replaced");
    }

    proptest! {
        #[test]
        fn runs_survive_being_packed(steps in prop::collection::vec((0_u64..1 << 40, 1_u64..1 << 40), 0..50)) {
            let mut at = 0;
            let runs: Vec<Range<u64>> = steps.iter().map(|(skip, len)| { let start = at + skip; at = start + len; start..at }).collect();
            prop_assert_eq!(unpack(&pack(runs.iter().cloned()), u64::MAX), Some(runs));
        }

        #[test]
        fn garbage_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = unpack(&bytes, 1 << 40);
            let mut state = MAGIC.to_vec();
            state.push(CLEAN);
            state.extend(bytes);
            let _ = parse(&state);
        }
    }
}
