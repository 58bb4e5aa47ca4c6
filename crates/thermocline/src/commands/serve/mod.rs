//! `thermocline serve`: the engine over NBD, and as a disk of virtual machines.

mod advice;
mod beside_note;
mod block_device;
mod board;
mod changes;
mod choices;
mod choosing_status;
mod cleaning;
pub(crate) mod config;
pub(crate) mod control;
mod departure;
pub(crate) mod devices;
mod ending;
mod epoch;
mod exchange;
mod exposition;
pub(crate) mod faults;
mod flash_growth;
mod flash_room;
mod found_backing;
mod found_shares;
mod growth;
mod history;
mod http;
mod instruments;
mod joining;
mod kept_note;
mod listening;
mod members;
pub(crate) mod metrics;
pub(crate) mod mirrored;
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
mod shard_shares;
mod shared_flash;
mod sharing;
mod sharing_status;
pub(crate) mod start;
pub(crate) mod status;
mod virtual_machines;
mod volume;
mod watchdog;

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use sd_notify::NotifyState;
use thermocline_nbd::doors::Doored;
use thermocline_nbd::server::{Exports, Handle};
use thermocline_nbd::sharded::Sharded;
use thermocline_ublk::UblkRun;
use thermocline_vhost::VhostUser;
use tracing::{info, warn};

use self::board::Boards;
use self::changes::Changes;
use self::config::{Config, LogFormat, VhostUserSection, Volumes};
use self::control::Control;
use self::devices::AnyDriver;
use self::ending::{LeftBehind, leave_volumes};
use self::instruments::ClientActivity;
use self::listening::{Ways, listen};
use self::members::{Beats, Inboxes, Member, StopsAll};
use self::page::Process;
use self::ranges::VolumeRanges;
use self::shadows::Wanted;
use self::sharing::Sharing;
use self::volume::{Notes, Prepared, Seat, Served};
use self::watchdog::Watchdog;
use crate::arguments::ServeOptions;

/// Interval at which the figures of the metrics are renewed.
const SNAPSHOT_INTERVAL: Duration = Duration::from_millis(250);

/// Interval at which a note that could not be written is tried again.
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
                devices::check_distinct(config)?;
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
    let listens = configs.shared().metrics;
    let metrics = listens.map(|metrics| board::bind(metrics.listen)).transpose()?;
    let (configs, opened, flash) = opening::open(configs, options)?;
    let (configs, shared) = (&configs, configs.shared());
    let ranges = VolumeRanges::default();
    let boards = Boards::new(configs.are_named());
    let mut ways = Ways::default();
    let mut volumes = vec![];
    for ((config, opened), shadows) in configs.each().iter().zip(opened).zip(shadow_options) {
        let prepared = Prepared::new(configs, config, opened, &shadows, &mut ways);
        let prepared = configs.within(config, prepared)?;
        boards.add(&prepared.volume.name, prepared.volume.board.clone());
        ranges.add(&prepared.volume.name, &prepared.volume.ranges);
        volumes.push(prepared);
    }
    let served = Served::default();
    for prepared in &volumes {
        served.add(&prepared.volume);
    }
    let members = flash.members.clone();
    let control = Control::new(configs, ranges.clone(), served.clone(), members.clone());
    let servers = listen(configs, volumes.iter_mut().map(Prepared::take_exports).collect())?;
    let all = servers.iter().skip(1).fold(servers[0].handle(), |all, one| all.and(one.handle()));
    let _socket = control.start(all.clone())?;
    let mut threads: Vec<Member> = servers
        .into_iter()
        .enumerate()
        .map(|(number, server)| Member { number, server, seats: vec![] })
        .collect();
    let notes = Notes::default();
    for (place, prepared) in volumes.into_iter().enumerate() {
        let (_, seats) = prepared.begin(&all, &notes)?;
        for (member, seat) in threads.iter_mut().zip(seats) {
            member.seats.push(Seat { place, ..seat });
        }
    }
    if let Some(listener) = metrics {
        let process = Process { configuration: std::path::absolute(path)?, id: std::process::id() };
        let address = board::start(listener, boards.clone(), process)?;
        info!(%address, "serving metrics");
    }
    let notes_of_all = notes.clone();
    let shared_changes =
        changes::Shared { flash, all: all.clone(), boards, ranges, notes: notes_of_all, served };
    let changes = Changes::start(shared_changes, Sharing::all(configs)?)?;
    let beats = Beats::new(threads.len());
    let inboxes = Inboxes::new(threads.len());
    let serving = Serving {
        shards: shared.shards,
        are_named: configs.are_named(),
        inboxes: &inboxes,
        beats: &beats,
        control: &control,
        options,
        all: &all,
    };
    let devices = ways.devices.into_iter().map(|device| block_device::begin(device, &all));
    let devices = devices.collect::<Result<Vec<_>>>()?;
    if let Some(members) = members {
        members.begin_waiting()?;
    }
    let served = serve(threads, &serving, changes, notes);
    leave_ways(served, ways.machines, devices)
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

