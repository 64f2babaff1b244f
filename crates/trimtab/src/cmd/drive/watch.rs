//! `trimtab drive watch`.

mod screen;

use super::status::status_of;
use crate::output::Context;
use crate::serve::runtime::Runtime;
use crate::sys::interrupt;
use anyhow::Context as _;
use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use trimtab_core::usage::UsageError;

const EXAMPLES: &str = "\
Examples:
  trimtab drive watch
  trimtab drive watch /dev/loop0

Press q to leave. What it shows is in 'trimtab drive status --json', too, with the last two minutes second by second.";

/// Arguments of `trimtab drive watch`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Id or block device of the drive; may be left out if there is only one.
    #[arg(value_name = "DRIVE")]
    drive: Option<String>,
}

/// How often the server is asked: it makes one entry of its time series a second.
const INTERVAL: Duration = Duration::from_millis(500);

/// Watches until the user has seen enough, or the drive is detached.
pub fn run(args: &Args, _context: &Context) -> anyhow::Result<ExitCode> {
    if !std::io::stdout().is_terminal() {
        return Err(UsageError::new("'drive watch' draws on a terminal").hint("'drive status --json' is for everything else").into());
    }
    let entry = Runtime::open()?.find(args.drive.as_deref())?;
    let mut status = status_of(&entry)?;
    interrupt::install().context("cannot handle signals")?;
    let mut terminal = ratatui::try_init().context("cannot draw on this terminal")?;
    let mut watch = || -> anyhow::Result<()> {
        loop {
            terminal.draw(|frame| screen::draw(frame, &status)).context("cannot draw")?;
            let next = Instant::now() + INTERVAL;
            while let Some(rest) = next.checked_duration_since(Instant::now()) {
                if interrupt::requested() || (event::poll(rest)? && is_goodbye(&event::read()?)) {
                    return Ok(());
                }
            }
            status = status_of(&entry).context("the drive has been detached")?;
        }
    };
    let outcome = watch();
    ratatui::restore();
    outcome.map(|()| ExitCode::SUCCESS)
}

fn is_goodbye(event: &Event) -> bool {
    let Event::Key(key) = event else { return false };
    let control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    key.kind == KeyEventKind::Press && (control_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc))
}
