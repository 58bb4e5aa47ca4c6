//! Excerpts of recordings, written by hand, one for everything that strace's output makes hard.

use std::fs;

use thermocline_trace::PageSize;

use crate::{
    CaptureCounts, CaptureError, CaptureOptions, Captured, Identity, Mmap, Source, convert_text,
};

/// A conversion's requests (`op file page+pages flags`, with the time in front), its files
/// (`path class`), and its counts.
#[derive(Debug)]
struct Converted {
    requests: Vec<String>,
    files: Vec<String>,
    times_us: Vec<String>,
    counts: CaptureCounts,
    stats: serde_json::Value,
}

fn convert_with(lines: &str, options: &CaptureOptions) -> Result<Converted, CaptureError> {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("x.csv");
    let text: String = lines.lines().map(|line| format!("{}\n", line.trim_start())).collect();
    let Captured { counts, .. } = convert_text(Source::Strace, "x.strace", text, &output, options)?;
    let table = fs::read_to_string(folder.path().join("x.files.csv")).unwrap();
    let files: Vec<(String, String)> = table
        .lines()
        .skip(1)
        .map(|line| {
            let fields: Vec<&str> = line.splitn(7, ',').collect();
            (fields[6].trim_matches('"').to_owned(), fields[3].to_owned())
        })
        .collect();
    let (mut requests, mut times_us) = (vec![], vec![]);
    for line in fs::read_to_string(&output).unwrap().lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [at, op, file, page, pages, flags] = fields[..] else { panic!("{line}") };
        let path = &files[file.parse::<usize>().unwrap()].0;
        requests.push(format!("{op} {path} {page}+{pages} {flags}").trim_end().to_owned());
        times_us.push(at.to_owned());
    }
    let stats = fs::read(folder.path().join("x.stats.json")).unwrap();
    let stats = serde_json::from_slice(&stats).unwrap();
    let files = files.into_iter().map(|(path, class)| format!("{path} {class}")).collect();
    Ok(Converted { requests, files, times_us, counts, stats })
}

fn convert(lines: &str) -> Converted {
    convert_with(lines, &CaptureOptions::default()).unwrap()
}

/// Check the requests of an excerpt.
fn check(lines: &str, requests: &[&str]) -> Converted {
    let converted = convert(lines);
    assert_eq!(converted.requests, requests, "{lines}");
    assert_eq!(converted.counts.unknown, 0, "{lines}");
    converted
}

fn error(lines: &str) -> String {
    convert_with(lines, &CaptureOptions::default()).unwrap_err().to_string()
}

/// Pitfall 1.
#[test]
fn halves_are_joined_per_process_wherever_they_are_cut() {
    let converted = check(
        r#"1 1.000000 openat(AT_FDCWD, "/a", O_RDWR <unfinished ...>
        2 1.000001 openat(AT_FDCWD, "/b", O_RDWR) = 3
        1 1.000002 <... openat resumed>) = 3
        1 1.000010 pread64(3,  <unfinished ...>
        2 1.000011 pread64(3, ""..., 4096, 0) = 4096
        2 1.000012 pwrite64(3, ""..., 8192, 8192 <unfinished ...>
        1 1.000013 <... pread64 resumed>""..., 8192, 4096) = 8192
        2 1.000014 <... pwrite64 resumed>) = 8192"#,
        &["R /a 1+2", "R /b 0+1", "W /b 2+2"],
    );
    assert_eq!(converted.times_us, ["0", "1", "2"], "the first half's time");
    assert_eq!((converted.counts.unfinished, converted.counts.resumed_without_start), (3, 0));
}

/// Pitfall 1.
#[test]
fn a_lost_half_is_counted_and_fails_unless_the_recording_began_in_it() {
    let opened = "1 1.0 open(\"/a\", O_RDONLY) = 3\n1 1.1 read(3, \"\"..., 4096) = 4096\n";
    let attached = format!("2 0.9 <... read resumed>\"\"..., 8) = 8\n{opened}");
    assert_eq!(convert(&attached).counts.resumed_without_start, 1);
    let lost = format!("{opened}1 1.2 <... read resumed>\"\"..., 8) = 8\n");
    assert!(error(&lost).contains("line 3: there is no first half to it"), "{}", error(&lost));
    let other = format!("{opened}1 1.2 close(3 <unfinished ...>\n1 1.3 <... read resumed>) = 8\n");
    assert!(error(&other).contains("line 4"), "{}", error(&other));
    let never =
        format!("{opened}1 1.2 read(3,  <unfinished ...>\n1 1.3 +++ killed by SIGKILL +++\n");
    assert_eq!(convert(&never).counts.never_resumed, 1);
    let end = format!("{opened}1 1.2 read(3,  <detached ...>\n");
    assert_eq!(convert(&end).counts.never_resumed, 1);
    let exit = format!(
        "{opened}1 1.2 read(3,  <unfinished ...>\n1 1.3 <... read resumed> <unfinished ...>) = ?\n"
    );
    assert_eq!(convert(&exit).counts.no_result, 1);
}

/// Pitfall 2.
#[test]
fn close_acts_at_its_entry() {
    check(
        r#"1 1.0 openat(AT_FDCWD, "/a", O_RDONLY) = 3
        1 1.1 clone(child_stack=0x1, flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD) = 2
        1 1.2 close(3 <unfinished ...>
        2 1.3 openat(AT_FDCWD, "/b", O_RDONLY) = 3
        1 1.4 <... close resumed>) = 0
        2 1.5 read(3, ""..., 4096) = 4096
        1 1.6 read(3, ""..., 4096) = 4096"#,
        &["R /b 0+1", "R /b 1+1"],
    );
}

