use super::*;
use alloc::collections::BTreeSet;
use proptest::prelude::*;

const DRIVE: Bytes = Bytes(1 << 20);

fn job(settings: &str) -> Job {
    let text = format!("[j]\n{}\n", settings.replace(' ', "\n"));
    JobFile::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}")).jobs.pop().unwrap()
}

/// Commands of a job that runs without pauses.
fn commands(settings: &str) -> Vec<Command<'static>> {
    let mut stream = job(settings).stream(0, DRIVE, 512, DataClass::Random, 1).unwrap();
    let mut commands = Vec::new();
    while let JobStep::Issue(command, _) = stream.next_step(Nanos::ZERO) {
        commands.push(command);
        assert!(commands.len() < 100_000, "{settings} does not end");
    }
    commands
}

fn counts(settings: &str) -> [usize; 4] {
    let commands = commands(settings);
    let of = |kind: &dyn Fn(&Command<'_>) -> bool| {
        commands.iter().filter(|command| kind(command)).count()
    };
    [
        of(&|c| matches!(c, Command::Read(_))),
        of(&|c| matches!(c, Command::Write(..))),
        of(&|c| matches!(c, Command::Trim(_))),
        of(&|c| matches!(c, Command::Flush)),
    ]
}

fn error(text: &str) -> String {
    JobFile::parse(text).unwrap_err().to_string()
}

/// Oracle: the counts that fio 3.33 prints for the same settings on its null engine.
#[test]
fn requests_are_as_many_as_of_fio() {
    for (settings, expected) in [
        ("rw=write bs=4k", [0, 256, 0, 0]),
        ("rw=write bs=4096 size=10000", [0, 2, 0, 0]),
        ("rw=write bs=3k", [0, 341, 0, 0]),
        ("rw=write bs=4k loops=3", [0, 768, 0, 0]),
        ("rw=randwrite bs=4k io_size=2500k", [0, 625, 0, 0]),
        ("rw=randwrite bs=4k io_size=2500k loops=2", [0, 768, 0, 0]),
        ("rw=randwrite bs=4k io_size=2500k number_ios=400 loops=2", [0, 768, 0, 0]),
        ("rw=write bs=4k number_ios=10 loops=3", [0, 30, 0, 0]),
        ("rw=randwrite bs=4k number_ios=1000", [0, 256, 0, 0]),
        ("rw=randwrite bs=4k number_ios=1000 io_size=100m", [0, 1000, 0, 0]),
        ("rw=randwrite bs=4k norandommap io_size=512k", [0, 128, 0, 0]),
        ("rw=trimwrite bs=4k", [0, 256, 256, 0]),
        ("rw=trimwrite bs=4k number_ios=10", [0, 10, 10, 0]),
        ("rw=write bs=4k fsync=32", [0, 256, 0, 7]),
        ("rw=read bs=4k fsync=4", [256, 0, 0, 0]),
        ("rw=randtrim bs=4k", [0, 0, 256, 0]),
    ] {
        assert_eq!(counts(settings), expected, "{settings}");
    }
    for settings in ["rw=rw bs=4k io_size=3m", "rw=randrw bs=4k rwmixread=70 io_size=3m"] {
        let [reads, writes, ..] = counts(settings);
        assert_eq!(reads + writes, 768, "{settings}");
    }
    // Within five standard deviations of 70 %.
    let [reads, ..] = counts("rw=randrw bs=512 rwmixread=70 io_size=20m");
    let deviation = libm::sqrt(40_960.0 * 0.7 * 0.3);
    assert!((reads as f64 - 0.7 * 40_960.0).abs() < 5.0 * deviation, "{reads}");
}

