//! A synthetic tree shaped like a kernel source tree, with exact totals.

use super::list::{TreeBuilder, TreeError, TreeList};
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;
use trimtab_drive::data::DataClass;
use trimtab_drive::rng::{Stream, normal_quantile};
use trimtab_drive::units::Bytes;

/// Files of the default tree, as in the published measurement.
pub const DEFAULT_FILES: u64 = 36_706;
/// Bytes of the default tree, as in the published measurement.
pub const DEFAULT_SIZE: Bytes = Bytes(493_000_000);

/// Maximum number of files: more names would take gigabytes.
const FILES_MAX: u64 = 20_000_000;
/// Maximum directories above a file, below the tree's root.
const DEPTH_MAX: usize = 7;
/// Standard deviation of log file size: mean 3.1 times the median, as in C sources.
const SIZE_SIGMA: f64 = 1.5;
/// Standard deviation of the logarithm of files per directory.
const FAN_OUT_SIGMA: f64 = 1.1;

/// Top-level directories with their files and directories (themselves included) in a tree
/// of [`DEFAULT_FILES`] files. Sixteen more files are next to them.
const TOP: &[(&str, u64, u64)] = &[
    ("", 16, 0),
    ("Documentation", 2150, 190),
    ("arch", 12_900, 830),
    ("block", 48, 1),
    ("crypto", 116, 3),
    ("drivers", 11_712, 700),
    ("firmware", 140, 34),
    ("fs", 1790, 84),
    ("include", 3260, 78),
    ("init", 11, 1),
    ("ipc", 11, 1),
    ("kernel", 262, 11),
    ("lib", 236, 18),
    ("mm", 74, 1),
    ("net", 1462, 62),
    ("samples", 44, 13),
    ("scripts", 236, 13),
    ("security", 148, 11),
    ("sound", 1640, 92),
    ("tools", 430, 58),
    ("usr", 9, 1),
    ("virt", 11, 2),
];

impl TreeList {
    /// A tree of exactly `files` files and `size` bytes; each file has at least one byte.
    pub fn synthetic(
        files: u64,
        size: Bytes,
        class: DataClass,
        seed: u64,
    ) -> Result<Self, TreeError> {
        match files {
            0 => return Err(TreeError::Empty),
            FILES_MAX.. => return Err(TreeError::TooManyFiles(files)),
            _ if size.0 < files => return Err(TreeError::TooSmall { files, size: size.0 }),
            _ => {}
        }
        let mut sizes = file_sizes(files, size.0, &mut Stream::new(seed, "tree-sizes")).into_iter();
        let mut shape = Stream::new(seed, "tree-shape");
        let mut names = Stream::new(seed, "tree-names");
        let mut builder = TreeBuilder::default();
        let weights: Vec<f64> = TOP.iter().map(|(_, files, _)| *files as f64).collect();
        for ((top, top_files, top_dirs), share) in TOP.iter().zip(apportion(files, &weights)) {
            if share == 0 {
                continue;
            }
            let dirs = match top_dirs {
                0 => vec![String::new()],
                _ => directories(
                    top,
                    (share * top_dirs).div_ceil(*top_files),
                    &mut shape,
                    &mut names,
                ),
            };
            for (dir, count) in dirs.iter().zip(files_per_directory(share, dirs.len(), &mut shape))
            {
                if !dir.is_empty() {
                    builder.dir(dir)?;
                }
                for i in 0..count {
                    let name = file_name(&mut names, i);
                    let path = if dir.is_empty() { name } else { format!("{dir}/{name}") };
                    builder.sized_file(&path, sizes.next().unwrap_or(1))?;
                }
            }
        }
        Ok(builder.finish(class))
    }
}

/// Paths of `count` directories: `top`, and others each below an existing one, the less
/// deep of two drawn. In the order of an archiver.
fn directories(top: &str, count: u64, shape: &mut Stream, names: &mut Stream) -> Vec<String> {
    let mut dirs = vec![(top.to_string(), 1_usize)];
    while (dirs.len() as u64) < count {
        let a = shape.below(dirs.len() as u64) as usize;
        let b = shape.below(dirs.len() as u64) as usize;
        let parent = if dirs[a].1 <= dirs[b].1 { &dirs[a] } else { &dirs[b] };
        if parent.1 < DEPTH_MAX {
            let child = (format!("{}/{}{}", parent.0, word(names, 3, 9), dirs.len()), parent.1 + 1);
            dirs.push(child);
        }
    }
    let mut paths: Vec<String> = dirs.into_iter().map(|(path, _)| path).collect();
    paths.sort();
    paths
}

/// Distributes `files` over `dirs`: at least one each if possible, the rest log-normal.
fn files_per_directory(files: u64, dirs: usize, shape: &mut Stream) -> Vec<u64> {
    let weights: Vec<f64> =
        (0..dirs).map(|_| libm::exp(FAN_OUT_SIGMA * normal_quantile(shape.unit()))).collect();
    let one_each = u64::from(files >= dirs as u64);
    apportion(files - one_each * dirs as u64, &weights).into_iter().map(|n| n + one_each).collect()
}

