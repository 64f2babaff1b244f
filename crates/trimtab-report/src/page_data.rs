//! Data for the page's script: the charts. Without the script, all of it is still shown.

use super::palette;
use serde_json::{Value, json};
use trimtab_sim::run::pictures::{LatencyMap, SuperblockMap, shares};
use trimtab_study::document::{Chart, ChartKind, Film, LatencyHeatmap};

/// Largest number of superblock characters of a film; further moments are left out.
const FILM_CHARACTERS_MAX: usize = 150_000;

/// A number with six digits, as short as possible.
fn number(value: f64) -> Value {
    if !value.is_finite() {
        return Value::Null;
    }
    let rounded: f64 = format!("{value:.5e}").parse().unwrap_or(value);
    if rounded == rounded.trunc() && rounded.abs() < 1e15 {
        json!(rounded as i64)
    } else {
        json!(rounded)
    }
}

/// A chart with points; `None` for bars, which are static.
pub fn chart(chart: &Chart) -> Option<Value> {
    let head = |kind: &str| json!({ "kind": kind, "title": chart.title, "x": chart.x_label, "y": chart.y_label });
    let mut value = match &chart.kind {
        ChartKind::Lines { lines, marks } => {
            let looks =
                palette::looks(&lines.iter().map(|line| line.name.as_str()).collect::<Vec<_>>());
            let mut value = head("lines");
            let series = lines.iter().zip(looks).map(|(line, look)| {
                let points = line.points.iter().map(|(x, y)| json!([number(*x), number(*y)]));
                json!({ "name": line.name, "look": look, "points": points.collect::<Vec<_>>() })
            });
            value["series"] = series.collect();
            value["marks"] = marks
                .iter()
                .map(|mark| json!({ "x": number(mark.x), "label": mark.label }))
                .collect();
            value["log"] = json!(super::svg::has_log(chart));
            value
        }
        ChartKind::Dots { axes, dots } => {
            let looks = palette::looks_of_marks(
                &dots.iter().map(|dot| dot.name.as_str()).collect::<Vec<_>>(),
            );
            let mut value = head("dots");
            value["axes"] = json!(axes);
            let dot = |(dot, look): (&trimtab_study::document::ScatterPoint, usize)| {
                let x: Vec<Value> = dot.x.iter().map(|x| x.map_or(Value::Null, number)).collect();
                json!({ "name": dot.name, "look": look, "x": x, "y": number(dot.y), "chosen": dot.chosen })
            };
            value["dots"] = dots.iter().zip(looks).map(dot).collect();
            value
        }
        ChartKind::Bars { .. } => return None,
    };
    value["decades"] = json!(true);
    Some(value)
}

/// The superblocks.
pub fn film(film: &Film) -> Value {
    let all: usize = film.drives.iter().map(|(_, map)| map.needed.len() * 4).sum();
    let every = all.div_ceil(FILM_CHARACTERS_MAX).max(1);
    let drives: Vec<Value> =
        film.drives.iter().map(|(name, map)| drive(name, map, every)).collect();
    json!({ "kind": "film", "title": film.title, "x": film.x_label, "scale": film.x_scale, "shown": film.shown, "drives": drives })
}

fn drive(name: &str, map: &SuperblockMap, every: usize) -> Value {
    let each = map.superblocks as usize;
    let last = map.x.len().saturating_sub(1);
    let moments: Vec<usize> =
        (0..map.x.len()).filter(|at| at.is_multiple_of(every) || *at == last).collect();
    let kept = |values: &[u8]| {
        moments
            .iter()
            .map(|at| shares::text(&values[at * each..(at + 1) * each]))
            .collect::<String>()
    };
    let mut value = json!({
        "name": name, "superblocks": each, "x": moments.iter().map(|at| map.x[*at]).collect::<Vec<_>>(),
        "needed": kept(&map.needed), "unneeded": kept(&map.unneeded), "stale": kept(&map.stale),
    });
    if map.one_bit.contains(&1) {
        value["one_bit"] = json!(kept(&map.one_bit));
    }
    value
}

/// Latencies over time: the start of each bucket, in seconds.
pub fn heat(heat: &LatencyHeatmap) -> Value {
    let buckets = || heat.maps.iter().flat_map(|(_, map)| map.cells.iter().map(|cell| cell.1));
    let (low, high) = (buckets().min().unwrap_or(8), buckets().max().unwrap_or(8) + 1);
    let edges: Vec<Value> =
        (low..=high).map(|bucket| number(LatencyMap::least(bucket).as_secs_f64())).collect();
    let map = |(name, map): &(String, LatencyMap)| {
        let cells: Vec<Value> = map
            .cells
            .iter()
            .map(|(column, bucket, count)| json!([column, bucket - low, count]))
            .collect();
        json!({ "name": name, "every": number(map.every.as_secs_f64()), "cells": cells, "trimming": map.trimming, "longest": map.longest_in_words() })
    };
    let maps: Vec<Value> = heat.maps.iter().map(map).collect();
    json!({ "kind": "heat", "title": heat.title, "y": heat.y_label, "shown": heat.shown, "edges": edges, "maps": maps })
}
