//! A backing store that grows while the engine serves, as `serve` takes it over: first the store has its new
//! size durably, then the flash knows it, then the shards serve it.

use std::rc::Rc;

use thermocline_engine::{FlashSet, Uuid};

use crate::devices::FlashStorage;
use crate::exchange::Exchange;
use crate::plan::PAGES;
use crate::world::World;

/// Return the cache that the flash belongs to, and its epoch.
pub(crate) fn owner(flash: &FlashSet) -> (Uuid, u64) {
    (flash.superblock().owner(), flash.superblock().epoch)
}

impl World {
    /// Grows by a draw, or tries again what failed.
    pub(crate) fn grow(&mut self) -> Result<(), String> {
        let is_ready =
            self.unverified.is_empty() && matches!(self.exchange, Exchange::Idle) && !self.is_early;
        if !is_ready || self.below(60) > 0 {
            return Ok(());
        }
        let more = self.below((PAGES - self.plan.pages()) as u64 + 1);
        let pages = self.plan.options.backing_pages + more;
        // Where page numbers get longer, only a restart helps.
        if self.shards.each().any(|shard| shard.check_growth(pages).is_err()) {
            return Ok(());
        }
        self.plan.options.backing_pages = pages;
        if self.is_flash_named() {
            let mut storage = FlashStorage(Rc::clone(&self.devices));
            let backing_bytes = self.plan.options.size_bytes();
            match FlashSet::grow_backing(&mut storage, self.owner, backing_bytes) {
                Ok(()) => {}
                Err(_) if self.devices.borrow().is_excused() => return Ok(()),
                Err(error) => return Err(format!("growth: {error}")),
            }
        }
        let mut shards = self.shards.each();
        shards.try_for_each(|shard| shard.grow_backing(pages)).map_err(|error| error.to_string())
    }
}
