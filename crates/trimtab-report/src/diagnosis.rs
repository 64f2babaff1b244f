//! A diagnosis as text. Words carry the meaning; colour and marks only repeat it.

use owo_colors::OwoColorize as _;
use trimtab_linux::doctor::{
    Diagnosis, Finding, Gate, LayerReport, RemedyStep, Severity, VerdictKind,
};
use trimtab_linux::output;
use trimtab_linux::output::lines::paragraph;

/// Renders the diagnosis for the terminal.
#[must_use]
pub fn render(diagnosis: &Diagnosis) -> String {
    let mut screen = Screen { text: String::new(), width: output::width() };
    screen.line(&diagnosis.subject, 0, "", |subject| subject.bold().to_string());
    if let Some(filesystem) = &diagnosis.filesystem {
        screen.layer(filesystem, 1);
        screen.below(diagnosis, &filesystem.below, 2, &mut vec![false; diagnosis.layers.len()]);
    } else {
        let tops: Vec<usize> = (0..diagnosis.layers.len().min(1)).collect();
        screen.below(diagnosis, &tops, 1, &mut vec![false; diagnosis.layers.len()]);
    }
    if !diagnosis.trimmed_by.is_empty() {
        screen.plain(&diagnosis.trimmed_by.join("; "), 1, "trimmed by  ");
    }
    for one in &diagnosis.mechanisms {
        screen.finding(one, 1);
    }
    for counter in &diagnosis.write_counters {
        screen.plain(counter, 1, "writes counted by  ");
    }
    for more in &diagnosis.root_would_add {
        screen.plain(more, 1, "root would add  ");
    }
    if !diagnosis.accepted.is_empty() {
        screen.plain(&diagnosis.accepted.join(", "), 1, "accepted by the configuration  ");
    }
    screen.verdict(diagnosis);
    for step in &diagnosis.to_do {
        screen.step(step);
    }
    if let Some(fix) = &diagnosis.fix {
        screen.plain(&format!("{fix} shows each step, asks, and can undo it"), 1, "mended by  ");
    }
    screen.text
}

/// Output buffer.
struct Screen {
    text: String,
    width: Option<usize>,
}

impl Screen {
    /// Wraps one line: a name in it cannot forge another line.
    fn wrapped(&self, text: &str, first: &str, rest: &str) -> String {
        paragraph(&output::plain_line(text), self.width, first, rest)
    }

    /// Appends `lead` and `text`, indented by `depth`; continuation lines are indented
    /// further. `style` receives each line including its lead.
    fn line(&mut self, text: &str, depth: usize, lead: &str, style: impl Fn(&str) -> String) {
        let indent = "  ".repeat(depth.min(20));
        let shown =
            self.wrapped(&format!("{lead}{text}"), &indent, &[indent.as_str(), "    "].concat());
        for line in shown.lines() {
            let content = line.trim_start();
            self.text.push_str(&line[..line.len() - content.len()]);
            self.text.push_str(&style(content));
            self.text.push('\n');
        }
    }

    /// Appends a line without style.
    fn plain(&mut self, text: &str, depth: usize, lead: &str) {
        self.line(text, depth, lead, str::to_owned);
    }

    /// Appends a step. A command stays on one line, so that it can be copied.
    fn step(&mut self, step: &RemedyStep) {
        match step {
            RemedyStep::Run(command) => self.text.push_str(&paragraph(
                &format!("{}{command}", step.lead()),
                None,
                "  ",
                "  ",
            )),
            RemedyStep::ByHand(text) => self.plain(text, 1, step.lead()),
        }
    }

    /// Appends a line with its first `word` coloured.
    fn marked(&mut self, text: &str, depth: usize, word: &str, coloured: &str) {
        let indent = "  ".repeat(depth.min(20));
        let shown = self.wrapped(text, &indent, &[indent.as_str(), "    "].concat());
        self.text.push_str(&shown.replacen(word, coloured, 1));
    }

    fn verdict(&mut self, diagnosis: &Diagnosis) {
        const WORD: &str = "verdict:";
        let serious = diagnosis
            .layers
            .iter()
            .flat_map(|layer| &layer.findings)
            .any(|finding| finding.severity == Severity::Serious);
        let is_risky = serious && diagnosis.verdict.kind == VerdictKind::Reaches;
        let first = if is_risky { "; read the serious finding above first" } else { "" };
        let shown = self.wrapped(&format!("{WORD} {}{first}", diagnosis.verdict.text), "", "  ");
        for (number, line) in shown.lines().enumerate() {
            let text = if number == 0 { line.trim_start_matches(WORD) } else { line };
            let coloured = match diagnosis.verdict.kind {
                VerdictKind::Reaches if is_risky => text.yellow().to_string(),
                VerdictKind::Reaches | VerdictKind::NotNeeded => text.green().to_string(),
                VerdictKind::Blocked => text.red().to_string(),
                VerdictKind::Unknown => text.yellow().to_string(),
            };
            if number == 0 {
                self.text.push_str(&WORD.bold().to_string());
            }
            self.text.push_str(&coloured);
            self.text.push('\n');
        }
    }

    /// Appends the layers below, each once, indented by level.
    fn below(
        &mut self,
        diagnosis: &Diagnosis,
        indices: &[usize],
        depth: usize,
        shown: &mut Vec<bool>,
    ) {
        for &i in indices {
            let Some(one) = diagnosis.layers.get(i) else { continue };
            if std::mem::replace(&mut shown[i], true) {
                continue;
            }
            self.layer(one, depth);
            // Another filesystem begins below a file, with its own diagnosis.
            if !one.kind.starts_with("file on ") {
                self.below(diagnosis, &one.below, depth + 1, shown);
            }
        }
    }

    fn layer(&mut self, report: &LayerReport, depth: usize) {
        let (word, coloured) = match report.gate {
            Gate::Passes => ("passes", "passes".green().to_string()),
            Gate::Blocks => ("BLOCKS", "BLOCKS".red().to_string()),
            Gate::NotNeeded => ("not needed", "not needed".green().to_string()),
            Gate::Unknown => ("unknown", "unknown".yellow().to_string()),
        };
        let text = format!("{} [{}]  {word}: {}", report.name, report.kind, report.why);
        self.marked(&text, depth, &format!("{word}:"), &format!("{coloured}:"));
        if !report.evidence.0.is_empty() {
            let evidence: Vec<String> =
                report.evidence.0.iter().map(|(key, value)| format!("{key} {value}")).collect();
            self.line(&evidence.join(", "), depth + 2, "", |line| line.dimmed().to_string());
        }
        // The reason for the gate has already been printed.
        for one in report.findings.iter().filter(|f| f.text != report.why) {
            self.finding(one, depth + 1);
        }
    }

    fn finding(&mut self, finding: &Finding, depth: usize) {
        let (word, coloured) = match finding.severity {
            Severity::Note => ("note:", "note".dimmed().to_string()),
            Severity::Caution => ("caution:", "caution".yellow().to_string()),
            Severity::Serious => ("serious:", "serious".red().to_string()),
        };
        self.marked(&format!("{word} {}", finding.text), depth, word, &format!("{coloured}:"));
    }
}
