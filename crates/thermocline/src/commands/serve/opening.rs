//! The start of a server: the devices of all volumes are opened, and set up or recovered.
//!
//! Nothing is changed before all devices are locked, and before it is known for each volume what is to be
//! done with what was found.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use thermocline_engine::driver::files::DeviceFile;
use thermocline_engine::driver::flash::FlashDevice;
use thermocline_engine::{
    Asked, CHUNK_BYTES, Engine, FlashError, FlashSet, Noted, OpenError, Options, Plan, Shard,
    SideFile,
};
use tracing::info;

use super::choices::ChoiceFile;
use super::config::{Config, Volumes, WantedFlash};
use super::devices::{AnyDriver, caching, lock_flash, options, set_bytes};
use super::epoch::{Beginning, FirstNote, FoundFlash};
use super::flash_room::Coming;
use super::found_backing::{Backing, drive, find, sample, sync_backing};
use super::found_shares::with_found_shares;
use super::kept_note::Note;
use super::mirrored::{Pair, Wanted};
use super::pins::PinFile;
use super::regions::{Region, Regions, check_single};
use super::shared_flash::SharedFlash;
use super::start::{self, BackingAtEnd};
use crate::arguments::ServeOptions;
use crate::backing::BackingLocation;
use crate::note::NotePlace;

/// A volume on its devices: the engines of all its shards.
pub(crate) struct Opened {
    pub(crate) engines: Vec<Engine<AnyDriver>>,
    /// The note beside the backing store, as long as a flash may be newer.
    pub(crate) note: Option<Arc<Note>>,
    /// Steps before the first write.
    pub(crate) beginning: Beginning,
    /// Pinned ranges.
    pub(crate) pins: PinFile,
    /// Choices that its policy made before.
    pub(crate) choices: Arc<ChoiceFile>,
    /// The backing store, if it is a file or a block device.
    pub(crate) backing: Option<DeviceFile>,
    /// Share of the flash that it gets when other volumes have given room back.
    pub(crate) wanted_flash: Option<WantedFlash>,
}

/// A volume whose backing store was found.
struct Store<'a> {
    config: &'a Config,
    place: BackingLocation,
    backing: Backing,
    size_bytes: u64,
    options: Options,
    each: Vec<Options>,
    note: Option<NotePlace>,
    pins: PinFile,
    choices: ChoiceFile,
}

/// A volume of which it is known what is to be done.
struct Planned<'a> {
    store: Store<'a>,
    flash: Option<FlashSet>,
    plan: Plan,
    /// `true` if the flash has too few slots, and gets more.
    is_to_grow: bool,
}

/// Opens the devices of all volumes, and recovers what the flash holds. Returns the configurations, in which shares
/// of the flash that move are as the flash has them, and the flash for volumes that come and go later.
///
/// # Errors
/// A device that cannot be opened or must not be used; the error names the remedy.
pub(crate) fn open(
    volumes: &Volumes,
    options: &ServeOptions,
) -> Result<(Volumes, Vec<Opened>, SharedFlash)> {
    let force_init = options.force_init;
    let mut stores: Vec<Store<'_>> = vec![];
    for config in volumes.each() {
        let _span = volumes.span(config).entered();
        let store = volumes.within(config, Store::find(config, &stores))?;
        stores.push(store);
    }
    let mut pair = lock_pair(volumes, &mut stores, options)?;
    let mut flash = match &pair {
        Some(pair) => Some(pair.device.try_clone()?),
        None => lock_shared(volumes, &stores)?.map(FlashDevice::One),
    };
    let found = match &mut flash {
        Some(flash) => with_found_shares(volumes, flash)?,
        None => volumes.clone(),
    };
    let volumes = &found;
    let stores = with_configs(stores, volumes)?;
    let mut regions = read_regions(volumes, &stores, flash.as_mut(), force_init)?;
    let mut planned = vec![];
    for store in stores {
        let config = store.config;
        let _span = volumes.span(config).entered();
        let region = regions.as_ref().and_then(|regions| regions.of(store.name()));
        let plan = store.plan(flash.as_ref(), region, force_init);
        planned.push(volumes.within(config, plan)?);
    }
    if let Some(pair) = &mut pair {
        // All was checked: from here on, devices are written to.
        pair.prepare()?;
    }
    if let (Some(regions), Some(flash)) = (&mut regions, &mut flash) {
        let mut storage = flash.try_clone()?;
        regions.apply(flash, &mut storage).with_context(|| in_flash(volumes))?;
    }
    // Volumes that come later write to it, too.
    let is_shared = volumes.are_named() || volumes.shared().shards.get() > 1;
    let path = volumes.each().iter().find_map(|config| config.flash.as_ref());
    let mut shared = SharedFlash::start(
        flash,
        path.map(|flash| flash.path.clone()),
        (is_shared, volumes.are_named()),
    )?;
    shared.members = pair.map(|pair| pair.into_members(shared.syncs_for(true))).transpose()?;
    let givers: Vec<bool> = planned.iter().map(Planned::gives_room_back).collect();
    let mut opened = vec![];
    for (number, planned) in planned.into_iter().enumerate() {
        let mut others = givers.iter().enumerate().filter(|(other, _)| *other != number);
        let may_wait = others.any(|(_, gives_back)| *gives_back);
        let config = planned.store.config;
        let _span = volumes.span(config).entered();
        let region = regions.as_ref().and_then(|regions| regions.of(planned.store.name()));
        let volume = planned.open(&shared, region, may_wait);
        opened.push(volumes.within(config, volume)?);
    }
    if !volumes.are_named() {
        // Another flash may take its place, and then nobody may hold it.
        shared.let_go();
    }
    Ok((found, opened, shared))
}

