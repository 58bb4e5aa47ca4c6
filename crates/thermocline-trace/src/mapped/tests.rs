//! Files of mapped traces: they come back as they were, and damaged ones are refused.

use std::path::Path;

use proptest::prelude::*;
use thermocline_core::{Nanos, Op};

use super::*;
use crate::clients::Split;
use crate::request::{Extent, Request, Requests};

/// Requests to some volumes.
#[derive(Debug)]
struct Given {
    requests: Vec<Request>,
    volumes: Vec<String>,
}

impl Requests for Given {
    fn read_batch(&mut self, batch: &mut Vec<Request>) -> Result<bool, TraceError> {
        batch.clear();
        batch.append(&mut self.requests);
        Ok(!batch.is_empty())
    }

    fn volume_names(&self) -> &[String] {
        &self.volumes
    }

    fn path(&self) -> &Path {
        Path::new("given")
    }
}

fn pages(at_ns: u64, op: Op, volume: u32, first: u64, count: u64) -> Request {
    Request { at: Nanos(at_ns), op, volume, extent: Extent::Pages { first, count } }
}

fn compiled(requests: Vec<Request>, volumes: usize) -> CompiledTrace {
    let volumes = (0..volumes).map(|volume| format!("v{volume}")).collect();
    CompiledTrace::compile(&mut Given { requests, volumes }, PageSize::DEFAULT).unwrap()
}

/// Return a small trace with every column but the bytes of objects.
fn small() -> CompiledTrace {
    let requests = (0..40_u64).map(|number| {
        let op = if number % 3 == 0 { Op::Write } else { Op::Read };
        pages(number * 10, op, u32::from(number % 5 == 0), number % 7, 1 + number % 2)
    });
    let trace = compiled(requests.collect(), 2);
    trace.split(Clients::new(2).unwrap(), Split::RoundRobin).unwrap()
}

/// Assert that two traces are equal in everything.
fn assert_same(found: &CompiledTrace, expected: &CompiledTrace) {
    assert_eq!(found.columns(), expected.columns());
    assert_eq!(found.clients, expected.clients);
    assert_eq!(found.page_size, expected.page_size);
    assert_eq!(found.path, expected.path);
    assert_eq!(found.volume_bases, expected.volume_bases);
    assert_eq!(found.volume_names, expected.volume_names);
    assert_eq!(found.summary, expected.summary);
    assert!(found.requests().eq(expected.requests()));
    assert!(found.accesses().eq(expected.accesses()));
    let (one, other) = (found.geometry(), expected.geometry());
    assert_eq!(one.ids_by_page_number(), other.ids_by_page_number());
}

/// Return the bytes of a file of `small`.
fn file(folder: &Path) -> Vec<u8> {
    let path = folder.join("small.tct");
    small().save_mapped(&path).unwrap();
    std::fs::read(path).unwrap()
}

/// Open some bytes and check them if that succeeds; return the error of either.
fn opened(folder: &Path, bytes: &[u8]) -> Result<(), String> {
    let path = folder.join("other.tct");
    std::fs::write(&path, bytes).unwrap();
    let trace = CompiledTrace::map(&path).map_err(|error| error.to_string())?;
    trace.verify().map_err(|error| error.to_string())
}

#[test]
fn a_mapped_trace_is_the_trace() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.tct");
    let trace = small();
    trace.save_mapped(&path).unwrap();
    assert!(CompiledTrace::is_saved(&path));
    let mapped = CompiledTrace::open(&path).unwrap();
    assert!(mapped.is_mapped() && !trace.is_mapped());
    assert_same(&mapped, &trace);
    let bytes = std::fs::metadata(&path).unwrap().len();
    assert_eq!((trace.mapped_bytes().unwrap(), mapped.mapped_bytes().unwrap()), (bytes, bytes));
    mapped.verify().unwrap();
    trace.verify().unwrap();
    // Its file can be removed, and it can be saved again, in either form.
    std::fs::remove_file(&path).unwrap();
    mapped.save_mapped(&path).unwrap();
    assert_same(&CompiledTrace::open(&path).unwrap(), &trace);
    let one = mapped.split(Clients::ONE, Split::RoundRobin).unwrap();
    one.save(folder.path().join("one.parquet")).unwrap();
    assert_same(&CompiledTrace::open(folder.path().join("one.parquet")).unwrap(), &one);
}

