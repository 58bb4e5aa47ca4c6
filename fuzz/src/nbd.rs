//! Arbitrary bytes as one side of an NBD conversation.
//!
//! The bytes are shown to the machine at once, and again cut into pieces; what it makes of them must
//! not depend on the cuts, and it must never wait for more than its buffer holds.

use thermocline_nbd::codec::client::{self, Event, Replies, RequestHeader};
use thermocline_nbd::codec::server::{
    self, Handshake, Incoming, Offer, Requests, Step, TlsMode, replies,
};
use thermocline_nbd::protocol::{
    BlockSizes, Command, ExportInfo, Extent, transmission_flag as flag,
};

/// The size of the export, in bytes.
const SIZE_BYTES: u64 = 1 << 30;

/// Serve the bytes of a client: negotiation and requests.
///
/// # Panics
/// If the codec breaks a promise; that is what the fuzzer looks for.
pub fn serve(bytes: &[u8]) {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let tls = if first & 1 == 0 { TlsMode::Off } else { TlsMode::Required };
    let whole = answer(bytes, usize::MAX, tls);
    for piece_bytes in [1, usize::from(*first) + 1] {
        assert_eq!(answer(bytes, piece_bytes, tls), whole);
    }
}

/// Return all that a server answers; nothing after an error.
fn answer(bytes: &[u8], piece_bytes: usize, tls: TlsMode) -> (Vec<u8>, bool) {
    let export = ExportInfo {
        name: "a".into(),
        description: "an export".into(),
        size_bytes: SIZE_BYTES,
        flags: flag::SEND_FLUSH | flag::SEND_FUA | flag::SEND_TRIM | flag::SEND_WRITE_ZEROES,
        block_sizes: BlockSizes::default(),
        takes_cooperation: true,
    };
    let exports = [export];
    let offer = Offer { exports: &exports, tls };
    let mut output = vec![];
    let mut handshake = Handshake::new(&mut output);
    let (mut start, mut end) = (0, 0);
    let negotiated = loop {
        let Ok((consumed, step)) = handshake.step(&offer, &bytes[start..end], &mut output) else {
            return (output, true);
        };
        start += consumed;
        match step {
            Step::More if end == bytes.len() => return (output, false),
            Step::More => {
                assert!(end - start < server::INPUT_BYTES_MAX);
                end = end.saturating_add(piece_bytes).min(bytes.len());
            }
            Step::Answered => assert!(consumed > 0),
            Step::StartTls => handshake.encrypted(),
            Step::Enter(negotiated) => break negotiated,
            Step::Close => return (output, false),
        }
    };
    let mut requests = Requests::new(negotiated, &exports[0]);
    loop {
        let Ok((consumed, incoming)) = requests.next(&bytes[start..end]) else {
            return (output, true);
        };
        start += consumed;
        match incoming {
            None if end == bytes.len() => return (output, false),
            None => {
                assert!(end - start < server::INPUT_BYTES_MAX);
                end = end.saturating_add(piece_bytes).min(bytes.len());
            }
            Some(Incoming::Disconnect) => return (output, false),
            Some(Incoming::Refused(refusal)) => {
                replies::refused(&mut output, &negotiated, &refusal);
            }
            Some(Incoming::Write { request, done_bytes, payload }) => {
                let through = u64::from(done_bytes) + payload.len() as u64;
                assert!(through <= request.length_bytes.into());
                assert!(request.offset_bytes + u64::from(request.length_bytes) <= SIZE_BYTES);
                replies::done(&mut output, request.cookie);
            }
            Some(Incoming::Request(request)) => {
                assert!(request.offset_bytes + u64::from(request.length_bytes) <= SIZE_BYTES);
                for context in negotiated.contexts.iter() {
                    let extents = [Extent { length_bytes: 1, status: 0 }];
                    replies::block_status(&mut output, request.cookie, context, &extents, true);
                }
            }
        }
    }
}

/// Take the bytes of a server: negotiation and replies.
///
/// # Panics
/// If the codec breaks a promise; that is what the fuzzer looks for.
pub fn listen(bytes: &[u8]) {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let whole = hear(bytes, usize::MAX);
    for piece_bytes in [1, usize::from(*first) + 1] {
        assert_eq!(hear(bytes, piece_bytes), whole);
    }
}

/// Return the events of a client, data as single bytes; and `true` if it gave up.
fn hear(bytes: &[u8], piece_bytes: usize) -> (Vec<u8>, Vec<String>, bool) {
    let wanted = client::Wanted {
        export: "a".into(),
        contexts: vec!["base:allocation".into()],
        ..client::Wanted::default()
    };
    let (mut sent, mut heard) = (vec![], vec![]);
    let mut handshake = client::Handshake::new(wanted);
    let (mut start, mut end) = (0, 0);
    loop {
        let Ok((consumed, step)) = handshake.step(&bytes[start..end], &mut sent) else {
            return (sent, heard, true);
        };
        start += consumed;
        match step {
            client::Step::More if end == bytes.len() => return (sent, heard, false),
            client::Step::More => {
                assert!(end - start < client::INPUT_BYTES_MAX);
                end = end.saturating_add(piece_bytes).min(bytes.len());
            }
            client::Step::Taken => assert!(consumed > 0),
            client::Step::StartTls => unreachable!("TLS was not asked for"),
            client::Step::Done(_) => break,
        }
    }
    let mut machine = Replies::default();
    let mut is_idle = false;
    loop {
        let Ok((consumed, event)) = machine.next(&bytes[start..end], in_flight) else {
            return (sent, heard, true);
        };
        start += consumed;
        assert!(consumed > 0 || !is_idle || event.is_none(), "an event out of nothing");
        is_idle = consumed == 0;
        match event {
            None if end == bytes.len() => return (sent, heard, false),
            None => {
                assert!(end - start < client::INPUT_BYTES_MAX);
                end = end.saturating_add(piece_bytes).min(bytes.len());
            }
            Some(Event::Data { cookie, offset_bytes, bytes }) => {
                let request = in_flight(cookie).expect("a request in flight");
                let through = offset_bytes + bytes.len() as u64;
                assert!(offset_bytes >= request.offset_bytes);
                assert!(through <= request.offset_bytes + u64::from(request.length_bytes));
                heard.extend((offset_bytes..).zip(bytes).map(|data| format!("{cookie} {data:?}")));
            }
            Some(event) => heard.push(format!("{event:?}")),
        }
    }
}

/// Return one request of each kind, by its number.
fn in_flight(cookie: u64) -> Option<RequestHeader> {
    let command = *Command::ALL.get(usize::try_from(cookie).ok()?)?;
    Some(RequestHeader { cookie, command, flags: 0, offset_bytes: 512, length_bytes: 1024 })
}
