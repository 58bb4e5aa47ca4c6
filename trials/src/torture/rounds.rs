//! The rounds: a server under load, a fault, an end, and a full read after the next start.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use thermocline_core::random::SplitMix64;
use thermocline_nbd::protocol::Command;

use super::client::Client;
use super::disk::{Disk, Fault, SECTOR, VolatileFile};
use super::faults::{self, Injected};
use super::fuse::Mount;
use super::load::{Image, Knowledge, Load, Shared, decode_all, lock, sweep};
use super::oracle::Found;
use super::plan::{End, Kind, Plan, Settings, Shape};
use super::server::{self, GLANCE, PATIENCE, Server, Started};

/// Sectors of the export.
const SECTORS: usize = 12 << 20 >> 9;
/// Load is waited for no longer than this: under a fault there may be few answers.
const LOAD_TIME_MAX: Duration = Duration::from_secs(2);
/// A device hangs longer than the server's `backing.timeout`, by up to a second.
const HANG_MIN: Duration = Duration::from_millis(600);
/// A second server waits for the first one's locks this long, and some more.
const LOCK_TIME: Duration = Duration::from_secs(15);

/// History of the flash, as far as the next start has to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flash {
    Good,
    /// It failed, and a flush succeeded since: all but the lost pages is in the backing store.
    Failed,
    /// It may have failed, and nothing was flushed since.
    Doubtful,
}

/// The files, and what is known of them.
#[derive(Debug)]
pub(super) struct Torture {
    program: PathBuf,
    folder: PathBuf,
    pub(super) mount: Mount,
    pub(super) shared: Shared,
    policies: Vec<String>,
    policies_without_flash: Vec<String>,
    seed: u64,
    only: Option<Kind>,
    shape: Shape,
    flash: Flash,
    has_flash: bool,
    /// Sectors whose pages rotted since they were last read in full.
    rotten: BTreeSet<usize>,
    pub(super) starts: u64,
    /// The last fault of a device, for a reader who looks into a violation.
    pub(super) fault: Option<Fault>,
    wants_end: Arc<AtomicBool>,
}

impl Torture {
    /// Mounts the files, and finds the policies to serve them with.
    ///
    /// # Errors
    /// If FUSE does not work here, or the program does not.
    pub(super) fn new(
        program: &Path,
        folder: &Path,
        seed: u64,
        only: Option<Kind>,
        wants_end: &Arc<AtomicBool>,
    ) -> Result<Self> {
        let mountpoint = folder.join("disk");
        fs::create_dir_all(&mountpoint)?;
        let mut disk = Disk::new(seed);
        disk.add("backing.img", VolatileFile::zeroed(SECTORS * SECTOR));
        let config = folder.join("cache.toml");
        let policies = |has_flash| {
            server::policies(program, &config, |name| {
                let settings = Settings::plain(name);
                let text = settings.text(Shape::SMALLEST, has_flash, &mountpoint, "s.sock");
                Ok(fs::write(&config, text)?)
            })
        };
        let (with, without) = (policies(true)?, policies(false)?);
        ensure!(with.len() > 5 && !without.is_empty(), "the engine serves {with:?}, {without:?}");
        Ok(Self {
            program: program.to_owned(),
            folder: folder.to_owned(),
            mount: Mount::new(disk, &mountpoint)?,
            shared: Arc::new(Mutex::new(Knowledge::new(SECTORS))),
            policies: with,
            policies_without_flash: without,
            seed,
            only,
            shape: Shape::draw(&mut SplitMix64::new(seed)),
            flash: Flash::Good,
            has_flash: true,
            rotten: BTreeSet::new(),
            starts: 0,
            fault: None,
            wants_end: Arc::clone(wants_end),
        })
    }

    /// Draws a round.
    pub(super) fn plan(&self, number: u64) -> Plan {
        let mut random = SplitMix64::new(self.seed.wrapping_add(number << 32));
        let policies = if self.has_flash { &self.policies } else { &self.policies_without_flash };
        let mut plan = Plan::draw(&mut random, policies, self.only);
        if !self.has_flash && !matches!(plan.kind, Kind::BackingFails | Kind::Hang) {
            plan.kind = Kind::Kill;
        }
        plan
    }

