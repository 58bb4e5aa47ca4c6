//! Output of the guest: for each case a recorded machine, and lines for the host, which begin with
//! `@`.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

/// Bytes of a sector, by which the kernel counts.
const SECTORS_PER_PAGE: u64 = 8;

/// Results of the guest.
#[derive(Debug, Default)]
pub(crate) struct Console {
    pub(crate) kernel: String,
    pub(crate) fio: String,
    pub(crate) cases: Vec<Recorded>,
    /// `true` if the guest came to its end.
    pub(crate) is_finished: bool,
}

/// Records of one case.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) name: String,
    /// The machine after the replay, as thermocline-advise reads it.
    pub(crate) machine: String,
    /// Time of the replay by the guest's clock.
    pub(crate) replay: Duration,
    /// Time from the creation of the cache to the end of the replay.
    pub(crate) age: Duration,
    /// Reads and writes that fio issued.
    pub(crate) issued: [u64; 2],
    pub(crate) slow: Traffic,
    pub(crate) fast: Traffic,
    /// Other lines: their first word and the rest.
    pub(crate) notes: Vec<(String, String)>,
}

/// Pages that a device read and wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub(crate) read: u64,
    pub(crate) written: u64,
}

impl Console {
    /// Reads the console.
    ///
    /// # Errors
    /// If the guest says that it failed, or a line for the host is not understood.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut console = Self::default();
        let mut open: Option<Open> = None;
        for line in text.lines().map(str::trim_end) {
            // The firmware's last line has no end.
            let line = line.find("@kernel ").map_or(line, |place| &line[place..]);
            let Some(said) = line.strip_prefix('@') else {
                if let Some(open) = open.as_mut().filter(|_| !is_message(line)) {
                    open.case.machine.push_str(line);
                    open.case.machine.push('\n');
                }
                continue;
            };
            let (word, rest) = said.split_once(' ').unwrap_or((said, ""));
            match (word, &mut open) {
                ("fail", _) => bail!("the guest failed: {rest}\n{}", last_lines(text)),
                ("kernel", _) => rest.clone_into(&mut console.kernel),
                ("fio", _) => rest.clone_into(&mut console.fio),
                ("finished", _) => console.is_finished = true,
                ("case", open) => *open = Some(Open::new(rest)),
                ("end", open) => console.cases.extend(open.take().map(|open| open.case)),
                (_, Some(open)) => {
                    open.note(word, rest).with_context(|| format!("the guest said {line:?}"))?;
                }
                (_, None) => bail!("the guest said {line:?}, which belongs to no case"),
            }
        }
        Ok(console)
    }
}

/// A case whose end has not come.
#[derive(Debug)]
struct Open {
    case: Recorded,
    made: Duration,
    begin: Duration,
    before: Vec<(String, Traffic)>,
}

impl Open {
    fn new(name: &str) -> Self {
        let case = Recorded { name: name.to_owned(), ..Recorded::default() };
        Self { case, made: Duration::ZERO, begin: Duration::ZERO, before: vec![] }
    }

    fn note(&mut self, word: &str, rest: &str) -> Result<()> {
        match word {
            "made" => self.made = uptime(rest)?,
            "begin" => self.begin = uptime(rest)?,
            "over" => {
                let (over, early) = (uptime(rest)?, "a replay is over after it begins");
                self.case.replay = over.checked_sub(self.begin).context(early)?;
                self.case.age = over.checked_sub(self.made).context(early)?;
            }
            "issued" => {
                let (reads, writes) = rest.split_once(' ').context("two numbers are missing")?;
                self.case.issued = [reads.parse()?, writes.parse()?];
            }
            "traffic" => {
                let (device, fields) = rest.split_once(' ').context("the fields are missing")?;
                let now = Traffic::parse(fields)?;
                let before = self.before.iter().find(|(known, _)| known == device);
                let Some(&(_, before)) = before else {
                    self.before.push((device.to_owned(), now));
                    return Ok(());
                };
                let since =
                    Traffic { read: now.read - before.read, written: now.written - before.written };
                match device {
                    "slow" => self.case.slow = since,
                    "fast" => self.case.fast = since,
                    _ => bail!("no such device"),
                }
            }
            _ => self.case.notes.push((word.to_owned(), rest.to_owned())),
        }
        Ok(())
    }
}

