//! The paths of the page, and what is answered there.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use serde::{Deserialize, Serialize};
use thermocline_lab::Watch;
use thermocline_lab::report::STYLE;
use tokio::task::spawn_blocking;

use super::ask::{Ask, Point, parse};
use super::guard::{Hosts, guard};
use super::point::{Detail, Interest};
use super::problem::Problem;
use super::session::Session;
use super::traces::Trace;
use super::{catalogue, character, upload};

/// The page before its script has run.
const SHELL: &str = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
    <title>Thermocline explore</title>\n<link rel=\"icon\" href=\"data:,\">\n\
    <link rel=\"stylesheet\" href=\"style.css\">\n\
    <script src=\"page.js\" defer></script>\n</head>\n<body>\n\
    <main class=\"explore\" id=\"app\">\n<h1>Thermocline explore</h1>\n\
    <noscript><p>This page needs scripts.</p></noscript>\n</main>\n</body>\n</html>\n";
/// Script of the page; made from `web/` by `cargo xtask web`.
const SCRIPT: &str = include_str!("page.js");
/// Style of the page besides that of reports.
const OWN_STYLE: &str = include_str!("style.css");

/// Time that more changes of a study are waited for: each answer is a page of HTML.
const GATHER: Duration = Duration::from_millis(100);

type Shared = State<Arc<Session>>;
type Answer<T> = Result<T, Problem>;
type Body200 = Result<Bytes, BytesRejection>;

/// The version that a client knows.
#[derive(Deserialize)]
struct After {
    #[serde(default)]
    after: u64,
}

/// Return all paths, below the token.
pub(super) fn router(session: Arc<Session>, token: &str, port: u16) -> Router {
    let at = |path: &str| format!("/{token}/{path}");
    let typed = |media: &'static str, text: String| {
        get(move || async move { ([(header::CONTENT_TYPE, media)], text) })
    };
    Router::new()
        .route(&at(""), typed("text/html; charset=utf-8", SHELL.into()))
        .route(&at("page.js"), typed("text/javascript; charset=utf-8", SCRIPT.into()))
        .route(&at("style.css"), typed("text/css; charset=utf-8", format!("{STYLE}{OWN_STYLE}")))
        .route(&at("api/catalogue"), get(offered))
        .route(&at("api/traces"), post(open_trace).put(drop_trace))
        .route(&at("api/traces/{id}"), get(trace).delete(close_trace))
        .route(&at("api/traces/{id}/character"), get(trace_character))
        .route(&at("api/studies"), post(begin_study))
        .route(&at("api/studies/{id}"), get(study).delete(stop_study))
        .route(&at("api/points"), post(point))
        .route(&at("api/report"), post(report))
        .fallback(async || Problem::missing("there is nothing here"))
        .method_not_allowed_fallback(async || {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "nothing is done here by this method")
        })
        .with_state(session)
        .layer(middleware::from_fn_with_state(Hosts::of_port(port), guard))
}

async fn offered(State(session): Shared) -> Answer<impl IntoResponse> {
    let traces = session.traces();
    let limit_bytes = session.drop_limit_bytes;
    Ok(Json(blocking(move || Ok(catalogue::catalogue(traces, limit_bytes)?)).await?))
}

async fn open_trace(State(session): Shared, body: Body200) -> Answer<impl IntoResponse> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "lowercase")]
    enum Which {
        Path(std::path::PathBuf),
        Bundled(bool),
    }
    let trace = match parse(&bytes(body)?)? {
        Which::Path(path) => session.open(|id| Trace::of_path(id, &path), None),
        Which::Bundled(true) => session.open(Trace::bundled, None),
        Which::Bundled(false) => {
            return Err(Problem::bad("no trace is named: give its path, or the bundled one"));
        }
    };
    Ok((StatusCode::ACCEPTED, Json(trace.json())))
}

async fn drop_trace(
    State(session): Shared,
    name: Result<Query<Named>, QueryRejection>,
    headers: HeaderMap,
    body: Body,
) -> Answer<impl IntoResponse> {
    let Query(Named { name }) =
        name.map_err(|_| Problem::bad("the file has no name: send it to api/traces?name=NAME"))?;
    let limit_bytes = session.drop_limit_bytes;
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let length: Option<u64> = length.and_then(|length| length.parse().ok());
    // So much more than the limit is not even begun.
    if length.is_some_and(|bytes| bytes > limit_bytes.saturating_mul(2)) {
        return Err(upload::too_large(limit_bytes));
    }
    let file = upload::receive(body, limit_bytes).await?;
    let trace = session.open(|id| Trace::dropped(id, name), Some(file));
    Ok((StatusCode::ACCEPTED, Json(trace.json())))
}

