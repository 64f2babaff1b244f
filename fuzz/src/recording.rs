//! Recordings of the virtual SSD: any bytes are read or refused, as a file and as the
//! content of a block with a correct checksum.

use trimtab_vssd::trace::checksum::{compress, crc32};
use trimtab_vssd::trace::{Packer, RecordingReader, TraceEvent, Writer};

/// Runs one input.
pub fn run(bytes: &[u8]) {
    if let Ok(reader) = RecordingReader::new(bytes) {
        let _ = reader.last();
    }
    if let Some((&count, raw)) = bytes.split_first() {
        inside(u32::from(count), raw);
    }
}

/// A recording of one block with these raw bytes. If it is valid, packing its events
/// again gives the same events.
fn inside(records: u32, raw: &[u8]) {
    let json = br#"{"drive":"x","size":1099511627776,"logical_block":512,"speed":"off","started_unix_ms":0,"tool_version":"0"}"#;
    let stored = compress(raw).expect("memory is enough");
    let mut file = b"TRIMTRC1".to_vec();
    let number = |n: u32| n.to_le_bytes();
    file.extend([number(json.len() as u32), number(crc32(json))].concat());
    file.extend(json);
    file.extend(
        [
            number(stored.len() as u32),
            number(raw.len() as u32),
            number(records),
            number(crc32(&stored)),
        ]
        .concat(),
    );
    file.extend(&stored);
    file.extend(number(0));
    let count = u64::from(records).to_le_bytes();
    file.extend(count);
    file.extend(number(crc32(&count)));
    let Ok(reader) = RecordingReader::new(file.as_slice()) else { return };
    let header = reader.header().clone();
    let events: Vec<TraceEvent> = reader.map_while(Result::ok).collect();
    let mut packer = Packer::new(header.logical_block);
    let mut again = Writer::new(Vec::new(), &header).expect("memory is enough");
    for event in &events {
        if let Some(block) = packer.push(event) {
            again.write_block(&block).expect("memory is enough");
        }
    }
    if let Some(block) = packer.take() {
        again.write_block(&block).expect("memory is enough");
    }
    let written = again.finish().expect("memory is enough");
    let back: Vec<TraceEvent> = RecordingReader::new(written.as_slice())
        .expect("it was just written")
        .map(|event| event.expect("it was just written"))
        .collect();
    assert_eq!(events, back);
}
