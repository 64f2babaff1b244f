//! The first screen of modelled studies: golden copies at three widths, and every figure
//! on it recomputed from the JSON document with arithmetic that shares no code with the
//! program.

use crate::support::trimtab;
use serde_json::Value;
use std::path::Path;

const WIDTHS: [usize; 3] = [60, 80, 120];

/// Runs a study once, then shows it: its JSON document, and its screens at [`WIDTHS`].
fn made(args: &[&str]) -> (Value, [String; 3]) {
    let dir = tempfile::tempdir().unwrap();
    let (store, report) = (dir.path().join("s.db"), dir.path().join("r.html"));
    let study = |more: &[&str], columns: usize| {
        let mut command = trimtab();
        command
            .arg("study")
            .args(args)
            .args(["--resume", "--quiet", "--force"])
            .args(more)
            .arg("--store")
            .arg(&store);
        let output = command
            .arg("--report")
            .arg(&report)
            .env("COLUMNS", columns.to_string())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let json = serde_json::from_str(&study(&["--json"], 80)).unwrap();
    // The command reuses the finished runs, so both show the same study.
    let screens = WIDTHS.map(|columns| study(&[], columns));
    for (screen, columns) in screens.iter().zip(WIDTHS) {
        check_lines(screen, columns, &report);
    }
    (json, screens.map(|screen| as_always(&screen, &report)))
}

/// Only a path to copy may exceed the screen width, and no line breaks between a number
/// and its unit.
fn check_lines(screen: &str, columns: usize, report: &Path) {
    let lines: Vec<&str> = screen.lines().collect();
    for line in &lines {
        let path = line.contains(report.to_str().unwrap());
        assert!(
            line.chars().count() <= columns || path,
            "{} of {columns} columns: {line}\n{screen}",
            line.chars().count()
        );
    }
    for pair in lines.windows(2) {
        let (last, first) = (
            pair[0].split_whitespace().next_back().unwrap_or(""),
            pair[1].split_whitespace().next().unwrap_or(""),
        );
        let number = last.ends_with(|c: char| c.is_ascii_digit()) && !last.contains([':', '/']);
        let unit = ["%", "ms", "µs", "ns", "s", "days", "runs", "GB", "MB", "full"]
            .contains(&first.trim_end_matches([',', ';', ')', '.']));
        assert!(!(number && unit), "split between '{last}' and '{first}':\n{screen}");
    }
}

/// Replaces everything that varies between runs: the duration, the report's path and the
/// study's id.
fn as_always(screen: &str, report: &Path) -> String {
    let line = |line: &str| {
        if let Some((before, _)) = line.split_once("MODELLED in ") {
            return format!("{} MODELLED in TIME, trimtab VERSION", before.trim_end());
        }
        let line = line.replace(report.to_str().unwrap(), "/REPORT.html");
        match line.split_once("study:") {
            Some((before, id))
                if id.len() >= 8 && id.bytes().take(8).all(|b| b.is_ascii_hexdigit()) =>
            {
                format!("{before}study:01234567{}", &id[8..])
            }
            _ => line,
        }
    };
    screen.lines().map(|one| line(one) + "\n").collect()
}

fn metric(run: &Value, name: &str) -> Option<f64> {
    let samples =
        run["metrics"].as_array()?.iter().find(|metric| metric["name"] == name)?["samples"]
            .as_array()?;
    Some(samples.iter().map(|sample| sample.as_f64().unwrap()).sum::<f64>() / samples.len() as f64)
}

fn of<'a>(study: &'a Value, part: &str, policy: &str) -> impl Iterator<Item = &'a Value> {
    study[part].as_array().unwrap().iter().filter(move |run| run["policy"] == policy)
}

fn wait(study: &Value, policy: &str) -> Option<f64> {
    of(study, "runs", policy)
        .filter_map(|run| metric(run, "sparse-load.wait.p95.seconds"))
        .reduce(f64::max)
}

