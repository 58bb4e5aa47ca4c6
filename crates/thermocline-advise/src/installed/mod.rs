//! The caches that a machine has, as their own programs and the kernel describe them.
//!
//! Each kind has a module with a function `read`, which takes a [`Runner`] for the programs it asks or
//! the root of the file system it looks into. Text that is not understood is an error with its place; a
//! setting that no model knows is kept by name in [`InstalledCache::other_settings`].

pub mod bcache;
mod counters;
mod csv;
mod device_mapper;
mod error;
mod files;
pub mod lvmcache;
pub mod open_cas;
mod recorded;
mod runner;
mod settings;
pub mod zfs;

use serde::Serialize;

pub use counters::{Counted, Counter, Counters, Unit};
pub use error::InstalledError;
pub use recorded::RecordedMachine;
pub use runner::{Runner, run_program};
pub use settings::{
    Bcache, BcacheMode, BcacheReplacement, DmCache, DmCacheMode, DmWritecache, OpenCas,
    OpenCasCleaning, OpenCasMode, OpenCasPromotion, SequentialPolicy, WritecacheMemory, Zfs,
};

/// The caches that were found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Found {
    /// The caches, in the order in which their program lists them.
    pub caches: Vec<InstalledCache>,
    /// Sentences about what a user should know besides, such as a device without its cache.
    pub notes: Vec<String>,
}

impl Found {
    /// Find a cache by its name.
    pub fn named(&self, name: &str) -> Option<&InstalledCache> {
        self.caches.iter().find(|cache| cache.name == name)
    }
}

/// A cache of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InstalledCache {
    /// Its name: `vg/lv` or a device mapper name, `bcache0`, the number of an Open CAS cache, a pool.
    pub name: String,
    /// Bytes that the fast device can hold of the slow one.
    pub size_bytes: u64,
    /// The kind of cache, with its settings.
    #[serde(flatten)]
    pub kind: InstalledKind,
    /// The counters that the kernel keeps.
    pub counters: Counters,
    /// Settings that no model knows, by the names that the kernel or the program gives them.
    pub other_settings: Vec<Setting>,
}

/// A kind of cache, with what identifies it and its settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum InstalledKind {
    /// The device mapper's target `cache`, which lvm uses for `--type cache`.
    DmCache {
        /// The logical volume, if lvm has made it.
        volume: Option<Volume>,
        /// Its settings.
        settings: DmCache,
    },
    /// The device mapper's target `writecache`.
    DmWritecache {
        /// The logical volume, if lvm has made it.
        volume: Option<Volume>,
        /// Its settings.
        settings: DmWritecache,
    },
    /// A backing device of bcache, and the cache set that it uses.
    Bcache {
        /// The UUID of the cache set.
        set: String,
        /// Its settings.
        settings: Bcache,
    },
    /// A cache of Open CAS.
    OpenCas {
        /// Its number.
        id: u16,
        /// The fast device.
        device: String,
        /// The slow devices.
        cores: Vec<Core>,
        /// Its settings; those of sequential streams are the first core's.
        settings: OpenCas,
    },
    /// The cache devices of a ZFS pool.
    Zfs {
        /// The fast devices.
        devices: Vec<CacheDevice>,
        /// The settings of the module, which all pools share.
        settings: Zfs,
    },
}

impl InstalledKind {
    /// Return the name by which people know it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::DmCache { .. } => "dm-cache",
            Self::DmWritecache { .. } => "dm-writecache",
            Self::Bcache { .. } => "bcache",
            Self::OpenCas { .. } => "Open CAS",
            Self::Zfs { .. } => "ZFS",
        }
    }
}

/// A logical volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Volume {
    /// Its volume group.
    pub group: String,
    /// Its name in the group.
    pub name: String,
}

/// A slow device of an Open CAS cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Core {
    /// Its number in the cache.
    pub id: u16,
    /// The slow device.
    pub device: String,
    /// The device that is used in its place, such as `/dev/cas1-1`.
    pub exported: String,
}

/// A cache device of a ZFS pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CacheDevice {
    /// Its name in the pool.
    pub name: String,
    /// Its bytes.
    pub size_bytes: u64,
}

/// A setting that no model knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Its name in the kernel or the program.
    pub name: String,
    /// Its value; empty for a word that stands alone.
    pub value: String,
}

impl Setting {
    fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}
