//! The numbers and words of the NBD protocol.
//!
//! Source: "The NBD protocol", `doc/proto.md` of the `NetworkBlockDevice` project, fixed newstyle with
//! structured replies and metadata contexts. Names in comments are those of that document.

/// `NBDMAGIC`: what a server sends first.
pub const GREETING_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`: a newstyle server, and each option of a client.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Before each reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// `NBD_REQUEST_MAGIC`.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// `NBD_SIMPLE_REPLY_MAGIC`.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// `NBD_STRUCTURED_REPLY_MAGIC`.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Bytes of a greeting: two magic numbers and the handshake flags.
pub const GREETING_BYTES: usize = 18;
/// Bytes of the client's flags.
pub const CLIENT_FLAGS_BYTES: usize = 4;
/// Bytes before the data of an option.
pub const OPTION_HEADER_BYTES: usize = 16;
/// Bytes before the data of a reply to an option.
pub const OPTION_REPLY_HEADER_BYTES: usize = 20;
/// Bytes of a request without its payload.
pub const REQUEST_BYTES: usize = 28;
/// Bytes of a simple reply without its payload.
pub const SIMPLE_REPLY_BYTES: usize = 16;
/// Bytes of the header of a structured reply chunk.
pub const CHUNK_HEADER_BYTES: usize = 20;
/// Zeroes after the answer to `NBD_OPT_EXPORT_NAME`, unless both sides do without.
pub const EXPORT_PADDING_BYTES: usize = 124;

/// The longest string that the protocol allows, in bytes.
pub const STRING_BYTES_MAX: usize = 4096;
/// The longest option whose data a server looks at, in bytes; longer ones are refused unread.
pub const OPTION_BYTES_MAX: usize = 16 << 10;
/// The longest payload of one request or reply, in bytes: what every client may use.
pub const TRANSFER_BYTES_MAX: u32 = 32 << 20;

/// Handshake flags, of the server (16 bits) and the client (32 bits).
pub mod handshake_flag {
    /// `NBD_FLAG_FIXED_NEWSTYLE`.
    pub const FIXED_NEWSTYLE: u16 = 1 << 0;
    /// `NBD_FLAG_NO_ZEROES`.
    pub const NO_ZEROES: u16 = 1 << 1;
}

/// Transmission flags: what an export can do.
pub mod transmission_flag {
    /// `NBD_FLAG_HAS_FLAGS`, always set.
    pub const HAS_FLAGS: u16 = 1 << 0;
    /// `NBD_FLAG_READ_ONLY`.
    pub const READ_ONLY: u16 = 1 << 1;
    /// `NBD_FLAG_SEND_FLUSH`.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// `NBD_FLAG_SEND_FUA`.
    pub const SEND_FUA: u16 = 1 << 3;
    /// `NBD_FLAG_ROTATIONAL`.
    pub const ROTATIONAL: u16 = 1 << 4;
    /// `NBD_FLAG_SEND_TRIM`.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// `NBD_FLAG_SEND_WRITE_ZEROES`.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// `NBD_FLAG_SEND_DF`, only with structured replies.
    pub const SEND_DF: u16 = 1 << 7;
    /// `NBD_FLAG_CAN_MULTI_CONN`.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// `NBD_FLAG_SEND_CACHE`.
    pub const SEND_CACHE: u16 = 1 << 10;
    /// `NBD_FLAG_SEND_FAST_ZERO`.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Command flags: how a request is to be done.
pub mod command_flag {
    /// `NBD_CMD_FLAG_FUA`: durable before it is answered.
    pub const FUA: u16 = 1 << 0;
    /// `NBD_CMD_FLAG_NO_HOLE`: zeroes that stay allocated.
    pub const NO_HOLE: u16 = 1 << 1;
    /// `NBD_CMD_FLAG_DF`: one content chunk.
    pub const DF: u16 = 1 << 2;
    /// `NBD_CMD_FLAG_REQ_ONE`: one extent.
    pub const REQ_ONE: u16 = 1 << 3;
    /// `NBD_CMD_FLAG_FAST_ZERO`: refuse if it is no faster than a write.
    pub const FAST_ZERO: u16 = 1 << 4;
    /// The client held what it writes; only of clients that [cooperate](super::cooperation).
    pub const HELD: u16 = 1 << 15;
    /// The client that attaches takes pages that it did not ask for, see
    /// [`PUSHES_NAME`](super::cooperation::PUSHES_NAME).
    pub const TAKES_PUSHES: u16 = 1 << 15;
    /// The number of this command goes with the page that the client gives up next; without the flag it is a
    /// measure of the client's cache. Only of clients that take pages which they did not ask for.
    pub const CARRIED: u16 = 1 << 15;
}

/// An extension by which clients that cache what they read and write tell the server so.
///
/// It is negotiated like a metadata context, and adds five commands, whose numbers are far from those of the
/// protocol. `docs/two-hosts.md` describes it.
pub mod cooperation {
    /// The name that a client selects to cooperate. No block status comes of it.
    pub const CONTEXT_NAME: &str = "x-thermocline:cooperation";
    /// The number by which the server confirms that, by which it names pages to be given up, and by which it
    /// says which pages the client keeps.
    pub const CONTEXT_ID: u32 = 3;
    /// The name that a client selects besides, if it takes pages that it did not ask for: the answer to
    /// [`Command::Demote`](super::Command::Demote) may bring one. Servers and clients that do not know this
    /// name do without.
    pub const PUSHES_NAME: &str = "x-thermocline:pushes";
    /// The number by which the server confirms that, and by which it names such a page.
    pub const PUSHES_ID: u32 = 4;
    /// The number of the first command; the others follow.
    pub const FIRST_COMMAND: u16 = 0x7463;
    /// The greatest number of pages that one answer names.
    pub const RECALLS_MAX: usize = 1024;
    /// The longest page, in bytes: as a client's smallest block. Every page is a power of two.
    pub const PAGE_BYTES_MAX: u32 = 64 << 10;
}

/// Option numbers, as on the wire.
pub mod option {
    /// `NBD_OPT_EXPORT_NAME`.
    pub const EXPORT_NAME: u32 = 1;
    /// `NBD_OPT_ABORT`.
    pub const ABORT: u32 = 2;
    /// `NBD_OPT_LIST`.
    pub const LIST: u32 = 3;
    /// `NBD_OPT_STARTTLS`.
    pub const START_TLS: u32 = 5;
    /// `NBD_OPT_INFO`.
    pub const INFO: u32 = 6;
    /// `NBD_OPT_GO`.
    pub const GO: u32 = 7;
    /// `NBD_OPT_STRUCTURED_REPLY`.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// `NBD_OPT_LIST_META_CONTEXT`.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// `NBD_OPT_SET_META_CONTEXT`.
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Types of replies to options.
pub mod option_reply {
    /// `NBD_REP_ACK`.
    pub const ACK: u32 = 1;
    /// `NBD_REP_SERVER`.
    pub const SERVER: u32 = 2;
    /// `NBD_REP_INFO`.
    pub const INFO: u32 = 3;
    /// `NBD_REP_META_CONTEXT`.
    pub const META_CONTEXT: u32 = 4;
    /// The bit that all errors have.
    pub const ERROR_BIT: u32 = 1 << 31;
    /// `NBD_REP_ERR_UNSUP`.
    pub const UNSUPPORTED: u32 = ERROR_BIT + 1;
    /// `NBD_REP_ERR_POLICY`.
    pub const POLICY: u32 = ERROR_BIT + 2;
    /// `NBD_REP_ERR_INVALID`.
    pub const INVALID: u32 = ERROR_BIT + 3;
    /// `NBD_REP_ERR_TLS_REQD`.
    pub const TLS_REQUIRED: u32 = ERROR_BIT + 5;
    /// `NBD_REP_ERR_UNKNOWN`.
    pub const UNKNOWN: u32 = ERROR_BIT + 6;
    /// `NBD_REP_ERR_SHUTDOWN`.
    pub const SHUTDOWN: u32 = ERROR_BIT + 7;
    /// `NBD_REP_ERR_TOO_BIG`.
    pub const TOO_BIG: u32 = ERROR_BIT + 9;
}

/// Information types of `NBD_OPT_INFO` and `NBD_OPT_GO`.
pub mod info {
    /// `NBD_INFO_EXPORT`.
    pub const EXPORT: u16 = 0;
    /// `NBD_INFO_NAME`.
    pub const NAME: u16 = 1;
    /// `NBD_INFO_DESCRIPTION`.
    pub const DESCRIPTION: u16 = 2;
    /// `NBD_INFO_BLOCK_SIZE`.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Types and flags of structured reply chunks.
pub mod chunk {
    /// `NBD_REPLY_FLAG_DONE`.
    pub const DONE: u16 = 1 << 0;
    /// `NBD_REPLY_TYPE_NONE`.
    pub const NONE: u16 = 0;
    /// `NBD_REPLY_TYPE_OFFSET_DATA`.
    pub const OFFSET_DATA: u16 = 1;
    /// `NBD_REPLY_TYPE_OFFSET_HOLE`.
    pub const OFFSET_HOLE: u16 = 2;
    /// `NBD_REPLY_TYPE_BLOCK_STATUS`.
    pub const BLOCK_STATUS: u16 = 5;
    /// The bit that all error chunks have.
    pub const ERROR_BIT: u16 = 1 << 15;
    /// `NBD_REPLY_TYPE_ERROR`.
    pub const ERROR: u16 = ERROR_BIT + 1;
}

/// Command of a client, in the order of the wire's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// `NBD_CMD_READ`.
    Read,
    /// `NBD_CMD_WRITE`.
    Write,
    /// `NBD_CMD_DISC`: the client leaves; there is no reply.
    Disconnect,
    /// `NBD_CMD_FLUSH`.
    Flush,
    /// `NBD_CMD_TRIM`.
    Trim,
    /// `NBD_CMD_CACHE`: prefetch.
    Cache,
    /// `NBD_CMD_WRITE_ZEROES`.
    WriteZeroes,
    /// `NBD_CMD_BLOCK_STATUS`.
    BlockStatus,
    /// A client begins to [cooperate](cooperation), and says who it is: the upper half of the offset is a
    /// number of its choice, the lower half the pages of its cache, and the length is that of a page.
    Attach,
    /// A client has given up the pages that the last answer named, and waits for the next ones.
    Await,
    /// A client gives up a clean page, whose content follows.
    Demote,
    /// A client gives up clean pages without their content.
    Release,
    /// A client reports on its cache, for the requests that follow: the offset is the measure of its policy,
    /// the length the number of its hits since its last report.
    Tell,
}

impl Command {
    /// Every command of clients that [cooperate](cooperation), in the order of their numbers.
    pub const COOPERATION: [Self; 5] =
        [Self::Attach, Self::Await, Self::Demote, Self::Release, Self::Tell];

    /// Every command of the protocol; the place is the number on the wire.
    pub const ALL: [Self; 8] = [
        Self::Read,
        Self::Write,
        Self::Disconnect,
        Self::Flush,
        Self::Trim,
        Self::Cache,
        Self::WriteZeroes,
        Self::BlockStatus,
    ];

    /// Return the command of a number, if there is one.
    pub fn from_wire(number: u16) -> Option<Self> {
        let extra = || {
            let place = number.checked_sub(cooperation::FIRST_COMMAND)?;
            Self::COOPERATION.get(usize::from(place)).copied()
        };
        Self::ALL.get(usize::from(number)).copied().or_else(extra)
    }

    /// Return the number of the command.
    pub fn to_wire(self) -> u16 {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::Disconnect => 2,
            Self::Flush => 3,
            Self::Trim => 4,
            Self::Cache => 5,
            Self::WriteZeroes => 6,
            Self::BlockStatus => 7,
            Self::Attach => cooperation::FIRST_COMMAND,
            Self::Await => cooperation::FIRST_COMMAND + 1,
            Self::Demote => cooperation::FIRST_COMMAND + 2,
            Self::Release => cooperation::FIRST_COMMAND + 3,
            Self::Tell => cooperation::FIRST_COMMAND + 4,
        }
    }

    /// Return `true` if only clients that [cooperate](cooperation) have it.
    pub fn is_of_cooperation(self) -> bool {
        Self::COOPERATION.contains(&self)
    }

    /// Return `true` if bytes follow the request.
    pub fn has_payload(self) -> bool {
        matches!(self, Self::Write | Self::Demote)
    }

    /// Return `true` if it changes the export.
    pub fn is_write(self) -> bool {
        matches!(self, Self::Write | Self::Trim | Self::WriteZeroes)
    }
}

/// Reason why a request failed: the errors that the protocol allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// `NBD_EPERM`: the export is read-only.
    NotPermitted,
    /// `NBD_EIO`: a device failed.
    Io,
    /// `NBD_ENOMEM`.
    NoMemory,
    /// `NBD_EINVAL`: the request makes no sense.
    Invalid,
    /// `NBD_ENOSPC`: beyond the end, or no room.
    NoSpace,
    /// `NBD_EOVERFLOW`: too long to answer unfragmented.
    Overflow,
    /// `NBD_ENOTSUP`: zeroing would not be fast.
    NotSupported,
    /// `NBD_ESHUTDOWN`: the server is stopping.
    ShuttingDown,
}

impl ErrorCode {
    /// Return the number on the wire.
    pub fn to_wire(self) -> u32 {
        match self {
            Self::NotPermitted => 1,
            Self::Io => 5,
            Self::NoMemory => 12,
            Self::Invalid => 22,
            Self::NoSpace => 28,
            Self::Overflow => 75,
            Self::NotSupported => 95,
            Self::ShuttingDown => 108,
        }
    }

    /// Return the error of a number that is not zero; unknown ones count as [`ErrorCode::Invalid`],
    /// as the protocol says.
    pub fn from_wire(number: u32) -> Self {
        match number {
            1 => Self::NotPermitted,
            5 => Self::Io,
            12 => Self::NoMemory,
            28 => Self::NoSpace,
            75 => Self::Overflow,
            95 => Self::NotSupported,
            108 => Self::ShuttingDown,
            _ => Self::Invalid,
        }
    }
}

/// The sizes of requests that an export likes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    /// Every offset and length is a multiple of this power of two; at most 65,536.
    pub minimum_bytes: u32,
    /// Aligned multiples of this power of two avoid reading before writing.
    pub preferred_bytes: u32,
    /// The longest read or write.
    pub maximum_bytes: u32,
}

impl Default for BlockSizes {
    /// Any byte, pages of 4 KiB preferred, 32 MiB at most.
    fn default() -> Self {
        Self { minimum_bytes: 1, preferred_bytes: 4096, maximum_bytes: TRANSFER_BYTES_MAX }
    }
}

/// Information about an export that a client gets before it enters it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportInfo {
    /// The name that clients ask for; at most 4096 bytes.
    pub name: String,
    /// Description for human readers; empty for none.
    pub description: String,
    /// Its size, in bytes.
    pub size_bytes: u64,
    /// Capabilities: [`transmission_flag`]s.
    pub flags: u16,
    /// The sizes of requests that it likes.
    pub block_sizes: BlockSizes,
    /// `true` if clients may [cooperate](cooperation).
    pub takes_cooperation: bool,
}

impl ExportInfo {
    /// Return `true` if it refuses writes.
    pub fn is_read_only(&self) -> bool {
        self.flags & transmission_flag::READ_ONLY != 0
    }
}

/// Metadata contexts that a server offers: facts that `BLOCK_STATUS` reports of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Context {
    /// `base:allocation`: holes and zeroes, see [`allocation`].
    Allocation,
    /// `thermocline:tier`: which tiers hold a copy, see [`tier`].
    Tier,
}

impl Context {
    /// Every context.
    pub const ALL: [Self; 2] = [Self::Allocation, Self::Tier];

    /// Return its name: namespace, colon, leaf.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allocation => "base:allocation",
            Self::Tier => "thermocline:tier",
        }
    }

    /// Return the number by which replies refer to it.
    pub fn id(self) -> u32 {
        match self {
            Self::Allocation => 1,
            Self::Tier => 2,
        }
    }
}

/// Status flags of `base:allocation`.
pub mod allocation {
    /// `NBD_STATE_HOLE`: nothing is allocated.
    pub const HOLE: u32 = 1 << 0;
    /// `NBD_STATE_ZERO`: it reads as zeroes.
    pub const ZERO: u32 = 1 << 1;
}

/// Status flags of `thermocline:tier`; none set: only the disk has the extent. A service sets those
/// that it knows of: the engine says which tier would serve the pages.
pub mod tier {
    /// The newest bytes are in RAM.
    pub const RAM: u32 = 1 << 0;
    /// The newest bytes are on flash.
    pub const FLASH: u32 = 1 << 1;
    /// The disk may not have the newest bytes durably: set beside the tier that has them.
    pub const DIRTY: u32 = 1 << 2;
    /// The newest copy was lost with the flash; reads fail until the pages are written whole. Set alone.
    pub const LOST: u32 = 1 << 3;
}

/// One run of bytes that have the same status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its length, in bytes; not zero.
    pub length_bytes: u32,
    /// Its status; the context says what the bits mean.
    pub status: u32,
}
