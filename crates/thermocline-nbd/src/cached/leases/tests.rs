//! Clients that hold pages, as time goes by.

use super::*;

const TERMS: ClientTerms = ClientTerms { clients: 2, pages: 10, pushes: false };

fn leases() -> (Leases, Instant) {
    (Leases::new(TERMS), Instant::now())
}

/// Attaches the client of a connection with its number as its identity, and has it wait.
fn attach(leases: &mut Leases, connection: u16, now: Instant) -> u8 {
    let introduction = Introduction {
        identity: connection.into(),
        pages: TERMS.pages,
        takes_pushes: TERMS.pushes,
    };
    leases.attach(Cooperator(connection), introduction, now).unwrap();
    let client = leases.client(Cooperator(connection)).unwrap();
    leases.ask(client, Tag(connection.into()), now);
    client
}

fn answers(leases: &mut Leases) -> Vec<Answer> {
    std::iter::from_fn(|| leases.next_answer()).collect()
}

#[test]
fn a_write_waits_until_others_have_given_the_page_up() {
    let (mut leases, now) = leases();
    let (one, other) = (attach(&mut leases, 1, now), attach(&mut leases, 2, now));
    leases.hold(one, 3..5);
    leases.hold(other, 4..6);
    assert!(leases.may_write(Some(one), 3..4, now), "nobody else holds it");
    assert!(!leases.may_write(Some(one), 4..5, now));
    assert_eq!(answers(&mut leases), [(Tag(2), Ok(vec![4]))]);
    assert!(!leases.may_write(Some(one), 4..5, now), "it was told, and has not answered");
    assert_eq!(answers(&mut leases), []);
    leases.ask(other, Tag(3), now);
    assert!(leases.may_write(Some(one), 4..5, now));
    // Somebody who holds nothing waits for both.
    leases.hold(other, 4..5);
    assert!(!leases.may_write(None, 0..9, now));
    let told = answers(&mut leases);
    assert_eq!(told, [(Tag(1), Ok(vec![3, 4])), (Tag(3), Ok(vec![4, 5]))]);
}

#[test]
fn a_copy_is_of_the_newest_version_unless_it_was_recalled() {
    let (mut leases, now) = leases();
    let (one, other) = (attach(&mut leases, 1, now), attach(&mut leases, 2, now));
    assert!(!leases.give_up(one, 3), "it never had it");
    leases.hold(one, 3..4);
    assert!(leases.give_up(one, 3));
    assert!(!leases.give_up(one, 3), "it gave it up already");
    leases.hold(one, 3..4);
    assert!(!leases.may_write(Some(other), 3..4, now));
    assert!(!leases.give_up(one, 3), "it is about to be written");
    assert!(leases.may_write(Some(other), 3..4, now), "it was given up meanwhile");
    // Its confirmation ends no lease that it got since for another reason.
    leases.hold(other, 3..4);
    leases.hold(one, 3..4);
    leases.ask(one, Tag(9), now);
    assert!(!leases.may_write(Some(one), 3..4, now));
    assert!(leases.may_write(Some(other), 4..5, now));
    assert!(!leases.may_write(Some(other), 3..4, now));
}

#[test]
fn a_page_is_kept_until_it_is_given_up_or_wanted() {
    let (mut leases, now) = leases();
    let (one, other) = (attach(&mut leases, 1, now), attach(&mut leases, 2, now));
    assert!(!leases.is_kept(one, 3));
    leases.hold(one, 3..4);
    assert!(leases.is_kept(one, 3) && !leases.is_kept(other, 3));
    leases.may_write(Some(other), 3..4, now);
    assert!(!leases.is_kept(one, 3), "it is about to be written");
}

#[test]
fn who_takes_pages_unasked_needs_a_server_that_sends_them() {
    let now = Instant::now();
    for (pushes, takes_pushes) in [(false, true), (true, false), (true, true)] {
        let mut leases = Leases::new(ClientTerms { pushes, ..TERMS });
        let introduction = Introduction { identity: 1, pages: TERMS.pages, takes_pushes };
        let found = leases.attach(Cooperator(1), introduction, now);
        assert_eq!(found.is_ok(), pushes == takes_pushes);
        assert!(found.is_ok() || found == Err(ErrorCode::NotSupported));
    }
}

