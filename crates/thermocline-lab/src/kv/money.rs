//! Cost of prompts in money: processors while they prefill, and tiers while they stand there.

use super::{KvCosts, KvSummary};
use crate::SECONDS_PER_DAY;
use crate::numbers::DAYS_PER_YEAR;

/// Bytes of a GiB.
pub(crate) const GIB: f64 = (1_u64 << 30) as f64;

/// Sets the prices of a run: that of the processors, and those of tiers that have one.
pub(super) fn set(run: &mut KvSummary, costs: &KvCosts) {
    let processors = costs.processors_per_hour.zip(run.prefill_s());
    run.processor_dollars = processors.map(|(hour, prefill_s)| prefill_s * hour / 3600.0);
    for place in 0..run.tiers.len() {
        run.tiers[place].dollars = tier(run, place, costs);
    }
}

fn tier(run: &KvSummary, place: usize, costs: &KvCosts) -> Option<f64> {
    let tier = &run.tiers[place];
    let price = tier.costs.price_per_gib?;
    let blocks = (tier.capacity_blocks * tier.copies) as f64;
    let price = price * blocks * run.block_bytes? as f64 / GIB;
    // Wear that is faster than time uses a drive up before it is written off.
    let time = run.duration_s / (costs.write_off_years * DAYS_PER_YEAR * SECONDS_PER_DAY);
    let wear = run.drive_writes(place).zip(tier.costs.rated_writes);
    let wear = wear.map_or(0.0, |(writes, rated)| writes / rated);
    Some(price * time.max(wear))
}
