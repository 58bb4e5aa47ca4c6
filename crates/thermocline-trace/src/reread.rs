//! A compiled trace as requests again, as to merge it with others.

use std::path::Path;

use crate::{CompiledTrace, Extent, Request, Requests, TraceError};

/// Requests per batch.
const BATCH: usize = 4096;

/// The requests of a compiled trace, in whole pages.
#[derive(Debug)]
pub struct Reread<'a> {
    trace: &'a CompiledTrace,
    /// Requests and accesses that were read.
    requests: usize,
    accesses: usize,
}

impl CompiledTrace {
    /// Return the requests that it was made of, to be read again: their pages, times and volumes
    /// are the same, which client made them is not said.
    pub const fn reread(&self) -> Reread<'_> {
        Reread { trace: self, requests: 0, accesses: 0 }
    }
}

impl Requests for Reread<'_> {
    fn read_batch(&mut self, batch: &mut Vec<Request>) -> Result<bool, TraceError> {
        batch.clear();
        let end = self.trace.request_count().min(self.requests + BATCH);
        for request in self.requests..end {
            let (at, count) = self.trace.request(request);
            let access = self.trace.access(self.accesses);
            let (volume, first) = self.trace.location(access.page);
            let extent = Extent::Pages { first, count: u64::from(count) };
            batch.push(Request { at, op: access.op, volume, extent });
            self.accesses += count as usize;
        }
        self.requests = end;
        Ok(!batch.is_empty())
    }

    fn volume_names(&self) -> &[String] {
        self.trace.volume_names()
    }

    fn path(&self) -> &Path {
        self.trace.path()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use thermocline_core::{Nanos, Op};

    use super::*;
    use crate::PageSize;

    /// Requests as `(at, writes, volume, first, count)`.
    struct Given(Vec<(u64, bool, u32, u64, u64)>, Vec<String>);

    impl Requests for Given {
        fn read_batch(&mut self, batch: &mut Vec<Request>) -> Result<bool, TraceError> {
            batch.clear();
            batch.extend(self.0.drain(..).map(|(at, writes, volume, first, count)| Request {
                at: Nanos(at),
                op: if writes { Op::Write } else { Op::Read },
                volume,
                extent: Extent::Pages { first, count },
            }));
            Ok(!batch.is_empty())
        }

        fn volume_names(&self) -> &[String] {
            &self.1
        }

        fn path(&self) -> &Path {
            Path::new("given")
        }
    }

    proptest! {
        #[test]
        fn a_trace_that_is_read_again_is_the_same(
            requests in prop::collection::vec((0_u64..3, any::<bool>(), 0_u32..3, 0_u64..50, 1_u64..6), 1..60),
        ) {
            let names = ["a", "b", "c"].map(str::to_owned).to_vec();
            let trace = CompiledTrace::compile(&mut Given(requests, names), PageSize::DEFAULT).unwrap();
            let again = CompiledTrace::compile(&mut trace.reread(), trace.page_size()).unwrap();
            prop_assert_eq!(again.packed(), trace.packed());
            prop_assert_eq!(again.page_numbers(), trace.page_numbers());
            prop_assert_eq!(again.volume_names(), trace.volume_names());
            prop_assert!(again.requests().eq(trace.requests()));
        }
    }
}
