//! HFA: pages that often travel between tiers are kept from it, in a queue of their own.
//!
//! Each tier has two queues. A page enters the first one, which protects it, if a bounded table of
//! hints shows that it left this tier often in the last periods, or if it is hit; other pages enter
//! the second one, and victims are taken from there. The boundary between the queues moves with the
//! cold pages in the first and the hot ones in the second. All tiers are exclusive. D-HFA demotes
//! victims and moves hit pages to the top, P-HFA discards victims and lets pages rise with a
//! probability, H-HFA demotes and promotes by the values of the last K moves, and Oracle HFA is
//! H-HFA with the hints that an earlier run of it gave later.
//!
//! * Source: Meng, Wu, Guo, Li, Liang, Yao, Zheng, *A Hint Frequency Based Approach to Enhancing the
//!   I/O Performance of Multilevel Cache Storage Systems*, JCST 32(2), 2017; it builds on Demote
//!   (Wong and Wilkes, USENIX ATC 2002), Promote (Gill, FAST 2008) and Hint-K (Wu et al., ICPP 2010).
//! * State: 4 bytes per page that exists, 4 more per tier for its hints and, for H-HFA, 16 for its
//!   moves; sparse, the first two and 11 more per page that is cached or has a hint, and 27 per page
//!   that is cached or has a history of moves; 64 bytes per cached page, one cache line; 4 more and 44 per
//!   hotness in a second queue if D-HFA sorts that; for P-HFA 44 more, for H-HFA 56 and 44 per hint value
//!   in a second queue; 16 per recent hit, at most two of them per cached page; 20 per record that
//!   a table of hints may hold, 56 more if it has many hints; for Oracle HFA 16 per hint.
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
//!   survivors are cleaned and dropped: their hints are lost. (13) The paper's figures have several
//!   clients over a server, its text one path. Here each client's first tier has queues and hints of
//!   its own, and what moves between first tiers and shared ones does so on its client's path. D-HFA
//!   and H-HFA keep every path exclusive, as in Demote with removal: a victim that another client's
//!   first tier holds is dropped. P-HFA keeps a probability per first tier and lets
//!   pages of different paths meet, as Promote does. (14) The policies with several clients are halves,
//!   joined ([`split`](super::split)). A client's periods count its own accesses, and those of the shared
//!   tiers the accesses of which they have heard: the client's next message reports its read hits.
//!   A client gives the hint of a victim without knowing who else has the page. With `writes` at `back`, and
//!   in Oracle HFA, one clock counts all accesses, and a victim that another client holds is
//!   given no hint. (15) A hint frequency that goes with a page of H-HFA is rounded to 32 bits: the other 32
//!   of the answer to a client are the page's moves.

mod bubble;
mod by_value;
mod cascade;
mod cells;
mod client;
mod hint_table;
mod history;
mod hit_counts;
mod level;
mod moves;
mod partition;
mod paths;
mod queues;
mod runs;
mod server;
mod settings;

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

pub(super) use client::Client;
pub(super) use server::Server;
pub use settings::{D_PARAMETERS, H_PARAMETERS, ORACLE_PARAMETERS, P_PARAMETERS};

use crate::action::Sink;
use crate::capabilities::{Capabilities, Depth, Future, SparseMemory};
use crate::config::Values;
use crate::entry::{Build, PolicyEntry};
use crate::policy::for_each;
use crate::policy::multi::halves::Joined;
use crate::queue::Lists;
use crate::random::SplitMix64;
use crate::{
    Access, Actions, BoxedPolicy, Clients, Counts, HintLog, Op, PageId, Policy, Setup, Survivor,
    Tier, WriteMiss,
};
use cells::Cells;
use hint_table::RECORD_BYTES;
use history::History;
use level::Level;
use queues::{Queue, Queues};
use settings::Settings;
pub(super) use settings::Strategy;

/// The frame of a page that is cached nowhere: no record of hints, either.
const ABSENT: u32 = hint_table::NONE;

/// Size of the published scheme's data per page of the first queue: hits, hint frequency, hotness,
/// and the times of its arrival and of its last update.
const HISTORY_BYTES: usize = size_of::<u32>() + 4 * size_of::<u64>();

/// Tiers that a policy decides for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// All tiers.
    Whole,
    /// The first tier of one client.
    Client,
    /// The tiers that all clients share.
    Server,
}

