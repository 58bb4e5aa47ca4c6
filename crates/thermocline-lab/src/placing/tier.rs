//! The writes that a policy makes to one of its tiers, on the slots that pages have there.

use thermocline_core::config::Values;
use thermocline_core::registry::PolicyEntry;
use thermocline_core::{Action, Actions, PageId, Setup, Tier};
use thermocline_trace::CompiledTrace;

use super::DriveWrite;
use crate::timing::{SPARE_SLOTS, Slots};
use crate::watch::CHUNK_ACCESSES;
use crate::{LabError, Watch};

/// The writes that a policy made to a tier.
#[derive(Clone, Debug)]
pub struct TierWrites {
    /// All of them, in order.
    pub writes: Vec<DriveWrite>,
    /// Pages that a drive beneath the tier needs.
    pub slots: u32,
}

/// Runs a policy over a trace of one client and keeps what it writes to a tier. A page takes the slot that
/// is free longest; one that the policy copies within the tier takes another slot.
///
/// # Errors
/// A policy that does not run on these tiers, a tier that is none of theirs, or a stopped `watch`.
pub fn tier_writes(
    trace: &CompiledTrace,
    entry: &PolicyEntry,
    values: &Values,
    capacity_pages: &[u32],
    tier: Tier,
    watch: &Watch,
) -> Result<TierWrites, LabError> {
    let Some(&capacity) = capacity_pages.get(tier.index()) else {
        let reason = format!(
            "there are {} cache tiers, and none has the number {}",
            capacity_pages.len(),
            tier.0
        );
        return Err(LabError::at(&[], reason));
    };
    let setup = Setup::new(trace.geometry(), capacity_pages.to_vec());
    let mut policy = entry.build(&setup, values)?;
    let mut slots = Slots::new(capacity, trace.footprint_pages());
    let mut actions = Actions::new();
    let mut writes = vec![];
    for (index, access) in trace.accesses().enumerate() {
        if index % CHUNK_ACCESSES == 0 {
            watch.check()?;
        }
        actions.clear();
        policy.access(access, &mut actions);
        for action in actions.as_slice() {
            match *action {
                Action::Copy { page, source, target } if target == tier => {
                    if source == tier {
                        slots.drop_page(page);
                    }
                    let address = u32::try_from(slots.slot(page)).unwrap_or(u32::MAX);
                    let client = access.client;
                    writes.push(DriveWrite { address: PageId(address), page, client, source });
                }
                Action::Drop { page, tier: dropped } if dropped == tier => slots.drop_page(page),
                Action::Serve { .. } | Action::Copy { .. } | Action::Drop { .. } => {}
            }
        }
    }
    policy.assert_invariants();
    let slots = u64::from(capacity.min(trace.footprint_pages())) + SPARE_SLOTS;
    Ok(TierWrites { writes, slots: u32::try_from(slots).unwrap_or(u32::MAX) })
}
