//! Two members of one generation made alike, after a power failure or a kill.
//!
//! What was acknowledged is on both. Beyond that, one may have what the other lacks: slots and journal blocks
//! of the last commits, table blocks of a checkpoint under way, the superblocks of a start or an end. Each
//! member gets what the other one has, in an order in which each of them alone is a flash that recovery reads,
//! at any time:
//!
//! 1. The slots that journal blocks name which no later block calls durable. Neither member uses these slots for
//!    anything else: a slot is used again only when both have the record that frees it.
//! 2. The journal blocks themselves. Of two blocks in one place the later one counts: it was written only when
//!    both members no longer needed the earlier one.
//! 3. The blocks of the table, in each place the one of the later generation. All records since an earlier
//!    generation are in the journal, which is now the same.
//! 4. The superblock: that of the later epoch, or of the end of the same.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::pairing::{MirrorError, Place};
use crate::blocks::Blocks;
use crate::directory::Directory;
use crate::format::journal::{self, Record, RecordKind};
use crate::format::superblock::Superblock;
use crate::format::{BLOCK_BYTES, Layout, checksum, table};
use crate::recovery::{self, Flash, FlashError};
use crate::shard_map::Share;
use crate::sharding::region_range;
use crate::storage::{Section, Storage};

/// The contents of both members.
type Pair<'a> = [&'a mut dyn Storage; 2];

/// Makes two members of one generation alike. `pair` are their contents, without labels.
///
/// # Errors
/// A member that fails, or is damaged beyond what its second copies repair.
pub fn reconcile(pair: Pair<'_>) -> Result<(), MirrorError> {
    let [one, other] = pair;
    let found = [Directory::read(one), Directory::read(other)];
    let [Ok(first), Ok(second)] = found else {
        // A start that reads it says what is wrong, unless the other member is intact.
        return match found {
            [Err(error), Ok(Some(_))] => Err(damaged(0, FlashError::Directory(Box::new(error)))),
            [Ok(Some(_)), Err(error)] => Err(damaged(1, FlashError::Directory(Box::new(error)))),
            _ => Ok(()),
        };
    };
    let Some(newest) = Directory::newest(first.as_ref(), second.as_ref()).cloned() else {
        return reconcile_set([one, other]);
    };
    for (storage, found) in [(&mut *one, &first), (&mut *other, &second)] {
        if found.as_ref() != Some(&newest) {
            newest.copy_to(storage)?;
        }
    }
    for (_, range) in newest.volumes() {
        let mut regions = [Section::new(one, range.clone()), Section::new(other, range.clone())];
        let [one, other] = &mut regions;
        reconcile_set([one, other])?;
    }
    Ok(())
}

const fn damaged_at(place: usize) -> impl FnOnce(FlashError) -> MirrorError {
    move |error| damaged(place, error)
}

fn damaged(place: usize, error: FlashError) -> MirrorError {
    if let FlashError::Io(error) = error {
        return MirrorError::Io(error);
    }
    MirrorError::Damaged { which: Place(place), error: Box::new(error) }
}

/// Makes the flashes of one cache alike.
fn reconcile_set(pair: Pair<'_>) -> Result<(), MirrorError> {
    let [one, other] = pair;
    let found = [recovery::read_superblock(one, 0), recovery::read_superblock(other, 0)];
    let first = match found {
        [Ok((first, ..)), Ok(_)] => first,
        [Ok((found, ..)), Err(error)] => return undo_set_up(one, &found, damaged(1, error)),
        [Err(error), Ok((found, ..))] => return undo_set_up(other, &found, damaged(0, error)),
        // Nothing was set up, or a start says what is wrong.
        [Err(_), Err(_)] => return Ok(()),
    };
    for share in Share::all(first.share.map) {
        let range = region_range(&first.layout, &first.share.map, share.index.into());
        let mut regions = [Section::new(one, range.clone()), Section::new(other, range)];
        let [one, other] = &mut regions;
        Region { pair: [one, other] }.reconcile(share.index)?;
    }
    Ok(())
}

/// Undoes a set-up that one member has and the other one lacks: it was cut off before anything was served.
fn undo_set_up(
    storage: &mut dyn Storage,
    found: &Superblock,
    error: MirrorError,
) -> Result<(), MirrorError> {
    let is_empty = matches!(
        &error,
        MirrorError::Damaged { error, .. }
            if matches!(**error, FlashError::Empty | FlashError::Foreign | FlashError::Damaged)
    );
    if !is_empty || found.epoch != 1 || found.end.is_some() {
        return Err(error);
    }
    storage.write_at(0, &[0; 2 * BLOCK_BYTES])?;
    Ok(storage.sync()?)
}

