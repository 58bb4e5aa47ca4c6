//! RAM that moves between volumes: their live curves, and what follows from these.
//!
//! The first thread asks from time to time which shares would have needed least I/O time
//! ([`thermocline_engine::shares`]). A volume that loses RAM gives it up first; the others grow when the
//! system has the memory back, so that all together never have more than `ram.size`.

use anyhow::{Context as _, Result};
use thermocline_engine::shadow::{ShadowOptions, Shadows};
use thermocline_engine::shares::{Moved, Shares};
use thermocline_engine::{Options, Shard};
use thermocline_nbd::server::Exports;
use tracing::{error, info};

use super::Service;
use super::config::Volumes;
use super::departure::Stage;
use super::status::{MoveStatus, SharingStatus};
use super::volume::Seat;
use crate::bytes::Bytes;

/// Moves that are shown.
const MOVES_SHOWN: usize = 16;
/// Accesses between two looks: this many per page of RAM, and at least so many.
const ACCESSES_PER_PAGE: u64 = 4;
const ACCESSES_MIN: u64 = 10_000;

/// The shares that move.
pub(super) struct Sharing {
    shares: Shares,
    sharers: Vec<Sharer>,
    /// Bytes that they have together.
    pub(super) total: Bytes,
    look_accesses: u64,
    looked_at: u64,
}

/// A volume whose share moves.
struct Sharer {
    name: String,
    sample: f64,
    /// The policy for which the curve was begun.
    key: String,
    accesses: u64,
    curve_ms: Vec<f64>,
    /// Frames of its shard beside those of RAM.
    other_frames: Option<usize>,
    status: SharingStatus,
}

impl Sharing {
    /// Return the shares of a configuration that move, if any do.
    ///
    /// # Errors
    /// As [`Volumes::moving_shares`].
    pub(super) fn new(configs: &Volumes) -> Result<Option<Self>> {
        let Some((shares, total)) = configs.moving_shares()? else { return Ok(None) };
        let moving = configs.each().iter().filter(|config| config.ram.moving.is_some());
        let each = moving.enumerate().map(|(number, config)| {
            let sizes = shares.sizes_pages(number);
            let limit = |size: Option<&u32>| size.copied().unwrap_or(0).into();
            Sharer {
                name: config.nbd.export.clone(),
                sample: config.shadow_sample,
                key: String::new(),
                accesses: 0,
                curve_ms: vec![0.0; sizes.len()],
                other_frames: None,
                status: SharingStatus {
                    floor_pages: limit(sizes.first()),
                    ceiling_pages: limit(sizes.last()),
                    ..SharingStatus::default()
                },
            }
        });
        let pages = total.0 / configs.shared().page_size.0;
        let look_accesses = (pages * ACCESSES_PER_PAGE).max(ACCESSES_MIN);
        Ok(Some(Self { sharers: each.collect(), shares, total, look_accesses, looked_at: 0 }))
    }

    /// Look at the curves, if it is time for that, and let RAM go where it is to be.
    pub(super) fn advance(&mut self, exports: &mut Exports<Service>, seats: &[Seat]) {
        for (number, sharer) in self.sharers.iter_mut().enumerate() {
            let Some(seat) = seat_of(seats, &sharer.name) else { continue };
            let shard = exports.service_mut(seat.place).inner_mut().engine_mut().shard_mut();
            sharer.watch(seat, shard, &self.shares.sizes_pages(number));
        }
        let accesses: u64 = self.sharers.iter().map(|sharer| sharer.accesses).sum();
        // A curve that began again counts from there.
        self.looked_at = self.looked_at.min(accesses);
        if accesses >= self.looked_at + self.look_accesses {
            self.looked_at = accesses;
            let curves: Vec<Vec<f64>> =
                self.sharers.iter().map(|sharer| sharer.curve_ms.clone()).collect();
            if let Some(moved) = self.shares.look(&curves) {
                self.tell(&moved);
            }
        }
        self.apply(exports, seats);
    }

    /// Log a move with its reason, and show it.
    fn tell(&mut self, moved: &Moved) {
        let Moved { former_pages, pages, needed_ms, saved_ms, cost_ms } = moved;
        let shares = self.sharers.iter_mut().zip(former_pages.iter().zip(pages));
        for (sharer, (&former, &now)) in shares.filter(|(_, (former, now))| former != now) {
            sharer.status.moves += 1;
            let number = sharer.status.moves;
            let name = &sharer.name;
            info!(
                volume = name,
                number,
                former_pages = former,
                pages = now,
                needed_ms,
                saved_ms,
                cost_ms,
                "RAM moves between volumes: these shares would have saved so much of the I/O time lately, and \
                 so much is the cost to fill what moves"
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

    /// Shrink shares, and let others grow when that is done.
    fn apply(&mut self, exports: &mut Exports<Service>, seats: &[Seat]) {
        let mut surplus = 0;
        for may_grow in [false, true] {
            for (sharer, pages) in self.sharers.iter_mut().zip(self.shares.pages()) {
                let Some(seat) = seat_of(seats, &sharer.name) else { continue };
                let shard = exports.service_mut(seat.place).inner_mut().engine_mut().shard_mut();
                let now = shard.options().ram_pages;
                // Memory that is still to be given back must not be given to others.
                let is_due = if may_grow { pages > now && surplus == 0 } else { pages < now };
                if is_due && let Err(error) = shard.set_ram_pages(pages) {
                    error!(volume = sharer.name, %error, "cannot change the volume's share of RAM");
                }
                if !may_grow {
                    surplus += sharer.surplus(shard);
                }
                seat.instruments.set_sharing(sharer.status.clone());
            }
        }
    }
}

impl Sharer {
    /// Take the volume's curve as it is now, or begin another one if its policy changed.
    fn watch(&mut self, seat: &Seat, shard: &Shard, sizes: &[u32]) {
        let key = key(shard.options());
        if key != self.key {
            let curve = curve(shard.options(), self.sample, sizes);
            let curve = curve.inspect_err(|error| {
                error!(
                    volume = self.name,
                    error = format!("{error:#}"),
                    "there is no curve of the volume: its share stays"
                );
            });
            seat.instruments.set_curve(curve.ok());
            self.key = key;
        }
        if let Some((accesses, curve_ms)) = seat.instruments.curve_ms() {
            (self.accesses, self.curve_ms) = (accesses, curve_ms);
        }
    }

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

/// Return a text that differs for policies with different curves.
fn key(options: &Options) -> String {
    let policy = &options.policy;
    let values: Vec<String> =
        policy.values.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("{} {values:?} {:?} {}", policy.entry.name, policy.write_miss, options.flash_pages)
}

/// Begin the live curve of a volume: its policy with each size of RAM.
fn curve(options: &Options, sample: f64, sizes: &[u32]) -> Result<Shadows> {
    let policy = &options.policy;
    let costs = policy.costs.as_slice().try_into().context("three tiers have a cost")?;
    let shadow = |&ram_pages: &u32| ShadowOptions {
        label: ram_pages.to_string(),
        entry: policy.entry.clone(),
        values: policy.values.clone(),
        write_miss: policy.write_miss,
        ram_pages,
        flash_pages: options.flash_pages,
    };
    let shadows = sizes.iter().map(shadow).collect();
    Ok(Shadows::new(shadows, options.backing_pages, sample, costs)?)
}
