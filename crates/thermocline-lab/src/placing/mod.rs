//! Placement of writes: choice of a solid-state drive's handle, or stream.
//!
//! An identifier chooses by the hotness of the page, in as many classes as the drive has handles;
//! the coldest class is handle 0. The client that causes a write, the tier that its page comes from,
//! the volume of the page and the class of its file choose by their numbers. An oracle, which knows when each page is written next, is the
//! upper bound; a drive without placement is the lower. After a write buffer, writes are the pages
//! that the buffer flushes.

mod chosen;
mod oracle;
mod tier;

use thermocline_core::config::Values;
use thermocline_core::hotness::Classes;
use thermocline_core::hotness::registry::IdentifierEntry;
use thermocline_core::{BoxedIdentifier, PageId, Tier};
use thermocline_device::queueing::{DeviceOp, DeviceRequest};
use thermocline_device::ssd::{Ssd, SsdConfig, SsdMetrics};
use thermocline_trace::CompiledTrace;

use crate::spec::Step::Key;
use crate::watch::CHUNK_ACCESSES;
use crate::{LabError, Watch};

pub(crate) use chosen::Chosen;
use oracle::oracle_classes;
pub use tier::{TierWrites, tier_writes};
pub(crate) use tier::{WriteSource, writes_of};

/// Writes ahead whose map entries are fetched.
const PREFETCH_WRITES: usize = 16;

/// Name of the oracle, where users choose it.
pub const ORACLE: &str = "oracle";

/// Chooser of the handle of a write, or of the stream if the drive has two and no handles.
#[derive(Clone, Debug)]
pub enum Streams {
    /// An identifier with its parameters, by the hotness of the page.
    Identifier(&'static IdentifierEntry, Values),
    /// The time until the page is written next. It needs placement handles.
    Oracle,
    /// The client whose access causes the write, by its number, the last handles shared. It needs
    /// placement handles.
    Client,
    /// The tier that the page comes from, likewise.
    Tier,
    /// The volume of the page. Volumes take turns at the handles, in the order of first accesses.
    Volume,
    /// The class of the page's file, which only recordings have. Classes take turns likewise.
    Class,
}

/// A write to a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveWrite {
    /// The page of the drive.
    pub address: PageId,
    /// The page as its user knows it, which identifiers go by.
    pub page: PageId,
    /// The client whose access causes the write.
    pub client: u8,
    /// The tier that the page comes from; the first tiers of all clients count as one.
    pub source: Tier,
    /// The group of the page for [`Streams::Volume`] and [`Streams::Class`].
    pub group: u8,
}

impl DriveWrite {
    /// Describe a write of a page in place, by the only client, from the first tier.
    pub const fn of(page: PageId) -> Self {
        Self { address: page, page, client: 0, source: Tier::RAM, group: 0 }
    }
}

/// Chooses the handle of each write of a run, in order.
#[derive(Debug)]
pub(crate) enum Chooser {
    Identifier { classes: Classes, identifier: BoxedIdentifier },
    Oracle { classes: Box<[u8]>, next: usize },
    Client { handles: u32 },
    Tier { handles: u32 },
    Group { handles: u32 },
}

/// Effect of placement in a run.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct PlacementSummary {
    /// Chooser of the handle: the name of an identifier, `oracle`, `client`, `tier`, `volume`, `class`,
    /// or `none`.
    pub streams: &'static str,
    /// Placement handles of the drive.
    pub handles: u32,
    /// Bytes that the identifier takes, with the bounds of its classes; 0 for an oracle.
    pub identifier_bytes: u64,
    /// Pages that were written with each handle, pages of the trace.
    pub pages_written: Vec<u64>,
}

/// Effect of a drive on writes that were placed.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The drive's figures after the warm-up.
    pub metrics: SsdMetrics,
    /// Placement of writes, from the first one on.
    pub placement: PlacementSummary,
}

impl Streams {
    /// Return the name by which users choose it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Identifier(entry, _) => entry.name,
            Self::Oracle => ORACLE,
            Self::Client => "client",
            Self::Tier => "tier",
            Self::Volume => "volume",
            Self::Class => "class",
        }
    }

    /// Return the group of each page of a trace, if it chooses by groups.
    ///
    /// # Errors
    /// If the trace does not tell the classes of files.
    pub(crate) fn groups(&self, trace: &CompiledTrace) -> Result<Option<Box<[u8]>>, LabError> {
        match self {
            Self::Volume => Ok(Some(trace.volume_groups())),
            Self::Class => trace.class_groups().map(Some).map_err(|error| {
                let reason = format!(
                    "only a recording with its table of files tells their classes; take `volume`: {error}"
                );
                LabError::at(&[Key("streams")], reason)
            }),
            Self::Identifier(..) | Self::Oracle | Self::Client | Self::Tier => Ok(None),
        }
    }

    /// Create a chooser for a drive of `handles` handles, for users' pages below `pages`. `writes`
    /// are the addresses of the writes to come, below `addresses`; only an oracle asks for them.
    pub(crate) fn chooser(
        &self,
        handles: u32,
        pages: u32,
        addresses: u32,
        writes: impl FnOnce() -> Result<Vec<PageId>, LabError>,
    ) -> Result<Chooser, LabError> {
        Ok(match self {
            Self::Identifier(entry, values) => Chooser::Identifier {
                classes: Classes::new(handles),
                identifier: entry.build(pages, values)?,
            },
            Self::Oracle => {
                let classes = oracle_classes(&writes()?, addresses, handles)?;
                Chooser::Oracle { classes, next: 0 }
            }
            Self::Client => Chooser::Client { handles },
            Self::Tier => Chooser::Tier { handles },
            Self::Volume | Self::Class => Chooser::Group { handles },
        })
    }
}

