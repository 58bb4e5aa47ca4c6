//! Rows that a caller has in memory, column by column, with a mapping that says what columns mean.
//!
//! A caller from elsewhere, such as the Python package, has tables of its own. It hands them over batch
//! by batch, so that a table larger than memory can be read.

use std::path::{Path, PathBuf};

use crate::decode::{BATCH_REQUESTS, ReadCounts, State};
use crate::error::{Position, TraceError};
use crate::mapping::Mapping;
use crate::meaning::{Field, Meaning, Row};
use crate::objects::Objects;
use crate::request::{Request, Requests};

/// Some rows of a table.
#[derive(Clone, Debug, Default)]
pub struct RowBatch {
    columns: Vec<RowColumn>,
    rows: usize,
}

/// The values of some rows in one column.
#[derive(Clone, Debug)]
pub struct RowColumn {
    values: RowValues,
    /// Flags of the rows that have no value; empty if all have one.
    missing: Vec<bool>,
}

/// Values of one type.
#[derive(Clone, Debug)]
pub enum RowValues {
    /// Whole numbers.
    Signed(Vec<i64>),
    /// Whole numbers of at least 0.
    Unsigned(Vec<u64>),
    /// Numbers, of which only times are made.
    Real(Vec<f64>),
    /// Points in time, in nanoseconds.
    Nanos(Vec<i64>),
    /// Texts, one after the other.
    Text {
        /// Start of each; one more is the end of the last one.
        offsets: Vec<usize>,
        /// Their bytes.
        bytes: Vec<u8>,
    },
}

/// Reads the requests of a table.
#[derive(Debug)]
pub struct TableReader<S> {
    batches: S,
    name: PathBuf,
    /// The number in the table of each column that batches have.
    used: Vec<usize>,
    meaning: Meaning,
    state: State,
    batch: RowBatch,
    /// The row of the batch that comes next.
    next: usize,
}

impl RowBatch {
    /// Create rows with these columns.
    ///
    /// # Errors
    /// If the columns have not all as many values, or texts that lie outside of their bytes.
    pub fn new(columns: Vec<RowColumn>) -> Result<Self, TraceError> {
        let rows = columns.first().map_or(0, RowColumn::rows);
        if columns.iter().any(|column| column.rows() != rows || !column.is_whole()) {
            let reason = "a batch of rows whose columns do not fit together".to_owned();
            return Err(TraceError::Content { path: PathBuf::new(), reason });
        }
        Ok(Self { columns, rows })
    }
}

impl RowColumn {
    /// Combine values with a flag for each row that has none; `missing` is empty if all rows have a value.
    pub const fn new(values: RowValues, missing: Vec<bool>) -> Self {
        Self { values, missing }
    }

    fn rows(&self) -> usize {
        match &self.values {
            RowValues::Signed(values) | RowValues::Nanos(values) => values.len(),
            RowValues::Unsigned(values) => values.len(),
            RowValues::Real(values) => values.len(),
            RowValues::Text { offsets, .. } => offsets.len().saturating_sub(1),
        }
    }

    /// Return `true` if every value can be asked for.
    fn is_whole(&self) -> bool {
        let texts_fit = match &self.values {
            RowValues::Text { offsets, bytes } => {
                offsets.is_sorted() && offsets.last().is_none_or(|&last| last <= bytes.len())
            }
            RowValues::Signed(_)
            | RowValues::Unsigned(_)
            | RowValues::Real(_)
            | RowValues::Nanos(_) => true,
        };
        texts_fit && (self.missing.is_empty() || self.missing.len() == self.rows())
    }

    #[inline]
    fn field(&self, row: usize) -> Field<'_> {
        if self.missing.get(row) == Some(&true) {
            return Field::Missing;
        }
        match &self.values {
            RowValues::Signed(values) => Field::Number(values[row].into()),
            RowValues::Unsigned(values) => Field::Number(values[row].into()),
            RowValues::Real(values) => Field::Float(values[row]),
            RowValues::Nanos(values) => Field::Nanos(values[row].into()),
            RowValues::Text { offsets, bytes } => {
                Field::Text(&bytes[offsets[row]..offsets[row + 1]])
            }
        }
    }
}

impl<S: Iterator<Item = Result<RowBatch, TraceError>>> TableReader<S> {
    /// Return the rows of a table whose columns are called `columns`. Batches have those columns,
    /// in order, of which [`Mapping::columns_used`] gives the numbers. `name` stands for a file in
    /// messages.
    ///
    /// # Errors
    /// If the mapping names a column that is not there.
    pub fn new(
        name: impl Into<PathBuf>,
        columns: &[String],
        mapping: &Mapping,
        objects: Objects,
        batches: S,
    ) -> Result<Self, TraceError> {
        let name = name.into();
        let wrong = |reason| TraceError::Content { path: name.clone(), reason };
        let used = mapping.columns_used(columns).map_err(wrong)?;
        let number_of = |wanted: &str| columns.iter().position(|column| column == wanted);
        let meaning = Meaning::new(mapping, number_of)
            .map_err(|missing| wrong(format!("there is no column `{missing}`")))?;
        let (state, batch) = (State::at_record(0, objects), RowBatch::default());
        Ok(Self { batches, name, used, meaning, state, batch, next: 0 })
    }