fn aged<'a>(study: &'a Value, policy: &str, fill: &str) -> Option<&'a Value> {
    let percent = fill.replace(' ', "");
    of(study, "ageing", policy).find(|run| run["settings"]["fill"] == percent.as_str())
}

/// The mark after a rate of this run.
fn mark(run: &Value) -> &'static str {
    let unsteady = |one: &Value| one["code"].as_str().unwrap().starts_with("steady-state.");
    if run["warnings"].as_array().is_some_and(|all| all.iter().any(unsteady)) { "~" } else { "" }
}

/// Ratios of the random-write rate and the wear to those of batched trims.
fn against_batched(study: &Value, policy: &str, fill: &str) -> (f64, f64) {
    let (mine, batched) =
        (aged(study, policy, fill).unwrap(), aged(study, "batched", fill).unwrap());
    let ratio = |name: &str| metric(mine, name).unwrap() / metric(batched, name).unwrap();
    (ratio("random-write.steady-state"), ratio("erase-cycles.per-tb"))
}

/// True if online discard makes deleting more than 50 % slower, and by more than 50 ms.
fn online_slows(study: &Value) -> bool {
    let deleting = |policy: &str| {
        let phases = |run: &Value| {
            Some(metric(run, "delete.seconds")? + metric(run, "delete-sync.seconds")?)
        };
        of(study, "runs", policy).filter_map(phases).collect::<Vec<f64>>()
    };
    deleting("none")
        .iter()
        .zip(deleting("online"))
        .any(|(none, online)| online > none * 1.5 && online - none > 0.05)
}

/// The policy that the rule on the screen selects. Candidates have waits up to 50 ms, or
/// up to twice the shortest. The order is most writes, then least wear, each by 5 % or
/// more, then the simplest. Policies that slow deleting down or never finish are
/// excluded. `None` where the answer is not to trim.
pub fn by_rule(study: &Value, fill: &str) -> Option<&'static str> {
    let figure =
        |policy: &str, name: &str| metric(aged(study, policy, fill).unwrap(), name).unwrap();
    let tried = |policy: &&'static str| {
        let fits = || {
            (*policy != "online" || !online_slows(study)) && figure(policy, "trim.behind") < 90.0
        };
        aged(study, policy, fill).is_some() && (*policy == "none" || fits())
    };
    let all: Vec<&'static str> =
        ["none", "batched", "online", "adaptive", "idle"].into_iter().filter(tried).collect();
    let shortest =
        all[1..].iter().map(|policy| wait(study, policy).unwrap()).fold(f64::INFINITY, f64::min);
    let limit = if shortest > 0.05 { 2.0 * shortest } else { 0.05 };
    let quiet: Vec<_> = all
        .into_iter()
        .filter(|policy| *policy == "none" || wait(study, policy).unwrap() <= limit)
        .collect();
    let rate = |policy: &str| figure(policy, "random-write.steady-state");
    let most = quiet.iter().map(|policy| rate(policy)).fold(0.0, f64::max);
    let fast: Vec<_> = quiet.into_iter().filter(|policy| most / rate(policy) < 1.05).collect();
    let wear = |policy: &str| figure(policy, "erase-cycles.per-tb");
    let least = fast.iter().map(|policy| wear(policy)).fold(f64::INFINITY, f64::min);
    fast.into_iter().find(|policy| wear(policy) / least < 1.05).filter(|policy| *policy != "none")
}

/// The number of predicted figures in docs/published.md, and the number of those counted
/// as met.
fn predicted_figures() -> (usize, usize) {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/published.md"))
            .unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| predicted"));
    let of = |row: &str| {
        row.split('|').filter_map(|cell| cell.trim().parse().ok()).collect::<Vec<usize>>()
    };
    rows.map(of).fold((0, 0), |sum, row| (sum.0 + row[row.len() - 1], sum.1 + row[0]))
}

