//! The driver's structures and numbers, as `linux/ublk_cmd.h` has them.

use rustix::ioctl::opcode::{read, read_write};
use thermocline_nbd::protocol::{Command, ErrorCode, command_flag};
use thermocline_nbd::service::Piece;

/// Bytes of a sector, by which the driver counts.
pub(crate) const SECTOR_BYTES: u64 = 512;
/// The kernel resends what a killed server had not answered (`UBLK_F_USER_RECOVERY` and
/// `UBLK_F_USER_RECOVERY_REISSUE`), and bytes are copied by `pread` and `pwrite` (`UBLK_F_USER_COPY`).
pub(crate) const FEATURES: u64 = 1 << 3 | 1 << 4 | 1 << 7;
/// Bytes of `struct ublksrv_ctrl_cmd`.
const CONTROL_BYTES: usize = 32;
/// Bytes of `struct ublksrv_io_cmd`.
pub(crate) const IO_BYTES: usize = 16;
/// Bytes of `struct ublksrv_io_desc`.
pub(crate) const DESCRIPTOR_BYTES: usize = 24;
/// Bytes of `struct ublksrv_ctrl_dev_info`.
pub(crate) const INFO_BYTES: usize = 64;
/// Bytes of `struct ublk_params` up to and with `discard`.
pub(crate) const PARAMETERS_BYTES: usize = 60;
/// Bytes of their length and types, which come first.
const PARAMETERS_HEADER_BYTES: usize = 8;

/// `UBLK_MAX_QUEUE_DEPTH`, by which the descriptors of queues lie apart.
pub(crate) const QUEUE_DEPTH_MAX: u16 = 4096;
/// `UBLKSRV_IO_BUF_OFFSET`, and how far to shift the numbers of a request and of a queue.
const DATA_OFFSET: u64 = 0x8000_0000;
const TAG_SHIFT: u32 = 25;
const QUEUE_SHIFT: u32 = 41;

/// `UBLK_U_IO_FETCH_REQ` and `UBLK_U_IO_COMMIT_AND_FETCH_REQ`.
pub(crate) const FETCH: u32 = read_write::<[u8; IO_BYTES]>(b'u', 0x20);
pub(crate) const COMMIT_AND_FETCH: u32 = read_write::<[u8; IO_BYTES]>(b'u', 0x21);

/// Sectors of the longest range to be discarded or zeroed: 2 GiB, as a length has 32 bits.
const RANGE_SECTORS_MAX: u32 = 1 << 22;

/// A command at `/dev/ublk-control`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    Info,
    Add,
    Delete,
    Start,
    Stop,
    SetParameters,
    Parameters,
    StartRecovery,
    EndRecovery,
    Features,
}

impl Control {
    pub(crate) fn number(self) -> u32 {
        type Sent = [u8; CONTROL_BYTES];
        match self {
            Self::Info => read::<Sent>(b'u', 0x02),
            Self::Add => read_write::<Sent>(b'u', 0x04),
            Self::Delete => read_write::<Sent>(b'u', 0x05),
            Self::Start => read_write::<Sent>(b'u', 0x06),
            Self::Stop => read_write::<Sent>(b'u', 0x07),
            Self::SetParameters => read_write::<Sent>(b'u', 0x08),
            Self::Parameters => read::<Sent>(b'u', 0x09),
            Self::StartRecovery => read_write::<Sent>(b'u', 0x10),
            Self::EndRecovery => read_write::<Sent>(b'u', 0x11),
            Self::Features => read::<Sent>(b'u', 0x13),
        }
    }

    /// Encode `struct ublksrv_ctrl_cmd` for a device, with a buffer and a word; it belongs to no queue.
    pub(crate) fn bytes(id: u32, address: u64, length: u16, word: u64) -> [u8; 80] {
        let mut bytes = [0; 80];
        bytes[..4].copy_from_slice(&id.to_ne_bytes());
        bytes[4..6].copy_from_slice(&u16::MAX.to_ne_bytes());
        bytes[6..8].copy_from_slice(&length.to_ne_bytes());
        bytes[8..16].copy_from_slice(&address.to_ne_bytes());
        bytes[16..24].copy_from_slice(&word.to_ne_bytes());
        bytes
    }
}

