//! Frames: page-sized, aligned pieces of one allocation, which devices read and write directly.
#![expect(unsafe_code, reason = "the kernel and worker threads fill memory that the shard owns")]

use std::alloc::{Layout, handle_alloc_error};
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::MmapMut;
use thermocline_core::prefetch;

/// Alignment of memory that devices require if they bypass the page cache.
pub const ALIGNMENT_BYTES: usize = 4096;

/// The number of the next allocation of frames.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

/// A frame by its position in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct FrameId(pub u32);

/// The memory of all frames of a shard, shared between the shard and its driver.
///
/// The shard settles who may touch a frame: a frame that is being read from a device belongs to that
/// operation alone; nobody changes a frame that is being written to a device.
/// The shard writes into a frame only while nothing else refers to it.
/// Drivers hold the [`Operation`](crate::Operation)s whose frames devices access, and give each back to
/// its shard when that is over; nobody else can make one without unsafe code.
pub struct Frames {
    base: NonNull<u8>,
    count: u32,
    frame_bytes: usize,
    /// No two allocations of a process have the same number.
    number: u64,
    /// The memory that `base` points to.
    _memory: MmapMut,
}

// SAFETY: the memory is owned by this value and freed once; who accesses which frame at which time
// is settled by the shard, as the documentation of the type says.
unsafe impl Send for Frames {}
// SAFETY: as above; no method writes a frame that another thread may access at that time.
unsafe impl Sync for Frames {}

impl Frames {
    /// Allocate `frames` frames, all zero. The system has memory for all of them, in huge pages if it can.
    ///
    /// # Panics
    /// If `frame_bytes` is not a multiple of [`ALIGNMENT_BYTES`], or `frames` is 0.
    pub fn new(frames: u32, frame_bytes: usize) -> Arc<Self> {
        assert!(frame_bytes > 0 && frame_bytes.is_multiple_of(ALIGNMENT_BYTES), "frames align");
        assert!(frames > 0, "a pool has a frame");
        let layout = Self::layout(frames, frame_bytes);
        let mut memory =
            MmapMut::map_anon(layout.size()).unwrap_or_else(|_| handle_alloc_error(layout));
        #[cfg(target_os = "linux")]
        // A hint: without huge pages, each frame costs a walk through the tables of the system's pages.
        let _is_followed = memory.advise(memmap2::Advice::HugePage).is_ok();
        memory.fill(0);
        #[cfg(target_os = "linux")]
        // The huge pages stay, but none are made later, because those would again have memory for frames that
        // were given back.
        let _is_followed = memory.advise(memmap2::Advice::NoHugePage).is_ok();
        let base = NonNull::new(memory.as_mut_ptr()).expect("memory has an address");
        let number = ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { base, count: frames, frame_bytes, number, _memory: memory })
    }

    /// Return the number of frames.
    pub fn len(&self) -> u32 {
        self.count
    }

    /// Return `true` if there is none; there always is one.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Return the number of bytes of one frame.
    pub fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    /// Return the number of this allocation, which proves that a reply belongs to it.
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// Return the address of a frame in memory, for a driver that hands it to the kernel.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn pointer(&self, frame: FrameId) -> NonNull<u8> {
        assert!(frame.0 < self.count, "the frame exists");
        // SAFETY: the offset is within the allocation, as asserted.
        unsafe { self.base.add(frame.0 as usize * self.frame_bytes) }
    }

    /// Return the bytes of a frame that nobody writes at this time.
    pub(crate) fn bytes(&self, frame: FrameId) -> &[u8] {
        // SAFETY: the frame lies within the allocation; the shard lets nobody write it now.
        unsafe { std::slice::from_raw_parts(self.pointer(frame).as_ptr(), self.frame_bytes) }
    }

    /// Return the bytes of a frame that nobody else accesses at this time.
    #[expect(clippy::mut_from_ref, reason = "the shard settles who accesses which frame")]
    pub(crate) fn bytes_mut(&self, frame: FrameId) -> &mut [u8] {
        // SAFETY: the frame lies within the allocation; the caller is its only user now.
        unsafe { std::slice::from_raw_parts_mut(self.pointer(frame).as_ptr(), self.frame_bytes) }
    }

    /// Give the memory of a frame back to the system, which takes that of a huge page apart when it needs memory.
    /// The frame is zero when it is used again.
    fn give_back(&self, frame: FrameId) {
        #[cfg(target_os = "linux")]
        {
            let pointer = self.pointer(frame).as_ptr().cast();
            // SAFETY: the frame lies within the allocation, in whole pages of the system, and nobody uses it.
            // A failure leaves the memory as it is.
            let _kept = unsafe { libc::madvise(pointer, self.frame_bytes, libc::MADV_DONTNEED) };
        }
        #[cfg(not(target_os = "linux"))]
        let _kept = frame;
    }

    fn layout(frames: u32, frame_bytes: usize) -> Layout {
        let bytes = (frames as usize).checked_mul(frame_bytes).expect("memory is addressable");
        Layout::from_size_align(bytes, ALIGNMENT_BYTES).expect("memory is addressable")
    }
}

