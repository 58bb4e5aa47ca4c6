//! The drive that a tier lies on: how much its cells are written for each block that enters.
//!
//! The tier is an array of slots of one block. A block that enters takes the slot of one that left, so
//! the drive sees it as overwritten. The copies of garbage collection depend on how many blocks share
//! an erase unit (a flash block of every plane, which a drive fills together), and in which order they
//! leave.
//!
//! * Source: none; our model of a solid-state drive, on a smaller drive with the same spare area, the
//!   same garbage collection and the same number of blocks per erase unit.
//! * State: 4 bytes per block that exists, and the drive: 8 bytes per page, 1 to 64 pages per slot.
//! * Cost: that of the drive for the pages of a slot, per block that enters.
//! * Deviations: (1) nothing is trimmed when a block leaves: its slot is filled again within the same
//!   request once the tier is full. (2) An erase unit smaller than 2/64 of a block is taken for that, and one
//!   larger than 16,384 blocks for 16,384. (3) A tier smaller than the least drive of its kind has more
//!   spare area than the drive.

use serde::Serialize;
use thermocline_core::{Action, Actions, PageId, Tier};
use thermocline_device::queueing::{DeviceOp, DeviceRequest};
use thermocline_device::ssd::{Allocation, GcBlocks, Mapping, Ssd, SsdConfig, WriteCompletes};

use crate::LabError;

/// The least number of model pages per slot, unless the erase unit would have too many.
const SLOT_PAGES_MIN: u64 = 4;
/// The greatest number of them.
const SLOT_PAGES_MAX: u64 = 64;
/// Model pages of an erase unit at least, so that it is rounded by little.
const UNIT_PAGES_WANTED: u64 = 8;
/// The fewest model pages of an erase unit that a drive takes.
const UNIT_PAGES_MIN: u64 = 2;
/// The most of them.
const UNIT_PAGES_MAX: u64 = 16_384;

/// A block without a slot.
const NONE: u32 = u32::MAX;

/// Effect of a drive on the writes of a tier.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KvDriveSummary {
    /// Its name.
    pub name: String,
    /// Pages that its cells take per page of a block that enters, counted from when the tier was full. It
    /// is among the figures of the tier.
    #[serde(skip)]
    pub write_amplification: f64,
    /// Erases that its cells bear.
    pub erase_limit: u32,
}

/// A place with a drive beneath.
#[derive(Debug)]
pub(super) struct PlaceDrive {
    place: Tier,
    ssd: Ssd,
    slot_pages: u64,
    slot_of: Box<[u32]>,
    free: Vec<u32>,
    /// Blocks that entered before another one left.
    waiting: Vec<PageId>,
    was_full: bool,
}

impl PlaceDrive {
    /// Create an empty drive for the slots of a place.
    ///
    /// # Errors
    /// If a drive cannot have that many pages.
    pub(super) fn new(
        place: Tier,
        slots: u32,
        block_bytes: u64,
        blocks: u32,
        config: &SsdConfig,
    ) -> Result<Self, LabError> {
        let (slot_pages, unit_pages) = scale(block_bytes, erase_unit_bytes(config));
        let config = SsdConfig {
            channels: 1,
            chips_per_channel: 1,
            dies_per_chip: 1,
            planes_per_die: 1,
            pages_per_block: u32::try_from(unit_pages).unwrap_or(u32::MAX),
            pages_per_program: 1,
            page_bytes: 4096,
            write_completes: WriteCompletes::Program,
            write_buffer_bytes: 0,
            // There is no buffer to protect.
            power_loss_protection: false,
            mapping: Mapping::Page,
            mapping_unit_pages: 1,
            allocation: Allocation::Dynamic,
            gc_blocks: GcBlocks::Separate,
            streams: 1,
            placement: None,
            erase_limit: u32::MAX,
            datasheet: None,
            ..config.clone()
        };
        let ssd = Ssd::new(&config.sized_for(u64::from(slots) * slot_pages)?, None)?;
        Ok(Self {
            place,
            ssd,
            slot_pages,
            slot_of: vec![NONE; blocks as usize].into_boxed_slice(),
            free: (0..slots).rev().collect(),
            waiting: vec![],
            was_full: false,
        })
    }

