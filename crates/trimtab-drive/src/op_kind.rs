//! Kinds of operations on files and blocks.

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
