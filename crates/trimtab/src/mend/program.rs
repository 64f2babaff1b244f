//! Runs system programs: only those that root installed, without a shell, and with a
//! clean environment.

use anyhow::{Context as _, bail};
use rustix::fs::{FileType, Stat, stat};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// Directories searched for programs.
const DIRECTORIES: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
/// PATH passed to the programs.
const SEARCH_PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// Write permission of group and others.
const OTHERS_WRITE: u32 = 0o022;
/// Maximum output; larger than any table.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// Runs a program with `input`, or with this process's standard input for a passphrase
/// prompt. Passes standard error on line by line; on failure the last line becomes the
/// cause.
pub fn run(line: &[String], input: Option<&str>, say: &dyn Fn(&str)) -> anyhow::Result<()> {
    let (name, mut command) = command(line)?;
    let stdin = if input.is_some() { Stdio::piped() } else { Stdio::inherit() };
    let mut child = command
        .stdin(stdin)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| starting(name))?;
    if let (Some(text), Some(mut pipe)) = (input, child.stdin.take()) {
        // A table fits into a pipe. If the program does not read it, the exit status
        // below reports why.
        let _ = pipe.write_all(text.as_bytes());
    }
    let mut last = None;
    for said in
        child.stderr.take().map(BufReader::new).into_iter().flat_map(|pipe| pipe.split(b'\n'))
    {
        let said = trimtab_linux::host::root::printable(&said.unwrap_or_default());
        if !said.is_empty() {
            say(&said);
            last = Some(said);
        }
    }
    let status = child.wait().with_context(|| format!("cannot wait for {name}"))?;
    if !status.success() {
        // The signal went to both processes.
        trimtab_linux::sys::interrupt::check()?;
        bail!(ended(name, status, last.as_deref()));
    }
    Ok(())
}

/// Returns a program's output.
pub fn output(line: &[String]) -> anyhow::Result<String> {
    let (name, mut command) = command(line)?;
    let output = command.stdin(Stdio::null()).output().with_context(|| starting(name))?;
    if !output.status.success() {
        let said = trimtab_linux::host::root::printable(&output.stderr);
        bail!(ended(name, output.status, said.lines().last()));
    }
    anyhow::ensure!(
        output.stdout.len() <= OUTPUT_BYTES_MAX,
        "{name} prints more than can be right"
    );
    String::from_utf8(output.stdout).with_context(|| format!("{name} prints what is no text"))
}

fn starting(name: &str) -> String {
    format!("cannot start {name}")
}

fn ended(name: &str, status: ExitStatus, said: Option<&str>) -> String {
    let how =
        status.code().map_or_else(|| status.to_string(), |code| format!("with exit status {code}"));
    format!("{name} ended {how}: {}", said.unwrap_or("it did not say why"))
}

fn command(line: &[String]) -> anyhow::Result<(&str, Command)> {
    let (name, words) = line.split_first().context("no program")?;
    let program = find(name).with_context(|| {
        format!("{name} is not installed (looked for in {SEARCH_PATH}, where only root may write)")
    })?;
    let mut command = Command::new(program);
    // LVM would warn about the inherited lock (`super::record`).
    command
        .args(words)
        .env_clear()
        .env("LC_ALL", "C")
        .env("PATH", SEARCH_PATH)
        .env("LVM_SUPPRESS_FD_WARNINGS", "1")
        .current_dir("/");
    Ok((name, command))
}

/// Finds a program that only root can have installed.
fn find(name: &str) -> Option<PathBuf> {
    let directories = DIRECTORIES
        .iter()
        .map(Path::new)
        .filter(|directory| is_of_root(directory, FileType::Directory));
    directories
        .map(|directory| directory.join(name))
        .find(|program| is_of_root(program, FileType::RegularFile))
}

/// Follows links: in root's directories, root controls their targets.
fn is_of_root(path: &Path, kind: FileType) -> bool {
    stat(path).is_ok_and(|stat| of_root(&stat, kind))
}

fn of_root(stat: &Stat, kind: FileType) -> bool {
    stat.st_uid == 0
        && stat.st_mode & OTHERS_WRITE == 0
        && FileType::from_raw_mode(stat.st_mode) == kind
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn programs_are_root_owned_with_clean_environment() {
        assert!(find("sh").is_some() && find("no-such-program").is_none());
        let said = output(&words(&["sh", "-c", "echo \"$PATH|$HOME|$LC_ALL|$(pwd)\""])).unwrap();
        assert_eq!(said, format!("{SEARCH_PATH}||C|/\n"));
        let error = output(&words(&["no-such-program"])).unwrap_err().to_string();
        assert!(error.starts_with("no-such-program is not installed"), "{error}");
        let directory = tempfile::tempdir().unwrap();
        assert!(
            is_of_root(directory.path(), FileType::Directory)
                == rustix::process::geteuid().is_root()
        );
        std::os::unix::fs::symlink("/bin/sh", directory.path().join("sh")).unwrap();
        assert!(is_of_root(&directory.path().join("sh"), FileType::RegularFile));
    }

    #[test]
    fn program_error_has_last_line_and_status() {
        let heard = std::cell::RefCell::new(Vec::new());
        let say = |line: &str| heard.borrow_mut().push(line.to_owned());
        let error = run(
            &words(&["sh", "-c", "echo one >&2; echo 'no key\x1b[2J' >&2; exit 2"]),
            None,
            &say,
        )
        .unwrap_err();
        assert_eq!(error.to_string(), "sh ended with exit status 2: no key\u{fffd}[2J");
        assert_eq!(heard.borrow().len(), 2);
        let killed =
            run(&words(&["sh", "-c", "kill -9 $$"]), None, &|_| {}).unwrap_err().to_string();
        assert!(
            killed.starts_with("sh ended signal: 9") && killed.ends_with("it did not say why"),
            "{killed}"
        );
        run(&words(&["sh", "-c", "read line; test \"$line\" = table"]), Some("table\n"), &say)
            .unwrap();
    }
}
