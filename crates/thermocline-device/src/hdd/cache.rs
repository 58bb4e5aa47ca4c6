//! The memory on board: segments of sectors that were read, and extents that were written.
//!
//! A segment is a window of consecutive sectors that slides along as the drive reads ahead; the one
//! that was not used for longest is replaced. Written extents that touch become one, so that a run
//! of small writes reaches the medium as one transfer.
//!
//! * Source: Ruemmler and Wilkes, *An introduction to disk drive modeling*, IEEE Computer 27(3),
//!   1994; Seagate Exos X18 SAS product manual, section "Caching write data".
//! * State: 24 bytes per segment; one node of an ordered map per written extent.
//! * Cost: O(segments) per read, O(log extents) per write, amortised.
//! * Deviations: (1) what is on the medium leaves the write buffer, where real drives keep it for
//!   reads until the space is needed; (2) segments have a fixed size, where current drives adapt it
//!   in ways that are not published.

use std::collections::BTreeMap;

use super::layout::Extent;

/// Segments of sectors that were read.
#[derive(Clone, Debug)]
pub(crate) struct Segments {
    held: Vec<Segment>,
    /// How many there may be.
    most: usize,
    /// How many sectors each may hold.
    each_sectors: u64,
    uses: u64,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    extent: Extent,
    /// The value of `uses` when it was used last.
    used: u64,
}

impl Segments {
    pub(crate) const fn new(most: u32, each_sectors: u64) -> Self {
        let most = most as usize;
        Self { held: vec![], most, each_sectors, uses: 0 }
    }

    /// The extent of a segment that holds all of `wanted`; it counts as used.
    pub(crate) fn find(&mut self, wanted: Extent) -> Option<Extent> {
        self.uses += 1;
        let uses = self.uses;
        let found = self.held.iter_mut().find(|segment| segment.extent.contains(wanted))?;
        found.used = uses;
        Some(found.extent)
    }

    /// What is left of `wanted` behind the segment that holds its start; all of it without one.
    pub(crate) fn rest(&self, wanted: Extent) -> Extent {
        let first = Extent { end: wanted.start + 1, ..wanted };
        let ends = self.held.iter().map(|segment| segment.extent);
        let end = ends.filter(|extent| extent.contains(first)).map(|extent| extent.end).max();
        Extent { start: end.unwrap_or(wanted.start), ..wanted }
    }

    /// Keeps what was read, at most a segment of it, its end.
    pub(crate) fn insert(&mut self, read: Extent) {
        if self.most == 0 {
            return;
        }
        self.uses += 1;
        let segment = Segment { extent: self.tail(read), used: self.uses };
        self.held.retain(|old| !segment.extent.contains(old.extent));
        if self.held.len() == self.most {
            let oldest = (0..self.held.len()).min_by_key(|&index| self.held[index].used);
            self.held.swap_remove(oldest.expect("a full cache has a segment"));
        }
        self.held.push(segment);
    }

    /// The segment that ends at `ahead`'s start, if it is still there, ends at its end.
    pub(crate) fn extend(&mut self, ahead: Extent) {
        let newest = self
            .held
            .iter()
            .enumerate()
            .filter(|(_, segment)| segment.extent.end == ahead.start)
            .max_by_key(|(_, segment)| segment.used);
        if let Some((index, segment)) = newest {
            let whole = Extent { start: segment.extent.start, end: ahead.end };
            self.held[index].extent = self.tail(whole);
        }
    }

    /// Gives up the segments with old versions of what is written.
    pub(crate) fn invalidate(&mut self, written: Extent) {
        self.held.retain(|segment| !segment.extent.overlaps(written));
    }

    pub(crate) fn assert_invariants(&self) {
        assert!(self.held.len() <= self.most, "no more segments than there are");
        for Segment { extent, used } in &self.held {
            assert!(extent.start < extent.end, "a segment holds something");
            assert!(extent.sectors() <= self.each_sectors, "a segment has a fixed size");
            assert!(*used <= self.uses, "a use was counted");
        }
    }

    fn tail(&self, extent: Extent) -> Extent {
        Extent { start: extent.start.max(extent.end.saturating_sub(self.each_sectors)), ..extent }
    }
}

