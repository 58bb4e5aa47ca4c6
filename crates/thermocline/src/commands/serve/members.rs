//! The threads of a server: what each does between the requests of its clients.
//!
//! Each thread has one shard of every volume. The first one is the main thread, and does what there is to do
//! once: it takes orders and configurations, and tells the others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, ensure};
use thermocline_engine::ShardMap;
use thermocline_nbd::server::{Handle, Server, ServerError};
use tracing::error;

use super::board::Board;
use super::cleaning::CleaningSection;
use super::config::Config;
use super::epoch::Begins;
use super::instruments::Instruments;
use super::kept_note::Note;
use super::ranges::Ranging;
use super::reloading::{reload, take_over};
use super::replacing::Replacing;
use super::status::Status;
use super::watchdog::Watchdog;
use super::{Service, Serving, Volume};

impl Config {
    /// Refuses what several shards cannot serve.
    pub(super) fn check_shards(&self) -> Result<()> {
        let shards = self.shards.get();
        for (key, is_given) in [
            ("backing.nbd", self.backing.nbd.is_some()),
            ("shadow", !self.shadow.is_empty()),
            ("[record]", self.record.is_some()),
        ] {
            ensure!(
                shards == 1 || !is_given,
                "`shards` is {shards}, and {key} is for one shard: leave one of them out"
            );
        }
        Ok(())
    }

    /// Which shard serves what.
    pub(crate) fn shard_map(&self) -> ShardMap {
        ShardMap::new(self.shards, u32::try_from(self.page_size.0).unwrap_or(u32::MAX))
    }
}

/// The place of a volume in the thread of one of its shards.
pub(super) struct Seat<'a> {
    pub(super) begins: Begins,
    pub(super) instruments: &'a Instruments,
    pub(super) cleaning: CleaningSection,
    ranging: Ranging,
}

impl<'a> Seat<'a> {
    /// Create the seat of a shard that has not begun to serve.
    pub(super) fn new(begins: Begins, instruments: &'a Instruments, config: &Config) -> Self {
        let (cleaning, ranging) = (config.cleaning, Ranging::default());
        Self { begins, instruments, cleaning, ranging }
    }

    /// Does the work of every shard between the requests of its clients.
    fn look(&mut self, serving: &Serving<'_>, volume: usize, service: &mut Service) {
        self.begins.look(service.inner_mut().engine_mut().shard_mut(), serving.all);
        let Volume { note, ranges, .. } = &serving.volumes[volume];
        share_failure(note.as_deref(), service);
        self.ranging.advance(ranges, service.inner_mut().engine_mut().shard_mut());
    }

    /// Cleans as it should now, and posts a snapshot.
    fn post(&self, serving: &Serving<'_>, volume: usize, service: &mut Service, clients: usize) {
        let engine = service.inner_mut().engine_mut();
        self.cleaning.apply(engine.shard_mut());
        let shard = engine.shard().options().share.index.into();
        let status = self.instruments.status(engine, clients);
        serving.volumes[volume].snapshots.post(shard, status);
    }
}

/// A thread with its clients: it has one shard of each volume.
pub(super) struct Member<'a> {
    pub(super) number: usize,
    pub(super) server: Server<Service>,
    /// One per volume, in the order of the server's exports.
    pub(super) seats: Vec<Seat<'a>>,
}

