//! One page reference, and the vocabulary around it.

/// A page, renumbered densely in order of first appearance.
///
/// Policies index their tables with it, so ids should be as dense as the driver can make them. The
/// page number in the address space is kept aside, in [`Geometry`](crate::Geometry).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct PageId(pub u32);

impl PageId {
    /// The id as an index into a per-page table.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What an access does to its page.
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
    /// Whether it is read or written.
    pub op: Op,
}

impl Access {
    /// A read of `page`.
    pub const fn read(page: u32) -> Self {
        Self { page: PageId(page), op: Op::Read }
    }

    /// A write of `page`.
    pub const fn write(page: u32) -> Self {
        Self { page: PageId(page), op: Op::Write }
    }
}

/// A point in time or a duration, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Nanos(pub u64);
