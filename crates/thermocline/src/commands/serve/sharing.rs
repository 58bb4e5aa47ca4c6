//! RAM and flash that move between volumes: their live curves, and what follows from these.
//!
//! Each thread has the live curves of its shards, and reports them ([`super::shard_shares`]). The first thread adds them
//! up, and asks from time to time which shares would have needed least I/O time ([`thermocline_engine::shares`]). A volume that loses some gives it up first; then the others grow, so that all
//! together never have more than there is. Others get RAM when the system has the memory back, and flash when the
//! volume that gives it up is done with that.
//!
//! If both move, a curve of one is that at the present share of the other, and begins again when that changes.
//! Only one of them moves at a time. Both add up the same I/O time, and each move has to save a part of that, so
//! they cannot undo each other's moves in turn while the load stays.

use anyhow::Result;
use thermocline_engine::shares::{Curve, Moved, Shares};
use tracing::{error, info};

use super::Serving;
use super::config::{Resource, Volumes, WantedFlash};
use super::departure::Stage;
use super::shard_shares::Report;
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
    /// Number of curves that its shards have begun.
    begun: u64,
    accesses: u64,
    curve: Curve,
    /// Pages that the volume was told to have, until it has them.
    asked_pages: Option<u32>,
    status: ShareStatus,
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
                begun: 0,
                accesses: 0,
                curve: Curve { needed_ms: vec![0.0; sizes.len()], release_ms: 0.0 },
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
    pub(super) fn advance(&mut self, serving: &Serving<'_>, seats: &[Seat], may_look: bool) {
        for number in 0..self.sharers.len() {
            self.watch(number, seats);
        }
        let accesses: u64 = self.sharers.iter().map(|sharer| sharer.accesses).sum();
        // A curve that began again counts from there.
        self.looked_at = self.looked_at.min(accesses);
        let is_due = accesses >= self.looked_at + self.shares.terms().look_accesses();
        // A share that is on its way arrives before another move is looked for.
        if is_due && may_look && self.is_settled && !self.is_lost {
            self.looked_at = accesses;
            let curves: Vec<_> = self.sharers.iter().map(|sharer| sharer.curve.clone()).collect();
            if let Some(moved) = self.shares.look(&curves) {
                self.tell(&moved);
            }
        }
        match self.resource {
            Resource::Ram => self.apply_ram(serving, seats),
            // Shards that take another flash have no share for a while.
            Resource::Flash if serving.control.is_replacing() => self.is_settled = false,
            Resource::Flash => self.apply_flash(seats),
        }
        for sharer in &self.sharers {
            if let Some(seat) = seat_of(seats, &sharer.name) {
                seat.instruments.set_sharing(self.resource, sharer.status.clone());
            }
        }
    }

    /// Add up the curves of a volume's shards.
    fn watch(&mut self, number: usize, seats: &[Seat]) {
        let Self { resource, shares, sharers, .. } = self;
        let volumes = sharers.len() as u64;
        let (resource, sharer) = (*resource, &mut sharers[number]);
        let seat = seat_of(seats, &sharer.name);
        let Some(reports) = seat.and_then(|seat| seat.volume.shares.reports()) else { return };
        let curves = || reports.iter().map(|report| &report.curves[resource as usize]);
        let begun = curves().map(|curve| curve.begun).sum();
        if begun != sharer.begun {
            let other_pages = |report: &Report| match resource {
                Resource::Ram => u64::from(report.flash_pages),
                Resource::Flash => u64::from(report.ram_pages),
            };
            let other_pages: u64 = reports.iter().map(other_pages).sum();
            let pages = other_pages * volumes + u64::from(shares.terms().pages);
            let began_warm = curves().any(|curve| curve.began_warm);
            shares.forget(number, if began_warm { pages } else { 0 });
            sharer.begun = begun;
        }
        let release_ms: f64 = curves().map(|curve| curve.release_ms).sum();
        sharer.curve.release_ms = release_ms / reports.len() as f64;
        // A shard without a curve leaves the volume as it was when it had one.
        if curves().all(|curve| curve.needed_ms.len() == sharer.curve.needed_ms.len()) {
            sharer.accesses = curves().map(|curve| curve.accesses).sum();
            for (size, needed_ms) in sharer.curve.needed_ms.iter_mut().enumerate() {
                *needed_ms = curves().map(|curve| curve.needed_ms[size]).sum();
            }
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
    fn apply_ram(&mut self, serving: &Serving<'_>, seats: &[Seat]) {
        let mut may_grow = !self.is_one_leaving(seats);
        self.is_settled = true;
        // Those that lose something come first, so that all together never have more than there is.
        for grows in [false, true] {
            for (number, wanted) in self.shares.pages().into_iter().enumerate() {
                let Some(seat) = seat_of(seats, &self.sharers[number].name) else { continue };
                let shares = &seat.volume.shares;
                let Some(reports) = shares.reports() else {
                    (may_grow, self.is_settled) = (false, false);
                    continue;
                };
                let part = shares.part(wanted);
                if reports.iter().any(|report| report.refused_ram_pages == Some(part)) {
                    let now = reports.iter().map(|report| report.ram_pages).sum();
                    self.shares.keep(number, now);
                    continue;
                }
                let is_larger = reports.iter().any(|report| report.ram_pages > part);
                let is_smaller = reports.iter().any(|report| report.ram_pages < part);
                let is_due = if grows { is_smaller && may_grow } else { is_larger };
                if is_due && shares.want_ram_pages(part) {
                    serving.all.wake();
                }
                // Memory that is still to be given back must not be given to others.
                let has_surplus = reports.iter().any(|report| report.surplus_pages > 0);
                may_grow &= grows || !(is_larger || has_surplus);
                self.is_settled &= !(is_larger || is_smaller);
            }
        }
    }

    /// Shrink shares of the flash, and let others grow when that is done.
    fn apply_flash(&mut self, seats: &[Seat]) {
        let mut may_grow = !self.is_one_leaving(seats);
        (self.is_settled, self.is_lost) = (true, false);
        for grows in [false, true] {
            for (number, wanted) in self.shares.pages().into_iter().enumerate() {
                let sharer = &mut self.sharers[number];
                let Some(seat) = seat_of(seats, &sharer.name) else { continue };
                // Reports that are read after the end of a change are no older than that.
                let is_busy = seat.volume.growth.flash.is_busy();
                let reports = seat.volume.shares.reports().unwrap_or_default();
                if reports.iter().any(|report| !report.has_flash) {
                    self.is_lost = true;
                    continue;
                }
                let is_in_use = reports.iter().all(|report| report.is_flash_in_use);
                if is_busy || reports.is_empty() || !is_in_use {
                    // It changes its size, or its flash is not in use yet.
                    (may_grow, self.is_settled) = (false, false);
                    continue;
                }
                let part = seat.volume.shares.part(wanted);
                if reports.iter().all(|report| report.flash_pages == part) {
                    sharer.asked_pages = None;
                    continue;
                }
                if sharer.asked_pages.take() == Some(wanted) {
                    let now = reports.iter().map(|report| report.flash_pages).sum();
                    error!(
                        volume = sharer.name,
                        pages = now,
                        "the volume keeps its share of the flash: it could not get another one"
                    );
                    self.shares.keep(number, now);
                    continue;
                }
                self.is_settled = false;
                let is_larger = reports.iter().any(|report| report.flash_pages > part);
                if is_larger || (grows && may_grow) {
                    let bytes = Bytes(u64::from(wanted) * self.page_bytes);
                    let size = WantedFlash { pages: part, share: bytes };
                    seat.volume.change_flash(size);
                    sharer.asked_pages = Some(wanted);
                    // The room that this one gives up is not free yet.
                    may_grow &= grows;
                }
            }
        }
    }
}

/// Find the seat of a volume that is not on its way out.
fn seat_of<'a>(seats: &'a [Seat], name: &str) -> Option<&'a Seat> {
    seats.iter().find(|seat| seat.volume.name == name && seat.stage == Stage::Staying)
}
