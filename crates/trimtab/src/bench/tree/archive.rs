//! Reads an archive into memory, so that unpacking it measures the drive, not the
//! decompressor.

use anyhow::{Context as _, anyhow, bail};
use std::cell::Cell;
use std::io::{self, BufReader, Read, Write as _};
use std::path::Path;
use std::rc::Rc;
use trimtab_drive::data::DataClass;
use trimtab_drive::units::Bytes;
use trimtab_linux::host::memory;
use trimtab_linux::sys::beneath::named::{self, Streams};
use trimtab_sim::workload::tree::{TreeBuilder, TreeList};

/// Blocks that are compressed to find the class of the data.
const SAMPLES: usize = 1024;
/// Size of such a block: the unit in which drive controllers compress.
const SAMPLE_BYTES: usize = 4096;

/// Largest header of an entry, including long names and attributes.
const HEADER_BYTES_MAX: u64 = 1 << 20;
/// Memory limit of a decompressor: `xz -9` needs 65 MiB.
const DECODER_BYTES_MAX: u64 = 512 << 20;

/// Content allowed for any archive, however small.
const CONTENT_BYTES_MIN: u64 = 256 << 20;
/// Further content allowed per byte of the archive. Source trees have 3 to 12, logs up to
/// 50, a bomb 1,000 or more.
const CONTENT_PER_BYTE_MAX: u64 = 100;

/// A tree from an archive.
#[derive(Debug, Clone)]
pub struct Archive {
    /// Directories and files with their contents.
    pub list: TreeList,
    /// Other entries: links, devices, pipes.
    pub skipped: u64,
}

/// Reads the archive `path`, plain or compressed; the first bytes identify the format.
pub fn read(path: &Path) -> anyhow::Result<Archive> {
    let shown = path.display();
    let file = named::open_to_read(path, Streams::Pipes)
        .with_context(|| format!("cannot open {shown}"))?;
    unpack(file, memory_for_contents()).with_context(|| format!("cannot unpack {shown}"))
}

/// Reads an archive from a stream. Names and contents may take at most `most`.
///
/// # Errors
/// The archive is invalid or damaged, leads out of its tree, or unpacks to more than
/// `most` or than its own length allows.
pub fn unpack(archive: impl Read + 'static, most: Bytes) -> anyhow::Result<Archive> {
    let read = Rc::new(Cell::new(0));
    let counted = CountingReader { inner: archive, read: Rc::clone(&read) };
    let stream = decompressed(BufReader::with_capacity(1 << 20, counted))?;
    parse(RatioLimitedReader { inner: stream, given: 0, read }, most)
}

/// Counts the bytes of the archive itself.
struct CountingReader<R> {
    inner: R,
    read: Rc<Cell<u64>>,
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.read.set(self.read.get() + read as u64);
        Ok(read)
    }
}

/// Limits the output to what an archive of the length `read` so far may hold, so that
/// neither a bomb nor an endless entry is unpacked to its end.
struct RatioLimitedReader<R> {
    inner: R,
    given: u64,
    read: Rc<Cell<u64>>,
}

impl<R: Read> Read for RatioLimitedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let given = self.inner.read(buffer)?;
        self.given += given as u64;
        let most =
            CONTENT_BYTES_MIN.saturating_add(self.read.get().saturating_mul(CONTENT_PER_BYTE_MAX));
        if self.given > most {
            let what = format!("it unpacks to more than {CONTENT_PER_BYTE_MAX} times its own size");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(given)
    }
}

/// Half of the available memory, because contents are kept until the end.
fn memory_for_contents() -> Bytes {
    memory::available().map_or(Bytes(4 << 30), |available| Bytes(available.0 / 2))
}

fn decompressed<R: Read + 'static>(mut file: BufReader<R>) -> io::Result<Box<dyn Read>> {
    use std::io::BufRead as _;
    let magic = file.fill_buf()?;
    Ok(match magic {
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(file)),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            let stream = liblzma::stream::Stream::new_stream_decoder(
                DECODER_BYTES_MAX,
                liblzma::stream::CONCATENATED,
            )?;
            Box::new(liblzma::bufread::XzDecoder::new_stream(file, stream))
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "it is compressed with zstd: decompress it first, with zstd -d",
            ));
        }
        _ => Box::new(file),
    })
}

