//! The default directory of twins: `twins` next to the store of results.

use super::{Drive, from_file};
use crate::drives::below::UnderlyingDrive;
use crate::store::{self, recipe};
use anyhow::Context as _;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use trimtab_drive::spec::twin::Origin;
use trimtab_linux::output::Context;
use trimtab_linux::sys::beneath::Dir;
use trimtab_study::learn::learned::{NAME_MAX, identifier};

/// A stored twin.
#[derive(Debug)]
pub struct StoredTwin {
    /// The file.
    pub path: PathBuf,
    /// The twin as a drive.
    pub drive: Drive,
}

impl StoredTwin {
    /// The origin of the twin.
    pub fn origin(&self) -> Option<&Origin> {
        self.drive.twin.as_ref().map(|twin| &twin.origin)
    }
}

/// The directory of twins.
///
/// # Errors
/// There is no directory for the user's data.
pub fn directory(context: &Context) -> anyhow::Result<PathBuf> {
    Ok(store::path(context)?.with_file_name("twins"))
}

/// The file of the twin `name`; creates its directory.
///
/// # Errors
/// The directory cannot be created.
pub fn file(context: &Context, name: &str) -> anyhow::Result<PathBuf> {
    let directory = directory(context)?;
    Dir::make_sheltered(&directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    Ok(directory.join(format!("{name}.toml")))
}

/// How commands name the twin in `file`: by its own name in the default directory.
pub fn argument(context: &Context, file: &Path, twin: &Drive) -> String {
    let is_found = directory(context).is_ok_and(|twins| file.parent() == Some(&twins));
    let name = if is_found { twin.spec.name.clone() } else { file.display().to_string() };
    format!("drive:{}", trimtab_linux::output::plain(&name))
}

/// Identifies the unit of a drive's model, as a hash.
pub fn which(below: &UnderlyingDrive) -> String {
    recipe::hash(&below.which)
}

/// The name for a twin of a real drive: its model, plus digits of the unit if another
/// unit's twin has that name.
pub fn name(context: &Context, below: &UnderlyingDrive) -> String {
    let name = identifier(&below.model);
    let which = which(below);
    let another = |kept: &StoredTwin| {
        let called_so = kept.path.file_stem().is_some_and(|stem| stem == name.as_str());
        called_so
            && kept
                .origin()
                .is_some_and(|origin| origin.model != below.model || !may_be(origin, &which))
    };
    if found(context).twins.iter().any(another) { of_its_own(&name, &which) } else { name }
}

/// Number of hash digits that distinguish the drives of one machine.
const DIGITS: usize = 6;

fn of_its_own(name: &str, which: &str) -> String {
    let room = NAME_MAX - DIGITS - 1;
    format!("{}-{}", name.get(..room).unwrap_or(name).trim_end_matches('-'), &which[..DIGITS])
}

/// True if the twin is of this unit, or its unit is unknown.
fn may_be(origin: &Origin, which: &str) -> bool {
    origin.which.as_ref().is_none_or(|of| of == which)
}

/// Content of the directory of twins.
#[derive(Debug, Default)]
pub struct TwinDirectory {
    /// The twins, by file name.
    pub twins: Vec<StoredTwin>,
    /// Files that cannot be used, with reasons.
    pub odd: Vec<String>,
}

/// All stored twins, and files there that are not twins.
pub fn found(context: &Context) -> TwinDirectory {
    directory(context).map(|directory| in_directory(&directory)).unwrap_or_default()
}

fn in_directory(directory: &Path) -> TwinDirectory {
    let names = Dir::sheltered_directory(directory).and_then(|_| Dir::open(directory)?.names());
    let names = match names {
        Ok(names) => names,
        Err(error) if error.kind() == ErrorKind::NotFound => return TwinDirectory::default(),
        Err(error) => {
            return TwinDirectory {
                twins: Vec::new(),
                odd: vec![format!("{}: {error}", directory.display())],
            };
        }
    };
    let mut found = TwinDirectory::default();
    for path in names
        .iter()
        .map(|name| directory.join(name))
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
    {
        let drive = path.to_str().context("its name is not UTF-8").and_then(from_file);
        match drive.and_then(|drive| {
            if drive.twin.is_some() { Ok(drive) } else { Err(anyhow::anyhow!("it is not a twin")) }
        }) {
            Ok(drive) => found.twins.push(StoredTwin { path, drive }),
            Err(error) => found.odd.push(format!("{}: {error:#}", path.display())),
        }
    }
    found
}

/// Names of the twins.
pub fn names(directory: &Path) -> Vec<String> {
    in_directory(directory).twins.into_iter().map(|kept| kept.drive.spec.name).collect()
}

/// The file of the twin `name`.
pub fn called(directory: &Path, name: &str) -> Option<PathBuf> {
    in_directory(directory)
        .twins
        .into_iter()
        .find(|kept| kept.drive.spec.name == name)
        .map(|kept| kept.path)
}

/// The latest twin of the drive, or else of another unit of its model.
pub fn of(context: &Context, below: &UnderlyingDrive) -> Option<StoredTwin> {
    let which = which(below);
    let order = |kept: &StoredTwin| {
        let origin = kept.origin().filter(|origin| origin.model == below.model)?;
        let same_size = kept.drive.spec.capacity_bytes == below.reported.capacity_bytes;
        let fits = if may_be(origin, &which) { true } else { below.is_of_a_model && same_size };
        fits.then(|| (origin.which.as_ref() == Some(&which), same_size, origin.learned.clone()))
    };
    let known = found(context).twins.into_iter().filter_map(|kept| Some((order(&kept)?, kept)));
    known.max_by(|a, b| a.0.cmp(&b.0)).map(|(_, best)| best)
}

/// Differences between the drive and the one that was learned.
pub fn mismatches(origin: &Origin, drive: &Drive, below: &UnderlyingDrive) -> Vec<String> {
    let mut notes = Vec::new();
    if origin.model != below.model {
        notes.push(format!(
            "the twin was learned from {}, but this is {}",
            origin.model, below.model
        ));
    } else {
        if !may_be(origin, &which(below)) {
            notes.push(format!("the twin was learned from another unit of {}", below.model));
        }
        if origin.firmware != below.firmware {
            let named = |firmware: &Option<String>| {
                firmware.clone().unwrap_or_else(|| "unknown firmware".to_owned())
            };
            notes.push(format!(
                "the twin was learned with {}, but this drive has {}",
                named(&origin.firmware),
                named(&below.firmware)
            ));
        }
    }
    if drive.spec.capacity_bytes != below.reported.capacity_bytes {
        notes.push("the twin has another capacity than the drive".to_owned());
    }
    notes
}
