//! Commands of ZFS: `zpool`, and parameters of the module.

use crate::installed::{CacheDevice, InstalledCache, InstalledKind, Zfs};
use crate::size::spelled;

use super::script::{Change, Commands};
use super::shell::check_name;
use super::{CommandError, check_percent, is_same_size, remove as remove_installed};

const CHECKED_AGAINST: &str = "OpenZFS 2.4.99 (commit be7657e3)";

/// The file that keeps the parameters for the next boot.
const BOOT_FILE: &str = "/etc/modprobe.d/thermocline-zfs.conf";

/// A pool's cache as it is recommended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    pub(super) pool: &'a str,
    pub(super) fast: &'a str,
    pub(super) size_bytes: u64,
    pub(super) settings: &'a Zfs,
}

pub(super) fn commands(
    wanted: &Wanted<'_>,
    installed: Option<&InstalledCache>,
) -> Result<Commands, CommandError> {
    check_name("pool", wanted.pool)?;
    check_name("fast device", wanted.fast)?;
    check_percent("a share of metadata", wanted.settings.meta_percent, 100)?;
    let mut commands = Commands::new("ZFS", CHECKED_AGAINST);
    let now = match installed {
        Some(cache) => {
            let mut now = None;
            let mut is_kept = false;
            let mut has_cache = true;
            if let InstalledKind::Zfs { devices, settings } = &cache.kind {
                now = Some(settings);
                has_cache = !devices.is_empty();
                is_kept = has_cache
                    && cache.name == wanted.pool
                    && is_same_size(cache.size_bytes, wanted.size_bytes);
            }
            if !is_kept {
                commands.set_change(if has_cache { Change::Rebuild } else { Change::Create });
                if has_cache {
                    remove_installed(&mut commands, cache);
                }
                add(&mut commands, wanted);
            }
            now
        }
        None => {
            commands.set_change(Change::Create);
            add(&mut commands, wanted);
            None
        }
    };
    set(&mut commands, now, wanted.settings);
    commands.run("Shows the pool with its cache devices.", &["zpool", "list", "-v", wanted.pool]);
    Ok(commands)
}

fn add(commands: &mut Commands, wanted: &Wanted<'_>) {
    commands.note(format!(
        "The cache is as large as the fast device: if that is larger than {0}, make a partition of {0} \
         on it.",
        spelled(wanted.size_bytes)
    ));
    commands.run(
        "Adds the fast device to the pool as a cache.",
        &["zpool", "add", wanted.pool, "cache", wanted.fast],
    );
}

/// Add the steps that remove cache devices, which never have the only copy of anything.
pub(super) fn remove(commands: &mut Commands, pool: &str, devices: &[CacheDevice]) {
    for device in devices {
        commands.run("Removes a cache device.", &["zpool", "remove", pool, &device.name]);
    }
}

/// Add the parameters that differ from those in effect, and the same for the next start.
fn set(commands: &mut Commands, now: Option<&Zfs>, wanted: &Zfs) {
    let values = |zfs: &Zfs| {
        [
            ("zfs_arc_max", Some(zfs.arc_max_bytes)),
            ("l2arc_write_max", Some(zfs.write_max_bytes)),
            ("l2arc_write_boost", zfs.write_boost_bytes),
            ("l2arc_headroom", Some(zfs.headroom)),
            ("l2arc_headroom_boost", Some(zfs.headroom_boost_percent)),
            ("l2arc_feed_secs", Some(zfs.feed_s)),
            ("l2arc_noprefetch", Some(u64::from(zfs.no_prefetch))),
            ("l2arc_mfuonly", Some(zfs.mfu_only)),
            ("l2arc_meta_percent", Some(zfs.meta_percent)),
            ("l2arc_dwpd_limit", zfs.dwpd_limit_percent),
            ("l2arc_ext_headroom_pct", zfs.ext_headroom_percent),
            ("l2arc_meta_cycles", zfs.meta_cycles),
        ]
    };
    let before = now.map(values);
    let mut options = String::new();
    for (place, (name, value)) in values(wanted).into_iter().enumerate() {
        let Some(value) = value else { continue };
        let now = before.map(|before| before[place].1);
        if now == Some(None) {
            commands.note(format!("This release of ZFS has no {name}, so it is left out."));
            continue;
        }
        options.push_str(&format!(" {name}={value}"));
        if now != Some(Some(value)) {
            if commands.change == Change::None {
                commands.set_change(Change::InPlace);
            }
            let path = format!("/sys/module/zfs/parameters/{name}");
            commands.write("Changes a parameter of the running module.", &value.to_string(), &path);
        }
    }
    if commands.change != Change::None {
        let comment = "Sets the same at the next start of the machine.";
        commands.file(comment, BOOT_FILE, format!("options zfs{options}\n"));
        commands.note("If the initial RAM disk contains the module, rebuild it, too.");
    }
}
