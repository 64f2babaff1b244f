use super::*;
use crate::store::shape::any_run::{any_run, example};
use proptest::prelude::*;
use std::fs;

fn scratch() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    (directory, path)
}

fn message(error: StoreError) -> String {
    let mut message = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        message = format!("{message}: {error}");
        cause = error.source();
    }
    message
}

fn json(run: &Run) -> String {
    serde_json::to_string(&crate::store::shape::run::RunV1::from(run)).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn store_round_trips_runs_and_studies(runs in prop::collection::vec(any_run(), 1..4)) {
        let (_directory, path) = scratch();
        let mut store = Store::create_or_open(&path).unwrap();
        let saved = store.save_all(&runs).unwrap();
        for (run, saved) in runs.iter().zip(&saved) {
            prop_assert_eq!(json(&store.load(saved.id).unwrap()), json(run));
        }
        prop_assert_eq!(store.list(&Filter::default()).unwrap().len(), runs.len());
        let all = saved.iter().map(|s| StudyRun { part: "runs".to_owned(), run: s.id }).collect();
        let study = StudyRecord { target: "x".into(), complete: true, runs: all, notes: vec![trimtab_sim::run::Field::new("0", "{}")] };
        let id = store.save_study(&study).unwrap();
        prop_assert_eq!(store.studies(), [(id, study.clone())]);
        let again = Store::open(&path).unwrap();
        prop_assert_eq!(again.studies(), [(id, study)]);
        let ids: Vec<RunId> = saved.iter().map(|s| s.id).collect();
        prop_assert_eq!(store.delete(&ids).unwrap(), runs.len());
        prop_assert!(store.list(&Filter::default()).unwrap().is_empty() && store.studies().is_empty());
        prop_assert!(fs::metadata(&path).unwrap().len() < 100, "deleted runs take no space");
    }
}

/// Regression: after a study, `last` named whichever of its runs was saved last.
#[test]
fn last_names_the_newest_run_or_study() {
    let (_directory, path) = scratch();
    let mut store = Store::create_or_open(&path).unwrap();
    let saved = |store: &mut Store, seed: u64| store.save(&Run { seed, ..example() }).unwrap().id;
    let alone = saved(&mut store, 1);
    let study = |store: &mut Store, seeds: [u64; 2]| {
        let runs = seeds
            .map(|seed| StudyRun { part: "runs".to_owned(), run: saved(store, seed) })
            .to_vec();
        let id = store
            .save_study(&StudyRecord {
                target: "x".into(),
                complete: true,
                runs: runs.clone(),
                notes: Vec::new(),
            })
            .unwrap();
        (id, runs.into_iter().map(|of| of.run).collect::<Vec<_>>())
    };
    let first = study(&mut store, [2, 3]);
    let second = study(&mut store, [4, 5]);
    let later = store.save(&Run { seed: 6, ..example() }).unwrap().id;
    let of = |text: &str| store.find_all(&text.parse().unwrap());
    let all = ["last", "last~1", "last~2", "last~3"].map(|text| of(text).unwrap());
    assert_eq!(all, [vec![later], second.1.clone(), first.1, vec![alone]]);
    assert!(of("last~4").is_err());
    assert_eq!(of("study:last").unwrap(), second.1);
    // A study is not accepted as a single run.
    assert_eq!(store.find(&"last".parse().unwrap()).unwrap(), later);
    let none = message(store.find(&"last~1".parse().unwrap()).unwrap_err());
    assert!(
        none.contains("'last~1' is a study, and this command takes one of its runs (2)")
            && none.contains(&second.0.short()),
        "{none}"
    );
}

#[test]
fn saving_same_run_again_makes_it_last() {
    let (_directory, path) = scratch();
    let mut store = Store::create_or_open(&path).unwrap();
    let (a, b) = (example(), Run { seed: 7, ..example() });
    let first = store.save(&a).unwrap();
    let second = store.save(&b).unwrap();
    assert!(first.new && second.new && first.id != second.id);
    assert_eq!(store.find(&"last".parse().unwrap()).unwrap(), second.id);
    assert_eq!(store.save(&a).unwrap(), SaveOutcome { id: first.id, new: false });
    assert_eq!(store.find(&"last".parse().unwrap()).unwrap(), first.id);
    assert_eq!(store.find(&"last~1".parse().unwrap()).unwrap(), second.id);
    let missing = message(store.find(&"last~2".parse().unwrap()).unwrap_err());
    assert!(missing.contains("has no run 'last~2'"), "{missing}");
}

