//! Probes a real drive: place, repeats, and disturbances.

use super::super::probed_area::{
    AreaRequest, ProbedArea, check_only_devices_are_destroyed, file_size,
};
use super::sentence;
use crate::cmd::drive::learn::DriveLearnArgs;
use crate::drives::below::UnderlyingDrive;
use crate::drives::twins;
use crate::target_spec::TargetSpec;
use anyhow::Context as _;
use std::path::Path;
use std::time::{Duration, Instant};
use trimtab_drive::units::{Bytes, three_digits};
use trimtab_drive::usage::{UsageError, quoted};
use trimtab_linux::host::EnvironmentRecorder;
use trimtab_linux::host::cached::DirectWatch;
use trimtab_linux::host::interference::{self, MachineSample, OwnIo};
use trimtab_linux::host::root::Root;
use trimtab_linux::output::Context;
use trimtab_linux::output::progress::Progress;
use trimtab_linux::session::safety::space;
use trimtab_linux::sys::interrupt;
use trimtab_study::learn::learned::{LearnMeasurements, time, too_little};
use trimtab_study::learn::probes::{AREA_MIN, AREA_WRITES, AccessPath, Findings, ProbePlan};
use trimtab_study::learn::rounds::{CombinedFindings, together};
use trimtab_study::learn::{self, Budget};

/// Rounds of all probes, if the write limit allows.
const ROUNDS: u64 = 3;
/// Area that is large enough for most write caches.
const AREA_ENOUGH: u64 = 32 << 20;
/// Least write limit: the area once, and one round.
const LIMIT_LEAST: u64 = 2 * AREA_MIN * AREA_WRITES;
/// Disturbed rounds that are repeated.
const AGAIN: u64 = 2;
/// Larger changes of the median of all figures between the first and the last round are
/// reported.
const DRIFT: f64 = 0.1;
/// Largest number of figures in a message.
const NAMED: usize = 4;

/// Results of all probes, run once.
struct Round {
    found: Findings,
    /// Foreground I/O during the round, if it counts.
    disturbed: Option<String>,
    /// Other possible effects on the figures.
    warnings: Vec<String>,
}

/// Probes the target of `spec` often enough to measure the scatter.
pub fn measure(
    request: &DriveLearnArgs,
    context: &Context,
    below: UnderlyingDrive,
    spec: &TargetSpec,
    watching: &mut Progress,
) -> anyhow::Result<LearnMeasurements> {
    let path = probed_path(request, spec)?;
    let budget = request.budget;
    let root = Root::live().context("cannot read /sys and /proc")?;
    let (mut plan, most) = plan(request, &below, budget, spec)?;
    if budget == Budget::Full {
        plan.whole = Some(super::whole::allowed_part(request, context, spec, &below)?);
    }
    let access = AreaRequest {
        what: "drive learn",
        below: &below,
        seed: request.seed,
        reserve: request.safety.reserve,
        destroy: request.destroy.named(),
        area: plan.area,
        most,
    };
    let mut probed = access.open(context, spec)?;
    let wanted = plan.area;
    // The area may be smaller in a file that is only read.
    let plan = ProbePlan { area: plan.area.min(probed.area()), ..plan };
    let observer = EnvironmentRecorder::start(path)
        .with_context(|| format!("cannot access {}", path.display()))?;
    probed.require_on(observer.place().mount.as_ref())?;
    let direct = DirectWatch::start(&observer).ok();
    let until = Instant::now() + Duration::from_nanos(request.time.0);
    let mut made: Vec<Round> = Vec::new();
    while is_missing(&made, until) && probed.written + AREA_WRITES * plan.area <= most {
        made.push(round(&root, &below, &plan, &mut probed, watching)?);
    }
    let mut notes = below.notes.clone();
    notes.extend((plan.area < wanted).then(|| {
        format!(
            "only {} of the file is in whole pieces of 1 MiB on the drive, of {} wanted",
            Bytes(plan.area),
            Bytes(wanted)
        )
    }));
    notes.extend(probed.drive.file().warnings().iter().map(|warning| sentence(&warning.text)));
    let written = probed.written;
    drop(probed);
    let read = made.iter().map(|round| round.found.read).sum();
    let memory = direct
        .and_then(|watch| watch.finish(Bytes(read), Bytes(written)))
        .map(|warning| sentence(&warning.text));
    let is_of_a_drive = memory.is_none();
    notes.extend(memory);
    let together = together_of(&made, &mut notes);
    let no_trims_there = plan.reach.trim_ranges_max.is_none() || plan.reported.trim.is_none();
    notes.extend(no_trims_there.then(|| no_trims(&below)));
    let mut whole = None;
    if budget == Budget::Full {
        whole = Some(super::whole::on_a_drive(
            request, context, spec, &below, &plan, watching, &mut notes,
        )?);
    }
    let found = Findings { written, ..together.found };
    let which = Some(twins::which(&below));
    Ok(LearnMeasurements {
        plan,
        found,
        whole,
        model: below.model,
        firmware: below.firmware,
        which,
        is_of_a_drive,
        notes,
    })
}

