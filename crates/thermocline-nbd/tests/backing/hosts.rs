//! Two engines, one behind the other, that cooperate: what each tier finds is what the lab says, access by
//! access, and nobody reads old bytes.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use thermocline_core::config::Values;
use thermocline_core::policy::multi::split::{self, Cooperating, Victims};
use thermocline_core::random::SplitMix64;
use thermocline_core::{
    Access as PageAccess, Action, Actions, BoxedPolicy, Clients, Counts, Geometry, Op, PageId,
    Setup, Tier, registry,
};
use thermocline_engine::driver::Driver;
use thermocline_engine::{
    Counters, Engine, Leaving, Options, PolicyOptions, Request, Shard, Storage as _, WriteMode,
};
use thermocline_nbd::backing::{
    Access, BackingError, Cooperation, NbdBacking, NbdDriver, NbdStorage,
};
use thermocline_nbd::cached::{Cached, ClientTerms};
use thermocline_nbd::server::{ClientRates, Export, Exports, Handle, Listen, Server, Settings};
use thermocline_nbd::uri::NbdUri;

use super::load::{Load, Loss};
use super::volatile::{Face, Running, disk, uri};

const PAGE: usize = 4096;
const PAGE_BYTES: u32 = 4096;
const PAGES: u32 = 64;
const PATIENCE: Duration = Duration::from_secs(20);

/// Policies that run on two hosts.
const NAMES: [&str; 7] = ["d-hfa", "demote", "h-hfa", "hint-k", "mq-n", "p-hfa", "promote"];

/// Parameters of a test: their names and values.
type Given<'a> = &'a [(&'a str, &'a str)];

/// The tiers: of each client, and the two of the server.
const SIZES: [u32; 3] = [6, 9, 12];

/// A server whose clients cooperate, in a thread of its own.
struct Below {
    socket: PathBuf,
    handle: Handle,
    counters: Receiver<Counters>,
    thread: Option<JoinHandle<()>>,
    /// Path of the socket, unless systemd keeps it.
    folder: Option<TempDir>,
}

/// Periods and tables of HFA that matter in a short test.
const HFA: Given<'_> = &[("t", "20"), ("t_out_share", "0.01"), ("f_min", "0.4")];

/// Parameters under which pages that are demoted often send others up.
const MANY_PUSHES: Given<'_> = &[("t", "60"), ("t_out_share", "0.02"), ("q1_share", "0.7")];

fn values(name: &str, given: Given<'_>) -> Values {
    let given: Vec<(String, String)> =
        given.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    registry::find(name).unwrap().values(&given).unwrap()
}

fn policy(name: &str, entry: registry::PolicyEntry) -> PolicyOptions {
    PolicyOptions { entry, ..PolicyOptions::named(name).unwrap() }
}

/// Return the options of a server.
fn below(name: &str, given: Given<'_>, clients: u8, pages: u32) -> Options {
    let split = split::find(name).unwrap();
    let mut policy = policy(name, split.server_policy(Cooperating { clients, pages: SIZES[0] }));
    policy.values = values(name, given);
    Options::new(pages.into(), SIZES[1], SIZES[2], policy)
}

impl Below {
    /// Start a server of a disk in memory.
    fn start(name: &str, given: Given<'_>, clients: u8) -> Self {
        let engine = move || Engine::in_memory(below(name, given, clients, PAGES)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut running = Self::serve(name, engine(), clients, folder.path());
        running.folder = Some(folder);
        running
    }

    fn serve<D: Driver + Debug + Send + 'static>(
        name: &str,
        engine: Engine<D>,
        clients: u8,
        folder: &Path,
    ) -> Self {
        let pushes = split::find(name).unwrap().pushes;
        let terms = ClientTerms { clients, pages: SIZES[0], pushes };
        let service = Cached::new(engine).with_clients(terms);
        let socket = folder.join("below.sock");
        let export = Export { info: service.info("", ""), service };
        let settings = Settings {
            negotiation_limit: Duration::from_secs(1),
            // Those that cooperate are not limited.
            client_rates: ClientRates {
                requests_per_second: NonZeroU64::new(1),
                ..ClientRates::default()
            },
            ..Settings::default()
        };
        let mut server = Server::new(settings, vec![export]).unwrap();
        server.listen(Listen::Unix(socket.clone())).unwrap();
        let handle = server.handle();
        let (send, counters) = channel();
        let thread = std::thread::spawn(move || {
            let tell = |exports: &mut Exports<Cached<D>>| {
                let engine = exports.services_mut().next().unwrap().engine_mut();
                let shard = engine.shard();
                shard.assert_invariants();
                // Nobody listens any more at the end.
                drop(send.send(shard.counters().clone()));
            };
            server.run(tell).unwrap();
        });
        Self { socket, handle, counters, thread: Some(thread), folder: None }
    }

