//! Drive specification files: any file is read or refused with one line. An accepted
//! drive of testable size runs, whatever its parameters.

use trimtab_drive::data::DataClass;
use trimtab_drive::rng::Stream;
use trimtab_drive::spec::DriveSpec;
use trimtab_drive::spec::file;
use trimtab_drive::ssd::Ssd;
use trimtab_drive::units::Nanos;
use trimtab_drive::{Command, Device, Extent, Ranges};

/// Runs one input.
pub fn run(text: &str) {
    match file::parse(text) {
        Err(message) => assert!(!message.is_empty() && !message.contains('\n'), "{message:?}"),
        Ok(drive) => try_it(&drive.spec),
    }
}

/// Larger drives are not tested: scanning their tables takes too long.
const TABLE_MAX: u128 = 1 << 15;

fn try_it(spec: &DriveSpec) {
    let flash = &spec.flash;
    let smallest = u128::from(flash.ftl.mapping_unit_bytes)
        .min(flash.compression.as_ref().map_or(u128::MAX, |c| c.granularity_bytes.into()));
    if flash.geometry.raw_bytes() / smallest > TABLE_MAX
        || flash.geometry.superblocks() > 1 << 12
        || flash.geometry.dies() > 1 << 10
    {
        return;
    }
    let mut ssd = Ssd::new(spec, 1).expect("the specification was checked");
    used(&mut ssd);
    ssd.check_invariants().expect("nothing that a drive goes through breaks it");
}

/// Writes more than the drive's capacity, with all other commands in between. The drive
/// may refuse commands but must stay consistent.
fn used(drive: &mut dyn Device) {
    let (size, block) = (drive.size().0, u64::from(drive.logical_block()));
    let blocks = size / block;
    let mut draw = Stream::new(1, "fuzz");
    let mut now = Nanos(0);
    for _ in 0..400 {
        let len = draw.between(1, (blocks / 100).max(1));
        let extent = Extent { offset: draw.below(blocks - len + 1) * block, len: len * block };
        let command = match draw.below(10) {
            0 => Command::Read(extent),
            1 => Command::Trim(Ranges::One(extent)),
            2 => Command::Flush,
            n => Command::Write(extent, DataClass::Measured(n as u16 * 100)),
        };
        let completion = drive.submit(now, &command);
        assert!(completion.done >= now);
        now = if draw.below(2) == 0 { completion.done } else { now };
    }
    drive.idle(now + Nanos::from_secs(60));
}
