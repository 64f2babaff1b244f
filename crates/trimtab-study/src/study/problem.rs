//! Errors of a study run.

use trimtab_drive::spec::SpecError;
use trimtab_drive::usage::UsageError;
use trimtab_sim::target::TargetError;
use trimtab_sim::volume::VolumeError;
use trimtab_sim::workload::postmark::PostmarkSettingsError;
use trimtab_sim::workload::tree::TreeError;

/// A study run failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StudyError {
    /// Invalid drive specification.
    #[error(transparent)]
    Drive(#[from] SpecError),
    /// The drive cannot be scaled to another size.
    #[error(transparent)]
    Size(#[from] UsageError),
    /// The filesystem cannot be created.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// Invalid tree.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// Invalid PostMark settings.
    #[error(transparent)]
    Postmark(#[from] PostmarkSettingsError),
    /// The drive or the filesystem failed.
    #[error(transparent)]
    Target(#[from] TargetError),
}
