//! Charts as inline SVG. The page's style sheet maps the colours, so one picture serves
//! light, dark and print.

use super::palette;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::FontTransform;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use trimtab_study::document::{Chart, ChartKind, ChartLine, Mark, ScatterPoint};

/// Width and height of a chart in its own units; the page scales it.
const SIZE: (u32, u32) = (760, 340);

const INK: RGBColor = RGBColor(0x33, 0x33, 0x33);
const GRID: RGBColor = RGBColor(0xDD, 0xDD, 0xDD);
const MARK: RGBColor = RGBColor(0xB9, 0x1C, 0x1C);

/// Values within a smaller ratio get no logarithmic scale.
const DECADE: f64 = 10.0;

type DrawError = Box<dyn std::error::Error>;

/// Draws `chart`; with `log`, lines have a logarithmic vertical scale. `None` if there is
/// nothing to draw, or no such scale.
pub fn draw(chart: &Chart, log: bool) -> Option<String> {
    let mut text = String::new();
    let drawn = {
        let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        let result = match &chart.kind {
            ChartKind::Lines { lines, marks } => draw_lines(&root, chart, lines, marks, log),
            ChartKind::Dots { dots, .. } => draw_dots(&root, chart, dots),
        };
        result.and_then(|drawn| root.present().map(|()| drawn).map_err(Into::into))
    };
    // Writing to a string cannot fail; a chart that cannot be drawn still has its table.
    matches!(drawn, Ok(true)).then(|| scalable(&text, &chart.title))
}

/// True if a logarithmic scale is useful: a line chart with all values above 0 and at
/// least a decade apart.
pub fn has_log(chart: &Chart) -> bool {
    let ChartKind::Lines { lines, .. } = &chart.kind else { return false };
    AxisScale::up(lines.iter().flat_map(|line| line.points.iter().map(|p| p.1)), true).is_some()
}

/// The picture without a fixed size, with a name for screen readers.
fn scalable(svg: &str, title: &str) -> String {
    let fixed = format!("<svg width=\"{}\" height=\"{}\"", SIZE.0, SIZE.1);
    svg.replacen(
        &fixed,
        &format!("<svg role=\"img\" aria-label=\"{}\"", super::escape::escape(title)),
        1,
    )
}

fn label(size: i32, colour: RGBColor) -> TextStyle<'static> {
    use plotters::style::IntoFont as _;
    TextStyle {
        color: plotters::style::Color::to_backend_color(&colour),
        ..("sans-serif", size).into_font().into()
    }
}

/// Paper colour of a look. The style sheet maps it to the dark colour and to the dash
/// pattern.
fn colour(look: usize) -> RGBColor {
    let hex = palette::LIGHT[look % palette::LIGHT.len()].trim_start_matches('#');
    let value = u32::from_str_radix(hex, 16).unwrap_or(0);
    RGBColor((value >> 16) as u8, (value >> 8) as u8, value as u8)
}

/// Smallest and largest finite value.
fn extent(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|v| v.is_finite()).fold(None, |range, v| match range {
        None => Some((v, v)),
        Some((low, high)) => Some((v.min(low), v.max(high))),
    })
}

