//! What the kernel and a FUSE server leave in each other's memory when they speak over io_uring.
//!
//! Layouts and numbers by `linux/fuse.h` of protocol 7.42 (Linux 6.14), and its documentation `filesystems/fuse/fuse-io-uring`. All integers are of the host's byte order.

use super::{FOREVER, OPENED};
use crate::sys::fuse_ring::Headers;
use fuser::{FileAttr, FileType};
use rustix::io::Errno;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Of a name in a directory; the name is the payload.
    Lookup {
        parent: u64,
    },
    GetAttributes {
        inode: u64,
    },
    Open {
        inode: u64,
    },
    OpenDirectory,
    Read {
        offset: u64,
        len: u32,
    },
    Write {
        offset: u64,
        len: u32,
    },
    StatFs,
    Sync,
    Allocate {
        offset: u64,
        len: u64,
        mode: i32,
    },
    /// Release, flush, the end: nothing to do but to agree.
    Agree,
    /// Nothing that this filesystem knows.
    Other,
}

impl Headers {
    /// What the request asks for.
    pub fn operation(&self) -> Operation {
        let inode = u64_at(&self.in_out, 16);
        let argument = &self.argument;
        match u32_at(&self.in_out, 4) {
            1 => Operation::Lookup { parent: inode },
            3 => Operation::GetAttributes { inode },
            14 => Operation::Open { inode },
            15 => Operation::Read { offset: u64_at(argument, 8), len: u32_at(argument, 16) },
            16 => Operation::Write { offset: u64_at(argument, 8), len: u32_at(argument, 16) },
            17 => Operation::StatFs,
            18 | 25 | 29 | 38 => Operation::Agree,
            20 => Operation::Sync,
            27 => Operation::OpenDirectory,
            43 => Operation::Allocate { offset: u64_at(argument, 8), len: u64_at(argument, 16), mode: u32_at(argument, 24).cast_signed() },
            _ => Operation::Other,
        }
    }

    /// Answers the request whose headers these are: with so many bytes of payload, or an error.
    pub fn answer(&mut self, result: Result<usize, Errno>) {
        let (payload, error) = match result {
            Ok(bytes) => (bytes as u32, 0),
            Err(errno) => (0, -errno.raw_os_error()),
        };
        // The request's number stands at the same place in both headers.
        put(&mut self.in_out, 0, &(16 + payload).to_ne_bytes());
        put(&mut self.in_out, 4, &error.to_ne_bytes());
        self.payload_bytes = payload;
    }
}

/// `struct fuse_attr_out`.
pub fn attributes(into: &mut [u8], attr: &FileAttr) -> usize {
    put(into, 0, &FOREVER.as_secs().to_ne_bytes());
    put(into, 8, &[0; 8]);
    16 + attr_at(into, 16, attr)
}

/// `struct fuse_entry_out`.
pub fn entry(into: &mut [u8], attr: &FileAttr) -> usize {
    into[..40].fill(0);
    put(into, 0, &attr.ino.0.to_ne_bytes());
    put(into, 16, &FOREVER.as_secs().to_ne_bytes());
    put(into, 24, &FOREVER.as_secs().to_ne_bytes());
    40 + attr_at(into, 40, attr)
}

/// `struct fuse_open_out`, of the file or a directory.
pub fn opened(into: &mut [u8], file: bool) -> usize {
    into[..16].fill(0);
    put(into, 8, &(if file { OPENED.bits() } else { 0 }).to_ne_bytes());
    16
}

/// `struct fuse_write_out`.
pub fn written(into: &mut [u8], bytes: u32) -> usize {
    put(into, 0, &bytes.to_ne_bytes());
    put(into, 4, &[0; 4]);
    8
}

/// `struct fuse_statfs_out` of a full filesystem of one file.
pub fn statfs(into: &mut [u8], size: u64, block: u32) -> usize {
    into[..80].fill(0);
    put(into, 0, &(size / u64::from(block)).to_ne_bytes());
    put(into, 24, &1_u64.to_ne_bytes());
    for (at, value) in [(40, block), (44, 255), (48, block)] {
        put(into, at, &value.to_ne_bytes());
    }
    80
}

/// `struct fuse_attr`; what can be told of a file by its kind and size.
fn attr_at(into: &mut [u8], at: usize, attr: &FileAttr) -> usize {
    let into = &mut into[at..at + 88];
    into.fill(0);
    let since = attr.mtime.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    for (at, value) in [(0, attr.ino.0), (8, attr.size), (16, attr.blocks)] {
        put(into, at, &value.to_ne_bytes());
    }
    for nth in 0..3 {
        put(into, 24 + 8 * nth, &since.as_secs().to_ne_bytes());
        put(into, 48 + 4 * nth, &since.subsec_nanos().to_ne_bytes());
    }
    let kind = if attr.kind == FileType::Directory { libc::S_IFDIR } else { libc::S_IFREG };
    for (at, value) in [(60, kind | u32::from(attr.perm)), (64, attr.nlink), (68, attr.uid), (72, attr.gid), (80, attr.blksize)] {
        put(into, at, &value.to_ne_bytes());
    }
    88
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(std::array::from_fn(|nth| bytes[at + nth]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(std::array::from_fn(|nth| bytes[at + nth]))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A request with arguments of 64 bits and so much payload.
    pub fn request(opcode: u32, inode: u64, arguments: &[u64], payload_bytes: u32) -> Headers {
        let mut headers = Headers::new();
        put(&mut headers.in_out, 4, &opcode.to_ne_bytes());
        put(&mut headers.in_out, 8, &77_u64.to_ne_bytes());
        put(&mut headers.in_out, 16, &inode.to_ne_bytes());
        for (nth, argument) in arguments.iter().enumerate() {
            put(&mut headers.argument, 8 * nth, &argument.to_ne_bytes());
        }
        headers.payload_bytes = payload_bytes;
        headers
    }

    /// The error and the bytes of payload of an answer, which has the number of its request.
    pub fn answer_of(headers: &Headers) -> (i32, u32) {
        assert_eq!(u64_at(&headers.in_out, 8), 77);
        assert_eq!(u32_at(&headers.in_out, 0), 16 + headers.payload_bytes);
        (u32_at(&headers.in_out, 4).cast_signed(), headers.payload_bytes)
    }
}
