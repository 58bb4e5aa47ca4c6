//! Section VI: a file system with ARC, alone and with an L2ARC, for hours.

use rayon::prelude::*;
use serde::Serialize;
use thermocline_core::{Geometry, Nanos, PageCost, Setup, registry};
use thermocline_device::Catalogue;
use thermocline_device::hdd::{Hdd, HddConfig};
use thermocline_device::queueing::QueueingError;

use super::closed_loop::{Disk, Load, Machine, Tally};
use super::engine::{self, Hardware};
use super::{System, SystemDisk, SystemWorkload};
use crate::study::{Done, StudyError};
use thermocline_engine::{Options, PolicyOptions};
use thermocline_lab::LabError;

/// A workload on the file system.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct SystemResult {
    /// The workload's name.
    pub(super) workload: String,
    /// ARC alone, at the sizes of Tables I and II.
    pub(super) baseline: SystemRun,
    /// ARC with an L2ARC, at the same sizes.
    pub(super) hybrid: SystemRun,
    /// Tables III to VIII.
    pub(super) cells: Vec<Cell>,
}

/// One cell of Tables III to VIII.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Cell {
    /// The SSD.
    pub(super) ssd_gib: u32,
    /// The working set.
    pub(super) working_set_gib: u32,
    /// RAM.
    pub(super) ram_gib: u32,
    /// The paper's disk hits, in percent.
    pub(super) paper_disk_percent: f64,
    /// The paper's hits on the SSD, in percent.
    pub(super) paper_ssd_percent: f64,
    /// The paper's I/Os per second.
    pub(super) paper_iops: f64,
    /// Our results.
    pub(super) run: SystemRun,
}

/// Shares of hits by tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Share {
    /// Share of hits in RAM.
    pub(super) ram: f64,
    /// Share of hits on the SSD.
    pub(super) ssd: f64,
    /// Share of hits on disk.
    pub(super) disk: f64,
}

/// One run of a workload.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct SystemRun {
    /// Hits over the whole run.
    pub(super) hits: Share,
    /// Page accesses per second.
    pub(super) iops: f64,
    /// Page accesses per second that SSD or disk answered.
    pub(super) storage_iops: f64,
    /// Mean waiting time of a reader.
    pub(super) latency_ms: f64,
    /// Dollars per storage I/O per second: the mean over all intervals.
    pub(super) cost_per_io: f64,
    /// The same from the mean of the I/Os per second.
    pub(super) cost_per_mean_io: f64,
    /// Time at which disk hits first fell below 1 % for a whole interval.
    pub(super) migrated_after_s: Option<u64>,
    /// Every interval, if they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) snapshots: Vec<Snapshot>,
}

/// One interval of a run.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Snapshot {
    /// End of the interval.
    pub(super) at_s: u64,
    /// Hits by tier.
    pub(super) hits: Share,
    /// Page accesses per second.
    pub(super) iops: f64,
    /// Page accesses per second that SSD or disk answered.
    pub(super) storage_iops: f64,
    /// Mean waiting time of a reader.
    pub(super) latency_ms: f64,
    /// Dollars per storage I/O per second.
    pub(super) cost_per_io: f64,
}

/// One hierarchy: sizes in GiB, no SSD if it is the baseline.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    ram: u32,
    ssd: Option<u32>,
    working_set: u32,
}

/// Disk hits below this share of an interval's accesses: the working set has moved to the SSD.
const MIGRATED: f64 = 0.01;

impl System {
    /// Runs all workloads: simulated at full size, or on the engine with sizes and time divided by a
    /// scale.
    pub(super) fn run(
        &self,
        engine_scale: Option<u32>,
        done: Done<'_>,
    ) -> Result<Vec<SystemResult>, StudyError> {
        let run = |workload| self.run_workload(workload, engine_scale, done);
        self.workloads.iter().map(run).collect()
    }

