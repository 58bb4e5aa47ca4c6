//! ARC in memory, and an L2ARC on flash that is fed ahead of eviction, as in ZFS.
//!
//! No page moves to flash when it is evicted. Instead a feed looks, at intervals, at the pages that
//! ARC would evict next, those seen again before those seen once, and copies clean ones that flash
//! does not hold, a bounded number at a time: what is evicted faster than it is fed is just missing
//! on flash. Flash is a ring that a rotor overwrites, so it is written in sequence. A hit there
//! leaves the copy; a write drops it, so that flash only holds what disk holds too. Memory is
//! write-back. `arc` is the same without flash.
//!
//! This is the feed of 2008 and long after. `feed=2026` is that of `OpenZFS` 2.4.99. There, markers remember
//! how far each list was scanned, if flash is at least twice as large as memory, so that the next feed goes
//! on from there instead of meeting the same pages again. A marker returns to the tail when a quarter of its
//! list was scanned, and all do when an eighth of flash was written. The device is cleared ahead of the hand
//! before it is known how much is written, and from the second round on it is written only so much per day.
//!
//! * Source: ARC: see the module [`arc`](crate::policy::single::arc). L2ARC: Leventhal, *Flash Storage Today*, ACM
//!   Queue 6(4), 2008; `OpenZFS`, the block comment on the level 2 ARC in `arc.c`, and its manual page
//!   `zfs(4)`.
//! * State: 8 bytes per page that exists (4 where memory is saved), 60 bytes per page of memory, 4 per
//!   page of flash (9); if holes are reused, half as much again.
//!   With `feed=2026` 8 per page of flash, and 20 per page of memory for markers.
//! * Cost: O(1) per access; a feed passes at most `headroom` times the pages that it may write, in
//!   each of two lists.
//! * Deviations: (1) ZFS feeds by the clock. A trace may have no times, so here the feed comes after
//!   every `feed_every` accesses unless `feed_ms` is given. A clock that has leapt over several feeds
//!   makes up for them, until one finds nothing to copy. (2) Pages are equal and plain, so there are
//!   no lists for metadata and no `headroom_boost` for compressed buffers. (3) ZFS clears the space
//!   ahead of the rotor before it knows how much it will write; here a slot is overwritten when its
//!   turn comes. (4) A dropped copy leaves a hole that the rotor fills when it gets there, as in ZFS,
//!   unless `reuse_holes`. (5) ZFS takes ARC for warm when memory first runs short; here, when ARC
//!   first evicts a page. (6) The memory that headers of flash pages take is that of a full flash,
//!   from the start, if it is charged at all. With `feed=2026`: (7) A feed stands for a second, also if it
//!   comes after `feed_every` accesses, and a day has as many feeds as seconds. (8) One device. There is one
//!   kind of pages, so `l2arc_meta_cycles` has no use. (9) Dirty pages stay in T1 and T2, and are skipped.

use alloc::borrow::Cow;
use alloc::boxed::Box;

use crate::action::Sink;
use crate::capabilities::{Capabilities, Depth};
use crate::config::{Parameter, Scaling, Values};
use crate::entry::{Build, PolicyEntry};
use crate::policy::for_each;
use crate::policy::single::arc::Arc;
use crate::policy::single::{Outcome, Registered as _, Replacement, Space};
use crate::queue::{PageSet, Ring};
use crate::{
    Access, Actions, BoxedPolicy, Counts, Ids, Nanos, Op, PageId, Policy, Setup, Survivor, Tier,
    WriteMiss,
};

use swept::Swept;

mod swept;

