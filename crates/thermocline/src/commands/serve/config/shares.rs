//! Shares of RAM: fixed ones, and those that move to the volume that gains most.

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde::de::Deserializer;
use thermocline_engine::shares::{Limits, Shares, Terms};

use super::{Config, Ram, Volumes};
use crate::bytes::{Bytes, bytes_or_word};

/// `[volume.ram]`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RamShare {
    pub(super) size: Size,
    pub(super) floor: Option<Bytes>,
    pub(super) ceiling: Option<Bytes>,
    pub(super) pinned: Option<Bytes>,
}

/// The size of a share.
#[derive(Clone, Copy, Debug)]
pub(super) enum Size {
    Fixed(Bytes),
    /// It moves.
    Auto,
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = bytes_or_word(deserializer, "auto", "for a share that moves")?;
        Ok(bytes.map_or(Self::Auto, Self::Fixed))
    }
}

/// Limits of a share that moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moving {
    floor: Option<Bytes>,
    ceiling: Option<Bytes>,
}

impl RamShare {
    /// Return the bytes of a share that does not move.
    pub(super) const fn fixed(&self) -> Bytes {
        match self.size {
            Size::Fixed(bytes) => bytes,
            Size::Auto => Bytes(0),
        }
    }

    /// Return the section of a volume as if it were alone. A share that moves has its size later.
    ///
    /// # Errors
    /// Limits of a share that does not move.
    pub(super) fn section(&self) -> Result<Ram> {
        let Self { size, floor, ceiling, pinned } = *self;
        let moving = match size {
            Size::Auto => {
                ensure!(
                    pinned.is_none(),
                    "`ram.pinned`: a share that moves has no part for pinned pages: set `ram.size` to a size"
                );
                Some(Moving { floor, ceiling })
            }
            Size::Fixed(_) => {
                ensure!(
                    floor.is_none() && ceiling.is_none(),
                    "`ram.floor` and `ram.ceiling` are limits of a share that moves: set `ram.size` to \"auto\", \
                     or leave them out"
                );
                None
            }
        };
        Ok(Ram { size: self.fixed(), pinned, moving, spare_pages: 0 })
    }
}

impl Volumes {
    /// Return the shares that move, as they begin, and their bytes together; `None` if none moves.
    ///
    /// # Errors
    /// Limits that contradict one another, or leave too little.
    pub(crate) fn moving_shares(&self) -> Result<Option<(Shares, Bytes)>> {
        let moving: Vec<(&Config, Moving)> =
            self.each().iter().filter_map(|config| Some((config, config.ram.moving?))).collect();
        let Some((first, _)) = moving.first() else { return Ok(None) };
        let number = first.shards.get();
        ensure!(
            number == 1,
            "`shards` is {number}, and a `ram.size` of \"auto\" is for one shard: give each volume a size"
        );
        let fixed = self.each().iter().filter(|config| config.ram.moving.is_none());
        let fixed = fixed.fold(0_u64, |sum, config| sum.saturating_add(config.ram.size.0));
        let left = self.ram_bytes().0.saturating_sub(fixed);
        let pages = |bytes: u64| u32::try_from(bytes / first.page_size.0).unwrap_or(u32::MAX);
        let limits = moving.iter().map(|(config, moving)| {
            let disk = config.policy_options()?.costs;
            Ok(Limits {
                floor_pages: pages(moving.floor.unwrap_or(Bytes(0)).0),
                ceiling_pages: pages(moving.ceiling.map_or(left, |ceiling| ceiling.0.min(left))),
                fill_ms: disk.last().context("a store has a cost")?.read_ms,
            })
        });
        let limits = limits.collect::<Result<Vec<_>>>()?;
        let shares = Shares::new(Terms::of(pages(left)), &limits).with_context(|| {
            format!(
                "`ram.size`: the volumes with `ram.size = \"auto\"` share the {left} bytes that the others leave"
            )
        })?;
        Ok(Some((shares, Bytes(left))))
    }

    /// Give the shares that move the size with which they begin.
    ///
    /// # Errors
    /// As [`moving_shares`](Self::moving_shares).
    pub(super) fn begin_shares(&mut self) -> Result<()> {
        let Some((shares, _)) = self.moving_shares()? else { return Ok(()) };
        let moving = self.each_mut().iter_mut().filter(|config| config.ram.moving.is_some());
        for (number, (config, pages)) in moving.zip(shares.pages()).enumerate() {
            let most = shares.sizes_pages(number).last().copied().unwrap_or(pages);
            config.ram.size = Bytes(u64::from(pages) * config.page_size.0);
            config.ram.spare_pages = most - pages;
        }
        Ok(())
    }
}
