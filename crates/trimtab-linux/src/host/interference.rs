//! Interference during a measurement: I/O of other processes on the device, their CPU
//! time, heat. Compares two samples; the warning thresholds are constants here.

use super::block::{Layer, LayerKind, Stack};
use super::health;
use super::root::Root;
use super::stat::DiskStat;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;
use trimtab_drive::units::{Bytes, three_digits};
use trimtab_sim::run::{Field, Severity, Warning};

/// No warning for foreign I/O below this amount.
const OTHER_IO_BYTES_MIN: u64 = 4 << 20;
/// Share of all I/O on the device above which foreign I/O is reported.
const OTHER_IO_SHARE: f64 = 0.02;
/// The same if no other process did the I/O: a filesystem's own log and metadata reach
/// this share, and earlier buffered writes may reach the device during the measurement.
const UNATTRIBUTED_IO_SHARE: f64 = 0.1;
/// Without a process list: share that the metadata of buffered files no longer explains.
const UNEXPLAINED_IO_SHARE: f64 = 0.5;
/// CPU time of other programs, as a share of all CPUs.
const OTHER_CPU_SHARE: f64 = 0.10;
/// CPU time stolen by the hypervisor, as a share of all CPUs.
const STEAL_SHARE: f64 = 0.02;
/// The I/O of the measured code itself on the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnIo {
    /// Bytes read.
    pub read: Bytes,
    /// Bytes written.
    pub written: Bytes,
}

/// Minimum extra writes of btrfs: 5.15 MB were measured, four times out of four, for 36
/// to 100 MB of a file written in place.
const TREES_BYTES_MIN: u64 = 8 << 20;
/// Extra writes of btrfs as a fraction (1/N) of the data written.
const TREES_SHARE: u64 = 10;

impl OwnIo {
    /// Adds the filesystem's own writes: btrfs rewrites its trees, twice, at each commit.
    #[must_use]
    pub fn through(self, fs_type: Option<&str>) -> Self {
        let besides = if fs_type == Some("btrfs") && self.written.0 > 0 {
            TREES_BYTES_MIN.max(self.written.0 / TREES_SHARE)
        } else {
            0
        };
        Self { written: self.written + Bytes(besides), ..self }
    }
}

/// CPU time of all CPUs since boot, in clock ticks.
#[derive(Clone, Copy, Debug, Default)]
struct CpuTicks {
    total: u64,
    steal: u64,
}

#[derive(Clone, Debug)]
struct Process {
    ticks: u64,
    /// `None` without permission to read it.
    io_bytes: Option<u64>,
}

#[derive(Clone, Debug)]
struct Temperature {
    name: String,
    milli_celsius: i64,
    limit: Option<i64>,
}

/// The state of the machine at one moment.
#[derive(Clone, Debug)]
pub struct MachineSample {
    at: Instant,
    device: Option<(String, DiskStat)>,
    own: OwnIo,
    cpu: CpuTicks,
    processes: BTreeMap<(u32, u64), Process>,
    temperatures: Vec<Temperature>,
    throttled: u64,
}

impl MachineSample {
    /// Takes a sample; values that cannot be read are omitted.
    pub fn take(root: &Root, stack: &Stack) -> Self {
        let watched = watched(stack);
        Self {
            at: Instant::now(),
            device: watched.and_then(|l| Some((l.shown_name(), DiskStat::read(root, &l.sys)?))),
            own: own_io(root),
            cpu: cpu_ticks(&root.read("/proc/stat").unwrap_or_default()),
            processes: processes(root),
            temperatures: temperatures(root, stack),
            throttled: throttled(root),
        }
    }
}

/// The lowest device through which every byte passes unchanged, so that its counters can
/// be compared with the I/O of the measured code. Includes I/O on other partitions of the
/// drive, but does not descend below arrays or files.
pub fn watched(stack: &Stack) -> Option<&Layer> {
    let [top] = stack.tops[..] else { return None };
    let mut layer = stack.layers.get(top)?;
    while let [below] = layer.below[..] {
        match stack.layers.get(below) {
            Some(next) if !matches!(next.kind, LayerKind::File { .. }) => layer = next,
            _ => break,
        }
    }
    Some(layer)
}

