//! What a sweep keeps: rows, and the Parquet files that they are in.
//!
//! | column | type | |
//! | --- | --- | --- |
//! | `key` | text | of everything that the row depends on |
//! | `trace`, `trace_sha256`, `policy`, `parameters` | text | `parameters` as JSON |
//! | `accesses`, `footprint_pages`, `page_size_bytes`, `warm_up_accesses`, `metadata_bytes` | u64 | |
//! | `TIER_pages`, `TIER_hits`, `TIER_page_reads`, `TIER_page_writes` | u64 | per tier, the disk last; null where there is no such tier |
//! | `miss_ratio`, `io_time_ms`, `average_response_ms` | f64 | |
//! | `cost_total`, `cost_per_io` | f64 | null without prices |
//! | `read_mean_us`, `read_p99_us`, `write_mean_us`, `write_p99_us`, `duration_s`, `flash_lifetime_years` | f64 | null without timing |
//! | `result` | text | the whole row as JSON |

use std::collections::HashMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use thermocline_trace::columns::{Column, ColumnReader, ColumnWriter};

use crate::metric::flash_drive;
use crate::{LabError, Summary};

/// The key of the file's metadata, and what changes when older programs could misunderstand it.
const METADATA: (&str, &str) = ("thermocline_sweep", "1");
/// Rows per group.
const GROUP_ROWS: usize = 1 << 16;

/// The result of one point. Its JSON form is a contract.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Row {
    /// A hash of everything that it depends on.
    pub key: String,
    /// The trace, as the sweep names it.
    pub trace: String,
    /// The SHA-256 of the trace.
    pub trace_sha256: String,
    /// The policy.
    pub policy: String,
    /// All its parameters.
    pub parameters: serde_json::Map<String, serde_json::Value>,
    /// The identifier that decides which pages enter flash, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission: Option<String>,
    /// Page accesses of the trace.
    pub accesses: u64,
    /// Distinct pages of the trace.
    pub footprint_pages: u64,
    /// Bytes per page.
    pub page_size_bytes: u64,
    /// Accesses that are not counted.
    pub warm_up_accesses: u64,
    /// What the algorithm keeps besides the pages and their order.
    pub metadata_bytes: u64,
    /// The tiers, fastest first, the disk last.
    pub tiers: Vec<RowTier>,
    /// Accesses that no cache tier answers, divided by all.
    pub miss_ratio: f64,
    /// All page transfers at the costs of their tiers.
    pub io_time_ms: f64,
    /// The mean access time of the tiers that accesses were found in.
    pub average_response_ms: f64,
    /// The price of the hierarchy, if prices were given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_total: Option<f64>,
    /// The price per I/O per second, if prices were given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_per_io: Option<f64>,
    /// The figures of a timed run.
    #[serde(flatten)]
    pub timing: Option<RowTiming>,
}

/// One tier of a row.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct RowTier {
    /// Its name.
    pub name: String,
    /// Its capacity; none for the disk.
    pub capacity_pages: Option<u64>,
    /// Accesses found there.
    pub hits: u64,
    /// Pages that its device read.
    pub page_reads: u64,
    /// Pages that its device wrote.
    pub page_writes: u64,
}

/// What a row has of a timed run.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct RowTiming {
    /// The mean response of reads, in microseconds.
    pub read_mean_us: f64,
    /// 99 % of reads are answered within, in microseconds.
    pub read_p99_us: f64,
    /// The mean response of writes, in microseconds.
    pub write_mean_us: f64,
    /// 99 % of writes are answered within, in microseconds.
    pub write_p99_us: f64,
    /// How long the run took, in seconds.
    pub duration_s: f64,
    /// Years until flash is worn out; none without an SSD, or without an erase.
    pub flash_lifetime_years: Option<f64>,
}

impl Row {
    /// The row of a summary; first its key, the SHA-256 of its trace, and the trace's name.
    pub(super) fn of(summary: &Summary, [key, trace_sha256, trace]: [&str; 3]) -> Self {
        let tiers = summary.tiers.iter().map(|tier| RowTier {
            name: tier.name.clone(),
            capacity_pages: tier.capacity_pages,
            hits: tier.hits,
            page_reads: tier.page_reads,
            page_writes: tier.page_writes,
        });
        let timing = summary.timing.as_ref().map(|timing| RowTiming {
            read_mean_us: timing.response_us.read.mean,
            read_p99_us: timing.response_us.read.p99,
            write_mean_us: timing.response_us.write.mean,
            write_p99_us: timing.response_us.write.p99,
            duration_s: timing.duration_s,
            flash_lifetime_years: flash_drive(summary).and_then(|drive| drive.lifetime_years),
        });
        Self {
            key: key.into(),
            trace: trace.into(),
            trace_sha256: trace_sha256.into(),
            policy: summary.policy.name.clone(),
            parameters: summary.policy.parameters.clone(),
            admission: summary.policy.admission.as_ref().map(|one| one.identifier.clone()),
            accesses: summary.trace.accesses,
            footprint_pages: summary.trace.footprint_pages,
            page_size_bytes: summary.trace.page_size_bytes,
            warm_up_accesses: summary.warm_up_accesses,
            metadata_bytes: summary.metadata_bytes,
            tiers: tiers.collect(),
            miss_ratio: summary.tiers.last().map_or(0.0, |disk| disk.hit_ratio),
            io_time_ms: summary.io_time_ms,
            average_response_ms: summary.average_response_ms,
            cost_total: summary.cost.map(|cost| cost.total),
            cost_per_io: summary.cost.map(|cost| cost.per_io),
            timing,
        }
    }

    fn tier(&self, name: &str) -> Option<&RowTier> {
        self.tiers.iter().find(|tier| tier.name == name)
    }
}

