//! Another flash takes the place of the one in use while the engine serves, as `cache replace` does it:
//! what the note of the backing store says decides which flash the next start may use.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thermocline_core::WriteMiss;
use thermocline_core::random::SplitMix64;
use thermocline_engine::{Event, FlashSet, PolicyOptions, Shard};

use crate::devices::FlashStorage;
use crate::growth::owner;
use crate::policies::{entries, policy};
use crate::world::World;

/// Progress of an exchange. Each shard takes a step when its thread comes to it.
#[derive(Debug)]
pub(crate) enum Exchange {
    /// None is under way.
    Idle,
    /// The engine leaves the flash, which the note still names; or one that failed, which it does not.
    Leaving,
    /// The note says that the backing store has all, and no start uses the old flash.
    Left,
    /// The note names another flash, which shards take: how many of them are left.
    Taking(Box<Taking>),
}

/// A new flash, and who takes it.
#[derive(Debug)]
pub(crate) struct Taking {
    flash: FlashSet,
    policy: PolicyOptions,
    /// Shards that have not taken it.
    left: Vec<usize>,
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
        if let Exchange::Taking(_) = self.exchange {
            return self.take_part();
        }
        if let Exchange::Idle = self.exchange {
            // A flash that failed is replaced sooner than one that works.
            let seldom = if self.shards.has_failed() { 3 } else { 80 };
            if self.below(seldom) > 0 || !self.unverified.is_empty() {
                return Ok(());
            }
            self.exchange = Exchange::Leaving;
        }
        // A server refuses to forget lost pages. By a draw it changes its mind.
        let stays = !self.shards.lost_pages().is_empty() || self.below(400) == 0;
        if stays && matches!(self.exchange, Exchange::Leaving) {
            self.exchange = Exchange::Idle;
            return self
                .shards
                .each()
                .try_for_each(Shard::stay_with_flash)
                .map_err(|error| error.to_string());
        }
        if self.shards.has_left_flash() {
            self.exchange = Exchange::Left;
        }
        let may_release = matches!(self.exchange, Exchange::Left);
        let mut random = SplitMix64::new(self.random.bits());
        for shard in self.shards.each() {
            if may_release && shard.has_left_flash() && random.bits().is_multiple_of(3) {
                shard.release_flash();
            }
            shard.leave_flash();
        }
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
        self.owner = owner(&flash);
        let left = (0..self.plan.map().shards()).collect();
        self.shards.watch();
        self.exchange = Exchange::Taking(Box::new(Taking { flash, policy, left }));
        self.take_part()?;
        // Pages that only RAM and the old flash had would be missed soon after.
        let fails_soon = self.below(3) == 0;
        let operations = 1 + self.below(10);
        let left = &mut self.devices.borrow_mut().operations_left;
        if fails_soon && *left < u64::MAX / 2 {
            *left = (*left).min(operations);
        }
        Ok(())
    }

    /// Has one of the shards take the new flash.
    fn take_part(&mut self) -> Result<(), String> {
        let drawn = self.below(4) as usize;
        let Exchange::Taking(taking) = &mut self.exchange else { return Ok(()) };
        if drawn == 0 && taking.left.len() > 1 {
            return Ok(());
        }
        let shard = taking.left.swap_remove(drawn % taking.left.len());
        let Taking { flash, policy, left } = &**taking;
        let taken = self.shards.take_flash(shard, &self.plan.options, policy, flash);
        taken.map_err(|error| error.to_string())?;
        if left.is_empty() {
            self.exchange = Exchange::Idle;
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
        let is_leaving = matches!(self.exchange, Exchange::Leaving | Exchange::Taking(_));
        let is_used = self.shards.has_flash() || is_leaving;
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