/// The region of one shard on both members.
struct Region<'a> {
    pair: Pair<'a>,
}

impl Region<'_> {
    fn reconcile(&mut self, index: u16) -> Result<(), MirrorError> {
        let [one, other] = &mut self.pair;
        let (first, first_place, first_damaged) =
            recovery::read_superblock(*one, index).map_err(damaged_at(0))?;
        let (second, second_place, second_damaged) =
            recovery::read_superblock(*other, index).map_err(damaged_at(1))?;
        if first.cache != second.cache || first.layout != second.layout {
            return Err(damaged(1, FlashError::Mixed { index }));
        }
        // An orderly end has made all durable on both.
        if first == second && first.end.is_some() && first_damaged + second_damaged == 0 {
            return Ok(());
        }
        match first.epoch.cmp(&second.epoch) {
            Ordering::Equal => self.merge_journals(&first)?,
            Ordering::Greater => self.check_behind(1, &first, &second)?,
            Ordering::Less => self.check_behind(0, &second, &first)?,
        }
        self.merge_tables(&first)?;
        let age = |superblock: &Superblock| {
            let Superblock { epoch, end, is_given_up, backing_bytes, .. } = superblock;
            (*epoch, end.is_some(), *is_given_up, *backing_bytes)
        };
        let (place, newer, older_place) = match age(&first).cmp(&age(&second)) {
            Ordering::Greater => (1, first, second_place),
            Ordering::Less => (0, second, first_place),
            Ordering::Equal => return Ok(()),
        };
        recovery::write_superblock(self.pair[place], &newer, 1 - older_place)
            .map_err(damaged_at(place))
    }

    /// Refuse a member of an earlier epoch if the other one was written to in a later one: nothing is, before
    /// both are in it. It is also refused if it lacks dirty pages. The member at `place` is the one behind.
    fn check_behind(
        &mut self,
        place: usize,
        ahead: &Superblock,
        behind: &Superblock,
    ) -> Result<(), MirrorError> {
        let journal = Journal::read(self.pair[1 - place], ahead);
        let index = ahead.share.index;
        let mut read =
            |place: usize| Flash::read_region(self.pair[place], index).map_err(damaged_at(place));
        let (newer, older) = (read(1 - place)?, read(place)?);
        let mut rows = newer.rows.iter().zip(&older.rows);
        let has_all =
            rows.all(|(newer, older)| newer.is_none_or(|row| !row.is_dirty || *older == Some(row)));
        if has_all && journal.blocks.is_empty() && ahead.end.is_none() {
            return Ok(());
        }
        let which = Place(place);
        let (found_epoch, newest_epoch) = (behind.epoch, ahead.epoch);
        Err(MirrorError::OldCopy { which, found_epoch, newest_epoch })
    }

    fn sync(&mut self) -> Result<(), MirrorError> {
        Ok(self.pair.iter_mut().try_for_each(|storage| storage.sync())?)
    }

    /// Gives both the journal blocks of the epoch that one has, and the slots that these name.
    fn merge_journals(&mut self, superblock: &Superblock) -> Result<(), MirrorError> {
        let [one, other] = &mut self.pair;
        let journals = [Journal::read(*one, superblock), Journal::read(*other, superblock)];
        let uncertain = journals.iter().map(|journal| journal.uncertain).max().unwrap_or(0);
        let mut records: BTreeMap<(u32, u64), Record> = BTreeMap::new();
        for journal in &journals {
            for (sequence, _, found) in journal.blocks.values() {
                let named = found.iter().filter(|record| {
                    *sequence >= uncertain
                        && record.kind != RecordKind::Free
                        && record.slot < superblock.layout.slots
                });
                records.extend(named.map(|record| ((record.slot, record.version), *record)));
            }
        }
        for record in records.values() {
            self.merge_slot(superblock, record)?;
        }
        self.sync()?;
        let [first, second] = &journals;
        let places: Vec<u64> = first.blocks.keys().chain(second.blocks.keys()).copied().collect();
        for place in places {
            let sequence =
                |journal: &Journal| journal.blocks.get(&place).map(|(sequence, ..)| *sequence);
            let (target, source) = match sequence(first).cmp(&sequence(second)) {
                Ordering::Greater => (1, first),
                Ordering::Less => (0, second),
                Ordering::Equal => continue,
            };
            let (_, bytes, _) = &source.blocks[&place];
            self.pair[target].write_at(place, bytes)?;
        }
        self.sync()
    }

    /// Gives both what a slot holds if one of them has it.
    fn merge_slot(&mut self, superblock: &Superblock, record: &Record) -> Result<(), MirrorError> {
        let layout = &superblock.layout;
        let page_bytes = layout.page_bytes as usize;
        let place = layout.slot_place_bytes(record.slot);
        let [first, second] = self.pair.each_mut().map(|storage| {
            let mut bytes = vec![0; page_bytes];
            let is_read = storage.read_at(place, &mut bytes).is_ok();
            let is_right = checksum(record.page, record.version, &bytes) == record.checksum;
            (is_read && is_right).then_some(bytes)
        });
        match (first, second) {
            (Some(bytes), None) => self.pair[1].write_at(place, &bytes)?,
            (None, Some(bytes)) => self.pair[0].write_at(place, &bytes)?,
            (Some(_), Some(_)) | (None, None) => {}
        }
        Ok(())
    }

    /// Gives both the later one of two copies of each block of the table.
    fn merge_tables(&mut self, superblock: &Superblock) -> Result<(), MirrorError> {
        let layout = &superblock.layout;
        let (start, count) = (layout.table_offset_bytes(0, 0), 2 * u64::from(layout.table_blocks));
        let mut place = 0_u64;
        let mut differing: Vec<Differing> = vec![];
        let [one, other] = &mut self.pair;
        let (mut first, mut second) =
            (Blocks::new(*one, start, count), Blocks::new(*other, start, count));
        let mut batches = vec![];
        while let (Some(ones), Some(others)) = (first.next_batch(), second.next_batch()) {
            for (one, other) in ones.zip(others) {
                let block = u32::try_from(place / 2).expect("a table has few blocks");
                differing.extend(Differing::find(superblock, block, place, one, other));
                place += 1;
            }
            batches.push(std::mem::take(&mut differing));
        }
        for batch in batches.into_iter().filter(|batch| !batch.is_empty()) {
            // One copy of each block stays whole.
            for copy in 0..2 {
                for found in batch.iter().filter(|found| found.place % 2 == copy) {
                    let offset_bytes = start + found.place * BLOCK_BYTES as u64;
                    self.pair[found.target].write_at(offset_bytes, &found.bytes)?;
                }
                self.sync()?;
            }
        }
        Ok(())
    }
}

