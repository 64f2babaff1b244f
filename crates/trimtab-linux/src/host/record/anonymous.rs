//! Replaces texts in a recording that identify a machine or its user.

use super::SysrootRecorder;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Files that hold the identity of one drive.
const IDENTITIES: [&str; 8] =
    ["serial", "wwid", "wwn", "eui", "nguid", "vpd_pg80", "vpd_pg83", "subsysnqn"];
/// Files whose words stay, even where an identity contains them.
const MODELS: [&str; 4] = ["model", "vendor", "rev", "firmware_rev"];
/// Components of paths that many machines have.
const USUAL: &str = "/bin/boot/dev/disk/by-id/by-uuid/by-label/by-partuuid/by-partlabel/by-path/\
    mapper/md/efi/EFI/etc/home/lib/lib64/log/media/mnt/opt/proc/root/run/sbin/snap/srv/swap/sys/\
    tmp/usr/user/var/cache/local/share/data/shm/swapfile/swap.img/@/@home/@rootfs";
/// Words of the kernel's command line that stay.
const BOOT_WORDS: [&str; 5] = ["root=", "rd.luks", "luks.", "crypt", "libata."];
/// Shorter parts of an identity are none.
const IDENTITY_CHARS_MIN: usize = 6;
/// Longer words with a digit are hashes and UUIDs. No model has such a name.
const HASH_CHARS_MIN: usize = 32;
/// Groups of UUIDs: usual, of md, of LVM; then, in paths and after `=`, of FAT and MBR.
const UUIDS: [(char, &[usize]); 3] =
    [('-', &[8, 4, 4, 4, 12]), (':', &[8, 8, 8, 8]), ('-', &[6, 4, 4, 4, 4, 4, 6])];
const SHORT_UUIDS: [(char, &[usize]); 2] = [('-', &[4, 4]), ('-', &[8, 2])];

/// Texts to replace, and their replacements so far.
#[derive(Default)]
struct Secrets {
    hosts: Vec<String>,
    identities: BTreeSet<String>,
    /// Replaced in paths, after `=` and `:`, and at the start of a line.
    names: BTreeSet<String>,
    pseudonyms: BTreeMap<String, String>,
}

impl SysrootRecorder {
    /// Replaces serial numbers, UUIDs, the name `host` of the machine, and names of mount
    /// points, volumes and labels by `x1`, `x2` and so on. Drops comments, and mounts
    /// whose source is no block device.
    pub fn anonymize(&mut self, host: &str) {
        let mut secrets = self.secrets(host);
        self.forget_serials();
        for (path, bytes) in &mut self.files {
            if let Ok(text) = std::str::from_utf8(bytes) {
                *bytes = without_private_lines(path, text).into_bytes();
            }
        }
        let in_sys = self.files.keys().chain(&self.directories).filter(|p| p.starts_with("/sys"));
        let known = in_sys.flat_map(|path| path.iter().filter_map(|name| name.to_str()));
        let known: BTreeSet<&str> = known.chain(USUAL.split('/')).collect();
        let found = self.files.iter().flat_map(|(path, bytes)| self.names(path, bytes));
        secrets.names = found.filter(|name| !known.contains(name.as_str())).collect();
        let mut path = |old: &Path| PathBuf::from(secrets.replace(&old.to_string_lossy(), ""));
        self.directories = self.directories.iter().map(|old| path(old)).collect();
        self.executable = self.executable.iter().map(|old| path(old)).collect();
        self.links = self.links.iter().map(|(old, target)| (path(old), path(target))).collect();
        for (old, bytes) in std::mem::take(&mut self.files) {
            // A volume's identifier ends with its name.
            let before_names = if old.ends_with("dm/uuid") { "-" } else { "" };
            let bytes = match String::from_utf8(bytes) {
                Ok(text) => secrets.replace(&text, before_names).into_bytes(),
                Err(binary) => binary.into_bytes(),
            };
            self.files.insert(secrets.replace(&old.to_string_lossy(), "").into(), bytes);
        }
    }

    fn secrets(&self, host: &str) -> Secrets {
        let models: Vec<String> = self.texts(&MODELS).collect();
        let is_identity = |part: &&str| {
            part.len() >= IDENTITY_CHARS_MIN && !models.iter().any(|model| model.contains(*part))
        };
        let mut identities = BTreeSet::new();
        for text in self.texts(&IDENTITIES) {
            let parts = text.split(|c: char| !c.is_ascii_alphanumeric());
            identities.extend(parts.filter(is_identity).map(str::to_owned));
        }
        let hosts = [Some(host), host.split('.').next()].into_iter().flatten();
        let hosts = hosts.filter(|host| !host.is_empty()).map(str::to_owned).collect();
        Secrets { hosts, identities, ..Secrets::default() }
    }

