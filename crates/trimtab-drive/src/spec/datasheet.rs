//! A drive specification from the figures of a data sheet. Values that a data sheet does
//! not state come from priors of the class and are marked assumed.

use super::file::Drive;
use super::source::{Source, SourceKind};
use super::{CAPACITY_MAX, DriveSpec, Flash, Interface, SpecError, VictimPolicy, wrong};
use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

const MB: f64 = 1e6;
const UNIT: f64 = 4096.0;
const GIB: u64 = 1 << 30;
/// Dies of every drive of this kind, and bytes that a plane programs.
const DIES: u32 = 64;
const PAGE_BYTES: u64 = 16 << 10;
/// From this rate on, dies of four planes are usual.
const FOUR_PLANES_MBS: f64 = 3000.0;
/// Part of a stated latency that the host's software takes, in microseconds: the first
/// steps of measured sweeps are that much faster.
pub const HOST_US: f64 = 8.0;
/// Writes in order at this share of the interface's rate say nothing about the flash.
const NEAR_LINK: f64 = 0.85;
/// Superblocks open or kept free, which hold no stale data.
const OPEN: f64 = 4.0;
/// Time of a read over that of a program, with values of the class.
const READ_SHARE: f64 = 0.06;

/// Sequential over random write rate: 2 % of spare flash gives WAF 25, and a relocated page
/// costs at most 1.6 writes.
const SLOWDOWN_MAX: f64 = 40.0;
/// Sustained over rated random writes of measured drives. A rate outside this range
/// contradicts the rated one.
const OVER_RATED: [f64; 2] = [0.96, 1.19];

/// Time in nanoseconds in which a die suspends its work.
const SUSPEND_NS: u64 = 50_000;

/// Spread of erasures at which levelling of the class starts.
const STATIC_SPREAD: u32 = 64;
/// Drives whose user data take more than this share of the flash level wear statically.
const LITTLE_SPARE: f64 = 0.82;

/// Figures of a data sheet. Rates are in MB/s (10^6 bytes), random rates in 4 KiB
/// commands per second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DataSheet {
    /// Name of the drive.
    pub name: String,
    /// User capacity in bytes.
    pub capacity_bytes: u64,
    /// Payload rate of the interface.
    pub link_mbs: Option<f64>,
    /// Sequential read rate.
    pub sequential_read_mbs: Option<f64>,
    /// Sequential write rate.
    pub sequential_write_mbs: Option<f64>,
    /// Random reads.
    pub random_read_iops: Option<f64>,
    /// Sustained random writes.
    pub random_write_iops: Option<f64>,
    /// Flash in bytes, spare space included.
    pub raw_bytes: Option<u64>,
    /// Latency of a 4 KiB read in microseconds.
    pub read_latency_us: Option<f64>,
    /// Latency of a 4 KiB write in microseconds.
    pub write_latency_us: Option<f64>,
}

/// Values of the class that no data sheet states.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prior {
    /// Metadata and parity per 1000 bytes of data.
    pub metadata_permille: u32,
    /// Wait of dies per time of relocation, in per mille.
    pub die_wait_permille: u32,
    /// Sustained random write rate over its rated value.
    pub over_rated: f64,
    /// Flash over the power of two that the capacity in decimal units fits in.
    pub raw_over_nominal: f64,
    /// Superblocks of a drive.
    pub superblocks: f64,
    /// Mean step of a program that a read waits for, in nanoseconds.
    pub suspend_step_ns: u32,
    /// Choice of victims.
    pub victim: VictimPolicy,
}

impl Prior {
    /// Median of the class.
    pub const MEDIAN: Self = Self {
        metadata_permille: 37,
        die_wait_permille: 350,
        over_rated: 1.08,
        raw_over_nominal: 1.02,
        superblocks: 300.0,
        suspend_step_ns: 75_000,
        victim: VictimPolicy::Greedy,
    };

