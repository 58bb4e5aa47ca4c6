//! Configuration of a disk: settings with their units and ranges, and TOML.
//!
//! * Source: the data sheets that each preset names, in `presets.toml`.
//! * State: 8 bytes per zone.
//! * Cost: checking is O(cylinders), as it fits the seek curve.
//! * Deviations: none from the data sheets; what they leave open is said at each preset.

use serde::{Deserialize, Serialize};

use super::error::HddError;
use super::layout::turn_ns;
use super::seek::{SeekCurve, SeekFigures};

/// A hard disk: geometry, mechanics, electronics and cache.
///
/// All settings are public, so a variant of a preset is a struct update; [`Hdd::new`](super::Hdd)
/// checks them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HddConfig {
    /// Its name, as given on a command line.
    pub name: String,
    /// Description, in one line.
    #[serde(default)]
    pub summary: String,
    /// Source of the figures.
    #[serde(default)]
    pub source: String,
    /// Addressable bytes; a multiple of `sector_bytes`, at most what the zones hold.
    pub capacity_bytes: u64,
    /// Bytes per sector: 512, 1024, 2048 or 4096. Pages are multiples of it.
    pub sector_bytes: u32,
    /// Speed of the spindle, 600 to 60000.
    pub rotations_per_minute: u32,
    /// Recorded surfaces, 1 to 64.
    pub heads: u32,
    /// The zones from the outermost to the innermost, 1 to 256.
    pub zones: Vec<Zone>,
    /// Seek to the next cylinder, in milliseconds, above 0 to 100.
    pub single_track_seek_ms: f64,
    /// Mean over all pairs of different cylinders, in milliseconds.
    pub average_seek_ms: f64,
    /// Seek from the first to the last cylinder, in milliseconds, at most 1000.
    pub full_stroke_seek_ms: f64,
    /// Time to switch from one head to another of the same cylinder, in milliseconds, 0 to 100.
    pub head_switch_ms: f64,
    /// Additional time that a write waits if the arm moved or the heads were switched before its
    /// first sector, in milliseconds, 0 to 100.
    #[serde(default)]
    pub write_settle_ms: f64,
    /// Time from the arrival of a command until the drive acts on it, in milliseconds, 0 to 100.
    #[serde(default)]
    pub command_overhead_ms: f64,
    /// Rate of the interface, in 10^6 bytes per second; at least that of the outermost zone.
    pub interface_mb_per_s: f64,
    /// The memory on board, in bytes; 0 for none.
    #[serde(default)]
    pub cache_bytes: u64,
    /// Segments that share the memory which the write cache leaves, 0 to 4096; 0 for no read cache.
    #[serde(default)]
    pub cache_segments: u32,
    /// Number of bytes that the drive reads ahead of a request while it has nothing else to do; at
    /// most a segment, 0 for not at all.
    #[serde(default)]
    pub read_ahead_bytes: u64,
    /// Completion of writes: when the cache has them, or when the medium has them.
    #[serde(default)]
    pub write_cache: WriteCache,
    /// Part of the memory that may hold written data with [`WriteCache::WriteBack`], in bytes; at
    /// least a sector, at most `cache_bytes`.
    #[serde(default)]
    pub write_cache_bytes: u64,
    /// Order in which the drive serves the requests that wait for the medium.
    #[serde(default)]
    pub scheduling: Scheduling,
}

/// Neighbouring cylinders whose tracks hold equally many sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// Cylinders, at least 1; all zones together 8 to 4 million.
    pub cylinders: u32,
    /// Sectors per track, 1 to 1 million, and not more than in the zone further out.
    pub sectors_per_track: u32,
}

/// Completion of writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteCache {
    /// A write is done when the cache holds it.
    WriteBack,
    /// A write is done when the medium holds it.
    #[default]
    WriteThrough,
}

