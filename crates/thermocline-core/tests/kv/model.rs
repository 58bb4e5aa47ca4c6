//! The executable specification: tiers as plain lists, one rule after the other, and the implementation
//! beside it.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use thermocline_core::kv::{
    KvFound, KvSettings, KvTier, KvTiers, Matching, Mode, Order, PrefixCache as _, Touch, Victim,
};
use thermocline_core::{Clients, Nanos, PageId};

use crate::work::{BLOCKS, Prompt, prompts, tiers};

/// A copy, with the time of its last use.
type Copy = (PageId, u64);

/// Tiers as lists of copies, the most recently used first.
pub(crate) struct Model {
    settings: KvSettings,
    /// Per tier and engine; a shared tier is that of engine 0.
    lists: Vec<Vec<Vec<Copy>>>,
    uses: BTreeMap<PageId, u32>,
    ghosts: Vec<PageId>,
    parents: BTreeMap<PageId, Option<PageId>>,
    pub(crate) writes: Vec<u64>,
    pub(crate) expired: u64,
    /// Places that a block of the request in progress was taken out of.
    taken: BTreeSet<(PageId, usize)>,
}

impl Model {
    pub(crate) fn new(settings: KvSettings) -> Self {
        let engines = usize::from(settings.engines.get());
        let tiers = settings.tiers.len();
        Self {
            settings,
            lists: vec![vec![vec![]; engines]; tiers],
            uses: BTreeMap::new(),
            ghosts: vec![],
            parents: BTreeMap::new(),
            writes: vec![0; tiers],
            expired: 0,
            taken: BTreeSet::new(),
        }
    }

    fn owner(&self, engine: u8, tier: usize) -> usize {
        if tier < self.settings.private_tiers { engine.into() } else { 0 }
    }

    fn list(&mut self, engine: u8, tier: usize) -> &mut Vec<Copy> {
        let owner = self.owner(engine, tier);
        &mut self.lists[tier][owner]
    }

    pub(crate) fn contents(&self, engine: u8, tier: usize) -> Vec<PageId> {
        let list = &self.lists[tier][self.owner(engine, tier)];
        list.iter().map(|(page, _)| *page).collect()
    }

    fn holds(&self, engine: u8, tier: usize, page: PageId) -> bool {
        self.contents(engine, tier).contains(&page)
    }

    fn remove(&mut self, engine: u8, tier: usize, page: PageId) -> Option<u64> {
        let list = self.list(engine, tier);
        let place = list.iter().position(|(known, _)| *known == page)?;
        Some(list.remove(place).1)
    }

    fn uses(&self, page: PageId) -> u32 {
        self.uses.get(&page).copied().unwrap_or(0)
    }

    pub(crate) fn request(&mut self, prompt: &Prompt) -> KvFound {
        let Prompt { at_ms: now, ref chain, .. } = *prompt;
        let before = self.everything();
        self.expire(now);
        let (found, hits) = self.look_up(prompt);
        for (index, page) in chain.iter().enumerate() {
            *self.uses.entry(*page).or_default() += 1;
            let parent = index.checked_sub(1).map(|index| chain[index]);
            self.parents.entry(*page).or_insert(parent);
        }
        let mut order: Vec<(usize, PageId)> = chain.iter().copied().enumerate().collect();
        if self.settings.order == Order::TailFirst {
            order.reverse();
        }
        match self.settings.mode {
            Mode::Exclusive => self.clear_for_exclusive(prompt),
            Mode::Back => self.refresh_for_back(prompt, &hits, &order),
            Mode::Through => self.write_through(prompt, &hits, &order),
        }
        if self.settings.mode != Mode::Through {
            for &(_, page) in &order {
                self.insert(prompt.engine, 0, page, now);
            }
        }
        self.taken.clear();
        self.settle(before, chain);
        found
    }

    fn expire(&mut self, now: u64) {
        for (tier, lists) in self.settings.tiers.iter().zip(&mut self.lists) {
            let Some(Nanos(ttl)) = tier.ttl else { continue };
            for list in lists {
                let count = list.len();
                list.retain(|(_, last)| (now - last) * 1_000_000 <= ttl);
                self.expired += (count - list.len()) as u64;
            }
        }
    }

