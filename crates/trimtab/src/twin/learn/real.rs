//! Probing a drive that is there: where, how often, and what else was going on.

use super::super::probed_area::{AreaRequest, ProbedArea, check_only_devices_are_destroyed, file_size};
use super::round::{Round, sentence};
use super::{Request, Watching};
use crate::drives::below::Below;
use crate::drives::twins;
use crate::target_spec::TargetSpec;
use anyhow::Context as _;
use std::path::Path;
use std::time::{Duration, Instant};
use trimtab_drive::units::{Bytes, three_digits};
use trimtab_drive::usage::UsageError;
use trimtab_linux::host::Observer;
use trimtab_linux::host::cached::DirectWatch;
use trimtab_linux::host::interference::{self, OwnIo, Sample};
use trimtab_linux::host::root::Root;
use trimtab_linux::output::Context;
use trimtab_linux::session::safety::space;
use trimtab_linux::sys::interrupt;
use trimtab_study::learn::learned::{Measured, time, too_little};
use trimtab_study::learn::probes::{AREA_MIN, AREA_WRITES, Findings, Plan, Reach};
use trimtab_study::learn::rounds::{Together, together};
use trimtab_study::learn::{self, Budget};

use super::saved_rounds::{Before, Kept};

/// Rounds of all probes, where as much may be written.
const ROUNDS: u64 = 3;
/// An area that is not too small for most write caches.
const AREA_ENOUGH: u64 = 32 << 20;
/// What has to be written at least: the area once, and one round.
const LIMIT_LEAST: u64 = 2 * AREA_MIN * AREA_WRITES;
/// Disturbed rounds that are made again.
const AGAIN: u64 = 2;
/// A median of all figures that is off by more between the first and the last round is said.
const DRIFT: f64 = 0.1;
/// Figures that are named at most.
const NAMED: usize = 4;

/// Probes what `spec` names, so often that it can be seen how much figures scatter.
pub fn measure(
    request: &Request,
    context: &Context,
    below: Below,
    spec: &TargetSpec,
    watching: &mut Watching,
) -> anyhow::Result<(Measured, Kept)> {
    let path = probed_path(request, spec)?;
    let budget = request.budget;
    let root = Root::live().context("cannot read /sys and /proc")?;
    let (mut plan, most) = plan(request, &below, budget, spec)?;
    if budget == Budget::Full {
        plan.whole = Some(super::whole::allowed_part(request, context, spec, &below)?);
    }
    let kept = Kept::new(context, &twins::which(&below), asked(&plan, most, &below))?;
    let Before { area, rounds: before, whole: whole_before } = if request.resume { kept.load()? } else { Before::default() };
    let plan = Plan { area: area.unwrap_or(plan.area), ..plan };
    let access = AreaRequest {
        what: "drive learn",
        below: &below,
        seed: request.seed,
        reserve: request.reserve,
        destroy: request.destroy.clone(),
        area: plan.area,
        most: (budget != Budget::Reads).then_some(most),
    };
    let mut probed = access.open(context, spec)?;
    let wanted = plan.area;
    let plan = on_what_there_is(plan, &probed, area)?;
    let observer = Observer::start(path).with_context(|| format!("cannot look at {}", path.display()))?;
    probed.require_on(observer.place().mount.as_ref())?;
    let direct = DirectWatch::start(&observer).ok();
    let until = Instant::now() + Duration::from_nanos(request.time.0);
    let rounds = Rounds { root: &root, below: &below, plan: &plan, most, until, kept: &kept };
    // What was done before an interruption is on none of this run's counters.
    let (earlier, carried) = (before.len(), rounds.written_before(&before));
    let made = rounds.make(before, &mut probed, watching);
    let mut notes = below.notes.clone();
    notes.extend((plan.area < wanted).then(|| {
        format!("only {} of the file lay in whole pieces of 1 MiB on the drive, where {} were wanted", Bytes(plan.area), Bytes(wanted))
    }));
    notes.extend(probed.drive.file().warnings().iter().map(|warning| sentence(&warning.text)));
    let written = probed.written;
    drop(probed);
    if interrupt::requested() {
        context.remark("Rounds of probes that were finished are kept; the same command with --resume goes on from there.");
    }
    let made = made?;
    let read = made.iter().skip(earlier).map(|round| round.found.read).sum();
    let own = (Bytes(read), Bytes(written.saturating_sub(carried)));
    let memory = direct.and_then(|watch| watch.finish(own.0, own.1)).map(|warning| sentence(&warning.text));
    let is_of_a_drive = memory.is_none();
    notes.extend(memory);
    let together = together_of(&made, &mut notes);
    let no_trims_there = plan.reach.trim_ranges_max.is_none() || plan.reported.trim.is_none();
    notes.extend((no_trims_there && budget != Budget::Reads).then(|| no_trims(&below)));
    let mut whole = None;
    if budget == Budget::Full {
        let of_whole = match whole_before {
            Some(before) => before,
            None => super::whole::on_a_drive(request, context, spec, &below, &plan, watching)?,
        };
        kept.save(plan.area, &made, Some(&of_whole))?;
        notes.extend(of_whole.notes);
        whole = Some(of_whole.found);
    }
    let found = Findings { written, ..together.found };
    let which = Some(twins::which(&below));
    Ok((Measured { plan, found, whole, model: below.model, firmware: below.firmware, which, is_of_a_drive, notes }, kept))
}

