//! A policy beside its specification, with the Ledger between them.

use thermocline_core::random::{Draws, SplitMix64};
use thermocline_core::{
    Access, Actions, BoxedPolicy, Clients, Geometry, HintLog, Inputs, Ledger, Op, PageCost, PageId,
    Setup, Tier, config::Values, registry,
};

use crate::model::{Hfa, Kind, Settings, repeated};

/// Return a hierarchy of these capacities.
pub(crate) fn setup(pages: u32, capacities: &[u32], clients: Clients) -> Setup {
    Setup {
        costs: vec![PageCost::default(); capacities.len() + 1],
        clients,
        ..Setup::new(Geometry::linear(pages), capacities.to_vec())
    }
}

/// Return the policy's parameters as text.
fn texts(settings: &Settings, seed: u64) -> Vec<(String, String)> {
    let partition = if settings.is_dynamic { "dynamic" } else { "fixed" };
    let queues = if settings.is_strict { "strict" } else { "borrowing" };
    let mut texts = vec![
        ("t", settings.t.to_string()),
        ("k", settings.k.to_string()),
        ("delta", settings.delta.to_string()),
        ("q1_share", settings.q1_share.to_string()),
        ("partition", partition.to_owned()),
        ("samples", settings.samples.to_string()),
        ("cold", settings.cold.to_owned()),
        ("queues", queues.to_owned()),
        ("resort", settings.resort.to_string()),
    ];
    if settings.kind != Kind::H {
        texts.push(("f_min", settings.f_min.to_string()));
    }
    if settings.oracle.is_none() {
        texts.push(("t_out_share", settings.t_out_share.to_string()));
    }
    match settings.kind {
        Kind::D => {
            let overflow = if settings.d_overflow_demotes { "demote" } else { "q2" };
            texts.push(("d_overflow", overflow.to_owned()));
            texts.push(("miss_to_q1", settings.miss_to_q1.to_string()));
            let insertion = if settings.q2_by_hotness { "hotness" } else { "head" };
            texts.push(("q2_insertion", insertion.to_owned()));
        }
        Kind::P => {
            let auto = || "auto".to_owned();
            let given = settings.promote_probability.map_or_else(auto, |p| p.to_string());
            texts.push(("promote_probability", given));
            texts.push(("seed", seed.to_string()));
        }
        Kind::H => {
            texts.push(("khv_promotion", settings.khv[0].to_string()));
            texts.push(("khv_demotion", settings.khv[1].to_string()));
            texts.push(("khv_decay", settings.khv[2].to_string()));
            texts.push(("khv_steps", settings.khv_steps.to_string()));
            texts.push(("ghost_ratio", settings.ghost_ratio.to_string()));
        }
    }
    texts.into_iter().map(|(name, text)| (name.to_owned(), text)).collect()
}

/// Both, and what it takes to say where they part.
pub(crate) struct Pair {
    place: String,
    pub(crate) policy: BoxedPolicy,
    pub(crate) values: Values,
    pub(crate) model: Hfa,
    pub(crate) ledger: Ledger,
    pages: u32,
    /// Records per page of a tier, by its share.
    records_per_page: f64,
    /// Maximum of the policy's tables: a live record per page and slot, and one more.
    records_max: f64,
    capacities: Vec<u32>,
    accesses: u64,
}

impl Pair {
    pub(crate) fn new(settings: &Settings, capacities: &[u32], pages: u32, seed: u64) -> Self {
        Self::shared(settings, capacities, pages, seed, Clients::ONE)
    }

    /// Return the same for several clients.
    pub(crate) fn shared(
        settings: &Settings,
        capacities: &[u32],
        pages: u32,
        seed: u64,
        clients: Clients,
    ) -> Self {
        let name = match settings.kind {
            Kind::D => "d-hfa",
            Kind::P => "p-hfa",
            Kind::H if settings.oracle.is_some() => "oracle-hfa",
            Kind::H => "h-hfa",
        };
        let entry = registry::find(name).unwrap();
        let values = entry.values(&texts(settings, seed)).unwrap();
        let hints = settings.oracle.iter().flatten().map(|(&(level, page, slot), &times)| {
            (Tier(u8::try_from(level).unwrap()), PageId(page), slot, times)
        });
        let inputs = Inputs::from(hints.collect::<HintLog>());
        let setup = Setup { inputs, ..setup(pages, capacities, clients) };
        let mut random = SplitMix64::new(seed);
        Self {
            place: format!("{clients:?}, {capacities:?}, seed {seed}, {settings:?}"),
            policy: entry.build(&setup, &values).unwrap(),
            values,
            model: Hfa::new(settings.clone(), capacities, clients.get().into(), move || {
                random.unit()
            }),
            ledger: Ledger::of_clients(pages, capacities, clients),
            pages,
            records_per_page: settings.t_out_share * 256.0,
            records_max: (u64::from(pages) * settings.k + 1) as f64,
            capacities: repeated(capacities, clients.get().into()),
            accesses: 0,
        }
    }

    /// Drives both; hits are found at the same level, and the Ledger agrees.
    #[track_caller]
    pub(crate) fn access(&mut self, access: Access) {
        self.accesses += 1;
        let before = self.model.state();
        let mut actions = Actions::new();
        self.policy.access(access, &mut actions);
        self.model.access(access.client.into(), access.page.0, access.op == Op::Write);
        let place = || {
            let op = if access.op == Op::Write { 'W' } else { 'R' };
            let after = self.model.state();
            let (number, page) = (self.accesses, access.page.0);
            format!("{}\naccess {number}, {op}{page}: {before} -> {after}\n{actions:?}", self.place)
        };
        if let Err(violation) = self.ledger.access(access, &actions) {
            panic!("{violation}\n{}", place());
        }
        let tiers = (0..).map(Tier).take(self.capacities.len() + 1);
        let hits: Vec<u64> = tiers.map(|tier| self.ledger.counts().hits(tier)).collect();
        assert_eq!(hits, self.model.hits, "policy, model\n{}", place());
    }

    /// Assert that each tier holds the same pages, queues and tables are as large, and the policy
    /// is sound.
    #[track_caller]
    pub(crate) fn assert_same_contents(&self) {
        for (level, tier) in (0..).map(Tier).take(self.capacities.len()).enumerate() {
            let held = |&page: &u32| self.ledger.holds(tier, PageId(page));
            let held: Vec<u32> = (0..self.pages).filter(held).collect();
            let place = format!("access {}, level {level}, {}", self.accesses, self.place);
            assert_eq!(held, self.model.held(level), "policy, model: {place}");
            let mut gauges = (0, 0, 0, 0.0);
            self.policy.gauges(&mut |name, of, value| {
                if of == tier {
                    match name {
                        "q1_pages" => gauges.0 = value as usize,
                        "q2_pages" => gauges.1 = value as usize,
                        "t_out_records" => gauges.2 = value as usize,
                        "promote_probability" => gauges.3 = value,
                        _ => panic!("unknown gauge {name}"),
                    }
                }
            });
            let mut expected = self.model.gauges(level);
            if !self.place.contains("kind: P") {
                expected.3 = 0.0;
            }
            if self.records_per_page * f64::from(self.capacities[level]) > self.records_max {
                // The policy forgets expired records sooner; they count no longer anyway.
                expected.2 = gauges.2;
            }
            assert_eq!(gauges, expected, "policy, model: {place}");
        }
        self.policy.assert_invariants();
    }
}
