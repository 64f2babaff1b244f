//! Charts as inline SVG. Colours are looked up by the page's style sheet, so that one picture serves light, dark and print.

use super::document::{Chart, ChartKind, Line, Mark};
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Width and height of a chart in its own units; the page scales it.
const SIZE: (u32, u32) = (760, 340);

/// The colours of series in light mode. The style sheet maps each to a darker-mode counterpart and a dash pattern by its value,
/// so that colour is never the only carrier of meaning.
pub const PALETTE: [&str; 6] = ["#0B62C4", "#C2410C", "#0F766E", "#7E22CE", "#A16207", "#475569"];
const INK: RGBColor = RGBColor(0x33, 0x33, 0x33);
const GRID: RGBColor = RGBColor(0xDD, 0xDD, 0xDD);
const MARK: RGBColor = RGBColor(0xB9, 0x1C, 0x1C);

type DrawError = Box<dyn std::error::Error>;

/// Draws `chart`; lines on a logarithmic vertical scale if `log`. Gives nothing if there is nothing to draw.
pub fn draw(chart: &Chart, log: bool) -> Option<String> {
    let mut text = String::new();
    let drawn = {
        let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        let result = match &chart.kind {
            ChartKind::Lines { lines, marks } => draw_lines(&root, chart, lines, marks, log),
            ChartKind::Bars { categories, series } => draw_bars(&root, chart, categories, series),
        };
        result.and_then(|drawn| root.present().map(|()| drawn).map_err(Into::into))
    };
    // Writing into a string cannot fail; a chart that cannot be drawn still has its table.
    matches!(drawn, Ok(true)).then(|| scalable(&text, &chart.title))
}

/// The picture without fixed size, with a name for screen readers.
fn scalable(svg: &str, title: &str) -> String {
    let fixed = format!("<svg width=\"{}\" height=\"{}\"", SIZE.0, SIZE.1);
    svg.replacen(&fixed, &format!("<svg role=\"img\" aria-label=\"{}\"", super::html::escape(title)), 1)
}

fn label(size: i32, colour: RGBColor) -> TextStyle<'static> {
    use plotters::style::IntoFont as _;
    TextStyle { color: plotters::style::Color::to_backend_color(&colour), ..("sans-serif", size).into_font().into() }
}

fn colour(index: usize) -> RGBColor {
    let hex = PALETTE[index % PALETTE.len()].trim_start_matches('#');
    let value = u32::from_str_radix(hex, 16).unwrap_or(0);
    RGBColor((value >> 16) as u8, (value >> 8) as u8, value as u8)
}

/// Smallest and largest of the finite values.
fn extent(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|v| v.is_finite()).fold(None, |range, v| match range {
        None => Some((v, v)),
        Some((low, high)) => Some((v.min(low), v.max(high))),
    })
}