/// The I/O of this process, from the kernel's accounting.
pub(super) fn own_io(root: &Root) -> OwnIo {
    let text = root.read("/proc/self/io").unwrap_or_default();
    let value = |key: &str| {
        text.lines().find_map(|l| l.strip_prefix(key)?.trim().parse().ok()).unwrap_or(0_u64)
    };
    OwnIo { read: Bytes(value("read_bytes:")), written: Bytes(value("write_bytes:")) }
}

fn cpu_ticks(stat: &str) -> CpuTicks {
    let Some(line) = stat.lines().find_map(|l| l.strip_prefix("cpu ")) else {
        return CpuTicks::default();
    };
    // user nice system idle iowait irq softirq steal; guest times are included in user.
    let fields: Vec<u64> =
        line.split_ascii_whitespace().take(8).map_while(|f| f.parse().ok()).collect();
    CpuTicks {
        total: fields.iter().fold(0, |sum, f| sum.saturating_add(*f)),
        steal: fields.get(7).copied().unwrap_or(0),
    }
}

/// All programs except this one and kernel threads, by process id and start time.
fn processes(root: &Root) -> BTreeMap<(u32, u64), Process> {
    if !root.is_live() {
        return BTreeMap::new();
    }
    let own = std::process::id();
    let pids = root
        .list("/proc")
        .into_iter()
        .filter_map(|n| n.parse::<u32>().ok())
        .filter(|&pid| pid != own);
    pids.filter_map(|pid| {
        let (key, mut process) = parse_process(pid, &root.read(format!("/proc/{pid}/stat"))?)?;
        process.io_bytes = root.read(format!("/proc/{pid}/io")).map(|io| process_io(&io));
        Some((key, process))
    })
    .collect()
}

fn process_io(io: &str) -> u64 {
    let value = |key: &str| {
        io.lines().find_map(|l| l.strip_prefix(key)?.trim().parse().ok()).unwrap_or(0_u64)
    };
    value("read_bytes:").saturating_add(value("write_bytes:"))
}

/// Parses `/proc/PID/stat`; `None` for kernel threads, which may be working for this
/// process.
fn parse_process(pid: u32, stat: &str) -> Option<((u32, u64), Process)> {
    // The program's name may contain parentheses; the last one ends it.
    let (_, tail) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
    let number = |n: usize| fields.get(n).and_then(|f| f.parse::<u64>().ok());
    // Fields of proc(5), counted from the state (3): ppid 4, flags 9, utime 14, stime 15,
    // starttime 22.
    const PF_KTHREAD: u64 = 0x0020_0000;
    if number(6)? & PF_KTHREAD != 0 {
        return None;
    }
    let ticks = number(11)?.saturating_add(number(12)?);
    Some(((pid, number(19)?), Process { ticks, io_bytes: None }))
}

/// The temperatures of the drives.
fn temperatures(root: &Root, stack: &Stack) -> Vec<Temperature> {
    let mut all = Vec::new();
    for dir in stack.drives().flat_map(|drive| health::sensors(root, drive)) {
        let chip = root.read(dir.join("name")).unwrap_or_default();
        for input in
            root.list(&dir).iter().filter(|n| n.starts_with("temp") && n.ends_with("_input"))
        {
            let attribute = |suffix: &str| dir.join(input.replace("_input", suffix));
            let Some(milli_celsius) = root.read_i64(dir.join(input)) else { continue };
            let limit =
                root.read_i64(attribute("_max")).or_else(|| root.read_i64(attribute("_crit")));
            let label =
                root.read(attribute("_label")).unwrap_or_else(|| input.replace("_input", ""));
            all.push(Temperature { name: format!("{chip} {label}"), milli_celsius, limit });
        }
    }
    all
}

