//! Servers that are started, and killed when they are no longer needed.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::groups::Clients;
use super::text;

/// Place in which servers run.
pub(crate) struct Place<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) cpus: &'a str,
    pub(crate) mib: u32,
    pub(crate) thermocline: &'a Path,
    pub(crate) clients: Clients,
}

/// Runs a program at a real-time priority: a higher one runs first, and what has none runs last.
const AT_PRIORITY: [&str; 2] = ["chrt", "--fifo"];
const SERVER_PRIORITY: &str = "5";
pub(super) const CLIENT_PRIORITY: &str = "10";
/// Priority of clients beside the one that is measured, whose requests must not wait for a
/// processor.
pub(super) const OTHERS_PRIORITY: &str = "9";

/// Return `true` if this user may run programs at real-time priorities.
pub(super) fn can_set_priorities() -> bool {
    let [program, class] = AT_PRIORITY;
    let status = Command::new(program).args([class, CLIENT_PRIORITY, "true"]).status();
    status.is_ok_and(|status| status.success())
}

impl Place<'_> {
    /// Return the processors of clients.
    pub(super) fn client_cpus(&self) -> &str {
        match (self.clients, self.cpus.rsplit_once(',')) {
            (Clients::Apart, Some((clients, _))) => clients,
            (Clients::Apart | Clients::First | Clients::Equal, _) => self.cpus,
        }
    }

    /// Return the processors of servers.
    fn server_cpus(&self) -> &str {
        match (self.clients, self.cpus.rsplit_once(',')) {
            (Clients::Apart, Some((_, server))) => server,
            (Clients::Apart | Clients::First | Clients::Equal, _) => self.cpus,
        }
    }

    /// Return the command of a client.
    pub(super) fn client(&self, program: &str, priority: &str) -> Command {
        if self.clients == Clients::Equal || !can_set_priorities() {
            return Command::new(program);
        }
        let [chrt, class] = AT_PRIORITY;
        let mut command = Command::new(chrt);
        command.args([class, priority, program]);
        command
    }

    /// Fills the names in, for the server that listens at a socket.
    fn expand(&self, text_with_names: &str, socket: &Path) -> String {
        text_with_names
            .replace("{socket}", &socket.display().to_string())
            .replace("{config}", &socket.with_extension("toml").display().to_string())
            .replace("{disk}", &text(self.folder, "disk.sock"))
            .replace("{folder}", &self.folder.display().to_string())
            .replace("{file}", &socket.with_extension("disk").display().to_string())
            .replace("{size}", &format!("{}M", self.mib))
            .replace("{mib}", &self.mib.to_string())
            .replace("{thermocline}", &self.thermocline.display().to_string())
    }
}

/// A server that runs until it is dropped.
pub(crate) struct Running {
    process: Child,
    socket: PathBuf,
}

impl Running {
    pub(crate) fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.socket.display())
    }

    /// Return the processor time that it has had, its ended threads included, in microseconds.
    pub(crate) fn cpu_us(&self) -> Result<f64> {
        /// The processors' clock ticks in `/proc`, per second: a constant of Linux's interface.
        const TICKS_PER_SECOND: f64 = 100.0;
        let process = self.process.id();
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))
            .context("the server has ended")?;
        // The name, in parentheses, may hold blanks; user and system time are fields 14 and 15.
        let fields = stat.rsplit(')').next().unwrap_or_default();
        let times = fields.split_whitespace().skip(11).take(2);
        let ticks: f64 = times.filter_map(|time| time.parse::<f64>().ok()).sum();
        Ok(ticks * 1e6 / TICKS_PER_SECOND)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Builds the program that users run, as they would.
pub(crate) fn build_thermocline() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--release", "--quiet", "--package", "thermocline"])
        .status()
        .context("cannot start cargo")?;
    ensure!(status.success(), "thermocline cannot be built");
    let this = std::env::current_exe().context("cannot find this program")?;
    Ok(this.with_file_name("thermocline"))
}

/// Return `true` if the program of a command can be started.
pub(crate) fn is_installed(place: &Place<'_>, command: &str) -> bool {
    let program = command.split_whitespace().next().unwrap_or_default();
    Command::new(place.expand(program, Path::new("")))
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

/// Starts a server, and waits until it listens.
pub(crate) fn start(
    place: &Place<'_>,
    name: &str,
    command: &str,
    config: Option<&str>,
) -> Result<Running> {
    let socket = place.folder.join(format!("{name}.sock"));
    // Each has a file of its own.
    File::create(socket.with_extension("disk"))?.set_len(u64::from(place.mib) << 20)?;
    if let Some(config) = config {
        std::fs::write(socket.with_extension("toml"), place.expand(config, &socket))?;
    }
    let log = socket.with_extension("log");
    let [chrt, class] = AT_PRIORITY;
    let priority: &[&str] = match place.clients {
        Clients::Equal => &[],
        Clients::First => &[chrt, class, SERVER_PRIORITY],
        // The system takes a processor from real-time programs that want all of it, for a twentieth of each
        // second.
        Clients::Apart => &["nice", "-n", "-20"],
    };
    let process = Command::new("taskset")
        .args(["-c", place.server_cpus()])
        .args(priority)
        .args(command.split_whitespace().map(|word| place.expand(word, &socket)))
        .stdout(Stdio::null())
        .stderr(File::create(&log)?)
        .spawn()
        .with_context(|| format!("cannot start `{command}`"))?;
    let mut running = Running { process, socket };
    let start = Instant::now();
    while !running.socket.exists() {
        let has_ended = running.process.try_wait()?.is_some();
        let is_late = start.elapsed() > Duration::from_secs(20);
        if has_ended || is_late {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            anyhow::bail!("`{name}` does not listen; it said:\n{said}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(running)
}