    fn uri(&self) -> NbdUri {
        uri(&self.socket)
    }

    /// Return the server's counters.
    fn counters(&self) -> Counters {
        self.handle.wake();
        self.counters.recv_timeout(PATIENCE).unwrap()
    }
}

impl Drop for Below {
    fn drop(&mut self) {
        self.handle.stop();
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Start a client of the server.
fn client(name: &str, uri: NbdUri, identity: u32) -> Result<Engine<NbdDriver>, BackingError> {
    client_of(name, &[], uri, identity)
}

/// Start a client of the server, with these parameters.
fn client_of(
    name: &str,
    given: Given<'_>,
    uri: NbdUri,
    identity: u32,
) -> Result<Engine<NbdDriver>, BackingError> {
    let split = split::find(name).unwrap();
    let (pages, takes_pushes) = (SIZES[0], split.pushes);
    let cooperation = Cooperation { identity, pages, page_bytes: PAGE_BYTES, takes_pushes };
    let backing = NbdBacking::connect_to_partner(uri, Access::ReadWrite, cooperation)?;
    let pages = backing.size_bytes() / u64::from(PAGE_BYTES);
    let mut policy = policy(name, split.client_policy());
    policy.values = values(name, given);
    let mut options = Options::new(pages, SIZES[0], 0, policy);
    options.write_mode = WriteMode::Through;
    options.leaving = match split.victims {
        Victims::Demoted => Leaving::Offered,
        Victims::Dropped => Leaving::Told,
    };
    let shard = Shard::new(options).unwrap();
    let driver = NbdDriver::new(backing.with_grace(Duration::from_secs(1)), shard.frames())?;
    Ok(Engine::new(shard, driver))
}

/// Drives engines until something holds.
fn drive(
    engines: &mut [Engine<NbdDriver>],
    mut holds: impl FnMut(&mut [Engine<NbdDriver>]) -> bool,
) {
    let start = Instant::now();
    while !holds(engines) {
        for engine in engines.iter_mut() {
            engine.poll();
        }
        assert!(start.elapsed() < PATIENCE, "it takes too long");
        std::thread::yield_now();
    }
}

/// Asks an engine for something, while all of them are driven. Returns the bytes of a read.
fn call(
    engines: &mut [Engine<NbdDriver>],
    client: usize,
    request: Request,
    payload: &[u8],
) -> Vec<u8> {
    engines[client].submit(request, payload).unwrap();
    let mut bytes = None;
    drive(engines, |engines| {
        let engine = &mut engines[client];
        if let Some(reply) = engine.next_reply() {
            assert_eq!((reply.tag, reply.result), (request.tag, Ok(())));
            bytes = Some(engine.pieces(&reply).flatten().copied().collect());
            engine.release(reply);
        }
        bytes.is_some()
    });
    bytes.unwrap()
}

fn at(page: u32) -> u64 {
    u64::from(page) * PAGE as u64
}

/// Everything that was said has been heard.
fn settle(engines: &mut [Engine<NbdDriver>]) {
    drive(engines, |engines| {
        engines.iter_mut().all(|engine| engine.shard().is_idle() && engine.driver().is_settled())
    });
}

/// The lab's hierarchy.
struct Lab {
    policy: BoxedPolicy,
    actions: Actions,
}

impl Lab {
    fn new(name: &str, given: Given<'_>, clients: u8) -> Self {
        let setup = Setup {
            clients: Clients::new(clients.into()).unwrap(),
            ..Setup::new(Geometry::linear(PAGES), SIZES.to_vec())
        };
        let entry = registry::find(name).unwrap();
        let policy = entry.build(&setup, &values(name, given)).unwrap();
        Self { policy, actions: Actions::new() }
    }

    /// Return the tier in which an access finds its page; 0 is that of the client.
    fn found(&mut self, access: PageAccess, clients: u8) -> u8 {
        let actions = self.policy.step(access, &mut self.actions);
        let serve = actions.iter().find_map(|action| match action {
            Action::Serve { found, .. } => Some(*found),
            Action::Copy { .. } | Action::Drop { .. } => None,
        });
        serve.unwrap().0.saturating_sub(clients - 1)
    }
}

fn hits(counts: &Counts, op: Op, tier: Tier) -> u64 {
    match op {
        Op::Read => counts.read_hits(tier),
        Op::Write => counts.write_hits(tier),
    }
}

/// Return the tier of the hierarchy in which the pair found a page: the client's, or the server's next.
fn tier_of(before: [&Counts; 2], after: [&Counts; 2], op: Op) -> u8 {
    let grew = |host: usize, tier| hits(after[host], op, tier) > hits(before[host], op, tier);
    if grew(0, Tier::RAM) {
        return 0;
    }
    let found = [Tier::RAM, Tier::FLASH, Tier::DISK].into_iter().filter(|&tier| grew(1, tier));
    let found: Vec<Tier> = found.collect();
    assert_eq!(found.len(), 1, "the server finds a page once");
    found[0].0 + 1
}

/// Returns how many pages the server has sent unasked.
fn check_hits(name: &str, given: Given<'_>, clients: u8, writes: bool) -> u64 {
    let below = Below::start(name, given, clients);
    let mut engines: Vec<_> = (0..clients)
        .map(|number| client_of(name, given, below.uri(), number.into()).unwrap())
        .collect();
    let mut lab = Lab::new(name, given, clients);
    let mut random = SplitMix64::new(u64::from(clients) + 7);
    let mut model = vec![0_u8; PAGES as usize];
    for step in 0..400_u64 {
        let draw = |random: &mut SplitMix64, most: u64| random.bits() % most;
        // Some pages are hotter than others.
        let page = draw(&mut random, u64::from(PAGES)).min(draw(&mut random, u64::from(PAGES)));
        let page = u32::try_from(page).unwrap();
        let by = usize::try_from(draw(&mut random, clients.into())).unwrap();
        let op = if writes && draw(&mut random, 4) == 0 { Op::Write } else { Op::Read };
        let expected = lab.found(
            PageAccess { page: PageId(page), op, client: u8::try_from(by).unwrap() },
            clients,
        );
        let before = [engines[by].shard().counters().policy.clone(), below.counters().policy];
        match op {
            Op::Read => {
                let bytes = call(&mut engines, by, Request::read(step, at(page), PAGE as u64), &[]);
                assert!(bytes.iter().all(|&byte| byte == model[page as usize]), "step {step}");
            }
            Op::Write => {
                let byte = (step % 251) as u8 + 1;
                model[page as usize] = byte;
                let request = Request::write(step, at(page), PAGE as u64);
                call(&mut engines, by, request, &[byte; PAGE]);
                // Pages that leave later are durable, and so they leave at once.
                call(&mut engines, by, Request::flush(step), &[]);
            }
        }
        settle(&mut engines);
        let after = [engines[by].shard().counters().policy.clone(), below.counters().policy];
        let [own_before, their_before] = &before;
        let [own_after, their_after] = &after;
        let found = tier_of([own_before, their_before], [own_after, their_after], op);
        assert_eq!(
            found, expected,
            "{name} {given:?}, {clients} clients, step {step}: {op:?} {page}"
        );
        for engine in &engines {
            engine.shard().assert_invariants();
        }
    }
    // A client has read each page that it keeps, unless the server has sent it.
    let mut taken = 0;
    for engine in &engines {
        let counters = engine.shard().counters();
        taken += counters.pushes_taken;
        let misses = counters.policy.read_hits(Tier::DISK);
        assert_eq!(counters.backing.all_read_bytes(), misses * PAGE as u64, "{name}");
    }
    let counters = below.counters();
    let demotes = split::find(name).unwrap().victims == Victims::Demoted;
    assert_eq!(counters.demotions_taken > 0, demotes);
    assert_eq!(counters.pushes, taken, "{name}: whatever is sent arrives");
    assert!(taken == 0 || split::find(name).unwrap().pushes, "{name}");
    // Everything that was demoted is served from memory: nothing is read again.
    let misses = counters.policy.read_hits(Tier::DISK);
    assert!(counters.backing.all_read_bytes() <= misses * PAGE as u64, "content is not read again");
    taken
}

#[test]
fn each_tier_finds_what_the_lab_says() {
    for clients in [1, 3] {
        for writes in [false, true] {
            for mode in ["remove", "mru", "lru"] {
                check_hits("demote", &[("mode", mode)], clients, writes);
            }
            check_hits("mq-n", &[], clients, writes);
            check_hits("promote", &[], clients, writes);
            check_hits("hint-k", &[("ghost_ratio", "0.5")], clients, writes);
            for given in [HFA, &[HFA, &[("queues", "strict")][..]].concat()] {
                check_hits("d-hfa", given, clients, writes);
                check_hits("p-hfa", given, clients, writes);
            }
        }
    }
}

#[test]
fn pages_of_h_hfa_move_as_in_the_lab() {
    let mut sent = 0;
    for clients in [1, 3] {
        for writes in [false, true] {
            for given in [("t", "40"), ("queues", "strict"), ("delta", "0.3")] {
                let given = [given, ("t_out_share", "0.01"), ("q1_share", "0.7")];
                sent += check_hits("h-hfa", &given, clients, writes);
            }
        }
    }
    assert!(sent > 20, "{sent} pages were sent");
}

/// A page that clients share.
#[derive(Clone, Copy, Debug, Default)]
struct Shared {
    /// The value whose write was answered last.
    answered: u8,
    /// The value that is being written.
    writing: Option<u8>,
}

/// A read that is under way: what it may find.
#[derive(Debug)]
struct Reading {
    page: u32,
    may_find: Vec<u8>,
}

/// Clients that read and write the same pages, many requests at a time; plain clients are among them.
struct Sharing {
    pages: Vec<Shared>,
    reads: BTreeMap<u64, Reading>,
    /// Pages that are being written, by the tags of the writes: values repeat.
    writes: BTreeMap<u64, u32>,
    next_tag: u64,
    answers: u64,
    /// Pages that they use, and of how many requests one is a write.
    range: u64,
    write_interval: u64,
}

impl Sharing {
    fn new(range: u64, write_interval: u64) -> Self {
        let pages = vec![Shared::default(); PAGES as usize];
        let (reads, writes) = (BTreeMap::new(), BTreeMap::new());
        Self { pages, reads, writes, next_tag: 1, answers: 0, range, write_interval }
    }

    fn submit(&mut self, engine: &mut Engine<NbdDriver>, random: &mut SplitMix64) {
        let mut draw = |most: u64| random.bits() % most;
        let page = u32::try_from(draw(self.range).min(draw(self.range))).unwrap();
        let known = &mut self.pages[page as usize];
        let tag = self.next_tag;
        if draw(self.write_interval) > 0 {
            let may_find = [Some(known.answered), known.writing].into_iter().flatten();
            let reading = Reading { page, may_find: may_find.collect() };
            if engine.submit(Request::read(tag, at(page), PAGE as u64), &[]).is_ok() {
                self.reads.insert(tag, reading);
                self.next_tag += 1;
            }
        } else if known.writing.is_none() {
            let value = u8::try_from(tag % 255 + 1).unwrap();
            if engine.submit(Request::write(tag, at(page), PAGE as u64), &[value; PAGE]).is_ok() {
                known.writing = Some(value);
                self.writes.insert(tag, page);
                self.next_tag += 1;
                // Reads under way may find the new value.
                let under_way = self.reads.values_mut().filter(|reading| reading.page == page);
                under_way.for_each(|reading| reading.may_find.push(value));
            }
        }
    }

    fn answered(&mut self, engine: &mut Engine<NbdDriver>) {
        while let Some(reply) = engine.next_reply() {
            assert_eq!(reply.result, Ok(()));
            self.answers += 1;
            if let Some(reading) = self.reads.remove(&reply.tag) {
                let bytes: Vec<u8> = engine.pieces(&reply).flatten().copied().collect();
                assert!(bytes.iter().all(|byte| *byte == bytes[0]), "a page is of one piece");
                let page = reading.page;
                assert!(
                    reading.may_find.contains(&bytes[0]),
                    "{page}: {} {reading:?} {}",
                    bytes[0],
                    reply.tag
                );
            } else {
                let page = self.writes.remove(&reply.tag).unwrap();
                let known = &mut self.pages[page as usize];
                known.answered = known.writing.take().unwrap();
            }
            engine.release(reply);
        }
    }
}

#[test]
fn clients_that_share_pages_read_nothing_old() {
    for name in NAMES {
        let given = if name == "h-hfa" { MANY_PUSHES } else { &[] };
        let below = Below::start(name, given, 3);
        let mut engines: Vec<_> =
            (0..3).map(|number| client_of(name, given, below.uri(), number).unwrap()).collect();
        // One more that keeps pages of its own accord would read old bytes; this one keeps none.
        let mut plain =
            NbdStorage::new(NbdBacking::connect(below.uri(), Access::ReadWrite).unwrap(), PAGE)
                .unwrap();
        let mut random = SplitMix64::new(3);
        // Pages are sent unasked where many move between the tiers.
        let (range, write_interval) = if name == "h-hfa" { (50, 8) } else { (20, 3) };
        let mut sharing = Sharing::new(range, write_interval);
        let demotes = split::find(name).unwrap().victims == Victims::Demoted;
        let recalled = |engines: &[Engine<NbdDriver>]| -> u64 {
            engines.iter().map(|engine| engine.shard().counters().pages_outdated).sum()
        };
        let taken = |engines: &[Engine<NbdDriver>]| -> u64 {
            engines.iter().map(|engine| engine.shard().counters().pushes_taken).sum()
        };
        let is_pushed = name == "h-hfa";
        // Pages that were written leave after a sync, which comes in time, and a client may keep few pages.
        let mut wanted = 2000;
        while sharing.answers < wanted {
            for engine in &mut engines {
                sharing.submit(engine, &mut random);
                engine.poll();
                sharing.answered(engine);
                engine.shard().assert_invariants();
            }
            if sharing.answers >= wanted
                && (recalled(&engines) == 0
                    || demotes && below.counters().demotions_taken == 0
                    || is_pushed && taken(&engines) == 0)
            {
                assert!(wanted < 100_000, "{name}: pages stay with the clients that have them");
                wanted += 1000;
            }
        }
        drive(&mut engines, |engines| {
            for engine in engines.iter_mut() {
                sharing.answered(engine);
            }
            sharing.reads.is_empty() && sharing.pages.iter().all(|known| known.writing.is_none())
        });
        settle(&mut engines);
        let (taken, sent) = (taken(&engines), below.counters().pushes);
        assert_eq!(taken > 0, is_pushed, "{name}: {sent} pages were sent, {taken} taken");
        assert!(taken <= sent, "{name}");
        // A plain client sees what was written, and what it writes is seen.
        for page in (0..20).step_by(5) {
            let mut bytes = [0; PAGE];
            plain.read_at(at(page), &mut bytes).unwrap();
            assert_eq!(bytes, [sharing.pages[page as usize].answered; PAGE]);
        }
        let writing = std::thread::spawn(move || {
            plain.write_at(at(3), &[99; PAGE]).unwrap();
            plain
        });
        drive(&mut engines, |_| writing.is_finished());
        drop(writing.join().unwrap());
        for by in 0..3 {
            let bytes = call(&mut engines, by, Request::read(1, at(3), PAGE as u64), &[]);
            assert_eq!(bytes, [99; PAGE]);
        }
    }
}

#[test]
fn a_client_that_is_cut_off_delays_a_write_and_reads_nothing_old() {
    let below = Below::start("demote", &[], 2);
    let mut cut_off = [client("demote", below.uri(), 0).unwrap()];
    let mut other = [client("demote", below.uri(), 1).unwrap()];
    let read = Request::read(1, at(3), PAGE as u64);
    assert_eq!(call(&mut cut_off, 0, read, &[]), [0; PAGE]);
    let start = Instant::now();
    call(&mut other, 0, Request::write(2, at(3), PAGE as u64), &[7; PAGE]);
    assert!(start.elapsed() > Duration::from_secs(4), "the server waits for it");
    // Nobody has driven it meanwhile: it does not know yet.
    assert_eq!(call(&mut cut_off, 0, read, &[]), [7; PAGE]);
}

#[test]
fn a_client_that_says_farewell_is_in_nobodys_way() {
    let below = Below::start("demote", &[], 1);
    let start = Instant::now();
    for identity in 0..3 {
        let mut engines = [client("demote", below.uri(), identity).unwrap()];
        let value = u8::try_from(identity).unwrap();
        let read = Request::read(1, at(3), PAGE as u64);
        assert_eq!(call(&mut engines, 0, read, &[]), [value; PAGE]);
        call(&mut engines, 0, Request::write(2, at(3), PAGE as u64), &[value + 1; PAGE]);
        let another = client("demote", below.uri(), 99).unwrap_err().to_string();
        assert!(another.contains("`clients.number`"), "{another}");
    }
    assert!(start.elapsed() < Duration::from_secs(4), "nobody waits for those that have gone");
}

/// A client leaves with requests under way, whose answers nobody takes any more. The next one may come before
/// the server has read that, but does not wait for leases to end.
#[test]
fn a_busy_client_that_says_farewell_is_in_nobodys_way() {
    let below = Below::start("demote", &[], 1);
    for identity in 0..40 {
        let start = Instant::now();
        let mut engine = client_after_another("demote", &below, identity);
        assert!(start.elapsed() < Duration::from_secs(5), "nobody waits for those that have gone");
        for tag in 0..24_u32 {
            let request = Request::read(tag.into(), at(tag % 8 * 8), 8 * PAGE as u64);
            if engine.submit(request, &[]).is_err() {
                break;
            }
        }
        engine.poll();
    }
}

/// Start a client that takes the place of one that has gone, once the server has noticed that.
fn client_after_another(name: &str, server: &Below, identity: u32) -> Engine<NbdDriver> {
    let start = Instant::now();
    loop {
        match client(name, server.uri(), identity) {
            Ok(engine) => return engine,
            Err(BackingError::NotAttached { .. }) if start.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn what_was_flushed_survives_a_server_and_a_client_that_die() {
    let pages = u32::try_from(super::PAGES).unwrap();
    for name in NAMES {
        let folder = tempfile::tempdir().unwrap();
        let disk = disk(super::BYTES);
        let start = || {
            let running = Running::start(&disk, folder.path(), Face::default());
            let mut options = below(name, &[], 1, pages);
            options.flash_pages = 0;
            let shard = Shard::new(options).unwrap();
            let driver = NbdDriver::new(super::connect(running.uri()), shard.frames()).unwrap();
            (running, Below::serve(name, Engine::new(shard, driver), 1, folder.path()))
        };
        let (mut disk_server, mut server) = start();
        let mut load = Load::new(super::PAGES, Loss::Unflushed, 7).without_zeroes();
        let mut engine = client(name, server.uri(), 5).unwrap();
        for round in 0..4 {
            load.run(&mut engine, Duration::from_millis(150));
            // The server dies, and its disk loses what was not flushed.
            disk_server.kill();
            drop(server);
            if round % 2 == 0 {
                load.run(&mut engine, Duration::from_millis(60));
            }
            (disk_server, server) = start();
        }
        load.finish(&mut engine);
        assert!(load.answers > 200, "{} answers", load.answers);
        load.check_disk(&disk.lock().unwrap().durable);
        // The client dies: what it had flushed is there, and its cache is empty.
        drop(engine);
        let mut engine = client_after_another(name, &server, 6);
        load.run(&mut engine, Duration::from_millis(100));
        load.finish(&mut engine);
        load.check_disk(&disk.lock().unwrap().durable);
        drop((engine, server, disk_server));
    }
}

#[test]
fn a_server_cooperates_with_whom_it_knows() {
    let running = disk(super::BYTES);
    let folder = tempfile::tempdir().unwrap();
    let plain = Running::start(&running, folder.path(), Face::default());
    let error = client("demote", plain.uri(), 0).unwrap_err();
    assert!(matches!(error, BackingError::Uncooperative { .. }), "{error}");
    let below = Below::start("demote", &[], 1);
    for (pages, page_bytes, takes_pushes, words) in [
        (7, PAGE_BYTES, false, "`clients.ram`"),
        (6, 8192, false, "`page_size`"),
        (6, PAGE_BYTES, true, "`policy.name`"),
    ] {
        let cooperation = Cooperation { identity: 1, pages, page_bytes, takes_pushes };
        let found = NbdBacking::connect_to_partner(below.uri(), Access::ReadWrite, cooperation);
        let error = found.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}
