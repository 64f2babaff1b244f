//! Judges whether the discards of a trim were delivered, from the counts of all layers
//! and the doctor's diagnosis. Agrees with `trimtab verify` and `trimtab doctor`.

use super::filesystem::{Filesystem, sends_later};
use super::fitrim::Obstacle;
use crate::doctor::{self, Diagnosis, Tables, VerdictKind};
use crate::host::block::{LayerKind, Stack};
use crate::host::discards::{self, LayerDiscards};
use crate::host::mountinfo::Mount;
use crate::host::root::Root;
use crate::output::error::{BLOCKED, NOT_PROVED, TrimBlockedError};
use crate::trim::verify::arrival::onward;
use serde::Serialize;
use trimtab_drive::units::Bytes;

/// Reason why a trim of f2fs proves nothing.
const SENDS_LATER: &str = "nothing is sent yet: mounted with discard, f2fs only takes note of free space and \
    sends when the device is idle; mount -o remount,nodiscard makes a trim send at once";
/// Reason why a trim proves nothing if the devices do not count.
const NOT_COUNTED: &str = "not proved: not every device below counts discards";

/// The result of a trim: did the discards reach the drives?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// They reached the drives on every leg.
    Reached,
    /// There was nothing to send, or the drives had already been sent it.
    NothingToSend,
    /// A layer blocks them, on all legs or on one of several.
    Blocked,
    /// Unknown.
    NotProved,
}

impl Delivery {
    /// Exit status of `trimtab trim`.
    pub const fn exit_status(self) -> u8 {
        match self {
            Self::Reached | Self::NothingToSend => 0,
            Self::Blocked => BLOCKED,
            Self::NotProved => NOT_PROVED,
        }
    }
}

/// Judges a trim from the counts of the `layers` and the length `returned` by the
/// filesystem. Also returns remarks for the user.
pub fn judge(
    fs: &Filesystem,
    layers: &[LayerDiscards],
    returned: Bytes,
) -> (Delivery, Vec<String>) {
    judge_on(fs.root(), fs.mount(), fs.stack(), layers, returned, fs.diagnosis().ok().as_ref())
}

/// The outcome that is certain before a trim, unless it is success, with remarks.
pub fn forecast(fs: &Filesystem) -> (Option<Delivery>, Vec<String>) {
    let diagnosis = fs.diagnosis().ok();
    if let Some(diagnosis) =
        diagnosis.filter(|diagnosis| diagnosis.verdict.kind == VerdictKind::Blocked)
    {
        return (Some(Delivery::Blocked), diagnosis_remarks(&diagnosis));
    }
    if fs.sends_later() {
        return (Some(Delivery::NotProved), vec![SENDS_LATER.to_owned()]);
    }
    match fs.counts() {
        true => (None, Vec::new()),
        false => (Some(Delivery::NotProved), vec![NOT_COUNTED.to_owned()]),
    }
}

/// Why discards are lost, and the first remedy.
fn diagnosis_remarks(diagnosis: &Diagnosis) -> Vec<String> {
    let step = diagnosis.first_remedy().map(|step| format!("to do: {step}"));
    std::iter::once(diagnosis.verdict.text.clone()).chain(step).collect()
}

/// As [`judge`], on any machine or recorded tree.
pub fn judge_on(
    root: &Root,
    mount: &Mount,
    stack: &Stack,
    layers: &[LayerDiscards],
    returned: Bytes,
    diagnosis: Option<&Diagnosis>,
) -> (Delivery, Vec<String>) {
    let mut remarks = discards::remarks(layers);
    let verdict = diagnosis.map(|d| &d.verdict);
    let without_use = diagnosis.map(|d| d.without_use(stack)).unwrap_or_default();
    let reached = layers.iter().filter(|l| l.lowest).map(LayerDiscards::bytes).sum::<Option<u64>>();
    // The kernel's counters outrank a diagnosis that nothing arrives.
    let refuted = |v: &doctor::DiscardVerdict| {
        v.kind == VerdictKind::Blocked
            && v.reaches.is_empty()
            && reached.is_some_and(|bytes| bytes > 0)
    };
    let seen = Evidence {
        reached,
        on_top: on_top(layers),
        lost: onward(stack, layers, &Tables::read(root), &without_use).lost.map(|l| l.at),
        returned: returned > Bytes::ZERO,
        // XFS returns the length requested, f2fs returns 0.
        returns_what_it_sent: !matches!(mount.fs_type.as_str(), "xfs" | "f2fs"),
        sends_later: sends_later(root, mount, stack),
        thin: stack.layers.iter().any(|l| l.kind == LayerKind::Thin),
        doctor: verdict.filter(|v| !refuted(v)).map_or(VerdictKind::Unknown, |v| v.kind),
    };
    let (delivery, why) = seen.judge();
    if let (Delivery::Blocked, VerdictKind::Blocked, Some(diagnosis)) =
        (delivery, seen.doctor, diagnosis)
    {
        remarks.extend(diagnosis_remarks(diagnosis));
    } else {
        remarks.extend(why);
    }
    (delivery, remarks)
}

/// A layer above the lowest counting ones received discards. Layers below the file of a
/// loop device are excluded: other I/O uses them as well.
fn on_top(layers: &[LayerDiscards]) -> bool {
    layers
        .iter()
        .take_while(|l| l.given_back_bytes.is_none())
        .any(|l| !l.lowest && l.bytes().is_some_and(|b| b > 0))
}

