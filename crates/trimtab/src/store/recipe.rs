//! The inputs of a run, stored in the run itself: enough to cite and repeat it.
//!
//! The specification has the arguments, and of a modelled drive all figures and their hash.
//! The settings of volume and policy are in the run's environment and policy settings;
//! seed and version are stored next to them.

use crate::store::RunId;
use trimtab_drive::spec::file::Drive;
use trimtab_drive::spec::text;
use trimtab_sim::run::{COMMAND, DRIVE, DRIVE_HASH, Field, Run, TargetKind};

/// Options without influence on a result, and whether each takes a value.
const ABOUT_OUTPUT: [(&str, bool); 11] = [
    ("--json", false),
    ("--quiet", false),
    ("--plain", false),
    ("--yes", false),
    ("--resume", false),
    ("--details", false),
    ("--force", false),
    ("--store", true),
    ("--label", true),
    ("--report", true),
    ("--output", true),
];

/// The arguments of this process, without those that only select the display and storage
/// of a result.
pub fn command() -> Vec<String> {
    without_output(
        std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()),
    )
}

fn without_output(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let mut kept = Vec::new();
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        let name = argument.split_once('=').map_or(argument.as_str(), |(name, _)| name);
        match ABOUT_OUTPUT.iter().find(|(option, _)| *option == name) {
            Some((_, true)) if !argument.contains('=') => drop(arguments.next()),
            Some(_) => {}
            None if is_short(&argument) => {
                let rest: String = argument.chars().filter(|c| !matches!(c, 'q' | 'y')).collect();
                kept.extend((rest != "-").then_some(rest));
            }
            None => kept.push(argument),
        }
    }
    kept
}

/// True for short options without values: `-q`, `-yq`.
fn is_short(argument: &str) -> bool {
    argument.len() > 1
        && argument.starts_with('-')
        && argument[1..].chars().all(|c| matches!(c, 'q' | 'y'))
}

/// The arguments of this process, as a field.
pub fn command_field() -> Field {
    Field::new(COMMAND, serde_json::to_string(&command()).expect("a list of texts is JSON"))
}

/// Adds the specification of the drive on which a run was modelled, before any scaling.
pub fn note_drive(run: &mut Run, drive: &Drive) {
    run.specification.retain(|field| field.key != DRIVE && field.key != DRIVE_HASH);
    run.specification.extend(drive_fields(drive));
}

/// The specification of a drive with the sources of its figures, and a hash of the
/// figures.
pub fn drive_fields(drive: &Drive) -> [Field; 2] {
    [
        Field::new(DRIVE_HASH, hash(&text::figures(&drive.spec))),
        Field::new(DRIVE, text::whole(drive)),
    ]
}

/// Hash of a text, as 16 hexadecimal digits.
pub fn hash(text: &str) -> String {
    RunId::of_text(text).to_string()
}

/// The text stored under a key.
pub fn of<'a>(run: &'a Run, key: &str) -> Option<&'a str> {
    Field::find(&run.specification, key)
}

/// A run that starts now, with the command line of this process.
pub fn starts_now(
    workload: &str,
    settings: Vec<Field>,
    target: TargetKind,
    target_label: &str,
    policy: &str,
    seed: u64,
) -> Run {
    let header = Run::new(workload, settings, target, target_label, policy, seed);
    Run {
        started_unix_ms: trimtab_linux::sys::clock::unix_ms(),
        specification: vec![command_field()],
        ..header
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drives;
    use trimtab_drive::spec::file;

    #[test]
    fn shipped_specification_round_trips_through_its_text() {
        for drive in drives::shipped() {
            let [_, text] = drive_fields(drive);
            assert_eq!(file::parse(&text.value).unwrap(), *drive, "{}", text.value);
        }
        let hashes: std::collections::BTreeSet<String> =
            drives::shipped().iter().map(|drive| drive_fields(drive)[0].value.clone()).collect();
        assert_eq!(hashes.len(), drives::shipped().len());
    }

    #[test]
    fn without_output_drops_output_options() {
        let kept = |text: &str| without_output(text.split(' ').map(str::to_owned)).join(" ");
        assert_eq!(
            kept("--store a.db study -q drive:x --fill 60 --json --report=x.html --yes"),
            "study drive:x --fill 60"
        );
        assert_eq!(
            kept("bench tree --tries 3 -yq --label ab drive:x --resume"),
            "bench tree --tries 3 drive:x"
        );
        assert_eq!(kept("results list -n 5"), "results list -n 5");
    }
}
