//! Bringing dirty pages home from a cache at rest.
//!
//! Dirty pages go to the backing store in the order of their numbers, window by window. The reads of a
//! window follow the order of the slots, so that neighbours on flash are read together; its writes join
//! neighbours on disk. Several windows are under way at once, so that both devices have work, and
//! memory is bounded by the windows.

use std::collections::VecDeque;
use std::sync::Arc;

use slab::Slab;
use smallvec::{SmallVec, smallvec};

use crate::driver::{Completion, Driver};
use crate::memory::{FrameId, Frames};
use crate::operation::{
    Device, DeviceError, Operation, OperationId, OperationKind, OperationParts,
};
use crate::recovery::{Flash, FlashError};
use crate::shard::checksum;
use crate::storage::Storage;

/// Windows under way at once, and their bytes.
const WINDOWS: usize = 4;
const WINDOW_BYTES: usize = 16 << 20;
/// Bytes of one operation.
const RUN_BYTES: usize = 1 << 20;
/// Operations that each device has at a time.
const IN_FLIGHT_MAX: usize = 64;

/// What a drain did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Pages written to the backing store.
    pub written_pages: u64,
    /// Pages that only flash had, and whose bytes there are wrong: they stay dirty, in order.
    pub lost_pages: Vec<u32>,
}

/// How far a drain is.
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
    /// `open` makes the driver of both devices, for frames that the drain uses alone; `backing_bytes` is
    /// the size of the backing store.
    ///
    /// # Errors
    /// A backing store of another size, a device that fails, and what `open` says.
    ///
    /// # Panics
    /// If a driver completes what it was not asked for.
    pub fn drain<D: Driver, E: From<FlashError>>(
        &mut self,
        storage: &mut dyn Storage,
        backing_bytes: u64,
        open: impl FnOnce(&Arc<Frames>) -> Result<D, E>,
        mut watch: impl FnMut(DrainProgress),
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
        if !pages.is_empty() {
            let window_pages = window_pages(self.superblock.layout.page_bytes);
            let windows = pages.len().div_ceil(window_pages).min(WINDOWS);
            let frames = u32::try_from(windows * window_pages).expect("windows are small");
            let frames = Frames::new(frames, self.superblock.layout.page_bytes as usize);
            let driver = open(&frames)?;
            Transfer::new(self, driver, &frames, &mut pages, window_pages).run(&mut watch)?;
        }
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
}

/// Pages of a window.
const fn window_pages(page_bytes: u32) -> usize {
    WINDOW_BYTES / page_bytes as usize
}

/// A page to be drained.
#[derive(Clone, Copy, Debug)]
struct Dirty {
    page: u32,
    slot: u32,
    is_lost: bool,
}

/// A stretch of the pages, whose bytes have frames of their own.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// Its first page, by its position among all.
    start: usize,
    len: usize,
    /// Reads, or then writes, that are not complete.
    operations_left: usize,
}

/// What an operation does.
#[derive(Debug)]
struct Moving {
    kind: OperationKind,
    window: usize,
    /// The pages that it moves, by their positions among all.
    pages: Run,
}

type Run = SmallVec<[usize; 1]>;

/// A drain under way.
struct Transfer<'a, D> {
    flash: &'a Flash,
    driver: D,
    frames: &'a Frames,
    pages: &'a mut [Dirty],
    window_pages: usize,
    /// The first page that is in no window yet.
    next: usize,
    windows: Vec<Option<Window>>,
    /// Per device: operations that wait until fewer are in flight, and how many are.
    waiting: [VecDeque<Moving>; 2],
    in_flight: [usize; 2],
    flying: Slab<Moving>,
    /// Where the backing store first refused a write, and why.
    failure: Option<(u64, DeviceError)>,
    done_pages: u64,
}

impl<'a, D: Driver> Transfer<'a, D> {
    fn new(
        flash: &'a Flash,
        driver: D,
        frames: &'a Frames,
        pages: &'a mut [Dirty],
        window_pages: usize,
    ) -> Self {
        Self {
            flash,
            driver,
            frames,
            pages,
            window_pages,
            next: 0,
            windows: vec![None; frames.len() as usize / window_pages],
            waiting: Default::default(),
            in_flight: [0; 2],
            flying: Slab::new(),
            failure: None,
            done_pages: 0,
        }
    }

