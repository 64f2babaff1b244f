//! Published measurements beside what the models show for them.
//!
//! What was published is `results.toml`; on which drive and filesystem each figure is tried, and which of them a parameter was fitted
//! on, is `configurations.toml`. The code knows workloads only: no drive and no row.

mod blocks;
mod crystal;
mod files;
pub mod render;
pub mod spec;

use crate::drives;
use crate::error::Interrupted;
use crate::interrupt;
use rayon::prelude::*;
use serde::Serialize;
use spec::{Configuration, Plan, Workload, number};
use std::collections::BTreeMap;

/// Deleting and the sync after it, in seconds.
const DELETE_AND_SYNC: &str = "delete_and_sync_s";
/// That with online discard, by that without.
const DELETE_AND_SYNC_RATIO: &str = "delete_and_sync_ratio";
/// Largest deviation of a fitted figure from the published one, in per cent.
pub const FITTED_TARGET_PERCENT: f64 = 10.0;
/// Largest deviation of a predicted figure.
pub const PREDICTED_TARGET_PERCENT: f64 = 25.0;

/// What a model shows: figures by the name under which they were published.
type Modelled = BTreeMap<&'static str, f64>;

/// Published against modelled.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The rows, as in the published file.
    pub rows: Vec<Row>,
    /// Which policy is slower, on each drive that was measured under two.
    pub orders: Vec<Order>,
}

/// One published result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Workload: the table of the published file.
    pub workload: &'static str,
    /// What it is called.
    pub name: String,
    /// The modelled drive.
    pub drive: String,
    /// Its figures.
    pub figures: Vec<Figure>,
}

/// A published figure and the model's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Name in the published file; the unit comes last.
    pub name: String,
    /// As published.
    pub published: String,
    /// What the published reading can stand for: whole seconds, a range, words.
    pub published_range: [f64; 2],
    /// The model's.
    pub modelled: f64,
    /// What of the model was fitted on this figure; `None` for a prediction.
    pub fitted: Option<String>,
    /// How far the model is from the published figure, or from the nearest end of a published range.
    pub deviation_percent: f64,
    /// How far it may be.
    pub target_percent: f64,
    /// Within the target, or what the published reading can stand for.
    pub met: bool,
    /// Why not, or what else has to be known.
    pub remark: Option<String>,
}

/// The order of two policies on a drive.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Order {
    /// The row with online discard.
    pub name: String,
    /// The figure.
    pub figure: &'static str,
    /// Online discard by none, as published.
    pub published_ratio: f64,
    /// And in the model.
    pub modelled_ratio: f64,
    /// Both above 1, or both below.
    pub right: bool,
}

/// Runs what [`Configuration::is_of`] `only`; `done` is called after each.
///
/// # Errors
/// An interrupt, or data files and drives that do not fit together.
pub fn run(plan: &Plan, only: Option<&str>, seed: u64, done: &(dyn Fn() + Sync)) -> anyhow::Result<Comparison> {
    let chosen: Vec<&Configuration> = plan.configurations.iter().filter(|c| c.is_of(only)).collect();
    let modelled: Vec<anyhow::Result<Modelled>> = chosen
        .par_iter()
        .map(|configuration| {
            let modelled = model(plan, configuration, seed);
            done();
            modelled
        })
        .collect();
    if interrupt::requested() {
        return Err(Interrupted.into());
    }
    let modelled: Vec<Modelled> = modelled.into_iter().collect::<anyhow::Result<_>>()?;
    let tried: Vec<(&Configuration, &toml::Table, Modelled)> =
        chosen.into_iter().zip(modelled).map(|(c, m)| Ok((c, plan.published(c)?, m))).collect::<anyhow::Result<_>>()?;
    let mut rows = Vec::new();
    for (configuration, published, modelled) in &tried {
        rows.push(row(configuration, published, modelled));
    }
    let orders = orders(&tried, &mut rows);
    Ok(Comparison { rows, orders })
}

