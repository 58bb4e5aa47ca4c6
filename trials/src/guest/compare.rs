//! The kernel's counters beside those of the model.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use thermocline_advise::installed::{Counted, InstalledCache, RecordedMachine, bcache, lvmcache};
use thermocline_advise::mapping;
use thermocline_core::random::SplitMix64;
use thermocline_core::{Action, Actions, Counts, Nanos, Op, Setup, Tier, registry};

use super::cases::{Cache, Case};
use super::console::Recorded;
use super::workload::PAGE_BYTES;

/// Between two accesses.
pub(crate) const INTERVAL: Duration = Duration::from_millis(10);
/// Number of runs of the model, each with accesses that come a little late.
const RUNS: u64 = 16;
/// Maximum delay of an access: programs and timers of the guest are not quite punctual.
const LATE_US_MAX: u32 = 100;

/// A figure for each column.
type Figures = [u64; 8];

/// The columns of the table.
const COLUMNS: [&str; 8] = [
    "hits",
    "hits of writes",
    "promotions",
    "demotions",
    "dirty pages",
    "flash pages written",
    "disk pages read",
    "disk pages written",
];

/// Percent by which hits and migrations may differ.
const HITS_PERCENT: f64 = 5.0;
const MIGRATIONS_PERCENT: f64 = 10.0;
/// Columns of which the target speaks: hits, and what moves between the devices.
const JUDGED: [(usize, f64); 5] = [
    (0, HITS_PERCENT),
    (2, MIGRATIONS_PERCENT),
    (3, MIGRATIONS_PERCENT),
    (5, MIGRATIONS_PERCENT),
    (7, MIGRATIONS_PERCENT),
];

/// A kernel's figures, where it counts them, and those of the model.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) name: String,
    kernel: [Option<u64>; 8],
    model: Figures,
    /// Least and greatest figures of the model where accesses come a little late: a period of a second then
    /// ends before or after another access.
    range: [Figures; 2],
}

impl Comparison {
    /// Reads the settings and counters of the guest's cache, and replays the trace through its model.
    pub(crate) fn new(case: &Case<'_>, recorded: &Recorded) -> Result<Self> {
        let writes = case.workload.accesses.iter().filter(|access| access.op == Op::Write).count();
        let expected = [case.workload.accesses.len() - writes, writes].map(|count| count as u64);
        ensure!(
            recorded.issued == expected,
            "fio issued {:?} reads and writes instead of {expected:?}",
            recorded.issued
        );
        let cache = installed(case, recorded)?;
        let kernel = kernel_figures(case, recorded, &cache);
        // The replay is over with its last access; fio takes a while to begin.
        let accesses = u32::try_from(case.workload.accesses.len())?;
        let lead = recorded.age.saturating_sub(INTERVAL * accesses);
        let model = model_figures(case, &cache, lead, None)?;
        let mut range = [model; 2];
        for seed in 1..RUNS {
            let late = model_figures(case, &cache, lead, Some(SplitMix64::new(seed)))?;
            for column in 0..COLUMNS.len() {
                range[0][column] = range[0][column].min(late[column]);
                range[1][column] = range[1][column].max(late[column]);
            }
        }
        Ok(Self { name: recorded.name.clone(), kernel, model, range })
    }

    /// Difference of a column in percent of the kernel's figure.
    fn difference(&self, column: usize) -> Option<f64> {
        let kernel = self.kernel[column]? as f64;
        let model = self.model[column] as f64;
        if kernel == 0.0 && model == 0.0 {
            return Some(0.0);
        }
        Some(100.0 * (model - kernel) / kernel)
    }

    /// Return `true` if hits and migrations are as near as they should be.
    pub(crate) fn is_near(&self) -> bool {
        JUDGED.iter().all(|&(column, percent)| {
            self.difference(column).is_none_or(|difference| difference.abs() <= percent)
        })
    }
}

/// Return a table in Markdown: kernel / model (difference).
pub(crate) fn table(comparisons: &[Comparison]) -> String {
    let mut table =
        format!("| trace:cache | {} |\n|---|{}\n", COLUMNS.join(" | "), "---|".repeat(8));
    for comparison in comparisons {
        write!(table, "| {} |", comparison.name).expect("a string grows");
        for column in 0..COLUMNS.len() {
            let model = comparison.model[column];
            let cell = match (comparison.kernel[column], comparison.difference(column)) {
                (Some(kernel), Some(difference)) => {
                    let [least, most] = comparison.range.map(|figures| figures[column]);
                    format!("{kernel} / {model} ({difference:+.1} %; {least} to {most})")
                }
                _ => "-".to_owned(),
            };
            write!(table, " {cell} |").expect("a string grows");
        }
        table.push('\n');
    }
    table
}

