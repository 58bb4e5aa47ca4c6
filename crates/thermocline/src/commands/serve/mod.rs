//! `thermocline serve`: the engine over NBD, and as a disk of virtual machines.

mod advice;
mod block_device;
mod board;
mod cleaning;
pub(crate) mod config;
pub(crate) mod control;
pub(crate) mod devices;
mod epoch;
mod exposition;
pub(crate) mod faults;
mod history;
mod http;
mod instruments;
mod kept_note;
mod listening;
mod members;
pub(crate) mod metrics;
mod new_flash;
mod opening;
mod page;
mod pins;
pub(crate) mod ranges;
mod record;
mod regions;
mod reloading;
mod replacing;
mod shadows;
pub(crate) mod start;
pub(crate) mod status;
mod virtual_machines;
mod watchdog;

use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use sd_notify::NotifyState;
use thermocline_core::Nanos;
use thermocline_engine::driver::Driver;
use thermocline_engine::{Cleaning, Engine, Request, RequestError, Shard};
use thermocline_nbd::doors::Doored;
use thermocline_nbd::server::Handle;
use thermocline_nbd::sharded::Sharded;
use thermocline_ublk::UblkRun;
use thermocline_vhost::VhostUser;
use tracing::{Span, error, info, warn};

use self::board::Boards;
use self::config::{Config, LogFormat, VhostUserSection, Volumes};
use self::control::Control;
use self::devices::AnyDriver;
use self::instruments::Instruments;
use self::kept_note::{Left, Note};
use self::listening::listen;
use self::members::{Beats, Member, News, Seat, Snapshots, StopsAll};
use self::opening::Opened;
use self::page::Process;
use self::ranges::Ranges;
use self::shadows::Wanted;
use self::watchdog::Watchdog;
use crate::arguments::ServeOptions;

/// Longest wait of an engine that ends for devices on which no operation succeeds, and the interval between
/// looks.
const REST_LIMIT: Duration = Duration::from_secs(20);
const REST_POLL: Duration = Duration::from_micros(200);

/// The tag of the flush at the end; the tags of clients' requests are small numbers.
const LAST_FLUSH: u64 = u64::MAX;

/// How often the figures that metrics show are renewed.
const SNAPSHOT_INTERVAL: Duration = Duration::from_millis(250);

/// How often a note that could not be written is tried again.
const NOTE_INTERVAL: Duration = Duration::from_secs(1);

type Service = Doored<Sharded<AnyDriver>>;

/// Runs the command: until it is asked to end, or only checks or prints a configuration.
pub(crate) fn run(options: &ServeOptions) -> Result<String> {
    if options.example_config {
        return Ok(config::EXAMPLE.to_owned());
    }
    let path = options
        .config
        .as_ref()
        .context("name a configuration file; --example-config prints one")?;
    let configs = Volumes::read(path)?;
    let in_file = || format!("in `{}`", path.display());
    // Before the devices are opened: a name that this system lacks changes nothing.
    configs.shared().nbd.socket_access().with_context(in_file)?;
    let shadow_options = configs.each().iter().map(|config| {
        let checked = || {
            config.vhost_user.as_ref().map(VhostUserSection::access).transpose()?;
            if options.check {
                config.try_policy()?;
            }
            shadows::options(config)
        };
        configs.within(config, checked())
    });
    let shadow_options = shadow_options.collect::<Result<Vec<_>>>().with_context(in_file)?;
    if options.check {
        return Ok(format!("`{}` can be served\n", path.display()));
    }
    start_log(configs.shared());
    run_server(&configs, shadow_options, path, options)
}

