//! The CDN traces of Wikimedia.
//!
//! * Header: names of columns, separated by tabs. The upload trace of 2019 has `hashed_path_query`, the
//!   text trace of 2019 `hashed_host_path_query`, and the trace of 2016, which has no times,
//!   `hashed_host_and_path` and `uri_query`; all have `response_size`.
//! * Units: seconds since the trace began, bytes.
//! * Each hash is an object of the size of the response; reads.
//! * Source: Wikitech, *Analytics/Data Lake/Traffic/Caching*.

use super::{Described, Format, ReadOptions};
use crate::delimited::Delimited;
use crate::mapping::Mapping;

pub(crate) const FORMAT: Format = Format::described::<Wikimedia>("wikimedia");

struct Wikimedia;

impl Described for Wikimedia {
    fn lines(_: &ReadOptions) -> Delimited {
        let mappings = [
            "time=relative_unix:s,key=hashed_path_query,length=response_size",
            "time=relative_unix:s,key=hashed_host_path_query,length=response_size",
            "key=hashed_host_and_path+uri_query,length=response_size",
        ];
        Delimited::with_header(b'\t', mappings.map(|text| Mapping::built_in(text, "")).into())
    }
}

#[cfg(test)]
mod tests {
    use crate::FormatName::Wikimedia;
    use crate::format::test_support::{check_error, check_keys, object, read};

    #[test]
    fn all_three_headers_are_understood() {
        let upload = "relative_unix\thashed_path_query\timage_type\tresponse_size\ttime_firstbyte\n\
            0\t-712345\tjpeg\t20480\t0.00012\n1\t8123\tpng\t512\t0.00009\n";
        let second = 1_000_000_000;
        let expected = [read(0, 0, object(0, 0, 20_480)), read(second, 0, object(1, 0, 512))];
        check_keys(Wikimedia, upload, &expected);
        let text = "relative_unix\thashed_host_path_query\tresponse_size\ttime_firstbyte\n\
            0\t5\t7\t0.1\n1\t6\t8\t0.1\n0\t5\t7\t0.1\n";
        let sizes = [(0, 0, 7), (1, 1, 8), (0, 0, 7)];
        let expected = sizes.map(|(at, id, size)| read(at * second, 0, object(id, 0, size)));
        check_keys(Wikimedia, text, &expected);
        let old = "hashed_host_and_path\turi_query\tcontent_type\tresponse_size\tX_Cache\n\
            1\t\ttext\t7\tcp1\n1\t?a\ttext\t9\tcp1\n";
        check_keys(Wikimedia, old, &[read(0, 0, object(0, 0, 7)), read(0, 0, object(1, 0, 9))]);
        check_error(
            Wikimedia,
            "relative_unix\tx\n",
            "the header has no column `hashed_path_query`",
        );
    }
}
