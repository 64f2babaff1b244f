//! The operations that workloads emit and targets execute.

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

macro_rules! op_kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal),+ $(,)?) => {
        /// The kind of an operation: the key of latency histograms and counters.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum OpKind { $($(#[$doc])* $kind),+ }

        impl OpKind {
            /// Every kind, in the order in which reports list them.
            pub const ALL: &'static [Self] = &[$(Self::$kind),+];

            /// The name in reports, JSON and the store.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name),+ }
            }

            /// The kind of that name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|kind| kind.name() == name)
            }
        }
    };
}

op_kinds! {
    /// File creation, or a block workload's none.
    Create = "create",
    /// Append to a file.
    Append = "append",
    /// Read of a file or of blocks.
    Read = "read",
    /// Write of blocks.
    Write = "write",
    /// Removal of a file.
    Delete = "delete",
    /// Creation of a directory.
    MakeDir = "make-dir",
    /// Removal of a directory.
    RemoveDir = "remove-dir",
    /// Filesystem-wide sync.
    Sync = "sync",
    /// Flush of a device's write cache.
    Flush = "flush",
    /// TRIM of a range.
    Trim = "trim",
    /// Look-up of a name.
    Lookup = "lookup",
    /// Attributes of a file.
    GetAttr = "getattr",
    /// Change of attributes.
    SetAttr = "setattr",
    /// Target of a symbolic link.
    ReadLink = "readlink",
    /// Names in a directory.
    ReadDir = "readdir",
    /// Names in a directory, with attributes.
    ReadDirPlus = "readdirplus",
    /// Check of permissions.
    Access = "access",
    /// Figures of the filesystem.
    FsStat = "fsstat",
}
