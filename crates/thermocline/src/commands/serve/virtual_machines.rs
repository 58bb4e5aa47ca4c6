//! Where virtual machines connect, and who may.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use thermocline_nbd::doors::Door;
use thermocline_nbd::protocol::{ExportInfo, transmission_flag as flag};
use thermocline_nbd::server::{SocketAccess, bind_unix};
use thermocline_vhost::{Device, QUEUES_MAX, VhostUser};
use tracing::info;

use super::listening::{Account, SocketMode, socket_access};

/// The serial number that guests see of an export without a name.
const ID: &str = "thermocline";

/// A Unix socket for the monitors of virtual machines.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VhostUserSection {
    pub(crate) socket: PathBuf,
    socket_mode: Option<SocketMode>,
    socket_owner: Option<Account>,
    socket_group: Option<Account>,
    #[serde(default = "default_queues")]
    queues: u16,
}

/// The doors of each shard.
pub(super) type Doors = Vec<Vec<Box<dyn Door>>>;

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

    /// Who may connect.
    pub(super) fn access(&self) -> Result<SocketAccess> {
        let (owner, group) = (self.socket_owner.as_ref(), self.socket_group.as_ref());
        socket_access("vhost_user", self.socket_mode, owner, group)
    }

    /// Listens for virtual machines, whose rings are shared out to so many shards.
    pub(super) fn start(
        &self,
        export: &ExportInfo,
        shards: usize,
    ) -> Result<(Option<VhostUser>, Doors)> {
        let listener = bind_unix(&self.socket, self.access()?)
            .with_context(|| format!("cannot listen at `{}`", self.socket.display()))?;
        let device = Device {
            size_bytes: export.size_bytes,
            preferred_bytes: export.block_sizes.preferred_bytes,
            may_write: export.flags & flag::READ_ONLY == 0,
            id: if export.name.is_empty() { ID.to_owned() } else { export.name.clone() },
            queues: self.queues,
        };
        let (socket, doors) = VhostUser::start(listener, Some(&self.socket), device, shards)?;
        info!(place = %self.socket.display(), "waiting for virtual machines");
        let doors = doors.into_iter().map(|door| vec![Box::new(door) as Box<dyn Door>]);
        Ok((Some(socket), doors.collect()))
    }
}
