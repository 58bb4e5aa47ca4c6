//! Worked examples: eight requests, and what becomes of each block.

use thermocline_core::kv::{KvSettings, KvTiers, Mode, Order, PrefixCache as _, Touch};
use thermocline_core::{Clients, Nanos, PageId};

use crate::work::{BLOCKS, Prompt, tiers};

const CHAINS: [&[u32]; 8] = [
    &[1, 2, 3],
    &[1, 2, 4, 5],
    &[6, 7],
    &[1, 2, 3],
    &[6, 7, 8, 9],
    &[1, 2, 10],
    &[1, 2, 4, 5, 11],
    &[6, 7],
];

/// Totals over all requests.
#[derive(Debug, PartialEq, Eq)]
struct Totals {
    hits: Vec<u32>,
    computed: u32,
    stranded: u32,
    writes: Vec<u64>,
}

/// Runs the requests, ten milliseconds apart and dealt to the engines in turn, and checks the hits of
/// each. Returns the totals and the last contents of the tiers for each engine.
fn check(settings: KvSettings, hits: &str) -> (Totals, Vec<String>) {
    let (totals, mut states, _) = run(settings, hits);
    (totals, states.pop().unwrap())
}

fn run(settings: KvSettings, hits: &str) -> (Totals, Vec<Vec<String>>, u64) {
    let (engines, depth) = (settings.engines.get(), settings.tiers.len());
    let mut cache = KvTiers::lru(BLOCKS, settings);
    let mut totals = Totals { hits: vec![0; depth], computed: 0, stranded: 0, writes: vec![] };
    let (mut all, mut states) = (vec![], vec![]);
    for (number, chain) in (0_u8..).zip(CHAINS) {
        let chain: Vec<PageId> = chain.iter().copied().map(PageId).collect();
        let prompt = Prompt { at_ms: 10 * u64::from(number), engine: number % engines, chain };
        let found = cache.request(prompt.request());
        cache.assert_invariants();
        let words: Vec<String> = found.hits[..depth].iter().map(u32::to_string).collect();
        all.push(words.join(","));
        totals.hits.iter_mut().zip(found.hits).for_each(|(total, hits)| *total += hits);
        totals.computed += prompt.chain.len() as u32 - found.hit_blocks();
        totals.stranded += found.stranded;
        let state = |engine| {
            let tier = |tier| {
                let pages = cache.contents(engine, tier).map(|page| page.0.to_string());
                pages.collect::<Vec<String>>().join(" ")
            };
            (0..depth).map(tier).collect::<Vec<String>>().join(" | ")
        };
        states.push((0..engines).map(state).collect());
    }
    assert_eq!(all.join(" "), hits);
    totals.writes = cache.writes().to_vec();
    (totals, states, cache.expired())
}

fn totals(hits: &[u32], computed: u32, stranded: u32, writes: &[u64]) -> Totals {
    Totals { hits: hits.to_vec(), computed, stranded, writes: writes.to_vec() }
}

fn in_mode(mode: Mode, capacities: &[u32]) -> KvSettings {
    KvSettings { mode, ..tiers(capacities) }
}

#[test]
fn one_tier_keeps_prefixes() {
    for mode in [Mode::Exclusive, Mode::Back, Mode::Through] {
        let (found, states, _) = run(in_mode(mode, &[5]), "0 2 0 2 2 1 2 0");
        assert_eq!(found, totals(&[9], 17, 0, &[17]));
        let expected = [
            "1 2 3",
            "1 2 4 5 3",
            "6 7 1 2 4",
            "1 2 3 6 7",
            "6 7 8 9 1",
            "1 2 10 6 7",
            "1 2 4 5 11",
            "6 7 1 2 4",
        ];
        assert_eq!(states.concat(), expected);
    }
}

#[test]
fn heads_that_are_evicted_first_strand_what_follows() {
    let settings = KvSettings { order: Order::HeadFirst, ..tiers(&[5]) };
    let (found, last) = check(settings, "0 2 0 0 2 0 2 0");
    assert_eq!(found, totals(&[6], 20, 1, &[19]));
    assert_eq!(last, ["7 6 11 5 4"]);
}

