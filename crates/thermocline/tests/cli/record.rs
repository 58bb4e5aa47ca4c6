//! `trace record` and `trace convert --from`: a program of known requests, what becomes of its
//! status, recordings made elsewhere, and what a recording is good for afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::command::thermocline;
use super::{fails, json, text};

/// Says that a test does not test.
#[expect(clippy::print_stderr, reason = "what is skipped is to be seen")]
fn skip(reason: &str) {
    eprintln!("skipped: {reason}");
}

/// Return `true` if strace is there and may trace; says so if not.
fn can_trace() -> bool {
    let tried =
        Command::new("strace").args(["-o", "/dev/null", "true"]).stderr(Stdio::null()).status();
    let can = tried.is_ok_and(|status| status.success());
    if !can {
        skip("strace is missing or may not trace");
    }
    can
}

/// Return `true` if `trace record` would take bpftrace here; says what is missing if not.
fn can_trace_in_the_kernel() -> bool {
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n");
    let tracepoints =
        ["/sys/kernel/tracing/events/syscalls", "/sys/kernel/debug/tracing/events/syscalls"];
    let attaches = || {
        // A kernel may have it all and yet refuse to load a program.
        let script = "tracepoint:syscalls:sys_enter_close { exit(); } interval:s:1 { exit(); }";
        let tried = Command::new("bpftrace").args(["-e", script]).stderr(Stdio::null()).output();
        tried.is_ok_and(|run| run.status.success() && run.stdout.starts_with(b"Attaching"))
    };
    let lacking = if !is_root {
        "root"
    } else if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        "BTF"
    } else if !tracepoints.iter().any(|path| Path::new(path).exists()) {
        "tracefs"
    } else if !attaches() {
        "bpftrace, or the right to attach it"
    } else {
        return true;
    };
    skip(&format!("recording with bpftrace lacks {lacking}"));
    false
}

/// Return the program of a source beside this one, compiled under another name, or none without a
/// compiler.
fn compiled(source: &str, folder: &Path, name: &str) -> Option<PathBuf> {
    let source = format!("{}/tests/cli/{source}", env!("CARGO_MANIFEST_DIR"));
    let program = folder.join(name);
    let compiled =
        Command::new("cc").args(["-O1", "-pthread", "-o"]).arg(&program).arg(source).status();
    if !compiled.is_ok_and(|status| status.success()) {
        skip("there is no C compiler");
        return None;
    }
    Some(program)
}

fn generator(folder: &Path) -> Option<PathBuf> {
    compiled("generator.c", folder, "generator")
}

/// Requests by operation, file, first page and pages; how often each is there.
type Requests = BTreeMap<(String, String, u64, u64), u64>;

const PAGE_BYTES: u64 = 512;

/// Return the requests that the generator says it made in `folder`.
fn told(output: &[u8], folder: &Path) -> Requests {
    let mut requests = Requests::new();
    for line in String::from_utf8(output.to_vec()).unwrap().lines() {
        let mut words = line.splitn(4, ' ');
        let mut word = || words.next().unwrap();
        let (op, offset, length, name) = (word(), word(), word(), word());
        let (offset, length): (u64, u64) = (offset.parse().unwrap(), length.parse().unwrap());
        let first = offset / PAGE_BYTES;
        let pages = (offset + length).div_ceil(PAGE_BYTES) - first;
        let path = format!("{}/{name}", folder.display());
        *requests.entry((op.into(), path, first, pages)).or_default() += 1;
    }
    requests
}

/// Return the requests of a recording, and its number of files.
fn recorded(path: &Path) -> (Requests, usize) {
    let table = fs::read_to_string(format!("{}.files.csv", path.display())).unwrap();
    let path_of = |line: &str| {
        let field = line.splitn(7, ',').nth(6).unwrap();
        field[1..field.len() - 1].replace("\"\"", "\"")
    };
    let files: Vec<String> = table.lines().skip(1).map(path_of).collect();
    let mut requests = Requests::new();
    for line in fs::read_to_string(path).unwrap().lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let file = files[fields[2].parse::<usize>().unwrap()].clone();
        let (first, pages) = (fields[3].parse().unwrap(), fields[4].parse().unwrap());
        *requests.entry((fields[1].into(), file, first, pages)).or_default() += 1;
    }
    (requests, files.len())
}

fn work_folder(folder: &TempDir, name: &str) -> PathBuf {
    let work = folder.path().canonicalize().unwrap().join(name);
    fs::create_dir_all(work.join("sub")).unwrap();
    work
}

#[track_caller]
fn check_same(told: &Requests, found: &Requests, least: u64) {
    let total: u64 = told.values().sum();
    assert!(total >= least, "{total} requests were told");
    let lost: Vec<_> = told.iter().filter(|(key, count)| found.get(key) != Some(count)).collect();
    assert!(lost.is_empty(), "{} of {total} differ: {:?}", lost.len(), &lost[..lost.len().min(5)]);
    let more: Vec<_> = found.keys().filter(|key| !told.contains_key(key)).collect();
    assert!(more.is_empty(), "not told: {:?}", &more[..more.len().min(5)]);
}

