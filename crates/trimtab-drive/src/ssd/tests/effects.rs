//! Each field of a specification has its documented effect.

mod caches;
mod collection;
mod time;
mod trims;

use super::small;
use crate::data::DataClass;
use crate::rng::Stream;
use crate::spec::*;
use crate::ssd::*;
use alloc::vec::Vec;

const KIB: u64 = 1024;
const MIB: u64 = 1 << 20;
const MS: u64 = 1_000_000;

/// 64 MiB over 4 dies: 4 KiB units, 256 KiB superblocks, over-provisioning of a third.
fn drive(change: impl FnOnce(&mut DriveSpec, &mut Flash)) -> Host {
    let spec = small(|spec, flash| {
        spec.capacity_bytes = 64 * MIB;
        flash.geometry = Geometry {
            channels: 2,
            dies_per_channel: 2,
            planes: 1,
            page_bytes: 4096,
            pages_per_block: 16,
            blocks_per_plane: 1,
            superblock_dies: 4,
            bits_per_cell: 3,
        }
        .with_over_provisioning(spec.capacity_bytes, 330);
        flash.write_cache.bytes = 256 * KIB;
        flash.write_cache.idle_write_out_ns = None;
        flash.ftl.gc.idle_delay_ns = None;
        change(spec, flash);
    });
    Host { ssd: Ssd::new(&spec, 5).unwrap(), now: Nanos(0), rng: Stream::new(5, "effects") }
}

/// A host with queue depth 1.
struct Host {
    ssd: Ssd,
    now: Nanos,
    rng: Stream,
}

impl Host {
    fn run(&mut self, command: &Command<'_>) -> u64 {
        let start = self.now;
        let completion = self.ssd.submit(start, command);
        assert_eq!(completion.result, Ok(()), "{command:?}");
        self.now = completion.done;
        self.now.0 - start.0
    }

    fn write(&mut self, offset: u64, len: u64) -> u64 {
        self.run(&Command::Write(Extent { offset, len }, DataClass::Random))
    }

    fn read(&mut self, offset: u64, len: u64) -> u64 {
        self.run(&Command::Read(Extent { offset, len }))
    }

    fn trim(&mut self, offset: u64, len: u64) -> u64 {
        self.run(&Command::trim(&[Extent { offset, len }]))
    }

    fn flush(&mut self) -> u64 {
        self.run(&Command::Flush)
    }

    fn idle(&mut self, ns: u64) {
        self.now += Nanos(ns);
        self.ssd.idle(self.now);
    }

    /// Fills the drive in pieces of 128 KiB; returns bytes per second.
    fn fill(&mut self) -> f64 {
        self.sequential(0, self.ssd.size().0, DataClass::Random)
    }

    fn sequential(&mut self, offset: u64, len: u64, class: DataClass) -> f64 {
        let start = self.now;
        for at in (offset..offset + len).step_by(128 << 10) {
            self.run(&Command::Write(
                Extent { offset: at, len: (128 * KIB).min(offset + len - at) },
                class,
            ));
        }
        len as f64 / (self.now - start).as_secs_f64()
    }

    /// Writes `count` random 4 KiB blocks; returns writes per second.
    fn random(&mut self, count: u64) -> f64 {
        let start = self.now;
        for _ in 0..count {
            let at = self.rng.below(self.ssd.size().0 / 4096) * 4096;
            self.write(at, 4096);
        }
        count as f64 / (self.now - start).as_secs_f64()
    }

    fn waf_of(&mut self, work: impl FnOnce(&mut Self)) -> f64 {
        let before = self.ssd.counters().clone();
        work(self);
        self.ssd.waf_since(&before).unwrap()
    }
}
