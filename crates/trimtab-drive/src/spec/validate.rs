//! Validation of specifications. Errors name the field, its value and the expected value.

use super::{DriveSpec, Flash, Geometry, Interface, SlcSize, SpecError, Thermal, VictimPolicy};
use crate::spec::layout::SsdLayout;
use crate::units::Bytes;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt::Display;

const TIB: u64 = 1 << 40;
/// Largest capacity in bytes: 1 PiB.
pub const CAPACITY_MAX: u64 = 1 << 50;
/// Most bits that a cell can store.
pub const BITS_PER_CELL_MAX: u8 = 8;
/// Maximum duration of a field: one hour.
const HOUR_NS: u64 = 3_600_000_000_000;

pub(super) type ValidationResult = Result<(), SpecError>;

/// Returns an error for `field`.
pub(crate) fn wrong(
    field: &'static str,
    value: impl Display,
    expected: impl Into<String>,
) -> SpecError {
    SpecError { field, value: value.to_string(), expected: expected.into() }
}

/// Maximum length of a drive name in bytes.
pub const IDENTIFIER_MAX: usize = 64;

/// True if `text` is valid as a drive name in commands, reports and directories.
#[must_use]
pub fn is_identifier(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() <= IDENTIFIER_MAX
        && text.bytes().next().is_some_and(plain)
        && text.bytes().all(|byte| plain(byte) || b"._-".contains(&byte))
}

fn within<T: PartialOrd + Display>(
    field: &'static str,
    value: T,
    low: T,
    high: T,
) -> ValidationResult {
    if value < low || value > high {
        return Err(wrong(field, &value, format!("must lie between {low} and {high}")));
    }
    Ok(())
}

fn size_within(field: &'static str, value: u64, low: u64, high: u64) -> ValidationResult {
    if value < low || value > high {
        let s = if value == 1 { "" } else { "s" };
        let value = format!("{value} byte{s} ({})", Bytes(value));
        return Err(wrong(
            field,
            value,
            format!("must lie between {low} and {high} bytes ({} and {})", Bytes(low), Bytes(high)),
        ));
    }
    Ok(())
}

fn duration(field: &'static str, ns: u64) -> ValidationResult {
    if ns > HOUR_NS {
        return Err(wrong(field, ns, format!("must not exceed an hour ({HOUR_NS} nanoseconds)")));
    }
    Ok(())
}

/// The time of an operation of the flash, which is never instantaneous.
fn operation(field: &'static str, ns: u64) -> ValidationResult {
    if ns == 0 {
        return Err(wrong(field, ns, "must be at least 1 nanosecond"));
    }
    duration(field, ns)
}

fn optional_duration(field: &'static str, ns: Option<u64>) -> ValidationResult {
    ns.map_or(Ok(()), |ns| duration(field, ns))
}

fn rate(field: &'static str, bytes_per_s: u64) -> ValidationResult {
    if !(1_000..=TIB).contains(&bytes_per_s) {
        return Err(wrong(
            field,
            bytes_per_s,
            format!("must lie between 1000 and {TIB} bytes per second"),
        ));
    }
    Ok(())
}

fn multiple(field: &'static str, value: u64, of: u64, of_name: &str) -> ValidationResult {
    if of == 0 || !value.is_multiple_of(of) {
        return Err(wrong(field, value, format!("must be a multiple of {of_name} ({of})")));
    }
    Ok(())
}