/// Order in which requests that wait for the medium are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduling {
    /// First come, first served.
    #[default]
    Fcfs,
    /// Shortest seek time first: the nearest cylinder; of equally near ones the outer, of one
    /// cylinder the request that became ready first.
    Sstf,
    /// The circular elevator C-LOOK: ascending addresses from where the head is, then again from the
    /// lowest that is wanted.
    CLook,
}

impl HddConfig {
    /// Create a disk from TOML: the fields of [`HddConfig`] by name, the zones as `[[zones]]` at
    /// the end. Keys without a default there must be given.
    ///
    /// ```
    /// let disk = thermocline_device::hdd::HddConfig::from_toml(
    ///     r#"
    ///     name = "small"
    ///     capacity_bytes = 80_000_000
    ///     sector_bytes = 512
    ///     rotations_per_minute = 5400
    ///     heads = 2
    ///     single_track_seek_ms = 2
    ///     average_seek_ms = 12
    ///     full_stroke_seek_ms = 22
    ///     head_switch_ms = 1
    ///     interface_mb_per_s = 33
    ///     scheduling = "c-look"
    ///     [[zones]]
    ///     cylinders = 500
    ///     sectors_per_track = 100
    ///     [[zones]]
    ///     cylinders = 500
    ///     sectors_per_track = 60
    ///     "#,
    /// )?;
    /// disk.check()?;
    /// # Ok::<(), thermocline_device::hdd::HddError>(())
    /// ```
    ///
    /// # Errors
    /// [`HddError::BadFile`] with line and column.
    pub fn from_toml(text: &str) -> Result<Self, HddError> {
        toml::from_str(text).map_err(|error| HddError::BadFile { reason: error.to_string() })
    }

    /// Checks every setting, as [`Hdd::new`](super::Hdd::new) does.
    ///
    /// # Errors
    /// [`HddError::BadSetting`] with the range that is permitted.
    pub fn check(&self) -> Result<(), HddError> {
        self.check_geometry()?;
        self.check_capacity()?;
        self.check_times()?;
        self.fit_seek_curve()?;
        self.check_cache()
    }

    /// Cylinders of all zones.
    pub(crate) fn cylinders(&self) -> u64 {
        self.zones.iter().map(|zone| u64::from(zone.cylinders)).sum()
    }

    /// Sectors that a segment of the read cache holds; 0 without one.
    pub(crate) fn segment_sectors(&self) -> u64 {
        let read_bytes = self.cache_bytes - self.write_buffer_bytes();
        let segment_bytes = read_bytes.checked_div(u64::from(self.cache_segments)).unwrap_or(0);
        segment_bytes / u64::from(self.sector_bytes)
    }

    /// Return the number of bytes that written data may occupy; 0 for writing through.
    pub(crate) const fn write_buffer_bytes(&self) -> u64 {
        match self.write_cache {
            WriteCache::WriteBack => self.write_cache_bytes,
            WriteCache::WriteThrough => 0,
        }
    }

    /// Return the seek curve through the three figures.
    pub(crate) fn fit_seek_curve(&self) -> Result<SeekCurve, HddError> {
        SeekCurve::fit(SeekFigures {
            cylinders: self.cylinders(),
            single_ns: self.single_track_seek_ms * 1e6,
            average_ns: self.average_seek_ms * 1e6,
            full_ns: self.full_stroke_seek_ms * 1e6,
        })
        .map_err(|(least_ns, most_ns)| HddError::BadSetting {
            name: "average_seek_ms",
            value: self.average_seek_ms.to_string(),
            permitted: format!(
                "{:.3} to {:.3} with this single-track and full-stroke seek",
                least_ns / 1e6,
                most_ns / 1e6
            ),
        })
    }

