//! A study's answer on one screen: drive, policy, deciding figures, comparison of policies,
//! first check, command to apply, and where to find the rest.

use super::surroundings::Surroundings;
use super::words::{self, NOT_STEADY_LEGEND, mark, percent, seconds, spaced};
use super::{assumptions, twin};
use trimtab_drive::units::three_digits;
use trimtab_drive::usage::quoted;
use trimtab_sim::policy::PolicySpec;
use trimtab_sim::run::shown::quantity;
use trimtab_sim::run::{Field, Provenance, Run, Severity, TargetKind, Unit, Warning, metrics};
use trimtab_study::document::{ColumnUse, FullReportReference, Note, NoteKind, RecommendationLine, RowUse, StudyAnswer, Table};
use trimtab_study::study::metrics::{
    AgeingFigures, AppendLoad, FOREGROUND, Metrics, distinct, drive_name, effective_policy, mean, samples, setting,
};
use trimtab_study::study::recommendation::Recommendation;
use trimtab_study::study::untried::OmissionReason;
use trimtab_study::study::verdict::Verdict;
use trimtab_study::study::{Study, policy};

/// Command that undoes everything that was applied.
pub(super) const UNDO: &str = "trimtab apply --undo";
/// What runs of minutes on a real filesystem cannot show.
const NOT_MEASURED: &str = "gains over months (speed, wear)";
/// Environment key for the device that answered in place of a drive.
const DRIVE_NOTICE: &str = "drive.notice";
/// Environment key that says that no drive answered.
const DRIVE_ABSENT: &str = "drive.absent";

/// The first screen of a study.
pub fn answer(verdict: &Verdict<'_>, around: &Surroundings) -> StudyAnswer {
    let study = verdict.study();
    let (choice, mut meaning) = words::choice(verdict);
    if let Some(time) = verdict.time_trimming {
        meaning += &format!("; trims {} % of the time", three_digits(time.percent()));
    }
    let absent = if environment(study, DRIVE_ABSENT).is_some() { "none: " } else { "" };
    let notice = environment(study, DRIVE_NOTICE).map(|text| note(NoteKind::Other, "Drive", format!("{absent}{text}")));
    let months = around.months.iter().map(|months| note(NoteKind::Other, "Months", twin::note(months, verdict)));
    let cost_only = study.ageing.is_empty() && around.months.is_none() && verdict.comparison.metrics.is_measured();
    let unmeasured = cost_only.then(|| note(NoteKind::Other, "Not measured", NOT_MEASURED.to_owned()));
    StudyAnswer {
        subject: subject(study),
        origin: origin(study, around),
        uses: vec![RecommendationLine { choice: choice.to_owned(), on: String::new(), meaning, sure: assumptions::short(verdict) }],
        except: assumptions::exceptions(&[(String::new(), verdict)]),
        why: words::why(verdict),
        tables: if study.ageing.is_empty() { measured(verdict).into_iter().collect() } else { vec![months_table(verdict)] },
        notes: notice.into_iter().chain(months).chain(unmeasured).chain(notes(verdict)).collect(),
        apply: command(verdict).into_iter().collect(),
        undo: verdict.policy().map(|_| UNDO.to_owned()),
        report: around.report.clone(),
        more: Some(more(study, around)),
    }
}

pub(super) fn note(kind: NoteKind, label: &str, text: String) -> Note {
    Note { kind, label: label.to_owned(), text }
}

pub(super) fn environment<'a>(study: &'a Study, key: &str) -> Option<&'a str> {
    Field::find(&study.all().next()?.environment, key)
}

/// The drive's name.
pub(super) fn drive(study: &Study) -> Option<&str> {
    drive_name(study.all().next()?)
}

