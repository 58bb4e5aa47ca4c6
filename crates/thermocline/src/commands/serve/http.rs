//! Metrics over HTTP: `/metrics` for Prometheus, `/status` and `/shadows` as JSON.
//!
//! Connections are bounded in number, in time and in the bytes of a request, so that clients that never
//! finish their requests neither use up the descriptors nor keep others from the metrics.

use std::collections::VecDeque;
use std::future::Future as _;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as Wakeup, Poll};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep};

use super::metrics;
use super::status::Status;

/// The format for those who ask for it, as Prometheus does.
const OPENMETRICS: &str = "application/openmetrics-text";
const OPENMETRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The format for everybody else.
const PLAIN_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Open connections; the oldest is closed for another.
const CONNECTIONS_MAX: usize = 64;
/// The time from one answer, or the beginning, to the end of the next answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// The bytes that a client sends from one answer to the next, at most.
const REQUEST_BYTES_MAX: usize = 32 << 10;
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
    let listener = TcpListener::bind(listen).with_context(context)?;
    listener.set_nonblocking(true).with_context(context)?;
    Ok(listener)
}

/// Answers requests in a thread of its own until the program ends; returns the address, which tells a
/// port that the system chose.
///
/// # Errors
/// If there can be no thread.
pub(crate) fn start(listener: TcpListener, board: Board) -> Result<SocketAddr> {
    let address = listener.local_addr().context("`metrics.listen`")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .context("cannot start the metrics' event loop")?;
    let serve = move || {
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let listener = Bounded { listener, open: VecDeque::new() };
            axum::serve(listener, router(board)).await
        })
    };
    let work = move || {
        let result: io::Result<()> = serve();
        if let Err(error) = result {
            tracing::error!(%error, "metrics are no longer served");
        }
    };
    thread::Builder::new()
        .name("metrics".into())
        .spawn(work)
        .context("cannot start the metrics' thread")?;
    Ok(address)
}

/// A listener whose connections are bounded.
#[derive(Debug)]
struct Bounded {
    listener: tokio::net::TcpListener,
    /// Dropping one of these closes its connection.
    open: VecDeque<oneshot::Sender<()>>,
}

impl axum::serve::Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let mut was_refused = false;
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => {
                    self.open.retain(|connection| !connection.is_closed());
                    if self.open.len() >= CONNECTIONS_MAX {
                        self.open.pop_front();
                    }
                    let (keep, closed) = oneshot::channel();
                    self.open.push_back(keep);
                    let limit = Box::pin(sleep(ANSWER_LIMIT));
                    return (Connection { stream, closed, limit, request_bytes: 0 }, address);
                }
                Err(error) => {
                    if !was_refused {
                        tracing::warn!(%error, "cannot accept connections for metrics; trying again");
                    }
                    was_refused = true;
                    // Those that never finish must not keep others out.
                    self.open.pop_front();
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that fails when it lasts too long, brings too much, or must go for another.
#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    closed: oneshot::Receiver<()>,
    limit: Pin<Box<Sleep>>,
    /// Bytes that came since the last answer.
    request_bytes: usize,
}

impl Connection {
    fn check(&mut self, wakeup: &mut Wakeup<'_>) -> io::Result<()> {
        let is_over = self.limit.as_mut().poll(wakeup).is_ready()
            || Pin::new(&mut self.closed).poll(wakeup).is_ready()
            || self.request_bytes > REQUEST_BYTES_MAX;
        if is_over { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        wakeup: &mut Wakeup<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(wakeup)?;
        let filled = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(wakeup, buffer);
        self.request_bytes += buffer.filled().len() - filled;
        result
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        wakeup: &mut Wakeup<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(wakeup)?;
        let result = Pin::new(&mut self.stream).poll_write(wakeup, bytes);
        if matches!(result, Poll::Ready(Ok(length)) if length == bytes.len()) {
            // The answer is complete: the next request has its own time.
            self.request_bytes = 0;
            self.limit.as_mut().reset(Instant::now() + ANSWER_LIMIT);
        }
        result
    }

    fn poll_flush(mut self: Pin<&mut Self>, wakeup: &mut Wakeup<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(wakeup)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, wakeup: &mut Wakeup<'_>) -> Poll<io::Result<()>> {
        self.check(wakeup)?;
        Pin::new(&mut self.stream).poll_shutdown(wakeup)
    }
}

fn router(board: Board) -> Router {
    Router::new()
        .route("/metrics", get(prometheus))
        .route("/status", get(status))
        .route("/shadows", get(shadows))
        .with_state(board)
}

async fn prometheus(State(board): State<Board>, headers: HeaderMap) -> Response {
    let Ok(text) = metrics::render(&board.read()) else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    if accepted.is_some_and(|accepted| accepted.contains(OPENMETRICS)) {
        ([(header::CONTENT_TYPE, OPENMETRICS_TYPE)], text).into_response()
    } else {
        ([(header::CONTENT_TYPE, PLAIN_TYPE)], metrics::plain(&text)).into_response()
    }
}

async fn status(State(board): State<Board>) -> Response {
    json(&*board.read())
}

/// What other policies would do, and which of them best.
async fn shadows(State(board): State<Board>) -> Response {
    let status = board.read();
    let best = status.best_shadow().map(|shadow| shadow.name.clone());
    json(&serde_json::json!({
        "policy": status.policy,
        "sample": status.shadow_sample,
        "best_by_io_time": best,
        "shadows": status.shadows,
    }))
}

fn json(value: &impl serde::Serialize) -> Response {
    match serde_json::to_string(value) {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use super::*;

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
}
