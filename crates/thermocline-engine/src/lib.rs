//! A block cache over RAM, flash and disk that drives any registered policy and survives crashes.
//!
//! A [`Shard`] is a state machine without devices, threads or a clock: [`submit`](Shard::submit)
//! takes a request, [`next_operation`](Shard::next_operation) says what the devices shall do,
//! [`complete`](Shard::complete) takes what they did, [`next_reply`](Shard::next_reply) gives
//! answers. The policy decides where pages are, the shard moves the bytes, and keeps what was
//! acknowledged as durable whatever the policy does with its copies.
//!
//! A driver performs operations: see [`driver`]. An [`Engine`] is a shard with its driver.
//!
//! ```
//! use thermocline_engine::{Engine, Options, PolicyOptions, Request};
//!
//! // 1000 pages of 4 KiB on disk, 16 in RAM, 64 on flash; both devices are in memory.
//! let options = Options::new(1000, 16, 64, PolicyOptions::named("hat")?);
//! let mut engine = Engine::in_memory(options)?;
//! engine.submit(Request::write(1, 8192, 5), b"hello")?;
//! engine.submit(Request::flush(2), &[])?;
//! engine.submit(Request::read(3, 8190, 7), &[])?;
//! engine.wait_until_idle();
//! let mut read: Vec<u8> = vec![];
//! while let Some(reply) = engine.next_reply() {
//!     read.extend(engine.pieces(&reply).flatten());
//!     engine.release(reply);
//! }
//! assert_eq!(read, b"\0\0hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod blocks;
pub mod counters;
mod directory;
mod drain;
pub mod driver;
mod engine;
mod entry;
mod epoch;
mod figure;
pub mod figures;
mod fingerprint;
pub mod format;
mod ids;
mod lent;
mod memory;
mod mirror;
mod offline;
mod operation;
mod options;
mod outbox;
mod page_ranges;
mod recovery;
mod request;
pub mod shadow;
mod shard;
mod shard_map;
mod sharding;
pub mod shares;
mod side_file;
mod slots;
mod start;
mod storage;
mod stream;

pub use counters::Counters;
pub use directory::{CHUNK_BYTES, Directory, DirectoryError, VOLUME_NAME_BYTES_MAX, VOLUMES_MAX};
pub use drain::{DrainProgress, Drained};
pub use engine::Engine;
pub use epoch::{Begin, End, Keep};
pub use fingerprint::{Fingerprint, Likeness, Mark};
pub use format::superblock::Superblock;
pub use format::{Annex, Annexes, Layout};
pub use lent::Lent;
pub use memory::{ALIGNMENT_BYTES, FrameId, Frames};
pub use mirror::{
    Asked, FoundMember, InUse, Joining, Keeper, Label, Lane, Lanes, Left, MEMBER_HEAD_BYTES,
    Mirror, MirrorError, MirrorStorage, Noted, Pairing, Place as MemberPlace, content_bytes,
    reconcile,
};
pub use offline::{Check, Contents};
pub use operation::{
    Copies, Device, DeviceError, Member, Operation, OperationId, OperationKind, OperationParts,
};
pub use options::{Cleaning, Leaving, Options, OptionsError, PolicyOptions, WriteMode};
pub use page_ranges::PageRanges;
pub use recovery::{Flash, FlashError};
pub use request::{Reply, Request, RequestError, RequestKind, SubmitError};
pub use shard::{
    Cooperator, Demoted, Event, Observer, OpenError, PageStatus, Pushed, RangeCommand, RangeDone,
    RangeError, RangeWork, Shard, WriteHold,
};
pub use shard_map::{ShardMap, Share};
pub use sharding::{
    Extension, FlashSet, FoundSet, Part, Reduced, Reduction, SharedSyncs, Spanning,
};
pub use side_file::{SideFile, SideFileError};
pub use start::{DrainOptions, Found, FoundFlash, Intent, Notice, Plan, Step};
pub use storage::{Section, Storage};
pub use uuid::Uuid;
