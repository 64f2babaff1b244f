use super::super::SETTING_MAX;
use super::*;
use alloc::collections::BTreeMap;
use alloc::string::ToString;
use alloc::vec::Vec;
use proptest::prelude::*;
use trimtab_drive::units::Bytes;

/// Counts of the original, and of an exact simulation of it.
const COUNTS: &str = include_str!("../../../../tests/data/postmark/counts.csv");

type Row = BTreeMap<&'static str, &'static str>;

fn rows() -> Vec<Row> {
    let mut lines = COUNTS.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    lines.map(|line| header.iter().copied().zip(line.split(',')).collect()).collect()
}

fn settings(row: &Row) -> PostmarkSettings {
    let number = |key| row[key].parse::<u32>().unwrap();
    let bias = |key| u8::try_from(row[key].parse::<i8>().unwrap()).ok();
    PostmarkSettings {
        size_low: number("size_low"),
        size_high: number("size_high"),
        number: number("number"),
        transactions: number("transactions"),
        seed: number("seed"),
        weights: row["location_weights"]
            .split(':')
            .filter(|w| !w.is_empty())
            .map(|w| w.parse().unwrap())
            .collect(),
        subdirectories: number("subdirectories"),
        read_block: number("read_block"),
        write_block: number("write_block"),
        buffering: row["buffering"] == "true",
        bias_read: bias("bias_read"),
        bias_create: bias("bias_create"),
        interval: None,
    }
}

fn finished(mut run: Postmark) -> Postmark {
    while run.next_step().is_some() {}
    run
}

#[test]
fn counts_and_bytes_match_the_original() {
    let rows = rows();
    assert_eq!(rows.len(), 32);
    for row in rows {
        let counts = finished(Postmark::new(&settings(&row)).unwrap()).counts();
        let out = row["status"] == "out_of_files";
        assert_eq!(counts.out_of_files, out, "{}", row["name"]);
        let mut got = Vec::from([
            ("sim_exact_bytes_read", counts.bytes_read.0.to_string()),
            ("sim_exact_bytes_written", counts.bytes_written.0.to_string()),
            ("sim_rng_draws", counts.draws.to_string()),
            ("sim_transactions_done", counts.transactions.to_string()),
        ]);
        if !out {
            got.extend([
                ("created", counts.created.to_string()),
                ("created_mixed", counts.created_mixed().to_string()),
                ("read", counts.read.to_string()),
                ("appended", counts.appended.to_string()),
                ("deleted", counts.deleted.to_string()),
                ("deleted_alone", counts.deleted_alone().to_string()),
                ("deleted_mixed", counts.deleted_mixed.to_string()),
                ("f32_bytes_read", (counts.bytes_read_single as u64).to_string()),
                ("f32_bytes_written", (counts.bytes_written_single as u64).to_string()),
            ]);
        }
        for (key, value) in got {
            assert_eq!(value, row[key], "{key} of {}", row["name"]);
        }
    }
}

#[test]
fn sizes_beyond_pool_limit_match_the_original() {
    // Its pool of 2 x 2,000,000,000 overflows and draws nothing; it reported 757.96 MB
    // written.
    let settings = PostmarkSettings {
        size_low: 1,
        size_high: 2_000_000_000,
        number: 2,
        bias_read: None,
        bias_create: None,
        ..PostmarkSettings::default()
    };
    let rng = Mt19937::new(settings.seed);
    let mut decisions = Decisions::new(&settings, rng).unwrap();
    while decisions.next().is_some() {}
    assert_eq!(
        alloc::format!("{:.2}", f64::from(decisions.counts.bytes_written_single) / 1_048_576.0),
        "757.96"
    );
}

/// Operations as text, with lengths instead of data.
fn script(run: &mut Postmark) -> Vec<String> {
    let mut script = Vec::new();
    while let Some(step) = run.next_step() {
        script.push(match step {
            FileStep::Phase(name) => alloc::format!("# {name}"),
            FileStep::NotBefore(due) => alloc::format!("at {}", due.0),
            FileStep::Op(FileOp::MakeDir(path)) => alloc::format!("mkdir {path}"),
            FileStep::Op(FileOp::RemoveDir(path)) => alloc::format!("rmdir {path}"),
            FileStep::Op(FileOp::Create(path, data)) => {
                alloc::format!("create {path} {}", data.len())
            }
            FileStep::Op(FileOp::Append(path, data)) => {
                alloc::format!("append {path} {}", data.len())
            }
            FileStep::Op(FileOp::Read(path, len)) => alloc::format!("read {path} {len}"),
            FileStep::Op(FileOp::Delete(path)) => alloc::format!("delete {path}"),
            FileStep::Op(FileOp::Sync) => String::from("sync"),
        });
    }
    script
}

#[test]
fn directories_are_created_first_and_removed_last() {
    let settings = PostmarkSettings {
        number: 1,
        transactions: 1,
        weights: Vec::from([3, 1]),
        subdirectories: 2,
        ..PostmarkSettings::default()
    };
    let script_made = script(&mut Postmark::new(&settings).unwrap());
    let dirs = |script: &[String]| -> Vec<String> {
        script.iter().filter(|line| line.contains("dir")).cloned().collect()
    };
    assert_eq!(
        dirs(&script_made).join(", "),
        "# make-directories, mkdir l0, mkdir l1, mkdir l0/s0, mkdir l0/s1, mkdir \
            l1/s0, mkdir l1/s1, # remove-directories, rmdir l0/s0, rmdir l0/s1, rmdir \
            l1/s0, rmdir l1/s1, rmdir l0, rmdir l1"
    );
    let script_given = script(&mut Postmark::new(&settings).unwrap().in_existing_locations());
    assert_eq!(
        dirs(&script_given).join(", "),
        "# make-directories, mkdir l0/s0, mkdir l0/s1, mkdir l1/s0, mkdir l1/s1, \
         # remove-directories, rmdir l0/s0, rmdir l0/s1, rmdir l1/s0, rmdir l1/s1"
    );
}

