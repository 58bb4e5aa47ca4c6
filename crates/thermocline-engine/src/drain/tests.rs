#![expect(clippy::cast_possible_truncation, reason = "all numbers are small")]

use std::collections::BTreeSet;
use std::io;
use std::sync::MutexGuard;

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
struct Devices(Arc<Mutex<World>>);

impl Devices {
    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }
}

impl Storage for Devices {
    fn size_bytes(&mut self) -> io::Result<u64> {
        Ok(self.world().flash.len() as u64)
    }

    fn read_at(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> io::Result<()> {
        let mut world = self.world();
        let length = bytes.len() as u64;
        bytes.copy_from_slice(world.bytes(Device::Flash, offset_bytes, length));
        Ok(())
    }

    fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        let mut world = self.world();
        world.step()?;
        let length = bytes.len() as u64;
        world.bytes(Device::Flash, offset_bytes, length).copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.world().step()
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
            let result = self.devices.world().perform(&self.frames, &operation);
            done.push((operation, result.map_err(DeviceError::from)));
        }
    }

    fn wait(&mut self, done: &mut Vec<Completion>) {
        self.poll(done);
    }
}

/// Return the bytes of a page that only flash has.
fn content(page: u32, page_bytes: u32) -> Vec<u8> {
    let mut bytes = vec![page as u8 | 1; page_bytes as usize];
    bytes[..4].copy_from_slice(&page.to_le_bytes());
    bytes
}

