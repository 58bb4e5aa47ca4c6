//! Bringing dirty pages home from a cache at rest.
//!
//! Dirty pages go to the backing store in the order of their numbers, window by window. The reads of a
//! window follow the order of the slots, so that neighbours on flash are read together; its writes join
//! neighbours on disk. Several workers take the next window each, and each has several under way, so
//! that both devices have work and no processor holds them up; memory is bounded by the windows.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::slice::ChunksMut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use slab::Slab;
use smallvec::{SmallVec, smallvec};

use crate::driver::{Completion, Driver};
use crate::format::checksum;
use crate::memory::{FrameId, Frames};
use crate::operation::{
    Copies, Device, DeviceError, Member, Operation, OperationId, OperationKind, OperationParts,
};
use crate::recovery::{Flash, FlashError};
use crate::storage::Storage;

/// Windows of a worker that are under way at once, and their bytes.
const WINDOWS: usize = 3;
const WINDOW_BYTES: usize = 16 << 20;
/// Bytes of one operation.
const RUN_BYTES: usize = 1 << 20;
/// Operations that a worker has at each device at a time.
const IN_FLIGHT_MAX: usize = 64;

/// Result of a drain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Pages written to the backing store.
    pub written_pages: u64,
    /// Pages that only flash had, and whose bytes there are wrong: they stay dirty, in order.
    pub lost_pages: Vec<u64>,
}

/// Progress of a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainProgress {
    /// Dirty pages that are written, or found to be lost.
    pub done_pages: u64,
    /// Dirty pages in all.
    pub dirty_pages: u64,
}

impl Flash {
    /// Writes every page that the backing store may not have to it, in the order of its pages, and then
    /// says on flash that it is clean. If that stops half way, nothing is lost: the flash calls pages
    /// clean only after the backing store was synced.
    ///
    /// `open` makes a driver of both devices, for frames that its worker uses alone; each of the
    /// `workers` threads calls it once. More than one is faster where one processor is slower than the
    /// devices. `backing_bytes` is the size of the backing store.
    ///
    /// # Errors
    /// If the backing store has another size, or a device fails; and as for `open`.
    ///
    /// # Panics
    /// If a driver completes what it was not asked for.
    pub fn drain<D: Driver, E: From<FlashError> + Send>(
        &mut self,
        storage: &mut dyn Storage,
        backing_bytes: u64,
        workers: NonZeroUsize,
        open: impl Fn(&Arc<Frames>) -> Result<D, E> + Sync,
        watch: impl FnMut(DrainProgress) + Send,
    ) -> Result<Drained, E> {
        let page_bytes = u64::from(self.superblock.layout.page_bytes);
        let (found_bytes, given_bytes) = (self.superblock.backing_bytes, backing_bytes);
        // The end of a backing store that is no whole page is not cached.
        if given_bytes / page_bytes * page_bytes != found_bytes {
            return Err(FlashError::OtherBacking { found_bytes, given_bytes }.into());
        }
        let mut pages: Vec<Dirty> = (0..)
            .zip(&self.rows)
            .filter_map(|(slot, row)| row.filter(|row| row.is_dirty).map(|row| (row.page, slot)))
            .map(|(page, slot)| Dirty { page, slot, is_lost: false })
            .collect();
        pages.sort_unstable_by_key(|dirty| dirty.page);
        // Every worker has synced the backing store when this returns. Only then may the flash call a
        // page clean.
        self.move_all(&mut pages, workers, &open, watch)?;
        let mut drained = Drained::default();
        for dirty in pages {
            if dirty.is_lost {
                drained.lost_pages.push(dirty.page);
            } else if let Some(row) = &mut self.rows[dirty.slot as usize] {
                row.is_dirty = false;
                drained.written_pages += 1;
            }
        }
        self.save(storage)?;
        Ok(drained)
    }

