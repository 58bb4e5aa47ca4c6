//! The newest snapshot over HTTP: `/metrics` for Prometheus, `/status` and `/shadows` as JSON.
//!
//! Connections are bounded in number, in time and in the bytes of a request, so that clients that never
//! finish their requests neither use up the descriptors nor keep others from the metrics.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, Result};
use http::{Method, Response, StatusCode};

use super::exposition::Format;
use super::http::{Connection, Request, empty, not_allowed, response};
use super::metrics;
use super::status::Status;

/// The format for those who ask for it, as Prometheus does.
const OPENMETRICS: &str = "application/openmetrics-text";
const OPENMETRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The format for everybody else.
const PLAIN_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
const JSON_TYPE: &str = "application/json";

/// Open connections; the oldest is closed for another.
const CONNECTIONS_MAX: usize = 64;
/// How long to wait when the system refuses to accept a connection.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// The newest snapshot, for whoever asks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Board(Arc<Mutex<Arc<Status>>>);

impl Board {
    /// Puts a newer snapshot up.
    pub(crate) fn post(&self, status: Status) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(status);
    }

    /// The newest one.
    pub(crate) fn read(&self) -> Arc<Status> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Takes an address.
///
/// # Errors
/// If it cannot be had.
pub(crate) fn bind(listen: SocketAddr) -> Result<TcpListener> {
    let context = || format!("`metrics.listen`: cannot listen at {listen}");
    TcpListener::bind(listen).with_context(context)
}

/// Answers requests in threads of its own until the program ends; returns the address, which has the
/// port that the system chose.
///
/// # Errors
/// If there can be no thread.
pub(crate) fn start(listener: TcpListener, board: Board) -> Result<SocketAddr> {
    let address = listener.local_addr().context("`metrics.listen`")?;
    thread::Builder::new()
        .name("metrics".into())
        .spawn(move || accept(&listener, &board))
        .context("cannot start the metrics' thread")?;
    Ok(address)
}

/// Accepts connections for as long as the program runs.
fn accept(listener: &TcpListener, board: &Board) {
    let mut open = Open::default();
    let mut was_refused = false;
    loop {
        let admitted = listener.accept().and_then(|(stream, _)| open.admit(stream, board));
        if let Err(error) = &admitted {
            if !was_refused {
                tracing::warn!(%error, "cannot accept connections for metrics; trying again");
            }
            // Those that never finish must not keep others out.
            open.close_oldest();
            thread::sleep(ACCEPT_PAUSE);
        }
        was_refused = admitted.is_err();
    }
}

/// The connections that are open, oldest first, each with its thread.
#[derive(Debug, Default)]
struct Open(VecDeque<(Weak<TcpStream>, JoinHandle<()>)>);

impl Open {
    /// Serves a connection in a thread of its own; closes the oldest one if there are too many.
    fn admit(&mut self, stream: TcpStream, board: &Board) -> io::Result<()> {
        self.0.retain(|(_, thread)| !thread.is_finished());
        if self.0.len() >= CONNECTIONS_MAX {
            self.close_oldest();
        }
        let stream = Arc::new(stream);
        let (open, board) = (Arc::downgrade(&stream), board.clone());
        let work = move || {
            if let Err(error) = serve(&stream, &board) {
                tracing::debug!(%error, "a connection for metrics failed");
            }
        };
        let thread = thread::Builder::new().name("metrics client".into()).spawn(work)?;
        self.0.push_back((open, thread));
        Ok(())
    }

    /// Ends the oldest connection, and waits for its thread: it waits for nothing but its client.
    fn close_oldest(&mut self) {
        let Some((stream, thread)) = self.0.pop_front() else { return };
        if let Some(stream) = stream.upgrade() {
            // It fails if the client is gone, and then the thread ends, too.
            drop(stream.shutdown(Shutdown::Both));
        }
        drop(thread.join());
    }
}

/// Answers all requests of a client.
fn serve(stream: &TcpStream, board: &Board) -> io::Result<()> {
    let mut connection = Connection::new(stream);
    while let Some(request) = connection.next_request()? {
        connection.answer(&request, &answer(&request, board))?;
    }
    Ok(())
}

fn answer(request: &Request, board: &Board) -> Response<String> {
    let page = match request.path.as_str() {
        "/metrics" => prometheus,
        "/status" => status,
        "/shadows" => shadows,
        _ => return empty(StatusCode::NOT_FOUND),
    };
    if request.method != Method::GET && request.method != Method::HEAD {
        return not_allowed("GET,HEAD");
    }
    page(request, &board.read())
}

