//! Configuration of a drive: settings with their units and ranges, and TOML.
//!
//! * Source: the papers, programs and data sheets that each preset names, in `presets.toml`.
//! * State: none that grows.
//! * Cost: checking is O(1).
//! * Deviations: what the sources leave open is said at each preset.

use serde::{Deserialize, Serialize};

use super::check::{bad, within};
use super::datasheet::Datasheet;
use super::error::SsdError;
use super::placement::Placement;
use super::slc::SlcCache;
use super::suspension::Suspension;

pub use super::choices::{
    Allocation, GcBlocks, GcUnit, Mapping, Scheduling, Victim, WriteCompletes,
};

/// A solid-state drive: geometry, times, controller and translation layer.
///
/// All settings are public, so a variant of a preset is a struct update; [`Ssd::new`](super::Ssd)
/// checks them. In TOML, what has a default here may be left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent switches of a drive")]
pub struct SsdConfig {
    /// Its name, as given on a command line.
    pub name: String,
    /// Description, in one line.
    #[serde(default)]
    pub summary: String,
    /// Source of the figures.
    #[serde(default)]
    pub source: String,
    /// Buses between controller and chips, 1 to 64.
    pub channels: u32,
    /// Chips on each channel, 1 to 64.
    pub chips_per_channel: u32,
    /// Dies in each chip, 1 to 16.
    pub dies_per_chip: u32,
    /// Planes on each die, 1 to 8.
    pub planes_per_die: u32,
    /// Blocks of each plane, 8 to 2^20; all planes together at most 2^32 - 2 pages.
    pub blocks_per_plane: u32,
    /// Pages of each block, 2 to 16384.
    pub pages_per_block: u32,
    /// Bytes of a page, 256 to 2^20. Addresses are in these pages.
    pub page_bytes: u32,
    /// Pages that the cells program and read in one operation, because they share a physical page of
    /// the chip: a power of two from 1 to 32. More than 1 takes page mapping, dynamic allocation,
    /// separate blocks for garbage collection, and no copyback.
    #[serde(default = "one")]
    pub pages_per_program: u32,
    /// The share of all pages that the host does not see, above 0 to 0.9; enough for the reserve of
    /// every plane. Initial bad blocks come out of it.
    pub over_provisioning: f64,
    /// Cell times of reads, in microseconds, each 0 to 10^6: one, or one per page of a word line in
    /// turn (lower, middle, upper, ...), at most 16.
    pub read_us: Vec<f64>,
    /// Cell times of programs, like `read_us`.
    pub program_us: Vec<f64>,
    /// The cell time of an erase, in microseconds, 0 to 10^6.
    pub erase_us: f64,
    /// Command and address cycles of one page operation on the bus, in nanoseconds, 0 to 10^6.
    pub command_ns: u32,
    /// Time of a byte on the bus, in nanoseconds, 0 to 1000.
    pub bus_ns_per_byte: f64,
    /// Between the transfers of two planes programmed together (tDBSY), in nanoseconds, 0 to 10^6.
    #[serde(default)]
    pub plane_gap_ns: u32,
    /// Operations of one kind on different planes of a die that wait together run together: programs
    /// at equal places of their word lines, and reads and erases wherever they are.
    #[serde(default = "yes")]
    pub multi_plane: bool,
    /// The dies of a chip work at the same time.
    #[serde(default = "yes")]
    pub interleave: bool,
    /// Garbage collection copies inside a plane without the bus.
    #[serde(default)]
    pub copyback: bool,
    /// A die transfers one page while its cells work on another.
    #[serde(default)]
    pub cache_register: bool,
    /// Requests in service at once, 1 to 65536; later ones wait outside.
    pub queue_depth: u32,
    /// Time from taking a read or trim into service until its flash operations are queued, in
    /// microseconds, 0 to 10^6.
    #[serde(default)]
    pub read_overhead_us: f64,
    /// The same for a write.
    #[serde(default)]
    pub write_overhead_us: f64,
    /// Order of what waits for the same die.
    #[serde(default)]
    pub scheduling: Scheduling,
    /// Programs and erases stop for reads of the host; it takes [`Scheduling::ReadFirst`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspension: Option<Suspension>,
    /// When a write is done.
    #[serde(default)]
    pub write_completes: WriteCompletes,
    /// DRAM in which writes wait until the cells have them, in bytes, for
    /// [`WriteCompletes::Buffer`]: at least two physical pages per plane and stream, and a mapping unit,
    /// at most 2^40.
    #[serde(default)]
    pub write_buffer_bytes: u64,
    /// Capacitors that keep the DRAM's writes through a power failure, so that a flush has nothing to do;
    /// for [`WriteCompletes::Buffer`]. Without them, a flush writes the DRAM out.
    #[serde(default)]
    pub power_loss_protection: bool,
    /// Bandwidth of the link to the host, in 10^6 bytes per second in each direction; 0: no delay.
    #[serde(default)]
    pub host_link_mb_per_s: f64,
    /// The link carries bytes in one direction at a time, as SATA does.
    #[serde(default)]
    pub host_link_half_duplex: bool,
    /// Garbage collection and wear levelling take time.
    #[serde(default = "yes")]
    pub gc_time: bool,
    /// Mapping of addresses to flash pages.
    #[serde(default)]
    pub mapping: Mapping,
    /// Pages that the map keeps together: a power of two from 1 to 16. A write of a part of such a unit
    /// reads the rest and writes it all. More than 1 takes [`Mapping::Page`].
    #[serde(default = "one")]
    pub mapping_unit_pages: u32,
    /// Log blocks per plane with [`Mapping::Bast`], 1 to 4096; unused otherwise.
    #[serde(default = "some_log_blocks")]
    pub log_blocks_per_plane: u32,
    /// Plane that a written page goes to, with [`Mapping::Page`].
    #[serde(default)]
    pub allocation: Allocation,
    /// The order of striping over channels `C`, chips `W`, dies `D` and planes `P`: each letter once;
    /// the first changes with every page.
    #[serde(default = "channels_first")]
    pub order: String,
    /// A plane collects garbage while less than this share of it is free, 0 to 0.9.
    pub gc_threshold: f64,
    /// Unit of a plane's free space.
    #[serde(default)]
    pub gc_unit: GcUnit,
    /// Choice of the block to collect.
    #[serde(default)]
    pub gc_victim: Victim,
    /// Number of blocks that [`Victim::DChoices`] looks at, 1 to 1024; unused otherwise.
    #[serde(default = "some_choices")]
    pub gc_choices: u32,
    /// Blocks for the pages that garbage collection moves.
    #[serde(default)]
    pub gc_blocks: GcBlocks,
    /// Open blocks for writes of the host, 1 or 2; with 2, an identifier tells hot pages from cold.
    #[serde(default = "one")]
    pub streams: u32,
    /// Placement handles by which the host says what belongs together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// Cells with one bit that take writes first; none in drives that write at one speed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slc_cache: Option<SlcCache>,
    /// Of the free blocks the least worn is used first; otherwise the one that is free the longest.
    #[serde(default = "yes")]
    pub dynamic_wear: bool,
    /// The coldest block of a plane is moved if its erases lag more than this behind the most worn
    /// one; 0 for never.
    #[serde(default = "some_wear")]
    pub static_wear_threshold: u32,
    /// Erases that a block bears, at least 1; then it is retired.
    pub erase_limit: u32,
    /// The share of each plane's blocks that is bad from the start, 0 to 0.5.
    #[serde(default)]
    pub initial_bad_blocks: f64,
    /// Seed for [`Victim::Random`], [`Victim::DChoices`] and the initial bad blocks.
    #[serde(default)]
    pub seed: u64,
    /// Figures of the manufacturer, if the configuration stands for a drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datasheet: Option<Datasheet>,
}

