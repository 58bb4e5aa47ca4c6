//! Pages of volumes, renumbered densely in order of first appearance.
//!
//! An open-addressing table with linear probing. Slots of 16 bytes hold the page number, the volume
//! and the id, so a look-up touches one cache line nearly always; keys are looked up in groups whose
//! slots are all asked for before the first is used, so that the misses overlap. The hash has no
//! seed: the same trace gives the same table everywhere. The top bits of the hash are the slot, so
//! doubling keeps the order of the slots and moves through both tables sequentially.

use thermocline_core::prefetch;

use crate::table::{Slot, Table};

/// Keys that are looked up together: enough to overlap all the misses a core can have.
pub(crate) const GROUP_KEYS: usize = 64;

/// Marks a write in a packed access.
pub(crate) const WRITE_BIT: u32 = 1 << 31;

/// Slots of an empty table, as a power of two.
const SLOTS_SHIFT_MIN: u32 = 12;

/// One page access before its page has an id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) page: u64,
    pub(crate) volume: u32,
    /// `WRITE_BIT` or 0.
    pub(crate) write_bit: u32,
}

/// More pages than ids.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// Page number, then volume in the high and id + 1 in the low half; two zeros are empty.
const EMPTY: Slot = [0; 2];

#[derive(Debug)]
pub(crate) struct IdMap {
    table: Table,
    /// Number of bits by which a hash is shifted right to give a slot number.
    shift: u32,
    limit_pages: u32,
    /// The page number of every id.
    pages: Vec<u64>,
    /// The volume of every id; empty while all are of volume 0.
    volumes: Vec<u32>,
}

impl IdMap {
    /// Create a map that gives out at most `limit_pages` ids, which is at most 2^31.
    pub(crate) fn new(limit_pages: u32) -> Self {
        assert!(limit_pages <= WRITE_BIT, "ids leave a bit for the direction");
        Self {
            table: Table::new(1 << SLOTS_SHIFT_MIN),
            shift: 64 - SLOTS_SHIFT_MIN,
            limit_pages,
            pages: Vec::new(),
            volumes: Vec::new(),
        }
    }

    /// Appends the packed accesses (id and write bit) of at most `GROUP_KEYS` keys.
    pub(crate) fn resolve(&mut self, keys: &[Key], packed: &mut Vec<u32>) -> Result<(), Full> {
        assert!(keys.len() <= GROUP_KEYS, "a group has its own slots");
        // Never more than 5/8 full, with the whole group added.
        while (self.pages.len() + keys.len()) * 8 > self.table.slots().len() * 5 {
            self.double();
        }
        let mut slots = [0; GROUP_KEYS];
        for (slot, key) in slots.iter_mut().zip(keys) {
            *slot = slot_of(key.page, key.volume, self.shift);
            // All before the first is used: the misses of a group overlap.
            prefetch(self.table.slots(), *slot);
        }
        for (&slot, key) in slots.iter().zip(keys) {
            packed.push(self.id(slot, key)? | key.write_bit);
        }
        Ok(())
    }

    /// Return the page and volume columns by id; no volumes if all pages are of volume 0.
    pub(crate) fn into_columns(self) -> (Vec<u64>, Vec<u32>) {
        (self.pages, self.volumes)
    }

    #[inline]
    fn id(&mut self, mut slot: usize, key: &Key) -> Result<u32, Full> {
        let slots = self.table.slots();
        let mask = slots.len() - 1;
        let volume = u64::from(key.volume) << 32;
        loop {
            let [page, rest] = slots[slot];
            let (id_plus_one, slot_volume) = (rest & 0xffff_ffff, rest & !0xffff_ffff);
            if id_plus_one == 0 {
                return self.add(slot, key);
            }
            if page == key.page && slot_volume == volume {
                #[expect(clippy::cast_possible_truncation, reason = "masked to 32 bits")]
                return Ok((id_plus_one - 1) as u32);
            }
            slot = (slot + 1) & mask;
        }
    }

