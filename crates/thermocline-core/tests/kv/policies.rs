//! Policies of the registry, and replacement algorithms, before chains.

use proptest::prelude::*;
use thermocline_core::Clients;
use thermocline_core::config::Values;
use thermocline_core::kv::{KvSettings, KvTiers, Mode, PolicyTiers, PrefixCache};
use thermocline_core::policy::single::ALGORITHMS;
use thermocline_core::registry::{self, Depth, Future};

use crate::work::{BLOCKS, Prompt, prompts, tiers};

fn policy(name: &str, settings: KvSettings) -> PolicyTiers {
    let entry = registry::find(name).unwrap();
    PolicyTiers::new(entry, &entry.values(&[]).unwrap(), BLOCKS, settings).unwrap()
}

fn hits(cache: &mut dyn PrefixCache, prompts: &[Prompt]) -> Vec<[u32; 3]> {
    let one = |prompt: &Prompt| cache.request(prompt.request()).hits[..3].try_into().unwrap();
    prompts.iter().map(one).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// DEMOTE is an exclusive hierarchy of LRU; it sees accesses, and the tiers see chains.
    #[test]
    fn demote_hits_like_exclusive_tiers(
        capacities in prop::collection::vec(1_u32..10, 2..4), prompts in prompts(1),
    ) {
        let mut demote = policy("demote", tiers(&capacities));
        let mut exclusive = KvTiers::lru(BLOCKS, tiers(&capacities));
        prop_assert_eq!(hits(&mut demote, &prompts), hits(&mut exclusive, &prompts));
    }

    /// LRU as an algorithm hits like LRU as an order, in a tier that is filled by itself alone.
    #[test]
    fn an_algorithm_is_that_of_each_tier(
        capacities in prop::collection::vec(1_u32..12, 1..4), prompts in prompts(1),
    ) {
        let settings = KvSettings { mode: Mode::Through, ..tiers(&capacities) };
        let lru = ALGORITHMS.iter().find(|algorithm| algorithm.name() == "lru").unwrap();
        let values = Values::defaults(lru.parameters);
        let mut algorithm = KvTiers::of(lru, &values, BLOCKS, settings.clone());
        let mut order = KvTiers::lru(BLOCKS, settings);
        prop_assert_eq!(hits(&mut algorithm, &prompts), hits(&mut order, &prompts));
    }

    /// The tiers stay consistent under every algorithm's refusals and evictions.
    #[test]
    fn every_algorithm_runs_in_every_mode(
        mode in prop::sample::select(vec![Mode::Exclusive, Mode::Back, Mode::Through]),
        capacities in prop::collection::vec(0_u32..10, 1..4),
        engines in 1_usize..3,
        prompts in prompts(2),
    ) {
        let engines = Clients::new(engines).unwrap();
        let mut settings = KvSettings { mode, engines, ..tiers(&capacities) };
        settings.tiers.last_mut().unwrap().admit_uses = 2;
        for algorithm in ALGORITHMS {
            let values = Values::defaults(algorithm.parameters);
            let mut cache = KvTiers::of(algorithm, &values, BLOCKS, settings.clone());
            for prompt in &prompts {
                let engine = prompt.engine % engines.get();
                let prompt = Prompt { engine, ..prompt.clone() };
                let blocks = prompt.chain.len() as u32;
                let found = cache.request(prompt.request());
                prop_assert!(found.hit_blocks() + found.stranded <= blocks);
                cache.assert_invariants();
            }
        }
    }

    /// Every policy of several tiers runs on chains, and the ledger takes its actions.
    #[test]
    fn every_policy_of_tiers_runs(prompts in prompts(2), engines in 1_usize..3) {
        let engines = Clients::new(engines).unwrap();
        let is_of_tiers = |depth| matches!(depth, Depth::Tiers | Depth::RamFlash);
        let entries = registry::entries().filter(|entry| is_of_tiers(entry.capabilities.depth));
        for entry in entries.filter(|entry| entry.capabilities.future == Future::Unknown) {
            let settings = KvSettings { engines, ..tiers(&[4, 9]) };
            let values = entry.values(&[]).unwrap();
            let Ok(mut cache) = PolicyTiers::new(entry, &values, BLOCKS, settings) else { continue };
            cache.check();
            for prompt in &prompts {
                let engine = prompt.engine % engines.get();
                let prompt = Prompt { engine, ..prompt.clone() };
                cache.request(prompt.request());
                cache.assert_invariants();
            }
            prop_assert_eq!(cache.violation(), None, "{}", &entry.name);
        }
    }
}