/// Pitfall 2: a request keeps the file that its descriptor led to when it was entered.
#[test]
fn a_request_outlives_its_descriptor() {
    check(
        r#"1 1.0 openat(AT_FDCWD, "/a", O_RDONLY) = 3
        1 1.1 clone(child_stack=0x1, flags=CLONE_FILES|CLONE_FS) = 2
        1 1.2 pread64(3,  <unfinished ...>
        2 1.3 close(3) = 0
        2 1.4 openat(AT_FDCWD, "/b", O_RDONLY) = 3
        1 1.5 <... pread64 resumed>""..., 4096, 4096) = 4096"#,
        &["R /a 1+1"],
    );
}

/// Pitfall 3.
#[test]
fn standard_error_of_strace_is_refused() {
    for line in [
        "strace: Process 7 attached",
        "[pid 7] 1.0 close(3) = 0",
        "7 1.0 read(3, strace: Process 9 attached",
        "7 1.0 wriHello, world",
    ] {
        let message = error(&format!("1 1.0 close(3) = 0\n{line}\n"));
        assert!(message.contains("line 2") && message.contains("max_unknown"), "{message}");
    }
}

/// Pitfall 3: what is beyond understanding may be allowed, and is then counted.
#[test]
fn unknown_lines_fail_above_the_threshold() {
    let lines = "1 1.0 open(\"/a\", O_RDONLY) = 3\nwhat?\n1 1.1 read(3, \"\"..., 9) = 9\n1 2 x\n";
    let allowed = |max_unknown| {
        convert_with(lines, &CaptureOptions { max_unknown, ..CaptureOptions::default() })
    };
    assert_eq!(allowed(2).unwrap().counts.unknown, 2);
    let message = allowed(1).unwrap_err().to_string();
    assert!(message.contains("2 lines were not understood, 1 are allowed"), "{message}");
    assert!(message.contains("line 2") && message.contains("line 4"), "{message}");
}

/// Pitfall 4.
#[test]
fn a_child_may_speak_before_its_parent_knows_of_it() {
    check(
        r#"1 1.0 openat(AT_FDCWD, "/a", O_RDONLY) = 3
        1 1.1 clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD <unfinished ...>
        2 1.2 read(3, ""..., 4096) = 4096
        2 1.3 close(3) = 0
        2 1.4 openat(AT_FDCWD, "/b", O_RDONLY) = 3
        1 1.5 <... clone resumed>) = 2
        1 1.6 read(3, ""..., 4096) = 4096
        2 1.7 read(3, ""..., 4096) = 4096"#,
        &["R /a 0+1", "R /a 1+1", "R /b 0+1"],
    );
}

/// Pitfall 4.
#[test]
fn descriptors_are_shared_or_copied_as_the_flags_say() {
    for (call, is_shared) in [
        (
            "clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES, exit_signal=0} => {parent_tid=[2]}, 88)",
            true,
        ),
        ("clone(child_stack=NULL, flags=CLONE_VFORK|SIGCHLD)", false),
        ("fork()", false),
        ("vfork()", false),
    ] {
        let converted = convert(&format!(
            "1 1.0 {call} = 2\n2 1.1 openat(AT_FDCWD, \"/a\", O_RDONLY) = 3\n\
             2 1.2 read(3, \"\"..., 4096) = 4096\n1 1.3 read(3, \"\"..., 4096) = 4096\n"
        ));
        assert_eq!(converted.requests.len(), if is_shared { 2 } else { 1 }, "{call}");
        assert_eq!(converted.counts.unknown_descriptor, u64::from(!is_shared), "{call}");
    }
}

/// Pitfall 5.
#[test]
fn a_process_id_that_is_used_again_is_another_process() {
    check(
        r#"1 1.0 openat(AT_FDCWD, "/a", O_RDONLY) = 3
        5 1.0 openat(AT_FDCWD, "/b", O_RDONLY) = 3
        1 1.1 fork() = 9
        9 1.2 read(3, ""..., 4096) = 4096
        9 1.3 exit_group(0) = ?
        9 1.4 +++ exited with 0 +++
        5 2.1 fork( <unfinished ...>
        9 2.2 read(3, ""..., 4096) = 4096
        5 2.3 <... fork resumed>) = 9
        9 2.4 +++ exited with 0 +++
        1 3.1 vfork() = 9
        9 3.2 read(3, ""..., 4096) = 4096"#,
        &["R /a 0+1", "R /b 0+1", "R /a 1+1"],
    );
}

/// Pitfall 5: even if strace did not say that the first had ended.
#[test]
fn a_new_birth_replaces_a_process_that_was_not_seen_to_end() {
    check(
        r#"1 1.0 openat(AT_FDCWD, "/a", O_RDONLY) = 3
        1 1.1 fork() = 9
        9 1.2 close(3) = 0
        9 1.3 openat(AT_FDCWD, "/b", O_RDONLY) = 3
        1 1.4 fork() = 9
        9 1.5 read(3, ""..., 4096) = 4096"#,
        &["R /a 0+1"],
    );
}

