//! The directory of a flash that several volumes share: which bytes belong to which volume.
//!
//! Each volume has a region of its own, which is laid out as the flash of a single backing store: a
//! superblock, a journal, a table and slots, with a cache identity and an epoch of its own. So a volume
//! starts, crashes and recovers alone, and the directory changes only when a volume is added or removed.
//!
//! Layout: chunks of 1 MiB. The first chunk has the directory, in two blocks that say the same. Each entry
//! has the name of a volume and its extents in chunks. The first one begins where the region begins; the others
//! are for annexes, of which only the region itself knows what is where. An extent that follows another one
//! directly is one with it.
//!
//! A change goes through these steps, each of which waits until the one before is durable:
//!
//! 1. Erase the first blocks of each new region. They may hold the superblock of an earlier flash, which a
//!    start would take for that of the volume.
//! 2. Write one copy of the directory: the older or damaged one, if they differ.
//! 3. Write the other copy.
//!
//! A volume gets more chunks before its region uses them. A power cut may leave it chunks that the region does not
//! use; it has them first when it grows.
//!
//! A power cut leaves the directory as it was before or after the change, because each copy has a
//! generation and a checksum, and one of the two is always intact.

use std::io;
use std::ops::Range;

use thiserror::Error;

use crate::format::superblock::{Superblock, Unreadable};
use crate::format::{BLOCK_BYTES, Reader, Writer};
use crate::storage::Storage;

/// First bytes of a directory.
const MAGIC: &[u8; 16] = b"thermocline-vols";
/// Version of the format.
const FORMAT: u32 = 1;
/// Size of a chunk.
const CHUNK_BYTES: u64 = 1 << 20;
/// Extents that an entry has room for.
const EXTENTS_MAX: usize = 4;
/// Bytes of the field for a name, its length included.
const NAME_FIELD_BYTES: usize = 64;
/// Greatest length of a volume's name, in bytes.
pub const VOLUME_NAME_BYTES_MAX: usize = NAME_FIELD_BYTES - 1;
/// Greatest number of volumes on one flash.
pub const VOLUMES_MAX: usize = 32;
/// Generations above are nonsense, whatever the checksum says.
const GENERATION_LIMIT: u64 = 1 << 56;

/// Number of chunks that the directory occupies.
const DIRECTORY_CHUNKS: u32 = 1;

/// The volumes of a flash, and the region of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    generation: u64,
    /// Volumes in the order in which they were added.
    volumes: Vec<Volume>,
}

/// A volume's entry.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Volume {
    name: String,
    /// The first one begins with the region.
    extents: Vec<Extent>,
}

impl Volume {
    /// Take a range of chunks, too. Those that follow one another become one extent, but the first extent still
    /// begins with the region.
    fn take(&mut self, taken: Extent) {
        let region = self.extents[0].start;
        let mut all: Vec<Extent> = self.extents.iter().copied().chain([taken]).collect();
        all.sort_unstable_by_key(|extent| extent.start);
        let mut joined: Vec<Extent> = vec![];
        for extent in all {
            match joined.last_mut().filter(|last| last.end() >= u64::from(extent.start)) {
                Some(last) if extent.start != region => {
                    let end = last.end().max(extent.end());
                    *last = Extent::between(last.start.into(), end);
                }
                _ => joined.push(extent),
            }
        }
        // The region's own extent comes first.
        joined.sort_by_key(|extent| extent.start != region);
        self.extents = joined;
    }
}

/// A range of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    start: u32,
    chunks: u32,
}

impl Extent {
    /// Return the extent between these numbers of chunks, which fit a directory.
    fn between(start: u64, end: u64) -> Self {
        let number = |chunks: u64| u32::try_from(chunks).expect("a flash has 32 bits of chunks");
        Self { start: number(start), chunks: number(end - start) }
    }

    fn end(self) -> u64 {
        u64::from(self.start) + u64::from(self.chunks)
    }

    fn overlaps(self, other: Self) -> bool {
        u64::from(self.start) < other.end() && u64::from(other.start) < self.end()
    }

    fn bytes(self) -> Range<u64> {
        u64::from(self.start) * CHUNK_BYTES..self.end() * CHUNK_BYTES
    }
}