#[derive(Clone, Debug)]
struct Evidence {
    /// Bytes at the lowest layers; `None` if one of them does not count.
    reached: Option<u64>,
    /// A layer above them counted some.
    on_top: bool,
    /// The layers where discards were lost.
    lost: Option<String>,
    returned: bool,
    returns_what_it_sent: bool,
    sends_later: bool,
    thin: bool,
    doctor: VerdictKind,
}

impl Evidence {
    fn judge(&self) -> (Delivery, Option<String>) {
        let say = |delivery, text: &str| (delivery, Some(text.to_owned()));
        if self.doctor == VerdictKind::Blocked {
            return (Delivery::Blocked, None);
        }
        match (self.reached, &self.lost) {
            (Some(0), _) if self.sends_later => say(Delivery::NotProved, SENDS_LATER),
            (Some(0), _) if self.on_top && self.thin => say(
                Delivery::NothingToSend,
                "the pool had nothing to pass down: the free space had been \
                    discarded before, or in pieces smaller than a chunk",
            ),
            (Some(0), lost) if self.on_top || lost.is_some() => {
                let at = lost.clone().unwrap_or_else(|| "the drive".to_owned());
                (Delivery::Blocked, Some(format!("no discard reached {at}")))
            }
            (Some(0), _) if self.returned && self.returns_what_it_sent => say(
                Delivery::Blocked,
                "the filesystem reports discards, but none reached the device",
            ),
            (Some(0), _) => (Delivery::NothingToSend, None),
            (Some(_), Some(lost)) => (
                Delivery::Blocked,
                Some(format!("no discard reached {lost}, but discards reached the other devices")),
            ),
            (Some(_), None) => (Delivery::Reached, None),
            (None, _) => say(Delivery::NotProved, NOT_COUNTED),
        }
    }
}

/// The reason why no device below needs TRIM (hard disks); `None` if one does. A missing
/// discard support is then not an error.
pub fn not_needed(fs: &Filesystem, obstacle: Obstacle) -> Option<String> {
    let of_device =
        |d: &Diagnosis| obstacle == Obstacle::Device && d.verdict.kind == VerdictKind::NotNeeded;
    fs.diagnosis().ok().filter(of_device).map(|diagnosis| diagnosis.verdict.text)
}

/// The error if a filesystem cannot be trimmed, in the doctor's words if it has a
/// diagnosis.
pub fn obstructed(fs: &Filesystem, obstacle: Obstacle) -> anyhow::Error {
    let shown = fs.mount().mount_point.display();
    let blocked = |d: &Diagnosis| {
        matches!(obstacle, Obstacle::Device | Obstacle::Filesystem | Obstacle::Option)
            && d.verdict.kind == VerdictKind::Blocked
    };
    match (fs.diagnosis().ok().filter(blocked), obstacle) {
        (Some(diagnosis), _) => {
            let step =
                diagnosis.first_remedy().map_or(String::new(), |step| format!(". To do: {step}"));
            TrimBlockedError(format!("cannot trim {shown}: {}{step}", diagnosis.verdict.text))
                .into()
        }
        (None, Obstacle::Device | Obstacle::Option) => TrimBlockedError(format!(
            "cannot trim {shown}: {obstacle}; trimtab doctor {shown} may show why"
        ))
        .into(),
        (None, _) => anyhow::anyhow!("cannot trim {shown}: {obstacle}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_drive::discards::Amount;

    /// Once, foreign discards on the drive below a loop device's file turned a trim with
    /// nothing to send into "no discard reached the drive".
    #[test]
    fn foreign_discards_below_loop_file_are_not_ours() {
        let layer = |name: &str, lowest, bytes: Option<u64>, given_back_bytes| LayerDiscards {
            layer: 0,
            name: name.into(),
            kind: String::new(),
            lowest,
            fate: discards::Fate::Counted,
            accepted: bytes.map(|bytes| Amount::new(1, bytes)),
            given_back_bytes,
        };
        let file = layer("/img", false, None, Some(0));
        assert!(!on_top(&[
            layer("loop0", true, Some(0), None),
            file.clone(),
            layer("vda", false, Some(786_300_928), None)
        ]));
        assert!(on_top(&[
            layer("dm-0", false, Some(4096), None),
            layer("loop0", true, Some(0), None),
            file
        ]));
    }

    #[test]
    fn judge_agrees_with_doctor_and_counters() {
        let fine = Evidence {
            reached: Some(100),
            on_top: true,
            lost: None,
            returned: true,
            returns_what_it_sent: true,
            sends_later: false,
            thin: false,
            doctor: VerdictKind::Reaches,
        };
        let nothing = Evidence { reached: Some(0), on_top: false, returned: false, ..fine.clone() };
        for (seen, expected) in [
            (fine.clone(), Delivery::Reached),
            (Evidence { doctor: VerdictKind::Blocked, ..fine.clone() }, Delivery::Blocked),
            (Evidence { lost: Some("sdb".into()), ..fine.clone() }, Delivery::Blocked),
            (Evidence { reached: None, ..fine.clone() }, Delivery::NotProved),
            (
                Evidence { reached: Some(0), lost: Some("sda".into()), ..fine.clone() },
                Delivery::Blocked,
            ),
            (
                Evidence { reached: Some(0), thin: true, lost: Some("sda".into()), ..fine.clone() },
                Delivery::NothingToSend,
            ),
            (Evidence { reached: Some(0), on_top: false, ..fine }, Delivery::Blocked),
            (
                Evidence { returned: true, returns_what_it_sent: false, ..nothing.clone() },
                Delivery::NothingToSend,
            ),
            (Evidence { sends_later: true, ..nothing.clone() }, Delivery::NotProved),
            (nothing, Delivery::NothingToSend),
        ] {
            assert_eq!(seen.judge().0, expected, "{seen:?}");
        }
    }
}
