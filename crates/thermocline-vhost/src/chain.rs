//! Location of a request's bytes: a chain of descriptors in the guest's memory.
//!
//! The guest can change the chain while it is read, and can have written anything: each number is read
//! once and checked, and the walk ends after as many steps as there are descriptors.

use virtio_bindings::virtio_ring::VRING_DESC_F_INDIRECT;
use virtio_queue::desc::split::Descriptor;
use vm_memory::{Address as _, Bytes as _, GuestAddress, GuestMemoryMmap};

/// Descriptors of one request, those of an indirect table included.
const DESCRIPTORS_MAX: u32 = 1024;
const DESCRIPTOR_BYTES: u32 = 16;

/// A stretch of the guest's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    address: GuestAddress,
    length_bytes: u32,
}

/// Bytes of the guest, and after them room for the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chain {
    pub(crate) readable: Vec<Segment>,
    pub(crate) writable: Vec<Segment>,
}

/// A chain that makes no sense, as far as it was understood: its last byte may still take a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) Chain);

impl Chain {
    /// Walks along the chain that begins with a descriptor of a table of so many.
    pub(crate) fn walk(
        memory: &GuestMemoryMmap,
        table: GuestAddress,
        descriptors: u16,
        head: u16,
    ) -> Result<Self, Malformed> {
        let mut chain = Self::default();
        match chain.follow(memory, table, descriptors, head) {
            Some(()) => Ok(chain),
            None => Err(Malformed(chain)),
        }
    }

    fn follow(
        &mut self,
        memory: &GuestMemoryMmap,
        mut table: GuestAddress,
        descriptors: u16,
        head: u16,
    ) -> Option<()> {
        let (mut count, mut index, mut is_indirect) = (u32::from(descriptors), head, false);
        // The guest may have made a circle of the chain.
        for _ in 0..DESCRIPTORS_MAX {
            if u32::from(index) >= count {
                return None;
            }
            let address = table.checked_add(u64::from(index) * u64::from(DESCRIPTOR_BYTES))?;
            let descriptor: Descriptor = memory.read_obj(address).ok()?;
            if u32::from(descriptor.flags()) & VRING_DESC_F_INDIRECT != 0 {
                let is_table = descriptor.len().is_multiple_of(DESCRIPTOR_BYTES);
                // VIRTIO 1.2, section 2.7.5.3: no table lies within a table, and nothing follows one.
                if is_indirect || !is_table || descriptor.has_next() {
                    return None;
                }
                (table, count) = (descriptor.addr(), descriptor.len() / DESCRIPTOR_BYTES);
                (index, is_indirect) = (0, true);
                continue;
            }
            let segment = Segment { address: descriptor.addr(), length_bytes: descriptor.len() };
            // VIRTIO 1.2, section 2.7.4: all that the device writes comes after what it reads.
            if descriptor.is_write_only() {
                self.writable.push(segment);
            } else if self.writable.is_empty() {
                self.readable.push(segment);
            } else {
                return None;
            }
            if !descriptor.has_next() {
                return Some(());
            }
            index = descriptor.next();
        }
        None
    }
}

/// Return the number of bytes that lie in some segments.
pub(crate) fn length_bytes(segments: &[Segment]) -> u64 {
    segments.iter().map(|segment| u64::from(segment.length_bytes)).sum()
}

/// Calls `copy` with the address and the range of `bytes` for each part of a range of segments. Returns
/// `true` if all of it lies within them, and could be copied.
fn each_part(
    segments: &[Segment],
    mut skip_bytes: u64,
    wanted: usize,
    mut copy: impl FnMut(GuestAddress, std::ops::Range<usize>) -> bool,
) -> bool {
    let mut done = 0;
    for segment in segments {
        let length = u64::from(segment.length_bytes);
        if skip_bytes >= length {
            skip_bytes -= length;
            continue;
        }
        if done == wanted {
            break;
        }
        let here = usize::try_from(length - skip_bytes).unwrap_or(usize::MAX).min(wanted - done);
        let Some(address) = segment.address.checked_add(skip_bytes) else { return false };
        if !copy(address, done..done + here) {
            return false;
        }
        (done, skip_bytes) = (done + here, 0);
    }
    done == wanted
}

