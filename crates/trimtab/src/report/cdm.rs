//! A crystal run in CrystalDiskMark's text format, for comparison with reports in forums and
//! reviews.
//!
//! As in CrystalDiskMark, the rate is the best of the passes and the latency the lowest, each
//! on its own.

use super::svg;
use std::fmt::Write as _;
use trimtab_sim::run::{Field, Run};
use trimtab_sim::workload::crystal::{Profile, Test};

/// The report. Tests missing from the run are left out.
pub fn text(run: &Run) -> anyhow::Result<String> {
    let profile = setting(run, "profile").and_then(|name| name.parse::<Profile>().ok());
    let Some(profile) = profile.filter(|_| run.workload == "crystal") else {
        anyhow::bail!("only runs of 'bench crystal' have CrystalDiskMark's format; this is a run of '{}'", run.workload);
    };
    let text = if profile.pairs() { old(run, profile) } else { new(run, profile) };
    Ok(trimtab_linux::output::plain(&text).into_owned())
}

/// The same figures as an SVG picture: two bars per test.
pub fn picture(run: &Run) -> anyhow::Result<String> {
    let profile = setting(run, "profile").and_then(|name| name.parse::<Profile>().ok());
    let Some(profile) = profile.filter(|_| run.workload == "crystal") else {
        anyhow::bail!("only runs of 'bench crystal' have this picture; this is a run of '{}'", run.workload);
    };
    let row = |test: &Test| {
        let rate = |write| score(run, test, write).map(|score| score.rate);
        let rates = [rate(false), rate(true)];
        let (kind, name) = (if test.random { "RND" } else { "SEQ" }, binary_block(test.block));
        rates.iter().any(Option::is_some).then(|| (format!("{kind} {name} Q{} T{}", test.queue, test.threads), rates))
    };
    let rows: Vec<svg::CrystalRow> = profile.tests().iter().filter_map(row).collect();
    let below = format!(
        "{} x{}{}, {}, trimtab {}",
        test_size(run),
        setting(run, "passes").unwrap_or("1"),
        fill(run),
        run.provenance.name(),
        run.tool_version
    );
    Ok(svg::crystal(&place(run), &below, &rows))
}

/// `1 MiB`, `4 KiB`.
fn binary_block(block: u32) -> String {
    if block >= 1 << 20 { format!("{} MiB", block >> 20) } else { format!("{} KiB", block >> 10) }
}

fn setting<'a>(run: &'a Run, key: &str) -> Option<&'a str> {
    Field::find(&run.settings, key)
}

fn environment<'a>(run: &'a Run, key: &str) -> Option<&'a str> {
    Field::find(&run.environment, key)
}

/// Best rate in 10^6 bytes per second, operations per second at that rate, lowest mean
/// latency in microseconds.
struct Score {
    rate: f64,
    iops: f64,
    latency_us: f64,
}

fn score(run: &Run, test: &Test, write: bool) -> Option<Score> {
    let samples = |what: &str| {
        let name = format!("{}.{what}", test.phase(write));
        run.metrics.iter().find(|metric| metric.name == name).map(|metric| metric.samples.as_slice())
    };
    let rate = samples("rate")?.iter().copied().fold(0.0, f64::max);
    let latency_us = samples("latency").and_then(|all| all.iter().copied().reduce(f64::min)).unwrap_or(0.0) / 1e3;
    Some(Score { rate, iops: rate * 1e6 / f64::from(test.block), latency_us })
}

/// `1 GiB`, `64 MiB`.
fn binary(bytes: u64) -> String {
    if bytes >= 1 << 30 && bytes.is_multiple_of(1 << 30) { format!("{} GiB", bytes >> 30) } else { format!("{} MiB", bytes >> 20) }
}

fn test_size(run: &Run) -> String {
    setting(run, "size-bytes").and_then(|size| size.parse().ok()).map_or_else(String::new, binary)
}

