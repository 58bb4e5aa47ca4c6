//! The newest snapshot over HTTP: `/` for people, `/metrics` for Prometheus, `/status` and `/shadows` as
//! JSON. With `[[volume]]`, `?volume=NAME` says of which.
//!
//! Connections are bounded in number, in time and in the bytes of a request, so that clients that never
//! finish their requests neither use up the descriptors nor keep others from the metrics.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use http::{HeaderValue, Method, Response, StatusCode, header};
use thermocline_engine::Uuid;

use super::advice;
use super::exposition::{Common, Format};
use super::history::History;
use super::http::{Connection, Request, empty, not_allowed, response};
use super::metrics;
use super::page::{self, Process, View};
use super::status::Status;

/// The format for those who ask for it, as Prometheus does.
const OPENMETRICS: &str = "application/openmetrics-text";
const OPENMETRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The format for everybody else.
const PLAIN_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
const HTML_TYPE: &str = "text/html; charset=utf-8";
const TEXT_TYPE: &str = "text/plain; charset=utf-8";
const JSON_TYPE: &str = "application/json";

/// Open connections; the oldest is closed for another.
const CONNECTIONS_MAX: usize = 64;
/// Time that a request waits for the first snapshot of a volume.
const START_PATIENCE: Duration = Duration::from_secs(2);
/// Pause after the system refuses to accept a connection.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// The newest snapshot and the history, for HTTP clients; nothing until the volume serves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Board(Arc<(Mutex<Option<Posted>>, Condvar)>);

/// Content of a board.
#[derive(Clone, Debug, Default)]
struct Posted {
    status: Arc<Status>,
    history: Arc<History>,
}

/// The boards of all volumes, which may come and go.
#[derive(Clone, Debug)]
pub(crate) struct Boards {
    each: Arc<RwLock<Vec<(String, Board)>>>,
    are_named: bool,
}

impl Boards {
    /// Create a place for boards.
    pub(crate) fn new(are_named: bool) -> Self {
        Self { each: Arc::default(), are_named }
    }

    /// Show the board of one more volume.
    pub(crate) fn add(&self, name: &str, board: Board) {
        let mut each = self.each.write().unwrap_or_else(PoisonError::into_inner);
        each.push((name.to_owned(), board));
    }

    /// Show the board of a volume no longer.
    pub(crate) fn remove(&self, name: &str) {
        let mut each = self.each.write().unwrap_or_else(PoisonError::into_inner);
        each.retain(|(other, _)| other != name);
    }

    /// Return the boards as they are now, by the names of their volumes.
    fn read(&self) -> Vec<(String, Board)> {
        self.each.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Return the names of the volumes, if they are named.
    fn names(&self) -> Vec<String> {
        self.read().into_iter().filter(|_| self.are_named).map(|(name, _)| name).collect()
    }

    /// Return what the board of the volume that a query names has, or the only board if it names none.
    fn of(&self, query: &str) -> Result<Posted, Refusal> {
        let refusal = |status, text| Err(Refusal(status, text));
        let wanted = query.split('&').find_map(|pair| pair.strip_prefix("volume="));
        let known = self.names().join(", ");
        match (wanted, &*self.read()) {
            (None, [(_, board)]) => board.wait(),
            (None, _) => refusal(
                StatusCode::BAD_REQUEST,
                format!("several volumes are served: add ?volume=NAME; the volumes are: {known}\n"),
            ),
            (Some(_), _) if !self.are_named => refusal(
                StatusCode::NOT_FOUND,
                "one backing store without a name is served: ask without a volume\n".to_owned(),
            ),
            (Some(wanted), each) => match each.iter().find(|(name, _)| name == wanted) {
                Some((_, board)) => board.wait(),
                None => refusal(
                    StatusCode::NOT_FOUND,
                    format!("there is no such volume; the volumes are: {known}\n"),
                ),
            },
        }
    }
}

/// Sources of the answers.
#[derive(Clone, Debug)]
struct Source {
    boards: Boards,
    process: Arc<Process>,
}

impl Board {
    /// Puts a newer snapshot up. Readers hold no lock meanwhile, so this waits for nobody.
    pub(crate) fn post(&self, status: Status) {
        let status = Arc::new(status);
        let (posted, is_posted) = &*self.0;
        let mut posted = posted.lock().unwrap_or_else(PoisonError::into_inner);
        let posted = posted.get_or_insert_default();
        if posted.history.is_due(&status) {
            Arc::make_mut(&mut posted.history).keep(&status);
        }
        posted.status = status;
        is_posted.notify_all();
    }

