//! Starting from a flash: making it ours, or finding out what it holds.
//!
//! Recovery reads the slot table and the journal, never the backing store, and of the slots only those
//! whose records may have become durable without them. It then writes the table anew where the journal
//! changed it, and begins a new epoch, so that what follows does not depend on the old journal. A crash
//! on the way leaves the old epoch, and recovery does the same again.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use thiserror::Error;
use uuid::Uuid;

use crate::blocks::{Blocks, Copied};
use crate::format::journal::{self, Record, RecordKind};
use crate::format::superblock::{Superblock, Unreadable};
use crate::format::table::{self, Row, SLOTS_PER_BLOCK};
use crate::format::{BLOCK_BYTES, Layout};
use crate::shard::checksum;
use crate::start::Begin;
use crate::storage::Storage;

/// A device whose first and last bytes, so many of them, are zero is taken to be unused.
const BLANK_HEAD_BYTES: u64 = 16 << 20;
const BLANK_TAIL_BYTES: u64 = 1 << 20;

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
    /// Table blocks whose two copies are not the same, and which copy must be written first: the one
    /// that is damaged, or older.
    uneven: BTreeMap<u32, u64>,
    /// The same of the superblock.
    first_copy: u64,
    /// No version is greater.
    pub(crate) version: u64,
}

/// Why a flash cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FlashError {
    /// The device fails.
    #[error("the flash cannot be used: {0}")]
    Io(#[from] io::Error),
    /// The backing store refuses pages of a drain.
    #[error(
        "the backing store cannot be written at byte {offset_bytes}: {error}; the flash keeps all \
         pages: repair the backing store and drain again"
    )]
    BackingWrite {
        /// Where the write began.
        offset_bytes: u64,
        /// What the backing store says.
        error: io::Error,
    },
    /// The backing store cannot be synced after a drain.
    #[error(
        "the backing store cannot be synced: {0}; the flash keeps all pages: repair the backing store \
         and drain again"
    )]
    BackingSync(io::Error),
    /// There is nothing on it yet, neither at its beginning nor at its end.
    #[error("there is no cache of thermocline: nothing was ever written there")]
    Empty,
    /// It holds something else.
    #[error("what is there is no cache of thermocline: check that this is the flash")]
    Foreign,
    /// It is a cache of another version.
    #[error(
        "the flash has format {found}, this program uses {}: drain it with the version that wrote \
         it, or initialise it by force and lose what only it holds",
        crate::format::superblock::FORMAT
    )]
    Format {
        /// The format of the flash.
        found: u32,
    },
    /// Both superblocks are damaged.
    #[error("both superblocks of the flash are damaged: only initialising it by force can help")]
    Damaged,
    /// Both copies of a journal or table block are damaged: nobody knows which pages it was about.
    #[error(
        "both copies of block {block} of the flash's {part} are damaged: its newest pages cannot be \
         known. Restore the backing store from a backup, or give the flash up by initialising it by force"
    )]
    MetadataLost {
        /// `journal` or `table`.
        part: &'static str,
        /// The block's number.
        block: u64,
    },
    /// It caches a backing store of another size.
    #[error(
        "the flash belongs to a backing store of {found_bytes} bytes, this one has {given_bytes}"
    )]
    OtherBacking {
        /// What the flash says.
        found_bytes: u64,
        /// What was given.
        given_bytes: u64,
    },
    /// It was laid out for pages of another size.
    #[error(
        "the flash has pages of {found_bytes} bytes, not {given_bytes}: drain it before the page \
         size is changed"
    )]
    OtherPageSize {
        /// What the flash says.
        found_bytes: u32,
        /// What was given.
        given_bytes: u32,
    },
    /// It has too few slots.
    #[error(
        "the flash has {found_slots} slots, and {wanted_slots} are needed at least: take fewer \
         pages of flash, or drain it and initialise it anew"
    )]
    TooFewSlots {
        /// What the flash says.
        found_slots: u32,
        /// What the options need.
        wanted_slots: u32,
    },
    /// The device is too small.
    #[error("the flash has {found_bytes} bytes, and {wanted_bytes} are needed")]
    TooSmall {
        /// The size of the device.
        found_bytes: u64,
        /// What the layout needs.
        wanted_bytes: u64,
    },
}

