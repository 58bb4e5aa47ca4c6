//! A queue of the driver: requests out of it, results into it.
#![expect(unsafe_code, reason = "the driver describes requests in memory that it shares")]

use std::fmt::{self, Debug};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use io_uring::{IoUring, opcode, types};
use memmap2::{MmapOptions, MmapRaw};

use crate::abi::{
    COMMIT_AND_FETCH, DESCRIPTOR_BYTES, Descriptor, FETCH, QUEUE_DEPTH_MAX, data_position,
    io_command,
};

/// Source of a door's requests.
pub(crate) trait Queue: Debug + Send {
    /// Return a descriptor that becomes readable when something has come.
    fn descriptor(&self) -> RawFd;
    /// Begins with a queue of a device, in the thread that serves it from then on.
    fn begin(&mut self, place: Place) -> io::Result<()>;
    /// Return the next request that has come by its tag, or that a tag has no more, with the
    /// reason.
    fn next(&mut self) -> Option<(u16, Result<(), i32>)>;
    /// Return the request of a tag.
    fn request(&self, tag: u16) -> Descriptor;
    /// Takes bytes that a write brings.
    fn take(&self, tag: u16, bytes: &mut [u8]) -> io::Result<()>;
    /// Gives bytes that a read found.
    fn give(&self, tag: u16, start_bytes: u32, bytes: &[u8]) -> io::Result<()>;
    /// Answers a request, and asks for the next one with its tag.
    fn commit(&mut self, tag: u16, result: i32);
    /// Hands the answers to the driver.
    fn submit(&mut self);
    /// Return `true` if nothing has come that was not taken.
    fn is_quiet(&mut self) -> bool;
}

/// A queue of a device that was opened.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) file: Arc<File>,
    pub(crate) number: u16,
    pub(crate) depth: u16,
}

/// A queue of the kernel's driver.
pub(crate) struct DriverQueue {
    ring: IoUring,
    opened: Option<(Place, MmapRaw)>,
    /// `true` if there are entries that the kernel has not seen.
    has_new: bool,
}

impl Debug for DriverQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriverQueue").field("opened", &self.opened).finish_non_exhaustive()
    }
}

impl DriverQueue {
    /// Create a queue that begins later, and has at most `depth` requests at a time.
    pub(crate) fn new(depth: u16) -> io::Result<Self> {
        Ok(Self { ring: IoUring::new(depth.into())?, opened: None, has_new: false })
    }

    fn opened(&self) -> &(Place, MmapRaw) {
        self.opened.as_ref().expect("a queue that has requests has begun")
    }

    fn push(&mut self, operation: u32, tag: u16, result: i32) {
        let (Place { file, number, .. }, _) = self.opened();
        let entry = opcode::UringCmd16::new(types::Fd(file.as_raw_fd()), operation);
        let entry = entry.cmd(io_command(*number, tag, result)).build().user_data(tag.into());
        // SAFETY: the command has no pointers: bytes are copied by reads and writes of the file.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("the ring has an entry for each tag");
        self.has_new = true;
    }
}

impl Queue for DriverQueue {
    fn descriptor(&self) -> RawFd {
        self.ring.as_raw_fd()
    }

    fn begin(&mut self, place: Place) -> io::Result<()> {
        let apart = u64::from(QUEUE_DEPTH_MAX) * DESCRIPTOR_BYTES as u64;
        let bytes = usize::from(place.depth) * DESCRIPTOR_BYTES;
        let descriptors = MmapOptions::new()
            .offset(u64::from(place.number) * apart)
            .len(bytes)
            .map_raw_read_only(&*place.file)?;
        let depth = place.depth;
        self.opened = Some((place, descriptors));
        for tag in 0..depth {
            self.push(FETCH, tag, 0);
        }
        self.submit();
        Ok(())
    }

    fn next(&mut self) -> Option<(u16, Result<(), i32>)> {
        let done = self.ring.completion().next()?;
        let tag = u16::try_from(done.user_data()).expect("a tag is 16 bits");
        Some((tag, if done.result() < 0 { Err(done.result()) } else { Ok(()) }))
    }

    fn request(&self, tag: u16) -> Descriptor {
        let (place, descriptors) = self.opened();
        assert!(tag < place.depth, "the driver knows the tags");
        let at = descriptors.as_ptr().wrapping_add(usize::from(tag) * DESCRIPTOR_BYTES);
        // SAFETY: the mapping has a descriptor for each tag, and the driver leaves that of a request alone
        // until the request is answered.
        let bytes: [u8; 16] = unsafe { at.cast::<[u8; 16]>().read_volatile() };
        Descriptor::from_bytes(&bytes)
    }

    fn take(&self, tag: u16, bytes: &mut [u8]) -> io::Result<()> {
        let (place, _) = self.opened();
        place.file.read_exact_at(bytes, data_position(place.number, tag, 0))
    }

    fn give(&self, tag: u16, start_bytes: u32, bytes: &[u8]) -> io::Result<()> {
        let (place, _) = self.opened();
        place.file.write_all_at(bytes, data_position(place.number, tag, start_bytes))
    }

    fn commit(&mut self, tag: u16, result: i32) {
        self.push(COMMIT_AND_FETCH, tag, result);
    }

    fn submit(&mut self) {
        if !self.has_new {
            return;
        }
        match self.ring.submit() {
            Ok(_) => self.has_new = !self.ring.submission().is_empty(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                tracing::warn!(%error, "ublk: the kernel does not accept answers yet");
            }
        }
    }

    fn is_quiet(&mut self) -> bool {
        !self.has_new && self.ring.completion().is_empty()
    }
}
