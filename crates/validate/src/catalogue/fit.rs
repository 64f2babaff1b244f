//! Fits a specification to six published rates of a drive.
//!
//! These are the rates that the Linux io.cost controller needs. Its generator
//! (tools/cgroup/iocost_coef_gen.py) writes a 16 GiB file and keeps 64 operations in
//! flight. Shorter versions of the same six streams run here on candidates in virtual
//! time.

use std::collections::BTreeMap;
use trimtab_drive::data::DataClass;
use trimtab_drive::rng::Stream;
use trimtab_drive::spec::file::Drive;
use trimtab_drive::spec::source::{Source, SourceKind};
use trimtab_drive::{Command, Extent, model};
use trimtab_sim::target::drive::DriveTarget;
use trimtab_study::learn::candidate::{
    Candidate, DriveKind, HiddenProperties, OF_SMALL_PROBES, at,
};
use trimtab_study::learn::fit::CandidateEvaluator;
use trimtab_study::learn::fit::rates::{self, RateFit};
use trimtab_study::learn::lab::ProbeSession;
use trimtab_study::learn::probes::{AccessPath, DEPTH_MAX, Findings, ProbePlan};
use trimtab_study::learn::{Budget, Observation, ReportedProperties, TrimLimits, classes};

/// Columns of docs/real-drives.csv: bytes or operations per second.
pub const RATES: [&str; 6] = [
    "sequential_read_Bps",
    "sequential_read_4k_iops",
    "random_read_4k_iops",
    "sequential_write_Bps",
    "sequential_write_4k_iops",
    "random_write_4k_iops",
];

const DEPTH: u32 = 64;
/// File size in this model, in bytes.
const FILE: u64 = 256 << 20;
/// A sequential transfer is split into pieces of this size.
const PIECE: u64 = 1 << 20;
const BLOCK: u64 = 4096;
/// Number of random reads and writes per stream.
const SHORT: u64 = 4096;
/// Expected model error as a logarithm of the rate.
const MODEL_ERROR: f64 = 0.03;
/// TRIM costs, which were not measured.
const TRIMS: [usize; 4] = [at::TRIM_COMMAND, at::TRIM_RANGE, at::TRIM_UNIT, at::TRIM_GB];
/// Minimum reduction of uncertainty at which a parameter counts as determined by the
/// rates.
const DETERMINED_MIN: f64 = 0.3;

/// A drive model with its measured rates.
#[derive(Clone, Debug, PartialEq)]
pub struct CatalogueRates {
    /// Model name as submitted.
    pub model: String,
    /// `sata`, `nvme` or `nvme-no-memory`.
    pub kind: String,
    /// Capacity of the first measured drive.
    pub capacity_bytes: u64,
    /// Results: identifier and six rates.
    pub results: Vec<(String, [f64; 6])>,
}

impl CatalogueRates {
    /// Drive name derived from the model name.
    #[must_use]
    pub fn name(&self) -> String {
        let plain = |letter: char| {
            if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' }
        };
        self.model.chars().map(plain).collect()
    }

    /// Geometric mean of each rate, and the ratio of its largest to its smallest value.
    #[must_use]
    pub fn rates(&self) -> [(f64, f64); 6] {
        std::array::from_fn(|rate| {
            let logs = || self.results.iter().map(|(_, rates)| libm::log(rates[rate]));
            let mean = logs().sum::<f64>() / self.results.len().max(1) as f64;
            let (least, most) = logs()
                .fold((f64::MAX, f64::MIN), |(least, most), log| (least.min(log), most.max(log)));
            (libm::exp(mean), libm::exp(most - least))
        })
    }

    /// Data that such a drive would report.
    #[must_use]
    pub fn reported(&self) -> ReportedProperties {
        let sata = self.kind == "sata";
        let limits = if sata {
            TrimLimits { ranges_per_command_max: 64, range_bytes_max: 65_535 * 512 }
        } else {
            TrimLimits { ranges_per_command_max: 256, range_bytes_max: 1 << 40 }
        };
        ReportedProperties {
            capacity_bytes: self.capacity_bytes,
            logical_block_bytes: 512,
            queue_depth: if sata { 32 } else { 1024 },
            full_duplex: !sata,
            trim: Some(limits),
        }
    }

    fn plan(&self) -> ProbePlan {
        let reported = self.reported();
        let reach = AccessPath::bare(&reported);
        ProbePlan {
            budget: Budget::Small,
            reported,
            reach,
            start: 0,
            area: FILE,
            seed: 1,
            whole: None,
        }
    }

    /// Rates as times per byte or operation; tolerance from half the spread and the model
    /// error.
    fn found(&self) -> Findings {
        let one = |(name, (rate, spread)): (&str, (f64, f64))| Observation {
            name: name.into(),
            probe: "published",
            value_ns: 1e9 / rate,
            sigma: MODEL_ERROR + libm::log(spread) / 2.0,
        };
        Findings {
            observations: RATES.into_iter().zip(self.rates()).map(one).collect(),
            ..Findings::default()
        }
    }
}

