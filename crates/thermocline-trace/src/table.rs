//! A large zeroed table on large memory pages, where the system has them.
//!
//! A table of many megabytes that is read at random misses the processor's address translation at
//! nearly every step; with pages of 2 MiB it does not. Systems without them give usual pages.

use std::alloc::{Layout, handle_alloc_error};

use memmap2::MmapMut;

/// Two numbers; a new table holds zeros.
pub(crate) type Slot = [u64; 2];

#[derive(Debug)]
pub(crate) struct Table(MmapMut);

impl Table {
    /// Create a table of `len` slots, all zero. Without memory for it the program ends, as with a
    /// vector.
    pub(crate) fn new(len: usize) -> Self {
        let layout = Layout::array::<Slot>(len).expect("a table is smaller than the address space");
        let map = MmapMut::map_anon(layout.size()).unwrap_or_else(|_| handle_alloc_error(layout));
        #[cfg(target_os = "linux")]
        {
            // A hint: a system that does not follow it is slower, not wrong.
            let _is_followed = map.advise(memmap2::Advice::HugePage).is_ok();
        }
        Self(map)
    }

    #[inline]
    pub(crate) fn slots(&self) -> &[Slot] {
        bytemuck::cast_slice(&self.0)
    }

    #[inline]
    pub(crate) fn slots_mut(&mut self) -> &mut [Slot] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}