#[track_caller]
fn check_all_came_back(told: &Requests, recording: &Path) {
    let (found, files) = recorded(recording);
    check_same(told, &found, 1700);
    let names: BTreeSet<&String> = told.keys().map(|key| &key.1).collect();
    // The name `journal` had four files.
    assert_eq!(files, names.len() + 3);
}

#[test]
fn every_request_of_a_program_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = generator(folder.path()).filter(|_| can_trace()) else { return };
    let program = program.to_str().unwrap();
    let work = work_folder(&folder, "annotated");
    let output = folder.path().join("annotated.trace");
    let include = format!("{}/*", work.display());
    let run = thermocline(&[
        "trace",
        "record",
        "--with",
        "strace",
        "--page-size",
        "512",
        "--include",
        &include,
        "-o",
        output.to_str().unwrap(),
        "--",
        program,
        work.to_str().unwrap(),
    ]);
    let errors = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(7), "{errors}");
    assert!(errors.contains("annotated.trace: "), "{errors}");
    check_all_came_back(&told(&run.stdout, &work), &output);
}

#[test]
fn every_request_comes_back_without_annotations() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = generator(folder.path()).filter(|_| can_trace()) else { return };
    let work = work_folder(&folder, "plain");
    let raw = folder.path().join("plain.strace");
    let run = Command::new("strace")
        .args(["-f", "-ttt", "-s0", "-o"])
        .arg(&raw)
        .arg(program)
        .arg(&work)
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(7));
    let output = folder.path().join("plain.trace");
    let include = format!("{}/*", work.display());
    let words =
        ["trace", "convert", "--from", "strace", raw.to_str().unwrap(), "--page-size", "512"];
    let more = ["--include", &include, "-o", output.to_str().unwrap(), "--json"];
    let found = json(&[&words[..], &more].concat());
    assert_eq!(found["counts"]["unknown"], 0);
    check_all_came_back(&told(&run.stdout, &work), &output);
}

#[test]
fn bpftrace_sees_what_a_program_reads_and_writes() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = generator(folder.path()).filter(|_| can_trace_in_the_kernel()) else {
        return;
    };
    let work = work_folder(&folder, "kernel");
    let output = folder.path().join("kernel.trace");
    let include = format!("*/{}/kernel/*", folder.path().file_name().unwrap().to_str().unwrap());
    let words =
        ["trace", "record", "--with", "bpftrace", "--page-size", "512", "--include", &include];
    let command =
        ["-o", output.to_str().unwrap(), "--", program.to_str().unwrap(), work.to_str().unwrap()];
    let run = thermocline(&[&words[..], &command].concat());
    let errors = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(7), "{errors}");
    // It does not see copies between files, and knows a file by its first name.
    let is_seen =
        |name: &str| !["random", "copied", "before", "after"].iter().any(|end| name.ends_with(end));
    let seen =
        |requests: Requests| requests.into_iter().filter(|(key, _)| is_seen(&key.1)).collect();
    check_same(&seen(told(&run.stdout, &work)), &seen(recorded(&output).0), 1000);
}

#[test]
fn the_status_of_the_command_is_passed_on() {
    if !can_trace() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("x.csv");
    let record = |script: &str| {
        let output = output.to_str().unwrap();
        let words = ["trace", "record", "--with", "strace", "-o", output, "--", "sh", "-c", script];
        thermocline(&words).status.code()
    };
    assert_eq!(record("cat /etc/passwd > /dev/null"), Some(0));
    assert_eq!(record("exit 3"), Some(3));
    assert_eq!(record("kill -TERM $$"), Some(128 + 15));
}

#[test]
fn an_interrupted_command_is_converted_all_the_same() {
    if can_trace() {
        check_interrupted("--default-signal", &["-INT"], 2);
    }
}

#[test]
fn a_command_whose_terminal_is_gone_is_converted_all_the_same() {
    if can_trace() {
        check_interrupted("--default-signal", &["-HUP"], 1);
        // As nohup does.
        check_interrupted("--ignore-signal=HUP", &["-HUP", "-INT"], 2);
    }
}

