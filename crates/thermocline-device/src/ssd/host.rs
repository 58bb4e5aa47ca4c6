//! The drive's side towards the host: requests become work of the map and of the flash, and are
//! answered when the last of it is done.

use std::ops::Range;

use thermocline_core::{Heat, Nanos, PageId};

use super::error::Exhausted;
use super::ftl::Untimed;
use super::geometry::NONE;
use super::link::Direction;
use super::service::SLC_LEVEL;
use super::{Request, Ssd};
use crate::request::{Completion, DeviceOp};

/// A page of the host in the flash.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    plane: u32,
    /// Its number among the pages of the flash.
    pub(super) page: u32,
    /// Which of the cell times it has.
    level: u8,
    /// Its physical page is not full, and is in the controller.
    is_gathering: bool,
}

impl Ssd {
    /// Carries out a request in the map, and queues its flash operations.
    pub(super) fn dispatch(
        &mut self,
        place: u32,
        completed: &mut Vec<Completion>,
    ) -> Result<(), Exhausted> {
        let Request { op, page: first, pages, .. } = self.requests[place as usize];
        match op {
            DeviceOp::Read => self.read(first, pages, place, completed),
            DeviceOp::Write if self.buffer_pages > 0 => {
                // For a buffered write `owed` counts pages that the DRAM has not taken, not flash
                // operations: that is when it is answered.
                self.requests[place as usize].owed = pages;
                self.entering.push_back(place);
                return self.fill_buffer(completed);
            }
            DeviceOp::Write => {
                let owed = self.write(first, pages, Some(place))? + self.pad(place);
                self.requests[place as usize].owed = owed;
            }
            DeviceOp::Trim => {
                self.trim(first, pages);
                self.complete(place, completed);
            }
            DeviceOp::Flush => self.flush(place, completed),
        }
        Ok(())
    }

    /// Return `true` if a power failure loses what the buffer holds.
    pub(super) const fn has_volatile_buffer(&self) -> bool {
        self.buffer_pages > 0 && !self.config.power_loss_protection
    }

    /// Writes the buffer out, if a power failure would lose it.
    fn flush(&mut self, place: u32, completed: &mut Vec<Completion>) {
        if self.has_volatile_buffer() && self.buffered_pages > 0 {
            // The cells take whole physical pages: the rest of one that is partly filled is lost.
            self.pad(place);
            self.flushing.push(place);
        } else {
            self.complete(place, completed);
        }
    }

    /// Completes the flushes if the cells have everything.
    pub(super) fn end_flushes(&mut self, completed: &mut Vec<Completion>) {
        if self.buffered_pages == 0 && !self.flushing.is_empty() {
            for place in std::mem::take(&mut self.flushing) {
                self.complete(place, completed);
            }
        }
    }

    /// Fills the rest of the physical pages that the host's pages have begun, without time.
    pub(super) fn pad_untimed(&mut self) {
        if self.slc.is_some() {
            return self.pad_cache_untimed();
        }
        for stream in 0..self.config.host_streams() as usize {
            self.ftl.pad(&mut self.nand, stream, &mut Untimed);
        }
    }

    /// Lets the buffer take what it has room for, one mapping unit after the other; nothing while a flush
    /// writes it out, so that the flush does not wait for later writes.
    pub(super) fn fill_buffer(&mut self, completed: &mut Vec<Completion>) -> Result<(), Exhausted> {
        if !self.flushing.is_empty() {
            return Ok(());
        }
        let unit = self.config.mapping_unit_pages;
        while let Some(&place) = self.entering.front() {
            let Request { page: first, pages, .. } = self.requests[place as usize];
            while self.requests[place as usize].owed > 0 {
                if self.buffered_pages + unit > self.buffer_pages {
                    return Ok(());
                }
                let left = self.requests[place as usize].owed;
                let page = first + pages - left;
                // One mapping unit at a time: the buffer may fill up within a request, and is then
                // entered page by page as programs make room.
                let of_unit = left.min(unit - page % unit);
                self.write(page, of_unit, Some(place))?;
                // The whole unit: its other pages were read into the DRAM, too, and leave with it.
                self.buffered_pages += unit;
                self.requests[place as usize].owed -= of_unit;
            }
            self.entering.pop_front();
            self.complete(place, completed);
        }
        Ok(())
    }

