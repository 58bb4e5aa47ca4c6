//! Open CAS as two lists of lines, the head first; the first half of each is hot.

use std::collections::{BTreeMap, BTreeSet};

use super::{Device, Store, second};
use crate::models::value;

#[derive(Clone, Copy, Debug)]
struct Stream {
    is_write: bool,
    next: u32,
    len: u64,
}

#[derive(Clone, Debug, Default)]
struct Line {
    valid: BTreeSet<u32>,
    dirty: BTreeSet<u32>,
    /// Number of the last write to the line.
    written: u64,
}

pub(crate) struct OpenCas {
    line_pages: u32,
    capacity: usize,
    lines: BTreeMap<u32, Line>,
    clean: Vec<u32>,
    dirty: Vec<u32>,
    mode: String,
    /// Threshold and trigger in lines.
    nhit: Option<(u64, usize)>,
    /// Lines that were refused, the one noted first in front, with their counts.
    table: Vec<(u32, u64)>,
    seq_policy: String,
    threshold: u64,
    margin: usize,
    eviction_batch: usize,
    queue: Vec<Stream>,
    core: Vec<Stream>,
    writes: u64,
    lacks_clean: bool,
    cleaning: Cleaning,
}

enum Cleaning {
    Nop,
    /// Batch, most and least dirty lines.
    Alru {
        batch: usize,
        limits: Option<(usize, usize)>,
    },
    Acp(Acp),
}

struct Acp {
    chunk_lines: u32,
    batch: usize,
    /// Time in thousandths of an access.
    wake: u64,
    next: u64,
    /// Lists of chunks by their share of dirty lines.
    shares: Vec<Vec<u32>>,
    sweep: Option<(u32, u32)>,
}

impl OpenCas {
    pub(crate) fn new(given: &[(String, String)], flash: u32, pages: u32) -> Self {
        let line_pages = value(given, "line_pages", 1);
        let capacity = (flash / line_pages) as usize;
        let nhit = (
            value(given, "nhit_threshold", 3),
            (capacity * value::<usize>(given, "nhit_trigger", 80)).div_ceil(100),
        );
        let is_nhit = value(given, "promotion", "always".to_owned()) == "nhit";
        let ratio: usize = value(given, "alru_dirty_ratio", 100);
        let inertia = value::<usize>(given, "alru_inertia_pages", 32768) / line_pages as usize;
        let high = capacity * ratio / 100;
        let chunk_lines = (value(given, "acp_chunk_pages", 25600) / line_pages).max(1);
        let mut shares = vec![vec![]; 11];
        shares[0] = (0..pages.div_ceil(line_pages).div_ceil(chunk_lines)).collect();
        let cleaning = match &*value(given, "cleaning", "alru".to_owned()) {
            "nop" => Cleaning::Nop,
            "acp" => Cleaning::Acp(Acp {
                chunk_lines,
                batch: value(given, "acp_batch", 128),
                wake: value::<u64>(given, "acp_wake_ms", 10) * second(given),
                next: 0,
                shares,
                sweep: None,
            }),
            _ => Cleaning::Alru {
                batch: value(given, "alru_batch", 100),
                limits: (ratio < 100).then(|| (high, high.saturating_sub(inertia))),
            },
        };
        Self {
            line_pages,
            capacity,
            lines: BTreeMap::new(),
            clean: vec![],
            dirty: vec![],
            mode: value(given, "mode", "wt".to_owned()),
            nhit: is_nhit.then_some(nhit),
            table: vec![],
            seq_policy: value(given, "seq_policy", "full".to_owned()),
            threshold: value(given, "seq_threshold", 256),
            margin: value(given, "full_margin", 512),
            eviction_batch: value(given, "eviction_batch", 32),
            queue: vec![],
            core: vec![],
            writes: 0,
            lacks_clean: false,
            cleaning,
        }
    }

