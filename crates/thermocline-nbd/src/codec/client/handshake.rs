//! Fixed newstyle negotiation, as the client sees it.
//!
//! Structured replies and metadata contexts are asked for and done without if the server has none;
//! a server that does not know `NBD_OPT_GO` is asked by `NBD_OPT_EXPORT_NAME`. TLS is not done without if
//! it is wanted: nothing about the export is asked before.

use super::super::ProtocolError;
use super::super::wire::{Fields, Put as _, length_u32};
use super::INPUT_BYTES_MAX;
use crate::protocol::{
    BlockSizes, EXPORT_PADDING_BYTES, GREETING_BYTES, GREETING_MAGIC, OPTION_MAGIC,
    OPTION_REPLY_HEADER_BYTES, OPTION_REPLY_MAGIC, STRING_BYTES_MAX, handshake_flag, info, option,
    option_reply,
};

/// The longest data of a reply to an option, in bytes.
const REPLY_BYTES_MAX: usize = INPUT_BYTES_MAX - OPTION_REPLY_HEADER_BYTES;

/// More replies than this to one option are not an answer.
const REPLIES_MAX: u32 = 4096;

/// Wishes of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The export's name; empty for the default one. At most 4096 bytes.
    pub export: String,
    /// The names of metadata contexts to select, those that the server has.
    pub contexts: Vec<String>,
    /// Transport security of the request for the export.
    pub security: Security,
}

/// Protection of a conversation by TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Security {
    /// Everything is sent unencrypted.
    #[default]
    Plain,
    /// TLS begins before anything about the export is said.
    Tls,
}

/// Terms on which both sides agreed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The size of the export, in bytes.
    pub size_bytes: u64,
    /// Its [`transmission_flag`](crate::protocol::transmission_flag)s.
    pub flags: u16,
    /// The sizes of requests that it likes.
    pub block_sizes: BlockSizes,
    /// `true` if replies are structured.
    pub is_structured: bool,
    /// The contexts that were selected: the number by which replies refer to it, and its name.
    pub contexts: Vec<(u32, String)>,
}

/// Next action after a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The message is not complete; show it again with more behind it.
    More,
    /// A message was taken, and perhaps answered.
    Taken,
    /// The server waits for TLS to begin: everything from the next step on goes through it. Nothing that
    /// came before may be shown to that step.
    StartTls,
    /// Requests may be sent.
    Done(Agreed),
}

/// The negotiation with a server.
#[derive(Clone, Debug)]
pub struct Handshake {
    wanted: Wanted,
    state: State,
    has_padding: bool,
    replies: u32,
    /// The export, once the server has told.
    export: Option<(u64, u16)>,
    block_sizes: BlockSizes,
    is_structured: bool,
    contexts: Vec<(u32, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Greeting,
    /// Waiting for the reply to `NBD_OPT_STARTTLS`.
    Tls,
    /// TLS has begun, and nothing was asked through it.
    Secure,
    /// Waiting for replies to `NBD_OPT_STRUCTURED_REPLY`.
    Structured,
    /// Waiting for replies to `NBD_OPT_SET_META_CONTEXT`.
    Contexts,
    /// Waiting for replies to `NBD_OPT_GO`.
    Go,
    /// Waiting for the answer to `NBD_OPT_EXPORT_NAME`.
    ExportName,
}

impl State {
    /// Return the option whose replies it waits for.
    fn option(self) -> u32 {
        match self {
            Self::Structured => option::STRUCTURED_REPLY,
            Self::Contexts => option::SET_META_CONTEXT,
            Self::Go => option::GO,
            Self::Tls | Self::Secure => option::START_TLS,
            Self::Greeting | Self::ExportName => option::EXPORT_NAME,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Tls | Self::Secure => "TLS",
            Self::Structured => "structured replies",
            Self::Contexts => "metadata contexts",
            Self::Go | Self::Greeting | Self::ExportName => "the export",
        }
    }
}

impl Handshake {
    /// Create a negotiation about `wanted`; the server speaks first.
    pub fn new(wanted: Wanted) -> Self {
        Self {
            wanted,
            state: State::Greeting,
            has_padding: true,
            replies: 0,
            export: None,
            block_sizes: BlockSizes::default(),
            is_structured: false,
            contexts: vec![],
        }
    }

