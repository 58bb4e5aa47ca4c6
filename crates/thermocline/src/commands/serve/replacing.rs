//! The replacement of the flash, step by step, between the requests of clients.
//!
//! All shards of all volumes take each step before any of them takes the next one, because they share the device:
//!
//! 1. *Leaving*: no slot of the old flash is written any more, and what is dirty there goes to the backing stores.
//!    Then every note says that no flash is needed.
//! 2. *Releasing*: the shards give the old flash up. When no operation needs it any more, every note names the new
//!    flash.
//! 3. *Taking*: each shard caches on its region of the new flash.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use thermocline_engine::driver::flash::FlashDevice;
use thermocline_engine::{Device, Engine, Lane, Shard};
use thermocline_nbd::server::Exports;
use tracing::{error, info};

use super::changes::Changes;
use super::control::Replacement;
use super::devices::AnyDriver;
use super::exchange::{Look, Report, Stage};
use super::new_flash::NewPart;
use super::volume::{Seat, Volume};
use super::{NOTE_INTERVAL, Service, Serving};

impl Report {
    fn is_refused(&self, replacement: &Replacement) -> bool {
        self.error.is_some() || (self.lost_pages > 0 && !replacement.forgets_lost)
    }

    /// Refuse to go on if a thread cannot, or pages are lost.
    fn check(self, replacement: &Replacement) -> Result<()> {
        let is_refused = self.is_refused(replacement);
        let Self { error, lost_pages, .. } = self;
        error.map_or(Ok(()), Err)?;
        ensure!(
            !is_refused,
            "{lost_pages} pages are lost, and another start would not know of them: write them as a whole, \
             or give them up with --yes; /status lists them"
        );
        Ok(())
    }
}

/// The replacement under way, if there is one.
#[derive(Default)]
pub(super) struct Replacing {
    current: Option<Current>,
}

struct Current {
    replacement: Replacement,
    volumes: Vec<Arc<Volume>>,
    stage: Stage,
    /// When a note could not be written last.
    failed_at: Option<Instant>,
}

impl Replacing {
    /// Takes the next step of all, if it can be taken now.
    pub(super) fn advance(&mut self, serving: &Serving<'_>, seats: &[Seat], changes: &mut Changes) {
        if self.current.is_none() {
            let Some(ordered) = serving.control.take_order() else { return };
            info!(flash = %ordered.flash.path.display(), "replacing the flash");
            match begin(&ordered, seats, changes) {
                Ok(volumes) => {
                    let (stage, failed_at) = (Stage::Leaving, None);
                    let replacement = ordered;
                    self.current = Some(Current { replacement, volumes, stage, failed_at });
                    serving.all.wake();
                }
                Err(error) => finish(serving, ordered, Err(error)),
            }
            return;
        }
        let Some(current) = &mut self.current else { return };
        let result = match current.step(changes) {
            Ok(Progress::None) => return,
            Ok(Progress::Step) => {
                if current.stage == Stage::Taking {
                    serving.control.has_taken(&current.replacement.flash);
                }
                return serving.all.wake();
            }
            Ok(Progress::End) => Ok(done(&current.replacement)),
            Err(error) => Err(error),
        };
        if let Some(current) = self.current.take() {
            current.volumes.iter().for_each(|volume| volume.exchange.end());
            serving.all.wake();
            finish(serving, current.replacement, result);
        }
    }
}

fn finish(serving: &Serving<'_>, replacement: Replacement, result: Result<String>) {
    match &result {
        Ok(_) => info!("replaced the flash: change `flash.path` before the next start"),
        Err(error) => error!(error = format!("{error:#}"), "did not replace the flash"),
    }
    let flash = &replacement.flash;
    if result.is_ok()
        && let (Some(members), Some(old)) = (flash.members.clone(), flash.joins.clone())
    {
        let control = serving.control.clone();
        // The first thread serves clients: it does not wait for the old flash to be closed.
        let join = move || {
            let begun = members.begin_second(&old, replacement.flash.rate_bytes);
            control.has_ended();
            let copied = begun.and_then(|waits| waits.recv()?);
            let (new, old) = (replacement.flash.path.display(), old.display());
            let copied = copied.map(|_| done(&replacement)).with_context(|| {
                format!(
                    "the server caches on `{new}` now, which is not mirrored: set `flash.path` to it and \
                     `flash.mirror` to `{old}` in the configuration; then mirror it with `cache replace --member {old} \
                     --flash {old} --force-init`"
                )
            });
            replacement.finish(copied);
        };
        let thread = std::thread::Builder::new().name("second device".into()).spawn(join);
        if let Err(error) = thread {
            error!(%error, "the old flash did not become the second device");
            serving.control.has_ended();
        }
        return;
    }
    serving.control.has_ended();
    replacement.finish(result);
}

