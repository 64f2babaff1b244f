//! Settings of a PostMark session: their `set` commands and `show`.

use super::classic::setting_size;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use trimtab_sim::workload::postmark::{NUMBER_MAX, PostmarkSettings};

/// A directory for files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// As the user wrote it, in the bytes of the filesystem.
    pub path: Vec<u8>,
    /// Relative probability of getting a file.
    pub weight: u32,
}

impl Location {
    /// The path.
    pub fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.path))
    }
}

/// Format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostmarkReportFormat {
    /// Fourteen lines.
    Verbose,
    /// One line of thirteen numbers.
    Terse,
}

/// All settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostmarkConfig {
    /// The workload; its weights come from `locations` when a run starts.
    pub settings: PostmarkSettings,
    /// Directories for files; empty for the current directory.
    pub locations: Vec<Location>,
    /// Format of the report.
    pub format: PostmarkReportFormat,
}

impl Default for PostmarkConfig {
    fn default() -> Self {
        Self {
            settings: PostmarkSettings::default(),
            locations: Vec::new(),
            format: PostmarkReportFormat::Verbose,
        }
    }
}

/// An error in an argument, as one line for standard error.
pub type Complaint = String;

impl PostmarkConfig {
    /// Executes `set SETTING ARGUMENT` for a setting of the command table. A wrong
    /// argument keeps the old value, except that a wrong weight counts as 1.
    pub fn set(&mut self, setting: &str, argument: Option<&[u8]>) -> Result<(), Complaint> {
        let settings = &mut self.settings;
        match setting {
            "size" => (settings.size_low, settings.size_high) = sizes(argument)?,
            "number" => settings.number = positive(argument, "a number of files", NUMBER_MAX)?,
            "seed" => settings.seed = positive(argument, "a seed", MOST)?,
            "transactions" => {
                settings.transactions = positive(argument, "a number of transactions", MOST)?
            }
            "subdirectories" => {
                settings.subdirectories = positive(argument, "a number of subdirectories", MOST)?
            }
            "read" => settings.read_block = positive(argument, "a read block size in bytes", MOST)?,
            "write" => {
                settings.write_block = positive(argument, "a write block size in bytes", MOST)?
            }
            "buffering" => {
                settings.buffering = word(argument, &[("true", true), ("false", false)])?
            }
            "bias read" => settings.bias_read = bias(argument)?,
            "bias create" => settings.bias_create = bias(argument)?,
            "report" => {
                self.format = word(
                    argument,
                    &[
                        ("verbose", PostmarkReportFormat::Verbose),
                        ("terse", PostmarkReportFormat::Terse),
                    ],
                )?
            }
            _ => return self.set_location(argument),
        }
        Ok(())
    }

    fn set_location(&mut self, argument: Option<&[u8]>) -> Result<(), Complaint> {
        let Some(argument) = argument else {
            return Err("no directory given; 'set location PATH [WEIGHT]'".into());
        };
        if let Some(path) = argument.strip_prefix(b"-") {
            let Some(at) = self.locations.iter().position(|location| location.path == path) else {
                return Err(format!("no location '{}' to remove", path.escape_ascii()));
            };
            self.locations.remove(at);
            return Ok(());
        }
        let added = argument.strip_prefix(b"+");
        let (path, weight) = split_weight(added.unwrap_or(argument));
        if path.is_empty() {
            return Err("the directory's name is empty".into());
        }
        if added.is_none() {
            self.locations.clear();
        }
        let right = weight
            .map_or(Some(1), |text| u32::try_from(atoi(text)).ok().filter(|weight| *weight > 0));
        self.locations.push(Location { path: path.to_vec(), weight: right.unwrap_or(1) });
        match (right, weight) {
            (None, Some(text)) => Err(format!(
                "weight '{}' is not a number above 0; counted as 1",
                text.escape_ascii()
            )),
            _ => Ok(()),
        }
    }

    /// The current directory, or the first location.
    pub fn first_location(&self) -> &Path {
        self.locations.first().map_or(Path::new("."), Location::path)
    }

    /// The settings of a run, with the locations' weights.
    pub fn run_settings(&self) -> PostmarkSettings {
        PostmarkSettings {
            weights: self.locations.iter().map(|location| location.weight).collect(),
            ..self.settings.clone()
        }
    }

