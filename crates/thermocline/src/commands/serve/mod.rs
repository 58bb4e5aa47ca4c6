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
mod page;
mod record;
mod replacing;
mod shadows;
pub(crate) mod start;
pub(crate) mod status;
mod virtual_machines;
mod watchdog;

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use sd_notify::NotifyState;
use thermocline_core::Nanos;
use thermocline_core::registry::Depth;
use thermocline_engine::driver::Driver;
use thermocline_engine::{Cleaning, Engine, Request, RequestError, Shard};
use thermocline_nbd::doors::Doored;
use thermocline_nbd::server::Handle;
use thermocline_nbd::sharded::Sharded;
use thermocline_ublk::UblkRun;
use thermocline_vhost::VhostUser;
use tracing::{error, info, warn};

use self::board::Board;
use self::config::{Config, LogFormat};
use self::control::Control;
use self::devices::AnyDriver;
use self::instruments::Instruments;
use self::kept_note::{Left, Note};
use self::listening::listen;
use self::members::{Member, News, Snapshots, StopsAll};
use self::page::Process;
use self::shadows::Watching;
use self::watchdog::Watchdog;
use crate::arguments::ServeOptions;

/// How long the engine waits at its end for devices of which nothing succeeds, and how often it looks.
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
    let config = Config::read(path)?;
    let in_file = || format!("in `{}`", path.display());
    let shadow_options = shadows::options(&config).with_context(in_file)?;
    // Before the devices are opened: a name that this system lacks changes nothing.
    config.nbd.socket_access().with_context(in_file)?;
    if let Some(section) = &config.vhost_user {
        section.access().with_context(in_file)?;
    }
    if options.check {
        config.try_policy().with_context(in_file)?;
        return Ok(format!("`{}` can be served\n", path.display()));
    }
    start_log(&config);
    let metrics = config.metrics.map(|metrics| board::bind(metrics.listen)).transpose()?;
    let mut opened = devices::open(&config, options.force_init)?;
    let note = opened.note.clone();
    let control = Control::new(config.clone(), opened.engines[0].shard().options().size_bytes());
    let instruments = opened
        .engines
        .iter_mut()
        .map(|engine| {
            let shadows = shadow_options.clone();
            Instruments::new(&config, shadows, note.clone(), engine.shard_mut())
        })
        .collect::<Result<Vec<_>>>()?;
    let services = Sharded::all(opened.engines, config.shard_map())
        .context("the shards cannot be joined")?
        .into_iter()
        .zip(&instruments)
        .map(|(service, instruments)| service.with_meter(instruments.meter()));
    let (servers, ways) = listen(&config, services.collect())?;
    let all = servers.iter().skip(1).fold(servers[0].handle(), |all, one| all.and(one.handle()));
    if let Some(note) = &note {
        note.is_served_by(all.clone());
    }
    control.start(all.clone())?;
    // Clients may connect, and no write is served yet.
    let begins = opened.beginning.start(all.clone(), servers.len())?;
    let board = Board::default();
    if let Some(listener) = metrics {
        let process = Process { configuration: std::path::absolute(path)?, id: std::process::id() };
        let address = board::start(listener, board.clone(), process)?;
        info!(%address, "metrics are served");
    }
    let snapshots = Snapshots::new(board, servers.len());
    let news = News::new(servers.len());
    let serving = Serving {
        snapshots: &snapshots,
        news: &news,
        control: &control,
        options,
        note: note.as_deref(),
        all: &all,
    };
    let members = servers.into_iter().zip(begins).zip(&instruments);
    let members = members
        .map(|((server, begins), instruments)| Member::new(server, begins, instruments, &config))
        .collect();
    let device = ways.device.map(|device| block_device::begin(device, &all)).transpose()?;
    let served = serve(members, &serving, &config, note.as_ref());
    leave_ways(served, ways.machines, device)
}