    /// Follows the moves of a request.
    ///
    /// # Errors
    /// If the drive refuses the request.
    pub(super) fn follow(&mut self, moves: &Actions) -> Result<(), LabError> {
        for action in moves.as_slice() {
            match *action {
                Action::Copy { page, target, .. } if target == self.place => self.enter(page)?,
                Action::Drop { page, tier } if tier == self.place => self.leave(page)?,
                Action::Serve { .. } | Action::Copy { .. } | Action::Drop { .. } => {}
            }
        }
        Ok(())
    }

    fn enter(&mut self, page: PageId) -> Result<(), LabError> {
        if !self.was_full && self.free.is_empty() {
            // While a drive fills up it has nothing to collect, which is no measure of its life.
            self.was_full = true;
            self.ssd.reset_metrics();
        }
        let own = self.slot_of[page.index()];
        match if own == NONE { self.free.pop() } else { Some(own) } {
            Some(slot) => self.write(page, slot),
            None => {
                self.waiting.push(page);
                Ok(())
            }
        }
    }

    fn leave(&mut self, page: PageId) -> Result<(), LabError> {
        let slot = std::mem::replace(&mut self.slot_of[page.index()], NONE);
        if slot == NONE {
            // It came and went while no slot was free, and was never written.
            self.waiting.retain(|&waiting| waiting != page);
            return Ok(());
        }
        match self.waiting.pop() {
            Some(next) => self.write(next, slot),
            None => {
                self.free.push(slot);
                Ok(())
            }
        }
    }

    fn write(&mut self, page: PageId, slot: u32) -> Result<(), LabError> {
        self.slot_of[page.index()] = slot;
        let first = u64::from(slot) * self.slot_pages;
        for page in first..first + self.slot_pages {
            self.ssd.apply(DeviceRequest { op: DeviceOp::Write, page, pages: 1 })?;
        }
        Ok(())
    }
}

/// Summarise the effect of a tier's drives, one for each of its places, on its writes.
pub(super) fn summary(config: &SsdConfig, drives: &[&PlaceDrive]) -> KvDriveSummary {
    let all = drives.iter().map(|drive| drive.ssd.metrics());
    let (programs, writes) = all.fold((0, 0), |(programs, writes), one| {
        let programmed = one.host_programs + one.gc_copies + one.wear_copies;
        (programs + programmed, writes + one.host_writes)
    });
    KvDriveSummary {
        name: config.name.clone(),
        write_amplification: if writes == 0 { 1.0 } else { programs as f64 / writes as f64 },
        erase_limit: config.erase_limit,
    }
}

/// Return the number of times that all of a tier may be written, on a drive with this write
/// amplification.
pub(crate) fn rated_writes(config: &SsdConfig, write_amplification: f64) -> f64 {
    f64::from(config.erase_limit) / (1.0 - config.over_provisioning) / write_amplification
}

/// Return the number of bytes that the drive erases together: a block of every plane.
fn erase_unit_bytes(config: &SsdConfig) -> u64 {
    let planes = [config.channels, config.chips_per_channel, config.dies_per_chip];
    let planes = planes.into_iter().map(u64::from).product::<u64>();
    planes
        * u64::from(config.planes_per_die)
        * u64::from(config.pages_per_block)
        * u64::from(config.page_bytes)
}

