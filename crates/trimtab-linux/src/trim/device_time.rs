//! The part of a trim request's time that the device spent on its discards.
//!
//! FITRIM also does the filesystem's own work: XFS writes its log and searches the
//! allocation groups. Foreground requests wait for the device only.

use crate::host::stat::DiskStat;
use trimtab_drive::units::Nanos;

/// The kernel counts the time of discards in milliseconds.
const RESOLUTION_NS: f64 = 1e6;
/// A request with this much counted time needs no other.
const PRECISE_NS: f64 = 4.0 * RESOLUTION_NS;
/// Share of earlier requests that each further one keeps.
const KEEP: f64 = 1.0 - 1.0 / 64.0;
/// Above this share, the time of a request tells the device's.
const MOST: f64 = 0.5;

/// Sums over recent short requests, in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct DeviceTime {
    commands: f64,
    counted: f64,
    elapsed: f64,
}

impl DeviceTime {
    /// The device's part of a request that took `elapsed`, while the device's counters
    /// advanced by `step`. All of it if the device does not count discards.
    ///
    /// A command is often shorter than the resolution of the counter, but the sum over
    /// requests is not. If the device had most of that time, a short request gets the
    /// same share of its own; otherwise the mean of recent commands. Both are limited to
    /// a millisecond around the time counted for the request.
    pub(super) fn of(&mut self, elapsed: Nanos, step: &DiskStat) -> Nanos {
        let Some(commands) = step.discards.map(|discards| discards.count).filter(|n| *n > 0) else {
            return elapsed;
        };
        let (elapsed, counted) = (elapsed.as_f64().max(1.0), step.discard_time.as_f64());
        let part = if counted >= PRECISE_NS {
            counted + RESOLUTION_NS / 2.0
        } else {
            let commands = commands as f64;
            self.commands = self.commands * KEEP + commands;
            self.elapsed = self.elapsed * KEEP + elapsed;
            // Commands that run at the same time count several times.
            self.counted = self.counted * KEEP + counted.min(elapsed + RESOLUTION_NS);
            let sum = self.counted + RESOLUTION_NS;
            let share = sum / self.elapsed;
            let part = if share > MOST { elapsed * share } else { commands * sum / self.commands };
            part.clamp((counted - RESOLUTION_NS).max(0.0), counted + RESOLUTION_NS)
        };
        Nanos(part.min(elapsed) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_drive::discards::Amount;

    /// The device's part of requests of one command each, given as pairs: the
    /// time of the request and that of the device, in microseconds.
    fn parts(requests: impl IntoIterator<Item = (u64, u64)>) -> Vec<u64> {
        let (mut device, mut spent, mut commands) = (DeviceTime::default(), 0, 0);
        let stat = |commands: u64, spent: u64| DiskStat {
            discards: Some(Amount::new(commands, commands * 65_536)),
            // As the kernel shows it.
            discard_time: Nanos::from_millis(spent / 1000),
            ..DiskStat::default()
        };
        let mut part = |(request, in_device): (u64, u64)| {
            let before = stat(commands, spent);
            (commands, spent) = (commands + 1, spent + in_device);
            device.of(Nanos::from_micros(request), &stat(commands, spent).since(&before)).0 / 1000
        };
        requests.into_iter().map(&mut part).collect()
    }

    fn mean(parts: &[u64]) -> f64 {
        parts.iter().sum::<u64>() as f64 / parts.len() as f64
    }

    /// XFS, 750 free extents: 13.9 ms a request, 0.84 ms of it in the device.
    #[test]
    fn time_of_the_filesystem_is_not_the_device_s() {
        let all = parts((0..750).map(|n| (10_900 + n % 7 * 1000, 840)));
        assert!(all.iter().all(|part| *part <= 1840), "within a millisecond: {all:?}");
        assert!((mean(&all) / 840.0 - 1.0).abs() < 0.05, "{}", mean(&all));
        // Short commands: a tenth of the counter's unit.
        let short = parts((0..750).map(|_| (900, 100)));
        assert!((mean(&short) / 100.0 - 1.0).abs() < 0.25, "{}", mean(&short));
        assert!(short[100..].iter().all(|part| (50..200).contains(part)), "{short:?}");
        // A busy machine: the wait for a CPU varies, the device's time does not.
        let busy = parts((0..750).map(|n| (1000 + n % 11 * n % 13 * 4000, 840)));
        assert!(busy[50..].iter().all(|part| (420..1680).contains(part)), "{busy:?}");
    }

    #[test]
    fn time_of_a_long_command_is_the_device_s() {
        let all = parts((0..100).map(|n| if n == 60 { (90_000, 31_500) } else { (1000, 100) }));
        assert!((30_000..=32_500).contains(&all[60]), "{}", all[60]);
        assert!(all[61..].iter().all(|part| *part < 250), "short ones stay short: {all:?}");
        // ext4 waits for each command itself.
        let all = parts((0..100).map(|_| (700, 690)));
        assert!(all.iter().all(|part| (690..=700).contains(part)), "{all:?}");
    }

    #[test]
    fn time_of_an_uncounted_request_is_all_of_it() {
        let mut device = DeviceTime::default();
        let none = DiskStat::default();
        let zero = DiskStat { discards: Some(Amount::default()), ..none };
        let elapsed = Nanos::from_millis(20);
        assert_eq!([none, zero].map(|step| device.of(elapsed, &step)), [elapsed; 2]);
        // At once: 16 commands of 20 ms each count 320 ms.
        let step = DiskStat {
            discards: Some(Amount::new(16, 16 << 20)),
            discard_time: Nanos::from_millis(320),
            ..none
        };
        assert_eq!(device.of(elapsed, &step), elapsed);
    }
}
