//! One request as a client sent it, whatever the format it was found in.

use thermocline_core::{Nanos, Op};

/// Addresses in bytes end at or below this.
pub const ADDRESS_BYTES_MAX: u64 = 1 << 63;

/// No request may touch more pages than this.
pub const REQUEST_PAGES_MAX: u64 = 1 << 24;

/// What a client asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When, in nanoseconds, as found in the file: absolute times stay absolute, formats without
    /// times have 0 everywhere.
    pub at: Nanos,
    /// Which direction.
    pub op: Op,
    /// Which volume, numbered in order of first appearance.
    pub volume: u32,
    /// Which part of the volume.
    pub extent: Extent,
}

/// A part of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// In formats that address bytes or sectors.
    Bytes {
        /// Where it begins.
        offset: u64,
        /// How long it is; `offset + length` is at most 2^63.
        length: u64,
    },
    /// In formats that number pages.
    Pages {
        /// The first page's number.
        first: u64,
        /// How many pages; `first + count` does not overflow.
        count: u64,
    },
}

impl Extent {
    /// Whether nothing is addressed.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        match self {
            Self::Bytes { length, .. } => *length == 0,
            Self::Pages { count, .. } => *count == 0,
        }
    }

    /// Where it begins, in bytes or page numbers.
    #[inline]
    pub const fn start(&self) -> u64 {
        match self {
            Self::Bytes { offset, .. } => *offset,
            Self::Pages { first, .. } => *first,
        }
    }

    /// Where the next extent would begin, in bytes or page numbers.
    #[inline]
    pub const fn end(&self) -> u64 {
        match self {
            Self::Bytes { offset, length } => offset.wrapping_add(*length),
            Self::Pages { first, count } => first.wrapping_add(*count),
        }
    }
}

/// A page size that is known to be usable: a power of two from 512 B to 16 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSize {
    shift: u32,
}

impl PageSize {
    /// 4 KiB, the unit when a trace does not say otherwise.
    pub const DEFAULT: Self = Self { shift: 12 };

    /// Checks a page size.
    ///
    /// # Errors
    /// If it is not a power of two from 512 to 16,777,216 (16 MiB).
    pub fn new(page_size_bytes: u64) -> Result<Self, crate::TraceError> {
        if !page_size_bytes.is_power_of_two() || !(512..=1 << 24).contains(&page_size_bytes) {
            return Err(crate::TraceError::PageSize { page_size_bytes });
        }
        Ok(Self { shift: page_size_bytes.trailing_zeros() })
    }

    /// The page size in bytes.
    pub const fn bytes(self) -> u64 {
        1 << self.shift
    }

    /// The pages that `extent` touches, as first page number and count.
    ///
    /// Pages are pages whatever their size: page-numbered extents are returned as they are.
    #[inline]
    pub const fn pages(self, extent: Extent) -> (u64, u64) {
        match extent {
            Extent::Pages { first, count } => (first, count),
            Extent::Bytes { offset, length: 0 } => (offset >> self.shift, 0),
            Extent::Bytes { offset, length } => {
                let first = offset >> self.shift;
                (first, ((offset + (length - 1)) >> self.shift) - first + 1)
            }
        }
    }

    /// Where `extent` lies in bytes, or `None` if a page number is too large for that.
    pub fn byte_range(self, extent: Extent) -> Option<(u64, u64)> {
        match extent {
            Extent::Bytes { offset, length } => Some((offset, length)),
            Extent::Pages { first, count } => {
                let end = first.checked_add(count)?.checked_mul(self.bytes())?;
                (end <= ADDRESS_BYTES_MAX).then(|| (first << self.shift, count << self.shift))
            }
        }
    }
}

impl std::str::FromStr for PageSize {
    type Err = crate::TraceError;

    /// Reads a page size as users write it: `4096`, `4KiB`, `1MiB`.
    fn from_str(text: &str) -> Result<Self, crate::TraceError> {
        let (number, factor) = [("KiB", 1024), ("MiB", 1 << 20), ("B", 1)]
            .iter()
            .find_map(|&(unit, factor)| Some((text.strip_suffix(unit)?, factor)))
            .unwrap_or((text, 1));
        let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
        Self::new(bytes.ok_or_else(|| crate::TraceError::PageSizeText { text: text.to_owned() })?)
    }
}

impl Default for PageSize {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Anything that yields requests: a [`Reader`](crate::Reader), a
/// [`Generator`](crate::generate::Generator).
pub trait Requests {
    /// Replaces `batch` by the next requests; `false` and an empty batch at the end.
    ///
    /// # Errors
    /// If the source is unreadable, malformed, or ends without any request.
    fn read_batch(&mut self, batch: &mut Vec<Request>) -> Result<bool, crate::TraceError>;

    /// The names of the volumes seen so far; a request's `volume` indexes it.
    fn volume_names(&self) -> &[String];

    /// The file, or a name that stands for it in messages.
    fn path(&self) -> &std::path::Path;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn page_sizes_are_checked() {
        for bad in [0, 1, 256, 511, 513, 4095, (1 << 24) + 1, 1 << 25, u64::MAX] {
            assert!(PageSize::new(bad).is_err(), "{bad}");
        }
        for good in [512, 4096, 8192, 1 << 24] {
            assert_eq!(PageSize::new(good).unwrap().bytes(), good);
        }
    }

    proptest! {
        #[test]
        fn pages_cover_exactly_the_bytes(
            offset in 0_u64..1 << 40, length in 1_u64..1 << 24, shift in 9_u32..24,
        ) {
            let size = PageSize::new(1 << shift).unwrap();
            let (first, count) = size.pages(Extent::Bytes { offset, length });
            prop_assert!(first * size.bytes() <= offset);
            prop_assert!(offset < (first + 1) * size.bytes());
            prop_assert!((first + count) * size.bytes() >= offset + length);
            prop_assert!((first + count - 1) * size.bytes() < offset + length);
        }
    }

    #[test]
    fn the_largest_address_does_not_overflow() {
        let size = PageSize::new(512).unwrap();
        let extent = Extent::Bytes { offset: ADDRESS_BYTES_MAX - 1, length: 1 };
        assert_eq!(size.pages(extent), ((ADDRESS_BYTES_MAX - 1) >> 9, 1));
        assert_eq!(size.byte_range(Extent::Pages { first: u64::MAX - 1, count: 1 }), None);
    }
}
