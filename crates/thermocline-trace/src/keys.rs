//! Text as ids of objects: a hash of 64 bits, and a check that no two texts have the same.

use std::fmt;

use crate::error::{Reason, excerpt};

/// Slots at first, as a power of two.
const SLOTS_MIN: usize = 1 << 10;

/// The keys of a trace so far: their hashes, and for each a second hash by which another text with
/// the same hash is noticed (all but one in 2^64).
#[derive(Default)]
pub(crate) struct Keys {
    /// Open addressing by the top bits of the hash; both are 0 where there is none.
    slots: Vec<[u64; 2]>,
    used: usize,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("used", &self.used).finish_non_exhaustive()
    }
}

/// Two hashes of a text in several parts.
#[derive(Clone, Copy)]
pub(crate) struct Hash {
    one: u64,
    other: u64,
}

impl Hash {
    pub(crate) const fn new() -> Self {
        Self { one: 0x243f_6a88_85a3_08d3, other: 0x1319_8a2e_0370_7344 }
    }

    /// Adds a part.
    #[inline]
    pub(crate) fn add(&mut self, text: &[u8]) {
        let (words, rest) = text.as_chunks::<8>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.word(u64::from_le_bytes(last));
        self.word(text.len() as u64);
    }

    /// Hash a word. Each step is a permutation of the state, so that equal states stem from equal
    /// texts or chance.
    #[inline]
    const fn word(&mut self, word: u64) {
        self.one = (self.one ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.one ^= self.one >> 32;
        self.other = (self.other.rotate_left(29) ^ word).wrapping_mul(0xd6e8_feb8_6659_fd93);
        self.other ^= self.other >> 29;
    }

    const fn finish(mut self) -> [u64; 2] {
        self.one = self.one.wrapping_mul(0xd6e8_feb8_6659_fd93);
        self.one ^= self.one >> 32;
        // A slot with a key is never empty.
        [self.one, self.other | 1]
    }
}

impl Keys {
    /// Return the id of a key whose text was hashed; `text` shows it.
    #[inline]
    pub(crate) fn id(&mut self, hash: Hash, text: impl Fn() -> Vec<u8>) -> Result<u64, Reason> {
        if self.used * 8 >= self.slots.len() * 5 {
            self.grow();
        }
        let [id, check] = hash.finish();
        let mask = self.slots.len() - 1;
        let mut slot = place(id, self.slots.len());
        loop {
            match self.slots[slot] {
                [_, 0] => {
                    self.slots[slot] = [id, check];
                    self.used += 1;
                    return Ok(id);
                }
                [known, other] if known == id => {
                    if other == check {
                        return Ok(id);
                    }
                    let text = excerpt(&text());
                    return Err(format!(
                        "the key {text} has the same 64-bit hash as another key of the trace"
                    )
                    .into());
                }
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    #[cold]
    fn grow(&mut self) {
        let slots = vec![[0; 2]; (2 * self.slots.len()).max(SLOTS_MIN)];
        let old = std::mem::replace(&mut self.slots, slots);
        let mask = self.slots.len() - 1;
        for pair in old.into_iter().filter(|pair| pair[1] != 0) {
            let mut slot = place(pair[0], self.slots.len());
            while self.slots[slot][1] != 0 {
                slot = (slot + 1) & mask;
            }
            self.slots[slot] = pair;
        }
    }
}

/// Return the place of a hash in a table of `slots` slots, a power of two.
#[expect(clippy::cast_possible_truncation, reason = "fewer than there are slots")]
const fn place(hash: u64, slots: usize) -> usize {
    (hash >> (64 - slots.trailing_zeros())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{HashMap, HashSet};

    fn id(keys: &mut Keys, text: &[u8]) -> Result<u64, Reason> {
        let mut hash = Hash::new();
        hash.add(text);
        keys.id(hash, || text.to_vec())
    }

    proptest! {
        #[test]
        fn equal_texts_have_equal_ids(
            texts in prop::collection::vec(prop::collection::vec(0_u8..4, 0..20), 0..3000),
        ) {
            let mut keys = Keys::default();
            let mut known = HashMap::new();
            for text in &texts {
                let found = id(&mut keys, text).unwrap();
                prop_assert_eq!(*known.entry(text.clone()).or_insert(found), found);
            }
            let distinct: HashSet<u64> = known.values().copied().collect();
            prop_assert_eq!(distinct.len(), known.len());
            prop_assert_eq!(keys.used, known.len());
        }
    }

    #[test]
    fn a_clash_is_an_error() {
        let mut keys = Keys::default();
        let one = Hash { one: 7, other: 8 };
        let two = Hash { one: 7, other: 12 };
        let first = keys.id(one, || b"a".to_vec()).unwrap();
        assert_eq!(keys.id(one, || b"a".to_vec()).unwrap(), first);
        let message = keys.id(two, || b"bee".to_vec()).unwrap_err();
        assert!(message.contains("'bee' has the same 64-bit hash"), "{message}");
    }

    #[test]
    fn parts_are_not_run_together() {
        let hash = |parts: &[&[u8]]| {
            let mut hash = Hash::new();
            for part in parts {
                hash.add(part);
            }
            hash.finish()
        };
        assert_ne!(hash(&[b"ab", b"c"]), hash(&[b"a", b"bc"]));
        assert_ne!(hash(&[b"a\0"]), hash(&[b"a"]));
    }
}