/// Parses the models of docs/real-drives.csv in file order.
///
/// # Errors
/// The number of the first invalid line.
pub fn models(csv: &str) -> Result<Vec<CatalogueRates>, String> {
    let mut lines =
        (1..).zip(csv.lines()).filter(|(_, line)| !line.starts_with('#') && !line.is_empty());
    let (_, header) = lines.next().ok_or("the header is missing")?;
    let header: Vec<&str> = header.split(',').collect();
    let mut models: Vec<CatalogueRates> = Vec::new();
    for (number, line) in lines {
        let fields: Vec<&str> = line.split(',').collect();
        let field = |name: &str| {
            let nth = header.iter().position(|column| *column == name);
            nth.and_then(|nth| fields.get(nth))
                .copied()
                .ok_or_else(|| format!("line {number} has no {name}"))
        };
        let figure = |name: &str| {
            let value = field(name)?.parse::<f64>().ok().filter(|value| *value >= 1.0);
            value.ok_or_else(|| format!("line {number}: {name} is not a rate"))
        };
        let mut rates = [0.0; 6];
        for (rate, name) in rates.iter_mut().zip(RATES) {
            *rate = figure(name)?;
        }
        let result = (field("result")?.to_string(), rates);
        let (model, kind) = (field("model")?, field("kind")?);
        match models.iter_mut().find(|one| one.model == model) {
            Some(known) => known.results.push(result),
            None => models.push(CatalogueRates {
                model: model.into(),
                kind: kind.into(),
                capacity_bytes: figure("size_bytes")? as u64,
                results: vec![result],
            }),
        }
    }
    Ok(models)
}

/// Logarithms of the modelled time per byte or operation of the six streams, to the last
/// program, in the order of [`RATES`].
fn shown(candidate: &Candidate, plan: &ProbePlan) -> Option<Vec<f64>> {
    let drive = model::build(&candidate.laboratory(plan), plan.seed).ok()?;
    let mut target = DriveTarget::new(drive, DEPTH_MAX);
    let mut lab = ProbeSession::new(&mut target);
    let pieces = || (0..FILE / PIECE).map(|nth| Extent { offset: nth * PIECE, len: PIECE });
    let blocks = || (0..SHORT).map(|nth| Extent { offset: nth * BLOCK, len: BLOCK });
    let random = |purpose: &str| {
        let mut random = Stream::new(plan.seed, purpose);
        (0..SHORT).map(move |_| Extent { offset: random.below(FILE / BLOCK) * BLOCK, len: BLOCK })
    };
    let write = |extent: Extent| Command::Write(extent, DataClass::Random);
    let mut took = |commands: &mut dyn Iterator<Item = Command<'static>>, of: u64| {
        let stream = lab.stream(DEPTH, commands).ok()?;
        let flush = lab.one(Command::Flush).ok()?;
        Some(libm::log((stream.took + flush).0.max(1) as f64 / of as f64))
    };
    took(&mut pieces().map(write), FILE)?;
    Some(vec![
        took(&mut pieces().map(Command::Read), FILE)?,
        took(&mut blocks().map(Command::Read), SHORT)?,
        took(&mut random("reads").map(Command::Read), SHORT)?,
        took(&mut pieces().map(write), FILE)?,
        took(&mut blocks().map(write), SHORT)?,
        took(&mut random("writes").map(write), SHORT)?,
    ])
}

/// Candidates with the drive's capacity: dies of 16 to 128 GiB on four or eight channels,
/// with parameters from arithmetic.
fn kinds(measured: &CatalogueRates, plan: &ProbePlan) -> Vec<Candidate> {
    let mut all = Vec::new();
    for die in [16_u64, 32, 64, 128] {
        let dies = (measured.capacity_bytes >> 30).div_ceil(die).next_power_of_two() as u32;
        for (channels, planes, unit) in [4_u32, 8].into_iter().flat_map(|channels| {
            [1_u32, 2, 4].into_iter().flat_map(move |planes| {
                [4_u64, 8, 16, 32, 64].map(|unit| (channels, planes, unit << 10))
            })
        }) {
            if dies >= channels && dies / channels <= 16 {
                all.push(start(
                    measured,
                    plan,
                    DriveKind {
                        channels,
                        dies_per_channel: dies / channels,
                        planes,
                        unit_bytes: unit,
                        ..KIND
                    },
                ));
            }
        }
    }
    all
}

/// Parameters that six rates do not determine.
const KIND: DriveKind = DriveKind {
    channels: 8,
    dies_per_channel: 1,
    planes: 2,
    page_bytes: 16 << 10,
    unit_bytes: 4096,
    suspends: false,
    protected: false,
    slc: false,
    folds: true,
    read_spread_permille: 0,
    compresses: false,
    trim_queued: true,
    trim_bytes_min: 0,
    trim_alignment_bytes: 0,
};

