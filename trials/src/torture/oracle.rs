//! Values that each sector of the export may have, from the writes of clients and the
//! acknowledgements.
//!
//! Each write of a sector is an entry with the time at which it was sent and the time at which it
//! was answered. An acknowledged write hides another for each read that is sent after its answer,
//! if it was sent after the other's answer. A value that is not hidden may be read. After a crash,
//! only durable writes hide others: those with FUA, and those that were answered before a flush was
//! sent that succeeded.
//!
//! A sector's bytes say which write they are of, and which sector's, so that misplaced, old and torn
//! bytes are noticed.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use thermocline_core::random::SplitMix64;

use super::disk::SECTOR;

/// The number of a write; 0 is for zeroes.
pub(crate) type Stamp = u64;

/// Stands for any value that the sector ever had.
const ANY: Stamp = Stamp::MAX;
/// The end of what is not over.
const OPEN: u64 = u64::MAX;

/// Write the bytes of a sector after a write.
pub(crate) fn encode(sector: usize, stamp: Stamp, bytes: &mut [u8]) {
    if stamp == 0 {
        return bytes.fill(0);
    }
    let mut noise = SplitMix64::new(stamp << 24 ^ sector as u64);
    bytes[..8].copy_from_slice(&stamp.to_le_bytes());
    bytes[8..16].copy_from_slice(&(sector as u64).to_le_bytes());
    for word in bytes[16..].chunks_mut(8) {
        word.copy_from_slice(&noise.bits().to_le_bytes());
    }
}

/// Meaning of a sector's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// All that a write left there.
    Written(Stamp),
    /// The bytes of another sector.
    Misplaced { sector: u64, stamp: Stamp },
    /// No sector that anybody wrote.
    Garbage,
}

/// Says what the bytes of a sector are.
pub(crate) fn decode(sector: usize, bytes: &[u8]) -> Found {
    if bytes.iter().all(|&byte| byte == 0) {
        return Found::Written(0);
    }
    let word = |place: usize| {
        bytes[place..place + 8].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
    };
    let (stamp, place) = (word(0), word(8));
    let mut expected = [0; SECTOR];
    let Ok(written_at) = usize::try_from(place) else { return Found::Garbage };
    encode(written_at, stamp, &mut expected);
    if stamp == 0 || expected != bytes {
        Found::Garbage
    } else if written_at == sector {
        Found::Written(stamp)
    } else {
        Found::Misplaced { sector: place, stamp }
    }
}

/// Certainty of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// It took place, once it was answered.
    Certain,
    /// It may have taken place, or not: it failed, or a trim need not do anything.
    Possible,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    stamp: Stamp,
    sent: u64,
    answered: u64,
    effect: Effect,
    is_durable: bool,
}

impl Entry {
    /// Return `true` if `self`, whose answer counts if it came before `before`, hides `other`.
    fn hides(&self, other: &Self, before: u64) -> bool {
        self.effect == Effect::Certain && self.answered < before && self.sent > other.answered
    }
}

/// A write that is not answered yet.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    sectors: Range<usize>,
    sent: u64,
}

/// The kinds of requests that change sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Write,
    Zero,
    Trim,
}

/// A sector with bytes that it must not have.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) sector: usize,
    pub(crate) found: Found,
    pub(crate) allowed: Vec<Stamp>,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |stamp: &Stamp| match *stamp {
            ANY => "anything it ever had".to_owned(),
            0 => "zeroes".to_owned(),
            stamp => format!("write {stamp}"),
        };
        let allowed: Vec<String> = self.allowed.iter().map(name).collect();
        let found = match &self.found {
            Found::Written(stamp) => name(stamp),
            found @ (Found::Misplaced { .. } | Found::Garbage) => format!("{found:?}"),
        };
        let (sector, allowed) = (self.sector, allowed.join(", "));
        write!(formatter, "sector {sector}: read {found}; allowed: {allowed}")
    }
}

/// State of every sector.
#[derive(Debug)]
pub(crate) struct Oracle {
    sectors: Vec<Vec<Entry>>,
    clock: u64,
    last_stamp: Stamp,
    /// The latest time at which a flush was sent that succeeded.
    flushed: u64,
    /// Send times of the reads that are not answered.
    reads: BTreeSet<u64>,
}

