//! Latencies over time as a static picture.

use super::super::escape::escape;
use std::fmt::Write as _;
use trimtab_drive::units::Nanos;
use trimtab_sim::run::pictures::LatencyMap;
use trimtab_study::document::LatencyHeatmap;

/// Size of one of the two pictures, and its margins.
const WIDTH: f64 = 340.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 46.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 34.0;
/// Shades from few to many operations, light to dark; the style sheet reverses them on
/// dark screens.
pub const SHADES: [&str; 5] = ["#CFE0F5", "#93BBE8", "#5590D8", "#2463B8", "#0B2F6B"];
/// Colour of times with a trim in progress.
pub const TRIMMING: &str = "#F67600";

/// Index of the shade for `count` of at most `most` operations in a cell, by decades.
pub fn shade(count: u64, most: u64) -> usize {
    let (count, most) = ((count as f64).ln_1p(), (most.max(1) as f64).ln_1p());
    ((count / most * SHADES.len() as f64) as usize).min(SHADES.len() - 1)
}

/// The two maps that are shown first, on one vertical scale.
pub fn heat(heat: &LatencyHeatmap) -> Option<String> {
    let shown: Vec<&(String, LatencyMap)> =
        heat.shown.iter().filter_map(|at| heat.maps.get(*at)).collect();
    let buckets = || shown.iter().flat_map(|(_, map)| map.cells.iter().map(|cell| cell.1));
    let (low, high) = (buckets().min()?, buckets().max()? + 1);
    let seconds = |bucket: u32| LatencyMap::least(bucket).as_secs_f64().log10();
    let (bottom, top) = (seconds(low).floor(), seconds(high).max(seconds(low).floor() + 1.0));
    let y = |log: f64| TOP + HEIGHT * (1.0 - (log - bottom) / (top - bottom));
    let mut svg = format!(
        "<svg role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {} {}\" \
            xmlns=\"http://www.w3.org/2000/svg\">\n",
        escape(&heat.title),
        2.0 * (LEFT + WIDTH) + 10.0,
        TOP + HEIGHT + BOTTOM
    );
    for (nth, (name, map)) in shown.iter().enumerate() {
        let left = LEFT + nth as f64 * (LEFT + WIDTH);
        label(&mut svg, left, 14.0, "start", name);
        let mut power = bottom;
        while power <= top {
            let at = y(power);
            let _ = writeln!(
                svg,
                "<path d=\"M{left:.0} {at:.1}h{WIDTH:.0}\" stroke=\"#DDDDDD\" fill=\"none\"/>"
            );
            label(
                &mut svg,
                left - 4.0,
                at + 4.0,
                "end",
                &Nanos((10_f64.powf(power) * 1e9).round() as u64).to_string().replace(".00", ""),
            );
            power += 1.0;
        }
        draw(&mut svg, map, left, &|bucket| y(seconds(bucket)));
        label(
            &mut svg,
            left + WIDTH / 2.0,
            TOP + HEIGHT + 28.0,
            "middle",
            &format!("{:.0} s, by time of the request", last(map)),
        );
    }
    svg.push_str("</svg>");
    Some(svg)
}

/// Time of the last request in `map`, in seconds.
fn last(map: &LatencyMap) -> f64 {
    let column = map.cells.last().map_or(0, |cell| cell.0) + 1;
    f64::from(column) * map.every.as_secs_f64()
}

fn label(svg: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    let text = escape(text);
    let _ = writeln!(
        svg,
        "<text x=\"{x:.0}\" y=\"{y:.0}\" text-anchor=\"{anchor}\" \
            font-family=\"sans-serif\" font-size=\"12\" fill=\"#333333\">{text}</text>"
    );
}

fn draw(svg: &mut String, map: &LatencyMap, left: f64, y: &dyn Fn(u32) -> f64) {
    let columns = f64::from(map.cells.last().map_or(0, |cell| cell.0) + 1);
    let wide = WIDTH / columns;
    let most = map.cells.iter().map(|cell| cell.2).max().unwrap_or(1);
    let mut paths = [const { String::new() }; SHADES.len()];
    for (column, bucket, count) in &map.cells {
        let (x, top, bottom) = (left + f64::from(*column) * wide, y(bucket + 1), y(*bucket));
        let _ = write!(
            paths[shade(*count, most)],
            "M{x:.1} {top:.1}h{:.1}v{:.1}h-{:.1}z",
            wide + 0.2,
            bottom - top + 0.2,
            wide + 0.2
        );
    }
    for (path, shade) in paths.iter().zip(SHADES).filter(|(path, _)| !path.is_empty()) {
        let _ = writeln!(svg, "<path d=\"{path}\" fill=\"{shade}\"/>");
    }
    let band: String = map
        .trimming
        .iter()
        .filter(|column| f64::from(**column) < columns)
        .map(|column| {
            format!(
                "M{:.1} {:.1}h{:.1}v5h-{:.1}z",
                left + f64::from(*column) * wide,
                TOP + HEIGHT + 4.0,
                wide + 0.2,
                wide + 0.2
            )
        })
        .collect();
    if !band.is_empty() {
        let _ = writeln!(svg, "<path d=\"{band}\" fill=\"{TRIMMING}\"/>");
    }
}