/// True if a further round is wanted. One is made after `until`, too.
fn is_missing(made: &[Round], until: Instant) -> bool {
    let clean = made.iter().filter(|round| round.disturbed.is_none()).count() as u64;
    let most = (ROUNDS + AGAIN) as usize;
    clean < ROUNDS && made.len() < most && (made.is_empty() || Instant::now() < until)
}

/// The path to probe.
fn probed_path<'a>(request: &DriveLearnArgs, spec: &'a TargetSpec) -> anyhow::Result<&'a Path> {
    check_only_devices_are_destroyed(&request.target, spec, &request.destroy.named())?;
    match spec {
        TargetSpec::Directory(path) | TargetSpec::Device(path) => Ok(path),
        TargetSpec::File(_) => {
            let what =
                format!("{} is a file; only directories and devices are probed", request.target);
            Err(UsageError::new(what).hint("name its directory").into())
        }
        other => Err(UsageError::new(format!("{other} cannot be learned")).into()),
    }
}

fn no_trims(below: &UnderlyingDrive) -> String {
    match (&below.fs_type, below.reported.trim) {
        (_, None) => "the kernel sends this drive no TRIM, so none was probed".to_owned(),
        (Some(fs_type), _) => {
            format!(
                "no TRIM was probed through {fs_type}, so its cost is typical of the \
                    class; name the device to measure it"
            )
        }
        (None, _) => "no TRIM was probed".to_owned(),
    }
}

/// The probes of each round, and the total write limit.
fn plan(
    request: &DriveLearnArgs,
    below: &UnderlyingDrive,
    budget: Budget,
    spec: &TargetSpec,
) -> anyhow::Result<(ProbePlan, u64)> {
    let of = below.capacity().0;
    let default = ProbePlan::usual_limit(budget, of);
    let limit = match (request.write_limit, budget) {
        (None, _) => default,
        (Some(limit), Budget::Full) => limit.0.min(default),
        (Some(limit), _) => limit.0,
    };
    let reach = AccessPath {
        rest: request.rest,
        trim_ranges_max: if matches!(spec, TargetSpec::Device(_)) { Some(1) } else { None },
        flushes: below.fs_type.as_deref() != Some("btrfs"),
        sends_flushes: below.volatile_cache,
    };
    let plan = sized(budget, below, limit, request.seed)
        .ok_or_else(|| too_little(&request.target, limit, LIMIT_LEAST))?;
    // Ask for consent only to what can be written.
    let each = AREA_WRITES * plan.area;
    Ok((ProbePlan { reach, ..plan }, limit.min((ROUNDS + AGAIN) * each + AREA_WRITES * plan.area)))
}