#[test]
fn random_requests_cover_each_block_once_per_pass() {
    let offsets: Vec<u64> = commands("rw=randrw bs=4k loops=2 offset=64k")
        .iter()
        .map(|c| c.extent().unwrap().offset)
        .collect();
    let (first, second) = offsets.split_at(240);
    for pass in [first, second] {
        assert_eq!(
            pass.iter().copied().collect::<BTreeSet<u64>>(),
            (16..256).map(|block| block * 4096).collect()
        );
        assert!(
            pass.windows(2).filter(|pair| pair[1] == pair[0] + 4096).count() < 20,
            "not in order"
        );
    }
    assert_ne!(first, second);
    let clones = job("rw=randwrite bs=4k");
    let first =
        |nth| clones.stream(nth, DRIVE, 512, DataClass::Random, 1).unwrap().next_step(Nanos::ZERO);
    assert_ne!(format!("{:?}", first(0)), format!("{:?}", first(1)), "clones differ");
}

#[test]
fn mixed_sequential_requests_advance_for_reads_and_writes_apart() {
    let (mut next, mut seen) = ([0, 0], [0, 0]);
    for command in commands("rw=rw bs=4k io_size=4m") {
        let kind = usize::from(matches!(command, Command::Write(..)));
        assert_eq!(command.extent().unwrap().offset, next[kind]);
        (next[kind], seen[kind]) = ((next[kind] + 4096) % (1 << 20), seen[kind] + 1);
    }
    assert!(seen.iter().all(|seen| *seen > 400), "{seen:?}");
}

/// Share of requests to blocks before `share` of the space, or to the most used blocks.
fn shares(settings: &str, blocks: usize, by_use: bool) -> f64 {
    let mut used = vec![0_u32; 2048];
    let commands = commands(settings);
    commands
        .iter()
        .for_each(|command| used[(command.extent().unwrap().offset / 512) as usize] += 1);
    if by_use {
        used.sort_unstable_by(|a, b| b.cmp(a));
    }
    used[..blocks].iter().sum::<u32>() as f64 / commands.len() as f64
}

/// Oracle: the definitions of the distributions.
#[test]
fn distributions_give_each_part_its_share() {
    let near = |found: f64, expected: f64| {
        assert!((found - expected).abs() < 0.015, "{found} is not {expected}")
    };
    let pareto = shares(
        "rw=randwrite bs=512 io_size=25m norandommap random_distribution=pareto:0.2",
        409,
        true,
    );
    near(pareto, 0.8);
    let harmonic: f64 = (1..=2048).map(|rank| 1.0 / f64::from(rank)).sum();
    near(
        shares("rw=randwrite bs=512 io_size=25m random_distribution=zipf:1.0", 1, true),
        1.0 / harmonic,
    );
    let zoned =
        "rw=randwrite bs=512 io_size=25m norandommap random_distribution=zoned:60/10:30/20:10/70";
    for (blocks, expected) in [(204, 0.6), (614, 0.9), (2048, 1.0)] {
        near(shares(zoned, blocks, false), expected);
    }
    let following = commands("rw=randwrite bs=512 io_size=25m norandommap percentage_random=30");
    let offsets: Vec<u64> = following.iter().map(|c| c.extent().unwrap().offset).collect();
    let follows = offsets.windows(2).filter(|pair| pair[1] == (pair[0] + 512) % (1 << 20)).count();
    near(follows as f64 / offsets.len() as f64, 0.7);
}

#[test]
fn keys_of_global_sections_apply_below() {
    let text = "; a comment\n[global]\nbs=8k # blocks\nioengine=libaio\nsize=64k\n[a]\n\
        rw=write\n\n[global]\nbs=16k\n[b]\nstonewall\nioengine=psync\ndirect=1\n";
    let file = JobFile::parse(text).unwrap();
    let shape: Vec<_> = file
        .jobs
        .iter()
        .map(|job| (job.name.as_str(), job.line, job.block, job.mix, job.waits))
        .collect();
    assert_eq!(
        shape,
        [("a", 6, 8192, JobMix::Write, false), ("b", 11, 16_384, JobMix::Read, true)]
    );
    assert_eq!(file.not_used, ["ioengine", "direct"]);
}