/// Read the regions of all volumes, if several share the flash. Regions that a killed server was about to remove are
/// replaced.
fn read_regions(
    volumes: &Volumes,
    stores: &[Store<'_>],
    flash: Option<&mut FlashDevice>,
    force_init: bool,
) -> Result<Option<Regions>> {
    let Some(flash) = flash else { return Ok(None) };
    if !volumes.are_named() {
        check_single(flash).with_context(|| in_flash(volumes))?;
        return Ok(None);
    }
    let wanted = stores.iter().filter(|store| store.has_flash());
    let wanted = wanted.map(|store| (store.name(), store.region_bytes())).collect();
    let regions = Regions::read(flash, wanted, force_init);
    let mut regions = regions.with_context(|| in_flash(volumes))?;
    for store in stores {
        regions.give_up_left(flash, store.name(), store.load()?)?;
    }
    Ok(Some(regions))
}

/// Give each store its configuration of these.
fn with_configs<'a>(stores: Vec<Store<'_>>, volumes: &'a Volumes) -> Result<Vec<Store<'a>>> {
    let stores = stores.into_iter().zip(volumes.each());
    let stores = stores.map(|(store, config)| {
        let _span = volumes.span(config).entered();
        volumes.within(config, store.with_config(config))
    });
    stores.collect()
}

/// Opens the devices of one more volume while others are served. Its region is made on the flash if it has
/// none.
///
/// # Errors
/// A device that cannot be opened or must not be used; the error names the remedy. A region that was made
/// stays, empty, for the next try.
pub(super) fn open_one(shared: &SharedFlash, config: &Config) -> Result<Opened> {
    let mut store = Store::find(config, &[])?;
    if let (Some(members), Some(note)) = (&shared.members, &mut store.note) {
        members.notes.add(note);
    }
    let in_flash = store.in_flash();
    let file = shared.file_for(config).with_context(|| in_flash.clone())?;
    if let (Some(flash), Some(backing)) = (&file, &config.backing.path) {
        ensure!(
            !flash.is_at(backing)?,
            "{in_flash}: it is the backing store too: it was given twice"
        );
    }
    let mut regions = match &file {
        Some(flash) => {
            let wanted = (store.name(), store.region_bytes());
            let mut flash = flash.try_clone()?;
            let regions = Regions::read_one(&mut flash, wanted);
            let mut regions = regions.with_context(|| in_flash.clone())?;
            regions.give_up_left(&flash, store.name(), store.load()?)?;
            Some(regions)
        }
        None => None,
    };
    let region = regions.as_ref().and_then(|regions| regions.of(store.name()));
    let planned = store.plan(file.as_ref(), region, false)?;
    if let (Some(regions), Some(flash)) = (&mut regions, &file) {
        // The others write to the flash, so its syncs are joint.
        let mut storage = shared.storage(flash.try_clone()?)?;
        regions.apply(flash, storage.as_storage()).with_context(|| in_flash)?;
    }
    let region = regions.as_ref().and_then(|regions| regions.of(planned.store.name()));
    planned.open(shared, region, false)
}

/// Return the words that precede an error of the flash.
fn in_flash(volumes: &Volumes) -> String {
    let path = volumes.each().iter().find_map(|config| config.flash.as_ref());
    path.map_or_else(String::new, |flash| format!("`flash.path`: `{}`", flash.path.display()))
}

/// Opens and locks the two devices of a mirrored flash, if a volume uses one.
fn lock_pair(
    volumes: &Volumes,
    stores: &mut [Store<'_>],
    options: &ServeOptions,
) -> Result<Option<Pair>> {
    let configured =
        volumes.each().iter().find_map(|config| Some((config, config.flash.as_ref()?)));
    let Some((config, flash)) = configured else { return Ok(None) };
    let Some(mirror) = &flash.mirror else { return Ok(None) };
    let mut noted: Option<Noted> = None;
    for store in stores.iter().filter(|store| store.has_flash()) {
        let found = store.note.as_ref().map(NotePlace::noted).transpose()?.flatten();
        // The newest one counts: another note may have missed the last change.
        if found.map(|it| it.generation) > noted.map(|it| it.generation) {
            noted = found;
        }
    }
    let asked = Asked {
        noted,
        allows_degraded: flash.degraded || options.degraded,
        resilvers: options.resilver,
        forces_init: options.force_init,
    };
    let wanted = Wanted { paths: [&flash.path, mirror], caching: caching(config), asked };
    let disks: Vec<&DeviceFile> = stores.iter().filter_map(|store| store.backing.file()).collect();
    let pair = Pair::open(&wanted, &disks, &|| may_be_new(volumes, stores))?;
    for store in stores.iter_mut().filter(|store| store.has_flash()) {
        if let Some(note) = &mut store.note {
            pair.notes.add(note);
        }
    }
    Ok(Some(pair))
}

/// Check that a flash may be made: no backing store needs one that is elsewhere.
fn may_be_new(volumes: &Volumes, stores: &[Store<'_>]) -> Result<()> {
    for store in stores.iter().filter(|store| store.has_flash()) {
        let check = || Ok(SideFile::check(store.load()?, None)?);
        volumes.within(store.config, check())?;
    }
    Ok(())
}

/// Opens and locks the flash, if a volume uses one.
fn lock_shared(volumes: &Volumes, stores: &[Store<'_>]) -> Result<Option<DeviceFile>> {
    let Some(config) = volumes.each().iter().find(|config| config.flash.is_some()) else {
        return Ok(None);
    };
    let path = config.flash.as_ref().map_or(Path::new(""), |flash| &flash.path);
    let disks = stores.iter().filter_map(|store| store.backing.file());
    let flash = lock_flash(path, caching(config), disks, || may_be_new(volumes, stores));
    flash.map(Some).with_context(|| in_flash(volumes))
}

impl<'a> Store<'a> {
    /// Find the backing store of a volume.
    fn find(config: &'a Config, others: &[Self]) -> Result<Self> {
        let place = config.backing.place();
        let in_backing = || in_backing(&place);
        if let BackingLocation::File(path) = &place {
            for other in others {
                let file = other.backing.file();
                let is_twice = file.is_some_and(|file| file.is_at(path).unwrap_or(false));
                ensure!(
                    !is_twice,
                    "{}: it is the backing store of volume `{}`, too: give each volume its own",
                    in_backing(),
                    other.name()
                );
            }
        }
        let (backing, size_bytes) =
            find(&place, config, caching(config)).with_context(in_backing)?;
        let flash = config.flash.as_ref().map(|flash| flash.path.as_path());
        let note = config.backing.note.as_deref();
        let note = place.note(note, flash, config.state_dir.as_deref())?;
        let pins = PinFile::load(note.as_ref(), config.page_size.0)?;
        let choices = ChoiceFile::load(note.as_ref());
        let (options, each) = sized(config, size_bytes, &pins, &choices)?;
        Ok(Self { config, place, backing, size_bytes, options, each, note, pins, choices })
    }

    /// Return the same with other shares of RAM and flash.
    fn with_config(self, config: &Config) -> Result<Store<'_>> {
        let (options, each) = sized(config, self.size_bytes, &self.pins, &self.choices)?;
        let Self { place, backing, size_bytes, note, pins, choices, .. } = self;
        Ok(Store { config, place, backing, size_bytes, options, each, note, pins, choices })
    }

    fn name(&self) -> &'a str {
        &self.config.nbd.export
    }

    const fn has_flash(&self) -> bool {
        self.config.flash.is_some()
    }

    /// Read its note, if there is one.
    fn load(&self) -> Result<Option<SideFile>> {
        Ok(self.note.as_ref().map(NotePlace::load).transpose()?.flatten())
    }

    /// Return the bytes that the volume needs on the flash.
    fn region_bytes(&self) -> u64 {
        set_bytes(&self.each[0])
    }

    /// Return the words that precede an error of the flash.
    fn in_flash(&self) -> String {
        let path = self.config.flash.as_ref().map_or(Path::new(""), |flash| &flash.path);
        format!("`flash.path`: `{}`", path.display())
    }

    /// Decide what is to be done with what is found. Nothing is changed.
    fn plan(
        mut self,
        device: Option<&FlashDevice>,
        region: Option<&Region>,
        force_init: bool,
    ) -> Result<Planned<'a>> {
        let read = match (device.filter(|_| self.has_flash()), region) {
            (None, _) => Ok(None),
            (Some(_), Some(region)) if region.is_new() => Err(FlashError::Empty),
            (Some(flash), region) => FlashSet::read(&mut part_of(flash, region)?).map(Some),
        };
        let map = self.config.shard_map();
        let looked = start::look(read, self.load()?, self.options.size_bytes(), map, force_init)
            .with_context(|| self.in_flash())?;
        let (mut found, mut flash) = (looked.found, looked.flash);
        let (backing, fingerprint) =
            sample(self.backing, found.sample(), &self.place, self.config)?;
        found.found.backing = fingerprint;
        self = Store { backing, ..self };
        let of_device = || if self.has_flash() { self.in_flash() } else { in_backing(&self.place) };
        let plan = start::plan(&found, force_init).with_context(of_device)?;
        // Nothing is changed before it is known that the options fit the flash.
        let mut is_to_grow = false;
        if let (Some(found), Some(begin)) = (&mut flash, plan.begin()) {
            found.adapt(&begin);
            for (options, flash) in self.each.iter().zip(found.flashes()) {
                match Shard::check_open(options, flash) {
                    Err(OpenError::Flash(FlashError::TooFewSlots { .. })) => is_to_grow = true,
                    checked => checked
                        .map_err(|error| remedied(error, region))
                        .with_context(|| self.in_flash())?,
                }
            }
        }
        Ok(Planned { store: self, flash, plan, is_to_grow })
    }
}

impl Planned<'_> {
    /// Return `true` if the volume gives room back once it is served.
    fn gives_room_back(&self) -> bool {
        let regions = self.flash.iter().flat_map(FlashSet::flashes).zip(&self.store.each);
        let mut gives_back = regions.map(|(region, options)| {
            let (layout, slots) = (&region.superblock().layout, options.slots());
            let fewer = (slots < layout.slots).then(|| layout.with_first(slots));
            fewer.is_some_and(|it| it.room_bytes(CHUNK_BYTES) < layout.room_bytes(CHUNK_BYTES))
        });
        gives_back.any(|gives_back| gives_back)
    }

    /// Take the steps that come before the first request. If the volume `may_wait`, and there is no room for its share
    /// of the flash, it begins with the one that it has.
    fn open(self, shared: &SharedFlash, region: Option<&Region>, may_wait: bool) -> Result<Opened> {
        let Self { store, flash, plan, is_to_grow } = self;
        let in_flash = store.in_flash();
        let Store { config, place, backing, each, note: note_place, pins, choices, .. } = store;
        let in_backing = || in_backing(&place);
        let whole = shared.file_for(config)?;
        let flash_file = whole.map(|file| part_of(&file, region)).transpose()?;
        let flash = flash_file
            .as_ref()
            .zip(note_place.as_ref())
            .map(|(file, note)| {
                let volume = region.map(|_| &*config.nbd.export);
                let coming =
                    Coming { volume, each: &each, note, plan: &plan, is_to_grow, may_wait };
                coming.open(shared, file, flash).with_context(|| in_flash.clone())
            })
            .transpose()?;
        let has_flash = flash.is_some();
        let (each, wanted_flash) = match &flash {
            Some((flash, _)) if is_to_grow && may_wait => fitted(config, each, flash)?,
            _ => (each, None),
        };
        let mut shards = open_shards(each, flash.as_ref()).with_context(|| {
            if has_flash { in_flash.clone() } else { "the engine cannot be set up".to_owned() }
        })?;
        if let Some(mirror) = flash_file.as_ref().and_then(FlashDevice::mirror) {
            for shard in &mut shards {
                shard.mirror_with(Arc::clone(mirror));
            }
        }
        let first_note = FirstNote(note_place.zip(plan.note_before_serving()));
        let note = match (&flash_file, &first_note.0) {
            (Some(flash), Some((note_place, side_file))) => {
                let backing = BackingAtEnd::of(backing.file(), &place, config)?;
                let has_failed = shared.has_failed();
                let note = Note::new(note_place, *side_file, flash, backing, &shards, has_failed)?;
                Some(Arc::new(note))
            }
            _ => None,
        };
        let dirty_pages: u32 = shards.iter().map(Shard::dirty_slots).sum();
        if dirty_pages > 0 {
            info!(dirty_pages, "the flash holds pages that are newer than the disk's");
        }
        let backing_file = backing.file().map(DeviceFile::try_clone).transpose()?;
        let driven = flash_file.as_ref().zip(flash.as_ref().map(|(flash, _)| flash));
        let mut drivers =
            drive(config.io.engine, &shards, driven, backing, shared).with_context(in_backing)?;
        // Rule 10: before the first answer. Once is enough for all shards, because a sync concerns the
        // whole device.
        sync_backing(&mut drivers[0]).with_context(in_backing)?;
        let found = flash
            .zip(flash_file)
            .and_then(|((flash, is_found), file)| is_found.then_some((flash, file)));
        let beginning = match (found, note.clone()) {
            (Some((flash, file)), Some(note)) => {
                let file = shared.storage(file)?;
                Beginning::Flash(Box::new(FoundFlash { flash, file, note, place: in_flash }))
            }
            (_, Some(note)) => Beginning::Note(note),
            (_, None) => Beginning::Alone(first_note),
        };
        let engines =
            shards.into_iter().zip(drivers).map(|(shard, driver)| Engine::new(shard, driver));
        let (engines, backing) = (engines.collect(), backing_file);
        let choices = Arc::new(choices);
        Ok(Opened { engines, note, beginning, pins, choices, backing, wanted_flash })
    }
}

