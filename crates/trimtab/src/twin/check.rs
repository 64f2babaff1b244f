//! Checking a twin: predict workloads that no probe ran, then measure them.

mod real;

use super::probed_area;
use crate::cmd::drive::check::{DriveCheckArgs, MEMBERS};
use crate::drives::{self, Drive, crew, twins};
use crate::report::file::{self, OverwriteMode};
use crate::target_spec::TargetSpec;
use anyhow::Context as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::path::PathBuf;
use std::process::ExitCode;
use trimtab_drive::spec::DriveSpec;
use trimtab_drive::spec::twin::{Origin, Twin};
use trimtab_drive::units::{Bytes, Nanos, three_digits};
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::lines::prose;
use trimtab_linux::output::{self, Context};
use trimtab_linux::sys::interrupt::{self, InterruptError};
use trimtab_report::layout::on_screen;
use trimtab_study::document::{NarrowLayout, Table};
use trimtab_study::learn::predict::{
    Area, Prediction, ResidualDeviation, SIZE, What, WorkloadFigure, figures, predictions,
};
use trimtab_study::sweep::hex;

const TAKES: &str =
    "drive check takes a directory, a file, a device, drive:NAME or drive:FILE.toml";

/// Relative difference that two clocks could not resolve.
const ALIKE: f64 = 0.005;

/// Predicts, stores the predictions, measures and compares.
pub fn run(request: &DriveCheckArgs, context: &Context) -> anyhow::Result<ExitCode> {
    interrupt::install().context("cannot install signal handlers")?;
    probed_area::check_rest(request.rest)?;
    let drive = drives::load(&request.twin)?;
    let Some(twin) = &drive.twin else {
        return Err(UsageError::new(format!("{} is not a twin: it has no ensemble", request.twin))
            .hint("run 'trimtab drive learn' to create one")
            .into());
    };
    let on = CheckTarget::of(request, context, &TargetSpec::resolve_as(&request.target, TAKES)?)?;
    if let Some(path) = &request.predictions {
        // A number is added if the file exists; a failure must show before minutes of
        // work.
        file::check(path, true)?;
    }
    let mismatches = on.mismatches(&drive, twin);
    for mismatch in &mismatches {
        context.remark(&format!("Noticed: {mismatch}."));
    }
    let area = on.area();
    let predicted = predicted(twin, request, |nth, member| match &area {
        Some(area) => area.figures(member, request.seed, nth),
        None => figures(member, request.seed),
    })?;
    let unexplained = ResidualDeviation::said(&twin.origin);
    let predicted: Vec<Prediction> =
        predicted.into_iter().map(|one| one.widened(unexplained)).collect();
    let (hash, kept) = keep(request, &drive.spec, twin, &predicted)?;
    let size = on.size();
    let (measured, mut notes) = on.measured(request, context)?;
    if interrupt::requested() {
        return Err(InterruptError.into());
    }
    let (lines, missing) = compared(&predicted, &measured);
    notes.splice(
        0..0,
        mismatches.into_iter().chain(unexplained_twin(&twin.origin)).chain(few(twin, request)),
    );
    notes.extend(missing);
    let document = json!({
        "twin": request.twin,
        "target": request.target,
        "predictions": { "file": kept, "sha256": hash },
        "figures": lines.iter().map(CheckLine::as_json).collect::<Vec<_>>(),
        "held": lines.iter().filter(|line| line.holds()).count(),
        "notes": notes,
    });
    context.report("twin-check", 2, &document, || {
        text(&lines, &notes, &kept.display().to_string(), &hash, size)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Warning about a twin that does not explain the figures it was learned from: its
/// intervals prove nothing.
fn unexplained_twin(origin: &Origin) -> Option<String> {
    (!origin.is_explained()).then(|| {
        "no drive explained the measurements behind this twin, so neither its \
            predictions nor held intervals mean much"
            .to_owned()
    })
}

/// Fewer members give a poor estimate of the 90 % interval.
const MEMBERS_ENOUGH: usize = 16;

/// Note on the number of members.
fn few(twin: &Twin, request: &DriveCheckArgs) -> Option<String> {
    let (asked, all) = (request.members as usize, twin.members.len());
    if asked.min(all) < MEMBERS_ENOUGH {
        return Some(format!(
            "intervals of {} members are wide, so holding means little; use at least \
                {MEMBERS_ENOUGH}",
            asked.min(all)
        ));
    }
    (asked > all && request.members != MEMBERS)
        .then(|| format!("the twin has {all} members, and all of them were used"))
}

/// Predictions of the ensemble's members.
fn predicted(
    twin: &Twin,
    request: &DriveCheckArgs,
    show: impl Fn(usize, &DriveSpec) -> Option<Vec<WorkloadFigure>> + Sync + Send,
) -> anyhow::Result<Vec<Prediction>> {
    let tried = twin.members.len().min(request.members as usize);
    let members: Vec<(usize, &DriveSpec)> = twin.members[..tried].iter().enumerate().collect();
    let shown = crew::map(
        &members,
        |(nth, member)| if interrupt::requested() { None } else { show(*nth, member) },
    );
    let shown: Vec<Vec<WorkloadFigure>> = shown.into_iter().flatten().collect();
    if interrupt::requested() {
        return Err(InterruptError.into());
    }
    let predicted = predictions(&shown);
    if predicted.is_empty() {
        Err(UsageError::new("no drive of the ensemble can be used").into())
    } else {
        Ok(predicted)
    }
}

/// Writes the predictions before anything is measured; returns the hash of the file and
/// its path.
fn keep(
    request: &DriveCheckArgs,
    spec: &DriveSpec,
    twin: &Twin,
    predicted: &[Prediction],
) -> anyhow::Result<(String, PathBuf)> {
    let content = json!({
        "twin": spec.name,
        "origin": twin.origin,
        "seed": request.seed,
        "predictions": predicted.iter().map(prediction).collect::<Vec<_>>(),
    });
    let text = output::document("twin-predictions", 2, &content)?;
    let hash = hex(&Sha256::digest(&text));
    let path = request
        .predictions
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("{}-predictions.json", spec.name)));
    Ok((hash, file::write(&path, text.as_bytes(), OverwriteMode::Free)?))
}

fn prediction(one: &Prediction) -> Value {
    json!({ "workload": one.workload, "figure": one.what.name(), "unit": unit(one.what), "predicted": one.median, "low": one.low, "high": one.high })
}

const fn unit(what: What) -> &'static str {
    match what {
        What::Rate => "1/s",
        What::Mean | What::P99 => "ns",
        What::Time => "s",
        What::Ratio => "",
    }
}

