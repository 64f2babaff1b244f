//! Every drive with an erase limit eventually wears out, with any other options.

use super::*;

/// Writes at random, with pauses, until the drive is read-only or `bytes_max` bytes are
/// written. Returns the bytes written.
fn write_until_worn(ssd: &mut Ssd, bytes_max: u64) -> u64 {
    let mut rng = crate::rng::Stream::new(3, "wear-out");
    let (unit, units) =
        (ssd.layout().unit_bytes, ssd.spec().capacity_bytes / ssd.layout().unit_bytes);
    let (mut now, mut written) = (Nanos(0), 0);
    while written < bytes_max {
        let len = rng.between(1, 16).min(units);
        let extent = Extent { offset: rng.below(units - len + 1) * unit, len: len * unit };
        let command = if rng.chance(0.02) {
            Command::trim(core::slice::from_ref(&extent))
        } else {
            Command::Write(extent, DataClass::Random)
        };
        let done = ssd.submit(now, &command);
        match done.result {
            Err(refusal) => {
                assert_eq!(refusal, Refusal::ReadOnly);
                return written;
            }
            Ok(()) => written += if matches!(command, Command::Write(..)) { extent.len } else { 0 },
        }
        now = done.done;
        if rng.chance(0.01) {
            now += Nanos(2_000_000_000);
            ssd.idle(now);
        }
    }
    written
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn wear_out_exceeds_erase_limit_by_at_most_one(
        spec in any_spec(),
        limit in 1_u32..24,
        spread in prop_oneof![Just(0_u16), Just(200), 0_u16..999],
        level in proptest::option::of(2_u32..8),
        high in 0_u32..3,
    ) {
        let mut spec = spec;
        let flash = &mut spec.flash;
        flash.ftl.wear =
            Wear { dynamic: flash.ftl.wear.dynamic, static_spread_max: level, erase_limit: Some(limit), erase_limit_spread_permille: spread };
        flash.ftl.gc.free_high += high;
        let blocks = flash.geometry.dies() / u64::from(flash.geometry.superblock_dies);
        flash.geometry.blocks_per_plane += u32::from(high > 0) * high.div_ceil(blocks as u32);
        let most = limit + limit * u32::from(spread) / 1000;
        let raw = flash.geometry.raw_bytes() as u64;
        let mut ssd = Ssd::new(&spec, 5).unwrap();
        let bytes_max = raw * u64::from(most + 2);
        let written = write_until_worn(&mut ssd, bytes_max);
        prop_assert!(written < bytes_max, "accepts writes after {written} bytes");
        let worn = *ssd.erase_counts().iter().max().unwrap();
        // The last free superblock is needed by the running collection, and retires an
        // erase later.
        prop_assert!(worn <= most + 1, "a superblock was erased {worn} times, limit {most}");
        ssd.check_invariants().map_err(TestCaseError::fail)?;
    }
}