/// Record a command, and send signals to the recorder, of which one ends it.
fn check_interrupted(ignored: &str, signals: &[&str], number: i32) {
    let folder = tempfile::tempdir().unwrap();
    let (output, raw) = (folder.path().join("x.csv.zst"), folder.path().join("x.raw"));
    let script = "cat /etc/passwd > /dev/null; exec sleep 30";
    let mut child = Command::new("env")
        .args([ignored, env!("CARGO_BIN_EXE_thermocline")])
        .args(["trace", "record", "--with", "strace", "--keep-raw", raw.to_str().unwrap(), "-o"])
        .args([output.to_str().unwrap(), "--", "sh", "-c", script])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The recorder writes into this folder until it is kept under its name.
    let has_begun = || {
        let files = fs::read_dir(folder.path()).unwrap();
        files.map(|file| file.unwrap().path()).any(|file| {
            fs::read_to_string(&file).is_ok_and(|text| {
                text.contains("execve(\"/usr/bin/sleep\"") || text.contains("execve(\"/bin/sleep\"")
            })
        })
    };
    for _ in 0..300 {
        if has_begun() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(has_begun(), "the command has not come to its sleep");
    for signal in signals {
        let sent = Command::new("kill").args([signal, child.id().to_string().as_str()]).status();
        assert!(sent.unwrap().success());
    }
    assert_eq!(child.wait().unwrap().code(), Some(128 + number));
    assert!(raw.is_file());
    let info = json(&["trace", "info", output.to_str().unwrap(), "--json"]);
    let processes = info["recording"]["processes"].as_array().unwrap();
    assert!(processes.iter().any(|process| process["process"] == "cat"), "{info}");
}

/// A process that reads the file `served` again and again, and ends with the test.
struct Server {
    process: std::process::Child,
    folder: TempDir,
}

impl Server {
    fn start(folder: TempDir, command: &mut Command) -> Self {
        fs::write(folder.path().join("served"), "something to be read\n").unwrap();
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self { process: quiet.current_dir(folder.path()).spawn().unwrap(), folder }
    }

    /// Create a generator that starts no other processes.
    fn alone() -> Self {
        let script = "while :; do read -r line < served; done";
        Self::start(tempfile::tempdir().unwrap(), Command::new("sh").args(["-c", script]))
    }

    /// Create a generator that starts others all the time, if it can be compiled.
    fn of_many_processes() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let program = compiled("server.c", folder.path(), LONG_NAME)?;
        Some(Self::start(folder, &mut Command::new(program)))
    }

    fn id(&self) -> String {
        self.process.id().to_string()
    }
}

