//! What learning ends with: a drive file that says how each of its figures is known.

use super::candidate::{Candidate, UNIT_MAX};
use super::fit::{self, Fitted, OF_THE_RIGHT_KIND, Tries};
use super::lab::Lab;
use super::probes::whole::{SIZE, Whole};
use super::probes::{self, AREA_MIN, AREA_WRITES, DEPTH_MAX, Findings, Plan};
use super::{Budget, Observation, Observer, Reported, classes, summary};
use crate::study::small::Small;
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
use trimtab_sim::target::TargetError;
use trimtab_sim::target::drive::DriveTarget;

/// Why a modelled drive cannot be learned.
#[derive(Debug, thiserror::Error)]
pub enum Cannot {
    /// Not as it was asked.
    #[error(transparent)]
    Asked(#[from] UsageError),
    /// There is no such drive.
    #[error(transparent)]
    Drive(#[from] SpecError),
    /// It failed.
    #[error(transparent)]
    Failed(#[from] TargetError),
}

/// What was measured, and of what.
#[derive(Clone, Debug)]
pub struct Measured {
    /// What was run.
    pub plan: Plan,
    /// What that found.
    pub found: Findings,
    /// What the probes of the whole drive found.
    pub whole: Option<Findings>,
    /// What the drive calls itself.
    pub model: String,
    /// Its firmware, if it says so.
    pub firmware: Option<String>,
    /// Which one of its model, if that can be told.
    pub which: Option<String>,
    /// Whether it was a drive that answered, and not memory in front of it: otherwise nothing of a drive is measured.
    pub is_of_a_drive: bool,
    /// What was noticed.
    pub notes: Vec<String>,
}

impl Measured {
    /// Probes the modelled drive of `spec`, which the user calls `called`. At most `write_limit` bytes are written; `None` is what is usual.
    ///
    /// # Errors
    /// A disk; too little that may be written; a drive that cannot be, or that fails.
    pub fn in_virtual_time(
        spec: &DriveSpec,
        called: &str,
        budget: Budget,
        write_limit: Option<u64>,
        seed: u64,
        observer: &mut dyn Observer,
    ) -> Result<Self, Cannot> {
        let reported = Reported::of(spec).ok_or_else(|| UsageError::new(format!("{called} is a disk, which has no twin")))?;
        let unit = spec.flash().map_or(0, |flash| flash.ftl.mapping_unit_bytes);
        if unit > UNIT_MAX {
            let (unit, most) = (unit >> 10, UNIT_MAX >> 10);
            return Err(UsageError::new(format!("{called} has mapping units of {unit} KiB, and twins have units of {most} KiB at most"))
                .hint("learn a drive with a smaller flash.ftl.mapping_unit_bytes")
                .into());
        }
        let limit = write_limit.unwrap_or_else(|| Plan::usual_limit(budget, spec.capacity_bytes));
        let mut plan = Plan::new(budget, reported, limit, seed).ok_or_else(|| too_little(called, limit, AREA_MIN * AREA_WRITES))?;
        let mut target = DriveTarget::new(model::build(spec, plan.seed)?, DEPTH_MAX);
        probes::there_already(&mut Lab::new(&mut target), &plan)?;
        let found = super::probe(&mut target, &plan, observer)?;
        let (mut whole, mut notes) = (None, Vec::new());
        if budget == Budget::Full {
            plan.whole = Some(Whole::all(spec.capacity_bytes));
            let small = Small::of(spec, SIZE).map_err(|problem| UsageError::new(format!("{problem}")))?.spec;
            let mut target = DriveTarget::new(model::build(&small, plan.seed)?, DEPTH_MAX);
            let part = plan.whole.map(|whole| whole.on(small.capacity_bytes));
            whole = Some(super::probe_whole(&mut target, &Plan { whole: part, ..plan }, observer)?);
            if small.capacity_bytes < spec.capacity_bytes {
                let size = Bytes(small.capacity_bytes);
                notes.push(format!("what goes over the whole drive was run on one of {size} with the same proportions"));
            }
        }
        Ok(Self { plan, found, whole, model: format!("drive:{}", spec.name), firmware: None, which: None, is_of_a_drive: true, notes })
    }

    /// Drives that explain what was measured: at first little of the drive, then all of it. `None` if it was stopped, or if no candidate could be tried.
    pub fn fitted(&self, tries: &dyn Tries, observer: &mut dyn Observer) -> Option<Fitted> {
        let fitted = fit::fit(&self.found, &self.plan, tries, observer)?;
        match &self.whole {
            Some(found) => fit::whole::refine(&fitted, (&self.found, found), &self.plan, tries, observer),
            None => Some(Fitted { best: classes::programs_as_bits(fitted.best.clone()), ..fitted }),
        }
    }

    /// All figures that were found.
    pub fn observations(&self) -> impl Iterator<Item = &Observation> {
        self.found.observations.iter().chain(self.whole.iter().flat_map(|whole| &whole.observations))
    }

    /// Bytes that the probes wrote.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.found.written + self.whole.as_ref().map_or(0, |whole| whole.written)
    }

    /// The twin of the drive called `name`, learned on `day` (2026-11-22).
    #[must_use]
    pub fn twin(&self, name: &str, day: &str, fitted: &Fitted) -> Drive {
        let mut twin = format!("twin-of-{name}");
        twin.truncate(IDENTIFIER_MAX);
        let description = format!("Twin of {name}, learned by probes ({} budget)", self.plan.budget.name());
        let of = |candidate: &Candidate| candidate.spec(&twin, &description, &self.plan.reported);
        // A drive that could not be is none that explains anything.
        let members = fitted.members.iter().map(of).filter(|spec| spec.validate().is_ok()).collect();
        let mut parameters = summary::parameters(fitted, &self.plan);
        if !self.is_of_a_drive {
            summary::bound(&mut parameters);
        }
        let twin = Twin { origin: self.origin(day, fitted), parameters, members };
        Drive { spec: of(&fitted.best), sources: twin.sources(), alternatives: Vec::new(), twin: Some(twin) }
    }

    fn origin(&self, day: &str, fitted: &Fitted) -> Origin {
        let odd = worst(&fitted.odd).into_iter().map(|(one, shown)| {
            let (found, shown) = (time(&one.name, one.value_ns), time(&one.name, *shown));
            format!("{}: found {found}, the twin shows {shown}; no drive was found that shows both this and the rest", one.name)
        });
        let more = fitted.odd.len().saturating_sub(ODD_MAX);
        let odd = odd.chain((more > 0).then(|| format!("{more} more that no drive was found to explain")));
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
                .chain(self.notes.iter().map(|note| one_line(note).chars().take(TEXT_MAX).collect()))
                .chain(odd)
                .collect(),
        }
    }
}

/// Figures that no drive explains, and that are named.
const ODD_MAX: usize = 6;

/// Those of which the best drive shows the least.
fn worst(odd: &[(Observation, f64)]) -> Vec<&(Observation, f64)> {
    let off = |one: &(Observation, f64)| libm::fabs(libm::log(one.0.value_ns / one.1));
    let mut all: Vec<&(Observation, f64)> = odd.iter().collect();
    all.sort_by(|a, b| off(b).total_cmp(&off(a)));
    all.truncate(ODD_MAX);
    all
}

/// Where `limit` is less than the least that has to be written.
#[must_use]
pub fn too_little(called: &str, limit: u64, least: u64) -> UsageError {
    let what = format!("with {} to be written nothing can be learned of {called}", Bytes(limit));
    UsageError::new(what).hint(format!("--write-limit {}MiB is the least", least >> 20))
}

/// A twin is called after its drive, with `twin-of-` before it.
pub const NAME_MAX: usize = IDENTIFIER_MAX - "twin-of-".len();

/// Something that can name a drive, from what one calls itself.
#[must_use]
pub fn identifier(model: &str) -> String {
    let words = model.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let words: Vec<String> = words.map(str::to_ascii_lowercase).collect();
    let mut name = words.join("-");
    name.truncate(NAME_MAX);
    if name.is_empty() { "drive".to_owned() } else { name }
}

/// `text` without the line feeds and control characters that a drive, a file or a program may have in its name: the file of a twin is not read with them.
#[must_use]
pub fn one_line(text: &str) -> String {
    text.chars().map(|one| if one.is_control() { ' ' } else { one }).collect()
}

/// In per mille, and no more than a file can hold.
fn permille(share: f64) -> u64 {
    libm::round(share * 1000.0).min(1e15) as u64
}

/// Why the ensemble says less than it seems to.
fn doubts(fitted: &Fitted) -> Vec<String> {
    let mut doubts = Vec::new();
    if !fitted.is_explained() {
        doubts.push(format!(
            "no drive was found that explains the figures: the nearest is off by {} times what they may be off by, and one figure in three by more than {:.0} %; its intervals mean little",
            three_digits(libm::sqrt(fitted.misfit)),
            100.0 * fitted.off()
        ));
    }
    let misfit = fitted.misfit_of_all();
    if fitted.is_explained() && misfit > OF_THE_RIGHT_KIND {
        doubts.push(format!(
            "the best drive explains the figures less well than one of the right kind does (a misfit of {}): it may have other dies, rows or caches, and intervals may be too narrow; 'drive check' tells",
            three_digits(misfit)
        ));
    }
    let (explained, members) = (fitted.explained as usize, fitted.members.len());
    if explained == 0 {
        doubts.push(format!(
            "none of the {members} members explains the figures: all are the nearest drive, with other properties that no probe sees"
        ));
    } else if explained < members {
        doubts.push(format!(
            "only {explained} of {members} members are drives of their own; the others are these again, with other properties that no probe sees"
        ));
    }
    let in_part = fitted.members.iter().filter(|one| one.hidden.map_ppm > 0).count();
    if in_part > 0 && fitted.best.hidden.map_ppm == 0 {
        let would_tell = if fitted.whole.is_none() { "; the probe 'map' of --budget full would tell" } else { "" };
        doubts.push(format!(
            "{in_part} of {members} members have only a part of their map in memory, as drives without memory of their own do: what goes over a whole drive is slower on these{would_tell}"
        ));
    }
    doubts
}

/// What a figure comes to: a time of a command, or of a byte, which takes less than there are units for.
#[must_use]
pub fn time(name: &str, ns: f64) -> String {
    let time = if ns < 1000.0 { format!("{ns:.2} ns") } else { format!("{}", Nanos(libm::round(ns) as u64)) };
    if is_of_a_byte(name) { format!("{time} a byte") } else { time }
}

/// Whether a figure is what a byte takes: of what is written in order.
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

