//! The server's codec against the client's, with the bytes cut at arbitrary places, and both against
//! bytes written by hand from the protocol's document.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::HashMap;

use proptest::prelude::*;
use thermocline_nbd::codec::ProtocolError;
use thermocline_nbd::codec::client::{self, Event, RequestHeader};
use thermocline_nbd::codec::server::{
    self, Handshake, Incoming, Negotiated, Offer, Requests, Step, TlsMode, replies,
};
use thermocline_nbd::protocol::{
    BlockSizes, Command, Context, ErrorCode, ExportInfo, Extent, command_flag,
    transmission_flag as flag,
};
use thermocline_nbd::service::Pushed;

const ALL_FLAGS: u16 = flag::SEND_FLUSH
    | flag::SEND_FUA
    | flag::SEND_TRIM
    | flag::SEND_WRITE_ZEROES
    | flag::SEND_CACHE
    | flag::SEND_FAST_ZERO;

fn export(name: &str, size_bytes: u64) -> ExportInfo {
    let block_sizes = BlockSizes::default();
    let description = format!("export {name}");
    let (name, flags) = (name.into(), ALL_FLAGS);
    ExportInfo { name, description, size_bytes, flags, block_sizes, takes_cooperation: false }
}

/// Bytes on their way from one machine to the other, which sees them in pieces.
struct Wire<'a> {
    bytes: Vec<u8>,
    shown: usize,
    /// Number of more bytes that are shown each time.
    cuts: std::iter::Cycle<std::iter::Copied<std::slice::Iter<'a, usize>>>,
}

impl<'a> Wire<'a> {
    fn new(cuts: &'a [usize]) -> Self {
        Self { bytes: vec![], shown: 0, cuts: cuts.iter().copied().cycle() }
    }

    /// Shows a little more. Returns `true` if there was more.
    fn advance(&mut self) -> bool {
        let is_more = self.shown < self.bytes.len();
        self.shown = (self.shown + self.cuts.next().unwrap()).min(self.bytes.len());
        is_more
    }

    fn consume(&mut self, length: usize) {
        assert!(length <= self.shown);
        self.bytes.drain(..length);
        self.shown -= length;
    }
}

type Negotiation = (Result<client::Agreed, ProtocolError>, Result<Negotiated, ProtocolError>);

/// Negotiates until both sides agree, or one gives up.
fn negotiate(exports: &[ExportInfo], wanted: client::Wanted, cuts: &[usize]) -> Negotiation {
    let offer = Offer { exports, tls: TlsMode::Off };
    let (mut to_client, mut to_server) = (Wire::new(cuts), Wire::new(cuts));
    let mut server = Handshake::new(&mut to_client.bytes);
    let mut client = client::Handshake::new(wanted);
    let (mut agreed, mut negotiated) = (None, None);
    while agreed.is_none() || negotiated.is_none() {
        let mut moved = to_client.advance();
        while agreed.is_none() {
            let shown = &to_client.bytes[..to_client.shown];
            match client.step(shown, &mut to_server.bytes) {
                Ok((consumed, step)) => {
                    to_client.consume(consumed);
                    match step {
                        client::Step::More => break,
                        client::Step::Taken => {}
                        client::Step::StartTls => panic!("nobody asked for TLS"),
                        client::Step::Done(result) => agreed = Some(Ok(result)),
                    }
                }
                Err(error) => {
                    let left = ProtocolError::Unexpected("the client left");
                    return (Err(error), negotiated.unwrap_or(Err(left)));
                }
            }
        }
        moved |= to_server.advance();
        while negotiated.is_none() {
            let shown = &to_server.bytes[..to_server.shown];
            match server.step(&offer, shown, &mut to_client.bytes) {
                Ok((consumed, step)) => {
                    to_server.consume(consumed);
                    match step {
                        Step::More => break,
                        Step::Answered => {}
                        Step::Enter(result) => negotiated = Some(Ok(result)),
                        Step::StartTls | Step::Close => panic!("nobody asked for {step:?}"),
                    }
                }
                Err(error) => negotiated = Some(Err(error)),
            }
        }
        assert!(moved || agreed.is_some() || negotiated.is_some(), "both wait for each other");
    }
    assert!(to_client.bytes.is_empty() && to_server.bytes.is_empty());
    (agreed.unwrap(), negotiated.unwrap())
}

fn cuts() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(1..50_usize, 1..20)
}

proptest! {
    #[test]
    fn both_sides_agree_on_the_same(
        names in prop::collection::hash_set("[a-c]{0,2}", 1..4),
        wanted in "[a-c]{0,2}",
        queries in prop::sample::subsequence(
            vec!["base:allocation", "thermocline:tier", "base:", "qemu:dirty"], 0..=4),
        cuts in cuts(),
    ) {
        let exports: Vec<_> = (1..).zip(&names).map(|(size, name)| export(name, size)).collect();
        let contexts = queries.iter().map(|query| (*query).to_owned()).collect();
        let request = client::Wanted {
            export: wanted.clone(),
            contexts,
            security: client::Security::Plain,
        };
        let (agreed, negotiated) = negotiate(&exports, request, &cuts);
        let found = names
            .iter()
            .position(|name| *name == wanted)
            .or((wanted.is_empty() && names.len() == 1).then_some(0));
        match found {
            None => {
                let error = agreed.unwrap_err();
                let is_unknown =
                    matches!(error, ProtocolError::Refused { code: "unknown export", .. });
                prop_assert!(is_unknown, "{error}");
            }
            Some(index) => {
                let (agreed, negotiated) = (agreed.unwrap(), negotiated.unwrap());
                prop_assert_eq!(negotiated.export, index);
                prop_assert_eq!(agreed.size_bytes, exports[index].size_bytes);
                prop_assert_eq!(agreed.flags, ALL_FLAGS | flag::HAS_FLAGS | flag::SEND_DF);
                prop_assert_eq!(agreed.flags, negotiated.flags);
                prop_assert!(agreed.is_structured && negotiated.is_structured);
                prop_assert_eq!(agreed.block_sizes, BlockSizes::default());
                let selected: Vec<_> = Context::ALL
                    .into_iter()
                    .filter(|context| queries.contains(&context.name()))
                    .map(|context| (context.id(), context.name().to_owned()))
                    .collect();
                prop_assert_eq!(&agreed.contexts, &selected);
                prop_assert_eq!(negotiated.contexts.iter().count(), selected.len());
            }
        }
    }
}

