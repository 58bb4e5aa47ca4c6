//! Policies of many tiers: worked examples, figures, executable specifications and properties.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../zipf/mod.rs"]
mod zipf;

mod clients;
mod drive;
mod figures;
mod models;
mod pairs;
mod properties;
mod split;
mod vectors;