impl DriveSpec {
    /// Checks all properties that the models rely on.
    ///
    /// # Errors
    /// The first invalid field, with its value and the expected value.
    pub fn validate(&self) -> Result<(), SpecError> {
        if !is_identifier(&self.name) {
            let shown: String =
                self.name.chars().take(IDENTIFIER_MAX + 1).flat_map(char::escape_debug).collect();
            return Err(wrong(
                "name",
                format!("'{shown}'"),
                format!(
                    "must be at most {IDENTIFIER_MAX} of a-z, 0-9, '-', '_' and '.', \
                        and begin with a letter or a digit"
                ),
            ));
        }
        let block = self.logical_block_bytes;
        if !block.is_power_of_two() || !(512..=65536).contains(&block) {
            return Err(wrong(
                "logical_block_bytes",
                block,
                "must be a power of two from 512 to 65536",
            ));
        }
        size_within("capacity_bytes", self.capacity_bytes, 64 << 10, CAPACITY_MAX)?;
        multiple("capacity_bytes", self.capacity_bytes, u64::from(block), "logical_block_bytes")?;
        interface(&self.interface)?;
        self.flash.validate(self)
    }

    /// Memory of a model in bytes: four per mapped unit and flash slot.
    #[must_use]
    pub fn table_bytes(&self) -> u64 {
        let flash = &self.flash;
        let unit = flash.ftl.mapping_unit_bytes.max(1);
        let raw = u64::try_from(flash.geometry.raw_bytes()).unwrap_or(u64::MAX);
        (self.capacity_bytes / unit + raw / unit).saturating_mul(4)
    }
}

fn interface(interface: &Interface) -> ValidationResult {
    rate("interface.rate_bytes_per_s", interface.rate_bytes_per_s)?;
    within("interface.queue_depth", interface.queue_depth, 1, 65_536)?;
    duration("interface.command_overhead_ns", interface.command_overhead_ns)?;
    optional_duration("interface.write_overhead_ns", interface.write_overhead_ns)?;
    duration("interface.latency_ns", interface.latency_ns)
}

impl Flash {
    fn validate(&self, spec: &DriveSpec) -> ValidationResult {
        geometry(&self.geometry, u64::from(spec.logical_block_bytes))?;
        self.ftl(u64::from(spec.logical_block_bytes))?;
        self.timing()?;
        self.caches()?;
        if let Some(thermal) = &self.thermal {
            heat(thermal)?;
        }
        if let Some(life) = &self.life_throttle {
            size_within("flash.life_throttle.credit_bytes", life.credit_bytes, 1, 1 << 60)?;
            size_within("flash.life_throttle.earned_bytes_per_s", life.earned_bytes_per_s, 0, TIB)?;
            within("flash.life_throttle.throttled_permille", life.throttled_permille, 1, 1000)?;
        }
        if let Some(compression) = &self.compression {
            within(
                "flash.compression.stored_permille_min",
                compression.stored_permille_min,
                10,
                1000,
            )?;
            const ENGINE_MIN: u64 = 1_000_000;
            let engine = compression.engine_bytes_per_s;
            if engine != 0 && !(ENGINE_MIN..=TIB).contains(&engine) {
                let text = format!(
                    "must be 0 (without limit) or lie between {ENGINE_MIN} and {TIB} \
                        bytes per second"
                );
                return Err(wrong("flash.compression.engine_bytes_per_s", engine, text));
            }
            let unit = self.ftl.mapping_unit_bytes;
            let granularity = u64::from(compression.granularity_bytes);
            if granularity == 0 || !unit.is_multiple_of(granularity) || unit / granularity > 255 {
                return Err(wrong(
                    "flash.compression.granularity_bytes",
                    granularity,
                    format!("must divide the mapping unit ({unit}) into 1 to 255 parts"),
                ));
            }
        }
        self.trim(u64::from(spec.logical_block_bytes))?;
        SsdLayout::new(spec, self).map(|_| ())
    }

