use super::*;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

fn format(name: &str) -> TraceFormat {
    name.parse().unwrap()
}

fn parse_events(name: &str, events: Option<BlkparseEvent>, text: &str) -> Vec<TraceRecord> {
    let (mut parser, mut first_ns) = (Parser::new(format(name), events), None);
    let record = |line| match parser.line(line).unwrap_or_else(|error| panic!("{line}: {error}")) {
        TraceLine::Request(raw) => {
            let at_ns = raw.at_ns - *first_ns.get_or_insert(raw.at_ns);
            Some(TraceRecord { at_ns, ..raw })
        }
        _ => None,
    };
    text.lines().filter_map(record).collect()
}

fn parse(name: &str, text: &str) -> Vec<TraceRecord> {
    parse_events(name, None, text)
}

fn record(at_ns: u128, volume: Volume, kind: TraceOpKind, offset: u64, len: u64) -> TraceRecord {
    TraceRecord::new(at_ns, volume, kind, offset, len)
}

fn number(number: u64) -> Volume {
    Volume::Number(number)
}

fn named(name: &str, number: u64) -> Volume {
    Volume::named(name, number).unwrap()
}

fn recognised(text: &str) -> Option<String> {
    match TraceFormat::recognise(text) {
        FormatMatch::Certain(format) => Some(format.to_string()),
        FormatMatch::Possible(_) => None,
    }
}

/// Asserts that the text is detected as the format and contains these records.
fn holds(name: &str, text: &str, expected: &[TraceRecord]) {
    assert_eq!(recognised(text).as_deref(), Some(name), "{text}");
    assert_eq!(parse(name, text), expected, "{text}");
}

#[test]
fn msr_with_and_without_header_reads_file_times() {
    let text = "128166372003061629,hm,1,Read,383496192,32768,413\n\
        128166372016382155,hm,1,Write,2822144,4096,1217\n";
    let disk = named("hm,1", 1);
    let expected = [
        record(0, disk.clone(), TraceOpKind::Read, 383_496_192, 32_768),
        record(1_332_052_600, disk, TraceOpKind::Write, 2_822_144, 4096),
    ];
    holds("msr", text, &expected);
    holds(
        "msr",
        &alloc::format!("Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n{text}"),
        &expected,
    );
    holds("msr", &text.replace('\n', "\r\n"), &expected);
    holds(
        "msr",
        &alloc::format!("\u{feff}{}", text.replace(",413", "").replace(",1217", "")),
        &expected,
    );
}

#[test]
fn alibaba_with_and_without_header_keeps_devices_apart() {
    let text =
        "419,W,8792731648,16384,1577808144360767\n725,R,59110326272,360448,1577808144360813\n";
    let expected = [
        record(0, number(419), TraceOpKind::Write, 8_792_731_648, 16_384),
        record(46_000, number(725), TraceOpKind::Read, 59_110_326_272, 360_448),
    ];
    holds("alibaba", text, &expected);
    holds(
        "alibaba",
        &alloc::format!("device_id,opcode,offset,length,timestamp\n{text}"),
        &expected,
    );
}

/// The same columns in another order must not be misread.
#[test]
fn header_in_another_order_is_refused() {
    let text = "1538323200,8704,8,1\n";
    let header = "Timestamp,DiskNumber,Hostname,Type,Offset,Size,ResponseTime\n";
    assert_eq!(recognised(&alloc::format!("{header}{text}")), None);
    assert!(Parser::new(format("msr"), None).line(header).is_err());
}

#[test]
fn simulator_traces_are_in_sectors_and_never_guessed() {
    let text = "48513000 0 6160447 8 1\n180000000 0 4096000 32 0\n";
    let expected = [
        record(0, number(0), TraceOpKind::Read, 6_160_447 * 512, 4096),
        record(131_487_000, number(0), TraceOpKind::Write, 4_096_000 * 512, 16_384),
    ];
    assert_eq!(parse("mqsim", text), expected);
    // The first line also fits `columns`, as a read of 4 KiB at block 0.
    for text in [text, "0 0 0 4096 1\n", "4851300 1 524288 16 0\n", "0.5 1 10 4096 0\n"] {
        assert!(
            matches!(TraceFormat::recognise(text), FormatMatch::Possible(possible) if !possible.is_empty()),
            "{text}"
        );
    }
}