/// Reason why a directory cannot be read or changed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DirectoryError {
    /// The device fails.
    #[error("cannot access the flash: {0}")]
    Io(#[from] io::Error),
    /// Neither copy is intact.
    #[error(
        "both copies of the flash's directory of volumes are damaged: the places of the volumes are \
         lost; restore the backing stores from backups, or initialise the flash by force"
    )]
    Damaged,
    /// A later version made it.
    #[error(
        "the flash's directory of volumes has format {found}, this program reads format {FORMAT}: use \
         the version that wrote it"
    )]
    Format {
        /// Format of the directory.
        found: u32,
    },
    /// A volume would be in too many places.
    #[error(
        "volume `{name}` would lie in more than {EXTENTS_MAX} places of the flash: remove the volume and add it \
         with its new size"
    )]
    Scattered {
        /// Name of the volume.
        name: String,
    },
    /// A name is empty, too long or has control characters.
    #[error(
        "invalid volume name `{name}`: use 1 to {VOLUME_NAME_BYTES_MAX} bytes without control characters"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// Two volumes have one name.
    #[error("the flash has a volume `{name}` already: choose another name")]
    Duplicate {
        /// Name of the volume.
        name: String,
    },
    /// No volume has that name.
    #[error("the flash has no volume `{name}`; its volumes are: {known}")]
    Unknown {
        /// The name.
        name: String,
        /// Names of the volumes.
        known: String,
    },
    /// The directory is full.
    #[error("a flash holds at most {VOLUMES_MAX} volumes: remove one first")]
    TooMany,
    /// The flash has no free range of that size.
    #[error(
        "the flash has no room for volume `{name}`: it needs {wanted_bytes} bytes in one piece, and the \
         largest free piece has {free_bytes}; use a larger flash, or smaller volumes"
    )]
    NoRoom {
        /// Name of the volume.
        name: String,
        /// Size of the region, in bytes.
        wanted_bytes: u64,
        /// Size of the largest free piece, in bytes.
        free_bytes: u64,
    },
}

impl Directory {
    /// Return the size that a flash needs for regions of these sizes, in bytes.
    pub fn flash_bytes(regions: impl IntoIterator<Item = u64>) -> u64 {
        let chunks: u64 = regions.into_iter().map(|bytes| bytes.div_ceil(CHUNK_BYTES)).sum();
        (u64::from(DIRECTORY_CHUNKS) + chunks) * CHUNK_BYTES
    }

    /// Return `true` if one of these first blocks of a flash is that of a directory.
    pub(crate) fn begins(block: &[u8]) -> bool {
        block.starts_with(MAGIC)
    }

    /// Read the directory of a flash. Return `None` if the flash has none: it is blank, belongs to
    /// something else, or power was cut while it was set up.
    ///
    /// # Errors
    /// If the directory is damaged or of a later version, or a device fails.
    pub fn read(storage: &mut dyn Storage) -> Result<Option<Self>, DirectoryError> {
        if storage.size_bytes()? < CHUNK_BYTES {
            return Ok(None);
        }
        let mut copies = vec![];
        let (mut is_directory, mut is_unfinished) = (false, false);
        let mut failure = None;
        for place in copy_places() {
            let mut block = vec![0; BLOCK_BYTES];
            match storage.read_at(place, &mut block) {
                Ok(()) => {
                    is_directory |= Self::begins(&block);
                    is_unfinished |= block.iter().all(|&byte| byte == 0);
                    copies.push(Self::decode(&block));
                }
                Err(error) => failure = Some(error),
            }
        }
        let mut later = None;
        let mut newest: Option<Self> = None;
        for copy in copies {
            match copy {
                Ok(Some(found)) => {
                    if newest.as_ref().is_none_or(|known| known.generation < found.generation) {
                        newest = Some(found);
                    }
                }
                Ok(None) => {}
                Err(error) => later = Some(error),
            }
        }
        match (newest, later, failure) {
            // A later version leaves no intact copy of this one.
            (_, Some(error), _) => Err(error),
            (Some(found), None, _) => Ok(Some(found)),
            (None, None, Some(error)) => Err(error.into()),
            // Setting up erases both copies first: power was cut before the first one was whole.
            (None, None, None) if is_directory && !is_unfinished => Err(DirectoryError::Damaged),
            (None, None, None) => Ok(None),
        }
    }

