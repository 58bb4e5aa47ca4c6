//! HFA: pages that travel between tiers often are kept from it, in a queue of their own.
//!
//! Each tier has two queues. A page enters the first one, which protects it, if it left this tier
//! often lately, as a bounded table of hints tells, or if it is hit; other pages enter the second
//! one, and victims are taken from there. The boundary between the queues moves with the cold pages
//! in the first and the hot ones in the second. All tiers are exclusive. D-HFA demotes victims and
//! moves what is hit to the top, P-HFA discards victims and lets pages rise with a probability,
//! H-HFA demotes and promotes by the values of the last K moves, and Oracle HFA is H-HFA with the
//! hints that an earlier run of it gave later.
//!
//! * Source: Meng, Wu, Guo, Li, Liang, Yao, Zheng, *A Hint Frequency Based Approach to Enhancing the
//!   I/O Performance of Multilevel Cache Storage Systems*, JCST 32(2), 2017; it builds on Demote
//!   (Wong and Wilkes, USENIX ATC 2002), Promote (Gill, FAST 2008) and Hint-K (Wu et al., ICPP 2010).
//! * State: 4 bytes per page that exists, 4 more per tier for its hints and, for H-HFA, 4 for its
//!   moves; 64 bytes per cached page, one cache line; for D-HFA 4 more and 44 per hotness in a
//!   second queue, for P-HFA and H-HFA 40 to 70 more; 16 per hit of late, at most two of them per
//!   cached page; 20 per record that a table of hints may hold, 56 more if it has many hints.
//! * Cost: per page that moves, amortised O(k) for its hints and O(log n) for its queues; with
//!   D-HFA, O(1) for a queue that holds pages as hot. The paper's bubble sort is O(n) in the worst
//!   case, a cold queue whose last page is hit, or a page that enters behind equally hot ones; the
//!   same places are found here without passing the pages between.
//! * Deviations: (1) Eq. 2 is summed over k periods, the newest with weight 1: its index is one off.
//!   (2) A hint is a departure, filed under the period of the departure: arrivals at a tier would
//!   count the same trips twice. (3) A page that arrives has the greater of its own frequency there
//!   and the one that it brings along, which describe the same trips. (4) Hotness is Eq. 3
//!   everywhere; line 15 of Algorithm 1 would let a new page outrank any other. (5) The page that
//!   leaves a full first queue goes to the second one under the condition of Algorithm 1; with
//!   D-HFA, always. (6) The second queue may use what the first one leaves empty. (7) A write is
//!   served like a read and goes through to disk; the paper replays reads. (8) In H-HFA, Algorithm
//!   6's `x in T_out` asks for a record of that tier that still counts. (9) In P-HFA the hint bit
//!   of Promote is the draw itself. (10) The oracle is the paper's in name: it says no more than
//!   that future hints are known. (11) A tier without a page is left out. (12) After a restart,
//!   survivors are cleaned and dropped: their hints are lost.

mod bubble;
mod cascade;
mod hint_log;
mod hint_table;
mod history;
mod level;
mod moves;
mod partition;
mod promotion;
mod queues;
mod runs;
mod settings;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

pub use hint_log::HintLog;
pub use settings::{D_PARAMETERS, H_PARAMETERS, ORACLE_PARAMETERS, P_PARAMETERS};

use crate::config::Values;
use crate::prefetch::prefetch;
use crate::queue::Lists;
use crate::random::SplitMix64;
use crate::{Access, Actions, BoxedPolicy, PageId, Policy, Setup, Survivor, Tier, WriteMiss};
use hint_table::RECORD_BYTES;
use history::History;
use level::Level;
use promotion::Promotion;
use queues::{Queue, Queues};
use settings::{Settings, Strategy};

/// The frame of a page that is cached nowhere: no record of hints, either.
const ABSENT: u32 = hint_table::NONE;

/// What the published scheme keeps per page of the first queue: hits, hint frequency, hotness, and
/// the times of its arrival and of its last update.
const HISTORY_BYTES: usize = size_of::<u32>() + 4 * size_of::<u64>();

/// The HFA policy that has this number among the strategies.
#[derive(Clone, Debug)]
pub struct Hfa<const STRATEGY: u8> {
    settings: Settings,
    /// The tiers with room for pages, fastest first.
    levels: Vec<Level>,
    disk: Tier,
    write_miss: WriteMiss,
    /// Accesses so far, the current one included.
    now: u64,
    /// The current period.
    period: u64,
    /// When the current period ends, and when pages are counted next.
    period_end: u64,
    next_sample: u64,
    /// Per page: its frame, or [`ABSENT`], and per level its newest record of hints.
    cells: Vec<u32>,
    /// Cells per page.
    stride: usize,
    /// Frames that held a page and hold none.
    free: Vec<u32>,
    /// Frames from here on never held a page.
    used_frames: u32,
    queues: Queues<STRATEGY>,
    /// Hits of late, oldest first: when, and in which frame. Counts if it is the frame's last hit.
    recent: VecDeque<(u64, u32)>,
    /// When hotness was last computed of all pages.
    resorted: u64,
    /// Per level: its frames by arrival or last hit, newest first; P-HFA only.
    ages: Option<Lists>,
    /// The last moves of each page; H-HFA only.
    history: Option<History>,
    random: SplitMix64,
    /// Whether this access woke a promotion already (Algorithm 2).
    has_promoted: bool,
    /// The hints of this run, if they are wanted.
    log: Option<HintLog>,
    /// The hints of an earlier run, for an oracle.
    future: Option<Arc<HintLog>>,
    /// Frames of pages whose last hint expired: kept for its memory.
    expired: Vec<u32>,
}