#[test]
fn exclusive_tiers_hand_down_what_they_evict() {
    let hits = "0,0 2,0 0,0 1,2 0,2 0,2 2,0 0,1";
    let (found, states, _) = run(tiers(&[3, 4]), hits);
    assert_eq!(found, totals(&[5, 7], 14, 0, &[21, 18]));
    let expected = [
        "1 2 3 | ",
        "1 2 4 | 5 3",
        "6 7 1 | 2 4 5 3",
        "1 2 3 | 6 7 4 5",
        "6 7 8 | 9 1 2 3",
        "1 2 10 | 6 7 8 9",
        "1 2 4 | 5 11 10 6",
        "6 7 1 | 2 4 5 11",
    ];
    assert_eq!(states.concat(), expected);
    let (found, last) = check(in_mode(Mode::Back, &[3, 4]), hits);
    assert_eq!(found, totals(&[5, 7], 14, 0, &[21, 16]));
    assert_eq!(last, ["6 7 1 | 2 4 6 5"]);
}

#[test]
fn write_through_fills_every_tier() {
    let through = in_mode(Mode::Through, &[3, 6]);
    let (found, last) = check(through.clone(), "0,0 2,0 0,0 1,1 0,2 0,2 2,0 0,0");
    assert_eq!(found, totals(&[5, 5], 16, 0, &[21, 16]));
    assert_eq!(last, ["6 7 1 | 6 7 1 2 4 5"]);
    let served = KvSettings { touch: Touch::Served, ..through };
    let (found, _) = check(served, "0,0 2,0 0,0 1,1 0,2 0,0 2,0 0,0");
    assert_eq!(found, totals(&[5, 3], 18, 1, &[21, 17]));
}

#[test]
fn a_tier_may_wait_for_the_second_use() {
    let mut second = in_mode(Mode::Through, &[3, 6]);
    second.tiers[1].admit_uses = 2;
    let (found, states, _) = run(second.clone(), "0,0 2,0 0,0 1,1 0,0 0,2 2,0 0,0");
    assert_eq!(found, totals(&[5, 3], 18, 0, &[21, 2]));
    assert!(states[1..].iter().all(|state| state[0].ends_with("| 1 2")));
    second.ghost_blocks = 10;
    let (found, states, _) = run(second, "0,0 2,0 0,0 1,1 0,0 0,2 2,0 0,2");
    assert_eq!(found, totals(&[5, 5], 16, 0, &[21, 7]));
    let second: Vec<&str> = states[3..].iter().map(|s| s[0].split(" | ").nth(1).unwrap()).collect();
    assert_eq!(second, ["1 2 3", "6 7 1 2 3", "1 2 6 7 3", "1 2 4 5 6 7", "6 7 1 2 4 5"]);
}

#[test]
fn engines_share_the_tiers_below_their_own() {
    let two = |mode| KvSettings { engines: Clients::new(2).unwrap(), ..in_mode(mode, &[3, 6]) };
    let (found, last) = check(two(Mode::Through), "0,0 0,2 0,0 2,0 2,0 2,0 0,2 0,0");
    assert_eq!(found, totals(&[6, 4], 16, 0, &[20, 16]));
    assert_eq!(last, ["1 2 4 | 6 7 1 2 4 5", "6 7 1 | 6 7 1 2 4 5"]);
    let (found, last) = check(two(Mode::Exclusive), "0,0 0,0 0,0 2,1 2,0 2,0 0,0 0,2");
    assert_eq!(found, totals(&[6, 3], 17, 2, &[20, 14]));
    assert!(last[0].ends_with("| 2 10 5 11 8 3"));
    let mut short = two(Mode::Back);
    short.tiers[1].ttl = Some(Nanos(25_000_000));
    let (found, _, expired) = run(short, "0,0 0,0 0,0 2,0 2,0 2,0 0,0 0,0");
    assert_eq!((found.hits, expired), (vec![6, 0], 10));
}

/// A copy that one engine hands down replaces a newer one that another engine took back.
#[test]
fn a_copy_is_as_old_as_its_own_last_use() {
    let two = Clients::new(2).unwrap();
    let mut settings = KvSettings { engines: two, ..tiers(&[1, 4]) };
    settings.tiers[1].ttl = Some(Nanos(25_000_000));
    let mut cache = KvTiers::lru(BLOCKS, settings);
    let mut hits = |at_ms, engine, page| {
        let prompt = Prompt { at_ms, engine, chain: vec![PageId(page)] };
        cache.request(prompt.request()).hits[..2].to_vec()
    };
    assert_eq!(hits(0, 0, 1), [0, 0]);
    assert_eq!(hits(10, 1, 1), [0, 0]);
    assert_eq!(hits(20, 1, 2), [0, 0], "block 1 goes down, used at 10");
    assert_eq!(hits(21, 1, 1), [0, 1], "and up again");
    assert_eq!(hits(30, 0, 3), [0, 0], "block 1 of the other engine goes down, used at 0");
    assert_eq!(hits(32, 0, 1), [0, 0], "it was kept for 25 ms");
    assert_eq!(cache.expired(), 1);
}
