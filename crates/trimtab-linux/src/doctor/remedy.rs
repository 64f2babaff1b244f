//! Remedies of findings: steps for people, and the actions that the program can perform
//! and undo itself. Data only; the `mend` module of `trimtab` performs them.

use super::{Finding, Tables};
use crate::host::block::Layer;
use serde::ser::{SerializeStruct as _, Serializer};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use trimtab_drive::usage::quoted;

/// One step of a remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum RemedyStep {
    /// A complete shell command line.
    Run(String),
    /// An instruction in prose.
    ByHand(String),
}

impl RemedyStep {
    /// The command or the instruction.
    pub fn text(&self) -> &str {
        let (Self::Run(text) | Self::ByHand(text)) = self;
        text
    }

    /// Prefix of the step in a list of steps.
    pub const fn lead(&self) -> &'static str {
        match self {
            Self::Run(_) => "run: ",
            Self::ByHand(_) => "to do: ",
        }
    }
}

/// The fix for a finding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remedy {
    /// The steps, in order.
    pub steps: Vec<RemedyStep>,
    /// Actions of `--fix`, in order; empty if only a person can apply the remedy.
    pub actions: Vec<RemedyAction>,
}

impl Remedy {
    /// A remedy of one command.
    pub fn run(command: impl Into<String>) -> Self {
        Self::default().then_run(command)
    }

    /// A remedy of one instruction.
    pub fn by_hand(text: impl Into<String>) -> Self {
        Self::default().then(text)
    }

    /// Reloads the table of a volume. With a new table, resume is one step in the kernel:
    /// it suspends, swaps and resumes.
    pub fn reload(name: &str) -> Self {
        let word = quoted(name);
        let action = is_plain(name).then(|| RemedyAction::ReloadTable { name: name.to_owned() });
        Self::run(format!("dmsetup table {word} | dmsetup reload {word} && dmsetup resume {word}"))
            .done_by(action)
    }

    /// Appends a command.
    #[must_use]
    pub fn then_run(mut self, command: impl Into<String>) -> Self {
        self.steps.push(RemedyStep::Run(command.into()));
        self
    }

    /// Appends an instruction.
    #[must_use]
    pub fn then(mut self, text: impl Into<String>) -> Self {
        self.steps.push(RemedyStep::ByHand(text.into()));
        self
    }

    /// Prepends the steps of another remedy.
    #[must_use]
    pub fn after(self, first: Self) -> Self {
        Self {
            steps: [first.steps, self.steps].concat(),
            actions: [first.actions, self.actions].concat(),
        }
    }

    /// Sets the actions that perform the remedy.
    #[must_use]
    pub fn done_by(self, actions: impl IntoIterator<Item = RemedyAction>) -> Self {
        Self { actions: actions.into_iter().collect(), ..self }
    }

    /// All steps on one line.
    pub fn line(&self) -> String {
        self.steps.iter().map(RemedyStep::text).collect::<Vec<_>>().join("; ")
    }

    /// The steps that are commands.
    fn commands(&self) -> Vec<&RemedyStep> {
        self.steps.iter().filter(|step| matches!(step, RemedyStep::Run(_))).collect()
    }
}

/// Serializes the remedy as one line, with its steps in a separate field.
impl Serialize for Finding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let remedy = self.remedy.clone().unwrap_or_default();
        let mut shown = serializer.serialize_struct("Finding", 7)?;
        shown.serialize_field("code", self.code)?;
        shown.serialize_field("severity", &self.severity)?;
        shown.serialize_field("text", &self.text)?;
        shown.serialize_field("remedy", &self.remedy.as_ref().map(Remedy::line))?;
        shown.serialize_field("steps", &remedy.steps)?;
        shown.serialize_field("commands", &remedy.commands())?;
        shown.serialize_field("fix", &!remedy.actions.is_empty())?;
        shown.end()
    }
}

/// User-facing path of the limit that an administrator can set.
pub fn limit_path(layer: &Layer) -> String {
    let disk =
        layer.queue().parent().and_then(|disk| disk.file_name()?.to_str().map(str::to_owned));
    format!("/sys/block/{}/queue/discard_max_bytes", disk.as_deref().unwrap_or(&layer.name))
}

