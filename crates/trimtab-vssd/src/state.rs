//! The state of a drive between attachments, stored next to its data file as
//! `FILE.state`.
//!
//! ```text
//! state   = "TTDRIVE1" use header mapped model
//! use     = u8: 'C' detached properly, 'U' in use (or left by a crash: then the data are newer than the state)
//! header  = section of JSON (see `Header`)
//! mapped  = section: deflate of varint pairs: units skipped, units that hold data
//! model   = section: deflate of the model's own snapshot; empty for a disk, which has no lasting state
//! section = u64 length, u32 CRC-32, bytes
//! ```
//!
//! It is written to a new file that then replaces the old one, so a crash leaves one or
//! the other.

use crate::checksum::{compress, crc32, decompressed};
use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use trimtab_drive::units::Nanos;
use trimtab_drive::varint;
use trimtab_linux::sys::beneath::{Dir, PRIVATE_FILE, named};

const MAGIC: &[u8; 8] = b"TTDRIVE1";
const CLEAN: u8 = b'C';
const IN_USE: u8 = b'U';
/// Maximum size of a header.
const HEADER_BYTES_MAX: u64 = 64 << 10;
/// A map takes at most one byte per unit of the drive, plus this in total.
const MAP_BYTES_MORE: u64 = 32;

/// Identifies the drive that a state belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateHeader {
    /// Name of the drive's specification.
    pub drive: String,
    /// Size of the drive in bytes.
    pub size: u64,
    /// Size of a unit of the map in bytes.
    pub unit: u64,
    /// Model time of the drive, in nanoseconds.
    pub model_time_ns: u64,
    /// Version of the program that wrote the state.
    pub tool_version: String,
    /// Checksum of the specification.
    pub spec: u32,
    /// The data file of the state; `None` if its filesystem does not identify files.
    #[serde(deserialize_with = "Option::deserialize")]
    pub data: Option<DataFile>,
}

/// Identifies a data file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataFile {
    /// Identity of the file until it is copied: inode number and creation time.
    pub file: String,
    /// Checksum of a sample of the mapped data.
    pub sample: u32,
}

impl StateHeader {
    /// Number of units of the drive.
    const fn units(&self) -> u64 {
        self.size.div_ceil(self.unit)
    }
}

/// A state with its header read. The rest is read on request, within the drive's needs.
#[derive(Debug)]
pub struct SavedState {
    /// The drive that it belongs to.
    pub header: StateHeader,
    /// Written by a proper detach, and unused since.
    pub clean: bool,
    file: File,
    path: PathBuf,
    /// Offset of the map.
    mapped_at: u64,
}

/// The state in which a drive is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UseFlag {
    /// Detached properly.
    Detached,
    /// In use: the data will become newer than the state.
    InUse,
}

/// Path of the state of the data file `data`.
pub fn path_of(data: &Path) -> PathBuf {
    let mut name = data.as_os_str().to_owned();
    name.push(".state");
    name.into()
}