    /// Moves all pages and syncs the backing store.
    fn run(mut self, watch: &mut impl FnMut(DrainProgress)) -> Result<(), FlashError> {
        let dirty_pages = self.pages.len() as u64;
        let mut done = vec![];
        loop {
            self.open_windows();
            self.start_waiting();
            if self.flying.is_empty() {
                break;
            }
            self.driver.wait(&mut done);
            for completion in done.drain(..) {
                self.complete(completion);
            }
            watch(DrainProgress { done_pages: self.done_pages, dirty_pages });
        }
        if let Some((offset_bytes, error)) = self.failure {
            return Err(FlashError::BackingWrite { offset_bytes, error: error.0.into() });
        }
        self.start(Moving { kind: OperationKind::Sync, window: 0, pages: Run::new() });
        while done.is_empty() {
            self.driver.wait(&mut done);
        }
        let (_, result) = done.swap_remove(0);
        result.map_err(|error| FlashError::BackingSync(error.0.into()))
    }

    /// Begins to read further windows where there is room, as long as the backing store takes pages.
    fn open_windows(&mut self) {
        for number in 0..self.windows.len() {
            let len = self.window_pages.min(self.pages.len() - self.next);
            if len == 0 || self.failure.is_some() {
                return;
            }
            if self.windows[number].is_some() {
                continue;
            }
            let mut order: Vec<usize> = (self.next..self.next + len).collect();
            order.sort_unstable_by_key(|&at| self.pages[at].slot);
            let runs = self.runs(&order, |dirty| dirty.slot);
            self.windows[number] =
                Some(Window { start: self.next, len, operations_left: runs.len() });
            self.queue(Device::Flash, OperationKind::Read, number, runs);
            self.next += len;
        }
    }

    /// Cuts positions into runs whose numbers follow each other, none longer than an operation may be.
    fn runs(&self, order: &[usize], number: impl Fn(&Dirty) -> u32) -> Vec<Run> {
        let most = (RUN_BYTES / self.frames.frame_bytes()).max(1);
        let mut runs: Vec<Run> = vec![];
        let mut expected = None;
        for &at in order {
            let here = number(&self.pages[at]);
            match runs.last_mut() {
                Some(run) if run.len() < most && expected == Some(here) => run.push(at),
                _ => runs.push(smallvec![at]),
            }
            expected = here.checked_add(1);
        }
        runs
    }

    fn queue(&mut self, device: Device, kind: OperationKind, window: usize, runs: Vec<Run>) {
        let moving = runs.into_iter().map(|pages| Moving { kind, window, pages });
        self.waiting[device as usize].extend(moving);
    }

    fn start_waiting(&mut self) {
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
        let offset_bytes =
            moving.pages.first().map_or(0, |&first| self.offset_bytes(device, first));
        let frames = moving.pages.iter().map(|&at| self.frame(moving.window, at)).collect();
        let length_bytes = (moving.pages.len() * self.frames.frame_bytes()) as u64;
        let kind = moving.kind;
        self.in_flight[device as usize] += 1;
        let id = u32::try_from(self.flying.insert(moving)).expect("few operations are in flight");
        let id = OperationId(id);
        let parts = OperationParts { id, device, kind, offset_bytes, length_bytes, frames };
        self.driver.start(Operation::of_shard(parts, self.frames));
    }

    /// Where the page at a position lies on a device.
    fn offset_bytes(&self, device: Device, at: usize) -> u64 {
        let Dirty { page, slot, .. } = self.pages[at];
        match device {
            Device::Flash => self.flash.slot_offset_bytes(slot),
            Device::Backing => u64::from(page) * u64::from(self.flash.superblock.layout.page_bytes),
        }
    }

    /// The frame of the page at a position.
    fn frame(&self, window: usize, at: usize) -> FrameId {
        let start = self.windows[window].expect("its pages are moved").start;
        let frame = window * self.window_pages + (at - start);
        FrameId(u32::try_from(frame).expect("windows are small"))
    }

