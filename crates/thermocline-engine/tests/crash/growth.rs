//! A backing store and a flash that grow while the engine serves, as `serve` takes it over: first the store has
//! its new size durably, then the flash knows it, then the shards serve it. The flash has its new slots durably
//! before the shards use them. It also gives room back, in which others write from then on.

use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use thermocline_engine::{
    Extension, FlashError, FlashSet, Options, Reduction, Shard, Storage, Uuid,
};

use crate::devices::FlashStorage;
use crate::exchange::Exchange;
use crate::plan::PAGES;
use crate::world::World;

/// Times that a flash grew while the engine served, and that one gave room back.
#[derive(Debug)]
pub(crate) struct Changes {
    pub(crate) grown: AtomicU64,
    pub(crate) shrunk: AtomicU64,
}

/// Changes of flashes of one device.
pub(crate) static OF_ONE: Changes = Changes::new();
/// Changes of mirrored flashes.
pub(crate) static OF_TWO: Changes = Changes::new();

impl Changes {
    const fn new() -> Self {
        Self { grown: AtomicU64::new(0), shrunk: AtomicU64::new(0) }
    }

    /// Return the changes of flashes like that of a world.
    fn of(world: &World) -> &'static Self {
        if world.plan.is_mirrored { &OF_TWO } else { &OF_ONE }
    }
}

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

    /// Grows the flash by a draw, or tries again what failed.
    pub(crate) fn grow_flash(&mut self) -> Result<(), String> {
        let is_ready =
            self.unverified.is_empty() && matches!(self.exchange, Exchange::Idle) && !self.is_early;
        // As the server has it, the flash gets another size before or after a device joins.
        if self.devices.borrow().mirrored.as_ref().is_some_and(|it| it.borrow().is_joined()) {
            return Ok(());
        }
        if self.shards.each().any(|shard| shard.is_shrinking()) {
            return self.give_back();
        }
        if !is_ready || !self.is_flash_named() || self.below(40) > 0 {
            return Ok(());
        }
        if self.below(2) == 0 {
            return self.shrink_flash();
        }
        let pages = self.drawn_flash_pages();
        let options = Options { flash_pages: pages, ..self.plan.options.clone() };
        let each = options.of_shards(self.plan.map()).map_err(|error| error.to_string())?;
        let fits = self.shards.each().zip(&each).all(|(shard, options)| {
            let slots = shard.slots_for(options.flash_pages);
            slots.is_ok()
        });
        if !fits {
            return Ok(());
        }
        let (slots, owner) = (each[0].slots(), self.owner);
        match self.extend(&mut *self.flash_storage(), slots, Some(owner)) {
            Ok(Some(extension)) => {
                Changes::of(self).grown.fetch_add(1, Ordering::Relaxed);
                self.plan.options.flash_pages = pages;
                let layouts = extension.layouts();
                let mut shards = self.shards.each().zip(each).zip(&layouts);
                let grown = shards.try_for_each(|((shard, options), layout)| {
                    shard.grow_flash(options.flash_pages, layout)
                });
                grown.map_err(|error| error.to_string())
            }
            Ok(None) => Ok(()),
            Err(error) if self.is_excused(&error) => Ok(()),
            Err(error) => Err(format!("growth of the flash: {error}")),
        }
    }

    /// Grows the flash before a start, by a draw. Returns `true` if the power is still on.
    pub(crate) fn grow_flash_at_rest(
        &mut self,
        storage: &mut dyn Storage,
        options: &Options,
        flash: &mut FlashSet,
    ) -> Result<bool, String> {
        if self.below(4) > 0 {
            return Ok(true);
        }
        let options = Options { flash_pages: self.drawn_flash_pages(), ..options.clone() };
        let each = options.of_shards(self.plan.map()).map_err(|error| error.to_string())?;
        match self.extend(storage, each[0].slots(), None) {
            Ok(Some(extension)) => flash.grow(&extension.layouts()),
            Ok(None) => {}
            Err(error) if self.is_excused(&error) => return Ok(false),
            Err(error) => return Err(format!("growth at a start: {error}")),
        }
        Ok(true)
    }

    fn drawn_flash_pages(&mut self) -> u32 {
        self.plan.options.flash_pages + self.below(9) as u32
    }

    /// Gives each region that many slots, durably; `None` if the flash has grown too often.
    fn extend(
        &mut self,
        storage: &mut dyn Storage,
        slots: u32,
        running: Option<(Uuid, u64)>,
    ) -> Result<Option<Extension>, FlashError> {
        // So large a growth has blocks of the table of its own.
        let more = if self.below(3) == 0 { 150 + self.below(150) as u32 } else { 0 };
        let slots = slots + if self.plan.page_bytes() == 4096 { more } else { 0 };
        let mut extension = match Extension::plan(storage, slots..=slots, running) {
            Err(FlashError::CannotGrow) => return Ok(None),
            planned => planned?,
        };
        // Behind all else, or before the first region, as where other volumes were.
        let behind = extension.flash_bytes() - extension.bytes();
        let starts = extension.used().into_iter().map(|range| range.start);
        let lowest = starts.filter(|start| *start >= 1 << 63).min().unwrap_or(0);
        let before = lowest.wrapping_sub(extension.bytes());
        // A device that joins gets all from the first region on.
        let is_behind = self.plan.seed.is_multiple_of(2) || self.plan.is_mirrored;
        let start_bytes = if is_behind { behind } else { before };
        match extension.place(std::slice::from_ref(
            &(start_bytes..start_bytes.wrapping_add(extension.bytes())),
        )) {
            Err(FlashError::CannotGrow) => return Ok(None),
            placed => drop(placed?),
        }
        self.devices.borrow_mut().use_layouts(&extension.layouts());
        extension.apply(storage)?;
        Ok(Some(extension))
    }

    /// Return the flash as `serve` changes it beside the shards.
    fn flash_storage(&self) -> Box<dyn Storage> {
        match &self.devices.borrow().mirrored {
            Some(mirrored) => Box::new(mirrored.borrow().storage(&self.devices)),
            None => Box::new(FlashStorage(Rc::clone(&self.devices))),
        }
    }

    /// Return `true` if the devices explain that the flash keeps its size.
    fn is_excused(&self, error: &FlashError) -> bool {
        let devices = self.devices.borrow();
        // A note that cannot be written keeps a device that fails in use.
        let is_mirrored = devices.mirrored.is_some() && matches!(error, FlashError::Io(_));
        devices.is_excused() || is_mirrored
    }

    /// Have the shards begin to leave slots, by a draw.
    fn shrink_flash(&mut self) -> Result<(), String> {
        let former = u64::from(self.plan.options.flash_pages);
        let least = self.plan.map().shards() as u64;
        let pages = least.max(former - self.below(former)) as u32;
        let options = Options { flash_pages: pages, ..self.plan.options.clone() };
        let each = options.of_shards(self.plan.map()).map_err(|error| error.to_string())?;
        let may = |(shard, options): (&mut Shard, &Options)| {
            shard.fewer_slots_for(options.flash_pages).is_ok()
        };
        if !self.shards.each().zip(&each).all(may) {
            return Ok(());
        }
        self.plan.options.flash_pages = pages;
        for (shard, options) in self.shards.each().zip(&each) {
            shard.leave_slots(options.flash_pages).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Give the room back of slots that all shards have left.
    fn give_back(&mut self) -> Result<(), String> {
        let shrinking = self.shards.each().filter(|shard| shard.is_shrinking());
        let left: Option<Vec<u32>> = shrinking.map(|shard| shard.has_left_slots()).collect();
        if left.is_none() || !self.is_flash_named() {
            return Ok(());
        }
        let left: Vec<_> = self.shards.each().map(|shard| shard.has_left_slots()).collect();
        let mut storage = self.flash_storage();
        let reduced = Reduction::plan(&mut *storage, &left, Some(self.owner))
            .and_then(|reduction| reduction.apply(&mut *storage));
        let reduced = match reduced {
            Ok(reduced) => reduced,
            Err(error) if self.is_excused(&error) => return Ok(()),
            Err(error) => return Err(format!("room that is given back: {error}")),
        };
        let layouts = reduced.layouts();
        self.devices.borrow_mut().give_back(&layouts);
        for (shard, layout) in self.shards.each().zip(&layouts) {
            if shard.is_shrinking() {
                shard.give_up_slots(layout);
            }
        }
        Changes::of(self).shrunk.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}
