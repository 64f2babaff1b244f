//! Sessions recorded with the original, replayed on a null target with the same clock.

use super::super::announce::{AnnouncedRun, Announcer};
use super::*;
use std::path::PathBuf;
use trimtab_linux::target::null::NullFiles;
use trimtab_sim::runner::{RunEnd, files};
use trimtab_sim::workload::postmark::Postmark;

/// A recorded session.
struct Transcript {
    input: String,
    output: String,
    clock: Vec<i64>,
}

impl Transcript {
    fn parse(text: &str) -> Self {
        let section = |name: &str| {
            let (_, rest) = text.split_once(&format!("=== {name} ===\n")).unwrap();
            rest.split("\n=== ").next().unwrap().to_owned() + "\n"
        };
        let clock = text
            .lines()
            .find_map(|line| line.strip_prefix("# clock: time() scripted: "))
            .unwrap_or("0");
        let clock = clock
            .split(' ')
            .next()
            .unwrap()
            .split(',')
            .map(|second| second.parse().unwrap())
            .collect();
        let output = section("OUTPUT (stdout+stderr, in order)");
        Self {
            input: section("INPUT (stdin)"),
            output: output.replace("[no newline at end]\n", ""),
            clock,
        }
    }

    /// Standard output without text that may differ: help, and complaints, which go to
    /// standard error.
    fn wanted(&self, work: &str) -> String {
        without_free_words(&self.output).replace("WORK", work)
    }
}

fn without_free_words(text: &str) -> String {
    text.split_inclusive('\n')
        .map(|line| {
            let line = line.split("Error: ").next().unwrap();
            let (prompt, command) = line.split_at(line.rfind("pm>").map_or(0, |at| at + 3));
            let is_help = command.contains(" - ");
            if is_help { prompt } else { line }
        })
        .collect()
}

/// Runs on the null target.
struct Scripted {
    clock: std::collections::VecDeque<i64>,
    now: i64,
}

impl Scripted {
    fn run(
        &mut self,
        config: &PostmarkConfig,
        out: &mut dyn Write,
    ) -> anyhow::Result<PostmarkResult> {
        let settings = config.run_settings();
        let mut seconds = || {
            self.now = self.clock.pop_front().unwrap_or(self.now);
            self.now
        };
        let announcer = Announcer::new(out, &mut seconds, settings.transactions);
        let run = Postmark::new(&settings)?.in_existing_locations();
        let mut announced = AnnouncedRun::new(run, &announcer);
        let outcome = files::run(&mut announced, &mut NullFiles::new(), &mut &announcer);
        assert_eq!(outcome.end, RunEnd::Complete);
        let counts = announced.run.counts();
        Ok(PostmarkResult {
            totals: Totals::of(&settings, &counts),
            stamps: announcer.stamps(),
            all_done: !counts.out_of_files,
        })
    }
}

/// The output of a session, and its complaints.
fn play(input: &str, clock: &[i64], file: &Path) -> (String, Vec<String>) {
    let mut out = Vec::new();
    let mut complaints = Vec::new();
    let mut complain = |text: &str| complaints.push(text.to_owned());
    let voice = SessionOutput { out: &mut out, complain: &mut complain, shell_to_stderr: true };
    let mut runner = Scripted { clock: clock.iter().copied().collect(), now: 0 };
    let mut run = |config: &PostmarkConfig, out: &mut dyn Write| runner.run(config, out);
    let failed = Session::new(PostmarkConfig::default(), voice, &mut run)
        .execute(file, &mut input.as_bytes())
        .unwrap();
    assert_eq!(failed, !file.exists(), "a named file that cannot be read is a failure");
    (String::from_utf8(out).unwrap(), complaints)
}

fn nothing() -> PathBuf {
    PathBuf::from("/nonexistent/.pmrc")
}

