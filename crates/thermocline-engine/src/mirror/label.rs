//! The label of a member: which pair it belongs to, and how old its content is.

use std::io;

use uuid::Uuid;

use crate::format::{BLOCK_BYTES, Reader, Writer};
use crate::operation::Member;
use crate::storage::Storage;

/// First bytes of a label.
const MAGIC: &[u8; 16] = b"thermocline-pair";
/// Version of the format.
const FORMAT: u32 = 1;
/// Bytes before the content of a member: the label is there twice, and the rest is not used.
pub const MEMBER_HEAD_BYTES: u64 = 1 << 20;
/// Generations above are nonsense, whatever the checksum says.
const GENERATION_LIMIT: u64 = 1 << 56;

/// Identity and age of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The identity of the pair.
    pub pair: Uuid,
    /// Which of the two it is.
    pub member: Member,
    /// A member of a lower generation lacks what was acknowledged; 0 if the set-up of the pair did not end, or the
    /// device is being copied.
    pub generation: u64,
    /// `true` if it went on without the other one in this generation.
    pub is_alone: bool,
    /// Bytes of the content, which both members have room for.
    pub content_bytes: u64,
}

/// Reason why there is no label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoLabel {
    /// Both copies are zeroes.
    Blank,
    /// Something else is there.
    Foreign,
    /// Both copies are damaged.
    Damaged,
    /// A later version wrote it.
    Format(u32),
}

impl Label {
    /// Return `true` if a block begins as a label does.
    pub(crate) fn begins(block: &[u8]) -> bool {
        block.starts_with(MAGIC)
    }

    fn encode(&self) -> Vec<u8> {
        let mut block = vec![0; BLOCK_BYTES];
        let mut writer = Writer::new(&mut block);
        writer.bytes(MAGIC);
        writer.u32(FORMAT);
        writer.u32(self.member as u32);
        writer.bytes(self.pair.as_bytes());
        writer.u64(self.generation);
        writer.u64(self.content_bytes);
        writer.u32(self.is_alone.into());
        writer.seal();
        block
    }

    fn decode(block: &[u8]) -> Result<Self, NoLabel> {
        if block.iter().all(|&byte| byte == 0) {
            return Err(NoLabel::Blank);
        }
        if !Self::begins(block) {
            return Err(NoLabel::Foreign);
        }
        let mut reader = Reader::new(block).ok_or(NoLabel::Damaged)?;
        let _magic: [u8; 16] = reader.array();
        let format = reader.u32();
        if format != FORMAT {
            return Err(NoLabel::Format(format));
        }
        let member = match reader.u32() {
            0 => Member::First,
            1 => Member::Second,
            _ => return Err(NoLabel::Damaged),
        };
        let label = Self {
            pair: Uuid::from_bytes(reader.array()),
            member,
            generation: reader.u64(),
            content_bytes: reader.u64(),
            is_alone: reader.u32() != 0,
        };
        (label.generation < GENERATION_LIMIT).then_some(label).ok_or(NoLabel::Damaged)
    }

    /// Read both copies; of two that are intact, the later one counts.
    pub(super) fn read(storage: &mut dyn Storage) -> io::Result<Result<Self, NoLabel>> {
        let mut copies = vec![];
        let mut failure = None;
        for place in places() {
            let mut block = vec![0; BLOCK_BYTES];
            match storage.read_at(place, &mut block) {
                Ok(()) => copies.push(Self::decode(&block)),
                Err(error) => failure = Some(error),
            }
        }
        let intact = copies.iter().filter_map(|copy| copy.ok());
        // A crash between the two copies leaves an older one behind.
        if let Some(newest) = intact.max_by_key(|label| label.generation) {
            return Ok(Ok(newest));
        }
        if let Some(error) = failure {
            return Err(error);
        }
        let faults: Vec<NoLabel> = copies.into_iter().filter_map(Result::err).collect();
        let has = |fault| faults.contains(&fault);
        let format = faults.iter().find(|fault| matches!(fault, NoLabel::Format(_)));
        // A first copy that was cut off is torn, and the second one is not there yet.
        let is_unfinished = has(NoLabel::Damaged) && has(NoLabel::Blank);
        Ok(Err(match format {
            Some(format) => *format,
            None if has(NoLabel::Damaged) && !is_unfinished => NoLabel::Damaged,
            None if has(NoLabel::Foreign) => NoLabel::Foreign,
            None => NoLabel::Blank,
        }))
    }

