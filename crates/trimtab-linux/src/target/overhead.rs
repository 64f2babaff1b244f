//! The tool's own cost in a run: operations on a null target, and data generation.

use crate::session::runner::SilentObserver;
use crate::sys::content;
use crate::target::null::{NullBlocks, NullFiles};
use std::time::Instant;
use trimtab_drive::data::DataClass;
use trimtab_drive::data::content::ContentGenerator;
use trimtab_drive::rng::Stream;
use trimtab_drive::units::Bytes;
use trimtab_sim::run::{Field, Run, Severity, Warning};
use trimtab_sim::runner::{blocks, files};
use trimtab_sim::workload::synthetic::{Mix, Pattern, Synthetic, SyntheticSettings};
use trimtab_sim::workload::{FileWorkload, Limit};

/// Share of the measured time above which the tool's own cost gives a warning.
const SHARE_MAX: f64 = 0.05;
/// Bytes generated to measure the cost of data.
const DATA_SAMPLE: usize = 8 << 20;

/// Number of block operations run to measure the cost of one.
const BLOCK_OPS: u64 = 200_000;
/// Size of the null target for these operations.
const NULL_SIZE: Bytes = Bytes(1 << 40);

/// The cost of the tool itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Overhead {
    /// Nanoseconds per operation on the null target.
    pub op_ns: f64,
    /// Nanoseconds per byte of generated data; 0 if the workload brings its data.
    pub byte_ns: f64,
}

impl Overhead {
    /// Measures the cost of `workload` by running it to its end on the null target.
    pub fn of_files<W: FileWorkload + ?Sized>(workload: &mut W, makes: Option<DataClass>) -> Self {
        let outcome = files::run(workload, &mut NullFiles::new(), &mut SilentObserver);
        let (ops, ns) = outcome
            .recorded
            .phases
            .iter()
            .fold((0, 0), |(ops, ns), phase| (ops + phase.ops_total(), ns + phase.took.0));
        Self { op_ns: ns as f64 / (ops as f64).max(1.0), byte_ns: makes.map_or(0.0, data_cost) }
    }

    /// Measures the cost of operations of `block` bytes at `depth`, with data of class
    /// `makes`.
    pub fn of_blocks(block: u32, depth: u32, makes: Option<DataClass>) -> Self {
        let settings = SyntheticSettings {
            pattern: Pattern::Uniform,
            mix: Mix::default(),
            sizes: vec![(block, 1)],
            data: DataClass::Zero,
            offset: 0,
            span: NULL_SIZE.0,
            queue_depth: depth,
            limit: Limit::Ops(BLOCK_OPS),
        };
        let mut workload = Synthetic::new(settings, 0).expect("the settings are valid");
        let outcome =
            blocks::run(&mut workload, &mut NullBlocks::new(NULL_SIZE), &mut SilentObserver);
        let took: u64 = outcome.recorded.phases.iter().map(|phase| phase.took.0).sum();
        Self { op_ns: took as f64 / BLOCK_OPS as f64, byte_ns: makes.map_or(0.0, block_data_cost) }
    }

    /// Adds the cost to the run, and a warning if it distorts the result.
    pub fn note(&self, run: &mut Run) {
        run.counters.push(("tool.picoseconds-per-op".to_owned(), (self.op_ns * 1e3) as u64));
        run.counters.push(("tool.picoseconds-per-byte".to_owned(), (self.byte_ns * 1e3) as u64));
        for phase in &run.phases {
            let own = self.op_ns * phase.ops_total() as f64 + self.byte_ns * phase.written.as_f64();
            let share = own / phase.took.as_f64().max(1.0);
            if share > SHARE_MAX && !run.warnings.iter().any(|w| w.code == "tool.overhead") {
                let facts = vec![
                    Field::new("phase", phase.name.clone()),
                    Field::new("share", format!("{:.0} %", share * 100.0)),
                ];
                let text = format!(
                    "{:.0} % of the time of '{}' is the tool's own: {:.0} ns per \
                        operation, {:.2} ns per byte of data",
                    share * 100.0,
                    phase.name,
                    self.op_ns,
                    self.byte_ns
                );
                let warning = Warning::new("tool.overhead", Severity::Caution, text);
                run.warnings.push(warning.with(facts));
            }
        }
    }
}

fn block_data_cost(class: DataClass) -> f64 {
    let generator = ContentGenerator::new(0);
    fill_cost(|round, buffer| content::fill(&generator, class, 0, round, buffer))
}

/// Nanoseconds per byte of `class`.
pub fn data_cost(class: DataClass) -> f64 {
    let mut rng = Stream::new(0, "overhead");
    fill_cost(|_, buffer| {
        buffer.chunks_mut(128 << 10).for_each(|piece| class.fill(&mut rng, piece))
    })
}

/// Nanoseconds per byte: the minimum of three, as disturbances only add time.
fn fill_cost(mut fill: impl FnMut(u64, &mut [u8])) -> f64 {
    let mut buffer = vec![0_u8; DATA_SAMPLE];
    let once = |round| {
        let started = Instant::now();
        fill(round, &mut buffer);
        std::hint::black_box(&mut buffer);
        started.elapsed().as_nanos() as f64 / DATA_SAMPLE as f64
    };
    (0..3).map(once).fold(f64::MAX, f64::min)
}
