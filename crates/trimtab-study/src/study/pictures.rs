//! The pictures of a study: what each policy costs against what it gains, the drive itself over months, latencies beside a trim.

use super::answer::{longest_wait, policies};
use super::judged::Judged;
use super::light_work::{BUSY, SPARSE};
use super::matrix::repeats;
use super::months::{fills, setting, spaced};
use super::{advice, policy, waits};
use crate::document::{Block, Chart, ChartKind, Dot, Film, Heat, Section};
use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use trimtab_sim::run::pictures::LatencyMap;
use trimtab_sim::run::shown::quantity;
use trimtab_sim::run::{Field, Run, Unit};

/// One mark a policy: the longest wait of others against what is gained over months.
pub fn cost_and_gain(study: &Judged<'_>) -> Option<Section> {
    let fill = fills(&study.ageing).first().copied()?;
    let chosen = study.policy();
    let dot = |name: &str| {
        let gains = advice::gains(study, name);
        let gain = gains.iter().find(|gain| gain.fill == fill)?;
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        Some(Dot {
            name: name.to_owned(),
            x: vec![gain.life.map(percent), Some(percent(gain.rate))],
            y: longest_wait(study, name)?.max(1e-9),
            chosen: chosen == Some(name),
        })
    };
    let mut dots: Vec<Dot> = policies(study).into_iter().filter_map(dot).collect();
    if dots.len() < 2 {
        return None;
    }
    let mut axes = vec!["life gained, %".to_owned(), "random writes gained, %".to_owned()];
    if dots.iter().any(|dot| dot.x[0].is_none()) {
        // A medium that does not wear.
        axes.remove(0);
        for dot in &mut dots {
            dot.x.remove(0);
        }
    }
    let chart = Chart {
        title: format!("What each policy costs and gains, {} full", spaced(fill)),
        x_label: axes[0].clone(),
        y_label: "longest wait of others, s".to_owned(),
        kind: ChartKind::Dots { axes, dots },
    };
    let text = "How long one append of somebody else, made durable, takes at most beside the policy's trims, against what use gains by it over no \
                trimming.";
    let caption = "Lower is better, and further to the right. The one that is recommended has a ring.";
    let blocks = vec![Block::Chart(chart), Block::Text(text.to_owned()), Block::Caption(caption.to_owned())];
    Some(Section::new("What it costs and what it gains", blocks))
}

/// Which two policies to look at beside each other: none, and the recommended one or else the last.
fn two(names: &[&str], first: &str, second: Option<&str>) -> [usize; 2] {
    let at = |name: &str| names.iter().position(|other| *other == name);
    let left = at(first).unwrap_or(0);
    let right =
        second.and_then(at).filter(|right| *right != left).unwrap_or_else(|| (0..names.len()).rfind(|at| *at != left).unwrap_or(left));
    [left, right]
}

/// The superblocks of the drive under each policy.
pub fn drive(study: &Judged<'_>) -> Option<Section> {
    let fill = fills(&study.ageing).first().copied()?;
    let runs: Vec<&Run> = study.ageing.iter().filter(|run| setting(run, "fill") == Some(fill)).collect();
    let drives: Vec<_> = runs.iter().filter_map(|run| Some((run.policy.clone(), run.pictures.superblocks.clone()?))).collect();
    let names: Vec<&str> = drives.iter().map(|(name, _)| name.as_str()).collect();
    if names.is_empty() {
        return None;
    }
    let aged = runs.first().and_then(|run| Field::find(&run.environment, "drive.aged-size")).map(str::to_owned);
    let film = Film {
        title: format!("What the superblocks of the drive hold in the end, {} full", spaced(fill)),
        x_label: "GB written since filled".to_owned(),
        x_scale: 1e-9,
        shown: two(&names, policy::NONE, study.policy().filter(|name| *name != policy::NONE)),
        drives,
    };
    let text = format!(
        "Without trimming the drive goes on keeping what the filesystem deleted long ago: it cannot know. \
         It moves these data about whenever it collects garbage, which is what write amplification and wear come from. The drive is modelled at {}.",
        aged.unwrap_or_else(|| "its size".to_owned())
    );
    let caption = Block::Caption("Each square is a superblock, filled from below.".to_owned());
    Some(Section::new("The drive itself", vec![Block::Film(film), caption, Block::Text(text)]))
}

/// How long 50 appends a second take while a trim is under way.
pub fn beside_a_trim(study: &Judged<'_>) -> Option<Section> {
    let job = study.runs.first()?.workload.as_str();
    let busy = |run: &&Run| run.pictures.latencies.iter().find(|map| map.phase == BUSY.phase).cloned().map(|map| (run.policy.clone(), map));
    let maps: Vec<(String, LatencyMap)> = study.runs.iter().filter(|run| run.workload == job).filter_map(|run| busy(&run)).collect();
    let names: Vec<&str> = maps.iter().map(|(name, _)| name.as_str()).collect();
    let longest = |map: &LatencyMap| map.cells.iter().map(|cell| cell.1).max().unwrap_or(0);
    let chosen = study.policy();
    let worst = maps.iter().filter(|(name, _)| Some(name.as_str()) != chosen).max_by_key(|(_, map)| longest(map))?.0.clone();
    let heat = Heat {
        title: format!("50 appends a second beside a trim after '{job}': how long each took from when it was due"),
        y_label: "from due to done".to_owned(),
        shown: two(&names, &worst, chosen),
        maps,
    };
    let text = "Each column is a moment, each row a latency, darker where there were more. A stall is a wall: whoever comes during it waits until it is over, \
                and those behind them too.";
    let mut blocks = vec![Block::Heat(heat), Block::Caption(text.to_owned())];
    let repeats = study.runs.iter().filter(|run| run.workload == job).map(repeats).max().unwrap_or(1);
    if repeats > 1 {
        blocks.push(Block::Text(format!("Shown is the first of {repeats} repeats; the first screen has the longest time of all of them.")));
    }
    let longest_of = |policy| waits::longest(study, policy);
    let measured = policies(study).into_iter().filter_map(longest_of).filter(|longest| longest.every == BUSY.interval);
    if let Some(longest) = measured.reduce(|a, b| if b.seconds > a.seconds { b } else { a }) {
        blocks.push(Block::Text(format!(
            "The first screen has what one append took by itself, from when it began: at most {}. Here each counts from when it was due: those that queue up \
             behind a slow one are late, too.",
            quantity(longest.seconds, Unit::Seconds)
        )));
    }
    if longest_of(policy::NONE).is_some_and(|longest| longest.every == SPARSE.interval) {
        let other = "This is another load than that of the first screen, where one append comes every 5 s and finds the one before done: here 50 a second \
                     queue up behind a stall, and their waits are counted from when they were due.";
        blocks.push(Block::Text(other.to_owned()));
    }
    Some(Section::new("Beside a trim", blocks))
}