/// The kernel keeps fifteen bytes of the name of a program.
const LONG_NAME: &str = "server-of-many-processes";

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Attaches on a terminal, waits until the live count counts, and types Ctrl-C; the recorded
/// programs are these.
fn check_attached(with: &str, mut server: Server, programs: &[&str]) {
    let output = server.folder.path().join("x.csv");
    // A shell that stays would end by Ctrl-C too, and with another status.
    let command = format!(
        "exec {} trace record --with {with} -o {} --attach {}",
        env!("CARGO_BIN_EXE_thermocline"),
        output.display(),
        server.id()
    );
    let terminal = Command::new("timeout")
        .args(["120", "script", "-qec", &command, "/dev/null"])
        .envs([("SHELL", "/bin/sh"), ("TERM", "xterm")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut terminal = terminal.unwrap();
    let (mut screen, mut shown) = (terminal.stdout.take().unwrap(), String::new());
    let mut buffer = [0; 4096];
    let has_counted = |shown: &str| {
        let counts = shown.split(" lines recorded").filter_map(|text| text.split(' ').next_back());
        counts.into_iter().any(|count| count.len() > 2 && count.starts_with(char::is_numeric))
    };
    while !has_counted(&shown) {
        let read = screen.read(&mut buffer).unwrap();
        assert!(read > 0, "it ended: {shown}");
        shown.push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
    terminal.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
    let mut rest = vec![];
    screen.read_to_end(&mut rest).unwrap();
    shown.push_str(&String::from_utf8_lossy(&rest));
    assert!(terminal.wait().unwrap().success(), "{shown}");
    assert!(server.process.try_wait().unwrap().is_none(), "the server goes on");
    let info = json(&["trace", "info", output.to_str().unwrap(), "--json"]);
    let hottest = info["recording"]["hottest_files"].as_array().unwrap();
    let is_served = |path: &str| path.ends_with("/served");
    assert!(hottest.iter().any(|file| is_served(file["path"].as_str().unwrap())), "{info}");
    let processes = info["recording"]["processes"].as_array().unwrap();
    let found: BTreeSet<_> =
        processes.iter().map(|process| process["process"].as_str().unwrap()).collect();
    assert_eq!(found, programs.iter().copied().collect(), "{shown}");
}

/// Return `true` if there is a program that gives others a terminal.
fn has_script() -> bool {
    let has = Command::new("script").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !has {
        skip("script is missing");
    }
    has
}

#[test]
fn a_server_is_recorded_by_strace_until_ctrl_c() {
    if has_script() && can_trace() {
        check_attached("strace", Server::alone(), &["sh"]);
    }
}

#[test]
fn a_server_is_recorded_by_bpftrace_until_ctrl_c() {
    if has_script() && can_trace_in_the_kernel() {
        check_attached("bpftrace", Server::alone(), &["sh"]);
    }
}

#[test]
fn a_server_of_many_processes_is_recorded_by_strace() {
    if has_script() && can_trace() {
        let Some(server) = Server::of_many_processes() else { return };
        check_attached("strace", server, &["cat", LONG_NAME]);
    }
}

#[test]
fn a_server_of_many_processes_is_recorded_by_bpftrace() {
    if has_script() && can_trace_in_the_kernel() {
        let Some(server) = Server::of_many_processes() else { return };
        check_attached("bpftrace", server, &["cat", &LONG_NAME[..15]]);
    }
}

#[test]
fn a_process_that_another_traces_is_refused() {
    if !can_trace() {
        return;
    }
    let server = Server::alone();
    let id = server.id();
    let mut other = Command::new("strace")
        .args(["-o", "/dev/null", "-e", "trace=none", "-p", &id])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It says when it is attached.
    let said = other.stderr.as_mut().unwrap().read(&mut [0; 256]).unwrap();
    assert!(said > 0, "strace cannot be attached");
    let output = server.folder.path().join("x.csv");
    let words = ["trace", "record", "--with", "strace", "-o", output.to_str().unwrap()];
    let reason = format!("strace cannot be attached to process {id}: Operation not permitted");
    fails(&[&words[..], &["--attach", &id]].concat(), &[&reason]);
    assert!(!output.exists());
    drop(server);
    assert!(other.wait().is_ok());
}

/// A recording of two programs, three classes, and a file that is removed and created again.
const LINES: &str = r#"7 1.0 execve("/usr/bin/app", ["app"], 0x7f /* 3 vars */) = 0
7 1.1 openat(AT_FDCWD, "/d/bank.db", O_RDWR) = 3
7 1.2 openat(AT_FDCWD, "/d/bank.db-wal", O_RDWR|O_CREAT|O_EXCL, 0600) = 4
7 1.3 openat(AT_FDCWD, "/etc/app.conf", O_RDONLY) = 5
7 1.4 pread64(3, ""..., 8192, 0) = 8192
7 1.5 pwrite64(4, ""..., 4096, 0) = 4096
7 1.6 pread64(5, ""..., 4096, 0) = 17
7 1.7 pread64(3, ""..., 8192, 0) = 8192
7 1.8 unlink("/d/bank.db-wal") = 0
7 1.9 openat(AT_FDCWD, "/d/bank.db-wal", O_RDWR|O_CREAT|O_EXCL, 0600) = 6
7 2.0 pwrite64(6, ""..., 4096, 0) = 4096
7 2.1 fork() = 8
8 2.2 execve("/usr/bin/helper", ["helper"], 0x7f /* 3 vars */) = 0
8 2.3 pwrite64(3, ""..., 4096, 4096) = 4096
"#;

/// Return a folder with `x.strace`, and where its recording is.
fn converted(more: &[&str]) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let raw = folder.path().join("x.strace");
    fs::write(&raw, LINES).unwrap();
    let output = folder.path().join("x.csv").to_str().unwrap().to_owned();
    let words = ["trace", "convert", "--from", "strace", raw.to_str().unwrap(), "-o", &output];
    let printed = text(&[&words[..], more].concat());
    assert!(printed.contains("x.csv: "), "{printed}");
    (folder, output)
}

#[test]
fn information_names_files_classes_and_processes() {
    let (folder, recording) = converted(&[]);
    let report = folder.path().join("x.html");
    let words = ["trace", "info", &recording, "--report", report.to_str().unwrap(), "--json"];
    let info = json(&words);
    assert_eq!((info["accesses"].as_u64(), info["volumes"].as_u64()), (Some(8), Some(1)));
    let found = &info["recording"];
    assert_eq!(found["files"], 4);
    assert_eq!(found["hottest_files"][0]["path"], "/d/bank.db");
    assert_eq!(found["hottest_files"][0]["reads"], 4);
    assert_eq!(found["hottest_files"][0]["footprint_pages"], 2);
    assert_eq!(found["classes"][0]["class"], "data");
    assert_eq!(found["classes"][0]["access_share"], 0.625);
    assert_eq!(found["classes"][1]["class"], "log");
    assert_eq!(found["classes"][1]["files"], 2);
    assert_eq!(found["processes"][0]["process"], "app");
    assert_eq!(found["processes"][1]["access_share"], 0.125);
    let html = fs::read_to_string(&report).unwrap();
    for part in ["Footprint over time", "Re-use over time", "/d/bank.db", "helper", "<svg"] {
        assert!(html.contains(part), "{part}");
    }
    let table = text(&words[..3]);
    assert!(table.contains("hottest files") && table.contains("/d/bank.db-wal"), "{table}");
}

#[test]
fn classes_and_files_are_read_apart() {
    let (_folder, recording) = converted(&[]);
    let info = |more: &[&str]| json(&[&["trace", "info", &recording, "--json"][..], more].concat());
    assert_eq!(info(&["--only", "data"])["accesses"], 5);
    assert_eq!(info(&["--only", "data,log"])["accesses"], 7);
    let files = info(&["--volumes", "files"]);
    assert_eq!((files["volumes"].as_u64(), files["accesses"].as_u64()), (Some(4), Some(8)));
    assert_eq!(files["recording"]["hottest_files"][0]["path"], "/d/bank.db");
    assert_eq!(info(&["--volumes", "files", "--only", "log"])["volumes"], 2);
    let words = ["simulate", &recording, "--policy", "lru", "--tier", "ram=1p", "--only", "data"];
    assert_eq!(json(&[&words[..], &["--json"]].concat())["trace"]["accesses"], 5);
    let info = ["trace", "info", &recording];
    fails(&[&info[..], &["--only", "logs"]].concat(), &["'logs'", "data, log, other"]);
    fails(&["trace", "info", super::TRACE, "--only", "data"], &["format csv", "`only`"]);
    fails(&["trace", "info", super::TRACE, "--volumes", "files"], &["format csv", "`volumes`"]);
}

#[test]
fn files_are_taken_and_left_by_patterns() {
    let (_folder, recording) = converted(&["--include", "/d/*", "--exclude", "*-wal"]);
    let info = json(&["trace", "info", &recording, "--json"]);
    assert_eq!(
        (info["accesses"].as_u64(), info["recording"]["files"].as_u64()),
        (Some(5), Some(1))
    );
    let (_folder, recording) = converted(&["--identity", "path"]);
    let info = json(&["trace", "info", &recording, "--json"]);
    assert_eq!(info["recording"]["files"], 3);
}

#[test]
fn what_cannot_be_converted_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let raw = folder.path().join("x.strace");
    let output = folder.path().join("x.csv");
    let (raw_name, output_name) = (raw.to_str().unwrap(), output.to_str().unwrap());
    let convert = ["trace", "convert", raw_name, "-o", output_name, "--from"];
    let check = |content: &[u8], more: &[&str], parts: &[&str]| {
        fs::write(&raw, content).unwrap();
        fails(&[&convert[..], more].concat(), parts);
        let left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().path()).collect();
        assert_eq!(left, std::slice::from_ref(&raw));
    };
    let damaged = format!("{LINES}strace: Process 9 attached\n");
    check(damaged.as_bytes(), &["strace"], &["line 15", "-o FILE", "--max-unknown"]);
    check(LINES.as_bytes(), &["dtrace"], &["'dtrace'", "strace, bpftrace"]);
    check(LINES.as_bytes(), &["strace", "--include", "nothing"], &["no request to a file"]);
    check(LINES.as_bytes(), &["strace", "--include", "a[b"], &["a[b"]);
    check(LINES.as_bytes(), &["strace", "--page-size", "1000"], &["power of two"]);
    check(LINES.as_bytes(), &["bpftrace"], &["# thermocline 1"]);
    check(LINES.as_bytes(), &["fio-iolog"], &["line 1", "fio version 2 iolog"]);
    check(LINES.as_bytes(), &["blktrace"], &["record 1 at byte 0", "magic"]);
    check(b"", &["strace"], &["no request"]);
    fails(&["trace", "convert", raw_name, "-o", output_name], &["--to"]);
    fails(
        &["trace", "convert", raw_name, "-o", output_name, "--to", "csv", "--identity", "path"],
        &["--from"],
    );
    let gz = folder.path().join("x.csv.gz");
    let words = ["trace", "convert", raw_name, "--from", "strace", "-o", gz.to_str().unwrap()];
    fails(&words, &["NAME.zst"]);
    fs::remove_file(&raw).unwrap();
    fails(&[&convert[..], &["strace"]].concat(), &["x.strace", "cannot open"]);
}

