//! How often pages move between levels, and what that says of them (Figure 1).

use serde::Serialize;
use thermocline_core::{Action, Actions, Tier};
use thermocline_trace::CompiledTrace;

use thermocline_lab::{Configuration, LabError};

/// Pages that moved about equally often.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct HintGroup {
    /// They moved at least so often, and less than twice as often.
    pub(super) hints: u64,
    /// How many pages.
    pub(super) pages: u64,
    /// How often each was accessed, on average.
    pub(super) accesses: f64,
    /// Accesses of any page between two moves of one, on average; none if no page moved twice.
    pub(super) distance: Option<f64>,
}

/// What is known of a page.
#[derive(Clone, Copy, Default)]
struct Page {
    accesses: u64,
    hints: u64,
    last_hint: u64,
    distances: u64,
}

/// Replays a trace and groups its pages by how often they moved between cache tiers.
pub(super) fn hint_groups(
    trace: &CompiledTrace,
    configuration: &Configuration,
) -> Result<Vec<HintGroup>, LabError> {
    let mut policy = configuration.build(trace)?;
    let disk = Tier(u8::try_from(configuration.tiers.len()).expect("a hierarchy has few tiers"));
    let mut pages = vec![Page::default(); trace.footprint_pages() as usize];
    let mut actions = Actions::new();
    for (now, index) in (1_u64..).zip(0..trace.len()) {
        let access = trace.access(index);
        pages[access.page.index()].accesses += 1;
        actions.clear();
        policy.access(access, &mut actions);
        for action in actions.as_slice() {
            if let Action::Copy { page, source, target } = *action
                && source != disk
                && target != disk
            {
                let page = &mut pages[page.index()];
                if page.hints > 0 {
                    page.distances += now - page.last_hint;
                }
                (page.hints, page.last_hint) = (page.hints + 1, now);
            }
        }
    }
    let mut groups: Vec<[u64; 4]> = vec![];
    for page in pages.iter().filter(|page| page.hints > 0) {
        let group = page.hints.ilog2() as usize;
        if groups.len() <= group {
            groups.resize(group + 1, [0; 4]);
        }
        let [count, accesses, distances, pairs] = &mut groups[group];
        *count += 1;
        *accesses += page.accesses;
        *distances += page.distances;
        *pairs += page.hints - 1;
    }
    let groups = groups.into_iter().enumerate().filter(|(_, [count, ..])| *count > 0);
    let group = |(group, [count, accesses, distances, pairs]): (usize, [u64; 4])| HintGroup {
        hints: 1 << group,
        pages: count,
        accesses: accesses as f64 / count as f64,
        distance: (pairs > 0).then(|| distances as f64 / pairs as f64),
    };
    Ok(groups.map(group).collect())
}
