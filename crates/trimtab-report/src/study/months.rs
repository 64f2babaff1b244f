//! Tables and charts of months of use.

use super::words::{erase_cycles, percent, spaced, time_of_use};
use trimtab_drive::units::three_digits;
use trimtab_sim::analysis::change_points::{ChangePointOptions, knees};
use trimtab_sim::run::shown::quantity;
use trimtab_sim::run::{Field, Provenance, Run, Series, Unit, metrics};
use trimtab_study::document::{Chart, ChartLine, Mark, Section, SectionBlock, Table};
use trimtab_study::study::ageing::{
    BEHIND, BURST, BURST_BYTES, BURST_FIRST, BURST_SERIES, CYCLES_PER_TB, MAPPED, RATE_STEADY,
    RATE_STEADY_TRIMS, RATE_STEADY_WAF, STATE_SERIES, SUPERBLOCK_SHARE, TRIM_TIME, WAF_SERIES,
    WAF_STEADY,
};
use trimtab_study::study::metrics::{fills, is_steady, mean, setting};
use trimtab_study::study::verdict::Verdict;
use trimtab_study::study::{Study, policy};

/// Label of the axis of bytes written.
const WRITTEN: &str = "written since filled, GB (10^9 bytes)";
/// Bytes to GB.
const GB: f64 = 1e-9;

fn at<'a>(runs: &'a [Run], fill: &str) -> Vec<&'a Run> {
    runs.iter().filter(|run| setting(run, "fill") == Some(fill)).collect()
}

fn shown(run: &Run, metric: &str, unit: Unit) -> String {
    mean(run, metric).map_or_else(String::new, |value| quantity(value, unit))
}

/// Charts of the months over bytes written, with the knees.
pub(super) fn lines(verdict: &Verdict<'_>) -> Option<Section> {
    let study = verdict.study();
    let mut blocks = Vec::new();
    for fill in fills(&study.ageing) {
        let runs = at(&study.ageing, fill);
        let title = format!("Burst of 4 KiB random writes after idle time, {} full", spaced(fill));
        blocks.extend(over_written(&title, "writes/s", BURST_SERIES, &runs, true));
        let title = format!("Write amplification, {} full", spaced(fill));
        blocks.extend(over_written(
            &title,
            "bytes to flash per byte written",
            WAF_SERIES,
            &runs,
            false,
        ));
    }
    (!blocks.is_empty()).then(|| {
        Section::new(format!("Over {}", time_of_use(verdict.comparison.metrics.days)), blocks)
    })
}

/// The section on ageing: all figures.
pub(super) fn ageing(verdict: &Verdict<'_>) -> Option<Section> {
    let runs = &verdict.study().ageing;
    if runs.is_empty() {
        return None;
    }
    let mut blocks = vec![SectionBlock::Text(explanation(runs))];
    for fill in fills(runs) {
        blocks.push(SectionBlock::Table(table(
            &time_of_use(verdict.comparison.metrics.days),
            fill,
            &at(runs, fill),
        )));
    }
    Some(Section::new("Ageing", blocks))
}

/// Description of the method.
fn explanation(runs: &[Run]) -> String {
    let Some(run) = runs.first() else { return String::new() };
    let value = |key: &str| setting(run, key).unwrap_or("?");
    let aged = Field::find(&run.environment, trimtab_study::study::modelled::AGED_SIZE);
    if run.provenance == Provenance::Measured {
        return "Files are created, grow and are deleted, the same under each policy. On a \
            real drive this takes months, and its write amplification is not visible from \
            outside: study a modelled drive ('trimtab study drive:NAME')."
            .to_owned();
    }
    let burst =
        mean(run, BURST_BYTES).map_or_else(|| "?".to_owned(), |bytes| quantity(bytes, Unit::Bytes));
    format!(
        "Files are created, grow and are deleted at the stated fill until {} times \
            the drive's capacity has been written, {} of it a day, the same under each \
            policy. Contents are {}. 4 KiB random writes go to a file of a twentieth of the \
            drive at the drive's queue depth, on a copy of the drive. Burst: {burst} after \
            hours of idle time, five times per drive-write. Under load: three times near \
            the end, after at least a twentieth of the drive was written without a pause, \
            rounds of churn and random writes alternate until five rounds are steady (SNIA \
            PTS: range within 20 %, slope within 10 %). Run on the same drive scaled to a \
            capacity of {}, {} times faster; bytes, discards and times are converted to the \
            full size.{}",
        value("drive-writes"),
        value("drive-writes-a-day"),
        value("data"),
        aged.unwrap_or("its own"),
        value("scale"),
        smaller_superblocks(run).unwrap_or_default(),
    )
}

