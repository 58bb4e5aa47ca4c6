//! Properties of tiers of blocks under any requests.

use proptest::prelude::*;
use thermocline_core::kv::{
    KvFound, KvSettings, KvTiers, Matching, Mode, Order, PrefixCache as _, Touch,
};
use thermocline_core::{Access, Actions, Clients, Ledger, Op, PageId, Tier};

use crate::work::{BLOCKS, Prompt, prompts, tiers};

fn all(settings: &KvSettings, prompts: &[Prompt]) -> (Vec<KvFound>, Vec<u64>) {
    let mut cache = KvTiers::lru(BLOCKS, settings.clone());
    let found = prompts.iter().map(|prompt| cache.request(prompt.request())).collect();
    (found, cache.writes().to_vec())
}

fn hits(settings: &KvSettings, prompts: &[Prompt]) -> Vec<u32> {
    let (found, _) = all(settings, prompts);
    let of_tier = |tier| found.iter().map(|found| found.hits[tier]).sum();
    (0..settings.tiers.len()).map(of_tier).collect()
}

fn modes() -> impl Strategy<Value = Mode> {
    prop::sample::select(vec![Mode::Exclusive, Mode::Back, Mode::Through])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn one_engine_strands_nothing(
        mode in modes(), capacities in prop::collection::vec(0_u32..12, 1..4), prompts in prompts(1),
    ) {
        let cascade = KvSettings { mode, ..tiers(&capacities) };
        let mixed = KvSettings { matching: Matching::Mixed, ..cascade.clone() };
        let (found, writes) = all(&cascade, &prompts);
        prop_assert!(found.iter().all(|found| found.stranded == 0));
        let blocks: u64 = prompts.iter().map(|prompt| prompt.chain.len() as u64).sum();
        let first: u64 = found.iter().map(|found| u64::from(found.hits[0])).sum();
        prop_assert_eq!(writes[0], blocks - first);
        prop_assert_eq!(found, all(&mixed, &prompts).0);
    }

    #[test]
    fn exclusive_tiers_hit_like_one(
        capacities in prop::collection::vec(0_u32..12, 1..5), prompts in prompts(1),
    ) {
        let hits_of_all = hits(&tiers(&capacities), &prompts);
        for depth in 1..=capacities.len() {
            let one = tiers(&[capacities[..depth].iter().sum()]);
            let upper: u32 = hits_of_all[..depth].iter().sum();
            prop_assert_eq!(upper, hits(&one, &prompts)[0]);
        }
    }

    #[test]
    fn write_through_tiers_hit_like_the_largest(
        mut capacities in prop::collection::vec(0_u32..16, 1..4), prompts in prompts(1),
    ) {
        capacities.sort_unstable();
        let settings = KvSettings { mode: Mode::Through, ..tiers(&capacities) };
        let mut cache = KvTiers::lru(BLOCKS, settings.clone());
        for prompt in &prompts {
            cache.request(prompt.request());
            for page in (0..BLOCKS).map(PageId) {
                for tier in 1..capacities.len() {
                    let is_below = cache.holds(0, tier, page);
                    prop_assert!(!cache.holds(0, tier - 1, page) || is_below, "inclusion");
                }
            }
        }
        let one = tiers(&[*capacities.last().unwrap()]);
        let total: u32 = hits(&settings, &prompts).iter().sum();
        prop_assert_eq!(total, hits(&one, &prompts)[0]);
    }

    #[test]
    fn a_tier_without_room_changes_no_hit(
        mode in modes(), above in 1_u32..8, below in 1_u32..12, prompts in prompts(1),
    ) {
        let two = hits(&KvSettings { mode, ..tiers(&[above, below]) }, &prompts);
        let three = hits(&KvSettings { mode, ..tiers(&[above, 0, below]) }, &prompts);
        prop_assert_eq!([three[0], three[2]], [two[0], two[1]]);
        prop_assert_eq!(three[1], 0);
    }

    #[test]
    fn an_idle_engine_changes_nothing(mode in modes(), prompts in prompts(2)) {
        let engines = |engines| KvSettings {
            engines: Clients::new(engines).unwrap(), mode, ..tiers(&[4, 9])
        };
        prop_assert_eq!(all(&engines(2), &prompts), all(&engines(5), &prompts));
    }

    /// The ledger follows every move: what is found is where it says, capacities hold, no copy comes from
    /// nowhere.
    #[test]
    fn the_ledger_agrees(
        mode in modes(),
        order in prop::sample::select(vec![Order::TailFirst, Order::HeadFirst]),
        touch in prop::sample::select(vec![Touch::All, Touch::Served]),
        admit_uses in 1_u32..3,
        engines in 1_usize..4,
        capacities in prop::collection::vec(1_u32..10, 1..4),
        prompts in prompts(3),
    ) {
        let engines = Clients::new(engines).unwrap();
        let mut settings = KvSettings {
            engines, mode, order, touch, matching: Matching::Mixed, ..tiers(&capacities)
        };
        settings.tiers.last_mut().unwrap().admit_uses = admit_uses;
        let mut ledger = Ledger::of_clients(BLOCKS, &capacities, engines);
        let shared = engines.get()..engines.get() + capacities.len() as u8 - 1;
        let disk = Tier(shared.end);
        let mut cache = KvTiers::lru(BLOCKS, settings);
        let mut moves = Actions::new();
        for mut prompt in prompts {
            prompt.engine %= engines.get();
            let engine = prompt.engine;
            for &page in &prompt.chain {
                let tier = (0..capacities.len()).find(|&tier| cache.holds(engine, tier, page));
                let found = match tier {
                    Some(0) => Tier(engine),
                    Some(tier) => Tier(engines.get() + tier as u8 - 1),
                    None => disk,
                };
                moves.clear();
                moves.serve(page, Op::Read, found, found);
                let checked = ledger.access(Access::read(page.0).by(engine), &moves);
                prop_assert!(checked.is_ok(), "{:?}", checked);
            }
            moves.clear();
            cache.request_with_moves(prompt.request(), &mut moves);
            let checked = ledger.between_accesses(&moves);
            prop_assert!(checked.is_ok(), "{:?} {:?}", checked, moves);
        }
        let writes: Vec<u64> = cache.writes().to_vec();
        let count = |tier: Tier| ledger.counts().page_writes(tier);
        let firsts: u64 = (0..engines.get()).map(|engine| count(Tier(engine))).sum();
        let shared = shared.map(|tier| count(Tier(tier)));
        prop_assert_eq!(writes, [firsts].into_iter().chain(shared).collect::<Vec<u64>>());
    }
}
