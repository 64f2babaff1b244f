//! The TARGET argument of a command line.

use crate::drives;
use std::fmt;
use std::os::unix::fs::FileTypeExt as _;
use std::path::PathBuf;
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;

/// A parsed TARGET argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetSpec {
    /// A directory on a mounted filesystem.
    Directory(PathBuf),
    /// A regular file, used as a block device.
    File(PathBuf),
    /// A block device.
    Device(PathBuf),
    /// `drive:NAME` or `drive:FILE.toml`: a modelled drive; holds the text after the
    /// colon.
    Drive(String),
    /// `null:` or `null:SIZE`: completes every operation immediately; measures trimtab's
    /// own overhead.
    Null(Bytes),
}

/// Default size reported by `null:`.
const NULL_SIZE_DEFAULT: Bytes = Bytes(1 << 30);

impl TargetSpec {
    /// Parses `text` as given by the user, and checks the file type of a path.
    pub fn resolve(text: &str) -> anyhow::Result<Self> {
        Self::resolve_as(text, "TARGET is a directory, a file, a block device, drive:NAME or null:")
    }

    /// The same for a command that accepts fewer kinds of target; `takes` lists them for
    /// the error message.
    pub fn resolve_as(text: &str, takes: &str) -> anyhow::Result<Self> {
        if let Some(name) = text.strip_prefix("drive:") {
            if name.is_empty() {
                return Err(UsageError::new("'drive:' names no drive")
                    .hint("write drive:NAME; 'trimtab drive list' shows the names")
                    .into());
            }
            return Ok(Self::Drive(name.to_owned()));
        }
        if let Some(size) = text.strip_prefix("null:") {
            let size = if size.is_empty() {
                NULL_SIZE_DEFAULT
            } else {
                size.parse().map_err(|e| UsageError::new(format!("null:{size}: {e}")))?
            };
            return Ok(Self::Null(size));
        }
        let path = PathBuf::from(text);
        let kind = match std::fs::metadata(&path) {
            Ok(metadata) => metadata.file_type(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let is_drive = drives::names().iter().any(|name| name == text);
                let hint = if is_drive {
                    format!("did you mean 'drive:{text}'?")
                } else {
                    takes.to_owned()
                };
                let missing = format!("there is no {}", if text.is_empty() { "''" } else { text });
                return Err(UsageError::missing(missing).hint(hint).into());
            }
            Err(error) => {
                return Err(anyhow::Error::new(error).context(format!("cannot look at {text}")));
            }
        };
        if kind.is_dir() {
            Ok(Self::Directory(path))
        } else if kind.is_file() {
            if drives::describes_drive(text) {
                let place = if text.contains('/') { "" } else { "./" };
                return Err(UsageError::new(format!("{text} is the file of a modelled drive"))
                    .hint(format!("did you mean 'drive:{place}{text}'?"))
                    .into());
            }
            Ok(Self::File(path))
        } else if kind.is_block_device() {
            Ok(Self::Device(path))
        } else {
            Err(UsageError::missing(format!(
                "{text} is neither a directory nor a file nor a block device"
            ))
            .hint(takes)
            .into())
        }
    }

    /// The error for a target that the command does not accept. A path of the wrong kind
    /// is an unusable file; any other text is a usage error.
    pub fn refused(&self, message: String) -> UsageError {
        match self {
            Self::Directory(_) | Self::File(_) | Self::Device(_) => UsageError::missing(message),
            Self::Drive(_) | Self::Null(_) => UsageError::new(message),
        }
    }
}

impl fmt::Display for TargetSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) | Self::File(path) | Self::Device(path) => {
                write!(f, "{}", path.display())
            }
            Self::Drive(name) => write!(f, "drive:{name}"),
            Self::Null(_) => f.write_str("null:"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolve_returns_directory_file_drive_or_null() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        std::fs::write(&file, b"x").unwrap();
        assert_eq!(
            TargetSpec::resolve(dir.path().to_str().unwrap()).unwrap(),
            TargetSpec::Directory(dir.path().into())
        );
        assert_eq!(TargetSpec::resolve(file.to_str().unwrap()).unwrap(), TargetSpec::File(file));
        assert_eq!(TargetSpec::resolve("drive:x25").unwrap(), TargetSpec::Drive("x25".into()));
        assert_eq!(TargetSpec::resolve("null:2GiB").unwrap(), TargetSpec::Null(Bytes(2 << 30)));
    }

    #[test]
    fn resolve_of_unknown_target_is_a_usage_error() {
        for text in ["/no/such/thing", "drive:", "null:much", "/dev/zero"] {
            let error = TargetSpec::resolve(text).unwrap_err();
            assert!(error.is::<UsageError>(), "{text}: {error}");
        }
    }

    #[test]
    fn resolve_of_drive_file_without_prefix_names_the_prefix() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("ok.toml");
        let drive = "name = \"x\"\ndescription = \"y\"\ncapacity_bytes = 1_000_000_000\n[flash]\n";
        std::fs::write(&path, drive).unwrap();
        let text = path.to_str().unwrap();
        let error = TargetSpec::resolve(text).unwrap_err();
        let hint = error.downcast_ref::<UsageError>().unwrap().advice();
        assert_eq!(hint, Some(format!("did you mean 'drive:{text}'?").as_str()));
        std::fs::write(&path, "x = 1\n").unwrap();
        assert_eq!(TargetSpec::resolve(text).unwrap(), TargetSpec::File(path));
    }
}
