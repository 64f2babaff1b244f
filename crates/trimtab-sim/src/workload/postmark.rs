//! PostMark 1.5x (Katcher, NetApp TR-3022, 1997): transactions on many small files.
//!
//! Every operation, name, size and byte follows from the settings, with the original's
//! order of random draws (see `stream`), so published counts are reproduced exactly.

mod figures;
pub mod mt19937;
mod stream;
mod table;
mod text;
mod tries;

pub use figures::metrics;
pub use stream::{Leftover, Postmark, phase};
pub use tries::RepeatedPostmark;

use crate::run::Field;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use trimtab_drive::units::{Bytes, Nanos};

/// Maximum files: the table has twice as many slots, in 31 bits as in the original.
pub const NUMBER_MAX: u32 = (1 << 30) - 1;
/// Maximum of the other settings: 32-bit signed in the original.
pub const SETTING_MAX: u32 = i32::MAX as u32;

/// PostMark settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostmarkSettings {
    /// Minimum size of a new file in bytes.
    pub size_low: u32,
    /// New files are below this size (or equal if it equals `size_low`); appends stop at
    /// it.
    pub size_high: u32,
    /// Files created before the transactions.
    pub number: u32,
    /// Transactions: each reads or appends to a file, then creates or deletes one.
    pub transactions: u32,
    /// Seed.
    pub seed: u32,
    /// One weight per location; with fewer than two, all files share one.
    pub weights: Vec<u32>,
    /// Subdirectories per location; effective from 2.
    pub subdirectories: u32,
    /// Bytes per read call.
    pub read_block: u32,
    /// Bytes per write call.
    pub write_block: u32,
    /// Use a 4096-byte buffer like the C library's; otherwise one call per block.
    pub buffering: bool,
    /// Tenths of transactions that read instead of append; `None` disables both.
    pub bias_read: Option<u8>,
    /// Tenths of transactions that create instead of delete; `None` disables both.
    pub bias_create: Option<u8>,
    /// Minimum interval between transaction starts; `None` for no limit.
    pub interval: Option<Nanos>,
}

impl Default for PostmarkSettings {
    fn default() -> Self {
        Self {
            size_low: 500,
            size_high: 10_000,
            number: 500,
            transactions: 500,
            seed: 42,
            weights: Vec::new(),
            subdirectories: 0,
            read_block: 512,
            write_block: 512,
            buffering: true,
            bias_read: Some(5),
            bias_create: Some(5),
            interval: None,
        }
    }
}

/// Reason for refusing settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostmarkSettingsError {
    /// A setting is outside its range.
    #[error("{setting} must be {least} to {most}, not {value}")]
    Range {
        /// Setting.
        setting: &'static str,
        /// Value.
        value: u64,
        /// Minimum.
        least: u32,
        /// Maximum.
        most: u32,
    },
    /// The size bounds are reversed.
    #[error("the low size bound {low} is above the high one {high}")]
    Sizes {
        /// Low bound.
        low: u32,
        /// High bound.
        high: u32,
    },
    /// The text or the table does not fit into memory.
    #[error(
        "cannot get {0} of memory for the text pool and the table of files; use \
            fewer or smaller files"
    )]
    Memory(Bytes),
}

impl PostmarkSettings {
    /// Settings of the published Mac OS X results: 10,000 files of 500 bytes to 100 kB,
    /// 20,000 transactions, 4 KiB blocks, unbuffered.
    #[must_use]
    pub fn published() -> Self {
        Self {
            size_low: 500,
            size_high: 100_000,
            number: 10_000,
            transactions: 20_000,
            read_block: 4096,
            write_block: 4096,
            buffering: false,
            ..Self::default()
        }
    }

