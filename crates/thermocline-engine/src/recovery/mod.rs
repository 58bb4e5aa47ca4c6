//! Starting from a flash: making it ours, or finding out what it holds.
//!
//! Recovery reads the slot table and the journal, never the backing store, and of the slots only those
//! whose records may have become durable without them. It then writes the table again where the journal
//! changed it, and begins a new epoch, so that what follows does not depend on the old journal. A crash
//! on the way leaves the old epoch, and recovery does the same again.
//!
//! It enforces rule 8 of durability (`ARCHITECTURE.md`): each start begins an epoch, and writes the worse copy
//! of a block first.
//!
//! A large table is decoded by several threads; what is found does not depend on how many there are.

mod error;
mod replay;
mod table;

use std::collections::BTreeMap;

use uuid::Uuid;

pub use self::error::FlashError;
use self::replay::Journal;
use crate::directory::Directory;
use crate::epoch::Begin;
use crate::format::superblock::{Superblock, Unreadable};
use crate::format::table::{Row, SLOTS_PER_BLOCK};
use crate::format::{self, BLOCK_BYTES, Layout};
use crate::mirror::Label;
use crate::shard_map::{ShardMap, Share};
use crate::storage::{AlignedBytes, Storage};

/// Recovery takes a device for unused if this many bytes at its beginning and at its end are zero.
const BLANK_HEAD_BYTES: u64 = 16 << 20;
const BLANK_TAIL_BYTES: u64 = 1 << 20;
/// Zeroes that are written at a time.
const ZEROES_BYTES: usize = 1 << 20;
/// Table blocks that are written at a time.
const WRITTEN_BLOCKS: usize = 2048;

/// A flash that can be used: what it is, and what it holds.
#[derive(Clone, Debug)]
pub struct Flash {
    pub(crate) superblock: Superblock,
    /// Per slot: what it holds.
    pub(crate) rows: Vec<Option<Row>>,
    /// Per table block: how often it was written.
    pub(crate) generations: Vec<u64>,
    /// Metadata blocks of which one copy was damaged or could not be read; the other has all.
    pub(crate) damaged_blocks: u64,
    /// `true` if every block of the journal could be read, and those that count have both copies.
    is_settled: bool,
    /// Table blocks whose two copies are not the same, and which copy must be written first: the one
    /// that is damaged, or older.
    uneven: BTreeMap<u32, u64>,
    /// Per table block: whether its rows changed since it was written.
    changed: Vec<bool>,
    /// The same of the superblock.
    first_copy: u64,
    /// No version is greater.
    pub(crate) version: u64,
}

impl Flash {
    /// Makes a device a flash of a new cache. Its content is lost.
    ///
    /// # Errors
    /// If a device is too small or fails.
    pub fn initialise(
        storage: &mut dyn Storage,
        cache: Uuid,
        layout: Layout,
        backing_bytes: u64,
    ) -> Result<Self, FlashError> {
        Self::set_up(storage, &Superblock::first(cache, layout, backing_bytes))
    }

    /// Return the same with that superblock.
    pub(crate) fn set_up(
        storage: &mut dyn Storage,
        superblock: &Superblock,
    ) -> Result<Self, FlashError> {
        let layout = &superblock.layout;
        let (found_bytes, wanted_bytes) = (storage.size_bytes()?, layout.flash_bytes());
        if found_bytes < wanted_bytes {
            return Err(FlashError::TooSmall { found_bytes, wanted_bytes });
        }
        // A superblock of a former cache must not be found, and neither must its table.
        let (zeroes, end) = (vec![0; ZEROES_BYTES], layout.metadata_bytes());
        for start in (0..end).step_by(ZEROES_BYTES) {
            let length =
                usize::try_from(end - start).map_or(ZEROES_BYTES, |rest| rest.min(ZEROES_BYTES));
            storage.write_at(start, &zeroes[..length])?;
        }
        storage.sync()?;
        // The superblock comes last: before it is durable, the device is no cache.
        write_superblock(storage, superblock, 0)?;
        Ok(Self::empty(superblock))
    }

    /// Return the flash of a shard whose devices are in memory and will not be read again.
    pub(crate) fn empty(superblock: &Superblock) -> Self {
        let Layout { slots, table_blocks, .. } = superblock.layout;
        Self {
            superblock: *superblock,
            rows: vec![None; slots as usize],
            generations: vec![0; table_blocks as usize],
            damaged_blocks: 0,
            is_settled: true,
            uneven: BTreeMap::new(),
            changed: vec![false; table_blocks as usize],
            first_copy: 0,
            version: 0,
        }
    }

