//! Requests of every size, and clients that want too much.

use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use thermocline_nbd::codec::client::RequestHeader;
use thermocline_nbd::protocol::{Command, ErrorCode};
use thermocline_nbd::server::{Export, Listen, Server, ServerError, Settings, SocketAccess};

use super::Running;
use super::client::Client;
use super::memory::Memory;

/// Requests that are sent without waiting.
const COUNT: usize = 5000;

/// Return the bytes that differ from place to place.
fn pattern(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|place| ((place * 2_654_435_761 + seed) >> 13).to_le_bytes()[0]).collect()
}

#[test]
fn requests_of_every_size_come_back() {
    for delay_drives in [0, 2] {
        let service = Memory::new(40 << 20).delayed(delay_drives);
        let running = Running::start(service, Settings::default());
        let mut client = running.client();
        for (seed, (offset, length)) in [
            (0, 1),
            (4095, 2),
            ((256 << 10) - 1, (512 << 10) + 2),
            (123, 32 << 20),
            (0, 0),
            ((40 << 20) - 7, 7),
        ]
        .into_iter()
        .enumerate()
        {
            let bytes = pattern(length, seed);
            client.write(offset, &bytes).unwrap();
            assert!(client.read(offset, length).unwrap() == bytes, "{length} bytes at {offset}");
        }
        client.call(Command::Trim, 0, 40 << 20, &[]).unwrap();
        assert!(client.read(0, 32 << 20).unwrap().iter().all(|byte| *byte == 0));
        client.call(Command::Flush, 0, 0, &[]).unwrap();
    }
}

#[test]
fn one_bad_piece_fails_the_whole_read() {
    let mut service = Memory::new(4 << 20);
    service.broken_bytes = 600 << 10..601 << 10;
    let running = Running::start(service, Settings::default());
    let mut client = running.client();
    assert_eq!(client.read(0, 2 << 20), Err(ErrorCode::Io));
    assert_eq!(client.read(600 << 10, 1), Err(ErrorCode::Io));
    assert_eq!(client.read(0, 512 << 10).map(|bytes| bytes.len()), Ok(512 << 10));
}

#[test]
fn extents_say_what_is_where() {
    let running = Running::start(Memory::new(1 << 20), Settings::default());
    let mut client = running.client();
    assert_eq!(client.agreed.contexts, [(2, "thermocline:tier".to_owned())]);
    client.write(65_536, &[1; 10]).unwrap();
    let statuses = client.call(Command::BlockStatus, 0, 196_608, &[]).unwrap();
    let number = |place: usize| u32::from_be_bytes(statuses[4 * place..][..4].try_into().unwrap());
    let found: Vec<_> =
        (0..statuses.len() / 8).map(|i| (number(2 * i), number(2 * i + 1))).collect();
    assert_eq!(found, [(65_536, 0), (65_536, 5), (65_536, 0)]);
}

