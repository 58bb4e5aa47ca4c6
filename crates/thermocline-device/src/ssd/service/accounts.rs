//! Sums over the operations that wait or run, for checks.

use super::{BUFFERED, Phase, Service, Stage};

impl Service {
    /// Counts `owed` down for each operation that a request in service owns.
    pub(crate) fn settle(&self, owed: &mut [u32]) {
        for unit in &self.units {
            let suspended = unit.suspended.iter().flat_map(|suspended| suspended.stages());
            let running = unit.stages.iter().chain(suspended);
            let running = running.filter(|stage| stage.phase != Phase::Empty);
            let running = running.flat_map(Stage::operations);
            let queued = unit.queues.iter().flatten().map(|entry| &entry.1);
            for operation in running.chain(queued).chain(&unit.reads) {
                if operation.owner < BUFFERED {
                    owed[operation.owner as usize] -= 1;
                }
            }
        }
    }

    /// Return the number of the host's pages that the buffer holds.
    pub(crate) fn buffered_pages(&self) -> u32 {
        let pages = self.buffered.iter().flat_map(|buffered| {
            let waiting = buffered.programs.iter().map(|program| program.1);
            waiting.chain(buffered.gathered)
        });
        pages.map(u32::from).sum::<u32>() + self.programmed
    }
}
