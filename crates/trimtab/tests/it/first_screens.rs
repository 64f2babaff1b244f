//! The first screen of modelled studies: golden copies at three widths, and every figure on
//! it recomputed from the JSON document with arithmetic that shares no code with the program.

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
        command.arg("study").args(args).args(["--resume", "--quiet", "--force"]).args(more).arg("--store").arg(&store);
        let output = command.arg("--report").arg(&report).env("COLUMNS", columns.to_string()).output().unwrap();
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

/// Only a path to copy may exceed the screen width, and no line breaks between a number and
/// its unit.
fn check_lines(screen: &str, columns: usize, report: &Path) {
    let lines: Vec<&str> = screen.lines().collect();
    for line in &lines {
        let path = line.contains(report.to_str().unwrap());
        assert!(line.chars().count() <= columns || path, "{} of {columns} columns: {line}\n{screen}", line.chars().count());
    }
    for pair in lines.windows(2) {
        let (last, first) = (pair[0].split_whitespace().next_back().unwrap_or(""), pair[1].split_whitespace().next().unwrap_or(""));
        let number = last.ends_with(|c: char| c.is_ascii_digit()) && !last.contains([':', '/']);
        let unit = ["%", "ms", "µs", "ns", "s", "days", "runs", "GB", "MB", "full"].contains(&first.trim_end_matches([',', ';', ')', '.']));
        assert!(!(number && unit), "split between '{last}' and '{first}':\n{screen}");
    }
}

/// Replaces everything that varies between runs: the duration, the report's path and the
/// study's id.
fn as_always(screen: &str, report: &Path) -> String {
    let line = |line: &str| {
        if let Some((before, _)) = line.split_once("MODELLED, ") {
            return format!("{} MODELLED, trimtab VERSION, TIME", before.trim_end());
        }
        let line = line.replace(report.to_str().unwrap(), "/REPORT.html");
        match line.split_once("study:") {
            Some((before, id)) if id.len() >= 8 && id.bytes().take(8).all(|b| b.is_ascii_hexdigit()) => {
                format!("{before}study:01234567{}", &id[8..])
            }
            _ => line,
        }
    };
    screen.lines().map(|one| line(one) + "\n").collect()
}

fn metric(run: &Value, name: &str) -> Option<f64> {
    let samples = run["metrics"].as_array()?.iter().find(|metric| metric["name"] == name)?["samples"].as_array()?;
    Some(samples.iter().map(|sample| sample.as_f64().unwrap()).sum::<f64>() / samples.len() as f64)
}

fn of<'a>(study: &'a Value, part: &str, policy: &str) -> impl Iterator<Item = &'a Value> {
    study[part].as_array().unwrap().iter().filter(move |run| run["policy"] == policy)
}

fn wait(study: &Value, policy: &str) -> Option<f64> {
    of(study, "runs", policy).filter_map(|run| metric(run, "sparse-load.wait.longest.seconds")).reduce(f64::max)
}

fn aged<'a>(study: &'a Value, policy: &str, fill: &str) -> Option<&'a Value> {
    let percent = fill.replace(' ', "");
    of(study, "ageing", policy).find(|run| run["settings"]["fill"] == percent.as_str())
}

/// The mark after a figure that depends on the random-write rate of these runs.
fn mark(runs: &[&Value]) -> &'static str {
    let unsteady = |run: &&Value| {
        run["warnings"].as_array().is_some_and(|all| all.iter().any(|one| one["code"].as_str().unwrap().starts_with("steady-state.")))
    };
    if runs.iter().any(unsteady) { "~" } else { "" }
}

/// Strips the mark at the end, which must be `mark`.
#[track_caller]
fn unmarked<'a>(shown: &'a str, mark: &str) -> &'a str {
    assert_eq!(&shown[shown.trim_end_matches('~').len()..], mark, "{shown}");
    shown.trim_end_matches('~')
}

