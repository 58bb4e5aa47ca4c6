//! Arbitrary bytes as the file table of a recording.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thermocline_trace::FileTable;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(table) = FileTable::parse("fuzz", bytes) {
        for file in table.files().iter().filter(|file| file.extent_pages > 0) {
            let last_page = file.base_page + (file.extent_pages - 1);
            assert_eq!(table.file_of(file.base_page), Some(file));
            assert_eq!(table.file_of(last_page), Some(file));
        }
    }
});
