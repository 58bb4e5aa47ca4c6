//! Conversations that are made up: turns, branches, shared system prompts, agents with tools.
//!
//! * Source: none; the shape is that of the published traces (shared system prompts, turns that repeat
//!   all that was said before, retries that branch off, tools whose answers are long), and every
//!   number is a parameter.

use std::fmt;
use std::path::Path;

use thermocline_core::Nanos;

use super::{Builder, PromptFormat, PromptOptions, PromptTrace, Row, Tail};
use crate::error::TraceError;
use crate::generate::random::SplitMix64;

/// Options of generated conversations. Lengths are means of exponential distributions, at least one
/// token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conversations {
    /// Number of prompts.
    pub prompts: u32,
    /// Tokens of a block.
    pub block_tokens: u32,
    /// Number of conversations that go on at a time.
    pub concurrent: u32,
    /// Number of system prompts; each conversation begins with one of them, the k-th with a
    /// probability proportional to 1 / k.
    pub system_prompts: u32,
    /// Tokens of every system prompt.
    pub system_tokens: u32,
    /// The probability that a conversation goes on after a turn, from 0 and below 1.
    pub next_turn: f64,
    /// The probability that a turn goes back to an earlier one and goes on from there, from 0 to 1.
    pub branch: f64,
    /// The probability that a conversation is an agent's, from 0 to 1.
    pub agents: f64,
    /// Mean tokens that a user writes.
    pub user_tokens: u32,
    /// Mean tokens of an answer.
    pub answer_tokens: u32,
    /// Mean tokens that a tool returns to an agent, in place of what a user writes.
    pub tool_tokens: u32,
    /// Mean time between two prompts of the whole trace.
    pub interarrival: Nanos,
    /// Seed of everything that is random.
    pub seed: u64,
}

/// A prompt as a line of a file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptRow {
    /// Its conversation.
    pub session: u32,
    /// Arrival time.
    pub at: Nanos,
    /// Its tokens.
    pub input_tokens: u64,
    /// The tokens of its answer.
    pub output_tokens: u64,
    /// Its blocks.
    pub ids: Vec<u64>,
}

impl fmt::Display for PromptRow {
    /// Return a line of Mooncake's format, with a session.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { session, at, input_tokens, output_tokens, ids } = self;
        let (ms, ns) = (at.0 / 1_000_000, at.0 % 1_000_000);
        write!(
            f,
            r#"{{"timestamp": {ms}.{ns:06}, "session_id": "{session}", "input_length": {input_tokens}, "output_length": {output_tokens}, "hash_ids": {ids:?}}}"#
        )
    }
}

impl Default for Conversations {
    fn default() -> Self {
        Self {
            prompts: 10_000,
            block_tokens: 512,
            concurrent: 200,
            system_prompts: 20,
            system_tokens: 2048,
            next_turn: 0.8,
            branch: 0.05,
            agents: 0.2,
            user_tokens: 1000,
            answer_tokens: 400,
            tool_tokens: 3000,
            interarrival: Nanos(300_000_000),
            seed: 1,
        }
    }
}

/// A conversation in progress.
#[derive(Clone, Debug)]
struct Conversation {
    number: u32,
    is_agent: bool,
    /// The full blocks of what was said so far, and how many tokens that is.
    ids: Vec<u64>,
    tokens: u64,
    /// The lengths in tokens at which turns ended.
    turns: Vec<u64>,
}

/// Conversations while they are made.
struct Making {
    options: Conversations,
    random: SplitMix64,
    conversations: u32,
    next_id: u64,
    now: Nanos,
}

impl Conversations {
    fn check(&self) -> Result<(), TraceError> {
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        let wrong = if self.prompts == 0 || self.concurrent == 0 || self.system_prompts == 0 {
            "there is at least one prompt, conversation at a time, and system prompt"
        } else if self.block_tokens == 0 {
            "a block has at least one token"
        } else if !is_share(self.next_turn) || !is_share(self.branch) || !is_share(self.agents) {
            "probabilities are from 0 to 1"
        } else {
            return Ok(());
        };
        Err(TraceError::Generator { reason: wrong.into() })
    }

    /// Return the prompts, row by row.
    ///
    /// # Errors
    /// If options contradict each other.
    pub fn rows(&self) -> Result<impl Iterator<Item = PromptRow>, TraceError> {
        self.check()?;
        let per_block = u64::from(self.block_tokens);
        let mut making = Making {
            options: *self,
            random: SplitMix64::new(self.seed),
            conversations: 0,
            next_id: u64::from(self.system_prompts)
                * u64::from(self.system_tokens).div_ceil(per_block),
            now: Nanos(0),
        };
        let mut going: Vec<Conversation> = vec![];
        Ok((0..self.prompts).map(move |_| {
            let place = making.below(self.concurrent as usize);
            let place = if place < going.len() {
                place
            } else {
                going.push(making.begin());
                going.len() - 1
            };
            let row = making.turn(&mut going[place]);
            if making.random.real() >= self.next_turn {
                going.swap_remove(place);
            }
            row
        }))
    }

