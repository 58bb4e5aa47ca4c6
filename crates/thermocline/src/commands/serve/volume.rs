//! A volume of a running server: the state that its threads share, and the seat that it has in each.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use anyhow::{Context as _, Result};
use thermocline_engine::Engine;
use thermocline_nbd::server::{Export, Exports, Handle, ServerError};
use thermocline_nbd::sharded::Sharded;
use tracing::{Span, info};

use super::board::Board;
use super::choices::ChoiceFile;
use super::cleaning::CleaningSection;
use super::config::{Config, Resource, Volumes};
use super::departure::{Departure, Stage};
use super::devices::AnyDriver;
use super::epoch::{Beginning, Begins};
use super::exchange::Exchange;
use super::flash_growth::FlashGrowth;
use super::growth::Growth;
use super::instruments::{ClientActivity, Instruments};
use super::kept_note::Note;
use super::listening::{Ways, export};
use super::members::{News, Snapshots};
use super::new_flash::NewPart;
use super::opening::Opened;
use super::ranges::{Ranges, Ranging};
use super::record::Recorders;
use super::shadows::Wanted;
use super::shard_shares::{ShardShares, ShardSharing};
use super::{Service, Serving};
use crate::bytes::Bytes;

/// State of a volume that the threads share.
pub(super) struct Volume {
    /// Name of the export.
    pub(super) name: String,
    /// Span that names the volume in the log.
    pub(super) span: Span,
    pub(super) board: Board,
    pub(super) snapshots: Snapshots,
    pub(super) news: News,
    pub(super) note: Option<Arc<Note>>,
    pub(super) departure: Departure,
    pub(super) growth: Growth,
    pub(super) exchange: Exchange<Arc<NewPart>>,
    /// Orders about its ranges.
    pub(super) ranges: Arc<Ranges>,
    /// Choices of its policy, for the next start.
    pub(super) choices: Arc<ChoiceFile>,
    /// Share of RAM that it was opened with.
    ram_share: Bytes,
    pub(super) has_flash: bool,
    /// `true` if its share of the flash moves.
    pub(super) flash_moves: bool,
    /// State of its shards while its share of RAM or of the flash moves.
    pub(super) shares: ShardShares,
    /// `true` if virtual machines or the kernel use it beside clients.
    pub(super) has_doors: bool,
    /// Number of threads that serve it already.
    seated: AtomicUsize,
}

/// A volume whose shards are ready to be served.
pub(super) struct Prepared {
    pub(super) volume: Arc<Volume>,
    /// Export of each shard; empty once they are taken.
    exports: Vec<Export<Service>>,
    instruments: Vec<Instruments>,
    beginning: Beginning,
    cleaning: CleaningSection,
}

/// A shard of a volume, for the thread that is to serve it.
pub(super) struct Part {
    export: Export<Service>,
    seat: Seat,
}

/// The place of a volume in the thread of one of its shards.
pub(super) struct Seat {
    pub(super) volume: Arc<Volume>,
    /// Place among the exports of the thread's server.
    pub(super) place: usize,
    pub(super) begins: Begins,
    pub(super) instruments: Instruments,
    pub(super) cleaning: CleaningSection,
    pub(super) ranging: Ranging,
    /// State of a shard whose share moves.
    pub(super) sharing: ShardSharing,
    /// Stage of the volume's departure in which the thread looked last.
    pub(super) stage: Stage,
    /// Size that clients are offered.
    pub(super) offered_pages: u64,
    /// `true` while the flash is being replaced.
    pub(super) is_exchanging: bool,
}

/// The volumes that are served.
#[derive(Clone, Default)]
pub(super) struct Served(Arc<Mutex<Vec<Weak<Volume>>>>);

impl Served {
    /// Add a volume, until it is gone.
    pub(super) fn add(&self, volume: &Arc<Volume>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(volume));
    }

    /// Return the volumes that are there.
    pub(super) fn all(&self) -> Vec<Arc<Volume>> {
        let mut volumes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        volumes.retain(|volume| volume.strong_count() > 0);
        volumes.iter().filter_map(Weak::upgrade).collect()
    }
}

