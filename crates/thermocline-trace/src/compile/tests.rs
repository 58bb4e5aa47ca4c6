//! Compiling against a model of maps and vectors, and the limits.

use super::*;
use crate::Extent;
use proptest::prelude::*;
use std::collections::HashMap;
use thermocline_core::{Access, PageId};

/// Requests from memory, in batches of three.
pub(crate) struct Given {
    requests: Vec<Request>,
    next: usize,
    volume_names: Vec<String>,
}

impl Given {
    pub(crate) fn new(requests: &[Request]) -> Self {
        let volumes = requests.iter().map(|request| request.volume + 1).max().unwrap_or(1);
        let volume_names = (0..volumes).map(|volume| format!("v{volume}")).collect();
        Self { requests: requests.to_vec(), next: 0, volume_names }
    }
}

impl Requests for Given {
    fn read_batch(&mut self, batch: &mut Vec<Request>) -> Result<bool, TraceError> {
        batch.clear();
        let end = self.requests.len().min(self.next + 3);
        batch.extend_from_slice(&self.requests[self.next..end]);
        self.next = end;
        Ok(!batch.is_empty())
    }

    fn volume_names(&self) -> &[String] {
        &self.volume_names
    }

    fn path(&self) -> &Path {
        Path::new("given")
    }
}

pub(crate) fn request(at: u64, op: Op, volume: u32, extent: Extent) -> Request {
    Request { at: Nanos(at), op, volume, extent }
}

fn any_request() -> impl Strategy<Value = Request> {
    let op = prop_oneof![Just(Op::Read), Just(Op::Write)];
    let extent = prop_oneof![
        (0_u64..1 << 20, 0_u64..20_000)
            .prop_map(|(offset, length)| Extent::Bytes { offset, length }),
        (0_u64..300, 0_u64..4).prop_map(|(first, count)| Extent::Pages { first, count }),
    ];
    (prop_oneof![Just(0), 0_u64..1000], op, 0_u32..3, extent)
        .prop_map(|(at, op, volume, extent)| request(at, op, volume, extent))
}

proptest! {
    #[test]
    fn matches_the_model(requests in prop::collection::vec(any_request(), 1..300), shift in 9_u32..14) {
        let page_size = PageSize::new(1 << shift).unwrap();
        let mut ids = HashMap::new();
        let mut places = Vec::new();
        let mut accesses = Vec::new();
        let mut model = Vec::new();
        for request in &requests {
            let (first, count) = page_size.pages(request.extent);
            let begin = accesses.len();
            for page in first..first + count {
                let next = u32::try_from(ids.len()).unwrap();
                let id = *ids.entry((request.volume, page)).or_insert(next);
                if id == next {
                    places.push((request.volume, page));
                }
                accesses.push(Access { page: PageId(id), op: request.op, client: 0 });
            }
            if count > 0 {
                model.push((request.at, begin..accesses.len()));
            }
        }
        let compiled = CompiledTrace::compile(&mut Given::new(&requests), page_size);
        if accesses.is_empty() {
            prop_assert!(compiled.unwrap_err().to_string().contains("length zero"));
            return Ok(());
        }
        let trace = compiled.unwrap();
        let ahead = CompiledTrace::compile_reading_ahead(&mut Given::new(&requests), page_size);
        prop_assert_eq!(format!("{:?}", ahead.unwrap()), format!("{trace:?}"));
        prop_assert_eq!(trace.accesses().collect::<Vec<_>>(), accesses.clone());
        prop_assert_eq!(trace.requests().len(), model.len());
        let seen: Vec<_> = trace.requests().map(|request| (request.at, request.accesses)).collect();
        prop_assert_eq!(seen, model);
        prop_assert_eq!(trace.footprint_pages() as usize, places.len());
        for (id, place) in (0..).zip(places) {
            prop_assert_eq!(trace.location(PageId(id)), place);
        }
        prop_assert_eq!(trace.writes(), accesses.iter().filter(|a| a.op == Op::Write).count() as u64);
        prop_assert_eq!(trace.reads() + trace.writes(), accesses.len() as u64);
    }
}

fn pages(first: u64, count: u64) -> Extent {
    Extent::Pages { first, count }
}

