//! Sleep until one of several drivers has something.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

/// Maximum sleep: drivers may have to give up operations that are not answered.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Descriptors of drivers as one.
#[derive(Debug)]
pub(super) struct Wakes {
    /// Readable when one of the descriptors is.
    all: OwnedFd,
    /// `true` if every driver has a descriptor, so that waiting for `all` is waiting for each.
    is_complete: bool,
}

impl Wakes {
    /// Puts the descriptors of drivers together.
    ///
    /// # Errors
    /// If the system gives no more file descriptors.
    pub(super) fn of(descriptors: &[Option<BorrowedFd<'_>>]) -> io::Result<Self> {
        let all = epoll::create(CreateFlags::CLOEXEC)?;
        for descriptor in descriptors.iter().flatten() {
            epoll::add(&all, descriptor, EventData::new_u64(0), EventFlags::IN)?;
        }
        Ok(Self { all, is_complete: descriptors.iter().all(Option::is_some) })
    }

    /// Adds the descriptor of one more driver, which leaves when it is closed.
    ///
    /// # Errors
    /// If the operating system reports an error.
    pub(super) fn add(&mut self, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        self.is_complete &= descriptor.is_some();
        descriptor.map_or(Ok(()), |descriptor| {
            Ok(epoll::add(&self.all, descriptor, EventData::new_u64(0), EventFlags::IN)?)
        })
    }

    /// Sleep for a while, unless a driver has something, or has no descriptor.
    pub(super) fn sleep(&self) {
        if self.is_complete {
            let mut events = [const { MaybeUninit::<Event>::uninit() }; 1];
            // A signal is one more reason to look.
            let _interrupted = epoll::wait(&self.all, &mut events[..], Some(&LOOK));
        }
    }

    /// Return the descriptor that is readable when one of them is.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.all.as_fd()
    }

    /// Return `true` if every driver has a descriptor.
    pub(super) const fn is_complete(&self) -> bool {
        self.is_complete
    }
}