#[test]
fn postmark_sessions_match_recordings_byte_for_byte() {
    let here = std::env::current_dir().unwrap();
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("01", include_str!("../../../tests/fixtures/postmark/01_published_A_scripted_clock.txt")),
        ("02", include_str!("../../../tests/fixtures/postmark/02_published_B_subdirectories.txt")),
        ("03", include_str!("../../../tests/fixtures/postmark/03_defaults_realclock.txt")),
        ("07", include_str!("../../../tests/fixtures/postmark/07_biases_and_out_of_files.txt")),
        ("08", include_str!("../../../tests/fixtures/postmark/08_bad_input.txt")),
        ("14", include_str!("../../../tests/fixtures/postmark/14_units.txt")),
        ("19d", include_str!("../../../tests/fixtures/postmark/19d_line_over_254.txt")),
    ] {
        let transcript = Transcript::parse(text);
        // Locations are those of the original's run; the working directory is that of
        // this run.
        let wanted = transcript.wanted("WORK").replace(
            "Working directory: WORK\n",
            &format!("Working directory: {}\n", here.display()),
        );
        let input = transcript
            .input
            .replace("run log.txt", &format!("run {}", dir.path().join("log.txt").display()));
        let (output, _) = play(&input, &transcript.clock, &nothing());
        assert_eq!(without_free_words(&output), wanted, "{name}");
    }
}

#[test]
fn errors_of_original_are_reported_as_complaints() {
    let transcript =
        Transcript::parse(include_str!("../../../tests/fixtures/postmark/08_bad_input.txt"));
    let (_, complaints) = play(&transcript.input, &transcript.clock, &nothing());
    // One more, because the configuration file does not exist.
    assert_eq!(
        complaints.len(),
        transcript.output.matches("Error: ").count() + 1,
        "{complaints:#?}"
    );
    assert!(complaints.iter().all(|text| !text.contains('\n')));
}

#[test]
fn quit_ends_loaded_file_only_but_ends_startup_session() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("conf");
    std::fs::write(&file, "set number 12\nquit\nset number 13\n").unwrap();
    let name = file.display().to_string();
    let (output, _) = play(&format!("load {name}\nshow\n"), &[0], &nothing());
    assert!(
        output.starts_with(&format!(
            "PostMark v1.51 : 8/14/01\npm>Reading configuration from file '{name}'\npm>Current"
        )),
        "{output}"
    );
    assert!(output.contains("The base number of files is 12\n"));
    let (output, _) = play("show\n", &[0], &file);
    assert_eq!(
        output,
        format!("PostMark v1.51 : 8/14/01\nReading configuration from file '{name}'\n"),
        "no prompt"
    );
}

#[test]
fn load_of_a_recursive_file_ends() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("conf");
    std::fs::write(&file, format!("load {}\n", file.display())).unwrap();
    let (output, complaints) = play("", &[0], &file);
    assert_eq!(output.matches("Reading").count(), LOAD_DEPTH_MAX as usize);
    assert!(complaints.iter().any(|text| text.contains("from within itself")));
}

#[test]
fn last_line_without_newline_is_explained() {
    let (output, complaints) = play("quit", &[0], &nothing());
    assert!(output.ends_with("pm>Eh?\npm>"));
    assert!(complaints.iter().any(|text| text.contains("no newline")), "{complaints:?}");
}

#[test]
fn reports_and_settings_are_appended_to_files() {
    let dir = tempfile::tempdir().unwrap();
    let name = dir.path().join("out").display().to_string();
    let input = format!(
        "set report terse\nrun {name}\nset location /x 2\nshow {name}\n\
            set bias create 0\nset transactions 2000\nrun {name}\n"
    );
    let (output, _) = play(&input, &[0], &nothing());
    let file = std::fs::read_to_string(&name).unwrap();
    let lines: Vec<&str> = file.lines().collect();
    assert_eq!(
        lines[0],
        "1 1 500.00 764.00 500.00 264.00 243.00 257.00 764.00 528.00 236.00 1430770.00 4662068.00"
    );
    assert_eq!(lines[1], "Current configuration is:");
    assert!(
        file.contains("Working directory: \nBlock sizes"),
        "the list of locations goes to standard output: {file}"
    );
    assert!(output.contains("pm>\t/x (weight=2)\npm>"), "{output}");
    assert!(
        file.ends_with("Report format is terse.\n"),
        "no report of a run that ran out of files"
    );
    let empty = dir.path().join("empty").display().to_string();
    play(&format!("set bias create 0\nset transactions 2000\nrun {empty}\n"), &[0], &nothing());
    assert_eq!(std::fs::read(&empty).unwrap(), b"", "but the file is created");
}