/// Written extents that the medium does not have yet.
#[derive(Clone, Debug)]
pub(crate) struct WriteBuffer {
    /// End by start; disjoint, and not touching.
    extents: BTreeMap<u64, u64>,
    /// The extent under way to the medium; it occupies its space until it is there.
    in_flight: Option<Extent>,
    /// The sum of both.
    held_sectors: u64,
    most_sectors: u64,
}

impl WriteBuffer {
    pub(crate) const fn new(most_sectors: u64) -> Self {
        Self { extents: BTreeMap::new(), in_flight: None, held_sectors: 0, most_sectors }
    }

    /// Whether the buffer could ever take as much.
    pub(crate) const fn suits(&self, written: Extent) -> bool {
        written.sectors() <= self.most_sectors
    }

    /// Takes `written`, if there is room.
    pub(crate) fn try_insert(&mut self, written: Extent) -> bool {
        let touching: Vec<Extent> = self.touching(written).collect();
        let whole = touching.iter().fold(written, |whole, extent| Extent {
            start: whole.start.min(extent.start),
            end: whole.end.max(extent.end),
        });
        let before: u64 = touching.iter().map(|extent| extent.sectors()).sum();
        let held_sectors = self.held_sectors - before + whole.sectors();
        if held_sectors > self.most_sectors {
            return false;
        }
        self.held_sectors = held_sectors;
        for extent in touching {
            self.extents.remove(&extent.start);
        }
        self.extents.insert(whole.start, whole.end);
        true
    }

    /// Whether the buffer has all of `wanted`.
    pub(crate) fn holds(&self, wanted: Extent) -> bool {
        let last = self.extents.range(..=wanted.start).next_back();
        last.is_some_and(|(_, &end)| end >= wanted.end)
            || self.in_flight.is_some_and(|extent| extent.contains(wanted))
    }

    /// Gives up what a write to the medium replaces.
    pub(crate) fn discard(&mut self, written: Extent) {
        let touching: Vec<Extent> = self.touching(written).collect();
        for extent in touching.into_iter().filter(|extent| extent.overlaps(written)) {
            self.extents.remove(&extent.start);
            self.held_sectors -= extent.sectors();
            for rest in
                [Extent { end: written.start, ..extent }, Extent { start: written.end, ..extent }]
            {
                if rest.start < rest.end {
                    self.extents.insert(rest.start, rest.end);
                    self.held_sectors += rest.sectors();
                }
            }
        }
    }

    /// Takes the next extent in ascending order from `sector` on, cyclically; of a long one only its
    /// begin, half a buffer, so that the host can fill the other half meanwhile.
    pub(crate) fn start_cleaning(&mut self, sector: u64) -> Option<Extent> {
        assert!(self.in_flight.is_none(), "one extent is under way at a time");
        let (&start, &end) =
            self.extents.range(sector..).next().or_else(|| self.extents.iter().next())?;
        let first = Extent { start, end: end.min(start + (self.most_sectors / 2).max(1)) };
        self.extents.remove(&start);
        if first.end < end {
            self.extents.insert(first.end, end);
        }
        self.in_flight = Some(first);
        self.in_flight
    }

    /// The extent under way is on the medium.
    pub(crate) fn finish_cleaning(&mut self) {
        let cleaned = self.in_flight.take().expect("an extent is under way");
        self.held_sectors -= cleaned.sectors();
    }

    /// Whether nothing waits to be cleaned.
    pub(crate) fn is_clean(&self) -> bool {
        self.extents.is_empty()
    }

    pub(crate) fn assert_invariants(&self) {
        let (mut sum, mut former_end) = (0, None);
        for (&start, &end) in &self.extents {
            assert!(start < end, "an extent holds something");
            assert!(former_end < Some(start), "extents are disjoint");
            (sum, former_end) = (sum + end - start, Some(end));
        }
        sum += self.in_flight.map_or(0, Extent::sectors);
        assert_eq!(sum, self.held_sectors, "every sector held is counted once");
        assert!(self.held_sectors <= self.most_sectors, "the buffer keeps its bound");
    }

    /// The extents that overlap `written` or lie next to it.
    fn touching(&self, written: Extent) -> impl Iterator<Item = Extent> {
        self.extents
            .range(..=written.end)
            .rev()
            .map(|(&start, &end)| Extent { start, end })
            .take_while(move |extent| extent.end >= written.start)
    }
}
