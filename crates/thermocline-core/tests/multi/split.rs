//! Halves with a queue of messages between them do what the lab's policy does, access by access.

use std::collections::{BTreeSet, VecDeque};

use proptest::prelude::*;
use thermocline_core::policy::multi::split::{
    self, ClientHalf, Held, Hint, Link, Message, ServerHalf,
};
use thermocline_core::random::SplitMix64;
use thermocline_core::{Access, Action, Actions, Clients, Op, PageId, Tier, registry};

use crate::drive::{Driven, setup};
use crate::models::Outcome;

const PAGES: u32 = 16;

/// Policies to split, with their parameters.
const SPLIT: [(&str, &str, &str); 21] = [
    ("demote", "mode", "remove"),
    ("demote", "mode", "mru"),
    ("demote", "mode", "lru"),
    ("mq-n", "ghosts", "4"),
    ("hint-k", "ghost_ratio", "1"),
    ("hint-k", "ghost_ratio", "0"),
    ("promote", "seed", "3"),
    ("promote", "promote_probability", "0.5"),
    ("d-hfa", "t", "7"),
    ("d-hfa", "d_overflow", "demote"),
    ("d-hfa", "queues", "strict"),
    ("d-hfa", "q2_insertion", "hotness"),
    ("h-hfa", "t", "7"),
    ("h-hfa", "t", "50"),
    ("h-hfa", "queues", "strict"),
    ("h-hfa", "ghost_ratio", "0"),
    ("h-hfa", "delta", "0.3"),
    ("h-hfa", "khv_steps", "16"),
    ("p-hfa", "t", "7"),
    ("p-hfa", "promote_probability", "0.5"),
    ("p-hfa", "queues", "strict"),
];

/// Return the parameters of a policy: the one given, and of the HFA policies periods that tests see the end of.
fn given(policy: &str, name: &str, text: &str) -> Vec<(String, String)> {
    let mut given = vec![(name.to_owned(), text.to_owned())];
    if policy.ends_with("-hfa") {
        let others = [("t", "13"), ("t_out_share", "0.01"), ("f_min", "0.4"), ("q1_share", "0.5")];
        // H-HFA has no least frequency.
        let others = others
            .into_iter()
            .filter(|(other, _)| *other != name && !(policy == "h-hfa" && *other == "f_min"));
        given.extend(others.map(|(name, text)| (name.to_owned(), text.to_owned())));
    }
    given
}

/// Hosts that send each other messages.
struct Hosts {
    clients: Vec<ClientHalf>,
    server: ServerHalf,
    /// Messages on their way to the server.
    queue: VecDeque<(u8, Message)>,
    caches: u8,
    /// Copies from one cache to another so far.
    moves: u64,
    /// Pages that the server has sent unasked so far.
    pushes: u64,
    messages: Vec<Message>,
}

/// Messages that one client sends, and its local hits.
struct Outbox<'a> {
    client: u8,
    queue: &'a mut VecDeque<(u8, Message)>,
    is_served: bool,
}

impl Link for Outbox<'_> {
    fn serve(&mut self, _page: PageId) {
        self.is_served = true;
    }

    fn send(&mut self, message: Message) {
        self.queue.push_back((self.client, message));
    }

    fn keep(&mut self, _page: PageId) {}

    fn drop_copy(&mut self, _page: PageId) {}
}

impl Hosts {
    fn new((policy, name, text): (&str, &str, &str), sizes: &[u32], clients: Clients) -> Self {
        let setup = setup(PAGES, sizes, clients);
        let split = split::find(policy).unwrap();
        let values = registry::find(policy).unwrap().values(&given(policy, name, text)).unwrap();
        Self {
            clients: (0..clients.get()).map(|_| split.client(&setup, &values)).collect(),
            server: split.server(&setup, &values),
            queue: VecDeque::new(),
            caches: setup.disk().0,
            moves: 0,
            pushes: 0,
            messages: vec![],
        }
    }

