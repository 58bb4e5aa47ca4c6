//! Arbitrary bytes as what a recorder wrote, which the first byte picks: by inode and by path, with
//! mappings and without.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thermocline_capture::{CaptureOptions, Identity, Mmap, Source, convert_text};
use thermocline_trace::{CompiledTrace, PageSize, ReadOptions, Reader};

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, bytes)) = bytes.split_first() else { return };
    let source = Source::ALL[usize::from(first) % Source::ALL.len()];
    let output = std::env::temp_dir().join(format!("capture-fuzz-{}.csv", std::process::id()));
    for (identity, mmap) in [(Identity::Inode, Mmap::Ignore), (Identity::Path, Mmap::Map)] {
        let mut options = CaptureOptions::default();
        options.identity = identity;
        options.mmap = mmap;
        options.max_unknown = u64::MAX;
        let Ok(captured) = convert_text(source, "fuzz", bytes, &output, &options) else {
            continue;
        };
        assert!(captured.requests > 0 && captured.files > 0);
        let mut reader = Reader::open(&output, &ReadOptions::default()).expect("it was written");
        if captured.read_pages + captured.write_pages < 1 << 16 {
            let trace =
                CompiledTrace::compile(&mut reader, PageSize::DEFAULT).expect("it is whole");
            assert_eq!(trace.len() as u64, captured.read_pages + captured.write_pages);
        }
    }
});