/// The plan for a write limit in bytes; `None` if the limit is too small.
fn sized(budget: Budget, below: &UnderlyingDrive, limit: u64, seed: u64) -> Option<ProbePlan> {
    // A second round is worth more than a larger area: one round alone does not show the
    // scatter.
    let of = |rounds: u64| ProbePlan::new(budget, below.reported, limit / (rounds + 1), seed);
    let large = [ROUNDS, 2].into_iter().filter_map(of).find(|plan| plan.area >= AREA_ENOUGH);
    large.or_else(|| of(2)).or_else(|| of(1))
}

/// The command that learns a twin of the drive `below` through the directory `path` and
/// leaves `reserve` free, or the reason why none can.
pub fn command(
    below: &UnderlyingDrive,
    path: &Path,
    reserve: Option<Bytes>,
) -> Result<String, String> {
    let usual =
        sized(Budget::Small, below, ProbePlan::usual_limit(Budget::Small, below.capacity().0), 1);
    let option = if usual.is_some() {
        String::new()
    } else {
        format!(" --write-limit {}MiB", LIMIT_LEAST >> 20)
    };
    let plan = usual.or_else(|| sized(Budget::Small, below, LIMIT_LEAST, 1));
    let plan =
        plan.ok_or_else(|| format!("a drive of {} is too small for the probes", below.capacity()))?;
    let (needs, usable) = (
        Bytes(file_size(plan.area)),
        space::usable(path, reserve).map_err(|error| format!("{error:#}"))?,
    );
    if usable < needs {
        return Err(format!(
            "the probes need {needs}, but only {usable} is free there besides the reserve"
        ));
    }
    let kept = reserve.map_or(String::new(), |reserve| format!(" --reserve {}", reserve.0));
    Ok(format!("trimtab drive learn {}{option}{kept}", quoted(&path.display().to_string())))
}

/// Runs all probes once.
fn round(
    root: &Root,
    below: &UnderlyingDrive,
    plan: &ProbePlan,
    probed: &mut ProbedArea,
    watching: &mut Progress,
) -> anyhow::Result<Round> {
    let before = MachineSample::take(root, &below.stack);
    let found = learn::probe(&mut probed.drive, plan, watching);
    interrupt::check()?;
    let found = found?;
    probed.written += found.written;
    let own = OwnIo { read: Bytes(found.read), written: Bytes(found.written) }
        .through(below.fs_type.as_deref());
    let (_, warnings) =
        interference::judge(&before, &MachineSample::take(root, &below.stack), Some(own));
    let (disturbed, warnings): (Vec<_>, Vec<_>) =
        warnings.into_iter().partition(|warning| disturbs(&warning.code));
    let text = |warning: trimtab_sim::run::Warning| sentence(&warning.text);
    Ok(Round {
        found,
        disturbed: disturbed.into_iter().map(text).next(),
        warnings: warnings.into_iter().map(text).collect(),
    })
}

/// True if this warning makes a round invalid.
fn disturbs(code: &str) -> bool {
    matches!(code, "interference.other-io" | "interference.drive-hot" | "interference.throttled")
}