/// Errors due to smaller superblocks. docs/method/study-modelled.md has those of full
/// drives and the method.
fn smaller_superblocks(run: &Run) -> Option<String> {
    let share: f64 = Field::find(&run.environment, SUPERBLOCK_SHARE)?.parse().ok()?;
    Some(format!(
        " Superblocks are scaled down too, to {} % of their size. On four drives \
            that were also modelled large with whole superblocks, this changed erase cycles \
            by -15 % to +4 %, and random writes under load by -5 % to +22 %; the order of \
            the policies was the same. '--aged-size' sets another capacity, up to the full \
            one; the time grows with it.",
        three_digits(share * 100.0)
    ))
}

/// Policies as rows, figures as columns.
fn table(after: &str, fill: &str, runs: &[&Run]) -> Table {
    let mut table = Table::new(
        format!(
            "After {after} of churn, {} full; means of the last quarter. Under load: \
                4 KiB random writes once steady by SNIA's rule, or of the later rounds if \
                marked; WAF under load is measured with them. WAF of the churn and wear are \
                the churn's. Burst: random writes after hours of idle time. Life: erase \
                cycles per TB without trimming divided by those under the policy.",
            spaced(fill)
        ),
        &[
            "policy",
            "under load",
            "WAF under load",
            "TRIM's share of that time",
            "burst after idling",
            "burst when filled",
            "WAF of the churn",
            "erase cycles per TB",
            "life",
            "mapped",
            "trims",
            "discards",
            "time trimming",
            "unfinished trims",
        ],
    );
    let none =
        runs.iter().find(|run| run.policy == policy::NONE).and_then(|run| mean(run, CYCLES_PER_TB));
    for run in runs {
        let life = none.zip(mean(run, CYCLES_PER_TB)).filter(|(_, mine)| *mine > 0.0);
        let ratio = |metric: &str| mean(run, metric).map_or_else(String::new, three_digits);
        let share = |metric: &str| {
            mean(run, metric).map_or_else(String::new, |percent| format!("{percent:.0} %"))
        };
        table.row([
            run.policy.clone(),
            under_load(run),
            ratio(RATE_STEADY_WAF),
            mean(run, RATE_STEADY_TRIMS)
                .map_or_else(String::new, |percent| quantity(percent, Unit::Percent)),
            shown(run, BURST, Unit::OpsPerSecond),
            shown(run, BURST_FIRST, Unit::OpsPerSecond),
            ratio(WAF_STEADY),
            mean(run, CYCLES_PER_TB).map_or_else(String::new, erase_cycles),
            life.map_or_else(String::new, |(none, mine)| percent(none / mine)),
            share(MAPPED),
            shown(run, "trims", Unit::Count),
            shown(run, metrics::DISCARD_COMMANDS, Unit::Count),
            time_trimming(run),
            share(BEHIND),
        ]);
    }
    table
}

/// The filesystem's own discards are no passes, so their time is not counted.
fn time_trimming(run: &Run) -> String {
    match run.policy.as_str() {
        policy::ONLINE => "not counted".to_owned(),
        _ => shown(run, TRIM_TIME, Unit::Seconds),
    }
}

