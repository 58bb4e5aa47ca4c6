//! Commands of lvm: dm-cache and dm-writecache.

use crate::installed::{
    DmCache, DmCacheMode, DmWritecache, InstalledCache, InstalledKind, WritecacheMemory,
};
use crate::size::exact;

use super::script::{Change, Commands};
use super::shell::{check_name, quoted};
use super::{
    CommandError, LvmVolume, check_percent, is_same_size, remove as remove_installed, warn_of_loss,
};

const CHECKED_AGAINST: &str = "lvm2 (commit d804677c)";

/// Chunks that lvm allows in a cache (`allocation/cache_pool_max_chunks`).
const CHUNKS_MAX: u64 = 1_000_000;
/// The unit of a chunk, and the least that the kernel takes.
const CHUNK_UNIT_BYTES: u64 = 32 << 10;
/// The most that it takes.
const CHUNK_BYTES_MAX: u64 = 1 << 30;
/// The chunk of a small cache.
const CHUNK_BYTES: u64 = 64 << 10;
/// Sectors that may migrate at one time, in a cache with small chunks.
const MIGRATION_THRESHOLD_SECTORS: u64 = 2048;
const SECTOR_BYTES: u64 = 512;

/// Compute the bytes of a chunk: `given` if lvm takes it for a cache of this size, or else the ones
/// that lvm chooses.
///
/// # Errors
/// If `given` is no multiple of 32 KiB between 32 KiB and 1 GiB, or makes more than 1,000,000 chunks.
pub fn lvm_chunk_bytes(size_bytes: u64, given: Option<u64>) -> Result<u64, CommandError> {
    let least = (size_bytes / CHUNKS_MAX).next_multiple_of(CHUNK_UNIT_BYTES);
    let Some(given) = given else { return Ok(least.next_power_of_two().max(CHUNK_BYTES)) };
    let is_valid = (CHUNK_UNIT_BYTES..=CHUNK_BYTES_MAX).contains(&given)
        && given.is_multiple_of(CHUNK_UNIT_BYTES);
    if !is_valid {
        let expected = "give a multiple of 32k from 32k to 1g";
        return Err(CommandError::setting("a chunk size", &*exact(given), expected));
    }
    if given < least {
        let expected = format!(
            "lvm allows 1,000,000 chunks, so a cache of this size needs at least {}",
            exact(least)
        );
        return Err(CommandError::setting("a chunk size", &*exact(given), expected));
    }
    Ok(given)
}

/// Compute the migration threshold that lvm sets for a chunk size: eight chunks, at least 2048
/// sectors.
pub const fn lvm_migration_threshold_sectors(chunk_bytes: u64) -> u64 {
    let eight = (chunk_bytes / SECTOR_BYTES).saturating_mul(8);
    if eight > MIGRATION_THRESHOLD_SECTORS { eight } else { MIGRATION_THRESHOLD_SECTORS }
}

fn check_volume(volume: &LvmVolume) -> Result<(), CommandError> {
    for (what, name) in [
        ("volume group", &volume.group),
        ("volume", &volume.volume),
        ("fast device", &volume.fast),
        ("name of the fast volume", &volume.fast_volume),
    ] {
        check_name(what, name)?;
    }
    Ok(())
}

impl LvmVolume {
    fn full_name(&self) -> String {
        format!("{}/{}", self.group, self.volume)
    }
}

/// Add the steps that remove a cache of lvm.
pub(super) fn remove(commands: &mut Commands, volume: &str) {
    commands.run(
        "Writes back what is dirty, and removes the cache; the volume stays in use.",
        &["lvconvert", "--uncache", volume],
    );
}

fn say_where(commands: &mut Commands, volume: &LvmVolume) {
    commands.note(format!(
        "The fast device must be in the volume group; if it is not, run `vgextend {} {}` first.",
        quoted(&volume.group),
        quoted(&volume.fast)
    ));
}

/// Return the commands for dm-cache.
pub(super) fn cache(
    volume: &LvmVolume,
    size_bytes: u64,
    wanted: &DmCache,
    installed: Option<&InstalledCache>,
) -> Result<Commands, CommandError> {
    check_volume(volume)?;
    check_name("policy", &wanted.policy)?;
    lvm_chunk_bytes(size_bytes, Some(wanted.block_bytes))?;
    if wanted.migration_threshold_sectors < wanted.block_bytes / SECTOR_BYTES {
        let expected = format!(
            "at least a chunk must migrate at a time; lvm sets {}",
            lvm_migration_threshold_sectors(wanted.block_bytes)
        );
        let given = wanted.migration_threshold_sectors;
        return Err(CommandError::setting("a migration threshold", given, expected));
    }
    let mut commands = Commands::new("lvm dm-cache", CHECKED_AGAINST);
    let name = volume.full_name();
    match installed {
        Some(InstalledCache {
            kind: InstalledKind::DmCache { volume: Some(_), settings },
            name: now,
            size_bytes: size,
            ..
        }) if *now == name
            && is_same_size(*size, size_bytes)
            && settings.block_bytes == wanted.block_bytes =>
        {
            change_cache(&mut commands, &name, settings, wanted);
        }
        Some(installed) => {
            commands.set_change(Change::Rebuild);
            remove_installed(&mut commands, installed);
            make_cache(&mut commands, volume, size_bytes, wanted);
        }
        None => {
            commands.set_change(Change::Create);
            make_cache(&mut commands, volume, size_bytes, wanted);
        }
    }
    commands.run(
        "Shows what is set, and what the kernel runs.",
        &[
            "lvs",
            "-o+cache_mode,chunksize,cache_policy,cache_settings,kernel_cache_settings",
            &name,
        ],
    );
    Ok(commands)
}

