//! Rows of Parquet files, by the names of their columns.

use std::path::Path;

use parquet::basic::{LogicalType, TimeUnit, Type};
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{
    ByteArray, ByteArrayType, DataType, DoubleType, FloatType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader as _, RowGroupReader, SerializedFileReader};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};

use crate::decode::{BATCH_REQUESTS, Decoder, State};
use crate::error::{Position, Reason, TraceError};
use crate::input::Input;
use crate::mapping::{Mapping, Source};
use crate::meaning::{Field, Meaning, Row};
use crate::request::Request;

/// Rows that are decoded together.
const ROWS: usize = 1 << 14;

/// The rows of a Parquet file.
pub(crate) struct ParquetRows {
    file: SerializedFileReader<std::fs::File>,
    meaning: Meaning,
    /// The leaves of the schema whose values are wanted, by the numbers of the mapping's columns.
    leaves: Vec<usize>,
    /// The group of rows that comes next.
    next_group: usize,
    group: Option<Group>,
    rows: Rows,
}

/// A group of rows that is being read.
struct Group {
    columns: Vec<Column>,
    left_rows: usize,
}

struct Column {
    reader: TypedReader,
    scale: Scale,
    is_optional: bool,
}

enum TypedReader {
    Int32(parquet::column::reader::ColumnReaderImpl<Int32Type>),
    Int64(parquet::column::reader::ColumnReaderImpl<Int64Type>),
    Float(parquet::column::reader::ColumnReaderImpl<FloatType>),
    Double(parquet::column::reader::ColumnReaderImpl<DoubleType>),
    Text(parquet::column::reader::ColumnReaderImpl<ByteArrayType>),
}

/// Meaning of an integer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scale {
    Signed,
    Unsigned,
    /// A time; its unit in nanoseconds.
    Time(i128),
}

/// Values of a few rows.
#[derive(Default)]
struct Rows {
    columns: Vec<Values>,
    next: usize,
    count: usize,
}

enum Values {
    Numbers(Vec<Option<i128>>),
    Times(Vec<Option<i128>>),
    Floats(Vec<Option<f64>>),
    Texts(Vec<Option<ByteArray>>),
}

/// Return the names of the columns of a Parquet file that have values.
pub(crate) fn names(path: &Path) -> Result<Vec<String>, TraceError> {
    let file = open(path)?;
    let schema = file.metadata().file_metadata().schema_descr();
    Ok(schema.columns().iter().map(|column| column.path().string()).collect())
}

fn open(path: &Path) -> Result<SerializedFileReader<std::fs::File>, TraceError> {
    let cannot = |source| TraceError::Io { path: path.to_owned(), action: "open", source };
    let file = std::fs::File::open(path).map_err(cannot)?;
    SerializedFileReader::new(file).map_err(|error| failed(path, &error))
}

impl ParquetRows {
    /// Opens a file.
    pub(crate) fn open(path: &Path, mapping: &Mapping) -> Result<Self, TraceError> {
        let file = open(path)?;
        let schema = file.metadata().file_metadata().schema_descr();
        let wrong = |reason: String| TraceError::Content { path: path.to_owned(), reason };
        let known = || {
            let names: Vec<String> =
                schema.columns().iter().map(|column| column.path().string()).collect();
            names.join(", ")
        };
        let mut leaves = vec![];
        for assignment in &mapping.assignments {
            let leaf = match &assignment.source {
                Source::Constant(_) => continue,
                Source::Number(number) => Some(*number).filter(|&at| at < schema.num_columns()),
                Source::Name(name) => leaf(schema, name),
            };
            match (leaf, &assignment.source) {
                (Some(leaf), _) => leaves.push(leaf),
                (None, Source::Name(_)) if assignment.is_optional => {}
                (None, Source::Name(name)) => {
                    return Err(wrong(format!(
                        "unknown column `{name}`; the columns are: {}",
                        known()
                    )));
                }
                (None, _) => {
                    let columns = schema.num_columns();
                    return Err(wrong(format!("the file has {columns} columns: {}", known())));
                }
            }
        }
        // Numbers are those of the file's columns, for names and numbers alike.
        leaves.sort_unstable();
        leaves.dedup();
        for &leaf in &leaves {
            check(&schema.column(leaf)).map_err(wrong)?;
        }
        let meaning = Meaning::new(mapping, |name| leaf(schema, name))
            .map_err(|name| wrong(format!("there is no column `{name}`")))?;
        Ok(Self { file, meaning, leaves, next_group: 0, group: None, rows: Rows::default() })
    }

