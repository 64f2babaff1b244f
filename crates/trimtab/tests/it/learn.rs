//! `trimtab drive learn`, as a user would.

use crate::support::trimtab;
use predicates::prelude::*;
use std::fs;
use std::path::Path;

/// Small, and dear to trim by the command.
const DRIVE: &str = "name = \"odd\"\ndescription = \"odd\"\ncapacity_bytes = 4_294_967_296\n[interface]\nrate_bytes_per_s = 300_000_000\n\
    [flash.geometry]\nchannels = 4\ndies_per_channel = 1\nsuperblock_dies = 4\npages_per_block = 128\nblocks_per_plane = 320\n\
    [flash.trim]\ncommand_ns = 7_000_000\n";

fn learn(directory: &Path, args: &[&str]) -> assert_cmd::assert::Assert {
    fs::write(directory.join("odd.toml"), DRIVE).unwrap();
    let budget = ["drive", "learn", "drive:./odd.toml", "--write-limit", "24MiB"];
    trimtab().current_dir(directory).args(budget).args(args).assert()
}

#[test]
fn a_twin_is_a_drive_like_any_other_and_says_how_it_is_known() {
    let directory = tempfile::tempdir().unwrap();
    let out = learn(directory.path(), &["--output", "twin.toml", "--json"]).success().get_output().stdout.clone();
    let document: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!((document["schema"].as_str(), document["members"].as_u64()), (Some("trimtab.twin"), Some(64)));
    let parameters = document["parameters"].as_array().unwrap();
    let command = parameters.iter().find(|one| one["field"] == "flash.trim.command_ns").unwrap();
    let [low, high] = ["low", "high"].map(|key| command[key].as_f64().unwrap());
    assert!(low <= 7.07e6 && high >= 6.93e6 && high / low < 1.2 && command["known"] == "measured", "{command}");
    let text = fs::read_to_string(directory.path().join("twin.toml")).unwrap();
    let drive = trimtab_core::drive::spec::file::parse(&text).unwrap();
    let twin = drive.twin.as_ref().unwrap();
    assert_eq!((twin.members.len(), twin.parameters.len()), (64, parameters.len()));
    assert!(twin.members.iter().all(|member| member.capacity_bytes == 4_294_967_296 && *member != drive.spec));
    let show = ["drive", "show", "./twin.toml"];
    trimtab().current_dir(directory.path()).args(show).assert().success().stdout(predicate::str::contains("64 drives explain"));
    let work = ["drive", "simulate", "--drive", "./twin.toml", "--until-written", "64MiB", "--store", "runs.db"];
    trimtab().current_dir(directory.path()).args(work).assert().success();
    // Nothing is written over, and the same seed gives the same drives.
    learn(directory.path(), &["--output", "twin.toml"]).failure();
    learn(directory.path(), &["--output", "again.toml"]).success();
    assert_eq!(fs::read_to_string(directory.path().join("again.toml")).unwrap(), text);
}

