//! The figures of an interval of a run: one row each. Charts over time show them in this order.

use super::{Figure, On, less, more, percent};
use crate::IntervalSummary;
use crate::numbers::{three_decimals, two_decimals};

type Row = Figure<IntervalSummary>;

/// All figures of an interval.
pub const INTERVALS: &[Row] = &[
    Row::count(
        "end_accesses",
        "accesses",
        "accesses from the start of the trace to the end",
        |one| Some(one.end_accesses),
    ),
    Row::real(
        "end_s",
        "s",
        "arrival of the request of the last access, after the earliest of the trace; none if the trace has no times",
        |one| one.end_s,
    ),
    Row::count("accesses", "accesses", "accesses of the interval", |one| Some(one.accesses)),
    Row::tier_count(
        "hits",
        "accesses",
        "accesses whose page this tier held, and no faster one",
        |one, tier| one.hits.get(tier).copied(),
    )
    .inside("hits[]"),
    Row::real("hit_ratio", "", "accesses that any cache answers, divided by all", |one| {
        Some(one.aggregate_hit_ratio())
    })
    .shown(percent(more(On::SeveralCaches, "Hits {any}", "%", two_decimals))),
    Row::tier_real("hit_ratio", "", "`hits` divided by `accesses`", |one, tier| {
        one.hit_ratio(tier)
    })
    .inside("hit_ratios[]")
    .shown(percent(more(On::Caches, "Hits {in}", "%", two_decimals))),
    Row::real("miss_ratio", "", "accesses that no cache answers, divided by all", |one| {
        one.hit_ratio(one.hits.len().checked_sub(1)?)
    }),
    Row::real(
        "average_response_ms",
        "ms",
        "the mean over all accesses of the access time of the tier that each was found in",
        |one| Some(one.average_response_ms),
    )
    .shown(less(On::Everything, "Average response", "ms", three_decimals)),
    Row::count(
        "metadata_bytes",
        "bytes",
        "what the algorithm keeps besides the pages and their order, at the end",
        |one| Some(one.metadata_bytes),
    ),
];
