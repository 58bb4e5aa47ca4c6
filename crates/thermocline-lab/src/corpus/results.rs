//! The results of a corpus: one Parquet data set, with a folder per data set of the corpus.
//!
//! `DIR/dataset=NAME/results.parquet` has one row per trace, policy, parameters, size and seed. Readers
//! of partitioned data sets (`DuckDB`, Polars, Arrow) add the column `dataset` from the folder's name.
//! All files have the same columns. [docs/corpus.md](../../../docs/corpus.md) describes them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thermocline_trace::columns::{Column, ColumnReader, ColumnWriter};

use crate::figure::{BUFFERS, Figure, RUNS};
use crate::mrc::Estimate;
use crate::{BufferSummary, LabError, Summary};

/// The key of the files' metadata, and the version of their schema.
const METADATA: (&str, &str) = ("thermocline_corpus", "1");
/// Changes when the same program version would compute other numbers; part of every key.
pub const RESULTS_VERSION: u32 = 2;
/// The file in the folder of each data set.
const FILE: &str = "results.parquet";
/// Prefix of the folders of data sets.
const FOLDER: &str = "dataset=";
/// Columns of text, in the order of the file.
const TEXTS: [&str; 10] = [
    "key",
    "trace",
    "class",
    "kind",
    "policy",
    "parameters",
    "size",
    "hierarchy",
    "trace_sha256",
    "version",
];

/// A figure.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Number {
    /// A count.
    Count(u64),
    /// Any other number.
    Real(#[serde(with = "real")] f64),
}

/// Reals as text: JSON has no number for those that are not finite.
mod real {
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "it is the signature that serde calls")]
    pub(super) fn serialize<S: Serializer>(real: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(real)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// The result of one point.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Row {
    /// The data set of its trace.
    pub dataset: String,
    /// Its trace.
    pub trace: String,
    /// The kind of cache that the trace was taken from.
    pub class: String,
    /// The side of the split that the trace is on, if there is a split.
    pub split: Option<String>,
    /// `cache` or `buffer`.
    pub kind: String,
    /// The policy.
    pub policy: String,
    /// Its parameters, all but the seed, as JSON.
    pub parameters: String,
    /// The seed of a policy that draws random numbers.
    pub seed: Option<u64>,
    /// The sizes as they were asked for, as in `ram=1% flash=10%`.
    pub size: String,
    /// Devices, costs and options of the run, as JSON.
    pub hierarchy: String,
    /// The share of pages that was simulated; 1 for a full simulation.
    pub rate: f64,
    /// SHA-256 of the trace.
    pub trace_sha256: String,
    /// A hash of all that the row depends on.
    pub key: String,
    /// The version of Thermocline.
    pub version: String,
    /// The figures by the names of their columns.
    pub figures: BTreeMap<String, Number>,
}

impl Number {
    /// Return the number.
    pub const fn value(self) -> f64 {
        match self {
            Self::Count(count) => count as f64,
            Self::Real(real) => real,
        }
    }
}

impl Row {
    /// Return a figure by the name of its column.
    pub fn figure(&self, column: &str) -> Option<f64> {
        self.figures.get(column).copied().map(Number::value)
    }

