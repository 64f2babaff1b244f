//! Recorded `/sys`, `/proc` and `/etc` trees in a compact text form
//! (`tests/fixtures/sysroots/*.txt`).
//!
//! ```text
//! # expect verdict: blocked              the doctor's expected answer; also: subject, at, reaches,
//!                                        finding, to do, action, trimmed by
//! /path = text                           a file; \n is a line end
//! /path -> target                        a symbolic link
//! /path <<                               a file of several lines, up to a line with a single dot
//! disk DIR MAJ:MIN SECTORS               a block device: dev, size, stat, and its links in
//!                                        /sys/class/block, /sys/block, /sys/dev/block
//! part DIR MAJ:MIN START SECTORS         a partition of the disk above it
//! queue DIR key=value ...                queue attributes
//! below DIR NAME ...                     slaves of a device
//! identify DIR model|firmware|flags      VPD page 89h: flags trim, drat, rzat
//! dir /path                              a directory
//! hex /path 00ff...                      a file of bytes
//! vpd DIR unmap [BLOCKS]|none            VPD pages B0h and B2h, with a limit of BLOCKS (4194240) on
//!                                        UNMAP, or without UNMAP
//! ```

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The doctor's expected answer for a fixture.
#[derive(Debug, Default)]
pub struct Expected {
    pub subject: String,
    pub verdict: String,
    pub at: Vec<String>,
    pub findings: Vec<String>,
    pub to_do: Vec<String>,
    pub actions: Vec<String>,
    pub trimmed_by: Vec<String>,
    pub reaches: Vec<String>,
}

/// An unpacked fixture.
pub struct Sysroot {
    pub directory: tempfile::TempDir,
    pub expected: Expected,
}

impl Sysroot {
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// All fixtures: name and text.
pub fn fixtures() -> Vec<(String, String)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/sysroots");
    let mut all: Vec<(String, String)> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "txt"))
        .map(|path| {
            (
                path.file_stem().unwrap().to_str().unwrap().to_owned(),
                fs::read_to_string(&path).unwrap(),
            )
        })
        .collect();
    all.sort();
    all
}

/// Unpacks a fixture. The last definition of a path wins.
pub fn unpack(text: &str) -> Sysroot {
    // Many small files: in memory if possible.
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let mut unpacker =
        Unpacker { root: directory.path().to_owned(), expected: Expected::default() };
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(path) = line.strip_suffix(" <<") {
            let body: Vec<&str> = lines.by_ref().take_while(|l| *l != ".").collect();
            unpacker.file(path, (body.join("\n") + "\n").as_bytes());
        } else {
            unpacker.line(line);
        }
    }
    Sysroot { expected: unpacker.expected, directory }
}

struct Unpacker {
    root: PathBuf,
    expected: Expected,
}

