//! The daemon's configuration: one TOML file. Any error refuses it, with line and key.

use serde::de::Visitor;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;
use toml::Spanned;
use trimtab_drive::spec::file::plain_message;
use trimtab_drive::units::Nanos;
use trimtab_linux::doctor::AcceptedFinding;
use trimtab_linux::host::root::Root;
use trimtab_linux::sys::beneath::Dir;
use trimtab_linux::sys::beneath::named::{self, Streams};
use trimtab_sim::policy::PolicySpec;

/// Default path of the configuration.
pub const DEFAULT_PATH: &str = "/etc/trimtab/trimtab.toml";
/// Largest configuration, in bytes.
const BYTES_MAX: u64 = 1 << 20;

/// An error in the configuration, with its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{}{}: {}", path.display(), if *line == 0 { String::new() } else { format!(":{line}") },
    what.replace('\n', " ")
)]
pub struct ConfigError {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1; 0 for the file as a whole.
    pub line: usize,
    /// The error, with the key.
    pub what: String,
}

/// Rule for one filesystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its mount point; `None` for all filesystems without a rule.
    pub path: Option<PathBuf>,
    /// The policy.
    pub policy: PolicySpec,
}

impl Rule {
    /// True if the policy trims at all.
    pub fn trims(&self) -> bool {
        !matches!(self.policy, PolicySpec::None | PolicySpec::Online)
    }
}

/// The configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Directory of the state and the history.
    pub state: PathBuf,
    /// The Prometheus text file, if configured.
    pub metrics: Option<PathBuf>,
    /// The socket that serves the metrics, if configured.
    pub metrics_socket: Option<PathBuf>,
    /// Interval between updates of the metrics.
    pub metrics_every: Nanos,
    /// One rule for each named filesystem; a rule without a path covers the rest.
    pub rules: Vec<Rule>,
    /// Findings of the doctor that are accepted.
    pub ignore: Vec<AcceptedFinding>,
}

impl Config {
    /// Reads the file. A file that other users may write is refused, because it controls
    /// what root does.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        Self::parse(path, &Self::text(path)?)
    }

    /// The configuration in a tree, read at its default path; `None` without one.
    pub fn of_root(root: &Root) -> Option<Result<Self, ConfigError>> {
        let path = Path::new(DEFAULT_PATH);
        // Also puts the text into a recording.
        let bytes = root.read_bytes(path, BYTES_MAX).ok()?;
        let text = || String::from_utf8_lossy(&bytes);
        Some(if root.is_this_machine() { Self::read(path) } else { Self::parse(path, &text()) })
    }

    fn text(path: &Path) -> Result<String, ConfigError> {
        use std::os::unix::fs::MetadataExt as _;
        let whole = |what: String| ConfigError { path: path.to_owned(), line: 0, what };
        let file = named::open_to_read(path, Streams::Pipes).map_err(|e| {
            let hint = if e.kind() == std::io::ErrorKind::NotFound {
                "; 'trimtab apply POLICY PATH' creates one"
            } else {
                ""
            };
            whole(format!("cannot be opened: {e}{hint}"))
        })?;
        let meta = file.metadata().map_err(|e| whole(format!("cannot be examined: {e}")))?;
        if !meta.is_file() {
            return Err(whole("is not a regular file".into()));
        }
        Dir::check_sheltered(path).map_err(|e| whole(format!("can be replaced: {e}")))?;
        if !named::is_trusted(meta.uid()) {
            return Err(whole(format!(
                "belongs to another user (uid {}); chown it to root",
                meta.uid()
            )));
        }
        if meta.mode() & 0o022 != 0 {
            return Err(whole(format!(
                "is writable by other users (mode {:o}); chmod go-w {}",
                meta.mode() & 0o777,
                path.display()
            )));
        }
        let bytes =
            named::read_all(file, BYTES_MAX).map_err(|e| whole(format!("cannot be read: {e}")))?;
        String::from_utf8(bytes).map_err(|_| whole("is not UTF-8".into()))
    }

    /// Parses the text; `path` is only used in messages.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let error = |at: usize, what: String| {
            let line = 1 + text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count();
            let key = text
                .lines()
                .nth(line - 1)
                .and_then(|text| text.split_once('='))
                .map_or("", |(key, _)| key.trim());
            let what = if key.is_empty() || what.contains(" field `") {
                what
            } else {
                format!("{key}: {what}")
            };
            ConfigError { path: path.to_owned(), line, what }
        };
        let file: ConfigFile = toml::from_str(text).map_err(|e| {
            error(e.span().map_or(0, |span| span.start), plain_message(e.message()))
        })?;
        let mut named = BTreeSet::new();
        let mut rules = Vec::new();
        for FilesystemSection { path, policy } in file.filesystem {
            let (at, Parsed(AbsolutePath(path))) = (path.span().start, path.into_inner());
            if !named.insert(path.clone()) {
                return Err(error(at, format!("'{}' is named twice", path.display())));
            }
            rules.push(Rule { path: Some(path), policy: policy.0 });
        }
        rules.extend(file.default.map(|section| Rule { path: None, policy: section.policy.0 }));
        let DaemonSection { state, metrics, metrics_socket, metrics_every } = file.daemon;
        Ok(Self {
            state: state
                .map_or_else(trimtab_linux::trim::resume::state_directory, |state| state.0.0),
            metrics: metrics.map(|metrics| metrics.0.0.0),
            metrics_socket: metrics_socket.map(|socket| socket.0.0),
            metrics_every: metrics_every.map_or(Nanos::from_secs(60), |every| every.0.0),
            rules,
            ignore: file.doctor.ignore.into_iter().map(|finding| finding.0).collect(),
        })
    }

    /// The rule for a mount point.
    pub fn rule_for(&self, mount_point: &Path) -> Option<&Rule> {
        let named = self.rules.iter().find(|r| r.path.as_deref() == Some(mount_point));
        named.or_else(|| self.rules.iter().find(|r| r.path.is_none()))
    }
}

