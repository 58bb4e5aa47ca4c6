//! The faults of devices, drawn and injected.

use std::collections::BTreeSet;
use std::ops::Range;

use thermocline_core::random::SplitMix64;
use thermocline_engine::Layout;

use super::disk::{Access, Answer, Disk, Fault, SECTOR};
use super::fuse::Mount;
use super::oracle::{Found, decode};
use super::plan::{Kind, Shape};

/// Bytes of a block of the flash's metadata.
const BLOCK_BYTES: usize = 4096;
/// Fewer slots than this are damaged at a time.
const ROT_SLOTS_LIMIT: u32 = 60;

/// The fault of a device.
#[derive(Clone, Debug)]
pub(super) struct Injected {
    pub(super) hits_flash: bool,
    pub(super) fault: Option<Fault>,
}

/// Make a device fail from now on in the way of that kind.
pub(super) fn inject(
    mount: &Mount,
    kind: Kind,
    has_flash: bool,
    random: &mut SplitMix64,
) -> Injected {
    let hits_flash = has_flash
        && (kind == Kind::FlashFails || kind != Kind::BackingFails && random.below(2) == 0);
    let answer = if kind == Kind::NoSpace {
        Answer::NoSpace
    } else if kind == Kind::Hang {
        Answer::Hang
    } else {
        Answer::Io
    };
    let on = if kind == Kind::NoSpace {
        vec![Access::Write]
    } else if kind == Kind::SyncFails {
        vec![Access::Sync]
    } else {
        draw_accesses(random)
    };
    let left = if kind == Kind::SyncFails {
        1 + random.below(3)
    } else if kind == Kind::Hang || random.below(2) == 0 {
        u32::MAX
    } else {
        1 + random.below(20)
    };
    let is_full = kind == Kind::NoSpace && random.below(2) == 0;
    mount.with(|disk| {
        disk.is_full = is_full;
        put(disk, hits_flash, Fault { answer, on, range: 0..0, left }, random)
    })
}

/// Make a device fail some operations of a start.
pub(super) fn inject_at_start(mount: &Mount, has_flash: bool, random: &mut SplitMix64) -> Injected {
    let hits_flash = has_flash && random.below(3) > 0;
    let on = draw_accesses(random);
    let fault = Fault { answer: Answer::Io, on, range: 0..0, left: 1 + random.below(4) };
    mount.with(|disk| put(disk, hits_flash, fault, random))
}

fn draw_accesses(random: &mut SplitMix64) -> Vec<Access> {
    match random.below(4) {
        0 => vec![Access::Read],
        1 => vec![Access::Write],
        2 => vec![Access::Read, Access::Write],
        _ => vec![Access::Read, Access::Write, Access::Sync],
    }
}

/// Gives the fault to a file, for a range of it that is drawn.
fn put(disk: &mut Disk, hits_flash: bool, mut fault: Fault, random: &mut SplitMix64) -> Injected {
    let name = if hits_flash { "flash.img" } else { "backing.img" };
    let Some(file) = disk.named_mut(name) else { return Injected { hits_flash, fault: None } };
    let end = file.bytes().len() as u64;
    let middle = end * u64::from(random.below(100)) / 100;
    fault.range = match random.below(5) {
        // On a flash, these are the superblocks, the journal and a part of the table.
        0 => 0..end / 16,
        1 => 0..middle + 1,
        2 => middle..end,
        _ => 0..end,
    };
    file.fault = Some(fault.clone());
    Injected { hits_flash, fault: Some(fault) }
}

/// Return the end of the flash's metadata and the start of its slots, in bytes.
fn slots_of(flash_bytes: usize, shape: Shape) -> Option<Range<usize>> {
    let layout = Layout::fitting(flash_bytes as u64, shape.page_bytes)?;
    let first = layout.metadata_bytes().next_multiple_of(shape.page_bytes.into());
    Some(usize::try_from(first).ok()?..flash_bytes)
}

/// Damages one byte in each of some slots. Returns the sectors of the pages that these hold.
pub(super) fn rot_slots(disk: &mut Disk, shape: Shape, random: &mut SplitMix64) -> BTreeSet<usize> {
    let mut rotten = BTreeSet::new();
    let Some(file) = disk.named_mut("flash.img") else { return rotten };
    let Some(slots) = slots_of(file.bytes().len(), shape) else { return rotten };
    let page_bytes = shape.page_bytes as usize;
    let count = u32::try_from(slots.len() / page_bytes).unwrap_or(u32::MAX);
    for _ in 0..=random.below(ROT_SLOTS_LIMIT) {
        let start = slots.start + random.below(count) as usize * page_bytes;
        let (place, mask) = (random.below(shape.page_bytes), 1 << random.below(8));
        // Zeroes do not say whose they are.
        let sector = file.read(start, page_bytes).chunks(SECTOR).find_map(|bytes| {
            match decode(usize::MAX, bytes) {
                Found::Misplaced { sector, .. } => usize::try_from(sector).ok(),
                Found::Written(_) | Found::Garbage => None,
            }
        });
        if let Some(sector) = sector {
            let first = sector / shape.page_sectors() * shape.page_sectors();
            rotten.extend(first..first + shape.page_sectors());
            file.rot(start + place as usize, mask);
        }
    }
    rotten
}

/// Damages one block of the flash's metadata, which has another copy.
pub(super) fn rot_metadata(disk: &mut Disk, shape: Shape, random: &mut SplitMix64) {
    let Some(file) = disk.named_mut("flash.img") else { return };
    let Some(slots) = slots_of(file.bytes().len(), shape) else { return };
    let blocks = u32::try_from(slots.start / BLOCK_BYTES).unwrap_or(u32::MAX);
    let start = random.below(blocks) as usize * BLOCK_BYTES;
    for _ in 0..=random.below(3) {
        file.rot(start + random.below(4096) as usize, 1 << random.below(8));
    }
}
