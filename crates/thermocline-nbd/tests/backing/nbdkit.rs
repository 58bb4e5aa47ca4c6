//! `nbdkit`, started, killed and started again.

use std::fs::{self, DirEntry};
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use thermocline_nbd::uri::NbdUri;

use super::volatile::uri;

/// A server that ends with this value.
pub(crate) struct Nbdkit {
    child: Child,
    socket: PathBuf,
}

impl Nbdkit {
    /// Starts it; nothing if it is not installed.
    pub(crate) fn start(folder: &Path, words: &[&str]) -> Option<Self> {
        let socket = folder.join("nbdkit.sock");
        // One that was killed has left it behind.
        drop(fs::remove_file(&socket));
        let started = Command::new("nbdkit")
            .args(["--foreground", "--exit-with-parent", "--unix"])
            .arg(&socket)
            .args(words)
            .stdin(Stdio::null())
            .spawn();
        let child = match started {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                eprintln!("skipped: `nbdkit` is not installed");
                return None;
            }
            child => child.unwrap(),
        };
        let running = Self { child, socket };
        let start = Instant::now();
        while UnixStream::connect(&running.socket).is_err() {
            assert!(start.elapsed() < Duration::from_secs(20), "nbdkit {words:?} does not listen");
            std::thread::sleep(Duration::from_millis(2));
        }
        Some(running)
    }

    /// Stops it, and returns when all its threads have stopped: a signal arrives some time after `kill`.
    pub(crate) fn stop(&self) {
        self.signal("STOP");
        let threads = format!("/proc/{}/task", self.child.id());
        let has_stopped = |thread: io::Result<DirEntry>| {
            let state = fs::read_to_string(thread.unwrap().path().join("stat"));
            // The state follows the program's name, which stands in parentheses.
            state.is_ok_and(|state| {
                state.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
            })
        };
        while !fs::read_dir(&threads).unwrap().all(has_stopped) {
            std::thread::yield_now();
        }
    }

    /// Lets it go on.
    pub(crate) fn go_on(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        let words = [format!("-{name}"), self.child.id().to_string()];
        assert!(Command::new("kill").args(words).status().unwrap().success());
    }

    pub(crate) fn uri(&self) -> NbdUri {
        uri(&self.socket)
    }
}

impl Drop for Nbdkit {
    /// Kills it, without a word.
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
