//! What a benchmark measured, as it was measured: a row for every sample, under what it
//! was measured on.
//!
//! `TRIMTAB_BENCH_CSV` names the directory that `BENCH.csv` is written to (`make bench`:
//! target/bench); without it nothing is kept.
#![allow(dead_code, reason = "not every benchmark compares with other programs")]

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;

/// Rows as they are written.
static ROWS: Mutex<String> = Mutex::new(String::new());

/// What is to be known beside the figures. Writes them when it goes.
pub struct Figures {
    bench: &'static str,
    conditions: Vec<String>,
}

/// Begins to keep the figures of `bench`, which is about `about`. Of each of `programs`,
/// with the argument that makes it say so, the version is noted.
#[must_use]
pub fn begin(bench: &'static str, about: &str, programs: &[[&str; 2]]) -> Figures {
    let mut conditions =
        vec![about.to_owned(), format!("trimtab {} at {}", env!("CARGO_PKG_VERSION"), commit())];
    conditions.extend(programs.iter().map(|[program, argument]| first_line(program, &[argument])));
    conditions.push(first_line("rustc", &["--version"]));
    conditions.push(format!("Linux {}, {}", first_line("uname", &["-r", "-m"]), processors()));
    conditions.push(format!(
        "{}; load before {}",
        first_line("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
        load()
    ));
    Figures { bench, conditions }
}

/// Keeps samples of one figure of one case, in the order in which they were taken.
pub fn keep(case: &str, figure: &str, unit: &str, samples: &[f64]) {
    let mut rows = ROWS.lock().unwrap();
    for (nth, value) in samples.iter().enumerate() {
        let _ =
            writeln!(rows, "{},{},{},{},{value}", cell(case), cell(figure), cell(unit), nth + 1);
    }
}

/// CPU time of all children that have ended, in seconds.
#[must_use]
pub fn children_cpu_s() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: getrusage fills the structure.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

impl Drop for Figures {
    fn drop(&mut self) {
        let Some(directory) = std::env::var_os("TRIMTAB_BENCH_CSV").map(PathBuf::from) else {
            return;
        };
        self.conditions.push(format!("load after {}", load()));
        let head: String = self.conditions.iter().map(|line| format!("# {line}\n")).collect();
        let rows = ROWS.lock().map_or_else(|error| error.into_inner().clone(), |rows| rows.clone());
        let path = directory.join(self.bench).with_extension("csv");
        let written = std::fs::create_dir_all(&directory).and_then(|()| {
            std::fs::write(&path, format!("{head}case,figure,unit,sample,value\n{rows}"))
        });
        match written {
            Ok(()) => println!("\nevery sample is in {}", path.display()),
            Err(error) => eprintln!("{}: {error}", path.display()),
        }
    }
}

fn cell(text: &str) -> String {
    if text.contains([',', '"']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// The first line that a program prints; that it is not there, if it is not.
fn first_line(program: &str, args: &[&str]) -> String {
    let Ok(output) = Command::new(program).args(args).output() else {
        return format!("{program}: not installed");
    };
    // Some say their version among errors.
    let said = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    String::from_utf8_lossy(&said).lines().next().unwrap_or_default().trim().to_owned()
}

/// The commit, and whether there was more.
fn commit() -> String {
    let git = |args: &[&str]| {
        Command::new("git").current_dir(env!("CARGO_MANIFEST_DIR")).args(args).output().ok()
    };
    let described =
        git(&["describe", "--always", "--dirty"]).filter(|output| output.status.success());
    described.map_or("no commit".to_owned(), |output| {
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    })
}

fn processors() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("unknown", |(_, name)| name.trim());
    format!("{} processors: {name}", std::thread::available_parallelism().map_or(0, usize::from))
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}