    /// Queues the flash operations of a read, one for each physical page; what the flash does not
    /// have, or not yet, is sent at once.
    fn read(&mut self, first: u32, pages: u32, request: u32, completed: &mut Vec<Completion>) {
        self.recorder.host_reads += u64::from(pages);
        let [owed, mapped, unmapped] = self.queue_reads(first..first + pages, request);
        self.recorder.unmapped_reads += u64::from(unmapped);
        let at_once = mapped + unmapped;
        self.requests[request as usize].owed = owed + u32::from(at_once > 0);
        if at_once > 0 {
            self.answer(request, at_once, completed);
        }
    }

    /// Queues the flash operations that read pages, one for each physical page; returns how many these
    /// are, and how many pages the flash does not have yet, or not at all.
    fn queue_reads(&mut self, pages: Range<u32>, owner: u32) -> [u32; 3] {
        let shift = self.config.pages_per_program.trailing_zeros();
        let (mut owed, mut at_once, mut unmapped) = (0, 0, 0);
        // The physical page of the operation that is next: its plane, its cell time, how many pages.
        let mut next: Option<(u32, u32, u8, u8)> = None;
        for page in pages {
            let Some(Found { plane, page, level, is_gathering }) = self.find(page) else {
                unmapped += 1;
                continue;
            };
            // The controller still has the bytes; the cells would not have them yet.
            if is_gathering || self.service.is_buffered(plane, page) {
                at_once += 1;
                continue;
            }
            match &mut next {
                Some((physical, .., count)) if *physical == page >> shift => *count += 1,
                _ => {
                    if let Some((_, plane, level, count)) = next {
                        self.service.read(plane, level, count, owner);
                    }
                    next = Some((page >> shift, plane, level, 1));
                    owed += 1;
                }
            }
        }
        if let Some((_, plane, level, count)) = next {
            self.service.read(plane, level, count, owner);
        }
        [owed, at_once, unmapped]
    }

    /// Return the place of the host's page in the flash, or `None` if the flash does not hold it.
    pub(super) fn find(&self, page: u32) -> Option<Found> {
        // A page is in one kind of cells only, and most pages that are read soon are still in the
        // cache.
        if let Some((slc, place)) = self.slc.as_ref().and_then(|slc| Some((slc, slc.find(page)?))) {
            let is_gathering = slc.is_gathering(place);
            return Some(Found {
                plane: place.plane,
                page: place.page,
                level: SLC_LEVEL,
                is_gathering,
            });
        }
        let shift = self.config.pages_per_program.trailing_zeros();
        let flash_page = self.nand.page_of(page);
        if flash_page == NONE {
            return None;
        }
        let block = self.nand.geometry().block_of_page(flash_page);
        let within = flash_page - self.nand.first_page(block);
        Some(Found {
            plane: self.nand.geometry().plane_of_block(block),
            page: flash_page,
            level: self.service.read_level(within),
            // Pages gather in the controller until the physical page is full.
            is_gathering: ((within >> shift) + 1) << shift > self.nand.block(block).written,
        })
    }

    /// Sends the pages that a flash operation has read, if any; the operation is done then.
    pub(super) fn answer(&mut self, place: u32, pages: u32, completed: &mut Vec<Completion>) {
        match &mut self.link {
            Some(link) if pages > 0 => {
                let arrived_ns = link.send(Direction::ToHost, pages, self.now_ns);
                self.leaving.push_back((arrived_ns, place));
            }
            Some(_) | None => self.settle(place, completed),
        }
    }

    /// Count one of the operations that a request waits for as done.
    pub(super) fn settle(&mut self, place: u32, completed: &mut Vec<Completion>) {
        let request = &mut self.requests[place as usize];
        request.owed -= 1;
        if request.owed == 0 {
            self.complete(place, completed);
        }
    }

    /// Programs the physical pages that a request has begun to fill, since it waits for them; returns
    /// how many operations it waits for.
    fn pad(&mut self, place: u32) -> u32 {
        if self.config.pages_per_program == 1 {
            return 0;
        }
        if self.slc.is_some() {
            return self.pad_cache(place);
        }
        let mut owed = 0;
        for stream in 0..self.config.host_streams() as usize {
            let mut charge = self.service.charge_padding(place, stream);
            self.ftl.pad(&mut self.nand, stream, &mut charge);
            owed += charge.finish();
        }
        owed
    }

