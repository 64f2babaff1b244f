//! Reads the tables of the configuration key by key, so that all errors are reported at once.

use super::{Config, ConfigError, CounterChoice, FILESYSTEMS_MAX, Rule};
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use trimtab_drive::units::Nanos;
use trimtab_sim::policy::PolicySpec;

type Value<'a, 'i> = &'a Spanned<DeValue<'i>>;

/// The configuration in `text`, or all errors in order of lines.
pub(super) fn read(path: &Path, text: &str) -> Result<Config, Vec<ConfigError>> {
    let (root, malformed) = DeTable::parse_recoverable(text);
    let mut reader = ConfigReader { path, text, errors: Vec::new() };
    for error in &malformed {
        reader.error(error.span().unwrap_or(0..0), error.message().to_owned());
    }
    // Keys of a file that is not valid TOML would cause misleading errors.
    let config = malformed.is_empty().then(|| reader.config(&root));
    let mut errors = reader.errors;
    errors.sort_by_key(|error| error.line);
    match config {
        Some(config) if errors.is_empty() => Ok(config),
        _ => Err(errors),
    }
}

struct ConfigReader<'a> {
    path: &'a Path,
    text: &'a str,
    errors: Vec<ConfigError>,
}

/// Content of a `[default]` or `[[filesystem]]` section.
#[derive(Default)]
struct ConfigSection {
    path: Option<(PathBuf, Range<usize>)>,
    policy: Option<PolicySpec>,
    counter: CounterChoice,
    knobs: Option<bool>,
}

