//! dm-crypt: whether it passes discards on, and where its options come from.

use super::initramfs;
use super::mapper::Tables;
use super::remedy::{is_plain, kept_options};
use super::{Action, Doctor, Finding, Gate, LayerReport, Remedy, Severity};
use crate::host::block::{Layer, Stack};
use crate::host::root::Root;
use std::path::Path;
use trimtab_drive::usage::quoted;

/// Options of crypttab that pass discards on; systemd takes both words (systemd-cryptsetup), Debian's scripts the first one only.
const DISCARD: [&str; 2] = ["discard", "allow-discards"];
/// Options of crypttab by which a mapping is opened in the initramfs: of systemd, and of Debian.
const IN_INITRAMFS: [&str; 2] = ["x-initrd.attach", "initramfs"];

/// Judges a crypt mapping.
pub fn judge(doctor: &Doctor<'_>, layer: &Layer, report: &mut LayerReport) {
    let name = layer.label.clone().unwrap_or_else(|| layer.name.clone());
    let allowed = allowed_by_table(&doctor.tables, &name, report);
    match allowed {
        Some(true) => report.why = "allow_discards is set".to_owned(),
        Some(false) => {
            report.gate = Gate::Blocks;
            report.why = "dm-crypt drops discards: allow_discards is not set".to_owned();
        }
        None if report.gate == Gate::Blocks => {
            report.why = "dm-crypt takes no discards (allow_discards not set, or nothing below takes any)".to_owned()
        }
        None => {}
    }
    if report.gate == Gate::Passes {
        let text = "discards show an observer of the drive which blocks are free; that is the price of passing them";
        report.findings.push(Finding::new("crypt.leaks-free-space", Severity::Note, text));
        return;
    }
    if allowed == Some(true) {
        // The reason is below, or was when the mapping was opened.
        report.why = "allow_discards is set, and what is below takes none, or took none when it was opened".to_owned();
        return;
    }
    let entry = Entry::read(doctor.root, &name);
    let text = match entry.as_ref().is_some_and(Entry::discards) {
        true => "dm-crypt drops discards: the mapping was opened without the option that stands in /etc/crypttab now",
        false => "dm-crypt drops discards unless it is told to pass them",
    };
    let remedy = allowing(doctor, layer, &name, entry.as_ref());
    report.findings.push(Finding::new("crypt.no-allow-discards", Severity::Serious, text).remedy(remedy));
    wrong_parameter(doctor.root, report);
}

/// dracut documents `rd.luks.allow-discards`, which systemd's generator does not know.
fn wrong_parameter(root: &Root, report: &mut LayerReport) {
    let cmdline = root.read("/proc/cmdline").unwrap_or_default();
    let has = |parameter: &str| cmdline.split_ascii_whitespace().any(|word| word.split('=').next() == Some(parameter));
    if has("rd.luks.allow-discards") && !options_on_cmdline(&cmdline) {
        let text = "rd.luks.allow-discards on the kernel command line has no effect under systemd; rd.luks.options=discard has";
        let remedy = "put rd.luks.options=discard on the kernel command line";
        report.findings.push(Finding::new("crypt.wrong-parameter", Severity::Caution, text).remedy(remedy));
    }
}

/// `rd.luks.options=[UUID=]discard` or `luks.options=…`.
fn options_on_cmdline(cmdline: &str) -> bool {
    let options = |word: &str| word.strip_prefix("rd.").unwrap_or(word).strip_prefix("luks.options=").map(str::to_owned);
    let discards = |options: String| options.split([',', '=']).any(|option| DISCARD.contains(&option));
    cmdline.split_ascii_whitespace().filter_map(options).any(discards)
}

/// What the table says; `None` if there is no table.
fn allowed_by_table(tables: &Tables, name: &str, report: &mut LayerReport) -> Option<bool> {
    let mut targets = tables.table(name).peekable();
    targets.peek()?;
    let allowed = targets.all(|t| t.says("allow_discards"));
    report.evidence.add("allow_discards", if allowed { "in the table" } else { "not in the table" });
    Some(allowed)
}