/// Model pages of a slot and of an erase unit.
fn scale(block_bytes: u64, unit_bytes: u64) -> (u64, u64) {
    let fine = (UNIT_PAGES_WANTED * block_bytes).div_ceil(unit_bytes);
    let most = (UNIT_PAGES_MAX * block_bytes / unit_bytes).max(1);
    let slot_pages = fine.clamp(SLOT_PAGES_MIN, SLOT_PAGES_MAX).min(most);
    let unit_pages = (unit_bytes * slot_pages + block_bytes / 2) / block_bytes;
    (slot_pages, unit_pages.clamp(UNIT_PAGES_MIN, UNIT_PAGES_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::KV_MODELS;

    const BLOCKS: u32 = 8000;

    /// Create a drive for `slots` slots of 160 MiB.
    fn drive(name: &str, slots: u32) -> (SsdConfig, PlaceDrive) {
        let config = SsdConfig::preset(name).unwrap();
        let drive = PlaceDrive::new(Tier(2), slots, 160 << 20, BLOCKS, &config).unwrap();
        (config, drive)
    }

    /// Blocks enter, and each pushes out the one that `victim` gives.
    fn amplification(name: &str, victim: impl Fn(u32) -> u32) -> f64 {
        let (config, mut drive) = drive(name, 1024);
        let mut held: Vec<u32> = vec![];
        for block in 0..BLOCKS {
            let mut moves = Actions::new();
            moves.copy(PageId(block), Tier(3), Tier(2));
            if held.len() == 1024 {
                let gone = held.remove(victim(block) as usize);
                moves.drop_copy(PageId(gone), Tier(2));
            }
            // Moves of other tiers are no business of the drive.
            moves.copy(PageId(block), Tier(3), Tier(1));
            held.push(block);
            drive.follow(&moves).unwrap();
            assert_eq!(drive.free.len() + held.len(), 1024, "each block has one slot");
            assert!(drive.waiting.is_empty());
        }
        summary(&config, &[&drive]).write_amplification
    }

    #[test]
    fn blocks_that_leave_in_the_order_in_which_they_came_are_never_copied() {
        assert!((amplification("tlc-nvme", |_| 0) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn blocks_that_leave_in_another_order_are_copied_if_several_share_an_erase_unit() {
        let mixed = |block: u32| block.wrapping_mul(2_654_435_761) >> 22;
        assert!(amplification("tlc-nvme", mixed) > 1.2);
        // Units of 16 MiB are shared at the ends of blocks of 160 MiB alone.
        let small = amplification("mlc-sata-2011", mixed);
        assert!(small < 1.1, "{small}");
    }

    #[test]
    fn an_erase_unit_keeps_its_share_of_a_block() {
        // 24 dies of 48 MiB: 7.2 blocks of 160 MiB.
        let tlc = SsdConfig::preset("tlc-nvme").unwrap();
        assert_eq!(erase_unit_bytes(&tlc), (24 * 48) << 20);
        assert_eq!(scale(160 << 20, (24 * 48) << 20), (4, 29));
        assert_eq!(scale(160 << 20, 160 << 20), (8, 8));
        assert_eq!(scale(160 << 20, 2 << 20), (64, 2));
        // 24 dies of 48 MiB: 8,192 blocks of 144 KiB, or 32,768 of 36 KiB.
        assert_eq!(scale(144 << 10, (24 * 48) << 20), (2, 16_384));
        assert_eq!(scale(36 << 10, (24 * 48) << 20), (1, 16_384));
        let rated = rated_writes(&tlc, 1.5);
        assert!((rated - 3000.0 / 0.882 / 1.5).abs() < 1e-9, "{rated}");
    }

    #[test]
    fn every_preset_takes_blocks_of_every_model() {
        for config in SsdConfig::presets() {
            let models = KV_MODELS.iter().flat_map(|model| {
                [1, 4, 16, 64, 256, 512].map(|tokens| (model.name, model.token_bytes * tokens))
            });
            for (model, block_bytes) in models {
                let unit_bytes = erase_unit_bytes(config);
                let (slot_pages, unit_pages) = scale(block_bytes, unit_bytes);
                let drive = PlaceDrive::new(Tier(1), 3, block_bytes, 8, config);
                let name = format!("{} {model} {block_bytes}", config.name);
                drive.unwrap_or_else(|error| panic!("{name}: {error}"));
                let ratio = unit_bytes as f64 / block_bytes as f64;
                let found = unit_pages as f64 / slot_pages as f64;
                let off = if (2.0 / 64.0..=16_384.0).contains(&ratio) { 0.25 } else { f64::MAX };
                assert!((found / ratio - 1.0).abs() <= off, "{name}: {found} in place of {ratio}");
            }
        }
    }

    #[test]
    fn a_block_that_never_had_a_slot_is_never_written() {
        let (config, mut drive) = drive("tlc-nvme", 64);
        let moves = |moves: &mut Actions, range: std::ops::Range<u32>| {
            range.for_each(|block| moves.copy(PageId(block), Tier(3), Tier(2)));
        };
        let mut first = Actions::new();
        moves(&mut first, 0..65);
        first.drop_copy(PageId(64), Tier(2));
        drive.follow(&first).unwrap();
        assert!(drive.waiting.is_empty() && drive.free.is_empty());
        assert_eq!(drive.ssd.metrics().host_writes, 0, "counted from when it was full");
        assert!((summary(&config, &[&drive]).write_amplification - 1.0).abs() < 1e-9);
    }
}
