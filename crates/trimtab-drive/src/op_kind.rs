//! Operation kinds on files and blocks.

crate::named! {
    "kind of operation"
    /// Operation kind: the key of latency histograms and counters.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum OpKind {
        /// File creation; unused by block workloads.
        Create = "create",
        /// Append to a file.
        Append = "append",
        /// File or block read.
        Read = "read",
        /// Block write.
        Write = "write",
        /// File removal.
        Delete = "delete",
        /// Directory creation.
        MakeDir = "make-dir",
        /// Directory removal.
        RemoveDir = "remove-dir",
        /// Filesystem-wide sync.
        Sync = "sync",
        /// Flush of a device's write cache.
        Flush = "flush",
        /// TRIM of a range.
        Trim = "trim",
        /// Name lookup.
        Lookup = "lookup",
        /// Read of file attributes.
        GetAttr = "getattr",
        /// Change of file attributes.
        SetAttr = "setattr",
        /// Read of a symbolic link.
        ReadLink = "readlink",
        /// Directory listing.
        ReadDir = "readdir",
        /// Directory listing with attributes.
        ReadDirPlus = "readdirplus",
        /// Permission check.
        Access = "access",
        /// Filesystem statistics.
        FsStat = "fsstat",
    }
}
