//! Operations of fuzz targets on a flash: arbitrary bytes in the places that the engine reads, with
//! right checksums, which no fuzzer finds.

use std::io;
use std::num::{NonZeroU16, NonZeroUsize};
use std::ops::Range;
use std::sync::Arc;

use thermocline_engine::driver::memory::MemoryDriver;
use thermocline_engine::{
    Device, FlashError, FlashSet, Frames, Layout, Options, PolicyOptions, Shard, ShardMap, Storage,
    Superblock, Uuid,
};

const BLOCK: usize = 4096;
const PAGES: u32 = 64;
const CACHE: Uuid = Uuid::from_u128(7);

/// A device in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Memory(Vec<u8>);

/// A block of the format whose fields are arbitrary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Both superblocks.
    Superblock,
    /// The journal's ring.
    Journal,
    /// The table, both places of each block.
    Table,
}

impl Memory {
    fn range(&self, offset_bytes: u64, length: usize) -> io::Result<std::ops::Range<usize>> {
        let start = usize::try_from(offset_bytes).map_err(io::Error::other)?;
        match start.checked_add(length) {
            Some(end) if end <= self.0.len() => Ok(start..end),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl Storage for Memory {
    fn size_bytes(&mut self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> io::Result<()> {
        bytes.copy_from_slice(&self.0[self.range(offset_bytes, bytes.len())?]);
        Ok(())
    }

    fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        let range = self.range(offset_bytes, bytes.len())?;
        self.0[range].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn options() -> Options {
    let policy = PolicyOptions::named("lru-exclusive").expect("it is registered");
    Options {
        spare_frames: 64,
        request_bytes_max: 4096,
        ..Options::new(PAGES.into(), 8, 24, policy)
    }
}

/// Return a flash as it is set up, of one to three regions.
fn fresh(choice: u8) -> (Memory, FlashSet) {
    let layout = Layout::new(options().slots(), 4096);
    let shards = NonZeroU16::MIN.saturating_add(u16::from(choice) % 3);
    let map = ShardMap::with_extents(shards, 4096);
    let bytes = usize::try_from(FlashSet::bytes(&layout, &map)).expect("it is small");
    let mut memory = Memory(vec![0; bytes]);
    let size_bytes = options().size_bytes();
    let set = FlashSet::initialise(&mut memory, CACHE, layout, map, size_bytes).expect("it fits");
    (memory, set)
}

/// Return the location of a region in memory.
fn place(range: Range<u64>) -> Range<usize> {
    let place = |bytes| usize::try_from(bytes).expect("memory is small");
    place(range.start)..place(range.end)
}

/// Read an arbitrary image: pieces of the input wherever it says.
///
/// # Panics
/// If the engine breaks a promise; that is what the fuzzer looks for.
pub fn image(bytes: &[u8]) {
    let Some((&choice, mut rest)) = bytes.split_first() else { return };
    let (mut memory, _) = fresh(choice);
    while let Some((header, more)) = rest.split_first_chunk::<4>() {
        let place = u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize;
        let place = place % memory.0.len();
        let length = (usize::from(header[3]) * 16).min(more.len()).min(memory.0.len() - place);
        memory.0[place..place + length].copy_from_slice(&more[..length]);
        rest = &more[length..];
    }
    examine(memory);
}

/// Read blocks of one part of the format: as the input has them, except their magic and checksum,
/// or, of the journal and the table, sensible ones made from the input.
///
/// # Panics
/// As for [`image`].
pub fn part(part: Part, bytes: &[u8]) {
    let Some((&choice, mut rest)) = bytes.split_first() else { return };
    let (mut memory, set) = fresh(choice);
    let region = usize::from(choice / 3) % set.flashes().len();
    let superblock = *set.flashes()[region].superblock();
    let (layout, cache) = (superblock.layout, superblock.cache);
    let start_bytes = place(set.range(region)).start;
    let journal = 2;
    let table = journal + layout.journal_blocks as usize;
    let blocks = match part {
        Part::Superblock => 0..2,
        Part::Journal => journal..table,
        Part::Table => table..table + 2 * layout.table_blocks as usize,
    };
    // A byte says where the next block goes, one of what kind it is, one how much of the input it is.
    while let Some((&[place, kind, length], more)) = rest.split_first_chunk::<3>() {
        let place = usize::from(place) % blocks.len();
        let (fields, more) = more.split_at((usize::from(length) * 4).min(more.len()));
        rest = more;
        let start = start_bytes + (blocks.start + place) * BLOCK;
        let block = &mut memory.0[start..start + BLOCK];
        block.fill(0);
        let is_raw = kind.is_multiple_of(4);
        match part {
            Part::Superblock => raw(block, b"thermocline\0\0\0\0\0", fields),
            Part::Journal if is_raw => {
                raw(block, &[&b"tcl-jrnl"[..], cache.as_bytes()].concat(), fields)
            }
            Part::Table if is_raw => {
                raw(block, &[&b"tcl-tabl"[..], cache.as_bytes()].concat(), fields)
            }
            Part::Journal => journal_block(block, place, &superblock, kind, fields),
            Part::Table => table_block(block, place, cache, kind, fields),
        }
        let checksum = crc32c::crc32c(&block[..BLOCK - 4]);
        block[BLOCK - 4..].copy_from_slice(&checksum.to_le_bytes());
    }
    examine(memory);
}

/// Arbitrary fields.
fn raw(block: &mut [u8], magic: &[u8], fields: &[u8]) {
    let length = fields.len().min(BLOCK - 4 - magic.len());
    block[..magic.len()].copy_from_slice(magic);
    block[magic.len()..magic.len() + length].copy_from_slice(&fields[..length]);
}

/// Writes numbers one after the other.
struct Fields<'a>(&'a mut [u8], usize);

impl Fields<'_> {
    fn put(&mut self, bytes: &[u8]) {
        self.0[self.1..self.1 + bytes.len()].copy_from_slice(bytes);
        self.1 += bytes.len();
    }

    fn u32(&mut self, number: u32) {
        self.put(&number.to_le_bytes());
    }

    fn u64(&mut self, number: u64) {
        self.put(&number.to_le_bytes());
    }
}

/// Return the checksum that a slot of zeroes has, if it is to match.
fn checksum(page: u32, version: u64, is_right: bool) -> u32 {
    let identity = [&page.to_le_bytes()[..], &version.to_le_bytes()].concat();
    crc32c::crc32c_append(crc32c::crc32c(&identity), &[0; 4096]) ^ u32::from(!is_right)
}

/// Write a block of the journal's first rounds, with a record per four bytes.
fn journal_block(block: &mut [u8], place: usize, superblock: &Superblock, kind: u8, fields: &[u8]) {
    let layout = superblock.layout;
    let ring = u64::from(layout.journal_blocks / 2);
    let sequence = place as u64 % ring + ring * u64::from(kind >> 6);
    let (numbers, records) = fields.split_at(fields.len().min(2));
    let near = |index: usize| {
        sequence.saturating_sub(numbers.get(index).map_or(0, |&back| u64::from(back) % 40))
    };
    let mut to = Fields(block, 0);
    to.put(b"tcl-jrnl");
    to.put(superblock.cache.as_bytes());
    for number in [1, sequence, near(0), near(1), 1 << 20] {
        to.u64(number);
    }
    let records: Vec<&[u8]> = records.chunks_exact(4).take(160).collect();
    to.u32(u32::try_from(records.len()).expect("there are few"));
    to.u32(0);
    for record in records {
        let (page, slot) =
            (u32::from(record[0]) % (PAGES + 1), u32::from(record[1]) % (layout.slots + 1));
        let version = u64::from(record[2]);
        to.u32(page);
        to.u32(slot);
        to.u64(version);
        to.u32(checksum(page, version, record[3] & 4 == 0));
        // Some name a page of a larger disk.
        to.u32((1 + u32::from(record[3]) % 3) | (u32::from(record[3] >> 7) << 16));
    }
}

/// Write a block of the table, with a slot per four bytes.
fn table_block(block: &mut [u8], place: usize, cache: Uuid, kind: u8, fields: &[u8]) {
    let mut to = Fields(block, 0);
    to.put(b"tcl-tabl");
    to.put(cache.as_bytes());
    to.u64(2 * u64::from(kind >> 2) + place as u64 % 2);
    to.u32(u32::try_from(place / 2).expect("there are few"));
    to.put(&[0; 12]);
    for row in fields.chunks_exact(4).take(200) {
        let (page, version) = (u32::from(row[0]) % (PAGES + 1), u64::from(row[1]));
        to.u32(page);
        to.u32(checksum(page, version, row[2] == 0));
        to.u64(version);
        to.u32(u32::from(row[3]) % 3);
    }
}

/// Reads, recovers, checks, serves, drains and forgets whatever it is.
fn examine(memory: Memory) {
    let mut read_only = memory.clone();
    let Ok(read) = FlashSet::read(&mut read_only) else { return };
    assert!(read_only == memory, "reading changes nothing");
    let contents = read.contents();
    let slots = u64::from(contents.superblock.layout.slots) * read.flashes().len() as u64;
    assert!(contents.dirty_pages <= contents.held_pages && contents.held_pages <= slots);

    let mut memory = memory;
    let mut recovered = read;
    recovered.take_over(&mut memory).expect("what can be read can be recovered");
    let same = |flash: &FlashSet, what: &str| {
        let found = flash.contents();
        let counted = (found.held_pages, found.dirty_pages);
        assert_eq!(counted, (contents.held_pages, contents.dirty_pages), "{what}");
    };
    same(&recovered, "recovery finds what reading finds");
    let again = FlashSet::read(&mut memory).expect("what was recovered can be read");
    same(&again, "recovery writes what it found");
    let each = options().of_shards(contents.superblock.share.map).unwrap_or_default();
    for (options, flash) in each.into_iter().zip(recovered.flashes()) {
        if let Ok(shard) = Shard::open(options, flash) {
            assert_eq!(u64::from(shard.dirty_slots()), flash.contents().dirty_pages);
            assert!(shard.lost_pages().is_empty());
        }
    }
    let checked = recovered.check(&mut memory);
    let damaged = checked.damaged_clean_pages.len() + checked.lost_pages.len();
    assert_eq!(checked.intact_pages + damaged as u64, contents.held_pages);
    let backing_bytes = contents.superblock.backing_bytes;
    if backing_bytes <= 1 << 24 {
        let bytes = usize::try_from(backing_bytes).expect("it is small");
        let flash = memory.0.clone();
        let open = |region: Range<u64>, frames: &Arc<Frames>| {
            let region = place(region);
            let region = &flash[region.start..region.end.min(flash.len())];
            let mut driver = MemoryDriver::new(frames, region.len(), bytes);
            driver.bytes(Device::Flash).copy_from_slice(region);
            Ok::<_, FlashError>(driver)
        };
        let drained = recovered.drain(&mut memory, backing_bytes, NonZeroUsize::MIN, open, |_| {});
        let drained = drained.expect("memory does not fail");
        assert_eq!(drained.lost_pages, checked.lost_pages);
        assert_eq!(drained.written_pages + drained.lost_pages.len() as u64, contents.dirty_pages);
    }
    recovered.forget(&mut memory).expect("memory does not fail");
    match FlashSet::read(&mut memory) {
        Ok(forgotten) => assert_eq!(forgotten.contents().held_pages, 0),
        Err(FlashError::Damaged) => panic!("a flash is whole after it was written"),
        Err(error) => panic!("{error}"),
    }
}