    fn texts(&self, names: &[&str]) -> impl Iterator<Item = String> {
        let is_named = |path: &Path| names.iter().any(|name| path.ends_with(name));
        let files = self.files.iter().filter(move |(path, _)| is_named(path));
        files.map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned())
    }

    /// Names in a file that the user may have chosen.
    fn names(&self, path: &Path, bytes: &[u8]) -> Vec<String> {
        let text = String::from_utf8_lossy(bytes);
        let words = || text.split(|c: char| c.is_whitespace() || ",=:\"".contains(c));
        let in_paths = || words().filter(|word| word.contains('/')).flat_map(|w| w.split('/'));
        let labels = text.split_whitespace().filter_map(|word| word.split_once("LABEL="));
        let labels = labels.map(|(_, label)| label);
        let found: Vec<&str> = match path.file_name().and_then(|name| name.to_str()) {
            Some("mountinfo" | "fstab" | "swaps" | "cmdline") => in_paths().chain(labels).collect(),
            Some("crypttab") => text.lines().filter_map(first_word).chain(in_paths()).collect(),
            Some("backing_file") => text.trim().split('/').collect(),
            Some("label") => vec![text.trim()],
            Some("name") if path.ends_with("dm/name") => vec![text.trim()],
            _ => Vec::new(),
        };
        found.into_iter().filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }
}

impl Secrets {
    /// Replaces all secrets in `text`. Names are also replaced after `before_names`.
    fn replace(&mut self, text: &str, before_names: &str) -> String {
        let (mut clean, mut rest, mut before) = (String::new(), text, '\n');
        while let Some(next) = rest.chars().next() {
            let length = self.at_start(rest, before, before_names);
            let (start, end) = rest.split_at(length.unwrap_or(next.len_utf8()));
            if length.is_some() {
                let number = self.pseudonyms.len() + 1;
                let pseudonym = self.pseudonyms.entry(start.to_owned());
                clean += pseudonym.or_insert_with(|| format!("x{number}"));
            } else {
                clean += start;
            }
            before = start.chars().next_back().unwrap_or(next);
            rest = end;
        }
        clean
    }

    /// Length of the secret at the start of `text`, which follows `before`.
    fn at_start(&self, text: &str, before: char, before_names: &str) -> Option<usize> {
        if before.is_ascii_alphanumeric() {
            return None;
        }
        let until = |is_end: fn(char) -> bool| &text[..text.find(is_end).unwrap_or(text.len())];
        if "/=:\n".contains(before) || before_names.contains(before) {
            let names = [
                until(|c| "/\n".contains(c)),
                until(|c| c.is_whitespace() || "/,=:\"".contains(c)),
            ];
            if let Some(name) = names.into_iter().find(|name| self.names.contains(*name)) {
                return Some(name.len());
            }
        }
        let short = SHORT_UUIDS.iter().filter(|_| "/=".contains(before));
        let ends_at =
            |length: usize| !text[length..].starts_with(|c: char| c.is_ascii_alphanumeric());
        let host = self.hosts.iter().find(|host| text.starts_with(*host) && ends_at(host.len()));
        let word = until(|c| !c.is_ascii_alphanumeric());
        let is_hash = word.len() >= HASH_CHARS_MIN && word.contains(|c: char| c.is_ascii_digit());
        let is_secret = is_hash || self.identities.contains(word);
        host.map(String::len)
            .or_else(|| UUIDS.iter().chain(short).find_map(|groups| uuid(text, groups)))
            .or_else(|| is_secret.then_some(word.len()))
    }
}

/// Length of the UUID at the start of `text`. The short groups of LVM hold any letters.
fn uuid(text: &str, (separator, groups): &(char, &[usize])) -> Option<usize> {
    let length = groups.iter().sum::<usize>() + groups.len() - 1;
    let found = text.get(..length)?;
    let is_of_lvm = groups.len() > 5;
    let is_group = |(part, length): (&str, &usize)| {
        part.len() == *length
            && part.chars().all(|c| c.is_ascii_hexdigit() || is_of_lvm && c.is_ascii_alphanumeric())
    };
    let is_whole = !text[length..].starts_with(|c: char| c.is_ascii_alphanumeric());
    (is_whole && found.split(*separator).zip(*groups).all(is_group)).then_some(length)
}

fn first_word(line: &str) -> Option<&str> {
    line.split_whitespace().next()
}

