//! Page mapping: every page goes to the next free page of a plane, and garbage is collected.
//!
//! A stream fills a physical page of a plane before it turns to the next plane.
//!
//! Each plane has an open block per stream of the host, one for what garbage collection moves, and
//! one, of the most worn free blocks, for what static wear levelling moves; with persistently isolated
//! handles, the latter two for each handle. Below the threshold every
//! write to the plane collects one block, if that frees a part of it that is worth it; when free
//! blocks run out, blocks are collected, whatever they free, until the write has room.
//!
//! * Source: Hu et al. (SSDsim), ICS '11, for allocation and the threshold; Tavakkol et al. (MQSim),
//!   FAST '18, for separate blocks and static wear levelling.
//! * State: 4 bytes per plane and open block, besides the flash's; with persistently isolated handles 1
//!   per block.
//! * Cost: O(1) amortised per page moved; see the parts for the choice of victims. Static wear
//!   levelling looks at all blocks of a plane per erase while the most worn one leads.
//! * Deviations: (1) SSDsim collects below the threshold whatever there is to gain, and hardly ends
//!   when the drive is full; here a block must have 1 of 8 pages invalid until free blocks run out.
//!   (2) With dynamic allocation a plane whose blocks hold nothing but valid pages is passed over,
//!   where the turn would otherwise end in a deadlock; not within a physical page. (3) Copies stay in their plane.

use super::super::config::{Allocation, GcBlocks, GcUnit, SsdConfig};
use super::super::error::Exhausted;
use super::super::geometry::NONE;
use super::super::nand::{Nand, State, Wanted};
use super::super::placement::Placement;
use super::victim::Chooser;
use super::{Cause, Tally, Work, relocate};

/// Divisor of a block's pages that gives the part which must be invalid for a collection that is
/// not urgent.
const WORTH: u32 = 8;

#[derive(Clone, Debug)]
pub(crate) struct PageMap {
    pub(crate) tally: Tally,
    /// Per plane and stream: those of the host, those of copies, those of wear levelling; NONE if there
    /// is none.
    open: Vec<u32>,
    /// Open blocks of a plane.
    streams: usize,
    /// Per stream of the host: whose turn it is.
    turns: Vec<u32>,
    /// Per block: the handle whose data it holds; empty unless handles are persistently isolated.
    handle_of: Vec<u8>,
    pages_per_program: u32,
    allocation: Allocation,
    /// A plane collects while it has less than this.
    threshold: u32,
    gc_unit: GcUnit,
    /// The stream that copies go to; with persistently isolated handles, that of handle 0.
    copies: usize,
    /// The stream that static wear levelling moves to, likewise.
    wear: usize,
    chooser: Chooser,
    static_wear_threshold: u32,
    free_blocks_least: u32,
    reserved_blocks: u32,
    /// The valid pages of the block that is being emptied.
    moving: Vec<u32>,
}