/// Asserts that `shown` is `value` rounded to three digits, or to two below one.
#[track_caller]
fn same(shown: &str, value: f64, what: &str) {
    let number: f64 = shown
        .trim_end_matches(['×', '~'])
        .replace(',', "")
        .parse()
        .unwrap_or_else(|_| panic!("{what}: '{shown}'"));
    let digits = if value < 1.0 { 1 } else { 2 };
    let unit = 10_f64.powi(value.abs().max(1e-12).log10().floor() as i32 - digits);
    assert!(
        (number - value).abs() <= unit * 0.51,
        "{what}: {shown} on the screen, {value} in the document"
    );
}

/// Asserts that `shown` is the p95 latency under `policy` in milliseconds, marked if fewer
/// than 20 appends were counted.
#[track_caller]
fn same_stall(shown: &str, study: &Value, policy: &str) {
    let runs = study["runs"].as_array().unwrap().iter().filter(|run| run["policy"] == policy);
    let phases = runs.flat_map(|run| run["phases"].as_array().unwrap());
    let appends = phases
        .filter(|phase| phase["name"] == "sparse-load")
        .filter_map(|phase| phase["ops"]["append"].as_u64());
    let few = appends.min().is_some_and(|count| count < 20);
    assert_eq!(shown.ends_with('*'), few, "{policy}: {shown}");
    let shown = shown.trim_end_matches('*');
    match wait(study, policy) {
        Some(wait) => same(shown, wait * 1e3, policy),
        None => assert_eq!(shown, "-", "{policy}"),
    }
}

/// Asserts that `shown` is the rate of `policy` at 60 % full, with its mark.
#[track_caller]
fn same_rate(shown: &str, study: &Value, policy: &str) {
    let run = aged(study, policy, "60%").unwrap_or_else(|| panic!("no {policy}"));
    assert_eq!(&shown[shown.trim_end_matches('~').len()..], mark(run), "{policy}: {shown}");
    same(shown, metric(run, "random-write.steady-state").unwrap(), policy);
}

/// Asserts that `shown`, such as `+47 %`, is `ratio` as a whole percentage.
#[track_caller]
fn same_percent(shown: &str, ratio: f64, what: &str) {
    let percent: f64 =
        shown.trim_end_matches(" %").parse().unwrap_or_else(|_| panic!("{what}: '{shown}'"));
    assert!(
        (percent - (ratio - 1.0) * 100.0).abs() <= 0.501,
        "{what}: {shown} on the screen, {ratio} in the document"
    );
}

/// The column headings, and the rows by name.
fn table(screen: &str) -> (Vec<String>, Vec<(String, Vec<String>)>) {
    let cells = |line: &str| {
        line.split("  ")
            .map(str::trim)
            .filter(|cell| !cell.is_empty())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let lines: Vec<&str> = screen.lines().collect();
    let rule = lines
        .iter()
        .position(|line| line.starts_with('─'))
        .unwrap_or_else(|| panic!("no table in\n{screen}"));
    let mut rows: Vec<(String, Vec<String>)> = Vec::new();
    for line in
        lines[rule + 1..].iter().take_while(|line| !line.is_empty() && !line.starts_with("Rule"))
    {
        let mut cells = cells(line);
        rows.push((cells.remove(0), cells));
    }
    (cells(lines[rule - 1]).into_iter().skip(1).collect(), rows)
}

/// The paragraph after a label, with its lines joined.
fn paragraph(screen: &str, label: &str) -> String {
    let mut lines = screen.lines().skip_while(|line| !line.starts_with(label));
    let first = lines.next().unwrap_or_else(|| panic!("no {label} in\n{screen}"))[label.len()..]
        .trim()
        .to_owned();
    lines
        .take_while(|line| line.starts_with("  "))
        .fold(first, |text, line| format!("{text} {}", line.trim()))
}

/// The text between `before` and `after`.
#[track_caller]
fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let rest = text.split_once(before).unwrap_or_else(|| panic!("'{before}' is not in: {text}")).1;
    rest.split_once(after).unwrap_or_else(|| panic!("'{after}' is not in: {rest}")).0
}