fn threshold(wanted: &DmCache) -> String {
    format!("migration_threshold={}", wanted.migration_threshold_sectors)
}

fn change_cache(commands: &mut Commands, name: &str, now: &DmCache, wanted: &DmCache) {
    if now.mode != wanted.mode {
        commands.set_change(Change::InPlace);
        if wanted.mode == DmCacheMode::Writeback {
            warn_of_loss(commands);
        }
        commands.run(
            "Changes what happens to writes; dirty blocks are written back if none may be left.",
            &["lvchange", "--cachemode", wanted.mode.word(), name],
        );
    }
    if now.policy != wanted.policy {
        commands.set_change(Change::InPlace);
        commands.run("Changes the policy.", &["lvchange", "--cachepolicy", &wanted.policy, name]);
    }
    if now.migration_threshold_sectors != wanted.migration_threshold_sectors {
        commands.set_change(Change::InPlace);
        commands.run(
            "Changes how many sectors may migrate at one time.",
            &["lvchange", "--cachesettings", &threshold(wanted), name],
        );
    }
}

fn make_cache(commands: &mut Commands, volume: &LvmVolume, size_bytes: u64, wanted: &DmCache) {
    say_where(commands, volume);
    if wanted.mode == DmCacheMode::Writeback {
        warn_of_loss(commands);
    }
    let (size, chunk) = (format!("{size_bytes}b"), exact(wanted.block_bytes));
    commands.run(
        "Makes a cache pool on the fast device; lvm rounds its size to whole extents.",
        &[
            "lvcreate",
            "--type",
            "cache-pool",
            "-L",
            &size,
            "--chunksize",
            &chunk,
            "-n",
            &volume.fast_volume,
            &volume.group,
            &volume.fast,
        ],
    );
    let pool = format!("{}/{}", volume.group, volume.fast_volume);
    commands.run(
        "Attaches the pool to the volume, which stays in use.",
        &[
            "lvconvert",
            "--type",
            "cache",
            "--cachepool",
            &pool,
            "--cachemode",
            wanted.mode.word(),
            "--cachepolicy",
            &wanted.policy,
            "--cachesettings",
            &threshold(wanted),
            &volume.full_name(),
        ],
    );
}

/// Return the commands for dm-writecache.
pub(super) fn writecache(
    volume: &LvmVolume,
    size_bytes: u64,
    wanted: &DmWritecache,
    installed: Option<&InstalledCache>,
) -> Result<Commands, CommandError> {
    check_volume(volume)?;
    check_percent("a high watermark", wanted.high_watermark, 100)?;
    check_percent("a low watermark", wanted.low_watermark, 100)?;
    if wanted.low_watermark > wanted.high_watermark {
        let expected = format!("it is at most the high watermark, {}", wanted.high_watermark);
        return Err(CommandError::setting("a low watermark", wanted.low_watermark, expected));
    }
    if !matches!(wanted.block_bytes, 512 | 4096) {
        let expected = "lvm takes 512 and 4096";
        return Err(CommandError::setting("a block size", wanted.block_bytes, expected));
    }
    let mut commands = Commands::new("lvm dm-writecache", CHECKED_AGAINST);
    let name = volume.full_name();
    match installed {
        Some(InstalledCache {
            kind: InstalledKind::DmWritecache { volume: Some(_), settings },
            name: now,
            size_bytes: size,
            ..
        }) if *now == name
            && is_same_size(*size, size_bytes)
            && is_changeable(settings, wanted) =>
        {
            let changed = writecache_settings(Some(settings), wanted);
            if !changed.is_empty() {
                commands.set_change(Change::InPlace);
                commands.run(
                    "Changes when writeback starts and stops.",
                    &["lvchange", "--cachesettings", &changed.join(" "), &name],
                );
            }
        }
        Some(installed) => {
            commands.set_change(Change::Rebuild);
            remove_installed(&mut commands, installed);
            make_writecache(&mut commands, volume, size_bytes, wanted);
        }
        None => {
            commands.set_change(Change::Create);
            make_writecache(&mut commands, volume, size_bytes, wanted);
        }
    }
    commands.run(
        "Shows the settings and counters that the kernel has.",
        &["dmsetup", "status", "--noflush", "--target", "writecache"],
    );
    Ok(commands)
}