impl Flash {
    /// Makes a device a flash of a new cache. What was on it is lost.
    ///
    /// # Errors
    /// A device that is too small, or that fails.
    pub fn initialise(
        storage: &mut dyn Storage,
        cache: Uuid,
        layout: Layout,
        backing_bytes: u64,
    ) -> Result<Self, FlashError> {
        let (found_bytes, wanted_bytes) = (storage.size_bytes()?, layout.flash_bytes());
        if found_bytes < wanted_bytes {
            return Err(FlashError::TooSmall { found_bytes, wanted_bytes });
        }
        let superblock = Superblock {
            cache,
            epoch: 1,
            layout,
            backing_bytes,
            first_sequence: 1,
            written_bytes: 0,
            has_single_journal: false,
            end: None,
            is_given_up: false,
        };
        // A superblock of a former cache must not be found, and neither must its table.
        for block in 0..layout.metadata_bytes() / BLOCK_BYTES as u64 {
            storage.write_at(block * BLOCK_BYTES as u64, &[0; BLOCK_BYTES])?;
        }
        storage.sync()?;
        write_superblock(storage, &superblock, 0)?;
        Ok(Self::empty(superblock))
    }

    /// The flash of a shard whose devices are in memory and will not be read again.
    pub(crate) fn empty(superblock: Superblock) -> Self {
        let Layout { slots, table_blocks, .. } = superblock.layout;
        Self {
            superblock,
            rows: vec![None; slots as usize],
            generations: vec![0; table_blocks as usize],
            damaged_blocks: 0,
            uneven: BTreeMap::new(),
            first_copy: 0,
            version: 0,
        }
    }

    /// Finds out what a flash holds, and begins a new epoch on it.
    ///
    /// # Errors
    /// What is no flash of ours, is damaged, or fails.
    pub fn recover(storage: &mut dyn Storage) -> Result<Self, FlashError> {
        Self::recover_as(storage, &Begin::default())
    }

    /// The same, but keeps only some pages, or takes over another size of the backing store.
    ///
    /// # Errors
    /// As [`recover`](Self::recover).
    pub fn recover_as(storage: &mut dyn Storage, begin: &Begin) -> Result<Self, FlashError> {
        // A killed process may have left slots in the cache of the flash: what the table will say of
        // them must not become durable before they are.
        storage.sync()?;
        let mut flash = Self::read(storage)?;
        let former = Self::read_table(storage, &flash.superblock)?;
        flash.adapt(begin);
        let changed = (0..flash.superblock.layout.table_blocks).filter(|&block| {
            let slots = flash.slots_of(block);
            flash.uneven.contains_key(&block) || flash.rows[slots.clone()] != former.rows[slots]
        });
        let changed: Vec<u32> = changed.collect();
        flash.write_table(storage, &changed)?;
        flash.begin_epoch(storage)?;
        Ok(flash)
    }

    /// From now on the journal so far does not count: the table says all.
    pub(crate) fn begin_epoch(&mut self, storage: &mut dyn Storage) -> Result<(), FlashError> {
        self.superblock.epoch += 1;
        self.superblock.has_single_journal = false;
        self.superblock.end = None;
        let first_copy = std::mem::take(&mut self.first_copy);
        write_superblock(storage, &self.superblock, first_copy)
    }

    /// Finds out what a flash holds, and changes nothing.
    ///
    /// # Errors
    /// What is no flash of ours, is damaged, or fails.
    pub fn read(storage: &mut dyn Storage) -> Result<Self, FlashError> {
        let (superblock, place, damaged) = read_superblock(storage)?;
        let (found_bytes, wanted_bytes) = (storage.size_bytes()?, superblock.layout.flash_bytes());
        if found_bytes < wanted_bytes {
            return Err(FlashError::TooSmall { found_bytes, wanted_bytes });
        }
        let mut flash = Self::read_table(storage, &superblock)?;
        flash.first_copy = 1 - place;
        flash.damaged_blocks += damaged;
        let journal = Journal::read(storage, &superblock)?;
        flash.replay(storage, &journal);
        Ok(flash)
    }