    /// Read the contents of a flash, and begin a new epoch on it.
    ///
    /// # Errors
    /// If the device is not a flash of Thermocline, is damaged, or fails.
    pub fn recover(storage: &mut dyn Storage) -> Result<Self, FlashError> {
        Self::recover_as(storage, &Begin::default())
    }

    /// Return the same, but keeps only some pages, or takes over another size of the backing store.
    ///
    /// # Errors
    /// As for [`recover`](Self::recover).
    pub fn recover_as(storage: &mut dyn Storage, begin: &Begin) -> Result<Self, FlashError> {
        let mut flash = Self::read(storage)?;
        flash.adapt(begin);
        flash.take_over(storage)?;
        Ok(flash)
    }

    /// Makes durable what [`read`](Self::read) found: a killed process may have left it in the cache of
    /// the flash. Nothing of it may be shown to anybody before.
    ///
    /// # Errors
    /// If a device fails.
    pub fn make_durable(storage: &mut dyn Storage) -> Result<(), FlashError> {
        Ok(storage.sync()?)
    }

    /// Begins a new epoch on a flash that was just read: writes the table as the journal changed it.
    /// [`recover`](Self::recover) does both; call this if the flash has to be looked at in between.
    ///
    /// # Errors
    /// If a device fails.
    pub fn take_over(&mut self, storage: &mut dyn Storage) -> Result<(), FlashError> {
        // A killed process may have left slots in the cache of the flash, where they were read: the
        // table must not become durable before they are.
        storage.sync()?;
        let is_old =
            |&block: &u32| self.changed[block as usize] || self.uneven.contains_key(&block);
        let old: Vec<u32> = (0..self.superblock.layout.table_blocks).filter(is_old).collect();
        self.write_table(storage, &old)?;
        self.begin_epoch(storage)
    }

    /// Make the table the only truth: the journal so far no longer counts.
    pub(crate) fn begin_epoch(&mut self, storage: &mut dyn Storage) -> Result<(), FlashError> {
        // From here on blocks of the journal so far do not count: the table, which is durable, has
        // all of them.
        self.superblock.epoch += 1;
        self.superblock.has_single_journal = false;
        // A copy of the flash that is made from now on has no end, so the note can tell it from what an
        // orderly stop leaves.
        self.superblock.end = None;
        // Rule 8: the worse copy is overwritten first, so that the better one is there at any time.
        let first_copy = std::mem::take(&mut self.first_copy);
        write_superblock(storage, &self.superblock, first_copy)
    }

    /// Read the contents of the flash of one shard, and change nothing. [`FlashSet::read`] reads
    /// one of any number of shards.
    ///
    /// # Errors
    /// If the device is not a flash of Thermocline, is damaged, fails, or belongs to several
    /// shards.
    ///
    /// [`FlashSet::read`]: crate::FlashSet::read
    pub fn read(storage: &mut dyn Storage) -> Result<Self, FlashError> {
        let flash = Self::read_region(storage, 0)?;
        flash.check_map(Share::WHOLE.map)?;
        Ok(flash)
    }

    /// Finds out what the region of that shard holds.
    pub(crate) fn read_region(storage: &mut dyn Storage, index: u16) -> Result<Self, FlashError> {
        let (superblock, place, damaged) = read_superblock(storage, index)?;
        let (found_bytes, wanted_bytes) = (storage.size_bytes()?, superblock.layout.end_bytes());
        if found_bytes < wanted_bytes {
            return Err(FlashError::TooSmall { found_bytes, wanted_bytes });
        }
        let mut flash = Self::read_table(storage, &superblock)?;
        // Rule 8: the copy that counts is overwritten last.
        flash.first_copy = 1 - place;
        flash.damaged_blocks += damaged;
        let journal = Journal::read(storage, &superblock)?;
        flash.replay(storage, &journal);
        Ok(flash)
    }

    /// Return `true` if the next [`read`](Self::read) finds the same if nothing is written before it,
    /// even if a block cannot be read then: every block of the journal could be read, and those that
    /// count have both copies. Otherwise another attempt may find newer or older pages, so nobody may
    /// read a page before [`take_over`](Self::take_over) has ended the journal.
    pub const fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Check that it was made for these shards.
    ///
    /// # Errors
    /// [`FlashError::OtherShards`] if not.
    pub fn check_map(&self, given: ShardMap) -> Result<(), FlashError> {
        let found = self.superblock.share.map;
        if found.is_same(given) { Ok(()) } else { Err(FlashError::OtherShards { found, given }) }
    }

