//! Columns in Parquet files, which pandas, polars, `DuckDB` and the like open directly.

use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use tempfile::NamedTempFile;

use crate::atomic;
use crate::error::TraceError;

/// Rows per group: what is held in memory while writing and reading.
pub(crate) const GROUP_ROWS: usize = 1 << 20;

/// The values of one column in one group of rows.
#[derive(Debug)]
#[non_exhaustive]
pub enum Column {
    /// Unsigned, as the bits of a signed number.
    U32(Vec<i32>),
    /// Unsigned, as the bits of a signed number.
    U64(Vec<i64>),
    /// True or false.
    Bool(Vec<bool>),
    /// Text in UTF-8.
    Text(Vec<ByteArray>),
    /// Numbers, of which some may be missing.
    OptionalF64(Vec<Option<f64>>),
    /// Unsigned, as the bits of a signed number; some may be missing.
    OptionalU64(Vec<Option<u64>>),
}

/// A Parquet file being written; it appears when it is complete.
pub struct ColumnWriter<'a> {
    target: &'a Path,
    writer: SerializedFileWriter<NamedTempFile>,
}

impl std::fmt::Debug for ColumnWriter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ColumnWriter").field("target", &self.target).finish_non_exhaustive()
    }
}

impl<'a> ColumnWriter<'a> {
    /// Begins a file with the columns of `schema`, those in `ascending` stored as differences, and
    /// one value of metadata.
    ///
    /// # Errors
    /// If the schema is none, or the file cannot be written.
    pub fn create(
        target: &'a Path,
        schema: &str,
        ascending: &[&str],
        metadata: (&str, String),
    ) -> Result<Self, TraceError> {
        let columns = |error| failed(target, &error);
        let schema = Arc::new(parse_message_type(schema).map_err(columns)?);
        let (key, value) = metadata;
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_max_row_group_row_count(Some(GROUP_ROWS))
            .set_key_value_metadata(Some(vec![KeyValue::new(key.to_owned(), value)]));
        for column in ascending {
            let path = ColumnPath::from(*column);
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
        let file = atomic::temporary(target)?;
        let writer = SerializedFileWriter::new(file, schema, Arc::new(properties.build()));
        Ok(Self { target, writer: writer.map_err(columns)? })
    }

    /// Appends a group of rows: all columns of the schema, in its order.
    ///
    /// # Errors
    /// If the columns are not those of the schema, or the file cannot be written.
    pub fn group(&mut self, columns: &[Column]) -> Result<(), TraceError> {
        let target = self.target;
        let write = || -> Result<(), ParquetError> {
            let mut group = self.writer.next_row_group()?;
            for column in columns {
                match column {
                    Column::U32(values) => write::<Int32Type>(&mut group, values)?,
                    Column::U64(values) => write::<Int64Type>(&mut group, values)?,
                    Column::Bool(values) => write::<BoolType>(&mut group, values)?,
                    Column::Text(values) => write::<ByteArrayType>(&mut group, values)?,
                    Column::OptionalF64(values) => {
                        write_optional::<DoubleType>(&mut group, values.iter().copied())?;
                    }
                    Column::OptionalU64(values) => {
                        let signed = values.iter().map(|value| value.map(u64::cast_signed));
                        write_optional::<Int64Type>(&mut group, signed)?;
                    }
                }
            }
            group.close()?;
            Ok(())
        };
        let mut write = write;
        write().map_err(|error| failed(target, &error))
    }

    /// Completes the file and puts it in its place.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(self) -> Result<(), TraceError> {
        let file = self.writer.into_inner().map_err(|error| failed(self.target, &error))?;
        atomic::persist(file, self.target)
    }
}

fn write<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, NamedTempFile>,
    values: &[T::T],
) -> Result<(), ParquetError> {
    let missing = || ParquetError::General("more columns than in the schema".to_owned());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(values, None, None)?;
    column.close()
}

