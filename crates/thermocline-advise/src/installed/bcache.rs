//! bcache, as its files under `/sys` show it.
//!
//! A backing device has its files in `/sys/block/bcacheN/bcache`, with a link `cache` to the set, where
//! `cache0`, `cache1`, ... are the fast devices.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::counters::{Counted, Counters, Unit};
use super::error::{InstalledError, Place, shown};
use super::files::{exists, failure, names, read_text};
use super::settings::{Bcache, BcacheMode, BcacheReplacement};
use super::{Found, InstalledCache, InstalledKind, Setting};
use crate::size::{Units, bytes};

/// Files of a backing device that are settings, and that no model knows. Others are read here, or are
/// commands and measurements.
const OTHER_SETTINGS: [&str; 16] = [
    "bypass_torture_test",
    "io_disable",
    "io_error_limit",
    "partial_stripes_expensive",
    "readahead",
    "readahead_cache_policy",
    "sequential_merge",
    "stop_when_cache_set_failed",
    "stripe_size",
    "verify",
    "writeback_consider_fragment",
    "writeback_metadata",
    "writeback_rate_i_term_inverse",
    "writeback_rate_minimum",
    "writeback_rate_p_term_inverse",
    "writeback_running",
];

/// Read all backing devices of bcache below a root, which is `/` on the machine itself.
///
/// # Errors
/// If bcache is not loaded, or a file cannot be read or is not understood.
pub fn read(root: &Path) -> Result<Found, InstalledError> {
    let module = root.join("sys/fs/bcache");
    if !exists(&module)? {
        let remedy = "bcache is not loaded; try `modprobe bcache`";
        return Err(InstalledError::Absent { path: module, remedy });
    }
    let mut found = Found::default();
    for (name, folder) in devices(&root.join("sys/block"))? {
        let files = Files(folder);
        if exists(&files.0.join("cache"))? {
            found.caches.push(device(&name, &files)?);
            if files.text("state")? == "inconsistent" {
                found.notes.push(format!(
                    "{name} ran without its cache while that had newer data: check the file system"
                ));
            }
        } else {
            found.notes.push(format!(
                "{name} has no cache set; attach one with `echo SET > /sys/block/{name}/bcache/attach`, \
                 where SET is a name in /sys/fs/bcache"
            ));
        }
    }
    Ok(found)
}

/// Find the folders of all backing devices, in order of their numbers.
fn devices(blocks: &Path) -> Result<Vec<(String, PathBuf)>, InstalledError> {
    let mut devices = BTreeMap::new();
    for name in names(blocks)? {
        let Some(number) = name.strip_prefix("bcache").and_then(|text| text.parse::<u32>().ok())
        else {
            continue;
        };
        let folder = blocks.join(&name).join("bcache");
        devices.insert(number, (name, folder));
    }
    Ok(devices.into_values().collect())
}

fn device(name: &str, files: &Files) -> Result<InstalledCache, InstalledError> {
    let set = Files(files.0.join("cache"));
    let set_path = fs::canonicalize(&set.0).map_err(|error| failure(&set.0, error))?;
    let set_name = set_path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut size_bytes = 0_u64;
    let mut first = None;
    let mut written = Written::default();
    for fast in names(&set.0)?.iter().filter(|name| is_numbered(name, "cache")) {
        let fast = Files(set.0.join(fast));
        let buckets = fast.number("nbuckets")?;
        let bucket_bytes = fast.size("bucket_size")?;
        let bytes = buckets
            .checked_mul(bucket_bytes)
            .and_then(|bytes| size_bytes.checked_add(bytes))
            .ok_or_else(|| {
                fast.error("nbuckets", "the buckets together are larger than any device")
            })?;
        size_bytes = bytes;
        written.add(&fast)?;
        first.get_or_insert((bucket_bytes, fast));
    }
    let Some((bucket_bytes, fast)) = first else {
        return Err(set.error("cache0", "the set has no cache device"));
    };
    if bucket_bytes == 0 {
        return Err(fast.error("bucket_size", "it is 0"));
    }
    let settings = Bcache {
        bucket_bytes,
        block_bytes: fast.size("block_size")?,
        mode: files.choice("cache_mode", BcacheMode::of, &BcacheMode::known())?,
        replacement: fast.choice(
            "cache_replacement_policy",
            BcacheReplacement::of,
            &BcacheReplacement::known(),
        )?,
        sequential_cutoff_bytes: files.size("sequential_cutoff")?,
        writeback_percent: files.number("writeback_percent")?,
        writeback_delay_s: files.number("writeback_delay")?,
        congested_read_us: set.number("congested_read_threshold_us")?,
        congested_write_us: set.number("congested_write_threshold_us")?,
    };
    Ok(InstalledCache {
        name: name.into(),
        size_bytes,
        kind: InstalledKind::Bcache { set: set_name, settings },
        counters: counters(files, written)?,
        other_settings: other_settings(files)?,
    })
}