/// The parameters of ARC with an L2ARC.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::choice("feed", &["2008", "2026"], "2008")
        .summary("how flash is fed: from the tails each time, or from markers and within a budget")
        .source("ZFS; OpenZFS 2.4.99"),
    Parameter::integer("feed_every", 1..=1 << 31, 20)
        .summary("accesses between two feeds")
        .source("small caches; ZFS feeds by the clock"),
    Parameter::integer("feed_ms", 0..=1 << 31, 0)
        .summary("milliseconds between two feeds, in place of `feed_every`; 0: by accesses")
        .source("ZFS: 1000, l2arc_feed_secs"),
    Parameter::integer("write_max", 1..=1 << 31, 8)
        .summary("pages that a feed writes at most")
        .source("small caches; ZFS: 8 MiB, l2arc_write_max")
        .scaling(Scaling::PerPeriod("feed_ms")),
    Parameter::integer("write_boost", 0..=1 << 31, 8)
        .summary("pages that a feed writes beyond that while ARC warms up")
        .source("ZFS: as many as l2arc_write_max")
        .scaling(Scaling::PerPeriod("feed_ms")),
    Parameter::integer_or_auto("headroom", 1..=1024)
        .summary(
            "pages that a feed looks at in each list, per page that it may write; auto: 2, and 8 \
             with feed=2026",
        )
        .source("ZFS: l2arc_headroom"),
    Parameter::integer("headroom_boost", 1..=10_000, 200)
        .summary("percent by which feed=2026 multiplies `headroom`")
        .source("OpenZFS: l2arc_headroom_boost, which compressed ARC switches on"),
    Parameter::integer("ext_headroom_pct", 0..=100, 25)
        .summary("percent of its list after which a marker returns to the tail; 0: never")
        .source("OpenZFS 2.4.99: l2arc_ext_headroom_pct"),
    Parameter::integer("marker_reset", 1..=1 << 20, 8)
        .summary("part of flash after whose writing all markers return: 8 is an eighth")
        .source("OpenZFS 2.4.99"),
    Parameter::integer("dwpd_limit", 0..=1_000_000, 100)
        .summary(
            "percent of flash that feed=2026 writes per day, once it has written all of it; 0: no limit",
        )
        .source("OpenZFS 2.4.99: l2arc_dwpd_limit"),
    Parameter::switch("warm_up", true)
        .summary("until ARC first evicts, write more per feed and begin with the hottest pages")
        .source("ZFS"),
    Parameter::switch("reuse_holes", false)
        .summary("write where a copy was dropped before overwriting another")
        .source("ZFS: the rotor fills holes in its turn"),
    Parameter::switch("charge_headers", false)
        .summary("give up as much memory as the headers of a full flash take")
        .source("off, so that memory compares with plain ARC; ZFS keeps them in ARC"),
    Parameter::integer("header_bytes", 0..=1 << 16, 96)
        .summary("bytes of memory per page on flash")
        .source("OpenZFS: about 70 to 100, by version"),
    Parameter::integer("page_bytes", 1..=1 << 31, 4096)
        .summary("bytes of a page, by which headers are charged and bursts of 64 MiB are counted")
        .source("the default page size"),
];

/// Time at which the next feed is due.
#[derive(Clone, Copy, Debug)]
enum Interval {
    Accesses {
        every: u32,
        /// Since the last feed.
        passed: u32,
    },
    Clock {
        every: Nanos,
        /// Time of the next feed; `None` until the clock was read.
        next: Option<Nanos>,
    },
}

/// Pace of the feed.
#[derive(Clone, Copy, Debug)]
struct Feed {
    interval: Interval,
    write_max: u32,
    write_boost: u32,
    headroom: u32,
    /// `true` if ARC has evicted a page, or need not warm up.
    is_warm: bool,
}

/// The pages on flash, by the feed that writes them.
#[derive(Debug)]
enum Device {
    Rotor(L2arc),
    Swept(Box<Swept>),
}

/// The pages on flash, as the feed of 2008 writes them.
#[derive(Clone, Debug)]
struct L2arc {
    /// Slots in the order in which they were written. If holes are reused, it has at most half as
    /// many as there are slots besides, and is squeezed then.
    ring: Ring<()>,
    slots: u32,
    reuse_holes: bool,
}

/// ARC with an L2ARC.
#[derive(Debug)]
pub struct ArcL2arc {
    arc: Arc,
    /// The pages whose copy in memory is newer than the disk's.
    dirty: PageSet,
    device: Device,
    flash_pages: u32,
    feed: Feed,
    header_bytes: u64,
    write_miss: WriteMiss,
    disk: Tier,
}

/// Its row in the registry.
pub const ARC_L2ARC: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("arc-l2arc"),
    summary: "ARC in RAM; a feed copies what it will evict next to a ring on flash, as ZFS does",
    source: "OpenZFS; Leventhal: Flash Storage Today, ACM Queue 6(4), 2008",
    module: module_path!(),
    capabilities: Capabilities { needs_clock: true, ..Capabilities::of(Depth::RamFlash) },
    parameters: PARAMETERS,
    build: Build::Function(build),
};

