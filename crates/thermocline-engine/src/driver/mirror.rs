//! A driver of a mirrored flash: what concerns both members goes to both, and is done when both have done it.
//!
//! If one member fails an operation and the other one does not, the shard decides whether to try again. If it
//! does not, the member has failed, and the operation is done once that is durable ([`Mirror::fail`]). A
//! device that joins gets all writes, too; it is not waited for if it fails, because nothing relies on it
//! yet.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use smallvec::SmallVec;

use super::wakes::Wakes;
use super::{Allocation, Completion, Driver};
use crate::mirror::{InUse, Lane, MEMBER_IS_GONE, Mirror, StillUsed, Writer};
use crate::operation::{
    Copies, Device, DeviceError, Member, Operation, OperationId, OperationKind,
};

/// Parts of an operation, each for the device in a lane.
pub type Parts = SmallVec<[(Lane, Operation); 3]>;

/// The device that performs a part, and its result.
type FlyingPart = (Lane, Option<Result<(), DeviceError>>);

/// An operation that some devices perform.
#[derive(Debug)]
struct Flying {
    /// Devices that perform it, and their results. The first one is a member in use, if it is for one alone.
    parts: SmallVec<[FlyingPart; 3]>,
    is_write: bool,
}

impl Flying {
    /// Return `true` if the device in a lane failed it.
    fn has_failed(&self, lane: Lane) -> bool {
        self.parts.iter().any(|(other, result)| *other == lane && matches!(result, Some(Err(_))))
    }

    /// Return the first error.
    fn error(&self) -> Option<DeviceError> {
        self.parts.iter().find_map(|(_, result)| result.and_then(Result::err))
    }
}

/// Joins what the devices of a mirrored flash do.
#[derive(Debug)]
pub struct Fan {
    mirror: Arc<Mirror>,
    writer: Writer,
    /// Position in the content of the devices at which the shard's part begins.
    start_bytes: u64,
    /// By the number of the operation.
    flying: BTreeMap<OperationId, Flying>,
    /// Operations that are done, but for the note that says which member lacks them.
    held: Vec<(Member, Operation)>,
}

/// Outcome of an operation that all devices have answered.
enum Outcome {
    Done(Result<(), DeviceError>),
    /// It is done once the note says that this member lacks it.
    Held(Member),
}

impl Fan {
    /// Create the state for a part of a flash, which begins at that position of the devices.
    pub fn new(mirror: Arc<Mirror>, start_bytes: u64) -> Self {
        let writer = Writer::new(&mirror);
        Self { mirror, writer, start_bytes, flying: BTreeMap::new(), held: vec![] }
    }

    /// Take an operation of the flash. Returns what each device has to do.
    ///
    /// # Panics
    /// If no member is in use: one always is.
    pub fn split(&mut self, operation: Operation) -> Parts {
        self.mirror.settle();
        let is_write = !matches!(operation.kind, OperationKind::Read | OperationKind::Sync);
        let now = if is_write {
            // Annexes may lie before the part.
            let start = self.start_bytes.wrapping_add(operation.offset_bytes);
            let range = start..start + operation.length_bytes;
            self.writer.begin(operation.id.0.into(), range, true)
        } else {
            self.mirror.in_use()
        };
        let lanes = lanes_of(now, &operation);
        let parts = lanes.iter().map(|&lane| (lane, None)).collect();
        self.flying.insert(operation.id, Flying { parts, is_write });
        let (&last, others) = lanes.split_last().expect("a member is in use");
        let mut parts: Parts = others.iter().map(|&lane| (lane, operation.twin())).collect();
        parts.push((last, operation));
        parts
    }

    /// Take what a device has done. Returns the operation once all have done it.
    ///
    /// # Panics
    /// If the operation was not split here.
    pub fn join(
        &mut self,
        lane: Lane,
        operation: Operation,
        result: Result<(), DeviceError>,
    ) -> Option<Completion> {
        let flying = self.flying.get_mut(&operation.id).expect("it was split before");
        let part = flying.parts.iter_mut().find(|(other, _)| *other == lane);
        part.expect("it was given to the device").1 = Some(result);
        if result.is_err()
            && let Some(member) = self.mirror.in_use().member_in(lane)
        {
            self.mirror.count_error(member);
        }
        if flying.parts.iter().any(|(_, result)| result.is_none()) {
            return None;
        }
        let flying = self.flying.remove(&operation.id).expect("it is there");
        let outcome = self.outcome(&operation, &flying);
        if flying.is_write {
            self.writer.end(operation.id.0.into());
        }
        match outcome {
            Outcome::Done(result) => Some((operation, result)),
            Outcome::Held(member) => {
                self.held.push((member, operation));
                None
            }
        }
    }

    /// Return an operation that waited for the note and waits no more.
    pub fn next_held(&mut self) -> Option<Completion> {
        let &(member, _) = self.held.last()?;
        match self.mirror.try_fail(member) {
            Err(StillUsed::Note(_)) => None,
            failed => {
                let (_, operation) = self.held.pop()?;
                Some((operation, failed.map_err(Into::into)))
            }
        }
    }

