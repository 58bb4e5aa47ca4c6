//! Volumes that come and go while the server runs.
//!
//! A thread of its own opens the devices of a new volume, and leaves those of a volume that is gone: recovery,
//! a set-up and a sync may take long, and the other volumes are served meanwhile. It takes one change after
//! the other, so that only one at a time changes the directory of the flash.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use thermocline_engine::Engine;
use thermocline_nbd::server::{Exports, Handle};
use tracing::{error, info};

use super::board::Boards;
use super::config::{Config, Resource, Volumes, WantedFlash};
use super::departure::Stage;
use super::devices::AnyDriver;
use super::ending::leave_all;
use super::listening::Ways;
use super::new_flash::NewFlash;
use super::ranges::VolumeRanges;
use super::shadows;
use super::shared_flash::{OtherFlash, SharedFlash};
use super::sharing::Sharing;
use super::volume::{Notes, Part, Prepared, Seat, Served, Volume};
use super::{Service, Serving};
use crate::bytes::Bytes;

/// Interval between two looks for the end of the thread when the server ends.
const END_POLL: Duration = Duration::from_millis(10);

/// Shares of a volume in RAM and in the flash.
type Shares = [Bytes; 2];

/// Volumes on their way in and out, for the first thread.
pub(super) struct Changes {
    jobs: Sender<Job>,
    done: Receiver<Done>,
    thread: JoinHandle<()>,
    /// Shares of the volumes that the thread opens or leaves.
    pending: BTreeMap<String, Shares>,
    /// Volumes that the threads of the shards still have.
    departing: Vec<Arc<Volume>>,
    /// RAM and flash that move between volumes.
    sharing: Vec<Sharing>,
}

/// Work for the thread.
enum Job {
    /// Open the volume of that name in a configuration.
    Add(Arc<Volumes>, String),
    /// Leave the devices of a volume that is served no more, and take it off the flash.
    Remove(Arc<Volume>, Vec<Engine<AnyDriver>>),
    /// Use another flash for volumes that come later.
    UseFlash(OtherFlash),
    /// Make durable that the backing store of a volume has grown to that many pages.
    Grow(Arc<Volume>, u64),
    /// Give each shard of a volume so many slots on the flash, for a share.
    Extend(Arc<Volume>, RangeInclusive<u32>, WantedFlash),
    /// Take the room from a volume that has just started and does not use it.
    Look(Arc<Volume>),
    /// Take the room from a volume that its shards have left: per shard, the slots that it goes on with, if these
    /// are fewer; and its share.
    Reduce(Arc<Volume>, Vec<Option<u32>>, Bytes),
}

/// A change that the thread is done with.
struct Done {
    name: String,
    /// The shards of a volume that was opened.
    parts: Vec<Part>,
}

/// State that the thread works on.
pub(super) struct Shared {
    pub(super) flash: SharedFlash,
    /// The servers of all shards.
    pub(super) all: Handle,
    pub(super) boards: Boards,
    pub(super) ranges: VolumeRanges,
    pub(super) notes: Notes,
    pub(super) served: Served,
}

impl Changes {
    /// Start the thread.
    ///
    /// # Errors
    /// If the system gives none.
    pub(super) fn start(shared: Shared, sharing: Vec<Sharing>) -> Result<Self> {
        let ((jobs, taken), (sender, done)) = (channel(), channel());
        let work = move || shared.work(&taken, &sender);
        let thread = std::thread::Builder::new().name("volumes".into()).spawn(work);
        let thread = thread.context("cannot start the thread that opens volumes")?;
        let (pending, departing) = (BTreeMap::new(), vec![]);
        Ok(Self { jobs, done, thread, pending, departing, sharing })
    }