#[test]
fn columns_have_trims_and_need_whole_sectors() {
    let text = "# made by hand\n0.5 1 10 4096 0\n0.75 3 10 8192 0\n1.000000001 0 7 4096 0 0\n";
    let expected = [
        record(0, number(0), TraceOpKind::Write, 40_960, 4096),
        record(250_000_000, number(0), TraceOpKind::Trim, 40_960, 8192),
        record(500_000_001, number(0), TraceOpKind::Read, 28_672, 4096),
    ];
    assert_eq!(parse("columns", text), expected);
    let error =
        Parser::new(format("columns"), None).line("4851300 1 524288 16 0").unwrap_err().to_string();
    assert!(error.starts_with("16 bytes at byte 2147483648 are not whole sectors"), "{error}");
}

#[test]
fn iolog_waits_are_milliseconds_since_the_start() {
    let two = "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n/dev/sda write 4096 8192\n\
        /dev/sda wait 1000 0\n/dev/sda trim 0 4096\n/dev/sda wait 1500 0\n\
        /dev/sda sync 0 0\n/dev/sda wait 200 0\n/dev/sda read 0 512\n/dev/sda close\n";
    let expected = [
        record(0, named("/dev/sda", 0), TraceOpKind::Write, 4096, 8192),
        record(1_000_000_000, named("/dev/sda", 0), TraceOpKind::Trim, 0, 4096),
        record(1_500_000_000, named("/dev/sda", 0), TraceOpKind::Flush, 0, 0),
        record(1_500_000_000, named("/dev/sda", 0), TraceOpKind::Read, 0, 512),
    ];
    holds("fio", two, &expected);
}

#[test]
fn iolog_version_3_has_microseconds_and_every_sync() {
    let three = "fio version 3 iolog\n0 /dev/sda add\n10 /dev/sda open\n\
        20 /dev/sda read 512 512\n45 /dev/sdb write 0 4096\n50 /dev/sda datasync 0 0\n\
        60 /dev/sda sync_file_range 512 0\n70 /dev/sda syncfs 0 0\n80 /dev/sda close\n";
    let expected = [
        record(0, named("/dev/sda", 0), TraceOpKind::Read, 512, 512),
        record(25_000, named("/dev/sdb", 1), TraceOpKind::Write, 0, 4096),
        record(30_000, named("/dev/sda", 0), TraceOpKind::Flush, 0, 0),
        record(40_000, named("/dev/sda", 0), TraceOpKind::Flush, 0, 0),
        record(50_000, named("/dev/sda", 0), TraceOpKind::Flush, 0, 0),
    ];
    holds("fio", three, &expected);
    holds("fio", &alloc::format!("\u{feff}{}", three.replace('\n', "\r\n")), &expected);
}

const SDA: Volume = Volume::Device(8, 0);

#[test]
fn blkparse_headers_summaries_and_messages_are_skipped() {
    let text = "\
Input file sda.blktrace.0 added
Trace started at Tue Mar  3 12:00:00 2020

  8,0    1        1     0.000000000  1234  Q  WS 2048 + 8 [jbd2]
  8,0    1        2     0.000001000  1234  G  WS 2048 + 8 [jbd2]
  8,0    1        2     0.000001000  1234  A  WS 2048 + 8 <- (8,1) 0
  8,0    1        3     0.000250000  1234  Q   D 4096 + 2048 [kworker/0:1 H]
  8,0    1        4     0.000260000  1234  Q FWS [jbd2]
  8,0    1        4     0.000260000  1234  Q   R 36 (12 00 00 00 24 00 ..) [sg_inq]
  8,0    1        4     0.000260000  1234  Q   N 0 [sg_inq]
  8,0    1        0     0.000261000     0  m   N cfq1234 Q whatever
  8,0    0        5     0.001000000  1235  Q  RA 16 + 8 [cat]
CPU0 (8,0):
 Reads Queued:           1,        4KiB\t Writes Queued:           1,        4KiB
 Allocation wait:        0        \t Allocation wait:        0
 IO unplugs:             4        \t Timer unplugs:           0

Throughput (R/W): 0KiB/s / 0KiB/s
Events (8,0): 99 entries
Skips: 0 forward (0 -   0.0%)
";
    let expected = [
        record(0, SDA, TraceOpKind::Write, 2048 * 512, 4096),
        record(250_000, SDA, TraceOpKind::Trim, 4096 * 512, 2048 * 512),
        record(260_000, SDA, TraceOpKind::Flush, 0, 0),
        record(1_000_000, SDA, TraceOpKind::Read, 8192, 4096),
    ];
    holds("blkparse", text, &expected);
    assert!(Parser::new(format("blkparse"), None).line("garbage line,,,").is_err());
    assert!(
        Parser::new(format("blkparse"), None).line(" Reads Queued:  1").is_err(),
        "a summary begins with its CPU"
    );
}

