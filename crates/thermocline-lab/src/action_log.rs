//! The actions of a run as a Parquet file, so that two implementations can be compared access by access.
//!
//! | column | type | |
//! | --- | --- | --- |
//! | `access` | u64 | the number of the access, from 0; the warm-up is part of it |
//! | `op` | text | what the access does: `read` or `write`; null for what a policy does between accesses |
//! | `action` | text | `serve`, `copy` or `drop` |
//! | `page` | u64 | the page that the action is about, by its number in the trace |
//! | `source` | text | the tier that answers, is read, or gives up its copy |
//! | `target` | text | of `copy`: the tier that is written |
//! | `found` | text | of `serve`: the fastest tier that held the page when the access arrived |
//! | `volume` | u32 | whose page it is; only if the trace has several volumes |
//! | `client` | u32 | who makes the access; only if there are several clients |
//!
//! The key `thermocline_actions` of the file's metadata holds, as JSON, what the rows do not say.

use std::mem;
use std::path::Path;

use serde::Serialize;
use thermocline_core::{Access, Action, Actions, Clients, Op, PageId, Tier};
use thermocline_trace::columns::{Column, ColumnWriter};
use thermocline_trace::{CompiledTrace, TraceError};

use crate::{Configuration, LabError, PolicySummary, Recorder, TraceSummary};

const KEY: &str = "thermocline_actions";
/// Changes when older programs could misunderstand a file.
const VERSION: u32 = 1;
/// Rows per group: what is held in memory.
const GROUP_ROWS: usize = 1 << 17;

/// The words of `op`, by [`Op`].
const OPS: [&str; 2] = ["read", "write"];
/// The words of `action`.
const ACTIONS: [&str; 3] = ["serve", "copy", "drop"];
const SERVE: u8 = 0;
const COPY: u8 = 1;
const DROP: u8 = 2;

/// Columns of every log.
const SCHEMA: &str = "
    required int64 access (INTEGER(64,false));
    optional binary op (UTF8);
    optional binary action (UTF8);
    required int64 page (INTEGER(64,false));
    optional binary source (UTF8);
    optional binary target (UTF8);
    optional binary found (UTF8);
";
const VOLUME: &str = "    required int32 volume (INTEGER(32,false));\n";
const CLIENT: &str = "    required int32 client (INTEGER(32,false));\n";

/// A log being written. The file appears when it is [finished](Self::finish), whole or not at all.
#[derive(Debug)]
pub struct ActionLog {
    writer: ColumnWriter,
    /// The name of every tier, by [`Tier`].
    tiers: Vec<String>,
    rows: Rows,
    failure: Option<TraceError>,
}

/// The rows of a group, by column.
#[derive(Debug, Default)]
struct Rows {
    accesses: Vec<i64>,
    ops: Vec<Option<u8>>,
    actions: Vec<Option<u8>>,
    pages: Vec<i64>,
    sources: Vec<Option<u8>>,
    targets: Vec<Option<u8>>,
    found: Vec<Option<u8>>,
    volumes: Vec<i32>,
    clients: Vec<i32>,
}

#[derive(Serialize)]
struct Metadata {
    version: u32,
    trace: TraceSummary,
    policy: PolicySummary,
    tiers: Vec<String>,
    capacity_pages: Vec<u32>,
    clients: u8,
    warm_up_accesses: u64,
    volumes: Vec<String>,
}

impl ActionLog {
    /// Begins the log of a configuration on a trace. `warm_up_accesses` are in it like any others; its
    /// metadata says how many they are.
    ///
    /// # Errors
    /// If the file cannot be written, or a size that cannot be.
    pub fn create(
        path: &Path,
        trace: &CompiledTrace,
        configuration: &Configuration,
        warm_up_accesses: u64,
    ) -> Result<Self, LabError> {
        let metadata = Metadata {
            version: VERSION,
            trace: TraceSummary::of(trace),
            policy: PolicySummary::of(configuration),
            tiers: configuration.tier_names(),
            capacity_pages: configuration.tier_capacities_pages(trace)?,
            clients: configuration.clients.get(),
            warm_up_accesses,
            volumes: trace.volume_names().to_vec(),
        };
        let json = serde_json::to_string(&metadata);
        let json = json.map_err(|error| LabError::file(path, error))?;
        let volume = if has_volumes(trace) { VOLUME } else { "" };
        let client = if has_clients(trace) { CLIENT } else { "" };
        let schema = format!("message actions {{{SCHEMA}{volume}{client}}}");
        let writer = ColumnWriter::create(path, &schema, &["access"], (KEY, json))?;
        Ok(Self { writer, tiers: metadata.tiers, rows: Rows::default(), failure: None })
    }

