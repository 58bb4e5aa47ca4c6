//! A trace in the form that policies replay: columns of page accesses with dense ids.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use thermocline_core::{Access, Clients, ConfigError, Foresight, Geometry, Nanos, Op, PageId};

use crate::id_map::WRITE_BIT;
use crate::mapped::Mapping;
use crate::numbers::Numbers;
use crate::request::PageSize;

/// Counts taken while compiling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// Requests that address something.
    pub requests: u64,
    /// Requests that address nothing; they are in no other count and have no accesses.
    pub zero_length_requests: u64,
    /// Distinct objects, if the requests are to objects with sizes.
    #[serde(default)]
    pub objects: u64,
    /// Requests that write.
    pub write_requests: u64,
    /// Bytes asked for by reads.
    pub read_bytes: u64,
    /// Bytes asked for by writes.
    pub write_bytes: u64,
    /// Requests that begin where the previous request to the same volume ended.
    pub sequential_requests: u64,
    /// Requests earlier than the one before them.
    pub time_reversals: u64,
    /// The earliest time.
    #[serde(rename = "first_at_ns", with = "nanos")]
    pub first_at: Nanos,
    /// The latest time.
    #[serde(rename = "last_at_ns", with = "nanos")]
    pub last_at: Nanos,
}

/// One request of a compiled trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompiledRequest {
    /// Arrival time, as found in the file.
    pub at: Nanos,
    /// Its accesses, by index; never empty.
    pub accesses: Range<usize>,
}

/// A trace as page accesses.
///
/// Its columns are in memory, or in a file that is [mapped](CompiledTrace::save_mapped): the system
/// then keeps them once for all processes.
#[derive(Clone, Debug)]
pub struct CompiledTrace {
    pub(crate) path: PathBuf,
    pub(crate) page_size: PageSize,
    /// Page id and, in the top bit, whether it is written.
    pub(crate) packed: Numbers<u32>,
    /// Arrival time of each request; empty if all came at 0.
    pub(crate) at_ns: Numbers<u64>,
    /// Number of accesses each request has; empty if each has one.
    pub(crate) counts: Numbers<u32>,
    /// Client that makes each access; empty if all are client 0's.
    pub(crate) access_clients: Numbers<u8>,
    /// Number of bytes each access asks for; empty if that is not known or all ask for whole pages.
    pub(crate) access_bytes: Numbers<u32>,
    /// Number of clients, if only by name.
    pub(crate) clients: Clients,
    pub(crate) page_numbers: Numbers<u64, Arc<[u64]>>,
    /// First global page number of each volume, ascending.
    pub(crate) volume_bases: Vec<u64>,
    pub(crate) volume_names: Vec<String>,
    pub(crate) summary: Summary,
    /// Found when it is first asked for.
    pub(crate) foresight: OnceLock<Result<Arc<Foresight>, ConfigError>>,
    /// The file that its columns are in, if they are not in memory.
    pub(crate) mapping: Option<Mapping>,
}

#[expect(clippy::len_without_is_empty, reason = "a compiled trace is never empty")]
impl CompiledTrace {
    /// Return the number of accesses; at least 1.
    pub fn len(&self) -> usize {
        self.packed.len()
    }

    /// Return the access at `index`.
    ///
    /// # Panics
    /// If `index` is not less than [`len`](Self::len).
    #[inline]
    pub fn access(&self, index: usize) -> Access {
        unpack(self.packed[index], self.client_of(index))
    }

