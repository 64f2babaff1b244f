//! `trimtab drive attach`.

use crate::cmd::options::one_of;
use crate::drives;
use anyhow::Context as _;
use rustix::fs::{Mode, OFlags};
use rustix::thread::CapabilitySet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use trimtab_drive::model;
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::{self, Context};
use trimtab_linux::sys::interrupt;
use trimtab_linux::sys::privileges;
use trimtab_vssd::faults::{Fault, GRAMMAR};
use trimtab_vssd::pace::Speed;
use trimtab_vssd::runtime::{ServerRecord, check_id};
use trimtab_vssd::server::{AttachOptions, Server};
use trimtab_vssd::transport::{Transport, TransportChoice};
use trimtab_vssd::ublk;

const EXAMPLES: &str = "\
Examples:
  trimtab drive attach ocz-vertex-le-100gb             attach it and print the block device
  trimtab drive attach intel-520-120gb --speed off     as fast as possible, without the modelled latency
  trimtab drive attach ./mine.toml --size 8GiB --data disk.img
  mkfs.ext4 $(trimtab drive attach crucial-m4-128gb --size 4GiB)

The drive is served in the background until 'trimtab drive detach'. Data is kept in memory unless --data \
names a file. With --adopt, a later attachment writes these data to a new drive first. While a reply \
waits for its modelled latency, processors are kept out of deep sleep (/dev/cpu_dma_latency).";

const TRANSPORTS: &[(&str, TransportChoice)] = &[
    ("auto", TransportChoice::Best),
    ("ublk", TransportChoice::Only(Transport::Ublk)),
    ("device", TransportChoice::Only(Transport::Device)),
];

/// Arguments of `trimtab drive attach`.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\nFaults:\n{GRAMMAR}"))]
pub struct DriveAttachArgs {
    /// Attach this drive: a shipped drive, or the path of a specification file.
    drive: String,
    /// Use another capacity with the same over-provisioning.
    #[arg(long)]
    size: Option<Bytes>,
    /// Keep the data in this file.
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Write the content of the --data file, of an earlier attachment or a raw image, to
    /// the new drive.
    #[arg(long, requires = "data")]
    adopt: bool,
    /// Name of the attached drive [default: the drive's name].
    #[arg(long)]
    id: Option<String>,
    /// Speed of the drive: realtime, a factor such as 10x, or off.
    #[arg(long, default_value = "realtime")]
    speed: Speed,
    /// Provide the block device this way: auto (the best one available), ublk (a device
    /// of the kernel's ublk driver) or device (a loop device on a FUSE file).
    #[arg(
        long, default_value = "auto", value_name = "auto|ublk|device",
        value_parser = one_of(TRANSPORTS)
    )]
    transport: TransportChoice,
    /// Also serve NBD clients on this Unix socket, such as `qemu -drive
    /// file=nbd+unix:///?socket=SOCKET`.
    #[arg(long, value_name = "SOCKET")]
    nbd: Option<PathBuf>,
    /// Serve only NBD, without a block device: needs neither root nor FUSE nor a loop
    /// device.
    #[arg(long, requires = "nbd")]
    no_block: bool,
    /// Record every request to this new file, for 'trimtab drive simulate --trace' and
    /// 'trimtab drive trace'.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Add a fault to the drive, see below. Repeat for more.
    #[arg(long = "fault", value_name = "FAULT")]
    faults: Vec<Fault>,
    /// Seed of the random behaviour of the drive and its faults.
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Detach once the process PID has ended, even if the drive is in use.
    #[arg(long, value_name = "PID")]
    detach_with: Option<u32>,
    /// Stay in the foreground; an interrupt detaches.
    #[arg(long)]
    foreground: bool,
    /// Set by the parent that started this process in the background: report on standard
    /// output, then stay silent.
    #[arg(long, hide = true)]
    background_child: bool,
}

pub fn run(args: &DriveAttachArgs, context: &Context) -> anyhow::Result<ExitCode> {
    if !args.foreground && !args.background_child {
        return start_in_background(context);
    }
    let options = options(args)?;
    privileges::keep_only(kept(&options)).context("cannot give up privileges")?;
    interrupt::install().context("cannot handle signals")?;
    interrupt::must_finish();
    if args.background_child {
        // A session of its own keeps the drive when the terminal closes.
        let _ = rustix::process::setsid();
    }
    let (server, remarks) = Server::start(options)?;
    for remark in &remarks {
        context.remark(&format!("trimtab: {remark}"));
    }
    if args.background_child {
        hand_over(&server)?;
    } else {
        report(server.record(), context)?;
    }
    server.run()?;
    Ok(ExitCode::SUCCESS)
}

