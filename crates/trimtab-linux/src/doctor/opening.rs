//! The component that opens a dm-crypt mapping at boot, and the place of its options:
//! crypttab, its copy in the initramfs, or a kernel parameter
//! (systemd-cryptsetup-generator(8), mkinitcpio's hook `encrypt`, Debian's
//! cryptsetup-initramfs).

use super::initramfs;
use crate::host::root::Root;
use trimtab_drive::usage::quoted;

const CRYPTTAB: &str = "/etc/crypttab";
/// The crypttab that mkinitcpio copies into the initramfs.
const CRYPTTAB_INITRAMFS: &str = "/etc/crypttab.initramfs";
/// Options of crypttab that open a mapping in the initramfs: systemd's and Debian's.
const IN_INITRAMFS: [&str; 2] = ["x-initrd.attach", "initramfs"];

/// The mapping to which Debian's `cryptopts=` applies if it names none.
const CRYPTOPTS_TARGET: &str = "cryptroot";

/// The place where the options are set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionPlace {
    /// A line of a crypttab.
    Line { file: &'static str, options: Vec<String> },
    /// A kernel parameter: its current form, and the form that enables discards.
    Parameter { now: Option<String>, wanted: String },
}

/// The settings by which a mapping is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    pub place: OptionPlace,
    /// Its line in crypttab, if any.
    line: Option<CrypttabLine>,
    /// The options pass discards on.
    pub discards: bool,
    /// The initramfs opens the mapping.
    pub early: bool,
}

/// A line of crypttab.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CrypttabLine {
    key: String,
    options: Vec<String>,
}

/// Parameters that cryptsetup needs in addition to the device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CryptsetupParameters {
    /// As cryptsetup options.
    pub options: Vec<String>,
    /// Manual step before cryptsetup runs.
    pub by_hand: Option<String>,
}

/// Options of crypttab, and the equivalent cryptsetup options.
const ELSEWHERE: [(&str, &str); 4] =
    [("header=", "--header"), ("keyfile-offset=", "--keyfile-offset"), ("keyfile-size=", "--keyfile-size"), ("key-slot=", "--key-slot")];

/// The program that reads the options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OptionReader {
    /// mkinitcpio's hook `encrypt`.
    Hook,
    /// Debian's initramfs scripts.
    Scripts,
    Systemd,
}

impl OptionReader {
    /// The options that this reader accepts for passing discards on.
    const fn words(self) -> &'static [&'static str] {
        match self {
            Self::Scripts => &["discard"],
            Self::Hook | Self::Systemd => &["discard", "allow-discards"],
        }
    }

    fn discards<'a>(self, mut options: impl Iterator<Item = &'a str>) -> bool {
        options.any(|option| self.words().contains(&option))
    }
}

