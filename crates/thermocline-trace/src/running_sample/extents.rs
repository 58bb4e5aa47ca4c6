//! Extents, some of them with all their accesses and the others with none, in bounded memory.

use std::ops::Range;

use thermocline_core::random::SplitMix64;
use thermocline_core::{Op, Run};

use super::Place;
use crate::request::{Extent, PageSize, Request};

/// Room for requests grows by so many at least.
const LEAST_ROOM: usize = 1 << 12;

/// Accesses that a sample keeps, for each request that it may keep.
const ACCESSES_PER_REQUEST: u64 = 4;

/// The rate is never below a half to this power.
pub(super) const HALVINGS_MAX: u32 = 40;

/// Extents, each with all its accesses or none of them, in bounded memory.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Extents {
    pub(super) page_size: PageSize,
    pub(super) extent_pages: u64,
    pub(super) seed: u64,
    /// The rate is a half to this power.
    pub(super) halvings: u32,
    pub(super) most_requests: usize,
    pub(super) requests: Vec<Kept>,
    pub(super) sampled_accesses: u64,
}

/// A request of the sample, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Kept {
    pub(super) request: Request,
    /// The sequential run before its first page.
    pub(super) before: Run,
    /// Position of its first page among all accesses.
    pub(super) place: Place,
}

impl Extents {
    pub(super) const fn new(
        page_size: PageSize,
        extent_pages: u64,
        seed: u64,
        most_requests: usize,
    ) -> Self {
        Self {
            page_size,
            extent_pages,
            seed,
            halvings: 0,
            most_requests,
            requests: vec![],
            sampled_accesses: 0,
        }
    }

    pub(super) fn rate(&self) -> f64 {
        1.0 / (1_u64 << self.halvings) as f64
    }

    /// Adds what of a request is in the sample; neighbouring extents stay one request.
    pub(super) fn add(&mut self, kept: &Kept, first: u64, count: u64) {
        let end = first + count;
        let (mut from, mut page) = (first, first);
        while page < end {
            let extent = page / self.extent_pages;
            let next = (extent + 1).saturating_mul(self.extent_pages).min(end);
            if !self.takes(kept.request.volume, extent) {
                self.keep(kept, first, from..page);
                from = next;
            }
            page = next;
        }
        self.keep(kept, first, from..end);
    }

    /// Keeps some pages of a request whose first page is `first`.
    fn keep(&mut self, Kept { request, before, place }: &Kept, first: u64, pages: Range<u64>) {
        let Range { start: from, end } = pages;
        if from < end {
            self.sampled_accesses += end - from;
            // Twice the room each time would be up to twice as much as is ever needed.
            let kept = self.requests.len();
            if kept == self.requests.capacity() {
                let wanted = (2 * kept).min(self.most_requests.saturating_add(1));
                self.requests.reserve_exact(wanted.saturating_sub(kept).max(LEAST_ROOM));
            }
            let extent = Extent::Pages { first: from, count: end - from };
            let skipped = u32::try_from(from - first).unwrap_or(u32::MAX);
            let request = Request { extent, ..*request };
            let place = place.after(request.op, from - first);
            self.requests.push(Kept { request, before: before.after(skipped), place });
        }
    }

    /// Return `true` if an extent is in the sample.
    pub(super) fn takes(&self, volume: u32, extent: u64) -> bool {
        if self.halvings == 0 {
            return true;
        }
        let key = extent ^ u64::from(volume) << 40 ^ self.seed.rotate_left(32);
        SplitMix64::new(key).bits() >> (u64::BITS - self.halvings) == 0
    }

    pub(super) const fn is_full(&self) -> bool {
        self.requests.len() > self.most_requests
            || self.sampled_accesses > ACCESSES_PER_REQUEST * self.most_requests as u64
    }

    pub(super) fn thin_out(&mut self) {
        while self.is_full() && self.halvings < HALVINGS_MAX {
            self.halve();
        }
    }

    pub(super) fn halve(&mut self) {
        self.halvings += 1;
        self.sampled_accesses = 0;
        let before = std::mem::take(&mut self.requests);
        self.requests.reserve_exact(before.len() / 2);
        for kept in before {
            self.add_kept(&kept);
        }
    }

    /// Adds what of another sample's request is in this one.
    pub(super) fn add_kept(&mut self, kept: &Kept) {
        let (first, count) = self.page_size.pages(kept.request.extent);
        self.add(kept, first, count);
    }

    /// Adds what another sample has, whose volumes have these numbers here and whose first access has
    /// this place. Neither has more extents than the other after that.
    pub(super) fn join(&mut self, other: &Self, numbers: &[u32], begins: Place) {
        while self.halvings < other.halvings {
            self.halve();
        }
        for kept in &other.requests {
            let volume = kept.request.volume;
            let volume = numbers.get(volume as usize).copied().unwrap_or(volume);
            let request = Request { volume, ..kept.request };
            let Place { accesses, writes } = kept.place;
            let place =
                Place { accesses: begins.accesses + accesses, writes: begins.writes + writes };
            self.add_kept(&Kept { request, place, ..*kept });
        }
    }

    /// Return each request's text in a saved sample.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> + '_ {
        self.requests.iter().map(|&Kept { request, before, place }| {
            let (first, count) = self.page_size.pages(request.extent);
            let op = if request.op == Op::Write { 'w' } else { 'r' };
            let Request { at, volume, .. } = request;
            let Run { pages, remembered_pages, mean_pages } = before;
            format!(
                "{} {op} {volume} {first} {count} {pages} {remembered_pages} {mean_pages} {} {}\n",
                at.0, place.accesses, place.writes
            )
        })
    }
}
