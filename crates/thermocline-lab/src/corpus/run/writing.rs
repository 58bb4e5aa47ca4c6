//! Results go to parts beside the data set, in which a run that was killed finds them again.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::LabError;
use crate::corpus::results::{self, Row};
use crate::parts::Parts;

use super::{Progress, SEPARATOR};

/// How long a finished result may wait to be written: a run that is killed loses no more.
const FLUSH_AFTER: Duration = Duration::from_secs(2);
/// Results that are written together at most.
const FLUSH_ROWS: usize = 256;

/// The folder can be written: what is wrong with it is said before anything is run.
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

/// The keys of all results in the data set and in its parts.
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

/// Writes results as they come: a part for each data set, at the latest after a short while.
pub(super) fn write_parts(
    parts: &Parts,
    finished: &Receiver<Row>,
    progress: &impl Fn(Progress),
) -> Result<(), LabError> {
    let mut waiting: Vec<Row> = vec![];
    let mut since = Instant::now();
    loop {
        let left = FLUSH_AFTER.saturating_sub(since.elapsed());
        let received = finished.recv_timeout(if waiting.is_empty() { FLUSH_AFTER } else { left });
        match received {
            Ok(row) => {
                if waiting.is_empty() {
                    since = Instant::now();
                }
                waiting.push(row);
                progress(Progress::Finished(1));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return write_part(parts, &mut waiting),
        }
        if waiting.len() >= FLUSH_ROWS || since.elapsed() >= FLUSH_AFTER {
            write_part(parts, &mut waiting)?;
            since = Instant::now();
        }
    }
}

pub(super) fn write_part(parts: &Parts, waiting: &mut Vec<Row>) -> Result<(), LabError> {
    let mut by_dataset: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for row in waiting.drain(..) {
        by_dataset.entry(row.dataset.clone()).or_default().push(row);
    }
    for (dataset, mut rows) in by_dataset {
        let path = parts.path(&format!("{dataset}{SEPARATOR}{}", rows[0].key));
        results::write_file(&path, &mut rows, &BTreeMap::new())?;
    }
    Ok(())
}
