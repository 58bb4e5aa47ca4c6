//! Requests that continue one another: backups and scans, which caches should let pass.

use crate::request::Request;

/// Streams that are followed at one time.
const STREAMS: usize = 16;

/// The ends of the streams seen last.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    /// Where a stream goes on, how long it is, and when it was last seen.
    streams: [(u64, u64, u64); STREAMS],
    time: u64,
}

impl Streams {
    /// Notes a request. Returns how many bytes, this request's included, continue one another.
    pub(crate) fn note(&mut self, request: &Request) -> u64 {
        self.time += 1;
        let continued = self
            .streams
            .iter_mut()
            .find(|(end, length, _)| *length > 0 && *end == request.offset_bytes);
        let stream = match continued {
            Some(stream) => stream,
            None => {
                let oldest = self.streams.iter_mut().min_by_key(|(_, _, seen)| *seen);
                let oldest = oldest.expect("there are streams");
                *oldest = (0, 0, 0);
                oldest
            }
        };
        stream.0 = request.offset_bytes + request.length_bytes;
        stream.1 += request.length_bytes;
        stream.2 = self.time;
        stream.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleaved_streams_are_told_apart() {
        let mut streams = Streams::default();
        for step in 0..4 {
            assert_eq!(streams.note(&Request::read(0, step * 100, 100)), (step + 1) * 100);
            assert_eq!(streams.note(&Request::read(0, 9000 + step * 50, 50)), (step + 1) * 50);
            assert_eq!(streams.note(&Request::read(0, 70_000 - step * 10, 10)), 10);
        }
    }

    #[test]
    fn a_stream_that_pauses_for_long_is_forgotten() {
        let mut streams = Streams::default();
        assert_eq!(streams.note(&Request::read(0, 0, 100)), 100);
        for other in 1..=STREAMS as u64 {
            let _length = streams.note(&Request::read(0, other * 1_000_000, 10));
        }
        assert_eq!(streams.note(&Request::read(0, 100, 100)), 100);
    }
}
