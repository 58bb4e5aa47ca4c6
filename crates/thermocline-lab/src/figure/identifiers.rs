//! The figures of a hot-data identifier: one row each. Tables show them in this order.

use super::{Figure, On, Shown, less, percent};
use crate::IdentifierSummary;
use crate::numbers::{byte_size, one_decimal, two_decimals, whole};

/// A number of bytes with its unit.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a size is not negative, and saturates"
)]
fn bytes(value: f64) -> String {
    byte_size(value as u64)
}

type Row = Figure<IdentifierSummary>;

/// All figures of an identifier.
pub const IDENTIFIERS: &[Row] = &[
    Row::count("writes", "accesses", "accesses recorded", |one| Some(one.writes)),
    Row::count("hot", "accesses", "accesses found hot", |one| Some(one.hot)).shown(less(
        On::Everything,
        "Hot",
        "accesses",
        whole,
    )),
    Row::real("hot_ratio", "", "`hot` divided by `writes`", |one| Some(one.hot_ratio()))
        .shown(percent(less(On::Everything, "Hot ratio", "%", two_decimals))),
    Row::count("false_hot", "accesses", "accesses found hot that the baseline finds cold", |one| {
        Some(one.false_hot)
    })
    .shown(less(On::Everything, "False hot", "accesses", whole)),
    Row::count(
        "false_cold",
        "accesses",
        "accesses found cold that the baseline finds hot",
        |one| Some(one.false_cold),
    )
    .shown(less(On::Everything, "False cold", "accesses", whole)),
    Row::real(
        "false_identification_rate",
        "",
        "`false_hot + false_cold` divided by `writes`",
        |one| Some(one.false_identification_rate()),
    )
    .shown(percent(less(On::Everything, "False identification rate", "%", two_decimals))),
    Row::count("memory_bits", "bits", "its state", |one| Some(one.memory_bits))
        .shown(Shown { scale: |bits| bits / 8.0, ..less(On::Everything, "Memory", "", bytes) }),
    Row::real(
        "check_ns",
        "ns",
        "wall-clock time to record one access and judge it, without the decays",
        |one| Some(one.check_ns),
    )
    .shown(less(On::Terminal, "Time per check", "ns", one_decimal)),
    Row::real(
        "decay_ns",
        "ns",
        "wall-clock time of one decay; none if it forgets with every access",
        |one| one.decay_ns,
    )
    .shown(less(On::Terminal, "Time per decay", "ns", whole)),
    Row::count("decay_writes", "accesses", "accesses from one decay to the next", |one| {
        one.decay_writes
    })
    .shown(less(On::Terminal, "Decays every", "accesses", whole)),
];
