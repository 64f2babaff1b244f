//! Wear of drives, in words.

use super::escape::clean;
use trimtab_drive::units::{Bytes, Nanos, grouped, three_digits};
use trimtab_linux::output::lines::paragraph;
use trimtab_linux::wear::assessment::DriveWear;
use trimtab_linux::wear::effect::PolicyEffect;
use trimtab_linux::wear::outlook::{LifeLeft, Since, WarrantyState};
use trimtab_linux::wear::{DriveKind, Waf};
use trimtab_sim::analysis::compare::SAME_WITHIN;

const LABEL_COLUMNS: usize = 22;
const DAYS_OF_YEAR: f64 = 365.0;
/// No longer life is worth a number.
const YEARS_MAX: f64 = 100.0;
/// The largest percentage that NVMe, ATA and SCSI can report stands for more, too.
const USED_MAX: u64 = 255;

/// One block of lines per drive.
pub fn text(drives: &[DriveWear], width: Option<usize>) -> String {
    if drives.is_empty() {
        return "this machine shows no drive that reports wear\n".to_owned();
    }
    drives.iter().map(|drive| block(drive, width)).collect::<Vec<_>>().join("\n")
}

fn block(drive: &DriveWear, width: Option<usize>) -> String {
    let mut text = match &drive.model {
        Some(model) => format!("{}: {}\n", clean(&drive.subject), clean(model)),
        None => format!("{}\n", clean(&drive.subject)),
    };
    let rest = " ".repeat(2 + LABEL_COLUMNS);
    for (label, value) in lines(drive) {
        text += &paragraph(&clean(&value), width, &format!("  {label:LABEL_COLUMNS$}"), &rest);
    }
    text
}

fn lines(drive: &DriveWear) -> Vec<(&'static str, String)> {
    let is_disk = drive.kind == DriveKind::HardDisk;
    let written = |bytes: Option<u64>, source: &Option<String>| match (bytes, source) {
        (Some(bytes), Some(source)) => format!("{} ({source})", Bytes(bytes)),
        _ if drive.raw_counters.is_empty() => "not reported".to_owned(),
        _ => "not reported in a documented unit".to_owned(),
    };
    let host_writes = if drive.host_written_is_impossible {
        "not known: the drive reports an impossible value (see the note)".to_owned()
    } else {
        written(drive.host_written_bytes, &drive.host_written_source)
    };
    let mut lines = vec![("host writes", host_writes)];
    if is_disk && drive.used_percent.is_none() {
        lines.push(("wear", "no wear counter: a hard disk".to_owned()));
    } else {
        lines.push(("NAND writes", written(drive.nand_written_bytes, &drive.nand_written_source)));
        lines.push(("write amplification", lifetime(drive)));
        lines.push(("rated life used", used(drive)));
        lines.push((
            "life left",
            drive.life_left.as_ref().map_or_else(
                || unknown_life(drive),
                |left| life_left(left, drive.since.as_ref().and_then(|since| since.days)),
            ),
        ));
    }
    lines.extend(drive.since.as_ref().map(|since| ("since", changes(since))));
    lines.extend(drive.policy_effect.as_ref().map(|effect| ("trim policy", policy(drive, effect))));
    lines.extend(drive.warranty.as_ref().map(|state| ("warranty", warranty(state))));
    lines.extend(drive.spare_percent.map(|percent| ("spare blocks left", format!("{percent} %"))));
    lines.extend(drive.temperature_celsius.map(|celsius| ("temperature", format!("{celsius} °C"))));
    lines.extend(drive.unsafe_shutdowns.map(|count| ("unsafe shutdowns", grouped(count))));
    lines.extend(
        drive.power_on_hours.map(|hours| ("power-on time", format!("{} h", grouped(hours)))),
    );
    for counter in &drive.raw_counters {
        let what = format!(
            "raw value {} of attribute '{}' (unit not known: {})",
            counter.raw, counter.name, counter.why
        );
        lines.push(("not converted", what));
    }
    lines.extend(drive.remarks.iter().map(|remark| ("note", remark.clone())));
    lines
}

fn lifetime(drive: &DriveWear) -> String {
    match (&drive.waf_lifetime, &drive.waf_source) {
        (Some(waf), Some(source)) => format!("{} over its life ({source})", ratio(waf)),
        _ => "not known: the drive does not report host and NAND writes that can be compared"
            .to_owned(),
    }
}

/// `1.28`, with the range where it shows in two decimals.
fn ratio(waf: &Waf) -> String {
    let decimals = |value: f64| format!("{value:.2}");
    match waf.high {
        Some(high) if decimals(waf.low) == decimals(high) => decimals(waf.value),
        Some(high) => {
            format!("{} ({} to {})", decimals(waf.value), decimals(waf.low), decimals(high))
        }
        None => format!("at least {}", decimals(waf.low)),
    }
}

