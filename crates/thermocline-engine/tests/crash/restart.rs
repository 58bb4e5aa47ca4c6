//! Ends and restarts of an engine.

use std::rc::Rc;

use thermocline_engine::{
    Begin, Flash, FlashError, FlashSet, Options, Request, RequestError, Shard,
};

use crate::devices::FlashStorage;
use crate::exchange::Exchange;
use crate::growth::owner;
use crate::plan::PAGES;
use crate::set::Shards;
use crate::world::World;

impl World {
    /// Cut the power; on the way back it may fail again.
    pub(crate) fn crash(&mut self) -> Result<(), String> {
        self.crashes += 1;
        self.is_clean = false;
        if !self.plan.has_faults() && !self.devices.borrow().keep_foreign() {
            return Err("the room of others was written".into());
        }
        // An orderly end, perhaps, which the power failure or the kill may or may not wait for.
        if self.plan.kills && self.is_flash_named() && self.below(3) == 0 {
            self.end_in_order()?;
        }
        match self.exchange {
            Exchange::Left => return self.start_without_old_flash(),
            _ if !self.is_flash_named() => return self.replace_flash(),
            Exchange::Idle | Exchange::Leaving | Exchange::Taking(_) => {}
        }
        // Pages that were not read since the last restart are as the devices had them before it.
        self.was_killed = self.plan.kills && self.unverified.is_empty() && self.below(2) == 0;
        let mut options = self.plan.options.clone();
        options.write_mode = self.shards.write_mode();
        // An engine that leaves its flash has a policy of RAM.
        if matches!(self.exchange, Exchange::Idle) {
            options.policy = self.shards.policy().clone();
        }
        self.forget_session();
        let flash = self.recover(&options)?;
        self.devices.borrow_mut().operations_left = u64::MAX;
        if self.plan.resizes && self.below(8) == 0 {
            self.refuses_other_backing(&options, &flash)?;
        }
        if std::mem::take(&mut self.is_early) {
            self.shards.epoch_has_begun(&flash);
            self.owner = owner(&flash);
            self.shards.assert_invariants();
            return Ok(());
        }
        self.open(&options, &flash)
    }

    /// Forget the session: nobody waits for an answer any more, and nothing was read since the end.
    pub(crate) fn forget_session(&mut self) {
        self.asked.clear();
        self.lost.clear();
        self.ranging = None;
        self.exchange = Exchange::Idle;
        self.unverified = (0..self.plan.pages()).collect();
    }

    /// Read both devices after they were synced. By a draw, an engine serves reads before the epoch
    /// of the flash begins. Returns `true` if the power is still on.
    pub(crate) fn read_early(
        &mut self,
        options: &Options,
        flash: &FlashSet,
    ) -> Result<bool, String> {
        self.is_early = self.below(2) == 0 && flash.is_settled();
        if !self.is_early {
            return Ok(true);
        }
        let shards = Shards::open(self.plan.first_bytes(), options, flash, Shard::open_early);
        self.shards = shards.map_err(|error| error.to_string())?;
        self.ranging = None;
        self.check_evicted()?;
        self.shards.tick(self.now);
        let steps = self.below(300);
        self.live(steps)?;
        self.shards.assert_invariants();
        // Content that was read is durable: a crash before the epoch has begun changes none of it.
        for page in (0..PAGES).filter(|page| !self.unverified.contains(page)) {
            let promise = self.oracle.promise(page);
            self.oracle.flushed(page, promise);
        }
        Ok(self.devices.borrow().operations_left > 0)
    }

    pub(crate) fn open(&mut self, options: &Options, flash: &FlashSet) -> Result<(), String> {
        let shards = Shards::open(self.plan.first_bytes(), options, flash, Shard::open);
        self.shards = shards.map_err(|error| error.to_string())?;
        self.owner = owner(flash);
        self.exchange = Exchange::Idle;
        self.ranging = None;
        self.check_evicted()?;
        self.shards.tick(self.now);
        self.shards.assert_invariants();
        Ok(())
    }

