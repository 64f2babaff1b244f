//! Purges a device before a benchmark: discard, NVMe Format or Sanitize, ATA Security
//! Erase; proved by samples read back.

use crate::mend::program;
use crate::target_spec::TargetSpec;
use anyhow::Context as _;
use rustix::thread::CapabilitySet;
use serde_json::Value;
use std::fmt;
use std::time::{Duration, Instant};
use trimtab_drive::units::Nanos;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_linux::output::progress::{Progress, ProgressUnit};
use trimtab_linux::session::safety::consent;
use trimtab_linux::sys::interrupt;
use trimtab_linux::target::block::device::Claim;
use trimtab_sim::run::Field;

/// A way to purge a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PurgeMethod {
    /// Discard all blocks (BLKDISCARD).
    Discard,
    /// NVMe Format with user data erase (nvme-cli).
    Format,
    /// NVMe Sanitize with block erase (nvme-cli).
    Sanitize,
    /// ATA Security Erase (hdparm).
    SecureErase,
}

impl fmt::Display for PurgeMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Discard => "discard",
            Self::Format => "format",
            Self::Sanitize => "sanitize",
            Self::SecureErase => "secure-erase",
        })
    }
}

/// User password of an ATA Security Erase, which removes it.
const PASSWORD: &str = "trimtab";
const SANITIZE_POLL: Duration = Duration::from_secs(1);
/// A full sanitize in the units of its log.
const SANITIZE_WHOLE: u64 = 65_536;
/// Limit of a Format: nvme-cli's own is too short for large drives.
const FORMAT_TIMEOUT: &str = "--timeout=14400000";

/// Capabilities of the programs that send commands to a drive.
pub fn capabilities(method: Option<PurgeMethod>) -> CapabilitySet {
    match method {
        None | Some(PurgeMethod::Discard) => CapabilitySet::empty(),
        _ => CapabilitySet::SYS_ADMIN | CapabilitySet::SYS_RAWIO,
    }
}

/// Fails for a target that is not a device.
///
/// # Errors
/// It is not.
pub fn check(spec: &TargetSpec, method: Option<PurgeMethod>) -> Result<(), UsageError> {
    let Some(method) = method else { return Ok(()) };
    if let TargetSpec::Device(_) = spec {
        return Ok(());
    }
    let problem = format!("--purge {method} is for block devices, and {spec} is not one");
    Err(spec.refused(problem).hint("leave --purge out"))
}

/// A purge that the drive supports.
pub struct Purge {
    method: PurgeMethod,
    claim: Claim,
    /// The device as the user named it.
    label: String,
    /// The drive's node, for the programs.
    node: String,
    /// Options that keep the format of an NVMe namespace.
    format: [String; 4],
    /// Time that the drive announces.
    time: Option<String>,
}

impl Purge {
    /// Examines the drive, and writes nothing.
    ///
    /// # Errors
    /// The drive does not support the method, or a program is missing.
    pub fn prepare(method: PurgeMethod, label: String, claim: &Claim) -> anyhow::Result<Self> {
        let claim = claim.try_clone()?;
        let mut purge = Self {
            method,
            claim,
            label,
            node: String::new(),
            format: Default::default(),
            time: None,
        };
        purge.examine().map_err(|error| {
            let label = &purge.label;
            UsageError::new(format!("--purge {method}: {label}: {error:#}; nothing was written"))
        })?;
        Ok(purge)
    }

    fn examine(&mut self) -> anyhow::Result<()> {
        if self.method == PurgeMethod::Discard {
            anyhow::ensure!(self.claim.takes_discards(), "it does not support discards");
            return Ok(());
        }
        let node = self.claim.drive_node()?.context("it is not a whole drive")?;
        self.node = node.display().to_string();
        if self.method == PurgeMethod::SecureErase {
            let said = tool(&["hdparm", "-I", &self.node])
                .context("it does not answer as an ATA drive")?;
            self.time = secure_erase_time(&said)?;
            return Ok(());
        }
        let id = json(&["nvme", "id-ctrl", &self.node, "--output-format=json"])
            .context("it does not answer as an NVMe drive")?;
        let namespaces = tool(&["nvme", "list-ns", &self.node])?.matches("]:").count();
        check_nvme(self.method, &id, namespaces)?;
        let id = json(&["nvme", "id-ns", &self.node, "--output-format=json"])?;
        self.format = namespace_format(&id).context("nvme id-ns prints no format")?;
        Ok(())
    }

    /// Asks for consent.
    ///
    /// # Errors
    /// [`UsageError`] without consent.
    pub fn ask(&self, context: &Context, what: &str) -> anyhow::Result<()> {
        let Self { method, label, .. } = self;
        let time = self.time.as_ref().map_or_else(String::new, |time| format!(" (about {time})"));
        let question = format!(
            "{what} purges {label} by {method}{time}: everything on it is erased. Continue?"
        );
        if consent::ask(context, &question)? {
            return Ok(());
        }
        Err(UsageError::new(format!("{what} would erase everything on {label}"))
            .hint("say --yes to allow it")
            .into())
    }