    /// Takes one message off `input`, if it is complete, and appends the answer to `output`.
    /// Returns how many bytes were consumed and what comes next.
    ///
    /// # Errors
    /// If the server breaks the protocol, or refuses the export.
    pub fn step(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<(usize, Step), ProtocolError> {
        match self.state {
            State::Greeting => self.take_greeting(input, output),
            State::ExportName => Ok(self.take_export(input)),
            State::Secure => {
                self.ask(State::Structured, output);
                Ok((0, Step::Taken))
            }
            State::Tls | State::Structured | State::Contexts | State::Go => {
                self.take_reply(input, output)
            }
        }
    }

    fn take_greeting(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<(usize, Step), ProtocolError> {
        let mut fields = Fields::new(input);
        for expected in [GREETING_MAGIC, OPTION_MAGIC] {
            let Some(found) = fields.u64() else { return Ok((0, Step::More)) };
            if found != expected {
                return Err(ProtocolError::Magic { what: "the greeting", found, expected });
            }
        }
        let Some(flags) = fields.u16() else { return Ok((0, Step::More)) };
        // Only flags that the server has sent may be sent back.
        let known = flags & (handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES);
        self.has_padding = known & handshake_flag::NO_ZEROES == 0;
        output.put_u32(known.into());
        let is_fixed = known & handshake_flag::FIXED_NEWSTYLE != 0;
        match self.wanted.security {
            Security::Tls if !is_fixed => {
                return Err(ProtocolError::Unexpected("a server that is too old for TLS"));
            }
            Security::Tls => self.ask(State::Tls, output),
            Security::Plain if is_fixed => self.ask(State::Structured, output),
            Security::Plain => self.ask(State::ExportName, output),
        }
        Ok((GREETING_BYTES, Step::Taken))
    }

    /// Sends the option whose answer `state` waits for.
    fn ask(&mut self, state: State, output: &mut Vec<u8>) {
        self.state = state;
        self.replies = 0;
        let mut data = vec![];
        match state {
            State::Structured | State::Greeting | State::Tls | State::Secure => {}
            State::ExportName => data.extend_from_slice(self.wanted.export.as_bytes()),
            State::Contexts => {
                put_string(&mut data, &self.wanted.export);
                data.put_u32(length_u32(self.wanted.contexts.len()));
                for context in &self.wanted.contexts {
                    put_string(&mut data, context);
                }
            }
            State::Go => {
                put_string(&mut data, &self.wanted.export);
                data.put_u16(1);
                data.put_u16(info::BLOCK_SIZE);
            }
        }
        output.put_u64(OPTION_MAGIC);
        output.put_u32(state.option());
        output.put_u32(length_u32(data.len()));
        output.extend_from_slice(&data);
    }

    fn take_reply(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<(usize, Step), ProtocolError> {
        let mut fields = Fields::new(input);
        let Some(magic) = fields.u64() else { return Ok((0, Step::More)) };
        if magic != OPTION_REPLY_MAGIC {
            return Err(ProtocolError::Magic {
                what: "a reply to an option",
                found: magic,
                expected: OPTION_REPLY_MAGIC,
            });
        }
        let (Some(option), Some(kind), Some(length)) = (fields.u32(), fields.u32(), fields.u32())
        else {
            return Ok((0, Step::More));
        };
        let length = length as usize;
        if length > REPLY_BYTES_MAX {
            return Err(ProtocolError::TooLong {
                what: "a reply to an option",
                length: length as u64,
                limit: REPLY_BYTES_MAX as u64,
            });
        }
        let Some(data) = fields.bytes(length) else { return Ok((0, Step::More)) };
        if option != self.state.option() {
            return Err(ProtocolError::Unexpected("a reply to an option that was not sent"));
        }
        self.replies += 1;
        if self.replies > REPLIES_MAX {
            return Err(ProtocolError::Unexpected("more than 4096 replies to one option"));
        }
        let step = self.digest(kind, data, output)?;
        Ok((OPTION_REPLY_HEADER_BYTES + length, step))
    }

    fn digest(
        &mut self,
        kind: u32,
        data: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<Step, ProtocolError> {
        let is_error = kind & option_reply::ERROR_BIT != 0;
        match (self.state, kind) {
            (State::Tls, option_reply::ACK) => {
                self.state = State::Secure;
                return Ok(Step::StartTls);
            }
            // Contexts need structured replies, so they are not asked for.
            (State::Structured, _) if is_error => self.ask(State::Go, output),
            (State::Structured, option_reply::ACK) => {
                self.is_structured = true;
                let has_contexts = !self.wanted.contexts.is_empty();
                self.ask(if has_contexts { State::Contexts } else { State::Go }, output);
            }
            (State::Contexts, option_reply::META_CONTEXT) => self.take_context(data)?,
            (State::Contexts, option_reply::ACK) => self.ask(State::Go, output),
            (State::Contexts, _) if is_error => {
                self.contexts.clear();
                self.ask(State::Go, output);
            }
            (State::Go, option_reply::INFO) => self.take_info(data)?,
            (State::Go, option_reply::ACK) => {
                return self.agreed().map(Step::Done).ok_or(ProtocolError::Unexpected(
                    "the server accepts the export without describing it",
                ));
            }
            (State::Go, option_reply::UNSUPPORTED) => self.ask(State::ExportName, output),
            _ if is_error => {
                return Err(ProtocolError::Refused {
                    option: self.state.name(),
                    code: error_name(kind),
                    message: String::from_utf8_lossy(&data[..data.len().min(200)]).into_owned(),
                });
            }
            _ => return Err(ProtocolError::Unexpected("a reply that does not fit its option")),
        }
        Ok(Step::Taken)
    }

    fn take_context(&mut self, data: &[u8]) -> Result<(), ProtocolError> {
        let mut fields = Fields::new(data);
        let (Some(id), name) = (fields.u32(), fields.rest()) else {
            return Err(ProtocolError::Unexpected("a metadata context without a number"));
        };
        let name = str::from_utf8(name)
            .map_err(|_| ProtocolError::Unexpected("a metadata context that is not UTF-8"))?;
        if self.contexts.len() == self.wanted.contexts.len() {
            return Err(ProtocolError::Unexpected("more metadata contexts than were asked for"));
        }
        self.contexts.push((id, name.to_owned()));
        Ok(())
    }

    fn take_info(&mut self, data: &[u8]) -> Result<(), ProtocolError> {
        let malformed = ProtocolError::Unexpected("malformed information about the export");
        let mut fields = Fields::new(data);
        match (fields.u16(), data.len()) {
            (Some(info::EXPORT), 12) => self.export = fields.u64().zip(fields.u16()),
            (Some(info::BLOCK_SIZE), 14) => {
                let sizes = (fields.u32(), fields.u32(), fields.u32());
                let (Some(minimum_bytes), Some(preferred_bytes), Some(maximum_bytes)) = sizes
                else {
                    return Err(malformed);
                };
                if !minimum_bytes.is_power_of_two() || maximum_bytes < minimum_bytes {
                    return Err(ProtocolError::Unexpected("impossible block sizes"));
                }
                self.block_sizes = BlockSizes { minimum_bytes, preferred_bytes, maximum_bytes };
            }
            (None | Some(info::EXPORT | info::BLOCK_SIZE), _) => return Err(malformed),
            (Some(_), _) => {}
        }
        Ok(())
    }

    /// Take the answer to `NBD_OPT_EXPORT_NAME`, which has no frame.
    fn take_export(&mut self, input: &[u8]) -> (usize, Step) {
        let mut fields = Fields::new(input);
        let export = fields.u64().zip(fields.u16());
        let padding_bytes = if self.has_padding { EXPORT_PADDING_BYTES } else { 0 };
        if export.is_none() || fields.bytes(padding_bytes).is_none() {
            return (0, Step::More);
        }
        self.export = export;
        let agreed = self.agreed().expect("the export was just told");
        (input.len() - fields.rest().len(), Step::Done(agreed))
    }

    fn agreed(&mut self) -> Option<Agreed> {
        let (size_bytes, flags) = self.export?;
        Some(Agreed {
            size_bytes,
            flags,
            block_sizes: self.block_sizes,
            is_structured: self.is_structured,
            contexts: std::mem::take(&mut self.contexts),
        })
    }
}

fn put_string(data: &mut Vec<u8>, text: &str) {
    assert!(text.len() <= STRING_BYTES_MAX, "names were checked when they were given");
    data.put_u32(length_u32(text.len()));
    data.extend_from_slice(text.as_bytes());
}

fn error_name(code: u32) -> &'static str {
    match code {
        option_reply::UNSUPPORTED => "unsupported",
        option_reply::POLICY => "against its policy",
        option_reply::INVALID => "invalid",
        option_reply::TLS_REQUIRED => "TLS required",
        option_reply::UNKNOWN => "unknown export",
        option_reply::SHUTDOWN => "shutting down",
        option_reply::TOO_BIG => "too big",
        _ => "another error",
    }
}