    /// Completes the file and puts it in its place.
    ///
    /// # Errors
    /// If it could not be written.
    pub fn finish(mut self) -> Result<(), TraceError> {
        self.write_group();
        match self.failure {
            Some(failure) => Err(failure),
            None => self.writer.finish(),
        }
    }

    fn add(
        &mut self,
        trace: &CompiledTrace,
        index: usize,
        (op, client): (Option<Op>, u8),
        actions: &Actions,
    ) {
        for &action in actions.as_slice() {
            let rows = &mut self.rows;
            let place = |tier: Tier| Some(tier.0);
            let (word, page, source, target, found) = match action {
                Action::Serve { page, found, tier, .. } => {
                    (SERVE, page, place(tier), None, place(found))
                }
                Action::Copy { page, source, target } => {
                    (COPY, page, place(source), place(target), None)
                }
                Action::Drop { page, tier } => (DROP, page, place(tier), None, None),
            };
            rows.accesses.push((index as u64).cast_signed());
            rows.ops.push(op.map(|op| op as u8));
            rows.actions.push(Some(word));
            rows.sources.push(source);
            rows.targets.push(target);
            rows.found.push(found);
            rows.page(trace, page);
            if has_clients(trace) {
                rows.clients.push(client.into());
            }
        }
        if self.rows.accesses.len() >= GROUP_ROWS {
            self.write_group();
        }
    }

    /// Writes the rows as a group, unless there are none or writing has failed.
    fn write_group(&mut self) {
        let rows = mem::take(&mut self.rows);
        if rows.accesses.is_empty() || self.has_failed() {
            return;
        }
        let words = |words: &[&str], places| {
            let words = words.iter().map(|&word| word.to_owned()).collect();
            Column::Words { words, places }
        };
        let tiers = |places| Column::Words { words: self.tiers.clone(), places };
        let mut columns = vec![
            Column::U64(rows.accesses),
            words(&OPS, rows.ops),
            words(&ACTIONS, rows.actions),
            Column::U64(rows.pages),
            tiers(rows.sources),
            tiers(rows.targets),
            tiers(rows.found),
        ];
        columns.extend((!rows.volumes.is_empty()).then_some(Column::U32(rows.volumes)));
        columns.extend((!rows.clients.is_empty()).then_some(Column::U32(rows.clients)));
        self.failure = self.writer.group(&columns).err();
    }
}

impl Recorder for ActionLog {
    fn access(&mut self, trace: &CompiledTrace, index: usize, actions: &Actions) {
        let Access { op, client, .. } = trace.access(index);
        self.add(trace, index, (Some(op), client), actions);
    }

    fn between_accesses(&mut self, trace: &CompiledTrace, index: usize, actions: &Actions) {
        self.add(trace, index, (None, 0), actions);
    }

    /// Return `true` if the file could not be written; [`finish`](Self::finish) says why.
    fn has_failed(&self) -> bool {
        self.failure.is_some()
    }
}

impl Rows {
    /// Adds a page, by its number in the trace.
    fn page(&mut self, trace: &CompiledTrace, page: PageId) {
        if has_volumes(trace) {
            let (volume, number) = trace.location(page);
            self.volumes.push(volume.cast_signed());
            self.pages.push(number.cast_signed());
        } else {
            self.pages.push(trace.page_numbers()[page.index()].cast_signed());
        }
    }
}

fn has_volumes(trace: &CompiledTrace) -> bool {
    trace.volume_names().len() > 1
}

fn has_clients(trace: &CompiledTrace) -> bool {
    trace.clients() != Clients::ONE
}
