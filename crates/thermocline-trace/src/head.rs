//! The beginning of a trace.

use std::path::Path;

use crate::error::TraceError;
use crate::request::{Request, Requests};

/// The first requests of a source, which is read no further than needed.
#[derive(Debug)]
pub struct Head<R> {
    source: R,
    left: u64,
}

impl<R: Requests> Head<R> {
    /// At most so many requests.
    pub const fn new(source: R, requests: u64) -> Self {
        Self { source, left: requests }
    }
}

impl<R: Requests> Requests for Head<R> {
    fn read_batch(&mut self, batch: &mut Vec<Request>) -> Result<bool, TraceError> {
        if self.left == 0 {
            batch.clear();
            return Ok(false);
        }
        let has_more = self.source.read_batch(batch)?;
        batch.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= batch.len() as u64;
        Ok(has_more)
    }

    fn volume_names(&self) -> &[String] {
        self.source.volume_names()
    }

    fn path(&self) -> &Path {
        self.source.path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Generator, Options};
    use crate::{CompiledTrace, PageSize};

    #[test]
    fn a_head_has_the_first_requests() {
        let all = || Generator::new(Options { requests: 10_000, ..Options::default() }).unwrap();
        let whole = CompiledTrace::compile(&mut all(), PageSize::DEFAULT).unwrap();
        for requests in [1, 4096, 4097, 9_999, 10_000, 20_000] {
            let mut head = Head::new(all(), requests);
            let head = CompiledTrace::compile(&mut head, PageSize::DEFAULT).unwrap();
            let expected = usize::try_from(requests).unwrap().min(10_000);
            assert_eq!(head.request_count(), expected);
            let access = |trace: &CompiledTrace| trace.access(expected - 1);
            assert_eq!(access(&head), access(&whole), "the last of {requests}");
        }
    }
}