/// The HFA policy that has this number among the strategies.
#[derive(Clone, Debug)]
pub struct Hfa<const STRATEGY: u8> {
    settings: Settings,
    part: Part,
    /// Of a client's half: the pages that have left for the server, with the frequency that each carries.
    departed: Vec<(PageId, f64)>,
    /// Of a server's half: the frequency that the page carries which has just risen to the client.
    risen: Option<f64>,
    /// Of a server's half of H-HFA: the page that a demoted one has just sent to the client, and the
    /// frequency that it carries.
    pushed: Option<(PageId, f64)>,
    /// Of a server's half: what each client said last of its tier, the life or the least value that enters.
    said: Box<[u64]>,
    /// Of a half: `true` until the access that began last has ended.
    is_open: bool,
    /// The tiers with room for pages, fastest first: the first one of each client, then the shared.
    levels: Vec<Level>,
    clients: Clients,
    /// Client on whose path pages move now.
    client: u8,
    disk: Tier,
    write_miss: WriteMiss,
    /// Accesses so far, the current one included.
    now: u64,
    /// The current period.
    period: u64,
    /// Time at which the current period ends, and time at which pages are counted next.
    period_end: u64,
    next_sample: u64,
    /// Per page: where it is, and its newest records of hints.
    cells: Cells,
    /// Frames that held a page and hold none.
    free: Vec<u32>,
    /// Frames from here on never held a page.
    used_frames: u32,
    queues: Queues<STRATEGY>,
    /// Recent hits, oldest first: time and frame. A hit counts if it is the frame's last one.
    recent: VecDeque<(u64, u32)>,
    /// Time at which the hotness of all pages was last computed.
    resorted: u64,
    /// Per level: its frames by arrival or last hit, newest first; P-HFA only.
    ages: Option<Lists>,
    /// The last moves of pages that are cached or were until lately; H-HFA only.
    history: Option<History>,
    random: SplitMix64,
    /// `true` if this access woke a promotion already (Algorithm 2).
    has_promoted: bool,
    /// The hints of this run, if they are recorded.
    log: Option<HintLog>,
    /// The hints of an earlier run, for an oracle.
    future: Option<Arc<HintLog>>,
    /// The same by period: who has hints, and where.
    foretold: Vec<(u64, Tier, PageId)>,
    /// Frames of pages whose last hint expired: kept for its memory.
    expired: Vec<u32>,
}

/// Reason why these policies need more than 64 bytes per page.
const STATE: &str =
    "it keeps hits, hint frequency, hotness and two times of a page, and orders by them";
/// Sparse memory of the policies that keep the moves of pages.
const HISTORY_MEMORY: SparseMemory = SparseMemory::of_cached(
    136,
    "as the other HFA; and it keeps the last moves of as many pages again",
);

/// The name of D-HFA in the registry.
pub(super) const D_HFA_NAME: &str = "d-hfa";
/// The name of P-HFA in the registry.
pub(super) const P_HFA_NAME: &str = "p-hfa";
/// The name of H-HFA in the registry.
pub(super) const H_HFA_NAME: &str = "h-hfa";

/// The row of `d-hfa` in the registry.
pub const D_HFA: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed(D_HFA_NAME),
    summary: "two queues per tier by frequency of demotions; hits move to the top",
    source: "Meng et al.: A Hint Frequency Based Approach (HFA), JCST 32(2), 2017",
    module: module_path!(),
    capabilities: Capabilities {
        write_back: Some(&settings::WRITES),
        sparse_memory: SparseMemory::of_cached(92, STATE),
        ..Capabilities::of(Depth::Tiers)
    },
    parameters: D_PARAMETERS,
    build: Build::Function(build_demote),
};

/// The row of `p-hfa` in the registry.
pub const P_HFA: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed(P_HFA_NAME),
    summary: "two queues per tier by frequency of promotions; pages rise with a probability",
    source: "Meng et al.: A Hint Frequency Based Approach (HFA), JCST 32(2), 2017",
    module: module_path!(),
    capabilities: Capabilities {
        write_back: Some(&settings::WRITES),
        sparse_memory: SparseMemory::of_cached(132, STATE),
        ..Capabilities::of(Depth::Tiers)
    },
    parameters: P_PARAMETERS,
    build: Build::Function(build_promote),
};

