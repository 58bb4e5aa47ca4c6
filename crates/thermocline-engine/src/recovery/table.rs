//! Reading the slot table, many blocks at a time, by several threads.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::thread;

use super::{Flash, FlashError};
use crate::blocks::{Blocks, Copied};
use crate::format::superblock::Superblock;
use crate::format::table::{self, Row, SLOTS_PER_BLOCK};
use crate::storage::Storage;

/// Blocks, with their copies, below which a thread is not worth its start.
const BLOCKS_PER_THREAD_MIN: usize = 256;
/// Threads that decode at most.
const THREADS_MAX: usize = 8;

/// Contents of a stretch of the table besides its rows.
#[derive(Debug, Default)]
struct Found {
    /// Blocks whose copies differ or are damaged, and which copy must be written first.
    uneven: Vec<(u32, u64)>,
    damaged_blocks: u64,
    /// No version is greater.
    version: u64,
    /// The first block of which no copy is intact.
    lost: Option<u32>,
}

/// Destination of the rows of a stretch.
struct Target<'a> {
    superblock: &'a Superblock,
    /// The number of its first block.
    first: u32,
    rows: &'a mut [Option<Row>],
    generations: &'a mut [u64],
}

impl Flash {
    /// Read the table: of each block, the intact copy of the later generation.
    pub(super) fn read_table(
        storage: &mut dyn Storage,
        superblock: &Superblock,
    ) -> Result<Self, FlashError> {
        let mut flash = Self::empty(superblock);
        for part in superblock.layout.table_parts() {
            flash.read_table_part(storage, superblock, part)?;
        }
        Ok(flash)
    }

    /// Read blocks of the table that lie one after the other.
    fn read_table_part(
        &mut self,
        storage: &mut dyn Storage,
        superblock: &Superblock,
        (numbers, first_bytes): (Range<u32>, u64),
    ) -> Result<(), FlashError> {
        let flash = self;
        let mut blocks = Blocks::new(storage, first_bytes, 2 * numbers.len() as u64);
        let mut first = numbers.start;
        while let Some(batch) = blocks.next_batch() {
            let copies: Vec<Option<&[u8]>> = batch.collect();
            let read = u32::try_from(copies.len() / 2).expect("a batch has few blocks");
            let start = first as usize * SLOTS_PER_BLOCK;
            let end = (start + read as usize * SLOTS_PER_BLOCK).min(flash.rows.len());
            let target = Target {
                superblock,
                first,
                rows: &mut flash.rows[start..end],
                generations: &mut flash.generations[first as usize..(first + read) as usize],
            };
            for found in decode_parts(target, &copies) {
                if let Some(block) = found.lost {
                    return Err(FlashError::MetadataLost { part: "table", block: block.into() });
                }
                flash.uneven.extend(found.uneven);
                flash.damaged_blocks += found.damaged_blocks;
                flash.version = flash.version.max(found.version);
            }
            first += read;
        }
        Ok(())
    }
}

/// Decodes a stretch in parts, each on a thread of its own; gives what they found in the table's order.
fn decode_parts(target: Target<'_>, copies: &[Option<&[u8]>]) -> Vec<Found> {
    let blocks = copies.len() / 2;
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(THREADS_MAX);
    let part_blocks = blocks.div_ceil(threads).max(BLOCKS_PER_THREAD_MIN);
    if blocks <= part_blocks {
        return vec![decode(target, copies)];
    }
    let Target { superblock, first, rows, generations } = target;
    let parts = rows
        .chunks_mut(part_blocks * SLOTS_PER_BLOCK)
        .zip(generations.chunks_mut(part_blocks))
        .zip(copies.chunks(2 * part_blocks))
        .zip((first..).step_by(part_blocks));
    thread::scope(|scope| {
        let started: Vec<_> = parts
            .map(|(((rows, generations), copies), first)| {
                let target = Target { superblock, first, rows, generations };
                scope.spawn(move || decode(target, copies))
            })
            .collect();
        let ended =
            started.into_iter().map(|thread| thread.join().expect("decoding does not panic"));
        ended.collect()
    })
}

/// Decodes a stretch whose blocks have two copies each, one after the other.
fn decode(target: Target<'_>, copies: &[Option<&[u8]>]) -> Found {
    let mut found = Found::default();
    let blocks = target
        .rows
        .chunks_mut(SLOTS_PER_BLOCK)
        .zip(target.generations)
        .zip(copies.chunks_exact(2))
        .zip(target.first..);
    for (((rows, generation), copies), block) in blocks {
        if !found.take(target.superblock, block, copies, rows, generation) {
            found.lost = Some(block);
            break;
        }
    }
    found
}

impl Found {
    /// Takes what a block says; returns whether that is known.
    fn take(
        &mut self,
        superblock: &Superblock,
        block: u32,
        copies: &[Option<&[u8]>],
        rows: &mut [Option<Row>],
        generation: &mut u64,
    ) -> bool {
        let read = |bytes: Option<&[u8]>| {
            Copied::of(bytes, |bytes| {
                table::decode(bytes)
                    .filter(|(header, _)| header.cache == superblock.cache && header.block == block)
            })
        };
        let first = read(copies[0]);
        // Most copies are the same.
        let is_same = copies[0].is_some() && copies[0] == copies[1];
        let second = if is_same { None } else { Some(read(copies[1])) };
        let is_damaged = |copy: &Copied| matches!(copy, Copied::Damaged);
        let damaged = if second.is_some() {
            [Some(&first), second.as_ref()]
                .into_iter()
                .flatten()
                .filter(|copy| is_damaged(copy))
                .count()
        } else {
            2 * usize::from(is_damaged(&first))
        };
        // A block whose second copy was never written was not relied on either: the journal has it all.
        if damaged == 2 {
            return false;
        }
        self.damaged_blocks += damaged as u64;
        // A damaged copy is written before a blank one: if both were damaged, nothing could be read.
        let worth = |copy: &Copied| match copy {
            Copied::Damaged => (0, 0),
            Copied::Blank => (1, 0),
            Copied::Intact((header, _)) => (2, header.generation),
        };
        let first_worth = worth(&first);
        let first = first.intact();
        let newest = match second {
            None => first,
            Some(second) => {
                let second_worth = worth(&second);
                let second = second.intact();
                if first != second || damaged > 0 {
                    self.uneven.push((block, u64::from(first_worth > second_worth)));
                }
                first.into_iter().chain(second).max_by_key(|(header, _)| header.generation)
            }
        };
        let Some((header, found)) = newest else { return true };
        *generation = header.generation;
        for (row, found) in rows.iter_mut().zip(found) {
            *row = found.filter(|found| superblock.is_page(found.page));
            // A row that is dropped counts, too: later versions must be newer than any that the flash names.
            self.version = self.version.max(found.map_or(0, |found| found.version));
        }
        true
    }
}