/// A column of the file: its name, its type and its values.
struct Field {
    name: String,
    kind: &'static str,
    column: Column,
}

/// Writes rows as a Parquet file, which appears whole or not at all.
pub(super) fn write(path: &Path, rows: &[Row]) -> Result<(), LabError> {
    let schema: String =
        fields(rows)?.iter().map(|f| format!("{} {};\n", f.kind, f.name)).collect();
    let schema = format!("message sweep {{\n{schema}}}");
    let metadata = (METADATA.0, METADATA.1.to_owned());
    let mut writer = ColumnWriter::create(path, &schema, &[], metadata)?;
    let names = tier_names(rows);
    for group in rows.chunks(GROUP_ROWS) {
        let columns: Vec<Column> =
            fields_of(group, &names)?.into_iter().map(|field| field.column).collect();
        writer.group(&columns)?;
    }
    Ok(writer.finish()?)
}

/// The rows of a file that [`write()`] wrote, by their keys.
pub(super) fn read(path: &Path, rows: &mut HashMap<String, Row>) -> Result<(), LabError> {
    let reader = ColumnReader::open(path).map_err(|error| {
        let reason = format!("no result of a sweep: take another name for the output ({error})");
        LabError::file(path, reason)
    })?;
    let wrong = || {
        let reason = "a Parquet file, but no result of a sweep: take another name for the output";
        LabError::file(path, reason)
    };
    if reader.metadata(METADATA.0).as_deref() != Some(METADATA.1) {
        return Err(wrong());
    }
    for group in 0..reader.groups() {
        for text in reader.text(group, "result")?.ok_or_else(wrong)? {
            let row: Row =
                serde_json::from_str(&text).map_err(|error| LabError::file(path, error))?;
            rows.insert(row.key.clone(), row);
        }
    }
    Ok(())
}

/// The names of all tiers, in the order in which they appear, the disk last.
fn tier_names(rows: &[Row]) -> Vec<String> {
    let mut names: Vec<String> = vec![];
    for tier in rows.iter().flat_map(|row| &row.tiers).filter(|tier| tier.capacity_pages.is_some())
    {
        if !names.contains(&tier.name) {
            names.push(tier.name.clone());
        }
    }
    names.push("disk".into());
    names
}

fn fields(rows: &[Row]) -> Result<Vec<Field>, LabError> {
    fields_of(&[], &tier_names(rows))
}

fn fields_of(rows: &[Row], tiers: &[String]) -> Result<Vec<Field>, LabError> {
    let text = |name: &str, value: &dyn Fn(&Row) -> String| Field {
        name: format!("{name} (UTF8)"),
        kind: "required binary",
        column: Column::Text(rows.iter().map(|row| value(row).into_bytes().into()).collect()),
    };
    let whole = |name: String, value: &dyn Fn(&Row) -> Option<u64>| Field {
        name: format!("{name} (INTEGER(64,false))"),
        kind: "optional int64",
        column: Column::OptionalU64(rows.iter().map(value).collect()),
    };
    let real = |name: &str, value: &dyn Fn(&Row) -> Option<f64>| Field {
        name: name.into(),
        kind: "optional double",
        column: Column::OptionalF64(rows.iter().map(value).collect()),
    };
    let timing = |row: &Row| row.timing;
    let json: Result<Vec<String>, serde_json::Error> =
        rows.iter().map(serde_json::to_string).collect();
    let json = json.map_err(|error| LabError::BadExperiment { reason: error.to_string() })?;
    let mut fields = vec![
        text("key", &|row| row.key.clone()),
        text("trace", &|row| row.trace.clone()),
        text("trace_sha256", &|row| row.trace_sha256.clone()),
        text("policy", &|row| row.policy.clone()),
        text("parameters", &|row| serde_json::Value::Object(row.parameters.clone()).to_string()),
        whole("accesses".into(), &|row| Some(row.accesses)),
        whole("footprint_pages".into(), &|row| Some(row.footprint_pages)),
        whole("page_size_bytes".into(), &|row| Some(row.page_size_bytes)),
        whole("warm_up_accesses".into(), &|row| Some(row.warm_up_accesses)),
        whole("metadata_bytes".into(), &|row| Some(row.metadata_bytes)),
    ];
    for name in tiers {
        if name != "disk" {
            fields.push(whole(format!("{name}_pages"), &|row| row.tier(name)?.capacity_pages));
        }
        fields.push(whole(format!("{name}_hits"), &|row| Some(row.tier(name)?.hits)));
        fields.push(whole(format!("{name}_page_reads"), &|row| Some(row.tier(name)?.page_reads)));
        fields.push(whole(format!("{name}_page_writes"), &|row| Some(row.tier(name)?.page_writes)));
    }
    fields.extend([
        real("miss_ratio", &|row| Some(row.miss_ratio)),
        real("io_time_ms", &|row| Some(row.io_time_ms)),
        real("average_response_ms", &|row| Some(row.average_response_ms)),
        real("cost_total", &|row| row.cost_total),
        real("cost_per_io", &|row| row.cost_per_io),
        real("read_mean_us", &|row| Some(timing(row)?.read_mean_us)),
        real("read_p99_us", &|row| Some(timing(row)?.read_p99_us)),
        real("write_mean_us", &|row| Some(timing(row)?.write_mean_us)),
        real("write_p99_us", &|row| Some(timing(row)?.write_p99_us)),
        real("duration_s", &|row| Some(timing(row)?.duration_s)),
        real("flash_lifetime_years", &|row| timing(row)?.flash_lifetime_years),
    ]);
    fields.push(Field {
        name: "result (UTF8)".into(),
        kind: "required binary",
        column: Column::Text(json.into_iter().map(|text| text.into_bytes().into()).collect()),
    });
    Ok(fields)
}
