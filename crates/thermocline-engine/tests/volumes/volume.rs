//! A volume: its shards as one, and what its clients know.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use thermocline_engine::driver::memory::transfer;
use thermocline_engine::{
    Device, DeviceError, Flash, Layout, Operation, OperationKind, Request, RequestError,
    RequestKind, Shard, ShardMap, Spanning, SubmitError,
};

use crate::changes::Growth;
use crate::devices::Devices;
use crate::note::Note;
use crate::starts::Beginning;
use crate::{PAGE, PAGES};

/// Stamps of a page that its clients may find.
#[derive(Clone, Copy, Default)]
pub(crate) struct Page {
    /// The newest write that was flushed, answered and submitted; 0 is none.
    pub(crate) flushed: u64,
    answered: u64,
    submitted: u64,
}

impl Page {
    /// Return a page that has that stamp, and keeps it.
    pub(crate) const fn of(stamp: u64) -> Self {
        Self { flushed: stamp, answered: stamp, submitted: stamp }
    }

    /// Checks that a page of a volume has what some write gave it, and nothing older than what was flushed.
    pub(crate) fn check(&self, (page, volume): (u64, usize), flushed: u64, bytes: &[u8]) -> u64 {
        let stamp = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        assert!(bytes.chunks(8).all(|word| word == &bytes[..8]), "page {page} is torn");
        let is_own = stamp == 0 || stamp % 4 == volume as u64;
        assert!(
            is_own && (flushed..=self.submitted).contains(&stamp),
            "page {page} of volume {volume} has {stamp}, not {flushed} to {}",
            self.submitted
        );
        stamp
    }
}

/// Return the stamp of a write in a volume.
const fn stamp(tag: u64, volume: usize) -> u64 {
    tag * 4 + volume as u64
}

/// A request that is not answered.
struct Asked {
    spanning: Spanning<Vec<u8>>,
    /// State of the pages when it was submitted.
    before: Vec<Page>,
}

impl Asked {
    /// Return what is durable once that part is answered, by the shard with that index: pages, and the oldest stamp of
    /// each that they may have from then on.
    fn promised(&self, part: u32, place: (usize, ShardMap, usize)) -> Vec<(u64, u64)> {
        let (number, map, index) = place;
        let Request { tag, kind, is_durable, .. } = *self.spanning.whole();
        let is_own = |page: &u64| map.place(page * PAGE as u64).0 == index;
        if kind == RequestKind::Flush {
            let pages = (0..PAGES).filter(is_own);
            return pages.map(|page| (page, self.before[page as usize].answered)).collect();
        }
        let (start, length) = self.spanning.range(part);
        let pages = start / PAGE as u64..(start + length) / PAGE as u64;
        let is_promise = kind == RequestKind::Write && is_durable;
        pages.filter(|_| is_promise).map(|page| (page, stamp(tag, number))).collect()
    }
}

/// A shard on its region of the flash.
pub(crate) struct Member {
    pub(crate) shard: Shard,
    /// Where its region begins, in bytes of the flash.
    pub(crate) start: u64,
    /// The layout that the superblocks of its region durably name.
    pub(crate) layout: Layout,
    /// Its number among those who sync the flash, unless it has none.
    pub(crate) sync: Option<usize>,
    /// The epoch that has begun, and that it has not heard of.
    pub(crate) begun: Option<Flash>,
    /// Syncs of the flash that are not done.
    waiting: VecDeque<Operation>,
    /// Parts of requests that it has not taken, with their payloads.
    parts: VecDeque<(Request, Vec<u8>)>,
}

impl Member {
    pub(crate) fn new(shard: Shard, start: u64, layout: &Layout, sync: usize) -> Self {
        let (waiting, parts) = (VecDeque::new(), VecDeque::new());
        let (layout, sync) = (*layout, Some(sync));
        Self { shard, start, layout, sync, begun: None, waiting, parts }
    }

    /// Return the ranges of the flash that are its own.
    pub(crate) fn room(&self) -> Vec<Range<u64>> {
        let of_flash = |offset: u64| self.start.wrapping_add(offset);
        let pieces =
            std::iter::once(0..self.layout.first_bytes()).chain(self.layout.annex_ranges());
        pieces.map(|range| of_flash(range.start)..of_flash(range.end)).collect()
    }

