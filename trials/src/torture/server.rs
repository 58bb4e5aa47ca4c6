//! Processes of `thermocline`: servers, and the commands for caches at rest.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

/// No start, stop or command takes so long.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
/// A server that was killed ends within this time, unless a device hangs.
const DROP_PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks at something that no event announces.
pub(crate) const GLANCE: Duration = Duration::from_millis(2);

/// A running server. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Server {
    process: Child,
    log: PathBuf,
    socket: PathBuf,
    metrics: Option<String>,
}

/// The result of a start.
#[derive(Debug)]
pub(crate) enum Started {
    Ready(Server),
    /// The server ended; this is its log.
    Refused(String),
}

/// Return the `thermocline` that is built already, or one that is built now.
///
/// # Errors
/// If it cannot be built.
pub(crate) fn program(root: &Path, given: Option<&PathBuf>) -> Result<PathBuf> {
    if let Some(program) = given {
        return Ok(program.clone());
    }
    xtask::cargo(root, &["build", "--release", "--bin", "thermocline"], &[])?;
    Ok(xtask::target(root).join("release/thermocline"))
}

impl Server {
    /// Starts a process, and does not wait until it is ready.
    ///
    /// # Errors
    /// If the system starts no process.
    pub(crate) fn spawn(program: &Path, config: &Path, log: &Path, socket: &Path) -> Result<Self> {
        Self::spawn_notifying(program, config, log, socket, Path::new(""))
    }

    fn spawn_notifying(
        program: &Path,
        config: &Path,
        log: &Path,
        socket: &Path,
        notified: &Path,
    ) -> Result<Self> {
        let file = File::create(log).with_context(|| format!("`{}`", log.display()))?;
        let mut command = Command::new(program);
        command.arg("serve").arg(config).env_remove("NOTIFY_SOCKET");
        if !notified.as_os_str().is_empty() {
            command.env("NOTIFY_SOCKET", notified);
        }
        let process = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            // Ctrl-C is for the torture, which ends its servers itself.
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start `{}`", program.display()))?;
        Ok(Self { process, log: log.to_owned(), socket: socket.to_owned(), metrics: None })
    }

    /// Starts a server, and waits until it is ready or has ended.
    ///
    /// # Errors
    /// If it does neither.
    pub(crate) fn start(
        program: &Path,
        config: &Path,
        log: &Path,
        socket: &Path,
    ) -> Result<Started> {
        let notified = log.with_extension("notify");
        let ready = UnixDatagram::bind(&notified)?;
        ready.set_read_timeout(Some(Duration::from_millis(20)))?;
        let mut server = Self::spawn_notifying(program, config, log, socket, &notified)?;
        let deadline = Instant::now() + PATIENCE;
        let mut message = [0; 256];
        let is_ready = loop {
            match ready.recv(&mut message) {
                Ok(length) if message[..length].starts_with(b"READY=1") => break true,
                _ => {}
            }
            if server.process.try_wait()?.is_some() {
                break false;
            }
            ensure!(Instant::now() < deadline, "the server is not ready after a minute");
        };
        fs::remove_file(&notified)?;
        if !is_ready {
            return Ok(Started::Refused(server.log()));
        }
        let log = server.log();
        server.metrics = log
            .lines()
            .filter(|line| line.contains("serving metrics"))
            .find_map(|line| Some(line.split_once("address=")?.1.trim().to_owned()));
        Ok(Started::Ready(server))
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Return the server's log so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Return the server's snapshot of itself, taken after this call.
    ///
    /// # Errors
    /// If it serves none.
    pub(crate) fn status(&self) -> Result<Value> {
        let before = self.look()?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let now = self.look()?;
            if now["uptime_s"] != before["uptime_s"] {
                return Ok(now);
            }
            ensure!(Instant::now() < deadline, "the server's status stays the same for a minute");
            thread::sleep(GLANCE);
        }
    }

    fn look(&self) -> Result<Value> {
        let address = self.metrics.as_deref().context("the log names no address of metrics")?;
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(stream, "GET /status HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let (_, body) = text.split_once("\r\n\r\n").context("/status has no body")?;
        // The body may come in chunks; the status is the only object.
        let (Some(start), Some(end)) = (body.find('{'), body.rfind('}')) else {
            bail!("/status is no JSON: {body}");
        };
        serde_json::from_str(&body[start..=end]).context("/status is no JSON")
    }

    /// Asks the server to end, and does not wait.
    ///
    /// # Errors
    /// If it is gone.
    pub(crate) fn terminate(&self) -> Result<()> {
        let id = self.process.id().to_string();
        let sent = Command::new("kill").args(["-s", "TERM", &id]).status()?;
        ensure!(sent.success(), "the server is gone");
        Ok(())
    }

    /// Wait until the server has ended by itself.
    ///
    /// # Errors
    /// If it does not end.
    pub(crate) fn wait(&mut self) -> Result<ExitStatus> {
        wait(&mut self.process)
    }

    /// Return `true` if the server has ended.
    pub(crate) fn has_ended(&mut self) -> Result<bool> {
        Ok(self.process.try_wait()?.is_some())
    }

    /// Sends SIGKILL, and does not wait: operations that hang would keep the process.
    ///
    /// # Errors
    /// If the operating system reports an error.
    pub(crate) fn kill(&mut self) -> Result<()> {
        Ok(self.process.kill()?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already. One that waits for a device that hangs ends with the mount.
        drop(self.process.kill());
        let deadline = Instant::now() + DROP_PATIENCE;
        while matches!(self.process.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(GLANCE);
        }
    }
}

fn wait(process: &mut Child) -> Result<ExitStatus> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = process.try_wait()? {
            return Ok(status);
        }
        ensure!(Instant::now() < deadline, "a process does not end within a minute");
        thread::sleep(GLANCE);
    }
}

/// Runs a command of `thermocline`; returns what it said if it succeeded.
///
/// # Errors
/// If the command fails, with what it said.
pub(crate) fn command(program: &Path, words: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .process_group(0)
        .output()
        .with_context(|| format!("cannot start `{}`", program.display()))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "`thermocline {}` failed: {said}{complained}",
        words.join(" ")
    );
    Ok(said)
}

/// Return the registered policies that a configuration takes, which `configure` writes.
///
/// # Errors
/// If the list of policies cannot be read, or the configuration cannot be written.
pub(crate) fn policies(
    program: &Path,
    config: &Path,
    configure: impl Fn(&str) -> Result<()>,
) -> Result<Vec<String>> {
    let listed = Command::new(program).args(["policies", "--json"]).output()?;
    let listed: Vec<Value> = serde_json::from_slice(&listed.stdout)
        .context("`thermocline policies --json` prints no list")?;
    let mut servable = vec![];
    for name in listed.iter().filter_map(|policy| policy["name"].as_str()) {
        configure(name)?;
        let mut check = Command::new(program);
        check.arg("serve").arg(config).arg("--check");
        if check.stdout(Stdio::null()).stderr(Stdio::null()).status()?.success() {
            servable.push(name.to_owned());
        }
    }
    Ok(servable)
}