fn draw_lines(
    root: &DrawingArea<SVGBackend<'_>, Shift>,
    chart: &Chart,
    lines: &[ChartLine],
    marks: &[Mark],
    log: bool,
) -> Result<bool, DrawError> {
    let points = || lines.iter().flat_map(|line| line.points.iter());
    let (Some(x), Some(y)) =
        (AxisScale::across(points().map(|p| p.0)), AxisScale::up(points().map(|p| p.1), log))
    else {
        return Ok(false);
    };
    let y = y.with_room_for(marks.len());
    let frame = Frame::new(root, chart, &x, &y)?;
    let looks = palette::looks(&lines.iter().map(|line| line.name.as_str()).collect::<Vec<_>>());
    for (line, i) in lines.iter().zip(looks) {
        let style = colour(i).stroke_width(2);
        // A missing value interrupts the line.
        let places = line
            .points
            .iter()
            .map(|(at, value)| Some((x.place(*at)?, y.place(*value)?)))
            .collect::<Vec<_>>();
        for piece in places.split(Option::is_none).filter(|piece| !piece.is_empty()) {
            let piece: Vec<(i32, i32)> =
                piece.iter().flatten().map(|place| frame.pixel(*place)).collect();
            match piece[..] {
                [alone] => root.draw(&Circle::new(alone, 2, colour(i).filled()))?,
                _ => root.draw(&PathElement::new(piece, style))?,
            }
        }
    }
    for (row, mark) in marks.iter().enumerate() {
        if let Some(at) = x.place(mark.x) {
            root.draw(&PathElement::new(
                vec![frame.pixel((at, 0.0)), frame.pixel((at, 1.0))],
                MARK.stroke_width(1),
            ))?;
            mark_label(root, mark, frame.pixel((at, 1.0)), row)?;
        }
    }
    Ok(true)
}

/// Writes a mark's label, one line below another, towards the centre of the picture.
fn mark_label(
    root: &DrawingArea<SVGBackend<'_>, Shift>,
    mark: &Mark,
    (x, y): (i32, i32),
    row: usize,
) -> Result<(), DrawError> {
    let left = x < SIZE.0 as i32 / 2;
    let style = TextStyle {
        color: plotters::style::Color::to_backend_color(&MARK),
        ..anchored(if left { HPos::Left } else { HPos::Right }, VPos::Top)
    };
    root.draw(&Text::new(
        mark.label.clone(),
        (if left { x + 4 } else { x - 4 }, y + 2 + MARK_LINE * row as i32),
        style,
    ))?;
    Ok(())
}

fn anchored(horizontal: HPos, vertical: VPos) -> TextStyle<'static> {
    label(12, INK).pos(Pos::new(horizontal, vertical))
}

/// Line height of a mark's label.
const MARK_LINE: i32 = 14;

/// Margins of the plot, in pixels.
const LEFT: i32 = 70;
const RIGHT: i32 = 14;
const TOP: i32 = 12;
const BOTTOM: i32 = 48;

/// Axes, grid and labels; converts values to pixels.
struct Frame;

impl Frame {
    /// Draws the frame of a chart.
    fn new(
        root: &DrawingArea<SVGBackend<'_>, Shift>,
        chart: &Chart,
        x: &AxisScale,
        y: &AxisScale,
    ) -> Result<Self, DrawError> {
        let frame = Self;
        for (at, text) in y.ticks() {
            let (left, right) = (frame.pixel((0.0, at)), frame.pixel((1.0, at)));
            root.draw(&PathElement::new(vec![left, right], GRID.stroke_width(1)))?;
            root.draw(&Text::new(text, (left.0 - 6, left.1), anchored(HPos::Right, VPos::Center)))?;
        }
        for (at, text) in x.ticks() {
            let (down, up) = (frame.pixel((at, 0.0)), frame.pixel((at, 1.0)));
            root.draw(&PathElement::new(vec![down, up], GRID.stroke_width(1)))?;
            root.draw(&Text::new(text, (down.0, down.1 + 6), anchored(HPos::Center, VPos::Top)))?;
        }
        let corners = [(0.0, 1.0), (0.0, 0.0), (1.0, 0.0)].map(|place| frame.pixel(place));
        root.draw(&PathElement::new(corners.to_vec(), INK.stroke_width(1)))?;
        let middle = frame.pixel((0.5, 0.0));
        let style = label(13, INK).pos(Pos::new(HPos::Center, VPos::Bottom));
        root.draw(&Text::new(chart.x_label.clone(), (middle.0, SIZE.1 as i32 - 6), style))?;
        let upright = label(13, INK)
            .pos(Pos::new(HPos::Center, VPos::Top))
            .transform(FontTransform::Rotate270);
        root.draw(&Text::new(chart.y_label.clone(), (4, frame.pixel((0.0, 0.5)).1), upright))?;
        Ok(frame)
    }