fn prometheus(request: &Request, status: &Arc<Status>) -> Response<String> {
    let wants = request.accept.as_deref().is_some_and(|accepted| accepted.contains(OPENMETRICS));
    let (format, media_type) = if wants {
        (Format::OpenMetrics, OPENMETRICS_TYPE)
    } else {
        (Format::Prometheus, PLAIN_TYPE)
    };
    match metrics::render(Arc::clone(status), format) {
        Ok(text) => response(StatusCode::OK, media_type, text),
        Err(_) => empty(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

fn status(_: &Request, status: &Arc<Status>) -> Response<String> {
    json(&**status)
}

/// What other policies would do, and which of them best.
fn shadows(_: &Request, status: &Arc<Status>) -> Response<String> {
    let best = status.best_shadow().map(|shadow| shadow.name.clone());
    json(&serde_json::json!({
        "policy": status.policy,
        "sample": status.shadow_sample,
        "best_by_io_time": best,
        "shadows": status.shadows,
    }))
}

fn json(value: &impl serde::Serialize) -> Response<String> {
    match serde_json::to_string(value) {
        Ok(text) => response(StatusCode::OK, JSON_TYPE, text),
        Err(_) => empty(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

#[cfg(test)]
mod tests {
    use super::super::http::ANSWER_LIMIT;
    use super::*;
    use std::io::{Read as _, Write as _};

    fn serve() -> SocketAddr {
        let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        start(listener, Board::default()).unwrap()
    }

    #[test]
    fn half_open_requests_keep_nobody_out() {
        let address = serve();
        let half_open: Vec<_> = (0..4 * CONNECTIONS_MAX)
            .map(|_| {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.write_all(b"GET /status HTTP/1.1\r\nHost:").unwrap();
                stream
            })
            .collect();
        let mut good = TcpStream::connect(address).unwrap();
        good.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        good.write_all(b"GET /status HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        good.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        // The oldest was closed for it; the wait ends with the connection, whose limit is longer.
        let mut first = &half_open[0];
        first.set_read_timeout(Some(ANSWER_LIMIT / 2)).unwrap();
        let result = first.read(&mut [0; 1024]);
        assert!(!matches!(&result, Err(error) if error.kind() == io::ErrorKind::WouldBlock));
    }

    #[test]
    fn requests_that_never_end_are_cut_off() {
        let mut endless = TcpStream::connect(serve()).unwrap();
        endless.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        endless.write_all(b"GET /status HTTP/1.1\r\n").unwrap();
        let line =
            b"X: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n";
        let was_cut = (0..1 << 20).any(|_| endless.write_all(line).is_err());
        assert!(was_cut);
    }

    /// Asks on a connection of its own.
    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn pages_have_their_kind_and_others_their_status() {
        let address = serve();
        let end = "HTTP/1.1\r\nConnection: close\r\n";
        for (request, status, line) in [
            (format!("GET /metrics {end}\r\n"), "200 OK", "content-type: text/plain;"),
            (
                format!("GET /metrics {end}Accept: text/html, {OPENMETRICS};q=0.5\r\n\r\n"),
                "200 OK",
                "content-type: application/openmetrics-text;",
            ),
            (format!("GET /shadows {end}\r\n"), "200 OK", "content-type: application/json"),
            (format!("GET /nothing {end}\r\n"), "404 Not Found", "content-length: 0"),
            (format!("POST /status {end}\r\n"), "405 Method Not Allowed", "allow: GET,HEAD"),
        ] {
            let answer = ask(address, &request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request}{answer}");
            assert!(answer.contains(&format!("\r\n{line}")), "{request}{answer}");
        }
        let answer = ask(address, &format!("HEAD /status {end}\r\n"));
        assert!(answer.ends_with("\r\n\r\n") && !answer.contains("content-length: 0"), "{answer}");
    }

    #[test]
    fn clients_beyond_the_limit_close_the_oldest_connections() {
        let address = serve();
        let request = b"GET /status HTTP/1.1\r\n\r\n";
        let mut streams: Vec<_> = (0..CONNECTIONS_MAX + 8)
            .map(|_| {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
                stream.write_all(request).unwrap();
                assert!(stream.read(&mut [0; 1 << 14]).unwrap() > 0);
                stream
            })
            .collect();
        let mut is_open = |place: usize| {
            let stream: &mut TcpStream = &mut streams[place];
            let asked = stream.write_all(request);
            asked.is_ok() && matches!(stream.read(&mut [0; 1 << 14]), Ok(1..))
        };
        assert!(!is_open(0) && !is_open(7));
        assert!(is_open(8) && is_open(CONNECTIONS_MAX + 7));
    }
}
