//! Whatever the bytes, reading ends in requests or in an error, and never in a panic.

use std::io::Cursor;
use std::sync::Arc;

use proptest::prelude::*;
use thermocline_trace::{
    CompiledTrace, FileTable, FormatName, PageSize, ReadOptions, Reader, Requests, TraceError,
};

const TABLE: &[u8] =
    b"file_id,base_page,extent_pages,class,read_pages,write_pages,path\n0,7,90,data,0,0,a\n";

fn options(format: Option<FormatName>, allow_truncated: bool) -> ReadOptions {
    let table = FileTable::parse("table", TABLE).expect("the table is well-formed");
    ReadOptions {
        format,
        allow_truncated,
        file_table: Some(Arc::new(table)),
        ..ReadOptions::default()
    }
}

/// Reads everything; the number of requests.
fn drain(bytes: &[u8], options: &ReadOptions) -> Result<u64, TraceError> {
    let mut reader = Reader::from_read("hostile", Cursor::new(bytes.to_vec()), options)?;
    let (mut batch, mut requests) = (Vec::new(), 0);
    while reader.read_batch(&mut batch)? {
        requests += batch.len() as u64;
        for request in &batch {
            assert!((request.volume as usize) < reader.volume_names().len());
        }
    }
    assert_eq!(reader.counts().requests, requests);
    assert!(!reader.read_batch(&mut batch)?, "the end stays the end");
    Ok(requests)
}

fn every_way(bytes: &[u8]) {
    for format in FormatName::ALL.iter().copied().map(Some).chain([None]) {
        for allow_truncated in [false, true] {
            let options = options(format, allow_truncated);
            if let Err(error) = drain(bytes, &options) {
                assert!(error.to_string().len() < 1000, "messages are short: {error}");
            }
            if let Ok(mut reader) = Reader::from_read("h", Cursor::new(bytes.to_vec()), &options) {
                let compiled = CompiledTrace::compile(&mut reader, PageSize::DEFAULT);
                assert!(compiled.is_err() || compiled.is_ok_and(|trace| trace.len() > 0));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        every_way(&bytes);
    }

    #[test]
    fn arbitrary_fields(
        lines in prop::collection::vec(
            "([0-9]{1,20}|[rRwWQD]|Read|WRITE|\\+|\\[a\\]|8,0|[0-9]{1,5}\\.[0-9]{1,10}|-|\\*)([ ,\t]([0-9]{1,3}|[rRwWQ]|Write|0x1|\\+)){0,8}\r?",
            0..8,
        ),
    ) {
        // Short requests only: a line may ask for as many as 2^24 pages, which is slow and right.
        every_way(lines.join("\n").as_bytes());
    }

    #[test]
    fn arbitrary_rows_below_a_header(
        header in prop_oneof![
            Just("timestamp_us,op,volume,offset,length"),
            Just("timestamp_us,op,file_id,page_no,pages,flags"),
        ],
        rows in prop::collection::vec("[0-9]{0,3}(\\.[0-9]{0,4})?,[RW],[0-9]?,[0-9]{0,3},[0-9]{0,3},?[a-z]?", 0..8),
    ) {
        every_way(format!("{header}\n{}", rows.join("\n")).as_bytes());
    }
}

#[test]
fn an_endless_line_is_refused_in_bounded_memory() {
    let source = std::io::Read::take(std::io::repeat(b'7'), 1 << 30);
    let options = options(Some(FormatName::Pages), false);
    let mut reader = Reader::from_read("endless", source, &options).unwrap();
    let message = reader.read_batch(&mut Vec::new()).unwrap_err().to_string();
    assert!(message.contains("line 1: the line is longer than 64 KiB"), "{message}");
}

#[test]
fn a_trace_without_requests_is_an_error() {
    for bytes in
        [&b""[..], b"\n\n", b"# only a comment\n", b"timestamp_us,op,volume,offset,length\n"]
    {
        let error = drain(bytes, &options(Some(FormatName::Csv), false)).unwrap_err();
        assert!(matches!(error, TraceError::Empty { .. }), "{error}");
    }
}

#[test]
fn lines_of_any_end_are_counted_alike() {
    for text in ["1\n2\n3", "1\n2\n3\n", "1\r\n2\r\n3\r\n", "1\r\n2\r\n3"] {
        assert_eq!(drain(text.as_bytes(), &options(None, false)).unwrap(), 3, "{text:?}");
    }
}

#[test]
fn a_cut_compressed_trace_is_used_only_if_allowed() {
    use std::io::Write as _;
    let mut lines = Vec::new();
    for number in 0_u64..200_000 {
        writeln!(lines, "{}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40).unwrap();
    }
    let mut bytes = zstd::encode_all(&lines[..], 1).unwrap();
    bytes.truncate(bytes.len() / 2);
    let message = drain(&bytes, &options(None, false)).unwrap_err().to_string();
    assert!(message.starts_with("hostile: truncated: the zstd data end early"), "{message}");
    let requests = drain(&bytes, &options(None, true)).unwrap();
    assert!((1000..200_000).contains(&requests), "{requests}");
}
