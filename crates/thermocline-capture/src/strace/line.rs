//! A line of strace's output, taken apart.
//!
//! `[PID] TIME NAME(ARGUMENTS) = RESULT`, or its first half, which ends in ` <unfinished ...>`, or
//! its second, which begins with `<... NAME resumed>`. With `-y` a descriptor is followed by
//! `<PATH>`, in which `<` and `>` are escaped, and by `(deleted)` if the file has no name any more.

use thermocline_trace::{Reason, text};

/// End of a first half: exactly one blank belongs to it, others to the arguments.
const UNFINISHED: &[u8] = b" <unfinished ...>";

/// End of the last line of a process from which strace detaches.
const DETACHED: &[u8] = b" <detached ...>";

/// Meaning of a process's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event<'a> {
    /// A whole call.
    Call(&'a [u8]),
    /// The first half of a call.
    Unfinished(&'a [u8]),
    /// The second half of the call of this name.
    Resumed(&'a [u8], &'a [u8]),
    /// The process has ended.
    Exited,
    /// The process gives its number to this thread, which starts a program.
    Superseded(u32),
    /// A signal.
    Signal,
}

/// A line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// Process id; 0 if the recording is of one process and has no ids.
    pub(super) pid: u32,
    /// Time, as `-ttt` writes it, in nanoseconds.
    pub(super) at_ns: u64,
    pub(super) event: Event<'a>,
}

impl<'a> Line<'a> {
    /// Takes a line apart.
    #[inline]
    pub(super) fn parse(line: &'a [u8]) -> Result<Self, Reason> {
        let (first, rest) = word(line);
        let (pid, time, rest) = if first.contains(&b'.') {
            (0, first, rest)
        } else if first.starts_with(b"[pid") || first.starts_with(b"strace:") {
            return Err("this is strace's standard error: record with -o FILE".into());
        } else {
            let pid = text::integer(first, "process id")?;
            let pid = u32::try_from(pid).map_err(|_| "the process id is too large")?;
            let (time, rest) = word(rest);
            (pid, time, rest)
        };
        if !time.contains(&b'.') || time.contains(&b':') {
            return Err("the time is not seconds since 1970: record with -ttt".into());
        }
        let at_ns = text::time(time, "time", 9)?;
        Ok(Self { pid, at_ns, event: Event::parse(rest)? })
    }
}

impl<'a> Event<'a> {
    fn parse(body: &'a [u8]) -> Result<Self, Reason> {
        match body {
            [b'<', b'.', b'.', b'.', b' ', rest @ ..] => {
                let Some(end) = memchr::memmem::find(rest, b" resumed>") else {
                    return Err("the second half of a call lacks `resumed>`".into());
                };
                Ok(Self::Resumed(&rest[..end], &rest[end + b" resumed>".len()..]))
            }
            [b'+', b'+', b'+', b' ', rest @ ..] => Self::end(rest),
            [b'-', b'-', b'-', b' ', rest @ ..] if rest.ends_with(b" ---") => Ok(Self::Signal),
            [first, ..] if first.is_ascii_lowercase() || *first == b'_' => {
                if body.last() == Some(&b'>') {
                    for end in [UNFINISHED, DETACHED] {
                        if let Some(half) = body.strip_suffix(end) {
                            return Ok(Self::Unfinished(half));
                        }
                    }
                }
                Ok(Self::Call(body))
            }
            _ => Err("it is neither a call nor the end of a process".into()),
        }
    }

    fn end(rest: &'a [u8]) -> Result<Self, Reason> {
        if let Some(rest) = rest.strip_prefix(b"superseded by execve in pid ") {
            let digits = rest.strip_suffix(b" +++").unwrap_or(rest);
            let pid = text::integer(digits, "process id")?;
            let pid = u32::try_from(pid).map_err(|_| "the process id is too large")?;
            return Ok(Self::Superseded(pid));
        }
        let is_end = rest.starts_with(b"exited with ") || rest.starts_with(b"killed by ");
        if is_end && rest.ends_with(b" +++") {
            Ok(Self::Exited)
        } else {
            Err("an end of a process that is not known".into())
        }
    }
}

