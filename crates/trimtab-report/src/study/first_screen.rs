//! The answer of one study, or of several drives, on one screen: policies, figures, the
//! rule, conditions, confidence, first check, commands, and where to find the rest.

use super::words::{self, Named, listed, short_name, spaced};
use super::{Surroundings, assumptions, tables};
use trimtab_drive::units::three_digits;
use trimtab_drive::usage::quoted;
use trimtab_sim::policy::PolicySpec;
use trimtab_sim::run::{Field, Provenance, Run, Severity, TargetKind, Warning};
use trimtab_study::document::{Note, NoteKind, RecommendationLine, StudyAnswer};
use trimtab_study::study::comparison::gains::Gain;
use trimtab_study::study::metrics::{distinct, drive_name, effective_policy, setting};
use trimtab_study::study::modelled::AGED_SIZE;
use trimtab_study::study::recommendation::Recommendation;
use trimtab_study::study::untried::{OmissionReason, StudyPart};
use trimtab_study::study::verdict::{Rule, Verdict};
use trimtab_study::study::{Study, policy};

/// Label of the command that shows everything.
pub const MORE: &str = "More";
/// What the first check answers.
const TRIM_ARRIVES: &str = "does TRIM reach your drive?";
/// Environment key for the device that answered in place of a drive.
const DRIVE_NOTICE: &str = "drive.notice";
/// Behind the command that applies a policy.
const PREVIEW: &str = "--dry-run previews";
/// Environment key that says that no drive answered.
const DRIVE_ABSENT: &str = "drive.absent";

/// The first screen of studies that ran together.
pub(super) fn answer(verdicts: &[&Verdict<'_>], around: &Surroundings) -> StudyAnswer {
    let Some(first) = verdicts.first() else { return StudyAnswer::default() };
    let named: Named<'_> = match verdicts {
        [only] => vec![(String::new(), *only)],
        several => several.iter().map(|verdict| (short_name(verdict), *verdict)).collect(),
    };
    let shown = verdicts.iter().find(|verdict| !verdict.study().complete).unwrap_or(first);
    let mut notes: Vec<Note> = match verdicts {
        [only] => beforehand(only),
        _ => Vec::new(),
    };
    notes.extend(rules(&named));
    if let [only] = verdicts {
        notes.extend(excluded(only));
    }
    let (rivals, others): (Vec<_>, Vec<_>) =
        other_policies(&named).into_iter().partition(|(rival, _)| *rival);
    notes.extend(rivals.into_iter().map(|(_, note)| note));
    notes.extend(at_other_fills(&named));
    notes.extend(conditions(first, verdicts));
    notes.extend(others.into_iter().map(|(_, note)| note));
    notes.extend(
        tables::without_trimming(verdicts)
            .filter(|_| verdicts.len() > 1)
            .map(|text| detail("No TRIM", text)),
    );
    notes.extend(assumptions::how_sure(&named).map(|text| note("How sure", text)));
    match verdicts {
        [only] => notes.extend(afterwards(only)),
        _ => notes.push(command("First", "trimtab doctor MOUNTPOINT".to_owned(), TRIM_ARRIVES)),
    }
    notes.extend(commands(verdicts, around));
    StudyAnswer {
        subject: subject(verdicts),
        used: time_of_use(first),
        origin: origin(shown.study(), around),
        uses: uses(&named),
        table: tables::of(&named),
        notes,
    }
}

fn note(label: &str, text: String) -> Note {
    Note { label: label.to_owned(), text, kind: NoteKind::Needed }
}

fn detail(label: &str, text: String) -> Note {
    Note { kind: NoteKind::Detail, ..note(label, text) }
}

fn command(label: &str, text: String, remark: &str) -> Note {
    Note { kind: NoteKind::Command(remark.to_owned()), ..note(label, text) }
}

fn environment<'a>(study: &'a Study, key: &str) -> Option<&'a str> {
    Field::find(&study.all().next()?.environment, key)
}

