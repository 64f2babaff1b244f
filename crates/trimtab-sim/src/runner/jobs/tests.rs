use super::*;
use crate::analysis::latency_knee;
use crate::simulate::pts::{PtsMinute, PtsPlan, PtsTest};
use crate::target::drive::DriveTarget;
use crate::workload::jobs::load::LoadSettings;
use crate::workload::jobs::{JobAddresses, JobFile, JobMix, JobPace, groups};
use crate::workload::synthetic::Pattern;
use alloc::string::ToString as _;
use alloc::vec;
use trimtab_drive::data::DataClass;
use trimtab_drive::units::Bytes;
use trimtab_drive::{Command, Completion, Device};

const MS: u64 = 1_000_000;

/// Executes one command after the other, each in this time.
struct Server {
    service: u64,
    busy_until: u64,
    commands: u64,
}

impl Device for Server {
    fn size(&self) -> Bytes {
        Bytes(1 << 20)
    }
    fn logical_block(&self) -> u32 {
        512
    }
    fn supports_trim(&self) -> bool {
        true
    }
    fn submit(&mut self, now: Nanos, _command: &Command<'_>) -> Completion {
        self.commands += 1;
        self.busy_until = self.busy_until.max(now.0) + self.service;
        Completion { done: Nanos(self.busy_until), result: Ok(()) }
    }
    fn idle(&mut self, _until: Nanos) {}
}

fn run_on(service: u64, jobs: &[Job]) -> (RunOutcome, u64) {
    let mut target = DriveTarget::new(Server { service, busy_until: 0, commands: 0 }, 4096);
    let groups = groups(jobs, Bytes(1 << 20), 512, DataClass::Random, 1).unwrap();
    let outcome = run(groups, &mut target, &mut ());
    assert_eq!(outcome.end, RunEnd::Complete);
    let commands = target.drive().commands;
    (outcome, commands)
}

fn phases(service: u64, text: &str) -> Vec<Phase> {
    let jobs = JobFile::parse(text).unwrap().jobs;
    run_on(service, &jobs).0.recorded.phases
}

fn ops(phase: &Phase) -> Vec<(OpKind, u64)> {
    phase.ops.clone()
}

/// Oracle: arithmetic on a server of 1 ms.
#[test]
fn depth_rate_pause_and_runtime_decide_times() {
    for (settings, count, took_ms) in [
        ("number_ios=100", 100, 100),
        ("number_ios=100\niodepth=8", 100, 100),
        // Every 4 ms, the last one at 396 ms.
        ("number_ios=100\nrate_iops=250", 100, 397),
        ("number_ios=100\nrate=1000k\niodepth=4", 100, 397),
        // Each request and its pause take 3 ms; the last one has no pause.
        ("number_ios=100\nthinktime=2000", 100, 298),
        // Eight at a time, then a pause of 2 ms: 12 full rounds of 10 ms, then four
        // requests.
        ("number_ios=100\nthinktime=2ms\niodepth=8", 100, 124),
        ("runtime=50ms\ntime_based", 50, 50),
        // Four more are in flight at the end.
        ("runtime=50ms\ntime_based\niodepth=4", 53, 53),
        ("runtime=50ms\ntime_based\nrate_iops=100", 5, 50),
        ("runtime=50ms\ntime_based\nramp_time=30ms", 51, 50),
        ("runtime=1\nnumber_ios=7", 7, 7),
    ] {
        let phases = phases(MS, &format!("[j]\nrw=write\n{settings}\n"));
        assert_eq!(
            (ops(&phases[0]), phases[0].took),
            (vec![(OpKind::Write, count)], Nanos(took_ms * MS)),
            "{settings}"
        );
    }
}

