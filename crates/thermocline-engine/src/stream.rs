//! Requests that continue one another: backups and scans, which caches should let pass.

/// Streams that are followed at one time.
const STREAMS: usize = 16;

/// The ends of the streams seen last.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    /// Streams, each with its next position, its length, and the time when it was last seen.
    streams: [(u64, u64, u64); STREAMS],
    time: u64,
}

impl Streams {
    /// Note a request of `length_bytes`, at a position among the bytes that the shard serves.
    /// Returns the number of bytes, this request's included, that continue one another.
    pub(crate) fn note(&mut self, position: u64, length_bytes: u64) -> u64 {
        self.time += 1;
        let continued =
            self.streams.iter_mut().find(|(end, length, _)| *length > 0 && *end == position);
        let stream = match continued {
            Some(stream) => stream,
            None => {
                let oldest = self.streams.iter_mut().min_by_key(|(_, _, seen)| *seen);
                let oldest = oldest.expect("there are streams");
                *oldest = (0, 0, 0);
                oldest
            }
        };
        stream.0 = position + length_bytes;
        stream.1 += length_bytes;
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
            assert_eq!(streams.note(step * 100, 100), (step + 1) * 100);
            assert_eq!(streams.note(9000 + step * 50, 50), (step + 1) * 50);
            assert_eq!(streams.note(70_000 - step * 10, 10), 10);
        }
    }

    #[test]
    fn a_stream_that_pauses_for_long_is_forgotten() {
        let mut streams = Streams::default();
        assert_eq!(streams.note(0, 100), 100);
        for other in 1..=STREAMS as u64 {
            let _length = streams.note(other * 1_000_000, 10);
        }
        assert_eq!(streams.note(100, 100), 100);
    }
}
