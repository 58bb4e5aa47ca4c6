//! Shares of RAM and of flash: fixed ones, and those that move to the volume that gains most.

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde::de::Deserializer;
use thermocline_engine::shares::{Limits, Shares, Terms};

use super::{Config, Ram, Volumes};
use crate::bytes::{Bytes, bytes_or_word};

/// Resource that volumes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    Ram,
    Flash,
}

/// Size of the flash that a volume is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WantedFlash {
    /// Pages that the policy of each shard keeps on flash.
    pub(crate) pages: u32,
    /// Share of the flash, for the sum of all shares.
    pub(crate) share: Bytes,
}

/// `[volume.ram]`, and what `[volume.flash]` has of the same.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Share {
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

impl Resource {
    pub(crate) const ALL: [Self; 2] = [Self::Ram, Self::Flash];

    /// Return the name of its section, which is that of its tier.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::Ram => "ram",
            Self::Flash => "flash",
        }
    }

    /// Return the limits of a volume's share of it, if that moves.
    pub(crate) fn moving(self, config: &Config) -> Option<Moving> {
        match self {
            Self::Ram => config.ram.moving,
            Self::Flash => config.flash.as_ref()?.moving,
        }
    }

    /// Return a volume's share of it.
    pub(crate) fn size(self, config: &Config) -> Bytes {
        match self {
            Self::Ram => config.ram.size,
            Self::Flash => config.flash.as_ref().map_or(Bytes(0), |flash| flash.size),
        }
    }

    /// Give a volume another share of it, which may grow up to another one.
    fn resize(self, config: &mut Config, pages: u32, most: u32) {
        let size = Bytes(u64::from(pages) * config.page_size.0);
        match self {
            Self::Ram => {
                config.ram.size = size;
                config.ram.spare_pages = most - pages;
            }
            Self::Flash => {
                if let Some(flash) = &mut config.flash {
                    flash.set_size(size);
                }
            }
        }
    }

    /// Return the time to fill a page of it.
    fn fill_ms(self, config: &Config) -> Result<f64> {
        let costs = config.policy_options()?.costs;
        let [_, flash, disk] = costs.try_into().ok().context("three tiers have a cost")?;
        Ok(match self {
            Self::Ram => disk.read_ms,
            Self::Flash => disk.read_ms + flash.write_ms,
        })
    }
}

impl Share {
    /// Return the bytes of a share that does not move.
    pub(super) const fn fixed(&self) -> Bytes {
        match self.size {
            Size::Fixed(bytes) => bytes,
            Size::Auto => Bytes(0),
        }
    }

    /// Return the limits if the share moves.
    ///
    /// # Errors
    /// Limits of a share that does not move.
    pub(super) fn moving(&self, resource: Resource) -> Result<Option<Moving>> {
        let Self { size, floor, ceiling, pinned } = *self;
        let key = resource.key();
        match size {
            Size::Auto => {
                ensure!(
                    pinned.is_none(),
                    "`{key}.pinned`: a share that moves has no part for pinned pages: set `{key}.size` to a size"
                );
                Ok(Some(Moving { floor, ceiling }))
            }
            Size::Fixed(_) => {
                ensure!(
                    floor.is_none() && ceiling.is_none(),
                    "`{key}.floor` and `{key}.ceiling` are limits of a share that moves: set `{key}.size` to \
                     \"auto\", or leave them out"
                );
                Ok(None)
            }
        }
    }

    /// Return the section of RAM of a volume as if it were alone. A share that moves has its size later.
    ///
    /// # Errors
    /// As [`moving`](Self::moving).
    pub(super) fn ram(&self) -> Result<Ram> {
        let moving = self.moving(Resource::Ram)?;
        Ok(Ram { size: self.fixed(), pinned: self.pinned, moving, spare_pages: 0 })
    }
}

impl Volumes {
    /// Return the shares of a resource that move, as they are in the configuration, and their bytes together;
    /// `None` if none moves.
    ///
    /// # Errors
    /// Limits that contradict one another, or leave too little.
    pub(crate) fn moving_shares(&self, resource: Resource) -> Result<Option<(Shares, Bytes)>> {
        let key = resource.key();
        let moving = self.each().iter();
        let moving: Vec<(&Config, Moving)> =
            moving.filter_map(|config| Some((config, resource.moving(config)?))).collect();
        let Some((first, _)) = moving.first() else { return Ok(None) };
        let fixed = self.each().iter().filter(|config| resource.moving(config).is_none());
        let fixed = fixed.fold(0_u64, |sum, config| sum.saturating_add(resource.size(config).0));
        let left = self.bytes(resource).0.saturating_sub(fixed);
        let pages = |bytes: u64| u32::try_from(bytes / first.page_size.0).unwrap_or(u32::MAX);
        let limits = moving.iter().map(|(config, moving)| {
            Ok(Limits {
                floor_pages: pages(moving.floor.unwrap_or(Bytes(0)).0),
                ceiling_pages: pages(moving.ceiling.map_or(left, |ceiling| ceiling.0.min(left))),
                fill_ms: resource.fill_ms(config)?,
            })
        });
        let limits = limits.collect::<Result<Vec<_>>>()?;
        let shares = Shares::new(Terms::of(pages(left)), &limits).with_context(|| {
            format!(
                "`{key}.size`: the volumes with `{key}.size = \"auto\"` share the {left} bytes that the others leave"
            )
        });
        let mut shares = shares?;
        let number = u32::from(first.shards.get());
        ensure!(
            shares.step_pages() >= number,
            "`{key}.size`: the {left} bytes that volumes with `{key}.size = \"auto\"` share move in sixteenths, and \
             {number} shards of a volume need a page each: raise `{key}.size`, or lower `shards`"
        );
        let held = moving.iter().map(|(config, _)| pages(resource.size(config).0));
        shares.begin(&held.collect::<Vec<_>>());
        Ok(Some((shares, Bytes(left))))
    }

    /// Return the sizes that a volume's share of a resource may have; none if it does not move.
    ///
    /// # Errors
    /// As [`moving_shares`](Self::moving_shares).
    pub(crate) fn share_sizes(&self, resource: Resource, config: &Config) -> Result<Vec<u32>> {
        if resource.moving(config).is_none() {
            return Ok(vec![]);
        }
        let Some((shares, _)) = self.moving_shares(resource)? else { return Ok(vec![]) };
        let mut moving = self.each().iter().filter(|other| resource.moving(other).is_some());
        let number = moving.position(|other| other.nbd.export == config.nbd.export);
        Ok(number.map_or_else(Vec::new, |number| shares.sizes_pages(number)))
    }

    /// Give the shares that move the sizes with which they begin: those that hold these pages of each volume, by
    /// name, and equal parts of the rest.
    ///
    /// # Errors
    /// As [`moving_shares`](Self::moving_shares).
    pub(crate) fn begin_shares(
        &mut self,
        resource: Resource,
        held_pages: &dyn Fn(&str) -> u32,
    ) -> Result<()> {
        let Some((mut shares, _)) = self.moving_shares(resource)? else { return Ok(()) };
        let moving = self.each_mut().iter_mut().filter(|config| resource.moving(config).is_some());
        let moving: Vec<&mut Config> = moving.collect();
        let held = moving.iter().map(|config| held_pages(&config.nbd.export));
        shares.begin(&held.collect::<Vec<_>>());
        for (number, (config, pages)) in moving.into_iter().zip(shares.pages()).enumerate() {
            let most = shares.sizes_pages(number).last().copied().unwrap_or(pages);
            resource.resize(config, pages, most);
        }
        Ok(())
    }
}