    /// Begin to add a volume.
    ///
    /// # Errors
    /// If it does not fit beside the others, or must be there when the server starts.
    pub(super) fn add(
        &mut self,
        configs: &Arc<Volumes>,
        config: &Config,
        seats: &[Seat],
    ) -> Result<()> {
        let name = &config.nbd.export;
        for (key, is_given) in [
            ("[vhost_user]", config.vhost_user.is_some()),
            ("[ublk]", config.ublk.is_some()),
            ("`ram.size = \"auto\"`", Resource::Ram.moving(config).is_some()),
            ("`flash.size = \"auto\"`", Resource::Flash.moving(config).is_some()),
        ] {
            ensure!(
                !is_given,
                "{key}: a volume with this is added when the server starts: leave it out, or restart"
            );
        }
        let others = seats.iter().map(|seat| &seat.volume).chain(&self.departing);
        let mut shares: BTreeMap<&str, Shares> =
            others.map(|volume| (&*volume.name, volume.shares())).collect();
        // Shares on their way count already.
        shares.extend(self.pending.iter().map(|(name, shares)| (&**name, *shares)));
        // No volume is without a name.
        shares.insert("", Resource::ALL.map(|resource| self.moving(resource)));
        ensure!(
            !shares.contains_key(&**name),
            "it is still being added or removed: read the configuration again when that is done"
        );
        let own = [config.ram.size, config.flash.as_ref().map_or(Bytes(0), |flash| flash.size)];
        shares.insert(name, own);
        for (tier, [limit, sum]) in ["ram", "flash"].into_iter().zip(configs.sizes(&shares)) {
            ensure!(
                sum <= limit,
                "`{tier}.size` is {limit} bytes, and the shares are {sum} bytes together with those that run \
                 now: shares of volumes that stay change with a restart, and those of volumes that leave are \
                 free when they are gone"
            );
        }
        self.send(Job::Add(Arc::clone(configs), name.clone()), name, own)
    }

    /// Begin to remove a volume that left the configuration.
    ///
    /// # Errors
    /// If it cannot be removed while the server runs.
    pub(super) fn remove(&mut self, volume: &Arc<Volume>) -> Result<()> {
        ensure!(
            !volume.has_doors,
            "a volume with [vhost_user] or [ublk] is removed when the server is stopped: put it back into the \
             configuration, or stop the server and use `thermocline cache remove-volume`"
        );
        volume.departure.begin();
        if !self.departing.iter().any(|other| other.name == volume.name) {
            self.departing.push(Arc::clone(volume));
        }
        Ok(())
    }

    /// Begin to serve that many pages of a volume's backing store, which has grown.
    ///
    /// # Errors
    /// If the thread has died.
    pub(super) fn grow(&mut self, volume: &Arc<Volume>, pages: u64) -> Result<()> {
        self.send(Job::Grow(Arc::clone(volume), pages), &volume.name, volume.shares())
    }

    /// Begin to give each shard of a volume so many slots on the flash, for a share.
    ///
    /// # Errors
    /// If the thread has died.
    pub(super) fn extend(
        &mut self,
        volume: &Arc<Volume>,
        slots: RangeInclusive<u32>,
        wanted: WantedFlash,
    ) -> Result<()> {
        let [ram, _] = volume.shares();
        let job = Job::Extend(Arc::clone(volume), slots, wanted);
        // Shares that move are counted for all together.
        let counted = if volume.flash_moves { Bytes(0) } else { wanted.share };
        self.send(job, &volume.name, [ram, counted])
    }

    /// Look whether a volume that has just started has room that it does not use. Nothing waits for that.
    pub(super) fn look(&self, volume: &Arc<Volume>) {
        // A change that somebody waits for says that the thread has died.
        drop(self.jobs.send(Job::Look(Arc::clone(volume))));
    }

    /// Begin to take the room from a volume that its shards have left: per shard, the slots that it goes on with, if
    /// these are fewer.
    ///
    /// # Errors
    /// If the thread has died.
    pub(super) fn reduce(
        &mut self,
        volume: &Arc<Volume>,
        left: Vec<Option<u32>>,
        share: Bytes,
    ) -> Result<()> {
        let job = Job::Reduce(Arc::clone(volume), left, share);
        self.send(job, &volume.name, volume.shares())
    }

    /// Return `true` while a volume comes, goes or grows.
    pub(super) fn is_busy(&self) -> bool {
        !self.pending.is_empty() || !self.departing.is_empty()
    }

    /// Use another flash for volumes that come later, which all others use now.
    ///
    /// # Errors
    /// If the thread has died.
    pub(super) fn use_flash(&self, flash: &NewFlash) -> Result<()> {
        let job = Job::UseFlash(OtherFlash {
            file: flash.file.try_clone()?,
            path: flash.path.clone(),
            syncs: flash.syncs.clone(),
            members: flash.members.clone(),
        });
        ensure!(self.jobs.send(job).is_ok(), "the thread that opens volumes has died");
        Ok(())
    }

