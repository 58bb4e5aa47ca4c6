//! The directory against a model, and its changes under power cuts.

use std::collections::BTreeMap;

use proptest::prelude::*;
use thermocline_core::random::SplitMix64;

use super::*;
use crate::Layout;
use crate::recovery::FlashError;
use crate::sharding::FlashSet;
use crate::storage::Section;

const MIB: u64 = 1 << 20;

/// A device in memory whose power can be cut after a number of blocks written.
#[derive(Clone)]
struct Device {
    /// Blocks that are not all zeroes, by their number; a copy for every cut must take little time.
    durable: BTreeMap<u64, Vec<u8>>,
    size_bytes: u64,
    /// Blocks written since the last sync, in order.
    written: Vec<(u64, Vec<u8>)>,
    /// Writes and syncs before the power is cut; `None` if it stays.
    steps_left: Option<u64>,
}

impl Device {
    fn new(size_bytes: u64) -> Self {
        Self { durable: BTreeMap::new(), size_bytes, written: vec![], steps_left: None }
    }

    /// Return the block at a place.
    fn block(&mut self, place: u64) -> &mut Vec<u8> {
        assert!(place.is_multiple_of(BLOCK_BYTES as u64), "{place}");
        self.durable.entry(place / BLOCK_BYTES as u64).or_insert_with(|| vec![0; BLOCK_BYTES])
    }

    fn step(&mut self) -> io::Result<()> {
        let Some(left) = &mut self.steps_left else { return Ok(()) };
        *left = left.checked_sub(1).ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(())
    }

    /// Power returns: of what was not synced, some blocks are there, and some are torn.
    fn restart(mut self, random: &mut SplitMix64) -> Self {
        for (place, bytes) in std::mem::take(&mut self.written) {
            let kept = match random.bits() % 3 {
                0 => 0,
                1 => bytes.len() / 2,
                _ => bytes.len(),
            };
            self.block(place)[..kept].copy_from_slice(&bytes[..kept]);
        }
        self.steps_left = None;
        self
    }
}

impl Storage for Device {
    fn size_bytes(&mut self) -> io::Result<u64> {
        Ok(self.size_bytes)
    }