/// Begins with all volumes that use the flash.
fn begin(replacement: &Replacement, seats: &[Seat], changes: &Changes) -> Result<Vec<Arc<Volume>>> {
    ensure!(
        !changes.is_busy(),
        "a volume is being added or removed, or grows: try again when that is done"
    );
    let volumes = seats.iter().map(|seat| Arc::clone(&seat.volume));
    let volumes: Vec<_> = volumes.filter(|volume| volume.has_flash).collect();
    let parts = &replacement.flash.parts;
    let mut begun = vec![];
    for volume in &volumes {
        let part = parts.iter().find(|part| part.name == volume.name);
        let part = part.with_context(|| format!("volume `{}` is new", volume.name))?;
        volume.note.as_ref().context("the server was started without a flash")?;
        begun.push((volume, Arc::clone(part)));
    }
    ensure!(!begun.is_empty(), "the server was started without a flash");
    // Only after all were checked: they share the device, so all of them leave it, or none does.
    for (volume, part) in begun {
        volume.exchange.begin(part);
    }
    Ok(volumes)
}

/// Outcome of a look at all threads.
enum Progress {
    None,
    Step,
    End,
}

impl Current {
    /// Takes the step that the first thread takes for all, once all threads are done with theirs.
    fn step(&mut self, changes: &Changes) -> Result<Progress> {
        let all = self.reports();
        // A note may say already that the flash is not needed: nobody stays with it then.
        let may_stay = self.stage == Stage::Leaving && self.failed_at.is_none();
        let is_refused = may_stay && all.is_refused(&self.replacement);
        if !all.is_done && !is_refused {
            return Ok(Progress::None);
        }
        if self.stage != Stage::Leaving || may_stay {
            let context = "the old flash is no longer used: the engine runs without one";
            let checked = all.check(&self.replacement);
            if may_stay { checked? } else { checked.context(context)? }
        }
        if self.failed_at.is_some_and(|at| at.elapsed() < NOTE_INTERVAL) {
            return Ok(Progress::None);
        }
        let next = match self.stage {
            // From here on no start takes the old flash, which has nothing that the backing stores lack.
            Stage::Leaving => Stage::Releasing,
            // From now on the new flash may have what they lack.
            Stage::Releasing => Stage::Taking,
            Stage::Taking => return Ok(Progress::End),
        };
        if let Err(error) = self.tell_notes(next) {
            let error = format!("{error:#}");
            error!(error, "a note cannot be written: the replacement waits until it can");
            self.failed_at = Some(Instant::now());
            return Ok(Progress::None);
        }
        if next == Stage::Taking {
            // Volumes that are added later come to the new flash.
            changes.use_flash(&self.replacement.flash)?;
        }
        (self.failed_at, self.stage) = (None, next);
        self.volumes.iter().for_each(|volume| volume.exchange.advance(next));
        Ok(Progress::Step)
    }

    /// Return what all threads found.
    fn reports(&self) -> Report {
        let mut all = Report { is_done: true, ..Report::default() };
        self.volumes.iter().for_each(|volume| volume.exchange.add_reports(&mut all));
        all
    }

    /// Says in every note that the step begins.
    fn tell_notes(&self, next: Stage) -> Result<()> {
        for volume in &self.volumes {
            let _span = volume.span.enter();
            let Some(note) = &volume.note else { continue };
            match (next, volume.exchange.part()) {
                (Stage::Leaving, _) | (_, None) => {}
                (Stage::Releasing, Some(_)) => note.leave_flash()?,
                (Stage::Taking, Some(part)) => {
                    let superblock = *part.contents.superblock();
                    let owner = (superblock.cache, superblock.epoch);
                    let members = self.replacement.flash.members.as_ref();
                    let mirror = members.map(|members| &members.notes);
                    note.take_flash(part.file.try_clone()?, owner, mirror)?;
                }
            }
        }
        Ok(())
    }
}