/// Opens the devices, and serves until it is asked to end.
fn run_server(
    configs: &Volumes,
    shadow_options: Vec<Vec<Wanted>>,
    path: &Path,
    options: &ServeOptions,
) -> Result<String> {
    let shared = configs.shared();
    let metrics = shared.metrics.map(|metrics| board::bind(metrics.listen)).transpose()?;
    let opened = opening::open(configs, options.force_init)?;
    let backing_bytes = opened[0].engines[0].shard().options().size_bytes();
    let boards = Boards::new(configs);
    let threads = usize::from(shared.shards.get());
    let (mut volumes, mut instruments, mut services, mut beginnings) =
        (vec![], vec![], vec![], vec![]);
    let each = configs.each().iter().zip(boards.each());
    for (((config, board), mut opened), shadows) in each.zip(opened).zip(shadow_options) {
        let watched = watch(config, &shadows, &mut opened);
        let watched = configs.within(config, watched)?;
        let shards = opened.engines.iter().map(|engine| engine.shard().options().clone());
        let shards = shards.collect();
        services.push(join(config, opened.engines, &watched)?);
        instruments.push(watched);
        beginnings.push(opened.beginning);
        volumes.push(Volume {
            ranges: Arc::new(Ranges::new(config.page_size.0, shards, opened.pins)),
            name: config.nbd.export.clone(),
            span: configs.span(config),
            snapshots: Snapshots::new(board.clone(), threads),
            news: News::new(threads),
            note: opened.note,
        });
    }
    let orders = volumes.iter().map(|volume| (volume.name.clone(), Arc::clone(&volume.ranges)));
    let control = Control::new(configs, orders.collect(), backing_bytes);
    let (servers, ways) = listen(configs, services)?;
    let all = servers.iter().skip(1).fold(servers[0].handle(), |all, one| all.and(one.handle()));
    for note in volumes.iter().filter_map(|volume| volume.note.as_ref()) {
        note.is_served_by(all.clone());
    }
    control.start(all.clone())?;
    // Clients may connect, and no write is served yet.
    let begins = beginnings.into_iter().map(|beginning| beginning.start(all.clone(), threads));
    let begins = begins.collect::<Result<Vec<_>>>()?;
    if let Some(listener) = metrics {
        let process = Process { configuration: std::path::absolute(path)?, id: std::process::id() };
        let address = board::start(listener, boards, process)?;
        info!(%address, "serving metrics");
    }
    let mut members: Vec<Member<'_>> = servers
        .into_iter()
        .enumerate()
        .map(|(number, server)| Member { number, server, seats: vec![] })
        .collect();
    for ((config, begins), instruments) in configs.each().iter().zip(begins).zip(&instruments) {
        for ((member, begins), instruments) in members.iter_mut().zip(begins).zip(instruments) {
            member.seats.push(Seat::new(begins, instruments, config));
        }
    }
    let beats = Beats::new(threads);
    let serving = Serving {
        volumes: &volumes,
        are_named: configs.are_named(),
        beats: &beats,
        control: &control,
        options,
        all: &all,
    };
    let devices = ways.devices.into_iter().map(|device| block_device::begin(device, &all));
    let devices = devices.collect::<Result<Vec<_>>>()?;
    let served = serve(members, &serving);
    leave_ways(served, ways.machines, devices)
}

/// Watch the shards of a volume.
fn watch(config: &Config, shadows: &[Wanted], opened: &mut Opened) -> Result<Vec<Instruments>> {
    let Opened { engines, note, .. } = opened;
    let of = |engine: &mut Engine<AnyDriver>| {
        Instruments::new(config, shadows.to_vec(), note.clone(), engine.shard_mut())
    };
    engines.iter_mut().map(of).collect()
}

/// Joins the shards of a volume to one service in each thread.
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

/// Ends what led to the shards beside the clients' sockets, once these have ended so.
fn leave_ways(
    served: Result<()>,
    machines: Vec<VhostUser>,
    devices: Vec<UblkRun>,
) -> Result<String> {
    if served.is_ok() {
        devices.iter().for_each(UblkRun::settle);
        machines.iter().for_each(VhostUser::settle);
    }
    // Their monitors keep trying until the next start, and keep their requests until then.
    drop(machines);
    let ended: Vec<_> = devices.into_iter().map(UblkRun::end).collect();
    served?;
    ended.into_iter().collect::<Result<(), _>>().context("[ublk]")?;
    Ok(String::new())
}

/// The state of a volume that the threads share.
struct Volume {
    /// The name of the export.
    name: String,
    /// Names the volume in the log.
    span: Span,
    snapshots: Snapshots,
    news: News,
    /// Orders about its ranges.
    ranges: Arc<Ranges>,
    note: Option<Arc<Note>>,
}