fn parse(stream: impl Read, most: Bytes) -> anyhow::Result<Archive> {
    let mut builder = TreeBuilder::default();
    let mut skipped = 0;
    let mut content = Vec::new();
    let stream = AllowanceReader::new(stream);
    let meter = Rc::clone(&stream.left);
    for (at, entry) in tar::Archive::new(stream).entries()?.enumerate() {
        let mut entry = entry.map_err(|error| bad_header(error, at))?;
        meter.set(u64::MAX);
        let path = String::from_utf8(entry.path_bytes().into_owned()).map_err(|error| {
            anyhow!("the name '{}' is not UTF-8", String::from_utf8_lossy(error.as_bytes()))
        })?;
        match entry.header().entry_type() {
            tar::EntryType::Directory => builder.dir(&path)?,
            tar::EntryType::Regular | tar::EntryType::Continuous | tar::EntryType::GNUSparse => {
                let room = most.0.saturating_sub(builder.memory_bytes());
                content.clear();
                (&mut entry).take(room.saturating_add(1)).read_to_end(&mut content)?;
                if content.len() as u64 <= room {
                    builder.file(&path, &content)?;
                }
            }
            tar::EntryType::XGlobalHeader => {}
            _ => skipped += 1,
        }
        if builder.memory_bytes() + content.len() as u64 > most.0 {
            bail!("its names and contents need more than {most}, half of the available memory");
        }
        // Skips the rest of the entry, so that the next read starts at a header.
        io::copy(&mut entry, &mut io::sink())?;
        content.clear();
        meter.set(HEADER_BYTES_MAX);
    }
    if builder.is_empty() {
        bail!("it contains no files; is it a tar archive?");
    }
    let class = class_of(builder.content());
    Ok(Archive { list: builder.finish(class), skipped })
}

/// Reads at most the remaining allowance, which its other owner resets: the tar library
/// keeps headers in memory, whatever their length.
struct AllowanceReader<R> {
    inner: R,
    left: Rc<Cell<u64>>,
}

impl<R> AllowanceReader<R> {
    fn new(inner: R) -> Self {
        Self { inner, left: Rc::new(Cell::new(HEADER_BYTES_MAX)) }
    }
}

impl<R: Read> Read for AllowanceReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = buffer.len().min(usize::try_from(self.left.get()).unwrap_or(usize::MAX));
        if len == 0 && !buffer.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a header of more than {}", Bytes(HEADER_BYTES_MAX)),
            ));
        }
        // The tar library's own errors have kind `Other`.
        let read = self.inner.read(&mut buffer[..len]).map_err(|error| match error.kind() {
            io::ErrorKind::Other => io::Error::new(io::ErrorKind::InvalidData, error.to_string()),
            _ => error,
        })?;
        self.left.set(self.left.get() - read as u64);
        Ok(read)
    }
}

/// Error for entry `at`. The tar library's own messages are not used, because they quote
/// the header, which may be anything.
fn bad_header(error: std::io::Error, at: usize) -> anyhow::Error {
    match (error.kind(), at) {
        (std::io::ErrorKind::Other, 0) => {
            anyhow!("it is not a tar archive, neither plain nor compressed with gzip or xz")
        }
        (std::io::ErrorKind::Other, _) => anyhow!("the header of entry {} is damaged", at + 1),
        _ => error.into(),
    }
}