fn model(plan: &Plan, configuration: &Configuration, seed: u64) -> anyhow::Result<Modelled> {
    let drive = drives::load(&configuration.drive)?;
    match configuration.of {
        Workload::Postmark => files::postmark(plan, configuration, &drive, seed),
        Workload::Tree => files::tree(plan, configuration, &drive, seed),
        Workload::Fstrim => files::fstrim(plan, configuration, &drive, seed),
        Workload::CrystalDiskMark => crystal::rounds(plan, configuration, &drive, seed),
        Workload::Ageing => blocks::ageing(plan, configuration, &drive, seed),
    }
}

fn row(configuration: &Configuration, published: &toml::Table, modelled: &Modelled) -> Row {
    let figures = published.iter().filter_map(|(name, value)| {
        let shown = *modelled.get(name.as_str())?;
        let (text, range) = reading(name, value, configuration.read_as.get(name))?;
        Some(figure(configuration, name, text, range, number(value), shown))
    });
    Row {
        workload: configuration.of.table(),
        name: configuration.name.clone(),
        drive: configuration.drive.clone(),
        figures: figures.collect(),
    }
}

/// A published value as text, and what it can stand for. A whole number of seconds is the difference of two readings of a clock of whole
/// seconds, and 1 is also what PostMark says for 0.
fn reading(name: &str, value: &toml::Value, words: Option<&[f64; 2]>) -> Option<(String, [f64; 2])> {
    if let Some(range) = words {
        return Some((value.as_str().unwrap_or_default().to_owned(), *range));
    }
    if let Some(range) = value.as_array() {
        let (low, high) = (number(range.first()?)?, number(range.get(1)?)?);
        return Some((format!("{low} to {high}"), [low, high]));
    }
    let exact = number(value)?;
    let ticks = f64::from(u8::from(value.is_integer() && name.ends_with("_s")));
    Some((format!("{exact}"), [exact - ticks, exact + ticks]))
}

fn figure(configuration: &Configuration, name: &str, text: String, range: [f64; 2], exact: Option<f64>, modelled: f64) -> Figure {
    let nearest = exact.unwrap_or_else(|| modelled.clamp(range[0], range[1]));
    let deviation_percent = (modelled / nearest - 1.0) * 100.0;
    let fitted = configuration.fitted.get(name).cloned();
    let target_percent = if fitted.is_some() { FITTED_TARGET_PERCENT } else { PREDICTED_TARGET_PERCENT };
    let met = deviation_percent.abs() <= target_percent || (range[0]..=range[1]).contains(&modelled);
    Figure {
        name: name.to_owned(),
        published: text,
        published_range: range,
        modelled,
        fitted,
        deviation_percent,
        target_percent,
        met,
        remark: configuration.remarks.get(name).cloned(),
    }
}

/// The orders of policies; and the ratio of deletions, which was published as a headline, as a figure of the row with online discard.
fn orders(tried: &[(&Configuration, &toml::Table, Modelled)], rows: &mut [Row]) -> Vec<Order> {
    let mut orders = Vec::new();
    for (at, (configuration, published, modelled)) in tried.iter().enumerate().filter(|(_, (_, p, _))| files::online(p)) {
        let partner = tried.iter().find(|(c, p, _)| {
            c.of == configuration.of && c.drive == configuration.drive && c.filesystem == configuration.filesystem && !files::online(p)
        });
        let Some((_, without, modelled_without)) = partner else { continue };
        let seconds = |table: &toml::Table| match configuration.of {
            Workload::Tree => Some(table.get("delete_s").and_then(number)? + table.get("sync_after_delete_s").and_then(number)?),
            _ => table.get("total_s").and_then(number),
        };
        let figure_name = if configuration.of == Workload::Tree { DELETE_AND_SYNC } else { "total_s" };
        let (Some(slow), Some(fast)) = (seconds(published), seconds(without)) else { continue };
        let published_ratio = slow / fast;
        let modelled_ratio = modelled[figure_name] / modelled_without[figure_name];
        if configuration.of == Workload::Tree {
            let text = format!("{published_ratio:.0}");
            let range = [published_ratio; 2];
            rows[at].figures.push(figure(configuration, DELETE_AND_SYNC_RATIO, text, range, Some(published_ratio), modelled_ratio));
        }
        let right = (published_ratio > 1.0) == (modelled_ratio > 1.0);
        orders.push(Order { name: configuration.name.clone(), figure: figure_name, published_ratio, modelled_ratio, right });
    }
    orders
}