    /// A draw within the class. `at` are seven numbers from 0 to 1.
    #[must_use]
    pub fn draw(at: [f64; 7]) -> Self {
        let between = |nth: usize, low: f64, high: f64| low + (high - low) * at[nth];
        Self {
            metadata_permille: between(0, 20.0, 100.0) as u32,
            die_wait_permille: between(1, 250.0, 450.0) as u32,
            over_rated: between(2, 0.95, 1.2),
            raw_over_nominal: between(3, 0.98, 1.07),
            superblocks: 128.0 * libm::pow(550.0 / 128.0, at[4]),
            suspend_step_ns: between(5, 50e3, 120e3) as u32,
            victim: if at[6] < 0.7 { VictimPolicy::Greedy } else { VictimPolicy::CostBenefit },
        }
    }
}

/// Share of the flash that user data take at `waf`: greedy collection of large superblocks
/// under uniform writes has u = (x - 1) / ln x with x = 1 - 1 / WAF (Desnoyers 2012).
#[must_use]
pub fn used_share(waf: f64) -> f64 {
    let valid = 1.0 - 1.0 / waf;
    (valid - 1.0) / libm::log(valid)
}

impl DataSheet {
    /// The drive with the class values `prior`.
    ///
    /// # Errors
    /// The first impossible figure.
    pub fn drive(&self, prior: &Prior) -> Result<Drive, SpecError> {
        self.check()?;
        let mut flash = Flash::default();
        let write_mbs = self.write_mbs();
        flash.geometry.planes = if write_mbs > FOUR_PLANES_MBS { 4 } else { 2 };
        let layer = u64::from(DIES * flash.geometry.planes) * PAGE_BYTES;
        let row_ns = layer as f64 / (write_mbs * MB) * 1e9;
        flash.nand.program_ns =
            (row_ns * 1000.0 / f64::from(1000 + prior.metadata_permille)) as u64;
        let interface = self.interface();
        if let Some(us) = self.read_latency_us {
            let command = interface.latency_ns + interface.command_overhead_ns;
            flash.nand.read_ns =
                (((us - HOST_US).max(0.0) * 1000.0) as u64).saturating_sub(command).max(10_000);
        }
        let (raw, _) = self.raw(prior, write_mbs, flash.nand.read_ns as f64 / row_ns);
        let little_spare = self.capacity_bytes as f64 / raw as f64 > LITTLE_SPARE;
        flash.ftl.wear.static_spread_max = little_spare.then_some(STATIC_SPREAD);
        let geometry = &mut flash.geometry;
        (geometry.channels, geometry.dies_per_channel, geometry.superblock_dies) =
            (8, DIES / 8, DIES);
        geometry.pages_per_block =
            libm::ceil((raw / layer) as f64 / prior.superblocks).clamp(1.0, 1_048_576.0) as u32;
        geometry.blocks_per_plane =
            u32::try_from(raw.div_ceil(layer * u64::from(geometry.pages_per_block)))
                .unwrap_or(u32::MAX);
        flash.ftl.metadata_permille = prior.metadata_permille;
        flash.ftl.victim = prior.victim;
        flash.ftl.gc.die_wait_permille = prior.die_wait_permille;
        flash.nand.channel_bytes_per_s = 1_600_000_000;
        (flash.nand.suspend_ns, flash.nand.suspend_step_ns) =
            (Some(SUSPEND_NS), prior.suspend_step_ns);
        // A row of each die, and those on the way.
        flash.write_cache.bytes = layer / 8 * 9;
        flash.write_cache.power_loss_protection = true;
        flash.write_cache.merge_bytes = 400 << 10;
        flash.trim.queued = true;
        let spec = DriveSpec {
            name: self.name.clone(),
            description: format!("{}, from its data sheet", self.name),
            capacity_bytes: self.capacity_bytes / 4096 * 4096,
            logical_block_bytes: 512,
            interface,
            flash,
        };
        spec.validate()?;
        Ok(Drive { spec, sources: self.sources(), alternatives: alloc::vec![], twin: None })
    }