/// Oracle: sizes that fio 3.33 makes of these texts.
#[test]
fn suffixes_are_those_of_fio() {
    for (text, bytes) in [
        ("4096", 4096),
        ("4k", 4096),
        ("4Ki", 4096),
        ("4KB", 4096),
        ("4kib", 4000),
        ("1m", 1 << 20),
        ("1MiB", 1_000_000),
        ("512b", 512),
    ] {
        assert_eq!(job(&format!("bs={text} size=8g")).block, bytes, "{text}");
    }
    let times = job("runtime=3 ramp_time=500ms thinktime=20 time_based");
    assert_eq!(
        (times.runtime, times.ramp, times.pause),
        (Some(Nanos::from_secs(3)), Nanos::from_millis(500), Nanos::from_micros(20))
    );
    assert_eq!(job("rate=1m bs=4k").pace, JobPace::Even(256.0));
    assert_eq!(job("zero_buffers").data, Some(DataClass::Zero));
    assert_eq!(job("buffer_compress_percentage=40").data, Some(DataClass::Compressible(40)));
}

#[test]
fn byte_order_mark_of_a_job_file_is_skipped() {
    let marked = JobFile::parse("\u{feff}[j]\nbs=8k\n").unwrap();
    assert_eq!(marked.jobs, [job("bs=8k")]);
}

#[test]
fn unsupported_text_is_refused_with_line_and_advice() {
    for (text, expected) in [
        ("", "line 1: the file has no job"),
        ("[global]\nbs=4k\n", "line 2: the file has no job"),
        ("bs=4k\n", "line 1: there is no section yet; write [NAME] first"),
        ("[a]\n\ninclude other.fio\n", "line 3: include is not supported; copy"),
        (
            "[a]\nbs_unaligned=1\n",
            "line 2: bs_unaligned: this key is not supported; remove it (known keys: ",
        ),
        ("[a]\nbssplit=4k/50\n", "percentages that add up to 100"),
        (
            "[a]\niodeph=4\n",
            "line 2: iodeph: this key is not supported; remove it (did you mean 'iodepth'?)",
        ),
        (
            "[a]\nioengine=ftruncate\n",
            "line 2: ioengine: 'ftruncate' is not supported; write one of io_uring,",
        ),
        ("[a]\nrw=randrw:8\n", "line 2: rw: 'randrw:8' is not supported; write one of read, write"),
        ("[a]\nbs=4k,8k\n", "line 2: bs: '4k,8k' is not supported; write one size"),
        ("[a]\nbs\n", "line 2: bs: it needs a value; write bs=VALUE"),
        ("[a]\nsize=1.5g\n", "line 2: size: '1.5g'"),
        (
            "[a]\niodepth=0\n",
            "line 2: iodepth: '0' is not supported; write a whole number from 1 to 65536",
        ),
        ("[a]\nrwmixread=101\n", "line 2: rwmixread: '101'"),
        ("[a]\nsize=150%\n", "line 2: size: '150%' is not supported; write at most 100"),
        ("[a]\ntime_based=2\n", "line 2: time_based: '2' is not supported; write 0 or 1"),
        ("[a]\nbs=4k\ntime_based\n", "line 3: time_based: it needs an end; add runtime=TIME"),
        ("[a]\nrate=1m\nrate_iops=10\n", "line 2: rate: it excludes rate_iops"),
        (
            "[a]\nrw=randread\nrandom_distribution=gauss:5\n",
            "line 3: random_distribution: 'gauss:5'",
        ),
        (
            "[a]\nrw=randread\nrandom_distribution=zoned:50/50:40/50\n",
            "line 3: random_distribution: 'zoned:50/50:40/50'",
        ),
        ("[a]\nrw=randread\nrandom_distribution=zoned:50/50:50/50\n", "add norandommap=1"),
        (
            "[a]\nrw=randread\npercentage_random=50\n",
            "line 3: percentage_random: it is only supported",
        ),
        ("[a]\nio_size=5k\n", "line 2: io_size: it is not a multiple of bs"),
        ("[a]\nrunning=5\nnumber_ios=5", "line 2: running"),
        ("[a]\nruntime=5\ntime_based\nnumber_ios=5", "line 4: number_ios: fio ignores it"),
        ("[a]\n[a]\n", "line 2: there are two jobs 'a'; rename one"),
        ("[a b]\n", "line 1: 'a b' is not a job name"),
        ("[a\n", "line 1: '[a' is not a section"),
        (
            "[a]\nnumjobs=600\n[b]\nnumjobs=600\n",
            "line 3: numjobs: the jobs have more than 1000 clones",
        ),
    ] {
        let said = error(text);
        assert!(said.contains(expected) && said.lines().count() == 1, "{text:?}: {said}");
    }
}

