//! dm-crypt: determines whether a mapping passes discards on, and which file or parameter
//! sets its options.

use super::initramfs;
use super::mapper::{MapperTarget, Tables};
use super::opening::{Opening, OptionPlace};
use super::remedy::{is_plain, kept_options};
use super::{Doctor, Gate, LayerReport, Remedy, RemedyAction};
use crate::host::block::{Layer, LayerKind, Stack};
use crate::host::root::Root;
use std::path::Path;
use trimtab_drive::usage::quoted;

/// Judges a crypt mapping.
pub fn judge(doctor: &Doctor<'_>, stack: &Stack, layer: &Layer, report: &mut LayerReport) {
    let name = layer.label.clone().unwrap_or_else(|| layer.name.clone());
    let allowed = allowed_by_table(&doctor.tables, &name, report);
    match allowed {
        Some(true) => report.why = "allow_discards is set".to_owned(),
        Some(false) => {
            report.set(Gate::Blocks, "dm-crypt drops discards: allow_discards is not set")
        }
        None if report.gate == Gate::Blocks => {
            report.why =
                "dm-crypt takes no discards (allow_discards not set, or nothing below takes any)"
                    .to_owned()
        }
        None => {}
    }
    if report.gate == Gate::Passes {
        let text = "discards show an observer of the drive which blocks are free; that is the \
            price of passing them";
        report.note("crypt.leaks-free-space", text);
        return;
    }
    if has_integrity(doctor, stack, layer, &name) {
        let why = "dm-crypt with integrity passes no discards: cryptsetup refuses \
            --allow-discards for it";
        report.block("crypt.integrity", why, without_integrity());
        return;
    }
    if allowed == Some(true) {
        // The reason is in a layer below, or was when the mapping was opened.
        report.why =
            "allow_discards is set, and what is below takes none, or took none when it was opened"
                .to_owned();
        return;
    }
    let uuid = doctor.root.read(layer.sys.join("dm/uuid")).unwrap_or_default();
    let opening = Opening::find(doctor.root, &name, &luks_uuid(&uuid), carries_root(doctor, layer));
    let stands = opening.as_ref().filter(|opening| opening.discards);
    let text = match stands {
        Some(opening) => format!(
            "dm-crypt drops discards: the mapping was opened without the option that stands in {}",
            opening.shown()
        ),
        None => "dm-crypt drops discards unless it is told to pass them".to_owned(),
    };
    report.evidence.add_some("opened by", opening.as_ref().map(Opening::shown));
    let remedy = allowing(doctor, &name, &uuid, opening.as_ref());
    report.serious("crypt.no-allow-discards", text, remedy);
    wrong_parameter(doctor.root, stands.is_some(), report);
}

/// Returns whether the mapping stores checksums, by its table or by the dm-integrity
/// device that cryptsetup creates below it.
fn has_integrity(doctor: &Doctor<'_>, stack: &Stack, layer: &Layer, name: &str) -> bool {
    let is_its_own = |&below: &usize| {
        let below = &stack.layers[below];
        below.kind == LayerKind::Mapper("INTEGRITY".to_owned())
            && below.label.as_deref().and_then(|label| label.strip_suffix("_dif")) == Some(name)
    };
    doctor.tables.table(name).any(keeps_checksums) || layer.below.iter().any(is_its_own)
}

fn keeps_checksums(target: &MapperTarget) -> bool {
    target.arguments.contains(" integrity:")
}

/// The only remaining remedy where checksums prevent discards.
pub fn without_integrity() -> Remedy {
    Remedy::by_hand(
        "no option changes that: leave 10 % to 20 % of the drive unused, or format \
            the drive again without --integrity (dm-integrity by itself, below plain LUKS, \
            can pass discards: integritysetup open --allow-discards)",
    )
}

