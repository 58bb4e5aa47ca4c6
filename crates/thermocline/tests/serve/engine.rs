//! A server in a process of its own, and the files that it serves.

use std::cell::Cell;
use std::fs::File;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::{Client, fails};

/// Maximum time of anything that a test waits for.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at something that no event announces.
const GLANCE: Duration = Duration::from_millis(5);

/// The files of a cache: its configuration, a backing store, a flash.
pub(crate) struct Cache {
    folder: TempDir,
    config: toml::Table,
    starts: Cell<u32>,
}

impl Cache {
    /// Create an empty backing store of that many MiB, behind 1 MiB of RAM and 4 MiB of flash.
    pub(crate) fn new(backing_mib: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let disk = File::create(folder.path().join("disk.img")).unwrap();
        disk.set_len(backing_mib << 20).unwrap();
        let config = toml::toml! {
            [backing]
            path = "disk.img"
            [flash]
            path = "flash.img"
            size = "4MiB"
            [ram]
            size = "1MiB"
            [policy]
            name = "hat"
            // Tests fill volumes from one end to the other, and these pages are to be cached.
            [limits]
            sequential_bypass = "never"
            [nbd]
            socket = "thermocline.sock"
            [metrics]
            listen = "127.0.0.1:0"
        };
        Self { folder, config, starts: Cell::new(0) }
    }

    /// Replace the configuration.
    pub(crate) fn replace(&mut self, text: &str) -> &mut Self {
        self.config = text.parse().unwrap();
        self
    }

    /// Sets a key of the configuration, as in `policy.name`.
    pub(crate) fn set(&mut self, key: &str, value: impl Into<toml::Value>) -> &mut Self {
        let (table, name) = self.table(key);
        table.insert(name.to_owned(), value.into());
        self
    }

    /// Set a section to a text.
    pub(crate) fn replace_section(&mut self, name: &str, text: &str) -> &mut Self {
        let sections: toml::Table = text.parse().unwrap();
        self.config.insert(name.to_owned(), sections[name].clone());
        self
    }

    /// Takes a key, or a section, out of the configuration.
    pub(crate) fn unset(&mut self, key: &str) -> &mut Self {
        let (table, name) = self.table(key);
        table.remove(name);
        self
    }

    fn table<'a>(&mut self, key: &'a str) -> (&mut toml::Table, &'a str) {
        let Some((section, name)) = key.split_once('.') else { return (&mut self.config, key) };
        let section = self.config.entry(section).or_insert_with(|| toml::Table::new().into());
        (section.as_table_mut().unwrap(), name)
    }

    /// Return a file beside the configuration.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Return the same as text, for commands.
    pub(crate) fn file(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Return the configuration as text.
    pub(crate) fn config_text(&self) -> String {
        self.config.to_string()
    }

    pub(crate) fn write_config(&self) {
        std::fs::write(self.path("cache.toml"), self.config_text()).unwrap();
    }

    /// Starts a server, and waits until it says that it is ready.
    pub(crate) fn start(&self) -> Engine {
        self.start_with(&[])
    }

    pub(crate) fn start_with(&self, words: &[&str]) -> Engine {
        self.start_notified(words, &[]).0
    }

    /// Return the same with variables of the environment, and with the socket of the service
    /// manager.
    pub(crate) fn start_notified(
        &self,
        words: &[&str],
        variables: &[(&str, &str)],
    ) -> (Engine, UnixDatagram) {
        let launched = self.launch(words, variables);
        launched.unwrap_or_else(|log| panic!("the server ended:\n{log}"))
    }

    /// Starts a server that may be refused; then what it logged.
    pub(crate) fn try_start(&self) -> Result<Engine, String> {
        self.launch(&[], &[]).map(|(engine, _)| engine)
    }

    fn launch(
        &self,
        words: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<(Engine, UnixDatagram), String> {
        self.write_config();
        self.starts.set(self.starts.get() + 1);
        let number = self.starts.get();
        let log = self.path(&format!("log.{number}"));
        let notified = self.path(&format!("notify.{number}"));
        let ready = UnixDatagram::bind(&notified).unwrap();
        ready.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_thermocline"))
            .arg("serve")
            .arg(self.path("cache.toml"))
            .args(words)
            .env("NOTIFY_SOCKET", &notified)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut engine =
            Engine { process, log, socket: self.path("thermocline.sock"), metrics: String::new() };
        let deadline = Instant::now() + PATIENCE;
        let mut message = [0; 256];
        loop {
            match ready.recv(&mut message) {
                Ok(length) if message[..length].starts_with(b"READY=1") => break,
                _ => {}
            }
            let ended = engine.process.try_wait().unwrap();
            if ended.is_some() {
                return Err(engine.log());
            }
            assert!(Instant::now() < deadline, "the server is not ready:\n{}", engine.log());
        }
        let log = engine.log();
        let address = log.lines().find(|line| line.contains("serving metrics"));
        if let Some((_, address)) = address.and_then(|line| line.split_once("address=")) {
            address.trim().clone_into(&mut engine.metrics);
        }
        Ok((engine, ready))
    }

    /// Check that a server does not start, and that its error has all of `parts`.
    #[track_caller]
    pub(crate) fn refused(&self, words: &[&str], parts: &[&str]) {
        self.write_config();
        let config = self.file("cache.toml");
        fails(&[&["serve", config.as_str()], words].concat(), parts);
    }

    /// Return all bytes of a file beside the configuration.
    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }
}