#[test]
fn job_that_does_not_fit_the_target_is_refused() {
    for (settings, block, expected) in [
        ("size=2m", 512, "the target has 1048576"),
        ("size=100% offset=50%", 512, "from offset 524288"),
        ("size=2k bs=4k", 512, "less than one request"),
        ("bs=512", 4096, "blocks of 4096 bytes"),
        ("offset=512", 4096, "offset is 512 bytes"),
        (
            "rw=randwrite size=8k bs=4k norandommap random_distribution=zoned:50/10:50/90",
            512,
            "a zone has no room",
        ),
    ] {
        let refused = job(settings).stream(0, DRIVE, block, DataClass::Random, 1).unwrap_err();
        assert!(
            refused.starts_with("job 'j': ") && refused.contains(expected),
            "{settings}: {refused}"
        );
    }
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        "(rw|readwrite)=(rand)?(read|write|trim|rw|trimwrite)",
        "(bs|size|io_size|rate|offset)=[0-9]{1,4}(k|m|g|%|kib)?",
        "(iodepth|numjobs|loops|number_ios|fsync|rwmixread|percentage_random|randseed|rate_iops)=[0-9]{1,3}",
        "(runtime|ramp_time|thinktime)=[0-9]{1,4}(us|ms|s|m)?",
        "(norandommap|time_based|stonewall|zero_buffers)(=[01])?",
        "random_distribution=(random|zipf|pareto|zipf:[0-9]\\.[0-9]|pareto:0\\.[0-9]|zoned:(50/20:50/80|100/100))",
        "(direct|filename)=[a-z0-9/]{1,8}",
        "ioengine=(libaio|psync|rbd)",
        "\\[(global|[a-z]{1,3})\\]",
        "\\PC{0,12}",
    ]
}

proptest! {
    /// Any text is refused at one of its lines, or its jobs read again from their printed
    /// form are the same.
    #[test]
    fn any_text_is_refused_or_read_again_as_printed(keys in proptest::collection::vec(key(), 0..12)) {
        let text = format!("[x]\n{}", keys.join("\n"));
        match JobFile::parse(&text) {
            Err(error) => prop_assert!((1..=text.lines().count() as u32).contains(&error.line), "{text:?}: {error}"),
            Ok(file) => {
                for job in &file.jobs {
                    let again = format!("[{}]\n{}\n", job.name, job.to_string().replace(' ', "\n"));
                    let again = JobFile::parse(&again).unwrap_or_else(|error| panic!("{text:?}: {again:?}: {error}"));
                    prop_assert_eq!(&again.jobs, &[Job { line: 1, ..job.clone() }], "{:?}", text);
                    let Ok(mut stream) = job.stream(0, DRIVE, 512, DataClass::Random, 1) else { continue };
                    let (offset, span) = job.space(DRIVE, 512).unwrap();
                    for _ in 0..50 {
                        let JobStep::Issue(command, _) = stream.next_step(Nanos::from_secs(1 << 30)) else { break };
                        let Some(extent) = command.extent() else { continue };
                        prop_assert!(extent.offset >= offset && extent.offset + extent.len <= offset + span, "{:?} {:?}", text, extent);
                    }
                }
            }
        }
    }
}

/// fio's example job of JESD219, with this program's name and depth.
const JESD219: &str = "rw=randrw rwmixread=40 norandommap=1 blockalign=4k iodepth=256 \
    bssplit=512/4:1024/1:1536/1:2048/1:2560/1:3072/1:3584/1:4k/67:8k/10:16k/7:32k/3:64k/3 \
    random_distribution=zoned:50/5:30/15:20/80";