impl Traffic {
    /// Return the file `stat` of a block device: the third field is the sectors read, the seventh
    /// those written.
    fn parse(fields: &str) -> Result<Self> {
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        ensure!(fields.len() > 6, "a device has seven counts at least");
        let pages =
            |field: usize| -> Result<u64> { Ok(fields[field].parse::<u64>()? / SECTORS_PER_PAGE) };
        Ok(Self { read: pages(2)?, written: pages(6)? })
    }
}

/// Return the first word of `/proc/uptime`.
fn uptime(text: &str) -> Result<Duration> {
    Ok(Duration::try_from_secs_f64(text.parse()?)?)
}

/// Return `true` if a line is the kernel's own.
fn is_message(line: &str) -> bool {
    let time = line.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    time.is_some_and(|(time, _)| time.trim().parse::<f64>().is_ok())
}

/// Return the end of a text, for a message.
pub(crate) fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONSOLE: &str = "Booting from ROM..c@kernel 6.1.0\r
@fio fio-3.33\r
@case zipf:dm-cache\r
@traffic slow 1 0 80 0 0 0 0 0 0 0 0\r
@traffic fast 1 0 8 0 0 0 0 0 0 0 0\r
@made 9.25\r
@begin 10.50\r
@over 20.75\r
@issued 70 30\r
@traffic slow 9 0 160 0 4 0 32 0 0 0 0\r
@traffic fast 9 0 8 0 4 0 64 0 0 0 0\r
$ dmsetup status --noflush\r
[   20.123] device-mapper: a message\r
ssd: 0 131072 cache 8\r
[writeback] none\r
@rate 512.0k\r
@end\r
@finished\r
";

    #[test]
    fn a_case_is_a_machine_and_what_passed_its_devices() {
        let console = Console::parse(CONSOLE).expect("it is understood");
        assert_eq!((console.kernel.as_str(), console.fio.as_str()), ("6.1.0", "fio-3.33"));
        assert!(console.is_finished);
        let [case] = console.cases.as_slice() else { panic!("one case ended") };
        assert_eq!(case.name, "zipf:dm-cache");
        assert_eq!(
            case.machine,
            "$ dmsetup status --noflush\nssd: 0 131072 cache 8\n[writeback] none\n"
        );
        assert_eq!(
            (case.replay, case.age),
            (Duration::from_millis(10_250), Duration::from_millis(11_500))
        );
        assert_eq!(case.issued, [70, 30]);
        assert_eq!(case.slow, Traffic { read: 10, written: 4 });
        assert_eq!(case.fast, Traffic { read: 0, written: 8 });
        assert_eq!(case.notes, [("rate".to_owned(), "512.0k".to_owned())]);
    }

    #[test]
    fn a_case_that_did_not_end_is_left_out() {
        let cut = CONSOLE.split_once("@end").map_or(CONSOLE, |(begin, _)| begin);
        let console = Console::parse(cut).expect("it is understood");
        assert!(console.cases.is_empty() && !console.is_finished);
    }

    #[test]
    fn failures_and_nonsense_are_told() {
        for (text, told) in [
            ("@fail no module\n", "the guest failed: no module"),
            ("@begin 1\n", "belongs to no case"),
            ("@case a\n@over x\n", "the guest said \"@over x\""),
            ("@case a\n@traffic slow 1 2\n", "the guest said"),
        ] {
            let error = Console::parse(text).expect_err(text);
            assert!(format!("{error:#}").contains(told), "{error:#}");
        }
    }
}
