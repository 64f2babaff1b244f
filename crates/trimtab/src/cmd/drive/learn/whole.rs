//! The part of the budget `full` that writes over all there is: what is free of a drive, or the whole of it.

use super::super::ground::Way;
use super::{Args, Watching};
use crate::drives::below::Below;
use crate::drives::probed::{PIECE, ProbedDrive};
use crate::target_spec::TargetSpec;
use anyhow::Context as _;
use trimtab_drive::Extent;
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;
use trimtab_linux::host::Observer;
use trimtab_linux::host::interference::OwnIo;
use trimtab_linux::output::Context;
use trimtab_linux::session::safety::{consent, space};
use trimtab_linux::sys::interrupt;
use trimtab_sim::run::Warning;
use trimtab_sim::target::{BlockTarget as _, Clock as _};
use trimtab_study::learn::lab::Probed as _;
use trimtab_study::learn::probes::whole::{SHARE_MIN, WRITES_EIGHTHS, Whole};
use trimtab_study::learn::probes::{Findings, Plan};
use trimtab_study::learn::{self, Budget};

/// What one TRIM is asked for.
const TRIM_BYTES: u64 = 1 << 30;

/// What was found out of a whole drive.
pub struct OfWhole {
    /// Figures.
    pub found: Findings,
    /// What was noticed.
    pub notes: Vec<String>,
}

/// Writes over what is free, or over the whole device, as often as the probes need it.
pub fn on_a_drive(
    args: &Args,
    context: &Context,
    spec: &TargetSpec,
    below: &Below,
    plan: &Plan,
    watching: &mut Watching,
) -> anyhow::Result<OfWhole> {
    let Some(part) = plan.whole else { return Err(UsageError::new("nothing is said of the whole drive").into()) };
    let way = Way {
        what: "drive learn --budget full",
        below,
        seed: args.seed,
        reserve: args.safety.reserve,
        destroy: args.destroy.named(),
        area: part.bytes,
        most: Some(part.written_max()),
    };
    let mut ground = way.open_unwritten(context, spec)?;
    let path = match spec {
        TargetSpec::Directory(path) | TargetSpec::Device(path) => path,
        other => return Err(UsageError::new(format!("{other} cannot be learned")).into()),
    };
    let observer = Observer::start(path).with_context(|| format!("cannot look at {}", path.display()))?;
    ground.require_on(observer.place().mount.as_ref())?;
    let mut notes = Vec::new();
    let found =
        emptied(&mut ground.drive, spec, below, &mut notes).and_then(|()| Ok(learn::probe_whole(&mut ground.drive, plan, watching)?));
    let own =
        found.as_ref().ok().map(|found| OwnIo { read: Bytes(found.read), written: Bytes(found.written) }.through(below.fs_type.as_deref()));
    let (_, warnings) = observer.finish(own);
    drop(ground);
    if interrupt::requested() {
        context.remark(
            "The rounds of probes are kept; the same command with --resume begins with writing over the drive, which cannot be gone on with in the middle.",
        );
    }
    interrupt::check()?;
    notes.extend(warnings.iter().map(|warning| format!("while the whole drive was probed: {}", note(warning))));
    Ok(OfWhole { found: found?, notes })
}

/// A warning as a note, which gets its full stop where it is printed.
pub fn note(warning: &Warning) -> String {
    warning.text.trim_end_matches('.').to_owned()
}

/// How much of the drive is used. Found out before anything is written, as is that nobody could allow it later.
pub fn allowed_part(args: &Args, context: &Context, spec: &TargetSpec, below: &Below) -> anyhow::Result<Whole> {
    let part = part(args, spec, below)?;
    let most = Bytes(part.written_max());
    match consent::reason(most, Some(below.capacity())) {
        Some(reason) if !consent::can_be_given(context) => {
            let what = format!("drive learn --budget full writes up to {most} to {}; {reason}", args.target);
            Err(UsageError::new(what).hint("say --yes to allow it").into())
        }
        _ => Ok(part),
    }
}

fn part(args: &Args, spec: &TargetSpec, below: &Below) -> anyhow::Result<Whole> {
    let of = below.capacity().0;
    let free = match spec {
        TargetSpec::Directory(path) => space::usable(path, args.safety.reserve)?.0,
        _ => of,
    };
    let allowed = args
        .write_limit
        .map_or(u64::MAX, |limit| (limit.of(of).saturating_sub(Plan::usual_limit(Budget::Full, of)) / WRITES_EIGHTHS).saturating_mul(8));
    // A filesystem needs some of what is free for itself.
    let free = if matches!(spec, TargetSpec::Directory(_)) { free - free / 50 } else { free };
    let bytes = free.min(allowed) / PIECE * PIECE;
    let part = Whole {
        start: 0,
        bytes,
        of,
        held: if matches!(spec, TargetSpec::Directory(_)) { of.saturating_sub(free) / PIECE * PIECE } else { 0 },
    };
    if part.is_enough() {
        return Ok(part);
    }
    let what = format!(
        "{} of {} that may be used are too little for --budget full, which needs {:.0} % of the drive to see it collect",
        Bytes(bytes),
        Bytes(of),
        100.0 * SHARE_MIN
    );
    Err(UsageError::missing(what).hint("free some space, raise --write-limit, or use --budget small").into())
}

/// What is free holds nothing, as far as the drive knows.
fn emptied(drive: &mut ProbedDrive, spec: &TargetSpec, below: &Below, notes: &mut Vec<String>) -> anyhow::Result<()> {
    if matches!(spec, TargetSpec::Directory(_)) {
        notes.push(
            "what was free was taken for trimmed: where it was not, the SLC cache and the spare space seem smaller than they are ('trimtab trim' before it makes sure)"
                .to_owned(),
        );
        return Ok(());
    }
    if below.reported.trim.is_none() {
        notes.push("the drive takes no TRIM, so that it could not be emptied before its SLC cache and spare space were probed".to_owned());
        return Ok(());
    }
    let size = drive.info().size.0;
    for offset in (0..size).step_by(TRIM_BYTES as usize) {
        let len = TRIM_BYTES.min(size - offset);
        drive.trim(0, &[Extent { offset, len }])?;
        drive.reap(1, &mut Vec::new())?;
    }
    let rested = drive.now() + trimtab_drive::units::Nanos::from_secs(5);
    drive.idle_until(rested);
    Ok(())
}
