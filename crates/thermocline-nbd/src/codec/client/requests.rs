//! Requests, as the client writes them.

use super::super::wire::Put as _;
use crate::protocol::{Command, REQUEST_MAGIC};

/// A request; a write's payload follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// The client's name for it, unique among those in flight.
    pub cookie: u64,
    /// Command.
    pub command: Command,
    /// [`crate::protocol::command_flag`]s.
    pub flags: u16,
    /// Offset, in bytes.
    pub offset_bytes: u64,
    /// Length, in bytes.
    pub length_bytes: u32,
}

impl RequestHeader {
    /// Appends it to what is sent.
    pub fn write(&self, output: &mut Vec<u8>) {
        output.put_u32(REQUEST_MAGIC);
        output.put_u16(self.flags);
        output.put_u16(self.command.to_wire());
        output.put_u64(self.cookie);
        output.put_u64(self.offset_bytes);
        output.put_u32(self.length_bytes);
    }
}
