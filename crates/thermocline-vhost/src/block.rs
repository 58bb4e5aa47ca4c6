//! Properties of the device, and meanings of requests.

use thermocline_nbd::protocol::{Command, command_flag};
use thermocline_nbd::service::Piece;
use virtio_bindings::virtio_blk as blk;
use virtio_bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC};

/// Bytes of a sector, by which requests and the device's size count.
pub(crate) const SECTOR_BYTES: u64 = 512;
/// Bytes in front of the data of every request: type, a reserved word, sector.
pub(crate) const HEADER_BYTES: usize = 16;
/// Bytes of a range to be discarded or zeroed: sector, sectors, flags.
const RANGE_BYTES: usize = 16;
/// The longest read or write.
pub(crate) const TRANSFER_BYTES_MAX: u64 = 32 << 20;
/// Sectors of the longest range to be discarded or zeroed: 2 GiB, as a length has 32 bits.
const RANGE_SECTORS_MAX: u32 = 1 << 22;
/// Parts of a request's data; Linux puts a part into each descriptor of a ring of the default size.
const SEGMENTS_MAX: u32 = 126;
/// The greatest number of rings.
pub const QUEUES_MAX: u16 = 256;
/// Maximum size of the device's description that a monitor may read, more than there is.
const CONFIG_BYTES_MAX: usize = 256;

/// A block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Size in bytes; an incomplete sector of 512 bytes at the end is not used.
    pub size_bytes: u64,
    /// The length of requests that it likes, in bytes: a power of two.
    pub preferred_bytes: u32,
    /// `true` if it takes writes.
    pub may_write: bool,
    /// Serial number that the guest sees; 20 bytes of it are used.
    pub id: String,
    /// The most rings that a guest may use, at most [`QUEUES_MAX`].
    pub queues: u16,
}

impl Device {
    /// Return the bits of VIRTIO's features.
    pub(crate) fn features(&self) -> u64 {
        let mut bits = vec![
            VIRTIO_F_VERSION_1,
            VIRTIO_RING_F_INDIRECT_DESC,
            VIRTIO_RING_F_EVENT_IDX,
            blk::VIRTIO_BLK_F_SEG_MAX,
            blk::VIRTIO_BLK_F_BLK_SIZE,
            blk::VIRTIO_BLK_F_TOPOLOGY,
            blk::VIRTIO_BLK_F_FLUSH,
            blk::VIRTIO_BLK_F_MQ,
        ];
        if self.may_write {
            bits.extend([blk::VIRTIO_BLK_F_DISCARD, blk::VIRTIO_BLK_F_WRITE_ZEROES]);
        } else {
            bits.push(blk::VIRTIO_BLK_F_RO);
        }
        bits.into_iter().fold(0, |features, bit| features | 1 << bit)
    }

    /// Return a part of `struct virtio_blk_config` (VIRTIO 1.2, section 5.2.4), which zeroes
    /// follow.
    pub(crate) fn config(&self, offset: u32, length: u32) -> Option<Vec<u8>> {
        let blocks = (u64::from(self.preferred_bytes) / SECTOR_BYTES).max(1);
        let exponent = u8::try_from(blocks.ilog2()).expect("a logarithm is small");
        let mut bytes = vec![];
        bytes.extend((self.size_bytes / SECTOR_BYTES).to_le_bytes());
        // Segments of any size, so many of them; no geometry.
        bytes.extend([0, SEGMENTS_MAX, 0].map(u32::to_le_bytes).concat());
        bytes.extend(512_u32.to_le_bytes());
        bytes.extend([exponent, 0]);
        bytes.extend(1_u16.to_le_bytes());
        bytes.extend(u32::try_from(blocks).unwrap_or(u32::MAX).to_le_bytes());
        // Writes are kept in a cache until a flush; a byte that is not used.
        bytes.extend([1, 0]);
        bytes.extend(self.queues.to_le_bytes());
        let aligned = u32::try_from(blocks).unwrap_or(u32::MAX);
        bytes.extend([RANGE_SECTORS_MAX, 1, aligned].map(u32::to_le_bytes).concat());
        bytes.extend([RANGE_SECTORS_MAX, 1].map(u32::to_le_bytes).concat());
        bytes.extend([1, 0, 0, 0]);
        bytes.resize(CONFIG_BYTES_MAX, 0);
        let range =
            usize::try_from(offset).ok()?..usize::try_from(offset.checked_add(length)?).ok()?;
        bytes.get(range).map(<[u8]>::to_vec)
    }

