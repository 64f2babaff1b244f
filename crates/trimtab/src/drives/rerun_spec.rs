//! The drives of a rerun: specifications from the run, whatever their names mean today.

use crate::store::recipe::{hash, of};
use anyhow::Context as _;
use std::io::Write as _;
use std::path::Path;
use trimtab_drive::spec::file::{self, Drive};
use trimtab_linux::sys::beneath::{Dir, PRIVATE_FILE, named};
use trimtab_linux::sys::confinement;
use trimtab_sim::run::DRIVE;
use trimtab_sim::run::Run;

/// The specification that replaces `reference` during a rerun.
///
/// # Errors
/// The file exists but cannot be read.
pub fn drive_instead_of(reference: &str) -> anyhow::Result<Option<Drive>> {
    let Some(directory) = std::env::var_os(confinement::VARIABLE) else { return Ok(None) };
    let path = Path::new(&directory).join(file_name(reference));
    match named::read_text(&path, super::SPEC_BYTES_MAX) {
        Ok(text) => file::parse(&text)
            .map(Some)
            .map_err(|problem| anyhow::anyhow!("{}: {problem}", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Commands that make modelled runs.
const MODELLING: [&[&str]; 4] =
    [&["study"], &["bench"], &["drive", "simulate"], &["drive", "replay"]];

/// True if a command may be executed again. Runs can be imported, so their commands are
/// untrusted. [`confinement::directory`] additionally restricts the process to modelled
/// drives and to writes in its own directory.
pub fn only_models(command: &[String]) -> bool {
    MODELLING.iter().any(|words| {
        command.len() >= words.len() && words.iter().zip(command).all(|(word, said)| word == said)
    })
}

/// Writes the specification of a run's drive for [`drive_instead_of`]; returns the
/// environment variable to set.
///
/// # Errors
/// The directory cannot be written.
pub fn put_drive(
    run: &Run,
    reference: &str,
    directory: &Path,
) -> anyhow::Result<(&'static str, std::path::PathBuf)> {
    if let Some(text) = of(run, DRIVE) {
        Dir::open(directory)
            .and_then(|directory| {
                directory.write_atomically(file_name(reference), PRIVATE_FILE, |file| {
                    file.write_all(text.as_bytes())
                })
            })
            .context("cannot write the drive's specification")?;
    }
    Ok((confinement::VARIABLE, directory.to_owned()))
}

fn file_name(reference: &str) -> String {
    format!("{}.toml", hash(reference))
}
