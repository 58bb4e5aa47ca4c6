//! Fixed newstyle negotiation, as the server sees it.

use super::super::ProtocolError;
use super::super::wire::{Fields, Put as _, length_u32};
use crate::protocol::{
    CLIENT_FLAGS_BYTES, Context, EXPORT_PADDING_BYTES, ExportInfo, GREETING_MAGIC,
    OPTION_BYTES_MAX, OPTION_HEADER_BYTES, OPTION_MAGIC, OPTION_REPLY_MAGIC, STRING_BYTES_MAX,
    cooperation, handshake_flag, info, option, option_reply, transmission_flag,
};

/// A client that sends more options than this is not negotiating.
const OPTIONS_MAX: u32 = 1024;

/// An option longer than this many bytes is not even skipped.
const OPTION_SKIP_BYTES_MAX: u32 = 1 << 20;

/// Flags of the greeting.
const SERVER_FLAGS: u16 = handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES;

/// Use of TLS by clients: off, allowed or required.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// TLS is not offered ("NOTLS").
    #[default]
    Off,
    /// Clients may ("SELECTIVETLS", no export insists).
    Allowed,
    /// Clients must ("FORCEDTLS").
    Required,
}

/// The names of exports in an error take no more bytes: the protocol allows a message 4096.
const NAMES_BYTES_MAX: usize = 2048;

/// Offer of a server.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// Its exports. The empty name stands for the only one, if there is one only.
    pub exports: &'a [ExportInfo],
    /// Use of TLS by clients.
    pub tls: TlsMode,
}

impl Offer<'_> {
    fn find(&self, name: &[u8]) -> Option<usize> {
        if name.is_empty() && self.exports.len() == 1 {
            return Some(0);
        }
        self.exports.iter().position(|export| export.name.as_bytes() == name)
    }

    /// Says that a client asked for an export that is not offered, and names those that are.
    fn unknown_export(&self) -> String {
        let mut text = "there is no export of that name; this server has".to_owned();
        for (index, export) in self.exports.iter().enumerate() {
            let separator = if index == 0 { " " } else { ", " };
            let item = match export.name.as_str() {
                "" => format!("{separator}one without a name"),
                name => format!("{separator}`{name}`"),
            };
            if text.len() + item.len() > NAMES_BYTES_MAX {
                let others = self.exports.len() - index;
                return format!("{text}{separator}{others} that do not fit here: list them");
            }
            text.push_str(&item);
        }
        text
    }
}

/// Terms on which both sides agreed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// The place of the export in the offer.
    pub export: usize,
    /// Its transmission flags, as the client was told.
    pub flags: u16,
    /// `true` if replies are structured.
    pub is_structured: bool,
    /// The metadata contexts that the client selected.
    pub contexts: Contexts,
    /// `true` if the client [cooperates](cooperation).
    pub cooperates: bool,
    /// `true` if it also takes pages that it did not ask for.
    pub takes_pushes: bool,
}

/// A set of metadata contexts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contexts {
    selected: [bool; Context::ALL.len()],
    /// `true` if the name of the extension for clients that cooperate is among them.
    has_cooperation: bool,
    /// `true` if that of pages which the client did not ask for is among them.
    has_pushes: bool,
}

impl Contexts {
    fn insert(&mut self, context: Context) {
        for (is_selected, other) in self.selected.iter_mut().zip(Context::ALL) {
            *is_selected |= other == context;
        }
    }

    /// Iterate over the contexts in the set.
    pub fn iter(self) -> impl Iterator<Item = Context> {
        Context::ALL.into_iter().zip(self.selected).filter(|(_, is_in)| *is_in).map(|(it, _)| it)
    }

    /// Return `true` if there are none.
    pub fn is_empty(self) -> bool {
        self.iter().next().is_none()
    }
}

/// Next action after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The message is not complete; show it again with more behind it.
    More,
    /// A message was answered; there may be another.
    Answered,
    /// Send what was answered, then everything goes through TLS; call [`Handshake::encrypted`].
    StartTls,
    /// Send what was answered, then requests follow.
    Enter(Negotiated),
    /// Send what was answered, then close.
    Close,
}

