//! Checking a corpus: every file is there, readable and as its manifest says.

use std::path::Path;

use rayon::prelude::*;
use serde::Serialize;
use thermocline_trace::text_file;

use super::manifest::{Dataset, Entry, Manifest, Ops, Split};
use crate::{LabError, Watch};

/// The result of one trace's check. Its JSON form has a stable schema.
#[derive(Clone, Debug, Serialize)]
pub struct Checked {
    /// Its data set.
    pub dataset: String,
    /// Its name.
    pub trace: String,
    /// Its side of the split.
    pub split: Option<Split>,
    /// Findings; `None` if it could not be read.
    pub found: Option<Found>,
    /// Faults, each with its remedy; empty if there are none.
    pub problems: Vec<String>,
}

/// Properties of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// SHA-256 of the stored file; of a recording, of its files one after the other.
    pub sha256: String,
    /// Bytes of the stored file.
    pub bytes: u64,
    /// Requests that address something.
    pub requests: u64,
    /// Page accesses.
    pub accesses: u64,
    /// Distinct pages.
    pub objects: u64,
    /// Page accesses that write.
    pub writes: u64,
    /// Bytes per page.
    pub page_size_bytes: u64,
    /// `true` if its requests have times.
    pub is_timed: bool,
}

impl Manifest {
    /// Checks every trace: reads its file twice, for its hash and for its content. `done` is called
    /// after each.
    ///
    /// # Errors
    /// [`LabError::Stopped`]. The result of a trace has its errors.
    pub fn check(&self, watch: &Watch, done: impl Fn() + Sync) -> Result<Vec<Checked>, LabError> {
        let entries: Vec<(&Dataset, &Entry)> = self.entries().collect();
        entries
            .par_iter()
            .map(|(dataset, entry)| {
                let checked = check(dataset, entry, watch);
                done();
                checked
            })
            .collect()
    }

    /// Compares what was found with this manifest instead, which may have been filled since.
    pub fn compare(&self, mut checked: Vec<Checked>) -> Vec<Checked> {
        for ((_, entry), one) in self.entries().zip(&mut checked) {
            if let Some(found) = &one.found {
                one.problems = problems(entry, found);
            }
        }
        checked
    }

    /// Writes what was found into the manifest, where it says nothing: `sha256`, `bytes`, `requests`
    /// and `objects` below the path of each trace. Returns the number of keys.
    ///
    /// # Errors
    /// If the trace's keys are not on lines of their own, or the file cannot be written.
    pub fn fill(&self, checked: &[Checked]) -> Result<usize, LabError> {
        let text =
            text_file::read(&self.path).map_err(|error| LabError::file(&self.path, error))?;
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut added = 0;
        // From the last line on, so that the numbers of earlier lines stay.
        let mut all: Vec<((&Dataset, &Entry), &Checked)> = self.entries().zip(checked).collect();
        all.sort_by_key(|((_, entry), _)| std::cmp::Reverse(entry.path_line));
        for ((_, entry), checked) in all {
            let Some(found) = &checked.found else { continue };
            let keys = missing_keys(entry, found);
            if keys.is_empty() {
                continue;
            }
            let line = entry.path_line.checked_sub(1).and_then(|line| lines.get(line));
            if !line.is_some_and(|line| line.trim_start().starts_with("path")) {
                let reason = format!(
                    "line {}: `path` of `{}` is not on a line of its own: add these keys yourself: {}",
                    entry.path_line,
                    entry.name,
                    keys.join(", ")
                );
                return Err(LabError::file(&self.path, reason));
            }
            added += keys.len();
            lines.splice(entry.path_line..entry.path_line, keys);
        }
        if added > 0 {
            lines.push(String::new());
            crate::write_file(&self.path, &lines.join("\n"))?;
        }
        Ok(added)
    }
}

/// Return the lines of the keys that the manifest does not have.
fn missing_keys(entry: &Entry, found: &Found) -> Vec<String> {
    let numbers = [
        ("bytes", entry.bytes, found.bytes),
        ("requests", entry.requests, found.requests),
        ("objects", entry.objects, found.objects),
    ];
    let sha256 = entry.sha256.is_none().then(|| format!("sha256 = \"{}\"", found.sha256));
    let numbers = numbers.iter().filter(|(_, stated, _)| stated.is_none());
    sha256.into_iter().chain(numbers.map(|(key, _, found)| format!("{key} = {found}"))).collect()
}

fn check(dataset: &Dataset, entry: &Entry, watch: &Watch) -> Result<Checked, LabError> {
    let mut checked = Checked {
        dataset: dataset.name.clone(),
        trace: entry.name.clone(),
        split: entry.split,
        found: None,
        problems: vec![],
    };
    match find(entry, watch) {
        Ok(found) => {
            checked.problems = problems(entry, &found);
            checked.found = Some(found);
        }
        Err(LabError::Stopped) => return Err(LabError::Stopped),
        Err(error) if !entry.source.path.exists() => {
            let remedy = if entry.urls.is_empty() && entry.generate.is_none() {
                "put the file there, or name its folder with --root"
            } else {
                "`thermocline corpus fetch` brings it there"
            };
            checked.problems.push(format!("{error}; {remedy}"));
        }
        Err(error) => checked.problems.push(error.to_string()),
    }
    Ok(checked)
}

fn find(entry: &Entry, watch: &Watch) -> Result<Found, LabError> {
    let sha256 = entry.source.sha256()?;
    let bytes = file_bytes(&entry.source.path)?;
    let trace = entry.source.open(watch, 1)?;
    Ok(Found {
        sha256,
        bytes,
        requests: trace.request_count() as u64,
        accesses: trace.len() as u64,
        objects: trace.footprint_pages().into(),
        writes: trace.writes(),
        page_size_bytes: trace.page_size_bytes(),
        is_timed: trace.is_timed(),
    })
}

/// Return the length of a file.
pub(super) fn file_bytes(path: &Path) -> Result<u64, LabError> {
    let metadata = std::fs::metadata(path).map_err(|error| LabError::file(path, error))?;
    Ok(metadata.len())
}

/// Return the differences of a trace from the manifest.
fn problems(entry: &Entry, found: &Found) -> Vec<String> {
    let mut problems = vec![];
    match &entry.sha256 {
        None => problems.push(format!(
            "the manifest has no sha256: `corpus check --write` adds it ({})",
            found.sha256
        )),
        Some(stated) if *stated != found.sha256 => problems.push(format!(
            "the file is another one: its SHA-256 is {}, the manifest says {stated}: fetch it again, or correct `sha256`",
            found.sha256
        )),
        Some(_) => {}
    }
    for (key, stated, found) in [
        ("bytes", entry.bytes, found.bytes),
        ("requests", entry.requests, found.requests),
        ("objects", entry.objects, found.objects),
    ] {
        if let Some(stated) = stated.filter(|stated| *stated != found) {
            problems.push(format!("`{key}` is {stated} in the manifest, and {found} in the file: correct the manifest, or how the trace is read (`format`, `page_size`)"));
        }
    }
    match entry.ops {
        Some(Ops::Yes) if found.writes == 0 => {
            problems.push("`ops` is \"yes\", but nothing writes: say \"reads-only\"".into());
        }
        Some(Ops::ReadsOnly) if found.writes > 0 => problems.push(format!(
            "`ops` is \"reads-only\", but {} accesses write: say \"yes\"",
            found.writes
        )),
        _ => {}
    }
    problems
}
