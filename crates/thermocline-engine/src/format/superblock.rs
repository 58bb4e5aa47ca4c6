//! Superblock: the owner of a flash, and its layout.

use std::num::NonZeroU16;

use uuid::Uuid;

use super::annex::Annexes;
use super::{BLOCK_BYTES, Layout, Reader, Writer};
use crate::epoch::End;
use crate::fingerprint::{Fingerprint, Mark};
use crate::shard_map::{ShardMap, Share};

/// First bytes of a superblock.
const MAGIC: &[u8; 16] = b"thermocline\0\0\0\0\0";
/// The version of the format of a flash that one shard has, and the one before, which is read too.
const FORMAT: u32 = 2;
const FORMAT_OF_SINGLE_JOURNAL: u32 = 1;
/// The version of the format of a region that is one of several: programs that know of one shard must
/// not take it for a whole flash.
const FORMAT_OF_REGION: u32 = 3;
/// The same two for a backing store of more than 2^32 pages, whose page numbers programs that know of
/// 32 bits must not cut.
const FORMAT_OF_WIDE: u32 = 4;
const FORMAT_OF_WIDE_REGION: u32 = 5;
/// The version of the format of a region with annexes; of any number of shards, and for a backing store of any
/// size.
const FORMAT_OF_ANNEXES: u32 = 6;
/// The same of a region of which a piece has fewer slots than it was made for: programs that know format 6 alone
/// would take the room of others for its own.
pub(crate) const FORMAT_OF_SHORTENED: u32 = 7;

/// Contents of a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// The identity of this region of the cache: [`Share::identity`]. That of the cache if it is the only one.
    pub cache: Uuid,
    /// Number of starts of the cache; blocks of the journal carry it.
    pub epoch: u64,
    /// Layout of the flash.
    pub layout: Layout,
    /// The size of the backing store in bytes.
    pub backing_bytes: u64,
    /// The number of the first journal block of this epoch.
    pub first_sequence: u64,
    /// Bytes written to the flash before this epoch.
    pub written_bytes: u64,
    /// `true` if the journal of this epoch has one copy of each block: the flash is of format 1.
    pub has_single_journal: bool,
    /// End of this epoch; `None` if an engine runs, or crashed.
    pub end: Option<End>,
    /// `true` if its pages were given up without the backing store: the note need not know.
    pub is_given_up: bool,
    /// Shard that has this region.
    pub share: Share,
}

/// Reason why a block is not a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// All bytes are zero.
    Empty,
    /// It begins with something else.
    Foreign,
    /// It is of another version.
    Format(u32),
    /// It is torn.
    Torn,
}

impl Superblock {
    /// Returns the superblock of a flash of one shard that was just set up.
    pub const fn first(cache: Uuid, layout: Layout, backing_bytes: u64) -> Self {
        Self {
            cache,
            epoch: 1,
            layout,
            backing_bytes,
            first_sequence: 1,
            written_bytes: 0,
            has_single_journal: false,
            end: None,
            is_given_up: false,
            share: Share::WHOLE,
        }
    }

    /// Return the cache that the region belongs to, by which the note names it.
    pub fn owner(&self) -> Uuid {
        self.share.identity(self.cache)
    }

