//! Model of the bytes that a client wrote: those that are durable, and those that may have been
//! lost.

use std::collections::BTreeSet;

use thermocline_core::random::SplitMix64;

pub(crate) const SECTOR: usize = 512;
pub(crate) const PAGE: usize = 4096;
const SECTORS: usize = PAGE / SECTOR;

/// The writes that the sectors of one page show; 0 is a sector of zeroes.
type Stamps = [u64; SECTORS];

/// A range of pages that one client alone writes, one request at a time.
#[derive(Clone)]
pub(crate) struct Model {
    first_page: usize,
    /// Per page: all that it may hold after a crash, the oldest first, and last what it holds now.
    pages: Vec<Vec<Stamps>>,
    /// Pages with more than one.
    unsettled: BTreeSet<usize>,
    /// Pages that were ever written.
    pub(crate) written: BTreeSet<usize>,
    stamp: u64,
    /// `true` if a flush may fail without an end of the load: the backing store may have lost what it had.
    pub(crate) may_flushes_fail: bool,
}

impl Model {
    /// Return the pages of zeroes.
    pub(crate) fn new(first_page: usize, pages: usize) -> Self {
        Self {
            first_page,
            pages: vec![vec![[0; SECTORS]]; pages],
            unsettled: BTreeSet::new(),
            written: BTreeSet::new(),
            stamp: 0,
            may_flushes_fail: false,
        }
    }

    /// Return the start of its range, in bytes.
    pub(crate) const fn offset_bytes(&self) -> u64 {
        (self.first_page * PAGE) as u64
    }

    /// Return the number of sectors its range has.
    pub(crate) fn sectors(&self) -> usize {
        self.pages.len() * SECTORS
    }

    /// Note that these sectors are about to be written: with these bytes, or with zeroes.
    pub(crate) fn write(&mut self, first: usize, count: usize, is_zero: bool) -> Vec<u8> {
        self.stamp += 1;
        let mut bytes = Vec::with_capacity(count * SECTOR);
        for sector in first..first + count {
            let (page, place) = (sector / SECTORS, sector % SECTORS);
            let versions = &mut self.pages[page];
            if sector == first || place == 0 {
                let newest = *versions.last().unwrap();
                versions.push(newest);
                self.unsettled.insert(page);
                self.written.insert(self.first_page + page);
            }
            let stamp = if is_zero { 0 } else { self.stamp };
            versions.last_mut().unwrap()[place] = stamp;
            bytes.extend(self.sector(sector, stamp));
        }
        bytes
    }

    /// Record that all writes so far are durable.
    pub(crate) fn flushed(&mut self) {
        for page in std::mem::take(&mut self.unsettled) {
            let versions = &mut self.pages[page];
            versions.drain(..versions.len() - 1);
        }
    }

    /// Note that the writes to these sectors are durable.
    pub(crate) fn flushed_range(&mut self, first: usize, count: usize) {
        for page in first / SECTORS..(first + count).div_ceil(SECTORS) {
            let versions = &mut self.pages[page];
            versions.drain(..versions.len() - 1);
            self.unsettled.remove(&page);
        }
    }

    /// Return the bytes that these sectors have now.
    pub(crate) fn read(&self, first: usize, count: usize) -> Vec<u8> {
        let stamp = |sector: usize| self.pages[sector / SECTORS].last().unwrap()[sector % SECTORS];
        (first..first + count).flat_map(|sector| self.sector(sector, stamp(sector))).collect()
    }

    /// After a crash: each page must be as it was at some time since it was durable last, as a whole;
    /// and so it is from now on.
    pub(crate) fn recover(&mut self, bytes: &[u8]) {
        for (page, found) in bytes.chunks(PAGE).enumerate() {
            let of = |stamps: &Stamps| -> Vec<u8> {
                let sectors = stamps.iter().enumerate();
                sectors
                    .flat_map(|(place, &stamp)| self.sector(page * SECTORS + place, stamp))
                    .collect()
            };
            let versions = &self.pages[page];
            let Some(&held) = versions.iter().rev().find(|stamps| of(stamps) == found) else {
                let stamp = |sector: &[u8]| u64::from_le_bytes(sector[..8].try_into().unwrap());
                let found: Vec<u64> = found.chunks(SECTOR).map(stamp).collect();
                panic!("page {}: {found:?} is none of {versions:?}", self.first_page + page);
            };
            self.pages[page] = vec![held];
        }
        self.unsettled.clear();
    }

    /// Return a sector's bytes: the write's number, and noise that nothing else has.
    fn sector(&self, sector: usize, stamp: u64) -> [u8; SECTOR] {
        let mut bytes = [0; SECTOR];
        if stamp == 0 {
            return bytes;
        }
        let place = (self.first_page * SECTORS + sector) as u64;
        let mut noise = SplitMix64::new(stamp << 32 | place);
        bytes[..8].copy_from_slice(&stamp.to_le_bytes());
        for word in bytes[8..].chunks_mut(8) {
            word.copy_from_slice(&noise.bits().to_le_bytes());
        }
        bytes
    }
}
