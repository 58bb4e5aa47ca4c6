//! Times of the parts of an operation.

use super::super::check::{round_ns, us_to_ns};
use super::super::config::SsdConfig;
use super::{Kind, Operation};

/// Times in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Times {
    pub(super) command: u64,
    pub(super) transfer: u64,
    pub(super) plane_gap: u64,
    pub(super) reads: Vec<u64>,
    pub(super) programs: Vec<u64>,
    /// Of reads and programs in the cache of one bit per cell.
    pub(super) slc: [u64; 2],
    pub(super) erase: u64,
}

impl Times {
    /// Derive the times of operations from a configuration that was checked.
    pub(super) fn new(config: &SsdConfig) -> Self {
        let to_ns = |times: &[f64]| times.iter().map(|&us| us_to_ns(us)).collect();
        Self {
            command: config.command_ns.into(),
            transfer: round_ns(f64::from(config.page_bytes) * config.bus_ns_per_byte),
            plane_gap: config.plane_gap_ns.into(),
            reads: to_ns(&config.read_us),
            programs: to_ns(&config.program_us),
            slc: config.slc_cache.map_or([0; 2], |one| [one.read_us, one.program_us].map(us_to_ns)),
            erase: us_to_ns(config.erase_us),
        }
    }

    /// Return the longest cell time of operations that run together.
    #[inline]
    pub(super) fn of_cells(&self, operations: &[Operation]) -> u64 {
        let of_one = |operation: &Operation| {
            let [slc_read, slc_program] = self.slc;
            let of_level = |times: &[u64], level: u8| times.get(usize::from(level)).copied();
            let read = of_level(&self.reads, operation.levels & 15).unwrap_or(slc_read);
            let program = of_level(&self.programs, operation.levels >> 4).unwrap_or(slc_program);
            match operation.kind {
                Kind::Read => read,
                Kind::Program => program,
                // tR and tPROG in one: the cells are busy with both, and the bus with neither.
                Kind::Copyback => read + program,
                Kind::Erase => self.erase,
            }
        };
        operations.iter().map(of_one).max().unwrap_or(0)
    }
}
