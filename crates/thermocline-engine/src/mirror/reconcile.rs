//! Two members of one generation made alike, after a power failure or a kill.
//!
//! Both have all that was acknowledged. Beyond that, one may have what the other lacks: slots and journal blocks
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
//! 4. The superblock: that of the later epoch, or of the end of the same. Before all else, both copies on each
//!    member are alike, and both members have one layout.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Range;

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

/// The superblock of each member, its place, and how many of its copies are damaged.
type FoundSuperblocks = [(Superblock, u64, u64); 2];

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
        // Without an end: annexes may be anywhere.
        let window = range.start..u64::MAX;
        let mut regions = [Section::new(one, window.clone()), Section::new(other, window)];
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
        let start = region_range(&first.layout, &first.share.map, share.index.into()).start;
        let window = start..u64::MAX;
        let mut regions = [Section::new(one, window.clone()), Section::new(other, window)];
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

fn old_copy(place: usize, behind: &Superblock, ahead: &Superblock) -> MirrorError {
    let which = Place(place);
    MirrorError::OldCopy { which, found_epoch: behind.epoch, newest_epoch: ahead.epoch }
}

/// Return what decides which of two superblocks of one layout is newer.
fn age(superblock: &Superblock) -> (u64, bool, bool, u64) {
    let Superblock { epoch, end, is_given_up, backing_bytes, .. } = superblock;
    (*epoch, end.is_some(), *is_given_up, *backing_bytes)
}

/// Return `true` if both copies say that.
fn has_both_copies(storage: &mut dyn Storage, superblock: &Superblock) -> bool {
    let mut expected = vec![0; BLOCK_BYTES];
    superblock.encode(&mut expected);
    let mut block = vec![0; BLOCK_BYTES];
    (0..2).all(|place| {
        let read = storage.read_at(Layout::superblock_offset_bytes(place), &mut block);
        read.is_ok() && block == expected
    })
}

/// The region of one shard on both members.
struct Region<'a> {
    pair: Pair<'a>,
}

