//! Results go to parts beside the data set, in which a run that was killed finds them again.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::LabError;
use crate::corpus::results::{self, Row};
use crate::parts::Parts;

use super::SEPARATOR;

/// Maximum time that a finished result waits to be written: a run that is killed loses no more.
pub(super) const FLUSH_AFTER: Duration = Duration::from_secs(2);
/// Results that are written together at most.
const FLUSH_ROWS: usize = 256;

/// Check that the folder can be written, before anything is run.
pub(super) fn check_output(output: &Path) -> Result<(), LabError> {
    if output.exists() && !output.is_dir() {
        return Err(LabError::file(output, "it is a file: name a folder for the results"));
    }
    match output.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
            Err(LabError::file(folder, "there is no such folder: make it, or name another one"))
        }
        _ => Ok(()),
    }
}

/// Return the keys of all results in the data set and in its parts.
pub(super) fn known_keys(output: &Path, parts: &Parts) -> Result<HashSet<String>, LabError> {
    let mut keys = HashSet::new();
    if output.is_dir() {
        for (_, path) in results::files(output)? {
            keys.extend(results::keys(&path)?);
        }
    }
    for path in parts.paths()? {
        keys.extend(results::keys(&path)?);
    }
    Ok(keys)
}

/// Results that wait to be written together.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    rows: Vec<Row>,
    written_at: Option<Instant>,
}

impl Waiting {
    /// Adds results.
    pub(super) fn extend(&mut self, rows: impl IntoIterator<Item = Row>) {
        self.rows.extend(rows);
    }

    /// `true` if there are many, or nothing was written for a short while.
    pub(super) fn is_due(&self) -> bool {
        self.rows.len() >= FLUSH_ROWS
            || self.written_at.is_none_or(|written_at| written_at.elapsed() >= FLUSH_AFTER)
    }

    /// Writes them as a part for each data set.
    pub(super) fn write(&mut self, parts: &Parts) -> Result<(), LabError> {
        let mut by_dataset: BTreeMap<String, Vec<Row>> = BTreeMap::new();
        for row in self.rows.drain(..) {
            by_dataset.entry(row.dataset.clone()).or_default().push(row);
        }
        for (dataset, mut rows) in by_dataset {
            let path = parts.path(&format!("{dataset}{SEPARATOR}{}", rows[0].key));
            results::write_file(&path, &mut rows, &BTreeMap::new())?;
            self.written_at = Some(Instant::now());
        }
        Ok(())
    }
}
