//! Combines the layers into one verdict.

use super::layers::VDO_KEEPS;
use super::{Gate, LayerReport, Severity};
use crate::host::Place;
use crate::host::block::LayerKind;
use crate::output::error::{BLOCKED, NOT_PROVED};
use serde::Serialize;

/// Outcome for discards sent to the filesystem or device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum VerdictKind {
    /// Discards reach every drive that benefits from them.
    Reaches,
    /// A layer blocks discards to at least one drive.
    Blocked,
    /// No drive below benefits from discards.
    NotNeeded,
    /// The available information does not decide it.
    Unknown,
}

impl VerdictKind {
    /// Stable name, as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reaches => "reaches",
            Self::Blocked => "blocked",
            Self::NotNeeded => "not-needed",
            Self::Unknown => "unknown",
        }
    }

    /// Exit status of `trimtab doctor`.
    pub const fn exit_status(self) -> u8 {
        match self {
            Self::Reaches | Self::NotNeeded => 0,
            Self::Blocked => BLOCKED,
            Self::Unknown => NOT_PROVED,
        }
    }
}

/// The verdict, with its reasons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiscardVerdict {
    /// Kind of verdict.
    pub kind: VerdictKind,
    /// The layers that block or are unknown.
    pub at: Vec<String>,
    /// The drives, or files below loop devices, that discards reach.
    pub reaches: Vec<String>,
    /// The verdict as a sentence.
    pub text: String,
    /// A trim has no effect: no drive gets discards, and neither a thin pool nor VDO
    /// regains space.
    #[serde(skip)]
    pub is_in_vain: bool,
}

impl DiscardVerdict {
    fn new(kind: VerdictKind, at: Vec<String>, text: String) -> Self {
        Self { kind, at, reaches: Vec::new(), text, is_in_vain: kind == VerdictKind::Blocked }
    }
}

/// Fate of discards below some layer: the layers where they end, each with its effect on
/// them. With arrays, a layer may be in it more than once.
#[derive(Clone, Debug, Default)]
struct LayerReach(Vec<(Gate, usize)>);

impl LayerReach {
    fn absorb(&mut self, other: &Self) {
        for one in &other.0 {
            if !self.0.contains(one) {
                self.0.push(*one);
            }
        }
    }

    /// The layers where discards end in this way.
    fn of(&self, gate: Gate) -> Vec<usize> {
        self.0.iter().filter(|(one, _)| *one == gate).map(|(_, index)| *index).collect()
    }

    fn has(&self, gate: Gate) -> bool {
        self.0.iter().any(|(one, _)| *one == gate)
    }
}

/// The verdict on a filesystem and its layers.
pub fn verdict(
    place: &Place,
    filesystem: Option<&LayerReport>,
    layers: &[LayerReport],
) -> DiscardVerdict {
    if let Some(fs) = filesystem {
        let name = format!("{} [{}]", fs.name, fs.kind);
        match fs.gate {
            Gate::Blocks => {
                let text = format!("TRIM is blocked at {name}: {}", fs.why);
                return DiscardVerdict::new(VerdictKind::Blocked, vec![name], text);
            }
            Gate::NotNeeded => {
                return DiscardVerdict::new(
                    VerdictKind::NotNeeded,
                    Vec::new(),
                    format!("no TRIM needed: {}", fs.why),
                );
            }
            Gate::Unknown => {
                let below = of_layers(place, layers);
                let decides = matches!(below.kind, VerdictKind::Blocked | VerdictKind::NotNeeded);
                let unknown = || {
                    DiscardVerdict::new(
                        VerdictKind::Unknown,
                        vec![name],
                        format!("unknown: {}", fs.why),
                    )
                };
                return if decides { below } else { unknown() };
            }
            Gate::Passes => {}
        }
    }
    of_layers(place, layers)
}

