//! A sample of a trace that is taken while its file is read, without compiling it.
//!
//! Threads read blocks of the file, twice where the sample is [even](Choice::Even): first they count the
//! accesses of all pages in cells, then they keep those to the chosen ones. They hold the sample,
//! a table of cells for each thread, and a bit for each page up to the greatest page number. The sample is
//! the one that the compiled trace gives, whatever the number of threads.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{panic, thread};

use thermocline_core::{Nanos, Op};

use crate::cells::{ChosenCells, Counter, cell_of, identity};
use crate::compile::FOOTPRINT_PAGES_MAX;
use crate::compiled::CompiledTrace;
use crate::decode::{ReadCounts, State};
use crate::detect;
use crate::error::TraceError;
use crate::format::{FormatName, ReadOptions};
use crate::id_map::{GROUP_KEYS, IdMap, Key};
use crate::input::{Compression, Input};
use crate::reader::Reader;
use crate::request::{Extent, PageSize, REQUEST_PAGES_MAX, Request};
use crate::sampling::{Choice, Sampling};

/// Records of a block, unless a test wants less: what a thread reads before it takes the next part of
/// the file.
const BLOCK_RECORDS: u64 = 1 << 17;
/// Limit of page numbers that are recorded with a bit each.
const PAGES_MAX: u64 = 1 << 30;

/// An access to a page of the sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampledAccess {
    /// Its place among all accesses of the trace.
    pub index: u64,
    /// Arrival time of its request.
    pub at: Nanos,
    /// The page: those of the sample are numbered in the order of their first accesses.
    pub page: u32,
}

/// The accesses to some of the pages of a trace, and figures of all.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SampledTrace {
    /// The file.
    pub path: PathBuf,
    /// The accesses to the sampled pages, in order.
    pub sampled: Vec<SampledAccess>,
    /// Number of pages they touch.
    pub sampled_pages: u32,
    /// The page size.
    pub page_size: PageSize,
    /// Distinct pages of the whole trace.
    pub footprint_pages: u32,
    /// Its requests that address something.
    pub requests: u64,
    /// Its page accesses.
    pub accesses: u64,
    /// Its page accesses that write.
    pub writes: u64,
    /// `true` if any of its requests has a time other than 0.
    pub is_timed: bool,
    /// Counts of the reading.
    pub counts: ReadCounts,
}

/// A file cannot be sampled while it is read, or not without an error.
struct Unsuited;

impl From<TraceError> for Unsuited {
    fn from(_: TraceError) -> Self {
        Self
    }
}

impl SampledTrace {
    /// Read a sample of a file with `threads` threads. `progress` gets the number of bytes read so
    /// far, and of all bytes to read.
    ///
    /// Returns `None` if that is impossible, and the trace has to be
    /// [compiled](CompiledTrace::compile): the file is compressed or no file, its records are not
    /// of one size, it numbers pages beyond 2^30, or there is an error in it, which compiling
    /// reports.
    pub fn read(
        path: &Path,
        options: &ReadOptions,
        page_size: PageSize,
        sampling: Sampling,
        threads: usize,
        progress: impl Fn(u64, u64) + Sync,
    ) -> Option<Self> {
        let file = File::open(path, options, page_size, sampling.choice() == Choice::Even)?;
        file.sample(sampling, threads.max(1), progress).ok()
    }
}

impl CompiledTrace {
    /// Return the number of pages that are in a sample, and the accesses to them.
    pub fn sampled_accesses(
        &self,
        sampling: Sampling,
    ) -> (u32, impl Iterator<Item = SampledAccess> + '_) {
        let mut pages = 0;
        // Both number pages by first appearance.
        let number = |is_sampled: bool| {
            let number = is_sampled.then_some(pages);
            pages += u32::from(is_sampled);
            number
        };
        let numbers: Vec<Option<u32>> =
            self.sampled_pages(sampling).into_iter().map(number).collect();
        let accesses = self
            .requests()
            .flat_map(|request| request.accesses.map(move |index| (index, request.at)));
        let sampled = accesses.filter_map(move |(index, at)| {
            let page = numbers[self.access(index).page.index()]?;
            Some(SampledAccess { index: index as u64, at, page })
        });
        (pages, sampled)
    }
}

/// A file of records that can be read in blocks.
struct File<'a> {
    path: &'a Path,
    options: &'a ReadOptions,
    format: FormatName,
    /// The first bytes, by which its decoders are made.
    sample: Vec<u8>,
    page_size: PageSize,
    size_bytes: u64,
    record_bytes: u64,
    block_records: u64,
    /// Number of times that it is read.
    passes: u64,
}

