//! The end of an engine that is not served any more: everything becomes durable, and the note says so.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use thermocline_core::Nanos;
use thermocline_engine::driver::Driver;
use thermocline_engine::{Cleaning, Engine, Request, RequestError, Shard};
use tracing::{error, info, warn};

use super::Service;
use super::choosing_status::ChoosingStatus;
use super::devices::AnyDriver;
use super::kept_note::Left;
use super::volume::{Seat, Volume};

/// Longest wait of an engine that ends for devices on which no operation succeeds, and the interval between looks.
const REST_LIMIT: Duration = Duration::from_secs(20);
const REST_POLL: Duration = Duration::from_micros(200);

/// The tag of the flush at the end; the tags of clients' requests are small numbers.
const LAST_FLUSH: u64 = u64::MAX;

/// A volume that is not served any more, with the engines of its shards.
pub(super) struct Ended {
    volume: Arc<Volume>,
    /// Or why it could not begin to serve.
    engines: Result<Vec<Engine<AnyDriver>>>,
    /// `true` if its dirty pages go to the backing store first.
    drains: bool,
}

/// The volumes of a server that has ended, as their shards come in from its threads.
#[derive(Default)]
pub(super) struct LeftBehind(Vec<Ended>);

impl LeftBehind {
    /// Take a shard.
    pub(super) fn add(&mut self, service: Service, seat: Seat) {
        let Seat { volume, mut begins, instruments, cleaning, .. } = seat;
        instruments.end_recording();
        let mut engine = service.into_inner().into_engine();
        let shard = engine.shard();
        let choosing = shard.choosing().map(ChoosingStatus::from);
        volume.choices.post(shard.options().share.index.into(), choosing.as_ref());
        // Rule 11: until the epoch is durable, an end may write to neither device.
        let has_begun = begins.finish(engine.shard_mut());
        let ended = self.of(volume, cleaning.drain_at_exit);
        // The other shards of a volume only say that the first one failed.
        let engines = std::mem::replace(&mut ended.engines, Ok(vec![]));
        ended.engines = engines.and_then(|mut engines| {
            has_begun?;
            engines.push(engine);
            Ok(engines)
        });
    }

    /// Return all volumes, with the shards of those that were on their way out.
    pub(super) fn into_volumes(mut self, departing: Vec<Arc<Volume>>) -> Vec<Ended> {
        for volume in departing {
            let given_up = volume.departure.take_engines();
            if !given_up.is_empty()
                && let Ok(engines) = &mut self.of(volume, false).engines
            {
                engines.extend(given_up);
            }
        }
        self.0
    }

    fn of(&mut self, volume: Arc<Volume>, drains: bool) -> &mut Ended {
        let known = self.0.iter().position(|ended| Arc::ptr_eq(&ended.volume, &volume));
        let place = known.unwrap_or(self.0.len());
        if known.is_none() {
            self.0.push(Ended { volume, engines: Ok(vec![]), drains });
        }
        &mut self.0[place]
    }
}

/// Leave the devices of all volumes in order, and say so in their notes. One that could not begin its
/// epoch was never written to, and does not keep others from that.
pub(super) fn leave_volumes(
    ended: Vec<Ended>,
    are_named: bool,
    sign_of_life: &mut dyn FnMut(),
) -> Result<()> {
    let mut not_durable: Vec<String> = vec![];
    let (mut ends, mut failed) = (vec![], Ok(()));
    for Ended { volume, engines, drains } in ended {
        let engines = match engines {
            Ok(engines) => engines,
            Err(error) => {
                failed = failed.and(Err(error));
                continue;
            }
        };
        let _span = volume.span.enter();
        volume.choices.store();
        let (left, is_durable) = leave_all(engines, drains, sign_of_life)?;
        if !is_durable {
            not_durable.push(volume.name.clone());
        }
        ends.extend(volume.note.clone().map(|note| (note, left)));
    }
    // A sync of the flash by the end of a note must not keep a failure from an engine.
    for (note, left) in ends {
        failed = failed.and(note.end(left));
    }
    failed?;
    let names = if are_named { format!(" of {}", not_durable.join(", ")) } else { String::new() };
    ensure!(
        not_durable.is_empty(),
        "not everything{names} could be made durable: writes that no client flushed may be lost"
    );
    Ok(())
}

/// Leave all shards of a volume. Returns how that left them, and whether everything is durable.
///
/// # Errors
/// If there is no shard.
pub(super) fn leave_all(
    engines: Vec<Engine<AnyDriver>>,
    drains: bool,
    sign_of_life: &mut dyn FnMut(),
) -> Result<(Left, bool)> {
    let left = engines.into_iter().map(|engine| leave(engine, drains, sign_of_life));
    let left = left.reduce(|(one, is_durable), (other, is_other_durable)| {
        (one.and(other), is_durable && is_other_durable)
    });
    left.context("there is a shard at least")
}

