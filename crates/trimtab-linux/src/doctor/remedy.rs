//! What mends a finding: steps as people carry them out, and what of them the program can do itself and take back. Only data: who does it is
//! [`crate::mend`].

use super::{Finding, Tables};
use crate::host::block::Layer;
use serde::ser::{SerializeStruct as _, Serializer};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// One step of a remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A command line for a shell, and nothing else.
    Run(String),
    /// An instruction in words.
    ByHand(String),
}

impl Step {
    /// The command or the instruction.
    #[must_use]
    pub fn text(&self) -> &str {
        let (Self::Run(text) | Self::ByHand(text)) = self;
        text
    }

    /// Leads the step in a list of things to do.
    #[must_use]
    pub const fn lead(&self) -> &'static str {
        match self {
            Self::Run(_) => "run: ",
            Self::ByHand(_) => "to do: ",
        }
    }
}

impl Serialize for Step {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text())
    }
}

/// What mends a finding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remedy {
    /// In their order.
    pub steps: Vec<Step>,
    /// What `--fix` does for it, in this order; empty where it is for people alone.
    pub actions: Vec<Action>,
}

impl Remedy {
    /// A command.
    pub fn run(command: impl Into<String>) -> Self {
        Self::default().then_run(command)
    }

    /// An instruction.
    pub fn by_hand(text: impl Into<String>) -> Self {
        Self::default().then(text)
    }

    /// And then this command.
    #[must_use]
    pub fn then_run(mut self, command: impl Into<String>) -> Self {
        self.steps.push(Step::Run(command.into()));
        self
    }

    /// And then this instruction.
    #[must_use]
    pub fn then(mut self, text: impl Into<String>) -> Self {
        self.steps.push(Step::ByHand(text.into()));
        self
    }

    /// The steps of another remedy, and then these.
    #[must_use]
    pub fn after(self, first: Self) -> Self {
        Self { steps: [first.steps, self.steps].concat(), actions: [first.actions, self.actions].concat() }
    }

    /// The same, which these do.
    #[must_use]
    pub fn done_by(self, actions: impl IntoIterator<Item = Action>) -> Self {
        Self { actions: actions.into_iter().collect(), ..self }
    }

    /// All steps in one line.
    #[must_use]
    pub fn line(&self) -> String {
        self.steps.iter().map(Step::text).collect::<Vec<_>>().join("; ")
    }

    /// The steps that are commands.
    fn commands(&self) -> Vec<&Step> {
        self.steps.iter().filter(|step| matches!(step, Step::Run(_))).collect()
    }
}

/// The remedy is a line, and its steps stand beside it.
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

/// The limit that an administrator sets, as people reach it.
pub fn limit_path(layer: &Layer) -> String {
    let disk = layer.queue().parent().and_then(|disk| disk.file_name()?.to_str().map(str::to_owned));
    format!("/sys/block/{}/queue/discard_max_bytes", disk.as_deref().unwrap_or(&layer.name))
}

/// One change of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Action {
    /// A switch of the kernel.
    Attribute {
        /// Below `/sys`, without links.
        file: PathBuf,
        /// What it is.
        from: String,
        /// What it shall be.
        to: String,
    },
    /// A SCSI disk is sent another command for discards, none longer than it takes.
    Provisioning {
        /// `provisioning_mode`, below `/sys`, without links.
        file: PathBuf,
        /// The mode that it has.
        from: String,
        /// The mode that it gets.
        to: String,
        /// `discard_max_bytes` of the disk, which a new mode resets.
        limit_file: PathBuf,
        /// The longest command that the disk takes, in bytes.
        limit: u64,
    },
    /// dm-crypt passes discards on from now on.
    AllowDiscards {
        /// Name of the mapping.
        name: String,
        /// The header remembers it (LUKS2).
        persistent: bool,
        /// Options in force that a refresh forgets unless they are given again.
        keep: Vec<String>,
    },
    /// A line of `/etc/crypttab` gets the option `discard`.
    Crypttab {
        /// Name of the mapping.
        name: String,
    },
    /// A crypt mapping takes over the limits of what is below it.
    RefreshCrypt {
        /// Name of the mapping.
        name: String,
        /// Options in force that a refresh forgets unless they are given again.
        keep: Vec<String>,
    },
    /// A volume of plain targets takes over the limits of what is below it.
    ReloadTable {
        /// Name of the volume.
        name: String,
    },
    /// A thin pool passes discards down.
    Passdown {
        /// Name of the pool for device-mapper.
        name: String,
        /// The same for LVM.
        pool: String,
    },
    /// dm-integrity passes discards on.
    AllowIntegrity {
        /// Name of the mapping.
        name: String,
    },
    /// A filesystem is mounted with `discard` from now on, all its other options as they are.
    MountDiscard {
        /// Where it is mounted.
        mount_point: PathBuf,
    },
    /// A line of `/etc/fstab` gets the option `discard`.
    Fstab {
        /// Where it mounts.
        mount_point: PathBuf,
    },
    /// A swap area discards what it frees.
    SwapDiscard {
        /// Its device node.
        device: PathBuf,
    },
    /// The line of `/etc/fstab` for a swap area gets the option `discard`.
    SwapFstab {
        /// As that line names it.
        source: PathBuf,
    },
    /// `fstrim.timer` of systemd.
    Timer,
}