/// Results of a thread from the blocks that it read.
struct Found {
    counts: ReadCounts,
    requests: u64,
    writes: u64,
    is_timed: bool,
    /// A bit for each page.
    pages: Vec<u64>,
    /// Accesses of pages, if pages are to be chosen by them.
    cells: Option<Counter>,
    blocks: Vec<Block>,
}

/// Contents of a block.
struct Block {
    number: usize,
    accesses: u64,
    sampled: Vec<Access>,
}

/// An access to a page of the sample, whose place is counted from the beginning of its block.
struct Access {
    index: u64,
    at: Nanos,
    page: u64,
}

/// Pages that are taken.
#[derive(Clone, Copy)]
enum Taken<'a> {
    None,
    ByHash(Sampling),
    Cells(&'a ChosenCells),
}

impl<'a> File<'a> {
    fn open(
        path: &'a Path,
        options: &'a ReadOptions,
        page_size: PageSize,
        is_read_twice: bool,
    ) -> Option<Self> {
        // Only a file can be opened again; opening a pipe would even take its content.
        let size_bytes = path.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
        let reader = Reader::open(path, options).ok()?;
        let record_bytes =
            reader.record_bytes().filter(|_| reader.compression() == Compression::None)?;
        let mut input = Input::part(path, 0, detect::SAMPLE_BYTES as u64).ok()?;
        input.fill_to(detect::SAMPLE_BYTES).ok()?;
        Some(Self {
            path,
            options,
            format: reader.format(),
            sample: input.available().to_vec(),
            page_size,
            size_bytes,
            record_bytes: record_bytes as u64,
            block_records: BLOCK_RECORDS,
            passes: 1 + u64::from(is_read_twice),
        })
    }

    fn sample(
        &self,
        sampling: Sampling,
        threads: usize,
        progress: impl Fn(u64, u64) + Sync,
    ) -> Result<SampledTrace, Unsuited> {
        if sampling.choice() == Choice::Hash {
            let found = self.pass(threads, Taken::ByHash(sampling), &progress)?;
            return self.finish(&found);
        }
        let mut counted = self.pass(threads, Taken::None, &progress)?;
        let chosen = sampling.chosen(&counted.cells.take().ok_or(Unsuited)?.finish());
        let found = self.pass(threads, Taken::Cells(&chosen), &progress)?;
        let is_same = counted
            .blocks
            .iter()
            .map(|block| block.accesses)
            .eq(found.blocks.iter().map(|block| block.accesses));
        if !is_same {
            // Somebody writes it.
            return Err(Unsuited);
        }
        self.finish(&Found { blocks: found.blocks, ..counted })
    }

    /// Reads the file once.
    fn pass(
        &self,
        threads: usize,
        taken: Taken<'_>,
        progress: &(impl Fn(u64, u64) + Sync),
    ) -> Result<Found, Unsuited> {
        let block_bytes = self.block_records * self.record_bytes;
        let blocks =
            usize::try_from(self.size_bytes.div_ceil(block_bytes)).map_err(|_| Unsuited)?;
        let next = AtomicUsize::new(0);
        let read = || {
            let mut found = Found::new(matches!(taken, Taken::None));
            let mut batch = vec![];
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= blocks {
                    return Ok(found);
                }
                let result = self.block(number, taken, &mut found, &mut batch);
                if result.is_err() {
                    // The others stop, too.
                    next.store(blocks, Ordering::Relaxed);
                }
                progress(result?, self.passes * self.size_bytes);
            }
        };
        let found: Vec<Result<Found, Unsuited>> = thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(read)).collect();
            let first = read();
            let others = others
                .into_iter()
                .map(|one| one.join().unwrap_or_else(|panic| panic::resume_unwind(panic)));
            [first].into_iter().chain(others).collect()
        });
        let mut found = found.into_iter();
        let mut all = found.next().ok_or(Unsuited)??;
        for more in found {
            all.merge(more?);
        }
        all.blocks.sort_unstable_by_key(|block| block.number);
        Ok(all)
    }

    /// Reads a block; returns its size.
    fn block(
        &self,
        number: usize,
        taken: Taken<'_>,
        found: &mut Found,
        batch: &mut Vec<Request>,
    ) -> Result<u64, Unsuited> {
        let offset_bytes = number as u64 * self.block_records * self.record_bytes;
        let block_bytes =
            (self.block_records * self.record_bytes).min(self.size_bytes - offset_bytes);
        let input = Input::part(self.path, offset_bytes, block_bytes)?;
        let mut input = input.allow_truncated(self.options.allow_truncated);
        let mut decoder = (self.format.format().decoder)(&self.sample, self.options);
        let first_record = number as u64 * self.block_records;
        let mut state = State::at_record(first_record, self.options.objects);
        let mut block = Block { number, accesses: 0, sampled: vec![] };
        loop {
            batch.clear();
            decoder.decode(&mut input, &mut state, batch)?;
            if batch.is_empty() {
                break;
            }
            for request in &*batch {
                found.request(request, self.page_size, taken, &mut block)?;
            }
        }
        if state.volumes.names().len() > 1 {
            return Err(Unsuited);
        }
        found.counts.merge(&state.counts);
        found.blocks.push(block);
        Ok(block_bytes)
    }

    fn finish(&self, found: &Found) -> Result<SampledTrace, Unsuited> {
        let footprint_pages: u64 =
            found.pages.iter().map(|word| u64::from(word.count_ones())).sum();
        if footprint_pages == 0 {
            return Err(Unsuited);
        }
        let mut ids = IdMap::new(FOOTPRINT_PAGES_MAX);
        let mut numbers = vec![];
        let (mut sampled, mut accesses) = (vec![], 0);
        for block in &found.blocks {
            for group in block.sampled.chunks(GROUP_KEYS) {
                let keys: Vec<Key> = group
                    .iter()
                    .map(|access| Key { page: access.page, volume: 0, write_bit: 0 })
                    .collect();
                numbers.clear();
                ids.resolve(&keys, &mut numbers).map_err(|_| Unsuited)?;
                sampled.extend(group.iter().zip(&numbers).map(|(access, &page)| SampledAccess {
                    index: accesses + access.index,
                    at: access.at,
                    page,
                }));
            }
            accesses += block.accesses;
        }
        Ok(SampledTrace {
            path: self.path.to_owned(),
            sampled,
            sampled_pages: u32::try_from(ids.into_columns().0.len()).map_err(|_| Unsuited)?,
            page_size: self.page_size,
            footprint_pages: u32::try_from(footprint_pages).map_err(|_| Unsuited)?,
            requests: found.requests,
            accesses,
            writes: found.writes,
            is_timed: found.is_timed,
            counts: found.counts,
        })
    }
}