fn start(measured: &CatalogueRates, plan: &ProbePlan, kind: DriveKind) -> Candidate {
    let rates = measured.rates().map(|(rate, _)| rate);
    let mut logs = classes::priors(&plan.reported).map(|prior| libm::log(prior.median));
    let mut set = |number: usize, value: f64| logs[number] = libm::log(value);
    set(at::RATE, rates[0] * 1.05);
    set(at::OVERHEAD, 0.95e9 / rates[1].max(rates[2]));
    set(at::WRITE_OVERHEAD, 0.9e9 / rates[4].max(rates[5]));
    set(at::READ, (f64::from(kind.dies()) * 0.7e9 / rates[2]).clamp(20e3, 150e3));
    set(at::PROGRAM, f64::from(kind.dies()) * kind.row_bytes() as f64 * 1e9 / rates[3]);
    set(at::ERASE, 4e6);
    let kind = DriveKind { trim_queued: plan.reported.full_duplex, ..kind };
    let hidden =
        HiddenProperties { bits_per_cell: 3, pages_per_block: 768, ..classes::common(false) };
    Candidate { kind, logs, hidden }
}

/// A catalogue drive.
#[derive(Clone, Debug)]
pub struct CatalogueEntry {
    /// Specification with the source of each value.
    pub drive: Drive,
    /// Parameters determined by the rates.
    pub fitted: RateFit,
    /// Per rate: published value, ratio between repeats, modelled value.
    pub rates: [(f64, f64, f64); 6],
}

/// The specification that best explains a model's rates; `None` if none does.
#[must_use]
pub fn entry(measured: &CatalogueRates, tries: &dyn CandidateEvaluator) -> Option<CatalogueEntry> {
    let plan = measured.plan();
    let fitted = rates::fit(
        &measured.found(),
        &plan,
        kinds(measured, &plan),
        &|candidate| shown(candidate, &plan),
        tries,
    )?;
    let of_rates = measured.rates();
    let rates = std::array::from_fn(|rate| {
        (of_rates[rate].0, of_rates[rate].1, 1e9 / libm::exp(fitted.shown[rate]))
    });
    let drive = Drive { sources: sources(measured, &fitted), ..plain(measured, &plan, &fitted) };
    Some(CatalogueEntry { drive, fitted, rates })
}

fn plain(measured: &CatalogueRates, plan: &ProbePlan, fitted: &RateFit) -> Drive {
    let shown: Vec<&str> = measured.model.split('_').collect();
    let description = format!(
        "{}, fitted to six published rates: for random reads and writes, not for sustained \
         writes (no SLC cache modelled); its TRIM was not measured",
        shown.join(" ")
    );
    let spec = fitted.best.spec(&measured.name(), &description, &plan.reported);
    Drive { spec, sources: BTreeMap::new(), alternatives: Vec::new(), twin: None }
}

/// Source of the absent SLC cache.
const NO_SLC_CACHE: &str =
    "not published; none is modelled, so sustained writes are as fast as short ones";

fn sources(measured: &CatalogueRates, fitted: &RateFit) -> BTreeMap<String, Source> {
    let results: Vec<&str> = measured.results.iter().map(|(result, _)| result.as_str()).collect();
    let published = format!("iocost-benchmarks {}", results.join(", "));
    let of = |kind, text: &str| Source { kind, text: text.into() };
    let mut all: BTreeMap<String, Source> = [
        ("capacity_bytes", of(SourceKind::Published, &published)),
        (
            "logical_block_bytes",
            of(SourceKind::Assumed, "512-byte emulation, as most are delivered"),
        ),
        ("interface", of(SourceKind::Assumed, "typical of the class")),
        ("flash", of(SourceKind::Assumed, "typical of the class; six rates do not tell")),
        ("flash.slc_cache", of(SourceKind::Assumed, NO_SLC_CACHE)),
        (
            "flash.geometry",
            of(
                SourceKind::Fitted,
                "an arrangement of dies of 16 to 128 GiB that shows the six rates; others do, too",
            ),
        ),
        (
            "flash.ftl.mapping_unit_bytes",
            of(SourceKind::Fitted, &format!("small writes at random ({published})")),
        ),
    ]
    .into_iter()
    .map(|(field, source)| (field.into(), source))
    .collect();
    for number in (0..OF_SMALL_PROBES)
        .filter(|number| !TRIMS.contains(number) && fitted.learned[*number] >= DETERMINED_MIN)
    {
        let (least, most) = fitted.bounds[number];
        let text = format!(
            "six rates ({published}); nine of ten such drives of this arrangement \
                have {least:.0} to {most:.0}"
        );
        all.insert(classes::PARAMETERS[number].field.into(), of(SourceKind::Fitted, &text));
    }
    all
}