/// Encode `struct ublksrv_io_cmd` with the result of a request that is committed. The address stays zero,
/// because bytes are copied.
pub(crate) fn io_command(queue: u16, tag: u16, result: i32) -> [u8; IO_BYTES] {
    let mut bytes = [0; IO_BYTES];
    bytes[..2].copy_from_slice(&queue.to_ne_bytes());
    bytes[2..4].copy_from_slice(&tag.to_ne_bytes());
    bytes[4..8].copy_from_slice(&result.to_ne_bytes());
    bytes
}

/// Return the position of a request's bytes in the device of the queues.
pub(crate) fn data_position(queue: u16, tag: u16, start_bytes: u32) -> u64 {
    let place = u64::from(queue) << QUEUE_SHIFT | u64::from(tag) << TAG_SHIFT;
    DATA_OFFSET + place + u64::from(start_bytes)
}

fn word<const N: usize>(bytes: &[u8], place: usize) -> [u8; N] {
    bytes[place..place + N].try_into().expect("the structure is longer")
}

/// Present state of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It was never started, or was stopped.
    Dead,
    Live,
    /// Its server is gone, and its requests wait.
    Quiesced,
    /// One that is newer than this.
    Other(u16),
}

/// The fields of `struct ublksrv_ctrl_dev_info` that mean something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Info {
    pub(crate) queues: u16,
    pub(crate) depth: u16,
    pub(crate) state: State,
    pub(crate) transfer_bytes_max: u32,
    pub(crate) id: u32,
    pub(crate) pid: i32,
    pub(crate) features: u64,
    /// The driver keeps this for servers: what the device belongs to.
    pub(crate) owner: u64,
}

impl Info {
    pub(crate) fn to_bytes(self) -> [u8; INFO_BYTES] {
        let mut bytes = [0; INFO_BYTES];
        let state = match self.state {
            State::Dead => 0,
            State::Live => 1,
            State::Quiesced => 2,
            State::Other(state) => state,
        };
        bytes[..2].copy_from_slice(&self.queues.to_ne_bytes());
        bytes[2..4].copy_from_slice(&self.depth.to_ne_bytes());
        bytes[4..6].copy_from_slice(&state.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.transfer_bytes_max.to_ne_bytes());
        bytes[12..16].copy_from_slice(&self.id.to_ne_bytes());
        bytes[16..20].copy_from_slice(&self.pid.to_ne_bytes());
        bytes[24..32].copy_from_slice(&self.features.to_ne_bytes());
        bytes[32..40].copy_from_slice(&self.owner.to_ne_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; INFO_BYTES]) -> Self {
        Self {
            queues: u16::from_ne_bytes(word(bytes, 0)),
            depth: u16::from_ne_bytes(word(bytes, 2)),
            state: match u16::from_ne_bytes(word(bytes, 4)) {
                0 => State::Dead,
                1 => State::Live,
                2 => State::Quiesced,
                state => State::Other(state),
            },
            transfer_bytes_max: u32::from_ne_bytes(word(bytes, 8)),
            id: u32::from_ne_bytes(word(bytes, 12)),
            pid: i32::from_ne_bytes(word(bytes, 16)),
            features: u64::from_ne_bytes(word(bytes, 24)),
            owner: u64::from_ne_bytes(word(bytes, 32)),
        }
    }
}

/// Parameters of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameters {
    pub(crate) sectors: u64,
    pub(crate) preferred_bytes: u32,
    pub(crate) may_write: bool,
    pub(crate) transfer_bytes_max: u32,
}

impl Parameters {
    /// Encode `struct ublk_params`. The device keeps writes until a flush, and supports FUA.
    pub(crate) fn to_bytes(self) -> [u8; PARAMETERS_BYTES] {
        let mut bytes = vec![];
        let length = u32::try_from(PARAMETERS_BYTES).expect("it is short");
        let (read_only, cache, fua) = (1_u32 << 0, 1 << 2, 1 << 3);
        let attributes = cache | fua | if self.may_write { 0 } else { read_only };
        let preferred = u64::from(self.preferred_bytes).max(SECTOR_BYTES);
        let exponent = |bytes: u64| u8::try_from(bytes.ilog2()).expect("a logarithm is small");
        let (least, liked) = (exponent(SECTOR_BYTES), exponent(preferred));
        let transfer_sectors = u64::from(self.transfer_bytes_max) / SECTOR_BYTES;
        // Basic parameters, and those of discards.
        bytes.extend([length, 1 << 0 | 1 << 1, attributes].map(u32::to_ne_bytes).concat());
        bytes.extend([least, liked, liked, liked]);
        bytes.extend(u32::try_from(transfer_sectors).expect("it was 32 bits").to_ne_bytes());
        bytes.extend(0_u32.to_ne_bytes());
        bytes.extend([self.sectors, 0].map(u64::to_ne_bytes).concat());
        let range = if self.may_write { RANGE_SECTORS_MAX } else { 0 };
        let granularity = u32::try_from(preferred).expect("it was 32 bits");
        bytes.extend([0, granularity, range, range].map(u32::to_ne_bytes).concat());
        bytes.extend([1_u16, 0].map(u16::to_ne_bytes).concat());
        bytes.try_into().expect("the fields are as many as the structure's")
    }