    /// Purges the device, and returns the facts for the run's settings.
    ///
    /// # Errors
    /// The purge failed, or samples still hold data.
    pub fn run(&self, context: &Context) -> anyhow::Result<Vec<Field>> {
        let Self { method, label, .. } = self;
        let started = Instant::now();
        self.erase(context)?;
        let took = Nanos(started.elapsed().as_nanos() as u64);
        let proof = self.claim.discard_proof()?;
        anyhow::ensure!(
            proof.holding == 0,
            "--purge {method}: {} of {} samples of {label} still hold data: the drive is not purged",
            proof.holding,
            proof.samples
        );
        context.remark(&format!(
            "purged {label} by {method} in {took}: {} samples read back hold no data",
            proof.samples
        ));
        Ok(vec![
            Field::new("purge", method.to_string()),
            Field::new("purge.time", took.to_string()),
            Field::new("purge.samples", proof.samples.to_string()),
        ])
    }

    fn erase(&self, context: &Context) -> anyhow::Result<()> {
        let node = &self.node;
        match self.method {
            PurgeMethod::Discard => {
                let total = self.claim.size().0;
                let mut bar = Progress::new(context, "purge", ProgressUnit::Bytes, total);
                self.claim.discard_all(|done| bar.set(done))
            }
            PurgeMethod::Format => {
                let mut line = vec!["nvme", "format", node, "--ses=1", "--force", FORMAT_TIMEOUT];
                line.extend(self.format.iter().map(String::as_str));
                tool(&line).map(drop)
            }
            PurgeMethod::Sanitize => {
                tool(&["nvme", "sanitize", node, "--sanact=2", "--force"])?;
                let mut bar = Progress::new(context, "purge", ProgressUnit::Items, SANITIZE_WHOLE);
                loop {
                    let log = json(&["nvme", "sanitize-log", node, "--output-format=json"])?;
                    match sanitize_status(&log).context("nvme prints no sanitize status")? {
                        SanitizeStatus::Running(progress) => bar.set(progress),
                        SanitizeStatus::Done => return Ok(()),
                        SanitizeStatus::Failed => anyhow::bail!(
                            "the drive reports that the sanitize of {node} failed; it accepts no \
                                writes until one succeeds"
                        ),
                    }
                    // The drive continues by itself.
                    interrupt::check()?;
                    std::thread::sleep(SANITIZE_POLL);
                }
            }
            PurgeMethod::SecureErase => {
                let hdparm =
                    |what: &str| tool(&["hdparm", "--user-master", "u", what, PASSWORD, node]);
                hdparm("--security-set-pass")?;
                let Err(error) = hdparm("--security-erase") else { return Ok(()) };
                hdparm("--security-disable").with_context(|| {
                    format!("{error:#}; if {node} is locked, its user password is '{PASSWORD}'")
                })?;
                Err(error)
            }
        }
    }
}

