//! Memory that clients that take no replies cost the process, as the system counts it.

use std::io::Write as _;

use thermocline_nbd::codec::client::RequestHeader;
use thermocline_nbd::protocol::Command;

use super::{Cache, Client};

const READ_BYTES: u32 = 32 << 20;

fn header(command: Command, length_bytes: u32) -> RequestHeader {
    RequestHeader { cookie: 0, command, flags: 0, offset_bytes: 0, length_bytes }
}

#[test]
fn unread_reads_of_128_clients_take_no_more_than_the_limit() {
    const LIMIT: u64 = 64 << 20;
    let mut cache = Cache::new(64);
    let engine = cache.set("nbd.in_flight", "64MiB").start();
    let mut clients: Vec<Client> = (0..127).map(|_| engine.client()).collect();
    let mut good = engine.client();
    good.read(0, READ_BYTES as usize).unwrap();
    let before = engine.memory_peak_bytes();
    for client in &mut clients {
        client.send(header(Command::Read, READ_BYTES), &[]).unwrap();
        good.write(0, &[7; 512]).unwrap();
    }
    for _ in 0..200 {
        assert_eq!(good.read(0, 512), Ok(vec![7; 512]));
    }
    let more = engine.memory_peak_bytes() - before;
    // The limit, one request and one input buffer beyond it, 16 KiB of slack per client, and a quarter of
    // the limit for what the allocator keeps.
    let bound = LIMIT + u64::from(READ_BYTES) + (512 << 10) + 128 * (16 << 10) + LIMIT / 4;
    assert!(more <= bound, "{} MiB more, at most {} allowed", more >> 20, bound >> 20);
    drop(clients);
    engine.stop();
}

#[test]
fn twenty_thousand_questions_about_extents_are_answered_within_bounds() {
    const QUESTIONS: usize = 20_000;
    // The answer takes the same memory however many pages the engine looks at for it.
    const ASKED_BYTES: u32 = 4 << 20;
    let cache = Cache::new(64);
    let engine = cache.start();
    let mut client = Client::connect_for(&engine.socket(), "", "base:allocation").unwrap();
    let before = engine.memory_peak_bytes();
    let mut writer = client.stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        for cookie in 1..=QUESTIONS as u64 {
            let mut request = vec![];
            RequestHeader { cookie, ..header(Command::BlockStatus, ASKED_BYTES) }
                .write(&mut request);
            writer.write_all(&request).unwrap();
        }
    });
    for cookie in 1..=QUESTIONS as u64 {
        let asked = RequestHeader { cookie, ..header(Command::BlockStatus, ASKED_BYTES) };
        let statuses = client.wait(asked).unwrap().unwrap();
        assert_eq!(statuses, [0, 0x40, 0, 0, 0, 0, 0, 3], "the disk is one hole");
    }
    sender.join().unwrap();
    let more = engine.memory_peak_bytes() - before;
    assert!(more <= 64 << 20, "{} MiB for questions", more >> 20);
    engine.stop();
}
