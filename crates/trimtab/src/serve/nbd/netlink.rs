//! What the kernel's NBD client is told, in generic netlink: `linux/nbd-netlink.h`, `linux/genetlink.h`.
//!
//! Three kinds of messages with a few numbers in them; they are made and read here, byte by byte.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::netlink::{GENERIC, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;

/// `GENL_ID_CTRL`, `CTRL_CMD_GETFAMILY` and its two attributes.
const CONTROLLER: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// `NLM_F_REQUEST`, `NLM_F_ACK`, `NLMSG_ERROR`, `NLA_F_NESTED`
const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
const ERROR: u16 = 2;
const NESTED: u16 = 1 << 15;
/// Of a message: length, kind, flags, number, sender; then command and version.
const HEADER_BYTES: usize = 16;
const COMMAND_BYTES: usize = 4;

/// `NBD_CMD_CONNECT`
pub const CONNECT: u8 = 1;
/// `NBD_CMD_DISCONNECT`
pub const DISCONNECT: u8 = 2;
/// `NBD_CMD_RECONFIGURE`
pub const RECONFIGURE: u8 = 3;

const INDEX: u16 = 1;
const SIZE_BYTES: u16 = 2;
const BLOCK_SIZE_BYTES: u16 = 3;
const TIMEOUT: u16 = 4;
const SERVER_FLAGS: u16 = 5;
const CLIENT_FLAGS: u16 = 6;
const SOCKETS: u16 = 7;
const DEAD_CONN_TIMEOUT: u16 = 8;
const BACKEND_IDENTIFIER: u16 = 10;
const SOCKET_ITEM: u16 = 1;
const SOCKET_FD: u16 = 1;

/// Attributes of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes(Vec<u8>);

impl Attributes {
    /// The device's number.
    #[must_use]
    pub fn index(self, index: u32) -> Self {
        self.with(INDEX, &index.to_ne_bytes())
    }

    /// Bytes of the device.
    #[must_use]
    pub fn size(self, bytes: u64) -> Self {
        self.with(SIZE_BYTES, &bytes.to_ne_bytes())
    }

    /// Bytes of a logical block.
    #[must_use]
    pub fn block_size(self, bytes: u32) -> Self {
        self.with(BLOCK_SIZE_BYTES, &u64::from(bytes).to_ne_bytes())
    }

    /// Seconds after which a request that was not answered is sent over another connection.
    #[must_use]
    pub fn timeout(self, seconds: u64) -> Self {
        self.with(TIMEOUT, &seconds.to_ne_bytes())
    }

    /// What the server can do: the transmission flags.
    #[must_use]
    pub fn server_flags(self, flags: u16) -> Self {
        self.with(SERVER_FLAGS, &u64::from(flags).to_ne_bytes())
    }

    /// What the client is to do.
    #[must_use]
    pub fn client_flags(self, flags: u64) -> Self {
        self.with(CLIENT_FLAGS, &flags.to_ne_bytes())
    }

    /// Seconds for which requests wait for another connection when there is none.
    #[must_use]
    pub fn dead_connection_timeout(self, seconds: u64) -> Self {
        self.with(DEAD_CONN_TIMEOUT, &seconds.to_ne_bytes())
    }

    /// What the device is recognised by.
    #[must_use]
    pub fn backend(self, name: &str) -> Self {
        self.with(BACKEND_IDENTIFIER, &[name.as_bytes(), &[0]].concat())
    }

    /// Descriptors of the connections.
    #[must_use]
    pub fn sockets(self, descriptors: &[i32]) -> Self {
        let items = descriptors.iter().fold(Self::default(), |items, descriptor| {
            items.with(SOCKET_ITEM | NESTED, &Self::default().with(SOCKET_FD, &descriptor.to_ne_bytes()).0)
        });
        self.with(SOCKETS | NESTED, &items.0)
    }

