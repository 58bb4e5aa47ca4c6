//! Seeded synthetic traces, the same bytes on every platform.
//!
//! Random numbers come from splitmix64 (Steele, Lea and Flood, OOPSLA '14); a real in \[0, 1) is its
//! top 53 bits; logarithms and exponentials are `libm`'s, which do not depend on the platform.

use std::path::{Path, PathBuf};

use thermocline_core::{Nanos, Op};

use crate::decode::BATCH_REQUESTS;
use crate::error::TraceError;
use crate::request::{ADDRESS_BYTES_MAX, Extent, Request, Requests};

pub(crate) mod random;
mod zipf;

use random::{Scatter, SplitMix64};
use zipf::Zipf;

/// Distribution of accesses over pages.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Pattern {
    /// Every page equally often.
    Uniform,
    /// The k-th hottest page with a probability proportional to 1 / k^`alpha`.
    Zipf {
        /// Exponent, at least 0, which is uniform.
        alpha: f64,
    },
    /// Ever new pages in ascending order; the number of pages is not used.
    Sequential,
    /// All pages in ascending order, again and again.
    Loop,
    /// A transaction mix on two volumes: reads and writes of hot pages, reading scans of many pages,
    /// and a log that only grows.
    Oltp {
        /// The skew of the hot pages; at least 0.
        alpha: f64,
        /// The share of requests that scan.
        scan_share: f64,
        /// Length of a scan.
        scan_pages: u64,
        /// The share of requests that append a page to the log.
        log_share: f64,
    },
}

impl Pattern {
    /// The mix with hot pages of skew 1, 2 % scans of 64 pages and 20 % log writes.
    pub const OLTP: Self =
        Self::Oltp { alpha: 1.0, scan_share: 0.02, scan_pages: 64, log_share: 0.2 };

    /// Return its name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf { .. } => "zipf",
            Self::Sequential => "sequential",
            Self::Loop => "loop",
            Self::Oltp { .. } => "oltp",
        }
    }
}

/// A hot set that moves at known requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shift {
    /// The number of requests between two moves, at least 1.
    pub every_requests: u64,
    /// Number of the hottest pages that become the coldest at each move; every other page rises by
    /// that many ranks. 1 to the number of pages.
    pub pages: u64,
}

/// Options of a generated trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Distribution of accesses over pages.
    pub pattern: Pattern,
    /// Number of requests.
    pub requests: u64,
    /// Number of different pages at most; the log of [`Pattern::Oltp`] has its own.
    pub pages: u64,
    /// The share of writes, in \[0, 1\]; of [`Pattern::Oltp`], among the requests to hot pages.
    pub write_share: f64,
    /// The time from one request to the next.
    pub interarrival: Nanos,
    /// `true` if the hottest pages lie anywhere instead of in the order of their heat, as in real
    /// traces: a seeded bijection on the page numbers. For `Zipf` and the hot pages of `Oltp`.
    pub scatter: bool,
    /// Time and distance of the hot set's moves; `None` for a hot set that stays. For `Zipf` and
    /// the hot pages of `Oltp`.
    pub shift: Option<Shift>,
    /// Seed of everything that is random.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            pattern: Pattern::Zipf { alpha: 1.0 },
            requests: 1_000_000,
            pages: 100_000,
            write_share: 0.3,
            interarrival: Nanos(100_000),
            scatter: true,
            shift: None,
            seed: 1,
        }
    }
}

/// A trace being generated.
#[derive(Clone, Debug)]
pub struct Generator {
    options: Options,
    random: SplitMix64,
    zipf: Option<Zipf>,
    scatter: Option<Scatter>,
    volume_names: Vec<String>,
    name: PathBuf,
    generated: u64,
    log_pages: u64,
    /// The number of ranks by which the hot set has moved.
    first_rank: u64,
}

impl Generator {
    /// Checks the options.
    ///
    /// # Errors
    /// If a share is not in \[0, 1\], a skew is negative or not a number, there is nothing to
    /// generate, or addresses or times would not fit.
    pub fn new(options: Options) -> Result<Self, TraceError> {
        check(&options)?;
        let pages = options.pages;
        let zipf = match options.pattern {
            Pattern::Zipf { alpha } | Pattern::Oltp { alpha, .. } => Some(Zipf::new(pages, alpha)),
            Pattern::Uniform | Pattern::Sequential | Pattern::Loop => None,
        };
        let names: &[&str] = match options.pattern {
            Pattern::Oltp { .. } => &["data", "log"],
            Pattern::Uniform | Pattern::Zipf { .. } | Pattern::Sequential | Pattern::Loop => &["0"],
        };
        Ok(Self {
            random: SplitMix64::new(options.seed),
            zipf,
            scatter: options.scatter.then(|| Scatter::new(pages, options.seed)),
            volume_names: names.iter().map(|&name| name.to_owned()).collect(),
            name: PathBuf::from(options.pattern.name()),
            generated: 0,
            log_pages: 0,
            first_rank: 0,
            options,
        })
    }