/// The row of `h-hfa` in the registry.
pub const H_HFA: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed(H_HFA_NAME),
    summary: "two queues per tier by frequency of moves; pages rise and fall by their last moves",
    source: "Meng et al.: A Hint Frequency Based Approach (HFA), JCST 32(2), 2017",
    module: module_path!(),
    capabilities: Capabilities {
        write_back: Some(&settings::WRITES),
        sparse_memory: HISTORY_MEMORY,
        ..Capabilities::of(Depth::Tiers)
    },
    parameters: H_PARAMETERS,
    build: Build::Function(build_hint),
};

/// The row of `oracle-hfa` in the registry.
pub const ORACLE_HFA: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("oracle-hfa"),
    summary: "h-hfa with the hints that an earlier run of it gave later",
    source: "Meng et al.: A Hint Frequency Based Approach (HFA), JCST 32(2), 2017",
    module: module_path!(),
    capabilities: Capabilities {
        future: Future::Hints,
        write_back: Some(&settings::WRITES),
        sparse_memory: HISTORY_MEMORY,
        ..Capabilities::of(Depth::Tiers)
    },
    parameters: ORACLE_PARAMETERS,
    build: Build::Function(build_oracle),
};

/// Builds D-HFA for the registry.
fn build_demote(setup: &Setup, values: &Values) -> BoxedPolicy {
    build_joined::<{ Strategy::Demote as u8 }>(setup, values)
}

/// Builds P-HFA for the registry.
fn build_promote(setup: &Setup, values: &Values) -> BoxedPolicy {
    build_joined::<{ Strategy::Promote as u8 }>(setup, values)
}

/// Builds the halves of a policy, joined. One client's halves decide as one policy for all tiers does, which
/// is faster. Pages that are dirty cannot leave a client's half, so all tiers belong to one policy with
/// `writes` at `back`.
fn build_joined<const STRATEGY: u8>(setup: &Setup, values: &Values) -> BoxedPolicy {
    if setup.clients == Clients::ONE || Settings::new(values).writes_back {
        return Box::new(Hfa::<STRATEGY>::new(setup, values));
    }
    let client = || Client::<STRATEGY>::new(setup, values);
    Box::new(Joined::new(setup, client, Server::<STRATEGY>::new(setup, values)))
}

/// Builds H-HFA for the registry.
fn build_hint(setup: &Setup, values: &Values) -> BoxedPolicy {
    build_joined::<{ Strategy::Hint as u8 }>(setup, values)
}

/// Builds Oracle HFA for the registry, which has checked that the setup has hints.
fn build_oracle(setup: &Setup, values: &Values) -> BoxedPolicy {
    let mut hfa = Hfa::<{ Strategy::Hint as u8 }>::new(setup, values);
    let hints = setup.inputs.hints.as_ref().expect("the registry asks for hints");
    hfa.foretold = hints.by_period();
    hfa.future = Some(Arc::clone(hints));
    Box::new(hfa)
}

/// Return the hints that H-HFA gives on some accesses, for a run of Oracle HFA with these values.
/// Parameters that only H-HFA has are at their defaults, unless the values are its own.
pub fn record_hints(
    setup: &Setup,
    values: &Values,
    accesses: impl IntoIterator<Item = Access>,
) -> HintLog {
    let values = Values::defaults(H_PARAMETERS).with_those_of(values);
    let mut hfa = Hfa::<{ Strategy::Hint as u8 }>::new(setup, &values);
    hfa.log = Some(HintLog::new());
    let mut actions = Actions::new();
    for access in accesses {
        actions.clear();
        hfa.access(access, &mut actions);
    }
    hfa.log.unwrap_or_default()
}

impl<const STRATEGY: u8> Hfa<STRATEGY> {
    const STRATEGY: Strategy = Strategy::of(STRATEGY);

    fn new(setup: &Setup, values: &Values) -> Self {
        Self::of_part(Part::Whole, setup, values)
    }