#[test]
fn a_client_too_many_is_turned_away() {
    let settings = Settings { clients_max: 2, ..Settings::default() };
    let running = Running::start(Memory::new(4096), settings);
    let mut first = running.client();
    let second = running.client();
    assert_eq!(running.handle.clients(), 2);
    assert!(Client::connect(&running.socket(), "").is_err());
    assert_eq!(running.handle.clients(), 2);
    drop(second);
    assert_eq!(first.read(0, 1), Ok(vec![0]));
    // The place is free once the server has seen the second leave, which it is told in order.
    let third = (0..1000).find_map(|_| Client::connect(&running.socket(), "").ok());
    assert!(third.is_some());
    drop((first, third));
    while running.handle.clients() > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn who_does_not_choose_an_export_is_turned_away() {
    let limit = Duration::from_millis(1);
    let settings = Settings { negotiation_limit: limit, ..Settings::default() };
    let running = Running::start(Memory::new(4096), settings);
    let mut silent = UnixStream::connect(running.socket()).unwrap();
    let mut greeting = vec![];
    // It would wait for ever if the server did not close.
    silent.read_to_end(&mut greeting).unwrap();
    assert_eq!(greeting.len(), 18);
}

#[test]
fn a_client_that_reads_nothing_holds_up_nobody() {
    let settings =
        Settings { client_bytes_max: 1 << 20, bytes_max: 2 << 20, ..Settings::default() };
    let running = Running::start(Memory::new(1 << 20), settings);
    // Requests for a hundred times what the server lets it have in flight.
    let mut greedy = running.client();
    let read = RequestHeader {
        cookie: 0,
        command: Command::Read,
        flags: 0,
        offset_bytes: 0,
        length_bytes: 1 << 20,
    };
    let headers: Vec<_> = (0..200).map(|_| greedy.send(read, &[]).unwrap()).collect();
    let mut good = running.client();
    for round in 0..100 {
        good.write(round, &[7]).unwrap();
        assert_eq!(good.read(round, 1), Ok(vec![7]));
    }
    // And it gets everything once it reads.
    for header in headers {
        assert_eq!(greedy.wait(header).unwrap().map(|bytes| bytes.len()), Ok(1 << 20));
    }
}

#[test]
fn many_requests_in_flight_are_all_answered() {
    let settings = Settings { client_bytes_max: 64 << 10, ..Settings::default() };
    let running = Running::start(Memory::new(1 << 20).delayed(3), settings);
    let mut client = running.client();
    let mut reader = client.stream.try_clone().unwrap();
    let write = RequestHeader {
        cookie: 0,
        command: Command::Write,
        flags: 0,
        offset_bytes: 512,
        length_bytes: 4096,
    };
    let thread = std::thread::spawn(move || {
        let mut replies = vec![0; 16 * COUNT];
        reader.read_exact(&mut replies).unwrap();
        replies
    });
    for _ in 0..COUNT {
        client.send(write, &[3; 4096]).unwrap();
    }
    let replies = thread.join().unwrap();
    let mut cookies: Vec<_> =
        replies.chunks(16).map(|it| u64::from_be_bytes(it[8..].try_into().unwrap())).collect();
    cookies.sort_unstable();
    assert!(cookies.iter().copied().eq(1..=COUNT as u64));
    assert!(replies.chunks(16).all(|it| it[4..8] == [0; 4]));
}

#[test]
fn a_server_that_stops_answers_what_it_has_begun() {
    // Enough drives that the request is still under way when the server is told to stop.
    let running = Running::start(Memory::new(4096).delayed(50), Settings::default());
    let mut client = running.client();
    let read = RequestHeader {
        cookie: 0,
        command: Command::Read,
        flags: 0,
        offset_bytes: 0,
        length_bytes: 512,
    };
    client.read(0, 1).unwrap();
    let header = client.send(read, &[]).unwrap();
    let mut waiting = UnixStream::connect(running.socket()).unwrap();
    let mut byte = [0];
    // The greeting shows that the server has come round since the request was sent.
    waiting.read_exact(&mut byte).unwrap();
    drop(running);
    assert_eq!(client.wait(header).unwrap().map(|bytes| bytes.len()), Ok(512));
    assert!(client.send(read, &[]).and_then(|header| client.wait(header)).is_err());
}

#[test]
fn a_server_that_stops_acknowledges_no_half_write() {
    let running = Running::start(Memory::new(1 << 20).delayed(200), Settings::default());
    let mut client = running.client();
    client.read(0, 1).unwrap();
    let write = RequestHeader {
        cookie: 0,
        command: Command::Write,
        flags: 0,
        offset_bytes: 0,
        length_bytes: 512 << 10,
    };
    // The server takes the first piece, and the second never comes.
    let header = client.send(write, &vec![7; 300 << 10]).unwrap();
    let mut waiting = UnixStream::connect(running.socket()).unwrap();
    let mut byte = [0];
    waiting.read_exact(&mut byte).unwrap();
    drop(running);
    let answer = client.wait(header);
    assert!(!matches!(answer, Ok(Ok(_))), "half of it was taken: {answer:?}");
}

#[test]
fn places_that_cannot_be_listened_at_are_refused() {
    let server = || {
        let service = Memory::new(4096);
        Server::new(Settings::default(), vec![Export { info: service.info("a"), service }]).unwrap()
    };
    let remote = server().listen(Listen::Tcp("0.0.0.0:0".parse().unwrap()));
    assert!(matches!(remote, Err(ServerError::Remote { .. })));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, "precious").unwrap();
    assert!(matches!(server().listen(Listen::Unix(path.clone())), Err(ServerError::Listen { .. })));
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    // A socket that somebody listens at, and one that nobody does.
    let busy = folder.path().join("busy");
    let listener = std::os::unix::net::UnixListener::bind(&busy).unwrap();
    assert!(server().listen(Listen::Unix(busy.clone())).is_err());
    drop(listener);
    assert!(server().listen(Listen::Unix(busy)).is_ok());
}