    fn read_at(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> io::Result<()> {
        if offset_bytes + bytes.len() as u64 > self.size_bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for (place, found) in
            (offset_bytes..).step_by(BLOCK_BYTES).zip(bytes.chunks_mut(BLOCK_BYTES))
        {
            let written = self.written.iter().rfind(|(written, _)| *written == place);
            let block = written.map(|(_, block)| block);
            match block.or_else(|| self.durable.get(&(place / BLOCK_BYTES as u64))) {
                Some(block) => found.copy_from_slice(&block[..found.len()]),
                None => found.fill(0),
            }
        }
        Ok(())
    }

    fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        for (place, part) in (offset_bytes..).step_by(BLOCK_BYTES).zip(bytes.chunks(BLOCK_BYTES)) {
            self.step()?;
            let mut block = vec![0; BLOCK_BYTES];
            self.read_at(place, &mut block)?;
            block[..part.len()].copy_from_slice(part);
            self.written.push((place, block));
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.step()?;
        for (place, bytes) in std::mem::take(&mut self.written) {
            self.block(place)[..bytes.len()].copy_from_slice(&bytes);
        }
        Ok(())
    }
}

/// Cuts the power after every step of a change, and returns what each restart finds.
fn cut_everywhere(
    before: &Device,
    change: impl Fn(&mut Device) -> Result<(), DirectoryError>,
) -> Vec<Device> {
    let mut found = vec![];
    for steps in 0.. {
        let mut device = before.clone();
        device.steps_left = Some(steps);
        let is_done = change(&mut device).is_ok();
        for seed in 0..4 {
            found.push(device.clone().restart(&mut SplitMix64::new(seed)));
        }
        if is_done {
            return found;
        }
    }
    unreachable!("a change has an end")
}

fn names(device: &mut Device) -> Option<Vec<String>> {
    let found = Directory::read(device).unwrap()?;
    Some(found.volumes().map(|(name, _)| name.to_owned()).collect())
}

#[test]
fn a_power_cut_leaves_the_directory_before_or_after_a_change() {
    let blank = Device::new(16 * MIB);
    let volumes = [("a", 3 * MIB), ("b", 5 * MIB)];
    let set_up = |device: &mut Device| Directory::set_up(device, &volumes).map(drop);
    let mut seen = BTreeMap::new();
    for mut device in cut_everywhere(&blank, set_up) {
        *seen.entry(names(&mut device)).or_insert(0) += 1;
    }
    let both = Some(vec!["a".to_owned(), "b".to_owned()]);
    assert!(seen.len() == 2 && seen.contains_key(&None) && seen.contains_key(&both), "{seen:?}");

    let mut two = blank;
    set_up(&mut two).unwrap();
    let add = |device: &mut Device| {
        let mut directory = Directory::read(device).unwrap().unwrap();
        directory.add(device, "c", 2 * MIB)
    };
    for mut device in cut_everywhere(&two, add) {
        let found = names(&mut device).unwrap();
        assert!(found == ["a", "b"] || found == ["a", "b", "c"], "{found:?}");
    }
    let remove = |device: &mut Device| {
        let mut directory = Directory::read(device).unwrap().unwrap();
        directory.remove(device, "a")
    };
    for mut device in cut_everywhere(&two, remove) {
        let found = names(&mut device).unwrap();
        assert!(found == ["a", "b"] || found == ["b"], "{found:?}");
    }
}

/// The copies differ after a cut between them, or if one was damaged. The next change must not begin with
/// the only one that counts.
#[test]
fn a_change_after_a_cut_begins_with_the_copy_that_does_not_count() {
    let mut two = Device::new(16 * MIB);
    Directory::set_up(&mut two, &[("a", MIB)]).unwrap();
    let add = |name: &'static str| {
        move |device: &mut Device| {
            let mut directory = Directory::read(device).unwrap().unwrap();
            if directory.region(name).is_err() {
                directory.add(device, name, MIB)?;
            }
            Ok(())
        }
    };
    let mut starts = cut_everywhere(&two, add("b"));
    for place in [0, BLOCK_BYTES as u64] {
        let mut damaged = two.clone();
        damaged.block(place)[100] ^= 1;
        starts.push(damaged);
    }
    for mut start in starts {
        let before = names(&mut start).unwrap();
        let after = [&before[..], &["c".to_owned()]].concat();
        for mut device in cut_everywhere(&start, add("c")) {
            let found = names(&mut device).unwrap();
            assert!(found == before || found == after, "{before:?}, then {found:?}");
        }
    }
}

/// A region may lie where another flash had a superblock. No start may take that for the volume's.
#[test]
fn a_new_region_is_blank_at_its_beginning() {
    let mut device = Device::new(16 * MIB);
    Directory::set_up(&mut device, &[("old", 4 * MIB)]).unwrap();
    let region = Directory::read(&mut device).unwrap().unwrap().region("old").unwrap();
    let layout = Layout::new(16, 4096);
    let cache = uuid::Uuid::from_u128(7);
    let map = crate::Share::WHOLE.map;
    let mut part = Section::new(&mut device, region.clone());
    FlashSet::initialise(&mut part, cache, layout, map, 64 * 4096).unwrap();
    assert!(FlashSet::read(&mut Section::new(&mut device, region.clone())).is_ok());

    let replace = |device: &mut Device| {
        let mut directory = Directory::read(device).unwrap().unwrap();
        if directory.region("old").is_ok() {
            directory.remove(device, "old")?;
        }
        directory.add(device, "new", 4 * MIB)
    };
    for mut device in cut_everywhere(&device, replace) {
        let directory = Directory::read(&mut device).unwrap().unwrap();
        if let Ok(range) = directory.region("new") {
            assert_eq!(range, region);
            let found = FlashSet::read(&mut Section::new(&mut device, range));
            assert!(matches!(found, Err(FlashError::Empty | FlashError::Foreign)), "{found:?}");
        }
    }
}