/// Reads from a place in segments.
#[must_use]
pub(crate) fn read(
    memory: &GuestMemoryMmap,
    segments: &[Segment],
    skip_bytes: u64,
    target: &mut [u8],
) -> bool {
    each_part(segments, skip_bytes, target.len(), |address, range| {
        memory.read_slice(&mut target[range], address).is_ok()
    })
}

/// Writes to a place in segments.
#[must_use]
pub(crate) fn write(
    memory: &GuestMemoryMmap,
    segments: &[Segment],
    skip_bytes: u64,
    bytes: &[u8],
) -> bool {
    each_part(segments, skip_bytes, bytes.len(), |address, range| {
        memory.write_slice(&bytes[range], address).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TABLE: u64 = 0x1000;

    fn memory() -> GuestMemoryMmap {
        GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 0x1_0000)]).unwrap()
    }

    /// Address, length, flags (1 next, 2 writable, 4 indirect), next.
    type Raw = (u64, u32, u16, u16);

    fn put(memory: &GuestMemoryMmap, table: u64, descriptors: &[Raw]) {
        for (place, &(address, length, flags, next)) in (0_u64..).zip(descriptors) {
            let descriptor = Descriptor::new(address, length, flags, next);
            memory.write_obj(descriptor, GuestAddress(table + place * 16)).unwrap();
        }
    }

    fn walk(memory: &GuestMemoryMmap, head: u16) -> Result<Chain, Malformed> {
        Chain::walk(memory, GuestAddress(TABLE), 8, head)
    }

    #[test]
    fn chains_lead_through_tables() {
        let memory = memory();
        put(&memory, TABLE, &[(0x2000, 48, 4, 0), (0x9000, 1, 2, 0)]);
        put(&memory, 0x2000, &[(0x3000, 16, 1, 2), (0x4000, 1, 2, 0), (0x5000, 9, 3, 1)]);
        let chain = walk(&memory, 0).unwrap();
        assert_eq!((chain.readable.len(), length_bytes(&chain.writable)), (1, 10));
        assert!(write(&memory, &chain.writable, 8, &[7, 8]));
        assert_eq!(memory.read_obj::<u8>(GuestAddress(0x5008)).unwrap(), 7);
        assert_eq!(memory.read_obj::<u8>(GuestAddress(0x4000)).unwrap(), 8);
        assert!(!write(&memory, &chain.writable, 9, &[7, 8]), "there is no room for both");
        assert_eq!(length_bytes(&walk(&memory, 1).unwrap().writable), 1);
    }

    #[test]
    fn chains_that_make_no_sense_end() {
        let memory = memory();
        for (name, table) in [
            ("a circle", vec![(0x3000, 1, 1, 1), (0x3000, 1, 1, 0)]),
            ("a next that is none", vec![(0x3000, 1, 1, 8)]),
            ("readable behind writable", vec![(0x3000, 1, 3, 1), (0x3000, 1, 0, 0)]),
            ("a table in a table", vec![(TABLE, 16, 4, 0)]),
            ("an empty table", vec![(0x2000, 0, 4, 0)]),
            ("a table of no whole descriptors", vec![(0x2000, 24, 4, 0)]),
            ("a table with a next", vec![(0x2000, 16, 5, 1), (0x3000, 1, 0, 0)]),
            ("a table nowhere", vec![(u64::MAX - 8, 16, 4, 0)]),
        ] {
            put(&memory, TABLE, &table);
            assert!(walk(&memory, 0).is_err(), "{name}");
        }
        assert!(walk(&memory, 8).is_err(), "a head that is none");
    }

    proptest! {
        #[test]
        fn whatever_the_guest_writes_is_walked_to_an_end(
            table in prop::collection::vec(
                (prop_oneof![0..0x1_0100_u64, any::<u64>()], 0..5000_u32, 0..8_u16, 0..10_u16), 8),
            head in 0..10_u16,
        ) {
            let memory = memory();
            put(&memory, TABLE, &table);
            let chain = walk(&memory, head).unwrap_or_else(|Malformed(chain)| chain);
            let mut bytes = vec![0; 9000];
            for segments in [&chain.readable, &chain.writable] {
                if read(&memory, segments, 5, &mut bytes) {
                    prop_assert!(length_bytes(segments) >= 9005);
                }
            }
        }
    }
}
