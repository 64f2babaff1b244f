//! Metrics in the text format of Prometheus' node exporter.

use anyhow::Context as _;
use rustix::fs::FileType;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use trimtab_drive::discards::Amount;
use trimtab_drive::units::Nanos;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::plain;
use trimtab_linux::sys::beneath::Dir;
use trimtab_linux::sys::clock::unix_now;
use trimtab_linux::trim::watch::LatencyClasses;

/// Figures of the daemon.
struct DaemonFigures {
    version: &'static str,
    /// Present time, in seconds since 1970.
    written_unix_s: f64,
}

/// The doctor's verdict on a filesystem.
#[derive(Clone, Debug, PartialEq)]
pub struct MountVerdict {
    /// Kind of verdict, or `accepted` for a verdict that the configuration accepts.
    pub kind: &'static str,
    /// The layers that block discards or are unknown.
    pub layers: String,
}

/// Figures of one filesystem since the daemon started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Mount point.
    pub mount_point: String,
    /// Type of filesystem.
    pub fs_type: String,
    /// Name of the policy.
    pub policy: String,
    /// Last verdict of the doctor.
    pub verdict: Option<MountVerdict>,
    /// Passes completed.
    pub passes: u64,
    /// Passes that a failure stopped.
    pub passes_failed: u64,
    /// Requests carried out.
    pub carried_out: Amount,
    /// Requests refused.
    pub refused: Amount,
    /// Discard commands that the drives counted, at the lowest layers.
    pub sent: Amount,
    /// Seconds inside requests.
    pub trimming_seconds: f64,
    /// Longest foreground latency during a request, in seconds.
    pub wait_seconds_max: f64,
    /// Foreground latencies during requests.
    pub latencies: LatencyClasses,
    /// End of the last complete pass, in seconds since 1970; `None` if unknown.
    pub last_pass_unix_s: Option<u64>,
    /// Time since which the daemon knows the filesystem under this policy, in seconds
    /// since 1970; `None` if it is not trimmed.
    pub first_seen_unix_s: Option<u64>,
    /// Longest time between two passes that the policy plans; `None` if it plans none.
    pub interval: Option<Nanos>,
    /// A pass is in progress.
    pub running: bool,
    /// The filesystem does not answer.
    pub silent: bool,
}

/// The text of the last metrics, for the thread that serves them.
pub type Published = Arc<Mutex<Arc<str>>>;

