//! No buffer: every write goes to the NAND at once. The baseline.
//!
//! * Source: baseline.
//! * State: none that grows.
//! * Cost: O(1) per access.
//! * Deviations: none. Its capacity is there for the sake of comparison, and stays empty.

use alloc::borrow::Cow;
use alloc::boxed::Box;

use super::frames::surrender;
use crate::capabilities::{Capabilities, Depth};
use crate::config::Values;
use crate::entry::{Build, PolicyEntry};
use crate::{Access, Actions, BoxedPolicy, Policy, Setup, Survivor, Tier};

/// No buffer.
#[derive(Clone, Copy, Debug)]
pub struct Unbuffered {
    nand: Tier,
}

/// Its row in the registry.
pub const UNBUFFERED: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("none"),
    summary: "no buffer: every write goes to the NAND at once",
    source: "baseline",
    module: module_path!(),
    capabilities: Capabilities::of(Depth::Buffer),
    parameters: &[],
    build: Build::Function(build),
};

/// Builds the policy for the registry.
fn build(setup: &Setup, _values: &Values) -> BoxedPolicy {
    Box::new(Unbuffered { nand: setup.disk() })
}

impl Policy for Unbuffered {
    fn access(&mut self, Access { page, op, .. }: Access, out: &mut Actions) {
        out.serve(page, op, self.nand, self.nand);
    }

    fn flush(&mut self, _out: &mut Actions) {}

    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        surrender(self.nand, survivors, out);
    }

    fn assert_invariants(&self) {}

    fn memory_bytes(&self) -> usize {
        0
    }
}