    /// The pixel of a point whose coordinates are between 0 and 1.
    fn pixel(&self, (x, y): (f64, f64)) -> (i32, i32) {
        let (width, height) =
            (f64::from(SIZE.0 as i32 - LEFT - RIGHT), f64::from(SIZE.1 as i32 - TOP - BOTTOM));
        (LEFT + (x * width).round() as i32, TOP + ((1.0 - y) * height).round() as i32)
    }
}

/// Maps values to the range of an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
struct AxisScale {
    low: f64,
    high: f64,
    /// Logarithmic; zeros are at the end, below all other values.
    log: bool,
    /// Share of a logarithmic axis reserved for zeros.
    floor: f64,
}

impl AxisScale {
    /// A horizontal axis over these values; `None` without values.
    fn across(values: impl Iterator<Item = f64>) -> Option<Self> {
        let (low, high) = extent(values)?;
        Some(Self { low, high: if high > low { high } else { low + 1.0 }, log: false, floor: 0.0 })
    }

    /// A vertical axis, which includes zero. Logarithmic only if values are a decade
    /// apart and none is negative.
    fn up(values: impl Iterator<Item = f64>, log: bool) -> Option<Self> {
        let values: Vec<f64> = values.filter(|v| v.is_finite()).collect();
        let (low, high) = extent(values.iter().copied())?;
        if !log {
            let reach = high.max(0.0) - low.min(0.0);
            let reach = if reach > 0.0 { reach } else { 1.0 };
            return Some(Self {
                low: low.min(0.0),
                high: low.min(0.0) + reach * 1.08,
                log: false,
                floor: 0.0,
            });
        }
        let (least, _) = extent(values.iter().copied().filter(|v| *v > 0.0))?;
        let floor = if low == 0.0 { 0.1 } else { 0.0 };
        (low >= 0.0 && high / least >= DECADE).then_some(Self {
            low: least / 1.2,
            high: high * 1.2,
            log,
            floor,
        })
    }

    /// Adds room for this many lines of text above all values.
    fn with_room_for(self, lines: usize) -> Self {
        if lines == 0 {
            return self;
        }
        let height = f64::from(SIZE.1 as i32 - TOP - BOTTOM);
        let free = 1.0 / (1.0 - (lines as f64 * f64::from(MARK_LINE) / height + 0.02).min(0.5));
        let high = if self.log {
            self.low * (self.high / self.low).powf(free)
        } else {
            self.low + (self.high - self.low) * free
        };
        Self { high, ..self }
    }

    /// Place of a value on the axis; `None` if it is not a finite number.
    fn place(&self, value: f64) -> Option<f64> {
        if !value.is_finite() {
            return None;
        }
        if !self.log {
            return Some((value - self.low) / (self.high - self.low));
        }
        if value <= 0.0 {
            return Some(0.0);
        }
        Some(
            self.floor
                + (1.0 - self.floor) * (value / self.low).log10() / (self.high / self.low).log10(),
        )
    }

    /// Ticks with distinct labels.
    fn ticks(&self) -> Vec<(f64, String)> {
        let (ticks, labels) = if self.log {
            let ticks = log_ticks(self.low, self.high);
            let labels = ticks.iter().map(|tick| short_number(*tick)).collect();
            (ticks, labels)
        } else {
            let ticks = nice_ticks(self.low, self.high);
            let labels = tick_labels(&ticks);
            (ticks, labels)
        };
        let mut all =
            if self.log && self.floor > 0.0 { vec![(0.0, "0".to_owned())] } else { Vec::new() };
        all.extend(
            ticks.iter().zip(labels).filter_map(|(tick, label)| Some((self.place(*tick)?, label))),
        );
        all
    }
}

