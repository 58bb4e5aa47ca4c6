//! Shares of the flash that move, as a start finds them.
//!
//! The flash does not say which share a volume had. Its region has room for that share at least, and its pages
//! fit in it, up to those that only a flush wanted there. If regions have room for more than there is, because
//! what a volume gave up is still in its region, the pages count.

use anyhow::Result;
use thermocline_engine::driver::flash::FlashDevice;
use thermocline_engine::shares::Shares;
use thermocline_engine::{Directory, FlashSet, Options};

use super::config::{Config, Resource, Volumes};

/// Pages of a volume that the flash has, and has room for.
#[derive(Clone, Copy, Debug)]
struct FoundShare {
    /// Pages that the policy may have, as its region has room for them.
    room_pages: u32,
    /// Pages that are there.
    held_pages: u32,
}

/// Return a configuration in which shares of the flash that move are as the flash has them. If that cannot be
/// read, they are equal parts; the start says what is wrong with it.
///
/// # Errors
/// As [`Volumes::moving_shares`].
pub(super) fn with_found_shares(configs: &Volumes, flash: &mut FlashDevice) -> Result<Volumes> {
    let mut configs = configs.clone();
    let Some((shares, _)) = configs.moving_shares(Resource::Flash)? else { return Ok(configs) };
    let moving = configs.each().iter();
    let moving: Vec<&Config> =
        moving.filter(|config| Resource::Flash.moving(config).is_some()).collect();
    let found: Vec<(String, u32)> = moving
        .iter()
        .map(|config| find(flash, config))
        .collect::<Option<Vec<_>>>()
        .map_or_else(Vec::new, |found| {
            let names = moving.iter().map(|config| config.nbd.export.clone());
            names.zip(begun_pages(&shares, &found)).collect()
        });
    let pages_of = |name: &str| found.iter().find(|(found, _)| found == name).map_or(0, |it| it.1);
    configs.begin_shares(Resource::Flash, &pages_of)?;
    Ok(configs)
}

/// Return what the flash has of a volume, if that can be read; nothing if it has no region.
fn find(flash: &mut FlashDevice, config: &Config) -> Option<FoundShare> {
    let none = FoundShare { room_pages: 0, held_pages: 0 };
    let directory = Directory::read(flash).ok()??;
    let name = &*config.nbd.export;
    let Ok(range) = directory.window(name) else { return Some(none) };
    if directory.is_new(flash, name).ok()? {
        return Some(none);
    }
    let found = FlashSet::read(&mut flash.region(range).ok()?).ok()?;
    let [ram_pages, _] = config.tier_pages().ok()?;
    let ram_pages = ram_pages.saturating_add(config.ram.spare_pages);
    let shards = u32::from(config.shards.get());
    // Each shard has its part of RAM, and a region of its own.
    let regions = found.flashes().iter();
    let room_pages = |slots| Options::flash_pages_for(slots, ram_pages / shards);
    let rooms = regions.map(|region| room_pages(region.superblock().layout.slots));
    Some(FoundShare {
        room_pages: rooms.sum(),
        held_pages: u32::try_from(found.contents().held_pages).unwrap_or(u32::MAX),
    })
}

/// Return the pages with which volumes begin that had these shares.
fn begun_pages(shares: &Shares, found: &[FoundShare]) -> Vec<u32> {
    let step_pages = shares.step_pages();
    // Slots are more by parts of a step, never fewer.
    let rooms = found.iter().map(|one| one.room_pages / step_pages * step_pages);
    let rooms: Vec<u32> = rooms.collect();
    let all = rooms.iter().fold(0_u32, |sum, &pages| sum.saturating_add(pages));
    if all <= shares.terms().pages {
        return rooms;
    }
    found.iter().zip(rooms).map(|(one, room)| one.held_pages.min(room)).collect()
}

#[cfg(test)]
mod tests {
    use thermocline_engine::shares::{Limits, Terms};

    use super::*;

    #[test]
    fn room_says_what_the_shares_were_unless_there_is_too_much_of_it() {
        let limits = Limits { floor_pages: 1, ceiling_pages: 1600, fill_ms: 1.0 };
        let begun = |found: [[u32; 2]; 2]| {
            let found = found.map(|[room_pages, held_pages]| FoundShare { room_pages, held_pages });
            let mut shares = Shares::new(Terms::of(1600), &[limits; 2]).unwrap();
            let pages = begun_pages(&shares, &found);
            shares.begin(&pages);
            shares.pages()
        };
        assert_eq!(begun([[1209, 300], [400, 0]]), [1200, 400], "as rooms say");
        assert_eq!(begun([[1200, 1170], [1300, 310]]), [1200, 400], "as pages say");
        assert_eq!(begun([[1200, 20], [1300, 1280]]), [300, 1300], "one is nearly empty");
        assert_eq!(begun([[0, 0], [0, 0]]), [800, 800], "a new flash");
        assert_eq!(begun([[0, 0], [1600, 900]]), [100, 1500], "a new volume");
    }
}
