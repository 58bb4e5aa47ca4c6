//! A folder of files that lose unsynced writes when the power is cut, and that fail on command.
//!
//! A write is visible at once and durable after the next good sync. A power cut keeps, drops or tears
//! each write since then, and keeps some of the changes of names in their order, as a journal does.

use std::collections::BTreeMap;
use std::ops::Range;

use thermocline_core::random::SplitMix64;

/// Writes are torn at this granularity, in bytes.
pub(crate) const SECTOR: usize = 512;

/// The kind of an operation on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
    Sync,
}

/// Answer of a file to an operation that a fault hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// An I/O error. A sync that fails so loses part of the writes that it should have covered.
    Io,
    NoSpace,
    /// No answer before the fault is cleared.
    Hang,
}

/// A file's answer to some of its operations.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) answer: Answer,
    /// The accesses that it hits.
    pub(crate) on: Vec<Access>,
    /// The bytes that it hits. A sync has none and is hit in any case.
    pub(crate) range: Range<u64>,
    /// The number of operations that it still hits.
    pub(crate) left: u32,
}

/// One file.
#[derive(Debug, Default)]
pub(crate) struct VolatileFile {
    current: Vec<u8>,
    durable: Vec<u8>,
    /// Changes since the last good sync, in order.
    pending: Vec<Change>,
    pub(crate) fault: Option<Fault>,
    /// Set if a sync reports success and makes nothing durable.
    pub(crate) lies: bool,
}

#[derive(Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Resize(usize),
}

impl VolatileFile {
    /// Create a file of durable zeroes.
    pub(crate) fn zeroed(bytes: usize) -> Self {
        Self { current: vec![0; bytes], durable: vec![0; bytes], ..Self::default() }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.current
    }

    /// Return the bytes of a range, as far as the file reaches.
    pub(crate) fn read(&self, offset: usize, length: usize) -> &[u8] {
        let end = offset.saturating_add(length).min(self.current.len());
        &self.current[offset.min(end)..end]
    }

    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) {
        put(&mut self.current, offset, bytes);
        self.pending.push(Change::Write { offset, bytes: bytes.to_vec() });
    }

    pub(crate) fn resize(&mut self, bytes: usize) {
        self.current.resize(bytes, 0);
        self.pending.push(Change::Resize(bytes));
    }

    /// Makes durable whatever was written.
    pub(crate) fn sync(&mut self) {
        if self.lies {
            return;
        }
        for change in std::mem::take(&mut self.pending) {
            apply(&mut self.durable, &change);
        }
    }

    /// Cuts the power: some of the changes since the last good sync are lost or torn.
    pub(crate) fn cut(&mut self, random: &mut SplitMix64) {
        let kept_percent = [0, 50, 90, 100][random.below(4) as usize];
        for change in std::mem::take(&mut self.pending) {
            match &change {
                _ if random.below(100) < kept_percent => apply(&mut self.durable, &change),
                Change::Write { offset, bytes } if random.below(2) == 0 => {
                    for (index, sector) in bytes.chunks(SECTOR).enumerate() {
                        if random.below(2) == 0 {
                            put(&mut self.durable, offset + index * SECTOR, sector);
                        }
                    }
                }
                Change::Write { .. } | Change::Resize(_) => {}
            }
        }
        self.current.clone_from(&self.durable);
    }

    /// Inverts bits, on the medium and for readers alike.
    pub(crate) fn rot(&mut self, offset: usize, mask: u8) {
        for image in [&mut self.current, &mut self.durable] {
            if let Some(byte) = image.get_mut(offset) {
                *byte ^= mask;
            }
        }
    }

    /// Return the answer of the fault, if it hits this access.
    fn hit(&mut self, access: Access, range: &Range<u64>) -> Option<Answer> {
        let fault = self.fault.as_mut()?;
        let overlaps = range.start < fault.range.end && fault.range.start < range.end;
        let hits =
            fault.left > 0 && fault.on.contains(&access) && (access == Access::Sync || overlaps);
        if !hits {
            return None;
        }
        fault.left -= 1;
        Some(fault.answer)
    }
}

fn apply(image: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write { offset, bytes } => put(image, *offset, bytes),
        Change::Resize(bytes) => image.resize(*bytes, 0),
    }
}

fn put(image: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if image.len() < end {
        image.resize(end, 0);
    }
    image[offset..end].copy_from_slice(bytes);
}

/// The number of a file, as the kernel knows it.
pub(crate) type Number = u64;

/// The number of the first file; the folder itself has number 1.
const FIRST_NUMBER: Number = 2;

/// A folder and its files.
#[derive(Debug)]
pub(crate) struct Disk {
    files: BTreeMap<Number, VolatileFile>,
    names: BTreeMap<String, Number>,
    durable_names: BTreeMap<String, Number>,
    /// The names after each change since the folder was last synced.
    changed_names: Vec<BTreeMap<String, Number>>,
    next_number: Number,
    /// The number of power cuts. Files opened before the last one are dead.
    pub(crate) generation: u64,
    pub(crate) is_off: bool,
    /// Set if no file can be made.
    pub(crate) is_full: bool,
    random: SplitMix64,
}