    /// Make a flash one of these volumes, given as names and sizes in bytes. Everything that the flash held
    /// is lost. Regions begin blank.
    ///
    /// # Errors
    /// If names or sizes are invalid, or a device fails. Errors of names and sizes leave the flash
    /// unchanged.
    pub fn set_up(
        storage: &mut dyn Storage,
        volumes: &[(&str, u64)],
    ) -> Result<Self, DirectoryError> {
        let size_bytes = storage.size_bytes()?;
        let mut directory = Self { generation: 0, volumes: vec![] };
        for (name, bytes) in volumes {
            let volume = directory.place(name, *bytes, size_bytes)?;
            directory.volumes.push(volume);
        }
        // The flash may have been that of a single store: its superblocks lie where the directory goes.
        for place in copy_places() {
            storage.write_at(place, &[0; BLOCK_BYTES])?;
        }
        storage.sync()?;
        let regions: Vec<Extent> =
            directory.volumes.iter().map(|volume| volume.extents[0]).collect();
        directory.commit(storage, &regions)?;
        Ok(directory)
    }

    /// Add a volume, whose region begins blank.
    ///
    /// # Errors
    /// If a name or a size is invalid, or a device fails.
    pub fn add(
        &mut self,
        storage: &mut dyn Storage,
        name: &str,
        bytes: u64,
    ) -> Result<(), DirectoryError> {
        let volume = self.place(name, bytes, storage.size_bytes()?)?;
        let region = volume.extents[0];
        let mut changed = self.clone();
        changed.volumes.push(volume);
        changed.commit(storage, &[region])?;
        *self = changed;
        Ok(())
    }

    /// Give a volume that many bytes more in one piece, durably. `used` are the ranges that its region uses of the
    /// flash; what else the volume has comes first. Returns where the piece begins.
    ///
    /// # Errors
    /// If no volume has the name, there is no room, or a device fails. The volume keeps what it has then.
    pub fn extend(
        &mut self,
        storage: &mut dyn Storage,
        name: &str,
        bytes: u64,
        used: &[Range<u64>],
    ) -> Result<u64, DirectoryError> {
        let index = self.index(name)?;
        let others = self.volumes.iter().enumerate().filter(|(other, _)| *other != index);
        let others = others.flat_map(|(_, volume)| volume.extents.iter().copied());
        let own = used.iter().map(|range| {
            Extent::between(range.start / CHUNK_BYTES, range.end.div_ceil(CHUNK_BYTES))
        });
        let free = free(others.chain(own).collect(), storage.size_bytes()?);
        let own = &self.volumes[index].extents;
        // Chunks that the volume has already are used before others.
        let is_own = |piece: &Extent| own.iter().any(|extent| extent.overlaps(*piece));
        let extent = fit(&free, name, bytes, |piece| (!is_own(piece), piece.chunks))?;
        let mut changed = self.clone();
        changed.volumes[index].take(extent);
        if changed.volumes[index].extents.len() > EXTENTS_MAX {
            return Err(DirectoryError::Scattered { name: name.to_owned() });
        }
        if changed != *self {
            changed.commit(storage, &[])?;
            *self = changed;
        }
        Ok(extent.bytes().start)
    }

    /// Remove a volume. What its region held is lost.
    ///
    /// # Errors
    /// If no volume has the name, or a device fails.
    pub fn remove(&mut self, storage: &mut dyn Storage, name: &str) -> Result<(), DirectoryError> {
        let index = self.index(name)?;
        let mut changed = self.clone();
        changed.volumes.remove(index);
        changed.commit(storage, &[])?;
        *self = changed;
        Ok(())
    }

    /// Return the later one of two that were read, the first if they are the same.
    pub(crate) fn newest<'a>(one: Option<&'a Self>, other: Option<&'a Self>) -> Option<&'a Self> {
        let generation = |found: Option<&Self>| found.map(|found| found.generation);
        if generation(other) > generation(one) { other } else { one }
    }

    /// Write the directory to another device, which has an older one or none.
    ///
    /// # Errors
    /// If the device fails.
    pub(crate) fn copy_to(&self, storage: &mut dyn Storage) -> io::Result<()> {
        let [first, second] = copy_places();
        let mut is_intact = |place| {
            let mut block = vec![0; BLOCK_BYTES];
            let is_read = storage.read_at(place, &mut block).is_ok();
            is_read && matches!(Self::decode(&block), Ok(Some(_)))
        };
        // A copy that is not intact comes first.
        let order =
            if is_intact(first) && !is_intact(second) { [second, first] } else { [first, second] };
        let block = self.encode();
        for place in order {
            storage.write_at(place, &block)?;
            storage.sync()?;
        }
        Ok(())
    }

    /// Return the region of a volume without its annexes, in bytes of the flash.
    ///
    /// # Errors
    /// [`DirectoryError::Unknown`] if no volume has that name.
    pub fn region(&self, name: &str) -> Result<Range<u64>, DirectoryError> {
        Ok(self.volumes[self.index(name)?].extents[0].bytes())
    }

