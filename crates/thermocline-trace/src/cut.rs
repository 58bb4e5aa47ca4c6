//! Parts of a trace that is compiled already.

use std::sync::OnceLock;

use thermocline_core::{Nanos, Op, PageId};

use crate::compile::place;
use crate::compiled::{CompiledTrace, Summary};
use crate::error::TraceError;
use crate::id_map::WRITE_BIT;
use crate::part::PartOptions;

/// The new id of a page that the part has not accessed yet.
const NONE: u32 = u32::MAX;

/// The columns of the part so far.
#[derive(Default)]
struct Columns {
    packed: Vec<u32>,
    at_ns: Vec<u64>,
    counts: Vec<u32>,
    access_clients: Vec<u8>,
    access_bytes: Vec<u32>,
    pages: Vec<u64>,
    volumes: Vec<u32>,
    summary: Summary,
}

impl CompiledTrace {
    /// Return the part of the trace that the options choose. It is the trace that
    /// [`Part`](crate::Part) of the source would compile to, apart from what a compiled trace does not
    /// have: requests of length zero are not counted in `skip` and `limit`, and unless the requests are to
    /// objects, the bytes that requests ask for and sequential requests are counted in whole pages.
    ///
    /// # Errors
    /// [`TraceError::Content`] if no request is in the part, or [`TraceError::Limit`] if its volumes cannot lie
    /// side by side.
    pub fn part(&self, options: PartOptions) -> Result<Self, TraceError> {
        let Columns {
            packed,
            at_ns,
            counts,
            access_clients,
            access_bytes,
            mut pages,
            volumes,
            mut summary,
        } = self.columns_of(options);
        if packed.is_empty() {
            return Err(TraceError::Content {
                path: self.path.clone(),
                reason: "no request is in the part that is wanted".into(),
            });
        }
        if self.summary.objects > 0 {
            summary.objects = if self.has_objects_of_one_page() {
                pages.len() as u64
            } else {
                stretches(&pages, &volumes)
            };
        }
        let volume_bases = place(&mut pages, &volumes, self.volume_names.len());
        let volume_bases = volume_bases.ok_or_else(|| TraceError::Limit {
            path: self.path.clone(),
            reason: "the volumes side by side need more than 2^64 pages".into(),
        })?;
        let page_bytes = self.page_size_bytes();
        let has_bytes = access_bytes.iter().any(|&bytes| u64::from(bytes) != page_bytes);
        let has_clients = access_clients.iter().any(|&client| client != 0);
        let is_timed = at_ns.iter().any(|&at_ns| at_ns != 0);
        let has_counts = counts.iter().any(|&count| count != 1);
        Ok(Self {
            path: self.path.clone(),
            page_size: self.page_size,
            packed: packed.into(),
            at_ns: if is_timed { at_ns } else { vec![] }.into(),
            counts: if has_counts { counts } else { vec![] }.into(),
            access_clients: if has_clients { access_clients } else { vec![] }.into(),
            access_bytes: if has_bytes { access_bytes } else { vec![] }.into(),
            clients: self.clients,
            page_numbers: pages.into(),
            volume_bases,
            volume_names: self.volume_names.clone(),
            summary,
            foresight: OnceLock::new(),
            mapping: None,
        })
    }

    fn columns_of(&self, options: PartOptions) -> Columns {
        let PartOptions { skip, limit, from_ns, to_ns } = options;
        let mut columns = Columns::default();
        let mut ids = vec![NONE; self.page_numbers.len()];
        let (mut first_at_ns, mut skipped) = (None, 0);
        // Where the last request of each volume ended.
        let mut ends = vec![u64::MAX; self.volume_bases.len()];
        for request in self.requests() {
            if columns.summary.requests >= limit {
                break;
            }
            let first_at_ns = *first_at_ns.get_or_insert(request.at.0);
            let at_ns = request.at.0.saturating_sub(first_at_ns);
            if at_ns < from_ns || at_ns >= to_ns && to_ns < u64::MAX {
                continue;
            }
            if skipped < skip {
                skipped += 1;
                continue;
            }
            let begin = columns.packed.len();
            let (volume, first) = self.location(self.access(request.accesses.start).page);
            for index in request.accesses {
                let packed = self.packed[index];
                let page = packed & !WRITE_BIT;
                let id = &mut ids[page as usize];
                if *id == NONE {
                    *id = u32::try_from(columns.pages.len()).expect("no more than the trace has");
                    let (volume, number) = self.location(PageId(page));
                    columns.pages.push(number);
                    columns.volumes.push(volume);
                }
                columns.packed.push(*id | packed & WRITE_BIT);
                columns.access_clients.extend(self.access_clients.get(index));
                columns.access_bytes.extend(self.access_bytes.get(index));
            }
            columns.close(request.at, begin, self.page_size_bytes());
            let end = &mut ends[volume as usize];
            let is_sequential = *end == first && !self.has_objects_of_one_page();
            columns.summary.sequential_requests += u64::from(is_sequential);
            *end = first.wrapping_add((columns.packed.len() - begin) as u64);
        }
        columns
    }

