//! Hotness-aware cache policies as pure state machines, with the ledger that checks them.
//!
//! A policy is told one page [`Access`] and answers with the [`Action`]s that the hierarchy must
//! make. It does no I/O, reads no clock, draws random numbers from a given seed only and cannot
//! fail; this crate is `no_std`, so it cannot even name a file, a thread or a clock. Drivers perform
//! the actions: the lab charges their costs, the engine moves the bytes. Neither ever decides a
//! placement.
//!
//! ```
//! use thermocline_core::{
//!     Access, Actions, Admission, Clients, Geometry, Indexing, Ledger, Tier, WriteMiss, registry,
//! };
//!
//! let setup = registry::Setup {
//!     capacity_pages: vec![1, 2],
//!     geometry: Geometry::linear(8),
//!     costs: vec![],
//!     write_miss: WriteMiss::Fetch,
//!     admission: Admission::ALL,
//!     clients: Clients::ONE,
//!     indexing: Indexing::Dense,
//! };
//! let mut hat = registry::find("hat")?.build_default(&setup)?;
//! let mut ledger = Ledger::new(8, &setup.capacity_pages);
//! let mut actions = Actions::new();
//! for access in [Access::write(3), Access::read(5), Access::read(3)] {
//!     actions.clear();
//!     hat.access(access, &mut actions);
//!     ledger.access(access, &actions)?;
//! }
//! assert_eq!(ledger.counts().hits(Tier::DISK), 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![no_std]

extern crate alloc;

mod access;
mod action;
mod admission;
pub mod config;
mod counts;
pub mod foresight;
mod geometry;
pub mod hotness;
mod indexing;
mod ledger;
pub mod policy;
mod prefetch;
pub mod queue;
pub mod random;
pub mod registry;
mod setup;
mod tier;

pub use access::{Access, Nanos, Op, PageId};
pub use action::{Action, Actions};
pub use admission::{Admission, Gate};
pub use config::ConfigError;
pub use counts::Counts;
pub use foresight::Foresight;
pub use geometry::Geometry;
pub use hotness::{BoxedIdentifier, Heat, Identifier};
pub use indexing::{Ids, Indexing};
pub use ledger::{Ledger, Reason, Violation};
pub use policy::{BoxedPolicy, Policy, Survivor};
pub use prefetch::prefetch;
pub use setup::{PageCost, Setup, WriteMiss};
pub use tier::{CACHE_TIERS_MAX, Clients, TIERS_MAX, Tier};
