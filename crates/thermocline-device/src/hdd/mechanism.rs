//! The arm and the platters: one job at a time, and reading ahead between jobs.
//!
//! * Source: Ruemmler and Wilkes, *An introduction to disk drive modeling*, IEEE Computer 27(3),
//!   1994.
//! * State: about 200 bytes and the zones.
//! * Cost: O(log zones) per job.
//! * Deviations: (1) a seek that began is finished before the next begins, as arms are not
//!   redirected on the way.

use super::config::HddConfig;
use super::error::HddError;
use super::layout::{Extent, Layout, Track};
use super::queue::Position;
use super::seek::SeekCurve;
use super::units::ms_to_ns;
use crate::request::Ticket;

/// The moving parts.
#[derive(Clone, Debug)]
pub(crate) struct Mechanism {
    layout: Layout,
    seek: SeekCurve,
    write_settle_ns: u64,
    read_ahead_sectors: u64,
    segment_sectors: u64,
    track: Track,
    /// The sector after the last one that passed.
    sector: u64,
    state: State,
    /// Extent to read once there is nothing else to do.
    plan: Option<Extent>,
}

/// Purpose of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// A request of the host.
    Serve(Ticket),
    /// An extent of the write buffer.
    Clean,
    /// The end of a read-ahead that could not be stopped at once.
    Settle,
}

/// Direction of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Motion {
    Read,
    Write,
}

/// Time of a job, by its parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "names end with their units")]
pub(crate) struct Cost {
    /// Moving the arm or switching heads, and settling.
    pub(crate) seek_ns: u64,
    /// Waiting for the first sector.
    pub(crate) rotation_ns: u64,
    /// Time from the first sector to the last, with the switches between.
    pub(crate) transfer_ns: u64,
}

/// Sectors that were read ahead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    pub(crate) extent: Extent,
    pub(crate) spent_ns: u64,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Idle,
    Busy(Job),
    ReadingAhead(ReadAhead),
}

#[derive(Clone, Copy, Debug)]
struct ReadAhead {
    /// Extent that is read, if nobody interrupts.
    extent: Extent,
    started_ns: u64,
    /// Time at which the arm has arrived.
    arrived_ns: u64,
    /// Time at which the first sector begins to pass.
    begins_ns: u64,
    /// The end of what is promised to the host.
    promised: u64,
}

impl Cost {
    pub(crate) const fn total_ns(self) -> u64 {
        self.seek_ns + self.rotation_ns + self.transfer_ns
    }
}

impl Mechanism {
    /// Return the mechanism of a configuration that was checked.
    pub(crate) fn new(config: &HddConfig) -> Result<Self, HddError> {
        let seek = config.fit_seek_curve()?;
        Ok(Self {
            // The skew is this very time, or the next cylinder would come a turn late.
            layout: Layout::new(config, seek.seek_ns(1)),
            seek,
            write_settle_ns: ms_to_ns(config.write_settle_ms),
            read_ahead_sectors: config.read_ahead_bytes / u64::from(config.sector_bytes),
            segment_sectors: config.segment_sectors(),
            track: Track::default(),
            sector: 0,
            state: State::Idle,
            plan: None,
        })
    }

    /// Starts a job at `now_ns`; the mechanism must be idle.
    pub(crate) fn start(&mut self, job: Job, extent: Extent, motion: Motion, now_ns: u64) -> Cost {
        assert!(matches!(self.state, State::Idle), "one job at a time");
        let mut seek_ns = self.reach_ns(self.layout.track(extent.start));
        if motion == Motion::Write && seek_ns > 0 {
            // A write must be exactly on its track before the first bit; a read may begin earlier
            // and try again.
            seek_ns += self.write_settle_ns;
        }
        let cost = Cost {
            seek_ns,
            // From the moment of arrival: the platter has turned on during the seek.
            rotation_ns: self.layout.rotation_ns(extent.start, now_ns + seek_ns),
            transfer_ns: self.layout.transfer_ns(extent),
        };
        self.stand_after(extent.end);
        // The arm has left: a plan to read on from the old place would cost a seek back.
        self.plan = None;
        self.state = State::Busy(job);
        cost
    }

