//! A policy beside its specification, with the Ledger between them.

use std::collections::BTreeSet;

use thermocline_core::{
    Access, Actions, BoxedPolicy, Geometry, Ledger, Op, PageCost, PageId, Setup, Tier, registry,
};

use super::{Counts, Model};

/// Both, and what it takes to say where they part.
pub(crate) struct Pair {
    place: String,
    history: Vec<Access>,
    policy: BoxedPolicy,
    ledger: Ledger,
    actions: Actions,
    pub(crate) model: Box<dyn Model>,
    /// The id of each page number.
    ids: Vec<u32>,
}

impl Pair {
    /// Create a registered policy with the parameters given, over pages whose ids have these
    /// numbers.
    ///
    /// # Panics
    /// If the numbers are not those from 0 to one less than their count, in some order.
    pub(crate) fn new(
        policy: &str,
        given: &[(String, String)],
        sizes: [u32; 2],
        numbers: &[u64],
    ) -> Self {
        let pages = u32::try_from(numbers.len()).expect("page ids have 32 bits");
        let id_of = |number: u64| numbers.iter().position(|&known| known == number);
        let ids = (0..u64::from(pages)).map(|number| {
            let id = id_of(number).expect("every number up to the count has an id");
            u32::try_from(id).expect("page ids have 32 bits")
        });
        let setup = Setup {
            costs: vec![
                PageCost::default(),
                PageCost { read_ms: 0.16, write_ms: 0.30 },
                PageCost { read_ms: 12.7, write_ms: 13.7 },
            ],
            ..Setup::new(
                if numbers.is_sorted() {
                    Geometry::linear(pages)
                } else {
                    Geometry::table(numbers.into())
                },
                sizes.to_vec(),
            )
        };
        let entry = registry::find(policy).unwrap();
        Self {
            place: format!("{policy} {given:?}, memory and flash {sizes:?}, numbers {numbers:?}"),
            history: vec![],
            policy: entry.build(&setup, &entry.values(given).unwrap()).unwrap(),
            ledger: Ledger::new(pages, &sizes),
            actions: Actions::new(),
            model: super::build(policy, given, sizes, pages),
            ids: ids.collect(),
        }
    }

    /// Drives both with an access to a page number; they count the same, and the Ledger agrees.
    #[track_caller]
    pub(crate) fn access(&mut self, access: Access) {
        self.history.push(access);
        let renumbered = Access { page: PageId(self.ids[access.page.index()]), ..access };
        self.actions.clear();
        self.policy.access(renumbered, &mut self.actions);
        if let Err(violation) = self.ledger.access(renumbered, &self.actions) {
            panic!("{violation}\n{}", self.story());
        }
        self.model.access(access);
        assert_eq!(self.counts(), self.model.counts(), "policy, model\n{}", self.story());
    }

    /// Assert that both tiers hold the same pages in the Ledger and in the model, and the policy is
    /// sound.
    #[track_caller]
    pub(crate) fn assert_same_contents(&self) {
        for tier in [Tier::RAM, Tier::FLASH] {
            let story = || format!("policy, model; tier {}\n{}", tier.0, self.story());
            assert_eq!(self.held(tier), self.model.held(tier), "{}", story());
        }
        self.policy.assert_invariants();
    }

    /// Return the page numbers that a tier holds, by the Ledger.
    pub(crate) fn held(&self, tier: Tier) -> BTreeSet<u32> {
        (0..)
            .zip(&self.ids)
            .filter(|&(_, &id)| self.ledger.holds(tier, PageId(id)))
            .map(|(number, _)| number)
            .collect()
    }

    /// Return the sums of the policy's actions.
    pub(crate) fn counts(&self) -> Counts {
        let counts = self.ledger.counts();
        Counts {
            memory_hits: counts.hits(Tier::RAM),
            flash_hits: counts.hits(Tier::FLASH),
            disk_hits: counts.hits(Tier::DISK),
            flash_reads: counts.page_reads(Tier::FLASH),
            flash_writes: counts.page_writes(Tier::FLASH),
            disk_reads: counts.page_reads(Tier::DISK),
            disk_writes: counts.page_writes(Tier::DISK),
        }
    }

    /// Return the events so far, in the worked examples' notation, with the policy's last actions.
    fn story(&self) -> String {
        let words = self.history.iter().map(|access| {
            let op = if access.op == Op::Write { 'W' } else { 'R' };
            format!("{op}{}", access.page.0)
        });
        format!(
            "{}\naccess {}: {}\nmodel: {}\nactions on ids: {:?}",
            self.place,
            self.history.len(),
            super::join(words),
            self.model.state(),
            self.actions.as_slice(),
        )
    }
}
