//! RAM and flash that move between volumes: their live curves, and what follows from these.
//!
//! The first thread asks from time to time which shares would have needed least I/O time
//! ([`thermocline_engine::shares`]). A volume that loses some gives it up first; then the others grow, so that all
//! together never have more than there is. Others get RAM when the system has the memory back, and flash when the
//! volume that gives it up is done with that.
//!
//! If both move, a curve of one is that at the present share of the other, and begins again when that changes.
//! Only one of them moves at a time. Both add up the same I/O time, and each move has to save a part of that, so
//! they cannot undo each other's moves in turn while the load stays.

use anyhow::{Context as _, Result};
use thermocline_core::Tier;
use thermocline_engine::shadow::{ShadowOptions, Shadows};
use thermocline_engine::shares::{Curve, Moved, Shares};
use thermocline_engine::{Options, Shard};
use thermocline_nbd::server::Exports;
use tracing::{error, info};

use super::Service;
use super::config::{Resource, Volumes};
use super::control::Control;
use super::departure::Stage;
use super::flash_growth::WantedFlash;
use super::sharing_status::{MoveStatus, ShareStatus};
use super::volume::Seat;
use crate::bytes::Bytes;

/// Moves that are shown.
const MOVES_SHOWN: usize = 16;

/// The shares of a resource that move.
pub(super) struct Sharing {
    pub(super) resource: Resource,
    shares: Shares,
    sharers: Vec<Sharer>,
    /// Bytes that they have together.
    pub(super) total: Bytes,
    page_bytes: u64,
    looked_at: u64,
    /// `true` if each volume has the share that it is to have.
    pub(super) is_settled: bool,
    /// `true` if the flash failed, so that no share of it can change.
    is_lost: bool,
}

/// A volume whose share moves.
struct Sharer {
    name: String,
    sample: f64,
    /// The policy for which the curve was begun.
    key: String,
    accesses: u64,
    curve: Curve,
    /// Frames of its shard beside those of RAM.
    other_frames: Option<usize>,
    /// Pages that the volume was told to have, until it has them.
    asked_pages: Option<u32>,
    status: ShareStatus,
}

impl Resource {
    const fn tier(self) -> Tier {
        match self {
            Self::Ram => Tier::RAM,
            Self::Flash => Tier::FLASH,
        }
    }

    /// Return the pages of RAM and flash of a volume that has so many of this one.
    const fn sizes(self, options: &Options, pages: u32) -> [u32; 2] {
        match self {
            Self::Ram => [pages, options.flash_pages],
            Self::Flash => [options.ram_pages, pages],
        }
    }
}

impl Sharing {
    /// Return the shares of a configuration that move.
    ///
    /// # Errors
    /// As [`Volumes::moving_shares`].
    pub(super) fn all(configs: &Volumes) -> Result<Vec<Self>> {
        let all = Resource::ALL.map(|resource| Self::new(configs, resource));
        all.into_iter().filter_map(Result::transpose).collect()
    }

    fn new(configs: &Volumes, resource: Resource) -> Result<Option<Self>> {
        let Some((shares, total)) = configs.moving_shares(resource)? else { return Ok(None) };
        let moving = configs.each().iter().filter(|config| resource.moving(config).is_some());
        let each = moving.enumerate().map(|(number, config)| {
            let sizes = shares.sizes_pages(number);
            let limit = |size: Option<&u32>| size.copied().unwrap_or(0).into();
            Sharer {
                name: config.nbd.export.clone(),
                sample: config.shadow_sample,
                key: String::new(),
                accesses: 0,
                curve: Curve { needed_ms: vec![0.0; sizes.len()], release_ms: 0.0 },
                other_frames: None,
                asked_pages: None,
                status: ShareStatus {
                    floor_pages: limit(sizes.first()),
                    ceiling_pages: limit(sizes.last()),
                    ..ShareStatus::default()
                },
            }
        });
        Ok(Some(Self {
            resource,
            sharers: each.collect(),
            shares,
            total,
            page_bytes: configs.shared().page_size.0,
            looked_at: 0,
            is_settled: false,
            is_lost: false,
        }))
    }

