//! Block status of a range of which each shard knows its own extents.

use thermocline_engine::ShardMap;

use crate::cached::push_extent;
use crate::protocol::Extent;
use crate::service::ExtentRange;

/// Joins the answers of all shards about a range, in the order of the shards: of each extent of the map, that of its
/// shard. The report ends where the answer of a shard ends.
pub(super) fn join(
    map: ShardMap,
    range: &ExtentRange,
    mut shards: Vec<&[Extent]>,
    found: &mut Vec<Extent>,
) {
    let ExtentRange { offset_bytes, length_bytes, count_max } = *range;
    let end = offset_bytes + u64::from(length_bytes);
    let mut at = offset_bytes;
    // Where the first extent of each answer ends.
    let mut ends: Vec<u64> = shards.iter().map(|extents| end_of(offset_bytes, extents)).collect();
    while at < end {
        for (extents, extent_end) in shards.iter_mut().zip(&mut ends) {
            while *extent_end <= at {
                *extents = extents.get(1..).unwrap_or_default();
                if extents.is_empty() {
                    return;
                }
                *extent_end = end_of(*extent_end, extents);
            }
        }
        let mut statuses = shards.iter().map(|extents| extents[0].status);
        let first = statuses.next().expect("there are shards");
        // Of most of a large range all shards know as little as the disk says.
        let (status, known_end) = if statuses.all(|status| status == first) {
            (first, ends.iter().copied().fold(end, u64::min))
        } else {
            let (owner, _) = map.place(at);
            (shards[owner][0].status, ends[owner].min(map.extent_end(at)).min(end))
        };
        if !push_extent(found, known_end - at, status, count_max) {
            return;
        }
        at = known_end;
    }
}

/// Returns where the first of these extents ends, which begin there.
fn end_of(start: u64, extents: &[Extent]) -> u64 {
    start + extents.first().map_or(0, |extent| u64::from(extent.length_bytes))
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use proptest::prelude::*;

    use super::*;

    /// Returns runs of equal statuses.
    fn runs(statuses: &[u32]) -> Vec<Extent> {
        let chunks = statuses.chunk_by(|one, other| one == other);
        let extent = |chunk: &[u32]| Extent {
            length_bytes: u32::try_from(chunk.len()).expect("few"),
            status: chunk[0],
        };
        chunks.map(extent).collect()
    }

    proptest! {
        #[test]
        fn each_byte_has_the_status_that_its_shard_tells(
            shards in proptest::collection::vec(proptest::collection::vec(0_u32..2, 1..60), 1..5),
            offset_bytes in 0_u64..40,
            extent_bytes in 1_u64..9,
            count_max in 1_usize..70,
        ) {
            let number = NonZeroU16::new(u16::try_from(shards.len()).unwrap()).unwrap();
            let map = ShardMap::with_extents(number, extent_bytes);
            let answers: Vec<Vec<Extent>> = shards.iter().map(|one| runs(one)).collect();
            let range = ExtentRange { offset_bytes, length_bytes: 60, count_max };
            let mut found = vec![];
            join(map, &range, answers.iter().map(Vec::as_slice).collect(), &mut found);
            prop_assert!(found.len() <= count_max);
            prop_assert!(found.windows(2).all(|pair| pair[0].status != pair[1].status));
            let told = found.iter().flat_map(|one| (0..one.length_bytes).map(|_| one.status));
            let told: Vec<u32> = told.collect();
            for (byte, status) in told.iter().enumerate() {
                let (owner, _) = map.place(offset_bytes + byte as u64);
                prop_assert_eq!(shards[owner].get(byte), Some(status));
            }
            let known = shards.iter().map(Vec::len).min().unwrap();
            prop_assert!(told.len() >= known || found.len() == count_max);
        }
    }
}