impl ConfigReader<'_> {
    fn error(&mut self, span: Range<usize>, what: String) {
        let before = self.text.as_bytes().get(..span.start).unwrap_or_default();
        let line = 1 + before.iter().filter(|b| **b == b'\n').count();
        self.errors.push(ConfigError { path: self.path.to_owned(), line, what });
    }

    fn config(&mut self, root: &Spanned<DeTable<'_>>) -> Config {
        let mut config = Config {
            state: trimtab_linux::trim::resume::state_directory(),
            metrics: None,
            metrics_every: Nanos::from_secs(60),
            rules: Vec::new(),
            ignore: Vec::new(),
        };
        let mut default = None;
        for (key, value) in root.get_ref().iter() {
            match key.get_ref().as_ref() {
                "daemon" => self.daemon(value, &mut config),
                "doctor" => self.doctor(value, &mut config),
                "default" => default = self.section(value, false),
                "filesystem" => self.filesystems(value, &mut config.rules),
                other => self.unknown(key.span(), other, "`daemon`, `doctor`, `default` or `filesystem`"),
            }
        }
        if let Some(ConfigSection { policy: Some(policy), counter, knobs, .. }) = default {
            config.rules.push(Rule { path: None, policy, counter, knobs: knobs.unwrap_or(true) });
        }
        config
    }

    fn filesystems(&mut self, value: Value<'_, '_>, rules: &mut Vec<Rule>) {
        let DeValue::Array(all) = value.get_ref() else { return self.expected("filesystem", value, "sections [[filesystem]]") };
        if all.iter().count() > FILESYSTEMS_MAX {
            return self.error(value.span(), format!("more than {FILESYSTEMS_MAX} filesystems"));
        }
        let mut named = std::collections::BTreeSet::new();
        for section in all.iter() {
            let Some(section) = self.section(section, true) else { continue };
            let Some((path, span)) = section.path else { continue };
            if !named.insert(path.clone()) {
                self.error(span, format!("path: '{}' is named twice", path.display()));
            }
            if let Some(policy) = section.policy {
                rules.push(Rule { path: Some(path), policy, counter: section.counter, knobs: section.knobs.unwrap_or(true) });
            }
        }
    }

    /// Reads a `[default]` section, or with `with_path` a `[[filesystem]]` section.
    fn section(&mut self, value: Value<'_, '_>, with_path: bool) -> Option<ConfigSection> {
        let DeValue::Table(table) = value.get_ref() else {
            self.expected("section", value, "a table");
            return None;
        };
        let mut section = ConfigSection::default();
        let mut has = (false, false);
        for (key, value) in table.iter() {
            match key.get_ref().as_ref() {
                "path" if with_path => {
                    has.0 = true;
                    section.path = self.absolute("path", value).map(|path| (path, value.span()));
                }
                "policy" => {
                    has.1 = true;
                    section.policy = self.policy(value);
                }
                "counter" => section.counter = self.counter(value),
                "knobs" => match value.get_ref() {
                    DeValue::Boolean(yes) => section.knobs = Some(*yes),
                    _ => self.expected("knobs", value, "true or false"),
                },
                other => {
                    let known = if with_path { "`path`, `policy`, `counter` or `knobs`" } else { "`policy`, `counter` or `knobs`" };
                    self.unknown(key.span(), other, known);
                }
            }
        }
        for (there, key) in [(has.0 || !with_path, "path"), (has.1, "policy")] {
            if !there {
                self.error(value.span(), format!("missing field `{key}`"));
            }
        }
        Some(section)
    }

    fn daemon(&mut self, value: Value<'_, '_>, config: &mut Config) {
        let DeValue::Table(table) = value.get_ref() else { return self.expected("daemon", value, "a table") };
        for (key, value) in table.iter() {
            match key.get_ref().as_ref() {
                "state" => config.state = self.absolute("state", value).unwrap_or_default(),
                "metrics" => config.metrics = self.absolute("metrics", value),
                "metrics-every" => config.metrics_every = self.duration("metrics-every", value).unwrap_or_default(),
                other => self.unknown(key.span(), other, "`state`, `metrics` or `metrics-every`"),
            }
        }
    }

    fn doctor(&mut self, value: Value<'_, '_>, config: &mut Config) {
        let DeValue::Table(table) = value.get_ref() else { return self.expected("doctor", value, "a table") };
        for (key, value) in table.iter() {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("ignore", DeValue::Array(all)) => all.iter().for_each(|one| match one.get_ref() {
                    DeValue::String(text) => match text.parse() {
                        Ok(accepted) => config.ignore.push(accepted),
                        Err(what) => self.error(one.span(), format!("ignore: {what}")),
                    },
                    _ => self.expected("ignore", one, "a string"),
                }),
                ("ignore", _) => self.expected("ignore", value, "a list of findings"),
                (other, _) => self.unknown(key.span(), other, "`ignore`"),
            }
        }
    }

    fn unknown(&mut self, span: Range<usize>, key: &str, known: &str) {
        self.error(span, format!("unknown field `{}`, expected {known}", key.escape_debug()));
    }

    fn expected(&mut self, key: &str, value: Value<'_, '_>, what: &str) {
        self.error(value.span(), format!("{key}: expected {what}, found {}", value.get_ref().type_str()));
    }

    fn text<'v>(&mut self, key: &str, value: &'v Spanned<DeValue<'_>>) -> Option<&'v str> {
        match value.get_ref() {
            DeValue::String(text) => Some(text.as_ref()),
            _ => {
                self.expected(key, value, "a string");
                None
            }
        }
    }

    fn absolute(&mut self, key: &str, value: Value<'_, '_>) -> Option<PathBuf> {
        let path = Path::new(self.text(key, value)?);
        let plain = path.is_absolute() && path.components().all(|c| !matches!(c, std::path::Component::ParentDir));
        if plain && !path.as_os_str().as_encoded_bytes().contains(&0) {
            // Normalised as in the mount table: no trailing or doubled slashes.
            return Some(path.components().collect());
        }
        self.error(value.span(), format!("{key}: '{}' is not an absolute path without '..'", path.display()));
        None
    }

    fn policy(&mut self, value: Value<'_, '_>) -> Option<PolicySpec> {
        let parsed = self.text("policy", value)?.parse();
        parsed.map_err(|e: trimtab_sim::setting::SettingError| self.error(value.span(), format!("policy: {e}"))).ok()
    }

    fn counter(&mut self, value: Value<'_, '_>) -> CounterChoice {
        let Some(text) = self.text("counter", value) else { return CounterChoice::default() };
        CounterChoice::NAMES.iter().find(|(name, _)| *name == text).map_or_else(
            || {
                let names: Vec<&str> = CounterChoice::NAMES.iter().map(|(name, _)| *name).collect();
                self.error(value.span(), format!("counter: '{}' is not one of {}", text.escape_debug(), names.join(", ")));
                CounterChoice::default()
            },
            |(_, choice)| *choice,
        )
    }

    fn duration(&mut self, key: &str, value: Value<'_, '_>) -> Option<Nanos> {
        match self.text(key, value)?.parse::<Nanos>() {
            Ok(nanos) if nanos >= Nanos::from_secs(1) => return Some(nanos),
            Ok(_) => self.error(value.span(), format!("{key}: must be at least 1s")),
            Err(error) => self.error(value.span(), format!("{key}: {error}")),
        }
        None
    }
}
