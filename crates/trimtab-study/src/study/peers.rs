//! Idle trims beside the policies that others have published: ten drives under five loads, in virtual time.
//!
//! A small model of each drive (`Small`) carries a filesystem in use: 60 % full, its free space in extents of 16 KiB to 16 MiB, all of it written once, and
//! worn by random writes and by files that come and go while nobody trims. From that one state on each policy meets the same work. A small sample
//! of it runs with every test run; `TRIMTAB_PEERS=full` and `--nocapture` give all of it, and `TRIMTAB_PEERS_CSV=FILE` keeps the figures.

mod load;
mod used;
mod verdict;

use self::load::{LOADS, Load};
use self::used::Used;
use self::verdict::{Table, Verdict};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use std::{print, println};
use trimtab_drive::model::Model;
use trimtab_drive::shipped::drive;
use trimtab_drive::units::Nanos;
use trimtab_drive::{Command, Device as _, Extent};
use trimtab_sim::policy::State;
use trimtab_sim::target::Clock as _;
use trimtab_sim::volume::{BLOCK, Discard, Steered};

type Target = Steered<Box<dyn Model>>;

/// Classes of drives, and what a TRIM costs them.
const DRIVES: [&str; 10] = [
    // SATA, of 2010: each mapped unit, beside the command.
    "ocz-vertex-le-100gb",
    // SATA, of 2009: each command; a small buffer.
    "intel-x25-m-160gb",
    // SATA, of 2009: next to nothing; a large buffer.
    "corsair-p128",
    // SATA, of 2011: each command, 2 to 5 ms.
    "intel-320-300gb",
    "owc-electra-3g-480gb",
    "crucial-m4-128gb",
    "corsair-force-3-120gb",
    // SATA with three bits a cell: little.
    "sata-tlc-500gb",
    // PCIe: next to nothing, queued with others.
    "nvme-tlc-500gb",
    "nvme-qlc-dramless-500gb",
];

/// None, ours, those of others, and what everybody has.
const POLICIES: [&str; 7] = ["none", FIRST, "idle", "itrim", "dtrim", "online", "batched:every=6h"];
/// Ours as it was at first.
const FIRST: &str = "idle:met-per-mille=0";

/// What one policy did on one drive under one load.
#[derive(Clone, Debug, PartialEq)]
struct Cell {
    drive: String,
    load: &'static str,
    policy: String,
    /// How long each request of the foreground took, the shortest first.
    waits: Vec<Nanos>,
    /// Share of the free bytes that the drive does not hold as data any more, or never did.
    known: f64,
    /// Bytes to flash for each byte of the host.
    waf: f64,
    /// TRIM commands.
    commands: u64,
    /// Time that the drive spent on them.
    trims: Nanos,
    /// How long it all took.
    took: Nanos,
    /// The filesystem discards what it frees, at the end.
    online: bool,
}

impl Cell {
    /// The wait that so many of a thousand do not exceed.
    fn wait(&self, permille: usize) -> Nanos {
        self.waits[(self.waits.len() * permille).div_ceil(1000).max(1) - 1]
    }

    fn csv(&self) -> String {
        let Self { drive, load, policy, known, waf, commands, .. } = self;
        let [median, p99, p999, longest] = [500, 990, 999, 1000].map(|permille| self.wait(permille).0);
        let (trims, took, requests) = (self.trims.0, self.took.0, self.waits.len());
        format!("{drive},{load},{policy},{requests},{median},{p99},{p999},{longest},{known:.4},{waf:.4},{commands},{trims},{took}\n")
    }
}

const CSV_HEAD: &str = "drive,load,policy,requests,p50_ns,p99_ns,p999_ns,longest_ns,known_share,waf,commands,trim_ns,took_ns\n";

/// Counters of the drive and of the filesystem above it, which count apart.
struct Counted {
    drive: BTreeMap<String, u64>,
    written: u64,
    discards: trimtab_drive::discards::Amount,
}

impl Counted {
    fn now(target: &Target) -> Self {
        let traffic = target.volume().counters().traffic;
        Self { drive: target.volume().drive().counters(), written: traffic.writes.bytes.0, discards: traffic.discards }
    }
}

/// Share of the free space that the drive knows of: what is not unmapped when a copy of it is told of all.
fn known(target: &Target, now: Nanos) -> f64 {
    let volume = target.volume();
    let mut copy = volume.drive().boxed_clone();
    let free = |block: &u64| !volume.needs(Extent { offset: block * BLOCK, len: BLOCK });
    let (mut at, mut all) = (0, 0);
    while let Some(start) = (at..volume.size().0 / BLOCK).find(free) {
        let blocks = (start..volume.size().0 / BLOCK).take_while(free).count() as u64;
        let range = Extent { offset: start * BLOCK, len: blocks * BLOCK };
        assert_eq!(copy.submit(now, &Command::trim(&[range])).result, Ok(()));
        (at, all) = (start + blocks, all + range.len);
    }
    let unmapped = copy.counters()["trim_effective_bytes"] - volume.drive().counters()["trim_effective_bytes"];
    1.0 - unmapped as f64 / all as f64
}