impl SsdConfig {
    /// Parse a drive from TOML: the fields of [`SsdConfig`] by name.
    ///
    /// ```
    /// use thermocline_device::ssd::{Ssd, SsdConfig};
    ///
    /// let config = SsdConfig::from_toml(
    ///     r#"
    ///     name = "small"
    ///     channels = 2
    ///     chips_per_channel = 1
    ///     dies_per_chip = 1
    ///     planes_per_die = 2
    ///     blocks_per_plane = 128
    ///     pages_per_block = 64
    ///     page_bytes = 4096
    ///     over_provisioning = 0.1
    ///     read_us = [50]
    ///     program_us = [600, 900]
    ///     erase_us = 3000
    ///     command_ns = 200
    ///     bus_ns_per_byte = 7.5
    ///     queue_depth = 32
    ///     gc_threshold = 0.02
    ///     erase_limit = 3000
    ///     "#,
    /// )?;
    /// assert_eq!(Ssd::new(&config, None)?.logical_pages(), 29_491);
    /// # Ok::<(), thermocline_device::ssd::SsdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SsdError::BadFile`] with line and column.
    pub fn from_toml(text: &str) -> Result<Self, SsdError> {
        toml::from_str(text).map_err(|error| SsdError::BadFile { reason: error.to_string() })
    }

