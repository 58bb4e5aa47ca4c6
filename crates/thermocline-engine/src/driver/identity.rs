//! Files and block devices that have the same bytes, under any name.
//!
//! A file and a loop device over it are two devices to the system: neither a lock nor an exclusive open of one keeps the
//! other one from being used. (A partition and its disk, and what device-mapper or MD uses, exclude each other.)

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

/// Number of loop devices that lie on each other and are looked through.
const DEPTH_MAX: usize = 8;

/// A file or a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Identity {
    Device { number: u64 },
    File { device: u64, inode: u64 },
}

/// Devices and files in which a device has its bytes.
#[derive(Debug, Default)]
struct Places {
    /// The device itself, and those that have exactly its bytes.
    same: Vec<Identity>,
    /// Those that have more than its bytes.
    larger: Vec<Identity>,
}

/// Return `true` if two paths lead to the same file or block device, or one of them to a loop device over the other;
/// `false` if there is nothing at one of them.
pub fn have_same_bytes(one: &Path, other: &Path) -> bool {
    let found = |path: &Path| std::fs::metadata(path).ok();
    found(one).zip(found(other)).is_some_and(|(one, other)| are_same(&one, &other))
}

/// As [`have_same_bytes`], of what is open and what is at a path.
///
/// # Errors
/// If the operating system reports an error other than that there is no such path.
pub(super) fn has_bytes_of(open: &Metadata, path: &Path) -> io::Result<bool> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        found => Ok(are_same(open, &found?)),
    }
}

fn are_same(one: &Metadata, other: &Metadata) -> bool {
    let (one, other) = (Places::of(one), Places::of(other));
    let has = |places: &Places, identity| {
        places.same.contains(identity) || places.larger.contains(identity)
    };
    one.same.iter().any(|identity| has(&other, identity))
        || other.same.iter().any(|identity| has(&one, identity))
}

impl Places {
    fn of(metadata: &Metadata) -> Self {
        let mut places = Self { same: vec![Identity::of(metadata)], larger: vec![] };
        let mut is_whole = true;
        let mut next = below(metadata);
        for _ in 0..DEPTH_MAX {
            let Some((found, is_all)) = next else { break };
            // Two loop devices over different parts of a file have no bytes in common.
            is_whole &= is_all;
            let known = if is_whole { &mut places.same } else { &mut places.larger };
            known.push(Identity::of(&found));
            next = below(&found);
        }
        places
    }
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        if metadata.file_type().is_block_device() {
            Self::Device { number: metadata.rdev() }
        } else {
            Self::File { device: metadata.dev(), inode: metadata.ino() }
        }
    }
}

/// Return the file or device under a loop device, or under the one that has this partition, and whether all of that
/// belongs to it.
#[cfg(target_os = "linux")]
fn below(metadata: &Metadata) -> Option<(Metadata, bool)> {
    use std::path::PathBuf;

    if !metadata.file_type().is_block_device() {
        return None;
    }
    let number = metadata.rdev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let folder = Path::new("/sys/dev/block").join(format!("{major}:{minor}"));
    let read = |path: PathBuf| std::fs::read_to_string(path).ok();
    let is_partition = folder.join("partition").exists();
    // The folder of a partition is in that of its device.
    let device = if is_partition { folder.canonicalize().ok()?.parent()?.into() } else { folder };
    let file = read(device.join("loop/backing_file"))?;
    let is_number_zero =
        |name: &str| read(device.join(name)).is_some_and(|text| text.trim() == "0");
    let is_all = !is_partition && is_number_zero("loop/offset") && is_number_zero("loop/sizelimit");
    Some((std::fs::metadata(file.trim_end_matches('\n')).ok()?, is_all))
}

/// Return nothing: only Linux has loop devices.
#[cfg(not(target_os = "linux"))]
const fn below(_: &Metadata) -> Option<(Metadata, bool)> {
    None
}