/// The verdict on the layers alone.
fn of_layers(place: &Place, layers: &[LayerReport]) -> DiscardVerdict {
    let mut memo = vec![None; layers.len()];
    let mut whole = LayerReach::default();
    for &top in &place.stack.tops {
        whole.absorb(&below(place, layers, top, &mut memo));
    }
    let names = |set: &[usize]| {
        set.iter().map(|&i| format!("{} [{}]", layers[i].name, layers[i].kind)).collect::<Vec<_>>()
    };
    let why = |set: &[usize]| set.iter().map(|&i| layers[i].why.clone()).next().unwrap_or_default();
    let [reached, blocked, unknown, not_needed] =
        [Gate::Passes, Gate::Blocks, Gate::Unknown, Gate::NotNeeded].map(|gate| whole.of(gate));
    let reaches = names(&reached);
    let elsewhere = if reaches.is_empty() {
        String::new()
    } else {
        format!("; it reaches {}", reaches.join(", "))
    };
    let verdict = if !blocked.is_empty() {
        let at = names(&blocked);
        let text = format!("TRIM is blocked at {}: {}{elsewhere}", at.join(", "), why(&blocked));
        DiscardVerdict::new(VerdictKind::Blocked, at, text)
    } else if !unknown.is_empty() {
        let at = names(&unknown);
        let text = format!(
            "unknown whether TRIM gets through {}: {}{elsewhere}",
            at.join(", "),
            why(&unknown)
        );
        DiscardVerdict::new(VerdictKind::Unknown, at, text)
    } else if !reaches.is_empty() {
        DiscardVerdict::new(
            VerdictKind::Reaches,
            Vec::new(),
            format!("TRIM reaches {}", reaches.join(", ")),
        )
    } else if !not_needed.is_empty() {
        DiscardVerdict::new(
            VerdictKind::NotNeeded,
            Vec::new(),
            format!("no TRIM needed: {}", why(&not_needed)),
        )
    } else {
        DiscardVerdict::new(
            VerdictKind::Unknown,
            Vec::new(),
            "unknown: no device was found".to_owned(),
        )
    };
    let freed = place.stack.tops.iter().find_map(|&top| frees(place, layers, top, layers.len()));
    let is_in_vain = verdict.is_in_vain && reaches.is_empty() && freed.is_none();
    let text = match freed.filter(|_| verdict.kind == VerdictKind::Blocked) {
        Some(freed) => format!("{}; a trim gives space back to {freed}", verdict.text),
        None => verdict.text,
    };
    DiscardVerdict { reaches, is_in_vain, text, ..verdict }
}

/// The layer that regains space from a trim even if it passes nothing down: the pool of a
/// thin volume, or VDO.
fn frees(
    place: &Place,
    layers: &[LayerReport],
    index: usize,
    depth: usize,
) -> Option<&'static str> {
    let report = &layers[index];
    if depth == 0 || report.findings.iter().any(|finding| finding.code == VDO_KEEPS) {
        return (depth > 0).then_some("VDO");
    }
    let is_thin = place.stack.layers[index].kind == LayerKind::Thin;
    let below = || {
        is_thin.then_some("the thin pool").or_else(|| {
            place.stack.goes_to(index).find_map(|below| frees(place, layers, below, depth - 1))
        })
    };
    (report.gate == Gate::Passes).then(below).flatten()
}

/// Fate of discards at layer `index` and below. `memo` caches results. A layer that
/// occurs below itself (an inconsistent recorded tree) counts as unknown.
fn below(
    place: &Place,
    layers: &[LayerReport],
    index: usize,
    memo: &mut Vec<Option<LayerReach>>,
) -> LayerReach {
    if let Some(known) = &memo[index] {
        return known.clone();
    }
    let only = |gate: Gate| LayerReach(vec![(gate, index)]);
    memo[index] = Some(only(Gate::Unknown));
    let layer = &place.stack.layers[index];
    let mut under = LayerReach::default();
    for next in place.stack.goes_to(index) {
        under.absorb(&below(place, layers, next, memo));
    }
    let is_end = matches!(layer.kind, LayerKind::Drive(_) | LayerKind::File { .. })
        || layer.below.is_empty();
    let [reaches, blocks, is_open, spares] =
        [Gate::Passes, Gate::Blocks, Gate::Unknown, Gate::NotNeeded].map(|gate| under.has(gate));
    let reach = match layers[index].gate {
        Gate::Passes if is_end => only(Gate::Passes),
        Gate::NotNeeded => only(Gate::NotNeeded),
        Gate::Passes => under,
        Gate::Blocks if is_end => only(Gate::Blocks),
        // Limits of 0 propagate upwards: the cause is the lowest layer with them.
        Gate::Blocks if !reaches && !is_open && (blocks || spares) => under,
        Gate::Blocks if own_reason(&layers[index]) => only(Gate::Blocks),
        // A volume takes none because one of its members takes none: that member needs
        // the fix. The other members get nothing.
        Gate::Blocks if blocks => {
            LayerReach(under.0.into_iter().filter(|(gate, _)| *gate == Gate::Blocks).collect())
        }
        // Limits of 0 propagate from a drive that may or may not benefit from discards.
        Gate::Blocks if !reaches && is_open => under,
        Gate::Unknown if blocks => under,
        gate @ (Gate::Blocks | Gate::Unknown) => only(gate),
    };
    memo[index] = Some(reach.clone());
    reach
}

/// True if a layer has its own reason to take no discards.
fn own_reason(report: &LayerReport) -> bool {
    report.findings.iter().any(|f| f.severity == Severity::Serious)
}
