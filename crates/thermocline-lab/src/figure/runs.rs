//! The figures of a replay: one row each. Tables and charts show them in this order, neighbouring
//! rows of tiers that are shown for the same tiers together, tier by tier.

use super::{Figure, On, Shown, less, more, percent};
use crate::numbers::{four_digits, one_decimal, three_decimals, two_decimals, whole};
use crate::{ResponseSummary, Summary, TierSummary};

fn tier(run: &Summary, place: usize) -> Option<&TierSummary> {
    run.tiers.get(place)
}

fn response(run: &Summary) -> Option<&ResponseSummary> {
    Some(&run.timing.as_ref()?.response_us)
}

type Row = Figure<Summary>;

/// All figures of a replay.
pub const RUNS: &[Row] = &[
    Row::real("io_time_ms", "ms", "all page transfers, each at the cost of its tier", |run| {
        Some(run.io_time_ms)
    })
    .shown(Shown {
        scale: |ms| ms / 1000.0,
        ..less(On::Hybrids, "Total I/O time", "s", one_decimal)
    }),
    Row::real(
        "average_response_ms",
        "ms",
        "the mean over all accesses of the access time of the tier that each was found in",
        |run| Some(run.average_response_ms),
    )
    .shown(less(On::Latencies, "Average response", "ms", three_decimals)),
    Row::tier_real("hit_ratio", "", "`hits` divided by the accesses counted", |run, place| {
        Some(tier(run, place)?.hit_ratio)
    })
    .shown(percent(more(On::Caches, "Hits {in}", "%", two_decimals))),
    Row::tier_real(
        "byte_hit_ratio",
        "",
        "`hit_bytes` divided by the bytes asked for",
        |run, place| tier(run, place)?.byte_hit_ratio,
    )
    .shown(percent(more(On::Caches, "Bytes {in}", "%", two_decimals))),
    Row::real("hit_ratio", "", "accesses that any cache answers, divided by all", |run| {
        Some(run.aggregate_hit_ratio())
    })
    .shown(percent(more(On::SeveralCaches, "Hits {any}", "%", two_decimals))),
    Row::real(
        "byte_hit_ratio",
        "",
        "bytes that any cache answers, divided by all that were asked for; of objects whose sizes are not whole pages",
        Summary::byte_hit_ratio,
    )
    .shown(percent(more(On::SeveralCaches, "Bytes {any}", "%", two_decimals))),
    Row::real("miss_ratio", "", "accesses that no cache answers, divided by all", |run| {
        Some(run.tiers.last()?.hit_ratio)
    }),
    Row::tier_count(
        "hits",
        "accesses",
        "accesses whose page this tier held, and no faster one",
        |run, place| Some(tier(run, place)?.hits),
    ),
    Row::tier_count(
        "hit_bytes",
        "bytes",
        "bytes asked for of pages that this tier held, and no faster one; of objects whose sizes are not whole pages",
        |run, place| tier(run, place)?.hit_bytes,
    ),
    Row::tier_count("read_hits", "accesses", "those that read", |run, place| {
        Some(tier(run, place)?.read_hits)
    }),
    Row::tier_count("write_hits", "accesses", "those that wrote", |run, place| {
        Some(tier(run, place)?.write_hits)
    }),
    Row::tier_count("page_reads", "pages", "pages that the tier's device read", |run, place| {
        Some(tier(run, place)?.page_reads)
    })
    .shown(less(On::BelowRam, "{Tier} reads", "pages", whole)),
    Row::tier_count("page_writes", "pages", "pages that the tier's device wrote", |run, place| {
        Some(tier(run, place)?.page_writes)
    })
    .shown(less(On::BelowRam, "{Tier} writes", "pages", whole)),
    Row::count("pages_demoted", "pages", "the sum of `demotions`", |run| {
        Some(run.demotions.iter().sum())
    })
    .shown(less(On::Levels, "Demotions", "pages", whole)),
    Row::count("pages_promoted", "pages", "the sum of `promotions`", |run| {
        Some(run.promotions.iter().sum())
    })
    .shown(less(On::Levels, "Promotions", "pages", whole)),
    Row::count(
        "metadata_bytes",
        "bytes",
        "what the algorithm keeps besides the pages and their order, at the end",
        |run| Some(run.metadata_bytes),
    )
    .shown(less(On::Levels, "Metadata", "bytes", whole)),
    Row::real("metadata_share", "", "`metadata_bytes` divided by the bytes of all caches", |run| {
        Some(run.metadata_share)
    })
    .shown(percent(less(On::Levels, "Metadata share", "% of the caches", three_decimals))),
    Row::count("warm_up_accesses", "accesses", "accesses that are not counted", |run| {
        Some(run.warm_up_accesses)
    }),
    Row::real("cost_total", "price", "with prices: the price of the hierarchy", |run| {
        Some(run.cost?.total)
    })
    .inside("cost.total"),
    Row::real(
        "cost_iops",
        "1/s",
        "with prices: I/Os per second, one after the other at the average response time",
        |run| Some(run.cost?.iops),
    )
    .inside("cost.iops"),
    Row::real(
        "cost_per_io",
        "price per I/O/s",
        "with prices: the price divided by the I/Os per second",
        |run| Some(run.cost?.per_io),
    )
    .inside("cost.per_io")
    .shown(less(On::Everything, "Cost per I/O", "price per I/O/s", four_digits)),
    Row::real("read_mean_us", "us", "with simulated time: the mean response of reads", |run| {
        Some(response(run)?.read.mean)
    })
    .inside("response_us.read.mean")
    .shown(less(On::Everything, "Mean read response", "us", one_decimal)),
    Row::real("read_p50_us", "us", "50 % of reads are answered within", |run| {
        Some(response(run)?.read.p50)
    })
    .inside("response_us.read.p50"),
    Row::real("read_p95_us", "us", "95 % of reads are answered within", |run| {
        Some(response(run)?.read.p95)
    })
    .inside("response_us.read.p95"),
    Row::real("read_p99_us", "us", "99 % of reads are answered within", |run| {
        Some(response(run)?.read.p99)
    })
    .inside("response_us.read.p99")
    .shown(less(On::Everything, "99 % of reads within", "us", one_decimal)),
    Row::real("write_mean_us", "us", "with simulated time: the mean response of writes", |run| {
        Some(response(run)?.write.mean)
    })
    .inside("response_us.write.mean")
    .shown(less(On::Everything, "Mean write response", "us", one_decimal)),
    Row::real("write_p50_us", "us", "50 % of writes are answered within", |run| {
        Some(response(run)?.write.p50)
    })
    .inside("response_us.write.p50"),
    Row::real("write_p95_us", "us", "95 % of writes are answered within", |run| {
        Some(response(run)?.write.p95)
    })
    .inside("response_us.write.p95"),
    Row::real("write_p99_us", "us", "99 % of writes are answered within", |run| {
        Some(response(run)?.write.p99)
    })
    .inside("response_us.write.p99")
    .shown(less(On::Everything, "99 % of writes within", "us", one_decimal)),
    Row::real(
        "duration_s",
        "s",
        "with simulated time: from the first arrival to the end of the last page transfer",
        |run| Some(run.timing.as_ref()?.duration_s),
    )
    .inside("duration_s"),
    Row::real(
        "outstanding_mean",
        "requests",
        "with simulated time: requests that wait for their answers at one time, on average",
        |run| Some(run.timing.as_ref()?.outstanding_mean),
    )
    .inside("outstanding_mean"),
    Row::tier_real(
        "erases_per_day",
        "blocks per day",
        "of a solid-state drive: blocks erased, at the rate of the run",
        |run, place| Some(run.drive(place)?.erases_per_day),
    )
    .inside("devices[].ssd.erases_per_day")
    .shown(less(On::Everything, "{Tier} erases", "blocks per day", whole)),
    Row::tier_real(
        "write_amplification",
        "",
        "of a solid-state drive: pages programmed, divided by pages written",
        |run, place| Some(run.drive(place)?.metrics.write_amplification),
    )
    .inside("devices[].ssd.write_amplification")
    .shown(less(On::Everything, "{Tier} write amplification", "programs per page", two_decimals)),
    Row::tier_real(
        "policy_write_amplification",
        "",
        "of a solid-state drive: pages that the policy wrote to it, divided by pages that clients wrote",
        |run, place| run.drive(place)?.policy_write_amplification,
    )
    .inside("devices[].ssd.policy_write_amplification"),
    Row::tier_real(
        "total_write_amplification",
        "",
        "of a solid-state drive: pages programmed, divided by pages that clients wrote",
        |run, place| run.drive(place)?.total_write_amplification,
    )
    .inside("devices[].ssd.total_write_amplification")
    .shown(less(
        On::Everything,
        "{Tier} programs, all together",
        "pages per page that clients write",
        two_decimals,
    )),
    Row::tier_real(
        "lifetime_years",
        "years",
        "of a solid-state drive: until its blocks are worn out, at the rate of the run; none if nothing was erased",
        |run, place| run.drive(place)?.lifetime_years,
    )
    .inside("devices[].ssd.lifetime_years")
    .shown(more(On::Everything, "{Tier} lifetime", "years", one_decimal)),
];