#[test]
fn columns_are_created_only_when_needed() {
    let plain = [request(0, Op::Read, 0, pages(7, 1)), request(0, Op::Read, 0, pages(9, 1))];
    let trace = CompiledTrace::compile(&mut Given::new(&plain), PageSize::DEFAULT).unwrap();
    assert!(!trace.is_timed() && trace.counts.is_empty());
    assert_eq!(trace.geometry().page_number(PageId(1)), 9, "one volume keeps its page numbers");
    let full = [plain[0], request(5, Op::Write, 0, pages(0, 2))];
    let trace = CompiledTrace::compile(&mut Given::new(&full), PageSize::DEFAULT).unwrap();
    assert!(trace.is_timed());
    assert_eq!(trace.packed(), [0, 1 | WRITE_BIT, 2 | WRITE_BIT]);
}

#[test]
fn volumes_are_never_adjacent() {
    let edge = VOLUME_ALIGN_PAGES - 1;
    let requests = [
        request(0, Op::Read, 1, pages(0, 1)),
        request(0, Op::Read, 0, pages(edge, 1)),
        request(0, Op::Read, 2, pages(0, 1)),
    ];
    let trace = CompiledTrace::compile(&mut Given::new(&requests), PageSize::DEFAULT).unwrap();
    let numbers: Vec<u64> = (0..3).map(|id| trace.geometry().page_number(PageId(id))).collect();
    assert_eq!(numbers, [2 * VOLUME_ALIGN_PAGES, edge, 3 * VOLUME_ALIGN_PAGES]);
    assert_eq!(trace.location(PageId(1)), (0, edge));
    assert_eq!(trace.location(PageId(0)), (1, 0));
}

#[test]
fn what_cannot_be_compiled_is_refused() {
    let check = |requests: &[Request], limit_pages: u32, expected: &str| {
        let page_size = PageSize::new(512).unwrap();
        let compiled =
            CompiledTrace::compile_limited(&mut Given::new(requests), page_size, limit_pages);
        let message = compiled.unwrap_err().to_string();
        assert!(message.starts_with("given: ") && message.contains(expected), "{message}");
    };
    let good = request(0, Op::Read, 0, pages(1, 1));
    let long = Extent::Bytes { offset: 0, length: (1 << 33) + 1 };
    check(
        &[good, request(0, Op::Read, 0, long)],
        9,
        "request 2 (counted from 1): longer than 2^24",
    );
    check(&[request(0, Op::Read, 0, pages(0, 10))], 9, "more than 2^31 distinct pages");
    let far = request(0, Op::Read, 1, pages(u64::MAX - 1, 1));
    check(&[good, far], 9, "need more than 2^64 pages");
}

/// Fails where its requests end.
struct Failing(Given);

impl Requests for Failing {
    fn read_batch(&mut self, batch: &mut Vec<Request>) -> Result<bool, TraceError> {
        let is_more = self.0.read_batch(batch)?;
        let failed = || TraceError::Empty { path: self.path().to_owned() };
        is_more.then_some(true).ok_or_else(failed)
    }

