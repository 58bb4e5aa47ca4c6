//! The counters that a kernel keeps of its cache, each with what it counts.

use serde::Serialize;

use crate::words::words;

words! {
    /// The event or amount that a counter counts.
    pub enum Counted {
        /// Reads that the fast device served.
        ReadHits = "read-hits",
        /// Reads that it did not serve.
        ReadMisses = "read-misses",
        /// Writes to what was cached.
        WriteHits = "write-hits",
        /// Writes to what was not.
        WriteMisses = "write-misses",
        /// Hits, where the kernel does not separate reads from writes.
        Hits = "hits",
        /// Misses, likewise.
        Misses = "misses",
        /// Hits of requests that were to bypass the cache.
        BypassHits = "bypass-hits",
        /// Misses of such requests.
        BypassMisses = "bypass-misses",
        /// Requests or bytes that bypassed the cache.
        Bypassed = "bypassed",
        /// Copies to the fast device.
        Promotions = "promotions",
        /// Removals from the fast device.
        Demotions = "demotions",
        /// Data that is newer on the fast device than on the slow one.
        Dirty = "dirty",
        /// Data on the fast device.
        Used = "used",
        /// Writes to the fast device.
        FlashWrites = "flash-writes",
        /// Writes to the fast device of the cache's own metadata, where the kernel counts them apart.
        MetadataWrites = "metadata-writes",
        /// Reads from the fast device.
        FlashReads = "flash-reads",
        /// Hits in memory, above the fast device.
        RamHits = "ram-hits",
        /// Misses in memory.
        RamMisses = "ram-misses",
    }
}

words! {
    /// The unit of a counter.
    pub enum Unit {
        /// Requests of any size.
        Requests = "requests",
        /// Blocks of the cache.
        Blocks = "blocks",
        /// Bytes.
        Bytes = "bytes",
    }
}

/// One counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Counter {
    /// The event or amount.
    pub counted: Counted,
    /// Its value.
    pub value: u64,
    /// Its unit.
    pub unit: Unit,
    /// The exact definition: the events that the kernel counts, and since when.
    pub meaning: &'static str,
}

/// The counters of one cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Counters(Vec<Counter>);

impl Counters {
    /// Add a counter.
    pub(super) fn add(&mut self, counted: Counted, value: u64, unit: Unit, meaning: &'static str) {
        self.0.push(Counter { counted, value, unit, meaning });
    }

    /// Find the value of a counter, if the kernel keeps it.
    pub fn value(&self, counted: Counted) -> Option<u64> {
        self.0.iter().find(|counter| counter.counted == counted).map(|counter| counter.value)
    }

    /// Visit all counters.
    pub fn iter(&self) -> impl Iterator<Item = &Counter> + '_ {
        self.0.iter()
    }
}
