//! Where twins are kept that nobody wanted elsewhere: `twins` beside the store of results.

use super::{Drive, from_file};
use crate::drives::below::Below;
use crate::store::{self, recipe};
use anyhow::Context as _;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use trimtab_drive::spec::twin::Origin;
use trimtab_linux::output::Context;
use trimtab_linux::sys::beneath::Dir;
use trimtab_study::learn::learned::{NAME_MAX, identifier};

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

/// Which one of its model the drive is, in digits that say nothing else of it.
#[must_use]
pub fn which(below: &Below) -> String {
    recipe::hash(&below.which)
}

/// What the twin of a drive that is there is called: after its model, and after the drive itself where the twin of another one is called so.
#[must_use]
pub fn name(context: &Context, below: &Below) -> String {
    let name = identifier(&below.model);
    let which = which(below);
    let another = |kept: &Kept| {
        let called_so = kept.path.file_stem().is_some_and(|stem| stem == name.as_str());
        called_so && kept.origin().is_some_and(|origin| origin.model != below.model || !may_be(origin, &which))
    };
    if all(context).iter().any(another) { of_its_own(&name, &which) } else { name }
}

/// Digits of a hash that tell the drives of one machine apart.
const DIGITS: usize = 6;

fn of_its_own(name: &str, which: &str) -> String {
    let room = NAME_MAX - DIGITS - 1;
    format!("{}-{}", name.get(..room).unwrap_or(name).trim_end_matches('-'), &which[..DIGITS])
}

/// Whether the twin is of this very drive, or it is not known of which one of its model.
fn may_be(origin: &Origin, which: &str) -> bool {
    origin.which.as_ref().is_none_or(|of| of == which)
}

/// All twins that are kept, by the name of their file. What is none is left out.
#[must_use]
pub fn all(context: &Context) -> Vec<Kept> {
    found(context).twins
}

/// What is in the directory of twins.
#[derive(Debug, Default)]
pub struct Found {
    /// The twins, by the name of their file.
    pub twins: Vec<Kept>,
    /// What is there and cannot be used as one, and why.
    pub odd: Vec<String>,
}

/// All twins that are kept, and what is no twin though it stands where they do.
#[must_use]
pub fn found(context: &Context) -> Found {
    directory(context).map(|directory| in_directory(&directory)).unwrap_or_default()
}

fn in_directory(directory: &Path) -> Found {
    let names = Dir::sheltered_directory(directory).and_then(|_| Dir::open(directory)?.names());
    let names = match names {
        Ok(names) => names,
        Err(error) if error.kind() == ErrorKind::NotFound => return Found::default(),
        Err(error) => return Found { twins: Vec::new(), odd: vec![format!("{}: {error}", directory.display())] },
    };
    let mut found = Found::default();
    for path in names.iter().map(|name| directory.join(name)).filter(|path| path.extension().is_some_and(|extension| extension == "toml")) {
        let drive = path.to_str().context("its name is not UTF-8").and_then(from_file);
        match drive.and_then(|drive| if drive.twin.is_some() { Ok(drive) } else { Err(anyhow::anyhow!("it is not a twin")) }) {
            Ok(drive) => found.twins.push(Kept { path, drive }),
            Err(error) => found.odd.push(format!("{}: {error:#}", path.display())),
        }
    }
    found
}

/// What the twins are called.
#[must_use]
pub fn names(directory: &Path) -> Vec<String> {
    in_directory(directory).twins.into_iter().map(|kept| kept.drive.spec.name).collect()
}

/// The file of the twin that is called `name`.
#[must_use]
pub fn called(directory: &Path, name: &str) -> Option<PathBuf> {
    in_directory(directory).twins.into_iter().find(|kept| kept.drive.spec.name == name).map(|kept| kept.path)
}

/// The latest twin of the drive that is below, or else of another one of its model, and why it may not fit, if it does not quite.
#[must_use]
pub fn of(context: &Context, below: &Below) -> Option<(Kept, Vec<String>)> {
    let which = which(below);
    let order = |kept: &Kept| {
        let origin = kept.origin().filter(|origin| origin.model == below.model)?;
        let same_size = kept.drive.spec.capacity_bytes == below.reported.capacity_bytes;
        let fits = if may_be(origin, &which) { true } else { below.is_of_a_model && same_size };
        fits.then(|| (origin.which.as_ref() == Some(&which), same_size, origin.learned.clone()))
    };
    let (_, best) = all(context).into_iter().filter_map(|kept| Some((order(&kept)?, kept))).max_by(|a, b| a.0.cmp(&b.0))?;
    let doubts = best.origin().map(|origin| mismatches(origin, &best.drive, below)).unwrap_or_default();
    Some((best, doubts))
}

/// What is not as it was when the twin was learned.
#[must_use]
pub fn mismatches(origin: &Origin, drive: &Drive, below: &Below) -> Vec<String> {
    let mut notes = Vec::new();
    if origin.model != below.model {
        notes.push(format!("the twin was learned from {}, and this is {}", origin.model, below.model));
    } else {
        if !may_be(origin, &which(below)) {
            notes.push(format!("the twin was learned from another drive that is called {}", below.model));
        }
        if origin.firmware != below.firmware {
            let named = |firmware: &Option<String>| firmware.clone().unwrap_or_else(|| "no firmware that is known".to_owned());
            notes.push(format!("the twin was learned with firmware {}, and this has {}", named(&origin.firmware), named(&below.firmware)));
        }
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
