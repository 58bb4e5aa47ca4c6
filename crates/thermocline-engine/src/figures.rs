//! The figures of an engine: one row for each says how it is called, what it means and how to read it.
//!
//! Everything that shows figures takes them from these tables: metrics, JSON, terminals, documentation.

pub use crate::figure::{About, Figure, Kind, Value};
pub use crate::shard::SHARD_FIGURES;
