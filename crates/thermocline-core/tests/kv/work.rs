//! Requests for tests, and tiers by a few words.

use proptest::prelude::*;
use thermocline_core::kv::{KvRequest, KvSettings, KvTier};
use thermocline_core::{Nanos, PageId};

/// A prompt of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prompt {
    pub(crate) at_ms: u64,
    pub(crate) engine: u8,
    pub(crate) chain: Vec<PageId>,
}

impl Prompt {
    pub(crate) fn request(&self) -> KvRequest<'_> {
        let at = Nanos(self.at_ms * 1_000_000);
        KvRequest { at, engine: self.engine, chain: &self.chain }
    }
}

/// Blocks have ids below this.
pub(crate) const BLOCKS: u32 = 64;

/// Tiers of these capacities, the fastest first.
pub(crate) fn tiers(capacities: &[u32]) -> KvSettings {
    KvSettings::new(capacities.iter().copied().map(KvTier::new).collect())
}

/// Prompts that share prefixes: each follows a random tree of blocks, whose ids are dealt out at random.
pub(crate) fn prompts(engines: u8) -> impl Strategy<Value = Vec<Prompt>> {
    let parents = prop::collection::vec(any::<prop::sample::Index>(), BLOCKS as usize - 1);
    let names = Just((0..BLOCKS).collect::<Vec<u32>>()).prop_shuffle();
    let leaf = any::<prop::sample::Index>();
    let requests = prop::collection::vec((leaf, 0..engines, 0_u64..40), 1..60);
    (parents, names, requests).prop_map(|(parents, names, requests)| {
        let parent = |node: usize| (node > 0).then(|| parents[node - 1].index(node + 1));
        // A parent that is the node itself makes the node the first of its chains.
        let parent = |node: usize| parent(node).filter(|&parent| parent < node);
        let mut at_ms = 0;
        let prompt = |(leaf, engine, gap_ms): (prop::sample::Index, u8, u64)| {
            at_ms += gap_ms;
            let path =
                std::iter::successors(Some(leaf.index(BLOCKS as usize)), |&node| parent(node));
            let mut chain: Vec<PageId> = path.map(|node| PageId(names[node])).collect();
            chain.reverse();
            Prompt { at_ms, engine, chain }
        };
        requests.into_iter().map(prompt).collect()
    })
}