/// What is only read may be smaller than what was asked for, and so may what lies in whole pieces; but `before` it was so much, if it is gone on with.
fn on_what_there_is(plan: Plan, probed: &ProbedArea, before: Option<u64>) -> anyhow::Result<Plan> {
    let area = plan.area.min(probed.area());
    match before {
        Some(before) if before != area => {
            let what = format!("what was kept was found on {}, and there is only {} now in whole pieces", Bytes(before), Bytes(area));
            Err(UsageError::new(what).hint("leave out --resume").into())
        }
        _ => Ok(Plan { area, ..plan }),
    }
}

/// All that what is found depends on.
fn asked(plan: &Plan, most: u64, below: &Below) -> serde_json::Value {
    let Below { model, firmware, reported, start, fs_type, .. } = below;
    serde_json::json!({
        "drive": [model, firmware, twins::which(below), reported.capacity_bytes, start, fs_type],
        "budget": plan.budget.name(),
        "area": plan.area,
        "limit": most,
        "seed": plan.seed,
        "rest": plan.reach.rest.0,
        "ranges": plan.reach.trim_ranges_max,
        "flushes": plan.reach.sends_flushes,
    })
}

/// What is probed; an error where the budget does not go with it.
fn probed_path<'a>(request: &Request, spec: &'a TargetSpec) -> anyhow::Result<&'a Path> {
    let path = match spec {
        TargetSpec::Directory(path) | TargetSpec::File(path) | TargetSpec::Device(path) => path,
        other => return Err(UsageError::new(format!("{other} cannot be learned")).into()),
    };
    check_only_devices_are_destroyed(&request.target, spec, &request.destroy)?;
    match (spec, request.budget) {
        (TargetSpec::Directory(_), Budget::Reads) => {
            let what = format!("with --budget reads nothing is written to {}, and a directory has nothing to read", request.target);
            Err(UsageError::new(what).hint("name a large file that you may read, or the device").into())
        }
        (TargetSpec::File(_), Budget::Small | Budget::Full) => {
            let what = format!("{} is a file, and is not written to", request.target);
            Err(UsageError::new(what).hint("--budget reads reads it; or name a directory beside it").into())
        }
        _ => Ok(path),
    }
}

fn no_trims(below: &Below) -> String {
    match (&below.fs_type, below.reported.trim) {
        (_, None) => "the kernel sends this drive no TRIM, so none was probed".to_owned(),
        (Some(fs_type), _) => format!(
            "{fs_type} stands between: no TRIM was probed, and what one costs is typical of the class; name the device to have it measured"
        ),
        (None, _) => "no TRIM was probed".to_owned(),
    }
}