    fn add(&mut self, slot: usize, key: &Key) -> Result<u32, Full> {
        let id = u32::try_from(self.pages.len()).map_err(|_| Full)?;
        if id >= self.limit_pages {
            return Err(Full);
        }
        self.table.slots_mut()[slot] = [key.page, u64::from(key.volume) << 32 | u64::from(id + 1)];
        if key.volume != 0 || !self.volumes.is_empty() {
            self.volumes.resize(self.pages.len(), 0);
            self.volumes.push(key.volume);
        }
        self.pages.push(key.page);
        Ok(id)
    }

    fn double(&mut self) {
        let larger = Table::new(2 * self.table.slots().len());
        let old = std::mem::replace(&mut self.table, larger);
        // One more of the hash's top bits: keys keep their order, so the copy writes both tables
        // from front to back.
        self.shift -= 1;
        let slots = self.table.slots_mut();
        let mask = slots.len() - 1;
        for &[page, rest] in old.slots() {
            if [page, rest] == EMPTY {
                continue;
            }
            let mut slot = slot_of(page, (rest >> 32) as u32, self.shift);
            while slots[slot] != EMPTY {
                slot = (slot + 1) & mask;
            }
            slots[slot] = [page, rest];
        }
    }
}

/// Return both halves of a product of 128 bits, folded: every bit of the key reaches the top bits.
#[inline]
fn slot_of(page: u64, volume: u32, shift: u32) -> usize {
    let key = page.wrapping_add(u64::from(volume).wrapping_mul(0xd6e8_feb8_6659_fd93));
    let product = u128::from(key ^ 0x2545_f491_4f6c_dd1d)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    #[expect(clippy::cast_possible_truncation, reason = "the halves are folded into 64 bits")]
    let hash = (product as u64) ^ ((product >> 64) as u64);
    #[expect(clippy::cast_possible_truncation, reason = "the table fits memory")]
    let slot = (hash >> shift) as usize;
    slot
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn resolve_all(map: &mut IdMap, keys: &[Key]) -> Result<Vec<u32>, Full> {
        let mut packed = Vec::new();
        keys.chunks(GROUP_KEYS).try_for_each(|group| map.resolve(group, &mut packed))?;
        Ok(packed)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn matches_a_hash_map(
            keys in prop::collection::vec(
                (prop_oneof![0_u64..64, any::<u64>()], 0_u32..4, any::<bool>()), 0..20_000),
        ) {
            let mut ids = HashMap::new();
            let mut expected = Vec::new();
            let mut columns = (Vec::new(), Vec::new());
            for &(page, volume, is_write) in &keys {
                let next = u32::try_from(ids.len()).unwrap();
                let id = *ids.entry((page, volume)).or_insert(next);
                if id == next {
                    columns.0.push(page);
                    columns.1.push(volume);
                }
                expected.push(id | if is_write { WRITE_BIT } else { 0 });
            }
            let keys: Vec<Key> = keys.iter().map(|&(page, volume, is_write)| {
                Key { page, volume, write_bit: if is_write { WRITE_BIT } else { 0 } }
            }).collect();
            let mut map = IdMap::new(WRITE_BIT);
            prop_assert_eq!(resolve_all(&mut map, &keys).unwrap(), expected);
            let (pages, mut volumes) = map.into_columns();
            volumes.resize(pages.len(), 0);
            prop_assert_eq!((pages, volumes), columns);
        }
    }

    #[test]
    fn the_limit_holds() {
        let key = |page| Key { page, volume: 0, write_bit: 0 };
        let keys: Vec<Key> = (0..1000).map(key).collect();
        assert!(resolve_all(&mut IdMap::new(1000), &keys).is_ok());
        assert_eq!(resolve_all(&mut IdMap::new(999), &keys), Err(Full));
        let again: Vec<Key> = (0..5000).map(|i| key(i % 1000)).collect();
        assert!(resolve_all(&mut IdMap::new(1000), &again).is_ok());
    }
}
