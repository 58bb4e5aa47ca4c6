//! The HFA policies against an executable specification, and that against worked examples and
//! figures.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "shares and counts of a few pages"
)]

mod figures;
mod model;
mod pair;
mod policies;
mod vectors;
#[path = "../zipf/mod.rs"]
mod zipf;
