//! Purges a device before a benchmark: discard, NVMe Format or Sanitize, ATA Security
//! Erase; proved by samples read back.

use crate::mend::program;
use crate::target_spec::TargetSpec;
use anyhow::Context as _;
use rustix::thread::CapabilitySet;
use serde_json::Value;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use trimtab_drive::units::Nanos;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_linux::output::progress::{Progress, ProgressUnit};
use trimtab_linux::session::safety::consent;
use trimtab_linux::sys::interrupt;
use trimtab_linux::target::block::device::{self, Claim, DestroyConsent};
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

/// Password of an ATA Security Erase. The erase removes it.
const PASSWORD: &str = "trimtab";
const SANITIZE_POLL: Duration = Duration::from_secs(1);

/// Capabilities that a purge needs: the tools send commands to the drive.
pub fn capabilities(method: Option<PurgeMethod>) -> CapabilitySet {
    match method {
        None | Some(PurgeMethod::Discard) => CapabilitySet::empty(),
        _ => CapabilitySet::SYS_ADMIN | CapabilitySet::SYS_RAWIO,
    }
}

/// Purges the device of `spec` after consent, and returns the facts for the run's
/// settings.
///
/// # Errors
/// The target is not an unused device, the drive or a tool does not support the method,
/// or samples still hold their data.
pub fn run(
    context: &Context,
    what: &str,
    spec: &TargetSpec,
    method: PurgeMethod,
    destroy: &DestroyConsent,
) -> anyhow::Result<Vec<Field>> {
    let TargetSpec::Device(path) = spec else {
        let problem = format!("--purge {method} is for block devices, but {spec} is none");
        return Err(spec.refused(problem).hint("leave --purge out").into());
    };
    let claim = device::claim(path, true, destroy, None)?;
    let refused = |why: String| {
        anyhow::Error::from(UsageError::new(format!(
            "--purge {method}: {}: {why}; nothing was written",
            path.display()
        )))
    };
    let command = Purge::prepare(method, path, &claim).map_err(|error| match error {
        PurgeError::Refused(why) => refused(why),
        PurgeError::Tool(error) => refused(format!("{error:#}")),
    })?;
    let takes = command.takes.as_ref().map_or_else(String::new, |time| format!(" (about {time})"));
    let question = format!(
        "{what} purges {} with {method}{takes}: everything on it is erased. Continue?",
        path.display()
    );
    if !consent::ask(context, &question)? {
        let problem = format!("{what} would erase everything on {}", path.display());
        return Err(UsageError::new(problem).hint("say --yes to allow it").into());
    }
    let before = claim.samples()?;
    let started = Instant::now();
    command.run(context, &claim)?;
    let took = Nanos(started.elapsed().as_nanos() as u64);
    let proof = before.proof(&claim.samples()?);
    let random = matches!(method, PurgeMethod::Format | PurgeMethod::Sanitize);
    let wrong = proof.kept + if random { 0 } else { proof.changed };
    anyhow::ensure!(
        wrong == 0,
        "--purge {method}: {wrong} of {} samples of {} still hold data: the drive is not purged",
        proof.samples,
        path.display()
    );
    context.remark(&format!(
        "purged {} with {method} in {took}: {} samples read back, {} erased, {} changed, {} \
            unreadable",
        path.display(),
        proof.samples,
        proof.uniform,
        proof.changed,
        proof.unreadable
    ));
    Ok(vec![
        Field::new("purge", method.to_string()),
        Field::new("purge.time", took.to_string()),
        Field::new("purge.samples", proof.samples.to_string()),
    ])
}

enum PurgeError {
    /// The drive does not support the method, or not now.
    Refused(String),
    /// A tool is missing or failed.
    Tool(anyhow::Error),
}

impl From<anyhow::Error> for PurgeError {
    fn from(error: anyhow::Error) -> Self {
        Self::Tool(error)
    }
}