    fn is_cut_off(&mut self, page: u32, is_write: bool) -> bool {
        let free = self.capacity - self.lines.len();
        let is_active = match &*self.seq_policy {
            "full" => free <= self.margin + 1,
            policy => policy == "always",
        };
        let fits = |stream: &Stream| stream.is_write == is_write && stream.next == page;
        let [in_queue, in_core] =
            [&self.queue, &self.core].map(|streams| streams.iter().rposition(fits));
        let known = in_queue.map(|place| self.queue[place]);
        let known = known.or(in_core.map(|place| self.core[place]));
        let is_cut_off = known.is_some_and(|stream| stream.len + 1 >= self.threshold);
        if let Some(place) = in_core {
            let stream = self.core.remove(place);
            self.core.push(Stream { next: page + 1, len: stream.len + 1, ..stream });
            return is_active && is_cut_off;
        }
        let len = in_queue.map_or(0, |place| self.queue.remove(place).len) + 1;
        let is_old = in_queue.is_some() && (len >= 8 || len >= self.threshold);
        let (streams, most) = if is_old { (&mut self.core, 128) } else { (&mut self.queue, 64) };
        if streams.len() == most {
            streams.remove(0);
        }
        streams.push(Stream { is_write, next: page + 1, len });
        is_active && is_cut_off
    }

    fn hit(&mut self, line: u32) {
        for list in [&mut self.clean, &mut self.dirty] {
            if let Some(place) = list.iter().position(|&known| known == line)
                && place >= list.len() / 2
            {
                list.remove(place);
                list.insert(0, line);
            }
        }
    }

    fn is_allowed(&mut self, line: u32) -> bool {
        let Some((threshold, trigger)) = self.nhit else { return true };
        if self.lines.len() < trigger {
            return true;
        }
        if let Some(known) = self.table.iter_mut().find(|known| known.0 == line) {
            known.1 += 1;
            return known.1 >= threshold;
        }
        if self.table.len() == 2 * self.capacity {
            self.table.remove(0);
        }
        self.table.push((line, 1));
        false
    }

    fn promote(&mut self, line: u32, store: &mut Store) -> bool {
        if self.capacity == 0 || !self.is_allowed(line) {
            return false;
        }
        if self.lines.len() == self.capacity {
            let Some(victim) = self.clean.pop() else {
                self.lacks_clean = true;
                return false;
            };
            for page in self.lines.remove(&victim).expect("it is mapped").valid {
                store.forget(page);
            }
        }
        self.lines.insert(line, Line::default());
        self.clean.insert(0, line);
        for known in self.table.iter_mut().filter(|known| known.0 == line) {
            known.1 = 0;
        }
        true
    }

    fn clean_line(&mut self, line: u32, store: &mut Store) {
        let dirty = std::mem::take(&mut self.lines.get_mut(&line).expect("it is mapped").dirty);
        if dirty.is_empty() {
            return;
        }
        for page in dirty {
            store.clean(page);
        }
        self.dirty.retain(|&known| known != line);
        self.clean.insert(0, line);
        self.note_change(line, false);
    }

    /// Note that a chunk has one dirty line more, or one less.
    fn note_change(&mut self, line: u32, is_dirty: bool) {
        let Cleaning::Acp(acp) = &mut self.cleaning else { return };
        let chunk = line / acp.chunk_lines;
        let dirty = self.dirty.iter().filter(|&&line| line / acp.chunk_lines == chunk).count();
        let threshold = |share: usize| acp.chunk_lines as usize * (share - 1) / 10;
        let share = acp.shares.iter().position(|list| list.contains(&chunk)).expect("in one");
        if is_dirty && share < 10 && dirty > threshold(share + 1) {
            acp.shares[share].retain(|&known| known != chunk);
            acp.shares[share + 1].push(chunk);
        } else if !is_dirty && share > 0 && dirty <= threshold(share) {
            acp.shares[share].retain(|&known| known != chunk);
            acp.shares[share - 1].insert(0, chunk);
        }
    }

    fn settle(&mut self, store: &mut Store) {
        if std::mem::take(&mut self.lacks_clean) {
            let mut tail: Vec<u32> =
                self.dirty.iter().rev().take(self.eviction_batch).copied().collect();
            tail.sort_unstable();
            for line in tail {
                self.clean_line(line, store);
            }
        }
        if let Cleaning::Alru { batch, limits: Some((high, low)) } = self.cleaning
            && self.dirty.len() >= high
        {
            while !self.dirty.is_empty() && self.dirty.len() >= low {
                let mut lines = self.dirty.clone();
                lines.sort_unstable_by_key(|line| self.lines[line].written);
                for &line in lines.iter().take(batch) {
                    self.clean_line(line, store);
                }
            }
        }
        while let Some(lines) = self.acp_wake(store.now) {
            for line in lines {
                self.clean_line(line, store);
            }
        }
    }

