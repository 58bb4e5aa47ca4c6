//! Lines of `dmsetup table` and `dmsetup status` for the targets `cache` and `writecache`.
//!
//! The words of a line are those of the kernel's documents `device-mapper/cache.rst` and
//! `writecache.rst`.

use super::counters::{Counted, Counters, Unit};
use super::error::{InstalledError, Place, shown};
use super::settings::{DmCache, DmCacheMode, DmWritecache, WritecacheMemory};
use super::{InstalledKind, Setting};

/// Bytes of a sector, the unit of all tables.
pub(super) const SECTOR_BYTES: u64 = 512;

/// Sectors that may migrate at one time, where the table says nothing.
const MIGRATION_THRESHOLD_SECTORS: u64 = 2048;

const TABLE: Place<'_> = Place { source: "the output of `dmsetup table`", look: "dmsetup table" };
const STATUS: Place<'_> =
    Place { source: "the output of `dmsetup status`", look: "dmsetup status --noflush" };

/// A target of a device.
#[derive(Clone, Debug)]
pub(super) struct Target<'a> {
    pub(super) device: &'a str,
    pub(super) kind: &'a str,
    words: Vec<&'a str>,
}

/// Parse the lines of a table.
pub(super) fn table(text: &str) -> Result<Vec<Target<'_>>, InstalledError> {
    targets(text, TABLE)
}

/// Parse the lines of a status.
pub(super) fn status(text: &str) -> Result<Vec<Target<'_>>, InstalledError> {
    targets(text, STATUS)
}

fn targets<'a>(text: &'a str, place: Place<'_>) -> Result<Vec<Target<'a>>, InstalledError> {
    let mut targets = vec![];
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        if line.trim() == "No devices found" {
            continue;
        }
        let Some((device, rest)) = line.split_once(':') else {
            let reason = format!("expected 'NAME: START LENGTH TARGET', found {}", shown(line));
            return Err(place.error("", reason));
        };
        let mut words = rest.split_ascii_whitespace();
        // A device that was made and not loaded has no target.
        let Some(start) = words.next() else { continue };
        place.number(device, start)?;
        place.number(device, words.next().unwrap_or_default())?;
        let kind = words.next().ok_or_else(|| place.error(device, "the target is missing"))?;
        targets.push(Target { device, kind, words: words.collect() });
    }
    Ok(targets)
}

/// The words of a line, from left to right.
struct Words<'a, 'b> {
    place: Place<'b>,
    device: &'a str,
    left: std::slice::Iter<'a, &'a str>,
}

impl<'a, 'b> Words<'a, 'b> {
    fn of(target: &'a Target<'a>, place: Place<'b>) -> Self {
        Self { place, device: target.device, left: target.words.iter() }
    }

    fn word(&mut self, what: &str) -> Result<&'a str, InstalledError> {
        let missing = || self.place.error(self.device, format!("the line ends before the {what}"));
        self.left.next().copied().ok_or_else(missing)
    }

    fn number(&mut self, what: &str) -> Result<u64, InstalledError> {
        let word = self.word(what)?;
        self.place.number(&format!("{}, {what}", self.device), word)
    }

    /// Parse two numbers with a slash between them.
    fn share(&mut self, what: &str) -> Result<(u64, u64), InstalledError> {
        let word = self.word(what)?;
        let part = format!("{}, {what}", self.device);
        let (used, total) = word.split_once('/').ok_or_else(|| {
            self.place.error(&part, format!("expected USED/TOTAL, found {}", shown(word)))
        })?;
        Ok((self.place.number(&part, used)?, self.place.number(&part, total)?))
    }

    /// Parse a number, and then that many words.
    fn counted(&mut self, what: &str) -> Result<&'a [&'a str], InstalledError> {
        let count =
            usize::try_from(self.number(&format!("number of {what}"))?).unwrap_or(usize::MAX);
        let words = self.left.as_slice();
        let (taken, left) = words.split_at_checked(count).ok_or_else(|| {
            let reason = format!("the line has {} words for {count} {what}", words.len());
            self.place.error(self.device, reason)
        })?;
        self.left = left.iter();
        Ok(taken)
    }

    /// Parse a number, and then that many words, which are names and values in turn.
    fn pairs(&mut self, what: &str) -> Result<&'a [[&'a str; 2]], InstalledError> {
        match self.counted(what)?.as_chunks() {
            (pairs, []) => Ok(pairs),
            (pairs, _) => {
                let count = 2 * pairs.len() + 1;
                Err(self.error(format!("expected an even number of {what}, found {count}")))
            }
        }
    }

    fn error(&self, reason: impl Into<String>) -> InstalledError {
        self.place.error(self.device, reason)
    }
}

