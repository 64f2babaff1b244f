//! Host and NAND writes.

use super::{Attribute, SECTORS_WRITTEN, sector_bytes, statistic};
use crate::wear::names::{PageName, Side, Unit, WriteName, page_name, write_name};
use crate::wear::value::{Fields, count};
use crate::wear::{Counter, RawCounter, Reading, WafCounters, WafUnit, amount};
use serde_json::Value;

/// Two counters of the same writes may differ by this part, because they are not read at
/// the same moment.
const TOLERANCE: f64 = 0.01;
/// A drive with this percentage of its rated life used was written at least once in full.
const USED_WRITTEN_ONCE: u64 = 3;

/// The reason for not believing a unit of sectors.
const CONTRADICTED: &str = "in sectors, it would be less than the drive's capacity, but the \
    drive is worn";

/// An attribute with a documented unit.
struct Candidate {
    side: Side,
    counter: Counter,
    /// The name itself states bytes, which sectors do not.
    is_explicit: bool,
    /// Name of a counter of one kind of flash cell.
    cell: Option<String>,
}

/// Fills in the counters of writes and their ratio.
pub fn read(
    document: &Value,
    attributes: &[Attribute],
    reading: &mut Reading,
    fields: &mut Fields,
) {
    let sector = sector_bytes(document);
    let is_worn = reading.used.as_ref().is_some_and(|used| used.percent >= USED_WRITTEN_ONCE);
    let capacity = count(&document["user_capacity"]["bytes"]).filter(|_| is_worn);
    let least = capacity.unwrap_or(0);
    let mut candidates = Vec::new();
    for attribute in attributes {
        let Some(name) = write_name(&attribute.name) else { continue };
        let Some(raw) = attribute.raw else { continue };
        match candidate(attribute, name, raw, sector, attributes).and_then(|known| {
            // Smartmontools leaves the default name to drives with another unit (its issue 312).
            let is_less = name.unit == Unit::Sectors && raw.saturating_mul(known.0) < least;
            if is_less { Err(CONTRADICTED.to_owned()) } else { Ok(known) }
        }) {
            Ok((step, is_explicit)) => {
                let source = attribute.title();
                let cell = name.is_of_cell.then(|| attribute.name.clone());
                let counter = fields.bytes(raw, step, &source).map(|bytes| Counter {
                    bytes,
                    step_bytes: step,
                    source,
                });
                candidates.extend(counter.map(|counter| Candidate {
                    side: name.side,
                    counter,
                    is_explicit,
                    cell,
                }));
            }
            Err(why) => reading.raw_counters.push(RawCounter {
                id: Some(attribute.id),
                name: attribute.name.clone(),
                raw,
                why,
            }),
        }
    }
    let (host, nand): (Vec<_>, Vec<_>) =
        candidates.into_iter().partition(|candidate| candidate.side == Side::Host);
    let host = best(&host, fields);
    let nand = best(&without_cells(nand), fields);
    let standard = standard(document, sector, fields);
    let is_doubtful = match (&standard, &host) {
        (Some(standard), Some(host)) => {
            disagree(&host.counter, standard).inspect(|text| fields.remark(text.clone())).is_some()
        }
        _ => false,
    };
    reading.waf_counters =
        pages(attributes).or_else(|| bytes(host.as_ref().filter(|_| !is_doubtful), nand.as_ref()));
    reading.host_written = standard.or(host.map(|host| host.counter));
    reading.nand_written = nand.map(|nand| nand.counter);
}

/// Bytes of one step, and whether the name itself states them; or the reason why the unit
/// is unknown.
fn candidate(
    of: &Attribute,
    name: WriteName,
    raw: u64,
    sector: Option<u64>,
    all: &[Attribute],
) -> Result<(u64, bool), String> {
    let is_rest = |other: &Attribute| {
        write_name(&other.name).is_some_and(|part| part.is_part && part.side == name.side)
    };
    let rest = all.iter().find(|other| other.id != of.id && is_rest(other) && other.raw != Some(0));
    if name.is_part || raw > 0 && rest.is_some() {
        return Err("one part of a counter that several attributes hold".to_owned());
    }
    match name.unit {
        Unit::Bytes(bytes) => Ok((bytes, true)),
        Unit::Sectors if of.is_default_name => {
            Err("smartctl does not know this drive, so the name is a default".to_owned())
        }
        Unit::Sectors => sector
            .map(|bytes| (bytes, false))
            .ok_or_else(|| "the drive does not state its sector size".to_owned()),
        Unit::Unknown => Err("its name states none".to_owned()),
    }
}