/// The drive and the filesystem: "OCZ Vertex LE 100 GB, ext4".
pub(super) fn subject(study: &Study) -> String {
    let Some(run) = study.all().next() else { return study.target.clone() };
    let value = |key: &str| environment(study, key);
    let (drive, filesystem) = (drive(study), value("volume.name").or_else(|| value("fs.type")));
    let parts = match (run.provenance, drive) {
        (Provenance::Modelled, Some(drive)) => vec![Some(drive.to_owned()), filesystem.map(str::to_owned)],
        (_, drive) => {
            // A relative path such as "." is useless later.
            let place = Some(study.target.as_str()).filter(|target| target.starts_with('/')).or_else(|| value("mount.point"));
            let fill = value("fs.fill").map(|fill| format!("{} full", spaced(fill)));
            // A drive without a name is shown by its device.
            let device = drive.or_else(|| value("device"));
            vec![Some(place.unwrap_or(&study.target).to_owned()), filesystem.map(str::to_owned), device.map(str::to_owned), fill]
        }
    };
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Measured or modelled, version, and duration.
pub(super) fn origin(study: &Study, around: &Surroundings) -> String {
    let Some(run) = study.all().next() else { return String::new() };
    let whence = match run.provenance {
        Provenance::Measured => "MEASURED",
        Provenance::Modelled => "MODELLED",
        Provenance::Entered => "ENTERED",
    };
    let version = format!("trimtab {}", run.tool_version);
    let took = around.took.map(|took| format!("{:.0} s", took.as_secs_f64().max(1.0)));
    let interrupted = (!study.complete).then(|| "INTERRUPTED".to_owned());
    [Some(whence.to_owned()), Some(version), took, interrupted].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The comparison of policies, one row each: worst latency, and at each fill random writes
/// per second, their ratio to the baseline, and the change in wear.
pub(super) struct MonthsTable {
    table: Table,
    latency: bool,
    steady: bool,
}

/// Headings of the figures at one fill.
const MONTHS: [&str; 3] = ["writes/s", "ratio", "wear"];

/// The policy that others are compared with: batched trims, which most systems have, or the
/// nearest to it.
pub(super) fn baseline(metrics: &Metrics<'_>) -> &'static str {
    let aged = |policy: &str| metrics.ageing.iter().any(|figures| figures.policy == policy);
    if aged(policy::BATCHED) { policy::BATCHED } else { policy::NONE }
}

impl MonthsTable {
    pub(super) fn new(metrics: &Metrics<'_>) -> Self {
        let latency = metrics.policies.iter().any(|policy| metrics.worst_latency(policy).is_some());
        let (mut groups, mut header) = (vec![String::new()], vec!["policy"]);
        let mut columns = vec![ColumnUse::Needed];
        let against = if baseline(metrics) == policy::BATCHED { policy::BATCHED } else { policy::NONE };
        if latency {
            groups.push(WORST.to_owned());
            header.push(load(AppendLoad::EveryFiveSeconds));
            columns.push(ColumnUse::Needed);
        }
        for (at, fill) in metrics.fills.iter().enumerate() {
            for figure in MONTHS {
                groups.push(format!("{} full, vs {against}", spaced(fill)));
                header.push(figure);
                columns.push(if at == 0 { ColumnUse::Needed } else { ColumnUse::Repeated });
            }
        }
        Self { table: Table { groups, columns, ..Table::new("", &header) }, latency, steady: true }
    }

    /// Adds a row for `policy` on the drive with index `drive`.
    pub(super) fn row(&mut self, verdict: &Verdict<'_>, drive: usize, name: String, policy: &str, fills: &[&str]) {
        let metrics = &verdict.comparison.metrics;
        let latency = metrics.worst_latency(policy).map_or_else(|| "-".to_owned(), |worst| seconds(worst.seconds));
        let cells = std::iter::once(name).chain(self.latency.then_some(latency));
        self.table.row(cells.chain(fills.iter().flat_map(|fill| months_cells(metrics, policy, fill))).collect::<Vec<_>>());
        let chosen = verdict.policy() == Some(policy);
        if chosen {
            self.table.chosen.push(self.table.rows.len() - 1);
        }
        let elsewhere = verdict.other_fills.iter().any(|other| other.recommendation.policy() == Some(policy));
        self.table.row_uses.push(RowUse { drive, needed: chosen || elsewhere || policy == baseline(metrics) });
        self.steady &= fills.iter().filter_map(|fill| metrics.aged(policy, fill)).all(|figures| figures.steady || figures.rate.is_none());
    }

    pub(super) fn finish(mut self) -> Table {
        if !self.steady {
            NOT_STEADY_LEGEND.clone_into(&mut self.table.groups[0]);
        }
        self.table
    }
}

/// The cells of a row at one fill.
fn months_cells(metrics: &Metrics<'_>, policy: &str, fill: &str) -> [String; 3] {
    let baseline = baseline(metrics);
    let (mine, base) = (metrics.aged(policy, fill), metrics.aged(baseline, fill));
    let pair = |of: fn(&AgeingFigures<'_>) -> Option<f64>| {
        let pair = of(mine?).zip(of(base?))?;
        (pair.1 > 0.0).then_some(pair.0 / pair.1)
    };
    let rate = mine.and_then(|mine| Some(format!("{}{}", three_digits(mine.rate?), mark(mine.steady))));
    let speed = pair(|figures| figures.rate).map(times);
    [rate, speed, pair(|figures| figures.cycles).map(percent)].map(|cell| cell.unwrap_or_else(|| "-".to_owned()))
}

/// A ratio: `1.67×`.
pub(super) fn times(ratio: f64) -> String {
    format!("{}×", three_digits(ratio))
}

/// Heading of the worst latency of a foreground append.
const WORST: &str = "worst latency of";

/// The second line of this heading: the load.
const fn load(load: AppendLoad) -> &'static str {
    match load {
        AppendLoad::EveryFiveSeconds => "append every 5 s",
        AppendLoad::FiftyPerSecond => "50 appends/s",
    }
}

/// The policies with their worst latency and the results of months at each fill.
fn months_table(verdict: &Verdict<'_>) -> Table {
    let metrics = &verdict.comparison.metrics;
    let mut table = MonthsTable::new(metrics);
    for policy in &metrics.policies {
        table.row(verdict, 0, (*policy).to_owned(), policy, &metrics.fills);
    }
    table.finish()
}

/// A policy's short name for tables.
fn short_title(run: &Run) -> String {
    match (run.policy.as_str(), effective_policy(run)) {
        (policy::AS_MOUNTED, policy::AS_MOUNTED) => "as mounted".to_owned(),
        (policy::AS_MOUNTED, policy::NONE) => policy::NONE.to_owned(),
        (policy::AS_MOUNTED, amounts_to) => format!("{amounts_to} (as mounted)"),
        (name, _) => name.to_owned(),
    }
}

/// Computes a figure from the runs of one policy.
type FigureFunction<'a> = Box<dyn Fn(&[&Run]) -> Option<String> + 'a>;

/// The measured figures of each policy: foreground time, worst foreground latency, trim time,
/// and discards at the drive.
fn measured(verdict: &Verdict<'_>) -> Option<Table> {
    let metrics = &verdict.comparison.metrics;
    let runs = &metrics.study.runs;
    let mut columns: Vec<(&str, &str, FigureFunction<'_>)> = Vec::new();
    for job in &metrics.jobs {
        let figure = move |runs: &[&Run]| runs.iter().find(|run| run.workload == *job).and_then(|run| mean(run, FOREGROUND)).map(seconds);
        columns.push(("foreground time", job, Box::new(figure)));
    }
    let worst = move |runs: &[&Run]| {
        let policy = effective_policy(runs.first()?);
        metrics.worst_latency(policy).map(|worst| seconds(worst.seconds))
    };
    columns.push((load(metrics.load()), "worst latency", Box::new(worst)));
    let longest = |runs: &[&Run]| {
        let all = runs.iter().filter_map(|run| samples(run, metrics::TRIM_SECONDS)).flatten();
        all.copied().reduce(f64::max).map(seconds)
    };
    columns.push(("", "longest trim", Box::new(longest)));
    let sum_of = |metric: &'static str, unit: Unit| -> FigureFunction<'_> {
        Box::new(move |runs: &[&Run]| runs.iter().filter_map(|run| mean(run, metric)).reduce(|a, b| a + b).map(|sum| quantity(sum, unit)))
    };
    // A mean over several repeats; for one repeat, the count itself.
    let once = runs.iter().filter_map(|run| samples(run, metrics::DISCARD_COMMANDS)).all(|counts| counts.len() == 1);
    columns.push(("discards", if once { "counted" } else { "mean count" }, sum_of(metrics::DISCARD_COMMANDS, Unit::Count)));
    columns.push(("", "bytes", sum_of(metrics::DISCARD_BYTES, Unit::Bytes)));
    let titles = distinct(runs.iter().map(short_title));
    let of = |title: &str| runs.iter().filter(|run| short_title(run) == title).collect::<Vec<_>>();
    columns.retain(|(.., figure)| titles.iter().any(|title| figure(&of(title)).is_some()));
    if metrics.jobs.is_empty() || columns.is_empty() {
        return None;
    }
    let header: Vec<&str> = std::iter::once("policy").chain(columns.iter().map(|(_, header, _)| *header)).collect();
    let mut table = Table::new("", &header);
    table.groups = std::iter::once(String::new()).chain(columns.iter().map(|(group, ..)| (*group).to_owned())).collect();
    for title in titles {
        let runs = of(&title);
        let cells = columns.iter().map(|(.., figure)| figure(&runs).unwrap_or_else(|| "-".to_owned()));
        table.row(std::iter::once(title.clone()).chain(cells));
        let policy = runs.first().map(|run| effective_policy(run));
        let chosen = table.chosen.is_empty() && verdict.policy().is_some() && policy == verdict.policy();
        if chosen {
            table.chosen.push(table.rows.len() - 1);
        }
        table.row_uses.push(RowUse { drive: 0, needed: chosen || policy == Some(policy::NONE) });
    }
    Some(table)
}

/// Notes: cost of deleting, first check, cautions.
fn notes(verdict: &Verdict<'_>) -> Vec<Note> {
    let study = verdict.study();
    let mut notes = Vec::new();
    // Without months, the reasons already include it.
    if let Some((what, text)) =
        verdict.deleting().filter(|_| !study.ageing.is_empty()).map(|deleting| words::deleting_reason(&deleting, false))
    {
        notes.push(Note { kind: NoteKind::Detail, label: what, text });
    }
    notes.extend(conditions(study));
    notes.extend(assumptions::how_sure(&[(String::new(), verdict)]).map(|text| note(NoteKind::Other, "How sure", text)));
    let place = place(study).unwrap_or_else(|| "PATH".to_owned());
    // A path with quotes of its own gets no further quotes.
    let doctor = if place.contains('\'') { format!("trimtab doctor {place}") } else { format!("'trimtab doctor {place}'") };
    let check = match verdict.comparison.misaligned() {
        _ if environment(study, DRIVE_ABSENT).is_some() => "no drive answered here: these figures apply to no drive".to_owned(),
        Some(times) => format!("alignment: a partition at sector 63 makes writes {}× slower", three_digits(times)),
        None if verdict.is_without_trim() => "the drive has no TRIM: no policy has any effect".to_owned(),
        None => format!("{doctor} tests whether TRIM reaches the drive"),
    };
    notes.push(note(NoteKind::CheckFirst, "Check first", check));
    if verdict.recommendation == Recommendation::NoDifference {
        // Without months of use, it is no finding that nothing trims at all.
        let what = if study.ageing.is_empty() {
            format!("nothing, if it is already trimmed: run {doctor} to see")
        } else {
            "nothing; leave it as it is".to_owned()
        };
        notes.push(note(NoteKind::Other, "Apply", what));
    }
    notes.extend(caution(verdict).map(|text| note(NoteKind::Other, "Caution", text)));
    notes.extend(untried(study).map(|text| note(NoteKind::Other, "Not tried", text)));
    notes
}

/// Conditions of the months' figures.
pub(super) fn conditions(study: &Study) -> Option<Note> {
    let run = study.ageing.first()?;
    let number = |key: &str| setting(run, key)?.parse::<f64>().ok();
    let (all, daily) = number("drive-writes").zip(number("drive-writes-a-day"))?;
    let days = words::time_of_use(Some(all / daily.max(1e-9)));
    let aged = Field::find(&run.environment, "drive.aged-size").map(|size| format!(", scaled to {size}")).unwrap_or_default();
    let batched = if baseline(&Metrics::of(study)) == policy::BATCHED { "; batched: weekly fstrim" } else { "" };
    let text = format!("{days}, {:.0} % written a day{aged}{batched}", daily * 100.0);
    Some(note(NoteKind::Condition, "Figures", text))
}

/// Untried policies, with the reason for the first that was possible.
fn untried(study: &Study) -> Option<String> {
    let possible = study.untried.iter().find(|untried| untried.reason != OmissionReason::ModelledOnly);
    let reason = possible.map(|untried| format!("{} ({})", words::part_name(&untried.part), words::untried_reason(&untried.reason)));
    let rest = study.untried.iter().filter(|untried| possible != Some(*untried));
    let rest: Vec<String> = rest.map(|untried| words::part_name(&untried.part)).collect();
    let rest = (!rest.is_empty()).then(|| format!("{} (why: --details)", rest.join(", ")));
    let all: Vec<String> = reason.into_iter().chain(rest).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// A policy that never finishes, or else the most serious warning, the recommended policy's
/// first; and the number of other kinds of warnings.
fn caution(verdict: &Verdict<'_>) -> Option<String> {
    if let Some(behind) = verdict.comparison.behind.first() {
        return Some(format!("'{}' never finishes at {} full, so it is not recommended", behind.policy, spaced(behind.fill)));
    }
    let chosen = verdict.policy();
    let warnings = verdict.study().all().flat_map(|run| run.warnings.iter().map(move |warning| (effective_policy(run), warning)));
    let worst: Vec<(&str, &Warning)> = warnings.filter(|(_, warning)| warning.severity >= Severity::Caution).collect();
    let (policy, warning) = worst.iter().copied().max_by_key(|(policy, warning)| (warning.severity, Some(*policy) == chosen))?;
    let whose = if Some(policy) == chosen || policy.is_empty() { String::new() } else { format!("'{policy}': ") };
    // Warnings of other kinds are counted.
    let others = distinct(worst.iter().map(|(_, other)| other.code.as_str()).filter(|code| *code != warning.code)).len();
    let others = if others == 0 { String::new() } else { format!("; and {others} more (--details)") };
    Some(format!("{whose}{}{others}", warning.text))
}

/// The mount point, quoted for a shell; `None` for a modelled drive.
fn place(study: &Study) -> Option<String> {
    let run = study.runs.first().filter(|run| run.target == TargetKind::Directory)?;
    Some(quoted(Field::find(&run.environment, "mount.point").unwrap_or(&study.target)))
}

/// The command that follows the verdict.
fn command(verdict: &Verdict<'_>) -> Option<String> {
    // The mount point is an absolute path, however the target was named.
    let place = place(verdict.study()).unwrap_or_else(|| "MOUNTPOINT".to_owned());
    if verdict.recommendation == Recommendation::Blocked {
        return Some(format!("trimtab doctor {place}"));
    }
    let policy = verdict.policy()?;
    // With the tested settings, unless they are the defaults.
    let tried = verdict.study().all().find(|run| run.policy == policy).map_or_else(|| policy.to_owned(), with_settings);
    Some(format!("trimtab apply {tried} {place} --dry-run"))
}

/// The policy of a run as `trimtab apply` takes it: `idle:budget=2ms`.
fn with_settings(run: &Run) -> String {
    let written = run.policy_settings.iter().filter_map(|field| Some(format!(":{}={}", field.key.strip_prefix("policy.")?, field.value)));
    let full = std::iter::once(run.policy.clone()).chain(written).collect::<String>();
    match (full.parse::<PolicySpec>(), run.policy.parse::<PolicySpec>()) {
        (Ok(tried), Ok(default)) if tried != default => tried.to_string(),
        _ => run.policy.clone(),
    }
}

fn more(study: &Study, around: &Surroundings) -> FullReportReference {
    let runs = study.all().count();
    let months = around.months.as_ref().map_or(0, |months| months.study.all().count());
    let months = if months == 0 { String::new() } else { format!(" and {months} of months") };
    let runs = format!("{runs} run{}{months}", if runs == 1 { "" } else { "s" });
    let (command, kept) = match &around.kept {
        Some(id) => (format!("trimtab results show study:{id} --details"), "kept"),
        None => ("the same command with --details".to_owned(), "not kept"),
    };
    FullReportReference { label: "More".to_owned(), command, aside: format!("({runs}, {kept})"), is_whole: true }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::study::tests::fixtures::whole;

    fn shown(study: &Study) -> StudyAnswer {
        answer(&Verdict::of(study), &Surroundings::default())
    }

    #[test]
    fn silent_drive_is_the_first_note() {
        let with = |fields: &[(&str, &str)]| {
            let mut study = whole();
            for run in study.runs.iter_mut().chain(&mut study.ageing) {
                run.environment.extend(fields.iter().map(|(key, value)| Field::new(*key, *value)));
            }
            shown(&study).notes
        };
        let check = |notes: &[Note]| notes.iter().find(|note| note.kind == NoteKind::CheckFirst).unwrap().text.clone();
        let notes = with(&[(DRIVE_NOTICE, "vda is a virtual disk")]);
        assert_eq!((notes[0].label.as_str(), notes[0].text.as_str()), ("Drive", "vda is a virtual disk"));
        assert!(check(&notes).starts_with("alignment: a partition"));
        let notes = with(&[(DRIVE_NOTICE, "tmpfs is a filesystem in memory"), (DRIVE_ABSENT, "yes")]);
        assert_eq!(notes[0].text, "none: tmpfs is a filesystem in memory");
        assert!(check(&notes).starts_with("no drive answered here"), "{notes:?}");
    }

    #[test]
    fn unsteady_rates_are_marked() {
        let text = |answer: &StudyAnswer| format!("{:?} {:?}", answer.why, answer.tables);
        assert!(!text(&shown(&whole())).contains('~'));
        let mut study = whole();
        let run = study.ageing.iter_mut().find(|run| run.policy == policy::IDLE).unwrap();
        let warning = Warning { code: "steady-state.not-reached".into(), severity: Severity::Note, text: String::new(), facts: vec![] };
        run.warnings.push(warning);
        let answer = shown(&study);
        let table = &answer.tables[0];
        assert_eq!(table.groups[0], "~ not steady");
        let marked: Vec<&String> = table.rows.iter().flatten().filter(|cell| cell.contains('~')).collect();
        assert_eq!(marked, ["36,200~"], "no other cell, and neither WAF nor life");
    }

    #[test]
    fn worst_latency_is_the_same_everywhere() {
        let mut study = whole();
        let mut postmark = study.runs.clone();
        for run in &mut postmark {
            run.workload = "postmark".into();
            let wait = run.metrics.iter_mut().find(|m| m.name == trimtab_study::study::light_work::SPARSE_WAIT).unwrap();
            wait.samples = vec![wait.samples[0] * if run.policy == policy::IDLE { 1.05 } else { 0.9 }];
        }
        study.runs.extend(postmark);
        let answer = shown(&study);
        // 153 ms × 1.05 is 160.65 ms, rounded to 161 ms; the batched trim's 680 ms belong to the
        // tree.
        let row = answer.tables[0].rows.iter().find(|row| row[0] == policy::IDLE).unwrap();
        assert_eq!(row[1], "161 ms");
        assert!(answer.why[0].contains("appends within 321 ms"), "twice as long: {:?}", answer.why);
        let headline = words::headline(&Verdict::of(&study));
        assert!(headline.contains("680 ms during a batched trim, 161 ms during an idle one"), "{headline}");
    }

    #[test]
    fn untried_policies_are_not_called_equally_good() {
        let named = |left_out: &[&str]| {
            let mut study = whole();
            study.ageing.clear();
            study.runs.retain(|run| !left_out.contains(&run.policy.as_str()));
            let mut verdict = Verdict::of(&study);
            verdict.recommendation = Recommendation::NoDifference;
            words::choice(&verdict).0
        };
        assert_eq!(named(&[]), "online or batched");
        assert_eq!((named(&[policy::BATCHED]), named(&[policy::ONLINE])), (policy::ONLINE, policy::BATCHED));
        assert_eq!(named(&[policy::ONLINE, policy::BATCHED]), "current setting");
    }

    #[test]
    fn answer_without_a_policy_claims_no_confidence() {
        let mut study = whole();
        study.runs.clear();
        let using = shown(&study).uses.remove(0);
        assert_eq!((using.choice.as_str(), using.sure.as_str()), ("no policy yet", ""));
        assert!(using.meaning.contains("--questions deleting"), "{}", using.meaning);
        assert!(words::headline(&Verdict::of(&study)).contains("was not studied"));
    }

    #[test]
    fn policy_that_trims_over_one_percent_says_so() {
        let with = |seconds: f64| {
            let mut study = whole();
            let metric = trimtab_sim::run::Metric {
                name: metrics::TRIM_SECONDS.into(),
                unit: Unit::Seconds,
                better: trimtab_sim::run::Better::Lower,
                samples: vec![seconds],
            };
            study.ageing.iter_mut().filter(|run| run.policy == policy::IDLE).for_each(|run| run.metrics.push(metric.clone()));
            shown(&study).uses.remove(0).meaning
        };
        assert_eq!(with(301_536.0), "trim in idle time, in small pieces; trims 6.98 % of the time");
        assert_eq!(with(43_200.0), "trim in idle time, in small pieces");
    }

    #[test]
    fn command_names_an_absolute_path_as_one_word() {
        let mut study = whole();
        for run in &mut study.runs {
            run.target = TargetKind::Directory;
            run.environment.push(Field::new("mount.point", "/mnt/it's mine"));
        }
        study.target = "my dir".into();
        assert_eq!(shown(&study).apply, [r"trimtab apply idle '/mnt/it'\''s mine' --dry-run"]);
    }
}