const SIZE_BYTES: u32 = 3 << 18;

fn request() -> impl Strategy<Value = RequestHeader> {
    let commands = vec![
        Command::Read,
        Command::Write,
        Command::Flush,
        Command::Trim,
        Command::Cache,
        Command::WriteZeroes,
        Command::BlockStatus,
    ];
    let flags = prop::sample::select(vec![0, 0, 0, 1, 2, 4, 8, 16, 32]);
    let offset = prop_oneof![0..u64::from(SIZE_BYTES) + 10, Just(0), Just(u64::MAX)];
    let length = prop_oneof![0..70_000_u32, 0..SIZE_BYTES + 10, Just(0)];
    (prop::sample::select(commands), flags, offset, length).prop_map(
        |(command, flags, offset_bytes, length_bytes)| RequestHeader {
            cookie: 0,
            command,
            flags,
            offset_bytes,
            length_bytes,
        },
    )
}

/// Return the result of a request that the protocol's document requires.
fn expected_error(request: &RequestHeader, is_structured: bool) -> Option<ErrorCode> {
    use Command::{BlockStatus, Flush, Read, Write, WriteZeroes};
    let RequestHeader { command, flags, offset_bytes, length_bytes, .. } = *request;
    let mut allowed = command_flag::FUA;
    if command == Read && is_structured {
        allowed |= command_flag::DF;
    }
    if command == WriteZeroes {
        allowed |= command_flag::NO_HOLE | command_flag::FAST_ZERO;
    }
    if command == BlockStatus {
        allowed |= command_flag::REQ_ONE;
    }
    if flags & !allowed != 0 {
        return Some(ErrorCode::Invalid);
    }
    if command == Flush {
        return (offset_bytes != 0 || length_bytes != 0).then_some(ErrorCode::Invalid);
    }
    if u128::from(offset_bytes) + u128::from(length_bytes) > u128::from(SIZE_BYTES) {
        let grows = matches!(command, Write | WriteZeroes);
        return Some(if grows { ErrorCode::NoSpace } else { ErrorCode::Invalid });
    }
    let is_status = command == BlockStatus;
    (is_status && (length_bytes == 0 || !is_structured)).then_some(ErrorCode::Invalid)
}

/// Return the byte at a place after `cookie` writes.
fn pattern(cookie: u64, place: u64) -> u8 {
    (place.wrapping_mul(31) ^ cookie.wrapping_mul(17)).to_le_bytes()[0]
}

/// Serves requests from plain bytes, one after the other.
fn serve(
    requests: &mut Requests,
    negotiated: &Negotiated,
    disk: &mut [u8],
    wire: &mut Wire<'_>,
    output: &mut Vec<u8>,
) {
    loop {
        let shown = wire.bytes[..wire.shown].to_vec();
        let (consumed, incoming) = requests.next(&shown).unwrap();
        let is_over = incoming.is_none();
        match incoming {
            None => {}
            Some(Incoming::Disconnect) => panic!("nobody left"),
            Some(Incoming::Refused(refusal)) => replies::refused(output, negotiated, &refusal),
            Some(Incoming::Write { request, done_bytes, payload }) => {
                let start = usize::try_from(request.offset_bytes).unwrap() + done_bytes as usize;
                disk[start..][..payload.len()].copy_from_slice(payload);
                assert!(payload.len() <= server::PAYLOAD_BYTES);
                if done_bytes as usize + payload.len() == request.length_bytes as usize {
                    replies::done(output, request.cookie);
                }
            }
            Some(Incoming::Request(request)) => {
                let (offset, length) = (request.offset_bytes, request.length_bytes);
                let start = usize::try_from(offset).unwrap();
                match request.command {
                    Command::Read => {
                        replies::read(output, negotiated, request.cookie, offset, length);
                        output.extend_from_slice(&disk[start..][..length as usize]);
                    }
                    Command::BlockStatus => {
                        let extents = [Extent { length_bytes: length, status: 5 }];
                        let contexts: Vec<_> = negotiated.contexts.iter().collect();
                        for (place, context) in (1..).zip(&contexts) {
                            let is_last = place == contexts.len();
                            let cookie = request.cookie;
                            replies::block_status(output, cookie, *context, &extents, is_last);
                        }
                    }
                    Command::WriteZeroes => {
                        disk[start..][..length as usize].fill(0);
                        replies::done(output, request.cookie);
                    }
                    Command::Write
                    | Command::Disconnect
                    | Command::Flush
                    | Command::Trim
                    | Command::Attach
                    | Command::Await
                    | Command::Demote
                    | Command::Release
                    | Command::Tell
                    | Command::Cache => replies::done(output, request.cookie),
                }
            }
        }
        wire.consume(consumed);
        if is_over {
            return;
        }
    }
}

