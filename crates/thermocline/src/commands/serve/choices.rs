//! Choices of a volume's policy with several candidates, in a file beside the note: a restart goes on with them.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use thermocline_core::Choosing;
use thermocline_engine::Options;
use tracing::warn;

use super::beside_note;
use super::choosing_status::ChoosingStatus;
use crate::note::NotePlace;

/// Interval at which the file is written if no candidate changes: after a kill, the sums of candidates are at most
/// that old.
const STORE_INTERVAL: Duration = Duration::from_mins(10);
/// Version of the file's format.
const FORMAT: u32 = 1;

/// The file of a volume's choices.
#[derive(Debug)]
pub(crate) struct ChoiceFile {
    /// Path of the file; `None` if the backing store has no note.
    path: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Choices that the file had when it was read.
    found: Vec<ChoosingStatus>,
    /// Latest choices of each shard.
    shards: Vec<Option<ChoosingStatus>>,
    /// Changes of each shard that the file has, and when it was written.
    stored: Option<(Vec<u64>, Instant)>,
}

/// Content of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    thermocline_choices: u32,
    /// One per shard.
    shards: Vec<ChoosingStatus>,
}

impl ChoiceFile {
    /// Reads the file, if it is there. One that cannot be read is ignored, because candidates can be compared again.
    pub(super) fn load(note: Option<&NotePlace>) -> Self {
        let path = note.map(|note| beside_note::path(note, ".auto"));
        let found = path.as_ref().map_or_else(
            || Ok(vec![]),
            |path| read(path).with_context(|| format!("`{}`", path.display())),
        );
        let found = found.unwrap_or_else(|error| {
            warn!(
                error = format!("{error:#}"),
                "the choices of the last run cannot be read: the policy compares its candidates from the beginning"
            );
            vec![]
        });
        let state = State { found, shards: vec![], stored: None };
        Self { path, state: Mutex::new(state) }
    }

    /// Let shards go on from the choices that the file has. With another number of shards than before, each goes on
    /// from those of the first one, because each serves a sample of the same pages.
    pub(super) fn resume(&self, shards: &mut [Options]) {
        let mut state = self.lock();
        state.shards = vec![None; shards.len()];
        let is_same_number = state.found.len() == shards.len();
        for (index, options) in shards.iter_mut().enumerate() {
            let found = state.found.get(if is_same_number { index } else { 0 });
            options.choosing = found.cloned().map(Choosing::from);
        }
    }

    /// Take the latest choices of a shard.
    pub(super) fn post(&self, shard: usize, choosing: Option<&ChoosingStatus>) {
        let Some(choosing) = choosing else { return };
        if let Some(latest) = self.lock().shards.get_mut(shard) {
            *latest = Some(choosing.clone());
        }
    }

    /// Writes the file if a candidate changed since it was written last, or that was long ago.
    pub(super) fn store_if_due(&self) {
        let is_due = {
            let state = self.lock();
            let changes = state.changes();
            let is_stored = |(stored, at): &(Vec<u64>, Instant)| {
                *stored == changes && at.elapsed() < STORE_INTERVAL
            };
            !state.stored.as_ref().is_some_and(is_stored)
        };
        if is_due {
            self.store();
        }
    }

    /// Writes the file, if the policy has candidates. A failure is in the log: it costs the next run only time.
    pub(super) fn store(&self) {
        let Some(path) = &self.path else { return };
        let (changes, text) = {
            let state = self.lock();
            let shards: Vec<_> = state.shards.iter().flatten().cloned().collect();
            if shards.is_empty() || shards.len() < state.shards.len() {
                return;
            }
            let content = Content { thermocline_choices: FORMAT, shards };
            (state.changes(), serde_json::to_string_pretty(&content))
        };
        let stored = text.context("no JSON").and_then(|text| {
            beside_note::replace(path, &(text + "\n"))
                .with_context(|| format!("`{}`", path.display()))
        });
        if let Err(error) = stored {
            warn!(
                error = format!("{error:#}"),
                "the choices of the policy cannot be written: a restart may compare its candidates from the beginning"
            );
        }
        // After a failure, too: the next change, or the next interval, tries again.
        self.lock().stored = Some((changes, Instant::now()));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the choices of all shards; none if the file is not there.
fn read(path: &Path) -> Result<Vec<ChoosingStatus>> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(vec![]),
        text => text?,
    };
    let content: Content = serde_json::from_str(&text)?;
    let format = content.thermocline_choices;
    ensure!(format == FORMAT, "the file is of version {format}, and not {FORMAT}");
    Ok(content.shards)
}

impl State {
    /// Return the number of changes of each shard.
    fn changes(&self) -> Vec<u64> {
        self.shards.iter().flatten().map(|choosing| choosing.switches).collect()
    }
}