    /// Return the same drive with the fewest blocks per plane that hold at least `logical_pages` and the
    /// reserve that every plane needs.
    ///
    /// # Errors
    /// [`SsdError::BadSetting`] if no number of blocks does, or another setting is bad.
    pub fn sized_for(&self, logical_pages: u64) -> Result<Self, SsdError> {
        let mut sized = Self { blocks_per_plane: Self::BLOCKS_MOST, ..self.clone() };
        sized.check_parts()?;
        let most = sized.blocks_most();
        let suits = |blocks_per_plane| {
            let drive = Self { blocks_per_plane, ..self.clone() };
            drive.validate().is_ok() && drive.logical_pages() >= logical_pages
        };
        if !suits(most) {
            sized.blocks_per_plane = most;
            sized.validate()?;
            let permitted = format!("at most {} with this geometry", sized.logical_pages());
            return Err(bad("logical_pages", logical_pages, permitted));
        }
        // A drive that does not suit with some blocks does not suit with fewer, apart from the rounding of bad
        // blocks; the search ends at a drive that suits in any case.
        let (mut least, mut enough) = (1, most);
        while least < enough {
            let middle = least + (enough - least) / 2;
            if suits(middle) {
                enough = middle;
            } else {
                least = middle + 1;
            }
        }
        sized.blocks_per_plane = enough;
        Ok(sized)
    }

    /// Return the number of pages that the host sees, for a configuration that is [valid](Self::validate).
    pub fn logical_pages(&self) -> u64 {
        let planes = u64::from(self.planes());
        match self.mapping {
            Mapping::Page => {
                let raw = planes.saturating_mul(self.raw_pages_per_plane());
                let pages = whole(raw as f64 * (1.0 - self.over_provisioning));
                pages - pages % u64::from(self.mapping_unit_pages.max(1))
            }
            Mapping::Block | Mapping::Bast => {
                let blocks = f64::from(self.blocks_per_plane) * (1.0 - self.over_provisioning);
                whole(blocks).saturating_mul(planes).saturating_mul(self.pages_per_block.into())
            }
        }
    }

    /// Return the number of bytes that the host sees.
    pub fn logical_bytes(&self) -> u64 {
        self.logical_pages().saturating_mul(self.page_size_bytes())
    }

    /// Return the number of pages of each block.
    pub const fn pages_per_block(&self) -> u32 {
        self.pages_per_block
    }

    /// Return the size of a page in bytes.
    pub const fn page_size_bytes(&self) -> u64 {
        self.page_bytes as u64
    }

    /// Planes of all channels, chips and dies.
    pub(crate) const fn planes(&self) -> u32 {
        self.channels
            .saturating_mul(self.chips_per_channel)
            .saturating_mul(self.dies_per_chip)
            .saturating_mul(self.planes_per_die)
    }

    /// Blocks that are filled, collected and erased together: those of a reclaim unit.
    pub(crate) fn unit_blocks(&self) -> u32 {
        self.placement.map_or(1, |placement| placement.reclaim_unit_blocks)
    }

    /// Reclaim units of each plane; without placement, its blocks.
    pub(crate) fn units_per_plane(&self) -> u32 {
        self.blocks_per_plane / self.unit_blocks().max(1)
    }

    /// Return the number of pages of each reclaim unit; without placement, of each block.
    pub(crate) fn pages_per_unit(&self) -> u32 {
        self.pages_per_block.saturating_mul(self.unit_blocks())
    }

    pub(crate) fn raw_pages_per_plane(&self) -> u64 {
        u64::from(self.blocks_per_plane) * u64::from(self.pages_per_block)
    }

    /// Reclaim units of each plane that are bad from the start.
    pub(crate) fn bad_units_per_plane(&self) -> u32 {
        let units = f64::from(self.units_per_plane()) * self.initial_bad_blocks;
        u32::try_from(whole(units)).unwrap_or(u32::MAX).min(self.units_per_plane())
    }