    /// Return `true` if operations wait for the note.
    pub fn has_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// Return `true` if a device has not answered an operation.
    fn waits_for(&self, lane: Lane) -> bool {
        self.flying.values().any(|flying| flying.parts.contains(&(lane, None)))
    }

    fn outcome(&self, operation: &Operation, flying: &Flying) -> Outcome {
        // Before anything is acknowledged that it lacks, the device that joins is none any more.
        if let Some(joining) = self.mirror.in_use().joining()
            && flying.has_failed(joining)
        {
            self.mirror.end_join(joining);
        }
        // It may have become a member meanwhile, and then counts as one.
        let now = self.mirror.in_use();
        if operation.kind == OperationKind::Read || operation.copies != Copies::Both {
            let (lane, result) = flying.parts[0];
            let is_gone = now.member_in(lane).is_none();
            return Outcome::Done(match result {
                None | Some(Ok(())) => Ok(()),
                Some(Err(_)) if is_gone => Err(MEMBER_IS_GONE),
                Some(Err(MEMBER_IS_GONE)) => Err(DeviceError(io::ErrorKind::Other)),
                Some(Err(error)) => Err(error),
            });
        }
        // A device that became a member meanwhile had all that was written before, durably: no write is under way
        // then that does not go there, and a sync need not.
        let has = |member: Member| now.lane_of(member).is_some_and(|lane| !flying.has_failed(lane));
        let lacking = Member::EACH.map(|member| now.lane_of(member).is_some() && !has(member));
        let error = flying.error().unwrap_or(DeviceError(io::ErrorKind::Other));
        match lacking {
            [false, false] => Outcome::Done(Ok(())),
            [true, true] => Outcome::Done(Err(error)),
            [is_first, _] => {
                let lacks = if is_first { Member::First } else { Member::Second };
                // A sync is not tried again: a second one may succeed although the first one lost
                // writes.
                let is_final = operation.is_final || operation.kind == OperationKind::Sync;
                if !is_final || !has(lacks.other()) {
                    return Outcome::Done(Err(error));
                }
                match self.mirror.try_fail(lacks) {
                    Err(StillUsed::Note(_)) => Outcome::Held(lacks),
                    failed => Outcome::Done(failed.map_err(Into::into)),
                }
            }
        }
    }
}

/// Return the devices that perform an operation: members, and then one that joins.
fn lanes_of(now: InUse, operation: &Operation) -> SmallVec<[Lane; 3]> {
    let lane_of = |member| now.lane_of(now.in_place_of(member));
    let is_read = operation.kind == OperationKind::Read;
    let joining = now.joining().filter(|_| !is_read);
    match operation.copies {
        Copies::Both if is_read => lane_of(Member::First).into_iter().collect(),
        Copies::Both => {
            let members = Member::EACH.into_iter().filter_map(|member| now.lane_of(member));
            members.chain(joining).collect()
        }
        Copies::One(member) => {
            let joining = joining.filter(|_| now.joins_as() == member);
            lane_of(member).into_iter().chain(joining).collect()
        }
    }
}

/// Opens a driver for the device in a lane.
pub type OpenLane<D> = Box<dyn Fn(Lane) -> io::Result<D> + Send>;

/// A driver per device.
pub struct MirrorDriver<D> {
    /// The driver of the first lane, if that is used, and of the backing store.
    main: D,
    /// The drivers of the other lanes.
    others: BTreeMap<Lane, D>,
    open: OpenLane<D>,
    fan: Fan,
    mirror: Arc<Mirror>,
    /// Devices in use when some were closed last.
    seen: InUse,
    in_flight: usize,
    /// Parts for devices that could not be opened.
    refused: Vec<(Lane, Operation, DeviceError)>,
    done: Vec<Completion>,
    wakes: Wakes,
}

impl<D: Driver> MirrorDriver<D> {
    /// Puts drivers together, of one shard. `main` drives the device in the first lane, and the backing store. The
    /// shard's part of each device begins at that position.
    ///
    /// # Errors
    /// If the system gives no more file descriptors, or a device in use cannot be opened.
    pub fn new(
        main: D,
        open: OpenLane<D>,
        mirror: Arc<Mirror>,
        start_bytes: u64,
    ) -> io::Result<Self> {
        let (seen, wakes) = (mirror.in_use(), Wakes::of(&[main.wake_fd()])?);
        let fan = Fan::new(Arc::clone(&mirror), start_bytes);
        let mut driver = Self {
            main,
            others: BTreeMap::new(),
            open,
            fan,
            mirror,
            seen,
            in_flight: 0,
            refused: vec![],
            done: vec![],
            wakes,
        };
        for lane in Member::EACH.into_iter().filter_map(|member| seen.lane_of(member)) {
            driver.lane(lane)?;
        }
        Ok(driver)
    }

    /// Swap the driver of the first lane and of the backing store with one that has that many operations of the
    /// backing store in flight, and none of the flash. The one before has none.
    ///
    /// # Errors
    /// If the operating system reports an error; nothing is swapped then.
    pub fn swap_main(&mut self, main: &mut D, in_flight: usize) -> io::Result<()> {
        self.wakes.add(main.wake_fd())?;
        std::mem::swap(&mut self.main, main);
        self.in_flight += in_flight;
        Ok(())
    }

