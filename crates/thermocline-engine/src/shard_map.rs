//! Map of the export to shards, and of a cache's parts to their owners.
//!
//! The export is cut into extents, and these into groups of as many as there are shards. Each group
//! gives every shard one extent, rotated by a hash of the group's number, so that no stride meets
//! one shard alone. The end of the export, which may be an incomplete group, follows the same rule.
//! So the map has no table, both directions take a few instructions, and it does not change when
//! the export grows.

use std::num::NonZeroU16;
use std::ops::Range;

use uuid::Uuid;

/// Bytes of an extent, at most. The server's pieces, which end at multiples of 256 KiB, lie in one extent
/// if it is as long.
const EXTENT_BYTES: u64 = 1 << 20;

/// Map of the export's bytes to shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardMap {
    shards: NonZeroU16,
    extent_bytes: u64,
}

impl ShardMap {
    /// Returns the map for a number of shards, with extents of as many whole pages as fit into 1 MiB, at
    /// least one.
    pub fn new(shards: NonZeroU16, page_bytes: u32) -> Self {
        let page_bytes = u64::from(page_bytes).max(1);
        Self::with_extents(shards, (EXTENT_BYTES / page_bytes).max(1) * page_bytes)
    }

    /// Returns the map for a number of shards and a length of extents, which is a multiple of the page.
    ///
    /// # Panics
    /// If an extent has no bytes.
    pub const fn with_extents(shards: NonZeroU16, extent_bytes: u64) -> Self {
        assert!(extent_bytes > 0, "an extent has bytes");
        Self { shards, extent_bytes }
    }

    /// Return `true` if both give every byte to the same shard.
    pub fn is_same(self, other: Self) -> bool {
        // One shard has all extents, however long they are.
        self == other || (self.shards(), other.shards()) == (1, 1)
    }

    /// Return the number of shards.
    pub const fn number(&self) -> NonZeroU16 {
        self.shards
    }

    /// Return the same, to count and number them.
    pub fn shards(&self) -> usize {
        self.shards.get().into()
    }

    /// Return the number of bytes of an extent; one shard has each.
    pub const fn extent_bytes(&self) -> u64 {
        self.extent_bytes
    }

    /// Return the shard that serves a byte, and the byte's position among those of this shard.
    pub fn place(&self, offset_bytes: u64) -> (usize, u64) {
        let shards = u64::from(self.shards.get());
        if shards == 1 {
            return (0, offset_bytes);
        }
        let (extent, within) = (offset_bytes / self.extent_bytes, offset_bytes % self.extent_bytes);
        let group = extent / shards;
        let shard = (extent % shards + rotation(group, shards)) % shards;
        (index(shard), group * self.extent_bytes + within)
    }

    /// Return the byte of the export that a shard has at a position among its own.
    pub fn offset(&self, shard: usize, position: u64) -> u64 {
        let shards = u64::from(self.shards.get());
        let (group, within) = (position / self.extent_bytes, position % self.extent_bytes);
        let turned = (shard as u64 + shards - rotation(group, shards)) % shards;
        (group * shards + turned) * self.extent_bytes + within
    }

    /// Return the number of bytes that a shard serves of an export of `size_bytes`.
    pub fn bytes_of(&self, shard: usize, size_bytes: u64) -> u64 {
        let group_bytes = self.extent_bytes * u64::from(self.shards.get());
        let groups = size_bytes / group_bytes;
        let first = self.offset(shard, groups * self.extent_bytes);
        groups * self.extent_bytes + size_bytes.saturating_sub(first).min(self.extent_bytes)
    }

    /// Return the end of the extent that a byte lies in.
    pub const fn extent_end(&self, offset_bytes: u64) -> u64 {
        (offset_bytes / self.extent_bytes + 1).saturating_mul(self.extent_bytes)
    }
}

