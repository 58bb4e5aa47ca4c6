//! Records of prompts as their formats have them, and what becomes a row of each.

use serde::Deserialize;

use super::PromptFormat;
use crate::error::Reason;

/// Any record: a format uses some of the fields.
#[derive(Debug, Deserialize)]
pub(super) struct Record {
    pub(super) schema: Option<String>,
    pub(super) block_size: Option<u32>,
    pub(super) timestamp: Option<f64>,
    pub(super) created_time: Option<f64>,
    #[serde(alias = "input_tokens")]
    pub(super) input_length: Option<u64>,
    #[serde(alias = "output_tokens")]
    pub(super) output_length: Option<u64>,
    pub(super) hash_ids: Option<Vec<u64>>,
    pub(super) session_id: Option<Text>,
    #[serde(alias = "delay_ms")]
    pub(super) delay: Option<f64>,
    pub(super) chat_id: Option<i64>,
    pub(super) parent_chat_id: Option<i64>,
    pub(super) model_name: Option<String>,
    pub(super) chunk_size: Option<u32>,
    pub(super) seq_len: Option<u64>,
    pub(super) chunk_hashes: Option<Vec<String>>,
    pub(super) requests: Option<Vec<AgentRequest>>,
}

/// A name that is text or a number.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Text {
    Word(String),
    Number(i64),
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        match text {
            Text::Word(word) => word,
            Text::Number(number) => number.to_string(),
        }
    }
}

/// A request of an agent's conversation, or the requests of a sub-agent.
#[derive(Debug, Deserialize)]
pub(super) struct AgentRequest {
    pub(super) t: Option<f64>,
    #[serde(rename = "in")]
    pub(super) input_tokens: Option<u64>,
    #[serde(rename = "out")]
    pub(super) output_tokens: Option<u64>,
    pub(super) hash_ids: Option<Vec<u64>>,
    pub(super) requests: Option<Vec<Self>>,
}

impl Record {
    /// Return the format whose fields it has.
    pub(super) fn format(&self) -> Result<PromptFormat, Reason> {
        if self.chunk_hashes.is_some() {
            return Ok(PromptFormat::LmCache);
        }
        if self.requests.is_some() && self.block_size.is_some() {
            return Ok(PromptFormat::Agent);
        }
        match (&self.hash_ids, self.chat_id) {
            (Some(_), Some(_)) => Ok(PromptFormat::Bailian),
            (Some(_), None) => Ok(PromptFormat::Mooncake),
            (None, _) => Err("no field tells the format".into()),
        }
    }

    /// Return `true` if it is a heading that says how blocks are cut.
    pub(super) fn is_heading(&self) -> bool {
        self.schema.is_some() && self.hash_ids.is_none()
    }
}

/// Return a field that a format cannot do without.
pub(super) fn needed<T>(field: Option<T>, name: &str) -> Result<T, Reason> {
    field.ok_or_else(|| Reason::from(format!("`{name}` is missing")))
}