/// Events that the client has seen about one request.
#[derive(Default, Debug)]
struct Heard {
    data: Vec<u8>,
    error: Option<ErrorCode>,
    contexts: Vec<u32>,
}

fn listen(
    machine: &mut client::Replies,
    in_flight: &mut HashMap<u64, (RequestHeader, Heard)>,
    wire: &mut Wire<'_>,
    finished: &mut Vec<(RequestHeader, Heard)>,
) {
    loop {
        let shown = wire.bytes[..wire.shown].to_vec();
        let find = |cookie| in_flight.get(&cookie).map(|(header, _)| *header);
        let (consumed, event) = machine.next(&shown, find).unwrap();
        wire.consume(consumed);
        match event {
            None => return,
            Some(Event::Data { cookie, offset_bytes, bytes }) => {
                let (header, heard) = in_flight.get_mut(&cookie).unwrap();
                assert_eq!(offset_bytes, header.offset_bytes + heard.data.len() as u64);
                heard.data.extend_from_slice(bytes);
            }
            Some(Event::Extents { cookie, context, descriptors }) => {
                let (header, heard) = in_flight.get_mut(&cookie).unwrap();
                assert_eq!(descriptors.len(), 8);
                assert_eq!(descriptors[..4], header.length_bytes.to_be_bytes());
                heard.contexts.push(context);
            }
            Some(Event::Failed { cookie, error }) => {
                in_flight.get_mut(&cookie).unwrap().1.error = Some(error);
            }
            Some(Event::Done { cookie }) => finished.push(in_flight.remove(&cookie).unwrap()),
            Some(Event::Hole { .. }) => panic!("this server sends no holes"),
        }
    }
}

