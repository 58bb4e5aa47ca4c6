//! The shards of a run as one: requests are cut and joined, as a server with several threads does it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use thermocline_core::{Nanos, Tier};
use thermocline_engine::driver::Completion;
use thermocline_engine::{
    FlashSet, Frames, OpenError, Operation, Options, OptionsError, PolicyOptions, Request,
    RequestError, RequestKind, Shard, ShardMap, Spanning, SubmitError, WriteMode,
};

use crate::exchange::Failed;

/// Answer to a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) tag: u64,
    pub(crate) result: Result<(), RequestError>,
    /// The bytes of a read that succeeded.
    pub(crate) bytes: Vec<u8>,
}

/// A part that its shard has not taken yet.
#[derive(Debug)]
struct Waiting {
    request: Request,
    payload: Vec<u8>,
    since: u64,
}

/// The shards that serve one backing store.
#[derive(Debug)]
pub(crate) struct Shards {
    members: Vec<Shard>,
    map: ShardMap,
    /// Start of the part of the backing store from which requests count.
    first_bytes: u64,
    /// Requests that are not answered, by their tags.
    spanning: BTreeMap<u64, Spanning<Vec<u8>>>,
    /// Owner of each part, by the tags that the shards know.
    parts: BTreeMap<u64, (u64, u32)>,
    next_part: u64,
    /// Per shard, in order.
    waiting: Vec<VecDeque<Waiting>>,
    answers: VecDeque<Answer>,
    failed: Failed,
    now: u64,
}

impl Shards {
    fn of(shards: Vec<Shard>, map: ShardMap, first_bytes: u64) -> Self {
        let mut shards = Self {
            waiting: shards.iter().map(|_| VecDeque::new()).collect(),
            members: shards,
            map,
            first_bytes,
            spanning: BTreeMap::new(),
            parts: BTreeMap::new(),
            next_part: 0,
            answers: VecDeque::new(),
            failed: Failed::default(),
            now: 0,
        };
        shards.watch();
        shards
    }

    /// Shards on a flash, as [`Shard::open`] or [`Shard::open_early`] opens each.
    pub(crate) fn open(
        first_bytes: u64,
        options: &Options,
        flash: &FlashSet,
        open: fn(Options, &thermocline_engine::Flash) -> Result<Shard, OpenError>,
    ) -> Result<Self, OpenError> {
        let map = flash.superblock().share.map;
        let each = options.of_shards(map)?.into_iter().zip(flash.flashes());
        let shards = each.map(|(options, flash)| open(options, flash)).collect::<Result<_, _>>()?;
        Ok(Self::of(shards, map, first_bytes))
    }

    /// Shards without a flash.
    pub(crate) fn without_flash(
        first_bytes: u64,
        options: &Options,
        map: ShardMap,
    ) -> Result<Self, OptionsError> {
        let each = options.of_shards(map)?.into_iter();
        Ok(Self::of(each.map(Shard::new).collect::<Result<_, _>>()?, map, first_bytes))
    }

    /// Learns from now on when a flash fails.
    pub(crate) fn watch(&mut self) {
        self.failed = Failed::default();
        for shard in &mut self.members {
            self.failed.watch(shard);
        }
    }