    fn fitted(misfit: f64, explained: u32) -> (Measured, Fitted) {
        let spec = shipped::named("sata-tlc-500gb").unwrap().spec;
        let plan = Plan::new(Budget::Small, Reported::of(&spec).unwrap(), 1 << 30, 1).unwrap();
        let best = invert(&Findings::default(), &plan);
        let (members, learned) = (vec![best.clone(); 64], [0.0; NUMBERS]);
        let fitted = Fitted {
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
            families: Vec::new(),
            whole: None,
        };
        let notes = vec!["it was warm".to_owned()];
        let model = "A b 1".to_owned();
        (
            Measured {
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
    fn unexplained_figures_are_named_worst_first() {
        let one = |name: usize, value_ns: f64| Observation { name: format!("{name}"), probe: "reads", value_ns, sigma: 0.1 };
        let (measured, mut fitted) = fitted(0.1, 64);
        fitted.odd = (1..=8).map(|nth| (one(nth, nth as f64), 1.0)).collect();
        let notes = measured.origin("2026-11-22", &fitted).notes;
        assert_eq!(notes.len(), 1 + ODD_MAX + 1, "{notes:?}");
        assert!(notes[1].starts_with("8: found 8.00 ns") && notes[7].starts_with("2 more that"), "{notes:?}");
    }

    #[test]
    fn what_a_byte_takes_is_called_that() {
        for (name, ns, said) in [
            ("burst 524288", 0.234, "0.23 ns a byte"),
            ("burst flush", 234_000.0, "234 µs"),
            ("write zeros", 2.0, "2.00 ns a byte"),
            ("write 4096 q1", 900.0, "900.00 ns"),
            ("after a long rest 3", 1.0, "1.00 ns a byte"),
            ("read 4096 q255", 830.5, "830.50 ns"),
        ] {
            assert_eq!(time(name, ns), said);
        }
    }

    #[test]
    fn an_ensemble_that_explains_little_says_so() {
        let doubts = |misfit, explained, off| {
            let (_, fitted) = fitted(misfit, explained);
            doubts(&Fitted { off, ..fitted })
        };
        assert_eq!(doubts(0.3, 64, 0.5), [""; 0]);
        // Seen: 8 % held, of a drive with a misfit of 2.15.
        assert!(doubts(2.15, 64, 0.03)[0].contains("(a misfit of 2.15): it may have other dies"));
        assert!(doubts(0.1, 3, 0.03)[0].starts_with("only 3 of 64 members"));
        // Figures that are off by three times what they may be off by, on average.
        assert!(doubts(9.0, 0, 0.03)[0].contains("off by 3.00 times"));
        assert!(doubts(9.0, 0, 0.03)[1].starts_with("none of the 64 members explains"));
        assert!(doubts(1.0, 64, 0.58)[0].contains("by more than 58 %"));
    }

    #[test]
    fn nothing_is_measured_where_no_drive_explains_the_figures() {
        let is_measured = |misfit, explained| {
            let (measured, mut fitted) = fitted(misfit, explained);
            fitted.learned = [1.0; NUMBERS];
            summary::parameters(&fitted, &measured.plan).iter().filter(|one| one.known == Known::Measured).count()
        };
        assert!(is_measured(1.0, 64) > 5);
        assert_eq!((is_measured(1.0, 3), is_measured(5.0, 64)), (0, 0));
    }

    #[test]
    fn nothing_is_measured_where_memory_answered() {
        let (measured, mut fitted) = fitted(1.0, 64);
        fitted.learned = [1.0; NUMBERS];
        let of = |is_of_a_drive| {
            let twin = Measured { is_of_a_drive, ..measured.clone() }.twin("x", "2026-11-22", &fitted).twin.unwrap();
            twin.parameters.iter().filter(|one| one.known == Known::Measured).count()
        };
        assert!(of(true) > 5);
        assert_eq!(of(false), 0);
    }

    #[test]
    fn a_twin_comes_back_from_its_file() {
        let (measured, fitted) = fitted(1.0, 64);
        let twin = measured.twin(&identifier("  SAMSUNG_SSD 850/x "), "2026-11-22", &fitted);
        assert_eq!(twin.spec.name, "twin-of-samsung-ssd-850-x");
        assert_eq!(file::parse(&text::file(&twin)).unwrap(), twin);
        assert_eq!(identifier("é/"), "drive");
    }

    #[test]
    fn what_cannot_be_learned_is_said() {
        let learn = |name: &str, limit| {
            let spec = shipped::named(name).unwrap().spec;
            Measured::in_virtual_time(&spec, name, Budget::Small, limit, 1, &mut ()).unwrap_err()
        };
        assert!(matches!(learn("laptop-7200rpm", None), Cannot::Asked(why) if why.message().contains("a disk")), "a disk");
        assert!(matches!(learn("sata-tlc-500gb", Some(1 << 20)), Cannot::Asked(why) if why.advice().is_some()));
        let mut spec = shipped::named("sata-tlc-500gb").unwrap().spec;
        let trimtab_drive::spec::Medium::Flash(flash) = &mut spec.medium else { panic!() };
        flash.ftl.mapping_unit_bytes = 128 << 10;
        let said = format!("{}", Measured::in_virtual_time(&spec, "x", Budget::Small, None, 1, &mut ()).unwrap_err());
        assert!(said.starts_with("x has mapping units of 128 KiB, and twins have units of 64 KiB at most; "), "{said}");
    }
}
