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
use super::changes::Changes;
use super::config::Config;
use super::reloading::{advance_flashes, reload, take_over};
use super::replacing::Replacing;
use super::status::Status;
use super::volume::{Part, Seat};
use super::watchdog::Watchdog;
use super::{Service, Serving};

impl Config {
    /// Refuses what several shards cannot serve.
    pub(super) fn check_shards(&self) -> Result<()> {
        let shards = self.shards.get();
        ensure!(
            shards == 1 || !self.backing.cooperate,
            "`shards` is {shards}, and `backing.cooperate` is for one shard: leave one of them out"
        );
        Ok(())
    }

    /// Return the part of the write budget of the flash that each shard has, in GiB per day.
    pub(super) fn shard_write_budget(&self) -> Option<f64> {
        let budget = self.flash.as_ref().and_then(|flash| flash.write_budget_gib_per_day);
        budget.map(|gib| gib / f64::from(self.shards.get()))
    }

    /// Which shard serves what.
    pub(crate) fn shard_map(&self) -> ShardMap {
        ShardMap::new(self.shards, u32::try_from(self.page_size.0).unwrap_or(u32::MAX))
    }
}

/// A thread with its clients: it has one shard of each volume.
pub(super) struct Member {
    pub(super) number: usize,
    pub(super) server: Server<Service>,
    /// Seats of the volumes that it serves.
    pub(super) seats: Vec<Seat>,
}

impl Member {
    /// Serve as any thread but the first until all are to stop.
    ///
    /// # Errors
    /// As [`Server::run`]; or it cannot serve its shard of a new volume, of which the others would wait for
    /// this one.
    pub(super) fn run(&mut self, serving: &Serving<'_>) -> Result<(), ServerError> {
        let Self { number, server, seats } = self;
        let own = server.handle();
        let mut failed = Ok(());
        server.run(|exports| {
            for part in serving.inboxes.take(*number) {
                match part.sit_down(exports) {
                    Ok(seat) => seats.push(seat),
                    Err(error) => {
                        failed = Err(error);
                        serving.all.stop();
                    }
                }
            }
            seats.retain_mut(|seat| {
                let span = seat.volume.span.clone();
                let _span = span.enter();
                seat.look(serving, exports.service_mut(seat.place));
                if seat.depart(exports, *number) {
                    serving.all.wake();
                    return false;
                }
                seat.take_news(*number, exports.service_mut(seat.place));
                seat.grow(exports, *number);
                seat.exchange(exports, *number);
                seat.resize_flash(exports, *number);
                seat.share(exports.service_mut(seat.place), *number, serving.control);
                let clients = serving.clients(&own, exports, seat.place);
                seat.post(exports.service_mut(seat.place), clients);
                true
            });
            serving.beats.beat(*number);
        })?;
        failed
    }

    /// Serve as the first thread, which also posts snapshots and takes orders, until all are to stop.
    ///
    /// # Errors
    /// As [`Server::run`].
    pub(super) fn run_first(
        &mut self,
        serving: &Serving<'_>,
        wants_reload: &AtomicBool,
        changes: &mut Changes,
        watchdog: &mut Watchdog,
    ) -> Result<(), ServerError> {
        let Self { server, seats, .. } = self;
        let mut replacing = Replacing::default();
        let own = server.handle();
        server.run(|exports| {
            // One thread that hangs is enough for the watchdog to hear nothing: its clients wait for
            // ever.
            if serving.beats.all_beat() {
                watchdog.beat();
            }
            for seat in &mut *seats {
                let span = seat.volume.span.clone();
                let _span = span.enter();
                seat.look(serving, exports.service_mut(seat.place));
            }
            if wants_reload.swap(false, Ordering::AcqRel)
                && let Err(error) = reload(serving, exports, seats, changes)
            {
                error!(error = format!("{error:#}"), "kept the old configuration");
            }
            seats.extend(changes.take_added(serving, exports));
            seats.retain_mut(|seat| {
                let volume = Arc::clone(&seat.volume);
                let _span = volume.span.enter();
                let stays = !seat.depart(exports, 0);
                if stays {
                    seat.grow(exports, 0);
                    seat.exchange(exports, 0);
                    seat.resize_flash(exports, 0);
                    seat.share(exports.service_mut(seat.place), 0, serving.control);
                    let clients = serving.clients(&own, exports, seat.place);
                    seat.post(exports.service_mut(seat.place), clients);
                }
                stays
            });
            replacing.advance(serving, seats, changes);
            advance_flashes(serving, exports, seats, changes);
            changes.advance(serving);
            changes.share(serving, seats);
        })
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
    pub(super) fn post(&self, shard: usize, status: Status) {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest[shard] = Some(status);
        if newest.iter().all(Option::is_some) {
            // Taken, so that no snapshot is part of two sums.
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

    /// Return the number of threads that are told.
    pub(super) const fn threads(&self) -> usize {
        self.configs.len()
    }

    fn take(&self, shard: usize) -> Option<Arc<Config>> {
        self.configs[shard].lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Seat {
    /// Takes over a configuration that the first shard took over.
    fn take_news(&mut self, thread: usize, service: &mut Service) {
        let Some(config) = self.volume.news.take(thread) else { return };
        match take_over(&config, service, &self.instruments) {
            Ok(()) => self.cleaning = config.cleaning,
            Err(error) => {
                let error = format!("{error:#}");
                error!(error, shard = thread, "kept the old configuration of the shard");
            }
        }
    }
}

/// Shards of new volumes, each for the thread that is to serve it.
pub(super) struct Inboxes(Vec<Mutex<Vec<Part>>>);

impl Inboxes {
    pub(super) fn new(threads: usize) -> Self {
        Self((0..threads).map(|_| Mutex::default()).collect())
    }

    pub(super) fn put(&self, thread: usize, part: Part) {
        self.0[thread].lock().unwrap_or_else(PoisonError::into_inner).push(part);
    }

    pub(super) fn take(&self, thread: usize) -> Vec<Part> {
        std::mem::take(&mut *self.0[thread].lock().unwrap_or_else(PoisonError::into_inner))
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
