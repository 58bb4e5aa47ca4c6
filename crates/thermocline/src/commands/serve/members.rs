//! The threads of an export's shards: what each does between the requests of its clients.
//!
//! The first shard runs in the main thread, and does what there is to do once: it takes orders and
//! configurations, and tells the others.

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
use super::replacing::Replacing;
use super::status::Status;
use super::watchdog::Watchdog;
use super::{Service, Serving, reload, take_over};

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

/// A shard with its clients.
pub(super) struct Member<'a> {
    pub(super) server: Server<Service>,
    pub(super) begins: Begins,
    pub(super) instruments: &'a Instruments,
    cleaning: CleaningSection,
}

impl<'a> Member<'a> {
    /// A shard that has not begun to serve.
    pub(super) fn new(
        server: Server<Service>,
        begins: Begins,
        instruments: &'a Instruments,
        config: &Config,
    ) -> Self {
        Self { server, begins, instruments, cleaning: config.cleaning }
    }

    /// Serves, as any shard but the first, until all are to stop.
    ///
    /// # Errors
    /// As [`Server::run`].
    pub(super) fn run(&mut self, serving: &Serving<'_>) -> Result<(), ServerError> {
        let Self { server, begins, instruments, cleaning } = self;
        let own = server.handle();
        server.run(|services| {
            let [service] = services else { return };
            let shard = service.inner_mut().engine_mut().shard_mut();
            let number = shard.options().share.index.into();
            begins.look(shard, serving.all);
            share_failure(serving.note, service);
            if let Some(config) = serving.news.take(number) {
                match take_over(&config, None, service, instruments) {
                    Ok(()) => *cleaning = config.cleaning,
                    Err(error) => {
                        error!(
                            error = format!("{error:#}"),
                            shard = number,
                            "the shard stays as it is"
                        );
                    }
                }
            }
            cleaning.apply(service.inner_mut().engine_mut().shard_mut());
            let status = instruments.status(service.inner_mut().engine_mut(), own.clients());
            serving.snapshots.post(number, status);
            serving.news.beat(number);
        })
    }

    /// The same as the first shard.
    ///
    /// # Errors
    /// As [`Server::run`].
    pub(super) fn run_first(
        &mut self,
        serving: &Serving<'_>,
        wants_reload: &AtomicBool,
        drains: &mut bool,
        watchdog: &mut Watchdog,
    ) -> Result<(), ServerError> {
        let Self { server, begins, instruments, cleaning } = self;
        let mut replacing = Replacing::default();
        let own = server.handle();
        server.run(|services| {
            if serving.news.all_beat() {
                watchdog.beat();
            }
            let [service] = services else { return };
            begins.look(service.inner_mut().engine_mut().shard_mut(), serving.all);
            share_failure(serving.note, service);
            if wants_reload.swap(false, Ordering::AcqRel) {
                match reload(serving, service, instruments) {
                    Ok(config) => {
                        *drains = config.cleaning.drain_at_exit;
                        *cleaning = config.cleaning;
                        serving.news.tell(&config);
                        serving.all.wake();
                        serving.control.set_config(config);
                    }
                    Err(error) => {
                        error!(error = format!("{error:#}"), "the configuration stays as it is");
                    }
                }
            }
            cleaning.apply(service.inner_mut().engine_mut().shard_mut());
            replacing.advance(serving.control, service, serving.note);
            let status = instruments.status(service.inner_mut().engine_mut(), own.clients());
            serving.snapshots.post(0, status);
        })
    }
}

/// Where the flash failed another shard, this one gives it up, too.
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

    /// A newer snapshot of a shard. Once all have one, it goes up.
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

/// What the first shard and the others tell each other.
pub(super) struct News {
    /// Per shard: a configuration that it has not taken over.
    configs: Vec<Mutex<Option<Arc<Config>>>>,
    /// Per shard: whether its loop has gone round since the first one looked.
    beats: Vec<AtomicBool>,
}

impl News {
    pub(super) fn new(shards: usize) -> Self {
        Self {
            configs: (0..shards).map(|_| Mutex::default()).collect(),
            beats: (0..shards).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    fn tell(&self, config: &Config) {
        let config = Arc::new(config.clone());
        for place in self.configs.iter().skip(1) {
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&config));
        }
    }

    fn take(&self, shard: usize) -> Option<Arc<Config>> {
        self.configs[shard].lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn beat(&self, shard: usize) {
        self.beats[shard].store(true, Ordering::Relaxed);
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