/// Number of CPU thermal throttling events since boot.
fn throttled(root: &Root) -> u64 {
    let base = Path::new("/sys/devices/system/cpu");
    let cpus = root
        .list(base)
        .into_iter()
        .filter(|n| n.strip_prefix("cpu").is_some_and(|d| d.parse::<u32>().is_ok()));
    cpus.filter_map(|cpu| {
        root.read_u64(base.join(cpu).join("thermal_throttle/core_throttle_count"))
    })
    .fold(0, u64::saturating_add)
}

/// Compares two samples. Returns fields (`interference.*`) and warnings.
pub fn judge(
    before: &MachineSample,
    after: &MachineSample,
    own: Option<OwnIo>,
) -> (Vec<Field>, Vec<Warning>) {
    let mut report = InterferenceReport::default();
    let seconds = after.at.duration_since(before.at).as_secs_f64();
    report.field("interference.seconds", format!("{seconds:.3}"));
    let others = ForeignActivity::between(before, after);
    judge_io(before, after, own, &others, &mut report);
    judge_cpu(before, after, &others, &mut report);
    judge_heat(before, after, &mut report);
    (report.fields, report.warnings)
}

#[derive(Default)]
struct InterferenceReport {
    fields: Vec<Field>,
    warnings: Vec<Warning>,
}

impl InterferenceReport {
    fn field(&mut self, key: &str, value: String) {
        self.fields.push(Field::new(key, value));
    }

    fn warn(&mut self, code: &str, facts: &[(&str, String)], text: String) {
        let facts = facts.iter().map(|(key, value)| Field::new(*key, value.clone())).collect();
        self.warnings.push(Warning::new(code, Severity::Caution, text).with(facts));
    }
}

struct ForeignActivity {
    ticks: u64,
    /// On any device; `None` if the I/O of some programs is not visible.
    io_bytes: Option<u64>,
}

impl ForeignActivity {
    fn between(before: &MachineSample, after: &MachineSample) -> Self {
        let mut sum = Self { ticks: 0, io_bytes: Some(0) };
        for (key, now) in &after.processes {
            let then = before.processes.get(key);
            let ticks = now.ticks.saturating_sub(then.map_or(0, |p| p.ticks));
            sum.ticks += ticks;
            let io = now
                .io_bytes
                .map(|io| io.saturating_sub(then.and_then(|p| p.io_bytes).unwrap_or(0)));
            sum.io_bytes = sum.io_bytes.zip(io).map(|(a, b)| a.saturating_add(b));
        }
        sum
    }
}

fn judge_io(
    before: &MachineSample,
    after: &MachineSample,
    own: Option<OwnIo>,
    others: &ForeignActivity,
    report: &mut InterferenceReport,
) {
    let (Some((name, then)), Some((_, now))) = (&before.device, &after.device) else { return };
    let device = now.since(then);
    let exact = own.is_some();
    let own = own.unwrap_or(OwnIo {
        read: after.own.read.saturating_sub(before.own.read),
        written: after.own.written.saturating_sub(before.own.written),
    });
    let excess = device
        .read
        .saturating_sub(own.read)
        .saturating_add(device.written.saturating_sub(own.written));
    let total = device.read.saturating_add(device.written);
    report.field("interference.device", name.clone());
    report.field("interference.device_read_bytes", device.read.0.to_string());
    report.field("interference.device_written_bytes", device.written.0.to_string());
    report.field("interference.not_ours_bytes", excess.0.to_string());
    // Without an exact count of our own I/O, metadata and journal look like foreign I/O;
    // the I/O of the other programs then decides.
    let (other, share) = match (exact, others.io_bytes) {
        (true, Some(bytes)) if bytes < excess.0 / 2 => (excess.0, UNATTRIBUTED_IO_SHARE),
        (true, _) => (excess.0, OTHER_IO_SHARE),
        (false, Some(bytes)) => (excess.0.min(bytes), OTHER_IO_SHARE),
        (false, None) => (excess.0, UNEXPLAINED_IO_SHARE),
    };
    if other > OTHER_IO_BYTES_MIN && other as f64 > share * total.as_f64() {
        let facts = [("other_bytes", other.to_string()), ("device_bytes", total.0.to_string())];
        let text = format!(
            "{} of {} on {name} did not come from this run: the figures may be too low",
            Bytes(other),
            total
        );
        report.warn("interference.other-io", &facts, text);
    }
}

