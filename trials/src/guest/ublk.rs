//! Guests in which `thermocline serve` makes a block device of the guest's own kernel, by ublk.
//!
//! The first guest has two processors: under each policy that serves, a file system on the device, and kills
//! of the server while fio writes; then a device that outlives an orderly stop, and flushes after a kill.
//! The second one has a processor whose clock counts instructions. It serves the same pages of RAM by ublk and
//! by NBD, and counts the instructions of a request by each.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::Options;
use super::boot::{self, Guest};
use super::image::Image;
use super::kernel::{self, Kernel};
use crate::torture::server;

const INIT: &str = include_str!("ublk.sh");
const MODULES: [&str; 3] = ["crc32c_generic", "ext4", "ublk_drv"];
/// Modules that the guest loads when it needs them.
const LATER_MODULES: [&str; 2] = [kernel::RAM_DISKS, "nbd"];
const PROGRAMS: [(&str, &str); 4] = [
    ("fio", "fio"),
    ("mkfs.ext4", "e2fsprogs"),
    ("nbd-client", "nbd-client"),
    ("busybox", "busybox-static"),
];
/// Processors and memory of the guest whose servers are killed.
const TWO_PROCESSORS: [&str; 6] = ["-m", "2048M", "-smp", "2", "-accel", "tcg"];
/// Kills of the server in each case with a policy.
const KILLS: usize = 2;
/// Loads of fio that are counted.
const LOADS: [(&str, &str); 4] = [
    ("read-4k-d1", "--rw=randread --bs=4k --iodepth=1"),
    ("read-4k-d32", "--rw=randread --bs=4k --iodepth=32"),
    ("write-4k-d1", "--rw=randwrite --bs=4k --iodepth=1"),
    ("write-4k-d32", "--rw=randwrite --bs=4k --iodepth=32"),
];

/// A server in a guest.
#[derive(Clone, Debug)]
struct Case {
    name: String,
    /// Function of the guest's script.
    what: &'static str,
    /// None if no server takes part.
    config: Option<String>,
}

/// Boots both guests.
///
/// # Errors
/// If something is missing, a guest says that it failed, or one does not end in time.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let given = options.kernel.as_deref();
    let given = given.with_context(|| format!("`--kernel`: {}", kernel::REMEDY))?;
    boot::check_qemu()?;
    let scratch = tempfile::Builder::new().prefix("guest-").tempdir()?;
    let kernel = Kernel::find(given, scratch.path())?;
    let program = server::program(root, options.program.as_ref())?;
    let deadline = Instant::now() + Duration::from_secs_f64(options.minutes * 60.0);
    let chosen = |cases: Vec<Case>| -> Vec<Case> {
        cases.into_iter().filter(|case| case.name.contains(&options.filter)).collect()
    };
    let kills = chosen(with_kills(&program, scratch.path())?);
    let counts = chosen(counts());
    ensure!(
        !kills.is_empty() || !counts.is_empty(),
        "`--case`: no case has `{}` in its name",
        options.filter
    );
    let boot = |name: &str, machine: &[&str], cases: &[Case]| -> Result<String> {
        let archive = scratch.path().join(format!("{name}.initramfs"));
        fs::write(&archive, image_of(&kernel, &program, cases)?)
            .context("cannot write the guest's files")?;
        let machine = machine.iter().map(|&word| word.to_owned()).collect();
        let console = scratch.path().join(name);
        let guest = Guest { kernel: &kernel, archive: &archive, console, machine, words: "" };
        let told = guest.run_to("@finished", deadline, |_| Ok(()));
        if let Some(folder) = &options.keep {
            fs::create_dir_all(folder)
                .with_context(|| format!("`--keep`: `{}`", folder.display()))?;
            fs::write(folder.join(format!("{name}.txt")), guest.text())?;
        }
        told
    };
    if !kills.is_empty() {
        let text = boot("kills", &TWO_PROCESSORS, &kills)?;
        eprint!("{}", judge(&text, &kills)?);
    }
    if !counts.is_empty() {
        let text = boot("counts", &boot::BY_INSTRUCTIONS, &counts)?;
        eprint!("{}", table(&text)?);
    }
    Ok(())
}