/// Return the text up to a blank, and what follows the blanks.
fn word(text: &[u8]) -> (&[u8], &[u8]) {
    let end = memchr::memchr(b' ', text).unwrap_or(text.len());
    let rest = &text[end..];
    let blanks = rest.iter().take_while(|&&byte| byte == b' ').count();
    (&text[..end], &rest[blanks..])
}

/// No call that matters has more arguments than this.
const ARGUMENTS_MAX: usize = 8;

/// A call, taken apart as far as it is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'a> {
    pub(super) name: &'a [u8],
    /// All arguments, as they are written.
    pub(super) text: &'a [u8],
    arguments: [&'a [u8]; ARGUMENTS_MAX],
    pub(super) result: Outcome<'a>,
}

/// Outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome<'a> {
    /// A value, and after a descriptor its path.
    Value(u64, Option<Annotation<'a>>),
    /// An error.
    Failed,
    /// None, or a signal: the call had no effect.
    Nothing,
    /// Not known yet.
    Pending,
}

impl<'a> Call<'a> {
    /// Takes a call apart. A first half has the arguments that it has, and no result.
    pub(super) fn parse(body: &'a [u8], is_half: bool) -> Result<Self, Reason> {
        let Some(open) = memchr::memchr(b'(', body) else {
            return Err("the call has no arguments".into());
        };
        let name = &body[..open];
        if !name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_') {
            return Err("the call's name is not one".into());
        }
        let rest = &body[open + 1..];
        let mut arguments: [&[u8]; ARGUMENTS_MAX] = [b""; ARGUMENTS_MAX];
        let end = split(rest, &mut arguments);
        let (text, result) = match end {
            Some(end) => (&rest[..end], Outcome::parse(&rest[end + 1..])?),
            None if is_half => (rest, Outcome::Pending),
            None => return Err("the call's arguments do not end".into()),
        };
        if is_half && result != Outcome::Pending {
            return Err("an unfinished call has a result".into());
        }
        Ok(Self { name, text, arguments, result })
    }

    /// Return an argument, from 0; empty if it is not there.
    #[inline]
    pub(super) const fn argument(&self, index: usize) -> &'a [u8] {
        self.arguments[index]
    }

    /// Return an argument that is a number.
    #[inline]
    pub(super) fn number(&self, index: usize) -> Result<u64, Reason> {
        number(self.arguments[index])
    }

    /// Return an argument that is a file descriptor.
    #[inline]
    pub(super) fn descriptor(&self, index: usize) -> Result<Descriptor<'a>, Reason> {
        Descriptor::parse(self.arguments[index])
    }

    /// Return `true` if an argument has this flag.
    pub(super) fn has_flag(&self, index: usize, flag: &[u8]) -> bool {
        has_flag(self.arguments[index], flag)
    }
}

impl<'a> Outcome<'a> {
    fn parse(rest: &'a [u8]) -> Result<Self, Reason> {
        let rest = rest.trim_ascii_start();
        let Some(rest) = rest.strip_prefix(b"=") else {
            return if rest.is_empty() {
                Ok(Self::Pending)
            } else {
                Err("there is no `=` behind the call".into())
            };
        };
        let rest = rest.trim_ascii_start();
        match rest.first() {
            Some(b'?') => Ok(Self::Nothing),
            Some(b'-') => Ok(Self::Failed),
            Some(b'0'..=b'9') => {
                let end = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
                let value = number(&rest[..end])?;
                Ok(Self::Value(value, Annotation::parse(&rest[end..])))
            }
            _ => Err("the call's result is not one".into()),
        }
    }
}

/// The path behind a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Annotation<'a> {
    /// Path as it is written, escaped.
    pub(super) path: &'a [u8],
    /// `true` if the file has no name any more.
    pub(super) is_deleted: bool,
}

impl<'a> Annotation<'a> {
    /// Parse the text that follows the number of a descriptor.
    #[inline]
    fn parse(text: &'a [u8]) -> Option<Self> {
        let length = annotation_bytes(text)?;
        let path = &text[1..length - 1];
        Some(Self { path, is_deleted: text[length..].starts_with(b"(deleted)") })
    }
}