    /// The output of `show` in three parts: up to the line that announces the locations,
    /// the locations, the rest. The original prints the locations to standard output even
    /// if the rest goes to a file.
    pub fn show(&self) -> io::Result<[Vec<u8>; 3]> {
        let settings = &self.settings;
        let (mut head, mut locations, mut tail) = (Vec::new(), Vec::new(), Vec::new());
        writeln!(head, "Current configuration is:")?;
        writeln!(head, "The base number of files is {}", settings.number)?;
        writeln!(head, "Transactions: {}", settings.transactions)?;
        let (low, high) = (setting_size(settings.size_low), setting_size(settings.size_high));
        if settings.size_low == settings.size_high {
            writeln!(head, "Files are {low} in size")?;
        } else {
            writeln!(head, "Files range between {low} and {high} in size")?;
        }
        match self.locations.len() {
            0 => {
                head.extend_from_slice(b"Working directory: ");
                head.extend_from_slice(std::env::current_dir()?.as_os_str().as_bytes());
                head.push(b'\n');
            }
            1 => head.extend_from_slice(b"Working directory: \n"),
            _ => head.extend_from_slice(b"Working directories: \n"),
        }
        for location in &self.locations {
            locations.push(b'\t');
            locations.extend_from_slice(&location.path);
            writeln!(locations, " (weight={})", location.weight)?;
        }
        match settings.subdirectories {
            0 => {}
            1 => writeln!(tail, "1 subdirectory will be used")?,
            several => writeln!(tail, "{several} subdirectories will be used")?,
        }
        writeln!(
            tail,
            "Block sizes are: read={}, write={}",
            setting_size(settings.read_block),
            setting_size(settings.write_block)
        )?;
        let bias = |bias: Option<u8>| bias.map_or(-1, i32::from);
        writeln!(
            tail,
            "Biases are: read/append={}, create/delete={}",
            bias(settings.bias_read),
            bias(settings.bias_create)
        )?;
        writeln!(
            tail,
            "{} Unix buffered file I/O",
            if settings.buffering { "Using" } else { "Not using" }
        )?;
        writeln!(tail, "Random number generator seed is {}", settings.seed)?;
        writeln!(
            tail,
            "Report format is {}.",
            if self.format == PostmarkReportFormat::Verbose { "verbose" } else { "terse" }
        )?;
        Ok([head, locations, tail])
    }
}

const MOST: u32 = i32::MAX as u32;

/// Parses a number like C's `atoi` on 64-bit Linux: blanks, a sign, digits, the rest
/// ignored; as 64 bits, truncated to 32.
pub fn atoi(text: &[u8]) -> i32 {
    let start = text.iter().position(|c| !matches!(c, b' ' | 0x09..=0x0d)).unwrap_or(text.len());
    let text = &text[start..];
    let (negative, digits) = match text.first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let mut value = 0_i64;
    for digit in digits.iter().take_while(|c| c.is_ascii_digit()) {
        let digit = i64::from(digit - b'0');
        value = value.saturating_mul(10);
        value = if negative { value.saturating_sub(digit) } else { value.saturating_add(digit) };
    }
    // Truncated to 32 bits, like the conversion from long to int.
    value as i32
}

fn positive(argument: Option<&[u8]>, what: &str, most: u32) -> Result<u32, Complaint> {
    let text = argument.unwrap_or_default();
    u32::try_from(atoi(text)).ok().filter(|value| (1..=most).contains(value)).ok_or_else(|| {
        match argument {
            None => format!("{what} is missing"),
            Some(_) => format!("'{}' is not {what} (1 to {most})", text.escape_ascii()),
        }
    })
}

fn bias(argument: Option<&[u8]>) -> Result<Option<u8>, Complaint> {
    let wrong = "a bias is 0 (never the first kind) to 10 (always), or -1 (neither kind)";
    match argument.map(atoi) {
        Some(-1) => Ok(None),
        Some(value @ 0..=10) => Ok(Some(value as u8)),
        _ => Err(wrong.into()),
    }
}

fn word<T: Copy>(argument: Option<&[u8]>, words: &[(&str, T)]) -> Result<T, Complaint> {
    let text = argument.unwrap_or_default();
    words.iter().find(|(word, _)| word.as_bytes() == text).map(|(_, value)| *value).ok_or_else(
        || {
            let names: Vec<String> = words.iter().map(|(word, _)| format!("'{word}'")).collect();
            format!("expected {}, not '{}'", names.join(" or "), text.escape_ascii())
        },
    )
}

