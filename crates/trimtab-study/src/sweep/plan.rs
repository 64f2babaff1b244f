//! A plan as read from its file: base and axes. Errors give line and key.

use super::cell::SweepCell;
use super::hash::{MODEL, short_hash};
use super::settings::{self, Sources, is_fractional};
use super::value::{Axis, Range, Value, Values, ends};
use alloc::borrow::ToOwned as _;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};
use trimtab_drive::usage::suggest;
use trimtab_sim::setting::SettingError;

/// Maximum cells of a plan: at a tenth of a second each, they take a core two weeks.
pub const CELLS_MAX: u64 = 10_000_000;
/// Maximum values of an axis, and repeats.
const STEPS_MAX: u64 = 1_000_000;
const KEYS: [&str; 5] = ["name", "seed", "repeats", "base", "axes"];

/// A plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Name.
    pub name: String,
    /// Common parameters of all cells: parameter, value, line.
    base: Vec<(String, Value, usize)>,
    /// Varied parameters.
    pub axes: Vec<Axis>,
    /// Runs per point, each with another seed.
    pub repeats: u64,
    /// Seed of the first repeat.
    pub seed: u64,
}

/// An error in a plan, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError {
    /// Line number from 1; `None` for a missing item.
    pub line: Option<usize>,
    /// Dotted key; empty if the file is not TOML.
    pub key: String,
    /// Description of the error.
    pub text: String,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.text)
    }
}

impl core::error::Error for PlanError {}

/// Position of a cell in its plan.
#[derive(Clone, Debug, PartialEq)]
pub struct CellPlace {
    /// The value on each axis.
    pub values: Vec<Value>,
    /// The point of the grid.
    pub point: u64,
    /// Repeat of the point, from 0.
    pub repeat: u64,
    /// Seed of its run.
    pub seed: u64,
}

/// Name of an impossible cell: a hash of its position and the reason.
#[must_use]
pub fn id_of_impossible(place: &CellPlace, reason: &str) -> String {
    short_hash(format!("{MODEL}\nimpossible {:?} {} {reason}", place.values, place.seed))
}

impl Plan {
    /// Parses a plan.
    ///
    /// # Errors
    /// The first error. [`Plan::check`] verifies later that drives and parameters exist.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        PlanReader::new(text).plan()
    }

    /// Total number of cells.
    #[must_use]
    pub fn cells(&self) -> u64 {
        self.axes.iter().map(Axis::len).fold(self.repeats, u64::saturating_mul)
    }

    /// Position of a cell. Repeats of a point are consecutive; the last axis
    /// changes first.
    #[must_use]
    pub fn place(&self, cell: u64) -> CellPlace {
        let (point, repeat) = (cell / self.repeats, cell % self.repeats);
        let mut left = point;
        let mut of = |axis: &Axis| {
            let nth = left % axis.len();
            left /= axis.len();
            axis.nth(nth)
        };
        let mut values: Vec<Value> = self.axes.iter().rev().map(&mut of).collect();
        values.reverse();
        CellPlace { values, point, repeat, seed: self.seed.wrapping_add(repeat) }
    }

    /// The cell at a position.
    ///
    /// # Errors
    /// Why the cell is impossible: the values do not form a valid drive, filesystem or
    /// workload.
    pub fn cell<S: Sources>(
        &self,
        place: &CellPlace,
        sources: &S,
    ) -> Result<SweepCell<S::Trace>, SettingError> {
        let axes =
            self.axes.iter().zip(&place.values).map(|(axis, value)| (axis.key.as_str(), value));
        let all: Vec<(&str, &Value)> =
            self.base.iter().map(|(key, value, _)| (key.as_str(), value)).chain(axes).collect();
        settings::resolve(&all, place.seed, sources)
    }

    /// Paths of the drives and traces in the plan. They may not exist.
    #[must_use]
    pub fn paths(&self) -> BTreeSet<String> {
        let on_axes = self.axes.iter().flat_map(|axis| {
            axis.probes().into_iter().map(|(value, _)| (axis.key.as_str(), value))
        });
        let all =
            self.base.iter().map(|(key, value, _)| (key.as_str(), value.clone())).chain(on_axes);
        let path = |(key, value): (&str, Value)| match (key, value) {
            ("drive.name", Value::Text(name)) if settings::is_path(&name) => Some(name),
            ("workload.name", Value::Text(name)) => name.strip_prefix("trace:").map(str::to_owned),
            _ => None,
        };
        all.filter_map(path).collect()
    }

    /// Tries every value once, with the first of all other axes, to find errors before a
    /// run.
    ///
    /// # Errors
    /// The first invalid parameter or value, with its line.
    pub fn check<S: Sources>(&self, sources: &S) -> Result<(), PlanError> {
        let first: Vec<Value> = self.axes.iter().map(|axis| axis.nth(0)).collect();
        let place = |values: Vec<Value>| CellPlace { values, point: 0, repeat: 0, seed: self.seed };
        self.refuse(self.cell(&place(first.clone()), sources).err(), None)?;
        for (at, axis) in self.axes.iter().enumerate() {
            for (value, line) in axis.probes() {
                let mut values = first.clone();
                values[at] = value;
                self.refuse(self.cell(&place(values), sources).err(), Some((&axis.key, line)))?;
            }
        }
        Ok(())
    }

    /// Reports errors of a single parameter. Errors of a combination are left to the
    /// results table. `tried` is the axis whose value is tried.
    fn refuse(
        &self,
        wrong: Option<SettingError>,
        tried: Option<(&str, usize)>,
    ) -> Result<(), PlanError> {
        let Some(SettingError { key: Some(key), text }) = wrong else { return Ok(()) };
        let on_axis = || {
            self.axes
                .iter()
                .find(|axis| axis.key == key)
                .map(|axis| axis.probes().first().map_or(axis.line, |probe| probe.1))
        };
        let in_base = || self.base.iter().find(|(known, ..)| *known == key).map(|(.., line)| *line);
        let line = tried
            .filter(|(axis, _)| *axis == key)
            .map(|(_, line)| line)
            .or_else(on_axis)
            .or_else(in_base);
        Err(PlanError { line, key, text })
    }
}

