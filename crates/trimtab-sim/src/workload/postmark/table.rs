//! PostMark's table of files: twice as many slots as initial files.

use super::PostmarkSettingsError;
use super::mt19937::Mt19937;
use alloc::vec::Vec;
use trimtab_drive::units::Bytes;

/// A file; size 0 marks an empty slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FileSlot {
    pub(super) size: u32,
    /// Running number, used as name.
    pub(super) number: u32,
    /// Directory: location times subdirectories plus subdirectory.
    pub(super) place: u32,
}

#[derive(Clone, Debug)]
pub(super) struct FileTable {
    slots: Vec<FileSlot>,
    /// First slot to try for a new file: one past the last one used.
    cursor: usize,
    /// No lower slot is empty.
    full_below: usize,
}

impl FileTable {
    pub(super) fn new(number: u32) -> Result<Self, PostmarkSettingsError> {
        let len = 2 * number as usize;
        let mut slots = Vec::new();
        slots.try_reserve_exact(len).map_err(|_| {
            PostmarkSettingsError::Memory(Bytes((len * size_of::<FileSlot>()) as u64))
        })?;
        slots.resize(len, FileSlot::default());
        Ok(Self { slots, cursor: 0, full_below: 0 })
    }

    pub(super) fn slots(&self) -> &[FileSlot] {
        &self.slots
    }

    /// Draws until a slot is in use; requires at least one.
    fn draw(&self, rng: &mut Mt19937) -> usize {
        let len = self.slots.len() as u32;
        loop {
            let at = rng.below(len) as usize;
            if self.slots[at].size != 0 {
                return at;
            }
        }
    }

    /// A random slot in use; requires at least one.
    pub(super) fn pick(&mut self, rng: &mut Mt19937) -> &mut FileSlot {
        let at = self.draw(rng);
        &mut self.slots[at]
    }

    /// An empty slot for a new file: the one at the cursor, otherwise the first.
    pub(super) fn take_free(&mut self) -> Option<&mut FileSlot> {
        let at_cursor = self.slots.get(self.cursor).is_some_and(|slot| slot.size == 0);
        let at = if at_cursor {
            self.cursor
        } else {
            let from = self.full_below;
            self.full_below =
                from + self.slots[from..].iter().take_while(|slot| slot.size != 0).count();
            self.full_below
        };
        let slot = self.slots.get_mut(at)?;
        self.cursor = at + 1;
        Some(slot)
    }

    /// Empties a random slot in use; returns its content.
    pub(super) fn remove_picked(&mut self, rng: &mut Mt19937) -> FileSlot {
        let at = self.draw(rng);
        self.remove(at)
    }

    pub(super) fn remove(&mut self, at: usize) -> FileSlot {
        self.full_below = self.full_below.min(at);
        core::mem::take(&mut self.slots[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn take_free_prefers_the_cursor_over_earlier_gaps() {
        let mut table = FileTable::new(2).unwrap();
        let take = |table: &mut FileTable| {
            table.take_free().map(|slot| slot.size = 1)?;
            Some(table.cursor - 1)
        };
        assert_eq!([take(&mut table), take(&mut table)], [Some(0), Some(1)]);
        table.remove(0);
        assert_eq!(take(&mut table), Some(2), "the cursor goes before an earlier gap");
        table.remove(2);
        assert_eq!(
            [take(&mut table), take(&mut table), take(&mut table)],
            [Some(3), Some(0), Some(2)]
        );
        assert_eq!(take(&mut table), None, "full");
        table.remove(1);
        assert_eq!(take(&mut table), Some(1), "a full table frees a slot");
    }
}