/// Return the length of an annotation with its brackets.
#[inline]
fn annotation_bytes(text: &[u8]) -> Option<usize> {
    match text {
        [b'<', b'/', ..] => {
            let end = memchr::memchr2(b'>', b'<', &text[1..])? + 1;
            if text[end] == b'>' {
                return Some(end + 1);
            }
            // `-yy` adds the device: `</dev/null<char 1:3>>`.
            memchr::memmem::find(&text[end..], b">>").map(|at| end + at + 2)
        }
        // `<socket:[7]>`, `<TCP:[1.2.3.4:5->6.7.8.9:10]>`, `<anon_inode:inotify>`.
        [b'<', next, ..] if *next != b'<' => {
            let end = memchr::memchr2(b'>', b'[', &text[1..])? + 1;
            if text[end] == b'>' {
                return Some(end + 1);
            }
            memchr::memmem::find(&text[end..], b"]>").map(|at| end + at + 2)
        }
        _ => None,
    }
}

/// A file descriptor as an argument.
#[derive(Clone, Copy, Debug)]
pub(super) struct Descriptor<'a> {
    /// Its number; `AT_FDCWD`, and -1, have none.
    pub(super) number: Option<u32>,
    pub(super) annotation: Option<Annotation<'a>>,
}

impl<'a> Descriptor<'a> {
    #[inline]
    fn parse(text: &'a [u8]) -> Result<Self, Reason> {
        let end = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if end == 0 {
            let rest = text.strip_prefix(b"AT_FDCWD").or_else(|| text.strip_prefix(b"-1"));
            let Some(rest) = rest else { return Err("an argument is not a descriptor".into()) };
            return Ok(Self { number: None, annotation: Annotation::parse(rest) });
        }
        let number = text::integer(&text[..end], "descriptor")?;
        let number = u32::try_from(number).map_err(|_| "the descriptor is too large")?;
        Ok(Self { number: Some(number), annotation: Annotation::parse(&text[end..]) })
    }
}

/// Return `true` if `flag` is one of those in `text`, which are parted by `|`.
pub(super) fn has_flag(text: &[u8], flag: &[u8]) -> bool {
    memchr::memmem::find_iter(text, flag).any(|at| {
        let is_free = |byte: Option<&u8>| {
            !byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        };
        is_free(at.checked_sub(1).and_then(|before| text.get(before)))
            && is_free(text.get(at + flag.len()))
    })
}

/// Return a number in decimal, octal (`0644`) or hexadecimal (`0x1000`), or the first of a list
/// (`[0] => [3000]`).
pub(super) fn number(text: &[u8]) -> Result<u64, Reason> {
    let text = match text {
        [b'[', rest @ ..] => {
            let end = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
            &rest[..end]
        }
        _ => text,
    };
    if let Some(digits) = text.strip_prefix(b"0x") {
        return radix(digits, 16);
    }
    if text.len() > 1 && text[0] == b'0' {
        return radix(&text[1..], 8);
    }
    text::integer(text, "argument")
}

fn radix(digits: &[u8], base: u32) -> Result<u64, Reason> {
    let text = std::str::from_utf8(digits).map_err(|_| "an argument is not a number")?;
    u64::from_str_radix(text, base).map_err(|_| "an argument is not a number".into())
}

/// Splits arguments at the commas between them; returns where the closing bracket is, if it is
/// there.
fn split<'a>(text: &'a [u8], arguments: &mut [&'a [u8]; ARGUMENTS_MAX]) -> Option<usize> {
    let (mut at, mut begin, mut count, mut depth) = (0, 0, 0, 0_u32);
    let mut take = |begin: usize, end: usize, count: &mut usize| {
        if *count < ARGUMENTS_MAX {
            arguments[*count] = text[begin..end].trim_ascii();
        }
        *count += 1;
    };
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => at = string_end(text, at)?,
            b'<' if at > 0 && (text[at - 1].is_ascii_digit() || text[at - 1] == b'D') => {
                // Not an annotation if it is a shift, or cut off.
                at += annotation_bytes(&text[at..]).map_or(0, |length| length - 1);
            }
            // A comment: `/* 12 vars */`.
            b'/' if text.get(at + 1) == Some(&b'*') => {
                at += memchr::memmem::find(&text[at..], b"*/")? + 1;
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' if depth == 0 => {
                take(begin, at, &mut count);
                return Some(at);
            }
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                take(begin, at, &mut count);
                begin = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    take(begin, text.len(), &mut count);
    None
}