/// A running server; it is killed when it goes out of scope.
pub(crate) struct Engine {
    process: Child,
    log: PathBuf,
    socket: PathBuf,
    metrics: String,
}

impl Engine {
    /// Return the address for clients.
    pub(crate) fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.socket.display())
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.socket.clone()
    }

    /// Return the address of the metrics.
    pub(crate) fn metrics_address(&self) -> &str {
        &self.metrics
    }

    pub(crate) fn client(&self) -> Client {
        self.client_of("")
    }

    pub(crate) fn client_of(&self, export: &str) -> Client {
        Client::connect(&self.socket, export).unwrap()
    }

    /// Return the server's log so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Return the answer to an HTTP request.
    pub(crate) fn get(&self, path: &str) -> String {
        let url = format!("http://{}{path}", self.metrics);
        ureq::get(&url).call().unwrap().body_mut().read_to_string().unwrap()
    }

    /// Return a snapshot of the figures that is newer than all that was answered so far.
    pub(crate) fn status(&self) -> Value {
        let read = || serde_json::from_str::<Value>(&self.get("/status")).unwrap();
        let before = read();
        let after = self.wait_for("a newer snapshot", || {
            let now = read();
            (now["uptime_s"] != before["uptime_s"]).then_some(now)
        });
        assert!(after["uptime_s"].as_f64() > before["uptime_s"].as_f64());
        after
    }

    /// Waits for something that nothing announces.
    #[track_caller]
    pub(crate) fn wait_for<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(Instant::now() < deadline, "waited in vain for {what}:\n{}", self.log());
            std::thread::sleep(GLANCE);
        }
    }

    /// Make the server read the cache's configuration again; return `true` if it took it over.
    pub(crate) fn reload(&self, cache: &Cache) -> bool {
        self.reload_text(cache, &cache.config_text())
    }

    /// Reload with that text as the configuration.
    pub(crate) fn reload_text(&self, cache: &Cache, text: &str) -> bool {
        // Volumes that kept their own configuration are logged before the end of the reload, and are not meant.
        let (done, failed) = ("applied the new configuration", "kept the old configuration error=");
        let count = |log: &str, words: &str| log.matches(words).count();
        let before = self.log();
        std::fs::write(cache.path("cache.toml"), text).unwrap();
        self.signal("HUP");
        self.wait_for("the configuration to be read", || {
            let now = self.log();
            let is_done = count(&now, done) > count(&before, done);
            (is_done || count(&now, failed) > count(&before, failed)).then_some(is_done)
        })
    }

    /// Return the most memory that the process has had, as the system counts it.
    pub(crate) fn memory_peak_bytes(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    pub(crate) fn signal(&self, name: &str) {
        let command = format!("kill -{name} {}", self.process.id());
        assert!(Command::new("sh").args(["-c", &command]).status().unwrap().success());
    }

    /// Asks the server to end, and waits for it.
    pub(crate) fn terminate(mut self) -> ExitStatus {
        self.signal("TERM");
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "the server does not end:\n{}", self.log());
            std::thread::sleep(GLANCE);
        }
    }

    /// Ends the server in order.
    #[track_caller]
    pub(crate) fn stop(self) {
        let log = self.log.clone();
        let status = self.terminate();
        assert!(status.success(), "{status}:\n{}", std::fs::read_to_string(log).unwrap());
    }

    /// Ends the server as a power cut would end it, but for what the system has in its hands.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.process.kill());
        drop(self.process.wait());
        if std::thread::panicking() {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            eprintln!("the server said:\n{log}");
        }
    }
}
