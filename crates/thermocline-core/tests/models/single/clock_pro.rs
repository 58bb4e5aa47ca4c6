//! CLOCK-Pro by section 4 of its paper: one list, and three hands that are searched for each time.

use super::super::join;
use super::{Outcome, Rule, share};

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Hot,
    Cold,
    /// Cold, and no longer resident.
    Ghost,
}

#[derive(Clone, Copy)]
struct Entry {
    page: u32,
    kind: Kind,
    is_on_test: bool,
    bit: bool,
}

pub(super) struct ClockPro {
    /// The tail first.
    list: Vec<Entry>,
    capacity: usize,
    ghosts_max: usize,
    target: usize,
    target_min: usize,
    target_max: usize,
}

impl ClockPro {
    pub(super) fn new(capacity: usize, cold_share: f64, ghosts_max: usize) -> Self {
        let least = share(capacity, cold_share).max(1);
        Self {
            list: vec![],
            capacity,
            ghosts_max,
            target: least,
            target_min: least,
            target_max: (capacity - least).max(least),
        }
    }

    fn count(&self, kind: Kind) -> usize {
        self.list.iter().filter(|entry| entry.kind == kind).count()
    }

    /// Find the page of that kind with the largest recency.
    fn hand(&self, holds: impl Fn(&Entry) -> bool) -> Option<usize> {
        self.list.iter().position(holds)
    }

    fn place(&self, page: u32) -> Option<usize> {
        self.hand(|entry| entry.page == page)
    }

    fn adapt(&mut self, is_up: bool) {
        let target = if is_up { self.target + 1 } else { self.target - 1 };
        self.target = target.clamp(self.target_min, self.target_max);
    }

    /// Ends the test at a place; whether the page has left the list.
    fn end_test(&mut self, place: usize) -> bool {
        let entry = self.list[place];
        self.adapt(entry.bit);
        self.list[place].is_on_test = false;
        if entry.kind == Kind::Ghost {
            self.list.remove(place);
        }
        entry.kind == Kind::Ghost
    }

    /// Let the hot hand pass all pages up to `page`; return where that is then.
    fn pass(&mut self, page: u32) -> usize {
        let mut place = 0;
        while self.list[place].page != page {
            if !(self.list[place].is_on_test && self.end_test(place)) {
                place += 1;
            }
        }
        place
    }

    /// Let the hot hand demote one page, unless it meets the candidate before.
    fn run_hot_hand(&mut self, candidate: u32) -> bool {
        loop {
            let Some(hand) = self.hand(|entry| entry.kind == Kind::Hot) else { return false };
            if self.place(candidate).is_none_or(|place| place < hand) {
                return false;
            }
            let hand = self.pass(self.list[hand].page);
            let hot = self.list.remove(hand);
            if hot.bit {
                self.list.push(Entry { bit: false, ..hot });
            } else {
                self.list.push(Entry { kind: Kind::Cold, ..hot });
                return true;
            }
        }
    }

    /// Move a page referenced on its test to the head, if possible as a hot one.
    fn turn_hot(&mut self, page: u32, is_resident: bool) {
        self.adapt(true);
        let mut is_hot = true;
        while is_hot && self.count(Kind::Hot) >= self.capacity - self.target {
            is_hot = self.run_hot_hand(page);
        }
        if let Some(place) = self.place(page) {
            self.list.remove(place);
        } else {
            assert!(!is_resident, "a resident page stays on the list");
        }
        let kind = if is_hot { Kind::Hot } else { Kind::Cold };
        self.list.push(Entry { page, kind, is_on_test: !is_hot, bit: false });
        self.stop_hot_hand();
    }

    /// "Finally the hand stops at a hot page."
    fn stop_hot_hand(&mut self) {
        if let Some(hand) = self.hand(|entry| entry.kind == Kind::Hot) {
            self.pass(self.list[hand].page);
        }
    }

    fn run_cold_hand(&mut self) -> u32 {
        loop {
            let hand = self.hand(|entry| entry.kind == Kind::Cold).expect("there is a cold page");
            let cold = self.list[hand];
            if cold.bit && cold.is_on_test {
                self.turn_hot(cold.page, true);
            } else if cold.bit {
                self.list.remove(hand);
                self.list.push(Entry { is_on_test: true, bit: false, ..cold });
            } else {
                if cold.is_on_test {
                    self.list[hand].kind = Kind::Ghost;
                } else {
                    self.list.remove(hand);
                }
                while self.count(Kind::Ghost) > self.ghosts_max {
                    let hand = self.hand(|entry| entry.is_on_test).expect("ghosts are on test");
                    self.end_test(hand);
                }
                return cold.page;
            }
        }
    }
}

impl Rule for ClockPro {
    fn refer(&mut self, page: u32) -> Outcome {
        let place = self.place(page);
        if let Some(entry) = place.map(|place| &mut self.list[place])
            && entry.kind != Kind::Ghost
        {
            entry.bit = true;
            return Outcome::Hit;
        }
        let free = self.capacity - self.count(Kind::Hot) - self.count(Kind::Cold);
        let victim = (free == 0).then(|| self.run_cold_hand());
        if self.place(page).is_some() {
            self.turn_hot(page, false);
        } else if free > self.target_min {
            self.list.push(Entry { page, kind: Kind::Hot, is_on_test: false, bit: false });
        } else {
            self.list.push(Entry { page, kind: Kind::Cold, is_on_test: true, bit: false });
        }
        Outcome::Admitted(victim)
    }

    /// Return the list: H hot, C cold, T cold on test, N no longer resident, `r` referenced; the
    /// target.
    fn state(&self) -> String {
        let entries = self.list.iter().map(|entry| {
            let kind = match (entry.kind, entry.is_on_test) {
                (Kind::Hot, _) => "H",
                (Kind::Cold, false) => "C",
                (Kind::Cold, true) => "T",
                (Kind::Ghost, _) => "N",
            };
            format!("{}{kind}{}", entry.page, if entry.bit { "r" } else { "" })
        });
        format!("{} | {}", join(entries), self.target)
    }
}
