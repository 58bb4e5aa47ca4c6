//! Work in parallel, except that of policies that take turns on one thread.

use std::thread;

use rayon::prelude::*;

/// Do some work for each of several items, and return what it gives in their order. Items whose policy
/// is [hosted](thermocline_core::registry::PolicyEntry::is_hosted) take turns on a thread of their own;
/// rayon's threads share the others.
pub(crate) fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    is_hosted: impl Fn(&T) -> bool,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let (hosted, free): (Vec<_>, Vec<_>) =
        items.iter().enumerate().partition(|(_, item)| is_hosted(item));
    let work = |(place, item): (usize, &T)| (place, work(item));
    let mut found: Vec<(usize, R)> = thread::scope(|scope| {
        let turns = (!hosted.is_empty())
            .then(|| scope.spawn(|| hosted.into_iter().map(work).collect::<Vec<_>>()));
        let free: Vec<(usize, R)> = free.into_par_iter().map(work).collect();
        let hosted = turns.map(|turns| turns.join().expect("a run that panics ends all"));
        free.into_iter().chain(hosted.into_iter().flatten()).collect()
    });
    found.sort_by_key(|(place, _)| *place);
    found.into_iter().map(|(_, found)| found).collect()
}
