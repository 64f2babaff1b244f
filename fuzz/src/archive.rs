//! Archives, plain or compressed: any bytes are unpacked within bounds or refused.

use trimtab::bench::tree::archive::unpack;
use trimtab_drive::units::Bytes;

/// Limit on the size of names and contents.
const MOST: Bytes = Bytes(1 << 20);

/// Runs one input.
pub fn run(bytes: &[u8]) {
    if let Ok(archive) = unpack(std::io::Cursor::new(bytes.to_vec()), MOST) {
        assert!(archive.list.files() > 0 && archive.list.size() <= MOST);
    }
}
