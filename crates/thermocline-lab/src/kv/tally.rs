//! Cost of prompts: hits, work, and the time to the first token, added up.

use thermocline_core::CACHE_TIERS_MAX;
use thermocline_core::kv::KvFound;

use super::{KvConfiguration, KvCosts, KvModel};

/// Sums over requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) requests: u64,
    pub(super) tokens: u64,
    pub(super) blocks: u64,
    pub(super) hit_tokens: u64,
    pub(super) hit_blocks: u64,
    pub(super) stranded: u64,
    pub(super) complete: u64,
    pub(super) unlimited_hit_tokens: u64,
    pub(super) hits: [u64; CACHE_TIERS_MAX],
    pub(super) tier_tokens: [u64; CACHE_TIERS_MAX],
    pub(super) flops: u128,
    pub(super) saved_flops: u128,
    /// Times to the first token in seconds: the prefill, then what is loaded.
    pub(super) first_token_s: Vec<f64>,
    /// The same if loading and prefill go on at once.
    pub(super) overlapped_s: f64,
}

/// A request that was answered.
pub(super) struct Answered {
    pub(super) tokens: u64,
    pub(super) blocks: u64,
    /// Blocks that any request before had.
    pub(super) known_blocks: u64,
    pub(super) found: KvFound,
}

impl Tally {
    pub(super) fn add(
        &mut self,
        answered: &Answered,
        block_tokens: u32,
        configuration: &KvConfiguration,
    ) {
        let Answered { tokens, blocks, known_blocks, ref found } = *answered;
        let of_blocks = |blocks: u64| (blocks * u64::from(block_tokens)).min(tokens);
        let hit_blocks = u64::from(found.hit_blocks());
        let hit_tokens = of_blocks(hit_blocks);
        self.requests += 1;
        self.tokens += tokens;
        self.blocks += blocks;
        self.hit_tokens += hit_tokens;
        self.hit_blocks += hit_blocks;
        self.stranded += u64::from(found.stranded);
        self.complete += u64::from(blocks > 0 && hit_blocks == blocks);
        self.unlimited_hit_tokens += of_blocks(known_blocks);
        let mut before = 0;
        for (tier, &hits) in found.hits.iter().enumerate() {
            // Only the last block may be part, and the lowest tier that serves has it.
            let through = before + u64::from(hits);
            self.hits[tier] += u64::from(hits);
            self.tier_tokens[tier] += of_blocks(through) - of_blocks(before);
            before = through;
        }
        if let Some(model) = &configuration.model {
            self.add_work(model, &configuration.costs, tokens, hit_tokens, found, block_tokens);
        }
    }

    fn add_work(
        &mut self,
        model: &KvModel,
        costs: &KvCosts,
        tokens: u64,
        hit_tokens: u64,
        found: &KvFound,
        block_tokens: u32,
    ) {
        let (all, saved) = (model.flops(tokens), model.flops(hit_tokens));
        self.flops += all;
        self.saved_flops += saved;
        let prefill_s = (all - saved) as f64 / costs.flops_per_s;
        let block_bytes = (model.token_bytes * u64::from(block_tokens)) as f64;
        let tiers = found.hits.iter().zip(&costs.tiers);
        let loading_s: f64 = tiers
            .filter_map(|(&hits, tier)| Some(f64::from(hits) * block_bytes / tier.bytes_per_s?))
            .sum();
        self.first_token_s.push(prefill_s + loading_s);
        self.overlapped_s += prefill_s.max(loading_s);
    }
}
