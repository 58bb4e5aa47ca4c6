//! A part of a trace: some of its requests, by number or by time.

use std::path::Path;

use crate::error::TraceError;
use crate::request::{Request, Requests};

/// Selection of requests; all by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartOptions {
    /// Number of requests at the beginning that are left out.
    pub skip: u64,
    /// Maximum number of requests.
    pub limit: u64,
    /// Minimum time after the first request of the trace, in nanoseconds.
    pub from_ns: u64,
    /// Upper bound of the time after the first request of the trace, in nanoseconds, exclusive.
    pub to_ns: u64,
}

impl Default for PartOptions {
    fn default() -> Self {
        Self { skip: 0, limit: u64::MAX, from_ns: 0, to_ns: u64::MAX }
    }
}

/// Some requests of a source, which is read no further than needed.
///
/// Of the requests that come in the time that is wanted, the first `skip` are left out.
#[derive(Debug)]
pub struct Part<R> {
    source: R,
    options: PartOptions,
    first_at_ns: Option<u64>,
    skipped: u64,
    taken: u64,
}

impl<R: Requests> Part<R> {
    /// Return the part that the options choose.
    pub const fn new(source: R, options: PartOptions) -> Self {
        Self { source, options, first_at_ns: None, skipped: 0, taken: 0 }
    }

    /// Return the source, read as far as it was.
    pub fn into_source(self) -> R {
        self.source
    }

    /// Leaves the requests in a batch that are wanted.
    fn choose(&mut self, batch: &mut Vec<Request>) {
        let PartOptions { skip, limit, from_ns, to_ns } = self.options;
        batch.retain(|request| {
            let first_at_ns = *self.first_at_ns.get_or_insert(request.at.0);
            // A request that came before the first is as early as it.
            let at_ns = request.at.0.saturating_sub(first_at_ns);
            if at_ns < from_ns || at_ns >= to_ns && to_ns < u64::MAX {
                return false;
            }
            if self.skipped < skip {
                self.skipped += 1;
                return false;
            }
            let is_taken = self.taken < limit;
            self.taken += u64::from(is_taken);
            is_taken
        });
    }

    fn empty(&self) -> TraceError {
        TraceError::Content {
            path: self.source.path().to_owned(),
            reason: format!(
                "no request is in the part that is wanted: {} came in its time and were skipped",
                self.skipped
            ),
        }
    }
}

impl<R: Requests> Requests for Part<R> {
    fn read_batch(&mut self, batch: &mut Vec<Request>) -> Result<bool, TraceError> {
        if self.taken >= self.options.limit {
            batch.clear();
            return Ok(false);
        }
        while self.source.read_batch(batch)? {
            if self.options == PartOptions::default() {
                return Ok(true);
            }
            self.choose(batch);
            if !batch.is_empty() {
                return Ok(true);
            }
        }
        if self.taken == 0 && self.options != PartOptions::default() {
            return Err(self.empty());
        }
        Ok(false)
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
    use proptest::prelude::*;
    use thermocline_core::Nanos;

    fn all() -> Generator {
        let interarrival = Nanos(1000);
        Generator::new(Options { requests: 10_000, interarrival, ..Options::default() }).unwrap()
    }

    fn times(options: PartOptions) -> Result<Vec<u64>, TraceError> {
        let (mut part, mut batch, mut times) = (Part::new(all(), options), vec![], vec![]);
        while part.read_batch(&mut batch)? {
            times.extend(batch.iter().map(|request| request.at.0));
        }
        Ok(times)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn a_part_has_the_requests_that_it_names(
            skip in prop_oneof![Just(0), 0_u64..12_000],
            limit in prop_oneof![Just(u64::MAX), 1_u64..12_000],
            from_ns in prop_oneof![Just(0), 0_u64..12_000_000],
            to_ns in prop_oneof![Just(u64::MAX), 1_u64..12_000_000],
        ) {
            let whole = times(PartOptions::default()).unwrap();
            let first = whole[0];
            let expected: Vec<u64> = whole
                .into_iter()
                .filter(|at| (from_ns..to_ns).contains(&(at - first)))
                .skip(usize::try_from(skip).unwrap())
                .take(usize::try_from(limit).unwrap_or(usize::MAX))
                .collect();
            match times(PartOptions { skip, limit, from_ns, to_ns }) {
                Ok(found) => prop_assert_eq!(found, expected),
                Err(error) => {
                    prop_assert!(expected.is_empty());
                    prop_assert!(error.to_string().contains("no request is in the part"));
                }
            }
        }
    }

    #[test]
    fn a_part_is_read_no_further_than_needed() {
        let whole = CompiledTrace::compile(&mut all(), PageSize::DEFAULT).unwrap();
        for limit in [1, 4096, 4097, 9_999, 10_000, 20_000] {
            let mut part = Part::new(all(), PartOptions { limit, ..PartOptions::default() });
            let part = CompiledTrace::compile(&mut part, PageSize::DEFAULT).unwrap();
            let expected = usize::try_from(limit).unwrap().min(10_000);
            assert_eq!(part.request_count(), expected);
            let access = |trace: &CompiledTrace| trace.access(expected - 1);
            assert_eq!(access(&part), access(&whole), "the last of {limit}");
        }
    }
}