/// What is run in each round, and how much may be written in all.
fn plan(request: &Request, below: &Below, budget: Budget, spec: &TargetSpec) -> anyhow::Result<(Plan, u64)> {
    let of = below.capacity().0;
    let default = Plan::usual_limit(budget, of);
    let limit = match (request.write_limit, budget) {
        (None, _) => default,
        (Some(limit), Budget::Full) => limit.of(of).min(default),
        (Some(limit), _) => limit.of(of),
    };
    let reach = Reach {
        rest: request.rest,
        trim_ranges_max: if matches!(spec, TargetSpec::Device(_)) { Some(1) } else { None },
        flushes: below.fs_type.as_deref() != Some("btrfs"),
        sends_flushes: below.volatile_cache,
    };
    let plan = sized(budget, below, limit, request.seed).ok_or_else(|| too_little(&request.target, limit, LIMIT_LEAST))?;
    // Nobody is asked for more than can come of it.
    let each = AREA_WRITES * plan.area;
    Ok((Plan { reach, ..plan }, limit.min((ROUNDS + AGAIN) * each + AREA_WRITES * plan.area)))
}

/// The plan for a write limit in bytes; `None` if the limit is too small.
fn sized(budget: Budget, below: &Below, limit: u64, seed: u64) -> Option<Plan> {
    // A small area tells less than another round would; but one round alone does not tell how much it scatters.
    let of = |rounds: u64| Plan::new(budget, below.reported, limit / (rounds + 1), seed);
    let large = [ROUNDS, 2].into_iter().filter_map(of).find(|plan| plan.area >= AREA_ENOUGH);
    large.or_else(|| of(2)).or_else(|| of(1))
}

/// The command that learns a twin of the drive `below` through the directory `path`, or why none does.
pub fn command(below: &Below, path: &Path) -> Result<String, String> {
    let usual = sized(Budget::Small, below, Plan::usual_limit(Budget::Small, below.capacity().0), 1);
    let option = if usual.is_some() { String::new() } else { format!(" --write-limit {}MiB", LIMIT_LEAST >> 20) };
    let plan = usual.or_else(|| sized(Budget::Small, below, LIMIT_LEAST, 1));
    let plan = plan.ok_or_else(|| format!("a drive of {} is too small for the probes", below.capacity()))?;
    let (needs, usable) = (Bytes(file_size(plan.area)), space::usable(path, None).map_err(|error| format!("{error:#}"))?);
    if usable < needs {
        return Err(format!("the probes need {needs}, and {usable} are free there beside the reserve"));
    }
    Ok(format!("trimtab drive learn {}{option}", path.display()))
}

/// How often probes are run, and until when.
struct Rounds<'a> {
    root: &'a Root,
    below: &'a Below,
    plan: &'a Plan,
    most: u64,
    until: Instant,
    kept: &'a Kept,
}

impl Rounds<'_> {
    /// What the command wrote before it was interrupted, after it had made `rounds`, and the area each time.
    fn written_before(&self, rounds: &[Round]) -> u64 {
        if rounds.is_empty() || self.plan.budget == Budget::Reads {
            return 0;
        }
        self.plan.area + rounds.iter().map(|round| round.found.written).sum::<u64>()
    }

    /// As many as there have to be, and others in place of those that were disturbed, while that may be written and there is time.
    fn make(&self, mut made: Vec<Round>, probed: &mut ProbedArea, watching: &mut Watching) -> anyhow::Result<Vec<Round>> {
        let each = if self.plan.budget == Budget::Reads { 0 } else { AREA_WRITES * self.plan.area };
        probed.written += self.written_before(&made);
        for _ in made.len() as u64..ROUNDS + AGAIN {
            let clean = made.iter().filter(|round| round.disturbed.is_none()).count() as u64;
            let over = !made.is_empty() && Instant::now() >= self.until;
            if clean >= ROUNDS || over || probed.written + each > self.most {
                break;
            }
            made.push(self.one(probed, watching)?);
            self.kept.save(self.plan.area, &made, None)?;
        }
        Ok(made)
    }

    fn one(&self, probed: &mut ProbedArea, watching: &mut Watching) -> anyhow::Result<Round> {
        let before = Sample::take(self.root, &self.below.stack);
        let found = learn::probe(&mut probed.drive, self.plan, watching);
        interrupt::check()?;
        let found = found?;
        probed.written += found.written;
        let own = OwnIo { read: Bytes(found.read), written: Bytes(found.written) }.through(self.below.fs_type.as_deref());
        let (_, warnings) = interference::judge(&before, &Sample::take(self.root, &self.below.stack), Some(own));
        let (disturbed, warnings): (Vec<_>, Vec<_>) = warnings.into_iter().partition(|warning| disturbs(&warning.code));
        let text = |warning: trimtab_sim::run::Warning| sentence(&warning.text);
        Ok(Round { found, disturbed: disturbed.into_iter().map(text).next(), warnings: warnings.into_iter().map(text).collect() })
    }
}

