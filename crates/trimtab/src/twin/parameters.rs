//! The parameters of a twin in readable form.

use serde_json::Value;
use trimtab_drive::spec::twin::Parameter;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_study::document::Table;

/// Legend for [`parameters`].
pub const LEGEND: &str = "The estimate is the best-fitting drive's. Measured: identified by the probes; the \
    fitting drives hardly differ. Bounded: the probes leave a range. Typical: no probe \
    identifies it; the interval is that of the class. Spare space excludes the SLC cache.";

/// A table of the twin's parameters.
pub fn parameters(parameters: &[Parameter]) -> Table {
    let mut table = Table::new("", &["field", "estimate", "90 % interval", "known", "from"]);
    for one in parameters {
        let of = |value: u64| shown(&one.field, &Value::from(value));
        let between = if one.low == one.high {
            of(one.low)
        } else {
            format!("{} to {}", of(one.low), of(one.high))
        };
        table.row([
            one.field.clone(),
            of(one.estimate),
            between,
            one.known.name().to_owned(),
            one.source.clone(),
        ]);
    }
    table
}

/// A value in readable form: sizes and durations also in larger units.
pub fn shown(field: &str, value: &Value) -> String {
    if let Some(number) = value.as_u64().filter(|number| *number >= 1000) {
        let name = field.rsplit('.').next().unwrap_or(field);
        if name.ends_with("_ns") {
            return format!("{number} ({})", Nanos(number));
        }
        if name.ends_with("bytes_per_s") {
            return format!("{number} ({}/s)", Bytes(number));
        }
        if name.split('_').any(|word| word == "bytes") {
            return format!("{number} ({})", Bytes(number));
        }
    }
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "none".to_owned(),
        other => other.to_string(),
    }
}
