//! Clients that exceed their rates: their requests wait in order, and nobody else's do.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use thermocline_nbd::codec::client::RequestHeader;
use thermocline_nbd::protocol::Command;
use thermocline_nbd::server::{ClientRates, Settings};

use super::Running;
use super::client::Client;
use super::memory::Memory;

/// Time after which a server that does not go on has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// Debt that a client may have, in seconds.
const BURST_SECONDS: f64 = 0.1;

fn requests_per_second(rate: u64) -> ClientRates {
    ClientRates { requests_per_second: NonZeroU64::new(rate), ..ClientRates::default() }
}

fn start(client_rates: ClientRates) -> Running {
    Running::start(Memory::new(1 << 20), Settings { client_rates, ..Settings::default() })
}

fn header(command: Command, cookie: u64, length_bytes: u32) -> RequestHeader {
    RequestHeader { cookie, command, flags: 0, offset_bytes: 0, length_bytes }
}

/// Send a number of requests of one kind at once, with the cookies from 1 on.
fn send_all(client: &mut Client, command: Command, count: u64) {
    let mut bytes = vec![];
    for cookie in 1..=count {
        header(command, cookie, 512).write(&mut bytes);
        if command == Command::Write {
            bytes.extend_from_slice(&[cookie.to_le_bytes()[0]; 512]);
        }
    }
    client.stream.write_all(&bytes).unwrap();
}

/// Read the replies to a number of requests that return no data. They must come in the order of the requests.
#[track_caller]
fn expect_replies(client: &mut Client, cookies: std::ops::RangeInclusive<u64>) {
    for cookie in cookies {
        let mut reply = [0; 16];
        client.stream.read_exact(&mut reply).unwrap();
        assert_eq!(reply[4..8], [0; 4], "request {cookie} failed");
        assert_eq!(u64::from_be_bytes(reply[8..].try_into().unwrap()), cookie);
    }
}

/// Check that the requests after the burst took as long as their rate says.
#[track_caller]
fn check_rate(start: Instant, requests: f64, rate: f64) {
    let least = (requests - 1.0) / rate - BURST_SECONDS;
    let found = start.elapsed().as_secs_f64();
    assert!(found >= least, "{requests} requests took {found} s, and {least} s is the least");
}

fn wait_until_gone(running: &Running) {
    let start = Instant::now();
    while running.handle.clients() > 0 {
        assert!(start.elapsed() < PATIENCE, "the client keeps its place");
        std::thread::yield_now();
    }
}

#[test]
fn requests_beyond_the_rate_wait_in_order() {
    let running = start(requests_per_second(200));
    let mut client = running.client();
    let start = Instant::now();
    send_all(&mut client, Command::Write, 60);
    expect_replies(&mut client, 1..=60);
    check_rate(start, 60.0, 200.0);
    assert_eq!(client.read(0, 512), Ok(vec![60; 512]));
}

#[test]
fn bytes_beyond_the_rate_wait() {
    let rate = 1 << 20;
    let bytes_per_second = NonZeroU64::new(rate);
    let running = start(ClientRates { bytes_per_second, ..ClientRates::default() });
    let mut client = running.client();
    let start = Instant::now();
    for turn in 0..4 {
        client.write(0, &vec![turn; 64 << 10]).unwrap();
        assert_eq!(client.read(0, 64 << 10), Ok(vec![turn; 64 << 10]));
    }
    check_rate(start, 8.0, 16.0);
    // Neither moves bytes.
    let start = Instant::now();
    for _ in 0..100 {
        client.call(Command::Trim, 0, 1 << 20, &[]).unwrap();
        client.call(Command::Flush, 0, 0, &[]).unwrap();
    }
    assert!(start.elapsed() < PATIENCE, "200 MiB would take longer");
    client.call(Command::Cache, 0, 1 << 20, &[]).unwrap();
    let start = Instant::now();
    client.read(0, 1).unwrap();
    assert!(start.elapsed() > Duration::from_millis(500), "a range to be cached has bytes");
}