    /// Take the next step of each volume that is on its way out.
    pub(super) fn advance(&mut self, serving: &Serving<'_>) {
        for volume in std::mem::take(&mut self.departing) {
            let _span = volume.span.enter();
            let before = volume.departure.stage();
            let engines = volume.departure.advance(&volume);
            let now = volume.departure.stage();
            if now != before {
                serving.all.wake();
            }
            match engines {
                Some(engines) => {
                    let job = Job::Remove(Arc::clone(&volume), engines);
                    if let Err(error) = self.send(job, &volume.name, volume.shares()) {
                        error!(%error, "cannot leave the volume's devices");
                    }
                }
                None if now == Stage::Staying => {}
                None => self.departing.push(Arc::clone(&volume)),
            }
        }
    }

    /// Return the bytes of a resource that the volumes have together whose shares of it move.
    fn moving(&self, resource: Resource) -> Bytes {
        let sharing = self.sharing.iter().find(|sharing| sharing.resource == resource);
        sharing.map_or(Bytes(0), |sharing| sharing.total)
    }

    /// Check that shares of the flash that do not move leave those that do what these have.
    ///
    /// # Errors
    /// If they do not.
    pub(super) fn check_flash_shares(&self, configs: &Volumes) -> Result<()> {
        let moving = self.moving(Resource::Flash).0;
        let fixed = configs.each().iter();
        let fixed = fixed.filter(|config| Resource::Flash.moving(config).is_none());
        let sum =
            fixed.fold(moving, |sum, config| sum.saturating_add(Resource::Flash.size(config).0));
        let limit = configs.bytes(Resource::Flash).0;
        ensure!(
            moving == 0 || sum <= limit,
            "`flash.size` is {limit} bytes, and the shares are {sum} bytes with the {moving} bytes that move \
             between volumes: these keep what they have together until a restart"
        );
        Ok(())
    }

    /// Let RAM and flash go to the volumes that gain most.
    pub(super) fn share(&mut self, serving: &Serving<'_>, seats: &[Seat]) {
        for number in 0..self.sharing.len() {
            // A curve is that at the present share of the other one.
            let mut others = self.sharing.iter().enumerate().filter(|(other, _)| *other != number);
            let may_look = others.all(|(_, sharing)| sharing.is_settled);
            self.sharing[number].advance(serving, seats, may_look);
        }
    }

    /// Hand the shards of volumes that were opened to their threads. Returns the seats in the first one.
    pub(super) fn take_added(
        &mut self,
        serving: &Serving<'_>,
        exports: &mut Exports<Service>,
    ) -> Vec<Seat> {
        let mut seats = vec![];
        for Done { name, parts } in self.done.try_iter() {
            self.pending.remove(&name);
            let mut parts = parts.into_iter();
            let Some(first) = parts.next() else { continue };
            match first.sit_down(exports) {
                Ok(seat) => seats.push(seat),
                Err(error) => {
                    error!(volume = name, %error, "did not add the volume");
                    continue;
                }
            }
            for (thread, part) in parts.enumerate() {
                serving.inboxes.put(thread + 1, part);
            }
            serving.all.wake();
        }
        seats
    }

    /// End the thread, once it is done with what it has begun. Returns the shards that no thread has, and the
    /// volumes that were on their way out.
    pub(super) fn finish(self, beat: &mut dyn FnMut()) -> (Vec<Part>, Vec<Arc<Volume>>) {
        let Self { jobs, done, thread, departing, .. } = self;
        // The thread ends once it has done all that it was sent.
        drop(jobs);
        while !thread.is_finished() {
            beat();
            std::thread::sleep(END_POLL);
        }
        (done.try_iter().flat_map(|done| done.parts).collect(), departing)
    }

    fn send(&mut self, job: Job, name: &str, shares: Shares) -> Result<()> {
        if self.jobs.send(job).is_err() {
            bail!("the thread that opens volumes has died");
        }
        self.pending.insert(name.to_owned(), shares);
        Ok(())
    }
}