#[test]
fn jesd219_is_fio_job_with_bssplit() {
    assert_eq!(Job { line: 1, ..Job::jesd219("j", 512) }, job(JESD219));
    assert_eq!(job(&job(JESD219).to_string()), job(JESD219));
    let blocks_of_4k = Job::jesd219("j", 4096).split;
    assert_eq!(blocks_of_4k, [(4096, 77), (8192, 10), (16_384, 7), (32_768, 3), (65_536, 3)]);
}

/// Oracle: the shares of JESD219A, each within five standard deviations.
#[test]
fn jesd219_draws_sizes_zones_and_mix() {
    let target = Bytes(1 << 30);
    let bytes = 1 << 30;
    let job = Job { io_size: Some(bytes), ..Job::jesd219("j", 512) };
    let mut stream = job.stream(0, target, 512, DataClass::Random, 1).unwrap();
    let mut extents = Vec::new();
    let mut reads = 0;
    while let JobStep::Issue(command, _) = stream.next_step(Nanos::ZERO) {
        reads += usize::from(matches!(command, Command::Read(_)));
        extents.push(command.extent().unwrap());
    }
    let total = extents.len() as f64;
    let near = |count: usize, percent: f64, what: &str| {
        let (share, mean) = (percent / 100.0, total * percent / 100.0);
        let deviation = libm::sqrt(total * share * (1.0 - share));
        assert!((count as f64 - mean).abs() < 5.0 * deviation, "{what}: {count} of {total}");
    };
    for (size, percent) in job.split.iter().copied() {
        let count = extents.iter().filter(|extent| extent.len == u64::from(size)).count();
        near(count, percent.into(), "size");
    }
    let below = |part: f64| {
        extents.iter().filter(|one| (one.offset as f64) < part * target.as_f64()).count()
    };
    near(below(0.05), 50.0, "the first 5 %");
    near(below(0.2) - below(0.05), 30.0, "the next 15 %");
    near(reads, 40.0, "reads");
    assert!(extents.iter().all(|one| one.offset % 4096 == 0 && one.offset + one.len <= target.0));
    let moved: u64 = extents.iter().map(|extent| extent.len).sum();
    assert!((bytes..bytes + 65_536).contains(&moved), "{moved}");
}

#[test]
fn bssplit_needs_percentages_and_random_requests() {
    let said = |settings: &str| error(&format!("[j]\n{}\n", settings.replace(' ', "\n")));
    assert!(said("rw=randwrite norandommap bssplit=4k/60:8k/30").contains("add up to 100"));
    assert!(said("rw=randwrite norandommap bssplit=4k:8k").contains("add up to 100"));
    assert!(said("rw=write bssplit=4k/60:8k/40").contains("bssplit: it is only supported"));
    assert!(said("rw=randwrite bssplit=4k/60:8k/40").contains("norandommap=1"));
    assert!(said("rw=randwrite norandommap bssplit=4k/60:8k/40 rate=1m").contains("rate_iops"));
    let aligned = job("rw=randwrite bs=4k blockalign=8k");
    let refused = aligned.stream(0, DRIVE, 512, DataClass::Random, 1).unwrap_err();
    assert!(refused.contains("blockalign is 8192 bytes"), "{refused}");
}

#[test]
fn sequential_requests_start_at_given_offset_and_wrap() {
    let job = Job { starts: DRIVE.0 - 8192, io_size: Some(16_384), ..job("rw=write bs=4k") };
    let mut stream = job.stream(0, DRIVE, 512, DataClass::Random, 1).unwrap();
    let mut offsets = Vec::new();
    while let JobStep::Issue(command, _) = stream.next_step(Nanos::ZERO) {
        offsets.push(command.extent().unwrap().offset);
    }
    assert_eq!(offsets, [DRIVE.0 - 8192, DRIVE.0 - 4096, 0, 4096]);
}