fn check_transmission(requests: &[RequestHeader], is_structured: bool, cuts: &[usize]) {
    let info = export("", SIZE_BYTES.into());
    let wanted = client::Wanted {
        export: String::new(),
        contexts: vec!["base:allocation".into(), "thermocline:tier".into()],
        ..client::Wanted::default()
    };
    let mut negotiated = negotiate(std::slice::from_ref(&info), wanted, &[999]).1.unwrap();
    if !is_structured {
        negotiated.is_structured = false;
        negotiated.flags &= !flag::SEND_DF;
        negotiated.contexts = server::Contexts::default();
    }
    let mut server = Requests::new(negotiated, &info);
    let mut disk = vec![0; SIZE_BYTES as usize];
    let mut model = disk.clone();
    let (mut to_server, mut to_client) = (Wire::new(cuts), Wire::new(cuts));
    let mut machine = client::Replies::default();
    let (mut in_flight, mut finished, mut expected) = (HashMap::new(), vec![], HashMap::new());
    for (cookie, header) in (0..).zip(requests) {
        let header = RequestHeader { cookie, ..*header };
        header.write(&mut to_server.bytes);
        let error = expected_error(&header, is_structured);
        let range = || {
            let start = usize::try_from(header.offset_bytes).unwrap();
            start..start + header.length_bytes as usize
        };
        let places = 0..u64::from(header.length_bytes);
        let payload: Vec<u8> = places.map(|place| pattern(cookie, place)).collect();
        if header.command == Command::Write {
            to_server.bytes.extend_from_slice(&payload);
        }
        let mut data = vec![];
        if error.is_none() && header.command == Command::Read {
            data.extend_from_slice(&model[range()]);
        } else if error.is_none() && header.command == Command::Write {
            model[range()].copy_from_slice(&payload);
        } else if error.is_none() && header.command == Command::WriteZeroes {
            model[range()].fill(0);
        }
        expected.insert(cookie, (error, data));
        in_flight.insert(cookie, (header, Heard::default()));
    }
    while !in_flight.is_empty() {
        let mut moved = to_server.advance();
        serve(&mut server, &negotiated, &mut disk, &mut to_server, &mut to_client.bytes);
        moved |= to_client.advance();
        listen(&mut machine, &mut in_flight, &mut to_client, &mut finished);
        assert!(moved, "both wait for each other");
    }
    assert_eq!(finished.len(), requests.len());
    for (header, heard) in finished {
        let (error, data) = &expected[&header.cookie];
        assert_eq!(heard.error, *error, "{header:?}");
        assert!(heard.data == *data, "{header:?}");
        let answers = if header.command == Command::BlockStatus && error.is_none() { 2 } else { 0 };
        assert_eq!(heard.contexts.len(), answers);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_request_has_the_answer_that_the_protocol_says(
        requests in prop::collection::vec(request(), 1..12),
        is_structured in any::<bool>(),
        cuts in prop::collection::vec(1..100_000_usize, 1..20),
    ) {
        check_transmission(&requests, is_structured, &cuts);
    }

    #[test]
    fn every_place_may_be_cut(
        requests in prop::collection::vec(
            request().prop_map(|it| RequestHeader { length_bytes: it.length_bytes % 64, ..it }), 1..6),
        is_structured in any::<bool>(),
    ) {
        check_transmission(&requests, is_structured, &[1]);
    }
}

/// Return the bytes from hexadecimal digits and quoted text, as in the protocol's document.
fn bytes(text: &str) -> Vec<u8> {
    let mut bytes = vec![];
    for word in text.split_whitespace() {
        if let Some(text) = word.strip_prefix('\'') {
            bytes.extend_from_slice(text.trim_end_matches('\'').as_bytes());
        } else {
            let digit = |place| u8::from_str_radix(&word[place..place + 2], 16).unwrap();
            bytes.extend((0..word.len()).step_by(2).map(digit));
        }
    }
    bytes
}

/// Plays a client's bytes to a server; returns what it answers after its greeting, and how it ends.
fn play(offer: &Offer<'_>, script: &[&str]) -> (Vec<u8>, Result<Step, ProtocolError>) {
    let mut output = vec![];
    let mut server = Handshake::new(&mut output);
    assert_eq!(output, bytes("'NBDMAGIC' 'IHAVEOPT' 0003"));
    output.clear();
    let input: Vec<u8> = script.iter().flat_map(|line| bytes(line)).collect();
    let mut rest = &input[..];
    loop {
        match server.step(offer, rest, &mut output) {
            Err(error) => return (output, Err(error)),
            Ok((consumed, step)) => {
                rest = &rest[consumed..];
                if step != Step::Answered {
                    assert!(rest.is_empty());
                    return (output, Ok(step));
                }
            }
        }
    }
}

#[test]
fn an_old_client_enters_by_name_and_gets_its_zeroes() {
    let exports = [export("a", 0x1234)];
    let offer = Offer { exports: &exports, tls: TlsMode::Off };
    let script = ["00000001", "'IHAVEOPT' 00000001 00000001 'a'"];
    let (answer, step) = play(&offer, &script);
    let mut expected = bytes("0000000000001234 0c6d");
    expected.extend([0; 124]);
    assert_eq!(answer, expected);
    assert!(matches!(step, Ok(Step::Enter(Negotiated { is_structured: false, .. }))));
    // Without the zeroes, if both sides do without; and without fixed newstyle.
    let (answer, _) = play(&offer, &["00000002", script[1]]);
    assert_eq!(answer, bytes("0000000000001234 0c6d"));
    let (_, step) = play(&offer, &["00000002", "'IHAVEOPT' 00000003 00000000"]);
    assert!(step.is_err());
}

#[test]
fn a_name_that_is_not_offered_is_answered_with_those_that_are() {
    let exports = [export("a", 1), export("bc", 2)];
    let offer = Offer { exports: &exports, tls: TlsMode::Off };
    let nameless = "'IHAVEOPT' 00000007 00000006 00000000 0000";
    let structured = "'IHAVEOPT' 00000008 00000000";
    let context = "'IHAVEOPT' 0000000a 00000009 00000001 'b' 00000000";
    for script in [vec!["00000003", nameless], vec!["00000003", structured, context]] {
        let answer = String::from_utf8_lossy(&play(&offer, &script).0).into_owned();
        let names = "there is no export of that name; this server has `a`, `bc`";
        assert!(answer.ends_with(names), "{answer}");
    }
    // The protocol bounds a message at 4096 bytes.
    let many: Vec<_> = (0..500).map(|number| export(&format!("volume-{number}"), 1)).collect();
    let offer = Offer { exports: &many, tls: TlsMode::Off };
    let (answer, _) = play(&offer, &["00000003", nameless]);
    assert!(answer.len() < 4096, "{}", answer.len());
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.ends_with(" that do not fit here: list them"), "{answer}");
}

#[test]
fn exports_are_listed_and_unknown_options_refused() {
    let exports = [export("a", 1), export("bc", 2)];
    let offer = Offer { exports: &exports, tls: TlsMode::Off };
    let (answer, step) = play(
        &offer,
        &[
            "00000003",
            "'IHAVEOPT' 00000003 00000000",
            "'IHAVEOPT' 00000042 00000003 '123'",
            "'IHAVEOPT' 00000002 00000000",
        ],
    );
    let mut expected = bytes("0003e889045565a9 00000003 00000002 0000000d 00000001 'a'");
    expected.extend_from_slice(b"export a");
    expected.extend(bytes("0003e889045565a9 00000003 00000002 0000000f 00000002 'bc'"));
    expected.extend_from_slice(b"export bc");
    expected.extend(bytes("0003e889045565a9 00000003 00000001 00000000"));
    expected.extend(bytes("0003e889045565a9 00000042 80000001 0000000e"));
    expected.extend_from_slice(b"unknown option");
    expected.extend(bytes("0003e889045565a9 00000002 00000001 00000000"));
    assert_eq!(answer, expected);
    assert_eq!(step, Ok(Step::Close));
}

/// Return the type of the last reply to an option.
fn last_reply(answer: &[u8]) -> u32 {
    let magic = bytes("0003e889045565a9");
    let start = (0..answer.len()).rfind(|start| answer[*start..].starts_with(&magic)).unwrap();
    u32::from_be_bytes(answer[start + 12..][..4].try_into().unwrap())
}

