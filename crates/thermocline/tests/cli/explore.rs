//! `thermocline explore` over HTTP, as its page speaks to it; `web/test/explore.mjs` tries the page.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{TRACE, fails, json as json_of};

/// Maximum time of a study of the tests.
const PATIENCE: Duration = Duration::from_mins(2);

/// A program that serves its page, until it is dropped.
struct Page {
    program: Child,
    /// The address of the page, with the token.
    address: String,
}

impl Page {
    fn open(words: &[&str]) -> Self {
        // A signal is not ignored, as a shell has it for what runs in the background.
        let mut program = Command::new("env")
            .args(["--default-signal=INT", env!("CARGO_BIN_EXE_thermocline"), "explore"])
            .args(words)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut address = String::new();
        BufReader::new(program.stdout.as_mut().unwrap()).read_line(&mut address).unwrap();
        let address = address.trim_end().to_owned();
        assert!(address.starts_with("http://127.0.0.1:"), "{address:?}");
        Self { program, address }
    }

    /// Send a request; return the status, and the body as JSON.
    fn ask(&self, method: &str, path: &str, body: &[u8]) -> (u16, Value) {
        let (status, text) = self.raw(method, path, "", body);
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// Return the same with more lines of a header, and the body as text.
    fn raw(&self, method: &str, path: &str, lines: &str, body: &[u8]) -> (u16, String) {
        let (host, token) = self.address.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let path = path.replace("TOKEN/", token);
        let host_line =
            if lines.contains("Host:") { String::new() } else { format!("Host: {host}\r\n") };
        let mut stream = TcpStream::connect(host).unwrap();
        write!(
            stream,
            "{method} /{path} HTTP/1.1\r\n{host_line}{lines}Connection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        )
        .unwrap();
        // A server that refuses may not take all of it.
        let _refused = stream.write_all(body);
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// Wait until the item at a path is in one of these states.
    fn wait(&self, path: &str, states: &[&str]) -> Value {
        let start = Instant::now();
        loop {
            let (_, found) = self.ask("GET", path, b"");
            if states.iter().any(|state| found["state"] == *state) {
                return found;
            }
            assert!(start.elapsed() < PATIENCE, "{path}: {found}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Opens the bundled trace, and returns its number.
    fn bundled(&self) -> u64 {
        let (status, trace) = self.ask("POST", "TOKEN/api/traces", br#"{"bundled": true}"#);
        assert_eq!(status, 202, "{trace}");
        let id = trace["id"].as_u64().unwrap();
        self.wait(&format!("TOKEN/api/traces/{id}"), &["ready"]);
        id
    }

    /// Sends a signal, and returns how the program ends.
    fn end(mut self, signal: &str) -> Option<i32> {
        let id = self.program.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
        self.program.wait().unwrap().code()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // One that has ended is not there to be killed.
        drop(self.program.kill());
        drop(self.program.wait());
    }
}

#[test]
fn a_trace_that_cannot_be_opened_ends_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("notes.txt");
    std::fs::write(&text, "no trace\n").unwrap();
    fails(&["explore", "/no-such/trace.csv"], &["/no-such/trace.csv", "No such file"]);
    fails(&["explore", text.to_str().unwrap()], &["notes.txt", "--format"]);
    fails(&["explore", TRACE, "--page-size", "3"], &["page size"]);
    fails(&["explore", TRACE, "--drop-limit", "0"], &["--drop-limit"]);
    fails(&["explore", TRACE, "--port", "99999"], &["--port", "65535"]);
}

#[test]
fn only_who_knows_the_token_is_let_in() {
    let page = Page::open(&[]);
    assert_eq!(page.raw("GET", "TOKEN/", "", b"").0, 200);
    for path in ["", "api/catalogue", "0123456789abcdef0123456789abcdef/"] {
        assert_eq!(page.raw("GET", path, "", b"").0, 404, "{path}");
    }
    let strange = "Host: evil.example\r\n";
    assert_eq!(page.raw("GET", "TOKEN/", strange, b"").0, 403);
    let foreign = "Origin: http://evil.example\r\n";
    let body = br#"{"bundled": true}"#;
    assert_eq!(page.raw("POST", "TOKEN/api/traces", foreign, body).0, 403);
    assert_eq!(page.end("INT"), Some(0));
}

#[test]
fn a_study_ends_with_the_figures_of_compare() {
    let page = Page::open(&[]);
    let trace = page.bundled();
    let ask =
        json!({ "trace": trace, "policies": ["hat", "lru"], "ram": ["2%"], "flash": ["2x", "4x"] });
    let (status, begun) = page.ask("POST", "TOKEN/api/studies", ask.to_string().as_bytes());
    assert_eq!((status, &begun["points"]), (202, &json!(4)), "{begun}");
    let study = page.wait(&format!("TOKEN/api/studies/{}", begun["id"]), &["done", "failed"]);
    assert_eq!((&study["state"], &study["exact"]), (&json!("done"), &json!(4)));
    let words = ["--policy", "hat,lru", "--tier", "ram=2%", "--tier", "flash=2x,4x", "--json"];
    let words = [&["compare", TRACE, "--page-size", "8KiB"][..], &words].concat();
    let times = |rows: &Value| {
        let mut times: Vec<f64> = rows
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["io_time_ms"].as_f64().unwrap())
            .collect();
        times.sort_by(f64::total_cmp);
        times
    };
    assert_eq!(times(&study["rows"]), times(&json_of(&words)));

    let row = &study["rows"][0];
    let point =
        ["policy", "ram_pages", "flash_pages"].map(|key| (key.to_owned(), row[key].clone()));
    let point = Value::Object(point.into_iter().collect());
    let asked = json!({ "ask": ask, "point": point }).to_string();
    let (status, detail) = page.ask("POST", "TOKEN/api/points", asked.as_bytes());
    assert_eq!(status, 200, "{detail}");
    let command = detail["commands"][0]["text"].as_str().unwrap();
    assert!(command.starts_with("thermocline simulate pgbench.csv.zst"), "{command}");
    // The command, on the file where it lies here, gives the same figures.
    let words = command.replace("pgbench.csv.zst", TRACE);
    let words: Vec<&str> = words.split_whitespace().skip(1).chain(["--json"]).collect();
    assert_eq!(json_of(&words)["io_time_ms"], row["io_time_ms"], "{command}");

    let asked = json!({ "study": begun["id"], "pins": [point] }).to_string();
    let (status, report) = page.raw("POST", "TOKEN/api/report", "", asked.as_bytes());
    assert_eq!(status, 200);
    assert!(report.contains("<!DOCTYPE html>") && report.contains("</html>"));
    assert_eq!(page.end("TERM"), Some(0));
}

#[test]
fn what_cannot_be_is_refused_in_a_sentence() {
    let page = Page::open(&["--drop-limit", "1KiB"]);
    let refused = |method: &str, path: &str, body: &[u8], status: u16, part: &str| {
        let (found, answer) = page.ask(method, path, body);
        assert_eq!(found, status, "{path}: {answer}");
        assert!(answer["error"].as_str().is_some_and(|text| text.contains(part)), "{answer}");
    };
    refused("PUT", "TOKEN/api/traces?name=t.csv", &[b'1'; 2000], 413, "--drop-limit");
    refused("POST", "TOKEN/api/traces", b"nonsense", 422, "not understood");
    refused("GET", "TOKEN/api/traces/99", b"", 404, "trace 99");
    refused("GET", "TOKEN/api/studies/99", b"", 404, "study 99");
    let (_, trace) = page.ask("PUT", "TOKEN/api/traces?name=notes.txt", b"no trace\n");
    let id = &trace["id"];
    let failed = page.wait(&format!("TOKEN/api/traces/{id}"), &["failed"]);
    assert!(failed["error"].as_str().unwrap().contains("notes.txt"), "{failed}");
    let ask = |trace: &Value, more: Value| {
        let mut ask =
            json!({ "trace": trace, "policies": ["hat"], "ram": ["2%"], "flash": ["2x"] });
        ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ask.to_string()
    };
    let studies = "TOKEN/api/studies";
    refused("POST", studies, ask(id, json!({})).as_bytes(), 409, "could not be read");
    let trace = json!(page.bundled());
    for (more, part) in [
        (json!({ "policies": ["hatt"] }), "did you mean `hat`"),
        (json!({ "policies": [] }), "choose a policy"),
        (json!({ "ram": ["4 bananas"] }), "RAM"),
        (json!({ "flash": ["1e30"] }), "flash"),
        (json!({ "endurance_cycles": 0 }), "endurance"),
        (json!({ "prices_per_gib": { "ram": -1, "flash": 0, "disk": 0 } }), "price"),
    ] {
        refused("POST", studies, ask(&trace, more).as_bytes(), 400, part);
    }
    // A size that its policy cannot have is no fault of the others: the study says so.
    let (_, begun) = page.ask("POST", studies, ask(&trace, json!({ "ram": ["0"] })).as_bytes());
    let study = page.wait(&format!("{studies}/{}", begun["id"]), &["done", "failed"]);
    assert_eq!(study["state"], "failed");
    assert!(study["error"].as_str().unwrap().contains("at least one page"), "{study}");
}