    /// Performs a round.
    ///
    /// # Errors
    /// If a check finds a violation, or anything else fails.
    pub(super) fn round(&mut self, plan: &Plan) -> Result<()> {
        let mut random = SplitMix64::new(plan.load_seed);
        if plan.kind == Kind::FailedStart {
            self.fail_start(plan, &mut random)?;
        }
        let server = self.open(plan)?;
        self.settle(&server)?;
        let was_without_flash = !self.has_flash;
        lock(&self.shared).is_read_only = plan.settings.mode == "read-only";
        let load = Load::start(&self.shared, server.socket(), plan.load_seed);
        self.work(plan.requests);
        self.inject(plan, &mut random)?;
        let load = if plan.kind.is_of_device() && !plan.is_cut_short {
            self.mount.heal();
            load.finish()?;
            self.recover(&server)?;
            None
        } else {
            Some(load)
        };
        self.end(plan, server, load, &mut random)?;
        if plan.kind == Kind::RotAtRest {
            self.rot_at_rest(plan, &mut random);
        } else if plan.kind == Kind::RotMetadata {
            self.rot_metadata(&mut random);
        } else if plan.kind == Kind::Drain && self.rotten.is_empty() {
            self.drain(&mut random)?;
        }
        if was_without_flash {
            self.replace_flash(&mut random);
        }
        let knowledge = &mut *lock(&self.shared);
        if let Some(violation) = knowledge.violation.take() {
            bail!("{violation}");
        }
        Ok(())
    }

    /// Wait for answers; under a fault, not for long.
    fn work(&self, requests: u64) {
        let goal = lock(&self.shared).requests + requests;
        let deadline = Instant::now() + LOAD_TIME_MAX;
        while lock(&self.shared).requests < goal
            && Instant::now() < deadline
            && !self.wants_end.load(Ordering::Acquire)
        {
            thread::sleep(GLANCE);
        }
    }

    /// Inject the fault, and run some load under it.
    fn inject(&mut self, plan: &Plan, random: &mut SplitMix64) -> Result<()> {
        if plan.kind == Kind::RotRunning {
            self.rot_slots(random);
        } else if plan.kind == Kind::DoubleStart {
            self.start_twice(plan, random)?;
        } else if plan.kind.is_of_device() {
            lock(&self.shared).open_window();
            let injected = faults::inject(&self.mount, plan.kind, self.has_flash, random);
            self.note_fault(injected);
        }
        if plan.kind == Kind::Hang {
            thread::sleep(HANG_MIN + Duration::from_millis(random.below(1000).into()));
        } else {
            self.work(plan.requests);
        }
        Ok(())
    }

    fn note_fault(&mut self, injected: Injected) {
        if injected.hits_flash {
            self.flash = Flash::Doubtful;
        }
        self.fault = injected.fault;
    }

    /// Starts a server on the files. A flash that failed must be refused, and is replaced then.
    fn open(&mut self, plan: &Plan) -> Result<Server> {
        for _ in 0..2 {
            let socket = self.configure(plan)?;
            self.starts += 1;
            let (config, log) = (self.folder.join("cache.toml"), self.log());
            if log.exists() {
                fs::rename(&log, self.folder.join("former.log"))?;
            }
            let is_old = self.flash == Flash::Failed && self.holds_pages()?;
            match Server::start(&self.program, &config, &log, &socket)? {
                Started::Ready(server) => {
                    ensure!(
                        !is_old,
                        "a flash that failed was used again, although the backing store is newer"
                    );
                    if self.flash == Flash::Failed {
                        self.give_up_doubted();
                    }
                    self.flash = Flash::Good;
                    return Ok(server);
                }
                Started::Refused(log) => {
                    let is_old = log.contains("old copy") || log.contains("not the newest");
                    ensure!(
                        is_old && self.flash != Flash::Good,
                        "the server does not start: {log}"
                    );
                    self.give_up_flash(&mut SplitMix64::new(plan.load_seed))?;
                }
            }
        }
        bail!("the server does not start with a new flash either")
    }

    fn configure(&self, plan: &Plan) -> Result<PathBuf> {
        let socket = self.folder.join("serve.sock");
        let text = plan.settings.text(
            self.shape,
            self.has_flash,
            self.mount.path(),
            &socket.display().to_string(),
        );
        fs::write(self.folder.join("cache.toml"), text)?;
        Ok(socket)
    }