#[test]
fn interval_changes_due_times_only() {
    let settings = PostmarkSettings { number: 5, transactions: 3, ..PostmarkSettings::default() };
    let paced = PostmarkSettings { interval: Some(Nanos(250)), ..settings.clone() };
    let plain = script(&mut Postmark::new(&settings).unwrap());
    let (due, rest): (Vec<String>, Vec<String>) = script(&mut Postmark::new(&paced).unwrap())
        .into_iter()
        .partition(|line| line.starts_with("at "));
    assert_eq!(due, ["at 0", "at 250", "at 500"]);
    assert_eq!(rest, plain);
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    let message =
        |settings: PostmarkSettings| Postmark::new(&settings).map(|_| ()).unwrap_err().to_string();
    let default = PostmarkSettings::default;
    assert!(
        message(PostmarkSettings { number: 1 << 30, ..default() }).contains("the number of files")
    );
    assert!(
        message(PostmarkSettings { transactions: 0, ..default() })
            .contains("the number of transactions")
    );
    assert!(
        message(PostmarkSettings { size_low: 2, size_high: 1, ..default() })
            .contains("above the high one")
    );
    assert!(
        message(PostmarkSettings { bias_read: Some(11), ..default() })
            .contains("a bias must be 0 to 10")
    );
    assert!(
        message(PostmarkSettings { weights: Vec::from([SETTING_MAX, 1]), ..default() })
            .contains("the sum of the locations' weights")
    );
}

fn any_settings() -> impl Strategy<Value = PostmarkSettings> {
    let bias = || prop_oneof![Just(None), (0_u8..=10).prop_map(Some)];
    let weights = prop_oneof![Just(Vec::new()), prop::collection::vec(1_u32..5, 1..4)];
    ((1_u32..50, 0_u32..50), 1_u32..40, 1_u32..200, 1_u32..1000, weights, 0_u32..4, bias(), bias())
        .prop_map(
            |(
                (size_low, more),
                number,
                transactions,
                seed,
                weights,
                subdirectories,
                bias_read,
                bias_create,
            )| PostmarkSettings {
                size_low,
                size_high: size_low + more,
                number,
                transactions,
                seed,
                weights,
                subdirectories,
                bias_read,
                bias_create,
                ..PostmarkSettings::default()
            },
        )
}

proptest! {
    #[test]
    fn every_run_is_valid_and_matches_its_plan(settings in any_settings()) {
        let mut run = Postmark::new(&settings).unwrap();
        let plan = run.plan();
        let mut files: BTreeMap<String, u64> = BTreeMap::new();
        let mut dirs: Vec<String> = Vec::new();
        let (mut ops, mut written, mut held_max, mut dir_bytes) = (0, 0, 0, 0);
        while let Some(step) = run.next_step() {
            let FileStep::Op(op) = step else { continue };
            ops += 1;
            let parent_exists = |path: &str, dirs: &[String]| path.rsplit_once('/').is_none_or(|(dir, _)| dirs.iter().any(|d| d == dir));
            match op {
                FileOp::MakeDir(path) => {
                    prop_assert!(parent_exists(path, &dirs));
                    dirs.push(path.to_string());
                    dir_bytes += DIR_BYTES;
                }
                FileOp::RemoveDir(path) => {
                    let at = dirs.iter().position(|dir| dir == path).unwrap();
                    dirs.remove(at);
                }
                FileOp::Create(path, data) => {
                    prop_assert!(parent_exists(path, &dirs));
                    prop_assert!(files.insert(path.to_string(), data.len()).is_none());
                    written += data.len();
                }
                FileOp::Append(path, data) => {
                    let size = files.get_mut(path).unwrap();
                    *size += data.len();
                    prop_assert!(*size <= settings.size_high.into());
                    written += data.len();
                }
                FileOp::Read(path, len) => prop_assert_eq!(files.get(path), Some(&len)),
                FileOp::Delete(path) => prop_assert!(files.remove(path).is_some()),
                FileOp::Sync => prop_assert!(false),
            }
            held_max = held_max.max(files.values().sum::<u64>());
        }
        prop_assert!(files.is_empty() && dirs.is_empty());
        prop_assert_eq!(plan, WorkloadPlan { written: Bytes(written + dir_bytes), space: Bytes(held_max + dir_bytes), ops: Some(ops) });
        let counts = run.counts();
        prop_assert_eq!(counts.created, counts.deleted);
        prop_assert_eq!(counts.bytes_written.0, written);
    }

    /// At any point of a run, all existing paths are among its leftovers.
    #[test]
    fn postmark_leftovers_include_all_existing_paths(settings in any_settings(), steps in 0_usize..400) {
        let mut run = Postmark::new(&settings).unwrap();
        let mut exists: Vec<String> = Vec::new();
        for _ in 0..steps {
            match run.next_step() {
                Some(FileStep::Op(FileOp::Create(path, _) | FileOp::MakeDir(path))) => exists.push(path.to_string()),
                Some(FileStep::Op(FileOp::Delete(path) | FileOp::RemoveDir(path))) => exists.retain(|p| p != path),
                Some(_) => {}
                None => break,
            }
        }
        let mut left = Vec::new();
        run.for_each_leftover(|leftover| left.push(match leftover {
            Leftover::File(path) | Leftover::Dir(path) => path.to_string(),
        }));
        prop_assert!(exists.iter().all(|path| left.contains(path)));
    }
}
