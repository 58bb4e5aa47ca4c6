//! The kernel's counters beside those of the model.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, ensure};
use thermocline_advise::installed::{Counted, InstalledCache, RecordedMachine, bcache, lvmcache};
use thermocline_advise::mapping;
use thermocline_core::{Action, Actions, Counts, Op, Setup, Tier, registry};

use super::cases::{Cache, Case};
use super::console::Recorded;
use super::workload::PAGE_BYTES;

/// Accesses in a second, as the replay paces them and the models are told.
pub(crate) const ACCESSES_PER_SECOND: u64 = 100;

/// The columns of the table.
const COLUMNS: [&str; 8] = [
    "read hits",
    "write hits",
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
const JUDGED: [(usize, f64); 4] =
    [(0, HITS_PERCENT), (1, HITS_PERCENT), (2, MIGRATIONS_PERCENT), (3, MIGRATIONS_PERCENT)];

/// A kernel's figures, where it counts them, and those of the model.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) name: String,
    kernel: [Option<u64>; 8],
    model: [u64; 8],
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
        Ok(Self { name: recorded.name.clone(), kernel, model: model_figures(case, &cache)? })
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

    /// Whether hits and migrations are as near as they should be.
    pub(crate) fn is_near(&self) -> bool {
        JUDGED.iter().all(|&(column, percent)| {
            self.difference(column).is_none_or(|difference| difference.abs() <= percent)
        })
    }
}

/// A table in Markdown: kernel / model (difference).
pub(crate) fn table(comparisons: &[Comparison]) -> String {
    let mut table =
        format!("| trace:cache | {} |\n|---|{}\n", COLUMNS.join(" | "), "---|".repeat(8));
    for comparison in comparisons {
        write!(table, "| {} |", comparison.name).expect("a string grows");
        for column in 0..COLUMNS.len() {
            let model = comparison.model[column];
            let cell = match (comparison.kernel[column], comparison.difference(column)) {
                (Some(kernel), Some(difference)) => {
                    format!("{kernel} / {model} ({difference:+.1} %)")
                }
                _ => format!("- / {model}"),
            };
            write!(table, " {cell} |").expect("a string grows");
        }
        table.push('\n');
    }
    table
}

/// The cache as `thermocline advise` finds it in the guest.
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
    let pages = case.cache.unit_pages();
    let (read_hits, dirty) = match case.cache {
        Cache::DmCache { .. } => {
            (value(Counted::ReadHits), value(Counted::Dirty).map(|blocks| blocks * pages))
        }
        // Writes are not counted, and requests that go past the cache are counted apart.
        Cache::Bcache { .. } => {
            let both = value(Counted::Hits).zip(value(Counted::BypassHits));
            (both.map(|(hits, bypassed)| hits + bypassed), None)
        }
    };
    [
        read_hits,
        value(Counted::WriteHits),
        value(Counted::Promotions),
        value(Counted::Demotions),
        dirty,
        Some(recorded.fast.written),
        Some(recorded.slow.read),
        Some(recorded.slow.written),
    ]
}

fn model_figures(case: &Case<'_>, cache: &InstalledCache) -> Result<[u64; 8]> {
    let mut modelled = mapping::model(cache, PAGE_BYTES)?;
    let mut set = |name: &str, value: String| modelled.parameters.push((name.into(), value));
    set("accesses_per_second", ACCESSES_PER_SECOND.to_string());
    if let Cache::Bcache { .. } = case.cache {
        // The replay writes past the page cache, and the kernel's own controller cleans.
        set("sync_writes", "true".into());
        set("control", "pi".into());
    }
    let entry = registry::find(modelled.policy)?;
    let flash_pages = u32::try_from(modelled.flash_pages)?;
    let setup = Setup::hybrid(case.workload.pages, 0, flash_pages);
    let mut policy = entry.build(&setup, &entry.values(&modelled.parameters)?)?;
    let (mut counts, mut actions, mut dropped) = (Counts::new(), Actions::new(), 0);
    for &access in &case.workload.accesses {
        actions.clear();
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
    Ok([
        counts.read_hits(Tier::FLASH),
        counts.write_hits(Tier::FLASH),
        counts.copies(Tier::DISK, Tier::FLASH) / unit,
        dropped / unit,
        cleaned.copies(Tier::FLASH, Tier::DISK),
        counts.page_writes(Tier::FLASH),
        counts.page_reads(Tier::DISK),
        counts.page_writes(Tier::DISK),
    ])
}