fn judge_cpu(
    before: &MachineSample,
    after: &MachineSample,
    others: &ForeignActivity,
    report: &mut InterferenceReport,
) {
    let total = after.cpu.total.saturating_sub(before.cpu.total);
    if total == 0 {
        return;
    }
    let share = others.ticks as f64 / total as f64;
    let steal = after.cpu.steal.saturating_sub(before.cpu.steal) as f64 / total as f64;
    report.field("interference.other_cpu", percent(share));
    report.field("interference.steal", percent(steal));
    // Two clock ticks are too few to judge.
    if share > OTHER_CPU_SHARE && others.ticks > 2 {
        let text = format!(
            "other programs used {} of all CPU time: latencies may be too high",
            percent(share)
        );
        report.warn("interference.cpu", &[("share", percent(share))], text);
    }
    if steal > STEAL_SHARE {
        let text = format!(
            "the hypervisor took {} of all CPU time: latencies may be too high",
            percent(steal)
        );
        report.warn("interference.steal", &[("share", percent(steal))], text);
    }
}

fn judge_heat(before: &MachineSample, after: &MachineSample, report: &mut InterferenceReport) {
    let celsius = |milli: i64| format!("{:.1} °C", milli as f64 / 1000.0);
    let peak = |n: usize, t: &Temperature| {
        before.temperatures.get(n).map_or(t.milli_celsius, |b| b.milli_celsius.max(t.milli_celsius))
    };
    let all = || after.temperatures.iter().enumerate().map(|(n, t)| (peak(n, t), t));
    if let Some((hottest, which)) = all().max_by_key(|(milli, _)| *milli) {
        report.field(
            "interference.drive_temperature_max",
            format!("{} ({})", celsius(hottest), which.name),
        );
    }
    for (milli, sensor) in
        all().filter(|(milli, t)| t.limit.is_some_and(|limit| limit > 0 && *milli >= limit))
    {
        let text = format!(
            "the drive reached {} ({}), its limit: it may have slowed itself down",
            celsius(milli),
            sensor.name
        );
        report.warn("interference.drive-hot", &[("temperature", celsius(milli))], text);
    }
    let throttled = after.throttled.saturating_sub(before.throttled);
    if throttled > 0 {
        let text = format!("CPUs were slowed down {throttled} times because of heat");
        report.warn("interference.throttled", &[("events", throttled.to_string())], text);
    }
}

