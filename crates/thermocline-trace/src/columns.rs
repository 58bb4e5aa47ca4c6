//! Columns in Parquet files, which pandas, polars, `DuckDB` and the like open directly.

use std::path::{Path, PathBuf};
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

use crate::atomic::{self, Unfinished};
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
    /// A few words, and which of them each row has, if any.
    Words {
        /// The words, in UTF-8.
        words: Vec<String>,
        /// Place of each row's word.
        places: Vec<Option<u8>>,
    },
}

/// A Parquet file being written; it appears when it is complete.
pub struct ColumnWriter {
    target: PathBuf,
    writer: SerializedFileWriter<Unfinished>,
}

impl std::fmt::Debug for ColumnWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ColumnWriter").field("target", &self.target).finish_non_exhaustive()
    }
}

impl ColumnWriter {
    /// Begins a file with the columns of `schema`, those in `ascending` stored as differences, and
    /// one value of metadata.
    ///
    /// # Errors
    /// If the schema is none, or the file cannot be written.
    pub fn create(
        target: &Path,
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
        atomic::refuse_compression(target, "Parquet")?;
        let file = atomic::temporary(target)?;
        let writer = SerializedFileWriter::new(file, schema, Arc::new(properties.build()));
        Ok(Self { target: target.to_owned(), writer: writer.map_err(columns)? })
    }

    /// Appends a group of rows: all columns of the schema, in its order.
    ///
    /// # Errors
    /// If the columns are not those of the schema, or the file cannot be written.
    pub fn group(&mut self, columns: &[Column]) -> Result<(), TraceError> {
        let target = self.target.as_path();
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
                    Column::Words { words, places } => {
                        let words: Vec<ByteArray> =
                            words.iter().map(|word| word.as_str().into()).collect();
                        let word = |place: &Option<u8>| Some(words[usize::from((*place)?)].clone());
                        write_optional::<ByteArrayType>(&mut group, places.iter().map(word))?;
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
        let file = self.writer.into_inner().map_err(|error| failed(&self.target, &error))?;
        atomic::persist(file, &self.target)
    }
}

fn write<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Unfinished>,
    values: &[T::T],
) -> Result<(), ParquetError> {
    let missing = || ParquetError::General("more columns than in the schema".to_owned());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(values, None, None)?;
    column.close()
}