/// Pitfall 6.
#[test]
fn positions_belong_to_what_was_opened() {
    check(
        r#"1 1.00 openat(AT_FDCWD, "/a", O_RDONLY) = 3
        1 1.01 dup(3) = 4
        1 1.02 dup2(3, 5) = 5
        1 1.03 dup3(3, 6, O_CLOEXEC) = 6
        1 1.04 fcntl(3, F_DUPFD, 7) = 7
        1 1.05 fcntl(3, F_DUPFD_CLOEXEC, 0) = 8
        1 1.06 openat(AT_FDCWD, "/a", O_RDONLY) = 9
        1 1.07 fork() = 2
        1 1.10 read(3, ""..., 4096) = 4096
        1 1.11 read(4, ""..., 4096) = 4096
        1 1.12 read(5, ""..., 4096) = 4096
        2 1.13 read(6, ""..., 4096) = 4096
        2 1.14 read(7, ""..., 4096) = 4096
        1 1.15 read(8, ""..., 4096) = 4096
        1 1.16 read(9, ""..., 4096) = 4096
        1 1.17 lseek(4, 40960, SEEK_SET) = 40960
        1 1.18 readv(3, [{iov_base="), (", iov_len=4096}], 1) = 4096
        1 1.19 preadv2(3, [...], 1, -1, 0) = 4096
        1 1.20 preadv(3, [...], 1, 0) = 4096
        1 1.21 read(3, ""..., 4096) = 4096"#,
        &[
            "R /a 0+1",
            "R /a 1+1",
            "R /a 2+1",
            "R /a 3+1",
            "R /a 4+1",
            "R /a 5+1",
            "R /a 0+1",
            "R /a 10+1",
            "R /a 11+1",
            "R /a 0+1",
            "R /a 12+1",
        ],
    );
}

/// Pitfall 6.
#[test]
fn a_program_inherits_what_is_not_closed_on_exec() {
    let converted = check(
        r#"1 1.00 openat(AT_FDCWD, "/kept", O_RDONLY) = 3
        1 1.01 openat(AT_FDCWD, "/closed", O_RDONLY|O_CLOEXEC) = 4
        1 1.02 openat(AT_FDCWD, "/set", O_RDONLY) = 5
        1 1.03 fcntl(5, F_SETFD, FD_CLOEXEC) = 0
        1 1.04 openat(AT_FDCWD, "/unset", O_RDONLY|O_CLOEXEC) = 6
        1 1.05 fcntl(6, F_SETFD, 0) = 0
        1 1.06 dup3(3, 7, O_CLOEXEC) = 7
        1 1.07 dup(4) = 8
        1 1.08 ioctl(8, FIOCLEX) = 0
        1 1.09 openat(AT_FDCWD, "/ranged", O_RDONLY) = 9
        1 1.10 close_range(9, 4294967295, CLOSE_RANGE_CLOEXEC) = 0
        1 1.11 execve("/bin/none", ["none"], 0x7f /* 3 vars */) = -1 ENOENT (No such file or directory)
        1 1.12 read(4, ""..., 4096) = 4096
        1 1.13 execve("/usr/bin/cat", ["cat", "x"], 0x7f /* 3 vars */) = 0
        1 1.14 read(3, ""..., 4096) = 4096
        1 1.15 read(4, ""..., 4096) = 4096
        1 1.16 read(5, ""..., 4096) = 4096
        1 1.17 read(6, ""..., 4096) = 4096
        1 1.18 read(7, ""..., 4096) = 4096
        1 1.19 read(8, ""..., 4096) = 4096
        1 1.20 read(9, ""..., 4096) = 4096"#,
        &["R /closed 0+1", "R /kept 0+1", "R /unset 0+1"],
    );
    assert_eq!(converted.counts.unknown_descriptor, 5);
    assert_eq!(converted.stats["processes"]["cat"]["read_pages"], 2);
    assert_eq!(converted.stats["processes"]["unknown"]["read_pages"], 1);
}

/// Pitfall 6: the threads of a process that starts a program are gone, whichever starts it.
#[test]
fn a_thread_that_starts_a_program_becomes_its_process() {
    check(
        r#"1 1.0 openat(AT_FDCWD, "/a", O_RDONLY) = 3
        1 1.1 clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD}, 88) = 2
        1 1.2 futex(0x7f, FUTEX_WAIT, 0, NULL <unfinished ...>
        2 1.3 execve("/bin/cat", ["cat"], 0x7f /* 3 vars */ <unfinished ...>
        1 1.4 +++ superseded by execve in pid 2 +++
        1 1.5 <... execve resumed>) = 0
        1 1.6 read(3, ""..., 4096) = 4096"#,
        &["R /a 0+1"],
    );
}

/// Pitfall 7.
#[test]
fn files_opened_out_of_sight_are_known_by_their_paths() {
    let converted = check(
        r#"1 1.0 pread64(3</a>, ""..., 4096, 8192) = 4096
        1 1.1 read(4</b>, ""..., 4096) = 4096
        1 1.2 read(4</b>, ""..., 4096) = 4096
        1 1.3 lseek(5</c>, 40960, SEEK_SET) = 40960
        1 1.4 read(5</c>, ""..., 4096) = 4096
        2 1.5 pread64(7</a>, ""..., 4096, 0) = 4096
        2 1.6 pread64(8</gone>(deleted), ""..., 4096, 0) = 4096"#,
        &["R /a 2+1", "R /b 0+1", "R /b 1+1", "R /c 10+1", "R /a 0+1", "R /gone (deleted) 0+1"],
    );
    assert_eq!((converted.counts.adopted, converted.counts.position_assumed), (5, 1));
}

/// Pitfall 7: a descriptor that came over a socket, in the place of one whose end was missed.
#[test]
fn a_path_that_is_another_files_wins() {
    let converted = check(
        r#"1 1.0 openat(AT_FDCWD</w>, "/a", O_RDONLY) = 3</a>
        2 1.1 openat(AT_FDCWD</w>, "/b", O_RDONLY) = 3</b>
        1 1.2 pread64(3</b>, ""..., 4096, 0) = 4096
        1 1.3 read(3<pipe:[77]>, ""..., 4096) = 4096"#,
        &["R /b 0+1"],
    );
    assert_eq!((converted.counts.rebound, converted.counts.not_a_file), (1, 1));
}