    /// Return the prompts as a trace.
    ///
    /// # Errors
    /// If options contradict each other.
    pub fn trace(&self, tail: Tail) -> Result<PromptTrace, TraceError> {
        let path = Path::new("generated");
        let mut builder = Builder::new(path, PromptFormat::Generated, self.block_tokens, tail);
        for row in self.rows()? {
            let PromptRow { session, at, input_tokens, output_tokens, ids } = row;
            let row = Row { at, input_tokens, output_tokens, session, space: 0, ids };
            builder
                .push(&row)
                .map_err(|reason| TraceError::Generator { reason: reason.into_owned() })?;
        }
        builder.finish()
    }
}

impl Making {
    fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.random.below(count as u64)).expect("it is below a length")
    }

    /// Draw a number of an exponential distribution, at least 1.
    fn exponential(&mut self, mean: f64) -> u64 {
        let drawn = -libm::log(1.0 - self.random.real()) * mean;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "logarithms of shares are not positive, and what is too large saturates"
        )]
        let whole = drawn.ceil() as u64;
        whole.max(1)
    }

    fn begin(&mut self) -> Conversation {
        let Conversations { system_prompts, system_tokens, block_tokens, agents, .. } =
            self.options;
        let harmonic: f64 = (1..=system_prompts).map(|rank| 1.0 / f64::from(rank)).sum();
        let mut left = self.random.real() * harmonic;
        let mut rank = 0;
        while rank + 1 < system_prompts && left >= 1.0 / f64::from(rank + 1) {
            left -= 1.0 / f64::from(rank + 1);
            rank += 1;
        }
        // Only full blocks of it are shared: what follows fills the last one.
        let blocks = u64::from(system_tokens / block_tokens);
        let first = u64::from(rank) * u64::from(system_tokens.div_ceil(block_tokens));
        self.conversations += 1;
        Conversation {
            number: self.conversations - 1,
            is_agent: self.random.real() < agents,
            ids: (first..first + blocks).collect(),
            tokens: u64::from(system_tokens),
            turns: vec![],
        }
    }

    fn turn(&mut self, conversation: &mut Conversation) -> PromptRow {
        let Conversations { block_tokens, branch, user_tokens, answer_tokens, .. } = self.options;
        let per_block = u64::from(block_tokens);
        if !conversation.turns.is_empty() && self.random.real() < branch {
            let back = self.below(conversation.turns.len());
            conversation.tokens = conversation.turns[back];
            conversation.turns.truncate(back + 1);
            conversation.ids.truncate(whole(conversation.tokens / per_block));
        }
        let is_tool = conversation.is_agent && !conversation.turns.is_empty();
        let mean = if is_tool { self.options.tool_tokens } else { user_tokens };
        conversation.tokens += self.exponential(f64::from(mean));
        let input_tokens = conversation.tokens;
        self.fill(conversation);
        let mut ids = conversation.ids.clone();
        if !input_tokens.is_multiple_of(per_block) {
            // The block that is not full has an id of its own: with more tokens it is another block.
            ids.push(self.new_id());
        }
        let output_tokens = self.exponential(f64::from(answer_tokens));
        conversation.tokens += output_tokens;
        self.fill(conversation);
        conversation.turns.push(conversation.tokens);
        let at = self.now;
        self.now.0 += self.exponential(self.options.interarrival.0 as f64);
        PromptRow { session: conversation.number, at, input_tokens, output_tokens, ids }
    }

    /// Gives ids to the blocks that have become full.
    fn fill(&mut self, conversation: &mut Conversation) {
        let full = whole(conversation.tokens / u64::from(self.options.block_tokens));
        while conversation.ids.len() < full {
            let id = self.new_id();
            conversation.ids.push(id);
        }
    }

    fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }
}

/// Return a number of blocks as a length in memory.
fn whole(blocks: u64) -> usize {
    usize::try_from(blocks).unwrap_or(usize::MAX)
}

impl PromptOptions {
    /// Set the number of tokens per block.
    #[must_use]
    pub fn with_block_tokens(self, block_tokens: u32) -> Self {
        Self { block_tokens: Some(block_tokens), ..self }
    }
}