fn write_optional<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, NamedTempFile>,
    values: impl Iterator<Item = Option<T::T>> + Clone,
) -> Result<(), ParquetError> {
    let missing = || ParquetError::General("more columns than in the schema".to_owned());
    let levels: Vec<i16> = values.clone().map(|value| i16::from(value.is_some())).collect();
    let present: Vec<T::T> = values.flatten().collect();
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(&present, Some(&levels), None)?;
    column.close()
}

/// A Parquet file being read.
pub struct ColumnReader<'a> {
    path: &'a Path,
    reader: SerializedFileReader<std::fs::File>,
}

impl std::fmt::Debug for ColumnReader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ColumnReader").field("path", &self.path).finish_non_exhaustive()
    }
}

impl<'a> ColumnReader<'a> {
    /// Opens a file.
    ///
    /// # Errors
    /// If it cannot be read, or is no Parquet file.
    pub fn open(path: &'a Path) -> Result<Self, TraceError> {
        let file = std::fs::File::open(path).map_err(|source| TraceError::Io {
            path: path.to_owned(),
            action: "open",
            source,
        })?;
        let reader = SerializedFileReader::new(file).map_err(|error| failed(path, &error))?;
        Ok(Self { path, reader })
    }

    /// A value of the metadata.
    pub fn metadata(&self, key: &str) -> Option<String> {
        let all = self.reader.metadata().file_metadata().key_value_metadata()?;
        all.iter().find(|pair| pair.key == key)?.value.clone()
    }

    /// How many groups of rows there are.
    pub fn groups(&self) -> usize {
        self.reader.num_row_groups()
    }

    /// A column of text of a group of rows; `None` if it is not there or has another type.
    ///
    /// # Errors
    /// If the file cannot be read, or the text is not UTF-8.
    pub fn text(&self, group: usize, name: &str) -> Result<Option<Vec<String>>, TraceError> {
        let Some(values) = self.column::<ByteArrayType>(group, name)? else { return Ok(None) };
        let text = |value: ByteArray| match value.as_utf8() {
            Ok(text) => Ok(text.to_owned()),
            Err(error) => Err(failed(self.path, &error)),
        };
        values.into_iter().map(text).collect::<Result<_, _>>().map(Some)
    }

    /// A column of a group of rows; `None` if it is not there or has another type.
    pub(crate) fn u64(&self, group: usize, name: &str) -> Result<Option<Vec<i64>>, TraceError> {
        self.column::<Int64Type>(group, name)
    }

    /// As [`Self::u64`].
    pub(crate) fn u32(&self, group: usize, name: &str) -> Result<Option<Vec<i32>>, TraceError> {
        self.column::<Int32Type>(group, name)
    }

    /// As [`Self::u64`].
    pub(crate) fn bool(&self, group: usize, name: &str) -> Result<Option<Vec<bool>>, TraceError> {
        self.column::<BoolType>(group, name)
    }

    fn column<T: DataType>(
        &self,
        group: usize,
        name: &str,
    ) -> Result<Option<Vec<T::T>>, TraceError> {
        let columns = |error| failed(self.path, &error);
        let group = self.reader.get_row_group(group).map_err(columns)?;
        let schema = group.metadata().schema_descr_ptr();
        let is_wanted = |index: &usize| {
            let column = schema.column(*index);
            column.name() == name
                && column.physical_type() == T::get_physical_type()
                && column.max_def_level() == 0
        };
        let Some(index) = (0..schema.num_columns()).find(is_wanted) else { return Ok(None) };
        let reader = group.get_column_reader(index).map_err(columns)?;
        let mut reader = get_typed_column_reader::<T>(reader);
        let mut values = Vec::new();
        loop {
            let (rows, ..) =
                reader.read_records(GROUP_ROWS, None, None, &mut values).map_err(columns)?;
            if rows == 0 {
                return Ok(Some(values));
            }
        }
    }
}

fn failed(path: &Path, error: &ParquetError) -> TraceError {
    TraceError::Content { path: path.to_owned(), reason: error.to_string() }
}
