//! A flash, or a volume's share of it, that gets another size while the server runs.
//!
//! 1. When the configuration is read again, the first thread sees that the policy is to have more or fewer pages
//!    of flash than it has: [`Volume::change_flash`].
//! 2. If the flash has slots enough, and its room is nobody else's, each thread lets its shard's policy have that many
//!    pages.
//! 3. With too few slots, the thread of the changes makes room first: it makes a file longer, gives the volume free
//!    space of the flash, and makes the new slots durable ([`Extension`](thermocline_engine::Extension)). Then each
//!    thread has its shard use them.
//! 4. With more slots than it needs, a volume gives room back: each shard leaves slots, and goes on serving. When all
//!    have, the thread of the changes makes durable that the regions are smaller
//!    ([`Reduction`](thermocline_engine::Reduction)), and takes the room from the volume. Then each shard forgets the
//!    slots. So does a volume that has just started, as the server may have ended on the way.
//!
//! A volume that grows waits until others have given their room back: it may need that. A size that is wanted meanwhile
//! comes after the change that is under way.
//!
//! A mirrored flash changes by the same steps on both devices. No device joins it during a change, and a change waits
//! while one does.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result, anyhow, ensure};
use thermocline_engine::{CHUNK_BYTES, Layout, Shard};
use thermocline_nbd::server::Exports;
use tracing::{error, info};

use super::Service;
use super::changes::Changes;
use super::config::{Config, Volumes, WantedFlash};
use super::control::Control;
use super::flash_room::place;
use super::shared_flash::SharedFlash;
use super::volume::{Seat, Volume};
use crate::bytes::Bytes;

/// The size of a volume's flash, for all its threads.
#[derive(Debug)]
pub(super) struct FlashGrowth {
    stage: Mutex<Stage>,
    /// Share of the flash in bytes, of the configuration that was taken over last.
    share_bytes: AtomicU64,
    /// `true` if others can have the room that it gives back.
    may_give_back: bool,
    /// `true` once it was looked whether it has room that it does not use.
    has_looked: AtomicBool,
    /// The size that is wanted after the change that is under way.
    next: Mutex<Option<WantedFlash>>,
    /// `true` while that waits for the copy of a mirrored flash to a device.
    awaits_copy: AtomicBool,
    /// Per thread: what its shard is to take over.
    news: Vec<Mutex<Option<FlashSize>>>,
}

/// Step of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing changes.
    Idle,
    /// It begins, or the thread of the changes makes slots.
    Preparing,
    /// Shards leave slots: what each of them does, for that share.
    Leaving(Vec<Leave>, Bytes),
    /// The thread of the changes takes the room.
    Reducing,
}

/// Slots that a shard leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leave {
    /// It has not left them yet.
    Pending,
    /// It keeps all.
    Kept,
    /// It goes on with that number of slots, and has left the others.
    Left(u32),
}

impl Leave {
    const fn slots(self) -> Option<u32> {
        match self {
            Self::Left(slots) => Some(slots),
            Self::Pending | Self::Kept => None,
        }
    }
}

/// Change that a shard takes over.
#[derive(Clone, Debug)]
enum FlashSize {
    /// Pages of the policy, in the slots that there are.
    Pages(u32),
    /// Pages of the policy, in slots of the layout of each shard's region.
    More(u32, Arc<Vec<Layout>>),
    /// Pages of the policy; slots that it does not need are left.
    Leave(u32),
    /// The slots that it has left are gone.
    Fewer(Arc<Vec<Layout>>),
}

impl FlashGrowth {
    /// Create the state of a volume whose flash has the size that it was opened with. If it `may_give_back`, others
    /// can have the room that it does not need.
    pub(super) fn new(share: Bytes, threads: usize, may_give_back: bool) -> Self {
        Self {
            stage: Mutex::new(Stage::Idle),
            share_bytes: AtomicU64::new(share.0),
            may_give_back,
            has_looked: AtomicBool::new(!may_give_back),
            next: Mutex::default(),
            awaits_copy: AtomicBool::new(false),
            news: (0..threads).map(|_| Mutex::default()).collect(),
        }
    }

    /// Give it a size when that can be: see [`Volume::change_flash`].
    pub(super) fn want(&self, wanted: WantedFlash) {
        *lock(&self.next) = Some(wanted);
    }

