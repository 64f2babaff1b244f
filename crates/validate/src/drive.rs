//! `validate drive`: compares write amplification of the drive model with theory.

pub mod chain;
pub mod ideal;
pub mod monte_carlo;
pub mod traffic;
pub mod victim;

use crate::parallel;
use ideal::{IdealCase, IdealOutcome, Reference};
use serde::Serialize;
use std::process::ExitCode;
use std::str::FromStr;
use traffic::{Effort, Traffic};
use trimtab_drive::spec::VictimPolicy;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_linux::output::lines::prose;
use trimtab_linux::sys::interrupt;
use trimtab_linux::sys::interrupt::InterruptError;
use trimtab_report::layout::on_screen;
use trimtab_study::document::Table;

/// Arguments of `validate drive`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  validate drive                                     all policies, block sizes 16 to 1024, three spare factors, TRIM,
                                                     hot and cold data, and files under each trim policy
  validate drive --policy greedy --spare 0.07,0.2    two custom spare factors
  validate drive --policy d:4 --over-provisioning 0.25 --pages-per-block 128
  validate drive --policy fifo --traffic trim:0.3,trim-any:0.3 --spare 0.1
  validate drive --policy greedy,fifo --traffic hot:0.1:0.9 --utilisation 0.85

Spare factor is (T - U) / T, over-provisioning (T - U) / U, utilisation U / T, with U user pages and T physical pages. T excludes pages
that the model holds free.

The reference is the formula if it is exact. For greedy collection of hot and cold data in one log, only an approximation is known (1 to 2 %).
There the reference is a Monte Carlo simulation that shares no code with the model. ± is its error (95 %), including the effect of the choice
among equally empty blocks, which the policy does not define.

Exit status 1 if a row deviates from its reference by more than its limit plus the error of the reference.")]
pub struct ValidateDriveArgs {
    /// Victim policies: greedy, fifo, random, d:N (the emptiest of N drawn).
    #[arg(long, value_name = "POLICY", value_delimiter = ',', value_parser = victim::parse)]
    policy: Vec<VictimPolicy>,
    /// Pages per erase block [default: 64,256].
    #[arg(
        long, value_name = "N", value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(2..=65536)
    )]
    pages_per_block: Vec<u32>,
    /// Spare factors (T - U) / T.
    #[arg(long, value_name = "SHARE", value_delimiter = ',', value_parser = share)]
    spare: Vec<f64>,
    /// Over-provisioning (T - U) / U.
    #[arg(long, value_name = "SHARE", value_delimiter = ',', value_parser = over_provisioning)]
    over_provisioning: Vec<f64>,
    /// Utilisation U / T.
    #[arg(long, value_name = "SHARE", value_delimiter = ',', value_parser = share)]
    utilisation: Vec<f64>,
    /// Traffic: uniform, trim:Q (a TRIM of a mapped page with probability Q, as in
    /// Frankie et al.), trim-any:Q (a TRIM of any page, mapped or not), hot:F:R (a share
    /// F of the pages gets a share R of the writes).
    #[arg(long, value_name = "TRAFFIC", value_delimiter = ',')]
    traffic: Vec<Traffic>,
    /// Amount of work: quick for a first look, thorough for less noise.
    #[arg(long, value_enum, default_value_t = TheoryEffort::Normal)]
    work: TheoryEffort,
    /// Seed of victim choices and requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl ValidateDriveArgs {
    /// True if no case options are given, which selects the standard table.
    const fn standard(&self) -> bool {
        self.policy.is_empty()
            && self.pages_per_block.is_empty()
            && self.traffic.is_empty()
            && self.spare.is_empty()
            && self.over_provisioning.is_empty()
            && self.utilisation.is_empty()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum TheoryEffort {
    /// 262,144 physical pages.
    Quick,
    /// 524,288 physical pages.
    Normal,
    /// 2,097,152 physical pages.
    Thorough,
}

#[derive(Debug, Clone, Serialize)]
struct TheoryRow {
    policy: String,
    pages_per_block: u32,
    traffic: String,
    utilisation: f64,
    utilisation_of_model: f64,
    theory: f64,
    /// Reference for the model: "formula" or "monte-carlo".
    reference: &'static str,
    reference_value: f64,
    /// Error of the reference (95 %).
    reference_error_percent: f64,
    model: f64,
    deviation_percent: f64,
    limit_percent: f64,
    agrees: bool,
}

#[derive(Serialize)]
struct TheoryDocument<'a> {
    physical_pages: u32,
    seed: u64,
    rows: &'a [TheoryRow],
    /// Files on a filesystem under a trim policy; only in the standard table.
    chain: &'a [chain::ChainRow],
    all_agree: bool,
}