/// `policy` from the state of `used` on, under `load`, for as many requests.
fn cell(used: &Used, load: &Load, policy: &str, requests: usize) -> Cell {
    let spec = used.small.faster(&policy.parse().unwrap());
    let mut work = used.work.clone();
    let mut target = used.target.fork(spec.build(&State::default()));
    let before = Counted::now(&target);
    let began = target.now();
    let mut waits = load.run(&mut target, &mut work, requests);
    waits.sort_unstable();
    let (took, after) = (target.now() - began, Counted::now(&target));

    let count = |name: &str| after.drive[name] - before.drive[name];
    let (host, commands, trims) = (count("host_written_bytes"), count("host_trims"), count("trim_ns"));
    let discards = after.discards.since(before.discards);
    assert_eq!(host, after.written - before.written, "{policy}: written by the filesystem, and to the drive");
    assert_eq!((commands, count("trim_asked_bytes")), (discards.count, discards.bytes.0), "{policy}: discarded, and trimmed");
    let trim = &used.small.spec.flash().unwrap().trim;
    if (trim.unit_ns, trim.gb_ns) == (0, 0) {
        assert_eq!(
            trims,
            commands * trim.command_ns + count("trim_ranges") * trim.range_ns,
            "{policy}: the time of trims is that of commands"
        );
    }
    Cell {
        drive: used.name.clone(),
        load: load.name,
        policy: policy.into(),
        waits,
        known: known(&target, began + took),
        waf: count("nand_written_bytes") as f64 / host as f64,
        commands,
        trims: Nanos(trims),
        took,
        online: target.policy().online(),
    }
}

/// Mounts for what the policy says now.
fn mount(target: &mut Target) {
    let wanted = if target.policy().online() { Discard::FreedAndFollowing } else { Discard::Off };
    if target.volume().spec().discard != wanted {
        target.volume_mut().set_discard(wanted);
    }
}

/// All cells of these drives, worn so often, loads, with one of so many of their requests, and policies.
fn cells(drives: &[&str], loads: &[&Load], policies: &[&str], (wear, brief): (f64, usize)) -> Vec<Cell> {
    let mut cells = Vec::new();
    for name in drives {
        let used = Used::of(&drive(name), wear);
        for load in loads {
            for policy in policies {
                let cell = cell(&used, load, policy, load.requests / brief);
                print!("{}", cell.csv());
                cells.push(cell);
            }
        }
    }
    cells
}

/// What must hold under every policy, whatever the drive and the load.
#[test]
fn idle_trims_beside_published_policies() {
    let full = match std::env::var("TRIMTAB_PEERS").as_deref() {
        Ok("full") => true,
        Err(_) | Ok("sample") => false,
        Ok(other) => panic!("TRIMTAB_PEERS is full or sample, not {other}"),
    };
    print!("{CSV_HEAD}");
    let all = if full { cells(&DRIVES, &LOADS.each_ref(), &POLICIES, (2.0, 1)) } else { sample() };
    if let Ok(path) = std::env::var("TRIMTAB_PEERS_CSV") {
        std::fs::write(path, all.iter().fold(CSV_HEAD.into(), |text: String, cell| text + &cell.csv())).unwrap();
    }
    println!("\n{}", Table(&all));
    for (ours, peer) in [FIRST, "idle"].into_iter().flat_map(|ours| ["itrim", "dtrim"].map(|peer| (ours, peer))) {
        println!("{}", Verdict::of(&all, ours, peer));
    }
    for cell in &all {
        let at = format!("{} {} {}", cell.drive, cell.load, cell.policy);
        assert!((0.0..=1.0).contains(&cell.known) && cell.waf > 0.5, "{at}: {} {}", cell.known, cell.waf);
        assert!(cell.trims <= cell.took, "{at}: the drive does one TRIM at a time");
    }
}

/// Two drives, under two loads, for a while.
fn sample() -> Vec<Cell> {
    let (drives, loads) = (["crucial-m4-128gb", "sata-tlc-500gb"], [&LOADS[0], &LOADS[1]]);
    let all = cells(&drives, &loads, &POLICIES[..6], (0.3, 9));
    let find = |drive, load, policy| all.iter().find(|cell| (&*cell.drive, cell.load, &*cell.policy) == (drive, load, policy)).unwrap();
    for (name, load) in drives.into_iter().flat_map(|name| loads.map(|load| (name, load.name))) {
        let none = find(name, load, "none");
        assert_eq!((none.commands, none.trims), (0, Nanos::ZERO));
        for policy in ["idle", "itrim", "dtrim"] {
            let cell = find(name, load, policy);
            assert!(cell.known > none.known + 0.3, "{name} {load} {policy}: {} known, {} without trims", cell.known, none.known);
            assert!(cell.waf < none.waf * 1.02, "{name} {load} {policy}: {}, {} without trims", cell.waf, none.waf);
        }
        // 2.25 ms a command, and 0.154 ms.
        assert_eq!(find(name, load, "dtrim").online, name == "sata-tlc-500gb", "{name} {load}");
    }
    all
}

#[test]
fn a_cell_is_the_same_again() {
    let used = Used::of(&drive("sata-tlc-500gb"), 0.05);
    for load in &LOADS {
        let [first, second] = [0, 1].map(|_| cell(&used, load, "dtrim", 200));
        assert_eq!(first, second);
        assert_eq!(first.waits.len(), 200);
    }
}

#[test]
fn waits_are_by_nearest_rank() {
    let cell = |n: u64| Cell {
        drive: "d".into(),
        load: "l",
        policy: "p".into(),
        waits: (1..=n).map(Nanos).collect(),
        known: 0.0,
        waf: 1.0,
        commands: 0,
        trims: Nanos::ZERO,
        took: Nanos::ZERO,
        online: false,
    };
    assert_eq!([500, 990, 999, 1000].map(|permille| cell(1000).wait(permille).0), [500, 990, 999, 1000]);
    assert_eq!([500, 990, 999, 1000].map(|permille| cell(10).wait(permille).0), [5, 10, 10, 10]);
    assert_eq!([500, 990].map(|permille| cell(1).wait(permille).0), [1, 1]);
    assert_eq!(cell(2).csv(), "d,l,p,2,1,2,2,2,0.0000,1.0000,0,0,0\n");
    assert_eq!(CSV_HEAD.split(',').count(), cell(2).csv().split(',').count());
}
