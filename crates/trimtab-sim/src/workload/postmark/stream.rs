//! Operations of a PostMark run, in the original's order of draws.

use super::mt19937::Mt19937;
use super::table::{FileSlot, FileTable};
use super::text::Text;
use super::{PostmarkCounts, PostmarkSettings, PostmarkSettingsError};
use crate::op::{FileOp, Payload};
use crate::workload::{FileStep, FileWorkload, WorkloadPlan};
use alloc::string::String;
use alloc::sync::Arc;
use trimtab_drive::data::DataClass;
use trimtab_drive::units::{Bytes, Nanos};

/// Phase names. Published times are those of `CREATE`, `TRANSACTIONS` and `DELETE`.
pub mod phase {
    /// Creating the directories, if any.
    pub const MAKE_DIRS: &str = "make-directories";
    /// Creating the files.
    pub const CREATE: &str = "create";
    /// The transactions.
    pub const TRANSACTIONS: &str = "transactions";
    /// Deleting the remaining files.
    pub const DELETE: &str = "delete";
    /// Removing the directories.
    pub const REMOVE_DIRS: &str = "remove-directories";
}

/// A PostMark run.
///
/// Files are named by a running number, in `l<location>/` with several locations and
/// `s<subdirectory>/` with several subdirectories.
#[derive(Clone, Debug)]
pub struct Postmark {
    text: Arc<Text>,
    decisions: Decisions,
    /// Last decision and its path.
    current: Option<Decision>,
    path: String,
}

impl Postmark {
    /// Validates `settings` and creates a run.
    pub fn new(settings: &PostmarkSettings) -> Result<Self, PostmarkSettingsError> {
        settings.check()?;
        let mut rng = Mt19937::new(settings.seed);
        let text = Arc::new(Text::new(settings, &mut rng)?);
        Ok(Self {
            text,
            decisions: Decisions::new(settings, rng)?,
            current: None,
            path: String::new(),
        })
    }

    /// The location directories `l0`, `l1` … exist and are neither created nor removed.
    #[must_use]
    pub fn in_existing_locations(mut self) -> Self {
        self.decisions.make_locations = false;
        self
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &PostmarkSettings {
        &self.decisions.settings
    }

    /// Counts so far.
    #[must_use]
    pub fn counts(&self) -> PostmarkCounts {
        PostmarkCounts { draws: self.decisions.rng.taken(), ..self.decisions.counts }
    }

    /// Completed transactions: all operations handed out and followed by another step.
    #[must_use]
    pub const fn transactions_finished(&self) -> u32 {
        self.decisions.counts.transactions
    }

    /// Decides the next step; false at the end.
    #[inline]
    pub fn advance(&mut self) -> bool {
        let Self { decisions, current, path, .. } = self;
        *current = decisions.next();
        match current {
            Some(Decision::MakeDir(at) | Decision::RemoveDir(at)) => {
                decisions.write_dir_path(*at, path)
            }
            Some(
                Decision::Create(slot)
                | Decision::Append(slot, _)
                | Decision::Read(slot)
                | Decision::Delete(slot),
            ) => {
                decisions.write_file_path(*slot, path);
            }
            Some(Decision::Phase(_) | Decision::NotBefore(_)) | None => {}
        }
        current.is_some()
    }

    /// True if the last step begins a phase.
    #[must_use]
    pub const fn at_phase(&self) -> bool {
        matches!(self.current, Some(Decision::Phase(_)))
    }

    /// The last step.
    #[inline]
    #[must_use]
    pub fn current(&self) -> Option<FileStep<'_>> {
        let path = &self.path;
        let data =
            |len: u32| Payload::Bytes { bytes: self.text.prefix(len), class: DataClass::Text };
        Some(FileStep::Op(match self.current? {
            Decision::Phase(name) => return Some(FileStep::Phase(name)),
            Decision::NotBefore(due) => return Some(FileStep::NotBefore(due)),
            Decision::MakeDir(_) => FileOp::MakeDir(path),
            Decision::RemoveDir(_) => FileOp::RemoveDir(path),
            Decision::Create(slot) => FileOp::Create(path, data(slot.size)),
            Decision::Append(_, amount) => FileOp::Append(path, data(amount)),
            Decision::Read(slot) => FileOp::Read(path, slot.size.into()),
            Decision::Delete(_) => FileOp::Delete(path),
        }))
    }