/// Return `true` if settings can change in place: `lvchange` sets values, and unsets none.
fn is_changeable(now: &DmWritecache, wanted: &DmWritecache) -> bool {
    now.block_bytes == wanted.block_bytes
        && (now.max_age_ms.is_none() || wanted.max_age_ms.is_some())
        && (now.writeback_jobs.is_none() || wanted.writeback_jobs.is_some())
}

/// Return the settings that differ from those in effect, or from the kernel's defaults.
fn writecache_settings(now: Option<&DmWritecache>, wanted: &DmWritecache) -> Vec<String> {
    let mut changed = vec![];
    let mut set = |name: &str, now: Option<u64>, wanted: Option<u64>| {
        if let Some(value) = wanted.filter(|_| now != wanted) {
            changed.push(format!("{name}={value}"));
        }
    };
    let commits = if wanted.memory == WritecacheMemory::Ssd { 65536 } else { 64 };
    let now_or = |field: fn(&DmWritecache) -> u64, default| Some(now.map_or(default, field));
    set("high_watermark", now_or(|it| it.high_watermark, 50), Some(wanted.high_watermark));
    set("low_watermark", now_or(|it| it.low_watermark, 45), Some(wanted.low_watermark));
    set("max_age", now.and_then(|it| it.max_age_ms), wanted.max_age_ms);
    set("writeback_jobs", now.and_then(|it| it.writeback_jobs), wanted.writeback_jobs);
    let autocommit = now_or(|it| it.autocommit_blocks, commits);
    set("autocommit_blocks", autocommit, Some(wanted.autocommit_blocks));
    set("autocommit_time", now_or(|it| it.autocommit_ms, 1000), Some(wanted.autocommit_ms));
    set("cleaner", now_or(|it| it.cleaner.into(), 0), Some(wanted.cleaner.into()));
    changed
}

fn make_writecache(
    commands: &mut Commands,
    volume: &LvmVolume,
    size_bytes: u64,
    wanted: &DmWritecache,
) {
    say_where(commands, volume);
    warn_of_loss(commands);
    if wanted.block_bytes == 4096 {
        // lvmcache(7) says a bit over 2 GiB for each 100 GiB.
        let mib = (size_bytes / 50) >> 20;
        commands.note(format!("The kernel takes a bit over {mib} MiB of memory for this cache."));
    }
    commands.run(
        "Makes a volume on the fast device; lvm rounds its size to whole extents.",
        &[
            "lvcreate",
            "-n",
            &volume.fast_volume,
            "-L",
            &format!("{size_bytes}b"),
            &volume.group,
            &volume.fast,
        ],
    );
    let mut settings = vec![format!("block_size={}", wanted.block_bytes)];
    settings.extend(writecache_settings(None, wanted));
    let fast = format!("{}/{}", volume.group, volume.fast_volume);
    commands.run(
        "Attaches it to the volume.",
        &[
            "lvconvert",
            "--type",
            "writecache",
            "--cachevol",
            &fast,
            "--cachesettings",
            &settings.join(" "),
            &volume.full_name(),
        ],
    );
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GIB: u64 = 1 << 30;

    /// Worked examples.
    #[test]
    fn chunks_are_those_of_lvm() {
        for (size_gib, chunk_kib, threshold) in [(50, 64, 2048), (100, 128, 2048), (200, 256, 4096)]
        {
            let chunk = lvm_chunk_bytes(size_gib * GIB, None).unwrap();
            assert_eq!(chunk, chunk_kib << 10, "{size_gib} GiB");
            assert_eq!(lvm_migration_threshold_sectors(chunk), threshold, "{size_gib} GiB");
        }
    }

    #[test]
    fn a_chunk_that_lvm_refuses_is_an_error() {
        // A given size need not be a power of two.
        assert_eq!(lvm_chunk_bytes(100 * GIB, Some(128 << 10)), Ok(128 << 10));
        assert_eq!(lvm_chunk_bytes(200 * GIB, Some(224 << 10)), Ok(224 << 10));
        assert_eq!(lvm_chunk_bytes(GIB, Some(32 << 10)), Ok(32 << 10));
        for (size, given) in
            [(200 * GIB, 192 << 10), (GIB, 16 << 10), (GIB, 48 << 10), (GIB, 2 * GIB), (GIB, 0)]
        {
            assert!(lvm_chunk_bytes(size, Some(given)).is_err(), "{size} {given}");
        }
    }

    proptest! {
        #[test]
        fn the_chosen_chunk_can_be_given(size in 1..1_u64 << 49) {
            let chunk = lvm_chunk_bytes(size, None).unwrap();
            prop_assert_eq!(lvm_chunk_bytes(size, Some(chunk)), Ok(chunk));
            // Rounding the quotient down lets lvm have a few more chunks than it says.
            prop_assert!(size / chunk <= CHUNKS_MAX + CHUNKS_MAX / CHUNK_UNIT_BYTES + 1);
        }
    }
}
