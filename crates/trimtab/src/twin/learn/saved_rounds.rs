//! Rounds of probes that were finished before somebody lost patience: kept after each, so that `--resume` measures only what is missing.

use super::round::{Round, WholeDrive};
use crate::drives::twins;
use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_linux::sys::beneath::{Dir, PRIVATE_FILE, named};
use trimtab_study::learn::Observation;
use trimtab_study::learn::probes::{self, Findings, SHORTEST_NS};

/// More than any rounds take.
const BYTES_MAX: u64 = 16 << 20;
/// No figure takes longer than that: 31 years.
const VALUE_NS_MAX: f64 = 1e18;

/// Where the rounds of one twin are kept, beside the twins.
#[derive(Debug)]
pub struct Kept {
    directory: Dir,
    name: OsString,
    /// What they depend on: the drive, and what is run.
    asked: Value,
}

#[derive(Serialize, Deserialize)]
struct Written {
    asked: Value,
    /// Bytes of the area that they were made on.
    area: u64,
    rounds: Vec<WrittenRound>,
    /// What the probes of the whole drive found, once they are through; its warnings are what was noticed.
    #[serde(default)]
    whole: Option<WrittenRound>,
}

#[derive(Serialize, Deserialize)]
struct WrittenRound {
    /// The name, the probe, nanoseconds, and by how much the logarithm may be off.
    observations: Vec<(String, String, f64, f64)>,
    trim_least: Option<(u64, u64)>,
    trim_granularity: Option<u64>,
    written: u64,
    read: u64,
    disturbed: Option<String>,
    warnings: Vec<String>,
}

impl WrittenRound {
    /// Whether all figures are times, each known to something.
    fn is_possible(&self) -> bool {
        self.observations
            .iter()
            .all(|(_, _, value_ns, sigma)| (SHORTEST_NS..VALUE_NS_MAX).contains(value_ns) && sigma.is_finite() && *sigma > 0.0)
    }
}

/// What was kept.
#[derive(Default)]
pub(super) struct Before {
    /// Bytes of the area that it was found on; `None` where nothing was kept.
    pub area: Option<u64>,
    /// Rounds of all probes.
    pub rounds: Vec<Round>,
    /// What was found of the whole drive, if that was finished.
    pub whole: Option<WholeDrive>,
}

impl Kept {
    /// Where the rounds on one drive are: which one, as [`twins::which`] has it.
    pub fn new(context: &Context, which: &str, asked: Value) -> anyhow::Result<Self> {
        let path = twins::file(context, which)?.with_extension("rounds");
        let (directory, name) = Dir::of_file(&path).with_context(|| format!("cannot use {}", path.display()))?;
        Ok(Self { directory, name, asked })
    }

    /// What was kept of the same drive and the same probes.
    pub(super) fn load(&self) -> anyhow::Result<Before> {
        let none = || UsageError::new("there is nothing to resume: no round of these probes was finished").hint("leave out --resume");
        let mut text = String::new();
        match self.directory.open_read(&self.name) {
            Ok(file) if named::is_open_to_others(&file) => {
                let what = "the rounds that were kept belong to another user, or others may write to them";
                return Err(UsageError::missing(what).hint("leave out --resume").into());
            }
            Ok(file) => file.take(BYTES_MAX).read_to_string(&mut text).context("cannot read the rounds that were kept")?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(none().into()),
            Err(error) => return Err(error).context("cannot open the rounds that were kept"),
        };
        let written: Written = serde_json::from_str(&text).map_err(|_| none())?;
        if !written.rounds.iter().chain(&written.whole).all(WrittenRound::is_possible) {
            let what = "the rounds that were kept have a figure that no probe finds: they were changed or damaged";
            return Err(UsageError::new(what).hint("leave out --resume").into());
        }
        if written.asked != self.asked {
            let what = "the rounds that were kept are of another drive or of other probes, so there is nothing to continue from";
            return Err(UsageError::new(what).hint("give the same budget, limits, seed and rest as before, or leave out --resume").into());
        }
        let whole = written.whole.map(round).map(|round| WholeDrive { found: round.found, notes: round.warnings });
        Ok(Before { area: Some(written.area), rounds: written.rounds.into_iter().map(round).collect(), whole })
    }

