//! The write buffers against executable specifications, and those against worked examples.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod models;
mod policies;
mod vectors;
#[path = "../zipf/mod.rs"]
mod zipf;
