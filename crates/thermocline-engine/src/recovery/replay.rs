//! Replaying the journal: the table as it was written, and what happened since.
//!
//! It enforces rule 3 of durability (`ARCHITECTURE.md`): a record without its slot does not count.

use std::collections::{BTreeMap, BTreeSet};

use rapidhash::RapidHashMap;

use super::{Flash, FlashError};
use crate::blocks::Blocks;
use crate::format::journal::{self, Record, RecordKind};
use crate::format::superblock::Superblock;
use crate::format::table::Row;
use crate::format::{BLOCK_BYTES, Layout, checksum, split};
use crate::storage::{AlignedBytes, Storage};

/// Bytes of slots that are verified at a time.
const VERIFIED_BYTES: usize = 16 << 20;

/// Slot of each page that records are about.
type Pages = RapidHashMap<u64, u32>;

/// A page that a slot holds: the lower half of its number, and the slot, whose row has all of it. A start
/// has as many as the flash has slots, so they are short.
type Held = (u32, u32);

/// Return the sort key of a page: the lower half of its number before the upper one.
const fn order(page: u64) -> u64 {
    page.rotate_left(32)
}

impl Flash {
    /// Brings the rows of the table up to the end of the journal.
    pub(super) fn replay(&mut self, storage: &mut dyn Storage, journal: &Journal) {
        let held = self.end_duplicates();
        // Records of slots or pages that do not exist say nothing.
        let records = journal.blocks.iter().flat_map(|(sequence, records)| {
            records.iter().map(move |record| (*sequence < journal.uncertain, record))
        });
        let newest = records.clone().map(|(_, record)| record.version).max();
        self.version = self.version.max(newest.unwrap_or(0));
        let records: Vec<(bool, &Record)> = records
            .filter(|(_, record)| {
                (record.slot as usize) < self.rows.len() && self.is_page(record.page)
            })
            .collect();
        let mut pages = self.pages_of(&records, &held);
        drop(held);
        // Rule 3: slots of blocks that a later block calls durable need no look; those of the last
        // commit may be missing.
        let is_doubtful = |&&(is_certain, record): &&(bool, &Record)| {
            !is_certain && record.kind != RecordKind::Free
        };
        let doubtful: Vec<&Record> =
            records.iter().filter(is_doubtful).map(|&(_, record)| record).collect();
        let mut verified = self.verify_slots(storage, &doubtful).into_iter();
        for entry in &records {
            let is_verified = !is_doubtful(&entry) || verified.next().unwrap_or(false);
            self.replay_record(entry.1, is_verified, &mut pages);
        }
        // Versions of this start come after all that any record names, durable or not.
        self.version = self.version.max(journal.version);
        self.superblock.first_sequence = journal.next_sequence;
        self.superblock.written_bytes = journal.written_bytes;
        self.damaged_blocks += journal.damaged_blocks;
        self.is_settled = journal.is_settled;
    }

    /// Ends all slots but one of each page, and gives the pages in [`order`], each by the lower half of its
    /// number and its slot. The table may name an older slot of a page, if its block was written before.
    fn end_duplicates(&mut self) -> Vec<Held> {
        let held = (0..).zip(&self.rows);
        let mut pages: Vec<Held> =
            held.filter_map(|(slot, row)| row.map(|row| (split(row.page).0, slot))).collect();
        // Few pages have the same lower half, so the rows are rarely looked up.
        let page = |&(_, slot): &Held| self.row(slot).map(|row| row.page);
        pages.sort_unstable_by(|one, other| {
            let lower = one.0.cmp(&other.0);
            lower.then_with(|| (page(one), one.1).cmp(&(page(other), other.1)))
        });
        let mut superseded = vec![];
        pages.dedup_by(|later, kept| {
            if later.0 != kept.0 || page(later) != page(kept) {
                return false;
            }
            let version = |slot: u32| self.row(slot).map_or(0, |row| row.version);
            if version(kept.1) > version(later.1) {
                superseded.push(later.1);
            } else {
                superseded.push(kept.1);
                kept.1 = later.1;
            }
            true
        });
        for slot in superseded {
            self.set_row(slot, None);
        }
        pages
    }

