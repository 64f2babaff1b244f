//! Many hosts as a page, as a first screen and as a table of drives.

use super::wear::time;
use trimtab_drive::units::{Bytes, grouped, three_digits};
use trimtab_sim::run::metrics::WAF;
use trimtab_study::document::{Document, Section, SectionBlock, Table};
use trimtab_study::fleet::{
    ENDING_DAYS, Fleet, FleetCounts, FleetDrive, OLD_DAYS, Problem, ProblemKind, WAF_HIGH,
};
use trimtab_study::sweep::table::{Cells, Column};

/// Unread files and drives that the first screen names.
const UNREAD: usize = 5;

/// The page.
pub fn document(fleet: &Fleet) -> Document {
    let mut sections = first_sections(fleet);
    sections.extend(
        [blocked(fleet), wear(fleet), faults(fleet), unread(fleet, usize::MAX)]
            .into_iter()
            .flatten(),
    );
    let caption = format!("All {} drives with a reading", number(fleet.drives.len()));
    sections.extend(
        table_of_drives(caption, fleet.drives.iter())
            .map(|table| Section::new("All drives", vec![table]).folded()),
    );
    Document { title: title(fleet), sections, ..Document::default() }
}

/// The counts, the worst problems, and what is missing.
pub fn first_screen(fleet: &Fleet) -> Document {
    let mut sections = first_sections(fleet);
    sections.extend(unread(fleet, UNREAD));
    Document { title: title(fleet), sections, ..Document::default() }
}

fn title(fleet: &Fleet) -> String {
    let counts = &fleet.counts;
    format!("Fleet: {}, {}", many(counts.hosts, "host"), many(counts.drives, "drive"))
}

fn number(count: usize) -> String {
    grouped(count as u64)
}

fn many(count: usize, noun: &str) -> String {
    format!("{} {noun}{}", number(count), if count == 1 { "" } else { "s" })
}

fn first_sections(fleet: &Fleet) -> Vec<Section> {
    let mut table = Table::new("", &["", "count", "meaning"]);
    table.remarks = true;
    let missing = missing(&fleet.counts).into_iter().filter(|(_, count, _)| *count > 0);
    for (what, count, meaning) in problems(fleet).into_iter().chain(missing) {
        table.row([what.to_owned(), number(count), meaning]);
    }
    let mut sections = vec![Section::new("Counts", vec![SectionBlock::Table(table)])];
    if !fleet.worst.is_empty() {
        let mut table = Table::new("", &["host", "drive or filesystem", "problem"]);
        table.remarks = true;
        fleet.worst.iter().for_each(|one| {
            table.row([one.host.clone(), one.subject.clone(), words(one, fleet.planned_years)])
        });
        sections
            .push(Section::new("Worst problems, at most ten", vec![SectionBlock::Table(table)]));
    }
    sections
}