    fn check_geometry(&self) -> Result<(), HddError> {
        if !matches!(self.sector_bytes, 512 | 1024 | 2048 | 4096) {
            return Err(bad("sector_bytes", self.sector_bytes, "512, 1024, 2048 or 4096"));
        }
        within("rotations_per_minute", self.rotations_per_minute, 600, 60_000)?;
        within("heads", self.heads, 1, 64)?;
        within("zones", self.zones.len(), 1, 256)?;
        for zone in &self.zones {
            within("cylinders", zone.cylinders, 1, 4_000_000)?;
            within("sectors_per_track", zone.sectors_per_track, 1, 1_000_000)?;
        }
        if let Some(pair) =
            self.zones.windows(2).find(|pair| pair[1].sectors_per_track > pair[0].sectors_per_track)
        {
            let permitted =
                format!("at most {}, as in the zone further out", pair[0].sectors_per_track);
            return Err(bad("sectors_per_track", pair[1].sectors_per_track, permitted));
        }
        within("cylinders of all zones", self.cylinders(), 8, 4_000_000)
    }

    fn check_capacity(&self) -> Result<(), HddError> {
        let sector_bytes = u64::from(self.sector_bytes);
        let sectors: u64 = self
            .zones
            .iter()
            .map(|zone| u64::from(zone.cylinders) * u64::from(zone.sectors_per_track))
            .sum();
        let most_bytes = sectors * u64::from(self.heads) * sector_bytes;
        within("capacity_bytes", self.capacity_bytes, sector_bytes, most_bytes)?;
        if !self.capacity_bytes.is_multiple_of(sector_bytes) {
            let permitted = format!("a multiple of the sector, {sector_bytes} bytes");
            return Err(bad("capacity_bytes", self.capacity_bytes, permitted));
        }
        Ok(())
    }

    fn check_times(&self) -> Result<(), HddError> {
        within("single_track_seek_ms", self.single_track_seek_ms, 1e-6, 100.0)?;
        let (least, most) = (self.single_track_seek_ms, 1000.0);
        within("full_stroke_seek_ms", self.full_stroke_seek_ms, least, most)?;
        within("head_switch_ms", self.head_switch_ms, 0.0, 100.0)?;
        within("write_settle_ms", self.write_settle_ms, 0.0, 100.0)?;
        within("command_overhead_ms", self.command_overhead_ms, 0.0, 100.0)?;
        let track_bytes = f64::from(self.zones[0].sectors_per_track) * f64::from(self.sector_bytes);
        let media_mb_per_s = track_bytes * 1e3 / turn_ns(self) as f64;
        within("interface_mb_per_s", self.interface_mb_per_s, media_mb_per_s, 1e6)
    }

    fn check_cache(&self) -> Result<(), HddError> {
        let sector_bytes = u64::from(self.sector_bytes);
        within("cache_bytes", self.cache_bytes, 0, 1 << 40)?;
        within("cache_segments", self.cache_segments, 0, 4096)?;
        if self.write_cache == WriteCache::WriteBack {
            within("write_cache_bytes", self.write_cache_bytes, sector_bytes, self.cache_bytes)?;
        }
        let segment_bytes = self.segment_sectors() * sector_bytes;
        if self.cache_segments > 0 && segment_bytes == 0 {
            let most = (self.cache_bytes - self.write_buffer_bytes()) / sector_bytes;
            return Err(bad("cache_segments", self.cache_segments, format!("0 to {most}")));
        }
        within("read_ahead_bytes", self.read_ahead_bytes, 0, segment_bytes)
    }
}

fn within<T: Copy + PartialOrd + std::fmt::Display>(
    name: &'static str,
    value: T,
    least: T,
    most: T,
) -> Result<(), HddError> {
    // Not a number fails both comparisons.
    if value >= least && value <= most {
        return Ok(());
    }
    Err(bad(name, value, format!("{least} to {most}")))
}

fn bad(
    name: &'static str,
    value: impl std::fmt::Display,
    permitted: impl Into<String>,
) -> HddError {
    HddError::BadSetting { name, value: value.to_string(), permitted: permitted.into() }
}