    /// Run an access; the client is done with it before the server hears of it. Where it was found,
    /// and served.
    fn access(&mut self, access: Access) -> Outcome {
        let Access { page, op, client } = access;
        let mut outbox = Outbox { client, queue: &mut self.queue, is_served: false };
        self.clients[usize::from(client)].access(page, op, &mut outbox);
        let own = usize::from(client);
        let mut outcome = outbox.is_served.then_some(Outcome { found: own, served: own });
        self.messages.clear();
        while let Some((sender, message)) = self.queue.pop_front() {
            self.messages.push(message);
            if let Message::Write { page, .. } = message {
                for (other, half) in (0..).zip(&mut self.clients) {
                    let held = half.holds(page);
                    assert!(
                        other == sender || half.invalidate(page) == held,
                        "it says what it held"
                    );
                }
            }
            let mut actions = Actions::new();
            let answer = self.server.receive(sender, message, &mut actions);
            let push = self.server.take_push();
            if let Some(answer) = answer.filter(|_| self.clients[own].waits()) {
                let mut outbox = Outbox { client, queue: &mut self.queue, is_served: false };
                self.clients[own].answered(page, answer, &mut outbox);
            }
            if let Some(push) = push {
                self.pushes += 1;
                let mut outbox = Outbox { client, queue: &mut self.queue, is_served: false };
                self.clients[own].pushed(push, &mut outbox);
            }
            for action in actions.as_slice() {
                match *action {
                    Action::Serve { found, tier, .. } => {
                        assert!(outcome.is_none(), "an access is answered once");
                        outcome = Some(Outcome { found: found.index(), served: tier.index() });
                    }
                    Action::Copy { source, target, .. } => {
                        self.moves += u64::from(source.0.max(target.0) < self.caches);
                    }
                    Action::Drop { tier, .. } => {
                        assert!(tier.index() >= self.clients.len(), "a client drops its own pages");
                    }
                }
            }
        }
        outcome.unwrap()
    }
}

fn accesses() -> impl Strategy<Value = Vec<Access>> {
    let access =
        (0..PAGES, prop::bool::weighted(0.2), 0_u8..3).prop_map(|(page, writes, client)| {
            let op = if writes { Op::Write } else { Op::Read };
            Access { page: PageId(page), op, client }
        });
    prop::collection::vec(access, 1..150)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Runs on one client and on three.
    #[test]
    fn halves_do_what_the_policy_does(
        sizes in prop::collection::vec(1_u32..6, 2..5), accesses in accesses(),
    ) {
        for (clients, split) in [1, 3].into_iter().flat_map(|n| SPLIT.map(|split| (n, split))) {
            let clients = Clients::new(clients).unwrap();
            let (policy, name, text) = split;
            let given = given(policy, name, text);
            let given: Vec<(&str, String)> =
                given.iter().map(|(name, text)| (name.as_str(), text.clone())).collect();
            let mut lab = Driven::shared(policy, &given, PAGES, &sizes, clients);
            let mut hosts = Hosts::new(split, &sizes, clients);
            for access in &accesses {
                let access = access.by(access.client % clients.get());
                prop_assert_eq!(hosts.access(access), lab.access(access), "{:?}", split);
                prop_assert_eq!(hosts.moves, lab.moves, "{:?}", split);
                hosts.server.assert_invariants();
            }
            for (client, half) in hosts.clients.iter().enumerate() {
                half.assert_invariants();
                let held: Vec<u32> =
                    (0..PAGES).filter(|&page| half.holds(PageId(page))).collect();
                prop_assert_eq!(&held, &lab.held()[client], "{:?}", split);
            }
        }
    }
}

/// A page that was demoted wakes the promotion of a hotter one, which the server sends (Algorithm 2 of HFA).
#[test]
fn a_page_that_is_demoted_sends_a_hotter_one_up() {
    let mut random = SplitMix64::new(7);
    for clients in [1, 3] {
        let clients = Clients::new(clients).unwrap();
        let mut hosts = Hosts::new(("h-hfa", "t", "60"), &[4, 6], clients);
        for _ in 0..4000 {
            let mut draw = |most: u64| u32::try_from(random.bits() % most).unwrap();
            let page = draw(u64::from(PAGES)).min(draw(u64::from(PAGES)));
            let client = u8::try_from(draw(clients.get().into())).unwrap();
            let before = hosts.pushes;
            hosts.access(Access::read(page).by(client));
            assert!(hosts.pushes <= before + 1, "one at most for an access");
        }
        assert!(hosts.pushes > 2, "{} pages are sent", hosts.pushes);
    }
}

