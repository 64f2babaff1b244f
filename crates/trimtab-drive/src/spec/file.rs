//! Drive files: a specification in TOML, with the source of each value.

use super::source::{Source, SourceKind};
use super::twin::{self, Twin};
use super::{DriveSpec, Flash, Interface};
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use serde::Deserialize;

/// A specification with the sources of its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drive {
    /// The specification.
    pub spec: DriveSpec,
    /// Sources by dotted field name or prefix.
    pub sources: BTreeMap<String, Source>,
    /// Alternative values that fit the known data equally well.
    pub alternatives: Vec<Alternative>,
    /// Twin data, if the drive was learned from measurements of a real drive.
    pub twin: Option<Twin>,
}

/// The same drive with other values for fields that cannot be observed from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alternative {
    /// Reason why these values fit equally well.
    pub because: String,
    /// The specification with the alternative values.
    pub spec: DriveSpec,
}

/// The file as parsed from TOML.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    description: String,
    capacity_bytes: u64,
    #[serde(default = "logical_block_bytes")]
    logical_block_bytes: u32,
    #[serde(default)]
    interface: Interface,
    flash: Flash,
    #[serde(default)]
    sources: BTreeMap<String, String>,
    #[serde(default)]
    uncertain: Vec<AlternativeValues>,
    twin: Option<twin::TwinSection>,
}

/// One combination of alternative values.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AlternativeValues {
    because: String,
    /// Values by dotted field name.
    set: BTreeMap<String, toml::Value>,
}

fn logical_block_bytes() -> u32 {
    512
}

/// Maximum length in bytes of a text shown to the user.
const TEXT_BYTES_MAX: usize = 10_000;

/// Parses a drive file.
///
/// # Errors
/// One line that names the line or the field.
pub fn parse(text: &str) -> Result<Drive, String> {
    let file: File = toml::from_str(text).map_err(|error| {
        let line = error
            .span()
            .map(|span| text.bytes().take(span.start).filter(|byte| *byte == b'\n').count() + 1);
        let message = plain_message(error.message());
        line.map_or_else(|| message.clone(), |line| format!("line {line}: {message}"))
    })?;
    for (place, text) in of_one_line(&file) {
        if text.len() > TEXT_BYTES_MAX {
            return Err(format!("{place} is longer than {TEXT_BYTES_MAX} bytes"));
        }
        if let Some(odd) = text.chars().find(|one| one.is_control()) {
            return Err(format!(
                "{place} contains '{}': it must be one line without control characters",
                odd.escape_debug()
            ));
        }
    }
    if file.twin.as_ref().is_some_and(|twin| !twin::is_date(&twin.origin.learned)) {
        return Err("twin.origin.learned is not a date, such as 2026-11-22".to_owned());
    }
    file.twin.as_ref().map_or(Ok(()), twin::TwinSection::check_size)?;
    let alternatives = alternatives(text, &file)?;
    let sources = file
        .sources
        .iter()
        .map(|(field, text)| Ok((field.clone(), source(field, text)?)))
        .collect::<Result<_, String>>()?;
    let twin = file.twin.as_ref().map(|written| members(text, written)).transpose()?;
    Ok(Drive { spec: spec_of(file)?, sources, alternatives, twin })
}

/// Single-line texts shown to the user, each with its location in the file.
fn of_one_line(file: &File) -> Vec<(String, &str)> {
    let mut all = vec![("description".to_owned(), file.description.as_str())];
    all.extend(
        file.sources.iter().map(|(field, text)| (format!("sources.{field}"), text.as_str())),
    );
    all.extend(
        file.uncertain.iter().map(|one| ("uncertain.because".to_owned(), one.because.as_str())),
    );
    all.extend(
        file.twin.iter().flat_map(|twin| twin.texts().map(|text| ("twin".to_owned(), text))),
    );
    all
}

