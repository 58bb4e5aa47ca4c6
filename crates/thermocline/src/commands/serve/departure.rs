//! The departure of a volume that left the configuration, in steps that its threads take together.
//!
//! 1. *Closing*: new clients are refused. Those that are attached stay until they leave: a client whose
//!    server hung up would report errors to whatever is mounted on it.
//! 2. *Draining*: everything goes to the backing store, which is synced. No slot of the flash is written any
//!    more, and its journal stays in force, so a crash finds the volume as any crash does.
//! 3. *Releasing*: the note says durably that the volume needs no flash. From then on there is no way back,
//!    and each thread gives up its shard.
//!
//! Until the last step, the volume can stay: it is in the configuration again, the backing store does not
//! take its pages, or some are lost.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use thermocline_engine::Engine;
use thermocline_nbd::server::Exports;
use thermocline_nbd::service::Service as _;
use tracing::{error, info};

use super::Service;
use super::devices::AnyDriver;
use super::ending::is_clean;
use super::volume::{Seat, Volume};

/// Time without a page that the backing store takes, after which the volume stays.
const PROGRESS_LIMIT: Duration = Duration::from_secs(10);

/// Step of a volume on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It is served.
    Staying,
    Closing,
    Draining,
    Releasing,
}

/// Findings of a thread when it looked last.
#[derive(Clone, Copy, Debug, Default)]
struct Report {
    clients: usize,
    /// Pages that the backing store lacks.
    pages_left: u64,
    lost_pages: usize,
    /// `true` if the backing store durably has everything.
    is_clean: bool,
}

/// The departure of a volume, for all its threads.
pub(super) struct Departure(Mutex<State>);

struct State {
    stage: Stage,
    /// Per thread, since the stage began.
    reports: Vec<Option<Report>>,
    /// The fewest pages that were left, and since when.
    best: Option<(u64, Instant)>,
    /// Clients that the log has.
    waits_for: usize,
    /// Engines of the threads that have given up their shard.
    engines: Vec<Engine<AnyDriver>>,
}

impl State {
    fn begin(&mut self, stage: Stage) {
        self.stage = stage;
        // Reports of the former stage say nothing of this one.
        self.reports.iter_mut().for_each(|report| *report = None);
        self.best = None;
        self.waits_for = 0;
    }

    /// Return the reports of all threads together, once each has looked in this stage.
    fn all(&self) -> Option<Report> {
        let reports: Option<Vec<Report>> = self.reports.iter().copied().collect();
        reports?.into_iter().reduce(|one, other| Report {
            clients: one.clients + other.clients,
            pages_left: one.pages_left + other.pages_left,
            lost_pages: one.lost_pages + other.lost_pages,
            is_clean: one.is_clean && other.is_clean,
        })
    }
}