    /// Stops the engine, or drains it; then slots may rot at rest, and what is clean is still there.
    fn end_in_order(&mut self) -> Result<(), String> {
        self.devices.borrow_mut().operations_left = u64::MAX;
        let drains = self.below(2) == 0;
        if drains {
            self.devices.borrow_mut().end_outage();
            self.until_idle()?;
            self.shards.each().for_each(Shard::drain);
        } else {
            self.shards.each().for_each(Shard::stop);
        }
        // A last flush says whether the devices can be relied on.
        if self.unverified.is_empty() {
            self.submit(Request::flush(self.next_tag));
        }
        self.until_idle()?;
        let is_undisturbed = !self.plan.has_faults() && self.unverified.is_empty();
        if drains && is_undisturbed && self.shards.dirty_pages() > 0 {
            return Err("pages are dirty after draining".to_owned());
        }
        if drains && is_undisturbed {
            self.is_clean = true;
            for _ in 0..4 {
                self.devices.borrow_mut().rot_slot();
            }
        }
        Ok(())
    }

    /// Ends the run of the devices, and finds out what the flash holds.
    fn recover(&mut self, options: &Options) -> Result<FlashSet, String> {
        let layout = self.devices.borrow().layout();
        let table = layout.table_range();
        let table_range = table.start as usize..table.end as usize;
        // A power failure that tears one copy and damage to the other would be two faults at once.
        let is_table_whole = (0..self.plan.map().shards())
            .all(|region| !self.devices.borrow().is_writing_flash(region, table_range.clone()));
        let end = if is_table_whole { layout.metadata_bytes() } else { table.start } as usize;
        let (mut is_killed, mut rots) = (self.was_killed, self.plan.faults.rots);
        let rotten_slots = if self.plan.faults.rotten_slots > 0 { self.below(3) } else { 0 };
        loop {
            if std::mem::take(&mut is_killed) {
                self.devices.borrow_mut().kill();
            } else {
                self.was_killed = false;
                self.devices.borrow_mut().crash();
            }
            if std::mem::take(&mut rots) {
                self.devices.borrow_mut().rot(end);
            }
            for _ in 0..rotten_slots {
                self.devices.borrow_mut().rot_slot();
            }
            if self.plan.resizes && self.below(8) == 0 {
                self.resize_flash()?;
            }
            if self.below(4) == 0 {
                let operations = 1 + self.below(120);
                self.devices.borrow_mut().operations_left = operations;
            }
            if self.plan.faults.flash_outages > 0 && self.below(4) == 0 {
                self.devices.borrow_mut().begin_short_outage();
            }
            match self.begin_epoch(options)? {
                Ok(Some(flash)) => {
                    self.devices.borrow_mut().recovered();
                    self.devices.borrow_mut().end_outage();
                    return Ok(flash);
                }
                // The start is refused, and tried again.
                Ok(None) => is_killed = true,
                Err(_) if self.devices.borrow().operations_left == 0 => self.crashes += 1,
                Err(_) if self.devices.borrow().was_refused => {
                    self.devices.borrow_mut().end_outage();
                    is_killed = true;
                }
                Err(error) => return Err(format!("recovery: {error}")),
            }
            self.forget_session();
        }
    }

    /// Return the steps of a start; none if the backing store cannot be synced.
    fn begin_epoch(
        &mut self,
        options: &Options,
    ) -> Result<Result<Option<FlashSet>, FlashError>, String> {
        let mut storage = FlashStorage(Rc::clone(&self.devices));
        let read = FlashSet::read(&mut storage)
            .and_then(|flash| Flash::make_durable(&mut storage).map(|()| flash));
        let mut flash = match read {
            Ok(flash) => flash,
            Err(error) => return Ok(Err(error)),
        };
        if self.plan.grows_flash && !self.grow_flash_at_rest(&mut storage, options, &mut flash)? {
            return Ok(Err(FlashError::from(std::io::Error::other("the power failed"))));
        }
        // The backing store may have grown when the power failed, and some regions may not know; and a start
        // that was cut off may have begun an epoch in some.
        let backing_bytes = Some(options.size_bytes());
        let epochs = flash.flashes().iter().map(|flash| flash.superblock().epoch);
        let epoch = epochs.max().map(|newest| newest + 1);
        flash.adapt(&Begin { backing_bytes, epoch, ..Begin::default() });
        if !self.devices.borrow_mut().sync_backing() {
            return Ok(Ok(None));
        }
        if !self.read_early(options, &flash)? {
            return Ok(Err(FlashError::from(std::io::Error::other("the power failed"))));
        }
        Ok(flash.take_over(&mut storage).map(|()| Some(flash)))
    }

