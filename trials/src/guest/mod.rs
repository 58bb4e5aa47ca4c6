//! `cargo xtask guest`: dm-cache and bcache of a Linux kernel in a virtual machine, under the traces that
//! their models replay, and the counters of both side by side.
//!
//! The guest runs by instructions, not by the host's clock (`-icount`): its time is the number of
//! instructions executed, and jumps ahead where it waits. So each access comes at its time in the trace
//! whatever else the host does, hours pass in seconds, and a run repeats. All devices are RAM disks of
//! the guest. With `--disk` a guest boots from a disk that `thermocline serve` has. Needs QEMU, a kernel package, fio, dmsetup, bcache-tools and a static busybox.

mod cases;
mod compare;
mod console;
mod disk;
mod image;
mod kernel;
mod workload;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use self::cases::Case;
use self::compare::{Comparison, INTERVAL};
use self::console::Console;
use self::image::Image;
use self::kernel::Kernel;

const QEMU: &str = "qemu-system-x86_64";
const INIT: &str = include_str!("init.sh");
/// Between two looks at the guest.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Options of a run.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// A guest that boots from our own disk, in place of the kernel's caches.
    pub(crate) disk: bool,
    /// A `thermocline` that is built already, for that disk.
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

/// Runs all cases in one guest, and compares.
///
/// # Errors
/// If something is missing, the guest fails, or it does not end in time.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    if options.disk {
        return disk::run(root, options);
    }
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
    ensure!(
        image::find(QEMU).is_some(),
        "{QEMU} is not installed; install it with `apt-get install qemu-system-x86`"
    );
    let scratch = tempfile::Builder::new().prefix("guest-").tempdir()?;
    let kernel = Kernel::find(kernel, scratch.path())?;
    let archive = scratch.path().join("initramfs");
    fs::write(&archive, image_of(&kernel, cases)?).context("cannot write the guest's files")?;
    let console = scratch.path().join("console");
    let patience = Duration::from_secs_f64(options.minutes * 60.0);
    let end = boot(&kernel, &archive, &console, patience);
    let text = fs::read(&console).unwrap_or_default();
    Ok((String::from_utf8_lossy(&text).into_owned(), end))
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
    kernel.add_ram_disks(&mut image)?;
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

/// Runs the guest until it ends.
fn boot(kernel: &Kernel, archive: &Path, console: &Path, patience: Duration) -> Result<()> {
    let mut guest = Command::new(QEMU)
        .args(["-nodefaults", "-display", "none", "-no-reboot", "-m", "2048M", "-smp", "1"])
        .args(["-accel", "tcg,thread=single", "-rtc", "clock=vm"])
        .args(["-icount", "shift=0,sleep=off,align=off"])
        .args(["-append", "console=ttyS0 quiet loglevel=3 panic=-1"])
        .arg("-serial")
        .arg(format!("file:{}", console.display()))
        .arg("-kernel")
        .arg(&kernel.image)
        .arg("-initrd")
        .arg(archive)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(console.with_extension("errors"))?)
        .spawn()
        .with_context(|| format!("cannot start {QEMU}"))?;
    let deadline = Instant::now() + patience;
    let status = loop {
        if let Some(status) = guest.try_wait()? {
            break status;
        }
        if Instant::now() >= deadline {
            guest.kill()?;
            guest.wait()?;
            anyhow::bail!("the guest did not end in time; give it more with `--minutes`");
        }
        thread::sleep(POLL_INTERVAL);
    };
    let errors = fs::read_to_string(console.with_extension("errors")).unwrap_or_default();
    ensure!(status.success(), "{QEMU}: {status}\n{errors}");
    Ok(())
}
