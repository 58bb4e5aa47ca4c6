//! HTTP/1.1 over a blocking stream: small requests one after the other, with bounds.
//!
//! A client has a time from one answer to the end of the next, and a number of bytes for a request. One
//! that exceeds either loses its connection.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant, SystemTime};

use http::{HeaderValue, Method, Response, StatusCode, Uri, header};

/// The time from one answer, or the beginning, to the end of the next answer.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// The bytes of a request, and of what a client sends before it is answered.
const REQUEST_BYTES_MAX: usize = 32 << 10;
/// The lines of a request's head.
const HEADERS_MAX: usize = 100;
/// The bytes that are read at once.
const PIECE_BYTES: usize = 4 << 10;

/// A stream that can be told how long to wait.
pub(super) trait Waits {
    /// Limits how long one read or write may wait.
    fn limit_waits(&self, time: Duration) -> io::Result<()>;
}

impl Waits for TcpStream {
    fn limit_waits(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }
}

impl Waits for UnixStream {
    fn limit_waits(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }
}

/// A client's connection.
#[derive(Debug)]
pub(super) struct Connection<'a, S> {
    stream: &'a S,
    /// Input that was received and not yet parsed.
    input: Vec<u8>,
    /// When the next answer must have been sent.
    deadline: Instant,
    is_over: bool,
}

/// Request of a client.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: Method,
    /// The path, without a query.
    pub(super) path: String,
    /// The part of the address behind the question mark.
    pub(super) query: String,
    /// The media types that the client takes.
    pub(super) accept: Option<String>,
    pub(super) body: Vec<u8>,
    /// `true` if the connection ends with the answer.
    pub(super) is_last: bool,
}

impl<'a, S> Connection<'a, S>
where
    S: Waits,
    &'a S: Read + Write,
{
    /// Wrap a connection whose client may send its first request now.
    pub(super) fn new(stream: &'a S) -> Self {
        Self { stream, input: vec![], deadline: Instant::now() + ANSWER_LIMIT, is_over: false }
    }

    /// Waits for the next request; none comes after the last one, or if the client closes the
    /// connection. Answers what is not a request.
    ///
    /// # Errors
    /// The connection fails, or the client takes too long or sends too much.
    pub(super) fn next_request(&mut self) -> io::Result<Option<Request>> {
        while !self.is_over {
            match parse(&self.input) {
                Ok(Some((request, length))) => {
                    self.input.drain(..length);
                    return Ok(Some(request));
                }
                Ok(None) if !self.read()? => break,
                Ok(None) => {}
                Err(status) => {
                    self.send(&empty(status), Body::Sent, Next::Closes)?;
                    break;
                }
            }
        }
        Ok(None)
    }

    /// Sends the answer to a request.
    ///
    /// # Errors
    /// The connection fails, or the client does not take the answer in time.
    pub(super) fn answer(
        &mut self,
        request: &Request,
        response: &Response<String>,
    ) -> io::Result<()> {
        let body = if request.method == Method::HEAD { Body::Omitted } else { Body::Sent };
        let next = if request.is_last { Next::Closes } else { Next::Stays };
        self.send(response, body, next)
    }

    fn send(&mut self, response: &Response<String>, body: Body, next: Next) -> io::Result<()> {
        let mut bytes = head(response, next);
        if body == Body::Sent {
            bytes.extend_from_slice(response.body().as_bytes());
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            self.wait_no_longer()?;
            match self.stream.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(length) => rest = &rest[length..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.is_over = next == Next::Closes;
        self.deadline = Instant::now() + ANSWER_LIMIT;
        Ok(())
    }

    /// Reads a piece; returns whether the client goes on.
    fn read(&mut self) -> io::Result<bool> {
        self.wait_no_longer()?;
        let mut piece = [0; PIECE_BYTES];
        let length = match self.stream.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            result => result?,
        };
        self.input.extend_from_slice(&piece[..length]);
        if self.input.len() > REQUEST_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the request is too long"));
        }
        Ok(length > 0)
    }

    /// Lets the next read or write wait until the deadline.
    fn wait_no_longer(&self) -> io::Result<()> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.limit_waits(left)
    }
}

/// Return an answer of this content type.
pub(super) fn response(
    status: StatusCode,
    media_type: &'static str,
    body: String,
) -> Response<String> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// Return an answer that has a status and no body.
pub(super) fn empty(status: StatusCode) -> Response<String> {
    let mut response = Response::new(String::new());
    *response.status_mut() = status;
    response
}

/// Refuses a method; `allowed` lists the others.
pub(super) fn not_allowed(allowed: &'static str) -> Response<String> {
    let mut response = empty(StatusCode::METHOD_NOT_ALLOWED);
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    Sent,
    Omitted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Stays,
    Closes,
}