/// Builds ARC with an L2ARC for the registry.
fn build(setup: &Setup, values: &Values) -> BoxedPolicy {
    let [memory_pages, flash_pages] = [setup.capacity_pages[0], setup.capacity_pages[1]];
    let header_bytes = values.integer("header_bytes");
    let mut arc_pages = memory_pages;
    if values.switch("charge_headers") {
        let charged_bytes = u64::from(flash_pages) * header_bytes;
        let charged_pages = charged_bytes.div_ceil(values.integer("page_bytes"));
        let charged_pages = u32::try_from(charged_pages).unwrap_or(u32::MAX);
        // Deviation (6): the headers of a full flash, or the size of ARC would depend on how far
        // the feed has come.
        arc_pages = memory_pages.saturating_sub(charged_pages).max(1);
    }
    let [every, feed_ms, write_max, write_boost] =
        ["feed_every", "feed_ms", "write_max", "write_boost"].map(|name| values.integer_u32(name));
    let is_swept = values.choice("feed") == "2026";
    let headroom = values.integer_u32_or_auto("headroom").unwrap_or(if is_swept { 8 } else { 2 });
    let interval = match feed_ms {
        0 => Interval::Accesses { every, passed: 0 },
        _ => Interval::Clock { every: Nanos(u64::from(feed_ms) * 1_000_000), next: None },
    };
    let is_warm = !values.switch("warm_up");
    let feed = Feed { interval, write_max, write_boost, headroom, is_warm };
    let ids = setup.ids();
    Box::new(ArcL2arc {
        arc: Arc::new(
            Space {
                ids,
                capacity_pages: arc_pages,
                geometry: &setup.geometry,
                inputs: &setup.inputs,
            },
            values,
        ),
        dirty: PageSet::new(ids, arc_pages),
        device: if is_swept {
            let feed_ms = if feed_ms == 0 { 1000 } else { feed_ms.into() };
            let sizes = [arc_pages, flash_pages];
            Device::Swept(Box::new(Swept::new(ids, sizes, feed_ms, headroom, values)))
        } else {
            Device::Rotor(L2arc::new(ids, flash_pages, values.switch("reuse_holes")))
        },
        flash_pages,
        feed,
        header_bytes,
        write_miss: setup.write_miss,
        disk: setup.disk(),
    })
}

impl ArcL2arc {
    /// Process one page reference.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "replays spend their time here")]
    fn step(&mut self, Access { page, op, .. }: Access, out: &mut impl Sink) {
        let Self { arc, dirty, device, .. } = self;
        let evicted = match arc.refer(page, op) {
            Outcome::Hit => {
                out.serve(page, op, Tier::RAM, Tier::RAM);
                None
            }
            Outcome::Admitted { evicted } => {
                let found = if device.contains(page) { Tier::FLASH } else { self.disk };
                let is_fetched = self.write_miss.fetches(op);
                out.copy_if(found == Tier::FLASH || is_fetched, page, found, Tier::RAM);
                out.serve(page, op, found, Tier::RAM);
                evicted
            }
            Outcome::Refused => unreachable!("ARC takes every page"),
        };
        // Before the feed below, which copies only what the disk holds too.
        dirty.insert_if(page, op == Op::Write);
        // L2ARC never holds dirty data: a write makes its copy old, which is dropped at once.
        if op == Op::Write && device.remove(page) {
            out.drop_copy(page, Tier::FLASH);
        }
        if let Device::Swept(swept) = device {
            swept.referred(page, evicted, arc);
        }
        if let Some(evicted) = evicted {
            out.copy_if(dirty.remove(evicted), evicted, Tier::RAM, self.disk);
            out.drop_copy(evicted, Tier::RAM);
            // Deviation (5): from the first eviction on, a page can be missed on flash.
            self.feed.is_warm = true;
        }
        if let Interval::Accesses { every, passed } = &mut self.feed.interval {
            *passed += 1;
            if passed == every {
                *passed = 0;
                if self.flash_pages > 0 {
                    self.feed(out);
                }
            }
        }
    }

