//! One policy on one drive under one load.

use super::load::PeerLoad;
use super::policy::Peer;
use super::used::{PeerStart, PeerTarget, known};
use anyhow::ensure;
use serde::Serialize;
use std::collections::BTreeMap;
use trimtab_drive::discards::Amount;
use trimtab_drive::units::Nanos;
use trimtab_sim::policy::{IdleSettings, Policy, PolicySpec, PolicyState};
use trimtab_sim::target::Clock as _;
use trimtab_study::study::small::SmallDrive;

/// No trims, two idle policies, the two published policies, and two common ones.
pub(super) const POLICIES: [&str; 7] =
    ["none", IDLE_UNLIMITED, "idle", "itrim", "dtrim", "online", "batched:every=6h"];
/// The idle policy without its limit on requests delayed by a TRIM.
pub(super) const IDLE_UNLIMITED: &str = "idle unlimited";

/// Results of one policy on one drive under one load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct PeerCell {
    pub(super) drive: String,
    pub(super) load: &'static str,
    pub(super) policy: String,
    /// Number of foreground requests, and percentiles of their latency.
    pub(super) requests: usize,
    pub(super) p50_ns: u64,
    pub(super) p99_ns: u64,
    pub(super) p999_ns: u64,
    pub(super) longest_ns: u64,
    /// Share of the free bytes that the drive knows to be free.
    pub(super) known_share: f64,
    pub(super) waf: f64,
    /// Number of TRIM commands, and the drive time spent on them.
    pub(super) commands: u64,
    pub(super) trim_ns: u64,
    pub(super) took_ns: u64,
    /// True if online discard is enabled at the end.
    #[serde(skip)]
    pub(super) online: bool,
}

pub(super) const CSV_HEAD: &str = "drive,load,policy,requests,p50_ns,p99_ns,p999_ns,longest_ns,known_share,waf,commands,trim_ns,took_ns\n";

impl PeerCell {
    pub(super) fn csv(&self) -> String {
        let Self {
            drive,
            load,
            policy,
            requests,
            p50_ns,
            p99_ns,
            p999_ns,
            longest_ns,
            known_share,
            waf,
            commands,
            trim_ns,
            took_ns,
            ..
        } = self;
        format!(
            "{drive},{load},{policy},{requests},{p50_ns},{p99_ns},{p999_ns},{longest_ns},{known_share:.4},{waf:.4},{commands},{trim_ns},{took_ns}\n"
        )
    }
}

/// Latency percentile in per mille by nearest rank. `sorted` must not be empty.
fn percentile(sorted: &[Nanos], permille: usize) -> u64 {
    sorted[(sorted.len() * permille).div_ceil(1000).max(1) - 1].0
}

/// Independent counters of the drive and of its filesystem.
struct PeerCounters {
    drive: BTreeMap<String, u64>,
    written: u64,
    discards: Amount,
}

impl PeerCounters {
    fn now(target: &PeerTarget) -> Self {
        let traffic = target.volume().counters().traffic;
        Self {
            drive: target.volume().drive().counters(),
            written: traffic.writes.bytes.0,
            discards: traffic.discards,
        }
    }
}

/// Creates a policy by name, with times scaled for a small drive.
fn policy(name: &str, small: &SmallDrive) -> anyhow::Result<Box<dyn Policy>> {
    Ok(match Peer::named(name, small) {
        Some(peer) => Box::new(peer),
        None => {
            let spec = if name == IDLE_UNLIMITED {
                PolicySpec::Idle(IdleSettings { met_per_mille: 0, ..IdleSettings::default() })
            } else {
                name.parse()?
            };
            small.faster(&spec).build(&PolicyState::default())
        }
    })
}

/// Runs `requests` requests of `load` under policy `name`, starting from `used`.
///
/// # Errors
/// If results are inconsistent, or a request fails.
pub(super) fn run(
    used: &PeerStart,
    load: &PeerLoad,
    name: &str,
    requests: usize,
) -> anyhow::Result<PeerCell> {
    let mut work = used.work.clone();
    let mut target = used.target.fork(policy(name, &used.small)?);
    let before = PeerCounters::now(&target);
    let began = target.now();
    let mut waits = load.run(&mut target, &mut work, requests)?;
    waits.sort_unstable();
    let (took, after) = (target.now() - began, PeerCounters::now(&target));

    let count = |name: &str| after.drive[name] - before.drive[name];
    let (host, commands, trim_ns) =
        (count("host_written_bytes"), count("host_trims"), count("trim_ns"));
    let discards = after.discards.since(before.discards);
    let at = format!("{} {} {name}", used.name, load.name);
    ensure!(
        host == after.written - before.written,
        "{at}: bytes written by the filesystem and counted by the drive differ"
    );
    ensure!(
        (commands, count("trim_asked_bytes")) == (discards.count, discards.bytes.0),
        "{at}: discards and TRIMs differ"
    );
    let of_commands = used.trim_ns(commands, count("trim_ranges"));
    ensure!(
        of_commands.is_none_or(|time| time == trim_ns),
        "{at}: trim time differs from the sum over commands"
    );
    ensure!(trim_ns <= took.0, "{at}: TRIM time exceeds elapsed time");
    let (known_share, waf) =
        (known(&target, began + took)?, count("nand_written_bytes") as f64 / host as f64);
    ensure!(
        (0.0..=1.0).contains(&known_share) && waf > 0.5,
        "{at}: known {known_share}, write amplification {waf}"
    );
    Ok(PeerCell {
        drive: used.name.clone(),
        load: load.name,
        policy: name.into(),
        requests: waits.len(),
        p50_ns: percentile(&waits, 500),
        p99_ns: percentile(&waits, 990),
        p999_ns: percentile(&waits, 999),
        longest_ns: percentile(&waits, 1000),
        known_share,
        waf,
        commands,
        trim_ns,
        took_ns: took.0,
        online: target.policy().online(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::load::LOADS;
    use super::*;
    use trimtab_drive::shipped::drive;

    #[test]
    fn cell_run_is_reproducible() {
        let used = PeerStart::of(&drive("sata-tlc-500gb"), 0.05).unwrap();
        for load in &LOADS {
            let [first, second] = [0, 1].map(|_| run(&used, load, "dtrim", 200).unwrap());
            assert_eq!(first, second);
            assert_eq!(first.requests, 200);
            assert_eq!(CSV_HEAD.split(',').count(), first.csv().split(',').count());
        }
    }

    #[test]
    fn percentile_uses_nearest_rank() {
        let of = |n: u64| (1..=n).map(Nanos).collect::<Vec<_>>();
        assert_eq!(
            [500, 990, 999, 1000].map(|permille| percentile(&of(1000), permille)),
            [500, 990, 999, 1000]
        );
        assert_eq!(
            [500, 990, 999, 1000].map(|permille| percentile(&of(10), permille)),
            [5, 10, 10, 10]
        );
        assert_eq!([500, 990].map(|permille| percentile(&of(1), permille)), [1, 1]);
    }
}