    /// Reclaim units of each plane that hold no data of their own: open ones, and what garbage collection
    /// needs to go on in every case.
    pub(crate) fn reserved_units(&self) -> u32 {
        match self.mapping {
            Mapping::Page => {
                let gc = match self.gc_blocks {
                    GcBlocks::Separate => self.copy_streams(),
                    GcBlocks::Shared => 0,
                };
                let wear = if self.static_wear_threshold > 0 { self.copy_streams() } else { 0 };
                Self::FREE_BLOCKS_LEAST + self.host_streams() + gc + wear
            }
            Mapping::Block => Self::FREE_BLOCKS_LEAST,
            Mapping::Bast => Self::FREE_BLOCKS_LEAST + self.log_blocks_per_plane,
        }
    }

    /// Open reclaim units of each plane for writes of the host.
    pub(crate) fn host_streams(&self) -> u32 {
        self.placement.map_or(self.streams, |placement| placement.handles)
    }

    /// Open reclaim units of each plane for what garbage collection moves.
    pub(crate) fn copy_streams(&self) -> u32 {
        self.placement.filter(|one| one.is_persistent()).map_or(1, |one| one.handles)
    }

    /// Free blocks below which a plane collects garbage before it takes another write.
    pub(crate) const FREE_BLOCKS_LEAST: u32 = 2;

    /// Blocks of a plane, at most.
    pub(crate) const BLOCKS_MOST: u32 = 1 << 20;

    /// Checks every setting, as [`Ssd::new`](super::Ssd::new) does.
    ///
    /// # Errors
    /// [`SsdError::BadSetting`] with what is permitted.
    pub fn validate(&self) -> Result<(), SsdError> {
        self.check_parts()?;
        self.check_size()?;
        self.check_times()?;
        self.check_controller()?;
        self.check_buffer()?;
        self.datasheet.as_ref().map_or(Ok(()), Datasheet::validate)?;
        self.check_spare()
    }

    /// Blocks of a plane, at most: page numbers have 32 bits, and one of them means none.
    fn blocks_most(&self) -> u32 {
        let most =
            u64::from(u32::MAX) / (u64::from(self.planes()) * u64::from(self.pages_per_block));
        u32::try_from(most).unwrap_or(u32::MAX).min(Self::BLOCKS_MOST)
    }

    fn check_parts(&self) -> Result<(), SsdError> {
        within("channels", self.channels, 1, 64)?;
        within("chips_per_channel", self.chips_per_channel, 1, 64)?;
        within("dies_per_chip", self.dies_per_chip, 1, 16)?;
        within("planes_per_die", self.planes_per_die, 1, 8)?;
        within("pages_per_block", self.pages_per_block, 2, 16_384)?;
        within("page_bytes", self.page_bytes, 256, 1 << 20)?;
        within("pages_per_program", self.pages_per_program, 1, 32)?;
        if !self.pages_per_program.is_power_of_two() {
            return Err(bad("pages_per_program", self.pages_per_program, "a power of two"));
        }
        if !self.pages_per_block.is_multiple_of(self.pages_per_program) {
            let permitted = format!("a multiple of {}", self.pages_per_program);
            return Err(bad("pages_per_block", self.pages_per_block, permitted));
        }
        Ok(())
    }

    fn check_size(&self) -> Result<(), SsdError> {
        within("blocks_per_plane", self.blocks_per_plane, 8, self.blocks_most())
    }

    fn check_times(&self) -> Result<(), SsdError> {
        for (name, times) in [("read_us", &self.read_us), ("program_us", &self.program_us)] {
            within(name, times.len(), 1, 16)?;
            for &time in times {
                within(name, time, 0.0, 1e6)?;
            }
        }
        within("erase_us", self.erase_us, 0.0, 1e6)?;
        within("command_ns", self.command_ns, 0, 1_000_000)?;
        within("bus_ns_per_byte", self.bus_ns_per_byte, 0.0, 1000.0)?;
        within("plane_gap_ns", self.plane_gap_ns, 0, 1_000_000)?;
        self.suspension.map_or(Ok(()), |suspension| suspension.check(self.scheduling))?;
        within("read_overhead_us", self.read_overhead_us, 0.0, 1e6)?;
        within("write_overhead_us", self.write_overhead_us, 0.0, 1e6)
    }

