//! The time that writes take until they are answered, by the cost model.

use thermocline_core::{Action, Actions, Op, PageCost};

use super::PARTS;
use super::sampled::STEADY;

/// The time of writes, for each part of the time.
#[derive(Clone, Debug)]
pub(super) struct WriteTimes {
    /// Cost of each tier, the disk last.
    costs: Vec<PageCost>,
    parts: [Part; PARTS],
    /// The shortest time of a write.
    pub(super) least_ms: f64,
    /// The longest.
    pub(super) most_ms: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Part {
    writes: u64,
    ms: f64,
}

impl WriteTimes {
    /// Create an empty tally, in a hierarchy with these costs.
    pub(super) fn new(costs: Vec<PageCost>) -> Self {
        let parts = [Part::default(); PARTS];
        Self { costs, parts, least_ms: f64::INFINITY, most_ms: 0.0 }
    }

    /// Return the mean time of a write in each of the parts from which a forecast is made, as far as they
    /// have writes.
    pub(super) fn means_ms(&self) -> Vec<f64> {
        let written = self.parts[STEADY].iter().filter(|part| part.writes > 0);
        written.map(|part| part.ms / part.writes as f64).collect()
    }

    /// Return the time until an access is answered. Moves up to the `Serve` are done one after the
    /// other; a tier that passes a write on starts all its copies at once.
    fn until_answered_ms(&self, actions: &Actions) -> f64 {
        let (mut ms, mut passed_on_ms, mut is_served) = (0.0, 0.0_f64, false);
        for action in &actions.as_slice()[..actions.until_answered()] {
            let move_ms = move_ms(&self.costs, *action);
            if is_served {
                passed_on_ms = passed_on_ms.max(move_ms);
            } else {
                ms += move_ms;
            }
            is_served |= matches!(action, Action::Serve { .. });
        }
        ms + passed_on_ms
    }

    /// Notes an access of a part of the time.
    pub(super) fn note(&mut self, op: Op, part: usize, actions: &Actions) {
        if op != Op::Write {
            return;
        }
        let ms = self.until_answered_ms(actions);
        (self.least_ms, self.most_ms) = (self.least_ms.min(ms), self.most_ms.max(ms));
        let part = &mut self.parts[part];
        part.writes += 1;
        part.ms += ms;
    }
}

/// Return the time of one move, charged as the device time is. `costs` are those of each tier, the disk
/// last.
pub(super) fn move_ms(costs: &[PageCost], action: Action) -> f64 {
    match action {
        Action::Serve { op: Op::Read, tier, .. } => costs[tier.index()].read_ms,
        Action::Serve { op: Op::Write, tier, .. } => costs[tier.index()].write_ms,
        Action::Copy { source, target, .. } => {
            let read_ms = if source == target { 0.0 } else { costs[source.index()].read_ms };
            read_ms + costs[target.index()].write_ms
        }
        Action::Drop { .. } => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use thermocline_core::{PageId, Tier};

    use super::*;

    #[test]
    fn a_write_takes_what_must_be_done_before_its_answer() {
        let cost = |read_ms, write_ms| PageCost { read_ms, write_ms };
        let times = WriteTimes::new(vec![cost(0.0, 0.0), cost(0.1, 0.2), cost(10.0, 12.0)]);
        let page = PageId(1);
        let serve = |tier| Action::Serve { page, op: Op::Write, found: Tier::DISK, tier };
        let copy = |source, target| Action::Copy { page, source, target };
        let drop = Action::Drop { page, tier: Tier::RAM };
        let [fetch, to_flash, to_disk] = [
            copy(Tier::DISK, Tier::RAM),
            copy(Tier::RAM, Tier::FLASH),
            copy(Tier::RAM, Tier::DISK),
        ];
        for (moves, ms) in [
            (&[serve(Tier::FLASH), copy(Tier::FLASH, Tier::DISK)][..], 0.2),
            (&[serve(Tier::DISK)], 12.0),
            (&[serve(Tier::RAM), to_flash, to_disk, drop], 12.0),
            (&[fetch, serve(Tier::RAM)], 10.0),
            (&[copy(Tier::FLASH, Tier::FLASH), serve(Tier::RAM)], 0.2),
        ] {
            let mut actions = Actions::new();
            for action in moves {
                match *action {
                    Action::Serve { page, op, found, tier } => actions.serve(page, op, found, tier),
                    Action::Copy { page, source, target } => actions.copy(page, source, target),
                    Action::Drop { page, tier } => actions.drop_copy(page, tier),
                }
            }
            assert!((times.until_answered_ms(&actions) - ms).abs() < 1e-12, "{moves:?}");
        }
    }
}
