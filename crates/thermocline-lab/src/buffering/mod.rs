//! Write buffers: what a trace's writes become before they reach the NAND, and what that wears.
//!
//! A buffer policy decides as in a replay. If there is an SSD behind it, what the policy writes to
//! the NAND and what it reads from there are requests to the SSD, at the trace's times, and a
//! request of the trace is answered when the last of its own is. Pages that the buffer serves take a
//! constant time.

mod run;
mod tally;

use std::sync::Arc;

use rayon::prelude::*;
use serde::Serialize;
use serde_json::{Map, Value};
use thermocline_core::Geometry;
use thermocline_core::config::Given;
use thermocline_core::registry::PolicyEntry;
use thermocline_device::ssd::{Precondition, SsdConfig, SsdMetrics};
use thermocline_trace::CompiledTrace;

use crate::timing::{Placement, subpages};
use crate::{
    Arrivals, LabError, PlacementSummary, ResponseSummary, Streams, TierSize, TraceSummary, Watch,
};

/// Pages of a flash block where no SSD says otherwise: those of SSDsim's default geometry.
const PAGES_PER_BLOCK: u32 = 64;

/// One run: everything but the trace.
#[derive(Clone, Debug)]
pub struct BufferConfiguration {
    /// The policy.
    pub policy: &'static PolicyEntry,
    /// The parameters given, by name. Pages per block are the SSD's if not given.
    pub parameters: Vec<(String, Given)>,
    /// The size of the buffer.
    pub size: TierSize,
    /// The SSD behind it, if there is one.
    pub ssd: Option<BufferedSsd>,
    /// Arrival times of requests.
    pub arrivals: Arrivals,
}

/// An SSD behind a write buffer.
#[derive(Clone, Debug)]
pub struct BufferedSsd {
    /// The drive.
    pub config: SsdConfig,
    /// Writes to it before the trace.
    pub precondition: Option<Precondition>,
    /// Chooser of the placement handle of each write; without handles, the identifier that
    /// separates hot pages from cold ones for two streams.
    pub streams: Option<Streams>,
    /// Write requests to the drive after which the host flushes it; `None` for never. The request of
    /// the trace that causes a flush waits for it.
    pub flush_every: Option<u32>,
}

/// The results of one run. Its JSON form has a stable schema.
#[derive(Clone, Debug)]
pub struct BufferSummary {
    /// The policy.
    pub policy: BufferPolicySummary,
    /// Pages of the buffer.
    pub buffer_pages: u32,
    /// Bytes per page.
    pub page_size_bytes: u64,
    /// Page accesses that read.
    pub page_reads: u64,
    /// Page accesses that write.
    pub page_writes: u64,
    /// Number of them that read a page of the buffer.
    pub read_hits: u64,
    /// Number of them that wrote a page of the buffer.
    pub write_hits: u64,
    /// Writes to the NAND: of one page, or of several pages of one flash block together.
    pub flushes: u64,
    /// Pages that they wrote and the NAND lacked.
    pub pages_flushed: u64,
    /// Pages that the NAND lacks at the end.
    pub pages_resident: u64,
    /// Response times of requests, in microseconds; `None` without an SSD.
    pub response_us: Option<ResponseSummary>,
    /// Writes that hit a page which had only been read.
    pub clean_write_hits: u64,
    /// Pages that flushes wrote although the NAND had them: padding.
    pub pages_padded: u64,
    /// Number of flushes by the number of pages that they wrote.
    pub flush_sizes: Vec<FlushSize>,
    /// The trace.
    pub trace: TraceSummary,
    /// The SSD.
    pub ssd: Option<SsdSummary>,
}

/// The policy of a run.
#[derive(Clone, Debug, Serialize)]
pub struct BufferPolicySummary {
    /// Its name.
    pub name: String,
    /// All its parameters.
    pub parameters: Map<String, Value>,
}

/// Number of flushes that wrote that number of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FlushSize {
    /// Pages.
    pub pages: u32,
    /// Flushes.
    pub flushes: u64,
}

/// State of the SSD after the run.
#[derive(Clone, Debug, Serialize)]
pub struct SsdSummary {
    /// Its name.
    pub name: String,
    /// Its capacity in pages of its own.
    pub logical_pages: u64,
    /// Bytes per page of its own.
    pub page_size_bytes: u32,
    /// Pages per block.
    pub pages_per_block: u32,
    /// Addresses of pages: their own numbers, or squeezed together.
    pub addresses: &'static str,
    /// Time from the first arrival to the last answer, in seconds.
    pub duration_s: f64,
    /// Requests that lie before the one before them in the trace, and were taken to come with it.
    pub time_reversals: u64,
    /// Effect of placement; `None` in a drive without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementSummary>,
    /// Its figures.
    #[serde(flatten)]
    pub metrics: Box<SsdMetrics>,
}