fn write_optional<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Unfinished>,
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

    /// Return a value of the metadata.
    pub fn metadata(&self, key: &str) -> Option<String> {
        let all = self.reader.metadata().file_metadata().key_value_metadata()?;
        all.iter().find(|pair| pair.key == key)?.value.clone()
    }

    /// Return the number of groups of rows.
    pub fn groups(&self) -> usize {
        self.reader.num_row_groups()
    }

    /// Return a column of text of a group of rows; `None` if it is not there or has another type.
    ///
    /// # Errors
    /// If the file cannot be read, or the text is not UTF-8.
    pub fn text(&self, group: usize, name: &str) -> Result<Option<Vec<String>>, TraceError> {
        let Some(values) = self.column::<ByteArrayType>(group, name)? else { return Ok(None) };
        values.into_iter().map(|value| self.utf8(&value)).collect::<Result<_, _>>().map(Some)
    }

    /// Return a column of text of which some may be missing, as [`Column::Words`] is; `None` if it
    /// is not there or has another type.
    ///
    /// # Errors
    /// As for [`text`](Self::text).
    pub fn optional_text(
        &self,
        group: usize,
        name: &str,
    ) -> Result<Option<Vec<Option<String>>>, TraceError> {
        let Some((present, levels)) = self.read::<ByteArrayType>(group, name, 1)? else {
            return Ok(None);
        };
        let mut present = present.iter().map(|value| self.utf8(value));
        let row = |level: i16| if level == 0 { Ok(None) } else { present.next().transpose() };
        levels.into_iter().map(row).collect::<Result<_, _>>().map(Some)
    }

    /// Return a column of unsigned numbers of 64 bits of a group of rows; `None` if it is not there
    /// or has another type.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn numbers(&self, group: usize, name: &str) -> Result<Option<Vec<u64>>, TraceError> {
        let values = self.u64(group, name)?;
        Ok(values.map(|values| values.into_iter().map(i64::cast_unsigned).collect()))
    }

    /// Return the names of all columns, in their order.
    pub fn names(&self) -> Vec<String> {
        let schema = self.reader.metadata().file_metadata().schema_descr();
        schema.columns().iter().map(|column| column.name().to_owned()).collect()
    }

    /// Return a column of unsigned numbers of which some may be missing, as [`Column::OptionalU64`]
    /// is, or of 32 bits; `None` if it is not there or has another type.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn optional_numbers(
        &self,
        group: usize,
        name: &str,
    ) -> Result<Option<Vec<Option<u64>>>, TraceError> {
        if let Some((present, levels)) = self.read::<Int64Type>(group, name, 1)? {
            return Ok(Some(spread(present.into_iter().map(i64::cast_unsigned), &levels)));
        }
        let short = self.read::<Int32Type>(group, name, 1)?;
        Ok(short.map(|(present, levels)| {
            spread(present.into_iter().map(|number| number.cast_unsigned().into()), &levels)
        }))
    }

    /// Return a column of numbers of which some may be missing, as [`Column::OptionalF64`] is;
    /// `None` if it is not there or has another type.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn optional_reals(
        &self,
        group: usize,
        name: &str,
    ) -> Result<Option<Vec<Option<f64>>>, TraceError> {
        let found = self.read::<DoubleType>(group, name, 1)?;
        Ok(found.map(|(present, levels)| spread(present.into_iter(), &levels)))
    }

    fn utf8(&self, value: &ByteArray) -> Result<String, TraceError> {
        value.as_utf8().map(str::to_owned).map_err(|error| failed(self.path, &error))
    }

    /// Return a column of a group of rows; `None` if it is not there or has another type.
    pub(crate) fn u64(&self, group: usize, name: &str) -> Result<Option<Vec<i64>>, TraceError> {
        self.column::<Int64Type>(group, name)
    }

    /// Read as [`Self::u64`] does.
    pub(crate) fn u32(&self, group: usize, name: &str) -> Result<Option<Vec<i32>>, TraceError> {
        self.column::<Int32Type>(group, name)
    }

    /// Read as [`Self::u64`] does.
    pub(crate) fn bool(&self, group: usize, name: &str) -> Result<Option<Vec<bool>>, TraceError> {
        self.column::<BoolType>(group, name)
    }

    /// Return a column without missing values.
    fn column<T: DataType>(
        &self,
        group: usize,
        name: &str,
    ) -> Result<Option<Vec<T::T>>, TraceError> {
        Ok(self.read::<T>(group, name, 0)?.map(|(values, _)| values))
    }

    /// Return the values of a column that are present, and the level of each row: `level_max` if
    /// its value is. There are no levels if `level_max` is 0.
    #[expect(clippy::type_complexity, reason = "two columns of one group")]
    fn read<T: DataType>(
        &self,
        group: usize,
        name: &str,
        level_max: i16,
    ) -> Result<Option<(Vec<T::T>, Vec<i16>)>, TraceError> {
        let columns = |error| failed(self.path, &error);
        let group = self.reader.get_row_group(group).map_err(columns)?;
        let schema = group.metadata().schema_descr_ptr();
        let is_wanted = |index: &usize| {
            let column = schema.column(*index);
            column.name() == name
                && column.physical_type() == T::get_physical_type()
                && column.max_def_level() == level_max
        };
        let Some(index) = (0..schema.num_columns()).find(is_wanted) else { return Ok(None) };
        let reader = group.get_column_reader(index).map_err(columns)?;
        let mut reader = get_typed_column_reader::<T>(reader);
        let (mut values, mut levels) = (Vec::new(), Vec::new());
        loop {
            let of_rows = (level_max > 0).then_some(&mut levels);
            let (rows, ..) =
                reader.read_records(GROUP_ROWS, of_rows, None, &mut values).map_err(columns)?;
            if rows == 0 {
                return Ok(Some((values, levels)));
            }
        }
    }
}

/// Return the present values of a column at the rows that have one.
fn spread<T>(mut present: impl Iterator<Item = T>, levels: &[i16]) -> Vec<Option<T>> {
    levels.iter().map(|level| if *level == 0 { None } else { present.next() }).collect()
}

fn failed(path: &Path, error: &ParquetError) -> TraceError {
    TraceError::Content { path: path.to_owned(), reason: error.to_string() }
}