/// A purge that the drive supports.
struct Purge {
    method: PurgeMethod,
    path: PathBuf,
    /// NVMe controller.
    controller: String,
    /// Namespace and number of its LBA format.
    namespace: (u64, u64),
    /// Time that the drive announces.
    takes: Option<String>,
}

impl Purge {
    fn prepare(method: PurgeMethod, path: &Path, claim: &Claim) -> Result<Self, PurgeError> {
        let refuse = |why: &str| Err(PurgeError::Refused(why.to_owned()));
        let node = path.canonicalize().map_err(anyhow::Error::from)?;
        let mut purge = Self {
            method,
            path: node.clone(),
            controller: String::new(),
            namespace: (0, 0),
            takes: None,
        };
        match method {
            PurgeMethod::Discard if !claim.takes_discards() => {
                return refuse("it does not support discards");
            }
            PurgeMethod::Discard => {}
            PurgeMethod::Format | PurgeMethod::Sanitize => {
                let Some((controller, namespace)) = nvme_names(&node.display().to_string()) else {
                    return refuse("it is not a whole NVMe namespace");
                };
                let id = json(&["nvme", "id-ctrl", &controller, "--output-format=json"])?;
                let active = tool(&["nvme", "list-ns", &controller])?.matches("]:").count();
                if let Some(why) = nvme_refusal(method, &id, active) {
                    return refuse(&why);
                }
                let node = node.display().to_string();
                let id = json(&["nvme", "id-ns", &node, "--output-format=json"])?;
                let Some(format) = lba_format(&id) else {
                    return refuse("nvme id-ns names no LBA format");
                };
                (purge.controller, purge.namespace) = (controller, (namespace, format));
            }
            PurgeMethod::SecureErase => {
                let said = tool(&["hdparm", "-I", &node.display().to_string()])?;
                purge.takes = secure_erase_time(&said).map_err(PurgeError::Refused)?;
            }
        }
        Ok(purge)
    }

