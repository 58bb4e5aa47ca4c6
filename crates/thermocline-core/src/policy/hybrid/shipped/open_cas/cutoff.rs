//! Sequential cutoff of Open CAS: requests of a sequential stream bypass the cache.
//!
//! * Source: Open CAS Framework, `src/ocf_seq_cutoff.c`, `src/ocf_seq_detect.c`, by a description of their
//!   rules.
//! * State: 32 bytes per stream.
//! * Cost: O(streams) per request.
//! * Deviations: there is one queue of requests.

use alloc::collections::VecDeque;

use crate::Op;

/// Streams of a queue, and of the device.
const QUEUE_STREAMS: usize = 64;
const CORE_STREAMS: usize = 128;
/// Requests after which a stream belongs to the device.
const PROMOTION_REQUESTS: u64 = 8;

/// The streams of requests that follow one another.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    /// The stream that grew last at the back.
    queue: VecDeque<Stream>,
    core: VecDeque<Stream>,
    threshold_pages: u64,
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    op: Op,
    next: u64,
    /// Length in pages, and so in requests.
    len: u64,
}

impl Streams {
    pub(super) const fn new(threshold_pages: u64) -> Self {
        Self { queue: VecDeque::new(), core: VecDeque::new(), threshold_pages }
    }

    /// Return `true` if a request makes a stream as long as the threshold.
    pub(super) fn is_cut_off(&self, op: Op, number: u64) -> bool {
        let place = |streams| find(streams, op, number);
        // As there, a queue's own stream decides before one of the device.
        let stream = match place(&self.queue) {
            Some(place) => Some(self.queue[place]),
            None => place(&self.core).map(|place| self.core[place]),
        };
        stream.is_some_and(|stream| self.is_long(stream.len + 1))
    }

    /// Return `true` if a stream of `pages` pages bypasses the cache. A request that continues no
    /// stream never does.
    pub(super) const fn is_long(&self, pages: u64) -> bool {
        pages > 1 && pages >= self.threshold_pages
    }

    /// Notes a request.
    pub(super) fn note(&mut self, op: Op, number: u64) {
        let next = number.wrapping_add(1);
        if let Some(known) = take(&mut self.core, op, number) {
            self.core.push_back(Stream { next, len: known.len + 1, ..known });
            return;
        }
        let len = take(&mut self.queue, op, number).map_or(0, |known| known.len) + 1;
        let stream = Stream { op, next, len };
        if len > 1 && len >= self.threshold_pages.min(PROMOTION_REQUESTS) {
            push(&mut self.core, CORE_STREAMS, stream);
        } else {
            push(&mut self.queue, QUEUE_STREAMS, stream);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        (self.queue.capacity() + self.core.capacity()) * size_of::<Stream>()
    }
}

/// Return the stream that a request continues, the one that grew last if there are several.
fn find(streams: &VecDeque<Stream>, op: Op, number: u64) -> Option<usize> {
    streams.iter().rposition(|stream| stream.op == op && stream.next == number)
}

fn take(streams: &mut VecDeque<Stream>, op: Op, number: u64) -> Option<Stream> {
    find(streams, op, number).and_then(|place| streams.remove(place))
}

/// Adds a stream, in the place of the one that grew longest ago if there are too many.
fn push(streams: &mut VecDeque<Stream>, streams_max: usize, stream: Stream) {
    if streams.len() == streams_max {
        streams.pop_front();
    }
    streams.push_back(stream);
}