/// One change to the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case", deny_unknown_fields)]
pub enum RemedyAction {
    /// Sets a kernel attribute.
    Attribute {
        /// Path below `/sys`, without links.
        file: PathBuf,
        /// Old value.
        from: String,
        /// New value.
        to: String,
    },
    /// Sets the command that discards on a SCSI disk, with the disk's maximum length.
    Provisioning {
        /// Path of `provisioning_mode` below `/sys`, without links.
        file: PathBuf,
        /// Old mode.
        from: String,
        /// New mode.
        to: String,
        /// `discard_max_bytes` of the disk, which a new mode resets.
        limit_file: PathBuf,
        /// Longest command that the disk takes, in bytes.
        limit: u64,
    },
    /// Makes dm-crypt pass discards on from now on.
    AllowDiscards {
        /// Name of the mapping.
        name: String,
        /// Stored in the header (LUKS2).
        persistent: bool,
        /// Current options that a refresh drops unless they are repeated.
        keep: Vec<String>,
    },
    /// Adds the option `discard` to a line of `/etc/crypttab`.
    Crypttab {
        /// Name of the mapping.
        name: String,
    },
    /// Makes a crypt mapping adopt the limits of the layer below.
    RefreshCrypt {
        /// Name of the mapping.
        name: String,
        /// Current options that a refresh drops unless they are repeated.
        keep: Vec<String>,
    },
    /// Makes a volume of simple targets adopt the limits of the layers below.
    ReloadTable {
        /// Name of the volume.
        name: String,
    },
    /// Makes a thin pool pass discards down.
    Passdown {
        /// device-mapper name of the pool.
        name: String,
        /// LVM name of the pool.
        pool: String,
    },
    /// Enables `fstrim.timer` of systemd.
    Timer,
}

/// True if a name is safe to pass unchanged to the tools of device-mapper and LVM: no
/// character that they escape differently from the kernel, and no leading hyphen that
/// would make it an option.
pub fn is_plain(name: &str) -> bool {
    let known = |c: char| c.is_ascii_alphanumeric() || "#+-.:=@_".contains(c);
    !name.is_empty() && !name.starts_with('-') && name.chars().all(known)
}

/// Flags in a dm-crypt table that a refresh drops, with the cryptsetup option that keeps
/// each.
const KEPT_BY_OPTION: [(&str, &str); 5] = [
    ("same_cpu_crypt", "--perf-same_cpu_crypt"),
    ("submit_from_crypt_cpus", "--perf-submit_from_crypt_cpus"),
    ("no_read_workqueue", "--perf-no_read_workqueue"),
    ("no_write_workqueue", "--perf-no_write_workqueue"),
    ("high_priority", "--perf-high_priority"),
];

/// The cryptsetup options that preserve the flags in the table of a crypt mapping.
pub fn kept_options(tables: &Tables, name: &str) -> Vec<String> {
    let says = |flag: &str| tables.table(name).any(|target| target.says(flag));
    KEPT_BY_OPTION
        .iter()
        .filter(|(flag, _)| says(flag))
        .map(|(_, option)| (*option).to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Severity;

    #[test]
    fn is_plain_refuses_names_unsafe_in_commands() {
        for name in ["home", "vg-my--lv", "luks-5d0e7a1c-00", "a.b_c:d=1@2"] {
            assert!(is_plain(name), "{name}");
        }
        for name in
            ["", "-x", "--persistent", "my home", "a\nb", "a\\x20b", "a;b", "ü", "a/b", "a\u{fffd}"]
        {
            assert!(!is_plain(name), "{name:?}");
        }
    }

    #[test]
    fn remedy_serializes_as_line_steps_and_commands() {
        let finding = Finding::new("x", Severity::Caution, "text")
            .remedy(Remedy::by_hand("one").then_run("two").done_by([RemedyAction::Timer]));
        let shown = serde_json::to_value(&finding).unwrap();
        assert_eq!(
            shown,
            serde_json::json!({ "code": "x", "severity": "caution", "text": "text", "remedy": "one; two", "steps": ["one", "two"],
                "commands": ["two"], "fix": true })
        );
        let without = serde_json::to_value(Finding::new("x", Severity::Note, "text")).unwrap();
        assert_eq!(
            (&without["remedy"], &without["fix"]),
            (&serde_json::Value::Null, &false.into())
        );
    }

    #[test]
    fn crypt_refresh_keeps_performance_options() {
        let tables = Tables::of_text(
            "home: 0 8 crypt aes :64:logon:x 0 8:2 32768 3 allow_discards \
                no_write_workqueue same_cpu_crypt\n",
        );
        assert_eq!(
            kept_options(&tables, "home"),
            ["--perf-same_cpu_crypt", "--perf-no_write_workqueue"]
        );
        assert!(kept_options(&tables, "srv").is_empty());
    }
}
