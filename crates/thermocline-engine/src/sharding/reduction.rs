//! Fewer slots for a flash that holds pages: others can have the room.
//!
//! 1. Each shard leaves the slots from a number on, until it uses none of them and no durable record or row names
//!    them: [`Shard::leave_slots`](crate::Shard::leave_slots) until
//!    [`Shard::has_left_slots`](crate::Shard::has_left_slots).
//! 2. [`Reduction::plan`] reads the layouts and [`Reduction::apply`] writes both superblocks of each region, which
//!    name the slots that stay. A power cut leaves a region as it was before or after that, and nothing is in the
//!    slots that go.
//! 3. Only then may somebody else have the room, and [`Reduced::give_back`] takes it from the volume.
//! 4. Each shard forgets the slots: [`Shard::give_up_slots`](crate::Shard::give_up_slots).

use std::ops::Range;

use uuid::Uuid;

use super::resizing::Resizing;
use crate::directory::{Directory, DirectoryError};
use crate::format::Layout;
use crate::recovery::FlashError;
use crate::storage::Storage;

/// The slots that are to stay in the regions of a flash.
#[derive(Clone, Debug)]
pub struct Reduction {
    resizing: Resizing,
}

/// The slots that the regions of a flash durably have.
#[derive(Clone, Debug)]
pub struct Reduced {
    resizing: Resizing,
}

impl Reduction {
    /// Plan the slots for each region of a flash that engines use: those of the cache and the epoch `running`, if that
    /// is given. `left` has what [`Shard::has_left_slots`](crate::Shard::has_left_slots) says of each shard, in
    /// order; a region of which it says nothing keeps its slots.
    ///
    /// # Errors
    /// If the flash cannot be read, or belongs to another cache or epoch.
    pub fn plan(
        storage: &mut dyn Storage,
        left: &[Option<u32>],
        running: Option<(Uuid, u64)>,
    ) -> Result<Self, FlashError> {
        let mut resizing = Resizing::read(storage, running)?;
        for (region, left) in resizing.regions.iter_mut().zip(left) {
            let kept = left.unwrap_or(u32::MAX).clamp(1, region.former.slots);
            region.layout = region.former.with_first(kept);
        }
        Ok(Self { resizing })
    }

    /// Make the layouts durable.
    ///
    /// # Errors
    /// If a device fails. One copy of a superblock may name the former slots then, and one may not: no shard may use
    /// those slots, and nobody else their room, until this has succeeded.
    pub fn apply(self, storage: &mut dyn Storage) -> Result<Reduced, FlashError> {
        // Rule 12: after a power cut, a start uses all the room that a superblock names. So only the result of this
        // can give room back.
        self.resizing.write_superblocks(storage)?;
        Ok(Reduced { resizing: self.resizing })
    }

    /// Return `true` if a volume has room that its regions would not use.
    ///
    /// # Errors
    /// If no volume has the name.
    pub fn leaves_room(&self, directory: &Directory, name: &str) -> Result<bool, DirectoryError> {
        directory.has_unused(name, &used(&self.resizing, directory, name)?)
    }
}

impl Reduced {
    /// Take from a volume what its regions do not use, durably.
    ///
    /// # Errors
    /// If no volume has the name, or a device fails. The volume keeps what it has then.
    pub fn give_back(
        &self,
        directory: &mut Directory,
        storage: &mut dyn Storage,
        name: &str,
    ) -> Result<(), DirectoryError> {
        let used = used(&self.resizing, directory, name)?;
        directory.give_back(storage, name, &used)
    }

    /// Return the layout of each region, in order.
    pub fn layouts(&self) -> Vec<Layout> {
        self.resizing.layouts()
    }
}

/// Return the ranges of the flash that the regions of a volume will use.
fn used(
    resizing: &Resizing,
    directory: &Directory,
    name: &str,
) -> Result<Vec<Range<u64>>, DirectoryError> {
    let start = directory.region(name)?.start;
    let of_flash =
        |range: Range<u64>| start.wrapping_add(range.start)..start.wrapping_add(range.end);
    Ok(resizing.used_later().into_iter().map(of_flash).collect())
}