/// Predictions hold of the drive that the twin is one of, and would not of any other.
#[test]
fn predictions_are_kept_before_they_are_compared_and_can_fail() {
    let directory = tempfile::tempdir().unwrap();
    learn(directory.path(), &["--output", "twin.toml"]).success();
    let other = DRIVE.replace("rate_bytes_per_s = 300_000_000", "rate_bytes_per_s = 90_000_000").replace("= 7_000_000", "= 70_000");
    fs::write(directory.path().join("other.toml"), other.replace("\"odd\"", "\"other\"")).unwrap();
    let check = |target: &str| -> serde_json::Value {
        let args = ["drive", "check", "./twin.toml", target, "--members", "6", "--json"];
        let out = trimtab().current_dir(directory.path()).args(args).assert().success().get_output().stdout.clone();
        serde_json::from_slice(&out).unwrap()
    };
    let (own, foreign) = (check("drive:./odd.toml"), check("drive:./other.toml"));
    let figures = own["figures"].as_array().unwrap();
    assert_eq!((own["schema"].as_str(), figures.len()), (Some("trimtab.twin-check"), 20));
    let near = |document: &serde_json::Value| {
        document["figures"].as_array().unwrap().iter().filter(|one| one["off"].as_f64().unwrap().abs() < 0.15).count()
    };
    assert!(near(&own) >= 12 && near(&foreign) <= 8, "{} and {}: {own:#} {foreign:#}", near(&own), near(&foreign));
    assert_eq!(own["notes"].as_array().unwrap().len(), 0);
    assert!(foreign["notes"][0].as_str().unwrap().contains("learned from drive:odd"), "{}", foreign["notes"]);
    // What is kept is what is compared, and the same for both: it does not know what is measured.
    let kept = |name: &str| -> serde_json::Value { serde_json::from_slice(&fs::read(directory.path().join(name)).unwrap()).unwrap() };
    let first = kept("twin-of-odd-predictions.json");
    assert_eq!((&first["hash"], &first["hash"]), (&own["predictions"]["hash"], &foreign["predictions"]["hash"]));
    for (one, figure) in first["content"]["predictions"].as_array().unwrap().iter().zip(figures) {
        assert_eq!((&one["workload"], &one["predicted"], &one["low"]), (&figure["workload"], &figure["predicted"], &figure["low"]));
    }
    let args = ["drive", "check", "drive:x", "drive:./odd.toml"];
    trimtab().current_dir(directory.path()).args(args).assert().failure();
    let args = ["drive", "check", "./odd.toml", "drive:./odd.toml"];
    let no_twin = predicate::str::contains("./odd.toml is no twin: it has no ensemble");
    trimtab().current_dir(directory.path()).args(args).assert().failure().stderr(no_twin);
}

#[test]
fn what_cannot_be_learned_is_refused_in_one_line() {
    let directory = tempfile::tempdir().unwrap();
    for (args, said) in [
        (&["drive:laptop-7200rpm"][..], "is a disk"),
        (&["."], "real drives cannot be learned yet"),
        (&["drive:nowhere"], "no drive called"),
        (&["drive:sata-tlc-500gb", "--write-limit", "1MiB"], "24MiB is the least"),
        (&["drive:sata-tlc-500gb", "--output", "no/such/place.toml"], "cannot write no/such/place.toml"),
    ] {
        let all = [&["drive", "learn"][..], args].concat();
        let out = trimtab().current_dir(directory.path()).args(&all).assert().failure().get_output().stderr.clone();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains(said) && text.lines().count() <= 2, "{args:?}: {text}");
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_twin_with_a_member_that_cannot_be_is_refused_by_its_number() {
    let text = format!(
        "{DRIVE}[twin.origin]\nmodel = \"x\"\nlearned = \"2026-01-01\"\nbudget = \"small\"\nseed = 1\nwritten_bytes = 1\nmisfit_permille = 1\n\
         [twin.members]\nfields = [\"flash.geometry.channels\", \"flash.nand.suspend_ns\"]\nvalues = [[4, \"none\"], [0, 5]]\n"
    );
    let problem = trimtab_core::drive::spec::file::parse(&text).unwrap_err();
    assert!(problem.starts_with("twin.members.values, list 2: flash.geometry.channels is 0"), "{problem}");
    let good = text.replace("[0, 5]", "[8, 5]");
    let twin = trimtab_core::drive::spec::file::parse(&good).unwrap().twin.unwrap();
    let flash = twin.members[1].flash().unwrap();
    assert_eq!((flash.geometry.channels, flash.nand.suspend_ns, twin.members[0].flash().unwrap().nand.suspend_ns), (8, Some(5), None));
    let short = text.replace("[0, 5]", "[2]");
    assert!(trimtab_core::drive::spec::file::parse(&short).unwrap_err().contains("1 values for 2 fields"));
}