/// Find the closing quote of the string that begins at `at`.
fn string_end(text: &[u8], at: usize) -> Option<usize> {
    let mut from = at + 1;
    loop {
        let found = from + memchr::memchr2(b'"', b'\\', text.get(from..)?)?;
        if text[found] == b'"' {
            return Some(found);
        }
        from = found + 2;
    }
}

/// Appends to `target` what an escaped text stands for.
pub(super) fn unescape(text: &[u8], target: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        target.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        let octal = rest.iter().take(3).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
        if octal > 0 {
            let value = rest[..octal]
                .iter()
                .fold(0_u32, |value, digit| value * 8 + u32::from(digit - b'0'));
            target.push((value & 0xff) as u8);
            rest = &rest[octal..];
            continue;
        }
        let Some((&letter, behind)) = rest.split_first() else { break };
        rest = behind;
        match letter {
            b'n' => target.push(b'\n'),
            b't' => target.push(b'\t'),
            b'r' => target.push(b'\r'),
            b'v' => target.push(0x0b),
            b'f' => target.push(0x0c),
            b'x' => {
                let digits = rest.get(..2).and_then(|digits| radix(digits, 16).ok());
                if let Some(value) = digits {
                    target.push((value & 0xff) as u8);
                    rest = &rest[2..];
                }
            }
            other => target.push(other),
        }
    }
    target.extend_from_slice(rest);
}

