//! The content of one superblock.

/// What a superblock holds, in slots of its own. What is left of it is erased.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Superblock {
    /// Slots that it can hold now: fewer in one-bit mode.
    pub slots: u64,
    /// Data that the filesystem still needs.
    pub needed: u64,
    /// Data that the drive keeps, although the filesystem has freed them: nobody has told it.
    pub unneeded: u64,
    /// Overwritten or trimmed data that are not erased yet, and what cannot be used.
    pub stale: u64,
    /// In one-bit mode.
    pub one_bit: bool,
}
