//! The live view of an attached drive.

use crate::output::plain;
use crate::report::palette;
use crate::serve::status::{Requests, Second, Status};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Sparkline, Table, Wrap};
use trimtab_core::units::{Bytes, Nanos, grouped, three_digits};

/// From here on all stands on one line, medium and discards beside each other. On narrower screens the curves give way.
const WIDE: u16 = 80;
/// From here on the line about the attachment needs no second one.
const HEADING: u16 = 96;

/// Draws `status` on the whole of `frame`.
pub fn draw(frame: &mut Frame<'_>, status: &Status) {
    let area = frame.area();
    let lines = if area.width < HEADING { 4 } else { 3 };
    if area.width < WIDE {
        let parts = [Constraint::Length(lines), Constraint::Length(7), Constraint::Length(6), Constraint::Min(7)];
        let [head, rates, flash, ledger] = Layout::vertical(parts).areas(area);
        draw_requests(frame, head, rates, status);
        draw_medium(frame, flash, status);
        frame.render_widget(discards(status, ledger), ledger);
        return;
    }
    let parts = [Constraint::Length(lines), Constraint::Length(7), Constraint::Min(0), Constraint::Length(10)];
    let [head, rates, history, bottom] = Layout::vertical(parts).areas(area);
    draw_requests(frame, head, rates, status);
    draw_history(frame, history, &status.seconds);
    let [flash, ledger] = Layout::horizontal([Constraint::Percentage(50), Constraint::Percentage(50)]).areas(bottom);
    draw_medium(frame, flash, status);
    frame.render_widget(discards(status, ledger), ledger);
}

fn draw_requests(frame: &mut Frame<'_>, head: Rect, rates: Rect, status: &Status) {
    frame.render_widget(heading(status), head);
    frame.render_widget(requests(status, rates.width), rates);
}

fn heading(status: &Status) -> Paragraph<'static> {
    let record = &status.record;
    let place =
        record.device.iter().chain(&record.nbd).map(|path| plain(&path.display().to_string()).into_owned()).collect::<Vec<_>>().join(", ");
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let first = Line::from(vec![Span::styled(record.id.clone(), bold), Span::raw(format!("  {place}  {}", Bytes(record.size)))]);
    // A word and its figure stay on one line.
    let second = Line::from(format!(
        "speed\u{a0}{}   attached\u{a0}{}   model\u{a0}time\u{a0}{}   answers\u{a0}kept\u{a0}back\u{a0}{}   WAF\u{a0}{}   q\u{a0}leaves",
        status.speed,
        Nanos((status.uptime_s * 1e9) as u64).to_string().replace(' ', "\u{a0}"),
        Nanos(status.model_time_ns).to_string().replace(' ', "\u{a0}"),
        status.waiting,
        status.waf.map_or("-".to_owned(), three_digits),
    ));
    let faults = match status.faults.len() {
        0 => Line::default(),
        _ => Line::styled(format!("faults: {}", status.faults.join("; ")), Style::new().fg(Color::Red)),
    };
    Paragraph::new(vec![first, second, faults]).wrap(Wrap { trim: true })
}

/// Titles of the columns, and as much room as their widest figure needs; those of the last second first.
const COLUMNS: [(&str, u16); 9] =
    [("", 5), ("ops/s", 7), ("rate", 9), ("p50", 7), ("p99", 7), ("max", 7), ("in all", 9), ("bytes", 7), ("failed", 6)];
/// Those of the last second.
const OF_NOW: usize = 6;