/// The file as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigFile {
    #[serde(default)]
    daemon: DaemonSection,
    #[serde(default)]
    doctor: DoctorSection,
    default: Option<DefaultSection>,
    #[serde(default)]
    filesystem: Vec<FilesystemSection>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct DaemonSection {
    state: Option<Parsed<AbsolutePath>>,
    metrics: Option<Parsed<MetricsFile>>,
    metrics_socket: Option<Parsed<AbsolutePath>>,
    metrics_every: Option<Parsed<Interval>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct DoctorSection {
    #[serde(default)]
    ignore: Vec<Parsed<AcceptedFinding>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DefaultSection {
    policy: Parsed<PolicySpec>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FilesystemSection {
    path: Spanned<Parsed<AbsolutePath>>,
    policy: Parsed<PolicySpec>,
}

/// A path as in the mount table: no trailing or doubled slashes.
struct AbsolutePath(PathBuf);

impl FromStr for AbsolutePath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path = Path::new(text);
        let plain = path.is_absolute()
            && !text.contains('\0')
            && path.components().all(|part| part != Component::ParentDir);
        plain
            .then(|| Self(path.components().collect()))
            .ok_or_else(|| format!("'{text}' is not an absolute path without '..'"))
    }
}

/// A file of metrics.
struct MetricsFile(AbsolutePath);

impl FromStr for MetricsFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path: AbsolutePath = text.parse()?;
        super::metrics::require_name(&path.0).map(|()| Self(path))
    }
}

/// A duration of at least one second.
struct Interval(Nanos);

impl FromStr for Interval {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let nanos: Nanos = text.parse().map_err(|error| format!("{error}"))?;
        (nanos >= Nanos::from_secs(1))
            .then_some(Self(nanos))
            .ok_or_else(|| "must be at least 1s".to_owned())
    }
}

/// A value that is parsed from a string, so that an error has the string's place.
struct Parsed<T>(T);

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for Parsed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(ParsedVisitor(PhantomData)).map(Parsed)
    }
}

struct ParsedVisitor<T>(PhantomData<T>);

impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for ParsedVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn parse(text: &str) -> Result<Config, ConfigError> {
        Config::parse(Path::new("t.toml"), text)
    }

    #[test]
    fn shipped_example_parses() {
        let example = include_str!("../../../../packaging/example.toml");
        let config = parse(example).unwrap();
        assert!(
            config.rules.iter().all(|r| r.path.is_some()),
            "only named filesystems are trimmed"
        );
        // Commented-out examples must parse too.
        let all: String = example
            .lines()
            .map(|l| l.strip_prefix("#:").unwrap_or(l))
            .fold(String::new(), |text, l| text + l + "\n");
        let config = parse(&all).unwrap();
        assert!(config.rules.len() >= 4 && config.metrics.is_some(), "{config:?}");
    }

    #[test]
    fn example_states_the_actual_defaults() {
        let example = include_str!("../../../../packaging/example.toml");
        assert_eq!(
            parse(example).unwrap(),
            parse("").unwrap(),
            "the shipped file equals the defaults"
        );
        let mut policy = "";
        let mut checked = Vec::new();
        for line in example.lines() {
            let Some(text) = line.strip_prefix("#   ") else { continue };
            if !text.starts_with(' ') {
                policy = text.split_ascii_whitespace().next().unwrap();
            }
            // key=WHAT (default)
            for (at, _) in text.match_indices('=') {
                let key = text[..at]
                    .rsplit(|c: char| !c.is_ascii_lowercase() && c != '-')
                    .next()
                    .unwrap();
                let Some(default) = text[at..]
                    .split_once(" (")
                    .filter(|(what, _)| !what.contains([' ', ';']))
                    .and_then(|(_, d)| d.split_once(')'))
                else {
                    continue;
                };
                let named: PolicySpec = format!("{policy}:{key}={}", default.0).parse().unwrap();
                assert_eq!(
                    named,
                    policy.parse().unwrap(),
                    "{policy}: {key} is not {} by default",
                    default.0
                );
                checked.push(format!("{policy}.{key}"));
            }
        }
        for expected in [
            "batched.every",
            "batched.min-extent",
            "batched.battery",
            "adaptive.poll",
            "idle.budget",
            "idle.patience",
            "idle.finish-within",
        ] {
            assert!(checked.iter().any(|c| c == expected), "{expected}: {checked:?}");
        }
    }

    #[test]
    fn rule_for_finds_mount_point() {
        let config = parse(
            "[default]\npolicy = \"none\"\n[[filesystem]]\npath = \"/home/\"\n\
            policy = \"idle:budget=2ms\"\n",
        )
        .unwrap();
        assert_eq!(config.rule_for(Path::new("/home")).unwrap().policy.name(), "idle");
        assert_eq!(config.rule_for(Path::new("/srv")).unwrap().policy.name(), "none");
        assert_eq!(parse("").unwrap().rule_for(Path::new("/")), None);
    }

    #[test]
    fn parse_error_names_line_and_key() {
        for (text, line, part) in [
            (
                "[[filesystem]]\npath = \"/\"\npolicy = \"adaptve\"\n",
                3,
                "policy: there is no trim policy 'adaptve'",
            ),
            (
                "[[filesystem]]\npath = \"home\"\npolicy = \"idle\"\n",
                2,
                "path: 'home' is not an absolute path",
            ),
            ("[[filesystem]]\npath = \"/a/../b\"\npolicy = \"idle\"\n", 2, "path:"),
            (
                "[[filesystem]]\npath = \"/\"\npolicy = \"idle\"\n\n[[filesystem]]\n\
                    path = \"/\"\npolicy = \"idle\"\n",
                6,
                "named twice",
            ),
            ("[daemon]\nstat = \"/x\"\n", 2, "unknown field `stat`"),
            ("[daemon]\nmetrics-every = \"5\"\n", 2, "metrics-every: '5'"),
            (
                "[daemon]\nmetrics = \"/dev/null\"\n",
                2,
                "metrics: '/dev/null' is a device; name a file ending in .prom",
            ),
            ("[daemon]\nmetrics = \"/etc/fstab\"\n", 2, "'/etc/fstab' does not end in .prom"),
            ("[default]\npolicy = 3\n", 2, "string"),
            (
                "[[filesystem]]\npath = \"/\"\npolicy = \"idle\"\nknobs = true\n",
                4,
                "unknown field `knobs`",
            ),
            ("[[filesystem]]\npath = \"/\"\n", 1, "missing field `policy`"),
            ("[daemon\n", 1, ""),
            (
                "[doctor]\nignore = [\"nothing-trims\",\n \"stacked:srv\"]\n",
                3,
                "'stacked:srv' is neither CODE nor CODE:/PATH",
            ),
            (
                "[doctor]\nignore = [\"nothing-trim\"]\n",
                2,
                "'nothing-trim' is the code of no finding",
            ),
            (
                "[doctor]\nignore = \"x\"\n",
                2,
                "ignore: invalid type: string \"x\", expected a list",
            ),
            ("[doctor]\nhide = []\n", 2, "unknown field `hide`"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.line, line, "{text}: {error}");
            assert!(
                error.to_string().contains(part) && !error.to_string().contains('\n'),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn metrics_file_of_any_name_with_the_suffix_parses() {
        // The node exporter compares only the end of the name.
        assert!(parse("[daemon]\nmetrics = \"/x/.prom\"\n").is_ok());
    }

    #[test]
    fn read_of_file_writable_by_others_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o666)).unwrap();
        assert!(Config::read(file.path()).unwrap_err().what.contains("chmod go-w"));
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(Config::read(file.path()).is_ok());
        assert!(Config::read(Path::new("/dev/null")).unwrap_err().what.contains("regular"));
    }

    #[test]
    fn read_of_file_in_directory_of_others_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let shared = directory.path().join("shared");
        let file = shared.join("trimtab.toml");
        std::fs::create_dir(&shared).unwrap();
        std::fs::write(&file, "").unwrap();
        for (mode, refused) in [(0o777, true), (0o755, false), (0o1777, false)] {
            std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(mode)).unwrap();
            let read = Config::read(&file);
            assert_eq!(read.is_err(), refused, "{mode:o}: {read:?}");
            let said = read.err().map_or(String::new(), |error| error.to_string());
            assert_eq!(said.contains("can be replaced: "), refused, "{said}");
        }
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&shared, Some(1), None).unwrap();
            let error = Config::read(&file).unwrap_err().to_string();
            assert!(error.contains("it belongs to another user"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn parse_of_any_text_does_not_panic(text in "[\\[\\]a-z=\"/:#\\n .0-9]{0,120}") {
            if let Err(error) = parse(&text) {
                prop_assert!(!error.to_string().contains('\n'));
            }
        }
    }
}
