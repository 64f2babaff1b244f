//! Finished rounds of probes, saved after each one, so that `--resume` measures only the
//! rest.

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
use trimtab_study::learn::probes::{Findings, SHORTEST_NS};

/// Largest file of rounds, in bytes.
const BYTES_MAX: u64 = 16 << 20;
/// Largest valid figure: 31 years.
const VALUE_NS_MAX: f64 = 1e18;

/// File with the rounds of one twin, next to the twins.
#[derive(Debug)]
pub struct SavedRounds {
    directory: Dir,
    name: OsString,
    /// The settings that the rounds depend on: the drive and the probes.
    asked: Value,
}

#[derive(Serialize, Deserialize)]
struct SavedRoundsFile<A, R, W> {
    asked: A,
    /// Size of the probed area, in bytes.
    area: u64,
    rounds: R,
    /// Results of the whole-drive probes, once finished.
    whole: Option<W>,
}

/// True if all figures are valid times with a known scatter.
fn are_possible(found: &Findings) -> bool {
    found.observations.iter().all(|one| (SHORTEST_NS..VALUE_NS_MAX).contains(&one.value_ns) && one.sigma.is_finite() && one.sigma > 0.0)
}

/// Saved results.
#[derive(Default)]
pub(super) struct SavedResults {
    /// Size of the probed area in bytes; `None` if nothing was saved.
    pub area: Option<u64>,
    /// Finished rounds.
    pub rounds: Vec<Round>,
    /// Results for the whole drive, if finished.
    pub whole: Option<WholeDrive>,
}

impl SavedRounds {
    /// The file for one drive, identified by [`twins::which`].
    pub fn new(context: &Context, which: &str, asked: Value) -> anyhow::Result<Self> {
        let path = twins::file(context, which)?.with_extension("rounds");
        let (directory, name) = Dir::of_file(&path).with_context(|| format!("cannot use {}", path.display()))?;
        Ok(Self { directory, name, asked })
    }

    /// Loads the saved results for the same drive and probes.
    pub(super) fn load(&self) -> anyhow::Result<SavedResults> {
        let none = || UsageError::new("nothing to resume: no round of these probes was finished").hint("leave out --resume");
        let mut text = String::new();
        match self.directory.open_read(&self.name) {
            Ok(file) if named::is_open_to_others(&file) => {
                let what = "the saved rounds belong to another user or are writable by other users";
                return Err(UsageError::missing(what).hint("leave out --resume").into());
            }
            Ok(file) => file.take(BYTES_MAX).read_to_string(&mut text).context("cannot read the saved rounds")?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(none().into()),
            Err(error) => return Err(error).context("cannot open the saved rounds"),
        };
        let written: SavedRoundsFile<Value, Vec<Round>, WholeDrive> = serde_json::from_str(&text).map_err(|_| none())?;
        let found = written.rounds.iter().map(|round| &round.found);
        if !found.chain(written.whole.as_ref().map(|whole| &whole.found)).all(are_possible) {
            let what = "the saved rounds contain an impossible figure: they were changed or damaged";
            return Err(UsageError::new(what).hint("leave out --resume").into());
        }
        if written.asked != self.asked {
            let what = "the saved rounds are for another drive or other probes";
            return Err(UsageError::new(what).hint("give the same budget, limits, seed and rest as before, or leave out --resume").into());
        }
        Ok(SavedResults { area: Some(written.area), rounds: written.rounds, whole: written.whole })
    }

    /// Saves the results, replacing earlier ones.
    pub(super) fn save(&self, area: u64, rounds: &[Round], whole: Option<&WholeDrive>) -> anyhow::Result<()> {
        let written = SavedRoundsFile { asked: &self.asked, area, rounds, whole };
        let text = serde_json::to_string(&written)?;
        let content = |file: &mut std::fs::File| file.write_all(text.as_bytes());
        self.directory.write_atomically(&self.name, PRIVATE_FILE, content).context("cannot save the finished rounds of probes")
    }

    /// Removes the file once the twin is written.
    pub fn remove(&self) -> anyhow::Result<()> {
        self.directory.remove_ours(&self.name).context("cannot remove the saved rounds")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use trimtab_study::learn::Observation;

    #[test]
    fn saved_rounds_load_only_for_same_drive_and_probes() {
        let directory = tempfile::tempdir().unwrap();
        let kept = |asked: Value| {
            let (directory, name) = Dir::of_file(&directory.path().join("x.rounds")).unwrap();
            SavedRounds { directory, name, asked }
        };
        let one = Observation { name: "read 4096 q1".to_owned(), probe: "reads", value_ns: 81_234.5, sigma: 0.02 };
        let found = Findings { observations: vec![one], trim_least: Some((0, 4096)), trim_granularity: None, written: 7, read: 8 };
        let rounds = [Round { found, disturbed: Some("rsync".to_owned()), warnings: vec!["hot".to_owned()] }];
        let said = |kept: &SavedRounds| kept.load().err().unwrap().to_string();
        assert!(said(&kept(json!({ "seed": 1 }))).contains("nothing to resume"));
        kept(json!({ "seed": 1 })).save(9, &rounds, None).unwrap();
        let SavedResults { area, rounds: back, whole } = kept(json!({ "seed": 1 })).load().unwrap();
        assert!(area == Some(9) && whole.is_none());
        assert_eq!((&back[0].found, &back[0].disturbed, &back[0].warnings), (&rounds[0].found, &rounds[0].disturbed, &rounds[0].warnings));
        let of_whole = WholeDrive { found: rounds[0].found.clone(), notes: vec!["full".to_owned()] };
        kept(json!({ "seed": 1 })).save(9, &rounds, Some(&of_whole)).unwrap();
        let whole = kept(json!({ "seed": 1 })).load().unwrap().whole.unwrap();
        assert_eq!((whole.found, whole.notes), (of_whole.found, of_whole.notes), "hours of writes are not repeated");
        assert!(said(&kept(json!({ "seed": 2 }))).contains("for another drive or other probes"));
        let text = std::fs::read_to_string(directory.path().join("x.rounds")).unwrap();
        for impossible in ["0.0", "-1.0", "1e300"] {
            std::fs::write(directory.path().join("x.rounds"), text.replacen("81234.5", impossible, 1)).unwrap();
            assert!(said(&kept(json!({ "seed": 1 }))).contains("an impossible figure"), "{impossible}");
        }
        std::fs::write(directory.path().join("x.rounds"), "{").unwrap();
        assert!(said(&kept(json!({ "seed": 1 }))).contains("nothing to resume"));
        kept(json!({})).remove().unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