#[test]
fn run_id_of_example_is_pinned() {
    // If this changes, previously exported runs are reported as altered.
    assert_eq!(RunId::of(&example()).to_string(), "bd7f940661348eb2");
}

#[test]
fn reference_is_an_id_prefix_and_ambiguity_is_reported() {
    let (_directory, path) = scratch();
    let mut store = Store::create_or_open(&path).unwrap();
    let runs: Vec<Run> = (0..40).map(|seed| Run { seed, ..example() }).collect();
    let ids: Vec<String> =
        store.save_all(&runs).unwrap().iter().map(|s| s.id.to_string()).collect();
    let found = store.find(&ids[5][..9].to_uppercase().parse().unwrap()).unwrap();
    assert_eq!(found.to_string(), ids[5]);
    // Among 40 ids, two must share one of the 16 possible first digits.
    let shared = ids.iter().find(|a| ids.iter().filter(|b| b[..1] == a[..1]).count() > 1).unwrap();
    let ambiguous = message(store.find(&shared[..1].parse().unwrap()).unwrap_err());
    assert!(ambiguous.contains("could be any of") && ambiguous.contains(shared), "{ambiguous}");
    for nonsense in [
        "",
        "last~",
        "last~x",
        "lastly",
        "xyz",
        "0123456789abcdef0",
        "*",
        "study:",
        "study:*",
        "'; DROP TABLE runs",
    ] {
        let error = store.find(&nonsense.parse::<Reference>().unwrap()).unwrap_err();
        assert!(error.to_string().contains("has no run"), "{nonsense}: {error}");
    }
}

#[test]
fn list_applies_filters_and_ends_with_the_newest() {
    let (_directory, path) = scratch();
    let mut store = Store::create_or_open(&path).unwrap();
    for (seed, workload, label) in
        [(1, "tree", "/mnt/A"), (2, "postmark", "/mnt/a"), (3, "tree", "drive:x")]
    {
        store
            .save(&Run {
                seed,
                workload: workload.into(),
                target_label: label.into(),
                started_unix_ms: seed,
                ..example()
            })
            .unwrap();
    }
    let labels = |filter| {
        store.list(&filter).unwrap().into_iter().map(|s| s.target_label).collect::<Vec<_>>()
    };
    assert_eq!(
        labels(Filter { workload: Some("tree".into()), ..Filter::default() }),
        ["/mnt/A", "drive:x"]
    );
    assert_eq!(
        labels(Filter { target: Some("MNT/a".into()), ..Filter::default() }),
        ["/mnt/A", "/mnt/a"]
    );
    assert_eq!(labels(Filter { limit: Some(2), ..Filter::default() }), ["/mnt/a", "drive:x"]);
    let summary = store.list(&Filter::default()).unwrap().remove(0);
    assert_eq!((summary.metric.unwrap().samples, summary.warnings), (vec![1.25, 1.5], 1));
}