/// Low and high; high follows the first blank, or equals low if that is not a number of
/// at least low.
fn sizes(argument: Option<&[u8]>) -> Result<(u32, u32), Complaint> {
    let low = positive(argument, "a low size bound in bytes", MOST)?;
    let text = argument.unwrap_or_default();
    let high = text.iter().position(|c| *c == b' ').map(|blank| atoi(&text[blank + 1..]));
    let high = high.and_then(|high| u32::try_from(high).ok()).unwrap_or(low).max(low);
    Ok((low, high))
}

/// The path, and the text after the last blank, if any.
fn split_weight(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    match text.iter().rposition(|c| *c == b' ') {
        Some(blank) => (&text[..blank], Some(&text[blank + 1..])),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn atoi_parses_like_c() {
        for (text, value) in [
            ("12abc", 12),
            ("07", 7),
            ("0x10", 0),
            ("", 0),
            (" \t-5", -5),
            ("+3", 3),
            ("+-3", 0),
            ("4294967338", 42),
            ("2147483648", i32::MIN),
            ("99999999999999999999", -1),
            ("-99999999999999999999", 0),
        ] {
            assert_eq!(atoi(text.as_bytes()), value, "{text}");
        }
    }

    fn after(commands: &[(&str, &str)]) -> PostmarkConfig {
        let mut config = PostmarkConfig::default();
        for (setting, argument) in commands {
            let _ = config.set(setting, Some(argument.as_bytes()));
        }
        config
    }

    #[test]
    fn sizes_take_high_after_first_blank_or_low() {
        for (argument, sizes) in [
            ("500 1000", (500, 1000)),
            (" 500 1000", (500, 500)),
            ("100 50", (100, 100)),
            ("7", (7, 7)),
            ("500\t1000", (500, 500)),
            ("12,5 99", (12, 99)),
            ("5 -3", (5, 5)),
        ] {
            let settings = after(&[("size", argument)]).settings;
            assert_eq!((settings.size_low, settings.size_high), sizes, "{argument}");
        }
        assert!(PostmarkConfig::default().set("size", Some(b"00 600")).is_err());
    }

    #[test]
    fn set_location_replaces_adds_and_removes() {
        let location = |path: &str, weight| Location { path: path.into(), weight };
        let config = after(&[
            ("location", "old"),
            ("location", "a b c 4"),
            ("location", "+d e"),
            ("location", "+d 2"),
        ]);
        assert_eq!(config.locations, [location("a b c", 4), location("d", 1), location("d", 2)]);
        let mut config = config;
        assert!(config.set("location", Some(b"-d 1")).is_err());
        config.set("location", Some(b"-d")).unwrap();
        assert_eq!(config.locations, [location("a b c", 4), location("d", 2)]);
        assert!(config.set("location", Some(b"")).is_err(), "files in the root directory");
        assert!(config.set("location", Some(b"+ ")).is_err());
        assert_eq!(config.locations.len(), 2);
    }

    #[test]
    fn set_wrong_value_keeps_the_old_one() {
        for setting in ["number", "seed", "transactions", "subdirectories", "read", "write"] {
            for argument in [None, Some(&b"0"[..]), Some(b"-1"), Some(b"x"), Some(b"")] {
                let mut config = PostmarkConfig::default();
                assert!(config.set(setting, argument).is_err(), "{setting:?} {argument:?}");
                assert_eq!(config, PostmarkConfig::default());
            }
        }
        for (setting, argument) in [
            ("buffering", "TRUE"),
            ("report", "terse\r"),
            ("bias read", "11"),
            ("bias create", "-2"),
        ] {
            assert_eq!(
                after(&[(setting, argument)]),
                PostmarkConfig::default(),
                "{setting:?} {argument}"
            );
        }
        assert_eq!(
            after(&[("bias create", "abc")]).settings.bias_create,
            Some(0),
            "as the original reads it"
        );
    }

    proptest! {
        #[test]
        fn set_of_any_argument_keeps_config_runnable(commands in prop::collection::vec((0_usize..12, prop::option::of(prop::collection::vec(any::<u8>(), 0..24))), 0..8)) {
            let all = ["size", "number", "seed", "transactions", "location", "subdirectories", "read", "write", "buffering", "bias read", "bias create", "report"];
            let mut config = PostmarkConfig::default();
            for (setting, argument) in &commands {
                let _ = config.set(all[*setting], argument.as_deref());
            }
            prop_assert!(config.settings.check().is_ok());
        }
    }
}
