//! Shares of RAM and flash in the shards of a volume.
//!
//! Each thread keeps the live curves of its shard: they see the shard's accesses, and their sizes are the shard's part
//! of the volume's. It reports them, with the sizes that the shard has, and gives the shard the RAM that the first
//! thread wants it to have. Flash changes as with another configuration
//! ([`flash_growth`](super::flash_growth)).

use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result};
use thermocline_core::Tier;
use thermocline_engine::shadow::{ShadowOptions, Shadows};
use thermocline_engine::{Options, Shard};
use tracing::error;

use super::Service;
use super::config::{Config, Resource, Volumes};
use super::control::Control;
use super::instruments::Instruments;
use super::volume::{Seat, Volume};
use crate::bytes::Bytes;

/// Reports of the shards of a volume, and the RAM that they are to have.
#[derive(Debug)]
pub(super) struct ShardShares {
    /// Pages of the whole volume for which there are curves, per resource; none if its share does not move.
    sizes: [Vec<u32>; 2],
    /// Share of the pages that curves see.
    sample: f64,
    shards: Vec<Mutex<Place>>,
}

#[derive(Debug, Default)]
struct Place {
    report: Option<Report>,
    wanted_ram_pages: Option<u32>,
}

/// State of a shard.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub(super) ram_pages: u32,
    pub(super) flash_pages: u32,
    /// Pages that have memory and are in no share any more.
    pub(super) surplus_pages: usize,
    /// RAM with which the policy cannot be built.
    pub(super) refused_ram_pages: Option<u32>,
    pub(super) has_flash: bool,
    pub(super) is_flash_in_use: bool,
    pub(super) curves: [CurveReport; 2],
}

/// Live curve of a shard.
#[derive(Clone, Debug, Default)]
pub(super) struct CurveReport {
    /// Number of curves that have begun.
    pub(super) begun: u64,
    /// `true` if the shard had pages when the newest one began, unlike the curve.
    pub(super) began_warm: bool,
    pub(super) accesses: u64,
    /// I/O time with each size, in milliseconds.
    pub(super) needed_ms: Vec<f64>,
    /// I/O time to give up a page, in milliseconds.
    pub(super) release_ms: f64,
}

/// State of one shard that only its thread needs.
#[derive(Debug, Default)]
pub(super) struct ShardSharing {
    /// Per resource: the text of what the curve depends on.
    keys: [String; 2],
    curves: [CurveReport; 2],
    /// Frames beside those of RAM.
    other_frames: Option<usize>,
    refused_ram_pages: Option<u32>,
    /// Share of the flash of which the shard has the endurance.
    endurance_of: Option<Bytes>,
}

impl Resource {
    const fn tier(self) -> Tier {
        match self {
            Self::Ram => Tier::RAM,
            Self::Flash => Tier::FLASH,
        }
    }

    /// Return the pages of RAM and flash of a shard that has so many of this one.
    pub(super) const fn sizes(self, options: &Options, pages: u32) -> [u32; 2] {
        match self {
            Self::Ram => [pages, options.flash_pages],
            Self::Flash => [options.ram_pages, pages],
        }
    }
}

impl ShardShares {
    /// Create the state of a volume that so many threads serve.
    ///
    /// # Errors
    /// As [`Volumes::moving_shares`].
    pub(super) fn new(configs: &Volumes, config: &Config, threads: usize) -> Result<Self> {
        let mut sizes = [vec![], vec![]];
        for (resource, sizes) in Resource::ALL.into_iter().zip(&mut sizes) {
            *sizes = configs.share_sizes(resource, config)?;
        }
        Ok(Self {
            sizes,
            sample: config.shadow_sample,
            shards: (0..threads).map(|_| Mutex::default()).collect(),
        })
    }

    /// Return the reports of all shards; `None` until each has reported.
    pub(super) fn reports(&self) -> Option<Vec<Report>> {
        self.shards.iter().map(|place| lock(place).report.clone()).collect()
    }

    /// Return the part of a share that each shard has.
    pub(super) fn part(&self, pages: u32) -> u32 {
        let shards = u32::try_from(self.shards.len()).unwrap_or(u32::MAX);
        pages / shards
    }

    /// Have each shard take another number of pages in RAM. Returns `true` if one of them was to have another number
    /// before.
    pub(super) fn want_ram_pages(&self, pages: u32) -> bool {
        let wanted =
            |place: &Mutex<Place>| lock(place).wanted_ram_pages.replace(pages) != Some(pages);
        self.shards.iter().fold(false, |is_other, place| is_other | wanted(place))
    }

    /// Forget the report of a shard that is about to change, so that after the change nobody finds an older one.
    pub(super) fn forget_report(&self, shard: usize) {
        lock(&self.shards[shard]).report = None;
    }

    fn moves(&self) -> bool {
        self.sizes.iter().any(|sizes| !sizes.is_empty())
    }
}