    /// Return the subject of the row: a newer row of the same subject replaces it. A sample does
    /// not replace a full simulation.
    pub(super) fn subject(&self) -> Subject<'_> {
        (
            [&self.trace, &self.kind, &self.policy, &self.parameters, &self.size, &self.hierarchy],
            self.seed,
            self.rate < 1.0,
        )
    }

    /// Adds the figures of a run.
    pub(super) fn add_run(&mut self, summary: &Summary) {
        for (place, tier) in summary.tiers.iter().enumerate() {
            self.add_capacity(&tier.name, tier.capacity_pages, summary.trace.footprint_pages);
            for figure in RUNS.iter().filter(|figure| figure.is_of_tier()) {
                self.add(figure, summary, place, &tier.name);
            }
        }
        for figure in RUNS.iter().filter(|figure| !figure.is_of_tier()) {
            self.add(figure, summary, 0, "");
        }
        if let Some(disk) = summary.tiers.last() {
            self.figures.insert("misses".into(), Number::Count(disk.hits));
        }
    }

    /// Adds what a sample says of a run: `tiers` are the caches with their capacities.
    pub(super) fn add_estimate(
        &mut self,
        estimate: &Estimate,
        tiers: &[(String, u64)],
        accesses: u64,
        footprint_pages: u64,
    ) {
        let mut real = |column: String, value: f64| {
            self.figures.insert(column, Number::Real(value));
        };
        real("miss_ratio".into(), estimate.miss_ratio);
        real("hit_ratio".into(), 1.0 - estimate.miss_ratio);
        real("io_time_ms".into(), estimate.io_ms_per_access * accesses as f64);
        real("average_response_ms".into(), estimate.average_response_ms);
        for ((name, _), share) in tiers.iter().zip(&estimate.hit_ratios) {
            real(format!("{name}_hit_ratio"), *share);
        }
        let names = || tiers.iter().map(|(name, _)| name.as_str()).chain(["disk"]);
        let mut count = |column: String, per_access: f64| {
            let number = rounded(per_access * accesses as f64);
            self.figures.insert(column, Number::Count(number));
        };
        for (name, reads) in names().zip(&estimate.page_reads_per_access) {
            count(format!("{name}_page_reads"), *reads);
        }
        for (name, writes) in names().zip(&estimate.page_writes_per_access) {
            count(format!("{name}_page_writes"), *writes);
        }
        count("misses".into(), estimate.miss_ratio);
        for (name, pages) in tiers {
            self.add_capacity(name, Some(*pages), footprint_pages);
        }
    }

    /// Adds the figures of a write buffer.
    pub(super) fn add_buffer(&mut self, summary: &BufferSummary) {
        for figure in BUFFERS {
            self.add(figure, summary, 0, "");
        }
        let pages = Some(summary.buffer_pages.into());
        self.add_capacity("buffer", pages, summary.trace.footprint_pages);
    }

    /// Adds what is known of the trace.
    pub(super) fn add_trace(&mut self, trace: &thermocline_trace::CompiledTrace) {
        for (column, count) in [
            ("requests", trace.request_count() as u64),
            ("accesses", trace.len() as u64),
            ("writes", trace.writes()),
            ("footprint_pages", trace.footprint_pages().into()),
            ("page_size_bytes", trace.page_size_bytes()),
        ] {
            self.figures.insert(column.into(), Number::Count(count));
        }
    }

    fn add_capacity(&mut self, tier: &str, pages: Option<u64>, footprint_pages: u64) {
        let Some(pages) = pages else { return };
        self.figures.insert(format!("{tier}_pages"), Number::Count(pages));
        let fraction = pages as f64 / (footprint_pages as f64).max(1.0);
        self.figures.insert(format!("{tier}_fraction"), Number::Real(fraction));
    }

    fn add<S>(&mut self, figure: &Figure<S>, run: &S, place: usize, tier: &str) {
        let Some(value) = figure.value(run, place) else { return };
        let number =
            if figure.is_count() { Number::Count(rounded(value)) } else { Number::Real(value) };
        self.figures.insert(figure.column(tier), number);
    }

    fn text(&self, column: &str) -> &str {
        match column {
            "key" => &self.key,
            "trace" => &self.trace,
            "class" => &self.class,
            "kind" => &self.kind,
            "policy" => &self.policy,
            "parameters" => &self.parameters,
            "size" => &self.size,
            "hierarchy" => &self.hierarchy,
            "trace_sha256" => &self.trace_sha256,
            _ => &self.version,
        }
    }
}

/// Subject of a row: two rows of one subject are results of the same thing.
pub(super) type Subject<'a> = ([&'a String; 6], Option<u64>, bool);

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts are not negative, and below 2^53"
)]
fn rounded(value: f64) -> u64 {
    value.round() as u64
}

/// Return all rows of a data set of results, by data set, each in the order of its file.
///
/// # Errors
/// If the folder cannot be read or has no results, or a file is not one of results.
pub fn read(folder: &Path) -> Result<Vec<Row>, LabError> {
    let mut rows = vec![];
    for (dataset, path) in files(folder)? {
        rows.extend(read_file(&path, &dataset)?);
    }
    if rows.is_empty() {
        let reason = "there are no results: name the folder that `corpus run -o` has written";
        return Err(LabError::file(folder, reason));
    }
    Ok(rows)
}

