//! LIRS by section 3.2 of its paper: a stack, a list Q, and the status of each page.

use std::collections::BTreeSet;

use super::super::join;
use super::{Outcome, Rule, share, take};

pub(super) struct Lirs {
    /// S, its bottom first.
    stack: Vec<u32>,
    /// Q, its front first.
    queue: Vec<u32>,
    lir: BTreeSet<u32>,
    resident: BTreeSet<u32>,
    lir_capacity: usize,
    hir_capacity: usize,
    stack_capacity: usize,
}

impl Lirs {
    pub(super) fn new(capacity: usize, hir_share: f64, stack_factor: f64) -> Self {
        let hir_capacity = share(capacity, hir_share).max(1);
        Self {
            stack: vec![],
            queue: vec![],
            lir: BTreeSet::new(),
            resident: BTreeSet::new(),
            lir_capacity: capacity - hir_capacity,
            hir_capacity,
            stack_capacity: share(capacity, stack_factor),
        }
    }

    /// "Remove the HIR resident block at the front of list Q."
    fn make_room_in_queue(&mut self) -> Option<u32> {
        if self.queue.len() < self.hir_capacity {
            return None;
        }
        let front = self.queue.remove(0);
        self.resident.remove(&front);
        Some(front)
    }

    /// Make the page LIR, "and the LIR block in the bottom of stack S is moved to the end of list Q
    /// with its status changed to HIR".
    fn promote(&mut self, page: u32) {
        self.lir.insert(page);
        if self.lir.len() > self.lir_capacity {
            let bottom = self.stack.remove(0);
            assert!(self.lir.remove(&bottom), "the bottom of the stack is LIR");
            self.queue.push(bottom);
        }
    }

    /// Stack pruning: the bottom is LIR.
    fn prune(&mut self) {
        while self.stack.first().is_some_and(|bottom| !self.lir.contains(bottom)) {
            self.stack.remove(0);
        }
    }

    fn limit_stack(&mut self) {
        while self.stack.len() > self.stack_capacity {
            let ghost = self.stack.iter().position(|page| !self.resident.contains(page));
            let Some(ghost) = ghost else { return };
            self.stack.remove(ghost);
        }
    }
}

impl Rule for Lirs {
    fn refer(&mut self, page: u32) -> Outcome {
        let was_resident = self.resident.contains(&page);
        let was_in_stack = take(&mut self.stack, &page);
        let mut victim = None;
        if self.lir.contains(&page) {
            self.stack.push(page);
        } else if was_in_stack && was_resident {
            take(&mut self.queue, &page);
            self.stack.push(page);
            self.promote(page);
        } else if was_resident {
            take(&mut self.queue, &page);
            self.queue.push(page);
            self.stack.push(page);
        } else if was_in_stack || self.lir.len() < self.lir_capacity {
            if self.lir.len() == self.lir_capacity {
                victim = self.make_room_in_queue();
            }
            self.stack.push(page);
            self.promote(page);
        } else {
            victim = self.make_room_in_queue();
            self.queue.push(page);
            self.stack.push(page);
        }
        self.resident.insert(page);
        self.prune();
        self.limit_stack();
        if was_resident { Outcome::Hit } else { Outcome::Admitted(victim) }
    }

    /// S and Q; L is LIR, r HIR and resident, n HIR and not resident.
    fn state(&self) -> String {
        let letter = |page: &u32| match (self.lir.contains(page), self.resident.contains(page)) {
            (true, _) => "L",
            (_, true) => "r",
            _ => "n",
        };
        let stack = self.stack.iter().map(|page| format!("{page}{}", letter(page)));
        format!("{} | {}", join(stack), join(self.queue.iter().map(u32::to_string)))
    }
}
