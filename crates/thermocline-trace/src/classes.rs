//! Classes of written pages: frequently or infrequently updated, with short or long re-use distance.
//!
//! * Source: Park and Park, *FRD*, MSST 2017, as used in section II of the HWB paper (Figures 1 and
//!   2), which does not give the thresholds: they are options.

use serde::Serialize;
use thermocline_core::Op;

use crate::compiled::CompiledTrace;
use crate::reuse_distance::ReuseDistance;

/// Boundaries of the classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassOptions {
    /// A page written at least so often is frequently updated.
    pub frequent_writes: u64,
    /// A page whose mean re-use distance is at most this many distinct pages has a short one.
    pub short_distance_pages: u64,
    /// Writes of each interval of the figures over time, at least 1.
    pub interval_writes: u64,
}

/// A class of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Class {
    /// Frequently updated, short re-use distance.
    #[serde(rename = "FS")]
    FrequentShort,
    /// Frequently updated, long re-use distance.
    #[serde(rename = "FL")]
    FrequentLong,
    /// Infrequently updated, short re-use distance.
    #[serde(rename = "IS")]
    InfrequentShort,
    /// Infrequently updated, long re-use distance, or written once.
    #[serde(rename = "IL")]
    InfrequentLong,
}

/// The written pages of a trace by class.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Classes {
    /// Page accesses that write.
    pub writes: u64,
    /// Distinct pages written.
    pub pages: u64,
    /// A page written at least so often is frequently updated.
    pub frequent_writes: u64,
    /// A mean re-use distance of at most so many distinct pages is short.
    pub short_distance_pages: u64,
    /// Writes of each interval of `distance_over_time`.
    pub interval_writes: u64,
    /// The classes: FS, FL, IS, IL.
    pub classes: Vec<ClassSummary>,
}

/// One class.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ClassSummary {
    /// Class.
    pub class: Class,
    /// Its pages.
    pub pages: u64,
    /// `pages` divided by all pages written, in \[0, 1\].
    pub page_share: f64,
    /// Writes to its pages.
    pub writes: u64,
    /// `writes` divided by all writes, in \[0, 1\].
    pub write_share: f64,
    /// Writes per page; 0 if it has no page.
    pub mean_writes_per_page: f64,
    /// Distinct pages written between two writes of a page, on average; `None` if no page of the
    /// class was written twice.
    pub mean_distance_pages: Option<f64>,
    /// The mean re-use distance of the writes of each interval; none where there is no re-use.
    pub distance_over_time: Vec<Option<f64>>,
}

/// Record of a page.
#[derive(Clone, Copy, Default)]
struct Page {
    writes: u64,
    /// The sum of its re-use distances, of which there is one less than writes.
    distances: u64,
}

#[derive(Clone, Copy, Default)]
struct Mean {
    sum: f64,
    count: u64,
}

impl Class {
    /// All classes, in the order in which they are listed.
    pub const ALL: [Self; 4] =
        [Self::FrequentShort, Self::FrequentLong, Self::InfrequentShort, Self::InfrequentLong];

    /// Return its two letters.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FrequentShort => "FS",
            Self::FrequentLong => "FL",
            Self::InfrequentShort => "IS",
            Self::InfrequentLong => "IL",
        }
    }
}