    pub(crate) fn encode(&self, block: &mut [u8]) {
        let mut writer = Writer::new(block);
        writer.bytes(MAGIC);
        let has_annexes = !self.layout.is_whole() && !self.has_single_journal;
        writer.u32(match (self.share.is_whole(), self.has_single_journal) {
            _ if has_annexes && self.layout.is_shortened() => FORMAT_OF_SHORTENED,
            _ if has_annexes => FORMAT_OF_ANNEXES,
            (false, _) if self.is_wide() => FORMAT_OF_WIDE_REGION,
            (false, _) => FORMAT_OF_REGION,
            (true, true) => FORMAT_OF_SINGLE_JOURNAL,
            (true, false) if self.is_wide() => FORMAT_OF_WIDE,
            (true, false) => FORMAT,
        });
        writer.u32(0);
        writer.bytes(self.cache.as_bytes());
        writer.u64(self.epoch);
        writer.u32(self.layout.journal_blocks);
        writer.u32(self.layout.table_blocks);
        writer.u32(self.layout.slots);
        writer.u32(self.layout.page_bytes);
        writer.u64(self.backing_bytes);
        writer.u64(self.first_sequence);
        writer.u64(self.written_bytes);
        encode_end(&mut writer, self.end, self.is_given_up);
        if has_annexes || !self.share.is_whole() {
            writer.u32(self.share.map.number().get().into());
            writer.u32(self.share.index.into());
            writer.u64(self.share.map.extent_bytes());
        }
        if has_annexes {
            writer.u32(self.layout.room_slots);
            self.layout.annexes.encode(&mut writer);
        }
        writer.seal();
    }

    pub(crate) fn decode(block: &[u8]) -> Result<Self, Unreadable> {
        if block.iter().all(|&byte| byte == 0) {
            return Err(Unreadable::Empty);
        }
        if !block.starts_with(MAGIC) || block.len() != BLOCK_BYTES {
            return Err(Unreadable::Foreign);
        }
        let format = u32::from_le_bytes([block[16], block[17], block[18], block[19]]);
        let mut reader = Reader::new(block).ok_or(Unreadable::Torn)?;
        // After the checksum: a number in a torn block says nothing of another format.
        if !(FORMAT_OF_SINGLE_JOURNAL..=FORMAT_OF_SHORTENED).contains(&format) {
            return Err(Unreadable::Format(format));
        }
        let _magic: [u8; 16] = reader.array();
        let _format = reader.u32();
        let _padding = reader.u32();
        let mut superblock = Self {
            cache: Uuid::from_bytes(reader.array()),
            epoch: reader.u64(),
            layout: decode_layout(&mut reader),
            backing_bytes: reader.u64(),
            first_sequence: reader.u64(),
            written_bytes: reader.u64(),
            has_single_journal: format == FORMAT_OF_SINGLE_JOURNAL,
            end: None,
            is_given_up: false,
            share: Share::WHOLE,
        };
        (superblock.end, superblock.is_given_up) = decode_end(&mut reader);
        let has_annexes = format >= FORMAT_OF_ANNEXES;
        if has_annexes || [FORMAT_OF_REGION, FORMAT_OF_WIDE_REGION].contains(&format) {
            let share = decode_share(&mut reader).ok_or(Unreadable::Torn)?;
            superblock.share = share;
            if share.is_whole() && !has_annexes {
                return Err(Unreadable::Torn);
            }
        }
        if has_annexes {
            superblock.layout.room_slots = reader.u32();
            superblock.layout.annexes = Annexes::decode(&mut reader).ok_or(Unreadable::Torn)?;
        }
        // The formats with annexes are for both widths.
        let is_of_width = has_annexes
            || superblock.is_wide() == [FORMAT_OF_WIDE, FORMAT_OF_WIDE_REGION].contains(&format);
        let is_shortened = format == FORMAT_OF_SHORTENED;
        let is_of_format = superblock.is_plausible()
            && is_of_width
            && superblock.layout.is_whole() != has_annexes
            && superblock.layout.is_shortened() == is_shortened;
        is_of_format.then_some(superblock).ok_or(Unreadable::Torn)
    }

    /// Return `true` if the backing store has such a page.
    pub(crate) fn is_page(&self, page: u64) -> bool {
        page < self.backing_pages()
    }

    /// Whole pages of the backing store.
    fn backing_pages(&self) -> u64 {
        self.backing_bytes / u64::from(self.layout.page_bytes).max(1)
    }

    /// Return `true` if page numbers need more than 32 bits.
    fn is_wide(&self) -> bool {
        self.backing_pages() > u64::from(u32::MAX)
    }