    fn check_controller(&self) -> Result<(), SsdError> {
        within("queue_depth", self.queue_depth, 1, 65_536)?;
        within("host_link_mb_per_s", self.host_link_mb_per_s, 0.0, 1e6)?;
        within("log_blocks_per_plane", self.log_blocks_per_plane, 1, 4096)?;
        let mut letters: Vec<u8> = self.order.bytes().collect();
        letters.sort_unstable();
        if letters != *b"CDPW" {
            let permitted = "the letters C, W, D and P, each once, as in CWDP";
            return Err(bad("order", &self.order, permitted));
        }
        within("mapping_unit_pages", self.mapping_unit_pages, 1, 16)?;
        if !self.mapping_unit_pages.is_power_of_two() {
            return Err(bad("mapping_unit_pages", self.mapping_unit_pages, "a power of two"));
        }
        if self.mapping_unit_pages > 1 && self.mapping != Mapping::Page {
            let permitted = "1 without page mapping";
            return Err(bad("mapping_unit_pages", self.mapping_unit_pages, permitted));
        }
        within("gc_threshold", self.gc_threshold, 0.0, 0.9)?;
        within("gc_choices", self.gc_choices, 1, 1024)?;
        within("streams", self.streams, 1, 2)?;
        if let Some(placement) = self.placement {
            let is_alone = self.streams == 1 && self.mapping == Mapping::Page;
            placement.check(is_alone, self.gc_blocks == GcBlocks::Shared)?;
        }
        if let Some(cache) = self.slc_cache {
            cache.check(self)?;
        }
        within("erase_limit", self.erase_limit, 1, u32::MAX)?;
        within("initial_bad_blocks", self.initial_bad_blocks, 0.0, 0.5)
    }

    /// Check that the buffer goes with the way in which writes complete, and physical pages of
    /// several pages with the layer that fills them.
    fn check_buffer(&self) -> Result<(), SsdError> {
        let gathered = self.planes() * self.host_streams() * 2 * self.pages_per_program;
        let least = u64::from(gathered.max(self.mapping_unit_pages)) * self.page_size_bytes();
        if self.write_completes == WriteCompletes::Buffer {
            within("write_buffer_bytes", self.write_buffer_bytes, least, 1 << 40)?;
        } else if self.write_buffer_bytes > 0 {
            let permitted = "0 unless `write_completes` is \"buffer\"";
            return Err(bad("write_buffer_bytes", self.write_buffer_bytes, permitted));
        } else if self.power_loss_protection {
            let permitted = "false unless `write_completes` is \"buffer\"";
            return Err(bad("power_loss_protection", true, permitted));
        }
        let is_filled_in_turn = self.mapping == Mapping::Page
            && self.allocation == Allocation::Dynamic
            && self.gc_blocks == GcBlocks::Separate
            && !self.copyback;
        if self.pages_per_program > 1 && !is_filled_in_turn {
            let permitted = "1 without page mapping, dynamic allocation and separate blocks for \
                             garbage collection, or with copyback";
            return Err(bad("pages_per_program", self.pages_per_program, permitted));
        }
        Ok(())
    }

    /// Check that every plane has room for its share of the data and its reserve.
    fn check_spare(&self) -> Result<(), SsdError> {
        let units = u64::from(self.units_per_plane());
        let pages = u64::from(self.pages_per_unit());
        let lost = u64::from(self.reserved_units()) + u64::from(self.bad_units_per_plane());
        // A page less than the rest, so that a full plane has something to collect, and one more for
        // the page on its way.
        let most = (units.saturating_sub(lost) * pages).saturating_sub(2);
        let share = match self.mapping {
            Mapping::Page => self.logical_pages().div_ceil(u64::from(self.planes())),
            Mapping::Block | Mapping::Bast => self.logical_pages() / u64::from(self.planes()),
        };
        let given = self.over_provisioning;
        if given > 0.0 && given <= 0.9 && share > 0 && share <= most {
            return Ok(());
        }
        let least = 1.0 - most as f64 / self.raw_pages_per_plane() as f64;
        // Rounded up, so that what is named is permitted.
        let least = libm::ceil(least * 1e4) / 1e4;
        if least >= 0.9 {
            let lost_blocks = lost * u64::from(self.unit_blocks());
            let permitted = format!("more: {lost_blocks} of each plane are bad or reserved");
            return Err(bad("blocks_per_plane", self.blocks_per_plane, permitted));
        }
        Err(bad("over_provisioning", given, format!("{least:.4} to 0.9")))
    }
}

/// The whole part of a number of at least 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and not a number becomes 0"
)]
fn whole(number: f64) -> u64 {
    number as u64
}

const fn yes() -> bool {
    true
}

const fn one() -> u32 {
    1
}

/// Return MQSim's default.
const fn some_wear() -> u32 {
    100
}

/// Return `SimpleSSD`'s default.
const fn some_choices() -> u32 {
    3
}

const fn some_log_blocks() -> u32 {
    8
}

fn channels_first() -> String {
    "CWDP".into()
}