#[test]
fn a_recording_that_cannot_begin_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("x.csv");
    let record = ["trace", "record", "-o", output.to_str().unwrap()];
    fails(&[&record[..], &["--", "no-such-program"]].concat(), &["`no-such-program`", "PATH"]);
    fails(&[&record[..], &["--attach", "4194305"]].concat(), &["no process 4194305"]);
    fails(&record, &["COMMAND"]);
    let without_path = Command::new(env!("CARGO_BIN_EXE_thermocline"))
        .args(record)
        .args(["--with", "strace", "--", "/bin/true"])
        .env("PATH", folder.path())
        .output()
        .unwrap();
    let errors = String::from_utf8(without_path.stderr).unwrap();
    assert!(errors.contains("install the package `strace`"), "{errors}");
    assert!(fs::read_dir(folder.path()).unwrap().next().is_none());
}

#[test]
fn fio_logs_of_both_versions_are_converted() {
    let folder = tempfile::tempdir().unwrap();
    let raw = folder.path().join("x.log");
    let output = folder.path().join("x.csv");
    let check = |content: &str, times: [&str; 2]| {
        fs::write(&raw, content).unwrap();
        let (raw, name) = (raw.to_str().unwrap(), output.to_str().unwrap());
        text(&["trace", "convert", "--from", "fio-iolog", raw, "-o", name]);
        let lines = fs::read_to_string(&output).unwrap();
        let lines: Vec<&str> = lines.lines().skip(1).collect();
        let expected = [format!("{},R,0,0,2,", times[0]), format!("{},W,0,2,1,p", times[1])];
        assert_eq!(lines, expected);
    };
    let name = "/data/a file";
    check(
        &format!(
            "fio version 2 iolog\n{name} add\n{name} open\n{name} read 0 8192\n{name} wait 50 0\n{name} write 8192 512\n{name} sync 0 0\n{name} trim 0 4096\n{name} close\n"
        ),
        ["0", "50"],
    );
    check(
        &format!(
            "fio version 3 iolog\n3 {name} add\n4 {name} open\n10 {name} read 0 8192\n75 {name} write 8192 512\n80 {name} datasync 0 0\n90 {name} close\n"
        ),
        ["0", "65"],
    );
}