/// The notes of all volumes, which are tried again while they cannot be written, and the choices of their policies.
#[derive(Clone, Default)]
pub(super) struct Notes(Arc<Mutex<Vec<Kept>>>);

type Kept = (Weak<Note>, Weak<ChoiceFile>);

impl Volume {
    /// Return the shares of RAM and of the flash. Those that move are counted for all together.
    pub(super) fn shares(&self) -> [Bytes; 2] {
        let flash = if self.flash_moves { Bytes(0) } else { self.growth.flash.share() };
        [self.ram_share, flash]
    }

    /// Return a configuration of the volume with the share of the flash that it has now, if that moves.
    pub(super) fn with_present_share(&self, config: &Config) -> Config {
        let mut config = config.clone();
        if let Some(flash) = config.flash.as_mut().filter(|flash| flash.moving.is_some()) {
            flash.set_size(self.growth.flash.share());
        }
        config
    }
}

impl Prepared {
    /// Watch the shards of a volume that was opened, and join them to its exports.
    ///
    /// # Errors
    /// A recording, a shadow or a way in that cannot be.
    pub(super) fn new(
        configs: &Volumes,
        config: &Config,
        mut opened: Opened,
        shadows: &[Wanted],
        ways: &mut Ways,
    ) -> Result<Self> {
        let threads = opened.engines.len();
        // Clients whose caches are a part of this one know how large the disk is.
        let backing = opened.backing.take().filter(|_| config.clients.is_none());
        let flash = config.flash.as_ref().map_or(Bytes(0), |flash| flash.size);
        let may_give_back = configs.are_named() && config.flash.is_some();
        let flash = FlashGrowth::new(flash, threads, may_give_back);
        if let Some(wanted) = opened.wanted_flash {
            flash.want(wanted);
        }
        let growth = Growth::new(backing, flash, opened.engines[0].shard(), threads);
        let instruments = watch(config, shadows, &mut opened)?;
        let shards = opened.engines.iter().map(|engine| engine.shard().options().clone());
        let ranges = Arc::new(Ranges::new(config.page_size.0, shards.collect(), opened.pins));
        let services = join(config, opened.engines, &instruments)?;
        let exports = export(config, services, ways)?;
        let board = Board::default();
        let volume = Volume {
            name: config.nbd.export.clone(),
            span: configs.span(config),
            snapshots: Snapshots::new(board.clone(), threads),
            board,
            news: News::new(threads),
            note: opened.note,
            departure: Departure::new(threads),
            growth,
            exchange: Exchange::new(threads),
            ranges,
            choices: opened.choices,
            // RAM that moves is counted for all together.
            ram_share: config.ram.moving.map_or(config.ram.size, |_| Bytes(0)),
            has_flash: config.flash.is_some(),
            flash_moves: Resource::Flash.moving(config).is_some(),
            shares: ShardShares::new(configs, config, threads)?,
            has_doors: config.vhost_user.is_some() || config.ublk.is_some(),
            seated: AtomicUsize::new(0),
        };
        Ok(Self {
            volume: Arc::new(volume),
            exports,
            instruments,
            beginning: opened.beginning,
            cleaning: config.cleaning,
        })
    }

    /// Take the exports of all shards, for the servers that begin with them.
    pub(super) fn take_exports(&mut self) -> Vec<Export<Service>> {
        std::mem::take(&mut self.exports)
    }

    /// Begin the epoch of the flash, and return the seat of each shard. Clients may connect, and no write
    /// is served yet.
    ///
    /// # Errors
    /// If the note cannot be written, or the system gives no thread.
    pub(super) fn begin(
        self,
        all: &Handle,
        notes: &Notes,
    ) -> Result<(Vec<Export<Service>>, Vec<Seat>)> {
        let Self { volume, exports, instruments, beginning, cleaning } = self;
        if let Some(note) = &volume.note {
            note.is_served_by(all.clone());
        }
        notes.add(&volume);
        let begins = beginning.start(all.clone(), instruments.len())?;
        let seats = instruments.into_iter().zip(begins).map(|(instruments, begins)| Seat {
            volume: Arc::clone(&volume),
            place: 0,
            begins,
            instruments,
            cleaning,
            ranging: Ranging::default(),
            sharing: ShardSharing::default(),
            stage: Stage::Staying,
            offered_pages: volume.growth.served_pages(),
            is_exchanging: false,
        });
        Ok((exports, seats.collect()))
    }
}

