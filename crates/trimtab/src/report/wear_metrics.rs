//! Wear in the text format of Prometheus' node exporter.

use crate::daemon::metrics::{Metric, of_table};
use trimtab_linux::wear::ReadError;
use trimtab_linux::wear::assessment::{DriveWear, Failure};

const HOUR_S: f64 = 3600.0;

const DAY_S: f64 = 86_400.0;

const INFO: [Metric<DriveWear>; 1] =
    [("trimtab_drive_info", "gauge", "Identity of the drive; the value is always 1.", |_| {
        Some(1.0)
    })];

const METRICS: [Metric<DriveWear>; 9] = [
    ("trimtab_drive_read_timestamp_seconds", "gauge", "Time of the reading.", |d| {
        Some(d.taken_unix_s? as f64)
    }),
    (
        "trimtab_drive_host_written_bytes_total",
        "counter",
        "Bytes that the host wrote since the drive was made.",
        |d| Some(d.host_written_bytes? as f64),
    ),
    (
        "trimtab_drive_nand_written_bytes_total",
        "counter",
        "Bytes that the drive wrote to flash memory.",
        |d| Some(d.nand_written_bytes? as f64),
    ),
    ("trimtab_drive_waf_ratio", "gauge", "Write amplification over the life of the drive.", |d| {
        Some(d.waf_lifetime.as_ref()?.value)
    }),
    (
        "trimtab_drive_life_used_ratio",
        "gauge",
        "Rated life used; more than 1 after its end.",
        |d| Some(d.used_percent? as f64 / 100.0),
    ),
    (
        "trimtab_drive_life_left_seconds",
        "gauge",
        "Time until the rated life is used up, at the present rate.",
        |d| Some(d.life_left.as_ref()?.days? * DAY_S),
    ),
    ("trimtab_drive_temperature_celsius", "gauge", "Temperature of the drive.", |d| {
        Some(d.temperature_celsius? as f64)
    }),
    (
        "trimtab_drive_unsafe_shutdowns_total",
        "counter",
        "Power cuts for which the drive was not prepared.",
        |d| Some(d.unsafe_shutdowns? as f64),
    ),
    ("trimtab_drive_power_on_seconds_total", "counter", "Time under power.", |d| {
        Some(d.power_on_hours? as f64 * HOUR_S)
    }),
];

const UNREAD: [Metric<Failure>; 1] = [(
    "trimtab_drive_unread",
    "gauge",
    "1 if the last reading of the drive failed. A sleeping drive has no sample.",
    |failure| {
        let is_asleep = matches!(failure.error.downcast_ref(), Some(ReadError::Asleep));
        (!is_asleep).then_some(1.0)
    },
)];

/// The text file's content.
#[must_use]
pub fn render(drives: &[DriveWear], failures: &[Failure]) -> String {
    of_table(&METRICS, drives, labels)
        + &of_table(&INFO, drives, labels_with_protocol)
        + &of_table(&UNREAD, failures, |failure| vec![("device", &failure.subject)])
}

fn labels(drive: &DriveWear) -> Vec<(&'static str, &str)> {
    vec![("device", &drive.subject), ("model", drive.model.as_deref().unwrap_or_default())]
}

fn labels_with_protocol(drive: &DriveWear) -> Vec<(&'static str, &str)> {
    let mut labels = labels(drive);
    labels.push(("protocol", drive.protocol.as_deref().unwrap_or_default()));
    labels
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_linux::wear::assessment::assess;
    use trimtab_linux::wear::{Counter, Reading};

    #[test]
    fn render_omits_counters_that_drive_does_not_report() {
        let host_written =
            Some(Counter { bytes: 512_000, step_bytes: 512_000, source: "log".into() });
        let reading = Reading { model: Some("A \"B\"".into()), host_written, ..Reading::default() };
        let text = render(&[assess("/dev/sda".into(), reading, None, None)], &[]);
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let labels = r#"device="/dev/sda",model="A \"B\"""#;
        let expected = [
            format!("trimtab_drive_host_written_bytes_total{{{labels}}} 512000"),
            format!("trimtab_drive_info{{{labels},protocol=\"\"}} 1"),
        ];
        assert_eq!(samples, expected);
    }

    #[test]
    fn render_marks_unread_drives_but_not_sleeping_ones() {
        let failure = |subject: &str, error: anyhow::Error| Failure {
            subject: subject.into(),
            error: error.context("cannot read"),
        };
        let failures = [
            failure("/dev/sda", ReadError::Foreign.into()),
            failure("/dev/sdb", ReadError::Asleep.into()),
        ];
        let text = render(&[], &failures);
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(samples, ["trimtab_drive_unread{device=\"/dev/sda\"} 1"]);
    }
}