impl Opening {
    /// Finds the settings of the mapping `name`. `carries_root`: the root filesystem is on it.
    /// `uuid`: UUID of its LUKS header.
    pub fn find(root: &Root, name: &str, uuid: &str, carries_root: bool) -> Option<Self> {
        let cmdline = root.read("/proc/cmdline").unwrap_or_default();
        let words: Vec<&str> = cmdline.split_ascii_whitespace().map(|word| word.trim_matches('"')).collect();
        let (main, early_main) = (line_in(root, CRYPTTAB, name), line_in(root, CRYPTTAB_INITRAMFS, name));
        let options = |line: &Option<CrypttabLine>| line.as_ref().map(|line| line.options.clone());
        let (line, early_line) = (options(&main), options(&early_main));
        let said = line.iter().flatten().any(|option| IN_INITRAMFS.contains(&option.as_str()));
        let hook = last(&words, "cryptdevice=").filter(|value| value.split(':').nth(1) == Some(name));
        let luks = Luks::read(&words, name, uuid, &["rd.luks.", "luks."]);
        let early = carries_root || said || early_line.is_some() || hook.is_some() || luks.named_early;
        let reader = match early {
            true if initramfs::is_debian(root) => OptionReader::Scripts,
            true if hook.is_some() && initramfs::hooks(root).is_none_or(|hooks| hooks.contains(&"encrypt".to_owned())) => {
                OptionReader::Hook
            }
            _ => OptionReader::Systemd,
        };
        let (place, discards) = match (reader, hook) {
            (OptionReader::Hook, Some(value)) => {
                let options = value.splitn(3, ':').nth(2);
                let mark = if options.is_some_and(|options| !options.is_empty()) { "," } else { ":" };
                let value = value.trim_end_matches(if options == Some("") { ":" } else { "" });
                let discards = reader.discards(options.unwrap_or_default().split(','));
                (OptionPlace::parameter(Some(format!("cryptdevice={value}")), format!("cryptdevice={value}{mark}allow-discards")), discards)
            }
            (OptionReader::Scripts, _) => {
                let target = |options: &str| options.split(',').find_map(|option| option.strip_prefix("target=").map(str::to_owned));
                let all: Vec<&str> =
                    words.iter().filter_map(|word| word.strip_prefix("cryptopts=")).filter(|list| !list.is_empty()).collect();
                match all.iter().find(|options| target(options).as_deref().unwrap_or(CRYPTOPTS_TARGET) == name) {
                    Some(options) => (OptionPlace::parameter_with("cryptopts=", Some(options)), reader.discards(options.split(','))),
                    None if all.is_empty() => OptionPlace::line(CRYPTTAB, line?, reader),
                    // The parameter replaces the whole crypttab in the initramfs, so this mapping
                    // is opened later.
                    None => OptionPlace::line(CRYPTTAB, line?, OptionReader::Systemd),
                }
            }
            _ => {
                let (file, line) = match early && (early_line.is_some() || initramfs::hooks(root).is_some()) {
                    true => (CRYPTTAB_INITRAMFS, early_line),
                    false => (CRYPTTAB, line),
                };
                let luks = if early { luks } else { Luks::read(&words, name, uuid, &["luks."]) };
                luks.place(early, file, line)?
            }
        };
        Some(Self { place, line: early_main.filter(|_| early).or(main), discards, early })
    }

    /// A detached header and key file, as the mapping's line in crypttab names them.
    pub fn elsewhere(&self) -> CryptsetupParameters {
        let Some(line) = &self.line else { return CryptsetupParameters::default() };
        let mut elsewhere = CryptsetupParameters::default();
        let value_of = |key: &str| line.options.iter().find_map(|option| option.strip_prefix(key));
        for (key, option) in ELSEWHERE {
            elsewhere
                .options
                .extend(value_of(key).map(|value| format!("{option} {}", quoted(value.split(":UUID=").next().unwrap_or(value)))));
        }
        let script = value_of("keyscript=");
        let file = line.key.split([':', '=']).next().filter(|file| file.starts_with('/') && script.is_none());
        elsewhere.options.extend(file.map(|file| format!("--key-file {}", quoted(file))));
        let on_other = |text: &str| text.starts_with('/') && text.contains([':', '=']);
        elsewhere.by_hand = match script {
            Some(script) => Some(format!("get the passphrase from the key script {script}, which cryptsetup does not run")),
            None if on_other(&line.key) || value_of("header=").is_some_and(on_other) => {
                Some("mount the device that holds the header or the key file, and put its mount point in front of their paths".to_owned())
            }
            None => None,
        };
        elsewhere
    }

    /// The instruction for adding the option.
    pub fn instruction(&self, root: &Root, name: &str) -> String {
        match &self.place {
            OptionPlace::Line { file, options } if options.iter().any(|option| option == "allow-discards") => {
                format!("add the option discard to {name} in {file}: Debian's initramfs does not know allow-discards")
            }
            OptionPlace::Line { file, .. } => format!("add the option discard to {name} in {file}"),
            OptionPlace::Parameter { now: Some(now), wanted } => {
                format!("write {wanted} in place of {now} on {}", initramfs::command_line(root))
            }
            OptionPlace::Parameter { now: None, wanted } => format!("add {wanted} to {}", initramfs::command_line(root)),
        }
    }

    /// The file or parameter, for messages.
    pub fn shown(&self) -> String {
        match &self.place {
            OptionPlace::Line { file, .. } => (*file).to_owned(),
            OptionPlace::Parameter { now, wanted } => format!("{} on the kernel command line", now.as_ref().unwrap_or(wanted)),
        }
    }

    /// True if the option is in the file that `--fix` edits.
    pub fn is_crypttab(&self) -> bool {
        matches!(self.place, OptionPlace::Line { file: CRYPTTAB, .. })
    }
}

