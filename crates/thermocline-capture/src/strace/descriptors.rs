//! Open files: what descriptors lead to, and what they share.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Opened object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// A file, by its number.
    File(u32),
    /// A socket, a pipe, a device, ...
    Other,
}

/// An open file description: what `open` makes, and what `dup` and `fork` share.
#[derive(Debug)]
pub(super) struct Description {
    pub(super) node: Node,
    /// Position of the next read or write, if it is known.
    pub(super) position: Cell<Option<u64>>,
    /// `true` if every write goes to the end of the file.
    pub(super) appends: Cell<bool>,
}

impl Description {
    /// Create a file that is opened.
    pub(super) fn opened(node: Node, appends: bool) -> Rc<Self> {
        Rc::new(Self { node, position: Cell::new(Some(0)), appends: Cell::new(appends) })
    }

    /// Create a file that was opened before the recording, or out of its sight.
    pub(super) fn found(node: Node) -> Rc<Self> {
        Rc::new(Self { node, position: Cell::new(None), appends: Cell::new(false) })
    }

    /// Return the file, if it is one.
    pub(super) const fn file(&self) -> Option<u32> {
        match self.node {
            Node::File(file) => Some(file),
            Node::Other => None,
        }
    }
}

/// A descriptor.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) description: Rc<Description>,
    pub(super) closes_on_exec: bool,
}

/// The descriptors of a process, or of several that share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    slots: BTreeMap<u32, Slot>,
}

/// A table that may be shared.
pub(super) type SharedTable = Rc<RefCell<Table>>;

impl Table {
    pub(super) fn get(&self, number: u32) -> Option<&Rc<Description>> {
        self.slots.get(&number).map(|slot| &slot.description)
    }

    pub(super) fn set(&mut self, number: u32, description: Rc<Description>, closes_on_exec: bool) {
        self.slots.insert(number, Slot { description, closes_on_exec });
    }

    pub(super) fn close(&mut self, number: u32) {
        self.slots.remove(&number);
    }

    pub(super) fn set_closes_on_exec(&mut self, number: u32, closes_on_exec: bool) {
        if let Some(slot) = self.slots.get_mut(&number) {
            slot.closes_on_exec = closes_on_exec;
        }
    }

    /// Closes a range of descriptors, or has it closed when a program starts.
    pub(super) fn close_range(&mut self, first: u32, last: u32, on_exec_only: bool) {
        if first > last {
            return;
        }
        if on_exec_only {
            self.slots.range_mut(first..=last).for_each(|(_, slot)| slot.closes_on_exec = true);
        } else {
            self.slots.retain(|number, _| !(first..=last).contains(number));
        }
    }

    /// Closes what a new program does not inherit.
    pub(super) fn exec(&mut self) {
        self.slots.retain(|_, slot| !slot.closes_on_exec);
    }
}

/// Return a table of one's own, with the same descriptions.
pub(super) fn unshared(table: &SharedTable) -> SharedTable {
    Rc::new(RefCell::new(table.borrow().clone()))
}
