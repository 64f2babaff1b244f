//! Figures of CrystalDiskMark's tests as a picture: two bars per test, in a file of its own.

use super::super::escape::escape;
use super::super::palette;
use std::fmt::Write as _;

/// Width of the picture, margins for names and for the longest bar, and height of a bar.
const WIDTH: f64 = 720.0;
const NAMES: f64 = 150.0;
const LONGEST: f64 = 440.0;
const BAR: f64 = 18.0;
const ABOVE: f64 = 64.0;

/// A test: its name, and read and write rates in 10^6 bytes per second.
pub type CrystalRow = (String, [Option<f64>; 2]);

/// The picture, with `title` and a line `below` it about the machine.
pub fn crystal(title: &str, below: &str, rows: &[CrystalRow]) -> String {
    let most = rows.iter().flat_map(|(_, rates)| rates.iter().flatten()).copied().fold(0.0_f64, f64::max).max(1e-9);
    let height = ABOVE + rows.len() as f64 * (2.0 * BAR + 14.0) + 34.0;
    let mut svg = format!(
        "<svg role=\"img\" aria-label=\"{0}\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" xmlns=\"http://www.w3.org/2000/svg\" font-family=\"sans-serif\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#FFFFFF\"/>\n\
         <text x=\"16\" y=\"26\" font-size=\"17\" font-weight=\"bold\" fill=\"#333333\">{0}</text>\n\
         <text x=\"16\" y=\"46\" font-size=\"12\" fill=\"#333333\">{1}</text>\n",
        escape(title),
        escape(below)
    );
    for (nth, (name, rates)) in rows.iter().enumerate() {
        let top = ABOVE + nth as f64 * (2.0 * BAR + 14.0);
        let _ = writeln!(svg, "<text x=\"16\" y=\"{:.0}\" font-size=\"13\" fill=\"#333333\">{}</text>", top + BAR + 5.0, escape(name));
        for (bar, rate) in rates.iter().enumerate() {
            let Some(rate) = rate else { continue };
            let (y, wide) = (top + bar as f64 * (BAR + 1.0), rate / most * LONGEST);
            // Reads are solid, writes hatched, so that they differ without colour.
            let fill = palette::LIGHT[if bar == 0 { 2 } else { 5 }];
            let _ = writeln!(svg, "<rect x=\"{NAMES}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{BAR}\" fill=\"{fill}\"/>");
            if bar == 1 {
                let lines = (1..(wide / 8.0) as usize).map(|n| format!("M{:.1} {:.1}l6 -{BAR}", NAMES + n as f64 * 8.0 - 6.0, y + BAR));
                let _ = writeln!(svg, "<path d=\"{}\" stroke=\"#FFFFFF\" stroke-width=\"1.5\" fill=\"none\"/>", lines.collect::<String>());
            }
            let at = NAMES + wide + 6.0;
            let _ = writeln!(svg, "<text x=\"{at:.1}\" y=\"{:.1}\" font-size=\"12\" fill=\"#333333\">{rate:.1} MB/s</text>", y + 14.0);
        }
    }
    let y = height - 14.0;
    let legend = [("read", NAMES, palette::LIGHT[2]), ("write (hatched)", NAMES + 90.0, palette::LIGHT[5])];
    for (name, x, fill) in legend {
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{:.0}\" width=\"12\" height=\"12\" fill=\"{fill}\"/><text x=\"{}\" y=\"{y:.0}\" font-size=\"12\" fill=\"#333333\">{name}</text>",
            y - 11.0,
            x + 18.0
        );
    }
    svg.push_str("</svg>\n");
    svg
}
