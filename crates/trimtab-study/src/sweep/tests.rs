//! Tests of plans, from text to cells.

use super::table::{CellOutcome, Cells, SweepRow, outcome, table};
use super::*;
use alloc::borrow::ToOwned as _;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use trimtab_drive::shipped::drive;
use trimtab_drive::spec::SpecError;
use trimtab_drive::spec::file::Drive;
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;
use trimtab_sim::runner::{RunEnd, StopReason};
use trimtab_sim::simulate::Trace;
use trimtab_sim::simulate::passes::RequestSource;
use trimtab_sim::simulate::timing::Timing;
use trimtab_sim::trace::TraceEvent;

/// The shipped drives and a dummy trace that is never replayed.
struct Shipped;

#[derive(Clone, Debug)]
struct Any;

#[derive(Debug)]
struct Said(String);

impl core::fmt::Display for Said {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

macro_rules! said {
    ($($error:ty)*) => { $(impl From<$error> for Said {
        fn from(error: $error) -> Self {
            Self(error.to_string())
        }
    })* };
}
said!(UsageError SpecError StopReason);

impl Trace for Any {
    type Error = Said;

    type Requests<'a> = Self;

    fn timing(&self) -> Timing {
        Timing::Recorded
    }

    fn name(&self) -> String {
        "it".into()
    }

    fn open(&self) -> Result<Self, Said> {
        Err(Said("not a trace".into()))
    }
}

impl RequestSource for Any {
    type Error = Said;

    fn next_request(&mut self) -> Option<Result<TraceEvent, Said>> {
        None
    }

    fn place(&self) -> String {
        "nowhere".into()
    }

    fn says_data(&self) -> bool {
        false
    }
}

impl Sources for Shipped {
    type Trace = Any;

    fn drive(&self, name: &str) -> Result<Drive, String> {
        trimtab_drive::shipped::drives()
            .into_iter()
            .find(|drive| drive.spec.name == name)
            .ok_or_else(|| format!("there is no drive called '{name}'"))
    }