    fn complete(&mut self, (operation, result): Completion) {
        let Moving { kind, window, pages } = self.flying.remove(operation.id.0 as usize);
        self.in_flight[device_of(kind) as usize] -= 1;
        match (kind, result) {
            // One of these pages can be read perhaps without the others.
            (OperationKind::Read, Err(_)) if pages.len() > 1 => {
                self.opened(window).operations_left += pages.len();
                let alone = pages.iter().map(|&at| smallvec![at]).collect();
                self.queue(Device::Flash, OperationKind::Read, window, alone);
            }
            (OperationKind::Read, result) => {
                for &at in &pages {
                    self.pages[at].is_lost = result.is_err() || !self.is_intact(window, at);
                }
            }
            (_, result) => {
                if let Err(error) = result
                    && self.failure.is_none()
                {
                    self.failure = Some((self.offset_bytes(Device::Backing, pages[0]), error));
                    // What is in flight ends; nothing else is begun.
                    for waiting in &mut self.waiting {
                        waiting.clear();
                    }
                }
                self.done_pages += pages.len() as u64;
            }
        }
        let window_left = self.opened(window);
        window_left.operations_left -= 1;
        if window_left.operations_left == 0 && self.failure.is_none() {
            self.advance(window, kind);
        }
    }

    fn opened(&mut self, window: usize) -> &mut Window {
        self.windows[window].as_mut().expect("operations move pages of windows that are open")
    }

    fn is_intact(&self, window: usize, at: usize) -> bool {
        let row = self.flash.rows[self.pages[at].slot as usize].expect("a dirty slot has a page");
        let bytes = self.frames.bytes(self.frame(window, at));
        checksum(row.page, row.version, bytes) == row.checksum
    }

