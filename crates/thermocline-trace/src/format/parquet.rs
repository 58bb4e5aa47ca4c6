//! Our Parquet, as `trace convert --to parquet` writes it.
//!
//! * Columns: `at_ns`, `op` (`R` or `W`), `volume` (text), `offset` and `length` in bytes.

use super::Format;
use crate::mapping::Mapping;

pub(crate) const FORMAT: Format =
    Format::parquet("parquet", &["at_ns", "op", "volume", "offset", "length"], || {
        Mapping::built_in(
            "time=at_ns:ns,op=op,volume=volume,offset=offset,length=length",
            "R=read,W=write",
        )
    });
