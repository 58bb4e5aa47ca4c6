//! Chains of blocks over tiers: worked examples, an executable specification, properties.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::cast_possible_truncation, reason = "tests have few blocks, tiers and engines")]

mod examples;
mod model;
mod policies;
mod properties;
mod work;
