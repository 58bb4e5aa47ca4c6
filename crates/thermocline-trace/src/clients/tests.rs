//! Merging against a sort, dealing against counting, and what is refused.

use proptest::prelude::*;
use thermocline_core::{Access, Op};

use super::*;
use crate::Extent;
use crate::compile::tests::{Given, request};

fn clients(number: usize) -> Clients {
    Clients::new(number).unwrap()
}

/// Return the client of each access, with its page and volume.
fn story(trace: &CompiledTrace) -> Vec<(u8, u32, u64)> {
    let told = |access: Access| {
        let (volume, page) = trace.location(access.page);
        (access.client, volume, page)
    };
    trace.accesses().map(told).collect()
}

fn page(at: u64, volume: u32, first: u64) -> Request {
    request(at, Op::Read, volume, Extent::Pages { first, count: 1 })
}

fn merge(traces: &[&[Request]], addresses: AddressSpace) -> Result<CompiledTrace, TraceError> {
    let mut sources: Vec<Given> = traces.iter().map(|requests| Given::new(requests)).collect();
    CompiledTrace::compile_clients(&mut sources, PageSize::DEFAULT, addresses)
}

proptest! {
    /// Traces in order of time: all requests by time, then by turn, then by client.
    #[test]
    fn traces_are_merged_by_time(
        steps in prop::collection::vec(
            prop::collection::vec((0_u64..3, 0_u32..2, 0_u64..20, 1_u64..4), 1..40), 1..6,
        ),
        is_private in any::<bool>(),
    ) {
        let (mut traces, mut expected) = (vec![], vec![]);
        for (client, steps) in (0_u8..).zip(&steps) {
            let (mut at, mut turn, mut requests) = (1, 0, vec![]);
            for &(later, volume, first, count) in steps {
                turn = if later == 0 { turn + 1 } else { 0 };
                at += later;
                requests.push(request(at, Op::Read, volume, Extent::Pages { first, count }));
                expected.push((at, turn, client, volume, first, count));
            }
            traces.push(requests);
        }
        expected.sort_unstable_by_key(|&(at, turn, client, ..)| (at, turn, client));
        let addresses = if is_private { AddressSpace::Private } else { AddressSpace::Shared };
        let traces: Vec<&[Request]> = traces.iter().map(Vec::as_slice).collect();
        let trace = merge(&traces, addresses).unwrap();
        prop_assert_eq!(usize::from(trace.clients().get()), traces.len());
        let name = |client: u8, volume: u32| {
            if is_private { format!("client {client}: v{volume}") } else { format!("v{volume}") }
        };
        let expected: Vec<(u8, String, u64)> = expected
            .iter()
            .flat_map(|&(_, _, client, volume, first, count)| {
                (first..first + count).map(move |page| (client, name(client, volume), page))
            })
            .collect();
        let named = |(client, volume, page): (u8, u32, u64)| {
            (client, trace.volume_names()[volume as usize].clone(), page)
        };
        let found: Vec<_> = story(&trace).into_iter().map(named).collect();
        prop_assert_eq!(found, expected);
        let by_index: Vec<Access> = (0..trace.len()).map(|index| trace.access(index)).collect();
        prop_assert_eq!(&by_index, &trace.accesses().collect::<Vec<_>>());
        prop_assert_eq!(&by_index[1..], trace.accesses().skip(1).collect::<Vec<_>>());
    }

    #[test]
    fn requests_are_dealt_in_turn(
        requests in prop::collection::vec((0_u32..4, 0_u64..50, 1_u64..4), 1..60),
        number in 1_usize..5,
    ) {
        let extent = |first, count| Extent::Pages { first, count };
        let requests: Vec<Request> = requests
            .iter()
            .map(|&(volume, first, count)| request(0, Op::Read, volume, extent(first, count)))
            .collect();
        let whole = CompiledTrace::compile(&mut Given::new(&requests), PageSize::DEFAULT).unwrap();
        let dealt = whole.clone().split(clients(number), Split::RoundRobin).unwrap();
        let alone = dealt.clone().split(Clients::ONE, Split::RoundRobin).unwrap();
        prop_assert!(alone.accesses().eq(whole.accesses()));
        let mut accesses = dealt.accesses().map(|access| usize::from(access.client));
        for (index, request) in requests.iter().enumerate() {
            for _ in 0..PageSize::DEFAULT.pages(request.extent).1 {
                prop_assert_eq!(accesses.next(), Some(index % number));
            }
        }
        let mut seen: Vec<u32> = vec![];
        for request in &requests {
            if !seen.contains(&request.volume) {
                seen.push(request.volume);
            }
        }
        match whole.split(clients(number), Split::Volume) {
            Ok(dealt) => {
                for (client, volume, _) in story(&dealt) {
                    let turn = seen.iter().position(|&known| known == volume).unwrap();
                    prop_assert_eq!(usize::from(client), turn % number);
                }
            }
            Err(error) => {
                prop_assert!(seen.len() < number);
                let said = format!("{} volume(s)", seen.len());
                prop_assert!(error.to_string().contains(&said), "{error}");
            }
        }
    }
}

/// Requests of one time take turns; so do traces without any time.
#[test]
fn traces_without_times_take_turns() {
    let trace = merge(
        &[&[page(0, 0, 1), page(0, 0, 2), page(0, 0, 3)], &[page(0, 0, 1)]],
        AddressSpace::Shared,
    );
    let trace = trace.unwrap();
    assert_eq!(story(&trace), [(0, 0, 1), (1, 0, 1), (0, 0, 2), (0, 0, 3)]);
    assert_eq!(trace.footprint_pages(), 3);
    assert_eq!(trace.path().display().to_string(), "given + given");
}

/// A trace that goes back in time keeps its order.
#[test]
fn a_trace_keeps_its_order() {
    let traces: [&[Request]; 2] =
        [&[page(5, 0, 1), page(1, 0, 2)], &[page(3, 0, 3), page(6, 0, 4)]];
    let trace = merge(&traces, AddressSpace::Shared).unwrap();
    assert_eq!(story(&trace), [(1, 0, 3), (0, 0, 1), (0, 0, 2), (1, 0, 4)]);
}

#[test]
fn what_cannot_be_merged_is_refused() {
    let timed: &[Request] = &[page(5, 0, 1)];
    let untimed: &[Request] = &[page(0, 0, 1)];
    let fails = |traces: &[&[Request]], expected: &str| {
        let error = merge(traces, AddressSpace::Shared).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    fails(&[timed, untimed], "has none");
    fails(&[timed; 17], "from 1 to 16");
    fails(&[], "from 1 to 16");
    let long = request(7, Op::Read, 0, Extent::Pages { first: 0, count: REQUEST_PAGES_MAX + 1 });
    fails(&[timed, &[page(2, 0, 1), long]], "request 2");
}

/// A trace of several clients would be another one when it is opened again.
#[test]
fn whose_access_is_whose_is_not_saved() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.parquet");
    let trace = merge(&[&[page(1, 0, 1)], &[page(2, 0, 1)]], AddressSpace::Shared).unwrap();
    assert!(trace.save(&path).unwrap_err().to_string().contains("split"));
    assert!(!path.exists());
}
