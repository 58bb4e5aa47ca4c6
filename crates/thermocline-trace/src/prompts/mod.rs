//! Prompts to language models: chains of blocks, as services that cache keys and values see them.
//!
//! A prompt is cut into blocks of equal size. The id of a block stands for its tokens and for all
//! tokens before it, so a chain of ids is a prompt, and two prompts share a prefix of ids or nothing.

mod generator;
mod reading;
mod rows;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::path::{Path, PathBuf};

use thermocline_core::{Nanos, PageId};

use crate::error::{Reason, TraceError};

pub use generator::{Conversations, PromptRow};

/// The parent of a block that begins a prompt.
const ROOT: u32 = u32::MAX;

/// A prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// Arrival time, after the first of the trace where that is known.
    pub at: Nanos,
    /// Its tokens.
    pub input_tokens: u64,
    /// The tokens of its answer; 0 where the trace does not tell.
    pub output_tokens: u64,
    /// The conversation that it belongs to, counted from 0; a number of its own where the trace names
    /// none.
    pub session: u32,
    chain: Range<usize>,
}

/// Treatment of a prompt's last block if tokens do not fill it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tail {
    /// It is a block like the others, as the trace has it.
    #[default]
    Keep,
    /// It is left out: engines cache full blocks only.
    Drop,
}

/// Options for reading prompts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PromptOptions {
    /// The tokens of a block; what the trace or its format says if absent.
    pub block_tokens: Option<u32>,
    /// Treatment of blocks that are not full.
    pub tail: Tail,
}

/// The formats of prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptFormat {
    /// Lines of Mooncake, or of Dynamo with sessions and delays.
    Mooncake,
    /// Lines of the Bailian (Qwen) traces, with turns of chats.
    Bailian,
    /// Lookups that `LMCache` logs.
    LmCache,
    /// A document for each conversation of an agent.
    Agent,
    /// Made here.
    Generated,
}

/// Prompts, with dense ids of blocks in the order of their first appearance.
#[derive(Clone, Debug)]
pub struct PromptTrace {
    path: PathBuf,
    format: PromptFormat,
    block_tokens: u32,
    prompts: Vec<Prompt>,
    chains: Vec<PageId>,
    distinct_blocks: u32,
}

impl PromptFormat {
    /// Return its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mooncake => "mooncake",
            Self::Bailian => "bailian",
            Self::LmCache => "lmcache-lookup",
            Self::Agent => "agent",
            Self::Generated => "generated",
        }
    }

    /// Return the name of a record and the fields that it needs.
    const fn record(self) -> &'static str {
        match self {
            Self::Mooncake | Self::Generated => {
                "a record of Mooncake or Dynamo, which needs `input_length` or `input_tokens`, and \
                 `hash_ids`"
            }
            Self::Bailian => {
                "a record of Bailian, which needs `timestamp`, `chat_id`, `input_length` and `hash_ids`"
            }
            Self::LmCache => {
                "a record of LMCache, which needs `timestamp`, `seq_len` and `chunk_hashes`"
            }
            Self::Agent => {
                "a conversation of an agent, which needs `block_size` and `requests`, and for each \
                 request `t`, `in` and `hash_ids`"
            }
        }
    }

    /// Return the tokens of a block where the trace does not say so.
    const fn block_tokens(self) -> Option<u32> {
        match self {
            Self::Mooncake => Some(512),
            Self::Bailian => Some(16),
            Self::LmCache | Self::Agent | Self::Generated => None,
        }
    }

    /// Return `true` if its chains have a block for the last tokens that do not fill one.
    const fn keeps_part(self) -> bool {
        match self {
            Self::Mooncake | Self::Bailian | Self::Generated => true,
            Self::LmCache | Self::Agent => false,
        }
    }
}

impl PromptTrace {
    /// Return the file, or what stands for it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Return the format that it was read from.
    pub const fn format(&self) -> PromptFormat {
        self.format
    }

    /// Tokens of a block.
    pub const fn block_tokens(&self) -> u32 {
        self.block_tokens
    }

    /// Return all prompts, in the order of the file.
    pub fn prompts(&self) -> &[Prompt] {
        &self.prompts
    }

    /// Return the blocks of a prompt, from the first tokens to the last.
    pub fn chain(&self, prompt: &Prompt) -> &[PageId] {
        &self.chains[prompt.chain.clone()]
    }

    /// Distinct blocks; ids are below this.
    pub const fn distinct_blocks(&self) -> u32 {
        self.distinct_blocks
    }

