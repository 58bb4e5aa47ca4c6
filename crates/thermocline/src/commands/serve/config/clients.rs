//! `[nbd]`: where clients connect, and who may.

use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use nix::unistd::{Group, User};
use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use thermocline_nbd::server::{ClientRates, SocketAccess};

use super::watching::address;
use super::{Config, UblkSection, VhostUserSection};
use crate::bytes::Bytes;

/// The permission bits of a socket's file, written in octal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SocketMode(u32);

/// Sockets and limits of clients.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nbd {
    pub(crate) socket: Option<PathBuf>,
    pub(crate) socket_mode: Option<SocketMode>,
    pub(crate) socket_owner: Option<Account>,
    pub(crate) socket_group: Option<Account>,
    #[serde(default, deserialize_with = "optional_address")]
    pub(crate) listen: Option<SocketAddr>,
    #[serde(default)]
    pub(crate) export: String,
    #[serde(default)]
    pub(crate) remote: bool,
    #[serde(default)]
    pub(crate) allow_unauthenticated: bool,
    pub(crate) clients: Option<usize>,
    pub(crate) client_in_flight: Option<Bytes>,
    pub(crate) in_flight: Option<Bytes>,
    #[serde(default)]
    pub(crate) client_requests_per_second: u64,
    pub(crate) client_bytes_per_second: Option<Bytes>,
    pub(crate) spin_us: Option<u64>,
    pub(crate) send_timeout: Option<u64>,
    #[serde(default)]
    pub(crate) idle_timeout: u64,
    pub(crate) tls: Option<Tls>,
}

/// Certificates.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tls {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) client_roots: Option<PathBuf>,
}

/// A user or a group, by name or by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Account {
    Name(String),
    Number(u32),
}

fn optional_address<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SocketAddr>, D::Error> {
    address(deserializer).map(Some)
}

impl<'de> Deserialize<'de> for SocketMode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let mode = u32::from_str_radix(&text, 8).ok().filter(|mode| *mode <= 0o777);
        mode.map(Self).ok_or_else(|| {
            let wanted = &"permissions in octal, from \"0000\" to \"0777\", as in \"0660\"";
            de::Error::invalid_value(de::Unexpected::Str(&text), wanted)
        })
    }
}

impl<'de> Deserialize<'de> for Account {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AccountVisitor;

        impl Visitor<'_> for AccountVisitor {
            type Value = Account;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a name, as in \"disk\", or a number")
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Account, E> {
                // The greatest number means no change to the system.
                let number = u32::try_from(value).ok().filter(|number| *number != u32::MAX);
                let number =
                    number.ok_or_else(|| E::invalid_value(de::Unexpected::Signed(value), &self));
                number.map(Account::Number)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Account, E> {
                Ok(Account::Name(text.to_owned()))
            }
        }

        deserializer.deserialize_any(AccountVisitor)
    }
}

impl Account {
    /// Return the number of a user.
    fn user(&self) -> Result<u32> {
        let name = match self {
            Self::Number(number) => return Ok(*number),
            Self::Name(name) => name,
        };
        let user = User::from_name(name).context("cannot look up users")?;
        let user = user.with_context(|| format!("this system has no user `{name}`"))?;
        Ok(user.uid.as_raw())
    }

    /// Return the number of a group.
    fn group(&self) -> Result<u32> {
        let name = match self {
            Self::Number(number) => return Ok(*number),
            Self::Name(name) => name,
        };
        let group = Group::from_name(name).context("cannot look up groups")?;
        let group = group.with_context(|| format!("this system has no group `{name}`"))?;
        Ok(group.gid.as_raw())
    }
}

impl Config {
    /// Refuses ways in that cannot work, and a server without any.
    pub(super) fn check_doors(&self) -> Result<()> {
        let has_nbd = self.nbd.socket.is_some() || self.nbd.listen.is_some();
        ensure!(
            has_nbd || self.vhost_user.is_some() || self.ublk.is_some(),
            "[nbd] takes a `socket`, a `listen` address, or both; or give [vhost_user] a `socket`, or [ublk] an `id`"
        );
        self.ublk.as_ref().map_or(Ok(()), UblkSection::check)?;
        self.vhost_user.as_ref().map_or(Ok(()), VhostUserSection::check)?;
        self.nbd.check()
    }
}

