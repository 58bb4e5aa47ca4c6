//! Guard of requests: pages of this server alone may ask.
//!
//! Any program of this machine, and any page of a browser on it, can send requests to a port of
//! 127.0.0.1. The token in the path keeps out those who do not know the address. The host that a
//! browser names keeps out pages whose own name resolves to this machine (DNS rebinding), and the
//! origin of a request that changes something keeps out pages of other sites.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::problem::Problem;

/// Policy by which a browser limits the page: its own scripts, styles and requests, and nothing of
/// others.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Headers of every answer.
const HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The names under which the server is asked: `127.0.0.1:PORT` and `localhost:PORT`.
#[derive(Clone, Debug)]
pub(super) struct Hosts([String; 2]);

impl Hosts {
    /// Return the names of a server at this port.
    pub(super) fn of_port(port: u16) -> Self {
        Self(["127.0.0.1", "localhost"].map(|name| format!("{name}:{port}")))
    }

    /// Check that a request comes from a page of this server, or from no page at all.
    ///
    /// # Errors
    /// If the host or the origin is another one.
    fn check(&self, method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
        let Self(hosts) = self;
        let text = |name| headers.get(name).map(HeaderValue::as_bytes);
        let is_ours = |host: &[u8]| hosts.iter().any(|ours| ours.as_bytes() == host);
        if !text(header::HOST).is_some_and(is_ours) {
            let sentence = format!("this server is asked as {}, and by no other name", hosts[0]);
            return Err(Problem::new(StatusCode::FORBIDDEN, sentence));
        }
        // A browser names the origin of every request that changes something.
        let is_origin_ours = match text(header::ORIGIN) {
            Some(origin) => origin.strip_prefix(b"http://").is_some_and(is_ours),
            None => true,
        };
        if !method.is_safe() && !is_origin_ours {
            let sentence = "this request is of a page of another site, which may not ask here";
            return Err(Problem::new(StatusCode::FORBIDDEN, sentence));
        }
        Ok(())
    }
}

/// Lets requests of our pages through, and says in every answer what the page may do.
pub(super) async fn guard(State(hosts): State<Hosts>, request: Request, next: Next) -> Response {
    let mut response = match hosts.check(request.method(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_let_in(
        method: &Method,
        host: Option<&'static str>,
        origin: Option<&'static str>,
    ) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in [(header::HOST, host), (header::ORIGIN, origin)] {
            headers.extend(value.map(|value| (name, HeaderValue::from_static(value))));
        }
        Hosts::of_port(8080).check(method, &headers).is_ok()
    }

    #[test]
    fn only_our_pages_are_let_in() {
        let ours = Some("127.0.0.1:8080");
        for host in [ours, Some("localhost:8080")] {
            assert!(is_let_in(&Method::GET, host, None));
            assert!(is_let_in(&Method::POST, host, Some("http://127.0.0.1:8080")));
            assert!(is_let_in(&Method::DELETE, host, Some("http://localhost:8080")));
            assert!(is_let_in(&Method::PUT, host, None), "no browser sends that");
        }
        for host in [None, Some("evil.example:8080"), Some("127.0.0.1:8081"), Some("127.0.0.1")] {
            assert!(!is_let_in(&Method::GET, host, None), "{host:?}");
        }
        for origin in ["http://evil.example", "null", "https://127.0.0.1:8080", "http://localhost"]
        {
            assert!(!is_let_in(&Method::POST, ours, Some(origin)), "{origin}");
        }
    }
}