    /// Create a policy of some tiers. `setup` is of the whole hierarchy, or of a client's tier alone.
    fn of_part(part: Part, setup: &Setup, values: &Values) -> Self {
        let mut settings = Settings::new(values);
        // Pages that leave a client must be clean, because the server may drop them.
        settings.writes_back &= part == Part::Whole;
        let clients = setup.clients;
        let tiers: Vec<(Tier, u32)> =
            (0..).map(Tier).zip(setup.tier_capacities_pages()).filter(|tier| tier.1 > 0).collect();
        let levels = Self::levels(part, setup, &tiers, &settings, values);
        let pages = setup.geometry.pages();
        let is_single = clients == Clients::ONE || part == Part::Server;
        let frames_per_page = if is_single { 1 } else { u32::from(clients.get()) + 1 };
        let here = tiers.iter().filter(|tier| part != Part::Server || !clients.owns(tier.0));
        // A page is brought in before another one leaves.
        let cached: u64 = here.map(|tier| u64::from(tier.1)).sum();
        let copies = pages.saturating_mul(frames_per_page);
        let frames = u32::try_from(cached + 1).map_or(copies, |frames| frames.min(copies));
        let records = levels.iter().map(|level| level.hints.capacity());
        let tracked = records.fold(frames, u32::saturating_add);
        let capacities: Vec<u32> = levels.iter().map(|level| level.capacity_pages).collect();
        let level_count = u32::try_from(levels.len()).expect("a hierarchy has few tiers");
        Self {
            part,
            departed: Vec::new(),
            risen: None,
            pushed: None,
            said: vec![0; clients.get().into()].into_boxed_slice(),
            is_open: false,
            disk: setup.disk(),
            write_miss: setup.write_miss,
            now: 0,
            period: 0,
            period_end: settings.period,
            next_sample: settings.sample_interval,
            clients,
            client: 0,
            cells: Cells::new(setup.ids(), tracked, frames_per_page as usize, levels.len()),
            free: Vec::new(),
            used_frames: 0,
            queues: Queues::new(frames, &capacities, settings.sorts_q2),
            recent: VecDeque::new(),
            resorted: 0,
            ages: (Self::STRATEGY == Strategy::Promote).then(|| Lists::new(frames, level_count)),
            history: (Self::STRATEGY == Strategy::Hint)
                .then(|| History::of_part(part, setup, cached, values)),
            random: SplitMix64::new(match Self::STRATEGY {
                Strategy::Promote => values.integer(crate::random::SEED.name),
                Strategy::Demote | Strategy::Hint => 0,
            }),
            has_promoted: false,
            log: None,
            future: None,
            foretold: Vec::new(),
            expired: Vec::new(),
            levels,
            settings,
        }
    }

    /// Return the frame of a page that the client sees.
    #[inline]
    fn frame_of(&self, page: PageId) -> u32 {
        let frame = self.frame_at(self.client.into(), page);
        if self.clients == Clients::ONE || frame != ABSENT {
            return frame;
        }
        self.frame_at(self.levels.len(), page)
    }

    /// Return the frame of a page in a first level or, whichever it is, in a shared one; of one
    /// client, in any.
    #[inline]
    fn frame_at(&self, level: usize, page: PageId) -> u32 {
        self.cells.frame(level, page)
    }

    /// Return `true` if any client sees a copy of a page.
    fn is_cached(&self, page: PageId) -> bool {
        (0..self.clients.get().into()).any(|top| self.frame_at(top, page) != ABSENT)
            || self.frame_at(self.levels.len(), page) != ABSENT
    }

    /// Note the frame of a page that enters the caches, or that it left them, with one client.
    #[inline]
    fn set_frame_of(&mut self, page: PageId, frame: u32) {
        if self.clients == Clients::ONE {
            self.cells.set_frame(0, page, frame);
        }
    }

    /// Several clients: notes the frame of a page that enters a level, or that it left it.
    #[inline]
    fn set_frame_at(&mut self, level: usize, page: PageId, frame: u32) {
        if self.clients != Clients::ONE {
            self.cells.set_frame(level, page, frame);
        }
    }

    /// Gives up the copies of other clients that a write makes old.
    fn drop_outdated(&mut self, page: PageId, out: &mut impl Sink) {
        for top in 0..usize::from(self.clients.get()) {
            let frame = self.frame_at(top, page);
            if top != usize::from(self.client) && frame != ABSENT {
                self.detach(frame);
                self.discard(top, frame, out);
            }
        }
    }