fn lock(place: &Mutex<Place>) -> MutexGuard<'_, Place> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seat {
    /// Take over the share of RAM that the shard is to have, and report how it is.
    pub(super) fn share(&mut self, service: &mut Service, number: usize, control: &Control) {
        let shares = &self.volume.shares;
        if !shares.moves() {
            return;
        }
        let shard = service.inner_mut().engine_mut().shard_mut();
        let place = &shares.shards[number];
        let sharing = &mut self.sharing;
        if let Some(wanted) = lock(place).wanted_ram_pages
            && wanted != shard.options().ram_pages
            && sharing.refused_ram_pages != Some(wanted)
        {
            let taken = shard.set_ram_pages(wanted);
            sharing.refused_ram_pages = taken.is_err().then_some(wanted);
            if let Err(error) = taken {
                error!(%error, "cannot change the volume's share of RAM");
            }
        }
        sharing.take_endurance(&self.volume, shard, &self.instruments, control);
        for resource in Resource::ALL {
            sharing.watch(resource, shares, shard, &self.instruments);
        }
        lock(place).report = Some(sharing.report(shard));
    }
}

impl ShardSharing {
    /// Look at the live curve of a resource with these sizes, or begin another one if what it depends on changed.
    fn watch(
        &mut self,
        resource: Resource,
        shares: &ShardShares,
        shard: &Shard,
        instruments: &Instruments,
    ) {
        let sizes = &shares.sizes[resource as usize];
        if sizes.is_empty() {
            return;
        }
        let (known, curve) =
            (&mut self.keys[resource as usize], &mut self.curves[resource as usize]);
        let key = key(resource, shard.options());
        if key != *known {
            let sizes = sizes.iter().map(|&pages| shares.part(pages));
            let begun = begin_curve(resource, shard.options(), shares.sample, sizes);
            let begun = begun.inspect_err(|error| {
                error!(
                    error = format!("{error:#}"),
                    "there is no curve of the volume: its share stays"
                );
            });
            instruments.set_curve(resource, begun.ok());
            // Shadows begin empty. The shard is not, unless it is new.
            let began_warm = !known.is_empty() || shard.live_slots() > 0;
            *curve = CurveReport { begun: curve.begun + 1, began_warm, ..CurveReport::default() };
            *known = key;
        }
        curve.release_ms = shard.release_ms(resource.tier());
        if let Some((accesses, needed_ms)) = instruments.curve_ms(resource) {
            (curve.accesses, curve.needed_ms) = (accesses, needed_ms);
        }
    }

    /// Give the shard its part of the common endurance that the volume's share of the flash is.
    fn take_endurance(
        &mut self,
        volume: &Volume,
        shard: &mut Shard,
        instruments: &Instruments,
        control: &Control,
    ) {
        let bytes = volume.growth.flash.share();
        if !volume.flash_moves || self.endurance_of == Some(bytes) {
            return;
        }
        let Some(config) = control.config_of(&volume.name) else { return };
        self.endurance_of = Some(bytes);
        let config = volume.with_present_share(&config);
        shard.set_flash_write_budget(config.shard_write_budget());
        if let Ok(rating) = config.flash_rated_written_bytes() {
            instruments.set_flash_rating(rating);
        }
    }

    fn report(&mut self, shard: &Shard) -> Report {
        let options = shard.options();
        let (memory, ram) = (shard.memory_pages(), options.ram_pages as usize);
        let others = *self.other_frames.get_or_insert(memory.saturating_sub(ram));
        Report {
            ram_pages: options.ram_pages,
            flash_pages: options.flash_pages,
            surplus_pages: memory.saturating_sub(others + ram),
            refused_ram_pages: self.refused_ram_pages,
            has_flash: shard.has_flash(),
            is_flash_in_use: shard.is_flash_in_use(),
            curves: self.curves.clone(),
        }
    }
}

/// Return a text that differs for shards with different curves.
fn key(resource: Resource, options: &Options) -> String {
    let policy = &options.policy;
    let values: Vec<String> =
        policy.values.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let (sizes, pages) = (resource.sizes(options, 0), options.backing_pages);
    format!("{} {values:?} {:?} {sizes:?} {pages}", policy.entry.name, policy.write_miss)
}

/// Begin the live curve of a shard: its policy with each size of the resource.
fn begin_curve(
    resource: Resource,
    options: &Options,
    sample: f64,
    sizes: impl Iterator<Item = u32>,
) -> Result<Shadows> {
    let policy = &options.policy;
    let costs = policy.costs.as_slice().try_into().context("three tiers have a cost")?;
    let shadow =
        |pages: u32| ShadowOptions::new(pages.to_string(), policy, resource.sizes(options, pages));
    Ok(Shadows::new(sizes.map(shadow).collect(), options.backing_pages, sample, costs)?)
}