/// Target of a check.
enum CheckTarget {
    /// A modelled drive, in virtual time.
    Modelled(Box<DriveSpec>),
    /// A real drive.
    Real(Box<real::OpenedDrive>),
}

impl CheckTarget {
    fn of(
        request: &DriveCheckArgs,
        context: &Context,
        target: &TargetSpec,
    ) -> anyhow::Result<Self> {
        let TargetSpec::Drive(name) = target else {
            return Ok(Self::Real(Box::new(real::OpenedDrive::open(request, context, target)?)));
        };
        probed_area::check_nothing_is_risked(
            &request.target,
            request.safety.reserve,
            &request.destroy.named(),
        )?;
        let truth = drives::load(name)?.spec;
        if truth.flash().is_none() {
            return Err(UsageError::new(format!(
                "{} is a disk, which has no twin",
                request.target
            ))
            .into());
        }
        Ok(Self::Modelled(Box::new(truth)))
    }

    /// The area in use on a real drive.
    fn area(&self) -> Option<Area> {
        match self {
            Self::Modelled(_) => None,
            Self::Real(checked) => Some(checked.area),
        }
    }

    /// The measured figures, and notes.
    fn measured(
        self,
        request: &DriveCheckArgs,
        context: &Context,
    ) -> anyhow::Result<(Vec<MeasuredFigure>, Vec<String>)> {
        match self {
            Self::Modelled(truth) => {
                let all = figures(&truth, request.seed).ok_or_else(|| {
                    UsageError::new(format!(
                        "{} cannot be scaled down this far, or fails",
                        request.target
                    ))
                })?;
                Ok((all.into_iter().map(MeasuredFigure::once).collect(), Vec::new()))
            }
            Self::Real(checked) => checked.measured(request, context),
        }
    }