/// Builds D-HFA for the registry.
pub fn build_demote(setup: &Setup, values: &Values) -> BoxedPolicy {
    Box::new(Hfa::<{ Strategy::Demote as u8 }>::new(setup, values))
}

/// Builds P-HFA for the registry.
pub fn build_promote(setup: &Setup, values: &Values) -> BoxedPolicy {
    Box::new(Hfa::<{ Strategy::Promote as u8 }>::new(setup, values))
}

/// Builds H-HFA for the registry.
pub fn build_hint(setup: &Setup, values: &Values) -> BoxedPolicy {
    Box::new(Hfa::<{ Strategy::Hint as u8 }>::new(setup, values))
}

/// Builds Oracle HFA for the registry, which has checked that the values have hints.
///
/// # Panics
/// If they have none.
pub fn build_oracle(setup: &Setup, values: &Values) -> BoxedPolicy {
    let mut hfa = Hfa::<{ Strategy::Hint as u8 }>::new(setup, values);
    hfa.future = Some(Arc::clone(values.hints().expect("the registry asks for hints")));
    Box::new(hfa)
}

impl<const STRATEGY: u8> Hfa<STRATEGY> {
    const STRATEGY: Strategy = Strategy::of(STRATEGY);

    fn new(setup: &Setup, values: &Values) -> Self {
        let settings = Settings::new(values);
        let pages = setup.geometry.pages();
        let given = match Self::STRATEGY {
            Strategy::Promote => values.real_or_auto("promote_probability"),
            Strategy::Demote | Strategy::Hint => Some(0.0),
        };
        let mut levels = vec![];
        let mut above = 0;
        for (tier, &capacity_pages) in (0..).map(Tier).zip(&setup.capacity_pages) {
            if capacity_pages > 0 {
                let promotion = Promotion::new(tier, above, capacity_pages, given);
                levels.push(Level::new(tier, capacity_pages, pages, promotion, &settings));
                above += u64::from(capacity_pages);
            }
        }
        // A page is brought in before another one leaves.
        let frames = u32::try_from(above + 1).map_or(pages, |frames| frames.min(pages));
        let capacities: Vec<u32> = levels.iter().map(|level| level.capacity_pages).collect();
        let level_count = u32::try_from(levels.len()).expect("a hierarchy has few tiers");
        Self {
            disk: setup.disk(),
            write_miss: setup.write_miss,
            now: 0,
            period: 0,
            period_end: settings.period,
            next_sample: settings.sample_interval,
            cells: vec![ABSENT; pages as usize * (levels.len() + 1)],
            stride: levels.len() + 1,
            free: Vec::new(),
            used_frames: 0,
            queues: Queues::new(frames, &capacities),
            recent: VecDeque::new(),
            resorted: 0,
            ages: (Self::STRATEGY == Strategy::Promote).then(|| Lists::new(frames, level_count)),
            history: (Self::STRATEGY == Strategy::Hint).then(|| History::new(pages, values)),
            random: SplitMix64::new(match Self::STRATEGY {
                Strategy::Promote => values.integer("seed"),
                Strategy::Demote | Strategy::Hint => 0,
            }),
            has_promoted: false,
            log: settings.records_hints.then(HintLog::new),
            future: None,
            expired: Vec::new(),
            levels,
            settings,
        }
    }

    fn frame_of(&self, page: PageId) -> u32 {
        self.cells[self.row_of(page)]
    }

    fn set_frame_of(&mut self, page: PageId, frame: u32) {
        let row = self.row_of(page);
        self.cells[row] = frame;
    }

    /// Where the cells of a page begin.
    fn row_of(&self, page: PageId) -> usize {
        page.index() * self.stride
    }

    /// P-HFA: each tier that the access reaches compares lifetimes with the one above.
    fn adapt_promotion(&mut self, reached: usize) {
        if Self::STRATEGY != Strategy::Promote {
            return;
        }
        let Some(ages) = &self.ages else { return };
        let stamp = |frame: Option<u32>| {
            let frame = frame.map(|frame| self.queues.frame(frame));
            frame.map_or(0, |frame| frame.loaded.max(frame.last_hit))
        };
        let lifetime = |level: u32| stamp(ages.front(level)) - stamp(ages.back(level));
        for (index, level) in (0_u32..).zip(&mut self.levels).take(reached + 1).skip(1) {
            let lifetimes = [lifetime(index - 1), lifetime(index)];
            level.promotion.adapt(self.now, level.capacity_pages, lifetimes);
        }
    }
}