/// Lists the cases in which servers are killed or stopped: one for each policy that serves, with one shard
/// and two by turns.
fn with_kills(program: &Path, folder: &Path) -> Result<Vec<Case>> {
    let file = folder.join("cache.toml");
    let servable = |has_flash| {
        server::policies(program, &file, |name| {
            Ok(fs::write(&file, config(&Served { policy: name, has_flash, ..Served::DEFAULT }))?)
        })
    };
    let (with, without) = (servable(true)?, servable(false)?);
    let policies = with
        .iter()
        .map(|name| (name, true))
        .chain(without.iter().filter(|name| !with.contains(name)).map(|name| (name, false)));
    let case = |name: &str, what, served: &Served<'_>| Case {
        name: name.to_owned(),
        what,
        config: Some(config(served)),
    };
    let kept = Served { keeps: true, shards: 2, ..Served::DEFAULT };
    let mut cases = vec![
        case("keep_at_exit", "keep", &kept),
        case("flush-after-kill", "flush", &Served::DEFAULT),
    ];
    for ((policy, has_flash), shards) in policies.zip([1, 2].into_iter().cycle()) {
        let served = Served { policy, has_flash, shards, ..Served::DEFAULT };
        cases.push(case(&format!("{policy},{shards}"), "verify", &served));
    }
    Ok(cases)
}

/// Lists the cases whose instructions are counted: the same pages in RAM by each way, and the kernel's RAM
/// disk without a server.
fn counts() -> Vec<Case> {
    let in_ram = "[backing]\npath = \"disk.img\"\n[ram]\nsize = \"96MiB\"\n[limits]\n\
                  undurable = \"96MiB\"\n[policy]\nname = \"lru\"\n";
    let case = |name: &str, what, door: &str| {
        let config = (!door.is_empty()).then(|| format!("{in_ram}{door}"));
        Case { name: name.into(), what, config }
    };
    vec![
        case("count:ublk", "count_ublk", "[ublk]\nid = 0\n"),
        case("count:nbd", "count_nbd", "[nbd]\nsocket = \"nbd.sock\"\n"),
        case("count:ram-disk", "count_ram", ""),
    ]
}

/// A server that is killed or stopped.
struct Served<'a> {
    policy: &'a str,
    has_flash: bool,
    shards: u16,
    keeps: bool,
}

impl Served<'static> {
    const DEFAULT: Self = Self { policy: "lc", has_flash: true, shards: 1, keeps: false };
}

/// Return the configuration of a server that is killed or stopped.
fn config(served: &Served<'_>) -> String {
    let Served { policy, has_flash, shards, keeps } = served;
    let flash = if *has_flash { "[flash]\npath = \"flash.img\"\nsize = \"32MiB\"\n" } else { "" };
    format!(
        "shards = {shards}\n[backing]\npath = \"disk.img\"\n{flash}[ram]\nsize = \"8MiB\"\n\
         [policy]\nname = \"{policy}\"\n[ublk]\nid = 0\nkeep_at_exit = {keeps}\n"
    )
}

/// Return a guest's files.
fn image_of(kernel: &Kernel, program: &Path, cases: &[Case]) -> Result<Vec<u8>> {
    let mut image = Image::default();
    image.file("init", INIT.as_bytes());
    image.programs(&PROGRAMS)?;
    image.program(program, "thermocline")?;
    kernel.add_modules(&mut image, &MODULES)?;
    kernel.add_later(&mut image, &LATER_MODULES)?;
    let mut plan = String::new();
    for (number, Case { name, what, config }) in cases.iter().enumerate() {
        let file = config.as_ref().map_or(String::new(), |_| format!("{number}.toml"));
        writeln!(plan, "{name} {what} {file}")?;
        if let Some(config) = config {
            image.file(&format!("configs/{file}"), config.as_bytes());
        }
    }
    image.file("plan", plan.as_bytes());
    let loads: String = LOADS.iter().map(|(name, fio)| format!("{name} {fio}\n")).collect();
    image.file("loads", loads.as_bytes());
    Ok(image.finish())
}

