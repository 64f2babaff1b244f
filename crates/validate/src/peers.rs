//! `validate peers`: compares idle trims with policies of other authors on ten drives
//! under five loads, in virtual time.
//!
//! A scaled-down model of each drive carries a used filesystem: 60 % full, free space in
//! extents of 16 KiB to 16 MiB, all of it written once. The drive is worn by random
//! writes and by file creation and deletion without trims. Each policy starts from that
//! state and sees the same work.

mod cell;
mod load;
mod policy;
mod table;
mod used;

use crate::parallel;
use anyhow::Context as _;
use cell::{IDLE_UNLIMITED, POLICIES, PeerCell};
use load::{LOADS, PeerLoad};
use std::path::PathBuf;
use std::process::ExitCode;
use table::{PeerTable, PeerVerdict};
use trimtab::report::file::{self, OverwriteMode};
use trimtab_drive::shipped::drive;
use trimtab_linux::output::Context;
use trimtab_linux::sys::interrupt;
use trimtab_linux::sys::interrupt::InterruptError;
use used::PeerStart;

/// Drives, ordered by the cost of a TRIM.
const DRIVES: [&str; 10] = [
    // SATA, 2010: cost per mapped unit and per command.
    "ocz-vertex-le-100gb",
    // SATA, 2009: cost per command; small buffer.
    "intel-x25-m-160gb",
    // SATA, 2009: almost free; large buffer.
    "corsair-p128",
    // SATA, 2011: 2 to 5 ms per command.
    "intel-320-300gb",
    "owc-electra-3g-480gb",
    "crucial-m4-128gb",
    "corsair-force-3-120gb",
    // SATA, TLC: low cost.
    "sata-tlc-500gb",
    // PCIe: almost free, queued with other commands.
    "nvme-tlc-500gb",
    "nvme-qlc-dramless-500gb",
];
/// Drive writes before a comparison, after the initial fill.
const WEAR: f64 = 2.0;

/// Arguments of `validate peers`.
#[derive(Debug, clap::Args)]
pub struct ValidatePeersArgs {
    /// Only drives whose name contains this text.
    #[arg(long, value_name = "DRIVE")]
    only: Option<String>,
    /// Run one of every N requests of the full comparison.
    #[arg(
        long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=1000)
    )]
    part: u32,
    /// Also write the results to this file.
    #[arg(long, value_name = "FILE.csv")]
    csv: Option<PathBuf>,
}

/// Compares the policies and prints tables.
///
/// # Errors
/// If interrupted, or if a file cannot be written.
pub fn run(args: &ValidatePeersArgs, context: &Context) -> anyhow::Result<ExitCode> {
    interrupt::install()?;
    let drives: Vec<&str> = DRIVES
        .into_iter()
        .filter(|drive| args.only.as_ref().is_none_or(|part| drive.contains(part)))
        .collect();
    let loads: Vec<&PeerLoad> = LOADS.iter().collect();
    let cells = cells(context, &drives, &loads, &POLICIES, (WEAR, args.part as usize))?;
    if let Some(path) = &args.csv {
        let text = cells.iter().fold(cell::CSV_HEAD.to_owned(), |text, cell| text + &cell.csv());
        file::write(path, text.as_bytes(), OverwriteMode::Replace)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    context.report("peers", 1, &cells, || text(&cells))?;
    Ok(ExitCode::SUCCESS)
}

fn text(cells: &[PeerCell]) -> String {
    let mut text = PeerTable(cells).to_string();
    for (ours, peer) in [IDLE_UNLIMITED, "idle"]
        .into_iter()
        .flat_map(|ours| ["itrim", "dtrim"].map(|peer| (ours, peer)))
    {
        text += &PeerVerdict::of(cells, ours, peer).to_string();
    }
    text
}

/// Runs all combinations on `drives` after `wear` drive writes, with 1/`part` of the
/// requests.
fn cells(
    context: &Context,
    drives: &[&str],
    loads: &[&PeerLoad],
    policies: &[&str],
    (wear, part): (f64, usize),
) -> anyhow::Result<Vec<PeerCell>> {
    let of_drives = parallel::map(context, "drives", drives, |name| {
        let used = PeerStart::of(&drive(name), wear)?;
        let mut cells = Vec::new();
        for (load, policy) in
            loads.iter().flat_map(|load| policies.iter().map(move |policy| (load, policy)))
        {
            if interrupt::requested() {
                return Err(InterruptError.into());
            }
            cells.push(cell::run(&used, load, policy, load.requests / part)?);
        }
        Ok(cells)
    })?;
    Ok(of_drives.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On two drives under two loads, passes trim free space without raising write
    /// amplification.
    #[test]
    fn policies_trim_most_free_space_on_two_drives() {
        let (drives, loads) = (["crucial-m4-128gb", "sata-tlc-500gb"], [&LOADS[0], &LOADS[1]]);
        let all = cells(&Context::default(), &drives, &loads, &POLICIES[..6], (0.3, 9)).unwrap();
        print!("{}", all.iter().map(PeerCell::csv).collect::<String>());
        let find = |drive, load, policy| {
            all.iter()
                .find(|cell| (&*cell.drive, cell.load, &*cell.policy) == (drive, load, policy))
                .unwrap()
        };
        for (name, load) in drives.into_iter().flat_map(|name| loads.map(|load| (name, load.name)))
        {
            let none = find(name, load, "none");
            assert_eq!((none.commands, none.trim_ns), (0, 0));
            for policy in ["idle", "itrim", "dtrim"] {
                let cell = find(name, load, policy);
                assert!(
                    cell.known_share > none.known_share + 0.3,
                    "{name} {load} {policy}: {cell:?}, without trims {none:?}"
                );
                assert!(
                    cell.waf < none.waf * 1.02,
                    "{name} {load} {policy}: {cell:?}, without trims {none:?}"
                );
            }
            // Command times: 2.25 ms and 0.154 ms.
            assert_eq!(find(name, load, "dtrim").online, name == "sata-tlc-500gb", "{name} {load}");
        }
    }
}