#[test]
fn each_wrong_option_has_its_error() {
    let exports = [export("a", 1)];
    let off = Offer { exports: &exports, tls: TlsMode::Off };
    let forced = Offer { exports: &exports, tls: TlsMode::Required };
    let structured = "'IHAVEOPT' 00000008 00000000";
    let long = format!("'IHAVEOPT' 00000006 00005000 {}", "00".repeat(0x5000));
    let (invalid, unknown) = (0x8000_0003, 0x8000_0006);
    for (offer, script, code) in [
        // Data where there must be none.
        (&off, vec!["'IHAVEOPT' 00000003 00000001 '1'"], invalid),
        (&off, vec!["'IHAVEOPT' 00000008 00000001 '1'"], invalid),
        // Names and counts that do not fit the length.
        (&off, vec!["'IHAVEOPT' 00000006 00000004 00000001"], invalid),
        (&off, vec!["'IHAVEOPT' 00000006 00000007 00000001 'a' 0001"], invalid),
        (&off, vec!["'IHAVEOPT' 00000006 00000009 00000001 'a' 0000 0000"], invalid),
        (&off, vec!["'IHAVEOPT' 00000007 00000007 00000001 'b' 0000"], unknown),
        (&off, vec![&long], 0x8000_0009),
        // Contexts without structured replies, of unknown exports, without a colon.
        (&off, vec!["'IHAVEOPT' 00000009 00000009 00000001 'a' 00000000"], invalid),
        (&off, vec!["'IHAVEOPT' 0000000a 00000009 00000001 'a' 00000000"], invalid),
        (&off, vec![structured, "'IHAVEOPT' 0000000a 00000009 00000001 'b' 00000000"], unknown),
        (
            &off,
            vec![structured, "'IHAVEOPT' 0000000a 0000000e 00000001 'a' 00000001 00000001 'x'"],
            invalid,
        ),
        // No TLS, or none yet.
        (&off, vec!["'IHAVEOPT' 00000005 00000000"], 0x8000_0002),
        (&forced, vec!["'IHAVEOPT' 00000005 00000001 '1'"], invalid),
        (&forced, vec!["'IHAVEOPT' 00000003 00000000"], 0x8000_0005),
        (&forced, vec!["'IHAVEOPT' 00000007 00000007 00000001 'a' 0000"], 0x8000_0005),
        (&forced, vec!["'IHAVEOPT' 00000099 00000000"], 0x8000_0005),
    ] {
        let (answer, step) = play(offer, &[&["00000003"], &script[..]].concat());
        assert_eq!(step, Ok(Step::More), "{script:?}");
        assert_eq!(last_reply(&answer), code, "{script:?}");
    }
}

#[test]
fn what_has_no_error_reply_ends_the_connection() {
    let exports = [export("a", 1)];
    let off = Offer { exports: &exports, tls: TlsMode::Off };
    let forced = Offer { exports: &exports, tls: TlsMode::Required };
    for (offer, script) in [
        (&off, vec!["00000004"]),
        (&off, vec!["00010000"]),
        (&off, vec!["00000003", "'IHAVENOT' 00000003 00000000"]),
        (&off, vec!["00000003", "'IHAVEOPT' 00000001 00000001 'b'"]),
        (&off, vec!["00000003", "'IHAVEOPT' 00000001 00005000"]),
        (&off, vec!["00000003", "'IHAVEOPT' 00000006 00100001"]),
        (&forced, vec!["00000003", "'IHAVEOPT' 00000001 00000001 'a'"]),
    ] {
        assert!(play(offer, &script).1.is_err(), "{script:?}");
    }
    let endless = vec!["'IHAVEOPT' 00000042 00000000"; 1025];
    assert!(play(&off, &[&["00000003"], &endless[..]].concat()).1.is_err());
}

#[test]
fn tls_makes_both_sides_forget() {
    let exports = [export("a", 1)];
    let offer = Offer { exports: &exports, tls: TlsMode::Required };
    let mut output = vec![];
    let mut server = Handshake::new(&mut output);
    let start = bytes("00000003 'IHAVEOPT' 00000005 00000000");
    let (flags_bytes, _) = server.step(&offer, &start, &mut output).unwrap();
    let (_, step) = server.step(&offer, &start[flags_bytes..], &mut output).unwrap();
    assert_eq!((step, last_reply(&output)), (Step::StartTls, 1));
    server.encrypted();
    for (option, code) in [
        ("'IHAVEOPT' 00000005 00000000", 0x8000_0003),
        ("'IHAVEOPT' 0000000a 00000009 00000001 'a' 00000000", 0x8000_0003),
        ("'IHAVEOPT' 00000007 00000007 00000001 'a' 0000", 1),
    ] {
        server.step(&offer, &bytes(option), &mut output).unwrap();
        assert_eq!(last_reply(&output), code, "{option}");
    }
}

#[test]
fn contexts_count_only_for_the_export_they_were_set_for() {
    let exports = [export("a", 1), export("b", 2)];
    let offer = Offer { exports: &exports, tls: TlsMode::Off };
    let set = "'IHAVEOPT' 0000000a 0000001c 00000001 'a' 00000001 0000000f 'base:allocation'";
    for (name, count) in [("a", 1), ("b", 0)] {
        let go = format!("'IHAVEOPT' 00000007 00000007 00000001 '{name}' 0000");
        let script = ["00000003", "'IHAVEOPT' 00000008 00000000", set, &go];
        let (_, step) = play(&offer, &script);
        let Ok(Step::Enter(negotiated)) = step else { panic!("{step:?}") };
        assert_eq!(negotiated.contexts.iter().count(), count, "{name}");
    }
}

