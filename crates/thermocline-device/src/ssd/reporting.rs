//! Metrics of a drive, and the memory of its model.

use super::metrics::Recorder;
use super::slc::Slc;
use super::{BlockErases, Ssd, SsdMetrics};

impl Ssd {
    /// Reset the counters. Erases per block and retired blocks stay, as wear does.
    pub fn reset_metrics(&mut self) {
        self.host_writes_before += self.recorder.host_writes;
        self.recorder = Recorder::new(self.nand.erases);
        self.ftl.reset_tally();
        if let Some(slc) = &mut self.slc {
            slc.reset_counts();
        }
        self.service.reset_metrics(self.now_ns);
    }

    /// Return the sum of the times in which the drive's parts worked.
    pub(crate) fn busy_ns(&self) -> u64 {
        self.service.busy_ns(self.now_ns)
    }

    /// Operations so far.
    pub fn metrics(&self) -> SsdMetrics {
        let tally = self.ftl.tally();
        let programs = tally.host_programs + tally.gc_copies + tally.wear_copies;
        let host_writes = self.recorder.host_writes;
        // The flash counts reclaim units, of which each block bears the same.
        let unit_blocks = self.config.unit_blocks();
        SsdMetrics {
            host_reads: self.recorder.host_reads,
            unmapped_reads: self.recorder.unmapped_reads,
            host_writes,
            host_trims: self.recorder.host_trims,
            host_flushes: self.recorder.host_flushes,
            unit_reads: self.recorder.unit_reads,
            slc_programs: self.slc.as_ref().map_or(0, |slc| slc.programs),
            slc_erases: self.slc.as_ref().map_or(0, |slc| slc.erases),
            host_programs: tally.host_programs,
            gc_copies: tally.gc_copies,
            wear_copies: tally.wear_copies,
            switch_merges: tally.switch_merges,
            partial_merges: tally.partial_merges,
            full_merges: tally.full_merges,
            erase_count: (self.nand.erases - self.recorder.erases_before) * u64::from(unit_blocks),
            block_erases: BlockErases::of(&self.nand),
            retired_blocks: self.nand.retired * unit_blocks,
            write_amplification: match host_writes {
                0 => 1.0,
                _ => programs as f64 / host_writes as f64,
            },
            read_response_us: self.recorder.read_response_us(),
            write_response_us: self.recorder.write_response_us(),
            flush_response_us: self.recorder.flush_response_us(),
            elapsed_ns: self.service.elapsed_ns(self.now_ns),
            channel_utilisation: self.service.channel_utilisation(self.now_ns),
            chip_busy_ns: self.service.chip_busy_ns(self.now_ns),
            blocks: self.nand.blocks.len() as u64 * u64::from(unit_blocks),
            erase_limit: self.config.erase_limit,
            page_bytes: self.config.page_bytes,
        }
    }

    /// Memory that grows with the drive, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let cache = self.slc.as_ref().map_or(0, Slc::memory_bytes);
        self.nand.memory_bytes() + self.ftl.memory_bytes() + cache
    }
}
