//! What prompts cost in money: processors while they prefill, and tiers while they stand there.

use super::{KvCosts, KvSummary};
use crate::SECONDS_PER_DAY;

/// Bytes of a GiB.
const GIB: f64 = (1_u64 << 30) as f64;

/// Days of a year.
const DAYS_PER_YEAR: f64 = 365.25;

/// The price of all prompts of a run; none if the processors, or no tier, have one.
pub(super) fn dollars(run: &KvSummary, costs: &KvCosts) -> Option<f64> {
    let hour = costs.processors_per_hour?;
    let prefill = run.prefill_s()? * hour / 3600.0;
    let block_bytes = run.block_bytes? as f64;
    let tiers = run.tiers.iter().enumerate().filter_map(|(place, tier)| {
        let price = tier.costs.price_per_gib?;
        let blocks = (tier.capacity_blocks * tier.copies) as f64;
        let price = price * blocks * block_bytes / GIB;
        // Wear that is faster than time uses a drive up before it is written off.
        let time = run.duration_s / (costs.write_off_years * DAYS_PER_YEAR * SECONDS_PER_DAY);
        let wear = run.drive_writes(place).zip(tier.costs.rated_writes);
        let wear = wear.map_or(0.0, |(writes, rated)| writes / rated);
        Some(price * time.max(wear))
    });
    Some(prefill + tiers.sum::<f64>())
}