impl Region<'_> {
    fn reconcile(&mut self, index: u16) -> Result<(), MirrorError> {
        let found = self.read_superblocks(index)?;
        let [(first, ..), (second, ..)] = found;
        if first.cache != second.cache || !first.layout.is_like(&second.layout) {
            return Err(damaged(1, FlashError::Mixed { index }));
        }
        // No layout changes before both members are durably in the epoch.
        if first.layout != second.layout && first.epoch != second.epoch {
            let is_first_behind = first.epoch < second.epoch;
            let (behind, ahead) = if is_first_behind { (first, second) } else { (second, first) };
            return Err(old_copy(usize::from(!is_first_behind), &behind, &ahead));
        }
        match first.epoch.cmp(&second.epoch) {
            Ordering::Equal => {}
            Ordering::Greater => self.check_behind(1, &first, &second)?,
            Ordering::Less => self.check_behind(0, &second, &first)?,
        }
        let [first, second] = self.level_superblocks(&found)?;
        // An orderly end has made all durable on both.
        let damaged_copies: u64 = found.iter().map(|(_, _, damaged)| damaged).sum();
        if first == second && first.end.is_some() && damaged_copies == 0 {
            return Ok(());
        }
        if first.epoch == second.epoch {
            self.merge_journals(&first)?;
        }
        self.merge_tables(&first)?;
        let (place, newer) = match age(&first).cmp(&age(&second)) {
            Ordering::Greater => (1, first),
            Ordering::Less => (0, second),
            Ordering::Equal => return Ok(()),
        };
        recovery::write_superblock(self.pair[place], &newer, 0).map_err(damaged_at(place))
    }

    fn read_superblocks(&mut self, index: u16) -> Result<FoundSuperblocks, MirrorError> {
        let [one, other] = &mut self.pair;
        Ok([
            recovery::read_superblock(*one, index).map_err(damaged_at(0))?,
            recovery::read_superblock(*other, index).map_err(damaged_at(1))?,
        ])
    }

    /// Gives both copies of the superblock on each member what the newest of its copies says, and both members the
    /// layout with more slots. Returns the superblocks.
    ///
    /// Of a change of the layout that was cut off, either layout is right on both members: more slots are named when
    /// both members durably have the blocks of the table for them, and used when both name them; slots that go are
    /// left before.
    fn level_superblocks(
        &mut self,
        found: &FoundSuperblocks,
    ) -> Result<[Superblock; 2], MirrorError> {
        let [one, other] = found.each_ref().map(|(superblock, ..)| superblock.layout);
        let layout = if other.slots > one.slots { other } else { one };
        let mut levelled = found.each_ref().map(|(superblock, ..)| *superblock);
        for (member, (superblock, place, _)) in found.iter().enumerate() {
            levelled[member].layout = layout;
            let storage = &mut *self.pair[member];
            if superblock.layout == layout && has_both_copies(storage, superblock) {
                continue;
            }
            // Later writes begin with the same copy on both members: the other copy must be as good on each, or
            // power that is cut then would leave an old superblock alone.
            recovery::write_superblock(storage, &levelled[member], 1 - place)
                .map_err(damaged_at(member))?;
        }
        Ok(levelled)
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
        Err(old_copy(place, behind, ahead))
    }

    fn sync(&mut self) -> Result<(), MirrorError> {
        Ok(self.pair.iter_mut().try_for_each(|storage| storage.sync())?)
    }

    /// Gives both the journal blocks of the epoch that one has, and the slots that these name.
    fn merge_journals(&mut self, superblock: &Superblock) -> Result<(), MirrorError> {
        let [one, other] = &mut self.pair;
        let journals = [Journal::read(*one, superblock), Journal::read(*other, superblock)];
        // A block calls others durable only after a sync of both members, so the word of one is enough.
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
        // Slots before blocks: a block may call others durable, and recovery does not look at the slots
        // of those.
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
        let mut parts = superblock.layout.table_parts();
        parts.try_for_each(|part| self.merge_table_part(superblock, part))
    }

    /// Does so for blocks that lie one after the other.
    fn merge_table_part(
        &mut self,
        superblock: &Superblock,
        (numbers, start): (Range<u32>, u64),
    ) -> Result<(), MirrorError> {
        let count = 2 * numbers.len() as u64;
        let mut place = 0_u64;
        let mut differing: Vec<Differing> = vec![];
        let [one, other] = &mut self.pair;
        let (mut first, mut second) =
            (Blocks::new(*one, start, count), Blocks::new(*other, start, count));
        let mut batches = vec![];
        while let (Some(ones), Some(others)) = (first.next_batch(), second.next_batch()) {
            for (one, other) in ones.zip(others) {
                let block = u32::try_from(place / 2).expect("a table has few blocks");
                let block = numbers.start + block;
                differing.extend(Differing::find(superblock, block, place, one, other));
                place += 1;
            }
            batches.push(std::mem::take(&mut differing));
        }
        for batch in batches.into_iter().filter(|batch| !batch.is_empty()) {
            // One copy of each block stays whole.
            for copy in 0..2 {
                for found in batch.iter().filter(|found| found.place % 2 == copy) {
                    let offset_bytes = start.wrapping_add(found.place * BLOCK_BYTES as u64);
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

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use uuid::Uuid;

    use super::*;
    use crate::epoch::Begin;
    use crate::format::table::{Header, Row};
    use crate::shard_map::ShardMap;
    use crate::sharding::{Extension, FlashSet};
    use crate::storage::memory::Memory;

    const CACHE: Uuid = Uuid::from_u128(5);
    const MIB: u64 = 1 << 20;

    /// Return two members with two regions of a few slots each.
    fn pair() -> [Memory; 2] {
        let map = ShardMap::new(NonZeroU16::new(2).unwrap(), 4096);
        let mut memory = Memory(vec![0; 16 << 20]);
        let layout = Layout::new(64, 4096);
        FlashSet::initialise(&mut memory, CACHE, layout, map, 4096 * 4096).unwrap();
        let twin = memory.0.clone();
        [memory, Memory(twin)]
    }

    /// Gives both regions of a member more slots.
    fn grow(memory: &mut Memory) -> Vec<Layout> {
        let mut extension = Extension::plan(memory, 500..=500, None).unwrap();
        extension.place_behind(16 * MIB).unwrap();
        extension.apply(memory).unwrap();
        extension.layouts()
    }

    fn reconcile_both(pair: &mut [Memory; 2]) -> Result<(), MirrorError> {
        let [one, other] = pair;
        reconcile([one, other])
    }

    /// Return the layouts of both regions, and check that both copies of both superblocks are alike.
    fn layouts(memory: &mut Memory) -> Vec<Layout> {
        let read = FlashSet::read(memory).unwrap();
        for shard in 0..2 {
            let start = read.range(shard).start;
            let first = memory.part(start, BLOCK_BYTES).to_vec();
            assert!(memory.part(start + BLOCK_BYTES as u64, BLOCK_BYTES) == first, "{shard}");
        }
        read.flashes().iter().map(|flash| flash.superblock().layout).collect()
    }

    #[test]
    fn a_growth_that_one_member_lacks_is_on_both_or_neither() {
        for ahead in [0, 1] {
            let mut pair = pair();
            let grown = grow(&mut pair[ahead]);
            reconcile_both(&mut pair).unwrap();
            let [one, other] = pair.each_mut().map(layouts);
            assert_eq!(one, grown);
            assert_eq!(other, grown);
        }
    }

    #[test]
    fn both_copies_of_a_superblock_are_alike_after_power_was_cut_between_them() {
        for (member, copy) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let mut pair = pair();
            let former = pair[member].part(copy * BLOCK_BYTES as u64, BLOCK_BYTES).to_vec();
            for memory in &mut pair {
                let mut read = FlashSet::read(memory).unwrap();
                read.adapt(&Begin::default());
                read.take_over(memory).unwrap();
            }
            // The other copy was written on both, and this one on one of them.
            pair[member].part(copy * BLOCK_BYTES as u64, BLOCK_BYTES).copy_from_slice(&former);
            reconcile_both(&mut pair).unwrap();
            let [one, other] = pair.each_mut().map(layouts);
            assert_eq!(one, other);
        }
    }

    #[test]
    fn a_member_of_an_earlier_epoch_that_did_not_grow_is_an_old_copy() {
        for behind in [0, 1] {
            let mut pair = pair();
            let newer = &mut pair[1 - behind];
            grow(newer);
            FlashSet::read(newer).unwrap().take_over(newer).unwrap();
            let error = reconcile_both(&mut pair).unwrap_err();
            let MirrorError::OldCopy { which, found_epoch, newest_epoch } = error else {
                panic!("{error}")
            };
            assert_eq!((which, found_epoch, newest_epoch), (Place(behind), 1, 2));
        }
    }

    #[test]
    fn blocks_of_the_table_in_annexes_are_merged() {
        for ahead in [0, 1] {
            let mut pair = pair();
            let grown = pair.each_mut().map(grow);
            let layout = grown[0][1];
            let region = FlashSet::read(&mut pair[0]).unwrap();
            let cache = region.flashes()[1].superblock().cache;
            let place =
                region.range(1).start + layout.table_offset_bytes(layout.table_blocks - 1, 1);
            let row = Row { page: 3, checksum: 4, version: 5, is_dirty: false };
            let header = Header { cache, generation: 1, block: layout.table_blocks - 1 };
            let block = pair[ahead].part(place, BLOCK_BYTES);
            table::encode(block, &header, [Some(row)].into_iter());
            let written = block.to_vec();
            reconcile_both(&mut pair).unwrap();
            assert!(pair[1 - ahead].part(place, BLOCK_BYTES) == written);
        }
    }
}
