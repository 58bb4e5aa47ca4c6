//! A mirrored flash, read and written one call at a time.

use std::fmt;
use std::io;
use std::sync::Arc;

use super::{Mirror, home};
use crate::operation::Member;
use crate::storage::Storage;

/// Both members as one device. A member that fails a write or a sync is given up.
pub struct MirrorStorage<S> {
    /// The contents of the members, without their labels; `None` for one that is absent.
    members: [Option<S>; 2],
    mirror: Arc<Mirror>,
}

impl<S: Storage> MirrorStorage<S> {
    /// Put two members together, of which one may be absent.
    pub const fn new(members: [Option<S>; 2], mirror: Arc<Mirror>) -> Self {
        Self { members, mirror }
    }

    /// Return what the members share.
    pub const fn mirror(&self) -> &Arc<Mirror> {
        &self.mirror
    }

    /// Return the members.
    pub const fn members(&self) -> &[Option<S>; 2] {
        &self.members
    }

    fn member(&mut self, member: Member) -> io::Result<&mut S> {
        let is_used = self.mirror.uses(member);
        let found = self.members[member as usize].as_mut().filter(|_| is_used);
        found.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Does something with each member in use. One that fails while the other does not is given up.
    fn each(&mut self, mut work: impl FnMut(&mut S) -> io::Result<()>) -> io::Result<()> {
        let mut failed = [None, None];
        for member in Member::EACH {
            if self.mirror.uses(member)
                && let Err(error) = self.member(member).and_then(&mut work)
            {
                self.mirror.count_error(member);
                failed[member as usize] = Some(error);
            }
        }
        match failed {
            [None, None] => Ok(()),
            [Some(error), Some(_)] => Err(error),
            [Some(error), None] => self.go_on(Member::First, error),
            [None, Some(error)] => self.go_on(Member::Second, error),
        }
    }

    /// Go on without a member that failed, if the other one is in use.
    fn go_on(&self, without: Member, error: io::Error) -> io::Result<()> {
        // Another thread may have given up the other one meanwhile.
        if self.mirror.uses(without) && !self.mirror.uses(without.other()) {
            return Err(error);
        }
        self.mirror.fail(without).map_err(|_| error)
    }

    fn read_from(&mut self, member: Member, offset_bytes: u64, bytes: &mut [u8]) -> io::Result<()> {
        let read = self.member(member)?.read_at(offset_bytes, bytes);
        if read.is_err() {
            self.mirror.count_error(member);
        }
        read
    }
}

impl<S: Storage> Storage for MirrorStorage<S> {
    fn size_bytes(&mut self) -> io::Result<u64> {
        let mut least = None;
        for member in Member::EACH {
            if self.mirror.uses(member) {
                let size = self.member(member)?.size_bytes()?;
                least = Some(least.map_or(size, |least: u64| least.min(size)));
            }
        }
        least.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    fn read_at(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> io::Result<()> {
        let first = self.mirror.in_place_of(home(offset_bytes));
        match self.read_from(first, offset_bytes, bytes) {
            Err(_) if self.mirror.has_both() => self.read_from(first.other(), offset_bytes, bytes),
            read => read,
        }
    }

    fn read_other(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> Option<io::Result<()>> {
        let other = home(offset_bytes).other();
        let is_there = self.mirror.has_both();
        is_there.then(|| self.read_from(other, offset_bytes, bytes))
    }

    fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        self.each(|member| member.write_at(offset_bytes, bytes))
    }

    fn read_each(&mut self, pieces: &mut [(u64, &mut [u8])]) -> Vec<io::Result<()>> {
        let homes: Vec<Member> = pieces
            .iter()
            .map(|(offset_bytes, _)| self.mirror.in_place_of(home(*offset_bytes)))
            .collect();
        let mut results: Vec<io::Result<()>> = pieces.iter().map(|_| Ok(())).collect();
        for member in Member::EACH {
            let here = pieces.iter_mut().zip(&homes).filter(|(_, home)| **home == member);
            let mut here: Vec<(u64, &mut [u8])> =
                here.map(|((offset_bytes, bytes), _)| (*offset_bytes, &mut **bytes)).collect();
            let read = match self.member(member) {
                Ok(storage) => storage.read_each(&mut here),
                Err(error) => here.iter().map(|_| Err(error.kind().into())).collect(),
            };
            let places = results.iter_mut().zip(&homes).filter(|(_, home)| **home == member);
            places.zip(read).for_each(|((result, _), read)| *result = read);
        }
        for ((result, home), (offset_bytes, bytes)) in results.iter_mut().zip(homes).zip(pieces) {
            if result.is_err() && self.mirror.has_both() {
                self.mirror.count_error(home);
                *result = self.read_from(home.other(), *offset_bytes, bytes);
            }
        }
        results
    }

    fn write_each(&mut self, pieces: &[(u64, &[u8])]) -> io::Result<()> {
        self.each(|member| member.write_each(pieces))
    }

    fn sync(&mut self) -> io::Result<()> {
        self.each(Storage::sync)
    }
}

impl<S: fmt::Debug> fmt::Debug for MirrorStorage<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MirrorStorage").field("members", &self.members).finish_non_exhaustive()
    }
}