impl Disk {
    /// Create an empty folder.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            files: BTreeMap::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            changed_names: vec![],
            next_number: FIRST_NUMBER,
            generation: 0,
            is_off: false,
            is_full: false,
            random: SplitMix64::new(seed),
        }
    }

    /// Adds a durable file.
    pub(crate) fn add(&mut self, name: &str, file: VolatileFile) {
        let number = self.create(name, file);
        self.durable_names.insert(name.to_owned(), number);
        self.sync_names();
    }

    /// Makes a file whose name is durable once the folder is synced.
    pub(crate) fn create(&mut self, name: &str, file: VolatileFile) -> Number {
        let number = self.next_number;
        self.next_number += 1;
        self.files.insert(number, file);
        self.names.insert(name.to_owned(), number);
        self.changed_names.push(self.names.clone());
        number
    }

    /// Removes a name; returns `true` if it was there.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let removed = self.names.remove(name).is_some();
        if removed {
            self.changed_names.push(self.names.clone());
        }
        removed
    }

    /// Renames a file over another; returns `true` if it was there.
    pub(crate) fn rename(&mut self, from: &str, to: &str) -> bool {
        let Some(number) = self.names.remove(from) else { return false };
        self.names.insert(to.to_owned(), number);
        self.changed_names.push(self.names.clone());
        true
    }

    /// Makes the names durable.
    pub(crate) fn sync_names(&mut self) {
        self.durable_names.clone_from(&self.names);
        self.changed_names.clear();
    }

    pub(crate) fn names(&self) -> &BTreeMap<String, Number> {
        &self.names
    }

    pub(crate) fn number(&self, name: &str) -> Option<Number> {
        self.names.get(name).copied()
    }

    pub(crate) fn file(&self, number: Number) -> Option<&VolatileFile> {
        self.files.get(&number)
    }

    pub(crate) fn file_mut(&mut self, number: Number) -> Option<&mut VolatileFile> {
        self.files.get_mut(&number)
    }

    pub(crate) fn named(&self, name: &str) -> Option<&VolatileFile> {
        self.files.get(self.names.get(name)?)
    }

    pub(crate) fn named_mut(&mut self, name: &str) -> Option<&mut VolatileFile> {
        self.files.get_mut(self.names.get(name)?)
    }

    /// Says how the file answers an access; nothing if it does what was asked. A failed sync has lost
    /// its writes by then.
    pub(crate) fn hit(
        &mut self,
        number: Number,
        access: Access,
        range: &Range<u64>,
    ) -> Option<Answer> {
        let file = self.files.get_mut(&number)?;
        let answer = file.hit(access, range)?;
        if access == Access::Sync && answer == Answer::Io {
            file.cut(&mut self.random);
        }
        Some(answer)
    }

    /// Cuts the power and turns it on again.
    pub(crate) fn cut(&mut self) {
        for file in self.files.values_mut() {
            file.cut(&mut self.random);
        }
        let changes = u32::try_from(self.changed_names.len()).unwrap_or(u32::MAX - 1);
        let kept = self.random.below(changes + 1) as usize;
        if let Some(last) = kept.checked_sub(1) {
            self.durable_names.clone_from(&self.changed_names[last]);
        }
        self.names.clone_from(&self.durable_names);
        self.changed_names.clear();
        let names = &self.names;
        self.files.retain(|number, _| names.values().any(|named| named == number));
        self.is_off = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Return all images that power cuts leave of a file.
    fn cuts(prepare: impl Fn(&mut VolatileFile)) -> Vec<Vec<u8>> {
        let cut = |seed| {
            let mut file = VolatileFile::zeroed(2 * SECTOR);
            prepare(&mut file);
            file.cut(&mut SplitMix64::new(seed));
            file.bytes().to_vec()
        };
        (0..200).map(cut).collect()
    }

    #[test]
    fn a_synced_write_survives_every_power_cut() {
        for image in cuts(|file| {
            file.write(0, &[7; SECTOR]);
            file.sync();
            file.write(SECTOR, &[8; SECTOR]);
        }) {
            assert_eq!(image[..SECTOR], [7; SECTOR]);
        }
    }

    #[test]
    fn an_unsynced_write_is_kept_dropped_or_torn() {
        let images = cuts(|file| file.write(0, &[7; 2 * SECTOR]));
        let has = |first: u8, second: u8| {
            images.iter().any(|image| image[0] == first && image[SECTOR] == second)
        };
        assert!(has(7, 7) && has(0, 0) && has(7, 0) && has(0, 7));
    }

    #[test]
    fn a_lying_sync_loses_writes() {
        let images = cuts(|file| {
            file.lies = true;
            file.write(0, &[7; SECTOR]);
            file.sync();
        });
        assert!(images.iter().any(|image| image[0] == 0));
    }

    #[test]
    fn a_failed_sync_loses_writes_at_once() {
        let lost = |seed| {
            let mut disk = Disk::new(seed);
            disk.add("a", VolatileFile::zeroed(SECTOR));
            let number = disk.number("a").unwrap();
            let file = disk.file_mut(number).unwrap();
            file.write(0, &[7; SECTOR]);
            let on = vec![Access::Sync];
            file.fault = Some(Fault { answer: Answer::Io, on, range: 0..1, left: 1 });
            assert_eq!(disk.hit(number, Access::Write, &(0..1)), None);
            assert_eq!(disk.hit(number, Access::Sync, &(0..0)), Some(Answer::Io));
            assert_eq!(disk.hit(number, Access::Sync, &(0..0)), None, "it hits once");
            disk.file(number).unwrap().bytes()[0] == 0
        };
        assert!((0..50).any(lost));
    }

    #[test]
    fn names_survive_a_cut_in_their_order() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..100 {
            let mut disk = Disk::new(seed);
            disk.add("note", VolatileFile::zeroed(1));
            disk.create("note.new", VolatileFile::zeroed(2));
            assert!(disk.rename("note.new", "note"));
            disk.cut();
            assert!(disk.number("note").is_some(), "a rename is atomic");
            seen.insert((disk.names().len(), disk.named("note").unwrap().bytes().len()));
        }
        assert_eq!(seen, [(1, 1), (1, 2), (2, 1)].into());
    }
}