#[test]
fn requests_and_replies_look_as_documented() {
    let negotiated = Negotiated {
        export: 0,
        flags: ALL_FLAGS | flag::SEND_DF,
        is_structured: true,
        contexts: server::Contexts::default(),
        cooperates: false,
        takes_pushes: false,
    };
    let mut requests = Requests::new(negotiated, &export("", 1 << 20));
    let input = bytes("25609513 0001 0001 1122334455667788 0000000000000200 00000003 'xyz'");
    let (consumed, incoming) = requests.next(&input).unwrap();
    assert_eq!(consumed, input.len());
    let Some(Incoming::Write { request, done_bytes: 0, payload: b"xyz" }) = incoming else {
        panic!("{incoming:?}")
    };
    assert_eq!((request.cookie, request.offset_bytes), (0x1122_3344_5566_7788, 512));
    assert!(request.has(command_flag::FUA));
    let mut output = vec![];
    replies::done(&mut output, request.cookie);
    assert_eq!(output, bytes("67446698 00000000 1122334455667788"));
    output.clear();
    replies::read(&mut output, &negotiated, 1, 512, 16);
    assert_eq!(output, bytes("668e33ef 0001 0001 0000000000000001 00000018 0000000000000200"));
    output.clear();
    replies::failed(&mut output, &negotiated, 1, Command::Read, ErrorCode::Io);
    assert_eq!(output, bytes("668e33ef 0001 8001 0000000000000001 00000006 00000005 0000"));
    output.clear();
    let extents = [Extent { length_bytes: 4096, status: 3 }];
    replies::block_status(&mut output, 2, Context::Allocation, &extents, false);
    assert_eq!(
        output,
        bytes("668e33ef 0000 0005 0000000000000002 0000000c 00000001 00001000 00000003")
    );
}

#[test]
fn what_is_no_request_ends_the_connection() {
    let negotiated = Negotiated {
        export: 0,
        flags: ALL_FLAGS,
        is_structured: false,
        contexts: server::Contexts::default(),
        cooperates: false,
        takes_pushes: false,
    };
    for input in [
        "25609514 0000 0000 0000000000000000 0000000000000000 00000000",
        "25609513 0000 0001 0000000000000000 0000000000000000 02000001",
    ] {
        let mut requests = Requests::new(negotiated, &export("", 1 << 30));
        assert!(requests.next(&bytes(input)).is_err(), "{input}");
    }
}

#[test]
fn a_client_does_not_believe_everything() {
    let read = RequestHeader {
        cookie: 7,
        command: Command::Read,
        flags: 0,
        offset_bytes: 4096,
        length_bytes: 512,
    };
    let find = |cookie| (cookie == 7).then_some(read);
    for (input, what) in [
        ("12345678 00000000 0000000000000007", "no magic"),
        ("67446698 00000000 0000000000000008", "another request"),
        ("668e33ef 0001 0001 0000000000000007 00000009 0000000000000fff 00", "before the read"),
        ("668e33ef 0001 0001 0000000000000007 00000209 0000000000001000", "beyond the read"),
        ("668e33ef 0001 0001 0000000000000007 00000008 0000000000001000", "no data"),
        ("668e33ef 0001 0002 0000000000000007 0000000c 0000000000001000 00000000", "empty hole"),
        ("668e33ef 0000 0000 0000000000000007 00000000", "nothing, and not the end"),
        ("668e33ef 0001 0005 0000000000000007 0000000c 00000001 00001000 00000000", "status"),
        ("668e33ef 0001 8001 0000000000000007 00000006 00000000 0000", "an error of zero"),
        ("668e33ef 0001 8001 0000000000000007 00000006 00000005 0001", "a message too long"),
        ("668e33ef 0001 0042 0000000000000007 00000000", "an unknown chunk"),
        ("668e33ef 0001 8001 0000000000000007 00100000", "a very long chunk"),
    ] {
        let mut replies = client::Replies::default();
        assert!(replies.next(&bytes(input), find).is_err(), "{what}");
    }
    let hole = bytes("668e33ef 0001 0002 0000000000000007 0000000c 0000000000001000 00000200");
    let mut replies = client::Replies::default();
    let (consumed, event) = replies.next(&hole, find).unwrap();
    let expected = Event::Hole { cookie: 7, offset_bytes: 4096, length_bytes: 512 };
    assert_eq!((consumed, event), (hole.len(), Some(expected)));
    assert_eq!(replies.next(&[], find), Ok((0, Some(Event::Done { cookie: 7 }))));
}

/// Negotiates with a client that wants to cooperate.
fn cooperating(is_offered: bool) -> Negotiated {
    let exports = [ExportInfo { takes_cooperation: is_offered, ..export("a", 1 << 20) }];
    let offer = Offer { exports: &exports, tls: TlsMode::Off };
    let set =
        "'IHAVEOPT' 0000000a 00000026 00000001 'a' 00000001 00000019 'x-thermocline:cooperation'";
    let go = "'IHAVEOPT' 00000007 00000007 00000001 'a' 0000";
    let script = ["00000003", "'IHAVEOPT' 00000008 00000000", set, go];
    let (output, step) = play(&offer, &script);
    let confirmed = bytes("0003e889045565a9 0000000a 00000004 0000001d 00000003 'x-thermocline:'");
    let is_confirmed = output.windows(confirmed.len()).any(|window| window == confirmed);
    assert_eq!(is_confirmed, is_offered);
    let Ok(Step::Enter(negotiated)) = step else { panic!("{step:?}") };
    assert!(negotiated.contexts.is_empty(), "no block status comes of it");
    negotiated
}

