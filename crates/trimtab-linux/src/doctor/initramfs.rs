//! Commands that rebuild the initramfs, by the tool that the distribution uses.

use super::Remedy;
use crate::host::root::Root;

/// A path that a tool installs, the distributions that use the tool, and its command.
const TOOLS: [(&str, &[&str], &str); 5] = [
    ("/etc/initramfs-tools", &["debian", "ubuntu"], "update-initramfs -u -k all"),
    ("/etc/mkinitcpio.conf", &["arch"], "mkinitcpio -P"),
    ("/etc/mkinitfs", &["alpine"], "mkinitfs"),
    ("/etc/dracut.conf.d", &["fedora", "rhel", "centos", "suse", "opensuse"], "dracut --force --regenerate-all"),
    ("/etc/dracut.conf", &["gentoo", "void"], "dracut --force --regenerate-all"),
];

/// The command that rebuilds the initramfs, of the installed tool or else of the
/// distribution.
fn tool(root: &Root) -> Option<&'static str> {
    let installed = TOOLS.iter().find(|(place, ..)| root.exists(place));
    let names = distribution(root);
    let by_name = || TOOLS.iter().find(|(_, users, _)| users.iter().any(|user| names.iter().any(|name| name == user)));
    installed.or_else(by_name).map(|(.., command)| *command)
}

/// Extends a remedy by rebuilding the initramfs for the given reason.
pub fn rebuilt(root: &Root, remedy: Remedy, why: &str) -> Remedy {
    match tool(root) {
        Some(command) => remedy.then(why).then_run(command),
        None => remedy.then(format!(
            "{why}: update-initramfs -u -k all (Debian, Ubuntu), dracut --force --regenerate-all (Fedora, RHEL, SUSE) or mkinitcpio -P (Arch)"
        )),
    }
}

/// True if Debian's scripts build the initramfs; it then does not run systemd.
pub fn is_debian(root: &Root) -> bool {
    tool(root) == Some(TOOLS[0].2)
}

/// The hooks of mkinitcpio; `None` if another tool builds the initramfs.
pub fn hooks(root: &Root) -> Option<Vec<String>> {
    const MAIN: &str = "/etc/mkinitcpio.conf";
    const MORE: &str = "/etc/mkinitcpio.conf.d";
    if tool(root) != Some(TOOLS[1].2) {
        return None;
    }
    let mut more = root.list(MORE);
    more.sort();
    let files = std::iter::once(MAIN.to_owned()).chain(more.into_iter().map(|name| format!("{MORE}/{name}")));
    let text: String = files.filter_map(|file| root.read(file)).map(|text| text + "\n").collect();
    // A bash assignment that may span several lines; the last one counts.
    let value = text.rsplit_once("\nHOOKS=").map(|(_, value)| value).or_else(|| text.strip_prefix("HOOKS="))?;
    let list = value.trim_start_matches(['(', '"', '\'']).split([')', '"', '\'']).next().unwrap_or_default();
    Some(list.split_ascii_whitespace().map(str::to_owned).collect())
}

/// Describes the kernel command line, with the file that defines it if known.
pub fn command_line(root: &Root) -> String {
    let files = [
        ("/etc/kernel/cmdline", "/etc/kernel/cmdline; rebuild the boot entry or image from it"),
        ("/etc/default/grub", "GRUB_CMDLINE_LINUX in /etc/default/grub; rebuild grub.cfg from it"),
    ];
    let file = files.iter().find(|(file, _)| root.exists(file)).map_or("the boot loader's entry", |(_, words)| words);
    format!("the kernel command line ({file})")
}

/// `ID` and `ID_LIKE` of os-release.
fn distribution(root: &Root) -> Vec<String> {
    let text = root.read("/etc/os-release").or_else(|| root.read("/usr/lib/os-release")).unwrap_or_default();
    let values = text.lines().filter_map(|line| line.strip_prefix("ID=").or_else(|| line.strip_prefix("ID_LIKE=")));
    values.flat_map(|value| value.trim_matches(['"', '\'']).split(' ')).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mkinitcpio_hooks_come_from_last_assignment() {
        for (main, more, expected) in [
            ("# HOOKS=(a)\nHOOKS=(base udev\n  encrypt)\n", None, Some(&["base", "udev", "encrypt"][..])),
            ("HOOKS=\"base encrypt\"\n", Some("HOOKS=(systemd sd-encrypt)\n"), Some(&["systemd", "sd-encrypt"])),
            ("MODULES=()\n", None, None),
        ] {
            let tree = tempfile::tempdir().unwrap();
            std::fs::create_dir_all(tree.path().join("etc/mkinitcpio.conf.d")).unwrap();
            std::fs::write(tree.path().join("etc/mkinitcpio.conf"), main).unwrap();
            more.iter().for_each(|text| std::fs::write(tree.path().join("etc/mkinitcpio.conf.d/x.conf"), text).unwrap());
            let found = hooks(&Root::recorded(tree.path()).unwrap());
            assert_eq!(found.as_deref().map(|hooks| hooks.iter().map(String::as_str).collect::<Vec<_>>()).as_deref(), expected, "{main}");
        }
        assert_eq!(hooks(&Root::recorded(tempfile::tempdir().unwrap().path()).unwrap()), None);
    }

    #[test]
    fn initramfs_tool_follows_distribution() {
        for (file, text, expected) in [
            ("etc/os-release", "ID=ubuntu\nID_LIKE=debian\n", "update-initramfs -u -k all"),
            ("etc/os-release", "NAME=x\nID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n", "dracut --force --regenerate-all"),
            ("usr/lib/os-release", "ID=manjaro\nID_LIKE=arch\n", "mkinitcpio -P"),
            ("etc/mkinitcpio.conf", "", "mkinitcpio -P"),
        ] {
            let tree = tempfile::tempdir().unwrap();
            std::fs::create_dir_all(tree.path().join(file).parent().unwrap()).unwrap();
            std::fs::write(tree.path().join(file), text).unwrap();
            assert_eq!(tool(&Root::recorded(tree.path()).unwrap()), Some(expected), "{file} {text}");
        }
        let nothing = tempfile::tempdir().unwrap();
        assert_eq!(tool(&Root::recorded(nothing.path()).unwrap()), None);
    }
}