/// The negotiation with one client.
#[derive(Clone, Debug)]
pub struct Handshake {
    state: State,
    /// The [`handshake_flag`]s that the client set.
    client_flags: u16,
    is_encrypted: bool,
    is_structured: bool,
    /// The name of the export for which contexts were selected: the offer may change meanwhile.
    contexts: Option<(String, Contexts)>,
    options: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    ClientFlags,
    Option,
    /// The data of an option that was refused unread.
    Skip(u32),
}

/// An option with all its data.
#[derive(Clone, Copy)]
struct OptionMessage<'a> {
    number: u32,
    data: &'a [u8],
}

/// The names in the data of `INFO` and `GO`, or of the meta context options.
struct Named<'a> {
    name: &'a [u8],
    rest: Fields<'a>,
}

impl Handshake {
    /// Begins by appending the greeting to `output`.
    pub fn new(output: &mut Vec<u8>) -> Self {
        output.put_u64(GREETING_MAGIC);
        output.put_u64(OPTION_MAGIC);
        output.put_u16(SERVER_FLAGS);
        Self {
            state: State::ClientFlags,
            client_flags: 0,
            is_encrypted: false,
            is_structured: false,
            contexts: None,
            options: 0,
        }
    }

    /// Takes one message off `input`, if it is complete, and appends the answer to `output`.
    /// Returns how many bytes were consumed and what comes next.
    ///
    /// # Errors
    /// If the client breaks a rule for which the protocol has no error reply.
    pub fn step(
        &mut self,
        offer: &Offer<'_>,
        input: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<(usize, Step), ProtocolError> {
        match self.state {
            State::ClientFlags => {
                let Some(flags) = Fields::new(input).u32() else { return Ok((0, Step::More)) };
                self.take_client_flags(flags)?;
                Ok((CLIENT_FLAGS_BYTES, Step::Answered))
            }
            State::Option => self.take_option(offer, input, output),
            State::Skip(remaining) => {
                let skipped = input.len().min(remaining as usize);
                let rest = remaining - length_u32(skipped);
                self.state = if rest == 0 { State::Option } else { State::Skip(rest) };
                Ok((skipped, if rest == 0 { Step::Answered } else { Step::More }))
            }
        }
    }

    /// Start over under TLS: nothing that was negotiated before counts.
    pub fn encrypted(&mut self) {
        // The rest is forgotten, as the protocol asks: somebody in between may have said it.
        self.is_encrypted = true;
        self.is_structured = false;
        self.contexts = None;
    }

    fn take_client_flags(&mut self, flags: u32) -> Result<(), ProtocolError> {
        self.client_flags = u16::try_from(flags)
            .ok()
            .filter(|flags| flags & !SERVER_FLAGS == 0)
            .ok_or(ProtocolError::ClientFlags { flags })?;
        self.state = State::Option;
        Ok(())
    }

    fn take_option(
        &mut self,
        offer: &Offer<'_>,
        input: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<(usize, Step), ProtocolError> {
        let mut fields = Fields::new(input);
        let Some(magic) = fields.u64() else { return Ok((0, Step::More)) };
        if magic != OPTION_MAGIC {
            return Err(ProtocolError::Magic {
                what: "an option",
                found: magic,
                expected: OPTION_MAGIC,
            });
        }
        let (Some(number), Some(length)) = (fields.u32(), fields.u32()) else {
            return Ok((0, Step::More));
        };
        if length > OPTION_SKIP_BYTES_MAX {
            return Err(ProtocolError::TooLong {
                what: "an option",
                length: length.into(),
                limit: OPTION_SKIP_BYTES_MAX.into(),
            });
        }
        if self.client_flags & handshake_flag::FIXED_NEWSTYLE == 0 && number != option::EXPORT_NAME
        {
            return Err(ProtocolError::Unexpected(
                "an option other than EXPORT_NAME without fixed newstyle negotiation",
            ));
        }
        let data_bytes = usize::try_from(length).expect("at most a mebibyte");
        if data_bytes > OPTION_BYTES_MAX {
            return self.refuse_unread(number, length, output);
        }
        let Some(data) = fields.bytes(data_bytes) else { return Ok((0, Step::More)) };
        self.count_option()?;
        let step = self.answer(offer, OptionMessage { number, data }, output)?;
        Ok((OPTION_HEADER_BYTES + data_bytes, step))
    }

    fn count_option(&mut self) -> Result<(), ProtocolError> {
        self.options += 1;
        if self.options > OPTIONS_MAX {
            return Err(ProtocolError::Unexpected("more than 1024 options"));
        }
        Ok(())
    }

    fn refuse_unread(
        &mut self,
        number: u32,
        length: u32,
        output: &mut Vec<u8>,
    ) -> Result<(usize, Step), ProtocolError> {
        if number == option::EXPORT_NAME {
            return Err(ProtocolError::TooLong {
                what: "an export name",
                length: length.into(),
                limit: STRING_BYTES_MAX as u64,
            });
        }
        self.count_option()?;
        if number == option::SET_META_CONTEXT {
            self.contexts = None;
        }
        put_error(output, number, option_reply::TOO_BIG, "the option is longer than 16 KiB");
        // Its bytes pass by without being kept, and the client may go on.
        self.state = State::Skip(length);
        Ok((OPTION_HEADER_BYTES, Step::Answered))
    }

    fn answer(
        &mut self,
        offer: &Offer<'_>,
        message: OptionMessage<'_>,
        output: &mut Vec<u8>,
    ) -> Result<Step, ProtocolError> {
        let OptionMessage { number, data } = message;
        let needs_tls = offer.tls == TlsMode::Required && !self.is_encrypted;
        match number {
            option::EXPORT_NAME => return self.enter_by_name(offer, data, needs_tls, output),
            option::ABORT => {
                put_reply(output, number, option_reply::ACK, &[]);
                return Ok(Step::Close);
            }
            option::START_TLS => return Ok(self.start_tls(offer, data, output)),
            _ if needs_tls => {
                put_error(output, number, option_reply::TLS_REQUIRED, "send STARTTLS first");
            }
            option::LIST => list(offer, data, output),
            option::INFO | option::GO => {
                if let Some(negotiated) = self.describe(offer, message, output)
                    && number == option::GO
                {
                    return Ok(Step::Enter(negotiated));
                }
            }
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.is_structured = true;
                put_reply(output, number, option_reply::ACK, &[]);
            }
            option::STRUCTURED_REPLY => {
                put_error(output, number, option_reply::INVALID, "this option has no data");
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                self.meta_contexts(offer, message, output);
            }
            _ => put_error(output, number, option_reply::UNSUPPORTED, "unknown option"),
        }
        Ok(Step::Answered)
    }

    /// Answer `NBD_OPT_EXPORT_NAME`, which can only fail by closing the connection.
    fn enter_by_name(
        &self,
        offer: &Offer<'_>,
        name: &[u8],
        needs_tls: bool,
        output: &mut Vec<u8>,
    ) -> Result<Step, ProtocolError> {
        let refused = |reason| ProtocolError::Export { name: excerpt(name), reason };
        // This option has no reply that says so: the connection ends.
        if needs_tls {
            return Err(refused("TLS is required"));
        }
        let index = offer.find(name).ok_or_else(|| refused("there is none of that name"))?;
        let negotiated = self.negotiated(offer, index);
        output.put_u64(offer.exports[index].size_bytes);
        output.put_u16(negotiated.flags);
        if self.client_flags & handshake_flag::NO_ZEROES == 0 {
            output.resize(output.len() + EXPORT_PADDING_BYTES, 0);
        }
        Ok(Step::Enter(negotiated))
    }

    fn start_tls(&self, offer: &Offer<'_>, data: &[u8], output: &mut Vec<u8>) -> Step {
        let error = if offer.tls == TlsMode::Off {
            Some((option_reply::POLICY, "this server has no TLS"))
        } else if self.is_encrypted {
            Some((option_reply::INVALID, "TLS is up already"))
        } else if !data.is_empty() {
            Some((option_reply::INVALID, "this option has no data"))
        } else {
            None
        };
        if let Some((code, text)) = error {
            put_error(output, option::START_TLS, code, text);
            return Step::Answered;
        }
        put_reply(output, option::START_TLS, option_reply::ACK, &[]);
        Step::StartTls
    }

    /// Answer `NBD_OPT_INFO` and `NBD_OPT_GO`.
    fn describe(
        &self,
        offer: &Offer<'_>,
        message: OptionMessage<'_>,
        output: &mut Vec<u8>,
    ) -> Option<Negotiated> {
        let number = message.number;
        let Some((named, wanted)) = named(message.data).and_then(|named| {
            let wanted = info_requests(named.rest)?;
            Some((named, wanted))
        }) else {
            put_error(output, number, option_reply::INVALID, "lengths do not add up");
            return None;
        };
        let Some(index) = offer.find(named.name) else {
            put_error(output, number, option_reply::UNKNOWN, &offer.unknown_export());
            return None;
        };
        let export = &offer.exports[index];
        let negotiated = self.negotiated(offer, index);
        let mut item = Vec::with_capacity(32);
        item.put_u16(info::EXPORT);
        item.put_u64(export.size_bytes);
        item.put_u16(negotiated.flags);
        put_reply(output, number, option_reply::INFO, &item);
        for kind in [info::NAME, info::DESCRIPTION, info::BLOCK_SIZE] {
            let is_wanted = wanted.chunks_exact(2).any(|field| field == kind.to_be_bytes());
            if !is_wanted || (kind == info::DESCRIPTION && export.description.is_empty()) {
                continue;
            }
            item.clear();
            item.put_u16(kind);
            match kind {
                info::NAME => item.extend_from_slice(export.name.as_bytes()),
                info::DESCRIPTION => item.extend_from_slice(export.description.as_bytes()),
                _ => {
                    item.put_u32(export.block_sizes.minimum_bytes);
                    item.put_u32(export.block_sizes.preferred_bytes);
                    item.put_u32(export.block_sizes.maximum_bytes);
                }
            }
            put_reply(output, number, option_reply::INFO, &item);
        }
        put_reply(output, number, option_reply::ACK, &[]);
        Some(negotiated)
    }

    fn negotiated(&self, offer: &Offer<'_>, export: usize) -> Negotiated {
        let mut flags = offer.exports[export].flags | transmission_flag::HAS_FLAGS;
        flags &= !transmission_flag::SEND_DF;
        if self.is_structured {
            flags |= transmission_flag::SEND_DF;
        }
        let contexts = match &self.contexts {
            // Contexts that were selected for another export do not count.
            Some((of, contexts)) if *of == offer.exports[export].name => *contexts,
            _ => Contexts::default(),
        };
        let cooperates = contexts.has_cooperation;
        let takes_pushes = cooperates && contexts.has_pushes;
        let is_structured = self.is_structured;
        Negotiated { export, flags, is_structured, contexts, cooperates, takes_pushes }
    }

    /// Answer `NBD_OPT_LIST_META_CONTEXT` and `NBD_OPT_SET_META_CONTEXT`.
    fn meta_contexts(
        &mut self,
        offer: &Offer<'_>,
        message: OptionMessage<'_>,
        output: &mut Vec<u8>,
    ) {
        let OptionMessage { number, data } = message;
        let is_set = number == option::SET_META_CONTEXT;
        // Also if this one fails: a former selection counts no more.
        if is_set {
            self.contexts = None;
        }
        if !self.is_structured {
            put_error(output, number, option_reply::INVALID, "ask for structured replies first");
            return;
        }
        let Some((named, mut contexts)) = named(data).and_then(|named| {
            let contexts = matching_contexts(named.rest, is_set)?;
            Some((named, contexts))
        }) else {
            put_error(output, number, option_reply::INVALID, "lengths or a query do not add up");
            return;
        };
        let Some(index) = offer.find(named.name) else {
            put_error(output, number, option_reply::UNKNOWN, &offer.unknown_export());
            return;
        };
        contexts.has_cooperation &= offer.exports[index].takes_cooperation;
        contexts.has_pushes &= offer.exports[index].takes_cooperation;
        let extensions = [
            (contexts.has_cooperation, cooperation::CONTEXT_ID, cooperation::CONTEXT_NAME),
            (contexts.has_pushes, cooperation::PUSHES_ID, cooperation::PUSHES_NAME),
        ];
        let extensions = extensions.into_iter().filter(|(is_in, ..)| *is_in);
        let extensions = extensions.map(|(_, id, name)| (id, name));
        let known = contexts.iter().map(|context| (context.id(), context.name()));
        for (id, name) in known.chain(extensions) {
            let mut item = Vec::with_capacity(32);
            item.put_u32(if is_set { id } else { 0 });
            item.extend_from_slice(name.as_bytes());
            put_reply(output, number, option_reply::META_CONTEXT, &item);
        }
        if is_set {
            self.contexts = Some((offer.exports[index].name.clone(), contexts));
        }
        put_reply(output, number, option_reply::ACK, &[]);
    }
}

/// Answer `NBD_OPT_LIST`.
fn list(offer: &Offer<'_>, data: &[u8], output: &mut Vec<u8>) {
    if !data.is_empty() {
        put_error(output, option::LIST, option_reply::INVALID, "this option has no data");
        return;
    }
    for export in offer.exports {
        let mut item = Vec::with_capacity(4 + export.name.len() + export.description.len());
        item.put_u32(length_u32(export.name.len()));
        item.extend_from_slice(export.name.as_bytes());
        item.extend_from_slice(export.description.as_bytes());
        put_reply(output, option::LIST, option_reply::SERVER, &item);
    }
    put_reply(output, option::LIST, option_reply::ACK, &[]);
}

/// Return the export's name and what follows it.
fn named(data: &[u8]) -> Option<Named<'_>> {
    let mut rest = Fields::new(data);
    let name = rest.string()?;
    (name.len() <= STRING_BYTES_MAX).then_some(Named { name, rest })
}

