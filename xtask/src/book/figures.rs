//! Figures of everything that is registered on the bundled trace, from the program's output.

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::markdown::{count, percent, table};
use super::program::Program;

/// The trace as commands name it, with its page size.
const TRACE: &str = "testdata/pgbench/pgbench.csv.zst --page-size 8KiB";

/// The figures of one comparison.
pub(crate) struct Figures {
    /// Command that prints them.
    pub(crate) command: String,
    /// The sizes, in words.
    pub(crate) conditions: String,
    header: Vec<&'static str>,
    /// Rows by name, in order.
    rows: Vec<Row>,
}

struct Row {
    name: String,
    cells: Vec<String>,
    /// Compared figure: less is better.
    score: f64,
}

/// Some of what a comparison of policies prints.
#[derive(Deserialize)]
struct Run {
    trace: Trace,
    policy: Named,
    tiers: Vec<Tier>,
    io_time_ms: f64,
}

#[derive(Deserialize)]
struct Trace {
    accesses: u64,
    footprint_pages: u64,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct Tier {
    capacity_pages: Option<u64>,
    hit_ratio: f64,
    page_reads: u64,
    page_writes: u64,
}

/// Some of what a comparison of identifiers prints.
#[derive(Deserialize)]
struct Identification {
    trace: Writes,
    identifiers: Vec<Identifier>,
}

#[derive(Deserialize)]
struct Writes {
    writes: u64,
    footprint_pages: u64,
}

#[derive(Deserialize)]
struct Identifier {
    name: String,
    hot_ratio: f64,
    false_hot: u64,
    false_cold: u64,
    false_identification_rate: f64,
    memory_bits: u64,
}

/// Some of what a comparison of write buffers prints.
#[derive(Deserialize)]
struct Buffering {
    trace: Accesses,
    policy: Named,
    buffer_pages: u64,
    write_hit_ratio: f64,
    flushes: u64,
    pages_flushed: u64,
    erase_count: u64,
    write_amplification: f64,
    response_us: Responses,
}

#[derive(Deserialize)]
struct Accesses {
    accesses: u64,
    writes: u64,
}

#[derive(Deserialize)]
struct Responses {
    read: Response,
    write: Response,
}

#[derive(Deserialize)]
struct Response {
    mean: f64,
}

impl Figures {
    /// Return all policies on one hierarchy.
    pub(crate) fn of_policies(program: &Program) -> Result<Self> {
        let command = format!("compare {TRACE} --policy all --tier ram=2% --tier flash=4x");
        let runs: Vec<Run> = program.json(&command)?;
        let first = runs.first().context("no policy was compared")?;
        let pages = |tier: usize| {
            let tier = first.tiers.get(tier).and_then(|tier| tier.capacity_pages);
            tier.map(count).context("`compare --json` prints no sizes")
        };
        let conditions = format!(
            "{} accesses to {} pages of 8 KiB; RAM holds 2 % of these, {} pages, and flash four times \
             that, {}; all parameters have their defaults, nothing is left out as a warm-up, and a \
             write to a page that no cache holds fetches it first. Policies of one cache tier leave \
             the flash empty. The I/O time is that of the cost model.",
            count(first.trace.accesses),
            count(first.trace.footprint_pages),
            pages(0)?,
            pages(1)?,
        );
        let mut rows = vec![];
        for run in &runs {
            let [ram, flash, disk] = &run.tiers[..] else {
                anyhow::bail!("`compare --json` prints other tiers than two and the disk");
            };
            let moved = [flash.page_reads, flash.page_writes, disk.page_reads, disk.page_writes];
            let mut cells = [ram, flash, disk].map(|tier| percent(tier.hit_ratio)).to_vec();
            cells.extend(moved.map(count));
            cells.push(format!("{:.1}", run.io_time_ms / 1000.0));
            rows.push(Row { name: run.policy.name.clone(), cells, score: disk.hit_ratio });
        }
        let header = vec![
            "policy",
            "hits in RAM, %",
            "hits on flash, %",
            "misses, %",
            "flash reads",
            "flash writes",
            "disk reads",
            "disk writes",
            "I/O time, s",
        ];
        Ok(Self { command, conditions, header, rows })
    }

    /// Return all identifiers against the exact baseline.
    pub(crate) fn of_identifiers(program: &Program) -> Result<Self> {
        let command = format!("hot {TRACE} --identifier all --baseline wdac");
        let Identification { trace, identifiers } = program.json(&command)?;
        let conditions = format!(
            "{} writes of {} pages; all parameters have their defaults. A write is false hot if the \
             identifier says hot and the baseline `wdac` cold, false cold the other way round.",
            count(trace.writes),
            count(trace.footprint_pages),
        );
        let row = |one: Identifier| Row {
            cells: vec![
                percent(one.hot_ratio),
                count(one.false_hot),
                count(one.false_cold),
                percent(one.false_identification_rate),
                count(one.memory_bits.div_ceil(8)),
            ],
            name: one.name,
            score: one.false_identification_rate,
        };
        let rows = identifiers.into_iter().map(row).collect();
        let header =
            vec!["identifier", "hot, %", "false hot", "false cold", "false, %", "memory, bytes"];
        Ok(Self { command, conditions, header, rows })
    }

    /// Return all write buffers before one drive.
    pub(crate) fn of_buffers(program: &Program) -> Result<Self> {
        let command = format!(
            "buffer {TRACE} --policy all --size 8MiB --ssd ssdsim --ssd-size fit --closed-loop 4"
        );
        let buffers: Vec<Buffering> = program.json(&command)?;
        let first = buffers.first().context("no write buffer was compared")?;
        let conditions = format!(
            "{} accesses, {} of them writes, with four requests outstanding; a buffer of {} pages of \
             8 KiB before a drive like SSDsim's that is just as large as the trace; all parameters \
             have their defaults.",
            count(first.trace.accesses),
            count(first.trace.writes),
            count(first.buffer_pages),
        );
        let row = |one: &Buffering| Row {
            name: one.policy.name.clone(),
            cells: vec![
                percent(one.write_hit_ratio),
                count(one.flushes),
                count(one.pages_flushed),
                count(one.erase_count),
                format!("{:.2}", one.write_amplification),
                format!("{:.1}", one.response_us.read.mean),
                format!("{:.1}", one.response_us.write.mean),
            ],
            score: one.erase_count as f64,
        };
        let rows = buffers.iter().map(row).collect();
        let header = vec![
            "buffer",
            "write hits, %",
            "flushes",
            "pages flushed",
            "erases",
            "write amplification",
            "mean read, us",
            "mean write, us",
        ];
        Ok(Self { command, conditions, header, rows })
    }

    /// Return a table of those for which `link` makes a cell of the name.
    pub(crate) fn table(&self, link: impl Fn(&str) -> Option<String>) -> String {
        let row = |row: &Row| {
            let mut cells = vec![link(&row.name)?];
            cells.extend(row.cells.iter().cloned());
            Some(cells)
        };
        table(&self.header, &self.rows.iter().filter_map(row).collect::<Vec<_>>())
    }

    /// Count those of `names` that are better than the one.
    pub(crate) fn better(&self, name: &str, names: &[&str]) -> Result<usize> {
        let row = self.rows.iter().find(|row| row.name == name);
        let row =
            row.with_context(|| format!("`thermocline {}` leaves `{name}` out", self.command))?;
        let is_better =
            |other: &&Row| names.contains(&other.name.as_str()) && other.score < row.score;
        Ok(self.rows.iter().filter(is_better).count())
    }
}
