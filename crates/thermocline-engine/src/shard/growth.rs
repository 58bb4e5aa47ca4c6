//! A backing store and a flash that grow while the engine serves.

use std::ops::RangeInclusive;

use super::{OpenError, SPARE_SLOTS_MIN, Shard};
use crate::format::Layout;
use crate::options::{Options, OptionsError};
use crate::recovery::FlashError;

impl Shard {
    /// Check that the backing store may have that many pages from now on.
    ///
    /// # Errors
    /// If it has more already, or the engine cannot have that many without a restart.
    pub fn check_growth(&self, pages: u64) -> Result<(), OptionsError> {
        let former = self.options.backing_pages;
        let is_wide = |pages: u64| [pages > u64::from(u32::MAX), pages > 1 << 32];
        // Beyond the first size policies know pages by hashes, and the flash has another format. Beyond the
        // second, slots keep upper bits of page numbers.
        if pages < former || is_wide(pages) != is_wide(former) {
            return Err(OptionsError::Growth { former_pages: former, pages });
        }
        let options = Options { backing_pages: pages, ..self.options.clone() };
        options.check()?;
        options.build_policy(self.slots.count()).map(drop)
    }

    /// Serves that many pages of the backing store from now on. Before that, the backing store durably has
    /// them, and the flash knows its size: [`FlashSet::grow_backing`](crate::FlashSet::grow_backing). What
    /// RAM and flash hold stays, as far as the policy wants it.
    ///
    /// # Errors
    /// As for [`check_growth`](Self::check_growth); nothing changes then.
    pub fn grow_backing(&mut self, pages: u64) -> Result<(), OptionsError> {
        self.check_growth(pages)?;
        let former = std::mem::replace(&mut self.options.backing_pages, pages);
        self.renew_policy(&(0..0)).inspect_err(|_| self.options.backing_pages = former)
    }

    /// Return `true` if pages are written to slots of the flash, and these stay as they are for now.
    pub fn is_flash_in_use(&self) -> bool {
        self.may_use_slots() && !self.awaits_epoch && !self.is_shrinking()
    }

    /// Return the number of slots that are enough for a policy which keeps that many pages on flash, and the number
    /// that it should have, if there are fewer. A policy that gives pages up does not want more slots.
    ///
    /// # Errors
    /// If the flash is not in use, or the policy cannot have that many.
    pub fn slots_for(&self, flash_pages: u32) -> Result<Option<RangeInclusive<u32>>, OptionsError> {
        if !self.may_use_slots() || self.awaits_epoch {
            return Err(OptionsError::FlashNotInUse);
        }
        if self.is_shrinking() {
            return Err(OptionsError::FlashShrinks);
        }
        let options = Options { flash_pages, ..self.options.clone() };
        options.check()?;
        let slots = options.slots();
        options.build_policy(slots.max(self.slots.count()))?;
        let (count, fewest) = (self.slots.count(), options.fewest_slots());
        let is_short = count < if flash_pages > self.options.flash_pages { slots } else { fewest };
        Ok(is_short.then_some(fewest..=slots))
    }

    /// Lets the policy keep that many pages on flash from now on, in slots of this layout. Before that, the
    /// flash durably has them: [`Extension::apply`](crate::Extension::apply). What RAM and flash hold stays, as
    /// far as the policy wants it.
    ///
    /// # Errors
    /// If the flash is not in use, or the policy cannot have that many; the policy stays as it is then.
    pub fn grow_flash(&mut self, flash_pages: u32, layout: &Layout) -> Result<(), OpenError> {
        if layout.slots > self.slots.count() && self.slots_for(flash_pages).is_ok() {
            self.slots.grow(layout.slots);
            self.outbox.set_breaks(layout);
            self.journal.set_layout(layout);
        }
        self.set_flash_pages(flash_pages)
    }

    /// Lets the policy keep that many pages on flash from now on, in the slots that there are. What RAM and
    /// flash hold stays, as far as the policy wants it; dirty pages that it gives up are written back.
    ///
    /// # Errors
    /// If the flash is not in use or has too few slots, or the policy cannot have that many; nothing changes
    /// then.
    pub fn set_flash_pages(&mut self, flash_pages: u32) -> Result<(), OpenError> {
        self.slots_for(flash_pages)?;
        let kept = flash_pages.saturating_add(self.options.pinned_pages);
        let (found_slots, wanted_slots) =
            (self.slots.count(), kept.saturating_add(SPARE_SLOTS_MIN));
        if found_slots < wanted_slots {
            return Err(FlashError::TooFewSlots { found_slots, wanted_slots }.into());
        }
        let former = std::mem::replace(&mut self.options.flash_pages, flash_pages);
        self.renew_policy(&(0..0)).inspect_err(|_| self.options.flash_pages = former)?;
        Ok(())
    }
}
