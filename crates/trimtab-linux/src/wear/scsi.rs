//! SCSI: the error counter log and the solid state media log.

use super::value::Fields;
use super::{Counter, Reading, Used};
use serde_json::Value;

/// smartctl prints 10^9 bytes with three decimals.
const STEP_BYTES: u64 = 1_000_000;

/// Reads the logs. True if there is one.
pub fn read(document: &Value, reading: &mut Reading, fields: &mut Fields) -> bool {
    let log = &document["scsi_error_counter_log"];
    let percent = fields.count(document, "scsi_percentage_used_endurance_indicator");
    if !log.is_object() && percent.is_none() {
        return false;
    }
    let source = "SCSI error counter log, gigabytes processed by writes".to_owned();
    let processed = &log["write"]["gigabytes_processed"];
    let written =
        processed.as_str().and_then(thousandths).map(|mb| fields.bytes(mb, STEP_BYTES, &source));
    if processed.is_string() && written.is_none() {
        fields.remark("gigabytes_processed is not a decimal number".to_owned());
    }
    reading.host_written =
        written.flatten().map(|bytes| Counter { bytes, step_bytes: STEP_BYTES, source });
    reading.used = percent.filter(|percent| *percent <= u64::from(u8::MAX)).map(|percent| Used {
        percent,
        is_standard: true,
        source: "SCSI solid state media log, percentage used".to_owned(),
    });
    true
}

/// `127551.260` as 127,551,260. smartctl prints three decimals, in some locales after a
/// comma.
fn thousandths(text: &str) -> Option<u64> {
    let comma = || text.split_once(',').filter(|(_, decimals)| decimals.len() == 3);
    let (whole, decimals) = text.split_once('.').or_else(comma).unwrap_or((text, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(decimals) || decimals.len() > 3 {
        return None;
    }
    let decimals: u64 = format!("{decimals:0<3}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(decimals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousandths_reads_decimals_exactly() {
        assert_eq!(
            ["127551.260", "0.5", "7", "2124,590", "0,000"].map(thousandths),
            [Some(127_551_260), Some(500), Some(7_000), Some(2_124_590), Some(0)]
        );
        assert_eq!(
            ["x", "1.2345", "-1", "1.", "", "1,5", "2,124,590", "2.124,590"].map(thousandths),
            [None; 8]
        );
    }
}