/// Return the data sets in a folder of results, with their files, sorted.
pub(super) fn files(folder: &Path) -> Result<Vec<(String, PathBuf)>, LabError> {
    let failed = |error: std::io::Error| LabError::file(folder, error);
    let mut files = vec![];
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(dataset) = name.strip_prefix(FOLDER) {
            let path = entry.path().join(FILE);
            if path.is_file() {
                files.push((dataset.to_owned(), path));
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Return the file of one data set.
pub(super) fn file_of(folder: &Path, dataset: &str) -> PathBuf {
    folder.join(format!("{FOLDER}{dataset}")).join(FILE)
}

fn opened(path: &Path) -> Result<ColumnReader<'_>, LabError> {
    let reader = ColumnReader::open(path)?;
    match reader.metadata(METADATA.0) {
        Some(version) if version == METADATA.1 => Ok(reader),
        Some(version) => {
            let reason = format!(
                "its schema has version {version}, and this program reads version {}: run the corpus into another folder",
                METADATA.1
            );
            Err(LabError::file(path, reason))
        }
        None => {
            Err(LabError::file(path, "it is not a result of `corpus run`: take another folder"))
        }
    }
}

/// Return the keys of the rows of a file.
pub(super) fn keys(path: &Path) -> Result<Vec<String>, LabError> {
    let reader = opened(path)?;
    let mut keys = vec![];
    for group in 0..reader.groups() {
        keys.extend(reader.text(group, "key")?.unwrap_or_default());
    }
    Ok(keys)
}

/// Return the names of the columns of figures of a file.
pub(super) fn figure_columns(path: &Path) -> Result<Vec<String>, LabError> {
    let is_figure = |name: &String| {
        !TEXTS.contains(&name.as_str()) && !["split", "seed", "rate"].contains(&name.as_str())
    };
    Ok(opened(path)?.names().into_iter().filter(is_figure).collect())
}

/// Return the rows of a file.
pub(super) fn read_file(path: &Path, dataset: &str) -> Result<Vec<Row>, LabError> {
    let reader = opened(path)?;
    let columns = figure_columns(path)?;
    let missing = |column: &str| {
        LabError::file(path, format!("its column `{column}` is missing: run the corpus again"))
    };
    let mut rows: Vec<Row> = vec![];
    for group in 0..reader.groups() {
        let first = rows.len();
        for column in TEXTS {
            let texts = reader.text(group, column)?.ok_or_else(|| missing(column))?;
            rows.resize_with(rows.len().max(first + texts.len()), Row::default);
            for (row, text) in rows[first..].iter_mut().zip(texts) {
                match column {
                    "key" => row.key = text,
                    "trace" => row.trace = text,
                    "class" => row.class = text,
                    "kind" => row.kind = text,
                    "policy" => row.policy = text,
                    "parameters" => row.parameters = text,
                    "size" => row.size = text,
                    "hierarchy" => row.hierarchy = text,
                    "trace_sha256" => row.trace_sha256 = text,
                    _ => row.version = text,
                }
            }
        }
        let rows = &mut rows[first..];
        let splits = reader.optional_text(group, "split")?.ok_or_else(|| missing("split"))?;
        let seeds = reader.optional_numbers(group, "seed")?.ok_or_else(|| missing("seed"))?;
        let rates = reader.optional_reals(group, "rate")?.ok_or_else(|| missing("rate"))?;
        for (((row, split), seed), rate) in rows.iter_mut().zip(splits).zip(seeds).zip(rates) {
            dataset.clone_into(&mut row.dataset);
            (row.split, row.seed, row.rate) = (split, seed, rate.unwrap_or(1.0));
        }
        for column in &columns {
            let numbers: Vec<Option<Number>> =
                if let Some(counts) = reader.optional_numbers(group, column)? {
                    counts.into_iter().map(|count| count.map(Number::Count)).collect()
                } else {
                    let reals = reader.optional_reals(group, column)?;
                    let reals = reals.ok_or_else(|| missing(column))?;
                    reals.into_iter().map(|real| real.map(Number::Real)).collect()
                };
            for (row, number) in rows.iter_mut().zip(numbers) {
                if let Some(number) = number {
                    row.figures.insert(column.clone(), number);
                }
            }
        }
    }
    Ok(rows)
}

/// Writes the rows of one data set, sorted, with these columns of figures and those that the rows have.
/// The file appears whole or not at all.
pub(super) fn write_file(
    path: &Path,
    rows: &mut [Row],
    columns: &BTreeMap<String, bool>,
) -> Result<(), LabError> {
    rows.sort_by(|one, other| {
        let rates = other.rate.total_cmp(&one.rate);
        one.subject().cmp(&other.subject()).then(rates).then_with(|| one.key.cmp(&other.key))
    });
    let columns = with_columns(columns, rows);
    let mut schema = String::from("message corpus {\n");
    for column in TEXTS {
        schema += &format!("required binary {column} (UTF8);\n");
    }
    schema += "optional binary split (UTF8);\noptional int64 seed (INTEGER(64,false));\noptional double rate;\n";
    for (column, is_count) in &columns {
        let kind = if *is_count { "int64" } else { "double" };
        let logical = if *is_count { " (INTEGER(64,false))" } else { "" };
        schema += &format!("optional {kind} {column}{logical};\n");
    }
    schema += "}";
    let metadata = (METADATA.0, METADATA.1.to_owned());
    let mut writer = ColumnWriter::create(path, &schema, &[], metadata)?;
    writer.group(&values(rows, &columns))?;
    Ok(writer.finish()?)
}

/// Columns of figures, and whether each is of counts.
pub(super) fn with_columns(
    columns: &BTreeMap<String, bool>,
    rows: &[Row],
) -> BTreeMap<String, bool> {
    let mut columns = columns.clone();
    for (column, number) in rows.iter().flat_map(|row| &row.figures) {
        if !columns.contains_key(column) {
            columns.insert(column.clone(), matches!(number, Number::Count(_)));
        }
    }
    columns
}

fn values(rows: &[Row], columns: &BTreeMap<String, bool>) -> Vec<Column> {
    let text = |column: &&str| {
        Column::Text(rows.iter().map(|row| row.text(column).as_bytes().to_vec().into()).collect())
    };
    let mut values: Vec<Column> = TEXTS.iter().map(text).collect();
    let words: BTreeSet<&String> = rows.iter().filter_map(|row| row.split.as_ref()).collect();
    let words: Vec<String> = words.into_iter().cloned().collect();
    let place = |row: &Row| {
        let split = row.split.as_ref()?;
        words.iter().position(|word| word == split).and_then(|place| u8::try_from(place).ok())
    };
    let places = rows.iter().map(place).collect();
    values.push(Column::Words { places, words: words.clone() });
    values.push(Column::OptionalU64(rows.iter().map(|row| row.seed).collect()));
    values.push(Column::OptionalF64(rows.iter().map(|row| Some(row.rate)).collect()));
    for (column, is_count) in columns {
        let numbers = rows.iter().map(|row| row.figures.get(column).copied());
        values.push(if *is_count {
            Column::OptionalU64(
                numbers.map(|number| number.map(|one| rounded(one.value()))).collect(),
            )
        } else {
            Column::OptionalF64(numbers.map(|number| number.map(Number::value)).collect())
        });
    }
    values
}

/// Return a JSON object with sorted keys, as text: equal objects are equal texts.
pub(super) fn canonical(value: &Value) -> String {
    value.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("one.parquet");
        let row = |trace: &str, seed: Option<u64>, split: Option<&str>| Row {
            dataset: "d".into(),
            trace: trace.into(),
            policy: "lru".into(),
            rate: 1.0,
            seed,
            split: split.map(str::to_owned),
            figures: [
                ("hits".to_owned(), Number::Count(3)),
                (format!("of_{trace}"), Number::Real(0.5)),
            ]
            .into(),
            ..Row::default()
        };
        let mut rows =
            vec![row("b", None, Some("tune")), row("a", Some(2), None), row("a", Some(1), None)];
        write_file(&path, &mut rows, &BTreeMap::new()).unwrap();
        let found = read_file(&path, "d").unwrap();
        assert_eq!(found, rows);
        assert_eq!(found.iter().map(|row| row.seed).collect::<Vec<_>>(), [Some(1), Some(2), None]);
        assert_eq!(figure_columns(&path).unwrap(), ["hits", "of_a", "of_b"]);
    }
}
