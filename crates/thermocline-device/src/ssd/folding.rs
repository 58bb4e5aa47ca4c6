//! Writes through the cache of one bit per cell, and folding.

use super::error::Exhausted;
use super::ftl::{Cause, Untimed, Work as _};
use super::slc::Slc;
use super::{NEVER, Ssd};

impl Ssd {
    /// Writes a page to the cache, in time if it is of a request; returns how many operations that waits
    /// for. Out of line, for drives without a cache.
    #[cold]
    #[inline(never)]
    pub(super) fn write_to_cache(
        &mut self,
        page: u32,
        place: Option<u32>,
    ) -> Result<u32, Exhausted> {
        while self.slc.as_ref().is_some_and(|slc| !slc.has_room()) {
            self.fold(place.is_some())?;
        }
        // The copy in the other cells is old from now on. Without this it would be collected and
        // copied as if it were valid.
        self.nand.trim(page);
        let Some(slc) = &mut self.slc else { return Ok(0) };
        let (slot, is_full) = slc.append(Some(page));
        let Some(place) = place else { return Ok(0) };
        let mut charge = self.service.charge(place, 0);
        charge.program_in_cache(slot.plane, slot.page, is_full);
        Ok(charge.finish())
    }

    /// Programs the physical page of the cache that a request has begun to fill, since it waits for it;
    /// returns how many operations it waits for.
    pub(super) fn pad_cache(&mut self, place: u32) -> u32 {
        let Some(slc) = self.slc.as_mut().filter(|slc| slc.has_part()) else { return 0 };
        loop {
            let (slot, is_full) = slc.append(None);
            if is_full {
                let mut charge = self.service.charge_padding(place, 0);
                charge.program_in_cache(slot.plane, slot.page, is_full);
                return charge.finish();
            }
        }
    }

    /// Pad the last physical page of the cache without time.
    pub(super) fn pad_cache_untimed(&mut self) {
        if let Some(slc) = self.slc.as_mut().filter(|slc| slc.has_part()) {
            while !slc.append(None).1 {}
        }
    }

    /// Folds the oldest physical page of the cache, in time or without.
    pub(super) fn fold(&mut self, in_time: bool) -> Result<(), Exhausted> {
        let Some(slc) = &mut self.slc else { return Ok(()) };
        let mut pages = std::mem::take(&mut self.folding);
        let given = slc.give_up(&mut pages);
        // Folding is the drive's own work, like collection: a drive whose collection takes no time
        // folds in none.
        let in_time = in_time && self.config.gc_time;
        if in_time && !pages.is_empty() {
            let count = u8::try_from(pages.len()).expect("a physical page has at most 32 pages");
            self.service.read_to_fold(given.plane, count);
        }
        // A block of the cache is erased when its last page has left, in every plane at once, as
        // the ring is filled across planes.
        let planes = if given.ends_stripe { self.nand.geometry().planes } else { 0 };
        let (ftl, nand) = (&mut self.ftl, &mut self.nand);
        let mut moved = pages.drain(..);
        let done = if in_time {
            let mut charge = self.service.charge_folding();
            let done = moved.try_for_each(|page| ftl.write(nand, page, 0, &mut charge));
            (0..planes).for_each(|plane| charge.erase(plane, Cause::Gc));
            charge.finish();
            done
        } else {
            moved.try_for_each(|page| ftl.write(nand, page, 0, &mut Untimed))
        };
        drop(moved);
        self.folding = pages;
        done
    }

    /// Return the time at which the drive has been idle for long enough to fold; [`NEVER`] if it has nothing
    /// to fold, or something else to do.
    pub(super) fn next_folding_ns(&self) -> u64 {
        let is_idle = self.in_service == 0 && self.service.is_idle();
        match &self.slc {
            Some(slc) if is_idle && slc.is_foldable() && self.fold_after_ns != NEVER => {
                self.idle_since_ns.saturating_add(self.fold_after_ns).max(self.now_ns)
            }
            Some(_) | None => NEVER,
        }
    }

    /// Folds a physical page of each plane, if the drive has been idle for so long.
    pub(super) fn fold_when_idle(&mut self) -> Result<(), Exhausted> {
        if self.next_folding_ns() > self.now_ns {
            return Ok(());
        }
        // A page per plane and not all: a request that comes next waits for little.
        for _ in 0..self.nand.geometry().planes {
            if self.slc.as_ref().is_some_and(Slc::is_foldable) {
                self.fold(true)?;
            }
        }
        Ok(())
    }

    /// Folds all that can be, without time.
    pub(super) fn fold_all(&mut self) -> Result<(), Exhausted> {
        while self.slc.as_ref().is_some_and(Slc::is_foldable) {
            self.fold(false)?;
        }
        Ok(())
    }
}