/// Random writes under load, marked if they were not steady.
fn under_load(run: &Run) -> String {
    format!(
        "{}{}",
        shown(run, RATE_STEADY, Unit::OpsPerSecond),
        if is_steady(run) { "" } else { " (not steady)" }
    )
}

fn series<'a>(run: &'a Run, name: &str) -> Option<&'a Series> {
    run.series.iter().find(|series| series.name == name && !series.x.is_empty())
}

fn line(name: &str, series: &Series, y_scale: f64) -> ChartLine {
    let points = series.x.iter().zip(&series.y).map(|(x, y)| (*x as f64 * GB, y * y_scale));
    ChartLine { name: name.to_owned(), points: points.collect() }
}

/// A line for each policy, with its knee.
fn over_written(
    title: &str,
    unit: &str,
    name: &str,
    runs: &[&Run],
    marked: bool,
) -> Option<SectionBlock> {
    let lines: Vec<ChartLine> =
        runs.iter().filter_map(|run| Some(line(&run.policy, series(run, name)?, 1.0))).collect();
    let mut marks = Vec::new();
    if marked {
        marks.extend(runs.iter().filter_map(|run| knee(run, name)));
    }
    (!lines.is_empty()).then(|| {
        SectionBlock::Chart(Chart::lines(
            format!("{title}, over bytes written"),
            WRITTEN,
            unit,
            lines,
            marks,
        ))
    })
}

/// The steepest fall of a rate.
fn knee(run: &Run, name: &str) -> Option<Mark> {
    let series = series(run, name)?;
    let found = knees(&series.y, &ChangePointOptions::default());
    let deepest =
        found.iter().max_by(|a, b| (a.before - a.after).total_cmp(&(b.before - b.after)))?;
    let x = series.begins_at(deepest.index) as f64 * GB;
    Some(Mark {
        x,
        label: format!(
            "{}: {} → {}",
            run.policy,
            three_digits(deepest.before),
            three_digits(deepest.after)
        ),
    })
}

/// State of the drive's blocks over bytes written, for the first policy and the
/// recommended one.
pub(super) fn states(study: &Study, recommended: Option<&str>) -> Option<Section> {
    let fill = fills(&study.ageing).first().copied()?.to_owned();
    let runs = at(&study.ageing, &fill);
    let wanted = [Some(policy::NONE), recommended.filter(|name| *name != policy::NONE)];
    let mut blocks = Vec::new();
    for run in
        wanted.into_iter().flatten().filter_map(|name| runs.iter().find(|run| run.policy == name))
    {
        let lines: Vec<ChartLine> = ["mapped", "stale", "free", "trimmed"]
            .into_iter()
            .filter_map(|state| {
                Some(line(state, series(run, &format!("{STATE_SERIES}{state}"))?, GB))
            })
            .collect();
        if !lines.is_empty() {
            let title =
                format!("State of the drive under '{}', {} full", run.policy, spaced(&fill));
            blocks.push(SectionBlock::Chart(Chart::lines(
                title,
                WRITTEN,
                "GB (10^9 bytes)",
                lines,
                Vec::new(),
            )));
        }
    }
    if blocks.is_empty() {
        return None;
    }
    blocks.insert(
        0,
        SectionBlock::Text(
            "Mapped: blocks that the drive regards as data, needed by the filesystem \
                or not. Stale: overwritten copies, not yet erased. Free: erased flash. \
                Trimmed: addresses trimmed and not written since; mapped plus trimmed is \
                all that was ever written."
                .to_owned(),
        ),
    );
    Some(Section::new("State of the drive's blocks", blocks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaller_superblocks_are_reported_with_their_size() {
        let mut run = crate::any_run::example();
        assert_eq!(smaller_superblocks(&run), None);
        run.environment.push(Field::new(SUPERBLOCK_SHARE, "0.199"));
        assert!(smaller_superblocks(&run).unwrap().contains("to 19.9 % of their size"));
    }
}