    /// Figures that the model does not show together although a drive can have each.
    #[must_use]
    pub fn contradictions(&self) -> Vec<String> {
        let Some(iops) = self.random_write_iops else { return Vec::new() };
        let of = |over_rated| {
            self.raw(&Prior { over_rated, ..Prior::MEDIAN }, self.write_mbs(), READ_SHARE)
        };
        let (raw, needed) = of(Prior::MEDIAN.over_rated);
        let [least, most] = OVER_RATED.map(|over_rated| of(over_rated).1);
        if (least..=most).contains(&(raw as f64)) {
            return Vec::new();
        }
        let of = if self.raw_bytes.is_some() { "the data sheet states" } else { "its class has" };
        let gib = |bytes: f64| bytes / GIB as f64;
        let direction = if needed > raw as f64 { "lower" } else { "higher" };
        alloc::vec![format!(
            "{iops} random writes per second at {:.0} MB/s of sequential writes need {:.0} GiB of \
             flash, but {of} {:.0} GiB; the predicted rate is {direction}",
            self.write_mbs(),
            gib(needed),
            gib(raw as f64)
        )]
    }

    /// The link limits the writes in order, and random writes tell the flash.
    fn is_near_link(&self) -> bool {
        let rates = self.sequential_write_mbs.zip(self.link_mbs);
        self.random_write_iops.is_some()
            && rates.is_some_and(|(write, link)| write >= NEAR_LINK * link)
    }

    /// Rate at which the flash writes in order: as stated; without a rate, from the rate
    /// of random writes, else of the class. Near the link's rate, that with which the
    /// flash of the class shows the rated random writes.
    fn write_mbs(&self) -> f64 {
        let random = self.random_write_iops.map(mbs_of);
        if let (Some(stated), Some(random), true) =
            (self.sequential_write_mbs, random, self.is_near_link())
        {
            let flash_of = |sheet: &Self, mbs| sheet.raw(&Prior::MEDIAN, mbs, READ_SHARE);
            let of_class = Self { random_write_iops: None, ..self.clone() };
            let (raw, _) = flash_of(&of_class, stated);
            let (mut low, mut high) = (stated, stated.max(random * SLOWDOWN_MAX));
            for _ in 0..40 {
                let middle = f64::midpoint(low, high);
                // Faster flash shows the same rate with less spare space.
                let (_, needed) = flash_of(self, middle);
                if needed > raw as f64 { low = middle } else { high = middle }
            }
            return high;
        }
        let of_random = random.map(|mbs| (mbs * 5.0).max(100.0));
        let rate = self.sequential_write_mbs.or(of_random).unwrap_or(1500.0);
        self.sequential_read_mbs.map_or(rate, |read| {
            if self.sequential_write_mbs.is_none() { rate.min(read) } else { rate }
        })
    }

    /// Flash in bytes, and the flash that the rated random writes need. They tell WAF,
    /// and WAF tells the spare space.
    fn raw(&self, prior: &Prior, write_mbs: f64, read_share: f64) -> (u64, f64) {
        let capacity = self.capacity_bytes as f64;
        let nominal = (self.capacity_bytes / GIB).max(1).next_power_of_two() as f64 * GIB as f64;
        // A capacity just above a power of two would leave no spare space.
        let nominal = if nominal * prior.raw_over_nominal < capacity * 1.05 {
            capacity * 1.07
        } else {
            nominal * prior.raw_over_nominal
        };
        let needed = self.random_write_iops.map(|iops| {
            // A moved row costs its program, 1.4 reads, since victims hold stale data
            // too, and erasure.
            let relocation =
                (1.02 + 1.4 * read_share) * (1.0 + f64::from(prior.die_wait_permille) / 1000.0);
            let slowdown = write_mbs * MB / (iops * UNIT * prior.over_rated);
            let waf = (1.0 + (slowdown - 1.0) / relocation).max(1.02);
            capacity / used_share(waf) * (1.0 + OPEN / prior.superblocks)
        });
        // Rated values are rounded and some are minimums; the flash of the class bounds
        // them.
        let of_class =
            |needed: f64| needed.clamp(nominal * 0.95, nominal * 1.12).max(capacity * 1.04) as u64;
        let raw = self.raw_bytes.unwrap_or_else(|| needed.map_or(nominal as u64, of_class));
        (raw, needed.unwrap_or(raw as f64))
    }