/// Reports `rd.luks.allow-discards`: dracut documents it, but systemd's generator ignores
/// it.
fn wrong_parameter(root: &Root, is_given: bool, report: &mut LayerReport) {
    let cmdline = root.read("/proc/cmdline").unwrap_or_default();
    let has = |parameter: &str| {
        cmdline.split_ascii_whitespace().any(|word| word.split('=').next() == Some(parameter))
    };
    if has("rd.luks.allow-discards") && !is_given {
        let text = "rd.luks.allow-discards on the kernel command line has no effect under \
            systemd; rd.luks.options=UUID=discard has";
        let remedy = Remedy::by_hand(format!(
            "take rd.luks.allow-discards from {}",
            initramfs::command_line(root)
        ));
        report.caution("crypt.wrong-parameter", text, remedy);
    }
}

/// Returns whether the table allows discards; `None` if there is no table.
fn allowed_by_table(tables: &Tables, name: &str, report: &mut LayerReport) -> Option<bool> {
    let mut targets = tables.table(name).peekable();
    targets.peek()?;
    let allowed = targets.all(|t| t.says("allow_discards"));
    report
        .evidence
        .add("allow_discards", if allowed { "in the table" } else { "not in the table" });
    Some(allowed)
}

/// The remedy that makes dm-crypt pass discards on, now and at every later opening.
fn allowing(doctor: &Doctor<'_>, name: &str, uuid: &str, opening: Option<&Opening>) -> Remedy {
    let word = quoted(name);
    if !uuid.starts_with("CRYPT-") {
        return Remedy::by_hand(format!(
            "{word} was not opened by cryptsetup: add allow_discards to its table \
                where that is loaded (dmsetup)"
        ));
    }
    if !uuid.starts_with("CRYPT-LUKS") {
        return reopened(doctor, name, uuid, opening);
    }
    let luks2 = uuid.starts_with("CRYPT-LUKS2");
    let listed = opening.map(|opening| opening.discards);
    let persistent = luks2 && listed != Some(true);
    let flag = if persistent { "--allow-discards --persistent" } else { "--allow-discards" };
    let keep = kept_options(&doctor.tables, name);
    let elsewhere = opening.and_then(|opening| opening.elsewhere);
    let options: String = keep.iter().map(|option| format!(" {option}")).collect();
    let command = format!("cryptsetup {flag}{options} refresh {word}");
    let now = match elsewhere {
        Some(file) => Remedy::by_hand(format!(
            "run {command}, with the header, the key file or the key slot that \
                {file} names (cryptsetup(8))"
        )),
        None => Remedy::run(command),
    };
    let mut actions = vec![RemedyAction::AllowDiscards { name: name.to_owned(), persistent, keep }];
    let remedy = match opening {
        // The LUKS2 header stores the flag for every later opening.
        _ if persistent => now,
        Some(opening) if opening.discards => stale(doctor, &word, opening, now),
        Some(opening) => {
            actions.extend(
                opening.is_crypttab().then(|| RemedyAction::Crypttab { name: name.to_owned() }),
            );
            rebuilt(doctor, opening, now.then(opening.instruction(doctor.root, &word)))
        }
        None => now.then(
            "open it with cryptsetup --allow-discards from now on, or with the option \
            discard where it is opened from",
        ),
    };
    let can = is_plain(name) && plain_crypt(&doctor.tables, name) && elsewhere.is_none();
    remedy.done_by(actions.into_iter().filter(|_| can))
}

/// The remedy for mappings without a LUKS header. cryptsetup cannot refresh BitLocker,
/// TrueCrypt and FileVault mappings. It refreshes a plain mapping only with all its
/// original parameters, and the key may be random.
fn reopened(doctor: &Doctor<'_>, name: &str, uuid: &str, opening: Option<&Opening>) -> Remedy {
    let word = &quoted(name);
    let again = format!("unmount what is on {word} (or swapoff), and close it");
    let Some(opening) = opening else {
        let kind = uuid
            .strip_prefix("CRYPT-")
            .and_then(|rest| rest.split('-').next())
            .unwrap_or_default()
            .to_lowercase();
        return Remedy::by_hand(again).then(format!(
            "open it as before, with cryptsetup open --type {kind} --allow-discards"
        ));
    };
    let written = opening.instruction(doctor.root, word);
    let remedy = if opening.discards {
        Remedy::by_hand(again)
    } else {
        Remedy::by_hand(written).then(again)
    };
    let start = "open it as the start of the machine does: restart its unit systemd-cryptsetup@, \
        or run cryptdisks_start (swap: mkswap is part of that)";
    rebuilt(doctor, opening, remedy.then(start))
}

