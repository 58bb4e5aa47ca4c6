//! A backing store that grows while the server runs.
//!
//! 1. When the configuration is read again, the first thread sees that the file or the block device has more
//!    pages than the volume serves.
//! 2. The thread of the changes makes the size durable: it syncs the backing store, and writes the size to
//!    the flash. Recovery takes a page beyond the end that the flash knows for damage, so no such page may be
//!    cached before.
//! 3. Each thread has its shard serve the new pages.
//! 4. Once all shards do, new clients are offered the new size. Clients that are connected keep theirs, and so
//!    do virtual machines and block devices of the kernel.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use thermocline_engine::driver::files::DeviceFile;
use thermocline_engine::{Shard, Storage as _};
use thermocline_nbd::server::Exports;
use tracing::{error, info};

use super::Service;
use super::changes::Changes;
use super::control::Control;
use super::flash_growth::FlashGrowth;
use super::volume::{Seat, Volume};

/// The size of a volume, for all its threads. Sizes are in pages.
#[derive(Debug)]
pub(super) struct Growth {
    /// The backing store; `None` if a server has it, or its clients have a part of the cache.
    backing: Option<DeviceFile>,
    page_bytes: u64,
    /// `true` from the moment when growth was seen until it is durable, or was given up.
    is_preparing: AtomicBool,
    /// Durable size.
    pages: AtomicU64,
    /// Per thread: the size that its shard serves.
    served_pages: Vec<AtomicU64>,
    /// The size of the flash.
    pub(super) flash: FlashGrowth,
}

impl Growth {
    /// Create the state of a volume that does not grow yet.
    pub(super) fn new(
        backing: Option<DeviceFile>,
        flash: FlashGrowth,
        shard: &Shard,
        threads: usize,
    ) -> Self {
        let pages = shard.options().backing_pages;
        Self {
            backing,
            page_bytes: shard.options().page_bytes.into(),
            is_preparing: AtomicBool::new(false),
            pages: AtomicU64::new(pages),
            served_pages: (0..threads).map(|_| AtomicU64::new(pages)).collect(),
            flash,
        }
    }

    /// Return the number of pages that all shards serve.
    pub(super) fn served_pages(&self) -> u64 {
        let each = self.served_pages.iter().map(|pages| pages.load(Ordering::SeqCst));
        each.min().unwrap_or(0)
    }

    /// Return the number of bytes that all shards serve.
    pub(super) fn served_bytes(&self) -> u64 {
        self.served_pages() * self.page_bytes
    }

    /// Return `true` while the volume or its flash grows.
    pub(super) fn is_busy(&self) -> bool {
        self.flash.is_busy()
            || self.is_preparing.load(Ordering::SeqCst)
            || self.served_pages() < self.pages.load(Ordering::SeqCst)
    }

    /// Return the size that a backing store now has if it has grown.
    ///
    /// # Errors
    /// If it cannot be measured, or has become smaller.
    fn grown_pages(&self) -> Result<Option<u64>> {
        let Some(backing) = &self.backing else { return Ok(None) };
        let size_bytes = backing.size_bytes().context("cannot measure the backing store")?;
        let (pages, known) = (size_bytes / self.page_bytes, self.pages.load(Ordering::SeqCst));
        ensure!(
            pages >= known,
            "the backing store has become smaller, {size_bytes} bytes, and clients use {}: accesses beyond its end \
             fail until it has its former size",
            known * self.page_bytes
        );
        Ok((pages > known).then_some(pages))
    }
}

impl Volume {
    /// Look whether the backing store has grown, and begin to take that over.
    ///
    /// # Errors
    /// If the backing store has become smaller, or the volume cannot grow that far, or not now. It keeps its
    /// size.
    pub(super) fn look_for_growth(
        self: &Arc<Self>,
        shard: &Shard,
        control: &Control,
        changes: &mut Changes,
    ) -> Result<()> {
        if self.growth.is_busy() {
            return Ok(());
        }
        let Some(pages) = self.growth.grown_pages()? else { return Ok(()) };
        shard.check_growth(pages)?;
        self.growth.is_preparing.store(true, Ordering::SeqCst);
        // Each of the two says that it begins before it looks for the other.
        let begun = if control.is_replacing() {
            Err(anyhow!("the flash is being replaced: read the configuration again after that"))
        } else {
            changes.grow(self, pages)
        };
        begun.inspect_err(|_| self.growth.is_preparing.store(false, Ordering::SeqCst))
    }

    /// Make a new size durable, and let the shards serve it. This may take long.
    ///
    /// # Errors
    /// If a device fails. The volume keeps its size.
    pub(super) fn make_growth_durable(&self, pages: u64) -> Result<()> {
        let made = self.try_growth(pages);
        if made.is_ok() {
            self.growth.pages.store(pages, Ordering::SeqCst);
        }
        self.growth.is_preparing.store(false, Ordering::SeqCst);
        made
    }

    fn try_growth(&self, pages: u64) -> Result<()> {
        let Some(backing) = &self.growth.backing else { bail!("the backing store is no file") };
        // A file that is synced has its size durably.
        let synced = backing.reopen().and_then(|mut backing| backing.sync());
        synced.context("cannot sync the backing store")?;
        let backing_bytes = pages * self.growth.page_bytes;
        self.note.as_ref().map_or(Ok(()), |note| note.grow_backing(backing_bytes))
    }
}

impl Seat {
    /// Have this thread's shard serve what the backing store has more, and offer clients what all shards
    /// serve.
    pub(super) fn grow(&mut self, exports: &mut Exports<Service>, thread: usize) {
        let growth = &self.volume.growth;
        let pages = growth.pages.load(Ordering::SeqCst);
        let served = &growth.served_pages[thread];
        if served.load(Ordering::SeqCst) < pages {
            let shard = exports.service_mut(self.place).inner_mut().engine_mut().shard_mut();
            // Before the first access to a new page.
            self.instruments.grow(pages);
            if let Err(error) = shard.grow_backing(pages) {
                error!(error = format!("{error:#}"), "the volume keeps its size");
                growth.pages.fetch_min(growth.served_pages(), Ordering::SeqCst);
                return;
            }
            served.store(pages, Ordering::SeqCst);
        }
        // The least of all shards: a request of a client may go to any of them.
        let offered_pages = growth.served_pages();
        if self.offered_pages < offered_pages {
            self.offered_pages = offered_pages;
            exports.resize(self.place, growth.served_bytes());
            self.volume.ranges.grow(offered_pages);
            if thread == 0 {
                info!(
                    size_bytes = growth.served_bytes(),
                    "the backing store has grown: clients see it when they connect again"
                );
            }
        }
    }
}
