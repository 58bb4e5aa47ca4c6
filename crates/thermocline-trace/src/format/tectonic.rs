//! The traces of Meta's Tectonic file system, as CacheLib replays them.
//!
//! * Header: names of columns; `op_time`, `block_id`, `rs_shard_id`, `io_offset`, `io_size`, `op_name`
//!   and `op_count` are used.
//! * Units: seconds, bytes. Blocks are of up to 8 MiB, so pages are of 128 KiB unless told otherwise.
//! * Op: `getChunkData...` reads, `putChunk...` writes, others are counted as other events.
//! * A block and its shard are an object of its own, of which a request asks for a part. A line stands
//!   for `op_count` requests.
//! * Source: Wong et al., *Baleen: ML Admission & Prefetching for Flash Caches*, FAST '24; CacheLib.

use super::{Described, Format, ReadOptions};
use crate::delimited::Delimited;
use crate::mapping::Mapping;
use crate::request::PageSize;

pub(crate) const FORMAT: Format =
    Format { page_size: Some(PageSize::LARGE), ..Format::described::<Tectonic>("tectonic") };

struct Tectonic;

impl Described for Tectonic {
    fn lines(_: &ReadOptions) -> Delimited {
        let mapping = Mapping::built_in(
            "time=op_time?:s,op=op_name,key=block_id+rs_shard_id?,offset=io_offset,length=io_size,repeat=op_count?",
            "getChunkData*=read,putChunk*=write,*=ignore",
        );
        Delimited::with_header(b',', vec![mapping])
    }
}

#[cfg(test)]
mod tests {
    use crate::FormatName::Tectonic;
    use crate::format::test_support::{check_error, check_keys, counts, object, read};
    use thermocline_core::Op::Write;

    const HEADER: &str = "op_time,block_id,block_id_size,io_size,io_offset,user_name,user_namespace,op_name,op_count,host_name,rs_shard_id\n";

    #[test]
    fn lines_are_understood() {
        let lines = "1702511878,ab12-cd34,40,131072,262144,11,22,getChunkData.Permanent,2,77,4\n\
            1702511879,ab12-cd34,40,4096,0,11,22,putChunk.Temporary,1,77,5\n\
            1702511879,ab12-cd34,40,4096,0,11,22,deleteBlock,1,77,5\n";
        let lines = [HEADER, lines].concat();
        let at = 1_702_511_878_000_000_000;
        let first = read(at, 0, object(0, 262_144, 131_072));
        let second = object(1, 0, 4096).at(at + 1_000_000_000, Write, 0);
        check_keys(Tectonic, &lines, &[first, first, second]);
        let counts = counts(Tectonic, &lines);
        assert_eq!((counts.requests, counts.other_events), (3, 1));
    }

    #[test]
    fn no_request_is_an_error() {
        let line = "1,a,40,131072,0,1,2,getChunkData,0,7,4\n";
        let lines = [HEADER, line].concat();
        check_error(Tectonic, &lines, "line 2: the number of requests is not from 1");
    }
}