/// Permissions of a section's Unix socket.
pub(super) fn socket_access(
    section: &str,
    mode: Option<SocketMode>,
    owner: Option<&Account>,
    group: Option<&Account>,
) -> Result<SocketAccess> {
    let default = SocketAccess::default();
    let owner = owner.map(Account::user).transpose();
    let group = group.map(Account::group).transpose();
    Ok(SocketAccess {
        mode: mode.map_or(default.mode, |mode| mode.0),
        owner: owner.with_context(|| format!("`{section}.socket_owner`"))?,
        group: group.with_context(|| format!("`{section}.socket_group`"))?,
    })
}

impl Nbd {
    /// Refuses places to listen at that cannot work or that let in more clients than the user may
    /// expect.
    pub(super) fn check(&self) -> Result<()> {
        let keys = [
            ("socket_mode", self.socket_mode.is_some()),
            ("socket_owner", self.socket_owner.is_some()),
            ("socket_group", self.socket_group.is_some()),
        ];
        for (key, is_given) in keys {
            ensure!(
                !is_given || self.socket.is_some(),
                "`nbd.{key}` is for a Unix socket: it needs `nbd.socket`"
            );
        }
        if let Some(address) = self.listen {
            ensure!(
                self.remote || address.ip().is_loopback(),
                "`nbd.listen`: {address} can be reached from other machines; `nbd.remote = true` \
                 allows that"
            );
        }
        ensure!(
            self.tls.is_none() || self.listen.is_some(),
            "[nbd.tls] is for TCP: it needs `nbd.listen`"
        );
        if let Some(reason) = self.unauthenticated().filter(|_| !self.allow_unauthenticated) {
            bail!(
                "{reason}; give `nbd.tls.client_roots`, or accept that with \
                 `nbd.allow_unauthenticated = true`"
            );
        }
        Ok(())
    }

    /// Why clients that nobody knows can read and write the export over TCP, if they can. Only local
    /// programs reach a loopback address without TLS.
    pub(crate) fn unauthenticated(&self) -> Option<String> {
        let address = self.listen?;
        match &self.tls {
            Some(tls) => tls.client_roots.is_none().then(|| {
                "`nbd.tls` has no `client_roots`: every client may read and write the export".into()
            }),
            None => (!address.ip().is_loopback()).then(|| {
                format!(
                    "`nbd.listen`: without `nbd.tls`, everybody who reaches {address} may read and \
                     write the export, unencrypted"
                )
            }),
        }
    }

    /// Refuse rates in bytes at which a client would wait for a page for longer than a second.
    pub(super) fn check_rates(&self, page_size: Bytes) -> Result<()> {
        let bytes = self.client_bytes_per_second.unwrap_or(Bytes(0));
        ensure!(
            bytes.0 == 0 || bytes.0 >= page_size.0,
            "`nbd.client_bytes_per_second` is {} bytes: it must be at least a page, {} bytes, or 0 for no limit",
            bytes.0,
            page_size.0
        );
        Ok(())
    }

    /// Rates that each client may reach.
    pub(crate) fn client_rates(&self) -> ClientRates {
        ClientRates {
            requests_per_second: NonZeroU64::new(self.client_requests_per_second),
            bytes_per_second: self
                .client_bytes_per_second
                .and_then(|bytes| NonZeroU64::new(bytes.0)),
        }
    }

    /// Permissions of the Unix socket.
    pub(crate) fn socket_access(&self) -> Result<SocketAccess> {
        let (owner, group) = (self.socket_owner.as_ref(), self.socket_group.as_ref());
        socket_access("nbd", self.socket_mode, owner, group)
    }
}