#[test]
fn one_damaged_copy_is_no_loss_and_two_are_an_error() {
    let mut device = Device::new(8 * MIB);
    let directory = Directory::set_up(&mut device, &[("a", MIB)]).unwrap();
    for place in [0, BLOCK_BYTES as u64] {
        let mut damaged = device.clone();
        damaged.block(place)[100] ^= 1;
        assert_eq!(Directory::read(&mut damaged).unwrap(), Some(directory.clone()));
        damaged.block(BLOCK_BYTES as u64 - place)[100] ^= 1;
        assert!(matches!(Directory::read(&mut damaged), Err(DirectoryError::Damaged)));
    }
}

#[test]
fn a_flash_of_volumes_is_not_taken_for_that_of_a_single_store() {
    let mut device = Device::new(8 * MIB);
    Directory::set_up(&mut device, &[("a", MIB)]).unwrap();
    assert!(matches!(FlashSet::read(&mut device), Err(FlashError::HasVolumes)));
}

#[test]
fn a_region_is_new_until_something_is_set_up_there() {
    let mut device = Device::new(8 * MIB);
    for place in (0..8 * MIB).step_by(BLOCK_BYTES) {
        device.block(place).fill(7);
    }
    let mut directory = Directory::set_up(&mut device, &[("a", 2 * MIB)]).unwrap();
    assert!(directory.is_new(&mut device, "a").unwrap());
    let region = directory.region("a").unwrap();
    // The first superblock of a set-up that was cut off.
    device.write_at(region.start, &[1; BLOCK_BYTES / 2]).unwrap();
    assert!(directory.is_new(&mut device, "a").unwrap());
    // The second copy of a superblock, after the first one was damaged.
    device.write_at(region.start + BLOCK_BYTES as u64, &[1; BLOCK_BYTES]).unwrap();
    assert!(!directory.is_new(&mut device, "a").unwrap());
    directory.remove(&mut device, "a").unwrap();
    assert!(directory.is_new(&mut device, "a").is_err());
    directory.add(&mut device, "b", 2 * MIB).unwrap();
    assert_eq!(directory.region("b").unwrap(), region);
    assert!(directory.is_new(&mut device, "b").unwrap());
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut device = Device::new(8 * MIB);
    let mut directory = Directory::set_up(&mut device, &[("a", 3 * MIB)]).unwrap();
    let before = device.durable.clone();
    let long = "x".repeat(VOLUME_NAME_BYTES_MAX + 1);
    for name in ["", "a\n", &long] {
        let error = directory.add(&mut device, name, MIB).unwrap_err();
        assert!(matches!(error, DirectoryError::Name { .. }), "{error}");
    }
    let error = directory.add(&mut device, "a", MIB).unwrap_err();
    assert!(matches!(error, DirectoryError::Duplicate { .. }), "{error}");
    let error = directory.add(&mut device, "b", 5 * MIB).unwrap_err();
    assert!(error.to_string().contains("largest free piece has 4194304"), "{error}");
    let error = directory.remove(&mut device, "c").unwrap_err();
    assert!(error.to_string().contains("no volume `c`; its volumes are: a"), "{error}");
    assert!(device.durable == before && device.written.is_empty());
}

proptest! {
    #[test]
    fn regions_never_overlap_and_survive_a_restart(
        steps in prop::collection::vec((0_u8..6, 1_u64..6), 1..40),
    ) {
        let mut device = Device::new(16 * MIB);
        let mut directory = Directory::set_up(&mut device, &[]).unwrap();
        let mut model: BTreeMap<String, Range<u64>> = BTreeMap::new();
        for (number, size) in steps {
            let name = number.to_string();
            if model.remove(&name).is_some() {
                directory.remove(&mut device, &name).unwrap();
            } else if directory.add(&mut device, &name, size * MIB).is_ok() {
                let range = directory.region(&name).unwrap();
                prop_assert_eq!(range.end - range.start, size * MIB);
                prop_assert!(range.start >= MIB && range.end <= 16 * MIB);
                for other in model.values() {
                    prop_assert!(range.end <= other.start || other.end <= range.start);
                }
                model.insert(name, range);
            } else {
                let used: u64 = model.values().map(|range| range.end - range.start).sum();
                prop_assert!(used + size * MIB > 15 * MIB || !model.is_empty());
            }
            let found = Directory::read(&mut device).unwrap().unwrap();
            prop_assert_eq!(&found, &directory);
            let volumes: BTreeMap<String, Range<u64>> =
                found.volumes().map(|(name, range)| (name.to_owned(), range)).collect();
            prop_assert_eq!(&volumes, &model);
        }
    }

    #[test]
    fn any_block_is_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut block = vec![0; BLOCK_BYTES];
        block[..16].copy_from_slice(MAGIC);
        block[16..16 + bytes.len()].copy_from_slice(&bytes);
        let end = BLOCK_BYTES - 4;
        let checksum = crc32c::crc32c(&block[..end]);
        block[end..].copy_from_slice(&checksum.to_le_bytes());
        drop(Directory::decode(&block));
    }
}