    /// Look at the curves, if it is time for that and allowed now, and let go what is to move.
    pub(super) fn advance(
        &mut self,
        exports: &mut Exports<Service>,
        seats: &[Seat],
        control: &Control,
        may_look: bool,
    ) {
        for number in 0..self.sharers.len() {
            self.watch(number, exports, seats);
        }
        let accesses: u64 = self.sharers.iter().map(|sharer| sharer.accesses).sum();
        // A curve that began again counts from there.
        self.looked_at = self.looked_at.min(accesses);
        let is_due = accesses >= self.looked_at + self.shares.terms().look_accesses();
        if is_due && may_look && self.is_settled && !self.is_lost {
            self.looked_at = accesses;
            let curves: Vec<_> = self.sharers.iter().map(|sharer| sharer.curve.clone()).collect();
            if let Some(moved) = self.shares.look(&curves) {
                self.tell(&moved);
            }
        }
        match self.resource {
            Resource::Ram => self.apply_ram(exports, seats),
            // Shards that take another flash have no share for a while.
            Resource::Flash if control.is_replacing() => self.is_settled = false,
            Resource::Flash => self.apply_flash(exports, seats, control),
        }
        for sharer in &self.sharers {
            if let Some(seat) = seat_of(seats, &sharer.name) {
                seat.instruments.set_sharing(self.resource, sharer.status.clone());
            }
        }
    }

    /// Take a volume's curve as it is now, or begin another one if what it depends on changed.
    fn watch(&mut self, number: usize, exports: &mut Exports<Service>, seats: &[Seat]) {
        let Self { resource, shares, sharers, .. } = self;
        let volumes = sharers.len() as u64;
        let (resource, sharer) = (*resource, &mut sharers[number]);
        let Some(seat) = seat_of(seats, &sharer.name) else { return };
        let shard = shard_of(exports, seat);
        let key = key(resource, shard.options());
        if key != sharer.key {
            let sizes = shares.sizes_pages(number);
            let curve = curve(resource, shard.options(), sharer.sample, &sizes);
            let curve = curve.inspect_err(|error| {
                error!(
                    volume = sharer.name,
                    error = format!("{error:#}"),
                    "there is no curve of the volume: its share stays"
                );
            });
            seat.instruments.set_curve(resource, curve.ok());
            // Shadows begin empty. The volume is not, unless it is new.
            let is_warm = !sharer.key.is_empty() || shard.live_slots() > 0;
            let other_pages: u32 = resource.sizes(shard.options(), 0).iter().sum();
            let pages = u64::from(other_pages) * volumes + u64::from(shares.terms().pages);
            shares.forget(number, if is_warm { pages } else { 0 });
            sharer.key = key;
        }
        sharer.curve.release_ms = shard.release_ms(resource.tier());
        if let Some((accesses, curve_ms)) = seat.instruments.curve_ms(resource) {
            (sharer.accesses, sharer.curve.needed_ms) = (accesses, curve_ms);
        }
    }

    /// Log a move with its reason, and show it.
    fn tell(&mut self, moved: &Moved) {
        let Moved { former_pages, pages, needed_ms, saved_ms, cost_ms } = moved;
        let shares = self.sharers.iter_mut().zip(former_pages.iter().zip(pages));
        for (sharer, (&former, &now)) in shares.filter(|(_, (former, now))| former != now) {
            sharer.status.moves += 1;
            let number = sharer.status.moves;
            info!(
                volume = sharer.name,
                tier = self.resource.key(),
                number,
                former_pages = former,
                pages = now,
                needed_ms,
                saved_ms,
                cost_ms,
                "a share moves between volumes: the new shares would have saved `saved_ms` of the I/O time \
                 `needed_ms` since the former shares were last as good; `cost_ms` is the time to give up and to \
                 fill what moves"
            );
            let recent = &mut sharer.status.recent;
            if recent.len() == MOVES_SHOWN {
                recent.remove(0);
            }
            recent.push(MoveStatus {
                number,
                former_pages: former.into(),
                pages: now.into(),
                needed_ms: *needed_ms,
                saved_ms: *saved_ms,
                cost_ms: *cost_ms,
            });
        }
    }

    /// Return `true` if a volume with a share is on its way out: it still has that.
    fn is_one_leaving(&self, seats: &[Seat]) -> bool {
        let leaves = |seat: &Seat| seat.stage != Stage::Staying;
        let is_sharer = |seat: &Seat| self.sharers.iter().any(|one| one.name == seat.volume.name);
        seats.iter().any(|seat| leaves(seat) && is_sharer(seat))
    }

