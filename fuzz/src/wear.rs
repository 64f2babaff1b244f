//! JSON of smartctl and nvme-cli. It is read or refused, figures are finite and in order,
//! and a reading compared with itself shows no change.

use trimtab_linux::wear;
use trimtab_linux::wear::assessment::assess;
use trimtab_linux::wear::outlook::Warranty;

/// Runs one input.
pub fn run(bytes: &[u8]) {
    let Ok(reading) = wear::parse(bytes) else { return };
    if let Some(waf) = reading.waf_counters.as_ref().and_then(wear::WafCounters::lifetime) {
        assert!(waf.value.is_finite() && waf.value > 0.0);
        assert!(waf.low <= waf.value && waf.high.is_none_or(|high| waf.value <= high));
    }
    assert!(reading.model.as_ref().is_none_or(|model| model.chars().count() <= 200));
    let warranty = Warranty::Dwpd { writes: 1.0, years: 5.0 };
    let drive = assess("drive".into(), reading.clone(), Some(&reading), Some(&warranty));
    // A reading dated in the future is compared with none.
    let Some(since) = drive.since.as_ref() else { return };
    assert!(
        !since.went_back && since.waf.is_none() && since.host_bytes.is_none_or(|bytes| bytes == 0)
    );
    assert!(drive.life_left.is_none(), "no time has passed");
    serde_json::to_string(&drive).expect("it is data");
}
