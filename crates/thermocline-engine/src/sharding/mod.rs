//! One export served by several shards, one processor each.
//!
//! Every shard is an engine of its own: policy, RAM, journal, and a region of the flash. A [`ShardMap`](crate::ShardMap)
//! says whose each extent of the export is. Shards number pages as the export does, so nothing
//! translates between a shard and its devices; what differs is only which pages a shard is ever asked for.
//!
//! * [`Spanning`] cuts a request into parts for the shards, and joins what they answer.
//! * [`FlashSet`] is a flash of several regions: each has a superblock, a journal and a table as the
//!   flash of one shard, and says which of how many it is.
//! * [`Extension`] gives such a flash more slots, and [`Reduction`] fewer.
//! * [`FoundSet`] decides what a start does with all regions: they have one note and one epoch.
//! * [`SharedSyncs`] are syncs of a device that several shards write to.

mod extension;
mod flash_set;
mod parts;
mod reduction;
mod resizing;
mod start;
mod syncs;

pub use self::extension::Extension;
pub use self::flash_set::FlashSet;
pub(crate) use self::flash_set::region_range;
pub use self::parts::{Part, Spanning};
pub use self::reduction::{Reduced, Reduction};
pub use self::start::FoundSet;
pub use self::syncs::SharedSyncs;
