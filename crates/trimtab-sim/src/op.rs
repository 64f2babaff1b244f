//! The operations that workloads emit and targets execute.

use trimtab_drive::OpKind;
use trimtab_drive::data::DataClass;

/// What a file operation writes.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// Exactly these bytes; `class` tells a modelled target what they are like.
    Bytes {
        /// The content.
        bytes: &'a [u8],
        /// Its class.
        class: DataClass,
    },
    /// `len` fresh bytes of a class; only a real target has to make them.
    Fill {
        /// Bytes to write.
        len: u64,
        /// Their class.
        class: DataClass,
    },
}

impl Payload<'_> {
    /// Length in bytes.
    #[must_use]
    pub const fn len(&self) -> u64 {
        match self {
            Self::Bytes { bytes, .. } => bytes.len() as u64,
            Self::Fill { len, .. } => *len,
        }
    }

    /// True if there is nothing to write.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The class of the data.
    #[must_use]
    pub const fn class(&self) -> DataClass {
        match self {
            Self::Bytes { class, .. } | Self::Fill { class, .. } => *class,
        }
    }
}

/// One file operation. Paths are relative to the target's own directory, `/` between components.
#[derive(Clone, Copy, Debug)]
pub enum FileOp<'a> {
    /// Makes a directory; its parent exists.
    MakeDir(&'a str),
    /// Removes an empty directory.
    RemoveDir(&'a str),
    /// Creates a file that does not exist and writes it.
    Create(&'a str, Payload<'a>),
    /// Adds to the end of an existing file.
    Append(&'a str, Payload<'a>),
    /// Reads `1` bytes from the start of an existing file.
    Read(&'a str, u64),
    /// Removes a file.
    Delete(&'a str),
    /// Makes everything written so far durable on the whole filesystem.
    Sync,
}

impl FileOp<'_> {
    /// What kind of operation this is.
    #[must_use]
    pub const fn kind(&self) -> OpKind {
        match self {
            Self::MakeDir(_) => OpKind::MakeDir,
            Self::RemoveDir(_) => OpKind::RemoveDir,
            Self::Create(..) => OpKind::Create,
            Self::Append(..) => OpKind::Append,
            Self::Read(..) => OpKind::Read,
            Self::Delete(_) => OpKind::Delete,
            Self::Sync => OpKind::Sync,
        }
    }

    /// Bytes that the operation reads or writes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        match self {
            Self::Create(_, payload) | Self::Append(_, payload) => payload.len(),
            Self::Read(_, len) => *len,
            Self::MakeDir(_) | Self::RemoveDir(_) | Self::Delete(_) | Self::Sync => 0,
        }
    }
}