    /// Decodes the next rows; `false` at the end.
    fn advance(&mut self) -> Result<bool, ParquetError> {
        loop {
            if let Some(group) = &mut self.group
                && group.left_rows > 0
            {
                let rows = group.left_rows.min(ROWS);
                self.rows.columns.clear();
                for column in &mut group.columns {
                    self.rows.columns.push(column.read(rows)?);
                }
                group.left_rows -= rows;
                (self.rows.next, self.rows.count) = (0, rows);
                return Ok(true);
            }
            if self.next_group == self.file.num_row_groups() {
                return Ok(false);
            }
            let group = self.file.get_row_group(self.next_group)?;
            self.next_group += 1;
            self.group = Some(Group::open(&*group, &self.leaves)?);
        }
    }
}

/// Return the leaf of a name.
fn leaf(schema: &SchemaDescriptor, name: &str) -> Option<usize> {
    schema.columns().iter().position(|column| column.path().string() == name)
}

/// Check that the values of a column can be read.
fn check(column: &ColumnDescriptor) -> Result<(), String> {
    let name = column.path().string();
    if column.max_rep_level() > 0 {
        return Err(format!("column `{name}` is a list"));
    }
    match column.physical_type() {
        Type::INT32 | Type::INT64 | Type::FLOAT | Type::DOUBLE | Type::BYTE_ARRAY => Ok(()),
        other @ (Type::BOOLEAN | Type::INT96 | Type::FIXED_LEN_BYTE_ARRAY) => {
            Err(format!("column `{name}` is of type {other}, which is not read"))
        }
    }
}

impl Group {
    fn open(group: &dyn RowGroupReader, leaves: &[usize]) -> Result<Self, ParquetError> {
        let rows = usize::try_from(group.metadata().num_rows())
            .map_err(|_| ParquetError::General("a negative number of rows".to_owned()))?;
        let columns: Result<Vec<Column>, ParquetError> =
            leaves.iter().map(|&leaf| Column::open(group, leaf)).collect();
        Ok(Self { columns: columns?, left_rows: rows })
    }
}

impl Column {
    fn open(group: &dyn RowGroupReader, leaf: usize) -> Result<Self, ParquetError> {
        let schema = group.metadata().schema_descr_ptr();
        let column = schema.column(leaf);
        let reader = group.get_column_reader(leaf)?;
        let reader = match column.physical_type() {
            Type::INT32 => TypedReader::Int32(get_typed_column_reader(reader)),
            Type::INT64 => TypedReader::Int64(get_typed_column_reader(reader)),
            Type::FLOAT => TypedReader::Float(get_typed_column_reader(reader)),
            Type::DOUBLE => TypedReader::Double(get_typed_column_reader(reader)),
            Type::BYTE_ARRAY => TypedReader::Text(get_typed_column_reader(reader)),
            other @ (Type::BOOLEAN | Type::INT96 | Type::FIXED_LEN_BYTE_ARRAY) => {
                return Err(ParquetError::General(format!("a column of type {other}")));
            }
        };
        Ok(Self { reader, scale: scale(&column), is_optional: column.max_def_level() > 0 })
    }

    fn read(&mut self, rows: usize) -> Result<Values, ParquetError> {
        let (is_optional, scale) = (self.is_optional, self.scale);
        let integers = |values: Vec<Option<i64>>, bits: u32| {
            let number = |value: i64| match scale {
                Scale::Unsigned if bits == 32 => i128::from(value) & 0xffff_ffff,
                Scale::Unsigned => i128::from(value.cast_unsigned()),
                Scale::Signed => i128::from(value),
                Scale::Time(unit_ns) => i128::from(value) * unit_ns,
            };
            let values = values.into_iter().map(|value| value.map(number)).collect();
            if let Scale::Time(_) = scale { Values::Times(values) } else { Values::Numbers(values) }
        };
        Ok(match &mut self.reader {
            TypedReader::Int32(reader) => {
                let values = read(reader, rows, is_optional)?;
                integers(values.into_iter().map(|value| value.map(i64::from)).collect(), 32)
            }
            TypedReader::Int64(reader) => integers(read(reader, rows, is_optional)?, 64),
            TypedReader::Float(reader) => {
                let values = read(reader, rows, is_optional)?;
                Values::Floats(values.into_iter().map(|value| value.map(f64::from)).collect())
            }
            TypedReader::Double(reader) => Values::Floats(read(reader, rows, is_optional)?),
            TypedReader::Text(reader) => Values::Texts(read(reader, rows, is_optional)?),
        })
    }
}