impl OptionPlace {
    const fn parameter(now: Option<String>, wanted: String) -> Self {
        Self::Parameter { now, wanted }
    }

    /// A parameter that holds a list of options, with the discard option added.
    fn parameter_with(key: &str, options: Option<&str>) -> Self {
        match options {
            Some(options) => Self::parameter(Some(format!("{key}{options}")), format!("{key}{options},discard")),
            None => Self::parameter(None, format!("{key}discard")),
        }
    }

    fn line(file: &'static str, options: Vec<String>, reader: OptionReader) -> (Self, bool) {
        let discards = reader.discards(options.iter().map(String::as_str));
        (Self::Line { file, options }, discards)
    }
}

/// systemd's parameters for one mapping.
struct Luks<'a> {
    /// `luks.options=UUID=LIST`, with its key; overrides crypttab.
    own: Option<(String, &'a str)>,
    /// `luks.options=LIST`, for mappings that are not in crypttab.
    default: Option<(String, &'a str)>,
    /// `luks.name=` or `luks.uuid=` names the mapping.
    named: bool,
    /// A parameter that only the initramfs reads names the mapping.
    named_early: bool,
    uuid: String,
}

impl<'a> Luks<'a> {
    fn read(words: &[&'a str], name: &str, uuid: &str, prefixes: &[&str]) -> Self {
        let mut luks = Self { own: None, default: None, named: false, named_early: false, uuid: uuid.to_owned() };
        let read = |word: &'a str| prefixes.iter().find_map(|prefix| Some((*prefix, word.strip_prefix(prefix)?.split_once('=')?)));
        let all: Vec<_> = words.iter().filter_map(|word| read(word)).collect();
        for (prefix, (key, value)) in &all {
            let named = match (*key, value.split_once('=')) {
                ("name", Some((of, given))) if given == name => Some(of),
                ("uuid", _) => Some(value.trim_start_matches("luks-")).filter(|of| name.strip_prefix("luks-") == Some(of)),
                _ => None,
            };
            if let Some(of) = named {
                luks.named = true;
                luks.named_early |= *prefix == "rd.luks.";
                luks.uuid = of.to_owned();
            }
        }
        for (prefix, (key, value)) in all.into_iter().filter(|(_, (key, _))| *key == "options") {
            let is_uuid = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
            match value.split_once('=').filter(|(of, _)| is_uuid(of)) {
                Some((of, options)) if of == luks.uuid => luks.own = Some((format!("{prefix}{key}={of}="), options)),
                Some(_) => {}
                None => luks.default = Some((format!("{prefix}{key}="), value)),
            }
        }
        luks
    }

    /// The place of the options in force, and whether they enable discards.
    fn place(self, early: bool, file: &'static str, line: Option<Vec<String>>) -> Option<(OptionPlace, bool)> {
        let prefix = if early { "rd.luks." } else { "luks." };
        let of = |(key, options): (String, &str)| {
            (OptionPlace::parameter_with(&key, Some(options)), OptionReader::Systemd.discards(options.split(',')))
        };
        match (self.own, line, self.default) {
            (Some(own), ..) => Some(of(own)),
            (None, Some(options), _) => Some(OptionPlace::line(file, options, OptionReader::Systemd)),
            (None, None, Some(default)) if self.named => Some(of(default)),
            _ if self.named => Some((OptionPlace::parameter_with(&format!("{prefix}options={}=", self.uuid), None), false)),
            _ => None,
        }
    }
}

/// The value of the last word with the given prefix.
fn last<'a>(words: &[&'a str], prefix: &str) -> Option<&'a str> {
    words.iter().filter_map(|word| word.strip_prefix(prefix)).next_back()
}