fn draw_lines(
    root: &DrawingArea<SVGBackend<'_>, Shift>,
    chart: &Chart,
    lines: &[Line],
    marks: &[Mark],
    log: bool,
) -> Result<bool, DrawError> {
    let points = || lines.iter().flat_map(|line| line.points.iter()).filter(|(_, y)| !log || *y > 0.0);
    let (Some((x_low, x_high)), Some((y_low, y_high))) = (extent(points().map(|p| p.0)), extent(points().map(|p| p.1))) else {
        return Ok(false);
    };
    let x_range = x_low..if x_high > x_low { x_high } else { x_low + 1.0 };
    let mut builder = ChartBuilder::on(root);
    builder.margin(10).set_label_area_size(LabelAreaPosition::Left, 64).set_label_area_size(LabelAreaPosition::Bottom, 44);
    if log {
        let y_range = y_low / 1.2..y_high.max(y_low * 1.01) * 1.2;
        let mut context = builder.build_cartesian_2d(x_range, y_range.clone().log_scale())?;
        // Within less than a decade the powers of ten are no scale.
        let narrow = y_range.end / y_range.start < 10.0;
        mesh(context.configure_mesh().y_labels(if narrow { 0 } else { 6 }), chart)?;
        if narrow {
            for tick in nice_ticks(y_range.start, y_range.end) {
                let ends = [(context.x_range().start, tick), (context.x_range().end, tick)];
                context.draw_series(std::iter::once(PathElement::new(ends, GRID.stroke_width(1))))?;
                let (x, y) = context.plotting_area().map_coordinate(&ends[0]);
                root.draw(&Text::new(short_number(tick), (x - 6, y), anchored(HPos::Right, VPos::Center)))?;
            }
        }
        for (i, line) in lines.iter().enumerate() {
            let points = line.points.iter().copied().filter(|(_, y)| *y > 0.0);
            context.draw_series(LineSeries::new(points, colour(i).stroke_width(2)))?;
        }
        for mark in marks {
            let ends = [(mark.x, y_range.start), (mark.x, y_range.end)];
            context.draw_series(std::iter::once(PathElement::new(ends, MARK.stroke_width(1))))?;
        }
        let area = context.plotting_area();
        mark_labels(root, marks, |mark| area.map_coordinate(&(mark.x, y_range.end)))?;
    } else {
        let top = if y_high > 0.0 { y_high * 1.08 } else { 1.0 };
        let bottom = y_low.min(0.0);
        let mut context = builder.build_cartesian_2d(x_range, bottom..top)?;
        mesh(context.configure_mesh().y_labels(6), chart)?;
        for (i, line) in lines.iter().enumerate() {
            context.draw_series(LineSeries::new(line.points.iter().copied(), colour(i).stroke_width(2)))?;
        }
        for mark in marks {
            context.draw_series(std::iter::once(PathElement::new([(mark.x, bottom), (mark.x, top)], MARK.stroke_width(1))))?;
        }
        let area = context.plotting_area();
        mark_labels(root, marks, |mark| area.map_coordinate(&(mark.x, top)))?;
    }
    Ok(true)
}

/// Writes what the marks mean, one line below another, towards the middle of the picture.
fn mark_labels(root: &DrawingArea<SVGBackend<'_>, Shift>, marks: &[Mark], place: impl Fn(&Mark) -> (i32, i32)) -> Result<(), DrawError> {
    for (row, mark) in marks.iter().enumerate() {
        let (x, y) = place(mark);
        let left = x < SIZE.0 as i32 / 2;
        let style = TextStyle {
            color: plotters::style::Color::to_backend_color(&MARK),
            ..anchored(if left { HPos::Left } else { HPos::Right }, VPos::Top)
        };
        root.draw(&Text::new(mark.label.clone(), (if left { x + 4 } else { x - 4 }, y + 2 + 14 * row as i32), style))?;
    }
    Ok(())
}

fn anchored(horizontal: HPos, vertical: VPos) -> TextStyle<'static> {
    label(12, INK).pos(Pos::new(horizontal, vertical))
}

/// Round numbers between `low` and `high`, about five.
fn nice_ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 5.0;
    if !rough.is_finite() || rough <= 0.0 {
        return Vec::new();
    }
    let magnitude = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * magnitude).find(|step| *step >= rough).unwrap_or(rough);
    let first = (low / step).ceil() as i64;
    (0..12).map(|i| (first + i) as f64 * step).take_while(|tick| *tick <= high).collect()
}

/// Grid, axes and their labels.
fn mesh<'a, Y>(style: &mut plotters::chart::MeshStyle<'a, '_, RangedCoordf64, Y, SVGBackend<'a>>, chart: &Chart) -> Result<(), DrawError>
where
    Y: plotters::coord::ranged1d::Ranged<ValueType = f64> + plotters::coord::ranged1d::ValueFormatter<f64>,
{
    style
        .x_desc(chart.x_label.as_str())
        .y_desc(chart.y_label.as_str())
        .x_label_formatter(&|v| short_number(*v))
        .y_label_formatter(&|v| short_number(*v))
        .x_labels(8)
        .axis_style(INK)
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .label_style(label(12, INK))
        .axis_desc_style(label(13, INK))
        .draw()?;
    Ok(())
}

