//! `[flash]` and `[ram]`: where it is cached.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use thermocline_lab::find_ssd;
use thermocline_lab::spec::DriveSpec;

use super::shares::{Moving, Resource};
use super::{Config, FlashShare};
use crate::bytes::Bytes;

/// The flash tier.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Flash {
    pub(crate) path: PathBuf,
    /// Second device: the flash is mirrored.
    pub(crate) mirror: Option<PathBuf>,
    /// `true` if it may start with one of the two devices.
    #[serde(default)]
    pub(crate) degraded: bool,
    pub(crate) size: Bytes,
    /// Part of the size that is for pinned pages.
    pub(crate) pinned: Option<Bytes>,
    pub(crate) write_budget_gib_per_day: Option<f64>,
    /// Rated endurance from the data sheet: bytes that may be written to it.
    rated_writes: Option<Bytes>,
    /// A drive of the lab that it is like.
    drive: Option<String>,
    /// Operations that may fail for good before the flash is given up.
    pub(crate) error_budget: Option<u32>,
    /// Limits of a volume's share that moves.
    #[serde(skip)]
    pub(crate) moving: Option<Moving>,
    /// Endurance that a volume has a part of.
    #[serde(skip)]
    common: Option<Common>,
}

/// Endurance of the flash for all volumes, of which each has the part that its share is.
#[derive(Clone, Copy, Debug)]
struct Common {
    /// Shares of all volumes together.
    all: Bytes,
    write_budget_gib_per_day: Option<f64>,
    rated_bytes: Option<u64>,
}

/// The memory for pages.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ram {
    pub(crate) size: Bytes,
    /// Part of the size that is for pinned pages, without a flash.
    pub(crate) pinned: Option<Bytes>,
    /// Limits of a volume's share that moves.
    #[serde(skip)]
    pub(crate) moving: Option<Moving>,
    /// Pages by which such a share may grow.
    #[serde(skip)]
    pub(crate) spare_pages: u32,
}

impl Config {
    /// Return the pages of RAM and of flash that the policy has.
    pub(crate) fn tier_pages(&self) -> Result<[u32; 2]> {
        let flash = self.flash.as_ref();
        let flash = flash.map(|flash| self.pages("flash.size", flash.size)).transpose()?;
        let (ram, pinned) = (self.pages("ram.size", self.ram.size)?, self.pinned_pages()?);
        Ok(match flash {
            Some(flash) => [ram, flash.saturating_sub(pinned)],
            None => [ram.saturating_sub(pinned), 0],
        })
    }

    /// Return the number of pages that may be pinned: on the flash if there is one, in RAM otherwise.
    ///
    /// # Errors
    /// A part that leaves nothing for the policy, or is one of the wrong tier.
    pub(crate) fn pinned_pages(&self) -> Result<u32> {
        ensure!(
            self.flash.is_none() || self.ram.pinned.is_none(),
            "`ram.pinned`: pinned pages are on the flash if there is one; use `flash.pinned`"
        );
        let (key, size, pinned) = match &self.flash {
            Some(flash) => ("flash", flash.size, flash.pinned),
            None => ("ram", self.ram.size, self.ram.pinned),
        };
        let Some(pinned) = pinned else { return Ok(0) };
        ensure!(
            !self.is_half(),
            "`{key}.pinned`: hosts that cooperate do not pin pages, because the other host would not know; \
             leave it out"
        );
        let pages = self.pages(&format!("{key}.pinned"), pinned)?;
        ensure!(
            pages < self.pages(&format!("{key}.size"), size)?,
            "`{key}.pinned` is {} bytes: it is a part of `{key}.size` and must leave a page to the policy",
            pinned.0
        );
        Ok(pages)
    }

    /// Return the bytes that the flash is rated to be written in its life, if that is known.
    pub(crate) fn flash_rated_written_bytes(&self) -> Result<Option<u64>> {
        self.flash.as_ref().map_or(Ok(None), Flash::rated_written_bytes)
    }
}

impl Flash {
    /// Return the bytes that the flash is rated to be written in its life, if that is known. For a drive of
    /// the lab, this is the capacity times the erases of each block, because write amplification is close to
    /// 1.
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

    /// Return a volume's share of the bytes that all volumes have, a part of it for pinned pages, with a budget
    /// of its own or its part of the common one. A share that moves has its size later.
    pub(super) fn share(&self, share: FlashShare, all: Bytes) -> Result<Self> {
        let FlashShare { pinned, write_budget_gib_per_day: budget, .. } = share;
        ensure!(
            self.pinned.is_none(),
            "`flash.pinned`: each volume has its own, move it to [volume.flash]"
        );
        ensure!(
            self.write_budget_gib_per_day.is_none() || budget.is_none(),
            "`flash.write_budget_gib_per_day` is given for all volumes and for this one: keep one of them"
        );
        let common = Common {
            all,
            write_budget_gib_per_day: self.write_budget_gib_per_day,
            rated_bytes: self.rated_written_bytes()?,
        };
        let size = share.share().fixed();
        let mut flash = Self {
            path: self.path.clone(),
            mirror: self.mirror.clone(),
            degraded: self.degraded,
            size,
            pinned,
            write_budget_gib_per_day: budget,
            rated_writes: None,
            drive: None,
            error_budget: self.error_budget,
            moving: share.share().moving(Resource::Flash)?,
            common: Some(common),
        };
        flash.set_size(size);
        Ok(flash)
    }

    /// Give a volume another share, with its part of the common endurance.
    pub(crate) fn set_size(&mut self, size: Bytes) {
        self.size = size;
        let Some(Common { all, write_budget_gib_per_day, rated_bytes }) = self.common else {
            return;
        };
        if let Some(gib) = write_budget_gib_per_day {
            self.write_budget_gib_per_day = Some(gib * size.0 as f64 / all.0.max(1) as f64);
        }
        self.rated_writes = rated_bytes.map(|bytes| part(bytes, size, all));
    }
}

/// Return the part of a number of bytes that belongs to a share.
fn part(bytes: u64, size: Bytes, all: Bytes) -> Bytes {
    let part = u128::from(bytes) * u128::from(size.0) / u128::from(all.0.max(1));
    Bytes(u64::try_from(part).unwrap_or(u64::MAX).max(1))
}