impl Found {
    fn new(counts_cells: bool) -> Self {
        Self {
            counts: ReadCounts::default(),
            requests: 0,
            writes: 0,
            is_timed: false,
            pages: vec![],
            cells: counts_cells.then(Counter::new),
            blocks: vec![],
        }
    }

    #[inline]
    fn request(
        &mut self,
        request: &Request,
        page_size: PageSize,
        taken: Taken<'_>,
        block: &mut Block,
    ) -> Result<(), Unsuited> {
        let (mut first, count) = page_size.pages(request.extent);
        if count == 0 {
            return Ok(());
        }
        if let Extent::Object { id, .. } = request.extent {
            // Where each object is a page, compiling numbers the pages by the objects.
            if first > 0 || count > 1 {
                return Err(Unsuited);
            }
            first = id;
        }
        if count > REQUEST_PAGES_MAX || first.saturating_add(count) > PAGES_MAX {
            return Err(Unsuited);
        }
        self.requests += 1;
        self.writes += if request.op == Op::Write { count } else { 0 };
        self.is_timed |= request.at != Nanos(0);
        for (page, index) in (first..first + count).zip(block.accesses..) {
            let is_taken = match taken {
                Taken::None => false,
                Taken::ByHash(sampling) => sampling.takes(identity(0, page)),
                Taken::Cells(chosen) => chosen.has(cell_of(0, page)),
            };
            if is_taken {
                block.sampled.push(Access { index, at: request.at, page });
            }
            if let Some(cells) = &mut self.cells {
                cells.count(cell_of(0, page));
            }
            if !matches!(taken, Taken::Cells(_)) {
                self.mark(page);
            }
        }
        block.accesses += count;
        Ok(())
    }

    #[inline]
    fn mark(&mut self, page: u64) {
        let word = usize::try_from(page / 64).expect("below the greatest number of pages");
        if word >= self.pages.len() {
            self.pages.resize((word + 1).next_power_of_two(), 0);
        }
        self.pages[word] |= 1 << (page % 64);
    }