    /// Return `true` if the driver has the same ones; it knows of more types.
    pub(crate) fn are(self, bytes: &[u8; PARAMETERS_BYTES]) -> bool {
        self.to_bytes()[PARAMETERS_HEADER_BYTES..] == bytes[PARAMETERS_HEADER_BYTES..]
    }

    /// Return the size in the bytes of the structure.
    pub(crate) fn sectors_of(bytes: &[u8; PARAMETERS_BYTES]) -> u64 {
        u64::from_ne_bytes(word(bytes, 24))
    }
}

/// A request as the driver describes it: the first fields of `struct ublksrv_io_desc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) op_flags: u32,
    pub(crate) sectors: u32,
    pub(crate) start_sector: u64,
}

impl Descriptor {
    pub(crate) fn from_bytes(bytes: &[u8; 16]) -> Self {
        Self {
            op_flags: u32::from_ne_bytes(word(bytes, 0)),
            sectors: u32::from_ne_bytes(word(bytes, 4)),
            start_sector: u64::from_ne_bytes(word(bytes, 8)),
        }
    }

    /// Return the requested operation; `None` if it is unknown here.
    pub(crate) fn piece(self) -> Option<Piece> {
        let has = |bit: u32| self.op_flags & 1 << bit != 0;
        let is_fua = if has(13) { command_flag::FUA } else { 0 };
        let keeps = if has(15) { command_flag::NO_HOLE } else { 0 };
        let (command, flags) = match self.op_flags & 0xff {
            0 => (Command::Read, 0),
            1 => (Command::Write, is_fua),
            2 => {
                let (offset_bytes, length_bytes) = (0, 0);
                return Some(Piece {
                    command: Command::Flush,
                    flags: 0,
                    offset_bytes,
                    length_bytes,
                    cooperator: None,
                });
            }
            3 => (Command::Trim, is_fua),
            5 => (Command::WriteZeroes, is_fua | keeps),
            _ => return None,
        };
        let offset_bytes = self.start_sector.checked_mul(SECTOR_BYTES)?;
        let length_bytes = u32::try_from(u64::from(self.sectors) * SECTOR_BYTES).ok()?;
        Some(Piece { command, flags, offset_bytes, length_bytes, cooperator: None })
    }
}

