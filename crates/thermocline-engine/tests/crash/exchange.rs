//! Another flash takes the place of the one in use while the engine serves, as `cache replace` does it:
//! what the note of the backing store says decides which flash the next start may use.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thermocline_core::WriteMiss;
use thermocline_engine::{Event, FlashSet, Shard};

use crate::devices::FlashStorage;
use crate::growth::owner;
use crate::policies::{entries, policy};
use crate::world::World;

/// Progress of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exchange {
    /// None is under way.
    Idle,
    /// The engine leaves the flash, which the note still names; or one that failed, which it does not.
    Leaving,
    /// The note says that the backing store has all, and no start uses the old flash.
    Left,
}

/// `true` if the flash in use failed, as the note says before anything else is acknowledged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failed(Arc<AtomicBool>);

impl Failed {
    /// Watches a shard, too.
    pub(crate) fn watch(&self, shard: &mut Shard) {
        let failed = Arc::clone(&self.0);
        shard.observe(Box::new(move |event| {
            if matches!(event, Event::FlashFailed { .. }) {
                failed.store(true, Ordering::Relaxed);
            }
        }));
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl World {
    /// Takes a step of an exchange, or begins one by a draw.
    pub(crate) fn exchange(&mut self) -> Result<(), String> {
        if self.exchange == Exchange::Idle {
            // A flash that failed is replaced sooner than one that works.
            let seldom = if self.shards.has_failed() { 3 } else { 80 };
            if self.below(seldom) > 0 || !self.unverified.is_empty() {
                return Ok(());
            }
            self.exchange = Exchange::Leaving;
        }
        // A server refuses to forget lost pages. By a draw it changes its mind.
        let stays = !self.shards.lost_pages().is_empty() || self.below(400) == 0;
        if stays && self.exchange == Exchange::Leaving {
            self.exchange = Exchange::Idle;
            return self
                .shards
                .each()
                .try_for_each(Shard::stay_with_flash)
                .map_err(|error| error.to_string());
        }
        if self.shards.has_left_flash() {
            self.exchange = Exchange::Left;
            self.shards.each().for_each(Shard::release_flash);
        }
        self.shards.each().for_each(Shard::leave_flash);
        if stays || !self.shards.is_flash_released() {
            return Ok(());
        }
        self.take_new_flash()
    }

    /// Take the steps in which a crash may fall between the note and the first write to the new
    /// flash.
    fn take_new_flash(&mut self) -> Result<(), String> {
        self.exchange = Exchange::Left;
        // The backing store may be larger than what the shards serve.
        let pages = self.plan.first_page + self.shards.pages() as u64;
        let Some(flash) = self.new_flash(pages)? else { return Ok(()) };
        let entries = entries();
        let entry = entries[self.below(entries.len() as u64) as usize];
        let policy = policy(entry, WriteMiss::Fetch);
        let taken = self.shards.take_flash(&self.plan.options, &policy, &flash);
        taken.map_err(|error| error.to_string())?;
        self.owner = owner(&flash);
        self.exchange = Exchange::Idle;
        // What only RAM and the old flash had would be missed soon after.
        let fails_soon = self.below(3) == 0;
        let operations = 1 + self.below(10);
        let left = &mut self.devices.borrow_mut().operations_left;
        if fails_soon && *left < u64::MAX / 2 {
            *left = (*left).min(operations);
        }
        Ok(())
    }

    /// Sets another flash up, for a backing store of that many pages; `None` if the power fails meanwhile, or
    /// it fails.
    fn new_flash(&mut self, backing_pages: u64) -> Result<Option<FlashSet>, String> {
        let layout = self.plan.layout();
        self.devices.borrow_mut().replace_flash(&layout);
        let cache = self.new_cache();
        let mut storage = FlashStorage(Rc::clone(&self.devices));
        let (map, size_bytes) = (self.plan.map(), backing_pages * self.plan.page_bytes() as u64);
        match FlashSet::initialise(&mut storage, cache, layout, map, size_bytes) {
            Ok(flash) => Ok(Some(flash)),
            Err(_) if self.devices.borrow().is_excused() => Ok(None),
            Err(error) => Err(format!("a new flash: {error}")),
        }
    }

    /// Return `true` if the next start goes on with the flash, by what the note says.
    pub(crate) fn is_flash_named(&self) -> bool {
        let is_used = self.shards.has_flash() || self.exchange == Exchange::Leaving;
        is_used && !self.shards.has_failed()
    }

    /// Starts with a new flash after a crash: the backing store has everything that was durable.
    pub(crate) fn start_without_old_flash(&mut self) -> Result<(), String> {
        self.was_killed = self.plan.kills && self.unverified.is_empty() && self.below(2) == 0;
        self.forget_session();
        if self.was_killed {
            self.devices.borrow_mut().kill();
        } else {
            self.devices.borrow_mut().crash();
        }
        self.devices.borrow_mut().end_outage();
        while !self.devices.borrow_mut().sync_backing() {}
        let options = self.plan.options.clone();
        let flash = self.new_flash(options.backing_pages)?.ok_or("the new flash failed")?;
        self.open(&options, &flash)
    }
}
