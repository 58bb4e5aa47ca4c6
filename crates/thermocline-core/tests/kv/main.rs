//! Chains of blocks over tiers: worked examples, an executable specification, properties.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod examples;
mod model;
mod policies;
mod properties;
mod work;
