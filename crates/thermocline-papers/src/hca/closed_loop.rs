//! Readers that wait for each I/O before the next, on a hierarchy whose devices serve one at a time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use thermocline_core::random::SplitMix64;
use thermocline_core::{Access, Action, Actions, BoxedPolicy, Nanos, Op, PageId, Tier};

use super::Writes;

/// What happened in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Page accesses by the tier that each was found in, the disk last.
    pub(super) hits: [u64; 3],
    /// Page accesses that a reader waited for.
    pub(super) reads: u64,
    /// How long they waited, all together.
    pub(super) waited_ns: u64,
    /// Page accesses to SSD and disk that a page was found in.
    pub(super) storage: u64,
}

/// A hierarchy that knows what time it is.
#[derive(Debug)]
pub(super) struct Machine {
    policy: BoxedPolicy,
    needs_clock: bool,
    actions: Actions,
    /// What one I/O takes at each tier, RAM first.
    service: Vec<Nanos>,
    /// When each device has done all that it was given; that of RAM is never waited for.
    free_at: Vec<Nanos>,
}

/// What is accessed.
#[derive(Clone, Debug)]
pub(super) struct Load {
    /// Threads that read.
    pub(super) readers: u32,
    /// What is written besides.
    pub(super) writes: Option<Writes>,
    /// Pages of the working set, the log's last.
    pub(super) pages: u32,
    /// The seed of all accesses.
    pub(super) seed: u64,
}

impl Machine {
    /// With one I/O taking so long at each tier, RAM first.
    pub(super) fn new(policy: BoxedPolicy, needs_clock: bool, service: Vec<Nanos>) -> Self {
        let free_at = vec![Nanos(0); service.len()];
        Self { policy, needs_clock, actions: Actions::new(), service, free_at }
    }

    /// Runs a load for so long, and tells of every interval.
    pub(super) fn run(mut self, load: &Load, duration: Nanos, interval: Nanos) -> Vec<Tally> {
        let intervals = duration.0.div_ceil(interval.0);
        let mut tallies = vec![Tally::default(); usize::try_from(intervals).unwrap_or(usize::MAX)];
        let mut random = SplitMix64::new(load.seed);
        let log_share = load.writes.map_or(0.0, |writes| writes.log_share);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of the pages is a number of pages"
        )]
        let data_pages = (f64::from(load.pages) * (1.0 - log_share)) as u32;
        let mut idle: BinaryHeap<Reverse<(Nanos, u32)>> =
            (0..load.readers).map(|reader| Reverse((Nanos(0), reader))).collect();
        let mut reads = 0_u64;
        while let Some(Reverse((now, reader))) = idle.pop() {
            let Some(tally) = usize::try_from(now.0 / interval.0)
                .ok()
                .filter(|_| now < duration)
                .and_then(|at| tallies.get_mut(at))
            else {
                break;
            };
            let access = Access { page: below(&mut random, data_pages), op: Op::Read, client: 0 };
            let answered = self.access(now, access, tally);
            tally.reads += 1;
            tally.waited_ns += answered.0 - now.0;
            idle.push(Reverse((answered, reader)));
            reads += 1;
            let Some(writes) = load.writes else { continue };
            if reads.is_multiple_of(writes.reads_per_batch) {
                for _ in 0..writes.pages_per_batch {
                    let page = below(&mut random, data_pages);
                    self.access(now, Access { page, op: Op::Write, client: 0 }, tally);
                }
            }
            if reads.is_multiple_of(writes.reads_per_log_write) {
                let count = writes.pages_per_log_write;
                let place = below(&mut random, ((load.pages - data_pages) / count).max(1));
                for page in (0..count).map(|page| data_pages + place.0 * count + page) {
                    let page = PageId(page.min(load.pages - 1));
                    self.access(now, Access { page, op: Op::Write, client: 0 }, tally);
                }
            }
        }
        tallies
    }

    /// One page access; says when it is answered.
    fn access(&mut self, now: Nanos, access: Access, tally: &mut Tally) -> Nanos {
        let mut actions = std::mem::take(&mut self.actions);
        if self.needs_clock {
            actions.clear();
            self.policy.background(now, &mut actions);
            for &action in actions.as_slice() {
                self.perform(action, now);
            }
        }
        actions.clear();
        self.policy.access(access, &mut actions);
        let mut answered = now;
        let mut is_answered = false;
        for &action in actions.as_slice() {
            if is_answered {
                self.perform(action, now);
                continue;
            }
            answered = self.perform(action, answered);
            if let Action::Serve { found, .. } = action {
                is_answered = true;
                let disk = self.service.len() - 1;
                tally.hits[if found.index() == disk { 2 } else { found.index() }] += 1;
                tally.storage += u64::from(found != Tier::RAM);
            }
        }
        self.actions = actions;
        answered
    }

    /// Lets the devices do what an action asks, not before `at`; says when it is done.
    fn perform(&mut self, action: Action, at: Nanos) -> Nanos {
        match action {
            Action::Serve { tier, .. } => self.serve(tier, at),
            Action::Copy { source, target, .. } => {
                let read = if source == Tier::RAM { at } else { self.serve(source, at) };
                if target == Tier::RAM { read } else { self.serve(target, read) }
            }
            Action::Drop { .. } => at,
        }
    }

    /// One I/O at a tier.
    fn serve(&mut self, tier: Tier, at: Nanos) -> Nanos {
        let service = self.service[tier.index()];
        let start = if tier == Tier::RAM { at } else { at.max(self.free_at[tier.index()]) };
        let done = Nanos(start.0 + service.0);
        self.free_at[tier.index()] = done;
        done
    }
}

