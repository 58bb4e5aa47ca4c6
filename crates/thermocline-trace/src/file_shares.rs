//! Shares of a recording's accesses: of files, classes and processes.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::beside::stats_of;
use crate::compiled::CompiledTrace;
use crate::error::TraceError;
use crate::file_table::{FileEntry, FileTable};
use crate::id_map::WRITE_BIT;

/// Accesses by direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AccessShare {
    /// Page accesses that read.
    pub reads: u64,
    /// Page accesses that write.
    pub writes: u64,
    /// Accesses / all accesses, in \[0, 1\].
    pub access_share: f64,
}

/// A file's accesses.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FileShare {
    /// Its name.
    pub path: String,
    /// Its class.
    pub class: String,
    /// Distinct pages that were accessed.
    pub footprint_pages: u64,
    /// Its accesses.
    #[serde(flatten)]
    pub share: AccessShare,
}

/// A class's accesses.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ClassShare {
    /// The class.
    pub class: String,
    /// Files of which a page was accessed.
    pub files: u64,
    /// Distinct pages that were accessed.
    pub footprint_pages: u64,
    /// Its accesses.
    #[serde(flatten)]
    pub share: AccessShare,
}

/// A process's part of a whole recording.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ProcessShare {
    /// The program that it runs.
    pub process: String,
    /// Its accesses.
    #[serde(flatten)]
    pub share: AccessShare,
}

/// The shares of files and of classes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FileShares {
    /// Files of which a page was accessed.
    pub files: u64,
    /// The files with the most accesses, those first.
    pub hottest_files: Vec<FileShare>,
    /// The classes, those with the most accesses first.
    pub classes: Vec<ClassShare>,
}

impl FileShares {
    /// Counts the accesses to each file of `table`, from which `trace` was compiled; the `hottest`
    /// files are named.
    pub fn of(trace: &CompiledTrace, table: &FileTable, hottest: usize) -> Self {
        let owners = table.owners(trace);
        let mut counts = vec![(0_u64, 0_u64, 0_u64); table.files().len()];
        for owner in owners.iter().flatten() {
            counts[*owner].0 += 1;
        }
        for &packed in trace.packed() {
            let Some(owner) = owners[(packed & !WRITE_BIT) as usize] else { continue };
            let count = &mut counts[owner];
            *(if packed & WRITE_BIT == 0 { &mut count.1 } else { &mut count.2 }) += 1;
        }
        let all = trace.len() as u64;
        let mut files: Vec<(&FileEntry, u64, AccessShare)> = table
            .files()
            .iter()
            .zip(counts)
            .filter(|(_, (pages, ..))| *pages > 0)
            .map(|(file, (pages, reads, writes))| (file, pages, share(reads, writes, all)))
            .collect();
        let classes = classes(&files, all);
        files.sort_by_key(|(_, _, share)| std::cmp::Reverse(share.reads + share.writes));
        let named = |&(file, footprint_pages, share): &(&FileEntry, u64, AccessShare)| FileShare {
            path: file.path.clone(),
            class: file.class.clone(),
            footprint_pages,
            share,
        };
        let hottest_files = files.iter().take(hottest).map(named).collect();
        Self { files: files.len() as u64, hottest_files, classes }
    }
}

/// Return the shares of the processes of a recording, the largest first; none if they are not
/// stated beside it.
///
/// # Errors
/// If what is beside it cannot be read.
pub fn processes_of(path: &Path) -> Result<Vec<ProcessShare>, TraceError> {
    let Some((path, stats)) = stats_of(path)? else { return Ok(vec![]) };
    let Some(processes) = stats.get("processes").and_then(serde_json::Value::as_object) else {
        return Ok(vec![]);
    };
    let mut counts = vec![];
    for (process, count) in processes {
        let pages = |name: &str| count.get(name).and_then(serde_json::Value::as_u64);
        let (Some(reads), Some(writes)) = (pages("read_pages"), pages("write_pages")) else {
            let reason = format!("process '{process}' lacks read_pages or write_pages");
            return Err(TraceError::Content { path, reason });
        };
        counts.push((process, reads, writes));
    }
    let all = counts
        .iter()
        .fold(0_u64, |all, (_, reads, writes)| all.saturating_add(*reads).saturating_add(*writes));
    counts.sort_by_key(|(_, reads, writes)| std::cmp::Reverse(reads.saturating_add(*writes)));
    let share_of = |(process, reads, writes): (&String, u64, u64)| ProcessShare {
        process: process.clone(),
        share: share(reads, writes, all),
    };
    Ok(counts.into_iter().map(share_of).collect())
}

/// Return the accesses as a part of all.
fn share(reads: u64, writes: u64, all: u64) -> AccessShare {
    let access_share =
        if all == 0 { 0.0 } else { reads.saturating_add(writes) as f64 / all as f64 };
    AccessShare { reads, writes, access_share }
}

fn classes(files: &[(&FileEntry, u64, AccessShare)], all: u64) -> Vec<ClassShare> {
    let mut classes: BTreeMap<&str, (u64, u64, u64, u64)> = BTreeMap::new();
    for (file, pages, share) in files {
        let sum = classes.entry(&file.class).or_default();
        *sum = (sum.0 + 1, sum.1 + pages, sum.2 + share.reads, sum.3 + share.writes);
    }
    let mut classes: Vec<ClassShare> = classes
        .into_iter()
        .map(|(class, (files, footprint_pages, reads, writes))| ClassShare {
            class: class.into(),
            files,
            footprint_pages,
            share: share(reads, writes, all),
        })
        .collect();
    classes.sort_by_key(|one| std::cmp::Reverse(one.share.reads + one.share.writes));
    classes
}
