//! Amount of the disk in use, by the hour and by the day.

use serde::Serialize;
use thermocline_trace::CompiledTrace;

const SECOND_NS: u64 = 1_000_000_000;

/// Bytes of the pages that were accessed in each window of `seconds` seconds, one after the other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkingSet {
    /// The length of a window.
    pub seconds: u64,
    /// Windows that were seen from begin to end, or as far as the time went.
    pub windows: usize,
    /// Bytes in the window in which the fewest were accessed.
    pub least_bytes: f64,
    /// Bytes that half of the windows do not exceed.
    pub median_bytes: f64,
    /// Bytes in the window in which the most were accessed.
    pub most_bytes: f64,
}

/// Return the working sets of windows of an hour and of a day, if the time is at least as long.
/// `rate` is the share of the pages that the accesses are to.
pub fn working_sets(trace: &CompiledTrace, rate: f64) -> Vec<WorkingSet> {
    if !trace.is_timed() {
        return vec![];
    }
    let summary = trace.summary();
    let span_ns = summary.last_at.0 - summary.first_at.0;
    [3600, 86_400]
        .into_iter()
        .filter(|seconds| span_ns >= seconds * SECOND_NS)
        .map(|seconds| of_windows(trace, rate, seconds))
        .collect()
}

fn of_windows(trace: &CompiledTrace, rate: f64, seconds: u64) -> WorkingSet {
    let first_ns = trace.summary().first_at.0;
    let windows = (trace.summary().last_at.0 - first_ns) / (seconds * SECOND_NS);
    let windows = usize::try_from(windows.max(1)).unwrap_or(usize::MAX);
    let mut pages = vec![0_u64; windows];
    // The last window in which each page was counted, from 1.
    let mut counted = vec![0_usize; trace.footprint_pages() as usize];
    for request in trace.requests() {
        let window = (request.at.0 - first_ns) / (seconds * SECOND_NS);
        let window = usize::try_from(window).unwrap_or(usize::MAX);
        // The rest at the end is shorter than a window.
        let Some(count) = pages.get_mut(window) else { continue };
        for index in request.accesses {
            let last = &mut counted[trace.access(index).page.index()];
            if std::mem::replace(last, window + 1) != window + 1 {
                *count += 1;
            }
        }
    }
    pages.sort_unstable();
    let bytes = |pages: u64| pages as f64 * trace.page_size_bytes() as f64 / rate;
    WorkingSet {
        seconds,
        windows,
        least_bytes: bytes(pages[0]),
        median_bytes: bytes(pages[windows / 2]),
        most_bytes: bytes(pages[windows - 1]),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use thermocline_trace::{PageSize, ReadOptions, Reader};

    use super::*;

    #[test]
    fn pages_count_once_in_every_window() {
        // Three hours and a bit: 2, 1 and 1 pages, and one page in what is left over.
        let lines = "0,0,4096,r,0\n0,0,4096,r,10\n0,8,4096,w,3599\n0,0,4096,r,3600\n\
                     0,16,4096,r,7200\n0,24,4096,r,10801\n";
        let options = ReadOptions::default();
        let mut reader = Reader::from_read("t", Cursor::new(lines), &options).unwrap();
        let trace = CompiledTrace::compile(&mut reader, PageSize::DEFAULT).unwrap();
        let found = working_sets(&trace, 0.5);
        let page = 2.0 * 4096.0;
        assert_eq!(
            found,
            [WorkingSet {
                seconds: 3600,
                windows: 3,
                least_bytes: page,
                median_bytes: page,
                most_bytes: 2.0 * page
            }]
        );
    }
}
