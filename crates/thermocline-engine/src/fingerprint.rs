//! Fingerprint of a backing store at an orderly stop, to notice a change while no engine served it.

#[cfg(target_os = "linux")]
use std::fs;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

use uuid::Uuid;

use crate::format::BLOCK_BYTES;
use crate::storage::Storage;

/// Blocks of the sample at the beginning, where file systems and volume managers keep what changes with
/// every mount, and at the end, where some keep copies of that.
const HEAD_BLOCKS: u32 = 32;
const TAIL_BLOCKS: u32 = 16;
/// Blocks of the sample in all: 1 MiB.
const SAMPLE_BLOCKS: u32 = 256;

/// Fingerprint of a backing store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// Its size in bytes.
    pub size_bytes: u64,
    /// The checksum of a sample of its blocks.
    pub sample: u32,
    /// Value by which the system marks its state.
    pub mark: Mark,
}

/// Value that the system keeps for a backing store, and changes with each write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mark {
    /// None: the backing store is elsewhere, or the system does not report one.
    #[default]
    None,
    /// A regular file.
    File {
        /// Identifies the file in its file system.
        inode: u64,
        /// Time of the last write, in nanoseconds.
        modified_ns: u64,
    },
    /// A block device.
    Device {
        /// Identifies the start of the machine and the attachment of the device: a hash.
        session: u64,
        /// Sectors written and discarded in this session.
        written_sectors: u64,
    },
}

/// Comparison of a backing store with its earlier fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likeness {
    /// Nothing wrote to it, as far as the system counts.
    Same,
    /// The sample is the same, and the system's counters cannot be compared.
    Similar,
    /// The sample is the same, but the file is another one, with another time: a copy.
    Copied,
    /// It is longer, and the sample of its former range is unchanged.
    Grown,
    /// It is shorter.
    Shrunk,
    /// Something wrote to it.
    Changed,
    /// One of the two fingerprints is missing.
    Unknown,
}

impl Fingerprint {
    /// Return the fingerprint of a backing store, of its first `size_bytes`. The cache decides
    /// which blocks the sample takes.
    ///
    /// # Errors
    /// If a device fails or is shorter.
    pub fn take(
        storage: &mut dyn Storage,
        cache: Uuid,
        size_bytes: u64,
        mark: Mark,
    ) -> io::Result<Self> {
        let mut sample = 0;
        for (first, count) in sampled_blocks(cache, size_bytes / BLOCK_BYTES as u64) {
            let mut bytes = vec![0; count * BLOCK_BYTES];
            storage.read_at(first * BLOCK_BYTES as u64, &mut bytes)?;
            sample = crc32c::crc32c_append(sample, &bytes);
        }
        Ok(Self { size_bytes, sample, mark })
    }

    /// Compare this backing store with its earlier fingerprint. `self` has the sample of the first
    /// `before.size_bytes`, and its true size is `size_bytes`.
    pub fn likeness(&self, before: &Self, size_bytes: u64) -> Likeness {
        if size_bytes < before.size_bytes {
            return Likeness::Shrunk;
        }
        if self.sample != before.sample {
            return Likeness::Changed;
        }
        if size_bytes > before.size_bytes {
            return Likeness::Grown;
        }
        match (before.mark, self.mark) {
            (
                Mark::File { inode: old, modified_ns: before },
                Mark::File { inode: new, modified_ns: now },
            ) => match (old == new, before == now) {
                (true, true) => Likeness::Same,
                (true, false) => Likeness::Changed,
                (false, true) => Likeness::Similar,
                (false, false) => Likeness::Copied,
            },
            (
                Mark::Device { session: old, written_sectors: before },
                Mark::Device { session: new, written_sectors: now },
            ) if old == new => {
                if before == now {
                    Likeness::Same
                } else {
                    Likeness::Changed
                }
            }
            _ => Likeness::Similar,
        }
    }
}

impl Mark {
    /// Return the mark of a file or block device that is open.
    pub fn of(metadata: &Metadata) -> Self {
        if metadata.is_file() {
            let seconds_ns = metadata.mtime().wrapping_mul(1_000_000_000);
            let modified_ns = seconds_ns.wrapping_add(metadata.mtime_nsec()).cast_unsigned();
            return Self::File { inode: metadata.ino(), modified_ns };
        }
        if metadata.file_type().is_block_device() {
            #[cfg(target_os = "linux")]
            return Self::of_device(metadata.rdev()).unwrap_or_default();
        }
        Self::None
    }

