//! Results that a sweep keeps: rows, and the Parquet files that they are in.
//!
//! | column | type | |
//! | --- | --- | --- |
//! | `key` | text | of everything that the row depends on |
//! | `trace`, `trace_sha256`, `policy`, `parameters` | text | `parameters` as JSON |
//! | `accesses`, `footprint_pages`, `page_size_bytes` | u64 | |
//! | `TIER_pages` | u64 | per cache tier; null where there is no such tier |
//! | a column per figure of [`RUNS`], and per tier | u64 or f64 | null where a run has no such figure |
//! | `result` | text | the whole row as JSON |

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thermocline_trace::columns::{Column, ColumnReader, ColumnWriter};

use crate::figure::{self, Figure, RUNS};
use crate::{LabError, Summary};

/// The key of the file's metadata, and what changes when older programs could misunderstand it.
const METADATA: (&str, &str) = ("thermocline_sweep", "1");
/// Rows per group.
const GROUP_ROWS: usize = 1 << 16;

/// The result of one point. Its JSON form has a stable schema.
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
    pub parameters: Map<String, Value>,
    /// The identifier that decides which pages enter flash, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission: Option<String>,
    /// Page accesses of the trace.
    pub accesses: u64,
    /// Distinct pages of the trace.
    pub footprint_pages: u64,
    /// Bytes per page.
    pub page_size_bytes: u64,
    /// The tiers, fastest first, the disk last.
    pub tiers: Vec<RowTier>,
    /// The figures of the run, by the names of their columns.
    #[serde(flatten)]
    figures: Map<String, Value>,
}

/// One tier of a row.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct RowTier {
    /// Its name.
    pub name: String,
    /// Its capacity; `None` for the disk.
    pub capacity_pages: Option<u64>,
    /// Its figures, by their names.
    #[serde(flatten)]
    figures: Map<String, Value>,
}

impl RowTier {
    /// Return a figure of the tier; `None` if the run has no such figure.
    pub fn figure(&self, key: &str) -> Option<f64> {
        self.figures.get(key)?.as_f64()
    }
}

impl Row {
    /// Return the row of a summary; first its key, the SHA-256 of its trace, and the trace's name.
    pub(crate) fn of(summary: &Summary, [key, trace_sha256, trace]: [&str; 3]) -> Self {
        let tiers = summary.tiers.iter().enumerate().map(|(place, tier)| RowTier {
            name: tier.name.clone(),
            capacity_pages: tier.capacity_pages,
            figures: figure::of_tier(RUNS, summary, place),
        });
        let mut figures = figure::of_run(RUNS, summary, None);
        figures.extend(figure::inside(summary));
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
            tiers: tiers.collect(),
            figures,
        }
    }

    /// Return a figure by the name of its column; `None` if the run has no such figure.
    pub fn figure(&self, column: &str) -> Option<f64> {
        self.figures.get(column)?.as_f64()
    }

    /// Return the JSON of a figure, which is of this tier unless it is of runs.
    fn json(&self, figure: &Figure, tier: &str) -> Option<&Value> {
        let own = self.tier(tier).filter(|_| figure.is_of_tier());
        let own = own.and_then(|tier| tier.figures.get(figure.key));
        own.or_else(|| self.figures.get(&figure.column(tier)))
    }

    fn tier(&self, name: &str) -> Option<&RowTier> {
        self.tiers.iter().find(|tier| tier.name == name)
    }
}

/// Return the policy of each row, with the parameters that differ between the rows of that policy.
pub(crate) fn labels(rows: &[&Row]) -> Vec<String> {
    let mut varied: HashMap<&str, (&Row, BTreeSet<&String>)> = HashMap::new();
    for row in rows {
        let (first, names) = varied.entry(&row.policy).or_insert((row, BTreeSet::new()));
        let differs =
            |(name, value): &(&String, &Value)| first.parameters.get(*name) != Some(value);
        names.extend(row.parameters.iter().filter(differs).map(|(name, _)| name));
    }
    let label = |row: &&Row| {
        let names = varied.get(row.policy.as_str()).into_iter().flat_map(|(_, names)| names);
        let parameters =
            names.filter_map(|name| Some(format!(" {name}={}", row.parameters.get(*name)?)));
        [row.policy.clone()].into_iter().chain(parameters).collect()
    };
    rows.iter().map(label).collect()
}

/// A column of the file: its name, its type and its values.
struct Field {
    name: String,
    kind: &'static str,
    column: Column,
}

/// Writes rows as a Parquet file, which appears whole or not at all.
pub(super) fn write(path: &Path, rows: &[Row]) -> Result<(), LabError> {
    let names = tier_names(rows);
    let schema: String =
        fields_of(&[], &names).iter().map(|f| format!("{} {};\n", f.kind, f.name)).collect();
    let schema = format!("message sweep {{\n{schema}}}");
    let metadata = (METADATA.0, METADATA.1.to_owned());
    let mut writer = ColumnWriter::create(path, &schema, &[], metadata)?;
    for group in rows.chunks(GROUP_ROWS) {
        let columns: Vec<Column> =
            fields_of(group, &names).into_iter().map(|field| field.column).collect();
        writer.group(&columns)?;
    }
    Ok(writer.finish()?)
}

/// Read the rows of a file that [`write()`] wrote, by their keys.
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

/// Return the names of all tiers, in the order in which they appear, the disk last.
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

fn fields_of(rows: &[Row], tiers: &[String]) -> Vec<Field> {
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
    let real = |name: String, value: &dyn Fn(&Row) -> Option<f64>| Field {
        name,
        kind: "optional double",
        column: Column::OptionalF64(rows.iter().map(value).collect()),
    };
    let of_figure = |figure: &Figure, tier: &str| {
        if figure.is_count() {
            whole(figure.column(tier), &|row| row.json(figure, tier)?.as_u64())
        } else {
            real(figure.column(tier), &|row| row.json(figure, tier)?.as_f64())
        }
    };
    let json =
        |row| serde_json::to_string(row).expect("strings, numbers and lists have a JSON form");
    let mut fields = vec![
        text("key", &|row| row.key.clone()),
        text("trace", &|row| row.trace.clone()),
        text("trace_sha256", &|row| row.trace_sha256.clone()),
        text("policy", &|row| row.policy.clone()),
        text("parameters", &|row| Value::Object(row.parameters.clone()).to_string()),
        whole("accesses".into(), &|row| Some(row.accesses)),
        whole("footprint_pages".into(), &|row| Some(row.footprint_pages)),
        whole("page_size_bytes".into(), &|row| Some(row.page_size_bytes)),
    ];
    for name in tiers {
        if name != "disk" {
            fields.push(whole(format!("{name}_pages"), &|row| row.tier(name)?.capacity_pages));
        }
        let figures = RUNS.iter().filter(|figure| figure.is_of_tier());
        fields.extend(figures.map(|figure| of_figure(figure, name)));
    }
    let figures = RUNS.iter().filter(|figure| !figure.is_of_tier());
    fields.extend(figures.map(|figure| of_figure(figure, "")));
    fields.push(Field {
        name: "result (UTF8)".into(),
        kind: "required binary",
        column: Column::Text(rows.iter().map(|row| json(row).into_bytes().into()).collect()),
    });
    fields
}