    /// Return the driver of the backing store.
    pub const fn main(&self) -> &D {
        &self.main
    }

    /// Return the driver of a device, which is opened if it was not.
    fn lane(&mut self, lane: Lane) -> io::Result<&mut D> {
        if lane == Lane::FIRST {
            return Ok(&mut self.main);
        }
        if !self.others.contains_key(&lane) {
            let opened = (self.open)(lane)?;
            self.wakes.add(opened.wake_fd())?;
            self.others.insert(lane, opened);
        }
        self.others.get_mut(&lane).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Closes devices that are not used any more.
    fn close_unused(&mut self) {
        let now = self.mirror.in_use();
        if now == self.seen {
            return;
        }
        let fan = &self.fan;
        // A device that has not answered may still access frames, so its driver stays.
        let is_over = |lane: Lane| !now.has(lane) && !fan.waits_for(lane);
        self.others.retain(|&lane, _| !is_over(lane));
        if is_over(Lane::FIRST) {
            self.main.close_flash();
        }
        let is_waiting = self.others.keys().any(|&lane| !now.has(lane));
        if !is_waiting && (now.has(Lane::FIRST) || is_over(Lane::FIRST)) {
            self.seen = now;
        }
    }

    fn take(&mut self, lane: Lane, found: &mut Vec<Completion>, done: &mut Vec<Completion>) {
        for (operation, result) in found.drain(..) {
            if operation.device == Device::Backing {
                done.push((operation, result));
            } else {
                done.extend(self.fan.join(lane, operation, result));
            }
        }
    }
}

impl<D: Driver> Driver for MirrorDriver<D> {
    fn start(&mut self, operation: Operation) {
        self.in_flight += 1;
        if operation.device == Device::Backing {
            return self.main.start(operation);
        }
        for (lane, part) in self.fan.split(operation) {
            match self.lane(lane) {
                Ok(driver) => driver.start(part),
                Err(error) => self.refused.push((lane, part, error.into())),
            }
        }
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        let before = done.len();
        let mut found = std::mem::take(&mut self.done);
        self.main.poll(&mut found);
        self.take(Lane::FIRST, &mut found, done);
        let lanes: SmallVec<[Lane; 3]> = self.others.keys().copied().collect();
        for lane in lanes {
            if let Some(driver) = self.others.get_mut(&lane) {
                driver.poll(&mut found);
            }
            self.take(lane, &mut found, done);
        }
        self.done = found;
        for (lane, part, error) in std::mem::take(&mut self.refused) {
            done.extend(self.fan.join(lane, part, Err(error)));
        }
        done.extend(std::iter::from_fn(|| self.fan.next_held()));
        self.in_flight -= done.len() - before;
        self.close_unused();
    }

    fn wait(&mut self, done: &mut Vec<Completion>) {
        let before = done.len();
        loop {
            self.poll(done);
            if done.len() > before || self.in_flight == 0 {
                return;
            }
            self.wakes.sleep();
        }
    }

    fn ask_allocation(&mut self, tag: u64, range: Range<u64>) -> bool {
        self.main.ask_allocation(tag, range)
    }

    fn next_allocation(&mut self) -> Option<(u64, Vec<Allocation>)> {
        self.main.next_allocation()
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.wakes.is_complete().then(|| self.wakes.descriptor())
    }
}

impl<D: fmt::Debug> fmt::Debug for MirrorDriver<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MirrorDriver")
            .field("main", &self.main)
            .field("others", &self.others)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::Keeper;

    /// Writes nothing.
    struct Nowhere;

    impl Keeper for Nowhere {
        fn label(&mut self, _: Member, _: u64) -> io::Result<()> {
            Ok(())
        }

        fn note(&mut self, _: Member, _: u64) -> io::Result<()> {
            Ok(())
        }

        fn joins(&mut self, _: Member, _: Lane) {}

        fn label_both(&mut self, _: Member, _: u64) -> io::Result<()> {
            Ok(())
        }

        fn note_both(&mut self, _: u64) {}
    }

    #[test]
    fn a_device_that_joins_and_fails_is_none_any_more() {
        let mirror = Arc::new(Mirror::new(None, 1, Box::new(Nowhere)));
        let mut fan = Fan::new(Arc::clone(&mirror), 0);
        let lane = mirror.next_lane().unwrap();
        assert!(mirror.begin_join(lane, Member::First));
        let parts = fan.split(Operation::sync(Device::Flash));
        let mut done = None;
        for (each, part) in parts {
            let failed = Err(DeviceError(io::ErrorKind::Other));
            let result = if each == lane { failed } else { Ok(()) };
            done = done.or(fan.join(each, part, result));
        }
        let (_, result) = done.expect("all have answered");
        assert_eq!(result, Ok(()), "nothing relies on it");
        assert_eq!(mirror.in_use().joining(), None);
        assert!(mirror.has_both());
    }
}
