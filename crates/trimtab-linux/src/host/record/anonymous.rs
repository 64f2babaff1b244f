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
/// Options of mounts, swap areas and mappings that stay.
const OPTIONS: &str = "defaults/rw/ro/auto/noauto/user/nouser/users/owner/exec/noexec/suid/nosuid/\
    dev/nodev/sync/async/dirsync/atime/noatime/relatime/norelatime/strictatime/nodiratime/lazytime/\
    nofail/_netdev/sw/swap/loop/bind/rbind/nostrictatime/acl/noacl/user_xattr/nouser_xattr/barrier/\
    nobarrier/quota/noquota/usrquota/grpquota/prjquota/inode32/inode64/attr2/discard/nodiscard/\
    compress/ssd/nossd/ssd_spread/nodatacow/nodatasum/autodefrag/space_cache/x-systemd.automount/\
    x-systemd.growfs/x-systemd.makefs/x-initrd.mount/x-initrd.attach/x-gvfs-show/x-gvfs-hide/\
    X-fstrim.notrim/X-mount.mkdir/luks/plain/tcrypt/tcrypt-system/tcrypt-hidden/bitlk/tmp/\
    allow-discards/initramfs/readonly/read-only/noearly/loud/quiet/no-read-workqueue/\
    no-write-workqueue/same-cpu-crypt/submit-from-crypt-cpus";
/// Options whose values stay.
const VALUES: &str = "discard/pri/data/errors/commit/barrier/compress/compress-force/subvol/\
    subvolid/space_cache/logbsize/stripe/mode/fsync_mode/background_gc/X-fstrim.notrim/cipher/hash/\
    size/sector-size/timeout/tries/tmp";
