//! The result of learning: a drive file that records the source of each figure.

use super::candidate::{Candidate, UNIT_MAX};
use super::fit::{self, CandidateEvaluator, FitResult, OF_THE_RIGHT_KIND};
use super::probes::whole::{ProbeRegion, SIZE};
use super::probes::{AREA_MIN, AREA_WRITES, DEPTH_MAX, Findings, ProbePlan};
use super::{Budget, Observation, ReportedProperties, summary};
use crate::study::small::SmallDrive;
use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use trimtab_drive::model;
use trimtab_drive::spec::file::Drive;
use trimtab_drive::spec::twin::{Origin, TEXT_MAX, Twin};
use trimtab_drive::spec::{DriveSpec, IDENTIFIER_MAX, SpecError};
use trimtab_drive::units::{Bytes, Nanos, three_digits};
use trimtab_drive::usage::UsageError;
use trimtab_sim::runner::Observer;
use trimtab_sim::target::TargetError;
use trimtab_sim::target::drive::DriveTarget;

/// Errors of learning a modelled drive.
#[derive(Debug, thiserror::Error)]
pub enum LearnError {
    /// The request is invalid.
    #[error(transparent)]
    Asked(#[from] UsageError),
    /// The drive specification is invalid.
    #[error(transparent)]
    Drive(#[from] SpecError),
    /// The drive failed.
    #[error(transparent)]
    Failed(#[from] TargetError),
}

/// Measurements and their subject.
#[derive(Clone, Debug)]
pub struct LearnMeasurements {
    /// Plan of the probes.
    pub plan: ProbePlan,
    /// Findings of the probes.
    pub found: Findings,
    /// Findings of the probes of the whole drive.
    pub whole: Option<Findings>,
    /// Model as reported by the drive.
    pub model: String,
    /// Firmware revision, if reported.
    pub firmware: Option<String>,
    /// Serial identity, if available.
    pub which: Option<String>,
    /// True if the drive itself answered. If a cache did, no figure counts as measured.
    pub is_of_a_drive: bool,
    /// Remarks.
    pub notes: Vec<String>,
}

impl LearnMeasurements {
    /// Probes the modelled drive of `spec`, named `called` by the user. Writes at most
    /// `write_limit` bytes; `None` selects the default.
    ///
    /// # Errors
    /// The write limit is too low, or the drive is impossible or fails.
    pub fn in_virtual_time(
        spec: &DriveSpec,
        called: &str,
        budget: Budget,
        write_limit: Option<u64>,
        seed: u64,
        observer: &mut dyn Observer,
    ) -> Result<Self, LearnError> {
        let reported = ReportedProperties::of(spec);
        let unit = spec.flash.ftl.mapping_unit_bytes;
        if unit > UNIT_MAX {
            let (unit, most) = (unit >> 10, UNIT_MAX >> 10);
            return Err(UsageError::new(format!(
                "{called} has mapping units of {unit} KiB; a twin supports at most {most} KiB"
            ))
            .hint("learn a drive with a smaller flash.ftl.mapping_unit_bytes")
            .into());
        }
        let limit =
            write_limit.unwrap_or_else(|| ProbePlan::usual_limit(budget, spec.capacity_bytes));
        let mut plan = ProbePlan::new(budget, reported, limit, seed)
            .ok_or_else(|| too_little(called, limit, AREA_MIN * AREA_WRITES))?;
        let mut target = DriveTarget::new(model::build(spec, plan.seed)?, DEPTH_MAX);
        let found = super::probe(&mut target, &plan, observer)?;
        let (mut whole, mut notes) = (None, Vec::new());
        if budget == Budget::Full {
            plan.whole = Some(ProbeRegion::all(spec.capacity_bytes));
            let small = SmallDrive::of(spec, SIZE)
                .map_err(|problem| UsageError::new(format!("{problem}")))?
                .spec;
            let mut target = DriveTarget::new(model::build(&small, plan.seed)?, DEPTH_MAX);
            let part = plan.whole.map(|whole| whole.on(small.capacity_bytes));
            whole = Some(super::probe_whole(
                &mut target,
                &ProbePlan { whole: part, ..plan },
                observer,
            )?);
            if small.capacity_bytes < spec.capacity_bytes {
                let size = Bytes(small.capacity_bytes);
                notes.push(format!(
                    "probes of the whole drive ran on a {size} drive with the same proportions"
                ));
            }
        }
        Ok(Self {
            plan,
            found,
            whole,
            model: format!("drive:{}", spec.name),
            firmware: None,
            which: None,
            is_of_a_drive: true,
            notes,
        })
    }

    /// Fits drives to the measurements: first to the small probes, then to the whole
    /// drive. Returns `None` if stopped, or if no candidate could be tried.
    pub fn fitted(
        &self,
        tries: &dyn CandidateEvaluator,
        observer: &mut dyn Observer,
    ) -> Option<FitResult> {
        fit::fit(&self.found, self.whole.as_ref(), &self.plan, tries, observer)
    }

    /// All observations.
    pub fn observations(&self) -> impl Iterator<Item = &Observation> {
        self.found
            .observations
            .iter()
            .chain(self.whole.iter().flat_map(|whole| &whole.observations))
    }

    /// Bytes that the probes wrote.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.found.written + self.whole.as_ref().map_or(0, |whole| whole.written)
    }

    /// The twin of the drive called `name`, learned on `day` (2026-11-22).
    #[must_use]
    pub fn twin(&self, name: &str, day: &str, fitted: &FitResult) -> Drive {
        let mut twin = format!("twin-of-{name}");
        twin.truncate(IDENTIFIER_MAX);
        let description =
            format!("Twin of {name}, learned by probes ({} budget)", self.plan.budget.name());
        let of = |candidate: &Candidate| candidate.spec(&twin, &description, &self.plan.reported);
        // An impossible drive cannot be an explanation.
        let members =
            fitted.members.iter().map(of).filter(|spec| spec.validate().is_ok()).collect();
        let mut parameters = summary::parameters(fitted, &self.plan);
        if !self.is_of_a_drive {
            summary::bound(&mut parameters);
        }
        let twin = Twin { origin: self.origin(day, fitted), parameters, members };
        Drive {
            spec: of(&fitted.best),
            sources: twin.sources(),
            alternatives: Vec::new(),
            twin: Some(twin),
        }
    }

    fn origin(&self, day: &str, fitted: &FitResult) -> Origin {
        let odd = worst(&fitted.odd).into_iter().map(|(one, shown)| {
            let (found, shown) = (time(&one.name, one.value_ns), time(&one.name, *shown));
            format!(
                "{}: measured {found}, twin {shown}; no modelled drive matches both this \
                and the other figures",
                one.name
            )
        });
        let more = fitted.odd.len().saturating_sub(ODD_MAX);
        let odd = odd.chain(
            (more > 0).then(|| format!("{more} more figures that no modelled drive explains")),
        );
        Origin {
            model: one_line(&self.model),
            firmware: self.firmware.as_deref().map(one_line),
            which: self.which.clone(),
            learned: day.to_owned(),
            budget: self.plan.budget.name().to_owned(),
            seed: self.plan.seed,
            written_bytes: self.written(),
            misfit_permille: permille(fitted.misfit),
            off_permille: permille(fitted.off),
            off_of_whole_permille: permille(fitted.whole.map_or(0.0, |whole| whole.off)),
            notes: doubts(fitted)
                .into_iter()
                .chain(
                    self.notes.iter().map(|note| one_line(note).chars().take(TEXT_MAX).collect()),
                )
                .chain(odd)
                .collect(),
        }
    }
}

const ODD_MAX: usize = 6;

/// Unexplained figures, those with the largest deviation of the best drive first.
fn worst(odd: &[(Observation, f64)]) -> Vec<&(Observation, f64)> {
    let off = |one: &(Observation, f64)| libm::fabs(libm::log(one.0.value_ns / one.1));
    let mut all: Vec<&(Observation, f64)> = odd.iter().collect();
    all.sort_by(|a, b| off(b).total_cmp(&off(a)));
    all.truncate(ODD_MAX);
    all
}

/// Error for a write `limit` below the minimum `least`.
#[must_use]
pub fn too_little(called: &str, limit: u64, least: u64) -> UsageError {
    let what = format!("a write limit of {} is too small to learn {called}", Bytes(limit));
    UsageError::new(what).hint(format!("use --write-limit {}MiB or more", least >> 20))
}

/// Maximum name length. A twin is named `twin-of-` followed by the drive's name.
pub const NAME_MAX: usize = IDENTIFIER_MAX - "twin-of-".len();

/// Converts a model string to a valid drive name.
#[must_use]
pub fn identifier(model: &str) -> String {
    let words = model.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let words: Vec<String> = words.map(str::to_ascii_lowercase).collect();
    let mut name = words.join("-");
    name.truncate(NAME_MAX);
    if name.is_empty() { "drive".to_owned() } else { name }
}

/// Removes line feeds and control characters from names, as twin files may not contain
/// them.
#[must_use]
pub fn one_line(text: &str) -> String {
    text.chars().map(|one| if one.is_control() { ' ' } else { one }).collect()
}

/// Converts a share to per mille, limited to the range of the file format.
fn permille(share: f64) -> u64 {
    libm::round(share * 1000.0).min(1e15) as u64
}

/// Reasons why the ensemble is less certain than it appears.
fn doubts(fitted: &FitResult) -> Vec<String> {
    let mut doubts = Vec::new();
    if !fitted.is_explained() {
        doubts.push(format!(
            "no modelled drive explains the figures: the nearest misses them by {} \
                times their tolerance, and one figure in three by more than {:.0} %; its \
                intervals are unreliable",
            three_digits(libm::sqrt(fitted.misfit)),
            100.0 * fitted.off()
        ));
    }
    let misfit = fitted.misfit_of_all();
    if fitted.is_explained() && misfit > OF_THE_RIGHT_KIND {
        doubts.push(format!(
            "the best drive fits worse (misfit {}) than a drive of the right kind: \
                dies, rows or caches may be wrong and intervals too narrow",
            three_digits(misfit)
        ));
    }
    let (explained, members) = (fitted.explained as usize, fitted.members.len());
    if explained == 0 {
        doubts.push(format!(
            "none of the {members} members explains the figures: all are variants of \
                the nearest drive, in properties that no probe identifies"
        ));
    } else if explained < members {
        doubts.push(format!(
            "only {explained} of {members} members are distinct drives; the rest are \
                variants of them, in properties that no probe identifies"
        ));
    }
    let in_part = fitted.members.iter().filter(|one| one.hidden.maps_in_part).count();
    if in_part > 0 && !fitted.best.hidden.maps_in_part {
        let hint = if fitted.whole.is_none() {
            "; the probe 'map' (--budget full) can decide this"
        } else {
            ""
        };
        doubts.push(format!(
            "{in_part} of {members} members keep only part of the map in memory, \
                like DRAM-less drives: access to the whole drive is slower on these{hint}"
        ));
    }
    doubts
}

/// Formats a time per command or per byte; below 1 µs in nanoseconds with two decimals.
#[must_use]
pub fn time(name: &str, ns: f64) -> String {
    let time = if ns < 1000.0 {
        format!("{ns:.2} ns")
    } else {
        format!("{}", Nanos(libm::round(ns) as u64))
    };
    if is_of_a_byte(name) { format!("{time} per byte") } else { time }
}

/// True if a figure is a time per byte of sequential writes.
fn is_of_a_byte(name: &str) -> bool {
    let (first, rest) = name.split_once(' ').unwrap_or((name, ""));
    match first {
        "burst" => rest != "flush",
        "fill" | "after" => true,
        "write" => !rest.starts_with(|c: char| c.is_ascii_digit()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::candidate::NUMBERS;
    use super::super::invert::invert;
    use super::super::summary;
    use super::*;
    use alloc::vec;
    use trimtab_drive::shipped;
    use trimtab_drive::spec::twin::Known;
    use trimtab_drive::spec::{file, text};

    fn fitted(misfit: f64, explained: u32) -> (LearnMeasurements, FitResult) {
        let spec = shipped::named("sata-tlc-500gb").unwrap().spec;
        let plan =
            ProbePlan::new(Budget::Small, ReportedProperties::of(&spec), 1 << 30, 1).unwrap();
        let best = invert(&Findings::default(), &plan);
        let (members, learned) = (vec![best.clone(); 64], [0.0; NUMBERS]);
        let fitted = FitResult {
            members,
            best,
            explained,
            misfit,
            off: 0.03,
            learned,
            odd: Vec::new(),
            tried: 1,
            rejected: 0,
            kinds: Vec::new(),
            whole: None,
        };
        let notes = vec!["it was warm".to_owned()];
        let model = "A b 1".to_owned();
        (
            LearnMeasurements {
                plan,
                found: Findings::default(),
                whole: None,
                model,
                firmware: Some("X".to_owned()),
                which: None,
                is_of_a_drive: true,
                notes,
            },
            fitted,
        )
    }

    #[test]
    fn unexplained_figures_are_listed_worst_first() {
        let one = |name: usize, value_ns: f64| Observation {
            name: format!("{name}"),
            probe: "reads",
            value_ns,
            sigma: 0.1,
        };
        let (measured, mut fitted) = fitted(0.1, 64);
        fitted.odd = (1..=8).map(|nth| (one(nth, nth as f64), 1.0)).collect();
        let notes = measured.origin("2026-11-22", &fitted).notes;
        assert_eq!(notes.len(), 1 + ODD_MAX + 1, "{notes:?}");
        assert!(
            notes[1].starts_with("8: measured 8.00 ns") && notes[7].starts_with("2 more figures"),
            "{notes:?}"
        );
    }

    #[test]
    fn time_formats_per_byte_figures() {
        for (name, ns, said) in [
            ("burst 524288", 0.234, "0.23 ns per byte"),
            ("burst flush", 234_000.0, "234 µs"),
            ("write zeros", 2.0, "2.00 ns per byte"),
            ("write 4096 q1", 900.0, "900.00 ns"),
            ("after a long rest 3", 1.0, "1.00 ns per byte"),
            ("read 4096 q255", 830.5, "830.50 ns"),
        ] {
            assert_eq!(time(name, ns), said);
        }
    }

    #[test]
    fn doubts_name_poorly_explained_ensembles() {
        let doubts = |misfit, explained, off| {
            let (_, fitted) = fitted(misfit, explained);
            doubts(&FitResult { off, ..fitted })
        };
        assert_eq!(doubts(0.3, 64, 0.5), [""; 0]);
        // A drive with a misfit of 2.15 held 8 % of the figures.
        assert!(doubts(2.15, 64, 0.03)[0].contains("(misfit 2.15)"));
        assert!(doubts(0.1, 3, 0.03)[0].starts_with("only 3 of 64 members"));
        // Figures off by three times their tolerance, on average.
        assert!(doubts(9.0, 0, 0.03)[0].contains("misses them by 3.00 times"));
        assert!(doubts(9.0, 0, 0.03)[1].starts_with("none of the 64 members explains"));
        assert!(doubts(1.0, 64, 0.58)[0].contains("by more than 58 %"));
    }

    #[test]
    fn parameters_of_unexplained_twin_are_not_measured() {
        let is_measured = |misfit, explained| {
            let (measured, mut fitted) = fitted(misfit, explained);
            fitted.learned = [1.0; NUMBERS];
            summary::parameters(&fitted, &measured.plan)
                .iter()
                .filter(|one| one.known == Known::Measured)
                .count()
        };
        assert!(is_measured(1.0, 64) > 5);
        assert_eq!((is_measured(1.0, 3), is_measured(5.0, 64)), (0, 0));
    }

    #[test]
    fn parameters_are_not_measured_if_a_cache_answered() {
        let (measured, mut fitted) = fitted(1.0, 64);
        fitted.learned = [1.0; NUMBERS];
        let of = |is_of_a_drive| {
            let twin = LearnMeasurements { is_of_a_drive, ..measured.clone() }
                .twin("x", "2026-11-22", &fitted)
                .twin
                .unwrap();
            twin.parameters.iter().filter(|one| one.known == Known::Measured).count()
        };
        assert!(of(true) > 5);
        assert_eq!(of(false), 0);
    }

    #[test]
    fn twin_round_trips_through_its_file() {
        let (measured, fitted) = fitted(1.0, 64);
        let twin = measured.twin(&identifier("  SAMSUNG_SSD 850/x "), "2026-11-22", &fitted);
        assert_eq!(twin.spec.name, "twin-of-samsung-ssd-850-x");
        assert_eq!(file::parse(&text::file(&twin)).unwrap(), twin);
        assert_eq!(identifier("é/"), "drive");
    }

    #[test]
    fn in_virtual_time_refuses_unlearnable_drives() {
        let learn = |name: &str, limit| {
            let spec = shipped::named(name).unwrap().spec;
            LearnMeasurements::in_virtual_time(&spec, name, Budget::Small, limit, 1, &mut ())
                .unwrap_err()
        };
        assert!(
            matches!(learn("sata-tlc-500gb", Some(1 << 20)), LearnError::Asked(why) if why.advice().is_some())
        );
        let mut spec = shipped::named("sata-tlc-500gb").unwrap().spec;
        let flash = &mut spec.flash;
        flash.ftl.mapping_unit_bytes = 128 << 10;
        let said = format!(
            "{}",
            LearnMeasurements::in_virtual_time(&spec, "x", Budget::Small, None, 1, &mut ())
                .unwrap_err()
        );
        assert!(
            said.starts_with("x has mapping units of 128 KiB; a twin supports at most 64 KiB; "),
            "{said}"
        );
    }
}