    fn ftl(&self, logical_block: u64) -> ValidationResult {
        let ftl = &self.ftl;
        size_within("flash.ftl.mapping_unit_bytes", ftl.mapping_unit_bytes, 512, 64 << 20)?;
        multiple(
            "flash.ftl.mapping_unit_bytes",
            ftl.mapping_unit_bytes,
            logical_block,
            "logical_block_bytes",
        )?;
        if let Some(bytes) = ftl.mapping_cache_bytes {
            size_within("flash.ftl.mapping_cache_bytes", bytes, self.geometry.page_bytes, TIB)?;
        }
        if let VictimPolicy::DChoices(d) = ftl.victim {
            within("flash.ftl.victim.d", d, 1, 4096)?;
        }
        within("flash.ftl.metadata_permille", ftl.metadata_permille, 0, 1000)?;
        let gc = &ftl.gc;
        within("flash.ftl.gc.die_wait_permille", gc.die_wait_permille, 0, 10_000)?;
        within("flash.ftl.gc.step_ns", gc.step_ns, 0, 1_000_000_000)?;
        within("flash.ftl.gc.free_low", gc.free_low, 2, 1 << 20)?;
        if gc.free_high < gc.free_low {
            return Err(wrong(
                "flash.ftl.gc.free_high",
                gc.free_high,
                format!("must be at least free_low ({})", gc.free_low),
            ));
        }
        optional_duration("flash.ftl.gc.idle_delay_ns", gc.idle_delay_ns)?;
        within("flash.ftl.gc.idle_valid_max_permille", gc.idle_valid_max_permille, 0, 1000)?;
        let wear = &ftl.wear;
        if let Some(spread) = wear.static_spread_max {
            within("flash.ftl.wear.static_spread_max", spread, 2, u32::MAX)?;
        }
        if let Some(limit) = wear.erase_limit {
            within("flash.ftl.wear.erase_limit", limit, 1, 100_000_000)?;
        }
        within(
            "flash.ftl.wear.erase_limit_spread_permille",
            wear.erase_limit_spread_permille,
            0,
            999,
        )
    }

    fn timing(&self) -> ValidationResult {
        let nand = &self.nand;
        operation("flash.nand.read_ns", nand.read_ns)?;
        operation("flash.nand.program_ns", nand.program_ns)?;
        operation("flash.nand.erase_ns", nand.erase_ns)?;
        rate("flash.nand.channel_bytes_per_s", nand.channel_bytes_per_s)?;
        optional_duration("flash.nand.suspend_ns", nand.suspend_ns)?;
        within("flash.nand.suspend_step_ns", nand.suspend_step_ns, 0, 1_000_000_000)?;
        within("flash.nand.read_spread_permille", nand.read_spread_permille, 0, 1000)?;
        within("flash.nand.read_retries_per_million", nand.read_retries_per_million, 0, 1_000_000)?;
        duration("flash.nand.read_retry_ns", nand.read_retry_ns)?;
        size_within("flash.nand.read_ahead_bytes", nand.read_ahead_bytes, 0, 1 << 30)
    }

    fn caches(&self) -> ValidationResult {
        let cache = &self.write_cache;
        size_within("flash.write_cache.bytes", cache.bytes, 0, TIB)?;
        if cache.bytes != 0 && cache.bytes < self.ftl.mapping_unit_bytes {
            return Err(wrong(
                "flash.write_cache.bytes",
                cache.bytes,
                format!(
                    "must be 0 (none) or hold a mapping unit ({} bytes)",
                    self.ftl.mapping_unit_bytes
                ),
            ));
        }
        size_within("flash.write_cache.merge_bytes", u64::from(cache.merge_bytes), 0, cache.bytes)?;
        duration("flash.write_cache.flush_ns", cache.flush_ns)?;
        optional_duration("flash.write_cache.idle_write_out_ns", cache.idle_write_out_ns)?;
        let Some(slc) = &self.slc_cache else { return Ok(()) };
        if self.compression.is_some() {
            return Err(wrong(
                "flash.slc_cache",
                "present",
                "compression together with an SLC cache is not supported; omit one of them",
            ));
        }
        if self.geometry.bits_per_cell < 2 {
            return Err(wrong(
                "flash.slc_cache",
                "present",
                format!(
                    "flash with {} bit per cell needs no SLC cache; omit it or raise \
                        geometry.bits_per_cell",
                    self.geometry.bits_per_cell
                ),
            ));
        }
        operation("flash.slc_cache.program_ns", slc.program_ns)?;
        operation("flash.slc_cache.read_ns", slc.read_ns)?;
        optional_duration("flash.slc_cache.idle_fold_ns", slc.idle_fold_ns)?;
        match slc.size {
            SlcSize::Dynamic { bytes_min, bytes_max } if bytes_max < bytes_min => Err(wrong(
                "flash.slc_cache.bytes_max",
                bytes_max,
                format!("must be at least bytes_min ({bytes_min})"),
            )),
            SlcSize::Dynamic { .. } | SlcSize::Fixed { .. } => Ok(()),
        }
    }

