//! Open traces and studies of the page. Nothing of it outlives the process.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use axum::http::StatusCode;

use super::ask::Ask;
use super::point::command_line;
use super::problem::Problem;
use super::study::Study;
use super::traces::{Opened, Trace, TraceJson};
use crate::arguments::{ExploreOptions, Reading};

/// Number of a trace's studies that are kept, the newest ones.
const STUDIES: usize = 4;

/// Traces and studies, by their numbers.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) reading: Reading,
    pub(super) drop_limit_bytes: u64,
    ids: AtomicU64,
    traces: Mutex<BTreeMap<u64, Arc<Trace>>>,
    studies: Mutex<BTreeMap<u64, Arc<Study>>>,
}

/// A trace that was read.
pub(super) type Ready = (Arc<Trace>, Arc<Opened>);

impl Session {
    /// Create a session that begins to read the trace of the command line.
    pub(super) fn new(options: &ExploreOptions) -> Self {
        let session = Self {
            reading: options.reading.clone(),
            drop_limit_bytes: options.drop_limit.0,
            ids: AtomicU64::new(1),
            traces: Mutex::default(),
            studies: Mutex::default(),
        };
        if let Some(path) = &options.trace {
            session.open(|id| Trace::of_path(id, path), None);
        }
        session
    }

    /// Begins to read a trace.
    pub(super) fn open(
        &self,
        named: impl FnOnce(u64) -> Trace,
        dropped: Option<File>,
    ) -> Arc<Trace> {
        let trace = Arc::new(named(self.id()));
        lock(&self.traces).insert(trace.id, Arc::clone(&trace));
        let (reader, reading) = (Arc::clone(&trace), self.reading.clone());
        thread::spawn(move || reader.read(&reading, dropped));
        trace
    }

    /// Return all traces, for the page.
    pub(super) fn traces(&self) -> Vec<TraceJson> {
        lock(&self.traces).values().map(|trace| trace.json()).collect()
    }

    /// Return a trace by its number.
    ///
    /// # Errors
    /// If there is none, or no more.
    pub(super) fn trace(&self, id: u64) -> Result<Arc<Trace>, Problem> {
        lock(&self.traces).get(&id).cloned().ok_or_else(|| {
            Problem::missing(format!("there is no trace {id}, or no more: open it again"))
        })
    }

    /// Return a trace that was read.
    ///
    /// # Errors
    /// If there is none, or it is not read yet, or could not be read.
    pub(super) fn ready(&self, id: u64) -> Result<Ready, Problem> {
        let trace = self.trace(id)?;
        let opened = trace.opened();
        let opened = opened.map_err(|sentence| Problem::new(StatusCode::CONFLICT, sentence))?;
        Ok((trace, opened))
    }

    /// Forgets a trace, and stops all that is done with it.
    ///
    /// # Errors
    /// If there is none, or no more.
    pub(super) fn close(&self, id: u64) -> Result<(), Problem> {
        let trace = self.trace(id)?;
        trace.stop();
        lock(&self.traces).remove(&id);
        lock(&self.studies).retain(|_, study| {
            let is_other = study.ask.trace != id;
            if !is_other {
                study.stop();
            }
            is_other
        });
        Ok(())
    }

    /// Begins a study; a former one of the same trace is stopped.
    ///
    /// # Errors
    /// If the question is invalid.
    pub(super) fn study(&self, ask: Ask) -> Result<Arc<Study>, Problem> {
        let ready = self.ready(ask.trace)?;
        let configurations = ask.configurations(&ready.1.compiled)?;
        let words = [ready.0.words(&self.reading), ask.words()].concat();
        let command = command_line("compare", words);
        let study = Arc::new(Study::new(self.id(), ask, ready, configurations, command));
        let mut studies = lock(&self.studies);
        let is_former = |other: &&Arc<Study>| other.ask.trace == study.ask.trace;
        let former: Vec<u64> = studies.values().filter(is_former).map(|other| other.id).collect();
        studies.values().filter(is_former).for_each(|other| other.stop());
        for id in former.iter().rev().skip(STUDIES - 1) {
            studies.remove(id);
        }
        studies.insert(study.id, Arc::clone(&study));
        let worker = Arc::clone(&study);
        thread::spawn(move || worker.run());
        Ok(study)
    }

    /// Return a study by its number.
    ///
    /// # Errors
    /// If there is none, or no more.
    pub(super) fn found_study(&self, id: u64) -> Result<Arc<Study>, Problem> {
        lock(&self.studies).get(&id).cloned().ok_or_else(|| {
            Problem::missing(format!("there is no study {id}, or no more: begin another one"))
        })
    }

    /// Stops all work, as far as it can be.
    pub(super) fn stop(&self) {
        lock(&self.traces).values().for_each(|trace| trace.stop());
        lock(&self.studies).values().for_each(|study| study.stop());
    }

    fn id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