    /// Writes these pages to the backing store and syncs it, or says which are lost.
    fn move_all<D: Driver, E: From<FlashError> + Send>(
        &self,
        pages: &mut [Dirty],
        workers: NonZeroUsize,
        open: &(impl Fn(&Arc<Frames>) -> Result<D, E> + Sync),
        watch: impl FnMut(DrainProgress) + Send,
    ) -> Result<(), E> {
        let layout = self.superblock.layout;
        let window_pages = WINDOW_BYTES / layout.page_bytes as usize;
        let windows = pages.len().div_ceil(window_pages);
        let dirty_pages = pages.len() as u64;
        let work = Work {
            flash: self,
            windows: Mutex::new(pages.chunks_mut(window_pages)),
            has_failed: AtomicBool::new(false),
            progress: Mutex::new((DrainProgress { done_pages: 0, dirty_pages }, watch)),
        };
        let frames = u32::try_from(WINDOWS.min(windows) * window_pages);
        let frames = frames.expect("windows are small");
        let serve = || -> Result<(), E> {
            let frames = Frames::new(frames, layout.page_bytes as usize);
            let transfer = open(&frames)
                .and_then(|driver| Ok(Transfer::new(&work, driver, &frames, window_pages).run()?));
            if transfer.is_err() {
                work.has_failed.store(true, Ordering::Relaxed);
            }
            transfer
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> =
                (0..workers.get().min(windows)).map(|_| scope.spawn(serve)).collect();
            let results = workers.into_iter().map(|worker| match worker.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            results.fold(Ok(()), Result::and)
        })
    }
}

/// A page to be drained.
#[derive(Clone, Copy, Debug)]
struct Dirty {
    page: u64,
    slot: u32,
    is_lost: bool,
}

/// State that the workers of a drain share.
struct Work<'p, W> {
    flash: &'p Flash,
    /// Windows that no worker took yet.
    windows: Mutex<ChunksMut<'p, Dirty>>,
    /// `true` if a worker failed: no other begins anything more.
    has_failed: AtomicBool,
    progress: Mutex<(DrainProgress, W)>,
}

impl<'p, W: FnMut(DrainProgress)> Work<'p, W> {
    fn next_window(&self) -> Option<&'p mut [Dirty]> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner).next()
    }

    fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    fn report(&self, done_pages: u64) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let (progress, watch) = &mut *progress;
        progress.done_pages += done_pages;
        watch(*progress);
    }
}

/// A stretch of the pages, whose bytes have frames of their own.
#[derive(Debug)]
struct Window<'p> {
    pages: &'p mut [Dirty],
    /// Reads, or then writes, that are not complete.
    operations_left: usize,
}

/// Transfer of one operation.
#[derive(Debug)]
struct Moving {
    kind: OperationKind,
    window: usize,
    /// The pages that it moves, by their positions in the window.
    pages: Run,
    /// Device of a mirrored flash that is read.
    copies: Copies,
}

type Run = SmallVec<[usize; 1]>;

/// State of one worker.
struct Transfer<'a, 'p, D, W> {
    work: &'a Work<'p, W>,
    driver: D,
    frames: &'a Frames,
    window_pages: usize,
    windows: Vec<Option<Window<'p>>>,
    /// Per device: operations that wait until fewer are in flight, and how many are.
    waiting: [VecDeque<Moving>; 2],
    in_flight: [usize; 2],
    flying: Slab<Moving>,
    /// Place at which the backing store first refused a write, and the reason.
    failure: Option<(u64, DeviceError)>,
}

impl<'a, 'p, D: Driver, W: FnMut(DrainProgress)> Transfer<'a, 'p, D, W> {
    fn new(work: &'a Work<'p, W>, driver: D, frames: &'a Frames, window_pages: usize) -> Self {
        let windows = frames.len() as usize / window_pages;
        Self {
            work,
            driver,
            frames,
            window_pages,
            windows: (0..windows).map(|_| None).collect(),
            waiting: Default::default(),
            in_flight: [0; 2],
            flying: Slab::new(),
            failure: None,
        }
    }