    /// Return the newest snapshot and the history, if there is one: zeros would look like a restart to
    /// Prometheus.
    fn read(&self) -> Option<Posted> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Return the newest snapshot and the history; wait for the first one if there is none.
    fn wait(&self) -> Result<Posted, Refusal> {
        let (posted, is_posted) = &*self.0;
        let posted = posted.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = is_posted.wait_timeout_while(posted, START_PATIENCE, |one| one.is_none());
        let (posted, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let reason = "the server is starting; ask again\n";
        posted.clone().ok_or_else(|| Refusal(StatusCode::SERVICE_UNAVAILABLE, reason.to_owned()))
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
pub(crate) fn start(listener: TcpListener, boards: Boards, process: Process) -> Result<SocketAddr> {
    let address = listener.local_addr().context("`metrics.listen`")?;
    thread::Builder::new()
        .name("metrics".into())
        .spawn(move || accept(&listener, &Source { boards, process: Arc::new(process) }))
        .context("cannot start the metrics' thread")?;
    Ok(address)
}

/// Accepts connections for as long as the program runs.
fn accept(listener: &TcpListener, source: &Source) {
    let mut open = Open::default();
    let mut was_refused = false;
    loop {
        let admitted = listener.accept().and_then(|(stream, _)| open.admit(stream, source));
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
    fn admit(&mut self, stream: TcpStream, source: &Source) -> io::Result<()> {
        self.0.retain(|(_, thread)| !thread.is_finished());
        if self.0.len() >= CONNECTIONS_MAX {
            self.close_oldest();
        }
        let stream = Arc::new(stream);
        // Only its thread keeps the connection open, so the descriptor is free when that ends.
        let (open, source) = (Arc::downgrade(&stream), source.clone());
        let work = move || {
            if let Err(error) = serve(&stream, &source) {
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
        // Its descriptor is free after this.
        drop(thread.join());
    }
}

/// Answers all requests of a client.
fn serve(stream: &TcpStream, source: &Source) -> io::Result<()> {
    let mut connection = Connection::new(stream);
    while let Some(request) = connection.next_request()? {
        connection.answer(&request, &answer(&request, source))?;
    }
    Ok(())
}

fn answer(request: &Request, source: &Source) -> Response<String> {
    let page = match request.path.as_str() {
        "/" => people,
        "/metrics" => prometheus,
        "/status" => status,
        "/shadows" => shadows,
        _ => return empty(StatusCode::NOT_FOUND),
    };
    if request.method != Method::GET && request.method != Method::HEAD {
        return not_allowed("GET,HEAD");
    }
    page(request, source)
        .unwrap_or_else(|Refusal(status, reason)| response(status, TEXT_TYPE, reason))
}

/// A status other than success, and its reason.
#[derive(Debug)]
struct Refusal(StatusCode, String);

/// An answer, or why there is none.
type Answered = Result<Response<String>, Refusal>;

/// Render the page for people. The browser runs its script and no other.
fn people(request: &Request, source: &Source) -> Answered {
    let boards = &source.boards;
    // Whoever names no volume sees the first one, with links to the others.
    let posted = match boards.read().first() {
        Some((_, board)) if !request.query.contains("volume=") => board.wait()?,
        Some(_) | None => boards.of(&request.query)?,
    };
    // New for each page: a script that someone gets into the page, as with a name, cannot know it.
    let nonce = Uuid::new_v4().simple().to_string();
    let names = boards.names();
    let html = page::render(&View {
        status: &posted.status,
        history: &posted.history,
        process: &source.process,
        volumes: &names.iter().map(String::as_str).collect::<Vec<_>>(),
        date: &httpdate::fmt_http_date(SystemTime::now()),
        nonce: &nonce,
    });
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; \
         img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let Ok(policy) = HeaderValue::try_from(policy) else {
        return Err(Refusal(StatusCode::INTERNAL_SERVER_ERROR, String::new()));
    };
    let mut response = response(StatusCode::OK, HTML_TYPE, html);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Render the figures of all volumes.
fn prometheus(request: &Request, source: &Source) -> Answered {
    let wants = request.accept.as_deref().is_some_and(|accepted| accepted.contains(OPENMETRICS));
    let (format, media_type) = if wants {
        (Format::OpenMetrics, OPENMETRICS_TYPE)
    } else {
        (Format::Prometheus, PLAIN_TYPE)
    };
    let boards = source.boards.read();
    let posted = boards.iter().filter_map(|(_, board)| board.read());
    let mut statuses: Vec<_> = posted.map(|posted| posted.status).collect();
    // Only a server that has just started has none: this waits for its first one.
    if let ([], Some((_, first))) = (&*statuses, boards.first()) {
        statuses.push(first.wait()?.status);
    }
    let common = if source.boards.are_named { Common::Volume } else { Common::Nothing };
    match metrics::render(statuses, common, format) {
        Ok(text) => Ok(response(StatusCode::OK, media_type, text)),
        Err(_) => Err(Refusal(StatusCode::INTERNAL_SERVER_ERROR, String::new())),
    }
}

fn status(request: &Request, source: &Source) -> Answered {
    Ok(json(&*source.boards.of(&request.query)?.status))
}

/// Render the results of the shadows, the best of them, the advice, and the choices of a policy that chooses
/// by itself.
fn shadows(request: &Request, source: &Source) -> Answered {
    let posted = source.boards.of(&request.query)?;
    let status = &*posted.status;
    let best = status.best_shadow().map(|shadow| shadow.name.clone());
    let advice = advice::advice(&posted.history, status);
    Ok(json(&serde_json::json!({
        "policy": status.policy,
        "sample": status.shadow_sample,
        "best_by_io_time": best,
        "regret_ms_per_access": status.regret_ms_per_access(),
        "choosing": status.choosing,
        "advice": advice.sentences,
        "adopt": advice.adopt.map(|shadow| &shadow.name),
        "shadows": status.shadows,
    })))
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

    /// Boards of volumes with these names; an empty name is that of a server without volumes.
    fn boards(names: &[&str]) -> Boards {
        let boards = Boards::new(names != [""]);
        for name in names {
            let board = Board::default();
            board.post(Status { export: (*name).to_owned(), ..Status::default() });
            boards.add(name, board);
        }
        boards
    }

    #[test]
    fn a_query_says_of_which_volume() {
        let found = |boards: &Boards, query: &str| match boards.of(query) {
            Ok(posted) => Ok(posted.status.export.clone()),
            Err(Refusal(status, _)) => Err(status.as_u16()),
        };
        let (two, one, alone) = (boards(&["db", "web"]), boards(&["db"]), boards(&[""]));
        for (boards, query, wanted) in [
            (&two, "volume=web", Ok("web")),
            (&two, "a=b&volume=db", Ok("db")),
            (&two, "", Err(400)),
            (&two, "volume=we", Err(404)),
            (&one, "", Ok("db")),
            (&one, "volume=web", Err(404)),
            (&alone, "", Ok("")),
            (&alone, "volume=", Err(404)),
        ] {
            assert_eq!(found(boards, query), wanted.map(str::to_owned), "{query}");
        }
        let Refusal(_, reason) = two.of("volume=x").unwrap_err();
        assert!(reason.contains("db, web"), "{reason}");
    }

    #[test]
    fn a_volume_that_does_not_serve_yet_has_no_samples() {
        let ask = |boards: &Boards, path: &str, query: &str| {
            let source = Source { boards: boards.clone(), process: Arc::default() };
            let request = Request {
                method: Method::GET,
                path: path.to_owned(),
                query: query.to_owned(),
                accept: None,
                body: vec![],
                is_last: false,
            };
            let answer = answer(&request, &source);
            (answer.status().as_u16(), answer.into_body())
        };
        let boards = boards(&["db"]);
        boards.add("web", Board::default());
        let (status, metrics) = ask(&boards, "/metrics", "");
        assert_eq!(status, 200);
        assert!(metrics.contains("volume=\"db\"") && !metrics.contains("volume=\"\""), "{metrics}");
        assert_eq!(ask(&boards, "/status", "volume=web").0, 503);
        assert_eq!(ask(&boards, "/status", "volume=db").0, 200);
        let alone = Boards::new(false);
        let board = Board::default();
        alone.add("", board.clone());
        assert_eq!(ask(&alone, "/metrics", "").0, 503);
        thread::scope(|scope| {
            let early = ["/", "/metrics", "/status", "/shadows"]
                .map(|path| scope.spawn(|| ask(&alone, path, "").0));
            board.post(Status::default());
            assert_eq!(early.map(|answer| answer.join().unwrap()), [200; 4]);
        });
    }

    fn serve() -> SocketAddr {
        let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        start(listener, boards(&[""]), Process::default()).unwrap()
    }

    #[test]
    fn who_reads_keeps_the_engine_neither_waiting_nor_from_newer_figures() {
        let at = |uptime_s| Status { uptime_s, ..Status::default() };
        let board = Board::default();
        board.post(at(1.0));
        let reader = board.read().unwrap();
        for minute in 1..=90_u32 {
            board.post(at(f64::from(minute) * 60.0));
        }
        assert!((reader.status.uptime_s - 1.0).abs() < 1e-9, "a page is of one moment");
        assert_eq!(reader.history.day(&at(5400.0)).count(), 1);
        let newer = board.read().unwrap();
        assert!((newer.status.uptime_s - 5400.0).abs() < 1e-9);
        assert!(newer.history.day(&at(5400.0)).count() > 80);
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
            (format!("GET / {end}\r\n"), "200 OK", "content-type: text/html;"),
            (
                format!("GET /?a {end}\r\n"),
                "200 OK",
                "content-security-policy: default-src 'none';",
            ),
            (format!("POST / {end}\r\n"), "405 Method Not Allowed", "allow: GET,HEAD"),
            (format!("GET /index.html {end}\r\n"), "404 Not Found", "content-length: 0"),
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
