//! Comparison of published and modelled results.

use super::laptop_disk::{self, LaptopDisk};
use super::score::{self, Score, ScoreRow};
use super::spec::{
    Configuration, ModelledFigures, PastScore, PublishedData, PublishedWorkload, number,
};
use super::{blocks, crystal, files, sustained};
use serde::Serialize;
use std::collections::BTreeMap;
use trimtab::drives::crew;
use trimtab_drive::model;
use trimtab_linux::sys::interrupt;
use trimtab_linux::sys::interrupt::InterruptError;

/// Published against modelled results.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishedComparison {
    /// Total score.
    pub score: Score,
    /// Rows in the order of the published files.
    pub rows: Vec<ScoreRow>,
    /// Scores under earlier decisions; empty for a partial comparison.
    pub history: Vec<PastScore>,
    /// Order of pairs of measurements on one drive.
    pub orders: Vec<Order>,
}

/// Order of two measurements on a drive.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Order {
    /// Row name.
    pub name: String,
    /// Ratio shown.
    pub figure: &'static str,
    /// Published ratio.
    pub published_ratio: f64,
    /// Modelled ratio.
    pub modelled_ratio: f64,
    /// True if both ratios are above 1 or both below.
    pub right: bool,
}

/// Runs the configurations selected by [`Configuration::is_of`] `only`; calls `done`
/// after each.
///
/// # Errors
/// If interrupted, or if data files and drives are inconsistent.
pub fn run(
    plan: &PublishedData,
    only: Option<&str>,
    seed: u64,
    done: &(dyn Fn() + Sync),
) -> anyhow::Result<PublishedComparison> {
    let mut chosen: Vec<(usize, &Configuration)> =
        plan.configurations.iter().filter(|c| c.is_of(only)).enumerate().collect();
    // Longest first, so that no long one runs alone at the end.
    chosen.sort_by_key(|(_, configuration)| std::cmp::Reverse(configuration.of.work()));
    let modelled: Vec<anyhow::Result<(usize, ModelledFigures)>> =
        crew::map(&chosen, |(at, configuration)| {
            let modelled = model(plan, configuration, seed);
            done();
            Ok((*at, modelled?))
        });
    if interrupt::requested() {
        return Err(InterruptError.into());
    }
    let modelled: BTreeMap<usize, ModelledFigures> =
        modelled.into_iter().collect::<anyhow::Result<_>>()?;
    let tried: Vec<(&Configuration, &toml::Table, ModelledFigures)> = plan
        .configurations
        .iter()
        .filter(|c| c.is_of(only))
        .zip(modelled.into_values())
        .map(|(configuration, modelled)| {
            Ok((configuration, plan.published(configuration)?, modelled))
        })
        .collect::<anyhow::Result<_>>()?;
    let mut rows: Vec<ScoreRow> = tried
        .iter()
        .map(|(configuration, _, modelled)| score::row(plan, configuration, modelled))
        .collect::<anyhow::Result<_>>()?;
    score::join_repeats(&mut rows);
    let history = if only.is_none() { plan.history.clone() } else { Vec::new() };
    Ok(PublishedComparison {
        score: score::score(plan, &rows),
        rows,
        history,
        orders: orders(&tried),
    })
}

fn model(
    plan: &PublishedData,
    configuration: &Configuration,
    seed: u64,
) -> anyhow::Result<ModelledFigures> {
    if configuration.drive == laptop_disk::NAME {
        return files::postmark(plan, configuration, Box::new(LaptopDisk::default()), seed);
    }
    let drive = plan.drive(configuration)?;
    let new = || model::build(&drive.spec, seed);
    match configuration.of {
        PublishedWorkload::Postmark => files::postmark(plan, configuration, new()?, seed),
        PublishedWorkload::Tree => files::tree(plan, configuration, new()?, seed),
        PublishedWorkload::Fstrim => files::fstrim(plan, configuration, new()?, seed),
        PublishedWorkload::CrystalDiskMark => crystal::rounds(plan, configuration, &drive, seed),
        PublishedWorkload::Ageing => blocks::ageing(plan, configuration, new()?, seed),
        PublishedWorkload::Sustained => sustained::until_full(&drive, seed),
        PublishedWorkload::Recovery => sustained::recovery(configuration, &drive, seed),
    }
}

/// Orders of policies, and of rates before and after a trim.
fn orders(tried: &[(&Configuration, &toml::Table, ModelledFigures)]) -> Vec<Order> {
    tried
        .iter()
        .filter_map(|(configuration, published, modelled)| {
            let (figure, published_ratio, modelled_ratio) =
                if configuration.of == PublishedWorkload::Recovery {
                    let get = |key: &str| published.get(key).and_then(number);
                    let modelled_ratio =
                        modelled.get("after_trim_MBps")? / modelled.get("dirty_MBps")?;
                    (
                        "rate after trim and idle by dirty",
                        get("after_trim_MBps")? / get("dirty_MBps")?,
                        modelled_ratio,
                    )
                } else {
                    online_by_none(configuration, published, modelled, tried)?
                };
            let right = (published_ratio > 1.0) == (modelled_ratio > 1.0);
            Some(Order {
                name: configuration.name.clone(),
                figure,
                published_ratio,
                modelled_ratio,
                right,
            })
        })
        .collect()
}

/// Ratio of the time with online discard to the time without.
fn online_by_none(
    configuration: &Configuration,
    published: &toml::Table,
    modelled: &ModelledFigures,
    tried: &[(&Configuration, &toml::Table, ModelledFigures)],
) -> Option<(&'static str, f64, f64)> {
    let (_, without, modelled_without) = tried.iter().find(|(c, p, _)| {
        let alike = c.of == configuration.of
            && c.drive == configuration.drive
            && c.filesystem == configuration.filesystem;
        alike && files::online(published) && !files::online(p)
    })?;
    let tree = configuration.of == PublishedWorkload::Tree;
    let seconds = |table: &toml::Table| match tree {
        true => Some(
            table.get("delete_s").and_then(number)?
                + table.get("sync_after_delete_s").and_then(number)?,
        ),
        false => table.get("total_s").and_then(number),
    };
    let key = if tree { files::DELETE_AND_SYNC } else { "total_s" };
    let name = if tree {
        "delete and sync, online discard by none"
    } else {
        "total, online discard by none"
    };
    Some((
        name,
        seconds(published)? / seconds(without)?,
        modelled.get(key)? / modelled_without.get(key)?,
    ))
}