    fn trim(&self, logical_block: u64) -> ValidationResult {
        let trim = &self.trim;
        within("flash.trim.ranges_per_command_max", trim.ranges_per_command_max, 1, 1 << 20)?;
        size_within("flash.trim.range_bytes_max", trim.range_bytes_max, logical_block, 1 << 60)?;
        for (field, ns) in [
            ("flash.trim.command_ns", trim.command_ns),
            ("flash.trim.range_ns", trim.range_ns),
            ("flash.trim.unit_ns", trim.unit_ns),
            ("flash.trim.gb_ns", trim.gb_ns),
        ] {
            duration(field, ns)?;
        }
        size_within("flash.trim.bytes_min", trim.bytes_min, 0, TIB)?;
        size_within("flash.trim.alignment_bytes", trim.alignment_bytes, 0, TIB)
    }
}

fn geometry(geometry: &Geometry, logical_block: u64) -> ValidationResult {
    within("flash.geometry.channels", geometry.channels, 1, 256)?;
    within("flash.geometry.dies_per_channel", geometry.dies_per_channel, 1, 256)?;
    within("flash.geometry.planes", geometry.planes, 1, 64)?;
    size_within("flash.geometry.page_bytes", geometry.page_bytes, 512, 16 << 20)?;
    multiple(
        "flash.geometry.page_bytes",
        geometry.page_bytes,
        logical_block,
        "logical_block_bytes",
    )?;
    within("flash.geometry.pages_per_block", geometry.pages_per_block, 1, 1 << 20)?;
    within("flash.geometry.blocks_per_plane", geometry.blocks_per_plane, 1, 1 << 28)?;
    within("flash.geometry.bits_per_cell", geometry.bits_per_cell, 1, BITS_PER_CELL_MAX)?;
    let dies = geometry.dies();
    let stretch = u64::from(geometry.superblock_dies);
    if stretch == 0 || !dies.is_multiple_of(stretch) {
        return Err(wrong(
            "flash.geometry.superblock_dies",
            stretch,
            format!("must divide the number of dies ({dies})"),
        ));
    }
    Ok(())
}