/// State that all threads share, except for clients and devices.
#[derive(Clone, Copy)]
struct Serving<'a> {
    shards: NonZeroU16,
    /// `true` if the configuration has `[[volume]]`.
    are_named: bool,
    inboxes: &'a Inboxes,
    beats: &'a Beats,
    control: &'a Control,
    options: &'a ServeOptions,
    /// The servers of all shards.
    all: &'a Handle,
}

impl Serving<'_> {
    /// Return the activity of the clients of a thread that use a volume.
    fn clients(&self, server: &Handle, exports: &Exports<Service>, place: usize) -> ClientActivity {
        ClientActivity {
            clients: if self.are_named { exports.clients(place) } else { server.clients() },
            paced_requests: exports.paced_requests(place),
        }
    }
}

/// Serves until a signal ends it, and leaves the devices in order.
fn serve(
    members: Vec<Member>,
    serving: &Serving<'_>,
    mut changes: Changes,
    notes: Notes,
) -> Result<()> {
    let wants_reload = Arc::new(AtomicBool::new(false));
    watch_signals(serving.all, &wants_reload)?;
    start_clocks(serving.all.clone(), notes)?;
    let mut watchdog = Watchdog::from_environment();
    tell_service_manager(NotifyState::Ready);
    info!(volumes = members[0].seats.len(), shards = members.len(), "serving");
    let mut ended = vec![];
    std::thread::scope(|scope| -> Result<()> {
        let mut members = members.into_iter();
        let mut first = members.next().context("there is a shard at least")?;
        let mut others = vec![];
        for mut member in members {
            let name = format!("shard {}", member.number);
            let work = move || {
                // Also after a panic: without one of its shards, no volume can be served.
                let _stops = StopsAll(serving.all);
                member.run(serving).map(|()| member)
            };
            let thread = std::thread::Builder::new().name(name).spawn_scoped(scope, work);
            others.push(thread.context("cannot start the thread of a shard")?);
        }
        let served = {
            let _stops = StopsAll(serving.all);
            first.run_first(serving, &wants_reload, &mut changes, &mut watchdog)
        };
        tell_service_manager(NotifyState::Stopping);
        info!("leaving");
        ended.push(served.map(|()| first));
        for thread in others {
            ended.push(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        Ok(())
    })?;
    let (mut parts, departing) = changes.finish(&mut || watchdog.beat());
    let mut left = LeftBehind::default();
    // The first thread comes first: what that took over last counts for all.
    for member in ended {
        let Member { number, server, seats } = member?;
        let mut services: BTreeMap<usize, Service> =
            server.into_exports().into_services().collect();
        for seat in seats {
            let service = services.remove(&seat.place).context("each seat has its export")?;
            left.add(service, seat);
        }
        parts.extend(serving.inboxes.take(number));
    }
    for part in parts {
        let (service, seat) = part.into_parts();
        left.add(service, seat);
    }
    leave_volumes(left.into_volumes(departing), serving.are_named, &mut || watchdog.beat())
}

/// Starts the threads that wake the shards, and that write notes and choices.
fn start_clocks(all: Handle, notes: Notes) -> Result<()> {
    std::thread::Builder::new()
        .name("clock".into())
        .spawn(move || {
            loop {
                std::thread::sleep(SNAPSHOT_INTERVAL);
                all.wake();
            }
        })
        .context("cannot start the clock's thread")?;
    // Not the clock's thread: a device may keep the note waiting, and the clock must go on.
    std::thread::Builder::new()
        .name("note".into())
        .spawn(move || {
            loop {
                std::thread::sleep(NOTE_INTERVAL);
                notes.store();
            }
        })
        .context("cannot start the note's thread")?;
    Ok(())
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
