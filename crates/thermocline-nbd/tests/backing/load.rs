//! Random requests of an engine whose backing store comes and goes, against a model of its pages.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use thermocline_core::Nanos;
use thermocline_core::random::SplitMix64;
use thermocline_engine::driver::Driver;
use thermocline_engine::{Engine, Reply, Request, RequestError, RequestKind};

pub(crate) const PAGE: u64 = 4096;

/// Requests in flight at one time.
const DEPTH: usize = 24;
/// The longest time that anything may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// Effect of a kill on the writes that a server acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// It keeps everything.
    Nothing,
    /// It loses everything that was not flushed.
    Unflushed,
}

/// History of a page's writes: numbers that fill it, 0 for zeroes.
#[derive(Clone, Debug)]
struct History {
    values: Vec<u64>,
    /// The value at this place, or a newer one, must be read.
    floor: usize,
    /// The newest value whose write was answered.
    answered: usize,
    /// Newest value that was answered when a flush failed: it and older ones may be gone, and the
    /// flushing client was informed.
    doubtful: usize,
    is_busy: bool,
}

#[derive(Debug)]
enum Asked {
    Read {
        page: usize,
        count: usize,
    },
    Write {
        page: usize,
        count: usize,
        places: Vec<usize>,
    },
    /// Answered writes of each page when the flush was submitted.
    Flush {
        answered: Vec<usize>,
    },
}

/// The load, and what it knows.
pub(crate) struct Load {
    pages: Vec<History>,
    loss: Loss,
    random: SplitMix64,
    asked: BTreeMap<u64, Asked>,
    next_tag: u64,
    start: Instant,
    /// Replies that were errors, by kind: reads, writes, flushes.
    pub(crate) failures: [u64; 3],
    pub(crate) answers: u64,
    /// `true` if pages are zeroed, too.
    has_zeroes: bool,
}

impl Load {
    pub(crate) fn new(pages: usize, loss: Loss, seed: u64) -> Self {
        let page = History { values: vec![0], floor: 0, answered: 0, doubtful: 0, is_busy: false };
        Self {
            pages: vec![page; pages],
            loss,
            random: SplitMix64::new(seed),
            asked: BTreeMap::new(),
            next_tag: 1,
            start: Instant::now(),
            failures: [0; 3],
            answers: 0,
            has_zeroes: true,
        }
    }