    fn acp_wake(&mut self, now: u64) -> Option<Vec<u32>> {
        let Cleaning::Acp(acp) = &mut self.cleaning else { return None };
        // Accesses times 1000 are milliseconds times accesses per second.
        let now = now * 1000;
        if self.dirty.is_empty() || acp.next > now {
            if acp.next <= now {
                acp.next = (now / acp.wake + 1) * acp.wake;
            }
            return None;
        }
        acp.next += acp.wake;
        let (from, end) = acp.sweep.take().unwrap_or_else(|| {
            let chunk = *acp.shares.iter().rev().find_map(|list| list.first()).expect("one is");
            (chunk * acp.chunk_lines, (chunk + 1) * acp.chunk_lines)
        });
        let mut lines: Vec<u32> =
            self.dirty.iter().copied().filter(|line| (from..end).contains(line)).collect();
        lines.sort_unstable();
        if let Some(&next) = lines.get(acp.batch) {
            acp.sweep = Some((next, end));
            lines.truncate(acp.batch);
        }
        Some(lines)
    }
}

impl Device for OpenCas {
    fn read(&mut self, page: u32, store: &mut Store) -> u64 {
        let line = page / self.line_pages;
        let is_cut_off = self.is_cut_off(page, false);
        self.hit(line);
        let known = self.lines.get(&line);
        let is_mapped = known.is_some();
        let is_valid = known.is_some_and(|known| known.valid.contains(&page));
        let is_dirty = known.is_some_and(|known| known.dirty.contains(&page));
        let version = if is_cut_off || self.mode == "pt" {
            if is_dirty {
                store.read_flash(page)
            } else {
                if is_mapped {
                    self.clean_line(line, store);
                }
                store.read_disk(page)
            }
        } else if is_valid {
            store.read_flash(page)
        } else {
            let version = store.read_disk(page);
            if self.mode != "wo" && (is_mapped || self.promote(line, store)) {
                self.lines.get_mut(&line).expect("it is mapped").valid.insert(page);
                store.write_flash(page, version);
            }
            version
        };
        self.settle(store);
        version
    }

    fn write(&mut self, page: u32, version: u64, _is_eviction: bool, store: &mut Store) {
        let line = page / self.line_pages;
        let is_cut_off = self.is_cut_off(page, true);
        self.hit(line);
        let is_mapped = self.lines.contains_key(&line);
        let is_valid = self.lines.get(&line).is_some_and(|known| known.valid.contains(&page));
        let mode = match &*self.mode {
            _ if is_cut_off => "pt",
            "wa" if is_valid => "wt",
            mode => mode,
        };
        let (is_back, is_through) = (["wb", "wo"].contains(&mode), mode == "wt");
        if (is_back || is_through) && (is_mapped || self.promote(line, store)) {
            self.writes += 1;
            let known = self.lines.get_mut(&line).expect("it is mapped");
            known.valid.insert(page);
            store.write_flash(page, version);
            if is_through {
                store.write_disk(page, version);
            } else {
                known.written = self.writes;
                let was_clean = known.dirty.is_empty();
                known.dirty.insert(page);
                if was_clean {
                    self.clean.retain(|&known| known != line);
                    self.dirty.insert(0, line);
                    self.note_change(line, true);
                }
            }
        } else {
            if is_mapped {
                self.clean_line(line, store);
                let known = self.lines.get_mut(&line).expect("it is mapped");
                known.valid.remove(&page);
                store.forget(page);
                if known.valid.is_empty() {
                    self.lines.remove(&line);
                    self.clean.retain(|&known| known != line);
                }
            }
            store.write_disk(page, version);
        }
        self.settle(store);
    }

    fn dirty(&self) -> BTreeSet<u32> {
        self.lines.values().flat_map(|line| line.dirty.iter().copied()).collect()
    }

    /// Return the clean and the dirty list, `|` behind the hot half; the table of the filter.
    fn state(&self) -> String {
        let words = |list: &[u32]| {
            let (hot, cold) = list.split_at(list.len() / 2);
            let words =
                |lines: &[u32]| lines.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
            format!("{} | {}", words(hot), words(cold)).trim().to_owned()
        };
        let table: Vec<String> =
            self.table.iter().map(|(line, count)| format!("{line}:{count}")).collect();
        format!("{}, dirty {}, {}", words(&self.clean), words(&self.dirty), table.join(" "))
    }
}