/// A block of the table that one member lacks.
struct Differing {
    place: u64,
    /// Which member lacks it.
    target: usize,
    bytes: Vec<u8>,
}

impl Differing {
    fn find(
        superblock: &Superblock,
        block: u32,
        place: u64,
        one: Option<&[u8]>,
        other: Option<&[u8]>,
    ) -> Option<Self> {
        if one.is_some() && one == other {
            return None;
        }
        // A damaged block is worth less than one that was never written.
        let worth = |bytes: Option<&[u8]>| {
            let bytes = bytes?;
            let found = table::decode(bytes)
                .filter(|(header, _)| header.cache == superblock.cache && header.block == block);
            let is_blank = bytes.iter().all(|&byte| byte == 0);
            found.map(|(header, _)| 1 + header.generation).or(is_blank.then_some(0))
        };
        let (target, bytes) = match worth(one).cmp(&worth(other)) {
            Ordering::Greater => (1, one),
            Ordering::Less => (0, other),
            // Two that are damaged, or say the same in other words.
            Ordering::Equal => return None,
        };
        Some(Self { place, target, bytes: bytes?.to_vec() })
    }
}

/// The blocks of a member's journal that are of the epoch.
struct Journal {
    /// By their place on the member: their numbers, bytes and records.
    blocks: BTreeMap<u64, (u64, Vec<u8>, Vec<Record>)>,
    /// The first block that no block calls durable.
    uncertain: u64,
}

impl Journal {
    fn read(storage: &mut dyn Storage, superblock: &Superblock) -> Self {
        let places = superblock.layout.journal_blocks;
        let mut journal = Self { blocks: BTreeMap::new(), uncertain: superblock.first_sequence };
        let mut blocks = Blocks::new(storage, Layout::journal_place_bytes(0), places.into());
        let mut place = 0;
        while let Some(batch) = blocks.next_batch() {
            for bytes in batch {
                let at = Layout::journal_place_bytes(place);
                place += 1;
                let Some((bytes, (header, records))) =
                    bytes.and_then(|bytes| Some((bytes, journal::decode(bytes)?)))
                else {
                    continue;
                };
                let is_ours = header.cache == superblock.cache
                    && header.epoch == superblock.epoch
                    && superblock.layout.journal_offsets_bytes(header.sequence).contains(&at);
                if is_ours {
                    journal.uncertain = journal.uncertain.max(header.uncertain);
                    journal.blocks.insert(at, (header.sequence, bytes.to_vec(), records));
                }
            }
        }
        journal
    }
}
