//! A flash at rest: starting from it after a kill, and draining it, beside plain reads and writes of the
//! same devices.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result};
use thermocline_engine::driver::files::{Caching, DeviceFile};
use thermocline_engine::driver::uring::UringDriver;
use thermocline_engine::{
    Flash, FlashError, Frames, Layout, Options, PolicyOptions, Shard, Storage as _, Uuid,
};

use crate::measure::seconds;

const PAGE: usize = 4096;
const BLOCK: usize = 4096;
const SLOTS_PER_BLOCK: u32 = 202;
const RECORDS_PER_BLOCK: u32 = 167;
const CACHE: Uuid = Uuid::from_u128(0x7468_6572_6d6f);
/// Bytes that plain reads and writes move at a time.
const PIECE: usize = 1 << 20;
/// Blocks of the journal that a killed engine's last commit may have left in doubt.
const UNCERTAIN_BLOCKS: u64 = 8;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// GiB of flash of the start; its slots are holes, and take no space
    #[arg(long, default_value_t = 16)]
    flash_gib: u32,
    /// The policy of the start
    #[arg(long, default_value = "hat")]
    policy: String,
    /// MiB of dirty pages of the drain
    #[arg(long, default_value_t = 2048)]
    drain_mib: u32,
    /// Threads of the drain
    #[arg(long, default_value = "2")]
    drain_workers: NonZeroUsize,
    /// Folder of the files; default: a temporary folder below the working directory
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Folder of the drain's flash, if it is on another device: on one device the reads and the
    /// writes of a drain share its bandwidth
    #[arg(long)]
    flash_folder: Option<PathBuf>,
}

/// Measures and prints all.
pub(crate) fn run_all(arguments: &Arguments) -> Result<()> {
    let temporary = tempfile::tempdir_in(".").context("cannot make a temporary folder")?;
    let folder = arguments.folder.as_deref().unwrap_or(temporary.path());
    start(folder, arguments)?;
    println!("\n| drain | s | read s | write s | of the slower device | of one after the other |");
    println!("| --- | --- | --- | --- | --- | --- |");
    drain(folder, arguments, "slots in the order of the pages", |at, _| at)?;
    drain(folder, arguments, "slots in no order", scattered)
}

/// Return the time some work: return its result, and its wall-clock seconds.
fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let start = Instant::now();
    let result = work()?;
    Ok((result, start.elapsed().as_secs_f64()))
}