fn heat(thermal: &Thermal) -> ValidationResult {
    within("flash.thermal.ambient_mc", thermal.ambient_mc, -50_000, 100_000)?;
    within(
        "flash.thermal.throttle_mc",
        thermal.throttle_mc,
        thermal.ambient_mc.saturating_add(1),
        200_000,
    )?;
    within(
        "flash.thermal.resume_mc",
        thermal.resume_mc,
        thermal.ambient_mc.saturating_add(1),
        thermal.throttle_mc,
    )?;
    within("flash.thermal.throttled_permille", thermal.throttled_permille, 1, 1000)?;
    within("flash.thermal.rise_mc_per_gb", thermal.rise_mc_per_gb, 0, 1_000_000)?;
    within("flash.thermal.cooling_ns", thermal.cooling_ns, 1_000_000, 1000 * HOUR_NS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Geometry, SlcCache, SlcFull};

    fn ssd() -> DriveSpec {
        let capacity_bytes = 120_000_000_000;
        let flash = Flash {
            geometry: Geometry::default().with_over_provisioning(capacity_bytes, 70),
            ..Flash::default()
        };
        DriveSpec {
            name: "test".into(),
            description: "an SSD".into(),
            capacity_bytes,
            logical_block_bytes: 512,
            interface: Interface::default(),
            flash,
        }
    }

    fn refusal(change: impl FnOnce(&mut DriveSpec, &mut Flash)) -> String {
        let mut spec = ssd();
        let mut flash = spec.flash.clone();
        change(&mut spec, &mut flash);
        spec.flash = flash;
        spec.validate().expect_err("must be refused").to_string()
    }

    #[test]
    fn validate_accepts_valid_drives() {
        assert_eq!(ssd().validate(), Ok(()));
    }

    #[test]
    fn validate_accepts_single_die() {
        let mut spec = ssd();
        let flash = &mut spec.flash;
        flash.geometry = Geometry {
            channels: 1,
            dies_per_channel: 1,
            superblock_dies: 1,
            planes: 1,
            ..Geometry::default()
        }
        .with_over_provisioning(spec.capacity_bytes, 70);
        assert_eq!(spec.validate(), Ok(()));
    }

    #[test]
    fn validate_error_names_field_value_and_expectation() {
        for (said, parts) in [
            (
                refusal(|_, f| f.geometry.page_bytes = 1 << 40),
                ["flash.geometry.page_bytes", "1099511627776", "16777216"],
            ),
            (
                refusal(|_, f| f.geometry.superblock_dies = 3),
                ["flash.geometry.superblock_dies is 3", "must divide", "(16)"],
            ),
            (
                refusal(|s, f| {
                    f.geometry = f.geometry.clone().with_over_provisioning(s.capacity_bytes, 0)
                }),
                ["blocks_per_plane", "needed", "kept free"],
            ),
            (
                refusal(|_, f| f.ftl.mapping_unit_bytes = 12 << 10),
                ["mapping_unit_bytes is 12288", "must divide", "32768"],
            ),
            (refusal(|_, f| f.ftl.gc.free_low = 0), ["flash.ftl.gc.free_low is 0", "2", "between"]),
            (
                refusal(|s, _| s.logical_block_bytes = 520),
                ["logical_block_bytes is 520", "power of two", "512"],
            ),
            (
                refusal(|s, _| s.capacity_bytes = 1_000_001),
                ["capacity_bytes is 1000001", "multiple of", "512"],
            ),
            (
                refusal(|_, f| f.nand.program_ns = u64::MAX),
                ["flash.nand.program_ns", "hour", "nanoseconds"],
            ),
            (refusal(|_, f| f.nand.read_ns = 0), ["flash.nand.read_ns is 0", "at least", "1"]),
            (refusal(|_, f| f.nand.program_ns = 0), ["flash.nand.program_ns is 0", "", ""]),
            (refusal(|_, f| f.nand.erase_ns = 0), ["flash.nand.erase_ns is 0", "", ""]),
            (
                refusal(|_, f| f.write_cache.bytes = 512),
                ["flash.write_cache.bytes is 512", "4096", "0 (none)"],
            ),
        ] {
            for part in parts {
                assert!(said.contains(part), "{part:?} not in {said:?}");
            }
        }
    }

    #[test]
    fn validate_checks_address_space_and_caches() {
        let said = refusal(|s, f| {
            s.capacity_bytes = 64 << 40;
            f.geometry = f.geometry.clone().with_over_provisioning(s.capacity_bytes, 70);
        });
        assert!(said.contains("larger mapping unit"), "{said}");
        let said = refusal(|_, f| {
            f.slc_cache = Some(SlcCache {
                size: SlcSize::Fixed { bytes: 100_000_000_000 },
                program_ns: 200_000,
                read_ns: 30_000,
                when_full: SlcFull::WriteDirect,
                idle_fold_ns: None,
            });
        });
        assert!(said.contains("for the SLC cache"), "{said}");
    }
}