    fn run_workload(
        &self,
        workload: &SystemWorkload,
        engine_scale: Option<u32>,
        done: Done<'_>,
    ) -> Result<SystemResult, StudyError> {
        let shown = |ssd| Sizes { ram: self.ram_gib, ssd, working_set: self.working_set_gib };
        let mut sizes = vec![shown(None), shown(Some(self.ssd_gib))];
        sizes.extend(self.cell_sizes());
        let runs: Result<Vec<SystemRun>, StudyError> = sizes
            .par_iter()
            .enumerate()
            .map(|(index, &sizes)| {
                let run = self.run_sizes(workload, sizes, engine_scale, index < 2);
                done();
                run
            })
            .collect();
        let mut runs = runs?.into_iter();
        let mut next = || runs.next().expect("as many runs as sizes");
        let (baseline, hybrid) = (next(), next());
        let paper = |table: &[Vec<f64>]| table.concat();
        let [disk, ssd, iops] =
            [&workload.disk_percent, &workload.ssd_percent, &workload.cell_iops]
                .map(|table| paper(table));
        let cells = self.cell_sizes().into_iter().enumerate().map(|(index, sizes)| Cell {
            ssd_gib: sizes.ssd.unwrap_or(0),
            working_set_gib: sizes.working_set,
            ram_gib: sizes.ram,
            paper_disk_percent: disk[index],
            paper_ssd_percent: ssd[index],
            paper_iops: iops[index],
            run: next(),
        });
        let cells = cells.collect();
        Ok(SystemResult { workload: workload.name.clone(), baseline, hybrid, cells })
    }

    /// Return the sizes of Tables III to VIII, row by row.
    fn cell_sizes(&self) -> Vec<Sizes> {
        let mut sizes = vec![];
        for &ssd in &self.ssd_gib_choices {
            for &working_set in &self.working_set_gib_choices {
                let rams = self.ram_gib_choices.iter();
                sizes.extend(rams.map(|&ram| Sizes { ram, ssd: Some(ssd), working_set }));
            }
        }
        sizes
    }

    fn run_sizes(
        &self,
        workload: &SystemWorkload,
        sizes: Sizes,
        engine_scale: Option<u32>,
        with_snapshots: bool,
    ) -> Result<SystemRun, StudyError> {
        let scale = engine_scale.unwrap_or(1);
        let pages = |gib: u32| {
            let pages = (u64::from(gib) << 30) / self.page_size_bytes / u64::from(scale);
            u32::try_from(pages.max(1)).expect("sizes are checked when the file is read")
        };
        let is_hybrid = sizes.ssd.is_some();
        let policy = registry::find(if is_hybrid { "arc-l2arc" } else { "arc" })?;
        let given: Vec<(String, String)> =
            self.feed.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let values = policy.values(if is_hybrid { &given } else { &[] })?;
        let working_set_pages = pages(sizes.working_set);
        let [ram_pages, ssd_pages] = [Some(sizes.ram), sizes.ssd].map(|size| size.map(pages));
        let service = [Some(self.ram_ms), sizes.ssd.map(|_| self.ssd_ms)].map(|ms| ms.map(nanos));
        let costs = self.costs(is_hybrid)?;
        let load = Load {
            readers: workload.readers,
            writes: workload.writes,
            pages: working_set_pages,
            seed: self.seed,
        };
        let scaled = |seconds: u64| Nanos(seconds * 1_000_000_000 / u64::from(scale));
        let [duration, interval] = [self.duration_s, self.snapshot_s].map(scaled);
        let disk = self.disk(working_set_pages, scale)?;
        let tallies = if engine_scale.is_some() {
            let options = Options {
                page_bytes: u32::try_from(self.page_size_bytes).unwrap_or(u32::MAX),
                ..Options::new(
                    working_set_pages.into(),
                    ram_pages.unwrap_or(1),
                    ssd_pages.unwrap_or(0),
                    PolicyOptions { values, costs, ..PolicyOptions::named(&policy.name)? },
                )
            };
            let [ram, ssd] = service.map(|service| service.unwrap_or(Nanos(0)));
            let hardware = Hardware { ram, ssd, disk, io_bytes: self.io_bytes };
            engine::run(options, hardware, &load, duration, interval)
                .map_err(|error| StudyError::Engine { reason: error.to_string() })?
        } else {
            let capacity_pages = [ram_pages, ssd_pages].into_iter().flatten().collect();
            let setup =
                Setup { costs, ..Setup::new(Geometry::linear(working_set_pages), capacity_pages) };
            let machine = Machine::new(
                policy.build(&setup, &values)?,
                policy.capabilities.needs_clock,
                service.into_iter().flatten().collect(),
                disk,
            );
            machine.run(&load, duration, interval)?
        };
        let price = self.disk_price + if is_hybrid { self.ssd_price } else { 0.0 };
        let interval_s = interval.0 as f64 / 1e9;
        Ok(self.summarise(&tallies, interval_s, price, with_snapshots))
    }