/// Return a number below `count`, each once: neighbours lie far apart.
fn scattered(at: u32, count: u32) -> u32 {
    let step = (count / 2 + 12_345..u32::MAX).find(|&step| gcd(step, count) == 1);
    let step = u64::from(step.unwrap_or(1));
    u32::try_from(u64::from(at) * step % u64::from(count)).unwrap_or(0)
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Starts from the flash of a killed engine.
fn start(folder: &Path, arguments: &Arguments) -> Result<()> {
    let flash_pages = arguments.flash_gib << 18;
    let policy = PolicyOptions::named(&arguments.policy)?;
    // Eight pages of disk per page of flash.
    let pages = flash_pages * 8;
    let options = Options::new(pages.into(), flash_pages / 64, flash_pages, policy);
    let layout = Layout::new(options.slots(), options.page_bytes);
    let path = folder.join("start.flash");
    let mut file = create(&path, layout.flash_bytes())?;
    Flash::initialise(&mut file, CACHE, layout, options.size_bytes())?;
    let held = |slot: u32| {
        let page = scattered(slot, pages);
        (slot < flash_pages).then(|| (page, 0, u64::from(slot) + 1, slot.is_multiple_of(3)))
    };
    write_table(&mut file, &layout, held)?;
    write_journal(&mut file, &layout, flash_pages, pages)?;
    let plain = seconds(|| {
        let mut bytes = vec![0; PIECE];
        let metadata = layout.metadata_bytes() / PIECE as u64 * PIECE as u64;
        for offset in (0..metadata).step_by(PIECE) {
            file.read_at(offset, &mut bytes)?;
        }
        Ok(())
    })?;
    let (mut flash, reading) = timed(|| Ok(Flash::read(&mut file)?))?;
    let ((), taking) = timed(|| Ok(flash.take_over(&mut file)?))?;
    let (_shard, opening) = timed(|| Ok(Shard::open(options, &flash)?))?;
    let contents = flash.contents();
    let total = reading + taking + opening;
    println!("| start with {} GiB of flash | s |", arguments.flash_gib);
    println!("| --- | --- |");
    println!("| plain reads of the metadata | {plain:.2} |");
    println!("| reading table and journal | {reading:.2} |");
    println!("| writing the table up to date | {taking:.2} |");
    println!("| telling {} | {opening:.2} |", arguments.policy);
    println!(
        "{} pages, {} dirty; {:.1} GiB of flash per second",
        contents.held_pages,
        contents.dirty_pages,
        f64::from(arguments.flash_gib) / total
    );
    drop(file);
    std::fs::remove_file(path)?;
    Ok(())
}

/// Drains a flash all of whose pages are dirty, in slots that `slot_of` gives.
fn drain(
    folder: &Path,
    arguments: &Arguments,
    name: &str,
    slot_of: fn(u32, u32) -> u32,
) -> Result<()> {
    let count = arguments.drain_mib << 8;
    let bytes = u64::from(count) * PAGE as u64;
    let flash_path = arguments.flash_folder.as_deref().unwrap_or(folder).join("drain.flash");
    let disk_path = folder.join("drain.disk");
    let layout = Layout::new(count, 4096);
    let mut file = create(&flash_path, layout.flash_bytes())?;
    let mut disk = create(&disk_path, bytes)?;
    Flash::initialise(&mut file, CACHE, layout, bytes)?;
    let slots_at = layout.flash_bytes() - bytes;
    let mut page_in = vec![0; count as usize];
    for page in 0..count {
        page_in[slot_of(page, count) as usize] = page;
    }
    write_table(&mut file, &layout, |slot| {
        let page = *page_in.get(slot as usize)?;
        Some((page, checksum(page, 1, &content(page)), 1, true))
    })?;
    for (offset, pages) in (slots_at..).step_by(PIECE).zip(page_in.chunks(PIECE / PAGE)) {
        let bytes: Vec<u8> = pages.iter().flat_map(|&page| content(page)).collect();
        file.write_at(offset, &bytes)?;
    }
    file.sync()?;
    let mut piece = vec![0; PIECE];
    let mut reading = || {
        seconds(|| {
            for offset in (0..bytes).step_by(PIECE) {
                file.read_at(slots_at + offset, &mut piece)?;
            }
            Ok(())
        })
    };
    let write = |disk: &mut DeviceFile| {
        seconds(|| {
            let zeroes = vec![0; PIECE];
            for offset in (0..bytes).step_by(PIECE) {
                disk.write_at(offset, &zeroes)?;
            }
            Ok(disk.sync()?)
        })
    };
    // The first round gives the file its space.
    write(&mut disk)?;
    let (reading, writing) = (reading()?, write(&mut disk)?);
    let mut flash = Flash::read(&mut file)?;
    let [of_flash, of_disk] = [file.try_clone()?, disk.try_clone()?];
    let open = |frames: &Arc<Frames>| -> Result<_, FlashError> {
        Ok(UringDriver::new(frames, Some(of_flash.try_clone()?), of_disk.try_clone()?)?)
    };
    let (drained, draining) =
        timed(|| Ok(flash.drain(&mut file, bytes, arguments.drain_workers, open, |_| {})?))?;
    anyhow::ensure!(drained.written_pages == u64::from(count), "pages are missing");
    let [slower, both] = [reading.max(writing), reading + writing].map(|plain| plain / draining);
    println!("| {name} | {draining:.2} | {reading:.2} | {writing:.2} | {slower:.2} | {both:.2} |");
    drop((file, disk));
    std::fs::remove_file(flash_path)?;
    Ok(std::fs::remove_file(disk_path)?)
}

fn create(path: &Path, size_bytes: u64) -> Result<DeviceFile> {
    let file = std::fs::File::create(path).with_context(|| format!("{}", path.display()))?;
    file.set_len(size_bytes)?;
    Ok(DeviceFile::open(path, Caching::Direct)?)
}

fn content(page: u32) -> [u8; PAGE] {
    let mut bytes = [page.to_le_bytes()[0] | 1; PAGE];
    bytes[..4].copy_from_slice(&page.to_le_bytes());
    bytes
}

/// Return the checksum that the engine computes of a slot.
fn checksum(page: u32, version: u64, bytes: &[u8]) -> u32 {
    let identity = [&page.to_le_bytes()[..], &version.to_le_bytes()].concat();
    crc32c::crc32c_append(crc32c::crc32c(&identity), bytes)
}

/// Writes both copies of each block of the table. `held` says page, checksum and version of a slot, and
/// whether it is dirty.
fn write_table(
    file: &mut DeviceFile,
    layout: &Layout,
    held: impl Fn(u32) -> Option<(u32, u32, u64, bool)>,
) -> Result<()> {
    let table = layout.table_range();
    let mut bytes = vec![];
    let mut offset = table.start;
    for block in 0..layout.table_blocks {
        let mut fields = vec![];
        fields.extend(b"tcl-tabl");
        fields.extend(CACHE.as_bytes());
        fields.extend(2_u64.to_le_bytes());
        fields.extend(block.to_le_bytes());
        fields.extend([0; 12]);
        let first = block * SLOTS_PER_BLOCK;
        for slot in first..(first + SLOTS_PER_BLOCK).min(layout.slots) {
            let (page, checksum, version, kind) =
                held(slot).map_or((0, 0, 0, 0), |(page, checksum, version, is_dirty)| {
                    (page, checksum, version, 1 + u32::from(is_dirty))
                });
            fields.extend(page.to_le_bytes());
            fields.extend(checksum.to_le_bytes());
            fields.extend(version.to_le_bytes());
            fields.extend(kind.to_le_bytes());
        }
        let sealed = seal(fields);
        bytes.extend(&sealed);
        bytes.extend(&sealed);
        if bytes.len() >= PIECE || block + 1 == layout.table_blocks {
            file.write_at(offset, &bytes)?;
            offset += bytes.len() as u64;
            bytes.clear();
        }
    }
    Ok(file.sync()?)
}

/// Writes three quarters of the journal's ring: pages that moved to the first slots, some of them since
/// the last commit.
fn write_journal(file: &mut DeviceFile, layout: &Layout, slots: u32, pages: u32) -> Result<()> {
    let ring = u64::from(layout.journal_blocks / 2);
    let blocks = ring * 3 / 4;
    let mut slot = 0;
    for sequence in 1..=blocks {
        let mut fields = vec![];
        fields.extend(b"tcl-jrnl");
        fields.extend(CACHE.as_bytes());
        let uncertain = sequence.saturating_sub(UNCERTAIN_BLOCKS).max(1);
        for number in [1, sequence, 1, uncertain, 1 << 40] {
            fields.extend(number.to_le_bytes());
        }
        fields.extend(RECORDS_PER_BLOCK.to_le_bytes());
        fields.extend([0; 4]);
        for _ in 0..RECORDS_PER_BLOCK {
            let page = scattered(scattered(slot % slots, slots), pages);
            let version = u64::from(slots) + u64::from(slot) + 1;
            fields.extend(page.to_le_bytes());
            fields.extend((slot % slots).to_le_bytes());
            fields.extend(version.to_le_bytes());
            fields.extend(checksum(page, version, &[0; PAGE]).to_le_bytes());
            fields.extend((1 + slot % 2).to_le_bytes());
            slot += 1;
        }
        let sealed = seal(fields);
        let place = 2 + sequence % ring;
        for place in [place, place + ring] {
            file.write_at(place * BLOCK as u64, &sealed)?;
        }
    }
    Ok(file.sync()?)
}

/// Return a block with its checksum.
fn seal(mut fields: Vec<u8>) -> Vec<u8> {
    fields.resize(BLOCK - 4, 0);
    let checksum = crc32c::crc32c(&fields);
    fields.extend(checksum.to_le_bytes());
    fields
}