    /// Return all accesses in order.
    pub fn accesses(&self) -> impl ExactSizeIterator<Item = Access> + '_ {
        self.packed.iter().enumerate().map(|(index, &packed)| unpack(packed, self.client_of(index)))
    }

    /// Return the accesses of a range, for a trace that one client makes: cheaper to go through
    /// than those of several.
    ///
    /// # Panics
    /// If there are several clients, or the range ends behind the last access.
    #[inline]
    pub fn accesses_of_one_client(
        &self,
        range: Range<usize>,
    ) -> impl ExactSizeIterator<Item = Access> + '_ {
        assert_eq!(self.clients, Clients::ONE, "one client makes the accesses");
        self.packed[range].iter().map(|&packed| unpack(packed, 0))
    }

    /// Return the number of clients that make the accesses.
    pub const fn clients(&self) -> Clients {
        self.clients
    }

    /// Return the client that makes the access at an index.
    #[inline]
    fn client_of(&self, index: usize) -> u8 {
        self.access_clients.get(index).copied().unwrap_or(0)
    }

    /// Return the number of bytes each access asks for, if the requests are to objects and not all are
    /// for whole pages.
    pub fn access_bytes(&self) -> Option<&[u32]> {
        (!self.access_bytes.is_empty()).then_some(&self.access_bytes[..])
    }

    /// Return all accesses as `page id | is write << 31`.
    pub fn packed(&self) -> &[u32] {
        &self.packed
    }

    /// Return all requests in order.
    pub fn requests(&self) -> impl ExactSizeIterator<Item = CompiledRequest> + '_ {
        let mut begin = 0;
        (0..self.request_count()).map(move |request| {
            let (at, count) = self.request(request);
            let accesses = begin..begin + count as usize;
            begin = accesses.end;
            CompiledRequest { at, accesses }
        })
    }

    /// Return the time of a request, and its number of accesses.
    pub(crate) fn request(&self, request: usize) -> (Nanos, u32) {
        let at = Nanos(self.at_ns.get(request).copied().unwrap_or(0));
        (at, self.counts.get(request).copied().unwrap_or(1))
    }

    /// Return the number of requests.
    ///
    /// # Panics
    /// Never: every request has an access, and those are in memory.
    pub fn request_count(&self) -> usize {
        usize::try_from(self.summary.requests).expect("requests have accesses in memory")
    }

    /// Return the number of accesses that read.
    pub fn reads(&self) -> u64 {
        self.len() as u64 - self.writes()
    }

    /// Return the number of accesses that write.
    pub fn writes(&self) -> u64 {
        self.packed.iter().map(|&packed| u64::from(packed >> 31)).sum()
    }

    /// Return the number of distinct pages that are accessed.
    ///
    /// # Panics
    /// Never: compiling refuses more than 2^31 pages.
    pub fn footprint_pages(&self) -> u32 {
        u32::try_from(self.page_numbers.len()).expect("ids are 31 bits")
    }

    /// Return the global page number of every id.
    ///
    /// With one volume that is the page number itself; with several, volumes lie one after the
    /// other at multiples of 2^20 pages, so that pages of different volumes are never adjacent.
    pub fn geometry(&self) -> Geometry {
        match &self.page_numbers {
            Numbers::Owned(numbers) => Geometry::table(Arc::clone(numbers)),
            Numbers::Mapped(numbers) => Geometry::shared(Arc::new(numbers.clone())),
        }
    }

    /// Return the global page number of every id, by id.
    pub fn page_numbers(&self) -> &[u64] {
        &self.page_numbers
    }

    /// Return the volume of a page and its number within the volume.
    ///
    /// # Panics
    /// If the id is not less than [`footprint_pages`](Self::footprint_pages).
    pub fn location(&self, page: PageId) -> (u32, u64) {
        let number = self.page_numbers[page.index()];
        let volume = self.volume_bases.partition_point(|&base| base <= number) - 1;
        let within = number - self.volume_bases[volume];
        (u32::try_from(volume).expect("volumes are numbered with u32"), within)
    }

    /// Return the original names of the volumes, by number.
    pub fn volume_names(&self) -> &[String] {
        &self.volume_names
    }

    /// Return the page size.
    pub const fn page_size(&self) -> PageSize {
        self.page_size
    }

    /// Return the page size in bytes.
    pub const fn page_size_bytes(&self) -> u64 {
        self.page_size.bytes()
    }

    /// Return the file, or the name that stands for it in messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Return the next access to each access's page, for oracles. It is found once, in one pass
    /// from the end, takes 8 bytes per access, and stays with the trace.
    ///
    /// # Errors
    /// [`ConfigError::TooManyAccesses`] if the trace is longer than can be foreseen.
    pub fn foresight(&self) -> Result<Arc<Foresight>, ConfigError> {
        let find = || {
            let pages = self.packed.iter().map(|&packed| unpack(packed, 0).page);
            Foresight::new(self.footprint_pages(), pages).map(Arc::new)
        };
        self.foresight.get_or_init(find).clone()
    }

    /// Return `true` if any request has a time other than 0.
    pub fn is_timed(&self) -> bool {
        !self.at_ns.is_empty()
    }

    /// Return the counts taken while compiling.
    pub const fn summary(&self) -> &Summary {
        &self.summary
    }
}

#[inline]
const fn unpack(packed: u32, client: u8) -> Access {
    let op = if packed & WRITE_BIT == 0 { Op::Read } else { Op::Write };
    Access { page: PageId(packed & !WRITE_BIT), op, client }
}

/// Times as plain numbers.
mod nanos {
    use serde::{Deserialize as _, Deserializer, Serializer};
    use thermocline_core::Nanos;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    pub(super) fn serialize<S: Serializer>(at: &Nanos, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(at.0)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Nanos, D::Error> {
        u64::deserialize(from).map(Nanos)
    }
}