/// Return the number of places by which the extents of a group are rotated: a hash (the finish of
/// `SplitMix64`).
const fn rotation(group: u64, shards: u64) -> u64 {
    let hash = (group ^ (group >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (hash ^ (hash >> 31)) % shards
}

fn index(shard: u64) -> usize {
    usize::try_from(shard).expect("shards have small numbers")
}

/// One shard of several, or the only one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Shards and their extents.
    pub map: ShardMap,
    /// Index of the shard.
    pub index: u16,
}

impl Share {
    /// The only shard.
    pub const WHOLE: Self =
        Self { map: ShardMap::with_extents(NonZeroU16::MIN, EXTENT_BYTES), index: 0 };

    /// Return every share of a map, in order.
    pub fn all(map: ShardMap) -> impl ExactSizeIterator<Item = Self> {
        (0..map.shards.get()).map(move |index| Self { map, index })
    }

    /// Return `true` if there is no other shard.
    pub const fn is_whole(&self) -> bool {
        self.map.shards.get() == 1
    }

    /// Return the number of pages of a range that this shard serves.
    pub(crate) fn pages_of(&self, pages: &Range<u64>, page_bytes: u32) -> u64 {
        let page_bytes = u64::from(page_bytes);
        let before = |page: u64| {
            self.map.bytes_of(self.index.into(), page.saturating_mul(page_bytes)) / page_bytes
        };
        before(pages.end) - before(pages.start)
    }

    /// Return the identity of this shard's part of a cache, and the cache of a part. They differ,
    /// so that a block that a device puts into the part of another shard is not taken for one of
    /// its own.
    pub fn identity(&self, cache: Uuid) -> Uuid {
        Uuid::from_u128(cache.as_u128() ^ u128::from(self.index))
    }
}

impl Default for Share {
    fn default() -> Self {
        Self::WHOLE
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn map(shards: u16, extent_bytes: u64) -> ShardMap {
        ShardMap::with_extents(NonZeroU16::new(shards).unwrap(), extent_bytes)
    }

    #[test]
    fn every_byte_has_one_place() {
        for (shards, extent_bytes) in [(1, 4), (2, 1), (2, 4), (3, 5), (4, 2), (7, 3)] {
            let map = map(shards, extent_bytes);
            for size_bytes in 0..200 {
                let mut counts = vec![0; map.shards()];
                for byte in 0..size_bytes {
                    let (shard, position) = map.place(byte);
                    assert_eq!(map.offset(shard, position), byte);
                    counts[shard] += 1;
                }
                // No position below the count is left out.
                for (shard, &count) in counts.iter().enumerate() {
                    assert_eq!(map.bytes_of(shard, size_bytes), count);
                    assert!((0..count).all(|at| map.offset(shard, at) < size_bytes));
                }
                let (least, most) = (counts.iter().min(), counts.iter().max());
                let difference = most.unwrap() - least.unwrap();
                assert!(difference <= extent_bytes, "{shards} {size_bytes}: {counts:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn both_directions_agree_on_large_exports(
            shards in 1_u16..300,
            pages in 1_u64..512,
            byte in 0_u64..1 << 56,
        ) {
            let map = map(shards, pages * 4096);
            let (shard, position) = map.place(byte);
            prop_assert!(shard < map.shards());
            prop_assert_eq!(map.offset(shard, position), byte);
            // An extent is one run of one shard.
            let end = map.extent_end(byte);
            prop_assert!(end > byte && end - byte <= map.extent_bytes());
            prop_assert_eq!(map.place(end - 1), (shard, position + (end - 1 - byte)));
            // The shards' bytes make up the export.
            let sum: u64 = (0..map.shards()).map(|shard| map.bytes_of(shard, byte)).sum();
            prop_assert_eq!(sum, byte);
        }
    }

    #[test]
    fn strides_meet_all_shards_alike() {
        for shards in [2, 3, 4, 8] {
            let map = map(shards, EXTENT_BYTES);
            for stride in 1..=16 {
                let mut counts = vec![0_u32; map.shards()];
                for step in 0..3000 {
                    counts[map.place(step * stride * EXTENT_BYTES).0] += 1;
                }
                let share = 3000 / u32::from(shards);
                let is_even = counts.iter().all(|&count| count.abs_diff(share) < share / 4 + 40);
                assert!(is_even, "{shards} shards, every {stride} extents: {counts:?}");
            }
        }
    }

    #[test]
    fn an_extent_holds_whole_pages() {
        let map = ShardMap::new(NonZeroU16::MIN, 12_288);
        assert_eq!(map.extent_bytes(), 85 * 12_288);
        assert_eq!(ShardMap::new(NonZeroU16::MIN, 4096).extent_bytes(), EXTENT_BYTES);
    }

    #[test]
    fn parts_of_a_cache_have_identities_of_their_own() {
        let cache = Uuid::from_u128(77 << 64);
        for share in Share::all(map(300, 1)) {
            assert_eq!(share.identity(share.identity(cache)), cache);
            assert_eq!(share.identity(cache) == cache, share.index == 0);
        }
    }
}