/// Return the mode, owner and group of a socket that a server listens at.
fn listened(place: impl FnOnce(PathBuf) -> Listen) -> Result<(u32, u32, u32), ServerError> {
    use std::os::unix::fs::MetadataExt as _;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let service = Memory::new(4096);
    let exports = vec![Export { info: service.info("a"), service }];
    let mut server = Server::new(Settings::default(), exports).unwrap();
    let result = server.listen(place(path.clone()));
    let file = std::fs::symlink_metadata(&path);
    assert_eq!(file.is_ok(), result.is_ok(), "a socket that cannot be used is removed");
    result?;
    // A connection shows that the socket listens.
    UnixStream::connect(&path).unwrap();
    let file = file.unwrap();
    Ok((file.mode() & 0o7777, file.uid(), file.gid()))
}

#[test]
fn a_socket_is_for_those_whom_its_mode_names() {
    let (mode, uid, gid) = listened(Listen::Unix).unwrap();
    assert_eq!(mode, 0o600);
    // More than any usual umask leaves.
    for mode in [0o660, 0o666, 0o777] {
        let access = SocketAccess { mode, ..SocketAccess::default() };
        let found = listened(|path| Listen::UnixFor(path, access)).unwrap();
        assert_eq!(found, (mode, uid, gid));
    }
    let own = SocketAccess { mode: 0o660, owner: Some(uid), group: Some(gid) };
    assert_eq!(listened(|path| Listen::UnixFor(path, own)).unwrap(), (0o660, uid, gid));
    let other = SocketAccess { mode: 0o660, owner: Some(12), group: Some(34) };
    match listened(|path| Listen::UnixFor(path, other)) {
        Ok(found) => assert_eq!(found, (0o660, 12, 34)),
        // Only root gives files away.
        Err(error) => {
            assert_ne!(uid, 0, "root sets owners: {error}");
            let reason = std::error::Error::source(&error).unwrap().to_string();
            assert!(reason.contains("owner and group"), "{reason}");
        }
    }
}

#[test]
fn exports_need_names_of_their_own() {
    for names in [vec!["a", "a"], vec!["b\0c"]] {
        let exports = names
            .iter()
            .map(|name| {
                let service = Memory::new(1);
                Export { info: service.info(name), service }
            })
            .collect();
        let refused = Server::new(Settings::default(), exports);
        assert!(matches!(refused, Err(ServerError::Export { .. })), "{names:?}");
    }
}

#[test]
fn each_client_gets_the_export_it_names() {
    let services = vec![("a", Memory::new(4096)), ("b", Memory::new(8192))];
    let running = Running::start_many(services, Settings::default(), false);
    let mut a = Client::connect(&running.socket(), "a").unwrap();
    let mut b = Client::connect(&running.socket(), "b").unwrap();
    assert_eq!((a.agreed.size_bytes, b.agreed.size_bytes), (4096, 8192));
    a.write(0, b"a").unwrap();
    assert_eq!(b.read(0, 1), Ok(vec![0]));
    assert_eq!(a.read(0, 1), Ok(b"a".to_vec()));
    assert!(Client::connect(&running.socket(), "").is_err());
}
