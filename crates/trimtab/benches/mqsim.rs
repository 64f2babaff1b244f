//! The SSD model beside MQSim: the same geometry, timing and requests.
//!
//! `TRIMTAB_MQSIM=/path/to/MQSim cargo bench --bench mqsim` runs both and prints the
//! table that `docs/mqsim.csv` keeps; without a built MQSim, the figures kept there stand
//! beside those of this run. MQSim gives mean and longest times in whole microseconds,
//! and no percentiles.
#![allow(clippy::unwrap_used, missing_docs)]

mod figures;

use figures::keep;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command as Process, ExitCode};
use std::time::Instant;
use trimtab_drive::data::DataClass;
use trimtab_drive::model::{self, Model};
use trimtab_drive::rng::Stream;
use trimtab_drive::spec::{
    DriveSpec, Flash, Geometry, Interface, NandTiming, Streams, VictimPolicy, WriteCache,
};
use trimtab_drive::units::Nanos;
use trimtab_drive::{Command, Extent};

const PAGE: u64 = 4096;
const CHANNELS: u32 = 4;
const DIES_PER_CHANNEL: u32 = 2;
const BLOCKS: u32 = 256;
const PAGES_PER_BLOCK: u32 = 128;
/// Share of the pages that the user has: MQSim's over-provisioning ratio is 1 less this.
const UTILISATION: f64 = 0.8;
const READ_NS: u64 = 50_000;
const PROGRAM_NS: u64 = 500_000;
const ERASE_NS: u64 = 3_000_000;
/// Megabytes a second of a channel.
const CHANNEL_MBPS: u64 = 400;
/// Of the link: MQSim's four lanes of 1 GB/s.
const LINK_BPS: u64 = 4_000_000_000;
/// Requests simulated a second, fill and all, against MQSim's, where both do what brings
/// the drive to steady state.
const FASTER_MIN: f64 = 50.0;
const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/mqsim.csv");

/// Random requests of 4 KiB over the whole drive, in a window.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    read_percent: u64,
    depth: usize,
    /// Writes over the whole drive before, in drive capacities: to steady state, or none
    /// but the first fill.
    drive_writes_before: u64,
    requests: u64,
}

const fn case(
    name: &'static str,
    read_percent: u64,
    depth: usize,
    drive_writes_before: u64,
    requests: u64,
) -> Case {
    Case { name, read_percent, depth, drive_writes_before, requests }
}

const CASES: [Case; 8] = [
    case("reads, QD1", 100, 1, 0, 20_000),
    case("reads, QD2", 100, 2, 0, 40_000),
    case("reads, QD4", 100, 4, 0, 40_000),
    case("reads, QD8", 100, 8, 0, 80_000),
    case("reads, QD16", 100, 16, 0, 80_000),
    case("reads, QD32", 100, 32, 0, 80_000),
    case("writes, steady, QD1", 0, 1, 6, 100_000),
    case("writes, steady, QD32", 0, 32, 6, 200_000),
];

#[derive(Clone, Copy, Default)]
struct Figures {
    iops: f64,
    mean_us: f64,
    max_us: f64,
    /// Only of this model.
    median_us: f64,
    p99_us: f64,
    waf: f64,
    /// Requests by the time that passed here, those before the measured ones among them.
    simulated_per_s: f64,
}

fn user_pages() -> u64 {
    let raw = u64::from(CHANNELS * DIES_PER_CHANNEL * BLOCKS * PAGES_PER_BLOCK);
    (raw as f64 * UTILISATION) as u64
}

