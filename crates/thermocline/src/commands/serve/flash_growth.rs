//! A flash, or a volume's share of it, that gets another size while the server runs.
//!
//! 1. When the configuration is read again, the first thread sees that the policy is to have more or fewer pages
//!    of flash than it has.
//! 2. If the flash has slots enough, each thread lets its shard's policy have that many pages.
//! 3. Otherwise the thread of the changes makes room first: it makes a file longer, gives the volume free space of
//!    the flash, and makes the new slots durable ([`Extension`](thermocline_engine::Extension)). Then each thread has its shard use them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, anyhow, ensure};
use thermocline_engine::{Layout, Shard};
use thermocline_nbd::server::Exports;
use tracing::{error, info};

use super::Service;
use super::changes::Changes;
use super::config::{Config, Volumes};
use super::control::Control;
use super::flash_room::place;
use super::shared_flash::SharedFlash;
use super::volume::{Seat, Volume};
use crate::bytes::Bytes;

/// The size of a volume's flash, for all its threads.
#[derive(Debug)]
pub(super) struct FlashGrowth {
    /// `true` from the moment when a need for slots was seen until they are durable, or were given up.
    is_preparing: AtomicBool,
    /// Share of the flash in bytes, of the configuration that was taken over last.
    share_bytes: AtomicU64,
    /// Per thread: a size that its shard is to take over.
    news: Vec<Mutex<Option<FlashSize>>>,
}

/// A size that a shard takes over.
#[derive(Clone, Debug)]
struct FlashSize {
    /// Pages that the policy of a shard keeps on flash.
    pages: u32,
    /// The layout of each shard's region, if that has changed.
    layouts: Option<Arc<Vec<Layout>>>,
}

impl FlashGrowth {
    /// Create the state of a volume whose flash has the size that it was opened with.
    pub(super) fn new(share: Bytes, threads: usize) -> Self {
        Self {
            is_preparing: AtomicBool::new(false),
            share_bytes: AtomicU64::new(share.0),
            news: (0..threads).map(|_| Mutex::default()).collect(),
        }
    }

    /// Return `true` while new slots are made.
    pub(super) fn is_busy(&self) -> bool {
        self.is_preparing.load(Ordering::SeqCst)
    }

    /// Return `true` while slots are made, or a thread has not taken over its size.
    pub(super) fn is_changing(&self) -> bool {
        let is_told = |place: &Mutex<Option<FlashSize>>| {
            place.lock().unwrap_or_else(PoisonError::into_inner).is_some()
        };
        // What was made is told before it is done.
        self.is_busy() || self.news.iter().any(is_told)
    }

    /// Return the share of the flash.
    pub(super) fn share(&self) -> Bytes {
        Bytes(self.share_bytes.load(Ordering::SeqCst))
    }

    /// Have all threads take over a size.
    fn tell(&self, size: &FlashSize) {
        for place in &self.news {
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(size.clone());
        }
    }

    fn take(&self, thread: usize) -> Option<FlashSize> {
        self.news[thread].lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Volume {
    /// Begin to give the volume the size of flash that its configuration says, if it has another one.
    ///
    /// # Errors
    /// If the flash cannot have that size while the server runs, or not now. It keeps its size.
    pub(super) fn look_for_flash_size(
        self: &Arc<Self>,
        configs: &Volumes,
        config: &Config,
        shard: &Shard,
        control: &Control,
        changes: &mut Changes,
    ) -> Result<()> {
        // A flash that failed or is being replaced has no size.
        let Some(flash) = config.flash.as_ref().filter(|_| shard.has_flash()) else {
            return Ok(());
        };
        ensure!(
            flash.moving.is_some() == self.flash_moves,
            "a restart makes a share of the flash one that moves (\"auto\"), or one that does not"
        );
        if self.flash_moves {
            return Ok(());
        }
        let shards = u32::from(shard.options().share.map.number().get());
        let pages = config.tier_pages()?[1] / shards;
        let now = shard.options().flash_pages;
        let pinned = config.pinned_pages()? / shards;
        if pages == now || pinned != shard.options().pinned_pages {
            return Ok(());
        }
        changes.check_flash_shares(configs)?;
        self.begin_flash_size(pages, flash.size, shard, control, changes)
    }

    /// Begin to give the policy of each shard that many pages of flash. `bytes` is the share of all shards.
    ///
    /// # Errors
    /// If the flash cannot have that size while the server runs, or not now. It keeps its size.
    pub(super) fn begin_flash_size(
        self: &Arc<Self>,
        pages: u32,
        bytes: Bytes,
        shard: &Shard,
        control: &Control,
        changes: &mut Changes,
    ) -> Result<()> {
        let state = &self.growth.flash;
        ensure!(!state.is_busy(), "it is still growing: read the configuration again after that");
        let Some(slots) = shard.slots_for(pages)? else {
            state.share_bytes.store(bytes.0, Ordering::SeqCst);
            state.tell(&FlashSize { pages, layouts: None });
            return Ok(());
        };
        ensure!(
            shard.mirror().is_none(),
            "a mirrored flash does not grow while it holds pages: drain it with `thermocline cache drain`, and \
             start once with --force-init"
        );
        state.is_preparing.store(true, Ordering::SeqCst);
        // Each of the two says that it begins before it looks for the other.
        let begun = if control.is_replacing() {
            Err(anyhow!("the flash is being replaced: read the configuration again after that"))
        } else {
            changes.extend(self, slots, pages, bytes)
        };
        begun.inspect_err(|_| state.is_preparing.store(false, Ordering::SeqCst))
    }

    /// Make new slots durable, and have the shards use them. This may take long.
    ///
    /// # Errors
    /// If there is no room, or the flash fails. The flash keeps its size.
    pub(super) fn extend_flash(
        &self,
        all: &SharedFlash,
        (slots, pages): (u32, u32),
        share: Bytes,
    ) -> Result<()> {
        let state = &self.growth.flash;
        let made = self.try_extension(all, slots).map(|layouts| {
            state.share_bytes.store(share.0, Ordering::SeqCst);
            state.tell(&FlashSize { pages, layouts: Some(Arc::new(layouts)) });
        });
        state.is_preparing.store(false, Ordering::SeqCst);
        made
    }

    fn try_extension(&self, all: &SharedFlash, slots: u32) -> Result<Vec<Layout>> {
        let note = self.note.as_ref().context("there is no flash")?;
        note.extend_flash(slots, |flash, extension| {
            place(all, (!self.name.is_empty()).then_some(&*self.name), flash, extension)
        })
    }
}

impl Seat {
    /// Have this thread's shard take over another size of the flash.
    pub(super) fn resize_flash(&self, exports: &mut Exports<Service>, thread: usize) {
        let Some(FlashSize { pages, layouts }) = self.volume.growth.flash.take(thread) else {
            return;
        };
        let shard = exports.service_mut(self.place).inner_mut().engine_mut().shard_mut();
        let former_pages = shard.options().flash_pages;
        let taken = match layouts.as_ref().and_then(|layouts| layouts.get(thread)) {
            Some(layout) => shard.grow_flash(pages, layout),
            None => shard.set_flash_pages(pages),
        };
        match taken {
            Ok(()) if thread == 0 => {
                info!(former_pages, pages, "the flash has another size: pages of each shard");
            }
            Ok(()) => {}
            Err(error) => error!(%error, "the policy keeps its pages of the flash"),
        }
    }
}
