//! For any bytes, reading ends in requests or in an error, and never in a panic.

use std::io::Cursor;
use std::sync::Arc;

use proptest::prelude::*;
use thermocline_trace::{
    CompiledTrace, FileTable, FormatName, Mapping, PageSize, ReadOptions, Reader, Requests,
    TraceError,
};

const TABLE: &[u8] =
    b"file_id,base_page,extent_pages,class,read_pages,write_pages,path\n0,7,90,data,0,0,a\n";

fn options(format: Option<FormatName>, allow_truncated: bool) -> ReadOptions {
    let table = FileTable::parse("table", TABLE).expect("the table is well-formed");
    let columns: Mapping = "time=1:us,op=2?,key=5,offset=3?,size=4?,repeat=6?"
        .parse()
        .expect("the mapping is well-formed");
    ReadOptions {
        columns: (format == Some(FormatName::Columns)).then(|| Arc::new(columns)),
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

/// More pages than this are not compiled: it would only take long.
const COMPILED_PAGES_MAX: u64 = 1 << 16;

/// Return the number of pages that are asked for up to the first error.
fn pages_of(bytes: &[u8], options: &ReadOptions) -> u64 {
    let Ok(mut reader) = Reader::from_read("h", Cursor::new(bytes.to_vec()), options) else {
        return 0;
    };
    let (mut batch, mut pages) = (vec![], 0_u64);
    while reader.read_batch(&mut batch).unwrap_or(false) {
        for request in &batch {
            pages = pages.saturating_add(PageSize::DEFAULT.pages(request.extent).1);
        }
    }
    batch
        .iter()
        .map(|request| PageSize::DEFAULT.pages(request.extent).1)
        .fold(pages, u64::saturating_add)
}

fn every_way(bytes: &[u8]) {
    for format in FormatName::ALL.iter().copied().map(Some).chain([None]) {
        for allow_truncated in [false, true] {
            let options = options(format, allow_truncated);
            if let Err(error) = drain(bytes, &options) {
                assert!(error.to_string().len() < 1000, "messages are short: {error}");
            }
            if pages_of(bytes, &options) <= COMPILED_PAGES_MAX
                && let Ok(mut reader) =
                    Reader::from_read("h", Cursor::new(bytes.to_vec()), &options)
            {
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

/// A few lines of each format of text, and a few records.
const SAMPLES: &[&str] = &[
    "0,R,8388608,4096,1577808000000123\n17,W,1073745920,12288,1577808000000170\n",
    "1538323300,4096008,8,1,21\n1538323301,2048,64,0,7\n",
    "Timestamp,Response,IOType,LUN,Offset,Size\n1455555600.000123000,0.0,R,2,1073741824,8192\n1.4,,,2,0,0\n",
    "filename,file_offset,op_type,request_io_size_bytes,start_time\nf7a1,1048576,READ,65536,1705276800.125\n",
    "op_time,block_id,io_size,io_offset,op_name,op_count,rs_shard_id\n17025,ab12,131072,262144,getChunkData.P,2,4\n",
    "# block offset size time op namespace user host repeat\n90071 262144 131072 12.25 2 3 4 77 3\n",
    "0,ab:k:Qw7,8,304,40,get,0\n1,zz9Plural,9,512,9,set,3600\n",
    "op_time,key,key_size,op,op_count,size\n604000001,00aa,48,GET,2,87\n604000002,00bb,24,SET,1,300\n",
    "1700000000,k1,GET,1000000,300200,200,0,299999,3600,0.15,1,-,h,2,a\n",
    "15 REST.PUT.OBJECT 00112233445566aa 4096\n2200 REST.GET.OBJECT 00112233445566aa 4096 1024 2047\n",
    "relative_unix\thashed_path_query\timage_type\tresponse_size\n0\t-712345\tjpeg\t20480\n",
    "929840891 1190146243.326 http://en.wikipedia.org/a -\n929840892 1190146243.341 b save\n",
    "READ usertable user101 [ <all fields>]\nUPDATE usertable user102 [ field1=x\nSCAN t user103 12 [ ]\n",
    "1700000000000123,42,9,4096,0,default,2,17,1,0,501,9001,120,0,1,31,0,0,24,32,65536\n",
    "5,R,4096,512,\"a,\"\"b\",2\n6,w,0,8,b,1\n",
];

/// Return the magic number and the version of lcs, or letters of the old one, and records behind
/// the header.
fn lcs(version: u64) -> Vec<u8> {
    let magic = 0x1234_5678_9abc_def0_u64.to_le_bytes();
    if version == 0 {
        let mut bytes = vec![0; 1024];
        bytes[..8].copy_from_slice(&magic);
        bytes[8..13].copy_from_slice(b"<QIIB");
        bytes[248..251].copy_from_slice(&[1, 3, 2]);
        bytes[253] = 4;
        bytes[1004] = 17;
        bytes[1016..].copy_from_slice(&magic);
        bytes.extend([1; 34]);
        return bytes;
    }
    let mut bytes = vec![0; 8192];
    bytes[..8].copy_from_slice(&magic);
    bytes[8..16].copy_from_slice(&version.to_le_bytes());
    bytes.extend([1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0].repeat(20));
    bytes
}

/// Reads all that can be read of some bytes: in the formats that fit and in the one that is described.
fn likely_ways(bytes: &[u8]) {
    for format in [None, Some(FormatName::Columns)] {
        for allow_truncated in [false, true] {
            if let Err(error) = drain(bytes, &options(format, allow_truncated)) {
                assert!(error.to_string().len() < 1000, "messages are short: {error}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn samples_with_changed_bytes(
        sample in prop::sample::select(SAMPLES),
        changes in prop::collection::vec(
            (any::<prop::sample::Index>(), prop_oneof![any::<u8>(), Just(b','), Just(b'9'), Just(b'\n'), Just(b'"')]),
            0..6,
        ),
        cut in any::<prop::sample::Index>(),
        times in 1_usize..4,
    ) {
        let mut bytes = sample.as_bytes().repeat(times);
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        likely_ways(&bytes);
        bytes.truncate(cut.index(bytes.len()));
        likely_ways(&bytes);
    }

    #[test]
    fn headers_of_lcs_with_changed_bytes(
        version in 0_u64..10,
        changes in prop::collection::vec((0_usize..1100, any::<u8>()), 0..4),
        length in 0_usize..9000,
    ) {
        let mut bytes = lcs(version);
        for (place, byte) in changes {
            if let Some(known) = bytes.get_mut(place) {
                *known = byte;
            }
        }
        likely_ways(&bytes);
        bytes.truncate(length);
        likely_ways(&bytes);
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