/// Whether a name can be handed to the tools of device-mapper and LVM as it is: none of the characters that they write otherwise than the kernel, and
/// nothing that could be an option.
#[must_use]
pub fn is_plain(name: &str) -> bool {
    let known = |c: char| c.is_ascii_alphanumeric() || "#+-.:=@_".contains(c);
    !name.is_empty() && !name.starts_with('-') && name.chars().all(known)
}

/// What a refresh of dm-crypt forgets: the option of cryptsetup for each flag in the table.
const KEPT_BY_OPTION: [(&str, &str); 5] = [
    ("same_cpu_crypt", "--perf-same_cpu_crypt"),
    ("submit_from_crypt_cpus", "--perf-submit_from_crypt_cpus"),
    ("no_read_workqueue", "--perf-no_read_workqueue"),
    ("no_write_workqueue", "--perf-no_write_workqueue"),
    ("high_priority", "--perf-high_priority"),
];

/// The options of cryptsetup that keep what stands in the table of a crypt mapping.
#[must_use]
pub fn kept_options(tables: &Tables, name: &str) -> Vec<String> {
    let says = |flag: &str| tables.table(name).any(|target| target.says(flag));
    KEPT_BY_OPTION.iter().filter(|(flag, _)| says(flag)).map(|(_, option)| (*option).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Severity;

    #[test]
    fn names_that_tools_would_take_for_something_else_are_not_plain() {
        for name in ["home", "vg-my--lv", "luks-5d0e7a1c-00", "a.b_c:d=1@2"] {
            assert!(is_plain(name), "{name}");
        }
        for name in ["", "-x", "--persistent", "my home", "a\nb", "a\\x20b", "a;b", "ü", "a/b", "a\u{fffd}"] {
            assert!(!is_plain(name), "{name:?}");
        }
    }

    #[test]
    fn a_remedy_is_a_line_and_its_steps() {
        let finding = Finding::new("x", Severity::Caution, "text").remedy(Remedy::by_hand("one").then_run("two").done_by([Action::Timer]));
        let shown = serde_json::to_value(&finding).unwrap();
        assert_eq!(
            shown,
            serde_json::json!({ "code": "x", "severity": "caution", "text": "text", "remedy": "one; two", "steps": ["one", "two"],
                "commands": ["two"], "fix": true })
        );
        let without = serde_json::to_value(Finding::new("x", Severity::Note, "text")).unwrap();
        assert_eq!((&without["remedy"], &without["fix"]), (&serde_json::Value::Null, &false.into()));
    }

    #[test]
    fn what_a_refresh_forgets_is_given_again() {
        let tables = Tables::of_text("home: 0 8 crypt aes :64:logon:x 0 8:2 32768 3 allow_discards no_write_workqueue same_cpu_crypt\n");
        assert_eq!(kept_options(&tables, "home"), ["--perf-same_cpu_crypt", "--perf-no_write_workqueue"]);
        assert!(kept_options(&tables, "srv").is_empty());
    }
}