/// Opens the state of the data file `data`, if any. Fails if others can have written it.
pub fn open(data: &Path) -> anyhow::Result<Option<SavedState>> {
    let path = path_of(data);
    let open = || -> io::Result<File> {
        let (directory, name) = Dir::of_file(&path)?;
        let file = directory.open_read(name)?;
        require_own(&directory, &file)?;
        Ok(file)
    };
    match open() {
        Ok(file) => SavedState::read(file, path.clone())
            .map(Some)
            .map_err(|problem| unusable(&path, &problem)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Fails if another user can have written or placed the file.
fn require_own(directory: &Dir, file: &File) -> io::Result<()> {
    if named::is_open_to_others(file) {
        let what = "it belongs to another user, or others may write to it; delete it, or make \
            this user its only owner and writer";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    }
    if directory.require_unshared().is_err() { Dir::require_trusted_file(file) } else { Ok(()) }
}

fn unusable(path: &Path, problem: &io::Error) -> anyhow::Error {
    anyhow::anyhow!("the drive's state in {} cannot be used: {problem}", path.display())
}

fn wrong(problem: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem.into())
}

/// Writes the state of the data file `data`, replacing an older one.
pub fn save(
    data: &Path,
    header: &StateHeader,
    mapped: impl Iterator<Item = Range<u64>>,
    model: &[u8],
    leave: UseFlag,
) -> anyhow::Result<()> {
    let path = path_of(data);
    let write = || -> io::Result<()> {
        let (directory, name) = Dir::of_file(&path)?;
        directory.write_atomically(name, PRIVATE_FILE, |file| {
            file.write_all(MAGIC)?;
            file.write_all(&[if leave == UseFlag::Detached { CLEAN } else { IN_USE }])?;
            write_section(file, &serde_json::to_vec(header)?)?;
            write_section(file, &compress(&pack(mapped))?)?;
            let model = if model.is_empty() { Vec::new() } else { compress(model)? };
            write_section(file, &model)
        })
    };
    write().with_context(|| format!("cannot write the drive's state to {}", path.display()))
}

fn write_section(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(&(bytes.len() as u64).to_le_bytes())?;
    file.write_all(&crc32(bytes).to_le_bytes())?;
    file.write_all(bytes)
}

impl SavedState {
    fn read(mut file: File, path: PathBuf) -> io::Result<Self> {
        let mut start = [0; MAGIC.len() + 1];
        file.read_exact(&mut start).map_err(|_| wrong("it does not start with a state header"))?;
        let clean = match (start.strip_prefix(MAGIC), start[MAGIC.len()]) {
            (None, _) => return Err(wrong("it does not start with a state header")),
            (_, CLEAN) => true,
            (_, IN_USE) => false,
            (_, other) => return Err(wrong(format!("byte 8 is {other:#04x}"))),
        };
        let header = StateSection::at(&mut file, start.len() as u64, HEADER_BYTES_MAX)?;
        let mapped_at = header.end;
        let mut text = Vec::new();
        header.open(&mut file)?.read_to_end(&mut text)?;
        let header: StateHeader = serde_json::from_slice(&text)
            .map_err(|error| wrong(format!("its header cannot be parsed: {error}")))?;
        if header.unit == 0 {
            return Err(wrong("its header has units of 0 bytes"));
        }
        Ok(Self { header, clean, file, path, mapped_at })
    }

    /// Model time of the drive.
    pub const fn model_time(&self) -> Nanos {
        Nanos(self.header.model_time_ns)
    }

    /// Passes each run of mapped units to `run`, in order, and returns the model's
    /// snapshot, which has at most `model_bytes_max` bytes.
    pub fn load(
        mut self,
        model_bytes_max: u64,
        run: impl FnMut(Range<u64>),
    ) -> anyhow::Result<Vec<u8>> {
        let path = std::mem::take(&mut self.path);
        self.decode(model_bytes_max, run).map_err(|problem| unusable(&path, &problem))
    }

    fn decode(mut self, model_bytes_max: u64, run: impl FnMut(Range<u64>)) -> io::Result<Vec<u8>> {
        let units = self.header.units();
        let map_bytes_max = units.saturating_add(MAP_BYTES_MORE);
        let mapped =
            StateSection::at(&mut self.file, self.mapped_at, compressed_max(map_bytes_max))?;
        let model = StateSection::at(&mut self.file, mapped.end, compressed_max(model_bytes_max))?;
        if self.file.metadata()?.len() != model.end {
            return Err(wrong(format!("it has data after its end at byte {}", model.end)));
        }
        unpack(
            BufReader::new(decompressed(mapped.open(&mut self.file)?).take(map_bytes_max)),
            units,
            run,
        )?;
        let mut snapshot = Vec::new();
        if model.len > 0 {
            decompressed(model.open(&mut self.file)?)
                .take(model_bytes_max + 1)
                .read_to_end(&mut snapshot)?;
        }
        if snapshot.len() as u64 > model_bytes_max {
            return Err(wrong(format!(
                "its model has more than the {model_bytes_max} bytes that such a drive needs"
            )));
        }
        Ok(snapshot)
    }
}

/// Upper bound of the compressed size.
const fn compressed_max(bytes: u64) -> u64 {
    // Deflate stores incompressible data in blocks of up to 64 KiB with 5 bytes each.
    bytes.saturating_add(bytes >> 8).saturating_add(64 << 10)
}

/// A section of the file with a valid checksum.
#[derive(Clone, Copy, Debug)]
struct StateSection {
    start: u64,
    len: u64,
    end: u64,
}

impl StateSection {
    /// The section at byte `at`, of at most `len_max` bytes.
    fn at(file: &mut File, at: u64, len_max: u64) -> io::Result<Self> {
        let cut_off = |_| wrong(format!("it was cut off in the section at byte {at}"));
        file.seek(SeekFrom::Start(at))?;
        let (mut len, mut crc) = ([0; 8], [0; 4]);
        file.read_exact(&mut len).and_then(|()| file.read_exact(&mut crc)).map_err(cut_off)?;
        let len = u64::from_le_bytes(len);
        if len > len_max {
            return Err(wrong(format!(
                "the section at byte {at} has {len} bytes, and such a drive needs at most {len_max}"
            )));
        }
        let section = Self { start: at + 12, len, end: at + 12 + len };
        let mut sum = flate2::CrcReader::new(BufReader::new(section.open(file)?));
        if io::copy(&mut sum, &mut io::sink())? < len {
            return Err(wrong(format!("it was cut off in the section at byte {at}")));
        }
        if sum.crc().sum() != u32::from_le_bytes(crc) {
            return Err(wrong(format!(
                "the section at byte {at} is damaged (its checksum is wrong)"
            )));
        }
        Ok(section)
    }

    /// A reader of its bytes.
    fn open(self, file: &mut File) -> io::Result<io::Take<&mut File>> {
        file.seek(SeekFrom::Start(self.start))?;
        Ok(file.take(self.len))
    }
}

fn pack(runs: impl Iterator<Item = Range<u64>>) -> Vec<u8> {
    let mut packed = Vec::new();
    let mut at = 0;
    for run in runs {
        varint::push(&mut packed, run.start - at);
        varint::push(&mut packed, run.end - run.start);
        at = run.end;
    }
    packed
}

/// Passes each run to `run`. Runs are never empty or adjacent: at most a byte per unit.
fn unpack(mut packed: impl Read, units: u64, mut run: impl FnMut(Range<u64>)) -> io::Result<()> {
    let senseless = || wrong("its map is invalid");
    let mut at = 0_u64;
    while let Some(skip) = read_varint(&mut packed)? {
        let len = read_varint(&mut packed)?.ok_or_else(senseless)?;
        let start = at.checked_add(skip).ok_or_else(senseless)?;
        let end = start.checked_add(len).filter(|end| *end <= units).ok_or_else(senseless)?;
        if len == 0 || skip == 0 && at > 0 {
            return Err(senseless());
        }
        run(start..end);
        at = end;
    }
    Ok(())
}

/// Reads a LEB128 number; `None` at the end.
fn read_varint(bytes: &mut impl Read) -> io::Result<Option<u64>> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let mut byte = [0];
        if bytes
            .read(&mut byte)
            .map_err(|error| wrong(format!("a section cannot be unpacked: {error}")))?
            == 0
        {
            return if shift == 0 { Ok(None) } else { Err(wrong("its map is cut off")) };
        }
        let bits = u64::from(byte[0] & 0x7F);
        if bits << shift >> shift != bits {
            break;
        }
        value |= bits << shift;
        if byte[0] & 0x80 == 0 {
            return Ok(Some(value));
        }
    }
    Err(wrong("its map is invalid"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header() -> StateHeader {
        StateHeader {
            drive: "x".into(),
            size: 1 << 30,
            unit: 512,
            model_time_ns: 99,
            tool_version: "0".into(),
            spec: 7,
            data: None,
        }
    }

    /// Detached cleanly, the mapped runs, and the model.
    type State = (bool, Vec<Range<u64>>, Vec<u8>);

    /// The complete state of `data`.
    fn load(data: &Path) -> anyhow::Result<Option<State>> {
        let Some(saved) = open(data)? else { return Ok(None) };
        assert_eq!(saved.header, header());
        let (clean, mut mapped) = (saved.clean, Vec::new());
        let model = saved.load(100, |run| mapped.push(run))?;
        Ok(Some((clean, mapped, model)))
    }

    #[test]
    fn state_round_trips_and_damage_is_located() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("disk");
        assert_eq!(load(&data).unwrap(), None);
        let runs = [0..5, 7..8, 2_000_000..2_097_152];
        for (leave, clean) in [(UseFlag::InUse, false), (UseFlag::Detached, true)] {
            save(&data, &header(), runs.iter().cloned(), b"model", leave).unwrap();
            assert_eq!(load(&data).unwrap(), Some((clean, runs.to_vec(), b"model".to_vec())));
        }

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

    /// Writes a state of these sections, with valid checksums.
    fn planted(data: &Path, packed: &[u8], model: &[u8]) {
        let mut file = File::create(path_of(data)).unwrap();
        file.write_all(MAGIC).unwrap();
        file.write_all(&[CLEAN]).unwrap();
        write_section(&mut file, &serde_json::to_vec(&header()).unwrap()).unwrap();
        write_section(&mut file, &compress(packed).unwrap()).unwrap();
        write_section(&mut file, &compress(model).unwrap()).unwrap();
    }

    #[test]
    fn state_header_without_specification_or_data_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("disk");
        for field in ["spec", "data"] {
            let mut text = serde_json::to_value(header()).unwrap();
            text.as_object_mut().unwrap().remove(field).unwrap();
            let mut file = File::create(path_of(&data)).unwrap();
            file.write_all(&[MAGIC.as_slice(), &[CLEAN]].concat()).unwrap();
            write_section(&mut file, &serde_json::to_vec(&text).unwrap()).unwrap();
            let error = open(&data).unwrap_err().to_string();
            assert!(error.contains(&format!("missing field `{field}`")), "{error}");
        }
    }

    /// Once, a state of 33 kB took 13.6 GB of memory.
    #[test]
    fn state_larger_than_its_drive_needs_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("disk");
        let refused = |packed: &[u8], model: &[u8]| {
            planted(&data, packed, model);
            assert!(std::fs::metadata(path_of(&data)).unwrap().len() < 1_000_000);
            load(&data).unwrap_err().to_string()
        };
        let empty_runs = vec![0; 64 << 20];
        assert!(refused(&empty_runs, b"").contains("its map is invalid"));
        let touching_runs = [vec![1, 1], [0, 1].repeat(1 << 20)].concat();
        assert!(refused(&touching_runs, b"").contains("its map is invalid"));
        let too_many = vec![1; 64 << 20];
        assert!(refused(&too_many, b"").contains("its map is invalid"));
        assert!(refused(b"", &vec![7; 4 << 20]).contains("its model has more than the 100 bytes"));
        // Every other unit is the maximum number of runs.
        let mut runs = 0;
        planted(&data, &vec![1; 2 << 20], b"");
        open(&data).unwrap().unwrap().load(100, |_| runs += 1).unwrap();
        assert_eq!(runs, 1 << 20);
    }

    /// Writes the state of a drive of `units` units, half mapped, and a model of that
    /// size.
    fn large(data: &Path, units: u64) {
        let header = StateHeader { size: units * 512, ..header() };
        let model: Vec<u8> =
            (0..units).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
        save(data, &header, (0..units / 2).map(|n| n * 2..n * 2 + 1), &model, UseFlag::Detached)
            .unwrap();
    }

    /// The child of the test below: loads a state and prints its peak memory in KiB.
    #[test]
    #[ignore = "run by state_memory_is_proportional_to_its_drive"]
    fn child_prints_peak_memory_of_a_state() {
        let Some(data) = std::env::var_os("TRIMTAB_TEST_STATE") else { return };
        let saved = open(Path::new(&data)).unwrap().unwrap();
        let units = saved.header.units();
        assert_eq!(saved.load(units, |_| {}).unwrap().len() as u64, units);
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        println!("peak {}", line.trim());
    }

    #[test]
    fn state_memory_is_proportional_to_its_drive() {
        let dir = tempfile::tempdir().unwrap();
        let peak_kib = |units: u64| -> u64 {
            let data = dir.path().join(units.to_string());
            large(&data, units);
            let mut child = std::process::Command::new(std::env::current_exe().unwrap());
            child
                .args([
                    "--exact",
                    "state::tests::child_prints_peak_memory_of_a_state",
                    "--ignored",
                    "--nocapture",
                ])
                .env("TRIMTAB_TEST_STATE", &data);
            let said = String::from_utf8(child.output().unwrap().stdout).unwrap();
            let peak = said
                .lines()
                .find_map(|line| line.split_once("peak "))
                .unwrap_or_else(|| panic!("{said}"))
                .1;
            peak.split_whitespace().next().unwrap().parse().unwrap()
        };
        let (none, small, large) = (peak_kib(0), peak_kib(4 << 20), peak_kib(40 << 20));
        // The model is read into one buffer that doubles as it grows; the map is not kept
        // here.
        let (small, large) = (small.saturating_sub(none), large.saturating_sub(none));
        assert!(
            small < 3 * (4 << 10) && large < 3 * (40 << 10),
            "{small} KiB, and {large} KiB for ten times as much"
        );
    }

    #[test]
    fn sparse_state_is_refused_unread() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("disk");
        for sections in [0, 1] {
            planted(&data, b"", b"");
            let end = std::fs::metadata(path_of(&data)).unwrap().len();
            let file = File::options().write(true).open(path_of(&data)).unwrap();
            // The length field of the header or of the map.
            let length_at = if sections == 0 {
                9
            } else {
                9 + 12 + serde_json::to_vec(&header()).unwrap().len() as u64
            };
            std::os::unix::fs::FileExt::write_all_at(
                &file,
                &(1_u64 << 42).to_le_bytes(),
                length_at,
            )
            .unwrap();
            file.set_len(end + (1 << 42)).unwrap();
            let error = load(&data).unwrap_err().to_string();
            assert!(error.contains("such a drive needs at most"), "{error}");
        }
    }

    #[test]
    fn state_of_another_user_is_refused() {
        if !rustix::process::geteuid().is_root() {
            return crate::skip::skip("root: two users");
        }
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("disk");
        save(&data, &header(), std::iter::empty(), b"", UseFlag::Detached).unwrap();
        std::os::unix::fs::chown(path_of(&data), Some(65_534), None).unwrap();
        let error = format!("{:#}", open(&data).unwrap_err());
        assert!(error.contains("it belongs to another user"), "{error}");
    }

    #[test]
    fn save_does_not_write_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (data, victim) = (dir.path().join("disk"), dir.path().join("victim"));
        std::fs::write(&victim, "another user's").unwrap();
        std::os::unix::fs::symlink(&victim, path_of(&data)).unwrap();
        assert!(open(&data).is_err());
        save(&data, &header(), std::iter::empty(), b"", UseFlag::InUse).unwrap();
        assert_eq!(std::fs::read(victim).unwrap(), b"another user's");
        assert!(path_of(&data).symlink_metadata().unwrap().is_file(), "the link is replaced");
    }

    fn unpacked(packed: &[u8], units: u64) -> io::Result<Vec<Range<u64>>> {
        let mut runs = Vec::new();
        unpack(packed, units, |run| runs.push(run)).map(|()| runs)
    }

    proptest! {
        #[test]
        fn packed_runs_round_trip(steps in prop::collection::vec((1_u64..1 << 40, 1_u64..1 << 40), 0..50)) {
            let mut at = 0;
            let runs: Vec<Range<u64>> = steps.iter().map(|(skip, len)| { let start = at + skip; at = start + len; start..at }).collect();
            prop_assert_eq!(unpacked(&pack(runs.iter().cloned()), u64::MAX).unwrap(), runs);
        }

        #[test]
        fn garbage_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = unpacked(&bytes, 1 << 40);
            let dir = tempfile::tempdir().unwrap();
            let data = dir.path().join("disk");
            std::fs::write(path_of(&data), [MAGIC.as_slice(), &[CLEAN], &bytes].concat()).unwrap();
            let _ = load(&data);
        }
    }
}