    /// Writes pages with the rest of their mapping units, in time if they are of a request; returns how
    /// many operations that waits for.
    pub(super) fn write(
        &mut self,
        first: u32,
        pages: u32,
        place: Option<u32>,
    ) -> Result<u32, Exhausted> {
        let unit = self.config.mapping_unit_pages;
        let end = first + pages;
        if unit == 1 {
            return self.write_pages(first..end, place);
        }
        let (from, to) = (first - first % unit, end.next_multiple_of(unit));
        self.fill_in(from..first, place);
        self.fill_in(end..to, place);
        let mut owed = 0;
        for start in (from..to).step_by(unit as usize) {
            let written = start.max(first)..end.min(start + unit);
            // A unit is hot if one of its pages is.
            // Only pages that the host wrote are shown to the identifier: the rest of the unit says
            // nothing of the workload.
            let streams = written.clone().map(|page| self.stream_of(page, place));
            let stream = streams.max().unwrap_or(0);
            for page in start..start + unit {
                owed += self.program(page, stream, place)?;
                self.recorder.host_writes += u64::from(written.contains(&page));
            }
        }
        Ok(owed)
    }

    /// Writes pages that are mapping units of their own, as [`write`](Self::write) does.
    #[inline]
    fn write_pages(&mut self, pages: Range<u32>, place: Option<u32>) -> Result<u32, Exhausted> {
        let mut owed = 0;
        for page in pages {
            let stream = self.stream_of(page, place);
            owed += self.program(page, stream, place)?;
            self.recorder.host_writes += 1;
        }
        Ok(owed)
    }

    /// Reads the pages that complete a mapping unit, if the flash has them.
    fn fill_in(&mut self, pages: Range<u32>, place: Option<u32>) {
        if pages.is_empty() {
            return;
        }
        let has = |page: &u32| self.nand.page_of(*page) != NONE;
        self.recorder.unit_reads += pages.clone().filter(has).count() as u64;
        if place.is_some() {
            // The drive's own reads: the request waits for the program that follows.
            // Deviation (4) of the drive: the program may run on another die before this read is
            // done.
            self.queue_reads(pages, NONE);
        }
    }

    /// Return the stream that the host, or the identifier, chooses for a page that it writes.
    #[inline]
    fn stream_of(&mut self, page: u32, place: Option<u32>) -> usize {
        match &mut self.identifier {
            Some(identifier) => usize::from(identifier.record(PageId(page)) == Heat::Hot),
            None => {
                place.map_or(self.handle, |place| self.requests[place as usize].handle) as usize
            }
        }
    }

    /// Programs a page, in time if it is of a request; returns how many operations that waits for.
    #[inline]
    fn program(&mut self, page: u32, stream: usize, place: Option<u32>) -> Result<u32, Exhausted> {
        if self.slc.is_some() {
            return self.write_to_cache(page, place);
        }
        let Some(place) = place else {
            self.ftl.write(&mut self.nand, page, stream, &mut Untimed)?;
            return Ok(0);
        };
        let mut charge = self.service.charge(place, stream);
        self.ftl.write(&mut self.nand, page, stream, &mut charge)?;
        Ok(charge.finish())
    }

    /// Forgets pages; a mapping unit is forgotten as a whole, or stays.
    pub(super) fn trim(&mut self, first: u32, pages: u32) {
        let unit = self.config.mapping_unit_pages;
        let end = first + pages;
        self.recorder.host_trims += u64::from(pages);
        // A part of a unit cannot be forgotten: the map has one entry for all of it.
        for page in first.next_multiple_of(unit)..end - end % unit {
            self.nand.trim(page);
            if let Some(slc) = &mut self.slc {
                slc.forget(page);
            }
        }
    }

    pub(super) fn complete(&mut self, place: u32, completed: &mut Vec<Completion>) {
        let Request { op, ticket, arrival_ns, .. } = self.requests[place as usize];
        self.recorder.complete(op, self.now_ns - arrival_ns);
        completed.push(Completion { ticket, at: Nanos(self.now_ns) });
        self.in_service -= 1;
        if self.in_service == 0 {
            self.idle_since_ns = self.now_ns;
        }
        self.free_places.push(place);
    }
}