/// Return the extents of a volume, in chunks.
fn extents(device: &mut Device, name: &str) -> Vec<(u32, u32)> {
    let directory = Directory::read(device).unwrap().unwrap();
    let volume = &directory.volumes[directory.index(name).unwrap()];
    volume.extents.iter().map(|extent| (extent.start, extent.chunks)).collect()
}

/// Return the chunks of ranges.
fn chunks(ranges: &[Range<u64>]) -> Vec<(u64, u64)> {
    ranges.iter().map(|range| (range.start / MIB, (range.end - range.start) / MIB)).collect()
}

#[test]
fn a_volume_gets_free_room_wherever_that_is() {
    let mut device = Device::new(20 * MIB);
    let volumes = [("gone", 3 * MIB), ("a", 4 * MIB), ("b", 2 * MIB)];
    let mut directory = Directory::set_up(&mut device, &volumes).unwrap();
    let region = directory.region("a").unwrap();
    let mut used = vec![region.clone()];
    let mut take = |directory: &mut Directory, device: &mut Device, range: Range<u64>| {
        directory.take(device, "a", std::slice::from_ref(&range)).unwrap();
        used.push(range);
        chunks(&directory.free_for(device, "a", &used).unwrap())
    };
    // Chunks: the directory, three of `gone`, four of `a`, two of `b`, ten that are free.
    assert_eq!(take(&mut directory, &mut device, 10 * MIB..12 * MIB), [(12, 8)]);
    assert_eq!(extents(&mut device, "a"), [(4, 4), (10, 2)]);
    assert_eq!(take(&mut directory, &mut device, 12 * MIB..15 * MIB), [(15, 5)]);
    assert_eq!(extents(&mut device, "a"), [(4, 4), (10, 5)]);
    directory.remove(&mut device, "gone").unwrap();
    // Chunks directly before the region are an extent of their own: the first one begins with the region.
    assert_eq!(take(&mut directory, &mut device, MIB..4 * MIB), [(15, 5)]);
    assert_eq!(extents(&mut device, "a"), [(4, 4), (1, 3), (10, 5)]);
    assert_eq!(directory.region("a").unwrap(), region);
    assert_eq!(directory.end_bytes(), 15 * MIB);
    // A volume first uses the chunks that a power cut left to it alone.
    directory.take(&mut device, "b", std::slice::from_ref(&(17 * MIB..19 * MIB))).unwrap();
    let own = [directory.region("b").unwrap()];
    let free = directory.free_for(&mut device, "b", &own).unwrap();
    assert_eq!(chunks(&free), [(15, 5)]);
    let free = directory.free_for(&mut device, "a", &used).unwrap();
    assert_eq!(chunks(&free), [(15, 2), (19, 1)]);
    // It may give that back, too.
    directory.give_back(&mut device, "b", &own).unwrap();
    assert_eq!(extents(&mut device, "b"), [(8, 2)]);
}