    fn trace(&self, path: &str, _: &TraceReplayOptions) -> Result<(Any, String), String> {
        Ok((Any, format!("hash of {path}")))
    }
}

const BASE: &str = "[base]\ndrive.name = \"crucial-m4-128gb\"\ndrive.capacity = \"8GiB\"\n\
    workload.name = \"random\"\n";

fn plan(rest: &str) -> Plan {
    let text = format!("{BASE}{rest}");
    let plan = Plan::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    plan.check(&Shipped).unwrap_or_else(|error| panic!("{error}\n{text}"));
    plan
}

fn shown(plan: &Plan) -> Vec<String> {
    (0..plan.cells())
        .map(|cell| plan.place(cell))
        .map(|p| {
            format!(
                "{} {}",
                p.values.iter().map(Value::to_string).collect::<Vec<_>>().join(" "),
                p.seed
            )
        })
        .collect()
}

#[test]
fn grid_equals_nested_loops() {
    let mut plan = plan(
        "[axes]\n\"drive.over_provisioning_percent\" = \
            { from = 7, to = 28, steps = 4 }\npolicy = [\"none\", \"batched:every=1h\"]\n\
            workload.queue_depth = { from = 1, to = 64, steps = 3, log = true }\n",
    );
    plan.repeats = 2;
    let mut expected = Vec::new();
    for percent in [7, 14, 21, 28] {
        for policy in ["none", "batched:every=1h"] {
            for depth in [1, 8, 64] {
                for seed in [1, 2] {
                    expected.push(format!("{percent} {policy} {depth} {seed}"));
                }
            }
        }
    }
    assert_eq!((shown(&plan), plan.cells()), (expected, 48));
    let keys: Vec<&str> = plan.axes.iter().map(|axis| axis.key.as_str()).collect();
    assert_eq!(keys, ["drive.over_provisioning_percent", "policy.name", "workload.queue_depth"]);
}

#[test]
fn plan_values_reach_the_cell() {
    let plan = plan(
        "drive.flash.nand.program_ns = \"700us\"\nworkload.until_written = \"2x\"\n\
            [axes]\ndrive.flash.ftl.victim = [\"fifo\", { d-choices = 10 }]\n\
            drive.over_provisioning_percent = [12.5]\npolicy = [\"idle:budget=5ms\"]\n\
            workload.trim_percent = [10]\n",
    );
    let cell = plan.cell(&plan.place(1), &Shipped).unwrap();
    let flash = &cell.drive.flash;
    assert_eq!(cell.drive.capacity_bytes, 8 << 30);
    assert_eq!(
        (flash.nand.program_ns, flash.ftl.victim),
        (700_000, trimtab_drive::spec::VictimPolicy::DChoices(10))
    );
    // At least the requested value, and less than a superblock more.
    let layer = flash.geometry.superblock_bytes() as f64 * flash.geometry.dies() as f64
        / f64::from(flash.geometry.superblock_dies);
    let over = cell.over_provisioning_percent();
    assert!((12.5..12.5 + 100.0 * layer / (8_u64 << 30) as f64).contains(&over), "{over}");
    let SweepCellWork::Requests { plan: requests, .. } = &cell.work else { panic!() };
    assert_eq!(requests.trim, Some("idle:budget=5ms".parse().unwrap()));
    let until = requests.until_written.map(|amount| amount.of(Bytes(cell.drive.capacity_bytes)));
    assert_eq!((requests.fill_permille, until), (1000, Some(Bytes(2 * (8 << 30)))));
    assert_eq!(plan.place(1).values[0].to_string(), "d-choices:10");
}

#[test]
fn churn_plan_varies_files_and_filesystem() {
    let plan = Plan::parse(
        "[base]\ndrive = \"sata-tlc-500gb\"\nworkload.name = \"churn\"\n\
            workload.drive_writes = 0.3\n[axes]\n\
            volume.atime = [\"noatime\", \"strictatime\"]\n\
            workload.fill_percent = [50, 80]\npolicy = [\"none\", \"online\"]\n",
    )
    .unwrap();
    plan.check(&Shipped).unwrap();
    let cell = plan.cell(&plan.place(7), &Shipped).unwrap();
    let SweepCellWork::Files { ageing, policy } = &cell.work else { panic!() };
    assert_eq!(
        (ageing.fill, policy.name(), ageing.setup.volume.atime),
        (0.8, "online", trimtab_sim::volume::Atime::Strict)
    );
    let (run, end) = plan.cell(&plan.place(0), &Shipped).unwrap().run(&mut ()).unwrap();
    assert_eq!(end, RunEnd::Complete);
    let CellOutcome::Finished { figures, .. } = outcome(&cell, &run) else { panic!() };
    assert!(figures["waf_steady_ratio"] >= 0.9, "{figures:?}");
}

#[test]
fn errors_give_line_and_key() {
    for (rest, expected) in [
        (
            "[axes]\ndrive.over_provisoning_percent = [7]\n",
            "line 6: drive.over_provisoning_percent: a drive has no setting \
                'over_provisoning_percent'; did you mean 'over_provisioning_percent'?",
        ),
        (
            "[axes]\ndrive.flash.nand.progam_ns = [7]\n",
            "line 6: drive.flash.nand.progam_ns: unknown field 'progam_ns'; did you \
                mean 'program_ns'?",
        ),
        (
            "[axes]\nworkload.queue_dept = [7]\n",
            "line 6: workload.queue_dept: workload random has no setting \
                'queue_dept'; did you mean 'queue_depth'?",
        ),
        (
            "[axes]\npolicy = [\n  \"none\",\n  \"bached\",\n]\n",
            "line 8: policy.name: there is no trim policy 'bached'",
        ),
        (
            "policy = \"batched\"\n[axes]\npolicy.evry = [\"1h\"]\n",
            "line 7: policy.evry: trim policy batched has no setting 'evry'",
        ),
        (
            "[axes]\nworklod.size = [4096]\n",
            "line 6: worklod.size: unknown section 'worklod'; did you mean 'workload'?",
        ),
        (
            "[axes]\nvolume.atime = [\"noatime\"]\n",
            "line 6: volume.atime: workload random has no filesystem",
        ),
        (
            "[axes]\nworkload.hot_space = [0.5]\n",
            "line 6: workload.hot_space: workload random has no setting 'hot_space'",
        ),
        (
            "[axes]\nworkload.fill_percent = { from = nan, to = 80, steps = 3 }\n",
            "line 6: workload.fill_percent: nan is not a usable number",
        ),
        (
            "[axes]\nworkload.fill_percent = [10, inf]\n",
            "line 6: workload.fill_percent: inf is not a usable number",
        ),
        (
            "[axes]\nworkload.fill_percent = [10, 101]\n",
            "line 6: workload.fill_percent: '101' is not a number from 0 to 100",
        ),
        (
            "[axes]\nworkload.fill_percent = []\n",
            "line 6: workload.fill_percent: an axis needs at least one value",
        ),
        (
            "[axes]\nworkload.fill_percent = [10, 10]\n",
            "line 6: workload.fill_percent: 10 is listed twice",
        ),
        (
            "[axes]\nworkload.fill_percent = { from = 10, to = 5, steps = 3 }\n",
            "a range must go from a smaller value",
        ),
        (
            "[axes]\nworkload.fill_percent = { from = 0, to = 5, steps = 3, log = true }\n",
            "a logarithmic range must be above 0",
        ),
        (
            "[axes]\nworkload.fill_percent = { from = 1, to = 5 }\n",
            "line 6: workload.fill_percent: a range needs steps",
        ),
        (
            "[axes]\nworkload.fill_percent = { from = 1, to = 5, stesp = 2 }\n",
            "line 6: workload.fill_percent.stesp: unknown key; did you mean 'steps'?",
        ),
        (
            "[axes]\nworkload.fill_percent = { from = 1, to = 5, steps = 1 }\n",
            "line 6: workload.fill_percent.steps: 1 is not a whole number from 2",
        ),
        (
            "[axes]\nworkload.queue_depth = { from = 1, to = 4, steps = 9 }\n",
            "its 9 steps give only 4 whole numbers",
        ),
        (
            "[axes]\nworkload.queue_depth = { from = 1.5, to = 4, steps = 2 }\n",
            "needs whole numbers",
        ),
        ("[axes]\ndrive.capacity = [\"8GiB\"]\n", "line 6: drive.capacity: set twice"),
        (
            "[axes]\nworkload = [\"random\"]\n[bsae]\n",
            "line 7: bsae: unknown key; did you mean 'base'?",
        ),
        ("", "axes: a plan without axes is a single run"),
        ("[axes\n", "line 5: "),
        ("policy = \"idle\"\npolicy.budget = \"1ms\"\n", "write drive.name = "),
        (
            "[axes]\ndrive.flash.nand.read_ns = \
                { from = 1, to = 1000000, steps = 1000000 }\n\
                workload.queue_depth = { from = 1, to = 1000, steps = 1000 }\n",
            "the plan has 1,000,000,000 cells; the limit is 10,000,000",
        ),
    ] {
        let text = format!(
            "{}{rest}",
            BASE.replace(
                "workload.name = \"random\"\n",
                if rest.contains("workload = ") {
                    "# no workload\n"
                } else {
                    "workload.name = \"random\"\n"
                }
            )
        );
        let error =
            Plan::parse(&text).and_then(|plan| plan.check(&Shipped)).expect_err(rest).to_string();
        assert!(error.contains(expected) && !error.contains('\n'), "{rest}: {error}");
    }
    let empty = Plan::parse("").unwrap_err().to_string();
    assert!(empty.contains("axes"), "{empty}");
    let no_drive = Plan::parse("[axes]\nworkload.queue_depth = [1]\n")
        .unwrap()
        .check(&Shipped)
        .unwrap_err()
        .to_string();
    assert!(no_drive.contains("a plan needs a drive"), "{no_drive}");
}

#[test]
fn identity_covers_exactly_the_inputs_of_the_result() {
    let identity = |text: &str| {
        let plan = Plan::parse(text).unwrap();
        plan.cell(&plan.place(0), &Shipped)
            .unwrap_or_else(|wrong| panic!("{text}: {wrong:?}"))
            .identity()
    };
    let of = |more: &str| identity(&format!("{BASE}{more}\n[axes]\nworkload.queue_depth = [4]\n"));
    let mut seen = BTreeSet::new();
    for more in [
        "",
        "drive.over_provisioning_percent = 20",
        "drive.flash.nand.erase_ns = 1",
        "workload.read_percent = 1",
        "workload.data = \"zero\"",
        "workload.drive_writes = 4",
        "workload.fill_percent = 50",
        "policy = \"none\"",
        "policy = \"idle\"",
        "policy = \"idle:budget=1ms\"",
    ] {
        assert!(seen.insert(of(more)), "{more}");
    }
    assert_eq!(of(""), of("workload.size = \"4KiB\""));
    assert_eq!(
        of(""),
        identity(&format!("name = \"other\"\n{BASE}[axes]\nworkload.queue_depth = [4, 8]\n"))
    );
    assert_ne!(of(""), identity(&format!("seed = 2\n{BASE}[axes]\nworkload.queue_depth = [4]\n")));
    assert!(
        of("").starts_with(MODEL) && MODEL.starts_with(concat!(env!("CARGO_PKG_VERSION"), "-"))
    );
    // Traces are identified by content.
    let trace = |path: &str| {
        identity(&format!(
            "[base]\ndrive = \"nvme-tlc-500gb\"\n[axes]\nworkload = [\"trace:{path}\"]\n"
        ))
    };
    assert!(trace("a").contains("hash of a") && trace("a") != trace("b"));
}

#[test]
fn identity_ignores_drive_name() {
    struct Renamed;
    impl Sources for Renamed {
        type Trace = Any;
        fn drive(&self, _: &str) -> Result<Drive, String> {
            let mut drive = drive("crucial-m4-128gb");
            (drive.spec.name, drive.spec.description) = ("other".into(), "another".into());
            Ok(drive)
        }
        fn trace(&self, _: &str, _: &TraceReplayOptions) -> Result<(Any, String), String> {
            Err("none".into())
        }
    }
    let plan = plan("[axes]\nworkload.queue_depth = [4]\n");
    assert_eq!(
        plan.cell(&plan.place(0), &Renamed).unwrap().identity(),
        plan.cell(&plan.place(0), &Shipped).unwrap().identity()
    );
}

#[test]
fn joint_failure_is_a_failed_cell_not_a_plan_error() {
    let plan = plan("[axes]\ndrive.flash.geometry.superblock_dies = [16, 3]\n");
    let wrong = plan.cell(&plan.place(1), &Shipped).unwrap_err();
    assert!(wrong.key.is_none() && wrong.text.contains("superblock_dies"), "{wrong:?}");
}

#[test]
fn rows_become_columns_with_units() {
    let plan = plan(
        "workload.drive_writes = 0.2\nworkload.fill_percent = 20\n[axes]\n\
            drive.over_provisioning_percent = [7, 12.5]\npolicy = [\"none\"]\n",
    );
    let cell = plan.cell(&plan.place(0), &Shipped).unwrap();
    let (run, _) = cell.run(&mut ()).unwrap();
    let rows = [
        SweepRow { cell: 0, id: "a".into(), outcome: outcome(&cell, &run) },
        SweepRow {
            cell: 1,
            id: "b".into(),
            outcome: CellOutcome::Failed("it is too small".into()),
        },
    ];
    let columns = table(&plan, &rows);
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(
        names[..9],
        [
            "cell",
            "point",
            "repeat",
            "seed",
            "cell_id",
            "outcome",
            "reason",
            "axis_drive_over_provisioning_percent",
            "axis_policy_name"
        ]
    );
    let of = |name: &str| {
        &columns
            [names.iter().position(|n| *n == name).unwrap_or_else(|| panic!("{name}: {names:?}"))]
        .values
    };
    assert_eq!(
        *of("axis_drive_over_provisioning_percent"),
        Cells::Numbers(alloc::vec![Some(7.0), Some(12.5)])
    );
    let written = run.metrics.iter().find(|metric| metric.name == "written").unwrap().samples[0];
    assert_eq!(*of("written_bytes"), Cells::Numbers(alloc::vec![Some(written), None]));
    assert_eq!(*of("reason"), Cells::Texts(alloc::vec![None, Some("it is too small".to_owned())]));
    for column in [
        "waf_ratio",
        "write_latency_p99_ns",
        "simulated_s",
        "flash_utilisation_last_quarter_ratio",
        "drive_over_provisioning_percent",
    ] {
        assert!(matches!(of(column), Cells::Numbers(values) if values[0].is_some()), "{column}");
    }
    assert!(
        matches!(of("counter_host_written_bytes"), Cells::Counters(values) if values[0].is_some())
    );
    assert_eq!(
        names.iter().collect::<BTreeSet<_>>().len(),
        names.len(),
        "each name once: {names:?}"
    );
}

#[test]
fn cell_with_small_drive_fails_after_name_errors() {
    let cell = |base: &str| {
        let plan = Plan::parse(&format!("[base]\n{base}\n[axes]\nworkload.queue_depth = [1, 2]\n"))
            .unwrap();
        plan.cell(&plan.place(0), &Shipped)
    };
    let few = |base: &str| cell(base).unwrap().few.map(|warning| warning.code);
    let said = Some("drive.few-superblocks".to_owned());
    assert_eq!(few("drive.name = \"crucial-m4-128gb\"\ndrive.capacity = \"4GiB\""), said);
    assert_eq!(few("drive.name = \"crucial-m4-128gb\"\ndrive.capacity = \"40GiB\""), None);
    assert_eq!(few("drive.name = \"crucial-m4-128gb\""), None);
    assert_eq!(
        few("drive.name = \"sata-tlc-500gb\"\ndrive.capacity = \"2GiB\"\n\
                drive.flash.geometry.pages_per_block = 32"),
        said
    );
    let short = |base: &str| {
        Plan::parse(&format!(
            "[base]\n{base}\nworkload.drive_writes = 0.01\n[axes]\nworkload.queue_depth = [1, 2]\n"
        ))
        .unwrap()
    };
    let plan = short("drive.name = \"crucial-m4-128gb\"\ndrive.capacity = \"4GiB\"");
    let cell_run = plan.cell(&plan.place(0), &Shipped).unwrap();
    let (run, _) = cell_run.run(&mut ()).unwrap();
    assert!(
        super::table::warnings(&run).contains(&"drive.few-superblocks".to_owned()),
        "{:?}",
        run.warnings
    );
    let wrong =
        cell("drive.name = \"sata-tlc-500gb\"\ndrive.capacity = \"1GiB\"\npolicy = \"foo\"")
            .unwrap_err();
    assert_eq!(wrong.key.as_deref(), Some("policy.name"), "{}", wrong.text);
}

/// Over-provisioning against write amplification under uniform writes. Oracle: the limit
/// of large blocks at utilisation u, A = 1 / (1 - exp(-1 / (u A))). Greedy collection
/// with 2048 units per superblock is within 0.3 % of it.
#[test]
fn sweep_over_over_provisioning_agrees_with_theory() {
    let text = BASE.replace("8GiB", "1GiB");
    let plan = Plan::parse(&format!(
        "{text}drive.flash.geometry.pages_per_block = 32\nworkload.drive_writes = 4\n\
            [axes]\ndrive.over_provisioning_percent = [10, 28]\n"
    ))
    .unwrap();
    for cell in 0..2 {
        let cell = plan.cell(&plan.place(cell), &Shipped).unwrap();
        let (run, _) = cell.run(&mut ()).unwrap();
        let CellOutcome::Finished { figures, .. } = outcome(&cell, &run) else { panic!() };
        let (u, waf) =
            (figures["flash_utilisation_last_quarter_ratio"], figures["waf_last_quarter_ratio"]);
        let theory = (0..2000).fold(2.0, |a, _| -1.0 / libm::expm1(-1.0 / (u * a)));
        assert!((waf / theory - 1.0).abs() < 0.01, "{waf} at u = {u}, theory {theory}");
    }
}