fn tool(line: &[&str]) -> anyhow::Result<String> {
    program::output(&line.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
}

fn json(line: &[&str]) -> anyhow::Result<Value> {
    serde_json::from_str(&tool(line)?).with_context(|| format!("{} prints no JSON", line[0]))
}

/// Fails if the controller described by `nvme id-ctrl`, with this many active namespaces,
/// does not support `method`.
fn check_nvme(method: PurgeMethod, id: &Value, namespaces: usize) -> anyhow::Result<()> {
    let bit = |field: &str, bit: u32| id[field].as_u64().is_some_and(|bits| (bits >> bit) & 1 == 1);
    let (supported, name, all) = match method {
        PurgeMethod::Format => (bit("oacs", 1), "Format NVM", bit("fna", 0) || bit("fna", 1)),
        _ => (bit("sanicap", 1), "Sanitize with block erase", true),
    };
    anyhow::ensure!(supported, "the drive does not support {name}");
    anyhow::ensure!(
        !all || namespaces <= 1,
        "{name} erases all {namespaces} namespaces of this drive"
    );
    Ok(())
}

/// Options of `nvme format` that keep the format of the namespace described by `nvme id-ns`.
fn namespace_format(id: &Value) -> Option<[String; 4]> {
    let (format, protection) = (id["flbas"].as_u64()?, id["dps"].as_u64()?);
    Some([
        format!("--lbaf={}", (format & 0xf) | ((format >> 1) & 0x30)),
        format!("--ms={}", (format >> 4) & 1),
        format!("--pi={}", protection & 7),
        format!("--pil={}", (protection >> 3) & 1),
    ])
}

#[derive(Debug, PartialEq, Eq)]
enum SanitizeStatus {
    /// Progress in 65,536ths.
    Running(u64),
    Done,
    Failed,
}

/// State from `nvme sanitize-log`: numbers, or texts that begin with a number in brackets,
/// below the name of the device or not.
fn sanitize_status(log: &Value) -> Option<SanitizeStatus> {
    let log = if log["sstat"].is_null() { log.as_object()?.values().next()? } else { log };
    let status = match &log["sstat"] {
        Value::Object(fields) => {
            let text = fields.get("status")?.as_str()?;
            text.strip_prefix('(')?.split_once(')')?.0.parse().ok()?
        }
        number => number.as_u64()?,
    };
    match status & 7 {
        // A drive that was never sanitized cannot report this after a command.
        1 | 4 => Some(SanitizeStatus::Done),
        2 => Some(SanitizeStatus::Running(log["sprog"].as_u64().unwrap_or(0))),
        3 => Some(SanitizeStatus::Failed),
        _ => None,
    }
}

/// Time for a Security Erase that `hdparm -I` prints. Fails if it is impossible.
fn secure_erase_time(said: &str) -> anyhow::Result<Option<String>> {
    let security: Vec<String> = said
        .lines()
        .skip_while(|line| line.trim() != "Security:")
        .skip(1)
        .take_while(|line| line.starts_with(char::is_whitespace))
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let has = |state: &str| security.iter().any(|line| line == state);
    anyhow::ensure!(has("supported"), "the drive does not support the ATA security commands");
    anyhow::ensure!(
        !has("frozen"),
        "its security commands are frozen until the next power cycle: suspend and resume the \
            machine, or unplug the drive and plug it in again"
    );
    anyhow::ensure!(
        !has("enabled") && !has("locked"),
        "it has a security password; remove it with 'hdparm --security-disable PASSWORD' (an \
            interrupted purge leaves '{PASSWORD}')"
    );
    let time = security.iter().find_map(|line| line.split_once(" for SECURITY ERASE UNIT"));
    Ok(time.map(|(time, _)| time.replace("min", " min")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Parts of `hdparm -I` as its source prints them.
    fn hdparm(states: [&str; 5]) -> String {
        let [supported, enabled, locked, frozen, expired] = states;
        format!(
            "\n/dev/sdb:\n\nATA device, with non-removable media\n\tModel Number:       X\n\
            Security: \n\tMaster password revision code = 65534\n\t{supported}\tsupported\n\
            \t{enabled}\tenabled\n\t{locked}\tlocked\n\t{frozen}\tfrozen\n\
            \t{expired}\texpired: security count\n\t\tsupported: enhanced erase\n\
            \t4min for SECURITY ERASE UNIT. 8min for ENHANCED SECURITY ERASE UNIT.\n\
            Logical Unit WWN Device Identifier: 5002538043584d30\n"
        )
    }

    #[test]
    fn secure_erase_needs_support_and_no_freeze_lock() {
        let state = |states| secure_erase_time(&hdparm(states));
        let time = state(["", "not", "not", "not", "not"]).unwrap();
        assert_eq!(time.as_deref(), Some("4 min"));
        let wrong = |states, why: &str| {
            let error = state(states).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        };
        wrong(["", "not", "not", "", "not"], "frozen");
        wrong(["", "", "not", "not", "not"], "password");
        wrong(["not", "not", "not", "not", "not"], "does not support");
        assert!(secure_erase_time("").is_err());
    }

    #[test]
    fn nvme_purge_needs_support_and_one_namespace() {
        use PurgeMethod::{Format, Sanitize};
        let accepted = |id: &Value, namespaces| {
            [Format, Sanitize].map(|method| check_nvme(method, id, namespaces).is_ok())
        };
        let able = json!({"oacs": 0x17, "fna": 0, "sanicap": 0xa000_0002_u64, "nn": 32});
        assert_eq!((accepted(&able, 1), accepted(&able, 2)), ([true, true], [true, false]));
        let unable = json!({"oacs": 0x15, "fna": 0, "sanicap": 1, "nn": 1});
        assert_eq!(accepted(&unable, 1), [false, false]);
        let whole = json!({"oacs": 2, "fna": 2, "sanicap": 2, "nn": 32});
        assert_eq!((accepted(&whole, 1), accepted(&whole, 2)), ([true, true], [false, false]));
    }

    #[test]
    fn nvme_format_keeps_blocks_metadata_and_protection() {
        let format = |flbas, dps| namespace_format(&json!({"flbas": flbas, "dps": dps})).unwrap();
        assert_eq!(format(0, 0), ["--lbaf=0", "--ms=0", "--pi=0", "--pil=0"]);
        assert_eq!(format(0x31, 0xa), ["--lbaf=17", "--ms=1", "--pi=2", "--pil=1"]);
    }

    #[test]
    fn sanitize_log_of_both_nvme_cli_versions_parses() {
        let text = |status: &str| {
            json!({"nvme0": {"sprog": 7000, "sstat": {"global_erased": 0, "no_cmplted_passes": 0,
                "status": status}}})
        };
        let status = |log: Value| sanitize_status(&log);
        assert_eq!(status(text("(2) Sanitize in Progress.")), Some(SanitizeStatus::Running(7000)));
        let done = text("(1) Most Recent Sanitize Command Completed Successfully.");
        assert_eq!(status(done), Some(SanitizeStatus::Done));
        assert_eq!(status(json!({"sprog": 65535, "sstat": 0x103})), Some(SanitizeStatus::Failed));
        assert_eq!(status(json!({"sprog": 65535, "sstat": 0x101})), Some(SanitizeStatus::Done));
        assert_eq!(status(text("(0) NVM subsystem has never been sanitized")), None);
    }
}
