//! How the initramfs of a machine is rebuilt: by the tool that its distribution uses.

use crate::host::root::Root;

/// A place that a tool brings, the distributions that use it, and the command.
const TOOLS: [(&str, &[&str], &str); 5] = [
    ("/etc/initramfs-tools", &["debian", "ubuntu"], "update-initramfs -u -k all"),
    ("/etc/mkinitcpio.conf", &["arch"], "mkinitcpio -P"),
    ("/etc/mkinitfs", &["alpine"], "mkinitfs"),
    ("/etc/dracut.conf.d", &["fedora", "rhel", "centos", "suse", "opensuse"], "dracut --force --regenerate-all"),
    ("/etc/dracut.conf", &["gentoo", "void"], "dracut --force --regenerate-all"),
];

/// The command that rebuilds the initramfs: of the tool that is installed, else of the distribution, else all of them.
pub fn rebuild(root: &Root) -> String {
    let installed = TOOLS.iter().find(|(place, ..)| root.exists(place));
    let names = distribution(root);
    let by_name = || TOOLS.iter().find(|(_, users, _)| users.iter().any(|user| names.iter().any(|name| name == user)));
    match installed.or_else(by_name) {
        Some((.., command)) => (*command).to_owned(),
        None => "update-initramfs -u -k all (Debian, Ubuntu), dracut --force --regenerate-all (Fedora, RHEL, SUSE) or mkinitcpio -P (Arch)"
            .to_owned(),
    }
}

/// Whether Debian's scripts make the initramfs, which do not run systemd.
pub fn is_debian(root: &Root) -> bool {
    rebuild(root) == TOOLS[0].2
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
    fn initramfs_tool_is_that_of_the_distribution() {
        for (file, text, expected) in [
            ("etc/os-release", "ID=ubuntu\nID_LIKE=debian\n", "update-initramfs -u -k all"),
            ("etc/os-release", "NAME=x\nID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n", "dracut --force --regenerate-all"),
            ("usr/lib/os-release", "ID=manjaro\nID_LIKE=arch\n", "mkinitcpio -P"),
            ("etc/mkinitcpio.conf", "", "mkinitcpio -P"),
        ] {
            let tree = tempfile::tempdir().unwrap();
            std::fs::create_dir_all(tree.path().join(file).parent().unwrap()).unwrap();
            std::fs::write(tree.path().join(file), text).unwrap();
            assert_eq!(rebuild(&Root::recorded(tree.path()).unwrap()), expected, "{file} {text}");
        }
        let nothing = tempfile::tempdir().unwrap();
        assert!(rebuild(&Root::recorded(nothing.path()).unwrap()).contains("dracut"));
    }
}