    /// Return the hits, and the tier of each.
    fn look_up(&self, prompt: &Prompt) -> (KvFound, Vec<usize>) {
        let Prompt { engine, ref chain, .. } = *prompt;
        let depth = self.lists.len();
        let mut found = KvFound::default();
        let mut hits = vec![];
        for &page in chain {
            let from = match self.settings.matching {
                Matching::Cascade => hits.last().copied().unwrap_or(0),
                Matching::Mixed => 0,
            };
            let Some(tier) = (from..depth).find(|&tier| self.holds(engine, tier, page)) else {
                break;
            };
            hits.push(tier);
            found.hits[tier] += 1;
        }
        let rest = chain[hits.len()..].iter();
        let is_stranded = |page: &&PageId| (0..depth).any(|tier| self.holds(engine, tier, **page));
        found.stranded = rest.filter(is_stranded).count() as u32;
        (found, hits)
    }

    /// Copies that go up leave the lower tiers; those of the first tier are only put back.
    fn clear_for_exclusive(&mut self, prompt: &Prompt) {
        for &page in &prompt.chain {
            for tier in 0..self.lists.len() {
                if self.remove(prompt.engine, tier, page).is_some() && tier == 0 {
                    self.taken.insert((page, tier));
                }
            }
        }
    }

    fn refresh_for_back(&mut self, prompt: &Prompt, hits: &[usize], order: &[(usize, PageId)]) {
        for (index, &page) in prompt.chain.iter().enumerate() {
            for tier in [0].into_iter().chain(hits.get(index).copied()) {
                if self.remove(prompt.engine, tier, page).is_some() {
                    self.taken.insert((page, tier));
                }
            }
        }
        for tier in (1..self.lists.len()).rev() {
            for &(index, page) in order {
                if hits.get(index) == Some(&tier) {
                    self.insert(prompt.engine, tier, page, prompt.at_ms);
                }
            }
        }
    }

    fn write_through(&mut self, prompt: &Prompt, hits: &[usize], order: &[(usize, PageId)]) {
        let Prompt { at_ms: now, engine, .. } = *prompt;
        let depth = self.lists.len();
        let touch = self.settings.touch;
        let served = |index: usize| hits.get(index).copied().unwrap_or(depth - 1);
        let renews = |tier, index| touch == Touch::All || tier <= served(index);
        for tier in (0..depth).rev() {
            let wanted = self.settings.tiers[tier].admit_uses;
            let mut entering = vec![];
            for &(index, page) in order {
                let is_here = self.holds(engine, tier, page);
                if if is_here { renews(tier, index) } else { self.uses(page) >= wanted } {
                    entering.push(page);
                }
            }
            for &page in &entering {
                if self.remove(engine, tier, page).is_some() {
                    self.taken.insert((page, tier));
                }
            }
            for page in entering {
                self.insert(engine, tier, page, now);
            }
        }
    }

    /// Puts a block that is not there at the recent end, and makes room.
    fn insert(&mut self, engine: u8, tier: usize, page: PageId, used_at: u64) {
        if !self.taken.remove(&(page, tier)) {
            self.writes[tier] += 1;
        }
        self.list(engine, tier).insert(0, (page, used_at));
        let KvTier { fill_pages, batch_pages, .. } = self.settings.tiers[tier];
        if self.list(engine, tier).len() <= fill_pages as usize {
            return;
        }
        for _ in 0..batch_pages {
            let Some(victim) = self.victim(engine, tier) else { break };
            let last = self.remove(engine, tier, victim).unwrap();
            if self.settings.mode != Mode::Through {
                self.demote(engine, tier + 1, victim, last);
            }
        }
    }

    fn victim(&self, engine: u8, tier: usize) -> Option<PageId> {
        let list = self.contents(engine, tier);
        let mut victim = *list.last()?;
        if self.settings.victim == Victim::Leaf {
            let child_of = |victim: PageId| {
                let mut oldest_first = list.iter().rev();
                oldest_first.find(|page| self.parents[page] == Some(victim)).copied()
            };
            while let Some(child) = child_of(victim) {
                victim = child;
            }
        }
        Some(victim)
    }

