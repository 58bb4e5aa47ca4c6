//! Commands that carry out a recommendation.
//!
//! [`commands`] compares the recommended cache with the installed one. It changes settings in place
//! where that is possible. For the others (lvm's chunk size, bcache's bucket size, Open CAS's line
//! size, any size) the commands flush the cache, remove it and make it again, with a warning that
//! it starts empty.

mod bcache;
mod cache_toml;
mod lvmcache;
mod open_cas;
mod script;
mod shell;
mod zfs;

use std::fmt;

use serde::Serialize;

use crate::installed::{
    Bcache, DmCache, DmWritecache, InstalledCache, InstalledKind, OpenCas, Zfs,
};

pub use cache_toml::{CacheToml, Parameter, WriteMode};
pub use lvmcache::{lvm_chunk_bytes, lvm_migration_threshold_sectors};
pub use script::{Change, Commands, Step};

/// A logical volume, and the fast device that caches it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LvmVolume {
    /// The volume group.
    pub group: String,
    /// The volume in it that is cached.
    pub volume: String,
    /// A physical volume of the group on the fast device.
    pub fast: String,
    /// The name for the volume on the fast device.
    pub fast_volume: String,
}

/// A cache as it is recommended; one variant for each kind of cache.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Recommended {
    /// lvm's `--type cache`.
    DmCache {
        /// The volume and its fast device.
        volume: LvmVolume,
        /// Bytes of the cache.
        size_bytes: u64,
        /// Its settings.
        settings: DmCache,
    },
    /// lvm's `--type writecache`.
    DmWritecache {
        /// The volume and its fast device.
        volume: LvmVolume,
        /// Bytes of the cache.
        size_bytes: u64,
        /// Its settings.
        settings: DmWritecache,
    },
    /// bcache.
    Bcache {
        /// Its device, such as `bcache0`.
        device: String,
        /// The fast device.
        fast: String,
        /// The slow device.
        slow: String,
        /// Bytes of the cache.
        size_bytes: u64,
        /// Its settings.
        settings: Bcache,
    },
    /// Open CAS.
    OpenCas {
        /// The number of the cache.
        id: u16,
        /// The fast device, by a name below `/dev/disk/by-id`.
        fast: String,
        /// The slow devices, likewise.
        slow: Vec<String>,
        /// Bytes of the cache.
        size_bytes: u64,
        /// Its settings.
        settings: OpenCas,
    },
    /// The cache device of a ZFS pool.
    Zfs {
        /// The pool.
        pool: String,
        /// The fast device.
        fast: String,
        /// Bytes of the cache.
        size_bytes: u64,
        /// The settings of the module.
        settings: Zfs,
    },
    /// The engine of this project.
    Thermocline(CacheToml),
}

/// The reason why there are no commands for a recommendation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// A name cannot be an argument of a command.
    #[error("the {what} '{name}' cannot be used in a command: {reason}")]
    Name {
        /// The thing that it names.
        what: &'static str,
        /// The name.
        name: String,
        /// The reason.
        reason: &'static str,
    },
    /// The program would refuse a setting.
    #[error("{what} of {value} is not possible: {expected}")]
    Setting {
        /// The setting.
        what: &'static str,
        /// Its value.
        value: String,
        /// The valid values.
        expected: String,
    },
}

impl CommandError {
    fn setting(
        what: &'static str,
        value: impl fmt::Display + Copy,
        expected: impl Into<String>,
    ) -> Self {
        Self::Setting { what, value: value.to_string(), expected: expected.into() }
    }
}

/// Check that a percentage is one.
fn check_percent(what: &'static str, percent: u64, most: u64) -> Result<(), CommandError> {
    if percent > most {
        return Err(CommandError::setting(what, percent, format!("give 0 to {most} percent")));
    }
    Ok(())
}