/// Options whose names the doctor needs, but whose values are replaced.
const HIDDEN_VALUES: &str = "header/keyfile-offset/keyfile-size/key-slot/keyscript";
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
        self.links = self.links.iter().map(|(old, target)| (path(old), path(target))).collect();
        for (old, bytes) in std::mem::take(&mut self.files) {
            let bytes = match old.ends_with("dm/uuid") {
                true => without_lvm_uuids(bytes),
                false => bytes,
            };
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
        // Of LABEL=, PARTLABEL= and subvol=.
        let after = |key: &'static str| {
            let found = text.split([' ', '\t', '\n', ',']).filter_map(move |w| w.split_once(key));
            found.flat_map(|(_, name)| name.trim_matches('"').split('/'))
        };
        let labels = || after("LABEL=").chain(after("subvol="));
        let found: Vec<&str> = match path.file_name().and_then(|name| name.to_str()) {
            Some("mountinfo" | "fstab" | "swaps") => in_paths().chain(labels()).collect(),
            Some("cmdline") => {
                in_paths().chain(labels()).chain(words_of(&text).filter_map(mapping_name)).collect()
            }
            Some("crypttab" | "crypttab.initramfs") => {
                text.lines().filter_map(first_word).chain(in_paths()).chain(labels()).collect()
            }
            Some("trimtab.toml") => text
                .split('"')
                .filter_map(|value| value.split_once('/'))
                .flat_map(|(_, path)| path.split('/'))
                .collect(),
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
        if "/=:\"\n".contains(before) || before_names.contains(before) {
            let names = [
                until(|c| "/\n".contains(c)),
                until(|c| "/\"\n".contains(c)),
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

/// The words of the kernel's command line that stay.
fn words_of(cmdline: &str) -> impl Iterator<Item = &str> {
    let is_kept = |word: &&str| BOOT_WORDS.iter().any(|start| word.starts_with(start));
    cmdline.split_whitespace().filter(is_kept)
}

/// The name of the mapping that a parameter opens.
fn mapping_name(word: &str) -> Option<&str> {
    let (key, value) = word.split_once('=')?;
    match key {
        "rd.luks.name" | "luks.name" => value.split_once('=').map(|(_, name)| name),
        "cryptdevice" => value.split(':').nth(1),
        _ => value.split(',').find_map(|option| option.strip_prefix("target=")),
    }
}

/// A parameter with its known options only.
fn with_known_options(word: &str) -> String {
    let Some((key, value)) = word.split_once('=') else { return word.to_owned() };
    let (start, options) = match key {
        "rd.luks.options" | "luks.options" => match value.split_once('=') {
            Some((uuid, options)) if uuid.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-') => {
                (format!("{key}={uuid}="), options)
            }
            _ => (format!("{key}="), value),
        },
        "cryptopts" => (format!("{key}="), value),
        "cryptdevice" => match value.match_indices(':').nth(1) {
            Some((at, _)) => (format!("{key}={}", &value[..=at]), &value[at + 1..]),
            None => return word.to_owned(),
        },
        _ => return word.to_owned(),
    };
    let names_device =
        |option: &&str| option.starts_with("target=") || option.starts_with("source=");
    let (devices, others): (Vec<&str>, Vec<&str>) = options.split(',').partition(names_device);
    let others = known_options(&others.join(","));
    let all = devices.into_iter().chain(Some(&*others).filter(|others| !others.is_empty()));
    start + &all.collect::<Vec<_>>().join(",")
}

/// The known ones of a list of options.
fn known_options(options: &str) -> String {
    let is_in = |list: &str, name: &str| list.split('/').any(|known| known == name);
    let known = |option: &str| match option.split_once('=') {
        None => is_in(OPTIONS, option).then(|| option.to_owned()),
        Some((name, _)) if is_in(VALUES, name) => Some(option.to_owned()),
        Some((name, _)) => is_in(HIDDEN_VALUES, name).then(|| format!("{name}=x")),
    };
    options.split(',').filter_map(known).collect::<Vec<_>>().join(",")
}

/// A line of fstab or crypttab with its known options only.
fn with_known_fields(line: &str) -> String {
    let mut fields: Vec<String> = line.split_whitespace().take(6).map(str::to_owned).collect();
    fields.iter_mut().skip(4).filter(|field| field.parse::<i32>().is_err()).for_each(|comment| {
        *comment = "x".to_owned();
    });
    if let Some(options) = fields.get_mut(3) {
        *options = Some(known_options(options))
            .filter(|known| !known.is_empty())
            .unwrap_or_else(|| "defaults".to_owned());
    }
    fields.join(" ")
}

/// A line of `dmsetup table` without the description of a key: `:64:logon:DESCRIPTION`.
fn without_key(line: &str) -> String {
    let word = |word: &str| match word.match_indices(':').nth(2) {
        Some((at, _)) if word.starts_with(':') => format!("{}x", &word[..=at]),
        _ => word.to_owned(),
    };
    line.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// The configuration of the daemon: policies with their paths, and accepted findings.
fn rules_only(text: &str) -> String {
    let mut kept = String::new();
    let mut list: Option<Vec<String>> = None;
    for line in text.lines().filter(|line| !line.contains(['\\', '\''])) {
        let line = line.split('#').next().unwrap_or_default().trim();
        let key = line.split('=').next().unwrap_or_default().trim();
        let mut strings = line.split('"').skip(1).step_by(2).map(|text| format!("\"{text}\""));
        match key {
            "policy" | "path" => {
                kept.extend(strings.next().map(|value| format!("{key} = {value}\n")));
            }
            "ignore" => list = Some(strings.collect()),
            "[[filesystem]]" | "[default]" | "[doctor]" | "[daemon]" => {
                kept += &format!("{line}\n");
            }
            _ => list.iter_mut().for_each(|list| list.extend(&mut strings)),
        }
        if line.ends_with(']')
            && let Some(list) = list.take()
        {
            kept += &format!("ignore = [{}]\n", list.join(", "));
        }
    }
    kept
}

/// The identifier of an LVM volume without the UUIDs of group and volume, which may hold
/// `!` and `#` but no hyphen. The layer at its end stays, such as `-tpool`.
fn without_lvm_uuids(bytes: Vec<u8>) -> Vec<u8> {
    const START: &[u8] = b"LVM-";
    let Some(rest) = bytes.strip_prefix(START) else { return bytes };
    let layer = rest.iter().rposition(|byte| *byte == b'-').map(|at| &rest[at..]);
    let is_layer = |layer: &&[u8]| layer[1..].trim_ascii_end().iter().all(u8::is_ascii_lowercase);
    [START, b"x", layer.filter(is_layer).unwrap_or(b"\n")].concat()
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
        return words_of(text).map(with_known_options).collect::<Vec<_>>().join(" ");
    }
    let changed: fn(&str) -> String = match name {
        "fstab" | "crypttab" | "crypttab.initramfs" => with_known_fields,
        "dmsetup-table" => without_key,
        "trimtab.toml" => return rules_only(text),
        _ => str::to_owned,
    };
    if name == "dmsetup-table" {
        return text.lines().map(|line| changed(line) + "\n").collect();
    }
    if !path.starts_with("/etc") && name != "mountinfo" {
        return text.to_owned();
    }
    text.lines().filter(is_needed).map(|line| changed(line) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRETS: [&str; 39] = [
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
        "Qq1!2#",
        "pia",
        "holiday",
        "Mia",
        "1042",
        "unconfined_u",
        "hidden",
        "1b2c3d",
        "AAECAwQ",
        "safe",
        "mykey",
        "vacation",
        "statedir",
        "promdir",
        "unmounted",
        "Ann's",
        "STICK",
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
            (
                "/sys/devices/virtual/block/dm-2/dm/uuid",
                "LVM-Qq1!2#Ee3Rr4Tt5Yy6Uu7Ii8Oo9Pp0AaQq1!2#Ee3Rr4Tt5Yy6Uu7Ii8Oo9Pp0Aa-tpool\n",
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
                 PARTUUID=1a2b3c4d-01 none swap\n\
                 LABEL=\"STICK\" /mnt vfat user=pia,comment=holiday,uid=1042,x-gvfs-name=Mia,discard \
                 0 0 # Mia\n\
                 /dev/sdb1 /usr xfs noatime,context=unconfined_u:r:t,subvol=vacation,X-fstrim.notrim\n\
                 /dev/disk/by-id/ata-S5GX1234 /srv/backup xfs\n\
                 nas:/secret /mnt/nas nfs\n",
            ),
            (
                "/etc/crypttab",
                "vault UUID=0f3c1e9a-1b2c-4d5e-8f90-a1b2c3d4e5f6 /home/joe/secret luks\n\
                 spare /dev/sdc none luks,discard,header=UUID=1b2c3d,fido2-cid=AAECAwQ,key-slot=3\n",
            ),
            (
                "/etc/trimtab/trimtab.toml",
                "# Ann's\n[daemon]\nstate = \"/statedir\"  # Ann's\nmetrics = '/promdir/a.prom'\n\
                 [[filesystem]]\npath = \"/home/un mounted/unmounted\"\npolicy = \"idle\"\n\
                 [doctor]\nignore = [\n  \"nothing-trims:/home/joe/unmounted\",\n  \"unknown\"]\n",
            ),
            (
                "/etc/mdadm.conf",
                "ARRAY /dev/md0 name=web1:0 UUID=6d9f1c2e:6d9f1c2e:6d9f1c2e:6d9f1c2e\n",
            ),
            (
                "/proc/cmdline",
                "root=/dev/mapper/web1--vg-zeta systemd.hostname=web1 ip=secret \
                 rd.luks.name=0f3c1e9a-1b2c-4d5e-8f90-a1b2c3d4e5f6=hidden \
                 rd.luks.options=0f3c1e9a-1b2c-4d5e-8f90-a1b2c3d4e5f6=discard,fido2-cid=AAECAwQ \
                 cryptdevice=/dev/sdd:safe:allow-discards cryptopts=target=hidden,key=safe\n",
            ),
            (
                "/dmsetup-table",
                "vault: 0 9 crypt aes-xts 0000000000000000000000000000000000000000 0 8:2 4096\n\
                 b: 0 9 crypt aes-xts :64:user:mykey 0 8:3 0 1 allow_discards\n",
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
            "-tpool",
            "vfat discard 0 0\\n",
            "xfs noatime,subvol=x",
            "X-fstrim.notrim",
            "none luks,discard,header=x",
            ",key-slot=x",
            "policy = \\\"idle\\\"",
            "[[filesystem]]",
            "\\\"nothing-trims:/home/x",
            ", \\\"unknown\\\"]",
            "=discard cryptdevice=/dev/",
            ":allow-discards cryptopts=target=x",
            ":64:user:x",
            " 0 8:3 0 1 allow_discards",
        ] {
            assert!(all.contains(kept), "{kept}: {all}");
        }
    }
}