    /// Replace a flash that failed: its note says that it must not be used again. Pages that were
    /// written back in order are there; the user gives up those that only the flash had.
    fn replace_flash(&mut self) -> Result<(), String> {
        if self.below(2) == 0 {
            self.devices.borrow_mut().operations_left = u64::MAX;
            self.devices.borrow_mut().end_outage();
            self.until_idle()?;
            self.shards.each().for_each(Shard::drain);
            self.until_idle()?;
            let dirty = self.shards.dirty_pages();
            let lost = self.shards.lost_pages();
            if dirty > 0 && !self.plan.faults.fail_requests() {
                return Err(format!("{dirty} pages are dirty after draining without a flash"));
            }
            for page in 0..PAGES {
                if dirty > 0 || lost.contains(&(page as u64)) {
                    self.oracle.give_up(page);
                } else if !self.unverified.contains(&page) {
                    let promise = self.oracle.promise(page);
                    self.oracle.flushed(page, promise);
                }
            }
        } else {
            (0..PAGES).for_each(|page| self.oracle.give_up(page));
        }
        self.asked.clear();
        self.lost.clear();
        self.was_killed = false;
        self.unverified = (0..self.plan.pages()).collect();
        self.devices.borrow_mut().crash();
        let layout = self.plan.layout();
        self.devices.borrow_mut().replace_flash(&layout);
        let options = self.plan.options.clone();
        let cache = self.new_cache();
        let mut storage = FlashStorage(Rc::clone(&self.devices));
        let (map, size_bytes) = (self.plan.map(), options.size_bytes());
        let flash = FlashSet::initialise(&mut storage, cache, layout, map, size_bytes)
            .map_err(|error| format!("a new flash: {error}"))?;
        self.open(&options, &flash)
    }

    /// Check that a start refuses a flash that became smaller, and takes one that became larger.
    fn resize_flash(&mut self) -> Result<(), String> {
        if self.below(2) == 0 {
            self.devices.borrow_mut().unused_bytes += 4096;
            return Ok(());
        }
        let (layout, map) = (self.devices.borrow().layout(), self.plan.map());
        let former_regions =
            FlashSet::bytes(&layout, &map) / map.shards() as u64 * (map.shards() as u64 - 1);
        self.devices.borrow_mut().end_outage();
        // The last region may have given room back.
        let Ok(whole) = FlashSet::read(&mut FlashStorage(Rc::clone(&self.devices))) else {
            return Ok(());
        };
        let last = whole.flashes().last().map(|flash| flash.superblock().layout);
        let bytes = former_regions + last.unwrap_or(layout).first_bytes();
        let less = 1 + self.below(bytes / 4096 - 1);
        self.devices.borrow_mut().flash_bytes = Some(bytes - less * 4096);
        let recovered = FlashSet::read(&mut FlashStorage(Rc::clone(&self.devices)));
        self.devices.borrow_mut().flash_bytes = None;
        match recovered {
            Err(_) => Ok(()),
            Ok(_) => Err(format!("a flash that is {less} blocks too small is taken")),
        }
    }

    /// Check that a start refuses a backing store of another size.
    fn refuses_other_backing(&mut self, options: &Options, flash: &FlashSet) -> Result<(), String> {
        let mut other = options.clone();
        let difference = 1 + self.below(10);
        let grows = self.below(2) == 0;
        other.backing_pages =
            if grows { other.backing_pages + difference } else { other.backing_pages - difference };
        let each = other.of_shards(self.plan.map()).map_err(|error| error.to_string())?;
        let mut each = each.iter().zip(flash.flashes());
        match each.try_for_each(|(options, flash)| Shard::check_open(options, flash)) {
            Err(_) => Ok(()),
            Ok(()) => Err(format!("a backing store of {} pages is taken", other.backing_pages)),
        }
    }

    /// Return `true` if the faults of the plan explain that a request fails.
    pub(crate) fn may_fail(&self, error: RequestError) -> bool {
        let faults = &self.plan.faults;
        match error {
            RequestError::Io => faults.fail_requests(),
            RequestError::Lost => {
                let is_clean = self.is_clean && !self.unverified.is_empty();
                (faults.lose_pages() || self.plan.loses_flash) && !is_clean
            }
            RequestError::ReadOnly | _ => false,
        }
    }
}
