//! Busy times of units and buses.

use super::{Channel, Service};

impl Service {
    pub(crate) fn reset_metrics(&mut self, now_ns: u64) {
        self.since_ns = now_ns;
        for unit in &mut self.units {
            unit.busy_ns = 0;
            unit.busy_since_ns = unit.busy_since_ns.map(|_| now_ns);
        }
        self.channels.iter_mut().for_each(|channel| channel.busy_ns = 0);
    }

    /// Return the time for which the metrics were collected.
    pub(crate) const fn elapsed_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.since_ns)
    }

    /// Return the busy time of each unit.
    fn busy_of_units(&self, now_ns: u64) -> impl Iterator<Item = u64> {
        self.units.iter().map(move |unit| {
            unit.busy_ns + unit.busy_since_ns.map_or(0, |since_ns| now_ns.saturating_sub(since_ns))
        })
    }

    /// Return the sum over all units.
    pub(crate) fn busy_ns(&self, now_ns: u64) -> u64 {
        self.busy_of_units(now_ns).sum()
    }

    /// Per chip the sum over its units.
    pub(crate) fn chip_busy_ns(&self, now_ns: u64) -> Vec<u64> {
        let units: Vec<u64> = self.busy_of_units(now_ns).collect();
        units.chunks(self.units_per_chip as usize).map(|chip| chip.iter().sum()).collect()
    }

    /// Return the share of the time for which each bus was taken.
    pub(crate) fn channel_utilisation(&self, now_ns: u64) -> Vec<f64> {
        let elapsed_ns = self.elapsed_ns(now_ns).max(1) as f64;
        let share = |channel: &Channel| (channel.busy_ns as f64 / elapsed_ns).min(1.0);
        self.channels.iter().map(share).collect()
    }
}