impl Classes {
    /// Classes the written pages of a trace, in two passes over its writes.
    ///
    /// # Panics
    /// If the intervals are to be empty.
    pub fn of(trace: &CompiledTrace, options: ClassOptions) -> Self {
        assert!(options.interval_writes > 0, "an interval has writes");
        let mut pages = vec![Page::default(); trace.footprint_pages() as usize];
        let mut reuse = ReuseDistance::new(trace.footprint_pages());
        let mut distances = vec![];
        for page in writes(trace) {
            let distance = reuse.touch(page);
            let known = &mut pages[page as usize];
            known.writes += 1;
            known.distances += u64::from(distance.unwrap_or(0));
            distances.push(distance);
        }
        let class_of = |page: &Page| page.class(options) as usize;
        let mut over_time: [Vec<Mean>; 4] = Default::default();
        for (number, (page, distance)) in (0_u64..).zip(writes(trace).zip(&distances)) {
            let interval = usize::try_from(number / options.interval_writes).unwrap_or(usize::MAX);
            for means in &mut over_time {
                means.resize(interval + 1, Mean::default());
            }
            if let Some(distance) = distance {
                over_time[class_of(&pages[page as usize])][interval].add(*distance);
            }
        }
        let all = pages.iter().filter(|page| page.writes > 0).count() as u64;
        let total = distances.len() as u64;
        let classes = Class::ALL.into_iter().zip(over_time).map(|(class, means)| {
            let members =
                || pages.iter().filter(|page| page.writes > 0 && page.class(options) == class);
            let (pages, writes) =
                (members().count() as u64, members().map(|page| page.writes).sum());
            let distances: u64 = members().map(|page| page.distances).sum();
            let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
            ClassSummary {
                class,
                pages,
                page_share: share(pages, all),
                writes,
                write_share: share(writes, total),
                mean_writes_per_page: share(writes, pages),
                mean_distance_pages: (writes > pages).then(|| share(distances, writes - pages)),
                distance_over_time: means.into_iter().map(Mean::value).collect(),
            }
        });
        Self {
            writes: total,
            pages: all,
            frequent_writes: options.frequent_writes,
            short_distance_pages: options.short_distance_pages,
            interval_writes: options.interval_writes,
            classes: classes.collect(),
        }
    }
}

impl Page {
    fn class(&self, options: ClassOptions) -> Class {
        let reuses = self.writes.saturating_sub(1);
        // mean <= limit, without a division
        let is_short = reuses > 0
            && u128::from(self.distances)
                <= u128::from(options.short_distance_pages) * u128::from(reuses);
        match (self.writes >= options.frequent_writes, is_short) {
            (true, true) => Class::FrequentShort,
            (true, false) => Class::FrequentLong,
            (false, true) => Class::InfrequentShort,
            (false, false) => Class::InfrequentLong,
        }
    }
}

impl Mean {
    fn add(&mut self, distance: u32) {
        self.sum += f64::from(distance);
        self.count += 1;
    }

    fn value(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

fn writes(trace: &CompiledTrace) -> impl Iterator<Item = u32> + '_ {
    trace.accesses().filter(|access| access.op == Op::Write).map(|access| access.page.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::PageSize;
    use crate::{ReadOptions, Reader};

    fn classes(pages: &[u64], frequent_writes: u64, short_distance_pages: u64) -> Classes {
        let lines = pages.iter().map(|page| format!("0,{page},512,w,0.5\n"));
        let input = std::io::Cursor::new(lines.collect::<String>().into_bytes());
        let mut reader = Reader::from_read("test.spc", input, &ReadOptions::default()).unwrap();
        let trace = CompiledTrace::compile(&mut reader, PageSize::new(512).unwrap()).unwrap();
        let options = ClassOptions { frequent_writes, short_distance_pages, interval_writes: 4 };
        Classes::of(&trace, options)
    }

    #[test]
    fn pages_are_parted_by_frequency_and_distance() {
        // 1: four writes, distances 0, 0, 0. 2: four, distances 2, 1, 2. 3: two, distance 2. 4: three,
        // distances 1 and 0. 5: once.
        let found = classes(&[1, 1, 1, 1, 2, 3, 4, 2, 4, 4, 2, 3, 5, 2], 4, 1);
        let pages: Vec<u64> = found.classes.iter().map(|class| class.pages).collect();
        assert_eq!(found.writes, 14);
        assert_eq!(found.pages, 5);
        assert_eq!(pages, [1, 1, 1, 2]);
        assert_eq!(found.classes[0].mean_distance_pages, Some(0.0));
        assert_eq!(found.classes[1].writes, 4);
        assert_eq!(found.classes.iter().map(|class| class.writes).sum::<u64>(), 14);
        assert_eq!(found.classes[0].distance_over_time.len(), 4);
        assert_eq!(found.classes[0].distance_over_time[0], Some(0.0));
        assert_eq!(found.classes[3].distance_over_time[0], None);
    }
}
