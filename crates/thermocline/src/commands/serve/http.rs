//! Metrics over HTTP: `/metrics` for Prometheus, `/status` and `/shadows` as JSON.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::metrics;
use super::status::Status;

/// The format for those who ask for it, as Prometheus does.
const OPENMETRICS: &str = "application/openmetrics-text";
const OPENMETRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The format for everybody else.
const PLAIN_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

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
            axum::serve(listener, router(board)).await
        })
    };
    let work = move || {
        let result: std::io::Result<()> = serve();
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
