//! Texts that describe an action to the user before it is performed.

use super::commands::command_lines;
use super::look::is_lost_on_reboot;
use trimtab_drive::usage::quoted;
use trimtab_linux::doctor::RemedyAction;

/// Description of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionDescription {
    /// The change, as commands where possible.
    pub does: String,
    /// Cost or risk of the change.
    pub costs: Option<&'static str>,
    /// Duration of the change, and the way to undo it.
    pub lasts: &'static str,
}

/// Describes this action.
pub fn told(action: &RemedyAction) -> ActionDescription {
    ActionDescription { does: does(action), costs: costs(action), lasts: lasts(action) }
}

fn does(action: &RemedyAction) -> String {
    match action {
        RemedyAction::Attribute { file, from, to } => {
            format!("echo {to} > {} (instead of {from})", quoted(&file.to_string_lossy()))
        }
        RemedyAction::Provisioning { file, from, to, limit_file, limit } => format!(
            "echo {to} > {} (instead of {from}), and echo {limit} > {}",
            quoted(&file.to_string_lossy()),
            quoted(&limit_file.to_string_lossy())
        ),
        RemedyAction::Crypttab { name } => {
            format!("the option discard for {} in crypttab", quoted(name))
        }
        RemedyAction::ReloadTable { name } => {
            format!("load the table of {name} once more (dmsetup reload, dmsetup resume)")
        }
        _ => command_lines(action)
            .iter()
            .map(|line| line.join(" ").replace(" -- ", " "))
            .collect::<Vec<_>>()
            .join(" && "),
    }
}

fn costs(action: &RemedyAction) -> Option<&'static str> {
    match action {
        RemedyAction::AllowDiscards { .. } => Some(
            "from then on, anyone with access to the drive can see which blocks are \
                free; cryptsetup asks for the passphrase",
        ),
        RemedyAction::RefreshCrypt { .. } => Some("it asks for the passphrase"),
        RemedyAction::ReloadTable { .. } => Some("what uses the volume waits for a moment"),
        RemedyAction::Attribute { file, .. } | RemedyAction::Provisioning { file, .. }
            if file.ends_with("provisioning_mode") =>
        {
            Some("a bridge that says it takes UNMAP and does not may lose data: have a backup")
        }
        _ => None,
    }
}

fn lasts(action: &RemedyAction) -> &'static str {
    match action {
        _ if !can_be_taken_back(action) => "there is nothing to undo",
        _ if is_lost_on_reboot(action) => {
            "it holds until the machine or the device is started again"
        }
        _ => "it holds until it is undone",
    }
}

/// True if the action can be undone; false if it only recomputed limits.
pub fn can_be_taken_back(action: &RemedyAction) -> bool {
    !matches!(action, RemedyAction::RefreshCrypt { .. } | RemedyAction::ReloadTable { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fix_states_action_cost_and_duration() {
        let home = told(&RemedyAction::AllowDiscards {
            name: "home".into(),
            persistent: true,
            keep: Vec::new(),
        });
        assert_eq!(home.does, "cryptsetup --allow-discards --persistent refresh home");
        assert!(
            home.costs.unwrap().contains("which blocks are free") && home.lasts.contains("undone")
        );
        let limit = told(&RemedyAction::Attribute {
            file: "/sys/block/sda/queue/discard_max_bytes".into(),
            from: "0".into(),
            to: "512".into(),
        });
        assert_eq!(limit.does, "echo 512 > /sys/block/sda/queue/discard_max_bytes (instead of 0)");
        assert!(limit.costs.is_none() && limit.lasts.contains("started again"));
        let mode = told(&RemedyAction::Provisioning {
            file: "/sys/d/provisioning_mode".into(),
            from: "full".into(),
            to: "unmap".into(),
            limit_file: "/sys/block/sda/queue/discard_max_bytes".into(),
            limit: 2_147_450_880,
        });
        assert_eq!(
            mode.does,
            "echo unmap > /sys/d/provisioning_mode (instead of full), and echo 2147450880 \
                > /sys/block/sda/queue/discard_max_bytes"
        );
        assert!(mode.costs.unwrap().contains("backup") && mode.lasts.contains("started again"));
        assert_eq!(
            told(&RemedyAction::ReloadTable { name: "vg-l".into() }).lasts,
            "there is nothing to undo"
        );
    }
}
