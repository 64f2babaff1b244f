//! Encoding of the transmission phase.

use rustix::io::Errno;
use std::io::{self, Read};

const REQUEST_MAGIC: u32 = 0x2560_9513;
const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
const FLAG_FUA: u16 = 1;
const FLAG_NO_HOLE: u16 = 1 << 1;

/// The command of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NbdCommand {
    /// `NBD_CMD_READ`
    Read,
    /// `NBD_CMD_WRITE`
    Write,
    /// `NBD_CMD_DISC`
    Disconnect,
    /// `NBD_CMD_FLUSH`
    Flush,
    /// `NBD_CMD_TRIM`
    Trim,
    /// `NBD_CMD_WRITE_ZEROES`
    WriteZeroes,
}

impl NbdCommand {
    /// The flags valid for the command. FUA is always valid, without effect if nothing is
    /// written.
    const fn flags(self) -> u16 {
        if matches!(self, Self::WriteZeroes) { FLAG_FUA | FLAG_NO_HOLE } else { FLAG_FUA }
    }
}

/// A request without the data of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NbdHeader {
    /// Durable when answered.
    pub fua: bool,
    /// A zero-write that keeps the space allocated.
    pub no_hole: bool,
    /// It has flags that its command does not define.
    pub strange: bool,
    /// `None` for an unknown command.
    pub command: Option<NbdCommand>,
    /// The client's id of the request.
    pub cookie: u64,
    /// Byte offset.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
}

impl NbdHeader {
    /// Reads the next request.
    pub fn read(input: &mut impl Read) -> io::Result<Self> {
        let magic = u32::from_be_bytes(read_array(input)?);
        if magic != REQUEST_MAGIC {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("it sent {magic:#010x} instead of a request"),
            ));
        }
        let flags = u16::from_be_bytes(read_array(input)?);
        let command = match u16::from_be_bytes(read_array(input)?) {
            0 => Some(NbdCommand::Read),
            1 => Some(NbdCommand::Write),
            2 => Some(NbdCommand::Disconnect),
            3 => Some(NbdCommand::Flush),
            4 => Some(NbdCommand::Trim),
            6 => Some(NbdCommand::WriteZeroes),
            _ => None,
        };
        Ok(Self {
            fua: flags & FLAG_FUA != 0,
            no_hole: flags & FLAG_NO_HOLE != 0,
            strange: command.is_some_and(|command| flags & !command.flags() != 0),
            command,
            cookie: u64::from_be_bytes(read_array(input)?),
            offset: u64::from_be_bytes(read_array(input)?),
            len: u32::from_be_bytes(read_array(input)?),
        })
    }
}

/// A simple reply to the request `cookie`.
pub fn simple_reply(cookie: u64, result: Result<(), Errno>) -> [u8; 16] {
    let mut reply = [0; 16];
    reply[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    reply[4..8].copy_from_slice(&result.map_or_else(error_number, |()| 0).to_be_bytes());
    reply[8..].copy_from_slice(&cookie.to_be_bytes());
    reply
}

/// Converts the error to one of the few numbers that the protocol defines.
fn error_number(errno: Errno) -> u32 {
    match errno {
        Errno::INVAL | Errno::NOSPC | Errno::PERM | Errno::NOMEM | Errno::OVERFLOW => {
            errno.raw_os_error() as u32
        }
        Errno::OPNOTSUPP => 95,
        _ => Errno::IO.raw_os_error() as u32,
    }
}

/// Reads exactly `N` bytes.
pub fn read_array<const N: usize>(input: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}
