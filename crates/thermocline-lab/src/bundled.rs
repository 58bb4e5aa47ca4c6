//! The trace that comes with the project.

use std::io::Cursor;

use thermocline_trace::{CompiledTrace, PageSize, ReadOptions, Reader, TraceError};

/// A recording made below a `PostgreSQL` server; see `testdata/pgbench/README.md`.
const TRACE: &[u8] = include_bytes!("../data/pgbench.csv.zst");
const NAME: &str = "pgbench.csv.zst (bundled)";
/// The page size of `PostgreSQL`.
const PAGE_SIZE_BYTES: u64 = 8192;

/// Compiles the trace that comes with the project: `PostgreSQL` under pgbench, with pages of 8 KiB.
///
/// # Errors
/// Never while the trace is unchanged.
pub fn bundled_trace() -> Result<CompiledTrace, TraceError> {
    let mut reader = Reader::from_read(NAME, Cursor::new(TRACE), &ReadOptions::default())?;
    CompiledTrace::compile(&mut reader, PageSize::new(PAGE_SIZE_BYTES)?)
}