/// The last whole second, and all since the drive was attached where there is room: a figure is never cut.
fn requests(status: &Status, width: u16) -> Table<'static> {
    let needed = COLUMNS.iter().map(|(_, room)| room + 1).sum::<u16>() - 1 + "││".chars().count() as u16;
    let columns = if width >= needed { &COLUMNS[..] } else { &COLUMNS[..OF_NOW] };
    let last = status.seconds.last().map(|second| second.requests).unwrap_or_default();
    let all = &status.requests;
    let row = |name: &'static str, now: &Requests, all: &Requests| {
        let rate = format!("{}/s", Bytes(now.bytes));
        let latency = |ns: u64| if now.count == 0 { "-".to_owned() } else { Nanos(ns).to_string() };
        let cells = [
            name.to_owned(),
            grouped(now.count),
            rate,
            latency(now.latency.p50_ns),
            latency(now.latency.p99_ns),
            latency(now.latency.max_ns),
            grouped(all.count),
            Bytes(all.bytes).to_string(),
            all.failed.to_string(),
        ];
        Row::new(cells.into_iter().take(columns.len()).map(Cell::from))
    };
    let rows = [
        row("read", &last.read, &all.read),
        row("write", &last.write, &all.write),
        row("trim", &last.trim, &all.trim),
        row("flush", &last.flush, &all.flush),
    ];
    let header = Row::new(columns.iter().map(|(title, _)| *title)).style(Style::new().add_modifier(Modifier::BOLD));
    Table::new(rows, columns.iter().map(|(_, room)| Constraint::Min(*room)))
        .header(header)
        .block(Block::bordered().title(" requests in the last second "))
}

/// What a curve shows of a second.
type Value = fn(&Second) -> u64;

fn draw_history(frame: &mut Frame<'_>, area: Rect, seconds: &[Second]) {
    let series: [(&str, Color, Value); 4] = [
        ("read B/s", on_terminal(palette::DARK[2]), |second| second.requests.read.bytes),
        ("write B/s", on_terminal(palette::DARK[1]), |second| second.requests.write.bytes),
        ("trim B/s", on_terminal(palette::DARK[3]), |second| second.requests.trim.bytes),
        ("write p99", on_terminal(palette::DARK[4]), |second| second.requests.write.latency.p99_ns),
    ];
    for ((name, colour, value), area) in series.into_iter().zip(Layout::horizontal([Constraint::Fill(1); 4]).split(area).iter()) {
        let block = Block::bordered();
        let width = usize::from(block.inner(*area).width);
        let shown: Vec<u64> = seconds.iter().rev().take(width).rev().map(value).collect();
        let most = shown.iter().max().copied().unwrap_or(0);
        let most = if name.contains("p99") { Nanos(most).to_string() } else { Bytes(most).to_string() };
        let line = Sparkline::default().data(&shown).style(Style::new().fg(colour));
        frame.render_widget(line.block(block.title(format!(" {name}, up to {most} "))), *area);
    }
}

/// A state of the medium: told by its pattern as well as by its colour.
struct State {
    name: &'static str,
    counter: &'static str,
    pattern: &'static str,
    colour: Color,
}

/// In the colours that reports have for the same; erased flash in the terminal's own.
const STATES: [State; 3] = [
    State { name: "mapped", counter: "now_mapped_bytes", pattern: "█", colour: on_terminal(palette::HOLDS_DARK[0]) },
    State { name: "stale", counter: "now_stale_bytes", pattern: "▒", colour: on_terminal(palette::HOLDS_LIGHT[2]) },
    State { name: "free", counter: "now_free_bytes", pattern: "·", colour: Color::Reset },
];

/// The nearest of the 216 colours that terminals have had for long.
const fn on_terminal(hex: &str) -> Color {
    let digits = hex.as_bytes();
    let mut index = 16;
    let mut at = 1;
    let mut weight = 36;
    while at + 1 < digits.len() && weight > 0 {
        let value = digit(digits[at]) * 16 + digit(digits[at + 1]);
        // Steps are at 0, 95, 135, 175, 215 and 255.
        let step = if value < 48 {
            0
        } else if value < 115 {
            1
        } else {
            (value - 35) / 40
        };
        index += step * weight;
        weight /= 6;
        at += 2;
    }
    Color::Indexed(index as u8)
}

const fn digit(c: u8) -> u32 {
    match c {
        b'0'..=b'9' => (c - b'0') as u32,
        b'a'..=b'f' => (c - b'a') as u32 + 10,
        b'A'..=b'F' => (c - b'A') as u32 + 10,
        _ => 0,
    }
}

