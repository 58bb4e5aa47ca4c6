//! Columns in Parquet files, which pandas, polars, `DuckDB` and the like open directly.

use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
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
pub(crate) enum Column {
    /// Unsigned, as the bits of a signed number.
    U32(Vec<i32>),
    /// Unsigned, as the bits of a signed number.
    U64(Vec<i64>),
    Bool(Vec<bool>),
    Text(Vec<ByteArray>),
}

/// A Parquet file being written; it appears when it is complete.
pub(crate) struct ColumnWriter<'a> {
    target: &'a Path,
    writer: SerializedFileWriter<NamedTempFile>,
}

impl<'a> ColumnWriter<'a> {
    /// Begins a file with the columns of `schema`, those in `ascending` stored as differences, and
    /// one value of metadata.
    pub(crate) fn create(
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

    /// Appends a group of rows.
    pub(crate) fn group(&mut self, columns: &[Column]) -> Result<(), TraceError> {
        let target = self.target;
        let write = || -> Result<(), ParquetError> {
            let mut group = self.writer.next_row_group()?;
            for column in columns {
                match column {
                    Column::U32(values) => write::<Int32Type>(&mut group, values)?,
                    Column::U64(values) => write::<Int64Type>(&mut group, values)?,
                    Column::Bool(values) => write::<BoolType>(&mut group, values)?,
                    Column::Text(values) => write::<ByteArrayType>(&mut group, values)?,
                }
            }
            group.close()?;
            Ok(())
        };
        let mut write = write;
        write().map_err(|error| failed(target, &error))
    }

    /// Completes the file and puts it in its place.
    pub(crate) fn finish(self) -> Result<(), TraceError> {
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

/// A Parquet file being read.
pub(crate) struct ColumnReader<'a> {
    path: &'a Path,
    reader: SerializedFileReader<std::fs::File>,
}

impl<'a> ColumnReader<'a> {
    pub(crate) fn open(path: &'a Path) -> Result<Self, TraceError> {
        let file = std::fs::File::open(path).map_err(|source| TraceError::Io {
            path: path.to_owned(),
            action: "open",
            source,
        })?;
        let reader = SerializedFileReader::new(file).map_err(|error| failed(path, &error))?;
        Ok(Self { path, reader })
    }

    /// A value of the metadata.
    pub(crate) fn metadata(&self, key: &str) -> Option<String> {
        let all = self.reader.metadata().file_metadata().key_value_metadata()?;
        all.iter().find(|pair| pair.key == key)?.value.clone()
    }

    pub(crate) fn groups(&self) -> usize {
        self.reader.num_row_groups()
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