impl Oracle {
    /// Create an export of durable zeroes.
    pub(crate) fn new(sectors: usize) -> Self {
        let zeroes =
            Entry { stamp: 0, sent: 0, answered: 0, effect: Effect::Certain, is_durable: true };
        Self {
            sectors: vec![vec![zeroes]; sectors],
            clock: 0,
            last_stamp: 0,
            flushed: 0,
            reads: BTreeSet::new(),
        }
    }

    pub(crate) fn sectors(&self) -> usize {
        self.sectors.len()
    }

    /// Return the time, which every call moves on.
    pub(crate) fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Note that a request to change these sectors is about to be sent, with this payload if it has
    /// one.
    pub(crate) fn send(&mut self, change: Change, sectors: Range<usize>) -> (Pending, Vec<u8>) {
        let sent = self.tick();
        let mut payload = vec![];
        let stamp = if change == Change::Write {
            self.last_stamp += 1;
            payload = vec![0; sectors.len() * SECTOR];
            for (sector, bytes) in sectors.clone().zip(payload.chunks_mut(SECTOR)) {
                encode(sector, self.last_stamp, bytes);
            }
            self.last_stamp
        } else {
            0
        };
        let effect = if change == Change::Trim { Effect::Possible } else { Effect::Certain };
        let entry = Entry { stamp, sent, answered: OPEN, effect, is_durable: false };
        for entries in &mut self.sectors[sectors.clone()] {
            entries.push(entry);
        }
        (Pending { sectors, sent }, payload)
    }

    /// Note that the request was answered: it was done, durably if so asked, or it failed; or it
    /// never will be.
    pub(crate) fn answered(&mut self, pending: &Pending, is_done: bool, is_durable: bool) {
        let now = self.tick();
        let oldest_read = self.reads.first().copied().unwrap_or(now);
        for sector in pending.sectors.clone() {
            let entries = &mut self.sectors[sector];
            if let Some(entry) = entries.iter_mut().find(|entry| entry.sent == pending.sent) {
                entry.answered = now;
                if is_done {
                    entry.is_durable = is_durable && entry.effect == Effect::Certain;
                } else {
                    entry.effect = Effect::Possible;
                }
            }
            prune(entries, self.flushed, oldest_read);
        }
    }

    /// Note that a flush that was sent at that time succeeded.
    pub(crate) fn flushed(&mut self, sent: u64) {
        self.flushed = self.flushed.max(sent);
    }

    /// Note that a read is about to be sent. Returns the time.
    pub(crate) fn send_read(&mut self) -> u64 {
        let sent = self.tick();
        self.reads.insert(sent);
        sent
    }

    /// Note that a read failed, or never will be answered.
    pub(crate) fn read_failed(&mut self, sent: u64) {
        self.reads.remove(&sent);
    }

    /// Check the sectors with which a read was answered.
    ///
    /// # Errors
    /// If a sector must not have its value; the error is the first one.
    pub(crate) fn check(
        &mut self,
        sent: u64,
        first: usize,
        found: &[Found],
    ) -> Result<(), Violation> {
        let now = self.tick();
        self.reads.remove(&sent);
        for (sector, &found) in (first..).zip(found) {
            let entries = &mut self.sectors[sector];
            let visible = |entry: &Entry| !entries.iter().any(|other| other.hides(entry, sent));
            let allowed: Vec<Entry> = entries.iter().copied().filter(visible).collect();
            let stamp = admit(sector, found, &allowed)?;
            // If all of these writes took place before the read, it saw the last of them. (One that
            // failed may still take place.)
            let is_over = |entry: &Entry| entry.effect == Effect::Certain && entry.answered < sent;
            if allowed.len() > 1 && entries.iter().all(is_over) {
                let mut seen = entries.iter_mut().filter(|entry| entry.stamp == stamp);
                if let (Some(entry), None) = (seen.next(), seen.next()) {
                    entry.is_durable |= entry.answered < self.flushed;
                    (entry.sent, entry.answered) = (sent, now);
                }
            }
        }
        Ok(())
    }