    fn interface(&self) -> Interface {
        let link = self.link_mbs.or(self.sequential_read_mbs).unwrap_or(3500.0);
        let read_iops = self.random_read_iops.unwrap_or(500_000.0);
        let write_us = self.write_latency_us.map_or(9.0, |us| (us - HOST_US).max(1.0));
        Interface {
            rate_bytes_per_s: (self.sequential_read_mbs.map_or(link, |read| read.min(link)) * MB)
                as u64,
            full_duplex: link > 600.0,
            queue_depth: if link > 600.0 { 1024 } else { 32 },
            command_overhead_ns: (1e9 / read_iops) as u64,
            write_overhead_ns: None,
            latency_ns: (write_us * 1000.0) as u64,
        }
    }

    fn sources(&self) -> alloc::collections::BTreeMap<String, Source> {
        let mut sources = alloc::collections::BTreeMap::new();
        let mut add = |field: &str, stated: bool, published: &str, assumed: &str| {
            let (kind, text) = if stated {
                (SourceKind::Published, published)
            } else {
                (SourceKind::Assumed, assumed)
            };
            sources.insert(field.to_owned(), Source { kind, text: text.to_owned() });
        };
        let class = "typical of the class; the data sheet does not state it";
        let less_host = |what: &str| format!("{what} {HOST_US} us of the host");
        add("capacity_bytes", true, "data sheet", class);
        add("logical_block_bytes", false, "", "512-byte emulation, as most are delivered");
        add("interface", false, "", class);
        add(
            "interface.rate_bytes_per_s",
            self.link_mbs.or(self.sequential_read_mbs).is_some(),
            "interface and sequential read rate of the data sheet",
            class,
        );
        add(
            "interface.command_overhead_ns",
            self.random_read_iops.is_some(),
            "random reads per second of the data sheet",
            class,
        );
        add(
            "interface.latency_ns",
            self.write_latency_us.is_some(),
            &less_host("write latency of the data sheet, less"),
            class,
        );
        add("flash", false, "", "prior of the class of data-centre drives");
        add(
            "flash.nand.program_ns",
            self.sequential_write_mbs.is_some() && !self.is_near_link(),
            "sequential write rate of the data sheet, with metadata of the class",
            if self.is_near_link() {
                "the link limits the sequential writes of the data sheet: from its random writes"
            } else if self.random_write_iops.is_some() {
                "five times the rate of the random writes of the data sheet"
            } else {
                class
            },
        );
        add(
            "flash.nand.read_ns",
            self.read_latency_us.is_some(),
            &less_host("read latency of the data sheet, less command, link and"),
            class,
        );
        let (raw, needed) = self.raw(&Prior::MEDIAN, self.write_mbs(), READ_SHARE);
        let spare = if self.random_write_iops.is_none() {
            "the next power of two of flash, less blocks that the drive keeps"
        } else if (needed - raw as f64).abs() < 1.0 {
            "with blocks_per_plane, the flash that a formula gives for 1.08 times the rated random \
             writes, the median of measured drives; the model wrote 6 to 8 % more than that at \
             960 GB"
        } else {
            "with blocks_per_plane, the flash of the class nearest to that which the rated \
             random writes need"
        };
        add(
            "flash.geometry.pages_per_block",
            self.raw_bytes.is_some(),
            "with blocks_per_plane, the flash that the data sheet states",
            spare,
        );
        add("flash.geometry.blocks_per_plane", false, "", "superblocks typical of the class");
        sources
    }

    /// Rejects figures that contradict each other or that no drive has.
    fn check(&self) -> Result<(), SpecError> {
        self.check_ranges()?;
        self.check_random_rates()?;
        self.check_link_rate()?;
        self.check_raw_flash()
    }

