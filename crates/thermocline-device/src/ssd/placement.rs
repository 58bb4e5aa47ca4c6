//! Placement handles: which writes the host wants in reclaim units of their own.
//!
//! * Source: NVM Express, technical proposal 4146 (flexible data placement, 2022; part of the base
//!   specification since 2.1), for reclaim units, groups and handles, and for the two kinds of
//!   isolation.
//! * State: none; the map of pages keeps the open units.
//! * Cost: O(1).
//! * Deviations: (1) every plane is a reclaim group; a unit is some blocks of one plane, and the
//!   controller, not the host, chooses the group. (2) All handles of a drive are isolated alike. (3)
//!   The host is not told how full its units are, and there are no events and no time limits.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::check::{bad, within};
use super::error::SsdError;

/// Placement handles, at most.
pub(crate) const HANDLES_MOST: u32 = 16;

/// Blocks of a reclaim unit, at most.
const UNIT_BLOCKS_MOST: u32 = 1024;

/// Flexible data placement, as `NVMe` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placement {
    /// Reclaim-unit handles, 1 to 16; each has an open reclaim unit of its own in every plane.
    pub handles: u32,
    /// Isolation of their data in garbage collection.
    #[serde(default)]
    pub isolation: Isolation,
    /// Blocks of a reclaim unit, 1 to 1024: all of one plane, filled one after the other, and collected
    /// and erased together. Blocks of a plane that do not fill a unit stay unused.
    #[serde(default = "one")]
    pub reclaim_unit_blocks: u32,
}

/// Isolation of handles: garbage collection may mix their data, or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// Initially isolated: data of several handles may share a unit once garbage collection has moved
    /// them.
    #[default]
    Initial,
    /// Persistently isolated: garbage collection keeps an open unit per handle, and never mixes them.
    Persistent,
}

impl Placement {
    /// Handles of the default kind, initially isolated, with units of one block.
    pub const fn of(handles: u32) -> Self {
        Self { handles, isolation: Isolation::Initial, reclaim_unit_blocks: 1 }
    }

    /// Return `true` if data of several handles are never mixed.
    pub(crate) fn is_persistent(self) -> bool {
        self.isolation == Isolation::Persistent
    }

    /// Check that the numbers are in range, and nothing else that is on mixes what is kept apart.
    pub(crate) fn check(self, is_alone: bool, is_mixed: bool) -> Result<(), SsdError> {
        within("handles", self.handles, 1, HANDLES_MOST)?;
        within("reclaim_unit_blocks", self.reclaim_unit_blocks, 1, UNIT_BLOCKS_MOST)?;
        if !is_alone {
            let permitted = "left out with two streams or without page mapping";
            return Err(bad("handles", self.handles, permitted));
        }
        if self.is_persistent() && is_mixed {
            let permitted = "\"initial\" with shared blocks";
            return Err(bad("isolation", "persistent", permitted));
        }
        Ok(())
    }
}

impl FromStr for Placement {
    type Err = String;

    /// Understands `handles=8,isolation=persistent,reclaim_unit_blocks=4`; only `handles` is needed.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            "write it as in handles=8,isolation=persistent (or initial),reclaim_unit_blocks=4"
                .into()
        };
        let number = |value: &str| value.parse().map_err(|_| wrong());
        let mut placement = Self::of(0);
        for part in text.split(',') {
            match part.split_once('=').ok_or_else(wrong)? {
                ("handles", value) => placement.handles = number(value)?,
                ("reclaim_unit_blocks", value) => placement.reclaim_unit_blocks = number(value)?,
                ("isolation", "initial") => placement.isolation = Isolation::Initial,
                ("isolation", "persistent") => placement.isolation = Isolation::Persistent,
                _ => return Err(wrong()),
            }
        }
        placement.check(true, false).map_err(|error| error.to_string())?;
        Ok(placement)
    }
}

const fn one() -> u32 {
    1
}
