//! Crashes of a recovery after each of its operations, one after the other.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use thermocline_core::random::SplitMix64;
use thermocline_engine::{FlashError, FlashSet, Shard};

use crate::devices::{Devices, FlashStorage};
use crate::exchange::Exchange;
use crate::plan::{PAGES, Plan};
use crate::set::Shards;
use crate::world::World;

/// Ends of the engine per run whose recoveries are cut off everywhere.
const ENDS: u32 = 2;
/// Number of draws per cut: power failures differ in what they leave.
const DRAWS: u64 = 3;
/// Maximum number of steps within which reads of all pages end.
const STEPS_MAX: u32 = 20_000;

/// Runs a plan whose recoveries crash after every operation. Returns the number of crashes.
pub(crate) fn run(plan: Plan) -> Result<u64, String> {
    let mut world = World::new(plan);
    let mut crashes = 0;
    for _ in 0..ENDS {
        world.live_until_power_fails()?;
        for is_killed in [false, true] {
            // Pages that were not read since the last restart are as the devices had them before it.
            if !is_killed || world.unverified.is_empty() {
                crashes += world.cut_off_recovery_everywhere(is_killed)?;
            }
        }
        world.crash()?;
    }
    Ok(crashes + world.crashes)
}

impl World {
    /// Ends the engine in a copy of the world, and crashes the recovery of that at each of its
    /// operations. Returns the number of crashes.
    fn cut_off_recovery_everywhere(&mut self, is_killed: bool) -> Result<u64, String> {
        let mut ended = self.devices.borrow().clone();
        if is_killed {
            ended.kill();
        } else {
            ended.crash();
        }
        let (whole, recovered) = recover(ended.clone(), u64::MAX);
        recovered.map_err(|error| format!("recovery: {error}"))?;
        let operations = whole.recovery_operations - ended.recovery_operations;
        for operation in 1..=operations {
            for draw in 0..DRAWS {
                let mut devices = ended.clone();
                devices.random = SplitMix64::new(self.plan.seed << 16 | operation << 2 | draw);
                let (mut devices, recovered) = recover(devices, operation);
                if recovered.is_ok() {
                    return Err(format!("operation {operation} of {operations} was not missed"));
                }
                // The machine may live on, too.
                let is_killed = is_killed && draw == 0;
                if is_killed {
                    devices.kill();
                } else {
                    devices.crash();
                }
                let (mut devices, recovered) = recover(devices, u64::MAX);
                let place = format!("after operation {operation} of {operations}, draw {draw}");
                let flash = recovered.map_err(|error| format!("{error} {place}"))?;
                devices.sync_backing();
                self.copy(devices, &flash, is_killed)?
                    .verify()
                    .map_err(|fault| format!("{fault} {place}"))?;
            }
        }
        Ok(operations * DRAWS)
    }

    /// Return the world after a restart on a copy of the devices.
    fn copy(&self, devices: Devices, flash: &FlashSet, was_killed: bool) -> Result<Self, String> {
        let shards = Shards::open(self.plan.first_bytes(), &self.plan.options, flash, Shard::open);
        let shards = shards.map_err(|error| error.to_string())?;
        Ok(Self {
            plan: self.plan.clone(),
            random: self.random.clone(),
            devices: Rc::new(RefCell::new(devices)),
            oracle: self.oracle.clone(),
            shards,
            asked: BTreeMap::new(),
            next_tag: self.next_tag,
            now: self.now,
            unverified: (0..PAGES).collect(),
            lost: BTreeSet::new(),
            was_killed,
            is_clean: false,
            is_early: false,
            crashes: 0,
            caches: 0,
            exchange: Exchange::Idle,
            ranging: None,
            evicted: self.evicted.clone(),
            owner: self.owner,
        })
    }

    /// Reads every page once.
    fn verify(&mut self) -> Result<(), String> {
        let mut steps = 0;
        while !self.unverified.is_empty() {
            steps += 1;
            if steps > STEPS_MAX {
                return Err(format!("stuck: {:?}", self.shards));
            }
            self.submit_any();
            self.start_operations();
            self.complete_one();
            self.take_replies()?;
        }
        Ok(())
    }
}

/// Recovers from the flash, unless the power fails at an operation before that.
fn recover(mut devices: Devices, operations: u64) -> (Devices, Result<FlashSet, FlashError>) {
    devices.operations_left = operations;
    let devices = Rc::new(RefCell::new(devices));
    let mut storage = FlashStorage(Rc::clone(&devices));
    let recovered = FlashSet::read(&mut storage).and_then(|mut flash| {
        flash.take_over(&mut storage)?;
        Ok(flash)
    });
    drop(storage);
    let mut devices = Rc::into_inner(devices).expect("recovery is over").into_inner();
    devices.operations_left = u64::MAX;
    if recovered.is_ok() {
        devices.recovered();
    }
    (devices, recovered)
}