impl Part {
    /// Join the exports of a volume with its seats.
    pub(super) fn all((exports, seats): (Vec<Export<Service>>, Vec<Seat>)) -> Vec<Self> {
        exports.into_iter().zip(seats).map(|(export, seat)| Self { export, seat }).collect()
    }

    /// Serve the shard in this thread from now on.
    ///
    /// # Errors
    /// If the system refuses to wait for its devices.
    pub(super) fn sit_down(self, exports: &mut Exports<Service>) -> Result<Seat, ServerError> {
        let Self { export, mut seat } = self;
        seat.place = exports.add(export)?;
        let volume = &seat.volume;
        if volume.seated.fetch_add(1, Ordering::AcqRel) + 1 == volume.news.threads() {
            let _span = volume.span.enter();
            info!("serving a new volume");
        }
        Ok(seat)
    }

    /// Return the shard, which no thread will serve, and its seat.
    pub(super) fn into_parts(self) -> (Service, Seat) {
        (self.export.service, self.seat)
    }
}

impl Seat {
    /// Do the work of every shard between the requests of its clients.
    pub(super) fn look(&mut self, serving: &Serving<'_>, service: &mut Service) {
        let shard = service.inner_mut().engine_mut().shard_mut();
        self.begins.look(shard, serving.all);
        // Where the flash failed another shard, this one gives it up, too.
        if self.volume.note.as_deref().is_some_and(Note::has_failed) {
            shard.give_up_flash();
        }
        self.ranging.advance(&self.volume.ranges, shard);
    }

    /// Clean as it should now, and post a snapshot.
    pub(super) fn post(&self, service: &mut Service, clients: ClientActivity) {
        let engine = service.inner_mut().engine_mut();
        self.cleaning.apply(engine.shard_mut());
        let shard = usize::from(engine.shard().options().share.index);
        let status = self.instruments.status(engine, clients);
        self.volume.choices.post(shard, status.choosing.as_ref());
        self.volume.snapshots.post(shard, status);
    }
}

impl Notes {
    fn add(&self, volume: &Volume) {
        let note = volume.note.as_ref().map_or_else(Weak::new, Arc::downgrade);
        let files = (note, Arc::downgrade(&volume.choices));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(files);
    }

    /// Try again to write notes that could not be written, write choices that are new, and forget volumes that are
    /// gone.
    pub(super) fn store(&self) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(_, choices)| choices.strong_count() > 0);
        let files = kept.clone();
        // Writing one may take long.
        drop(kept);
        for (note, choices) in files {
            if let Some(note) = note.upgrade() {
                note.retry();
            }
            if let Some(choices) = choices.upgrade() {
                choices.store_if_due();
            }
        }
    }
}

/// Watch the shards of a volume.
fn watch(config: &Config, shadows: &[Wanted], opened: &mut Opened) -> Result<Vec<Instruments>> {
    let Opened { engines, note, .. } = opened;
    let recorders = Recorders::default();
    let of = |engine: &mut Engine<AnyDriver>| {
        Instruments::new(config, shadows.to_vec(), note.clone(), &recorders, engine.shard_mut())
    };
    engines.iter_mut().map(of).collect()
}

/// Join the shards of a volume to one service in each thread.
fn join(
    config: &Config,
    engines: Vec<Engine<AnyDriver>>,
    instruments: &[Instruments],
) -> Result<Vec<Sharded<AnyDriver>>> {
    let services =
        Sharded::all(engines, config.shard_map()).context("the shards cannot be joined")?;
    let terms = config.client_terms()?;
    let measured = services.into_iter().zip(instruments).map(|(service, watched)| {
        let service = service.with_meter(watched.meter());
        match terms {
            Some(terms) => service.with_clients(terms),
            None => service,
        }
    });
    Ok(measured.collect())
}
