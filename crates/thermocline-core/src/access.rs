//! One page reference, and the vocabulary around it.

/// A page, renumbered densely in order of first appearance.
///
/// Policies index their tables with it, so ids should be as dense as the driver can make them. The
/// page number in the address space is kept aside, in [`Geometry`](crate::Geometry).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct PageId(pub u32);

impl PageId {
    /// Return the id as an index into a per-page table.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Effect of an access on its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Op {
    /// The page's bytes are wanted.
    Read = 0,
    /// The page's bytes are replaced as a whole.
    Write = 1,
}

/// One page reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// The page referenced.
    pub page: PageId,
    /// Read or write.
    pub op: Op,
    /// Client that makes the access, counted from 0; always 0 if there is one client.
    pub client: u8,
}

// Drivers keep many at hand.
const _: () = assert!(size_of::<Access>() == 8, "the client fits where nothing was");

impl Access {
    /// Create a read of `page` by client 0.
    pub const fn read(page: u32) -> Self {
        Self { page: PageId(page), op: Op::Read, client: 0 }
    }

    /// Create a write of `page` by client 0.
    pub const fn write(page: u32) -> Self {
        Self { page: PageId(page), op: Op::Write, client: 0 }
    }

    /// Return the same access by another client.
    #[must_use]
    pub const fn by(self, client: u8) -> Self {
        Self { client, ..self }
    }
}

/// A point in time or a duration, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Nanos(pub u64);
