//! Prompts from files: JSON values one after the other, compressed or not.

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::Path;

use serde_json::{Deserializer, error::Category};
use thermocline_core::Nanos;

use super::rows::{AgentRequest, Record, needed};
use super::{Builder, PromptFormat, PromptOptions, PromptTrace, Row};
use crate::error::{Position, Reason, TraceError};
use crate::input::Input;

impl PromptTrace {
    /// Reads prompts from a file of any of the formats, which its first record tells.
    ///
    /// # Errors
    /// If the file cannot be read, a record is not of the format, or a chain is not the prefix of
    /// the tokens that its ids stand for.
    pub fn open(path: &Path, options: PromptOptions) -> Result<Self, TraceError> {
        Self::read(Input::open(path)?, options)
    }

    /// Return the same from anything that is read.
    ///
    /// # Errors
    /// As for [`PromptTrace::open`].
    pub fn read(input: Input, options: PromptOptions) -> Result<Self, TraceError> {
        let path = input.path().to_owned();
        let mut bytes = Bytes { input, failure: None };
        let records = Deserializer::from_reader(&mut bytes).into_iter::<Record>();
        let mut reading = Reading::new(&path, options);
        let mut failure = None;
        for (number, record) in (1..).zip(records) {
            let done = match record {
                Ok(record) => {
                    reading.take(record).map_err(|reason| (Position::Row(number), reason))
                }
                Err(error) => {
                    let line = Position::Line(error.line() as u64);
                    let what = match error.classify() {
                        Category::Eof => "the last record has no end",
                        Category::Data => "a field has a wrong value",
                        Category::Io | Category::Syntax => "this is not JSON",
                    };
                    Err((line, format!("{what} ({error})").into()))
                }
            };
            if let Err(wrong) = done {
                failure = Some(wrong);
                break;
            }
        }
        if let Some(error) = bytes.failure {
            return Err(error);
        }
        if let Some((position, reason)) = failure {
            let text = reading.expected();
            return Err(TraceError::Malformed { path, position, reason, text });
        }
        reading.finish()
    }
}

/// The bytes of an input, for a parser that knows none of its errors.
struct Bytes {
    input: Input,
    failure: Option<TraceError>,
}

impl Read for Bytes {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        if self.input.available().is_empty()
            && let Err(error) = self.input.fill()
        {
            let text = error.to_string();
            self.failure = Some(error);
            return Err(io::Error::other(text));
        }
        let source = self.input.available();
        let count = source.len().min(target.len());
        target[..count].copy_from_slice(&source[..count]);
        self.input.consume(count);
        Ok(count)
    }
}

/// State of a file that is being read.
struct Reading<'a> {
    path: &'a Path,
    options: PromptOptions,
    heading_tokens: Option<u32>,
    builder: Option<Builder>,
    /// Sessions and models by their names.
    sessions: HashMap<String, Session>,
    /// Sessions of prompts that have no name for theirs count as well.
    sessions_count: u32,
    spaces: HashMap<String, u32>,
    /// Ids of blocks whose names are text.
    texts: HashMap<String, u64>,
}

/// A conversation.
#[derive(Clone, Copy, Debug)]
struct Session {
    number: u32,
    /// Arrival time of its last prompt.
    last: Nanos,
}

impl<'a> Reading<'a> {
    fn new(path: &'a Path, options: PromptOptions) -> Self {
        Self {
            path,
            options,
            heading_tokens: None,
            builder: None,
            sessions: HashMap::new(),
            sessions_count: 0,
            spaces: HashMap::new(),
            texts: HashMap::new(),
        }
    }

    fn take(&mut self, record: Record) -> Result<(), Reason> {
        if self.builder.is_none() && record.is_heading() {
            self.heading_tokens = record.block_size;
            return Ok(());
        }
        let format = match &self.builder {
            Some(builder) => builder.trace.format,
            None => self.begin(&record)?,
        };
        match format {
            PromptFormat::Mooncake => self.mooncake(record),
            PromptFormat::Bailian => self.bailian(record),
            PromptFormat::LmCache => self.lookup(record),
            PromptFormat::Agent => self.conversation(record),
            PromptFormat::Generated => Err("a file is read, not made".into()),
        }
    }

    /// Return the first record tells the format, and how long blocks are.
    fn begin(&mut self, record: &Record) -> Result<PromptFormat, Reason> {
        let format = record.format()?;
        let own = self.heading_tokens.or(record.chunk_size).or(record.block_size);
        let given = self.options.block_tokens.or(own).or_else(|| format.block_tokens());
        let block_tokens = given.filter(|&tokens| tokens > 0).ok_or_else(|| {
            Reason::from("how many tokens does a block have? Say so (--block-tokens N)")
        })?;
        self.builder = Some(Builder::new(self.path, format, block_tokens, self.options.tail));
        Ok(format)
    }

    /// Return the kind of records that the file should have, for an error about one of them.
    fn expected(&self) -> String {
        match &self.builder {
            Some(builder) => format!("read as {}", builder.trace.format.record()),
            None => "a trace of prompts has JSON records with `hash_ids` (Mooncake, Dynamo, Bailian), with \
                     `chunk_hashes` (LMCache), or with `block_size` and `requests` (agents); events of vLLM tell \
                     what a cache held, not what was asked"
                .into(),
        }
    }