    /// Calls `each` with every path that may exist if the run ends now: files, then
    /// directories upwards.
    pub fn for_each_leftover(&self, mut each: impl FnMut(Leftover<'_>)) {
        let decisions = &self.decisions;
        let mut path = String::new();
        for slot in decisions
            .table
            .slots()
            .iter()
            .chain(&decisions.last_removed)
            .filter(|slot| slot.size != 0)
        {
            decisions.write_file_path(*slot, &mut path);
            each(Leftover::File(&path));
        }
        for at in (0..decisions.dirs_len()).rev() {
            decisions.write_dir_path(at, &mut path);
            each(Leftover::Dir(&path));
        }
    }
}

/// A path that a run may leave behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftover<'a> {
    /// A file.
    File(&'a str),
    /// A directory.
    Dir(&'a str),
}

/// Space of a directory on most filesystems: one block.
const DIR_BYTES: u64 = 4096;

impl FileWorkload for Postmark {
    /// Exact: decides the whole run in advance, without data.
    fn plan(&self) -> WorkloadPlan {
        let mut rehearsal = self.decisions.clone();
        let mut ops = 0;
        while let Some(decision) = rehearsal.next() {
            ops += u64::from(!matches!(decision, Decision::Phase(_) | Decision::NotBefore(_)));
        }
        let dirs = Bytes(u64::from(self.decisions.dirs_len()).saturating_mul(DIR_BYTES));
        let counts = &rehearsal.counts;
        WorkloadPlan {
            written: counts.bytes_written.saturating_add(dirs),
            space: counts.bytes_held_max.saturating_add(dirs),
            ops: Some(ops),
        }
    }

    #[inline]
    fn next_step(&mut self) -> Option<FileStep<'_>> {
        if self.advance() { self.current() } else { None }
    }
}

/// The next step without path and data.
#[derive(Clone, Copy, Debug)]
enum Decision {
    Phase(&'static str),
    NotBefore(Nanos),
    /// Directory by index: locations first, then subdirectories.
    MakeDir(u32),
    RemoveDir(u32),
    Create(FileSlot),
    Append(FileSlot, u32),
    Read(FileSlot),
    Delete(FileSlot),
}

#[derive(Clone, Copy, Debug)]
enum PostmarkStage {
    Begin,
    MakeDirs(u32),
    Create,
    /// Before a transaction: checks for files and waits for the due time.
    Transaction {
        waited: bool,
    },
    /// Read or append.
    FirstHalf,
    /// Create or delete.
    SecondHalf,
    /// After a transaction.
    Finished,
    Delete(usize),
    /// Directories left to remove; none at the end.
    RemoveDirs(u32),
}

/// Decisions of a run, without the text.
#[derive(Clone, Debug)]
struct Decisions {
    settings: PostmarkSettings,
    rng: Mt19937,
    table: FileTable,
    counts: PostmarkCounts,
    stage: PostmarkStage,
    make_locations: bool,
    weights_sum: u32,
    /// File last handed out for deletion, which may still exist.
    last_removed: Option<FileSlot>,
}

impl Decisions {
    fn new(settings: &PostmarkSettings, rng: Mt19937) -> Result<Self, PostmarkSettingsError> {
        Ok(Self {
            rng,
            table: FileTable::new(settings.number)?,
            counts: PostmarkCounts::default(),
            stage: PostmarkStage::Begin,
            make_locations: true,
            weights_sum: settings
                .weights
                .iter()
                .fold(0, |sum: u32, weight| sum.saturating_add(*weight)),
            last_removed: None,
            settings: settings.clone(),
        })
    }