#[test]
fn what_the_script_prints_is_converted() {
    let folder = tempfile::tempdir().unwrap();
    let raw = folder.path().join("x.bt");
    let output = folder.path().join("x.csv");
    let lines = "Attaching 25 probes...\n# thermocline 1\n\
        R 2000 7 8:5:1 4096 8192 my app\nN 8:5:1 0 bank.db\nN 8:5:1 1 my data\nN 8:5:1 2 /\n\
        N 8:5:1 3 /\nW 1500 7 8:5:1 0 100 my app\nM 1600 7 8:5:1 8192\nLost 3 events\n\
        R 3000 7 8:5:1 -11 11 my app\n\n@recorder[25960]: 1\n@seen[266338304, 10043603, 15]: 1\n";
    fs::write(&raw, lines).unwrap();
    let words = ["trace", "convert", "--from", "bpftrace", raw.to_str().unwrap(), "-o"];
    let found = json(&[&words[..], &[output.to_str().unwrap(), "--json"]].concat());
    assert_eq!(
        (found["counts"]["lost"].as_u64(), found["counts"]["mmaps"].as_u64()),
        (Some(3), Some(1))
    );
    let requests = fs::read_to_string(&output).unwrap();
    let expected = ["0,W,0,0,1,p", "0.500,R,0,1,2,", "1.500,R,0,0,1,p"];
    assert_eq!(requests.lines().skip(1).collect::<Vec<_>>(), expected);
    assert_eq!(found["counts"]["position_assumed"], 1);
    let info = json(&["trace", "info", output.to_str().unwrap(), "--json"]);
    assert_eq!(info["recording"]["hottest_files"][0]["path"], "/my data/bank.db");
    assert_eq!(info["recording"]["processes"][0]["process"], "my app");
}

/// Return a record of blktrace in either byte order.
pub(super) fn blktrace_record(
    is_little: bool,
    at_ns: u64,
    sector: u64,
    action: u32,
    following: &[u8],
) -> Vec<u8> {
    let mut bytes = vec![];
    let mut push = |value: u64, length: usize| {
        let all = if is_little { value.to_le_bytes() } else { value.to_be_bytes() };
        bytes.extend_from_slice(if is_little { &all[..length] } else { &all[8 - length..] });
    };
    let device = 8 << 20 | 16;
    for (value, length) in [
        (0x6561_7407, 4),
        (1, 4),
        (at_ns, 8),
        (sector, 8),
        (8192, 4),
        (u64::from(action), 4),
        (42, 4),
        (device, 4),
        (0, 4),
        (0, 2),
        (following.len() as u64, 2),
    ] {
        push(value, length);
    }
    bytes.extend_from_slice(following);
    bytes
}

#[test]
fn blktrace_is_read_in_both_byte_orders_as_blkparse_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let (queued, issued, read, write, discard, notify) = (1, 7, 1 << 16, 1 << 17, 1 << 29, 1 << 26);
    let outputs = [true, false].map(|is_little| {
        let record = |at, sector, action, following: &[u8]| {
            blktrace_record(is_little, at, sector, action, following)
        };
        let bytes = [
            record(1000, 0, notify, b"fsync\0\0\0"),
            record(2000, 64, queued | write, b""),
            record(2500, 64, issued | write, b""),
            record(2600, 64, queued | discard | write, b""),
            record(3000, 128, queued | read, b"xyz"),
        ]
        .concat();
        let raw = folder.path().join(format!("{is_little}.blktrace.0"));
        fs::write(&raw, &bytes).unwrap();
        let output = folder.path().join(format!("{is_little}.csv"));
        let words = ["trace", "convert", "--from", "blktrace", raw.to_str().unwrap(), "-o"];
        text(&[&words[..], &[output.to_str().unwrap()]].concat());
        fs::write(&raw, &bytes[..bytes.len() - 1]).unwrap();
        fails(&[&words[..], &["cut.csv"]].concat(), &["truncated", "record 5"]);
        fs::write(&raw, &bytes).unwrap();
        fs::read_to_string(output).unwrap()
    });
    assert_eq!(outputs[0], outputs[1]);
    let lines: Vec<&str> = outputs[0].lines().skip(1).collect();
    assert_eq!(lines, ["0,W,0,8,2,", "1,R,0,16,2,"]);
    let info = json(&["trace", "info", folder.path().join("true.csv").to_str().unwrap(), "--json"]);
    assert_eq!(info["recording"]["processes"][0]["process"], "fsync");
    assert_eq!(info["recording"]["hottest_files"][0]["path"], "8:16");
    let parsed =
        Command::new("blkparse").args(["-q", "-i", "true"]).current_dir(folder.path()).output();
    let Ok(parsed) = parsed else {
        skip("blkparse is missing");
        return;
    };
    let parsed_text = folder.path().join("true.txt");
    fs::write(&parsed_text, parsed.stdout).unwrap();
    let output = folder.path().join("text.csv");
    let words = ["trace", "convert", "--from", "blkparse", parsed_text.to_str().unwrap(), "-o"];
    text(&[&words[..], &[output.to_str().unwrap()]].concat());
    assert_eq!(fs::read_to_string(output).unwrap(), outputs[0]);
}

