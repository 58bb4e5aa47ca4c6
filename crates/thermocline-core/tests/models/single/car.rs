//! CAR by figure 2 of its paper.

use super::super::join;
use super::{Outcome, Rule, take};

pub(super) struct Car {
    /// T1 and T2 with the reference bits, the head first.
    t1: Vec<(u32, bool)>,
    t2: Vec<(u32, bool)>,
    /// B1 and B2, the LRU page first.
    b1: Vec<u32>,
    b2: Vec<u32>,
    c: usize,
    p: f64,
}

impl Car {
    pub(super) fn new(c: usize) -> Self {
        Self { t1: vec![], t2: vec![], b1: vec![], b2: vec![], c, p: 0.0 }
    }

    /// Lines 22 to 39.
    fn replace(&mut self) -> u32 {
        loop {
            if self.t1.len() as f64 >= self.p.max(1.0) {
                let (head, is_referenced) = self.t1.remove(0);
                if !is_referenced {
                    self.b1.push(head);
                    return head;
                }
                self.t2.push((head, false));
            } else {
                let (head, is_referenced) = self.t2.remove(0);
                if !is_referenced {
                    self.b2.push(head);
                    return head;
                }
                self.t2.push((head, false));
            }
        }
    }
}

impl Rule for Car {
    fn refer(&mut self, page: u32) -> Outcome {
        if let Some(entry) = self.t1.iter_mut().chain(&mut self.t2).find(|entry| entry.0 == page) {
            entry.1 = true;
            return Outcome::Hit;
        }
        let is_ghost = self.b1.contains(&page) || self.b2.contains(&page);
        let mut victim = None;
        if self.t1.len() + self.t2.len() == self.c {
            victim = Some(self.replace());
            let directory = self.t1.len() + self.t2.len() + self.b1.len() + self.b2.len();
            if !is_ghost && self.t1.len() + self.b1.len() == self.c {
                self.b1.remove(0);
            } else if !is_ghost && directory == 2 * self.c {
                self.b2.remove(0);
            }
        }
        let [b1, b2] = [self.b1.len() as f64, self.b2.len() as f64];
        if take(&mut self.b1, &page) {
            self.p = (self.p + (b2 / b1).max(1.0)).min(self.c as f64);
            self.t2.push((page, false));
        } else if take(&mut self.b2, &page) {
            self.p = (self.p - (b1 / b2).max(1.0)).max(0.0);
            self.t2.push((page, false));
        } else {
            self.t1.push((page, false));
        }
        Outcome::Admitted(victim)
    }

    /// T1, T2, B1 and B2, `r` after a page whose bit is set, and p.
    fn state(&self) -> String {
        let clock = |list: &[(u32, bool)]| {
            join(list.iter().map(|(page, bit)| format!("{page}{}", if *bit { "r" } else { "" })))
        };
        let ghosts = |list: &[u32]| join(list.iter().map(u32::to_string));
        let lists = [clock(&self.t1), clock(&self.t2), ghosts(&self.b1), ghosts(&self.b2)];
        format!("{} | {}", lists.join(" | "), self.p)
    }
}
