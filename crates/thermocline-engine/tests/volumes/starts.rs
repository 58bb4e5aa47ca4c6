//! Starts of volumes, as the server makes them: what the note and the flash say decides the steps.

use std::rc::Rc;

use thermocline_engine::{
    Directory, DirectoryError, Flash as Contents, FlashError, FlashSet, Found, FoundFlash,
    FoundSet, Intent, RequestKind, Section, Shard, SideFile, Step, Uuid,
};

use crate::devices::Flash;
use crate::exchange::Exchange;
use crate::note::Note;
use crate::plan;
use crate::volume::{Member, Volume};
use crate::world::World;
use crate::{GUEST, MIB, NAMES, PAGES};

/// An epoch of a volume's flash that is to begin.
pub(crate) struct Beginning {
    flash: FlashSet,
    /// Content of the note from then on.
    running: SideFile,
}

impl World {
    /// Recovers all volumes; `None` if the power is cut meanwhile.
    pub(crate) fn start(&mut self) -> Option<()> {
        self.volumes.clear();
        (self.guest_leaves, self.job) = (false, None);
        let mut flash = Flash(Rc::clone(&self.devices));
        self.choose_flash(&mut flash);
        let mut directory = Directory::read(&mut flash).unwrap().expect("it never goes away");
        // Another volume comes and goes.
        let changed = if directory.region("other").is_ok() {
            directory.remove(&mut flash, "other")
        } else {
            directory.add(&mut flash, "other", 2 * MIB)
        };
        match changed {
            Ok(()) | Err(DirectoryError::NoRoom { .. }) => {}
            Err(_) => return None,
        }
        self.forget_guest(&mut flash, &mut directory).ok()?;
        for number in 0..GUEST {
            self.make_region(number, &mut flash, &mut directory).ok()?;
        }
        let served = if self.notes[GUEST].needs_flash() { 3 } else { 2 };
        for number in 0..served {
            self.open(number, &mut flash, &directory)?;
        }
        self.check_room();
        for number in 0..served {
            // A server may serve reads before the epoch begins; what they found stays.
            if self.has_early_reads(number) {
                self.read_some(number)?;
            }
            self.begin_epoch(number, &mut flash)?;
        }
        Some(())
    }

    /// Choose the flash that the notes name. If they name none, the one that was replaced is as good, and better if
    /// the new one was not set up.
    fn choose_flash(&mut self, flash: &mut Flash) {
        self.exchange = Exchange::Idle;
        let is_set_up = matches!(Directory::read(flash), Ok(Some(_)));
        let drawn = self.below(2) == 0;
        let is_needed = self.notes[..GUEST].iter().any(Note::needs_flash);
        let mut devices = self.devices.borrow_mut();
        if let Some(former) = devices.former.take()
            && !is_needed
            && (drawn || !is_set_up)
        {
            devices.flash = former;
        }
    }

    /// Make the region of a volume that has none, or again if its note needs none.
    fn make_region(
        &self,
        number: usize,
        flash: &mut Flash,
        directory: &mut Directory,
    ) -> Result<(), DirectoryError> {
        let name = NAMES[number];
        if let Ok(window) = directory.window(name) {
            if self.notes[number].needs_flash() || directory.is_new(flash, name)? {
                return Ok(());
            }
            let found = FlashSet::read(&mut Section::new(flash, window)).unwrap();
            assert_eq!(found.contents().dirty_pages, 0, "it would have to be kept");
            directory.remove(flash, name)?;
        }
        add_region(number, self.seed, flash, directory)
    }