/// The environment of a recipe, beside its folders.
type Variables<'a> = [(&'a str, &'a str)];

const SMALL: &Variables<'_> = &[("SCALE", "1"), ("TRANSACTIONS", "100")];

/// Runs a recipe at a small size and gives its recording, or none where its programs are missing.
fn recipe(
    script: &str,
    name: &str,
    programs: &[&str],
    size: &Variables<'_>,
) -> Option<(TempDir, String)> {
    use std::os::unix::fs::PermissionsExt as _;
    let paths = "PATH=$PATH:$(echo /usr/lib/postgresql/*/bin)";
    let has = |program: &&str| {
        let look = format!("{paths} command -v {program}");
        Command::new("bash").args(["-c", &look]).output().is_ok_and(|found| found.status.success())
    };
    if !can_trace() {
        return None;
    }
    if let Some(missing) = programs.iter().find(|program| !has(program)) {
        skip(&format!("{missing} is missing"));
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    // The server of a recipe may run as another user.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let run = Command::new("timeout")
        .arg("120")
        .arg(format!("{}/../../recipes/{script}", env!("CARGO_MANIFEST_DIR")))
        .env("THERMOCLINE", env!("CARGO_BIN_EXE_thermocline"))
        .env("RECORDER", "strace")
        .env("TRACES", folder.path().join("traces"))
        .env("WORK", folder.path().join("work"))
        .envs(size.iter().copied())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(run.status.success(), "{script}: {errors}");
    assert!(!folder.path().join("work").exists(), "{script} leaves something behind");
    let recording = folder.path().join(format!("traces/{name}.csv.zst"));
    Some((folder, recording.to_str().unwrap().to_owned()))
}

#[test]
fn the_recipe_of_sqlite_makes_a_recording() {
    let Some((_folder, recording)) = recipe("sqlite.sh", "sqlite", &["sqlite3"], SMALL) else {
        return;
    };
    let info = json(&["trace", "info", &recording, "--json"]);
    // By path, a hundred journals are one file.
    assert_eq!(info["recording"]["files"], 2);
    assert!(info["writes"].as_u64().unwrap() >= 200, "{info}");
    assert_eq!(info["recording"]["processes"][0]["process"], "sqlite3");
}

const POSTGRESQL: [&str; 4] = ["initdb", "pgbench", "psql", "runuser"];

#[test]
fn the_recipe_of_postgresql_makes_a_recording() {
    let Some((_folder, recording)) = recipe("postgresql-tpcb.sh", "tpcb", &POSTGRESQL, SMALL)
    else {
        return;
    };
    let info = json(&["trace", "info", &recording, "--json"]);
    assert_eq!(info["page_size_bytes"], 8192);
    let classes = info["recording"]["classes"].as_array().unwrap();
    let writes = |class: &str| {
        let found = classes.iter().find(|one| one["class"] == class).unwrap();
        found["writes"].as_u64().unwrap()
    };
    // Every transaction ends in the log.
    assert!(writes("log") >= 20, "{info}");
    assert_eq!(info["recording"]["processes"][0]["process"], "postgres");
    let hat = ["simulate", &recording, "--policy", "hat", "--tier", "ram=5%", "--tier", "flash=2x"];
    json(&[&hat[..], &["--only", "data", "--check", "--json"]].concat());
}

#[test]
fn the_recipe_above_the_buffer_pool_sees_more_than_the_one_below() {
    let accesses = |script, name| {
        let (_folder, recording) = recipe(script, name, &POSTGRESQL, SMALL)?;
        let info = json(&["trace", "info", &recording, "--only", "data", "--json"]);
        info["accesses"].as_u64()
    };
    let Some(below) = accesses("postgresql-tpcb.sh", "tpcb") else { return };
    let above = accesses("postgresql-tpcb-logical.sh", "tpcb_logical").unwrap();
    assert!(above > 2 * below && above > 200, "{above} above, {below} below");
}

#[test]
fn the_recipe_of_tatp_makes_a_recording() {
    let size = [("SCALE", "50"), ("TRANSACTIONS", "400")];
    let Some((_folder, recording)) = recipe("postgresql-tatp.sh", "tatp", &POSTGRESQL, &size)
    else {
        return;
    };
    let info = json(&["trace", "info", &recording, "--only", "data", "--json"]);
    // The transactions that change something are a fifth; most of the pages are read.
    let [reads, writes] = ["reads", "writes"].map(|field| info[field].as_u64().unwrap());
    assert!(reads > 50 && reads > writes, "{info}");
}

#[test]
fn the_recipe_of_tpch_makes_a_recording() {
    let programs = [&POSTGRESQL[..], &["tpchgen-cli"]].concat();
    let size = [("SCALE", "0.01"), ("SHARED_BUFFERS", "1MB")];
    let Some((_folder, recording)) = recipe("postgresql-tpch.sh", "tpch", &programs, &size) else {
        return;
    };
    let info = json(&["trace", "info", &recording, "--only", "data", "--json"]);
    // The largest table is scanned again and again, beyond the small buffers.
    let hottest = &info["recording"]["hottest_files"][0];
    let [reads, pages] = ["reads", "footprint_pages"].map(|field| hottest[field].as_u64().unwrap());
    assert!(pages > 900 && reads > 8 * pages, "{info}");
}

#[test]
fn the_recipe_of_rocksdb_makes_a_recording() {
    let size = [("SCALE", "20000"), ("TRANSACTIONS", "500")];
    let Some((_folder, recording)) = recipe("rocksdb.sh", "rocksdb", &["db_bench"], &size) else {
        return;
    };
    let info = json(&["trace", "info", &recording, "--json"]);
    let classes = info["recording"]["classes"].as_array().unwrap();
    // Every key is written to a log first.
    assert_eq!(classes[0]["class"], "log");
    assert!(classes[0]["writes"].as_u64().unwrap() >= 20_000, "{info}");
    let data = classes.iter().find(|one| one["class"] == "data").unwrap();
    assert!(data["reads"].as_u64().unwrap() > 100, "{info}");
}

/// The targets of Linux' Makefile that the recipe needs, of as little as shows what it does.
const KERNEL: &str = "all: lib/\n\ttrue\n\
    tinyconfig:\n\techo CONFIG_TINY=y > .config\n\
    prepare:\n\techo '#define TINY 1' > tiny.h\n\
    lib/: lib/one.o\n\tcat .config lib/one.o > built\n\
    lib/one.o: lib/one.c\n\tcc -c -I. -o lib/one.o lib/one.c\n\
    .PHONY: all tinyconfig prepare lib/\n";

#[test]
fn the_recipe_of_the_kernel_makes_a_recording() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("linux-0.0");
    fs::create_dir_all(tree.join("lib")).unwrap();
    fs::write(tree.join("Makefile"), KERNEL).unwrap();
    fs::write(tree.join("lib/one.c"), "#include \"tiny.h\"\nint tiny = TINY;\n").unwrap();
    let archive = folder.path().join("linux.tar");
    let packed = Command::new("tar")
        .args(["-C", folder.path().to_str().unwrap(), "-cf"])
        .args([archive.to_str().unwrap(), "linux-0.0"])
        .status()
        .unwrap();
    assert!(packed.success());
    let programs = ["make", "cc", "bc", "flex", "bison", "xz"];
    let size = [("LINUX_SOURCE", archive.to_str().unwrap())];
    let Some((_folder, recording)) = recipe("kernel-build.sh", "mlk", &programs, &size) else {
        return;
    };
    let info = json(&["trace", "info", &recording, "--volumes", "files", "--json"]);
    let hottest = info["recording"]["hottest_files"].as_array().unwrap();
    let is_there =
        |name: &str| hottest.iter().any(|file| file["path"].as_str().unwrap().ends_with(name));
    assert!(is_there("/lib/one.o") && is_there("/built"), "{info}");
    // The configuration is not recorded, the build is: its compiler, too.
    let processes = info["recording"]["processes"].as_array().unwrap();
    let ran = |name: &str| processes.iter().any(|one| one["process"] == name);
    assert!(ran("make") && ran("cat") && ran("cc1"), "{info}");
}

