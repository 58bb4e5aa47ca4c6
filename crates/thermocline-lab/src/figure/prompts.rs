//! The figures of caches of keys and values: one row each. Tables and charts show them in this order.

use super::{Figure, On, less, more, percent};
use crate::kv::KvSummary;
use crate::numbers::{four_digits, one_decimal, three_decimals, two_decimals, whole};

type Row = Figure<KvSummary>;

/// Return a share of a whole; none of nothing.
fn share(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then_some(part / whole)
}

/// All figures of a run of prompts. Those of work and time are missing without a model.
pub const PROMPTS: &[Row] = &[
    Row::count("requests", "prompts", "prompts that were counted", |run| Some(run.requests)),
    Row::count("tokens", "tokens", "their tokens", |run| Some(run.tokens)),
    Row::count("blocks", "blocks", "their blocks", |run| Some(run.blocks)),
    Row::count("hit_tokens", "tokens", "tokens of the prefixes that any tier held", |run| {
        Some(run.hit_tokens)
    }),
    Row::count("hit_blocks", "blocks", "blocks of these prefixes", |run| Some(run.hit_blocks)),
    Row::count("computed", "blocks", "blocks that no prefix had: `blocks` less `hit_blocks`", |run| {
        Some(run.blocks - run.hit_blocks)
    }),
    Row::count(
        "stranded",
        "blocks",
        "those of `computed` that a tier held, behind a block that none held",
        |run| Some(run.stranded),
    ),
    Row::count("expired", "blocks", "copies that grew too old, warm-up included", |run| {
        Some(run.expired)
    }),
    Row::real("token_hit_ratio", "", "`hit_tokens` divided by `tokens`", |run| {
        Some(run.token_hit_ratio())
    })
    .shown(percent(more(On::Everything, "Tokens that hit", "%", two_decimals))),
    Row::tier_real(
        "token_hit_ratio",
        "",
        "tokens that this tier served, divided by `tokens`",
        |run, tier| share(run.tiers[tier].hit_tokens as f64, run.tokens as f64),
    )
    .shown(percent(more(On::Everything, "in {tier}", "%", two_decimals))),
    Row::real(
        "unlimited_token_hit_ratio",
        "",
        "the token hit ratio of a cache without limits",
        |run| share(run.unlimited_hit_tokens as f64, run.tokens as f64),
    ),
    Row::real(
        "share_of_unlimited",
        "",
        "`hit_tokens` divided by those of a cache without limits",
        |run| share(run.hit_tokens as f64, run.unlimited_hit_tokens as f64),
    )
    .shown(percent(more(On::Everything, "of the unlimited cache", "%", one_decimal))),
    Row::real("block_hit_ratio", "", "`hit_blocks` divided by `blocks`", |run| {
        share(run.hit_blocks as f64, run.blocks as f64)
    }),
    Row::real("complete_ratio", "", "prompts of which every block hit, divided by all", |run| {
        share(run.complete as f64, run.requests as f64)
    })
    .shown(percent(more(On::Everything, "Complete hits", "%", two_decimals))),
    Row::tier_count("hits", "blocks", "blocks of prefixes that this tier served", |run, tier| {
        Some(run.tiers[tier].hits)
    }),
    Row::tier_count("hit_tokens", "tokens", "their tokens", |run, tier| {
        Some(run.tiers[tier].hit_tokens)
    }),
    Row::tier_count("writes", "blocks", "blocks written to this tier", |run, tier| {
        Some(run.tiers[tier].writes)
    }),
    Row::tier_count(
        "loaded_bytes",
        "bytes",
        "bytes of `hits`; with a size of blocks",
        |run, tier| Some(run.tiers[tier].hits * run.block_bytes?),
    ),
    Row::tier_count(
        "written_bytes",
        "bytes",
        "bytes of `writes`; with a size of blocks",
        |run, tier| Some(run.tiers[tier].writes * run.block_bytes?),
    ),
    Row::tier_real(
        "drive_writes_per_day",
        "1/day",
        "how often the tier is written as a whole, at the rate of the trace; none without times",
        KvSummary::drive_writes_per_day,
    )
    .shown(less(On::BelowRam, "{Tier} written", "times a day", one_decimal)),
    Row::tier_real(
        "lifetime_years",
        "years",
        "until a tier with rated writes is worn out, at the rate of the trace",
        KvSummary::lifetime_years,
    )
    .shown(more(On::BelowRam, "{Tier} lasts", "years", three_decimals)),
    Row::tier_real(
        "write_amplification",
        "",
        "pages that the cells of the tier's drive take per page of a block written to it, once the tier is full; with a drive",
        |run, tier| Some(run.tiers[tier].drive.as_ref()?.write_amplification),
    ),
    Row::tier_real(
        "dollars_per_million_tokens",
        "price",
        "the price of the tier by time or by wear, whichever is more, per million tokens; with its price",
        |run, tier| share(run.tiers[tier].dollars? * 1e6, run.tokens as f64),
    ),
    Row::real(
        "processor_dollars_per_million_tokens",
        "price",
        "the price of the processors while they prefill, per million tokens; with their price",
        |run| share(run.processor_dollars? * 1e6, run.tokens as f64),
    ),
    Row::real(
        "prefill_flops",
        "FLOP",
        "floating-point operations of all prefills without a cache; with a model",
        |run| run.model.map(|_| run.flops as f64),
    ),
    Row::real(
        "saved_flops",
        "FLOP",
        "operations of the prefixes that hit; with a model",
        |run| run.model.map(|_| run.saved_flops as f64),
    ),
    Row::real("saved_share", "", "`saved_flops` divided by `prefill_flops`", |run| {
        run.model.and_then(|_| share(run.saved_flops as f64, run.flops as f64))
    })
    .shown(percent(more(On::Everything, "Prefill saved", "%", two_decimals))),
    Row::real("prefill_s", "s", "seconds of prefill that are left; with a model", |run| {
        run.prefill_s()
    })
    .shown(less(On::Everything, "Prefill", "s", whole)),
    Row::real("saved_s", "s", "seconds of prefill that hits saved; with a model", |run| {
        run.model.map(|_| run.saved_flops as f64 / run.flops_per_s)
    }),
    Row::real(
        "first_token_mean_s",
        "s",
        "mean time to the first token, without queues: the prefill of what did not hit, then loading",
        |run| share(run.first_token_s.iter().sum(), run.first_token_s.len() as f64),
    )
    .shown(less(On::Everything, "First token after", "s", three_decimals)),
    Row::real("first_token_p50_s", "s", "50 % of first tokens come within", |run| {
        run.first_token_within(0.5)
    }),
    Row::real("first_token_p99_s", "s", "99 % of first tokens come within", |run| {
        run.first_token_within(0.99)
    })
    .shown(less(On::Everything, "99 % within", "s", three_decimals)),
    Row::real(
        "first_token_overlapped_mean_s",
        "s",
        "the same mean if loading goes on during the prefill",
        |run| share(run.overlapped_s, run.first_token_s.len() as f64),
    ),
    Row::real(
        "dollars_per_million_tokens",
        "price",
        "processors while they prefill, and tiers by time or by wear, whichever is more, per million tokens; with prices",
        |run| share(run.dollars()? * 1e6, run.tokens as f64),
    )
    .shown(less(On::Everything, "Price of a million tokens", "", four_digits)),
];