#[test]
fn groups_wait_and_clones_share_a_phase() {
    let text = "[a]\nrw=write\nnumber_ios=10\nnumjobs=3\n[b]\nrw=read\nnumber_ios=20\n[c]\n\
        stonewall\nnumber_ios=5\n";
    let phases = phases(MS, text);
    let shape: Vec<_> = phases
        .iter()
        .map(|phase| (phase.name.as_str(), phase.started.0 / MS, phase.ops_total()))
        .collect();
    assert_eq!(shape, [("a", 0, 30), ("b", 0, 20), ("c", 50, 5)]);
    // Four streams alternate until the clones of the first job have ended.
    assert_eq!((phases[0].took.0 / MS, phases[1].took.0 / MS, phases[2].took.0 / MS), (39, 50, 5));
}

#[test]
fn rates_apply_to_reads_and_writes_apart() {
    let phases =
        phases(MS / 10, "[j]\nrw=randrw\nrwmixread=90\nrate_iops=100\nruntime=1\ntime_based\n");
    assert_eq!(ops(&phases[0]), [(OpKind::Read, 100), (OpKind::Write, 100)]);
}

/// Mean wait of M/D/1 at utilisation u: service * u / (2 (1 - u)) (Pollaczek-Khinchine).
#[test]
fn random_arrivals_wait_as_queueing_theory_says() {
    for utilisation in [0.3, 0.5, 0.8] {
        let job = Job {
            mix: JobMix::Write,
            addresses: JobAddresses::Drawn(Pattern::Uniform, 100),
            depth: 1024,
            pace: JobPace::Random(utilisation * 1e3),
            latency_from_due: true,
            runtime: Some(Nanos::from_secs(400)),
            time_based: true,
            ..Job::new("load")
        };
        let (outcome, _) = run_on(MS, std::slice::from_ref(&job));
        let figures = metrics(&[job], &outcome.recorded.phases);
        let value = |suffix: &str| {
            figures.iter().find(|figure| figure.name.ends_with(suffix)).unwrap().samples[0]
        };
        let mean = 1.0 + utilisation / (2.0 * (1.0 - utilisation));
        assert!(
            (value(FIGURES[2]) / 1e6 / mean - 1.0).abs() < 0.03,
            "{utilisation}: {} ms, not {mean}",
            value(FIGURES[2]) / 1e6
        );
        assert!((value(RATE) / (utilisation * 1e3) - 1.0).abs() < 0.02, "{}", value(RATE));
        assert!((value(FIGURES[1]) / (value(RATE) * 4096.0 / 1e6) - 1.0).abs() < 1e-9);
    }
}

/// Latency from the due time contains the wait for a free place in the queue; from issue
/// it is the service time.
#[test]
fn overload_shows_in_latency_from_due_times() {
    let job = |latency_from_due| Job {
        pace: JobPace::Even(2000.0),
        requests_max: Some(200),
        latency_from_due,
        ..Job::new("load")
    };
    for (from_due, max_ms) in [(true, 100.5), (false, 1.0)] {
        let phases = run_on(MS, &[job(from_due)]).0.recorded.phases;
        let total =
            phases[0].latencies.iter().find(|latency| latency.part == LatencyPart::Total).unwrap();
        assert!(
            (total.histogram.max().as_f64() / 1e6 / max_ms - 1.0).abs() < 0.02,
            "{}",
            total.histogram.max()
        );
    }
}

#[test]
fn too_many_requests_in_flight_are_refused() {
    let jobs = JobFile::parse("[j]\niodepth=4096\nnumjobs=2\n").unwrap().jobs;
    let mut target = DriveTarget::new(Server { service: 1, busy_until: 0, commands: 0 }, 4096);
    let groups = groups(&jobs, Bytes(1 << 20), 512, DataClass::Random, 1).unwrap();
    let RunEnd::Failed(error) = run(groups, &mut target, &mut ()).end else {
        panic!("it must fail")
    };
    assert_eq!(
        error.to_string(),
        "cannot keep 8192 operations in flight: the target takes at most 4096"
    );
}

