//! A guest that runs: QEMU with a kernel and a first file system, and what it prints to its console.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::console;
use super::image;
use super::kernel::Kernel;

const QEMU: &str = "qemu-system-x86_64";
/// Between two looks at the guest.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// One processor whose clock counts instructions, one per nanosecond, and jumps ahead where the guest waits.
pub(crate) const BY_INSTRUCTIONS: [&str; 10] = [
    "-m",
    "2048M",
    "-smp",
    "1",
    "-accel",
    "tcg,thread=single",
    "-rtc",
    "clock=vm",
    "-icount",
    "shift=0,sleep=off,align=off",
];

/// A guest, and the files that it runs from.
#[derive(Clone, Debug)]
pub(crate) struct Guest<'a> {
    pub(crate) kernel: &'a Kernel,
    /// The first file system.
    pub(crate) archive: &'a Path,
    /// File for what the guest prints.
    pub(crate) console: PathBuf,
    /// QEMU's arguments for processors, memory and devices.
    pub(crate) machine: Vec<String>,
    /// Words for the guest's first program, on the kernel's command line.
    pub(crate) words: &'a str,
}

/// Refuses a machine without QEMU.
///
/// # Errors
/// If it is not installed.
pub(crate) fn check_qemu() -> Result<()> {
    ensure!(
        image::find(QEMU).is_some(),
        "{QEMU} is not installed; install it with `apt-get install qemu-system-x86`"
    );
    Ok(())
}

impl Guest<'_> {
    /// Runs the guest until it ends; calls `meanwhile` with what it has printed, from time to time.
    ///
    /// # Errors
    /// If QEMU fails, `meanwhile` does, or the guest has not ended at the deadline.
    pub(crate) fn run(
        &self,
        deadline: Instant,
        mut meanwhile: impl FnMut(&str) -> Result<()>,
    ) -> Result<()> {
        let mut process = self.start()?;
        let status = loop {
            if let Some(status) = process.try_wait()? {
                break status;
            }
            let is_late = Instant::now() >= deadline;
            let outcome = if is_late {
                Err(anyhow::anyhow!("the guest did not end in time; give it more with `--minutes`"))
            } else {
                meanwhile(&self.text())
            };
            if let Err(error) = outcome {
                process.kill()?;
                process.wait()?;
                return Err(error);
            }
            thread::sleep(POLL_INTERVAL);
        };
        let errors = fs::read_to_string(self.errors()).unwrap_or_default();
        ensure!(status.success(), "{QEMU}: {status}\n{errors}");
        Ok(())
    }

    /// Runs a guest that says when it fails, and how it ends. Returns what it printed.
    ///
    /// # Errors
    /// If it fails, or does not end with the line `last`.
    pub(crate) fn run_to(
        &self,
        last: &str,
        deadline: Instant,
        meanwhile: impl FnMut(&str) -> Result<()>,
    ) -> Result<String> {
        let end = self.run(deadline, meanwhile);
        let text = self.text();
        let told = || format!("the guest's last words:\n{}", console::last_lines(&text));
        end.with_context(told)?;
        if let Some(reason) = text.lines().find_map(|line| line.trim().strip_prefix("@fail ")) {
            bail!("the guest failed: {reason}\n{}", told());
        }
        ensure!(text.lines().any(|line| line.trim() == last), "{}", told());
        Ok(text)
    }

    /// Return what the guest has printed.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.console).unwrap_or_default()).into_owned()
    }

    fn errors(&self) -> PathBuf {
        self.console.with_extension("errors")
    }

    fn start(&self) -> Result<Child> {
        Command::new(QEMU)
            .args(["-nodefaults", "-display", "none", "-no-reboot"])
            .args(&self.machine)
            .arg("-append")
            .arg(format!("console=ttyS0 quiet loglevel=3 panic=-1 {}", self.words))
            .arg("-serial")
            .arg(format!("file:{}", self.console.display()))
            .arg("-kernel")
            .arg(&self.kernel.image)
            .arg("-initrd")
            .arg(self.archive)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(self.errors())?)
            .spawn()
            .with_context(|| format!("cannot start {QEMU}"))
    }
}
