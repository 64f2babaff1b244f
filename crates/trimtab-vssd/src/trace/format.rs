//! Writes and reads recordings; the format is described at [`crate::trace`].

use super::{TraceEvent, TraceOpKind};
use crate::trace::checksum::{compress, crc32, decompressed};
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use trimtab_drive::data::DataClass;
use trimtab_drive::units::Nanos;
use trimtab_drive::varint;

pub(super) const MAGIC: &[u8; 8] = b"TRIMTRC1";
/// Raw size at which a block is closed.
const BLOCK_BYTES: usize = 64 << 10;
/// Maximum raw size of a block: the last record may exceed the limit above.
const RAW_BYTES_MAX: usize = BLOCK_BYTES + RECORD_BYTES_MAX;
/// 1 + 4 varints of 10 bytes + class + errno, rounded up.
const RECORD_BYTES_MAX: usize = 64;
const HEADER_BYTES_MAX: usize = 1 << 20;

const FUA: u8 = 1 << 2;
const FAILED: u8 = 1 << 3;
const CONTINUES: u8 = 1 << 4;

const CLASS_ZERO: u64 = 1001;
const CLASS_RANDOM: u64 = 1002;
const CLASS_TEXT: u64 = 1003;
const CLASS_COMPRESSIBLE: u64 = 1100;
const CLASS_COMPRESSIBLE_MAX: u64 = 1200;

/// Header of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingHeader {
    /// Name of the drive's specification.
    pub drive: String,
    /// Size of the drive in bytes.
    pub size: u64,
    /// Logical block size in bytes.
    pub logical_block: u32,
    /// Speed of model time: `realtime`, `10x`, `off`.
    pub speed: String,
    /// Milliseconds since 1970 UTC.
    pub started_unix_ms: u64,
    /// Version of the recording program.
    pub tool_version: String,
}

/// An error in a recording, with its place.
#[derive(Debug, thiserror::Error)]
#[error("at byte {offset}, after {records} records: {problem}")]
pub struct TraceError {
    /// Byte offset in the file.
    pub offset: u64,
    /// Number of complete records before it.
    pub records: u64,
    /// The error.
    pub problem: String,
}

/// Packs events into blocks. Does no I/O, so it can be called with a lock held.
#[derive(Debug)]
pub struct Packer {
    block_bytes: u64,
    raw: Vec<u8>,
    records: u32,
    at: Nanos,
    position: u64,
}

/// A complete block, ready to be written.
#[derive(Debug)]
pub struct RecordingBlock {
    raw: Vec<u8>,
    records: u32,
}

impl Packer {
    /// For a drive with this logical block size.
    pub fn new(logical_block: u32) -> Self {
        Self {
            block_bytes: logical_block.max(1).into(),
            raw: Vec::new(),
            records: 0,
            at: Nanos::ZERO,
            position: 0,
        }
    }

    /// Adds an event; returns the block once it is full. Events must be ordered by time.
    pub fn push(&mut self, event: &TraceEvent) -> Option<RecordingBlock> {
        let kind = match event.kind {
            TraceOpKind::Read => 0,
            TraceOpKind::Write => 1,
            TraceOpKind::Trim => 2,
            TraceOpKind::Flush => 3,
        };
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        self.raw.push(
            kind | flag(event.fua, FUA)
                | flag(event.errno.is_some(), FAILED)
                | flag(event.continues, CONTINUES),
        );
        varint::push(&mut self.raw, event.at.saturating_sub(self.at).0);
        self.at = self.at.max(event.at);
        if event.kind != TraceOpKind::Flush {
            let (first, blocks) = (event.offset / self.block_bytes, event.len / self.block_bytes);
            varint::push(&mut self.raw, zigzag(first.wrapping_sub(self.position) as i64));
            varint::push(&mut self.raw, blocks);
            self.position = first.wrapping_add(blocks);
        }
        if event.kind == TraceOpKind::Write {
            varint::push(&mut self.raw, class_code(event.class));
        }
        varint::push(&mut self.raw, event.latency.0);
        if let Some(errno) = event.errno {
            varint::push(&mut self.raw, errno.into());
        }
        self.records += 1;
        if self.raw.len() >= BLOCK_BYTES { self.take() } else { None }
    }

    /// The block so far; `None` if it is empty.
    pub fn take(&mut self) -> Option<RecordingBlock> {
        let empty = Self::new(self.block_bytes as u32);
        let full = std::mem::replace(self, empty);
        (full.records > 0).then_some(RecordingBlock { raw: full.raw, records: full.records })
    }
}

