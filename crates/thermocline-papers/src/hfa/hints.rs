//! Moves of pages between levels, and their relation to later accesses (Figure 1).

use serde::Serialize;
use thermocline_core::{Action, Actions, Tier};
use thermocline_trace::{CompiledTrace, ReuseDistance};

use thermocline_lab::{Configuration, LabError};

/// Relation between pages' moves between levels and their accesses, under one algorithm.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Hints {
    /// The algorithm.
    pub(super) policy: String,
    /// Pages by how often they moved, the most seldom first.
    pub(super) groups: Vec<HintGroup>,
}

/// Pages that moved about equally often.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct HintGroup {
    /// Minimum number of moves; all of them moved less than twice as often.
    pub(super) hints: u64,
    /// Number of pages.
    pub(super) pages: u64,
    /// Mean number of accesses per page.
    pub(super) accesses: f64,
    /// Distinct pages that were accessed after one of these pages left a level for another page, until
    /// its next access, on average: the paper's hint reuse distance. `None` if none was accessed
    /// again.
    pub(super) distance: Option<f64>,
}

/// Record of a page.
#[derive(Clone, Copy, Default)]
struct Page {
    accesses: u64,
    hints: u64,
    /// `true` if it left a level since its last access.
    has_left: bool,
    distances: u64,
    returns: u64,
}

/// Distinct pages that are accessed between two events of a page.
///
/// An event is a touch of a second id of the page. Pages and second ids were touched since; a
/// stack of the second ids alone says how many of these.
struct Distances {
    all: ReuseDistance,
    events: ReuseDistance,
    pages: u32,
}

impl Distances {
    fn new(pages: u32) -> Self {
        let ids = pages.checked_mul(2).expect("a trace has fewer pages than half of all numbers");
        Self { all: ReuseDistance::new(ids), events: ReuseDistance::new(pages), pages }
    }

    fn access(&mut self, page: u32) {
        self.all.touch(page);
    }

    /// Begins to count for a page.
    fn begin(&mut self, page: u32) {
        self.all.touch(self.pages + page);
        self.events.touch(page);
    }

    /// Return the distinct pages that were accessed since counting for this page began.
    fn end(&mut self, page: u32) -> u32 {
        let since = |stack: &mut ReuseDistance, id| {
            let since = stack.touch(id).expect("counting began");
            stack.forget(id);
            since
        };
        since(&mut self.all, self.pages + page) - since(&mut self.events, page)
    }
}

/// Replays a trace and groups its pages by how often they moved between cache tiers.
pub(super) fn hints(
    trace: &CompiledTrace,
    configuration: &Configuration,
) -> Result<Hints, LabError> {
    let mut policy = configuration.build(trace)?;
    let disk = Tier(u8::try_from(configuration.tiers.len()).expect("a hierarchy has few tiers"));
    let mut pages = vec![Page::default(); trace.footprint_pages() as usize];
    let mut distances = Distances::new(trace.footprint_pages());
    let mut actions = Actions::new();
    for index in 0..trace.len() {
        let access = trace.access(index);
        let page = &mut pages[access.page.index()];
        page.accesses += 1;
        // The paper's hint reuse distance ends with the first access after the departure; later
        // ones are ordinary reuse.
        if std::mem::take(&mut page.has_left) {
            page.distances += u64::from(distances.end(access.page.0));
            page.returns += 1;
        }
        distances.access(access.page.0);
        for action in policy.step(access, &mut actions) {
            match *action {
                // A hint is a move between cache levels: what comes from the disk, or leaves for
                // it, is none.
                Action::Copy { page, source, target } if source != disk && target != disk => {
                    pages[page.index()].hints += 1;
                }
                // The page that is accessed moves for that, others make way.
                Action::Drop { page, .. } if page != access.page => {
                    if std::mem::replace(&mut pages[page.index()].has_left, true) {
                        // Only the last departure before an access counts.
                        distances.end(page.0);
                    }
                    distances.begin(page.0);
                }
                Action::Copy { .. } | Action::Drop { .. } | Action::Serve { .. } => {}
            }
        }
    }
    Ok(Hints { policy: configuration.policy.name.to_string(), groups: group(&pages) })
}

fn group(pages: &[Page]) -> Vec<HintGroup> {
    let mut groups: Vec<[u64; 4]> = vec![];
    for page in pages.iter().filter(|page| page.hints > 0) {
        let group = page.hints.ilog2() as usize;
        if groups.len() <= group {
            groups.resize(group + 1, [0; 4]);
        }
        let of_page = [1, page.accesses, page.distances, page.returns];
        groups[group].iter_mut().zip(of_page).for_each(|(sum, one)| *sum += one);
    }
    let groups = groups.into_iter().enumerate().filter(|(_, [count, ..])| *count > 0);
    let group = |(group, [count, accesses, distances, returns]): (usize, [u64; 4])| HintGroup {
        hints: 1 << group,
        pages: count,
        accesses: accesses as f64 / count as f64,
        distance: (returns > 0).then(|| distances as f64 / returns as f64),
    };
    groups.map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Page 7 is demoted, and five distinct pages are accessed before it is accessed again.
    #[test]
    fn a_distance_is_the_distinct_pages_between() {
        let mut distances = Distances::new(9);
        for page in [0, 7, 1] {
            distances.access(page);
        }
        distances.begin(7);
        for page in [1, 2, 3, 2, 1] {
            distances.access(page);
        }
        // Others are demoted meanwhile, and come back.
        distances.begin(4);
        distances.begin(8);
        for page in [4, 5, 5] {
            distances.access(page);
        }
        assert_eq!(distances.end(8), 2);
        assert_eq!(distances.end(7), 5);
        distances.begin(7);
        assert_eq!(distances.end(7), 0);
    }
}