impl<const STRATEGY: u8> Policy for Hfa<STRATEGY> {
    fn access(&mut self, access: Access, out: &mut Actions) {
        self.begin();
        let frame = self.frame_of(access.page);
        if frame == ABSENT {
            self.adapt_promotion(self.levels.len());
            self.miss(access, out);
        } else {
            let place = self.queues.place_of(frame).expect("a cached page is in a queue");
            self.adapt_promotion(place.0);
            self.hit(access, frame, place, out);
        }
        self.end(out);
    }

    fn flush(&mut self, out: &mut Actions) {
        for index in (0..self.cells.len()).step_by(self.stride) {
            let frame = self.cells[index];
            if frame != ABSENT && self.queues.frame(frame).is_dirty {
                self.queues.frame_mut(frame).is_dirty = false;
                let page = self.queues.frame(frame).page;
                out.copy(page, self.tier_of(frame), self.disk);
            }
        }
    }

    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        for survivor in survivors {
            if survivor.is_dirty {
                out.copy(survivor.page, Tier::FLASH, self.disk);
            }
            out.drop_copy(survivor.page, Tier::FLASH);
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        prefetch(&self.cells, self.row_of(page));
    }

    fn assert_invariants(&self) {
        self.queues.assert_invariants();
        let mut cached = 0;
        for (index, level) in self.levels.iter().enumerate() {
            let column = self.cells.iter().skip(index + 1);
            let newest = column.step_by(self.stride).copied();
            level.hints.assert_invariants(newest, |page, frame| {
                let place = self.queues.place_of(frame);
                self.frame_of(page) == frame && place.is_some_and(|place| place.0 == index)
            });
            level.promotion.assert_invariants();
            assert!(self.settings.k > 0 || level.hints.len() == 0, "without k, no hints are kept");
            let [q1, q2] = [Queue::Q1, Queue::Q2].map(|queue| self.queues.len(index, queue));
            let q1_capacity_pages = level.q1_capacity_pages;
            assert!(q1 <= q1_capacity_pages, "the first queue keeps to its size");
            assert!(q1 + q2 <= level.capacity_pages, "the tier keeps to its capacity");
            let greatest = (level.capacity_pages - 1).max(1);
            assert!((1..=greatest).contains(&q1_capacity_pages), "either queue has room");
            assert!(
                !self.settings.is_strict || q2 <= level.q2_capacity_pages(),
                "queues are strict"
            );
            for queue in [Queue::Q1, Queue::Q2] {
                let mut hot = 0;
                for frame in self.queues.frames(index, queue) {
                    let entry = self.queues.frame(frame);
                    assert_eq!(self.frame_of(entry.page), frame, "the index points back");
                    let is_known = self.recent.contains(&(entry.last_hit, frame));
                    assert!(is_known || !self.is_recent(entry), "recent hits are known");
                    let is_live = self.is_live(index, entry.page);
                    let must_be_hot = is_live || self.is_recent(entry);
                    assert!(entry.is_hot || !must_be_hot, "hot pages are known");
                    assert!(!entry.is_hot || is_live || is_known, "cold pages are known in time");
                    hot += u32::from(entry.is_hot);
                    cached += 1;
                }
                assert_eq!(hot, level.hot_pages(queue), "hot pages are counted");
            }
        }
        let frames = self.cells.iter().step_by(self.stride);
        let indexed = frames.filter(|&&frame| frame != ABSENT).count();
        assert_eq!(indexed, cached, "a cached page is in one queue of one tier");
        assert_eq!(self.used_frames as usize - self.free.len(), cached, "each frame has a page");
    }

    fn memory_bytes(&self) -> usize {
        size_of_val(&*self.cells)
            + self.free.capacity() * size_of::<u32>()
            + self.queues.memory_bytes()
            + self.recent.capacity() * size_of::<(u64, u32)>()
            + self.ages.as_ref().map_or(0, Lists::memory_bytes)
            + self.history.as_ref().map_or(0, History::memory_bytes)
            + self.levels.iter().map(|level| level.hints.memory_bytes()).sum::<usize>()
            + self.expired.capacity() * size_of::<u32>()
    }

    fn metadata_bytes(&self) -> usize {
        let of_level = |(index, level): (usize, &Level)| {
            let q1_pages = self.queues.len(index, Queue::Q1) as usize;
            level.hints.len() as usize * RECORD_BYTES + q1_pages * HISTORY_BYTES
        };
        let histories = self.history.as_ref().map_or(0, History::metadata_bytes);
        self.levels.iter().enumerate().map(of_level).sum::<usize>() + histories
    }

    fn gauges(&self, report: &mut dyn FnMut(&'static str, Tier, f64)) {
        for (index, level) in self.levels.iter().enumerate() {
            let pages = |queue| f64::from(self.queues.len(index, queue));
            report("q1_pages", level.tier, pages(Queue::Q1));
            report("q2_pages", level.tier, pages(Queue::Q2));
            report("t_out_records", level.tier, f64::from(level.hints.len()));
            if Self::STRATEGY == Strategy::Promote {
                report("promote_probability", level.tier, level.promotion.probability());
            }
        }
    }

    fn take_hints(&mut self) -> Option<HintLog> {
        self.log.as_mut().map(core::mem::take)
    }
}