fn used(drive: &DriveWear) -> String {
    match (drive.used_percent, &drive.used_source, drive.used_is_standard) {
        (Some(USED_MAX), Some(source), Some(true)) => format!("{USED_MAX} % or more ({source})"),
        (Some(percent), Some(source), Some(true)) => format!("{percent} % ({source})"),
        (Some(percent), Some(source), _) => {
            format!("{percent} % on the vendor's own scale ({source})")
        }
        _ => "not reported".to_owned(),
    }
}

fn unknown_life(drive: &DriveWear) -> String {
    match (drive.used_percent, &drive.since) {
        (None, _) => "not known: the drive does not report the rated life used".to_owned(),
        (Some(percent), _) if percent >= 100 => "none: the rated life is used up".to_owned(),
        (Some(_), None) => {
            "not known yet: that needs a reading of another day, or --before FILE".to_owned()
        }
        (Some(percent), Some(since)) => match since.used_percent {
            Some(before) if before > percent => {
                format!("not known: rated life used fell from {before} % to {percent} %")
            }
            _ if since.unix_s.is_some() && since.unix_s == drive.taken_unix_s => {
                "not known: the two readings are of the same second".to_owned()
            }
            _ => "not known: the two readings give no rate".to_owned(),
        },
    }
}

/// Life left, from a rate over this many days.
fn life_left(left: &LifeLeft, days: Option<f64>) -> String {
    let window = days.map_or_else(String::new, |days| match days < 10.0 {
        true => format!(" of the last {}", time(days)),
        false => format!(" of the last {days:.0} days"),
    });
    let at = format!("at the rate of {}{window}", left.basis);
    match (left.days, left.high_days) {
        (Some(0.0), _) => "none: the rated life is used up".to_owned(),
        _ if left.low_days > YEARS_MAX * DAYS_OF_YEAR => format!("{} {at}", time(left.low_days)),
        (Some(days), Some(high)) => {
            format!("{} ({} to {}) {at}", time(days), time(left.low_days), time(high))
        }
        (Some(days), None) => format!("{} (at least {}) {at}", time(days), time(left.low_days)),
        (None, _) => format!("at least {} {at}", time(left.low_days)),
    }
}

/// Days, or years from two years on, up to a limit.
pub(crate) fn time(days: f64) -> String {
    if days < 2.0 * DAYS_OF_YEAR {
        format!("{} days", three_digits(days))
    } else if days > YEARS_MAX * DAYS_OF_YEAR {
        format!("more than {YEARS_MAX} years")
    } else {
        format!("{} years", three_digits(days / DAYS_OF_YEAR))
    }
}

fn changes(since: &Since) -> String {
    let mut parts = Vec::new();
    parts.extend(
        since.days.map(|days| format!("the reading of {} ago", Nanos((days * 86_400e9) as u64))),
    );
    parts.extend(since.host_bytes.map(|bytes| format!("host writes {}", Bytes(bytes))));
    parts.extend(since.nand_bytes.map(|bytes| format!("NAND writes {}", Bytes(bytes))));
    parts.extend(since.waf.as_ref().map(|waf| format!("write amplification {}", ratio(waf))));
    if parts.is_empty() {
        "the earlier reading: no counter can be compared".to_owned()
    } else {
        parts.join(", ")
    }
}

fn policy(drive: &DriveWear, effect: &PolicyEffect) -> String {
    let percent = |ratio: f64| format!("{:.0} %", (ratio - 1.0).abs() * 100.0);
    let difference = match effect.ratio {
        None => "too few readings to compare".to_owned(),
        Some([low, high]) if high < 1.0 => format!("{} to {} less", percent(high), percent(low)),
        Some([low, high]) if low > 1.0 => format!("{} to {} more", percent(low), percent(high)),
        Some([low, high]) if low >= 1.0 / SAME_WITHIN && high <= SAME_WITHIN => {
            "no measurable difference".to_owned()
        }
        Some(_) => "no difference is certain yet".to_owned(),
    };
    let age_s = drive.taken_unix_s.unwrap_or(effect.unix_s).saturating_sub(effect.unix_s);
    format!(
        "{} {} on {} {} ago; write amplification {:.2} before, {:.2} since: {difference}",
        effect.policy,
        if effect.is_undone { "undone" } else { "applied" },
        effect.path,
        time(age_s as f64 / 86_400.0),
        effect.waf_before,
        effect.waf_after,
    )
}

fn warranty(state: &WarrantyState) -> String {
    let used =
        format!("{} % of {} written", three_digits(state.used_percent), Bytes(state.limit_bytes));
    match state.days_left {
        _ if state.left_bytes == 0 => format!("{used}: the limit is reached"),
        Some(days) => {
            format!("{used}, {} left, {} at the present rate", Bytes(state.left_bytes), time(days))
        }
        None => format!("{used}, {} left", Bytes(state.left_bytes)),
    }
}