    /// Return `true` from the moment when another size is wanted until all shards have it, and room that is given
    /// back is free for others.
    pub(super) fn is_busy(&self) -> bool {
        lock(&self.next).is_some() || self.is_changing()
    }

    /// Return `true` while a change is under way.
    fn is_changing(&self) -> bool {
        let is_idle = *self.stage() == Stage::Idle;
        !is_idle || self.news.iter().any(|news| lock(news).is_some())
    }

    /// Return `true` while room is on its way back.
    fn gives_back(&self) -> bool {
        matches!(*self.stage(), Stage::Leaving(..) | Stage::Reducing)
    }

    /// Return the share of the flash.
    pub(super) fn share(&self) -> Bytes {
        Bytes(self.share_bytes.load(Ordering::SeqCst))
    }

    /// Begin the work of the thread of the changes once every shard has left its slots. Returns the slots that each
    /// goes on with, if these are fewer, and the share.
    fn begin_reduction(&self) -> Option<(Vec<Option<u32>>, Bytes)> {
        let mut stage = self.stage();
        let Stage::Leaving(left, share) = &*stage else { return None };
        let slots = left.iter().map(|leave| leave.slots());
        let begun = (left.iter().all(|leave| *leave != Leave::Pending))
            .then(|| (slots.collect(), *share))?;
        *stage = Stage::Reducing;
        Some(begun)
    }

    /// Have all threads take over a size.
    fn tell(&self, size: &FlashSize) {
        for place in &self.news {
            *lock(place) = Some(size.clone());
        }
    }

