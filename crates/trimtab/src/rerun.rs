//! Repeats a stored modelled run from its stored specification, settings and seed.

use crate::drives::rerun_spec;
use crate::store::recipe;
use crate::store::shape::run::{RunV1, SCHEMA, VERSION};
use crate::store::{Filter, Reference, RunId, Store};
use crate::study::checkpoint;
use anyhow::Context as _;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::Duration;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_linux::sys::{confinement, interrupt};
use trimtab_sim::run::{COMMAND, Provenance, Run};

/// Repeats the run and compares every byte. A file that the run names is read only if it
/// is one of `inputs`.
///
/// # Errors The run was measured, was interrupted, or fails when repeated.
pub fn run(
    store: &Store,
    reference: &Reference,
    inputs: &[PathBuf],
    context: &Context,
) -> anyhow::Result<ExitCode> {
    let id = store.find(reference)?;
    let run = store.load(id)?;
    let command = command_of(id, &run)?;
    interrupt::install().context("cannot catch signals")?;
    let scratch = tempfile::Builder::new()
        .prefix("trimtab-rerun-")
        .tempdir()
        .context("cannot make a directory for the run")?;
    let mut again = made_again(&run, &command, inputs, scratch.path())?;
    // The start time and the command differ legitimately.
    again.started_unix_ms = run.started_unix_ms;
    for field in again.specification.iter_mut().filter(|field| field.key == COMMAND) {
        recipe::of(&run, COMMAND).unwrap_or_default().clone_into(&mut field.value);
    }
    let version = std::mem::replace(&mut again.tool_version, run.tool_version.clone());
    let differences = differences(&run, &again);
    context.report(SCHEMA, VERSION, &RunV1::new(&again, Some(RunId::of(&again))), || {
        if differences.is_empty() {
            format!(
                "{id}: made again, the same to the byte ({} figures, {} series)",
                again.metrics.len(),
                again.series.len()
            )
        } else {
            format!("{id}: made again, and it differs in {}", differences.join("; "))
        }
    })?;
    if differences.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    if version != run.tool_version {
        context.remark(&format!(
            "it was made by version {}, and this is version {version}",
            run.tool_version
        ));
    }
    Ok(ExitCode::FAILURE)
}

/// The arguments that produced `run`; the error explains why it cannot be repeated.
fn command_of(id: RunId, run: &Run) -> anyhow::Result<Vec<String>> {
    let command = recipe::of(run, COMMAND).map(serde_json::from_str::<Vec<String>>).transpose();
    let command = command.with_context(|| format!("the command that {id} holds is none"))?;
    let shown = command.as_ref().map_or_else(String::new, |command| {
        format!("; it was made by: trimtab {}", command.join(" "))
    });
    match run.provenance {
        Provenance::Modelled => {}
        Provenance::Measured => {
            anyhow::bail!("{id} was measured, and a measurement is never the same again{shown}")
        }
        Provenance::Entered => anyhow::bail!("{id} was entered, not made here"),
    }
    let models = command.as_ref().is_none_or(|command| rerun_spec::only_models(command));
    anyhow::ensure!(
        models,
        "the command that {id} holds makes no modelled run, so it is not executed{shown}"
    );
    anyhow::ensure!(
        run.complete,
        "{id} was interrupted, and a run cannot be stopped at the same place again{shown}"
    );
    command.with_context(|| {
        format!(
            "{id} does not hold what it was made from: trimtab {} kept no command and no \
            specification",
            run.tool_version
        )
    })
}

/// Waits for the process to end; kills it if the user interrupts this one.
fn status_of(process: &mut Command) -> anyhow::Result<ExitStatus> {
    let mut child = process.spawn().context("cannot start this program again")?;
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for the run")? {
            return Ok(status);
        }
        if let Err(interrupted) = interrupt::check() {
            child.kill().and_then(|()| child.wait()).context("cannot end the run")?;
            return Err(interrupted.into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs the command in a child process, with the stored drive and a temporary store, and
/// loads the same run from that store.
fn made_again(
    run: &Run,
    command: &[String],
    inputs: &[PathBuf],
    scratch: &Path,
) -> anyhow::Result<Run> {
    let reference = run.target_label.strip_prefix("drive:").unwrap_or(&run.target_label);
    let (variable, directory) = rerun_spec::put_drive(run, reference, scratch)?;
    let store = scratch.join("results.db");
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut process = Command::new(program);
    process.args(command).arg("--quiet").arg("--store").arg(&store).env(variable, directory);
    let joined = std::env::join_paths(inputs)
        .map_err(|_| UsageError::new("--input takes no path with a colon in it"))?;
    process.env(confinement::INPUTS, joined);
    if let Some(cell) = checkpoint::cell_of(run) {
        process.args(["--cell", cell]).arg("--report").arg(scratch.join("report.html"));
    }
    // Use a file: an unread pipe would fill up and block the child.
    let mut errors = tempfile::tempfile().context("cannot make a file for the run")?;
    let written = errors.try_clone().context("cannot make a file for the run")?;
    let status = status_of(process.stdin(Stdio::null()).stdout(Stdio::null()).stderr(written))?;
    if !status.success() {
        // An error message may quote the contents of an input file, and the run chooses
        // the file.
        anyhow::ensure!(
            inputs.is_empty(),
            "'trimtab {}' failed; run it yourself to see why",
            command.join(" ")
        );
        let mut said = Vec::new();
        errors
            .rewind()
            .and_then(|()| errors.read_to_end(&mut said))
            .context("cannot read what the run said")?;
        let said = String::from_utf8_lossy(&said);
        anyhow::bail!(
            "'trimtab {}' failed: {}",
            command.join(" "),
            said.trim().trim_start_matches("trimtab: ")
        );
    }
    let made = Store::open(&store)?;
    let alike = |other: &Run| {
        let same = (&other.workload, &other.target_label, &other.seed)
            == (&run.workload, &run.target_label, &run.seed);
        same && other.policy == run.policy && checkpoint::cell_of(other) == checkpoint::cell_of(run)
    };
    let mut found = Vec::new();
    for summary in made.list(&Filter::default())? {
        let other = made.load(summary.id)?;
        if alike(&other) {
            found.push(other);
        }
    }
    // One policy with several settings yields several runs.
    let same =
        found.iter().position(|other| other.policy_settings == run.policy_settings).unwrap_or(0);
    anyhow::ensure!(
        !found.is_empty(),
        "'trimtab {}' makes no such run any more",
        command.join(" ")
    );
    Ok(found.swap_remove(same))
}

/// The JSON fields that differ; empty if every byte is the same.
fn differences(run: &Run, again: &Run) -> Vec<String> {
    let value = |run: &Run| serde_json::to_value(run).unwrap_or(Value::Null);
    let (one, other) = (value(run), value(again));
    let both = [&one, &other].into_iter().filter_map(Value::as_object);
    let keys: BTreeSet<&String> = both.flat_map(|run| run.keys()).collect();
    let differ = keys.into_iter().filter(|key| one[*key] != other[*key]);
    let mut found: Vec<String> = differ.cloned().collect();
    if found.is_empty() && RunId::of(run) != RunId::of(again) {
        found.push("something that JSON does not show".to_owned());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::shape::any_run::example;

    #[test]
    fn differences_lists_every_changed_field() {
        let run = example();
        assert!(differences(&run, &run).is_empty());
        let mut other = run.clone();
        other.metrics[0].samples[1] += 1e-9;
        other.counters[0].1 = 1;
        assert_eq!(differences(&run, &other), ["counters", "metrics"]);
    }
}