    fn request(&mut self) -> Request {
        let at = Nanos(self.generated * self.options.interarrival.0);
        let number = self.generated;
        self.generated += 1;
        self.shift(number);
        let pages = self.options.pages;
        let first = match self.options.pattern {
            Pattern::Uniform => self.random.below(pages),
            Pattern::Zipf { .. } => self.hot_page(),
            Pattern::Sequential => number,
            Pattern::Loop => number % pages,
            Pattern::Oltp { scan_share, scan_pages, log_share, .. } => {
                let choice = self.random.real();
                if choice < log_share {
                    self.log_pages += 1;
                    let extent = Extent::Pages { first: self.log_pages - 1, count: 1 };
                    return Request { at, op: Op::Write, volume: 1, extent };
                }
                if choice < log_share + scan_share {
                    let first = self.random.below(pages - scan_pages + 1);
                    let extent = Extent::Pages { first, count: scan_pages };
                    return Request { at, op: Op::Read, volume: 0, extent };
                }
                self.hot_page()
            }
        };
        let is_write = self.random.real() < self.options.write_share;
        let op = if is_write { Op::Write } else { Op::Read };
        Request { at, op, volume: 0, extent: Extent::Pages { first, count: 1 } }
    }

    /// Moves the hot set if it is time.
    fn shift(&mut self, number: u64) {
        let Some(shift) = self.options.shift else { return };
        if number > 0 && number.is_multiple_of(shift.every_requests) {
            let pages = self.options.pages;
            self.first_rank = (self.first_rank + shift.pages) % pages;
        }
    }

    fn hot_page(&mut self) -> u64 {
        let zipf = self.zipf.as_ref().expect("patterns with hot pages have a distribution");
        let rank = (self.first_rank + zipf.rank(&mut self.random)) % self.options.pages;
        self.scatter.as_ref().map_or(rank, |scatter| scatter.page(rank))
    }
}

impl Iterator for Generator {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        (self.generated < self.options.requests).then(|| self.request())
    }
}

impl Requests for Generator {
    fn read_batch(&mut self, batch: &mut Vec<Request>) -> Result<bool, TraceError> {
        batch.clear();
        batch.extend(self.take(BATCH_REQUESTS));
        Ok(!batch.is_empty())
    }

    fn volume_names(&self) -> &[String] {
        &self.volume_names
    }

    fn path(&self) -> &Path {
        &self.name
    }
}

fn check(options: &Options) -> Result<(), TraceError> {
    let error = |reason: String| Err(TraceError::Generator { reason });
    let mut shares = vec![("write share", options.write_share)];
    let mut skew = 0.0;
    match options.pattern {
        Pattern::Zipf { alpha } => skew = alpha,
        Pattern::Oltp { alpha, scan_share, scan_pages, log_share } => {
            skew = alpha;
            shares.extend([
                ("scan share", scan_share),
                ("log share", log_share),
                ("sum of scan and log share", scan_share + log_share),
            ]);
            if scan_pages == 0 || scan_pages > options.pages.min(crate::REQUEST_PAGES_MAX) {
                let pages = options.pages;
                return error(format!("a scan of {scan_pages} pages is not from 1 to {pages}"));
            }
        }
        Pattern::Uniform | Pattern::Sequential | Pattern::Loop => {}
    }
    for (name, share) in shares {
        if !(0.0..=1.0).contains(&share) {
            return error(format!("the {name} {share} is not from 0 to 1"));
        }
    }
    if !(0.0..=100.0).contains(&skew) {
        return error(format!("the skew {skew} is not from 0 to 100"));
    }
    let pages = options.pages;
    match options.shift {
        Some(Shift { every_requests: 0, .. }) => {
            return error("the hot set must move every 1 or more requests".to_owned());
        }
        Some(Shift { pages: moved, .. }) if moved == 0 || moved > pages => {
            return error(format!("a move of {moved} pages is not from 1 to {pages}"));
        }
        Some(_) | None => {}
    }
    if options.requests == 0 || options.pages == 0 {
        return error("there must be at least one request and one page".to_owned());
    }
    // Beyond 2^53 the ranks of a Zipf distribution are no longer exact in a float.
    if options.pages > 1 << 53 || options.requests > ADDRESS_BYTES_MAX {
        return error("at most 2^53 pages and 2^63 requests".to_owned());
    }
    if options.requests.checked_mul(options.interarrival.0).is_none() {
        return error("the last request would come later than 2^64 ns".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