/// A metric of a `T`: name, kind, help, value. `None` gives no sample.
pub(crate) type Metric<T> = (&'static str, &'static str, &'static str, fn(&T) -> Option<f64>);

const OF_DAEMON: [Metric<DaemonFigures>; 2] = [
    ("trimtab_build_info", "gauge", "Version of the daemon; the value is always 1.", |_| Some(1.0)),
    (
        "trimtab_daemon_written_timestamp_seconds",
        "gauge",
        "Time when the daemon wrote these metrics.",
        |d| Some(d.written_unix_s),
    ),
];

const VERDICT: [Metric<Figures>; 1] = [(
    "trimtab_doctor_verdict",
    "gauge",
    "Verdict of trimtab doctor on the filesystem; the value is always 1.",
    |f| f.verdict.as_ref().map(|_| 1.0),
)];

const METRICS: [Metric<Figures>; 15] = [
    (
        "trimtab_filesystem_answers",
        "gauge",
        "0 while the filesystem does not answer (its server or drive hangs).",
        |f| Some(if f.silent { 0.0 } else { 1.0 }),
    ),
    ("trimtab_passes_total", "counter", "Trim passes completed.", |f| Some(f.passes as f64)),
    (
        "trimtab_passes_failed_total",
        "counter",
        "Trim passes that stopped because the drive or the filesystem failed.",
        |f| Some(f.passes_failed as f64),
    ),
    ("trimtab_requests_total", "counter", "Trim requests carried out.", |f| {
        Some(f.carried_out.count as f64)
    }),
    ("trimtab_requests_refused_total", "counter", "Trim requests refused or failed.", |f| {
        Some(f.refused.count as f64)
    }),
    ("trimtab_requested_bytes_total", "counter", "Bytes of the trim requests carried out.", |f| {
        Some(f.carried_out.bytes.as_f64())
    }),
    (
        "trimtab_refused_bytes_total",
        "counter",
        "Bytes of the trim requests refused or failed.",
        |f| Some(f.refused.bytes.as_f64()),
    ),
    (
        "trimtab_sent_commands_total",
        "counter",
        "Discard commands that the drives counted, at the lowest layers, once for each mirror.",
        |f| Some(f.sent.count as f64),
    ),
    ("trimtab_sent_bytes_total", "counter", "Bytes of these discards.", |f| {
        Some(f.sent.bytes.as_f64())
    }),
    ("trimtab_trimming_seconds_total", "counter", "Time inside trim requests.", |f| {
        Some(f.trimming_seconds)
    }),
    (
        "trimtab_foreground_wait_max_seconds",
        "gauge",
        "Longest foreground latency during a trim request (mean over 5 ms).",
        |f| Some(f.wait_seconds_max),
    ),
    ("trimtab_last_pass_timestamp_seconds", "gauge", "End of the last complete pass.", |f| {
        f.last_pass_unix_s.map(|s| s as f64)
    }),
    (
        "trimtab_first_seen_timestamp_seconds",
        "gauge",
        "Time since which the daemon knows the filesystem under this policy.",
        |f| f.first_seen_unix_s.map(|s| s as f64),
    ),
    (
        "trimtab_pass_interval_seconds",
        "gauge",
        "Longest time between two passes that the policy plans.",
        |f| f.interval.map(Nanos::as_secs_f64),
    ),
    ("trimtab_pass_running", "gauge", "1 while a pass is in progress.", |f| {
        Some(f64::from(u8::from(f.running)))
    }),
];

/// The text file's content.
pub fn render(all: &[Figures]) -> String {
    let daemon = DaemonFigures {
        version: env!("CARGO_PKG_VERSION"),
        written_unix_s: unix_now().as_secs_f64().floor(),
    };
    of_table(&OF_DAEMON, &[daemon], |daemon| vec![("version", daemon.version)])
        + &of_table(&METRICS, all, labels)
        + &of_table(&VERDICT, all, labels_with_verdict)
        + &histogram(all)
}

/// The histogram of foreground latency, which adds up over filesystems and hosts.
fn histogram(all: &[Figures]) -> String {
    const NAME: &str = "trimtab_foreground_wait_seconds";
    let mut text = format!(
        "# HELP {NAME} Foreground reads and writes during trim requests, by their mean latency \
            within 5 ms.\n# TYPE {NAME} histogram\n"
    );
    for one in all {
        let (labels, mut count) = (text_of(&labels(one)), 0);
        for (bound, requests) in one.latencies.classes() {
            count += requests;
            let bound = bound.map_or_else(|| "+Inf".to_owned(), |b| b.as_secs_f64().to_string());
            let _ = writeln!(text, "{NAME}_bucket{{{labels},le=\"{bound}\"}} {count}");
        }
        let total = one.latencies.total.as_secs_f64();
        let _ = writeln!(text, "{NAME}_sum{{{labels}}} {total}\n{NAME}_count{{{labels}}} {count}");
    }
    text
}

fn text_of(labels: &[(&'static str, &str)]) -> String {
    let label = |(key, value): &(_, &str)| format!("{key}=\"{}\"", escaped(value));
    labels.iter().map(label).collect::<Vec<_>>().join(",")
}

fn labels(one: &Figures) -> Vec<(&'static str, &str)> {
    vec![("mountpoint", &one.mount_point), ("fstype", &one.fs_type), ("policy", &one.policy)]
}

fn labels_with_verdict(one: &Figures) -> Vec<(&'static str, &str)> {
    let verdict =
        one.verdict.iter().flat_map(|v| [("verdict", v.kind), ("layers", v.layers.as_str())]);
    labels(one).into_iter().chain(verdict).collect()
}

/// Every metric of every `T`, with its labels.
pub(crate) fn of_table<T>(
    metrics: &[Metric<T>],
    all: &[T],
    labels: impl Fn(&T) -> Vec<(&'static str, &str)>,
) -> String {
    let mut text = String::new();
    for (name, kind, help, value) in metrics {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (one, value) in all.iter().filter_map(|one| Some((one, value(one)?))) {
            let labels = text_of(&labels(one));
            // A sum of fractions has digits without meaning. Whole numbers stay exact.
            let whole = value.fract() == 0.0;
            let value = if whole { value } else { (value * 1e6).round() / 1e6 };
            let _ = writeln!(text, "{name}{{{labels}}} {value}");
        }
    }
    text
}

/// Escapes a label's value. Mount points and models may contain any character.
fn escaped(value: &str) -> String {
    plain(value).replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

/// Fails unless the name ends in `.prom`: the exporter reads no other file, and a wrong
/// path must not replace one.
///
/// # Errors
/// A sentence that names the path and the mend.
pub fn require_name(path: &Path) -> Result<(), String> {
    if path.file_name().is_some_and(|name| name.as_encoded_bytes().ends_with(b".prom")) {
        return Ok(());
    }
    let kind = Dir::of_file(path).and_then(|(directory, name)| directory.look(name));
    let what = match kind.ok().flatten().map(|stat| FileType::from_raw_mode(stat.st_mode)) {
        Some(FileType::CharacterDevice | FileType::BlockDevice) => "is a device",
        _ => "does not end in .prom",
    };
    Err(format!("'{}' {what}; name a file ending in .prom", path.display()))
}

/// The directory and the name of a file that metrics may replace: a missing or regular
/// one. A link is replaced, not followed.
fn place(path: &Path) -> anyhow::Result<(Dir, std::ffi::OsString)> {
    require_name(path).map_err(UsageError::new)?;
    let shown = path.display();
    let (directory, name) =
        Dir::of_file(path).with_context(|| format!("cannot open the directory of '{shown}'"))?;
    let stat = directory.look(&name).with_context(|| format!("cannot examine '{shown}'"))?;
    match stat.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
        None | Some(FileType::RegularFile | FileType::Symlink) => Ok((directory, name)),
        Some(_) => Err(UsageError::new(format!("'{shown}' is not a regular file"))
            .hint("name another file ending in .prom")
            .into()),
    }
}

/// Fails if [`write`] would fail.
pub fn check(path: &Path) -> anyhow::Result<()> {
    let (directory, name) = place(path)?;
    // The daemon runs as root; another user may check its configuration.
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    require_safe(&directory, path)?;
    directory.try_to_make(name).with_context(|| format!("cannot write '{}'", path.display()))
}

/// Fails unless only root can place files in the directory of the metrics: the service
/// may not write elsewhere.
fn require_safe(directory: &Dir, path: &Path) -> anyhow::Result<()> {
    let cannot = || format!("trimtab.service cannot write '{}'", path.display());
    let stat = rustix::fs::fstat(directory).with_context(cannot)?;
    if stat.st_uid != 0 {
        let what = format!("{}: its directory belongs to uid {}", cannot(), stat.st_uid);
        let hint = "it has no right to write there; chown it to root";
        return Err(UsageError::missing(what).hint(hint).into());
    }
    let parent = path.parent().unwrap_or(Path::new("/"));
    Dir::sheltered_directory(parent).map(drop).with_context(cannot)
}

/// Writes the file atomically: the exporter never sees half of it.
pub fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let (directory, name) = place(path)?;
    // The exporter, another user, reads *.prom. The temporary file has another name.
    directory
        .write_atomically(name, 0o644, |file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write '{}'", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn render_escapes_labels_and_explains_metrics() {
        let figures = Figures {
            mount_point: "/a\"b\\c\nd".into(),
            fs_type: "\u{1b}[2J\u{202e}".into(),
            sent: Amount::new(1, 4096),
            running: true,
            ..Figures::default()
        };
        let text = render(&[figures]);
        assert!(
            text.contains(
                r#"trimtab_sent_bytes_total{mountpoint="/a\"b\\c\nd",fstype="�[2J�",policy=""} 4096"#
            ),
            "{text}"
        );
        for line in text.lines() {
            assert!(
                line.starts_with("# HELP ")
                    || line.starts_with("# TYPE ")
                    || line.starts_with("trimtab_"),
                "{line}"
            );
        }
        assert_eq!(
            text.matches("# TYPE").count(),
            OF_DAEMON.len() + METRICS.len() + VERDICT.len() + 1
        );
    }

    #[test]
    fn verdict_of_blocked_mount_names_its_layers() {
        let verdict = Some(MountVerdict { kind: "blocked", layers: "dm-0 home [crypt]".into() });
        let text = render(&[
            Figures { mount_point: "/a".into(), verdict, ..Figures::default() },
            Figures::default(),
        ]);
        let samples: Vec<&str> =
            text.lines().filter(|line| line.starts_with("trimtab_doctor_verdict{")).collect();
        let labels =
            r#"mountpoint="/a",fstype="",policy="",verdict="blocked",layers="dm-0 home [crypt]""#;
        assert_eq!(samples, [format!("trimtab_doctor_verdict{{{labels}}} 1")]);
    }

    #[test]
    fn render_rounds_fractions_and_keeps_whole_numbers() {
        let figures = Figures {
            trimming_seconds: 0.1 + 0.2,
            sent: Amount::new(1, (1 << 53) - 1),
            interval: Some(Nanos::from_secs(604_800)),
            ..Figures::default()
        };
        let text = render(&[figures]);
        for (name, value) in [
            ("trimming_seconds_total", "0.3"),
            ("sent_bytes_total", "9007199254740991"),
            ("pass_interval_seconds", "604800"),
        ] {
            let sample =
                format!("\ntrimtab_{name}{{mountpoint=\"\",fstype=\"\",policy=\"\"}} {value}\n");
            assert!(text.contains(&sample), "{sample}: {text}");
        }
    }

    #[test]
    fn histogram_is_cumulative_with_sum_and_count() {
        let mut figures = Figures { mount_point: "/a".into(), ..Figures::default() };
        for (requests, ms) in [(10, 50), (2, 4), (3, 9000), (0, 7)] {
            figures.latencies.add(requests, Nanos::from_millis(ms));
        }
        let text = histogram(&[figures]);
        let samples: Vec<(&str, &str)> = text
            .lines()
            .filter_map(|line| line.strip_prefix("trimtab_foreground_wait_seconds_"))
            .filter_map(|line| line.rsplit_once(' '))
            .collect();
        let labels = "mountpoint=\"/a\",fstype=\"\",policy=\"\"";
        let bounds = "0.001 0.002 0.005 0.01 0.02 0.05 0.1 0.2 0.5 1 +Inf".split(' ');
        let counts = "0 2 12 12 12 12 12 12 12 12 15".split(' ');
        let buckets = bounds.map(|bound| format!("bucket{{{labels},le=\"{bound}\"}}"));
        let ends = [(format!("sum{{{labels}}}"), "9.054"), (format!("count{{{labels}}}"), "15")];
        let expected: Vec<(String, &str)> = buckets.zip(counts).chain(ends).collect();
        assert!(
            samples.iter().copied().eq(expected.iter().map(|(a, b)| (a.as_str(), *b))),
            "{text}"
        );
    }

    #[test]
    fn check_refuses_directory_of_another_user() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.prom");
        check(&path).unwrap();
        use std::os::unix::fs::PermissionsExt as _;
        let refused = || format!("{:#}", check(&path).unwrap_err());
        let mode = |mode| std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(directory.path(), mode(0o777)).unwrap();
        assert!(refused().contains("others may write to it"), "{}", refused());
        std::fs::set_permissions(directory.path(), mode(0o755)).unwrap();
        std::os::unix::fs::chown(directory.path(), Some(65_534), None).unwrap();
        let error = refused();
        assert!(error.contains("belongs to uid 65534") && error.contains("chown"), "{error}");
    }

    #[test]
    fn render_without_last_pass_has_no_sample() {
        let passed = Figures {
            mount_point: "/a".into(),
            last_pass_unix_s: Some(1_800_000_000),
            ..Figures::default()
        };
        let text = render(&[passed, Figures { mount_point: "/b".into(), ..Figures::default() }]);
        let samples: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("trimtab_last_pass_timestamp_seconds{"))
            .collect();
        assert_eq!(
            samples,
            [
                r#"trimtab_last_pass_timestamp_seconds{mountpoint="/a",fstype="",policy=""} 1800000000"#
            ]
        );
    }

    #[test]
    fn write_replaces_file_atomically() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trimtab.prom");
        write(&path, &render(&[])).unwrap();
        write(&path, &render(&[Figures::default()])).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().contains("trimtab_pass_running"));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn write_replaces_no_device_and_no_other_file() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("wear.json"), "precious").unwrap();
        std::fs::create_dir(at("d.prom")).unwrap();
        std::os::unix::fs::symlink(at("wear.json"), at("link.prom")).unwrap();
        for (path, why) in [
            (Path::new("/dev/null"), "'/dev/null' is a device; name a file ending in .prom"),
            (&at("wear.json"), "does not end in .prom"),
            (&at("foo"), "does not end in .prom"),
            (Path::new("-"), "'-' does not end in .prom"),
            (&at("d.prom"), "is not a regular file"),
            (&at("missing/a.prom"), "cannot open the directory"),
        ] {
            for error in [check(path).unwrap_err(), write(path, "x").unwrap_err()] {
                assert!(format!("{error:#}").contains(why), "{}: {error:#}", path.display());
            }
        }
        check(&at("link.prom")).unwrap();
        write(&at("link.prom"), "x").unwrap();
        assert_eq!(std::fs::read_to_string(at("wear.json")).unwrap(), "precious");
        assert!(at("link.prom").symlink_metadata().unwrap().is_file());
    }
}