    /// Return the log of the last start.
    pub(super) fn log(&self) -> PathBuf {
        self.folder.join("server.log")
    }

    /// Give up a flash that failed: the backing store has what was flushed since, and nothing else
    /// is certain.
    fn give_up_flash(&mut self, random: &mut SplitMix64) -> Result<()> {
        let backing = self.mount.path().join("backing.img").display().to_string();
        server::command(&self.program, &["cache", "forget", "--backing", &backing, "--yes"])?;
        {
            let knowledge = &mut *lock(&self.shared);
            if self.flash == Flash::Doubtful {
                let all = 0..knowledge.oracle.sectors();
                knowledge.oracle.give_up(all);
            }
        }
        self.give_up_doubted();
        self.replace_flash(random);
        Ok(())
    }

    /// Note that the pages that were lost have bytes again, of whatever age.
    fn give_up_doubted(&self) {
        let knowledge = &mut *lock(&self.shared);
        for sector in std::mem::take(&mut knowledge.doubted) {
            knowledge.oracle.give_up(sector..sector + 1);
        }
    }

    /// Return `true` if the flash holds pages. An empty one may be used even if it failed.
    fn holds_pages(&self) -> Result<bool> {
        let flash = self.mount.path().join("flash.img").display().to_string();
        let said = server::command(&self.program, &["cache", "inspect", &flash, "--json"])?;
        let said: Value = serde_json::from_str(&said).context("`cache inspect` prints no JSON")?;
        Ok(said["held_pages"] != 0)
    }

    /// Takes the flash away; the next start makes another.
    fn replace_flash(&mut self, random: &mut SplitMix64) {
        self.mount.with(|disk| {
            disk.remove("flash.img");
            disk.sync_names();
        });
        self.shape = Shape::draw(random);
        self.flash = Flash::Good;
        self.has_flash = true;
        self.rotten.clear();
    }

    /// Reads everything after a start. Pages that are read stay; pages that cannot be read must be lost.
    fn settle(&mut self, server: &Server) -> Result<()> {
        let image = sweep(server.socket(), SECTORS).context("the full read after the start")?;
        let is_whole = unread(&image).next().is_none();
        let lost = if is_whole { BTreeSet::new() } else { lost_sectors(&server.status()?) };
        let knowledge = &mut *lock(&self.shared);
        for (first, found) in runs(&image) {
            let settled = knowledge.oracle.settle(first, &found);
            settled.map_err(|violation| anyhow::anyhow!("after the start: {violation}"))?;
            knowledge.checked_sectors += found.len() as u64;
        }
        for sector in unread(&image) {
            ensure!(
                self.rotten.contains(&sector) || knowledge.doubted.contains(&sector),
                "sector {sector} cannot be read after the start, and no fault explains it"
            );
            ensure!(
                lost.contains(&sector),
                "sector {sector} cannot be read after the start, and /status lists it not as lost"
            );
            knowledge.explained_errors += 1;
        }
        knowledge.doubted = unread(&image).collect();
        self.rotten.clone_from(&knowledge.doubted);
        Ok(())
    }

    /// Recover after the faults: a flush must succeed soon, and then all but lost pages can be
    /// read.
    fn recover(&mut self, server: &Server) -> Result<()> {
        let mut client = Client::connect(server.socket())?;
        let (image, sent, status) = loop {
            self.flush(&mut client)?;
            let before = server.status()?;
            let sent = lock(&self.shared).oracle.send_read();
            let image = sweep(server.socket(), SECTORS).context("the full read after a fault")?;
            let after = server.status()?;
            if before["has_flash"] == after["has_flash"] {
                break (image, sent, after);
            }
        };
        let knowledge = &mut *lock(&self.shared);
        knowledge.close_window();
        let lost = lost_sectors(&status);
        for (first, found) in runs(&image) {
            let checked = knowledge.oracle.check(sent, first, &found);
            checked.map_err(|violation| anyhow::anyhow!("after the fault: {violation}"))?;
            knowledge.checked_sectors += found.len() as u64;
        }
        for sector in unread(&image) {
            ensure!(
                lost.contains(&sector),
                "sector {sector} cannot be read after the fault, and /status lists it not as lost"
            );
            knowledge.explained_errors += 1;
        }
        ensure!(
            lost.is_subset(&self.rotten) || self.flash != Flash::Good,
            "pages are lost, and the flash had no fault: {:?}",
            status["lost"]
        );
        knowledge.doubted.extend(lost);
        if self.has_flash && self.flash == Flash::Doubtful {
            let is_in_use = status["has_flash"] == true;
            self.flash = if is_in_use { Flash::Good } else { Flash::Failed };
        }
        Ok(())
    }