/// Adds the initramfs rebuild, since the initramfs contains a copy of crypttab.
fn rebuilt(doctor: &Doctor<'_>, opening: &Opening, remedy: Remedy) -> Remedy {
    match (&opening.place, opening.early) {
        (OptionPlace::Parameter(_), _) => remedy,
        (OptionPlace::Line(_), true) => {
            initramfs::rebuilt(doctor.root, remedy, "rebuild the initramfs, which opens it")
        }
        (OptionPlace::Line(_), false) => {
            initramfs::rebuilt(doctor.root, remedy, "only if the initramfs opens it, rebuild that")
        }
    }
}

/// The remedy if the file has the option but the mapping does not: the copy in the
/// initramfs is older, or the mapping was opened before the file changed.
fn stale(doctor: &Doctor<'_>, word: &str, opening: &Opening, now: Remedy) -> Remedy {
    let place = opening.shown();
    let why = match &opening.place {
        OptionPlace::Parameter(_) => {
            return now.then(format!(
                "look for what opens {word}: the kernel was started with {place}, and \
                {word} lacks the option"
            ));
        }
        OptionPlace::Line(_) if opening.early => {
            format!("rebuild the initramfs, whose copy of {place} is older")
        }
        OptionPlace::Line(_) => {
            format!(
                "{word} was opened before {place} was changed, or not by it; only if \
                    the initramfs opens it, rebuild that"
            )
        }
    };
    initramfs::rebuilt(doctor.root, now, &why)
}

/// Returns whether the root filesystem or `/usr` is on the layer.
pub fn carries_root(doctor: &Doctor<'_>, layer: &Layer) -> bool {
    let early = |point: &Path| point == Path::new("/") || point == Path::new("/usr");
    let carries = |mount: &_| {
        Stack::of_mount(doctor.root, &doctor.mounts, mount)
            .layers
            .iter()
            .any(|below| below.sys == layer.sys)
    };
    doctor.mounts.iter().filter(|mount| early(&mount.mount_point)).any(carries)
}

/// The UUID of a LUKS header, with hyphens, from `CRYPT-LUKS2-0123…-name`.
fn luks_uuid(dm_uuid: &str) -> String {
    let digits = dm_uuid.split('-').nth(2).unwrap_or_default();
    match (
        digits.get(..8),
        digits.get(8..12),
        digits.get(12..16),
        digits.get(16..20),
        digits.get(20..),
    ) {
        (Some(a), Some(b), Some(c), Some(d), Some(e)) => format!("{a}-{b}-{c}-{d}-{e}"),
        _ => digits.to_owned(),
    }
}

/// True if the known tables show a single dm-crypt target without checksums; with
/// checksums, discards below would be pointless.
pub fn plain_crypt(tables: &Tables, name: &str) -> bool {
    let mut targets = tables.table(name);
    let first =
        targets.next().is_some_and(|target| target.kind == "crypt" && !keeps_checksums(target));
    first && targets.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn luks_uuid_of_dm_uuid_has_hyphens() {
        assert_eq!(
            luks_uuid("CRYPT-LUKS2-5d0e7a1c0c4b4f5c9a0e1b2c3d4e5f60-home"),
            "5d0e7a1c-0c4b-4f5c-9a0e-1b2c3d4e5f60"
        );
        assert_eq!([luks_uuid("CRYPT-PLAIN-x"), luks_uuid("")], ["x", ""]);
    }
}
