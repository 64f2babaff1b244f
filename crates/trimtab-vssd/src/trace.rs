//! Recordings of the requests of a host: written by the virtual SSD, read by `trimtab
//! drive replay`, and exported as fio's iolog.
//!
//! # The format, version 1
//!
//! Fixed-width numbers are little-endian; a varint is LEB128 (seven bits a byte, lowest
//! first).
//!
//! ```text
//! file    = "TRIMTRC1" header block* end
//! header  = u32 length, u32 CRC-32 of the JSON, JSON (see `Header`)
//! block   = u32 stored length (not 0), u32 raw length, u32 records, u32 CRC-32 of the stored bytes, stored bytes
//! end     = u32 0, u64 records in the file, u32 CRC-32 of those eight bytes
//! ```
//!
//! The stored bytes of a block are its raw bytes, compressed with deflate. The raw bytes
//! are a sequence of records; time and position restart at 0, so that each block can be
//! read alone:
//!
//! ```text
//! record  = u8 kind and flags
//!           varint nanoseconds since the previous record (in model time)
//!           varint zigzag(first logical block - end of the previous record's range)              not for a flush
//!           varint logical blocks                                                                 not for a flush
//!           varint class of the data: 0-1000 compressed size in per mille (measured), 1001 zero,
//!                  1002 random, 1003 text, 1100-1200 generated as 0-100 % compressible                    writes only
//!           varint nanoseconds until it completed
//!           varint error number                                                                   if failed
//! kind and flags: bits 0-1: 0 read, 1 write, 2 trim, 3 flush; bit 2: FUA; bit 3: failed;
//!                 bit 4: the next record is another range of the same TRIM command
//! ```
//!
//! A truncated recording (after a crash) has no end; a reader reports it after the last
//! whole block.

pub mod checksum;
mod export;
mod format;
mod source;
pub mod timing;

pub use export::export;
pub use format::{Packer, RecordingBlock, RecordingHeader, RecordingReader, Writer};
pub use source::TraceSource;
pub use trimtab_sim::trace::{TraceEvent, TraceOpKind};