fn options(args: &DriveAttachArgs) -> anyhow::Result<AttachOptions> {
    let without_root = !args.no_block && !rustix::process::geteuid().is_root();
    if without_root
        && !(matches!(
            args.transport,
            TransportChoice::Best | TransportChoice::Only(Transport::Ublk)
        ) && ublk::is_open_to_users())
    {
        return Err(UsageError::new("a block device can only be attached by root")
            .hint(
                "without root, '--nbd SOCKET --no-block' serves NBD clients; ublk needs \
                permission to open /dev/ublk-control",
            )
            .into());
    }
    if let Some(id) = &args.id {
        check_id(id)?;
    }
    let spec = model::sized(drives::load(&args.drive)?.spec, args.size)?;
    Ok(AttachOptions {
        id: args.id.clone(),
        spec,
        speed: args.speed,
        data: args.data.clone(),
        adopt: args.adopt,
        block: (!args.no_block).then_some(if without_root {
            TransportChoice::Only(Transport::Ublk)
        } else {
            args.transport
        }),
        nbd: args.nbd.clone(),
        record: args.record.clone(),
        faults: args.faults.clone(),
        seed: args.seed,
        detach_with: args.detach_with,
    })
}

/// Capabilities that the server keeps. They bound the damage if it is taken over.
fn kept(options: &AttachOptions) -> CapabilitySet {
    // Read and write the data file and its state in another user's directory, and check
    // that no other process has it open.
    let data = if options.data.is_some() || options.record.is_some() {
        CapabilitySet::DAC_OVERRIDE | CapabilitySet::LEASE | CapabilitySet::SYS_PTRACE
    } else {
        CapabilitySet::empty()
    };
    // Mount and unmount, set up a loop device, not be throttled on own writes, lock
    // memory, and name the users of the device.
    let block = if options.block.is_some() {
        CapabilitySet::SYS_ADMIN
            | CapabilitySet::SYS_RESOURCE
            | CapabilitySet::IPC_LOCK
            | CapabilitySet::SYS_PTRACE
    } else {
        CapabilitySet::empty()
    };
    // The directory of the NBD socket may belong to another user.
    let socket =
        if options.nbd.is_some() { CapabilitySet::DAC_OVERRIDE } else { CapabilitySet::empty() };
    data | block | socket
}

/// Starts this program again with the same arguments as a server of its own, and waits
/// until it serves.
fn start_in_background(context: &Context) -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe().context("cannot find this program's executable")?;
    let mut child = Command::new(program)
        .args(std::env::args_os().skip(1))
        .arg("--background-child")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the server")?;
    let pipe = child.stdout.take().expect("it was asked for above");
    let (mut pipe, mut line) = (BufReader::new(pipe), String::new());
    pipe.read_line(&mut line).context("cannot read the server's reply")?;
    // An attached drive is one line of JSON; an error document has several.
    if !line.trim_end().ends_with('}') {
        // The reason is on standard error, and with --json in that document.
        pipe.read_to_string(&mut line).context("cannot read the server's reply")?;
        if !line.is_empty() {
            output::print(&line)?;
        }
        let code = child
            .wait()
            .ok()
            .and_then(|status| status.code())
            .and_then(|code| u8::try_from(code).ok());
        return Ok(code.filter(|code| *code != 0).map_or(ExitCode::FAILURE, ExitCode::from));
    }
    let record: ServerRecord =
        serde_json::from_str(&line).context("the server's reply could not be understood")?;
    report(&record, context)?;
    Ok(ExitCode::SUCCESS)
}

/// Reports to the waiting parent that the drive is attached, and releases the terminal.
fn hand_over(server: &Server) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(server.record())?;
    line.push(b'\n');
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .context("cannot open /dev/null")?;
    let log = server.log()?;
    std::env::set_current_dir("/").context("cannot leave the current directory")?;
    // The drive is served even if the parent is gone.
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(&line).and_then(|()| out.flush());
    for result in [
        rustix::stdio::dup2_stdin(null.as_fd()),
        rustix::stdio::dup2_stdout(null.as_fd()),
        rustix::stdio::dup2_stderr(log.as_fd()),
    ] {
        result.context("cannot release the terminal")?;
    }
    Ok(())
}

fn report(record: &ServerRecord, context: &Context) -> anyhow::Result<()> {
    let text = || {
        record
            .device
            .iter()
            .chain(&record.nbd)
            .map(|path| format!("{}\n", path.display()))
            .collect()
    };
    context.report("drive-attach", 1, record, text)
}