/// The drive and the filesystem: "OCZ Vertex LE 100 GB, ext4".
fn subject(verdicts: &[&Verdict<'_>]) -> String {
    let [verdict] = verdicts else {
        let filesystem = verdicts
            .first()
            .and_then(|verdict| environment(verdict.study(), "volume.name"))
            .unwrap_or_default();
        return format!("{} modelled drives, {filesystem}", words::count(verdicts.len()));
    };
    let study = verdict.study();
    let Some(run) = study.all().next() else { return study.target.clone() };
    let value = |key: &str| environment(study, key);
    let (drive, filesystem) = (drive_name(run), value("volume.name").or_else(|| value("fs.type")));
    let parts = match (run.provenance, drive) {
        (Provenance::Modelled, Some(drive)) => {
            vec![Some(drive.to_owned()), filesystem.map(str::to_owned)]
        }
        (_, drive) => {
            // A relative path such as "." is useless later.
            let place = Some(study.target.as_str())
                .filter(|target| target.starts_with('/'))
                .or_else(|| value("mount.point"));
            let fill = value("fs.fill").map(|fill| format!("{} full", spaced(fill)));
            // A drive without a name is shown by its device.
            let device = drive.or_else(|| value("device"));
            vec![
                Some(place.unwrap_or(&study.target).to_owned()),
                filesystem.map(str::to_owned),
                device.map(str::to_owned),
                fill,
            ]
        }
    };
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Fill and days of the months of use: "60 % full, 50 days".
fn time_of_use(verdict: &Verdict<'_>) -> Option<String> {
    let (written, daily) = written_and_daily(verdict.study().ageing.first()?)?;
    let fill = spaced(verdict.comparison.metrics.fills.first()?);
    Some(format!("{fill} full, {}", words::time_of_use(Some(written / daily.max(1e-9)))))
}

/// Drive writes in all, and a day.
fn written_and_daily(run: &Run) -> Option<(f64, f64)> {
    let number = |key: &str| setting(run, key)?.parse::<f64>().ok();
    number("drive-writes").zip(number("drive-writes-a-day"))
}

/// Measured or modelled, version, and duration.
fn origin(study: &Study, around: &Surroundings) -> String {
    let Some(run) = study.all().next() else { return String::new() };
    let whence = match run.provenance {
        Provenance::Measured => "MEASURED",
        Provenance::Modelled => "MODELLED",
    };
    let version = format!("trimtab {}", run.tool_version);
    let took = around
        .took
        .map(|took| format!(" in {:.0} s", took.as_secs_f64().max(1.0)))
        .unwrap_or_default();
    let interrupted = (!study.complete).then(|| "INTERRUPTED".to_owned());
    [Some(format!("{whence}{took}")), Some(version), interrupted]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(", ")
}

/// The recommendations; drives with the same one share a line.
fn uses(named: &Named<'_>) -> Vec<RecommendationLine> {
    let mut uses: Vec<(RecommendationLine, Vec<&str>)> = Vec::new();
    for (name, verdict) in named {
        let (choice, meaning) = words::choice(verdict);
        let line = RecommendationLine { choice: choice.to_owned(), on: String::new(), meaning };
        match uses.iter_mut().find(|(known, _)| *known == line) {
            Some((_, names)) => names.push(name),
            None => uses.push((line, vec![name])),
        }
    }
    let busy = |name: &&str| {
        let (_, verdict) = named.iter().find(|(other, _)| other == name)?;
        let on = if name.is_empty() { String::new() } else { format!(" on {name}") };
        Some(format!(
            "; trims take {} % of all time{on}",
            three_digits(verdict.time_trimming?.percent())
        ))
    };
    let line = |(mut line, names): (RecommendationLine, Vec<&str>)| {
        line.on = listed(&names);
        line.meaning += &names.iter().filter_map(busy).collect::<String>();
        line
    };
    uses.into_iter().map(line).collect()
}

/// What comes before the rule: the device that answered.
fn beforehand(verdict: &Verdict<'_>) -> Vec<Note> {
    let study = verdict.study();
    let absent = if environment(study, DRIVE_ABSENT).is_some() { "none: " } else { "" };
    let notice = environment(study, DRIVE_NOTICE);
    notice.map(|text| note("Drive", format!("{absent}{text}"))).into_iter().collect()
}

/// The rule by which the policy won, once for drives that share it. Drives without a gain
/// have their reason behind USE.
fn rules(named: &Named<'_>) -> Vec<Note> {
    let won = |verdict: &Verdict<'_>| matches!(verdict.rule, Rule::MostWrites { .. });
    let any = named.iter().any(|(_, verdict)| won(verdict));
    let mut rules: Vec<(String, Vec<&str>)> = Vec::new();
    for (name, verdict) in named.iter().filter(|(_, verdict)| !any || won(verdict)) {
        for line in words::why(verdict) {
            match rules.iter_mut().find(|(known, _)| *known == line) {
                Some((_, names)) => names.push(name),
                None => rules.push((line, vec![name])),
            }
        }
    }
    let by_rule = any || named.iter().any(|(_, verdict)| verdict.rule == Rule::GainsNothing);
    let (label, several) =
        (if by_rule { "Rule" } else { "Why" }, rules.len() > 1 && named.len() > 1);
    let line = |(nth, (line, names)): (usize, (String, Vec<&str>))| {
        let line = if several { format!("{}: {line}", names.join(", ")) } else { line };
        note(if nth == 0 { label } else { "" }, line)
    };
    rules.into_iter().enumerate().map(line).collect()
}

/// Policies that the rule does not consider: those that slow work down or never finish.
fn excluded(verdict: &Verdict<'_>) -> Option<Note> {
    let comparison = &verdict.comparison;
    let slow = comparison.online_cost.as_ref().filter(|cost| cost.part.is_work());
    let slow = slow.map(|cost| format!("online: {}", words::slower(cost)));
    let behind = comparison.behind.iter();
    let behind =
        behind.map(|one| format!("{}: it never finishes at {} full", one.policy, spaced(one.fill)));
    let all: Vec<String> = slow.into_iter().chain(behind).collect();
    (comparison.has_months() && !all.is_empty()).then(|| note("Excluded", all.join("; ")))
}

/// The recommendation at each other fill, with its gain over weekly trims.
fn at_other_fills(named: &Named<'_>) -> Vec<Note> {
    let others = || {
        named
            .iter()
            .flat_map(|(name, verdict)| verdict.other_fills.iter().map(move |other| (name, other)))
    };
    let gain = |gain: &Gain<'_>| {
        let wear = gain
            .life
            .map(|life| format!(", wear {}", words::percent(1.0 / life)))
            .unwrap_or_default();
        format!(", {}{} writes{wear}", words::times(gain.rate), words::mark(gain.steady))
    };
    let at = |fill: &str| {
        let here = others().filter(|(_, other)| other.fill == fill).map(|(name, other)| {
            let gain = other
                .gain
                .as_ref()
                .filter(|gain| gain.policy != gain.baseline)
                .map(gain)
                .unwrap_or_default();
            format!("{name} {}{gain}", words::name(other.recommendation)).trim_start().to_owned()
        });
        detail("Fill", format!("{}: {}", spaced(fill), here.collect::<Vec<_>>().join("; ")))
    };
    distinct(others().map(|(_, other)| other.fill)).into_iter().map(at).collect()
}

/// Policies that the screen names elsewhere, each with its meaning. True for what
/// smaller models give: a small screen keeps it longest.
fn other_policies<'a>(named: &Named<'a>) -> Vec<(bool, Note)> {
    let explained = |name: &str| match named.as_slice() {
        [(_, only)] if only.comparison.has_months() => {
            only.comparison.metrics.policies.contains(&name)
        }
        several => {
            name == policy::BATCHED && several.len() > 1
                || several.iter().any(|(_, verdict)| verdict.policy() == Some(name))
        }
    };
    let of = |verdict: &'a Verdict<'a>| {
        let fills = verdict.other_fills.iter().map(|other| other.recommendation);
        let named_elsewhere = fills
            .chain(assumptions::alternatives(verdict))
            .filter_map(|one| -> Option<&'a str> { one.policy() });
        let measured = verdict
            .study()
            .runs
            .iter()
            .filter(|_| !verdict.comparison.has_months())
            .map(effective_policy);
        let untried = verdict.study().untried.iter().filter_map(|one| match &one.part {
            StudyPart::Policy { policy } => Some(policy.as_str()),
            _ => None,
        });
        named_elsewhere.chain(measured).chain(untried).collect::<Vec<_>>()
    };
    let mentioned = distinct(named.iter().flat_map(|(_, verdict)| of(verdict)));
    let others = mentioned.into_iter().filter(|name| !explained(name));
    let rivals: Vec<&str> =
        named.iter().filter_map(|(_, verdict)| assumptions::rival(verdict)?.policy()).collect();
    others
        .filter_map(|name| {
            Some((rivals.contains(&name), detail(name, words::meaning(name)?.to_owned())))
        })
        .collect()
}

/// Conditions of the figures.
fn conditions(verdict: &Verdict<'_>, all: &[&Verdict<'_>]) -> Option<Note> {
    let study = verdict.study();
    let Some(run) = study.ageing.first() else {
        return verdict.comparison.metrics.is_measured().then(|| {
            detail(
                "Figures",
                "costs only: gains over months were not measured, so 'none' cannot win".to_owned(),
            )
        });
    };
    let (_, daily) = written_and_daily(run)?;
    let aged = Field::find(&run.environment, AGED_SIZE)
        .map(|size| format!(", scaled to {size}"))
        .unwrap_or_default();
    let stand_in = all
        .iter()
        .flat_map(|verdict| &verdict.study().runs)
        .find_map(|run| Field::find(&run.environment, AGED_SIZE));
    let stall = match (study.runs.is_empty(), stand_in) {
        (true, _) => String::new(),
        (false, None) => "; stall: append every 5 s".to_owned(),
        (false, Some(size)) => format!("; stall: append every 5 s, large drives as {size}"),
    };
    Some(detail(
        "Figures",
        format!(
            "{:.0} % of the drive written a day{aged}; 4K writes to a twentieth of it{stall}",
            daily * 100.0
        ),
    ))
}