    /// Return the slots of all pages that records name, or that are in slots which records name;
    /// `held` are the pages of the table, in [`order`].
    fn pages_of(&self, records: &[(bool, &Record)], held: &[Held]) -> Pages {
        let in_slot = |record: &Record| self.row(record.slot).map(|row| row.page);
        let mut wanted: Vec<u64> = records
            .iter()
            .flat_map(|(_, record)| [Some(record.page), in_slot(record)])
            .flatten()
            .collect();
        wanted.sort_unstable_by_key(|&page| order(page));
        wanted.dedup();
        // One pass over all is faster than a search for each.
        let mut held = held.iter().peekable();
        let mut pages = Pages::default();
        for page in wanted {
            let lower = split(page).0;
            let found = |slot: u32| self.row(slot).map(|row| order(row.page));
            let is_before = |&&(other, slot): &&Held| {
                other < lower || (other == lower && found(slot) < Some(order(page)))
            };
            while held.next_if(is_before).is_some() {}
            let is_it =
                |&&(other, slot): &&Held| other == lower && found(slot) == Some(order(page));
            if let Some(&(_, slot)) = held.next_if(is_it) {
                pages.insert(page, slot);
            }
        }
        pages
    }

    /// Apply a record if it is newer than the known state of its page: a table block that was
    /// written later may be newer. A record whose slot may not be durable counts if the slot has
    /// the right bytes; if not, the version before it is still in its place.
    fn replay_record(&mut self, record: &Record, is_verified: bool, pages: &mut Pages) {
        let slot = record.slot;
        let is_there = record.kind != RecordKind::Free && is_verified;
        // The former content of the slot is gone, whatever page it was of.
        if let Some(held) = self.row(slot)
            && pages.get(&held.page) == Some(&slot)
        {
            pages.remove(&held.page);
        }
        self.set_row(slot, None);
        let other = pages.get(&record.page).copied();
        let other_version = other.and_then(|other| self.row(other)).map_or(0, |held| held.version);
        if is_there && record.version >= other_version {
            let row = Row {
                page: record.page,
                checksum: record.checksum,
                version: record.version,
                is_dirty: record.kind == RecordKind::Dirty,
            };
            self.set_row(slot, Some(row));
            pages.insert(record.page, slot);
        }
        // If the disk has a version, or the slot has a newer one, all older slots of the page end: a page has
        // one slot. A version that is given up ends in the slot that it moved from, too. A dirty record without
        // its slot changes nothing: the version before it is in force.
        let ends_older = is_there || record.kind != RecordKind::Dirty;
        let ends_same = is_there || record.kind == RecordKind::Free;
        if let Some(other) = other.filter(|&other| other != slot)
            && ends_older
            && (other_version < record.version || (ends_same && other_version == record.version))
        {
            self.set_row(other, None);
            if pages.get(&record.page) == Some(&other) {
                pages.remove(&record.page);
            }
        }
    }

    /// Return one answer per record: `true` if the slot has the bytes that the record says.
    fn verify_slots(&self, storage: &mut dyn Storage, records: &[&Record]) -> Vec<bool> {
        let page_bytes = self.superblock.layout.page_bytes as usize;
        let most = (VERIFIED_BYTES / page_bytes).max(1);
        let mut memory = AlignedBytes::new(most.min(records.len()) * page_bytes);
        let mut answers = Vec::with_capacity(records.len());
        for records in records.chunks(most) {
            let bytes = &mut memory.bytes_mut()[..records.len() * page_bytes];
            let pieces = records.iter().zip(bytes.chunks_mut(page_bytes));
            let mut pieces: Vec<(u64, &mut [u8])> = pieces
                .map(|(record, bytes)| (self.slot_offset_bytes(record.slot), bytes))
                .collect();
            let results = storage.read_each(&mut pieces);
            answers.extend(records.iter().zip(pieces).zip(results).map(
                |((record, (offset, bytes)), result)| {
                    let is_right = |bytes: &[u8]| {
                        checksum(record.page, record.version, bytes) == record.checksum
                    };
                    // A slot that cannot be read may well have the page: then the page is lost, and no older
                    // version is served.
                    result.is_err()
                        || is_right(bytes)
                        || storage
                            .read_other(offset, bytes)
                            .is_some_and(|read| read.is_err() || is_right(bytes))
                },
            ));
        }
        answers
    }
}

