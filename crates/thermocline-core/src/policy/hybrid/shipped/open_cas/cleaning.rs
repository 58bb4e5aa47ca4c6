//! Cleaners of Open CAS, which write dirty lines back in the background.
//!
//! * Source: Open CAS Framework, `src/cleaning/{alru,acp,nop}.c`, by a description of their rules.
//! * State: 24 bytes per line of the cache, and 12 per chunk of the disk.
//! * Cost: O(1) per change.
//! * Deviations: (1) A cleaner's work takes no time. (2) A chunk is 100 MiB of the addresses that
//!   exist.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::ops::Range;

use crate::Nanos;
use crate::config::Values;
use crate::policy::hybrid::shipped::time::{SECOND, after};
use crate::queue::Lists;

/// Choice of the lines that a cleaner takes next, and of the time.
#[derive(Debug)]
pub(super) enum Cleaner {
    Nop,
    Alru(Alru),
    Acp(Acp),
}

/// Dirty lines by their last write.
#[derive(Debug)]
pub(super) struct Alru {
    /// Per entry: when it was written last. One list, the one written longest ago in front.
    written: Lists<Nanos>,
    wake_s: u64,
    staleness_s: u64,
    batch: u32,
    activity_s: u64,
    /// Limits of dirty lines: more than the first are cleaned at once, until fewer than the second
    /// are left.
    dirty_max: Option<[u64; 2]>,
    /// `true` if batches go on until few are dirty.
    has_excess: bool,
    next_wake: Nanos,
}

/// Dirty lines by the chunks of the disk where they belong, swept one after the other.
#[derive(Debug)]
pub(super) struct Acp {
    dirty: BTreeSet<u32>,
    /// Per chunk: the number of dirty lines. A list per share of them, from none to more than 90 %.
    chunks: Lists<u32>,
    chunk_lines: u32,
    wake: Nanos,
    batch: u32,
    next_wake: Nanos,
    /// Range of the sweep that is left: its current position and its end.
    sweep: Option<Range<u32>>,
}

/// Lists of chunks: one of clean ones, and ten of dirty ones.
const SHARES: u32 = 11;
/// About what a line takes in an ordered set.
const ENTRY_BYTES: usize = 6;
/// The only list of written lines.
const ALL: u32 = 0;

impl Alru {
    pub(super) fn new(entries: u32, lines: u32, line_pages: u32, values: &Values) -> Self {
        let ratio = values.integer("alru_dirty_ratio");
        let dirty_max = u64::from(lines) * ratio / 100;
        let inertia = values.integer("alru_inertia_pages") / u64::from(line_pages);
        Self {
            written: Lists::with_values(entries, 1, Nanos(0)),
            wake_s: values.integer("alru_wake_s"),
            staleness_s: values.integer("alru_staleness_s"),
            batch: values.integer_u32("alru_batch"),
            activity_s: values.integer("alru_activity_s"),
            dirty_max: (ratio < 100).then_some([dirty_max, dirty_max.saturating_sub(inertia)]),
            has_excess: false,
            next_wake: Nanos(0),
        }
    }

    /// Notes a write of a line.
    pub(super) fn written(&mut self, entry: u32, now: Nanos) {
        self.cleaned(entry);
        *self.written.value_mut(entry) = now;
        self.written.push_back(ALL, entry);
    }

    /// Notes that a line is clean, or not cached any more.
    pub(super) fn cleaned(&mut self, entry: u32) {
        if self.written.contains(entry) {
            self.written.remove(entry);
        }
    }

    /// Return the lines that are cleaned at once, as too many are dirty.
    pub(super) fn excess(&mut self) -> Option<Vec<u32>> {
        let [high, low] = self.dirty_max?;
        let dirty = u64::from(self.written.len(ALL));
        // Hysteresis: cleaning goes on below the upper limit until the lower one is reached.
        self.has_excess = dirty > 0 && dirty >= if self.has_excess { low } else { high };
        self.has_excess.then(|| self.written.iter(ALL).take(self.batch as usize).collect())
    }

