//! Why a run of a study could not be made.

use trimtab_drive::spec::SpecError;
use trimtab_drive::usage::UsageError;
use trimtab_sim::target::TargetError;
use trimtab_sim::volume::VolumeError;
use trimtab_sim::workload::postmark::SettingsError;
use trimtab_sim::workload::tree::TreeError;

/// Why a run could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// There is no such drive.
    #[error(transparent)]
    Drive(#[from] SpecError),
    /// The drive cannot be of another size.
    #[error(transparent)]
    Size(#[from] UsageError),
    /// The filesystem cannot be made.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// There is no such tree.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// PostMark cannot be run so.
    #[error(transparent)]
    Postmark(#[from] SettingsError),
    /// The drive or the filesystem failed.
    #[error(transparent)]
    Target(#[from] TargetError),
}