#[test]
fn clients_cooperate_where_that_is_offered() {
    for is_offered in [true, false] {
        let wanted = client::Wanted {
            export: "a".into(),
            contexts: vec!["x-thermocline:cooperation".into()],
            ..client::Wanted::default()
        };
        let exports = [ExportInfo { takes_cooperation: is_offered, ..export("a", 1 << 20) }];
        let (agreed, negotiated) = negotiate(&exports, wanted, &[7]);
        assert_eq!(agreed.unwrap().contexts.len(), usize::from(is_offered));
        assert_eq!(negotiated.unwrap().cooperates, is_offered);
        assert_eq!(cooperating(is_offered).cooperates, is_offered);
    }
}

#[test]
fn commands_of_cooperation_look_as_documented() {
    let incoming = |is_offered, input: &str| {
        let mut requests = Requests::new(cooperating(is_offered), &export("a", 1 << 20));
        let bytes = bytes(input);
        let (consumed, incoming) = requests.next(&bytes).unwrap();
        let incoming = incoming.unwrap();
        let is_refused = matches!(incoming, Incoming::Refused(_));
        assert_eq!(consumed, if is_refused { 28 } else { bytes.len() }, "{input}");
        match incoming {
            Incoming::Request(request) => Ok((request.command, 0)),
            Incoming::Write { request, payload, .. } => Ok((request.command, payload.len())),
            Incoming::Refused(refusal) => Err(refusal.error),
            Incoming::Disconnect => panic!("nobody leaves"),
        }
    };
    let cookie = "0000000000000007";
    let attach = format!("25609513 0000 7463 {cookie} 0000000900001000 00001000");
    let wait = format!("25609513 0000 7464 {cookie} 0000000000000000 00000000");
    let demote = format!("25609513 0000 7465 {cookie} 0000000000000200 00000003 'xyz'");
    let release = format!("25609513 0000 7466 {cookie} 0000000000001000 00001000");
    let tell = format!("25609513 0000 7467 {cookie} ffffffffffffff00 00000000");
    for (input, command, payload_bytes) in [
        (&tell, Command::Tell, 0),
        (&attach, Command::Attach, 0),
        (&wait, Command::Await, 0),
        (&demote, Command::Demote, 3),
        (&release, Command::Release, 0),
    ] {
        assert_eq!(incoming(true, input), Ok((command, payload_bytes)));
    }
    // Where nothing was negotiated, they are commands that nobody knows.
    for input in [&attach, &wait, &release, &tell] {
        assert_eq!(incoming(false, input), Err(ErrorCode::Invalid));
    }
    let held = format!("25609513 8000 0001 {cookie} 0000000000000000 00000003 'xyz'");
    assert_eq!(incoming(true, &held), Ok((Command::Write, 3)));
    assert_eq!(incoming(false, &held), Err(ErrorCode::Invalid));
    for wrong in [
        format!("25609513 0000 7464 {cookie} 0000000000000000 00000001"),
        format!("25609513 0000 7465 {cookie} 00000000000fffff 00000003 'xyz'"),
        format!("25609513 0000 7466 {cookie} ffffffffffffffff 00001000"),
        format!("25609513 0000 7468 {cookie} 0000000000000000 00000000"),
    ] {
        assert_eq!(incoming(true, &wrong), Err(ErrorCode::Invalid), "{wrong}");
    }
}

#[test]
fn pages_that_a_client_keeps_have_a_number_before_their_bytes() {
    let mut output = vec![];
    replies::answers(&mut output, 7, 0x1000, &[0, 1 << 40, u64::MAX]);
    let parts = "668e33ef 0000 0005 0000000000000007 00000024 00000003 0000000000001000
        0000000000000000 0000010000000000 ffffffffffffffff";
    assert_eq!(output, bytes(parts));
    for (command, is_right) in
        [(Command::Read, true), (Command::Write, true), (Command::Flush, false)]
    {
        let request =
            RequestHeader { cookie: 7, command, flags: 0, offset_bytes: 0, length_bytes: 0x4000 };
        let find = |cookie| (cookie == 7).then_some(request);
        let mut replies = client::Replies::default();
        let event = replies.next(&output, find).map(|(_, event)| event);
        let descriptors = &output[24..];
        let expected = Some(Event::Extents { cookie: 7, context: 3, descriptors });
        assert_eq!(event.ok(), is_right.then_some(expected), "{command:?}");
    }
    output.clear();
    replies::done_in_parts(&mut output, 7);
    assert_eq!(output, bytes("668e33ef 0001 0000 0000000000000007 00000000"));
}

#[test]
fn pages_to_be_given_up_are_named_by_where_they_begin() {
    let mut output = vec![];
    replies::recalls(&mut output, 7, &[4096, 1 << 40]);
    let answer =
        "668e33ef 0001 0005 0000000000000007 00000014 00000003 0000000000001000 0000010000000000";
    assert_eq!(output, bytes(answer));
    let wait = RequestHeader {
        cookie: 7,
        command: Command::Await,
        flags: 0,
        offset_bytes: 0,
        length_bytes: 0,
    };
    let find = |cookie| (cookie == 7).then_some(wait);
    let mut replies = client::Replies::default();
    let (consumed, event) = replies.next(&output, find).unwrap();
    let Some(Event::Extents { cookie: 7, context: 3, descriptors }) = event else {
        panic!("{event:?}")
    };
    assert_eq!(descriptors, bytes("0000000000001000 0000010000000000"));
    assert_eq!(replies.next(&output[consumed..], find).unwrap().1, Some(Event::Done { cookie: 7 }));
    output.clear();
    replies::recalls(&mut output, 7, &[]);
    assert_eq!(output, bytes("67446698 00000000 0000000000000007"));
}