/// A cache as its table and its status describe it.
#[derive(Debug)]
pub(super) struct Described {
    pub(super) size_bytes: u64,
    pub(super) kind: InstalledKind,
    pub(super) counters: Counters,
    pub(super) other_settings: Vec<Setting>,
    pub(super) notes: Vec<String>,
}

/// Understand a target `cache`; everything that the table says is in the status as well.
pub(super) fn cache(table: &Target<'_>, status: &Target<'_>) -> Result<Described, InstalledError> {
    let mut words = Words::of(table, TABLE);
    for what in ["metadata device", "cache device", "origin device"] {
        words.word(what)?;
    }
    let block_sectors = words.number("block size")?;
    let mut words = Words::of(status, STATUS);
    if let [only @ ("Fail" | "Error")] = *words.left.as_slice() {
        let reason =
            format!("the kernel has given the cache up ({only}); its metadata need repair");
        return Err(words.error(reason));
    }
    words.number("metadata block size")?;
    words.share("metadata blocks")?;
    if words.number("cache block size")? != block_sectors {
        return Err(words.error("the table has another block size: the cache was just changed"));
    }
    let (used, blocks) = words.share("cache blocks")?;
    let mut counters = cache_counters(&mut words)?;
    counters.add(Counted::Used, used, Unit::Blocks, "cache blocks that hold a block of the origin");
    let mut other_settings = vec![];
    let mut mode = DmCacheMode::Writeback;
    for &feature in words.counted("features")? {
        match DmCacheMode::of(feature) {
            Some(given) => mode = given,
            None => other_settings.push(Setting::new(feature, "")),
        }
    }
    let mut migration_threshold_sectors = MIGRATION_THRESHOLD_SECTORS;
    for &[name, value] in words.pairs("core arguments")? {
        if name == "migration_threshold" {
            migration_threshold_sectors = STATUS.number(name, value)?;
        } else {
            other_settings.push(Setting::new(name, value));
        }
    }
    let policy = words.word("policy")?.to_owned();
    for &[name, value] in words.pairs("policy arguments")? {
        other_settings.push(Setting::new(name, value));
    }
    let notes = cache_state(&mut words);
    let block_bytes = STATUS.scaled(status.device, block_sectors, SECTOR_BYTES)?;
    if block_bytes == 0 {
        return Err(words.error("the block size is 0"));
    }
    Ok(Described {
        size_bytes: STATUS.scaled(status.device, blocks, block_bytes)?,
        kind: InstalledKind::DmCache {
            volume: None,
            settings: DmCache { block_bytes, mode, policy, migration_threshold_sectors },
        },
        counters,
        other_settings,
        notes,
    })
}

fn cache_counters(words: &mut Words<'_, '_>) -> Result<Counters, InstalledError> {
    let mut counters = Counters::default();
    for (counted, unit, what, meaning) in [
        (
            Counted::ReadHits,
            Unit::Requests,
            "read hits",
            "reads that were sent to the cache device, since it was activated",
        ),
        (
            Counted::ReadMisses,
            Unit::Requests,
            "read misses",
            "reads that were sent to the origin device, since the cache was activated",
        ),
        (
            Counted::WriteHits,
            Unit::Requests,
            "write hits",
            "writes that were sent to the cache device, since it was activated",
        ),
        (
            Counted::WriteMisses,
            Unit::Requests,
            "write misses",
            "writes that were sent to the origin device, since the cache was activated",
        ),
        (
            Counted::Demotions,
            Unit::Blocks,
            "demotions",
            "times that a block was removed from the cache, since it was activated",
        ),
        (
            Counted::Promotions,
            Unit::Blocks,
            "promotions",
            "times that a block was moved to the cache, since it was activated",
        ),
        (
            Counted::Dirty,
            Unit::Blocks,
            "dirty blocks",
            "cache blocks that differ from the origin now",
        ),
    ] {
        counters.add(counted, words.number(what)?, unit, meaning);
    }
    Ok(counters)
}

/// Take the state that newer kernels put at the end of a status, as sentences.
fn cache_state(words: &mut Words<'_, '_>) -> Vec<String> {
    let mut notes = vec![];
    for &word in words.left.by_ref() {
        match word {
            "rw" | "-" => {}
            "ro" => notes.push(format!("{}: the metadata can only be read", words.device)),
            "needs_check" => notes.push(format!(
                "{}: the metadata need a check; deactivate the volume and run `cache_check`",
                words.device
            )),
            _ => notes.push(format!("{}: unknown state {}", words.device, shown(word))),
        }
    }
    notes
}