    /// A window that was read is written; one that was written makes room.
    fn advance(&mut self, number: usize, kind: OperationKind) {
        let Window { start, len, .. } = *self.opened(number);
        let mut runs = vec![];
        if kind == OperationKind::Read {
            let intact: Vec<usize> =
                (start..start + len).filter(|&at| !self.pages[at].is_lost).collect();
            self.done_pages += (len - intact.len()) as u64;
            runs = self.runs(&intact, |dirty| dirty.page);
        }
        if runs.is_empty() {
            self.windows[number] = None;
        } else {
            self.opened(number).operations_left = runs.len();
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
mod tests {
    #![expect(clippy::cast_possible_truncation, reason = "all numbers are small")]

    use std::cell::RefCell;
    use std::collections::BTreeSet;
    use std::io;
    use std::rc::Rc;

    use super::*;
    use crate::format::Layout;
    use crate::format::table::Row;

    /// Two devices that lose power after a number of operations; the backing store forgets what it did not
    /// sync.
    struct World {
        flash: Vec<u8>,
        backing: Vec<u8>,
        synced: Vec<u8>,
        operations_left: u64,
        /// Slots, by their first byte on flash, that cannot be read.
        unreadable: BTreeSet<u64>,
        reads: usize,
        writes: usize,
    }

    impl World {
        fn step(&mut self) -> io::Result<()> {
            self.operations_left = self.operations_left.saturating_sub(1);
            if self.operations_left == 0 { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
        }

        fn bytes(&mut self, device: Device, offset_bytes: u64, length: u64) -> &mut [u8] {
            let bytes = match device {
                Device::Flash => &mut self.flash,
                Device::Backing => &mut self.backing,
            };
            &mut bytes[offset_bytes as usize..(offset_bytes + length) as usize]
        }

        fn perform(&mut self, frames: &Frames, operation: &Operation) -> io::Result<()> {
            self.step()?;
            let (start, length) = (operation.offset_bytes, operation.length_bytes);
            let pages = operation.frames.iter().zip((start..).step_by(frames.frame_bytes()));
            match operation.kind {
                OperationKind::Read => {
                    self.reads += 1;
                    if self.unreadable.range(start..start + length).next().is_some() {
                        return Err(io::ErrorKind::InvalidData.into());
                    }
                    for (&frame, start) in pages {
                        let bytes = frames.bytes_mut(frame);
                        let length = bytes.len() as u64;
                        bytes.copy_from_slice(self.bytes(operation.device, start, length));
                    }
                }
                OperationKind::Write => {
                    self.writes += 1;
                    for (&frame, start) in pages {
                        let bytes = frames.bytes(frame);
                        let length = bytes.len() as u64;
                        self.bytes(operation.device, start, length).copy_from_slice(bytes);
                    }
                }
                OperationKind::Sync => self.synced.clone_from(&self.backing),
                OperationKind::Discard | OperationKind::Zero => panic!("a drain never does that"),
            }
            Ok(())
        }
    }

    #[derive(Clone)]
    struct Devices(Rc<RefCell<World>>);

    impl Storage for Devices {
        fn size_bytes(&mut self) -> io::Result<u64> {
            Ok(self.0.borrow().flash.len() as u64)
        }

        fn read_at(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> io::Result<()> {
            let mut world = self.0.borrow_mut();
            let length = bytes.len() as u64;
            bytes.copy_from_slice(world.bytes(Device::Flash, offset_bytes, length));
            Ok(())
        }

        fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
            let mut world = self.0.borrow_mut();
            world.step()?;
            let length = bytes.len() as u64;
            world.bytes(Device::Flash, offset_bytes, length).copy_from_slice(bytes);
            Ok(())
        }

        fn sync(&mut self) -> io::Result<()> {
            self.0.borrow_mut().step()
        }
    }

    /// Completes the operation that was started last first.
    struct Reversed {
        devices: Devices,
        frames: Arc<Frames>,
        taken: Vec<Operation>,
    }

    impl Driver for Reversed {
        fn start(&mut self, operation: Operation) {
            self.taken.push(operation);
        }

        fn poll(&mut self, done: &mut Vec<Completion>) {
            if let Some(operation) = self.taken.pop() {
                let result = self.devices.0.borrow_mut().perform(&self.frames, &operation);
                done.push((operation, result.map_err(DeviceError::from)));
            }
        }

        fn wait(&mut self, done: &mut Vec<Completion>) {
            self.poll(done);
        }
    }

    /// The bytes of a page that only flash has.
    fn content(page: u32, page_bytes: u32) -> Vec<u8> {
        let mut bytes = vec![page as u8 | 1; page_bytes as usize];
        bytes[..4].copy_from_slice(&page.to_le_bytes());
        bytes
    }

    /// A flash whose slots hold these pages; those of slots divisible by seven are clean.
    fn cache(pages: &[u32], page_bytes: u32) -> (Devices, Flash) {
        let layout = Layout::new(u32::try_from(pages.len()).unwrap(), page_bytes);
        let backing_bytes = (pages.iter().max().unwrap() + 1) as usize * page_bytes as usize;
        let backing = vec![0; backing_bytes];
        let world = World {
            flash: vec![0; usize::try_from(layout.flash_bytes()).unwrap()],
            synced: backing.clone(),
            backing,
            operations_left: u64::MAX,
            unreadable: BTreeSet::new(),
            reads: 0,
            writes: 0,
        };
        let mut devices = Devices(Rc::new(RefCell::new(world)));
        let cache = uuid::Uuid::from_u128(1);
        let made = Flash::initialise(&mut devices, cache, layout, backing_bytes as u64);
        let mut flash = made.unwrap();
        for (slot, &page) in (0..).zip(pages) {
            let bytes = content(page, page_bytes);
            let row = Row {
                page,
                checksum: checksum(page, 1, &bytes),
                version: 1,
                is_dirty: slot % 7 != 0,
            };
            flash.rows[slot as usize] = Some(row);
            let offset = flash.slot_offset_bytes(slot);
            devices.write_at(offset, &bytes).unwrap();
        }
        flash.save(&mut devices).unwrap();
        (devices, flash)
    }

    fn drain(devices: &Devices, flash: &mut Flash) -> Result<Drained, FlashError> {
        let backing_bytes = devices.0.borrow().backing.len() as u64;
        let open = |frames: &Arc<Frames>| {
            let (devices, frames) = (devices.clone(), Arc::clone(frames));
            Ok::<_, FlashError>(Reversed { devices, frames, taken: vec![] })
        };
        let mut last = 0;
        flash.drain(&mut devices.clone(), backing_bytes, open, |progress| {
            assert!((last..=progress.dirty_pages).contains(&progress.done_pages));
            last = progress.done_pages;
        })
    }

    #[test]
    fn windows_of_any_slots_come_home_past_damaged_ones() {
        // More than all windows at once, in slots that have nothing to do with the pages' order, but
        // for a stretch of neighbours; some pages are on disk only.
        let page_bytes = 32 << 10;
        let count = u32::try_from(window_pages(page_bytes) * (WINDOWS + 1) + 3).unwrap();
        let mut pages: Vec<u32> = (0..count).map(|slot| slot * 1009 % count).collect();
        pages[..100].sort_unstable();
        for page in &mut pages {
            *page += *page / 50;
        }
        let (devices, mut flash) = cache(&pages, page_bytes);
        let dirty = pages.iter().enumerate().filter(|(slot, _)| slot % 7 != 0);
        let dirty: BTreeSet<u32> = dirty.map(|(_, &page)| page).collect();
        let mut lost = vec![pages[11], pages[40], pages[2000]];
        {
            let mut world = devices.0.borrow_mut();
            for slot in [11, 2000] {
                world.unreadable.insert(flash.slot_offset_bytes(slot));
            }
            let rotten = flash.slot_offset_bytes(40) + 5000;
            world.bytes(Device::Flash, rotten, 1)[0] ^= 1;
        }
        lost.sort_unstable();
        let drained = drain(&devices, &mut flash).unwrap();
        assert_eq!(drained.lost_pages, lost);
        assert_eq!(drained.written_pages, (dirty.len() - lost.len()) as u64);
        let world = devices.0.borrow();
        for (page, bytes) in (0..).zip(world.synced.chunks(page_bytes as usize)) {
            let is_home = dirty.contains(&page) && !lost.contains(&page);
            let expected = if is_home { content(page, page_bytes) } else { vec![0; bytes.len()] };
            assert!(bytes == expected, "page {page}");
        }
        assert!(world.writes < dirty.len() / 2, "neighbours on disk are written together");
        drop(world);
        let again = Flash::read(&mut devices.clone()).unwrap().contents();
        assert_eq!(again.held_pages, u64::from(count));
        assert_eq!(again.dirty_pages, lost.len() as u64);
    }

    #[test]
    fn neighbours_on_flash_are_read_together() {
        let pages: Vec<u32> = (0..700).map(|slot| slot * 3 % 700).collect();
        let (devices, mut flash) = cache(&pages, 4096);
        drain(&devices, &mut flash).unwrap();
        // Six dirty slots, and then a clean one.
        assert_eq!(devices.0.borrow().reads, 100);
    }

    #[test]
    fn nothing_is_lost_wherever_a_drain_is_cut_off() {
        let pages: Vec<u32> = (0..30).map(|slot| slot * 7 % 30 * 2).collect();
        let mut outcomes = BTreeSet::new();
        for operations in 1.. {
            let (devices, mut flash) = cache(&pages, 4096);
            devices.0.borrow_mut().operations_left = operations;
            let result = drain(&devices, &mut flash);
            devices.0.borrow_mut().operations_left = u64::MAX;
            outcomes.insert(match &result {
                Ok(_) => "done",
                Err(FlashError::BackingWrite { .. }) => "write",
                Err(FlashError::BackingSync(_)) => "sync",
                Err(_) => "flash",
            });
            let found = Flash::recover(&mut devices.clone()).unwrap();
            let world = devices.0.borrow();
            for (slot, &page) in pages.iter().enumerate() {
                let is_home = world.synced[page as usize * 4096..][..4096] == content(page, 4096);
                let row = found.rows[slot].expect("a drain drops no page");
                assert!(
                    slot % 7 == 0 || row.is_dirty || is_home,
                    "page {page}, cut at {operations}"
                );
            }
            if result.is_ok_and(|drained| drained.lost_pages.is_empty()) {
                break;
            }
        }
        assert_eq!(outcomes, ["done", "flash", "sync", "write"].into());
    }
}
