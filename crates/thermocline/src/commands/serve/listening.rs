//! Sockets and limits of clients.

use std::time::Duration;

use anyhow::{Context as _, Result};
use thermocline_nbd::codec::server::TlsMode;
use thermocline_nbd::doors::Doored;
use thermocline_nbd::server::tls::{Certificates, ServerTls};
use thermocline_nbd::server::{Export, Listen, Server, Settings};
use thermocline_nbd::sharded::Sharded;
use thermocline_ublk::Ublk;
use thermocline_vhost::VhostUser;
use tracing::{info, warn};

use super::Service;
use super::config::{Config, Volumes};
use super::devices::AnyDriver;
use super::virtual_machines::Doors;
use crate::bytes::Bytes;

/// Ways in beside the clients' sockets.
#[derive(Default)]
pub(super) struct Ways {
    /// Sockets of virtual machines.
    pub(super) machines: Vec<VhostUser>,
    /// Block devices that have not begun.
    pub(super) devices: Vec<Ublk>,
}

/// Opens all places to listen at. There is a server for each shard, with that shard of each volume; the
/// first one accepts the clients of all, and their limits are shared out.
pub(super) fn listen(
    configs: &Volumes,
    volumes: Vec<Vec<Export<Service>>>,
) -> Result<Vec<Server<Service>>> {
    let config = configs.shared();
    let nbd = &config.nbd;
    let shards = usize::from(config.shards.get());
    let clients_max = nbd.clients.unwrap_or(Settings::default().clients_max);
    let settings = settings(config, clients_max, shards)?;
    let mut exports: Vec<Vec<Export<Service>>> = (0..shards).map(|_| vec![]).collect();
    for volume in volumes {
        exports.iter_mut().zip(volume).for_each(|(exports, export)| exports.push(export));
    }
    let servers = exports.into_iter().map(|exports| Server::new(settings.clone(), exports));
    let mut servers = servers.collect::<Result<Vec<_>, _>>()?;
    let (server, others) = servers.split_first_mut().context("there is a shard at least")?;
    if !others.is_empty() {
        server.share_clients(others, clients_max);
    }
    let access = nbd.socket_access()?;
    // A service manager may hold the socket, and hand it over.
    let handed_over = listenfd::ListenFd::from_env().take_unix_listener(0);
    let handed_over = handed_over.context("the socket handed over is not a Unix socket")?;
    let unix = nbd.socket.as_ref().map(|path| match handed_over {
        Some(socket) => ("`nbd.socket`", Listen::UnixSocket(socket)),
        None => ("`nbd.socket`", Listen::UnixFor(path.clone(), access)),
    });
    if let Some(reason) = nbd.unauthenticated() {
        warn!(reason, "clients need no authentication");
    }
    let tcp = nbd.listen.map(|address| ("`nbd.listen`", Listen::Tcp(address)));
    for (key, place) in unix.into_iter().chain(tcp) {
        let name = place.to_string();
        let address = server.listen(place).context(key)?;
        info!(place = name, port = address.map(|address| address.port()), "waiting for clients");
    }
    Ok(servers)
}

/// Settings of each server: what is bounded for all clients is divided by the number of shards.
fn settings(config: &Config, clients_max: usize, shards: usize) -> Result<Settings> {
    let nbd = &config.nbd;
    let defaults = Settings::default();
    let bytes = |size: Option<Bytes>, default: usize| {
        size.map_or(default, |bytes| usize::try_from(bytes.0).unwrap_or(usize::MAX))
    };
    Ok(Settings {
        clients_max: clients_max.div_ceil(shards),
        client_bytes_max: bytes(nbd.client_in_flight, defaults.client_bytes_max),
        bytes_max: bytes(nbd.in_flight, defaults.bytes_max).div_ceil(shards),
        client_rates: nbd.client_rates(),
        spin: nbd.spin_us.map_or(defaults.spin, Duration::from_micros),
        send_limit: nbd.send_timeout.map_or(defaults.send_limit, Duration::from_secs),
        idle_limit: (nbd.idle_timeout > 0).then(|| Duration::from_secs(nbd.idle_timeout)),
        allow_remote: nbd.remote,
        tls: certificates(config)?.map(|tls| (tls, TlsMode::Required)),
        ..defaults
    })
}

/// Return the export of a volume in each server, with its doors besides the NBD sockets. The socket for virtual
/// machines is open as long as `ways` keeps it.
pub(super) fn export(
    config: &Config,
    services: Vec<Sharded<AnyDriver>>,
    ways: &mut Ways,
) -> Result<Vec<Export<Service>>> {
    let shards = services.len();
    let description = format!("cached by {}", config.policy.name);
    let infos: Vec<_> =
        services.iter().map(|service| service.info(&config.nbd.export, &description)).collect();
    let info = infos.first().context("there is a shard at least")?;
    let mut doors: Doors = (0..shards).map(|_| vec![]).collect();
    let mut add = |more: Doors| doors.iter_mut().zip(more).for_each(|(of, more)| of.extend(more));
    if let Some(section) = &config.vhost_user {
        let (machines, more) = section.start(info, shards).context("[vhost_user]")?;
        ways.machines.extend(machines);
        add(more);
    }
    if let Some(section) = &config.ublk {
        let place = config.backing.place();
        let (device, more) = section.prepare(&place, info, shards).context("[ublk]")?;
        ways.devices.push(device);
        add(more);
    }
    let each = services.into_iter().zip(infos).zip(doors).map(|((service, info), doors)| Export {
        service: Doored::new(service, info.size_bytes, doors),
        info,
    });
    Ok(each.collect())
}

/// Reads the certificates, if there are any.
pub(super) fn certificates(config: &Config) -> Result<Option<ServerTls>> {
    let Some(tls) = &config.nbd.tls else { return Ok(None) };
    let certificates = Certificates {
        certificate: tls.certificate.clone(),
        key: tls.key.clone(),
        client_roots: tls.client_roots.clone(),
    };
    certificates.load().map(Some).context("[nbd.tls]")
}
