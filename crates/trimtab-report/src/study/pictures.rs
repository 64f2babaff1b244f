//! Pictures of a study: cost against gain of each policy, the drive over months,
//! latencies during a trim.

use super::tables::baseline;
use super::words::{seconds, spaced};
use trimtab_drive::units::three_digits;
use trimtab_sim::run::pictures::LatencyMap;
use trimtab_sim::run::{Field, Run};
use trimtab_study::document::{
    Chart, ChartKind, Film, LatencyHeatmap, ScatterPoint, Section, SectionBlock,
};
use trimtab_study::study::light_work::BUSY;
use trimtab_study::study::matrix::repeats;
use trimtab_study::study::metrics::AppendLoad;
use trimtab_study::study::policy;
use trimtab_study::study::verdict::Verdict;

/// One mark per policy: longest stall against 4K writes a second, as in the first table.
pub(super) fn cost_and_gain(verdict: &Verdict<'_>) -> Option<Section> {
    let metrics = &verdict.comparison.metrics;
    let fill = metrics.fills.first().copied()?;
    let base = metrics.aged(baseline(metrics), fill)?;
    let dot = |name: &&str| {
        let aged = metrics.aged(name, fill)?;
        let wear = aged.cycles.zip(base.cycles).map(|(mine, base)| (mine / base - 1.0) * 100.0);
        Some(ScatterPoint {
            name: (*name).to_owned(),
            x: vec![Some(aged.rate?), wear],
            y: metrics.worst_latency(name)?.seconds.max(1e-9),
            chosen: verdict.policy() == Some(name),
        })
    };
    let mut dots: Vec<ScatterPoint> = metrics.policies.iter().filter_map(dot).collect();
    if dots.len() < 2 {
        return None;
    }
    let mut axes =
        vec!["4K writes a second".to_owned(), format!("wear against {}, %", base.policy)];
    if dots.iter().any(|dot| dot.x[1].is_none()) {
        // A medium without wear.
        axes.truncate(1);
        dots.iter_mut().for_each(|dot| dot.x.truncate(1));
    }
    let title = finding(&dots, base.policy);
    let x_label = axes[0].clone();
    let chart = Chart {
        title,
        x_label,
        y_label: "longest stall, s".to_owned(),
        kind: ChartKind::Dots { axes, dots },
    };
    let caption = format!(
        "{} full. Lower and further to the right is better. The recommended policy has a ring.",
        spaced(fill)
    );
    let text = "Stall: the longest latency of a durable append (write and fsync), one every 5 \
        s, while the policy trims.";
    let blocks = vec![
        SectionBlock::Chart(chart),
        SectionBlock::Caption(caption),
        SectionBlock::Text(text.to_owned()),
    ];
    Some(Section::new("What each policy costs and gains", blocks))
}

/// The figures of the recommended policy, and those of `baseline`.
fn finding(dots: &[ScatterPoint], baseline: &str) -> String {
    let shown = |dot: &ScatterPoint| {
        let writes = dot.x[0].map(three_digits).unwrap_or_default();
        format!("{}: {writes} 4K writes/s, stall {}", dot.name, seconds(dot.y))
    };
    let chosen = dots.iter().find(|dot| dot.chosen);
    let base = dots.iter().find(|dot| dot.name == baseline && !dot.chosen);
    chosen.into_iter().chain(base).map(shown).collect::<Vec<_>>().join("; ")
}

/// The two policies to compare: none, and the recommended one or else the last.
fn two(names: &[&str], first: &str, second: Option<&str>) -> [usize; 2] {
    let at = |name: &str| names.iter().position(|other| *other == name);
    let left = at(first).unwrap_or(0);
    let right = second
        .and_then(at)
        .filter(|right| *right != left)
        .unwrap_or_else(|| (0..names.len()).rfind(|at| *at != left).unwrap_or(left));
    [left, right]
}

