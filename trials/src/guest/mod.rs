//! `cargo xtask guest`: dm-cache and bcache of a Linux kernel in a virtual machine, under the traces that
//! their models replay, and the counters of both side by side.
//!
//! The guest runs by instructions, not by the host's clock (`-icount`): its time is the number of
//! instructions executed, and jumps ahead where it waits. So each access comes at its time in the trace
//! whatever else the host does, hours pass in seconds, and a run repeats. All devices are RAM disks of
//! the guest. With `--disk` a guest boots from a disk that `thermocline serve` has, and with `--ublk` the
//! server runs in the guest and makes a block device there. Needs QEMU, a kernel package, fio, dmsetup,
//! bcache-tools and a static busybox.

mod boot;
mod cases;
mod compare;
mod console;
mod disk;
mod image;
mod kernel;
mod ublk;
mod workload;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use self::boot::Guest;
use self::cases::Case;
use self::compare::{Comparison, INTERVAL};
use self::console::Console;
use self::image::Image;
use self::kernel::Kernel;

const INIT: &str = include_str!("init.sh");

/// Part of the system that a guest tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The kernel's own caches.
    Caches,
    /// A guest's disk, by vhost-user-blk.
    Disk,
    /// A block device of the guest's kernel, by ublk.
    Ublk,
}

/// Options of a run.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) subject: Subject,
    /// A `thermocline` that is built already.
    pub(crate) program: Option<PathBuf>,
    /// A kernel package, or the folder that it was unpacked to.
    pub(crate) kernel: Option<PathBuf>,
    /// Output of an earlier guest, in place of a guest.
    pub(crate) console: Option<PathBuf>,
    /// Accesses of each trace.
    pub(crate) accesses: usize,
    /// Only cases whose names contain this.
    pub(crate) filter: String,
    /// The guest is ended after so long.
    pub(crate) minutes: f64,
    /// The console, the recorded machines and the table go there, too.
    pub(crate) keep: Option<PathBuf>,
}

/// Runs what the options ask for.
///
/// # Errors
/// If something is missing, a guest fails, or does not end in time.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    match options.subject {
        Subject::Caches => run_caches(root, options),
        Subject::Disk => disk::run(root, options),
        Subject::Ublk => ublk::run(root, options),
    }
}

/// Runs all cases of the kernel's caches in one guest, and compares.
fn run_caches(root: &Path, options: &Options) -> Result<()> {
    let workloads = workload::load(root, options.accesses)?;
    let cases = cases::all(&workloads, &options.filter);
    ensure!(!cases.is_empty(), "`--case`: no case has `{}` in its name", options.filter);
    let (text, end) = match &options.console {
        Some(path) => {
            let text = fs::read_to_string(path);
            (text.with_context(|| format!("`--console`: `{}`", path.display()))?, Ok(()))
        }
        None => run_guest(options, &cases)?,
    };
    if let Some(folder) = &options.keep {
        fs::create_dir_all(folder).with_context(|| format!("`--keep`: `{}`", folder.display()))?;
        fs::write(folder.join("console.txt"), &text)?;
    }
    let console = Console::parse(&text)?;
    let comparisons = compare_all(&cases, &console, options.keep.as_deref())?;
    let far: Vec<&str> = comparisons
        .iter()
        .filter(|comparison| !comparison.is_near())
        .map(|comparison| comparison.name.as_str())
        .collect();
    eprintln!(
        "{} of {} cases are within 5 % in hits and 10 % in migrations; not: {}",
        comparisons.len() - far.len(),
        comparisons.len(),
        if far.is_empty() { "none".into() } else { far.join(" ") }
    );
    end.with_context(|| format!("the guest's last words:\n{}", console::last_lines(&text)))?;
    ensure!(console.is_finished, "the guest did not come to its end");
    Ok(())
}

/// Boots a guest, and returns what it printed and how it ended.
fn run_guest(options: &Options, cases: &[Case<'_>]) -> Result<(String, Result<()>)> {
    let kernel = options.kernel.as_deref();
    let kernel = kernel.with_context(|| format!("`--kernel`: {}", kernel::REMEDY))?;
    boot::check_qemu()?;
    let scratch = tempfile::Builder::new().prefix("guest-").tempdir()?;
    let kernel = Kernel::find(kernel, scratch.path())?;
    let archive = scratch.path().join("initramfs");
    fs::write(&archive, image_of(&kernel, cases)?).context("cannot write the guest's files")?;
    let console = scratch.path().join("console");
    let machine = boot::BY_INSTRUCTIONS.map(ToOwned::to_owned).to_vec();
    let guest = Guest { kernel: &kernel, archive: &archive, console, machine, words: "" };
    let deadline = Instant::now() + Duration::from_secs_f64(options.minutes * 60.0);
    let end = guest.run(deadline, |_| Ok(()));
    Ok((guest.text(), end))
}

/// Compares the cases that came to their end.
fn compare_all(
    cases: &[Case<'_>],
    console: &Console,
    keep: Option<&Path>,
) -> Result<Vec<Comparison>> {
    eprintln!("Linux {}, {}", console.kernel, console.fio);
    let mut comparisons = vec![];
    for case in cases {
        let name = case.name();
        let Some(recorded) = console.cases.iter().find(|recorded| recorded.name == name) else {
            eprintln!("{name}: the guest did not come to it");
            continue;
        };
        if let Some(folder) = keep {
            fs::write(folder.join(format!("{name}.txt")), &recorded.machine)?;
        }
        eprintln!("{name}: {:.1} s of the guest", recorded.replay.as_secs_f64());
        for (word, rest) in &recorded.notes {
            eprintln!("  {word} {rest}");
        }
        comparisons.push(Comparison::new(case, recorded).with_context(|| name)?);
    }
    let table = compare::table(&comparisons);
    eprint!("\n{table}");
    if let Some(folder) = keep {
        fs::write(folder.join("table.md"), &table)?;
    }
    Ok(comparisons)
}

/// Return the guest's files.
fn image_of(kernel: &Kernel, cases: &[Case<'_>]) -> Result<Vec<u8>> {
    let mut image = Image::default();
    image.file("init", INIT.as_bytes());
    image.programs(&image::CACHES)?;
    kernel.add_modules(&mut image, &kernel::CACHES)?;
    kernel.add_later(&mut image, &[kernel::RAM_DISKS])?;
    let plan: String = cases.iter().map(Case::plan).collect();
    image.file("plan", plan.as_bytes());
    let mut traces: Vec<&str> = vec![];
    for Case { workload, .. } in cases {
        if !traces.contains(&workload.name) {
            traces.push(workload.name);
            image.file(&format!("traces/{}", workload.name), workload.iolog(INTERVAL).as_bytes());
        }
    }
    Ok(image.finish())
}
