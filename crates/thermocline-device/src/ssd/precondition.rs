//! The state of a drive before a measurement: filled, and written over until it is steady.
//!
//! * Source: the preconditioning of SNIA's *Solid State Storage Performance Test Specification*: the
//!   whole drive in order, then the load itself.
//! * State: none.
//! * Cost: that of the writes, without time.
//! * Deviations: (1) the second part is uniform and as long as you say; whether the drive is steady is
//!   not tested.

use serde::{Deserialize, Serialize};

use super::check::within;
use super::error::SsdError;

/// Steps that bring a drive to a state of use.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Precondition {
    /// The share of its pages that is written in order, from the first one, 0 to 1.
    pub fill: f64,
    /// Number of pages that are then written at random among these, as a multiple of the drive's pages, 0
    /// to 1000.
    #[serde(default)]
    pub overwrite: f64,
    /// Seed for the choice of these.
    #[serde(default)]
    pub seed: u64,
}

impl Precondition {
    /// No steps: the drive stays fresh.
    pub const FRESH: Self = Self { fill: 0.0, overwrite: 0.0, seed: 0 };

    /// Checks the ranges.
    ///
    /// # Errors
    /// [`SsdError::BadSetting`] with what is permitted.
    pub fn validate(&self) -> Result<(), SsdError> {
        within("fill", self.fill, 0.0, 1.0)?;
        within("overwrite", self.overwrite, 0.0, 1000.0)
    }

    /// Pages to fill and pages to write over, of a drive of so many.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the ranges were checked, and a drive has fewer than 2^32 pages"
    )]
    pub(crate) fn pages(&self, logical_pages: u64) -> (u32, u64) {
        let of_drive = |share: f64| libm::round(logical_pages as f64 * share) as u64;
        let filled = of_drive(self.fill);
        (filled as u32, if filled == 0 { 0 } else { of_drive(self.overwrite) })
    }
}

impl Default for Precondition {
    /// Return a full drive that is overwritten once, so that garbage collection is at work.
    fn default() -> Self {
        Self { fill: 1.0, overwrite: 1.0, seed: 0 }
    }
}