    /// Return the superblock.
    pub const fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Return the offset of a slot, in bytes.
    pub(crate) fn slot_offset_bytes(&self, slot: u32) -> u64 {
        self.superblock.layout.slot_place_bytes(slot)
    }

    /// Take over a layout with more slots, which the flash has durably.
    pub(crate) fn grow(&mut self, layout: &Layout) {
        self.rows.resize(layout.slots as usize, None);
        self.generations.resize(layout.table_blocks as usize, 0);
        self.changed.resize(layout.table_blocks as usize, false);
        self.superblock.layout = *layout;
    }

    fn is_page(&self, page: u64) -> bool {
        self.superblock.is_page(page)
    }

    fn row(&self, slot: u32) -> Option<Row> {
        self.rows[slot as usize]
    }

    /// Changes what a slot holds, and remembers that its table block says something else.
    pub(crate) fn set_row(&mut self, slot: u32, row: Option<Row>) {
        let held = &mut self.rows[slot as usize];
        if *held != row {
            *held = row;
            self.changed[slot as usize / SLOTS_PER_BLOCK] = true;
        }
    }

    fn slots_of(&self, block: u32) -> std::ops::Range<usize> {
        let first = block as usize * SLOTS_PER_BLOCK;
        first..(first + SLOTS_PER_BLOCK).min(self.rows.len())
    }

    /// Writes what table blocks should say: their first copies, and when these are durable, their second
    /// ones.
    pub(crate) fn write_table(
        &mut self,
        storage: &mut dyn Storage,
        blocks: &[u32],
    ) -> Result<(), FlashError> {
        let cache = self.superblock.cache;
        for &block in blocks {
            let generation = &mut self.generations[block as usize];
            *generation += 1;
            // The parity says which copy is first: never the only one that is right.
            let first = self.uneven.remove(&block).unwrap_or(*generation % 2);
            *generation += u64::from(*generation % 2 != first);
        }
        // Rule 7: a sync between the copies keeps one of them whole at any time.
        for copy in 0..2 {
            for blocks in blocks.chunks(WRITTEN_BLOCKS) {
                let mut memory = AlignedBytes::new(blocks.len() * BLOCK_BYTES);
                let mut pieces: Vec<(u64, &[u8])> = vec![];
                let bytes = memory.bytes_mut().chunks_mut(BLOCK_BYTES);
                for (&block, bytes) in blocks.iter().zip(bytes) {
                    let generation = self.generations[block as usize];
                    let header = format::table::Header { cache, generation, block };
                    let rows = self.rows[self.slots_of(block)].iter().copied();
                    format::table::encode(bytes, &header, rows);
                    let layout = &self.superblock.layout;
                    pieces.push((layout.table_offset_bytes(block, generation + copy), &*bytes));
                }
                storage.write_each(&pieces)?;
            }
            storage.sync()?;
        }
        for &block in blocks {
            self.changed[block as usize] = false;
        }
        Ok(())
    }
}