/// Parse the request at the start of the input. `None` if it is incomplete; else the request and its length.
fn parse(input: &[u8]) -> Result<Option<(Request, usize)>, StatusCode> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut headers);
    let head_bytes = match head.parse(input) {
        Ok(httparse::Status::Partial) => return Ok(None),
        Ok(httparse::Status::Complete(length)) => length,
        Err(httparse::Error::TooManyHeaders) => {
            return Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
        }
        Err(_) => return Err(StatusCode::BAD_REQUEST),
    };
    let values = |name: header::HeaderName| {
        let named =
            head.headers.iter().filter(move |one| name.as_str().eq_ignore_ascii_case(one.name));
        named.map(|one| str::from_utf8(one.value).map_err(|_| StatusCode::BAD_REQUEST))
    };
    if values(header::TRANSFER_ENCODING).next().is_some() {
        return Err(StatusCode::LENGTH_REQUIRED);
    }
    let mut body_bytes = 0;
    for (nth, value) in values(header::CONTENT_LENGTH).enumerate() {
        let length = value?.parse().map_err(|_| StatusCode::BAD_REQUEST)?;
        // RFC 9112, section 6.3: with lengths that differ, a proxy could see other requests than this
        // server does.
        if nth > 0 && length != body_bytes {
            return Err(StatusCode::BAD_REQUEST);
        }
        body_bytes = length;
    }
    if body_bytes > REQUEST_BYTES_MAX {
        return Err(StatusCode::PAYLOAD_TOO_LARGE);
    }
    let Some(body) = input.get(head_bytes..head_bytes + body_bytes) else { return Ok(None) };
    let is_close =
        |value: &str| value.split(',').any(|option| option.trim().eq_ignore_ascii_case("close"));
    let mut is_last = head.version != Some(1);
    for value in values(header::CONNECTION) {
        is_last |= is_close(value?);
    }
    let accepted = values(header::ACCEPT).collect::<Result<Vec<_>, _>>()?;
    let bad = |_| StatusCode::BAD_REQUEST;
    let uri = head.path.unwrap_or_default().parse::<Uri>().map_err(bad)?;
    let request = Request {
        method: head.method.unwrap_or_default().parse().map_err(|_| StatusCode::BAD_REQUEST)?,
        path: uri.path().to_owned(),
        query: uri.query().unwrap_or_default().to_owned(),
        accept: (!accepted.is_empty()).then(|| accepted.join(",")),
        body: body.to_owned(),
        is_last,
    };
    Ok(Some((request, head_bytes + body_bytes)))
}

/// Format the head of an answer.
fn head(response: &Response<String>, next: Next) -> Vec<u8> {
    let status = response.status();
    let reason = status.canonical_reason().unwrap_or_default();
    let date = httpdate::fmt_http_date(SystemTime::now());
    let length = response.body().len();
    let mut head = format!(
        "HTTP/1.1 {} {reason}\r\ndate: {date}\r\ncontent-length: {length}\r\n",
        status.as_str()
    )
    .into_bytes();
    for (name, value) in response.headers() {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    if next == Next::Closes {
        head.extend_from_slice(b"connection: close\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(input: &[u8]) -> (Vec<Request>, String) {
        let (mut client, server) = UnixStream::pair().unwrap();
        client.write_all(input).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut connection = Connection::new(&server);
        let mut requests = vec![];
        while let Some(request) = connection.next_request().unwrap() {
            let text = String::from_utf8_lossy(&request.body).into_owned();
            connection.answer(&request, &response(StatusCode::OK, "text/plain", text)).unwrap();
            requests.push(request);
        }
        drop(server);
        let mut answers = String::new();
        client.read_to_string(&mut answers).unwrap();
        (requests, answers)
    }

    #[test]
    fn requests_follow_each_other_on_a_connection() {
        let (requests, answers) = exchange(
            b"GET /a?b HTTP/1.1\r\nAccept: x\r\naccept: y\r\n\r\n\
              POST /p HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc\
              HEAD http://host/h HTTP/1.1\r\nConnection: TE, Close\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        );
        let paths: Vec<&str> = requests.iter().map(|request| request.path.as_str()).collect();
        assert_eq!(paths, ["/a", "/p", "/h"], "the last one closes the connection");
        assert_eq!(requests[0].accept.as_deref(), Some("x,y"));
        assert_eq!(requests[1].body, b"abc");
        assert_eq!(answers.matches("HTTP/1.1 200 OK\r\n").count(), 3);
        assert_eq!(answers.matches("content-type: text/plain\r\n").count(), 3);
        assert_eq!(answers.matches("connection: close\r\n").count(), 1);
        assert!(answers.contains("content-length: 3\r\n") && answers.contains("\r\n\r\nabcHTTP/"));
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let many = "A: b\r\n".repeat(HEADERS_MAX + 1);
        for (input, status) in [
            ("nonsense\r\n\r\n".to_owned(), "400 Bad Request"),
            ("GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n".to_owned(), "400 Bad Request"),
            (
                "GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab".to_owned(),
                "400 Bad Request",
            ),
            (
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(),
                "411 Length Required",
            ),
            (
                "POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n".to_owned(),
                "413 Payload Too Large",
            ),
            (format!("GET / HTTP/1.1\r\n{many}\r\n"), "431 Request Header Fields Too Large"),
        ] {
            let (requests, answers) = exchange(input.as_bytes());
            assert!(requests.is_empty(), "{input}");
            assert!(answers.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{input}: {answers}");
        }
    }

    #[test]
    fn a_request_that_is_cut_off_is_none() {
        for input in [&b""[..], b"GET / HT", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc"] {
            let (requests, answers) = exchange(input);
            assert!(requests.is_empty() && answers.is_empty());
        }
    }

    #[test]
    fn an_old_client_has_one_request() {
        let (requests, answers) = exchange(b"GET /a HTTP/1.0\r\n\r\nGET /b HTTP/1.0\r\n\r\n");
        assert_eq!(requests.len(), 1);
        assert!(answers.contains("connection: close\r\n"));
    }
}