    /// Return the lines that the cleaner takes when it wakes next in a gap without requests, if it
    /// does.
    pub(super) fn wake(&mut self, idle: Nanos, now: Nanos) -> Option<Vec<u32>> {
        let oldest = *self.written.value(self.written.front(ALL)?);
        // ALRU cleans if no request came for the activity threshold and a line was not written for
        // the staleness time; both have to be over.
        let is_idle = after(Nanos(now.0.saturating_sub(idle.0)), self.activity_s);
        let earliest = is_idle.max(after(oldest, self.staleness_s));
        let mut wake = self.next_wake;
        if wake < earliest {
            // Wakes that find nothing to do pass.
            let period = (self.wake_s * SECOND).max(1);
            let missed = (earliest.0 - wake.0).div_ceil(period);
            wake.0 = wake.0.saturating_add(missed.saturating_mul(period));
        }
        if wake > now {
            return None;
        }
        // With a period of 0 s the cleaner would wake at the same time for ever.
        self.next_wake = Nanos(after(wake, self.wake_s).0.max(wake.0 + 1));
        let is_stale = |entry: &u32| after(*self.written.value(*entry), self.staleness_s) <= wake;
        let batch = self.written.iter(ALL).take(self.batch as usize).take_while(is_stale);
        Some(batch.collect())
    }

    fn memory_bytes(&self) -> usize {
        self.written.memory_bytes()
    }
}

impl Acp {
    /// Create the cleaner of a disk of `disk_lines` lines.
    pub(super) fn new(disk_lines: u32, line_pages: u32, values: &Values) -> Self {
        let chunk_lines = (values.integer_u32("acp_chunk_pages") / line_pages).max(1);
        let chunks = disk_lines.div_ceil(chunk_lines);
        let mut acp = Self {
            chunks: Lists::with_values(chunks, SHARES, 0),
            chunk_lines,
            wake: Nanos(values.integer("acp_wake_ms") * (SECOND / 1000)),
            batch: values.integer_u32("acp_batch"),
            next_wake: Nanos(0),
            sweep: None,
            dirty: BTreeSet::new(),
        };
        for chunk in 0..chunks {
            acp.chunks.push_back(0, chunk);
        }
        acp
    }

    /// Notes that a line became dirty.
    pub(super) fn dirtied(&mut self, line: u32) {
        self.dirty.insert(line);
        let chunk = line / self.chunk_lines;
        let dirty = self.chunks.value_mut(chunk);
        *dirty += 1;
        let dirty = *dirty;
        let share = self.share(chunk);
        if share + 1 < SHARES && dirty > self.threshold(share + 1) {
            self.chunks.remove(chunk);
            self.chunks.push_back(share + 1, chunk);
        }
    }

    /// Notes that a dirty line is clean.
    pub(super) fn cleaned(&mut self, line: u32) {
        self.dirty.remove(&line);
        let chunk = line / self.chunk_lines;
        let dirty = self.chunks.value_mut(chunk);
        *dirty -= 1;
        let dirty = *dirty;
        let share = self.share(chunk);
        if share > 0 && dirty <= self.threshold(share) {
            self.chunks.remove(chunk);
            self.chunks.push_front(share - 1, chunk);
        }
    }

    fn share(&self, chunk: u32) -> u32 {
        self.chunks.list_of(chunk).expect("a chunk has a share")
    }

    /// Return the number of dirty lines above which a chunk has at least that share: 0, 10, ..., 90
    /// %.
    fn threshold(&self, share: u32) -> u32 {
        u32::try_from(u64::from(self.chunk_lines) * u64::from(share - 1) / 10)
            .expect("it is a part")
    }

    /// Return the lines that the cleaner takes when it wakes next, if it has by now and anything is
    /// dirty.
    pub(super) fn wake(&mut self, now: Nanos) -> Option<Vec<u32>> {
        if self.next_wake > now {
            return None;
        }
        if self.dirty.is_empty() {
            // Wakes that find nothing to do pass, however many they are.
            self.next_wake = Nanos((now.0 / self.wake.0 + 1).saturating_mul(self.wake.0));
            return None;
        }
        self.next_wake.0 += self.wake.0;
        let range = self.sweep.take().unwrap_or_else(|| self.dirtiest_chunk());
        let batch: Vec<u32> =
            self.dirty.range(range.clone()).take(self.batch as usize).copied().collect();
        let next = batch.last().map_or(range.end, |last| last + 1);
        self.sweep = self.dirty.range(next..range.end).next().map(|&next| next..range.end);
        Some(batch)
    }

    /// Return the lines of the first chunk among those with most dirty lines.
    fn dirtiest_chunk(&self) -> Range<u32> {
        let first = (1..SHARES).rev().find_map(|share| self.chunks.front(share));
        let first = first.expect("a dirty line has a chunk") * self.chunk_lines;
        first..first.saturating_add(self.chunk_lines)
    }

    fn memory_bytes(&self) -> usize {
        self.chunks.memory_bytes() + self.dirty.len() * ENTRY_BYTES
    }
}

impl Cleaner {
    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Self::Nop => 0,
            Self::Alru(alru) => alru.memory_bytes(),
            Self::Acp(acp) => acp.memory_bytes(),
        }
    }
}