/// Whether a round has to be made again.
fn disturbs(code: &str) -> bool {
    matches!(code, "interference.other-io" | "interference.drive-hot" | "interference.throttled")
}

/// All rounds as one, and what is to be said of them. Disturbed ones only count where there are not two others.
fn together_of(made: &[Round], notes: &mut Vec<String>) -> Together {
    let (clean, disturbed): (Vec<&Round>, Vec<&Round>) = made.iter().partition(|round| round.disturbed.is_none());
    let counted = if clean.len() >= 2 { clean } else { made.iter().collect() };
    if let Some(why) = disturbed.first().and_then(|round| round.disturbed.as_ref()) {
        let what =
            if counted.len() < made.len() { "left out" } else { "counted all the same, and the intervals are as wide as they differ" };
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
        notes.push("there was one round of probes only, so it is not known how much their figures scatter; a larger --write-limit or --time allows more".to_owned());
    }
    if !all.unsteady.is_empty() {
        let mut named: Vec<String> = all
            .unsteady
            .iter()
            .take(NAMED)
            .map(|(name, low, high)| format!("{name}: {} to {}", time(name, *low), time(name, *high)))
            .collect();
        if all.unsteady.len() > NAMED {
            named.push(format!("{} more", all.unsteady.len() - NAMED));
        }
        notes.push(format!("figures that differ between rounds count for less ({})", named.join("; ")));
    }
    if all.drift.abs() > DRIFT {
        let how = if all.drift > 0.0 {
            "slower than the first: heat, a cache that fills, or work in the background"
        } else {
            "faster than the first: work that has ended, of others or of the drive itself"
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
    use trimtab_study::learn::Observation;

    fn round(value_ns: f64, disturbed: Option<&str>) -> Round {
        let one = Observation { name: "read".into(), probe: "reads", value_ns, sigma: 0.02 };
        Round {
            found: Findings { observations: vec![one], ..Findings::default() },
            disturbed: disturbed.map(str::to_owned),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn disturbed_round_is_dropped_or_widens_and_is_reported() {
        let mut notes = Vec::new();
        let all = together_of(&[round(100.0, None), round(400.0, Some("rsync")), round(102.0, None)], &mut notes);
        assert_eq!(all.found.ns("read"), Some(101.0));
        assert!(notes.len() == 1 && notes[0].starts_with("1 of 3 rounds of probes were disturbed, and left out: rsync"), "{notes:?}");
        notes.clear();
        let all = together_of(&[round(100.0, None), round(400.0, Some("rsync"))], &mut notes);
        assert!(all.found.observations[0].sigma > 0.69, "half of the range, ln 4 / 2");
        assert!(
            notes[0].contains("counted all the same") && notes[1].contains("read: 100.00 ns to 400.00 ns") && notes[2].contains("slower"),
            "{notes:?}"
        );
        notes.clear();
        together_of(&[round(100.0, None)], &mut notes);
        assert!(notes.len() == 1 && notes[0].contains("one round"), "{notes:?}");
    }
}