    /// Rejects single figures that no drive has.
    fn check_ranges(&self) -> Result<(), SpecError> {
        let capacity = |reason: String| {
            Err(wrong("capacity", format!("{} bytes", self.capacity_bytes), reason))
        };
        if self.capacity_bytes < GIB {
            return capacity("must be at least 1 GiB".to_owned());
        }
        if self.capacity_bytes > CAPACITY_MAX {
            return capacity(format!("must be at most {CAPACITY_MAX} bytes"));
        }
        for (field, value, low, high) in [
            ("interface rate in MB/s", self.link_mbs, 10.0, 100_000.0),
            ("sequential read rate in MB/s", self.sequential_read_mbs, 10.0, 100_000.0),
            ("sequential write rate in MB/s", self.sequential_write_mbs, 10.0, 100_000.0),
            ("random reads per second", self.random_read_iops, 1000.0, 1e8),
            ("random writes per second", self.random_write_iops, 100.0, 1e8),
            ("read latency in microseconds", self.read_latency_us, 10.0, 100_000.0),
            ("write latency in microseconds", self.write_latency_us, 1.0, 100_000.0),
        ] {
            if let Some(value) = value.filter(|value| !(low..=high).contains(value)) {
                return Err(wrong(field, value, format!("must be {low} to {high}")));
            }
        }
        Ok(())
    }

    /// Rejects random rates that contradict the sequential rates.
    fn check_random_rates(&self) -> Result<(), SpecError> {
        for (random, iops, sequential, mbs) in [
            (
                "random reads per second",
                self.random_read_iops,
                "the sequential read rate",
                self.sequential_read_mbs,
            ),
            (
                "random writes per second",
                self.random_write_iops,
                "the sequential write rate",
                self.sequential_write_mbs,
            ),
        ] {
            if let (Some(iops), Some(mbs)) = (iops, mbs)
                && mbs_of(iops) > mbs * 1.1
            {
                let reason = format!(
                    "that is {:.0} MB/s of 4 KiB commands, more than {sequential} of {mbs} MB/s",
                    mbs_of(iops)
                );
                return Err(wrong(random, iops, reason));
            }
        }
        if let (Some(iops), Some(mbs)) = (self.random_write_iops, self.sequential_write_mbs)
            && mbs_of(iops) < mbs / SLOWDOWN_MAX
        {
            let reason = format!(
                "a drive that writes {mbs} MB/s in order makes at least {:.0} with 2 % of \
                 spare flash; omit the figure if the drive maps more than 4 KiB at a time",
                mbs * MB / SLOWDOWN_MAX / UNIT
            );
            return Err(wrong("random writes per second", iops, reason));
        }
        Ok(())
    }

    /// Rejects rates above that of the interface.
    fn check_link_rate(&self) -> Result<(), SpecError> {
        let Some(link) = self.link_mbs else { return Ok(()) };
        for (field, mbs) in [
            ("sequential read rate in MB/s", self.sequential_read_mbs),
            ("sequential write rate in MB/s", self.sequential_write_mbs),
            ("random reads in MB/s", self.random_read_iops.map(mbs_of)),
            ("random writes in MB/s", self.random_write_iops.map(mbs_of)),
        ] {
            if let Some(mbs) = mbs.filter(|mbs| *mbs > link * 1.02) {
                return Err(wrong(field, mbs, format!("the interface moves at most {link} MB/s")));
            }
        }
        Ok(())
    }

    fn check_raw_flash(&self) -> Result<(), SpecError> {
        let capacity = self.capacity_bytes;
        let impossible = |raw: &u64| (*raw as f64) < capacity as f64 * 1.02 || raw / 4 > capacity;
        let Some(raw) = self.raw_bytes.filter(impossible) else { return Ok(()) };
        let reason = format!("must be 1.02 to 4 times the capacity of {capacity} bytes");
        Err(wrong("raw flash", format!("{raw} bytes"), reason))
    }
}