/// How dm-crypt is told to pass discards on, now and whenever it is opened.
fn allowing(doctor: &Doctor<'_>, layer: &Layer, name: &str, entry: Option<&Entry>) -> Remedy {
    let word = quoted(name);
    let uuid = doctor.root.read(layer.sys.join("dm/uuid")).unwrap_or_default();
    let luks2 = uuid.starts_with("CRYPT-LUKS2");
    let listed = entry.map(Entry::discards);
    let persistent = luks2 && listed != Some(true);
    let flag = if persistent { "--allow-discards --persistent" } else { "--allow-discards" };
    let keep = kept_options(&doctor.tables, name);
    let options: String = keep.iter().map(|option| format!(" {option}")).collect();
    let mut steps = vec![format!("cryptsetup {flag}{options} refresh {word}")];
    let mut actions = vec![Action::AllowDiscards { name: name.to_owned(), persistent, keep }];
    match listed {
        _ if persistent => {}
        Some(false) => {
            steps.push(format!("add the option discard to {word} in /etc/crypttab"));
            let rebuild = initramfs::rebuild(doctor.root);
            steps.push(match opened_in_initramfs(doctor, layer, entry) {
                true => format!("rebuild the initramfs, which opens it: {rebuild}"),
                false => format!("if it is opened while the machine starts: {rebuild}"),
            });
            actions.push(Action::Crypttab { name: name.to_owned() });
        }
        Some(true) => steps.push(stale(doctor, layer, &word, entry)),
        None => steps
            .push("open it with cryptsetup --allow-discards from now on, or with the option discard where it is opened from".to_owned()),
    }
    // A refresh of others needs to be told what only their user knows.
    let can = (luks2 || uuid.starts_with("CRYPT-LUKS1")) && is_plain(name) && plain_crypt(&doctor.tables, name);
    Remedy::steps(steps).done_by(actions.into_iter().filter(|_| can))
}

/// crypttab has the option and the mapping does not: its copy in the initramfs is older, or the mapping was opened before the file was changed.
fn stale(doctor: &Doctor<'_>, layer: &Layer, word: &str, entry: Option<&Entry>) -> String {
    let rebuild = initramfs::rebuild(doctor.root);
    let Some(entry) = entry.filter(|entry| opened_in_initramfs(doctor, layer, Some(entry))) else {
        return format!(
            "the mapping was opened before /etc/crypttab was changed, or not by it; if the initramfs opens {word}, rebuild the initramfs: {rebuild}"
        );
    };
    let debian = initramfs::is_debian(doctor.root) && !entry.options.iter().any(|option| option == DISCARD[0]);
    let rename =
        if debian { "write discard in place of allow-discards in /etc/crypttab, which Debian's initramfs does not know, and " } else { "" };
    format!("{rename}rebuild the initramfs, whose copy of /etc/crypttab is older: {rebuild}")
}

/// Whether the root filesystem is on the mapping, or crypttab says that the initramfs opens it.
fn opened_in_initramfs(doctor: &Doctor<'_>, layer: &Layer, entry: Option<&Entry>) -> bool {
    let said = entry.is_some_and(|entry| entry.options.iter().any(|option| IN_INITRAMFS.contains(&option.as_str())));
    let early = |point: &Path| point == Path::new("/") || point == Path::new("/usr");
    let carries = |mount: &_| Stack::of_mount(doctor.root, &doctor.mounts, mount).layers.iter().any(|below| below.sys == layer.sys);
    said || doctor.mounts.iter().filter(|mount| early(&mount.mount_point)).any(carries)
}

/// One target of dm-crypt, as far as the tables are known, and without checksums, below which discards make no sense.
pub fn plain_crypt(tables: &Tables, name: &str) -> bool {
    let mut targets = tables.table(name);
    let first = targets.next().is_some_and(|target| target.kind == "crypt" && !target.arguments.contains(" integrity:"));
    first && targets.next().is_none()
}

/// A line of crypttab: `name device key options`, options separated by commas.
struct Entry {
    options: Vec<String>,
}

impl Entry {
    /// The line of a mapping; `None` without one.
    fn read(root: &Root, name: &str) -> Option<Self> {
        let crypttab = root.read("/etc/crypttab").unwrap_or_default();
        let mut lines = crypttab.lines().map(str::split_ascii_whitespace);
        lines.find_map(|mut words| {
            let options =
                |words: &mut std::str::SplitAsciiWhitespace<'_>| words.nth(2).unwrap_or_default().split(',').map(str::to_owned).collect();
            (words.next() == Some(name)).then(|| Self { options: options(&mut words) })
        })
    }

    fn discards(&self) -> bool {
        self.options.iter().any(|option| DISCARD.contains(&option.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_options_of_systemd_are_recognised_by_word() {
        for (cmdline, expected) in [
            ("root=/dev/x rd.luks.options=discard", true),
            ("rd.luks.options=0b2c-11=timeout=9,discard quiet", true),
            ("luks.options=allow-discards", true),
            ("rd.luks.options=no-discard-here", false),
            ("rd.luks.allow-discards", false),
        ] {
            assert_eq!(options_on_cmdline(cmdline), expected, "{cmdline}");
        }
    }
}
