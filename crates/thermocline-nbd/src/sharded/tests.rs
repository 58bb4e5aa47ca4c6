//! Several shards in one thread, each driven in turn.

use std::num::NonZeroU16;

use rustix::event::{PollFd, PollFlags, Timespec};
use thermocline_core::random::SplitMix64;
use thermocline_engine::driver::memory::MemoryDriver;
use thermocline_engine::{Options, PolicyOptions};

use super::*;
use crate::protocol::{command_flag, tier};

const MIB: u32 = 1 << 20;

type Shards = Vec<Sharded<MemoryDriver>>;

/// Create `count` shards of 16 MiB, 1 MiB in RAM and 4 MiB on flash.
fn shards(count: u16) -> Shards {
    let map = ShardMap::new(NonZeroU16::new(count).unwrap(), 4096);
    let options = Options::new(4096, 256, 1024, PolicyOptions::named("hat").unwrap());
    let engines = options.of_shards(map).unwrap().into_iter().map(Engine::in_memory);
    Sharded::all(engines.map(Result::unwrap).collect(), map).unwrap()
}

/// Return the answer to a request of a client of that shard, and what it gives.
fn call(
    shards: &mut Shards,
    at: usize,
    piece: Piece,
    payload: &[u8],
) -> Result<Vec<u8>, ErrorCode> {
    shards[at].submit(Tag(u64::MAX - 7), &piece, payload);
    loop {
        // The others come first, so that their parts are answered before those of the one that is asked.
        for step in 1..=shards.len() {
            let shard = (at + step) % shards.len();
            let member = &mut shards[shard];
            member.drive();
            let Some(reply) = member.next_reply() else { continue };
            assert_eq!((shard, reply.tag), (at, Tag(u64::MAX - 7)), "who asked is answered");
            let mut bytes = vec![];
            if piece.command == Command::Read && reply.outcome.is_ok() {
                member.take_data(reply.tag, &mut bytes);
            }
            return reply.outcome.map(|()| bytes);
        }
    }
}

fn piece(command: Command, offset_bytes: u64, length_bytes: u32) -> Piece {
    Piece { command, flags: 0, offset_bytes, length_bytes, cooperator: None }
}

#[test]
fn every_client_sees_what_any_other_wrote() {
    for count in 1..=4_u16 {
        let mut shards = shards(count);
        let mut model = vec![0_u8; 16 << 20];
        let mut random = SplitMix64::new(u64::from(count));
        for round in 0..600_u32 {
            let at = usize::try_from(random.bits() % u64::from(count)).unwrap();
            let length = [512, 4096, 4096, 70_000, 3 * MIB][(random.bits() % 5) as usize];
            let offset = random.bits() % (model.len() as u64 - u64::from(length)) / 512 * 512;
            let range = usize::try_from(offset).unwrap()..;
            let place = &mut model[range][..length as usize];
            let command = match random.bits() % 8 {
                0..=3 => Command::Read,
                4 => Command::WriteZeroes,
                5 => Command::Flush,
                _ => Command::Write,
            };
            // A write of the server's ends at multiples of 64 KiB; longer ones are none the worse.
            let payload = if command == Command::Write {
                place.fill((round % 251) as u8 + 1);
                place.to_vec()
            } else {
                vec![]
            };
            let asked = if command == Command::Flush {
                piece(command, 0, 0)
            } else {
                piece(command, offset, length)
            };
            if asked.length_bytes > MIB && command != Command::WriteZeroes {
                let first = Piece { length_bytes: MIB / 4, ..asked };
                let bytes = &payload[..payload.len().min(MIB as usize / 4)];
                let found = call(&mut shards, at, first, bytes).unwrap();
                let rest = piece(command, offset + u64::from(MIB / 4), 4096);
                let bytes = &payload[payload.len().min(MIB as usize / 4)..];
                call(&mut shards, at, rest, &bytes[..bytes.len().min(4096)]).unwrap();
                if command == Command::Read {
                    assert!(found == place[..MIB as usize / 4], "{count} shards, round {round}");
                    continue;
                }
                // Bytes that were not written are as before.
                let before = call(&mut shards, at, piece(Command::Read, offset, MIB / 4), &[]);
                assert!(before.unwrap() == place[..MIB as usize / 4]);
                let zeroes = piece(Command::WriteZeroes, offset, length);
                call(&mut shards, at, zeroes, &[]).unwrap();
                place.fill(0);
                continue;
            }
            let found = call(&mut shards, at, asked, &payload).unwrap();
            if command == Command::Read {
                assert!(found == *place, "{count} shards, round {round}");
            } else if command == Command::WriteZeroes {
                place.fill(0);
            }
        }
    }
}

/// Return the starts of a shard's extents, in bytes.
fn extents_of(shards: &Shards, shard: usize) -> Vec<u64> {
    let starts = (0..16).map(|mib| u64::from(MIB) * mib);
    starts.filter(|&start| shards[0].map.place(start).0 == shard).collect()
}

