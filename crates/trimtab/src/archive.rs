//! Reading an archive into memory, so that unpacking it measures the drive and not the decompressor.

use anyhow::{Context as _, anyhow, bail};
use std::fs::File;
use std::io::{BufReader, Read, Write as _};
use std::path::Path;
use trimtab_core::data::DataClass;
use trimtab_core::units::Bytes;
use trimtab_core::workload::tree::{TreeBuilder, TreeList};

/// Blocks of contents that are compressed to find out what they are like.
const SAMPLES: usize = 1024;
/// Size of such a block: what a drive's controller compresses at a time.
const SAMPLE_BYTES: usize = 4096;

/// A tree from an archive.
#[derive(Debug, Clone)]
pub struct Archive {
    /// Directories and files with their contents.
    pub list: TreeList,
    /// Entries that are neither: links, devices, pipes.
    pub skipped: u64,
}

/// Reads the archive `path`, plain or compressed; which, is told from its first bytes.
pub fn read(path: &Path) -> anyhow::Result<Archive> {
    let shown = path.display();
    let file = File::open(path).with_context(|| format!("cannot open {shown}"))?;
    let stream = decompressed(BufReader::with_capacity(1 << 20, file)).with_context(|| format!("cannot read {shown}"))?;
    let most = memory_for_contents();
    parse(stream, most).with_context(|| format!("cannot unpack {shown}"))
}

/// Half of what memory is available: contents are kept until the end.
fn memory_for_contents() -> Bytes {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = meminfo.lines().find_map(|l| l.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    available.map_or(Bytes(4 << 30), |kib| Bytes(kib.saturating_mul(512)))
}

fn decompressed(mut file: BufReader<File>) -> std::io::Result<Box<dyn Read>> {
    use std::io::BufRead as _;
    let magic = file.fill_buf()?;
    Ok(match magic {
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(file)),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Box::new(liblzma::bufread::XzDecoder::new_multi_decoder(file)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(zstd::stream::read::Decoder::with_buffer(file)?),
        _ => Box::new(file),
    })
}

fn parse(stream: impl Read, most: Bytes) -> anyhow::Result<Archive> {
    let mut builder = TreeBuilder::default();
    let mut skipped = 0;
    let mut total = Bytes::ZERO;
    let mut content = Vec::new();
    for (at, entry) in tar::Archive::new(stream).entries()?.enumerate() {
        let mut entry = entry.map_err(|error| bad_header(error, at))?;
        let path = String::from_utf8(entry.path_bytes().into_owned())
            .map_err(|error| anyhow!("the name '{}' is not UTF-8", String::from_utf8_lossy(error.as_bytes())))?;
        match entry.header().entry_type() {
            tar::EntryType::Directory => builder.dir(&path)?,
            tar::EntryType::Regular | tar::EntryType::Continuous | tar::EntryType::GNUSparse => {
                let room = most.saturating_sub(total).0;
                content.clear();
                (&mut entry).take(room.saturating_add(1)).read_to_end(&mut content)?;
                total = total.saturating_add(Bytes(content.len() as u64));
                if total > most {
                    bail!("its contents take more than {most}, half of the memory that is available");
                }
                builder.file(&path, &content)?;
            }
            tar::EntryType::XGlobalHeader => {}
            _ => skipped += 1,
        }
    }
    if builder.is_empty() {
        bail!("it holds no file; is it a tar archive?");
    }
    let class = class_of(builder.content());
    Ok(Archive { list: builder.finish(class), skipped })
}

/// What is wrong with entry `at`. The tar library's own complaints quote the header, which may be anything.
fn bad_header(error: std::io::Error, at: usize) -> anyhow::Error {
    match (error.kind(), at) {
        (std::io::ErrorKind::Other, 0) => anyhow!("it is no tar archive, neither plain nor with gzip, xz or zstd"),
        (std::io::ErrorKind::Other, _) => anyhow!("the header of entry {} is damaged", at + 1),
        _ => error.into(),
    }
}

/// How far blocks of `content`, evenly spread over it, compress (deflate, level 1).
fn class_of(content: &[u8]) -> DataClass {
    let blocks = content.len().div_ceil(SAMPLE_BYTES);
    let step = blocks.div_ceil(SAMPLES).max(1);
    let (mut before, mut after) = (0, 0);
    for block in content.chunks(SAMPLE_BYTES).step_by(step) {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        let compressed = encoder.write_all(block).and_then(|()| encoder.finish()).map_or(block.len(), |out| out.len());
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
            // Names that the tar crate would refuse to write are what is tested here.
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
    fn every_compression_gives_the_same_tree() {
        let plain = tar_of(&[("linux/a.c", b"int main;"), ("linux/b/c.h", b"#define x"), ("linux/empty", b"")]);
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gz.write_all(&plain).unwrap();
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
        xz.write_all(&plain).unwrap();
        let zst = zstd::encode_all(&plain[..], 1).unwrap();
        for bytes in [&plain, &gz.finish().unwrap(), &xz.finish().unwrap(), &zst] {
            let archive = read(written(bytes).path()).unwrap();
            assert_eq!((archive.list.files(), archive.list.dirs(), archive.list.size()), (3, 3, Bytes(18)));
        }
    }

    #[test]
    fn entries_that_lead_out_are_refused() {
        for path in ["../evil", "/etc/evil", "a/../../evil"] {
            let error = parse(&tar_of(&[(path, b"x")])[..], Bytes::MAX).unwrap_err();
            assert!(error.to_string().contains("leads out of the tree"), "{error}");
        }
    }

    #[test]
    fn damaged_and_empty_archives_are_errors() {
        let plain = tar_of(&[("a", &[7; 5000]), ("b", b"x")]);
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gz.write_all(&plain).unwrap();
        let gz = gz.finish().unwrap();
        for bytes in [&plain[..2000], &gz[..gz.len() / 2], b"", b"not an archive at all", &[0; 1024]] {
            assert!(read(written(bytes).path()).is_err(), "{} bytes", bytes.len());
        }
        let message = |bytes: &[u8]| format!("{:#}", read(written(bytes).path()).unwrap_err());
        assert!(message(&[0xe9; 5000]).ends_with("it is no tar archive, neither plain nor with gzip, xz or zstd"));
        let mut second = plain.clone();
        second[512 + 5120..][..512].fill(0xe9);
        assert!(message(&second).ends_with("the header of entry 2 is damaged"), "{}", message(&second));
        assert!(read(Path::new("/no/such/file")).unwrap_err().to_string().contains("/no/such/file"));
    }

    #[test]
    fn contents_that_do_not_fit_in_memory_are_refused() {
        let error = parse(&tar_of(&[("a", &[7; 5000])])[..], Bytes(4999)).unwrap_err();
        assert!(error.to_string().contains("memory"), "{error}");
    }

    #[test]
    fn contents_are_classed_by_how_far_they_compress() {
        assert_eq!(class_of(&[0; 100_000]), DataClass::Compressible(99));
        let mut random = vec![0; 100_000];
        DataClass::Random.fill(&mut trimtab_core::rng::Stream::new(1, "test"), &mut random);
        assert_eq!(class_of(&random), DataClass::Random);
    }
}