impl Member<'_> {
    /// Serve as any thread but the first until all are to stop.
    ///
    /// # Errors
    /// As [`Server::run`].
    pub(super) fn run(&mut self, serving: &Serving<'_>) -> Result<(), ServerError> {
        let Self { number, server, seats } = self;
        let own = server.handle();
        server.run(|services| {
            for (volume, (seat, service)) in seats.iter_mut().zip(services).enumerate() {
                let Volume { span, news, .. } = &serving.volumes[volume];
                let _span = span.enter();
                seat.look(serving, volume, service);
                if let Some(config) = news.take(*number) {
                    match take_over(&config, None, service, seat.instruments) {
                        Ok(()) => seat.cleaning = config.cleaning,
                        Err(error) => {
                            let error = format!("{error:#}");
                            error!(
                                error,
                                shard = number,
                                "kept the old configuration of the shard"
                            );
                        }
                    }
                }
                seat.post(serving, volume, service, serving.clients(&own, volume));
            }
            serving.beats.beat(*number);
        })
    }

    /// Serve as the first thread, which also posts snapshots and takes orders, until all are to stop.
    ///
    /// # Errors
    /// As [`Server::run`].
    pub(super) fn run_first(
        &mut self,
        serving: &Serving<'_>,
        wants_reload: &AtomicBool,
        watchdog: &mut Watchdog,
    ) -> Result<(), ServerError> {
        let Self { server, seats, .. } = self;
        let mut replacing = Replacing::default();
        let own = server.handle();
        server.run(|services| {
            if serving.beats.all_beat() {
                watchdog.beat();
            }
            for (volume, (seat, service)) in seats.iter_mut().zip(&mut *services).enumerate() {
                let _span = serving.volumes[volume].span.enter();
                seat.look(serving, volume, service);
            }
            if wants_reload.swap(false, Ordering::AcqRel)
                && let Err(error) = reload(serving, services, seats)
            {
                error!(error = format!("{error:#}"), "kept the old configuration");
            }
            for (volume, (seat, service)) in seats.iter_mut().zip(services).enumerate() {
                let _span = serving.volumes[volume].span.enter();
                if volume == 0 {
                    let note = serving.volumes[volume].note.as_deref();
                    replacing.advance(serving.control, service, note);
                }
                seat.post(serving, volume, service, serving.clients(&own, volume));
            }
        })
    }
}

/// Give up this shard's flash if the flash has failed another shard.
fn share_failure(note: Option<&Note>, service: &mut Service) {
    if note.is_some_and(Note::has_failed) {
        service.inner_mut().engine_mut().shard_mut().give_up_flash();
    }
}

/// Stops all servers when the thread of one ends, however it does.
pub(super) struct StopsAll<'a>(pub(super) &'a Handle);

impl Drop for StopsAll<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// The newest snapshot of each shard, which make up what is on the board.
pub(super) struct Snapshots {
    board: Board,
    newest: Mutex<Vec<Option<Status>>>,
}

impl Snapshots {
    pub(super) fn new(board: Board, shards: usize) -> Self {
        Self { board, newest: Mutex::new(vec![None; shards]) }
    }

    /// Store the newer snapshot of a shard. Once all shards have one, post their sum.
    fn post(&self, shard: usize, status: Status) {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest[shard] = Some(status);
        if newest.iter().all(Option::is_some) {
            let all = newest.iter_mut().filter_map(Option::take);
            if let Some(status) = Status::of_shards(all) {
                self.board.post(status);
            }
        }
    }
}

/// Configurations of a volume that the first shard took over, for the others.
pub(super) struct News {
    /// Per shard: a configuration that it has not taken over.
    configs: Vec<Mutex<Option<Arc<Config>>>>,
}

impl News {
    pub(super) fn new(shards: usize) -> Self {
        Self { configs: (0..shards).map(|_| Mutex::default()).collect() }
    }

    pub(super) fn tell(&self, config: &Config) {
        let config = Arc::new(config.clone());
        for place in self.configs.iter().skip(1) {
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&config));
        }
    }

    fn take(&self, shard: usize) -> Option<Arc<Config>> {
        self.configs[shard].lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Signs of life of the threads.
pub(super) struct Beats {
    /// Per thread: whether its loop has gone round since the first one looked.
    beats: Vec<AtomicBool>,
}

impl Beats {
    pub(super) fn new(threads: usize) -> Self {
        Self { beats: (0..threads).map(|_| AtomicBool::new(false)).collect() }
    }

    fn beat(&self, thread: usize) {
        self.beats[thread].store(true, Ordering::Relaxed);
    }

    /// Return `true` if the loops of all others have gone round since this said so last.
    fn all_beat(&self) -> bool {
        let others = &self.beats[1..];
        let is_all = others.iter().all(|beat| beat.load(Ordering::Relaxed));
        if is_all {
            for beat in others {
                beat.store(false, Ordering::Relaxed);
            }
        }
        is_all
    }
}