#[test]
fn blkparse_f_before_the_operation_is_flush_and_after_it_fua() {
    let flags = |flags: &str| {
        let line =
            alloc::format!("  8,16   3      101     0.000000000   812  Q {flags} 4096 + 8 [x]");
        parse("blkparse", &line).first().map(|record| (record.kind, record.preflush, record.fua))
    };
    assert_eq!(flags("W"), Some((TraceOpKind::Write, false, false)));
    assert_eq!(flags("FWFS"), Some((TraceOpKind::Write, true, true)));
    assert_eq!(flags("WFS"), Some((TraceOpKind::Write, false, true)));
    assert_eq!(flags("FWSM"), Some((TraceOpKind::Write, true, false)));
    assert_eq!(flags("RF"), Some((TraceOpKind::Read, false, false)));
    assert_eq!(flags("DE"), Some((TraceOpKind::Trim, false, false)));
    assert_eq!(flags("FN"), Some((TraceOpKind::Flush, false, false)));
    assert_eq!(flags("FF"), Some((TraceOpKind::Flush, false, false)));
    assert_eq!(flags("N"), None);
    let both: Vec<TraceEvent> = parse("blkparse", "8,0 1 1 0.5 1 Q FWF 8 + 8 [x]")
        .into_iter()
        .flat_map(TraceRecord::events)
        .collect();
    let shape: Vec<_> =
        both.iter().map(|event| (event.kind, event.offset, event.len, event.fua)).collect();
    assert_eq!(shape, [(TraceOpKind::Flush, 0, 0, false), (TraceOpKind::Write, 4096, 4096, true)]);
    let empty = parse("blkparse", "8,0 1 1 0.5 1 D FF 0 + 0 [x]\n8,0 1 1 0.5 1 Q FW 0 + 0 [x]");
    assert_eq!(empty, [record(0, SDA, TraceOpKind::Flush, 0, 0)]);
}

#[test]
fn blkparse_other_events_are_counted_and_can_be_chosen() {
    let text = "202,16 7 50007 675.722691803 661 D W 95839968 + 80 [kswapd0]\n\
        202,16 7 50008 675.822691803 661 C R 8 + 8 [0]\n";
    const SDB: Volume = Volume::Device(202, 16);
    assert_eq!(recognised(text).as_deref(), Some("blkparse"));
    assert_eq!(
        parse_events("blkparse", Some(BlkparseEvent::Issued), text),
        [record(0, SDB, TraceOpKind::Write, 95_839_968 * 512, 40_960)]
    );
    assert_eq!(
        parse_events("blkparse", Some(BlkparseEvent::Completed), text),
        [record(0, SDB, TraceOpKind::Read, 4096, 4096)]
    );
    let mut lines = Lines::new(format("blkparse"), &TraceReadOptions::default());
    text.split_inclusive('\n').for_each(|line| assert_eq!(lines.line(line, false), Ok(())));
    assert!(lines.next(true).is_none());
    assert_eq!(
        lines.end(),
        Err(TextError::OtherEvents(BlkparseEvent::Queued, BlkparseEvent::Issued, 1))
    );
}

