//! One page access: what the policy says, and the bytes.

use smallvec::SmallVec;
use thermocline_core::{Access, Action, Op, PageId, Tier};

use super::request::{Building, Content, Piece};
use super::requests::NO_FRAME;
use super::{Event, Place, Shard, Waiter};
use crate::entry::{EntryId, SlotWrite, Wants};
use crate::memory::FrameId;
use crate::options::WriteMode;
use crate::request::{Request, RequestError};

/// Pages that the actions of one access concern; few policies ever name more.
type Touched = SmallVec<[u64; 8]>;

impl Shard {
    /// Serves the part of a request that lies in one page.
    pub(super) fn access_piece(&mut self, piece: &Piece<'_>, building: &mut Building) {
        let (page, op) = (piece.page, piece.content.op());
        self.counters.accesses[op as usize] += 1;
        if self.bypasses(piece, building) {
            return self.access_around(piece, building);
        }
        if self.is_pinned(page) {
            return self.access_pinned(piece, building);
        }
        self.clock += 1;
        self.actions.clear();
        let named = Accessed { page, id: self.places.enter(page, &self.slots, &self.entries) };
        let access = Access { page: named.id, op, client: 0 };
        match building.cooperator {
            None => self.policy.access(access, &mut self.actions),
            Some(cooperator) => self.policy.hear(cooperator.says(access), &mut self.actions),
        }
        self.counters.policy.add(self.actions.as_slice());
        if let Some(observer) = &mut self.observer {
            let actions = self.actions.as_slice();
            observer(&Event::Access { now: self.now, page, op, actions });
        }
        // The most frequent access changes nothing of the page, so nothing has to be settled.
        if let [Action::Serve { op: Op::Read, tier: Tier::RAM, .. }] = self.actions.as_slice()
            && let Some(Place::Entry(id)) = self.place(piece.page)
            && let Some(frame) = self.entries[id].frame
        {
            building.found_in(Tier::RAM);
            self.entries[id].touched = self.clock;
            if matches!(piece.content, Content::Read) {
                building.push(self.pool.retain(frame), &piece.range);
            }
            return;
        }
        if self.write_hit(piece) {
            building.found_in(Tier::RAM);
            return;
        }
        let mut touched = Touched::new();
        let serve = self.apply_actions(&mut touched, Some(named)).expect("an access is served");
        let id = self.ensure_entry(piece.page);
        self.entries[id].touched = self.clock;
        building.found_in(serve.found);
        let entry = &self.entries[id];
        self.counters.flash_absent += u64::from(
            serve.found == Tier::FLASH
                && entry.frame.is_none()
                && entry.fetch.is_none()
                && self.current_slot(id).is_none(),
        );
        self.serve(id, piece, serve.tier, building);
        touched.push(piece.page);
        self.settle_pages(&touched);
    }

    /// Replaces bytes of a page in RAM, if that is all that the access asks for: the policy moves nothing,
    /// and the page is neither on its way nor wanted elsewhere. Settling it would change nothing, because
    /// it was settled before and what RAM holds stays wanted.
    fn write_hit(&mut self, piece: &Piece<'_>) -> bool {
        let [Action::Serve { op: Op::Write, found: Tier::RAM, tier: Tier::RAM, .. }] =
            self.actions.as_slice()
        else {
            return false;
        };
        if !matches!(piece.content, Content::Write(_)) || self.writes_to_disk() {
            return false;
        }
        let Some(id) = self.entry(piece.page) else { return false };
        let entry = &self.entries[id];
        let is_at_rest = entry.frame.is_some()
            && entry.in_ram
            && !entry.is_lost
            && entry.fetch.is_none()
            && entry.wants == Wants::default();
        if !is_at_rest {
            return false;
        }
        self.entries[id].touched = self.clock;
        self.write_frame(id, piece, self.is_whole(piece));
        self.note_write(id);
        true
    }

    /// Return `true` if each write is answered when the disk has it.
    fn writes_to_disk(&self) -> bool {
        matches!(self.options.write_mode, WriteMode::Through | WriteMode::Around)
    }