/// Return the newest superblock, its place, and how many copies are damaged, in the region of that
/// shard. Content of another region that a device put there is damage.
pub(crate) fn read_superblock(
    storage: &mut dyn Storage,
    index: u16,
) -> Result<(Superblock, u64, u64), FlashError> {
    if storage.size_bytes()? < 2 * BLOCK_BYTES as u64 {
        return Err(if is_blank(storage)? { FlashError::Empty } else { FlashError::Foreign });
    }
    let mut found = vec![];
    let mut failure = None;
    let mut has_volumes = false;
    let mut is_member = false;
    for place in 0..2 {
        let mut block = vec![0; BLOCK_BYTES];
        match storage.read_at(Layout::superblock_offset_bytes(place), &mut block) {
            Ok(()) => {
                has_volumes |= Directory::begins(&block);
                is_member |= Label::begins(&block);
                let decoded = Superblock::decode(&block).and_then(|superblock| {
                    let is_here = superblock.share.index == index;
                    is_here.then_some(superblock).ok_or(Unreadable::Torn)
                });
                found.push((place, decoded));
            }
            Err(error) => failure = Some(error),
        }
    }
    let intact = found.iter().filter_map(|&(place, found)| Some((found.ok()?, place)));
    let age = |superblock: &Superblock| (superblock.epoch, superblock.end.is_some());
    // The newest intact copy counts. An ended epoch is newer than the same one while it ran.
    if let Some((superblock, place)) = intact.max_by_key(|(superblock, _)| age(superblock)) {
        let is_sound =
            |(_, found): &(u64, Result<_, _>)| matches!(found, Ok(_) | Err(Unreadable::Empty));
        let damaged = 2 - found.iter().filter(|copy| is_sound(copy)).count();
        return Ok((superblock, place, damaged as u64));
    }
    if let Some(error) = failure {
        return Err(error.into());
    }
    let faults: Vec<Unreadable> = found.into_iter().filter_map(|(_, found)| found.err()).collect();
    let format = faults.iter().find_map(|fault| match fault {
        Unreadable::Format(found) => Some(*found),
        Unreadable::Empty | Unreadable::Foreign | Unreadable::Torn => None,
    });
    Err(match format {
        Some(found) => FlashError::Format { found },
        None if has_volumes => FlashError::HasVolumes,
        None if is_member => FlashError::IsMember,
        None if faults.contains(&Unreadable::Torn) => FlashError::Damaged,
        None if faults.contains(&Unreadable::Foreign) => FlashError::Foreign,
        None if is_blank(storage)? => FlashError::Empty,
        None => FlashError::Foreign,
    })
}

/// Return `true` if a device without a superblock was never used, as far as its head and its tail tell:
/// file systems and volume managers leave the first bytes alone, and some keep their labels at the end.
pub(crate) fn is_blank(storage: &mut dyn Storage) -> Result<bool, FlashError> {
    let size_bytes = storage.size_bytes()?;
    let whole_blocks = size_bytes / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
    let tail = whole_blocks.saturating_sub(BLANK_TAIL_BYTES).max(BLANK_HEAD_BYTES);
    let mut bytes = vec![0; 16 * BLOCK_BYTES];
    for range in [0..whole_blocks.min(BLANK_HEAD_BYTES), tail..whole_blocks] {
        let mut at = range.start;
        while at < range.end {
            let length =
                usize::try_from(range.end - at).map_or(bytes.len(), |rest| rest.min(bytes.len()));
            storage.read_at(at, &mut bytes[..length])?;
            if bytes[..length].iter().any(|&byte| byte != 0) {
                return Ok(false);
            }
            at += length as u64;
        }
    }
    // A file that ends within a block was never made for a cache.
    Ok(whole_blocks == size_bytes)
}