/// What comes after the confidence in one study: first check, caution, untried policies.
fn afterwards(verdict: &Verdict<'_>) -> Vec<Note> {
    let study = verdict.study();
    let doctor = format!("trimtab doctor {}", place(study));
    let first = if environment(study, DRIVE_ABSENT).is_some() {
        note("First", "no drive answered here: these figures apply to no drive".to_owned())
    } else if verdict.is_without_trim() {
        note("First", "the drive has no TRIM: no policy has any effect".to_owned())
    } else {
        command("First", doctor.clone(), TRIM_ARRIVES)
    };
    let mut notes = vec![first];
    notes.extend(caution(verdict).map(|text| note("Caution", text)));
    notes.extend(untried(study).map(|text| note("Untried", text)));
    if verdict.recommendation == Recommendation::NoDifference {
        // Without months of use, it is no finding that nothing trims at all.
        let what = if study.ageing.is_empty() {
            format!("nothing, if fstrim.timer or discard is on: {doctor} shows it")
        } else {
            "nothing; leave it as it is".to_owned()
        };
        notes.push(note("Apply", what));
    }
    notes
}

/// Untried policies, with the reason for the first that was possible.
fn untried(study: &Study) -> Option<String> {
    let possible =
        study.untried.iter().find(|untried| untried.reason != OmissionReason::ModelledOnly);
    let reason = possible.map(|untried| {
        format!("{} ({})", words::part_name(&untried.part), words::untried_reason(&untried.reason))
    });
    let rest = study.untried.iter().filter(|untried| possible != Some(*untried));
    let rest: Vec<String> = rest.map(|untried| words::part_name(&untried.part)).collect();
    let rest = (!rest.is_empty()).then(|| format!("{} (why: --details)", rest.join(", ")));
    let all: Vec<String> = reason.into_iter().chain(rest).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// The most serious warning, the recommended policy's first, and the number of other
/// kinds of warnings.
fn caution(verdict: &Verdict<'_>) -> Option<String> {
    let chosen = verdict.policy();
    let warnings = verdict
        .study()
        .all()
        .flat_map(|run| run.warnings.iter().map(move |warning| (effective_policy(run), warning)));
    let worst: Vec<(&str, &Warning)> =
        warnings.filter(|(_, warning)| warning.severity >= Severity::Caution).collect();
    let (policy, warning) = worst
        .iter()
        .copied()
        .max_by_key(|(policy, warning)| (warning.severity, Some(*policy) == chosen))?;
    let whose = if Some(policy) == chosen || policy.is_empty() {
        String::new()
    } else {
        format!("{policy}: ")
    };
    // Warnings of other kinds are counted.
    let others = distinct(
        worst.iter().map(|(_, other)| other.code.as_str()).filter(|code| *code != warning.code),
    )
    .len();
    let others =
        if others == 0 { String::new() } else { format!("; and {others} more (--details)") };
    Some(format!("{whose}{}{others}", warning.text))
}

/// The mount point, quoted for a shell; `MOUNTPOINT` for a modelled drive.
fn place(study: &Study) -> String {
    // The mount point is an absolute path, however the target was named.
    let run = study.runs.first().filter(|run| run.target == TargetKind::Directory);
    let mounted = run
        .map(|run| quoted(Field::find(&run.environment, "mount.point").unwrap_or(&study.target)));
    mounted.unwrap_or_else(|| "MOUNTPOINT".to_owned())
}

/// The commands to apply and to undo, the report, and the command that shows everything.
fn commands(verdicts: &[&Verdict<'_>], around: &Surroundings) -> Vec<Note> {
    let mut notes = Vec::new();
    match verdicts {
        [only] if only.recommendation == Recommendation::Blocked => {
            notes.push(command("Apply", format!("trimtab doctor {}", place(only.study())), ""));
        }
        [only] => notes.extend(only.policy().map(|policy| {
            // With the tested settings, unless they are the defaults.
            let tried = only
                .study()
                .all()
                .find(|run| run.policy == policy)
                .map_or_else(|| policy.to_owned(), with_settings);
            command(
                "Apply",
                format!("trimtab apply {tried} {} --dry-run", place(only.study())),
                PREVIEW,
            )
        })),
        several if several.iter().any(|verdict| verdict.policy().is_some()) => {
            let policy = match distinct(several.iter().map(|verdict| verdict.policy()))[..] {
                [Some(only)] => only,
                _ => "POLICY",
            };
            notes.push(command(
                "Apply",
                format!("trimtab apply {policy} MOUNTPOINT --dry-run"),
                PREVIEW,
            ));
        }
        _ => {}
    }
    if verdicts.iter().any(|verdict| verdict.policy().is_some()) {
        notes.push(command(
            "Undo",
            "trimtab apply --undo".to_owned(),
            "undoes its last change in /etc",
        ));
    }
    notes.extend(around.report.clone().map(|path| command("Report", path, "")));
    let runs: usize = verdicts.iter().map(|verdict| verdict.study().all().count()).sum();
    let (all, kept) = match &around.kept {
        Some(id) => (format!("trimtab results show study:{id} --details"), ""),
        None => ("the same command with --details".to_owned(), ", not stored"),
    };
    notes.push(command(
        MORE,
        all,
        &format!("{runs} run{}{kept}", if runs == 1 { "" } else { "s" }),
    ));
    notes
}

/// The policy of a run as `trimtab apply` takes it: `idle:budget=2ms`.
fn with_settings(run: &Run) -> String {
    let written = run.policy_settings.iter().filter_map(|field| {
        Some(format!(":{}={}", field.key.strip_prefix("policy.")?, field.value))
    });
    let full = std::iter::once(run.policy.clone()).chain(written).collect::<String>();
    match (full.parse::<PolicySpec>(), run.policy.parse::<PolicySpec>()) {
        (Ok(tried), Ok(default)) if tried != default => tried.to_string(),
        _ => run.policy.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::tests::fixtures::{three, whole};
    use trimtab_sim::run::{Unit, metrics};
    use trimtab_study::study::ensemble::{Ensemble, Fit};
    use trimtab_study::study::sensitivity::{Assumption, AssumptionResult, SensitivityRow};

    fn shown(study: &Study) -> StudyAnswer {
        answer(&[&Verdict::of(study)], &Surroundings::default())
    }

    fn text_of(answer: &StudyAnswer, label: &str) -> String {
        answer
            .notes
            .iter()
            .find(|note| note.label == label)
            .unwrap_or_else(|| panic!("no {label}: {answer:?}"))
            .text
            .clone()
    }

    #[test]
    fn virtual_or_absent_drive_is_the_first_note() {
        let with = |fields: &[(&str, &str)]| {
            let mut study = whole();
            for run in study.runs.iter_mut().chain(&mut study.ageing) {
                run.environment.extend(fields.iter().map(|(key, value)| Field::new(*key, *value)));
            }
            shown(&study)
        };
        let answer = with(&[(DRIVE_NOTICE, "vda is a virtual disk")]);
        assert_eq!(
            (answer.notes[0].label.as_str(), answer.notes[0].text.as_str()),
            ("Drive", "vda is a virtual disk")
        );
        assert_eq!(text_of(&answer, "First"), "trimtab doctor MOUNTPOINT");
        let answer =
            with(&[(DRIVE_NOTICE, "tmpfs is a filesystem in memory"), (DRIVE_ABSENT, "yes")]);
        assert_eq!(answer.notes[0].text, "none: tmpfs is a filesystem in memory");
        assert!(text_of(&answer, "First").starts_with("no drive answered here"), "{answer:?}");
    }

    #[test]
    fn unsteady_rates_are_marked() {
        let text = |answer: &StudyAnswer| format!("{:?} {:?}", answer.notes, answer.table);
        assert!(!text(&shown(&whole())).contains('~'));
        let mut study = whole();
        let run = study.ageing.iter_mut().find(|run| run.policy == policy::IDLE).unwrap();
        let warning = Warning {
            code: "steady-state.not-reached".into(),
            severity: Severity::Note,
            text: String::new(),
            facts: vec![],
        };
        run.warnings.push(warning);
        let answer = shown(&study);
        let table = answer.table.as_ref().unwrap();
        assert_eq!(table.groups[0], "~ not steady");
        let marked: Vec<&String> =
            table.rows.iter().flatten().filter(|cell| cell.contains('~')).collect();
        assert_eq!(marked, ["36,200~"], "no other cell, and neither WAF nor life");
        // A drive without a policy has nothing to apply.
        let mut none = three();
        for study in &mut none {
            study.runs.retain(|run| run.policy == policy::NONE);
            study.ageing.retain(|run| run.policy == policy::NONE);
        }
        let verdicts = Verdict::all(&none);
        let answer = super::answer(&verdicts.iter().collect::<Vec<_>>(), &Surroundings::default());
        assert!(answer.notes.iter().all(|note| note.label != "Apply"), "{answer:?}");
        assert!(answer.uses[0].meaning.contains("only 'none' was tried"), "{answer:?}");
    }

    #[test]
    fn worst_latency_is_the_same_everywhere() {
        let mut study = whole();
        let mut postmark = study.runs.clone();
        for run in &mut postmark {
            run.workload = "postmark".into();
            let wait = run
                .metrics
                .iter_mut()
                .find(|m| m.name == trimtab_study::study::light_work::SPARSE_P95)
                .unwrap();
            wait.samples =
                vec![wait.samples[0] * if run.policy == policy::IDLE { 1.05 } else { 0.9 }];
        }
        study.runs.extend(postmark);
        let answer = shown(&study);
        // 153 ms × 1.05 is 160.65 ms, rounded to 161 ms; the batched trim's 680 ms belong
        // to the tree.
        let row =
            answer.table.as_ref().unwrap().rows.iter().find(|row| row[0] == policy::IDLE).unwrap();
        assert_eq!(row[1], "161");
        assert!(text_of(&answer, "Rule").contains("p95 stall up to 321 ms"), "twice as long");
        let headline = words::headline(&Verdict::of(&study));
        assert!(
            headline.contains("680 ms during a batched trim, 161 ms during an idle one"),
            "{headline}"
        );
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
        assert_eq!(
            (named(&[policy::BATCHED]), named(&[policy::ONLINE])),
            (policy::ONLINE, policy::BATCHED)
        );
        assert_eq!(named(&[policy::ONLINE, policy::BATCHED]), "keep");
    }

    #[test]
    fn answer_without_a_policy_claims_no_confidence() {
        let mut study = whole();
        study.runs.clear();
        let using = shown(&study).uses.remove(0);
        assert_eq!(using.choice, "no policy yet");
        assert!(shown(&study).notes.iter().all(|note| note.label != "How sure"));
        assert!(using.meaning.contains("--questions deleting"), "{}", using.meaning);
        assert!(words::headline(&Verdict::of(&study)).contains("was not studied"));
    }

    #[test]
    fn twin_that_does_not_decide_recommends_no_policy() {
        let fit = |policy| Fit { recommended: Recommendation::Use(policy), policies: Vec::new() };
        let mut study = whole();
        let twin = Verdict::of(&study).policy().unwrap();
        let mut with = |drives: Vec<Fit>, unexplained| {
            let of = drives.len();
            let ensemble =
                Ensemble { drives, of, depends_on: None, of_the_class: Vec::new(), unexplained };
            study.sensitivity.as_mut().unwrap().ensemble = Some(ensemble);
            let verdict = Verdict::of(&study);
            let json = serde_json::to_value(&verdict).unwrap()["recommendation"].clone();
            (verdict.policy(), json, shown(&study))
        };
        let agree = || (0..4).map(|_| fit(twin)).collect::<Vec<_>>();
        assert_eq!(with(agree(), false).0, Some(twin));
        let split = agree().into_iter().chain((0..4).map(|_| fit(policy::NONE))).collect();
        for (policy, json, answer) in [with(agree(), true), with(split, false)] {
            assert_eq!((policy, json), (None, "undecided".into()));
            assert_eq!(answer.uses[0].choice, "no policy yet");
            assert!(text_of(&answer, "How sure").contains("cannot be decided"));
            assert!(answer.notes.iter().all(|note| note.label != "Apply"), "nothing to apply");
        }
    }

    /// Small studies are compared with the small study in which nothing varies.
    #[test]
    fn how_sure_compares_small_studies_with_each_other() {
        let mut study = whole();
        let recommended = Verdict::of(&study).recommendation;
        let [smaller, third] =
            [Recommendation::Use(policy::ADAPTIVE), Recommendation::Use(policy::NONE)];
        assert!(recommended != smaller && recommended != third);
        let tried =
            |value: &str, recommended| AssumptionResult { value: value.into(), recommended };
        let row =
            |tried| SensitivityRow { assumption: Assumption::Fill, assumed: "60%".into(), tried };
        let mut sure = |unchanged, rows: Vec<SensitivityRow>| {
            let sensitivity = study.sensitivity.as_mut().unwrap();
            (sensitivity.recommended, sensitivity.rows) = (Some(unchanged), rows);
            let confidence = serde_json::to_value(Verdict::of(&study).confidence).unwrap();
            (text_of(&shown(&study), "How sure"), confidence["decisive"].clone())
        };
        let both = || vec![row(vec![tried("30%", third), tried("90%", smaller)])];
        let (text, decisive) = sure(smaller, both());
        let expected = "other fills not tested, since the smaller models used for this recommend adaptive with \
                nothing changed;";
        assert!(text.contains(expected) && !text.contains("30 % full"), "{text}");
        assert_eq!(decisive, serde_json::json!(["fill"]));
        let (text, decisive) = sure(smaller, vec![row(vec![tried("90%", smaller)])]);
        assert!(text.contains(expected), "{text}");
        assert_eq!(decisive, serde_json::json!([]));
        let (text, _) = sure(recommended, both());
        let expected = "same answer under other fills, except at 30 % full (then no trimming), \
            at 90 % full (then adaptive)";
        assert!(text.contains(expected) && !text.contains("smaller models"), "{text}");
    }

    #[test]
    fn first_screen_states_trim_share_above_1_percent() {
        let with = |seconds: f64| {
            let mut study = whole();
            let metric = trimtab_sim::run::Metric {
                name: metrics::TRIM_SECONDS.into(),
                unit: Unit::Seconds,
                better: trimtab_sim::run::Better::Lower,
                samples: vec![seconds],
            };
            study
                .ageing
                .iter_mut()
                .filter(|run| run.policy == policy::IDLE)
                .for_each(|run| run.metrics.push(metric.clone()));
            shown(&study).uses.remove(0).meaning
        };
        assert_eq!(
            with(301_536.0),
            "the trimtab daemon trims small pieces while the drive is idle; trims \
                take 6.98 % of all time"
        );
        assert_eq!(with(43_200.0), "the trimtab daemon trims small pieces while the drive is idle");
    }

    #[test]
    fn command_names_an_absolute_path_as_one_word() {
        let mut study = whole();
        for run in &mut study.runs {
            run.target = TargetKind::Directory;
            run.environment.push(Field::new("mount.point", "/mnt/it's mine"));
        }
        study.target = "my dir".into();
        assert_eq!(
            text_of(&shown(&study), "Apply"),
            r"trimtab apply idle '/mnt/it'\''s mine' --dry-run"
        );
    }

    #[test]
    fn verdict_without_best_policy_takes_the_next() {
        let mut studies = three();
        let mut without = |left: &str| {
            studies[0].runs.retain(|run| run.policy != left);
            studies[0].ageing.retain(|run| run.policy != left);
            Verdict::of(&studies[0]).policy()
        };
        assert_eq!((without("batched"), without("idle")), (Some("idle"), Some("adaptive")));
        // Only online discard remains, which costs too much; batches come next.
        assert_eq!(without("adaptive"), Some("batched"));
    }

    #[test]
    fn every_policy_on_a_screen_is_explained() {
        let studies = three();
        let verdicts = Verdict::all(&studies);
        let answer = answer(&verdicts.iter().collect::<Vec<_>>(), &Surroundings::default());
        // The assumptions name online, which no drive uses.
        assert!(
            text_of(&answer, "How sure").contains("online")
                && text_of(&answer, "online").contains("mount option")
        );
        assert!(answer.uses[0].meaning.starts_with("the trimtab daemon"));
        let one = shown(&studies[0]);
        let rows = &one.table.as_ref().unwrap().rows;
        assert!(
            rows.iter().all(|row| row[5] == words::means(&row[0]) && !row[5].is_empty()),
            "{rows:?}"
        );
    }
}