    /// Moves pages as long as there are some, and syncs the backing store.
    fn run(mut self) -> Result<(), FlashError> {
        let mut done = vec![];
        loop {
            self.open_windows();
            self.start_waiting();
            if self.flying.is_empty() {
                break;
            }
            self.driver.wait(&mut done);
            let done_pages = done.drain(..).map(|completion| self.complete(completion)).sum();
            self.work.report(done_pages);
        }
        if let Some((offset_bytes, error)) = self.failure {
            return Err(FlashError::BackingWrite { offset_bytes, error: error.0.into() });
        }
        if self.work.has_failed() {
            // The worker that failed says why.
            return Ok(());
        }
        self.start(Moving {
            kind: OperationKind::Sync,
            window: 0,
            pages: Run::new(),
            copies: Copies::Both,
        });
        while done.is_empty() {
            self.driver.wait(&mut done);
        }
        let (_, result) = done.swap_remove(0);
        result.map_err(|error| FlashError::BackingSync(error.0.into()))
    }

    /// Begins to read further windows where there is room, as long as the backing store takes pages.
    fn open_windows(&mut self) {
        for number in 0..self.windows.len() {
            if self.windows[number].is_some() {
                continue;
            }
            if self.work.has_failed() {
                return;
            }
            let Some(pages) = self.work.next_window() else { return };
            let mut order: Vec<usize> = (0..pages.len()).collect();
            order.sort_unstable_by_key(|&at| pages[at].slot);
            let runs = self.runs(pages, &order, |dirty| dirty.slot.into());
            self.windows[number] = Some(Window { pages, operations_left: runs.len() });
            self.queue(Device::Flash, OperationKind::Read, number, runs);
        }
    }

    /// Cuts positions into runs whose numbers follow each other, none longer than an operation may be.
    fn runs(&self, pages: &[Dirty], order: &[usize], number: fn(&Dirty) -> u64) -> Vec<Run> {
        let most = (RUN_BYTES / self.frames.frame_bytes()).max(1);
        let mut runs: Vec<Run> = vec![];
        let mut expected = None;
        for &at in order {
            let here = number(&pages[at]);
            match runs.last_mut() {
                Some(run) if run.len() < most && expected == Some(here) => run.push(at),
                _ => runs.push(smallvec![at]),
            }
            expected = here.checked_add(1);
        }
        runs
    }

    fn queue(&mut self, device: Device, kind: OperationKind, window: usize, runs: Vec<Run>) {
        let moving =
            runs.into_iter().map(|pages| Moving { kind, window, pages, copies: Copies::Both });
        self.waiting[device as usize].extend(moving);
    }

    fn start_waiting(&mut self) {
        // Writes first: their ends free the windows that reads need.
        for device in [Device::Backing, Device::Flash] {
            while self.in_flight[device as usize] < IN_FLIGHT_MAX
                && let Some(moving) = self.waiting[device as usize].pop_front()
            {
                self.start(moving);
            }
        }
    }

    fn start(&mut self, moving: Moving) {
        let device = device_of(moving.kind);
        let first = moving.pages.first();
        let offset_bytes =
            first.map_or(0, |&first| self.offset_bytes(device, moving.window, first));
        let frames = moving.pages.iter().map(|&at| self.frame(moving.window, at)).collect();
        let length_bytes = (moving.pages.len() * self.frames.frame_bytes()) as u64;
        let (kind, copies, is_final) = (moving.kind, moving.copies, false);
        self.in_flight[device as usize] += 1;
        let id = u32::try_from(self.flying.insert(moving)).expect("few operations are in flight");
        let id = OperationId(id);
        let parts = OperationParts {
            id,
            device,
            kind,
            offset_bytes,
            length_bytes,
            frames,
            copies,
            is_final,
        };
        self.driver.start(Operation::of_shard(parts, self.frames));
    }

    /// Return the offset of a window's page on a device, in bytes.
    fn offset_bytes(&self, device: Device, window: usize, at: usize) -> u64 {
        let Dirty { page, slot, .. } = self.opened(window).pages[at];
        let flash = self.work.flash;
        match device {
            Device::Flash => flash.slot_offset_bytes(slot),
            Device::Backing => page * u64::from(flash.superblock.layout.page_bytes),
        }
    }

