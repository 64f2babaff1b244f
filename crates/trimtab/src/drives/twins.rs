//! Where twins are kept that nobody wanted elsewhere: `twins` beside the store of results.

use super::{Drive, load};
use crate::host::below::Below;
use crate::output::Context;
use crate::store;
use crate::sys::beneath::Dir;
use anyhow::Context as _;
use std::path::{Path, PathBuf};
use trimtab_core::drive::spec::twin::Origin;

/// A twin in its file.
#[derive(Debug)]
pub struct Kept {
    /// The file.
    pub path: PathBuf,
    /// The drive that it is.
    pub drive: Drive,
}

impl Kept {
    /// From what it was learned.
    #[must_use]
    pub fn origin(&self) -> Option<&Origin> {
        self.drive.twin.as_ref().map(|twin| &twin.origin)
    }
}

/// Where they are.
///
/// # Errors
/// No place for the user's data.
pub fn directory(context: &Context) -> anyhow::Result<PathBuf> {
    Ok(store::path(context)?.with_file_name("twins"))
}

/// The file in which the twin called `name` is kept; its directory is there afterwards.
///
/// # Errors
/// A directory that cannot be made.
pub fn file(context: &Context, name: &str) -> anyhow::Result<PathBuf> {
    let directory = directory(context)?;
    Dir::make_sheltered(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
    Ok(directory.join(format!("{name}.toml")))
}

/// All twins that are kept, by the name of their file. What is none is left out.
#[must_use]
pub fn all(context: &Context) -> Vec<Kept> {
    let Some(directory) = directory(context).ok() else { return Vec::new() };
    let mut names = Dir::open(&directory).and_then(|dir| dir.names()).unwrap_or_default();
    names.sort();
    let paths = names.iter().map(|name| directory.join(name)).filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
    let kept = |path: PathBuf| Some(Kept { drive: load(path.to_str()?).ok().filter(|drive| drive.twin.is_some())?, path });
    paths.filter_map(kept).collect()
}

/// The latest twin of the model that is below, and why it may not fit, if it does not quite.
#[must_use]
pub fn of(context: &Context, below: &Below) -> Option<(Kept, Vec<String>)> {
    let same = |kept: &Kept| kept.origin().is_some_and(|origin| origin.model == below.model);
    let latest = all(context).into_iter().filter(same).max_by_key(|kept| kept.origin().map(|origin| origin.learned.clone()))?;
    let doubts = latest.origin().map(|origin| mismatches(origin, &latest.drive, below)).unwrap_or_default();
    Some((latest, doubts))
}

/// What is not as it was when the twin was learned.
#[must_use]
pub fn mismatches(origin: &Origin, drive: &Drive, below: &Below) -> Vec<String> {
    let mut notes = Vec::new();
    if origin.model != below.model {
        notes.push(format!("the twin was learned from {}, and this is {}", origin.model, below.model));
    } else if origin.firmware != below.firmware {
        let named = |firmware: &Option<String>| firmware.clone().unwrap_or_else(|| "no firmware that is known".to_owned());
        notes.push(format!("the twin was learned with firmware {}, and this has {}", named(&origin.firmware), named(&below.firmware)));
    }
    if drive.spec.capacity_bytes != below.reported.capacity_bytes {
        notes.push("the twin has another capacity than the drive".to_owned());
    }
    notes
}

/// How a user names the file as a drive.
#[must_use]
pub fn reference(path: &Path) -> String {
    format!("drive:{}", path.display())
}
