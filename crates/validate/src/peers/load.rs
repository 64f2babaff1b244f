//! Foreground loads.

use super::used::{DATABASE, MAILS, PeerTarget, TurnoverState, fill};
use trimtab_drive::rng::Stream;
use trimtab_drive::units::Nanos;
use trimtab_sim::target::{Clock as _, FileTarget as _, TargetResult};
use trimtab_sim::volume::BLOCK;

/// A load and its number of measured requests.
pub(super) struct PeerLoad {
    pub(super) name: &'static str,
    kind: LoadKind,
    pub(super) requests: usize,
}

/// Kind of requests and their timing. Latency counts from the due time; in
/// [`Bursts`](Kind::Bursts) from submission.
enum LoadKind {
    /// Every interval, syncs a new 16 KiB file and deletes the one from ten seconds
    /// earlier.
    Files(Nanos),
    /// 4 KiB random writes to the drive with exponentially distributed intervals of this
    /// mean.
    Poisson(Nanos),
    /// This many sequentially issued requests per interval.
    Bursts(u64, Nanos),
    /// Mail server: delivery with sync, append, read and delete, with pauses of this
    /// mean.
    Mail(Nanos),
    /// 4 KiB random writes to the drive, each this long after the previous one.
    Busy(Nanos),
}

const MAIL_BYTES: (u64, u64) = (512, 16 << 10);
const FILES_MAX: u64 = 200;

pub(super) static LOADS: [PeerLoad; 5] = [
    PeerLoad { name: "files", kind: LoadKind::Files(Nanos::from_millis(50)), requests: 36_000 },
    PeerLoad { name: "poisson", kind: LoadKind::Poisson(Nanos::from_millis(5)), requests: 180_000 },
    PeerLoad { name: "bursts", kind: LoadKind::Bursts(100, Nanos::from_secs(1)), requests: 90_000 },
    PeerLoad { name: "mail", kind: LoadKind::Mail(Nanos::from_millis(20)), requests: 45_000 },
    PeerLoad { name: "busy", kind: LoadKind::Busy(Nanos::from_micros(200)), requests: 600_000 },
];

impl PeerLoad {
    /// Runs `requests` requests; returns their latencies.
    pub(super) fn run(
        &self,
        target: &mut PeerTarget,
        work: &mut TurnoverState,
        requests: usize,
    ) -> TargetResult<Vec<Nanos>> {
        let mut rng = Stream::new(1, self.name);
        let began = target.now();
        work.begin(began);
        let mut due = began;
        (0..requests as u64)
            .map(|n| {
                due = match self.kind {
                    LoadKind::Files(every) => began + Nanos(every.0 * n),
                    LoadKind::Poisson(mean) => due + exponential(&mut rng, mean),
                    LoadKind::Bursts(many, every) => began + Nanos(every.0 * (n / many)),
                    LoadKind::Mail(mean) => target.now() + exponential(&mut rng, mean),
                    LoadKind::Busy(pause) => target.now() + pause,
                };
                work.until(target, due)?;
                let issued = target.now();
                self.request(n, target, work, &mut rng)?;
                Ok(target.now()
                    - if matches!(self.kind, LoadKind::Bursts(..)) { issued } else { due })
            })
            .collect()
    }

    fn request(
        &self,
        n: u64,
        target: &mut PeerTarget,
        work: &mut TurnoverState,
        rng: &mut Stream,
    ) -> TargetResult {
        match self.kind {
            LoadKind::Files(_) => {
                if let Some(gone) = n.checked_sub(FILES_MAX) {
                    target.delete(&format!("saved{gone}"))?;
                }
                let path = format!("saved{n}");
                target.create(&path, &fill(4 * BLOCK))?;
                target.volume_mut().fsync(&path)
            }
            LoadKind::Poisson(_) | LoadKind::Bursts(..) | LoadKind::Busy(_) => {
                let place = work.place(rng);
                target.volume_mut().overwrite(DATABASE, place, &fill(BLOCK))
            }
            LoadKind::Mail(_) => mail(target, work, rng),
        }
    }
}

/// One mail operation: read, append, or replacement, all equally likely.
fn mail(target: &mut PeerTarget, work: &mut TurnoverState, rng: &mut Stream) -> TargetResult {
    let at = rng.below(work.mails.len() as u64) as usize;
    let len = rng.between(MAIL_BYTES.0, MAIL_BYTES.1);
    let path = format!("mail/{}", work.mails[at]);
    match rng.below(4) {
        0 => target.read(&path, BLOCK / 8),
        1 => {
            target.append(&path, &fill(len / 4))?;
            target.volume_mut().fsync(&path)
        }
        2 if work.mails.len() as u64 > MAILS / 2 => {
            work.mails.swap_remove(at);
            target.delete(&path)
        }
        _ => {
            let number = work.number();
            let path = format!("mail/{number}");
            target.create(&path, &fill(len))?;
            work.mails.push(number);
            target.volume_mut().fsync(&path)
        }
    }
}

fn exponential(rng: &mut Stream, mean: Nanos) -> Nanos {
    Nanos((-libm::log(1.0 - rng.unit()) * mean.as_f64()) as u64)
}