/// Return the result of a request that moved so many bytes or failed.
pub(crate) fn result(outcome: Result<u32, ErrorCode>) -> i32 {
    match outcome {
        Ok(bytes) => i32::try_from(bytes).expect("a transfer is shorter than 2 GiB"),
        Err(error) => {
            let number = match error {
                ErrorCode::NotPermitted => rustix::io::Errno::PERM,
                ErrorCode::NoMemory => rustix::io::Errno::NOMEM,
                ErrorCode::NoSpace => rustix::io::Errno::NOSPC,
                ErrorCode::NotSupported => rustix::io::Errno::OPNOTSUPP,
                ErrorCode::Io
                | ErrorCode::Invalid
                | ErrorCode::Overflow
                | ErrorCode::ShuttingDown => rustix::io::Errno::IO,
            };
            -number.raw_os_error()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_the_numbers_of_the_header() {
        // By `cc` from linux/ublk_cmd.h of Linux 6.12.
        let numbers = [
            (Control::Info, 0x8020_7502),
            (Control::Add, 0xc020_7504),
            (Control::Delete, 0xc020_7505),
            (Control::Start, 0xc020_7506),
            (Control::Stop, 0xc020_7507),
            (Control::SetParameters, 0xc020_7508),
            (Control::Parameters, 0x8020_7509),
            (Control::StartRecovery, 0xc020_7510),
            (Control::EndRecovery, 0xc020_7511),
            (Control::Features, 0x8020_7513),
        ];
        for (command, number) in numbers {
            assert_eq!(command.number(), number, "{command:?}");
        }
        assert_eq!((FETCH, COMMIT_AND_FETCH), (0xc010_7520, 0xc010_7521));
    }

    #[test]
    fn structures_have_their_fields_where_the_driver_looks_for_them() {
        let info = Info {
            queues: 2,
            depth: 128,
            state: State::Quiesced,
            transfer_bytes_max: 1 << 20,
            id: 7,
            pid: 4711,
            features: FEATURES,
            owner: 0x1122_3344_5566_7788,
        };
        let bytes = info.to_bytes();
        assert_eq!(Info::from_bytes(&bytes), info);
        assert_eq!(bytes[4..6], 2_u16.to_ne_bytes());
        assert_eq!(bytes[12..16], 7_u32.to_ne_bytes());
        assert_eq!(bytes[24..32], FEATURES.to_ne_bytes());
        let control = Control::bytes(7, 99, 64, 5);
        assert_eq!(control[4..8], [0xff, 0xff, 64, 0]);
        assert_eq!(control[16..24], 5_u64.to_ne_bytes());
        assert_eq!(
            io_command(1, 2, -5),
            [1, 0, 2, 0, 0xfb, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0]
        );
        assert_eq!(data_position(0, 0, 5), 0x8000_0005);
        assert_eq!(data_position(3, 2, 0), 0x8000_0000 + (3 << 41) + (2 << 25));
    }

    #[test]
    fn parameters_are_compared_by_what_they_say() {
        let parameters = Parameters {
            sectors: 2048,
            preferred_bytes: 4096,
            may_write: true,
            transfer_bytes_max: 1 << 20,
        };
        let mut bytes = parameters.to_bytes();
        assert_eq!(bytes[..4], 60_u32.to_ne_bytes());
        assert_eq!(bytes[8..16], [0b1100, 0, 0, 0, 9, 12, 12, 12]);
        assert_eq!(bytes[16..20], 2048_u32.to_ne_bytes());
        assert_eq!(Parameters::sectors_of(&bytes), 2048);
        assert_eq!(bytes[56..], [1, 0, 0, 0]);
        bytes[4] = 7;
        assert!(parameters.are(&bytes), "the driver knows one type more");
        assert!(!Parameters { sectors: 2049, ..parameters }.are(&bytes));
        assert!(!Parameters { may_write: false, ..parameters }.are(&bytes));
    }

    #[test]
    fn requests_become_pieces() {
        let piece = |op_flags, sectors, start_sector| {
            Descriptor { op_flags, sectors, start_sector }.piece()
        };
        let expected = |command, flags, offset_bytes, length_bytes| {
            Some(Piece { command, flags, offset_bytes, length_bytes, cooperator: None })
        };
        let both = command_flag::FUA | command_flag::NO_HOLE;
        assert_eq!(piece(0, 8, 3), expected(Command::Read, 0, 1536, 4096));
        assert_eq!(piece(1 | 1 << 13, 1, 0), expected(Command::Write, command_flag::FUA, 0, 512));
        assert_eq!(piece(2, 9, 9), expected(Command::Flush, 0, 0, 0));
        assert_eq!(piece(3, 1 << 22, 0), expected(Command::Trim, 0, 0, 1 << 31));
        assert_eq!(piece(5, 1, 1), expected(Command::WriteZeroes, 0, 512, 512));
        let flags = 5 | 1 << 13 | 1 << 15;
        assert_eq!(piece(flags, 1, 1), expected(Command::WriteZeroes, both, 512, 512));
        assert_eq!(piece(4, 1, 1), None, "WRITE_SAME");
        assert_eq!(piece(0, u32::MAX, 0), None);
        assert_eq!(piece(0, 1, u64::MAX), None);
    }

    #[test]
    fn results_are_bytes_or_numbers_of_errors() {
        assert_eq!(result(Ok(4096)), 4096);
        assert_eq!(result(Err(ErrorCode::Io)), -5);
        assert_eq!(result(Err(ErrorCode::NoSpace)), -28);
    }
}