#[test]
fn a_volume_keeps_what_its_region_uses_and_others_get_the_rest() {
    let mut device = Device::new(12 * MIB);
    let volumes = [("a", 6 * MIB), ("b", 2 * MIB)];
    let mut directory = Directory::set_up(&mut device, &volumes).unwrap();
    directory.take(&mut device, "a", std::slice::from_ref(&(9 * MIB..12 * MIB))).unwrap();
    // Parts of chunks are whole ones.
    let used = [MIB..3 * MIB, 4 * MIB..4 * MIB + 1, 10 * MIB - 1..10 * MIB + 1];
    directory.give_back(&mut device, "a", &used).unwrap();
    assert_eq!(extents(&mut device, "a"), [(1, 2), (4, 1), (9, 2)]);
    let own = [directory.region("b").unwrap()];
    let free = directory.free_for(&mut device, "b", &own).unwrap();
    assert_eq!(chunks(&free), [(3, 1), (5, 2), (11, 1)]);
    directory.take(&mut device, "b", &free).unwrap();
    assert_eq!(extents(&mut device, "b"), [(7, 2), (3, 1), (5, 2), (11, 1)]);
    // The room of another volume is never its own.
    directory.give_back(&mut device, "a", std::slice::from_ref(&(0..12 * MIB))).unwrap();
    assert_eq!(extents(&mut device, "a"), [(1, 2), (4, 1), (9, 2)]);
}

#[test]
fn a_power_cut_while_a_volume_changes_leaves_it_as_before_or_after() {
    let mut device = Device::new(16 * MIB);
    let directory = Directory::set_up(&mut device, &[("a", 3 * MIB), ("b", 2 * MIB)]).unwrap();
    let grow = |device: &mut Device| {
        directory.clone().take(device, "a", std::slice::from_ref(&(6 * MIB..7 * MIB))).map(drop)
    };
    let shrink = |device: &mut Device| {
        directory.clone().give_back(device, "a", std::slice::from_ref(&(MIB..2 * MIB))).map(drop)
    };
    let check = |change: &dyn Fn(&mut Device) -> Result<(), DirectoryError>, changed| {
        let mut seen = BTreeMap::new();
        for mut device in cut_everywhere(&device, change) {
            *seen.entry(extents(&mut device, "a")).or_insert(0) += 1;
        }
        let mut expected = [vec![(1, 3)], changed];
        expected.sort();
        assert!(seen.keys().eq(&expected), "{seen:?}");
    };
    check(&grow, vec![(1, 3), (6, 1)]);
    check(&shrink, vec![(1, 1)]);
}

/// Return the format of each copy.
fn formats(device: &Device) -> [u8; 2] {
    copy_places().map(|place| device.durable[&(place / BLOCK_BYTES as u64)][16])
}

#[test]
fn a_scattered_volume_has_a_format_of_its_own_and_returns_from_it() {
    let mut device = Device::new(512 * MIB);
    let volumes = [("a", MIB), ("b", MIB), ("c", 400 * MIB)];
    let mut directory = Directory::set_up(&mut device, &volumes).unwrap();
    directory.remove(&mut device, "c").unwrap();
    let mut used = vec![directory.region("a").unwrap()];
    for number in 1.. {
        let place = (2 + 2 * number) * MIB;
        let before = directory.clone();
        let taken = directory.take(&mut device, "a", std::slice::from_ref(&(place..place + MIB)));
        if let Err(error) = taken {
            assert!(matches!(error, DirectoryError::Scattered { .. }), "{error}");
            assert!(number > 200, "{number} places");
            assert_eq!(directory, before);
            break;
        }
        used.push(place..place + MIB);
        let format = if used.len() > EXTENTS_MAX { 2 } else { 1 };
        assert_eq!(formats(&device), [format; 2]);
        assert_eq!(Directory::read(&mut device).unwrap().unwrap(), directory);
    }
    // A power cut on the way to the other format, and back, leaves one of both directories.
    for kept in [EXTENTS_MAX, EXTENTS_MAX + 1] {
        let mut now = directory.clone();
        now.give_back(&mut device, "a", &used[..kept]).unwrap();
        let place = 480 * MIB;
        let change = |device: &mut Device| {
            let mut changed = now.clone();
            let used = &used[..2 * EXTENTS_MAX + 1 - kept];
            changed.give_back(device, "a", used)?;
            changed.take(device, "a", std::slice::from_ref(&(place..place + MIB)))
        };
        for mut device in cut_everywhere(&device, change) {
            let found = Directory::read(&mut device).unwrap().unwrap();
            assert_eq!(found.volumes().len(), 2);
            assert!((EXTENTS_MAX..=EXTENTS_MAX + 2).contains(&extents(&mut device, "a").len()));
        }
    }
    directory.give_back(&mut device, "a", &used[..1]).unwrap();
    assert_eq!(formats(&device), [1; 2]);
}