    fn next(&mut self) -> Option<Decision> {
        loop {
            let (decision, next) = match self.stage {
                PostmarkStage::Begin if self.dirs_len() > 0 => {
                    (Decision::Phase(phase::MAKE_DIRS), PostmarkStage::MakeDirs(0))
                }
                PostmarkStage::MakeDirs(at) if at < self.dirs_len() => {
                    (Decision::MakeDir(at), PostmarkStage::MakeDirs(at + 1))
                }
                PostmarkStage::Begin | PostmarkStage::MakeDirs(_) => {
                    (Decision::Phase(phase::CREATE), PostmarkStage::Create)
                }
                PostmarkStage::Create if self.counts.created < self.settings.number => {
                    let created = self.create();
                    self.counts.created_alone = self.counts.created;
                    return created;
                }
                PostmarkStage::Create => (
                    Decision::Phase(phase::TRANSACTIONS),
                    PostmarkStage::Transaction { waited: false },
                ),
                PostmarkStage::RemoveDirs(0) => return None,
                PostmarkStage::RemoveDirs(left) => (
                    Decision::RemoveDir(self.removal_order(left - 1)),
                    PostmarkStage::RemoveDirs(left - 1),
                ),
                stage => {
                    let next = if let PostmarkStage::Delete(from) = stage {
                        self.next_in_sweep(from)
                    } else {
                        self.next_in_transaction()
                    };
                    match next {
                        None => continue,
                        decision => return decision,
                    }
                }
            };
            self.stage = next;
            return Some(decision);
        }
    }

    fn next_in_transaction(&mut self) -> Option<Decision> {
        match self.stage {
            PostmarkStage::Transaction { waited } => {
                self.counts.out_of_files = self.counts.transactions < self.settings.transactions
                    && self.counts.created == self.counts.deleted;
                if self.counts.out_of_files
                    || self.counts.transactions == self.settings.transactions
                {
                    self.counts.deleted_mixed = self.counts.deleted;
                    self.stage = PostmarkStage::Delete(0);
                    return Some(Decision::Phase(phase::DELETE));
                }
                if let (Some(interval), false) = (self.settings.interval, waited) {
                    self.stage = PostmarkStage::Transaction { waited: true };
                    return Some(Decision::NotBefore(Nanos(
                        interval.0.saturating_mul(self.counts.transactions.into()),
                    )));
                }
                self.stage = PostmarkStage::FirstHalf;
                None
            }
            PostmarkStage::FirstHalf => {
                self.stage = PostmarkStage::SecondHalf;
                let bias = self.settings.bias_read?;
                if self.rng.below(10) < bias.into() { Some(self.read()) } else { self.append() }
            }
            PostmarkStage::SecondHalf => {
                self.stage = PostmarkStage::Finished;
                let bias = self.settings.bias_create?;
                if self.rng.below(10) < bias.into() {
                    self.create()
                } else {
                    let slot = self.table.remove_picked(&mut self.rng);
                    Some(self.deleted(slot))
                }
            }
            _ => {
                self.counts.transactions += 1;
                self.stage = PostmarkStage::Transaction { waited: false };
                None
            }
        }
    }

    /// Final deletion of all files, from slot `from`.
    fn next_in_sweep(&mut self, from: usize) -> Option<Decision> {
        match self.table.slots()[from..].iter().position(|slot| slot.size != 0) {
            Some(ahead) => {
                self.stage = PostmarkStage::Delete(from + ahead + 1);
                let slot = self.table.remove(from + ahead);
                Some(self.deleted(slot))
            }
            None => {
                self.stage = PostmarkStage::RemoveDirs(self.dirs_len());
                (self.dirs_len() > 0).then_some(Decision::Phase(phase::REMOVE_DIRS))
            }
        }
    }