/// Checks the writes against batched trims, such as `1.05×`, and the wear.
fn check_gain(study: &Value, policy: &str, fill: &str, writes: &str, wear: &str) {
    let (speed, worn) = against_batched(study, policy, fill);
    let shown: f64 = writes.trim_end_matches('×').parse().unwrap();
    assert!(
        (shown - speed).abs() <= 0.00501,
        "{policy} at {fill}: {shown} on the screen, {speed} in the document"
    );
    same_percent(wear, worn, policy);
}

/// Checks that the rule, applied to the figures of a screen with all policies, gives
/// `used`.
fn check_rule(screen: &str, rows: &[(String, Vec<String>)], used: &str) {
    let number = |cell: &str| {
        cell.trim_end_matches(['~', '×', '*']).replace(',', "").parse::<f64>().unwrap()
    };
    let limit = number(between(&paragraph(screen, "Rule"), "p95 stall up to ", " ms"));
    let excluded =
        if screen.contains("Excluded ") { paragraph(screen, "Excluded") } else { String::new() };
    let all = rows.iter().map(|(name, cells)| (name.trim_end_matches(" <-"), cells));
    let quiet = all.filter(|(name, cells)| {
        *name == "none" || number(&cells[0]) <= limit && !excluded.contains(name)
    });
    let rates: Vec<_> = quiet
        .map(|(name, cells)| (name, number(&cells[1]), number(cells[3].trim_end_matches(" %"))))
        .collect();
    let most = rates.iter().map(|(_, rate, _)| *rate).fold(0.0, f64::max);
    let fast: Vec<_> = rates.into_iter().filter(|(_, rate, _)| most / rate < 1.05).collect();
    let least = fast.iter().map(|(.., wear)| 100.0 + wear).fold(f64::INFINITY, f64::min);
    let order = |name: &str| {
        ["none", "batched", "online", "adaptive", "idle"].iter().position(|one| *one == name)
    };
    let tied = fast.iter().filter(|(.., wear)| (100.0 + wear) / least < 1.05);
    assert_eq!(
        tied.min_by_key(|(name, ..)| order(name)).map(|(name, ..)| *name),
        Some(used),
        "{screen}"
    );
}

/// Checks "4K writes 0.46× to 0.89×, wear +6 % to +26 %, against weekly fstrim".
fn check_without_trimming(text: &str, studies: &[Value]) {
    let mut all: Vec<(f64, f64)> =
        studies.iter().map(|study| against_batched(study, "none", "60%")).collect();
    let ends = |shown: &str| {
        shown
            .split_once(" to ")
            .map_or((shown.to_owned(), shown.to_owned()), |(a, b)| (a.to_owned(), b.to_owned()))
    };
    let (writes, wear) =
        (ends(between(text, "4K writes ", ", wear")), ends(between(text, "wear ", ", against")));
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    same(&writes.0, all[0].0, text);
    same(&writes.1, all[all.len() - 1].0, text);
    all.sort_by(|a, b| a.1.total_cmp(&b.1));
    same_percent(&wear.0, all[0].1, text);
    same_percent(&wear.1, all[all.len() - 1].1, text);
}