    fn with(mut self, kind: u16, value: &[u8]) -> Self {
        self.0.extend((4 + value.len() as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }
}

/// The value of an attribute.
fn find(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let (len, kind) = (number(attributes, 0)?, number(attributes, 2)? & !NESTED);
        let value = attributes.get(4..usize::from(len))?;
        if kind == wanted {
            return Some(value);
        }
        attributes = attributes.get(usize::from(len).next_multiple_of(4)..)?;
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}

fn long_number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

fn message(family: u16, command: u8, attributes: &Attributes) -> Vec<u8> {
    let mut bytes = ((HEADER_BYTES + COMMAND_BYTES + attributes.0.len()) as u32).to_ne_bytes().to_vec();
    bytes.extend(family.to_ne_bytes());
    bytes.extend((REQUEST | ACKNOWLEDGE).to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([command, 1, 0, 0]);
    bytes.extend(&attributes.0);
    bytes
}

/// What one datagram says: the attributes of an answer, and how the command ended, if it says so.
fn read(mut datagram: &[u8]) -> (Option<Vec<u8>>, Option<Result<(), Errno>>) {
    let (mut answer, mut end) = (None, None);
    while let Some(len) = long_number(datagram, 0).map(|len| len as usize).filter(|len| (HEADER_BYTES..=datagram.len()).contains(len)) {
        if number(datagram, 4) == Some(ERROR) {
            end = long_number(&datagram[..len], HEADER_BYTES).map(|error| match (error as i32).wrapping_neg() {
                0 => Ok(()),
                errno => Err(Errno::from_raw_os_error(errno)),
            });
        } else {
            answer = datagram[..len].get(HEADER_BYTES + COMMAND_BYTES..).map(<[u8]>::to_vec);
        }
        datagram = datagram.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    (answer, end)
}

/// The kernel's NBD client.
pub struct Client {
    socket: OwnedFd,
    family: u16,
}

impl Client {
    /// Finds it.
    ///
    /// # Errors
    /// `ENOENT` if it is not there.
    pub fn open() -> io::Result<Self> {
        let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(GENERIC))?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 0))?;
        let mut this = Self { socket, family: CONTROLLER };
        let answer = this.ask(GET_FAMILY, &Attributes::default().with(FAMILY_NAME, b"nbd\0"))?;
        this.family = find(&answer, FAMILY_ID).and_then(|id| number(id, 0)).ok_or_else(strange)?;
        Ok(this)
    }

    /// Has it carry out a command; gives the number of the device, if it says one.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn command(&self, command: u8, attributes: &Attributes) -> io::Result<Option<u32>> {
        let answer = self.ask(command, attributes)?;
        Ok(find(&answer, INDEX).and_then(|index| long_number(index, 0)))
    }

    fn ask(&self, command: u8, attributes: &Attributes) -> io::Result<Vec<u8>> {
        rustix::net::send(&self.socket, &message(self.family, command, attributes), SendFlags::empty())?;
        let mut answered = Vec::new();
        loop {
            let mut datagram = vec![0; 16 << 10];
            let (received, _) = match rustix::net::recv(&self.socket, &mut datagram[..], RecvFlags::empty()) {
                Err(Errno::INTR) => continue,
                received => received?,
            };
            let (answer, end) = read(&datagram[..received]);
            answered = answer.unwrap_or(answered);
            if let Some(end) = end {
                return Ok(end.map(|()| answered)?);
            }
            if received == 0 {
                return Err(strange());
            }
        }
    }
}

fn strange() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the kernel answers in a way that this program does not know")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_as_the_headers_say() {
        let bytes = message(0x1C, DISCONNECT, &Attributes::default().index(3));
        let mut expected = vec![28, 0, 0, 0, 0x1C, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0];
        expected.extend([8, 0, 1, 0, 3, 0, 0, 0]);
        assert_eq!(bytes, expected);
        assert_eq!(Attributes::default().backend("abc").0, [8, 0, 10, 0, b'a', b'b', b'c', 0]);
        assert_eq!(Attributes::default().backend("abcd").0, [9, 0, 10, 0, b'a', b'b', b'c', b'd', 0, 0, 0, 0], "padded");
        let sockets = Attributes::default().sockets(&[5, 6]).0;
        assert_eq!(sockets[..4], [28, 0, 7, 0x80]);
        assert_eq!(sockets[4..16], [12, 0, 1, 0x80, 8, 0, 1, 0, 5, 0, 0, 0]);
    }

    #[test]
    fn attributes_are_found_among_others() {
        let attributes = Attributes::default().backend("abcd").size(1 << 40).index(7).0;
        assert_eq!(find(&attributes, INDEX), Some(7_u32.to_ne_bytes().as_slice()));
        assert_eq!(find(&attributes, SIZE_BYTES), Some((1_u64 << 40).to_ne_bytes().as_slice()));
        assert_eq!(find(&attributes, TIMEOUT), None);
        assert_eq!((find(&[4, 0, 9], INDEX), find(&[40, 0, 1, 0, 1], INDEX), find(&[0; 8], INDEX)), (None, None, None));
    }

    #[test]
    fn an_answer_and_its_end_are_told_apart() {
        let mut datagram = message(0x1C, CONNECT, &Attributes::default().index(7));
        datagram.extend([36, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        datagram.extend((-libc::EBUSY).to_ne_bytes());
        datagram.extend([0; 16]);
        let (answer, end) = read(&datagram);
        assert_eq!(answer.as_deref().and_then(|answer| find(answer, INDEX)), Some(7_u32.to_ne_bytes().as_slice()));
        assert_eq!(end, Some(Err(Errno::BUSY)));
        datagram.truncate(28 + 16);
        datagram.extend([0; 20]);
        assert_eq!(read(&datagram).1, Some(Ok(())));
        assert_eq!((read(&[]), read(&[255; 16])), ((None, None), (None, None)));
    }

    /// Whether or not there is a client, the kernel has to understand the question.
    #[test]
    fn the_kernel_understands() {
        match Client::open() {
            Ok(client) => assert!(client.family > CONTROLLER),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOENT), "{error}"),
        }
    }
}