    /// Return `true` if the flash in use failed, as the note says before anything else is acknowledged.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.has_failed()
    }

    /// Let all shards give up their flash if that of one failed: one note speaks for all.
    fn share_failure(&mut self) {
        if self.failed.has_failed() {
            self.members.iter_mut().for_each(Shard::give_up_flash);
        }
    }

    /// Return the request, as the shards know it.
    fn placed(&self, request: Request) -> Request {
        let moved_bytes = if request.kind == RequestKind::Flush { 0 } else { self.first_bytes };
        Request { offset_bytes: request.offset_bytes + moved_bytes, ..request }
    }

    /// Takes a request, unless the shard that has its beginning is full; parts for other shards wait.
    pub(crate) fn submit(&mut self, request: Request, payload: &[u8]) -> Result<(), SubmitError> {
        let request = self.placed(request);
        let mut spanning = Spanning::new(self.map, request);
        let mut is_first = true;
        while let Some(part) = spanning.next_part() {
            let tag = self.next_part;
            let bytes = part.payload(&request, payload);
            let asked = Request { tag, ..part.request };
            let has_room = self.waiting[part.shard].is_empty();
            let taken = if has_room {
                self.members[part.shard].submit(asked, bytes)
            } else {
                Err(SubmitError::Full)
            };
            match taken {
                Err(SubmitError::Full) if !is_first => {
                    let (payload, since) = (bytes.to_vec(), self.now);
                    self.waiting[part.shard].push_back(Waiting { request: asked, payload, since });
                }
                taken => taken?,
            }
            self.next_part += 1;
            self.parts.insert(tag, (request.tag, part.number));
            is_first = false;
        }
        self.spanning.insert(request.tag, spanning);
        self.share_failure();
        Ok(())
    }

    /// Gives shards what waited for them, or refuses what waited for too long.
    fn offer_waiting(&mut self) {
        for at in 0..self.members.len() {
            while let Some(Waiting { request, payload, since }) = self.waiting[at].front() {
                let timeout_ns = self.members[at].options().backing_timeout.0;
                if self.members[at].submit(*request, payload).is_ok() {
                    self.waiting[at].pop_front();
                } else if self.now - since >= timeout_ns {
                    let tag = request.tag;
                    self.waiting[at].pop_front();
                    self.part_answered(tag, Err(RequestError::Io), None);
                } else {
                    break;
                }
            }
        }
    }

    fn part_answered(
        &mut self,
        tag: u64,
        result: Result<(), RequestError>,
        given: Option<Vec<u8>>,
    ) {
        let (whole, number) = self.parts.remove(&tag).expect("a shard answers what it was asked");
        let spanning = self.spanning.get_mut(&whole).expect("it is not answered yet");
        spanning.answered(number, result, None, given);
        if spanning.is_over() {
            let spanning = self.spanning.remove(&whole).expect("it was there");
            let (result, _, given) = spanning.into_answer();
            let bytes = given.collect::<Vec<Vec<u8>>>().concat();
            self.answers.push_back(Answer { tag: whole, result, bytes });
        }
    }

    pub(crate) fn next_answer(&mut self) -> Option<Answer> {
        for at in 0..self.members.len() {
            while let Some(reply) = self.members[at].next_reply() {
                let given = (reply.kind == RequestKind::Read && reply.result.is_ok())
                    .then(|| self.members[at].pieces(&reply).collect::<Vec<_>>().concat());
                let (tag, result) = (reply.tag, reply.result);
                self.members[at].release(reply);
                self.part_answered(tag, result, given);
            }
        }
        self.answers.pop_front()
    }

    pub(crate) fn next_operation(&mut self) -> Option<(usize, Operation)> {
        self.offer_waiting();
        let mut shards = self.members.iter_mut().enumerate();
        let next = shards.find_map(|(at, shard)| shard.next_operation().map(|next| (at, next)));
        self.share_failure();
        next
    }

    pub(crate) fn complete(&mut self, shard: usize, (operation, result): Completion) {
        self.members[shard].complete(operation, result);
        self.share_failure();
    }

    pub(crate) fn tick(&mut self, now: u64) {
        self.now = now;
        self.members.iter_mut().for_each(|shard| shard.tick(Nanos(now)));
        self.share_failure();
    }

    /// Return the frames of a shard.
    pub(crate) fn frames(&self, shard: usize) -> Arc<Frames> {
        Arc::clone(self.members[shard].frames())
    }

    pub(crate) fn each(&mut self) -> impl Iterator<Item = &mut Shard> {
        self.members.iter_mut()
    }

    fn all(&self, is: impl FnMut(&Shard) -> bool) -> bool {
        self.members.iter().all(is)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.iter().all(VecDeque::is_empty) && self.all(Shard::is_idle)
    }

    pub(crate) fn awaits_epoch(&self) -> bool {
        !self.all(|shard| !shard.awaits_epoch())
    }

    pub(crate) fn has_flash(&self) -> bool {
        self.all(Shard::has_flash)
    }

    pub(crate) fn has_left_flash(&self) -> bool {
        self.all(Shard::has_left_flash)
    }

    pub(crate) fn is_flash_released(&self) -> bool {
        self.all(Shard::is_flash_released)
    }

    pub(crate) fn dirty_pages(&self) -> usize {
        self.members.iter().map(Shard::dirty_pages).sum()
    }

    pub(crate) fn next_sequence(&self) -> u64 {
        self.members.iter().map(Shard::next_sequence).sum()
    }

    /// Return the number of used pages that they serve.
    pub(crate) fn pages(&self) -> usize {
        let options = self.members[0].options();
        (options.backing_pages - self.first_bytes / u64::from(options.page_bytes)) as usize
    }

    /// Return the lost pages in order.
    pub(crate) fn lost_pages(&self) -> Vec<u64> {
        let mut pages: Vec<u64> = self.members.iter().flat_map(Shard::lost_pages).collect();
        pages.sort_unstable();
        let page_bytes = u64::from(self.members[0].options().page_bytes);
        pages.iter().map(|page| page - self.first_bytes / page_bytes).collect()
    }

    /// Return the number of bytes of a request that may be submitted at once.
    pub(crate) fn part_bytes(&self, request: &Request) -> u64 {
        match &self.members[..] {
            [shard] => shard.part_bytes(&self.placed(*request)),
            // Each part is shorter than one request may be.
            _ => request.length_bytes,
        }
    }

    /// Return `true` if a tier of the cache has the page.
    pub(crate) fn is_held(&self, page: u64) -> bool {
        let page = page + self.first_bytes / u64::from(self.members[0].options().page_bytes);
        self.members.iter().any(|shard| shard.tier_of(page) != Tier::DISK)
    }

    pub(crate) fn policy(&self) -> &PolicyOptions {
        &self.members[0].options().policy
    }

    pub(crate) fn write_mode(&self) -> WriteMode {
        self.members[0].options().write_mode
    }

    pub(crate) fn assert_invariants(&self) {
        self.members.iter().for_each(Shard::assert_invariants);
    }

    /// Note that the epochs of all regions have begun.
    pub(crate) fn epoch_has_begun(&mut self, flash: &FlashSet) {
        for (shard, flash) in self.members.iter_mut().zip(flash.flashes()) {
            shard.epoch_has_begun(flash);
        }
    }

    /// Let another flash take the place of the one that all have released, for one of them.
    pub(crate) fn take_flash(
        &mut self,
        shard: usize,
        options: &Options,
        policy: &PolicyOptions,
        flash: &FlashSet,
    ) -> Result<(), OpenError> {
        let flash_pages = options.of_shards(self.map)?[shard].flash_pages;
        self.members[shard].take_flash(flash_pages, policy.clone(), &flash.flashes()[shard])?;
        // It may have failed another one meanwhile.
        self.share_failure();
        Ok(())
    }
}