/// Changes that the journal records beyond the table.
#[derive(Debug)]
pub(super) struct Journal {
    /// The blocks that count, in order.
    blocks: Vec<(u64, Vec<Record>)>,
    /// First block whose slots may not have been durable when their records were.
    uncertain: u64,
    next_sequence: u64,
    version: u64,
    written_bytes: u64,
    damaged_blocks: u64,
    /// `true` if all its blocks could be read, and those that count have both copies.
    is_settled: bool,
}

impl Journal {
    /// Reads the blocks of the superblock's epoch. One copy of each is enough.
    pub(super) fn read(
        storage: &mut dyn Storage,
        superblock: &Superblock,
    ) -> Result<Self, FlashError> {
        let mut found = BTreeMap::new();
        let mut journal = Self {
            blocks: vec![],
            uncertain: superblock.first_sequence,
            next_sequence: superblock.first_sequence,
            version: 0,
            written_bytes: superblock.written_bytes,
            damaged_blocks: 0,
            is_settled: true,
        };
        let mut tail = superblock.first_sequence;
        let places = superblock.layout.journal_blocks;
        let start_bytes = Layout::journal_place_bytes(0);
        let mut blocks = Blocks::new(storage, start_bytes, places.into());
        let mut read = vec![];
        while let Some(batch) = blocks.next_batch() {
            read.extend(batch.map(|block| block.map(journal::decode)));
        }
        let mut unreadable = BTreeSet::new();
        for (place, block) in (0..places).map(Layout::journal_place_bytes).zip(read) {
            let Some(block) = block else {
                unreadable.insert(place);
                continue;
            };
            let Some((header, records)) = block else { continue };
            // Blocks of another epoch or cache are leftovers. A block in a place that is not its
            // own was misdirected.
            let is_ours = header.cache == superblock.cache
                && header.epoch == superblock.epoch
                && journal_places(superblock, header.sequence).contains(&place);
            if !is_ours {
                continue;
            }
            // The newest tail counts: blocks before it are in the table.
            tail = tail.max(header.tail);
            // A block says up to where all before it was durable when it was written.
            journal.uncertain = journal.uncertain.max(header.uncertain);
            journal.next_sequence = journal.next_sequence.max(header.sequence + 1);
            journal.written_bytes = journal.written_bytes.max(header.written_bytes);
            let newest = records.iter().map(|record| record.version).max();
            journal.version = journal.version.max(newest.unwrap_or(0));
            found.entry(header.sequence).or_insert((records, 0_u32)).1 += 1;
        }
        journal.is_settled = unreadable.is_empty();
        let mut next = tail;
        while let Some((records, copies)) = found.remove(&next) {
            journal.is_settled &= copies == 2;
            let lacks_copy = copies == 1 && !superblock.has_single_journal;
            journal.damaged_blocks += u64::from(lacks_copy && next < journal.uncertain);
            journal.blocks.push((next, records));
            next += 1;
        }
        // Blocks after a gap were written later than the missing one, and nothing in them was acknowledged,
        // unless a later block says that the missing one was durable. A block that cannot be read may be the
        // next one.
        let may_follow = journal_places(superblock, next).iter().all(|at| unreadable.contains(at));
        if next < journal.uncertain || may_follow {
            return Err(FlashError::MetadataLost { part: "journal", block: next });
        }
        Ok(journal)
    }
}

/// Return the places of the copies of a journal block of that number.
fn journal_places(superblock: &Superblock, sequence: u64) -> Vec<u64> {
    let layout = &superblock.layout;
    if superblock.has_single_journal {
        let place = sequence % u64::from(layout.journal_blocks);
        return vec![(2 + place) * BLOCK_BYTES as u64];
    }
    layout.journal_offsets_bytes(sequence).to_vec()
}
