//! Lengths of the sequential runs of a workload, from a driver that knows them although it leaves
//! accesses out.

use alloc::boxed::Box;

/// The sequential run that an access ends, and those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// Number of pages of the run so far, this access included; 1 if it follows no other one on disk, or
    /// one that was forgotten for many others that grew since, which is how Linux's bcache follows runs.
    pub pages: u32,
    /// The same, where runs of some pages are forgotten only for others as long, which is how Open CAS
    /// follows them.
    pub remembered_pages: u32,
    /// Mean length of the runs that ended before, in pages, rounded down. Each one weighs seven eighths of
    /// the one after it, which is how Linux's bcache judges a task.
    pub mean_pages: u32,
}

/// For each access to come, in order: the sequential run that it ends.
#[derive(Clone, Debug, Default)]
pub struct RunLengths(Box<[Run]>);

impl Run {
    /// The run of an access that follows no other one.
    pub const ALONE: Self = Self { pages: 1, remembered_pages: 1, mean_pages: 0 };

    /// Return the same run so many pages later.
    #[must_use]
    pub const fn after(self, pages: u32) -> Self {
        Self {
            pages: self.pages.saturating_add(pages),
            remembered_pages: self.remembered_pages.saturating_add(pages),
            ..self
        }
    }
}

impl RunLengths {
    /// Return the run that the access at an index ends; beyond the last one, none follows another.
    pub(crate) fn of(&self, access: usize) -> Run {
        self.0.get(access).copied().unwrap_or(Run::ALONE)
    }
}

impl FromIterator<Run> for RunLengths {
    fn from_iter<I: IntoIterator<Item = Run>>(runs: I) -> Self {
        Self(runs.into_iter().collect())
    }
}
