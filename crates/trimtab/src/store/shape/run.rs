//! `trimtab.run`: a run as lossless JSON. Version 2 added the run's inputs and its label,
//! version 3 pictures, which are not read any more; older versions are also read.

use crate::store::RunId;
use serde::de::value::{MapAccessDeserializer, StringDeserializer};
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Cow;
use std::fmt;
use trimtab_sim::run::Run;

/// Schema name, as [`Context::report`](trimtab_linux::output::Context::report) takes it.
pub const SCHEMA: &str = "run";
/// Version of the format.
pub const VERSION: u32 = 3;

/// A run, with the additional fields of its document.
#[derive(Clone, Debug, Serialize)]
pub struct RunV1<'a> {
    /// Its id in the store. Derived from the content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// User-assigned label. Not part of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The run.
    #[serde(flatten)]
    pub run: Cow<'a, Run>,
}

impl<'a> RunV1<'a> {
    /// Wraps a run with its id, if it is stored.
    pub fn new(run: &'a Run, id: Option<RunId>) -> Self {
        Self { id: id.map(|id| id.to_string()), label: None, run: Cow::Borrowed(run) }
    }
}

impl<'a> From<&'a Run> for RunV1<'a> {
    fn from(run: &'a Run) -> Self {
        Self::new(run, None)
    }
}

impl From<RunV1<'_>> for Run {
    fn from(shape: RunV1<'_>) -> Self {
        shape.run.into_owned()
    }
}

/// The object's fields, split: those that do not belong to the run go into the first
/// part. Serde's `flatten` would lose the position of an invalid value.
struct Entries<A>(RunV1<'static>, A);

impl<'de, A: MapAccess<'de>> MapAccess<'de> for &mut Entries<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        while let Some(key) = self.1.next_key::<String>()? {
            match key.as_str() {
                "id" => self.0.id = self.1.next_value()?,
                "label" => self.0.label = self.1.next_value()?,
                "schema" => drop(self.1.next_value::<Option<String>>()?),
                "pictures" => drop(self.1.next_value::<IgnoredAny>()?),
                "version" => drop(self.1.next_value::<Option<u32>>()?),
                _ => return seed.deserialize(StringDeserializer::new(key)).map(Some),
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.1.next_value_seed(seed)
    }
}

impl<'de> Deserialize<'de> for RunV1<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RunVisitor;
        impl<'de> Visitor<'de> for RunVisitor {
            type Value = RunV1<'static>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a run")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                let mut entries =
                    Entries(RunV1 { id: None, label: None, run: Cow::Owned(Run::empty()) }, map);
                let run = Run::deserialize(MapAccessDeserializer::new(&mut entries))?;
                Ok(RunV1 { run: Cow::Owned(run), ..entries.0 })
            }
        }
        deserializer.deserialize_map(RunVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::shape::any_run::{any_run, example};
    use proptest::prelude::*;

    fn text(run: &Run) -> String {
        serde_json::to_string(&RunV1::from(run)).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn run_round_trips_through_json(run in any_run()) {
            let back = Run::from(serde_json::from_str::<RunV1>(&text(&run)).unwrap());
            // NaN does not equal itself, but its text does.
            prop_assert_eq!(text(&back), text(&run));
            let no_nan = run.metrics.iter().flat_map(|m| &m.samples).chain(run.series.iter().flat_map(|s| &s.y)).all(|v| !v.is_nan());
            if no_nan {
                prop_assert_eq!(back, run);
            }
        }

        #[test]
        fn truncated_run_is_refused_with_its_line(run in any_run(), at in 0.0_f64..1.0) {
            let text = text(&run);
            let mut cut = (text.len() as f64 * at) as usize;
            while !text.is_char_boundary(cut) {
                cut -= 1;
            }
            let error = serde_json::from_str::<RunV1>(&text[..cut]).unwrap_err();
            prop_assert!(error.line() > 0 && error.is_eof(), "{error}");
        }
    }

    #[test]
    fn run_json_version_1_matches_snapshot() {
        insta::assert_snapshot!(serde_json::to_string_pretty(&RunV1::from(&example())).unwrap());
    }

    #[test]
    fn run_with_impossible_value_is_refused_with_cause() {
        let good = text(&example());
        for (was, is, expected) in [
            (
                r#""samples":[1.25,1.5]"#,
                r#""samples":[]"#,
                "metric 'delete.seconds' has no samples",
            ),
            (
                r#""unit":"s""#,
                r#""unit":"furlongs""#,
                "unknown unit 'furlongs', expected one of s, ns, MB/s",
            ),
            (r#""systems":1"#, r#""systems":0"#, "nonzero"),
            (r#""seed":42"#, r#""seed":-42"#, "u64"),
            (r#""count":4"#, r#""count":5"#, "count is 5, but the buckets hold 4"),
            (r#""x":[1000000000,2000000000]"#, r#""x":[2000000000,1000000000]"#, "do not increase"),
            (r#""x":[1000000000,2000000000]"#, r#""x":[1000000000]"#, "1 x values and 2 y values"),
            (r#""workload":"#, r#""wrokload":"#, "unknown field `wrokload`"),
        ] {
            assert!(good.contains(was), "{was} is in {good}");
            let error = serde_json::from_str::<RunV1>(&good.replacen(was, is, 1)).unwrap_err();
            assert!(error.to_string().contains(expected) && error.line() == 1, "{is}: {error}");
        }
    }
}
