//! Sockets of virtual machines.

use anyhow::{Context as _, Result};
use thermocline_nbd::doors::Door;
use thermocline_nbd::protocol::{ExportInfo, transmission_flag as flag};
use thermocline_nbd::server::bind_unix;
use thermocline_vhost::{Device, VhostUser};
use tracing::info;

use super::config::VhostUserSection;

/// The serial number that guests see of an export without a name.
const ID: &str = "thermocline";

/// The doors of each shard.
pub(super) type Doors = Vec<Vec<Box<dyn Door>>>;

impl VhostUserSection {
    /// Listen for virtual machines, and spread their rings over the shards.
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
