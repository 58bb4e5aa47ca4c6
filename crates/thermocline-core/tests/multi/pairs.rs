//! Every policy does what its executable specification does, access by access.

use proptest::prelude::*;
use thermocline_core::random::{Draws, SplitMix64};
use thermocline_core::{Access, Clients, Op};

use crate::drive::Driven;
use crate::models::{Chain, Demote, HintK, Inclusive, Model, MqN, Outcome, Promote, Ulc};
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
    let sizes = physical(sizes, driven.clients);
    let holding: Vec<usize> = (0..sizes.len()).filter(|&tier| sizes[tier] > 0).collect();
    let tier_of = |place: usize| holding.get(place).copied().unwrap_or(sizes.len());
    for (number, &access) in (1..).zip(accesses) {
        let moves = [driven.moves, model.moves()];
        let Outcome { found, served } = model.read(access.client.into(), access.page.0);
        if access.op == Op::Write {
            let others = (0..driven.clients.get()).filter(|&client| client != access.client);
            others.for_each(|client| model.forget(client.into(), access.page.0));
        }
        let expected = Outcome { found: tier_of(found), served: tier_of(served) };
        let story = || format!("access {number} of {:?}: {}", &accesses[..number], model.state());
        assert_eq!(driven.access(access), expected, "{}", story());
        let [ours, expected] = [driven.moves - moves[0], model.moves() - moves[1]];
        // The specifications do not count copies that a write renews on its way.
        assert!(ours == expected || access.op == Op::Write, "{ours} moves: {}", story());
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

/// Return the capacities of all tiers, of which each client has the first.
pub(crate) fn physical(sizes: &[u32], clients: Clients) -> Vec<u32> {
    let firsts = std::iter::repeat_n(sizes[0], clients.get().into());
    firsts.chain(sizes[1..].iter().copied()).collect()
}

fn accesses() -> impl Strategy<Value = Vec<Access>> {
    prop::collection::vec((0..PAGES).prop_map(Access::read), 0..150)
}

/// Generate the accesses of one to four clients, who may write.
pub(crate) fn shared_accesses() -> impl Strategy<Value = (Clients, Vec<Access>)> {
    (1_u8..5).prop_flat_map(|clients| {
        let access = (0..PAGES, 0..clients, 0_u8..5).prop_map(|(page, client, kind)| {
            let access = if kind == 0 { Access::write(page) } else { Access::read(page) };
            access.by(client)
        });
        let accesses = prop::collection::vec(access, 0..200);
        (Just(Clients::new(clients.into()).unwrap()), accesses)
    })
}

/// Tiers of a few pages, the lower ones possibly of none.
fn sizes() -> impl Strategy<Value = Vec<u32>> {
    (1_u32..6, prop::collection::vec(0_u32..7, 1..5))
        .prop_map(|(top, lower)| std::iter::once(top).chain(lower).collect())
}

/// Return the tiers that hold pages, as the specifications want them.
fn holding(sizes: &[u32]) -> Vec<usize> {
    sizes.iter().filter(|&&size| size > 0).map(|&size| size as usize).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn lru_n_inclusive(sizes in sizes(), (clients, accesses) in shared_accesses()) {
        let mut driven = Driven::shared("lru-n-inclusive", &[], PAGES, &sizes, clients);
        let mut model = Inclusive::new(&holding(&sizes), clients.get().into());
        check(&mut driven, &mut model, &sizes, &accesses);
    }

    #[test]
    fn demote(
        sizes in sizes(), mode in prop::sample::select(vec!["remove", "mru", "lru"]),
        (clients, accesses) in shared_accesses(),
    ) {
        let given = [("mode", mode.to_owned())];
        let mut driven = Driven::shared("demote", &given, PAGES, &sizes, clients);
        let mut model = Demote::new(&holding(&sizes), clients.get().into(), mode);
        check(&mut driven, &mut model, &sizes, &accesses);
    }

    #[test]
    fn chain(
        sizes in sizes(), (clients, accesses) in shared_accesses(),
        rules in prop::collection::vec(prop::sample::select(vec!["lru", "fifo", "mru"]), 5),
    ) {
        let tiers = ["l1", "l2", "l3", "l4", "l5"];
        let given: Vec<_> =
            tiers.into_iter().zip(&rules).map(|(tier, &rule)| (tier, rule.to_owned())).collect();
        let mut driven = Driven::shared("chain", &given, PAGES, &sizes, clients);
        let rules = rules.iter().zip(&sizes).filter(|&(_, &size)| size > 0);
        let rules: Vec<&'static str> = rules.map(|(&rule, _)| rule).collect();
        let mut model = Chain::new(&holding(&sizes), clients.get().into(), &rules);
        check(&mut driven, &mut model, &sizes, &accesses);
    }

    #[test]
    fn promote(
        sizes in sizes(), fixed in prop::option::of(0.0..1.0),
        draws in prop::collection::vec(0.0..1.0, 1..40),
        (clients, accesses) in shared_accesses(),
    ) {
        let given: Vec<_> = fixed.map(|pp: f64| ("promote_probability", pp.to_string())).into_iter().collect();
        let mut driven = Driven::scripted(&given, &draws, PAGES, &sizes, clients);
        let mut model = Promote::new(&holding(&sizes), clients.get().into(), fixed, &draws);
        check(&mut driven, &mut model, &sizes, &accesses);
    }

    #[test]
    fn hint_k(
        sizes in sizes(), k in 1_usize..17,
        decay in prop::sample::select(vec![0.0, 0.25, 0.5, 1.0]),
        weights in prop::sample::select(vec![[2.0, 1.0], [1.0, 1.0], [1.0, 4.0], [0.0, 1.0]]),
        ghost_ratio in prop::sample::select(vec![0.0, 0.3, 1.0, 2.0]),
        (clients, accesses) in shared_accesses(),
    ) {
        let given = [
            ("khv_steps", k.to_string()),
            ("khv_decay", decay.to_string()),
            ("khv_promotion", weights[0].to_string()),
            ("khv_demotion", weights[1].to_string()),
            ("ghost_ratio", ghost_ratio.to_string()),
        ];
        let mut driven = Driven::shared("hint-k", &given, PAGES, &sizes, clients);
        let sizes_held = holding(&sizes);
        let mut model =
            HintK::new(&sizes_held, clients.get().into(), k, decay, weights, ghost_ratio);
        check(&mut driven, &mut model, &sizes, &accesses);
    }

    #[test]
    fn mq_n(
        sizes in sizes(), queues in 1_usize..6, ghosts in 0_usize..4, life_time in 0_u64..30,
        (clients, accesses) in shared_accesses(),
    ) {
        let given = [
            ("queues", queues.to_string()),
            ("ghosts", ghosts.to_string()),
            ("life_time", life_time.to_string()),
        ];
        let mut driven = Driven::shared("mq-n", &given, PAGES, &sizes, clients);
        let sizes_held = holding(&sizes);
        let mut model = MqN::new(&sizes_held, clients.get().into(), queues, ghosts, life_time);
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
    let mut stream = SplitMix64::new(1);
    let draws: Vec<f64> = (0..50_000).map(|_| stream.unit()).collect();
    let models: [(&str, Box<dyn Model>); 6] = [
        ("chain", Box::new(Chain::new(&holding, 1, &["lru"; 3]))),
        ("lru-n-inclusive", Box::new(Inclusive::new(&holding, 1))),
        ("demote", Box::new(Demote::new(&holding, 1, "remove"))),
        ("promote", Box::new(Promote::new(&holding, 1, None, &draws))),
        ("hint-k", Box::new(HintK::new(&holding, 1, 3, 0.5, [2.0, 1.0], 1.0))),
        ("ulc", Box::new(Ulc::new(&holding, None))),
    ];
    let reads: Vec<Access> =
        zipf::accesses().into_iter().map(|access| Access::read(access.page.0)).take(8000).collect();
    for (policy, mut model) in models {
        let mut driven = Driven::new(policy, &[], zipf::PAGES, &sizes);
        check_every(997, &mut driven, &mut *model, &sizes, &reads);
    }
}