/// Read the values of `rows` rows.
fn read<T: DataType>(
    reader: &mut parquet::column::reader::ColumnReaderImpl<T>,
    rows: usize,
    is_optional: bool,
) -> Result<Vec<Option<T::T>>, ParquetError> {
    let (mut values, mut levels) = (vec![], vec![]);
    let mut found = 0;
    while found < rows {
        let of_rows = is_optional.then_some(&mut levels);
        let (records, ..) = reader.read_records(rows - found, of_rows, None, &mut values)?;
        if records == 0 {
            return Err(ParquetError::General("a column ends before its group of rows".to_owned()));
        }
        found += records;
    }
    if !is_optional {
        return Ok(values.into_iter().map(Some).collect());
    }
    let level_max = levels.iter().copied().max().unwrap_or(0).max(1);
    let mut values = values.into_iter();
    let row = |level: i16| if level == level_max { values.next() } else { None };
    Ok(levels.into_iter().map(row).collect())
}

/// Return the meaning of a column's integers.
fn scale(column: &ColumnDescriptor) -> Scale {
    match column.logical_type_ref() {
        Some(LogicalType::Timestamp(time)) => Scale::Time(match time.unit {
            TimeUnit::MILLIS => 1_000_000,
            TimeUnit::MICROS => 1000,
            TimeUnit::NANOS => 1,
        }),
        Some(LogicalType::Integer(integer)) if !integer.is_signed => Scale::Unsigned,
        _ => Scale::Signed,
    }
}

impl Decoder for ParquetRows {
    fn decode(
        &mut self,
        input: &mut Input,
        state: &mut State,
        batch: &mut Vec<Request>,
    ) -> Result<(), TraceError> {
        while batch.len() < BATCH_REQUESTS {
            if self.rows.next == self.rows.count
                && !self.advance().map_err(|error| failed(input.path(), &error))?
            {
                return Ok(());
            }
            let Self { meaning, rows, leaves, .. } = self;
            while batch.len() < BATCH_REQUESTS && rows.next < rows.count {
                let row = ParquetRow { rows, leaves };
                let line = meaning.line(&row, state.volumes_mut());
                rows.next += 1;
                if let Err(reason) = state.add_row(line, batch) {
                    return Err(malformed(input, state, reason));
                }
            }
        }
        Ok(())
    }
}

#[cold]
fn malformed(input: &Input, state: &State, reason: Reason) -> TraceError {
    TraceError::Malformed {
        path: input.path().to_owned(),
        position: Position::Row(state.number()),
        reason,
        text: "(Parquet)".to_owned(),
    }
}

struct ParquetRow<'a> {
    rows: &'a Rows,
    leaves: &'a [usize],
}

impl Row for ParquetRow<'_> {
    #[inline]
    fn field(&self, column: usize) -> Field<'_> {
        let Some(place) = self.leaves.iter().position(|&leaf| leaf == column) else {
            return Field::Missing;
        };
        let row = self.rows.next;
        let found = match &self.rows.columns[place] {
            Values::Numbers(values) => values[row].map(Field::Number),
            Values::Times(values) => values[row].map(Field::Nanos),
            Values::Floats(values) => values[row].map(Field::Float),
            Values::Texts(values) => values[row].as_ref().map(|text| Field::Text(text.data())),
        };
        found.unwrap_or(Field::Missing)
    }
}

fn failed(path: &Path, error: &ParquetError) -> TraceError {
    TraceError::Content { path: path.to_owned(), reason: error.to_string() }
}
