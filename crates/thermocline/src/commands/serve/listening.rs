//! Where clients connect.

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
use super::config::Config;
use super::devices::AnyDriver;
use super::virtual_machines::Doors;
use crate::bytes::Bytes;

/// Ways in beside the clients' sockets.
pub(super) struct Ways {
    /// Where virtual machines connect.
    pub(super) machines: Option<VhostUser>,
    /// A block device that has not begun.
    pub(super) device: Option<Ublk>,
}

/// The servers of all shards, and what else leads to them.
pub(super) type Listening = (Vec<Server<Service>>, Ways);

/// Opens all places to listen at. There is a server for each shard; the first one accepts the clients of all,
/// and their limits are shared out. The place where virtual machines connect is open as long as what is
/// returned for it.
pub(super) fn listen(config: &Config, services: Vec<Sharded<AnyDriver>>) -> Result<Listening> {
    let nbd = &config.nbd;
    let defaults = Settings::default();
    let bytes = |size: Option<Bytes>, default: usize| {
        size.map_or(default, |bytes| usize::try_from(bytes.0).unwrap_or(usize::MAX))
    };
    let shards = services.len();
    let clients_max = nbd.clients.unwrap_or(defaults.clients_max);
    let settings = Settings {
        clients_max: clients_max.div_ceil(shards),
        client_bytes_max: bytes(nbd.client_in_flight, defaults.client_bytes_max),
        bytes_max: bytes(nbd.in_flight, defaults.bytes_max).div_ceil(shards),
        spin: nbd.spin_us.map_or(defaults.spin, Duration::from_micros),
        send_limit: nbd.send_timeout.map_or(defaults.send_limit, Duration::from_secs),
        idle_limit: (nbd.idle_timeout > 0).then(|| Duration::from_secs(nbd.idle_timeout)),
        allow_remote: nbd.remote,
        tls: certificates(config)?.map(|tls| (tls, TlsMode::Required)),
        ..defaults
    };
    let description = format!("cached by {}", config.policy.name);
    let infos: Vec<_> =
        services.iter().map(|service| service.info(&nbd.export, &description)).collect();
    let info = infos.first().context("there is a shard at least")?;
    let mut ways = Ways { machines: None, device: None };
    let mut doors: Doors = (0..shards).map(|_| vec![]).collect();
    let mut add = |more: Doors| doors.iter_mut().zip(more).for_each(|(of, more)| of.extend(more));
    if let Some(section) = &config.vhost_user {
        let (machines, more) = section.start(info, shards).context("[vhost_user]")?;
        ways.machines = machines;
        add(more);
    }
    if let Some(section) = &config.ublk {
        let place = config.backing.place();
        let (device, more) = section.prepare(&place, info, shards).context("[ublk]")?;
        ways.device = Some(device);
        add(more);
    }
    let mut servers = vec![];
    for ((service, info), doors) in services.into_iter().zip(infos).zip(doors) {
        let service = Doored::new(service, info.size_bytes, doors);
        servers.push(Server::new(settings.clone(), vec![Export { info, service }])?);
    }
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
        warn!(reason, "clients are not authenticated");
    }
    let tcp = nbd.listen.map(|address| ("`nbd.listen`", Listen::Tcp(address)));
    for (key, place) in unix.into_iter().chain(tcp) {
        let name = place.to_string();
        let address = server.listen(place).context(key)?;
        info!(place = name, port = address.map(|address| address.port()), "waiting for clients");
    }
    Ok((servers, ways))
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
