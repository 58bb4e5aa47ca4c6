//! A web server of one object that fails as it is told, and reading through it.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::*;
use crate::{CompiledTrace, PageSize, ReadOptions, Reader};

/// Fault of one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// No fault.
    None,
    /// The connection breaks after this many bytes of the body.
    Breaks(usize),
    /// The server is busy.
    Busy,
    /// All of the object comes, whatever was asked for.
    IgnoresRange,
    /// The object has changed.
    Changed,
    /// The answer says that it begins one byte later than it does.
    WrongRange,
    /// The answer does not say which version of the object it is.
    NoVersion,
    /// The server refuses.
    Refuses,
}

/// A server that answers requests with the faults of a list, in order, and then with none.
struct Server {
    address: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(body: Vec<u8>, faults: Vec<Fault>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/traces/t.csv", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(vec![]));
        let (seen, mut faults) = (Arc::clone(&requests), VecDeque::from(faults));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let fault = faults.pop_front().unwrap_or(Fault::None);
                // A client that goes away is none of the server's business.
                let _ended = answer(&stream.unwrap(), &body, fault, &seen);
            }
        });
        Self { address, requests }
    }
}

fn answer(
    stream: &TcpStream,
    body: &[u8],
    fault: Fault,
    seen: &Mutex<Vec<String>>,
) -> io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let mut range = None;
    let mut request = String::new();
    for line in lines.by_ref() {
        let line = line?;
        if line.is_empty() {
            break;
        }
        if let Some(bytes) = line.to_ascii_lowercase().strip_prefix("range: bytes=") {
            let (first, last) = bytes.split_once('-').unwrap();
            let first: usize = first.parse().unwrap();
            range = Some((first, last.parse().map_or(body.len(), |last: usize| last + 1)));
        }
        request += &line;
        request.push('\n');
    }
    seen.lock().unwrap().push(request.clone());
    let mut out = stream;
    let status = match fault {
        Fault::Busy => Some("503 Service Unavailable"),
        Fault::Refuses => Some("403 Forbidden"),
        _ if !request.starts_with("GET /traces/t.csv ") => Some("404 Not Found"),
        Fault::None
        | Fault::Breaks(_)
        | Fault::IgnoresRange
        | Fault::Changed
        | Fault::WrongRange
        | Fault::NoVersion => None,
    };
    if let Some(status) = status {
        return write!(out, "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    }
    let range = range.filter(|_| fault != Fault::IgnoresRange);
    let (first, end) = range.unwrap_or((0, body.len()));
    let status = if range.is_some() { "206 Partial Content" } else { "200 OK" };
    write!(out, "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n", end - first)?;
    write!(out, "last-modified: Wed, 25 Nov 2026 00:00:00 GMT\r\n")?;
    if fault != Fault::NoVersion {
        let version = if fault == Fault::Changed { "two" } else { "one" };
        write!(out, "etag: \"{version}\"\r\n")?;
    }
    if range.is_some() {
        let shift = usize::from(fault == Fault::WrongRange);
        let (first, last) = (first + shift, end + shift - 1);
        write!(out, "content-range: bytes {first}-{last}/{}\r\n", body.len())?;
    }
    write!(out, "\r\n")?;
    let sent = if let Fault::Breaks(bytes) = fault {
        &body[first..end.min(first + bytes)]
    } else {
        &body[first..end]
    };
    out.write_all(sent)
}

fn quick() -> RetryConfig {
    let millisecond = Duration::from_millis(1);
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: millisecond,
            max_backoff: millisecond,
            ..BackoffConfig::default()
        },
        ..retries()
    }
}

fn read(address: &str) -> io::Result<Vec<u8>> {
    let (store, place) = store_of(address, quick())?;
    let mut bytes = vec![];
    Remote::read_from(store, place)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn body(bytes: usize) -> Vec<u8> {
    (0..=250).cycle().step_by(31).take(bytes).collect()
}

fn any_fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        4 => Just(Fault::None),
        8 => (0_usize..200_000).prop_map(Fault::Breaks),
        2 => Just(Fault::Busy),
        1 => Just(Fault::IgnoresRange),
        1 => Just(Fault::Changed),
        1 => Just(Fault::WrongRange),
        1 => Just(Fault::NoVersion),
        1 => Just(Fault::Refuses),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn whatever_the_server_does_all_bytes_come_or_an_error(
        bytes in 0_usize..300_000, faults in prop::collection::vec(any_fault(), 0..6),
    ) {
        let body = body(bytes);
        let server = Server::start(body.clone(), faults);
        if let Ok(found) = read(&server.address) {
            prop_assert!(found == body, "{} of {bytes} bytes, or others", found.len());
        }
    }
}

#[test]
fn broken_connections_are_resumed_where_they_broke() {
    let body = body(500_000);
    let faults = vec![Fault::Busy, Fault::Breaks(100_000), Fault::Busy, Fault::Breaks(150_000)];
    let server = Server::start(body.clone(), faults);
    assert!(read(&server.address).unwrap() == body);
    let requests = server.requests.lock().unwrap();
    let ranges: Vec<&str> = requests
        .iter()
        .filter_map(|request| request.lines().find_map(|line| line.strip_prefix("range: ")))
        .collect();
    assert_eq!(requests.len(), 5, "{requests:?}");
    assert_eq!(ranges.last(), Some(&"bytes=250000-499999"));
}

#[test]
fn what_cannot_be_resumed_is_an_error() {
    let broken = |then: Fault| {
        let server = Server::start(body(500_000), vec![Fault::Breaks(100_000), then]);
        read(&server.address).unwrap_err().to_string()
    };
    for then in [Fault::Changed, Fault::IgnoresRange, Fault::WrongRange] {
        let error = broken(then);
        assert!(!error.is_empty(), "{then:?}: {error}");
    }
    let server = Server::start(body(100_000), vec![Fault::NoVersion, Fault::None]);
    assert!(read(&server.address).is_ok(), "a version is needed to resume only");
}

#[test]
fn a_trace_is_read_from_an_address_as_from_a_file() {
    let mut text = String::from("timestamp_us,op,volume,offset,length\n");
    for request in 0..20_000_u64 {
        text += &format!("{request},R,0,{},4096\n", request * 7919 % 1000 * 4096);
    }
    let compressed = zstd::encode_all(text.as_bytes(), 3).unwrap();
    let compile = |reader: Result<Reader, crate::TraceError>| {
        let trace = CompiledTrace::compile(&mut reader.unwrap(), PageSize::DEFAULT).unwrap();
        trace.accesses().map(|access| access.page).collect::<Vec<_>>()
    };
    let options = ReadOptions::default();
    let here = compile(Reader::from_read("t.csv", io::Cursor::new(text.into_bytes()), &options));
    let faults = vec![Fault::Breaks(1000), Fault::None];
    let server = Server::start(compressed, faults);
    assert_eq!(compile(Reader::open(PathBuf::from(&server.address), &options)), here);
}

#[test]
fn bad_addresses_say_what_is_wrong() {
    let server = Server::start(body(10), vec![]);
    let elsewhere = server.address.replace("t.csv", "u.csv");
    let refusing = Server::start(body(10), vec![Fault::Refuses]);
    for (address, says) in [
        (elsewhere.as_str(), "no such object"),
        (&refusing.address, "credentials"),
        ("https://", "not an address"),
        ("http://127.0.0.1:9/", "names no object"),
        ("http://127.0.0.1/t.csv?signature=x", "download"),
    ] {
        let error = read(address).unwrap_err().to_string();
        assert!(error.contains(says), "{address}: {error}");
    }
}