    /// Copies clean pages that flash does not hold, the coldest first, and returns their number.
    fn feed(&mut self, out: &mut impl Sink) -> u32 {
        let Feed { write_max, write_boost, headroom, is_warm, .. } = self.feed;
        // Before ARC evicts for the first time nothing can be missed, so the feed writes faster.
        let boost = if is_warm { 0 } else { write_boost };
        let write_max = write_max.saturating_add(boost);
        let depth = usize::try_from(u64::from(write_max) * u64::from(headroom));
        let depth = depth.unwrap_or(usize::MAX);
        let Self { arc, device, dirty, .. } = self;
        let l2arc = match device {
            Device::Rotor(l2arc) => l2arc,
            Device::Swept(swept) => return swept.feed(arc, dirty, is_warm, out),
        };
        // Only clean pages are fed.
        let is_clean = |&page: &PageId| !dirty.contains(page);
        if is_warm {
            // The feed looks at the pages that ARC will evict soon, T2 before T1. If ARC evicts
            // faster, pages leave without a copy.
            let pages = arc.coldest().into_iter().flat_map(|list| list.take(depth));
            l2arc.copy_some(pages.filter(is_clean), write_max, out)
        } else {
            // Nothing is about to be evicted: the hottest pages are the best to have after a
            // restart.
            let pages = arc.hottest().into_iter().flat_map(|list| list.take(depth));
            l2arc.copy_some(pages.filter(is_clean), write_max, out)
        }
    }
}

impl Device {
    #[inline]
    fn contains(&self, page: PageId) -> bool {
        match self {
            Self::Rotor(l2arc) => l2arc.contains(page),
            Self::Swept(swept) => swept.contains(page),
        }
    }

    /// Gives up a page, and returns `true` if it was there.
    #[inline]
    fn remove(&mut self, page: PageId) -> bool {
        match self {
            Self::Rotor(l2arc) => l2arc.slots > 0 && l2arc.ring.remove(page),
            Self::Swept(swept) => swept.remove(page),
        }
    }

    fn len(&self) -> u32 {
        match self {
            Self::Rotor(l2arc) => l2arc.ring.len(),
            Self::Swept(swept) => swept.len(),
        }
    }

    /// Takes a page over that flash still holds, and returns one that has no room.
    fn restore(&mut self, page: PageId) -> Option<PageId> {
        match self {
            Self::Rotor(l2arc) if l2arc.slots == 0 => Some(page),
            Self::Rotor(l2arc) => l2arc.push(page),
            Self::Swept(swept) => swept.restore(page),
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        match self {
            Self::Rotor(l2arc) if l2arc.slots == 0 => {}
            Self::Rotor(l2arc) => l2arc.ring.prefetch(page),
            Self::Swept(swept) => swept.prefetch(page),
        }
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Self::Rotor(l2arc) => l2arc.ring.memory_bytes(),
            Self::Swept(swept) => swept.memory_bytes(),
        }
    }
}

impl L2arc {
    fn new(ids: Ids, slots: u32, reuse_holes: bool) -> Self {
        // Without flash it is asked for no page.
        let ids = if slots == 0 { Ids { pages: 0, ..ids } } else { ids };
        let slots_of_ring = slots.min(ids.pages);
        let holes = if reuse_holes { slots_of_ring / 2 } else { 0 };
        Self { ring: Ring::new(ids, slots_of_ring.saturating_add(holes)), slots, reuse_holes }
    }

    fn contains(&self, page: PageId) -> bool {
        self.slots > 0 && self.ring.find(page).is_some()
    }

    /// Copy from memory the first `pages_max` pages that are not on flash, and return their number.
    fn copy_some(
        &mut self,
        pages: impl Iterator<Item = PageId>,
        pages_max: u32,
        out: &mut impl Sink,
    ) -> u32 {
        let mut copied = 0;
        for page in pages {
            if copied == pages_max {
                break;
            }
            if !self.contains(page) {
                if let Some(overwritten) = self.push(page) {
                    out.drop_copy(overwritten, Tier::FLASH);
                }
                out.copy(page, Tier::RAM, Tier::FLASH);
                copied += 1;
            }
        }
        copied
    }

