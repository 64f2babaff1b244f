//! The environment stored with every run: machine, drive and filesystem. Keys are stable;
//! values are formatted for people.

use super::Place;
use super::block::{Layer, LayerKind, VIRTUAL_SSD};
use super::drive;
use super::mountinfo::Mount;
use super::root::Root;
use std::path::Path;
use trimtab_drive::units::Bytes;
use trimtab_sim::run::Field;

/// All settings that can affect figures taken at `path`.
pub fn capture(root: &Root, place: &Place, path: &Path) -> Vec<Field> {
    let mut fields = Fields(Vec::new());
    fields.add("tool.version", env!("CARGO_PKG_VERSION"));
    machine(root, &mut fields);
    if let Some(mount) = &place.mount {
        filesystem(root, mount, path, &mut fields);
    }
    let stack = &place.stack;
    if !stack.layers.is_empty() {
        fields.add("stack", &describe(stack));
    }
    if let Some(notice) = super::answers::notice(root, place) {
        fields.add("drive.notice", &notice.text);
        if notice.absent {
            fields.add("drive.absent", "yes");
        }
    }
    for layer in stack.top_layers().take(1) {
        fields.add("device", &layer.title());
        if layer.kind == LayerKind::Partition {
            partition(root, layer, &mut fields);
        }
        queue(root, layer, "queue", &mut fields);
    }
    let drives: Vec<&Layer> = stack.drives().collect();
    for (n, layer) in drives.iter().enumerate() {
        let prefix = if drives.len() == 1 { "drive".to_owned() } else { format!("drive.{n}") };
        physical(root, layer, &prefix, &mut fields);
        if !stack.tops.iter().any(|&top| stack.layers[top].queue() == layer.queue()) {
            queue(root, layer, &format!("{prefix}.queue"), &mut fields);
        }
    }
    fields.0.extend(super::health::fields(root, stack));
    fields.0
}

struct Fields(Vec<Field>);

impl Fields {
    fn add(&mut self, key: &str, value: &str) {
        if !value.is_empty() {
            self.0.push(Field::new(key, value));
        }
    }

    fn add_some(&mut self, key: &str, value: Option<impl AsRef<str>>) {
        if let Some(value) = value {
            self.add(key, value.as_ref());
        }
    }
}