    /// Process one page reference.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "replays spend their time here")]
    fn step(&mut self, access: Access, out: &mut impl Sink) {
        self.begin(access.client);
        let frame = self.frame_of(access.page);
        if access.op == Op::Write && self.clients != Clients::ONE {
            self.drop_outdated(access.page, out);
        }
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

    /// Checks every invariant; `is_held` says if a client holds a page.
    fn assert_invariants_with(&self, is_held: impl Fn(PageId) -> bool) {
        self.queues.assert_invariants();
        self.cells.assert_invariants();
        if let Some(history) = &self.history {
            history.assert_invariants(|page| self.is_cached(page) || is_held(page));
        }
        let mut cached = 0;
        for (index, level) in self.levels.iter().enumerate() {
            level.hints.assert_invariants(self.cells.newest_hints(index), |page, frame| {
                let place = self.queues.place_of(frame);
                self.frame_at(index, page) == frame && place.is_some_and(|place| place.0 == index)
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
                    assert_eq!(self.frame_at(index, entry.page), frame, "the index points back");
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
        assert_eq!(self.cells.held_frames(), cached, "a cached page is in one queue of one tier");
        assert_eq!(self.used_frames as usize - self.free.len(), cached, "each frame has a page");
    }
}

impl<const STRATEGY: u8> Policy for Hfa<STRATEGY> {
    fn access(&mut self, access: Access, out: &mut Actions) {
        self.step(access, out);
    }

    fn access_all(
        &mut self,
        accesses: &[Access],
        coming: &[Access],
        _actions: &mut Actions,
        counts: &mut Counts,
    ) {
        for_each(self, accesses, coming, |policy, access| policy.step(access, counts));
    }

    fn flush(&mut self, out: &mut Actions) {
        let is_dirty =
            |&(_, frame): &(PageId, u32)| frame != ABSENT && self.queues.frame(frame).is_dirty;
        let mut dirty: Vec<(PageId, u32)> = self.cells.iter().filter(is_dirty).collect();
        dirty.sort_unstable();
        for (page, frame) in dirty {
            self.queues.frame_mut(frame).is_dirty = false;
            out.copy(page, self.tier_of(frame), self.disk);
        }
    }

    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        let flash = Tier(self.clients.get());
        for survivor in survivors {
            if survivor.is_dirty {
                out.copy(survivor.page, flash, self.disk);
            }
            out.drop_copy(survivor.page, flash);
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.cells.prefetch(page);
    }

    #[inline]
    fn prefetch_next(&self, page: PageId) {
        if self.clients == Clients::ONE {
            let frame = self.cells.known_frame(page);
            self.queues.prefetch(frame);
            if let Some(ages) = &self.ages {
                ages.prefetch(frame);
            }
        }
    }

    fn assert_invariants(&self) {
        self.assert_invariants_with(|_| false);
    }

    fn memory_bytes(&self) -> usize {
        self.cells.memory_bytes()
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
        let cached_pages = self.used_frames as usize - self.free.len();
        let histories =
            self.history.as_ref().map_or(0, |history| history.metadata_bytes(cached_pages));
        self.levels.iter().enumerate().map(of_level).sum::<usize>() + histories
    }

    fn gauges(&self, report: &mut dyn FnMut(&'static str, Tier, f64)) {
        for (index, level) in self.levels.iter().enumerate() {
            let is_elsewhere = self.part == Part::Server && self.is_top(index);
            if !is_elsewhere {
                let pages = |queue| f64::from(self.queues.len(index, queue));
                report("q1_pages", level.tier, pages(Queue::Q1));
                report("q2_pages", level.tier, pages(Queue::Q2));
                report("t_out_records", level.tier, f64::from(level.hints.len()));
            }
            if Self::STRATEGY == Strategy::Promote && self.part != Part::Client {
                let of = |level: usize| self.levels[level].promotion.probability();
                match (self.clients, self.is_top(index)) {
                    (Clients::ONE, true) => report("promote_probability", level.tier, 0.0),
                    (_, true) => report("promote_probability", level.tier, of(index)),
                    // A tier below several clients has one for each, told of their first tiers.
                    (_, false) if self.clients != Clients::ONE && self.is_top(index - 1) => {}
                    (_, false) => report("promote_probability", level.tier, of(index - 1)),
                }
            }
        }
    }
}