/// Ratios of the random-write rate and the wear to those of batched trims.
fn against_batched(study: &Value, policy: &str, fill: &str) -> (f64, f64) {
    let (mine, batched) = (aged(study, policy, fill).unwrap(), aged(study, "batched", fill).unwrap());
    let ratio = |name: &str| metric(mine, name).unwrap() / metric(batched, name).unwrap();
    (ratio("random-write.steady-state"), ratio("erase-cycles.per-tb"))
}

/// True if online discard makes deleting more than 50 % slower, and by more than 50 ms.
fn online_slows(study: &Value) -> bool {
    let deleting = |policy: &str| {
        let phases = |run: &Value| Some(metric(run, "delete.seconds")? + metric(run, "delete-sync.seconds")?);
        of(study, "runs", policy).filter_map(phases).collect::<Vec<f64>>()
    };
    deleting("none").iter().zip(deleting("online")).any(|(none, online)| online > none * 1.5 && online - none > 0.05)
}

/// The policy that the rule on the screen selects. Candidates have waits up to 50 ms, or up
/// to twice the shortest. The order is most writes, then least wear, each by 5 % or more,
/// then the simplest. Policies that slow deleting down or never finish are excluded. `None`
/// where the answer is not to trim.
pub fn by_rule(study: &Value, fill: &str) -> Option<&'static str> {
    let figure = |policy: &str, name: &str| metric(aged(study, policy, fill).unwrap(), name).unwrap();
    let tried = |policy: &&'static str| {
        let fits = || (*policy != "online" || !online_slows(study)) && figure(policy, "trim.behind") < 90.0;
        aged(study, policy, fill).is_some() && (*policy == "none" || fits())
    };
    let all: Vec<&'static str> = ["none", "batched", "online", "adaptive", "idle"].into_iter().filter(tried).collect();
    let shortest = all[1..].iter().map(|policy| wait(study, policy).unwrap()).fold(f64::INFINITY, f64::min);
    let limit = if shortest > 0.05 { 2.0 * shortest } else { 0.05 };
    let quiet: Vec<_> = all.into_iter().filter(|policy| *policy == "none" || wait(study, policy).unwrap() <= limit).collect();
    let rate = |policy: &str| figure(policy, "random-write.steady-state");
    let most = quiet.iter().map(|policy| rate(policy)).fold(0.0, f64::max);
    let fast: Vec<_> = quiet.into_iter().filter(|policy| most / rate(policy) < 1.05).collect();
    let wear = |policy: &str| figure(policy, "erase-cycles.per-tb");
    let least = fast.iter().map(|policy| wear(policy)).fold(f64::INFINITY, f64::min);
    fast.into_iter().find(|policy| wear(policy) / least < 1.05).filter(|policy| *policy != "none")
}

/// The number of predicted figures in docs/published.md, and the number of those counted as
/// met.
fn predicted_figures() -> (usize, usize) {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/published.md")).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| predicted"));
    let of = |row: &str| row.split('|').filter_map(|cell| cell.trim().parse().ok()).collect::<Vec<usize>>();
    rows.map(of).fold((0, 0), |sum, row| (sum.0 + row[row.len() - 1], sum.1 + row[0]))
}

