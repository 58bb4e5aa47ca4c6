//! Target of mapped traces: arbitrary bytes as a file, and a good file with bytes changed whose
//! checksums are right, so that they pass the first checks.

use std::fs;
use std::sync::OnceLock;

use thermocline_core::{Actions, Clients, Ledger, Setup, registry};
use thermocline_trace::generate::{Generator, Options};
use thermocline_trace::{CompiledTrace, PageSize, Stats};

/// Positions of the lengths and checksums in a file.
const HEADER_LENGTH_AT: usize = 12;
const FILE_LENGTH_AT: usize = 16;
const HEADER_CRC_AT: usize = 24;
const COLUMNS_CRC_AT: usize = 28;
/// Size of a header before its metadata.
const FIXED_BYTES: usize = 80;
/// Pages of the cache.
const CAPACITY_PAGES: u32 = 3;

/// Opens arbitrary bytes as a mapped trace, and then the file that they change: each four are a place and
/// a byte for it, and one that is 0 if the file ends there.
///
/// # Panics
/// If a file is taken that cannot be replayed; that is what the fuzzer looks for.
pub fn open(bytes: &[u8]) {
    try_file(bytes);
    let mut file = good().to_vec();
    for change in bytes.chunks_exact(4) {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]])) % file.len();
        file[place] = change[2];
        if change[3] == 0 {
            file.truncate(place.max(FIXED_BYTES));
        }
    }
    with_checksums(&mut file);
    try_file(&file);
}

/// Return a small file as it should be.
fn good() -> &'static [u8] {
    static GOOD: OnceLock<Vec<u8>> = OnceLock::new();
    GOOD.get_or_init(|| {
        let options = Options { requests: 40, pages: 9, ..Options::default() };
        let mut generator = Generator::new(options).expect("there are requests and pages");
        let trace = CompiledTrace::compile(&mut generator, PageSize::DEFAULT);
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let path = folder.path().join("good.tct");
        trace.expect("the trace is short").save_mapped(&path).expect("there is room for a file");
        fs::read(path).expect("the file was just written")
    })
}

/// Makes the lengths and the checksums of a file right.
fn with_checksums(file: &mut [u8]) {
    let file_bytes = file.len() as u64;
    file[FILE_LENGTH_AT..FILE_LENGTH_AT + 8].copy_from_slice(&file_bytes.to_le_bytes());
    let length = file[HEADER_LENGTH_AT..HEADER_LENGTH_AT + 4].try_into().expect("four bytes");
    let header_bytes = (u32::from_le_bytes(length) as usize).clamp(FIXED_BYTES, file.len());
    let columns_crc = crc32c::crc32c(&file[header_bytes..]);
    file[COLUMNS_CRC_AT..COLUMNS_CRC_AT + 4].copy_from_slice(&columns_crc.to_le_bytes());
    file[HEADER_CRC_AT..HEADER_CRC_AT + 4].fill(0);
    let header_crc = crc32c::crc32c(&file[..header_bytes]);
    file[HEADER_CRC_AT..HEADER_CRC_AT + 4].copy_from_slice(&header_crc.to_le_bytes());
}

/// Opens a file, checks it, and uses the trace if it is one.
fn try_file(bytes: &[u8]) {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let path = folder.path().join("fuzzed.tct");
    fs::write(&path, bytes).expect("there is room for a file");
    if let Ok(trace) = CompiledTrace::open(&path)
        && trace.verify().is_ok()
    {
        let last = trace.requests().last().map(|request| request.accesses.end);
        assert_eq!(last, Some(trace.len()));
        let _stats = Stats::of(&trace);
        if trace.clients() == Clients::ONE {
            replay(&trace);
        }
    }
}

/// Replays LRU, whose actions the Ledger checks.
fn replay(trace: &CompiledTrace) {
    let capacity_pages = [CAPACITY_PAGES];
    let setup = Setup::new(trace.geometry(), capacity_pages.to_vec());
    let entry = registry::find("lru").expect("LRU is registered");
    let mut policy = entry.build_default(&setup).expect("LRU runs on one tier");
    let mut ledger = Ledger::new(trace.footprint_pages(), &capacity_pages);
    let mut actions = Actions::default();
    for access in trace.accesses() {
        actions.clear();
        policy.access(access, &mut actions);
        ledger.access(access, &actions).expect("LRU loses nothing");
    }
    assert_eq!(ledger.counts().accesses(), trace.len() as u64);
}