#[test]
fn each_client_has_its_rates() {
    let running = start(requests_per_second(10));
    let mut limited = running.client();
    // They take minutes, and fit into the socket.
    send_all(&mut limited, Command::Trim, 2000);
    expect_replies(&mut limited, 1..=1);
    let start = Instant::now();
    for _ in 0..5 {
        // Its first two requests are its burst.
        let mut other = running.client();
        assert_eq!(other.read(0, 512), Ok(vec![0; 512]));
        assert_eq!(other.read(0, 512), Ok(vec![0; 512]));
    }
    assert!(start.elapsed() < PATIENCE, "others wait for the limited client");
    expect_replies(&mut limited, 2..=3);
}

#[test]
fn a_farewell_waits_for_the_requests_before_it() {
    let running = start(requests_per_second(100));
    let mut client = running.client();
    let start = Instant::now();
    send_all(&mut client, Command::Trim, 30);
    let mut farewell = vec![];
    header(Command::Disconnect, 0, 0).write(&mut farewell);
    client.stream.write_all(&farewell).unwrap();
    client.stream.shutdown(Shutdown::Write).unwrap();
    expect_replies(&mut client, 1..=30);
    check_rate(start, 30.0, 100.0);
    assert_eq!(client.stream.read(&mut [0]).unwrap(), 0, "the server closes the connection");
    wait_until_gone(&running);
}

/// Start a server with a client that has to wait for minutes before its next request.
fn start_in_debt() -> (Running, Client) {
    let bytes_per_second = NonZeroU64::new(1);
    let running = start(ClientRates { bytes_per_second, ..ClientRates::default() });
    let mut client = running.client();
    client.read(0, 512).unwrap();
    (running, client)
}

#[test]
fn a_client_that_is_lost_while_it_waits_frees_its_place() {
    let (running, mut client) = start_in_debt();
    send_all(&mut client, Command::Trim, 100);
    // The answer shows that the server has come round since.
    running.client().read(0, 1).unwrap();
    drop(client);
    wait_until_gone(&running);
}

/// The server may hear that the client has gone before it reads the request that has to wait.
#[test]
fn a_client_that_is_lost_before_it_waits_frees_its_place() {
    let (running, mut client) = start_in_debt();
    send_all(&mut client, Command::Trim, 1);
    drop(client);
    wait_until_gone(&running);
}

#[test]
fn a_server_stops_although_requests_wait() {
    let running = start(requests_per_second(1));
    let mut client = running.client();
    send_all(&mut client, Command::Write, 100);
    expect_replies(&mut client, 1..=1);
    let start = Instant::now();
    drop(running);
    assert!(start.elapsed() < Settings::default().negotiation_limit, "it does not wait for them");
    let mut rest = vec![];
    client.stream.read_to_end(&mut rest).unwrap();
    assert_eq!(rest.len() % 16, 0, "replies are whole");
}

#[test]
fn other_rates_begin_at_once() {
    let running = start(requests_per_second(1));
    let mut client = running.client();
    send_all(&mut client, Command::Trim, 1000);
    expect_replies(&mut client, 1..=1);
    let start = Instant::now();
    running.handle.set_client_rates(requests_per_second(500));
    expect_replies(&mut client, 2..=100);
    check_rate(start, 99.0, 500.0);
    running.handle.set_client_rates(ClientRates::default());
    expect_replies(&mut client, 101..=1000);
    assert!(start.elapsed() < PATIENCE, "there is no limit any more");
}

#[test]
fn a_client_that_waits_for_its_time_is_neither_idle_nor_slow() {
    let limit = Duration::from_millis(100);
    let settings = Settings {
        client_rates: requests_per_second(2),
        send_limit: limit,
        idle_limit: Some(limit),
        ..Settings::default()
    };
    let running = Running::start(Memory::new(1 << 20), settings);
    let mut client = running.client();
    send_all(&mut client, Command::Trim, 3);
    expect_replies(&mut client, 1..=3);
}
