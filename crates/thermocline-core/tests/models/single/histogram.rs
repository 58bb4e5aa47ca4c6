//! TinyLFU's histogram: numbers in rows, and a set of bits.

use thermocline_core::PageId;
use thermocline_core::hotness::PageHash;

const ROWS: usize = 4;
const COUNTERS: usize = 32;

pub(crate) struct Histogram {
    /// Per block and row, the counters.
    blocks: Vec<[[u64; COUNTERS]; ROWS]>,
    /// The doorkeeper, if there is one.
    door: Option<Vec<bool>>,
    is_minimal: bool,
    recorded: u64,
    sample: u64,
}

fn hash(page: u32, index: u32) -> u64 {
    u64::from(PageHash::quick(PageId(page)).value(index))
}

/// Return `count` bits of a hash value, from a place counted from the top.
fn bits(value: u64, skipped: u32, count: u32) -> usize {
    usize::try_from((value << skipped & 0xffff_ffff) >> (32 - count)).expect("a few bits")
}

fn scaled(value: u64, length: usize) -> usize {
    usize::try_from((value * length as u64) >> 32).expect("a place in memory")
}

impl Histogram {
    pub(crate) fn new(
        capacity: usize,
        sample_factor: usize,
        has_door: bool,
        is_minimal: bool,
    ) -> Self {
        let mut pages = 256;
        while pages < capacity {
            pages *= 2;
        }
        let sample = capacity.max(1) * sample_factor;
        Self {
            blocks: vec![[[0; COUNTERS]; ROWS]; pages / 8],
            door: has_door.then(|| vec![false; (sample * 8).next_multiple_of(64)]),
            is_minimal,
            recorded: 0,
            sample: sample as u64,
        }
    }

    /// Return the block of a page, and its counter in each row.
    fn counters(&self, page: u32) -> (usize, [usize; ROWS]) {
        let places = [0, 5, 10, 15].map(|skipped| bits(hash(page, 1), skipped, 5));
        (scaled(hash(page, 0), self.blocks.len()), places)
    }

    /// Return the bits of a page in the doorkeeper: three in one word of 64.
    fn door_bits(page: u32, door: &[bool]) -> [usize; 3] {
        let word = scaled(hash(page, 2), door.len() / 64);
        [0, 6, 12].map(|skipped| word * 64 + bits(hash(page, 3), skipped, 6))
    }

    fn knows(&self, page: u32) -> bool {
        self.door
            .as_ref()
            .is_some_and(|door| Self::door_bits(page, door).iter().all(|&bit| door[bit]))
    }

    fn count(&self, page: u32) -> u64 {
        let (block, places) = self.counters(page);
        (0..ROWS).map(|row| self.blocks[block][row][places[row]]).min().expect("there are rows")
    }

    pub(crate) fn record(&mut self, page: u32) {
        if self.door.is_some() && !self.knows(page) {
            if let Some(door) = &mut self.door {
                for bit in Self::door_bits(page, door) {
                    door[bit] = true;
                }
            }
        } else {
            let (block, places) = self.counters(page);
            let least = self.count(page);
            for (row, &place) in places.iter().enumerate() {
                let counter = &mut self.blocks[block][row][place];
                if *counter < 15 && (!self.is_minimal || *counter == least) {
                    *counter += 1;
                }
            }
        }
        self.recorded += 1;
        if self.recorded >= self.sample {
            let lost =
                self.blocks.iter().flatten().flatten().filter(|count| **count % 2 == 1).count();
            self.recorded = self.recorded.saturating_sub(lost as u64 / 4) / 2;
            self.blocks.iter_mut().flatten().flatten().for_each(|counter| *counter /= 2);
            if let Some(door) = &mut self.door {
                door.fill(false);
            }
        }
    }

    pub(crate) fn estimate(&self, page: u32) -> u64 {
        self.count(page) + u64::from(self.knows(page))
    }
}
