//! Unix sockets with a name in the filesystem.

use super::beneath::{Dir, ObjectIdentity};
use anyhow::{Context as _, ensure};
use rustix::fs::{FileType, Mode, Stat};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::ffi::OsString;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// A listening socket. Dropping it removes the socket.
#[derive(Debug)]
pub struct BoundSocket {
    directory: Dir,
    name: OsString,
    /// Identity of the socket; its name may belong to another object by now.
    identity: ObjectIdentity,
}

impl BoundSocket {
    /// Listens on `path`; only the socket's owner may connect. Replaces a socket without
    /// a listener, and refuses other objects.
    pub fn listen(path: &Path) -> anyhow::Result<(Self, UnixListener)> {
        let shown = path.display();
        let (directory, name) =
            Dir::of_file(path).with_context(|| format!("cannot listen on {shown}"))?;
        if let Some(old) =
            directory.look(&name).with_context(|| format!("cannot examine {shown}"))?
        {
            ensure!(is_socket(&old), "{shown} exists and is not a socket");
            ensure!(ours(&old), "{shown} is another user's socket");
            ensure!(
                UnixStream::connect(directory.reach(&name)).is_err(),
                "another server listens on {shown}"
            );
            directory
                .remove_file_of(&name, ObjectIdentity::from(&old))
                .map(drop)
                .with_context(|| format!("cannot replace the old socket {shown}"))?;
        }
        let listener = listen_privately(&directory.reach(&name))
            .with_context(|| format!("cannot listen on {shown}"))?;
        let made =
            directory.look(&name).ok().flatten().filter(|made| is_socket(made) && ours(made));
        let identity = ObjectIdentity::from(
            &made.with_context(|| format!("{shown} was removed immediately after its creation"))?,
        );
        Ok((Self { directory, name, identity }, listener))
    }

    /// Lets the socket's group connect. Only for a directory in which no other user can
    /// replace the socket.
    pub fn allow_group(&self) -> io::Result<()> {
        self.directory.set_mode_of(&self.name, 0o660)
    }

    /// True if the socket is still at its path.
    pub fn is_in_place(&self) -> bool {
        let found = self.directory.look(&self.name);
        found.is_ok_and(|found| {
            found.is_some_and(|stat| self.identity == ObjectIdentity::from(&stat))
        })
    }

    /// Identity of the socket.
    pub const fn identity(&self) -> ObjectIdentity {
        self.identity
    }
}

impl Drop for BoundSocket {
    fn drop(&mut self) {
        // The name may belong to another object by now.
        let _ = self.directory.remove_file_of(&self.name, self.identity);
    }
}

fn ours(stat: &Stat) -> bool {
    stat.st_uid == rustix::process::geteuid().as_raw()
}

/// True for the status of a socket.
pub fn is_socket(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Socket
}

/// Removes the socket of a dead server: the one recorded as `made`, or without a record
/// one of this user's without a listener. Any other object stays.
pub fn remove_left(path: &Path, made: Option<ObjectIdentity>) -> io::Result<()> {
    let (directory, name) = match Dir::of_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let Some(found) = directory.look(&name)?.filter(|found| is_socket(found) && ours(found)) else {
        return Ok(());
    };
    let identity = ObjectIdentity::from(&found);
    if made.is_none_or(|made| made == identity)
        && UnixStream::connect(directory.reach(&name)).is_err()
    {
        // An object that has replaced it stays.
        let _ = directory.remove_file_of(&name, identity)?;
    }
    Ok(())
}

/// Listens on a socket that only its owner may connect to, from its creation on.
pub fn listen_privately(path: &Path) -> io::Result<UnixListener> {
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // Linux creates the name with the socket's mode at bind.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, 128)?;
    Ok(UnixListener::from(socket))
}