    /// Return the mark of a block device: Linux counts the writes to it since it was attached, or since
    /// the machine started.
    #[cfg(target_os = "linux")]
    fn of_device(number: u64) -> Option<Self> {
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let folder = format!("/sys/dev/block/{major}:{minor}");
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        // A partition has none; its disk has.
        let attached = ["diskseq", "../diskseq"];
        let attached = attached.map(|name| fs::read_to_string(format!("{folder}/{name}")));
        let attached = attached.into_iter().flatten().next().unwrap_or_default();
        // A device whose counters are off counts nothing.
        let counts = ["queue/iostats", "../queue/iostats"];
        let is_off = counts.iter().any(|name| {
            fs::read_to_string(format!("{folder}/{name}")).is_ok_and(|text| text.trim() == "0")
        });
        if is_off {
            return None;
        }
        let stat = fs::read_to_string(format!("{folder}/stat")).ok()?;
        let counts: Vec<u64> = stat.split_whitespace().flat_map(str::parse).collect();
        let written_sectors = counts.get(6)?.saturating_add(*counts.get(13).unwrap_or(&0));
        // FNV-1a: what is stored must not change with the version of a library.
        let identity = format!("{} {major}:{minor} {}", boot.trim(), attached.trim());
        let session = identity.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Some(Self::Device { session, written_sectors })
    }
}

/// Runs of blocks that a sample takes, in order: the first, some spread evenly, the last. Each has its
/// first block and their number.
fn sampled_blocks(cache: Uuid, blocks: u64) -> Vec<(u64, usize)> {
    if let Some(blocks) = u32::try_from(blocks).ok().filter(|&blocks| blocks <= SAMPLE_BLOCKS) {
        return if blocks > 0 { vec![(0, blocks as usize)] } else { vec![] };
    }
    let (head, tail) = (u64::from(HEAD_BLOCKS), u64::from(TAIL_BLOCKS));
    let spread = u64::from(SAMPLE_BLOCKS) - head - tail;
    let middle = blocks - head - tail;
    let (seed, _) = cache.as_u64_pair();
    let mut runs = vec![(0, HEAD_BLOCKS as usize)];
    runs.extend((0..spread).map(|index| {
        let start = scaled(middle, index, spread);
        let length = scaled(middle, index + 1, spread) - start;
        (head + start + mixed(seed ^ index) % length, 1)
    }));
    runs.push((blocks - tail, TAIL_BLOCKS as usize));
    runs
}

/// Return `whole * part / parts` without overflow.
fn scaled(whole: u64, part: u64, parts: u64) -> u64 {
    whole / parts * part + whole % parts * part / parts
}

/// Return the generator `SplitMix64`.
const fn mixed(seed: u64) -> u64 {
    let seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let seed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let seed = (seed ^ (seed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    seed ^ (seed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CACHE: Uuid = Uuid::from_u128(7 << 70);

    #[test]
    fn a_sample_is_spread_over_the_backing_store() {
        for blocks in [0, 1, 255, 256, 257, 300, 5000, u64::from(u32::MAX), u64::MAX >> 12] {
            let runs = sampled_blocks(CACHE, blocks);
            let taken: usize = runs.iter().map(|(_, count)| count).sum();
            assert_eq!(taken as u64, blocks.min(SAMPLE_BLOCKS.into()), "{blocks}");
            let mut end = 0;
            for (first, count) in runs {
                assert!(first >= end && first - end <= blocks / 50 + 1, "{blocks}: {first}");
                end = first + count as u64;
            }
            assert_eq!(end, blocks);
        }
        assert_ne!(sampled_blocks(CACHE, 5000), sampled_blocks(Uuid::max(), 5000));
    }

    #[test]
    fn what_the_system_counts_decides_where_it_can() {
        let file = |inode, modified_ns| Mark::File { inode, modified_ns };
        let device = |session, written_sectors| Mark::Device { session, written_sectors };
        let cases = [
            (file(1, 5), file(1, 5), Likeness::Same),
            (file(1, 5), file(1, 6), Likeness::Changed),
            (file(1, 5), file(2, 5), Likeness::Similar),
            (file(1, 5), file(2, 6), Likeness::Copied),
            (device(1, 5), device(1, 5), Likeness::Same),
            (device(1, 5), device(1, 6), Likeness::Changed),
            (device(1, 5), device(2, 0), Likeness::Similar),
            (Mark::None, Mark::None, Likeness::Similar),
            (file(1, 5), device(1, 5), Likeness::Similar),
        ];
        for (before, now, expected) in cases {
            let print = |mark| Fingerprint { size_bytes: 8192, sample: 3, mark };
            assert_eq!(print(now).likeness(&print(before), 8192), expected, "{before:?} {now:?}");
            let other = Fingerprint { sample: 4, ..print(now) };
            assert_eq!(other.likeness(&print(before), 8192), Likeness::Changed);
            assert_eq!(print(now).likeness(&print(before), 8191), Likeness::Shrunk);
            assert_eq!(print(now).likeness(&print(before), 8193), Likeness::Grown);
        }
    }
}