fn date(run: &Run) -> String {
    let milliseconds = i64::try_from(run.started_unix_ms).unwrap_or(0);
    jiff::Timestamp::from_millisecond(milliseconds)
        .map(|time| time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y/%m/%d %H:%M:%S").to_string())
        .unwrap_or_default()
}

fn system(run: &Run) -> String {
    environment(run, "kernel.release").map_or_else(|| "-".to_owned(), |release| format!("Linux {release}"))
}

fn place(run: &Run) -> String {
    let drive =
        environment(run, "drive.model").or_else(|| environment(run, "stack")).map_or_else(String::new, |model| format!(", {model}"));
    format!("{}{drive}", run.target_label)
}

/// Tags compressible data, as the original tags its 0-fill runs.
fn fill(run: &Run) -> String {
    match setting(run, "data") {
        Some("zero") => " <0Fill>".to_owned(),
        None | Some("random") => String::new(),
        Some(other) => format!(" <{other}>"),
    }
}

/// Format of versions 8 and 9.
fn new(run: &Run, profile: Profile) -> String {
    let rule = "-".repeat(78);
    let mut text = format!("{rule}\ntrimtab {}, in the format of CrystalDiskMark 8\n{rule}\n", run.tool_version);
    text.push_str("* MB/s = 1,000,000 bytes/s [SATA/600 = 600,000,000 bytes/s]\n* KB = 1000 bytes, KiB = 1024 bytes\n");
    for (title, write) in [("Read", false), ("Write", true)] {
        let rows: Vec<String> = profile.tests().iter().filter_map(|test| Some(new_row(test, &score(run, test, write)?))).collect();
        if !rows.is_empty() {
            let _ = write!(text, "\n[{title}]\n{}\n", rows.join("\n"));
        }
    }
    let name = if profile == Profile::Nvme { "NVMe SSD" } else { "Default" };
    let passes = setting(run, "passes").unwrap_or("1");
    let (measure, interval) = (setting(run, "pass").unwrap_or("-"), setting(run, "interval").unwrap_or("-"));
    let _ = write!(
        text,
        "\nProfile: {name}{}\n   Test: {} (x{passes}) [{}]\n   Time: Measure {measure} / Interval {interval}\n   Date: {}\n     OS: {}\n",
        fill(run),
        test_size(run),
        place(run),
        date(run),
        system(run)
    );
    text
}

fn new_row(test: &Test, score: &Score) -> String {
    let kind = if test.random { "RND" } else { "SEQ" };
    let (size, unit) = if test.block >= 1 << 20 { (test.block >> 20, "MiB") } else { (test.block >> 10, "KiB") };
    format!(
        "  {kind} {size:>4}{unit} (Q={:>3}, T={:>2}): {:>9.3} MB/s [{:>9.1} IOPS] <{:>9.2} us>",
        test.queue, test.threads, score.rate, score.iops, score.latency_us
    )
}

/// Format of version 3.
fn old(run: &Run, profile: Profile) -> String {
    let rule = "-".repeat(71);
    let mut text = format!("{rule}\ntrimtab {}, in the format of CrystalDiskMark 3\n{rule}\n", run.tool_version);
    text.push_str("* MB/s = 1,000,000 byte/s [SATA/300 = 300,000,000 byte/s]\n\n");
    for test in profile.tests() {
        for (direction, write) in [("Read", false), ("Write", true)] {
            if let Some(score) = score(run, test, write) {
                text.push_str(&old_row(test, direction, &score));
            }
        }
    }
    let passes = setting(run, "passes").unwrap_or("1");
    let _ = write!(
        text,
        "\n  Test : {} [{}] (x{passes}){}\n  Date : {}\n    OS : {}\n",
        test_size(run),
        place(run),
        fill(run),
        date(run),
        system(run)
    );
    text
}

fn old_row(test: &Test, direction: &str, score: &Score) -> String {
    let label = match (test.random, test.block) {
        (false, _) => format!("Sequential {direction}"),
        (true, 4096) => format!("Random {direction} 4KB (QD={})", test.queue),
        (true, block) => format!("Random {direction} {}KB", block >> 10),
    };
    let iops = if test.random && test.block == 4096 { format!(" [{:>8.1} IOPS]", score.iops) } else { String::new() };
    format!("{label:>26} : {:>9.3} MB/s{iops}\n", score.rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_sim::run::{Better, Field, Metric, TargetKind, Unit};
    use trimtab_sim::runner::header::RunHeader;

    fn run(profile: Profile, data: &str) -> Run {
        let settings = [
            ("profile", profile.name()),
            ("size-bytes", "1073741824"),
            ("passes", "3"),
            ("pass", "5.00 s"),
            ("interval", "5.00 s"),
            ("data", data),
        ];
        let settings = settings.map(|(key, value)| Field::new(key, value)).to_vec();
        let mut run =
            RunHeader::new("crystal", settings, TargetKind::Directory, "/mnt", "as-mounted", 1).into_run(Default::default(), true);
        run.started_unix_ms = 0;
        run.tool_version = "1.2.3".into();
        run.environment.push(Field::new("kernel.release", "6.1.0"));
        for (n, test) in profile.tests().iter().enumerate() {
            for write in [false, true] {
                let rate = 561.763 / f64::from(n as u32 + 1) - if write { 50.0 } else { 0.0 };
                let mut metric = |what: &str, unit, samples: Vec<f64>| {
                    run.metrics.push(Metric { name: format!("{}.{what}", test.phase(write)), unit, better: Better::Higher, samples });
                };
                metric("rate", Unit::MegabytesPerSecond, vec![rate - 10.0, rate, rate - 5.0]);
                metric("latency", Unit::Nanos, vec![14_881_260.0, 15_000_000.0, 14_990_000.0]);
            }
        }
        run
    }

    fn without_date(text: &str) -> String {
        text.lines().filter(|line| !line.contains("Date")).map(|line| format!("{line}\n")).collect()
    }

    #[test]
    fn cdm_text_of_every_profile_matches_snapshot() {
        for (profile, data) in [(Profile::Cdm8, "random"), (Profile::Cdm3, "zero"), (Profile::Nvme, "40% compressible")] {
            insta::assert_snapshot!(profile.name(), without_date(&text(&run(profile, data)).unwrap()));
        }
    }

    #[test]
    fn picture_bar_lengths_are_proportional_to_rates() {
        let picture = picture(&run(Profile::Cdm8, "random")).unwrap();
        let widths: Vec<f64> = picture
            .lines()
            .filter(|line| line.starts_with("<rect x=\"150\"") && line.contains("height=\"18\""))
            .map(|line| line.split("width=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
            .collect();
        // 561.763 divided by 1 to 4, and 50 less for writes; the first bar has the full length.
        let rates: Vec<f64> = (1..=4).flat_map(|n| [561.763 / f64::from(n), 561.763 / f64::from(n) - 50.0]).collect();
        assert_eq!(widths.len(), rates.len(), "{picture}");
        for (width, rate) in widths.iter().zip(&rates) {
            assert!((width / 440.0 - rate / 561.763).abs() < 0.001, "{width} for {rate}");
        }
        for rate in &rates {
            assert!(picture.contains(&format!("{rate:.1} MB/s")), "{rate}");
        }
        let mut hostile = run(Profile::Cdm3, "random");
        hostile.target_label = "<script>".into();
        assert!(!super::picture(&hostile).unwrap().contains("<script>"));
    }

    #[test]
    fn old_row_matches_published_figures() {
        // A report of the original: 25.206 MB/s are 6153.8 operations of 4096 bytes.
        let test = Profile::Cdm3.tests()[2];
        let score = Score { rate: 25.206, iops: 25.206e6 / 4096.0, latency_us: 0.0 };
        assert_eq!(old_row(&test, "Read", &score), "    Random Read 4KB (QD=1) :    25.206 MB/s [  6153.8 IOPS]\n");
    }

    #[test]
    fn text_of_other_workloads_is_refused() {
        let other = RunHeader::new("tree", Vec::new(), TargetKind::Directory, "/", "none", 1).into_run(Default::default(), true);
        assert!(text(&other).unwrap_err().to_string().contains("tree"));
    }
}