/// A recipe that cannot begin says what to install, and makes no folder.
#[test]
fn a_recipe_without_its_programs_says_what_to_install() {
    let folder = tempfile::tempdir().unwrap();
    let tools = folder.path().join("tools");
    fs::create_dir(&tools).unwrap();
    for tool in ["bash", "dirname"] {
        let found = Command::new("which").arg(tool).output().unwrap().stdout;
        let found = String::from_utf8(found).unwrap();
        std::os::unix::fs::symlink(found.trim(), tools.join(tool)).unwrap();
    }
    for (script, package) in [
        ("sqlite.sh", "sqlite3 is missing: install sqlite3"),
        ("rocksdb.sh", "db_bench is missing: install rocksdb-tools"),
        ("kernel-build.sh", "make is missing: install build-essential"),
        ("postgresql-tpch.sh", "tpchgen-cli is missing: install tpchgen-cli from PyPI"),
    ] {
        let run = Command::new(tools.join("bash"))
            .arg(format!("{}/../../recipes/{script}", env!("CARGO_MANIFEST_DIR")))
            .env("PATH", &tools)
            .env("TRACES", folder.path().join("traces"))
            .env("WORK", folder.path().join("work"))
            .output()
            .unwrap();
        let errors = String::from_utf8(run.stderr).unwrap();
        assert!(run.status.code() == Some(3) && errors.contains(package), "{script}: {errors}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "only the tools are there");
}