    /// Lets a policy that keeps time work on its own.
    pub(super) fn policy_background(&mut self) {
        // Rule 11: until the epoch is durable, nothing may be moved that has to be written.
        if !self.options.policy.entry.capabilities.needs_clock || self.awaits_epoch {
            return;
        }
        self.actions.clear();
        self.policy.background(self.now, &mut self.actions);
        self.perform_actions();
    }

    /// Performs actions that no access caused.
    pub(super) fn perform_actions(&mut self) {
        self.perform_and_send(None);
    }

    /// Performs actions that no access caused, and reads a page as it was before, if `sent` names one and a tag.
    /// Returns `true` if there is a reply with this tag, or will be.
    pub(super) fn perform_and_send(&mut self, sent: Option<(u64, u64)>) -> bool {
        self.counters.policy.add(self.actions.as_slice());
        if let Some(observer) = &mut self.observer
            && !self.actions.as_slice().is_empty()
        {
            let actions = self.actions.as_slice();
            observer(&Event::Background { now: self.now, actions });
        }
        let mut touched = Touched::new();
        let served = self.apply_actions(&mut touched, None);
        debug_assert!(served.is_none(), "nothing is served without an access");
        let is_sent = sent.is_some_and(|(page, tag)| {
            touched.push(page);
            self.read_unasked(page, tag)
        });
        self.settle_pages(&touched);
        is_sent
    }

    /// Read a page that nobody asked for, if there is a frame for it: the reply has this tag.
    fn read_unasked(&mut self, page: u64, tag: u64) -> bool {
        let id = self.ensure_entry(page);
        let entry = &self.entries[id];
        if entry.frame.is_none() && entry.fetch.is_none() && !self.has_spare_frame() {
            return false;
        }
        let page_bytes = u64::from(self.options.page_bytes);
        let request = Request::read(tag, page * page_bytes, page_bytes);
        let range = 0..self.options.page_bytes as usize;
        let piece = Piece { page, range, content: Content::Read };
        let mut building = self.building();
        self.serve_read(id, &piece, &mut building);
        self.finish_building(request, building);
        true
    }

    /// Performs the actions of an access that nobody made: what they serve is there already.
    pub(super) fn perform_told(&mut self) {
        let mut touched = Touched::new();
        self.apply_actions(&mut touched, None);
        self.settle_pages(&touched);
    }

    /// Return `true` if the policy is not asked about an access. Pages that become blank are nothing to
    /// cache.
    fn bypasses(&self, piece: &Piece<'_>, building: &Building) -> bool {
        let op = piece.content.op();
        let is_around = self.options.write_mode == WriteMode::Around && op == Op::Write;
        let is_blank = match piece.content {
            Content::Zeroes => self.is_whole(piece),
            Content::Trimmed => true,
            Content::Read | Content::Prefetch | Content::Write(_) => false,
        };
        let is_passing = (is_around || building.is_sequential) && !self.is_pinned(piece.page);
        // A write around a tier that holds the page would leave old bytes there.
        (is_passing || is_blank) && self.place(piece.page).is_none()
    }

    fn is_whole(&self, piece: &Piece<'_>) -> bool {
        piece.range.len() == self.options.page_bytes as usize
    }

    /// Serves a page that no tier holds from disk, and leaves it there. A part of a page is not worth
    /// discarding.
    fn access_around(&mut self, piece: &Piece<'_>, building: &mut Building) {
        let (page, op) = (piece.page, piece.content.op());
        self.counters.bypasses[op as usize] += 1;
        if let Some(observer) = &mut self.observer {
            observer(&Event::Bypass { now: self.now, page, op, pages: 1 });
        }
        building.found_in(Tier::DISK);
        let is_trimmed = matches!(piece.content, Content::Trimmed);
        // A trim promises no bytes, so a page of which only a part is trimmed may stay as it is.
        if is_trimmed && !self.is_whole(piece) {
            return;
        }
        let id = self.ensure_entry(piece.page);
        self.serve(id, piece, Tier::DISK, building);
        // After the write, which takes that mark away.
        self.entries[id].is_discarded = is_trimmed;
        self.settle_page(piece.page);
    }

