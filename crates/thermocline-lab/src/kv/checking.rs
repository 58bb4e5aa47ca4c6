//! The Ledger over chains: what tiers of blocks say they found and moved, against a model of them.

use thermocline_core::kv::{KvFound, KvRequest, KvSettings, Matching, PrefixCache};
use thermocline_core::{Access, Actions, Ledger, Op, PageId, Tier, Violation};

/// A Ledger that follows tiers of blocks.
#[derive(Debug)]
pub(super) struct Checker {
    ledger: Ledger,
    settings: KvSettings,
    moves: Actions,
}

/// Fault of an answer.
#[derive(Debug)]
pub(super) enum Wrong {
    /// The Ledger refuses a move.
    Violation(Violation),
    /// The hits are not those of the blocks that the tiers held.
    Hits(String),
}

impl Checker {
    /// Create a Ledger of empty tiers, of which engines have one for themselves.
    pub(super) fn new(blocks: u32, settings: &KvSettings) -> Self {
        let capacities: Vec<u32> = settings.tiers.iter().map(|tier| tier.capacity_pages).collect();
        Self {
            ledger: Ledger::of_clients(blocks, &capacities, settings.engines),
            settings: settings.clone(),
            moves: Actions::new(),
        }
    }

    /// Answers a request, and checks the answer and every move.
    pub(super) fn request(
        &mut self,
        cache: &mut dyn PrefixCache,
        request: KvRequest<'_>,
    ) -> Result<KvFound, Wrong> {
        let expected = self.look_up(cache, request)?;
        self.moves.clear();
        let found = cache.request_with_moves(request, &mut self.moves);
        self.ledger.between_accesses(&self.moves).map_err(Wrong::Violation)?;
        // Copies that grew too old leave before the lookup, which cannot be seen from here.
        let is_kept = self.settings.tiers.iter().all(|tier| tier.ttl.is_none());
        if is_kept && found != expected {
            return Err(Wrong::Hits(format!(
                "a chain of {} blocks hit {:?}, and its tiers held {:?}",
                request.chain.len(),
                found.hits,
                expected.hits
            )));
        }
        Ok(found)
    }

    /// Return the moves of the last request.
    pub(super) fn moves(&self) -> &Actions {
        &self.moves
    }

    /// Return the prefix rule once more, on what the Ledger says of each block.
    fn look_up(
        &mut self,
        cache: &dyn PrefixCache,
        request: KvRequest<'_>,
    ) -> Result<KvFound, Wrong> {
        let KvRequest { engine, chain, .. } = request;
        let depth = self.settings.tiers.len();
        let mut found = KvFound::default();
        let (mut is_prefix, mut first) = (true, 0);
        for &page in chain {
            let tier = (0..depth).find(|&tier| cache.holds(engine, tier, page));
            self.serve(engine, page, tier)?;
            let at_or_below = (first..depth).find(|&tier| cache.holds(engine, tier, page));
            match at_or_below.filter(|_| is_prefix) {
                Some(tier) => {
                    found.hits[tier] += 1;
                    if self.settings.matching == Matching::Cascade {
                        first = tier;
                    }
                }
                None => {
                    is_prefix = false;
                    found.stranded += u32::from(tier.is_some());
                }
            }
        }
        Ok(found)
    }

    /// Tell the Ledger where a block is found; it knows where it is.
    fn serve(&mut self, engine: u8, page: PageId, tier: Option<usize>) -> Result<(), Wrong> {
        let engines = usize::from(self.settings.engines.get());
        let disk = engines + self.settings.tiers.len() - 1;
        let place = match tier {
            Some(0) => usize::from(engine),
            Some(tier) => engines + tier - 1,
            None => disk,
        };
        let place = Tier(u8::try_from(place).expect("places are few"));
        self.moves.clear();
        self.moves.serve(page, Op::Read, place, place);
        let access = Access::read(page.0).by(engine);
        self.ledger.access(access, &self.moves).map_err(Wrong::Violation)
    }
}

#[cfg(test)]
mod tests {
    use thermocline_core::Nanos;
    use thermocline_core::kv::{KvTier, KvTiers, LruStore};

    use super::*;

    /// Tiers that do not tell the truth about one thing.
    #[derive(Debug)]
    struct Liar {
        tiers: KvTiers<LruStore>,
        hides_moves: bool,
        adds_hits: u32,
    }

    impl PrefixCache for Liar {
        fn request(&mut self, request: KvRequest<'_>) -> KvFound {
            self.tiers.request(request)
        }

        fn request_with_moves(&mut self, request: KvRequest<'_>, out: &mut Actions) -> KvFound {
            let mut found = self.tiers.request_with_moves(request, out);
            found.hits[0] += self.adds_hits;
            if self.hides_moves {
                out.clear();
            }
            found
        }

        fn writes(&self) -> &[u64] {
            self.tiers.writes()
        }

        fn expired(&self) -> u64 {
            self.tiers.expired()
        }

        fn holds(&self, engine: u8, tier: usize, page: PageId) -> bool {
            self.tiers.holds(engine, tier, page)
        }

        fn assert_invariants(&self) {
            self.tiers.assert_invariants();
        }
    }

    /// Answers two requests of the same chain.
    fn check(hides_moves: bool, adds_hits: u32) -> Result<[KvFound; 2], Wrong> {
        let settings = KvSettings::new(vec![KvTier::new(2), KvTier::new(4)]);
        let mut checker = Checker::new(8, &settings);
        let mut liar = Liar { tiers: KvTiers::lru(8, settings), hides_moves, adds_hits };
        let chain = [3, 5, 6].map(PageId);
        let request = KvRequest { at: Nanos(0), engine: 0, chain: &chain };
        let first = checker.request(&mut liar, request)?;
        Ok([first, checker.request(&mut liar, request)?])
    }

    #[test]
    fn the_truth_is_taken() {
        let [first, second] = check(false, 0).expect("nothing is wrong");
        assert_eq!((first.hit_blocks(), second.hits[..2].to_vec()), (0, vec![2, 1]));
    }

    #[test]
    fn lies_are_noticed() {
        assert!(matches!(check(false, 1), Err(Wrong::Hits(_))), "a hit that there was not");
        let hidden = check(true, 0);
        assert!(matches!(hidden, Err(Wrong::Violation(_))), "moves that were not told: {hidden:?}");
    }
}