/// Pitfall 8.
#[test]
fn appends_go_to_the_end_of_the_file() {
    let converted = check(
        r#"1 1.0 openat(AT_FDCWD, "/new", O_WRONLY|O_CREAT|O_EXCL|O_APPEND, 0644) = 3
        1 1.1 write(3, ""..., 4096) = 4096
        1 1.2 openat(AT_FDCWD, "/new", O_RDWR) = 4
        1 1.3 pwrite64(4, ""..., 4096, 8192) = 4096
        1 1.4 write(3, ""..., 4096) = 4096
        1 1.5 pwrite64(3, ""..., 4096, 0) = 4096
        1 1.6 fcntl(4, F_SETFL, O_RDWR|O_APPEND) = 0
        1 1.7 write(4, ""..., 4096) = 4096
        1 1.8 fcntl(4, F_SETFL, O_RDWR) = 0
        1 1.9 write(4, ""..., 4096) = 4096
        1 2.0 pwritev2(4, [...], 1, 0, RWF_APPEND) = 4096
        1 2.1 ftruncate(4, 4096) = 0
        1 2.2 write(3, ""..., 4096) = 4096
        1 2.3 fallocate(4, 0, 0, 40960) = 0
        1 2.4 write(3, ""..., 4096) = 4096
        1 2.5 fallocate(4, FALLOC_FL_KEEP_SIZE, 0, 409600) = 0
        1 2.6 write(3, ""..., 4096) = 4096
        1 2.7 truncate("/new", 0) = 0
        1 2.8 write(3, ""..., 4096) = 4096"#,
        &[
            "W /new 0+1",
            "W /new 2+1",
            "W /new 3+1",
            "W /new 4+1",
            "W /new 5+1",
            "W /new 6+1",
            "W /new 7+1",
            "W /new 1+1",
            "W /new 10+1",
            "W /new 11+1",
            "W /new 0+1",
        ],
    );
    assert_eq!(converted.counts.append_assumed, 0);
}

/// Pitfall 8.
#[test]
fn the_size_of_a_file_that_was_there_is_learnt_or_assumed() {
    for (lines, page, assumed) in [
        ("", 0, 1),
        ("1 1.1 lseek(3, 0, SEEK_END) = 40960\n", 10, 0),
        ("1 1.1 fstat(3, {st_mode=S_IFREG|0644, st_size=40960, ...}) = 0\n", 10, 0),
        ("1 1.1 pread64(3, \"\"..., 8192, 36864) = 4096\n", 10, 0),
        ("1 1.1 pread64(3, \"\"..., 4096, 36864) = 4096\n", 0, 1),
        ("1 1.1 openat(AT_FDCWD, \"/old\", O_RDWR|O_TRUNC) = 4\n", 0, 0),
    ] {
        let converted = convert(&format!(
            "1 1.0 openat(AT_FDCWD, \"/old\", O_RDWR|O_CREAT|O_APPEND, 0644) = 3\n{lines}\
             1 1.2 write(3, \"\"..., 4096) = 4096\n"
        ));
        assert_eq!(converted.requests.last().unwrap(), &format!("W /old {page}+1"), "{lines}");
        assert_eq!(converted.counts.append_assumed, assumed, "{lines}");
    }
}

/// Pitfall 9.
#[test]
fn what_was_moved_counts_and_not_what_was_asked_for() {
    let converted = check(
        r#"1 1.0 openat(AT_FDCWD, "/a", O_RDWR) = 3
        1 1.1 read(3, ""..., 65536) = 8192
        1 1.2 read(3, "", 65536) = 0
        1 1.3 write(3, ""..., 8192) = 4096
        1 1.4 read(3, 0x7f, 4096) = ? ERESTARTSYS (To be restarted if SA_RESTART is set)
        1 1.5 --- SIGALRM {si_signo=SIGALRM} ---
        1 1.6 read(3, 0x7f, 4096) = -1 EINTR (Interrupted system call)
        1 1.7 clone(child_stack=NULL, flags=SIGCHLD) = ? ERESTARTNOINTR (To be restarted)
        1 1.8 clone(child_stack=NULL, flags=SIGCHLD) = 2
        2 1.9 write(3, ""..., 4096) = 4096"#,
        &["R /a 0+2", "W /a 2+1", "W /a 3+1"],
    );
    let counts = converted.counts;
    assert_eq!((counts.short_reads, counts.end_of_file), (1, 1));
    assert_eq!((counts.no_result, counts.failed_calls), (1, 1));
}

/// Pitfall 10.
#[test]
fn a_file_is_not_its_name() {
    let lines = r#"1 1.00 openat(AT_FDCWD, "/d/tmp1", O_WRONLY|O_CREAT, 0644) = 3
        1 1.01 write(3, ""..., 4096) = 4096
        1 1.02 rename("/d/tmp1", "/d/final") = 0
        1 1.03 write(3, ""..., 4096) = 4096
        1 1.04 openat(AT_FDCWD, "/d/final", O_RDONLY) = 4
        1 1.05 read(4, ""..., 4096) = 4096
        1 1.06 link("/d/final", "/d/second") = 0
        1 1.07 unlink("/d/final") = 0
        1 1.08 openat(AT_FDCWD, "/d/second", O_RDONLY) = 5
        1 1.09 read(5, ""..., 4096) = 4096
        1 1.10 openat(AT_FDCWD, "/d/journal", O_WRONLY|O_CREAT|O_EXCL, 0644) = 6
        1 1.11 write(6, ""..., 4096) = 4096
        1 1.12 unlinkat(AT_FDCWD, "/d/journal", 0) = 0
        1 1.13 openat(AT_FDCWD, "/d/journal", O_WRONLY|O_CREAT, 0644) = 7
        1 1.14 write(7, ""..., 4096) = 4096
        1 1.15 write(6, ""..., 4096) = 4096"#;
    let converted = convert(lines);
    let files = ["/d/second data", "/d/journal data", "/d/journal data"];
    assert_eq!(converted.files, files);
    let first = ["W /d/second 0+1", "W /d/second 1+1", "R /d/second 0+1", "R /d/second 0+1"];
    assert_eq!(converted.requests[..4], first);
    assert_eq!(
        converted.requests[4..],
        ["W /d/journal 0+1", "W /d/journal 0+1", "W /d/journal 1+1"]
    );
    let by_path = CaptureOptions { identity: Identity::Path, ..CaptureOptions::default() };
    let converted = convert_with(lines, &by_path).unwrap();
    let files = ["/d/tmp1 data", "/d/final data", "/d/second data", "/d/journal data"];
    assert_eq!(converted.files, files);
}