    /// Take the steps of a volume's start that come before it is served; `None` if the power is cut.
    pub(crate) fn open(
        &mut self,
        number: usize,
        flash: &mut Flash,
        directory: &Directory,
    ) -> Option<()> {
        let (name, seed) = (NAMES[number], self.seed);
        let window = directory.window(name).unwrap();
        let is_new = directory.is_new(flash, name).ok()?;
        let mut section = Section::new(flash, window.clone());
        let mut found = (!is_new).then(|| FlashSet::read(&mut section).unwrap());
        let plan = self.found(number, found.as_ref()).plan(Intent::Serve).unwrap();
        if let (Some(found), Some(begin)) = (&mut found, plan.begin()) {
            found.adapt(&begin);
        }
        let is_found = found.is_some();
        for step in plan.before_driver() {
            match *step {
                Step::WriteNote(said) => self.write_note(number, said)?,
                Step::SetUpFlash(cache) => {
                    found = Some(set_up(&mut section, cache, (number, seed)).ok()?);
                }
                Step::SyncFlash => Contents::make_durable(&mut section).ok()?,
                Step::ServeReads
                | Step::BeginEpoch(_)
                | Step::WriteBack(_)
                | Step::Clear
                | Step::SyncBacking
                | Step::Serve
                | Step::Seal
                | Step::TakeFingerprint
                | Step::EndFlash
                | Step::EndNote => panic!("{step:?} does not come before the driver"),
            }
        }
        let found = found.expect("a start sets the flash up, or recovers it");
        let open = if is_found { Shard::open_early } else { Shard::open };
        let mut members = vec![];
        for (index, options) in plan::options(number, seed).into_iter().enumerate() {
            let part = &found.flashes()[index];
            let shard = open(options, part).unwrap();
            let start = window.start + found.range(index).start;
            let sync = self.devices.borrow_mut().syncs.join();
            members.push(Member::new(shard, start, &part.superblock().layout, sync));
        }
        let note = self.notes[number].clone();
        let mut volume = Volume::new(number, plan::map(number, seed), members, note);
        self.notes[number].watch(volume.shards());
        let running = plan.note_before_serving().expect("there is a flash");
        if is_found {
            volume.beginning = Some(Beginning { flash: found, running });
        }
        self.devices.borrow_mut().backing[number].sync();
        self.volumes.push(volume);
        if is_found { Some(()) } else { self.write_note(number, running) }
    }

    /// Return the state that a start of a volume finds.
    fn found(&mut self, number: usize, found: Option<&FlashSet>) -> FoundSet {
        let regions = found.map(FlashSet::each_contents).unwrap_or_default();
        let flash = regions.first().map_or(FoundFlash::Blank, |first| FoundFlash::Cache(*first));
        let found = Found {
            note: self.notes[number].said(),
            flash,
            backing_bytes: plan::backing_bytes(),
            backing: None,
            new_cache: self.new_cache(),
        };
        FoundSet { found, regions }
    }

    /// Return `true` if a volume serves reads before the epoch of its flash begins, by a draw.
    fn has_early_reads(&mut self, number: usize) -> bool {
        let beginning = &self.volumes[number].beginning;
        let may_wait = beginning.as_ref().is_some_and(|it| it.flash.is_settled());
        may_wait && self.below(2) == 0
    }

    /// Read some pages of a volume; `None` if the power is cut, as others may write already.
    fn read_some(&mut self, number: usize) -> Option<()> {
        self.volumes[number].is_recovering = true;
        for _ in 0..self.below(10) {
            let page = self.below(PAGES);
            self.submit(number, RequestKind::Read, page..page + 1);
        }
        self.wait(number)
    }

    /// Begin the epoch of a volume's flash, which its shards hear of later; `None` if the power is cut.
    pub(crate) fn begin_epoch(&mut self, number: usize, flash: &mut Flash) -> Option<()> {
        let Some(beginning) = self.volumes[number].beginning.take() else { return Some(()) };
        let Beginning { flash: mut found, running } = beginning;
        let directory = Directory::read(flash).ok()??;
        let window = directory.window(NAMES[number]).unwrap();
        found.take_over(&mut Section::new(flash, window)).ok()?;
        self.write_note(number, running)?;
        let members = self.volumes[number].members.iter_mut();
        for (member, part) in members.zip(found.flashes()) {
            member.begun = Some(part.clone());
        }
        Some(())
    }

    /// Write a note; `None` if the power is cut before.
    pub(crate) fn write_note(&self, number: usize, said: SideFile) -> Option<()> {
        self.devices.borrow_mut().step().ok()?;
        self.notes[number].write(said);
        Some(())
    }

    /// Return the identity of another cache.
    pub(crate) fn new_cache(&mut self) -> Uuid {
        self.caches += 1;
        // The last bits are those of the shards.
        Uuid::from_u128(self.caches << 8)
    }
}

/// Give a volume a region. The flash is a file, which becomes longer if that needs it.
pub(crate) fn add_region(
    number: usize,
    seed: u64,
    flash: &mut Flash,
    directory: &mut Directory,
) -> Result<(), DirectoryError> {
    let (name, bytes) = (NAMES[number], plan::set_bytes(number, seed));
    match directory.add(flash, name, bytes) {
        Err(DirectoryError::NoRoom { .. }) => {
            let bytes_there = directory.end_bytes() + bytes.next_multiple_of(MIB);
            flash.0.borrow_mut().flash.reserve(bytes_there);
            directory.add(flash, name, bytes)
        }
        added => added,
    }
}

/// Set up the regions of a volume's shards.
pub(crate) fn set_up(
    section: &mut Section<'_>,
    cache: Uuid,
    (number, seed): (usize, u64),
) -> Result<FlashSet, FlashError> {
    let (layout, map) = (plan::layout(number, seed), plan::map(number, seed));
    FlashSet::initialise(section, cache, layout, map, plan::backing_bytes())
}