impl Seat {
    /// Do this thread's part of the replacement of the flash.
    pub(super) fn exchange(&mut self, exports: &mut Exports<Service>, thread: usize) {
        let place = self.place;
        if self.exchange_flash(exports.service_mut(place), thread)
            && let Err(error) = exports.find_descriptors(place)
        {
            error!(%error, "the second device of the flash is only looked at now and then");
        }
    }

    /// Do the same with the service. Returns `true` if it has another driver.
    fn exchange_flash(&mut self, service: &mut Service, thread: usize) -> bool {
        let engine = service.inner_mut().engine_mut();
        let Some(Look { stage, part, has_reported }) = self.volume.exchange.look(thread) else {
            if std::mem::take(&mut self.is_exchanging)
                && let Err(error) = engine.shard_mut().stay_with_flash()
            {
                error!(%error, "the policy cannot use the flash again: serving from RAM");
            }
            return false;
        };
        self.is_exchanging = true;
        if stage == Stage::Taking && has_reported {
            return false;
        }
        let stepped = match stage {
            Stage::Leaving => leave(engine.shard_mut(), &part),
            Stage::Releasing => Ok(release(engine.shard_mut())),
            Stage::Taking => take(engine, &part).map(|()| true),
        };
        let lost_pages = engine.shard().lost_pages().len();
        let is_taking = stage == Stage::Taking;
        let (is_done, error) = match stepped {
            Ok(is_done) => (is_done, None),
            Err(error) => (is_taking, Some(error)),
        };
        let report = Report { is_done, lost_pages, error };
        self.volume.exchange.report(thread, stage, report);
        is_taking
    }
}

/// Leaves the old flash. Returns `true` if the backing store has all that it has.
fn leave(shard: &mut Shard, part: &NewPart) -> Result<bool> {
    if shard.has_flash() {
        let index = usize::from(shard.options().share.index);
        let options = &part.options[index];
        shard.check_flash(options.flash_pages, &options.policy, &part.contents.flashes()[index])?;
    }
    // One that failed may have had durably what is only in RAM now.
    shard.leave_flash();
    Ok(shard.has_left_flash() || shard.has_given_up_flash())
}

/// Gives the old flash up. Returns `true` if no operation needs it any more.
fn release(shard: &mut Shard) -> bool {
    if shard.has_left_flash() {
        shard.release_flash();
    }
    shard.leave_flash();
    shard.is_flash_released()
}

/// Caches on the shard's region of the new flash.
fn take(engine: &mut Engine<AnyDriver>, part: &NewPart) -> Result<()> {
    let index = usize::from(engine.shard().options().share.index);
    let (options, contents) = (&part.options[index], &part.contents.flashes()[index]);
    // Checked again: the policy may have changed since the old flash was left.
    engine.shard().check_flash(options.flash_pages, &options.policy, contents)?;
    let flash = part.file.region(part.contents.range(index))?;
    match &flash {
        FlashDevice::One(file) => {
            let syncs = part.syncs.as_ref().map(|syncs| syncs.join(Lane::FIRST)).transpose()?;
            engine.driver().set_flash(file.try_clone()?, syncs)?;
        }
        FlashDevice::Two(pair) => {
            // From here on the driver has all operations that the shard counts.
            engine.poll();
            let in_flight = engine.shard().operations_in_flight(Device::Backing);
            let frames = Arc::clone(engine.shard().frames());
            let drive = (part.io, &frames);
            engine.driver().set_pair(drive, &flash, part.syncs.as_ref(), in_flight)?;
            engine.shard_mut().mirror_with(Arc::clone(pair.mirror()));
        }
    }
    let policy = options.policy.clone();
    Ok(engine.shard_mut().take_flash(options.flash_pages, policy, contents)?)
}

fn done(replacement: &Replacement) -> String {
    let path = replacement.flash.path.display();
    if let Some(mirror) = &replacement.flash.mirror {
        let mirror = mirror.display();
        return format!(
            "the server caches on `{path}` and `{mirror}` now, which mirror each other\nset `flash.path` and \
             `flash.mirror` (and `flash.size`, if you gave --size) in the configuration before the next start: with the \
             old flash alone it is refused\n"
        );
    }
    format!(
        "the server caches on `{path}` now\nset `flash.path` (and `flash.size`, if you gave --size) in \
         the configuration before the next start: with the old flash it is refused\n"
    )
}