/// Return a flash whose slots hold these pages; those of slots divisible by seven are clean.
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
    let mut devices = Devices(Arc::new(Mutex::new(world)));
    let cache = uuid::Uuid::from_u128(1);
    let made = Flash::initialise(&mut devices, cache, layout, backing_bytes as u64);
    let mut flash = made.unwrap();
    for (slot, &page) in (0..).zip(pages) {
        let bytes = content(page, page_bytes);
        let row = Row {
            page: page.into(),
            checksum: checksum(page.into(), 1, &bytes),
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

fn drain(devices: &Devices, flash: &mut Flash, workers: usize) -> Result<Drained, FlashError> {
    let backing_bytes = devices.world().backing.len() as u64;
    let open = |frames: &Arc<Frames>| {
        let (devices, frames) = (devices.clone(), Arc::clone(frames));
        Ok::<_, FlashError>(Reversed { devices, frames, taken: vec![] })
    };
    let workers = NonZeroUsize::new(workers).unwrap();
    let mut last = 0;
    flash.drain(&mut devices.clone(), backing_bytes, workers, open, |progress| {
        assert!((last..=progress.dirty_pages).contains(&progress.done_pages));
        last = progress.done_pages;
    })
}

#[test]
fn windows_of_any_slots_come_home_past_damaged_ones() {
    // More than all windows of a worker, in slots that have nothing to do with the pages' order, but
    // for a stretch of neighbours; some pages are on disk only.
    let page_bytes = 32 << 10;
    let count = u32::try_from(WINDOW_BYTES / page_bytes as usize * (WINDOWS + 1) + 3).unwrap();
    let mut pages: Vec<u32> = (0..count).map(|slot| slot * 1009 % count).collect();
    pages[..100].sort_unstable();
    for page in &mut pages {
        *page += *page / 50;
    }
    for workers in [1, 3] {
        check_windows(&pages, page_bytes, workers);
    }
}

fn check_windows(pages: &[u32], page_bytes: u32, workers: usize) {
    let (devices, mut flash) = cache(pages, page_bytes);
    let dirty = pages.iter().enumerate().filter(|(slot, _)| slot % 7 != 0);
    let dirty: BTreeSet<u32> = dirty.map(|(_, &page)| page).collect();
    let mut lost = [pages[11], pages[40], pages[2000]];
    {
        let mut world = devices.world();
        for slot in [11, 2000] {
            world.unreadable.insert(flash.slot_offset_bytes(slot));
        }
        let rotten = flash.slot_offset_bytes(40) + 5000;
        world.bytes(Device::Flash, rotten, 1)[0] ^= 1;
    }
    lost.sort_unstable();
    let drained = drain(&devices, &mut flash, workers).unwrap();
    assert!(drained.lost_pages.iter().copied().eq(lost.iter().map(|&page| page.into())));
    assert_eq!(drained.written_pages, (dirty.len() - lost.len()) as u64);
    let world = devices.world();
    for (page, bytes) in (0..).zip(world.synced.chunks(page_bytes as usize)) {
        let is_home = dirty.contains(&page) && !lost.contains(&page);
        let expected = if is_home { content(page, page_bytes) } else { vec![0; bytes.len()] };
        assert!(bytes == expected, "page {page}");
    }
    assert!(world.writes < dirty.len() / 2, "neighbours on disk are written together");
    drop(world);
    let again = Flash::read(&mut devices.clone()).unwrap().contents();
    assert_eq!(again.held_pages, pages.len() as u64);
    assert_eq!(again.dirty_pages, lost.len() as u64);
}

#[test]
fn neighbours_on_flash_are_read_together() {
    let pages: Vec<u32> = (0..700).map(|slot| slot * 3 % 700).collect();
    let (devices, mut flash) = cache(&pages, 4096);
    drain(&devices, &mut flash, 1).unwrap();
    // Six dirty slots, and then a clean one.
    assert_eq!(devices.world().reads, 100);
}

#[test]
fn nothing_is_lost_wherever_a_drain_is_cut_off() {
    check_cuts(4096, 1);
    // Two windows, each with a worker of its own.
    check_cuts(1 << 20, 2);
}

/// Cuts a drain off after each number of operations, until it gets through.
fn check_cuts(page_bytes: u32, workers: usize) {
    let pages: Vec<u32> = (0..20).map(|slot| slot * 7 % 20 * 2).collect();
    let length = page_bytes as usize;
    let mut outcomes = BTreeSet::new();
    for operations in 1.. {
        let (devices, mut flash) = cache(&pages, page_bytes);
        devices.world().operations_left = operations;
        let result = drain(&devices, &mut flash, workers);
        devices.world().operations_left = u64::MAX;
        outcomes.insert(match &result {
            Ok(_) => "done",
            Err(FlashError::BackingWrite { .. }) => "write",
            Err(FlashError::BackingSync(_)) => "sync",
            Err(_) => "flash",
        });
        let found = Flash::recover(&mut devices.clone()).unwrap();
        let world = devices.world();
        for (slot, &page) in pages.iter().enumerate() {
            let home = &world.synced[page as usize * length..][..length];
            let row = found.rows[slot].expect("a drain drops no page");
            assert!(
                slot % 7 == 0 || row.is_dirty || home == content(page, page_bytes),
                "page {page}, cut at {operations}"
            );
        }
        if result.is_ok_and(|drained| drained.lost_pages.is_empty()) {
            break;
        }
    }
    assert_eq!(outcomes, ["done", "flash", "sync", "write"].into());
}

#[test]
fn the_workers_stop_when_one_gets_no_driver() {
    let pages: Vec<u32> = (0..64).collect();
    let (devices, mut flash) = cache(&pages, 1 << 20);
    let backing_bytes = devices.world().backing.len() as u64;
    let opened = AtomicBool::new(false);
    let open = |frames: &Arc<Frames>| {
        if opened.swap(true, Ordering::Relaxed) {
            return Err(FlashError::Empty);
        }
        Ok(Reversed { devices: devices.clone(), frames: Arc::clone(frames), taken: vec![] })
    };
    let workers = NonZeroUsize::new(2).unwrap();
    let result = flash.drain(&mut devices.clone(), backing_bytes, workers, open, |_| {});
    assert!(matches!(result, Err(FlashError::Empty)), "{result:?}");
    assert_eq!(Flash::recover(&mut devices.clone()).unwrap().contents().dirty_pages, 54);
}