    fn run(&self, context: &Context, claim: &Claim) -> anyhow::Result<()> {
        let node = self.path.display().to_string();
        match self.method {
            PurgeMethod::Discard => {
                let mut bar = Progress::new(context, "purge", ProgressUnit::Bytes, claim.size().0);
                claim.discard_all(|done| bar.set(done))
            }
            PurgeMethod::Format => {
                let (namespace, format) = self.namespace;
                let (namespace, format) =
                    (format!("--namespace-id={namespace}"), format!("--lbaf={format}"));
                tool(&[
                    "nvme",
                    "format",
                    &self.controller,
                    &namespace,
                    &format,
                    "--ses=1",
                    "--force",
                ])
                .map(drop)
            }
            PurgeMethod::Sanitize => {
                tool(&["nvme", "sanitize", &self.controller, "--sanact=2"])?;
                let mut bar = Progress::new(context, "purge", ProgressUnit::Items, 65_536);
                loop {
                    let log = ["nvme", "sanitize-log", &self.controller, "--output-format=json"];
                    match sanitize_status(&json(&log)?).context("nvme prints no sanitize status")? {
                        SanitizeStatus::Running(progress) => bar.set(progress),
                        SanitizeStatus::Done => return Ok(()),
                        SanitizeStatus::Failed => anyhow::bail!(
                            "the drive reports that the sanitize of {node} failed; it takes no \
                                writes until one succeeds"
                        ),
                    }
                    // The drive continues by itself.
                    interrupt::check()?;
                    std::thread::sleep(SANITIZE_POLL);
                }
            }
            PurgeMethod::SecureErase => {
                let hdparm = |what: &str| {
                    tool(&["hdparm", "--user-master", "u", what, PASSWORD, &node]).map(drop)
                };
                hdparm("--security-set-pass")?;
                hdparm("--security-erase").or_else(|error| {
                    hdparm("--security-disable").with_context(|| {
                        format!("{node} is locked with the user password '{PASSWORD}'")
                    })?;
                    Err(error)
                })
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

/// Controller and number of a namespace such as `/dev/nvme0n1`.
fn nvme_names(node: &str) -> Option<(String, u64)> {
    let (controller, namespace) = node.strip_prefix("/dev/nvme")?.split_once('n')?;
    let number = |text: &str| text.parse::<u64>().ok();
    Some((format!("/dev/nvme{}", number(controller)?), number(namespace)?))
}

/// Reason why the controller described by `nvme id-ctrl`, with this many active
/// namespaces, does not support `method`.
fn nvme_refusal(method: PurgeMethod, id: &Value, namespaces: usize) -> Option<String> {
    let bit = |field: &str, bit: u32| id[field].as_u64().is_some_and(|bits| (bits >> bit) & 1 == 1);
    match method {
        PurgeMethod::Format if !bit("oacs", 1) => {
            Some("the drive does not support Format NVM".to_owned())
        }
        PurgeMethod::Format if namespaces > 1 && (bit("fna", 0) || bit("fna", 1)) => {
            Some(format!("Format NVM erases all {namespaces} namespaces of this drive"))
        }
        PurgeMethod::Sanitize if !bit("sanicap", 1) => {
            Some("the drive does not support Sanitize with block erase".to_owned())
        }
        PurgeMethod::Sanitize if namespaces > 1 => {
            Some(format!("Sanitize erases all {namespaces} namespaces of this drive"))
        }
        _ => None,
    }
}

/// Number of the LBA format in use, from `nvme id-ns`.
fn lba_format(id: &Value) -> Option<u64> {
    let bits = id["flbas"].as_u64()?;
    Some((bits & 0xf) | ((bits >> 1) & 0x30))
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

/// Time for a Security Erase that `hdparm -I` prints, or the reason why it is impossible.
fn secure_erase_time(said: &str) -> Result<Option<String>, String> {
    let security: Vec<String> = said
        .lines()
        .skip_while(|line| line.trim() != "Security:")
        .skip(1)
        .take_while(|line| line.starts_with(char::is_whitespace))
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let has = |state: &str| security.iter().any(|line| line == state);
    if !has("supported") {
        return Err("the drive does not support the ATA security commands".to_owned());
    }
    if has("frozen") {
        return Err("its security commands are frozen until the next power cycle: suspend and \
            resume the machine, or unplug the drive and plug it in again"
            .to_owned());
    }
    if has("enabled") || has("locked") {
        return Err(
            "it has a security password: remove it with hdparm --security-disable".to_owned()
        );
    }
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
        assert_eq!(state(["", "not", "not", "not", "not"]), Ok(Some("4 min".to_owned())));
        let wrong = |states, why: &str| {
            let error = state(states).unwrap_err();
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
        let refused = |id: &Value, namespaces| {
            [Format, Sanitize].map(|method| nvme_refusal(method, id, namespaces).is_some())
        };
        let able = json!({"oacs": 0x17, "fna": 0, "sanicap": 0xa000_0002_u64, "nn": 32});
        assert_eq!((refused(&able, 1), refused(&able, 2)), ([false, false], [false, true]));
        let unable = json!({"oacs": 0x15, "fna": 0, "sanicap": 1, "nn": 1});
        assert_eq!(refused(&unable, 1), [true, true]);
        let whole = json!({"oacs": 2, "fna": 2, "sanicap": 2, "nn": 32});
        assert_eq!((refused(&whole, 1), refused(&whole, 2)), ([false, false], [true, true]));
        assert_eq!(nvme_names("/dev/nvme1n12"), Some(("/dev/nvme1".to_owned(), 12)));
        assert_eq!((nvme_names("/dev/nvme1n1p2"), nvme_names("/dev/sda")), (None, None));
        assert_eq!(lba_format(&json!({"flbas": 0x21})), Some(0x11));
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
