//! Sequential requests that bypass bcache: those of a long run, which a disk serves well.
//!
//! * Source: Linux, `drivers/md/bcache/request.c`, by a description of its rules.
//! * State: 24 bytes per stream.
//! * Cost: O(streams) per request.
//! * Deviations: congestion of the cache's device, which lowers the cutoff, is not modelled.

use alloc::collections::VecDeque;

use crate::policy::hybrid::shipped::time::after;
use crate::{Nanos, Run};

/// Bytes of a page.
const PAGE: u64 = 4096;
/// Seconds after which a stream is forgotten.
const STREAM_S: u64 = 5;

/// The streams of requests that follow one another.
#[derive(Clone, Debug)]
pub(super) struct Sequential {
    /// The stream that grew last at the back.
    streams: VecDeque<Stream>,
    streams_max: usize,
    /// Tasks that make requests: the readers, and the page cache's writer.
    tasks: [Task; 2],
    cutoff_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    next: u64,
    bytes: u64,
    until: Nanos,
}

#[derive(Clone, Copy, Debug, Default)]
struct Task {
    run: u64,
    average: u64,
}

impl Sequential {
    pub(super) fn new(streams_max: usize, cutoff_pages: u64) -> Self {
        let cutoff_bytes = cutoff_pages * PAGE;
        Self { streams: VecDeque::new(), streams_max, tasks: [Task::default(); 2], cutoff_bytes }
    }

    /// Notes a request, and returns whether it belongs to a run that is at least as long as the cutoff, or
    /// its task's runs are on average. The run is the one given, or else the one that its stream makes.
    pub(super) fn is_cut_off(
        &mut self,
        number: u64,
        is_eviction: bool,
        run: Option<Run>,
        now: Nanos,
    ) -> bool {
        if self.cutoff_bytes == 0 {
            return false;
        }
        if let Some(Run { pages, mean_pages, .. }) = run {
            return u64::from(pages.max(mean_pages)) * PAGE >= self.cutoff_bytes;
        }
        let bytes = self.extend_stream(number, now);
        let task = &mut self.tasks[usize::from(is_eviction)];
        if bytes == PAGE {
            task.average = (7 * task.average + task.run) / 8;
        }
        task.run = bytes;
        task.run.max(task.average) >= self.cutoff_bytes
    }

    /// Adds a page to the stream that it continues, or to a new one, and returns the stream's bytes.
    fn extend_stream(&mut self, number: u64, now: Nanos) -> u64 {
        let known =
            self.streams.iter().rposition(|stream| stream.next == number && now <= stream.until);
        let former = known.and_then(|place| self.streams.remove(place));
        let bytes = former.map_or(0, |stream| stream.bytes) + PAGE;
        if former.is_none() && self.streams.len() == self.streams_max {
            self.streams.pop_front();
        }
        let stream = Stream { next: number.wrapping_add(1), bytes, until: after(now, STREAM_S) };
        self.streams.push_back(stream);
        bytes
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.streams.capacity() * size_of::<Stream>()
    }
}