    /// Return the serial number as the guest reads it.
    pub(crate) fn id_bytes(&self) -> [u8; blk::VIRTIO_BLK_ID_BYTES as usize] {
        let mut bytes = [0; blk::VIRTIO_BLK_ID_BYTES as usize];
        for (target, byte) in bytes.iter_mut().zip(self.id.bytes()) {
            *target = byte;
        }
        bytes
    }
}

/// The last byte of a request, by which the guest knows what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Done,
    Failed,
    Unsupported,
}

impl Status {
    pub(crate) fn byte(self) -> u8 {
        let status = match self {
            Self::Done => blk::VIRTIO_BLK_S_OK,
            Self::Failed => blk::VIRTIO_BLK_S_IOERR,
            Self::Unsupported => blk::VIRTIO_BLK_S_UNSUPP,
        };
        u8::try_from(status).expect("a status is a byte")
    }
}

/// Wish of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Operation of the service.
    Serve(Piece),
    /// The serial number.
    Id,
    /// Answer without an operation.
    Answer(Status),
}

/// Understands a request: its first bytes, how many bytes of data follow them, the first of these, and how
/// many bytes there is room for in front of the status.
pub(crate) fn understand(
    header: [u8; HEADER_BYTES],
    data_bytes: u64,
    data: &[u8],
    room_bytes: u64,
) -> Wish {
    let word =
        |place: usize| u32::from_le_bytes(header[place..place + 4].try_into().expect("four bytes"));
    let sector = u64::from_le_bytes(header[8..].try_into().expect("eight bytes"));
    let transfer = |command, bytes: u64| {
        let is_whole = bytes.is_multiple_of(SECTOR_BYTES) && bytes <= TRANSFER_BYTES_MAX;
        piece(command, 0, sector, bytes).filter(|_| is_whole)
    };
    let found = match word(0) {
        blk::VIRTIO_BLK_T_IN => transfer(Command::Read, room_bytes),
        blk::VIRTIO_BLK_T_OUT => transfer(Command::Write, data_bytes),
        blk::VIRTIO_BLK_T_FLUSH => piece(Command::Flush, 0, 0, 0),
        blk::VIRTIO_BLK_T_GET_ID => return Wish::Id,
        kind @ (blk::VIRTIO_BLK_T_DISCARD | blk::VIRTIO_BLK_T_WRITE_ZEROES) => {
            let is_discard = kind == blk::VIRTIO_BLK_T_DISCARD;
            let Ok(range) = <&[u8; RANGE_BYTES]>::try_from(data) else {
                return Wish::Answer(Status::Failed);
            };
            return understand_range(is_discard, range);
        }
        _ => return Wish::Answer(Status::Unsupported),
    };
    found.map_or(Wish::Answer(Status::Failed), Wish::Serve)
}

fn understand_range(is_discard: bool, range: &[u8; RANGE_BYTES]) -> Wish {
    let sector = u64::from_le_bytes(range[..8].try_into().expect("eight bytes"));
    let sectors = u32::from_le_bytes(range[8..12].try_into().expect("four bytes"));
    let flags = u32::from_le_bytes(range[12..].try_into().expect("four bytes"));
    let unmaps = flags & blk::VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP != 0;
    let is_unknown = flags & !blk::VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP != 0;
    // A device must refuse flags that it does not know, and a discard that unmaps (section 5.2.6.2).
    if is_unknown || is_discard && unmaps {
        return Wish::Answer(Status::Unsupported);
    }
    if sectors > RANGE_SECTORS_MAX {
        return Wish::Answer(Status::Failed);
    }
    let command = if is_discard { Command::Trim } else { Command::WriteZeroes };
    let flags = if is_discard || unmaps { 0 } else { command_flag::NO_HOLE };
    let piece = piece(command, flags, sector, u64::from(sectors) * SECTOR_BYTES);
    piece.map_or(Wish::Answer(Status::Failed), Wish::Serve)
}