/// Writes a superblock durably, first one copy, then the other.
pub(crate) fn write_superblock(
    storage: &mut dyn Storage,
    superblock: &Superblock,
    first_copy: u64,
) -> Result<(), FlashError> {
    let mut block = vec![0; BLOCK_BYTES];
    superblock.encode(&mut block);
    // One copy is durable before the other is touched: a torn write leaves one of them whole.
    for place in [first_copy, first_copy + 1] {
        storage.write_at(Layout::superblock_offset_bytes(place), &block)?;
        storage.sync()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::checksum;
    use crate::format::journal::{self, Record, RecordKind};
    use crate::format::table;
    use crate::storage::memory::Memory;

    /// Return a flash whose first journal block says this.
    fn flash(sequence: u64, records: &[Record]) -> Memory {
        let layout = Layout::new(32, 4096);
        let mut memory = Memory(vec![0; usize::try_from(layout.flash_bytes()).unwrap()]);
        let cache = Uuid::from_u128(1);
        Flash::initialise(&mut memory, cache, layout, 1 << 20).unwrap();
        let header =
            journal::Header { cache, epoch: 1, sequence, tail: 1, uncertain: 1, written_bytes: 0 };
        let [place, _] = layout.journal_offsets_bytes(sequence);
        let block = memory.part(place, BLOCK_BYTES);
        journal::encode(block, &header, records.iter());
        memory
    }

    /// Return the same with both copies of that block.
    fn flash_with_copies(sequence: u64, records: &[Record]) -> Memory {
        let mut memory = flash(sequence, records);
        let [first, second] = Layout::new(32, 4096).journal_offsets_bytes(sequence);
        let block = memory.part(first, BLOCK_BYTES).to_vec();
        memory.part(second, BLOCK_BYTES).copy_from_slice(&block);
        memory
    }

    fn clean(slot: u32, version: u64) -> Record {
        let checksum = checksum(3, version, &[0; 4096]);
        Record { kind: RecordKind::Clean, page: 3, slot, version, checksum }
    }

    #[test]
    fn a_page_has_one_slot() {
        for versions in [[1, 1], [1, 2], [2, 1]] {
            let mut memory = flash(1, &[clean(7, versions[0]), clean(9, versions[1])]);
            let recovered = Flash::recover(&mut memory).unwrap().contents();
            assert_eq!(recovered.held_pages, 1, "{versions:?}");
            assert_eq!(Flash::read(&mut memory).unwrap().contents().held_pages, 1);
        }
    }

    /// A shard that leaves slots moves a page from one to another. When the page is given up, the new slot may
    /// soon hold another one.
    #[test]
    fn a_page_that_moved_and_was_given_up_is_in_neither_slot() {
        let free = Record { kind: RecordKind::Free, ..clean(9, 1) };
        let layout = Layout::new(32, 4096);
        for is_overwritten in [false, true] {
            let mut memory = flash(1, &[clean(7, 1), clean(9, 1), free]);
            if is_overwritten {
                memory.part(layout.slot_place_bytes(9), 4096).fill(1);
            }
            let held_pages = Flash::recover(&mut memory).unwrap().contents().held_pages;
            assert_eq!(held_pages, 0, "{is_overwritten}");
        }
    }

    /// A device of which some blocks cannot be read.
    struct BadBlocks<'a>(&'a mut Memory, &'a [u64]);

    impl Storage for BadBlocks<'_> {
        fn size_bytes(&mut self) -> std::io::Result<u64> {
            self.0.size_bytes()
        }

        fn read_at(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> std::io::Result<()> {
            let range = offset_bytes..offset_bytes + bytes.len() as u64;
            if self.1.iter().any(|bad| range.contains(bad)) {
                return Err(std::io::Error::other("a bad sector"));
            }
            self.0.read_at(offset_bytes, bytes)
        }

        fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> std::io::Result<()> {
            self.0.write_at(offset_bytes, bytes)
        }

        fn sync(&mut self) -> std::io::Result<()> {
            self.0.sync()
        }
    }

    #[test]
    fn a_settled_flash_is_read_alike_with_a_bad_block_and_without() {
        let layout = Layout::new(32, 4096);
        let bad_blocks = || (0..layout.metadata_bytes()).step_by(BLOCK_BYTES);
        for has_second_copy in [false, true] {
            // The engine may have been killed while it wrote the second copy.
            let make = if has_second_copy { flash_with_copies } else { flash };
            let mut memory = make(1, &[clean(7, 1)]);
            let whole = Flash::read(&mut memory).unwrap();
            assert_eq!(whole.is_settled(), has_second_copy);
            let mut settled = 0;
            for offset_bytes in bad_blocks() {
                let Ok(read) = Flash::read(&mut BadBlocks(&mut memory, &[offset_bytes])) else {
                    continue;
                };
                let is_alike = read.rows == whole.rows;
                let is_either_settled = read.is_settled() || whole.is_settled();
                assert!(is_alike || !is_either_settled, "bad block at {offset_bytes}");
                settled += usize::from(read.is_settled());
            }
            let outside_journal = bad_blocks().count() - layout.journal_blocks as usize;
            assert_eq!(settled, if has_second_copy { outside_journal } else { 0 });
        }
    }

    #[test]
    fn with_two_bad_blocks_a_flash_is_refused_or_read_alike() {
        let layout = Layout::new(32, 4096);
        let mut memory = flash_with_copies(1, &[clean(7, 1)]);
        let rows = Flash::read(&mut memory).unwrap().rows;
        assert_eq!(rows.iter().flatten().count(), 1);
        let blocks = || (0..layout.metadata_bytes()).step_by(BLOCK_BYTES);
        let mut refused = 0;
        for pair in blocks().flat_map(|one| blocks().map(move |other| [one, other])) {
            match Flash::read(&mut BadBlocks(&mut memory, &pair)) {
                Ok(read) => assert_eq!(read.rows, rows, "blocks at {pair:?}"),
                Err(_) => refused += 1,
            }
        }
        // In either order: both copies of the superblock, of the table's block, of the journal's last block,
        // and of the one that would be next.
        assert_eq!(refused, 2 * 4);
    }

    /// A device that loses power during a write, which leaves rubbish.
    struct PowerLoss<'a> {
        memory: &'a mut Memory,
        writes_left: usize,
    }

    impl Storage for PowerLoss<'_> {
        fn size_bytes(&mut self) -> std::io::Result<u64> {
            self.memory.size_bytes()
        }

        fn read_at(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> std::io::Result<()> {
            self.memory.read_at(offset_bytes, bytes)
        }

        fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> std::io::Result<()> {
            if self.writes_left > 0 {
                self.writes_left -= 1;
                return self.memory.write_at(offset_bytes, bytes);
            }
            self.memory.part(offset_bytes, bytes.len()).fill(0xee);
            Err(std::io::Error::other("no power"))
        }

        fn sync(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_damaged_copy_and_a_torn_write_of_recovery_lose_nothing() {
        let layout = Layout::new(32, 4096);
        let original = flash_with_copies(1, &[clean(7, 1)]);
        let rows = Flash::read(&mut Memory(original.0.clone())).unwrap().rows;
        assert_eq!(rows.iter().flatten().count(), 1);
        for damaged in (0..layout.metadata_bytes()).step_by(BLOCK_BYTES) {
            for writes_left in 0.. {
                let mut memory = Memory(original.0.clone());
                memory.part(damaged, BLOCK_BYTES).fill(0xee);
                let is_done =
                    Flash::recover(&mut PowerLoss { memory: &mut memory, writes_left }).is_ok();
                let again = Flash::recover(&mut memory).map(|flash| flash.rows);
                assert!(
                    again.as_ref().is_ok_and(|again| *again == rows),
                    "block at {damaged}, cut off after {writes_left} writes: {again:?}"
                );
                if is_done {
                    break;
                }
            }
        }
    }

    #[test]
    fn numbers_do_not_run_over() {
        let ring = Layout::new(32, 4096).ring_blocks();
        let last = u64::MAX - u64::MAX % ring + 1;
        for (sequence, record) in [(last, clean(1, 1)), (1, clean(1, u64::MAX))] {
            let mut memory = flash(sequence, &[record]);
            assert_eq!(Flash::recover(&mut memory).unwrap().contents().held_pages, 0);
        }
        let mut memory = flash(1, &[]);
        let header = table::Header { cache: Uuid::from_u128(1), generation: u64::MAX, block: 0 };
        let layout = Layout::new(32, 4096);
        let block = memory.part(layout.table_offset_bytes(0, 1), BLOCK_BYTES);
        let row = Row { page: 1, checksum: 0, version: 1, is_dirty: true };
        table::encode(block, &header, [Some(row)].into_iter());
        let mut recovered = Flash::recover(&mut memory).unwrap();
        assert_eq!(recovered.contents().held_pages, 0);
        recovered.forget(&mut memory).unwrap();
    }

    #[test]
    fn a_flash_of_format_1_is_read_and_becomes_one_of_format_2() {
        // Slots enough for an odd number of journal blocks, whose places differ between the formats.
        let layout = Layout { journal_blocks: 33, ..Layout::new(33 * 128, 4096) };
        assert_eq!(layout, Layout::new(layout.slots, 4096));
        let mut memory = Memory(vec![0; usize::try_from(layout.flash_bytes()).unwrap()]);
        let cache = Uuid::from_u128(1);
        let flash = Flash::initialise(&mut memory, cache, layout, 1 << 20).unwrap();
        let former =
            Superblock { has_single_journal: true, first_sequence: 20, ..flash.superblock };
        memory.part(0, 2 * BLOCK_BYTES).fill(0);
        former.encode(memory.part(BLOCK_BYTES as u64, BLOCK_BYTES));
        let header = journal::Header {
            cache,
            epoch: 1,
            sequence: 20,
            tail: 20,
            uncertain: 20,
            written_bytes: 0,
        };
        let block = memory.part(Layout::journal_place_bytes(20), BLOCK_BYTES);
        journal::encode(block, &header, [clean(7, 1)].iter());
        let recovered = Flash::recover(&mut memory).unwrap();
        assert_eq!(recovered.contents().held_pages, 1);
        assert_eq!(recovered.contents().damaged_blocks, 0);
        let read = Flash::read(&mut memory).unwrap();
        assert!(!read.superblock.has_single_journal);
        assert_eq!(read.contents().held_pages, 1);
    }
}