/// Return the content of a quoted argument, still escaped.
pub(super) fn quoted(argument: &[u8]) -> Result<&[u8], Reason> {
    let inner = argument.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    inner.ok_or_else(|| "a path is not quoted, or was cut by strace".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(body: &str) -> Call<'_> {
        Call::parse(body.as_bytes(), false).unwrap()
    }

    #[test]
    fn lines_begin_with_a_process_or_not() {
        let line = Line::parse(b"8550  1795365390.229312 read(3, \"\"..., 10) = 10").unwrap();
        assert_eq!((line.pid, line.at_ns), (8550, 1_795_365_390_229_312_000));
        assert_eq!(line.event, Event::Call(b"read(3, \"\"..., 10) = 10"));
        let line = Line::parse(b"1.5 close(3)        = 0").unwrap();
        assert_eq!((line.pid, line.at_ns), (0, 1_500_000_000));
        for (text, reason) in [
            ("[pid 7] 1.5 close(3) = 0", "-o FILE"),
            ("strace: Process 7 attached", "-o FILE"),
            ("7 12:13:14.5 close(3) = 0", "-ttt"),
            ("7 close(3) = 0", "-ttt"),
            ("99999999999 1.5 close(3) = 0", "too large"),
            ("7 1.5 hello", "no arguments"),
            ("7 1.5 +++ what +++", "not known"),
            ("7 1.5 <... read", "resumed"),
            ("7 1.5 Hello", "neither"),
        ] {
            let parsed = Line::parse(text.as_bytes()).and_then(|line| {
                let Event::Call(body) = line.event else { return Ok(()) };
                Call::parse(body, false).map(drop)
            });
            let error = parsed.unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn halves_keep_the_blanks_that_are_theirs() {
        let event = |text: &'static str| Event::parse(text.as_bytes()).unwrap();
        assert_eq!(event("read(9</a>,  <unfinished ...>"), Event::Unfinished(b"read(9</a>, "));
        assert_eq!(event("close(9 <unfinished ...>"), Event::Unfinished(b"close(9"));
        assert_eq!(event("read(9,  <detached ...>"), Event::Unfinished(b"read(9, "));
        assert_eq!(
            event("<... read resumed>\"\"..., 8) = 8"),
            Event::Resumed(b"read", b"\"\"..., 8) = 8")
        );
        assert_eq!(event("+++ exited with 0 +++"), Event::Exited);
        assert_eq!(event("+++ killed by SIGKILL (core dumped) +++"), Event::Exited);
        assert_eq!(event("+++ superseded by execve in pid 12 +++"), Event::Superseded(12));
        assert_eq!(event("--- SIGCHLD {si_signo=SIGCHLD} ---"), Event::Signal);
    }

    #[test]
    fn arguments_are_split_whatever_they_hold() {
        let openat =
            call(r#"openat(AT_FDCWD</a, (b>, "x\", ) = 3", O_RDWR|O_CREAT, 0644) = 3</a, (b/x>"#);
        assert_eq!(openat.argument(1), br#""x\", ) = 3""#);
        assert!(openat.has_flag(2, b"O_CREAT") && !openat.has_flag(2, b"O_CRE"));
        assert_eq!(openat.number(3).unwrap(), 0o644);
        let Outcome::Value(3, Some(annotation)) = openat.result else { panic!("{openat:?}") };
        assert_eq!(annotation, Annotation { path: b"/a, (b/x", is_deleted: false });
        assert_eq!(openat.descriptor(0).unwrap().annotation.unwrap().path, b"/a, (b");
        let mmap = call(
            "mmap(NULL, 8192, PROT_READ, MAP_SHARED|21<<MAP_HUGE_SHIFT, 6</e>, 0x1000) = 0x7f55",
        );
        assert_eq!((mmap.number(1).unwrap(), mmap.number(5).unwrap()), (8192, 4096));
        let read = call("read(4</tmp/b>(deleted), \"\", 10) = 0");
        assert!(read.descriptor(0).unwrap().annotation.unwrap().is_deleted);
        let socket = call("sendto(5<TCP:[1.2.3.4:5->6.7.8.9:80]>, \"a\", 1) = 1");
        assert_eq!(socket.number(2).unwrap(), 1);
        let null = call("write(1</dev/null<char 1:3>>, \"\"..., 7) = 7");
        assert_eq!(null.number(2).unwrap(), 7);
        let exec = call("execve(\"/bin/sh\", [\"sh\", \"-c\"], 0x7ffd /* 35 vars, it's */) = 0");
        assert_eq!(exec.result, Outcome::Value(0, None));
        assert_eq!(call("pwritev2(3, [...], 2, 8192, 0) = 5").number(3).unwrap(), 8192);
        assert_eq!(call("sendfile(6, 3, [7] => [3000], 99) = 5").number(2).unwrap(), 7);
        assert_eq!(
            call("read(3, 0x7f, 9) = ? ERESTARTSYS (To be restarted)").result,
            Outcome::Nothing
        );
        assert_eq!(
            call("read(3, 0x7f, 9) = -1 EBADF (Bad file descriptor)").result,
            Outcome::Failed
        );
        assert_eq!(call("exit_group(0)   = ?").result, Outcome::Nothing);
        assert_eq!(
            call("fcntl(3, F_GETFL) = 0x8002 (flags O_RDWR)").result,
            Outcome::Value(0x8002, None)
        );
        assert_eq!(call("close(3) = 0 <0.000012>").result, Outcome::Value(0, None));
    }

    #[test]
    fn escapes_are_undone() {
        let undone = |text: &str| {
            let mut target = vec![];
            unescape(text.as_bytes(), &mut target);
            target
        };
        assert_eq!(
            undone(r#"odd \"na\76me\n\74x\76 \303\274.dat"#),
            "odd \"na>me\n<x> \u{fc}.dat".as_bytes()
        );
        assert_eq!(undone(r"\t\r\v\f\\\x41\0017"), b"\t\r\x0b\x0c\\A\x017");
        assert_eq!(undone("\\"), b"");
        assert_eq!(quoted(b"\"a\"").unwrap(), b"a");
        assert!(quoted(b"\"a\"...").is_err() && quoted(b"0x7f").is_err());
    }
}
