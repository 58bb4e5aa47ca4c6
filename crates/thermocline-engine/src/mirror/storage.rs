//! A mirrored flash, read and written one call at a time.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;

use super::home;
use super::state::{InUse, Lane, Mirror, Writer};
use crate::operation::Member;
use crate::storage::Storage;

/// The devices of a mirrored flash, by their lanes.
pub trait Lanes {
    /// The content of a device, without its label.
    type Device: Storage;

    /// Opens the device in a lane.
    ///
    /// # Errors
    /// If there is none, or it cannot be opened.
    fn open(&self, lane: Lane) -> io::Result<Self::Device>;
}

/// Both members as one device. A member that fails a write or a sync is given up.
pub struct MirrorStorage<L: Lanes> {
    lanes: L,
    /// Devices that were used already.
    opened: BTreeMap<Lane, L::Device>,
    mirror: Arc<Mirror>,
    /// Position in the content of the devices at which this begins.
    start_bytes: u64,
    /// Set with the first write.
    writer: Option<Writer>,
}

impl<L: Lanes> MirrorStorage<L> {
    /// Put the members together, from a position of their contents on, at which `lanes` begin, too.
    pub const fn new(lanes: L, mirror: Arc<Mirror>, start_bytes: u64) -> Self {
        Self { lanes, opened: BTreeMap::new(), mirror, start_bytes, writer: None }
    }

    /// Return what the members share.
    pub const fn mirror(&self) -> &Arc<Mirror> {
        &self.mirror
    }

    /// Return the devices.
    pub const fn lanes(&self) -> &L {
        &self.lanes
    }

    /// Return the position in the content of the devices at which this begins.
    pub const fn start_bytes(&self) -> u64 {
        self.start_bytes
    }

    fn member(&mut self, now: InUse, member: Member) -> io::Result<&mut L::Device> {
        let lane = now.lane_of(member).ok_or(io::ErrorKind::NotConnected)?;
        // Nobody keeps a device open that is not used any more.
        self.opened.retain(|&lane, _| now.has(lane));
        if !self.opened.contains_key(&lane) {
            self.opened.insert(lane, self.lanes.open(lane)?);
        }
        self.opened.get_mut(&lane).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Does something with each member that was in use then. One that fails while the other does not is given up.
    fn each(
        &mut self,
        now: InUse,
        mut work: impl FnMut(&mut L::Device) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut failed = [None, None];
        for member in Member::EACH {
            if now.lane_of(member).is_some()
                && let Err(error) = self.member(now, member).and_then(&mut work)
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

    /// Writes to a range, which a copy for a device that joins has to know.
    fn write(
        &mut self,
        ranges: &[(u64, u64)],
        work: impl FnMut(&mut L::Device) -> io::Result<()>,
    ) -> io::Result<()> {
        let writer = self.writer.take().unwrap_or_else(|| Writer::new(&self.mirror));
        // Annexes may lie before that position.
        let start = |offset_bytes: u64| self.start_bytes.wrapping_add(offset_bytes);
        let mut now = self.mirror.in_use();
        for (number, &(offset_bytes, length)) in (0..).zip(ranges) {
            // These writes do not go to a device that joins. The ledger notes that, and the copy takes
            // them up.
            now = writer.begin(number, start(offset_bytes)..start(offset_bytes) + length, false);
        }
        let written = self.each(now, work);
        for number in 0..ranges.len() as u64 {
            writer.end(number);
        }
        self.writer = Some(writer);
        written
    }

    fn read_from(&mut self, member: Member, offset_bytes: u64, bytes: &mut [u8]) -> io::Result<()> {
        let now = self.mirror.in_use();
        let read = self.member(now, member)?.read_at(offset_bytes, bytes);
        if read.is_err() {
            self.mirror.count_error(member);
        }
        read
    }

    /// Fills `bytes` from a member, or from the other one if it is not in use or fails.
    pub(super) fn read_from_any(
        &mut self,
        member: Member,
        offset_bytes: u64,
        bytes: &mut [u8],
    ) -> io::Result<()> {
        let first = self.mirror.in_place_of(member);
        match self.read_from(first, offset_bytes, bytes) {
            Err(_) if self.mirror.has_both() => self.read_from(first.other(), offset_bytes, bytes),
            read => read,
        }
    }
}

impl<L: Lanes> Storage for MirrorStorage<L> {
    fn size_bytes(&mut self) -> io::Result<u64> {
        let (now, mut least) = (self.mirror.in_use(), None);
        for member in Member::EACH {
            if now.lane_of(member).is_some() {
                let size = self.member(now, member)?.size_bytes()?;
                least = Some(least.map_or(size, |least: u64| least.min(size)));
            }
        }
        least.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    fn read_at(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.read_from_any(home(offset_bytes), offset_bytes, bytes)
    }

    fn read_other(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> Option<io::Result<()>> {
        let other = home(offset_bytes).other();
        let is_there = self.mirror.has_both();
        is_there.then(|| self.read_from(other, offset_bytes, bytes))
    }

    fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        let ranges = [(offset_bytes, bytes.len() as u64)];
        self.write(&ranges, |member| member.write_at(offset_bytes, bytes))
    }

    fn read_each(&mut self, pieces: &mut [(u64, &mut [u8])]) -> Vec<io::Result<()>> {
        let homes: Vec<Member> = pieces
            .iter()
            .map(|(offset_bytes, _)| self.mirror.in_place_of(home(*offset_bytes)))
            .collect();
        let now = self.mirror.in_use();
        let mut results: Vec<io::Result<()>> = pieces.iter().map(|_| Ok(())).collect();
        for member in Member::EACH {
            let here = pieces.iter_mut().zip(&homes).filter(|(_, home)| **home == member);
            let mut here: Vec<(u64, &mut [u8])> =
                here.map(|((offset_bytes, bytes), _)| (*offset_bytes, &mut **bytes)).collect();
            if here.is_empty() {
                continue;
            }
            let read = match self.member(now, member) {
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
        let ranges: Vec<(u64, u64)> = pieces
            .iter()
            .map(|(offset_bytes, bytes)| (*offset_bytes, bytes.len() as u64))
            .collect();
        self.write(&ranges, |member| member.write_each(pieces))
    }

    fn sync(&mut self) -> io::Result<()> {
        self.each(self.mirror.in_use(), Storage::sync)
    }
}

impl<L: Lanes + fmt::Debug> fmt::Debug for MirrorStorage<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MirrorStorage").field("lanes", &self.lanes).finish_non_exhaustive()
    }
}
