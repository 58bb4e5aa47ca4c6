//! The places that can hold pages, fastest first.

/// How many tiers a hierarchy may have, the disk included.
pub const TIERS_MAX: usize = 9;

/// A tier by its position in the hierarchy: 0 is the fastest, the last one is the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Tier(pub u8);

impl Tier {
    /// The RAM of a `ram, flash, disk` hierarchy.
    pub const RAM: Self = Self(0);
    /// The flash of a `ram, flash, disk` hierarchy.
    pub const FLASH: Self = Self(1);
    /// The disk of a `ram, flash, disk` hierarchy.
    pub const DISK: Self = Self(2);

    /// The tier as an index into a per-tier table.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
