//! Accesses of a sample that would follow the miss before them on disk if none were left out.
//!
//! An LRU memory misses a page if at least as many other pages as its capacity were used since, so
//! one pass over the whole trace knows the misses of memories of all sizes. A page that the memory
//! holds has the order of its last miss: a policy knows that order, and should know it also if the
//! small memory of a miniature happens to miss it.

use thermocline_core::MissOrder;
use thermocline_trace::{CompiledTrace, ReuseDistance};

use crate::watch::CHUNK_ACCESSES;
use crate::{LabError, Watch};

/// Number of accesses ahead at which the state of a page is prefetched.
const PREFETCH_ACCESSES: usize = 16;

/// Return the order of misses for each of some sizes of the memory, as a sample of the trace is to
/// be told it.
pub(super) fn miss_orders(
    trace: &CompiledTrace,
    sample: &CompiledTrace,
    memory_pages: &[u32],
    watch: &Watch,
) -> Result<Vec<MissOrder>, LabError> {
    let page_numbers = trace.page_numbers();
    // The pages of both are in order of first appearance.
    let mut sampled = sample.page_numbers().iter().peekable();
    let is_sampled: Vec<bool> =
        page_numbers.iter().map(|number| sampled.next_if_eq(&number).is_some()).collect();
    let mut distances = ReuseDistance::new(trace.footprint_pages());
    let mut memories: Vec<Memory> = memory_pages
        .iter()
        .map(|&pages| Memory {
            pages,
            next: None,
            is_sequential: vec![false; page_numbers.len()],
            follows: Vec::with_capacity(sample.len()),
        })
        .collect();
    for (index, access) in trace.accesses().enumerate() {
        if index % CHUNK_ACCESSES == 0 {
            watch.check()?;
        }
        if index + PREFETCH_ACCESSES < trace.len() {
            distances.prefetch(trace.access(index + PREFETCH_ACCESSES).page.0);
        }
        let page = access.page.index();
        let distance = distances.touch(access.page.0);
        for memory in &mut memories {
            if distance.is_none_or(|distance| distance >= memory.pages) {
                memory.is_sequential[page] = memory.next == Some(page_numbers[page]);
                memory.next = page_numbers[page].checked_add(1);
            }
            if is_sampled[page] {
                memory.follows.push(memory.is_sequential[page]);
            }
        }
    }
    Ok(memories.into_iter().map(|memory| memory.follows.into_iter().collect()).collect())
}

/// An LRU memory of some size.
struct Memory {
    pages: u32,
    /// The page number that a sequential miss would have.
    next: Option<u64>,
    /// Per page: whether its last miss was sequential.
    is_sequential: Vec<bool>,
    /// Answers for each access of the sample so far.
    follows: Vec<bool>,
}