fn spec() -> DriveSpec {
    let geometry = Geometry {
        channels: CHANNELS,
        dies_per_channel: DIES_PER_CHANNEL,
        planes: 1,
        page_bytes: PAGE,
        pages_per_block: PAGES_PER_BLOCK,
        blocks_per_plane: BLOCKS,
        superblock_dies: 1,
        bits_per_cell: 1,
    };
    let nand = NandTiming {
        read_ns: READ_NS,
        program_ns: PROGRAM_NS,
        erase_ns: ERASE_NS,
        channel_bytes_per_s: CHANNEL_MBPS * 1_000_000,
        suspend_ns: None,
        read_ahead_bytes: 0,
        ..NandTiming::default()
    };
    let mut flash = Flash { geometry, nand, ..Flash::default() };
    flash.ftl.victim = VictimPolicy::Greedy;
    flash.ftl.streams = Streams { separate_gc: true };
    flash.ftl.gc.idle_delay_ns = None;
    flash.write_cache = WriteCache { bytes: 0, ..WriteCache::default() };
    DriveSpec {
        name: "mqsim".into(),
        description: String::new(),
        capacity_bytes: user_pages() * PAGE,
        logical_block_bytes: PAGE as u32,
        interface: Interface {
            rate_bytes_per_s: LINK_BPS,
            full_duplex: true,
            queue_depth: 1024,
            command_overhead_ns: 0,
            write_overhead_ns: None,
            latency_ns: 0,
        },
        flash,
    }
}

/// The case on this model: filled in order, then overwritten at random, then measured.
fn ours(case: &Case) -> Figures {
    let started = Instant::now();
    // Behind a pointer, as in the program: compiled in the crate of the model.
    let mut ssd = model::build(&spec(), 1).unwrap();
    let pages = user_pages();
    let mut now = Nanos::ZERO;
    for page in 0..pages {
        now = ssd
            .submit(
                now,
                &Command::Write(Extent { offset: page * PAGE, len: PAGE }, DataClass::Random),
            )
            .done;
    }
    let mut rng = Stream::new(7, "mqsim");
    window(ssd.as_mut(), &mut rng, now, 0, 32, case.drive_writes_before * pages, &mut |_| {});
    let before = ssd.written();
    let began = Nanos(now.0 + (1 << 50));
    let mut times = Vec::new();
    let ended = window(
        ssd.as_mut(),
        &mut rng,
        began,
        case.read_percent,
        case.depth,
        case.requests,
        &mut |took| times.push(took),
    );
    let simulated_per_s = (pages * (1 + case.drive_writes_before) + case.requests) as f64
        / started.elapsed().as_secs_f64();
    let (written, programmed) = ssd.written();
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize] as f64 / 1e3;
    Figures {
        iops: case.requests as f64 / (ended - began).as_secs_f64(),
        mean_us: times.iter().sum::<u64>() as f64 / times.len() as f64 / 1e3,
        max_us: at(1.0),
        median_us: at(0.5),
        p99_us: at(0.99),
        simulated_per_s,
        waf: (programmed - before.1) as f64 / ((written - before.0) as f64).max(1.0),
    }
}

/// Requests in a window of `depth`; gives when the last one ended.
fn window(
    ssd: &mut dyn Model,
    rng: &mut Stream,
    began: Nanos,
    read_percent: u64,
    depth: usize,
    count: u64,
    took: &mut dyn FnMut(u64),
) -> Nanos {
    let mut under_way: BinaryHeap<Reverse<u64>> = (0..depth).map(|_| Reverse(began.0)).collect();
    let mut last = began;
    for _ in 0..count {
        let mut earliest = under_way.peek_mut().unwrap();
        let now = Nanos(earliest.0);
        let extent = Extent { offset: rng.below(user_pages()) * PAGE, len: PAGE };
        let read = rng.below(100) < read_percent;
        let command =
            if read { Command::Read(extent) } else { Command::Write(extent, DataClass::Random) };
        let done = ssd.submit(now, &command).done;
        took(done.0 - now.0);
        last = last.max(done);
        *earliest = Reverse(done.0);
    }
    last
}