    fn push(&mut self, row: &Row) -> Result<(), Reason> {
        self.builder.as_mut().expect("the first record began the trace").push(row)
    }

    /// Add a prompt to a session, which it begins if there is none of that name.
    fn session(&mut self, name: Option<String>, at: impl FnOnce(Nanos) -> Nanos) -> Session {
        let count = &mut self.sessions_count;
        let mut begin = || {
            *count += 1;
            Session { number: *count - 1, last: Nanos(0) }
        };
        let Some(name) = name else {
            let session = begin();
            return Session { last: at(session.last), ..session };
        };
        let session = self.sessions.entry(name).or_insert_with(begin);
        session.last = at(session.last);
        *session
    }

    /// Times in milliseconds, or delays after the last prompt of the session: how long its answer took
    /// is not known, and it is taken to take no time.
    fn mooncake(&mut self, record: Record) -> Result<(), Reason> {
        let given = record.timestamp.or(record.created_time);
        let given = given.map(|ms| nanos(ms, 1e6)).transpose()?;
        let delay = record.delay.map_or(Ok(Nanos(0)), |ms| nanos(ms, 1e6))?;
        let name = record.session_id.map(String::from);
        let session =
            self.session(name, |last| given.unwrap_or(Nanos(last.0.saturating_add(delay.0))));
        self.push(&Row {
            at: session.last,
            input_tokens: needed(record.input_length, "input_length")?,
            output_tokens: record.output_length.unwrap_or(0),
            session: session.number,
            space: 0,
            ids: needed(record.hash_ids, "hash_ids")?,
        })
    }

    /// Times in seconds; the turns of a chat name the turn before.
    fn bailian(&mut self, record: Record) -> Result<(), Reason> {
        let at = nanos(needed(record.timestamp, "timestamp")?, 1e9)?;
        let chat = needed(record.chat_id, "chat_id")?;
        let parent = record.parent_chat_id.filter(|&parent| parent >= 0);
        let before = parent.and_then(|parent| self.sessions.get(&parent.to_string()).copied());
        let session = match before {
            Some(session) => Session { last: at, ..session },
            None => self.session(None, |_| at),
        };
        self.sessions.insert(chat.to_string(), session);
        self.push(&Row {
            at,
            input_tokens: needed(record.input_length, "input_length")?,
            output_tokens: record.output_length.unwrap_or(0),
            session: session.number,
            space: 0,
            ids: needed(record.hash_ids, "hash_ids")?,
        })
    }

    /// Times in seconds, chunks by text, and ids of their own for each model.
    fn lookup(&mut self, record: Record) -> Result<(), Reason> {
        let at = nanos(needed(record.timestamp, "timestamp")?, 1e9)?;
        let spaces = u32::try_from(self.spaces.len()).unwrap_or(u32::MAX);
        let space = *self.spaces.entry(record.model_name.unwrap_or_default()).or_insert(spaces);
        let mut ids = vec![];
        for text in needed(record.chunk_hashes, "chunk_hashes")? {
            let next = self.texts.len() as u64;
            ids.push(*self.texts.entry(text).or_insert(next));
        }
        let session = self.session(None, |_| at).number;
        let input_tokens = needed(record.seq_len, "seq_len")?;
        self.push(&Row { at, input_tokens, output_tokens: 0, session, space, ids })
    }

    /// Times in seconds after the begin of the conversation, whose ids are its own.
    fn conversation(&mut self, record: Record) -> Result<(), Reason> {
        let block_tokens = self.builder.as_ref().map(|builder| builder.trace.block_tokens);
        if record.block_size != block_tokens && self.options.block_tokens.is_none() {
            return Err("its blocks are not as long as those of the first conversation".into());
        }
        let space = self.session(None, |last| last).number;
        self.agent(needed(record.requests, "requests")?, space)
    }

    fn agent(&mut self, requests: Vec<AgentRequest>, space: u32) -> Result<(), Reason> {
        for request in requests {
            if let Some(requests) = request.requests {
                self.agent(requests, space)?;
                continue;
            }
            self.push(&Row {
                at: nanos(needed(request.t, "t")?, 1e9)?,
                input_tokens: needed(request.input_tokens, "in")?,
                output_tokens: request.output_tokens.unwrap_or(0),
                session: space,
                space,
                ids: needed(request.hash_ids, "hash_ids")?,
            })?;
        }
        Ok(())
    }

    fn finish(self) -> Result<PromptTrace, TraceError> {
        let path = self.path.to_owned();
        self.builder.ok_or(TraceError::Empty { path })?.finish()
    }
}

/// Return a time in some unit.
fn nanos(number: f64, per_unit: f64) -> Result<Nanos, Reason> {
    let nanos = (number * per_unit).round();
    if !(0.0..9.0e18).contains(&nanos) {
        return Err(format!("{number} is not a time").into());
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range was just checked"
    )]
    Ok(Nanos(nanos as u64))
}