    /// Return the counts of the contents besides requests.
    pub const fn counts(&self) -> &ReadCounts {
        &self.state.counts
    }
}

/// A row of a batch.
struct TableRow<'a> {
    batch: &'a RowBatch,
    used: &'a [usize],
    row: usize,
}

impl Row for TableRow<'_> {
    #[inline]
    fn field(&self, column: usize) -> Field<'_> {
        let place = self.used.iter().position(|&used| used == column);
        let found = place.and_then(|place| self.batch.columns.get(place));
        found.map_or(Field::Missing, |column| column.field(self.row))
    }
}

impl<S: Iterator<Item = Result<RowBatch, TraceError>>> Requests for TableReader<S> {
    fn read_batch(&mut self, batch: &mut Vec<Request>) -> Result<bool, TraceError> {
        batch.clear();
        while batch.len() < BATCH_REQUESTS {
            if self.next == self.batch.rows {
                let Some(found) = self.batches.next() else { break };
                (self.batch, self.next) = (found?, 0);
                continue;
            }
            let row = TableRow { batch: &self.batch, used: &self.used, row: self.next };
            let line = self.meaning.line(&row, self.state.volumes_mut());
            self.next += 1;
            self.state.add_row(line, batch).map_err(|reason| TraceError::Malformed {
                path: self.name.clone(),
                position: Position::Row(self.state.number()),
                reason,
                text: "(a table)".to_owned(),
            })?;
        }
        if batch.is_empty() && self.state.counts.requests == 0 {
            return Err(TraceError::Empty { path: self.name.clone() });
        }
        Ok(!batch.is_empty())
    }

    fn volume_names(&self) -> &[String] {
        self.state.volumes.names()
    }

    fn path(&self) -> &Path {
        &self.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Extent;

    fn read(mapping: &str, columns: Vec<RowColumn>) -> Result<Vec<Request>, TraceError> {
        let names: Vec<String> = ["a", "b", "c"].map(str::to_owned).into();
        let mapping: Mapping = mapping.parse()?;
        let batches = [RowBatch::new(columns)].into_iter();
        let mut reader = TableReader::new("table", &names, &mapping, Objects::Pages, batches)?;
        let (mut batch, mut all) = (vec![], vec![]);
        while reader.read_batch(&mut batch)? {
            all.append(&mut batch);
        }
        Ok(all)
    }

    fn all(values: RowValues) -> RowColumn {
        RowColumn::new(values, vec![])
    }

    #[test]
    fn values_of_every_type_become_requests() {
        let texts = RowValues::Text { offsets: vec![0, 1, 1, 4], bytes: b"Rset".to_vec() };
        let columns = vec![
            all(RowValues::Unsigned(vec![1 << 62, 0, 7])),
            all(RowValues::Nanos(vec![5, 6, 7])),
            RowColumn::new(texts, vec![false, true, false]),
        ];
        let found = read("offset=a:pages,time=b,op=c", columns).unwrap();
        let extents = found.iter().map(|request| (request.extent, request.at.0, request.op as u8));
        let page = |first| Extent::Pages { first, count: 1 };
        let expected = [(page(1 << 62), 5, 0), (page(0), 6, 0), (page(7), 7, 1)];
        assert_eq!(extents.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_is_wrong_names_the_row() {
        let column = || all(RowValues::Signed(vec![4, -4]));
        let error = read("offset=a:pages", vec![column()]).unwrap_err().to_string();
        assert!(error.contains("row 2") && error.contains("-4"), "{error}");
        let error = read("offset=x:pages", vec![column()]).unwrap_err().to_string();
        assert!(error.contains("unknown column `x`; the columns are: a, b, c"), "{error}");
        let error = read("offset=4:pages", vec![column()]).unwrap_err().to_string();
        assert!(error.contains("no column 4"), "{error}");
        let others = read("offset=b:pages", vec![column()]).unwrap_err().to_string();
        assert!(others.contains("row 2"), "a batch has the columns that are looked at: {others}");
        let empty = read("offset=a:pages", vec![all(RowValues::Signed(vec![]))]).unwrap_err();
        assert!(matches!(empty, TraceError::Empty { .. }), "{empty}");
        let short = all(RowValues::Text { offsets: vec![0, 9], bytes: b"x".to_vec() });
        assert!(read("key=a", vec![short]).is_err());
    }
}