/// As printed by blkparse 1.2.0 with -t.
#[test]
fn blkparse_events_without_data_are_flushes_or_no_requests() {
    let text = "\
  8,16   0        7     0.002000000   812  Q  FW [(null)]
  8,16   0        9     0.002050000   812  C  FW 0 [0]
  8,16   0       15     0.004050000   812  C   D 16384 + 2048 (   50000) [0]
  8,16   0       18     0.005050000   812  C WFM 34359738368 + 1 [0]
  8,16   0       19     0.006000000   812  Q   R 36 [(null)]
  8,16   0       21     0.006050000   812  C   R [0]
";
    const SDB: Volume = Volume::Device(8, 16);
    assert_eq!(parse("blkparse", text), [record(0, SDB, TraceOpKind::Flush, 0, 0)]);
    let fua = TraceRecord { fua: true, ..record(3_000_000, SDB, TraceOpKind::Write, 1 << 44, 512) };
    let completed = [
        record(0, SDB, TraceOpKind::Flush, 0, 0),
        record(2_000_000, SDB, TraceOpKind::Trim, 16_384 * 512, 1 << 20),
        fua,
    ];
    assert_eq!(parse_events("blkparse", Some(BlkparseEvent::Completed), text), completed);
}

/// Times and offsets of requests, and warnings.
type Requests = (Vec<(u64, u64)>, Vec<String>);

fn read_all(name: &str, volume: Option<Volume>, text: &str) -> Result<Requests, TextError> {
    let reading = TraceReadOptions { volume, ..TraceReadOptions::default() };
    let mut lines = Lines::new(format(name), &reading);
    let last = text.lines().count();
    for (line, number) in text.split_inclusive('\n').zip(1..) {
        lines.line(line, number == last)?;
    }
    lines.end()?;
    let given = core::iter::from_fn(|| lines.next(true))
        .map(|(record, line)| (record.at_ns as u64, line))
        .collect();
    Ok((given, lines.warnings()))
}

/// Number of requests, and true if the last line is cut off.
fn read(name: &str, volume: Option<Volume>, text: &str) -> Result<(usize, bool), TextError> {
    read_all(name, volume, text).map(|(given, warnings)| {
        (given.len(), warnings.iter().any(|warning| warning.contains("cut off")))
    })
}

#[test]
fn skipped_requests_are_counted_by_reason() {
    for (name, text, expected) in [
        (
            "msr",
            "1,hm,1,Write,0,512,1\n2,hm,1,Write,0,0,1\n3,hm,1,Read,0,0,1\n",
            "2 lines are left out: size 0 (2)",
        ),
        (
            "fio",
            "fio version 3 iolog\n1 x write 0 512\n2 x write 0 0\n3 x wait 1\n4 x close\n",
            "1 line is left out: size 0 (1)",
        ),
        (
            "blkparse",
            "8,0 1 1 0.1 1 Q W 8 + 8 [x]\n8,0 1 1 0.1 1 Q ZR 8 + 0 [x]\n\
                8,0 1 1 0.1 1 D ZR 8 + 0 [x]\n8,0 1 1 0.1 1 Q ZAS 8 + 8 [x]\n\
                8,0 1 1 0.1 1 Q WZS 8 + 8 [x]\n8,0 1 1 0.1 1 Q R 36 (12 00 ..) [x]\n\
                8,0 1 1 0.1 1 Q N 0 [x]\n8,0 1 1 0.2 1 G W 8 + 8 [x]\n",
            "5 lines are left out: passed-through command (2), zone command (2), \
                write zeroes, which sends no data (1)",
        ),
    ] {
        let (given, warnings) = read_all(name, None, text).unwrap();
        assert_eq!((given.len(), warnings), (1, vec![expected.to_string()]), "{text}");
    }
    let none = read("msr", None, "1,hm,1,Write,0,0,1\n").unwrap_err().to_string();
    assert_eq!(none, "it has no request; 1 line is left out: size 0 (1)");
    let other = "1,hm,1,Write,0,512,1\n2,hm,2,Write,0,0,1\n";
    assert_eq!(read_all("msr", Some(number(1)), other).unwrap().1, Vec::<String>::new());
}

