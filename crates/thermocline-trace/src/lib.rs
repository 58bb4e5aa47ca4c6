//! Block and page traces: read, compile to dense page ids, convert, generate, describe.
//!
//! A trace is a sequence of [`Request`]s. A [`Reader`] yields them in batches from a file of any
//! [format](FormatName), compressed or not; it detects both from the content. Compiling splits
//! requests into page accesses and renumbers the pages densely in order of first appearance: the
//! form that policies replay. Nothing is skipped silently: lines that are not requests are
//! [counted](ReadCounts), and lines that cannot be understood are a [`TraceError`] with file, place
//! and reason.
//!
//! ```
//! use std::io::Cursor;
//! use thermocline_trace::{CompiledTrace, PageSize, ReadOptions, Reader};
//!
//! let lines = "0,8,8192,r,0.5\n0,16,4096,w,0.75\n";
//! let mut reader = Reader::from_read("two.spc", Cursor::new(lines), &ReadOptions::default())?;
//! let trace = CompiledTrace::compile(&mut reader, PageSize::DEFAULT)?;
//! assert_eq!((trace.len(), trace.footprint_pages(), trace.writes()), (3, 2, 1));
//! # Ok::<(), thermocline_trace::TraceError>(())
//! ```

pub mod atomic;
mod beside;
mod cells;
mod character;
pub mod classes;
mod clients;
pub mod columns;
mod compile;
mod compiled;
pub mod convert;
mod cut;
mod decode;
mod delimited;
mod detect;
mod error;
mod file_shares;
mod file_table;
mod footprint;
mod format;
pub mod generate;
mod id_map;
mod input;
mod json_lines;
mod keys;
mod layout;
mod lru_stack;
mod mapped;
mod mapping;
mod meaning;
mod numbers;
mod objects;
mod only_volumes;
mod page_groups;
mod parquet_rows;
mod part;
mod popularity;
pub mod profile;
pub mod prompts;
mod reader;
mod recorder;
pub mod remote;
mod request;
mod reread;
mod reuse_distance;
mod run_detector;
mod running_sample;
mod sampled_trace;
mod sampling;
mod saved;
mod series;
pub mod stats;
mod table;
mod table_reader;
pub mod text;
pub mod text_file;
mod volumes;
mod waiting;

pub use beside::recording_files;
pub use character::Character;
pub use clients::{AddressSpace, Split};
pub use compiled::{CompiledRequest, CompiledTrace, Summary};
pub use decode::ReadCounts;
pub use error::{Position, Reason, TraceError, excerpt, hexadecimal};
pub use file_shares::{AccessShare, ClassShare, FileShare, FileShares, ProcessShare, processes_of};
pub use file_table::{FileEntry, FileTable};
pub use footprint::{Footprint, FootprintPoint};
pub use format::{FormatName, ReadOptions, TencentUnit, TimeUnit, VolumeOf};
pub use input::{Compression, Input};
pub use mapping::{Delimiter, Header, Mapping};
pub use objects::Objects;
pub use only_volumes::OnlyVolumes;
pub use part::{Part, PartOptions};
pub use popularity::{Popularity, PopularityPoint};
pub use reader::Reader;
pub use recorder::Recorder;
pub use request::{ADDRESS_BYTES_MAX, Extent, PageSize, REQUEST_PAGES_MAX, Request, Requests};
pub use reread::Reread;
pub use reuse_distance::ReuseDistance;
pub use run_detector::RunDetector;
pub use running_sample::{Place, RunningSample, SampledRequests, Totals};
pub use sampled_trace::{SampledAccess, SampledTrace};
pub use sampling::{Choice, Sampling};
pub use series::Series;
pub use stats::Stats;
pub use table_reader::{RowBatch, RowColumn, RowValues, TableReader};
pub use waiting::Waiting;

/// Layout of a recording's files, for programs that write one.
pub mod recording {
    pub use crate::beside::{stats_path, table_path};
    pub use crate::file_table::TABLE_HEADER;
    pub use crate::format::recording::HEADER;
}