/// About five round numbers between `low` and `high`.
fn nice_ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 5.0;
    if !rough.is_finite() || rough <= 0.0 {
        return Vec::new();
    }
    let magnitude = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|n| n * magnitude)
        .find(|step| *step >= rough)
        .unwrap_or(rough);
    let first = (low / step).ceil() as i64;
    (0..12).map(|i| (first + i) as f64 * step).take_while(|tick| *tick <= high).collect()
}

/// Powers of ten between `low` and `high`, within three decades also their doubles and
/// quintuples; at most eight.
fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let factors: &[f64] = if last - first <= 3 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let all: Vec<f64> = (first..=last)
        .flat_map(|power| factors.iter().map(move |factor| factor * 10_f64.powi(power)))
        .collect();
    let within: Vec<f64> = all.into_iter().filter(|tick| (low..=high).contains(tick)).collect();
    within.iter().copied().step_by(within.len().div_ceil(9).max(1)).collect()
}

/// Labels of evenly spaced ticks, with the digits that their step needs.
fn tick_labels(ticks: &[f64]) -> Vec<String> {
    let most = ticks.iter().fold(0.0, |most: f64, tick| most.max(tick.abs()));
    let step = ticks.windows(2).map(|pair| (pair[1] - pair[0]).abs()).fold(most, f64::min);
    let (scale, suffix) = suffix_of(most);
    // A step is one, two or five times a power of ten.
    let digits = (-(step / scale).log10()).ceil().max(0.0);
    let written = |tick: &f64| match tick / scale {
        0.0 => "0".to_owned(),
        value if digits > 6.0 => format!("{value:.2e}{suffix}"),
        value => format!("{value:.*}{suffix}", digits as usize),
    };
    ticks.iter().map(written).collect()
}

/// Draws one mark each with its name next to it, on a logarithmic scale if values are a
/// decade apart.
fn draw_dots(
    root: &DrawingArea<SVGBackend<'_>, Shift>,
    chart: &Chart,
    dots: &[ScatterPoint],
) -> Result<bool, DrawError> {
    const SIZE: f64 = 8.0;
    let placed: Vec<(&ScatterPoint, f64)> =
        dots.iter().filter_map(|dot| Some((dot, dot.x.first().copied().flatten()?))).collect();
    let Some((low, high)) = extent(placed.iter().map(|(_, x)| *x)) else { return Ok(false) };
    // Room at the sides for marks and names.
    let room = ((high - low) * 0.12).max(0.5);
    let x = AxisScale::across([low.min(0.0) - room, high + 2.0 * room].into_iter())
        .expect("there are two values");
    let heights = || placed.iter().map(|(dot, _)| dot.y);
    let Some(y) = AxisScale::up(heights().chain(extent(heights()).map(|(low, _)| low / 2.0)), true)
        .or_else(|| AxisScale::up(heights(), false))
    else {
        return Ok(false);
    };
    let frame = Frame::new(root, chart, &x, &y)?;
    let looks =
        palette::looks_of_marks(&dots.iter().map(|dot| dot.name.as_str()).collect::<Vec<_>>());
    let place = |dot: &ScatterPoint, at: f64| Some(frame.pixel((x.place(at)?, y.place(dot.y)?)));
    // Occupied areas: start, end, height.
    let mark = SIZE as i32 + 1;
    let mut taken: Vec<(i32, i32, i32)> = placed
        .iter()
        .filter_map(|(dot, at)| place(dot, *at))
        .map(|(x, y)| (x - mark, x + mark, y))
        .collect();
    for (dot, at) in &placed {
        let look = dots
            .iter()
            .position(|other| std::ptr::eq(other, *dot))
            .and_then(|at| looks.get(at).copied())
            .unwrap_or(0);
        let Some((x, y)) = place(dot, *at) else { continue };
        match palette::outline(look) {
            [] => root.draw(&Circle::new((x, y), SIZE as i32 - 1, colour(look).filled()))?,
            outline => {
                let points = outline.iter().map(|(dx, dy)| {
                    (x + (dx * SIZE).round() as i32, y + (dy * SIZE).round() as i32)
                });
                root.draw(&Polygon::new(points.collect::<Vec<_>>(), colour(look).filled()))?;
            }
        }
        if dot.chosen {
            root.draw(&Circle::new((x, y), SIZE as i32 + 5, INK.stroke_width(1)))?;
        }
        // A name that would cover a mark or another name moves down.
        let (from, to) = (x + 16, x + 16 + 8 * dot.name.chars().count() as i32);
        let mut below = y;
        while taken
            .iter()
            .any(|(left, right, at)| from < *right && *left < to && (at - below).abs() < 13)
        {
            below += 2;
        }
        taken.push((from, to, below));
        root.draw(&Text::new(
            dot.name.clone(),
            (x + 16, below),
            anchored(HPos::Left, VPos::Center),
        ))?;
    }
    Ok(true)
}

