//! Content of one superblock.

/// Content of a superblock in slots. The remainder is erased.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Superblock {
    /// Usable slots; fewer in SLC mode.
    pub slots: u64,
    /// Slots with data that the filesystem still needs.
    pub needed: u64,
    /// Slots with data that the filesystem has freed but not yet trimmed.
    pub unneeded: u64,
    /// Slots with overwritten or trimmed data that are not yet erased, and unusable
    /// slots.
    pub stale: u64,
    /// True in SLC mode.
    pub one_bit: bool,
}
