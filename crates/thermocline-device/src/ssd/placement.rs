//! Placement handles: which writes the host wants in blocks of their own.
//!
//! * Source: NVM Express, technical proposal 4146 (flexible data placement), for handles and the two
//!   kinds of isolation.
//! * Deviations: a reclaim unit is a block of a plane; each handle has one open in each plane.

use serde::{Deserialize, Serialize};

use super::check::{bad, within};
use super::error::SsdError;

/// Placement handles, at most.
pub(crate) const HANDLES_MOST: u32 = 16;

/// Flexible data placement, as `NVMe` has it; a reclaim unit is a block of a plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placement {
    /// Reclaim-unit handles, 1 to 16; each has open blocks of its own.
    pub handles: u32,
    /// What garbage collection may do with their data.
    #[serde(default)]
    pub isolation: Isolation,
}

/// Whether garbage collection may mix data of several handles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// It may.
    #[default]
    Initial,
    /// It has open blocks per handle, and does not.
    Persistent,
}

impl Placement {
    /// Whether data of several handles are never mixed.
    pub(crate) fn is_persistent(self) -> bool {
        self.isolation == Isolation::Persistent
    }

    /// Whether the number is in range, and nothing else that is on mixes what is kept apart.
    pub(crate) fn check(self, is_alone: bool, is_mixed: bool) -> Result<(), SsdError> {
        within("handles", self.handles, 1, HANDLES_MOST)?;
        if !is_alone {
            let permitted = "left out with two streams or without page mapping";
            return Err(bad("handles", self.handles, permitted));
        }
        if self.is_persistent() && is_mixed {
            let permitted = "\"initial\" with static wear levelling or shared blocks";
            return Err(bad("isolation", "persistent", permitted));
        }
        Ok(())
    }
}