/// A message of the TOML parser in one line, without names of Rust's types.
pub fn plain_message(message: &str) -> String {
    const TYPES: [(&str, &str); 6] = [
        ("expected u8", "expected a whole number from 0 to 255"),
        ("expected u16", "expected a whole number from 0 to 65535"),
        ("expected u32", "expected a whole number from 0 to 4294967295"),
        ("expected u64", "expected a whole number from 0 to 18446744073709551615"),
        ("expected a sequence", "expected a list"),
        ("expected a map", "expected a table"),
    ];
    let mut message = message.replace('\n', " ").replace(" as i128", "").replace(" as u128", "");
    for (name, words) in TYPES {
        if let Some(start) = message.strip_suffix(name) {
            message = format!("{start}{words}");
        }
    }
    message
}

/// The values in the file, without what it says about them.
fn values(text: &str) -> Result<toml::Table, String> {
    let mut table: toml::Table =
        toml::from_str(text).map_err(|error| plain_message(error.message()))?;
    for part in ["twin", "uncertain", "sources"] {
        table.remove(part);
    }
    Ok(table)
}

/// Parses a changed table as text. Code that reads its values directly would make this
/// crate a quarter larger.
fn file_of(table: &toml::Table) -> Result<File, String> {
    let text = toml::to_string(table).expect("a table of tables is TOML");
    toml::from_str(&text).map_err(|error| plain_message(error.message()))
}

/// Parses the twin section; each member is the file with some values replaced.
fn members(text: &str, written: &twin::TwinSection) -> Result<Twin, String> {
    let table = values(text)?;
    let one = |values: &Vec<toml::Value>| {
        let file = file_of(&written.member(&table, values)?)?;
        spec_of(file)
    };
    let numbered = |(nth, values)| {
        one(values).map_err(|problem| format!("twin.members.values, list {nth}: {problem}"))
    };
    let members =
        (1..).zip(&written.members.values).map(numbered).collect::<Result<Vec<_>, String>>()?;
    Ok(Twin { origin: written.origin.clone(), parameters: written.parameters.clone(), members })
}

const UNCERTAIN_MAX: usize = 100;

/// Builds every alternative listed in the file.
fn alternatives(text: &str, file: &File) -> Result<Vec<Alternative>, String> {
    if file.uncertain.is_empty() {
        return Ok(Vec::new());
    }
    if file.uncertain.len() > UNCERTAIN_MAX {
        return Err(format!(
            "the file has {} [[uncertain]] sections; the maximum is {UNCERTAIN_MAX}",
            file.uncertain.len()
        ));
    }
    let table = values(text)?;
    file.uncertain.iter().map(|one| alternative(table.clone(), one)).collect()
}

/// Applies one alternative to the file's `table`.
fn alternative(
    mut table: toml::Table,
    uncertain: &AlternativeValues,
) -> Result<Alternative, String> {
    let wrong = |field: &str| {
        format!("uncertain.set names {}, which is not a field of the file", shortened(field))
    };
    for (field, value) in &uncertain.set {
        let (path, last) = field.rsplit_once('.').ok_or_else(|| wrong(field))?;
        let mut place = &mut table;
        for part in path.split('.') {
            place = place
                .get_mut(part)
                .and_then(toml::Value::as_table_mut)
                .ok_or_else(|| wrong(field))?;
        }
        place.insert(last.to_owned(), value.clone());
    }
    let file = file_of(&table).map_err(|message| format!("uncertain: {message}"))?;
    Ok(Alternative { because: uncertain.because.clone(), spec: spec_of(file)? })
}

/// Truncates `text` to 60 characters for a message.
fn shortened(text: &str) -> String {
    let short: String = text.chars().take(60).collect();
    if short.len() < text.len() { short + "…" } else { short }
}

fn spec_of(file: File) -> Result<DriveSpec, String> {
    let spec = DriveSpec {
        name: file.name,
        description: file.description,
        capacity_bytes: file.capacity_bytes,
        logical_block_bytes: file.logical_block_bytes,
        interface: file.interface,
        flash: file.flash,
    };
    spec.validate().map_err(|error| error.to_string())?;
    Ok(spec)
}

