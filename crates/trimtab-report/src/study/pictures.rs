//! The picture of a study: cost against gain of each policy.

use super::tables::baseline;
use super::words::{seconds, spaced};
use trimtab_drive::units::three_digits;
use trimtab_study::document::{Chart, ChartKind, ScatterPoint, Section, SectionBlock};
use trimtab_study::study::verdict::Verdict;

/// One mark per policy: p95 stall against 4K writes a second, as in the first table.
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
            y: metrics.append_latency(name)?.seconds.max(1e-9),
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
        y_label: "p95 stall, s".to_owned(),
        kind: ChartKind::Dots { axes, dots },
    };
    let caption = format!(
        "{} full. Lower and further to the right is better. The recommended policy has a ring.",
        spaced(fill)
    );
    let text = "p95 stall: of durable appends (write and fsync), one every 5 s while the policy \
        trims, 1 in 20 takes longer.";
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
        format!("{}: {writes} 4K writes/s, p95 stall {}", dot.name, seconds(dot.y))
    };
    let chosen = dots.iter().find(|dot| dot.chosen);
    let base = dots.iter().find(|dot| dot.name == baseline && !dot.chosen);
    chosen.into_iter().chain(base).map(shown).collect::<Vec<_>>().join("; ")
}