/// A buffer's place over its SSD, for one trace.
#[derive(Debug)]
struct Layout {
    /// Pages of the SSD per page of the trace.
    subpages: u32,
    /// Pages of the trace per flash block.
    pages_per_block: u32,
    placement: Option<Placement>,
    /// Map of pages to addresses, as policies see it.
    geometry: Geometry,
}

impl BufferSummary {
    /// Writes of a page that the buffer held, divided by all writes; from 0 to 1.
    pub fn write_hit_ratio(&self) -> f64 {
        self.write_hits as f64 / (self.page_writes as f64).max(1.0)
    }

    /// Return the number of blocks erased; `None` without an SSD.
    pub fn erase_count(&self) -> Option<u64> {
        Some(self.ssd.as_ref()?.metrics.erase_count)
    }

    /// Return the number of pages programmed divided by pages flushed; `None` without an SSD, or
    /// without a flush.
    pub fn write_amplification(&self) -> Option<f64> {
        let ssd = self.ssd.as_ref()?;
        let metrics = &ssd.metrics;
        let programs = metrics.host_programs + metrics.gc_copies + metrics.wear_copies;
        let subpages = self.page_size_bytes / u64::from(ssd.page_size_bytes);
        let flushed = self.pages_flushed * subpages;
        (flushed > 0).then(|| programs as f64 / flushed as f64)
    }

    /// Years until the blocks are worn out, at the rate of the run; `None` without an SSD, or if
    /// nothing was erased.
    pub fn lifetime_years(&self) -> Option<f64> {
        let ssd = self.ssd.as_ref()?;
        Some(ssd.metrics.lifetime(ssd.duration_s)?.years)
    }
}

impl BufferedSsd {
    /// Return the drive as it comes, empty.
    pub fn new(config: SsdConfig) -> Self {
        Self { config, precondition: None, streams: None, flush_every: None }
    }

    /// Return the same drive, so large that every page of the trace, each at its place in its flash
    /// block, takes this share of it, above 0 and at most 1.
    ///
    /// # Errors
    /// If the pages are not a multiple of the drive's, or the drive would be too large.
    pub fn fitted(self, trace: &CompiledTrace, share: f64) -> Result<Self, LabError> {
        let subpages = subpages(&self.config, trace.page_size_bytes())?;
        let pages_per_block = pages_per_block(&self.config, subpages);
        let blocks = Placement::blocks(&trace.geometry(), pages_per_block);
        let pages = blocks * u64::from(pages_per_block) * u64::from(subpages);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a number of pages is not negative, and saturates"
        )]
        let pages = (pages as f64 / share).ceil() as u64;
        let config = self.config.sized_for(pages)?;
        Ok(Self { config, ..self })
    }
}

impl Layout {
    fn new(trace: &CompiledTrace, ssd: Option<&BufferedSsd>) -> Result<Self, LabError> {
        let geometry = trace.geometry();
        let Some(ssd) = ssd else {
            let pages_per_block = PAGES_PER_BLOCK;
            return Ok(Self { subpages: 1, pages_per_block, placement: None, geometry });
        };
        let subpages = subpages(&ssd.config, trace.page_size_bytes())?;
        let pages_per_block = pages_per_block(&ssd.config, subpages);
        let capacity_pages = ssd.config.logical_pages() / u64::from(subpages);
        let placement = Placement::new(&geometry, capacity_pages, pages_per_block)?;
        let addresses: Arc<[u64]> =
            geometry.ids().map(|id| placement.address(thermocline_core::PageId(id))).collect();
        let geometry = Geometry::table(addresses);
        Ok(Self { subpages, pages_per_block, placement: Some(placement), geometry })
    }
}

/// Return the number of pages of the trace per flash block.
fn pages_per_block(config: &SsdConfig, subpages: u32) -> u32 {
    (config.pages_per_block / subpages).max(1)
}

/// Runs a trace through one buffer; `watch` counts the accesses, and can stop it.
///
/// # Errors
/// If a configuration is invalid, a drive is too small or wears out, or the Ledger refuses an
/// action.
pub fn run_buffer(
    trace: &CompiledTrace,
    configuration: &BufferConfiguration,
    is_checked: bool,
    watch: &Watch,
) -> Result<BufferSummary, LabError> {
    run::run(trace, configuration, is_checked, watch)
}

/// Runs a trace through many buffers, in parallel; the results keep their order.
///
/// `done` is told each time that one is finished.
///
/// # Errors
/// If a run of [`run_buffer`] fails; the error is that of the first one, in order.
pub fn run_buffers(
    trace: &CompiledTrace,
    configurations: &[BufferConfiguration],
    is_checked: bool,
    watch: &Watch,
    done: impl Fn() + Sync,
) -> Result<Vec<BufferSummary>, LabError> {
    let results: Vec<Result<BufferSummary, LabError>> = configurations
        .par_iter()
        .map(|configuration| {
            let result = run_buffer(trace, configuration, is_checked, watch);
            done();
            result
        })
        .collect();
    results.into_iter().collect()
}