    /// Validates the settings.
    pub fn check(&self) -> Result<(), PostmarkSettingsError> {
        let range = |setting, value: u64, least: u32, most: u32| {
            let within = (u64::from(least)..=u64::from(most)).contains(&value);
            if within {
                Ok(())
            } else {
                Err(PostmarkSettingsError::Range { setting, value, least, most })
            }
        };
        for (setting, value) in [
            ("the low size bound", self.size_low),
            ("the high size bound", self.size_high),
            ("the number of transactions", self.transactions),
            ("the seed", self.seed),
            ("the read block size", self.read_block),
            ("the write block size", self.write_block),
        ] {
            range(setting, value.into(), 1, SETTING_MAX)?;
        }
        range("the number of files", self.number.into(), 1, NUMBER_MAX)?;
        range("the number of subdirectories", self.subdirectories.into(), 0, SETTING_MAX)?;
        for bias in [self.bias_read, self.bias_create].into_iter().flatten() {
            range("a bias", bias.into(), 0, 10)?;
        }
        for weight in &self.weights {
            range("the weight of a location", u64::from(*weight), 1, SETTING_MAX)?;
        }
        if self.weights.len() > 1 {
            let sum = self.weights.iter().map(|weight| u64::from(*weight)).sum();
            range("the sum of the locations' weights", sum, 1, SETTING_MAX)?;
            let places = (self.weights.len() as u64).saturating_mul(self.subdirectories.into());
            range("locations times subdirectories", places, 0, SETTING_MAX)?;
        }
        if self.size_low > self.size_high {
            return Err(PostmarkSettingsError::Sizes { low: self.size_low, high: self.size_high });
        }
        Ok(())
    }

    /// Maximum memory of a run: the table of files, twice during planning, and the text.
    #[must_use]
    pub const fn memory(&self) -> Bytes {
        Bytes(4 * self.number as u64 * size_of::<table::FileSlot>() as u64 + self.size_high as u64)
    }

    /// Settings as fields, for results.
    #[must_use]
    pub fn fields(&self) -> Vec<Field> {
        let bias =
            |bias: Option<u8>| bias.map_or_else(|| String::from("-1"), |bias| bias.to_string());
        let mut fields = Vec::from([
            Field::new("size.low_bytes", self.size_low.to_string()),
            Field::new("size.high_bytes", self.size_high.to_string()),
            Field::new("number", self.number.to_string()),
            Field::new("transactions", self.transactions.to_string()),
            Field::new("subdirectories", self.subdirectories.to_string()),
            Field::new("read_block_bytes", self.read_block.to_string()),
            Field::new("write_block_bytes", self.write_block.to_string()),
            Field::new("buffering", self.buffering.to_string()),
            Field::new("bias.read", bias(self.bias_read)),
            Field::new("bias.create", bias(self.bias_create)),
        ]);
        if self.weights.len() > 1 {
            let weights: Vec<String> = self.weights.iter().map(ToString::to_string).collect();
            fields.push(Field::new("location_weights", weights.join(":")));
        }
        if let Some(interval) = self.interval {
            fields.push(Field::new("transaction_interval_ns", interval.0.to_string()));
        }
        fields
    }
}

/// Counts of a run so far.
///
/// An operation counts from the moment it is handed out, so one that fails counts too.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PostmarkCounts {
    /// Files created.
    pub created: u32,
    /// Files created before the transactions.
    pub created_alone: u32,
    /// Files read.
    pub read: u32,
    /// Files appended to.
    pub appended: u32,
    /// Files deleted.
    pub deleted: u32,
    /// Files deleted by transactions.
    pub deleted_mixed: u32,
    /// Completed transactions.
    pub transactions: u32,
    /// The transactions ended early because no file was left.
    pub out_of_files: bool,
    /// Bytes read.
    pub bytes_read: Bytes,
    /// Bytes written.
    pub bytes_written: Bytes,
    /// Bytes read as the original counts them: in single precision, which drifts above 16
    /// MiB.
    pub bytes_read_single: f32,
    /// Bytes written as the original counts them.
    pub bytes_written_single: f32,
    /// Maximum bytes held by the files.
    pub bytes_held_max: Bytes,
    /// Bytes held by the files now.
    pub bytes_held: Bytes,
    /// Random numbers drawn, including those of the text pool.
    pub draws: u64,
}

impl PostmarkCounts {
    /// Files created by transactions.
    #[must_use]
    pub const fn created_mixed(&self) -> u32 {
        self.created - self.created_alone
    }

    /// Files deleted after the transactions.
    #[must_use]
    pub const fn deleted_alone(&self) -> u32 {
        self.deleted - self.deleted_mixed
    }

    fn add_read(&mut self, bytes: u32) {
        self.read += 1;
        self.bytes_read += Bytes(bytes.into());
        self.bytes_read_single += bytes as f32;
    }

    fn add_written(&mut self, bytes: u32) {
        self.bytes_written += Bytes(bytes.into());
        self.bytes_written_single += bytes as f32;
        self.bytes_held += Bytes(bytes.into());
        self.bytes_held_max = self.bytes_held_max.max(self.bytes_held);
    }
}