fn draw_bars(
    root: &DrawingArea<SVGBackend<'_>, Shift>,
    chart: &Chart,
    categories: &[String],
    series: &[(String, Vec<Option<f64>>)],
) -> Result<bool, DrawError> {
    let values = series.iter().flat_map(|(_, values)| values.iter().flatten().copied());
    let Some((_, high)) = extent(values) else { return Ok(false) };
    let groups = categories.len().max(1);
    let top = if high > 0.0 { high * 1.12 } else { 1.0 };
    let mut context = ChartBuilder::on(root)
        .margin(10)
        .set_label_area_size(LabelAreaPosition::Left, 64)
        .set_label_area_size(LabelAreaPosition::Bottom, 44)
        .build_cartesian_2d(0.0..groups as f64, 0.0..top)?;
    context
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(0)
        .y_desc(chart.y_label.as_str())
        .y_label_formatter(&|v| short_number(*v))
        .y_labels(6)
        .axis_style(INK)
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .label_style(label(12, INK))
        .axis_desc_style(label(13, INK))
        .draw()?;
    let width = 0.8 / series.len().max(1) as f64;
    for (s, (_, values)) in series.iter().enumerate() {
        for (group, value) in values.iter().enumerate().filter_map(|(g, v)| v.map(|v| (g, v))) {
            let left = group as f64 + 0.1 + s as f64 * width;
            context.draw_series(std::iter::once(Rectangle::new([(left, 0.0), (left + width * 0.92, value)], colour(s).filled())))?;
            let text = Text::new(short_number(value), (left, value + top * 0.05), label(11, INK));
            context.draw_series(std::iter::once(text))?;
        }
    }
    let area = context.plotting_area();
    for (group, category) in categories.iter().enumerate() {
        let (x, y) = area.map_coordinate(&(group as f64 + 0.5, 0.0));
        let style = anchored(HPos::Center, VPos::Top);
        root.draw(&Text::new(category.clone(), (x, y + 8), style))?;
    }
    Ok(true)
}

/// A number for an axis: three digits, thousands as k, M, G.
fn short_number(value: f64) -> String {
    let magnitude = value.abs();
    let (scaled, suffix) = match magnitude {
        m if m >= 1e9 => (value / 1e9, "G"),
        m if m >= 1e6 => (value / 1e6, "M"),
        m if m >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = match scaled.abs() {
        m if m >= 100.0 || m == 0.0 => 0,
        m if m >= 10.0 => 1,
        m if m >= 0.1 => 2,
        _ => 4,
    };
    let text = format!("{scaled:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text };
    format!("{text}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_numbers_are_short() {
        let shown: Vec<String> = [0.0, 0.25, 1.0, 12.5, 500.0, 12_500.0, 3.2e6, 1.8e12].map(short_number).into();
        assert_eq!(shown, ["0", "0.25", "1", "12.5", "500", "12.5k", "3.2M", "1800G"]);
    }

    #[test]
    fn narrow_logarithmic_scales_have_round_numbers() {
        assert_eq!(nice_ticks(22_500.0, 45_500.0), [25_000.0, 30_000.0, 35_000.0, 40_000.0, 45_000.0]);
        assert_eq!(nice_ticks(0.78, 2.4), [1.0, 1.5, 2.0]);
        assert!(nice_ticks(1.0, 1.0).is_empty() && nice_ticks(f64::NAN, 1.0).is_empty());
        let points = vec![(0.0, 37_900.0), (1.0, 27_000.0)];
        let kind = ChartKind::Lines { lines: vec![Line { name: "l".into(), points }], marks: vec![] };
        let chart = Chart { title: "t".into(), x_label: "x".into(), y_label: "y".into(), kind };
        assert!(draw(&chart, true).unwrap().contains("30k"));
    }

    #[test]
    fn nothing_is_drawn_of_nothing_and_text_is_escaped() {
        let mut chart = Chart {
            title: "<a & \"b\">".into(),
            x_label: "<x>".into(),
            y_label: "y".into(),
            kind: ChartKind::Lines { lines: vec![], marks: vec![] },
        };
        assert_eq!(draw(&chart, false), None);
        let line = Line { name: "l".into(), points: vec![(0.0, 1.0), (1.0, 100.0)] };
        chart.kind = ChartKind::Lines { lines: vec![line], marks: vec![Mark { x: 0.5, label: "<script>".into() }] };
        for log in [false, true] {
            let svg = draw(&chart, log).unwrap();
            assert!(
                svg.contains("&lt;x&gt;") && svg.contains("&lt;script&gt;") && svg.contains("aria-label=\"&lt;a &amp; &quot;b&quot;&gt;\"")
            );
            assert!(!svg.contains("<script>"));
        }
    }
}