/// Checks "Fill" against the runs and the rule; narrow screens leave it to --details.
fn check_other_fill(screen: &str, studies: &[(&str, &Value)]) {
    if !screen.contains("\nFill ") {
        return;
    }
    let text = paragraph(screen, "Fill");
    let text = text.strip_prefix("90 %: ").unwrap_or_else(|| panic!("{text}"));
    for ((name, study), part) in studies.iter().zip(text.split("; ")) {
        let said =
            part.strip_prefix(name).unwrap_or_else(|| panic!("{part} is not about {name}")).trim();
        let words: Vec<&str> = said.split(", ").collect();
        let chosen = by_rule(study, "90%");
        assert!(
            chosen == Some(words[0])
                || chosen.is_none() && ["no difference", "no trimming"].contains(&words[0]),
            "{chosen:?}: {part}"
        );
        if let [policy, writes, wear] = words[..] {
            check_gain(
                study,
                policy,
                "90%",
                writes.strip_suffix(" writes").unwrap(),
                wear.strip_prefix("wear ").unwrap(),
            );
        }
    }
}

/// Checks "online: tree's 'delete' takes 3.41 s; none 53.0 ms" against the runs.
fn check_excluded(screen: &str, study: &Value) {
    if !screen.contains("Excluded online") {
        return assert!(!online_slows(study), "{screen}");
    }
    let text = paragraph(screen, "Excluded");
    let (online, none) = text.split_once("takes ").unwrap().1.split_once("; none ").unwrap();
    let none = none.split("; ").next().unwrap();
    let times = [online, none].map(|time| {
        let (number, unit) = time.split_once(' ').unwrap();
        let scale =
            [("ms", 1e3), ("s", 1.0)].into_iter().find(|(name, _)| *name == unit).unwrap().1;
        (number.parse::<f64>().unwrap() / scale, 0.006)
    });
    let has = |run: &Value, name: &str, (time, off): (f64, f64)| {
        metric(run, name).is_some_and(|value| (value / time - 1.0).abs() < off)
    };
    let pairs = of(study, "runs", "online").zip(of(study, "runs", "none"));
    let names = |run: &Value| {
        run["metrics"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let mut same = pairs
        .flat_map(|(online, none)| names(online).into_iter().map(move |name| (online, none, name)));
    assert!(
        same.any(|(online, none, name)| has(online, &name, times[0]) && has(none, &name, times[1])),
        "{text}"
    );
}

/// Checks the shares of time such as "trims take 3.62 % of all time on OCZ".
fn check_time_trimming(screen: &str, studies: &[(&str, &Value)]) {
    let uses: Vec<&str> = screen.lines().skip_while(|line| !line.starts_with("USE")).collect();
    let uses = uses
        .into_iter()
        .take_while(|line| line.starts_with("USE") || line.starts_with("     "))
        .collect::<Vec<_>>()
        .join(" ");
    let uses = uses.split_whitespace().collect::<Vec<_>>().join(" ");
    for (name, study) in studies {
        let Some(policy) = study["use"].as_str().filter(|policy| *policy != "none") else {
            continue;
        };
        let aged = aged(study, policy, "60%").unwrap();
        let number = |key: &str| aged["settings"][key].as_str().unwrap().parse::<f64>().unwrap();
        let seconds = number("drive-writes") / number("drive-writes-a-day") * 86_400.0;
        let trimming = metric(aged, "trim.seconds").unwrap_or(0.0);
        let said = if name.is_empty() {
            " % of all time".to_owned()
        } else {
            format!(" % of all time on {name}")
        };
        assert_eq!(uses.contains(&said), trimming / seconds > 0.01, "{uses}");
        if let Some((before, _)) = uses.split_once(&said) {
            same(
                before.rsplit("trims take ").next().unwrap(),
                100.0 * trimming / seconds,
                "time trimming",
            );
        }
    }
}

/// Number of values by source, such as `3 published`, over all drives.
fn inputs(drives: &[&str]) -> String {
    let mut counts = ["published", "fitted", "measured", "assumed"].map(|kind| (kind, 0));
    for drive in drives {
        let output = trimtab().args(["drive", "show", drive, "--json"]).output().unwrap();
        let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
        for field in shown["fields"].as_array().unwrap() {
            counts.iter_mut().find(|(kind, _)| field["source"]["kind"] == *kind).unwrap().1 += 1;
        }
    }
    let shown = counts
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(kind, count)| format!("{count} {kind}"));
    format!("inputs: {}", shown.collect::<Vec<_>>().join(", "))
}

/// Checks the size of the drive that stands in for large ones: none below 130 GB has one.
fn check_stand_in(figures: &str, studies: &[Value]) {
    for (study, large) in studies.iter().zip([false, true, true]) {
        for run in study["runs"].as_array().unwrap() {
            let size = run["environment"]["drive.aged-size"].as_str();
            assert_eq!(size.is_some(), large, "{}", run["environment"]);
            assert!(
                size.is_none_or(|size| figures.ends_with(&format!("large drives as {size}"))),
                "{figures}"
            );
        }
    }
}

/// Checks the notes below the table against the runs and the drives.
fn check_notes(screen: &str, study: &Value, drives: &[&str]) {
    let churn = &aged(study, "none", "60%").unwrap()["settings"];
    let number = |key: &str| churn[key].as_str().unwrap().parse::<f64>().unwrap();
    if screen.contains("60 % full, ") {
        let days: f64 = between(screen, "60 % full, ", " day").parse().unwrap();
        let written = number("drive-writes") / number("drive-writes-a-day");
        assert!((days - written).abs() <= 0.5, "{screen}");
    }
    if screen.contains("Figures ") {
        let figures = paragraph(screen, "Figures");
        assert_eq!(
            between(&figures, "", " % of the drive written a day").parse::<f64>().unwrap(),
            100.0 * number("drive-writes-a-day"),
            "{figures}"
        );
    }
    let sure = paragraph(screen, "How sure");
    let (all, met) = predicted_figures();
    assert!(
        sure.contains(&format!("{met} of {all} published figures predicted within 25 %")),
        "{sure}"
    );
    assert!(sure.contains(&inputs(drives)), "{sure}, and not {}", inputs(drives));
}

/// The questions of trimtab-report/src/study/tests/first_screen.md: which policy, why, how
/// much, what it costs, is it measured, on what for how long, what to check first, how sure,
/// how to apply and undo, where the data are.
#[track_caller]
fn answers_ten_questions(screen: &str, columns: usize) {
    let flat = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    let answers = [
        "USE ",
        "Rule ",
        "4K writes",
        "stall, ms",
        "MODELLED",
        "other assumptions were not tested",
        "First trimtab doctor",
    ];
    let commands = ["--dry-run", "Undo trimtab apply --undo", "Report "];
    // Narrow screens leave these to --details.
    let more =
        ["Figures ", "(undoes its last change in /etc)"].into_iter().filter(|_| columns >= 80);
    for answer in answers.into_iter().chain(commands).chain(more) {
        assert!(flat.contains(answer), "'{answer}' is not on:\n{screen}");
    }
}

#[test]
fn first_screen_of_one_drive_matches_json() {
    let (study, screens) =
        made(&["drive:ocz-vertex-le-100gb", "--quick", "--policies", "none,online,batched,idle"]);
    let used = study["use"].as_str().unwrap();
    for (screen, columns) in screens.iter().zip(WIDTHS) {
        assert!(paragraph(screen, "USE").starts_with(&format!("{used}: ")), "{screen}");
        let (header, rows) = table(screen);
        assert_eq!(header[..4], ["stall, ms", "a second", "writes", "wear"]);
        assert!(rows.len() == 4 || columns < 80, "{rows:?}");
        for (name, cells) in &rows {
            let policy = name.trim_end_matches(" <-");
            assert_eq!(name.ends_with(" <-"), policy == used, "{name}");
            same_stall(&cells[0], &study, policy);
            same_rate(&cells[1], &study, policy);
            check_gain(&study, policy, "60%", &cells[2], &cells[3]);
            assert!(cells.len() > 4 || columns < 80, "{policy} is explained: {cells:?}");
        }
        assert_eq!(by_rule(&study, "60%"), Some(used));
        check_excluded(screen, &study);
        check_rule(screen, &rows, used);
        check_time_trimming(screen, &[("", &study)]);
        assert_eq!(
            screen.contains("~ not steady"),
            rows.iter().flat_map(|(_, cells)| cells).any(|cell| cell.ends_with('~')),
            "{screen}"
        );
        check_notes(screen, &study, &["ocz-vertex-le-100gb"]);
        let runs: usize =
            ["runs", "ageing"].iter().map(|part| study[*part].as_array().unwrap().len()).sum();
        assert!(
            columns < 80 || screen.contains(&format!("({runs} runs)")),
            "{runs} runs:\n{screen}"
        );
        assert!(study["sensitivity"].is_null(), "a quick study has no time for it, and says so");
        answers_ten_questions(screen, columns);
        assert!(screen.lines().count() <= 23, "one screen:\n{screen}");
        insta::assert_snapshot!(format!("of-one-drive-{columns}"), screen);
    }
}

#[test]
fn first_screen_of_three_drives_matches_json() {
    // The default study without its slow parts: a larger drive, further policies and
    // other assumptions.
    let (all, screens) = made(&[
        "--aged-size",
        "120MB",
        "--policies",
        "none,batched,idle",
        "--questions",
        "deleting,ageing",
    ]);
    let studies = all["studies"].as_array().unwrap();
    let named: Vec<(&str, &Value)> = ["OCZ", "SATA", "NVMe"].into_iter().zip(studies).collect();
    for (screen, columns) in screens.iter().zip(WIDTHS) {
        let (header, rows) = table(screen);
        assert_eq!(header[..7], ["USE", "USE", "weekly", "USE", "weekly", "writes", "wear"]);
        assert_eq!(rows.len(), 3, "{rows:?}");
        for ((name, study), (row, cells)) in named.iter().zip(&rows) {
            assert_eq!(row, name);
            let used = study["use"].as_str().filter(|used| *used != "none");
            assert_eq!(by_rule(study, "60%"), used, "{name}");
            same_stall(&cells[2], study, "batched");
            same_rate(&cells[4], study, "batched");
            match used {
                None => assert_eq!(
                    (cells[0].as_str(), cells[1].as_str(), cells[5].as_str()),
                    ("keep", "-", "-")
                ),
                Some(used) => {
                    assert_eq!(cells[0], used);
                    same_stall(&cells[1], study, used);
                    same_rate(&cells[3], study, used);
                    check_gain(study, used, "60%", &cells[5], &cells[6]);
                }
            }
        }
        assert_eq!(
            screen.contains("~ not steady"),
            rows.iter().flat_map(|(_, cells)| cells).any(|cell| cell.ends_with('~')),
            "{screen}"
        );
        let runs: usize = studies
            .iter()
            .map(|study| {
                ["runs", "ageing"]
                    .iter()
                    .map(|part| study[*part].as_array().unwrap().len())
                    .sum::<usize>()
            })
            .sum();
        assert!(
            columns < 80 || screen.contains(&format!("({runs} runs)")),
            "{runs} runs:\n{screen}"
        );
        check_notes(
            screen,
            &studies[0],
            &["ocz-vertex-le-100gb", "sata-tlc-500gb", "nvme-tlc-500gb"],
        );
        check_other_fill(screen, &named);
        check_time_trimming(screen, &named);
        if screen.contains("Figures ") {
            check_stand_in(&paragraph(screen, "Figures"), studies);
        }
        if screen.contains("No TRIM") {
            check_without_trimming(&paragraph(screen, "No TRIM"), studies);
        }
        assert!(
            studies.iter().all(|study| study["sensitivity"].is_null()),
            "it was not asked, and that is said"
        );
        answers_ten_questions(screen, columns);
        assert!(screen.lines().count() <= 23, "one screen:\n{screen}");
        insta::assert_snapshot!(format!("of-three-drives-{columns}"), screen);
    }
}
