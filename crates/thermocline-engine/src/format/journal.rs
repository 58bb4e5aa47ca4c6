//! Journal blocks: what happened to slots, in order.

use uuid::Uuid;

use super::{Reader, Writer, join, split, tagged, untagged};

const MAGIC: &[u8; 8] = b"tcl-jrnl";
/// Bytes of the fields before the records.
const HEADER_BYTES: usize = 72;
const RECORD_BYTES: usize = 24;
/// Records that a block holds.
pub(crate) const RECORDS_PER_BLOCK: usize = (super::BLOCK_BYTES - HEADER_BYTES - 4) / RECORD_BYTES;

/// One thing that happened to a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) kind: RecordKind,
    pub(crate) page: u64,
    pub(crate) slot: u32,
    pub(crate) version: u64,
    pub(crate) checksum: u32,
}

/// Event that a record reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    /// The slot holds the page, and the disk may not.
    Dirty = 1,
    /// The slot holds the page, and the disk does as well; also when it did not before.
    Clean = 2,
    /// The slot holds nothing.
    Free = 3,
}

/// The fields of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) cache: Uuid,
    pub(crate) epoch: u64,
    /// The block's number.
    pub(crate) sequence: u64,
    /// The first block that replay needs: what came before is in the table.
    pub(crate) tail: u64,
    /// The first block whose slots may not have been durable when this one was written.
    pub(crate) uncertain: u64,
    /// Bytes ever written to this flash.
    pub(crate) written_bytes: u64,
}

/// Writes a block.
pub(crate) fn encode<'a>(
    block: &mut [u8],
    header: &Header,
    records: impl ExactSizeIterator<Item = &'a Record>,
) {
    assert!(records.len() <= RECORDS_PER_BLOCK, "the records fit a block");
    let count = u32::try_from(records.len()).expect("a block holds few records");
    let mut writer = Writer::new(block);
    writer.bytes(MAGIC);
    writer.bytes(header.cache.as_bytes());
    writer.u64(header.epoch);
    writer.u64(header.sequence);
    writer.u64(header.tail);
    writer.u64(header.uncertain);
    writer.u64(header.written_bytes);
    writer.u32(count);
    writer.u32(0);
    for record in records {
        let (lower, upper) = split(record.page);
        writer.u32(lower);
        writer.u32(record.slot);
        writer.u64(record.version);
        writer.u32(record.checksum);
        writer.u32(tagged(record.kind as u16, upper));
    }
    writer.seal();
}

/// Reads a block; `None` if it is no journal block, torn, or nonsense.
pub(crate) fn decode(block: &[u8]) -> Option<(Header, Vec<Record>)> {
    let mut reader = Reader::new(block)?;
    let magic: [u8; 8] = reader.array();
    if magic != *MAGIC {
        return None;
    }
    let header = Header {
        cache: Uuid::from_bytes(reader.array()),
        epoch: reader.u64(),
        sequence: reader.u64(),
        tail: reader.u64(),
        uncertain: reader.u64(),
        written_bytes: reader.u64(),
    };
    let count = reader.u32() as usize;
    let _padding = reader.u32();
    // A right checksum does not make numbers sane: what counts on from them must not run over.
    let is_plausible = count <= RECORDS_PER_BLOCK
        && header.sequence < super::SEQUENCE_LIMIT
        && header.written_bytes < super::WRITTEN_BYTES_LIMIT;
    if !is_plausible {
        return None;
    }
    let records = (0..count).map(|_| {
        let (lower, slot) = (reader.u32(), reader.u32());
        let (version, checksum) = (reader.u64(), reader.u32());
        let (kind, upper) = untagged(reader.u32());
        let page = join(lower, upper);
        let kind = match kind {
            1 => RecordKind::Dirty,
            2 => RecordKind::Clean,
            3 => RecordKind::Free,
            _ => return None,
        };
        (version < super::VERSION_LIMIT).then_some(Record { kind, page, slot, version, checksum })
    });
    Some((header, records.collect::<Option<Vec<_>>>()?))
}