/// Data that the host wrote, from the log that the ATA standard defines.
fn standard(document: &Value, sector: Option<u64>, fields: &mut Fields) -> Option<Counter> {
    let sectors = fields.count(statistic(document, SECTORS_WRITTEN)?, "value")?;
    let source = format!("ATA device statistics, {SECTORS_WRITTEN}");
    let Some(step_bytes) = sector else {
        fields.remark(format!("{source}: {sectors} sectors, whose size the drive does not state"));
        return None;
    };
    Some(Counter { bytes: fields.bytes(sectors, step_bytes, &source)?, step_bytes, source })
}

/// The counter whose name states bytes; among equals, the one that counted more. A remark
/// says which others disagree.
fn best(candidates: &[Candidate], fields: &mut Fields) -> Option<Candidate> {
    let best = candidates
        .iter()
        .max_by_key(|candidate| (candidate.is_explicit, candidate.counter.bytes))?;
    for other in candidates {
        if let Some(text) = disagree(&other.counter, &best.counter) {
            fields.remark(text);
        }
    }
    let (counter, cell) = (best.counter.clone(), best.cell.clone());
    Some(Candidate { counter, cell, ..*best })
}

/// One counter in place of those of each kind of cell: their sum, unless a counter of all
/// exists.
fn without_cells(nand: Vec<Candidate>) -> Vec<Candidate> {
    let (cells, mut whole): (Vec<_>, Vec<_>) =
        nand.into_iter().partition(|candidate| candidate.cell.is_some());
    if !whole.is_empty() || cells.is_empty() {
        return whole;
    }
    let counters = || cells.iter().map(|cell| &cell.counter);
    let bytes = counters().try_fold(0_u64, |sum, counter| sum.checked_add(counter.bytes));
    let source =
        counters().map(|counter| counter.source.as_str()).collect::<Vec<_>>().join(" and ");
    let step_bytes = counters().map(|counter| counter.step_bytes).fold(0, u64::saturating_add);
    whole.extend(bytes.map(|bytes| Candidate {
        side: Side::Nand,
        counter: Counter { bytes, step_bytes, source },
        is_explicit: true,
        cell: None,
    }));
    whole
}

/// A remark if two counters of the same writes differ by more than their steps.
fn disagree(one: &Counter, trusted: &Counter) -> Option<String> {
    let slack = one.step_bytes.max(trusted.step_bytes) as f64
        + one.bytes.max(trusted.bytes) as f64 * TOLERANCE;
    (one.bytes.abs_diff(trusted.bytes) as f64 > slack).then(|| {
        let (value, other) = (amount(one.bytes), amount(trusted.bytes));
        format!(
            "{} would be {value}, but {} is {other}: the latter is used",
            one.source, trusted.source
        )
    })
}

/// Pages programmed for the host, and in all.
fn pages(attributes: &[Attribute]) -> Option<WafCounters> {
    let find = |which: PageName| {
        attributes.iter().find(|attribute| page_name(&attribute.name) == Some(which))
    };
    let (host, background) = (find(PageName::Host)?, find(PageName::Background)?);
    let source = format!("{} and {}", host.title(), background.title());
    let (host, background) = (host.raw?, background.raw?);
    Some(WafCounters {
        host,
        nand: host.checked_add(background)?,
        unit: WafUnit::Pages,
        host_step: 1,
        nand_step: 1,
        source,
    })
}

fn bytes(host: Option<&Candidate>, nand: Option<&Candidate>) -> Option<WafCounters> {
    Some(WafCounters::of_bytes(&host?.counter, &nand?.counter))
}