impl fmt::Debug for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frames")
            .field("frames", &self.count)
            .field("frame_bytes", &self.frame_bytes)
            .finish_non_exhaustive()
    }
}

/// Reference counts of the frames.
#[derive(Debug)]
pub(crate) struct Pool {
    frames: Arc<Frames>,
    /// Per frame: how many users it has.
    users: Vec<u32>,
    free: Vec<FrameId>,
    /// Frames without memory, and how many there should be.
    withheld: Vec<FrameId>,
    withheld_wanted: usize,
    /// Free frames that requests need: those are withheld only when there are more.
    reserve: usize,
}

impl Pool {
    pub(crate) fn new(frames: u32, frame_bytes: usize) -> Self {
        Self {
            frames: Frames::new(frames, frame_bytes),
            users: vec![0; frames as usize],
            free: (0..frames).rev().map(FrameId).collect(),
            withheld: vec![],
            withheld_wanted: 0,
            reserve: 0,
        }
    }

    /// Keep that many frames out of use from now on, whose memory the system has: free ones at once, and
    /// others when they become free. `reserve` free frames stay for requests meanwhile.
    pub(crate) fn withhold(&mut self, frames: u32, reserve: u32) {
        (self.withheld_wanted, self.reserve) = (frames as usize, reserve as usize);
        let returned = self.withheld.len().saturating_sub(self.withheld_wanted);
        self.free.extend(self.withheld.drain(self.withheld.len() - returned..));
        while self.lacks_withheld()
            && let Some(frame) = self.free.pop()
        {
            self.frames.give_back(frame);
            self.withheld.push(frame);
        }
    }

    /// Return the number of frames that have memory.
    pub(crate) fn frames_in_use(&self) -> usize {
        self.users.len() - self.withheld.len()
    }

    #[inline]
    fn lacks_withheld(&self) -> bool {
        self.withheld.len() < self.withheld_wanted && self.free.len() > self.reserve
    }

    pub(crate) fn frames(&self) -> &Arc<Frames> {
        &self.frames
    }

    pub(crate) fn free_frames(&self) -> usize {
        self.free.len()
    }

    /// Take a free frame for one user; `None` if all are in use.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<FrameId> {
        let frame = self.free.pop()?;
        debug_assert_eq!(self.users[frame.0 as usize], 0, "a free frame has no user");
        self.users[frame.0 as usize] = 1;
        Some(frame)
    }

    /// Add a user.
    #[inline]
    pub(crate) fn retain(&mut self, frame: FrameId) -> FrameId {
        debug_assert_ne!(self.users[frame.0 as usize], 0, "only a used frame gains a user");
        self.users[frame.0 as usize] += 1;
        frame
    }

    /// Remove a user; without users the frame is free.
    #[inline]
    pub(crate) fn release(&mut self, frame: FrameId) {
        let users = &mut self.users[frame.0 as usize];
        assert_ne!(*users, 0, "a frame is released once by each of its users");
        *users -= 1;
        if *users == 0 {
            self.free.push(frame);
            if self.lacks_withheld() {
                self.free.pop();
                self.frames.give_back(frame);
                self.withheld.push(frame);
            }
        }
    }

    /// Return `true` if the caller is the only user.
    #[inline]
    pub(crate) fn is_exclusive(&self, frame: FrameId) -> bool {
        self.users[frame.0 as usize] == 1
    }

    #[inline]
    pub(crate) fn bytes(&self, frame: FrameId) -> &[u8] {
        debug_assert_ne!(self.users[frame.0 as usize], 0, "only used frames are read");
        self.frames.bytes(frame)
    }

    #[inline]
    pub(crate) fn bytes_mut(&mut self, frame: FrameId) -> &mut [u8] {
        debug_assert!(self.is_exclusive(frame), "only a sole user writes");
        self.frames.bytes_mut(frame)
    }

    /// Asks the processor for the bookkeeping of a frame, and for the frame's first bytes. Once these are
    /// accessed, the processor itself asks for those that follow.
    #[inline]
    pub(crate) fn prefetch(&self, frame: FrameId) {
        prefetch(&self.users, frame.0 as usize);
        let bytes = self.frames.bytes(frame);
        prefetch(bytes, 0);
        prefetch(bytes, 64);
    }

    /// Copies part of one frame to the same place of another.
    pub(crate) fn copy(&mut self, source: FrameId, target: FrameId, range: std::ops::Range<usize>) {
        assert_ne!(source, target, "a frame is not copied onto itself");
        let from = &self.frames.bytes(source)[range.clone()];
        debug_assert!(self.is_exclusive(target), "only a sole user writes");
        self.frames.bytes_mut(target)[range].copy_from_slice(from);
    }

    /// Heap memory of the bookkeeping in bytes; the frames themselves not counted.
    pub(crate) fn memory_bytes(&self) -> usize {
        let lists = self.free.capacity() + self.withheld.capacity();
        self.users.capacity() * size_of::<u32>() + lists * size_of::<FrameId>()
    }
}
