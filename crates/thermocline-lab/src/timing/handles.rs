//! The placement handles of the drives of cache tiers, and what chooses among them.

use thermocline_core::{PageId, Tier};
use thermocline_trace::CompiledTrace;

use super::layout::Slots;
use super::{SPARE_SLOTS, Timing};
use crate::placing::{Handles, WriteSource, writes_of};
use crate::spec::Step::Key;
use crate::{Configuration, LabError, Watch};

/// The handles of each device, the disk's last, and the group of each page if a chooser asks for it.
type OfTiers = (Vec<Option<Handles>>, Option<Box<[u8]>>);

/// Return the handles of the drives of a hierarchy. Only drives of cache tiers that clients share have
/// some: in the first tiers and on the disk, every page has one address for good.
///
/// # Errors
/// If the trace does not tell what a chooser asks for, or an oracle cannot know the writes to come.
pub(super) fn of_tiers(
    trace: &CompiledTrace,
    configuration: &Configuration,
    timing: &Timing,
    watch: &Watch,
) -> Result<OfTiers, LabError> {
    let first = usize::from(configuration.clients.get());
    let capacities = configuration.tier_capacities_pages(trace)?;
    let mut groups = None;
    let mut handles = vec![];
    for (place, model) in timing.models(configuration.clients).into_iter().enumerate() {
        let capacity = capacities.get(place).filter(|_| place >= first);
        let (Some(&capacity), Some((placement, streams))) = (capacity, model.placement()) else {
            handles.push(None);
            continue;
        };
        let chooser = streams.map(|streams| {
            let found = streams.groups(trace)?;
            groups = groups.take().or(found);
            let tier = Tier(u8::try_from(place).expect("there are few tiers"));
            let slots = Slots::new(capacity, trace.footprint_pages());
            let addresses = u64::from(capacity) + SPARE_SLOTS;
            let addresses = u32::try_from(addresses).unwrap_or(u32::MAX);
            let writes = || writes_to_come(trace, configuration, tier, slots, watch);
            streams.chooser(placement.handles, trace.footprint_pages(), addresses, writes)
        });
        handles.push(Some(Handles::new(placement.handles, streams, chooser.transpose()?)));
    }
    Ok((handles, groups))
}

/// Return the addresses that the policy will write in a tier, for an oracle.
fn writes_to_come(
    trace: &CompiledTrace,
    configuration: &Configuration,
    tier: Tier,
    slots: Slots,
    watch: &Watch,
) -> Result<Vec<PageId>, LabError> {
    if configuration.policy.capabilities.needs_clock {
        let reason = format!(
            "`{}` decides by the time, so an oracle does not know what it will write: choose handles in another way",
            configuration.policy.name
        );
        return Err(LabError::at(&[Key("streams")], reason));
    }
    let source = WriteSource { clients: configuration.clients, groups: None };
    let mut policy = configuration.build(trace)?;
    let writes = writes_of(trace, &mut *policy, tier, slots, source, watch)?;
    Ok(writes.into_iter().map(|write| write.address).collect())
}