    /// Return the range of the flash in which the addresses of a volume's region are, in bytes. It has no end,
    /// because annexes may be anywhere.
    ///
    /// # Errors
    /// [`DirectoryError::Unknown`] if no volume has that name.
    pub fn window(&self, name: &str) -> Result<Range<u64>, DirectoryError> {
        Ok(self.region(name)?.start..u64::MAX)
    }

    /// Return the volumes' names and regions, in the order in which they were added.
    pub fn volumes(&self) -> impl ExactSizeIterator<Item = (&str, Range<u64>)> {
        self.volumes.iter().map(|volume| (&*volume.name, volume.extents[0].bytes()))
    }

    /// Return the end of what volumes have, in bytes of the flash.
    pub fn end_bytes(&self) -> u64 {
        let extents = self.volumes.iter().flat_map(|volume| &volume.extents);
        let ends = extents.map(|extent| extent.bytes().end);
        ends.max().unwrap_or(0).max(u64::from(DIRECTORY_CHUNKS) * CHUNK_BYTES)
    }

    /// Return `true` if no set-up of the region of a volume has ended since that was added. A set-up makes the
    /// first superblock durable before it writes the second one, so power that was cut leaves a torn one alone.
    ///
    /// # Errors
    /// A name that no volume has; a device that fails.
    pub fn is_new(&self, storage: &mut dyn Storage, name: &str) -> Result<bool, DirectoryError> {
        let mut blocks = vec![0; 2 * BLOCK_BYTES];
        storage.read_at(self.region(name)?.start, &mut blocks)?;
        let (first, second) = blocks.split_at(BLOCK_BYTES);
        // What a later version set up is not torn.
        let is_torn = matches!(
            Superblock::decode(first),
            Err(Unreadable::Empty | Unreadable::Foreign | Unreadable::Torn)
        );
        Ok(is_torn && second.iter().all(|&byte| byte == 0))
    }

    fn index(&self, name: &str) -> Result<usize, DirectoryError> {
        self.volumes.iter().position(|volume| volume.name == name).ok_or_else(|| {
            let known: Vec<&str> = self.volumes.iter().map(|volume| &*volume.name).collect();
            DirectoryError::Unknown { name: name.to_owned(), known: known.join(", ") }
        })
    }

    /// Find room for a volume.
    fn place(&self, name: &str, bytes: u64, size_bytes: u64) -> Result<Volume, DirectoryError> {
        let is_long = name.is_empty() || name.len() > VOLUME_NAME_BYTES_MAX;
        if is_long || name.chars().any(char::is_control) {
            return Err(DirectoryError::Name { name: name.escape_default().to_string() });
        }
        if self.volumes.iter().any(|volume| volume.name == name) {
            return Err(DirectoryError::Duplicate { name: name.to_owned() });
        }
        if self.volumes.len() == VOLUMES_MAX {
            return Err(DirectoryError::TooMany);
        }
        let taken = self.volumes.iter().flat_map(|volume| volume.extents.iter().copied());
        let free = free(taken.collect(), size_bytes);
        // The smallest piece that is large enough leaves large pieces for large volumes.
        let extent = fit(&free, name, bytes, |piece| piece.chunks)?;
        Ok(Volume { name: name.to_owned(), extents: vec![extent] })
    }

    /// Make a changed directory durable; see the steps in the module's documentation.
    fn commit(&mut self, storage: &mut dyn Storage, new: &[Extent]) -> io::Result<()> {
        for extent in new {
            storage.write_at(extent.bytes().start, &[0; 2 * BLOCK_BYTES])?;
        }
        if !new.is_empty() {
            storage.sync()?;
        }
        // The first copy to be written may be torn, so it must not be the only one that is up to date: a
        // power cut may have left the other one older, or it may be damaged.
        let [first, second] = copy_places();
        let order =
            if self.is_current(storage, second) { [first, second] } else { [second, first] };
        self.generation += 1;
        let block = self.encode();
        for place in order {
            storage.write_at(place, &block)?;
            storage.sync()?;
        }
        Ok(())
    }

    /// Return `true` if the copy at this place is intact and of this generation.
    fn is_current(&self, storage: &mut dyn Storage, place: u64) -> bool {
        let mut block = vec![0; BLOCK_BYTES];
        let is_read = storage.read_at(place, &mut block).is_ok();
        let found = Self::decode(&block).ok().flatten();
        is_read && found.is_some_and(|found| found.generation == self.generation)
    }

