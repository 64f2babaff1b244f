//! The operations that workloads emit and targets execute.

use trimtab_drive::OpKind;
use trimtab_drive::data::DataClass;

/// Data written by a file operation.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// Exactly these bytes; `class` describes them to a modelled target.
    Bytes {
        /// The content.
        bytes: &'a [u8],
        /// Its class.
        class: DataClass,
    },
    /// `len` new bytes of a class; only a real target generates them.
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

    /// True if empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Class of the data.
    #[must_use]
    pub const fn class(&self) -> DataClass {
        match self {
            Self::Bytes { class, .. } | Self::Fill { class, .. } => *class,
        }
    }
}

/// A file operation. Paths are relative to the target's directory, with `/` as separator.
#[derive(Clone, Copy, Debug)]
pub enum FileOp<'a> {
    /// Creates a directory; its parent exists.
    MakeDir(&'a str),
    /// Removes an empty directory.
    RemoveDir(&'a str),
    /// Creates and writes a file; the name must not exist.
    Create(&'a str, Payload<'a>),
    /// Appends to an existing file.
    Append(&'a str, Payload<'a>),
    /// Reads `1` bytes from the start of an existing file.
    Read(&'a str, u64),
    /// Removes a file.
    Delete(&'a str),
    /// Makes all earlier writes durable on the whole filesystem.
    Sync,
}

impl FileOp<'_> {
    /// Kind of the operation.
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

    /// Its path; empty for a sync.
    #[must_use]
    pub const fn path(&self) -> &str {
        match self {
            Self::MakeDir(path)
            | Self::RemoveDir(path)
            | Self::Create(path, _)
            | Self::Append(path, _)
            | Self::Read(path, _)
            | Self::Delete(path) => path,
            Self::Sync => "",
        }
    }

    /// The same operation on another path.
    #[must_use]
    pub const fn at<'p>(&'p self, path: &'p str) -> FileOp<'p> {
        match *self {
            Self::MakeDir(_) => FileOp::MakeDir(path),
            Self::RemoveDir(_) => FileOp::RemoveDir(path),
            Self::Create(_, payload) => FileOp::Create(path, payload),
            Self::Append(_, payload) => FileOp::Append(path, payload),
            Self::Read(_, len) => FileOp::Read(path, len),
            Self::Delete(_) => FileOp::Delete(path),
            Self::Sync => FileOp::Sync,
        }
    }

    /// Bytes read or written.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        match self {
            Self::Create(_, payload) | Self::Append(_, payload) => payload.len(),
            Self::Read(_, len) => *len,
            Self::MakeDir(_) | Self::RemoveDir(_) | Self::Delete(_) | Self::Sync => 0,
        }
    }
}

/// An operation of an NFS client. Paths are relative to the target's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NfsOp<'a> {
    /// Kind.
    pub kind: OpKind,
    /// Path; empty for the whole filesystem.
    pub path: &'a str,
    /// Offset of a transfer.
    pub offset: u64,
    /// Length of a transfer.
    pub len: u64,
}