/// The case on MQSim: what it does before measuring is taken away by a second, shorter
/// run.
fn theirs(program: &Path, case: &Case) -> Option<Figures> {
    // Of a mix, only the writes bring it to steady state.
    let before = case.drive_writes_before * user_pages() * 100 / (100 - case.read_percent).max(1);
    let directory = std::env::temp_dir().join(format!("trimtab-mqsim-{}", std::process::id()));
    std::fs::create_dir_all(&directory).ok()?;
    let run = |requests: u64| -> Option<String> {
        std::fs::write(directory.join("ssd.xml"), device_xml()).ok()?;
        std::fs::write(directory.join("workload.xml"), workload_xml(case, requests)).ok()?;
        // It may end without a word; what an earlier run left is not this one's.
        let _ = std::fs::remove_file(directory.join("workload_scenario_1.xml"));
        let arguments = ["-i", "ssd.xml", "-w", "workload.xml"];
        Process::new(program)
            .args(arguments)
            .current_dir(&directory)
            .stdin(std::process::Stdio::null())
            .output()
            .ok()?;
        std::fs::read_to_string(directory.join("workload_scenario_1.xml")).ok()
    };
    let started = Instant::now();
    let long = run(before + case.requests)?;
    let simulated_per_s = (before + case.requests) as f64 / started.elapsed().as_secs_f64();
    let short = if before > 0 { run(before) } else { None };
    let _ = std::fs::remove_dir_all(&directory);
    let of_long = |tag: &str| number(&long, tag);
    let of_short = |tag: &str| short.as_deref().map_or(Some(0.0), |text| number(text, tag));
    let grown = |tag: &str| Some(of_long(tag)? - of_short(tag)?);
    let requests = grown("Request_Count")?;
    let waited = of_long("Device_Response_Time")? * of_long("Request_Count")?
        - of_short("Device_Response_Time")? * of_short("Request_Count")?;
    let mean_us = waited / requests;
    let kinds = ["", "Interleaved_", "Multiplane_", "Interleaved_Multiplane_"];
    let programs: f64 =
        kinds.iter().filter_map(|kind| grown(&format!("Issued_Flash_{kind}Program_CMD"))).sum();
    let writes = grown("Write_Request_Count")?;
    // Its own figure divides by whole seconds, which is nothing for short runs: there
    // Little's law is taken.
    let elapsed = |requests: Option<f64>, rate: Option<f64>| {
        Some(requests? / rate.filter(|rate| rate.is_finite() && *rate > 0.0)?)
    };
    let of_short_run =
        if short.is_some() { elapsed(of_short("Request_Count"), of_short("IOPS")) } else { None };
    let took = elapsed(of_long("Request_Count"), of_long("IOPS"))
        .zip(of_short_run)
        .map(|(long, short)| long - short);
    Some(Figures {
        iops: took
            .filter(|took| *took > 0.0)
            .map_or(case.depth as f64 / mean_us * 1e6, |took| requests / took),
        mean_us,
        max_us: of_long("Max_Device_Response_Time")?,
        waf: if writes > 0.0 { programs / writes } else { 0.0 },
        simulated_per_s,
        ..Figures::default()
    })
}

/// A figure of MQSim's report: the text of an element or an attribute.
fn number(text: &str, name: &str) -> Option<f64> {
    let element =
        || text.split_once(&format!("<{name}>")).and_then(|(_, rest)| rest.split_once('<'));
    let attribute =
        || text.split_once(&format!(" {name}=\"")).and_then(|(_, rest)| rest.split_once('"'));
    element().or_else(attribute)?.0.trim().parse().ok()
}

