//! Exports that come and go while clients are served.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use thermocline_nbd::server::{Export, Exports, Handle, Listen, Server, ServerError, Settings};

use super::client::Client;
use super::memory::Memory;

/// Work for the server's thread.
type Order = Box<dyn FnOnce(&mut Exports<Memory>) + Send>;

/// A server that takes orders, at a socket in a folder.
struct Changing {
    folder: tempfile::TempDir,
    handle: Handle,
    orders: Sender<Order>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Changing {
    fn start(export: Export<Memory>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut server = Server::new(Settings::default(), vec![export]).unwrap();
        server.listen(Listen::Unix(folder.path().join("socket"))).unwrap();
        let handle = server.handle();
        let (orders, taken): (Sender<Order>, Receiver<Order>) = channel();
        let serve = move || {
            server.run(|exports| taken.try_iter().for_each(|order| order(exports))).unwrap();
        };
        Self { folder, handle, orders, thread: Some(std::thread::spawn(serve)) }
    }

    /// Have the server's thread do something. Returns what that found.
    fn order<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Exports<Memory>) -> T + Send + 'static,
    ) -> T {
        let (send, found) = channel();
        let order = move |exports: &mut Exports<Memory>| send.send(work(exports)).unwrap();
        self.orders.send(Box::new(order)).unwrap();
        self.handle.wake();
        found.recv_timeout(Duration::from_secs(10)).unwrap()
    }

    fn wait_for_clients(&self, place: usize, wanted: usize) {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let found = self.order(move |exports| exports.clients(place));
            if found == wanted {
                return;
            }
            assert!(Instant::now() < deadline, "{found}, not {wanted}");
        }
    }

    fn connect(&self, export: &str) -> std::io::Result<Client> {
        Client::connect(&self.folder.path().join("socket"), export)
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        self.handle.stop();
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking(), "the server panicked");
    }
}

fn export(name: &str, bytes: usize) -> Export<Memory> {
    let service = Memory::new(bytes);
    Export { info: service.info(name), service }
}

#[test]
fn exports_come_and_go_without_disturbing_others() {
    let server = Changing::start(export("one", 1 << 16));
    let mut first = server.connect("one").unwrap();
    first.write(0, b"1").unwrap();
    let two = server.order(|exports| exports.add(export("two", 1 << 17))).unwrap();
    let mut second = [server.connect("two").unwrap(), server.connect("two").unwrap()];
    assert_eq!(second[0].agreed.size_bytes, 1 << 17);
    second[0].write(0, b"2").unwrap();
    server.wait_for_clients(0, 1);
    server.wait_for_clients(two, 2);
    // An export that is withdrawn keeps its clients, and its name.
    server.order(|exports| exports.withdraw(0));
    let refused = server.connect("one").err().unwrap().to_string();
    assert!(refused.contains("`two`") && !refused.contains("`one`"), "{refused}");
    assert_eq!(first.read(0, 1), Ok(b"1".to_vec()));
    let twice = server.order(|exports| exports.add(export("one", 1 << 12)));
    assert!(matches!(twice, Err(ServerError::Export { .. })), "{twice:?}");
    server.order(|exports| exports.offer_again(0));
    drop(server.connect("one").unwrap());
    server.order(|exports| exports.withdraw(0));
    drop(first);
    server.wait_for_clients(0, 0);
    server.order(|exports| drop(exports.remove(0)));
    // Its place is free for another one.
    let place = server.order(|exports| exports.add(export("one", 1 << 12))).unwrap();
    let mut first = server.connect("one").unwrap();
    assert_eq!((place, first.agreed.size_bytes), (0, 1 << 12));
    assert_eq!(first.read(0, 1), Ok(vec![0]));
    assert_eq!(second[1].read(0, 1), Ok(b"2".to_vec()));
}
