//! Power cuts: the content of the volatile cache is lost, and a write in progress is
//! torn.
//!
//! The model reports the ranges that are only in its cache. To roll them back, the
//! content before each unflushed write is saved per page, as of the last flush: a drive
//! may lose all later writes, but no earlier ones.

use crate::store::Store;
use rustix::io::Errno;
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;
use trimtab_drive::Extent;
use trimtab_drive::rng::Stream;

/// Maximum memory for saved content; then the oldest pages go: no cache is that large.
const UNDO_BYTES_MAX: usize = 256 << 20;

/// State needed to simulate a power cut.
pub struct UndoLog {
    page_bytes: u64,
    /// Page content before the first write since the last flush.
    pages: BTreeMap<u64, Box<[u8]>>,
    /// Pages in the order of those writes.
    order: VecDeque<u64>,
    /// Writes whose completion may not have been reported yet.
    unanswered: VecDeque<(Option<Instant>, Extent)>,
}

impl UndoLog {
    /// For a drive with atomic writes of `page_bytes`.
    pub const fn new(page_bytes: u32) -> Self {
        Self {
            page_bytes: page_bytes as u64,
            pages: BTreeMap::new(),
            order: VecDeque::new(),
            unanswered: VecDeque::new(),
        }
    }

    /// Call before writing `extent`.
    pub fn before_write(&mut self, store: &Store, extent: Extent) -> Result<(), Errno> {
        for page in self.pages_of(extent) {
            if !self.pages.contains_key(&page) {
                let mut content = vec![0; self.page_bytes as usize].into_boxed_slice();
                store.read(page * self.page_bytes, &mut content)?;
                self.pages.insert(page, content);
                self.order.push_back(page);
            }
        }
        while self.order.len() * self.page_bytes as usize > UNDO_BYTES_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.pages.remove(&oldest);
            }
        }
        Ok(())
    }

    /// Call after writing `extent`; its completion is reported to the host at `due`.
    pub fn wrote(&mut self, extent: Extent, due: Option<Instant>) {
        let now = Instant::now();
        while self.unanswered.front().is_some_and(|(due, _)| due.is_none_or(|due| due <= now)) {
            self.unanswered.pop_front();
        }
        self.unanswered.push_back((due, extent));
    }

    /// Call after a flush: all completed writes are durable.
    pub fn flushed(&mut self) {
        self.pages.clear();
        self.order.clear();
        self.unanswered.clear();
    }

    /// Simulates the power cut. `lost` was only in the cache, `torn` was being written.
    /// Each page keeps its new content with probability `keep`. Returns the number rolled
    /// back.
    pub fn cut(
        &mut self,
        store: &Store,
        lost: &[Extent],
        torn: Option<Extent>,
        keep: f64,
        rng: &mut Stream,
    ) -> Result<u64, Errno> {
        let now = Instant::now();
        let under_way = self
            .unanswered
            .iter()
            .filter(|(due, _)| due.is_some_and(|due| due > now))
            .map(|(_, extent)| *extent);
        let mut pages: Vec<u64> = lost
            .iter()
            .copied()
            .chain(under_way)
            .chain(torn)
            .flat_map(|extent| self.pages_of(extent))
            .collect();
        pages.sort_unstable();
        pages.dedup();
        let mut back = 0;
        for page in pages {
            if let Some(content) = self.pages.get(&page)
                && !rng.chance(keep)
            {
                store.write(page * self.page_bytes, content)?;
                back += 1;
            }
        }
        self.flushed();
        Ok(back)
    }

    fn pages_of(&self, extent: Extent) -> std::ops::Range<u64> {
        extent.offset / self.page_bytes..(extent.offset + extent.len).div_ceil(self.page_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_cut_loses_nothing_before_last_flush() {
        let store = Store::in_memory(1 << 20).unwrap();
        let mut undo = UndoLog::new(512);
        let write = |undo: &mut UndoLog, offset: u64, byte: u8| {
            let extent = Extent { offset, len: 1024 };
            undo.before_write(&store, extent).unwrap();
            store.write(offset, &[byte; 1024]).unwrap();
            undo.wrote(extent, None);
        };
        write(&mut undo, 0, 1);
        undo.flushed();
        write(&mut undo, 0, 2);
        write(&mut undo, 0, 3);
        write(&mut undo, 4096, 4);
        let mut rng = Stream::new(1, "cut");
        let lost = [Extent { offset: 0, len: 1024 }, Extent { offset: 8192, len: 4096 }];
        assert_eq!(undo.cut(&store, &lost, None, 0.0, &mut rng), Ok(2));
        let byte = |offset| {
            let mut byte = [9];
            store.read(offset, &mut byte).unwrap();
            byte[0]
        };
        assert_eq!(
            (byte(0), byte(1023)),
            (1, 1),
            "as at the last flush, not as before the last write"
        );
        assert_eq!(byte(4096), 4, "the model did not say that this was lost");
        assert_eq!(
            undo.cut(&store, &lost, None, 0.0, &mut rng),
            Ok(0),
            "nothing was written since"
        );
    }

    #[test]
    fn power_cut_tears_write_between_pages() {
        let store = Store::in_memory(1 << 20).unwrap();
        let mut undo = UndoLog::new(512);
        let extent = Extent { offset: 0, len: 64 * 512 };
        undo.before_write(&store, extent).unwrap();
        store.write(0, &[7; 64 * 512]).unwrap();
        let back = undo.cut(&store, &[], Some(extent), 0.5, &mut Stream::new(2, "cut")).unwrap();
        assert!((10..54).contains(&back), "{back}");
        let mut content = [0; 64 * 512];
        store.read(0, &mut content).unwrap();
        assert!(
            content.chunks(512).all(|page| page.iter().all(|b| *b == page[0])),
            "a page is never torn"
        );
        assert_eq!(content.iter().filter(|b| **b == 0).count() as u64, back * 512);
    }

    #[test]
    fn power_cut_keeps_writes_already_completed() {
        let (store, soon) =
            (Store::in_memory(1 << 20).unwrap(), std::time::Duration::from_secs(3600));
        let mut undo = UndoLog::new(512);
        let write = |undo: &mut UndoLog, offset: u64, byte: u8, due: Option<Instant>| {
            let extent = Extent { offset, len: 512 };
            undo.before_write(&store, extent).unwrap();
            store.write(offset, &[byte; 512]).unwrap();
            undo.wrote(extent, due);
        };
        let now = Instant::now();
        write(&mut undo, 0, 1, None);
        write(&mut undo, 512, 2, Some(now));
        write(&mut undo, 1024, 3, Some(now + soon));
        write(&mut undo, 1536, 4, Some(now));
        assert_eq!(
            undo.unanswered.len(),
            2,
            "those answered before the first that was not are forgotten"
        );
        // Away from the start, so that the page offset matters.
        assert_eq!(
            undo.cut(&store, &[], None, 0.0, &mut Stream::new(1, "cut")),
            Ok(1),
            "the model said that nothing was lost"
        );
        let mut content = [0; 2048];
        store.read(0, &mut content).unwrap();
        assert_eq!([content[0], content[512], content[1024], content[1536]], [1, 2, 0, 4]);
    }

    #[test]
    fn power_cut_restores_each_page_to_its_offset() {
        let store = Store::in_memory(1 << 20).unwrap();
        let mut undo = UndoLog::new(512);
        let content = |byte: u8| [[byte; 512], [byte + 1; 512]].concat();
        store.write(2048, &content(1)).unwrap();
        let extent = Extent { offset: 2048, len: 1024 };
        undo.before_write(&store, extent).unwrap();
        store.write(2048, &content(7)).unwrap();
        assert_eq!(undo.cut(&store, &[extent], None, 0.0, &mut Stream::new(1, "cut")), Ok(2));
        let mut back = [0; 1024];
        store.read(2048, &mut back).unwrap();
        assert_eq!(back.to_vec(), content(1));
    }

    #[test]
    fn undo_memory_is_limited() {
        // Four pages of 64 MiB fit; of five the oldest is dropped.
        let (page, size) = (64 << 20, 6 * (64_u64 << 20));
        let store = Store::in_memory(size).unwrap();
        let mut undo = UndoLog::new(page as u32);
        let of = |n: u64| Extent { offset: n * page, len: 512 };
        for n in 0..4 {
            undo.before_write(&store, of(n)).unwrap();
        }
        assert_eq!((undo.pages.len(), undo.order.len()), (4, 4), "256 MiB are all kept");
        undo.before_write(&store, of(4)).unwrap();
        assert_eq!(undo.pages.keys().copied().collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!(undo.order, [1, 2, 3, 4]);
    }
}