fn percent(share: f64) -> String {
    format!("{} %", three_digits(100.0 * share))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn sample() -> MachineSample {
        MachineSample {
            at: Instant::now(),
            device: Some(("sda".into(), DiskStat::default())),
            own: OwnIo::default(),
            cpu: CpuTicks { total: 1000, steal: 0 },
            processes: BTreeMap::from([((7, 70), Process { ticks: 10, io_bytes: Some(0) })]),
            temperatures: Vec::new(),
            throttled: 0,
        }
    }

    fn later(change: impl FnOnce(&mut MachineSample)) -> (MachineSample, MachineSample) {
        let before = sample();
        let mut after = before.clone();
        after.at += Duration::from_secs(10);
        after.cpu.total += 2000;
        change(&mut after);
        (before, after)
    }

    fn codes(before: &MachineSample, after: &MachineSample, own: Option<OwnIo>) -> Vec<String> {
        judge(before, after, own).1.into_iter().map(|w| w.code).collect()
    }

    fn written(mib: u64) -> Option<(String, DiskStat)> {
        Some(("sda".into(), DiskStat { written: Bytes(mib << 20), ..DiskStat::default() }))
    }

    #[test]
    fn judge_of_quiet_machine_gives_no_warning() {
        let (before, after) = later(|a| a.device = written(1000));
        let own = OwnIo { written: Bytes(990 << 20), ..OwnIo::default() };
        assert!(codes(&before, &after, Some(own)).is_empty());
        // The same with files: twice the bytes, all of them the filesystem's own.
        let (before, after) = later(|a| {
            a.device = written(1000);
            a.own.written = Bytes(500 << 20);
        });
        assert!(codes(&before, &after, None).is_empty());
    }

    #[test]
    fn foreign_io_warning_states_both_amounts() {
        let (before, after) = later(|a| {
            a.device = written(1000);
            a.own.written = Bytes(500 << 20);
            a.processes.values_mut().for_each(|p| p.io_bytes = Some(300 << 20));
        });
        let (_, warnings) = judge(&before, &after, None);
        assert_eq!(warnings[0].code, "interference.other-io");
        assert!(warnings[0].text.contains("315 MB of 1.05 GB"), "{}", warnings[0].text);
        assert_eq!(
            codes(&before, &after, Some(OwnIo { written: Bytes(1000 << 20), ..OwnIo::default() })),
            [""; 0]
        );
    }

    /// Once, 5 of 95 MB of btrfs's own writes were reported as foreign in every run.
    #[test]
    fn foreign_io_of_no_other_process_needs_a_tenth() {
        let of = |excess: u64, by_others: u64| {
            let (before, after) = later(|a| {
                a.device = written(1000);
                a.processes.values_mut().for_each(|p| p.io_bytes = Some(by_others << 20));
            });
            judge(
                &before,
                &after,
                Some(OwnIo { written: Bytes((1000 - excess) << 20), ..OwnIo::default() }),
            )
            .1
            .first()
            .map(|one| one.code.clone())
        };
        assert_eq!(of(99, 1), None, "a filesystem's own");
        assert!(of(101, 50).is_some() && of(101, 51).is_some());
        assert!(of(30, 15).is_some(), "3 %, and a program may have done it");
        let own = OwnIo { read: Bytes(5), written: Bytes(100_000_000) };
        assert_eq!(own.through(Some("btrfs")), OwnIo { written: Bytes(110_000_000), ..own });
        assert_eq!(
            [own.through(Some("ext4")), OwnIo::default().through(Some("btrfs"))],
            [own, OwnIo::default()]
        );
    }

    #[test]
    fn judge_warns_about_cpu_and_heat() {
        let (before, after) = later(|a| {
            a.processes.values_mut().for_each(|p| p.ticks += 500);
            a.cpu.steal = 100;
            a.throttled = 3;
            a.temperatures = vec![Temperature {
                name: "nvme Composite".into(),
                milli_celsius: 85_000,
                limit: Some(84_850),
            }];
        });
        let expected = [
            "interference.cpu",
            "interference.steal",
            "interference.drive-hot",
            "interference.throttled",
        ];
        assert_eq!(codes(&before, &after, None), expected);
    }

    #[test]
    fn parse_process_accepts_parentheses_in_names() {
        let stat = "12 (a) (b) S 1 12 12 0 -1 4194560 1 2 3 4 50 60 0 0 20 0 1 0 777 0 0";
        let (key, process) = parse_process(12, stat).unwrap();
        assert_eq!((key, process.ticks), ((12, 777), 110));
        assert!(
            parse_process(2, "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 2 0 0 20 0 1 0 5 0 0")
                .is_none(),
            "kernel thread"
        );
        assert!(parse_process(2, "garbage").is_none());
    }

    #[test]
    fn cpu_ticks_count_guest_time_once() {
        let ticks = cpu_ticks("cpu  10 20 30 40 50 60 70 80 900 1000\ncpu0 1 1 1 1\n");
        assert_eq!((ticks.total, ticks.steal), (360, 80));
    }
}
