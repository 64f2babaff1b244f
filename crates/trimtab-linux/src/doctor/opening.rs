//! Where the options of a dm-crypt mapping stand: in a line of crypttab, or in a
//! parameter of the kernel (systemd-cryptsetup-generator(8), mkinitcpio's hook `encrypt`,
//! Debian's cryptsetup-initramfs).

use super::initramfs;
use crate::host::root::Root;

const CRYPTTAB: &str = "/etc/crypttab";
/// The crypttab that mkinitcpio copies into the initramfs.
const CRYPTTAB_INITRAMFS: &str = "/etc/crypttab.initramfs";
/// Options of crypttab that open a mapping in the initramfs: systemd's and Debian's.
const IN_INITRAMFS: [&str; 2] = ["x-initrd.attach", "initramfs"];
/// Options of crypttab that name a part of the header or of the key.
const ELSEWHERE: [&str; 5] =
    ["header=", "keyfile-offset=", "keyfile-size=", "key-slot=", "keyscript="];

/// The place where the options are set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionPlace {
    /// A line of this crypttab.
    Line(&'static str),
    /// A parameter on the kernel command line.
    Parameter(String),
}

/// The settings by which a mapping is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    pub place: OptionPlace,
    /// The options pass discards on.
    pub discards: bool,
    /// The initramfs opens the mapping.
    pub early: bool,
    /// The crypttab whose line names a detached header, a key file or a part of one.
    pub elsewhere: Option<&'static str>,
    has_unknown_word: bool,
}

impl Opening {
    /// Finds the settings of the mapping `name`. `carries_root`: the root filesystem is
    /// on it. `uuid`: UUID of its LUKS header.
    pub fn find(root: &Root, name: &str, uuid: &str, carries_root: bool) -> Option<Self> {
        let [copied, main] = [CRYPTTAB_INITRAMFS, CRYPTTAB].map(|file| line_in(root, file, name));
        let is_marked = main.as_ref().is_some_and(|line| {
            line.options.iter().any(|option| IN_INITRAMFS.contains(&option.as_str()))
        });
        let cmdline = root.read("/proc/cmdline").unwrap_or_default();
        let parameter = parameter(&cmdline, name, uuid);
        let early = carries_root || is_marked || copied.is_some() || parameter.is_some();
        let line = copied.or(main);
        let elsewhere = line.as_ref().filter(|line| line.is_elsewhere).map(|line| line.file);
        let (place, options) = match (parameter, line) {
            (Some((word, options)), _) => (OptionPlace::Parameter(word), options),
            (None, Some(line)) => (OptionPlace::Line(line.file), line.options),
            (None, None) => return None,
        };
        let has = |word: &str| options.iter().any(|option| option == word);
        let has_unknown_word = has("allow-discards") && early && initramfs::is_debian(root);
        Some(Self {
            place,
            discards: has("discard") || has("allow-discards") && !has_unknown_word,
            early,
            elsewhere,
            has_unknown_word,
        })
    }

    /// The instruction for adding the option.
    pub fn instruction(&self, root: &Root, name: &str) -> String {
        let why = if self.has_unknown_word {
            ": Debian's initramfs does not know allow-discards"
        } else {
            ""
        };
        match &self.place {
            OptionPlace::Line(file) => format!("add the option discard to {name} in {file}{why}"),
            OptionPlace::Parameter(word) => format!(
                "add the option discard to {name} beside {word} on {}: \
                    cryptdevice=DEVICE:NAME:allow-discards, rd.luks.options=UUID=discard or \
                    cryptopts=…,discard, whichever opens it{why}",
                initramfs::command_line(root)
            ),
        }
    }

    /// The file or parameter, for messages.
    pub fn shown(&self) -> String {
        match &self.place {
            OptionPlace::Line(file) => (*file).to_owned(),
            OptionPlace::Parameter(word) => format!("{word} on the kernel command line"),
        }
    }

    /// True if the option is in the file that `--fix` edits.
    pub fn is_crypttab(&self) -> bool {
        self.place == OptionPlace::Line(CRYPTTAB)
    }
}

/// The parameter that opens a mapping, with its options: the last one that has any.
fn parameter(cmdline: &str, name: &str, uuid: &str) -> Option<(String, Vec<String>)> {
    let words = || cmdline.split_ascii_whitespace().map(|word| word.trim_matches('"'));
    let is_uuid = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let luks = |word: &str, key: &str| {
        let word = word.strip_prefix("rd.").unwrap_or(word);
        word.strip_prefix("luks.")?.strip_prefix(key)?.strip_prefix('=').map(str::to_owned)
    };
    let names = |word: &str| {
        luks(word, "name").is_some_and(|value| value == format!("{uuid}={name}"))
            || luks(word, "uuid").is_some_and(|value| {
                value.trim_start_matches("luks-") == uuid && name == format!("luks-{uuid}")
            })
    };
    let options_in = |word: &str| {
        if let Some(value) = luks(word, "options") {
            return match value.split_once('=').filter(|(of, _)| is_uuid(of)) {
                Some((of, options)) => (of == uuid).then(|| options.to_owned()),
                // A list without a UUID is for mappings that parameters name.
                None => words().any(names).then_some(value),
            };
        }
        match word.split_once('=')? {
            ("cryptdevice", value) if value.split(':').nth(1) == Some(name) => {
                Some(value.splitn(3, ':').nth(2).unwrap_or_default().to_owned())
            }
            ("cryptopts", value)
                if value.split(',').any(|option| option.strip_prefix("target=") == Some(name)) =>
            {
                Some(value.to_owned())
            }
            _ => names(word).then(String::new),
        }
    };
    let found = words()
        .filter_map(|word| Some((word, options_in(word)?)))
        .max_by_key(|(_, options)| !options.is_empty());
    found.map(|(word, options)| (word.to_owned(), options.split(',').map(str::to_owned).collect()))
}

