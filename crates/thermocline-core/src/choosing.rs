//! Report of a policy that lets one of several experts decide.

use alloc::borrow::Cow;
use alloc::vec::Vec;

/// The most changes that are kept.
pub const SWITCHES_KEPT: usize = 64;

/// Choices that such a policy has made so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Choosing {
    /// The candidate that decides now.
    pub in_force: Cow<'static, str>,
    /// Accesses of all windows that have ended.
    pub accesses: u64,
    /// Number of changes so far.
    pub switches: u64,
    /// I/O time per access that the best candidate would have saved had it decided all along, in
    /// milliseconds; negative if changing has paid.
    pub regret_ms_per_access: f64,
    /// Accesses of the window that has not ended.
    pub window_accesses: u64,
    /// Estimates of each candidate.
    pub candidates: Vec<Estimate>,
    /// The last changes, oldest first; at most [`SWITCHES_KEPT`].
    pub recent: Vec<Switch>,
}

/// Estimated I/O time of a candidate, had it decided all along.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The candidate.
    pub candidate: Cow<'static, str>,
    /// Per access, in milliseconds.
    pub ms_per_access: f64,
    /// Of all accesses, in milliseconds; older windows count less.
    pub recent_ms: f64,
    /// Of the window that has not ended, in milliseconds; in no other figure yet.
    pub window_ms: f64,
}

/// A change from one candidate to another, and its reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Switch {
    /// Number of changes so far, this one included.
    pub number: u64,
    /// Accesses before the change.
    pub accesses: u64,
    /// The candidate that decided before.
    pub former: Cow<'static, str>,
    /// The candidate that decides from now on.
    pub adopted: Cow<'static, str>,
    /// The last accesses, over which the one adopted was better.
    pub over_accesses: u64,
    /// Estimated I/O time per access of the former candidate over these, in milliseconds.
    pub former_ms_per_access: f64,
    /// Estimated I/O time per access of the one adopted over these, in milliseconds.
    pub adopted_ms_per_access: f64,
}