/// Bytes written to the devices of a set.
#[derive(Clone, Copy, Debug, Default)]
struct Written {
    data: u64,
    metadata: u64,
}

impl Written {
    fn add(&mut self, fast: &Files) -> Result<(), InstalledError> {
        self.data = self.data.saturating_add(fast.size("written")?);
        self.metadata = self.metadata.saturating_add(fast.size("metadata_written")?);
        Ok(())
    }
}

fn counters(files: &Files, written: Written) -> Result<Counters, InstalledError> {
    let totals = Files(files.0.join("stats_total"));
    let mut counters = Counters::default();
    for (counted, file, meaning) in [
        (
            Counted::Hits,
            "cache_hits",
            "requests that were cached as a whole, since the device was registered",
        ),
        (
            Counted::Misses,
            "cache_misses",
            "requests that were not cached, or only in part, since the device was registered",
        ),
        (
            Counted::BypassHits,
            "cache_bypass_hits",
            "requests that were to bypass the cache, and were cached",
        ),
        (
            Counted::BypassMisses,
            "cache_bypass_misses",
            "requests that were to bypass the cache, and were not cached",
        ),
    ] {
        counters.add(counted, totals.number(file)?, Unit::Requests, meaning);
    }
    for (counted, bytes, meaning) in [
        (
            Counted::Bypassed,
            totals.size("bypassed")?,
            "bytes of reads and writes that bypassed the cache, rounded by the kernel",
        ),
        (
            Counted::Dirty,
            files.size("dirty_data")?,
            "bytes that are newer in the cache than on this backing device now, rounded by the kernel",
        ),
        (
            Counted::FlashWrites,
            written.data.saturating_add(written.metadata),
            "bytes of data and metadata written to the cache set, for all its backing devices, rounded by \
             the kernel",
        ),
        (
            Counted::MetadataWrites,
            written.metadata,
            "bytes of the journal, the tree and priorities written to the cache set, rounded by the kernel",
        ),
    ] {
        counters.add(counted, bytes, Unit::Bytes, meaning);
    }
    Ok(counters)
}

fn other_settings(files: &Files) -> Result<Vec<Setting>, InstalledError> {
    let mut settings = vec![];
    for name in names(&files.0)? {
        if OTHER_SETTINGS.contains(&name.as_str()) {
            settings.push(Setting { value: files.text(&name)?, name });
        }
    }
    Ok(settings)
}

fn is_numbered(name: &str, head: &str) -> bool {
    name.strip_prefix(head).is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// A folder whose files have one value each.
#[derive(Clone, Debug)]
struct Files(PathBuf);

impl Files {
    fn error(&self, file: &str, reason: impl Into<String>) -> InstalledError {
        let path = self.0.join(file).display().to_string();
        Place { source: &path, look: &format!("cat {path}") }.error("", reason)
    }

    fn text(&self, file: &str) -> Result<String, InstalledError> {
        read_text(&self.0.join(file))
    }

    fn number(&self, file: &str) -> Result<u64, InstalledError> {
        let text = self.text(file)?;
        let number = text.parse().ok().filter(|_| !text.starts_with('+'));
        number.ok_or_else(|| {
            self.error(file, format!("expected a whole number, found {}", shown(&text)))
        })
    }

    fn size(&self, file: &str) -> Result<u64, InstalledError> {
        let text = self.text(file)?;
        bytes(&text, Units::Binary).ok_or_else(|| {
            self.error(file, format!("expected a size such as 512.0k, found {}", shown(&text)))
        })
    }

    /// Return the word in brackets among all that may be written to the file.
    fn choice<T>(
        &self,
        file: &str,
        of: fn(&str) -> Option<T>,
        known: &str,
    ) -> Result<T, InstalledError> {
        let text = self.text(file)?;
        let chosen = text
            .split_ascii_whitespace()
            .find_map(|word| word.strip_prefix('[').and_then(|word| word.strip_suffix(']')));
        chosen.and_then(of).ok_or_else(|| {
            let reason = format!("expected one of {known} in brackets, found {}", shown(&text));
            self.error(file, reason)
        })
    }
}