/// Return the information requests of `INFO` and `GO`, two bytes each, if they fill the data
/// exactly.
fn info_requests(mut fields: Fields<'_>) -> Option<&[u8]> {
    let count = usize::from(fields.u16()?);
    let requests = fields.rest();
    (requests.len() == 2 * count).then_some(requests)
}

/// Return the contexts that the queries mean, if they are well-formed and fill the data exactly.
fn matching_contexts(mut fields: Fields<'_>, is_set: bool) -> Option<Contexts> {
    let count = fields.u32()?;
    let mut contexts = Contexts::default();
    if count == 0 && !is_set {
        let selected = [true; Context::ALL.len()];
        contexts = Contexts { selected, has_cooperation: true, has_pushes: true };
    }
    for _ in 0..count {
        let query = fields.string()?;
        if query.len() > STRING_BYTES_MAX || !query.contains(&b':') {
            return None;
        }
        // `base:` lists everything of a namespace, and selects nothing.
        let is_wildcard = !is_set && query.ends_with(b":");
        let is_meant = |name: &str| {
            let name = name.as_bytes();
            query == name || (is_wildcard && name.starts_with(query))
        };
        for context in Context::ALL {
            if is_meant(context.name()) {
                contexts.insert(context);
            }
        }
        contexts.has_cooperation |= is_meant(cooperation::CONTEXT_NAME);
        contexts.has_pushes |= is_meant(cooperation::PUSHES_NAME);
    }
    fields.is_empty().then_some(contexts)
}

fn put_reply(output: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    output.put_u64(OPTION_REPLY_MAGIC);
    output.put_u32(option);
    output.put_u32(kind);
    output.put_u32(length_u32(data.len()));
    output.extend_from_slice(data);
}

fn put_error(output: &mut Vec<u8>, option: u32, code: u32, text: &str) {
    put_reply(output, option, code, text.as_bytes());
}

/// Return the beginning of a name, for a message.
fn excerpt(name: &[u8]) -> String {
    String::from_utf8_lossy(&name[..name.len().min(80)]).into_owned()
}