/// A line of crypttab.
struct CrypttabLine {
    file: &'static str,
    options: Vec<String>,
    is_elsewhere: bool,
}

/// Finds the line `name device key options`; `None` if there is none.
fn line_in(root: &Root, file: &'static str, name: &str) -> Option<CrypttabLine> {
    let text = root.read(file)?;
    let mut lines = text.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let fields = lines.find(|fields| fields.first() == Some(&name) && fields.len() > 1)?;
    let options: Vec<String> =
        fields.get(3).map_or(Vec::new(), |options| options.split(',').map(str::to_owned).collect());
    let names_a_part = |option: &String| ELSEWHERE.iter().any(|key| option.starts_with(key));
    let is_elsewhere =
        fields.get(2).is_some_and(|key| key.starts_with('/')) || options.iter().any(names_a_part);
    Some(CrypttabLine { file, options, is_elsewhere })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEBIAN: (&str, &str) = ("etc/os-release", "ID=debian\n");

    /// The opening of the mapping `c` with the UUID `ab-1`.
    fn found(cmdline: &str, files: &[(&str, &str)], carries_root: bool) -> Option<Opening> {
        let tree = tempfile::tempdir().unwrap();
        for (file, text) in files.iter().chain([&("proc/cmdline", cmdline)]) {
            std::fs::create_dir_all(tree.path().join(file).parent().unwrap()).unwrap();
            std::fs::write(tree.path().join(file), text).unwrap();
        }
        Opening::find(&Root::recorded(tree.path()).unwrap(), "c", "ab-1", carries_root)
    }

    #[test]
    fn crypt_options_are_found_where_they_stand() {
        let line = ("etc/crypttab", "c UUID=ab-1 none luks\n");
        let copy = ("etc/crypttab.initramfs", "c UUID=ab-1 none discard\n");
        let words = ("etc/crypttab", "c /dev/x none allow-discards\n");
        for (cmdline, files, place, discards) in [
            (
                "cryptdevice=UUID=ab-1:c",
                &[][..],
                "cryptdevice=UUID=ab-1:c on the kernel command line",
                false,
            ),
            (
                "cryptdevice=UUID=ab-1:c:allow-discards",
                &[],
                "cryptdevice=UUID=ab-1:c:allow-discards on the",
                true,
            ),
            (
                "cryptdevice=/dev/sda2:c:no-read-workqueue,allow-discards",
                &[],
                "cryptdevice=/dev/sda2:c:no-read",
                true,
            ),
            (
                "cryptdevice=UUID=ab-1:c:discards",
                &[],
                "cryptdevice=UUID=ab-1:c:discards on the",
                false,
            ),
            (
                "rd.luks.name=ab-1=c rd.luks.options=discard",
                &[],
                "rd.luks.options=discard on the",
                true,
            ),
            (
                "rd.luks.options=ab-1=timeout=9,discard rd.luks.name=ab-1=c",
                &[],
                "rd.luks.options=ab-1=timeout=9,discard on",
                true,
            ),
            (
                "rd.luks.name=ab-1=c rd.luks.options=cd-2=discard",
                &[],
                "rd.luks.name=ab-1=c on the",
                false,
            ),
            ("rd.luks.options=discard", &[line], "/etc/crypttab", false),
            ("luks.options=ab-1=discard", &[line], "luks.options=ab-1=discard on the", true),
            ("quiet", &[line, copy], "/etc/crypttab.initramfs", true),
            (
                "cryptopts=target=c,source=/dev/sda2,discard",
                &[DEBIAN],
                "cryptopts=target=c,source=/dev/sda2,discard on",
                true,
            ),
            (
                "cryptopts=target=c,source=/dev/sda2,allow-discards",
                &[DEBIAN],
                "cryptopts=target=c,source=/dev/sda2,allow",
                false,
            ),
            ("quiet", &[DEBIAN, words], "/etc/crypttab", false),
            ("quiet", &[words], "/etc/crypttab", true),
        ] {
            let opening = found(cmdline, files, true).unwrap_or_else(|| panic!("{cmdline}"));
            assert!(opening.shown().starts_with(place), "{cmdline}: {}", opening.shown());
            assert_eq!(opening.discards, discards, "{cmdline}");
        }
        assert_eq!(found("quiet", &[], true), None);
        assert_eq!(
            found("rd.luks.options=discard", &[], false),
            None,
            "nothing says that it opens this one"
        );
    }

    #[test]
    fn detached_header_or_key_file_is_elsewhere() {
        for (line, expected) in [
            ("c /dev/x none luks", false),
            ("c /dev/x", false),
            ("c /dev/x /etc/keys/c.key luks", true),
            ("c /dev/x none luks,header=/boot/c.header", true),
            ("c /dev/x a luks,keyscript=/lib/cryptsetup/scripts/decrypt_derived", true),
        ] {
            assert_eq!(
                found("", &[("etc/crypttab", line)], false).unwrap().elsewhere.is_some(),
                expected,
                "{line}"
            );
        }
    }
}