    fn demote(&mut self, engine: u8, tier: usize, page: PageId, last: u64) {
        if tier == self.lists.len() {
            return;
        }
        if let Some(own) = self.remove(engine, tier, page) {
            self.list(engine, tier).insert(0, (page, own.max(last)));
        } else if self.uses(page) >= self.settings.tiers[tier].admit_uses {
            self.insert(engine, tier, page, last);
        }
    }

    fn everything(&self) -> BTreeSet<PageId> {
        self.lists.iter().flatten().flatten().map(|(page, _)| *page).collect()
    }

    /// Turn blocks that left into ghosts, and ghosts that came back into blocks.
    fn settle(&mut self, mut before: BTreeSet<PageId>, chain: &[PageId]) {
        let held = self.everything();
        before.extend(chain);
        for page in before {
            self.ghosts.retain(|ghost| *ghost != page);
            if !held.contains(&page) {
                self.ghosts.push(page);
            }
        }
        while self.ghosts.len() > self.settings.ghost_blocks as usize {
            self.uses.remove(&self.ghosts.remove(0));
        }
    }
}

/// Settings of every kind.
fn settings() -> impl Strategy<Value = KvSettings> {
    let tier = (0_u32..9, 1_u32..4, prop::option::of(1_u64..120), 0_u32..3, 1_u32..4);
    let tier = tier.prop_map(|(capacity_pages, admit_uses, ttl, spare, batch_pages)| KvTier {
        capacity_pages,
        admit_uses,
        ttl: ttl.map(|ms| Nanos(ms * 1_000_000)),
        fill_pages: capacity_pages.saturating_sub(spare),
        batch_pages,
    });
    let tiers = prop::collection::vec(tier, 1..4);
    let words = (
        prop::sample::select(vec![Mode::Exclusive, Mode::Back, Mode::Through]),
        prop::sample::select(vec![Order::TailFirst, Order::HeadFirst]),
        prop::sample::select(vec![Matching::Cascade, Matching::Mixed]),
        prop::sample::select(vec![Touch::All, Touch::Served]),
        prop::sample::select(vec![Victim::Oldest, Victim::Leaf]),
    );
    (tiers, words, 1_usize..4, any::<prop::sample::Index>(), 0_u32..20).prop_map(
        |(tiers, (mode, order, matching, touch, victim), engines, private, ghost_blocks)| {
            KvSettings {
                private_tiers: 1 + private.index(tiers.len()),
                engines: Clients::new(engines).unwrap(),
                tiers,
                mode,
                order,
                matching,
                touch,
                victim,
                ghost_blocks,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn tiers_do_what_the_specification_says(settings in settings(), prompts in prompts(3)) {
        let engines = settings.engines.get();
        let mut model = Model::new(settings.clone());
        let mut cache = KvTiers::lru(BLOCKS, settings.clone());
        for mut prompt in prompts {
            prompt.engine %= engines;
            prop_assert_eq!(cache.request(prompt.request()), model.request(&prompt));
            cache.assert_invariants();
            prop_assert_eq!(cache.writes(), &model.writes);
            prop_assert_eq!(cache.expired(), model.expired);
            for engine in 0..engines {
                for tier in 0..settings.tiers.len() {
                    let contents: Vec<PageId> = cache.contents(engine, tier).collect();
                    prop_assert_eq!(contents, model.contents(engine, tier));
                }
            }
        }
    }
}

#[test]
fn a_tier_without_room_passes_blocks_on() {
    let mut cache = KvTiers::lru(BLOCKS, tiers(&[0, 2]));
    let prompt = Prompt { at_ms: 0, engine: 0, chain: vec![PageId(1), PageId(2)] };
    assert_eq!(cache.request(prompt.request()).hit_blocks(), 0);
    assert_eq!(cache.request(prompt.request()).hits[..2], [0, 2]);
}
