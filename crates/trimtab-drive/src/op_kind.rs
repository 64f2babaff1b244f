//! Kinds of operations on files and blocks.

crate::named! {
    "kind of operation"
    /// The kind of an operation: the key of latency histograms and counters.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum OpKind {
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
}
