//! The Parquet files of cachesim.
//!
//! * Columns: `timestamp` (a time), `obj_id`, `obj_size`, `next_access_vtime`, `op` and `ttl`, the last
//!   two of which may be null.
//! * Op: libCacheSim's codes, as in [`lcs`](super::lcs); without one, a read.
//! * Source: the schema of the crate cachesim-rs.

use super::Format;
use crate::mapping::Mapping;

pub(crate) const FORMAT: Format = Format::parquet(
    "cachesim-parquet",
    &["timestamp", "obj_id", "obj_size", "next_access_vtime"],
    || Mapping::built_in("time=timestamp,key=obj_id,length=obj_size,op=op?", super::lcs::OPS),
);
