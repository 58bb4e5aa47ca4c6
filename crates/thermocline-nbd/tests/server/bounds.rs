//! The limits on memory, time and descriptors, against clients that try to exceed them.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::Command as Process;
use std::time::Duration;

use thermocline_nbd::codec::client::RequestHeader;
use thermocline_nbd::protocol::{Command, TRANSFER_BYTES_MAX};
use thermocline_nbd::server::Settings;

use super::Running;
use super::client::Client;
use super::memory::Memory;

const CLIENTS: usize = 40;
/// Excess over the limit by one client, besides its request: its input buffer, and slack.
const EXCESS_BYTES: usize = 1 << 20;

fn header(command: Command, length_bytes: u32) -> RequestHeader {
    RequestHeader { cookie: 0, command, flags: 0, offset_bytes: 0, length_bytes }
}

#[test]
fn unread_reads_of_many_clients_stay_within_the_limit() {
    let bytes_max = 48 << 20;
    let settings = Settings { bytes_max, clients_max: CLIENTS + 1, ..Settings::default() };
    let running = Running::start(Memory::new(TRANSFER_BYTES_MAX as usize), settings);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| running.client()).collect();
    let mut good = running.client();
    let bound = bytes_max + TRANSFER_BYTES_MAX as usize + EXCESS_BYTES;
    let mut most = 0;
    let mut look = |place: u64| {
        good.write(place, &[7; 512]).unwrap();
        assert_eq!(good.read(place, 512), Ok(vec![7; 512]));
        most = most.max(running.handle.held_bytes());
    };
    let headers: Vec<_> = clients
        .iter_mut()
        .map(|client| {
            let sent = client.send(header(Command::Read, TRANSFER_BYTES_MAX), &[]).unwrap();
            look(0);
            sent
        })
        .collect();
    (0..200).for_each(|round| look(round * 512));
    // Whoever reads gets everything, in whatever order the server began.
    let threads: Vec<_> = clients
        .into_iter()
        .zip(headers)
        .map(|(mut client, header)| {
            std::thread::spawn(move || client.wait(header).unwrap().map(|bytes| bytes.len()))
        })
        .collect();
    for thread in threads {
        look(0);
        assert_eq!(thread.join().unwrap(), Ok(TRANSFER_BYTES_MAX as usize));
    }
    assert!(most > 1 << 20, "the reads were held: {most}");
    assert!(most <= bound, "{most} bytes held, at most {bound} allowed");
}

#[test]
fn unread_statuses_stay_within_the_limit() {
    let client_bytes_max = 256 << 10;
    let settings = Settings { client_bytes_max, ..Settings::default() };
    // An extent that holds something is recognized by its first byte.
    let disk = (0..1024).fold(Memory::new(64 << 20), |disk, place| disk.holding(place << 16, 1));
    // Replies come late, so that requests gather.
    let running = Running::start(disk.delayed(100), settings);
    let mut reader = running.client();
    let mut client = Client::connect_for(&running.socket(), "", "base:allocation").unwrap();
    client.stream.set_nonblocking(true).unwrap();
    let (mut request, mut sent) = (vec![], 0);
    header(Command::BlockStatus, 64 << 20).write(&mut request);
    let many: Vec<u8> = request.iter().copied().cycle().take(request.len() * 4000).collect();
    let mut most = 0;
    for _ in 0..200 {
        match client.stream.write(&many[sent..]) {
            Ok(length) => sent += length,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        assert_eq!(reader.read(0, 1), Ok(vec![1]));
        most = most.max(running.handle.held_bytes());
    }
    let bound = client_bytes_max + EXCESS_BYTES;
    assert!(most > client_bytes_max / 4, "replies were held: {most}");
    assert!(most <= bound, "{most} bytes held, at most {bound} allowed");
}

/// Waits until all clients have gone and their memory is free.
fn wait_until_alone(running: &Running) {
    while running.handle.clients() > 0 || running.handle.held_bytes() > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn clients_that_stall_are_disconnected() {
    let send_limit = Duration::from_millis(40);
    let settings = Settings { send_limit, ..Settings::default() };
    let running = Running::start(Memory::new(TRANSFER_BYTES_MAX as usize), settings);
    // One takes no reply, one stops in a header, one in a payload, and one in a later piece of it.
    let mut deaf = running.client();
    deaf.send(header(Command::Read, TRANSFER_BYTES_MAX), &[]).unwrap();
    wait_until_alone(&running);
    for (length, sent) in [(1, 5), (4096, 128), (256 << 10, 200 << 10), (1 << 20, 300 << 10)] {
        let mut slow = running.client();
        let mut bytes = vec![];
        header(Command::Write, length).write(&mut bytes);
        bytes.resize(bytes.len() + length as usize, 0);
        slow.stream.write_all(&bytes[..sent]).unwrap();
        wait_until_alone(&running);
    }
}

#[test]
fn idle_clients_are_disconnected_if_wanted() {
    let idle_limit = Some(Duration::from_millis(40));
    let running = Running::start(Memory::new(4096), Settings { idle_limit, ..Settings::default() });
    let mut client = running.client();
    assert_eq!(client.read(0, 1), Ok(vec![0]));
    wait_until_alone(&running);
    // Without the limit, a client that is idle for as long stays.
    let send_limit = Duration::from_millis(1);
    let running = Running::start(Memory::new(4096), Settings { send_limit, ..Settings::default() });
    let mut client = running.client();
    let mut silent = UnixStream::connect(running.socket()).unwrap();
    silent.read_exact(&mut [0; 18]).unwrap();
    for _ in 0..100 {
        assert_eq!(client.read(0, 1), Ok(vec![0]));
    }
    assert_eq!(running.handle.clients(), 2);
}

/// Few descriptors are left for the process that runs this, and for no other test.
#[test]
#[ignore = "runs in a process of its own, started by the next test"]
fn few_descriptors() {
    let negotiation_limit = Duration::from_mins(10);
    let settings = Settings { negotiation_limit, ..Settings::default() };
    let running = Running::start(Memory::new(4096), settings);
    let mut clients = vec![];
    while let Ok(client) = UnixStream::connect(running.socket()) {
        clients.push(client);
    }
    let mut last = clients.pop().unwrap();
    last.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    drop(clients);
    last.read_exact(&mut [0; 18]).unwrap();
}

#[test]
fn clients_are_accepted_once_there_are_descriptors() {
    let output = Process::new("sh")
        .args(["-c", "ulimit -n 40; exec \"$0\" --exact bounds::few_descriptors --ignored"])
        .arg(std::env::current_exe().unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}