/// The problems with their counts and meanings.
fn problems(fleet: &Fleet) -> [(&'static str, usize, String); 7] {
    let counts = &fleet.counts;
    let of_subjects = match counts.subjects {
        1 => "of 1 filesystem or device".to_owned(),
        many => format!("of {} filesystems and devices", number(many)),
    };
    [
        (
            "TRIM blocked",
            counts.blocked,
            format!("{of_subjects}, on {}", many(counts.hosts_blocked, "host")),
        ),
        ("TRIM unknown", counts.unknown, of_subjects.clone()),
        (
            "harmed by TRIM",
            counts.harmed,
            "drives with a known fault that the kernel does not avoid".to_owned(),
        ),
        (
            "known TRIM fault",
            counts.faults_avoided,
            "drives whose fault the kernel avoids".to_owned(),
        ),
        (
            "ending",
            counts.ending,
            format!("drives whose rated life has ended or ends within {ENDING_DAYS} days"),
        ),
        (
            "wears too fast",
            counts.wears_fast,
            format!("drives whose rated life ends before {} years of service", fleet.planned_years),
        ),
        (
            "high WAF",
            counts.waf_high,
            format!("drives with a write amplification above {WAF_HIGH}"),
        ),
    ]
}

/// Data that the report lacks, with their counts and meanings.
fn missing(counts: &FleetCounts) -> [(&'static str, usize, String); 5] {
    [
        (
            "no diagnosis",
            counts.hosts_without_doctor,
            "hosts without a file of 'trimtab doctor --json'".to_owned(),
        ),
        (
            "no wear",
            counts.hosts_without_wear,
            "hosts without a file of 'trimtab wear --json'".to_owned(),
        ),
        (
            "old readings",
            counts.readings_old,
            format!(
                "drives whose wear was read more than {OLD_DAYS} days ago, or by a clock in the \
                    future; collect it again"
            ),
        ),
        (
            "drives not read",
            counts.drives_unread,
            "drives that did not report their wear".to_owned(),
        ),
        ("files not read", counts.files_unread, "files that are not in this report".to_owned()),
    ]
}

fn words(problem: &Problem, planned_years: f64) -> String {
    let words = match &problem.kind {
        ProblemKind::Harmed { what } => what.clone(),
        ProblemKind::Ending { life_left_days } => match *life_left_days {
            0.0 => "the rated life is used up".to_owned(),
            days if days < 0.0 => {
                format!("the rated life ended {} ago, if the rate stayed", time(-days))
            }
            days => format!("the rated life ends in {}", time(days)),
        },
        ProblemKind::WearsFast { service_years } => {
            format!(
                "the rated life ends after {} years of service, {planned_years} are planned",
                three_digits(*service_years)
            )
        }
        ProblemKind::Blocked { layers } => format!("TRIM blocked at {}", layers.join(", ")),
    };
    words + &age(problem.old_days)
}

/// The age of an old reading, or of one in the future.
fn age(old_days: Option<f64>) -> String {
    old_days.map_or_else(String::new, |days| match days < 0.0 {
        true => format!(" (dated {} in the future: its clock is wrong)", time(-days)),
        false => format!(" (read {} ago)", time(days)),
    })
}

fn life_left(days: f64) -> String {
    if days < 0.0 { format!("ended {} ago", time(-days)) } else { time(days) }
}

fn blocked(fleet: &Fleet) -> Option<Section> {
    let mut layers =
        Table::new("Layers that block TRIM", &["layer", "filesystems and devices", "hosts"]);
    fleet.layers.iter().for_each(|layer| {
        layers.row([layer.kind.clone(), number(layer.subjects), number(layer.hosts)])
    });
    let header = ["host", "filesystem or device", "blocked at", "verdict"];
    let mut subjects = Table::new("Filesystems and devices that get no TRIM", &header);
    subjects.remarks = true;
    for one in &fleet.blocked {
        subjects.row([
            one.host.clone(),
            one.subject.clone(),
            one.layers.join(", "),
            one.why.clone(),
        ]);
    }
    let help = "Run 'trimtab doctor PATH' on the host for the commands that mend it.".to_owned();
    let blocks =
        vec![SectionBlock::Table(layers), SectionBlock::Table(subjects), SectionBlock::Text(help)];
    (!fleet.blocked.is_empty()).then(|| Section::new("Blocked TRIM", blocks))
}

fn wear(fleet: &Fleet) -> Option<Section> {
    let header = ["trimmed by", "drives", "with a WAF", "median WAF", "wear too fast"];
    let mut policies = Table::new("Wear by trim policy", &header);
    for one in &fleet.policies {
        policies.row([
            one.trimmed_by.clone().unwrap_or_else(|| "not known".to_owned()),
            number(one.drives),
            number(one.drives_with_waf),
            one.waf_median.map_or_else(String::new, |waf| format!("{waf:.2}")),
            number(one.wears_fast),
        ]);
    }
    let striking = fleet
        .drives
        .iter()
        .filter(|drive| drive.wears_fast || drive.is_ending() || drive.has_high_waf());
    let drives = table_of_drives(
        "Drives that end soon, wear too fast or have a high WAF".to_owned(),
        striking,
    );
    let explained = format!(
        "WAF is the write amplification since the earlier reading of the host, else \
            over the drive's life. Life left is at the rate before the reading, else at the \
            mean rate so far, less the age of the reading. Service is the time under power \
            until the rated life is used up; planned are {} years.",
        fleet.planned_years
    );
    let blocks = [SectionBlock::Table(policies)]
        .into_iter()
        .chain(drives)
        .chain([SectionBlock::Text(explained)])
        .collect();
    (!fleet.drives.is_empty()).then(|| Section::new("Wear", blocks))
}

fn table_of_drives<'a>(
    caption: String,
    drives: impl Iterator<Item = &'a FleetDrive>,
) -> Option<SectionBlock> {
    let header = [
        "host",
        "drive",
        "model",
        "trimmed by",
        "host writes",
        "WAF",
        "life used",
        "life left",
        "service",
    ];
    let mut table = Table::new(caption, &header);
    for drive in drives {
        let waf =
            |waf: f64| format!("{waf:.2}{}", if drive.waf_is_recent { "" } else { " (life)" });
        table.row([
            drive.host.clone(),
            drive.device.clone(),
            drive.model.clone(),
            drive.trimmed_by.clone().unwrap_or_default(),
            drive.host_written_bytes.map_or_else(String::new, |bytes| Bytes(bytes).to_string()),
            drive.waf.map_or_else(String::new, waf),
            drive.used_percent.map_or_else(String::new, |percent| format!("{percent} %")),
            drive.life_left_days.map_or_else(String::new, life_left) + &age(drive.old_days()),
            drive
                .service_years
                .map_or_else(String::new, |years| format!("{} years", three_digits(years))),
        ]);
    }
    (!table.rows.is_empty()).then_some(SectionBlock::Table(table))
}

fn faults(fleet: &Fleet) -> Option<Section> {
    let mut table = Table::new("Drives with a known TRIM fault", &["host", "drive", "fault"]);
    table.remarks = true;
    fleet
        .faults
        .iter()
        .for_each(|one| table.row([one.host.clone(), one.drive.clone(), one.what.clone()]));
    (!fleet.faults.is_empty())
        .then(|| Section::new("Known TRIM faults", vec![SectionBlock::Table(table)]))
}

/// The first `most` files and drives that are missing.
fn unread(fleet: &Fleet, most: usize) -> Option<Section> {
    let mut table = Table::new("", &["file or drive", "reason"]);
    table.remarks = true;
    let files = fleet.files_unread.iter().map(|one| [one.file.clone(), one.why.clone()]);
    let drives = fleet
        .drives_unread
        .iter()
        .map(|one| [format!("{}: {}", one.host, one.device), one.why.clone()]);
    files.chain(drives).take(most).for_each(|row| table.row(row));
    let hidden = (fleet.files_unread.len() + fleet.drives_unread.len()).saturating_sub(most);
    let more = (hidden > 0).then(|| {
        SectionBlock::Text(format!("{} more; --output FILE.html lists all", number(hidden)))
    });
    let is_empty = table.rows.is_empty();
    let blocks = [SectionBlock::Table(table)].into_iter().chain(more).collect();
    (!is_empty).then(|| Section::new("Not read", blocks))
}

/// One row per drive, for other programs.
pub fn columns(fleet: &Fleet) -> Vec<Column> {
    let column = |name: &str, values: Cells| Column { name: name.to_owned(), values };
    let texts =
        |of: fn(&FleetDrive) -> Option<String>| Cells::Texts(fleet.drives.iter().map(of).collect());
    let counters = |of: fn(&FleetDrive) -> Option<u64>| {
        Cells::Counters(
            fleet
                .drives
                .iter()
                .map(|drive| of(drive).and_then(|count| i64::try_from(count).ok()))
                .collect(),
        )
    };
    let numbers =
        |of: fn(&FleetDrive) -> Option<f64>| Cells::Numbers(fleet.drives.iter().map(of).collect());
    let flags = |of: fn(&FleetDrive) -> bool| {
        Cells::Integers(fleet.drives.iter().map(|drive| i64::from(of(drive))).collect())
    };
    vec![
        column("host", texts(|drive| Some(drive.host.clone()))),
        column("device", texts(|drive| Some(drive.device.clone()))),
        column("model", texts(|drive| Some(drive.model.clone()))),
        column("trimmed_by", texts(|drive| drive.trimmed_by.clone())),
        column("host_written_bytes", counters(|drive| drive.host_written_bytes)),
        column("nand_written_bytes", counters(|drive| drive.nand_written_bytes)),
        column(WAF, numbers(|drive| drive.waf)),
        column("waf_is_recent", flags(|drive| drive.waf_is_recent)),
        column("used_percent", counters(|drive| drive.used_percent)),
        column("power_on_hours", counters(|drive| drive.power_on_hours)),
        column("life_left_days", numbers(|drive| drive.life_left_days)),
        column("service_years", numbers(|drive| drive.service_years)),
        column("wears_fast", flags(|drive| drive.wears_fast)),
    ]
}