/// Write the commands that lead from what is installed to what is recommended.
///
/// `installed` is the cache of the same data today, if there is one; where that is another kind of
/// cache, the commands first remove it.
///
/// ```
/// use thermocline_advise::commands::{CacheToml, Recommended, WriteMode, commands};
///
/// let engine = CacheToml {
///     file: "cache.toml".into(),
///     backing: "/dev/sda".into(),
///     flash: "/dev/nvme0n1p3".into(),
///     flash_bytes: 64 << 30,
///     write_budget_gib_per_day: None,
///     ram_bytes: 4 << 30,
///     page_bytes: 4096,
///     write_mode: WriteMode::Back,
///     policy: "hat".into(),
///     parameters: vec![],
///     socket: "thermocline.sock".into(),
/// };
/// let commands = commands(&Recommended::Thermocline(engine), None)?;
/// assert_eq!(commands.lines().collect::<Vec<_>>(), ["thermocline serve cache.toml"]);
/// assert!(commands.to_string().contains("[flash]\npath = \"/dev/nvme0n1p3\"\n"));
/// # Ok::<(), thermocline_advise::commands::CommandError>(())
/// ```
///
/// # Errors
/// If a name cannot be an argument of a command, or a program would refuse a setting.
pub fn commands(
    recommended: &Recommended,
    installed: Option<&InstalledCache>,
) -> Result<Commands, CommandError> {
    match recommended {
        Recommended::DmCache { volume, size_bytes, settings } => {
            lvmcache::cache(volume, *size_bytes, settings, installed)
        }
        Recommended::DmWritecache { volume, size_bytes, settings } => {
            lvmcache::writecache(volume, *size_bytes, settings, installed)
        }
        Recommended::Bcache { device, fast, slow, size_bytes, settings } => {
            let wanted = bcache::Wanted { device, fast, slow, size_bytes: *size_bytes, settings };
            bcache::commands(&wanted, installed)
        }
        Recommended::OpenCas { id, fast, slow, size_bytes, settings } => {
            let wanted =
                open_cas::Wanted { id: *id, fast, slow, size_bytes: *size_bytes, settings };
            open_cas::commands(&wanted, installed)
        }
        Recommended::Zfs { pool, fast, size_bytes, settings } => {
            let wanted = zfs::Wanted { pool, fast, size_bytes: *size_bytes, settings };
            zfs::commands(&wanted, installed)
        }
        Recommended::Thermocline(wanted) => cache_toml::commands(wanted, installed),
    }
}

/// Return `true` if two sizes differ by at most a hundredth, which metadata and rounding to extents or
/// buckets explain.
fn is_same_size(left: u64, right: u64) -> bool {
    left.abs_diff(right) <= left.max(right) / 100
}

/// Add a warning where a setting makes the fast device hold the only copy of new data.
fn warn_of_loss(commands: &mut Commands) {
    commands.warning(
        "from now on the fast device has the only copy of what was written last: if it fails, that is \
         lost. Use two devices in a mirror where this matters",
    );
}

/// Add the steps that remove a cache without losing data.
fn remove(commands: &mut Commands, installed: &InstalledCache) {
    commands.warning(
        "the next steps flush and remove the cache that is there. The new one starts empty: expect the \
         speed of the slow device until it is warm",
    );
    match &installed.kind {
        InstalledKind::DmCache { volume: Some(_), .. }
        | InstalledKind::DmWritecache { volume: Some(_), .. } => {
            lvmcache::remove(commands, &installed.name);
        }
        InstalledKind::DmCache { volume: None, .. }
        | InstalledKind::DmWritecache { volume: None, .. } => commands.warning(format!(
            "the device {} is not lvm's: remove it with the tool that has made it",
            installed.name
        )),
        InstalledKind::Bcache { set, .. } => bcache::remove(commands, &installed.name, set),
        InstalledKind::OpenCas { id, .. } => open_cas::remove(commands, *id),
        InstalledKind::Zfs { devices, .. } => zfs::remove(commands, &installed.name, devices),
    }
}

#[cfg(test)]
mod tests;