/// How the medium is used: a bar of its states, and what it has been through.
fn draw_medium(frame: &mut Frame<'_>, area: Rect, status: &Status) {
    let value = |name: &str| status.model.get(name).copied();
    let block = Block::bordered().title(" medium ");
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let known: Vec<(&State, u64)> = STATES.iter().filter_map(|state| value(state.counter).map(|bytes| (state, bytes))).collect();
    let total: u64 = known.iter().map(|(_, bytes)| bytes).sum::<u64>().max(1);
    let mut lines = Vec::new();
    if !known.is_empty() {
        let width = f64::from(inner.width);
        let part = |state: &State, bytes: u64| state.pattern.repeat((bytes as f64 / total as f64 * width).round() as usize);
        lines.push(Line::from(
            known.iter().map(|(state, bytes)| Span::styled(part(state, *bytes), Style::new().fg(state.colour))).collect::<Vec<_>>(),
        ));
        for (State { name, pattern, colour, .. }, bytes) in &known {
            let share = *bytes as f64 / total as f64 * 100.0;
            let text = format!("{pattern} {name:<7}{:>10}  {share:5.1} %", Bytes(*bytes).to_string());
            lines.push(Line::styled(text, Style::new().fg(*colour)));
        }
    }
    for (name, counter) in [
        ("free superblocks", "now_free_superblocks"),
        ("superblocks erased", "erases"),
        ("collected", "gc_superblocks"),
        ("seeks", "seeks"),
    ] {
        lines.extend(value(counter).map(|count| Line::from(format!("{name:<20}{:>10}", grouped(count)))));
    }
    frame.render_widget(Paragraph::new(lines), inner);
}