/// Return the words that precede an error of a backing store.
fn in_backing(place: &BackingLocation) -> String {
    format!("`{}`: `{place}`", place.key())
}

/// Return a volume's part of the flash; all of it without `[[volume]]`.
fn part_of(flash: &FlashDevice, region: Option<&Region>) -> Result<FlashDevice> {
    match region.and_then(Region::range) {
        Some(range) => Ok(flash.region(range)?),
        None => Ok(flash.try_clone()?),
    }
}

/// Return the error of a flash that does not fit the options, with its remedy: a region keeps its size.
fn remedied(error: OpenError, region: Option<&Region>) -> anyhow::Error {
    let error = anyhow::Error::new(error);
    match region {
        None => error,
        Some(region) => error.context(format!(
            "the volume's region on the flash keeps the size that it was made with; to change it, write \
             its pages back and remove it with {}; the next start adds it again",
            region.removal()
        )),
    }
}

/// Return options of shards that fit the flash as it is, and the share of it that the volume wants instead.
fn fitted(
    config: &Config,
    each: Vec<Options>,
    flash: &FlashSet,
) -> Result<(Vec<Options>, Option<WantedFlash>)> {
    let regions = || each.iter().zip(flash.flashes());
    if regions().all(|(options, flash)| Shard::check_open(options, flash).is_ok()) {
        return Ok((each, None));
    }
    let fitting = regions().map(|(options, flash)| {
        let fitting = options.fitting(flash.superblock().layout.slots);
        fitting.context("the volume's region has no room for any page until others give room back")
    });
    let fitting: Vec<Options> = fitting.collect::<Result<_>>()?;
    let pages = fitting.iter().map(|options| options.flash_pages).min().unwrap_or(0);
    let wanted = each.first().zip(config.flash.as_ref());
    // The server finds by itself how a share that moves is to change.
    let wanted = wanted.filter(|(_, flash)| flash.moving.is_none());
    let wanted = wanted
        .map(|(options, flash)| WantedFlash { pages: options.flash_pages, share: flash.size });
    let fitting = fitting.into_iter().map(|options| Options { flash_pages: pages, ..options });
    Ok((fitting.collect(), wanted))
}

/// Open the shards, with the flash that was found or set up, or without one.
fn open_shards(each: Vec<Options>, flash: Option<&(FlashSet, bool)>) -> Result<Vec<Shard>> {
    let Some((flash, is_found)) = flash else {
        return each.into_iter().map(|options| Ok(Shard::new(options)?)).collect();
    };
    // A flash that was just set up is durably in its first epoch, so nothing has to wait.
    let open = if *is_found { Shard::open_early } else { Shard::open };
    let regions = each.into_iter().zip(flash.flashes());
    regions.map(|(options, flash)| Ok(open(options, flash)?)).collect()
}

/// Return the options of a volume, and those of each of its shards.
fn sized(
    config: &Config,
    size_bytes: u64,
    pins: &PinFile,
    choices: &ChoiceFile,
) -> Result<(Options, Vec<Options>)> {
    let options = Options { pins: pins.pages(), ..options(config, size_bytes)? };
    let mut each = options.of_shards(config.shard_map()).context("`shards`")?;
    pins.check(&each)?;
    choices.resume(&mut each);
    Ok((options, each))
}