    /// Writes a page that is not there, and returns the one that it overwrote.
    fn push(&mut self, page: PageId) -> Option<PageId> {
        let slots = self.slots as usize;
        let mut overwritten = None;
        if let Some(coming) = self.ring.coming() {
            self.ring.prefetch(coming);
        }
        if self.reuse_holes {
            // A variant: holes are used again, so only pages that are there count.
            while self.ring.len() == self.slots {
                overwritten = self.ring.pop();
            }
            if self.ring.slots() == slots + slots / 2 {
                self.ring.squeeze();
            }
        // The rotor sweeps over the device: what it comes to is overwritten, hole or not.
        } else if self.ring.slots() == slots {
            overwritten = self.ring.pop();
        }
        self.ring.push(page, ());
        overwritten.map(|(page, ())| page)
    }

    fn assert_invariants(&self) {
        self.ring.assert_invariants();
        assert!(self.ring.len() <= self.slots, "pages on flash fit it");
        let slots = self.slots as usize;
        let holes_max = if self.reuse_holes { slots / 2 } else { 0 };
        assert!(self.ring.slots() <= slots + holes_max, "holes are overwritten, or squeezed out");
    }
}

impl Policy for ArcL2arc {
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

    fn background(&mut self, now: Nanos, out: &mut Actions) {
        let Interval::Clock { every, next } = &mut self.feed.interval else { return };
        // The first feed comes an interval after the clock is first read: a trace may begin at any
        // time.
        let due = next.get_or_insert(Nanos(now.0.saturating_add(every.0)));
        if now < *due {
            return;
        }
        let feeds = (now.0 - due.0) / every.0 + 1;
        due.0 = due.0.saturating_add(feeds.saturating_mul(every.0));
        // Two lists of `headroom` times what a feed writes: so many feeds copy all that is there.
        for _ in 0..feeds.min(2 * u64::from(self.feed.headroom)) {
            if self.flash_pages == 0 || self.feed(out) == 0 {
                break;
            }
        }
    }

    fn flush(&mut self, out: &mut Actions) {
        for page in self.arc.coldest().into_iter().flatten() {
            if self.dirty.remove(page) {
                out.copy(page, Tier::RAM, self.disk);
            }
        }
    }

    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        for &Survivor { page, is_dirty } in survivors {
            if is_dirty {
                out.copy(page, Tier::FLASH, self.disk);
            }
            if let Some(left) = self.device.restore(page) {
                out.drop_copy(left, Tier::FLASH);
            }
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.arc.prefetch(page);
        self.dirty.prefetch(page);
        self.device.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.arc.assert_invariants();
        match &self.device {
            Device::Rotor(l2arc) => l2arc.assert_invariants(),
            Device::Swept(swept) => swept.assert_invariants(&self.arc),
        }
        for page in self.dirty.iter() {
            assert!(self.arc.contains(page), "a dirty page is in memory");
            assert!(!self.device.contains(page), "pages on flash are clean");
        }
    }

    fn memory_bytes(&self) -> usize {
        self.arc.memory_bytes() + self.dirty.memory_bytes() + self.device.memory_bytes()
    }

    /// Return the ghosts of ARC, and the headers of pages on flash.
    fn metadata_bytes(&self) -> usize {
        let headers_bytes = u64::from(self.device.len()) * self.header_bytes;
        self.arc.metadata_bytes() + usize::try_from(headers_bytes).unwrap_or(usize::MAX)
    }