/// A page below that one, all alike: the upper half of the product with 32 random bits.
fn below(random: &mut SplitMix64, pages: u32) -> PageId {
    let page = (((random.bits() >> 32) * u64::from(pages)) >> 32) as u32;
    PageId(page)
}

#[cfg(test)]
mod tests {
    use thermocline_core::{Geometry, PageCost, Setup, registry};

    use super::*;

    const SERVICE_NS: [u64; 3] = [10, 100, 1_000];

    fn machine(policy: &str, capacity_pages: &[u32], pages: u32) -> Machine {
        let entry = registry::find(policy).unwrap();
        let setup = Setup {
            costs: vec![PageCost { read_ms: 1.0, write_ms: 1.0 }; capacity_pages.len() + 1],
            ..Setup::new(Geometry::linear(pages), capacity_pages.to_vec())
        };
        let policy = entry.build(&setup, &entry.values(&[]).unwrap()).unwrap();
        let service = if capacity_pages.len() == 1 {
            vec![Nanos(SERVICE_NS[0]), Nanos(SERVICE_NS[2])]
        } else {
            SERVICE_NS.map(Nanos).to_vec()
        };
        Machine::new(policy, entry.capabilities.needs_clock, service)
    }

    fn load(readers: u32, pages: u32) -> Load {
        Load { readers, writes: None, pages, seed: 1 }
    }

    #[test]
    fn one_reader_waits_for_each_io() {
        // Every page fits RAM: after the first pass only RAM answers, at 10 ns.
        let tallies = machine("lru", &[8], 8).run(&load(1, 8), Nanos(100_000), Nanos(50_000));
        let [first, last] = tallies[..] else { panic!("two intervals") };
        assert_eq!(first.hits[2], 8);
        assert_eq!(
            last,
            Tally { hits: [5_000, 0, 0], reads: 5_000, waited_ns: 50_000, storage: 0 }
        );
        // The disk fetches a page in 1,000 ns, then RAM answers in 10.
        let busy = first.hits[2] * 1_010 + first.hits[0] * 10;
        assert!(busy.abs_diff(50_000) < 1_010, "{busy}");
    }

    #[test]
    fn many_readers_queue_at_the_disk() {
        // A RAM of one page out of many: nearly every read takes the disk, one after the other.
        let few =
            machine("lru", &[1], 4_000).run(&load(1, 4_000), Nanos(1_000_000), Nanos(1_000_000));
        let many =
            machine("lru", &[1], 4_000).run(&load(10, 4_000), Nanos(1_000_000), Nanos(1_000_000));
        assert!(few[0].reads.abs_diff(990) <= 2, "{}", few[0].reads);
        // Ten readers keep the disk busy, but no more; the last ten answers come too late.
        assert!(many[0].hits[2].abs_diff(1_000) <= 11, "{:?}", many[0]);
        let wait = many[0].waited_ns / many[0].reads;
        assert!(wait.abs_diff(10_000) < 200, "{wait}");
    }

    #[test]
    fn writes_come_after_so_many_reads() {
        let writes = Writes {
            reads_per_batch: 10,
            pages_per_batch: 3,
            reads_per_log_write: 50,
            pages_per_log_write: 4,
            log_share: 0.5,
        };
        let load = Load { writes: Some(writes), ..load(1, 64) };
        let tallies = machine("lru", &[64], 64).run(&load, Nanos(100_000), Nanos(100_000));
        let Tally { reads, hits, .. } = tallies[0];
        let writes = reads / 10 * 3 + reads / 50 * 4;
        assert_eq!(hits.iter().sum::<u64>(), reads + writes);
        // Only half of the pages are read and written at random; the log is the other half.
        assert_eq!(hits[2], 64);
    }
}