impl Chooser {
    /// Return the handle of the next write.
    ///
    /// # Panics
    /// If an oracle is asked for more writes than it knows.
    pub(crate) fn choose(&mut self, write: DriveWrite) -> u32 {
        match self {
            Self::Identifier { classes, identifier } => {
                classes.record(&mut **identifier, write.page)
            }
            Self::Client { handles } => u32::from(write.client).min(*handles - 1),
            Self::Tier { handles } => u32::from(write.source.0).min(*handles - 1),
            // Most traces have more volumes than handles, and read the first ones only.
            Self::Group { handles } => u32::from(write.group) % *handles,
            Self::Oracle { classes, next } => {
                *next += 1;
                classes[*next - 1].into()
            }
        }
    }

    pub(crate) fn prefetch(&self, page: PageId) {
        match self {
            Self::Identifier { identifier, .. } => identifier.prefetch(page),
            Self::Oracle { .. } | Self::Client { .. } | Self::Tier { .. } | Self::Group { .. } => {}
        }
    }

    fn memory_bytes(&self) -> u64 {
        match self {
            Self::Identifier { classes, identifier } => {
                (identifier.memory_bits() + classes.memory_bits()).div_ceil(8)
            }
            Self::Oracle { .. } | Self::Client { .. } | Self::Tier { .. } | Self::Group { .. } => 0,
        }
    }
}

/// The handles of a drive, who chooses among them, and how often each was chosen.
#[derive(Debug)]
pub(crate) struct Handles {
    chooser: Option<Chooser>,
    streams: &'static str,
    pages_written: Vec<u64>,
}

impl Handles {
    /// Create a placement; without a chooser all writes are of handle 0.
    pub(crate) fn new(handles: u32, streams: Option<&Streams>, chooser: Option<Chooser>) -> Self {
        Self {
            chooser,
            streams: streams.map_or("none", Streams::name),
            pages_written: vec![0; handles as usize],
        }
    }

    /// Return the handle of the next write.
    pub(crate) fn choose(&mut self, write: DriveWrite) -> u32 {
        let handle = self.chooser.as_mut().map_or(0, |chooser| chooser.choose(write));
        self.pages_written[handle as usize] += 1;
        handle
    }

    pub(crate) fn prefetch(&self, page: PageId) {
        if let Some(chooser) = &self.chooser {
            chooser.prefetch(page);
        }
    }

    pub(crate) fn summary(&self) -> PlacementSummary {
        PlacementSummary {
            streams: self.streams,
            handles: u32::try_from(self.pages_written.len()).unwrap_or(u32::MAX),
            identifier_bytes: self.chooser.as_ref().map_or(0, Chooser::memory_bytes),
            pages_written: self.pages_written.clone(),
        }
    }
}

/// Writes pages of a drive in order and without time, each with the handle that is chosen for it, and
/// begins to count after the first `warm_up` of them. The drive is filled in order before.
///
/// Without `streams`, or without placement in the drive, all writes are of handle 0.
///
/// # Errors
/// If a drive is invalid, smaller than the pages written, or wears out, or if `watch` is stopped.
pub fn place(
    writes: &[DriveWrite],
    warm_up: usize,
    config: &SsdConfig,
    streams: Option<&Streams>,
    watch: &Watch,
) -> Result<Placed, LabError> {
    let mut drive = Ssd::new(config, None)?;
    let pages = u32::try_from(drive.logical_pages()).unwrap_or(u32::MAX);
    let write = |page: u32| DeviceRequest { op: DeviceOp::Write, page: page.into(), pages: 1 };
    for page in 0..pages {
        drive.apply(write(page))?;
    }
    let handles = config.placement.map_or(1, |placement| placement.handles);
    let streams = streams.filter(|_| config.placement.is_some());
    let known = writes.iter().map(|write| write.page.0.saturating_add(1)).max().unwrap_or(0);
    let addresses = || Ok(writes.iter().map(|write| write.address).collect());
    let chooser = streams
        .map(|streams| streams.chooser(handles, known.max(pages), pages, addresses))
        .transpose()?;
    let mut handles = Handles::new(handles, streams, chooser);
    drive.reset_metrics();
    for (index, &next) in writes.iter().enumerate() {
        if index % CHUNK_ACCESSES == 0 {
            watch.check()?;
        }
        if let Some(&coming) = writes.get(index + PREFETCH_WRITES) {
            drive.prefetch(coming.address.0.into());
            handles.prefetch(coming.page);
        }
        if index == warm_up {
            drive.reset_metrics();
        }
        drive.select_handle(handles.choose(next))?;
        drive.apply(write(next.address.0))?;
    }
    Ok(Placed { metrics: drive.metrics(), placement: handles.summary() })
}

#[cfg(test)]
mod tests;
