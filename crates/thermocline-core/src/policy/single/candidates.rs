//! Candidates of 3L-Cache, which compares pages among new ones and on a walk through the cache.
//!
//! * Source: Zhou et al., *3L-Cache*, FAST '25, by the authors' program.
//! * State: up to 8 bytes per cached page.
//! * Cost: O(1) per page that the walk passes or that is new.
//! * Deviations: those of 3L-Cache.

use alloc::collections::VecDeque;

use crate::PageId;

/// Number of candidates of which one is evicted before new ones are found.
pub(super) const CANDIDATES_PER_EVICTION: u32 = 2;
/// Classes of pages by the logarithm of their references.
const POPULARITIES: usize = 16;

/// Fate of the pointer's candidates on one part of its way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Yield {
    pub(super) evicted: u64,
    pub(super) candidates: u64,
}

/// The walk through the cache from the least recently referenced page on.
#[derive(Clone, Debug)]
pub(super) struct Pointer {
    pub(super) candidates_max: u32,
    /// The frame that is next; none: the first.
    pub(super) next: Option<u32>,
    /// Steps of this walk so far.
    pub(super) steps: u64,
    /// The pages of the cache when it began.
    pub(super) length: u64,
    /// The percentage of the way on which every page is a candidate.
    pub(super) near_share: u64,
    /// Maximum number of references of a candidate beyond that part.
    pub(super) references_max: u32,
    /// Yield of this walk: of the near part once the pointer has passed it, and of the part where
    /// it is.
    pub(super) near: Yield,
    pub(super) here: Yield,
    /// The time of the last reference of the last candidate.
    pub(super) referred_at: u64,
    /// Evictions in this walk by the logarithm of references.
    pub(super) popularities: [u32; POPULARITIES],
}

impl Pointer {
    pub(super) fn new(candidates_max: u32) -> Self {
        Self {
            candidates_max,
            next: None,
            steps: 0,
            length: 0,
            near_share: 1,
            references_max: 1,
            near: Yield::default(),
            here: Yield::default(),
            referred_at: 0,
            popularities: [0; POPULARITIES],
        }
    }

    /// Return the number of candidates that a round needs in a cache of `pages` pages.
    pub(super) fn candidates(&self, pages: u64) -> u64 {
        let candidates = u64::from(CANDIDATES_PER_EVICTION) + pages / 100;
        if pages > 2 { candidates.min(u64::from(self.candidates_max)) } else { 1 }
    }

    /// Return `true` if the page that the pointer passes is a candidate.
    pub(super) fn takes(&mut self, references: u32) -> bool {
        let near = self.length * self.near_share / 100;
        if self.near.candidates == 0 && self.steps > near {
            self.near = core::mem::take(&mut self.here);
        }
        let takes = references <= self.references_max
            || self.steps <= near + u64::from(CANDIDATES_PER_EVICTION);
        self.steps += 1;
        takes
    }

    /// Counts an eviction.
    pub(super) fn count_eviction(&mut self, references: u32, is_of_pointer: bool) {
        let popularity = (references.ilog2() as usize).min(POPULARITIES - 1);
        self.popularities[popularity] += 1;
        self.here.evicted += u64::from(is_of_pointer);
    }

    /// Begins a new walk, by what the last one taught; returns how many of its candidates were evicted.
    pub(super) fn begin(&mut self, cached: u64) -> u64 {
        self.references_max = popularity_limit(&self.popularities);
        let (near, here) = (self.near, self.here);
        let is_near_better = u128::from(near.evicted) * u128::from(here.candidates)
            > u128::from(here.evicted) * u128::from(near.candidates);
        self.near_share = if is_near_better {
            (self.near_share + 1).min(100)
        } else {
            (self.near_share - 1).max(1)
        };
        self.steps = 0;
        self.next = None;
        self.length = cached;
        (self.near, self.here) = (Yield::default(), Yield::default());
        self.popularities = [0; POPULARITIES];
        near.evicted + here.evicted
    }
}

/// About how many references 99 % of the evicted pages had at most, by interpolation in the class where
/// these end. Like the authors' program, it takes the class to begin at half of its least number.
fn popularity_limit(popularities: &[u32; POPULARITIES]) -> u32 {
    let all: u64 = popularities.iter().map(|&count| u64::from(count)).sum();
    let mut counted = 0;
    for (class, &count) in (0_u32..).zip(popularities) {
        let count = u64::from(count);
        counted += count;
        if counted * 100 >= all * 99 {
            if class == 0 {
                return 1;
            }
            let half = 1 << (class - 1);
            let missing = all * 99 + count * 100 - counted * 100;
            let above = (half * missing).div_ceil(count * 100);
            return u32::try_from(half + above).unwrap_or(u32::MAX);
        }
    }
    1
}

/// Pages that entered the cache since there is a model.
#[derive(Clone, Debug)]
pub(super) struct Newcomers {
    pages: VecDeque<PageId>,
    /// The percentage of the cache that they may take before they are candidates.
    reserved_share: u64,
}

impl Newcomers {
    pub(super) const fn new() -> Self {
        Self { pages: VecDeque::new(), reserved_share: 2 }
    }

    /// Takes the oldest one, if there are more than are reserved for.
    pub(super) fn pop_surplus(&mut self, cached: u32) -> Option<PageId> {
        let reserved = u64::from(cached) * self.reserved_share / 100;
        if self.count() > reserved { self.pages.pop_front() } else { None }
    }

    /// Return `true` if they are fewer than ten times those that are reserved for, so that they are not
    /// candidates enough.
    pub(super) fn are_few(&self, cached: u32) -> bool {
        self.count() < u64::from(cached) * self.reserved_share / 10
    }

    pub(super) const fn reserved_percent(&self) -> u64 {
        self.reserved_share
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.pages.capacity() * size_of::<PageId>()
    }

    fn count(&self) -> u64 {
        self.pages.len() as u64
    }

    pub(super) fn push(&mut self, page: PageId, capacity_pages: u32) {
        if self.pages.len() >= capacity_pages as usize {
            self.pages.pop_front();
        }
        self.pages.push_back(page);
    }

    /// Reserves more for newcomers if the walk had more evictions than newcomers wait, else less.
    pub(super) fn adapt(&mut self, walk_evicted: u64) {
        self.reserved_share = if walk_evicted > self.count() {
            (self.reserved_share + 1).min(100)
        } else {
            (self.reserved_share / 2).max(1)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_popularity_is_interpolated() {
        let mut popularities = [0; 16];
        assert_eq!(popularity_limit(&popularities), 1);
        popularities[0] = 100;
        assert_eq!(popularity_limit(&popularities), 1);
        // 200 evictions, of which 198 must be counted: 98 of the 100 in the third class.
        popularities[2] = 100;
        assert_eq!(popularity_limit(&popularities), 4);
        popularities[15] = u32::MAX;
        assert!((16_384..=32_768).contains(&popularity_limit(&popularities)));
    }
}