    /// Note that the process was killed or the power cut: everything that was not durable may be
    /// lost.
    pub(crate) fn crash(&mut self) {
        let now = self.tick();
        let flushed = self.flushed;
        self.reads.clear();
        for entries in &mut self.sectors {
            let durable: Vec<Entry> = entries
                .iter()
                .copied()
                .filter(|entry| entry.is_durable || entry.answered < flushed)
                .collect();
            let hidden = |entry: &Entry| durable.iter().any(|other| other.hides(entry, OPEN));
            entries.retain(|entry| !hidden(entry));
            for entry in entries.iter_mut().filter(|entry| entry.answered == OPEN) {
                entry.answered = now;
                entry.effect = Effect::Possible;
            }
            let survivors = entries.len();
            for entry in entries.iter_mut() {
                // Nobody knows yet which of several it is.
                if survivors > 1 {
                    entry.effect = Effect::Possible;
                }
            }
        }
    }

    /// Note that the server ended in order: all that was acknowledged is durable.
    pub(crate) fn stop(&mut self) {
        let now = self.tick();
        self.flushed(now);
        self.crash();
    }

    /// Allow these sectors, from now on, any value that they ever had.
    pub(crate) fn give_up(&mut self, sectors: Range<usize>) {
        let now = self.tick();
        let anything = Entry {
            stamp: ANY,
            sent: now,
            answered: now,
            effect: Effect::Possible,
            is_durable: false,
        };
        for entries in &mut self.sectors[sectors] {
            entries.push(anything);
        }
    }

    /// Note sectors that were read after a start, when nobody else wrote: their contents are
    /// certain now.
    ///
    /// # Errors
    /// If a sector must not have its value; the error is the first one.
    pub(crate) fn settle(&mut self, first: usize, found: &[Found]) -> Result<(), Violation> {
        for (sector, &found) in (first..).zip(found) {
            let now = self.tick();
            let entries = &mut self.sectors[sector];
            let visible = |entry: &Entry| !entries.iter().any(|other| other.hides(entry, OPEN));
            let allowed: Vec<Entry> = entries.iter().copied().filter(visible).collect();
            let stamp = admit(sector, found, &allowed)?;
            let effect = Effect::Certain;
            *entries = vec![Entry { stamp, sent: now, answered: now, effect, is_durable: true }];
        }
        Ok(())
    }
}

/// Return the stamp of the sector, if it is allowed.
fn admit(sector: usize, found: Found, allowed: &[Entry]) -> Result<Stamp, Violation> {
    if let Found::Written(stamp) = found
        && allowed.iter().any(|entry| entry.stamp == stamp || entry.stamp == ANY)
    {
        return Ok(stamp);
    }
    let allowed = allowed.iter().map(|entry| entry.stamp).collect();
    Err(Violation { sector, found, allowed })
}

