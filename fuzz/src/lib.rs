//! Common parts of the fuzz targets of trace formats; [`nbd`] has those of the protocol, [`flash`]
//! those of the engine's format, [`mapped`] those of mapped traces.

pub mod flash;
pub mod mapped;
pub mod nbd;

use std::io::Cursor;
use std::sync::Arc;

use thermocline_trace::{
    CompiledTrace, Extent, FileTable, FormatName, Mapping, PageSize, ReadOptions, Reader, Requests,
    TraceError,
};

const TABLE: &[u8] = b"file_id,base_page,extent_pages,class,read_pages,write_pages,path\n\
    0,0,100,data,0,0,a\n1,100,1000000000000,log,0,0,b\n";

/// More pages than this are not compiled: it would only take long.
const COMPILED_PAGES_MAX: u64 = 1 << 16;

/// Reads arbitrary bytes as a trace, strictly and leniently, and compiles it if it is not too long.
///
/// # Panics
/// If the reader breaks a promise; that is what the fuzzer looks for.
pub fn read(format: Option<FormatName>, bytes: &[u8]) {
    for allow_truncated in [false, true] {
        let table = FileTable::parse("table", TABLE).expect("the table is well-formed");
        let options = ReadOptions {
            format,
            allow_truncated,
            file_table: Some(Arc::new(table)),
            columns: (format == Some(FormatName::Columns)).then(|| Arc::new(columns())),
            ..ReadOptions::default()
        };
        if let Ok(pages) = read_all(bytes, &options)
            && pages <= COMPILED_PAGES_MAX
        {
            compile(bytes, &options, pages);
        }
    }
}

/// Columns of all kinds, none of which must be there but the key.
fn columns() -> Mapping {
    let text = "time=1:us,op=2?,key=5,offset=3?,size=4?,repeat=6?";
    text.parse().expect("the mapping is well-formed")
}

/// Reads everything; returns the number of page accesses.
fn read_all(bytes: &[u8], options: &ReadOptions) -> Result<u64, TraceError> {
    let mut reader = Reader::from_read("fuzz", Cursor::new(bytes.to_vec()), options)?;
    let (mut batch, mut requests, mut pages) = (Vec::new(), 0, 0_u64);
    while reader.read_batch(&mut batch)? {
        requests += batch.len() as u64;
        for request in &batch {
            assert!((request.volume as usize) < reader.volume_names().len());
            match request.extent {
                Extent::Bytes { offset, length } | Extent::Object { offset, length, .. } => {
                    assert!(offset <= (1 << 63) && length <= (1 << 63) - offset);
                }
                Extent::Pages { first, count } => assert!(first.checked_add(count).is_some()),
            }
            pages = pages.saturating_add(PageSize::DEFAULT.pages(request.extent).1);
        }
    }
    assert_eq!(reader.counts().requests, requests);
    Ok(pages)
}

fn compile(bytes: &[u8], options: &ReadOptions, pages: u64) {
    let mut reader = Reader::from_read("fuzz", Cursor::new(bytes.to_vec()), options)
        .expect("it was opened before");
    // Several volumes may not fit side by side, and objects may be too long; everything else must
    // compile.
    if let Ok(trace) = CompiledTrace::compile(&mut reader, PageSize::DEFAULT) {
        assert_eq!(trace.len() as u64, pages);
        let end = trace.requests().last().map(|request| request.accesses.end);
        assert_eq!(end, Some(trace.len()));
        let _stats = thermocline_trace::Stats::of(&trace);
    } else {
        assert!(pages == 0 || reader.volume_names().len() > 1 || reader.has_objects());
    }
}
