//! Clients that break the protocol lose their connection, and nobody else notices.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use proptest::prelude::*;
use thermocline_nbd::codec::client::RequestHeader;
use thermocline_nbd::protocol::Command;
use thermocline_nbd::server::Settings;

use super::Running;
use super::memory::Memory;

/// Return a request that is right except for the changes to its bytes.
fn write_request() -> Vec<u8> {
    let mut bytes = vec![];
    let (offset_bytes, length_bytes) = (0, 4096);
    RequestHeader { cookie: 1, command: Command::Write, flags: 0, offset_bytes, length_bytes }
        .write(&mut bytes);
    bytes
}

#[test]
fn a_bad_client_harms_nobody_else() {
    let running = Running::start(Memory::new(1 << 20), Settings::default());
    let mut good = running.client();
    good.write(0, b"precious").unwrap();
    let enter = [&3_u32.to_be_bytes()[..], b"IHAVEOPT", &[0, 0, 0, 1, 0, 0, 0, 0]].concat();
    let mut huge_write = write_request();
    huge_write[24..28].fill(0xff);
    let mut unknown = write_request();
    unknown[0] ^= 1;
    let scripts: [&[&[u8]]; 8] = [
        &[],
        &[b"GET / HTTP/1.1\r\n\r\n"],
        &[&[0xff; 4]],
        &[&enter, &unknown],
        &[&enter, &huge_write],
        // Goes in the middle of a payload.
        &[&enter, &write_request(), &[9; 100]],
        &[&enter, &write_request()[..13]],
        // Leaves requests behind.
        &[&enter, &write_request(), &[0; 4096], &[0x55; 1 << 13]],
    ];
    for round in 0..3 {
        for script in scripts {
            let mut bad = UnixStream::connect(running.socket()).unwrap();
            for bytes in script {
                // The server may have closed already.
                drop(bad.write_all(bytes));
            }
            assert_eq!(good.read(4096, 4), Ok(vec![0; 4]), "round {round}, {script:?}");
        }
    }
    // Half a page of the client that went was never whole: the request must not have been begun.
    let mut bad = UnixStream::connect(running.socket()).unwrap();
    bad.write_all(&[&enter[..], &write_request()[..4], &[0xff; 60]].concat()).unwrap();
    let mut rest = vec![];
    bad.read_to_end(&mut rest).unwrap();
    assert_eq!(good.write(0, b"still here"), Ok(()));
    assert_eq!(good.read(0, 10), Ok(b"still here".to_vec()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn arbitrary_bytes_harm_nobody(
        noise in prop::collection::vec(
            prop::collection::vec(any::<u8>(), 0..200), 1..20),
        has_entered in any::<bool>(),
    ) {
        let running = Running::start(Memory::new(1 << 16), Settings::default());
        let mut good = running.client();
        for bytes in noise {
            let mut bad = if has_entered {
                running.client().stream
            } else {
                UnixStream::connect(running.socket()).unwrap()
            };
            drop(bad.write_all(&bytes));
            prop_assert_eq!(good.read(0, 1).map(|bytes| bytes.len()), Ok(1));
        }
    }
}