    /// What it is.
    pub const fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// What the table says: of each block, the copy of the later generation that is intact.
    fn read_table(storage: &mut dyn Storage, superblock: &Superblock) -> Result<Self, FlashError> {
        let mut flash = Self::empty(*superblock);
        let layout = superblock.layout;
        let first_bytes = layout.table_offset_bytes(0, 0);
        let mut blocks = Blocks::new(storage, first_bytes, 2 * u64::from(layout.table_blocks));
        for block in 0..layout.table_blocks {
            let copies: [Copied; 2] = std::array::from_fn(|_| {
                blocks.next(|bytes| {
                    table::decode(bytes).filter(|(header, _)| {
                        header.cache == superblock.cache && header.block == block
                    })
                })
            });
            flash.take_table_block(block, copies)?;
        }
        Ok(flash)
    }

    fn take_table_block(&mut self, block: u32, copies: [Copied; 2]) -> Result<(), FlashError> {
        let damaged = copies.iter().filter(|copy| matches!(copy, Copied::Damaged)).count();
        // A block whose second copy was never written was not relied on either: the journal has it all.
        if damaged == copies.len() {
            return Err(FlashError::MetadataLost { part: "table", block: block.into() });
        }
        self.damaged_blocks += damaged as u64;
        // A damaged copy is written before a blank one: if both were damaged, nothing could be read.
        let [first_worth, second_worth] = [&copies[0], &copies[1]].map(|copy| match copy {
            Copied::Damaged => (0, 0),
            Copied::Blank => (1, 0),
            Copied::Intact((header, _)) => (2, header.generation),
        });
        let [first, second] = copies.map(|copy| match copy {
            Copied::Intact(block) => Some(block),
            Copied::Blank | Copied::Damaged => None,
        });
        if first != second || damaged > 0 {
            self.uneven.insert(block, u64::from(first_worth > second_worth));
        }
        let newest = first.into_iter().chain(second).max_by_key(|(header, _)| header.generation);
        let Some((header, rows)) = newest else { return Ok(()) };
        self.generations[block as usize] = header.generation;
        let slots = self.slots_of(block);
        for (slot, row) in slots.zip(rows) {
            self.rows[slot] = row.filter(|row| self.is_page(row.page));
            self.version = self.version.max(row.map_or(0, |row| row.version));
        }
        Ok(())
    }

    /// Brings the rows of the table up to the end of the journal.
    fn replay(&mut self, storage: &mut dyn Storage, journal: &Journal) {
        let mut pages: BTreeMap<u32, usize> = BTreeMap::new();
        // The table may name an older slot of a page, if its block was written before.
        for slot in 0..self.rows.len() {
            let Some(row) = self.rows[slot] else { continue };
            match pages.get(&row.page).copied() {
                Some(other) if self.rows[other].is_some_and(|held| held.version > row.version) => {
                    self.rows[slot] = None;
                }
                Some(other) => {
                    self.rows[other] = None;
                    pages.insert(row.page, slot);
                }
                None => drop(pages.insert(row.page, slot)),
            }
        }
        for (sequence, records) in &journal.blocks {
            let is_certain = *sequence < journal.uncertain;
            for record in records {
                self.version = self.version.max(record.version);
                if (record.slot as usize) < self.rows.len() && self.is_page(record.page) {
                    self.replay_record(storage, record, is_certain, &mut pages);
                }
            }
        }
        self.version = self.version.max(journal.version);
        self.superblock.first_sequence = journal.next_sequence;
        self.superblock.written_bytes = journal.written_bytes;
        self.damaged_blocks += journal.damaged_blocks;
    }