/// Negotiates the extensions of these names with a client.
fn extended(names: &[&str], is_offered: bool) -> (usize, Negotiated) {
    let wanted = client::Wanted {
        export: "a".into(),
        contexts: names.iter().map(|name| format!("x-thermocline:{name}")).collect(),
        ..client::Wanted::default()
    };
    let exports = [ExportInfo { takes_cooperation: is_offered, ..export("a", 1 << 20) }];
    let (agreed, negotiated) = negotiate(&exports, wanted, &[7]);
    (agreed.unwrap().contexts.len(), negotiated.unwrap())
}

#[test]
fn pages_come_unasked_where_both_sides_say_so() {
    for (names, is_offered, expected) in [
        (&["cooperation", "pushes"][..], true, (2, true, true)),
        (&["cooperation"], true, (1, true, false)),
        // On its own, it says nothing.
        (&["pushes"], true, (1, false, false)),
        (&["cooperation", "pushes"], false, (0, false, false)),
    ] {
        let (confirmed, negotiated) = extended(names, is_offered);
        let found = (confirmed, negotiated.cooperates, negotiated.takes_pushes);
        assert_eq!(found, expected, "{names:?}");
        let mut requests = Requests::new(negotiated, &export("a", 1 << 20));
        for command in ["7463", "7467"] {
            let input =
                bytes(&format!("25609513 8000 {command} 0000000000000007 {:016x} 00001000", 1));
            let (_, incoming) = requests.next(&input).unwrap();
            let is_taken = matches!(incoming, Some(Incoming::Request(_)));
            assert_eq!(is_taken, expected.2, "{names:?} {command}");
        }
    }
}

#[test]
fn a_page_that_comes_unasked_is_named_before_its_bytes() {
    let mut output = vec![];
    replies::push(&mut output, 7, Pushed { offset_bytes: 0x1000, number: 0x2a }, 8);
    let parts = "668e33ef 0000 0005 0000000000000007 00000014 00000004 0000000000001000
        000000000000002a 668e33ef 0001 0001 0000000000000007 00000010 0000000000001000";
    assert_eq!(output, bytes(parts));
    assert_eq!(output.len(), replies::PUSH_HEADER_BYTES);
    output.extend_from_slice(b"12345678");
    let demote = RequestHeader {
        cookie: 7,
        command: Command::Demote,
        flags: 0,
        offset_bytes: 0x8000,
        length_bytes: 8,
    };
    let find = |cookie| (cookie == 7).then_some(demote);
    let mut replies = client::Replies::default();
    let (mut rest, mut found) = (&output[..], vec![]);
    while let (consumed, Some(event)) = replies.next(rest, find).unwrap() {
        rest = &rest[consumed..];
        if let Event::Extents { cookie: 7, context: 4, descriptors } = event {
            assert_eq!(descriptors, bytes("0000000000001000 000000000000002a"));
        } else if let Event::Data { cookie: 7, offset_bytes: 0x1000, bytes } = event {
            found.extend_from_slice(bytes);
        } else {
            assert!(matches!(event, Event::Done { cookie: 7 }), "{event:?}");
            break;
        }
    }
    assert_eq!((found, rest.len()), (b"12345678".to_vec(), 0));
}

#[test]
fn malformed_pages_that_come_unasked_end_the_connection() {
    let cookie = "0000000000000007";
    let name = format!("668e33ef 0000 0005 {cookie} 00000014 00000004 {cookie} {cookie}");
    let data = format!("668e33ef 0001 0001 {cookie} 00000010 0000000000001000");
    for (command, input, is_right) in [
        (Command::Demote, name.clone(), true),
        (Command::Release, name.clone(), false),
        (Command::Tell, name, false),
        // The last part; another number of the context; one number more.
        (
            Command::Demote,
            format!("668e33ef 0001 0005 {cookie} 00000014 00000004 {cookie} {cookie}"),
            false,
        ),
        (
            Command::Demote,
            format!("668e33ef 0000 0005 {cookie} 00000014 00000003 {cookie} {cookie}"),
            false,
        ),
        (
            Command::Demote,
            format!("668e33ef 0000 0005 {cookie} 0000001c 00000004 {cookie} {cookie} {cookie}"),
            false,
        ),
        (Command::Demote, data.clone(), true),
        (Command::Release, data, false),
        // Less than a page, more than one, and between two.
        (Command::Demote, format!("668e33ef 0001 0001 {cookie} 0000000f 0000000000001000"), false),
        (Command::Demote, format!("668e33ef 0001 0001 {cookie} 00000018 0000000000001000"), false),
        (Command::Demote, format!("668e33ef 0001 0001 {cookie} 00000010 0000000000001001"), false),
        (Command::Demote, format!("668e33ef 0001 0002 {cookie} 0000000c {cookie} 00000008"), false),
    ] {
        let request =
            RequestHeader { cookie: 7, command, flags: 0, offset_bytes: 0x8000, length_bytes: 8 };
        let find = |cookie| (cookie == 7).then_some(request);
        let found =
            client::Replies::default().next(&bytes(&input), find).map(|(_, event)| event.is_some());
        assert_eq!(found.unwrap_or(false), is_right, "{command:?} {input}");
    }
}