/// Understand a target `writecache`.
pub(super) fn writecache(
    table: &Target<'_>,
    status: &Target<'_>,
) -> Result<Described, InstalledError> {
    let mut words = Words::of(table, TABLE);
    let word = words.word("kind of cache device")?;
    let memory = WritecacheMemory::of(word)
        .ok_or_else(|| TABLE.unknown_word(table.device, word, &WritecacheMemory::known()))?;
    for what in ["origin device", "cache device"] {
        words.word(what)?;
    }
    let block_bytes = words.number("block size")?;
    let mut settings = DmWritecache {
        block_bytes,
        memory,
        high_watermark: 50,
        low_watermark: 45,
        autocommit_blocks: if memory == WritecacheMemory::Ssd { 65536 } else { 64 },
        autocommit_ms: 1000,
        max_age_ms: None,
        writeback_jobs: None,
        cleaner: false,
    };
    let other_settings = writecache_options(&mut words, &mut settings)?;
    let mut words = Words::of(status, STATUS);
    let error = words.number("error indicator")?;
    let notes = if error == 0 {
        vec![]
    } else {
        vec![format!("{}: the cache has failed with error {error}", status.device)]
    };
    let blocks = words.number("number of blocks")?;
    let free = words.number("number of free blocks")?;
    let cleaned = words.number("number of blocks under writeback")?;
    let used = blocks
        .checked_sub(free)
        .ok_or_else(|| words.error(format!("{free} of {blocks} blocks are free")))?;
    if block_bytes == 0 || cleaned > blocks {
        return Err(words.error(format!("{cleaned} of {blocks} blocks of {block_bytes} bytes")));
    }
    let mut counters = Counters::default();
    let held = "blocks that the cache holds now, all newer than the origin's or on their way there";
    counters.add(Counted::Used, used, Unit::Blocks, held);
    counters.add(Counted::Dirty, used, Unit::Blocks, held);
    writecache_counters(&mut words, &mut counters)?;
    Ok(Described {
        size_bytes: STATUS.scaled(status.device, blocks, block_bytes)?,
        kind: InstalledKind::DmWritecache { volume: None, settings },
        counters,
        other_settings,
        notes,
    })
}

/// Take the optional words of a table; returns those that no model knows.
fn writecache_options(
    words: &mut Words<'_, '_>,
    settings: &mut DmWritecache,
) -> Result<Vec<Setting>, InstalledError> {
    /// Words that have no value.
    const ALONE: [&str; 4] = ["fua", "nofua", "cleaner", "metadata_only"];
    let mut other = vec![];
    let mut options = words.counted("options")?.iter();
    while let Some(&name) = options.next() {
        if ALONE.contains(&name) {
            if name == "cleaner" {
                settings.cleaner = true;
            } else {
                other.push(Setting::new(name, ""));
            }
            continue;
        }
        let value = options
            .next()
            .copied()
            .ok_or_else(|| words.error(format!("the option {} has no value", shown(name))))?;
        let number = || TABLE.number(&format!("{}, {name}", words.device), value);
        match name {
            "high_watermark" => settings.high_watermark = number()?,
            "low_watermark" => settings.low_watermark = number()?,
            "autocommit_blocks" => settings.autocommit_blocks = number()?,
            "autocommit_time" => settings.autocommit_ms = number()?,
            "max_age" => settings.max_age_ms = Some(number()?),
            "writeback_jobs" => settings.writeback_jobs = Some(number()?),
            _ => other.push(Setting::new(name, value)),
        }
    }
    Ok(other)
}

/// Take the counters that Linux 5.15 and newer add to a status.
fn writecache_counters(
    words: &mut Words<'_, '_>,
    counters: &mut Counters,
) -> Result<(), InstalledError> {
    if words.left.len() == 0 {
        return Ok(());
    }
    let reads = words.number("read blocks")?;
    let read_hits = words.number("read blocks that hit")?;
    let writes = words.number("written blocks")?;
    let uncommitted = words.number("writes that hit an uncommitted block")?;
    let committed = words.number("writes that hit a committed block")?;
    let bypassed = words.number("writes that bypass the cache")?;
    let allocated = words.number("writes that are allocated in the cache")?;
    let read_misses = reads
        .checked_sub(read_hits)
        .ok_or_else(|| words.error(format!("{read_hits} of {reads} reads are hits")))?;
    let write_hits = uncommitted.saturating_add(committed);
    let write_misses = writes
        .checked_sub(write_hits)
        .ok_or_else(|| words.error(format!("{write_hits} of {writes} writes are hits")))?;
    for (counted, value, meaning) in [
        (Counted::ReadHits, read_hits, "blocks read from the cache, since it was activated"),
        (Counted::ReadMisses, read_misses, "blocks read from the origin, since the activation"),
        (Counted::WriteHits, write_hits, "writes to a cached block, committed or not"),
        (Counted::WriteMisses, write_misses, "writes to blocks that were not cached"),
        (Counted::Bypassed, bypassed, "written blocks that went to the origin at once"),
        (Counted::Promotions, allocated, "written blocks that got a new place in the cache"),
    ] {
        counters.add(counted, value, Unit::Blocks, meaning);
    }
    Ok(())
}