    fn gauges(&self, report: &mut dyn FnMut(&'static str, Tier, f64)) {
        self.arc.gauges(&mut |name, value| report(name, Tier::RAM, value));
        if self.flash_pages > 0 {
            report("flash_pages", Tier::FLASH, f64::from(self.device.len()));
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use alloc::vec::Vec;

    use super::*;
    use crate::{Action, Geometry, registry};

    fn policy(sizes: [u32; 2], given: &[(&str, &str)]) -> BoxedPolicy {
        let setup = Setup::new(Geometry::linear(64), sizes.to_vec());
        let entry = registry::find("arc-l2arc").unwrap();
        let given: Vec<_> =
            given.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect();
        entry.build(&setup, &entry.values(&given).unwrap()).unwrap()
    }

    /// Return the pages that were copied to flash.
    fn fed(actions: &Actions) -> Vec<u32> {
        let copies = actions.as_slice().iter().filter_map(|action| match action {
            Action::Copy { page, target: Tier::FLASH, .. } => Some(page.0),
            Action::Copy { .. } | Action::Serve { .. } | Action::Drop { .. } => None,
        });
        copies.collect()
    }

    fn fed_at(policy: &mut BoxedPolicy, ms: u64) -> Vec<u32> {
        let mut actions = Actions::new();
        policy.background(Nanos(ms * 1_000_000), &mut actions);
        policy.assert_invariants();
        fed(&actions)
    }

    fn gauge(policy: &BoxedPolicy, wanted: &str) -> f64 {
        let mut found = None;
        policy.gauges(&mut |name, _, value| {
            if name == wanted {
                found = Some(value);
            }
        });
        found.unwrap()
    }

    #[test]
    fn the_clock_feeds_if_it_is_told_to() {
        let given =
            [("feed_ms", "10"), ("feed_every", "1"), ("write_max", "2"), ("warm_up", "false")];
        let mut late = policy([8, 20], &given);
        let mut policy = policy([8, 20], &given);
        assert!(fed_at(&mut policy, 1000).is_empty(), "the first reading starts the clock");
        let mut actions = Actions::new();
        (0..7).for_each(|page| policy.access(Access::read(page), &mut actions));
        assert!(fed(&actions).is_empty(), "accesses feed nothing");
        assert!(fed_at(&mut policy, 1009).is_empty());
        assert_eq!(fed_at(&mut policy, 1010), [0, 1]);
        assert!(fed_at(&mut policy, 1019).is_empty());
        // Two feeds are due, and the headroom is four pages of the list.
        assert_eq!(fed_at(&mut policy, 1030), [2, 3]);
        assert!(fed_at(&mut policy, u64::MAX / 1_000_000).is_empty(), "it has seen them all");
        let share = gauge(&policy, "flash_pages") / gauge(&policy, "recent_pages");
        assert!((share - 4.0 / 7.0).abs() < 1e-9);

        assert!(fed_at(&mut late, 1000).is_empty());
        (0..7).for_each(|page| late.access(Access::read(page), &mut Actions::new()));
        assert_eq!(fed_at(&mut late, 1500), [0, 1, 2, 3], "feeds that were missed are made up for");
    }

    #[test]
    fn headers_take_memory_if_they_are_charged() {
        let charged = [("charge_headers", "true"), ("header_bytes", "100"), ("page_bytes", "1000")];
        for (flash_pages, left) in [(0, 8), (1, 7), (10, 7), (11, 6), (70, 1), (4000, 1)] {
            let mut policy = policy([8, flash_pages], &charged);
            (0..20).for_each(|page| policy.access(Access::read(page), &mut Actions::new()));
            assert!(
                (gauge(&policy, "recent_pages") - f64::from(left)).abs() < 1e-9,
                "{flash_pages}"
            );
        }
    }

    #[test]
    fn ghosts_and_headers_are_metadata() {
        let given = [("feed_every", "1"), ("header_bytes", "50")];
        let mut policy = policy([2, 4], &given);
        for page in [1, 1, 2, 3] {
            policy.access(Access::read(page), &mut Actions::new());
        }
        assert!((gauge(&policy, "recent_ghosts") - 1.0).abs() < 1e-9);
        assert!((gauge(&policy, "flash_pages") - 3.0).abs() < 1e-9);
        assert_eq!(policy.metadata_bytes(), 12 + 3 * 50);
    }

    #[test]
    fn survivors_go_on_in_the_ring_in_their_order() {
        let given = [("feed_every", "1"), ("warm_up", "false")];
        let mut policy = policy([2, 2], &given);
        let survivors = [7, 8, 9].map(|page| Survivor { page: PageId(page), is_dirty: page == 9 });
        let mut actions = Actions::new();
        policy.restore(&survivors, &mut actions);
        let mut expected = Actions::new();
        expected.copy(PageId(9), Tier::FLASH, Tier::DISK);
        expected.drop_copy(PageId(7), Tier::FLASH);
        assert_eq!(actions, expected);
        let mut actions = Actions::new();
        policy.access(Access::read(1), &mut actions);
        assert!(actions.as_slice().contains(&Action::Drop { page: PageId(8), tier: Tier::FLASH }));
        policy.assert_invariants();
    }
}