    /// Return the number of blocks of all prompts.
    pub fn blocks(&self) -> u64 {
        self.chains.len() as u64
    }

    /// Tokens of all prompts.
    pub fn tokens(&self) -> u64 {
        self.prompts.iter().map(|prompt| prompt.input_tokens).sum()
    }

    /// Return the time from the first arrival to the last; 0 for a trace without times.
    pub fn duration(&self) -> Nanos {
        let times = self.prompts.iter().map(|prompt| prompt.at.0);
        let first = times.clone().min().unwrap_or(0);
        Nanos(times.max().unwrap_or(0) - first)
    }
}

/// The name of a block in a file: two files, models or conversations may give one name to two blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Name {
    space: u32,
    id: u64,
}

/// A prompt as a file has it.
#[derive(Clone, Debug)]
struct Row {
    at: Nanos,
    input_tokens: u64,
    output_tokens: u64,
    session: u32,
    space: u32,
    ids: Vec<u64>,
}

/// A trace that grows prompt by prompt.
#[derive(Debug)]
struct Builder {
    trace: PromptTrace,
    tail: Tail,
    numbers: HashMap<Name, u32>,
    /// Parent of each block: the one before it, or [`ROOT`].
    parents: Vec<u32>,
    /// The last prompt that had a block.
    last_prompt: Vec<u32>,
}

impl Builder {
    fn new(path: &Path, format: PromptFormat, block_tokens: u32, tail: Tail) -> Self {
        let trace = PromptTrace {
            path: path.to_owned(),
            format,
            block_tokens,
            prompts: vec![],
            chains: vec![],
            distinct_blocks: 0,
        };
        let (parents, last_prompt) = (vec![], vec![]);
        Self { trace, tail, numbers: HashMap::new(), parents, last_prompt }
    }

    /// Adds a prompt; its chain has to follow from those before.
    fn push(&mut self, row: &Row) -> Result<(), Reason> {
        let PromptTrace { format, block_tokens, .. } = self.trace;
        let number = u32::try_from(self.trace.prompts.len())
            .map_err(|_| Reason::from("there are more prompts than 32 bits can count"))?;
        let per_block = u64::from(block_tokens);
        let full = row.input_tokens / per_block;
        let all = if format.keeps_part() { row.input_tokens.div_ceil(per_block) } else { full };
        if row.ids.len() as u64 != all {
            return Err(format!(
                "{} tokens in blocks of {block_tokens} are {all} blocks, and the row names {}: say \
                 how long blocks are (--block-tokens N)",
                row.input_tokens,
                row.ids.len()
            )
            .into());
        }
        let kept = if self.tail == Tail::Drop { full } else { all };
        let start = self.trace.chains.len();
        let mut parent = ROOT;
        for &id in row.ids.iter().take(usize::try_from(kept).unwrap_or(usize::MAX)) {
            parent = self.block(Name { space: row.space, id }, parent, number)?;
            self.trace.chains.push(PageId(parent));
        }
        self.trace.prompts.push(Prompt {
            at: row.at,
            input_tokens: row.input_tokens,
            output_tokens: row.output_tokens,
            session: row.session,
            chain: start..self.trace.chains.len(),
        });
        Ok(())
    }

    /// Return the number of a block that follows another one in a prompt.
    fn block(&mut self, name: Name, parent: u32, prompt: u32) -> Result<u32, Reason> {
        let number = self.trace.distinct_blocks;
        match self.numbers.entry(name) {
            Entry::Vacant(vacant) => {
                if number > ROOT / 2 {
                    return Err("there are more than 2^31 blocks".into());
                }
                vacant.insert(number);
                self.trace.distinct_blocks += 1;
                self.parents.push(parent);
                self.last_prompt.push(prompt);
                Ok(number)
            }
            Entry::Occupied(known) => {
                let number = *known.get();
                let last = &mut self.last_prompt[number as usize];
                if *last == prompt {
                    return Err(format!("block {} comes twice", name.id).into());
                }
                *last = prompt;
                if self.parents[number as usize] != parent {
                    return Err(format!(
                        "block {} follows another block than before: an id has to stand for all \
                         tokens up to the end of its block",
                        name.id
                    )
                    .into());
                }
                Ok(number)
            }
        }
    }

    fn finish(self) -> Result<PromptTrace, TraceError> {
        if self.trace.prompts.is_empty() {
            return Err(TraceError::Empty { path: self.trace.path });
        }
        Ok(self.trace)
    }
}