fn piece(command: Command, flags: u16, sector: u64, length_bytes: u64) -> Option<Piece> {
    let offset_bytes = sector.checked_mul(SECTOR_BYTES)?;
    let length_bytes = u32::try_from(length_bytes).ok()?;
    Some(Piece { command, flags, offset_bytes, length_bytes, cooperator: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: Device = Device {
        size_bytes: (5 << 20) + 700,
        preferred_bytes: 4096,
        may_write: true,
        id: String::new(),
        queues: 3,
    };

    #[test]
    fn the_description_has_its_fields_where_guests_look_for_them() {
        let config = DEVICE.config(0, 60).unwrap();
        assert_eq!(config[..8], 10_241_u64.to_le_bytes());
        assert_eq!(config[12..16], SEGMENTS_MAX.to_le_bytes());
        assert_eq!(config[20..26], [0, 2, 0, 0, 3, 0]);
        assert_eq!(config[34..36], [3, 0]);
        assert_eq!(config[56], 1);
        assert_eq!(DEVICE.config(34, 2).unwrap(), [3, 0]);
        assert_eq!(DEVICE.config(250, 6).unwrap(), [0; 6]);
        assert_eq!(DEVICE.config(250, 7), None);
        assert_eq!(DEVICE.config(u32::MAX, 7), None);
    }

    #[test]
    fn who_only_reads_is_not_offered_what_writes() {
        let reader = Device { may_write: false, ..DEVICE };
        let bit = |bit: u32| 1_u64 << bit;
        assert_eq!(reader.features() & bit(blk::VIRTIO_BLK_F_DISCARD), 0);
        assert_ne!(reader.features() & bit(blk::VIRTIO_BLK_F_RO), 0);
        assert_eq!(DEVICE.features() & bit(blk::VIRTIO_BLK_F_RO), 0);
    }

    fn header(kind: u32, sector: u64) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[..4].copy_from_slice(&kind.to_le_bytes());
        header[8..].copy_from_slice(&sector.to_le_bytes());
        header
    }

    #[test]
    fn what_makes_no_sense_fails() {
        let (failed, unknown) = (Wish::Answer(Status::Failed), Wish::Answer(Status::Unsupported));
        let read = |sector, room| understand(header(blk::VIRTIO_BLK_T_IN, sector), 0, &[], room);
        assert!(matches!(read(7, 512), Wish::Serve(Piece { offset_bytes: 3584, .. })));
        assert_eq!(read(7, 513), failed);
        assert_eq!(read(u64::MAX, 512), failed);
        assert_eq!(read(0, TRANSFER_BYTES_MAX + 512), failed);
        assert_eq!(understand(header(99, 0), 0, &[], 0), unknown);
        let zeroes = |bytes: &[u8]| {
            understand(header(blk::VIRTIO_BLK_T_WRITE_ZEROES, 0), bytes.len() as u64, bytes, 0)
        };
        let range = |sectors: u32, flags: u32| {
            [vec![1, 0, 0, 0, 0, 0, 0, 0], sectors.to_le_bytes().into(), flags.to_le_bytes().into()]
                .concat()
        };
        assert!(matches!(zeroes(&range(2, 1)), Wish::Serve(Piece { flags: 0, .. })));
        assert!(matches!(zeroes(&range(2, 0)), Wish::Serve(Piece { length_bytes: 1024, .. })));
        assert_eq!(zeroes(&range(2, 2)), unknown);
        assert_eq!(zeroes(&range(u32::MAX, 0)), failed);
        assert_eq!(zeroes(&range(2, 0)[..15]), failed);
    }
}