struct PlanReader<'a> {
    text: &'a str,
    /// Offsets of the line ends.
    ends: Vec<usize>,
}

type TomlEntry<'d, 'i> = (&'d Spanned<DeString<'i>>, &'d Spanned<DeValue<'i>>);

impl<'a> PlanReader<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, ends: text.match_indices('\n').map(|(at, _)| at).collect() }
    }

    fn line(&self, at: usize) -> usize {
        self.ends.partition_point(|end| *end < at) + 1
    }

    fn wrong<T>(&self, at: usize, key: &str, text: impl Into<String>) -> Result<T, PlanError> {
        Err(PlanError { line: Some(self.line(at)), key: key.to_owned(), text: text.into() })
    }

    fn plan(&self) -> Result<Plan, PlanError> {
        let whole = DeTable::parse(self.text).map_err(|error| {
            let more = "; to set other parameters too, write drive.name = \"…\" (or \
                policy.name, workload.name, volume.name)";
            let more = if error.message().contains("cannot extend value") { more } else { "" };
            PlanError {
                line: error.span().map(|span| self.line(span.start)),
                key: String::new(),
                text: format!("{}{more}", error.message().replace('\n', " ")),
            }
        })?;
        let table = whole.get_ref();
        self.known(table, "", &KEYS)?;
        let get = |key: &str| table.get(key);
        let mut base = Vec::new();
        if let Some(value) = get("base") {
            self.flatten(self.table(value, "base")?, "", &mut |key, value| {
                base.push((key.clone(), self.value(value, &key)?, self.line(value.span().start)));
                Ok(())
            })?;
        }
        let mut axes = Vec::new();
        if let Some(value) = get("axes") {
            self.flatten(self.table(value, "axes")?, "", &mut |key, value| {
                axes.push((value.span().start, self.axis(&key, value)?));
                Ok(())
            })?;
        }
        axes.sort_by_key(|(at, _)| *at);
        let axes: Vec<Axis> = axes.into_iter().map(|(_, axis)| axis).collect();
        let mut known: BTreeSet<&str> = base.iter().map(|(key, ..)| key.as_str()).collect();
        for axis in &axes {
            if !known.insert(&axis.key) {
                return Err(PlanError {
                    line: Some(axis.line),
                    key: axis.key.clone(),
                    text: "set twice: also an axis or in [base]".into(),
                });
            }
        }
        let repeats = self.count(get("repeats"), "repeats", 1, STEPS_MAX)?.unwrap_or(1);
        let seed = self.count(get("seed"), "seed", 0, i64::MAX as u64)?.unwrap_or(1);
        let name = match get("name").map(|value| (value.get_ref(), value.span().start)) {
            None => "sweep".to_owned(),
            Some((DeValue::String(name), _)) => name.to_string(),
            Some((_, at)) => return self.wrong(at, "name", "must be a string"),
        };
        let plan = Plan { name, base, axes, repeats, seed };
        self.count_cells(&plan)?;
        Ok(plan)
    }

    fn count_cells(&self, plan: &Plan) -> Result<(), PlanError> {
        let cells = plan.cells();
        if plan.axes.is_empty() && plan.repeats == 1 {
            return Err(PlanError {
                line: None,
                key: "axes".into(),
                text: "a plan without axes is a single run: add [axes] or repeats".into(),
            });
        }
        if cells > CELLS_MAX {
            let (all, most) =
                (trimtab_drive::units::grouped(cells), trimtab_drive::units::grouped(CELLS_MAX));
            let all = if cells == u64::MAX { "more than 10^19".to_owned() } else { all };
            let text = format!("the plan has {all} cells; the limit is {most}: use fewer steps");
            return Err(PlanError { line: None, key: String::new(), text });
        }
        Ok(())
    }

    fn known(&self, table: &DeTable<'_>, of: &str, known: &[&str]) -> Result<(), PlanError> {
        for key in table.keys() {
            if !known.contains(&key.get_ref().as_ref()) {
                let text = format!("unknown key; {}", suggest(key.get_ref(), "keys", known));
                return self.wrong(key.span().start, &joined(of, key.get_ref()), text);
            }
        }
        Ok(())
    }

    fn table<'d, 'i>(
        &self,
        value: &'d Spanned<DeValue<'i>>,
        key: &str,
    ) -> Result<&'d DeTable<'i>, PlanError> {
        match value.get_ref() {
            DeValue::Table(table) => Ok(table),
            _ => self.wrong(value.span().start, key, format!("must be a table: [{key}]")),
        }
    }

    /// Calls `take` with the dotted name of each parameter, for any nesting of tables.
    fn flatten<'d, 'i>(
        &self,
        table: &'d DeTable<'i>,
        prefix: &str,
        take: &mut dyn FnMut(String, &'d Spanned<DeValue<'i>>) -> Result<(), PlanError>,
    ) -> Result<(), PlanError> {
        let mut entries: Vec<TomlEntry<'d, 'i>> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            let key = joined(prefix, key.get_ref());
            match value.get_ref() {
                DeValue::Table(inner)
                    if !inner.contains_key("from") && !inner.contains_key("to") =>
                {
                    self.flatten(inner, &key, take)?
                }
                _ => take(settings_key(&key), value)?,
            }
        }
        Ok(())
    }

    fn value(&self, value: &Spanned<DeValue<'_>>, key: &str) -> Result<Value, PlanError> {
        let at = value.span().start;
        Ok(match value.get_ref() {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Boolean(flag) => Value::Flag(*flag),
            DeValue::Integer(number) => {
                match i64::from_str_radix(number.as_str(), number.radix()) {
                    Ok(number) => Value::Integer(number),
                    Err(_) => {
                        return self.wrong(at, key, format!("{} is too large", number.as_str()));
                    }
                }
            }
            DeValue::Float(number) => match number.as_str().parse::<f64>() {
                Ok(number) if number.is_finite() => Value::Number(number),
                _ => {
                    return self.wrong(
                        at,
                        key,
                        format!("{} is not a usable number", number.as_str()),
                    );
                }
            },
            DeValue::Table(table) => {
                let mut made = toml::Table::new();
                for (name, value) in table {
                    made.insert(name.get_ref().to_string(), raw(self.value(value, key)?));
                }
                Value::Table(made)
            }
            DeValue::Datetime(_) => return self.wrong(at, key, "must not be a date"),
            DeValue::Array(_) => {
                return self.wrong(
                    at,
                    key,
                    "must be a single value; a list of values belongs in [axes]",
                );
            }
        })
    }

    fn axis(&self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<Axis, PlanError> {
        let (at, line) = (value.span().start, self.line(value.span().start));
        let values = match value.get_ref() {
            DeValue::Array(list) => {
                let mut values = Vec::new();
                for one in list {
                    values.push((self.value(one, key)?, self.line(one.span().start)));
                }
                let mut seen = BTreeSet::new();
                if let Some((twice, line)) =
                    values.iter().find(|(value, _)| !seen.insert(value.to_string()))
                {
                    return Err(PlanError {
                        line: Some(*line),
                        key: key.to_owned(),
                        text: format!("{twice} is listed twice"),
                    });
                }
                if values.is_empty() {
                    return self.wrong(at, key, "an axis needs at least one value");
                }
                Values::List(values)
            }
            DeValue::Table(table) => Values::Range(self.range(key, table, at)?),
            _ => {
                return self.wrong(
                    at,
                    key,
                    "an axis is a list of values, or \
                        { from = A, to = B, steps = N }; a single value belongs in [base]",
                );
            }
        };
        let axis = Axis { key: key.to_owned(), values, line };
        let whole = !is_fractional(key) && axis.numbers().is_some();
        if let (Values::Range(Range { steps, .. }), true) = (&axis.values, whole) {
            let different: BTreeSet<String> =
                (0..*steps).map(|nth| axis.nth(nth).to_string()).collect();
            if (different.len() as u64) < *steps {
                return self.wrong(
                    at,
                    key,
                    format!("its {steps} steps give only {} whole numbers", different.len()),
                );
            }
        }
        Ok(axis)
    }

    fn range(&self, key: &str, table: &DeTable<'_>, at: usize) -> Result<Range, PlanError> {
        self.known(table, key, &["from", "to", "steps", "log"])?;
        let end = |name: &str| match table.get(name) {
            Some(value) => self.value(value, key),
            None => self.wrong(
                at,
                key,
                format!("a range needs {name}: {{ from = A, to = B, steps = N }}"),
            ),
        };
        let (from, to, scale) = ends(&end("from")?, &end("to")?, is_fractional(key))
            .or_else(|text| self.wrong(at, key, text))?;
        let log = match table.get("log").map(Spanned::get_ref) {
            None => false,
            Some(DeValue::Boolean(log)) => *log,
            Some(_) => return self.wrong(at, key, "log must be true or false"),
        };
        let steps = self.count(table.get("steps"), &format!("{key}.steps"), 2, STEPS_MAX)?;
        let Some(steps) = steps else {
            let text = "a range needs steps: { from = A, to = B, steps = N }";
            return self.wrong(at, key, text);
        };
        if from >= to {
            return self.wrong(at, key, "a range must go from a smaller value to a larger one");
        }
        if log && from <= 0.0 {
            return self.wrong(at, key, "a logarithmic range must be above 0");
        }
        Ok(Range { from, to, steps, log, scale })
    }

    fn count(
        &self,
        value: Option<&Spanned<DeValue<'_>>>,
        key: &str,
        least: u64,
        most: u64,
    ) -> Result<Option<u64>, PlanError> {
        let Some(value) = value else { return Ok(None) };
        match self.value(value, key)? {
            Value::Integer(n) if u64::try_from(n).is_ok_and(|n| (least..=most).contains(&n)) => {
                Ok(Some(n as u64))
            }
            other => self.wrong(
                value.span().start,
                key,
                format!("{other} is not a whole number from {least} to {most}"),
            ),
        }
    }
}

fn joined(prefix: &str, key: &str) -> String {
    if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") }
}

/// Expands `drive` to `drive.name`, and likewise for the other sections.
fn settings_key(key: &str) -> String {
    if settings::SECTIONS.contains(&key) { format!("{key}.name") } else { key.to_owned() }
}

fn raw(value: Value) -> toml::Value {
    match value {
        Value::Text(text) => toml::Value::String(text),
        Value::Integer(number) => toml::Value::Integer(number),
        Value::Number(number) => toml::Value::Float(number),
        Value::Flag(flag) => toml::Value::Boolean(flag),
        Value::Table(table) => toml::Value::Table(table),
    }
}