    /// Shrink shares of RAM, and let others grow when that is done.
    fn apply_ram(&mut self, exports: &mut Exports<Service>, seats: &[Seat]) {
        let mut may_grow = !self.is_one_leaving(seats);
        self.is_settled = true;
        for grows in [false, true] {
            for (number, wanted) in self.shares.pages().into_iter().enumerate() {
                let sharer = &mut self.sharers[number];
                let Some(seat) = seat_of(seats, &sharer.name) else { continue };
                let shard = shard_of(exports, seat);
                let now = shard.options().ram_pages;
                let is_due = if grows { wanted > now && may_grow } else { wanted < now };
                if is_due && let Err(error) = shard.set_ram_pages(wanted) {
                    error!(volume = sharer.name, %error, "cannot change the volume's share of RAM");
                    self.shares.keep(number, now);
                    continue;
                }
                // Memory that is still to be given back must not be given to others.
                may_grow &= grows || sharer.surplus(shard) == 0;
                self.is_settled &= !grows || shard.options().ram_pages == wanted;
            }
        }
    }

    /// Shrink shares of the flash, and let others grow when that is done.
    fn apply_flash(&mut self, exports: &mut Exports<Service>, seats: &[Seat], control: &Control) {
        let mut may_grow = !self.is_one_leaving(seats);
        (self.is_settled, self.is_lost) = (true, false);
        for grows in [false, true] {
            for (number, wanted) in self.shares.pages().into_iter().enumerate() {
                let sharer = &mut self.sharers[number];
                let Some(seat) = seat_of(seats, &sharer.name) else { continue };
                let shard = shard_of(exports, seat);
                if !shard.has_flash() {
                    self.is_lost = true;
                    continue;
                }
                let now = shard.options().flash_pages;
                let is_busy = seat.volume.growth.flash.is_busy();
                if is_busy || shard.slots_for(now).is_err() {
                    // It changes its size, or its flash is not in use yet.
                    (may_grow, self.is_settled) = (false, false);
                    continue;
                }
                if now == wanted {
                    if sharer.asked_pages.take().is_some() {
                        take_endurance(seat, shard, control);
                    }
                    continue;
                }
                if sharer.asked_pages.take() == Some(wanted) {
                    error!(
                        volume = sharer.name,
                        pages = now,
                        "the volume keeps its share of the flash: it could not get another one"
                    );
                    self.shares.keep(number, now);
                    continue;
                }
                self.is_settled = false;
                if wanted < now || (grows && may_grow) {
                    let bytes = Bytes(u64::from(wanted) * self.page_bytes);
                    let size = WantedFlash { pages: wanted, share: bytes };
                    seat.volume.change_flash(size);
                    sharer.asked_pages = Some(wanted);
                    may_grow &= grows;
                }
            }
        }
    }
}

impl Sharer {
    /// Return the number of pages that have memory and are in no share any more.
    fn surplus(&mut self, shard: &Shard) -> usize {
        let (memory, ram) = (shard.memory_pages(), shard.options().ram_pages as usize);
        let others = *self.other_frames.get_or_insert(memory.saturating_sub(ram));
        memory.saturating_sub(others + ram)
    }
}

/// Find the seat of a volume that is not on its way out.
fn seat_of<'a>(seats: &'a [Seat], name: &str) -> Option<&'a Seat> {
    seats.iter().find(|seat| seat.volume.name == name && seat.stage == Stage::Staying)
}

fn shard_of<'a>(exports: &'a mut Exports<Service>, seat: &Seat) -> &'a mut Shard {
    exports.service_mut(seat.place).inner_mut().engine_mut().shard_mut()
}

/// Give a volume the part of the common endurance that its share of the flash is.
fn take_endurance(seat: &Seat, shard: &mut Shard, control: &Control) {
    let Some(config) = control.config_of(&seat.volume.name) else { return };
    let config = seat.volume.with_present_share(&config);
    let budget = config.flash.as_ref().and_then(|flash| flash.write_budget_gib_per_day);
    shard.set_flash_write_budget(budget);
    if let Ok(rating) = config.flash_rated_written_bytes() {
        seat.instruments.set_flash_rating(rating);
    }
}

/// Return a text that differs for volumes with different curves.
fn key(resource: Resource, options: &Options) -> String {
    let policy = &options.policy;
    let values: Vec<String> =
        policy.values.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let (sizes, pages) = (resource.sizes(options, 0), options.backing_pages);
    format!("{} {values:?} {:?} {sizes:?} {pages}", policy.entry.name, policy.write_miss)
}

/// Begin the live curve of a volume: its policy with each size of the resource.
fn curve(resource: Resource, options: &Options, sample: f64, sizes: &[u32]) -> Result<Shadows> {
    let policy = &options.policy;
    let costs = policy.costs.as_slice().try_into().context("three tiers have a cost")?;
    let shadow = |&pages: &u32| {
        ShadowOptions::new(pages.to_string(), policy, resource.sizes(options, pages))
    };
    let shadows = sizes.iter().map(shadow).collect();
    Ok(Shadows::new(shadows, options.backing_pages, sample, costs)?)
}
