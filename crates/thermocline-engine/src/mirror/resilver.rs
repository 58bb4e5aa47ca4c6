//! A copy of a member for a device that takes the place of the other one.

use std::ops::Range;

use super::home;
use crate::format::{BLOCK_BYTES, checksum};
use crate::operation::Member;
use crate::recovery::{Flash, FlashError};
use crate::sharding::FlashSet;
use crate::storage::{AlignedBytes, Storage};

/// Bytes that are copied at a time.
const COPIED_BYTES: usize = 4 << 20;

/// Result of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resilvered {
    /// Pages that the new member has.
    pub pages: u64,
    /// Dirty pages whose only copy is damaged.
    pub lost_pages: u64,
}

/// Copies what a member holds to a new one, which gets its label afterwards: the blocks of metadata, dirty
/// pages, and the clean ones that belong to the new member. `sets` are the flashes on it, each with its
/// beginning; `head` is what the flash has before them. Bytes that are done, of all, go to `watch`.
///
/// # Errors
/// If a device fails. A page that cannot be read is left out.
pub fn resilver(
    source: &mut dyn Storage,
    target: &mut dyn Storage,
    member: Member,
    head: Range<u64>,
    sets: &[(u64, &FlashSet)],
    mut watch: impl FnMut(u64, u64),
) -> Result<Resilvered, FlashError> {
    let mut done = Resilvered::default();
    let regions = || {
        sets.iter().flat_map(|(start, set)| {
            let each = set.flashes().iter().enumerate();
            each.map(move |(shard, flash)| (start + set.range(shard).start, flash))
        })
    };
    let all_bytes: u64 = regions().map(|(start, flash)| bytes_of(flash, start, member)).sum();
    let mut done_bytes = 0;
    copy(source, target, head)?;
    for (start, flash) in regions() {
        copy(source, target, start..start + flash.superblock().layout.metadata_bytes())?;
        let mut copying = Copying { source: &mut *source, target: &mut *target, start, flash };
        for slots in wanted(flash, start, member) {
            copying.copy_slots(&slots, &mut done)?;
            done_bytes += slots.len() as u64 * u64::from(flash.superblock().layout.page_bytes);
            watch(done_bytes, all_bytes);
        }
    }
    target.sync()?;
    Ok(done)
}

/// Return `true` if a member has to have what a slot holds.
fn is_wanted(flash: &Flash, start: u64, slot: u32, member: Member) -> bool {
    let row = flash.rows[slot as usize];
    let is_home = || home(start + flash.slot_offset_bytes(slot)) == member;
    row.is_some_and(|row| row.is_dirty || is_home())
}

fn bytes_of(flash: &Flash, start: u64, member: Member) -> u64 {
    let layout = flash.superblock().layout;
    let slots = (0..layout.slots).filter(|&slot| is_wanted(flash, start, slot, member));
    slots.count() as u64 * u64::from(layout.page_bytes)
}

/// Return the slots that a member has to have, some at a time.
fn wanted(flash: &Flash, start: u64, member: Member) -> impl Iterator<Item = Vec<u32>> {
    let layout = flash.superblock().layout;
    let most = (COPIED_BYTES / layout.page_bytes as usize).max(1);
    let mut slots = (0..layout.slots).filter(move |&slot| is_wanted(flash, start, slot, member));
    std::iter::from_fn(move || {
        let next: Vec<u32> = slots.by_ref().take(most).collect();
        (!next.is_empty()).then_some(next)
    })
}

/// Copies a range, block by block where it cannot be read as a whole. Blocks that cannot be read stay what they
/// are: their copies count.
fn copy(
    source: &mut dyn Storage,
    target: &mut dyn Storage,
    range: Range<u64>,
) -> Result<(), FlashError> {
    let mut memory = AlignedBytes::new(COPIED_BYTES);
    let mut at = range.start;
    while at < range.end {
        let length =
            usize::try_from(range.end - at).map_or(COPIED_BYTES, |rest| rest.min(COPIED_BYTES));
        let bytes = &mut memory.bytes_mut()[..length];
        if source.read_at(at, bytes).is_ok() {
            target.write_at(at, bytes)?;
        } else {
            for (offset, block) in (at..).step_by(BLOCK_BYTES).zip(bytes.chunks_mut(BLOCK_BYTES)) {
                if source.read_at(offset, block).is_ok() {
                    target.write_at(offset, block)?;
                }
            }
        }
        at += length as u64;
    }
    Ok(())
}

/// Slots of a region on their way.
struct Copying<'a> {
    source: &'a mut dyn Storage,
    target: &'a mut dyn Storage,
    start: u64,
    flash: &'a Flash,
}

impl Copying<'_> {
    fn copy_slots(&mut self, slots: &[u32], done: &mut Resilvered) -> Result<(), FlashError> {
        let page_bytes = self.flash.superblock().layout.page_bytes as usize;
        let mut memory = AlignedBytes::new(slots.len() * page_bytes);
        let places = slots.iter().map(|&slot| self.start + self.flash.slot_offset_bytes(slot));
        let mut pieces: Vec<(u64, &mut [u8])> =
            places.zip(memory.bytes_mut().chunks_mut(page_bytes)).collect();
        let results = self.source.read_each(&mut pieces);
        let mut written: Vec<(u64, &[u8])> = vec![];
        for ((&slot, (offset, bytes)), result) in slots.iter().zip(pieces).zip(results) {
            let row = self.flash.rows[slot as usize].expect("a slot that is copied holds a page");
            let is_intact = checksum(row.page, row.version, bytes) == row.checksum;
            if result.is_ok() && is_intact {
                done.pages += 1;
                written.push((offset, &*bytes));
            } else {
                done.lost_pages += u64::from(row.is_dirty);
            }
        }
        Ok(self.target.write_each(&written)?)
    }
}