/// Rows of discards: name, count if there is one, bytes, and whether it stands on low screens too.
type Discarded = (&'static str, Option<u64>, u64, bool);

fn discards(status: &Status, area: Rect) -> Paragraph<'static> {
    let block = Block::bordered().title(" discards since attached ");
    let inner = block.inner(area);
    let discards = &status.discards;
    let (asked, refused) = (discards.ranges.asked, discards.ranges.refused);
    let rows: [Discarded; 7] = [
        ("commands", Some(discards.commands), asked.bytes.0, true),
        ("ranges asked", Some(asked.count), asked.bytes.0, false),
        ("effective", None, discards.effective_bytes(), true),
        ("held no data", Some(discards.repeated_ranges), discards.repeated_bytes, true),
        ("part of a block", None, discards.partial_bytes, false),
        ("refused", Some(refused.count), refused.bytes.0, true),
        ("ignored (fault)", Some(discards.ignored.count), discards.ignored.bytes.0, false),
    ];
    let low = usize::from(inner.height) <= rows.len();
    let mut lines: Vec<Line<'static>> = rows
        .into_iter()
        .filter(|(.., always)| *always || !low)
        .map(|(name, count, bytes, _)| {
            let count = count.map_or_else(String::new, grouped);
            Line::from(format!("{name:<16}{count:>10}  {:>9}", Bytes(bytes).to_string()))
        })
        .collect();
    let amplification = status.discard_amplification.map_or("-".to_owned(), three_digits);
    lines.push(Line::styled(format!("{:<16}{amplification:>10}", "amplification"), Style::new().add_modifier(Modifier::BOLD)));
    Paragraph::new(lines).block(block)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::runtime::Record;
    use crate::serve::status::ByKind;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use trimtab_core::discards::{Amount, Discards};
    use trimtab_core::drive::ledger::Sums;

    #[test]
    fn no_figure_is_cut_at_60_columns_or_more() {
        for width in [60, 76, 80, 100, 120] {
            let mut terminal = Terminal::new(TestBackend::new(width, 24)).unwrap();
            let mut busy = status();
            busy.discards.commands = 123_456_789;
            busy.discards.ranges.asked.bytes = Bytes(999_000_000_000);
            terminal.draw(|frame| draw(frame, &busy)).unwrap();
            let text = terminal.backend().buffer().content().iter().map(|cell| cell.symbol()).collect::<String>().replace('\u{a0}', " ");
            for figure in ["1,000", "4.10 MB/s", "WAF 1.25", "q leaves", "123,456,789     999 GB", "amplification         4.00", "30.0 %"] {
                assert!(text.contains(figure), "{figure} at {width}: {text}");
            }
            assert_eq!(text.contains("failed"), width >= 76, "{width}");
        }
    }

    fn status() -> Status {
        let busy = Requests { count: 1000, bytes: 4_096_000, ..Requests::default() };
        let requests = ByKind { write: busy, ..ByKind::default() };
        Status {
            record: Record {
                id: "x25".into(),
                drive: "x25".into(),
                size: 80_000_000_000,
                pid: 1,
                pid_started: 1,
                boot_id: String::new(),
                transport: None,
                mark: None,
                device: Some("/dev/loop7".into()),
                served: None,
                nbd: None,
                nbd_socket: None,
                data: None,
                attached_unix_ms: 0,
            },
            speed: "realtime".into(),
            uptime_s: 12.0,
            model_time_ns: 12_000_000_000,
            waiting: 3,
            requests,
            host_wait: None,
            discards: Sums {
                commands: 7,
                ranges: Discards { asked: Amount::new(8, 10_000_000), effective: Some(Bytes(2_500_000)), ..Discards::default() },
                ..Sums::default()
            },
            discard_amplification: Some(4.0),
            waf: Some(1.25),
            mapped_bytes: 1,
            stored_bytes: 1,
            model: [("now_mapped_bytes".to_owned(), 30), ("now_stale_bytes".to_owned(), 10), ("now_free_bytes".to_owned(), 60)].into(),
            faults: vec!["trim:stale (struck 2 times)".into()],
            seconds: vec![Second { requests, waf: None, trim_effective_bytes: 0 }; 200],
        }
    }

    #[test]
    fn colours_are_the_nearest_that_a_terminal_has() {
        const STEPS: [i32; 6] = [0, 95, 135, 175, 215, 255];
        for hex in palette::DARK.iter().chain(&palette::LIGHT).chain(&palette::HOLDS_DARK).chain(&palette::HOLDS_LIGHT) {
            let Color::Indexed(index) = on_terminal(hex) else { panic!("{hex}") };
            let part = |at: usize| i32::from_str_radix(&hex[1 + 2 * at..3 + 2 * at], 16).unwrap();
            for at in 0..3 {
                let step = usize::from(index - 16) / 6_usize.pow(2 - at as u32) % 6;
                let nearest = STEPS.iter().map(|s| (s - part(at)).abs()).min().unwrap();
                assert_eq!((STEPS[step] - part(at)).abs(), nearest, "{hex}");
            }
        }
    }

    #[test]
    fn the_view_shows_what_the_status_says_on_screens_of_any_size() {
        for (width, height) in [(100, 30), (200, 60), (20, 5), (1, 1)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            terminal.draw(|frame| draw(frame, &status())).unwrap();
            let text = terminal.backend().buffer().content().iter().map(|cell| cell.symbol()).collect::<String>().replace('\u{a0}', " ");
            if width >= 100 {
                for expected in ["x25", "/dev/loop7", "WAF 1.25", "4.10 MB/s", "trim:stale", "30.0 %", "4.00", "10.0 MB"] {
                    assert!(text.contains(expected), "{expected} is missing at {width}x{height}");
                }
                // Without any colour: 30 % of the bar, then 10 %, then 60 %, each with the pattern that stands before its name.
                let bars = text.split(|c| !"█▒·".contains(c));
                let bar = bars.filter(|bar| bar.contains('▒') && bar.contains('·')).max_by_key(|bar| bar.len()).unwrap();
                let share = |pattern: char| bar.chars().filter(|c| *c == pattern).count() as f64 / bar.chars().count() as f64;
                assert!((share('█') - 0.3).abs() < 0.03 && (share('▒') - 0.1).abs() < 0.03 && (share('·') - 0.6).abs() < 0.03, "{bar}");
                for legend in ["█ mapped", "▒ stale", "· free"] {
                    assert!(text.contains(legend), "{legend}");
                }
            }
        }
    }
}