    /// Return `true` if the numbers go together; a block with a right checksum that is not is no accident.
    fn is_plausible(&self) -> bool {
        let page_bytes = self.layout.page_bytes;
        self.layout.is_plausible()
            && self.backing_bytes.is_multiple_of(u64::from(page_bytes))
            && self.backing_pages() <= super::PAGES_MAX
            && self.epoch < super::EPOCH_LIMIT
            && self.first_sequence < super::SEQUENCE_LIMIT
            && self.written_bytes < super::WRITTEN_BYTES_LIMIT
            && (self.share.is_whole()
                || self.share.map.extent_bytes().is_multiple_of(u64::from(page_bytes)))
    }
}

/// Bits that say what follows them.
const ENDED: u32 = 1;
const HAS_BACKING: u32 = 2;
const HAS_FILE: u32 = 4;
const HAS_DEVICE: u32 = 8;
const GIVEN_UP: u32 = 16;
/// Longer extents are nonsense.
const EXTENT_BYTES_LIMIT: u64 = 1 << 40;

/// Writes how an epoch ended; zeroes if it did not.
fn encode_end(writer: &mut Writer<'_>, end: Option<End>, is_given_up: bool) {
    let backing = end.and_then(|end| end.backing);
    let (mark_bit, first, second) = match backing.map(|backing| backing.mark) {
        Some(Mark::File { inode, modified_ns }) => (HAS_FILE, inode, modified_ns),
        Some(Mark::Device { session, written_sectors }) => (HAS_DEVICE, session, written_sectors),
        Some(Mark::None) | None => (0, 0, 0),
    };
    let bits = [(end.is_some(), ENDED), (backing.is_some(), HAS_BACKING), (is_given_up, GIVEN_UP)];
    writer
        .u32(bits.iter().filter(|(is_set, _)| *is_set).map(|(_, bit)| bit).sum::<u32>() | mark_bit);
    writer.u32(backing.map_or(0, |backing| backing.sample));
    writer.u64(end.map_or(0, |end| end.next_sequence));
    writer.u64(backing.map_or(0, |backing| backing.size_bytes));
    writer.u64(first);
    writer.u64(second);
}

/// Return the layout of a region without annexes.
fn decode_layout(reader: &mut Reader<'_>) -> Layout {
    let (journal_blocks, table_blocks) = (reader.u32(), reader.u32());
    let (slots, page_bytes) = (reader.u32(), reader.u32());
    let (room_slots, annexes) = (slots, Annexes::default());
    Layout { journal_blocks, table_blocks, slots, page_bytes, room_slots, annexes }
}

/// Return the shard that has the region; `None` if the numbers contradict each other.
fn decode_share(reader: &mut Reader<'_>) -> Option<Share> {
    let (shards, index, extent_bytes) = (reader.u32(), reader.u32(), reader.u64());
    let shards = u16::try_from(shards).ok().and_then(NonZeroU16::new)?;
    if shards.get() == 1 {
        return (index == 0).then_some(Share::WHOLE);
    }
    let is_plausible =
        index < u32::from(shards.get()) && (1..EXTENT_BYTES_LIMIT).contains(&extent_bytes);
    let index = u16::try_from(index).ok()?;
    is_plausible.then(|| Share { map: ShardMap::with_extents(shards, extent_bytes), index })
}

fn decode_end(reader: &mut Reader<'_>) -> (Option<End>, bool) {
    let (bits, sample) = (reader.u32(), reader.u32());
    let (next_sequence, size_bytes) = (reader.u64(), reader.u64());
    let (first, second) = (reader.u64(), reader.u64());
    let has = |bit| bits & bit != 0;
    let mark = if has(HAS_FILE) {
        Mark::File { inode: first, modified_ns: second }
    } else if has(HAS_DEVICE) {
        Mark::Device { session: first, written_sectors: second }
    } else {
        Mark::None
    };
    let backing = has(HAS_BACKING).then_some(Fingerprint { size_bytes, sample, mark });
    (has(ENDED).then_some(End { next_sequence, backing }), has(GIVEN_UP))
}