/// A displayed time in seconds; it has three digits.
fn seconds(text: &str) -> f64 {
    if let Some((minutes, seconds)) = text.strip_suffix('s').and_then(|text| text.split_once('m')).filter(|(_, s)| !s.is_empty()) {
        return minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap();
    }
    let (number, unit) = text.split_once(' ').unwrap_or_else(|| panic!("'{text}' is no time"));
    let digits = number.chars().filter(char::is_ascii_digit).count();
    assert_eq!(digits, 3, "'{text}' has three digits");
    let scale = [("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)].into_iter().find(|(name, _)| *name == unit);
    number.parse::<f64>().unwrap() * scale.unwrap_or_else(|| panic!("'{text}' is no time")).1
}

/// Asserts that `shown` is `value` rounded to three digits.
#[track_caller]
fn same(shown: f64, value: f64, what: &str) {
    let unit = 10_f64.powi(value.abs().max(1e-12).log10().floor() as i32 - 2);
    assert!((shown - value).abs() <= unit * 0.51, "{what}: {shown} on the screen, {value} in the document");
}

/// Asserts that `shown`, such as `+47 %`, is `ratio` as a whole percentage.
#[track_caller]
fn same_percent(shown: &str, ratio: f64, what: &str) {
    let percent: f64 = shown.trim_end_matches(" %").parse().unwrap_or_else(|_| panic!("{what}: '{shown}'"));
    assert!((percent - (ratio - 1.0) * 100.0).abs() <= 0.501, "{what}: {shown} on the screen, {ratio} in the document");
}

/// The column headings and the rows by name. The panels of a narrow screen are joined.
fn table(screen: &str) -> (Vec<String>, Vec<(String, Vec<String>)>) {
    let cells = |line: &str| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    let (mut header, mut rows): (Vec<String>, Vec<(String, Vec<String>)>) = (Vec::new(), Vec::new());
    let lines: Vec<&str> = screen.lines().collect();
    for at in (1..lines.len()).filter(|at| lines[*at].starts_with('─')) {
        header.extend(cells(lines[at - 1]).into_iter().skip(1));
        // Without room for an empty line, the next paragraph follows directly, with a label.
        let follows =
            |line: &str| ["Deleting", "No TRIM", "Figures", "How sure", "Check first"].iter().any(|label| line.starts_with(label));
        for line in lines[at + 1..].iter().take_while(|line| !line.is_empty() && !follows(line)) {
            let mut cells = cells(line);
            let name = cells.remove(0);
            match rows.iter_mut().find(|(known, _)| *known == name) {
                Some((_, row)) => row.extend(cells),
                None => rows.push((name, cells)),
            }
        }
    }
    (header, rows)
}

/// The paragraph after a label, with its lines joined.
fn paragraph(screen: &str, label: &str) -> String {
    let mut lines = screen.lines().skip_while(|line| !line.starts_with(label));
    let first = lines.next().unwrap_or_else(|| panic!("no {label} in\n{screen}"))[label.len()..].trim().to_owned();
    lines.take_while(|line| line.starts_with("  ")).fold(first, |text, line| format!("{text} {}", line.trim()))
}

/// The text between `before` and `after`.
#[track_caller]
fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let rest = text.split_once(before).unwrap_or_else(|| panic!("'{before}' is not in: {text}")).1;
    rest.split_once(after).unwrap_or_else(|| panic!("'{after}' is not in: {rest}")).0
}

/// Checks one row of the table against the runs of `policy`. `cells` and `header` exclude the
/// name.
fn check_row(study: &Value, policy: &str, header: &[String], cells: &[String]) {
    assert_eq!(cells.len(), header.len(), "{policy}: {cells:?}");
    match wait(study, policy) {
        Some(wait) => same(seconds(&cells[0]), wait, policy),
        None => assert_eq!(cells[0], "-", "{policy}"),
    }
    assert_eq!(header[0], "append every 5 s");
    let fills: Vec<&str> = ["60%", "90%"].into_iter().filter(|fill| aged(study, "none", fill).is_some()).collect();
    let figures = header[1..].chunks(3).zip(cells[1..].chunks(3));
    assert!(figures.len() >= 1 && figures.len() <= fills.len(), "{header:?}");
    for ((names, cells), fill) in figures.zip(fills) {
        assert_eq!(names, ["writes/s", "ratio", "wear"]);
        let what = format!("{policy} at {fill}");
        let run = aged(study, policy, fill).unwrap_or_else(|| panic!("no {what}"));
        let rate = unmarked(&cells[0], mark(&[run]));
        same(rate.replace(',', "").parse().unwrap(), metric(run, "random-write.steady-state").unwrap(), &what);
        let (speed, wear) = against_batched(study, policy, fill);
        let shown: f64 = cells[1].trim_end_matches('×').parse().unwrap();
        assert!((shown - speed).abs() <= 0.00501, "{what}: {shown} on the screen, {speed} in the document");
        same_percent(&cells[2], wear, &what);
    }
}

/// Checks the notes below the table against the runs.
fn check_notes(screen: &str, study: &Value) {
    let churn = &aged(study, "none", "60%").unwrap()["settings"];
    let number = |key: &str| churn[key].as_str().unwrap().parse::<f64>().unwrap();
    if screen.contains("Figures:") {
        let figures = paragraph(screen, "Figures:");
        let days = figures.split(" day").next().unwrap().parse::<f64>().unwrap();
        assert!((days - number("drive-writes") / number("drive-writes-a-day")).abs() <= 0.5, "{figures}");
        assert_eq!(between(&figures, "s, ", " % written").parse::<f64>().unwrap(), 100.0 * number("drive-writes-a-day"), "{figures}");
    }
    let (all, met) = predicted_figures();
    let sure = paragraph(screen, "How sure:");
    assert!(sure.contains(&format!("the model is off by more than 25 % on {} of {all} published figures", all - met)), "{sure}");
}

/// The questions of docs/first-reader.md: which policy, why, how much, what it costs, is it
/// measured, on what for how long, what to check first, how sure, how to apply and undo,
/// where the data are.
#[track_caller]
fn answers_ten_questions(screen: &str, columns: usize, sure: &str) {
    let words: Vec<&str> = screen.split_whitespace().collect();
    let flat = words.join(" ");
    let answers = ["USE ", "WHY ", "policy ", "append every 5 s", "MODELLED", sure, "--dry-run", "Report "];
    // Narrow screens leave these to --details.
    let more = ["Figures: ", "Check first: ", "trimtab apply --undo"].into_iter().filter(|_| columns >= 80);
    for answer in answers.into_iter().chain(more) {
        assert!(flat.contains(answer), "'{answer}' is not on:\n{screen}");
    }
}

/// Checks a line such as "Deleting 3,670 files: 56.8 ms; online as long (Linux 2.6.39: 58.2×
/// none's time)".
fn check_deleting(study: &Value, deleting: &str) {
    let tree = |policy: &str| {
        let run = of(study, "runs", policy).find(|run| run["workload"] == "tree").unwrap();
        (metric(run, "delete.seconds").unwrap() + metric(run, "delete-sync.seconds").unwrap(), run["settings"]["files"].as_str().unwrap())
    };
    let ((none, files), (online, _)) = (tree("none"), tree("online"));
    assert_eq!(deleting.split(" files").next().unwrap().replace(',', ""), files, "{deleting}");
    let older = |policy: &str| {
        let run = of(study, "kernels", policy).find(|run| run["workload"] == "tree").unwrap();
        metric(run, "delete.seconds").unwrap() + metric(run, "delete-sync.seconds").unwrap()
    };
    let times = |text: &str| text.rsplit(['(', ' ']).next().unwrap().parse::<f64>().unwrap();
    same(times(deleting.rsplit_once('×').unwrap().0), older("online") / older("none"), "on the other kernel");
    if let Some((time, _)) = deleting.split_once("; online as long") {
        same(seconds(time.split("files: ").nth(1).unwrap()), none, "deleting");
        assert!((online / none - 1.0).abs() <= 0.02, "{deleting}: {none} and {online}");
    } else {
        same(seconds(between(deleting, "files: ", ";")), none, "deleting");
        same(seconds(between(deleting, "online ", " (")), online, "deleting with online discard");
        same(times(between(deleting, "online ", "×;")), online / none, "how many times longer");
    }
}

#[test]
fn of_one_drive() {
    let (study, screens) = made(&["drive:ocz-vertex-le-100gb", "--quick", "--policies", "none,online,batched,idle"]);
    let used = study["use"].as_str().unwrap();
    for (screen, columns) in screens.iter().zip(WIDTHS) {
        assert!(paragraph(screen, "USE").starts_with(&format!("{used}: ")), "{screen}");
        let (header, rows) = table(screen);
        assert_eq!(rows.len(), 4, "{rows:?}");
        for (name, cells) in &rows {
            let policy = name.trim_end_matches(" <-");
            assert_eq!(name.ends_with(" <-"), policy == used, "{name}");
            check_row(&study, policy, &header, cells);
        }
        assert_eq!(by_rule(&study, "60%"), Some(used));
        assert!(paragraph(screen, "WHY").starts_with("appends within 50.0 ms; then most writes"), "{screen}");
        assert_eq!(screen.contains("~ not steady"), rows.iter().flat_map(|(_, cells)| cells).any(|cell| cell.ends_with('~')), "{screen}");
        check_notes(screen, &study);
        if columns >= 80 {
            check_deleting(&study, &paragraph(screen, "Deleting"));
        }
        let moved = |from: &str| {
            let run =
                study["tuning"].as_array().unwrap().iter().find(|run| run["settings"]["tuning.choice"].as_str().unwrap().contains(from));
            metric(run.unwrap(), "random-write.steady-state").unwrap()
        };
        let check = paragraph(screen, "Check first");
        same(between(&check, "writes ", "×").parse().unwrap(), moved("1 MiB") / moved("sector 63"), &check);
        let runs: usize = ["runs", "ageing", "tuning", "kernels"].iter().map(|part| study[*part].as_array().unwrap().len()).sum();
        assert!(columns < 80 || screen.contains(&format!("({runs} runs, kept)")), "{runs} runs:\n{screen}");
        assert!(study["sensitivity"].is_null(), "a quick study has no time for it, and says so");
        answers_ten_questions(screen, columns, "sensitivity to assumptions not tested");
        assert!(screen.lines().count() <= 23, "one screen:\n{screen}");
        insta::assert_snapshot!(format!("of-one-drive-{columns}"), screen);
    }
}

#[test]
fn of_three_drives() {
    // The default study without its slow parts: a larger drive, further policies and other
    // assumptions.
    let (all, screens) = made(&["--aged-size", "120MB", "--policies", "none,batched,idle", "--questions", "deleting,ageing"]);
    let studies = all["studies"].as_array().unwrap();
    for (screen, columns) in screens.iter().zip(WIDTHS) {
        let (header, rows) = table(screen);
        for (study, name) in studies.iter().zip(["OCZ", "SATA", "NVMe"]) {
            let mine: Vec<_> = rows.iter().filter_map(|(row, cells)| Some((row.strip_prefix(name)?.trim(), cells))).collect();
            assert!(!mine.is_empty() && mine[0].0.starts_with("batched"), "{name}: {rows:?}");
            let used = study["use"].as_str().filter(|used| *used != "none");
            assert_eq!(by_rule(study, "60%"), used, "{name}");
            for (row, cells) in mine {
                let policy = row.trim_end_matches(" <-");
                assert_eq!(row.ends_with(" <-"), study["use"] == policy, "{name} {row}");
                check_row(study, policy, &header, cells);
            }
        }
        assert_eq!(screen.contains("~ not steady"), rows.iter().flat_map(|(_, cells)| cells).any(|cell| cell.ends_with('~')), "{screen}");
        let runs: usize =
            studies.iter().map(|study| ["runs", "ageing"].iter().map(|part| study[*part].as_array().unwrap().len()).sum::<usize>()).sum();
        assert!(columns < 80 || screen.contains(&format!("({runs} runs, kept)")), "{runs} runs:\n{screen}");
        check_notes(screen, &studies[0]);
        assert!(studies.iter().all(|study| study["sensitivity"].is_null()), "it was not asked, and that is said");
        answers_ten_questions(screen, columns, "sensitivity to assumptions not tested");
        assert!(screen.lines().count() <= 23, "one screen:\n{screen}");
        insta::assert_snapshot!(format!("of-three-drives-{columns}"), screen);
    }
}
