//! What the foreground does.

use super::Target;
use super::used::{DATABASE, MAILS, Work, fill};
use alloc::format;
use alloc::vec::Vec;
use trimtab_drive::rng::Stream;
use trimtab_drive::units::Nanos;
use trimtab_sim::target::{Clock as _, FileTarget as _};
use trimtab_sim::volume::BLOCK;

/// A load, and how many requests of it are watched.
pub(super) struct Load {
    pub(super) name: &'static str,
    what: What,
    pub(super) requests: usize,
}

/// When requests come, and what they are. A time is from when a request was due, or from when it could begin in [`Bursts`](What::Bursts).
enum What {
    /// A file of 16 KiB is made durable every so often, and the one of ten seconds ago goes.
    Files(Nanos),
    /// 4 KiB are written to the drive at a random place, at random times, on average so often.
    Poisson(Nanos),
    /// So many of these one after another, every so often.
    Bursts(u64, Nanos),
    /// Mails come and are made durable, grow, are read and go, with pauses of random length between, on average so long.
    Mail(Nanos),
    /// 4 KiB are written to the drive at random places, the next one always so long after the one before.
    Busy(Nanos),
}

/// Bytes of a mail.
const MAIL_BYTES: (u64, u64) = (512, 16 << 10);
/// Files that are there at a time.
const KEPT: u64 = 200;

pub(super) static LOADS: [Load; 5] = [
    Load { name: "files", what: What::Files(Nanos::from_millis(50)), requests: 36_000 },
    Load { name: "poisson", what: What::Poisson(Nanos::from_millis(5)), requests: 180_000 },
    Load { name: "bursts", what: What::Bursts(100, Nanos::from_secs(1)), requests: 90_000 },
    Load { name: "mail", what: What::Mail(Nanos::from_millis(20)), requests: 45_000 },
    Load { name: "busy", what: What::Busy(Nanos::from_micros(200)), requests: 600_000 },
];

impl Load {
    /// So many requests, and how long each took.
    pub(super) fn run(&self, target: &mut Target, work: &mut Work, requests: usize) -> Vec<Nanos> {
        let mut rng = Stream::new(1, self.name);
        let began = target.now();
        work.begin(began);
        let mut due = began;
        (0..requests as u64)
            .map(|n| {
                due = match self.what {
                    What::Files(every) => began + Nanos(every.0 * n),
                    What::Poisson(mean) => due + exponential(&mut rng, mean),
                    What::Bursts(many, every) => began + Nanos(every.0 * (n / many)),
                    What::Mail(mean) => target.now() + exponential(&mut rng, mean),
                    What::Busy(pause) => target.now() + pause,
                };
                work.until(target, due);
                let issued = target.now();
                self.request(n, target, work, &mut rng);
                target.now() - if matches!(self.what, What::Bursts(..)) { issued } else { due }
            })
            .collect()
    }

    fn request(&self, n: u64, target: &mut Target, work: &mut Work, rng: &mut Stream) {
        match self.what {
            What::Files(_) => {
                if let Some(gone) = n.checked_sub(KEPT) {
                    target.delete(&format!("saved{gone}")).unwrap();
                }
                let path = format!("saved{n}");
                target.create(&path, &fill(4 * BLOCK)).unwrap();
                target.volume_mut().fsync(&path).unwrap();
            }
            What::Poisson(_) | What::Bursts(..) | What::Busy(_) => {
                let place = work.place(rng);
                target.volume_mut().overwrite(DATABASE, place, &fill(BLOCK)).unwrap();
            }
            What::Mail(_) => mail(target, work, rng),
        }
    }
}

/// A mail is read or grows, or comes or goes, each as often as the other.
fn mail(target: &mut Target, work: &mut Work, rng: &mut Stream) {
    let at = rng.below(work.mails.len() as u64) as usize;
    let len = rng.between(MAIL_BYTES.0, MAIL_BYTES.1);
    let path = format!("mail/{}", work.mails[at]);
    match rng.below(4) {
        0 => target.read(&path, BLOCK / 8).unwrap(),
        1 => {
            target.append(&path, &fill(len / 4)).unwrap();
            target.volume_mut().fsync(&path).unwrap();
        }
        2 if work.mails.len() as u64 > MAILS / 2 => {
            work.mails.swap_remove(at);
            target.delete(&path).unwrap();
        }
        _ => {
            let number = work.number();
            let path = format!("mail/{number}");
            target.create(&path, &fill(len)).unwrap();
            target.volume_mut().fsync(&path).unwrap();
            work.mails.push(number);
        }
    }
}

fn exponential(rng: &mut Stream, mean: Nanos) -> Nanos {
    Nanos((-libm::log(1.0 - rng.unit()) * mean.as_f64()) as u64)
}