    /// Give the shard the parts that wait for it, as far as it has room.
    fn offer_parts(&mut self) {
        while let Some((request, payload)) = self.parts.front() {
            match self.shard.submit(*request, payload) {
                Ok(()) => drop(self.parts.pop_front()),
                Err(SubmitError::Full) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Has the devices do what the shard of a volume wants; `false` if the power is cut.
    fn work(&mut self, number: usize, devices: &mut Devices) -> bool {
        self.offer_parts();
        while let Some(operation) = self.shard.next_operation() {
            let is_read = operation.kind == OperationKind::Read;
            assert!(is_read || !self.shard.awaits_epoch(), "{operation:?} is too early");
            if !is_read && devices.step().is_err() {
                return false;
            }
            if operation.kind == OperationKind::Sync {
                if operation.device == Device::Flash {
                    devices.syncs.ask(self.sync.expect("it has a flash"));
                    self.waiting.push_back(operation);
                } else {
                    devices.backing[number].sync();
                    self.shard.complete(operation, Ok(()));
                }
                continue;
            }
            self.perform(number, devices, operation);
        }
        true
    }

    fn perform(&mut self, number: usize, devices: &mut Devices, operation: Operation) {
        let (disk, start) = match operation.device {
            Device::Flash => (&mut devices.flash, self.start),
            Device::Backing => (&mut devices.backing[number], 0),
        };
        let start = start.wrapping_add(operation.offset_bytes);
        let end = start + operation.length_bytes;
        let is_in = |own: &Range<u64>| own.start <= start && end <= own.end;
        assert!(
            operation.device == Device::Backing || self.room().iter().any(is_in),
            "{operation:?} leaves the region"
        );
        let range = start as usize..end as usize;
        let frames = self.shard.frames();
        // SAFETY: the shard has just given the operation away, and gets it back below.
        unsafe { transfer(frames, &operation, &mut disk.bytes[range.clone()]) };
        if matches!(operation.kind, OperationKind::Write | OperationKind::Zero) {
            disk.written.push(range);
        }
        self.shard.complete(operation, Ok(()));
    }

    /// Tell the shard how its first syncs of the flash ended.
    pub(crate) fn synced(&mut self, count: usize, result: Result<(), DeviceError>) {
        for operation in self.waiting.drain(..count) {
            self.shard.complete(operation, result);
        }
    }
}

/// A volume, and the requests of its clients.
pub(crate) struct Volume {
    pub(crate) number: usize,
    pub(crate) map: ShardMap,
    pub(crate) members: Vec<Member>,
    note: Note,
    /// The epoch of the flash that is still to begin.
    pub(crate) beginning: Option<Beginning>,
    /// Change of its size on the flash.
    pub(crate) growth: Growth,
    /// `true` while pages are read for the first time after a crash: what is found stays.
    pub(crate) is_recovering: bool,
    asked: BTreeMap<u64, Asked>,
    /// The request that a part belongs to, and the part's number there, by the tag that its shard knows.
    parts: BTreeMap<u64, (u64, u32)>,
    next_part: u64,
}

impl Volume {
    pub(crate) fn new(number: usize, map: ShardMap, members: Vec<Member>, note: Note) -> Self {
        let growth = Growth::new(members.len());
        let (asked, parts) = (BTreeMap::new(), BTreeMap::new());
        let (beginning, is_recovering, next_part) = (None, false, 0);
        Self {
            number,
            map,
            members,
            note,
            beginning,
            growth,
            is_recovering,
            asked,
            parts,
            next_part,
        }
    }

    pub(crate) fn shards(&mut self) -> impl Iterator<Item = &mut Shard> {
        self.members.iter_mut().map(|member| &mut member.shard)
    }

    pub(crate) fn all(&self, mut is: impl FnMut(&Shard) -> bool) -> bool {
        self.members.iter().all(|member| is(&member.shard))
    }

    pub(crate) fn has_answered_all(&self) -> bool {
        self.asked.is_empty()
    }

    /// Submits a request about a range of pages; `false` if there is no room for it. The shard of its first part gets
    /// that at once, and the other parts wait until their shards come to them.
    pub(crate) fn submit(
        &mut self,
        known: &mut [Page],
        (tag, kind): (u64, RequestKind),
        pages: Range<u64>,
    ) -> bool {
        let stamp = stamp(tag, self.number);
        let (offset, length) = (pages.start * PAGE as u64, (pages.end - pages.start) * PAGE as u64);
        let (whole, payload) = match kind {
            RequestKind::Flush => (Request::flush(tag), vec![]),
            RequestKind::Write => {
                let payload = stamp.to_le_bytes().repeat(length as usize / 8);
                let is_durable = tag.is_multiple_of(8);
                (Request { is_durable, ..Request::write(tag, offset, length) }, payload)
            }
            RequestKind::Read
            | RequestKind::Trim
            | RequestKind::WriteZeroes
            | RequestKind::Cache => (Request::read(tag, offset, length), vec![]),
        };
        let mut spanning = Spanning::new(self.map, whole);
        let mut is_first = true;
        while let Some(part) = spanning.next_part() {
            let request = Request { tag: self.next_part, ..part.request };
            let bytes = part.payload(&whole, &payload).to_vec();
            let member = &mut self.members[part.shard];
            if !is_first {
                member.parts.push_back((request, bytes));
            } else if member.parts.is_empty() {
                match member.shard.submit(request, &bytes) {
                    Ok(()) => {}
                    Err(SubmitError::Full) => return false,
                    Err(error) => panic!("{error}"),
                }
            } else {
                return false;
            }
            self.parts.insert(self.next_part, (tag, part.number));
            self.next_part += 1;
            is_first = false;
        }
        if kind == RequestKind::Write {
            for page in pages {
                known[page as usize].submitted = stamp;
            }
        }
        self.asked.insert(tag, Asked { spanning, before: known.to_vec() });
        true
    }

    /// Has the devices do what the shard with that index wants; `false` if the power is cut.
    pub(crate) fn work(&mut self, index: usize, devices: &mut Devices) -> bool {
        self.members[index].work(self.number, devices)
    }

    /// Takes what the shards have answered. To be called before anything else happens to another shard.
    pub(crate) fn take_replies(&mut self, known: &mut [Page], devices: &Devices) {
        let has_failed = self.note.has_failed();
        for index in 0..self.members.len() {
            while let Some(reply) = self.members[index].shard.next_reply() {
                let shard = &mut self.members[index].shard;
                let bytes = shard.pieces(&reply).flatten().copied().collect::<Vec<u8>>();
                let (tag, result) = (reply.tag, reply.result);
                shard.release(reply);
                let (whole, part) = self.parts.remove(&tag).expect("a part is answered once");
                let asked = self.asked.get_mut(&whole).expect("its request is not answered");
                if result.is_ok() && has_failed {
                    // The note says of all shards that no start may use the flash.
                    let durable = &devices.backing[self.number].durable;
                    for (page, least) in asked.promised(part, (self.number, self.map, index)) {
                        let place = page as usize * PAGE;
                        let found =
                            u64::from_le_bytes(durable[place..place + 8].try_into().unwrap());
                        assert!(
                            found >= least,
                            "only the flash has page {page} of {}",
                            self.number
                        );
                    }
                }
                asked.spanning.answered(part, result, None, Some(bytes));
                if asked.spanning.is_over()
                    && let Some(asked) = self.asked.remove(&whole)
                {
                    self.answered(known, asked);
                }
            }
        }
    }

    fn answered(&self, known: &mut [Page], Asked { spanning, before }: Asked) {
        let Request { tag, kind, offset_bytes, length_bytes, is_durable } = *spanning.whole();
        let (result, _, given): (Result<(), RequestError>, _, _) = spanning.into_answer();
        let bytes = given.collect::<Vec<Vec<u8>>>().concat();
        // A promise fails while the flash fails.
        if result.is_err() {
            assert!(kind == RequestKind::Flush || is_durable, "{result:?}");
            return;
        }
        let first = offset_bytes / PAGE as u64;
        let pages = first..first + length_bytes / PAGE as u64;
        match kind {
            RequestKind::Write => {
                for known in &mut known[pages.start as usize..pages.end as usize] {
                    known.answered = known.answered.max(stamp(tag, self.number));
                    if is_durable {
                        known.flushed = known.flushed.max(stamp(tag, self.number));
                    }
                }
            }
            RequestKind::Flush => {
                for (known, before) in known.iter_mut().zip(before) {
                    known.flushed = known.flushed.max(before.answered);
                }
            }
            RequestKind::Read
            | RequestKind::Trim
            | RequestKind::WriteZeroes
            | RequestKind::Cache => {
                for (page, bytes) in pages.zip(bytes.chunks(PAGE)) {
                    let (place, flushed) = ((page, self.number), before[page as usize].flushed);
                    let found = known[page as usize].check(place, flushed, bytes);
                    if self.is_recovering {
                        known[page as usize] = Page::of(found);
                    }
                }
            }
        }
    }
}

/// Return pages of which nothing was written.
pub(crate) fn blank_pages() -> Vec<Page> {
    vec![Page::default(); PAGES as usize]
}