#[test]
fn times_that_go_back_are_sorted_and_counted() {
    let merged =
        "8,0 1 1 0.2 1 Q W 8 + 8 [x]\n8,0 1 1 0.1 1 Q W 8 + 8 [x]\n8,0 1 1 0.3 1 Q W 8 + 8 [x]\n";
    let warning = "1 line goes back in time; the requests are sorted by time".to_string();
    assert_eq!(
        read_all("blkparse", None, merged),
        Ok((vec![(0, 2), (100_000_000, 1), (200_000_000, 3)], vec![warning]))
    );
    let reversed = "30000,hm,1,Write,0,512,1\n20000,hm,1,Write,0,512,1\n10000,hm,1,Write,0,512,1\n";
    let (given, warnings) = read_all("msr", None, reversed).unwrap();
    assert_eq!(given, [(0, 3), (1_000_000, 2), (2_000_000, 1)]);
    assert!(warnings[0].starts_with("2 lines go back in time"), "{warnings:?}");
}

#[test]
fn trace_time_too_far_back_is_refused() {
    let mut lines = Lines::new(format("columns"), &TraceReadOptions::default());
    let mut latest = 0;
    for at in 1..100_000_u64 {
        lines.line(&alloc::format!("{at} 1 0 4096 0\n"), false).unwrap();
        if let Some((record, _)) = lines.next(false) {
            assert!(record.at_ns >= core::mem::replace(&mut latest, record.at_ns));
        }
    }
    assert!(latest > 0);
    assert_eq!(lines.line("1 1 0 4096 0\n", true), Err(TextError::Late));
}

#[test]
fn volumes_of_the_same_number_are_separated_by_name() {
    let hosts = "1,hm,1,Write,0,512,1\n2,src,1,Write,0,512,1\n3,src,1,Write,0,512,1\n";
    for volume in [None, Some(number(1))] {
        assert_eq!(
            read("msr", volume, hosts),
            Err(TextError::Several(named("hm,1", 1), named("src,1", 1)))
        );
    }
    assert_eq!(read("msr", Some("src,1".parse().unwrap()), hosts), Ok((2, false)));
    let files = "fio version 3 iolog\n1 /dev/sdb write 0 512\n2 /dev/sdc write 0 512\n\
        3 /dev/sdc write 0 512\n";
    for volume in ["/dev/sdc", "1"] {
        assert_eq!(read("fio", Some(volume.parse().unwrap()), files), Ok((2, false)), "{volume}");
    }
    let none = read("fio", Some("/dev/sdd".parse().unwrap()), files).unwrap_err();
    assert_eq!(none.to_string(), "it has no request of volume /dev/sdd; it has /dev/sdb, /dev/sdc");
}

#[test]
fn bad_only_line_is_an_error_not_a_truncation() {
    for text in ["1538323200\t87046144\t8\t1\t1283\n", "1538323200\t87046144\t8\t1\t1283"] {
        assert_eq!(
            read("msr", None, text).unwrap_err().to_string(),
            "the columns are not separated by ','"
        );
    }
    assert_eq!(read("columns", None, "0.5 1 10\n").unwrap_err().to_string(), "the size is missing");
}

#[test]
fn several_volumes_require_a_selection() {
    let text =
        "8,0 1 1 0.5 1 Q W 8 + 8 [x]\n8,16 1 1 0.5 1 Q W 8 + 8 [x]\n8,16 1 1 0.6 1 Q W 8 + 8 [x]\n";
    let sdb: Volume = "8,16".parse().unwrap();
    assert_eq!(read("blkparse", None, text), Err(TextError::Several(SDA, "8,16".parse().unwrap())));
    assert_eq!(read("blkparse", Some(sdb), text), Ok((2, false)));
    let none = read("blkparse", Some(number(7)), text).unwrap_err();
    assert_eq!(none.to_string(), "it has no request of volume 7; it has 8,0, 8,16");
    assert!("".parse::<Volume>().is_err());
}