    /// Return the page that the policy means; `None` if nothing is known of it, so that its bytes
    /// are on disk alone.
    pub(super) fn page_of(&self, id: PageId) -> Option<u64> {
        self.places.page(id, &self.slots, &self.entries)
    }

    /// Notes what the policy believes and wants now. Returns how the access is served.
    fn apply_actions(
        &mut self,
        touched: &mut Touched,
        accessed: Option<Accessed>,
    ) -> Option<Served> {
        let (mut served, mut copied_down) = (None, None);
        for index in 0..self.actions.as_slice().len() {
            let action = self.actions.as_slice()[index];
            let named = match action {
                Action::Serve { page, .. }
                | Action::Copy { page, .. }
                | Action::Drop { page, .. } => page,
            };
            let accessed = accessed.filter(|accessed| accessed.id == named);
            let page = accessed.map(|accessed| accessed.page).or_else(|| self.page_of(named));
            // Flash may lack what the policy believes there, and then nothing is to be moved; nor is what
            // is pinned.
            let Some(page) = page.filter(|&page| !self.is_pinned(page)) else { continue };
            let id = self.ensure_entry(page);
            let entry = &mut self.entries[id];
            match action {
                Action::Serve { op, found, tier, .. } => {
                    served = Some(Served { found, tier });
                    if op == Op::Write {
                        entry.in_ram |= tier == Tier::RAM;
                        entry.on_flash |= tier == Tier::FLASH;
                        entry.wants.flash |= tier == Tier::FLASH;
                        entry.wants.disk |= tier == Tier::DISK;
                    }
                }
                Action::Copy { target: Tier::RAM, .. } => entry.in_ram = true,
                // A second chance: the page stays in its slot.
                Action::Copy { source: Tier::FLASH, target: Tier::FLASH, .. } => {}
                Action::Copy { target: Tier::FLASH, .. } => {
                    entry.on_flash = true;
                    entry.wants.flash = true;
                }
                Action::Copy { source, .. } => {
                    entry.wants.disk = true;
                    copied_down = (source == Tier::RAM).then_some(named);
                }
                Action::Drop { tier: Tier::RAM, .. } => {
                    entry.in_ram = false;
                    entry.is_offered = copied_down == Some(named);
                }
                Action::Drop { .. } => {
                    entry.on_flash = false;
                    entry.wants.flash = false;
                }
            }
            if touched.last() != Some(&page) {
                touched.push(page);
            }
        }
        served
    }

    fn settle_pages(&mut self, pages: &[u64]) {
        for &page in pages {
            self.settle_page(page);
        }
    }

    /// Settles a page if it has an entry.
    pub(super) fn settle_page(&mut self, page: u64) {
        if let Some(id) = self.entry(page) {
            self.settle(id);
        }
    }

    /// Gives or takes the bytes of a piece.
    pub(super) fn serve(
        &mut self,
        id: EntryId,
        piece: &Piece<'_>,
        tier: Tier,
        building: &mut Building,
    ) {
        match piece.content {
            Content::Prefetch => {}
            Content::Read => self.serve_read(id, piece, building),
            Content::Write(_) | Content::Zeroes | Content::Trimmed => {
                self.serve_write(id, piece, tier, building);
            }
        }
    }

    fn serve_read(&mut self, id: EntryId, piece: &Piece<'_>, building: &mut Building) {
        if let Some(frame) = self.entries[id].frame {
            building.push(self.pool.retain(frame), &piece.range);
            return;
        }
        if self.entries[id].is_lost {
            building.error.get_or_insert(RequestError::Lost);
            return;
        }
        let fetch = self.ensure_fetch(id);
        let waiter = Waiter::Read { request: building.key, segment: building.segments.len() };
        building.push(NO_FRAME, &piece.range);
        building.waiting += 1;
        self.fetches[fetch].waiters.push(waiter);
    }