/// Return the lines of a console that begin with a word for the host, without it.
fn said<'a>(text: &'a str, word: &str) -> Vec<Vec<&'a str>> {
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix('@'));
    let words = lines.map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    words.filter(|words| words.first() == Some(&word)).map(|words| words[1..].to_vec()).collect()
}

/// Checks that every case came to its end, and did what it is for. Returns a table.
fn judge(text: &str, cases: &[Case]) -> Result<String> {
    let mut table = String::from(
        "| case | kills, stops and failed flushes | s of the guest |\n| --- | --- | --- |\n",
    );
    let events: Vec<Vec<&str>> =
        ["kill", "stop", "flush"].iter().flat_map(|word| said(text, word)).collect();
    let ends = said(text, "done");
    for Case { name, what, .. } in cases {
        let wanted = if *what == "keep" { 1 } else { KILLS };
        let found = events.iter().filter(|words| words.first() == Some(&name.as_str())).count();
        ensure!(found == wanted, "`{name}`: expected {wanted} events, found {found}");
        let end = ends.iter().find(|words| words.first() == Some(&name.as_str()));
        let Some([_, start, end]) = end.map(Vec::as_slice) else {
            anyhow::bail!("`{name}` did not come to its end");
        };
        let seconds = end.parse::<f64>()? - start.parse::<f64>()?;
        writeln!(table, "| `{name}` | {found} | {seconds:.0} |")?;
    }
    Ok(table)
}

/// Instructions of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cost {
    all: f64,
    server: f64,
}

impl Cost {
    /// Return the cost of a request, from two runs with different numbers of requests.
    fn parse(words: &[&str]) -> Result<Self> {
        let numbers = words.iter().map(|word| word.parse::<f64>());
        let numbers: Vec<f64> = numbers.collect::<Result<_, _>>()?;
        let [few, few_all, few_server, many, many_all, many_server] = numbers[..] else {
            anyhow::bail!("expected six numbers, found {words:?}");
        };
        ensure!(many > few, "expected more requests in the second run, found {words:?}");
        let each = |few_cost: f64, many_cost: f64| (many_cost - few_cost) / (many - few);
        Ok(Self { all: each(few_all, many_all), server: each(few_server, many_server) })
    }
}

/// Return a table of the instructions per request of each way.
fn table(text: &str) -> Result<String> {
    let mut table = String::from(
        "| load | way | instructions per request | of the server's threads |\n| --- | --- | --- | --- |\n",
    );
    let counts = said(text, "count");
    for (load, _) in LOADS {
        for words in counts.iter().filter(|words| words.get(1) == Some(&load)) {
            let Cost { all, server } =
                Cost::parse(&words[2..]).with_context(|| format!("the guest said {words:?}"))?;
            let way = words[0].trim_start_matches("count:");
            writeln!(table, "| {load} | {way} | {all:.0} | {server:.0} |")?;
        }
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_a_request_leaves_out_the_start() {
        let cost = Cost::parse(&["1000", "9000000", "500000", "3000", "11000000", "900000"]);
        assert_eq!(cost.expect("they are numbers"), Cost { all: 1000.0, server: 200.0 });
        assert!(Cost::parse(&["1", "2"]).is_err());
        assert!(Cost::parse(&["3", "1", "1", "3", "1", "1"]).is_err());
    }

    #[test]
    fn a_case_without_its_kills_is_an_error() {
        let cases = [Case { name: "lc,1".into(), what: "verify", config: None }];
        let told = |text: &str| judge(text, &cases).map_err(|error| error.to_string());
        let whole = "@kill lc,1\r\n@kill lc,1\r\n@done lc,1 1.5 4.5\r\n";
        assert!(told(whole).is_ok_and(|table| table.contains("| `lc,1` | 2 | 3 |")));
        let one = "@kill lc,1\n@done lc,1 1 2\n";
        assert_eq!(told(one), Err("`lc,1`: expected 2 events, found 1".into()));
        let cut = "@kill lc,1\n@kill lc,1\n";
        assert_eq!(told(cut), Err("`lc,1` did not come to its end".into()));
    }
}