#[test]
fn a_file_goes_by_a_name_that_it_still_has() {
    let of = |calls: &str| {
        let lines = format!(
            r#"1 1.0 openat(AT_FDCWD, "/d/a", O_RDWR) = 3
            1 1.1 write(3, ""..., 4096) = 4096
            1 1.2 link("/d/a", "/d/b") = 0
            1 1.3 link("/d/a", "/d/c") = 0
            {calls}"#
        );
        convert(&lines).files[0].clone()
    };
    assert_eq!(of(""), "/d/a data");
    assert_eq!(of(r#"1 1.4 unlink("/d/b") = 0"#), "/d/a data");
    assert_eq!(of(r#"1 1.4 unlink("/d/a") = 0"#), "/d/b data");
    let all = r#"1 1.4 unlink("/d/a") = 0
            1 1.5 unlink("/d/b") = 0
            1 1.6 unlink("/d/c") = 0"#;
    assert_eq!(of(all), "/d/c data", "the last name that it had");
    let replaced = r#"1 1.4 openat(AT_FDCWD, "/d/x", O_RDWR) = 4
            1 1.5 rename("/d/x", "/d/a") = 0"#;
    assert_eq!(of(replaced), "/d/b data");
    let moved = r#"1 1.4 rename("/d", "/e") = 0
            1 1.5 unlink("/e/a") = 0
            1 1.6 unlink("/e/c") = 0"#;
    assert_eq!(of(moved), "/e/b data");
}

/// Pitfall 10.
#[test]
fn names_are_exchanged_replaced_and_moved_with_their_folders() {
    let converted = convert(
        r#"1 1.00 openat(AT_FDCWD, "/d/a", O_RDWR) = 3
        1 1.01 openat(AT_FDCWD, "/d/b", O_RDWR) = 4
        1 1.02 pread64(3, ""..., 4096, 0) = 4096
        1 1.03 pread64(4, ""..., 8192, 0) = 8192
        1 1.04 renameat2(AT_FDCWD, "/d/a", AT_FDCWD, "/d/b", RENAME_EXCHANGE) = 0
        1 1.05 openat(AT_FDCWD, "/d/a", O_RDWR) = 5
        1 1.06 pread64(5, ""..., 8192, 0) = 8192
        1 1.07 rename("/d", "/e") = 0
        1 1.08 openat(AT_FDCWD, "/e/b", O_RDWR) = 6
        1 1.09 pread64(6, ""..., 4096, 0) = 4096
        1 1.10 rename("/e/a", "/e/b") = 0
        1 1.11 openat(AT_FDCWD, "/e/b", O_RDWR) = 7
        1 1.12 pread64(7, ""..., 8192, 0) = 8192
        1 1.13 openat(AT_FDCWD, "/e/a", O_RDWR) = 8
        1 1.14 pread64(8, ""..., 12288, 0) = 12288
        1 1.15 openat(AT_FDCWD, "/e", O_RDWR|O_TMPFILE, 0600) = 9
        1 1.16 pwrite64(9, ""..., 16384, 0) = 16384
        1 1.17 linkat(AT_FDCWD, "/proc/self/fd/9", AT_FDCWD, "/e/named", AT_SYMLINK_FOLLOW) = 0
        1 1.18 openat(AT_FDCWD, "/e/named", O_RDWR) = 10
        1 1.19 pread64(10, ""..., 16384, 0) = 16384"#,
    );
    assert_eq!(converted.files, ["/e/b data", "/e/b data", "/e/a data", "/e/named data"]);
    let pages = |file: usize| {
        let size = ["+1", "+2", "+3", "+4"][file];
        converted.requests.iter().filter(|request| request.ends_with(size)).count()
    };
    assert_eq!([0, 1, 2, 3].map(pages), [2, 3, 1, 2]);
}

/// Pitfall 10: with -y the paths are those of the moment, and odd names are escaped.
#[test]
fn annotated_paths_follow_renames_and_keep_odd_names() {
    let converted = check(
        r#"1 1.0 openat(AT_FDCWD</w>, "odd \"na>me\n<x> \303\274", O_RDWR|O_CREAT, 0644) = 3</w/odd \"na\76me\n\74x\76 \303\274>
        1 1.1 pwrite64(3</w/odd \"na\76me\n\74x\76 \303\274>, ""..., 4096, 0) = 4096
        1 1.2 rename("odd \"na>me\n<x> \303\274", "b, (c) = 3") = 0
        1 1.3 pwrite64(3</w/b, (c) = 3>, ""..., 4096, 0) = 4096
        1 1.4 unlink("b, (c) = 3") = 0
        1 1.5 pread64(3</w/b, (c) = 3>(deleted), ""..., 4096, 0) = 4096
        1 1.6 openat(AT_FDCWD</w>, "line\nend\\\377", O_RDONLY) = 4</w/line\nend\\\377>
        1 1.7 pread64(4</w/line\nend\\\377>, ""..., 4096, 0) = 4096"#,
        &[
            "W /w/b, (c) = 3 0+1",
            "W /w/b, (c) = 3 0+1",
            "R /w/b, (c) = 3 0+1",
            r"R /w/line\nend\\\xff 0+1",
        ],
    );
    assert_eq!((converted.counts.adopted, converted.counts.rebound), (0, 0));
}

/// Pitfall 11.
#[test]
fn relative_names_go_from_the_folder_of_their_process() {
    let relative = r#"1 1.0 open("a", O_RDONLY) = 3
        1 1.1 chdir("sub") = 0
        1 1.2 fork() = 2
        1 1.3 clone(child_stack=0x1, flags=CLONE_FS|CLONE_FILES) = 3
        3 1.4 chdir("../other") = 0
        1 1.5 open("b", O_RDONLY) = 4
        1 1.6 read(4, ""..., 4096) = 4096
        2 1.7 open("b", O_RDONLY) = 4
        2 1.8 read(4, ""..., 4096) = 4096
        2 1.9 open("/x/folder", O_RDONLY|O_DIRECTORY) = 5
        2 2.0 openat(5, "./c", O_RDONLY) = 6
        2 2.1 read(6, ""..., 4096) = 4096
        2 2.2 fchdir(5) = 0
        2 2.3 rename("c", "d") = 0
        2 2.4 open("/x/folder/d", O_RDONLY) = 7
        2 2.5 read(7, ""..., 4096) = 4096"#;
    let folder = Some(b"/home".to_vec());
    let options = CaptureOptions { folder, ..CaptureOptions::default() };
    let converted = convert_with(relative, &options).unwrap();
    let files = ["/home/other/b data", "/home/sub/b data", "/x/folder/d data"];
    assert_eq!(converted.files, files);
    assert_eq!(convert(relative).files, ["other/b data", "sub/b data", "/x/folder/d data"]);
}

/// Pitfall 11: -y tells the folder, and through what links a file was reached.
#[test]
fn annotations_tell_folders_and_links() {
    check(
        r#"1 1.0 openat(AT_FDCWD</pg>, "pg_wal/1", O_RDWR|O_CREAT, 0600) = 3</wal/1>
        1 1.1 pwrite64(3</wal/1>, ""..., 8192, 0) = 8192
        1 1.2 rename("pg_wal/1", "pg_wal/2") = 0
        1 1.3 openat(AT_FDCWD</pg>, "pg_wal/2", O_RDWR) = 4</wal/2>
        1 1.4 pwrite64(4</wal/2>, ""..., 8192, 0) = 8192"#,
        &["W /wal/2 0+2", "W /wal/2 0+2"],
    );
}

/// Pitfall 12.
#[test]
fn relations_of_postgresql_are_joined() {
    let page_size = PageSize::new(8192).unwrap();
    let options = CaptureOptions { page_size, ..CaptureOptions::default() };
    let converted = convert_with(
        r#"1 1.00 openat(AT_FDCWD, "/pg/base/5/16399", O_RDWR) = 3
        1 1.01 openat(AT_FDCWD, "/pg/base/5/16399.1", O_RDWR) = 4
        1 1.02 openat(AT_FDCWD, "/pg/base/5/16399_fsm", O_RDWR) = 5
        1 1.03 openat(AT_FDCWD, "/pg/base/5/16399_vm", O_RDWR) = 6
        1 1.04 openat(AT_FDCWD, "/pg/pg_wal/000000010000000000000001", O_RDWR) = 7
        1 1.05 openat(AT_FDCWD, "/pg/base/pgsql_tmp/pgsql_tmp7.0", O_RDWR) = 8
        1 1.06 openat(AT_FDCWD, "/pg/base/5/pg_internal.init", O_RDONLY) = 9
        1 1.10 pread64(5, ""..., 8192, 16384) = 8192
        1 1.11 pread64(3, ""..., 8192, 8192) = 8192
        1 1.12 pwrite64(4, ""..., 8192, 24576) = 8192
        1 1.13 pread64(6, ""..., 8192, 0) = 8192
        1 1.14 pwrite64(7, ""..., 16384, 8192) = 16384
        1 1.15 read(8, ""..., 8192) = 100
        1 1.16 read(9, ""..., 4096) = 4096
        1 1.17 fadvise64(3, 0, 8192, POSIX_FADV_WILLNEED) = 0"#,
        &options,
    )
    .unwrap();
    let log = "W /pg/pg_wal/000000010000000000000001 1+2 l";
    assert_eq!(
        converted.requests,
        [
            // The free space map begins behind the 131,076 pages of the main fork.
            "R /pg/base/5/16399 131078+1",
            "R /pg/base/5/16399 1+1",
            "W /pg/base/5/16399 131075+1",
            "R /pg/base/5/16399 131079+1",
            log,
            "R /pg/base/pgsql_tmp/pgsql_tmp7.0 0+1 tp",
            "R /pg/base/5/pg_internal.init 0+1 xp",
        ]
    );
    assert_eq!(converted.counts.advises, 1);
    assert_eq!(converted.stats["classes"]["data"]["requests"], 4);
}

/// Pitfall 12.
#[test]
fn a_relation_that_is_made_anew_is_another() {
    let converted = convert(
        r#"1 1.0 open("/pg/base/5/7", O_RDWR|O_CREAT|O_EXCL, 0600) = 3
        1 1.1 pwrite64(3, ""..., 4096, 0) = 4096
        1 1.2 unlink("/pg/base/5/7") = 0
        1 1.3 open("/pg/base/5/7", O_RDWR|O_CREAT|O_EXCL, 0600) = 4
        1 1.4 pwrite64(4, ""..., 4096, 0) = 4096
        1 1.5 open("/pg/base/5/7_fsm", O_RDWR|O_CREAT|O_EXCL, 0600) = 5
        1 1.6 pwrite64(5, ""..., 4096, 0) = 4096"#,
    );
    assert_eq!(converted.files.len(), 2);
    assert_eq!(converted.requests[2], "W /pg/base/5/7 1+1");
}

/// Pitfall 13.
#[test]
fn what_leaves_no_line_is_counted() {
    let lines = r#"1 1.0 openat(AT_FDCWD, "/a", O_RDWR|O_CREAT|O_EXCL, 0600) = 3
        1 1.1 pwrite64(3, ""..., 40960, 0) = 40960
        1 1.2 mmap(NULL, 16384, PROT_READ, MAP_PRIVATE, 3, 0x1000) = 0x7f0000001000
        1 1.3 mmap(NULL, 409600, PROT_READ|PROT_WRITE, MAP_SHARED, 3, 0) = 0x7f0000002000
        1 1.4 mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f0000003000
        1 1.5 io_uring_setup(8, {flags=0, ...}) = 4
        1 1.6 io_submit(0x7f, 1, [{aio_data=0, aio_fildes=3}]) = 1
        1 1.7 readahead(3, 0, 4096) = 0"#;
    let converted = check(lines, &["W /a 0+10"]);
    let counts = converted.counts;
    assert_eq!((counts.mmaps, counts.mmap_bytes), (2, 425_984));
    assert_eq!((counts.io_uring_calls, counts.libaio_calls, counts.advises), (1, 1, 1));
    let map = CaptureOptions { mmap: Mmap::Map, ..CaptureOptions::default() };
    let mapped = convert_with(lines, &map).unwrap().requests;
    assert_eq!(mapped, ["W /a 0+10", "R /a 1+4", "R /a 0+10", "W /a 0+10"]);
}

/// Pitfall 14.
#[test]
fn what_is_no_file_is_dropped_and_counted() {
    let converted = check(
        r#"1 1.00 openat(AT_FDCWD</w>, "/dev/zero", O_RDONLY) = 3</dev/zero>
        1 1.01 read(3</dev/zero>, ""..., 4096) = 4096
        1 1.02 openat(AT_FDCWD, "/proc/self/maps", O_RDONLY) = 4
        1 1.03 read(4, ""..., 4096) = 4096
        1 1.04 read(5<pipe:[77]>, ""..., 4096) = 4096
        1 1.05 write(6<socket:[78]>, ""..., 4096) = 4096
        1 1.06 write(7<TCP:[127.0.0.1:5432->127.0.0.1:40000]>, ""..., 4096) = 4096
        1 1.07 read(8<anon_inode:[eventfd]>, ""..., 8) = 8
        1 1.08 write(9</memfd:x>(deleted), ""..., 4096) = 4096
        1 1.09 write(1</dev/null<char 1:3>>, ""..., 4096) = 4096
        1 1.10 memfd_create("x", 0) = 10
        1 1.11 write(10, ""..., 4096) = 4096
        1 1.12 write(11<UNIX-STREAM:[1->2,"/run/x>"]>, ""..., 4096) = 4096
        1 1.13 write(99, ""..., 4096) = 4096
        1 1.14 openat(AT_FDCWD</w>, "/devices", O_RDONLY) = 12</devices>
        1 1.15 read(12</devices>, ""..., 4096) = 4096"#,
        &["R /devices 0+1"],
    );
    assert_eq!((converted.counts.not_a_file, converted.counts.unknown_descriptor), (10, 1));
}

/// Pitfalls 15 and 16.
#[test]
fn parts_of_pages_are_flagged_and_unaligned_blocks_touch_two_pages() {
    check(
        r#"1 1.0 openat(AT_FDCWD, "/a", O_RDWR) = 3
        1 1.1 pread64(3, ""..., 4096, 100) = 4096
        1 1.2 pwrite64(3, ""..., 10, 0) = 10
        1 1.3 pwrite64(3, ""..., 10, 10) = 10
        1 1.4 pread64(3, ""..., 8192, 4096) = 8192"#,
        &["R /a 0+2 p", "W /a 0+1 p", "W /a 0+1 p", "R /a 1+2"],
    );
}

/// Pitfall 16.
#[test]
fn the_page_size_is_the_recordings_own() {
    let page_size = PageSize::new(16_384).unwrap();
    let options = CaptureOptions { page_size, ..CaptureOptions::default() };
    let lines = "1 1.0 open(\"/a\", O_RDWR) = 3\n1 1.1 pread64(3, \"\"..., 16384, 32768) = 16384\n";
    let converted = convert_with(lines, &options).unwrap();
    assert_eq!(converted.requests, ["R /a 2+1"]);
    assert_eq!(converted.stats["page_size"], 16_384);
}

/// Pitfall 17: `--seccomp-bpf` shows only the calls asked for, whose effects suffice.
#[test]
fn calls_that_are_not_recorded_are_not_needed() {
    check(
        r#"1 1.0 execve("/bin/x", ["x"], 0x7f /* 3 vars */) = 0
        1 1.1 openat(AT_FDCWD, "/a", O_RDONLY) = 5
        1 1.2 pread64(5, ""..., 4096, 0) = 4096
        1 1.3 +++ exited with 0 +++"#,
        &["R /a 0+1"],
    );
}

/// Pitfall 18.
#[test]
fn a_table_has_the_pages_that_were_touched_and_not_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("x.csv");
    let lines = "1 1.0 open(\"/lib.so\", O_RDONLY) = 3\n1 1.1 lseek(3, 0, SEEK_END) = 146800640\n\
        1 1.2 pread64(3, \"\"..., 832, 0) = 832\n1 1.3 pread64(3, \"\"..., 64, 8192) = 64\n";
    let options = CaptureOptions::default();
    convert_text(Source::Strace, "x", lines, &output, &options).unwrap();
    let table = fs::read_to_string(folder.path().join("x.files.csv")).unwrap();
    assert_eq!(table.lines().nth(1).unwrap(), "0,0,3,other,2,0,\"/lib.so\"");
}

/// Pitfall 19: the recording of a program that was ended in the middle is as good as it goes.
#[test]
fn a_killed_program_leaves_a_recording() {
    let converted = check(
        r#"1 1.0 openat(AT_FDCWD, "/a", O_RDONLY) = 3
        1 1.1 read(3, ""..., 4096) = 4096
        1 1.2 read(3,  <unfinished ...>
        1 1.3 --- SIGTERM {si_signo=SIGTERM, si_code=SI_USER} ---
        1 1.4 +++ killed by SIGTERM +++"#,
        &["R /a 0+1"],
    );
    assert_eq!(converted.counts.never_resumed, 1);
}

/// Pitfall 20.
#[test]
fn requests_are_sorted_by_their_entry() {
    let converted = check(
        r#"1 5.000000 openat(AT_FDCWD, "/a", O_RDONLY) = 3
        2 5.000000 openat(AT_FDCWD, "/b", O_RDONLY) = 3
        4 5.000000 read(0<pipe:[1]>,  <unfinished ...>
        1 5.000001 read(3,  <unfinished ...>
        2 5.000002 read(3, ""..., 4096) = 4096
        2 5.000003 read(3, ""..., 4096) = 4096
        1 5.000004 <... read resumed>""..., 4096) = 4096
        2 5.000005 read(3, ""..., 4096) = 4096"#,
        &["R /a 0+1", "R /b 0+1", "R /b 1+1", "R /b 2+1"],
    );
    assert_eq!(converted.times_us, ["0", "1", "2", "4"]);
    assert_eq!(converted.counts.out_of_order, 0);
}

#[test]
fn bytes_go_from_file_to_file() {
    check(
        r#"1 1.0 open("/a", O_RDONLY) = 3
        1 1.1 open("/b", O_RDWR|O_CREAT|O_EXCL, 0600) = 4
        1 1.2 copy_file_range(3, [8192], 4, NULL, 4096, 0) = 4096
        1 1.3 copy_file_range(3, NULL, 4, [40960], 4096, 0) = 4096
        1 1.4 copy_file_range(3, NULL, 4, NULL, 9223372035781033984, 0) = 4096
        1 1.5 sendfile(4, 3, [0] => [4096], 4096) = 4096
        1 1.6 sendfile(4, 3, NULL, 4096) = 4096
        1 1.7 sendfile(9<socket:[7]>, 3, NULL, 4096) = 4096
        1 1.8 splice(3, NULL, 8<pipe:[9]>, NULL, 4096, SPLICE_F_MOVE) = 4096"#,
        &[
            "R /a 2+1",
            "W /b 0+1",
            "R /a 0+1",
            "W /b 10+1",
            "R /a 1+1",
            "W /b 1+1",
            "R /a 0+1",
            "W /b 2+1",
            "R /a 2+1",
            "W /b 3+1",
            "R /a 3+1",
            "R /a 4+1",
        ],
    );
}

#[test]
fn one_process_needs_no_numbers() {
    check(
        "1.0 open(\"/a\", O_RDONLY) = 3\n1.1 read(3, \"\"..., 4096) = 4096 <0.000021>\n",
        &["R /a 0+1"],
    );
}

#[test]
fn impossible_requests_are_not_understood() {
    let message = error(
        "1 1.0 open(\"/a\", O_RDONLY) = 3\n1 1.1 pread64(3, \"\", 9, 18446744073709551610) = 9\n",
    );
    assert!(message.contains("line 2: a number is too large"), "{message}");
    let message = error(
        "1 1.0 open(\"/a\", O_RDONLY) = 3\n1 1.1 pread64(3, \"\", 9, 9223372036854775807) = 9\n",
    );
    assert!(message.contains("line 2: the request is beyond 2^63 bytes"), "{message}");
    let message = error(
        "1 1.0 open(\"/a\", O_RDONLY) = 3\n1 1.1 pread64(3, \"\", 9, 0) = 9223372036854775808\n",
    );
    assert!(message.contains("longer than 2^47 bytes"), "{message}");
    let message = error("1 1.0 open(\"/a\", O_RDONLY) = 3\n");
    assert!(message.contains("no request to a file that is wanted"), "{message}");
}

#[test]
fn processes_that_were_there_before_have_the_names_and_folders_of_their_lines() {
    let converted = check(
        r#"7 1.0 openat(AT_FDCWD, "x.db", O_RDONLY) = 3
        7 1.1 pread64(3, ""..., 4096, 0) = 4096
        7 1.2 +++ exited with 0 +++
        9 1.3 pread64(3</d/y.db>, ""..., 4096, 0) = 4096
        9 1.4 fork() = 7
        7 1.5 pread64(3, ""..., 4096, 4096) = 4096
        8 1.6 pread64(3</d/y.db>, ""..., 4096, 0) = 4096
        # task 7 "my \"app" "/d"
        # task 9 "server"
        "#,
        &["R /d/x.db 0+1", "R /d/y.db 0+1", "R /d/y.db 1+1", "R /d/y.db 0+1"],
    );
    let processes = &converted.stats["processes"];
    let requests = |name: &str| processes[name]["requests"].as_u64();
    assert_eq!(
        ["my \"app", "server", "unknown"].map(requests),
        [Some(1), Some(2), Some(1)],
        "{processes}"
    );
    let malformed = convert_with("7 1.0 close(3) = 0\n# task 7 app\n", &CaptureOptions::default());
    let error = malformed.unwrap_err().to_string();
    assert!(error.contains("quoted") && error.contains("# task 7 app"), "{error}");
}
