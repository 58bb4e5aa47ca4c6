//! Description of a trace of no known format: in options, in a sweep, or in a file of its own.

use serde::Deserialize;
use thermocline_trace::{Header, Mapping, TraceError};

/// Description of a trace's columns. Its file in TOML has these keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnsSpec {
    /// Meaning of each column, as in `time=1:us, op=2, offset=3, length=4, volume=5`.
    pub columns: String,
    /// Meanings of operations, as in `GET=read,PUT=write`.
    pub ops: Option<String>,
    /// The name of what separates columns.
    pub delimiter: Option<String>,
    /// `true` if the first line names the columns.
    pub header: Option<bool>,
    /// The letters of binary records, as in Python's `struct`.
    #[serde(rename = "struct")]
    pub layout: Option<String>,
}

impl ColumnsSpec {
    /// Return the mapping that it describes.
    ///
    /// # Errors
    /// If a part is invalid.
    pub fn mapping(&self) -> Result<Mapping, TraceError> {
        let mut mapping: Mapping = self.columns.parse()?;
        if let Some(ops) = &self.ops {
            mapping = mapping.with_ops(ops)?;
        }
        if let Some(delimiter) = &self.delimiter {
            mapping = mapping.with_delimiter(delimiter)?;
        }
        if let Some(is_there) = self.header {
            mapping = mapping.with_header(if is_there { Header::Present } else { Header::Absent });
        }
        if let Some(letters) = &self.layout {
            mapping = mapping.with_layout(letters)?;
        }
        Ok(mapping)
    }
}
