//! The superblocks of two drives at one moment, as a static picture for print and for
//! pages without scripts.

use super::super::escape::escape;
use super::super::palette;
use std::fmt::Write as _;
use trimtab_sim::run::pictures::{SHARE_MAX, SuperblockMap};
use trimtab_study::document::Film;

/// Side of a superblock, and the gap between two.
const CELL: usize = 14;
const GAP: usize = 2;
/// Superblocks in a row.
const COLUMNS: usize = 22;
/// Gap between the two drives.
const BETWEEN: usize = 32;
const ABOVE: usize = 24;

/// The last moment of the two drives that are shown first.
pub fn film(film: &Film) -> Option<String> {
    let shown: Vec<&(String, SuperblockMap)> =
        film.shown.iter().filter_map(|at| film.drives.get(*at)).collect();
    let rows = shown
        .iter()
        .map(|(_, map)| (map.superblocks as usize).div_ceil(COLUMNS))
        .max()
        .filter(|rows| *rows > 0)?;
    let width = COLUMNS * (CELL + GAP);
    let (all, height) = (width * 2 + BETWEEN, ABOVE + rows * (CELL + GAP));
    let mut svg = format!(
        "<svg role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {all} {height}\" \
            xmlns=\"http://www.w3.org/2000/svg\">\n",
        escape(&film.title)
    );
    for (nth, (name, map)) in shown.iter().enumerate() {
        let left = nth * (width + BETWEEN);
        let last = map.x.len().saturating_sub(1);
        let at = map.x.last().map_or(0.0, |x| *x as f64 * film.x_scale);
        let _ = writeln!(
            svg,
            "<text x=\"{left}\" y=\"14\" font-family=\"sans-serif\" font-size=\"13\" \
                fill=\"#333333\">{}: {at:.0} {}</text>",
            escape(name),
            escape(&film.x_label)
        );
        draw(&mut svg, map, last, left);
    }
    svg.push_str("</svg>");
    Some(svg)
}

/// One path per kind of content: bars stacked on each other.
fn draw(svg: &mut String, map: &SuperblockMap, moment: usize, left: usize) {
    let each = map.superblocks as usize;
    let layer = |values: &[u8], at: usize| {
        f64::from(values.get(moment * each + at).copied().unwrap_or(0)) / f64::from(SHARE_MAX)
    };
    let mut paths = [const { String::new() }; 4];
    let mut frames = String::new();
    for at in 0..each {
        let (x, y) = (left + at % COLUMNS * (CELL + GAP), ABOVE + at / COLUMNS * (CELL + GAP));
        let _ = write!(frames, "M{x} {y}h{CELL}v{CELL}h-{CELL}z");
        let mut bottom = (y + CELL) as f64;
        for (nth, values) in [&map.needed, &map.unneeded, &map.stale].into_iter().enumerate() {
            let high = layer(values, at) * CELL as f64;
            if high >= 0.05 {
                bottom -= high;
                let _ = write!(paths[nth], "M{x} {bottom:.1}h{CELL}v{high:.1}h-{CELL}z");
                if nth == 1 && high > 3.0 {
                    // Deleted data is crossed out, so that it differs without colour.
                    let _ = write!(paths[3], "M{x} {:.1}L{} {bottom:.1}", bottom + high, x + CELL);
                }
            }
        }
        if map.one_bit.get(moment * each + at) == Some(&1) {
            let _ = write!(paths[3], "M{} {}h4v4h-4z", x + 5, y + 5);
        }
    }
    let _ = writeln!(svg, "<path d=\"{frames}\" fill=\"none\" stroke=\"#DDDDDD\"/>");
    for (path, fill) in
        paths[..3].iter().zip(palette::HOLDS_LIGHT).filter(|(path, _)| !path.is_empty())
    {
        let _ = writeln!(svg, "<path d=\"{path}\" fill=\"{fill}\"/>");
    }
    if !paths[3].is_empty() {
        let _ = writeln!(
            svg,
            "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.2\"/>",
            paths[3],
            palette::HOLDS_LIGHT[3]
        );
    }
}