impl Unpacker {
    fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [] => {}
            ["#", "expect", ..] => self.expect(line.trim_start_matches("# expect ")),
            ["#", ..] => {}
            ["dir", dir] => {
                fs::create_dir_all(self.root.join(dir.trim_start_matches('/'))).unwrap()
            }
            ["disk", dir, dev, sectors] => self.device(dir, dev, sectors, true),
            ["part", dir, dev, start, sectors] => {
                self.device(dir, dev, sectors, false);
                self.file(&format!("{dir}/start"), start.as_bytes());
                self.file(&format!("{dir}/partition"), b"1\n");
            }
            ["queue", dir, attributes @ ..] => {
                for attribute in attributes {
                    let (key, value) = attribute.split_once('=').unwrap();
                    self.file(&format!("{dir}/queue/{key}"), value.replace('_', " ").as_bytes());
                }
            }
            ["below", dir, names @ ..] => {
                for name in names {
                    self.link(&format!("{dir}/slaves/{name}"), &format!("/sys/class/block/{name}"));
                }
            }
            ["identify", dir, ..] => self.identify(dir, line.split_once(dir).unwrap().1.trim()),
            ["vpd", dir, "none"] => self.vpd(dir, None),
            ["vpd", dir, "unmap"] => self.vpd(dir, Some(4_194_240)),
            ["vpd", dir, "unmap", blocks] => self.vpd(dir, Some(blocks.parse().unwrap())),
            ["hex", path, digits] => {
                let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
                self.file(path, &(0..digits.len() / 2).map(|i| byte(2 * i)).collect::<Vec<_>>());
            }
            [path, "->", target] => self.link(path, target),
            [path, "=", ..] => self.file(
                path,
                (line.split_once(" = ").map_or("", |l| l.1).replace("\\n", "\n") + "\n").as_bytes(),
            ),
            _ => panic!("not understood: {line}"),
        }
    }

    fn expect(&mut self, what: &str) {
        let (key, value) = what.split_once(": ").unwrap();
        let value = value.to_owned();
        match key {
            "subject" => self.expected.subject = value,
            "verdict" => self.expected.verdict = value,
            "at" => self.expected.at.push(value),
            "finding" => self.expected.findings.push(value),
            "to do" => self.expected.to_do.push(value),
            "action" => self.expected.actions.push(value),
            "trimmed by" => self.expected.trimmed_by.push(value),
            "reaches" => self.expected.reaches.push(value),
            _ => panic!("not understood: {what}"),
        }
    }

    fn at(&self, path: &str) -> PathBuf {
        let path = self.root.join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    fn file(&self, path: &str, bytes: &[u8]) {
        fs::write(self.at(path), bytes).unwrap();
    }

    fn link(&self, path: &str, target: &str) {
        let path = self.at(path);
        let _ = fs::remove_file(&path);
        symlink(target, path).unwrap();
    }

    fn device(&self, dir: &str, dev: &str, sectors: &str, whole: bool) {
        let name = dir.rsplit('/').next().unwrap();
        self.file(&format!("{dir}/dev"), dev.as_bytes());
        self.file(&format!("{dir}/size"), sectors.as_bytes());
        self.file(&format!("{dir}/stat"), b"10 0 80 4 20 0 160 9 0 10 13 3 0 4096 1 2 1\n");
        self.link(&format!("/sys/class/block/{name}"), dir);
        self.link(&format!("/sys/dev/block/{dev}"), dir);
        if whole {
            self.link(&format!("/sys/block/{name}"), dir);
        }
    }

    /// `model|firmware|trim drat rzat`
    fn identify(&self, dir: &str, what: &str) {
        let parts: Vec<&str> = what.split('|').collect();
        let mut page = vec![0_u8; 572];
        page[1] = 0x89;
        let mut set = |word: usize, value: u16| {
            page[60 + 2 * word..62 + 2 * word].copy_from_slice(&value.to_le_bytes())
        };
        for (from, width, text) in [(27, 40, parts[0]), (23, 8, parts[1])] {
            for (i, pair) in format!("{text:<width$}").as_bytes().chunks(2).enumerate() {
                set(from + i, u16::from_be_bytes([pair[0], pair[1]]));
            }
        }
        let flag = |name: &str| u16::from(parts[2].split(' ').any(|f| f == name));
        set(169, flag("trim"));
        set(69, flag("drat") << 14 | flag("rzat") << 5);
        self.file(&format!("{dir}/device/vpd_pg89"), &page);
    }

    fn vpd(&self, dir: &str, blocks: Option<u32>) {
        let mut limits = vec![0_u8; 64];
        (limits[1], limits[3]) = (0xb0, 60);
        let mut provisioning = vec![0, 0xb2, 0, 4, 0, 0, 0, 0];
        if let Some(blocks) = blocks {
            limits[20..24].copy_from_slice(&blocks.to_be_bytes());
            limits[24..28].copy_from_slice(&1_u32.to_be_bytes());
            provisioning[5] = 0x80;
        }
        self.file(&format!("{dir}/device/vpd_pgb0"), &limits);
        self.file(&format!("{dir}/device/vpd_pgb2"), &provisioning);
    }
}