/// Share of the requests of M/D/1 that stay at most `sojourn` (in service times) at
/// utilisation u: (1 - u) times the sum over k up to t of (u (k - t))^k e^(-u (k - t)) /
/// k!, where t is the wait (Crommelin 1932).
fn within(utilisation: f64, sojourn: f64) -> f64 {
    let wait = sojourn - 1.0;
    let term = |k: u32| {
        let x = utilisation * (f64::from(k) - wait);
        let factorial: f64 = (1..=k).map(f64::from).product();
        libm::pow(x, f64::from(k)) * libm::exp(-x) / factorial
    };
    (1.0 - utilisation) * (0..=wait as u32).map(term).sum::<f64>()
}

fn percentile(utilisation: f64, share: f64) -> f64 {
    (100..2500)
        .map(|hundredth| f64::from(hundredth) / 100.0)
        .find(|sojourn| within(utilisation, *sojourn) >= share)
        .unwrap_or(f64::MAX)
}

/// Oracle: M/D/1. Below half load the median is the service time; the knee follows from
/// the 99th percentiles.
#[test]
fn load_steps_have_the_percentiles_of_theory_and_its_knee() {
    let percents: Vec<u32> = vec![10, 30, 45, 60, 70, 80, 90];
    let load = LoadSettings {
        read_percent: 0,
        block: 4096,
        depth: 4,
        percents,
        time: Nanos::from_secs(600),
    };
    let (closed, _) = run_on(MS, &[load.closed_loop()]);
    let closed = metrics(&[load.closed_loop()], &closed.recorded.phases);
    assert!((closed[0].samples[0] - 1000.0).abs() < 0.1, "{closed:?}");
    let steps = load.steps(1000.0);
    let figures = metrics(&steps, &run_on(MS, &steps).0.recorded.phases);
    let of = |suffix: &str| -> Vec<f64> {
        figures
            .iter()
            .filter(|figure| figure.name.ends_with(suffix))
            .map(|figure| figure.samples[0] / 1e6)
            .collect()
    };
    let (p50, p99) = (of(FIGURES[3]), of(FIGURES[4]));
    assert!(p50[..3].iter().all(|p50| (p50 - 1.0).abs() < 0.01), "{p50:?}");
    let theory: Vec<f64> =
        load.percents.iter().map(|percent| percentile(f64::from(*percent) / 100.0, 0.99)).collect();
    for (found, expected) in p99.iter().zip(&theory) {
        assert!((found / expected - 1.0).abs() < 0.15, "{p99:?}, theory {theory:?}");
    }
    assert_eq!(
        (latency_knee(&p99), latency_knee(&theory)),
        (Some(6), Some(6)),
        "{p99:?}, theory {theory:?}"
    );
}

/// Oracle: Little's law. 32 requests are always in flight, so mean latency times rate is
/// 32; the 128 requests of a minute that begins with an empty queue would show 12 % less.
#[test]
fn latencies_of_a_pts_minute_obey_littles_law() {
    let capacity = Bytes(8 << 30);
    let minute = PtsMinute::Bytes(Nanos::ZERO);
    let plan = PtsPlan::new(PtsTest::CrossStimulusRecovery, 32, minute, capacity, 512).unwrap();
    let jobs = plan.all_jobs();
    let mut target = DriveTarget::new(Server { service: MS, busy_until: 0, commands: 0 }, 4096);
    let outcome =
        run(groups(&jobs, capacity, 512, DataClass::Random, 1).unwrap(), &mut target, &mut ());
    let phase = &outcome.recorded.phases[0];
    assert_eq!((phase.name.as_str(), phase.ops_total()), ("sequential-before", 128));
    let total = phase.latencies.iter().find(|one| one.part == LatencyPart::Total).unwrap();
    let in_flight = total.histogram.mean_ns() * phase.ops_total() as f64 / phase.took.0 as f64;
    assert!((in_flight / 32.0 - 1.0).abs() < 0.01, "{in_flight}");
}
