//! The drives of a run that is made again: as the run says, whatever their names mean today.

use crate::store::recipe::{DRIVE, hash, of};
use anyhow::Context as _;
use std::io::Write as _;
use std::path::Path;
use trimtab_drive::spec::file::{self, Drive};
use trimtab_linux::sys::beneath::{Dir, PRIVATE_FILE, named};
use trimtab_linux::sys::confinement;
use trimtab_sim::run::Run;

/// The specification that is taken for what `reference` names while a run is made again.
///
/// # Errors
/// A file that is there and cannot be read.
pub fn drive_instead_of(reference: &str) -> anyhow::Result<Option<Drive>> {
    let Some(directory) = std::env::var_os(confinement::VARIABLE) else { return Ok(None) };
    let path = Path::new(&directory).join(file_name(reference));
    match named::read_text(&path, super::SPEC_BYTES_MAX) {
        Ok(text) => file::parse(&text).map(Some).map_err(|problem| anyhow::anyhow!("{}: {problem}", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Commands that make modelled runs.
const MODELLING: [&[&str]; 4] = [&["study"], &["bench"], &["drive", "simulate"], &["drive", "replay"]];

/// Whether a command may be executed again: what a run says may be anybody's words, since runs are imported. Such a process is told by
/// [`confinement::directory`], too, that it has no target but modelled drives and writes nothing anywhere but in the directory that it was given.
#[must_use]
pub fn only_models(command: &[String]) -> bool {
    MODELLING.iter().any(|words| command.len() >= words.len() && words.iter().zip(command).all(|(word, said)| word == said))
}

/// Puts the specification of a run's drive where [`drive_instead_of`] finds it; gives what the environment has to say.
///
/// # Errors
/// A directory that cannot be written.
pub fn put_drive(run: &Run, reference: &str, directory: &Path) -> anyhow::Result<(&'static str, std::path::PathBuf)> {
    if let Some(text) = of(run, DRIVE) {
        Dir::open(directory)
            .and_then(|directory| directory.write_atomically(file_name(reference), PRIVATE_FILE, |file| file.write_all(text.as_bytes())))
            .context("cannot write the drive's specification")?;
    }
    Ok((confinement::VARIABLE, directory.to_owned()))
}

fn file_name(reference: &str) -> String {
    format!("{}.toml", hash(reference))
}