#[test]
fn bytes_on_their_way_stay_as_they_were() {
    let mut shards = shards(2);
    let start = extents_of(&shards, 1)[0];
    let page = piece(Command::Write, start, 4096);
    call(&mut shards, 1, page, &[1; 4096]).unwrap();
    // The second shard serves the read; then a client of its own writes the page.
    shards[0].submit(Tag(5), &piece(Command::Read, start, 4096), &[]);
    assert_eq!(shards[0].next_reply(), None);
    shards[1].drive();
    assert_eq!(shards[1].next_reply(), None);
    shards[1].submit(Tag(6), &page, &[2; 4096]);
    assert_eq!(shards[1].next_reply(), Some(Reply { tag: Tag(6), outcome: Ok(()) }));
    shards[0].drive();
    assert_eq!(shards[0].next_reply(), Some(Reply { tag: Tag(5), outcome: Ok(()) }));
    let mut found = vec![];
    shards[0].take_data(Tag(5), &mut found);
    assert_eq!(found, [1; 4096]);
    assert_eq!(shards[0].next_reply(), None);
    let now = call(&mut shards, 0, piece(Command::Read, start, 4096), &[]);
    assert_eq!(now.unwrap(), [2; 4096]);
}

#[test]
fn who_sleeps_is_woken_by_an_order_and_by_its_answer() {
    let mut shards = shards(2);
    let start = extents_of(&shards, 1)[0];
    assert!(shards[1].may_sleep());
    shards[0].submit(Tag(5), &piece(Command::Read, start, 4096), &[]);
    assert_eq!(shards[0].next_reply(), None);
    assert!(is_rung(&shards[1]), "there is an order");
    shards[1].has_woken();
    assert!(shards[0].may_sleep());
    shards[1].drive();
    shards[1].engine_mut().wait_until_idle();
    assert_eq!(shards[1].next_reply(), None);
    assert!(is_rung(&shards[0]), "there is an answer");
    assert!(!shards[0].may_sleep(), "what came before is found before it sleeps");
}

#[test]
fn frames_come_back_from_other_shards() {
    let mut shards = shards(2);
    let starts = extents_of(&shards, 1);
    // Several times as many pages as there are frames.
    for start in starts {
        for page in 0..u64::from(MIB) / 4096 {
            let read = piece(Command::Read, start + 4096 * page, 4096);
            assert_eq!(call(&mut shards, 0, read, &[]).unwrap().len(), 4096);
        }
    }
}

#[test]
fn a_flush_of_any_client_reaches_all_shards() {
    let mut shards = shards(3);
    for mib in 0..6 {
        let offset = u64::from(MIB) * mib;
        call(&mut shards, 0, piece(Command::Write, offset, 4096), &[7; 4096]).unwrap();
    }
    call(&mut shards, 2, piece(Command::Flush, 0, 0), &[]).unwrap();
    for shard in &mut shards {
        assert_eq!(shard.engine_mut().shard().undurable_pages(), 0);
        assert_eq!(shard.engine_mut().shard().counters().flushes, 1);
    }
}

#[test]
fn an_error_of_one_part_is_the_answer() {
    let mut shards = shards(2);
    // Only one of the two shards refuses writes.
    shards[1].engine_mut().shard_mut().set_write_mode(thermocline_engine::WriteMode::ReadOnly);
    for at in 0..2 {
        let zeroes = piece(Command::WriteZeroes, 0, 2 * MIB);
        assert_eq!(call(&mut shards, at, zeroes, &[]), Err(ErrorCode::NotPermitted));
        let fast = Piece { flags: command_flag::FAST_ZERO, ..zeroes };
        assert_eq!(call(&mut shards, at, fast, &[]), Err(ErrorCode::NotSupported));
    }
}

#[test]
fn the_status_of_extents_is_that_of_the_shards_that_have_them() {
    let mut shards = shards(2);
    for mib in 0..4 {
        let offset = u64::from(MIB) * mib;
        call(&mut shards, 0, piece(Command::Write, offset, 4096), &[7; 4096]).unwrap();
    }
    for at in 0..2 {
        assert!(shards[at].must_ask(Context::Tier));
        call(&mut shards, at, piece(Command::BlockStatus, 0, 4 * MIB), &[]).unwrap();
        let range = ExtentRange { offset_bytes: 0, length_bytes: 4 * MIB, count_max: 100 };
        let mut found = vec![];
        shards[at].extents(Context::Tier, &range, &mut found);
        let expected: Vec<Extent> = (0..4)
            .flat_map(|_| {
                let status = tier::RAM | tier::DIRTY;
                [
                    Extent { length_bytes: 4096, status },
                    Extent { length_bytes: MIB - 4096, status: 0 },
                ]
            })
            .collect();
        assert_eq!(found, expected);
        found.clear();
        shards[at].extents(Context::Allocation, &range, &mut found);
        assert!(!found.is_empty() && found.iter().all(|extent| extent.length_bytes > 0));
    }
}

#[test]
fn a_shard_is_needed_until_no_other_has_clients() {
    let mut shards = shards(2);
    assert!(shards[0].is_needed(false), "the other has some");
    assert!(shards[1].is_needed(true));
    assert!(shards[0].may_sleep());
    assert!(!is_rung(&shards[0]));
    assert!(!shards[1].is_needed(false));
    assert!(is_rung(&shards[0]), "who sleeps learns that it may end");
    assert!(!shards[0].is_needed(false));
}

/// Return `true` if something woke a shard.
fn is_rung(shard: &Sharded<MemoryDriver>) -> bool {
    let bell = shard.bell.as_ref().unwrap();
    let mut waits = [PollFd::from_borrowed_fd(bell.event(), PollFlags::IN)];
    rustix::event::poll(&mut waits, Some(&Timespec::default())).unwrap() == 1
}
