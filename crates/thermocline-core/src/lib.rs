//! Hotness-aware cache policies as pure state machines, with the ledger that checks them.
//!
//! A policy is told one page [`Access`] and answers with the [`Action`]s that the hierarchy must
//! make. It does no I/O, reads no clock, draws random numbers from a given seed only and cannot
//! fail; this crate is `no_std`, so it cannot even name a file, a thread or a clock. Drivers perform
//! the actions: the lab charges their costs, the engine moves the bytes. Neither ever decides a
//! placement.
//!
//! ```
//! use thermocline_core::{Access, Actions, Counts, Setup, Tier, registry};
//!
//! let mut hat = registry::find("hat")?.build_default(&Setup::hybrid(8, 1, 2))?;
//! let (mut actions, mut counts) = (Actions::new(), Counts::new());
//! for access in [Access::write(3), Access::read(5), Access::read(3)] {
//!     counts.add(hat.step(access, &mut actions));
//! }
//! assert_eq!(counts.hits(Tier::DISK), 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![no_std]

extern crate alloc;

mod access;
mod action;
mod admission;
mod capabilities;
mod choosing;
pub mod config;
mod counts;
mod entry;
pub mod foresight;
mod geometry;
mod hint_log;
pub mod hotness;
mod indexing;
mod inputs;
pub mod kv;
pub mod learning;
mod ledger;
mod miss_order;
pub mod names;
pub mod policy;
mod prefetch;
#[doc(hidden)]
pub mod queue;
pub mod random;
pub mod registry;
mod run_lengths;
mod setup;
mod strata;
mod tier;

pub use access::{Access, Nanos, Op, PageId};
pub use action::{Action, Actions};
pub use admission::{Admission, Gate};
pub use choosing::{Choosing, Estimate, SWITCHES_KEPT, Switch};
pub use config::ConfigError;
pub use counts::Counts;
pub use foresight::Foresight;
pub use geometry::Geometry;
pub use hint_log::HintLog;
pub use hotness::{BoxedIdentifier, Heat, Identifier};
pub use indexing::{Ids, Indexing};
pub use inputs::Inputs;
pub use ledger::{Ledger, Reason, Violation};
pub use miss_order::MissOrder;
pub use policy::{BoxedPolicy, Policy, Survivor};
pub use prefetch::{prefetch, prefetch_whole};
pub use run_lengths::{Run, RunLengths};
pub use setup::{PageCost, Setup, WriteMiss};
pub use strata::Strata;
pub use tier::{CACHE_TIERS_MAX, Clients, TIERS_MAX, Tier};
