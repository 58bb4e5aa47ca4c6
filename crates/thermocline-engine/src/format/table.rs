//! Table blocks: what some slots hold.

use uuid::Uuid;

use super::{Reader, Writer, join, split, tagged, untagged};

const MAGIC: &[u8; 8] = b"tcl-tabl";
const HEADER_BYTES: usize = 48;
const ROW_BYTES: usize = 20;
/// Slots that one block describes.
pub(crate) const SLOTS_PER_BLOCK: usize = (super::BLOCK_BYTES - HEADER_BYTES - 4) / ROW_BYTES;

/// Contents of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) page: u64,
    pub(crate) checksum: u32,
    pub(crate) version: u64,
    pub(crate) is_dirty: bool,
}

/// The fields of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) cache: Uuid,
    /// Number of times that the block was written.
    pub(crate) generation: u64,
    /// The block's position in the table.
    pub(crate) block: u32,
}

/// Writes a block.
pub(crate) fn encode(bytes: &mut [u8], header: &Header, rows: impl Iterator<Item = Option<Row>>) {
    let mut writer = Writer::new(bytes);
    writer.bytes(MAGIC);
    writer.bytes(header.cache.as_bytes());
    writer.u64(header.generation);
    writer.u32(header.block);
    writer.bytes(&[0; 12]);
    for row in rows {
        match row {
            None => writer.bytes(&[0; ROW_BYTES]),
            Some(row) => {
                let (lower, upper) = split(row.page);
                writer.u32(lower);
                writer.u32(row.checksum);
                writer.u64(row.version);
                writer.u32(tagged(1 + u16::from(row.is_dirty), upper));
            }
        }
    }
    writer.seal();
}

/// Reads a block; `None` if it is no table block, torn, or nonsense.
pub(crate) fn decode(bytes: &[u8]) -> Option<(Header, Vec<Option<Row>>)> {
    let mut reader = Reader::new(bytes)?;
    let magic: [u8; 8] = reader.array();
    if magic != *MAGIC {
        return None;
    }
    let header = Header {
        cache: Uuid::from_bytes(reader.array()),
        generation: reader.u64(),
        block: reader.u32(),
    };
    let _padding: [u8; 12] = reader.array();
    if header.generation >= super::GENERATION_LIMIT {
        return None;
    }
    let rows = (0..SLOTS_PER_BLOCK).map(|_| {
        let (lower, checksum, version) = (reader.u32(), reader.u32(), reader.u64());
        let (state, upper) = untagged(reader.u32());
        let page = join(lower, upper);
        match state {
            1.. if version >= super::VERSION_LIMIT => None,
            0 if upper == 0 => Some(None),
            1 => Some(Some(Row { page, checksum, version, is_dirty: false })),
            2 => Some(Some(Row { page, checksum, version, is_dirty: true })),
            _ => None,
        }
    });
    Some((header, rows.collect::<Option<Vec<_>>>()?))
}