    fn serve_write(&mut self, id: EntryId, piece: &Piece<'_>, tier: Tier, building: &mut Building) {
        let is_to_disk = tier == Tier::DISK || self.writes_to_disk();
        let is_whole = self.is_whole(piece);
        if !is_whole && self.entries[id].frame.is_none() {
            if self.entries[id].is_lost {
                building.error.get_or_insert(RequestError::Lost);
                return;
            }
            let frame = self.take_frame();
            self.fill(frame, piece);
            let [start, end] = [piece.range.start, piece.range.end]
                .map(|bytes| u32::try_from(bytes).expect("pages are at most 1 MiB"));
            self.counters.partial_fetches += u64::from(self.entries[id].fetch.is_none());
            let fetch = self.ensure_fetch(id);
            let request = building.key;
            let waiter = Waiter::Patch { request, frame, start, end, is_to_disk };
            self.fetches[fetch].waiters.push(waiter);
            building.waiting += 1;
            return;
        }
        self.counters.fetches_saved += u64::from(is_whole && self.entries[id].frame.is_none());
        self.write_frame(id, piece, is_whole);
        let version = self.note_write(id);
        if is_whole && matches!(piece.content, Content::Zeroes | Content::Trimmed) {
            self.entries[id].zeroed = version;
            self.entries[id].blank = version;
        }
        if is_to_disk {
            self.entries[id].wants.disk = true;
            self.wait_for_disk(piece.page, version, building.key);
            building.waiting += 1;
        }
    }

    /// Puts new bytes into the page's frame, or into another one if somebody still reads that.
    fn write_frame(&mut self, id: EntryId, piece: &Piece<'_>, is_whole: bool) {
        let former = self.entries[id].frame;
        // Whoever asked for the page before gets the former bytes; the entry does not wait for them.
        if is_whole && let Some(fetch) = self.entries[id].fetch.take() {
            self.fetches[fetch.0 as usize].is_current = false;
        }
        let frame = match former {
            Some(frame) if self.pool.is_exclusive(frame) => frame,
            // A device or a reply still reads this frame: its bytes must not change.
            Some(shared) => {
                let frame = self.take_frame();
                if !is_whole {
                    let whole = 0..self.options.page_bytes as usize;
                    self.pool.copy(shared, frame, whole);
                }
                self.pool.release(shared);
                frame
            }
            None => self.take_frame(),
        };
        self.fill(frame, piece);
        self.entries[id].frame = Some(frame);
        self.set_lost(id, false);
    }

    /// Note that the page has new bytes, and return their version.
    pub(super) fn note_write(&mut self, id: EntryId) -> u64 {
        let version = self.next_version();
        let entry = &mut self.entries[id];
        entry.newest = version;
        entry.is_discarded = false;
        // A write under way has older bytes than these: its end must leave this version undurable.
        if let Some(SlotWrite { capture, .. }) = &mut entry.slot_write
            && capture.next == 0
        {
            capture.next = version;
        }
        if let Some(capture) = &mut entry.disk_write
            && capture.next == 0
        {
            capture.next = version;
        }
        // Otherwise an older version is not durable yet, and that one counts.
        if entry.undurable == 0 {
            self.entries.set_undurable(id, version);
            self.is_stirred |= self.is_too_volatile();
        }
        version
    }

    fn fill(&mut self, frame: FrameId, piece: &Piece<'_>) {
        let bytes = &mut self.pool.bytes_mut(frame)[piece.range.clone()];
        match piece.content {
            Content::Write(payload) => bytes.copy_from_slice(payload),
            Content::Zeroes | Content::Trimmed => bytes.fill(0),
            Content::Read | Content::Prefetch => {}
        }
    }

    fn take_frame(&mut self) -> FrameId {
        self.pool.take().expect("a request is taken only if there are frames for it")
    }
}

/// The page of an access, which may have no place yet.
#[derive(Clone, Copy, Debug)]
struct Accessed {
    page: u64,
    id: PageId,
}

/// Result of serving an access.
#[derive(Clone, Copy, Debug)]
struct Served {
    found: Tier,
    tier: Tier,
}
