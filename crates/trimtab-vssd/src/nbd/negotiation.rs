//! The handshake: negotiates options and describes the export.

use super::REQUEST_BYTES_MAX;
use super::wire::read_array;
use crate::request::Geometry;
use std::io::{self, Read, Write};

const OPTION_MAGIC: u64 = 0x4948_4156_454F_5054;
const REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// `NBD_FLAG_FIXED_NEWSTYLE`, `NBD_FLAG_NO_ZEROES`
const HANDSHAKE_FLAGS: u16 = 1 | 2;
const CLIENT_NO_ZEROES: u32 = 2;

const OPT_EXPORT_NAME: u32 = 1;
const OPT_ABORT: u32 = 2;
const OPT_LIST: u32 = 3;
const OPT_INFO: u32 = 6;
const OPT_GO: u32 = 7;

const REP_ACK: u32 = 1;
const REP_SERVER: u32 = 2;
const REP_INFO: u32 = 3;
const REP_ERR_UNSUP: u32 = (1 << 31) + 1;
const REP_ERR_INVALID: u32 = (1 << 31) + 3;
const REP_ERR_UNKNOWN: u32 = (1 << 31) + 6;

const INFO_EXPORT: u16 = 0;
const INFO_BLOCK_SIZE: u16 = 3;

const OPTION_BYTES_MAX: u32 = 64 << 10;

/// Negotiates; false if the client has ended the session.
pub fn negotiate(
    input: &mut impl Read,
    output: &mut impl Write,
    geometry: &Geometry,
) -> io::Result<bool> {
    let mut greeting = b"NBDMAGIC".to_vec();
    greeting.extend(OPTION_MAGIC.to_be_bytes());
    greeting.extend(HANDSHAKE_FLAGS.to_be_bytes());
    output.write_all(&greeting)?;
    let client_flags = u32::from_be_bytes(read_array(input)?);
    if client_flags & !u32::from(HANDSHAKE_FLAGS) != 0 {
        return Err(bad(format!("it set unknown flags {client_flags:#x}")));
    }
    loop {
        let magic = u64::from_be_bytes(read_array(input)?);
        if magic != OPTION_MAGIC {
            return Err(bad(format!("it sent {magic:#018x} instead of an option")));
        }
        let option = u32::from_be_bytes(read_array(input)?);
        let len = u32::from_be_bytes(read_array(input)?);
        if len > OPTION_BYTES_MAX {
            return Err(bad(format!("it sent an option of {len} bytes")));
        }
        let mut data = vec![0; len as usize];
        input.read_exact(&mut data)?;
        match option {
            OPT_EXPORT_NAME if data.is_empty() => {
                let mut answer = geometry.size.to_be_bytes().to_vec();
                answer.extend(transmission_flags(geometry).to_be_bytes());
                if client_flags & CLIENT_NO_ZEROES == 0 {
                    answer.extend([0; 124]);
                }
                output.write_all(&answer)?;
                return Ok(true);
            }
            // This option can only be refused by disconnecting.
            OPT_EXPORT_NAME => {
                return Err(bad(
                    "it asked for a named export, but only the default one exists".to_owned()
                ));
            }
            OPT_ABORT => {
                reply(output, option, REP_ACK, &[])?;
                return Ok(false);
            }
            OPT_LIST if data.is_empty() => {
                reply(output, option, REP_SERVER, &0_u32.to_be_bytes())?;
                reply(output, option, REP_ACK, &[])?;
            }
            OPT_LIST => reply(output, option, REP_ERR_INVALID, b"NBD_OPT_LIST takes no data")?,
            OPT_INFO | OPT_GO => {
                match data.first_chunk::<4>().map(|len| u32::from_be_bytes(*len)) {
                    Some(0) => {
                        describe(output, option, geometry)?;
                        if option == OPT_GO {
                            return Ok(true);
                        }
                    }
                    Some(_) => {
                        reply(output, option, REP_ERR_UNKNOWN, b"there is only the default export")?
                    }
                    None => reply(output, option, REP_ERR_INVALID, b"the option is too short")?,
                }
            }
            _ => reply(output, option, REP_ERR_UNSUP, b"")?,
        }
    }
}

fn describe(output: &mut impl Write, option: u32, geometry: &Geometry) -> io::Result<()> {
    let mut export = INFO_EXPORT.to_be_bytes().to_vec();
    export.extend(geometry.size.to_be_bytes());
    export.extend(transmission_flags(geometry).to_be_bytes());
    reply(output, option, REP_INFO, &export)?;
    let mut blocks = INFO_BLOCK_SIZE.to_be_bytes().to_vec();
    for size in [geometry.logical_block, geometry.logical_block.max(4096), REQUEST_BYTES_MAX] {
        blocks.extend(size.to_be_bytes());
    }
    reply(output, option, REP_INFO, &blocks)?;
    reply(output, option, REP_ACK, &[])
}

/// Transmission flags of the export.
fn transmission_flags(geometry: &Geometry) -> u16 {
    const HAS_FLAGS: u16 = 1;
    const SEND_FLUSH: u16 = 1 << 2;
    const SEND_FUA: u16 = 1 << 3;
    const SEND_TRIM: u16 = 1 << 5;
    const SEND_WRITE_ZEROES: u16 = 1 << 6;
    const CAN_MULTI_CONN: u16 = 1 << 8;
    let mut flags = HAS_FLAGS | SEND_FLUSH | SEND_FUA | SEND_WRITE_ZEROES | CAN_MULTI_CONN;
    if geometry.discard_granularity > 0 {
        flags |= SEND_TRIM;
    }
    flags
}

fn reply(output: &mut impl Write, option: u32, kind: u32, data: &[u8]) -> io::Result<()> {
    let mut bytes = REPLY_MAGIC.to_be_bytes().to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    output.write_all(&bytes)
}

fn bad(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GEOMETRY: Geometry = Geometry {
        size: 1 << 30,
        logical_block: 512,
        atomic_write: 512,
        discard_granularity: 512,
        discard_max_bytes: 1 << 20,
        volatile_cache: true,
    };

    fn option(option: u32, data: &[u8]) -> Vec<u8> {
        let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
        bytes.extend(option.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn negotiate_refuses_unknown_options_and_describes_drive() {
        let mut input = 3_u32.to_be_bytes().to_vec();
        input.extend(option(11, &[]));
        input.extend(option(OPT_GO, &[0, 0, 0, 1, b'x', 0, 0]));
        input.extend(option(OPT_GO, &[0, 0, 0, 0, 0, 0]));
        let mut output = Vec::new();
        assert!(negotiate(&mut input.as_slice(), &mut output, &GEOMETRY).unwrap());
        let has = |needle: &[u8]| output.windows(needle.len()).any(|window| window == needle);
        assert!(has(&REP_ERR_UNSUP.to_be_bytes()) && has(&REP_ERR_UNKNOWN.to_be_bytes()));
        assert!(has(&(1_u64 << 30).to_be_bytes()), "the size");
    }

    proptest! {
        #[test]
        fn negotiate_never_panics_or_loops(bytes in prop::collection::vec(any::<u8>(), 0..300), flags in 0_u32..4) {
            let mut input = flags.to_be_bytes().to_vec();
            input.extend(OPTION_MAGIC.to_be_bytes());
            input.extend(bytes);
            let _ = negotiate(&mut input.as_slice(), &mut Vec::new(), &GEOMETRY);
        }
    }
}
