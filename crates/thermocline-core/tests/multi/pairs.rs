//! Every policy does what its executable specification does, access by access.

use proptest::prelude::*;
use thermocline_core::Access;
use thermocline_core::random::{Draws, SplitMix64};

use crate::drive::Driven;
use crate::models::{Demote, HintK, Inclusive, Model, MqN, Outcome, Promote, Ulc};
use crate::zipf;

const PAGES: u32 = 16;

/// Drives both; they find, serve, hold and move the same after every access.
#[track_caller]
pub(crate) fn check(
    driven: &mut Driven,
    model: &mut dyn Model,
    sizes: &[u32],
    accesses: &[Access],
) {
    check_every(1, driven, model, sizes, accesses);
}

/// Looks at what the tiers hold after so many accesses only: over many pages that takes long.
#[track_caller]
fn check_every(
    period: usize,
    driven: &mut Driven,
    model: &mut dyn Model,
    sizes: &[u32],
    accesses: &[Access],
) {
    let holding: Vec<usize> = (0..sizes.len()).filter(|&tier| sizes[tier] > 0).collect();
    let tier_of = |place: usize| holding.get(place).copied().unwrap_or(sizes.len());
    for (number, &access) in (1..).zip(accesses) {
        let Outcome { found, served } = model.read(access.page.0);
        let expected = Outcome { found: tier_of(found), served: tier_of(served) };
        let story = || format!("access {number} of {:?}: {}", &accesses[..number], model.state());
        assert_eq!(driven.access(access), expected, "{}", story());
        assert_eq!(driven.moves, model.moves(), "{}", story());
        if number % period != 0 && number < accesses.len() {
            continue;
        }
        let mut held = vec![vec![]; sizes.len()];
        for (&tier, mut pages) in holding.iter().zip(model.held()) {
            pages.sort_unstable();
            held[tier] = pages;
        }
        assert_eq!(driven.held(), held, "{}", story());
        driven.policy.assert_invariants();
    }
}

/// Reads only: copies that a write renews on its way are not moves of the specifications.
fn accesses() -> impl Strategy<Value = Vec<Access>> {
    prop::collection::vec((0..PAGES).prop_map(Access::read), 0..150)
}

/// Tiers of a few pages, the lower ones possibly of none.
fn sizes() -> impl Strategy<Value = Vec<u32>> {
    (1_u32..6, prop::collection::vec(0_u32..7, 1..5))
        .prop_map(|(top, lower)| std::iter::once(top).chain(lower).collect())
}

/// The tiers that hold pages, as the specifications want them.
fn holding(sizes: &[u32]) -> Vec<usize> {
    sizes.iter().filter(|&&size| size > 0).map(|&size| size as usize).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn lru_n_inclusive(sizes in sizes(), accesses in accesses()) {
        let mut driven = Driven::new("lru-n-inclusive", &[], PAGES, &sizes);
        check(&mut driven, &mut Inclusive::new(&holding(&sizes)), &sizes, &accesses);
    }

    #[test]
    fn demote(
        sizes in sizes(), mode in prop::sample::select(vec!["remove", "mru", "lru"]),
        accesses in accesses(),
    ) {
        let mut driven = Driven::new("demote", &[("mode", mode.to_owned())], PAGES, &sizes);
        check(&mut driven, &mut Demote::new(&holding(&sizes), mode), &sizes, &accesses);
    }

    #[test]
    fn promote(
        sizes in sizes(), fixed in prop::option::of(0.0..1.0),
        draws in prop::collection::vec(0.0..1.0, 1..40), accesses in accesses(),
    ) {
        let given: Vec<_> = fixed.map(|pp: f64| ("pp", pp.to_string())).into_iter().collect();
        let mut driven = Driven::scripted(&given, &draws, PAGES, &sizes);
        let mut model = Promote::new(&holding(&sizes), fixed, &draws);
        check(&mut driven, &mut model, &sizes, &accesses);
    }

    #[test]
    fn hint_k(
        sizes in sizes(), k in 1_usize..17,
        decay in prop::sample::select(vec![0.0, 0.25, 0.5, 1.0]),
        weights in prop::sample::select(vec![[2.0, 1.0], [1.0, 1.0], [1.0, 4.0], [0.0, 1.0]]),
        ghost_ratio in prop::sample::select(vec![0.0, 0.3, 1.0, 2.0]), accesses in accesses(),
    ) {
        let given = [
            ("k", k.to_string()),
            ("decay", decay.to_string()),
            ("promote_weight", weights[0].to_string()),
            ("demote_weight", weights[1].to_string()),
            ("ghost_ratio", ghost_ratio.to_string()),
        ];
        let mut driven = Driven::new("hint-k", &given, PAGES, &sizes);
        let mut model = HintK::new(&holding(&sizes), k, decay, weights, ghost_ratio);
        check(&mut driven, &mut model, &sizes, &accesses);
    }

    #[test]
    fn mq_n(
        sizes in sizes(), queues in 1_usize..6, ghosts in 0_usize..4, life_time in 0_u64..30,
        accesses in accesses(),
    ) {
        let given = [
            ("queues", queues.to_string()),
            ("ghosts", ghosts.to_string()),
            ("life_time", life_time.to_string()),
        ];
        let mut driven = Driven::new("mq-n", &given, PAGES, &sizes);
        let mut model = MqN::new(&holding(&sizes), queues, ghosts, life_time);
        check(&mut driven, &mut model, &sizes, &accesses);
    }

    #[test]
    fn ulc(
        sizes in sizes(),
        ghosts in prop::sample::select(vec![None, Some(0.0), Some(0.5), Some(1.0)]),
        accesses in accesses(),
    ) {
        let given: Vec<_> =
            ghosts.map(|ghosts: f64| ("ghosts", ghosts.to_string())).into_iter().collect();
        let mut driven = Driven::new("ulc", &given, PAGES, &sizes);
        check(&mut driven, &mut Ulc::new(&holding(&sizes), ghosts), &sizes, &accesses);
    }
}

/// Long runs at the defaults, where orders are long and probabilities adapt.
#[test]
fn defaults_hold_over_long_runs() {
    let sizes = [40, 100, 200];
    let holding = holding(&sizes);
    let mut stream = SplitMix64::new(0);
    let draws: Vec<f64> = (0..50_000).map(|_| stream.unit()).collect();
    let models: [(&str, Box<dyn Model>); 5] = [
        ("lru-n-inclusive", Box::new(Inclusive::new(&holding))),
        ("demote", Box::new(Demote::new(&holding, "remove"))),
        ("promote", Box::new(Promote::new(&holding, None, &draws))),
        ("hint-k", Box::new(HintK::new(&holding, 3, 0.5, [2.0, 1.0], 1.0))),
        ("ulc", Box::new(Ulc::new(&holding, None))),
    ];
    let reads: Vec<Access> =
        zipf::accesses().into_iter().map(|access| Access::read(access.page.0)).take(8000).collect();
    for (policy, mut model) in models {
        let mut driven = Driven::new(policy, &[], zipf::PAGES, &sizes);
        check_every(997, &mut driven, &mut *model, &sizes, &reads);
    }
}
