//! `[vhost_user]` and `[ublk]`: an export as a disk of virtual machines, and of this machine.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use serde::Deserialize;
use thermocline_nbd::server::SocketAccess;
use thermocline_ublk::{DEPTH_MAX, DEVICES_MAX};
use thermocline_vhost::QUEUES_MAX;

use super::clients::{Account, SocketMode, socket_access};

/// A Unix socket for the monitors of virtual machines.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VhostUserSection {
    pub(crate) socket: PathBuf,
    socket_mode: Option<SocketMode>,
    socket_owner: Option<Account>,
    socket_group: Option<Account>,
    #[serde(default = "default_queues")]
    pub(crate) queues: u16,
}

const fn default_queues() -> u16 {
    64
}

impl VhostUserSection {
    /// Refuses what cannot work.
    pub(super) fn check(&self) -> Result<()> {
        let queues = self.queues;
        ensure!(
            (1..=QUEUES_MAX).contains(&queues),
            "`vhost_user.queues` is {queues}: it must be from 1 to {QUEUES_MAX}"
        );
        Ok(())
    }

    /// Permissions of the socket.
    pub(crate) fn access(&self) -> Result<SocketAccess> {
        let (owner, group) = (self.socket_owner.as_ref(), self.socket_group.as_ref());
        socket_access("vhost_user", self.socket_mode, owner, group)
    }
}

/// A device that `ublk_drv` makes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UblkSection {
    pub(crate) id: u32,
    #[serde(default = "default_depth")]
    pub(crate) queue_depth: u16,
    #[serde(default)]
    pub(crate) keep_at_exit: bool,
    pub(crate) note: Option<PathBuf>,
}

const fn default_depth() -> u16 {
    128
}

impl UblkSection {
    /// Refuses what cannot work.
    pub(super) fn check(&self) -> Result<()> {
        let Self { id, queue_depth: depth, .. } = *self;
        ensure!(id < DEVICES_MAX, "`ublk.id` is {id}: it must be below {DEVICES_MAX}");
        ensure!(
            (1..=DEPTH_MAX).contains(&depth),
            "`ublk.queue_depth` is {depth}: it must be from 1 to {DEPTH_MAX}"
        );
        Ok(())
    }
}