    /// Flushes until that succeeds.
    fn flush(&self, client: &mut Client) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let sent = lock(&self.shared).oracle.tick();
            match client.call(Command::Flush, 0, 0)? {
                Ok(_) => {
                    lock(&self.shared).oracle.flushed(sent);
                    return Ok(());
                }
                Err(error) => ensure!(
                    Instant::now() < deadline,
                    "no flush succeeds for a minute after the fault: {error:?}"
                ),
            }
            thread::sleep(GLANCE);
        }
    }

    /// Ends the server.
    fn end(
        &mut self,
        plan: &Plan,
        mut server: Server,
        load: Option<Load>,
        random: &mut SplitMix64,
    ) -> Result<()> {
        let is_orderly = match plan.end {
            End::Stop => self.stop(plan, &mut server, load, random)?,
            End::Kill | End::PowerCut => {
                ensure!(!server.has_ended()?, "the server ended by itself");
                if plan.end == End::PowerCut {
                    lock(&self.shared).open_window();
                    self.mount.turn_off();
                }
                server.kill()?;
                self.mount.heal();
                server.wait()?;
                if let Some(load) = load {
                    load.abandon();
                }
                false
            }
        };
        self.mount.heal();
        if plan.end == End::PowerCut {
            self.mount.with(Disk::cut);
        }
        let log = server.log();
        ensure!(!log.contains("panicked"), "the server panicked: {log}");
        let knowledge = &mut *lock(&self.shared);
        knowledge.doubted.extend(&self.rotten);
        knowledge.judge_failures()?;
        if is_orderly {
            knowledge.oracle.stop();
        } else {
            knowledge.oracle.crash();
            // The page of the last commit looks never written.
            for &sector in &self.rotten {
                knowledge.oracle.give_up(sector..sector + 1);
            }
        }
        Ok(())
    }

    /// Ends the server in order; returns `true` if it could.
    fn stop(
        &self,
        plan: &Plan,
        server: &mut Server,
        load: Option<Load>,
        random: &mut SplitMix64,
    ) -> Result<bool> {
        if plan.kind == Kind::Hang {
            // A sync that hangs in FUSE blocks every writer of the file, so no answer would come.
            self.mount.heal();
        }
        let load = match load {
            Some(load) if random.below(2) == 0 => {
                load.finish()?;
                None
            }
            load => load,
        };
        lock(&self.shared).open_window();
        server.terminate()?;
        let status = server.wait()?;
        if let Some(load) = load {
            load.abandon();
        }
        ensure!(
            status.success() || plan.kind.is_of_device() || !self.rotten.is_empty(),
            "the server ended: {status}"
        );
        Ok(status.success())
    }

    /// Make a start fail: it is refused, killed or loses power.
    fn fail_start(&mut self, plan: &Plan, random: &mut SplitMix64) -> Result<()> {
        let socket = self.configure(plan)?;
        let (config, log) = (self.folder.join("cache.toml"), self.log());
        let is_cut = random.below(2) == 0;
        self.starts += 1;
        if random.below(2) == 0 {
            let injected = faults::inject_at_start(&self.mount, self.has_flash, random);
            self.note_fault(injected);
            if let Started::Ready(mut server) =
                Server::start(&self.program, &config, &log, &socket)?
            {
                server.kill()?;
                server.wait()?;
            }
        } else {
            let mut server = Server::spawn(&self.program, &config, &log, &socket)?;
            thread::sleep(Duration::from_micros(random.below(30_000).into()));
            if is_cut {
                self.mount.turn_off();
            }
            server.kill()?;
            server.wait()?;
        }
        if is_cut {
            self.mount.turn_off();
            self.mount.with(Disk::cut);
        }
        self.mount.heal();
        Ok(())
    }

    /// Start a second server on the same files: it must be refused, or wait until it is killed.
    fn start_twice(&mut self, plan: &Plan, random: &mut SplitMix64) -> Result<()> {
        let socket = self.folder.join("second.sock");
        let (config, log) = (self.folder.join("second.toml"), self.folder.join("second.log"));
        let socket_text = socket.display().to_string();
        let text = plan.settings.text(self.shape, self.has_flash, self.mount.path(), &socket_text);
        fs::write(&config, text)?;
        let mut second = Server::spawn(&self.program, &config, &log, &socket)?;
        self.starts += 1;
        let waits = random.below(3) == 0;
        let deadline = Instant::now()
            + if waits { LOCK_TIME } else { Duration::from_millis(random.below(500).into()) };
        while Instant::now() < deadline && !second.has_ended()? {
            thread::sleep(GLANCE);
        }
        ensure!(!socket.exists(), "a second server serves the same files: {}", second.log());
        if waits {
            ensure!(second.has_ended()?, "a second server waits for longer than {LOCK_TIME:?}");
            let log = second.log();
            ensure!(log.contains("in use"), "a second server was not refused as it should: {log}");
        }
        Ok(())
    }

    /// Damages slots of the flash, and notes their pages.
    fn rot_slots(&mut self, random: &mut SplitMix64) {
        let shape = self.shape;
        let rotten = self.mount.with(|disk| faults::rot_slots(disk, shape, random));
        // Errors may come before the round knows which pages are hit.
        lock(&self.shared).doubted.extend(&rotten);
        self.rotten.extend(rotten);
    }

    fn rot_at_rest(&mut self, plan: &Plan, random: &mut SplitMix64) {
        self.rot_slots(random);
        if plan.end != End::Stop {
            let knowledge = &mut *lock(&self.shared);
            for &sector in &self.rotten {
                knowledge.oracle.give_up(sector..sector + 1);
            }
        }
    }

    fn rot_metadata(&self, random: &mut SplitMix64) {
        let shape = self.shape;
        self.mount.with(|disk| faults::rot_metadata(disk, shape, random));
    }

    /// Drains the flash. After that, the backing store alone has everything.
    fn drain(&mut self, random: &mut SplitMix64) -> Result<()> {
        let path = |name: &str| self.mount.path().join(name).display().to_string();
        let (flash, backing) = (path("flash.img"), path("backing.img"));
        let mut words = vec!["cache", "drain", &flash, "--backing", &backing];
        if random.below(2) == 0 {
            words.push("--keep-clean");
        }
        server::command(&self.program, &words)?;
        if random.below(2) == 0 {
            self.mount.turn_off();
            self.mount.with(Disk::cut);
        }
        let found = self.mount.with(|disk| {
            disk.named("backing.img").map(|file| decode_all(0, file.bytes())).unwrap_or_default()
        });
        let knowledge = &mut *lock(&self.shared);
        let settled = knowledge.oracle.settle(0, &found);
        settled.map_err(|violation| anyhow::anyhow!("drained: {violation}"))?;
        knowledge.checked_sectors += found.len() as u64;
        self.has_flash = false;
        Ok(())
    }
}

/// Return the sectors of a status's lost pages.
fn lost_sectors(status: &Value) -> BTreeSet<usize> {
    let number = |extent: &Value, key: &str| {
        usize::try_from(extent[key].as_u64().unwrap_or(0)).unwrap_or(0) / SECTOR
    };
    let sectors = |extent: &Value| -> Range<usize> {
        let first = number(extent, "offset_bytes");
        first..first + number(extent, "length_bytes")
    };
    status["lost"].as_array().into_iter().flatten().flat_map(sectors).collect()
}

/// Return the parts of an image that could be read: the first sector and what was found.
fn runs(image: &Image) -> Vec<(usize, Vec<Found>)> {
    let mut runs: Vec<(usize, Vec<Found>)> = vec![];
    for (sector, found) in image.iter().enumerate() {
        let Some(found) = *found else { continue };
        match runs.last_mut() {
            Some((first, run)) if *first + run.len() == sector => run.push(found),
            _ => runs.push((sector, vec![found])),
        }
    }
    runs
}

/// Return the sectors that could not be read.
fn unread(image: &Image) -> impl Iterator<Item = usize> + '_ {
    image.iter().enumerate().filter(|(_, found)| found.is_none()).map(|(sector, _)| sector)
}