    /// Return `true` if the pages are objects: those with successive numbers have nothing to do with
    /// each other.
    fn has_objects_of_one_page(&self) -> bool {
        self.summary.objects == self.page_numbers.len() as u64
    }
}

impl Columns {
    /// Counts the request whose accesses begin at an index and are the last ones.
    fn close(&mut self, at: Nanos, begin: usize, page_bytes: u64) {
        let count = self.packed.len() - begin;
        let op = if self.packed[begin] & WRITE_BIT == 0 { Op::Read } else { Op::Write };
        let bytes = match self.access_bytes.get(begin..) {
            Some(bytes) if !bytes.is_empty() => bytes.iter().copied().map(u64::from).sum(),
            Some(_) | None => count as u64 * page_bytes,
        };
        let summary = &mut self.summary;
        if summary.requests == 0 {
            (summary.first_at, summary.last_at) = (at, at);
        }
        let previous_at_ns = self.at_ns.last().copied().unwrap_or(0);
        summary.time_reversals += u64::from(at.0 < previous_at_ns);
        summary.first_at = summary.first_at.min(at);
        summary.last_at = summary.last_at.max(at);
        summary.requests += 1;
        match op {
            Op::Read => summary.read_bytes = summary.read_bytes.saturating_add(bytes),
            Op::Write => {
                summary.write_requests += 1;
                summary.write_bytes = summary.write_bytes.saturating_add(bytes);
            }
        }
        self.at_ns.push(at.0);
        self.counts.push(u32::try_from(count).expect("as in the trace"));
    }
}

/// Count the stretches of successive pages: objects of several pages have a gap after each.
fn stretches(pages: &[u64], volumes: &[u32]) -> u64 {
    let mut places: Vec<(u32, u64)> = volumes.iter().copied().zip(pages.iter().copied()).collect();
    places.sort_unstable();
    let is_apart = |pair: &&[(u32, u64)]| pair[0].0 != pair[1].0 || pair[0].1 + 1 != pair[1].1;
    1 + places.windows(2).filter(is_apart).count() as u64
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;
    use crate::{PageSize, Part, ReadOptions, Reader};

    fn reader(name: &str, text: &str) -> Reader {
        let text = Cursor::new(text.to_owned().into_bytes());
        Reader::from_read(name, text, &ReadOptions::default()).unwrap()
    }

    /// Return the part of the compiled trace, and the compiled part of its source.
    fn both(
        open: impl Fn() -> Reader,
        options: PartOptions,
    ) -> [Result<CompiledTrace, TraceError>; 2] {
        let page_size = PageSize::new(512).unwrap();
        let whole = CompiledTrace::compile(&mut open(), page_size).unwrap();
        let source = CompiledTrace::compile(&mut Part::new(open(), options), page_size);
        [whole.part(options), source]
    }

    fn check([part, source]: [Result<CompiledTrace, TraceError>; 2]) {
        let (part, source) = match (part, source) {
            (Ok(part), Ok(source)) => (part, source),
            (part, source) => {
                assert_eq!(part.is_err(), source.is_err(), "{part:?} {source:?}");
                return;
            }
        };
        assert_eq!(part.summary(), source.summary());
        assert_eq!(part.packed(), source.packed());
        assert_eq!(part.page_numbers(), source.page_numbers());
        assert_eq!(part.volume_names(), source.volume_names());
        assert_eq!(part.access_bytes(), source.access_bytes());
        assert_eq!((part.clients(), part.is_timed()), (source.clients(), source.is_timed()));
        assert!(part.requests().eq(source.requests()));
        assert!(part.accesses().eq(source.accesses()));
        let pages = (0..part.footprint_pages()).map(PageId);
        assert!(pages.into_iter().all(|page| part.location(page) == source.location(page)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_part_of_a_compiled_trace_is_the_compiled_part(
            requests in prop::collection::vec(
                (0_u64..3, 0_u64..60, 1_u64..5, any::<bool>(), 0_u64..9), 1..80
            ),
            skip in prop_oneof![Just(0), 0_u64..50],
            limit in prop_oneof![Just(u64::MAX), 1_u64..80],
            from_ns in prop_oneof![Just(0), 0_u64..9_000_000_000],
            to_ns in prop_oneof![Just(u64::MAX), 0_u64..9_000_000_000],
        ) {
            let line = |&(volume, page, pages, is_write, at): &(u64, u64, u64, bool, u64)| {
                let op = if is_write { 'w' } else { 'r' };
                format!("{volume},{page},{},{op},{at}.5\n", pages * 512)
            };
            let lines: String = requests.iter().map(line).collect();
            let options = PartOptions { skip, limit, from_ns, to_ns };
            check(both(|| reader("t.spc", &lines), options));
        }
    }
}
