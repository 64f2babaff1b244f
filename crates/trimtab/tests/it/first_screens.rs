//! The first screen of a study, of runs that were really modelled: golden copies at three widths, and every figure on it recomputed from the
//! JSON document by arithmetic that shares nothing with the program.

use crate::support::trimtab;
use serde_json::Value;
use std::path::Path;

const WIDTHS: [usize; 3] = [60, 80, 120];

/// A study that is made once and then shown: its JSON document, and its screens at [`WIDTHS`].
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
    // What was finished is taken: the same runs, in words.
    let screens = WIDTHS.map(|columns| study(&[], columns));
    for (screen, columns) in screens.iter().zip(WIDTHS) {
        check_lines(screen, columns, &report);
    }
    (json, screens.map(|screen| as_always(&screen, &report)))
}

/// No line is wider than the screen but a path to copy, and no line ends between a number and its unit.
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

/// What differs from one time to the next: how long it took, where the report is, by which name it is kept.
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

/// What stands behind a figure that the rate of random writes of such runs is in.
fn mark(runs: &[&Value]) -> &'static str {
    let unsteady = |run: &&Value| {
        run["warnings"].as_array().is_some_and(|all| all.iter().any(|one| one["code"].as_str().unwrap().starts_with("steady-state.")))
    };
    if runs.iter().any(unsteady) { "~" } else { "" }
}

/// What a gain of random writes is marked with.
fn gain_mark(study: &Value, policy: &str, fill: &str) -> &'static str {
    mark(&[aged(study, policy, fill).unwrap(), aged(study, "none", fill).unwrap()])
}

/// Without its mark, which has to be this one.
#[track_caller]
fn unmarked<'a>(shown: &'a str, mark: &str) -> &'a str {
    assert_eq!(&shown[shown.trim_end_matches('~').len()..], mark, "{shown}");
    shown.trim_end_matches('~')
}

/// How many times the rate and the life of no trimming.
fn gain(study: &Value, policy: &str, fill: &str) -> Option<(f64, f64)> {
    let (mine, none) = (aged(study, policy, fill)?, aged(study, "none", fill)?);
    let ratio = |name: &str| Some((metric(mine, name)?, metric(none, name)?));
    let (rates, cycles) = (ratio("random-write.steady-state")?, ratio("erase-cycles.per-tb")?);
    Some((rates.0 / rates.1, cycles.1 / cycles.0))
}

/// A time as it is shown, in seconds; it has three digits.
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

/// `shown` is `value`, rounded to three digits.
#[track_caller]
fn same(shown: f64, value: f64, what: &str) {
    let unit = 10_f64.powi(value.abs().max(1e-12).log10().floor() as i32 - 2);
    assert!((shown - value).abs() <= unit * 0.51, "{what}: {shown} on the screen, {value} in the document");
}

/// `+47 %` is `ratio`, as a whole number.
#[track_caller]
fn same_percent(shown: &str, ratio: f64, what: &str) {
    let percent: f64 = shown.trim_end_matches(" %").parse().unwrap_or_else(|_| panic!("{what}: '{shown}'"));
    assert!((percent - (ratio - 1.0) * 100.0).abs() <= 0.501, "{what}: {shown} on the screen, {ratio} in the document");
}

