//! The directory of a flash that several volumes share: which bytes belong to which volume.
//!
//! Each volume has a region of its own, which is laid out as the flash of a single backing store: a
//! superblock, a journal, a table and slots, with a cache identity and an epoch of its own. So a volume
//! starts, crashes and recovers alone, and the directory changes only when a volume is added or removed.
//!
//! Layout: chunks of 1 MiB. The first chunk has the directory, in two blocks that say the same. Each entry
//! has the name of a volume and its extents in chunks. The first one begins where the region begins; the others
//! are for annexes and for regions of more shards, of which only the superblocks know what is where. An extent
//! that follows another one directly is one with it.
//!
//! Format 1 has a field of fixed length for the name and for each of four extents. Format 2 has what it needs, and
//! is written if a volume has more extents than that; so a flash on which no volume is scattered stays readable
//! for programs that know of format 1 alone.
//!
//! A change goes through these steps, each of which waits until the one before is durable:
//!
//! 1. Erase the first blocks of each new region. They may hold the superblock of an earlier flash, which a
//!    start would take for that of the volume.
//! 2. Write one copy of the directory: the older or damaged one, if they differ.
//! 3. Write the other copy.
//!
//! A volume gets more chunks before its region uses them, and gives them back after its superblocks durably say
//! that it does not. A power cut may leave it chunks that the region does not use; it has them first when it grows,
//! or gives them back at its next start.
//!
//! A power cut leaves the directory as it was before or after the change, because each copy has a
//! generation and a checksum, and one of the two is always intact.

mod error;
mod room;

use std::io;
use std::ops::Range;

pub use self::error::DirectoryError;
use self::room::{Extent, Volume, fit, free};

use crate::format::superblock::{Superblock, Unreadable};
use crate::format::{BLOCK_BYTES, Reader, Writer};
use crate::storage::Storage;

