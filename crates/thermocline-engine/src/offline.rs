//! A cache at rest: what is in it, whether it is intact, giving it up.

use std::collections::BTreeMap;

use uuid::Uuid;

use crate::epoch::{Begin, End, Keep};
use crate::format::checksum;
use crate::format::superblock::Superblock;
use crate::recovery::{self, Flash, FlashError};
use crate::storage::Storage;

/// Contents of a flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Superblock, which names the owner of the flash.
    pub superblock: Superblock,
    /// Slots that hold a page.
    pub held_pages: u64,
    /// Slots that hold a page which the disk may not have.
    pub dirty_pages: u64,
    /// End of the last such page on the disk; 0 if there is none.
    pub dirty_end_bytes: u64,
    /// Blocks of metadata of which one copy is damaged or cannot be read; the other copy was used, and
    /// the next start writes both.
    pub damaged_blocks: u64,
}

/// Findings of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// Pages whose checksum matches.
    pub intact_pages: u64,
    /// Pages that the disk has too, and whose bytes on flash are wrong, in order.
    pub damaged_clean_pages: Vec<u64>,
    /// Pages that only flash has, and whose bytes there are wrong, in order.
    pub lost_pages: Vec<u64>,
}

impl Flash {
    /// Return the contents of the flash.
    pub fn contents(&self) -> Contents {
        let rows = || self.rows.iter().flatten();
        let dirty = || rows().filter(|row| row.is_dirty);
        let dirty_end = dirty().map(|row| row.page + 1).max().unwrap_or(0);
        Contents {
            superblock: self.superblock,
            held_pages: rows().count() as u64,
            dirty_pages: dirty().count() as u64,
            dirty_end_bytes: dirty_end * u64::from(self.superblock.layout.page_bytes),
            damaged_blocks: self.damaged_blocks,
        }
    }

    /// Return the pages that the disk may not have, in order.
    pub fn dirty_pages(&self) -> Vec<u64> {
        let mut pages: Vec<u64> =
            self.rows.iter().flatten().filter(|row| row.is_dirty).map(|row| row.page).collect();
        pages.sort_unstable();
        pages
    }

    /// Reads every page on flash and compares its checksum. A page that cannot be read is damaged.
    pub fn check(&self, storage: &mut dyn Storage) -> Check {
        let mut check = Check::default();
        for (page, slot) in self.pages() {
            let (is_intact, is_dirty, _) = self.load(storage, slot);
            match (is_intact, is_dirty) {
                (true, _) => check.intact_pages += 1,
                (false, false) => check.damaged_clean_pages.push(page),
                (false, true) => check.lost_pages.push(page),
            }
        }
        check
    }

    /// Prepare, in memory, how the next epoch begins: [`recover_as`](Self::recover_as) and
    /// [`drain`](Self::drain) begin it.
    pub fn adapt(&mut self, begin: &Begin) {
        if begin.keep == Keep::Dirty {
            for slot in 0..self.superblock.layout.slots {
                let row = self.rows[slot as usize];
                self.set_row(slot, row.filter(|row| row.is_dirty));
            }
        }
        self.superblock.backing_bytes =
            begin.backing_bytes.unwrap_or(self.superblock.backing_bytes);
        self.superblock.is_given_up = false;
        // The next epoch is one more than this one.
        self.superblock.epoch =
            begin.epoch.map_or(self.superblock.epoch, |epoch| epoch.saturating_sub(1));
    }

    /// Drops everything that the flash holds, because the backing store has it too.
    ///
    /// # Errors
    /// If a device fails.
    pub fn clear(&mut self, storage: &mut dyn Storage) -> Result<(), FlashError> {
        self.rows.fill(None);
        self.save(storage)
    }

    /// Gives up everything that the flash holds; what only flash had is lost.
    ///
    /// # Errors
    /// If a device fails.
    pub fn forget(&mut self, storage: &mut dyn Storage) -> Result<(), FlashError> {
        self.superblock.is_given_up = true;
        self.clear(storage)
    }

    /// Says on flash that the epoch ended in order, with this fingerprint of the backing store. No engine writes to the flash any more.
    ///
    /// # Errors
    /// If a device fails, or the flash belongs to another cache or epoch.
    pub fn end(
        storage: &mut dyn Storage,
        (cache, epoch): (Uuid, u64),
        end: End,
    ) -> Result<(), FlashError> {
        Self::amend_region(storage, 0, (cache, epoch), |superblock| superblock.end = Some(end))
    }

    /// Change what the superblock of one shard's region says in this epoch.
    pub(crate) fn amend_region(
        storage: &mut dyn Storage,
        index: u16,
        owner: (Uuid, u64),
        amend: impl FnOnce(&mut Superblock),
    ) -> Result<(), FlashError> {
        let (mut superblock, place, _) = recovery::read_superblock(storage, index)?;
        // An end in another epoch would let a flash that was written to since pass for one that stopped
        // in order.
        if (superblock.cache, superblock.epoch) != owner {
            return Err(FlashError::Foreign);
        }
        amend(&mut superblock);
        // Both copies, whatever they say: an attempt that failed may have left them different, and recovery
        // could find the older one alone.
        recovery::write_superblock(storage, &superblock, 1 - place)
    }

    /// Writes the table, then begins an epoch without a journal.
    pub(crate) fn save(&mut self, storage: &mut dyn Storage) -> Result<(), FlashError> {
        // A killed process may have left slots in the cache of the flash: the table must not become
        // durable before they are.
        storage.sync()?;
        let blocks: Vec<u32> = (0..self.superblock.layout.table_blocks).collect();
        self.write_table(storage, &blocks)?;
        self.begin_epoch(storage)
    }

    /// Return the pages on flash, each with its slot, in the order of the disk.
    fn pages(&self) -> BTreeMap<u64, u32> {
        let slots = (0..).zip(&self.rows);
        slots.filter_map(|(slot, row)| row.map(|row| (row.page, slot))).collect()
    }

    /// Return the bytes of a slot, with `true` if they are right, and `true` if only flash has them. A slot
    /// that cannot be read has wrong ones.
    fn load(&self, storage: &mut dyn Storage, slot: u32) -> (bool, bool, Vec<u8>) {
        let row = self.rows[slot as usize].expect("only slots that hold a page are loaded");
        let mut bytes = vec![0; self.superblock.layout.page_bytes as usize];
        let place = self.slot_offset_bytes(slot);
        let is_right = |bytes: &[u8]| checksum(row.page, row.version, bytes) == row.checksum;
        let is_intact = (storage.read_at(place, &mut bytes).is_ok() && is_right(&bytes))
            || (matches!(storage.read_other(place, &mut bytes), Some(Ok(()))) && is_right(&bytes));
        (is_intact, row.is_dirty, bytes)
    }
}
