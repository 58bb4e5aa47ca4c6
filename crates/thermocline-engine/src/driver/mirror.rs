//! A driver of a mirrored flash: what concerns both members goes to both, and is done when both have done it.
//!
//! What a member fails while the other one does not is the shard's to try again. When it does not, the member
//! has failed, and the operation is done once that is durable ([`Mirror::fail`]).

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::wakes::Wakes;
use super::{Allocation, Completion, Driver};
use crate::mirror::{MEMBER_IS_GONE, Mirror, StillUsed};
use crate::operation::{
    Copies, Device, DeviceError, Member, Operation, OperationId, OperationKind,
};

/// An operation that one member or both perform.
#[derive(Debug)]
struct Flying {
    /// Members that perform it.
    members: [bool; 2],
    /// Completions to come.
    left: u8,
    /// Members that failed it.
    failed: [Option<DeviceError>; 2],
}

/// Joins what two members do.
#[derive(Debug)]
pub struct Fan {
    mirror: Arc<Mirror>,
    /// By the number of the operation.
    flying: BTreeMap<OperationId, Flying>,
    /// Operations that are done, but for the note that says which member lacks them.
    held: Vec<(Member, Operation)>,
}

/// Outcome of an operation that all members have answered.
enum Outcome {
    Done(Result<(), DeviceError>),
    /// It is done once the note says that this member lacks it.
    Held(Member),
}

impl Fan {
    /// Create the state for the members of a flash.
    pub const fn new(mirror: Arc<Mirror>) -> Self {
        Self { mirror, flying: BTreeMap::new(), held: vec![] }
    }

    /// Take an operation of the flash. Returns what each member has to do.
    pub fn split(&mut self, operation: Operation) -> [Option<Operation>; 2] {
        self.mirror.settle();
        let is_read = operation.kind == OperationKind::Read;
        let members = match operation.copies {
            Copies::Both if is_read => one(self.mirror.in_place_of(Member::First)),
            Copies::Both => Member::EACH.map(|member| self.mirror.uses(member)),
            Copies::One(member) => one(self.mirror.in_place_of(member)),
        };
        let left = members.iter().map(|&is| u8::from(is)).sum();
        self.flying.insert(operation.id, Flying { members, left, failed: [None; 2] });
        match members {
            [true, true] => [Some(operation.twin()), Some(operation)],
            [false, true] => [None, Some(operation)],
            [_, false] => [Some(operation), None],
        }
    }

    /// Take what a member has done. Returns the operation once all have done it.
    ///
    /// # Panics
    /// If the operation was not split here.
    pub fn join(
        &mut self,
        member: Member,
        operation: Operation,
        result: Result<(), DeviceError>,
    ) -> Option<Completion> {
        let flying = self.flying.get_mut(&operation.id).expect("it was split before");
        flying.left -= 1;
        flying.failed[member as usize] = result.err();
        if result.is_err() {
            self.mirror.count_error(member);
        }
        if flying.left > 0 {
            return None;
        }
        let flying = self.flying.remove(&operation.id).expect("it is there");
        match self.outcome(&operation, &flying) {
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

    fn outcome(&self, operation: &Operation, flying: &Flying) -> Outcome {
        let has = |member: Member| {
            flying.members[member as usize] && flying.failed[member as usize].is_none()
        };
        let error = flying.failed.iter().flatten().next().copied();
        if operation.kind == OperationKind::Read || operation.copies != Copies::Both {
            let is_gone = Member::EACH
                .iter()
                .any(|&member| flying.members[member as usize] && !self.mirror.uses(member));
            return Outcome::Done(match error {
                None => Ok(()),
                Some(_) if is_gone => Err(MEMBER_IS_GONE),
                Some(MEMBER_IS_GONE) => Err(DeviceError(io::ErrorKind::Other)),
                Some(error) => Err(error),
            });
        }
        let lacking = Member::EACH.map(|member| self.mirror.uses(member) && !has(member));
        match lacking {
            [false, false] => Outcome::Done(Ok(())),
            [true, true] => Outcome::Done(Err(error.unwrap_or(DeviceError(io::ErrorKind::Other)))),
            [is_first, _] => {
                let lacks = if is_first { Member::First } else { Member::Second };
                let error = error.unwrap_or(DeviceError(io::ErrorKind::Other));
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

/// Return that only this member is concerned.
fn one(member: Member) -> [bool; 2] {
    Member::EACH.map(|each| each == member)
}

/// A driver per member.
#[derive(Debug)]
pub struct MirrorDriver<D> {
    /// The driver of the first member, if that is used, and of the backing store.
    main: D,
    /// The driver of the second member.
    second: Option<D>,
    fan: Fan,
    in_flight: usize,
    done: Vec<Completion>,
    wakes: Wakes,
}

impl<D: Driver> MirrorDriver<D> {
    /// Puts two drivers together, of one shard. `main` drives the first member and the backing store, `second`
    /// the second member.
    ///
    /// # Errors
    /// If the system gives no more file descriptors.
    pub fn new(main: D, second: Option<D>, mirror: Arc<Mirror>) -> io::Result<Self> {
        let drivers = [Some(&main), second.as_ref()];
        let descriptors: Vec<_> = drivers.into_iter().flatten().map(Driver::wake_fd).collect();
        let wakes = Wakes::of(&descriptors)?;
        let (fan, done) = (Fan::new(mirror), vec![]);
        Ok(Self { main, second, fan, in_flight: 0, done, wakes })
    }

    /// Return the driver of the backing store.
    pub const fn main(&self) -> &D {
        &self.main
    }

    fn poll_member(&mut self, member: Member, done: &mut Vec<Completion>) {
        let mut found = std::mem::take(&mut self.done);
        match (member, &mut self.second) {
            (Member::First, _) => self.main.poll(&mut found),
            (Member::Second, Some(second)) => second.poll(&mut found),
            (Member::Second, None) => {}
        }
        for (operation, result) in found.drain(..) {
            if operation.device == Device::Backing {
                done.push((operation, result));
            } else {
                done.extend(self.fan.join(member, operation, result));
            }
        }
        self.done = found;
    }
}

impl<D: Driver> Driver for MirrorDriver<D> {
    fn start(&mut self, operation: Operation) {
        self.in_flight += 1;
        if operation.device == Device::Backing {
            return self.main.start(operation);
        }
        let [first, second] = self.fan.split(operation);
        if let Some(first) = first {
            self.main.start(first);
        }
        if let Some(operation) = second {
            let driver = self.second.as_mut().expect("a member in use has a driver");
            driver.start(operation);
        }
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        let before = done.len();
        for member in Member::EACH {
            self.poll_member(member, done);
        }
        done.extend(std::iter::from_fn(|| self.fan.next_held()));
        self.in_flight -= done.len() - before;
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