#[test]
fn a_silent_client_delays_a_write_and_no_more() {
    let (mut leases, now) = leases();
    let one = attach(&mut leases, 1, now);
    leases.hold(one, 3..4);
    assert!(!leases.may_write(None, 3..4, now));
    assert_eq!(answers(&mut leases), [(Tag(1), Ok(vec![3]))]);
    let later = now + CLIENT_LIMIT;
    leases.tick(later);
    assert!(!leases.may_write(None, 3..4, later));
    leases.tick(now + SERVER_LIMIT);
    assert!(leases.may_write(None, 3..4, later));
    assert_eq!(leases.next_ended(), Some(one));
    assert_eq!(leases.client(Cooperator(1)), None, "it must attach again");
    assert!(CLIENT_LIMIT < SERVER_LIMIT, "it has stopped using its copies before");
}

#[test]
fn who_waits_hears_from_the_server() {
    let (mut leases, now) = leases();
    attach(&mut leases, 1, now);
    leases.tick(now);
    assert_eq!(answers(&mut leases), []);
    leases.tick(now + ANSWER_INTERVAL);
    assert_eq!(answers(&mut leases), [(Tag(1), Ok(vec![]))]);
    // A client that waits and blocks nobody keeps its session.
    leases.tick(now + 100 * SERVER_LIMIT);
    assert!(leases.client(Cooperator(1)).is_some());
    leases.ask(0, Tag(7), now);
    leases.ask(0, Tag(8), now);
    assert_eq!(answers(&mut leases), [(Tag(8), Err(ErrorCode::Invalid))], "one question at a time");
}

#[test]
fn who_leaves_in_order_is_in_nobodys_way() {
    for (departure, may_write) in [(Departure::Orderly, true), (Departure::Lost, false)] {
        let (mut leases, now) = leases();
        let one = attach(&mut leases, 1, now);
        leases.hold(one, 3..4);
        leases.left(Cooperator(1), departure);
        assert_eq!(answers(&mut leases), [(Tag(1), Err(ErrorCode::ShuttingDown))]);
        assert_eq!(leases.may_write(None, 3..4, now), may_write, "{departure:?}");
        leases.tick(now + SERVER_LIMIT);
        assert!(leases.may_write(None, 3..4, now));
    }
}

#[test]
fn who_comes_back_has_nothing_and_takes_nobodys_place() {
    let (mut leases, now) = leases();
    let one = attach(&mut leases, 1, now);
    attach(&mut leases, 2, now);
    leases.hold(one, 3..4);
    let takes_pushes = TERMS.pushes;
    let mut come = |connection, identity, pages| {
        let introduction = Introduction { identity, pages, takes_pushes };
        leases.attach(Cooperator(connection), introduction, now)
    };
    assert_eq!(come(3, 3, 10), Err(ErrorCode::NoSpace));
    assert_eq!(come(3, 1, 11), Err(ErrorCode::Overflow));
    assert_eq!(come(2, 2, 10), Err(ErrorCode::Invalid), "one connection attaches once");
    assert_eq!(come(3, 1, 10), Ok(()));
    assert_eq!(leases.client(Cooperator(3)), Some(one));
    assert!(leases.may_write(None, 3..4, now));
    assert_eq!(leases.next_ended(), Some(one));
}

#[test]
fn who_keeps_more_than_it_has_room_for_is_not_counted_on() {
    let (mut leases, now) = leases();
    let one = attach(&mut leases, 1, now);
    let most = u64::from(2 * TERMS.pages) + LEASES_BESIDE as u64;
    leases.hold(one, 0..most);
    assert!(leases.client(Cooperator(1)).is_some());
    leases.hold(one, most..most + 1);
    assert_eq!(leases.client(Cooperator(1)), None);
    assert!(leases.may_write(None, 0..most + 1, now));
}
