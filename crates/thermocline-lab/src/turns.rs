//! Work in parallel, except that of policies that take turns on one thread.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rayon::prelude::*;

/// Do some work for each of several items, and return the results in their order. Items whose
/// policy is [hosted](thermocline_core::registry::PolicyEntry::is_hosted) take turns on a thread of
/// their own; rayon's threads share the others.
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

/// Do some work for each of several items, the first ones first: rayon's threads take the next item
/// whenever they have finished one. Hosted items take turns on a thread of their own, as with
/// [`in_parallel`].
pub(crate) fn in_order<T: Sync>(
    items: &[T],
    is_hosted: impl Fn(&T) -> bool,
    work: impl Fn(&T) + Sync,
) {
    let (hosted, free): (Vec<&T>, Vec<&T>) = items.iter().partition(|item| is_hosted(item));
    let next = AtomicUsize::new(0);
    let work_all = || {
        while let Some(item) = free.get(next.fetch_add(1, Ordering::Relaxed)) {
            work(item);
        }
    };
    thread::scope(|scope| {
        if !hosted.is_empty() {
            scope.spawn(|| hosted.into_iter().for_each(&work));
        }
        rayon::scope(|scope| {
            let threads = rayon::current_num_threads().min(free.len());
            (0..threads).for_each(|_| scope.spawn(|_| work_all()));
        });
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn items_are_begun_in_their_order() {
        let items: Vec<u32> = (0..200).collect();
        let done = Mutex::new(vec![]);
        in_order(&items, |item| item % 5 == 0, |&item| done.lock().unwrap().push(item));
        let done = done.into_inner().unwrap();
        let hosted: Vec<u32> = done.iter().copied().filter(|item| item % 5 == 0).collect();
        assert_eq!(hosted, (0..200).step_by(5).collect::<Vec<u32>>());
        assert_eq!(done.len(), items.len());
        // Whoever takes an item later can be ahead by no more items than there are threads.
        let free: Vec<u32> = done.into_iter().filter(|item| item % 5 != 0).collect();
        assert!(
            free.first().is_some_and(|&first| first as usize <= 2 * rayon::current_num_threads())
        );
    }
}
