//! Fields of messages: big-endian numbers and byte strings of a known length.

/// Fields of a message that are not parsed yet; each call takes one off the front.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*field)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.chunk().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.chunk().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.chunk().map(u64::from_be_bytes)
    }

    /// Take `length` bytes.
    pub(super) fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (field, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(field)
    }

    /// Take a string after its length (32 bits).
    pub(super) fn string(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.bytes(usize::try_from(length).ok()?)
    }

    /// Take all remaining bytes.
    pub(super) fn rest(self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

/// Return the length of something that was bounded before, as the wire has it.
pub(super) fn length_u32(length: usize) -> u32 {
    u32::try_from(length).expect("every message is bounded far below 4 GiB")
}

/// Appends fields to a message.
pub(super) trait Put {
    fn put_u16(&mut self, value: u16);
    fn put_u32(&mut self, value: u32);
    fn put_u64(&mut self, value: u64);
}

impl Put for Vec<u8> {
    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_be_bytes());
    }
}