    /// The size of both drives, if it is not the drive's own.
    fn size(&self) -> Option<Bytes> {
        matches!(self, Self::Modelled(_)).then_some(SIZE)
    }

    /// Differences between the present drive and the one that was learned.
    fn mismatches(&self, drive: &Drive, twin: &Twin) -> Vec<String> {
        match self {
            Self::Modelled(truth) => mismatches(twin, truth),
            Self::Real(checked) => twins::mismatches(&twin.origin, drive, &checked.below),
        }
    }
}

/// Differences between the present drive and the one that was learned.
fn mismatches(twin: &Twin, truth: &DriveSpec) -> Vec<String> {
    let mut notes = Vec::new();
    let model = format!("drive:{}", truth.name);
    if twin.origin.model != model {
        notes.push(format!("the twin was learned from {}, but this is {model}", twin.origin.model));
    }
    if twin.members.iter().any(|member| member.capacity_bytes != truth.capacity_bytes) {
        notes.push("the twin has another capacity than the drive".to_owned());
    }
    notes
}

/// A measured figure: once in virtual time, several times on a real drive.
#[derive(Clone, Debug)]
pub struct MeasuredFigure {
    /// The median.
    pub figure: WorkloadFigure,
    /// The minimum.
    pub low: f64,
    /// The maximum.
    pub high: f64,
}

impl MeasuredFigure {
    fn once(figure: WorkloadFigure) -> Self {
        Self { low: figure.value, high: figure.value, figure }
    }
}

/// A figure, predicted and measured.
struct CheckLine {
    prediction: Prediction,
    measured: MeasuredFigure,
}

/// Pairs predictions with measured figures; returns notes about figures that the drive
/// lacks, such as TRIM.
fn compared(
    predicted: &[Prediction],
    measured: &[MeasuredFigure],
) -> (Vec<CheckLine>, Vec<String>) {
    let (mut lines, mut missing) = (Vec::new(), Vec::new());
    for prediction in predicted {
        match measured.iter().find(|one| {
            (one.figure.workload, one.figure.what) == (prediction.workload, prediction.what)
        }) {
            Some(one) => lines.push(CheckLine { prediction: *prediction, measured: one.clone() }),
            None => missing.push(format!(
                "{} of '{}' was predicted, but the drive has none",
                prediction.what.name(),
                prediction.workload
            )),
        }
    }
    (lines, missing)
}

impl CheckLine {
    /// True if the interval contains the printed median; a single round inside is not
    /// enough.
    fn holds(&self) -> bool {
        let Prediction { low, high, .. } = self.prediction;
        (low * (1.0 - ALIKE)..=high * (1.0 + ALIKE)).contains(&self.measured.figure.value)
    }

    /// The prediction's deviation from the measurement, in words.
    fn off_in_words(&self) -> String {
        let off = self.off();
        match off {
            1.0.. => format!("{} times", three_digits(1.0 + off)),
            0.0.. => format!("{:.0} % above", 100.0 * off),
            -0.5..0.0 => format!("{:.0} % below", -100.0 * off),
            _ => format!("1/{}", three_digits(1.0 / (1.0 + off))),
        }
    }

    fn off(&self) -> f64 {
        self.prediction.median / self.measured.figure.value - 1.0
    }

    fn as_json(&self) -> Value {
        let mut value = prediction(&self.prediction);
        value["measured"] = json!(self.measured.figure.value);
        value["measured_low"] = json!(self.measured.low);
        value["measured_high"] = json!(self.measured.high);
        value["off"] = json!(self.off());
        value["held"] = json!(self.holds());
        value
    }
}

fn shown(what: What, value: f64) -> String {
    match what {
        What::Rate | What::Ratio => three_digits(value),
        What::Mean | What::P99 => Nanos(value.round() as u64).to_string(),
        What::Time => Nanos((value * 1e9).round() as u64).to_string(),
    }
}

