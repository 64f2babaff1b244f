//! The doctor's findings about filesystems that fstrim.timer trims, on recorded trees
//! (`tests/fixtures/timers`).
//!
//! `# base` prepends the file `base`: a drive with three partitions, and the units of
//! util-linux. `# trims PATH: yes|no|maybe` states the correct answer.

use crate::support::{LoopMount, have_tool, run, trimtab};
use crate::sysroot::unpack;
use serde_json::Value;
use std::fs;
use std::path::Path;
use trimtab_linux::doctor::{Diagnosis, Doctor};
use trimtab_linux::host::root::Root;

fn answer(diagnosis: &Diagnosis) -> &'static str {
    let is_doubted = diagnosis.mechanisms.iter().any(|finding| finding.code == "fstrim.may-be");
    match diagnosis.trimmed_by.iter().any(|by| !by.starts_with("online")) {
        true => "yes",
        false if is_doubted => "maybe",
        false => "no",
    }
}

#[test]
fn doctor_timer_matches_recorded_cases() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/timers");
    let base = fs::read_to_string(directory.join("base")).unwrap();
    let (mut wrong, mut cases) = (Vec::new(), 0);
    for entry in fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "txt") {
            continue;
        }
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&path).unwrap();
        let whole =
            if text.starts_with("# base\n") { format!("{base}{text}") } else { text.clone() };
        let tree = unpack(&whole);
        let root = Root::recorded(tree.path()).unwrap();
        let doctor = Doctor::new(&root).unwrap();
        let expected: Vec<(&str, &str)> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# trims ")?.split_once(": "))
            .collect();
        assert!(!expected.is_empty(), "{name}");
        for (mount_point, right) in expected {
            let diagnosis = doctor.examine_path(Path::new(mount_point)).unwrap();
            let said = answer(&diagnosis);
            if said != right {
                wrong.push(format!(
                    "{name}: {mount_point} is {right}, not {said}: {:?}",
                    diagnosis.mechanisms
                ));
            }
            // The doctor explains every "no".
            let silent =
                said == "no" && diagnosis.trimmed_by.is_empty() && diagnosis.mechanisms.is_empty();
            assert!(!silent, "{name}: {mount_point}");
            cases += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(cases > 70, "{cases}");
}

/// `fstrim` on this machine, and the doctor on a recorded tree of this machine whose
/// timer runs the same command.
#[test]
fn doctor_timer_visits_match_fstrim_of_this_machine() {
    if !have_tool("fstrim") {
        return crate::support::skip::skip("fstrim");
    }
    let mounts: Option<Vec<LoopMount>> = ["", "", "", "ro", "X-fstrim.notrim"]
        .iter()
        .map(|options| LoopMount::new("ext4", 16, options))
        .collect();
    let Some(mounts) = mounts else {
        return crate::support::skip::skip("root, loop devices and mkfs.ext4");
    };
    let point = |at: usize| mounts[at].path().display().to_string();
    let device = |at: usize| mounts[at].device();
    let scratch = tempfile::tempdir().unwrap();
    for (name, table) in [
        ("one", format!("{} {} ext4 defaults 0 2\n", device(0), point(0))),
        (
            "options",
            format!(
                "{} {} ext4 ro 0 2\n{} {} ext4 X-fstrim.notrim\n{} {} ext4\n",
                device(0),
                point(0),
                device(1),
                point(1),
                device(2),
                point(2)
            ),
        ),
        (
            "read-only",
            format!(
                "{} {} ext4 defaults 0 2\n{} {} ext4\n",
                device(3),
                point(3),
                device(4),
                point(4)
            ),
        ),
        (
            "twice",
            format!(
                "{0} {1} ext4 defaults\n{0} {1} ext4 ro\n{2} {3} xfs defaults\n",
                device(0),
                point(0),
                device(1),
                point(1)
            ),
        ),
        (
            "unlisted",
            format!(
                "# {} {} ext4\n{} /nowhere ext4\n{} none swap sw\n",
                device(0),
                point(0),
                device(1),
                device(2)
            ),
        ),
        (
            "read-only-source-first",
            format!("{0} {1} ext4\n{0} {2} ext4\n", device(3), point(3), point(0)),
        ),
        (
            "bad-number",
            format!(
                "{} {} ext4 defaults 0 x\n{} {} ext4\n",
                device(0),
                point(0),
                device(1),
                point(1)
            ),
        ),
        (
            "pseudo",
            format!(
                "{} {} none bind\n{} {} nfs\n{} {} auto\n",
                device(0),
                point(0),
                device(1),
                point(1),
                device(2),
                point(2)
            ),
        ),
    ] {
        let file = scratch.path().join(name);
        fs::write(&file, &table).unwrap();
        let Some(output) =
            run("fstrim", &["--dry-run", "--verbose", "--listed-in", file.to_str().unwrap()])
        else {
            return crate::support::skip::unavailable("a fstrim with --listed-in and --dry-run");
        };
        let tree = scratch.path().join(format!("{name}-tree"));
        let _ = trimtab().args(["doctor", "--record", tree.to_str().unwrap()]).assert();
        for (path, text) in [
            ("etc/systemd/system/fstrim.timer", "[Timer]\nOnCalendar=weekly\n"),
            (
                "etc/systemd/system/fstrim.service",
                "[Service]\nExecStart=/sbin/fstrim --listed-in /etc/trimmed\n",
            ),
            ("etc/systemd/system/timers.target.wants/fstrim.timer", "by a link everywhere else"),
            ("etc/trimmed", &table),
        ] {
            let path = tree.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let _ = fs::remove_file(&path);
            match path.to_str().unwrap().contains(".wants/") {
                true => std::os::unix::fs::symlink("../fstrim.timer", path).unwrap(),
                false => fs::write(path, text).unwrap(),
            }
        }
        fs::create_dir_all(tree.join("run/systemd/system")).unwrap();
        for at in 0..mounts.len() {
            let run = trimtab()
                .args(["doctor", "--json", "--sysroot", tree.to_str().unwrap(), &point(at)])
                .assert();
            let document: Value = serde_json::from_slice(&run.get_output().stdout).unwrap();
            let by = document["diagnoses"][0]["trimmed_by"].to_string();
            let visited = output.lines().any(|line| line.starts_with(&format!("{}: ", point(at))));
            assert_eq!(
                by.contains("fstrim.timer"),
                visited,
                "{name}, mount {at}: {by}\n{table}\n{output}"
            );
        }
    }
}