    /// Return the cost of each tier, for policies that weigh them.
    fn costs(&self, is_hybrid: bool) -> Result<Vec<PageCost>, LabError> {
        let cost = |ms: f64| PageCost { read_ms: ms, write_ms: ms };
        let disk = Catalogue::default().find(&self.disk.drive)?.page_cost();
        let tiers = [Some(cost(self.ram_ms)), is_hybrid.then(|| cost(self.ssd_ms)), Some(disk)];
        Ok(tiers.into_iter().flatten().collect())
    }

    /// Return the disk with the pages of a working set from its beginning on. Those of a smaller
    /// one lie apart, so that the arm moves as far.
    fn disk(&self, working_set_pages: u32, scale: u32) -> Result<Disk, LabError> {
        let SystemDisk { drive, scheduling, queue_depth } = &self.disk;
        let preset = HddConfig::preset(drive).map_err(QueueingError::from)?;
        let config = HddConfig { scheduling: *scheduling, ..preset };
        let hdd = Hdd::new(&config, self.io_bytes).map_err(QueueingError::from)?;
        let stride = self.page_size_bytes / self.io_bytes * u64::from(scale);
        let (footprint_pages, capacity_pages) =
            (u64::from(working_set_pages), hdd.capacity_pages() / stride);
        if footprint_pages > capacity_pages {
            return Err(LabError::DiskTooSmall { footprint_pages, capacity_pages });
        }
        Ok(Disk::new(hdd, *queue_depth, stride))
    }

    fn summarise(
        &self,
        tallies: &[Tally],
        interval_s: f64,
        price: f64,
        with_snapshots: bool,
    ) -> SystemRun {
        let snapshot =
            |(number, tally): (u64, &Tally)| self.snapshot(number, tally, interval_s, price);
        let snapshots: Vec<Snapshot> = (1..).zip(tallies).map(snapshot).collect();
        let total = tallies.iter().fold(Tally::default(), |mut total, tally| {
            (0..3).for_each(|tier| total.hits[tier] += tally.hits[tier]);
            total.reads += tally.reads;
            total.waited_ns += tally.waited_ns;
            total.storage += tally.storage;
            total
        });
        let duration_s = tallies.len() as f64 * interval_s;
        let storage_iops = total.storage as f64 / duration_s;
        let costs = snapshots.iter().map(|snapshot| snapshot.cost_per_io);
        let migrated = snapshots.iter().find(|snapshot| snapshot.hits.disk < MIGRATED);
        SystemRun {
            hits: Share::of(&total),
            iops: total.hits.iter().sum::<u64>() as f64 / duration_s,
            storage_iops,
            latency_ms: latency_ms(&total),
            // The printed cost per I/O fits the mean of the snapshots' ratios, not the price
            // divided by the mean I/Os per second. Both are reported.
            cost_per_io: costs.sum::<f64>() / (snapshots.len() as f64).max(1.0),
            cost_per_mean_io: price / storage_iops,
            migrated_after_s: migrated.map(|snapshot| snapshot.at_s),
            snapshots: if with_snapshots { snapshots } else { vec![] },
        }
    }

    /// Summarise an interval of `seconds`; its end is in the paper's time.
    fn snapshot(&self, number: u64, tally: &Tally, seconds: f64, price: f64) -> Snapshot {
        let storage_iops = tally.storage as f64 / seconds;
        Snapshot {
            at_s: number * self.snapshot_s,
            hits: Share::of(tally),
            iops: tally.hits.iter().sum::<u64>() as f64 / seconds,
            storage_iops,
            latency_ms: latency_ms(tally),
            cost_per_io: price / storage_iops,
        }
    }
}

impl Share {
    fn of(tally: &Tally) -> Self {
        let total = (tally.hits.iter().sum::<u64>() as f64).max(1.0);
        let [ram, ssd, disk] = tally.hits.map(|hits| hits as f64 / total);
        Self { ram, ssd, disk }
    }
}

fn latency_ms(tally: &Tally) -> f64 {
    tally.waited_ns as f64 / 1e6 / (tally.reads as f64).max(1.0)
}

fn nanos(ms: f64) -> Nanos {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the time of an I/O is positive and short"
    )]
    Nanos((ms * 1e6).round() as u64)
}