    /// What a record says counts if it is newer than what is known of its page: a table block that
    /// was written later may know more. A record whose slot may not be durable counts if the slot has
    /// the right bytes; if not, what was before it still is where it was.
    fn replay_record(
        &mut self,
        storage: &mut dyn Storage,
        record: &Record,
        is_certain: bool,
        pages: &mut BTreeMap<u32, usize>,
    ) {
        let slot = record.slot as usize;
        let is_there =
            record.kind != RecordKind::Free && (is_certain || self.slot_matches(storage, record));
        // What the slot held before is gone, whosever it was.
        if let Some(held) = self.rows[slot].take()
            && pages.get(&held.page) == Some(&slot)
        {
            pages.remove(&held.page);
        }
        let other = pages.get(&record.page).copied();
        let other_version = other.and_then(|other| self.rows[other]).map_or(0, |held| held.version);
        if is_there && record.version >= other_version {
            self.rows[slot] = Some(Row {
                page: record.page,
                checksum: record.checksum,
                version: record.version,
                is_dirty: record.kind == RecordKind::Dirty,
            });
            pages.insert(record.page, slot);
        }
        // That the disk has a version, or the slot a newer one, ends all older slots of the page; and a
        // page has one slot.
        let ends_older = is_there || record.kind != RecordKind::Dirty;
        if let Some(other) = other.filter(|&other| other != slot)
            && ends_older
            && (other_version < record.version || (is_there && other_version == record.version))
        {
            self.rows[other] = None;
            if pages.get(&record.page) == Some(&other) {
                pages.remove(&record.page);
            }
        }
    }

    fn slot_matches(&self, storage: &mut dyn Storage, record: &Record) -> bool {
        let mut bytes = vec![0; self.superblock.layout.page_bytes as usize];
        // What cannot be read may well be there: the page is lost then, and not an older one served.
        let is_readable = storage.read_at(self.slot_offset_bytes(record.slot), &mut bytes).is_ok();
        !is_readable || checksum(record.page, record.version, &bytes) == record.checksum
    }

    /// Where a slot lies.
    pub(crate) fn slot_offset_bytes(&self, slot: u32) -> u64 {
        let layout = &self.superblock.layout;
        layout.slot_offset_bytes() + u64::from(slot) * u64::from(layout.page_bytes)
    }

    fn is_page(&self, page: u32) -> bool {
        let page_bytes = u64::from(self.superblock.layout.page_bytes);
        (u64::from(page) + 1) * page_bytes <= self.superblock.backing_bytes
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
        for copy in 0..2 {
            for &block in blocks {
                let generation = self.generations[block as usize];
                let header = table::Header { cache, generation, block };
                let mut bytes = vec![0; BLOCK_BYTES];
                let rows = self.rows[self.slots_of(block)].iter().copied();
                table::encode(&mut bytes, &header, rows);
                let offset = self.superblock.layout.table_offset_bytes(block, generation + copy);
                storage.write_at(offset, &bytes)?;
            }
            storage.sync()?;
        }
        Ok(())
    }
}

/// What the journal says beyond the table.
#[derive(Debug)]
struct Journal {
    /// The blocks that count, in order.
    blocks: Vec<(u64, Vec<Record>)>,
    /// From this block on, slots may not have been durable when their records were.
    uncertain: u64,
    next_sequence: u64,
    version: u64,
    written_bytes: u64,
    damaged_blocks: u64,
}