    /// Keeps them, in place of what was kept before.
    pub(super) fn save(&self, area: u64, rounds: &[Round], whole: Option<&WholeDrive>) -> anyhow::Result<()> {
        let whole = whole.map(|whole| as_written(&whole.found, None, &whole.notes));
        let rounds = rounds.iter().map(|round| as_written(&round.found, round.disturbed.as_ref(), &round.warnings)).collect();
        let written = Written { asked: self.asked.clone(), area, rounds, whole };
        let text = serde_json::to_string(&written)?;
        let content = |file: &mut std::fs::File| file.write_all(text.as_bytes());
        self.directory.write_atomically(&self.name, PRIVATE_FILE, content).context("cannot keep the rounds of probes that are finished")
    }

    /// They are not needed any more.
    pub fn remove(&self) -> anyhow::Result<()> {
        self.directory.remove_ours(&self.name).context("cannot remove the rounds of probes that were kept")
    }
}

fn as_written(found: &Findings, disturbed: Option<&String>, warnings: &[String]) -> WrittenRound {
    let observations = found.observations.iter().map(|one| (one.name.clone(), one.probe.to_owned(), one.value_ns, one.sigma));
    WrittenRound {
        observations: observations.collect(),
        trim_least: found.trim_least,
        trim_granularity: found.trim_granularity,
        written: found.written,
        read: found.read,
        disturbed: disturbed.cloned(),
        warnings: warnings.to_vec(),
    }
}

fn round(written: WrittenRound) -> Round {
    let probe = |name: &str| probes::every().map(|probe| probe.name()).find(|known| *known == name).unwrap_or("a probe");
    let one = |(name, by, value_ns, sigma): (String, String, f64, f64)| Observation { name, probe: probe(&by), value_ns, sigma };
    let found = Findings {
        observations: written.observations.into_iter().map(one).collect(),
        trim_least: written.trim_least,
        trim_granularity: written.trim_granularity,
        written: written.written,
        read: written.read,
    };
    Round { found, disturbed: written.disturbed, warnings: written.warnings }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn saved_rounds_load_only_for_same_drive_and_probes() {
        let directory = tempfile::tempdir().unwrap();
        let kept = |asked: Value| {
            let (directory, name) = Dir::of_file(&directory.path().join("x.rounds")).unwrap();
            Kept { directory, name, asked }
        };
        let one = Observation { name: "read 4096 q1".to_owned(), probe: "reads", value_ns: 81_234.5, sigma: 0.02 };
        let found = Findings { observations: vec![one], trim_least: Some((0, 4096)), trim_granularity: None, written: 7, read: 8 };
        let rounds = [Round { found, disturbed: Some("rsync".to_owned()), warnings: vec!["hot".to_owned()] }];
        let said = |kept: &Kept| kept.load().err().unwrap().to_string();
        assert!(said(&kept(json!({ "seed": 1 }))).contains("nothing to resume"));
        kept(json!({ "seed": 1 })).save(9, &rounds, None).unwrap();
        let Before { area, rounds: back, whole } = kept(json!({ "seed": 1 })).load().unwrap();
        assert!(area == Some(9) && whole.is_none());
        assert_eq!((&back[0].found, &back[0].disturbed, &back[0].warnings), (&rounds[0].found, &rounds[0].disturbed, &rounds[0].warnings));
        let of_whole = WholeDrive { found: rounds[0].found.clone(), notes: vec!["full".to_owned()] };
        kept(json!({ "seed": 1 })).save(9, &rounds, Some(&of_whole)).unwrap();
        let whole = kept(json!({ "seed": 1 })).load().unwrap().whole.unwrap();
        assert_eq!((whole.found, whole.notes), (of_whole.found, of_whole.notes), "hours of writing are not for nothing");
        assert!(said(&kept(json!({ "seed": 2 }))).contains("of another drive or of other probes"));
        let text = std::fs::read_to_string(directory.path().join("x.rounds")).unwrap();
        for impossible in ["0.0", "-1.0", "1e300"] {
            std::fs::write(directory.path().join("x.rounds"), text.replacen("81234.5", impossible, 1)).unwrap();
            assert!(said(&kept(json!({ "seed": 1 }))).contains("a figure that no probe finds"), "{impossible}");
        }
        std::fs::write(directory.path().join("x.rounds"), "{").unwrap();
        assert!(said(&kept(json!({ "seed": 1 }))).contains("nothing to resume"));
        kept(json!({})).remove().unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