impl Shared {
    fn work(mut self, jobs: &Receiver<Job>, done: &Sender<Done>) {
        for job in jobs {
            let (name, parts) = match job {
                Job::Add(configs, name) => {
                    let span = configs.of(&name).map(|config| configs.span(config));
                    let _span = span.as_ref().map(tracing::Span::enter);
                    let parts = self.add(&configs, &name).unwrap_or_else(|error| {
                        error!(error = format!("{error:#}"), "did not add the volume");
                        vec![]
                    });
                    (name, parts)
                }
                Job::Remove(volume, engines) => {
                    let name = volume.name.clone();
                    let span = volume.span.clone();
                    let _span = span.enter();
                    match self.remove(volume, engines) {
                        Ok(()) => info!("the volume is gone"),
                        Err(error) => error!(
                            error = format!("{error:#}"),
                            "the volume is not served any more, but not all traces of it are gone"
                        ),
                    }
                    (name, vec![])
                }
                Job::UseFlash(flash) => {
                    self.flash.replace(flash);
                    continue;
                }
                Job::Grow(volume, pages) => {
                    let _span = volume.span.enter();
                    if let Err(error) = volume.make_growth_durable(pages) {
                        let error = format!("{error:#}");
                        error!(error, "the backing store has grown, but the volume keeps its size");
                    }
                    (volume.name.clone(), vec![])
                }
                Job::Look(volume) => {
                    let _span = volume.span.enter();
                    if let Err(error) = volume.give_back_unused(&self.flash) {
                        let error = format!("{error:#}");
                        error!(error, "room that the volume does not use stays with it");
                    }
                    continue;
                }
                Job::Reduce(volume, left, share) => {
                    let _span = volume.span.enter();
                    if let Err(error) = volume.reduce_flash(&self.flash, &left, share) {
                        let error = format!("{error:#}");
                        error!(error, "room that the volume does not use stays with it");
                    }
                    (volume.name.clone(), vec![])
                }
                Job::Extend(volume, slots, wanted) => {
                    let _span = volume.span.enter();
                    if let Err(error) = volume.extend_flash(&self.flash, slots, wanted) {
                        let error = format!("{error:#}");
                        error!(
                            error,
                            "the flash does not grow, and the policy keeps its pages of it"
                        );
                    }
                    (volume.name.clone(), vec![])
                }
            };
            // A server that takes nothing any more has ended, and asks for what is left.
            drop(done.send(Done { name, parts }));
            self.all.wake();
        }
    }

    /// Open the devices of a volume.
    fn add(&mut self, configs: &Volumes, name: &str) -> Result<Vec<Part>> {
        let config = configs.of(name).context("the configuration has no such volume")?;
        let wanted = shadows::options(config)?;
        let opened = self.flash.add(configs, config)?;
        let mut ways = Ways::default();
        let prepared = Prepared::new(configs, config, opened, &wanted, &mut ways)?;
        let volume = Arc::clone(&prepared.volume);
        let parts = Part::all(prepared.begin(&self.all, &self.notes)?);
        self.boards.add(name, volume.board.clone());
        self.ranges.add(name, &volume.ranges);
        self.served.add(&volume);
        Ok(parts)
    }

    /// Leave the devices of a volume of which the backing store has everything, and take its region off the
    /// flash.
    fn remove(&mut self, volume: Arc<Volume>, engines: Vec<Engine<AnyDriver>>) -> Result<()> {
        self.boards.remove(&volume.name);
        self.ranges.remove(&volume.name);
        volume.choices.store();
        let (left, is_durable) = leave_all(engines, false, &mut || ())?;
        ensure!(is_durable, "its backing store failed at the end");
        // The note before the directory: a crash in between leaves a region that nobody needs, not a
        // note that asks for one that is gone.
        volume.note.as_ref().map_or(Ok(()), |note| note.end(left))?;
        let (name, has_flash) = (volume.name.clone(), volume.has_flash);
        // The note's lock of the backing store, too: whoever comes next may have that.
        drop(volume);
        if has_flash {
            self.flash.remove(&name).context(
                "its region stays on the flash, where nothing needs it: the next start removes it",
            )?;
        }
        Ok(())
    }
}