fn device_xml() -> String {
    let over_provisioning = 1.0 - UTILISATION;
    format!(
        "<?xml version=\"1.0\" encoding=\"us-ascii\"?>\n\
            <Execution_Parameter_Set><Host_Parameter_Set><PCIe_Lane_Bandwidth>1.0</PCIe_Lane_Bandwidth><PCIe_Lane_Count>4</PCIe_Lane_Count><SATA_Processing_Delay>400000</SATA_Processing_Delay><Enable_ResponseTime_Logging>false</Enable_ResponseTime_Logging><ResponseTime_Logging_Period_Length>1000000</ResponseTime_Logging_Period_Length></Host_Parameter_Set><Device_Parameter_Set><Seed>321</Seed><Enabled_Preconditioning>false</Enabled_Preconditioning><Memory_Type>FLASH</Memory_Type><HostInterface_Type>NVME</HostInterface_Type><IO_Queue_Depth>1024</IO_Queue_Depth><Queue_Fetch_Size>512</Queue_Fetch_Size><Caching_Mechanism>SIMPLE</Caching_Mechanism><Data_Cache_Sharing_Mode>SHARED</Data_Cache_Sharing_Mode><Data_Cache_Capacity>1048576</Data_Cache_Capacity><Data_Cache_DRAM_Row_Size>8192</Data_Cache_DRAM_Row_Size><Data_Cache_DRAM_Data_Rate>3200</Data_Cache_DRAM_Data_Rate><Data_Cache_DRAM_Data_Busrt_Size>8</Data_Cache_DRAM_Data_Busrt_Size><Data_Cache_DRAM_tRCD>1</Data_Cache_DRAM_tRCD><Data_Cache_DRAM_tCL>1</Data_Cache_DRAM_tCL><Data_Cache_DRAM_tRP>1</Data_Cache_DRAM_tRP><Address_Mapping>PAGE_LEVEL</Address_Mapping><Ideal_Mapping_Table>true</Ideal_Mapping_Table><CMT_Capacity>33554432</CMT_Capacity><CMT_Sharing_Mode>SHARED</CMT_Sharing_Mode><Plane_Allocation_Scheme>CWDP</Plane_Allocation_Scheme><Transaction_Scheduling_Policy>OUT_OF_ORDER</Transaction_Scheduling_Policy><Overprovisioning_Ratio>{over_provisioning:.4}</Overprovisioning_Ratio><GC_Exec_Threshold>0.02</GC_Exec_Threshold><GC_Block_Selection_Policy>GREEDY</GC_Block_Selection_Policy><Use_Copyback_for_GC>false</Use_Copyback_for_GC><Preemptible_GC_Enabled>false</Preemptible_GC_Enabled><GC_Hard_Threshold>0.005</GC_Hard_Threshold><Dynamic_Wearleveling_Enabled>false</Dynamic_Wearleveling_Enabled><Static_Wearleveling_Enabled>false</Static_Wearleveling_Enabled><Static_Wearleveling_Threshold>100</Static_Wearleveling_Threshold><Preferred_suspend_erase_time_for_read>700000</Preferred_suspend_erase_time_for_read><Preferred_suspend_erase_time_for_write>700000</Preferred_suspend_erase_time_for_write><Preferred_suspend_write_time_for_read>100000</Preferred_suspend_write_time_for_read><Flash_Channel_Count>{CHANNELS}</Flash_Channel_Count><Flash_Channel_Width>1</Flash_Channel_Width><Channel_Transfer_Rate>{CHANNEL_MBPS}</Channel_Transfer_Rate><Chip_No_Per_Channel>{DIES_PER_CHANNEL}</Chip_No_Per_Channel><Flash_Comm_Protocol>NVDDR2</Flash_Comm_Protocol><Flash_Parameter_Set><Flash_Technology>SLC</Flash_Technology><CMD_Suspension_Support>NONE</CMD_Suspension_Support><Page_Read_Latency_LSB>{READ_NS}</Page_Read_Latency_LSB><Page_Read_Latency_CSB>{READ_NS}</Page_Read_Latency_CSB><Page_Read_Latency_MSB>{READ_NS}</Page_Read_Latency_MSB><Page_Program_Latency_LSB>{PROGRAM_NS}</Page_Program_Latency_LSB><Page_Program_Latency_CSB>{PROGRAM_NS}</Page_Program_Latency_CSB><Page_Program_Latency_MSB>{PROGRAM_NS}</Page_Program_Latency_MSB><Block_Erase_Latency>{ERASE_NS}</Block_Erase_Latency><Block_PE_Cycles_Limit>1000000</Block_PE_Cycles_Limit><Suspend_Erase_Time>700000</Suspend_Erase_Time><Suspend_Program_Time>100000</Suspend_Program_Time><Die_No_Per_Chip>1</Die_No_Per_Chip><Plane_No_Per_Die>1</Plane_No_Per_Die><Block_No_Per_Plane>{BLOCKS}</Block_No_Per_Plane><Page_No_Per_Block>{PAGES_PER_BLOCK}</Page_No_Per_Block><Page_Capacity>{PAGE}</Page_Capacity><Page_Metadat_Capacity>0</Page_Metadat_Capacity></Flash_Parameter_Set></Device_Parameter_Set></Execution_Parameter_Set>\n"
    )
}