/// Forgets writes that nobody can see any more: neither a read in flight nor one after a crash.
fn prune(entries: &mut Vec<Entry>, flushed: u64, oldest_read: u64) {
    let durable: Vec<Entry> = entries
        .iter()
        .copied()
        .filter(|entry| entry.is_durable || entry.answered < flushed)
        .collect();
    entries.retain(|entry| !durable.iter().any(|other| other.hides(entry, oldest_read)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(oracle: &mut Oracle) -> (Pending, Stamp) {
        let (pending, payload) = oracle.send(Change::Write, 0..1);
        let Found::Written(stamp) = decode(0, &payload) else { panic!("a payload is a write's") };
        (pending, stamp)
    }

    fn written(oracle: &mut Oracle) -> Stamp {
        let (pending, stamp) = write(oracle);
        oracle.answered(&pending, true, false);
        stamp
    }

    fn reads(oracle: &mut Oracle, stamp: Stamp) -> bool {
        let sent = oracle.send_read();
        oracle.check(sent, 0, &[Found::Written(stamp)]).is_ok()
    }

    fn flush(oracle: &mut Oracle) {
        let sent = oracle.tick();
        oracle.flushed(sent);
    }

    #[test]
    fn bytes_say_what_they_are() {
        let mut bytes = [1; SECTOR];
        encode(5, 9, &mut bytes);
        assert_eq!(decode(5, &bytes), Found::Written(9));
        assert_eq!(decode(6, &bytes), Found::Misplaced { sector: 5, stamp: 9 });
        bytes[300] ^= 1;
        assert_eq!(decode(5, &bytes), Found::Garbage);
        assert_eq!(decode(5, &[0; SECTOR]), Found::Written(0));
    }

    #[test]
    fn an_acknowledged_write_hides_what_was_before() {
        let mut oracle = Oracle::new(1);
        let first = written(&mut oracle);
        assert!(reads(&mut oracle, first) && !reads(&mut oracle, 0));
        let (pending, second) = write(&mut oracle);
        assert!(reads(&mut oracle, first) && reads(&mut oracle, second));
        oracle.answered(&pending, true, false);
        assert!(reads(&mut oracle, second) && !reads(&mut oracle, first));
    }

    #[test]
    fn a_read_sent_before_the_answer_may_see_either() {
        let mut oracle = Oracle::new(1);
        let (pending, stamp) = write(&mut oracle);
        let sent = oracle.send_read();
        oracle.answered(&pending, true, false);
        flush(&mut oracle);
        assert_ne!(written(&mut oracle), stamp);
        assert!(oracle.check(sent, 0, &[Found::Written(0)]).is_ok());
    }

    #[test]
    fn of_two_writes_at_once_either_is_the_last_until_it_is_read() {
        let mut oracle = Oracle::new(1);
        let (one, first) = write(&mut oracle);
        let (other, second) = write(&mut oracle);
        oracle.answered(&other, true, false);
        oracle.answered(&one, true, false);
        assert!(reads(&mut oracle, first));
        assert!(!reads(&mut oracle, second), "it was before the first");
    }

    #[test]
    fn a_failed_write_and_a_trim_may_have_been_done() {
        let mut oracle = Oracle::new(1);
        let (pending, failed) = write(&mut oracle);
        oracle.answered(&pending, false, false);
        assert!(reads(&mut oracle, failed) && reads(&mut oracle, 0) && reads(&mut oracle, failed));
        let newer = written(&mut oracle);
        assert!(!reads(&mut oracle, failed));
        let (pending, _) = oracle.send(Change::Trim, 0..1);
        oracle.answered(&pending, true, true);
        assert!(reads(&mut oracle, newer) && reads(&mut oracle, 0) && !reads(&mut oracle, failed));
    }

    /// Return the stamps that a crash may leave.
    fn after_crash(mut oracle: Oracle, stamps: &[Stamp]) -> Vec<Stamp> {
        oracle.crash();
        stamps.iter().copied().filter(|&stamp| reads(&mut oracle, stamp)).collect()
    }

    #[test]
    fn a_crash_leaves_what_was_flushed_or_newer() {
        let mut oracle = Oracle::new(1);
        let first = written(&mut oracle);
        let second = written(&mut oracle);
        flush(&mut oracle);
        let third = written(&mut oracle);
        let (_, fourth) = write(&mut oracle);
        let all = [0, first, second, third, fourth];
        assert_eq!(after_crash(oracle, &all), [second, third, fourth]);
    }

    #[test]
    fn a_flush_covers_what_was_answered_before_it_was_sent() {
        let mut oracle = Oracle::new(1);
        let (pending, stamp) = write(&mut oracle);
        let sent = oracle.tick();
        oracle.answered(&pending, true, false);
        oracle.flushed(sent);
        assert_eq!(after_crash(oracle, &[0, stamp]), [0, stamp]);
    }

    #[test]
    fn fua_and_an_orderly_stop_are_durable() {
        let mut oracle = Oracle::new(1);
        let (pending, fua) = write(&mut oracle);
        oracle.answered(&pending, true, true);
        assert_eq!(after_crash(oracle, &[0, fua]), [fua]);
        let mut oracle = Oracle::new(1);
        let stamp = written(&mut oracle);
        oracle.stop();
        assert!(!reads(&mut oracle, 0) && reads(&mut oracle, stamp));
    }

    #[test]
    fn what_is_read_after_a_crash_stays() {
        let mut oracle = Oracle::new(1);
        let stamp = written(&mut oracle);
        oracle.crash();
        oracle.settle(0, &[Found::Written(0)]).unwrap();
        assert!(!reads(&mut oracle, stamp));
        oracle.crash();
        assert!(oracle.settle(0, &[Found::Written(stamp)]).is_err());
    }

    #[test]
    fn what_was_given_up_has_an_old_value_and_no_garbage() {
        let mut oracle = Oracle::new(1);
        let first = written(&mut oracle);
        written(&mut oracle);
        flush(&mut oracle);
        oracle.give_up(0..1);
        oracle.crash();
        assert!(oracle.settle(0, &[Found::Garbage]).is_err());
        assert!(oracle.settle(0, &[Found::Written(first)]).is_ok());
        assert!(!reads(&mut oracle, 0));
    }
}