    fn volume_names(&self) -> &[String] {
        self.0.volume_names()
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

#[test]
fn what_is_wrong_first_is_told_whoever_finds_it() {
    let good = request(0, Op::Read, 0, pages(1, 1));
    let long = request(0, Op::Read, 0, Extent::Bytes { offset: 0, length: 1 << 50 });
    let message = |requests: &[Request]| {
        let mut source = Failing(Given::new(requests));
        let compiled = CompiledTrace::compile_reading_ahead(&mut source, PageSize::DEFAULT);
        compiled.unwrap_err().to_string()
    };
    let (of_reader, of_compiler) =
        (message(&[good; 100]), message(&[&[good; 100][..], &[long]].concat()));
    assert_ne!(of_reader, of_compiler);
    assert!(of_compiler.contains("request 101 (counted from 1)"), "{of_compiler}");
    // The reader is far from its end when it is told to stop.
    assert!(message(&[&[long][..], &[good; 100]].concat()).contains("request 1 (counted"));
}

#[test]
fn the_summary_counts_what_the_file_had() {
    let bytes = |offset, length| Extent::Bytes { offset, length };
    let requests = [
        request(10, Op::Read, 0, bytes(0, 512)),
        request(30, Op::Write, 1, bytes(512, 100)),
        request(20, Op::Write, 0, bytes(512, 100)),
        request(40, Op::Write, 0, bytes(0, 0)),
    ];
    let trace = CompiledTrace::compile(&mut Given::new(&requests), PageSize::DEFAULT).unwrap();
    let summary = trace.summary();
    assert_eq!((summary.requests, summary.zero_length_requests), (3, 1));
    assert_eq!((summary.write_requests, summary.read_bytes, summary.write_bytes), (2, 512, 200));
    assert_eq!((summary.sequential_requests, summary.time_reversals), (1, 1));
    assert_eq!((summary.first_at, summary.last_at), (Nanos(10), Nanos(30)));
}

fn any_object() -> impl Strategy<Value = Request> {
    let op = prop_oneof![Just(Op::Read), Just(Op::Write)];
    let offset = prop_oneof![3 => Just(0), 1 => 0_u64..30_000, 1 => (8_u64 << 20)..(9 << 20)];
    let id = prop_oneof![0_u64..20, Just(u64::MAX), any::<u64>()];
    (0_u64..9, op, 0_u32..3, id, offset, 0_u64..20_000).prop_map(
        |(at, op, volume, id, offset, length)| {
            request(at, op, volume, Extent::Object { id, offset, length })
        },
    )
}

proptest! {
    #[test]
    fn objects_share_no_page(requests in prop::collection::vec(any_object(), 1..300), shift in 9_u32..16) {
        let page_size = PageSize::new(1 << shift).unwrap();
        let (mut ids, mut places, mut accesses) = (HashMap::new(), vec![], vec![]);
        let mut bytes = vec![];
        for request in &requests {
            let Extent::Object { id, offset, length } = request.extent else { unreachable!() };
            let (first, count) = page_size.pages(request.extent);
            for page in first..first + count {
                let place = (request.volume, id, page);
                let next = u32::try_from(ids.len()).unwrap();
                let number = *ids.entry(place).or_insert(next);
                if number == next {
                    places.push(place);
                }
                accesses.push(Access { page: PageId(number), op: request.op, client: 0 });
                let begin = offset.max(page * page_size.bytes());
                let end = (offset + length).min((page + 1) * page_size.bytes());
                bytes.push(u32::try_from(end - begin).unwrap());
            }
        }
        let Ok(trace) = CompiledTrace::compile(&mut Given::new(&requests), page_size) else {
            prop_assert!(accesses.is_empty());
            return Ok(());
        };
        prop_assert_eq!(trace.accesses().collect::<Vec<_>>(), accesses);
        match trace.access_bytes() {
            Some(found) => prop_assert_eq!(found, bytes),
            None => prop_assert!(bytes.iter().all(|&bytes| u64::from(bytes) == page_size.bytes())),
        }
        let objects: std::collections::HashSet<(u32, u64)> =
            places.iter().map(|&(volume, id, _)| (volume, id)).collect();
        prop_assert_eq!(trace.summary().objects, objects.len() as u64);
        let is_cut = places.iter().any(|&(_, id, page)| page > 0 || id == u64::MAX);
        // Pages are as far apart as in their object, and pages of two objects never neighbours.
        let found: Vec<(u32, u64)> = (0..).take(places.len()).map(|id| trace.location(PageId(id))).collect();
        for (&(volume, id, page), &(at_volume, at)) in places.iter().zip(&found) {
            prop_assert_eq!(volume, at_volume);
            if !is_cut {
                prop_assert_eq!(at, id);
                continue;
            }
            for (&(other_volume, other, other_page), &(_, other_at)) in places.iter().zip(&found) {
                if (volume, id) == (other_volume, other) {
                    prop_assert_eq!(at.wrapping_sub(other_at), page.wrapping_sub(other_page));
                } else if volume == other_volume {
                    prop_assert!(at.abs_diff(other_at) > 1);
                }
            }
        }
    }
}

#[test]
fn objects_and_addresses_do_not_mix() {
    let object = request(0, Op::Read, 0, Extent::Object { id: 1, offset: 0, length: 1 });
    let address = request(0, Op::Read, 0, Extent::Bytes { offset: 0, length: 1 });
    for requests in [[object, address], [address, object]] {
        let error = CompiledTrace::compile(&mut Given::new(&requests), PageSize::DEFAULT);
        let message = error.unwrap_err().to_string();
        assert!(message.contains("requests to objects and to addresses in one trace"), "{message}");
    }
    let long = Extent::Object { id: 1, offset: 1 << 36, length: 1 };
    let error = CompiledTrace::compile(
        &mut Given::new(&[request(0, Op::Read, 0, long)]),
        PageSize::DEFAULT,
    );
    assert!(error.unwrap_err().to_string().contains("request 1"), "the record is named");
}