    fn set(&self, stage: Stage) {
        *self.stage() = stage;
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        lock(&self.stage)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Volume {
    /// Return the size of flash that a configuration says, if the volume has another one.
    ///
    /// # Errors
    /// If a size is invalid, or the flash cannot have that size while the server runs.
    pub(super) fn other_flash_size(
        &self,
        configs: &Volumes,
        config: &Config,
        shard: &Shard,
        changes: &Changes,
    ) -> Result<Option<WantedFlash>> {
        // A flash that failed or is being replaced has no size.
        let Some(flash) = config.flash.as_ref().filter(|_| shard.has_flash()) else {
            return Ok(None);
        };
        ensure!(
            flash.moving.is_some() == self.flash_moves,
            "a restart makes a share of the flash one that moves (\"auto\"), or one that does not"
        );
        if self.flash_moves {
            return Ok(None);
        }
        let shards = u32::from(shard.options().share.map.number().get());
        let pages = config.tier_pages()?[1] / shards;
        let pinned = config.pinned_pages()? / shards;
        let is_changing = shard.is_shrinking() || self.growth.flash.is_busy();
        let is_other = pages != shard.options().flash_pages || is_changing;
        if !is_other || pinned != shard.options().pinned_pages {
            return Ok(None);
        }
        changes.check_flash_shares(configs)?;
        Ok(Some(WantedFlash { pages, share: flash.size }))
    }

    /// Give the volume a size of flash when that can be: it grows once no other volume is about to give room back, or
    /// gives back room that it does not need. The last size that was wanted counts. [`FlashGrowth::is_busy`] says
    /// `false` when the change has ended, either way; [`FlashGrowth::share`] is the share then, and the log says why
    /// it is not the wanted one.
    pub(super) fn change_flash(&self, wanted: WantedFlash) {
        self.growth.flash.want(wanted);
    }

    /// Return `true` if the volume gives room back, or is about to. One that has just started may be.
    pub(super) fn gives_room_back(&self, shard: &Shard) -> bool {
        let state = &self.growth.flash;
        let next = *lock(&state.next);
        let may_have_room = shard.has_flash() && !state.has_looked.load(Ordering::SeqCst);
        may_have_room
            || state.gives_back()
            || next.is_some_and(|next| next.pages < shard.options().flash_pages)
    }

    /// Take the next step of a change of the flash's size; `shard` is that of the first thread, and
    /// `others_give_back` says whether other volumes give room back. A volume that has just started gives back what
    /// it does not use.
    ///
    /// # Errors
    /// If the flash cannot have its size. It keeps the one that it has.
    pub(super) fn advance_flash(
        self: &Arc<Self>,
        shard: &Shard,
        others_give_back: bool,
        control: &Control,
        changes: &mut Changes,
    ) -> Result<()> {
        let state = &self.growth.flash;
        if let Some((left, share)) = state.begin_reduction() {
            let begun = changes.reduce(self, left, share);
            return begun.inspect_err(|_| state.set(Stage::Idle));
        }
        if state.is_changing() {
            return Ok(());
        }
        if !shard.has_flash() {
            // Another flash has the size of the configuration.
            *lock(&state.next) = None;
            return Ok(());
        }
        // The note begins the epoch before the shards do.
        let has_begun =
            || !shard.awaits_epoch() && self.note.as_ref().is_some_and(|note| note.has_begun());
        if !state.has_looked.load(Ordering::SeqCst) && has_begun() {
            state.has_looked.store(true, Ordering::SeqCst);
            changes.look(self);
            let pages = shard.options().flash_pages;
            if gives_room_back(shard, pages)? {
                lock(&state.next).get_or_insert(WantedFlash { pages, share: state.share() });
            }
        }
        let may_begin =
            |next: &mut WantedFlash| next.pages <= shard.options().flash_pages || !others_give_back;
        let Some(wanted) = lock(&state.next).take_if(may_begin) else { return Ok(()) };
        // Each of the two says that it begins before it looks for the other.
        state.set(Stage::Preparing);
        if control.is_copying() {
            // A device that joins gets what the flash had when the copy began, and has room for that.
            lock(&state.next).get_or_insert(wanted);
            state.set(Stage::Idle);
            if !state.awaits_copy.swap(true, Ordering::SeqCst) {
                info!("the flash gets its other size after the copy for its new device");
            }
            return Ok(());
        }
        state.awaits_copy.store(false, Ordering::SeqCst);
        let begun = self.try_change(wanted, shard, control, changes);
        begun.inspect_err(|_| state.set(Stage::Idle))
    }

    fn try_change(
        self: &Arc<Self>,
        wanted: WantedFlash,
        shard: &Shard,
        control: &Control,
        changes: &mut Changes,
    ) -> Result<()> {
        let state = &self.growth.flash;
        let WantedFlash { pages, share } = wanted;
        if control.is_replacing() {
            return Err(anyhow!(
                "the flash is being replaced: read the configuration again after that"
            ));
        }
        if shard.is_shrinking() {
            // The flash failed to take the smaller layout; the shards still leave their slots.
            state.set(Stage::Leaving(vec![Leave::Pending; state.news.len()], share));
            return Ok(());
        }
        if let Some(slots) = shard.slots_for(pages)? {
            return changes.extend(self, slots, wanted);
        }
        if state.may_give_back {
            state.set(Stage::Leaving(vec![Leave::Pending; state.news.len()], share));
            state.tell(&FlashSize::Leave(pages));
        } else {
            state.share_bytes.store(share.0, Ordering::SeqCst);
            state.tell(&FlashSize::Pages(pages));
            state.set(Stage::Idle);
        }
        Ok(())
    }

    /// Make new slots durable, and have the shards use them. This may take long.
    ///
    /// # Errors
    /// If there is no room, or the flash fails. The flash keeps its size.
    pub(super) fn extend_flash(
        &self,
        all: &SharedFlash,
        slots: RangeInclusive<u32>,
        WantedFlash { pages, share }: WantedFlash,
    ) -> Result<()> {
        let state = &self.growth.flash;
        let made = self.try_extension(all, slots).map(|layouts| {
            state.share_bytes.store(share.0, Ordering::SeqCst);
            // The slots are durable: from here on shards may write to them.
            state.tell(&FlashSize::More(pages, Arc::new(layouts)));
        });
        // After the shards were told, so that the volume is busy without a gap until they have it.
        state.set(Stage::Idle);
        made
    }

    fn try_extension(&self, all: &SharedFlash, slots: RangeInclusive<u32>) -> Result<Vec<Layout>> {
        let note = self.note.as_ref().context("there is no flash")?;
        note.extend_flash(slots, |flash, extension| {
            place(all, (!self.name.is_empty()).then_some(&*self.name), flash, extension)
        })
    }

    /// Let others have room that the regions do not use: the server may have ended before it was free.
    ///
    /// # Errors
    /// If the flash fails.
    pub(super) fn give_back_unused(&self, all: &SharedFlash) -> Result<()> {
        let Some(note) = &self.note else { return Ok(()) };
        let left = vec![None; self.growth.flash.news.len()];
        let reduced = note.reduce_flash(
            &left,
            |reduction| all.leaves_room(&self.name, reduction),
            |reduced| all.give_back(&self.name, reduced),
        );
        reduced.map(drop)
    }

    /// Make durable that the regions have only the slots that their shards keep, and let others have the room. Then
    /// have the shards forget the slots.
    ///
    /// # Errors
    /// If the flash fails. The shards use their slots no more, but nobody else has the room.
    pub(super) fn reduce_flash(
        &self,
        all: &SharedFlash,
        left: &[Option<u32>],
        share: Bytes,
    ) -> Result<()> {
        let state = &self.growth.flash;
        let made = self.note.as_ref().context("there is no flash").and_then(|note| {
            note.reduce_flash(
                left,
                |reduction| all.leaves_room(&self.name, reduction),
                |reduced| all.give_back(&self.name, reduced),
            )
        });
        let made = made.map(|layouts| {
            state.share_bytes.store(share.0, Ordering::SeqCst);
            if let Some(layouts) = layouts {
                state.tell(&FlashSize::Fewer(Arc::new(layouts)));
            }
        });
        state.set(Stage::Idle);
        made
    }
}

impl Seat {
    /// Have this thread's shard take over another size of the flash.
    pub(super) fn resize_flash(&self, exports: &mut Exports<Service>, thread: usize) {
        let state = &self.volume.growth.flash;
        let shard = exports.service_mut(self.place).inner_mut().engine_mut().shard_mut();
        if shard.awaits_epoch() {
            // A shard that cannot write yet would refuse the change, which others make already.
            return;
        }
        // Others see that it is taken when it is done.
        let mut news = lock(&state.news[thread]);
        if let Some(size) = &*news {
            self.volume.shares.forget_report(thread);
            let former_pages = shard.options().flash_pages;
            let taken = take_size(shard, size, thread);
            let pages = shard.options().flash_pages;
            match taken {
                Ok(()) if thread == 0 && pages != former_pages => {
                    info!(former_pages, pages, "the flash has another size: pages of each shard");
                }
                Ok(()) => {}
                Err(error) => {
                    let error = format!("{error:#}");
                    error!(error, "the policy keeps its pages of the flash");
                }
            }
        }
        *news = None;
        drop(news);
        if let Stage::Leaving(left, _) = &mut *state.stage()
            && left[thread] == Leave::Pending
        {
            left[thread] = left_slots(shard);
        }
    }
}

/// Have a shard take over a size.
fn take_size(shard: &mut Shard, size: &FlashSize, thread: usize) -> Result<()> {
    match size {
        FlashSize::Pages(pages) => shard.set_flash_pages(*pages)?,
        FlashSize::More(pages, layouts) => {
            let layout = layouts.get(thread).context("each shard has a region")?;
            shard.grow_flash(*pages, layout)?;
        }
        FlashSize::Leave(pages) => match gives_room_back(shard, *pages)? {
            true => shard.leave_slots(*pages)?,
            false if *pages == shard.options().flash_pages => {}
            false => shard.set_flash_pages(*pages)?,
        },
        FlashSize::Fewer(layouts) if shard.is_shrinking() => {
            shard.give_up_slots(layouts.get(thread).context("each shard has a region")?);
        }
        FlashSize::Fewer(_) => {}
    }
    Ok(())
}

/// Return `true` if a shard that keeps that many pages needs fewer chunks of the flash.
fn gives_room_back(shard: &Shard, pages: u32) -> Result<bool> {
    let layout = shard.layout();
    let fewer = shard.fewer_slots_for(pages)?;
    Ok(fewer.is_some_and(|slots| {
        layout.with_first(slots).room_bytes(CHUNK_BYTES) < layout.room_bytes(CHUNK_BYTES)
    }))
}

/// Return how far a shard has left its slots.
fn left_slots(shard: &mut Shard) -> Leave {
    if shard.cannot_leave_slots() {
        error!(
            "a page is lost whose room would be given back, and the room stays with the volume: write the page, as \
             from a backup, and read the configuration again"
        );
        shard.keep_slots();
    }
    if shard.is_shrinking() {
        shard.has_left_slots().map_or(Leave::Pending, Leave::Left)
    } else {
        Leave::Kept
    }
}