/// The text without lines and words that the doctor does not need.
fn without_private_lines(path: &Path, text: &str) -> String {
    let is_device = |source: &str| source.starts_with("/dev/") || source.contains('=');
    let source = |line: &str| line.split_once(" - ")?.1.split(' ').nth(1).map(str::to_owned);
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_needed = |line: &&str| match name {
        "mountinfo" => source(line).is_some_and(|source| is_device(&source)),
        "fstab" => first_word(line).is_some_and(is_device),
        _ => !line.trim_start().starts_with('#'),
    };
    if name == "cmdline" {
        let is_kept = |word: &&str| BOOT_WORDS.iter().any(|start| word.starts_with(start));
        return text.split_whitespace().filter(is_kept).collect::<Vec<_>>().join(" ");
    }
    if !path.starts_with("/etc") && name != "mountinfo" {
        return text.to_owned();
    }
    text.lines().filter(is_needed).map(|line| line.to_owned() + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRETS: [&str; 22] = [
        "S5GX1234",
        "5002538e12345678",
        "web1",
        "example.org",
        "joe",
        "photos",
        "Old Disk",
        "Old\\040Disk",
        "backup",
        "nas",
        "secret",
        "0f3c1e9a-1b2c-4d5e-8f90-a1b2c3d4e5f6",
        "0f3c1e9a1b2c4d5e8f90a1b2c3d4e5f6",
        "AB12-CD34",
        "1a2b3c4d",
        "wVYOVb",
        "Qq1Ww2Ee3Rr4Tt5Yy6Uu7Ii8Oo9Pp0Aa1Ss2Dd3",
        "6d9f1c2e",
        "vault",
        "TRAVEL",
        "zeta",
        "Jim",
    ];

    /// Every file that the doctor reads names.
    #[test]
    fn anonymize_leaves_no_identity_in_any_byte() {
        let mut recorder = SysrootRecorder::default();
        let disk = "/sys/devices/pci0000:00/block/sda";
        let mut page = vec![b'.'; 572];
        page[80..88].copy_from_slice(b"S5GX1234");
        recorder.file(&Path::new(disk).join("device/vpd_pg89"), &page);
        for (path, text) in [
            (&*format!("{disk}/device/model"), "Samsung SSD 860\n"),
            (&format!("{disk}/device/wwid"), "t10.ATA     Samsung SSD 860  S5GX1234\n"),
            (&format!("{disk}/wwid"), "naa.5002538e12345678\n"),
            ("/sys/devices/virtual/block/dm-0/dm/name", "vault\n"),
            (
                "/sys/devices/virtual/block/dm-0/dm/uuid",
                "CRYPT-LUKS2-0f3c1e9a1b2c4d5e8f90a1b2c3d4e5f6-vault\n",
            ),
            ("/sys/devices/virtual/block/dm-1/dm/name", "web1--vg-zeta\n"),
            (
                "/sys/devices/virtual/block/dm-1/dm/uuid",
                "LVM-Qq1Ww2Ee3Rr4Tt5Yy6Uu7Ii8Oo9Pp0Aa1Ss2Dd3\n",
            ),
            ("/sys/devices/virtual/block/loop0/loop/backing_file", "/home/joe/Old Disk\n"),
            ("/sys/fs/btrfs/0f3c1e9a-1b2c-4d5e-8f90-a1b2c3d4e5f6/label", "backup"),
            (
                "/proc/1/mountinfo",
                "1 0 252:0 / / rw - ext4 /dev/mapper/web1--vg-zeta rw\n\
                 2 1 252:1 /Jim /home/joe/photos rw - ext4 /dev/mapper/vault rw,discard\n\
                 3 1 7:0 / /media/joe/Old\\040Disk rw - ext4 /dev/loop0 rw\n\
                 4 1 0:50 / /mnt/nas rw - nfs nas.example.org:/secret rw\n",
            ),
            (
                "/etc/fstab",
                "# joe's secret\nUUID=0f3c1e9a-1b2c-4d5e-8f90-a1b2c3d4e5f6 / ext4 discard 0 1\n\
                 LABEL=TRAVEL /home/joe/backup vfat uid=joe 0 0\nUUID=AB12-CD34 /efi vfat\n\
                 PARTUUID=1a2b3c4d-01 none swap\n/dev/disk/by-id/ata-S5GX1234 /srv/backup xfs\n\
                 nas:/secret /mnt/nas nfs\n",
            ),
            (
                "/etc/crypttab",
                "vault UUID=0f3c1e9a-1b2c-4d5e-8f90-a1b2c3d4e5f6 /home/joe/secret luks\n",
            ),
            (
                "/etc/mdadm.conf",
                "ARRAY /dev/md0 name=web1:0 UUID=6d9f1c2e:6d9f1c2e:6d9f1c2e:6d9f1c2e\n",
            ),
            ("/proc/cmdline", "root=/dev/mapper/web1--vg-zeta systemd.hostname=web1 ip=secret\n"),
            (
                "/dmsetup-table",
                "vault: 0 9 crypt aes-xts 0000000000000000000000000000000000000000 0 8:2 4096\n",
            ),
            ("/lvm", "wVYOVb-aaaa-bbbb-cccc-dddd-eeee-ffffff"),
        ] {
            recorder.file(Path::new(path), text.as_bytes());
        }
        recorder.link(Path::new("/dev/mapper/vault"), Path::new("/home/joe"));
        recorder.anonymize("web1.example.org");
        let all = format!(
            "{:?}",
            recorder
                .files
                .iter()
                .map(|(path, bytes)| (path, String::from_utf8_lossy(bytes)))
                .collect::<Vec<_>>()
        ) + &format!("{:?}{:?}", recorder.links, recorder.directories);
        for secret in SECRETS {
            assert!(!all.contains(secret), "{secret}: {all}");
        }
        for kept in [
            "Samsung SSD 860",
            " crypt aes-xts ",
            "rw,discard",
            "ext4 discard 0 1",
            "CRYPT-LUKS2-x",
            "LVM-x",
            "/home/x",
        ] {
            assert!(all.contains(kept), "{kept}: {all}");
        }
    }
}