/// Makes everything durable, on disk or on flash, and lets go of the devices. Returns how that left the
/// engine, and whether everything is durable.
fn leave(
    mut engine: Engine<AnyDriver>,
    drains: bool,
    sign_of_life: &mut dyn FnMut(),
) -> (Left, bool) {
    if drains {
        info!(dirty_pages = engine.shard().dirty_slots(), "writing dirty pages back");
        engine.shard_mut().drain();
        come_to_rest(&mut engine, sign_of_life);
    }
    // Dirty pages of the flash may stay dirty.
    let cleaning = engine.shard().options().cleaning;
    engine.shard_mut().set_cleaning(Cleaning {
        dirty_ratio_target: 1.0,
        idle_after: None,
        ..cleaning
    });
    engine.shard_mut().stop();
    // Clients that are gone left replies; their frames are free from now on.
    take_reply(&mut engine, LAST_FLUSH);
    // Writes that no client flushed become durable, too, if the devices allow that.
    if let Err(error) = engine.submit(Request::flush(LAST_FLUSH), &[]) {
        error!(%error, "cannot make every write durable");
    }
    come_to_rest(&mut engine, sign_of_life);
    let flushed = take_reply(&mut engine, LAST_FLUSH);
    match flushed {
        Some(Ok(())) => {}
        Some(Err(error)) => error!(%error, "cannot make every write durable"),
        None => error!("cannot make every write durable: the flush got no answer"),
    }
    let lost = engine.shard().lost_pages();
    if !lost.is_empty() {
        warn!(pages = lost.len(), "pages whose newest bytes are lost");
    }
    let shard = engine.shard();
    let is_durable = flushed == Some(Ok(()));
    if is_durable {
        info!(dirty_pages = shard.dirty_slots(), "stopped in order");
    }
    let left = Left {
        // A shard that is not idle may have operations in flight, and its journal may not be sealed.
        is_orderly: is_durable && shard.is_idle(),
        is_clean: is_clean(shard),
        next_sequence: shard.next_sequence(),
    };
    (left, is_durable)
}

/// Takes all replies, and gives the result of the request with that tag if it is among them.
fn take_reply<D: Driver>(engine: &mut Engine<D>, tag: u64) -> Option<Result<(), RequestError>> {
    let mut result = None;
    while let Some(reply) = engine.next_reply() {
        if reply.tag == tag {
            result = Some(reply.result);
        }
        engine.release(reply);
    }
    result
}

/// Works until there is nothing left to do, or nothing has succeeded for long: a backing store that is
/// away must not keep the engine from ending.
fn come_to_rest(engine: &mut Engine<AnyDriver>, sign_of_life: &mut dyn FnMut()) {
    // Reads of the flash bring nothing forward: a page that the backing store refuses is read from there
    // for each new attempt.
    let successes = |engine: &Engine<AnyDriver>| {
        let counters = engine.shard().counters();
        let backing = counters.backing.reads + counters.backing.writes + counters.backing.syncs;
        let flash = counters.flash.writes + counters.flash.syncs;
        [(backing, counters.backing.errors), (flash, counters.flash.errors)]
            .map(|(operations, errors)| operations.saturating_sub(errors))
    };
    let (begun, start) = (engine.shard().now(), Instant::now());
    let (mut best, mut advanced_at) = (successes(engine), start);
    while !engine.shard().is_idle() {
        sign_of_life();
        let elapsed = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        engine.shard_mut().tick(Nanos(begun.0.saturating_add(elapsed)));
        if !engine.poll() {
            std::thread::sleep(REST_POLL);
        }
        let now = successes(engine);
        // Operations in flight count as successes until they fail.
        if now.iter().zip(&best).any(|(now, best)| now > best) {
            best = [now[0].max(best[0]), now[1].max(best[1])];
            advanced_at = Instant::now();
        } else if advanced_at.elapsed() > REST_LIMIT {
            error!("devices fail or do not answer");
            return;
        }
    }
}

/// Return `true` if the backing store has the newest bytes of every page.
pub(super) fn is_clean(shard: &Shard) -> bool {
    shard.dirty_slots() == 0 && shard.undurable_pages() == 0 && shard.lost_pages().is_empty()
}

#[cfg(test)]
mod tests {
    use thermocline_engine::driver::memory::MemoryDriver;
    use thermocline_engine::{Options, PolicyOptions};

    use super::*;

    #[test]
    fn the_last_flush_is_told_from_what_clients_left() {
        let policy = PolicyOptions::named("lru").unwrap();
        let shard = Shard::new(Options::new(64, 8, 0, policy)).unwrap();
        let driver = MemoryDriver::new(shard.frames(), shard.flash_bytes(), 64 << 12);
        let mut engine = Engine::new(shard, driver);
        engine.submit(Request::read(0, 0, 4096), &[]).unwrap();
        engine.submit(Request::flush(1), &[]).unwrap();
        engine.wait_until_idle();
        assert_eq!(take_reply(&mut engine, LAST_FLUSH), None, "others' replies are not its own");
        engine.submit(Request::write(2, 0, 4096), &[1; 4096]).unwrap();
        engine.submit(Request::flush(LAST_FLUSH), &[]).unwrap();
        engine.submit(Request::flush(3), &[]).unwrap();
        engine.wait_until_idle();
        assert_eq!(take_reply(&mut engine, LAST_FLUSH), Some(Ok(())));
        assert!(engine.next_reply().is_none(), "every reply was taken");
    }
}