    /// Ends the job.
    pub(crate) fn finish(&mut self) -> Job {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Busy(job) => job,
            State::Idle | State::ReadingAhead(_) => unreachable!("only a job finishes"),
        }
    }

    /// Plans to read on from `start`, where a segment ends of which the host took everything before
    /// `consumed`. The read-ahead under way, if it is that segment's, goes on accordingly. A new one
    /// elsewhere waits until half of the distance is used up, so that it is worth the movement.
    pub(crate) fn plan_read_ahead(&mut self, start: u64, consumed: u64) {
        let end = (consumed + self.read_ahead_sectors).min(self.layout.sectors());
        match &mut self.state {
            State::ReadingAhead(ahead) if ahead.extent.start == start => {
                ahead.extent.end = ahead.extent.end.max(end);
            }
            State::ReadingAhead(_) => {}
            State::Idle | State::Busy(_) => {
                let is_worth =
                    self.sector == start || start - consumed <= self.read_ahead_sectors / 2;
                if start < end && is_worth {
                    self.plan = Some(Extent { start, end });
                }
            }
        }
    }

    /// Reads ahead as planned, if it is idle.
    pub(crate) fn start_read_ahead(&mut self, now_ns: u64) {
        let (State::Idle, Some(extent)) = (self.state, self.plan.take()) else { return };
        let arrived_ns = now_ns + self.reach_ns(self.layout.track(extent.start));
        let begins_ns = arrived_ns + self.layout.rotation_ns(extent.start, arrived_ns);
        self.track = self.layout.track(extent.start);
        self.sector = extent.start;
        self.state = State::ReadingAhead(ReadAhead {
            extent,
            started_ns: now_ns,
            arrived_ns,
            begins_ns,
            promised: extent.start,
        });
    }

    /// Return the time at which the read-ahead has passed all of `wanted`, if it has passed it or comes to it
    /// next, and have the read-ahead continue accordingly.
    pub(crate) fn promise(&mut self, wanted: Extent) -> Option<u64> {
        let State::ReadingAhead(ahead) = &mut self.state else { return None };
        // Sectors more than a segment behind the end are overwritten when the end is reached.
        let kept = ahead.extent.start.max(ahead.extent.end.saturating_sub(self.segment_sectors));
        if wanted.start < kept || wanted.start > ahead.extent.end {
            return None;
        }
        ahead.promised = ahead.promised.max(wanted.end);
        let end = (wanted.end + self.read_ahead_sectors).min(self.layout.sectors());
        ahead.extent.end = ahead.extent.end.max(end);
        let passes = Extent { end: wanted.end, ..ahead.extent };
        Some(ahead.begins_ns + self.layout.transfer_ns(passes))
    }

    /// Ends a read-ahead that is complete at `now_ns`.
    pub(crate) fn settle_read_ahead(&mut self, now_ns: u64) -> Option<Ahead> {
        let State::ReadingAhead(ahead) = self.state else { return None };
        let complete_ns = ahead.begins_ns + self.layout.transfer_ns(ahead.extent);
        if complete_ns > now_ns {
            return None;
        }
        self.stand_after(ahead.extent.end);
        self.state = State::Idle;
        Some(Ahead { extent: ahead.extent, spent_ns: complete_ns - ahead.started_ns })
    }

    /// Interrupts a read-ahead at `now_ns`, or as soon as what was promised has passed and the arm
    /// stands still. If that is later, the mechanism is busy until then.
    pub(crate) fn stop_read_ahead(&mut self, now_ns: u64) -> Option<(Ahead, u64)> {
        if let Some(ahead) = self.settle_read_ahead(now_ns) {
            return Some((ahead, now_ns));
        }
        let State::ReadingAhead(ahead) = self.state else { return None };
        let ReadAhead { extent, promised, begins_ns, arrived_ns, started_ns } = ahead;
        let mut free_ns = now_ns.max(arrived_ns);
        if promised > extent.start {
            let promise = Extent { end: promised, ..extent };
            free_ns = free_ns.max(begins_ns + self.layout.transfer_ns(promise));
        }
        let end = self.layout.reached(extent, free_ns.saturating_sub(begins_ns));
        if end > extent.start {
            self.stand_after(end);
        }
        self.state = if free_ns > now_ns { State::Busy(Job::Settle) } else { State::Idle };
        Some((Ahead { extent: Extent { end, ..extent }, spent_ns: free_ns - started_ns }, free_ns))
    }

    pub(crate) const fn is_busy(&self) -> bool {
        matches!(self.state, State::Busy(_))
    }

    /// Return the request that the job serves.
    pub(crate) const fn ticket(&self) -> Option<Ticket> {
        match self.state {
            State::Busy(Job::Serve(ticket)) => Some(ticket),
            State::Idle | State::Busy(Job::Clean | Job::Settle) | State::ReadingAhead(_) => None,
        }
    }

    /// Return the position of the head.
    pub(crate) const fn position(&self) -> Position {
        Position { cylinder: self.track.cylinder, sector: self.sector }
    }

    /// Return the cylinder of a sector.
    pub(crate) fn cylinder(&self, sector: u64) -> u64 {
        self.layout.track(sector).cylinder
    }

    /// Return the time that the arm takes to `track`; a switch of heads happens on the way.
    fn reach_ns(&self, track: Track) -> u64 {
        match track.cylinder.abs_diff(self.track.cylinder) {
            0 if track.head == self.track.head => 0,
            0 => self.layout.head_switch_ns(),
            // Heads are switched while the arm moves, so the longer of the two counts.
            distance => self.seek.seek_ns(distance).max(self.layout.head_switch_ns()),
        }
    }

    fn stand_after(&mut self, end: u64) {
        self.track = self.layout.track(end - 1);
        self.sector = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Over cylinder 0 at time 0, with a read-ahead of 512 sectors and segments of 768.
    fn mechanism() -> Mechanism {
        Mechanism::new(&HddConfig::preset("st380011a").unwrap()).unwrap()
    }

    #[test]
    fn a_seek_that_began_ends_before_the_next_job() {
        let (mut mechanism, far) = (mechanism(), 100_000_000);
        mechanism.plan_read_ahead(far, far);
        mechanism.start_read_ahead(0);
        let (ahead, free_ns) = mechanism.stop_read_ahead(1).unwrap();
        assert!((8_000_000..15_300_000).contains(&free_ns), "{free_ns}");
        assert_eq!((ahead.extent.sectors(), ahead.spent_ns), (0, free_ns));
        assert!(mechanism.is_busy() && mechanism.finish() == Job::Settle);
        assert_eq!(mechanism.position().sector, far);
        assert!(mechanism.stop_read_ahead(free_ns).is_none(), "there is nothing to stop");
    }

    #[test]
    fn read_ahead_promises_only_what_the_segment_will_hold() {
        let mut mechanism = mechanism();
        mechanism.plan_read_ahead(0, 0);
        mechanism.start_read_ahead(0);
        let mut promise = |start, end| mechanism.promise(Extent { start, end });
        assert!(promise(0, 8).is_some() && promise(520, 528).is_some());
        assert_eq!(promise(1041, 1049), None, "that lies beyond its end");
        assert_eq!(promise(264, 272), None, "that is overwritten when it ends");
        assert!(promise(272, 280) < promise(280, 288));
    }

    #[test]
    fn a_stream_that_moves_on_moves_the_end_of_its_read_ahead() {
        let mut mechanism = mechanism();
        mechanism.plan_read_ahead(1000, 1000);
        mechanism.start_read_ahead(0);
        mechanism.plan_read_ahead(1000, 1100);
        mechanism.plan_read_ahead(5000, 5000);
        let ahead = mechanism.settle_read_ahead(1_000_000_000).unwrap();
        assert_eq!(ahead.extent, Extent { start: 1000, end: 1612 });
        // Near by, little room is worth a turn; far away it is not worth a seek.
        mechanism.plan_read_ahead(1612, 1200);
        assert!(mechanism.plan.take().is_some());
        mechanism.plan_read_ahead(9612, 9200);
        assert!(mechanism.plan.is_none());
    }
}