/// State that all threads share, except for clients and devices.
#[derive(Clone, Copy)]
struct Serving<'a> {
    volumes: &'a [Volume],
    /// `true` if the configuration has `[[volume]]`.
    are_named: bool,
    beats: &'a Beats,
    control: &'a Control,
    options: &'a ServeOptions,
    /// The servers of all shards.
    all: &'a Handle,
}

impl Serving<'_> {
    /// Count the clients of a thread that use a volume.
    fn clients(&self, server: &Handle, volume: usize) -> usize {
        if self.are_named { server.clients_of(volume) } else { server.clients() }
    }
}

/// Serves until a signal ends it, and leaves the devices in order.
fn serve(members: Vec<Member<'_>>, serving: &Serving<'_>) -> Result<()> {
    let wants_reload = Arc::new(AtomicBool::new(false));
    watch_signals(serving.all, &wants_reload)?;
    start_clocks(serving)?;
    let mut watchdog = Watchdog::from_environment();
    tell_service_manager(NotifyState::Ready);
    info!(volumes = serving.volumes.len(), shards = members.len(), "serving");
    let mut ended = vec![];
    std::thread::scope(|scope| -> Result<()> {
        let mut members = members.into_iter();
        let mut first = members.next().context("there is a shard at least")?;
        let mut others = vec![];
        for mut member in members {
            let name = format!("shard {}", member.number);
            let work = move || {
                let _stops = StopsAll(serving.all);
                member.run(serving).map(|()| member)
            };
            let thread = std::thread::Builder::new().name(name).spawn_scoped(scope, work);
            others.push(thread.context("cannot start the thread of a shard")?);
        }
        let served = {
            let _stops = StopsAll(serving.all);
            first.run_first(serving, &wants_reload, &mut watchdog)
        };
        tell_service_manager(NotifyState::Stopping);
        info!("leaving");
        ended.push(served.map(|()| first));
        for thread in others {
            ended.push(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        Ok(())
    })?;
    let mut left: Vec<Result<Vec<_>>> = serving.volumes.iter().map(|_| Ok(vec![])).collect();
    let mut drains: Vec<bool> = vec![];
    for member in ended {
        let Member { server, seats, .. } = member?;
        // What the first thread took over last counts for all.
        if drains.is_empty() {
            drains = seats.iter().map(|seat| seat.cleaning.drain_at_exit).collect();
        }
        let services = server.into_services().into_iter();
        for ((service, mut seat), left) in services.zip(seats).zip(&mut left) {
            seat.instruments.end_recording();
            let mut engine = service.into_inner().into_engine();
            let has_begun = seat.begins.finish(engine.shard_mut());
            // The others of a volume only say that the first one failed.
            let engines = std::mem::replace(left, Ok(vec![]));
            *left = engines.and_then(|mut engines| {
                has_begun?;
                engines.push(engine);
                Ok(engines)
            });
        }
    }
    leave_volumes(left, &drains, serving, &mut watchdog)
}

/// Leaves the devices of all volumes in order, and says so in their notes. One that could not begin its
/// epoch was never written to, and does not keep others from that.
fn leave_volumes(
    engines: Vec<Result<Vec<Engine<AnyDriver>>>>,
    drains: &[bool],
    serving: &Serving<'_>,
    watchdog: &mut Watchdog,
) -> Result<()> {
    let mut not_durable = vec![];
    let (mut ends, mut failed) = (vec![], Ok(()));
    for ((engines, drains), volume) in engines.into_iter().zip(drains).zip(serving.volumes) {
        let engines = match engines {
            Ok(engines) => engines,
            Err(error) => {
                failed = failed.and(Err(error));
                continue;
            }
        };
        let _span = volume.span.enter();
        let left = engines.into_iter().map(|engine| leave(engine, *drains, watchdog));
        let left = left.reduce(|(one, is_durable), (other, is_other_durable)| {
            (one.and(other), is_durable && is_other_durable)
        });
        let (left, is_durable) = left.context("there is a shard at least")?;
        if !is_durable {
            not_durable.push(&*volume.name);
        }
        ends.extend(volume.note.as_ref().map(|note| (note, left)));
    }
    // A sync of the flash by the end of a note must not keep a failure from an engine.
    for (note, left) in ends {
        failed = failed.and(note.end(left));
    }
    failed?;
    let names =
        if serving.are_named { format!(" of {}", not_durable.join(", ")) } else { String::new() };
    ensure!(
        not_durable.is_empty(),
        "not everything{names} could be made durable: writes that no client flushed may be lost"
    );
    Ok(())
}

/// Starts the threads that wake the shards, and that try to write the notes again.
fn start_clocks(serving: &Serving<'_>) -> Result<()> {
    let handle = serving.all.clone();
    std::thread::Builder::new()
        .name("clock".into())
        .spawn(move || {
            loop {
                std::thread::sleep(SNAPSHOT_INTERVAL);
                handle.wake();
            }
        })
        .context("cannot start the clock's thread")?;
    let notes: Vec<_> = serving.volumes.iter().filter_map(|volume| volume.note.clone()).collect();
    if !notes.is_empty() {
        std::thread::Builder::new()
            .name("note".into())
            .spawn(move || {
                loop {
                    std::thread::sleep(NOTE_INTERVAL);
                    for note in &notes {
                        note.retry();
                    }
                }
            })
            .context("cannot start the note's thread")?;
    }
    Ok(())
}

/// Makes everything durable, on disk or on flash, and lets go of the devices. Returns how that left the
/// engine, and whether everything is durable.
fn leave(mut engine: Engine<AnyDriver>, drains: bool, watchdog: &mut Watchdog) -> (Left, bool) {
    if drains {
        info!(dirty_pages = engine.shard().dirty_slots(), "writing dirty pages back");
        engine.shard_mut().drain();
        come_to_rest(&mut engine, watchdog);
    }
    // What is dirty on flash may stay so.
    let cleaning = engine.shard().options().cleaning;
    engine.shard_mut().set_cleaning(Cleaning {
        dirty_ratio_target: 1.0,
        idle_after: None,
        ..cleaning
    });
    engine.shard_mut().stop();
    // Clients that are gone left replies; their frames are free from now on.
    take_reply(&mut engine, LAST_FLUSH);
    if let Err(error) = engine.submit(Request::flush(LAST_FLUSH), &[]) {
        error!(%error, "cannot make every write durable");
    }
    come_to_rest(&mut engine, watchdog);
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
fn come_to_rest(engine: &mut Engine<AnyDriver>, watchdog: &mut Watchdog) {
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
        watchdog.beat();
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
fn is_clean(shard: &Shard) -> bool {
    shard.dirty_slots() == 0 && shard.undurable_pages() == 0 && shard.lost_pages().is_empty()
}

/// Tells systemd, if it started this.
fn tell_service_manager(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(false, &[state]) {
        warn!(%error, "cannot notify the service manager");
    }
}

fn start_log(config: &Config) {
    let level = match config.log.level {
        config::Level::Error => tracing::Level::ERROR,
        config::Level::Warn => tracing::Level::WARN,
        config::Level::Info => tracing::Level::INFO,
        config::Level::Debug => tracing::Level::DEBUG,
        config::Level::Trace => tracing::Level::TRACE,
    };
    let log = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    // Tests may have started one already.
    drop(match config.log.format {
        LogFormat::Text => log.try_init(),
        LogFormat::Json => log.json().try_init(),
    });
}

/// Stops on SIGTERM and SIGINT, reads the configuration again on SIGHUP.
fn watch_signals(handle: &Handle, wants_reload: &Arc<AtomicBool>) -> Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

    let mut signals = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM])
        .context("cannot listen to signals")?;
    let (handle, wants_reload) = (handle.clone(), Arc::clone(wants_reload));
    let work = move || {
        for signal in signals.forever() {
            if signal == SIGHUP {
                wants_reload.store(true, Ordering::Release);
                handle.wake();
            } else {
                handle.stop();
            }
        }
    };
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(work)
        .context("cannot start the signals' thread")?;
    Ok(())
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
