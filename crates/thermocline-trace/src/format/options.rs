//! Options for reading a trace.

use std::str::FromStr;
use std::sync::Arc;

use super::FormatName;
use crate::error::TraceError;
use crate::file_table::FileTable;
use crate::mapping::Mapping;
use crate::objects::Objects;

/// The unit of whole times in formats that do not fix one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// 10^-9 s.
    Nanoseconds,
    /// 10^-6 s.
    Microseconds,
    /// 10^-3 s.
    Milliseconds,
}

impl TimeUnit {
    /// Return the power of ten that turns one unit into nanoseconds.
    pub(crate) const fn exponent(self) -> u32 {
        match self {
            Self::Nanoseconds => 0,
            Self::Microseconds => 3,
            Self::Milliseconds => 6,
        }
    }
}

impl FromStr for TimeUnit {
    type Err = TraceError;

    fn from_str(name: &str) -> Result<Self, TraceError> {
        match name {
            "ns" => Ok(Self::Nanoseconds),
            "us" => Ok(Self::Microseconds),
            "ms" => Ok(Self::Milliseconds),
            other => Err(TraceError::NoSuchValue {
                option: "time unit",
                value: other.to_owned(),
                expected: "ns, us, ms",
            }),
        }
    }
}

/// Options for reading a trace.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// The format; detected from the content if `None`.
    pub format: Option<FormatName>,
    /// The unit of times in `ssdsim` and `mqsim` traces; detected from the content, or nanoseconds,
    /// if `None`. Other formats have their own.
    pub time_unit: Option<TimeUnit>,
    /// The action whose lines are the requests of `blkparse` text: `Q` queued, `D` issued to the
    /// driver, `C` completed, ...
    pub blkparse_action: char,
    /// Uses a file that was cut off as far as it goes; otherwise that is an error.
    pub allow_truncated: bool,
    /// The file table of a recording, if it is not beside it.
    pub file_table: Option<Arc<FileTable>>,
    /// For a recording: classes of files whose requests are taken; all if empty.
    pub only_classes: Vec<String>,
    /// Rule by which a recording's volumes are formed.
    pub volume_of: VolumeOf,
    /// Rule by which objects with sizes get pages.
    pub objects: Objects,
    /// Meaning of the columns of a trace of no known format.
    pub columns: Option<Arc<Mapping>>,
    /// The units of `tencent-cbs` traces.
    pub tencent_unit: TencentUnit,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            format: None,
            time_unit: None,
            blkparse_action: 'Q',
            allow_truncated: false,
            file_table: None,
            only_classes: vec![],
            volume_of: VolumeOf::All,
            objects: Objects::Pages,
            columns: None,
            tencent_unit: TencentUnit::Sectors,
        }
    }
}

/// The units of offsets and lengths in `tencent-cbs` traces, of which there are several releases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TencentUnit {
    /// Both in sectors of 512 B.
    #[default]
    Sectors,
    /// Both in bytes.
    Bytes,
    /// Offsets in bytes, lengths in sectors.
    Mixed,
}

/// Rule by which a recording's volumes are formed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VolumeOf {
    /// All files together are one volume.
    #[default]
    All,
    /// Each file is a volume, called by its path and its id.
    File,
}