    /// Writes both copies durably, the older or damaged one first.
    ///
    /// # Errors
    /// If the device fails.
    pub fn write(&self, storage: &mut dyn Storage) -> io::Result<()> {
        let [first, second] = places();
        let age = |storage: &mut dyn Storage, place| {
            let mut block = vec![0; BLOCK_BYTES];
            let read = storage.read_at(place, &mut block).is_ok();
            let label = Self::decode(&block).ok().filter(|_| read);
            label.map(|label| label.generation)
        };
        // The worse copy first: a crash in between leaves the better one.
        let is_second_worse = age(storage, second) < age(storage, first);
        let order = if is_second_worse { [second, first] } else { [first, second] };
        let block = self.encode();
        for place in order {
            storage.write_at(place, &block)?;
            storage.sync()?;
        }
        Ok(())
    }

    /// Makes the device count as blank, durably, whatever it holds: it is no member of any pair from then on.
    ///
    /// # Errors
    /// If the device fails.
    pub fn erase(storage: &mut dyn Storage) -> io::Result<()> {
        // Of no pair: beside a member of the same, it would look like a set-up that was cut off.
        let blank = Self {
            pair: Uuid::nil(),
            member: Member::First,
            generation: 0,
            is_alone: false,
            content_bytes: 0,
        };
        let block = blank.encode();
        for place in places() {
            storage.write_at(place, &block)?;
        }
        storage.sync()
    }
}

/// Return where the two copies lie, in bytes.
fn places() -> [u64; 2] {
    [0, BLOCK_BYTES as u64]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::FoundMember;
    use crate::storage::memory::Memory;

    /// A device that loses power after a number of bytes.
    struct Cut {
        memory: Memory,
        left_bytes: usize,
    }

    impl Storage for Cut {
        fn size_bytes(&mut self) -> io::Result<u64> {
            self.memory.size_bytes()
        }

        fn read_at(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> io::Result<()> {
            self.memory.read_at(offset_bytes, bytes)
        }

        fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
            let written = bytes.len().min(self.left_bytes);
            self.left_bytes -= written;
            self.memory.write_at(offset_bytes, &bytes[..written])?;
            if written < bytes.len() { Err(io::ErrorKind::Other.into()) } else { Ok(()) }
        }

        fn sync(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn label(generation: u64) -> Label {
        Label {
            pair: Uuid::from_u128(7),
            member: Member::Second,
            generation,
            is_alone: generation.is_multiple_of(2),
            content_bytes: 123 << 20,
        }
    }

    /// Writes two labels, each cut off after a number of bytes, and returns how often one was found.
    fn cut_twice(before: Option<Label>, cuts: [usize; 2]) -> usize {
        let mut device = Cut { memory: Memory(vec![0; 4 * BLOCK_BYTES]), left_bytes: usize::MAX };
        if let Some(before) = before {
            before.write(&mut device).unwrap();
        }
        let mut newest = before.ok_or(NoLabel::Blank);
        let mut found_new = 0;
        for (generation, cut) in [2, 3].into_iter().zip(cuts) {
            device.left_bytes = cut;
            let is_whole = label(generation).write(&mut device).is_ok();
            let found = Label::read(&mut device).unwrap();
            let is_new = found == Ok(label(generation));
            assert!(is_new || (!is_whole && found == newest), "{found:?} after {cuts:?} bytes");
            found_new += usize::from(is_new);
            newest = found;
        }
        found_new
    }

    #[test]
    fn a_label_that_is_cut_off_is_the_former_or_the_new_one() {
        let mut found = 0;
        for first in (0..=2 * BLOCK_BYTES).step_by(512) {
            for second in (0..=2 * BLOCK_BYTES).step_by(512) {
                found += cut_twice(None, [first, second]);
                found += cut_twice(Some(label(1)), [first, second]);
            }
        }
        assert!(found > 17 * 17, "each label has a copy after half of the bytes: {found}");
    }

    #[test]
    fn one_damaged_copy_changes_nothing_and_two_are_an_error() {
        let mut device = Memory(vec![0; 4 * BLOCK_BYTES]);
        label(5).write(&mut device).unwrap();
        for place in places() {
            device.part(place, BLOCK_BYTES)[40] ^= 1;
            let found = Label::read(&mut device).unwrap();
            device.part(place, BLOCK_BYTES)[40] ^= 1;
            assert_eq!(found, Ok(label(5)));
        }
        for place in places() {
            device.part(place, BLOCK_BYTES)[40] ^= 1;
        }
        assert_eq!(Label::read(&mut device).unwrap(), Err(NoLabel::Damaged));
        device.0.fill(b'x');
        assert_eq!(Label::read(&mut device).unwrap(), Err(NoLabel::Foreign));
        Label::erase(&mut device).unwrap();
        let found = Label::read(&mut device).unwrap().unwrap();
        assert!(found.generation == 0 && found.pair.is_nil(), "{found:?}");
        assert!(FoundMember::Labelled(found).is_unused());
    }
}