impl Departure {
    pub(super) fn new(threads: usize) -> Self {
        Self(Mutex::new(State {
            stage: Stage::Staying,
            reports: vec![None; threads],
            best: None,
            waits_for: 0,
            engines: vec![],
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn stage(&self) -> Stage {
        self.lock().stage
    }

    /// Begin the departure, unless it has begun.
    pub(super) fn begin(&self) {
        let mut state = self.lock();
        if state.stage == Stage::Staying {
            info!("the volume left the configuration: new clients are refused");
            state.begin(Stage::Closing);
        }
    }

    /// Let the volume stay after all. Returns `false` if it is too late for that.
    pub(super) fn cancel(&self) -> bool {
        let mut state = self.lock();
        match state.stage {
            Stage::Staying => {}
            Stage::Closing | Stage::Draining => {
                info!("the volume is in the configuration again, and stays");
                state.begin(Stage::Staying);
            }
            Stage::Releasing => return false,
        }
        true
    }

    /// Take the engines of a volume that some threads had given up when the server ended.
    pub(super) fn take_engines(&self) -> Vec<Engine<AnyDriver>> {
        std::mem::take(&mut self.lock().engines)
    }

    /// Take the step that the first thread takes for all, if it can be taken. Returns the engines of all
    /// shards once every thread has given up its own.
    pub(super) fn advance(&self, volume: &Volume) -> Option<Vec<Engine<AnyDriver>>> {
        let mut state = self.lock();
        match state.stage {
            Stage::Staying => {}
            Stage::Closing => {
                let all = state.all()?;
                if all.clients == 0 {
                    info!("writing the volume's pages back");
                    state.begin(Stage::Draining);
                } else if all.clients != state.waits_for {
                    state.waits_for = all.clients;
                    let clients = all.clients;
                    info!(clients, "waiting until the volume's clients have left: disconnect them");
                }
            }
            Stage::Draining => {
                let all = state.all()?;
                if let Some(reason) = stays(&mut state, all, volume) {
                    error!(reason, "the volume stays: its export is open again");
                    state.begin(Stage::Staying);
                }
            }
            Stage::Releasing => {
                if state.engines.len() == state.reports.len() {
                    return Some(std::mem::take(&mut state.engines));
                }
            }
        }
        None
    }
}

/// Go on to the last stage when everything is written back. Returns a reason if the volume has to stay.
fn stays(state: &mut State, all: Report, volume: &Volume) -> Option<String> {
    if all.lost_pages > 0 {
        return Some(format!(
            "{} of its pages are lost, and another start would not know of them: write them as a whole; \
             /status lists them",
            all.lost_pages
        ));
    }
    if all.is_clean {
        // From here on no start takes the region, which has nothing that the backing store lacks. Were the
        // region removed first, a crash would leave a note that asks for a flash that is gone.
        if let Some(Err(error)) = volume.note.as_ref().map(|note| note.leave_flash()) {
            return Some(format!("the note of its backing store cannot be written: {error}"));
        }
        state.begin(Stage::Releasing);
        return None;
    }
    let (fewest, since) = *state.best.get_or_insert((all.pages_left, Instant::now()));
    if all.pages_left < fewest {
        state.best = Some((all.pages_left, Instant::now()));
    } else if since.elapsed() > PROGRESS_LIMIT {
        return Some(format!(
            "its backing store does not take the {} pages that it lacks",
            all.pages_left
        ));
    }
    None
}

impl Seat {
    /// Do this thread's part of the volume's departure. Returns `true` if the thread has given its shard up.
    pub(super) fn depart(&mut self, exports: &mut Exports<Service>, thread: usize) -> bool {
        let stage = self.volume.departure.stage();
        let former = std::mem::replace(&mut self.stage, stage);
        match (former, stage) {
            (Stage::Staying, Stage::Staying) => return false,
            (_, Stage::Staying) => {
                self.stay(exports);
                return false;
            }
            (Stage::Staying, _) => exports.withdraw(self.place),
            (Stage::Closing | Stage::Draining | Stage::Releasing, _) => {}
        }
        let clients = exports.clients(self.place);
        let service = exports.service_mut(self.place);
        let shard = service.inner_mut().engine_mut().shard_mut();
        let mut is_clean_now = false;
        if stage != Stage::Closing {
            // Where the flash failed, it makes durable on disk what was durable there.
            shard.leave_flash();
            is_clean_now = is_clean(shard) && (shard.has_left_flash() || shard.is_flash_released());
            // Again once it has come to rest without being clean: the backing store may have refused
            // pages.
            if former == Stage::Closing || (!is_clean_now && shard.is_idle()) {
                shard.drain();
            }
        }
        if stage == Stage::Releasing {
            return self.release(exports);
        }
        let report = Report {
            clients,
            pages_left: u64::from(shard.dirty_slots()) + shard.undurable_pages() as u64,
            lost_pages: shard.lost_pages().len(),
            is_clean: is_clean_now,
        };
        let mut departure = self.volume.departure.lock();
        // The stage may be another one since this thread looked: the report says nothing of that.
        if departure.stage == stage {
            departure.reports[thread] = Some(report);
        }
        false
    }

    /// Serve clients again, with the flash if it was about to be left.
    fn stay(&self, exports: &mut Exports<Service>) {
        exports.offer_again(self.place);
        let engine = exports.service_mut(self.place).inner_mut().engine_mut();
        if let Err(error) = engine.shard_mut().stay_with_flash() {
            error!(%error, "the policy cannot use the flash again: serving from RAM");
        }
    }

    /// Give the shard up, if nobody needs it any more.
    fn release(&self, exports: &mut Exports<Service>) -> bool {
        let service = exports.service_mut(self.place);
        // Other shards may still have frames of this one.
        service.drive();
        let is_needed = service.is_needed(false);
        let shard = service.inner_mut().engine_mut().shard_mut();
        if shard.has_left_flash() {
            shard.release_flash();
        }
        if is_needed || !shard.is_flash_released() {
            return false;
        }
        self.instruments.end_recording();
        let engine = exports.remove(self.place).into_inner().into_engine();
        self.volume.departure.lock().engines.push(engine);
        true
    }
}