fn source(field: &str, text: &str) -> Result<Source, String> {
    let wrong = || {
        format!(
            "sources.{field} must begin with 'published:', 'fitted:', 'assumed:' or \
                'measured:', followed by the source"
        )
    };
    let (kind, text) = text.split_once(':').ok_or_else(wrong)?;
    let kind = match kind.trim() {
        "published" => SourceKind::Published,
        "fitted" => SourceKind::Fitted,
        "assumed" => SourceKind::Assumed,
        "measured" => SourceKind::Measured,
        _ => return Err(wrong()),
    };
    let text = text.trim();
    if text.is_empty() { Err(wrong()) } else { Ok(Source { kind, text: text.to_owned() }) }
}

impl Drive {
    /// Source of a dotted field: the entry with the longest matching prefix.
    pub fn source_of(&self, field: &str) -> Option<&Source> {
        let covers = |prefix: &str| {
            field == prefix || field.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('.'))
        };
        self.sources
            .iter()
            .filter(|(prefix, _)| covers(prefix))
            .max_by_key(|(prefix, _)| prefix.len())
            .map(|(_, source)| source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parse_error_names_line_or_field() {
        let minimal = "name = \"x\"\ndescription = \"y\"\ncapacity_bytes = 1_000_000_000\n";
        for (text, expected) in [
            (minimal.to_owned(), "missing field `flash`"),
            (format!("{minimal}[flash.nand]\nraed_ns = 7200\n"), "line 5: unknown field `raed_ns`"),
            (format!("{minimal}[flash.geometry]\nchannels = 0\n"), "flash.geometry.channels is 0"),
            (
                format!("{minimal}[flash]\n[sources]\nflash = \"somewhere\"\n"),
                "sources.flash must begin with",
            ),
            ("name = ".to_owned(), "line 1"),
            (
                format!("{minimal}[flash.geometry]\nchannels = -4\n"),
                "line 5: invalid value: integer `-4`, expected a whole number from 0 to 4294967295",
            ),
            (
                format!("{minimal}[flash.write_cache]\nbytes = 18446744073709551616\n"),
                "integer `18446744073709551616`, expected a whole number from 0 to 184467440737095",
            ),
            (
                format!(
                    "{minimal}[flash.nand]\n[[uncertain]]\nbecause = \"b\"\n\
                        set = {{ \"flsh.nand.read_ns\" = 5400 }}\n"
                ),
                "not a field of the file",
            ),
            (
                format!(
                    "{minimal}[flash.nand]\n[[uncertain]]\nbecause = \"b\"\n\
                        set = {{ \"flash.nand.read_ns\" = 36000000000000 }}\n"
                ),
                "flash.nand.read_ns is 36000000000000",
            ),
        ] {
            let message = parse(&text).unwrap_err();
            assert!(
                message.contains(expected) && !message.contains('\n'),
                "{message:?} for {expected:?}"
            );
        }
    }

    #[test]
    fn parse_with_too_many_alternatives_fails_in_one_line() {
        let minimal = "name = \"x\"\ndescription = \"y\"\ncapacity_bytes = 1_000_000_000\n[flash.nand]\n\
            read_ns = 7200\n";
        let uncertain = "[[uncertain]]\nbecause = \"b\"\nset = { \"flash.nand.read_ns\" = 5400 }\n";
        let with = |count: usize| parse(&format!("{minimal}{}", uncertain.repeat(count)));
        assert_eq!(with(UNCERTAIN_MAX).map(|drive| drive.alternatives.len()), Ok(UNCERTAIN_MAX));
        assert_eq!(
            with(2000).unwrap_err(),
            "the file has 2000 [[uncertain]] sections; the maximum is 100"
        );
        let dotted = format!(
            "{minimal}[[uncertain]]\nbecause = \"b\"\nset = {{ \"flash{}\" = 1 }}\n",
            ".a".repeat(200_000)
        );
        assert!(parse(&dotted).unwrap_err().len() < 200);
    }

    #[test]
    fn parse_rejects_name_with_path_characters() {
        let text = |name: &str| {
            format!(
                "name = \"{name}\"\ndescription = \"y\"\ncapacity_bytes = 67_108_864\n[flash]\n"
            )
        };
        for name in ["x", "0", "ocz-vertex-le-100gb", "a.b_c-9", &"x".repeat(64)] {
            assert_eq!(parse(&text(name)).map(|drive| drive.spec.name).as_deref(), Ok(name));
        }
        for name in [
            "",
            ".",
            "..",
            ".x",
            "-x",
            "_x",
            "/dev/sda",
            "a/b",
            "a b",
            "X",
            "\\u001b[2J",
            "\\u202e",
            "é",
            &"x".repeat(65),
            &"x".repeat(1 << 20),
        ] {
            let message = parse(&text(name)).unwrap_err();
            assert!(
                message.starts_with("name is '")
                    && !message.contains(['\u{1b}', '\u{202e}'])
                    && message.len() < 1000,
                "{name:?}: {message}"
            );
        }
    }

    #[test]
    fn parse_rejects_line_breaks_in_shown_texts() {
        let with = |description: &str, more: &str| {
            format!(
                "name = \"x\"\ndescription = \"{description}\"\n\
                    capacity_bytes = 1_000_000_000\n{more}"
            )
        };
        let uncertain = "[flash.nand]\nread_ns = 7200\n[[uncertain]]\nbecause = \"a\\tb\"\n\
            set = { \"flash.nand.read_ns\" = 5400 }\n";
        let source = "[flash.nand]\nread_ns = 7200\n[sources]\n\"flash.nand.read_ns\" = \"published: a\\u001bb\"\n";
        for (text, place) in [
            (with("y\\nz", "[flash]\n"), "description contains '\\n'"),
            (with("y", uncertain), "uncertain.because contains '\\t'"),
            (with("y", source), "sources.flash.nand.read_ns contains '\\u{1b}'"),
        ] {
            let message = parse(&text).unwrap_err();
            assert!(message.starts_with(place) && !message.contains('\n'), "{message}");
        }
        assert_eq!(
            ["2026-11-22", "2026-11-2", "soon", "2026/11/22", "2026-11-22\n"].map(twin::is_date),
            [true, false, false, false, false]
        );
    }

    #[test]
    fn alternative_differs_only_in_uncertain_field() {
        let text = "name = \"x\"\ndescription = \"y\"\ncapacity_bytes = 1_000_000_000\n[flash.nand]\n\
            read_ns = 7200\n[[uncertain]]\nbecause = \"both were sold\"\n\
            set = { \"flash.nand.read_ns\" = 5400 }\n";
        let drive = parse(text).unwrap();
        let [one, other] = [&drive.spec, &drive.alternatives[0].spec].map(|spec| &spec.flash.nand);
        assert_eq!(
            (one.read_ns, other.read_ns, drive.alternatives[0].because.as_str()),
            (7200, 5400, "both were sold")
        );
        let mut same = drive.alternatives[0].spec.clone();
        same.flash.nand.read_ns = 7200;
        assert_eq!(same, drive.spec);
    }

    proptest! {
        #[test]
        fn parse_of_any_text_never_panics(text in "\\PC{0,200}") {
            let _ = parse(&text);
        }

        #[test]
        fn parse_of_any_number_never_panics(
            capacity in any::<u64>(), channels in any::<u32>(), page in any::<u64>(), blocks in any::<u32>(), die in any::<u32>(),
        ) {
            let capacity = capacity >> 1;
            let page = page >> 1;
            let _ = parse(&format!(
                "name = \"x\"\ndescription = \"y\"\ncapacity_bytes = {capacity}\n\
                    [flash.geometry]\nchannels = {channels}\npage_bytes = {page}\n\
                    blocks_per_plane = {blocks}\nsuperblock_dies = {die}\n"
            ));
        }
    }
}