#[test]
fn recording_keeps_every_field_of_its_events() {
    let event = |at, kind, offset, len| TraceEvent {
        at: Nanos(at),
        kind,
        offset,
        len,
        class: DataClass::Random,
        fua: false,
        continues: false,
        latency: Nanos(7),
        errno: None,
    };
    let write = event(0, TraceOpKind::Write, 8192, 4096);
    let events = [
        TraceEvent { class: DataClass::Measured(420), fua: true, ..write },
        TraceEvent { class: DataClass::Compressible(40), errno: Some(5), ..write },
        TraceEvent { continues: true, ..event(9, TraceOpKind::Trim, 1 << 40, 1 << 20) },
        event(9, TraceOpKind::Trim, 0, 512),
        event(10, TraceOpKind::Read, 0, 512),
        event(11, TraceOpKind::Flush, 0, 0),
    ];
    let mut text = format!("{}: x at speed off\n", recording::HEADER);
    events.iter().for_each(|event| text.push_str(&recording::line_of(event)));
    assert!(text.contains("\n9,trim,1099511627776,1048576,random,7,0,1,0\n"), "{text}");
    assert_eq!(recognised(&text).as_deref(), Some("trimtab"));
    let read: Vec<TraceEvent> =
        parse("trimtab", &text).into_iter().flat_map(TraceRecord::events).collect();
    assert_eq!(read, events);
}

#[test]
fn short_last_line_is_a_truncation_and_others_are_errors() {
    let head = "fio version 3 iolog\n29 x add\n264 x open\n270 x write 0 65536\n";
    for end in ["961 x", "961 x wri", "961 x write 65536 6", "96"] {
        assert_eq!(read("fio", None, &alloc::format!("{head}{end}")), Ok((1, true)), "{end}");
        assert!(read("fio", None, &alloc::format!("{head}{end}\n970 x close\n")).is_err(), "{end}");
    }
    // Programs end any partial line with a line end.
    assert_eq!(read("fio", None, &alloc::format!("{head}961 x\n")), Ok((1, true)));
    assert!(read("fio", None, &alloc::format!("{head}961 x wri\n")).is_err());
    assert_eq!(read("fio", None, &alloc::format!("{head}961 x close")), Ok((1, false)));
    assert_eq!(read("fio", None, "fio version 3 iolog\n"), Err(TextError::Empty(String::new())));
}

#[test]
fn text_without_a_trace_is_not_recognised() {
    for text in [
        "",
        "Lorem ipsum\n",
        "1 2 3\n",
        "a,b,c,d,e\n",
        "CPU0 (sda):\n Reads Queued: 0\n",
        "{\"a\": 1}\n",
    ] {
        assert_eq!(TraceFormat::recognise(text), FormatMatch::Possible(Vec::new()), "{text}");
    }
}

#[test]
fn invalid_lines_state_the_fault() {
    for (name, line, expected) in [
        ("msr", "1,hm,1,Raed,0,1,1", "the kind of request 'Raed' is not one of Read, Write, R, W"),
        ("msr", "1,hm,1", "the kind of request is missing"),
        ("msr", "1,hm,1,Read,0,512,1,2", "there are more than 7 columns"),
        ("alibaba", "1,W,x,1,1", "the offset 'x' is not a number in range"),
        ("alibaba", "1,W,18446744073709551104,1024,1", "the range ends beyond 2^64 bytes"),
        (
            "alibaba",
            "1,W,100,512,1",
            "512 bytes at byte 100 are not whole sectors of 512 bytes: is it another format?",
        ),
        ("mqsim", "1 0 36028797018963968 8 1", "the sector 36028797018963968 is out of range"),
        ("columns", "0.5,1,10,4096,0", "the columns are not separated by blanks"),
        ("columns", "0.5, 1, 10, 4096, 0", "the columns are not separated by blanks"),
        ("columns", "0 2 0 0 0", "the request type '2' is not one of 0, 1, 3"),
        ("blkparse", "8,0 1 1 0.5 1 Q W 8 8", "the event has no '+ sectors'"),
        (
            "fio",
            "0 /dev/sda read 0 1",
            "the log does not begin with 'fio version 2 iolog' or 'fio version 3 iolog'",
        ),
    ] {
        assert_eq!(
            Parser::new(format(name), None).line(line).unwrap_err().to_string(),
            expected,
            "{line}"
        );
    }
}

proptest! {
    #[test]
    fn trace_parser_never_panics(lines in proptest::collection::vec("[ -~]{0,60}|[0-9., RWDQF+x-]{0,60}|\\PC{0,30}", 1..6)) {
        for (_, format, _) in TraceFormat::ALL {
            let mut parser = Parser::new(*format, None);
            let _ = parser.line("fio version 3 iolog");
            for line in &lines {
                let _ = parser.line(line);
            }
        }
        let _ = TraceFormat::recognise(&lines.join("\n"));
    }
}
