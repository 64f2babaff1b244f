//! Recordings of what a host sent to a drive: written by the virtual SSD, read by `trimtab drive replay` and by whoever
//! understands fio's iolog or blkparse's text.
//!
//! # The format, version 1
//!
//! All fixed-width numbers are little-endian; a varint is LEB128 (seven bits a byte, the lowest first).
//!
//! ```text
//! file    = "TRIMTRC1" header block* end
//! header  = u32 length, u32 CRC-32 of the JSON, JSON (see `Header`)
//! block   = u32 stored length (not 0), u32 raw length, u32 records, u32 CRC-32 of the stored bytes, stored bytes
//! end     = u32 0, u64 records in the file, u32 CRC-32 of those eight bytes
//! ```
//!
//! A block's stored bytes are its raw bytes compressed with Zstandard. The raw bytes are records one after another;
//! time and position start from 0 in each block, so that every block can be read by itself:
//!
//! ```text
//! record  = u8 kind and flags
//!           varint nanoseconds since the record before (in model time)
//!           varint zigzag(first logical block - the one after the range of the record before)    not for a flush
//!           varint logical blocks                                                                 not for a flush
//!           varint class of the data: 0-1000 per mille that compression leaves (measured), 1001 zero,
//!                  1002 random, 1003 text, 1100-1200 generated as 0-100 % compressible                    writes only
//!           varint nanoseconds until it completed
//!           varint error number                                                                   if failed
//! kind and flags: bits 0-1: 0 read, 1 write, 2 trim, 3 flush; bit 2: FUA; bit 3: failed;
//!                 bit 4: the next record is another range of the same TRIM command
//! ```
//!
//! A recording that was cut off (the machine crashed) lacks the end; a reader says so after the last whole block.

pub mod checksum;
mod export;
mod format;
mod source;
pub mod timing;

pub use export::{ExportFormat, export};
pub use format::{Block, Header, Packer, Reader, Writer};
pub use source::Source;
pub use trimtab_sim::trace::{Event, Kind};