#[test]
fn store_of_another_version_is_refused_unchanged() {
    for other in [4, 99] {
        let (_directory, path) = scratch();
        Store::create_or_open(&path).unwrap().save(&example()).unwrap();
        let mut before = fs::read(&path).unwrap();
        before[14..17].copy_from_slice(format!("{other:3}").as_bytes());
        fs::write(&path, &before).unwrap();
        let refused = message(Store::create_or_open(&path).unwrap_err());
        assert!(
            refused.contains(&format!("has version {other}, and this trimtab reads version 5")),
            "{refused}"
        );
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}

#[test]
fn store_refuses_other_files() {
    for other in ["a shopping list", "SQLite format 3\0, a shopping list of many lines"] {
        let (_directory, path) = scratch();
        fs::write(&path, other).unwrap();
        assert!(
            message(Store::create_or_open(&path).unwrap_err())
                .contains("is not a store of trimtab")
        );
        assert_eq!(fs::read(&path).unwrap(), other.as_bytes());
    }
    let (_directory, empty) = scratch();
    fs::write(&empty, "").unwrap();
    Store::create_or_open(&empty).unwrap().save(&example()).unwrap();
    assert_eq!(Store::open(&empty).unwrap().list(&Filter::default()).unwrap().len(), 1);
}

/// Once, a store cut off in its first line was no store, with the hint to name another.
#[test]
fn store_cut_off_anywhere_is_damaged() {
    let (_directory, path) = scratch();
    Store::create_or_open(&path).unwrap().save(&example()).unwrap();
    let sound = fs::read(&path).unwrap();
    for len in [1, 13, 14, 20, 34, 35, 36, sound.len() - 1] {
        fs::write(&path, &sound[..len]).unwrap();
        let error = message(Store::open(&path).unwrap_err());
        let cut = format!("is damaged (it is cut off: {len} of at least ");
        assert!(error.contains(&cut) && error.contains("restore it from a copy"), "{error}");
    }
}

/// Once, a store that had lost its end was refused as a whole.
#[test]
fn store_cut_off_shows_runs_before_the_cut_and_takes_no_more() {
    let (_directory, path) = scratch();
    let mut store = Store::create_or_open(&path).unwrap();
    let first = store.save(&example()).unwrap().id;
    let one = fs::read(&path).unwrap().len();
    store.save(&Run { seed: 9, ..example() }).unwrap();
    let both = fs::read(&path).unwrap();
    for len in [one, one + 1, both.len() - 1] {
        fs::write(&path, &both[..len]).unwrap();
        let cut = Store::open(&path).unwrap();
        let ids: Vec<RunId> =
            cut.list(&Filter::default()).unwrap().into_iter().map(|run| run.id).collect();
        assert_eq!(ids, [first]);
        assert_eq!(cut.load(first).unwrap().seed, example().seed);
        let error = message(Store::create_or_open(&path).unwrap_err());
        assert!(error.contains("is cut off"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), &both[..len]);
    }
}

#[test]
fn uncommitted_change_is_ignored_and_overwritten() {
    let (_directory, path) = scratch();
    let mut store = Store::create_or_open(&path).unwrap();
    store.save(&example()).unwrap();
    let sound = fs::read(&path).unwrap();
    for garbage in [&b"\0"[..], &sound[35..], &sound[35..60], &[0xa5; 10_000]] {
        fs::write(&path, [&sound, garbage].concat()).unwrap();
        let mut store = Store::create_or_open(&path).unwrap();
        assert_eq!(store.list(&Filter::default()).unwrap().len(), 1);
        store.save(&Run { seed: 9, ..example() }).unwrap();
        let all = Store::open(&path).unwrap().list(&Filter::default()).unwrap();
        assert_eq!(all.len(), 2);
        all.iter().for_each(|run| drop(store.load(run.id).unwrap()));
    }
}

#[test]
fn open_store_sees_what_another_writes_and_rewrites() {
    let (_directory, path) = scratch();
    let mut one = Store::create_or_open(&path).unwrap();
    let mut other = Store::create_or_open(&path).unwrap();
    let run = |seed| Run { seed, ..example() };
    let ids: Vec<RunId> = (0..4).map(|seed| one.save(&run(seed)).unwrap().id).collect();
    other.set_label(ids[3], Some("kept")).unwrap();
    // The file is replaced, since most of it is of deleted runs.
    one.delete(&ids[..3]).unwrap();
    other.save(&run(5)).unwrap();
    one.save(&run(6)).unwrap();
    let labels: Vec<Option<String>> =
        one.list(&Filter::default()).unwrap().into_iter().map(|run| run.label).collect();
    assert_eq!(labels, [Some("kept".to_owned()), None, None]);
}

#[test]
fn store_open_error_names_the_cause() {
    let (directory, path) = scratch();
    assert!(message(Store::open(&path).unwrap_err()).contains("does not exist"));
    assert!(
        message(Store::create_or_open(directory.path()).unwrap_err()).contains("Is a directory")
    );
    let nowhere =
        message(Store::create_or_open(&directory.path().join("no/such/results.db")).unwrap_err());
    assert!(nowhere.contains("No such file or directory"), "{nowhere}");
}

#[test]
fn damaged_store_is_reported_as_damaged() {
    let (_directory, path) = scratch();
    let mut store = Store::create_or_open(&path).unwrap();
    let runs: Vec<Run> = (0..50).map(|seed| Run { seed, ..example() }).collect();
    store.save_all(&runs).unwrap();
    drop(store);
    let sound = fs::read(&path).unwrap();
    let mut reported = 0;
    for page in 1..sound.len() / 4096 {
        let mut bytes = sound.clone();
        bytes[page * 4096..(page + 1) * 4096].fill(0xa5);
        fs::write(&path, &bytes).unwrap();
        let read = || -> Result<()> {
            let store = Store::open(&path)?;
            for summary in store.list(&Filter::default())? {
                store.load(summary.id)?;
            }
            Ok(())
        };
        match read() {
            Err(error @ StoreError::Damaged { .. }) => {
                reported += 1;
                assert!(message(error).contains("is damaged ("));
            }
            Err(error) => panic!("page {page}: {}", message(error)),
            Ok(()) => {}
        }
    }
    assert!(reported > 5, "{reported}");
    fs::write(&path, &sound).unwrap();
    let mut store = Store::create_or_open(&path).unwrap();
    let id = RunId::of(&example());
    let packed = body::pack(&example());
    for (bytes, why) in
        [(&packed[..40], "incomplete deflate stream"), (&[0x80], "incomplete deflate stream")]
    {
        put_body(&mut store, id, bytes);
        let error = message(store.load(id).unwrap_err());
        assert!(
            error.contains(&format!("is damaged (run {id}: ")) && error.contains(why),
            "{error}"
        );
    }
}

/// Replaces the stored body of a run.
fn put_body(store: &mut Store, id: RunId, body: &[u8]) {
    let entries = format!(
        r#"{{"delete":["{id}"]}}{{"run":{{"id":"{id}","head":{{}},"bytes":{}}}}}"#,
        body.len()
    );
    store.log.append(entries.as_bytes(), body).unwrap();
    store.refresh().unwrap();
}

#[test]
fn default_path_follows_xdg_specification() {
    let place = |pairs: &'static [(&str, &str)]| {
        default_path(|name| pairs.iter().find(|p| p.0 == name).map(|p| p.1.into()))
            .map(|p| p.display().to_string())
            .ok()
    };
    assert_eq!(
        place(&[("XDG_DATA_HOME", "/data"), ("HOME", "/home/u")]).unwrap(),
        "/data/trimtab/results.db"
    );
    assert_eq!(place(&[("HOME", "/home/u")]).unwrap(), "/home/u/.local/share/trimtab/results.db");
    assert_eq!(
        place(&[("XDG_DATA_HOME", "relative"), ("HOME", "/home/u")]).unwrap(),
        "/home/u/.local/share/trimtab/results.db"
    );
    assert_eq!(place(&[]), None);
}

#[test]
fn altered_run_is_refused() {
    let changes: [fn(&mut Run); 4] = [
        |run| run.policy = "another".into(),
        |run| run.workload = "tree ".into(),
        |run| run.target_label = "/mnt/y".into(),
        |run| run.started_unix_ms += 1,
    ];
    for change in changes {
        let (_directory, path) = scratch();
        let mut store = Store::create_or_open(&path).unwrap();
        let id = store.save(&example()).unwrap().id;
        store.load(id).unwrap();
        let mut run = example();
        change(&mut run);
        put_body(&mut store, id, &body::pack(&run));
        let error = message(store.load(id).unwrap_err());
        assert!(error.contains("was altered") && error.contains(&id.to_string()), "{error}");
        assert_eq!(store.delete(&[id]).unwrap(), 1, "it can be removed");
    }
}
