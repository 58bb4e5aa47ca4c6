//! Settings of a drive that are one of a few words.

use serde::{Deserialize, Serialize};

/// Order of operations on a die.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduling {
    /// Operations of a die run in the order in which they came, but for those of other planes that
    /// run with an earlier one.
    #[default]
    Fifo,
    /// Reads of the host overtake all else that waits for the die.
    ReadFirst,
}

/// When a write is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteCompletes {
    /// When its pages are programmed.
    #[default]
    Program,
    /// When its bytes are in the chips, as in SSDsim.
    Transfer,
    /// When its bytes are in the drive's DRAM. A drive without
    /// [protection](super::SsdConfig::power_loss_protection) loses at a power failure what it
    /// acknowledged since the last flush.
    Buffer,
}

/// Mapping of addresses to flash pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mapping {
    /// Every page can be anywhere in its plane, or, with [`Allocation::Dynamic`], in the drive.
    #[default]
    Page,
    /// Whole blocks are mapped; a page keeps its place in the block.
    Block,
    /// Whole blocks are mapped, and each may have a log block for pages written again.
    Bast,
}

/// Which plane a written page goes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Allocation {
    /// The next one in turn that has room.
    #[default]
    Dynamic,
    /// The one that its address gives.
    Static,
}

/// Unit of the threshold of garbage collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GcUnit {
    /// Pages that can be programmed, also those of blocks in use.
    Pages,
    /// Blocks of which no page is programmed.
    #[default]
    Blocks,
}

/// Which block is collected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Victim {
    /// The one with the fewest valid pages; of several, the one that came to it first.
    #[default]
    Greedy,
    /// The one with the least u / ((1 - u) age), where u is its share of valid pages.
    CostBenefit,
    /// The one with the fewest valid pages of some chosen at random.
    DChoices,
    /// The one that was filled first.
    Fifo,
    /// One chosen at random.
    Random,
}

/// Where garbage collection puts the pages that it moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GcBlocks {
    /// In blocks of their own.
    #[default]
    Separate,
    /// Among the pages that the host writes; with two streams, among the cold ones.
    Shared,
}