fn workload_xml(case: &Case, requests: u64) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"us-ascii\"?>\n\
            <MQSim_IO_Scenarios><IO_Scenario><IO_Flow_Parameter_Set_Synthetic><Priority_Class>HIGH</Priority_Class><Device_Level_Data_Caching_Mode>TURNED_OFF</Device_Level_Data_Caching_Mode><Channel_IDs>0,1,2,3</Channel_IDs><Chip_IDs>0,1</Chip_IDs><Die_IDs>0</Die_IDs><Plane_IDs>0</Plane_IDs><Initial_Occupancy_Percentage>0</Initial_Occupancy_Percentage><Working_Set_Percentage>100</Working_Set_Percentage><Synthetic_Generator_Type>QUEUE_DEPTH</Synthetic_Generator_Type><Read_Percentage>{}</Read_Percentage><Address_Distribution>RANDOM_UNIFORM</Address_Distribution><Percentage_of_Hot_Region>0</Percentage_of_Hot_Region><Generated_Aligned_Addresses>true</Generated_Aligned_Addresses><Address_Alignment_Unit>8</Address_Alignment_Unit><Request_Size_Distribution>FIXED</Request_Size_Distribution><Average_Request_Size>8</Average_Request_Size><Variance_Request_Size>0</Variance_Request_Size><Seed>798</Seed><Average_No_of_Reqs_in_Queue>{}</Average_No_of_Reqs_in_Queue><Intensity>32768</Intensity><Stop_Time>0</Stop_Time><Total_Requests_To_Generate>{requests}</Total_Requests_To_Generate></IO_Flow_Parameter_Set_Synthetic></IO_Scenario></MQSim_IO_Scenarios>\n",
        case.read_percent, case.depth
    )
}

/// What is kept of MQSim: name of the case, IOPS, mean and longest time, WAF.
fn kept(name: &str) -> Option<Figures> {
    let text = std::fs::read_to_string(KEPT).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("\"{name}\",")))?;
    let fields: Vec<f64> = line.split(',').map(|field| field.parse().unwrap_or(0.0)).collect();
    Some(Figures {
        iops: *fields.first()?,
        mean_us: *fields.get(1)?,
        max_us: *fields.get(2)?,
        waf: *fields.get(3)?,
        ..Figures::default()
    })
}

fn main() -> ExitCode {
    let _figures = figures::begin(
        "mqsim",
        "This model in the cases of docs/mqsim.csv, which has what MQSim said of them.",
        &[],
    );
    let program = std::env::var_os("TRIMTAB_MQSIM");
    let mut table = String::from(
        "case,mqsim_iops,mqsim_mean_us,mqsim_max_us,mqsim_waf,iops,mean_us,median_us,p99_us,max_us,waf\n",
    );
    let (mut all, mut slowest) = (true, f64::MAX);
    for case in &CASES {
        let theirs = program
            .as_ref()
            .map_or_else(|| kept(case.name), |program| theirs(Path::new(program), case));
        let ours = ours(case);
        keep(case.name, "rate", "ops/s", &[ours.iops]);
        keep(case.name, "mean time", "us", &[ours.mean_us]);
        keep(case.name, "p99", "us", &[ours.p99_us]);
        keep(case.name, "WAF", "ratio", &[ours.waf]);
        let Some(theirs) = theirs else {
            eprintln!("{}: no figures of MQSim", case.name);
            all = false;
            continue;
        };
        if case.drive_writes_before > 0 && program.is_some() {
            let times = ours.simulated_per_s / theirs.simulated_per_s;
            keep(case.name, "requests simulated", "requests/s", &[ours.simulated_per_s]);
            keep(case.name, "requests simulated by MQSim", "requests/s", &[theirs.simulated_per_s]);
            eprintln!(
                "{}: {:.0} requests simulated a second, MQSim {:.0}: {times:.0} \
                    times ({FASTER_MIN:.0} claimed)",
                case.name, ours.simulated_per_s, theirs.simulated_per_s
            );
            slowest = slowest.min(times);
        }
        let _ = writeln!(
            table,
            "\"{}\",{:.0},{:.0},{:.0},{:.3},{:.0},{:.1},{:.1},{:.1},{:.1},{:.3}",
            case.name,
            theirs.iops,
            theirs.mean_us,
            theirs.max_us,
            theirs.waf,
            ours.iops,
            ours.mean_us,
            ours.median_us,
            ours.p99_us,
            ours.max_us,
            ours.waf
        );
    }
    print!("{table}");
    if all && slowest >= FASTER_MIN { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
