//! Location of pages: channels, chips, dies and planes, and the order of striping.
//!
//! Planes are numbered channel by channel, chip by chip, die by die. Blocks are numbered plane by
//! plane, and pages block by block, over the whole drive. With reclaim units of several blocks, a unit
//! counts as one block here, and in the map and the flash.
//!
//! * Source: Hu et al., *Performance impact and interplay of SSD parallelism through advanced
//!   commands, allocation strategy and data granularity*, ICS '11; the 24 orders of MQSim.
//! * State: 4 bytes per plane.
//! * Cost: O(1).
//! * Deviations: (1) every channel has equally many chips.

use super::config::SsdConfig;

/// No block, page or owner.
pub(crate) const NONE: u32 = u32::MAX;

/// The parts of a drive.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    pub(crate) channels: u32,
    pub(crate) planes: u32,
    pub(crate) blocks_per_plane: u32,
    pub(crate) pages_per_block: u32,
    /// Planes that share a cell array's busy time: those of a die, or of a chip if its dies do not
    /// interleave.
    pub(crate) planes_per_unit: u32,
    pub(crate) planes_per_die: u32,
    pub(crate) units_per_channel: u32,
    pub(crate) units_per_chip: u32,
    /// The planes in the order in which consecutive pages take them.
    pub(crate) order: Vec<u32>,
}

impl Geometry {
    /// Create the geometry of a configuration that was checked.
    pub(crate) fn new(config: &SsdConfig) -> Self {
        let dies = config.chips_per_channel * config.dies_per_chip;
        let (units_per_channel, planes_per_unit) = if config.interleave {
            (dies, config.planes_per_die)
        } else {
            (config.chips_per_channel, config.dies_per_chip * config.planes_per_die)
        };
        Self {
            channels: config.channels,
            planes: config.planes(),
            blocks_per_plane: config.units_per_plane(),
            pages_per_block: config.pages_per_unit(),
            planes_per_unit,
            planes_per_die: config.planes_per_die,
            units_per_channel,
            units_per_chip: units_per_channel / config.chips_per_channel,
            order: striping(config),
        }
    }

    pub(crate) const fn units(&self) -> u32 {
        self.channels * self.units_per_channel
    }

    pub(crate) const fn blocks(&self) -> u32 {
        self.planes * self.blocks_per_plane
    }

    pub(crate) const fn plane_of_block(&self, block: u32) -> u32 {
        block / self.blocks_per_plane
    }

    pub(crate) const fn block_of_page(&self, page: u32) -> u32 {
        page / self.pages_per_block
    }
}

/// Return the planes in the order of the letters: the part named first changes with every page.
fn striping(config: &SsdConfig) -> Vec<u32> {
    let [channels, chips, dies, planes] =
        [config.channels, config.chips_per_channel, config.dies_per_chip, config.planes_per_die];
    (0..config.planes())
        .map(|position| {
            let mut rest = position;
            let [mut channel, mut chip, mut die, mut plane] = [0; 4];
            for letter in config.order.bytes() {
                let (digit, base) = match letter {
                    b'C' => (&mut channel, channels),
                    b'W' => (&mut chip, chips),
                    b'D' => (&mut die, dies),
                    _ => (&mut plane, planes),
                };
                *digit = rest % base;
                rest /= base;
            }
            ((channel * chips + chip) * dies + die) * planes + plane
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_names_what_changes_first() {
        let config = SsdConfig::preset("ssdsim").unwrap();
        let first = |order: &str| {
            let config = SsdConfig { order: order.into(), ..config.clone() };
            striping(&config)[..5].to_vec()
        };
        // 2 channels of 8 planes; 4 planes per chip, 2 per die.
        assert_eq!(first("CWDP"), [0, 8, 4, 12, 2]);
        assert_eq!(first("PDWC"), [0, 1, 2, 3, 4]);
        assert_eq!(first("WPCD"), [0, 4, 1, 5, 8]);
        let mut all = striping(&config);
        all.sort_unstable();
        assert_eq!(all, (0..16).collect::<Vec<u32>>());
    }
}
