//! Derives engine settings from a drive specification.

use super::EngineSettings;
use crate::pace::Speed;
use trimtab_drive::interface::Interface;
use trimtab_drive::spec::DriveSpec;

impl EngineSettings {
    /// Settings for a drive of `spec`.
    pub fn of(spec: &DriveSpec, speed: Speed) -> Self {
        let Interface { geometry, trim, queue_depth, classify, trimmed_reads } = Interface::of(spec);
        Self { geometry, trim, speed, queue_depth, classify, trimmed_reads }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;
    use crate::persist;
    use crate::request::{Effect, Request, RequestServer as _};
    use trimtab_drive::Extent;
    use trimtab_drive::model;
    use trimtab_drive::spec::{Medium, TrimmedReads};
    use trimtab_drive::units::Bytes;

    #[test]
    fn trimmed_read_follows_spec_and_zeroed_reads_zeros() {
        for (reads, expected) in [(TrimmedReads::Zeros, 0), (TrimmedReads::Ones, 0xFF), (TrimmedReads::OldData, 7)] {
            let mut spec = model::sized(trimtab_drive::shipped::drive("ocz-vertex-le-100gb").spec, Some(Bytes(512 << 20))).unwrap();
            let Medium::Flash(flash) = &mut spec.medium else { panic!("an SSD") };
            flash.trim.reads = reads;
            let settings = EngineSettings::of(&spec, Speed::Unpaced);
            let engine = Engine::new(persist::in_memory(&spec, &settings, 1).unwrap(), settings, None);
            let byte = |offset| {
                let mut data = [0xEE; 4096];
                engine.serve(Request::Read { offset, into: &mut data }).result.unwrap();
                assert!(data.iter().all(|byte| *byte == data[0]));
                data[0]
            };
            for offset in [0, 4096, 8192] {
                engine.serve(Request::Write { offset, data: &[7; 4096], fua: false }).result.unwrap();
            }
            engine
                .serve(Request::Trim(&[Extent { offset: 0, len: 4096 }, Extent { offset: 1 << 20, len: 64 << 20 }], Effect::Usual))
                .result
                .unwrap();
            engine.serve(Request::Zero { extent: Extent { offset: 4096, len: 4096 }, may_unmap: true, fua: false }).result.unwrap();
            assert_eq!([byte(0), byte(4096), byte(8192), byte(1 << 20)], [expected, 0, 7, 0], "{reads:?}");
        }
    }
}