    fn merge(&mut self, mut other: Self) {
        self.counts.merge(&other.counts);
        self.requests += other.requests;
        self.writes += other.writes;
        self.is_timed |= other.is_timed;
        if other.pages.len() > self.pages.len() {
            std::mem::swap(&mut self.pages, &mut other.pages);
        }
        for (word, more) in self.pages.iter_mut().zip(&other.pages) {
            *word |= more;
        }
        if let (Some(cells), Some(more)) = (&mut self.cells, other.cells) {
            cells.merge(more);
        }
        self.blocks.append(&mut other.blocks);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::*;

    /// Return a file of vscsi records: requests of some sectors, of which the largest are several
    /// pages.
    fn vscsi(requests: &[(u32, u32, bool)]) -> Vec<u8> {
        let record = |(index, &(sector, length, is_write)): (usize, &(u32, u32, bool))| {
            let mut record = [1, length, 1].map(u32::to_le_bytes).concat();
            let command: u16 = if is_write { 0x2a } else { 0x28 };
            record.extend([command, 0x100].map(u16::to_le_bytes).concat());
            record.extend([u64::from(sector), index as u64].map(u64::to_le_bytes).concat());
            record
        };
        requests.iter().enumerate().flat_map(record).collect()
    }

    fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn compiled(path: &Path, options: &ReadOptions) -> Result<CompiledTrace, TraceError> {
        CompiledTrace::compile(&mut Reader::open(path, options)?, PageSize::DEFAULT)
    }

    proptest! {
        // Each case goes over all cells several times.
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn a_file_gives_the_sample_of_the_compiled_trace(
            requests in prop::collection::vec(
                (0_u32..200_000, prop_oneof![Just(0_u32), Just(4096), 1_u32..40_000], any::<bool>()),
                1..200),
            choice in prop::sample::select(&[Choice::Even, Choice::Hash]),
            (rate, seed) in (0.05..1.0_f64, any::<u64>()),
            (block_records, threads) in (1_u64..90, 1_usize..4),
        ) {
            let file = file(&vscsi(&requests));
            let options = ReadOptions { format: Some(FormatName::Vscsi), ..ReadOptions::default() };
            let sampling = Sampling::new(rate, choice, seed).unwrap();
            let opened = File::open(file.path(), &options, PageSize::DEFAULT, choice == Choice::Even).unwrap();
            let read_bytes = std::sync::atomic::AtomicU64::new(0);
            let progress = |bytes, all| assert!(read_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes <= all);
            let found = File { block_records, ..opened }.sample(sampling, threads, progress).ok();
            let Ok(trace) = compiled(file.path(), &options) else {
                prop_assert_eq!(found, None, "nothing is addressed");
                return Ok(());
            };
            let (pages, sampled) = trace.sampled_accesses(sampling);
            let found = found.unwrap();
            prop_assert_eq!(found.sampled_pages, pages);
            prop_assert_eq!(&found.sampled, &sampled.collect::<Vec<_>>());
            prop_assert_eq!(found.footprint_pages, trace.footprint_pages());
            prop_assert_eq!(found.requests, trace.request_count() as u64);
            prop_assert_eq!((found.accesses, found.writes), (trace.len() as u64, trace.writes()));
            prop_assert_eq!(found.is_timed, trace.is_timed());
            prop_assert_eq!(found.counts.requests, requests.len() as u64);
        }
    }

    #[test]
    fn what_cannot_be_sampled_so_is_left_to_the_compiler() {
        let requests: Vec<(u32, u32, bool)> =
            (0..100).map(|index| (index * 8, 4096, false)).collect();
        let whole = vscsi(&requests);
        let sampling = Sampling::new(0.5, Choice::Even, 1).unwrap();
        let read = |bytes: &[u8], options: &ReadOptions| {
            SampledTrace::read(
                file(bytes).path(),
                options,
                PageSize::DEFAULT,
                sampling,
                2,
                |_, _| (),
            )
        };
        let options = ReadOptions::default();
        assert!(read(&whole, &options).is_some());
        assert_eq!(read(&zstd::encode_all(&*whole, 1).unwrap(), &options), None, "compressed");
        assert_eq!(read(b"0,1,512,r,0.5\n", &options), None, "lines");
        assert_eq!(read(&whole[..whole.len() - 1], &options), None, "torn");
        let truncated = ReadOptions { allow_truncated: true, ..options.clone() };
        let torn = read(&whole[..whole.len() - 1], &truncated).unwrap();
        assert_eq!((torn.requests, torn.counts.torn_bytes), (99, 31));
        let mut wrong = whole;
        wrong[32 * 50 + 14] = 0;
        wrong[32 * 50 + 15] = 9;
        assert_eq!(read(&wrong, &options), None, "a record of another version");
        let beyond = vscsi(&[(u32::MAX, 4096, false)]);
        let small = Sampling::new(0.5, Choice::Even, 1).unwrap();
        let page_size = PageSize::new(512).unwrap();
        let found =
            SampledTrace::read(file(&beyond).path(), &options, page_size, small, 1, |_, _| ());
        assert_eq!(found, None, "a page number beyond 2^30");
        assert_eq!(
            SampledTrace::read(Path::new("none"), &options, page_size, small, 1, |_, _| ()),
            None
        );
    }
}