/// Runs the comparison.
pub fn run(args: &ValidateDriveArgs, context: &Context) -> anyhow::Result<ExitCode> {
    interrupt::install()?;
    let cases = cases(args);
    if let Some(case) = cases.iter().find(|case| !has_formula(case)) {
        let what =
            format!("no formula for {} under {} traffic", victim::name(case.policy), case.traffic);
        return Err(UsageError::new(what)
            .hint("formulas for hot and cold data in one log exist for greedy and fifo")
            .into());
    }
    let pages = match args.work {
        TheoryEffort::Quick => 1 << 18,
        TheoryEffort::Normal => 1 << 19,
        TheoryEffort::Thorough => 1 << 21,
    };
    let rows = parallel::map(context, "model against theory", &cases, |case| {
        let outcome =
            case.run(effort(case, pages), args.seed, &interrupt::requested).map_err(|problem| {
                UsageError::new(format!("{} cannot be compared: {problem}", name(case)))
            })?;
        Ok(row(case, outcome.ok_or(InterruptError)?))
    })?;
    let chain = if args.standard() {
        chain::compare(context, args.work == TheoryEffort::Thorough, args.seed)?
    } else {
        Vec::new()
    };
    let all_agree = rows.iter().all(|row| row.agrees) && chain.iter().all(|row| row.agrees);
    let document = TheoryDocument {
        physical_pages: pages,
        seed: args.seed,
        rows: &rows,
        chain: &chain,
        all_agree,
    };
    context.report("drive-validation", 2, &document, || {
        if chain.is_empty() {
            text(&rows)
        } else {
            format!("{}\n{}", text(&rows), chain::text(&chain))
        }
    })?;
    Ok(if all_agree { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn text(rows: &[TheoryRow]) -> String {
    let mut table = Table::new(
        "",
        &[
            "policy",
            "pages/block",
            "traffic",
            "u = U/T",
            "formula",
            "reference",
            "model",
            "deviation",
            "limit",
        ],
    );
    for row in rows {
        table.row([
            row.policy.clone(),
            row.pages_per_block.to_string(),
            row.traffic.clone(),
            format!("{:.4}", row.utilisation),
            format!(
                "{:.4}{}",
                row.theory,
                if row.reference == FORMULA { "" } else { " (approximate)" }
            ),
            if row.reference == FORMULA {
                FORMULA.to_owned()
            } else {
                format!(
                    "Monte Carlo {:.4} ±{:.2} %",
                    row.reference_value, row.reference_error_percent
                )
            },
            format!("{:.4}", row.model),
            format!("{:+.2} %{}", row.deviation_percent, if row.agrees { "" } else { " !" }),
            format!("{} %", row.limit_percent),
        ]);
    }
    let outside = rows.iter().filter(|row| !row.agrees).count();
    let worst = rows.iter().map(|row| row.deviation_percent.abs()).fold(0.0, f64::max);
    let verdict = if outside == 0 {
        "all within limits".to_owned()
    } else {
        format!("{outside} outside limits (marked !)")
    };
    let simulated = rows.iter().filter(|row| row.reference != FORMULA).count();
    let note = if simulated == 0 {
        String::new()
    } else {
        format!(
            " The reference of {simulated} is a Monte Carlo simulation that shares \
                no code with the model, because no exact formula is known. ± is its error \
                (95 %) including the effect of ties between blocks; it is added to the \
                limit of the row."
        )
    };
    let verdict = format!(
        "{} comparisons of write amplification, worst deviation {worst:.2} %: {verdict}.{note}",
        rows.len()
    );
    [on_screen(&table), prose(&verdict)].concat()
}

/// Reference name of rows that are compared with their formula.
const FORMULA: &str = "formula";
/// Maximum deviation of model and reference in per cent, plus the reference's error.
const LIMIT_PERCENT: f64 = 0.5;

fn row(case: &IdealCase, outcome: IdealOutcome) -> TheoryRow {
    let deviation_percent = 100.0 * outcome.deviation();
    let reference_error_percent = 100.0 * outcome.reference.error() / outcome.reference.value();
    TheoryRow {
        policy: victim::name(case.policy),
        pages_per_block: case.pages_per_block,
        traffic: case.traffic.to_string(),
        utilisation: case.utilisation,
        utilisation_of_model: outcome.utilisation,
        theory: outcome.theory,
        reference: match outcome.reference {
            Reference::Formula(_) => FORMULA,
            Reference::MonteCarlo(_) => "monte-carlo",
        },
        reference_value: outcome.reference.value(),
        reference_error_percent,
        model: outcome.model,
        deviation_percent,
        limit_percent: LIMIT_PERCENT,
        agrees: deviation_percent.abs() <= LIMIT_PERCENT + reference_error_percent,
    }
}

const fn has_formula(case: &IdealCase) -> bool {
    matches!(case.policy, VictimPolicy::Greedy | VictimPolicy::Fifo)
        || !matches!(case.traffic, Traffic::HotCold { .. })
}

/// Cold data spread slowly over a log, and random victims average out slowly.
fn effort(case: &IdealCase, pages: u32) -> Effort {
    match (case.traffic, case.policy) {
        (Traffic::HotCold { .. }, _) => Effort { pages, warm_up: 20, measured: 10 },
        (_, VictimPolicy::Random | VictimPolicy::DChoices(..5)) => {
            Effort { pages, warm_up: 8, measured: 24 }
        }
        _ => Effort { pages, warm_up: 8, measured: 8 },
    }
}

/// All combinations of the requested options; without options, the standard table.
fn cases(args: &ValidateDriveArgs) -> Vec<IdealCase> {
    use VictimPolicy::{DChoices, Fifo, Greedy, Random};
    let utilisations: Vec<f64> = (args.spare.iter().map(|spare| 1.0 - spare))
        .chain(args.over_provisioning.iter().map(|op| 1.0 / (1.0 + op)))
        .chain(args.utilisation.iter().copied())
        .collect();
    let or = |given: &[f64], standard: &[f64]| {
        if given.is_empty() { standard.to_vec() } else { given.to_vec() }
    };
    let policies = if args.policy.is_empty() {
        vec![Greedy, Fifo, Random, DChoices(2), DChoices(10)]
    } else {
        args.policy.clone()
    };
    let traffics =
        if args.traffic.is_empty() { vec![Traffic::Uniform] } else { args.traffic.clone() };
    let standard =
        args.policy.is_empty() && args.pages_per_block.is_empty() && args.traffic.is_empty();
    let mut cases = Vec::new();
    for utilisation in or(&utilisations, &[0.88, 0.72, 1.0 / 1.12]) {
        for &traffic in &traffics {
            for &policy in &policies {
                // In the limit of many blocks, FIFO and random do not depend on the block
                // size.
                let blocks = match policy {
                    _ if !args.pages_per_block.is_empty() => args.pages_per_block.clone(),
                    Greedy if standard => vec![16, 32, 64, 128, 256, 512, 1024],
                    Fifo | Random => vec![64],
                    _ => vec![64, 256],
                };
                cases.extend(blocks.into_iter().map(|pages_per_block| IdealCase {
                    policy,
                    pages_per_block,
                    utilisation,
                    traffic,
                }));
            }
        }
    }
    if standard {
        let pairs = [Fifo, Greedy];
        for utilisation in or(&utilisations, &[0.93, 0.88, 0.72]) {
            for traffic in [Traffic::Trim { q: 0.2 }, Traffic::TrimAny { q: 0.2 }] {
                cases.extend(pairs.map(|policy| IdealCase {
                    policy,
                    pages_per_block: 64,
                    utilisation,
                    traffic,
                }));
            }
        }
        for utilisation in or(&utilisations, &[0.93, 0.89, 0.8]) {
            let traffic = Traffic::HotCold { pages: 0.2, writes: 0.8 };
            cases.extend(pairs.map(|policy| IdealCase {
                policy,
                pages_per_block: 64,
                utilisation,
                traffic,
            }));
        }
    }
    cases
}

fn name(case: &IdealCase) -> String {
    let IdealCase { policy, pages_per_block, utilisation, traffic } = *case;
    format!(
        "{} with {pages_per_block} pages per block, {} traffic at utilisation {utilisation:.4}",
        victim::name(policy),
        traffic
    )
}

fn share(text: &str) -> Result<f64, String> {
    f64::from_str(text)
        .ok()
        .filter(|share| (0.01..=0.99).contains(share))
        .ok_or_else(|| "a share must be between 0.01 and 0.99".into())
}

fn over_provisioning(text: &str) -> Result<f64, String> {
    f64::from_str(text)
        .ok()
        .filter(|op| (0.01..=10.0).contains(op))
        .ok_or_else(|| "over-provisioning must be between 0.01 and 10".into())
}