#[test]
fn every_flipped_bit_and_every_cut_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = file(folder.path());
    assert_eq!(opened(folder.path(), &bytes), Ok(()));
    for place in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1 << (place % 8);
        let error = opened(folder.path(), &damaged).unwrap_err();
        assert!(error.contains("other.tct"), "byte {place}: {error}");
    }
    for length in 0..bytes.len() {
        let error = opened(folder.path(), &bytes[..length]).unwrap_err();
        assert!(length == 0 || error.contains("truncated"), "{length} bytes: {error}");
    }
    let error = opened(folder.path(), &[&bytes[..], &[0]].concat()).unwrap_err();
    assert!(error.contains("extended"), "{error}");
}

/// Change a header, and give it a right checksum.
fn forged(bytes: &[u8], forge: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut forged = bytes.to_vec();
    forge(&mut forged);
    let header_bytes = u32::from_le_bytes(forged[12..16].try_into().unwrap()) as usize;
    if let Some(header) = forged.get_mut(..header_bytes).filter(|header| header.len() > 28) {
        header[24..28].fill(0);
        let crc = crc32c::crc32c(header).to_le_bytes();
        header[24..28].copy_from_slice(&crc);
    }
    forged
}

#[test]
fn other_versions_and_forged_headers_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = file(folder.path());
    let number = |at: usize, value: u64| {
        forged(&bytes, |header| header[at..at + 8].copy_from_slice(&value.to_le_bytes()))
    };
    for (forged, expected) in [
        (forged(&bytes, |header| header[8] = 2), "version 2, and this program maps version 1"),
        (forged(&bytes, |header| header[15] = 255), "truncated"),
        (forged(&bytes, |header| header[12..16].fill(0)), "damaged"),
        (number(32, u64::MAX), "contradict"),
        (number(32, 0), "contradict"),
        (number(40, 39), "contradict"),
        (number(48, 1 << 62), "contradict"),
        (number(48, 0), "contradict"),
        (number(56, 0), "contradict"),
        (number(64, 3), "contradict"),
        (number(72, 0), "contradict"),
        (forged(&bytes, |header| header[METADATA_AT] = b'['), "metadata"),
    ] {
        let error = opened(folder.path(), &forged).unwrap_err();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn columns_that_contradict_each_other_are_found_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = file(folder.path());
    let trace = CompiledTrace::open(folder.path().join("small.tct")).unwrap();
    let packed_at = bytes.windows(4 * trace.len()).position(|at| at == trace.columns()[2]).unwrap();
    let mut forged_bytes = bytes.clone();
    forged_bytes[packed_at..packed_at + 4].copy_from_slice(&0x7fff_ffff_u32.to_le_bytes());
    let header_bytes = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    let crc = crc32c::crc32c(&forged_bytes[header_bytes..]).to_le_bytes();
    let forged = forged(&forged_bytes, |header| header[28..32].copy_from_slice(&crc));
    let error = opened(folder.path(), &forged).unwrap_err();
    assert!(error.contains("contradict"), "{error}");
}

#[test]
fn what_is_no_such_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert!(!CompiledTrace::is_mappable(folder.path()));
    assert!(!CompiledTrace::is_mappable(&folder.path().join("absent")));
    assert!(CompiledTrace::map(folder.path()).is_err());
    assert!(small().save_mapped(folder.path()).is_err());
    let error = opened(folder.path(), &[7; 200]).unwrap_err();
    assert!(error.contains("not a compiled trace"), "{error}");
}

proptest! {
    // Each case waits for the disk.
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Arbitrary traces come back as they were, whichever columns they have.
    #[test]
    fn traces_come_back(
        rows in prop::collection::vec((0_u64..50, any::<bool>(), 0_u32..3, 0_u64..99, 1_u64..4), 1..80),
        is_timed: bool,
        is_long: bool,
        clients in 1_usize..4,
    ) {
        let requests = rows.into_iter().map(|(at, is_write, volume, first, count)| {
            let op = if is_write { Op::Write } else { Op::Read };
            pages(if is_timed { at } else { 0 }, op, volume, first, if is_long { count } else { 1 })
        });
        let trace = compiled(requests.collect(), 3);
        let trace = trace.split(Clients::new(clients).unwrap(), Split::RoundRobin).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("any.tct");
        trace.save_mapped(&path).unwrap();
        let mapped = CompiledTrace::open(&path).unwrap();
        mapped.verify().unwrap();
        assert_same(&mapped, &trace);
    }

    /// Opening and checking a file of any contents gives an error or a trace.
    #[test]
    fn arbitrary_headers_are_refused(
        changes in prop::collection::vec((0_usize..400, any::<u8>()), 1..8),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let bytes = file(folder.path());
        let forged = forged(&bytes, |header| {
            for (place, byte) in changes {
                let place = place % header.len();
                header[place] = byte;
            }
        });
        drop(opened(folder.path(), &forged));
    }
}
