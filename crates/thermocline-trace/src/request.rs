//! One request as a client sent it, whatever the format it was found in.

use thermocline_core::{Nanos, Op};

/// Addresses in bytes end at or below this.
pub const ADDRESS_BYTES_MAX: u64 = 1 << 63;

/// No request may touch more pages than this.
pub const REQUEST_PAGES_MAX: u64 = 1 << 24;

/// Request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Arrival time in nanoseconds, as found in the file: absolute times stay absolute, formats
    /// without times have 0 everywhere.
    pub at: Nanos,
    /// Read or write.
    pub op: Op,
    /// Volume, numbered in order of first appearance.
    pub volume: u32,
    /// Part of the volume.
    pub extent: Extent,
}

/// A part of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Bytes, in formats that address bytes or sectors.
    Bytes {
        /// Start.
        offset: u64,
        /// Length; `offset + length` is at most 2^63.
        length: u64,
    },
    /// Pages, in formats that number pages.
    Pages {
        /// The first page's number.
        first: u64,
        /// Number of pages; `first + count` does not overflow.
        count: u64,
    },
    /// Part of an object, in formats of objects with sizes: each object is an address space of its
    /// own.
    Object {
        /// Number of the object in the volume.
        id: u64,
        /// Start within the object.
        offset: u64,
        /// Length; `offset + length` is at most 2^63.
        length: u64,
    },
}

impl Extent {
    /// Return `true` if nothing is addressed.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        match self {
            Self::Bytes { length, .. } | Self::Object { length, .. } => *length == 0,
            Self::Pages { count, .. } => *count == 0,
        }
    }

    /// Return the start: in bytes or page numbers, and for an object in a number that only its
    /// [`end`](Self::end) is compared with.
    #[inline]
    pub const fn start(&self) -> u64 {
        match self {
            Self::Bytes { offset, .. } => *offset,
            Self::Pages { first, .. } => *first,
            Self::Object { id, offset, .. } => scattered(*id).wrapping_add(*offset),
        }
    }

    /// Return the start of an extent that continues this one.
    #[inline]
    pub const fn end(&self) -> u64 {
        match self {
            Self::Bytes { offset, length } => offset.wrapping_add(*length),
            Self::Pages { first, count } => first.wrapping_add(*count),
            Self::Object { id, offset, length } => {
                scattered(*id).wrapping_add(*offset).wrapping_add(*length)
            }
        }
    }

    /// Return the same extent where the pages of all objects are numbered in one address space.
    /// Objects get places by a hash, so two of them share a page with a chance of about 2^-45 for
    /// each pair.
    #[must_use]
    pub const fn in_one_space(self, page_size: PageSize) -> Self {
        match self {
            Self::Object { id, .. } => {
                let (first, count) = page_size.pages(self);
                // Room for 2^17 pages without a carry, and for all pages below 2^63.
                let base = scattered(id) >> 18 << 17;
                Self::Pages { first: base.wrapping_add(first), count }
            }
            Self::Bytes { .. } | Self::Pages { .. } => self,
        }
    }
}

/// Return a number in place of the id of an object, so that neighbouring ids are far apart.
const fn scattered(id: u64) -> u64 {
    let mixed = (id ^ (id >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// A page size that is known to be usable: a power of two from 512 B to 16 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSize {
    shift: u32,
}

impl PageSize {
    /// 4 KiB, the unit when a trace does not say otherwise.
    pub const DEFAULT: Self = Self { shift: 12 };

    /// 128 KiB, the unit of caches of large blocks.
    pub(crate) const LARGE: Self = Self { shift: 17 };

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

    /// Return the page size in bytes.
    pub const fn bytes(self) -> u64 {
        1 << self.shift
    }

    /// Return the pages that `extent` touches, as first page number and count.
    ///
    /// Pages are pages whatever their size: page-numbered extents are returned as they are. The pages
    /// of an object are numbered within it.
    #[inline]
    pub const fn pages(self, extent: Extent) -> (u64, u64) {
        match extent {
            Extent::Pages { first, count } => (first, count),
            Extent::Bytes { offset, length: 0 } | Extent::Object { offset, length: 0, .. } => {
                (offset >> self.shift, 0)
            }
            Extent::Bytes { offset, length } | Extent::Object { offset, length, .. } => {
                let first = offset >> self.shift;
                (first, ((offset + (length - 1)) >> self.shift) - first + 1)
            }
        }
    }

    /// Return the range of `extent` in bytes, or `None` if a page number is too large for that, or
    /// it is a part of an object, which has no address.
    pub fn byte_range(self, extent: Extent) -> Option<(u64, u64)> {
        match extent {
            Extent::Bytes { offset, length } => Some((offset, length)),
            Extent::Pages { first, count } => {
                let end = first.checked_add(count)?.checked_mul(self.bytes())?;
                (end <= ADDRESS_BYTES_MAX).then(|| (first << self.shift, count << self.shift))
            }
            Extent::Object { .. } => None,
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

/// Source of requests: a [`Reader`](crate::Reader), a [`Generator`](crate::generate::Generator).
pub trait Requests {
    /// Replaces `batch` by the next requests; `false` and an empty batch at the end.
    ///
    /// # Errors
    /// If the source is unreadable, malformed, or ends without any request.
    fn read_batch(&mut self, batch: &mut Vec<Request>) -> Result<bool, crate::TraceError>;

    /// Return the names of the volumes seen so far; a request's `volume` indexes it.
    fn volume_names(&self) -> &[String];

    /// Return the file, or a name that stands for it in messages.
    fn path(&self) -> &std::path::Path;
}

impl<R: Requests + ?Sized> Requests for &mut R {
    fn read_batch(&mut self, batch: &mut Vec<Request>) -> Result<bool, crate::TraceError> {
        (**self).read_batch(batch)
    }

    fn volume_names(&self) -> &[String] {
        (**self).volume_names()
    }

    fn path(&self) -> &std::path::Path {
        (**self).path()
    }
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