/// Combines all rounds, and adds notes about them. Disturbed rounds count only without
/// two undisturbed ones.
fn together_of(made: &[Round], notes: &mut Vec<String>) -> CombinedFindings {
    let (clean, disturbed): (Vec<&Round>, Vec<&Round>) =
        made.iter().partition(|round| round.disturbed.is_none());
    let counted = if clean.len() >= 2 { clean } else { made.iter().collect() };
    if let Some(why) = disturbed.first().and_then(|round| round.disturbed.as_ref()) {
        let what = if counted.len() < made.len() {
            "left out"
        } else {
            "counted anyway, with intervals as wide as their difference"
        };
        let rounds = if made.len() == 1 {
            "the only round of probes was".to_owned()
        } else {
            format!("{} of {} rounds of probes were", disturbed.len(), made.len())
        };
        notes.push(format!("{rounds} disturbed, and {what}: {why}"));
    }
    let findings: Vec<Findings> = counted.iter().map(|round| round.found.clone()).collect();
    let all = together(&findings);
    if counted.len() == 1 {
        notes.push(
            "only one round of probes was possible, so the scatter is unknown; a \
                larger --write-limit or --time allows more"
                .to_owned(),
        );
    }
    if !all.unsteady.is_empty() {
        let mut named: Vec<String> = all
            .unsteady
            .iter()
            .take(NAMED)
            .map(|(name, low, high)| {
                format!("{name}: {} to {}", time(name, *low), time(name, *high))
            })
            .collect();
        if all.unsteady.len() > NAMED {
            named.push(format!("{} more", all.unsteady.len() - NAMED));
        }
        notes.push(format!(
            "figures that differ between rounds count for less ({})",
            named.join("; ")
        ));
    }
    if all.drift.abs() > DRIFT {
        let how = if all.drift > 0.0 {
            "slower than the first: heat, a cache that fills, or work in the background"
        } else {
            "faster than the first: other I/O or the drive's own background work has ended"
        };
        notes.push(format!("the last round was {} % {how}", three_digits(100.0 * all.drift.abs())));
    }
    let mut others: Vec<&String> = counted.iter().flat_map(|round| &round.warnings).collect();
    others.dedup_by_key(|text| text.split_whitespace().take(2).collect::<Vec<_>>().join(" "));
    notes.extend(others.into_iter().take(2).cloned());
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_linux::host::block::Stack;
    use trimtab_study::learn::{Observation, ReportedProperties};

    fn round(value_ns: f64, disturbed: Option<&str>) -> Round {
        let one = Observation { name: "read".into(), probe: "reads", value_ns, sigma: 0.02 };
        Round {
            found: Findings { observations: vec![one], ..Findings::default() },
            disturbed: disturbed.map(str::to_owned),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn learn_command_keeps_the_given_reserve() {
        let below = UnderlyingDrive {
            reported: ReportedProperties {
                capacity_bytes: 64 << 30,
                logical_block_bytes: 512,
                queue_depth: 32,
                full_duplex: false,
                trim: None,
            },
            model: "x".into(),
            firmware: None,
            which: "x".into(),
            is_of_a_model: false,
            start: 0,
            volatile_cache: true,
            fs_type: None,
            mount: None,
            stack: Stack::default(),
            notes: Vec::new(),
        };
        let directory = tempfile::tempdir().unwrap();
        let command = |reserve| command(&below, directory.path(), Some(Bytes(reserve)));
        assert!(
            command(u64::MAX).unwrap_err().contains("only 0 B is free there besides the reserve")
        );
        assert!(command(0).unwrap().ends_with(" --reserve 0"));
    }

    #[test]
    fn disturbed_round_is_dropped_or_widens_and_is_reported() {
        let mut notes = Vec::new();
        let all = together_of(
            &[round(100.0, None), round(400.0, Some("rsync")), round(102.0, None)],
            &mut notes,
        );
        assert_eq!(all.found.ns("read"), Some(101.0));
        assert!(
            notes.len() == 1
                && notes[0]
                    .starts_with("1 of 3 rounds of probes were disturbed, and left out: rsync"),
            "{notes:?}"
        );
        notes.clear();
        let all = together_of(&[round(100.0, None), round(400.0, Some("rsync"))], &mut notes);
        assert!(all.found.observations[0].sigma > 0.69, "half of the range, ln 4 / 2");
        assert!(
            notes[0].contains("counted anyway")
                && notes[1].contains("read: 100.00 ns to 400.00 ns")
                && notes[2].contains("slower"),
            "{notes:?}"
        );
        notes.clear();
        together_of(&[round(100.0, None)], &mut notes);
        assert!(notes.len() == 1 && notes[0].contains("one round"), "{notes:?}");
    }
}
