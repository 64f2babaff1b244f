//! Pictures of a run as JSON: one character a superblock and moment, so that a drive over months stays small.

use super::{Check, Checked, Name};
use serde::{Deserialize, Serialize};
use trimtab_drive::units::Nanos;
use trimtab_sim::run::Axis;
use trimtab_sim::run::pictures::{LatencyMap, Pictures, SHARE_MAX, SuperblockMap};

/// The characters for 0 to 63.
pub const ALPHABET: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";

/// Pictures.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PicturesV1 {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    superblocks: Option<Checked<SuperblocksV1>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    latencies: Vec<Checked<LatenciesV1>>,
}

/// [`SuperblockMap`]: shares in 63rds, `0`–`9`, `A`–`Z`, `a`–`z`, `-`, `_` for 0 to 63.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SuperblocksV1 {
    axis: Name<Axis>,
    superblocks: u32,
    x: Vec<u64>,
    needed: String,
    unneeded: String,
    stale: String,
    one_bit: String,
}

/// [`LatencyMap`]: column, bucket, operations. Bucket `b` begins at `(4 + b % 4) << (b / 4 - 2)` nanoseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LatenciesV1 {
    phase: String,
    every_ns: u64,
    cells: Vec<(u32, u32, u64)>,
    trimming: Vec<u32>,
    #[serde(default, skip_serializing_if = "is_zero")]
    longest_ns: u64,
}

/// What earlier versions did not have is left out where it is empty, so that ids stay.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
const fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// One character each.
pub fn written(values: &[u8]) -> String {
    values.iter().map(|value| char::from(ALPHABET[usize::from(*value & SHARE_MAX)])).collect()
}

fn read(text: &str) -> Result<Vec<u8>, String> {
    let value = |c: u8| ALPHABET.iter().position(|known| *known == c).map(|at| at as u8);
    text.bytes().map(|c| value(c).ok_or_else(|| format!("{:?} is not a share of a superblock", char::from(c)))).collect()
}

impl Check for SuperblocksV1 {
    fn check(&self) -> Result<(), String> {
        let Self { axis: _, superblocks, x, needed, unneeded, stale, one_bit } = self;
        let all = u64::from(*superblocks) * x.len() as u64;
        for layer in [needed, unneeded, stale, one_bit] {
            if layer.len() as u64 != all {
                return Err(format!("{superblocks} superblocks at {} moments are {all} values, not {}", x.len(), layer.len()));
            }
        }
        if *superblocks as usize > SuperblockMap::SUPERBLOCKS_MAX || !x.is_sorted() {
            return Err(format!("more than {} superblocks, or moments that do not increase", SuperblockMap::SUPERBLOCKS_MAX));
        }
        let (a, b, c, bits) = (read(needed)?, read(unneeded)?, read(stale)?, read(one_bit)?);
        if bits.iter().any(|bit| *bit > 1) || (0..a.len()).any(|at| u32::from(a[at]) + u32::from(b[at]) + u32::from(c[at]) > 63) {
            return Err("a superblock holds more than itself".to_owned());
        }
        Ok(())
    }
}

impl Check for LatenciesV1 {
    fn check(&self) -> Result<(), String> {
        let Self { phase, every_ns, cells, trimming, longest_ns: _ } = self;
        let increases = cells.windows(2).all(|pair| (pair[0].0, pair[0].1) < (pair[1].0, pair[1].1));
        let possible = cells.iter().all(|(_, bucket, count)| *bucket <= LatencyMap::BUCKET_MAX && *count > 0);
        if *every_ns == 0 || !increases || !possible || trimming.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(format!("the latencies of '{}' are in no order, or impossible", phase.escape_debug()));
        }
        Ok(())
    }
}

impl From<&Pictures> for PicturesV1 {
    fn from(pictures: &Pictures) -> Self {
        let superblocks = pictures.superblocks.as_ref().map(|map| {
            Checked(SuperblocksV1 {
                axis: Name(map.axis),
                superblocks: map.superblocks,
                x: map.x.clone(),
                needed: written(&map.needed),
                unneeded: written(&map.unneeded),
                stale: written(&map.stale),
                one_bit: written(&map.one_bit),
            })
        });
        let latencies = pictures.latencies.iter().map(|map| {
            Checked(LatenciesV1 {
                phase: map.phase.clone(),
                every_ns: map.every.0,
                cells: map.cells.clone(),
                trimming: map.trimming.clone(),
                longest_ns: map.longest.0,
            })
        });
        Self { superblocks, latencies: latencies.collect() }
    }
}

impl From<PicturesV1> for Pictures {
    fn from(shape: PicturesV1) -> Self {
        // What was read has been looked at already.
        let values = |text: &str| read(text).unwrap_or_default();
        let superblocks = shape.superblocks.map(|Checked(map)| SuperblockMap {
            axis: map.axis.0,
            superblocks: map.superblocks,
            needed: values(&map.needed),
            unneeded: values(&map.unneeded),
            stale: values(&map.stale),
            one_bit: values(&map.one_bit),
            x: map.x,
        });
        let latency = |Checked(map): Checked<LatenciesV1>| LatencyMap {
            phase: map.phase,
            every: Nanos(map.every_ns),
            cells: map.cells,
            trimming: map.trimming,
            longest: Nanos(map.longest_ns),
        };
        Self { superblocks, latencies: shape.latencies.into_iter().map(latency).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_refused() {
        let good = r#"{"superblocks":{"axis":"bytes-written","superblocks":2,"x":[0,5],"needed":"0_A0","unneeded":"0000","stale":"0001","one_bit":"0001"},"latencies":[{"phase":"load","every_ns":100,"cells":[[0,9,1],[0,10,2]],"trimming":[0]}]}"#;
        let read = |text: &str| serde_json::from_str::<PicturesV1>(text).map(Pictures::from);
        let pictures = read(good).unwrap();
        assert_eq!(serde_json::to_string(&PicturesV1::from(&pictures)).unwrap(), good);
        assert_eq!(pictures.superblocks.unwrap().needed, [0, 63, 10, 0]);
        for (was, is, said) in [
            ("0_A0", "0_A", "are 4 values, not 3"),
            ("0_A0", "0_!0", "not a share"),
            ("\"0001\",\"one", "\"0100\",\"one", "more than itself"),
            ("[0,5]", "[5,0]", "do not increase"),
            ("[0,10,2]", "[0,8,2]", "in no order"),
            ("[0,10,2]", "[0,10,0]", "in no order"),
            ("[0,10,2]", "[0,256,1]", "in no order"),
        ] {
            assert!(good.contains(was), "{was}");
            let refused = read(&good.replacen(was, is, 1)).unwrap_err().to_string();
            assert!(refused.contains(said), "{is}: {refused}");
        }
    }
}
