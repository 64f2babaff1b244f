//! Commands that rebuild the initramfs, by the tool that the distribution uses.

use super::Remedy;
use crate::host::root::Root;

/// A path that a tool installs, the distributions that use the tool, and its command.
const TOOLS: [(&str, &[&str], &str); 5] = [
    ("/etc/initramfs-tools", &["debian", "ubuntu"], "update-initramfs -u -k all"),
    ("/etc/mkinitcpio.conf", &["arch"], "mkinitcpio -P"),
    ("/etc/mkinitfs", &["alpine"], "mkinitfs"),
    (
        "/etc/dracut.conf.d",
        &["fedora", "rhel", "centos", "suse", "opensuse"],
        "dracut --force --regenerate-all",
    ),
    ("/etc/dracut.conf", &["gentoo", "void"], "dracut --force --regenerate-all"),
];

/// The command that rebuilds the initramfs, of the installed tool or else of the
/// distribution.
fn tool(root: &Root) -> Option<&'static str> {
    let installed = TOOLS.iter().find(|(place, ..)| root.exists(place));
    let names = distribution(root);
    let by_name = || {
        TOOLS
            .iter()
            .find(|(_, users, _)| users.iter().any(|user| names.iter().any(|name| name == user)))
    };
    installed.or_else(by_name).map(|(.., command)| *command)
}

/// Extends a remedy by rebuilding the initramfs for the given reason.
pub fn rebuilt(root: &Root, remedy: Remedy, why: &str) -> Remedy {
    match tool(root) {
        Some(command) => remedy.then(why).then_run(command),
        None => remedy.then(format!(
            "{why}: update-initramfs -u -k all (Debian, Ubuntu), dracut --force \
                --regenerate-all (Fedora, RHEL, SUSE) or mkinitcpio -P (Arch)"
        )),
    }
}

/// True if Debian's scripts build the initramfs; it then does not run systemd.
pub fn is_debian(root: &Root) -> bool {
    tool(root) == Some(TOOLS[0].2)
}

/// Describes the kernel command line, with the file that defines it if known.
pub fn command_line(root: &Root) -> String {
    let files = [
        ("/etc/kernel/cmdline", "/etc/kernel/cmdline; rebuild the boot entry or image from it"),
        ("/etc/default/grub", "GRUB_CMDLINE_LINUX in /etc/default/grub; rebuild grub.cfg from it"),
    ];
    let file = files
        .iter()
        .find(|(file, _)| root.exists(file))
        .map_or("the boot loader's entry", |(_, words)| words);
    format!("the kernel command line ({file})")
}

/// `ID` and `ID_LIKE` of os-release.
fn distribution(root: &Root) -> Vec<String> {
    let text = root
        .read("/etc/os-release")
        .or_else(|| root.read("/usr/lib/os-release"))
        .unwrap_or_default();
    let values = text
        .lines()
        .filter_map(|line| line.strip_prefix("ID=").or_else(|| line.strip_prefix("ID_LIKE=")));
    values.flat_map(|value| value.trim_matches(['"', '\'']).split(' ')).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initramfs_tool_follows_distribution() {
        for (file, text, expected) in [
            ("etc/os-release", "ID=ubuntu\nID_LIKE=debian\n", "update-initramfs -u -k all"),
            (
                "etc/os-release",
                "NAME=x\nID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n",
                "dracut --force --regenerate-all",
            ),
            ("usr/lib/os-release", "ID=manjaro\nID_LIKE=arch\n", "mkinitcpio -P"),
            ("etc/mkinitcpio.conf", "", "mkinitcpio -P"),
        ] {
            let tree = tempfile::tempdir().unwrap();
            std::fs::create_dir_all(tree.path().join(file).parent().unwrap()).unwrap();
            std::fs::write(tree.path().join(file), text).unwrap();
            assert_eq!(
                tool(&Root::recorded(tree.path()).unwrap()),
                Some(expected),
                "{file} {text}"
            );
        }
        let nothing = tempfile::tempdir().unwrap();
        assert_eq!(tool(&Root::recorded(nothing.path()).unwrap()), None);
    }
}
