//! The writes that a policy makes to one of its tiers, on the slots that pages have there.

use thermocline_core::config::Values;
use thermocline_core::registry::PolicyEntry;
use thermocline_core::{Access, Action, Actions, Clients, Op, PageId, Policy, Setup, Tier};
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

/// Origin of a write to a tier: who causes it, and where its page comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteSource<'a> {
    /// Number of clients, whose first tiers count as one.
    pub(crate) clients: Clients,
    /// The group of each page, if any chooser asks for it.
    pub(crate) groups: Option<&'a [u8]>,
}

impl WriteSource<'_> {
    /// Return the write of a page, at its address, from a tier; an access of `client` causes it.
    pub(crate) fn write(self, page: PageId, address: u32, source: Tier, client: u8) -> DriveWrite {
        let source = Tier(source.0.saturating_sub(self.clients.get() - 1));
        let group = self.groups.map_or(0, |groups| groups[page.index()]);
        DriveWrite { address: PageId(address), page, client, source, group }
    }
}

/// Runs a policy over a trace of one client and keeps what it writes to a tier: the pages that it copies
/// there, and the writes that it serves there. A page takes the slot that is free longest; one that the
/// policy copies within the tier takes another slot.
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
    let slots = Slots::new(capacity, trace.footprint_pages());
    let source = WriteSource { clients: Clients::ONE, groups: None };
    let writes = writes_of(trace, &mut *policy, tier, slots, source, watch)?;
    let slots = u64::from(capacity.min(trace.footprint_pages())) + SPARE_SLOTS;
    Ok(TierWrites { writes, slots: u32::try_from(slots).unwrap_or(u32::MAX) })
}

/// Runs a policy over its trace and keeps what it writes to a tier that has these slots.
///
/// # Errors
/// If `watch` is stopped.
pub(crate) fn writes_of(
    trace: &CompiledTrace,
    policy: &mut dyn Policy,
    tier: Tier,
    mut slots: Slots,
    source: WriteSource<'_>,
    watch: &Watch,
) -> Result<Vec<DriveWrite>, LabError> {
    let mut actions = Actions::new();
    let mut writes = vec![];
    for (index, access) in trace.accesses().enumerate() {
        if index % CHUNK_ACCESSES == 0 {
            watch.check()?;
        }
        actions.clear();
        policy.access(access, &mut actions);
        for &action in actions.as_slice() {
            writes.extend(written(action, access, tier, &mut slots, source));
        }
    }
    policy.assert_invariants();
    Ok(writes)
}

/// Return the write of an action to a tier, and note which slots are free after it.
fn written(
    action: Action,
    access: Access,
    tier: Tier,
    slots: &mut Slots,
    origin: WriteSource<'_>,
) -> Option<DriveWrite> {
    let (page, source) = match action {
        Action::Serve { page, op: Op::Write, tier: served, .. } if served == tier => {
            (page, Tier::RAM)
        }
        Action::Copy { page, source, target } if target == tier => (page, source),
        Action::Drop { page, tier: dropped } if dropped == tier => {
            slots.drop_page(page);
            return None;
        }
        Action::Serve { .. } | Action::Copy { .. } | Action::Drop { .. } => return None,
    };
    if source == tier {
        slots.drop_page(page);
    }
    let address = u32::try_from(slots.slot(page)).unwrap_or(u32::MAX);
    Some(origin.write(page, address, source, access.client))
}