    /// Draws location, subdirectory and size where there is a choice, if a slot is free.
    fn create(&mut self) -> Option<Decision> {
        let Self { settings, rng, table, counts, weights_sum, .. } = self;
        let slot = table.take_free()?;
        let subdirectories = settings.subdirectories;
        let mut place = 0;
        if settings.weights.len() > 1 {
            let location = pick_location(&settings.weights, rng.below(*weights_sum));
            place = location * subdirectories.max(1);
        }
        if subdirectories > 1 {
            place += rng.below(subdirectories);
        }
        let size = settings.size_low + rng.below(settings.size_high - settings.size_low);
        counts.created += 1;
        *slot = FileSlot { size, number: counts.created, place };
        counts.add_written(size);
        Some(Decision::Create(*slot))
    }

    /// Draws the file. Counts its known size.
    fn read(&mut self) -> Decision {
        let slot = *self.table.pick(&mut self.rng);
        self.counts.add_read(slot.size);
        Decision::Read(slot)
    }

    /// Draws the file, then the amount; skips files of maximum size.
    fn append(&mut self) -> Option<Decision> {
        let slot = self.table.pick(&mut self.rng);
        if slot.size >= self.settings.size_high {
            return None;
        }
        let amount = 1 + self.rng.below(self.settings.size_high - slot.size);
        let before = *slot;
        slot.size += amount;
        self.counts.appended += 1;
        self.counts.add_written(amount);
        Some(Decision::Append(before, amount))
    }

    fn deleted(&mut self, slot: FileSlot) -> Decision {
        self.counts.deleted += 1;
        self.counts.bytes_held =
            self.counts.bytes_held.saturating_sub(trimtab_drive::units::Bytes(slot.size.into()));
        self.last_removed = Some(slot);
        Decision::Delete(slot)
    }

    /// Number of locations with their own directory.
    fn locations_len(&self) -> u32 {
        match self.settings.weights.len() {
            0 | 1 => 1,
            several => several as u32,
        }
    }

    fn made_locations(&self) -> u32 {
        if self.make_locations && self.settings.weights.len() > 1 {
            self.locations_len()
        } else {
            0
        }
    }

    fn subdirs_len(&self) -> u32 {
        if self.settings.subdirectories > 1 {
            self.settings.subdirectories * self.locations_len()
        } else {
            0
        }
    }

    /// Number of created directories: locations, then subdirectories.
    fn dirs_len(&self) -> u32 {
        self.made_locations() + self.subdirs_len()
    }

    /// Subdirectories are removed in order of creation, then the locations.
    fn removal_order(&self, left: u32) -> u32 {
        let done = self.dirs_len() - 1 - left;
        if done < self.subdirs_len() {
            self.made_locations() + done
        } else {
            done - self.subdirs_len()
        }
    }

    fn write_dir_path(&self, at: u32, path: &mut String) {
        path.clear();
        let made_locations = self.made_locations();
        if at < made_locations {
            path.push('l');
            push_number(path, at);
        } else {
            self.push_place(at - made_locations, path);
            path.pop();
        }
    }

    fn write_file_path(&self, slot: FileSlot, path: &mut String) {
        path.clear();
        self.push_place(slot.place, path);
        push_number(path, slot.number);
    }

    /// Appends the directory of `place`, with a slash after each component.
    fn push_place(&self, place: u32, path: &mut String) {
        let subdirectories = self.settings.subdirectories.max(1);
        if self.settings.weights.len() > 1 {
            path.push('l');
            push_number(path, place / subdirectories);
            path.push('/');
        }
        if subdirectories > 1 {
            path.push('s');
            push_number(path, place % subdirectories);
            path.push('/');
        }
    }
}

/// Location selected by `draw` in proportion to the weights.
fn pick_location(weights: &[u32], draw: u32) -> u32 {
    let mut left = draw;
    for (location, weight) in weights.iter().enumerate() {
        if left < *weight {
            return location as u32;
        }
        left -= weight;
    }
    0
}

/// Appends decimal digits without the formatting machinery: part of the measured loop.
fn push_number(path: &mut String, number: u32) {
    let mut digits = [0_u8; 10];
    let mut at = digits.len();
    let mut left = number;
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    path.extend(digits[at..].iter().map(|digit| *digit as char));
}

#[cfg(test)]
mod tests;