/// Ends what led to the shards beside the clients' sockets, once these have ended so.
fn leave_ways(
    served: Result<()>,
    machines: Option<VhostUser>,
    device: Option<UblkRun>,
) -> Result<String> {
    if served.is_ok() {
        device.iter().for_each(UblkRun::settle);
        machines.iter().for_each(VhostUser::settle);
    }
    // Their monitors keep trying until the next start, and keep their requests until then.
    drop(machines);
    let ended = device.map_or(Ok(()), UblkRun::end);
    served?;
    ended.context("[ublk]")?;
    Ok(String::new())
}

/// What all shards have besides clients and devices.
#[derive(Clone, Copy)]
struct Serving<'a> {
    snapshots: &'a Snapshots,
    news: &'a News,
    control: &'a Control,
    options: &'a ServeOptions,
    note: Option<&'a Note>,
    /// The servers of all shards.
    all: &'a Handle,
}

/// Serves until a signal ends it, and leaves the devices in order.
fn serve(
    members: Vec<Member<'_>>,
    serving: &Serving<'_>,
    config: &Config,
    note: Option<&Arc<Note>>,
) -> Result<()> {
    let wants_reload = Arc::new(AtomicBool::new(false));
    watch_signals(serving.all, &wants_reload)?;
    start_clocks(serving.all, note)?;
    let mut watchdog = Watchdog::from_environment();
    tell_service_manager(NotifyState::Ready);
    info!(policy = config.policy.name, shards = members.len(), "serving");
    let mut drains = config.cleaning.drain_at_exit;
    let mut ended = vec![];
    std::thread::scope(|scope| -> Result<()> {
        let mut members = members.into_iter();
        let mut first = members.next().context("there is a shard at least")?;
        let mut others = vec![];
        for mut member in members {
            let name = format!("shard {}", others.len() + 1);
            let work = move || {
                let _stops = StopsAll(serving.all);
                member.run(serving).map(|()| member)
            };
            let thread = std::thread::Builder::new().name(name).spawn_scoped(scope, work);
            others.push(thread.context("cannot start the thread of a shard")?);
        }
        let served = {
            let _stops = StopsAll(serving.all);
            first.run_first(serving, &wants_reload, &mut drains, &mut watchdog)
        };
        tell_service_manager(NotifyState::Stopping);
        info!("leaving");
        ended.push(served.map(|()| first));
        for thread in others {
            ended.push(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        Ok(())
    })?;
    let mut engines = vec![];
    for member in ended {
        let Member { server, mut begins, instruments, .. } = member?;
        instruments.end_recording();
        for service in server.into_services() {
            let mut engine = service.into_inner().into_engine();
            begins.finish(engine.shard_mut())?;
            engines.push(engine);
        }
    }
    let left = engines.into_iter().map(|engine| leave(engine, drains, &mut watchdog));
    let left = left.reduce(|(one, is_durable), (other, is_other_durable)| {
        (one.and(other), is_durable && is_other_durable)
    });
    let (left, is_durable) = left.context("there is a shard at least")?;
    if let Some(note) = note {
        note.end(left)?;
    }
    ensure!(
        is_durable,
        "not everything could be made durable: writes that no client flushed may be lost"
    );
    Ok(())
}

/// Starts the threads that wake the shards, and that try to write the note again.
fn start_clocks(server: &Handle, note: Option<&Arc<Note>>) -> Result<()> {
    let handle = server.clone();
    std::thread::Builder::new()
        .name("clock".into())
        .spawn(move || {
            loop {
                std::thread::sleep(SNAPSHOT_INTERVAL);
                handle.wake();
            }
        })
        .context("cannot start the clock's thread")?;
    if let Some(note) = note.cloned() {
        std::thread::Builder::new()
            .name("note".into())
            .spawn(move || {
                loop {
                    std::thread::sleep(NOTE_INTERVAL);
                    note.retry();
                }
            })
            .context("cannot start the note's thread")?;
    }
    Ok(())
}

/// Reads the configuration again, and has the first shard take it over: all of it, or nothing.
fn reload(
    serving: &Serving<'_>,
    service: &mut Service,
    instruments: &Instruments,
) -> Result<Config> {
    let path = serving.options.config.as_ref().context("there is no configuration")?;
    let config = Config::read(path)?;
    let shards = service.inner_mut().engine_mut().shard().options().share.map.number();
    ensure!(
        config.shards == shards,
        "`shards`: {shards} serve until the flash is drained and the server is started again"
    );
    let tls = listening::certificates(&config)?;
    take_over(&config, Some(shadows::options(&config)?), service, instruments)?;
    if let Some(tls) = tls {
        serving.all.set_tls(tls);
    }
    info!("the configuration was read again; sizes, devices and addresses change with a restart");
    Ok(config)
}

/// Takes over what can change while clients are served; all of it, or nothing. What the first shard took
/// over all can, because they are alike.
fn take_over(
    config: &Config,
    shadow_options: Option<Vec<shadows::Wanted>>,
    service: &mut Service,
    instruments: &Instruments,
) -> Result<()> {
    let may_write = service.inner_mut().engine_mut().driver().may_write();
    ensure!(
        may_write || config.write_mode == config::Mode::ReadOnly,
        "`write_mode`: the backing store takes no writes"
    );
    let shard = service.inner_mut().engine_mut().shard_mut();
    let shards = u32::from(shard.options().share.map.number().get());
    let policy = config.policy_options()?;
    let rating = config.flash_rated_written_bytes()?;
    let shadow_options = shadow_options.unwrap_or_default();
    let shadows = Watching::new(shadow_options, config, shard.options())?;
    let given: Vec<_> =
        policy.values.iter().map(|(name, value)| (name, value.to_string())).collect();
    let current = &shard.options().policy;
    let now: Vec<_> =
        current.values.iter().map(|(name, value)| (name, value.to_string())).collect();
    let needs_flash = policy.entry.capabilities.depth != Depth::Ram;
    let is_another = current.entry.name != policy.entry.name
        || given != now
        || current.write_miss != policy.write_miss;
    let may_run = shard.has_flash() || !needs_flash;
    if is_another && may_run {
        shard.check_policy(&policy).context("`policy`")?;
    }
    // The last step that may fail.
    instruments.set_recording(config.record.as_ref(), shard.options())?;
    if !may_run {
        warn!(policy = &*policy.entry.name, "there is no flash: the policy stays until a restart");
    } else if is_another {
        info!(policy = &*policy.entry.name, "another policy takes over");
        shard.set_policy(policy).context("`policy`")?;
    }
    shard.set_write_mode(config.write_mode.into_engine());
    config.cleaning.apply(shard);
    let budget = config.flash.as_ref().and_then(|flash| flash.write_budget_gib_per_day);
    shard.set_flash_write_budget(budget.map(|gib| gib / f64::from(shards)));
    instruments.set_flash_rating(rating);
    instruments.set_shadows(shadows);
    Ok(())
}

/// Makes everything durable, on disk or on flash, and lets go of the devices. Returns how that left the
/// engine, and whether everything is durable.
fn leave(mut engine: Engine<AnyDriver>, drains: bool, watchdog: &mut Watchdog) -> (Left, bool) {
    if drains {
        info!(dirty_pages = engine.shard().dirty_slots(), "writing back what the disk lacks");
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
        error!(%error, "not everything could be made durable");
    }
    come_to_rest(&mut engine, watchdog);
    let flushed = take_reply(&mut engine, LAST_FLUSH);
    match flushed {
        Some(Ok(())) => {}
        Some(Err(error)) => error!(%error, "not everything could be made durable"),
        None => error!("not everything could be made durable: the flush was not answered"),
    }
    let lost = engine.shard().lost_pages();
    if !lost.is_empty() {
        warn!(pages = lost.len(), "pages whose newest bytes are lost");
    }
    let shard = engine.shard();
    let is_durable = flushed == Some(Ok(()));
    if is_durable {
        info!(dirty_pages = shard.dirty_slots(), "left in order");
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
            error!("the devices do not answer, or fail");
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
        warn!(%error, "the service manager cannot be told");
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
