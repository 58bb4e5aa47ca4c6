//! Traces of any other format, as the caller describes them: text in columns, JSON lines, Parquet files
//! and binary records. See [`Mapping`](crate::Mapping).

use super::{Format, ReadOptions, Recognition};
use crate::decode::{Decoder, Lines, Records};
use crate::delimited::Delimited;
use crate::json_lines::JsonLines;
use crate::layout::LaidOut;
use crate::text::without_byte_order_mark;

pub(crate) const FORMAT: Format = Format::new("columns", Recognition::Named, decoder);

fn decoder(sample: &[u8], options: &ReadOptions) -> Box<dyn Decoder> {
    let mapping = options.columns.as_ref().expect("the reader checks that columns are described");
    if let Some(letters) = &mapping.layout {
        return Box::new(Records(LaidOut::built_in(letters, mapping, 0)));
    }
    match without_byte_order_mark(sample).trim_ascii_start().first() {
        Some(b'{') => Box::new(Lines(JsonLines::new(mapping))),
        _ => Box::new(Lines(Delimited::described(mapping))),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::sync::Arc;

    use crate::format::test_support::{bytes, object, pages, read};
    use crate::{Mapping, ReadOptions, Reader, Request, Requests, TraceError};
    use thermocline_core::Op::Write;

    fn all(content: &[u8], mapping: Mapping) -> Result<Vec<Request>, TraceError> {
        let options = ReadOptions { columns: Some(Arc::new(mapping)), ..ReadOptions::default() };
        let mut reader = Reader::from_read("t", Cursor::new(content.to_vec()), &options)?;
        let (mut all, mut batch) = (vec![], vec![]);
        while reader.read_batch(&mut batch)? {
            all.append(&mut batch);
        }
        Ok(all)
    }

    fn mapping(text: &str) -> Mapping {
        text.parse().unwrap()
    }

    fn error(content: &str, mapping: Mapping) -> String {
        all(content.as_bytes(), mapping).unwrap_err().to_string()
    }

    #[test]
    fn columns_are_found_by_number_and_by_name() {
        let expected = [read(5000, 0, bytes(4096, 512)), bytes(0, 8).at(6000, Write, 1)];
        let numbers = mapping("time=1:us, op=2, offset=3, length=4, volume=5");
        assert_eq!(all(b"5,R,4096,512,a\n6,w,0,8,b\n", numbers.clone()).unwrap(), expected);
        assert_eq!(
            all(b"5\tget\t4096\t512\ta\n6\tPUT\t0\t8\tb\n", numbers.clone()).unwrap(),
            expected
        );
        let blanks = numbers.with_delimiter("blanks").unwrap();
        assert_eq!(all(b" 5  R 4096   512 a\n6 W 0 8 b x\n", blanks).unwrap(), expected);
        let names = mapping("time=at:us, op=o, offset=off, length=\"the size\", volume=v");
        let text = b"\xef\xbb\xbfv,\"the size\",off,at,o,other\r\n\"a\",512,4096,5,R,\"x,\"\"y\"\r\nb,8,0,6,W,\r\n";
        assert_eq!(all(text, names).unwrap(), expected);
    }

    #[test]
    fn lines_of_json_have_dotted_names() {
        let names = mapping("time=at:s, op=req.op, key=req.key, size=bytes?, volume==v");
        let text = "{\"at\": 1538323199.123456789, \"req\": {\"op\": \"GET\", \"key\": 7, \"x\": [1]}, \"bytes\": 9}\n\
            {\"req\":{\"key\":8,\"op\":\"PUT\"},\"at\":2,\"bytes\":null}\n\
            {\"req\":{\"key\":8,\"op\":\"PUT\"},\"at\":2,\"bytes\":5}\n";
        let expected = [
            read(1_538_323_199_123_456_789, 0, object(7, 0, 9)),
            object(8, 0, 5).at(2_000_000_000, Write, 0),
        ];
        assert_eq!(all(text.as_bytes(), names.clone()).unwrap(), expected);
        let message = error("{\"at\": 1, \"bytes\": 3}\n", names.clone());
        assert!(message.contains("line 1: the key is missing"), "{message}");
        let message = error("{\"at\": 1,\n", names);
        assert!(message.contains("line 1: not an object of JSON: EOF"), "{message}");
        let message = error("{\"at\": 1}\n", mapping("offset=1:pages"));
        assert!(message.contains("values of JSON have names"), "{message}");
    }

    #[test]
    fn units_and_ranges_are_applied() {
        let range = mapping("key=1:integer, offset=2?, end=3?, size=4, time=5:minutes");
        let text = b"-1,10,19,100,2\n5,,,100,0\n5,90,200,100,0.5\n";
        let expected = [
            read(120_000_000_000, 0, object(u64::MAX, 10, 10)),
            read(0, 0, object(5, 0, 100)),
            read(30_000_000_000, 0, object(5, 90, 10)),
        ];
        assert_eq!(all(text, range).unwrap(), expected);
        let paged = mapping("offset=1:pages, length=2:pages, time=3:rfc3339");
        let text = b"7,2,1970-01-02T00:00:00.25+00:00\n";
        assert_eq!(all(text, paged).unwrap(), [read(86_400_250_000_000, 0, pages(7, 2))]);
        let sized = mapping("offset=1:blocks(100), length=2:KiB, time=3:filetime");
        assert_eq!(all(b"3,2,5\n", sized).unwrap(), [read(500, 0, bytes(300, 2048))]);
    }

    #[test]
    fn records_are_laid_out_as_described() {
        let described = mapping("time=1:s, key=2, size=3, op=4").with_layout("<IQIB").unwrap();
        let described = described.with_ops("0=read,1=write").unwrap();
        let mut record = 3_u32.to_le_bytes().to_vec();
        record.extend(77_u64.to_le_bytes());
        record.extend(10_u32.to_le_bytes());
        record.push(1);
        let expected = [object(77, 0, 10).at(3_000_000_000, Write, 0)];
        assert_eq!(all(&record, described.clone()).unwrap(), expected);
        record.pop();
        let message = all(&record, described).unwrap_err().to_string();
        assert!(message.contains("the last record has 16 of 17 bytes"), "{message}");
    }

    #[test]
    fn errors_name_the_column_and_what_was_found() {
        let names = mapping("time=at:us, offset=off, length=len");
        let message = error("at,offset,len\n1,2,3\n", names.clone());
        assert!(
            message.contains("line 1: the header has no column `off`; it has: 'at, offset, len'"),
            "{message}"
        );
        let message = error("at,off,len\n1,2\n", names.clone());
        assert!(message.contains("line 2: the length is missing"), "{message}");
        let message = error("at,off,len\n1,x,3\n", names);
        assert!(message.contains("line 2: the offset is not"), "{message}");
        let message = error("1,2,3,TRIM\n", mapping("time=1:us,offset=2,length=3,op=4"));
        assert!(message.contains("the op 'TRIM' is none of r, read"), "{message}");
        let message = error("1,2,3\n", mapping("time=1,offset=2,length=3"));
        assert!(message.contains("the unit of times is not given"), "{message}");
        let message = error("1,\"2,3\n", mapping("time=1:s,offset=2,length=3"));
        assert!(message.contains("a quote is not closed"), "{message}");
    }
}