impl PageMap {
    pub(crate) fn new(config: &SsdConfig, nand: &Nand) -> Self {
        let of_plane = match config.gc_unit {
            GcUnit::Pages => config.units_per_plane() * config.pages_per_unit(),
            GcUnit::Blocks => config.units_per_plane(),
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a 32-bit number"
        )]
        let threshold = libm::ceil(f64::from(of_plane) * config.gc_threshold) as u32;
        let hosts = config.host_streams() as usize;
        let is_persistent = config.placement.is_some_and(Placement::is_persistent);
        let streams = hosts + 2 * config.copy_streams() as usize;
        Self {
            tally: Tally::default(),
            open: vec![NONE; nand.geometry().planes as usize * streams],
            streams,
            turns: vec![0; hosts],
            handle_of: vec![0; if is_persistent { nand.geometry().blocks() as usize } else { 0 }],
            pages_per_program: config.pages_per_program,
            allocation: config.allocation,
            threshold,
            gc_unit: config.gc_unit,
            copies: match config.gc_blocks {
                GcBlocks::Separate => hosts,
                GcBlocks::Shared => 0,
            },
            wear: hosts + config.copy_streams() as usize,
            chooser: Chooser::new(config),
            static_wear_threshold: config.static_wear_threshold,
            free_blocks_least: SsdConfig::FREE_BLOCKS_LEAST,
            reserved_blocks: config.reserved_units(),
            moving: Vec::with_capacity(config.pages_per_unit() as usize),
        }
    }

    /// Writes a page; hot pages are of stream 1 if there are two, and a handle is a stream.
    pub(crate) fn write(
        &mut self,
        nand: &mut Nand,
        logical: u32,
        stream: usize,
        work: &mut impl Work,
    ) -> Result<(), Exhausted> {
        let planes = nand.geometry().planes;
        let tries = match self.allocation {
            Allocation::Dynamic => planes,
            // The plane follows from the page number, so a full plane cannot pass the write on.
            Allocation::Static => 1,
        };
        for _ in 0..tries {
            let turn = match self.allocation {
                Allocation::Dynamic => self.turns[stream],
                Allocation::Static => logical % planes,
            };
            let plane = nand.geometry().order[turn as usize];
            // Deviation (2): a plane with nothing to collect is passed over; otherwise the turn
            // would wait for it for ever.
            let is_full = nand.plane(plane).valid >= self.most_valid(nand, plane)
                && !self.has_begun(nand, plane, stream);
            let block = if is_full { None } else { self.room(nand, plane, stream, work) };
            let Some(block) = block else {
                self.turn(stream, planes);
                continue;
            };
            // The map changes now and the time is charged through `work`: collection below must
            // already see the old copy as invalid.
            let page = nand.program(block, logical);
            let within = page - nand.first_page(block);
            work.program(plane, page, within);
            self.tally.host_programs += 1;
            // A stream keeps its turn until the physical page is full, since the cells are
            // programmed once for all of its pages.
            if (within + 1).is_multiple_of(self.pages_per_program) {
                self.turn(stream, planes);
            }
            self.close_if_full(nand, plane, stream);
            // After the write, which does not wait for this collection; later operations of the
            // plane do.
            self.collect_below_threshold(nand, plane, work);
            return Ok(());
        }
        Err(Exhausted)
    }

    /// Programs the physical page that a stream has begun to fill; the pages left in it are lost
    /// until the next erase, and count as programmed.
    pub(crate) fn pad(&mut self, nand: &mut Nand, stream: usize, work: &mut impl Work) {
        let plane = nand.geometry().order[self.turns[stream] as usize];
        let block = self.open[self.at(plane, stream)];
        if block == NONE {
            return;
        }
        let written = nand.block(block).written;
        let end = written.next_multiple_of(self.pages_per_program);
        if end == written {
            return;
        }
        // NAND cannot program the rest of a physical page later: what is skipped stays empty until
        // the erase.
        nand.skip_to(block, end);
        work.program(plane, nand.first_page(block) + end - 1, end - 1);
        self.tally.host_programs += u64::from(end - written);
        self.turn(stream, nand.geometry().planes);
        self.close_if_full(nand, plane, stream);
        self.collect_below_threshold(nand, plane, work);
    }

    const fn at(&self, plane: u32, stream: usize) -> usize {
        plane as usize * self.streams + stream
    }

    /// Notes whose data a block that a stream opens will hold, if that matters.
    fn note_handle(&mut self, block: u32, stream: usize) {
        if let Some(handle) = self.handle_of.get_mut(block as usize) {
            let number = stream % self.turns.len();
            *handle = u8::try_from(number).expect("there are at most 16 handles");
        }
    }

    /// Return the handle whose data a block holds if those of handles are kept apart, else 0.
    fn kept_apart(&self, block: u32) -> usize {
        self.handle_of.get(block as usize).map_or(0, |&handle| handle.into())
    }

    /// Return `true` if the stream has begun a physical page of the plane and not filled it. The plane is
    /// not passed over then, however full it is: the controller would keep what has gathered, and padding
    /// would miss it. The rest of the physical page takes no free block from the reserve.
    fn has_begun(&self, nand: &Nand, plane: u32, stream: usize) -> bool {
        let block = self.open[self.at(plane, stream)];
        block != NONE && !nand.block(block).written.is_multiple_of(self.pages_per_program)
    }

    /// Turns a stream to the next plane.
    fn turn(&mut self, stream: usize, planes: u32) {
        let next = self.turns[stream] + 1;
        self.turns[stream] = if next == planes { 0 } else { next };
    }

    /// Return the number of valid pages at which a plane takes no more: outside the reserve, at least one
    /// page is then still invalid.
    fn most_valid(&self, nand: &Nand, plane: u32) -> u32 {
        // Retired blocks shrink what a plane can take, so a worn drive ends in an error and not in
        // an endless collection.
        let blocks = nand.plane(plane).usable.saturating_sub(self.reserved_blocks);
        (blocks * nand.pages_per_block()).saturating_sub(1)
    }

    /// Return the open block of the stream, which has room; none if the plane cannot go on.
    fn room(
        &mut self,
        nand: &mut Nand,
        plane: u32,
        stream: usize,
        work: &mut impl Work,
    ) -> Option<u32> {
        // Copies may share the stream's block, and open one meanwhile.
        while self.open[self.at(plane, stream)] == NONE
            // The last free blocks are kept for copies: collection itself must open a block before
            // it can erase one.
            && nand.plane(plane).free_blocks() <= self.free_blocks_least
        {
            // In the end this frees a page, since there is an invalid one.
            if nand.plane(plane).valid > self.most_valid(nand, plane)
                || !self.collect(nand, plane, 1, work)
            {
                return None;
            }
        }
        let at = self.at(plane, stream);
        if self.open[at] == NONE {
            let block = nand.open(plane, Wanted::Next)?;
            self.open[at] = block;
            self.note_handle(block, stream);
        }
        Some(self.open[at])
    }

    fn close_if_full(&mut self, nand: &mut Nand, plane: u32, stream: usize) {
        let at = self.at(plane, stream);
        let open = &mut self.open[at];
        if nand.is_full(*open) {
            nand.close(std::mem::replace(open, NONE));
        }
    }

    fn collect_below_threshold(&mut self, nand: &mut Nand, plane: u32, work: &mut impl Work) {
        let free = match self.gc_unit {
            GcUnit::Pages => nand.plane(plane).free_pages,
            GcUnit::Blocks => nand.plane(plane).free_blocks(),
        };
        if free < self.threshold {
            let worth = (nand.pages_per_block() / WORTH).max(1);
            self.collect(nand, plane, worth, work);
        }
    }

    /// Collects a block if it frees at least `worth` pages; whether it did.
    fn collect(&mut self, nand: &mut Nand, plane: u32, worth: u32, work: &mut impl Work) -> bool {
        let Some(victim) = self.chooser.choose(nand, plane) else { return false };
        // A victim that is not the emptiest may free nothing, as long as another one can.
        let emptiest = nand.emptiest(plane).map_or(0, |block| nand.block(block).valid);
        let is_worth = nand.pages_per_block() - emptiest >= worth;
        let stream = self.copies + self.kept_apart(victim);
        if !is_worth || !self.move_pages(nand, victim, stream, Cause::Gc, work) {
            return false;
        }
        // Only an erase changes the wear, so this is often enough.
        self.level_wear(nand, plane, work);
        true
    }

    /// Empties a closed block into a stream of its plane and erases it; nothing happens, and the
    /// answer is no, if there is no room.
    fn move_pages(
        &mut self,
        nand: &mut Nand,
        source: u32,
        stream: usize,
        cause: Cause,
        work: &mut impl Work,
    ) -> bool {
        let plane = nand.geometry().plane_of_block(source);
        let at = self.at(plane, stream);
        let open = self.open[at];
        let pages_per_block = nand.pages_per_block();
        let left = if open == NONE { 0 } else { pages_per_block - nand.block(open).written };
        let valid = nand.block(source).valid;
        // Checked before the first copy: a block that is half moved could be neither erased nor
        // collected.
        if valid > left && nand.plane(plane).free_blocks() == 0 {
            return false;
        }
        // Cold data go to the most worn free block, which then rests; anything else would be
        // rewritten soon.
        let wanted = if cause == Cause::Wear { Wanted::MostWorn } else { Wanted::Next };
        let mut moving = std::mem::take(&mut self.moving);
        // Taken out of the victims' order first, or each copy would move it from bucket to bucket.
        nand.reopen(source);
        nand.valid_pages(source, &mut moving);
        for &page in &moving {
            if self.open[at] == NONE {
                let open =
                    nand.open(plane, wanted).expect("it was seen that there is a free block");
                self.open[at] = open;
                self.note_handle(open, stream);
            }
            relocate(nand, page, self.open[at], cause, work);
            self.close_if_full(nand, plane, stream);
        }
        self.moving = moving;
        match cause {
            Cause::Wear => self.tally.wear_copies += u64::from(valid),
            Cause::Gc => self.tally.gc_copies += u64::from(valid),
        }
        nand.erase(source);
        work.erase(plane, cause);
        true
    }

    /// Moves the data that lie longest in the least worn block to the most worn free one, if wear
    /// differs too much.
    fn level_wear(&mut self, nand: &mut Nand, plane: u32, work: &mut impl Work) {
        let threshold = self.static_wear_threshold;
        let most = nand.plane(plane).most_erases;
        if threshold == 0
            // No block can be `threshold` erases behind before one has as many: the scan over the
            // plane is left out.
            || most <= threshold
            || nand.plane(plane).free_blocks() <= self.free_blocks_least
        {
            return;
        }
        let per_plane = nand.geometry().blocks_per_plane;
        let coldest = (plane * per_plane..(plane + 1) * per_plane)
            .filter(|&block| nand.block(block).state == State::Closed)
            // Of equally worn blocks the one that was closed first: its data have not changed for
            // longest, so they are the coldest.
            .min_by_key(|&block| (nand.block(block).erases, nand.block(block).closed_at));
        if let Some(coldest) = coldest.filter(|&block| nand.block(block).erases < most - threshold)
        {
            let stream = self.wear + self.kept_apart(coldest);
            self.move_pages(nand, coldest, stream, Cause::Wear, work);
        }
    }

    /// Memory that grows with the drive, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.open) + size_of_val(&*self.handle_of)
    }

    pub(crate) fn assert_invariants(&self, nand: &Nand) {
        for (plane, open) in (0..).zip(self.open.chunks(self.streams)) {
            for &block in open.iter().filter(|&&block| block != NONE) {
                assert_eq!(nand.block(block).state, State::Open, "an open block is open");
                assert_eq!(nand.geometry().plane_of_block(block), plane, "it is of its plane");
                assert!(!nand.is_full(block), "an open block has room");
            }
            let opened = open.iter().filter(|&&block| block != NONE).count();
            let per_plane = nand.geometry().blocks_per_plane;
            let blocks = &nand.blocks[(plane * per_plane) as usize..][..per_plane as usize];
            let states = blocks.iter().filter(|block| block.state == State::Open).count();
            assert_eq!(states, opened, "no open block is forgotten");
            for (stream, &turn) in self.turns.iter().enumerate() {
                let has_turn = nand.geometry().order[turn as usize] == plane;
                let is_left_behind = !has_turn && self.has_begun(nand, plane, stream);
                assert!(!is_left_behind, "a stream fills a physical page before it turns");
            }
        }
    }
}
