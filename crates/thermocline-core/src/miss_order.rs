//! Order of misses on disk, from a driver that knows it although it leaves accesses out.

use alloc::boxed::Box;
use alloc::vec;

/// For each access to come, in order: `true` if it follows the last miss before it on disk, should
/// it miss.
///
/// The misses are those of an LRU memory, which every policy has that
/// [asks](crate::registry::Capabilities::asks_for_miss_order).
#[derive(Clone, Debug, Default)]
pub struct MissOrder {
    /// A bit per access.
    words: Box<[u64]>,
}

impl MissOrder {
    /// Return `true` if the access at an index follows the miss before it; `false` beyond the last one.
    pub(crate) fn follows(&self, access: usize) -> bool {
        self.words.get(access / 64).is_some_and(|word| word >> (access % 64) & 1 != 0)
    }
}

impl FromIterator<bool> for MissOrder {
    fn from_iter<I: IntoIterator<Item = bool>>(follows: I) -> Self {
        let mut words = vec![];
        for (index, follows) in follows.into_iter().enumerate() {
            if index % 64 == 0 {
                words.push(0);
            }
            words[index / 64] |= u64::from(follows) << (index % 64);
        }
        Self { words: words.into() }
    }
}