/// Writes a recording.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    records: u64,
}

impl<W: Write> Writer<W> {
    /// Starts a recording.
    pub fn new(mut out: W, header: &RecordingHeader) -> io::Result<Self> {
        let json = serde_json::to_vec(header)?;
        out.write_all(MAGIC)?;
        out.write_all(&(json.len() as u32).to_le_bytes())?;
        out.write_all(&crc32(&json).to_le_bytes())?;
        out.write_all(&json)?;
        Ok(Self { out, records: 0 })
    }

    /// Adds a block.
    pub fn write_block(&mut self, block: &RecordingBlock) -> io::Result<()> {
        let stored = compress(&block.raw)?;
        for number in [stored.len() as u32, block.raw.len() as u32, block.records, crc32(&stored)] {
            self.out.write_all(&number.to_le_bytes())?;
        }
        self.out.write_all(&stored)?;
        self.records += u64::from(block.records);
        Ok(())
    }

    /// Flushes the output.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Ends the recording.
    pub fn finish(mut self) -> io::Result<W> {
        let records = self.records.to_le_bytes();
        self.out.write_all(&0_u32.to_le_bytes())?;
        self.out.write_all(&records)?;
        self.out.write_all(&crc32(&records).to_le_bytes())?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Reads a recording by blocks. Iterating yields events until the end or the first error.
#[derive(Debug)]
pub struct RecordingReader<R> {
    input: R,
    header: RecordingHeader,
    offset: u64,
    records: u64,
    /// Offset of the current block.
    block_at: u64,
    raw: Vec<u8>,
    /// Offset in `raw` of the next record.
    next: usize,
    /// Records left in `raw`.
    left: u32,
    base: Nanos,
    at: Nanos,
    position: u64,
    ended: bool,
}

impl<R: Read> RecordingReader<R> {
    /// Reads the header.
    pub fn new(mut input: R) -> Result<Self, TraceError> {
        let mut offset = 0;
        let wrong = |offset: u64, problem: String| TraceError { offset, records: 0, problem };
        let magic: [u8; 8] =
            read_array(&mut input, &mut offset).map_err(|problem| wrong(0, problem))?;
        if &magic != MAGIC {
            return Err(wrong(0, "this is not a recording made by trimtab".to_owned()));
        }
        let mut number = || -> Result<u32, TraceError> {
            read_array(&mut input, &mut offset)
                .map(u32::from_le_bytes)
                .map_err(|problem| wrong(8, problem))
        };
        let (len, crc) = (number()? as usize, number()?);
        if len > HEADER_BYTES_MAX {
            return Err(wrong(8, format!("the header claims to be {len} bytes long")));
        }
        let mut json = vec![0; len];
        // The damage may be in the length or the checksum as well.
        read_exact(&mut input, &mut json, &mut offset).map_err(|problem| wrong(8, problem))?;
        if crc32(&json) != crc {
            return Err(wrong(8, "the header is damaged (its checksum is wrong)".to_owned()));
        }
        let header: RecordingHeader = serde_json::from_slice(&json)
            .map_err(|error| wrong(16, format!("the header cannot be parsed: {error}")))?;
        if header.logical_block == 0 {
            return Err(wrong(16, "the header has a logical block of 0 bytes".to_owned()));
        }
        for (name, text) in [
            ("drive", &header.drive),
            ("speed", &header.speed),
            ("tool_version", &header.tool_version),
        ] {
            if !is_identifier(text) {
                return Err(wrong(
                    16,
                    format!(
                        "{name} in the header is not a name of letters, digits and \
                            '.-_+', at most 64 of them"
                    ),
                ));
            }
        }
        Ok(Self {
            input,
            header,
            offset,
            records: 0,
            block_at: 0,
            raw: Vec::new(),
            next: 0,
            left: 0,
            base: Nanos::ZERO,
            at: Nanos::ZERO,
            position: 0,
            ended: false,
        })
    }

    /// The header of the recording.
    pub const fn header(&self) -> &RecordingHeader {
        &self.header
    }

    fn wrong(&self, problem: impl Into<String>) -> TraceError {
        TraceError { offset: self.offset, records: self.records, problem: problem.into() }
    }

    /// An error inside the current block, with the offset of the block.
    fn wrong_block(&self, problem: &str) -> TraceError {
        TraceError { offset: self.block_at, ..self.wrong(problem) }
    }

    /// Reads the next block; returns false at the end.
    fn next_block(&mut self) -> Result<bool, TraceError> {
        let start = self.offset;
        self.block_at = start;
        let at_start = |mut error: TraceError| {
            error.offset = start;
            error
        };
        let stored_len = self.number().map_err(at_start)? as usize;
        if stored_len == 0 {
            return self.end().map(|()| false).map_err(at_start);
        }
        let (raw_len, records, crc) = (
            self.number().map_err(at_start)? as usize,
            self.number().map_err(at_start)?,
            self.number().map_err(at_start)?,
        );
        // Deflate never expands incompressible data beyond this.
        if raw_len > RAW_BYTES_MAX || stored_len > RAW_BYTES_MAX + 1024 {
            return Err(at_start(
                self.wrong(format!("a block claims to be {stored_len} bytes of {raw_len}")),
            ));
        }
        let mut stored = vec![0; stored_len];
        read_exact(&mut self.input, &mut stored, &mut self.offset)
            .map_err(|problem| at_start(self.wrong(problem)))?;
        if crc32(&stored) != crc {
            return Err(at_start(self.wrong("this block is damaged (its checksum is wrong)")));
        }
        self.raw.clear();
        let read = decompressed(&stored[..]).take(raw_len as u64 + 1).read_to_end(&mut self.raw);
        read.map_err(|error| at_start(self.wrong(format!("this block is damaged: {error}"))))?;
        if self.raw.len() != raw_len || records == 0 {
            return Err(at_start(self.wrong("this block is damaged (its length is wrong)")));
        }
        (self.next, self.left, self.position) = (0, records, 0);
        (self.base, self.at) = (Nanos::ZERO, Nanos::ZERO);
        Ok(true)
    }

    fn end(&mut self) -> Result<(), TraceError> {
        let records: [u8; 8] =
            read_array(&mut self.input, &mut self.offset).map_err(|problem| self.wrong(problem))?;
        if self.number()? != crc32(&records) {
            return Err(self.wrong("the end is damaged (its checksum is wrong)"));
        }
        let records = u64::from_le_bytes(records);
        if records == self.records {
            Ok(())
        } else {
            Err(self.wrong(format!("the recording had {records} records: some are missing")))
        }
    }

    fn number(&mut self) -> Result<u32, TraceError> {
        read_array(&mut self.input, &mut self.offset)
            .map(u32::from_le_bytes)
            .map_err(|problem| self.wrong(problem))
    }

    fn next_event(&mut self) -> Result<Option<TraceEvent>, TraceError> {
        if self.left == 0 {
            if self.next < self.raw.len() {
                return Err(self.wrong_block("this block has data after its last record"));
            }
            if !self.next_block()? {
                return Ok(None);
            }
        }
        let mut rest = &self.raw[self.next..];
        let event =
            parse_event(&mut rest, self.at, &mut self.position, self.header.logical_block.into())
                .ok_or_else(|| self.wrong_block("a record in this block is invalid"))?;
        self.next = self.raw.len() - rest.len();
        self.at = event.at;
        self.left -= 1;
        self.records += 1;
        Ok(Some(event))
    }
}

impl<R: Read> Iterator for RecordingReader<R> {
    type Item = Result<TraceEvent, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.next_event().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

/// `text` is safe in a line or a file name of another program.
fn is_identifier(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+');
    (1..=64).contains(&text.len()) && !text.starts_with(['.', '-']) && text.chars().all(plain)
}

fn parse_event(
    rest: &mut &[u8],
    before: Nanos,
    position: &mut u64,
    block_bytes: u64,
) -> Option<TraceEvent> {
    let (flags, after) = rest.split_first()?;
    let flags = *flags;
    *rest = after;
    if flags & !(3 | FUA | FAILED | CONTINUES) != 0 {
        return None;
    }
    let kind = [TraceOpKind::Read, TraceOpKind::Write, TraceOpKind::Trim, TraceOpKind::Flush]
        [usize::from(flags & 3)];
    let at = before.checked_add(Nanos(varint::take(rest)?))?;
    let (mut offset, mut len) = (0, 0);
    if kind != TraceOpKind::Flush {
        let first = position.wrapping_add(unzigzag(varint::take(rest)?) as u64);
        let blocks = varint::take(rest)?;
        *position = first.checked_add(blocks)?;
        position.checked_mul(block_bytes)?;
        (offset, len) = (first * block_bytes, blocks * block_bytes);
    }
    let class = if kind == TraceOpKind::Write {
        class_of_code(varint::take(rest)?)?
    } else {
        DataClass::Random
    };
    let latency = Nanos(varint::take(rest)?);
    let errno =
        if flags & FAILED == 0 { None } else { Some(u16::try_from(varint::take(rest)?).ok()?) };
    Some(TraceEvent {
        at,
        kind,
        offset,
        len,
        class,
        fua: flags & FUA != 0,
        continues: flags & CONTINUES != 0,
        latency,
        errno,
    })
}

const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

const fn class_code(class: DataClass) -> u64 {
    match class {
        DataClass::Measured(permille) => permille as u64,
        DataClass::Zero => CLASS_ZERO,
        DataClass::Random => CLASS_RANDOM,
        DataClass::Text => CLASS_TEXT,
        DataClass::Compressible(percent) => CLASS_COMPRESSIBLE + percent as u64,
    }
}

const fn class_of_code(code: u64) -> Option<DataClass> {
    match code {
        0..=1000 => Some(DataClass::Measured(code as u16)),
        CLASS_ZERO => Some(DataClass::Zero),
        CLASS_RANDOM => Some(DataClass::Random),
        CLASS_TEXT => Some(DataClass::Text),
        CLASS_COMPRESSIBLE..=CLASS_COMPRESSIBLE_MAX => {
            Some(DataClass::Compressible((code - CLASS_COMPRESSIBLE) as u8))
        }
        _ => None,
    }
}

fn read_array<const N: usize>(input: &mut impl Read, offset: &mut u64) -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    read_exact(input, &mut bytes, offset)?;
    Ok(bytes)
}

fn read_exact(input: &mut impl Read, bytes: &mut [u8], offset: &mut u64) -> Result<(), String> {
    match input.read_exact(bytes) {
        Ok(()) => {
            *offset += bytes.len() as u64;
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Err("the recording was cut off here".to_owned())
        }
        Err(error) => Err(format!("cannot continue reading: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::OnceLock;

    fn header() -> RecordingHeader {
        RecordingHeader {
            drive: "x".into(),
            size: 1 << 40,
            logical_block: 512,
            speed: "off".into(),
            started_unix_ms: 7,
            tool_version: "0".into(),
        }
    }

    fn event() -> impl Strategy<Value = TraceEvent> {
        let kind = prop::sample::select(vec![
            TraceOpKind::Read,
            TraceOpKind::Write,
            TraceOpKind::Trim,
            TraceOpKind::Flush,
        ]);
        let class = prop_oneof![
            Just(DataClass::Zero),
            Just(DataClass::Text),
            (0_u8..=100).prop_map(DataClass::Compressible),
            (0_u16..=1000).prop_map(DataClass::Measured)
        ];
        (
            kind,
            0_u64..1 << 50,
            0_u64..1 << 30,
            class,
            any::<(bool, bool)>(),
            0_u64..1 << 40,
            any::<Option<u16>>(),
        )
            .prop_map(|(kind, first, blocks, class, (fua, continues), latency, errno)| {
                let flush = kind == TraceOpKind::Flush;
                let class = if kind == TraceOpKind::Write { class } else { DataClass::Random };
                TraceEvent {
                    at: Nanos::ZERO,
                    kind,
                    offset: if flush { 0 } else { first * 512 },
                    len: if flush { 0 } else { blocks * 512 },
                    class,
                    fua,
                    continues,
                    latency: Nanos(latency),
                    errno,
                }
            })
    }

    fn written(events: &[TraceEvent]) -> Vec<u8> {
        let (mut writer, mut packer) =
            (Writer::new(Vec::new(), &header()).unwrap(), Packer::new(512));
        for event in events {
            packer.push(event).into_iter().for_each(|block| writer.write_block(&block).unwrap());
        }
        packer.take().into_iter().for_each(|block| writer.write_block(&block).unwrap());
        writer.finish().unwrap()
    }

    /// Several blocks, created once.
    fn long_recording() -> &'static [u8] {
        static RECORDING: OnceLock<Vec<u8>> = OnceLock::new();
        RECORDING.get_or_init(|| {
            let event = TraceEvent {
                at: Nanos(5),
                kind: TraceOpKind::Write,
                offset: 4096,
                len: 4096,
                class: DataClass::Text,
                fua: false,
                continues: false,
                latency: Nanos(1),
                errno: None,
            };
            let events: Vec<TraceEvent> = (0..20_000_u64)
                .map(|n| TraceEvent { at: Nanos(n * n), offset: (n * 7919 % 1000) * 512, ..event })
                .collect();
            written(&events)
        })
    }

    proptest! {
        #[test]
        fn recording_round_trips(mut events in prop::collection::vec(event(), 0..100), steps in prop::collection::vec(0_u64..1 << 40, 100)) {
            let mut at = 0;
            for (event, step) in events.iter_mut().zip(steps) {
                at += step;
                event.at = Nanos(at);
            }
            // Enough copies to fill several blocks.
            let events: Vec<TraceEvent> = events.iter().flat_map(|event| [*event; 40]).collect();
            let bytes = written(&events);
            let reader = RecordingReader::new(bytes.as_slice()).unwrap();
            prop_assert_eq!(reader.header(), &header());
            let read: Vec<TraceEvent> = reader.map(Result::unwrap).collect();
            prop_assert!(read == events);
        }

        #[test]
        fn damaged_recording_is_refused_at_its_offset(cut in 0_usize..4000, flip in 0_usize..4000, bit in 0_u8..8) {
            let bytes = long_recording();
            let cut = cut * (bytes.len() - 1) / 4000;
            let outcome = RecordingReader::new(&bytes[..cut]).and_then(|reader| reader.collect::<Result<Vec<_>, _>>());
            prop_assert!(outcome.is_err(), "cut at {cut}");

            let mut damaged = bytes.to_vec();
            let flip = flip * (bytes.len() - 1) / 4000;
            damaged[flip] ^= 1 << bit;
            let outcome = RecordingReader::new(damaged.as_slice()).and_then(|reader| reader.collect::<Result<Vec<_>, _>>());
            prop_assert!(outcome.is_err_and(|error| error.offset <= flip as u64), "flipped at {flip}");
        }

        #[test]
        fn reader_never_panics_on_garbage(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut input = written(&[]);
            input.truncate(input.len() - 16);
            input.extend(bytes);
            if let Ok(reader) = RecordingReader::new(input.as_slice()) {
                prop_assert!(reader.count() < 10_000);
            }
        }
    }

    #[test]
    fn header_with_a_path_as_drive_is_refused() {
        for drive in [
            "/etc/passwd",
            "../x",
            "a b",
            "a\nb write 0 4096",
            "\u{1b}[2J",
            "-x",
            "",
            "é",
            &"x".repeat(65),
        ] {
            let bytes =
                Writer::new(Vec::new(), &RecordingHeader { drive: drive.into(), ..header() })
                    .unwrap()
                    .finish()
                    .unwrap();
            let error = RecordingReader::new(bytes.as_slice()).unwrap_err().to_string();
            assert!(error.contains("drive in the header is not a name"), "{drive:?}: {error}");
        }
        let twin = RecordingHeader {
            drive: "twin-of_x.2".into(),
            speed: "1.5x".into(),
            tool_version: "0.1.0-rc.1+x".into(),
            ..header()
        };
        assert!(
            RecordingReader::new(
                Writer::new(Vec::new(), &twin).unwrap().finish().unwrap().as_slice()
            )
            .is_ok()
        );
    }

    #[test]
    fn recording_block_larger_than_stated_is_refused() {
        let bomb = compress(&vec![0; 64 << 10]).unwrap();
        let mut file = Writer::new(Vec::new(), &header()).unwrap().out;
        for number in [bomb.len() as u32, 4096, 1, crc32(&bomb)] {
            file.extend(number.to_le_bytes());
        }
        file.extend(&bomb);
        assert!(
            bomb.len() < RAW_BYTES_MAX,
            "the size of the stored block is no reason to refuse it"
        );
        let error =
            RecordingReader::new(file.as_slice()).unwrap().next().unwrap().unwrap_err().to_string();
        assert!(error.contains("this block is damaged"), "{error}");
    }

    #[test]
    fn record_of_random_4_kib_write_has_under_ten_bytes() {
        let event = |n: u64| TraceEvent {
            at: Nanos(n * 50_000 + n % 77),
            kind: TraceOpKind::Write,
            offset: (n * 2_654_435_761 % (1 << 24)) * 4096,
            len: 4096,
            class: DataClass::Random,
            fua: false,
            continues: false,
            latency: Nanos(80_000 + n % 1000),
            errno: None,
        };
        let events: Vec<TraceEvent> = (0..50_000).map(event).collect();
        assert!(written(&events).len() < 500_000);
    }
}