/// Generate any messages of a client, true or not.
fn messages() -> impl Strategy<Value = Vec<(u8, Message)>> {
    let message = (0..3_u8, 0..PAGES, 0..5, (0..4_u32, any::<u64>())).prop_map(
        |(client, page, kind, (hits, value))| {
            let page = PageId(page);
            let message = match kind {
                0 => Message::Read { page },
                1 => Message::Write { page, held: Held::Yes },
                2 => Message::Write { page, held: Held::No },
                3 => Message::Demote { page, carried: (hits > 0).then_some(value) },
                _ => Message::Tell(Hint { hits, value }),
            };
            (client, message)
        },
    );
    prop::collection::vec(message, 1..150)
}

/// Return the tier that a move fills, and the one that it empties, with the page.
fn moved(action: Action) -> [Option<(Tier, PageId)>; 2] {
    match action {
        Action::Copy { page, target, .. } => [Some((target, page)), None],
        Action::Drop { page, tier } => [None, Some((tier, page))],
        Action::Serve { page, op: Op::Write, tier, .. } => [Some((tier, page)), None],
        Action::Serve { .. } => [None; 2],
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Clients that kept pages which the server forgot, or that say what is wrong, cannot make it serve an
    /// old version, or hold more than it may.
    #[test]
    fn no_message_leaves_an_old_version_on_the_server(messages in messages()) {
        for split in SPLIT {
            let sizes = [2, 3, 4];
            let mut hosts = Hosts::new(split, &sizes, Clients::new(3).unwrap());
            let mut held = BTreeSet::new();
            for &(client, message) in &messages {
                let mut actions = Actions::new();
                let before = held.clone();
                hosts.server.receive(client, message, &mut actions);
                let is_demoted = matches!(message, Message::Demote { .. });
                prop_assert!(hosts.server.take_push().is_none() || is_demoted, "{:?}", split);
                let moves = actions.as_slice().iter().map(|&action| moved(action));
                let moves: Vec<[Option<(Tier, PageId)>; 2]> = moves.collect();
                for &[filled, emptied] in &moves {
                    held.extend(filled.filter(|(tier, _)| (3..5).contains(&tier.0)));
                    if let Some(place) = &emptied {
                        prop_assert!(held.remove(place), "{:?} {:?}", split, place);
                    }
                }
                if let Message::Write { page, .. } = message {
                    for &place in before.iter().filter(|(_, other)| *other == page) {
                        let is_renewed = moves.iter().flatten().any(|moved| *moved == Some(place));
                        prop_assert!(is_renewed, "{:?} {:?}", split, place);
                    }
                }
                for (tier, size) in [(3, 3), (4, 4)] {
                    let pages = held.iter().filter(|(other, _)| other.0 == tier).count();
                    prop_assert!(pages <= size, "{:?}", split);
                }
            }
            (0..3).for_each(|client| hosts.server.forget_client(client));
            hosts.server.assert_invariants();
        }
    }
}

fn three_over_four(split: (&str, &str, &str)) -> Hosts {
    Hosts::new(split, &[1, 4], Clients::new(3).unwrap())
}

#[test]
fn hits_of_reads_are_silent_and_victims_are_demoted() {
    let (page, carried) = (PageId(1), None);
    let mut hosts = three_over_four(SPLIT[0]);
    hosts.access(Access::read(1));
    assert_eq!(hosts.messages, [Message::Read { page }]);
    hosts.access(Access::read(1));
    assert_eq!(hosts.messages, []);
    hosts.access(Access::read(2));
    assert_eq!(
        hosts.messages,
        [Message::Read { page: PageId(2) }, Message::Demote { page, carried }]
    );
    let mut hosts = three_over_four(SPLIT[3]);
    hosts.access(Access::read(1));
    hosts.access(Access::read(2));
    assert_eq!(hosts.messages, [Message::Read { page: PageId(2) }]);
}

#[test]
fn a_client_of_hint_k_tells_which_value_enters_if_that_changes() {
    let mut hosts = three_over_four(("hint-k", "khv_steps", "3"));
    let ([one, two], carried) = ([1, 2].map(PageId), None);
    hosts.access(Access::read(1));
    assert_eq!(hosts.messages, [Message::Read { page: one }]);
    hosts.access(Access::read(2));
    let full = Message::Tell(Hint { hits: 0, value: 1 });
    assert_eq!(
        hosts.messages,
        [full, Message::Read { page: two }, Message::Demote { page: one, carried }]
    );
    // A page that has moved is worth more than one that has not.
    hosts.access(Access::read(1));
    assert_eq!(
        hosts.messages,
        [Message::Read { page: one }, Message::Demote { page: two, carried }]
    );
    // One that is worth less stays below, and the client does not keep it.
    let outcome = hosts.access(Access::read(2));
    assert_eq!(outcome, Outcome { found: 3, served: 3 });
    let value = 2.5_f64.to_bits() + 1;
    let moved = Message::Tell(Hint { hits: 0, value });
    assert_eq!(hosts.messages, [moved, Message::Read { page: two }]);
}

#[test]
fn a_client_of_promote_tells_its_hits_and_its_life() {
    let split = ("promote", "promote_probability", "1");
    let mut hosts = Hosts::new(split, &[2, 4], Clients::ONE);
    for page in [1, 2, 2, 1] {
        hosts.access(Access::read(page));
    }
    assert_eq!(hosts.messages, [], "hits are silent");
    hosts.access(Access::read(3));
    let told = Message::Tell(Hint { hits: 2, value: 1 });
    assert_eq!(hosts.messages, [told, Message::Read { page: PageId(3) }]);
}

#[test]
fn what_a_crashed_client_held_is_demoted_by_the_next_that_gives_it_up() {
    for (crashes, found) in [(false, 4), (true, 3)] {
        let mut hosts = three_over_four(SPLIT[0]);
        hosts.access(Access::read(1).by(0));
        hosts.access(Access::read(1).by(1));
        if crashes {
            hosts.server.forget_client(0);
        }
        // Client 1 gives page 1 up: if client 0 still has it, it is dropped.
        hosts.access(Access::read(2).by(1));
        assert_eq!(hosts.access(Access::read(1).by(2)), Outcome { found, served: 2 });
    }
}

#[test]
fn a_page_that_is_demoted_twice_is_there_once() {
    let mut hosts = three_over_four(SPLIT[0]);
    let mut actions = Actions::new();
    for _ in 0..2 {
        let message = Message::Demote { page: PageId(1), carried: None };
        hosts.server.receive(0, message, &mut actions);
    }
    let copy = Action::Copy { page: PageId(1), source: Tier(0), target: Tier(3) };
    assert_eq!(actions.as_slice(), [copy]);
    hosts.server.assert_invariants();
}

#[test]
fn a_client_that_never_demotes_does_not_outgrow_what_is_noted_of_it() {
    let mut hosts = three_over_four(SPLIT[0]);
    for page in (0..PAGES).map(PageId) {
        hosts.server.receive(0, Message::Read { page }, &mut Actions::new());
    }
    assert_eq!(hosts.access(Access::read(0).by(1)), Outcome { found: 4, served: 1 });
}

#[test]
fn only_policies_that_are_split_are_found() {
    let names = split::POLICIES.iter().map(|split| split.name);
    assert!(names.clone().all(|name| registry::find(name).is_ok()));
    assert_eq!(
        names.collect::<Vec<_>>(),
        ["d-hfa", "demote", "h-hfa", "hint-k", "mq-n", "p-hfa", "promote"]
    );
    assert!(split::find("ulc").is_none());
}
