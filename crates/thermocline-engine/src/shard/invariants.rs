//! Invariants that hold between two calls.

use super::{Place, Shard};
use crate::entry::EntryId;
use crate::slots::{SlotId, SlotState};

impl Shard {
    /// Checks every invariant of the state. Takes time in proportion to the slots, and to the ids of the
    /// policy, whose invariants are included if its ids are page numbers; hashes are too many to look at.
    ///
    /// # Panics
    /// If one is violated, with its name.
    pub fn assert_invariants(&self) {
        if self.places.are_ids_numbers() {
            self.policy.assert_invariants();
        }
        assert!(self.counters.balance(), "hits, misses and bypasses are the accesses");
        self.places.assert_invariants(&self.slots, &self.entries);
        self.blanks.assert_invariants();
        self.journal.assert_invariants();
        self.disk_syncs.assert_invariants();
        self.slots.assert_invariants();
        for place in self.places.iter() {
            self.assert_blank(place.page(&self.slots, &self.entries));
            if let Place::Entry(id) = place {
                self.assert_entry(id);
            }
        }
        for id in self.slots.live() {
            match self.place(self.slots.page(id)) {
                Some(Place::Slot(place)) => assert_eq!(place, id, "a page has one live slot"),
                Some(Place::Entry(entry)) => {
                    assert_eq!(self.entries[entry].slot, Some(id), "a page has one live slot");
                }
                None => panic!("every live slot can be found"),
            }
        }
        self.assert_pins();
        self.assert_progress();
    }

    /// Asserts progress: each thing that a request waits for is under way, or has a time at which
    /// it is tried again. No request waits until it is overdue on devices that have answered
    /// everything.
    fn assert_progress(&self) {
        let retries = [
            self.write_backs.next_retry(),
            self.blanks.retry_at(),
            self.disk_syncs.retry_at(),
            self.flash_faults.next_retry(),
        ];
        let is_quiet = self.is_at_rest() && !self.is_stirred && !self.awaits_epoch;
        assert!(
            !is_quiet || self.requests.is_empty() || retries.iter().any(Option::is_some),
            "requests wait for nothing: {:?}, {:?}",
            self.waiters,
            self.requests
        );
    }

    fn assert_entry(&self, id: EntryId) {
        let entry = &self.entries[id];
        let is_listed = self.lost.contains(&entry.page);
        assert_eq!(entry.is_lost, is_listed, "the list of lost pages is right");
        assert_eq!(self.place(entry.page), Some(Place::Entry(id)), "every entry can be found");
        let in_slot = self.current_slot(id).is_some();
        let on_disk = entry.disk_written == entry.newest;
        assert!(
            entry.frame.is_some() || in_slot || on_disk || entry.is_lost || entry.fetch.is_some(),
            "the newest bytes of page {} are somewhere",
            entry.page
        );
        assert!(entry.frame.is_none() || entry.fetch.is_none(), "what is there is not fetched");
        if let Some(frame) = entry.frame
            && entry.zeroed == entry.newest
            && entry.newest != 0
        {
            let bytes = self.pool.bytes(frame);
            assert!(bytes.iter().all(|&byte| byte == 0), "what goes to disk as zeroes has zeroes");
        }
        let is_durable_somewhere = in_slot || on_disk || entry.frame.is_none();
        assert!(
            is_durable_somewhere || entry.undurable != 0,
            "what only RAM has is known as undurable"
        );
        assert!(entry.disk_synced <= entry.disk_written, "what is synced was written");
        assert!(entry.disk_written <= entry.disk_started, "what was written was started");
        if let Some(SlotId(slot)) = entry.slot {
            let slot = self.slots.slot(SlotId(slot));
            assert_eq!(slot.state(), SlotState::Live, "an entry names a live slot");
            assert!(slot.version() <= entry.newest, "no slot is newer than its page");
        }
    }
}