impl Journal {
    /// Reads the blocks of the superblock's epoch. One copy of each is enough.
    fn read(storage: &mut dyn Storage, superblock: &Superblock) -> Result<Self, FlashError> {
        let mut found = BTreeMap::new();
        let mut journal = Self {
            blocks: vec![],
            uncertain: superblock.first_sequence,
            next_sequence: superblock.first_sequence,
            version: 0,
            written_bytes: superblock.written_bytes,
            damaged_blocks: 0,
        };
        let mut tail = superblock.first_sequence;
        let places = superblock.layout.journal_blocks;
        let start_bytes = Layout::journal_place_bytes(0);
        let mut blocks = Blocks::new(storage, start_bytes, places.into());
        let mut unreadable = BTreeSet::new();
        for place in 0..places {
            let Some(block) = blocks.next_block() else {
                unreadable.insert(Layout::journal_place_bytes(place));
                continue;
            };
            let Some((header, records)) = journal::decode(&block) else { continue };
            let is_ours = header.cache == superblock.cache
                && header.epoch == superblock.epoch
                && journal_places(superblock, header.sequence)
                    .contains(&Layout::journal_place_bytes(place));
            if !is_ours {
                continue;
            }
            tail = tail.max(header.tail);
            journal.uncertain = journal.uncertain.max(header.uncertain);
            journal.next_sequence = journal.next_sequence.max(header.sequence + 1);
            journal.written_bytes = journal.written_bytes.max(header.written_bytes);
            let newest = records.iter().map(|record| record.version).max();
            journal.version = journal.version.max(newest.unwrap_or(0));
            found.entry(header.sequence).or_insert((records, 0_u32)).1 += 1;
        }
        let mut next = tail;
        while let Some((records, copies)) = found.remove(&next) {
            let lacks_copy = copies == 1 && !superblock.has_single_journal;
            journal.damaged_blocks += u64::from(lacks_copy && next < journal.uncertain);
            journal.blocks.push((next, records));
            next += 1;
        }
        // What follows a gap was written later than what is missing, and never acknowledged; unless a
        // later block says that what is missing was durable.
        // And what cannot be read where the next block would lie may be that block.
        let may_follow = journal_places(superblock, next).iter().all(|at| unreadable.contains(at));
        if next < journal.uncertain || may_follow {
            return Err(FlashError::MetadataLost { part: "journal", block: next });
        }
        Ok(journal)
    }
}

/// Where the copies of a journal block of that number lie.
fn journal_places(superblock: &Superblock, sequence: u64) -> Vec<u64> {
    let layout = &superblock.layout;
    if superblock.has_single_journal {
        let place = sequence % u64::from(layout.journal_blocks);
        return vec![(2 + place) * BLOCK_BYTES as u64];
    }
    layout.journal_offsets_bytes(sequence).to_vec()
}

/// The newest superblock, its place, and how many copies are damaged.
pub(crate) fn read_superblock(
    storage: &mut dyn Storage,
) -> Result<(Superblock, u64, u64), FlashError> {
    if storage.size_bytes()? < 2 * BLOCK_BYTES as u64 {
        return Err(if is_blank(storage)? { FlashError::Empty } else { FlashError::Foreign });
    }
    let mut found = vec![];
    let mut failure = None;
    for place in 0..2 {
        let mut block = vec![0; BLOCK_BYTES];
        match storage.read_at(Layout::superblock_offset_bytes(place), &mut block) {
            Ok(()) => found.push((place, Superblock::decode(&block))),
            Err(error) => failure = Some(error),
        }
    }
    let intact = found.iter().filter_map(|&(place, found)| Some((found.ok()?, place)));
    let age = |superblock: &Superblock| (superblock.epoch, superblock.end.is_some());
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
        None if faults.contains(&Unreadable::Torn) => FlashError::Damaged,
        None if faults.contains(&Unreadable::Foreign) => FlashError::Foreign,
        None if is_blank(storage)? => FlashError::Empty,
        None => FlashError::Foreign,
    })
}

/// Whether a device without a superblock was never used, as far as its head and its tail tell: file
/// systems and volume managers leave the first bytes alone, and some keep their labels at the end.
fn is_blank(storage: &mut dyn Storage) -> Result<bool, FlashError> {
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
    // What ends within a block was never made for a cache.
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
    for place in [first_copy, first_copy + 1] {
        storage.write_at(Layout::superblock_offset_bytes(place), &block)?;
        storage.sync()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Memory(Vec<u8>);

    impl Memory {
        fn part(&mut self, offset_bytes: u64, length: usize) -> &mut [u8] {
            let start = usize::try_from(offset_bytes).unwrap();
            &mut self.0[start..start + length]
        }
    }

    impl Storage for Memory {
        fn size_bytes(&mut self) -> io::Result<u64> {
            Ok(self.0.len() as u64)
        }

        fn read_at(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> io::Result<()> {
            bytes.copy_from_slice(self.part(offset_bytes, bytes.len()));
            Ok(())
        }

        fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
            self.part(offset_bytes, bytes.len()).copy_from_slice(bytes);
            Ok(())
        }

        fn sync(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A flash whose first journal block says this.
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