fn machine(root: &Root, fields: &mut Fields) {
    fields.add_some("kernel.release", root.read("/proc/sys/kernel/osrelease"));
    fields.add_some("kernel.version", root.read("/proc/sys/kernel/version"));
    fields.add("machine.arch", std::env::consts::ARCH);
    let cpus = root.read("/proc/cpuinfo").unwrap_or_default();
    let model = cpus
        .lines()
        .find_map(|l| l.strip_prefix("model name")?.split_once(':'))
        .map(|(_, name)| name.trim().to_owned());
    fields.add_some("cpu.model", model);
    fields.add_some("cpu.online", root.read("/sys/devices/system/cpu/online"));
    fields.add_some(
        "cpu.governor",
        root.read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    );
    let memory = root.read("/proc/meminfo").unwrap_or_default();
    let total = memory
        .lines()
        .find_map(|l| l.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    fields.add_some("memory", total.map(|kib| Bytes(kib.saturating_mul(1024)).to_string()));
    let product = root
        .read("/sys/class/dmi/id/product_name")
        .or_else(|| root.read("/proc/device-tree/model"));
    fields.add_some("machine.product", product);
    let hypervisor = cpus
        .lines()
        .any(|l| l.starts_with("flags") && l.split_whitespace().any(|f| f == "hypervisor"));
    fields.add_some("machine.virtual", hypervisor.then_some("yes"));
    fields.add_some(
        "power.source",
        on_battery(root).map(|battery| if battery { "battery" } else { "mains" }),
    );
}

/// On battery: a battery is discharging and no mains is online. `None` if it has neither.
pub fn on_battery(root: &Root) -> Option<bool> {
    let class = Path::new("/sys/class/power_supply");
    let mut known = false;
    let mut discharging = false;
    for name in root.list(class) {
        let supply = class.join(&name);
        // Mice and keyboards have their own batteries.
        if root.read(supply.join("scope")).as_deref() == Some("Device") {
            continue;
        }
        match root.read(supply.join("type")).as_deref() {
            Some("Battery") => {
                known = true;
                discharging |= root.read(supply.join("status")).as_deref() == Some("Discharging");
            }
            Some("Mains" | "USB" | "Wireless") => {
                if root.read_u64(supply.join("online")) == Some(1) {
                    return Some(false);
                }
                known = true;
            }
            _ => {}
        }
    }
    known.then_some(discharging)
}

fn filesystem(root: &Root, mount: &Mount, path: &Path, fields: &mut Fields) {
    fields.add("fs.type", &mount.fs_type);
    fields.add("fs.options", &mount.fs_options);
    fields.add("mount.options", &mount.options);
    fields.add(
        "mount.point",
        &super::root::printable(mount.mount_point.as_os_str().as_encoded_bytes()),
    );
    if !root.is_live() {
        return;
    }
    if let Ok(stat) = rustix::fs::statvfs(path) {
        let size = stat.f_blocks.saturating_mul(stat.f_frsize);
        let used = stat.f_blocks.saturating_sub(stat.f_bfree).saturating_mul(stat.f_frsize);
        fields.add("fs.size", &Bytes(size).to_string());
        fields.add("fs.block_size", &stat.f_bsize.to_string());
        if size > 0 {
            fields.add("fs.fill", &format!("{:.1} %", 100.0 * used as f64 / size as f64));
        }
    }
}

/// `vda1 (partition) > vda (virtio)`, with array members in brackets.
pub fn describe(stack: &super::block::Stack) -> String {
    fn layer(stack: &super::block::Stack, index: usize, depth: usize) -> String {
        let Some(one) = stack.layers.get(index) else { return String::new() };
        let mut text = format!("{} [{}]", one.title(), kind_name(&one.kind));
        if depth > 0 && !one.below.is_empty() {
            let below: Vec<String> =
                one.below.iter().map(|&i| layer(stack, i, depth - 1)).collect();
            text += " > ";
            text += &if below.len() == 1 {
                below[0].clone()
            } else {
                format!("({})", below.join(" + "))
            };
        }
        text
    }
    let tops: Vec<String> = stack.tops.iter().map(|&i| layer(stack, i, 16)).collect();
    let text = tops.join(" + ");
    // Deeply nested arrays are cut.
    text.chars().take(1000).collect()
}

/// The type of a layer in one or two words.
pub fn kind_name(kind: &LayerKind) -> String {
    match kind {
        LayerKind::Partition => "partition".into(),
        LayerKind::Loop => "loop".into(),
        LayerKind::File { fs_type, .. } if fs_type == VIRTUAL_SSD => {
            "virtual SSD of Trimtab".into()
        }
        LayerKind::File { fs_type, .. } => format!("file on {fs_type}"),
        LayerKind::Crypt => "crypt".into(),
        LayerKind::Lvm => "lvm".into(),
        LayerKind::Thin => "thin".into(),
        LayerKind::ThinPool => "thin-pool".into(),
        LayerKind::Mapper(name) if name.is_empty() => "dm".into(),
        LayerKind::Mapper(name) => format!("dm {}", name.to_lowercase()),
        LayerKind::Md(level) => format!("md {level}"),
        LayerKind::Bcache => "bcache".into(),
        LayerKind::Drive(bus) => bus.name().into(),
    }
}

fn partition(root: &Root, layer: &Layer, fields: &mut Fields) {
    let Some(start) = root.read_u64(layer.sys.join("start")) else { return };
    let start = start.saturating_mul(super::stat::SECTOR_BYTES);
    fields.add("partition.start", &format!("{start} B"));
    fields.add("partition.aligned_to", &alignment(start));
}

/// The largest power of two that divides `offset`, up to 64 MiB, in binary units.
pub fn alignment(offset: u64) -> String {
    let power = offset.trailing_zeros().min(26);
    match power {
        0..=9 => format!("{} B", 1_u64 << power),
        10..=19 => format!("{} KiB", 1_u64 << (power - 10)),
        _ => format!("{} MiB", 1_u64 << (power - 20)),
    }
}

/// Attributes of a queue that can affect figures.
const QUEUE: &str = "
    rotational write_cache fua nr_requests logical_block_size physical_block_size optimal_io_size discard_granularity
    discard_max_bytes discard_max_hw_bytes read_ahead_kb wbt_lat_usec zoned";

fn queue(root: &Root, layer: &Layer, prefix: &str, fields: &mut Fields) {
    let queue = layer.queue();
    for name in QUEUE.split_ascii_whitespace() {
        fields.add_some(&format!("{prefix}.{name}"), root.read(queue.join(name)));
    }
    let scheduler = root.read(queue.join("scheduler")).map(|all| chosen(&all).to_owned());
    fields.add_some(&format!("{prefix}.scheduler"), scheduler);
}

/// The entry in brackets in a list such as `none [mq-deadline] kyber`; else the whole
/// text.
pub fn chosen(list: &str) -> &str {
    list.split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or(list, |(chosen, _)| chosen)
}

fn physical(root: &Root, layer: &Layer, prefix: &str, fields: &mut Fields) {
    let identity = drive::identity(root, layer);
    fields.add_some(&format!("{prefix}.model"), identity.model);
    fields.add_some(&format!("{prefix}.firmware"), identity.firmware);
    fields.add(&format!("{prefix}.name"), &layer.shown_name());
    fields.add(&format!("{prefix}.bus"), &kind_name(&layer.kind));
    fields.add(&format!("{prefix}.size"), &layer.size.to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alignment_is_the_largest_power_of_two() {
        assert_eq!(alignment(63 * 512), "512 B");
        assert_eq!(alignment(2048 * 512), "1 MiB");
        assert_eq!(alignment(4096), "4 KiB");
        assert_eq!(alignment(0), "64 MiB");
    }

    #[test]
    fn chosen_returns_scheduler_in_brackets() {
        assert_eq!(chosen("none [mq-deadline] kyber bfq"), "mq-deadline");
        assert_eq!(chosen("none"), "none");
        assert_eq!(chosen("]["), "][");
    }

    #[test]
    fn on_battery_ignores_device_batteries() {
        let directory = tempfile::tempdir().unwrap();
        let supply = |name: &str, files: &[(&str, &str)]| {
            let dir = directory.path().join("sys/class/power_supply").join(name);
            std::fs::create_dir_all(&dir).unwrap();
            for (file, text) in files {
                std::fs::write(dir.join(file), text).unwrap();
            }
        };
        let root = Root::recorded(directory.path()).unwrap();
        assert_eq!(on_battery(&root), None);
        supply("mouse", &[("type", "Battery"), ("scope", "Device"), ("status", "Discharging")]);
        assert_eq!(on_battery(&root), None);
        supply("BAT0", &[("type", "Battery"), ("status", "Discharging")]);
        assert_eq!(on_battery(&root), Some(true));
        supply("AC", &[("type", "Mains"), ("online", "1")]);
        assert_eq!(on_battery(&root), Some(false));
    }
}
