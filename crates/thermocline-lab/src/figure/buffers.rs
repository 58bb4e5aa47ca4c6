//! The figures of a write buffer: one row each. Tables and charts show them in this order.

use super::{Figure, On, less, more, percent};
use crate::numbers::{one_decimal, two_decimals, whole};
use crate::{BufferSummary, PlacementSummary, ResponseSummary};

fn response(run: &BufferSummary) -> Option<&ResponseSummary> {
    run.response_us.as_ref()
}

fn placement(run: &BufferSummary) -> Option<&PlacementSummary> {
    run.ssd.as_ref()?.placement.as_ref()
}

type Row = Figure<BufferSummary>;

/// All figures of a write buffer. Those of the SSD are missing without one.
pub const BUFFERS: &[Row] = &[
    Row::count("buffer_pages", "pages", "pages of the buffer", |run| Some(run.buffer_pages.into())),
    Row::count("page_size_bytes", "bytes", "bytes per page", |run| Some(run.page_size_bytes)),
    Row::count("page_reads", "accesses", "page accesses that read", |run| Some(run.page_reads)),
    Row::count("page_writes", "accesses", "page accesses that write", |run| Some(run.page_writes)),
    Row::count("read_hits", "accesses", "reads of a page that the buffer held", |run| {
        Some(run.read_hits)
    }),
    Row::count("write_hits", "accesses", "writes of a page that the buffer held", |run| {
        Some(run.write_hits)
    }),
    Row::count(
        "clean_write_hits",
        "accesses",
        "those of `write_hits` whose page had only been read",
        |run| Some(run.clean_write_hits),
    ),
    Row::real("write_hit_ratio", "", "`write_hits` divided by `page_writes`", |run| {
        Some(run.write_hit_ratio())
    })
    .shown(percent(more(On::Everything, "Write hits", "%", two_decimals))),
    Row::real("read_hit_ratio", "", "`read_hits` divided by `page_reads`", |run| {
        (run.page_reads > 0).then(|| run.read_hits as f64 / run.page_reads as f64)
    })
    .shown(percent(more(On::Everything, "Read hits", "%", two_decimals))),
    Row::count(
        "pages_flushed",
        "pages",
        "pages written to the NAND because it did not have their content",
        |run| Some(run.pages_flushed),
    )
    .shown(less(On::Everything, "Pages flushed", "pages", whole)),
    Row::count(
        "pages_padded",
        "pages",
        "pages that flushes wrote although the NAND had their content: padding",
        |run| Some(run.pages_padded),
    ),
    Row::count(
        "pages_resident",
        "pages",
        "pages in the buffer at the end whose content the NAND does not have",
        |run| Some(run.pages_resident),
    ),
    Row::count(
        "flushes",
        "flushes",
        "writes to the NAND: of one page, or of several pages of one flash block together",
        |run| Some(run.flushes),
    )
    .shown(less(On::Everything, "Flushes", "flushes", whole)),
    Row::real(
        "pages_per_flush",
        "pages",
        "pages flushed and padded, divided by `flushes`",
        |run| {
            let pages = run.pages_flushed + run.pages_padded;
            (run.flushes > 0).then(|| pages as f64 / run.flushes as f64)
        },
    )
    .shown(more(On::Everything, "Pages per flush", "pages", two_decimals)),
    Row::count("erase_count", "blocks", "blocks erased", BufferSummary::erase_count).shown(less(
        On::Everything,
        "Erases",
        "blocks",
        whole,
    )),
    Row::real(
        "write_amplification",
        "",
        "pages programmed divided by pages flushed; none without a flush",
        BufferSummary::write_amplification,
    )
    .shown(less(
        On::Everything,
        "Write amplification",
        "programs per page flushed",
        two_decimals,
    )),
    Row::count(
        "handles",
        "handles",
        "placement handles of the drive; none without placement",
        |run| Some(placement(run)?.handles.into()),
    )
    .inside("ssd.placement.handles"),
    Row::count(
        "identifier_bytes",
        "bytes",
        "what chooses among placement handles takes, with the bounds of its classes; none without placement",
        |run| Some(placement(run)?.identifier_bytes),
    )
    .inside("ssd.placement.identifier_bytes"),
    Row::real("write_mean_us", "us", "mean response of writes", |run| {
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
    Row::real("read_mean_us", "us", "mean response of reads", |run| Some(response(run)?.read.mean))
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
    Row::real(
        "lifetime_years",
        "years",
        "time until the blocks are worn out, at the rate of the run; none if nothing was erased",
        BufferSummary::lifetime_years,
    )
    .shown(more(On::Everything, "Lifetime", "years", one_decimal)),
];