    /// Return the same without requests that zero pages.
    pub(crate) fn without_zeroes(self) -> Self {
        Self { has_zeroes: false, ..self }
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.random.bits() % bound as u64).unwrap()
    }

    /// Asks for this and that for so long.
    pub(crate) fn run<D: Driver>(&mut self, engine: &mut Engine<D>, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            if self.asked.len() < DEPTH {
                self.submit(engine);
            }
            self.turn(engine);
        }
        engine.shard().assert_invariants();
    }

    /// Wait until everything is answered, well or not. Returns how long that took.
    pub(crate) fn settle<D: Driver>(&mut self, engine: &mut Engine<D>) -> Duration {
        let start = Instant::now();
        while !self.asked.is_empty() {
            assert!(start.elapsed() < PATIENCE, "never answered: {:?}", engine.shard());
            self.turn(engine);
        }
        start.elapsed()
    }

    /// Wait until everything is answered, and the backing store has all that is newer elsewhere.
    pub(crate) fn finish<D: Driver>(&mut self, engine: &mut Engine<D>) {
        let end = Instant::now() + PATIENCE;
        // The first flush may tell what was lost before.
        let mut failed_flushes = u64::MAX;
        while failed_flushes != self.failures[2] || engine.shard().dirty_pages() > 0 {
            failed_flushes = self.failures[2];
            // It ends with dirty pages if the disk cannot be synced.
            engine.shard_mut().drain();
            self.flush(engine);
            while !(self.asked.is_empty() && engine.shard().is_idle()) {
                assert!(Instant::now() < end, "it never comes to rest: {:?}", engine.shard());
                self.turn(engine);
            }
        }
        engine.shard().assert_invariants();
    }

    /// Compares what a disk holds with what it must hold.
    pub(crate) fn check_disk(&self, disk: &[u8]) {
        for (page, bytes) in disk.chunks(usize::try_from(PAGE).unwrap()).enumerate() {
            self.check(page, bytes);
        }
    }

    fn turn<D: Driver>(&mut self, engine: &mut Engine<D>) {
        let now = u64::try_from(self.start.elapsed().as_nanos()).unwrap();
        engine.shard_mut().tick(Nanos(now));
        if !engine.poll() {
            std::thread::sleep(Duration::from_micros(20));
        }
        while let Some(reply) = engine.next_reply() {
            self.answered(engine, &reply);
            engine.release(reply);
        }
    }

    fn submit<D: Driver>(&mut self, engine: &mut Engine<D>) {
        let spread = [self.pages.len(), 20][self.below(2)];
        let (page, count) = (self.below(spread), 1 + self.below(3) * self.below(4));
        let count = count.min(self.pages.len() - page);
        if self.pages[page..page + count].iter().any(|page| page.is_busy) {
            return;
        }
        let (offset, length) = (page as u64 * PAGE, count as u64 * PAGE);
        let tag = self.next_tag;
        match self.below(20) {
            0 => return self.flush(engine),
            1..=8 => {
                if engine.submit(Request::read(tag, offset, length), &[]).is_err() {
                    return;
                }
                self.asked.insert(tag, Asked::Read { page, count });
            }
            kind => {
                let (kind, value) = if kind == 9 && self.has_zeroes {
                    (RequestKind::WriteZeroes, 0)
                } else {
                    (RequestKind::Write, tag)
                };
                let payload = if value == 0 {
                    vec![]
                } else {
                    value.to_le_bytes().repeat(usize::try_from(length / 8).unwrap())
                };
                let request = Request { kind, ..Request::write(tag, offset, length) };
                if engine.submit(request, &payload).is_err() {
                    return;
                }
                let places = self.pages[page..page + count].iter_mut().map(|history| {
                    history.values.push(value);
                    history.values.len() - 1
                });
                let places = places.collect();
                self.asked.insert(tag, Asked::Write { page, count, places });
            }
        }
        for history in &mut self.pages[page..page + count] {
            history.is_busy = true;
        }
        self.next_tag += 1;
    }

    fn flush<D: Driver>(&mut self, engine: &mut Engine<D>) {
        let answered = self.pages.iter().map(|page| page.answered).collect();
        engine.submit(Request::flush(self.next_tag), &[]).unwrap();
        self.asked.insert(self.next_tag, Asked::Flush { answered });
        self.next_tag += 1;
    }

    fn answered<D: Driver>(&mut self, engine: &Engine<D>, reply: &Reply) {
        let asked = self.asked.remove(&reply.tag).unwrap();
        let is_failed = match reply.result {
            Ok(()) => false,
            Err(RequestError::Io) => true,
            Err(error) => panic!("{error}"),
        };
        self.answers += 1;
        match asked {
            Asked::Read { page, count } => {
                self.failures[0] += u64::from(is_failed);
                let mut bytes = vec![];
                for piece in engine.pieces(reply) {
                    bytes.extend_from_slice(piece);
                }
                for (page, bytes) in (page..).zip(bytes.chunks(usize::try_from(PAGE).unwrap())) {
                    self.check(page, bytes);
                }
                self.free(page, count);
            }
            Asked::Write { page, count, places } => {
                self.failures[1] += u64::from(is_failed);
                for (history, place) in self.pages[page..].iter_mut().zip(places) {
                    if !is_failed {
                        history.answered = place;
                        if self.loss == Loss::Nothing {
                            history.floor = place;
                        }
                    }
                }
                self.free(page, count);
            }
            Asked::Flush { answered } => {
                self.failures[2] += u64::from(is_failed);
                for (history, answered) in self.pages.iter_mut().zip(answered) {
                    if is_failed {
                        history.doubtful = history.answered;
                    } else if answered > history.doubtful {
                        history.floor = history.floor.max(answered);
                    }
                }
            }
        }
    }

    fn free(&mut self, page: usize, count: usize) {
        for history in &mut self.pages[page..page + count] {
            history.is_busy = false;
        }
    }

    fn check(&self, page: usize, bytes: &[u8]) {
        let value = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        assert!(bytes.chunks(8).all(|word| word == value.to_le_bytes()), "page {page} is mixed");
        let History { values, floor, .. } = &self.pages[page];
        let place = values.iter().rposition(|&it| it == value);
        assert!(
            place.is_some_and(|place| place >= *floor),
            "page {page} has {value}, number {place:?} of {values:?}: it must be {floor} at least"
        );
    }
}