/// The drive's erase blocks under each policy.
pub(super) fn drive(verdict: &Verdict<'_>) -> Option<Section> {
    let metrics = &verdict.comparison.metrics;
    let fill = metrics.fills.first().copied()?;
    let runs: Vec<&Run> = metrics
        .ageing
        .iter()
        .filter(|figures| figures.fill == fill)
        .map(|figures| figures.run)
        .collect();
    let drives: Vec<_> = runs
        .iter()
        .filter_map(|run| Some((run.policy.clone(), run.pictures.superblocks.clone()?)))
        .collect();
    let names: Vec<&str> = drives.iter().map(|(name, _)| name.as_str()).collect();
    if names.is_empty() {
        return None;
    }
    let aged = runs
        .first()
        .and_then(|run| Field::find(&run.environment, trimtab_study::study::modelled::AGED_SIZE))
        .map(str::to_owned);
    let film = Film {
        title: format!("Final content of the drive's erase blocks, {} full", spaced(fill)),
        x_label: "GB written since filled".to_owned(),
        x_scale: 1e-9,
        shown: two(&names, policy::NONE, verdict.recommendation.trimming_policy()),
        drives,
    };
    let text = format!(
        "Without TRIM, the drive keeps data that the filesystem deleted long ago. It \
            copies this data whenever it collects garbage, which causes write amplification \
            and wear. The drive is modelled at {}.",
        aged.unwrap_or_else(|| "its own size".to_owned())
    );
    let caption =
        SectionBlock::Caption("Each square is an erase block, filled from below.".to_owned());
    Some(Section::new(
        "The drive itself",
        vec![SectionBlock::Film(film), caption, SectionBlock::Text(text)],
    ))
}

/// Latencies of 50 appends per second during a trim.
pub(super) fn beside_a_trim(verdict: &Verdict<'_>) -> Option<Section> {
    let (study, metrics) = (verdict.study(), &verdict.comparison.metrics);
    let job = study.runs.first()?.workload.as_str();
    let busy = |run: &&Run| {
        run.pictures
            .latencies
            .iter()
            .find(|map| map.phase == BUSY.phase)
            .cloned()
            .map(|map| (run.policy.clone(), map))
    };
    let maps: Vec<(String, LatencyMap)> =
        study.runs.iter().filter(|run| run.workload == job).filter_map(|run| busy(&run)).collect();
    let names: Vec<&str> = maps.iter().map(|(name, _)| name.as_str()).collect();
    let longest = |map: &LatencyMap| map.cells.iter().map(|cell| cell.1).max().unwrap_or(0);
    let chosen = verdict.policy();
    let worst = maps
        .iter()
        .filter(|(name, _)| Some(name.as_str()) != chosen)
        .max_by_key(|(_, map)| longest(map))?
        .0
        .clone();
    let heat = LatencyHeatmap {
        title: format!(
            "50 appends a second during a trim after '{job}': latency of each from its due time"
        ),
        y_label: "from due to done".to_owned(),
        shown: two(&names, &worst, chosen),
        maps,
    };
    let text = "Each column is a moment, each row a latency, darker where there were more. A \
        stall is a wall: every request during it waits for its end, and so do the requests \
        behind it.";
    let mut blocks = vec![SectionBlock::Heat(heat), SectionBlock::Caption(text.to_owned())];
    let repeats =
        study.runs.iter().filter(|run| run.workload == job).map(repeats).max().unwrap_or(1);
    if repeats > 1 {
        blocks.push(SectionBlock::Text(format!(
            "This is the first of {repeats} repeats; the first screen shows the \
                worst latency of all."
        )));
    }
    let worst = metrics
        .policies
        .iter()
        .filter_map(|policy| metrics.worst_latency(policy))
        .filter(|worst| worst.load == AppendLoad::FiftyPerSecond);
    if let Some(worst) = worst.reduce(|a, b| if b.seconds > a.seconds { b } else { a }) {
        blocks.push(SectionBlock::Text(format!(
            "The first screen counts the latency of an append from its start: the \
                longest is {}. Here it counts from the due time, so appends that queue \
                behind a slow one are late, too.",
            seconds(worst.seconds)
        )));
    }
    if metrics
        .worst_latency(policy::NONE)
        .is_some_and(|worst| worst.load == AppendLoad::EveryFiveSeconds)
    {
        let other = "This load differs from that of the first screen, where one append comes \
            every 5 s and never queues: here, 50 a second queue up behind a stall, and \
            their latencies count from their due times.";
        blocks.push(SectionBlock::Text(other.to_owned()));
    }
    Some(Section::new("During a trim", blocks))
}