/// The MB/s of random requests of 4 KiB.
fn mbs_of(iops: f64) -> f64 {
    iops * UNIT / MB
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet() -> DataSheet {
        DataSheet {
            name: "x".to_owned(),
            capacity_bytes: 960_197_124_096,
            sequential_read_mbs: Some(6500.0),
            sequential_write_mbs: Some(1700.0),
            random_read_iops: Some(900_000.0),
            random_write_iops: Some(70_000.0),
            ..DataSheet::default()
        }
    }

    #[test]
    fn datasheet_program_time_shows_sequential_rate() {
        let drive = sheet().drive(&Prior::MEDIAN).unwrap();
        let flash = &drive.spec.flash;
        // 64 dies of 32 KiB in the program time; 37 / 1037 of that is metadata.
        let rate = 64.0 * 32768.0 / (flash.nand.program_ns as f64 * 1.037) * 1e3;
        assert!((rate - 1700.0).abs() < 1.0, "{rate}");
        // 1 TB class: 1024 GiB of flash.
        let raw = flash.geometry.raw_bytes() as f64 / GIB as f64;
        assert!((1000.0..1060.0).contains(&raw), "{raw}");
        assert_eq!(drive.sources["flash.nand.program_ns"].kind, SourceKind::Published);
        assert_eq!(drive.sources["flash.geometry.pages_per_block"].kind, SourceKind::Assumed);
    }

    #[test]
    fn capacity_in_binary_units_does_not_double_the_flash() {
        for capacity_bytes in [16 * GIB, 1024 * GIB] {
            let drive = DataSheet { capacity_bytes, ..sheet() }.drive(&Prior::MEDIAN).unwrap();
            let raw = drive.spec.flash.geometry.raw_bytes() as f64;
            let spare = raw / capacity_bytes as f64 - 1.0;
            assert!((0.04..0.2).contains(&spare), "{capacity_bytes}: {spare}");
        }
    }

    #[test]
    fn datasheet_sources_state_what_decided_a_value() {
        let text = |sheet: &DataSheet, field: &str| {
            sheet.drive(&Prior::MEDIAN).unwrap().sources[field].shown()
        };
        let raw = DataSheet { raw_bytes: Some(1030 * GIB), ..sheet() };
        assert!(text(&raw, "flash.geometry.pages_per_block").starts_with("published"));
        assert!(text(&raw, "flash.geometry.blocks_per_plane").starts_with("assumed: superblocks"));
        let random = DataSheet { sequential_write_mbs: None, ..sheet() };
        assert!(text(&random, "flash.nand.program_ns").starts_with("assumed: five times"));
        let flash = "flash.geometry.pages_per_block";
        assert!(text(&sheet(), flash).contains("1.08 times"));
        let fast = DataSheet { random_write_iops: Some(300_000.0), ..sheet() };
        assert!(text(&fast, flash).contains("nearest"));
        // 75,000 of 3000 MB/s need 985 GiB, and the class has 992: 1.13 times the rated writes.
        let bounded = DataSheet {
            sequential_write_mbs: Some(3000.0),
            random_write_iops: Some(75_000.0),
            ..sheet()
        };
        assert!(bounded.contradictions().is_empty() && text(&bounded, flash).contains("nearest"));
    }

    #[test]
    fn datasheet_contradictions_name_the_needed_flash() {
        assert!(sheet().contradictions().is_empty());
        // 300,000 x 1.08 x 4096 B = 1327 MB/s of 1700: WAF 1.2, so half the flash is spare.
        let fast = DataSheet { random_write_iops: Some(300_000.0), ..sheet() };
        assert!(fast.contradictions()[0].contains("rate is lower"), "{:?}", fast.contradictions());
        let raw = DataSheet { raw_bytes: Some(1500 * GIB), ..sheet() };
        assert!(raw.contradictions()[0].contains("the data sheet states 1500 GiB"));
    }

    /// 530 of 570 MB/s tell the link. Random writes of 1.08 x 246 = 265 MB/s at WAF 3.9
    /// (Desnoyers 2012: 87 % of 1044 GiB are used) need flash of at least 265 x 3.9 MB/s.
    #[test]
    fn sequential_writes_near_the_link_leave_the_flash_speed_free() {
        let sata = |iops: f64, capacity_bytes| DataSheet {
            capacity_bytes,
            link_mbs: Some(570.0),
            sequential_read_mbs: Some(560.0),
            sequential_write_mbs: Some(530.0),
            random_read_iops: Some(97_000.0),
            random_write_iops: Some(iops),
            ..sheet()
        };
        for sheet in [
            sata(60_000.0, 960_197_124_096),
            sata(30_000.0, 960_197_124_096),
            sata(70_000.0, 800_166_076_416),
            DataSheet { raw_bytes: Some(1200 * GIB), ..sata(60_000.0, 960_197_124_096) },
        ] {
            assert!(sheet.contradictions().is_empty(), "{sheet:?}");
            let drive = sheet.drive(&Prior::MEDIAN).unwrap();
            assert_eq!(drive.sources["flash.nand.program_ns"].kind, SourceKind::Assumed);
        }
        let flash_mbs = sata(60_000.0, 960_197_124_096).write_mbs();
        assert!((265.0 * 3.9..265.0 * 7.0).contains(&flash_mbs), "{flash_mbs}");
    }

    #[test]
    fn datasheet_with_raw_flash_uses_it() {
        let raw = 1100 * GIB;
        let drive = DataSheet { raw_bytes: Some(raw), ..sheet() }.drive(&Prior::MEDIAN).unwrap();
        let made = u64::try_from(drive.spec.flash.geometry.raw_bytes()).unwrap();
        assert!(made >= raw && made < raw + 2 * GIB, "{made}");
    }

    #[test]
    fn datasheet_with_impossible_figure_names_it() {
        let fails = |change: fn(&mut DataSheet), expected: &str| {
            let mut sheet = sheet();
            change(&mut sheet);
            let message =
                alloc::string::ToString::to_string(&sheet.drive(&Prior::MEDIAN).unwrap_err());
            assert!(message.starts_with(expected) && !message.contains('\n'), "{message}");
        };
        fails(|sheet| sheet.capacity_bytes = 0, "capacity is 0 bytes");
        for exponent in 50..64 {
            let sheet = DataSheet { capacity_bytes: u64::MAX >> (63 - exponent), ..sheet() };
            let message = format!("{}", sheet.drive(&Prior::MEDIAN).unwrap_err());
            assert!(message.ends_with("must be at most 1125899906842624 bytes"), "{message}");
            // Computed without an overflow.
            let _ = sheet.contradictions();
        }
        fails(
            |sheet| sheet.random_write_iops = Some(500_000.0),
            "random writes per second is 500000",
        );
        fails(|sheet| sheet.random_read_iops = Some(2e6), "random reads per second is 2000000");
        fails(
            |sheet| sheet.write_latency_us = Some(f64::NAN),
            "write latency in microseconds is NaN",
        );
        fails(|sheet| sheet.sequential_write_mbs = Some(0.0), "sequential write rate in MB/s is 0");
        fails(|sheet| sheet.link_mbs = Some(600.0), "sequential read rate in MB/s is 6500");
        fails(
            |sheet| (sheet.sequential_read_mbs, sheet.link_mbs) = (None, Some(570.0)),
            "sequential write rate in MB/s is 1700",
        );
        fails(|sheet| sheet.random_write_iops = Some(1.0), "random writes per second is 1,");
        fails(|sheet| sheet.random_write_iops = Some(9000.0), "random writes per second is 9000,");
        fails(|sheet| sheet.random_read_iops = Some(1.0), "random reads per second is 1,");
        fails(|sheet| sheet.read_latency_us = Some(1.0), "read latency in microseconds is 1,");
        fails(|sheet| sheet.raw_bytes = Some(GIB), "raw flash is");
        fails(|sheet| sheet.name = "A b".to_owned(), "name is 'A b'");
    }
}