/// Return the cache as `thermocline advise` finds it in the guest.
fn installed(case: &Case<'_>, recorded: &Recorded) -> Result<InstalledCache> {
    let mut machine = RecordedMachine::parse(&recorded.machine)?;
    let (found, name) = match case.cache {
        Cache::DmCache { .. } => {
            (lvmcache::read(&mut |program, arguments| machine.run(program, arguments))?, "ssd")
        }
        Cache::Bcache { .. } => {
            let folder = tempfile::tempdir()?;
            machine.write_files(folder.path())?;
            (bcache::read(folder.path())?, "bcache0")
        }
    };
    found.named(name).cloned().with_context(|| format!("the guest has no cache {name}"))
}

fn kernel_figures(
    case: &Case<'_>,
    recorded: &Recorded,
    cache: &InstalledCache,
) -> [Option<u64>; 8] {
    let value = |counted| cache.counters.value(counted);
    let sum = |one, other| value(one).zip(value(other)).map(|(one, other)| one + other);
    let common =
        [Some(recorded.fast.written), Some(recorded.slow.read), Some(recorded.slow.written)];
    let [written, read_slow, written_slow] = common;
    match case.cache {
        Cache::DmCache { .. } => {
            let dirty = value(Counted::Dirty).map(|blocks| blocks * case.cache.unit_pages());
            let moved = [value(Counted::Promotions), value(Counted::Demotions)];
            let hits = sum(Counted::ReadHits, Counted::WriteHits);
            let writes = value(Counted::WriteHits);
            [hits, writes, moved[0], moved[1], dirty, written, read_slow, written_slow]
        }
        // Writes are not counted, and requests that go past the cache are counted apart. Dirty pages are
        // written back until it can be read. The model has no journal and no tree.
        Cache::Bcache { .. } => {
            let metadata = value(Counted::MetadataWrites).unwrap_or_default() / PAGE_BYTES;
            let data = written.map(|pages| pages.saturating_sub(metadata));
            let hits = sum(Counted::Hits, Counted::BypassHits);
            [hits, None, None, None, None, data, read_slow, written_slow]
        }
    }
}

/// Return the counts of the model if the first access comes at this time after the creation of the
/// cache, and each may be late.
fn model_figures(
    case: &Case<'_>,
    cache: &InstalledCache,
    lead: Duration,
    mut late: Option<SplitMix64>,
) -> Result<Figures> {
    let mut modelled = mapping::model(cache, PAGE_BYTES)?;
    if let Cache::Bcache { .. } = case.cache {
        // The replay writes past the page cache, and the kernel's own controller cleans.
        for (name, value) in [("sync_writes", "true"), ("control", "pi")] {
            modelled.parameters.push((name.into(), value.into()));
        }
    }
    let entry = registry::find(modelled.policy)?;
    let flash_pages = u32::try_from(modelled.flash_pages)?;
    let setup = Setup::hybrid(case.workload.pages, 0, flash_pages);
    let mut policy = entry.build(&setup, &entry.values(&modelled.parameters)?)?;
    let (mut counts, mut actions, mut dropped) = (Counts::new(), Actions::new(), 0);
    policy.background(Nanos(0), &mut actions);
    for (number, &access) in (0..).zip(&case.workload.accesses) {
        actions.clear();
        let late_us = late.as_mut().map_or(0, |draws| draws.below(LATE_US_MAX));
        let now = lead + INTERVAL * number + Duration::from_micros(late_us.into());
        policy.background(Nanos(u64::try_from(now.as_nanos())?), &mut actions);
        policy.access(access, &mut actions);
        counts.add(actions.as_slice());
        let is_drop =
            |action: &&Action| matches!(action, Action::Drop { tier, .. } if *tier == Tier::FLASH);
        dropped += actions.as_slice().iter().filter(is_drop).count() as u64;
    }
    actions.clear();
    policy.flush(&mut actions);
    let mut cleaned = Counts::new();
    cleaned.add(actions.as_slice());
    let unit = case.cache.unit_pages();
    let hits = match case.cache {
        Cache::DmCache { .. } => counts.hits(Tier::FLASH),
        Cache::Bcache { .. } => counts.read_hits(Tier::FLASH),
    };
    Ok([
        hits,
        counts.write_hits(Tier::FLASH),
        counts.copies(Tier::DISK, Tier::FLASH) / unit,
        dropped / unit,
        cleaned.copies(Tier::FLASH, Tier::DISK),
        counts.page_writes(Tier::FLASH),
        counts.page_reads(Tier::DISK),
        counts.page_writes(Tier::DISK),
    ])
}
