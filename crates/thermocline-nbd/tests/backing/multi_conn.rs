//! Tests the promise of `NBD_FLAG_CAN_MULTI_CONN`: a flush on any connection covers the writes
//! answered on another.

use thermocline_nbd::cached::Cached;
use thermocline_nbd::protocol::{Command, transmission_flag as flag};
use thermocline_nbd::server::{Export, Listen, Server, Settings};

use super::client::Client;
use super::volatile::{Face, Running, disk};
use super::{BYTES, of_ram, options};

#[test]
fn a_flush_on_one_connection_covers_writes_on_all() {
    let folder = tempfile::tempdir().unwrap();
    let disk = disk(BYTES);
    let backing = Running::start(&disk, folder.path(), Face::default());
    let service = Cached::new(of_ram(options("lru", 0), backing.uri()));
    let exports = vec![Export { info: service.info("", ""), service }];
    let mut server = Server::new(Settings::default(), exports).unwrap();
    let socket = folder.path().join("cache.sock");
    server.listen(Listen::Unix(socket.clone())).unwrap();
    let handle = server.handle();
    let thread = std::thread::spawn(move || server.run(|_| ()).unwrap());
    let mut clients = [(); 3].map(|()| Client::connect(&socket, "").unwrap());
    for (round, flusher) in (1..=9_u8).zip([0, 1, 2].into_iter().cycle()) {
        assert_ne!(clients[flusher].agreed.flags & flag::CAN_MULTI_CONN, 0);
        for (place, client) in clients.iter_mut().enumerate() {
            client.write((place as u64) << 20 >> 1, &[round; 5000]).unwrap();
        }
        // Each connection reads what another one wrote.
        let reader = (flusher + 1) % 3;
        assert_eq!(clients[reader].read((flusher as u64) << 20 >> 1, 5000), Ok(vec![round; 5000]));
        clients[flusher].call(Command::Flush, 0, 0, &[]).unwrap();
        let disk = disk.lock().unwrap();
        for place in 0..3 {
            let start = place << 20 >> 1;
            assert!(disk.durable[start..start + 5000].iter().all(|byte| *byte == round));
        }
    }
    drop(clients);
    handle.stop();
    thread.join().unwrap();
}