/// Divisor and suffix for numbers up to `most`.
const fn suffix_of(most: f64) -> (f64, &'static str) {
    match most {
        m if m >= 1e9 => (1e9, "G"),
        m if m >= 1e6 => (1e6, "M"),
        m if m >= 1e4 => (1e3, "k"),
        _ => (1.0, ""),
    }
}

/// A number for an axis: three digits, thousands as k, M, G.
fn short_number(value: f64) -> String {
    let (scale, suffix) = suffix_of(value.abs());
    let scaled = value / scale;
    let digits = match scaled.abs() {
        m if m >= 100.0 || m == 0.0 => 0,
        m if m >= 10.0 => 1,
        m if m >= 0.1 => 2,
        m if m >= 0.001 => 4,
        _ => return format!("{value:.2e}"),
    };
    let text = format!("{scaled:.digits$}");
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    };
    format!("{text}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn axis_numbers_are_short() {
        let shown: Vec<String> =
            [0.0, 0.25, 1.0, 12.5, 500.0, 12_500.0, 3.2e6, 1.8e12].map(short_number).into();
        assert_eq!(shown, ["0", "0.25", "1", "12.5", "500", "12.5k", "3.2M", "1800G"]);
    }

    #[test]
    fn ticks_are_round_and_distinct() {
        assert_eq!(
            nice_ticks(22_500.0, 45_500.0),
            [25_000.0, 30_000.0, 35_000.0, 40_000.0, 45_000.0]
        );
        assert!(nice_ticks(1.0, 1.0).is_empty() && nice_ticks(f64::NAN, 1.0).is_empty());
        assert_eq!(log_ticks(0.9, 1100.0), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(tick_labels(&[100_500.0, 101_000.0, 101_500.0]), ["100.5k", "101.0k", "101.5k"]);
        assert_eq!(tick_labels(&[0.0, 1e-5, 2e-5]), ["0", "0.00001", "0.00002"]);
    }

    #[test]
    fn values_within_a_decade_have_no_log_scale() {
        let chart = |low: f64| one_line(vec![(0.0, low), (1.0, 45_000.0)]);
        assert!(draw(&chart(25_000.0), true).is_none() && draw(&chart(25_000.0), false).is_some());
        assert!(draw(&chart(2_500.0), true).is_some());
        assert!(draw(&chart(-1.0), true).is_none() && draw(&chart(-1.0), false).is_some());
    }

    fn one_line(points: Vec<(f64, f64)>) -> Chart {
        let kind =
            ChartKind::Lines { lines: vec![ChartLine { name: "l".into(), points }], marks: vec![] };
        Chart { title: "t".into(), x_label: "x".into(), y_label: "y".into(), kind }
    }

    /// The drawing, read back from the picture: axis numbers with their pixels, and
    /// pixels of each piece of the line.
    struct Seen {
        across: Vec<(f64, f64)>,
        up: Vec<(f64, f64)>,
        pieces: Vec<Vec<(f64, f64)>>,
    }

    fn attribute<'a>(tag: &'a str, name: &str) -> &'a str {
        let from = tag.find(&format!(" {name}=\"")).unwrap() + name.len() + 3;
        tag[from..].split('"').next().unwrap()
    }

    fn number(text: &str) -> Option<f64> {
        let factor = match text.chars().last()? {
            'k' => 1e3,
            'M' => 1e6,
            'G' => 1e9,
            _ => 1.0,
        };
        Some(text.trim_end_matches(['k', 'M', 'G']).parse::<f64>().ok()? * factor)
    }

    fn seen(svg: &str) -> Seen {
        let mut seen = Seen { across: Vec::new(), up: Vec::new(), pieces: Vec::new() };
        for tag in svg.split('<') {
            if tag.starts_with("text ") {
                let value = number(tag.split_once('>').unwrap().1.trim());
                let (x, y): (f64, f64) =
                    (attribute(tag, "x").parse().unwrap(), attribute(tag, "y").parse().unwrap());
                match (value, attribute(tag, "text-anchor")) {
                    (Some(value), "end") => seen.up.push((value, y)),
                    (Some(value), _) => seen.across.push((value, x)),
                    (None, _) => {}
                }
            } else if tag.starts_with("polyline ") && attribute(tag, "stroke") == palette::LIGHT[0]
            {
                let pair = |pair: &str| {
                    pair.split_once(',')
                        .map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap()))
                        .unwrap()
                };
                seen.pieces.push(attribute(tag, "points").split_whitespace().map(pair).collect());
            } else if tag.starts_with("circle ") {
                seen.pieces.push(vec![(
                    attribute(tag, "cx").parse().unwrap(),
                    attribute(tag, "cy").parse().unwrap(),
                )]);
            }
        }
        seen
    }

    /// The pixel of `value` from the two outermost numbers of an axis; zero on a
    /// logarithmic axis has its own.
    fn pixel(axis: &[(f64, f64)], value: f64, log: bool) -> f64 {
        if log && value == 0.0 {
            return axis.iter().find(|(v, _)| *v == 0.0).expect("zero is on the axis").1;
        }
        let at = |v: f64| if log { v.ln() } else { v };
        let numbers: Vec<_> = axis.iter().filter(|(v, _)| !log || *v > 0.0).collect();
        let (first, last) = (numbers[0], numbers[numbers.len() - 1]);
        first.1 + (at(value) - at(first.0)) / (at(last.0) - at(first.0)) * (last.1 - first.1)
    }

    fn check(points: &[(f64, f64)], log: bool) {
        let Some(svg) = draw(&one_line(points.to_vec()), log) else {
            let positive = || points.iter().map(|p| p.1).filter(|y| *y > 0.0 && y.is_finite());
            let spread = positive().fold(0.0, f64::max) / positive().fold(f64::MAX, f64::min);
            assert!(
                log && spread < 10.1 || points.iter().all(|p| !p.1.is_finite()),
                "nothing is drawn of {points:?}"
            );
            return;
        };
        let seen = seen(&svg);
        for axis in [&seen.across, &seen.up] {
            let mut labels: Vec<f64> = axis.iter().map(|(value, _)| *value).collect();
            labels.dedup();
            assert_eq!(labels.len(), axis.len(), "a number twice on an axis: {axis:?}");
        }
        let expected: Vec<Vec<&(f64, f64)>> = points
            .split(|p| !p.1.is_finite())
            .map(|piece| piece.iter().collect::<Vec<_>>())
            .filter(|piece| !piece.is_empty())
            .collect();
        assert_eq!(seen.pieces.len(), expected.len(), "wrong values are joined");
        for (drawn, data) in seen.pieces.iter().zip(&expected) {
            assert_eq!(drawn.len(), data.len(), "every value is drawn");
            for (drawn, data) in drawn.iter().zip(data) {
                let (x, y) = (pixel(&seen.across, data.0, false), pixel(&seen.up, data.1, log));
                assert!(
                    (drawn.0 - x).abs() < 3.0 && (drawn.1 - y).abs() < 3.0,
                    "{data:?} is drawn at {drawn:?} instead of {x},{y}"
                );
            }
        }
    }

    #[test]
    fn idle_seconds_are_drawn_as_zero() {
        let mut points: Vec<(f64, f64)> =
            (0..60).map(|i| (f64::from(i), 180.0 + f64::from(i % 7))).collect();
        (20..40).for_each(|i| points[i].1 = 0.0);
        points[50].1 = f64::NAN;
        points[52].1 = 12.0;
        check(&points, true);
        check(&points, false);
        let floor = |y: f64| {
            seen(&draw(&one_line(points.clone()), true).unwrap()).pieces[0]
                .iter()
                .filter(|p| p.1 == y)
                .count()
        };
        let zero = seen(&draw(&one_line(points.clone()), true).unwrap())
            .up
            .iter()
            .find(|(v, _)| *v == 0.0)
            .unwrap()
            .1;
        assert_eq!(floor(zero), 20);
    }

    proptest! {
        #[test]
        fn draw_places_every_value_correctly(
            values in vec(prop_oneof![Just(0.0), Just(f64::NAN), 1e-3..1e6_f64, 2e4..4e4_f64, Just(1.0)], 2..60), scale in 1e-3..1e4_f64, log in any::<bool>(),
        ) {
            let points: Vec<(f64, f64)> = values.iter().enumerate().map(|(i, y)| (i as f64 * scale, *y)).collect();
            check(&points, log);
        }
    }

    /// Regression: the label of a knee covered the line.
    #[test]
    fn mark_labels_are_above_all_lines() {
        for (log, count) in [(false, 1), (true, 1), (false, 4), (true, 4)] {
            let mut chart = one_line(
                (0..50).map(|i| (f64::from(i), if i < 25 { 24_000.0 } else { 1_500.0 })).collect(),
            );
            let ChartKind::Lines { marks, .. } = &mut chart.kind else {
                unreachable!("it is a line")
            };
            marks.extend(
                (0..count).map(|n| Mark { x: 20.0 + f64::from(n), label: format!("knee {n}") }),
            );
            let svg = draw(&chart, log).unwrap();
            let labels =
                svg.split('<').filter(|tag| tag.starts_with("text ") && tag.contains("knee"));
            let lowest =
                labels.map(|tag| attribute(tag, "y").parse::<f64>().unwrap()).fold(0.0, f64::max);
            let highest_point =
                seen(&svg).pieces.iter().flatten().map(|p| p.1).fold(f64::MAX, f64::min);
            assert!(
                lowest + 2.0 <= highest_point,
                "log {log}, {count} marks: text down to {lowest}, line from {highest_point}"
            );
        }
    }

    #[test]
    fn empty_chart_is_not_drawn_and_text_is_escaped() {
        let mut chart = Chart {
            title: "<a & \"b\">".into(),
            x_label: "<x>".into(),
            y_label: "y".into(),
            kind: ChartKind::Lines { lines: vec![], marks: vec![] },
        };
        assert_eq!(draw(&chart, false), None);
        let line = ChartLine { name: "l".into(), points: vec![(0.0, 1.0), (1.0, 100.0)] };
        chart.kind = ChartKind::Lines {
            lines: vec![line],
            marks: vec![Mark { x: 0.5, label: "<script>".into() }],
        };
        for log in [false, true] {
            let svg = draw(&chart, log).unwrap();
            assert!(
                svg.contains("&lt;x&gt;")
                    && svg.contains("&lt;script&gt;")
                    && svg.contains("aria-label=\"&lt;a &amp; &quot;b&quot;&gt;\"")
            );
            assert!(!svg.contains("<script>"));
        }
    }
}
