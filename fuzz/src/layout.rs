//! Layout data of filesystems: the superblock of ext4, the geometry of XFS, the chunk
//! items of btrfs. For any bytes, windows are few and in order, and a pass over them
//! trims each of their bytes once and nothing else.

use trimtab_drive::units::{Bytes, Nanos};
use trimtab_linux::sys::filesystem::XfsGeometry;
use trimtab_linux::trim::layout::WindowLayout;
use trimtab_linux::trim::{btrfs, ext4};
use trimtab_sim::policy::{Action, Observation, PolicySpec, PolicyState};
use trimtab_sim::target::{TrimOutcome, TrimWindow};

/// Passes with more requests than this are cut off.
const REQUESTS_MAX: usize = 300;
/// The most windows of a [`WindowLayout`], with separate windows for the realtime section
/// of XFS.
const WINDOWS_MAX: usize = 2 * (1 << 14) + 1;

/// Runs one input.
pub fn run(bytes: &[u8]) {
    let Some((&kind, rest)) = bytes.split_first() else { return };
    let layout = match kind % 3 {
        0 => match superblock(rest) {
            Some(superblock) => WindowLayout::ext4(&superblock, Bytes(65536)),
            None => return,
        },
        1 => match geometry(rest) {
            Some((geometry, granule)) => WindowLayout::xfs(&geometry, granule),
            None => return,
        },
        _ => {
            let chunks = btrfs::parse_items(rest, u32::from(kind));
            for chunk in &chunks {
                for inside in [0, chunk.len / 2, chunk.len.wrapping_sub(1)] {
                    if let Some((places, len)) = chunk.place(chunk.logical.wrapping_add(inside)) {
                        assert!(!places.is_empty() && len > 0);
                    }
                }
            }
            WindowLayout::btrfs(&chunks)
        }
    };
    assert!(layout.windows.len() <= WINDOWS_MAX.max(rest.len()));
    assert!(layout.windows.iter().all(|w| w.len > 0));
    if kind % 3 != 2 {
        // btrfs addresses appear in the order of its tree.
        assert!(
            layout
                .windows
                .iter()
                .try_fold(0, |at, w| (w.start == at).then(|| w.start.saturating_add(w.len)))
                .is_some()
        );
    }
    for policy in ["none", "idle:patience=1ms"] {
        pass(&layout, policy);
    }
}

/// A superblock with these bytes, also for inputs that contain only the relevant fields.
fn superblock(bytes: &[u8]) -> Option<ext4::Ext4Superblock> {
    if let Some(found) = ext4::Ext4Superblock::parse(bytes) {
        return Some(found);
    }
    let mut whole = vec![0; 1024];
    for (at, field) in [0x4, 0x18, 0x20, 0x60, 0x150].into_iter().zip(bytes.chunks_exact(4)) {
        whole[at..at + 4].copy_from_slice(field);
    }
    whole[0x38..0x3a].copy_from_slice(&[0x53, 0xef]);
    ext4::Ext4Superblock::parse(&whole)
}

fn geometry(bytes: &[u8]) -> Option<(XfsGeometry, Bytes)> {
    let mut numbers =
        bytes.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().expect("eight bytes")));
    let mut next = || numbers.next();
    let (sizes, data_blocks, realtime_blocks, cut) = (next()?, next()?, next()?, next()?);
    let mut geometry = XfsGeometry::default();
    (geometry.block_size, geometry.ag_blocks) = (sizes as u32, (sizes >> 32) as u32);
    (geometry.data_blocks, geometry.realtime_blocks) = (data_blocks, realtime_blocks);
    Some((geometry, if cut % 7 == 0 { Bytes::MAX } else { Bytes(1 << (16 + cut % 16)) }))
}

/// A requested pass, which never waits for foreground I/O.
fn pass(layout: &WindowLayout, policy: &str) {
    let spec: PolicySpec = policy.parse().expect("it is one");
    let mut policy = spec.build(&PolicyState::default());
    let mut now = Nanos::from_secs(1_700_000_000);
    let mut last: Option<TrimOutcome> = None;
    let mut trimmed: Vec<TrimWindow> = Vec::new();
    for step in 0..REQUESTS_MAX {
        let action = policy.decide(&Observation {
            granule: layout.granule,
            tail: layout.tail,
            idle_since: Some(Nanos(1)),
            last_trim: last.take().as_ref(),
            forced: step == 0,
            ..Observation::of(now, &layout.windows)
        });
        match action {
            Action::Trim(request) => {
                let window = request.window;
                let Some(whole) = layout.windows.iter().find(|w| holds(w, &window)) else {
                    panic!("{window:?} is in no window")
                };
                // A trial that measures a command's cost does not count.
                let trial = layout.tail < Bytes::MAX && window.start > whole.start;
                assert!(!trial || end(&window) == end(whole), "{window:?} is no tail");
                if !trial {
                    assert!(
                        trimmed.iter().all(|w| apart(w, &window)) || overlapping(layout),
                        "{window:?} again"
                    );
                    trimmed.push(window);
                }
                last = Some(TrimOutcome {
                    asked: Bytes(window.len),
                    took: Nanos::from_millis(1),
                    ..TrimOutcome::default()
                });
                now = now.saturating_add(Nanos::from_millis(1));
            }
            Action::WaitUntil(until) => now = until.max(now.saturating_add(Nanos::from_millis(1))),
            Action::Nothing => break,
        }
    }
}

fn end(window: &TrimWindow) -> u128 {
    u128::from(window.start) + u128::from(window.len)
}

fn holds(outer: &TrimWindow, inner: &TrimWindow) -> bool {
    outer.start <= inner.start && end(inner) <= end(outer)
}

fn apart(a: &TrimWindow, b: &TrimWindow) -> bool {
    end(a) <= u128::from(b.start) || end(b) <= u128::from(a.start)
}

/// True if chunks overlap or are out of order. No real btrfs has such chunks, and a pass
/// may then meet a byte twice.
fn overlapping(layout: &WindowLayout) -> bool {
    !layout.windows.windows(2).all(|pair| end(&pair[0]) <= u128::from(pair[1].start))
}