    /// Return the frame of a page of a window.
    fn frame(&self, window: usize, at: usize) -> FrameId {
        FrameId(u32::try_from(window * self.window_pages + at).expect("windows are small"))
    }

    /// Takes a completion, and says for how many pages nothing is left to do.
    fn complete(&mut self, (operation, result): Completion) -> u64 {
        let Moving { kind, window, pages, copies } = self.flying.remove(operation.id.0 as usize);
        self.in_flight[device_of(kind) as usize] -= 1;
        let mut done_pages = 0;
        match (kind, result) {
            // One of these pages can be read perhaps without the others.
            (OperationKind::Read, Err(_)) if pages.len() > 1 => {
                self.opened_mut(window).operations_left += pages.len();
                let alone = pages.iter().map(|&at| smallvec![at]).collect();
                self.queue(Device::Flash, OperationKind::Read, window, alone);
            }
            (OperationKind::Read, result) => {
                for &at in &pages {
                    let is_lost = result.is_err() || !self.is_intact(window, at);
                    if is_lost && copies == Copies::Both {
                        // The other device of a mirrored flash may have it.
                        self.opened_mut(window).operations_left += 1;
                        let copies = Copies::One(Member::Second);
                        let again = Moving { kind, window, pages: smallvec![at], copies };
                        self.waiting[Device::Flash as usize].push_back(again);
                        continue;
                    }
                    self.opened_mut(window).pages[at].is_lost = is_lost;
                    done_pages += u64::from(is_lost);
                }
            }
            (_, result) => {
                if let Err(error) = result
                    && self.failure.is_none()
                {
                    let offset_bytes = self.offset_bytes(Device::Backing, window, pages[0]);
                    self.failure = Some((offset_bytes, error));
                    // Operations in flight end; no other one begins.
                    self.work.has_failed.store(true, Ordering::Relaxed);
                }
                done_pages += pages.len() as u64;
            }
        }
        let opened = self.opened_mut(window);
        opened.operations_left -= 1;
        let is_over = opened.operations_left == 0;
        if self.work.has_failed() {
            for waiting in &mut self.waiting {
                waiting.clear();
            }
        } else if is_over {
            self.advance(window, kind);
        }
        done_pages
    }

    fn opened(&self, window: usize) -> &Window<'p> {
        self.windows[window].as_ref().expect("operations move pages of windows that are open")
    }

    fn opened_mut(&mut self, window: usize) -> &mut Window<'p> {
        self.windows[window].as_mut().expect("operations move pages of windows that are open")
    }

    fn is_intact(&self, window: usize, at: usize) -> bool {
        let slot = self.opened(window).pages[at].slot;
        let row = self.work.flash.rows[slot as usize].expect("a dirty slot has a page");
        checksum(row.page, row.version, self.frames.bytes(self.frame(window, at))) == row.checksum
    }

    /// Write a window that was read; a window that was written makes room.
    fn advance(&mut self, number: usize, kind: OperationKind) {
        let pages = &self.opened(number).pages;
        let mut runs = vec![];
        if kind == OperationKind::Read {
            let intact: Vec<usize> = (0..pages.len()).filter(|&at| !pages[at].is_lost).collect();
            runs = self.runs(pages, &intact, |dirty| dirty.page);
        }
        if runs.is_empty() {
            self.windows[number] = None;
        } else {
            self.opened_mut(number).operations_left = runs.len();
            self.queue(Device::Backing, OperationKind::Write, number, runs);
        }
    }
}

fn device_of(kind: OperationKind) -> Device {
    match kind {
        OperationKind::Read => Device::Flash,
        OperationKind::Write
        | OperationKind::Sync
        | OperationKind::Discard
        | OperationKind::Zero => Device::Backing,
    }
}

#[cfg(test)]
mod tests;