fn text(
    lines: &[CheckLine],
    notes: &[String],
    kept: &str,
    hash: &str,
    size: Option<Bytes>,
) -> String {
    let mut table = Table::new(
        "",
        &["workload", "figure", "predicted", "90 % interval", "measured", "verdict"],
    )
    .when_narrow(NarrowLayout::Records);
    for line in lines {
        let Prediction { workload, what, median, low, high } = line.prediction;
        let verdict = if line.holds() {
            "held".to_owned()
        } else {
            format!("not held, {}", line.off_in_words())
        };
        let interval = format!("{} to {}", shown(what, low), shown(what, high));
        table.row([
            workload.to_owned(),
            what.name().to_owned(),
            shown(what, median),
            interval,
            shown(what, line.measured.figure.value),
            verdict,
        ]);
    }
    let held = lines.iter().filter(|line| line.holds()).count();
    let tried = size.map_or_else(String::new, |size| format!("; tried at {size} each"));
    let sum = format!(
        "{}{held} of {} intervals contain the measurement{}. Predictions from \
            before: {} (SHA-256 {hash}){tried}.",
        if size.is_some() { "MODELLED, in virtual time: " } else { "" },
        lines.len(),
        if held < lines.len() { " (deviation: prediction relative to measurement)" } else { "" },
        output::plain(kept)
    );
    let notes: String = notes.iter().map(|note| prose(&format!("Noticed: {note}."))).collect();
    [on_screen(&table), prose(&sum), notes].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The misfit is the square of the relative error; twice the allowed error is
    /// doubted.
    #[test]
    fn unexplained_twin_is_doubted() {
        let doubted = |misfit_permille| {
            unexplained_twin(&Origin { misfit_permille, ..Origin::default() }).is_some()
        };
        assert_eq!([4000, 4001].map(doubted), [false, true]);
        let doubted = |off_permille| {
            unexplained_twin(&Origin { off_permille, ..Origin::default() }).is_some()
        };
        assert_eq!([500, 501].map(doubted), [false, true]);
    }

    #[test]
    fn compared_pairs_prediction_with_its_figure() {
        let predicted = ["trims", "tree"].map(|workload| Prediction {
            workload,
            what: What::Time,
            median: 1.0,
            low: 1.0,
            high: 1.0,
        });
        let (lines, missing) = compared(
            &predicted,
            &[MeasuredFigure::once(WorkloadFigure {
                workload: "tree",
                what: What::Time,
                value: 2.0,
            })],
        );
        assert_eq!(
            (lines.len(), lines[0].prediction.workload, lines[0].measured.figure.workload),
            (1, "tree", "tree")
        );
        assert_eq!(missing, ["time of 'trims' was predicted, but the drive has none"]);
    }

    #[test]
    fn prediction_error_is_worded_without_sign() {
        let said = |median: f64, value: f64| {
            let prediction = Prediction {
                workload: "reads",
                what: What::Mean,
                median,
                low: median,
                high: median,
            };
            CheckLine {
                prediction,
                measured: MeasuredFigure::once(WorkloadFigure {
                    workload: "reads",
                    what: What::Mean,
                    value,
                }),
            }
            .off_in_words()
        };
        assert_eq!([said(119.0, 100.0), said(84.0, 100.0)], ["19 % above", "16 % below"]);
        // 3,680 random writes per second predicted, 21.7 measured; 272 µs instead of 46
        // ms.
        assert_eq!([said(3680.0, 21.7), said(272.0, 46_000.0)], ["170 times", "1/169"]);
    }

    #[test]
    fn interval_check_uses_the_shown_median() {
        let prediction = Prediction {
            workload: "reads",
            what: What::Mean,
            median: 100.0,
            low: 90.0,
            high: 110.0,
        };
        let holds = |low, value, high| {
            let figure = WorkloadFigure { workload: "reads", what: What::Mean, value };
            CheckLine { prediction, measured: MeasuredFigure { figure, low, high } }.holds()
        };
        assert!(holds(50.0, 109.0, 200.0));
        assert!(holds(110.4, 110.4, 110.4), "two clocks would not tell it from 110");
        assert!(!holds(100.0, 120.0, 130.0));
        assert!(!holds(50.0, 80.0, 95.0));
    }
}