    fn encode(&self) -> Vec<u8> {
        let mut block = vec![0; BLOCK_BYTES];
        let mut writer = Writer::new(&mut block);
        writer.bytes(MAGIC);
        writer.u32(FORMAT);
        writer.u32(u32::try_from(self.volumes.len()).expect("volumes are few"));
        writer.u64(self.generation);
        for Volume { name, extents } in &self.volumes {
            let mut field = [0; NAME_FIELD_BYTES];
            field[0] = u8::try_from(name.len()).expect("names are short");
            field[1..=name.len()].copy_from_slice(name.as_bytes());
            writer.bytes(&field);
            writer.u32(u32::try_from(extents.len()).expect("a volume has few extents"));
            let unused = Extent { start: 0, chunks: 0 };
            let padded = extents.iter().copied().chain(std::iter::repeat(unused));
            for extent in padded.take(EXTENTS_MAX) {
                writer.u32(extent.start);
                writer.u32(extent.chunks);
            }
        }
        writer.seal();
        block
    }

    /// Read a copy. Return `None` if it is none, or is damaged.
    fn decode(block: &[u8]) -> Result<Option<Self>, DirectoryError> {
        if !Self::begins(block) {
            return Ok(None);
        }
        let Some(mut reader) = Reader::new(block) else { return Ok(None) };
        let _: [u8; 16] = reader.array();
        let found = reader.u32();
        if found != FORMAT {
            return Err(DirectoryError::Format { found });
        }
        let count = reader.u32() as usize;
        let generation = reader.u64();
        if count > VOLUMES_MAX || generation >= GENERATION_LIMIT {
            return Ok(None);
        }
        let mut volumes = vec![];
        for _ in 0..count {
            let field: [u8; NAME_FIELD_BYTES] = reader.array();
            let name = field.get(1..=usize::from(field[0]));
            let Some(Ok(name)) = name.map(std::str::from_utf8) else { return Ok(None) };
            let name = name.to_owned();
            let used = reader.u32() as usize;
            let mut extents: Vec<Extent> = (0..EXTENTS_MAX)
                .map(|_| Extent { start: reader.u32(), chunks: reader.u32() })
                .collect();
            let is_wrong =
                |extent: &Extent| extent.start < DIRECTORY_CHUNKS || extent.end() > u32::MAX.into();
            if !(1..=EXTENTS_MAX).contains(&used) || extents[..used].iter().any(is_wrong) {
                return Ok(None);
            }
            extents.truncate(used);
            volumes.push(Volume { name, extents });
        }
        Ok(Some(Self { generation, volumes }))
    }
}

/// Return the free pieces of a flash of that size, of which these are taken.
fn free(mut taken: Vec<Extent>, size_bytes: u64) -> Vec<Extent> {
    let end = u32::try_from(size_bytes / CHUNK_BYTES).unwrap_or(u32::MAX);
    taken.sort_unstable_by_key(|extent| extent.start);
    let mut free = vec![];
    let mut start = DIRECTORY_CHUNKS;
    for extent in taken.into_iter().chain([Extent { start: end, chunks: 0 }]) {
        if extent.start > start {
            free.push(Extent { start, chunks: extent.start - start });
        }
        start = start.max(u32::try_from(extent.end()).unwrap_or(u32::MAX));
    }
    free
}

/// Return the beginning of the least of the pieces that are large enough.
fn fit<K: Ord>(
    free: &[Extent],
    name: &str,
    bytes: u64,
    key: impl Fn(&Extent) -> K,
) -> Result<Extent, DirectoryError> {
    let wanted = bytes.div_ceil(CHUNK_BYTES).max(1);
    let fitting = free.iter().filter(|piece| u64::from(piece.chunks) >= wanted);
    let Some(piece) = fitting.min_by_key(|piece| key(piece)) else {
        let largest = free.iter().map(|piece| piece.chunks).max().unwrap_or(0);
        return Err(DirectoryError::NoRoom {
            name: name.to_owned(),
            wanted_bytes: bytes,
            free_bytes: u64::from(largest) * CHUNK_BYTES,
        });
    };
    let start = u64::from(piece.start);
    Ok(Extent::between(start, start + wanted))
}

/// Return where the two copies lie, in bytes.
fn copy_places() -> [u64; 2] {
    [0, BLOCK_BYTES as u64]
}

const _: () = assert!(
    32 + VOLUMES_MAX * (NAME_FIELD_BYTES + 4 + 8 * EXTENTS_MAX) + 4 <= BLOCK_BYTES,
    "a block has room for all entries"
);

#[cfg(test)]
mod tests;