/// Finds the line `name device key options`; `None` if there is none.
fn line_in(root: &Root, file: &str, name: &str) -> Option<CrypttabLine> {
    let text = root.read(file)?;
    let mut lines = text.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let fields = lines.find(|fields| fields.first() == Some(&name) && fields.len() > 1)?;
    let options = fields.get(3).map_or(Vec::new(), |options| options.split(',').map(str::to_owned).collect());
    Some(CrypttabLine { key: fields.get(2).copied().unwrap_or_default().to_owned(), options })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEBIAN: (&str, &str) = ("etc/os-release", "ID=debian\n");
    const ARCH: (&str, &str) = ("etc/mkinitcpio.conf", "HOOKS=(base systemd sd-encrypt)\n");
    const BUSYBOX: (&str, &str) = ("etc/mkinitcpio.conf", "HOOKS=(base udev encrypt)\n");

    /// Place, discard state and instruction for the mapping `c` with the UUID `ab-1`.
    fn found(cmdline: &str, files: &[(&str, &str)], carries_root: bool) -> Option<(String, bool, String)> {
        let tree = tempfile::tempdir().unwrap();
        for (file, text) in files.iter().chain([&("proc/cmdline", cmdline)]) {
            std::fs::create_dir_all(tree.path().join(file).parent().unwrap()).unwrap();
            std::fs::write(tree.path().join(file), text).unwrap();
        }
        let root = Root::recorded(tree.path()).unwrap();
        let opening = Opening::find(&root, "c", "ab-1", carries_root)?;
        Some((opening.shown(), opening.discards, opening.instruction(&root, "c")))
    }

    #[test]
    fn crypt_options_are_read_like_the_initramfs() {
        let line = ("etc/crypttab", "c UUID=ab-1 none luks\n");
        let copy = ("etc/crypttab.initramfs", "c UUID=ab-1 none discard\n");
        for (cmdline, files, root, place, discards) in [
            ("cryptdevice=UUID=ab-1:c", &[BUSYBOX][..], true, "cryptdevice=UUID=ab-1:c on the kernel command line", false),
            ("cryptdevice=UUID=ab-1:c:allow-discards", &[BUSYBOX], true, "cryptdevice=UUID=ab-1:c:allow-discards on the", true),
            ("cryptdevice=/dev/sda2:c:no-read-workqueue,allow-discards", &[], true, "cryptdevice=/dev/sda2:c:no-read", true),
            ("cryptdevice=UUID=ab-1:c:discard", &[BUSYBOX], true, "cryptdevice=UUID=ab-1:c:discard on the", true),
            ("cryptdevice=UUID=ab-1:c:discards", &[BUSYBOX], true, "cryptdevice=UUID=ab-1:c:discards on the", false),
            // sd-encrypt ignores that parameter.
            ("cryptdevice=UUID=ab-1:c:allow-discards rd.luks.name=ab-1=c", &[ARCH], true, "rd.luks.options=ab-1=discard on the", false),
            ("rd.luks.name=ab-1=c rd.luks.options=discard", &[ARCH], true, "rd.luks.options=discard on the", true),
            (
                "rd.luks.name=ab-1=c rd.luks.options=ab-1=timeout=9,discard",
                &[ARCH],
                true,
                "rd.luks.options=ab-1=timeout=9,discard on",
                true,
            ),
            ("rd.luks.name=ab-1=c luks.options=allow-discards", &[], true, "luks.options=allow-discards on the", true),
            ("rd.luks.name=ab-1=c rd.luks.options=cd-2=discard", &[], true, "rd.luks.options=ab-1=discard on the", false),
            ("rd.luks.name=ab-1=c rd.luks.options=no-discard-here", &[], true, "rd.luks.options=no-discard-here on", false),
            // A list without a UUID does not apply to mappings in crypttab; a list with a UUID
            // does.
            ("rd.luks.options=discard", &[line], true, "/etc/crypttab", false),
            ("rd.luks.options=ab-1=discard", &[line], true, "rd.luks.options=ab-1=discard on the", true),
            // After the initramfs, rd.luks is ignored.
            ("rd.luks.options=ab-1=discard", &[line], false, "/etc/crypttab", false),
            ("luks.options=ab-1=discard", &[line], false, "luks.options=ab-1=discard on the", true),
            ("quiet", &[ARCH, line, copy], true, "/etc/crypttab.initramfs", true),
            ("quiet", &[line, DEBIAN], true, "/etc/crypttab", false),
            ("rd.luks.options=ab-1=discard cryptdevice=x:c:allow-discards", &[line, DEBIAN], true, "/etc/crypttab", false),
            ("cryptopts=target=c,source=/dev/sda2,discard", &[DEBIAN], true, "cryptopts=target=c,source=/dev/sda2,discard on", true),
            ("cryptopts=target=c,source=/dev/sda2,allow-discards", &[DEBIAN], true, "cryptopts=target=c,source=/dev/sda2,allow", false),
            ("cryptopts= quiet", &[line, DEBIAN], true, "/etc/crypttab", false),
            ("cryptopts=target=d,source=x", &[DEBIAN, ("etc/crypttab", "c /dev/x none allow-discards\n")], true, "/etc/crypttab", true),
            ("quiet", &[DEBIAN, ("etc/crypttab", "c /dev/x none allow-discards\n")], true, "/etc/crypttab", false),
        ] {
            let (shown, says, _) = found(cmdline, files, root).unwrap_or_else(|| panic!("{cmdline}"));
            assert!(shown.starts_with(place), "{cmdline}: {shown}");
            assert_eq!(says, discards, "{cmdline}");
        }
        assert_eq!(found("quiet", &[], true), None);
        assert_eq!(found("cryptopts=source=/dev/sda2,discard", &[DEBIAN], true), None, "it is for the mapping cryptroot");
        assert_eq!(found("rd.luks.options=discard", &[], false), None, "nothing says that it opens this one");
    }

    #[test]
    fn detached_header_and_key_file_become_options() {
        for (line, options, by_hand) in [
            ("c /dev/x none luks", &[][..], None),
            ("c /dev/x - luks", &[], None),
            ("c /dev/x", &[], None),
            ("c /dev/x /etc/keys/c.key luks", &["--key-file /etc/keys/c.key"], None),
            ("c /dev/x none luks,header=/boot/c.header", &["--header /boot/c.header"], None),
            (
                "c /dev/x /k luks,header=/h,keyfile-offset=512,keyfile-size=64",
                &["--header /h", "--keyfile-offset 512", "--keyfile-size 64", "--key-file /k"],
                None,
            ),
            ("c /dev/x /k:LABEL=stick luks", &["--key-file /k"], Some("mount the device that holds the header or the key file")),
            ("c /dev/x none luks,header=/h:UUID=12", &["--header /h"], Some("mount the device that holds")),
            ("c /dev/x a luks,keyscript=/lib/cryptsetup/scripts/decrypt_derived", &[], Some("get the passphrase from the key script")),
        ] {
            let tree = tempfile::tempdir().unwrap();
            std::fs::create_dir(tree.path().join("etc")).unwrap();
            std::fs::write(tree.path().join("etc/crypttab"), line).unwrap();
            let found = Opening::find(&Root::recorded(tree.path()).unwrap(), "c", "ab-1", false).unwrap().elsewhere();
            assert_eq!(found.options, options, "{line}");
            let starts = by_hand.is_none_or(|start| found.by_hand.as_ref().is_some_and(|text| text.starts_with(start)));
            assert!(starts && found.by_hand.is_some() == by_hand.is_some(), "{line}: {:?}", found.by_hand);
        }
    }

    #[test]
    fn crypt_discard_advice_names_the_place_in_effect() {
        for (cmdline, files, expected) in [
            (
                "cryptdevice=UUID=ab-1:c",
                BUSYBOX,
                "write cryptdevice=UUID=ab-1:c:allow-discards in place of cryptdevice=UUID=ab-1:c on the kernel",
            ),
            ("cryptdevice=x:c:", BUSYBOX, "write cryptdevice=x:c:allow-discards in place of"),
            ("cryptdevice=x:c:no-read-workqueue", BUSYBOX, "write cryptdevice=x:c:no-read-workqueue,allow-discards in place of"),
            ("rd.luks.name=ab-1=c", ARCH, "add rd.luks.options=ab-1=discard to the kernel command line"),
            ("rd.luks.uuid=ab-1 rd.luks.name=ab-1=c rd.luks.options=tries=1", ARCH, "write rd.luks.options=tries=1,discard in place of"),
            ("", ("etc/crypttab.initramfs", "c /dev/x\n"), "add the option discard to c in /etc/crypttab.initramfs"),
        ] {
            let (.., instruction) = found(cmdline, &[files], true).unwrap_or_else(|| panic!("{cmdline}"));
            assert!(instruction.starts_with(expected), "{cmdline}: {instruction}");
        }
    }
}