/// Sizes that add up to `size`: evenly spaced quantiles of a log-normal distribution in
/// random order, so every seed has the same distribution.
fn file_sizes(files: u64, size: u64, rng: &mut Stream) -> Vec<u64> {
    let weights: Vec<f64> = (0..files)
        .map(|i| libm::exp(SIZE_SIGMA * normal_quantile((i as f64 + 0.5) / files as f64)))
        .collect();
    let mut sizes: Vec<u64> =
        apportion(size - files, &weights).into_iter().map(|n| n + 1).collect();
    rng.shuffle(&mut sizes);
    sizes
}

/// Splits `total` by `weights` into integers with that exact sum (largest remainder).
fn apportion(total: u64, weights: &[f64]) -> Vec<u64> {
    let sum: f64 = weights.iter().sum();
    let ideal: Vec<f64> = weights.iter().map(|w| total as f64 * w / sum).collect();
    let mut parts: Vec<u64> = ideal.iter().map(|x| *x as u64).collect();
    let mut left = total.saturating_sub(parts.iter().sum());
    let mut by_remainder: Vec<usize> = (0..parts.len()).collect();
    let remainder = |i: usize| ideal[i] - libm::floor(ideal[i]);
    by_remainder.sort_by(|a, b| remainder(*b).total_cmp(&remainder(*a)).then(a.cmp(b)));
    for i in by_remainder.iter().cycle() {
        if left == 0 {
            break;
        }
        parts[*i] += 1;
        left -= 1;
    }
    parts
}

fn word(names: &mut Stream, low: u64, high: u64) -> String {
    (0..names.between(low, high)).map(|_| char::from(b'a' + names.below(26) as u8)).collect()
}

/// A name as in source trees: letters, a number unique in its directory, an extension.
fn file_name(names: &mut Stream, number: u64) -> String {
    let ending = match names.below(100) {
        0..=43 => ".c",
        44..=84 => ".h",
        85..=88 => ".S",
        89..=93 => ".txt",
        _ => "",
    };
    format!("{}{number}{ending}", word(names, 3, 11))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::tree::EntryKind;
    use alloc::collections::BTreeMap;

    fn default_tree() -> TreeList {
        TreeList::synthetic(DEFAULT_FILES, DEFAULT_SIZE, DataClass::Text, 1).unwrap()
    }

    #[test]
    fn top_table_matches_the_default_tree() {
        assert_eq!(TOP.iter().map(|t| t.1).sum::<u64>(), DEFAULT_FILES);
        let tree = default_tree();
        assert_eq!((tree.files(), tree.size()), (DEFAULT_FILES, DEFAULT_SIZE));
        assert_eq!(tree.dirs(), TOP.iter().map(|t| t.2).sum::<u64>() + 1);
    }

    /// These figures are in docs/method/tree.md.
    #[test]
    fn depth_fan_out_and_sizes_are_as_documented() {
        let tree = default_tree();
        let mut sizes = Vec::new();
        let mut fan_out: BTreeMap<&str, u64> = BTreeMap::new();
        let mut depth = BTreeMap::<usize, u64>::new();
        let mut name_bytes = 0;
        for entry in tree.entries() {
            if let EntryKind::File { size, .. } = entry.kind {
                let (dir, name) = tree.path(*entry).rsplit_once('/').unwrap();
                sizes.push(size);
                name_bytes += name.len() as u64;
                *fan_out.entry(dir).or_default() += 1;
                *depth.entry(dir.matches('/').count()).or_default() += 1;
            }
        }
        sizes.sort_unstable();
        let at = |percent: usize| sizes[sizes.len() * percent / 100];
        let mut fan: Vec<u64> = fan_out.values().copied().collect();
        fan.sort_unstable();
        insta::assert_debug_snapshot!((
            (
                "sizes: smallest, 10 %, median, 90 %, 99 %, largest",
                [sizes[0], at(10), at(50), at(90), at(99), sizes[sizes.len() - 1]]
            ),
            (
                "files in a directory: median, 90 %, most",
                [fan[fan.len() / 2], fan[fan.len() * 9 / 10], fan[fan.len() - 1]]
            ),
            ("directories with files", fan.len()),
            ("files by directories above them below the root", depth),
            ("mean length of a file name in thousandths", name_bytes * 1000 / tree.files()),
        ));
    }

    #[test]
    fn synthetic_tree_depends_on_the_seed() {
        let paths = |seed| -> Vec<String> {
            let tree = TreeList::synthetic(500, Bytes(1_000_000), DataClass::Text, seed).unwrap();
            tree.entries().iter().map(|e| format!("{} {:?}", tree.path(*e), e.kind)).collect()
        };
        assert_eq!(paths(1), paths(1));
        assert_ne!(paths(1), paths(2));
    }

    #[test]
    fn synthetic_totals_are_exact_or_refused() {
        for (files, size) in [(1, 1), (1, 10_000_000), (5, 5), (100, 100), (999, 12_345_678)] {
            let tree = TreeList::synthetic(files, Bytes(size), DataClass::Zero, 9).unwrap();
            assert_eq!((tree.files(), tree.size()), (files, Bytes(size)));
        }
        let error =
            |files, size| TreeList::synthetic(files, Bytes(size), DataClass::Zero, 9).unwrap_err();
        assert_eq!(error(0, 100), TreeError::Empty);
        assert_eq!(error(10, 9), TreeError::TooSmall { files: 10, size: 9 });
        assert_eq!(error(u64::MAX, u64::MAX), TreeError::TooManyFiles(u64::MAX));
    }
}