/// Compressibility of `content` (deflate, level 1), from blocks spread evenly over it.
fn class_of(content: &[u8]) -> DataClass {
    let blocks = content.len().div_ceil(SAMPLE_BYTES);
    let step = blocks.div_ceil(SAMPLES).max(1);
    let (mut before, mut after) = (0, 0);
    for block in content.chunks(SAMPLE_BYTES).step_by(step) {
        let mut encoder =
            flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        let compressed = encoder
            .write_all(block)
            .and_then(|()| encoder.finish())
            .map_or(block.len(), |out| out.len());
        before += block.len();
        after += compressed.min(block.len());
    }
    match (before - after) * 100 / before.max(1) {
        0 => DataClass::Random,
        percent => DataClass::Compressible(u8::try_from(percent).unwrap_or(100)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tar_of(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (path, content) in entries {
            let mut header = tar::Header::new_gnu();
            // The test needs names that the tar crate refuses to write.
            let name = header.as_gnu_mut().unwrap();
            name.name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            header.set_cksum();
            builder.append(&header, *content).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn written(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn unpack_gives_same_tree_for_every_compression() {
        let plain = tar_of(&[
            ("linux/a.c", b"int main;"),
            ("linux/b/c.h", b"#define x"),
            ("linux/empty", b""),
        ]);
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gz.write_all(&plain).unwrap();
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
        xz.write_all(&plain).unwrap();
        for bytes in [&plain, &gz.finish().unwrap(), &xz.finish().unwrap()] {
            let archive = read(written(bytes).path()).unwrap();
            assert_eq!(
                (archive.list.files(), archive.list.dirs(), archive.list.size()),
                (3, 3, Bytes(18))
            );
        }
    }

    #[test]
    fn unpack_refuses_entries_that_leave_the_tree() {
        for path in ["../evil", "/etc/evil", "a/../../evil"] {
            let error = parse(&tar_of(&[(path, b"x")])[..], Bytes::MAX).unwrap_err();
            assert!(error.to_string().contains("is outside the tree"), "{error}");
        }
    }

    #[test]
    fn unpack_of_damaged_or_empty_archive_fails() {
        let plain = tar_of(&[("a", &[7; 5000]), ("b", b"x")]);
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gz.write_all(&plain).unwrap();
        let gz = gz.finish().unwrap();
        for bytes in
            [&plain[..2000], &gz[..gz.len() / 2], b"", b"not an archive at all", &[0; 1024]]
        {
            assert!(read(written(bytes).path()).is_err(), "{} bytes", bytes.len());
        }
        let message = |bytes: &[u8]| format!("{:#}", read(written(bytes).path()).unwrap_err());
        assert!(
            message(b"\x28\xb5\x2f\xfd\0")
                .ends_with("it is compressed with zstd: decompress it first, with zstd -d")
        );
        assert!(
            message(&[0xe9; 5000])
                .ends_with("it is not a tar archive, neither plain nor compressed with gzip or xz")
        );
        let mut second = plain.clone();
        second[512 + 5120..][..512].fill(0xe9);
        assert!(
            message(&second).ends_with("the header of entry 2 is damaged"),
            "{}",
            message(&second)
        );
        assert!(
            read(Path::new("/no/such/file")).unwrap_err().to_string().contains("/no/such/file")
        );
    }

    #[test]
    fn unpack_of_contents_above_memory_limit_is_refused() {
        let error = parse(&tar_of(&[("a", &[7; 5000])])[..], Bytes(4999)).unwrap_err();
        assert!(error.to_string().contains("memory"), "{error}");
    }

    /// A tar entry of this kind that claims `len` bytes without having them.
    fn header_of(kind: u8, len: u64) -> Vec<u8> {
        let mut header = tar::Header::new_gnu();
        header.set_path("x").unwrap();
        header.set_entry_type(tar::EntryType::new(kind));
        header.set_size(len);
        header.set_cksum();
        header.as_bytes().to_vec()
    }

    #[test]
    fn unpack_bounds_headers_of_any_claimed_size() {
        // Long names and links of GNU, attributes of PAX, first or after other entries.
        // Global attributes are skipped like a file.
        for kind in [b'L', b'K', b'x'] {
            for before in [&b""[..], &tar_of(&[("a", b"x")])[..1024]] {
                let taken = Rc::new(Cell::new(0));
                let endless =
                    before.chain(io::Cursor::new(header_of(kind, 6 << 30))).chain(io::repeat(b'a'));
                let error =
                    parse(CountingReader { inner: endless, read: Rc::clone(&taken) }, Bytes::MAX)
                        .unwrap_err();
                assert!(
                    format!("{error:#}").contains("a header of more than 1.05 MB"),
                    "{}: {error:#}",
                    kind as char
                );
                assert!(taken.get() < 2 * HEADER_BYTES_MAX, "{} bytes were read", taken.get());
            }
        }
        // Data of a skipped entry does not count as header.
        let mut skipped = header_of(b'9', 8 << 20);
        skipped.extend(vec![1; 8 << 20]);
        skipped.extend(tar_of(&[("a", b"x")]));
        assert_eq!(parse(&skipped[..], Bytes::MAX).unwrap().list.files(), 1);
    }

    #[test]
    fn unpack_of_bomb_is_refused() {
        // 1 GiB of zeros in an entry, compressed more than a thousandfold.
        let bomb = |encoder: &mut dyn io::Write| {
            encoder.write_all(&header_of(b'0', 1 << 30)).unwrap();
            (0..1 << 10).for_each(|_| encoder.write_all(&[0; 1 << 20]).unwrap());
        };
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        bomb(&mut gz);
        let error = format!("{:#}", read(written(&gz.finish().unwrap()).path()).unwrap_err());
        assert!(error.ends_with("it unpacks to more than 100 times its own size"), "{error}");
    }

    #[test]
    fn unpack_counts_names_as_memory() {
        let names: Vec<String> = (0..1000).map(|n| format!("{n}")).collect();
        let entries: Vec<(&str, &[u8])> =
            names.iter().map(|name| (name.as_str(), &b""[..])).collect();
        assert!(
            parse(&tar_of(&entries)[..], Bytes(100_000))
                .unwrap_err()
                .to_string()
                .contains("memory")
        );
        assert!(parse(&tar_of(&entries)[..], Bytes(1_000_000)).is_ok());
    }

    #[test]
    fn unpack_refuses_decoder_above_memory_limit() {
        // A dictionary of 1 GiB: the last byte of the filter's flags of LZMA2.
        let mut header = vec![0xfd, b'7', b'z', b'X', b'Z', 0, 0, 0];
        header.extend(trimtab_vssd::checksum::crc32(&header[6..8]).to_le_bytes());
        let mut block = vec![2, 0, 0x21, 1, 36, 0, 0, 0];
        block.extend(trimtab_vssd::checksum::crc32(&block).to_le_bytes());
        header.extend(block);
        header.extend([1, 0, 0, 0]);
        let error = format!("{:#}", read(written(&header).path()).unwrap_err());
        assert!(error.to_lowercase().contains("mem"), "{error}");
    }

    #[test]
    fn class_of_measures_compressibility() {
        assert_eq!(class_of(&[0; 100_000]), DataClass::Compressible(99));
        let mut random = vec![0; 100_000];
        DataClass::Random.fill(&mut trimtab_drive::rng::Stream::new(1, "test"), &mut random);
        assert_eq!(class_of(&random), DataClass::Random);
    }
}
