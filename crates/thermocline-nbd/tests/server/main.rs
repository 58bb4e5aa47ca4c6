//! The server with real sockets: clients written here, good and bad ones, and clients that nobody
//! here wrote.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::print_stderr, reason = "a test says what it skips")]

mod bad_clients;
mod bounds;
#[path = "../common/certificates.rs"]
mod certificates;
mod client;
mod engine;
mod exports;
mod fairness;
mod foreign_clients;
mod limits;
mod memory;
mod pace;
mod ranges;
mod tls;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread::JoinHandle;

use tempfile::TempDir;
use thermocline_nbd::server::{Export, Handle, Listen, Server, Settings};
use thermocline_nbd::service::Service;

use self::client::Client;
use self::memory::Memory;

/// A server in a thread of its own, which ends with it.
struct Running {
    folder: TempDir,
    address: Option<SocketAddr>,
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Serves one export, of no name, at a Unix socket.
    fn start(service: Memory, settings: Settings) -> Self {
        Self::start_many(vec![("", service)], settings, false)
    }

    fn start_many(services: Vec<(&str, Memory)>, settings: Settings, has_tcp: bool) -> Self {
        let exports = services
            .into_iter()
            .map(|(name, service)| Export { info: service.info(name), service })
            .collect();
        Self::serve(exports, settings, has_tcp)
    }

    fn serve<S: Service + Send + 'static>(
        exports: Vec<Export<S>>,
        settings: Settings,
        has_tcp: bool,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut server = Server::new(settings, exports).unwrap();
        server.listen(Listen::Unix(folder.path().join("socket"))).unwrap();
        let address = has_tcp
            .then(|| server.listen(Listen::Tcp("127.0.0.1:0".parse().unwrap())).unwrap().unwrap());
        let handle = server.handle();
        let thread = std::thread::spawn(move || server.run(|_| ()).unwrap());
        Self { folder, address, handle, thread: Some(thread) }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.socket().display())
    }

    fn client(&self) -> Client {
        Client::connect(&self.socket(), "").unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.stop();
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking(), "the server panicked");
        assert!(!self.socket().exists(), "a server removes its socket");
    }
}