/// The name of a file that is dropped.
#[derive(Deserialize)]
struct Named {
    name: String,
}

async fn trace(
    State(session): Shared,
    Path(id): Path<String>,
    after: Result<Query<After>, QueryRejection>,
) -> Answer<impl IntoResponse> {
    let trace = session.trace(number(&id)?)?;
    trace.phase.wait_after(version(after)?).await;
    Ok(Json(trace.json()))
}

async fn close_trace(State(session): Shared, Path(id): Path<String>) -> Answer<StatusCode> {
    session.close(number(&id)?)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn trace_character(
    State(session): Shared,
    Path(id): Path<String>,
) -> Answer<impl IntoResponse> {
    #[derive(Serialize)]
    struct Html {
        html: String,
    }
    let (trace, opened) = session.ready(number(&id)?)?;
    let html = awaited(move |watch| Ok(character::html(&trace, &opened, watch)?)).await?;
    Ok(Json(Html { html }))
}

async fn begin_study(State(session): Shared, body: Body200) -> Answer<impl IntoResponse> {
    #[derive(Serialize)]
    struct Begun {
        id: u64,
        points: usize,
    }
    let ask: Ask = parse(&bytes(body)?)?;
    let study = blocking(move || session.study(ask)).await?;
    Ok((StatusCode::ACCEPTED, Json(Begun { id: study.id, points: study.points() })))
}

async fn study(
    State(session): Shared,
    Path(id): Path<String>,
    after: Result<Query<After>, QueryRejection>,
) -> Answer<impl IntoResponse> {
    let study = session.found_study(number(&id)?)?;
    let after = version(after)?;
    study.wait_after(after).await;
    if after > 0 && !study.is_over() {
        tokio::time::sleep(GATHER).await;
    }
    Ok(Json(blocking(move || Ok(study.json())).await?))
}

async fn stop_study(State(session): Shared, Path(id): Path<String>) -> Answer<StatusCode> {
    session.found_study(number(&id)?)?.stop();
    Ok(StatusCode::NO_CONTENT)
}

async fn point(State(session): Shared, body: Body200) -> Answer<impl IntoResponse> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Asked {
        ask: Ask,
        point: Point,
    }
    let Asked { ask, point } = parse(&bytes(body)?)?;
    let (trace, opened) = session.ready(ask.trace)?;
    let json = awaited(move |watch| {
        let of = (&*trace, &opened);
        let detail = Detail::find(&ask, &point, of, &session.reading, watch)?;
        Ok(detail.json(&opened))
    });
    Ok(Json(json.await?))
}

async fn report(State(session): Shared, body: Body200) -> Answer<Response> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Asked {
        study: u64,
        #[serde(default)]
        pins: Vec<Point>,
    }
    let Asked { study, pins } = parse(&bytes(body)?)?;
    let study = session.found_study(study)?;
    let html = awaited(move |watch| {
        let mut report = study.report();
        for point in &pins {
            let of = (&*study.trace, &study.opened);
            let detail = Detail::find(&study.ask, point, of, &session.reading, watch)?;
            report.append(detail.pinned());
        }
        Ok(report.to_html())
    });
    let html = html.await?;
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"thermocline-explore.html\""),
    ];
    Ok((headers, html).into_response())
}

/// Do work that takes long on a thread of its own, so that others are answered meanwhile.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Answer<T> + Send + 'static,
) -> Answer<T> {
    spawn_blocking(work).await.unwrap_or_else(|error| {
        let sentence = format!("the work has failed ({error}), which is a fault of this program");
        Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, sentence))
    })
}

/// Do such work, and stop it if its client leaves: then this is dropped, and the interest with it.
async fn awaited<T: Send + 'static>(
    work: impl FnOnce(&Watch) -> Answer<T> + Send + 'static,
) -> Answer<T> {
    let interest = Interest::default();
    let watch = interest.0.clone();
    let found = blocking(move || work(&watch)).await;
    drop(interest);
    found
}

/// Return a whole body.
fn bytes(body: Body200) -> Answer<Bytes> {
    body.map_err(|error| Problem::new(error.status(), format!("{error}: ask for less at once")))
}

/// Return the number of a trace or a study.
fn number(text: &str) -> Answer<u64> {
    text.parse().map_err(|_| Problem::missing(format!("`{text}` is the number of nothing here")))
}

/// Return the version that a client knows; none is 0.
fn version(after: Result<Query<After>, QueryRejection>) -> Answer<u64> {
    let after =
        after.map_err(|error| Problem::bad(format!("{error}: give a number as `after`")))?;
    Ok(after.0.after)
}
