//! The finished cells, one line each with a checksum, which detects truncated or damaged
//! lines.

use anyhow::Context as _;
use rustix::fs::FlockOperation;
use std::fs::File;
use std::io::{self, BufRead as _, Read as _, Seek as _, SeekFrom, Write as _};
use std::time::{Duration, Instant};
use trimtab_drive::usage::UsageError;
use trimtab_linux::sys::beneath::{Dir, umask};
use trimtab_study::sweep::table::SweepRow;
use trimtab_vssd::checksum::crc32;

/// Interval of syncs: a power failure loses at most this much; a killed process loses
/// nothing.
const SYNC_EVERY: Duration = Duration::from_secs(5);

/// Largest line, far above the figures of a cell.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// A journal for writing, locked against other processes.
#[derive(Debug)]
pub struct SweepJournal {
    file: File,
    /// Length of the complete lines, in bytes.
    len: u64,
    synced: Instant,
}

impl SweepJournal {
    /// Opens or creates the journal and returns its rows. A line truncated by a crash is
    /// removed.
    ///
    /// # Errors
    /// Another process writes to the journal; a line other than the last is damaged.
    pub fn open(directory: &Dir, name: &str) -> anyhow::Result<(Self, Vec<SweepRow>)> {
        let shown = || directory.path().join(name).display().to_string();
        let mode = umask().map_or(0o600, |umask| 0o664 & !umask);
        let (mut file, _) = directory
            .open_or_create(name, mode)
            .with_context(|| format!("cannot open {}", shown()))?;
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let error =
                UsageError::missing(format!("another process runs this shard into {}", shown()));
            return Err(error
                .hint("wait for it, or give this one another --shard or --output")
                .into());
        }
        let (rows, len) = rows(&mut file, &shown())?;
        file.set_len(len)?;
        file.seek(SeekFrom::Start(len))?;
        Ok((Self { file, len, synced: Instant::now() }, rows))
    }

    /// Appends a row, or nothing if it cannot be written completely.
    pub fn put(&mut self, row: &SweepRow) -> io::Result<()> {
        let json = serde_json::to_string(row)?;
        let text = format!("{:08x} {json}\n", crc32(json.as_bytes()));
        if let Err(error) = self.file.write_all(text.as_bytes()) {
            // The first error is the relevant one; otherwise, the next start removes the
            // partial line.
            let _ = self
                .file
                .set_len(self.len)
                .and_then(|()| self.file.seek(SeekFrom::Start(self.len)));
            return Err(error);
        }
        self.len += text.len() as u64;
        if self.synced.elapsed() >= SYNC_EVERY {
            self.sync()?;
        }
        Ok(())
    }

    /// Makes all rows durable.
    pub fn sync(&mut self) -> io::Result<()> {
        self.synced = Instant::now();
        self.file.sync_data()
    }
}

/// The rows of a journal that another process may be writing.
///
/// # Errors
/// A line other than the last is damaged.
pub fn read(directory: &Dir, name: &str) -> anyhow::Result<Vec<SweepRow>> {
    let shown = directory.path().join(name).display().to_string();
    let mut file = directory.open_read(name).with_context(|| format!("cannot open {shown}"))?;
    Ok(rows(&mut file, &shown)?.0)
}

/// The rows, and their length in bytes. An unfinished last line is skipped.
fn rows(file: &mut File, shown: &str) -> anyhow::Result<(Vec<SweepRow>, u64)> {
    let (mut rows, mut len, mut line) = (Vec::new(), 0, Vec::new());
    let mut reader = io::BufReader::new(file);
    loop {
        line.clear();
        let read = (&mut reader)
            .take(LINE_BYTES_MAX + 1)
            .read_until(b'\n', &mut line)
            .with_context(|| format!("cannot read {shown}"))?;
        let wrong = |what: String| {
            let error = UsageError::missing(format!("{shown}, line {}: {what}", rows.len() + 1));
            error.hint("remove that line; the next 'sweep run' repeats its cell")
        };
        if read as u64 > LINE_BYTES_MAX {
            return Err(wrong(format!("it is longer than {LINE_BYTES_MAX} bytes")).into());
        }
        if line.last() != Some(&b'\n') {
            return Ok((rows, len));
        }
        match row(&line) {
            Some(row) => rows.push(row),
            None => return Err(wrong("it is damaged".to_owned()).into()),
        }
        len += read as u64;
    }
}

fn row(line: &[u8]) -> Option<SweepRow> {
    let (sum, json) = std::str::from_utf8(line).ok()?.trim_end_matches('\n').split_once(' ')?;
    if u32::from_str_radix(sum, 16).ok()? != crc32(json.as_bytes()) {
        return None;
    }
    serde_json::from_str(json).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use trimtab_study::sweep::table::CellOutcome;

    fn some(cell: u64) -> SweepRow {
        let figures = BTreeMap::from([
            ("waf_ratio".to_owned(), 1.0 / 3.0 + cell as f64),
            ("small".to_owned(), 5e-324),
        ]);
        let outcome = if cell.is_multiple_of(2) {
            CellOutcome::Finished {
                figures,
                large_counters: Default::default(),
                warnings: vec!["w".into()],
            }
        } else {
            CellOutcome::Failed("no\n\"room\"".into())
        };
        SweepRow { cell, id: format!("id{cell}"), outcome }
    }

    #[test]
    fn open_returns_put_rows_and_removes_torn_end() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = Dir::open(scratch.path()).unwrap();
        let all: Vec<SweepRow> = (0..10).map(some).collect();
        let (mut journal, found) = SweepJournal::open(&directory, "j").unwrap();
        assert!(found.is_empty());
        all.iter().for_each(|row| journal.put(row).unwrap());
        assert!(
            SweepJournal::open(&directory, "j")
                .unwrap_err()
                .to_string()
                .contains("another process")
        );
        drop(journal);
        let path = scratch.path().join("j");
        let whole = std::fs::read(&path).unwrap();
        // After any truncation, complete rows remain and new rows follow.
        for cut in (0..=whole.len()).step_by(17) {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let (mut journal, found) = SweepJournal::open(&directory, "j").unwrap();
            assert_eq!(found, all[..found.len()], "{cut}");
            assert_eq!(found.len(), whole[..cut].iter().filter(|byte| **byte == b'\n').count());
            journal.put(&some(77)).unwrap();
            drop(journal);
            assert_eq!(read(&directory, "j").unwrap().last(), Some(&some(77)));
        }
    }

    #[test]
    fn journal_without_lines_is_refused_at_a_limit() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = Dir::open(scratch.path()).unwrap();
        File::create(scratch.path().join("j")).unwrap().set_len(3 << 40).unwrap();
        for error in
            [read(&directory, "j").unwrap_err(), SweepJournal::open(&directory, "j").unwrap_err()]
        {
            assert!(
                error.to_string().contains("line 1: it is longer than 67108864 bytes"),
                "{error}"
            );
        }
    }

    #[test]
    fn read_of_damaged_line_names_it() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = Dir::open(scratch.path()).unwrap();
        let (mut journal, _) = SweepJournal::open(&directory, "j").unwrap();
        (0..4).for_each(|cell| journal.put(&some(cell)).unwrap());
        drop(journal);
        let path = scratch.path().join("j");
        let whole = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, whole.replacen("id1", "id7", 1)).unwrap();
        let error = read(&directory, "j").unwrap_err().to_string();
        assert!(error.contains("line 2: it is damaged"), "{error}");
    }
}
