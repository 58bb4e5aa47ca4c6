//! `[flash]` and `[ram]`: where it is cached.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use thermocline_lab::find_ssd;
use thermocline_lab::spec::DriveSpec;

use super::Config;
use super::shares::Moving;
use crate::bytes::Bytes;

/// The flash tier.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Flash {
    pub(crate) path: PathBuf,
    pub(crate) size: Bytes,
    pub(crate) write_budget_gib_per_day: Option<f64>,
    /// Rated endurance from the data sheet: bytes that may be written to it.
    rated_writes: Option<Bytes>,
    /// A drive of the lab that it is like.
    drive: Option<String>,
    /// Operations that may fail for good before the flash is given up.
    pub(crate) error_budget: Option<u32>,
}

/// The memory for pages.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ram {
    pub(crate) size: Bytes,
    /// Limits of a volume's share that moves.
    #[serde(skip)]
    pub(crate) moving: Option<Moving>,
    /// Pages by which such a share may grow.
    #[serde(skip)]
    pub(crate) spare_pages: u32,
}

impl Config {
    /// Pages of RAM and of flash.
    pub(crate) fn tier_pages(&self) -> Result<[u32; 2]> {
        let flash = self.flash.as_ref();
        let flash = flash.map(|flash| self.pages("flash.size", flash.size)).transpose()?;
        Ok([self.pages("ram.size", self.ram.size)?, flash.unwrap_or(0)])
    }

    /// Bytes that the flash is rated to be written in its life, if that is known.
    pub(crate) fn flash_rated_written_bytes(&self) -> Result<Option<u64>> {
        self.flash.as_ref().map_or(Ok(None), Flash::rated_written_bytes)
    }
}

impl Flash {
    /// Bytes that it is rated to be written in its life, if that is known. Of a drive of the lab each block
    /// bears its erases, and the drive itself writes little more than it is asked to.
    pub(super) fn rated_written_bytes(&self) -> Result<Option<u64>> {
        match (self.rated_writes, &self.drive) {
            (Some(_), Some(_)) => {
                bail!("`flash.rated_writes` and `flash.drive` both say what it bears: give one")
            }
            (Some(bytes), None) => {
                ensure!(bytes.0 > 0, "`flash.rated_writes` is 0: leave it out if it is unknown");
                Ok(Some(bytes.0))
            }
            (None, Some(name)) => {
                let drive = find_ssd(&DriveSpec::Named(name.clone())).context("`flash.drive`")?;
                Ok(Some(drive.logical_bytes().saturating_mul(drive.erase_limit.into())))
            }
            (None, None) => Ok(None),
        }
    }

    /// The share of a volume: `size` of the bytes that all volumes have, and a budget of its own or its part
    /// of the common one.
    pub(super) fn share(&self, size: Bytes, all: Bytes, budget: Option<f64>) -> Result<Self> {
        let common = self.write_budget_gib_per_day;
        let common = common.map(|gib| gib * size.0 as f64 / all.0 as f64);
        ensure!(
            common.is_none() || budget.is_none(),
            "`flash.write_budget_gib_per_day` is given for all volumes and for this one: keep one of them"
        );
        let rated = self.rated_written_bytes()?;
        Ok(Self {
            path: self.path.clone(),
            size,
            write_budget_gib_per_day: budget.or(common),
            rated_writes: rated.map(|bytes| share(bytes, size, all)),
            drive: None,
            error_budget: self.error_budget,
        })
    }
}

/// The part of a number of bytes that belongs to a share.
fn share(bytes: u64, size: Bytes, all: Bytes) -> Bytes {
    let part = u128::from(bytes) * u128::from(size.0) / u128::from(all.0.max(1));
    Bytes(u64::try_from(part).unwrap_or(u64::MAX).max(1))
}