/// Rows of the table by their names, the panels of a narrow screen behind each other, and what stands above their columns.
fn table(screen: &str) -> (Vec<String>, Vec<(String, Vec<String>)>) {
    let cells = |line: &str| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    let (mut header, mut rows): (Vec<String>, Vec<(String, Vec<String>)>) = (Vec::new(), Vec::new());
    let lines: Vec<&str> = screen.lines().collect();
    for at in (1..lines.len()).filter(|at| lines[*at].starts_with('─')) {
        header.extend(cells(lines[at - 1]).into_iter().skip(1));
        // On a narrow terminal no line is left for an empty one behind it.
        for line in lines[at + 1..].iter().take_while(|line| !line.is_empty() && !line.starts_with("Check first")) {
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

/// The paragraph behind a label, its lines joined again.
fn paragraph(screen: &str, label: &str) -> String {
    let mut lines = screen.lines().skip_while(|line| !line.starts_with(label));
    let first = lines.next().unwrap_or_else(|| panic!("no {label} in\n{screen}"))[label.len()..].trim().to_owned();
    lines.take_while(|line| line.starts_with("  ")).fold(first, |text, line| format!("{text} {}", line.trim()))
}

/// What stands between two pieces of a text.
#[track_caller]
fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let rest = text.split_once(before).unwrap_or_else(|| panic!("'{before}' is not in: {text}")).1;
    rest.split_once(after).unwrap_or_else(|| panic!("'{after}' is not in: {rest}")).0
}

/// One row of the table against the runs of `policy`. `cells` and `header` begin behind the name.
fn check_row(study: &Value, policy: &str, header: &[String], cells: &[String]) {
    assert_eq!(cells.len(), header.len(), "{policy}: {cells:?}");
    match wait(study, policy) {
        Some(wait) => same(seconds(&cells[0]), wait, policy),
        None => assert_eq!(cells[0], "-", "{policy}"),
    }
    // Where lines are short the write amplification is left out.
    let fills = header[1..].iter().collect::<std::collections::BTreeSet<_>>().len();
    let figures = (header.len() - 1) / fills;
    assert_eq!((header[0].as_str(), header.len()), ("worst latency", 1 + figures * fills));
    assert!([2, 3].contains(&figures), "{header:?}");
    for at in 0..fills {
        let fill = &header[1 + at];
        let what = format!("{policy} at {fill}");
        let run = aged(study, policy, fill).unwrap_or_else(|| panic!("no {what}"));
        let (rate, life) = (&cells[1 + at], &cells[1 + (figures - 1) * fills + at]);
        let rate = unmarked(rate, mark(&[run]));
        same(rate.replace(',', "").parse().unwrap(), metric(run, "random-write.steady-state").unwrap(), &what);
        if figures == 3 {
            let waf = &cells[1 + fills + at];
            assert!((waf.parse::<f64>().unwrap() - metric(run, "waf.steady").unwrap()).abs() <= 0.00501, "{what}: {waf}");
        }
        match policy {
            "none" => assert_eq!(life, "-"),
            _ => same_percent(life, gain(study, policy, fill).unwrap().1, &what),
        }
    }
}

/// The questions of docs/first-reader.md: which policy, why, how much, what it costs, is it measured, on what for how long, what to check first, how
/// sure, how to apply and undo, where the data are.
#[track_caller]
fn answers_ten_questions(screen: &str, columns: usize, sure: &str) {
    let words: Vec<&str> = screen.split_whitespace().collect();
    let flat = words.join(" ");
    let answers = ["USE ", "WHY ", "policy ", "append every 5 s", "MODELLED", " days)", sure, "--dry-run", "Report "];
    // What short lines have no room for is behind --details.
    let more = ["WAF of churn", "Check first: ", "trimtab apply --undo"].into_iter().filter(|_| columns >= 80);
    for answer in answers.into_iter().chain(more) {
        assert!(flat.contains(answer), "'{answer}' is not on:\n{screen}");
    }
}

/// Whether the life on some drive is more than a twentieth from what its write amplification comes to.
fn life_is_no_amplification(studies: &[Value]) -> bool {
    studies.iter().any(|study| {
        study["ageing"].as_array().unwrap().iter().any(|run| {
            let none = aged(study, "none", run["settings"]["fill"].as_str().unwrap()).unwrap();
            let ratio = |name: &str| metric(none, name).unwrap() / metric(run, name).unwrap();
            let times = ratio("waf.steady") / ratio("erase-cycles.per-tb");
            !(1.0 / 1.05..=1.05).contains(&times)
        })
    })
}

/// "Deleting 3,670 files: 56.8 ms; online as long (Linux 2.6.39: 58.2× none's time)".
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
        let life = screen.contains("Life: counts erases");
        assert!(!life, "the drive has no SLC cache:\n{screen}");
        for (name, cells) in &rows {
            let policy = name.trim_end_matches(" <-");
            assert_eq!(name.ends_with(" <-"), policy == used, "{name}");
            check_row(&study, policy, &header, cells);
        }
        let why = paragraph(screen, "WHY");
        let fill = between(&why, "against no trimming (", " full");
        let (rate, life) = gain(&study, used, fill).unwrap();
        let shown = unmarked(between(&why, "random writes ", ","), gain_mark(&study, used, fill));
        same_percent(shown, rate, "random writes");
        assert_eq!(screen.contains("~ not steady"), rows.iter().flat_map(|(_, cells)| cells).any(|cell| cell.ends_with('~')), "{screen}");
        same_percent(between(&why, "life ", " against"), life, "life");
        let churn = &aged(&study, used, fill).unwrap()["settings"];
        let number = |key: &str| churn[key].as_str().unwrap().parse::<f64>().unwrap();
        let days = between(&why, "full, ", " days").parse::<f64>().unwrap();
        assert!((days - number("drive-writes") / number("drive-writes-a-day")).abs() <= 0.5, "{why}");
        same(seconds(between(&why, "worst foreground write latency: ", ";")), wait(&study, used).unwrap(), &why);
        // "batched 680 ms, online 3.10 s": each of them.
        for beside in why.split("; ").nth(1).unwrap().split(", ") {
            let policy = rows.iter().map(|(name, _)| name.trim_end_matches(" <-")).find(|name| beside.contains(*name)).unwrap();
            let shown: Vec<&str> = beside.split_whitespace().collect();
            same(seconds(&shown[shown.len() - 2..].join(" ")), wait(&study, policy).unwrap(), beside);
        }
        if columns >= 80 {
            check_deleting(&study, &paragraph(screen, "Deleting"));
        }
        let moved = |from: &str| {
            let run =
                study["tuning"].as_array().unwrap().iter().find(|run| run["settings"]["tuning.choice"].as_str().unwrap().contains(from));
            metric(run.unwrap(), "random-write.steady-state").unwrap()
        };
        let check = paragraph(screen, "Check first");
        same(between(&check, "(", "×").parse().unwrap(), moved("1 MiB") / moved("sector 63"), &check);
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
    // As without anything, but for what takes long: a larger drive, further policies and other assumptions.
    let (all, screens) = made(&["--aged-size", "120MB", "--policies", "none,online,idle", "--questions", "deleting,ageing"]);
    let studies = all["studies"].as_array().unwrap();
    for (screen, columns) in screens.iter().zip(WIDTHS) {
        let (header, rows) = table(screen);
        let why = paragraph(screen, "WHY");
        for (study, name) in studies.iter().zip(["OCZ", "SATA", "NVMe"]) {
            let mine: Vec<_> = rows.iter().filter_map(|(row, cells)| Some((row.strip_prefix(name)?.trim(), cells))).collect();
            assert!(mine.len() >= 2 && mine[0].0.starts_with("none"), "{name}: {rows:?}");
            for (row, cells) in mine {
                let policy = row.trim_end_matches(" <-");
                assert_eq!(row.ends_with(" <-"), study["use"] == policy, "{name} {row}");
                check_row(study, policy, &header, cells);
            }
            // "random writes: OCZ +30 %, SATA no gain, NVMe no gain against no trimming"
            for (line, which) in why.split(" life: ").zip([0, 1]) {
                let shown = line.split(&format!("{name} ")).nth(1).unwrap().split([',', '(']).next().unwrap();
                let shown = shown.trim().trim_end_matches(" against no trimming");
                match study["use"].as_str().filter(|used| *used != "none") {
                    Some(used) => {
                        // At another fill than the one behind the line where it says so.
                        let (shown, fill) = match shown.split_once(" at ") {
                            Some((shown, fill)) => (shown, fill.strip_suffix(" full").unwrap()),
                            None => (shown, header[1].as_str()),
                        };
                        let gain = gain(study, used, fill).unwrap();
                        let shown = unmarked(shown, if which == 0 { gain_mark(study, used, fill) } else { "" });
                        same_percent(shown, if which == 0 { gain.0 } else { gain.1 }, &format!("{name}: {line}"));
                    }
                    None => assert_eq!(shown, "no gain", "{name}: {line}"),
                }
            }
        }
        assert_eq!(screen.contains("~ not steady"), rows.iter().flat_map(|(_, cells)| cells).any(|cell| cell.ends_with('~')), "{screen}");
        let runs: usize =
            studies.iter().map(|study| ["runs", "ageing"].iter().map(|part| study[*part].as_array().unwrap().len()).sum::<usize>()).sum();
        assert!(columns < 80 || screen.contains(&format!("({runs} runs, kept)")), "{runs} runs:\n{screen}");
        let churn = &aged(&studies[0], "none", &header[1]).unwrap()["settings"];
        let number = |key: &str| churn[key].as_str().unwrap().parse::<f64>().unwrap();
        let days = between(&why, "full, ", " days").parse::<f64>().unwrap();
        assert!((days - number("drive-writes") / number("drive-writes-a-day")).abs() <= 0.5, "{why}");
        assert!(studies.iter().all(|study| study["sensitivity"].is_null()), "it was not asked, and that is said");
        assert_eq!(screen.contains("Life: counts erases"), columns >= 80 && life_is_no_amplification(studies), "{screen}");
        answers_ten_questions(screen, columns, "How sure: modelled; sensitivity to assumptions not tested");
        assert!(screen.lines().count() <= 23, "one screen:\n{screen}");
        insta::assert_snapshot!(format!("of-three-drives-{columns}"), screen);
    }
}