/// First bytes of a directory.
const MAGIC: &[u8; 16] = b"thermocline-vols";
/// Version of the format with a field for each of a few extents, and of the one without such a bound.
const FORMAT: u32 = 1;
const FORMAT_OF_SCATTERED: u32 = 2;
/// Size of a chunk of a flash that volumes share: each volume has whole ones.
pub const CHUNK_BYTES: u64 = 1 << 20;
/// Extents that an entry of format 1 has room for.
const EXTENTS_MAX: usize = 4;
/// Bytes of a directory before its entries, and of the checksum after them.
const HEADER_BYTES: usize = 32;
const CHECKSUM_BYTES: usize = 4;
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

    /// Return the free ranges of the flash for a volume, in bytes. `used` are the ranges that its region uses; what
    /// else the volume has is free for it, and comes first.
    ///
    /// # Errors
    /// If no volume has the name, or a device fails.
    pub fn free_for(
        &self,
        storage: &mut dyn Storage,
        name: &str,
        used: &[Range<u64>],
    ) -> Result<Vec<Range<u64>>, DirectoryError> {
        let index = self.index(name)?;
        let others = self.volumes.iter().enumerate().filter(|(other, _)| *other != index);
        let others = others.flat_map(|(_, volume)| volume.extents.iter().copied());
        let own = used.iter().map(Extent::of);
        let mut free = free(others.chain(own).collect(), storage.size_bytes()?);
        let own = &self.volumes[index].extents;
        // Room that the volume has already, and does not use, comes first.
        free.sort_by_key(|piece| !own.iter().any(|extent| extent.overlaps(*piece)));
        Ok(free.into_iter().map(Extent::bytes).collect())
    }

    /// Give a volume ranges of the flash in bytes, durably. They are free.
    ///
    /// # Errors
    /// If no volume has the name, it would be in too many places, or a device fails. The volume keeps what it has
    /// then.
    pub fn take(
        &mut self,
        storage: &mut dyn Storage,
        name: &str,
        ranges: &[Range<u64>],
    ) -> Result<(), DirectoryError> {
        let index = self.index(name)?;
        self.amend(storage, index, |volume| {
            for range in ranges {
                volume.take(Extent::of(range));
            }
        })
    }

    /// Take from a volume what its region does not use, durably: `used` are the ranges that it uses, in bytes of the
    /// flash. Both superblocks of the region durably name no other range: the next start would use it.
    ///
    /// # Errors
    /// If no volume has the name, it would be in too many places, or a device fails. The volume keeps what it has
    /// then.
    pub(crate) fn give_back(
        &mut self,
        storage: &mut dyn Storage,
        name: &str,
        used: &[Range<u64>],
    ) -> Result<(), DirectoryError> {
        let index = self.index(name)?;
        let used: Vec<Extent> = used.iter().map(Extent::of).collect();
        self.amend(storage, index, |volume| volume.keep(&used))
    }

    /// Return `true` if a volume has chunks that its region does not use: `used` are the ranges that it uses.
    ///
    /// # Errors
    /// If no volume has the name.
    pub(crate) fn has_unused(
        &self,
        name: &str,
        used: &[Range<u64>],
    ) -> Result<bool, DirectoryError> {
        let volume = &self.volumes[self.index(name)?];
        let mut kept = volume.clone();
        kept.keep(&used.iter().map(Extent::of).collect::<Vec<_>>());
        Ok(kept != *volume)
    }

    /// Change the chunks of a volume durably.
    fn amend(
        &mut self,
        storage: &mut dyn Storage,
        index: usize,
        amend: impl FnOnce(&mut Volume),
    ) -> Result<(), DirectoryError> {
        let mut changed = self.clone();
        amend(&mut changed.volumes[index]);
        if changed.entries_bytes() > BLOCK_BYTES - HEADER_BYTES - CHECKSUM_BYTES {
            return Err(DirectoryError::Scattered { name: changed.volumes[index].name.clone() });
        }
        if changed != *self {
            changed.commit(storage, &[])?;
            *self = changed;
        }
        Ok(())
    }

    /// Remove a volume. The content of its region is lost.
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

    /// Return the number of bytes that a volume has.
    ///
    /// # Errors
    /// [`DirectoryError::Unknown`] if no volume has that name.
    pub fn volume_bytes(&self, name: &str) -> Result<u64, DirectoryError> {
        let chunks = self.volumes[self.index(name)?].extents.iter();
        Ok(chunks.map(|extent| u64::from(extent.chunks)).sum::<u64>() * CHUNK_BYTES)
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
        // A superblock of a later version is not torn.
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
        let extent = fit(&free, name, bytes)?;
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

    /// Return `true` if a volume has more extents than format 1 has fields for.
    fn is_scattered(&self) -> bool {
        self.volumes.iter().any(|volume| volume.extents.len() > EXTENTS_MAX)
    }

    /// Return the number of bytes of all entries.
    fn entries_bytes(&self) -> usize {
        if !self.is_scattered() {
            return self.volumes.len() * (NAME_FIELD_BYTES + 4 + 8 * EXTENTS_MAX);
        }
        let bytes = |volume: &Volume| 1 + volume.name.len() + 4 + 8 * volume.extents.len();
        self.volumes.iter().map(bytes).sum()
    }

    fn encode(&self) -> Vec<u8> {
        let mut block = vec![0; BLOCK_BYTES];
        let mut writer = Writer::new(&mut block);
        let is_scattered = self.is_scattered();
        writer.bytes(MAGIC);
        writer.u32(if is_scattered { FORMAT_OF_SCATTERED } else { FORMAT });
        writer.u32(u32::try_from(self.volumes.len()).expect("volumes are few"));
        writer.u64(self.generation);
        for Volume { name, extents } in &self.volumes {
            let mut field = [0; NAME_FIELD_BYTES];
            field[0] = u8::try_from(name.len()).expect("names are short");
            field[1..=name.len()].copy_from_slice(name.as_bytes());
            let (name_bytes, fields) = if is_scattered {
                (1 + name.len(), extents.len())
            } else {
                (NAME_FIELD_BYTES, EXTENTS_MAX)
            };
            writer.bytes(&field[..name_bytes]);
            writer.u32(u32::try_from(extents.len()).expect("a volume has few extents"));
            let unused = Extent { start: 0, chunks: 0 };
            let padded = extents.iter().copied().chain(std::iter::repeat(unused));
            for extent in padded.take(fields) {
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
        if ![FORMAT, FORMAT_OF_SCATTERED].contains(&found) {
            return Err(DirectoryError::Format { found });
        }
        let count = reader.u32() as usize;
        let generation = reader.u64();
        if count > VOLUMES_MAX || generation >= GENERATION_LIMIT {
            return Ok(None);
        }
        let read = |_| Volume::decode(&mut reader, found == FORMAT_OF_SCATTERED);
        let volumes: Option<Vec<Volume>> = (0..count).map(read).collect();
        Ok(volumes.map(|volumes| Self { generation, volumes }))
    }
}

/// Return where the two copies lie, in bytes.
fn copy_places() -> [u64; 2] {
    [0, BLOCK_BYTES as u64]
}

const _: () = assert!(
    HEADER_BYTES + VOLUMES_MAX * (NAME_FIELD_BYTES + 4 + 8 * EXTENTS_MAX) + CHECKSUM_BYTES
        <= BLOCK_BYTES,
    "a block has room for all entries of format 1"
);

#[cfg(test)]
mod tests;
