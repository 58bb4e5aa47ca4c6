//! Choice of the block of a plane that is collected next.
//!
//! * Source: greedy and random: the textbook; cost-benefit: Rosenblum and Ousterhout, *The design and
//!   implementation of a log-structured file system*, SOSP '91, as Kawaguchi et al., USENIX '95,
//!   have it for flash; d-choices: Van Houdt, *A mean field model for a class of garbage collection
//!   algorithms in flash-based solid state drives*, SIGMETRICS '13.
//! * State: that of the generator.
//! * Cost: greedy O(1) amortised, d-choices and random O(d) expected, the others O(blocks of the
//!   plane).
//! * Deviations: (1) the age of cost-benefit counts programs of the drive since the block was full.

use std::cmp::Ordering;

use super::super::config::{SsdConfig, Victim};
use super::super::nand::{Block, Nand, State};
use super::super::random::SplitMix64;

/// Draws after which a plane counts as one with hardly a closed block.
const DRAWS_MOST: u32 = 64;

#[derive(Clone, Debug)]
pub(crate) struct Chooser {
    victim: Victim,
    choices: u32,
    random: SplitMix64,
}

impl Chooser {
    pub(crate) fn new(config: &SsdConfig) -> Self {
        let choices = match config.gc_victim {
            Victim::DChoices => config.gc_choices,
            Victim::Greedy | Victim::CostBenefit | Victim::Fifo | Victim::Random => 1,
        };
        // The complement: draws of victims must not follow those of the factory's bad blocks, which
        // start from the seed itself.
        Self { victim: config.gc_victim, choices, random: SplitMix64::new(!config.seed) }
    }

    /// Choose a closed block of the plane; `None` if collecting one would gain nothing.
    pub(crate) fn choose(&mut self, nand: &mut Nand, plane: u32) -> Option<u32> {
        let pages = nand.pages_per_block();
        // If this one has no invalid page, none has.
        let emptiest = nand.emptiest(plane).filter(|&block| nand.block(block).valid < pages)?;
        match self.victim {
            Victim::Greedy => Some(emptiest),
            Victim::CostBenefit => least(nand, plane, |one, other| {
                cost_benefit(nand, one).total_cmp(&cost_benefit(nand, other))
            }),
            Victim::Fifo => least(nand, plane, |one, other| one.closed_at.cmp(&other.closed_at)),
            Victim::DChoices | Victim::Random => {
                // Hardly ever none is drawn, in a plane with hardly a closed block.
                self.draw(nand, plane).or(Some(emptiest))
            }
        }
    }

    /// Return the one with the fewest valid pages of so many closed blocks, drawn with replacement.
    fn draw(&mut self, nand: &Nand, plane: u32) -> Option<u32> {
        let per_plane = nand.geometry().blocks_per_plane;
        let mut drawn = 0;
        let mut best: Option<u32> = None;
        // Bounded: in a plane with hardly a closed block, drawing until d are found might take for
        // ever.
        for _ in 0..self.choices.saturating_mul(DRAWS_MOST) {
            let block = plane * per_plane + self.random.below(per_plane);
            if nand.block(block).state != State::Closed {
                continue;
            }
            if best.is_none_or(|best| nand.block(block).valid < nand.block(best).valid) {
                best = Some(block);
            }
            drawn += 1;
            if drawn == self.choices {
                break;
            }
        }
        best
    }
}

/// Return u / ((1 - u) age). The block with the least value is collected.
fn cost_benefit(nand: &Nand, block: &Block) -> f64 {
    let pages = f64::from(nand.pages_per_block());
    let used = f64::from(block.valid) / pages;
    // Plus 1: a block closed by the last program has age 0, which would make its cost infinite.
    let age = (nand.programs - block.closed_at) as f64 + 1.0;
    // Rosenblum and Ousterhout maximise benefit / cost = (1 - u) age / 2u; without the constant,
    // the least inverse is the same block. A full block has an infinite one.
    used / ((1.0 - used) * age)
}

/// Return the closed block that comes first in an order; of several, the first.
fn least(nand: &Nand, plane: u32, order: impl Fn(&Block, &Block) -> Ordering) -> Option<u32> {
    let per_plane = nand.geometry().blocks_per_plane;
    (plane * per_plane..(plane + 1) * per_plane)
        .filter(|&block| nand.block(block).state == State::Closed)
        .min_by(|&one, &other| order(nand.block(one), nand.block(other)))
}
