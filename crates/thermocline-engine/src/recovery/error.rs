//! Errors of a flash that cannot be used.

use std::io;

use thiserror::Error;

use crate::directory::DirectoryError;
use crate::shard_map::ShardMap;

/// Reason why a flash cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FlashError {
    /// The device fails.
    #[error("the flash cannot be used: {0}")]
    Io(#[from] io::Error),
    /// The backing store refuses pages of a drain.
    #[error(
        "the backing store cannot be written at byte {offset_bytes}: {error}; the flash keeps all \
         pages: repair the backing store and drain again"
    )]
    BackingWrite {
        /// Offset of the write.
        offset_bytes: u64,
        /// Error of the backing store.
        error: io::Error,
    },
    /// The backing store cannot be synced after a drain.
    #[error(
        "the backing store cannot be synced: {0}; the flash keeps all pages: repair the backing store \
         and drain again"
    )]
    BackingSync(io::Error),
    /// It is empty, both at its beginning and at its end.
    #[error("this is not a flash of thermocline: nothing was ever written to it")]
    Empty,
    /// It holds something else.
    #[error("this is not a flash of thermocline but something else: check the path")]
    Foreign,
    /// Several volumes share it.
    #[error("several volumes share this flash: name one of them, or check the path")]
    HasVolumes,
    /// It is one of two devices.
    #[error(
        "this is one of the two devices of a mirrored flash: name both, the other one as its mirror"
    )]
    IsMember,
    /// The directory of its volumes cannot be read.
    #[error(transparent)]
    Directory(Box<DirectoryError>),
    /// It is a cache of another version.
    #[error(
        "the flash has format {found}, this program reads formats up to {}: drain it with the version \
         that wrote it, or initialise it by force and lose what only it holds",
        crate::format::superblock::FORMAT_OF_SHORTENED
    )]
    Format {
        /// The format of the flash.
        found: u32,
    },
    /// A region of a flash that several shards have cannot be used.
    #[error("region {index} of the flash: {error}")]
    Region {
        /// Index of the region.
        index: u16,
        /// Fault of the region.
        error: Box<Self>,
    },
    /// A region is not of the same flash as the first one.
    #[error(
        "region {index} of the flash is none of the same cache: the flash was put together from \
         several; name the right one, or give up what this one holds"
    )]
    Mixed {
        /// Index of the region.
        index: u16,
    },
    /// It was made for other shards.
    #[error(
        "the flash was made for {}, and not for {}: drain it, then initialise it by force",
        shards(found),
        shards(given)
    )]
    OtherShards {
        /// Shards that the flash names.
        found: ShardMap,
        /// Shards that were given.
        given: ShardMap,
    },
    /// Both superblocks are damaged.
    #[error("both superblocks of the flash are damaged: only initialising it by force can help")]
    Damaged,
    /// Both copies of a journal or table block are damaged: nobody knows which pages it was about.
    #[error(
        "both copies of block {block} of the flash's {part} are damaged: its newest pages cannot be \
         known. Restore the backing store from a backup, or give the flash up by initialising it by force"
    )]
    MetadataLost {
        /// `journal` or `table`.
        part: &'static str,
        /// The block's number.
        block: u64,
    },
    /// It caches a backing store of another size.
    #[error(
        "the flash belongs to a backing store of {found_bytes} bytes, this one has {given_bytes}"
    )]
    OtherBacking {
        /// Size that the flash names.
        found_bytes: u64,
        /// Size that was given.
        given_bytes: u64,
    },
    /// It was laid out for pages of another size.
    #[error(
        "the flash has pages of {found_bytes} bytes, not {given_bytes}: drain it before the page \
         size is changed"
    )]
    OtherPageSize {
        /// Size that the flash names.
        found_bytes: u32,
        /// Size that was given.
        given_bytes: u32,
    },
    /// It has too few slots.
    #[error(
        "the flash has {found_slots} slots, and {wanted_slots} are needed at least: take fewer \
         pages of flash, or drain it and initialise it again"
    )]
    TooFewSlots {
        /// Number that the flash has.
        found_slots: u32,
        /// Number that the options need.
        wanted_slots: u32,
    },
    /// It cannot get more slots.
    #[error(
        "the flash is in {} pieces besides the first one, or has a format of before version 0.2 until its first start: drain it and \
         initialise it with the new size, or start it with the former one first",
        crate::format::annex::ANNEXES_MAX
    )]
    CannotGrow,
    /// There is no room for more slots.
    #[error(
        "the flash has no room for more pages: they need {wanted_bytes} bytes and some for records, and \
         {free_bytes} are free; use a larger flash, or smaller volumes"
    )]
    NoRoom {
        /// Bytes that would be enough in one piece.
        wanted_bytes: u64,
        /// Free bytes.
        free_bytes: u64,
    },
    /// The device is too small.
    #[error("the flash has {found_bytes} bytes, and {wanted_bytes} are needed")]
    TooSmall {
        /// The size of the device.
        found_bytes: u64,
        /// Size that the layout needs.
        wanted_bytes: u64,
    },
}

fn shards(map: &ShardMap) -> String {
    let extent_bytes = map.extent_bytes();
    match map.shards() {
        1 => "one shard".to_owned(),
        shards => format!("{shards} shards (extents of {extent_bytes} bytes)"),
    }
}
