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
    /// Maximum number of segments.
    most: usize,
    /// Number of sectors each may hold.
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

    /// Return the extent of a segment that holds all of `wanted`; it counts as used.
    pub(crate) fn find(&mut self, wanted: Extent) -> Option<Extent> {
        self.uses += 1;
        let uses = self.uses;
        let found = self.held.iter_mut().find(|segment| segment.extent.contains(wanted))?;
        found.used = uses;
        Some(found.extent)
    }

    /// Return the rest of `wanted` after the segment that holds its start; all of it without one.
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
        // A segment inside the new one would only waste a place.
        self.held.retain(|old| !segment.extent.contains(old.extent));
        if self.held.len() == self.most {
            let oldest = (0..self.held.len()).min_by_key(|&index| self.held[index].used);
            self.held.swap_remove(oldest.expect("a full cache has a segment"));
        }
        self.held.push(segment);
    }

    /// Extend the segment that ends where `ahead` starts, if it is still there, to the end of `ahead`.
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

    /// Return `true` if the buffer could ever take as much.
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
        // Nothing has changed yet: a write that finds no room must leave the buffer as it was,
        // since it will come again.
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

    /// Return `true` if the buffer has all of `wanted`.
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

    /// Note that the extent that was being written is on the medium.
    pub(crate) fn finish_cleaning(&mut self) {
        let cleaned = self.in_flight.take().expect("an extent is under way");
        // Only when the medium has it: until then a power failure would need it, and it occupies
        // its space.
        self.held_sectors -= cleaned.sectors();
    }

    /// Return `true` if nothing waits to be cleaned.
    pub(crate) fn is_clean(&self) -> bool {
        self.extents.is_empty()
    }

    /// Return `true` if the medium has all that was written.
    pub(crate) const fn is_empty(&self) -> bool {
        self.held_sectors == 0
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

    /// Return the extents that overlap `written` or lie next to it.
    fn touching(&self, written: Extent) -> impl Iterator<Item = Extent> {
        self.extents
            .range(..=written.end)
            .rev()
            .map(|(&start, &end)| Extent { start, end })
            .take_while(move |extent| extent.end >= written.start)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn extent(start: u64, end: u64) -> Extent {
        Extent { start, end }
    }

    #[test]
    fn the_segment_that_was_not_used_for_longest_is_replaced() {
        let mut segments = Segments::new(2, 10);
        segments.insert(extent(0, 5));
        segments.insert(extent(100, 105));
        assert_eq!(segments.find(extent(1, 3)), Some(extent(0, 5)));
        segments.insert(extent(200, 205));
        assert_eq!(segments.find(extent(100, 101)), None);
        assert_eq!(segments.find(extent(0, 5)), Some(extent(0, 5)));
        assert_eq!(segments.find(extent(4, 6)), None, "half a hit is none");
        assert_eq!(segments.rest(extent(4, 9)), extent(5, 9));
        segments.assert_invariants();
    }

    #[test]
    fn a_segment_slides_along_with_what_is_read_ahead() {
        let mut segments = Segments::new(2, 10);
        segments.insert(extent(0, 30));
        assert_eq!(segments.find(extent(20, 30)), Some(extent(20, 30)), "the end of it is kept");
        segments.extend(extent(30, 34));
        assert_eq!(segments.find(extent(33, 34)), Some(extent(24, 34)));
        segments.extend(extent(50, 60));
        assert_eq!(segments.find(extent(50, 51)), None, "no segment ends there");
        segments.invalidate(extent(33, 40));
        assert_eq!(segments.find(extent(24, 25)), None);
        segments.assert_invariants();
        let mut none = Segments::new(0, 0);
        none.insert(extent(0, 1));
        none.assert_invariants();
    }

    impl Extent {
        fn contains_slot(self, slot: usize) -> bool {
            (self.start..self.end).contains(&(slot as u64))
        }
    }

    /// A step on the write buffer.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Insert(Extent),
        Discard(Extent),
        Start(u64),
        Finish,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let extent = || (0_u64..60, 1_u64..12).prop_map(|(start, len)| extent(start, start + len));
        let step = prop_oneof![
            4 => extent().prop_map(Step::Insert),
            1 => extent().prop_map(Step::Discard),
            1 => (0_u64..72).prop_map(Step::Start),
            1 => Just(Step::Finish),
        ];
        prop::collection::vec(step, 0..60)
    }

    proptest! {
        /// Against one flag per sector.
        #[test]
        fn the_write_buffer_holds_what_a_flag_per_sector_says(steps in steps(), most in 1_u64..40) {
            let (mut buffer, mut dirty) = (WriteBuffer::new(most), [false; 80]);
            let mut in_flight = None;
            let slots =
                |extent: Extent| (0..80).filter(move |&slot| extent.contains_slot(slot));
            for step in steps {
                match step {
                    Step::Insert(extent) => {
                        let held = dirty.iter().filter(|&&flag| flag).count() as u64;
                        let added = slots(extent).filter(|&slot| !dirty[slot]).count() as u64;
                        let under_way = in_flight.map_or(0, Extent::sectors);
                        let fits = held + added + under_way <= most;
                        prop_assert_eq!(buffer.try_insert(extent), fits);
                        slots(extent).for_each(|slot| dirty[slot] |= fits);
                    }
                    Step::Discard(extent) => {
                        buffer.discard(extent);
                        slots(extent).for_each(|slot| dirty[slot] = false);
                    }
                    Step::Start(sector) if in_flight.is_none() => {
                        in_flight = buffer.start_cleaning(sector);
                        prop_assert_eq!(in_flight.is_some(), dirty.contains(&true));
                        if let Some(extent) = in_flight {
                            prop_assert!(extent.sectors() <= (most / 2).max(1));
                            prop_assert!(slots(extent).all(|slot| dirty[slot]));
                            slots(extent).for_each(|slot| dirty[slot] = false);
                        }
                    }
                    Step::Finish if in_flight.is_some() => {
                        buffer.finish_cleaning();
                        in_flight = None;
                    }
                    Step::Start(_) | Step::Finish => {}
                }
                buffer.assert_invariants();
                prop_assert_eq!(buffer.is_clean(), !dirty.contains(&true));
                for start in 0..72 {
                    let wanted = extent(start, start + 4);
                    let expected = slots(wanted).all(|slot| dirty[slot])
                        || in_flight.is_some_and(|extent: Extent| extent.contains(wanted));
                    prop_assert_eq!(buffer.holds(wanted), expected);
                }
            }
        }
    }
}
